/* Both ends of the two rings between the dispatcher and one worker process. See layout.h for the protocol.
 *
 * Functions that run once per task are inline. Functions that wait, ring a bell or report errors are in channel.c and
 * port.c.
 *
 * A channel is made for one process and closed when that process ends. A process that replaces it gets new memory.
 */
#ifndef GD_SHM_CHANNEL_H
#define GD_SHM_CHANNEL_H

#include <stdbool.h>
#include <string.h>

#include <gpu_dispatch/error.h>

#include "shm/extents.h"
#include "shm/layout.h"
#include "shm/region.h"

/* ---- the dispatcher's end ---- */

struct gd__channel_spec {
    struct gd__worker_config config; /* capacities, ids, spin...; gd__channel_open() fills in sizes and offsets */
    const void *args;
    uint64_t result_bytes; /* wanted room for result bytes (sparse); may be halved down to 1 MiB */
};

struct gd__channel {
    struct gd__region tasks, results;
    int result_bell;      /* an eventfd that we only watch; -1: none */
    int task_bell;        /* our end of the socket that rings the worker in flight mode */
    int task_bell_theirs; /* the worker's end: close it after the boot message was sent */
    struct gd__task_header *out;
    _Atomic uint64_t *cancel_at;
    const struct gd__result_header *in;
    struct gd__task_slot *task_slots;
    const struct gd__result_slot *result_slots;
    uint64_t task_mask, result_mask;
    uint64_t task_capacity, result_capacity;
    uint64_t data_offset; /* private copies: the worker can't change what we check against */
    uint64_t result_region_size;
    uint32_t cancel_places;
    uint64_t task_tail;   /* next position to append at */
    uint64_t published;   /* the last `limit` we stored */
    uint64_t result_head; /* next result record to read */
    uint64_t result_tail; /* the last tail we read and checked */
    uint32_t rung;        /* the last sleep of the worker that we rang for */
};

#define GD__CHANNEL_NONE                                                                          \
    {                                                                                             \
        .tasks = GD__REGION_NONE, .results = GD__REGION_NONE, .result_bell = -1, .task_bell = -1, \
        .task_bell_theirs = -1                                                                    \
    }

int gd__channel_open(struct gd__channel *c, const struct gd__channel_spec *spec);
void gd__channel_close(struct gd__channel *c); /* may be called twice, and on GD__CHANNEL_NONE */

/* Returns the slot to fill for the next task. Never fails: the caller keeps task_tail - finished <= task_capacity. In
 * flight mode the caller keeps task_tail - started <= task_capacity, where `started` is from a STARTED record. */
static inline struct gd__task_slot *gd__channel_append(struct gd__channel *c)
{
    gd__will_write(&c->task_slots[(c->task_tail + GD__AHEAD) & c->task_mask]);
    return &c->task_slots[c->task_tail++ & c->task_mask];
}

/* Rings the worker's bell for that sleep, unless it was rung for it before. */
void gd__channel_ring(struct gd__channel *c, uint32_t sleep);

/* Wakes the worker if it sleeps. Call it after storing something for the worker to see. */
static inline void gd__channel_wake(struct gd__channel *c)
{
    gd__full_fence(); /* pairs with the fence in port.c's sleep_until() */
    uint32_t sleep = atomic_load_explicit(&c->in->sleeping, memory_order_relaxed);
    if (__builtin_expect(sleep != 0, 0))
        gd__channel_ring(c, sleep);
}

/* Lets the worker see the appended tasks, and rings its bell if it sleeps. */
static inline void gd__channel_publish(struct gd__channel *c)
{
    if (c->published == c->task_tail)
        return;
    c->published = c->task_tail;
    atomic_store_explicit(&c->out->limit, c->task_tail, memory_order_release); /* pairs with claim's acquire */
    gd__channel_wake(c);
}

/* Takes back tasks from position keep on. Returns the new end. The tasks from there to the old end belong to the
 * dispatcher again. A worker that reports a wrong `claimed` only keeps more tasks. */
uint64_t gd__channel_take_back(struct gd__channel *c, uint64_t keep);

/* The two rarer parts of gd__channel_next(). far_bytes returns 1 or GD_E_PROTOCOL. */
void gd__channel_bad_tail(const struct gd__channel *c, uint64_t tail);
int gd__channel_far_bytes(const struct gd__channel *c, const struct gd__result_slot *record, const void **bytes,
                          uint64_t *size);

