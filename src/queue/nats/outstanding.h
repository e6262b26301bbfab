/* The requests that wait for the end of their answer: found by a token, which is in their reply subject, by their
 * deadline, and pulls by their priority. Not thread-safe.
 *
 * A token is never used twice, so an answer that comes too late finds nothing.
 */
#ifndef GD_QUEUE_NATS_OUTSTANDING_H
#define GD_QUEUE_NATS_OUTSTANDING_H

#include <gpu_dispatch/dispatcher.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/heap.h"
#include "queue/nats/language/jetstream.h"

enum { GD__OUTSTANDING_PRIORITIES = GD_PRIORITY_MAX - GD_PRIORITY_MIN + 1 };

struct gd__outstanding_request {
    struct gd__timer timer; /* must be the first member */
    uint64_t token;
    uint32_t index;
    uint64_t latest_ns;                   /* PULL: when it ends at the latest, whatever the server says */
    enum gd__queue_answer_kind ends;      /* how it ends when its time is over */
    const char *why;                      /* static; "": nothing to say */
    bool is_unsent;                       /* there was no connection */
    struct gd__outstanding_request *next; /* the next pull of this priority, or the next free one */
    struct gd__js_exchange x;
};

struct gd__outstanding {
    struct gd__outstanding_request **slots; /* NULL: free */
    size_t n_slots, count;
    uint32_t *free_slots; /* indices of the last n_slots - count ones */
    uint64_t generation;
    struct gd__heap deadlines;
    struct gd__outstanding_request *unused; /* that were released */
    struct {
        struct gd__outstanding_request *first, *last;
    } pulls[GD__OUTSTANDING_PRIORITIES]; /* in the order in which they were asked */
};

/* A zeroed struct is empty. */
void gd__outstanding_destroy(struct gd__outstanding *o);

/* Returns a request that is not in the table yet, and has a token. NULL: no memory. */
struct gd__outstanding_request *gd__outstanding_new(struct gd__outstanding *o);
/* Adds it, after its exchange has begun. */
void gd__outstanding_add(struct gd__outstanding *o, struct gd__outstanding_request *r, uint64_t deadline_ns);
void gd__outstanding_move(struct gd__outstanding *o, struct gd__outstanding_request *r, uint64_t deadline_ns);
/* Takes it out of the table. It stays valid until it is released. */
void gd__outstanding_remove(struct gd__outstanding *o, struct gd__outstanding_request *r);
void gd__outstanding_release(struct gd__outstanding *o, struct gd__outstanding_request *r);

/* How many requests were made before this one, and this one. */
uint64_t gd__outstanding_number(const struct gd__outstanding_request *r);

struct gd__outstanding_request *gd__outstanding_find(const struct gd__outstanding *o, uint64_t token);
/* The oldest pull of this priority; NULL: none. */
struct gd__outstanding_request *gd__outstanding_pull(const struct gd__outstanding *o, int priority);
/* The one with the earliest deadline; NULL: none. */
struct gd__outstanding_request *gd__outstanding_first(const struct gd__outstanding *o);

#endif
