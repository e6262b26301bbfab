/* See feeder.h. Who writes what:
 *
 *   the feeder thread   tail, taken, bytes_taken, the arena's books, `sleeping` (its own), ended, result, words
 *   the monitor         head, allowed, bytes_freed, stop
 *
 * Sleeping works as everywhere: say so, fence, look again, sleep; the other side publishes, fences, looks.
 */
#include "dispatch/feeder.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/thread.h"
#include "binding.h"
#include "dispatch/completed.h"
#include "shm/arena.h"
#include "shm/copy.h"
#include "shm/extents.h"

enum { WORDS_MAX = 1024 };
#define ARENA_ADDRESS_SPACE (UINT64_C(1) << 40) /* sparse: costs nothing until it is touched */
#define ARENA_AT_LEAST      (UINT64_C(1) << 24)

enum sleep_kind { AWAKE, WAITS_FOR_ROOM, WAITS_FOR_BYTES };

struct gd__feeder {
    struct gd__feeder_spec spec;
    struct gd__region region;
    struct gd__arena *arena;
    struct gd__extents extents; /* of region; the feeder's */
    struct gd__intake_entry *entries;
    uint64_t mask;
    pthread_t thread;
    bool started;
    _Atomic uint32_t refs;
    struct gd__completed completed; /* the journal's side of it */

    alignas(GD__LINE) _Atomic uint64_t tail; /* the feeder's */
    uint64_t taken, bytes_taken, seen_allowed;
    struct gd__journal_task *asked; /* what the journal made of the item in hand, if it was asked already */
    uint32_t rung;                  /* the monitor's sleep that was last rung for */
    _Atomic uint32_t sleeping;      /* enum sleep_kind */
    _Atomic uint32_t ended;
    int result;
    char words[WORDS_MAX];

    alignas(GD__LINE) _Atomic uint64_t allowed; /* the monitor's */
    _Atomic uint64_t bytes_freed;
    _Atomic uint32_t kick; /* the futex */
    _Atomic uint32_t stop;
    uint64_t head, seen_tail, freed, freed_told, told;
};

/* --- waiting --- */

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static bool stopped(const struct gd__feeder *f)
{
    return atomic_load_explicit(&f->stop, memory_order_acquire) != 0;
}

static bool may_take_one(struct gd__feeder *f, uint64_t bytes)
{
    (void)bytes;
    if (f->taken >= f->seen_allowed)
        f->seen_allowed = atomic_load_explicit(&f->allowed, memory_order_acquire);
    return f->taken < f->seen_allowed;
}

/* One payload larger than the limit passes when it is alone. */
static bool has_bytes(struct gd__feeder *f, uint64_t bytes)
{
    const uint64_t out = f->bytes_taken - atomic_load_explicit(&f->bytes_freed, memory_order_acquire);
    return out == 0 || (bytes <= f->spec.queue_bytes && out <= f->spec.queue_bytes - bytes);
}

static bool has_freed(struct gd__feeder *f, uint64_t before)
{
    return atomic_load_explicit(&f->bytes_freed, memory_order_acquire) != before;
}

/* Waits until the condition holds. False: stopped. */
static bool wait_for(struct gd__feeder *f, bool (*holds)(struct gd__feeder *, uint64_t), uint64_t bytes,
                     enum sleep_kind kind)
{
    while (!stopped(f)) {
        if (holds(f, bytes))
            return true;
        const uint32_t seen = atomic_load_explicit(&f->kick, memory_order_acquire);
        atomic_store_explicit(&f->sleeping, kind, memory_order_seq_cst); /* pairs with wake_feeder's fence */
        gd__full_fence();
        if (!stopped(f) && !holds(f, bytes))
            futex_wait(&f->kick, seen);
        atomic_store_explicit(&f->sleeping, AWAKE, memory_order_relaxed);
    }
    return false;
}

static void wake_feeder(struct gd__feeder *f)
{
    atomic_fetch_add_explicit(&f->kick, 1, memory_order_release);
    futex_wake(&f->kick);
}

