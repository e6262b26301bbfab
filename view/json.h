/* SPDX-License-Identifier: MIT
 *
 * The figures of a run as JSON, for programs.
 */
#ifndef GD_VIEW_JSON_H
#define GD_VIEW_JSON_H

#include <gpu_dispatch/observe.h>

#include "base/text/buffer.h"
#include "view/figures.h"

/* Adds one JSON object without a newline. It has the figures of the live view, for the run, each worker and each
 * device. */
void view_json(struct gd__buffer *out, const struct gd_snapshot *s, const struct view_history *h);

/* Adds the member "gpus", with a comma before it: all GPUs of a worker with this gpu_id. */
void view_json_gpus(struct gd__buffer *out, const struct gd_snapshot *s, int64_t gpu_id);

#endif
