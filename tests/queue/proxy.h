/* SPDX-License-Identifier: MIT
 *
 * A TCP proxy between clients and a server, which can hold back or drop what goes in one direction:
 *
 *     struct proxy p;
 *     proxy_start(&p, server.port);             // clients use p.port, or p.hosts
 *     proxy_set(&p, PROXY_DOWN, PROXY_DROP);    // answers get lost, requests arrive
 *     proxy_set(&p, PROXY_DOWN, PROXY_PASS);
 *     proxy_cut(&p);                            // closes all connections; new ones are accepted
 *
 *     proxy_trap(&p, PROXY_UP, "PUB gd.q.r.", PROXY_DOWN, PROXY_DROP);
 *     proxy_await_trap(&p);                     // the text was sent to the server, and its answer is dropped
 *
 * The proxy is a process of its own, which ends with the case. Each function returns when it has taken effect.
 */
#ifndef GD_TESTS_QUEUE_PROXY_H
#define GD_TESTS_QUEUE_PROXY_H

#include <sys/types.h>

enum proxy_direction { PROXY_UP, PROXY_DOWN }; /* to the server; to the clients */

enum proxy_mode {
    PROXY_PASS, /* what was held back goes on */
    PROXY_HOLD, /* nothing goes through, and nothing gets lost: like a cable that is cut for a while */
    PROXY_DROP, /* what is sent gets lost. The connection cannot be used afterwards: cut it */
};

struct proxy {
    pid_t pid;
    int control;
    unsigned port;
    char hosts[64];
};

void proxy_start(struct proxy *p, unsigned server_port);

/* For all connections, and for those that come later. */
void proxy_set(struct proxy *p, enum proxy_direction direction, enum proxy_mode mode);

/* When this text passes in this direction, the mode of the direction `then` changes before the text is passed on. Only
 * once, and for all connections. */
void proxy_trap(struct proxy *p, enum proxy_direction direction, const char *text, enum proxy_direction then,
                enum proxy_mode mode);
void proxy_await_trap(struct proxy *p);

/* Closes all connections, and returns how many there were. */
unsigned proxy_cut(struct proxy *p);

/* From now on new connections are closed at once; or accepted again. */
void proxy_refuse(struct proxy *p);
void proxy_accept(struct proxy *p);

void proxy_end(struct proxy *p);

#endif
