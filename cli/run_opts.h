/* SPDX-License-Identifier: MIT
 *
 * What was asked for on the command line of `gpu-dispatch run`.
 */
#ifndef GD_CLI_RUN_OPTS_H
#define GD_CLI_RUN_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/launch.h>

#include "halt.h"
#include "input.h"
#include "opts.h"

struct cli_workers {
    unsigned per_gpu; /* 0: as many as find room at model_bytes each */
    uint64_t model_bytes;
};

/* One that was not given is 0 unless its default is set in cli_run_parse(). Borrowed from argv. */
struct cli_run {
    /* devices and workers */
    const char *gpus;
    struct cli_workers workers;
    bool any_cpu;
    unsigned setup_jobs, setup_timeout_ms;
    uint64_t seed;
    bool seeded;
    const char *worker, *stream, *setup_args; /* worker, stream: "" if the words after -- are meant */
    unsigned batch_size, io_threads;

    /* input */
    struct cli_list arg_files, patterns;
    bool nul, jsonl, skip_blank, recursive, shuffle;
    const char *input_dir;
    struct {
        bool given;
        enum gd_order order;
    } order;
    unsigned queue_size;

    /* tasks */
    bool quote, dry_run;
    unsigned timeout_ms, term_grace_ms, delay_ms, crash_limit;
    struct {
        bool given;
        unsigned tries; /* in all; 0: without end */
    } retries;
    struct cli_halt halt;

    /* output */
    bool keep_order, tag, ungroup, quiet, verbose, bar, eta;
    const char *joblog, *results, *output;

    /* keeping what is done */
    const char *journal, *failed; /* files */
    bool resume, retry_failed, force_resume;
    const char *key;  /* as it was written; NULL: chosen by the kind of input */
    const char *sync; /* "normal", "full"; NULL: normal */

    /* showing it */
    const char *progress; /* "auto", "panel", "bar", "eta", "line", "json", "none"; NULL: auto */
    const char *http;     /* [ADDRESS:]PORT */
    const char *http_token;

    bool help, list_options;

    /* the rest of the line, made by cli_run_parse(); NULL-terminated, released by cli_run_free() */
    const char **words; /* the command or the program with its arguments */
    size_t n_words;
    struct cli_source *sources;
    size_t n_sources;
    char *split; /* what words of one string point into */
};

extern const struct cli_opts cli_run_options;

/* Whether a --worker is a plugin: its name ends in .so, or .so and a version. */
bool cli_is_plugin(const char *path);

/* 0, or -1 with cli_error_text(). The words of the line after "run". */
int cli_run_parse(struct cli_run *r, int argc, char **argv);
void cli_run_free(struct cli_run *r);

#endif
