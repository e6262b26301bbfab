/* SPDX-License-Identifier: MIT
 *
 * A client of the tests that speaks NATS's protocol itself, so that what is tested is not checked with its own code:
 *
 *     struct client c;
 *     client_open(&c, server.port);
 *     const char *json = client_ask(&c, "$JS.API.STREAM.INFO.gd_q_r", "");     // the text of the answer
 *     long messages = client_count(&c, "gd_q_r");                              // -1: there is no such stream
 *
 * It has one connection without TLS and credentials, and one request at a time.
 */
#ifndef GD_TESTS_QUEUE_CLIENT_H
#define GD_TESTS_QUEUE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLIENT_ROOM = 8 << 20 };

struct client {
    int fd;
    char inbox[48];
    unsigned next; /* number of the next request */
    char *buffer;  /* what has been received */
    size_t n;
    char *subject, *reply, *headers, *data; /* of the last message; valid until the next call */
    size_t data_size;
};

void client_open(struct client *c, unsigned port);
void client_close(struct client *c);

/* Publishes. headers: NULL, or lines that end with \r\n. */
void client_publish(struct client *c, const char *subject, const char *reply, const char *headers, const void *data,
                    size_t size);

/* Sends a request and waits for its first answer. Returns its data. A request that nothing answers has the headers
 * "NATS/1.0 503". */
const char *client_ask(struct client *c, const char *subject, const char *json);

/* The number of messages in a stream. -1: there is no such stream. */
long client_count(struct client *c, const char *stream);

/* A number in an answer: client_number("{\"a\":{\"b\":12}}", "b") is 12. -1: it is not there. */
long client_number(const char *json, const char *name);

/* Takes one message from a consumer and sets `reply` to what acknowledges it. False: it has none now. */
bool client_pull(struct client *c, const char *stream, const char *consumer);

/* Subscribes to a subject, and waits for the next message. A client that subscribes sees what anyone publishes, even if
 * no stream accepts it. It cannot send requests any more. */
void client_subscribe(struct client *c, const char *subject);
void client_next(struct client *c);
/* The same, but returns false if this descriptor can be read first: for example the pidfd of a node. */
bool client_next_unless(struct client *c, int fd);

/* Calls fn for each message of a stream, in order of its sequence. */
void client_each(struct client *c, const char *stream,
                 void (*fn)(void *user, const char *subject, const char *data, size_t size), void *user);

#endif
