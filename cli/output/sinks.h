/* SPDX-License-Identifier: MIT
 *
 * All that is written about tasks, as one: standard output, --output, --joblog, --results, the progress display.
 *
 * Nothing of it is written by the thread that adds it: two lanes (output/lane.h) do that, one for what tasks gave and
 * one for words of ours, so that a person is told what happens though nobody reads standard output. A task's record in
 * the journal is written when its own output was. While too much output waits, no new task is begun.
 */
#ifndef GD_CLI_OUTPUT_SINKS_H
#define GD_CLI_OUTPUT_SINKS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cli/output/lane.h"
#include "cli/output/progress.h"
#include "cli/output/streams.h"
#include "cli/output/worker_lines.h"
#include "cli/run/journal/run_journal.h"
#include "cli/run/run_options.h"
#include "cli/run/views/watch.h"

/* Zeroed: nothing is written. It stays where it is, since the lanes use it. */
struct cli_sinks {
    /* To be set before cli_sinks_draw(): */
    struct gd_dispatcher *d;
    void (*trouble)(void *user); /* there is no sense in going on: nobody reads standard output, or there is a journal
                                    and an output could not be kept. Once, on another thread */
    void *user;

    struct cli_lane *tasks, *words;
    pthread_t thread; /* the run's, whose are: */
    char *packed;     /* tasks that ended in this round, not yet on their lane */
    size_t packed_size, n_packed;

    pthread_mutex_t err_lock; /* held while standard error is written to */
    bool one_stream;          /* standard output and standard error are the same file */
    bool flushed;
    bool drained; /* valid once flushed: all that was added is written */
    atomic_uint_fast64_t waiting, unsaid;
    atomic_bool troubled, broken;
    atomic_bool failed; /* something could not be written; it was said */
    struct cli_streams *output;
    struct cli_records *records;
    struct cli_joblog *joblog;
    struct cli_results *results;
    struct cli_failures *failures;
    struct cli_progress *progress;
    struct cli_journal *journal; /* borrowed; NULL: there is no journal */
    const char *output_path;
    struct cli_worker_lines *passed; /* NULL: workers write by themselves */
};

/* Opens what was asked for. command: of the joblog, may be NULL. keep: the journal, or NULL; it follows the files, and
 * they are gone on with if it is resumed. 0, or -1 with gd__fail_text(). */
int cli_sinks_open(struct cli_sinks *s, const struct cli_run *r, const struct gd_command *command,
                   struct cli_journal *journal);

/* What is shown of a run that was asked for like this, where standard error is what it is now. */
enum cli_progress_style cli_sinks_style(const struct cli_run *r);

/* Begins to draw, if that was asked for. watch: for what shows more than a line. */
int cli_sinks_draw(struct cli_sinks *s, const struct cli_run *r, cli_stats_fn *stats, void *user,
                   struct cli_watch *watch);

/* What a worker wrote by itself, while a panel is shown. stream is 1 or 2. */
void cli_sinks_pass(struct cli_sinks *s, int worker_id, int stream, const char *text, size_t size);

/* Within the callback: copies the task's end, to be given to all of them, and then what is known of it to the journal.
 */
void cli_sinks_add(struct cli_sinks *s, const struct cli_task_end *e);

/* On the run's thread, when it has made all callbacks that are due: hands what was added to the lane. One wake-up
 * serves many short tasks. */
void cli_sinks_round(struct cli_sinks *s);

/* Another signal came: what can't be written is waited for no longer than the lanes have patience. Any thread. */
void cli_sinks_hurry(struct cli_sinks *s, unsigned signals);

/* Nobody reads what goes to standard output any more. */
bool cli_sinks_broken(const struct cli_sinks *s);

/* After the last task: waits until all is written. False: it was given up, and what is left is lost; that was said. To
 * be called again is fine. */
bool cli_sinks_flush(struct cli_sinks *s);

/* After that: takes the progress display away, if there is one. False: it can't be, since the terminal takes nothing.
 */
bool cli_sinks_undraw(struct cli_sinks *s);

/* Text for standard error, after what was said before. */
void cli_sinks_print(struct cli_sinks *s, const char *text, size_t size);

/* Closes the files, which can fail too: see failed. */
void cli_sinks_close_files(struct cli_sinks *s);

/* Waits until all words of ours are written. False: it was given up. */
bool cli_sinks_end(struct cli_sinks *s);

/* Not after anything was given up: the lanes still use it. */
void cli_sinks_close(struct cli_sinks *s);

#endif
