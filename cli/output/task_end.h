/* SPDX-License-Identifier: MIT
 *
 * The end of a task, taken apart once for everything that is written about it: standard output, --output, --joblog,
 * --results, --halt.
 */
#ifndef GD_CLI_OUTPUT_TASK_END_H
#define GD_CLI_OUTPUT_TASK_END_H

#include <stdbool.h>
#include <stddef.h>

#include <gpu_dispatch/command.h>
#include <gpu_dispatch/dispatcher.h>

/* What a worker's results are. */
enum cli_result_kind {
    CLI_RESULT_COMMAND = 0, /* gd_command_worker(): stdout, stderr, exit code */
    CLI_RESULT_BYTES = 1,   /* a plugin: bytes */
    CLI_RESULT_JSON = 2,    /* gd_stream_worker(): a JSON text */
};

/* Borrowed from the report. */
struct cli_task_end {
    const struct gd_report *report;
    enum cli_result_kind kind;
    bool ok;
    bool ran;           /* it was a command and ran to its end: exit_code and signal are its own */
    const char *status; /* "ok", "error", "timeout", "crash", ... */
    const char *out, *err;
    size_t out_size, err_size; /* err: commands only */
    int exit_code;             /* as GNU parallel has it: 0 with a signal, -1 for a timeout or where there is none */
    int signal;                /* 15 for a timeout */
    double started;            /* Unix time; 0: never */
    double seconds;
    unsigned slot; /* {%}: number of its worker, from 1; 0: it was never given to one */
};

/* The slot is left to who knows the workers. */
void cli_task_end_read(struct cli_task_end *e, const struct gd_report *report, enum cli_result_kind kind);

/* A copy of it, with all that it points to and a word of the caller's, as one block of memory: so many bytes, a
 * multiple of CLI_TASK_END_ALIGN, at which it must begin. */
enum { CLI_TASK_END_ALIGN = 16 };
size_t cli_task_end_packed_size(const struct cli_task_end *e);
void cli_task_end_pack(void *at, const struct cli_task_end *e, void *word);

/* Reads it again, as cli_task_end_read() does; *report is filled and points into the block. Returns its size. */
size_t cli_task_end_unpack(struct cli_task_end *e, struct gd_report *report, const void *at, void **word);

/* The exit status by which a shell knows it: the code, 128 + signal, 255 where there is none. */
int cli_task_end_shell_status(const struct cli_task_end *e);

#endif
