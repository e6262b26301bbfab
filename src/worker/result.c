/* The functions that user code calls on a result and on its worker, and how a result becomes a record.
 *
 * A result of up to GD__INLINE_MAX bytes is kept in struct gd_result and is copied into the record. The user's code
 * writes a larger result directly into the result region, and the record refers to it. The error message of a failure
 * stays in private memory until the record is written, so that no shared memory has to be reserved for failures.
 *
 * When the result region is full, the main thread waits for the dispatcher to release some of it. An I/O thread does
 * not wait, because the process has only one bell, which the main thread uses. So its allocation fails. In flight mode
 * every other thread may wait: see flight/room.c.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "shm/bytes.h"
#include "shm/copy.h"
#include "worker/host.h"

/* The position that an I/O thread is loading; GD__NO_POSITION on other threads. */
static _Thread_local uint64_t loading_position = GD__NO_POSITION;
static _Thread_local bool is_io_thread;

void gd__thread_is_loading(uint64_t position)
{
    is_io_thread = true;
    loading_position = position;
}

bool gd__thread_is_io(void)
{
    return is_io_thread;
}

uint64_t gd__thread_loads(void)
{
    return loading_position;
}

/* ---- the worker ---- */

int gd_worker_id(const struct gd_worker *w)
{
    return w ? w->port.config.worker_id : gd__error(GD_E_INVALID, "gd_worker_id: the worker is NULL");
}

int gd_worker_gpu_id(const struct gd_worker *w)
{
    return w ? w->port.config.gpu_id : gd__error(GD_E_INVALID, "gd_worker_gpu_id: the worker is NULL");
}

const int *gd_worker_gpu_ids(const struct gd_worker *w, size_t *n)
{
    if (!w || !n) {
        gd__error(GD_E_INVALID, "gd_worker_gpu_ids: the worker or n is NULL");
        return NULL;
    }
    *n = w->port.config.n_gpus;
    return w->port.config.gpu_ids;
}

void gd_worker_set_user(struct gd_worker *w, void *user)
{
    if (w)
        w->user = user;
}

void *gd_worker_user(const struct gd_worker *w)
{
    return w ? w->user : NULL;
}

void gd_worker_arena(const struct gd_worker *w, const void **base, size_t *size)
{
    if (base)
        *base = w ? w->port.arena.base : NULL;
    if (size)
        *size = w ? w->port.config.arena_hot_size : 0;
}

bool gd_task_cancelled(const struct gd_worker *w)
{
    uint64_t position = loading_position;
    if (!w)
        return false;
    if (position == GD__NO_POSITION)
        position = atomic_load_explicit(&w->current, memory_order_relaxed);
    return gd__host_cancel_below(w) > position; /* never more than GD__NO_POSITION */
}

int gd_worker_set_concurrency(struct gd_worker *w, unsigned n)
{
    if (!w || n == 0)
        return gd__error(GD_E_INVALID, "gd_worker_set_concurrency: %s",
                         w ? "n is 0: pass at least 1" : "the worker is NULL");
    if (!w->in_setup || !w->ops.begin)
        return gd__error(GD_E_INVALID, "gd_worker_set_concurrency: %s",
                         w->ops.begin ? "call it in setup" : "the worker has no begin(), so it has one task at a time");
    w->announced = n;
    return (int)gd__host_concurrency(w);
}

/* ---- room in the result region ---- */

static bool is_shared(const struct gd_worker *w)
{
    return w->loader || gd__flight_of(w);
}

static void lock_bytes(struct gd_worker *w)
{
    if (is_shared(w))
        pthread_mutex_lock(&w->bytes_lock);
}

static void unlock_bytes(struct gd_worker *w)
{
    if (is_shared(w))
        pthread_mutex_unlock(&w->bytes_lock);
}

static void drop_room(struct gd_result *r)
{
    struct gd_worker *w = r->worker;
    if (gd__flight_of(w)) {
        gd__flight_drop_room(r);
    } else {
        lock_bytes(w);
        gd__bytes_drop(w->port.bytes, r->offset);
        unlock_bytes(w);
    }
    r->offset = 0;
}

