/* SPDX-License-Identifier: MIT
 *
 * Makes tasks from sources. A source is a column. Linked columns make a group, which is as long as its shortest column.
 * The tasks are all combinations of one row from each group:
 *
 *     ::: a b c :::+ 1 2 ::: x y        group 0: (a 1) (b 2)    group 1: (x) (y)
 *     a 1 x,  a 1 y,  b 2 x,  b 2 y     task i: row i / 2 of group 0, row i % 2 of group 1
 *
 * So a task can be computed from its number alone. A shuffled run needs that. The exception is a streamed first column:
 * its rows are read one after the other, and the task numbers only count them.
 */
#include "cli/input/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/text/buffer.h"
#include "base/text/utf8.h"
#include "cli/input/arrivals/arrivals.h"
#include "cli/input/column.h"
#include "cli/input/directory_walk.h"
#include "cli/input/lines.h"
#include "cli/input/task_settings.h"
#include "cli/output/files/failure_record.h"
#include "cli/say.h"

struct cli_input {
    enum cli_format format;
    bool skip_blank;
    bool json_payload;
    bool warned; /* about a NUL in a line */
    char *name;  /* name of the JSONL input, for error messages */
    uint64_t line;
    int cancel_fd;
    atomic_bool cancelled;
    atomic_uint_fast64_t given;
    atomic_bool ended; /* the stream was read to its end */

    /* Options for searching a directory. */
    struct gd_discover what;
    char **patterns;

    struct cli_lines *lines; /* the first column, if it is streamed: one of these three */
    struct cli_directory_walk *walk;
    struct cli_arrivals *arrivals;
    struct cli_column *columns; /* all columns; a streamed one is empty */
    size_t n_columns;
    uint64_t inner;      /* combinations of the groups after the first */
    uint64_t rows;       /* length of group 0; for a stream, the length of the columns linked to it */
    uint64_t *order;     /* the task numbers in shuffled order; NULL: not shuffled */
    bool others_empty;   /* all columns are empty, not counting a streamed one */
    const char *current; /* the stream's record in this row */
    size_t current_size;
    uint64_t current_weight;
    struct gd__buffer cleaned; /* a record whose NULs were replaced, or the input from a failure record */
    struct gd__buffer payload;
};

static bool is_streamed(const struct cli_input *in)
{
    return in->lines || in->walk || in->arrivals;
}

/* --- records ------------------------------------------------------------------ */

static bool is_blank(const char *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (!strchr(" \t\r\n\f\v", data[i]) || !data[i])
            return false;
    }
    return true;
}

/* A NUL separates arguments in a payload and can't be passed to a program. It becomes \0, as in GNU parallel. */
static int clean(struct cli_input *in, const char **data, size_t *size)
{
    const char *at = *data, *end = at + *size, *nul = memchr(at, 0, *size);
    if (!nul)
        return 0;
    if (!in->warned)
        cli_say("a NUL in the input was replaced with \\0: use -0 if records end with NUL");
    in->warned = true;
    in->cleaned.size = 0;
    for (; nul; nul = memchr(at, 0, (size_t)(end - at))) {
        gd__buffer_add(&in->cleaned, at, (size_t)(nul - at));
        gd__buffer_add(&in->cleaned, "\\0", 2);
        at = nul + 1;
    }
    gd__buffer_add(&in->cleaned, at, (size_t)(end - at));
    if (in->cleaned.failed)
        return gd__fail("out of memory");
    *data = in->cleaned.data;
    *size = in->cleaned.size;
    return 0;
}

/* Checks that the line is UTF-8. JSON must be UTF-8. Every file that the line is copied to must be UTF-8 too. */
static int check_encoding(const struct cli_input *in, const char *data, size_t size)
{
    const size_t good = gd__utf8_valid(data, size);
    if (good == size)
        return 0;
    return gd__fail("line %llu of %s is not JSON: byte %zu (0x%02x) is not UTF-8. Convert the input (iconv -t UTF-8), "
                    "or leave out --jsonl to use it as plain lines",
                    (unsigned long long)in->line, in->name, good + 1, (unsigned char)data[good]);
}

/* Replaces a failure record (a line of failed.jsonl) by the input that failed. */
static int unwrap(struct cli_input *in, const char **data, size_t *size)
{
    if (check_encoding(in, *data, *size) < 0)
        return -1;
    in->cleaned.size = 0;
    if (!cli_failure_record_take(&in->cleaned, *data, *size, in->json_payload))
        return 0;
    if (in->cleaned.failed)
        return gd__fail("out of memory");
    *data = in->cleaned.size ? in->cleaned.data : "";
    *size = in->cleaned.size;
    return 0;
}

