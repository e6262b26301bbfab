/* The feeder: the thread that calls the user's source, and the queue from it to the monitor.
 *
 * The source may block for any time, so it has its own thread. Tasks go through a private single-producer ring.
 * Payloads of more than GD__INLINE_MAX bytes go through the arena. The feeder never takes more tasks than the monitor
 * allows, and sleeps on a futex when it has taken that many.
 *
 * A source that blocks for ever cannot be joined at the end of a run. So the feeder has a reference count: the thread
 * holds one reference and the dispatcher another. An abandoned feeder frees everything when its source returns.
 */
#ifndef GD_DISPATCH_SOURCE_FEEDER_H
#define GD_DISPATCH_SOURCE_FEEDER_H

#include <gpu_dispatch/dispatcher.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "journal/journal.h"
#include "shm/layout.h"
#include "shm/region.h"

struct gd__feeder;

struct gd__intake_entry {
    uint64_t payload[4]; /* a struct gd__payload, in the form that the scheduler stores */
    /* The task's weight. In a run with a journal: a struct gd__journal_task *, which has the weight. The monitor must
     * free it. One field is used for both, because an entry moves from one processor to another and every byte costs
     * time. */
    uint64_t word;
};

/* Data that only some tasks have. It is not in the entry, for the same reason. An entry that has terms has this bit in
 * payload[0], which is the size of the payload. */
#define GD__INTAKE_HAS_TERMS (UINT64_C(1) << 63)
struct gd__intake_terms {
    uint32_t timeout_ms; /* the task's own time limit; 0: that of the run */
    int32_t priority;
    uint64_t number; /* in a run with a shard and without a journal: the position in the source */
};
_Static_assert(sizeof(struct gd__payload) == 4 * sizeof(uint64_t), "a payload is four words");

struct gd__feeder_spec {
    gd_source_fn *source;
    void (*source_cancel)(void *user);
    void (*source_hold)(void *user); /* for source_hold and source_release see binding.h */
    void (*source_release)(void *user);
    void *user;
    uint64_t queue_bytes;
    uint64_t arena_bytes; /* the part worth pinning */
    uint64_t max_tasks;   /* the maximum number of tasks that are not final at any time */
    uint64_t wake_room;   /* wake the feeder when it may take this many more tasks */
    void (*on_skip)(void *user, const struct gd_skipped *skipped); /* NULL: not wanted */
    struct gd_journal *journal;                                    /* may be NULL; not used after gd__feeder_close() */
    struct gd_shard shard;                                         /* drops items of other shards; count 0: none */
    bool has_contexts; /* the source sets the context of each item (gd__item_context()), and there is no journal */
    int wake_fd;       /* eventfd, duplicated: rung if the monitor sleeps when a task is added */
};

int gd__feeder_open(struct gd__feeder **out, const struct gd__feeder_spec *spec);
int gd__feeder_start(struct gd__feeder *f);

/* Call it at the end of a run whose source has ended, if there may be another run. Joins the thread. The journal is not
 * used after this. The arena stays, because workers have mapped it. */
void gd__feeder_rest(struct gd__feeder *f);
/* Prepares for the source of another run, after gd__feeder_rest(). max_tasks must not be larger than before. */
void gd__feeder_reopen(struct gd__feeder *f, const struct gd__feeder_spec *spec);

/* All functions below are for the monitor. */
const struct gd__region *gd__feeder_arena(const struct gd__feeder *f);
struct gd__arena_header *gd__feeder_arena_header(const struct gd__feeder *f);

/* Sets *first to the next tasks that were taken from the source. Returns how many there are. They stay valid until
 * gd__feeder_taken() is called with the number of tasks that were used. */
uint64_t gd__feeder_next(struct gd__feeder *f, const struct gd__intake_entry **first);
void gd__feeder_taken(struct gd__feeder *f, uint64_t n);
/* The terms of an entry that has GD__INTAKE_HAS_TERMS. */
struct gd__intake_terms gd__feeder_terms(const struct gd__feeder *f, const struct gd__intake_entry *e);
uint64_t gd__feeder_queued(const struct gd__feeder *f);
static inline bool gd__feeder_has_tasks(const struct gd__feeder *f)
{
    return gd__feeder_queued(f) > 0;
}

/* How many items of other shards were dropped so far. */
uint64_t gd__feeder_dropped(const struct gd__feeder *f);

/* Returns true if the source has ended by itself, so that the whole list is known. */
bool gd__feeder_has_all(const struct gd__feeder *f);

/* Frees a task's payload. */
void gd__feeder_release(struct gd__feeder *f, const struct gd__payload *p);

/* Sets how many tasks may be taken in all. A sleeping feeder is woken when it may take wake_room more tasks. That is a
 * small part of the queue, so the rest of the queue keeps the workers busy meanwhile. */
void gd__feeder_allow(struct gd__feeder *f, uint64_t allowed);

/* Wakes the feeder even if it may take only one task. Call it if a worker is idle. */
void gd__feeder_nudge(struct gd__feeder *f);

/* Stops taking tasks and asks a blocked source to return. May be called more than once. */
void gd__feeder_stop(struct gd__feeder *f);

/* Returns true if no more tasks will come. The queue may still hold tasks. */
bool gd__feeder_ended(const struct gd__feeder *f);

/* Returns true if a task had a priority other than 0. Then tasks must not stay in the queue. */
bool gd__feeder_has_priorities(const struct gd__feeder *f);

/* Returns 0 if the source ended normally, or a code (GD_E_SOURCE, ...) with its error message. Call it after the source
 * has ended. */
int gd__feeder_result(const struct gd__feeder *f, const char **message);

/* Joins the thread if it has ended, otherwise abandons it. Sets *f to NULL. */
void gd__feeder_close(struct gd__feeder **f);

#endif
