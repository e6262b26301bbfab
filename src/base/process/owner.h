/* Identifies the process that owns a file, even if a later process has the same process id. */
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

/* Whether that process is in our PID namespace. The functions below can be used only if it is. */
bool gd__owner_is_ours(const struct gd__owner *o);

/* Whether the process still exists. A process whose first thread has ended exists as long as another thread runs. */
bool gd__owner_alive(const struct gd__owner *o);

/* Returns a descriptor that is readable when the process is gone. Returns -1 if it is gone already or pidfds are not
 * supported. */
int gd__owner_pidfd(const struct gd__owner *o);

/* Parses the text of /proc/PID/stat. Returns whether the process runs (a zombie does not), and stores its start time.
 * Makes no system call. */
bool gd__owner_parse(const char *stat, uint64_t *start);

/* A text that changes with each boot of the machine; "" if it can't be read. */
enum { GD__BOOT_ID_MAX = 64 };
void gd__owner_boot_id(char out[GD__BOOT_ID_MAX]);

#endif
