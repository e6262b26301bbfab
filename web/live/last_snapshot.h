/* SPDX-License-Identifier: MIT
 *
 * What is known of a run: the last snapshot, with the tasks that ended last and the last failures, so that who comes
 * late sees them too. Bounded, however long the run is.
 */
#ifndef GD_WEB_LIVE_LAST_SNAPSHOT_H
#define GD_WEB_LIVE_LAST_SNAPSHOT_H

#include <gpu_dispatch/observe.h>

enum { WEB_LAST_TASKS = 2000, WEB_LAST_FAILURES = 100, WEB_TASKS_AT_ONCE = 256 };

/* Zeroed is empty. */
struct web_last {
    struct gd_snapshot s; /* its stats and lists are the ones below; missed: what these lack since the run began */
    struct gd_stats stats;
    struct gd_worker_view *workers;
    struct gd_device_view *devices;
    struct gd_task_view tasks[WEB_LAST_TASKS];
    struct gd_failure_view failures[WEB_LAST_FAILURES];
    size_t room_workers, room_devices;
};

/* Whether there is anything in s that the one before did not say; that time has passed is nothing. */
bool web_last_differs(const struct web_last *k, const struct gd_snapshot *s);

/* Takes it over. *news is s with its lists as they lie in k, and of the tasks no more than WEB_TASKS_AT_ONCE: valid
 * until the next. 0, or -1 if memory ran out (then nothing is changed). */
int web_last_add(struct web_last *k, const struct gd_snapshot *s, struct gd_snapshot *news);

void web_last_free(struct web_last *k);

#endif
