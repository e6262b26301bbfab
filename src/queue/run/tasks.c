/* Tasks on their way from the node to the scheduler, and back. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "queue/run/internal.h"

enum { SOURCE_WAIT_MS = 5000 };

/* --- to the scheduler --- */

static void describe(struct gd__queue_run_task *out, struct gd__queue_given *g)
{
    const struct gd__node_task *t = g->task;
    *out = (struct gd__queue_run_task){ .given = g,
                                        .data = t->task.payload.bytes.at,
                                        .size = t->task.payload.bytes.size,
                                        .weight = t->task.weight,
                                        .timeout_ms = t->task.timeout_ms,
                                        .priority = t->priority,
                                        .crashes = t->crashes };
}

static int take(struct gd__queue_run *r, struct gd__queue_run_task *out)
{
    int rc = 0;
    pthread_mutex_lock(&r->lock);
    while (!r->waiting && !r->cancelled && r->phase != GD__RUN_OVER)
        pthread_cond_wait(&r->changed, &r->lock);
    struct gd__queue_given *g = r->cancelled ? NULL : r->waiting;
    if (g) {
        r->waiting = g->next_waiting;
        if (!r->waiting)
            r->waiting_end = &r->waiting;
        r->n_taken++;
        describe(out, g);
        rc = 1;
    } else if (!r->cancelled && r->error < 0) {
        rc = gd__error(r->error, "%s", r->text);
    }
    pthread_mutex_unlock(&r->lock);
    return rc;
}

int gd__queue_run_take(struct gd__queue_run *r, struct gd__queue_run_task *out)
{
    int rc, found = 0;
    while (found == 0 && (rc = take(r, out)) > 0)
        found = gd__queue_run_payload(r, out);
    return found != 0 ? found : rc;
}

/* --- and back --- */

void gd__queue_run_unlink(struct gd__queue_run *r, struct gd__queue_given *g)
{
    if (g->previous)
        g->previous->next = g->next;
    else
        r->given = g->next;
    if (g->next)
        g->next->previous = g->previous;
}

/* e: NULL if there is no memory for it. */
static void post_end(struct gd__queue_run *r, struct gd__queue_given *g, struct gd__run_event *e)
{
    pthread_mutex_lock(&r->lock);
    if (e)
        e->task = g->task;
    gd__queue_run_unlink(r, g);
    r->n_taken--;
    if (r->phase == GD__RUN_WORKING && g->task)
        gd__queue_run_post_locked(r, e);
    else
        gd__free(e); /* the node has finished, or the task was given back already */
    pthread_mutex_unlock(&r->lock);
    gd__free(g);
}

void gd__queue_run_return(struct gd__queue_run *r, struct gd__queue_given *given, uint32_t crashes)
{
    struct gd__run_event *e = gd__queue_run_event(GD__RUN_RETURNED, 0);
    if (e)
        e->crashes = crashes;
    post_end(r, given, e);
}

static struct gd__queue_text add_text(char **at, struct gd__queue_text text)
{
    const struct gd__queue_text copy = { *at, text.size };
    if (text.size > 0)
        memcpy(*at, text.at, text.size);
    *at += text.size;
    return copy;
}

void gd__queue_run_end(struct gd__queue_run *r, struct gd__queue_given *given, const struct gd__queue_record *record)
{
    const struct gd__queue_record *c = record;
    struct gd__run_event *e =
        gd__queue_run_event(GD__RUN_ENDED, c->gpu.size + c->failure.size + c->error.size + c->stderr_end.size +
                                               c->output.bytes.size + c->output.file.size);
    if (!e) { /* without a record: another node runs it */
        gd__queue_run_return(r, given, 0);
        return;
    }
    char *at = e->bytes;
    e->record = *c;
    e->record.gpu = add_text(&at, c->gpu);
    e->record.failure = add_text(&at, c->failure);
    e->record.error = add_text(&at, c->error);
    e->record.stderr_end = add_text(&at, c->stderr_end);
    e->record.output.bytes = add_text(&at, c->output.bytes);
    e->record.output.file = add_text(&at, c->output.file);
    post_end(r, given, e);
}

void gd__queue_run_set_slots(struct gd__queue_run *r, unsigned slots)
{
    struct gd__run_event *e = gd__queue_run_event(GD__RUN_SLOTS, 0);
    if (!e)
        return; /* it works with the former number */
    e->slots = slots;
    pthread_mutex_lock(&r->lock);
    if (r->slots != slots)
        gd__queue_run_post_locked(r, e);
    else
        gd__free(e);
    r->slots = slots;
    pthread_mutex_unlock(&r->lock);
}

