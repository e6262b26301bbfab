/* SPDX-License-Identifier: MIT
 *
 * Limits the number and the duration of connections. libmicrohttpd has one timer for a connection, which every byte
 * restarts. So a client that sends a byte from time to time would stay connected for ever. Therefore each connection
 * has a deadline here, by which its request must be complete. One thread waits for the earliest deadline and shuts down
 * the connections that miss theirs.
 *
 * A struct web_connection is valid until the caller removes it. A socket that was shut down stays open until then, so
 * its descriptor cannot be reused. The lock protects everything here.
 */
#include "web/access/connections.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/failure.h"
#include "base/thread.h"

#define NEVER UINT64_MAX

enum phase { READING, ANSWERING, N_PHASES };

struct web_connection {
    struct web_connection *before, *after; /* in the order in which they were added */
    int fd;
    unsigned char from[16]; /* the client's address, or the common part of its addresses */
    bool trusted;
    bool dropped; /* shut down: it no longer counts towards a limit */
    uint64_t due_ns;
};

struct web_connections {
    unsigned most_strangers, most_known;
    unsigned n_strangers, n_known;
    unsigned limit_ms[2][N_PHASES]; /* by trusted; 0: no limit */
    struct web_connection *first, *last;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t waits_for_ns; /* the deadline that the thread waits for */
    bool stop;
    pthread_t thread;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- deadlines: the caller holds the lock --------------------------------------------- */

static void set_time(struct web_connections *s, struct web_connection *c, enum phase phase)
{
    const unsigned limit_ms = s->limit_ms[c->trusted][phase];
    if (c->dropped)
        return;
    c->due_ns = limit_ms ? now_ns() + (uint64_t)limit_ms * 1000000u : NEVER;
    if (c->due_ns < s->waits_for_ns)
        pthread_cond_signal(&s->changed);
}

static unsigned *place_of(struct web_connections *s, const struct web_connection *c)
{
    return c->trusted ? &s->n_known : &s->n_strangers;
}

static void drop(struct web_connections *s, struct web_connection *c)
{
    (void)shutdown(c->fd, SHUT_RDWR); /* fails only if the client closed it first */
    c->dropped = true;
    c->due_ns = NEVER;
    (*place_of(s, c))--;
}

/* Shuts down the connections that are overdue. Returns the next deadline. */
static uint64_t drop_overdue(struct web_connections *s)
{
    const uint64_t now = now_ns();
    uint64_t next = NEVER;
    for (struct web_connection *c = s->first; c; c = c->after) {
        if (c->due_ns <= now)
            drop(s, c);
        next = c->due_ns < next ? c->due_ns : next;
    }
    return next;
}

static void *timer(void *arg)
{
    struct web_connections *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        s->waits_for_ns = drop_overdue(s);
        const struct timespec until = { .tv_sec = (time_t)(s->waits_for_ns / 1000000000u),
                                        .tv_nsec = (long)(s->waits_for_ns % 1000000000u) };
        if (s->waits_for_ns == NEVER)
            pthread_cond_wait(&s->changed, &s->lock);
        else
            (void)pthread_cond_timedwait(&s->changed, &s->lock, &until);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* --- opening and closing ---------------------------------------------------------------- */

int web_connections_open(struct web_connections **out, const struct web_connection_limits *limits)
{
    struct web_connections *s = calloc(1, sizeof *s);
    pthread_condattr_t monotonic;
    if (!s)
        return gd__fail("out of memory");
    *s = (struct web_connections){
        .most_strangers = limits->most_strangers,
        .most_known = limits->most_known,
        .limit_ms = { [false] = { [READING] = limits->request_ms, [ANSWERING] = limits->answer_ms },
                      [true] = { [READING] = limits->request_ms, [ANSWERING] = 0 } },
    };
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    const int rc = gd__thread_start(&s->thread, "gd-connections", timer, s);
    if (rc != 0) {
        pthread_cond_destroy(&s->changed);
        pthread_mutex_destroy(&s->lock);
        free(s);
        return gd__fail("--http: cannot start a thread: %s", strerror(rc));
    }
    *out = s;
    return 0;
}

void web_connections_close(struct web_connections **connections)
{
    struct web_connections *s = *connections;
    *connections = NULL;
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* --- adding and removing ------------------------------------------------------------------- */

/* Every user of this machine may use all of 127.0.0.0/8, so these addresses count as one. */
static void read_v4(unsigned char out[16], const unsigned char address[4])
{
    out[0] = address[0];
    if (address[0] != 127)
        memcpy(out, address, 4);
}

/* A machine may have very many IPv6 addresses with the same first half, so these count as one. */
static void read_v6(unsigned char out[16], const struct in6_addr *address)
{
    if (IN6_IS_ADDR_V4MAPPED(address))
        read_v4(out, address->s6_addr + 12);
    else
        memcpy(out, address, 8);
}

static void read_address(unsigned char out[16], const struct sockaddr *from)
{
    if (from->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, from, sizeof in);
        read_v4(out, (const unsigned char *)&in.sin_addr);
    } else if (from->sa_family == AF_INET6) {
        struct sockaddr_in6 in;
        memcpy(&in, from, sizeof in);
        read_v6(out, &in.sin6_addr);
    }
}

static bool is_stranger(const struct web_connection *c)
{
    return !c->trusted && !c->dropped;
}

static unsigned count_from(const struct web_connections *s, const unsigned char from[16])
{
    unsigned n = 0;
    for (const struct web_connection *c = s->first; c; c = c->after)
        n += is_stranger(c) && memcmp(c->from, from, sizeof c->from) == 0;
    return n;
}

/* The oldest stranger of the address that has the most strangers. */
static struct web_connection *find_victim(const struct web_connections *s)
{
    struct web_connection *victim = NULL;
    unsigned most = 0;
    for (struct web_connection *c = s->first; c; c = c->after) {
        const unsigned n = is_stranger(c) ? count_from(s, c->from) : 0;
        if (n > most) {
            most = n;
            victim = c;
        }
    }
    return victim;
}

static void append(struct web_connections *s, struct web_connection *c)
{
    c->before = s->last;
    *(s->last ? &s->last->after : &s->first) = c;
    s->last = c;
}

struct web_connection *web_connections_add(struct web_connections *s, int fd, const struct sockaddr *from)
{
    struct web_connection *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->fd = fd;
    if (from)
        read_address(c->from, from);
    pthread_mutex_lock(&s->lock);
    append(s, c);
    s->n_strangers++;
    set_time(s, c, READING);
    if (s->n_strangers > s->most_strangers)
        drop(s, find_victim(s));
    pthread_mutex_unlock(&s->lock);
    return c;
}

void web_connections_remove(struct web_connections *s, struct web_connection *c)
{
    pthread_mutex_lock(&s->lock);
    if (!c->dropped)
        (*place_of(s, c))--;
    *(c->before ? &c->before->after : &s->first) = c->after;
    *(c->after ? &c->after->before : &s->last) = c->before;
    pthread_mutex_unlock(&s->lock);
    free(c);
}

/* --- phases of a connection -------------------------------------------------------------------- */

/* Drops the trusted connections whose client has closed them. The server may not have noticed that yet. */
static void drop_gone(struct web_connections *s)
{
    for (struct web_connection *c = s->first; c; c = c->after) {
        struct pollfd p = { .fd = c->fd, .events = POLLRDHUP };
        if (c->trusted && !c->dropped && poll(&p, 1, 0) > 0)
            drop(s, c);
    }
}

bool web_connections_trust(struct web_connections *s, struct web_connection *c)
{
    pthread_mutex_lock(&s->lock);
    if (!c->trusted && s->n_known >= s->most_known)
        drop_gone(s);
    const bool room = c->trusted || (!c->dropped && s->n_known < s->most_known);
    if (room && !c->trusted) {
        s->n_strangers--;
        s->n_known++;
        c->trusted = true;
    }
    pthread_mutex_unlock(&s->lock);
    return room;
}

static void enter(struct web_connections *s, struct web_connection *c, enum phase phase)
{
    pthread_mutex_lock(&s->lock);
    set_time(s, c, phase);
    pthread_mutex_unlock(&s->lock);
}

void web_connections_requested(struct web_connections *s, struct web_connection *c)
{
    enter(s, c, ANSWERING);
}

void web_connections_answered(struct web_connections *s, struct web_connection *c)
{
    enter(s, c, READING);
}
