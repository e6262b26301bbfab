/* SPDX-License-Identifier: MIT
 *
 * The rows of the table: one per worker; where those are too many one per GPU; where even those are, one per status,
 * and then as many GPUs as there is room for, those with trouble first.
 */
#ifndef GD_VIEW_ROWS_H
#define GD_VIEW_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/observe.h>

/* In the order in which they are worth a line. */
enum view_status {
    VIEW_ERROR,
    VIEW_QUARANTINED,
    VIEW_RESTARTING,
    VIEW_INITIALIZING,
    VIEW_PROCESSING,
    VIEW_IDLE,
    VIEW_FINISHED,
    VIEW_N_STATUSES,
};

/* "error", "quarantined", ... Static. */
const char *view_status_name(enum view_status status);

struct view_row {
    char label[24];
    enum view_status status;
    char task[160]; /* what it is at, or why it has nothing to do; not yet made fit for a terminal */
    size_t lead;    /* bytes of that which come before the task's input: "asked to stop: " */
    uint64_t done, failed, timeouts, restarts;
    double since_s, last_s; /* < 0: not known */
    uint64_t known;         /* enum gd_device_known */
    uint64_t memory_used, memory_total;
    unsigned utilization;
    int temperature;
    uint64_t power_mw;
    char name[96]; /* of its device */
};

struct view_rows {
    struct view_row *items;
    size_t n;
};

enum view_status view_status_of(const struct gd_snapshot *s, const struct gd_worker_view *w);

/* At most most rows, in r, which is empty before. 0, or -1: out of memory. */
int view_rows_make(struct view_rows *r, const struct gd_snapshot *s, size_t most, bool utf8);
void view_rows_free(struct view_rows *r);

#endif
