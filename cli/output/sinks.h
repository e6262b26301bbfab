/* SPDX-License-Identifier: MIT
 *
 * Everything that is written about tasks, behind one interface: standard output, --output, --joblog, --results, the
 * progress display.
 *
 * The thread that adds a task does not write it. Two lanes (output/lane.h) write: one for the output of tasks, one for
 * our messages. So messages still appear when nothing reads standard output. A task's journal record is written after
 * its output. While too much output waits, no new task is begun.
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

/* A zeroed struct writes nothing. It must not be moved, since the lanes use it. */
struct cli_sinks {
    /* To be set before cli_sinks_draw(): */
    struct gd_dispatcher *d;
    void (*trouble)(void *user); /* called when the run should end: nothing reads standard output, or there is a
                                    journal and an output could not be written. Called once, on another thread */
    void *user;

    struct cli_lane *tasks, *messages;
    pthread_t thread; /* the run's thread; only this thread uses the next three fields */
    char *packed;     /* tasks that ended in this round and are not on their lane yet */
    size_t packed_size, n_packed;

    pthread_mutex_t err_lock; /* held while standard error is written to */
    bool one_stream;          /* standard output and standard error are the same file */
    bool flushed;
    bool drained; /* set together with flushed; true: everything that was added is written */
    atomic_uint_fast64_t waiting, dropped;
    atomic_bool troubled, broken;
    atomic_bool failed; /* something could not be written, and that was reported */
    struct cli_streams *output;
    struct cli_records *records;
    struct cli_joblog *joblog;
    struct cli_results *results;
    struct cli_failures *failures;
    struct cli_progress *progress;
    struct cli_journal *journal; /* borrowed; NULL: no journal */
    bool is_durable;             /* a task without output has no record, in a journal or a queue, and is run again */
    const char *output_path;
    struct cli_worker_lines *worker_lines; /* NULL: workers write directly to our streams */
};

/* Opens the outputs that were requested. command is for the joblog and may be NULL. journal may be NULL. Otherwise it
 * follows the files. If the journal is resumed, the files are continued. Returns 0, or -1 with gd__fail_text(). */
int cli_sinks_open(struct cli_sinks *s, const struct cli_run *r, const struct gd_command *command,
                   struct cli_journal *journal);

/* The progress style for these options and the current standard error. */
enum cli_progress_style cli_sinks_style(const struct cli_run *r);

/* Starts the progress display, if requested. watch is for the styles that show more than a line. */
int cli_sinks_draw(struct cli_sinks *s, const struct cli_run *r, cli_stats_fn *stats, void *user,
                   struct cli_watch *watch);

/* Adds output that a worker wrote directly, while a panel is shown. stream is 1 or 2. */
void cli_sinks_pass(struct cli_sinks *s, int worker_id, int stream, const char *text, size_t size);

/* To be called in the dispatcher's callback for the end of a task. Copies the task's end. A lane writes the copy to all
 * outputs and then to the journal. */
void cli_sinks_add(struct cli_sinks *s, const struct cli_task_end *e);

/* To be called on the run's thread after all callbacks that are due. Passes the added tasks to the lane together, so
 * that many short tasks need only one wake-up. */
void cli_sinks_round(struct cli_sinks *s);

/* Called after each signal. Limits how long the lanes wait for writes (output/lane.h). Any thread. */
void cli_sinks_hurry(struct cli_sinks *s, unsigned signals);

/* Whether nothing reads standard output any more. */
bool cli_sinks_broken(const struct cli_sinks *s);

/* Called after the last task. Waits until everything is written. Returns false if the lane was given up. Then the rest
 * is lost, and that was reported. May be called again. */
bool cli_sinks_flush(struct cli_sinks *s);

/* Called after cli_sinks_flush(). Removes the progress display, if there is one. False if the terminal accepts no
 * output. */
bool cli_sinks_undraw(struct cli_sinks *s);

/* Prints text on standard error, after the earlier messages. */
void cli_sinks_print(struct cli_sinks *s, const char *text, size_t size);

/* Closes the files. Sets failed on an error. */
void cli_sinks_close_files(struct cli_sinks *s);

/* Waits until all our messages are written. False if the lane was given up. */
bool cli_sinks_end(struct cli_sinks *s);

/* Must not be called after a lane was given up, because its thread still uses the struct. */
void cli_sinks_close(struct cli_sinks *s);

#endif