static void wake_monitor(struct gd__feeder *f)
{
    gd__full_fence(); /* pairs with the monitor's before it sleeps */
    const uint32_t sleep = atomic_load_explicit(&gd__feeder_arena_header(f)->sleeping, memory_order_relaxed);
    if (sleep == 0 || sleep == f->rung)
        return;
    f->rung = sleep;
    const uint64_t one = 1;
    while (write(f->spec.wake_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

/* --- items --- */

/* The library's part of an item: reserved[0] the feeder, [1] where gd_item_alloc() put it, [2] how large. */
struct item_memory {
    uint64_t offset, size;
};

static struct item_memory item_memory(const struct gd_item *item)
{
    return (struct item_memory){ (uint64_t)(uintptr_t)item->reserved[1], (uint64_t)(uintptr_t)item->reserved[2] };
}

static void drop_item_memory(struct gd__feeder *f, struct gd_item *item)
{
    const struct item_memory m = item_memory(item);
    if (m.offset == 0)
        return;
    gd__arena_free(f->arena, m.offset, m.size);
    f->bytes_taken -= m.size;
    item->reserved[1] = item->reserved[2] = NULL;
}

/* Room for a payload as soon as the byte limit and the arena allow it; 0 with the thread's error text if it can't be
 * had. Nothing is waited for once we are stopped. */
static uint64_t take_room(struct gd__feeder *f, uint64_t size)
{
    for (;;) {
        (void)wait_for(f, has_bytes, size, WAITS_FOR_BYTES);
        const uint64_t freed = atomic_load_explicit(&f->bytes_freed, memory_order_acquire);
        const uint64_t offset = gd__arena_alloc(f->arena, size);
        if (offset > 0) {
            f->bytes_taken += size;
            return offset;
        }
        /* In an arena that is smaller than the byte limit (RLIMIT_AS, RLIMIT_FSIZE) or in pieces more will come free,
         * as long as anything is out. */
        if (f->bytes_taken == freed || !wait_for(f, has_freed, freed, WAITS_FOR_BYTES))
            return 0;
    }
}

static void *place_item(struct gd__feeder *f, struct gd_item *item, uint64_t offset, size_t size)
{
    item->reserved[1] = (void *)(uintptr_t)offset;
    item->reserved[2] = (void *)(uintptr_t)(size > 0 ? size : 1);
    item->size = size;
    item->data = (char *)f->region.base + offset;
    return (char *)f->region.base + offset;
}

void *gd__item_try_alloc(struct gd_item *item, size_t size)
{
    struct gd__feeder *f = item->reserved[0];
    const uint64_t wanted = size > 0 ? size : 1;
    drop_item_memory(f, item);
    const uint64_t offset = !stopped(f) && has_bytes(f, wanted) ? gd__arena_alloc(f->arena, wanted) : 0;
    if (offset == 0)
        return NULL;
    f->bytes_taken += wanted;
    return place_item(f, item, offset, size);
}

/* Whose item it is. NULL, with an error: one that no source was given. */
static struct gd__feeder *feeder_of(const struct gd_item *item, const char *function)
{
    struct gd__feeder *f = item ? item->reserved[0] : NULL;
    if (!f)
        gd__error(GD_E_INVALID, "%s: this is not the item that the source was called with", function);
    return f;
}

void *gd_item_alloc(struct gd_item *item, size_t size)
{
    struct gd__feeder *f = feeder_of(item, "gd_item_alloc");
    const uint64_t wanted = size > 0 ? size : 1;
    if (!f)
        return NULL;
    drop_item_memory(f, item);
    if (!wait_for(f, has_bytes, wanted, WAITS_FOR_BYTES)) {
        gd__error(GD_E_SHUTDOWN, "the run is shutting down");
        return NULL;
    }
    const uint64_t offset = take_room(f, wanted);
    return offset > 0 ? place_item(f, item, offset, size) : NULL;
}

bool gd__item_would_fill(const struct gd_item *item)
{
    const struct gd__feeder *f = item->reserved[0];
    const struct item_memory m = item_memory(item);
    return m.offset > 0 && gd__extents_would_fill(&f->extents, m.offset, m.size);
}

void gd__item_fill(struct gd_item *item)
{
    struct gd__feeder *f = item->reserved[0];
    const struct item_memory m = item_memory(item);
    if (m.offset > 0)
        gd__extents_fill(&f->extents, m.offset, m.size);
}

int gd_item_error(struct gd_item *item, const char *format, ...)
{
    struct gd__feeder *f = feeder_of(item, "gd_item_error");
    va_list args;
    if (!f)
        return GD_E_INVALID;
    va_start(args, format);
    vsnprintf(f->words, sizeof f->words, format ? format : "(no error message)", args);
    va_end(args);
    return GD_E_SOURCE;
}

/* Where the payload is. 0, or a negative code. */
static int find_payload(struct gd__feeder *f, const struct gd_item *item, const void **data)
{
    const struct item_memory m = item_memory(item);
    *data = m.offset > 0 ? (char *)f->region.base + m.offset : item->data;
    if (m.offset > 0 && item->size > m.size)
        return gd__error(GD_E_INVALID, "the source returned %zu bytes, but had allocated %llu", item->size,
                         (unsigned long long)m.size);
    if (!*data && item->size > 0)
        return gd__error(GD_E_INVALID, "the source returned %zu bytes, but data is NULL", item->size);
    return 0;
}

/* Puts the payload where a worker can see it. 0, or a negative code. A task that comes after a stop is not dropped: it
 * will be reported as cancelled, if need be without its payload. */
static int store_payload(struct gd__feeder *f, struct gd_item *item, const void *data, struct gd__payload *out)
{
    const struct item_memory m = item_memory(item);
    out->size = item->size;
    if (item->size <= GD__INLINE_MAX) {
        if (item->size > 0)
            memcpy(out->bytes, data, item->size);
        drop_item_memory(f, item);
        return 0;
    }
    if (m.offset > 0) {
        out->offset = m.offset;
        out->allocated = m.size;
        return 0;
    }
    const uint64_t offset = take_room(f, item->size);
    if (offset == 0) {
        out->size = 0;
        return stopped(f) ? 0 : GD_E_TOO_LARGE;
    }
    gd__extents_fill(&f->extents, offset, item->size);
    gd__copy_out((char *)f->region.base + offset, data, item->size);
    out->offset = offset;
    out->allocated = item->size;
    return 0;
}

int gd_item_key(struct gd_item *item, const void *key, size_t key_size, const char *version)
{
    struct gd__feeder *f = feeder_of(item, "gd_item_key");
    if (!f)
        return GD_E_INVALID;
    if (!f->completed.keeps)
        return 0;
    if (!key && key_size > 0)
        return gd_item_error(item, "gd_item_key: the size is %zu, but the key is NULL", key_size);
    return gd__completed_key(&f->completed, key, key_size, version) < 0 ? gd_item_error(item, "%s", gd_error_text())
                                                                        : 0;
}

int gd__item_ask(struct gd_item *item, uint64_t *number)
{
    struct gd__feeder *f = item->reserved[0];
    const void *data = NULL;
    *number = f->asked ? f->asked->number : f->completed.keeps ? f->completed.given : f->taken;
    if (!f->completed.keeps || f->asked || (!f->completed.has_key && find_payload(f, item, &data) < 0))
        return 1;
    if (gd__completed_ask(&f->completed, data, item->size, &f->asked) != 0)
        return 1; /* what went wrong is said when it is given */
    drop_item_memory(f, item);
    *item = (struct gd_item){ .reserved = { f } };
    return 0;
}

bool gd__item_ask_reads(struct gd_item *item)
{
    struct gd__feeder *f = item->reserved[0];
    const void *data = NULL;
    if (!f->completed.keeps || f->asked || (!f->completed.has_key && find_payload(f, item, &data) < 0))
        return false;
    return gd__completed_ask_reads(&f->completed, data, item->size);
}

/* --- the thread --- */

static void append_to_intake(struct gd__feeder *f, const struct gd__payload *p, uint64_t weight,
                             struct gd__journal_task *t)
{
    const uint64_t tail = atomic_load_explicit(&f->tail, memory_order_relaxed);
    struct gd__intake_entry *e = &f->entries[tail & f->mask];
    gd__will_write(&f->entries[(tail + 2 * GD__AHEAD) & f->mask]);
    memcpy(e->payload, p, sizeof e->payload);
    if (t)
        t->weight = weight;
    e->word = f->completed.keeps ? (uint64_t)(uintptr_t)t : weight;
    atomic_store_explicit(&f->tail, tail + 1, memory_order_release);
    f->taken++;
}

/* 0, or negative with the thread's error text. */
static int take_item(struct gd__feeder *f, struct gd_item *item)
{
    struct gd__payload p = { 0 }; /* all of it goes to the worker */
    struct gd__journal_task *t = f->asked;
    const void *data;
    const uint64_t weight = item->weight > 0 ? item->weight : item->size;
    int rc = find_payload(f, item, &data);
    if (rc < 0)
        return rc;
    f->asked = NULL;
    if (f->completed.keeps && !t) {
        rc = gd__completed_ask(&f->completed, data, item->size, &t);
        if (rc == 0)
            drop_item_memory(f, item);
        if (rc <= 0)
            return rc;
    }
    rc = store_payload(f, item, data, &p);
    if (rc < 0) {
        gd__free(t);
        return rc;
    }
    append_to_intake(f, &p, weight, t);
    wake_monitor(f);
    return 0;
}

bool gd__item_give(struct gd_item *item)
{
    struct gd__feeder *f = item->reserved[0];
    /* Its turn to wait for bytes, or to fail, comes when the source has returned. */
    if (item->size > GD__INLINE_MAX && item_memory(item).offset == 0)
        return false;
    if (f->taken + 1 >= f->seen_allowed)
        f->seen_allowed = atomic_load_explicit(&f->allowed, memory_order_acquire);
    if (f->taken + 1 >= f->seen_allowed || stopped(f) ||
        (f->completed.keeps && !gd__completed_has_room(&f->completed)) || take_item(f, item) < 0)
        return false;
    *item = (struct gd_item){ .reserved = { f } };
    return true;
}

bool gd__item_stopped(const struct gd_item *item)
{
    return stopped(item->reserved[0]);
}

/* One item: 1, 0 at the end, negative when the source or we failed. */
static int take_one(struct gd__feeder *f)
{
    struct gd_item item = { .reserved = { f } };
    f->words[0] = '\0';
    gd__completed_next(&f->completed);
    int rc = f->spec.source(f->spec.user, &item);
    if (rc > 0) {
        rc = take_item(f, &item);
        if (rc == 0)
            return 1;
        snprintf(f->words, sizeof f->words, "%s", gd_error_text());
    }
    gd__free(f->asked);
    f->asked = NULL;
    drop_item_memory(f, &item);
    return rc;
}

static void feeder_release_ref(struct gd__feeder *f);

static void say_ended(struct gd__feeder *f)
{
    if (f->spec.source_release)
        f->spec.source_release(f->spec.user);
    atomic_store_explicit(&f->ended, 1, memory_order_release);
    wake_monitor(f);
    feeder_release_ref(f);
}

/* User code ended the thread, and take_one() never got to its end: without this the run would wait for ever. */
static void source_left(void *arg)
{
    struct gd__feeder *f = arg;
    snprintf(f->words, sizeof f->words,
             "it ended the thread that called it (pthread_exit() or pthread_cancel()): it must return instead");
    gd__free(f->asked);
    f->asked = NULL;
    f->result = GD_E_SOURCE;
    say_ended(f);
}

static int take_all(struct gd__feeder *f)
{
    int rc = 1;
    while (rc > 0 && wait_for(f, may_take_one, 0, WAITS_FOR_ROOM)) {
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
    say_ended(f);
    return NULL;
}

/* --- opening and closing --- */

/* Contexts of tasks that were given when nobody was there any more. */
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
    if (f->spec.wake_fd >= 0)
        close(f->spec.wake_fd);
    free(f);
}

static void feeder_release_ref(struct gd__feeder *f)
{
    if (atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) == 1)
        feeder_free(f);
}

static struct gd__feeder *feeder_alloc(struct gd_journal *journal)
{
    struct gd__feeder *f = GD__FAULT("alloc") ? NULL : aligned_alloc(GD__LINE, sizeof *f);
    if (!f)
        return NULL;
    memset(f, 0, sizeof *f);
    f->region.fd = -1;
    f->spec.wake_fd = -1;
    f->refs = 1;
    gd__completed_open(&f->completed, journal);
    return f;
}

int gd__feeder_open(struct gd__feeder **out, const struct gd__feeder_spec *spec)
{
    uint64_t capacity = 1;
    while (capacity < spec->max_tasks)
        capacity *= 2;
    struct gd__feeder *f = feeder_alloc(spec->journal);
    if (!f)
        return gd__error(GD_E_NO_MEMORY, "no memory for the feeder");
    f->spec = *spec;
    f->mask = capacity - 1;
    f->spec.wake_fd = GD__FAULT("dup") ? -1 : fcntl(spec->wake_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    f->entries = gd__calloc(capacity, sizeof *f->entries);
    int rc = f->spec.wake_fd < 0 ? gd__error_errno("cannot duplicate an eventfd") : 0;
    if (rc == 0 && !f->entries)
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
    gd__full_fence(); /* pairs with wait_for's */
    const uint32_t sleeping = atomic_load_explicit(&f->sleeping, memory_order_relaxed);
    if (sleeping == AWAKE)
        return;
    const uint64_t room = allowed - atomic_load_explicit(&f->tail, memory_order_relaxed);
    if (sleeping == WAITS_FOR_ROOM && room < f->spec.wake_room)
        return;
    if (sleeping == WAITS_FOR_BYTES && f->freed == f->freed_told)
        return;
    f->freed_told = f->freed;
    wake_feeder(f);
}

void gd__feeder_nudge(struct gd__feeder *f)
{
    const bool room = f->told != atomic_load_explicit(&f->tail, memory_order_relaxed);
    if (room && atomic_load_explicit(&f->sleeping, memory_order_relaxed) == WAITS_FOR_ROOM)
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

int gd__feeder_result(const struct gd__feeder *f, const char **words)
{
    *words = f->words[0] ? f->words : "no error message was set (see gd_item_error())";
    return f->started ? f->result : 0;
}
