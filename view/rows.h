/* SPDX-License-Identifier: MIT
 *
 * The rows of the table of workers. There is one row per worker. If that is too many, there is one row per GPU or group
 * of GPUs. If that is also too many, there is one row per status, followed by as many GPUs as fit, those with a problem
 * first.
 */
#ifndef GD_VIEW_ROWS_H
#define GD_VIEW_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/observe.h>

/* The most important status comes first. */
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
    char label[28];
    enum view_status status;
    char task[160]; /* the task, or why the worker is idle; not yet made safe for a terminal */
    size_t lead;    /* number of bytes in `task` before the task's input, for example those of "asked to stop: " */
    uint64_t done, failed, timeouts, restarts;
    double since_s, last_s; /* < 0: not known */
    uint64_t known;         /* enum gd_device_known */
    uint64_t memory_used, memory_total;
    unsigned utilization;
    int temperature;
    uint64_t power_mw;
    char name[112]; /* name of its device; "2x NAME" for a group */
};

struct view_rows {
    struct view_row *items;
    size_t n;
};

enum view_status view_status_of(const struct gd_snapshot *s, const struct gd_worker_view *w);

/* The next device with this gpu_id, or in the group of this gpu_id, from index *i on. Returns NULL if there is none. *i
 * is then the index after it. */
const struct gd_device_view *view_next_gpu(const struct gd_snapshot *s, int64_t gpu_id, size_t *i);

/* All GPUs of a worker with this gpu_id: "0", or "0+1" for a group. A list that is too long becomes "0+..+15". Returns
 * out. */
char *view_gpu_label(char *out, size_t size, const struct gd_snapshot *s, int64_t gpu_id);

/* Makes at most `most` rows. r must be empty. Returns 0, or -1 if there is no memory. */
int view_rows_make(struct view_rows *r, const struct gd_snapshot *s, size_t most, bool utf8);
void view_rows_free(struct view_rows *r);

#endif
