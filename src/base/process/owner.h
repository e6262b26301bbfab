/* The process that owns a file. It is not confused with a later process that has the same process id. */
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

void gd__owner_self(struct gd__owner *out); /* members that can't be determined are 0 */

/* Whether that process is in our PID namespace. Only then the functions below can be used. */
bool gd__owner_is_ours(const struct gd__owner *o);

/* Whether the process still exists. A process whose first thread has ended exists as long as another thread runs. */
bool gd__owner_alive(const struct gd__owner *o);

/* A descriptor that is readable when the process is gone; -1: it is gone already, or pidfds are not supported. */
int gd__owner_pidfd(const struct gd__owner *o);

/* Parses the text of a /proc/PID/stat: returns whether the process runs (a zombie does not), and stores its start.
 * Makes no system call. */
bool gd__owner_parse(const char *stat, uint64_t *start);

/* A text that changes with each boot of the machine; "" if it can't be read. */
enum { GD__BOOT_ID_MAX = 64 };
void gd__owner_boot_id(char out[GD__BOOT_ID_MAX]);

#endif
