/* Items, which a source fills and the feeder takes. This file allocates payloads, sets keys, looks items up in the
 * journal and adds them to the queue. Everything here runs on the feeder's thread. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "binding.h"
#include "dispatch/source/feeder_state.h"
#include "shm/copy.h"

/* --- room for payloads --- */

/* A payload that is larger than the limit is accepted if it is the only one. */
static bool has_bytes(struct gd__feeder *f, uint64_t bytes)
{
    const uint64_t out = f->bytes_taken - atomic_load_explicit(&f->bytes_freed, memory_order_acquire);
    return out == 0 || (bytes <= f->spec.queue_bytes && out <= f->spec.queue_bytes - bytes);
}

static bool has_freed(struct gd__feeder *f, uint64_t before)
{
    return atomic_load_explicit(&f->bytes_freed, memory_order_acquire) != before;
}

/* --- items --- */

/* The library's part of an item: reserved[0] is the feeder, [1] the offset of the payload that gd_item_alloc()
 * allocated, [2] its size. */
struct item_memory {
    uint64_t offset, size;
};

static struct item_memory item_memory(const struct gd_item *item)
{
    return (struct item_memory){ (uint64_t)(uintptr_t)item->reserved[1], (uint64_t)(uintptr_t)item->reserved[2] };
}

void gd__item_drop_memory(struct gd__feeder *f, struct gd_item *item)
{
    const struct item_memory m = item_memory(item);
    if (m.offset == 0)
        return;
    gd__arena_free(f->arena, m.offset, m.size);
    f->bytes_taken -= m.size;
    item->reserved[1] = item->reserved[2] = NULL;
}

/* Allocates a payload as soon as the byte limit and the arena allow it. On failure returns 0 and sets the error
 * message. Does not wait after the feeder was stopped. */