/* Copies the next result record to *out. Returns 1; 0 if there is no record; GD_E_PROTOCOL with an error message if the
 * worker's memory is not valid: the tail decreased or is too far ahead, the kind is unknown, or the bytes are outside
 * the region. *bytes points into *out if the bytes are inline, otherwise into the region. */
static inline int gd__channel_next(struct gd__channel *c, struct gd__result_slot *out, const void **bytes,
                                   uint64_t *size)
{
    if (c->result_head == c->result_tail) {
        uint64_t tail = atomic_load_explicit(&c->in->tail, memory_order_acquire); /* pairs with commit's release */
        if (tail == c->result_head)
            return 0;
        if (__builtin_expect(tail - c->result_head > c->result_capacity, 0)) { /* also true if the tail decreased */
            gd__channel_bad_tail(c, tail);
            return GD_E_PROTOCOL;
        }
        c->result_tail = tail;
    }
    gd__will_read(&c->result_slots[(c->result_head + GD__AHEAD) & c->result_mask]);
    memcpy(out, &c->result_slots[c->result_head & c->result_mask], sizeof *out);
    atomic_signal_fence(memory_order_seq_cst); /* from here on only the copy is read */
    if (__builtin_expect((unsigned)out->kind - 1u < GD__R_KINDS - 1u && out->inline_size <= GD__INLINE_MAX, 1)) {
        *bytes = out->bytes;
        *size = out->inline_size;
    } else if (gd__channel_far_bytes(c, out, bytes, size) < 0) {
        return GD_E_PROTOCOL;
    }
    c->result_head++;
    return 1;
}

/* True if there is a record (or an invalid tail). Check this again before sleeping. */
static inline bool gd__channel_has_result(const struct gd__channel *c)
{
    return atomic_load_explicit(&c->in->tail, memory_order_acquire) != c->result_head;
}

/* Reports to the worker that records below `consumed` have been read, and that the bytes of those below `released` are
 * no longer needed. released <= consumed. */
void gd__channel_done(struct gd__channel *c, uint64_t consumed, uint64_t released);

void gd__channel_cancel(struct gd__channel *c, uint64_t below); /* sets `cancel`; the caller sends the socket byte */
/* Likewise in flight mode, for the task of that position at that place. Returns false if there is no such place. */
bool gd__channel_cancel_at(struct gd__channel *c, uint32_t place, uint64_t position);
void gd__channel_stop(struct gd__channel *c); /* sets `stop` and rings */

/* The progress that the worker reports. Positions are clamped to [from, task_tail], so they are safe to use. */
struct gd__progress {
    uint64_t started; /* positions below this were started */
    uint64_t loading;
    uint64_t start_ns;
};
void gd__channel_progress(const struct gd__channel *c, uint64_t from, struct gd__progress *out);

/* Whether the worker process has opened its end. It opens it in gd_worker_main(). */
bool gd__channel_attached(const struct gd__channel *c);

/* ---- the worker's end ---- */

struct gd__port {
    struct gd__region tasks, results, arena;
    int result_bell;
    int task_bell;  /* a socket; rings only after gd__port_use_socket() */
    bool by_socket; /* gd__port_use_socket() was called */
    const struct gd__task_header *in;
    struct gd__result_header *out;
    const struct gd__task_slot *task_slots;
    struct gd__result_slot *result_slots;
    const struct gd__arena_header *arena_head;
    const _Atomic uint64_t *cancel_at;
    struct gd__worker_config config; /* copied and checked */
    uint64_t task_mask, result_mask;
    uint64_t next;  /* next task position to claim */
    uint64_t limit; /* the last value read */
    uint64_t result_tail;
    uint64_t consumed;          /* the last value read */
    uint64_t published;         /* result_tail when we last checked whether the dispatcher sleeps */
    uint32_t sleep;             /* number of our last sleep */
    uint32_t rung;              /* the last sleep of the dispatcher that we rang for */
    struct gd__bytes *bytes;    /* the result bytes: see bytes.h */
    struct gd__extents extents; /* of the result region */
};

/* Maps the regions that came over the boot socket. Takes ownership of all descriptors except GD__FD_DISPATCHER, even if
 * it fails. */
int gd__port_open(struct gd__port *p, const struct gd__boot *boot, const int fds[GD__BOOT_FDS]);
void gd__port_close(struct gd__port *p);

/* Waits (spins, then sleeps) until the task at position `next` may be claimed, or a stop is requested. Does not claim
 * it. Returns 1 if there is a task, or 0 if a stop was requested and no task is left. */
int gd__port_wait(struct gd__port *p);

