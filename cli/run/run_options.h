/* SPDX-License-Identifier: MIT
 *
 * The options of `gpu-dispatch run`, as given on the command line.
 */
#ifndef GD_CLI_RUN_RUN_OPTIONS_H
#define GD_CLI_RUN_RUN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <gpu_dispatch/launch.h>
#include <gpu_dispatch/shard.h>

#include "base/text/buffer.h"
#include "cli/input/input.h"
#include "cli/options.h"
#include "cli/queue/queue_options.h"
#include "cli/run/stop/halt.h"

struct gd__buffer;
struct cli_task_end;

struct cli_workers {
    unsigned per_gpu; /* 0: as many as fit at model_bytes each */
    uint64_t model_bytes;
};

struct cli_lock_wait {
    bool given;
    unsigned ms;
};

struct cli_idle_exit {
    bool given, never;
    unsigned ms;
};

enum { CLI_SHARD_NAMES = 4 }; /* files that each shard has for itself */

struct cli_retries {
    bool given;
    unsigned tries; /* in total; 0: no limit */
};

/* Set by subcommands other than `run` that make a run (run.h). */
struct cli_run_own {
    const char *job;      /* the run's name for observers; NULL: the command */
    const char *identity; /* identifies the work in a journal; NULL: the command and the options that matter */
    /* Adds the identity in a form that the user recognises. NULL: unchanged. */
    void (*show_identity)(struct gd__buffer *b, const char *identity);
    bool silent; /* results are not printed */
    bool json;   /* results of a plugin are JSON texts */
    /* The playing time of a task's input, for the summary; 0: unknown. NULL: inputs are not media. */
    double (*media_seconds)(const struct cli_task_end *e);
    /* The work in each file of a CLI_SOURCE_LIST: its "size" times this. 0: tasks are counted. */
    double work_unit;
    /* How much of its work a running task has done, in the same unit as the sum of all work, from a part of its result. Less
     * than 0: the part does not say. NULL: parts are ignored. */
    double (*work_done)(const void *data, size_t size);
    bool is_dealt;     /* the CLI_SOURCE_LIST has only files of this shard */
    const char *media; /* the work is seconds of this: "audio"; NULL: it is something else */
    /* Called at the end of each task, on the run's thread. NULL: nothing to do. */
    void (*on_end)(void *user, const struct cli_task_end *e);
    void *user;
};

/* An option that was not given is 0 unless cli_run_defaults() sets its default. Strings are borrowed from argv. */
struct cli_run {
    /* devices and workers */
    const char *gpus;
    struct cli_workers workers;
    unsigned gpus_per_worker;
    enum gd_visible_devices visible_devices;
    bool any_cpu, ignore_gpu_locks;
    unsigned setup_jobs, setup_timeout_ms;
    uint64_t seed;
    bool seeded;
    const char *worker, *stream, *setup_args; /* worker, stream: "" if the program comes after -- */
    unsigned batch_size, io_threads;

    /* input */
    struct cli_list arg_files, patterns;
    bool nul, jsonl, skip_blank, recursive, shuffle;
    const char *input_dir, *watch;
    struct {
        bool given;
        enum gd_file_order order;
    } order;
    unsigned queue_size;

    /* tasks */
    bool quote, dry_run;
    unsigned max_tasks_per_worker, timeout_ms, term_grace_ms, stop_grace_ms, delay_ms, crash_limit;
    struct cli_retries retries;
    struct cli_halt halt;

    /* output */
    bool keep_order, tag, ungroup, quiet, verbose, bar, eta;
    const char *joblog, *results, *output;

    /* journal */
    const char *journal, *failed; /* files; with --shard, those of this shard */
    bool resume, retry_failed, force_resume;
    const char *key;  /* as the user wrote it; NULL: chosen by the kind of input */
    const char *sync; /* "normal", "full"; NULL: normal */

    struct cli_list skip_done; /* other journals */
    struct cli_lock_wait lock_wait;

    /* shard; all but the first are set by cli_shard_options_apply() */
    const char *shard_text; /* as the user wrote it; NULL: the whole list */
    struct gd_shard shard;  /* count 0: the whole list */
    char shard_origin[GD_SHARD_ORIGIN];
    const char *journal_base;           /* --journal as the user wrote it */
    char *shard_names[CLI_SHARD_NAMES]; /* storage of journal, output, joblog and failed */

    /* queue */
    struct cli_queue queue;
    struct cli_idle_exit idle_exit;
    const char *spool;
    unsigned lost_timeout_ms;
    bool queue_force;

    /* display */
    const char *progress; /* "auto", "panel", "bar", "eta", "line", "json", "none"; NULL: auto */
    const char *http;     /* [ADDRESS:]PORT */
    const char *http_token_file;

    bool help, list_options;

    /* the rest of the command line, made by cli_run_parse(); NULL-terminated, released by cli_run_free() */
    const char **words; /* the command or the program with its arguments */
    size_t n_words;
    struct cli_source *sources;
    size_t n_sources;
    char *split; /* if the command was one string: the storage of words */

    struct cli_run_own own;
};

extern const struct cli_opts cli_run_options;

/* True: no messages about progress, because of --quiet or because a program reads JSON from standard error. */
static inline bool cli_run_is_silent(const struct cli_run *r)
{
    return r->quiet || (r->progress && strcmp(r->progress, "json") == 0);
}

/* Whether a --worker is a plugin: its name ends in .so, or .so and a version. */
bool cli_is_plugin(const char *path);

/* For options that other subcommands share. */
cli_opt_set cli_set_workers;  /* struct cli_workers */
cli_opt_set cli_set_retries;  /* struct cli_retries */
cli_opt_set cli_set_timeout;  /* unsigned, milliseconds */
cli_opt_set cli_set_progress; /* const char * */
cli_opt_set cli_set_sync;     /* const char * */

void cli_run_defaults(struct cli_run *r);

/* Reads the command line after "run". Returns 0, or -1 with gd__fail_text(). */
int cli_run_parse(struct cli_run *r, int argc, char **argv);
void cli_run_free(struct cli_run *r);

#endif
