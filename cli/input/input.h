/* SPDX-License-Identifier: MIT
 *
 * Where tasks come from: arguments, files, standard input, directories. Sources are combined as in GNU parallel.
 *
 *     struct cli_input_options o = { 0 };
 *     struct cli_source s[] = { { CLI_SOURCE_WORDS, .words = (const char *[]){ "a", "b" }, .n_words = 2 },
 *                               { CLI_SOURCE_FILE, .path = "-" } };
 *     o.sources = s, o.n_sources = 2;
 *     struct cli_input *in;
 *     if (cli_input_open(&in, &o) < 0)
 *         ... gd__fail_text()
 *     options.total_tasks = cli_input_total(in);
 *     options.source: return cli_input_next(in, item);
 *     options.source_cancel: cli_input_cancel(in);
 *
 * Several sources give all combinations; the last source varies fastest. A linked source gives one argument for each
 * argument of the source before it. If linked sources have different lengths, the shortest one decides, and the rest of
 * the others is ignored. An empty source counts as one empty argument, unless all sources are empty.
 * A payload is the arguments, separated by NULs. The first source is streamed, in constant memory, unless the options
 * need all of it first. The others are held in memory.
 *
 * cli_input_open() finds the errors that can be found beforehand: missing files, directories without a match. It also
 * reads the sources that are held in memory, and may block while it does.
 */
#ifndef GD_CLI_INPUT_INPUT_H
#define GD_CLI_INPUT_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/dispatcher.h>
#include <gpu_dispatch/launch.h>

enum cli_source_kind {
    CLI_SOURCE_FILE = 0,  /* records of a file; "-" is standard input, which is the default */
    CLI_SOURCE_WORDS = 1, /* arguments after ::: */
    CLI_SOURCE_DIR = 2,   /* files of a directory; must be the only source */
    CLI_SOURCE_LIST = 3,  /* files that were found before, in their order; must be the only source */
    CLI_SOURCE_WATCH = 4, /* files of a directory, then new ones as they are completed; must be the only source */
};

struct cli_source {
    enum cli_source_kind kind;
    bool link;                /* :::+ and ::::+ */
    const char *path;         /* for a FILE, DIR or WATCH */
    const char *const *words; /* for WORDS */
    size_t n_words;
    struct gd_files *files; /* for LIST; borrowed until the input is closed */
    /* For WATCH: called before a file is used, on the thread of the source. Returns false to leave it out. May change its
     * weight, which is its size. NULL: all files are used. */
    bool (*accept)(void *user, const char *path, uint64_t *weight);
    void *user;
};

enum cli_format {
    CLI_FORMAT_LINES = 0, /* a NUL in a line becomes a backslash and a 0, and a warning is printed once */
    CLI_FORMAT_NUL = 1,   /* -0 */
    CLI_FORMAT_JSONL = 2, /* JSON texts, one on each line; blank lines are skipped, and a line that --failed
                             wrote becomes the input of the task that failed. Must be the only source */
};

/* Zero means default. Everything is copied, except a LIST. */
struct cli_input_options {
    const struct cli_source *sources; /* in the order of the command line; for `:::: a b` two of them */
    size_t n_sources;                 /* 0: standard input */
    enum cli_format format;           /* the format of all FILE sources */
    bool json_payload; /* JSONL: payloads are always JSON; a failed input that was plain text becomes a string */
    bool skip_blank;   /* -r: empty or blank arguments are left out */
    bool need_total;   /* read everything first, so that the total is known (--halt with a percentage) */
    bool shuffle;      /* --shuf: read everything first, and return it in random order */
    bool seeded;       /* --shuf: the order follows from seed */
    uint64_t seed;
    uint64_t idle_ms;            /* for a WATCH: end after this time without a new file; 0: never */
    const char *const *patterns; /* for a DIR or WATCH; NULL-terminated, NULL: every file */
    bool recursive;
    bool hidden;
    enum gd_file_order order;
};

struct cli_input;

/* Returns 0, or -1 with gd__fail_text(). */
int cli_input_open(struct cli_input **out, const struct cli_input_options *o);

/* The number of tasks; 0: not known (a stream). */
uint64_t cli_input_total(const struct cli_input *in);

/* The number of tasks returned so far. Any thread. */
uint64_t cli_input_given(const struct cli_input *in);

/* The total number of tasks. False if a stream was not read to its end: *out is then a lower bound. Any thread. */
bool cli_input_count(const struct cli_input *in, uint64_t *out);

/* A gd_source_fn: returns 1 and the item, 0 at the end or when cancelled, or an error. */
int cli_input_next(struct cli_input *in, struct gd_item *item);

/* The same without a source: *item is only filled. Returns 1; 0 at the end or when cancelled; -1 with gd__fail_text(). */
int cli_input_take(struct cli_input *in, struct gd_item *item);

/* The same for the payload alone. Returns 1 with *data (until the next call), *size and *weight (0: not known); 0 at the
 * end; -1 with gd__fail_text(). */
int cli_input_read(struct cli_input *in, const void **data, size_t *size, uint64_t *weight);

/* Task i of an input that is not streamed, in the order before --shuf, without taking it. *data is valid until the next
 * call. Returns 0, or -1 with gd__fail_text(). Not while another thread takes tasks. */
int cli_input_look(struct cli_input *in, uint64_t i, const void **data, size_t *size);

/* File i of an input that is a list of files, and its size. Borrowed until the input is closed. */
const char *cli_input_file(const struct cli_input *in, size_t i, uint64_t *size);

/* Makes a blocked cli_input_next() return 0, and all later calls too. Any thread. */
void cli_input_cancel(struct cli_input *in);

void cli_input_close(struct cli_input **in); /* NULL is fine */

#endif
