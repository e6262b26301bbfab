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
 *   {//}  its folder
 *   {/.}  base name without extension
 *   {2} {2.} {2/} {2//} {2/.}    the same of the second argument, where a task has several
 *
 * What is put in is quoted for the shell, unless a placeholder is in the first word: then the input is (part of) a
 * command line and stands as it is, as with no words at all. A template without a placeholder other than {gpu} gets {}
 * as its last word. If no word means anything to a shell the program is started without one, which makes no difference
 * but in speed. A task's payload is its arguments, with a NUL between them; {} is all of them. The command's process
 * has no input, GPU_DISPATCH_TASK_ID, GPU_DISPATCH_ATTEMPT, PARALLEL_SEQ ({#}) and PARALLEL_JOBSLOT ({%}) in its
 * environment, and belongs to the worker's process group: what it leaves running ends with the worker. Its result is
 * its output: gd_command_read(). A command that exits with anything but 0 is a failure of the task (retried like
 * others) and has its output all the same.
 *
 * Stream. The program is started once per worker. It writes a line {"ready":true}, then reads one line per task,
 *
 *   {"id":7,"attempt":1,"input":"a.wav"}
 *
 * and answers each with a line, {"id":7,"output":...} (any JSON) or {"id":7,"error":"words"} (retried unless it has
 * "final":true; "kind":"out_of_memory" and "kind":"device_lost" are told apart). Instead of ready it may say
 * {"ready":false,"error":"words"}: its setup has failed. Several lines may be waiting for it, as many as take about a
 * millisecond or gd_options.batch_size; it may answer them in any order. It ends at the end of its input. Bytes of an
 * input that are not UTF-8 come as \udc80 to \udcff, which Python turns back with os.fsencode(). The result of the task
 * is the JSON text of "output". A line has at most 1 GiB. A program that says anything else has broken the protocol: it
 * is killed and replaced, and the task it was on is run again or, after crash_limit times, reported as a crash.
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

struct gd_command; /* a template, taken apart */

struct gd_command_spec {
    size_t size;              /* sizeof(struct gd_command_spec) */
    const char *const *words; /* NULL-terminated */
    const char *shell;        /* of sh's kind; NULL: $PARALLEL_SHELL, $SHELL or /bin/sh */
    bool quote;               /* the words too are quoted for the shell: it sees them as they are */
    bool dry_run;             /* the output is the command line and a line end; nothing is run */
    bool ungroup;             /* output goes where the worker's goes, at once, and not into the result */
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

/* Takes the words of a spec apart. Copied. Release with gd_command_close(). */
int gd_command_open(struct gd_command **out, const struct gd_command_spec *spec);
void gd_command_close(struct gd_command **command); /* sets it to NULL; NULL is fine */

/* The command line for a shell. Release with gd_command_free(). NULL: no memory. */
char *gd_command_line(const struct gd_command *command, const struct gd_command_fill *fill);
void gd_command_free(char *line);

/* 0 if the program that the template names can be run, as far as can be known without running it (a word with
 * placeholders or anything for the shell passes); else GD_E_INVALID with words. */
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

/* What a command left. Points into the result. */
struct gd_command_output {
    size_t size;   /* set to sizeof(struct gd_command_output) before the call */
    int exit_code; /* 0 if it was killed by a signal */
    int signal;    /* 0 if it exited */
    const char *out, *err;
    size_t out_size, err_size;
};

/* Reads the data of a report (of success or failure) of a command worker. GD_E_INVALID if it is none: the report of a
 * task whose worker died, or which was never run. */
int gd_command_read(const void *data, size_t size, struct gd_command_output *out);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
