/* Shell patterns for base names.
 *
 * Nearly all patterns have at most one star: "*", "*.wav", "take_*", "take_*.wav", "readme". They consist of a prefix
 * and a suffix, which are compared byte by byte. In all common encodings this gives the same result as comparing
 * characters. All other patterns are passed to fnmatch().
 *
 * As in a shell, a wildcard does not match a dot at the beginning of a name, unless hidden names are wanted.
 */
#include "launch/files/pattern.h"

#include <fnmatch.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum form { LITERAL, ONE_STAR, SHELL };

struct gd__pattern {
    enum form form;
    const char *text; /* the whole pattern; it begins with the prefix */
    const char *suffix;
    size_t prefix_length, suffix_length;
};

static struct gd__pattern take_apart(const char *text)
{
    const size_t length = strlen(text), plain = strcspn(text, "*?[\\");
    struct gd__pattern p = { SHELL, text, text + length, plain, 0 };
    if (plain == length) {
        p.form = LITERAL;
    } else if (text[plain] == '*' && !strpbrk(text + plain + 1, "*?[\\")) {
        p.form = ONE_STAR;
        p.suffix = text + plain + 1;
        p.suffix_length = length - plain - 1;
    }
    return p;
}

static int check(const char *text)
{
    if (!*text)
        return gd__error(GD_E_INVALID, "a pattern is empty: give a shell pattern for file names, like \"*.wav\"");
    if (strchr(text, '/'))
        return gd__error(GD_E_INVALID,
                         "the pattern \"%s\" contains '/': a pattern matches the name of a file without its directory. "
                         "Give the directory to search instead",
                         text);
    return 0;
}

int gd__patterns_open(struct gd__patterns *p, const char *const *list, bool hidden)
{
    *p = (struct gd__patterns){ .hidden = hidden };
    size_t n = 0;
    for (; list && list[n]; n++) {
        const int bad = check(list[n]);
        if (bad < 0)
            return bad;
    }
    if (n == 0)
        return 0;
    p->items = gd__calloc(n, sizeof *p->items);
    if (!p->items)
        return gd__error(GD_E_NO_MEMORY, "no memory for %zu patterns", n);
    for (; p->count < n; p->count++)
        p->items[p->count] = take_apart(list[p->count]);
    return 0;
}

void gd__patterns_close(struct gd__patterns *p)
{
    gd__free(p->items);
    *p = (struct gd__patterns){ 0 };
}

static bool match(const struct gd__pattern *p, const char *name, size_t length, bool hidden)
{
    switch (p->form) {
    case LITERAL:
        return length == p->prefix_length && memcmp(name, p->text, length) == 0;
    case ONE_STAR:
        if (length < p->prefix_length + p->suffix_length || (!hidden && *name == '.' && *p->text != '.'))
            return false;
        return memcmp(name + length - p->suffix_length, p->suffix, p->suffix_length) == 0 &&
               memcmp(name, p->text, p->prefix_length) == 0;
    case SHELL:
        break;
    }
    return fnmatch(p->text, name, hidden ? 0 : FNM_PERIOD) == 0;
}

bool gd__patterns_match(const struct gd__patterns *p, const char *name, size_t length)
{
    for (size_t i = 0; i < p->count; i++) {
        if (match(&p->items[i], name, length, p->hidden))
            return true;
    }
    return p->count == 0 && (p->hidden || *name != '.');
}
