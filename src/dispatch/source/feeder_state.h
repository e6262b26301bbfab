/* The fields of a feeder, shared by feeder.c and items.c. Each thread writes only these fields:
 *
 *   the feeder thread   tail, taken, dropped, bytes_taken, the arena's extents, sleeping, ended, result, message
 *   the monitor         head, allowed, bytes_freed, stop
 *
 * Before a thread sleeps, it sets its flag, does a full fence and checks once more for something to do. The other
 * thread publishes, does a full fence and then reads the flag.
 */
#ifndef GD_DISPATCH_SOURCE_FEEDER_STATE_H
#define GD_DISPATCH_SOURCE_FEEDER_STATE_H

#include <errno.h>
#include <pthread.h>
#include <stdalign.h>
#include <unistd.h>

#include "dispatch/source/completed.h"
#include "dispatch/source/feeder.h"
#include "shm/arena.h"
#include "shm/extents.h"

enum { GD__SOURCE_MESSAGE_MAX = 1024 };

enum gd__feeder_sleep { GD__AWAKE, GD__WAITS_FOR_ROOM, GD__WAITS_FOR_BYTES };

struct gd__feeder {
    struct gd__feeder_spec spec;
    struct gd__region region;
    struct gd__arena *arena;
    struct gd__extents extents; /* the extents of region; used by the feeder thread */
    struct gd__intake_entry *entries;
    struct gd__intake_terms *terms; /* one for each entry; valid if the entry has terms */
    uint64_t mask;
    pthread_t thread;
    bool started;
    _Atomic uint32_t refs;
    struct gd__completed completed; /* which items are not run */

    alignas(GD__LINE) _Atomic uint64_t tail; /* written by the feeder thread, with the fields after it */
    uint64_t taken, bytes_taken, seen_allowed;
    struct gd__journal_task *asked; /* the journal's context of the current item, if the journal was asked already */
    uint32_t rung;                  /* the last sleep of the monitor from which this thread woke it */
    _Atomic uint32_t sleeping;      /* enum gd__feeder_sleep */
    _Atomic uint32_t ended;
    _Atomic uint32_t has_priorities;
    _Atomic uint64_t dropped; /* items of other shards */
    int result;
    char message[GD__SOURCE_MESSAGE_MAX];

    alignas(GD__LINE) _Atomic uint64_t allowed; /* written by the monitor, with the fields after it */
    _Atomic uint64_t bytes_freed;
    _Atomic uint32_t kick; /* the futex */
    _Atomic uint32_t stop;
    uint64_t head, seen_tail, freed, freed_told, told;
};

/* Waits until the condition holds. Returns false if the feeder was stopped. */
typedef bool gd__feeder_condition(struct gd__feeder *f, uint64_t bytes);
bool gd__feeder_wait_for(struct gd__feeder *f, gd__feeder_condition *holds, uint64_t bytes, enum gd__feeder_sleep kind);

static inline bool gd__feeder_stopped(const struct gd__feeder *f)
{
    return atomic_load_explicit(&f->stop, memory_order_acquire) != 0;
}

static inline void gd__feeder_wake_monitor(struct gd__feeder *f)
{
    gd__full_fence(); /* pairs with the monitor's fence before it sleeps */
    const struct gd__arena_header *h = f->region.base;
    const uint32_t sleep = atomic_load_explicit(&h->sleeping, memory_order_relaxed);
    if (sleep == 0 || sleep == f->rung)
        return;
    f->rung = sleep;
    const uint64_t one = 1;
    while (write(f->spec.wake_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

/* items.c */
/* Frees what gd_item_alloc() allocated, if anything. */
void gd__item_drop_memory(struct gd__feeder *f, struct gd_item *item);
/* Sets the context of the current item. The feeder frees it. */
void gd__item_context(struct gd_item *item, struct gd__journal_task *t);
int gd__item_take(struct gd__feeder *f, struct gd_item *item); /* returns 0, or a negative code with an error message */

#endif
