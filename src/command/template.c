/* Templates: the words of a command, parsed once and filled for every task.
 *
 * This code makes no system calls except for memory. It reads the environment only to choose the shell, when a template
 * is opened.
 *
 * A template is a list of parts: text, breaks between words, placeholders. Filling it goes through the parts with a
 * table of three functions. There are two tables, for the two possible results: a line for a shell, or the words that a
 * shell would make of that line. The second is for templates that do not need a shell.
 *
 * GNU parallel has some surprising rules, which apply here too. {#} and {%} count as placeholders: a template with one
 * of them gets no {} added. If the first word of a template has a placeholder in it, values are not quoted, because the
 * input is then a command line. {2} is empty for a task with one argument. {-1} is the last argument.
 */
#include "command/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sized.h"

enum { MOST_POSITION = 1000000, MOST_GPUS = 32, NUMBER_MAX = 16 };

/* ---- parsing ---- */

static const struct {
    const char *name;
    enum gd__part_kind kind;
} fixed_placeholders[] = { { "{#}", GD__PART_NUMBER }, { "{%}", GD__PART_SLOT }, { "{gpu}", GD__PART_GPU } };

/* What follows the opening brace, or the number after it. */
static const struct {
    const char *name;
    enum gd__part_kind kind;
} input_forms[] = { { "}", GD__PART_INPUT },
                    { ".}", GD__PART_NO_EXTENSION },
                    { "/}", GD__PART_BASE },
                    { "//}", GD__PART_DIRECTORY },
                    { "/.}", GD__PART_BASE_NO_EXTENSION } };

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

static const char *skip_number(const char *at, int *position)
{
    const bool from_end = *at == '-';
    const char *digits = at + from_end;
    int number = 0;
    if (*digits < '0' || *digits > '9')
        return at;
    for (at = digits; *at >= '0' && *at <= '9'; at++)
        number = number < MOST_POSITION ? number * 10 + (*at - '0') : MOST_POSITION;
    *position = from_end ? -number : number;
    return at + strspn(at, " \t\n\v\f\r");
}

/* Fills in part for the placeholder that begins here, and returns its length; 0: no placeholder begins here. */
static size_t placeholder_at(const char *at, struct gd__part *part)
{
    for (size_t i = 0; i < COUNT(fixed_placeholders); i++) {
        if (strncmp(at, fixed_placeholders[i].name, strlen(fixed_placeholders[i].name)) == 0) {
            *part = (struct gd__part){ .kind = fixed_placeholders[i].kind };
            return strlen(fixed_placeholders[i].name);
        }
    }
    int position = 0;
    const char *form = skip_number(at + 1, &position);
    for (size_t i = 0; i < COUNT(input_forms); i++) {
        if (strncmp(form, input_forms[i].name, strlen(input_forms[i].name)) == 0) {
            *part = (struct gd__part){ .kind = input_forms[i].kind, .position = position };
            return (size_t)(form - at) + strlen(input_forms[i].name);
        }
    }
    return 0;
}

/* parts has room for it: see most_parts(). */
static void add_text(struct gd_command *c, const char *text, size_t size)
{
    if (size)
        c->parts[c->n_parts++] = (struct gd__part){ .kind = GD__PART_TEXT, .text = text, .size = size };
}

static void add_word(struct gd_command *c, const char *word)
{
    const char *text = word, *at = word;
    while ((at = strchr(at, '{'))) {
        struct gd__part part;
        size_t length = placeholder_at(at, &part);
        if (length) {
            add_text(c, text, (size_t)(at - text));
            c->parts[c->n_parts++] = part;
            text = at + length;
        }
        at += length ? length : 1;
    }
    add_text(c, text, strlen(text));
}

static void add_part(struct gd_command *c, enum gd__part_kind kind)
{
    c->parts[c->n_parts++] = (struct gd__part){ .kind = kind };
}

