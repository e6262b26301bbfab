/* SPDX-License-Identifier: MIT
 *
 * Workers that are other programs: a command run once per task, and a program
 * that is kept alive and speaks JSON Lines.
 *
 *     const char *const words[] = { "sha256sum", "{}", NULL };
 *     struct gd_command_spec spec = { .size = sizeof spec, .words = words };
 *     o.worker_argv = gd_command_worker(&spec);     // release with gd_argv_free()
 *
 * Command. The words are joined with spaces and given to a shell, as GNU parallel does, after these were replaced:
 *
 *   {}    the input              {#}   number of the task, from 1
 *   {.}   without its extension  {%}   number of the worker, from 1
 *   {/}   its base name          {gpu} number of the GPU
 *   {//}  its directory
 *   {/.}  base name without extension
 *   {2} {2.} {2/} {2//} {2/.}    the same of the second argument, where a task has several
 *
 * Replacements are quoted for the shell, unless the first word holds a placeholder. Then the input is (part of) a
 * command line and is inserted unchanged; the same happens if there are no words. A template whose only placeholder is
 * {gpu}, or that has none, gets {} as its last word. If the words mean nothing special to a shell, the program is
 * started without one: only the speed differs. A task's payload is its arguments, with a NUL between them; {} stands
 * for all of them. The command's process has no standard input. Its environment holds GPU_DISPATCH_TASK_ID,
 * GPU_DISPATCH_ATTEMPT, PARALLEL_SEQ ({#}) and PARALLEL_JOBSLOT ({%}). It belongs to the worker's process group: what
 * it leaves running ends with the worker. Its result is its output: see gd_command_read(). A command that exits with
 * another status than 0 fails the task, which is retried like others; its output is kept.
 *
 * Stream. The program is started once per worker. It writes a line {"ready":true}, then reads one line per task,
 *
 *   {"id":7,"attempt":1,"input":"a.wav"}
 *
 * and answers each with a line, {"id":7,"output":...} (any JSON) or {"id":7,"error":"message"} (retried unless it has
 * "final":true; "kind" may be "out_of_memory" or "device_lost"). If its setup failed it writes
 * {"ready":false,"error":"message"} instead of the first line. Several lines may be waiting for it, as many as take
 * about a millisecond or gd_options.batch_size; it may answer them in any order. It ends at the end of its input. Bytes
 * of an input that are not UTF-8 come as \udc80 to \udcff, which Python turns back with os.fsencode(). The result of
 * the task is the JSON text of "output". A line has at most 1 GiB. A program that writes anything else has broken the
 * protocol: it is killed and replaced. Its task is run again, and reported as a crash after crash_limit times.
 */
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

struct gd_command_spec {
    size_t size;              /* sizeof(struct gd_command_spec) */
    const char *const *words; /* NULL-terminated */
    const char *shell;        /* compatible with sh; NULL: $PARALLEL_SHELL, $SHELL or /bin/sh */
    bool quote;               /* quote the words for the shell too, so that it changes nothing in them */
    bool dry_run;             /* run nothing; the output is the command line and a newline */
    bool ungroup;             /* output goes directly to the worker's own, not into the result */
    const char *host;         /* the program that is the worker; NULL: the installed gpu-dispatch-host */
};

/* What a template is filled with. */
struct gd_command_fill {
    size_t size;         /* sizeof(struct gd_command_fill) */
    const char *payload; /* the arguments, with a NUL between them */
    size_t payload_size;
    uint64_t task_id; /* {#} is one more */
    unsigned slot;    /* {%}, from 1 */
    int gpu_id;       /* {gpu} */
};

/* Parses the words of a spec; all is copied. Release with gd_command_close(). */
int gd_command_open(struct gd_command **out, const struct gd_command_spec *spec);
void gd_command_close(struct gd_command **command); /* sets it to NULL; NULL is fine */

/* The command line for a shell. Release with gd_command_free(). NULL: no memory. */
char *gd_command_line(const struct gd_command *command, const struct gd_command_fill *fill);
void gd_command_free(char *line);

/* 0 if the program that the template names can be run, as far as can be known without running it; otherwise
 * GD_E_INVALID. A word with placeholders or with anything special to the shell passes. */
int gd_command_check(const struct gd_command *command);

/* --- as workers -------------------------------------------------------- */

/* gd_options.worker_argv for a command. NULL on failure. Release with gd_argv_free(). */
char **gd_command_worker(const struct gd_command_spec *spec);

struct gd_stream_spec {
    size_t size;              /* sizeof(struct gd_stream_spec) */
    const char *const *words; /* the program and its arguments, NULL-terminated; found through PATH */
    bool json;                /* payloads are JSON texts and go into "input" as they are; else they are strings */
    const char *host;         /* as above */
};
char **gd_stream_worker(const struct gd_stream_spec *spec);

void gd_argv_free(char **argv); /* NULL is fine */

/* --- results ----------------------------------------------------------- */

/* The output of a command and how it ended. Points into the result. */
struct gd_command_output {
    size_t size;   /* set to sizeof(struct gd_command_output) before the call */
    int exit_code; /* 0 if it was killed by a signal */
    int signal;    /* 0 if it exited */
    const char *out, *err;
    size_t out_size, err_size;
};

/* Reads the data of a command worker's report, of success or failure. GD_E_INVALID if the report has no such data,
 * because the worker died or the task was never run. */
int gd_command_read(const void *data, size_t size, struct gd_command_output *out);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