/* Reads the settings that a line of JSON has for its task. */
static int read_settings(const struct cli_input *in, const char *data, size_t size, struct cli_task_settings *out)
{
    *out = (struct cli_task_settings){ 0 };
    if (in->format != CLI_FORMAT_JSONL || cli_task_settings_read(out, data, size) == 0)
        return 0;
    char why[512];
    snprintf(why, sizeof why, "%s", gd__fail_text());
    return gd__fail("line %llu of %s: %s", (unsigned long long)in->line, in->name, why);
}

/* The next record that is not skipped. Returns 1, 0 or -1. */
static int next_record(struct cli_input *in, struct cli_lines *lines, const char **data, size_t *size)
{
    bool skip = in->skip_blank || in->format == CLI_FORMAT_JSONL;
    int some;
    do {
        some = cli_lines_next(lines, data, size);
        in->line++;
    } while (some > 0 && skip && is_blank(*data, *size));
    if (some <= 0 || in->format == CLI_FORMAT_NUL)
        return some;
    return (in->format == CLI_FORMAT_LINES ? clean : unwrap)(in, data, size) < 0 ? -1 : some;
}

/* --- opening: columns ------------------------------------------------------------ */

static int hold_words(struct cli_input *in, struct cli_column *c, const struct cli_source *s)
{
    for (size_t i = 0; i < s->n_words; i++) {
        size_t size = strlen(s->words[i]);
        if (!in->skip_blank || !is_blank(s->words[i], size))
            cli_column_add(c, s->words[i], size);
    }
    return cli_column_failed(c) ? gd__fail("out of memory") : 0;
}

static int hold_lines(struct cli_input *in, struct cli_column *c, struct cli_lines *lines)
{
    struct cli_task_settings unused; /* the settings are checked now, while the number of the line is known */
    const char *data;
    size_t size;
    int some;
    while ((some = next_record(in, lines, &data, &size)) > 0 && !cli_column_failed(c)) {
        if (read_settings(in, data, size, &unused) < 0)
            return -1;
        cli_column_add(c, data, size);
    }
    if (cli_column_failed(c))
        return gd__fail("the input does not fit into memory");
    return some;
}

static int open_file(struct cli_input *in, struct cli_column *c, const struct cli_source *s, bool stream)
{
    struct cli_lines *lines = NULL;
    char delimiter = in->format == CLI_FORMAT_NUL ? 0 : '\n';
    if (in->format == CLI_FORMAT_JSONL) { /* then it is the only source */
        in->name = strdup(strcmp(s->path, "-") == 0 ? "standard input" : s->path);
        if (!in->name)
            return gd__fail("out of memory");
    }
    if (strcmp(s->path, "-") == 0 && isatty(STDIN_FILENO))
        cli_say("reading inputs from the terminal, one per line; end with Ctrl-D");
    if (cli_lines_open(&lines, s->path, delimiter, in->cancel_fd) < 0)
        return -1;
    if (stream) {
        in->lines = lines;
        return 0;
    }
    int result = hold_lines(in, c, lines);
    cli_lines_close(&lines);
    return result;
}

static void say_problem(void *user, const char *path, const char *why)
{
    (void)user;
    cli_say("cannot read %s: %s; it is left out", path, why);
}

static int copy_patterns(struct cli_input *in, const char *const *patterns)
{
    size_t n = 0;
    while (patterns && patterns[n])
        n++;
    in->patterns = calloc(n + 1, sizeof *in->patterns);
    for (size_t i = 0; in->patterns && i < n; i++) {
        if (!(in->patterns[i] = strdup(patterns[i])))
            return gd__fail("out of memory");
    }
    return in->patterns ? 0 : gd__fail("out of memory");
}

static int describe_files(struct cli_input *in, const struct cli_input_options *o)
{
    if (copy_patterns(in, o->patterns) < 0)
        return -1;
    in->what = (struct gd_discover)GD_DISCOVER_INIT;
    in->what.patterns = in->patterns[0] ? (const char *const *)in->patterns : NULL;
    in->what.recursive = o->recursive;
    in->what.hidden = o->hidden;
    in->what.on_problem = say_problem;
    return 0;
}

