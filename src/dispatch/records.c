/* Reads the records of workers. Each record is copied and then checked: against the worker's state, the task at the
 * head of its window, and that task's number and attempt. A worker that sends a wrong record is killed. */
#include <stdio.h>
#include <string.h>

#include "dispatch/internal.h"
#include "worker/host.h"

enum {
    DRAIN_MOST = 1024, /* records at a time, so that one worker cannot hold up the others */
    MESSAGE_ROOM = 4096,
};
#define CLOCK_SLACK_NS (100 * GD__NS_PER_MS)

struct record {
    struct gd__result_slot slot;
    const void *bytes;
    uint64_t size;
};

static const enum gd_failure failure_of[GD__R_KINDS] = {
    [GD__R_SUCCESS] = GD_FAILURE_NONE,
    [GD__R_ERROR] = GD_FAILURE_ERROR,
    [GD__R_ERROR_FINAL] = GD_FAILURE_ERROR,
    [GD__R_ERROR_DATA] = GD_FAILURE_ERROR,
    [GD__R_OUT_OF_MEMORY] = GD_FAILURE_OUT_OF_MEMORY,
    [GD__R_DEVICE_LOST] = GD_FAILURE_DEVICE_LOST,
    [GD__R_CANCELLED] = GD_FAILURE_CANCELLED,
    [GD__R_SIGNALLED] = GD_FAILURE_ERROR,
    [GD__R_SHORTAGE] = GD_FAILURE_ERROR,
};

static bool is_result(unsigned kind)
{
    return kind >= GD__R_SUCCESS && kind <= GD__R_SHORTAGE;
}

const char *gd__record_check(const struct gd__sched *s, unsigned w, const struct gd__result_slot *r)
{
    if (!is_result(r->kind) && r->kind != GD__R_STARTED && r->kind != GD__R_PARTIAL)
        return NULL;
    const bool begun = s->workers[w].concurrency > 1 && r->kind != GD__R_STARTED;
    const struct gd__task *t = begun ? gd__sched_in_flight(s, w, r->place) : gd__sched_at(s, w, r->position);
    if (!t || (begun ? r->position != t->position : r->kind != GD__R_STARTED && r->position != s->workers[w].head))
        return "it reported on a task that it does not have";
    if (gd__task_number(t) != r->task_id || t->attempt + 1 != r->attempt)
        return "it reported one task as another";
    return NULL;
}

/* Worker and dispatcher share one clock, but a faulty worker may report any time. So an end in the future, and a start
 * after the end, are corrected. If an end seems to be in the future, the clock is read again, because callbacks may
 * have taken long since it was read. */
static void clamp_times(struct gd_dispatcher *d, struct gd__outcome *o)
{
    if (o->end_ns > d->now + CLOCK_SLACK_NS) {
        d->now = gd__now_ns();
        if (o->end_ns > d->now)
            o->end_ns = d->now;
    }
    if (o->start_ns > o->end_ns)
        o->start_ns = o->end_ns;
}

/* Finds where the error message of a failure with data begins. The message's size is read only once, because the worker
 * may change it. */
static int split_failure(const struct record *r, struct gd__outcome *o)
{
    uint32_t message_size;
    if (r->size < sizeof message_size)
        return GD_E_PROTOCOL;
    memcpy(&message_size, (const char *)r->bytes + r->size - sizeof message_size, sizeof message_size);
    if (message_size > GD__MESSAGE_MAX || message_size > r->size - sizeof message_size)
        return GD_E_PROTOCOL;
    o->size = r->size - sizeof message_size;
    o->data_size = o->size - message_size;
    return 0;
}

