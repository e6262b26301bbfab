/* A program that exchanges lines with this process, over pipes that are its stdin and stdout. It is in the process
 * group of this process, and writes to the same stderr. Its signals have the default actions. Functions do not wait,
 * unless their comment says so. */
#ifndef GD_WORKER_PROGRAM_H
#define GD_WORKER_PROGRAM_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "proc/child.h"

struct gd__program {
    pid_t pid;             /* 0: not running, or reaped */
    int pidfd, in_fd, out; /* in_fd: its input, which we write; out: its output, which we read; -1: closed */
    struct gd__program_bytes {
        char *bytes;
        size_t from, size, room; /* the bytes from .. size - 1 are valid */
    } to, back;
    size_t looked; /* how many bytes of back, from `from` on, are known to contain no newline */
};

/* Starts words[0], found through PATH. On failure returns GD_E_... and sets the error message. */
int gd__program_start(struct gd__program *p, char *const *words);

/* gd__program_room() makes room for n more bytes to send. It returns NULL if there is no memory. gd__program_put() adds
 * the first n of these bytes to those to be sent. */
char *gd__program_room(struct gd__program *p, size_t n);
void gd__program_put(struct gd__program *p, size_t n);
size_t gd__program_unsent(const struct gd__program *p);

/* Writes the unsent bytes, and waits until something was read. Returns 1 if so, or 0 if the program has closed its
 * output or has ended. On failure returns a negative GD_E_... and sets the error message. */
int gd__program_move(struct gd__program *p);

/* The parts of gd__program_move(), for a caller that waits for other things too. gd__program_watch() writes what the
 * program takes, and sets what to poll. It returns the timeout in milliseconds (-1: none), after which
 * gd__program_is_deaf() sets the error message and returns its code. gd__program_take() reads once, if poll() found
 * something to read. It returns one of the values below. On failure it returns a negative GD_E_... and sets the error
 * message. */
enum { GD__PROGRAM_FDS = 3 };
enum {
    GD__PROGRAM_ENDED,  /* the program has closed its output or has ended */
    GD__PROGRAM_SPOKE,  /* something was read */
    GD__PROGRAM_SILENT, /* there was nothing to read */
};
int gd__program_watch(struct gd__program *p, struct pollfd fds[GD__PROGRAM_FDS]);
int gd__program_take(struct gd__program *p, const struct pollfd fds[GD__PROGRAM_FDS]);
int gd__program_is_deaf(void);

/* Writes what the program takes and reads what is there, without waiting. Returns the same values as
 * gd__program_take(). */
int gd__program_look(struct gd__program *p);

bool gd__program_has_spoken(const struct gd__program *p); /* gd__program_move() would not wait */

/* Sets *line to the next complete line, without its newline. It is valid until the next move. Returns false if no line
 * is complete. */
bool gd__program_line(struct gd__program *p, const char **line, size_t *size);
/* Sets *bytes to the part of an incomplete line that has arrived, and returns its size. */
size_t gd__program_rest(const struct gd__program *p, const char **bytes);

/* Waits for the program's end, at most ms milliseconds (-1: for ever), and discards its output. Returns true if it has
 * ended and was reaped. */
bool gd__program_wait(struct gd__program *p, int ms, struct gd__exit *out);
void gd__program_close_input(struct gd__program *p);
void gd__program_kill(struct gd__program *p); /* also waits for its end */

#endif
