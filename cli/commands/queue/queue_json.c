/* SPDX-License-Identifier: MIT
 *
 * A queue as a JSON object: see queue_view.h.
 */
#include <inttypes.h>

#include "cli/commands/journals/status_parts.h"
#include "cli/commands/queue/queue_view.h"

void queue_view_json(struct gd__buffer *b, const struct queue_view *v)
{
    const struct gd_queue_figures *f = &v->f;
    gd__buffer_format(b, "\"state\":\"%s\"", queue_view_state(v));
    status_put_text(b, "queue", v->url);
    status_put_command(b, f->command);
    gd__buffer_format(b, ",\"total\":%" PRIu64 ",\"done\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"left\":%" PRIu64,
                      f->tasks, f->done, f->failed, f->waiting + f->held);
    gd__buffer_format(b, ",\"waiting\":%" PRIu64 ",\"held\":%" PRIu64 ",\"push_is_open\":%s", f->waiting, f->held,
                      f->push_is_open ? "true" : "false");
    status_put_number(b, "eta_seconds", v->eta >= 0, v->eta, 3);
    status_put_number(b, "tasks_per_second", v->rate > 0, v->rate, 3);
    status_put_number(b, "busy_seconds", true, f->busy_seconds, 6);
    status_put_text(b, "server_version", f->server_version && *f->server_version ? f->server_version : NULL);
    gd__buffer_format(b, ",\"durable\":%s", f->durable < 0 ? "null" : f->durable ? "true" : "false");
    gd__buffer_format(b, ",\"skipped_messages\":%" PRIu64, v->skipped);
    gd__buffer_format(b, ",\"workers\":%" PRIu64 ",\"busy\":%" PRIu64 ",\"nodes\":[", v->workers, v->busy);
    for (size_t i = 0; i < v->n_nodes; i++) {
        gd__buffer_text(b, i ? "," : "");
        view_node_json(b, &v->nodes[i].node);
    }
    gd__buffer_text(b, "]");
}
