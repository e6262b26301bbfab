/* SPDX-License-Identifier: MIT
 *
 * The last snapshot of a run, with the tasks that ended last, the last failures and the last requests, so that a viewer
 * that connects late sees them too. Its size does not depend on the length of the run.
 */
#ifndef GD_WEB_LIVE_LAST_SNAPSHOT_H
#define GD_WEB_LIVE_LAST_SNAPSHOT_H

#include <gpu_dispatch/observe.h>

enum { WEB_LAST_TASKS = 2000, WEB_LAST_FAILURES = 100, WEB_LAST_REQUESTS = 64, WEB_TASKS_AT_ONCE = 256 };

/* A zeroed struct is empty. */
struct web_last {
    /* Points to the fields below. tasks_missed, failures_missed and requests_missed count those of the whole run that
     * are not in the lists. */
    struct gd_snapshot s;
    struct gd_stats stats;
    struct gd_worker_view *workers;
    struct gd_device_view *devices;
    struct gd_task_view tasks[WEB_LAST_TASKS];
    struct gd_failure_view failures[WEB_LAST_FAILURES];
    struct gd_request_view requests[WEB_LAST_REQUESTS];
    struct gd_failure_view chosen[WEB_LAST_FAILURES]; /* for web_last_add() */
    size_t room_workers, room_devices;
};

/* True if s differs from the last snapshot in more than the time. */
bool web_last_differs(const struct web_last *k, const struct gd_snapshot *s);

/* Stores s in k. Sets *news to a snapshot with only the new tasks, failures and requests of s, at most
 * WEB_TASKS_AT_ONCE tasks. Its lists are parts of k, valid until the next call. Returns 0, or -1 if memory runs out. */
int web_last_add(struct web_last *k, const struct gd_snapshot *s, struct gd_snapshot *news);

void web_last_free(struct web_last *k);

#endif
