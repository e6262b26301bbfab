/* A program that is spoken to in lines, over pipes that are its stdin and stdout. It belongs to this process's group,
 * has its stderr, and default signals. Whatever is not said to wait does not. */
#ifndef GD_WORKER_PROGRAM_H
#define GD_WORKER_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "proc/child.h"

struct gd__program {
    pid_t pid;             /* 0: none, or reaped */
    int pidfd, in_fd, out; /* in_fd: we write what it reads; out: we read what it writes; -1: closed */
    struct gd__program_bytes {
        char *bytes;
        size_t from, size, room; /* those from .. size - 1 are there */
    } to, back;
    size_t looked; /* bytes of back that hold no end of a line, from `from` on */
};

/* Starts words[0], found through PATH. GD_E_... with words. */
int gd__program_start(struct gd__program *p, char *const *words);

/* Room for n more bytes to be sent; NULL: no memory. Then how many of them were used. */
char *gd__program_room(struct gd__program *p, size_t n);
void gd__program_put(struct gd__program *p, size_t n);
size_t gd__program_unsent(const struct gd__program *p);

/* Writes what there is to be sent, and waits until something was read. 1: it was; 0: it has closed its output, or has
 * ended; negative: GD_E_..., with words. */
int gd__program_move(struct gd__program *p);
bool gd__program_has_spoken(const struct gd__program *p); /* a move would not wait */

/* The next whole line, without its end; valid until the next move. False: none. */
bool gd__program_line(struct gd__program *p, const char **line, size_t *size);
/* What has come of a line whose end has not. */
size_t gd__program_rest(const struct gd__program *p, const char **bytes);

/* Waits for its end, for so long (-1: for good), and throws away what it writes. True: it has ended and is reaped. */
bool gd__program_wait(struct gd__program *p, int ms, struct gd__exit *out);
void gd__program_close_input(struct gd__program *p);
void gd__program_kill(struct gd__program *p); /* and waits for its end */

#endif
