/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch run --queue`: a run that takes its tasks from a queue.
 */
#ifndef GD_CLI_RUN_QUEUE_RUN_QUEUE_H
#define GD_CLI_RUN_QUEUE_RUN_QUEUE_H

#include <gpu_dispatch/dispatcher.h>
#include <gpu_dispatch/queue.h>

#include "base/text/buffer.h"
#include "binding.h"
#include "cli/output/task_end.h"
#include "cli/run/run_options.h"

/* The options of the library for this run. */
struct cli_run_queue {
    bool is_used;
    struct gd_queue_options options;
    struct gd__buffer command; /* identifies the work: nodes with another command are refused */
};

/* Refuses options that make no sense with a queue, or without one. inputs: whether the user has given inputs. Returns 0,
 * or -1 with gd__fail_text(). */
int cli_run_queue_check(const struct cli_run *r, bool inputs);

/* Sets the queue in the options of the library, if the user has given one. Release with cli_run_queue_close(). Returns 0,
 * or -1 with gd__fail_text(). */
int cli_run_queue_open(struct cli_run_queue *q, const struct cli_run *r, struct gd_options *o);
void cli_run_queue_close(struct cli_run_queue *q);

/* What the record of a task has in the queue. lost: its output could not be written. */
void cli_run_queue_note(struct gd__record_note *note, const struct cli_task_end *e, bool lost);

/* A message of the node. The function queue_note of struct gd__hooks. */
void cli_run_queue_say(void *running, const char *line);

cli_opt_set cli_set_idle_exit; /* struct cli_idle_exit */

#endif