/* Returns the offset of size bytes. On failure returns 0 and sets the error message. */
static uint64_t take_room(struct gd_result *r, uint64_t size)
{
    struct gd_worker *w = r->worker;
    struct gd__port *p = &w->port;
    if (gd__flight_of(w))
        return gd__flight_take_room(r, size);
    uint64_t all = p->config.result_region_size - p->config.data_offset;
    uint64_t released = atomic_load_explicit(&p->in->released, memory_order_acquire);
    for (;;) {
        lock_bytes(w);
        gd__bytes_release(p->bytes, released);
        uint64_t offset = gd__bytes_alloc(p->bytes, size);
        unlock_bytes(w);
        if (offset || size > all || is_io_thread || released >= p->result_tail)
            return offset;
        gd__before_wait();
        released = gd__port_wait_released(p, released);
        gd__after_wait();
    }
}

/* ---- the result ---- */

void gd__result_init(struct gd_result *r, struct gd_worker *w)
{
    memset(r, 0, sizeof *r);
    r->worker = w;
    r->kind = GD__R_SUCCESS;
}

void gd__result_reset(struct gd_result *r)
{
    gd__host_check_fork(r->worker); /* a forked process would write into our result */
    if (r->offset)
        drop_room(r);
    if (r->message) {
        gd__free(r->message);
        r->message = NULL;
    }
    r->size = 0;
    r->kind = GD__R_SUCCESS;
}

void *gd_result_alloc(struct gd_result *r, size_t size)
{
    if (!r) {
        gd__error(GD_E_INVALID, "gd_result_alloc: the result is NULL");
        return NULL;
    }
    gd__result_reset(r);
    if (size > GD__INLINE_MAX) {
        r->offset = take_room(r, size);
        if (!r->offset)
            return NULL;
    }
    r->size = size;
    return r->offset ? (char *)r->worker->port.results.base + r->offset : (char *)r->bytes;
}

void gd__result_fill(struct gd_result *r)
{
    struct gd_worker *w = r->worker;
    if (!gd__result_would_fill(r))
        return;
    lock_bytes(w);
    gd__extents_fill(&w->port.extents, r->offset, r->size);
    unlock_bytes(w);
}

bool gd__result_would_fill(const struct gd_result *r)
{
    return r->offset > 0 && r->size >= GD__FILL_LEAST;
}

bool gd__result_is_success(const struct gd_result *r)
{
    return r->kind == GD__R_SUCCESS;
}

int gd_result_truncate(struct gd_result *r, size_t size)
{
    if (!r)
        return gd__error(GD_E_INVALID, "gd_result_truncate: the result is NULL");
    if (r->kind != GD__R_SUCCESS || size > r->size)
        return gd__error(GD_E_INVALID, "gd_result_truncate: a result of %zu bytes cannot be lengthened to %zu",
                         r->kind == GD__R_SUCCESS ? (size_t)r->size : 0, size);
    r->size = size;
    return 0;
}

int gd_result_set(struct gd_result *r, const void *data, size_t size)
{
    if (!r || (size > 0 && !data))
        return gd__error(GD_E_INVALID, "gd_result_set: the %s is NULL", r ? "data" : "result");
    void *room = gd_result_alloc(r, size);
    if (!room)
        return size > r->worker->port.config.result_region_size - r->worker->port.config.data_offset ? GD_E_TOO_LARGE
                                                                                                     : GD_E_NO_MEMORY;
    gd__result_fill(r);
    if (size)
        gd__copy_out(room, data, size);
    return 0;
}

/* ---- failures ---- */

size_t gd__message_fit(const char *text, size_t length)
{
    size_t lead = length; /* the position after the last byte that begins a character */
    while (lead > 0 && length - lead < 3 && ((unsigned char)text[lead - 1] & 0xc0) == 0x80)
        lead--;
    if (lead == 0)
        return length;
    unsigned char first = (unsigned char)text[lead - 1];
    size_t needs = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
    return length - (lead - 1) < needs ? lead - 1 : length;
}

