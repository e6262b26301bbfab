/* Tasks in flight in another program, which exchanges lines with this process (worker/stream.c).
 *
 * Lines are put into a buffer while there are tasks and places. The buffer is sent every few tasks, and before the main
 * thread sleeps.
 *
 * A program may gather tasks, and begin them when it has enough. If it has fewer tasks than its concurrency, it gets a
 * flush line when no more tasks follow: no task came for batch_wait, or no more may be in flight. So the program never
 * needs a timeout of its own. */
#include "base/alloc.h"
#include "base/clock.h"
#include "worker/flight/flight.h"

enum { LOOK_EVERY = 32 /* tasks */ };

/* ---- tasks by their ids ---- */

/* A hash table with a list in each bucket. Numbers are those of entries + 1; 0: the end of a list. */
struct gd__ids {
    unsigned mask;   /* buckets - 1 */
    uint16_t *first; /* for each bucket: the first number in its list */
    uint16_t next[]; /* for each entry: the next number in the same list; the buckets follow */
};

struct gd__ids *gd__ids_open(unsigned n_entries)
{
    unsigned buckets = 1;
    while (buckets < 2 * n_entries)
        buckets *= 2;
    struct gd__ids *t = gd__calloc(1, sizeof *t + (n_entries + buckets) * sizeof t->next[0]);
    if (!t)
        return NULL;
    t->mask = buckets - 1;
    t->first = &t->next[n_entries];
    return t;
}

/* Ids that are in flight together are mostly neighbours, so their low bits differ. */
static uint16_t *bucket_of(struct gd__ids *t, uint64_t id)
{
    return &t->first[id & t->mask];
}

static void remember(struct gd__flight *f, const struct gd__flight_entry *e)
{
    const uint16_t number = gd__flight_number(f, e);
    uint16_t *first = bucket_of(f->ids, e->e.task.id);
    f->ids->next[number] = *first;
    *first = (uint16_t)(number + 1);
}

static void forget(struct gd__flight *f, const struct gd__flight_entry *e)
{
    const uint16_t number = gd__flight_number(f, e);
    uint16_t *at = bucket_of(f->ids, e->e.task.id);
    while (*at != number + 1)
        at = &f->ids->next[*at - 1];
    *at = f->ids->next[number];
}

struct gd__flight_entry *gd__lines_find(const struct gd_worker *w, uint64_t id)
{
    struct gd__flight *f = gd__flight_of(w);
    for (unsigned i = *bucket_of(f->ids, id); i > 0; i = f->ids->next[i - 1])
        if (f->entries[i - 1].e.task.id == id)
            return &f->entries[i - 1];
    return NULL;
}

void gd__lines_answered(struct gd_worker *w, struct gd__flight_entry *e)
{
    forget(gd__flight_of(w), e);
    gd__flight_put_answer(w, e);
}

/* ---- sending ---- */

int gd__lines_begin(struct gd_worker *w, struct gd__flight *f, struct gd__flight_entry *e)
{
    if (!f->pipe->put(w, e))
        return GD_E_FAILED;
    remember(f, e);
    f->unflushed = true;
    f->n_put++;
    f->last_put_ns = e->e.start_ns;
    return 0;
}

/* Whether the program may be waiting for tasks that do not come. */
static bool wants_flush(const struct gd__flight *f)
{
    return f->unflushed && f->in_flight > 0 && f->in_flight < f->announced;
}

/* Whether no task can follow before the program has answered one. */
static bool is_at_limit(const struct gd__flight *f)
{
    return f->in_flight == f->concurrency || f->solo;
}

/* How long to wait for another task before a flush, in ms rounded up. */
static int flush_wait_ms(const struct gd_worker *w, const struct gd__flight *f)
{
    const uint64_t due_ns = f->last_put_ns + w->port.config.batch_wait_ns, now_ns = gd__now_ns();
    if (is_at_limit(f) || w->port.config.batch_wait_ns == 0 || now_ns >= due_ns)
        return 0;
    return (int)((due_ns - now_ns + GD__NS_PER_MS - 1) / GD__NS_PER_MS);
}

static void flush(struct gd_worker *w, struct gd__flight *f)
{
    f->unflushed = false;
    f->pipe->flush(w);
}

int gd__lines_watch(struct gd_worker *w, struct gd__flight *f, struct pollfd fds[GD__FLIGHT_WATCHED])
{
    int flush_ms = -1;
    const bool was_full = !f->pipe->has_room(w);
    f->n_put = 0;
    gd__host_flush(w);
    if (wants_flush(f) && !was_full && (flush_ms = flush_wait_ms(w, f)) == 0) {
        flush(w, f);
        flush_ms = -1;
    }
    const int wait_ms = f->watch_ms = f->pipe->watch(w, fds);
    if (was_full && f->pipe->has_room(w)) {
        /* Nothing could be put when it was decided to sleep, but now something can. So do not wait: tasks or a flush may
         * follow. */
        f->watch_ms = -1;
        return 0;
    }
    return wait_ms >= 0 && (flush_ms < 0 || wait_ms < flush_ms) ? wait_ms : flush_ms;
}

void gd__lines_take(struct gd_worker *w, struct gd__flight *f, const struct pollfd fds[GD__FLIGHT_WATCHED],
                    bool timed_out)
{
    if (!timed_out) {
        f->answered_ns = gd__ticks_now(&w->clock);
        f->pipe->take(w, fds);
    } else if (f->watch_ms >= 0 && !(wants_flush(f) && flush_wait_ms(w, f) == 0)) {
        f->pipe->late(w); /* otherwise the next watch sends the flush */
    }
}

/* Sends what was put and takes the answers that are there, without waiting. Returns false if there were none. */
static bool look(struct gd_worker *w, struct gd__flight *f)
{
    f->n_put = 0;
    gd__host_flush(w); /* the dispatcher knows what has begun before it is sent */
    f->answered_ns = gd__ticks_now(&w->clock);
    return f->pipe->look(w);
}

void gd__lines_look_sometimes(struct gd_worker *w, struct gd__flight *f)
{
    if (f->n_put >= LOOK_EVERY)
        look(w, f);
}

/* If a flush is due, it is sent with the last tasks, before the sleep. */
bool gd__lines_look_before_sleep(struct gd_worker *w, struct gd__flight *f)
{
    return f->in_flight > 0 && !wants_flush(f) && look(w, f);
}