/* Whether it is a placeholder that GNU parallel has too, so any except {gpu}. */
static bool is_placeholder(const struct gd__part *part)
{
    return part->kind >= GD__PART_INPUT && part->kind != GD__PART_GPU;
}

static bool has_placeholder(const struct gd_command *c)
{
    for (size_t i = 0; i < c->n_parts; i++) {
        if (is_placeholder(&c->parts[i]))
            return true;
    }
    return false;
}

/* Whether the first word has a placeholder. The value of a variable (NAME={}) does not count. */
static bool begins_with_input(const struct gd_command *c)
{
    for (size_t i = 0; i < c->n_parts; i++) {
        const struct gd__part *part = &c->parts[i];
        if (is_placeholder(part))
            return true;
        if (part->kind == GD__PART_BREAK)
            return false;
        for (size_t k = 0; part->kind == GD__PART_TEXT && k < part->size; k++) {
            if (strchr(" \t\n=", part->text[k]))
                return false;
        }
    }
    return false;
}

static size_t most_parts(const char *const *words)
{
    size_t n = 2; /* for the {} that may be added */
    for (; *words; words++) {
        n += 2;
        for (const char *at = *words; (at = strchr(at, '{')); at++)
            n += 2;
    }
    return n;
}

static char *join_words(const char *const *words)
{
    struct gd__text all = { 0 };
    gd__text_put(&all, "", 1);
    for (; *words; words++)
        gd__text_put(&all, *words, strlen(*words) + 1);
    if (all.failed)
        gd__text_free(&all);
    return all.bytes;
}

static int parse(struct gd_command *c, const char *const *words)
{
    c->words = join_words(words);
    c->parts = gd__calloc(most_parts(words), sizeof *c->parts);
    if (!c->words || !c->parts)
        return gd__error(GD_E_NO_MEMORY, "no memory for a command of %zu parts", most_parts(words));
    const char *word = c->words + 1; /* after the NUL that join_words() puts first */
    for (size_t i = 0; words[i]; i++) {
        if (i)
            add_part(c, GD__PART_BREAK);
        add_word(c, word);
        word += strlen(word) + 1;
    }
    if (!has_placeholder(c)) {
        if (words[0])
            add_part(c, GD__PART_BREAK);
        add_part(c, GD__PART_INPUT);
    }
    c->raw = begins_with_input(c);
    return 0;
}

/* Refuses {= =}: GNU parallel would run it as Perl, and a shell would do something else with it. */
static int refuse_perl(const char *const *words)
{
    for (; *words; words++) {
        const char *at = strstr(*words, "{=");
        if (at && strstr(at + 2, "=}"))
            return gd__error(GD_E_UNSUPPORTED,
                             "%s: {= =} is a Perl expression of GNU parallel, which is not supported: use a "
                             "placeholder, or call a script",
                             *words);
    }
    return 0;
}

/* ---- opening ---- */

static const char *chosen_shell(const char *shell)
{
    static const char *const variables[] = { "PARALLEL_SHELL", "SHELL" };
    for (size_t i = 0; i < COUNT(variables) && (!shell || !*shell); i++)
        shell = getenv(variables[i]);
    return shell && *shell ? shell : "/bin/sh";
}

int gd_command_open(struct gd_command **out, const struct gd_command_spec *given)
{
    struct gd_command_spec spec = { 0 };
    if (!out)
        return gd__error(GD_E_INVALID, "gd_command_open: out is NULL");
    *out = NULL;
    int code = gd__sized_read(&spec, sizeof spec, given, "gd_command_spec");
    if (code < 0)
        return code;
    if (!spec.words)
        return gd__error(GD_E_INVALID, "gd_command_spec.words is NULL: set it to the command and its arguments");
    if ((code = refuse_perl(spec.words)) < 0)
        return code;
    struct gd_command *c = gd__calloc(1, sizeof *c);
    if (!c)
        return gd__error(GD_E_NO_MEMORY, "no memory for a command");
    c->quote = spec.quote;
    c->dry_run = spec.dry_run;
    c->ungroup = spec.ungroup;
    c->shell = gd__strdup(chosen_shell(spec.shell));
    code = c->shell ? parse(c, spec.words) : gd__error(GD_E_NO_MEMORY, "no memory for a command");
    if (code < 0)
        gd_command_close(&c);
    *out = c;
    return code;
}

