/* The output of a worker. It is read from a pipe and passed on, and the last lines are kept for the crash report. */
#ifndef GD_PROC_OUTPUT_H
#define GD_PROC_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "proc/loop.h"

enum { GD__TAIL_BYTES = 4096, GD__OUTPUT_CHUNK = 8192 };

/* Receives the text of each read, on the loop's thread. May be NULL. */
typedef void gd__output_fn(void *user, int stream, const char *text, size_t length);

struct gd__output {
    struct gd__watch watch; /* on the pipe; must be first */
    struct gd__loop *loop;
    int fd;                         /* the read end; -1: none */
    int stream;                     /* 1 or 2 */
    int forward_fd;                 /* a copy of the caller's descriptor, to write the output to; -1: it goes to fn */
    struct gd__watch forward_watch; /* waits until forward_fd accepts more */
    gd__output_fn *fn;
    void *user;
    int forward_kind;          /* how forward_fd is written to without blocking: see output.c */
    bool blocked;              /* forward_fd accepts no more: the pipe is not read */
    bool waits;                /* on hold: see gd__output_hold() */
    size_t held_at, held_size; /* held[held_at .. held_size) was read and is not written yet */
    bool tail_cut;             /* tail begins in the middle of a line */
    size_t tail_size;
    char tail[GD__TAIL_BYTES];
    char held[GD__OUTPUT_CHUNK];
};

/* Makes a pipe and watches its read end. *child_fd is the write end (close-on-exec), which the caller closes after the
 * spawn. With forward_fd >= 0 the output is written there. That never blocks the loop. While forward_fd accepts no
 * more, the pipe is not read, and the worker waits. */
int gd__output_open(struct gd__output *o, struct gd__loop *loop, int stream, int forward_fd, gd__output_fn *fn,
                    void *user, int *child_fd);

/* Only for text that goes to fn. While it is on hold, the pipe is not read, and the worker waits when the pipe is
 * full. */
void gd__output_hold(struct gd__output *o, bool hold);

/* Reads the bytes that are in the pipe now, without waiting for end of file. Called after the worker's death. All of
 * them go into the tail. Bytes that forward_fd does not accept at once are not forwarded. */
void gd__output_drain(struct gd__output *o);

/* Copies the last lines, at most max_lines, to text. They are whole lines, unless even the last line does not fit. The
 * text is NUL-terminated and has no newline at its end. Bytes that are not printable ASCII, tab, newline or >= 0x80
 * become '?'. Returns the length, or 0 if the worker printed nothing. Works after gd__output_close() too. */
size_t gd__output_last_lines(const struct gd__output *o, unsigned max_lines, char *text, size_t size);

void gd__output_close(struct gd__output *o); /* may be called twice */

#endif
