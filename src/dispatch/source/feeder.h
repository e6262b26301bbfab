/* The feeder: the thread that calls the user's source, and the queue by which its tasks reach the monitor.
 *
 * The source may block for as long as it likes, so it has a thread of its own. Tasks go through a private
 * single-producer ring; payloads of more than GD__INLINE_MAX bytes through the arena. The feeder never takes more than
 * the monitor allows, and sleeps on a futex while it may not.
 *
 * A source that is blocked for good cannot be joined at the end of a run. So the feeder is counted: the thread holds
 * one reference and the dispatcher another, and one that is given up on frees everything when its source returns.
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
    uint64_t payload[4]; /* a struct gd__payload, as the scheduler keeps it */
    uint64_t word; /* its weight; or, in a run with a journal, a struct gd__journal_task * that has it, of whoever takes
                      the entry: an entry goes from one processor to another, and every byte of it counts */
};
_Static_assert(sizeof(struct gd__payload) == 4 * sizeof(uint64_t), "a payload is four words");

struct gd__feeder_spec {
    gd_source_fn *source;
    void (*source_cancel)(void *user);
    void (*source_hold)(void *user); /* this and the next: see binding.h */
    void (*source_release)(void *user);
    void *user;
    uint64_t queue_bytes;
    uint64_t arena_bytes; /* the part worth pinning */
    uint64_t max_tasks;   /* that can be out at once */
    uint64_t wake_room;   /* wake the feeder when this many more may be taken */
    void (*on_skip)(void *user, const struct gd_skipped *skipped); /* NULL: not wanted */
    struct gd_journal *journal; /* NULL: none. Not touched after gd__feeder_close() */
    int wake_fd;                /* eventfd: rung when the monitor sleeps and there is something; duplicated */
};

int gd__feeder_open(struct gd__feeder **out, const struct gd__feeder_spec *spec);
int gd__feeder_start(struct gd__feeder *f);

/* Everything below is the monitor's. */
const struct gd__region *gd__feeder_arena(const struct gd__feeder *f);
struct gd__arena_header *gd__feeder_arena_header(const struct gd__feeder *f);

/* Tasks taken from the source: how many lie at *first, valid until gd__feeder_taken() says how many were used. */
uint64_t gd__feeder_next(struct gd__feeder *f, const struct gd__intake_entry **first);
void gd__feeder_taken(struct gd__feeder *f, uint64_t n);
uint64_t gd__feeder_queued(const struct gd__feeder *f);
static inline bool gd__feeder_has_tasks(const struct gd__feeder *f)
{
    return gd__feeder_queued(f) > 0;
}

/* A task's payload is no longer needed. */
void gd__feeder_release(struct gd__feeder *f, const struct gd__payload *p);

/* How many tasks may have been taken in all. A sleeping feeder is woken once it may take wake_room more: as that is a
 * small part of the queue, what is left of it keeps the workers busy meanwhile. */
void gd__feeder_allow(struct gd__feeder *f, uint64_t allowed);

/* Wakes it for a single one: a worker is idle and there is nothing to give it. */
void gd__feeder_nudge(struct gd__feeder *f);

/* Takes no more; a source that is blocked is asked to return. Once or often. */
void gd__feeder_stop(struct gd__feeder *f);

/* True when no more will come (all that came is in the queue). */
bool gd__feeder_ended(const struct gd__feeder *f);

/* How the source ended: 0, or GD_E_SOURCE ... with its words. After it has ended. */
int gd__feeder_result(const struct gd__feeder *f, const char **words);

/* Joins the thread if it has ended, else leaves it to itself. Sets *f to NULL. */
void gd__feeder_close(struct gd__feeder **f);

#endif