/* Allocates room for an error message that does not fit into r itself. If there is no memory, the message is cut. */
static char *alloc_message(struct gd_result *r, size_t length)
{
    if (length > GD__INLINE_MAX)
        r->message = gd__calloc(1, length + 1);
    return r->message;
}

/* The format of the error message, or a default if user code passed NULL. */
__attribute__((format_arg(1))) static const char *or_nothing(const char *format)
{
    return format ? format : "(no error message)";
}

__attribute__((format(printf, 3, 0))) static int fail_v(struct gd_result *r, enum gd__record_kind kind,
                                                        const char *format, va_list args)
{
    va_list again;
    char small[GD__INLINE_MAX + 1] = "";
    if (!r)
        return gd__error(GD_E_INVALID, "the result is NULL: pass the one that process() was called with");
    gd__result_reset(r);
    va_copy(again, args);
    int whole = vsnprintf(small, sizeof small, or_nothing(format), again);
    va_end(again);
    size_t length = whole < 0 ? 0 : (size_t)whole < GD__MESSAGE_MAX ? (size_t)whole : GD__MESSAGE_MAX;
    if (alloc_message(r, length)) {
        vsnprintf(r->message, length + 1, or_nothing(format), args);
        r->size = gd__message_fit(r->message, length);
    } else {
        r->size = gd__message_fit(small, length < GD__INLINE_MAX ? length : GD__INLINE_MAX);
        memcpy(r->bytes, small, r->size);
    }
    r->kind = kind;
    return kind == GD__R_OUT_OF_MEMORY ? GD_E_NO_MEMORY : GD_E_FAILED;
}

int gd__result_fail(struct gd_result *r, enum gd__record_kind kind, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int code = fail_v(r, kind, format, args);
    va_end(args);
    return code;
}

/* The public failure functions differ only in their kind. */
#define FAILURE(name, object, result, kind)              \
    int name(object, const char *format, ...)            \
    {                                                    \
        va_list args;                                    \
        va_start(args, format);                          \
        int code = fail_v((result), kind, format, args); \
        va_end(args);                                    \
        return code;                                     \
    }
FAILURE(gd_result_error, struct gd_result *r, r, GD__R_ERROR)
FAILURE(gd_result_error_final, struct gd_result *r, r, GD__R_ERROR_FINAL)
FAILURE(gd_result_out_of_memory, struct gd_result *r, r, GD__R_OUT_OF_MEMORY)
FAILURE(gd_result_device_lost, struct gd_result *r, r, GD__R_DEVICE_LOST)
FAILURE(gd_worker_error, struct gd_worker *w, w ? &w->own : NULL, GD__R_ERROR)
#undef FAILURE

void *gd_result_alloc_failed(struct gd_result *r, size_t size, const char *format, ...)
{
    va_list args, again;
    if (!r) {
        gd__error(GD_E_INVALID, "gd_result_alloc_failed: the result is NULL");
        return NULL;
    }
    va_start(args, format);
    va_copy(again, args);
    const int whole = vsnprintf(NULL, 0, or_nothing(format), again);
    va_end(again);
    uint32_t message_size = whole < 0 ? 0 : (size_t)whole < GD__MESSAGE_MAX ? (uint32_t)whole : GD__MESSAGE_MAX;
    const size_t most = SIZE_MAX - message_size - 1 - sizeof message_size;
    char *room = size <= most ? gd_result_alloc(r, size + message_size + 1 + sizeof message_size) : NULL;
    if (room) {
        vsnprintf(room + size, (size_t)message_size + 1, or_nothing(format), args);
        message_size = (uint32_t)gd__message_fit(room + size, message_size);
        memcpy(room + size + message_size, &message_size, sizeof message_size);
        r->size = size + message_size + sizeof message_size;
        r->kind = GD__R_ERROR_DATA;
    } else {
        fail_v(r, GD__R_ERROR, format, args); /* without room for the data, report at least the error message */
    }
    va_end(args);
    return room;
}

int gd_result_cancelled(struct gd_result *r)
{
    return gd__result_fail(r, GD__R_CANCELLED, "%s", "");
}

static bool is_our_code(int code)
{
    return code < 0 && strcmp(gd_error_name(code), "GD_E_UNKNOWN") != 0;
}

