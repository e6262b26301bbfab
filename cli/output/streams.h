/* SPDX-License-Identifier: MIT
 *
 * Where results go. Each sink gets the end of every task, in the order in which tasks should appear. One thread calls
 * all sinks (sinks.h), because a write may block for ever. All functions return 0, or -1 with gd__fail_text(). After an
 * error a sink may still be called. A broken sink writes nothing.
 */
#ifndef GD_CLI_OUTPUT_STREAMS_H
#define GD_CLI_OUTPUT_STREAMS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/output/task_end.h"

struct gd_command;
struct cli_progress;

/* --- standard output and standard error ------------------------------------- */

struct cli_streams_options {
    int out, err; /* descriptors; if both are 0, 1 and 2 are used */
    bool tag;     /* --tag: the arguments and a TAB before every line */
    bool silent;  /* print only failure messages, not what tasks wrote (as GNU parallel does with --results)
                   */
    struct cli_progress *progress; /* removed from the terminal while writing; NULL: none */
    pthread_mutex_t *err_lock;     /* held while err is written to, because other threads write there too; NULL: none */
};

struct cli_streams;

int cli_streams_open(struct cli_streams **out, const struct cli_streams_options *o);

/* Writes the task's whole stdout, then its whole stderr. For a failure that the command did not cause itself (timeout,
 * crash, ...) it adds a line with an error message. A task that was cancelled prints nothing. After the reader has gone
 * away, nothing is written: see cli_streams_broken(). */
int cli_streams_add(struct cli_streams *o, const struct cli_task_end *e);

/* Whether the reader of standard output went away (EPIPE). Then the run should end without a message. SIGPIPE must be
 * ignored. */
bool cli_streams_broken(const struct cli_streams *o);

/* To be called before our messages. Ends a line that a task's output has left open on the terminal. */
void cli_streams_end_line(struct cli_streams *o);

void cli_streams_close(struct cli_streams **o);

/* --- --output FILE.jsonl ------------------------------------------------------ */

struct cli_records;

/* Empties the file, unless append is set. With a journal, append is set, and the journal empties the file or cuts it back.
 * "-" is standard output. */
int cli_records_open(struct cli_records **out, const char *path, bool append);
void cli_records_json_input(struct cli_records *r, bool json); /* inputs are JSON texts (--jsonl), written unchanged */
void cli_records_run(struct cli_records *r, uint64_t run);     /* the number of the run in its journal */
int cli_records_fd(const struct cli_records *r);
int cli_records_add(struct cli_records *r, const struct cli_task_end *e); /* one line, one write */
bool cli_records_broken(const struct cli_records *r); /* whether the reader of "-" went away: cli_streams_broken() */
int cli_records_close(struct cli_records **r);

/* --- --joblog FILE ------------------------------------------------------------- */

struct cli_joblog;

/* command is for the last column, borrowed; with NULL the column has the arguments. append continues an existing file.
 */
int cli_joblog_open(struct cli_joblog **out, const char *path, const struct gd_command *command, bool append);
int cli_joblog_begin(struct cli_joblog *j); /* writes the headings, if the file is empty */
int cli_joblog_fd(const struct cli_joblog *j);
int cli_joblog_add(struct cli_joblog *j, const struct cli_task_end *e);
int cli_joblog_close(struct cli_joblog **j);

/* --- --failed FILE, without a journal ---------------------------------------------- */

struct cli_failures;

/* Writes a line for each task that fails (failure_record.h). json: inputs are lines of JSON. */
int cli_failures_open(struct cli_failures **out, const char *path, bool json);
int cli_failures_add(struct cli_failures *f, const struct cli_task_end *e);
int cli_failures_close(struct cli_failures **f);

/* --- --results DIR --------------------------------------------------------------- */

struct cli_results;

/* DIR/1/<first argument>/2/<second>/{stdout,stderr,seq}, with names quoted as in GNU parallel. Makes the directory. */
int cli_results_open(struct cli_results **out, const char *dir);
void cli_results_sync(struct cli_results *r, bool sync); /* each file is forced to the disk before it gets its name */
int cli_results_add(struct cli_results *r, const struct cli_task_end *e);
const char *cli_results_path(const struct cli_results *r); /* the directory of the task that was added last */
void cli_results_close(struct cli_results **r);

#endif