static int open_watch(struct cli_input *in, const struct cli_source *s, const struct cli_input_options *o)
{
    if (describe_files(in, o) < 0)
        return -1;
    const struct cli_arrivals_options a = { .what = &in->what,
                                            .order = o->order,
                                            .idle_ms = o->idle_ms,
                                            .cancel_fd = in->cancel_fd,
                                            .accept = s->accept,
                                            .user = s->user };
    return cli_arrivals_open(&in->arrivals, s->path, &a);
}

static int open_dir(struct cli_input *in, struct cli_column *c, const char *dir, const struct cli_input_options *o,
                    bool stream)
{
    if (describe_files(in, o) < 0)
        return -1;
    if (stream && o->order == GD_FILE_ORDER_NONE)
        return cli_directory_walk_open(&in->walk, dir, &in->what);
    if (gd_files_open(&c->files) < 0 || gd_files_discover(c->files, dir, &in->what) < 0 ||
        gd_files_sort(c->files, o->order) < 0)
        return gd__fail("%s", gd_error_text());
    return gd_files_count(c->files) ? 0 : cli_directory_walk_nothing(dir, &in->what);
}

static int open_source(struct cli_input *in, size_t i, const struct cli_source *s, const struct cli_input_options *o)
{
    bool stream = i == 0 && !o->shuffle && !o->need_total;
    struct cli_column *c = &in->columns[i];
    c->link = i > 0 && s->link;
    if (s->kind == CLI_SOURCE_WORDS)
        return hold_words(in, c, s);
    if (s->kind == CLI_SOURCE_LIST) {
        c->files = s->files;
        c->borrowed = true;
        return 0;
    }
    if (s->kind == CLI_SOURCE_WATCH)
        return open_watch(in, s, o);
    return s->kind == CLI_SOURCE_FILE ? open_file(in, c, s, stream) : open_dir(in, c, s->path, o, stream);
}

/* --- opening: combinations --------------------------------------------------------- */

/* The length of a column. An empty column counts as one empty argument if others are not empty. */
static uint64_t length_of(const struct cli_column *c)
{
    size_t n = cli_column_count(c);
    return n ? n : 1;
}

static bool all_empty(const struct cli_input *in)
{
    for (size_t i = 0; i < in->n_columns; i++) {
        if (cli_column_count(&in->columns[i]))
            return false;
    }
    return true;
}

/* The length of the group that begins at column *i. *i is moved to the next group. */
static uint64_t group_rows(const struct cli_input *in, size_t *i)
{
    bool stream = *i == 0 && is_streamed(in);
    uint64_t rows = stream ? UINT64_MAX : length_of(&in->columns[*i]);
    for (++*i; *i < in->n_columns && in->columns[*i].link; ++*i) {
        uint64_t n = length_of(&in->columns[*i]);
        rows = n < rows ? n : rows;
    }
    return rows;
}

static int count_tasks(struct cli_input *in)
{
    size_t i = 0;
    uint64_t total;
    in->others_empty = all_empty(in);
    in->rows = group_rows(in, &i);
    in->inner = 1;
    while (i < in->n_columns) {
        if (__builtin_mul_overflow(in->inner, group_rows(in, &i), &in->inner))
            return gd__fail("too many combinations of the arguments");
    }
    if (is_streamed(in))
        return 0;
    if (in->others_empty)
        in->rows = 0;
    return __builtin_mul_overflow(in->inner, in->rows, &total) ? gd__fail("too many combinations of the arguments") : 0;
}

/* splitmix64: small, and good enough to shuffle with. */
static uint64_t random_bits(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* A random number from 0 to limit - 1, all with the same probability. */
static uint64_t random_below(uint64_t *state, uint64_t limit)
{
    /* This many values are rejected. Otherwise small numbers would be more likely. */
    uint64_t surplus = (0 - limit) % limit, bits;
    do
        bits = random_bits(state);
    while (bits < surplus);
    return bits % limit;
}

static int shuffle(struct cli_input *in, const struct cli_input_options *o)
{
    uint64_t n = in->rows * in->inner, state = o->seed;
    if (!o->seeded && getrandom(&state, sizeof state, 0) != (ssize_t)sizeof state)
        return gd__fail("cannot get a random number: %s", strerror(errno));
    in->order = calloc(n + 1, sizeof *in->order);
    if (!in->order)
        return gd__fail("%llu tasks are too many to shuffle", (unsigned long long)n);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t j = random_below(&state, i + 1);
        in->order[i] = in->order[j];
        in->order[j] = i;
    }
    return 0;
}

