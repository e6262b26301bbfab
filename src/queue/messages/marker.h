/* The marker of a suspect: a task message that was delivered before, and may have killed the nodes that had it.
 *
 * A marker is written before a suspect is begun. It is first begun together with other tasks, because most messages that
 * are delivered again are innocent: a node gave them back, or another task killed it. Only if it was begun that way and
 * has no record, it is begun again as the only suspect of a node, and each such beginning is counted. So are attempts that
 * have killed a worker, if the node gives the task back after them.
 *
 *   "GDQm", version (2), flags (2; 1: it was begun together with others), times begun as the only suspect (4), nonce (16)
 *
 * Numbers are little-endian. There is one way to write a marker. The nonce tells a node that the marker is its own, if the
 * answer to its publication was lost.
 */
#ifndef GD_QUEUE_MESSAGES_MARKER_H
#define GD_QUEUE_MESSAGES_MARKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/messages/message.h"

enum { GD__QUEUE_MARKER_SIZE = 28, GD__QUEUE_MARKER_VERSION = 1 };

struct gd__queue_marker {
    bool together;
    uint32_t alone;
    unsigned char nonce[GD__QUEUE_NONCE_SIZE];
};

void gd__queue_marker_write(unsigned char out[GD__QUEUE_MARKER_SIZE], const struct gd__queue_marker *marker);

/* Returns 0, GD_E_CORRUPT, or GD_E_VERSION if a newer version of gpu_dispatch has written it. */
int gd__queue_marker_read(struct gd__queue_marker *out, const void *bytes, size_t size);

#endif
