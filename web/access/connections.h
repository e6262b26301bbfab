/* SPDX-License-Identifier: MIT
 *
 * Who may be connected, and for how long. A client that has not shown the token is a stranger. Strangers share a fixed
 * part of the connections and have little time. Clients with the token have the rest of the connections and are not
 * hurried, so no number of strangers can shut them out.
 *
 *   limit                              when it is reached
 *   strangers: most_strangers          the oldest one is dropped, of the address that has the most of them
 *   clients with the token: most_known  a further one is refused
 *   a whole request: request_ms        dropped, however many bytes came meanwhile
 *   an answer to a stranger: answer_ms  dropped
 *
 * Threads: any may call. To drop a connection is to shut its socket down: its owner then sees that it ended.
 */
#ifndef GD_WEB_ACCESS_CONNECTIONS_H
#define GD_WEB_ACCESS_CONNECTIONS_H

#include <stdbool.h>
#include <sys/socket.h>

struct web_connection_limits {
    unsigned most_strangers, most_known;
    unsigned request_ms; /* from the beginning of the connection, or from the end of the last answer */
    unsigned answer_ms;
};

struct web_connections;
struct web_connection;

/* 0, or -1 with gd__fail_text(). */
int web_connections_open(struct web_connections **out, const struct web_connection_limits *limits);

/* All connections must have been removed. */
void web_connections_close(struct web_connections **connections);

/* Adds a stranger, for which an older stranger may be dropped. fd stays the caller's. NULL: out of memory. */
struct web_connection *web_connections_add(struct web_connections *s, int fd, const struct sockaddr *from);

/* Before fd is closed. */
void web_connections_remove(struct web_connections *s, struct web_connection *c);

/* The client has shown the token. False: there are too many such clients, and it stays a stranger. */
bool web_connections_trust(struct web_connections *s, struct web_connection *c);

/* A whole request has arrived and will now be answered. */
void web_connections_requested(struct web_connections *s, struct web_connection *c);

/* The answer is complete: the next request may come. */
void web_connections_answered(struct web_connections *s, struct web_connection *c);

#endif