void gd__message_forget(void)
{
    gd__error(GD_OK, "%s", "");
}

void gd__result_settle(struct gd_result *r, int code, const char *who)
{
    if (code == 0 || r->kind != GD__R_SUCCESS)
        return;
    enum gd__record_kind kind = code == GD_E_NO_MEMORY ? GD__R_OUT_OF_MEMORY : GD__R_ERROR;
    bool has_text = strcmp(gd_error_text(), gd_error_description(GD_OK)) != 0;
    if (!is_our_code(code))
        gd__result_fail(r, kind, "%s returned %d", who, code);
    else
        gd__result_fail(r, kind, "%s", has_text ? gd_error_text() : gd_error_description(code));
}

/* ---- records ---- */

/* Moves an error message that does not fit into a slot into the result region. If there is no room, cuts it to fit the
 * slot. */
static void place_message(struct gd_result *r)
{
    struct gd_worker *w = r->worker;
    r->offset = take_room(r, r->size);
    if (r->offset) {
        memcpy((char *)w->port.results.base + r->offset, r->message, r->size);
    } else {
        r->size = gd__message_fit(r->message, GD__INLINE_MAX);
        memcpy(r->bytes, r->message, r->size);
    }
    gd__free(r->message);
    r->message = NULL;
}

/* Moves a large result that was shortened to the size of a slot into the slot. */
static void shrink_to_slot(struct gd_result *r)
{
    memcpy(r->bytes, (const char *)r->worker->port.results.base + r->offset, r->size);
    drop_room(r);
}

void gd__result_place(struct gd_result *r)
{
    if (r->message)
        place_message(r);
    else if (r->offset && r->size <= GD__INLINE_MAX)
        shrink_to_slot(r);
}

static void put_far_bytes(struct gd_worker *w, struct gd__result_slot *slot, struct gd_result *r)
{
    lock_bytes(w);
    gd__bytes_bind(w->port.bytes, r->offset, w->port.result_tail);
    r->owner = 0;
    unlock_bytes(w);
    slot->inline_size = GD__NOT_INLINE;
    slot->offset = r->offset;
    slot->size = r->size;
    r->offset = 0; /* the record owns it now */
}

/* gd__port_result(), with the hooks. */
static inline struct gd__result_slot *next_slot(struct gd__port *p)
{
    if (__builtin_expect(p->result_tail - p->consumed > p->result_mask, 0)) {
        gd__before_wait();
        gd__port_wait_room(p);
        gd__after_wait();
    }
    return gd__port_result(p);
}

static inline void put(struct gd_worker *w, enum gd__record_kind kind, const struct gd__entry *e, struct gd_result *r,
                       uint16_t batch_or_place)
{
    if (r && (r->message || r->offset))
        gd__result_place(r);
    struct gd__result_slot *slot = next_slot(&w->port);
    slot->kind = (uint8_t)kind;
    slot->safe_batch = batch_or_place;
    slot->attempt = e ? e->task.attempt : 0;
    slot->position = e ? e->position : 0;
    slot->start_ns = e ? e->start_ns : 0;
    slot->end_ns = e ? e->end_ns : 0;
    if (e && r) /* the result of a task */
        GD__KILL_POINT("result_half");
    slot->task_id = e ? e->task.id : 0;
    if (r && r->offset) {
        put_far_bytes(w, slot, r);
    } else {
        slot->inline_size = r ? (uint8_t)r->size : 0;
        if (r)
            memcpy(slot->bytes, r->bytes, sizeof slot->bytes);
    }
    gd__port_commit(&w->port);
    if (e && r)
        GD__KILL_POINT("committed");
}

void gd__record_put(struct gd_worker *w, enum gd__record_kind kind, const struct gd__entry *e, struct gd_result *r)
{
    put(w, kind, e, r, (uint16_t)w->safe_batch);
}

void gd__record_put_at(struct gd_worker *w, enum gd__record_kind kind, const struct gd__entry *e, struct gd_result *r,
                       unsigned place)
{
    put(w, kind, e, r, (uint16_t)place);
}
