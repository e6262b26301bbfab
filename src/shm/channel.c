/* The dispatcher's end of the rings to one worker process.
 *
 * Only the dispatcher writes the task region. The worker writes the result region, so nothing in it is trusted. Records
 * are copied and the copy is checked (in channel.h). The check uses private copies of sizes and offsets. Counters are
 * clamped to the values that are possible.
 */
#include "shm/channel.h"

#include <inttypes.h>
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"

enum {
    LEAST_BYTES = 1 << 20 /* the least room for result bytes */
};
#define MOST_SLOTS (UINT64_C(1) << 30)
#define MOST_BYTES (UINT64_C(1) << 56)

static uint64_t whole_pages(uint64_t size)
{
    return (size + GD__PAGE - 1) & ~(uint64_t)(GD__PAGE - 1);
}

static bool is_capacity(uint64_t n)
{
    return n > 0 && n <= MOST_SLOTS && (n & (n - 1)) == 0;
}

static int check_spec(const struct gd__channel_spec *spec)
{
    if (!is_capacity(spec->config.task_capacity) || !is_capacity(spec->config.result_capacity))
        return gd__error(GD_E_INVALID, "a ring's capacity must be a power of two, not %" PRIu64 " and %" PRIu64,
                         spec->config.task_capacity, spec->config.result_capacity);
    if (spec->config.args_size > MOST_BYTES || spec->result_bytes > MOST_BYTES)
        return gd__error(GD_E_TOO_LARGE, "no region can hold %" PRIu64 " bytes of arguments and %" PRIu64 " of results",
                         spec->config.args_size, spec->result_bytes);
    return 0;
}

static uint32_t cancel_places(const struct gd__worker_config *config)
{
    return config->concurrency == 0 || config->concurrency > GD__FLIGHT_MAX ? GD__FLIGHT_MAX : config->concurrency;
}

static uint64_t cancel_offset(const struct gd__worker_config *config)
{
    return whole_pages(GD__PAGE + config->task_capacity * sizeof(struct gd__task_slot));
}

static uint64_t args_offset(const struct gd__worker_config *config)
{
    return cancel_offset(config) + whole_pages(cancel_places(config) * sizeof(uint64_t));
}

static int open_regions(struct gd__channel *c, const struct gd__channel_spec *spec)
{
    const struct gd__worker_config *config = &spec->config;
    uint64_t size = whole_pages(args_offset(config) + config->args_size);
    int code = gd__region_create(&c->tasks, "gpu_dispatch.tasks", size, size, GD__REGION_WE_WRITE);
    if (code < 0)
        return code;

    c->data_offset = whole_pages(GD__PAGE + config->result_capacity * sizeof(struct gd__result_slot));
    uint64_t wanted = whole_pages(spec->result_bytes > LEAST_BYTES ? spec->result_bytes : LEAST_BYTES);
    return gd__region_create(&c->results, "gpu_dispatch.results", c->data_offset + wanted, c->data_offset + LEAST_BYTES,
                             GD__REGION_THEY_WRITE);
}

static int open_bell(int *fd)
{
    *fd = GD__FAULT("eventfd") ? -1 : gd__fd_above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return *fd < 0 ? gd__error_errno("eventfd") : 0;
}

