/* SPDX-License-Identifier: MIT
 *
 * The web page of a run: gpu-dispatch run --http [ADDRESS:]PORT.
 *
 *   /              the page, without any figures; it needs no token, and asks the user for the token
 *   /api/stats     all present figures, as JSON
 *   /api/events    the same, and every change, as server-sent events
 *   /api/history   how the counts grew, as JSON
 *   /api/queue     the queue of the run and its nodes, as JSON; null if the run has no queue
 *   /metrics       for Prometheus
 *
 * All paths except the page need the token, as "Authorization: Bearer TOKEN". The server answers only GET and HEAD, and
 * no request changes the run. A client that stops reading is dropped. It does not delay the run or other clients.
 */
#ifndef GD_WEB_SERVER_H
#define GD_WEB_SERVER_H

#include "web/live/feed.h"
#include "web/live/queue.h"

struct web_options {
    const char *at;    /* [ADDRESS:]PORT */
    const char *token; /* NULL: a random one is made */
    web_read_fn *read;
    void *user;
    web_queue_fn *queue; /* NULL: the run has no queue */
    void *queue_user;
    unsigned idle_s;     /* an idle connection is closed after this time; 0: 15 */
    unsigned request_ms; /* a request must be complete within this time; 0: ten seconds */
};

struct web_server;

/* True if this build has the server. */
bool web_server_available(void);

/* Starts the server. Returns 0, or -1 with gd__fail_text(). */
int web_server_open(struct web_server **out, const struct web_options *o);

/* The URL of the page, without the token. */
const char *web_server_url(const struct web_server *s);

/* The address for a browser: URL#token=TOKEN. A browser does not send the part after the #; the page reads it. */
const char *web_server_link(const struct web_server *s);

/* The number of clients that watch the events now. */
size_t web_server_watchers(const struct web_server *s);

/* Calls read once more, sends the last figures and the end of the run to the watchers, then closes everything. */
void web_server_close(struct web_server **s);

#endif