static int take_result(struct gd_dispatcher *d, struct gd__seat *seat, const struct record *r)
{
    struct gd__outcome o = {
        .failure = failure_of[r->slot.kind],
        .final = r->slot.kind == GD__R_ERROR_FINAL,
        .shortage = r->slot.kind == GD__R_SHORTAGE,
        .by_stop_signal = r->slot.kind == GD__R_SIGNALLED,
        .worker = (int)seat->index,
        .start_ns = r->slot.start_ns,
        .end_ns = r->slot.end_ns,
        .bytes = r->bytes,
        .size = r->size,
    };
    if (r->slot.kind == GD__R_ERROR_DATA || r->slot.kind == GD__R_SIGNALLED) {
        if (split_failure(r, &o) < 0)
            return GD_E_PROTOCOL;
    } else if (o.failure != GD_FAILURE_NONE && o.size > GD__MESSAGE_MAX) {
        o.size = GD__MESSAGE_MAX; /* a correct worker never writes more, but a faulty one may claim gigabytes */
    }
    clamp_times(d, &o);
    if (d->sched.workers[seat->index].concurrency > 1)
        return gd__sched_finish(&d->sched, d->now, seat->index, r->slot.place, r->slot.position, &o);
    return gd__sched_result(&d->sched, d->now, seat->index, &o, r->slot.safe_batch);
}

static int take_started(struct gd_dispatcher *d, struct gd__seat *seat, const struct record *r)
{
    if (r->slot.position < seat->announced)
        return GD_E_PROTOCOL;
    seat->announced = r->slot.position + 1;
    if (d->sched.workers[seat->index].concurrency > 1) {
        const struct gd__begin b = { .position = r->slot.position,
                                     .start_ns = r->slot.start_ns,
                                     .place = r->slot.place };
        const int rc = gd__sched_begun(&d->sched, d->now, seat->index, &b);
        if (rc < 0)
            return rc;
    }
    if (d->o.on_task_start)
        d->o.on_task_start(d->o.user, r->slot.task_id, (int)seat->index, r->slot.attempt, r->slot.start_ns);
    return 0;
}

static void take_partial(struct gd_dispatcher *d, const struct gd__seat *seat, const struct record *r)
{
    if (d->o.on_partial)
        d->o.on_partial(d->o.user, r->slot.task_id, (int)seat->index, r->slot.attempt, r->bytes, r->size);
}

static int take_lifecycle(struct gd_dispatcher *d, struct gd__seat *seat, const struct record *r)
{
    if (seat->said & 1u << r->slot.kind)
        return GD_E_PROTOCOL;
    seat->said |= 1u << r->slot.kind;
    char message[MESSAGE_ROOM];
    int rc;
    snprintf(message, sizeof message, "%.*s", (int)(r->size < MESSAGE_ROOM ? r->size : MESSAGE_ROOM - 1),
             r->size > 0 ? (const char *)r->bytes : "");
    switch (r->slot.kind) {
    case GD__R_READY:
        seat->ends_tasks = r->slot.position & GD__READY_ENDS_TASKS;
        gd__sched_loads(&d->sched, seat->index, r->slot.position & GD__READY_LOADS);
        rc = gd__sched_ready(&d->sched, d->now, seat->index, r->slot.attempt);
        gd__queue_count_slots(d);
        return rc;
    case GD__R_SETUP_FAILED:
        return gd__sched_setup_failed(&d->sched, d->now, seat->index, message);
    case GD__R_CLEANUP_FAILED:
        gd__deliver_cleanup_failed(d, seat->index, message);
        return 0;
    default:
        return 0;
    }
}

static void take_record(struct gd_dispatcher *d, struct gd__seat *seat, const struct record *r)
{
    const char *wrong = gd__record_check(&d->sched, seat->index, &r->slot);
    int rc = 0;
    if (!wrong && r->slot.kind == GD__R_STARTED)
        rc = take_started(d, seat, r);
    else if (!wrong && is_result(r->slot.kind))
        rc = take_result(d, seat, r);
    else if (!wrong && r->slot.kind == GD__R_PARTIAL)
        take_partial(d, seat, r);
    else if (!wrong)
        rc = take_lifecycle(d, seat, r);
    if (rc < 0)
        wrong = "it sent a report at the wrong time";
    if (wrong)
        gd__seat_broken(seat, wrong);
}

bool gd__records_drain(struct gd_dispatcher *d, struct gd__seat *seat)
{
    struct gd__channel *c = &seat->channel;
    struct record r;
    int rc = 0;
    unsigned n = 0;
    while (n < DRAIN_MOST && !seat->broken && (rc = gd__channel_next(c, &r.slot, &r.bytes, &r.size)) > 0) {
        take_record(d, seat, &r);
        n++;
    }
    if (rc < 0)
        gd__seat_broken(seat, gd_error_text());
    if (n > 0)
        gd__channel_done(c, c->result_head, c->result_head);
    return n > 0;
}
