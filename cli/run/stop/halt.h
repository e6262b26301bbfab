/* SPDX-License-Identifier: MIT
 *
 * --halt: when to stop before the end, and what that does to the exit status. As in GNU parallel.
 *
 *     cli_halt_parse(&halt, "soon,fail=3")
 *     cli_halt_add(&halt, &e)                    at every task's end: CLI_HALT_SOON: shut down; CLI_HALT_NOW: abort
 *     cli_exit_status(&halt, result, any_error)  at the end
 */
#ifndef GD_CLI_RUN_STOP_HALT_H
#define GD_CLI_RUN_STOP_HALT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/output/task_end.h"

enum cli_halt_when { CLI_HALT_NEVER = 0, CLI_HALT_SOON = 1, CLI_HALT_NOW = 2 };
enum cli_halt_what { CLI_HALT_FAIL = 0, CLI_HALT_SUCCESS = 1, CLI_HALT_DONE = 2 };

enum { CLI_HALT_TEXT = 96, CLI_HALT_ROOM = 320 };

/* A zeroed struct means "never", with nothing counted. */
struct cli_halt {
    enum cli_halt_when when;
    enum cli_halt_what what;
    uint64_t limit;     /* this many tasks, or 0: use percent */
    unsigned percent;   /* percentage of the tasks; needs total */
    uint64_t total;     /* set by the caller: cli_input_total() */
    uint64_t succeeded; /* counted here, like the next two */
    uint64_t failed;
    uint64_t cancelled;        /* no limit counts them */
    bool halted;               /* the limit has been reached */
    int status;                /* the exit status, if halted */
    char task[CLI_HALT_TEXT];  /* the task that reached the limit, "a.wav" with its quotes, or its number from 1 */
    char error[CLI_HALT_TEXT]; /* the error message of that task; "": it has none */
};

/* "never", "now,fail=1", "soon,fail=20%", "now,success=3", "soon,done=50%"; the old "0", "1", "2", "20%". Sets when,
 * what, limit, percent. Returns 0, or -1 with gd__fail_text(). */
int cli_halt_parse(struct cli_halt *h, const char *text);

/* True if the limit can't be decided without the number of tasks. */
bool cli_halt_needs_total(const struct cli_halt *h);

/* Counts a task's end and returns what to do now. Each value other than CLI_HALT_NEVER is returned once. */
enum cli_halt_when cli_halt_add(struct cli_halt *h, const struct cli_task_end *e);

/* Describes why the run was halted: "task \"a.wav\" failed (exited with code 1)", "10 of 50 tasks ended, the limit is
 * 20%". CLI_HALT_ROOM bytes are enough. Returns out. */
char *cli_halt_reason(const struct cli_halt *h, char *out, size_t size);

/* The exit status by the number of failures, if the limit was not reached. */
int cli_halt_count_status(const struct cli_halt *h);

#endif
