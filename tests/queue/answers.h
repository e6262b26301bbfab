/* SPDX-License-Identifier: MIT
 *
 * A link to a real server, and the answers that it has given, in order:
 *
 *     struct answers a;
 *     answers_open(&a, server.hosts, "q", NULL);
 *     const struct answer *e = answers_ask(&a, &(struct gd__queue_request){ .ask = GD__ASK_SERVER });    // waits
 *     CHECK_EQ(e->kind, GD__ANSWER_OK);
 *     answers_close(&a);
 *
 * Fails the case if a request ends twice, or gets an item after its end.
 */
#ifndef GD_TESTS_QUEUE_ANSWERS_H
#define GD_TESTS_QUEUE_ANSWERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "queue/link.h"
#include "queue/nats/link.h"

struct answer {
    struct answer *next;
    uint64_t id;
    enum gd__queue_answer_kind kind;
    char text[256], subject[GD__QUEUE_SUBJECT_ROOM], token[GD__QUEUE_TOKEN_ROOM];
    char data[256]; /* with a NUL; longer data is cut */
    size_t size;
    struct gd__queue_answer a; /* its pointers are not valid */
};

struct answers {
    struct gd__queue_link *link;
    char name[65];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct answer *first, **last;
    uint64_t next_id;
    unsigned connected, disconnected; /* how many times */
    char why[256];                    /* of the last disconnection */
    bool is_calling;                  /* only one function of the listener runs at a time */
    /* Called with each answer, on the thread of the link, if it is not NULL. Protected by the lock. */
    void (*then)(struct answers *a, const struct gd__queue_answer *answer);
    void *user;
};

/* Opens a link that must be possible. */
void answers_open(struct answers *a, const char *hosts, const char *name, const struct gd__nats_options *o);
/* Opens a link, and returns what gd__nats_open() returns. If that is negative, a is released. */
int answers_try(struct answers *a, const char *address, const struct gd__nats_options *o);
void answers_close(struct answers *a);

/* Sends a request without waiting. Returns its id. */
uint64_t answers_send(struct answers *a, const struct gd__queue_request *request);
/* Waits for the end of a request. */
const struct answer *answers_end(struct answers *a, uint64_t id);
const struct answer *answers_ask(struct answers *a, const struct gd__queue_request *request);
/* The nth item of a request, from 0. NULL: it has no more. */
const struct answer *answers_item(struct answers *a, uint64_t id, unsigned n);
unsigned answers_items(struct answers *a, uint64_t id);
/* Waits until the connection was lost, or is back, so many times. */
void answers_await(struct answers *a, unsigned disconnected, unsigned connected);

/* The three streams, and the consumer of priority 0. */
void answers_make_queue(struct answers *a, uint32_t lease_ms, uint32_t replicas);
enum gd__queue_answer_kind answers_publish(struct answers *a, const char *subject, const char *data,
                                           enum gd__queue_condition condition, uint64_t sequence);

#endif
