/* The scheduler's effects that start, stop and kill worker processes (start.c, exit.c), and the workers' seats. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/error.h"
#include "dispatch/internal.h"
#include "worker/host.h"

static struct gd__seat *seat_of(void *ctx, unsigned w)
{
    struct gd_dispatcher *d = ctx;
    return &d->seats[w];
}

/* --- effects --- */

static void start_worker(void *ctx, unsigned w)
{
    struct gd_dispatcher *d = ctx;
    struct gd__seat *seat = seat_of(ctx, w);
    seat->broken = seat->shortage = false;
    seat->said = 0;
    seat->told_to_stop = seat->ends_tasks = false;
    seat->announced = 0;
    seat->message[0] = '\0';
    gd__strays_name(seat);
    if (gd__seat_start(seat) < 0) {
        snprintf(seat->message, sizeof seat->message, "could not be started: %s", gd_error_text());
        gd__seat_undo_start(seat);
        seat->spawn_failed = true;
        d->spawn_failures++;
        return;
    }
    seat->live = true;
    d->live[d->n_live++] = w;
}

static void assign(void *ctx, unsigned w, const struct gd__task *t, unsigned attempt)
{
    struct gd__task_slot *slot = gd__channel_append(&seat_of(ctx, w)->channel);
    slot->task_id = gd__task_number(t);
    slot->attempt = attempt;
    slot->batch = t->batch;
    slot->flags = t->solo ? GD__TASK_SOLO : 0;
    memcpy(&slot->payload, t->payload, sizeof slot->payload);
}

static void show_tasks(void *ctx, unsigned w)
{
    gd__channel_publish(&seat_of(ctx, w)->channel);
}

static uint64_t take_back(void *ctx, unsigned w, uint64_t keep)
{
    return gd__channel_take_back(&seat_of(ctx, w)->channel, keep);
}

static void probe(void *ctx, unsigned w, uint64_t head, struct gd__probe *out)
{
    struct gd__progress p;
    gd__channel_progress(&seat_of(ctx, w)->channel, head, &p);
    out->started = p.started;
    out->start_ns = p.start_ns;
}