/* --- opening ------------------------------------------------------------------------ */

/* Whether standard input can be read. If it was closed, main.c has opened /dev/null for writing only. */
static bool can_read_stdin(void)
{
    const int flags = fcntl(STDIN_FILENO, F_GETFL);
    return flags >= 0 && (flags & O_ACCMODE) != O_WRONLY;
}

static int check(const struct cli_source *sources, size_t n, const struct cli_input_options *o)
{
    bool has_stdin = false;
    for (size_t i = 0; i < n; i++) {
        bool is_stdin = sources[i].kind == CLI_SOURCE_FILE && strcmp(sources[i].path, "-") == 0;
        if (sources[i].kind >= CLI_SOURCE_DIR && n > 1)
            return gd__fail("%s cannot be combined with other inputs",
                            sources[i].kind == CLI_SOURCE_WATCH ? "--watch" : "--input-dir");
        if (is_stdin && has_stdin)
            return gd__fail("standard input is given as input twice");
        if (is_stdin && !can_read_stdin())
            return gd__fail("standard input is closed: give tasks after ::: or with -a FILE");
        has_stdin = has_stdin || is_stdin;
    }
    if (o->format == CLI_FORMAT_JSONL && (n != 1 || sources[0].kind != CLI_SOURCE_FILE))
        return gd__fail("--jsonl needs exactly one input: standard input or one -a FILE");
    return 0;
}

static struct cli_input *make(size_t n, const struct cli_input_options *o)
{
    struct cli_input *in = calloc(1, sizeof *in);
    struct cli_column *columns = calloc(n, sizeof *columns);
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!in || !columns || fd < 0) {
        (void)gd__fail("cannot open the input: %s", strerror(errno));
        free(columns);
        free(in);
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    in->format = o->format;
    in->skip_blank = o->skip_blank;
    in->json_payload = o->json_payload;
    in->cancel_fd = fd;
    in->columns = columns;
    in->n_columns = n;
    return in;
}

int cli_input_open(struct cli_input **out, const struct cli_input_options *o)
{
    static const struct cli_source standard_input = { .kind = CLI_SOURCE_FILE, .path = "-" };
    const struct cli_source *sources = o->n_sources ? o->sources : &standard_input;
    size_t n = o->n_sources ? o->n_sources : 1;
    if (check(sources, n, o) < 0)
        return -1;
    struct cli_input *in = make(n, o);
    int result = in ? 0 : -1;
    for (size_t i = 0; result == 0 && i < n; i++)
        result = open_source(in, i, &sources[i], o);
    if (result == 0)
        result = count_tasks(in);
    if (result == 0 && o->shuffle)
        result = shuffle(in, o);
    if (result < 0)
        cli_input_close(&in);
    else
        *out = in;
    return result;
}

uint64_t cli_input_total(const struct cli_input *in)
{
    return is_streamed(in) ? 0 : in->rows * in->inner;
}

uint64_t cli_input_given(const struct cli_input *in)
{
    return atomic_load_explicit(&in->given, memory_order_relaxed);
}

bool cli_input_count(const struct cli_input *in, uint64_t *out)
{
    const bool ended = atomic_load(&in->ended);
    *out = is_streamed(in) ? cli_input_given(in) : cli_input_total(in);
    return ended || !is_streamed(in);
}

/* --- returning tasks ----------------------------------------------------------------- */

static int next_in_stream(struct cli_input *in)
{
    in->current_weight = 0;
    if (in->lines)
        return next_record(in, in->lines, &in->current, &in->current_size);
    int some = in->arrivals ? cli_arrivals_next(in->arrivals, &in->current, &in->current_weight)
                            : cli_directory_walk_next(in->walk, &in->current, &in->current_weight);
    if (some > 0)
        in->current_size = strlen(in->current);
    return some;
}

/* Reads the stream's record for a row. Returns 1, 0 at the end, or -1. */
static int take_row(struct cli_input *in, uint64_t row)
{
    if (row >= in->rows)
        return 0;
    int some = next_in_stream(in);
    if (some != 0 || row > 0 || in->others_empty || atomic_load(&in->cancelled))
        return some;
    in->rows = 1; /* an empty stream counts as one empty argument */
    in->current = "";
    in->current_size = 0;
    return 1;
}

/* The argument of column i in this row. */
static void argument(const struct cli_input *in, size_t i, uint64_t row, const char **data, size_t *size)
{
    if (i == 0 && is_streamed(in)) {
        *data = in->current;
        *size = in->current_size;
    } else {
        cli_column_get(&in->columns[i], row, data, size);
    }
}

