/* Calls the user's callbacks. A task becomes final here: its callback is called once, then its payload and result are
 * released. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text/printable.h"
#include "dispatch/internal.h"

enum { NAME_MAX_BYTES = 64, TEXT_MAX = 256, SPARSE_FROM = 1 << 20 };

static const char *const failure_names[] = {
    [GD_FAILURE_NONE] = "none",
    [GD_FAILURE_ERROR] = "error",
    [GD_FAILURE_TIMEOUT] = "timeout",
    [GD_FAILURE_CRASH] = "crash",
    [GD_FAILURE_OUT_OF_MEMORY] = "out_of_memory",
    [GD_FAILURE_DEVICE_LOST] = "device_lost",
    [GD_FAILURE_CANCELLED] = "cancelled",
    [GD_FAILURE_NO_WORKER] = "no_worker",
};

const char *gd_failure_name(enum gd_failure failure)
{
    const size_t n = sizeof failure_names / sizeof *failure_names;
    return (size_t)failure < n ? failure_names[failure] : "unknown";
}

static struct gd__payload payload_of(const struct gd__task *t)
{
    struct gd__payload p;
    _Static_assert(sizeof p == sizeof t->payload, "a task carries a payload");
    memcpy(&p, t->payload, sizeof p);
    return p;
}

/* The time limit of a task; 0: none. A task that times out in a batch is run again alone, so its report always concerns
 * this limit. */
static uint64_t limit_ms(const struct gd_dispatcher *d, const struct gd__task *t)
{
    const bool own = t->has_extras && t->timeout_ns > 0;
    return (own ? t->timeout_ns : d->sched.config.task_timeout_ns) / GD__NS_PER_MS;
}

/* Why a task is cancelled that nobody has asked to cancel. */
static const char *end_reason(const struct gd_dispatcher *d)
{
    const char *reason = atomic_load(&d->ends_for);
    if (d->sched.end == GD__END_SHORTAGE)
        return "no process could be started";
    return reason ? reason : "the run was shut down";
}

/* The error message of a failure for which the worker sent no message. */
static void default_message(const struct gd_dispatcher *d, const struct gd__task *t, const struct gd__outcome *o,
                            char text[TEXT_MAX])
{
    switch (o->failure) {
    case GD_FAILURE_TIMEOUT:
        snprintf(text, TEXT_MAX, "timed out after %g s", (double)limit_ms(d, t) / 1000);
        break;
    case GD_FAILURE_CANCELLED:
        if (o->on_request)
            snprintf(text, TEXT_MAX, "cancelled on request");
        else
            snprintf(text, TEXT_MAX, "not done: %s", end_reason(d));
        break;
    case GD_FAILURE_NO_WORKER:
        snprintf(text, TEXT_MAX, "not done: %s",
                 d->sched.end == GD__END_SETUP ? gd_error_description(GD_E_SETUP) : "no workers are left");
        break;
    default:
        snprintf(text, TEXT_MAX, "%s", gd_failure_name(o->failure));
        break;
    }
}

/* Copies the error message into a string, because it has no terminating NUL in shared memory. */
static char *copy_message(const struct gd_dispatcher *d, const struct gd__outcome *o)
{
    const size_t length = o->size - o->data_size;
    char name[NAME_MAX_BYTES] = "";
    if (o->failure == GD_FAILURE_CRASH && o->worker >= 0) /* the message is about the worker: name it */
        snprintf(name, sizeof name, "worker %d (GPU %d) ", o->worker, d->copy.gpu_ids[o->worker]);
    const size_t before = strlen(name);
    char *text = gd__calloc(1, before + length + 1);
    if (!text)
        return NULL;
    memcpy(text, name, before + 1);
    memcpy(text + before, (const char *)o->bytes + o->data_size, length);
    return text;
}

void gd__report_refuse(const struct gd_report *report, enum gd_failure failure, const char *message)
{
    struct gd_report *own = (struct gd_report *)(uintptr_t)report; /* gd__deliver() owns the report and may change it */
    own->failure = failure;
    own->error = message;
}

struct gd__journal_task *gd__record_put_off(struct gd_dispatcher *d)
{
    struct gd__journal_task *t = d->record_due;
    d->record_due = NULL;
    return t;
}

