/* SPDX-License-Identifier: MIT
 *
 * Parses and prints tables of options. The forms that a user may write:
 *
 *   --name value   --name=value   -x value   -xvalue   -abc (letters without values)
 *
 * Options end at the first argument that is not an option, or at "--", which is dropped. Long names must be complete.
 * An unknown name is an error, and the error message suggests the nearest name. Tables with as_python (options.h) allow
 * some more forms:
 *
 *   --long_name value   --switch True   --switch=no
 */
#include "cli/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/failure.h"
#include "base/text/parse.h"

enum { HELP_WIDTH = 80, HELP_INDENT = 27, MAX_NAMES = 192 };

/* --- storing ------------------------------------------------------------------ */

int cli_set_flag(const struct cli_opt *opt, void *field, const char *text)
{
    (void)opt;
    *(bool *)field = !text || strcmp(text, "no") != 0;
    return 0;
}

int cli_set_text(const struct cli_opt *opt, void *field, const char *text)
{
    (void)opt;
    *(const char **)field = text;
    return 0;
}

int cli_set_list(const struct cli_opt *opt, void *field, const char *text)
{
    (void)opt;
    struct cli_list *list = field;
    const char **items = realloc(list->items, (list->n + 2) * sizeof *items);
    if (!items)
        return gd__fail("out of memory");
    list->items = items;
    items[list->n++] = text;
    items[list->n] = NULL;
    return 0;
}

static int number(const struct cli_opt *opt, const char *text, uint64_t max, uint64_t *out)
{
    char name[64];
    snprintf(name, sizeof name, "--%s", opt->name);
    return gd__parse_number(name, text, opt->min, opt->max ? opt->max : max, out);
}

int cli_set_number(const struct cli_opt *opt, void *field, const char *text)
{
    uint64_t value;
    if (number(opt, text, UINT32_MAX, &value) < 0)
        return -1;
    *(unsigned *)field = (unsigned)value;
    return 0;
}

int cli_set_number64(const struct cli_opt *opt, void *field, const char *text)
{
    return number(opt, text, UINT64_MAX, field);
}

int cli_set_duration(const struct cli_opt *opt, void *field, const char *text)
{
    char why[256];
    if (gd__parse_duration(text, field) == 0)
        return 0;
    snprintf(why, sizeof why, "%s", gd__fail_text());
    return gd__fail("--%s: %s", opt->name, why);
}

int cli_refuse(const struct cli_opt *opt, void *field, const char *text)
{
    (void)field;
    if (text && (strcasecmp(text, "none") == 0 || strcmp(text, "no") == 0))
        return 0;
    return gd__fail("--%s is not possible: %s", opt->name, opt->refused);
}

/* --- parsing ------------------------------------------------------------------ */

static bool is_name(const struct cli_opts *o, const char *name, const char *word, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (word[i] != name[i] && !(o->as_python && word[i] == '_' && name[i] == '-'))
            return false;
    }
    return !name[length];
}

static const struct cli_opt *by_name(const struct cli_opts *o, const char *name, size_t length)
{
    for (const struct cli_opt *opt = o->table; opt->name; opt++) {
        if (is_name(o, opt->name, name, length))
            return opt;
    }
    return NULL;
}

static const struct cli_opt *by_letter(const struct cli_opts *o, char letter)
{
    for (const struct cli_opt *opt = o->table; opt->name; opt++) {
        if (opt->letter == letter)
            return opt;
    }
    return NULL;
}

/* The name that the user probably meant: one that begins with word, or the nearest by spelling. */
static const char *nearest_name(const struct cli_opts *o, const char *word)
{
    const char *names[MAX_NAMES];
    size_t n = 0;
    for (const struct cli_opt *opt = o->table; opt->name && n < MAX_NAMES; opt++) {
        if (!opt->help)
            continue;
        if (*word && strncmp(opt->name, word, strlen(word)) == 0)
            return opt->name;
        names[n++] = opt->name;
    }
    return gd__nearest_word(word, names, n);
}

/* Sets an error message that refers to the list of all options. */
static int refer_to_help(const struct cli_opts *o, const char *what)
{
    if (o->invoked)
        return gd__fail("unknown option %s: see %s --help", what, o->invoked);
    return gd__fail("unknown option %s: see gpu-dispatch %s --help", what, o->command);
}

static int unknown(const struct cli_opts *o, const char *word, size_t length)
{
    char name[128] = "--";
    const size_t room = sizeof name - 3;
    snprintf(name + 2, room + 1, "%.*s", (int)(length < room ? length : room), word);
    char meant[sizeof name];
    memcpy(meant, name, sizeof name);
    for (char *c = meant + 2; o->as_python && *c; c++)
        *c = *c == '_' ? '-' : *c;
    const char *near = nearest_name(o, meant + 2);
    return near ? gd__fail("unknown option %s: did you mean --%s?", name, near) : refer_to_help(o, name);
}

static int store(const struct cli_opt *opt, void *into, const char *text)
{
    return opt->set(opt, (char *)into + opt->offset, text);
}

/* The parser's position. */
struct place {
    int argc;
    char **argv;
    int at;
    bool done; /* no options follow the value that was found */
};