static void add_argument(struct cli_input *in, size_t i, uint64_t row)
{
    const char *data;
    size_t size;
    argument(in, i, row, &data, &size);
    if (i > 0)
        gd__buffer_add(&in->payload, "", 1);
    gd__buffer_add(&in->payload, data, size);
}

static int combine(struct cli_input *in, uint64_t row, uint64_t k)
{
    uint64_t span = in->inner;
    in->payload.size = 0;
    for (size_t i = 0, next; i < in->n_columns; i = next) {
        next = i;
        uint64_t rows = group_rows(in, &next), at = row;
        if (i > 0) {
            span /= rows;
            at = k / span % rows;
        }
        for (size_t j = i; j < next; j++)
            add_argument(in, j, at);
    }
    return in->payload.failed ? gd__fail("out of memory") : 1;
}

/* The payload of a task. Returns 1, or -1. */
static int make_payload(struct cli_input *in, uint64_t row, uint64_t k, const void **data, size_t *size)
{
    const char *only;
    if (in->n_columns == 1) {
        argument(in, 0, row, &only, size);
        *data = only;
        return 1;
    }
    if (combine(in, row, k) < 0)
        return -1;
    *data = in->payload.data;
    *size = in->payload.size;
    return 1;
}

int cli_input_look(struct cli_input *in, uint64_t i, const void **data, size_t *size)
{
    return make_payload(in, i / in->inner, i % in->inner, data, size) < 0 ? -1 : 0;
}

const char *cli_input_file(const struct cli_input *in, size_t i, uint64_t *size)
{
    *size = gd_files_size(in->columns[0].files, i);
    return gd_files_path(in->columns[0].files, i);
}

int cli_input_read(struct cli_input *in, const void **data, size_t *size, uint64_t *weight)
{
    uint64_t index = cli_input_given(in);
    if (atomic_load(&in->cancelled) || (!is_streamed(in) && index >= in->rows * in->inner))
        return 0;
    if (in->order)
        index = in->order[index];
    uint64_t row = index / in->inner, k = index % in->inner;
    int some = is_streamed(in) && k == 0 ? take_row(in, row) : 1;
    if (some == 0 && !atomic_load(&in->cancelled))
        atomic_store(&in->ended, true);
    if (some <= 0)
        return some;
    *weight = is_streamed(in) ? in->current_weight : cli_column_weight(&in->columns[0], row);
    if (make_payload(in, row, k, data, size) < 0)
        return -1;
    atomic_fetch_add_explicit(&in->given, 1, memory_order_relaxed);
    return 1;
}

int cli_input_take(struct cli_input *in, struct gd_item *item)
{
    const void *data;
    size_t size;
    uint64_t weight;
    struct cli_task_settings settings;
    const int some = cli_input_read(in, &data, &size, &weight);
    if (some <= 0)
        return some;
    if (read_settings(in, data, size, &settings) < 0)
        return -1;
    item->data = data;
    item->size = size;
    item->weight = weight;
    item->priority = settings.priority;
    item->timeout_ms = settings.timeout_ms;
    return 1;
}

int cli_input_next(struct cli_input *in, struct gd_item *item)
{
    const int some = cli_input_take(in, item);
    return some < 0 ? gd_item_error(item, "%s", gd__fail_text()) : some;
}

void cli_input_cancel(struct cli_input *in)
{
    const uint64_t one = 1;
    atomic_store(&in->cancelled, true);
    /* EAGAIN: the counter is full, so the descriptor is readable already. */
    if (write(in->cancel_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        cli_say("cannot cancel the input: %s", strerror(errno));
    if (in->walk)
        cli_directory_walk_stop(in->walk);
}

void cli_input_close(struct cli_input **input)
{
    struct cli_input *in = *input;
    if (!in)
        return;
    cli_lines_close(&in->lines);
    cli_directory_walk_close(&in->walk);
    cli_arrivals_close(&in->arrivals);
    for (size_t i = 0; i < in->n_columns; i++)
        cli_column_free(&in->columns[i]);
    for (char **p = in->patterns; p && *p; p++)
        free(*p);
    close(in->cancel_fd);
    gd__buffer_free(&in->cleaned);
    gd__buffer_free(&in->payload);
    free(in->name);
    free(in->patterns);
    free(in->columns);
    free(in->order);
    free(in);
    *input = NULL;
}
