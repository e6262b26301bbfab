/* Parses what a user writes to choose devices.
 *
 *   spec    = "auto" | "all" | "sim:" count | "cpu" [":" count] | "free" [":" count] | part { "," part }
 *   part    = entry | group
 *   group   = entry "+" entry { "+" entry }
 *   entry   = number | number "-" number | number ":" number | "GPU-..." | "MIG-..."
 *
 * An entry of a group is one device, so it cannot be a range. Blanks around an entry are ignored. This file checks only
 * the syntax. select.c finds the devices.
 */
#include "gpu/spec.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "binding.h"

enum { NUMBER_MOST = 999999 };

static const struct {
    const char *word;
    enum gd__spec_kind kind;
    unsigned count; /* if no count is given; 0: a count is required */
} words[] = {
    { "auto", GD__SPEC_AUTO, 1 },
    { "all", GD__SPEC_AUTO, 1 },
    { "sim", GD__SPEC_SIM, 0 },
    { "cpu", GD__SPEC_CPU, 1 },
    { "free", GD__SPEC_FREE, GD__SPEC_ANY },
};

long gd__spec_number(const char *text, size_t length, long least, long most)
{
    long n = 0;
    if (length == 0)
        return -1;
    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)text[i]))
            return -1;
        n = n * 10 + (text[i] - '0');
        if (n > most)
            return -1;
    }
    return n < least ? -1 : n;
}

static int parse_count(struct gd__spec *out, const char *text, const char *count)
{
    if (out->kind == GD__SPEC_AUTO)
        return gd__error(GD_E_INVALID, "\"%s\": auto takes no number; write \"auto\"", text);
    const long n = gd__spec_number(count, strlen(count), 1, GD__SPEC_MOST);
    if (n < 0)
        return gd__error(GD_E_INVALID, "\"%s\": the number of devices must be 1 to %d, as in \"%.*s:4\"", text,
                         GD__SPEC_MOST, (int)(strcspn(text, ":")), text);
    out->count = (unsigned)n;
    return 0;
}

int gd__spec_parse(struct gd__spec *out, const char *text)
{
    *out = (struct gd__spec){ .kind = text ? GD__SPEC_LIST : GD__SPEC_ALL };
    if (!text)
        return 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t length = strlen(words[i].word);
        if (strncasecmp(text, words[i].word, length) != 0 || (text[length] != '\0' && text[length] != ':'))
            continue;
        out->kind = words[i].kind;
        out->count = words[i].count;
        if (text[length] == '\0' && words[i].count > 0)
            return 0;
        return parse_count(out, text, text + length + (text[length] == ':'));
    }
    return 0;
}

static int wrong_entry(const struct gd__spec_entry *e)
{
    return gd__error(
        GD_E_INVALID,
        "\"%.*s\" is not a GPU number (0), range (0-3), group (0+1), UUID (GPU-..., MIG-...), MIG instance "
        "(0:1), auto, free:N, sim:N or cpu:N",
        (int)e->length, e->text);
}

/* "3", "0-3", "0:1". */
static int parse_numbers(struct gd__spec_entry *e)
{
    const size_t left = strspn(e->text, "0123456789");
    const long first = gd__spec_number(e->text, left < e->length ? left : e->length, 0, NUMBER_MOST);
    long last = first;
    e->kind = GD__SPEC_NUMBERS;
    if (left < e->length) {
        if (e->text[left] != '-' && e->text[left] != ':')
            return wrong_entry(e);
        e->kind = e->text[left] == ':' ? GD__SPEC_MIG : GD__SPEC_NUMBERS;
        last = gd__spec_number(e->text + left + 1, e->length - left - 1, 0, NUMBER_MOST);
    }
    if (first < 0 || last < 0)
        return wrong_entry(e);
    if (e->in_group && e->kind == GD__SPEC_NUMBERS && left < e->length)
        return gd__error(GD_E_INVALID,
                         "the range %.*s is part of a group: write each GPU of a group by itself, as in 0+1+2",
                         (int)e->length, e->text);
    if (e->kind == GD__SPEC_NUMBERS && last < first)
        return gd__error(GD_E_INVALID, "the range %.*s is backwards; write %ld-%ld", (int)e->length, e->text, last,
                         first);
    e->first = (int)first;
    e->last = (int)last;
    return 1;
}

int gd__spec_next(const char *text, const char **at, struct gd__spec_entry *out)
{
    const char *end = *at + strlen(*at);
    if (*at > text && **at == '\0' && !strchr(",+", (*at)[-1]))
        return 0;
    *out = (struct gd__spec_entry){ .text = *at + strspn(*at, " \t") };
    const size_t whole = strcspn(out->text, ",+");
    out->goes_on = out->text[whole] == '+';
    out->in_group = out->goes_on || (*at > text && (*at)[-1] == '+');
    for (out->length = whole; out->length > 0 && isspace((unsigned char)out->text[out->length - 1]);)
        out->length--;
    *at = out->text + whole;
    if (*at < end)
        (*at)++;
    if (out->length == 0)
        return gd__error(GD_E_INVALID,
                         "an entry of the list is empty; write auto, or a list like 0,2 or 0-3 or 0+1,2+3");
    if (strncasecmp(out->text, "GPU-", 4) == 0 || strncasecmp(out->text, "MIG-", 4) == 0) {
        out->kind = GD__SPEC_NAME;
        return 1;
    }
    return parse_numbers(out);
}

int gd__spec_numbers(const char *text, gd__number_fn *fn, void *user)
{
    struct gd__spec spec;
    struct gd__spec_entry e;
    int rc = gd__spec_parse(&spec, text);
    if (rc < 0 || spec.kind != GD__SPEC_LIST)
        return rc < 0 ? rc : 0;
    for (const char *at = text; (rc = gd__spec_next(text, &at, &e)) > 0;) {
        if (e.kind != GD__SPEC_NUMBERS || e.in_group)
            return 0;
        for (int number = e.first; number <= e.last; number++)
            if (!fn(user, number))
                return 0;
    }
    return rc < 0 ? rc : 1;
}

bool gd__spec_is_free(const char *text)
{
    struct gd__spec spec;
    return gd__spec_parse(&spec, text) == 0 && spec.kind == GD__SPEC_FREE;
}
