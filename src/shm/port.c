/* The worker's end of the rings.
 *
 * One function does all waiting, sleep_until(): it flushes what was committed, spins for a while, announces a sleep,
 * checks once more, and sleeps on our bell. It waits for a task or a stop, for room in the result ring, or for the
 * release of result bytes. The dispatcher rings the same bell for all of them.
 *
 * The dispatcher's bell is a descriptor of this process. If user code closes it, this worker can no longer wake the
 * dispatcher. It then prints a message to stderr, which goes into the crash report, and aborts.
 */
#include "shm/channel.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "shm/bytes.h"

enum {
    SPINS_PER_CLOCK = 32 /* checks between two reads of the clock */
};

/* ---- opening ---- */

/* Attaches all three regions. Each call takes over its descriptor, so all three calls must be made. */
static int attach_regions(struct gd__port *p, const struct gd__boot *boot, const int fds[GD__BOOT_FDS])
{
    int tasks = gd__region_attach(&p->tasks, fds[GD__FD_TASKS], boot->task_region_size, 0);
    int results = gd__region_attach(&p->results, fds[GD__FD_RESULTS], boot->result_region_size, 1);
    int arena = gd__region_attach(&p->arena, fds[GD__FD_ARENA], boot->arena_size, 0);
    return tasks < 0 ? tasks : results < 0 ? results : arena;
}

static bool is_capacity(uint64_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

/* Whether count items of size bytes fit between offset and end. */
static bool fits(uint64_t offset, uint64_t count, uint64_t size, uint64_t end)
{
    return offset <= end && count <= (end - offset) / size;
}

static int check_config(const struct gd__port *p)
{
    const struct gd__worker_config *c = &p->config;
    if (c->magic != GD__TASK_MAGIC || p->arena_head->magic != GD__ARENA_MAGIC)
        return gd__error(GD_E_PROTOCOL, "the shared memory was not made by a dispatcher");
    if (c->version != GD__LAYOUT_VERSION)
        return gd__error(GD_E_VERSION, "the dispatcher has memory layout %" PRIu32 ", but this library has %u",
                         c->version, GD__LAYOUT_VERSION);
    bool good = c->task_region_size == p->tasks.size && c->result_region_size == p->results.size &&
                c->arena_size == p->arena.size && is_capacity(c->task_capacity) && is_capacity(c->result_capacity) &&
                fits(GD__PAGE, c->task_capacity, sizeof(struct gd__task_slot), p->tasks.size) &&
                fits(GD__PAGE, c->result_capacity, sizeof(struct gd__result_slot), c->data_offset) &&
                c->data_offset < p->results.size && fits(c->args_offset, c->args_size, 1, p->tasks.size) &&
                c->cancel_offset % GD__PAGE == 0 && c->cancel_places > 0 && c->cancel_places <= GD__FLIGHT_MAX &&
                fits(c->cancel_offset, c->cancel_places, sizeof(uint64_t), p->tasks.size);
    return good ? 0 : gd__error(GD_E_PROTOCOL, "the dispatcher's configuration is invalid");
}

static void set_views(struct gd__port *p)
{
    p->in = p->tasks.base;
    p->task_slots = (const struct gd__task_slot *)((const char *)p->tasks.base + GD__PAGE);
    p->out = p->results.base;
    p->result_slots = (struct gd__result_slot *)((char *)p->results.base + GD__PAGE);
    p->arena_head = p->arena.base;
    p->config = p->in->config;
}

static int check_boot(const struct gd__boot *boot)
{
    if (boot->magic != GD__TASK_MAGIC)
        return gd__error(GD_E_PROTOCOL, "the message on the boot socket is not from a dispatcher");
    if (boot->version != GD__LAYOUT_VERSION)
        return gd__error(GD_E_VERSION, "the dispatcher has memory layout %" PRIu32 ", but this library has %u",
                         boot->version, GD__LAYOUT_VERSION);
    if (boot->task_region_size < GD__PAGE || boot->result_region_size < GD__PAGE || boot->arena_size < GD__PAGE)
        return gd__error(GD_E_PROTOCOL, "the dispatcher's shared memory is too small");
    return 0;
}

int gd__port_open(struct gd__port *p, const struct gd__boot *boot, const int fds[GD__BOOT_FDS])
{
    *p = (struct gd__port){
        .tasks = GD__REGION_NONE,
        .results = GD__REGION_NONE,
        .arena = GD__REGION_NONE,
        .result_bell = fds[GD__FD_RESULT_BELL],
        .task_bell = fds[GD__FD_TASK_BELL],
    };
    int code = attach_regions(p, boot, fds);
    int boot_code = check_boot(boot); /* its message is preferred, because it is more exact */
    if (boot_code < 0)
        code = boot_code;
    if (code < 0)
        goto fail;
    set_views(p);
    if ((code = check_config(p)) < 0)
        goto fail;
    if ((code = gd__bytes_open(&p->bytes, p->config.data_offset, p->results.size)) < 0)
        goto fail;
    gd__extents_open(&p->extents, &p->results);
    p->cancel_at = (const _Atomic uint64_t *)(const void *)((const char *)p->tasks.base + p->config.cancel_offset);
    p->task_mask = p->config.task_capacity - 1;
    p->result_mask = p->config.result_capacity - 1;
    p->out->version = GD__LAYOUT_VERSION;
    p->out->pid = (uint32_t)getpid();
    p->out->magic = GD__RESULT_MAGIC;
    return 0;
fail:
    gd__port_close(p);
    return gd__error_context(code, "worker's memory");
}

void gd__port_close(struct gd__port *p)
{
    gd__extents_close(&p->extents);
    gd__bytes_close(&p->bytes);
    gd__region_close(&p->arena);
    gd__region_close(&p->results);
    gd__region_close(&p->tasks);
    gd__fd_close(&p->result_bell);
    gd__fd_close(&p->task_bell);
}

/* ---- ringing and sleeping ---- */

_Noreturn static void cut_off(const char *what)
{
    dprintf(STDERR_FILENO,
            "gpu_dispatch: %s: %m (did the worker's code close file descriptors that it had not opened?)\n", what);
    abort();
}

void gd__port_ring(struct gd__port *p, uint32_t sleep)
{
    if (sleep != 1 && sleep == p->rung)
        return;
    p->rung = sleep;
    uint64_t one = 1;
    ssize_t n;
    do
        n = write(p->result_bell, &one, sizeof one);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno != EAGAIN) /* EAGAIN: the counter is full, so the bell rings already */
        cut_off("cannot wake the dispatcher");
}

