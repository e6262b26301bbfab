/* The feeder: see feeder.h. feeder_state.h lists which thread writes which field. */
#include "dispatch/source/feeder.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/thread.h"
#include "dispatch/source/feeder_state.h"

#define ARENA_ADDRESS_SPACE (UINT64_C(1) << 40) /* sparse: uses no memory until it is written to */
#define ARENA_AT_LEAST      (UINT64_C(1) << 24)

/* --- waiting --- */

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static bool may_take_one(struct gd__feeder *f, uint64_t bytes)
{
    (void)bytes;
    if (f->taken >= f->seen_allowed)
        f->seen_allowed = atomic_load_explicit(&f->allowed, memory_order_acquire);
    return f->taken < f->seen_allowed;
}

bool gd__feeder_wait_for(struct gd__feeder *f, gd__feeder_condition *holds, uint64_t bytes, enum gd__feeder_sleep kind)
{
    while (!gd__feeder_stopped(f)) {
        if (holds(f, bytes))
            return true;
        const uint32_t seen = atomic_load_explicit(&f->kick, memory_order_acquire);
        atomic_store_explicit(&f->sleeping, kind, memory_order_seq_cst); /* pairs with wake_feeder's fence */
        gd__full_fence();
        if (!gd__feeder_stopped(f) && !holds(f, bytes))
            futex_wait(&f->kick, seen);
        atomic_store_explicit(&f->sleeping, GD__AWAKE, memory_order_relaxed);
    }
    return false;
}

static void wake_feeder(struct gd__feeder *f)
{
    atomic_fetch_add_explicit(&f->kick, 1, memory_order_release);
    futex_wake(&f->kick);
}

/* --- the thread --- */

/* Takes one item. Returns 1, or 0 at the end of the source, or a negative code if the source or the feeder failed. */
static int take_one(struct gd__feeder *f)
{
    struct gd_item item = { .reserved = { f } };
    f->message[0] = '\0';
    gd__completed_next(&f->completed);
    int rc = f->spec.source(f->spec.user, &item);
    if (rc > 0) {
        rc = gd__item_take(f, &item);
        if (rc == 0)
            return 1;
        snprintf(f->message, sizeof f->message, "%s", gd_error_text());
    }
    gd__free(f->asked);
    f->asked = NULL;
    gd__item_drop_memory(f, &item);
    return rc;
}

static void feeder_release_ref(struct gd__feeder *f);

static void mark_ended(struct gd__feeder *f)
{
    if (f->spec.source_release)
        f->spec.source_release(f->spec.user);
    atomic_store_explicit(&f->ended, 1, memory_order_release);
    gd__feeder_wake_monitor(f);
    feeder_release_ref(f);
}

/* User code ended the thread, so take_one() never returned. Without this the run would wait for ever. */
static void source_left(void *arg)
{
    struct gd__feeder *f = arg;
    snprintf(f->message, sizeof f->message,
             "it ended the thread that called it (pthread_exit() or pthread_cancel()): it must return instead");
    gd__free(f->asked);
    f->asked = NULL;
    f->result = GD_E_SOURCE;
    mark_ended(f);
}

static int take_all(struct gd__feeder *f)
{
    int rc = 1;
    while (rc > 0 && gd__feeder_wait_for(f, may_take_one, 0, GD__WAITS_FOR_ROOM)) {
        if (f->completed.keeps)
            gd__completed_wait(&f->completed);
        rc = take_one(f);
    }
    return rc < 0 ? rc : 0;
}

static void *feeder_main(void *arg)
{
    struct gd__feeder *f = arg;
    pthread_cleanup_push(source_left, f);
    f->result = take_all(f);
    pthread_cleanup_pop(0);
    mark_ended(f);
    return NULL;
}

/* --- opening and closing --- */

/* Frees the journal's contexts of tasks that the source returned after the run had ended. */
static void free_left_over(struct gd__feeder *f)
{
    const uint64_t tail = atomic_load_explicit(&f->tail, memory_order_acquire);
    for (uint64_t i = f->head; f->completed.keeps && f->entries && i != tail; i++)
        gd__free((void *)(uintptr_t)f->entries[i & f->mask].word);
}