void gd_command_close(struct gd_command **command)
{
    struct gd_command *c = command ? *command : NULL;
    if (!c)
        return;
    gd__free(c->words);
    gd__free(c->parts);
    gd__free(c->shell);
    gd__free(c);
    *command = NULL;
}

/* ---- filling ---- */

/* The functions that produce one kind of result. */
struct writer {
    void (*text)(const struct gd_command *c, struct gd__filling *f, const char *text, size_t size);
    void (*value)(const struct gd_command *c, struct gd__filling *f, const char *value, size_t size);
    void (*end_word)(const struct gd_command *c, struct gd__filling *f, bool last);
};

/* The first result: a line. If c->quote is set, each word is collected first and quoted as a whole. */

static void line_text(const struct gd_command *c, struct gd__filling *f, const char *text, size_t size)
{
    gd__text_put(c->quote ? &f->word : &f->line, text, size);
}

static void line_value(const struct gd_command *c, struct gd__filling *f, const char *value, size_t size)
{
    if (c->quote || c->raw)
        line_text(c, f, value, size);
    else
        gd__quoted_put(&f->line, value, size);
}

static void line_end_word(const struct gd_command *c, struct gd__filling *f, bool last)
{
    if (c->quote)
        gd__quoted_put(&f->line, f->word.bytes, f->word.size);
    f->word.size = 0;
    gd__text_put(&f->line, last ? "" : " ", 1);
}

static const struct writer line_writer = { line_text, line_value, line_end_word };

/* The second result: words, each followed by a NUL. Unless c->quote is set, text is split at blanks and empty words are
 * dropped, as a shell does. f->word begins with a marker byte, so word.size > 0 means that a word has begun, even an
 * empty one. */

static void argv_begin(struct gd__filling *f)
{
    if (f->word.size == 0)
        gd__text_put(&f->word, "", 1);
}

static void argv_finish_word(struct gd__filling *f)
{
    if (f->word.size == 0)
        return;
    gd__text_put(&f->line, f->word.bytes + 1, f->word.size - 1);
    gd__text_put(&f->line, "", 1);
    f->word.size = 0;
    f->n_argv++;
}

static void argv_value(const struct gd_command *c, struct gd__filling *f, const char *value, size_t size)
{
    (void)c;
    argv_begin(f);
    gd__text_put(&f->word, value, size);
}

static void argv_text(const struct gd_command *c, struct gd__filling *f, const char *text, size_t size)
{
    while (!c->quote && size) {
        size_t length = 0;
        while (length < size && text[length] != ' ' && text[length] != '\t')
            length++;
        if (length)
            argv_value(c, f, text, length);
        if (length == size)
            return;
        argv_finish_word(f);
        text += length + 1;
        size -= length + 1;
    }
    if (c->quote)
        argv_value(c, f, text, size);
}

static void argv_end_word(const struct gd_command *c, struct gd__filling *f, bool last)
{
    (void)last;
    if (c->quote)
        argv_begin(f); /* an empty word counts too */
    argv_finish_word(f);
}

static const struct writer argv_writer = { argv_text, argv_value, argv_end_word };

/* The arguments of a task are separated by NULs. */

struct argument {
    const char *text;
    size_t size;
};

static size_t count_arguments(const struct gd_command_fill *with)
{
    size_t n = 1;
    for (size_t i = 0; i < with->payload_size; i++)
        n += with->payload[i] == '\0';
    return n;
}

