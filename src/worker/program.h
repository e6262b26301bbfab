/* A program that exchanges lines with us, over pipes that are its stdin and stdout. It belongs to this process's group,
 * has its stderr, and default signals. Functions do not wait, unless their comment says so. */
#ifndef GD_WORKER_PROGRAM_H
#define GD_WORKER_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "proc/child.h"

struct gd__program {
    pid_t pid;             /* 0: not running, or reaped */
    int pidfd, in_fd, out; /* in_fd: we write and it reads; out: it writes and we read; -1: closed */
    struct gd__program_bytes {
        char *bytes;
        size_t from, size, room; /* the bytes from .. size - 1 are valid */
    } to, back;
    size_t looked; /* how many bytes of back, from `from` on, are known to contain no newline */
};

/* Starts words[0], found through PATH. Returns GD_E_... with the error text set. */
int gd__program_start(struct gd__program *p, char *const *words);

/* gd__program_room() makes room for n more bytes to send; NULL: no memory. gd__program_put() says how many of them were
 * used. */
char *gd__program_room(struct gd__program *p, size_t n);
void gd__program_put(struct gd__program *p, size_t n);
size_t gd__program_unsent(const struct gd__program *p);

/* Writes the unsent bytes, and waits until something was read. Returns 1 if so; 0 if the program has closed its output
 * or has ended; a negative GD_E_... with the error text set. */
int gd__program_move(struct gd__program *p);
bool gd__program_has_spoken(const struct gd__program *p); /* a move would not wait */

/* The next complete line, without its newline; valid until the next move. False: no line is complete. */
bool gd__program_line(struct gd__program *p, const char **line, size_t *size);
/* The part of an incomplete line that has arrived. */
size_t gd__program_rest(const struct gd__program *p, const char **bytes);

/* Waits for the program's end, at most ms milliseconds (-1: for ever), and discards its output. Returns true if it has
 * ended and was reaped. */
bool gd__program_wait(struct gd__program *p, int ms, struct gd__exit *out);
void gd__program_close_input(struct gd__program *p);
void gd__program_kill(struct gd__program *p); /* also waits for its end */

#endif