void gd__record_settle(struct gd_dispatcher *d, struct gd__journal_task *t, const struct gd_report *report,
                       const struct gd__record_note *note)
{
    if (d->queue)
        gd__queue_put(d, t, report, note);
    else
        gd__journal_put(d->o.journal, t, report);
}

void gd__record_drop(struct gd__journal_task *t)
{
    gd__free(t);
}

/* Called after the callback, because the record includes what the callback wrote. */
static void keep_record(struct gd_dispatcher *d, const struct gd_report *r)
{
    struct gd__journal_task *t = gd__record_put_off(d);
    if (t)
        gd__record_settle(d, t, r, NULL);
}

static void notify_listener(const struct gd_dispatcher *d, const struct gd_report *r)
{
    if (d->listener.task_ended)
        d->listener.task_ended(d->listener.user, r);
}

static void call_failed(struct gd_dispatcher *d, struct gd_report *r, const struct gd__task *t,
                        const struct gd__outcome *o)
{
    char text[TEXT_MAX];
    const bool has_message = o->size > o->data_size && o->failure != GD_FAILURE_TIMEOUT;
    char *message = has_message ? copy_message(d, o) : NULL;
    if (!message)
        default_message(d, t, o, text);
    if (d->record_due)
        d->record_due->crashes = t->crashes;
    r->error = message ? message : text;
    r->data = o->data_size > 0 ? o->bytes : NULL;
    r->size = o->data_size;
    if (d->publisher)
        gd__publish_final(d, o->worker, r);
    notify_listener(d, r);
    if (o->failure == GD_FAILURE_TIMEOUT && d->o.on_timeout)
        d->o.on_timeout(d->o.user, r);
    else if (d->o.on_error)
        d->o.on_error(d->o.user, r);
    keep_record(d, r);
    r->error = NULL;
    gd__free(message);
}

void gd__deliver(void *ctx, const struct gd__task *t, const struct gd__outcome *o)
{
    struct gd_dispatcher *d = ctx;
    const struct gd__payload p = payload_of(t);
    const bool in_arena = p.size > GD__INLINE_MAX;
    struct gd_report r = {
        .task_id = gd__task_number(t),
        .worker_id = o->worker, /* -1: no worker */
        .gpu_id = o->worker < 0 ? -1 : d->copy.gpu_ids[o->worker],
        .attempt = t->attempt,
        .start_ns = o->start_ns,
        .first_start_ns = t->has_extras && t->first_start_ns ? t->first_start_ns : o->start_ns,
        .end_ns = o->end_ns,
        .input = in_arena ? (const char *)gd__feeder_arena(d->feeder)->base + p.offset : (const char *)p.bytes,
        .input_size = p.size,
        .failure = o->failure,
        .signal = o->signal,
        .exit_code = o->exit_code,
        .timeout_ms = (unsigned)limit_ms(d, t),
    };
    d->record_due = gd__tagged_record(t->has_extras ? t->tag : 0);
    if (d->sched.stopping) /* before the first task goes back, or this node would get it again */
        gd__queue_stop(d);
    if (o->failure == GD_FAILURE_NONE) {
        r.data = o->bytes;
        r.size = o->size;
        if (d->publisher)
            gd__publish_final(d, o->worker, &r);
        notify_listener(d, &r);
        d->o.on_success(d->o.user, &r);
        keep_record(d, &r);
    } else {
        call_failed(d, &r, t, o);
    }
    gd__feeder_release(d->feeder, &p);
    if (o->handle)
        gd__free((void *)(uintptr_t)o->handle);
    gd__stats_after_callback(d);
}

/* Copies only those parts of a range that were written. The rest of the copy stays zero. */
static void copy_written(char *copy, const struct gd__region *r, uint64_t from, uint64_t size)
{
    const off_t first = (off_t)from, end = (off_t)(from + size);
    for (off_t at = first; at < end;) {
        off_t data = lseek(r->fd, at, SEEK_DATA);
        if (data < 0 && errno != ENXIO) /* the holes are unknown: copy everything */
            data = at;
        if (data < 0 || data >= end)
            return;
        off_t hole = lseek(r->fd, data, SEEK_HOLE);
        if (hole <= data) /* the worker is changing the file: go on anyway */
            hole = data + GD__PAGE;
        if (hole > end)
            hole = end;
        memcpy(copy + (data - first), (const char *)r->base + data, (size_t)(hole - data));
        at = hole;
    }
}

