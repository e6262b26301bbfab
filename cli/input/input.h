/* SPDX-License-Identifier: MIT
 *
 * Where tasks come from: arguments, files, standard input, folders; combined as GNU parallel combines them.
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
 * Several sources give all combinations, the last varying fastest; a linked one goes in step with the one before it
 * and the shorter of the two ends both. A source without anything counts as one empty argument, unless all are empty.
 * A payload is the arguments with a NUL between them. The first source is streamed, in constant memory, unless the
 * options need all of it; the others are held.
 *
 * Everything that can be found wrong beforehand is found in cli_input_open(): files that are not there, folders
 * without a match. It also reads what is to be held, and may block for that.
 */
#ifndef GD_CLI_INPUT_INPUT_H
#define GD_CLI_INPUT_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/dispatcher.h>
#include <gpu_dispatch/launch.h>

enum cli_source_kind {
    CLI_SOURCE_FILE = 0,  /* records of a file; "-" is standard input. What there is if nothing is given: "-" */
    CLI_SOURCE_WORDS = 1, /* arguments after ::: */
    CLI_SOURCE_DIR = 2,   /* files of a folder; must be the only source */
    CLI_SOURCE_LIST = 3,  /* files that were found before, in their order; must be the only source */
};

struct cli_source {
    enum cli_source_kind kind;
    bool link;                /* :::+ and ::::+ */
    const char *path;         /* of a FILE or DIR */
    const char *const *words; /* of WORDS */
    size_t n_words;
    struct gd_files *files; /* of LIST; borrowed until the input is closed */
};

enum cli_format {
    CLI_FORMAT_LINES = 0, /* a NUL in a line becomes "\0", and a warning is given once */
    CLI_FORMAT_NUL = 1,   /* -0 */
    CLI_FORMAT_JSONL = 2, /* lines, as they are; blank ones are skipped, and a record of a failure (failed.h) stands for
                             the input that failed. Must be the only source */
};

/* Zero means default. All is copied, except a LIST. */
struct cli_input_options {
    const struct cli_source *sources; /* in the order of the command line; for `:::: a b` two of them */
    size_t n_sources;                 /* 0: standard input */
    enum cli_format format;           /* of all FILE sources */
    bool json_payload;                /* of JSONL: payloads are JSON texts also where the input that failed was none */
    bool skip_blank;                  /* -r: arguments that are empty or white space are left out */
    bool need_total;                  /* read everything first, so that the total is known (--halt with a percentage) */
    bool shuffle;                     /* --shuf: read everything first, give it in a random order */
    bool seeded;                      /* of --shuf: */
    uint64_t seed;
    const char *const *patterns; /* of a DIR; NULL-terminated, NULL: every file */
    bool recursive;
    bool hidden;
    enum gd_file_order order;
};

struct cli_input;

/* 0, or -1 with gd__fail_text(). */
int cli_input_open(struct cli_input **out, const struct cli_input_options *o);

/* How many tasks there will be; 0 if not known (a stream). */
uint64_t cli_input_total(const struct cli_input *in);

/* How many there were by now that were given. Any thread. */
uint64_t cli_input_given(const struct cli_input *in);

/* How many there are in all; false: at least, of a stream that was not read to its end. Any thread. */
bool cli_input_count(const struct cli_input *in, uint64_t *out);

/* As a gd_source_fn: 1 and the item, 0 at the end or when cancelled, or an error. */
int cli_input_next(struct cli_input *in, struct gd_item *item);

/* What cli_input_next() is made of. 1: *data (until the next call), *size and *weight (0: none known); 0: the end;
 * -1: gd__fail_text(). */
int cli_input_read(struct cli_input *in, const void **data, size_t *size, uint64_t *weight);

/* Makes a blocked cli_input_next() return 0, and all after it. Any thread. */
void cli_input_cancel(struct cli_input *in);

void cli_input_close(struct cli_input **in); /* NULL is fine */

#endif
