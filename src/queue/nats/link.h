/* A link (queue/link.h) to a NATS server with JetStream.
 *
 * Threads: libnats reads the connection on a thread of its own, and calls the link on two others: for messages, and for
 * the state of the connection. The link has one more thread, for the deadlines of requests. `calls` is held while a
 * function of the listener runs, so only one runs at a time. A request is removed only by the thread that holds `calls`,
 * so it ends exactly once.
 *
 * Pulls: a task message does not say which pull it answers, only its consumer. It is counted for the oldest pull of its
 * priority. If there is none any more, because the pull has timed out, the message is given back at once.
 *
 * Lost connections: all requests end with GD__ANSWER_LOST. A request that is made while there is no connection is not
 * sent, and ends with GD__ANSWER_LOST when the connection is back, or when its time is over. Notices are kept by libnats
 * (up to 8 MiB) and sent when the connection is back.
 *
 * Reconnecting: the first attempt comes after a random time of up to a second, the later ones after random times of up
 * to 8 seconds, so that the nodes of a large cluster do not all come at once when a server is back. With several servers,
 * libnats tries the others at once, in an order that is random for each client.
 */
#ifndef GD_QUEUE_NATS_LINK_H
#define GD_QUEUE_NATS_LINK_H

#include "queue/link.h"
#include "queue/names/address.h"
#include "queue/nats/access/credentials.h"

/* Connects, and checks that the server can hold a queue: that it is a NATS server, not too old, that it accepts the
 * credentials, and that JetStream is enabled for the account. Waits for at most o->connect_timeout_ms. Returns 0, or a
 * negative code with an error message that says what to do. GD_E_BUSY: the server does not answer, as one that is just
 * restarting, and another attempt may succeed. */
int gd__nats_open(struct gd__queue_link **out, const struct gd__queue_address *a, const struct gd__nats_options *o,
                  const struct gd__queue_listener *listener);

/* The parts of it, in open.c and link.c. Opens a link without asking the server anything. */
int gd__nats_link_open(struct gd__queue_link **out, const struct gd__queue_address *a, const struct gd__nats_options *o,
                       uint32_t timeout_ms, const struct gd__queue_listener *listener);
/* Replaces the listener. No function of the old one is called after this. */
void gd__nats_link_listen(struct gd__queue_link *link, const struct gd__queue_listener *listener);

#endif
