/* SPDX-License-Identifier: MIT
 *
 * Limits the number of connections and how long they last. A client that has not sent the token is a stranger.
 * Strangers share a fixed part of the connections, and have a time limit for reading an answer. The other connections
 * are for clients with the token, which have no such limit. So strangers cannot shut these clients out, however many
 * there are.
 *
 *   limit                              when it is reached
 *   strangers: most_strangers          the oldest connection of the address with the most strangers is dropped
 *   clients with the token: most_known  the next one is refused
 *   a whole request: request_ms        the connection is dropped, even if bytes still arrive
 *   an answer to a stranger: answer_ms  the connection is dropped
 *
 * Threads: any thread may call these functions. Dropping a connection shuts its socket down. The server then sees the
 * end of the connection.
 */
#ifndef GD_WEB_ACCESS_CONNECTIONS_H
#define GD_WEB_ACCESS_CONNECTIONS_H

#include <stdbool.h>
#include <sys/socket.h>

struct web_connection_limits {
    unsigned most_strangers, most_known;
    unsigned request_ms; /* from the start of the connection, or from the end of the last answer */
    unsigned answer_ms;
};

struct web_connections;
struct web_connection;

/* Returns 0, or -1 with gd__fail_text(). */
int web_connections_open(struct web_connections **out, const struct web_connection_limits *limits);

/* All connections must have been removed. */
void web_connections_close(struct web_connections **connections);

/* Adds a stranger. An older stranger may be dropped to make room. The caller closes fd. Returns NULL if out of
 * memory. */
struct web_connection *web_connections_add(struct web_connections *s, int fd, const struct sockaddr *from);

/* Must be called before fd is closed. */
void web_connections_remove(struct web_connections *s, struct web_connection *c);

/* Called when the client has sent the token. Returns false if there are too many such clients; it then stays a
 * stranger. */
bool web_connections_trust(struct web_connections *s, struct web_connection *c);

/* Called when a whole request has arrived and will be answered. */
void web_connections_requested(struct web_connections *s, struct web_connection *c);

/* Called when the answer is complete and the next request may come. */
void web_connections_answered(struct web_connections *s, struct web_connection *c);

#endif