static void cancel(void *ctx, unsigned w, uint64_t below)
{
    struct gd__seat *seat = seat_of(ctx, w);
    gd__channel_cancel(&seat->channel, below);
    /* This only triggers interrupt(). If the socket is full or closed, the worker is still killed later. */
    (void)send(seat->lifeline.fd, "c", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void cancel_place(void *ctx, unsigned w, unsigned place, uint64_t position)
{
    struct gd__seat *seat = seat_of(ctx, w);
    gd__channel_cancel_at(&seat->channel, place, position);
    (void)send(seat->lifeline.fd, "c", 1, MSG_NOSIGNAL | MSG_DONTWAIT); /* this only triggers cancel(): see cancel() */
}

static bool end_tasks(void *ctx, unsigned w)
{
    const struct gd__seat *seat = seat_of(ctx, w);
    return seat->ends_tasks && send(seat->lifeline.fd, "e", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

static void kill_process(void *ctx, unsigned w)
{
    gd__child_signal(&seat_of(ctx, w)->child, SIGKILL);
}

static void stop(void *ctx, unsigned w)
{
    struct gd__seat *seat = seat_of(ctx, w);
    seat->told_to_stop = true;
    if (seat->live)
        gd__channel_stop(&seat->channel);
}

static void abandon(void *ctx, unsigned w)
{
    struct gd__seat *seat = seat_of(ctx, w);
    gd__seat_clear(seat);
    gd__children_lock(seat->d);
    gd__child_forget(&seat->child);
    gd__children_unlock(seat->d);
}

const struct gd__sched_effects gd__effects = {
    .spawn = start_worker,
    .assign = assign,
    .publish = show_tasks,
    .take_back = take_back,
    .probe = probe,
    .cancel = cancel,
    .cancel_place = cancel_place,
    .end_tasks = end_tasks,
    .kill = kill_process,
    .stop = stop,
    .abandon = abandon,
    .deliver = gd__deliver,
    .hold = gd__deliver_hold,
    .drop = gd__deliver_drop,
    .shortage = gd__deliver_shortage,
    .tried = gd__deliver_try,
    .setup_failed = gd__deliver_setup_failed,
    .worker_died = gd__deliver_worker_died,
    .device_out = gd__deliver_device_out,
};

/* --- opening and closing --- */

#ifndef GD_HOST_PATH
#define GD_HOST_PATH "gpu-dispatch-host"
#endif

static int choose_program(struct gd_dispatcher *d)
{
    const char *host = getenv("GPU_DISPATCH_HOST");
    const char *self = gd__worker_argv() ? gd__worker_argv()[0] : NULL;
    d->spawn_argv = gd__calloc(3, sizeof *d->spawn_argv);
    if (!d->spawn_argv)
        return gd__error(GD_E_NO_MEMORY, "no memory for a worker's arguments");
    if (d->copy.worker_argv) {
        gd__free(d->spawn_argv);
        d->spawn_argv = d->copy.worker_argv;
        d->spawn_path = d->copy.worker_argv[0];
    } else if (d->copy.plugin) {
        d->spawn_path = host && *host ? host : GD_HOST_PATH;
        d->spawn_argv[0] = (char *)(uintptr_t)d->spawn_path;
        d->spawn_argv[1] = d->copy.plugin;
    } else {
        d->spawn_path = "/proc/self/exe";
        d->spawn_argv[0] = (char *)(uintptr_t)(self ? self : "gpu-dispatch-worker");
    }
    return 0;
}

int gd__supervisor_open(struct gd_dispatcher *d)
{
    d->seats = gd__calloc(d->n_workers, sizeof *d->seats);
    d->live = gd__calloc(d->n_workers, sizeof *d->live);
    for (unsigned i = 0; d->seats && i < d->n_workers; i++) {
        struct gd__seat *seat = &d->seats[i];
        seat->d = d;
        seat->index = i;
        seat->lifeline = (struct gd__fork_guard)GD__FORK_GUARD_NONE;
        seat->out.fd = seat->err.fd = -1;
        seat->out.forward_fd = seat->err.forward_fd = -1;
        seat->pid_watch.fd = seat->bell_watch.fd = -1;
        seat->strays.timer = seat->strays.timer_watch.fd = -1;
        seat->out.watch.fd = seat->err.watch.fd = seat->out.forward_watch.fd = seat->err.forward_watch.fd = -1;
        seat->child = (struct gd__child)GD__CHILD_NONE;
        seat->channel = (struct gd__channel)GD__CHANNEL_NONE;
    }
    if (!d->seats || !d->live)
        return gd__error(GD_E_NO_MEMORY, "no memory for %u workers", d->n_workers);
    return choose_program(d);
}

bool gd__dispatcher_locate(const struct gd_dispatcher *d, const void *data, int *fd, uint64_t *offset)
{
    for (unsigned k = 0; k < d->n_live; k++) {
        const struct gd__region *r = &d->seats[d->live[k]].channel.results;
        if ((const char *)data < (const char *)r->base || (const char *)data >= (const char *)r->base + r->size)
            continue;
        *fd = r->fd;
        *offset = (uint64_t)((const char *)data - (const char *)r->base);
        return true;
    }
    return false;
}

void gd__supervisor_close(struct gd_dispatcher *d)
{
    for (unsigned i = 0; d->seats && i < d->n_workers; i++)
        gd__seat_undo_start(&d->seats[i]);
    if (d->spawn_argv != d->copy.worker_argv)
        gd__free(d->spawn_argv);
    d->spawn_argv = NULL;
    gd__children_lock(d); /* another thread may be about to stop all workers */
    gd__free(d->seats);
    d->seats = NULL;
    gd__children_unlock(d);
    gd__free(d->live);
    d->live = NULL;
}