bool gd__port_stopped(const struct gd__port *p); /* a stop was requested */

/* From now on the dispatcher rings the socket task_bell instead of the futex. Call it before READY is sent. A caller
 * that waits for task_bell and other descriptors at once does
 *
 *     gd__port_sleep(), check for everything, poll(), gd__port_awake(), and again
 *
 * gd__port_sleep() announces that this process is about to sleep, with a full fence after it. gd__port_awake() ends
 * the sleep, and empties the socket if poll() found it readable. for_room: also ring when `released` has moved. */
void gd__port_use_socket(struct gd__port *p);
void gd__port_sleep(struct gd__port *p, bool for_room);
void gd__port_awake(struct gd__port *p, bool rung);

/* Returns 1 if there is a task to claim. Does not wait. */
static inline int gd__port_poll(struct gd__port *p)
{
    if (p->next >= p->limit)
        p->limit = atomic_load_explicit(&p->in->limit, memory_order_acquire);
    return p->next < p->limit;
}

/* Rings the dispatcher's bell for that sleep, unless it was rung for it before. */
void gd__port_ring(struct gd__port *p, uint32_t sleep);

/* Wakes the dispatcher if it sleeps and something was committed since the last check. Call it after a full fence. */
static inline void gd__port_wake(struct gd__port *p)
{
    if (p->published == p->result_tail)
        return;
    p->published = p->result_tail;
    uint32_t sleep = atomic_load_explicit(&p->arena_head->sleeping, memory_order_relaxed);
    if (__builtin_expect(sleep != 0, 0))
        gd__port_ring(p, sleep);
}

/* Claims n tasks from `next` on (a whole batch). Returns true if they belong to the worker now: then `next` is the
 * position after them. Returns false if they were taken back: then nothing has changed. The same fence also publishes
 * pending results. */
static inline bool gd__port_claim(struct gd__port *p, uint64_t n)
{
    uint64_t end = p->next + n;
    atomic_store_explicit(&p->out->claimed, end, memory_order_relaxed);
    gd__full_fence(); /* pairs with the fences in gd__channel_take_back() and in a dispatcher that goes to sleep */
    gd__port_wake(p);
    p->limit = atomic_load_explicit(&p->in->limit, memory_order_acquire);
    if (__builtin_expect(p->limit >= end, 1)) {
        gd__will_read(&p->task_slots[(end + GD__AHEAD) & p->task_mask]);
        p->next = end;
        return true;
    }
    atomic_store_explicit(&p->out->claimed, p->next, memory_order_relaxed);
    return false;
}

static inline const struct gd__task_slot *gd__port_task(const struct gd__port *p, uint64_t position)
{
    return &p->task_slots[position & p->task_mask];
}

/* Records that process() is about to be entered, at now_ns, for positions below `below`. */
static inline void gd__port_started(struct gd__port *p, uint64_t below, uint64_t now_ns)
{
    atomic_store_explicit(&p->out->start_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&p->out->started, below, memory_order_release);
}

/* Waits until the result ring has room. */
void gd__port_wait_room(struct gd__port *p);

/* Waits until the dispatcher's `released` is greater than `was`, and returns it. Call it if there is no room for result
 * bytes. It flushes all committed records first. Call it only while there are records with bytes that are not released.
 * Otherwise it may wait for ever. */
uint64_t gd__port_wait_released(struct gd__port *p, uint64_t was);

/* Returns the slot for the next result record, and waits for room if the ring is full. The caller fills it, then
 * commits it. */
static inline struct gd__result_slot *gd__port_result(struct gd__port *p)
{
    if (__builtin_expect(p->result_tail - p->consumed > p->result_mask, 0))
        gd__port_wait_room(p);
    return &p->result_slots[p->result_tail & p->result_mask];
}

/* Lets the dispatcher read the record (moves tail). Does not wake it: gd__port_flush() or gd__port_claim() does. */
static inline void gd__port_commit(struct gd__port *p)
{
    gd__will_write(&p->result_slots[(p->result_tail + GD__AHEAD) & p->result_mask]);
    atomic_store_explicit(&p->out->tail, ++p->result_tail, memory_order_release); /* pairs with next's acquire */
}

/* Wakes the dispatcher if it sleeps and something was committed since the last check. */
static inline void gd__port_flush(struct gd__port *p)
{
    if (p->published == p->result_tail)
        return;
    gd__full_fence(); /* pairs with the fence of a dispatcher that goes to sleep */
    gd__port_wake(p);
}

#endif
