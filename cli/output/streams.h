/* SPDX-License-Identifier: MIT
 *
 * Where results go. Each of these is given every task's end, in the order in which they are to appear, from one thread
 * (sinks.h): a write may take for ever. All return 0, or -1 with gd__fail_text(); after an error a sink stays usable
 * (and silent if it is broken).
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
    int out, err; /* descriptors; both 0: 1 and 2 */
    bool tag;     /* --tag: the arguments and a TAB before every line */
    bool silent; /* nothing of what tasks wrote, only words of failures (--results: GNU parallel prints nothing then) */
    struct cli_progress *progress; /* is taken off the terminal meanwhile; NULL: none */
    pthread_mutex_t *err_lock;     /* held while err is written to, for others who write there too; NULL: none do */
};

struct cli_streams;

int cli_streams_open(struct cli_streams **out, const struct cli_streams_options *o);

/* What the task wrote, stdout whole and then stderr whole; of a failure that is not the command's own doing (timeout,
 * crash, ...) a line of words as well. A task that was cancelled says nothing. Nothing more is written once the
 * reader is gone: see cli_streams_broken(). */
int cli_streams_add(struct cli_streams *o, const struct cli_task_end *e);

/* The reader of standard output went away (EPIPE): the run should end, quietly. SIGPIPE must be ignored. */
bool cli_streams_broken(const struct cli_streams *o);

/* Before words of ours: ends the line that a task's output has left open on the terminal, if it has. */
void cli_streams_end_line(struct cli_streams *o);

void cli_streams_close(struct cli_streams **o);

/* --- --output FILE.jsonl ------------------------------------------------------ */

struct cli_records;

/* Begins the file anew; append: goes on at its end. "-" is standard output. */
int cli_records_open(struct cli_records **out, const char *path, bool append);
void cli_records_json_input(struct cli_records *r, bool json); /* inputs are JSON texts (--jsonl): kept as such */
void cli_records_run(struct cli_records *r, uint64_t run); /* the number of the run in its journal: a member of each */
int cli_records_fd(const struct cli_records *r);
int cli_records_add(struct cli_records *r, const struct cli_task_end *e); /* one line, one write */
bool cli_records_broken(const struct cli_records *r); /* "-", and its reader went away: as cli_streams_broken() */
int cli_records_close(struct cli_records **r);

/* --- --joblog FILE ------------------------------------------------------------- */

struct cli_joblog;

/* command: for the last column, borrowed; NULL: the arguments stand there. append: goes on at the file's end. */
int cli_joblog_open(struct cli_joblog **out, const char *path, const struct gd_command *command, bool append);
int cli_joblog_begin(struct cli_joblog *j); /* the line of headings, if the file is empty */
int cli_joblog_fd(const struct cli_joblog *j);
int cli_joblog_add(struct cli_joblog *j, const struct cli_task_end *e);
int cli_joblog_close(struct cli_joblog **j);

/* --- --failed FILE, where there is no journal ------------------------------------- */

struct cli_failures;

/* A line for each task that fails (failed.h). json: inputs are lines of JSON. */
int cli_failures_open(struct cli_failures **out, const char *path, bool json);
int cli_failures_add(struct cli_failures *f, const struct cli_task_end *e);
int cli_failures_close(struct cli_failures **f);

/* --- --results DIR --------------------------------------------------------------- */

struct cli_results;

/* DIR/1/<first argument>/2/<second>/{stdout,stderr,seq}, names quoted as GNU parallel does. Makes the folder. */
int cli_results_open(struct cli_results **out, const char *dir);
void cli_results_sync(struct cli_results *r, bool sync); /* each file is forced to the disk before it gets its name */
int cli_results_add(struct cli_results *r, const struct cli_task_end *e);
const char *cli_results_path(const struct cli_results *r); /* the folder of the task that was added last */
void cli_results_close(struct cli_results **r);

#endif
