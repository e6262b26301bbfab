/* SPDX-License-Identifier: MIT
 *
 * A server of queues in the memory of the test: enough of JetStream for a push and for readers. It answers each link on
 * a thread of that link, at once. A test decides for each request what happens to it: it can get lost before or after it
 * was done, or be refused.
 */
#ifndef GD_TESTS_SUPPORT_QUEUE_SERVER_H
#define GD_TESTS_SUPPORT_QUEUE_SERVER_H

#include "queue/link.h"

struct queue_server;

enum queue_fate {
    QUEUE_ANSWERED = 0,
    QUEUE_LOST,        /* not done, and no answer */
    QUEUE_ANSWER_LOST, /* done, but no answer */
    QUEUE_LATER,
    QUEUE_DENIED,
    QUEUE_FAILED,
};
/* Called on the thread of a link, for one request at a time, before it is done. It may publish. */
typedef enum queue_fate queue_fate_fn(void *user, const struct gd__queue_request *request);

struct queue_server *queue_server_new(const char *name, uint64_t max_payload);
void queue_server_free(struct queue_server *s); /* after all links are closed */
void queue_server_fate(struct queue_server *s, queue_fate_fn *fate, void *user);
void queue_server_connected(struct queue_server *s, bool is_connected, const char *text); /* tells all links */

/* A gd__link_open_fn: user is the server. */
int queue_server_link(void *user, const struct gd__queue_listener *listener, struct gd__queue_link **out);

/* Publishes in any case, or fails the test. Returns the sequence. */
uint64_t queue_server_put(struct queue_server *s, const char *subject, const void *data, size_t size);

void queue_server_clock(struct queue_server *s, uint64_t now_us); /* from now on; 0 at the beginning */
/* What the consumers of all priorities answer. */
void queue_server_unacknowledged(struct queue_server *s, uint64_t messages);
/* The last messages of a stream are gone, as after a power loss. */
void queue_server_forget(struct queue_server *s, enum gd__queue_kind stream, uint64_t last_sequence);

/* Replicas that answer LAST and READ do not have the messages after this sequence. Only the leader has them. UINT64_MAX:
 * they have all, as at the beginning. */
void queue_server_replicas_have(struct queue_server *s, enum gd__queue_kind stream, uint64_t last_sequence);

/* The following are for a time without requests. What they return stays valid until the next publication. */
size_t queue_server_count(struct queue_server *s, enum gd__queue_kind stream); /* messages */
size_t queue_server_requests(struct queue_server *s, enum gd__queue_ask ask);  /* that were done, since the beginning */
bool queue_server_has(struct queue_server *s, const char *subject);
/* Message i of a stream, in the order of sequence. Returns its subject, or NULL. */
const char *queue_server_message(struct queue_server *s, enum gd__queue_kind stream, size_t i, const void **data,
                                 size_t *size);
uint32_t queue_server_priorities(struct queue_server *s);

#endif