static int open_task_bell(struct gd__channel *c)
{
    int pair[2];
    if (GD__FAULT("socketpair") || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return gd__error_errno("socketpair");
    c->task_bell = gd__fd_above_stdio(pair[0]);
    c->task_bell_theirs = gd__fd_above_stdio(pair[1]);
    return c->task_bell < 0 || c->task_bell_theirs < 0 ? gd__error_errno("cannot copy a descriptor") : 0;
}

static void set_views(struct gd__channel *c, const struct gd__worker_config *config)
{
    char *tasks = c->tasks.base;
    const char *results = c->results.base;
    c->out = (struct gd__task_header *)tasks;
    c->task_slots = (struct gd__task_slot *)(tasks + GD__PAGE);
    c->in = (const struct gd__result_header *)results;
    c->result_slots = (const struct gd__result_slot *)(results + GD__PAGE);
    c->task_capacity = config->task_capacity;
    c->task_mask = config->task_capacity - 1;
    c->result_capacity = config->result_capacity;
    c->result_mask = config->result_capacity - 1;
    c->result_region_size = c->results.size;
    c->cancel_at = (_Atomic uint64_t *)(void *)(tasks + cancel_offset(config));
    c->cancel_places = cancel_places(config);
}

static void write_config(struct gd__channel *c, const struct gd__channel_spec *spec)
{
    struct gd__worker_config *config = &c->out->config;
    *config = spec->config;
    config->magic = GD__TASK_MAGIC;
    config->version = GD__LAYOUT_VERSION;
    config->task_region_size = c->tasks.size;
    config->result_region_size = c->results.size;
    config->data_offset = c->data_offset;
    config->cancel_offset = cancel_offset(config);
    config->cancel_places = cancel_places(config);
    config->args_offset = args_offset(config);
    if (config->args_size)
        memcpy((char *)c->tasks.base + config->args_offset, spec->args, config->args_size);
}

int gd__channel_open(struct gd__channel *c, const struct gd__channel_spec *spec)
{
    *c = (struct gd__channel)GD__CHANNEL_NONE;
    int code;
    if ((code = check_spec(spec)) < 0 || (code = open_regions(c, spec)) < 0 ||
        (code = open_bell(&c->result_bell)) < 0 || (code = open_task_bell(c)) < 0) {
        gd__channel_close(c);
        return gd__error_context(code, "channel to worker %" PRId32, spec->config.worker_id);
    }
    set_views(c, &spec->config);
    write_config(c, spec);
    return 0;
}

void gd__channel_close(struct gd__channel *c)
{
    gd__fd_close(&c->result_bell);
    gd__fd_close(&c->task_bell);
    gd__fd_close(&c->task_bell_theirs);
    gd__region_close(&c->results);
    gd__region_close(&c->tasks);
    c->out = NULL;
    c->in = NULL;
    c->cancel_at = NULL;
    c->task_slots = NULL;
    c->result_slots = NULL;
}

void gd__channel_ring(struct gd__channel *c, uint32_t sleep)
{
    if (sleep != 1 && sleep == c->rung)
        return;
    c->rung = sleep;
    if (atomic_load_explicit(&c->in->bell_kind, memory_order_relaxed) == GD__BELL_SOCKET) {
        /* EAGAIN: it is rung already. After any other error the process has ended or is ending. */
        (void)!send(c->task_bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        return;
    }
    atomic_fetch_add_explicit(&c->out->bell, 1, memory_order_release);
    syscall(SYS_futex, &c->out->bell, FUTEX_WAKE, 1, NULL, NULL, 0); /* never blocks, whatever the worker does */
}

uint64_t gd__channel_take_back(struct gd__channel *c, uint64_t keep)
{
    if (keep < c->published) {
        atomic_store_explicit(&c->out->limit, keep, memory_order_release);
        gd__full_fence(); /* pairs with the fence in gd__port_claim(): the worker sees our limit, or we see its claim */
        uint64_t claimed = atomic_load_explicit(&c->in->claimed, memory_order_acquire);
        if (claimed > c->published)
            claimed = c->published;
        if (claimed > keep) {
            /* The worker may have seen the lower limit, withdrawn its claim and gone to sleep. Wake it, so that it
             * checks again. */
            keep = claimed;
            atomic_store_explicit(&c->out->limit, keep, memory_order_release);
            gd__channel_wake(c);
        }
        c->published = keep;
    }
    if (keep < c->task_tail)
        c->task_tail = keep;
    return c->task_tail;
}

void gd__channel_bad_tail(const struct gd__channel *c, uint64_t tail)
{
    gd__error(GD_E_PROTOCOL, "the result ring's tail is %" PRIu64 ", with %" PRIu64 " read and room for %" PRIu64, tail,
              c->result_head, c->result_capacity);
}

int gd__channel_far_bytes(const struct gd__channel *c, const struct gd__result_slot *record, const void **bytes,
                          uint64_t *size)
{
    if (record->kind == 0 || record->kind >= GD__R_KINDS)
        return gd__error(GD_E_PROTOCOL, "result record %" PRIu64 " has the unknown kind %u", c->result_head,
                         record->kind);
    if (record->inline_size != GD__NOT_INLINE)
        return gd__error(GD_E_PROTOCOL, "result record %" PRIu64 " claims %u bytes in its slot, which is too many",
                         c->result_head, record->inline_size);
    if (record->offset < c->data_offset || record->offset > c->result_region_size ||
        record->size > c->result_region_size - record->offset)
        return gd__error(GD_E_PROTOCOL,
                         "result record %" PRIu64 " has %" PRIu64 " bytes at %" PRIu64 ", outside its region",
                         c->result_head, record->size, record->offset);
    *bytes = (const char *)c->results.base + record->offset;
    *size = record->size;
    return 1;
}

void gd__channel_done(struct gd__channel *c, uint64_t consumed, uint64_t released)
{
    atomic_store_explicit(&c->out->released, released, memory_order_release);
    atomic_store_explicit(&c->out->consumed, consumed, memory_order_release); /* pairs with has_room() in port.c */
    gd__full_fence(); /* pairs with the fence in port.c's sleep_until() */
    const uint32_t sleep = atomic_load_explicit(&c->in->sleeping, memory_order_relaxed);
    /* Wakes the worker only if it waits for room. A worker that waits for a task is woken when one is published. */
    if (sleep != 0 && atomic_load_explicit(&c->in->wants_room, memory_order_relaxed) != 0)
        gd__channel_ring(c, sleep);
}

void gd__channel_cancel(struct gd__channel *c, uint64_t below)
{
    atomic_store_explicit(&c->out->cancel, below, memory_order_release);
}

bool gd__channel_cancel_at(struct gd__channel *c, uint32_t place, uint64_t position)
{
    if (place >= c->cancel_places)
        return false;
    atomic_store_explicit(&c->cancel_at[place], position + 1, memory_order_release);
    return true;
}

void gd__channel_stop(struct gd__channel *c)
{
    atomic_store_explicit(&c->out->stop, 1, memory_order_release);
    gd__channel_wake(c);
}

static uint64_t clamp(uint64_t value, uint64_t low, uint64_t high)
{
    return value < low ? low : value > high ? high : value;
}

void gd__channel_progress(const struct gd__channel *c, uint64_t from, struct gd__progress *out)
{
    uint64_t started = atomic_load_explicit(&c->in->started, memory_order_acquire); /* start_ns was stored before */
    uint64_t loading = atomic_load_explicit(&c->in->loading, memory_order_acquire);
    *out = (struct gd__progress){
        .started = clamp(started, from, c->task_tail),
        .loading = clamp(loading, from, c->task_tail),
        .start_ns = atomic_load_explicit(&c->in->start_ns, memory_order_relaxed),
    };
}

bool gd__channel_attached(const struct gd__channel *c)
{
    return c->in && c->in->magic == GD__RESULT_MAGIC;
}
