/* SPDX-License-Identifier: MIT
 *
 * The end of a task, decoded once for everything that is written about it: standard output, --output, --joblog,
 * --results, --halt.
 */
#ifndef GD_CLI_OUTPUT_TASK_END_H
#define GD_CLI_OUTPUT_TASK_END_H

#include <stdbool.h>
#include <stddef.h>

#include <gpu_dispatch/command.h>
#include <gpu_dispatch/dispatcher.h>

/* The kind of result that a worker returns. */
enum cli_result_kind {
    CLI_RESULT_COMMAND = 0, /* gd_command_worker(): stdout, stderr, exit code */
    CLI_RESULT_BYTES = 1,   /* a plugin: bytes */
    CLI_RESULT_JSON = 2,    /* gd_stream_worker(): a JSON text */
};

/* Points into the report. */
struct cli_task_end {
    const struct gd_report *report;
    enum cli_result_kind kind;
    bool ok;
    bool ran;           /* a command that ran to its end: exit_code and signal are its own */
    const char *status; /* "ok", "error", "timeout", "crash", ... */
    const char *out, *err;
    size_t out_size, err_size; /* err: commands only */
    int exit_code;             /* as in GNU parallel: 0 with a signal, -1 for a timeout or if there is no exit code */
    int signal;                /* 15 for a timeout */
    double started;            /* Unix time; 0: never */
    double seconds;
    unsigned slot;      /* {%}: number of its worker, from 1; 0: no worker got the task */
    const int *gpu_ids; /* {gpu}: the devices of that worker, if they are known */
    size_t n_gpus;
};

/* Does not set slot and gpu_ids. The caller sets them. */
void cli_task_end_read(struct cli_task_end *e, const struct gd_report *report, enum cli_result_kind kind);

/* Packs a task's end, with everything it points to and a pointer that the caller chooses, into one block of memory. The
 * size is a multiple of CLI_TASK_END_ALIGN, and the block must have that alignment. */
enum { CLI_TASK_END_ALIGN = 16 };
size_t cli_task_end_packed_size(const struct cli_task_end *e);
void cli_task_end_pack(void *at, const struct cli_task_end *e, void *extra);

/* Decodes a block again, like cli_task_end_read(). Fills *report, which points into the block. Returns the block's
 * size. */
size_t cli_task_end_unpack(struct cli_task_end *e, struct gd_report *report, const void *at, void **extra);

/* The exit status as a shell gives it: the code, 128 + signal, or 255 if there is neither. */
int cli_task_end_shell_status(const struct cli_task_end *e);

#endif
