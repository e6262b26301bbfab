/* SPDX-License-Identifier: MIT
 *
 * What was asked for on the command line of `gpu-dispatch run`.
 */
#ifndef GD_CLI_RUN_RUN_OPTIONS_H
#define GD_CLI_RUN_RUN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <gpu_dispatch/launch.h>

#include "base/text/buffer.h"
#include "cli/input/input.h"
#include "cli/options.h"
#include "cli/run/stop/halt.h"

struct gd__buffer;
struct cli_task_end;

struct cli_workers {
    unsigned per_gpu; /* 0: as many as find room at model_bytes each */
    uint64_t model_bytes;
};

struct cli_retries {
    bool given;
    unsigned tries; /* in all; 0: without end */
};

/* What a subcommand says that makes a run of its own (run.h). */
struct cli_run_own {
    const char *job;      /* what observers know it by; NULL: the words */
    const char *identity; /* what a journal knows the work by; NULL: the words and what else makes a difference */
    /* Adds such an identity as a person would know it again. NULL: as it is. */
    void (*show_identity)(struct gd__buffer *b, const char *identity);
    bool silent; /* results are not printed */
    bool json;   /* those of a plugin are JSON texts */
    /* How long what a task has processed plays, for the summary; 0: not known. NULL: it does not play. */
    double (*media_seconds)(const struct cli_task_end *e);
    /* How much work each file of a CLI_SOURCE_LIST is: its "size" times this. 0: tasks are counted. */
    double work_unit;
    const char *media; /* that work is seconds of this: "audio"; NULL: it is something else */
};

/* One that was not given is 0 unless its default is set in cli_run_defaults(). Borrowed from argv. */
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
        enum gd_file_order order;
    } order;
    unsigned queue_size;

    /* tasks */
    bool quote, dry_run;
    unsigned timeout_ms, term_grace_ms, delay_ms, crash_limit;
    struct cli_retries retries;
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
    const char *http_token_file;

    bool help, list_options;

    /* the rest of the line, made by cli_run_parse(); NULL-terminated, released by cli_run_free() */
    const char **words; /* the command or the program with its arguments */
    size_t n_words;
    struct cli_source *sources;
    size_t n_sources;
    char *split; /* what words of one string point into */

    struct cli_run_own own;
};

extern const struct cli_opts cli_run_options;

/* No words of ours about how it went: --quiet, or a program reads JSON there. */
static inline bool cli_run_is_silent(const struct cli_run *r)
{
    return r->quiet || (r->progress && strcmp(r->progress, "json") == 0);
}

/* Whether a --worker is a plugin: its name ends in .so, or .so and a version. */
bool cli_is_plugin(const char *path);

/* For the options that other subcommands have too. */
cli_opt_set cli_set_workers;  /* struct cli_workers */
cli_opt_set cli_set_retries;  /* struct cli_retries */
cli_opt_set cli_set_timeout;  /* unsigned, milliseconds */
cli_opt_set cli_set_progress; /* const char * */
cli_opt_set cli_set_sync;     /* const char * */

void cli_run_defaults(struct cli_run *r);

/* 0, or -1 with gd__fail_text(). The words of the line after "run". */
int cli_run_parse(struct cli_run *r, int argc, char **argv);
void cli_run_free(struct cli_run *r);

#endif
