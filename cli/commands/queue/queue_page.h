/* SPDX-License-Identifier: MIT
 *
 * A queue as lines of text. They depend only on a view of the queue and on the size of the terminal.
 *
 *     450 of 1,000 tasks, 45.0 %, running                             nats://host/NAME
 *     ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━────────────────────────────────────────────
 *     447 done  3 failed  16 held  534 waiting
 *     2 nodes  16 workers  15 busy  4.0 tasks/s  0:02:17 ETA
 *
 *     Node      State    Workers Busy Tasks/s     Done Failed   Held   Seen Note
 *     n17       running        8    7     2.1      200      1      8    2 s http://n17:8080/
 *     n18       running        8    8     1.9      247      2      8    1 s
 */
#ifndef GD_CLI_COMMANDS_QUEUE_QUEUE_PAGE_H
#define GD_CLI_COMMANDS_QUEUE_QUEUE_PAGE_H

#include "base/text/buffer.h"
#include "cli/commands/queue/queue_view.h"
#include "tui/layout.h"

/* Adds the lines, each with its newline: at most v->height - 1. */
void queue_page(struct gd__buffer *out, const struct queue_view *q, const struct tui_view *v);

/* Adds only the table of the nodes, in at most `lines` lines. */
void queue_page_nodes(struct gd__buffer *out, const struct queue_view *q, const struct tui_view *v, size_t lines);

#endif
