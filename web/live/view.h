/* SPDX-License-Identifier: MIT
 *
 * A snapshot of a run as text: JSON for the page and for programs, and metrics for Prometheus.
 */
#ifndef GD_WEB_LIVE_VIEW_H
#define GD_WEB_LIVE_VIEW_H

#include <gpu_dispatch/observe.h>

#include "base/text/buffer.h"
#include "view/figures.h"

/* Seconds from the beginning of the run to ns, a time of the monotonic clock; 0 if the run had not begun. */
double web_since(const struct gd_snapshot *s, uint64_t ns);

/* How long the run has lasted, up to its end. */
double web_seconds(const struct gd_snapshot *s);

/* Adds {"sequence":...,"stats":{...},"figures":{...},"workers":[...],"devices":[...],"failures":[...],"tasks":[...]} as
 * one line without a newline. Each task is an array in the order of "task_columns". Tasks are left out if s->tasks is
 * NULL. The figures and the names of a worker's status are the same as in the terminal. */
void web_view_json(struct gd__buffer *b, const struct gd_snapshot *s, const struct view_history *h, uint64_t sequence);

/* Adds the metrics in Prometheus's text format 0.0.4. */
void web_metrics(struct gd__buffer *b, const struct gd_snapshot *s);

#endif
