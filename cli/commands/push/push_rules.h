/* SPDX-License-Identifier: MIT
 *
 * What push decides about single tasks and about its report. In a header, so that a test can call it without a server.
 */
#ifndef GD_CLI_COMMANDS_PUSH_PUSH_RULES_H
#define GD_CLI_COMMANDS_PUSH_PUSH_RULES_H

#include <gpu_dispatch/dispatcher.h>
#include <stdbool.h>
#include <string.h>

#include "base/text/json.h"

/* Whether the line has {"gpu_dispatch":{"priority":...}}, which task_settings.c has checked. */
static inline bool cli_push_has_priority(const struct gd_item *task)
{
    struct gd__json settings, priority;
    return gd__json_member(task->data, task->size, "gpu_dispatch", &settings) &&
           gd__json_member(settings.at, settings.size, "priority", &priority);
}

/* The priority of a task: that of its line of JSON, also if it is 0; otherwise that of --priority. given: --priority; 0
 * without it. */
static inline int cli_push_priority(const struct gd_item *task, bool is_json, int given)
{
    if (task->priority != 0 || given == 0)
        return task->priority;
    return is_json && cli_push_has_priority(task) ? 0 : given;
}

/* That confirmed tasks can be lost is a warning, not a part of the summary. */
static inline bool cli_push_says_durability(bool quiet, uint64_t added, int durable)
{
    return added > 0 && (!quiet || durable == 0);
}

/* Only one server of a cluster was asked. NULL: the usual text of a single server is true. */
static inline const char *cli_push_durability_of_cluster(const char *url, int durable)
{
    if (!strchr(url, ',') || durable < 0)
        return NULL;
    return durable > 0
               ? "the server of the cluster that was asked writes each message to disk before it confirms it: check "
                 "that the configurations of the others have sync_interval: always too"
               : "the server of the cluster that was asked may lose confirmed messages in a power loss: set "
                 "sync_interval: always in the jetstream block of the configuration of each server";
}

#endif
