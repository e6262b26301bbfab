/* SPDX-License-Identifier: MIT
 *
 * The web page of a run: gpu-dispatch run --http [ADDRESS:]PORT.
 *
 *   /              the page, without any figures: everybody gets it, and it asks for the token
 *   /api/stats     everything that is known now, JSON
 *   /api/events    the same as it changes, server-sent events
 *   /api/history   how the counts grew, JSON
 *   /metrics       for Prometheus
 *
 * All but the page need the token, as "Authorization: Bearer TOKEN". The server answers GET and HEAD and changes
 * nothing. A client that is slow, or stops reading, is dropped and holds nobody up.
 */
#ifndef GD_WEB_SERVER_H
#define GD_WEB_SERVER_H

#include "web/live/feed.h"

struct web_options {
    const char *at;    /* [ADDRESS:]PORT */
    const char *token; /* NULL: one is made at random */
    web_read_fn *read;
    void *user;
    unsigned idle_s;     /* an idle connection is closed after this time; 0: 15 */
    unsigned request_ms; /* a request must be complete within this time; 0: ten seconds */
};

struct web_server;

/* True if this build has the server. */
bool web_server_available(void);

/* Listens from now on. 0, or -1 with gd__fail_text(). */
int web_server_open(struct web_server **out, const struct web_options *o);

/* The URL of the page, without the token. */
const char *web_server_url(const struct web_server *s);

/* The address for a browser: URL#token=TOKEN. A browser does not send the part after the #; the page reads it. */
const char *web_server_link(const struct web_server *s);

/* The number of clients that watch the events now. */
size_t web_server_watchers(const struct web_server *s);

/* Sends the last figures and the end of the run to the watchers, then closes everything. read is called once more. */
void web_server_close(struct web_server **s);

#endif