/* Finds the argument with that index, from 0. Returns false if there are fewer arguments. */
static bool argument_at(const struct gd_command_fill *with, size_t index, struct argument *a)
{
    const char *at = with->payload ? with->payload : "", *end = at + with->payload_size;
    for (;; index--) {
        const char *nul = at < end ? memchr(at, '\0', (size_t)(end - at)) : NULL;
        *a = (struct argument){ at, (size_t)((nul ? nul : end) - at) };
        if (index == 0 || !nul)
            return index == 0;
        at = nul + 1;
    }
}

static void fill_argument(const struct gd_command *c, const struct writer *s, struct gd__filling *f,
                          enum gd__part_kind kind, const struct argument *a)
{
    if (kind == GD__PART_INPUT) {
        s->value(c, f, a->text, a->size);
        return;
    }
    f->value.size = 0;
    gd__value_put(&f->value, kind, a->text, a->size);
    if (!f->value.failed)
        s->value(c, f, f->value.bytes ? f->value.bytes : "", f->value.size);
}

static void fill_position(const struct gd_command *c, const struct writer *s, const struct gd_command_fill *with,
                          struct gd__filling *f, const struct gd__part *part)
{
    const long n = (long)count_arguments(with);
    long index = part->position > 0 ? part->position - 1 : n + part->position;
    struct argument a;
    if (index < 0)
        index += n; /* still negative: Perl counts such an index from the end again */
    if (index >= 0 && argument_at(with, (size_t)index, &a))
        fill_argument(c, s, f, part->kind, &a);
}

static void fill_every(const struct gd_command *c, const struct writer *s, const struct gd_command_fill *with,
                       struct gd__filling *f, const struct gd__part *part)
{
    struct gd_command_fill rest = *with;
    struct argument a;
    for (;;) {
        argument_at(&rest, 0, &a);
        fill_argument(c, s, f, part->kind, &a);
        if (a.size == rest.payload_size)
            return;
        s->end_word(c, f, false);
        rest.payload += a.size + 1;
        rest.payload_size -= a.size + 1;
    }
}

static void fill_number(const struct gd_command *c, const struct writer *s, struct gd__filling *f, long long number)
{
    char digits[24];
    const int length = snprintf(digits, sizeof digits, "%lld", number);
    s->value(c, f, digits, (size_t)length);
}

