/* SPDX-License-Identifier: MIT
 *
 * The last snapshot of a run, with the tasks that ended last and the last failures, so that a viewer that comes late
 * sees them too. Its size is bounded, however long the run is.
 */
#ifndef GD_WEB_LIVE_LAST_SNAPSHOT_H
#define GD_WEB_LIVE_LAST_SNAPSHOT_H

#include <gpu_dispatch/observe.h>

enum { WEB_LAST_TASKS = 2000, WEB_LAST_FAILURES = 100, WEB_TASKS_AT_ONCE = 256 };

/* Zeroed is empty. */
struct web_last {
    struct gd_snapshot s; /* its stats and lists are those below; missed: what the lists lack since the run began */
    struct gd_stats stats;
    struct gd_worker_view *workers;
    struct gd_device_view *devices;
    struct gd_task_view tasks[WEB_LAST_TASKS];
    struct gd_failure_view failures[WEB_LAST_FAILURES];
    size_t room_workers, room_devices;
};

/* True if s holds anything new. The passing of time is not new. */
bool web_last_differs(const struct web_last *k, const struct gd_snapshot *s);

/* Stores s. *news is s with its lists as they are stored in k, and with at most WEB_TASKS_AT_ONCE tasks; valid until
 * the next call. 0, or -1 if out of memory (then nothing is changed). */
int web_last_add(struct web_last *k, const struct gd_snapshot *s, struct gd_snapshot *news);

void web_last_free(struct web_last *k);

#endif