/* --- the end --- */

/* The lock is held. */
static void post_returned(struct gd__queue_run *r, const struct gd__node_task *task)
{
    struct gd__run_event *e = gd__queue_run_event(GD__RUN_RETURNED, 0);
    if (e)
        e->task = task;
    gd__queue_run_post_locked(r, e);
}

/* Gives back the tasks that the feeder has not taken, or all. The lock is held. */
static void return_given(struct gd__queue_run *r, bool all)
{
    struct gd__queue_given *g = r->waiting;
    r->waiting = NULL;
    r->waiting_end = &r->waiting;
    while (g) {
        struct gd__queue_given *next = g->next_waiting;
        gd__queue_run_unlink(r, g);
        post_returned(r, g->task);
        gd__free(g);
        g = next;
    }
    for (g = all ? r->given : NULL; g; g = g->next) { /* what is freed later has lost its task */
        if (g->task)
            post_returned(r, g->task);
        g->task = NULL;
    }
}

/* Comes before anything is given back: a node that stays gives tasks back with a delay, so as not to get them again. */
static void drain(struct gd__queue_run *r)
{
    if (!r->drain_sent)
        gd__queue_run_post_locked(r, gd__queue_run_event(GD__RUN_DRAIN, 0));
    r->drain_sent = true;
}

void gd__queue_run_cancel(struct gd__queue_run *r, const char *reason)
{
    pthread_mutex_lock(&r->lock);
    r->cancelled = true;
    if (reason && !r->note[0])
        snprintf(r->note, sizeof r->note, "%s", reason);
    drain(r);
    return_given(r, false);
    pthread_cond_broadcast(&r->changed);
    pthread_cond_signal(&r->news); /* it may wait for the queue to exist */
    pthread_mutex_unlock(&r->lock);
}

/* Until when to wait for the server. It may also have stopped without closing the connection. */
static uint64_t patience(const struct gd__queue_run *r, uint64_t lost_ms)
{
    return (r->connected ? r->moved_at : r->lost_at) + lost_ms * GD__NS_PER_MS;
}

static int give_up(struct gd__queue_run *r)
{
    if (!r->spool || r->figures.unpublished == 0)
        return gd__error(GD_E_SYSTEM, "the server of the queue cannot be reached: this node leaves. Its tasks are run "
                                      "again by others");
    return gd__error(
        GD_E_SYSTEM,
        "the server of the queue cannot be reached: this node leaves. Records of tasks that have ended are "
        "in %s: the next node with this file publishes them (--spool %s)",
        gd__spool_path(r->spool), gd__spool_path(r->spool));
}

/* The source returns as soon as it is cancelled, unless it is reading a file of a disk that does not answer. */
static void await_source(struct gd__queue_run *r)
{
    const uint64_t until = gd__now_ns() + SOURCE_WAIT_MS * GD__NS_PER_MS;
    while (r->is_source && gd__now_ns() < until)
        gd__queue_run_sleep(r, &r->changed, until);
}

/* Waits until the node has finished. */
static void await_end(struct gd__queue_run *r, uint64_t lost_ms)
{
    r->moved_at = gd__now_ns();
    if (!r->connected && r->lost_at + lost_ms * GD__NS_PER_MS < gd__now_ns())
        r->lost_at = gd__now_ns(); /* it is tried for lost_ms from now on */
    while (r->phase == GD__RUN_WORKING && gd__now_ns() < patience(r, lost_ms))
        gd__queue_run_sleep(r, &r->changed, patience(r, lost_ms));
}

int gd__queue_run_finish(struct gd__queue_run *r, uint64_t lost_ms)
{
    int rc = 0;
    pthread_mutex_lock(&r->lock);
    r->cancelled = true;
    pthread_cond_broadcast(&r->changed);
    pthread_cond_signal(&r->news);
    await_source(r);
    drain(r);
    return_given(r, !r->is_source);
    if (!r->is_source)
        await_end(r, lost_ms);
    if (r->phase == GD__RUN_WORKING)
        rc = give_up(r);
    else if (r->phase == GD__RUN_OVER && r->error < 0)
        rc = gd__error(r->error, "%s", r->text);
    pthread_mutex_unlock(&r->lock);
    return rc;
}