/* The device of the worker, or its devices: "0,1". */
static void fill_gpus(const struct gd_command *c, const struct writer *s, const struct gd_command_fill *with,
                      struct gd__filling *f)
{
    char list[MOST_GPUS * NUMBER_MAX];
    size_t used = 0;
    if (with->n_gpus == 0) {
        fill_number(c, s, f, with->gpu_id);
        return;
    }
    for (size_t i = 0; i < with->n_gpus && i < MOST_GPUS; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%d", i ? "," : "", with->gpu_ids[i]);
    s->value(c, f, list, used);
}

static void fill_part(const struct gd_command *c, const struct writer *s, const struct gd_command_fill *with,
                      struct gd__filling *f, const struct gd__part *part)
{
    switch (part->kind) {
    case GD__PART_TEXT:
        s->text(c, f, part->text, part->size);
        break;
    case GD__PART_BREAK:
        s->end_word(c, f, false);
        break;
    case GD__PART_NUMBER:
        fill_number(c, s, f, (long long)with->task_id + 1);
        break;
    case GD__PART_SLOT:
        fill_number(c, s, f, with->slot);
        break;
    case GD__PART_GPU:
        fill_gpus(c, s, with, f);
        break;
    default:
        (part->position ? fill_position : fill_every)(c, s, with, f, part);
    }
}

static int fill(const struct gd_command *c, const struct writer *s, const struct gd_command_fill *with,
                struct gd__filling *f)
{
    f->line.size = f->word.size = f->n_argv = 0;
    f->line.failed = f->word.failed = f->value.failed = false;
    for (size_t i = 0; i < c->n_parts; i++)
        fill_part(c, s, with, f, &c->parts[i]);
    s->end_word(c, f, true);
    if (f->line.failed || f->word.failed || f->value.failed)
        return gd__error(GD_E_NO_MEMORY, "no memory for the command line of task %llu",
                         (unsigned long long)with->task_id);
    return 0;
}

int gd__command_fill_line(const struct gd_command *c, const struct gd_command_fill *with, struct gd__filling *f)
{
    return fill(c, &line_writer, with, f);
}

int gd__command_fill_argv(const struct gd_command *c, const struct gd_command_fill *with, struct gd__filling *f)
{
    int code = fill(c, &argv_writer, with, f);
    if (code < 0)
        return code;
    if (f->argv_capacity < f->n_argv + 1) {
        char **argv = gd__realloc(f->argv, 2 * (f->n_argv + 1) * sizeof *argv);
        if (!argv)
            return gd__error(GD_E_NO_MEMORY, "no memory for %zu arguments", f->n_argv);
        f->argv = argv;
        f->argv_capacity = 2 * (f->n_argv + 1);
    }
    char *at = f->line.bytes;
    for (size_t i = 0; i < f->n_argv; i++, at += strlen(at) + 1)
        f->argv[i] = at;
    f->argv[f->n_argv] = NULL;
    return 0;
}

void gd__filling_free(struct gd__filling *f)
{
    gd__text_free(&f->line);
    gd__text_free(&f->word);
    gd__text_free(&f->value);
    gd__free(f->argv);
    *f = (struct gd__filling){ 0 };
}

char *gd_command_line(const struct gd_command *command, const struct gd_command_fill *with)
{
    struct gd__filling f = { 0 };
    struct gd_command_fill known = { .size = sizeof known };
    char *line = NULL;
    if (!command) {
        gd__error(GD_E_INVALID, "gd_command_line: command is NULL");
        return NULL;
    }
    if (gd__sized_read(&known, sizeof known, with, "gd_command_fill") < 0)
        return NULL;
    if (known.n_gpus > MOST_GPUS || (known.n_gpus > 0 && !known.gpu_ids)) {
        gd__error(GD_E_INVALID, "gd_command_line: n_gpus is %zu, but gpu_ids %s", known.n_gpus,
                  known.gpu_ids ? "can have 32 at most" : "is NULL");
        return NULL;
    }
    if (gd__command_fill_line(command, &known, &f) == 0) {
        line = f.line.bytes;
        f.line.bytes = NULL;
    }
    gd__filling_free(&f);
    return line;
}

void gd_command_free(char *line)
{
    gd__free(line);
}

/* ---- characters that are special to a shell ---- */

/* Whether the character is not special to a shell. '=' is special only in the first word, where it makes an assignment:
 * gd__command_first() checks that. */
static bool is_safe(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != 0 && strchr("_-./+,:@%=", c) != NULL);
}

bool gd__command_is_plain(const struct gd_command *c)
{
    if (c->raw)
        return false;
    for (size_t i = 0; !c->quote && i < c->n_parts; i++) {
        const struct gd__part *part = &c->parts[i];
        for (size_t k = 0; part->kind == GD__PART_TEXT && k < part->size; k++) {
            if (!is_safe((unsigned char)part->text[k]) && part->text[k] != ' ' && part->text[k] != '\t')
                return false;
        }
    }
    return true;
}

void gd__command_first(const struct gd_command *c, char *name, size_t size)
{
    const struct gd__part *part = c->parts;
    const struct gd__part *end = part + c->n_parts;
    *name = '\0';
    if (part == end || part->kind != GD__PART_TEXT)
        return;
    const char *at = part->text, *stop = at + part->size;
    while (!c->quote && at < stop && (*at == ' ' || *at == '\t'))
        at++;
    size_t length = 0;
    while (at + length < stop && is_safe((unsigned char)at[length]) && at[length] != '=')
        length++;
    const bool whole = at + length == stop ? part + 1 == end || part[1].kind == GD__PART_BREAK
                                           : !c->quote && (at[length] == ' ' || at[length] == '\t');
    if (!whole || length == 0 || length >= size || *at == '%')
        return;
    memcpy(name, at, length);
    name[length] = '\0';
}
