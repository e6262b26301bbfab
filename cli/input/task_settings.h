/* SPDX-License-Identifier: MIT
 *
 * Settings of a single task, in the member "gpu_dispatch" of a line of JSON:
 *
 *     {"file":"a.wav","gpu_dispatch":{"priority":2,"timeout":"30s"}}
 *
 *   priority   a whole number from GD_PRIORITY_MIN to GD_PRIORITY_MAX
 *   timeout    the task's own time limit: seconds as a number, or a duration as for --timeout
 *
 * The member is part of the input, so the worker gets it too.
 */
#ifndef GD_CLI_INPUT_TASK_SETTINGS_H
#define GD_CLI_INPUT_TASK_SETTINGS_H

#include <stddef.h>

struct cli_task_settings {
    int priority;
    unsigned timeout_ms; /* 0: the time limit of the run */
};

/* Reads the settings of a line. If the line is not a JSON object or has no such member, all settings are 0. Returns 0,
 * or -1 with gd__fail_text(). */
int cli_task_settings_read(struct cli_task_settings *out, const char *line, size_t size);

#endif
