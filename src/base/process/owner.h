/* Whose a file is: a process, told from a later one of the same number. */
#ifndef GD_BASE_PROCESS_OWNER_H
#define GD_BASE_PROCESS_OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gd__owner {
    uint64_t pid;
    uint64_t start; /* clock ticks after boot */
    uint64_t space; /* its PID namespace */
};

void gd__owner_self(struct gd__owner *out); /* what can't be found out is 0 */

/* Whether that process is of our namespace, so that something can be said of it. */
bool gd__owner_is_ours(const struct gd__owner *o);

/* Whether it is still there. A process whose first thread has ended is, as long as another thread runs. */
bool gd__owner_alive(const struct gd__owner *o);

/* A descriptor that is readable when it is gone; -1: it is, or there is no such thing here. */
int gd__owner_pidfd(const struct gd__owner *o);

/* From the text of a /proc/PID/stat: whether the process runs (one that nobody has waited for yet does not), and its
 * start. Pure. */
bool gd__owner_parse(const char *stat, uint64_t *start);

/* A text that is another after each boot of the machine; "" if it can't be read. */
enum { GD__BOOT_ID_MAX = 64 };
void gd__owner_boot_id(char out[GD__BOOT_ID_MAX]);

#endif
