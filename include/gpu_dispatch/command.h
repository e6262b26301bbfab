/* SPDX-License-Identifier: MIT
 *
 * Workers that are other programs: a command that is run once per task, and a program that stays alive and exchanges
 * JSON lines.
 *
 *     const char *const words[] = { "sha256sum", "{}", NULL };
 *     struct gd_command_spec spec = { .size = sizeof spec, .words = words };
 *     o.worker_argv = gd_command_worker(&spec);     // release with gd_argv_free()
 *
 * Command. The library replaces the placeholders below, joins the words of the template with spaces and runs the result
 * in a shell, as GNU parallel does:
 *
 *   {}    the input                     {#}   number of the task, from 1
 *   {.}   the input, no extension       {%}   number of the worker, from 1
 *   {/}   its base name                 {gpu} number of the GPU
 *   {//}  its directory
 *   {/.}  its base name, no extension
 *   {2} {2.} {2/} {2//} {2/.}           the same for the second argument of a task that has several
 *
 * Replacements are quoted for the shell. There are two exceptions: the first word contains a placeholder, or the
 * template has no words. Then the input is a command line or a part of one, and is inserted unchanged. If the template
 * has no placeholder except {gpu}, the library adds {} as its last word. If no character of the command line is special
 * to a shell, the program is started directly. This is faster, with the same result.
 *
 * The payload of a task is its arguments, with a NUL between them. {} stands for all of them. The command has no
 * standard input. Its environment contains GPU_DISPATCH_TASK_ID, GPU_DISPATCH_ATTEMPT, PARALLEL_SEQ ({#}) and
 * PARALLEL_JOBSLOT ({%}). It runs in the worker's process group, so processes that it leaves running end with the
 * worker. Its result is its output: see gd_command_read(). If it exits with a status other than 0, the task fails and
 * is retried like any other task. Its output is still delivered.
 *
 * Stream. The program is started once per worker. It writes the line {"ready":true}. If its setup failed it writes
 * {"ready":false,"error":"message"} instead. Then it reads one line per task:
 *
 *   {"id":7,"attempt":1,"input":"a.wav"}
 *
 * It answers each task with one line:
 *
 *   {"id":7,"output":...}           success; the output is any JSON value, and its text is the result of the task
 *   {"id":7,"error":"message"}      failure
 *
 * A failure is retried unless the line has "final":true. "kind" may be "out_of_memory" or "device_lost".
 *
 * The library may send several tasks before the program has answered the first: as many as the program processes in
 * about a millisecond, or gd_options.batch_size if that is more. The program may answer them in any order. It must exit
 * at the end of its input. Bytes of an input that are not UTF-8 are written as \udc80 to \udcff; Python's os.fsencode()
 * turns them back into bytes. A line is at most 1 GiB long. A line of any other form is a violation of the protocol:
 * the program is killed and replaced, and its tasks are started again. If this happens crash_limit times during the
 * same task, the task is reported as a crash.
 *
 * A program that gathers tasks, or works on several at once, writes {"ready":true,"concurrency":64}. Then at most 64
 * tasks are in flight, new lines come while others are in flight, and there are three more kinds of lines:
 *
 *   {"flush":true}                  to the program: no more tasks follow for now
 *   {"cancel":7}                    to the program: task 7 has reached its time limit
 *   {"id":7,"partial":...}          from the program: a part of the result; the task goes on
 *
 * A flush is sent if the program has fewer tasks than its concurrency and no more follow within
 * gd_options.batch_wait_us. The program should then begin the tasks that it has gathered. It must also answer a
 * cancelled task. If it does not answer in time, it is killed. "concurrency" cannot be combined with
 * gd_options.batch_size > 1. A program that did not announce "concurrency" never gets a flush or cancel line. */
#ifndef GPU_DISPATCH_COMMAND_H
#define GPU_DISPATCH_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/error.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* --- templates --------------------------------------------------------- */

struct gd_command; /* a parsed template */

/* A command template and how to run it. Zero means default. */
struct gd_command_spec {
    size_t size;              /* sizeof(struct gd_command_spec) */
    const char *const *words; /* NULL-terminated */
    const char *shell;        /* must be compatible with sh; NULL: $PARALLEL_SHELL, $SHELL or /bin/sh */
    bool quote;               /* quote the words too, so that the shell leaves them unchanged */
    bool dry_run;             /* do not run the command; its output is the command line and a newline */
    bool ungroup;             /* output goes to the worker's stdout and stderr, not into the result */
    const char *host;         /* the worker program, which runs the commands; NULL: the installed gpu-dispatch-host */
};

/* The values for the placeholders of a template. */
struct gd_command_fill {
    size_t size;         /* sizeof(struct gd_command_fill) */
    const char *payload; /* the arguments, with a NUL between them */
    size_t payload_size;
    uint64_t task_id;   /* {#} is task_id + 1 */
    unsigned slot;      /* {%}, from 1 */
    int gpu_id;         /* {gpu}, if n_gpus is 0 */
    const int *gpu_ids; /* {gpu} for a worker with several devices: "0,1" */
    size_t n_gpus;
};

/* Parses a template. Copies everything in spec. Returns 0 or a negative code. Release with gd_command_close(). */
int gd_command_open(struct gd_command **out, const struct gd_command_spec *spec);
void gd_command_close(struct gd_command **command); /* sets *command to NULL; NULL is allowed */

/* Returns the command line for a shell, or NULL if out of memory. Release with gd_command_free(). */
char *gd_command_line(const struct gd_command *command, const struct gd_command_fill *fill);
void gd_command_free(char *line);

/* Checks that the program of the template exists and is executable. Does not run it. Returns 0, or GD_E_INVALID if the
 * program cannot be run. Also returns 0 if the program's name contains a placeholder or anything special to the shell.
 */
int gd_command_check(const struct gd_command *command);

/* --- as workers -------------------------------------------------------- */

/* Returns a gd_options.worker_argv that runs the command once per task, or NULL on failure. Release with
 * gd_argv_free(). */
char **gd_command_worker(const struct gd_command_spec *spec);

/* A program that exchanges JSON lines. */
struct gd_stream_spec {
    size_t size;              /* sizeof(struct gd_stream_spec) */
    const char *const *words; /* the program, found through PATH, and its arguments; NULL-terminated */
    bool json;                /* payloads are JSON and are copied into "input" unchanged; false: they become strings */
    const char *host;         /* as in struct gd_command_spec */
};

/* Returns a gd_options.worker_argv that keeps the program alive and sends it tasks, or NULL on failure. Release with
 * gd_argv_free(). */
char **gd_stream_worker(const struct gd_stream_spec *spec);

void gd_argv_free(char **argv); /* NULL is allowed */

/* --- results ----------------------------------------------------------- */

/* The output of a command and how it ended. out and err point into the data given to gd_command_read(). */
struct gd_command_output {
    size_t size;   /* set to sizeof(struct gd_command_output) before the call */
    int exit_code; /* 0 if it was killed by a signal */
    int signal;    /* 0 if it exited */
    const char *out, *err;
    size_t out_size, err_size;
};

/* Reads the data of a report (gd_report.data and .size) from a command worker, after a success or a failure. Returns 0,
 * or GD_E_INVALID if the report has no such data because the worker died or the task was never run. */
int gd_command_read(const void *data, size_t size, struct gd_command_output *out);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