/* Stores the value, which is in the next argument. */
static int store_next(const struct cli_opt *opt, void *into, struct place *p)
{
    if (p->at + 1 >= p->argc)
        return gd__fail("option --%s needs a value: --%s %s", opt->name, opt->name, opt->value);
    const char *value = p->argv[++p->at];
    if (opt->is_last && strcmp(value, "--") == 0)
        value = "";
    p->done = opt->is_last && opt->is_last(value);
    return store(opt, into, value);
}

/* Whether the word turns a switch off. -1: the word is not a value of a switch. */
static int turns_off(const char *word)
{
    static const char *const words[] = { "true", "false", "yes", "no", "on", "off", "1", "0" };
    if (strcasecmp(word, "none") == 0)
        return 1;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcasecmp(word, words[i]) == 0)
            return i % 2;
    }
    return -1;
}

/* The value of a switch in the next argument. Only Python's spelling counts, because the argument may also be a file. */
static const char *next_is_value(const struct place *p)
{
    const char *next = p->at + 1 < p->argc ? p->argv[p->at + 1] : "";
    return strcmp(next, "True") == 0 || strcmp(next, "False") == 0 || strcmp(next, "None") == 0 ? next : NULL;
}

/* value: the text after an equals sign; NULL: there is none. */
static int parse_switch(const struct cli_opts *o, const struct cli_opt *opt, void *into, struct place *p,
                        const char *value)
{
    if (!o->as_python)
        return value ? gd__fail("option --%s takes no value", opt->name) : store(opt, into, NULL);
    if (!value && (value = next_is_value(p)))
        p->at++;
    const int off = value ? turns_off(value) : 0;
    if (off < 0)
        return gd__fail("option --%s takes no value except True and False, not \"%s\"", opt->name, value);
    return store(opt, into, off ? "no" : NULL);
}

static int parse_long(const struct cli_opts *o, void *into, struct place *p)
{
    const char *word = p->argv[p->at] + 2;
    const char *equals = strchrnul(word, '=');
    const struct cli_opt *opt = by_name(o, word, (size_t)(equals - word));
    if (!opt)
        return unknown(o, word, (size_t)(equals - word));
    if (!opt->value)
        return parse_switch(o, opt, into, p, *equals ? equals + 1 : NULL);
    return *equals ? store(opt, into, equals + 1) : store_next(opt, into, p);
}

static int parse_letters(const struct cli_opts *o, void *into, struct place *p)
{
    for (const char *at = p->argv[p->at] + 1; *at; at++) {
        const struct cli_opt *opt = by_letter(o, *at);
        if (!opt)
            return refer_to_help(o, (const char[]){ '-', *at, '\0' });
        if (opt->value)
            return at[1] ? store(opt, into, at + 1 + (at[1] == '=')) : store_next(opt, into, p);
        if (store(opt, into, NULL) < 0)
            return -1;
    }
    return 0;
}

int cli_opts_parse_part(const struct cli_opts *o, void *into, int argc, char **argv, bool *dashes)
{
    struct place p = { .argc = argc, .argv = argv };
    *dashes = false;
    for (; p.at < argc && !p.done; p.at++) {
        const char *word = argv[p.at];
        if (word[0] != '-' || !word[1])
            break;
        *dashes = strcmp(word, "--") == 0;
        if (*dashes)
            return p.at + 1;
        if ((word[1] == '-' ? parse_long(o, into, &p) : parse_letters(o, into, &p)) < 0)
            return -1;
    }
    return p.at;
}

int cli_opts_parse(const struct cli_opts *o, void *into, int argc, char **argv)
{
    bool dashes;
    return cli_opts_parse_part(o, into, argc, argv, &dashes);
}

/* --- printing the help ---------------------------------------------------------- */

/* The number of bytes of text that fit into width, in whole words, at least one word. */
static size_t fitting(const char *text, size_t width)
{
    size_t length = strlen(text), end = width;
    if (length <= width)
        return length;
    while (end > 0 && text[end] != ' ')
        end--;
    return end ? end : strcspn(text, " ");
}

static void print_wrapped(const char *text)
{
    for (bool first = true; *text; first = false) {
        size_t n = fitting(text, HELP_WIDTH - HELP_INDENT);
        printf("%*s%.*s\n", first ? 0 : HELP_INDENT, "", (int)n, text);
        text += n + (text[n] == ' ');
    }
}

static void print_option(const struct cli_opt *opt)
{
    char left[128];
    int n = opt->letter ? snprintf(left, sizeof left, "  -%c, --%s", opt->letter, opt->name)
                        : snprintf(left, sizeof left, "      --%s", opt->name);
    if (opt->value)
        n += snprintf(left + n, sizeof left - (size_t)n, " %s", opt->value);
    if (n < HELP_INDENT - 1)
        printf("%-*s", HELP_INDENT, left);
    else
        printf("%s\n%*s", left, HELP_INDENT, "");
    print_wrapped(opt->help);
}

void cli_opts_help(const struct cli_opts *o)
{
    fputs(o->usage, stdout);
    for (const struct cli_opt *opt = o->table; opt->name; opt++) {
        if (opt->group)
            printf("\n%s:\n", opt->group);
        if (opt->help)
            print_option(opt);
    }
    if (o->after)
        printf("\n%s", o->after);
}

void cli_opts_list(const struct cli_opts *o)
{
    for (const struct cli_opt *opt = o->table; opt->name; opt++) {
        if (!opt->help)
            continue;
        printf("--%s\n", opt->name);
        if (opt->letter)
            printf("-%c\n", opt->letter);
    }
}