static uint64_t take_room(struct gd__feeder *f, uint64_t size)
{
    for (;;) {
        (void)gd__feeder_wait_for(f, has_bytes, size, GD__WAITS_FOR_BYTES);
        const uint64_t freed = atomic_load_explicit(&f->bytes_freed, memory_order_acquire);
        const uint64_t offset = gd__arena_alloc(f->arena, size);
        if (offset > 0) {
            f->bytes_taken += size;
            return offset;
        }
        /* The arena may be smaller than the byte limit (RLIMIT_AS, RLIMIT_FSIZE) or fragmented. As long as there are
         * tasks that are not final, memory will be freed. */
        if (f->bytes_taken == freed || !gd__feeder_wait_for(f, has_freed, freed, GD__WAITS_FOR_BYTES))
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
    gd__item_drop_memory(f, item);
    const uint64_t offset = !gd__feeder_stopped(f) && has_bytes(f, wanted) ? gd__arena_alloc(f->arena, wanted) : 0;
    if (offset == 0)
        return NULL;
    f->bytes_taken += wanted;
    return place_item(f, item, offset, size);
}

/* Returns the feeder that an item belongs to. If the item was not passed to a source, sets an error and returns
 * NULL. */
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
    gd__item_drop_memory(f, item);
    if (!gd__feeder_wait_for(f, has_bytes, wanted, GD__WAITS_FOR_BYTES)) {
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
    vsnprintf(f->message, sizeof f->message, format ? format : "(no error message)", args);
    va_end(args);
    return GD_E_SOURCE;
}

/* Finds the payload. Returns 0 or a negative code. */
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

/* Stores the payload where a worker can read it. Returns 0 or a negative code. A task that comes after a stop is not
 * dropped. It will be reported as cancelled, without its payload if there is no room. */
static int store_payload(struct gd__feeder *f, struct gd_item *item, const void *data, struct gd__payload *out)
{
    const struct item_memory m = item_memory(item);
    out->size = item->size;
    if (item->size <= GD__INLINE_MAX) {
        if (item->size > 0)
            memcpy(out->bytes, data, item->size);
        gd__item_drop_memory(f, item);
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
        return gd__feeder_stopped(f) ? 0 : GD_E_TOO_LARGE;
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
    if (!gd__completed_needs_keys(&f->completed))
        return 0;
    if (!key && key_size > 0)
        return gd_item_error(item, "gd_item_key: the size is %zu, but the key is NULL", key_size);
    return gd__completed_key(&f->completed, key, key_size, version) < 0 ? gd_item_error(item, "%s", gd_error_text())
                                                                        : 0;
}

/* Reports that the current item is not run, because the journal has its result. */
static void report_skipped(const struct gd__feeder *f, const struct gd_item *item, const void *data)
{
    const struct gd_skipped skipped = { .task_id = f->completed.given - 1,
                                        .input = data,
                                        .input_size = data ? item->size : 0,
                                        .weight = item->weight > 0 ? item->weight : item->size };
    if (f->spec.on_skip)
        f->spec.on_skip(f->spec.user, &skipped);
}

/* Drops the current item, which belongs to another shard. Its position in the list counts. */
static void drop_foreign(struct gd__feeder *f, struct gd_item *item)
{
    gd__item_drop_memory(f, item);
    gd__completed_count(&f->completed);
    atomic_fetch_add_explicit(&f->dropped, 1, memory_order_relaxed);
}

void gd__item_dealt(struct gd_item *item)
{
    struct gd__feeder *f = item->reserved[0];
    gd__completed_ours(&f->completed);
}

void gd__item_drop(struct gd_item *item)
{
    struct gd__feeder *f = item->reserved[0];
    drop_foreign(f, item);
    *item = (struct gd_item){ .reserved = { f } };
}

int gd__item_ask(struct gd_item *item, uint64_t *number)
{
    struct gd__feeder *f = item->reserved[0];
    const void *data = NULL;
    *number = f->asked ? f->asked->number : f->completed.given;
    if (!gd__completed_needs_keys(&f->completed) || f->asked ||
        (!f->completed.has_key && find_payload(f, item, &data) < 0))
        return 1;
    if (gd__completed_is_foreign(&f->completed, data, item->size)) {
        /* After a stop the source must return, whatever it asks about. gd__item_take() drops the item then. */
        if (gd__feeder_stopped(f))
            return 1;
        gd__item_drop(item);
        return 0;
    }
    if (!f->completed.keeps)
        return 1;
    if (gd__completed_ask(&f->completed, data, item->size, &f->asked) != 0)
        return 1; /* the error is reported when the item is taken */
    report_skipped(f, item, data);
    gd__item_drop_memory(f, item);
    *item = (struct gd_item){ .reserved = { f } };
    return 0;
}

bool gd__item_ask_reads(struct gd_item *item)
{
    struct gd__feeder *f = item->reserved[0];
    const void *data = NULL;
    if (!f->completed.keeps || f->asked || (!f->completed.has_key && find_payload(f, item, &data) < 0))
        return false;
    if (gd__completed_is_foreign(&f->completed, data, item->size))
        return false;
    return gd__completed_ask_reads(&f->completed, data, item->size);
}

void gd__item_context(struct gd_item *item, struct gd__journal_task *t)
{
    struct gd__feeder *f = item->reserved[0];
    t->number = f->completed.given;
    f->asked = t;
    gd__completed_count(&f->completed);
}

static void append_to_intake(struct gd__feeder *f, const struct gd_item *item, const struct gd__payload *p,
                             struct gd__journal_task *t)
{
    const bool has_number = f->completed.shard.count > 0 && !f->completed.keeps;
    const uint64_t weight = item->weight > 0 ? item->weight : item->size;
    const uint64_t tail = atomic_load_explicit(&f->tail, memory_order_relaxed);
    struct gd__intake_entry *e = &f->entries[tail & f->mask];
    gd__will_write(&f->entries[(tail + 2 * GD__AHEAD) & f->mask]);
    memcpy(e->payload, p, sizeof e->payload);
    if (t)
        t->weight = weight;
    e->word = f->completed.keeps ? (uint64_t)(uintptr_t)t : weight;
    if (item->timeout_ms > 0 || item->priority != 0 || has_number) {
        e->payload[0] |= GD__INTAKE_HAS_TERMS;
        f->terms[tail & f->mask] = (struct gd__intake_terms){ item->timeout_ms, item->priority, f->completed.given };
    }
    if (!f->completed.keeps) /* otherwise gd__completed_ask() has counted the item */
        gd__completed_count(&f->completed);
    if (item->priority != 0)
        atomic_store_explicit(&f->has_priorities, 1, memory_order_relaxed); /* the store of tail publishes it */
    atomic_store_explicit(&f->tail, tail + 1, memory_order_release);
    f->taken++;
}

int gd__item_take(struct gd__feeder *f, struct gd_item *item)
{
    struct gd__payload p = { 0 }; /* zeroed, because every byte goes to the worker */
    struct gd__journal_task *t = f->asked;
    const void *data;
    if (item->priority < GD_PRIORITY_MIN || item->priority > GD_PRIORITY_MAX)
        return gd__error(GD_E_INVALID, "gd_item.priority is %d: the range is %d to %d", item->priority, GD_PRIORITY_MIN,
                         GD_PRIORITY_MAX);
    int rc = find_payload(f, item, &data);
    if (rc < 0)
        return rc;
    f->asked = NULL;
    if (!t && gd__completed_is_foreign(&f->completed, data, item->size)) {
        drop_foreign(f, item);
        return 0;
    }
    if (f->completed.keeps && !t) {
        rc = gd__completed_ask(&f->completed, data, item->size, &t);
        if (rc == 0) {
            report_skipped(f, item, data);
            gd__item_drop_memory(f, item);
        }
        if (rc <= 0)
            return rc;
    }
    rc = store_payload(f, item, data, &p);
    if (rc < 0) {
        gd__free(t);
        return rc;
    }
    append_to_intake(f, item, &p, t);
    gd__feeder_wake_monitor(f);
    return 0;
}

bool gd__item_give(struct gd_item *item)
{
    struct gd__feeder *f = item->reserved[0];
    /* gd__item_take() would wait for room or fail. The feeder takes this item after the source has returned. */
    if (item->size > GD__INLINE_MAX && item_memory(item).offset == 0)
        return false;
    if (f->taken + 1 >= f->seen_allowed)
        f->seen_allowed = atomic_load_explicit(&f->allowed, memory_order_acquire);
    if (f->taken + 1 >= f->seen_allowed || gd__feeder_stopped(f) ||
        (f->completed.keeps && !gd__completed_has_room(&f->completed)) || gd__item_take(f, item) < 0)
        return false;
    *item = (struct gd_item){ .reserved = { f } };
    return true;
}

bool gd__item_stopped(const struct gd_item *item)
{
    return gd__feeder_stopped(item->reserved[0]);
}