/* The dispatcher rings once for each sleep, so there is rarely a second ring. If there is, it ends the next sleep. */
static void take_ring(const struct gd__port *p)
{
    char byte;
    (void)!recv(p->task_bell, &byte, 1, MSG_DONTWAIT);
}

/* Sleeps until the bell's count is no longer `heard`, or the socket was rung. May return early: the caller checks
 * again. */
static void await_bell(const struct gd__port *p, uint32_t heard)
{
    if (p->by_socket) {
        struct pollfd bell = { .fd = p->task_bell, .events = POLLIN };
        if (poll(&bell, 1, -1) < 0 && errno != EINTR)
            cut_off("cannot wait for tasks");
        if (bell.revents & (POLLNVAL | POLLERR))
            cut_off("cannot wait for tasks");
        take_ring(p);
        return;
    }
    if (syscall(SYS_futex, &p->in->bell, FUTEX_WAIT, heard, NULL, NULL, 0) < 0 && errno != EAGAIN && errno != EINTR)
        cut_off("cannot wait for tasks");
}

typedef bool ready_fn(struct gd__port *p, uint64_t was);

static bool spin_until(struct gd__port *p, ready_fn *ready, uint64_t was)
{
    if (p->config.spin_ns == 0)
        return ready(p, was);
    uint64_t end_ns = gd__now_ns() + p->config.spin_ns;
    do {
        for (int i = 0; i < SPINS_PER_CLOCK; i++) {
            if (ready(p, was))
                return true;
            gd__spin_pause();
        }
    } while (gd__now_ns() < end_ns);
    return false;
}

static void sleep_until(struct gd__port *p, ready_fn *ready, uint64_t was, bool for_room)
{
    if (ready(p, was))
        return;
    gd__port_flush(p);
    if (spin_until(p, ready, was))
        return;
    atomic_store_explicit(&p->out->wants_room, for_room, memory_order_relaxed); /* before `sleeping` and the fence */
    for (;;) {
        const uint32_t heard = atomic_load_explicit(&p->in->bell, memory_order_acquire); /* pairs with channel_ring */
        p->sleep = gd__next_sleep(p->sleep);
        atomic_store_explicit(&p->out->sleeping, p->sleep, memory_order_relaxed);
        gd__full_fence(); /* pairs with gd__channel_wake()'s: it sees us asleep, or we see what it published */
        if (ready(p, was))
            break;
        await_bell(p, heard);
    }
    atomic_store_explicit(&p->out->sleeping, 0, memory_order_relaxed);
}

void gd__port_use_socket(struct gd__port *p)
{
    p->by_socket = true;
    atomic_store_explicit(&p->out->bell_kind, GD__BELL_SOCKET, memory_order_release);
}

void gd__port_sleep(struct gd__port *p, bool for_room)
{
    atomic_store_explicit(&p->out->wants_room, for_room, memory_order_relaxed);
    p->sleep = gd__next_sleep(p->sleep);
    atomic_store_explicit(&p->out->sleeping, p->sleep, memory_order_relaxed);
    gd__full_fence(); /* pairs with gd__channel_wake()'s: it sees us asleep, or we see what it published */
}

void gd__port_awake(struct gd__port *p, bool rung)
{
    atomic_store_explicit(&p->out->sleeping, 0, memory_order_relaxed);
    if (rung)
        take_ring(p);
}

bool gd__port_stopped(const struct gd__port *p)
{
    return atomic_load_explicit(&p->in->stop, memory_order_acquire) != 0;
}

static bool has_task_or_stop(struct gd__port *p, uint64_t was)
{
    (void)was;
    return gd__port_poll(p) || gd__port_stopped(p);
}

int gd__port_wait(struct gd__port *p)
{
    sleep_until(p, has_task_or_stop, 0, false);
    if (gd__port_poll(p)) /* after reading stop: tasks published before it count */
        return 1;
    gd__port_flush(p);
    return 0;
}

static bool has_room(struct gd__port *p, uint64_t was)
{
    (void)was;
    p->consumed = atomic_load_explicit(&p->in->consumed, memory_order_acquire);
    return p->result_tail - p->consumed <= p->result_mask;
}

void gd__port_wait_room(struct gd__port *p)
{
    sleep_until(p, has_room, 0, true);
}

static bool has_released(struct gd__port *p, uint64_t was)
{
    return atomic_load_explicit(&p->in->released, memory_order_acquire) > was;
}

uint64_t gd__port_wait_released(struct gd__port *p, uint64_t was)
{
    sleep_until(p, has_released, was, true);
    return atomic_load_explicit(&p->in->released, memory_order_acquire);
}
