/* The loop of a worker that passes its tasks on.
 *
 *   claimed --put--> in flight --answered, in any order--> DONE --commit, in order of position--> (gone)
 *
 * The number of tasks in flight depends on how long they take: enough for AHEAD_NS. So many short tasks are sent
 * together, but a long task is sent alone, and other workers can take the next one. More tasks are sent when half of
 * them are answered. While a task is in flight the loop only waits for answers, and other workers can still get the
 * tasks that it has not claimed.
 *
 * A task's duration is not the time for which it was in flight, because most of that time it waited for other tasks. It
 * is the task's share of the time since the previous answers. The scheduler uses it to decide how many tasks to hand
 * out ahead.
 *
 * If the other program dies, every task in flight is suspect, because it is unknown which one caused the death. A task
 * that is suspect already (GD__TASK_SOLO) is sent alone.
 */
#include "worker/pipeline.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "worker/host.h"

#define AHEAD_NS GD__NS_PER_MS /* several times as long as waking the other program takes, even on a busy machine */

struct gd__pipeline {
    uint64_t sent;      /* positions below this were put */
    uint64_t in_flight; /* how many of those have no answer yet */
    uint64_t depth;     /* the maximum number of tasks in flight */
    uint64_t least;     /* the minimum of depth */
    uint64_t mean_ns;   /* mean duration of a task; 0: not known */
    uint64_t since_ns;  /* the time before this was shared by earlier answers: see share_time() */
    uint64_t expected;  /* the position whose answer is likely to come next */
    uint64_t n_answered;
    struct gd__entry **answered; /* answers since since_ns, in their order */
};

int gd__pipeline_open(struct gd_worker *w)
{
    struct gd__pipeline *l = gd__calloc(1, sizeof *l);
    struct gd__entry **answered = gd__calloc(w->entry_mask + 1, sizeof(struct gd__entry *));
    if (!l || !answered) {
        gd__free(l);
        gd__free(answered);
        return gd__error_errno("no memory for tasks in flight");
    }
    l->answered = answered;
    l->depth = l->least = w->batch_size;
    w->pipeline = l;
    return 0;
}

void gd__pipeline_close(struct gd_worker *w)
{
    if (!w->pipeline)
        return;
    gd__free(w->pipeline->answered);
    gd__free(w->pipeline);
    w->pipeline = NULL;
}

/* ---- sending ---- */

/* Claims the next task, if there is one and it may be claimed. */
static bool claim_next(struct gd_worker *w)
{
    const struct gd__pipeline *l = w->pipeline;
    return l->in_flight < l->depth && w->port.next - w->head <= w->entry_mask && w->pipe->has_room(w) &&
           gd__host_claim(w, 1);
}

static bool may_send(const struct gd_worker *w, uint64_t position)
{
    return position == w->head || !(gd__is_solo(w, position) || gd__is_solo(w, w->head));
}

static void send_one(struct gd_worker *w, uint64_t now_ns)
{
    struct gd__pipeline *l = w->pipeline;
    struct gd__entry *e = gd__entry_at(w, l->sent++);
    if (l->in_flight == 0)
        l->since_ns = now_ns;
    if (w->pipe->put(w, e)) {
        l->in_flight++;
    } else {
        e->start_ns = e->end_ns = now_ns;
        e->state = GD__ENTRY_DONE;
    }
}

/* Puts as many tasks in flight as depth allows. */
static void top_up(struct gd_worker *w)
{
    struct gd__pipeline *l = w->pipeline;
    const uint64_t first = l->sent;
    uint64_t now_ns = 0;
    if (l->in_flight > l->depth / 2)
        return;
    while ((l->sent < w->port.next || claim_next(w)) && may_send(w, l->sent)) {
        if (now_ns == 0) {
            if (l->in_flight == 0)
                w->pipe->check(w);
            now_ns = gd__ticks_now(&w->clock);
        }
        send_one(w, now_ns);
    }
    if (l->sent > first)
        gd__host_begin(w, first, l->sent, now_ns); /* before any of their bytes is sent */
}

/* ---- answers ---- */

static struct gd__entry *find_between(struct gd_worker *w, uint64_t id, uint64_t first, uint64_t below)
{
    for (uint64_t position = first; position < below; position++) {
        struct gd__entry *e = gd__entry_at(w, position);
        if (e->task.id == id && e->state != GD__ENTRY_DONE)
            return e;
    }
    return NULL;
}

/* Usually the task is the one after the task found last. */
struct gd__entry *gd__pipeline_find(struct gd_worker *w, uint64_t id)
{
    struct gd__pipeline *l = w->pipeline;
    const uint64_t from = l->expected > w->head ? l->expected : w->head;
    struct gd__entry *e = find_between(w, id, from, l->sent);
    if (!e)
        e = find_between(w, id, w->head, from < l->sent ? from : l->sent);
    if (e)
        l->expected = e->position + 1;
    return e;
}

uint64_t gd__pipeline_in_flight(const struct gd_worker *w)
{
    return w->pipeline->in_flight;
}

void gd__pipeline_answered(struct gd_worker *w, struct gd__entry *e)
{
    struct gd__pipeline *l = w->pipeline;
    GD__KILL_POINT("processed");
    e->state = GD__ENTRY_DONE;
    l->answered[l->n_answered++] = e;
    l->in_flight--;
}

/* Answers that came together share the time since the previous answers. */
static void share_time(struct gd_worker *w)
{
    struct gd__pipeline *l = w->pipeline;
    if (l->n_answered == 0)
        return;
    const uint64_t now_ns = gd__ticks_now(&w->clock), each_ns = (now_ns - l->since_ns) / l->n_answered;
    for (uint64_t i = 0; i < l->n_answered; i++) {
        l->answered[i]->start_ns = l->since_ns + i * each_ns;
        l->answered[i]->end_ns = l->since_ns + (i + 1) * each_ns;
    }
    l->n_answered = 0;
    l->since_ns = now_ns;
    l->mean_ns = l->mean_ns == 0 ? each_ns + 1 : (7 * l->mean_ns + each_ns) / 8 + 1;
    const uint64_t ahead = 1 + AHEAD_NS / l->mean_ns, most = ahead < GD__PIPE_DEPTH ? ahead : GD__PIPE_DEPTH;
    l->depth = most > l->least ? most : l->least;
}

void gd__pipeline_commit(struct gd_worker *w)
{
    share_time(w);
    gd__host_commit(w, w->pipeline->sent);
}

void gd__pipeline_loop(struct gd_worker *w)
{
    struct gd__pipeline *l = w->pipeline;
    for (;;) {
        top_up(w);
        if (l->in_flight > 0) {
            gd__host_flush(w);
            w->pipe->exchange(w);
        }
        gd__pipeline_commit(w);
        if (l->in_flight > 0 || l->sent < w->port.next || gd__port_poll(&w->port))
            continue;
        gd__host_flush(w);
        GD__KILL_POINT("waiting");
        if (!gd__host_wait(w))
            return;
    }
}
