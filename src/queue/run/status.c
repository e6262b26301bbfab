/* What others see of this node: its status, which it publishes every few seconds. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "queue/run/internal.h"

#define MINUTE_NS (60 * GD__NS_PER_S) /* in the first minute the queue is counted more often */

static void describe(struct gd__queue_run *r, struct gd__node_status *s, bool has_left)
{
    const struct gd__node_figures *f = &r->figures;
    memset(s, 0, sizeof *s);
    pthread_mutex_lock(&r->lock);
    s->state = has_left ? GD__NODE_LEFT : r->cancelled || f->draining ? GD__NODE_DRAINING : GD__NODE_RUNNING;
    const uint64_t begun = r->n_taken < r->slots ? r->n_taken : r->slots;
    s->busy = (uint32_t)((begun * r->workers + r->slots - 1) / r->slots);
    snprintf(s->http, sizeof s->http, "%s", r->http);
    snprintf(s->note, sizeof s->note, "%s", r->note);
    pthread_mutex_unlock(&r->lock);
    snprintf(s->host, sizeof s->host, "%s", r->host);
    s->pid = (uint64_t)getpid();
    s->workers = r->workers;
    s->done = f->won > f->failed ? f->won - f->failed : 0;
    s->failed = f->failed;
    s->held = f->given;
    s->tasks_per_second = r->rate;
}

/* The rate since the last status, smoothed. */
static void measure(struct gd__queue_run *r, uint64_t now)
{
    if (r->last_status > 0 && now > r->last_status) {
        const double seconds = (double)(now - r->last_status) / (double)GD__NS_PER_S;
        const double recent = (double)(r->figures.won - r->last_won) / seconds;
        r->rate = r->rate > 0 ? 0.5 * r->rate + 0.5 * recent : recent;
    }
    r->last_status = now;
    r->last_won = r->figures.won;
}

static void publish(struct gd__queue_run *r, bool has_left)
{
    struct gd__node_status status;
    struct gd__buffer b = { .data = NULL };
    char subject[GD__QUEUE_SUBJECT_ROOM];
    describe(r, &status, has_left);
    gd__node_status_write(&b, &status);
    if (!b.failed) {
        const struct gd__queue_request request = {
            .ask = GD__ASK_PUBLISH,
            .id = GD__QUEUE_RUN_ID | ++r->next_id,
            .stream = GD__QUEUE_STATE,
            .subject = gd__node_status_subject(subject, r->address.name, r->id),
            .data = b.data,
            .size = b.size,
            .condition = GD__IF_ANY,
            .timeout_ms = has_left ? 1000 : 0,
        };
        pthread_mutex_lock(&r->lock);
        r->call.id = has_left ? request.id : 0;
        r->call.is_answered = false;
        pthread_mutex_unlock(&r->lock);
        if (gd__link_ask(r->link, &request) < 0) {
            pthread_mutex_lock(&r->lock);
            r->call.id = 0; /* nobody waits for an answer */
            pthread_mutex_unlock(&r->lock);
        }
    }
    gd__buffer_free(&b);
}

/* --- the progress of the whole queue --- */

/* Asks for the number of tasks. The answer to that asks for the number of records, which is never larger then. */
static void count(struct gd__queue_run *r, enum gd__queue_kind stream)
{
    const struct gd__queue_request q = { .ask = GD__ASK_STREAM,
                                         .id = GD__QUEUE_RUN_ID | GD__QUEUE_RUN_COUNT | (unsigned)stream,
                                         .stream = stream };
    (void)gd__link_ask(r->link, &q);
}

void gd__queue_run_count_answered(struct gd__queue_run *r, const struct gd__queue_answer *a)
{
    const bool is_tasks = (a->id & 0xff) == GD__QUEUE_TASK;
    if (a->kind != GD__ANSWER_OK)
        return;
    pthread_mutex_lock(&r->lock);
    if (is_tasks)
        r->counted_tasks = a->stream.messages;
    else
        r->counted_records = a->stream.messages;
    const uint64_t tasks = r->counted_tasks;
    pthread_mutex_unlock(&r->lock);
    if (is_tasks)
        count(r, GD__QUEUE_RECORD);
    else
        r->counted(r->user, tasks, a->stream.messages);
}

uint64_t gd__queue_run_status(struct gd__queue_run *r, uint64_t now, bool has_left)
{
    if (now < r->status_due && !has_left)
        return r->status_due;
    measure(r, now);
    publish(r, has_left);
    if (r->counted && now >= r->count_due && !has_left) {
        count(r, GD__QUEUE_TASK);
        r->began = r->began > 0 ? r->began : now;
        r->count_due = now + (now - r->began < MINUTE_NS ? 0 : GD__QUEUE_RUN_COUNT_MS * GD__NS_PER_MS);
    }
    r->status_due = now + GD__QUEUE_RUN_STATUS_MS * GD__NS_PER_MS;
    return r->status_due;
}

/* --- what the run reports --- */

void gd__queue_run_note(struct gd__queue_run *r, const char *note)
{
    pthread_mutex_lock(&r->lock);
    snprintf(r->note, sizeof r->note, "%s", note);
    pthread_mutex_unlock(&r->lock);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The node itself counts messages only when it has nothing to do. They never become fewer. */
void gd__queue_run_figures(struct gd__queue_run *r, struct gd__queue_run_figures *out)
{
    pthread_mutex_lock(&r->lock);
    *out = (struct gd__queue_run_figures){ .connected = r->connected,
                                           .tasks = larger(r->figures.tasks, r->counted_tasks),
                                           .records = larger(r->figures.records, r->counted_records),
                                           .unpublished = r->figures.unpublished,
                                           .failed_unrun = r->figures.convicted + r->unreadable };
    pthread_mutex_unlock(&r->lock);
}