/* The worker may not have written most of a large result. Reading the unwritten parts would allocate memory for them,
 * in this process and in the region, possibly more than the machine has. */
static void *copy_result(const struct gd_dispatcher *d, const struct gd__outcome *o)
{
    if (o->size < SPARSE_FROM || o->worker < 0)
        return gd__memdup(o->bytes, o->size);
    const struct gd__region *r = &d->seats[o->worker].channel.results;
    void *copy = gd__calloc(1, o->size);
    if (copy)
        copy_written(copy, r, (uint64_t)((const char *)o->bytes - (const char *)r->base), o->size);
    return copy;
}

/* In an ordered run a result may have to wait for its turn longer than its worker exists, so it is copied. */
void gd__deliver_hold(void *ctx, const struct gd__task *t, struct gd__outcome *o)
{
    (void)t;
    static const char no_memory[] = "out of memory: the result could not be kept until the earlier tasks had ended";
    if (o->size == 0)
        return;
    void *copy = copy_result(ctx, o);
    o->handle = (uint64_t)(uintptr_t)copy;
    o->bytes = copy;
    if (copy)
        return;
    o->failure = o->failure == GD_FAILURE_NONE ? GD_FAILURE_OUT_OF_MEMORY : o->failure;
    o->bytes = no_memory;
    o->size = sizeof no_memory - 1;
    o->data_size = 0;
}

void gd__deliver_drop(void *ctx, const struct gd__task *t, const struct gd__outcome *o)
{
    (void)ctx, (void)t;
    if (o->handle)
        gd__free((void *)(uintptr_t)o->handle);
}

void gd__deliver_shortage(void *ctx, unsigned w, const char *message, uint64_t size)
{
    struct gd_dispatcher *d = ctx;
    char text[TEXT_MAX];
    if (d->shortage_told)
        return;
    d->shortage_told = true;
    snprintf(text, sizeof text, "worker %u %.*s", w, (int)(size < TEXT_MAX ? size : TEXT_MAX - 1),
             message ? message : "");
    if (d->hooks.shortage)
        d->hooks.shortage(d->hooks.user, text);
}

/* For observers only. The user's callbacks are called when the task becomes final. */
void gd__deliver_try(void *ctx, const struct gd__task *t, const struct gd__outcome *o)
{
    struct gd_dispatcher *d = ctx;
    if (d->publisher)
        gd__publish_try(d, t, o);
}

void gd__deliver_setup_failed(void *ctx, unsigned w, const char *message)
{
    struct gd_dispatcher *d = ctx;
    const int id = (int)w, gpu_id = d->copy.gpu_ids[w];
    if (!d->setup_error[0])
        gd__text_cause(d->setup_error, sizeof d->setup_error, message);
    if (d->listener.setup_failed)
        d->listener.setup_failed(d->listener.user, id, gpu_id, message);
    if (d->o.on_setup_fail)
        d->o.on_setup_fail(d->o.user, id, gpu_id, message);
}

void gd__deliver_cleanup_failed(const struct gd_dispatcher *d, unsigned w, const char *message)
{
    const int id = (int)w, gpu_id = d->copy.gpu_ids[w];
    if (d->listener.cleanup_failed)
        d->listener.cleanup_failed(d->listener.user, id, gpu_id, message);
    if (d->o.on_cleanup_fail)
        d->o.on_cleanup_fail(d->o.user, id, gpu_id, message);
}

void gd__deliver_device_out(void *ctx, unsigned w, const char *message)
{
    struct gd_dispatcher *d = ctx;
    gd__devices_report_out(d, w, message ? message : "it has no workers left");
}

void gd__deliver_worker_died(void *ctx, unsigned w, const char *message, bool given_up)
{
    struct gd_dispatcher *d = ctx;
    const int id = (int)w, gpu_id = d->copy.gpu_ids[w];
    if (d->listener.worker_exited)
        d->listener.worker_exited(d->listener.user, id, gpu_id, message, given_up);
    if (d->o.on_worker_exit)
        d->o.on_worker_exit(d->o.user, id, gpu_id, message, given_up);
}