static void feeder_free(struct gd__feeder *f)
{
    free_left_over(f);
    gd__completed_close(&f->completed);
    gd__arena_close(&f->arena);
    gd__extents_close(&f->extents);
    gd__region_close(&f->region);
    gd__free(f->entries);
    gd__free(f->terms);
    if (f->spec.wake_fd >= 0)
        close(f->spec.wake_fd);
    free(f);
}

static void feeder_release_ref(struct gd__feeder *f)
{
    if (atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) == 1)
        feeder_free(f);
}

static struct gd__feeder *feeder_alloc(const struct gd__feeder_spec *spec)
{
    struct gd__feeder *f = GD__FAULT("alloc") ? NULL : aligned_alloc(GD__LINE, sizeof *f);
    if (!f)
        return NULL;
    memset(f, 0, sizeof *f);
    f->region.fd = -1;
    f->spec.wake_fd = -1;
    f->refs = 1;
    gd__completed_open(&f->completed, spec->journal, spec->shard);
    f->completed.keeps |= spec->has_contexts;
    return f;
}

int gd__feeder_open(struct gd__feeder **out, const struct gd__feeder_spec *spec)
{
    uint64_t capacity = 1;
    while (capacity < spec->max_tasks)
        capacity *= 2;
    struct gd__feeder *f = feeder_alloc(spec);
    if (!f)
        return gd__error(GD_E_NO_MEMORY, "no memory for the feeder");
    f->spec = *spec;
    f->mask = capacity - 1;
    f->spec.wake_fd = GD__FAULT("dup") ? -1 : fcntl(spec->wake_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    f->entries = gd__calloc(capacity, sizeof *f->entries);
    f->terms = gd__calloc(capacity, sizeof *f->terms); /* a page of it costs memory only after it is used */
    int rc = f->spec.wake_fd < 0 ? gd__error_errno("cannot duplicate an eventfd") : 0;
    if (rc == 0 && (!f->entries || !f->terms))
        rc = gd__error(GD_E_NO_MEMORY, "no memory for %llu queued tasks", (unsigned long long)capacity);
    if (rc == 0)
        rc = gd__region_create(&f->region, "gpu_dispatch-arena", ARENA_ADDRESS_SPACE, ARENA_AT_LEAST,
                               GD__REGION_WE_WRITE);
    if (rc == 0)
        rc = gd__arena_open(&f->arena, GD__PAGE, f->region.size, spec->max_tasks + 2);
    if (rc < 0) {
        feeder_release_ref(f);
        return rc;
    }
    gd__extents_open(&f->extents, &f->region);
    struct gd__arena_header *h = gd__feeder_arena_header(f);
    h->magic = GD__ARENA_MAGIC;
    h->size = f->region.size;
    *out = f;
    return 0;
}

int gd__feeder_start(struct gd__feeder *f)
{
    f->refs = 2;
    if (f->spec.source_hold)
        f->spec.source_hold(f->spec.user);
    const int rc = gd__thread_start(&f->thread, "gd-feeder", feeder_main, f);
    f->started = rc == 0;
    if (rc == 0)
        return 0;
    f->refs = 1;
    if (f->spec.source_release)
        f->spec.source_release(f->spec.user);
    errno = rc;
    return gd__error_errno("cannot start the feeder thread");
}

void gd__feeder_rest(struct gd__feeder *f)
{
    if (f->started)
        pthread_join(f->thread, NULL);
    f->started = false;
    gd__completed_leave(&f->completed);
}

/* No other thread uses the feeder here. The payloads of earlier runs are free, so the counts of bytes agree and go on. */
void gd__feeder_reopen(struct gd__feeder *f, const struct gd__feeder_spec *spec)
{
    const int wake_fd = f->spec.wake_fd;
    gd__completed_close(&f->completed);
    gd__completed_open(&f->completed, spec->journal, spec->shard);
    f->completed.keeps |= spec->has_contexts;
    f->spec = *spec;
    f->spec.wake_fd = wake_fd;
    atomic_store(&f->tail, 0);
    f->taken = f->seen_allowed = f->head = f->seen_tail = f->told = 0;
    atomic_store(&f->allowed, 0);
    atomic_store(&f->sleeping, GD__AWAKE);
    atomic_store(&f->ended, 0);
    atomic_store(&f->has_priorities, 0);
    atomic_store(&f->dropped, 0);
    atomic_store(&f->stop, 0);
    f->result = 0;
    f->message[0] = '\0';
}

void gd__feeder_close(struct gd__feeder **fp)
{
    struct gd__feeder *f = *fp;
    *fp = NULL;
    if (!f)
        return;
    if (f->started && gd__feeder_ended(f))
        pthread_join(f->thread, NULL);
    else if (f->started)
        pthread_detach(f->thread);
    gd__completed_leave(&f->completed);
    feeder_release_ref(f);
}

/* --- the monitor's side --- */

const struct gd__region *gd__feeder_arena(const struct gd__feeder *f)
{
    return &f->region;
}

struct gd__arena_header *gd__feeder_arena_header(const struct gd__feeder *f)
{
    return f->region.base;
}

uint64_t gd__feeder_queued(const struct gd__feeder *f)
{
    return atomic_load_explicit(&f->tail, memory_order_acquire) - f->head;
}

uint64_t gd__feeder_next(struct gd__feeder *f, const struct gd__intake_entry **first)
{
    if (f->head == f->seen_tail)
        f->seen_tail = atomic_load_explicit(&f->tail, memory_order_acquire);
    const uint64_t n = f->seen_tail - f->head, to_the_edge = f->mask + 1 - (f->head & f->mask);
    *first = &f->entries[f->head & f->mask];
    return n < to_the_edge ? n : to_the_edge;
}

struct gd__intake_terms gd__feeder_terms(const struct gd__feeder *f, const struct gd__intake_entry *e)
{
    return f->terms[e - f->entries];
}

void gd__feeder_taken(struct gd__feeder *f, uint64_t n)
{
    f->head += n;
}

void gd__feeder_release(struct gd__feeder *f, const struct gd__payload *p)
{
    if (p->size <= GD__INLINE_MAX)
        return;
    gd__arena_free_later(f->arena, p->offset, p->allocated);
    f->freed += p->allocated;
    atomic_store_explicit(&f->bytes_freed, f->freed, memory_order_release);
}

void gd__feeder_allow(struct gd__feeder *f, uint64_t allowed)
{
    if (allowed != f->told) {
        atomic_store_explicit(&f->allowed, allowed, memory_order_release);
        f->told = allowed;
    }
    gd__full_fence(); /* pairs with the fence in gd__feeder_wait_for() */
    const uint32_t sleeping = atomic_load_explicit(&f->sleeping, memory_order_relaxed);
    if (sleeping == GD__AWAKE)
        return;
    const uint64_t room = allowed - atomic_load_explicit(&f->tail, memory_order_relaxed);
    if (sleeping == GD__WAITS_FOR_ROOM && room < f->spec.wake_room)
        return;
    if (sleeping == GD__WAITS_FOR_BYTES && f->freed == f->freed_told)
        return;
    f->freed_told = f->freed;
    wake_feeder(f);
}

void gd__feeder_nudge(struct gd__feeder *f)
{
    const bool room = f->told != atomic_load_explicit(&f->tail, memory_order_relaxed);
    if (room && atomic_load_explicit(&f->sleeping, memory_order_relaxed) == GD__WAITS_FOR_ROOM)
        wake_feeder(f);
}

void gd__feeder_stop(struct gd__feeder *f)
{
    if (atomic_exchange_explicit(&f->stop, 1, memory_order_acq_rel))
        return;
    gd__full_fence();
    wake_feeder(f);
    gd__completed_interrupt(&f->completed);
    if (f->started && f->spec.source_cancel && !gd__feeder_ended(f))
        f->spec.source_cancel(f->spec.user);
}

bool gd__feeder_ended(const struct gd__feeder *f)
{
    return !f->started || atomic_load_explicit(&f->ended, memory_order_acquire);
}

bool gd__feeder_has_priorities(const struct gd__feeder *f)
{
    return atomic_load_explicit(&f->has_priorities, memory_order_relaxed) != 0;
}

uint64_t gd__feeder_dropped(const struct gd__feeder *f)
{
    return atomic_load_explicit(&f->dropped, memory_order_relaxed);
}

bool gd__feeder_has_all(const struct gd__feeder *f)
{
    return f->started && atomic_load_explicit(&f->ended, memory_order_acquire) && !gd__feeder_stopped(f) &&
           f->result == 0;
}

int gd__feeder_result(const struct gd__feeder *f, const char **message)
{
    *message = f->message[0] ? f->message : "no error message was set (see gd_item_error())";
    return f->started ? f->result : 0;
}
