/* SPDX-License-Identifier: MIT
 *
 * A snapshot of a run as text: JSON for the page and for programs, and metrics for Prometheus.
 */
#ifndef GD_WEB_LIVE_VIEW_H
#define GD_WEB_LIVE_VIEW_H

#include <gpu_dispatch/observe.h>

#include "base/text/buffer.h"
#include "view/figures.h"

/* Seconds from the beginning of the run to a time of the same clock; 0 if it had not begun. */
double web_since(const struct gd_snapshot *s, uint64_t ns);

/* How long the run has lasted, up to its end. */
double web_seconds(const struct gd_snapshot *s);

/* {"sequence":...,"stats":{...},"figures":{...},"workers":[...],"devices":[...],"failures":[...],"tasks":[...]}, one
 * line without a newline. Tasks are arrays, in the order of "task_columns"; left out where the snapshot's are NULL. The
 * figures, and what a worker's status is called, are those that the terminal shows. */
void web_view_json(struct gd__buffer *b, const struct gd_snapshot *s, const struct view_history *h, uint64_t sequence);

/* Text format 0.0.4. */
void web_metrics(struct gd__buffer *b, const struct gd_snapshot *s);

#endif
