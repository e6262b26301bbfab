/* SPDX-License-Identifier: MIT
 *
 * The inputs on a command line: see sources.h.
 */
#include "cli/input/sources.h"

#include <stdlib.h>
#include <string.h>

#include "base/failure.h"

struct separator {
    bool files, link;
};

static bool read_separator(const char *word, struct separator *s)
{
    size_t colons = strspn(word, ":");
    const char *rest = word + colons;
    if (colons < 3 || colons > 4 || (rest[0] && strcmp(rest, "+") != 0))
        return false;
    *s = (struct separator){ .files = colons == 4, .link = *rest == '+' };
    return true;
}

bool cli_is_separator(const char *word)
{
    struct separator unused;
    return read_separator(word, &unused);
}

int cli_sources_add(struct cli_sources *s, struct cli_source source)
{
    struct cli_source *more = realloc(s->items, (s->n + 1) * sizeof *more);
    if (!more)
        return gd__fail("out of memory");
    s->items = more;
    more[s->n++] = source;
    return 0;
}

/* One group: the arguments after a separator. */
static int add_group(struct cli_sources *to, struct separator s, char **words, size_t n)
{
    if (s.link && to->n == 0)
        return gd__fail("%s pairs its inputs with those of the source before it: give another source first",
                        s.files ? "::::+" : ":::+");
    if (!s.files)
        return cli_sources_add(
            to, (struct cli_source){
                    .kind = CLI_SOURCE_WORDS, .link = s.link, .words = (const char *const *)words, .n_words = n });
    if (n == 0)
        return gd__fail("%s must be followed by the name of a file", s.link ? "::::+" : "::::");
    for (size_t i = 0; i < n; i++) {
        if (cli_sources_add(to, (struct cli_source){ .kind = CLI_SOURCE_FILE, .link = s.link, .path = words[i] }) < 0)
            return -1;
    }
    return 0;
}

int cli_sources_read(struct cli_sources *s, const struct cli_list *arg_files, struct cli_source_dir dir, int argc,
                     char **argv)
{
    for (size_t i = 0; i < arg_files->n; i++) {
        if (cli_sources_add(s, (struct cli_source){ .kind = CLI_SOURCE_FILE, .path = arg_files->items[i] }) < 0)
            return -1;
    }
    struct separator now, next;
    for (int at = 0; at < argc && read_separator(argv[at], &now);) {
        int end = at + 1;
        while (end < argc && !read_separator(argv[end], &next))
            end++;
        if (add_group(s, now, argv + at + 1, (size_t)(end - at - 1)) < 0)
            return -1;
        at = end;
    }
    if (!dir.path)
        return 0;
    if (s->n > 0)
        return gd__fail("%s cannot be combined with -a, ::: or ::::", dir.watch ? "--watch" : "--input-dir");
    return cli_sources_add(
        s, (struct cli_source){ .kind = dir.watch ? CLI_SOURCE_WATCH : CLI_SOURCE_DIR, .path = dir.path });
}

void cli_sources_free(struct cli_sources *s)
{
    free(s->items);
    *s = (struct cli_sources){ 0 };
}

int cli_order_parse(const char *text, enum gd_file_order *out)
{
    static const char *const names[] = { "size", "name", "none" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = (enum gd_file_order)i;
            return 0;
        }
    }
    return gd__fail("--order takes size, name or none, not \"%s\"", text);
}
