/* What a worker prints: the read end of a pipe, passed on, and the last lines kept for the report of a crash. */
#ifndef GD_PROC_OUTPUT_H
#define GD_PROC_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "proc/loop.h"

enum { GD__TAIL_BYTES = 4096, GD__OUTPUT_CHUNK = 8192 };

/* Where the text goes. Called with whole reads, on the loop's thread. NULL: nowhere. */
typedef void gd__output_fn(void *user, int stream, const char *text, size_t length);

struct gd__output {
    struct gd__watch watch; /* on the pipe; must be first */
    struct gd__loop *loop;
    int fd;                         /* our end; -1: none */
    int stream;                     /* 1 or 2 */
    int forward_fd;                 /* -1: to fn; else copied to this descriptor (our own copy of the caller's) */
    struct gd__watch forward_watch; /* waits for forward_fd to take more */
    gd__output_fn *fn;
    void *user;
    int forward_kind;          /* how forward_fd is written to without blocking: see output.c */
    bool blocked;              /* forward_fd takes no more: the pipe is not read */
    bool waits;                /* gd__output_hold() */
    size_t held_at, held_size; /* held[held_at .. held_size) is read and not yet written */
    bool tail_cut;             /* tail begins in the middle of a line */
    size_t tail_size;
    char tail[GD__TAIL_BYTES];
    char held[GD__OUTPUT_CHUNK];
};

/* Makes a pipe and watches its read end; *child_fd is the write end (close-on-exec), the caller's to close after the
 * spawn. forward_fd >= 0: what comes is written there, without ever blocking the loop: while it does not take more we
 * stop reading, and the worker waits. */
int gd__output_open(struct gd__output *o, struct gd__loop *loop, int stream, int forward_fd, gd__output_fn *fn,
                    void *user, int *child_fd);

/* Of text that goes to fn: while held, the pipe is not read, and in the end the worker waits. */
void gd__output_hold(struct gd__output *o, bool hold);

/* Reads what is there now (after the worker's death); does not wait for end of file. The tail gets all of it;
 * what forward_fd does not take at once is not forwarded. */
void gd__output_drain(struct gd__output *o);

/* The last lines, at most max_lines, whole lines where there are any, into text (NUL-terminated, no newline at the end,
 * bytes that are not printable ASCII, tab, newline or >= 0x80 replaced by '?'). Returns the length; 0: it said nothing.
 * Works after gd__output_close() too. */
size_t gd__output_last_lines(const struct gd__output *o, unsigned max_lines, char *text, size_t size);

void gd__output_close(struct gd__output *o); /* fine twice */

#endif
