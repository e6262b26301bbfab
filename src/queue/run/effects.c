/* What a node does: requests go to the link, tasks to the feeder, records to the spool. All on the node's thread. */
#include <stdio.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/error.h"
#include "queue/run/internal.h"

static void ask(void *user, const struct gd__queue_request *request)
{
    struct gd__queue_run *r = user;
    if (gd__link_ask(r->link, request) >= 0)
        return;
    /* There is no answer then. The node gets one as if it had been lost, and asks again. */
    const struct gd__queue_answer lost = { .id = request->id, .kind = GD__ANSWER_LOST, .text = "" };
    gd__queue_run_answered(r, &lost);
}

static void tell(void *user, enum gd__queue_notice notice, const char *token, uint32_t delay_ms)
{
    const struct gd__queue_run *r = user;
    gd__link_tell(r->link, notice, token, delay_ms);
}

static void give(void *user, const struct gd__node_task *task)
{
    struct gd__queue_run *r = user;
    struct gd__queue_given *g = gd__calloc(1, sizeof *g);
    pthread_mutex_lock(&r->lock);
    const bool refused = !g || r->cancelled;
    if (!refused) {
        g->task = task;
        g->next = r->given;
        if (r->given)
            r->given->previous = g;
        r->given = g;
        *r->waiting_end = g;
        r->waiting_end = &g->next_waiting;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->lock);
    if (refused) {
        gd__free(g);
        gd__queue_run_post(r, GD__RUN_RETURNED, task);
    }
}

static int keep(void *user, const struct gd__queue_key *key, const void *message, size_t size)
{
    struct gd__queue_run *r = user;
    pthread_mutex_lock(&r->lock);
    const bool connected = r->connected;
    pthread_mutex_unlock(&r->lock);
    /* With a connection the server gets it in a moment. Without one, this is the only copy for a long time. */
    const int rc = r->spool ? gd__spool_keep(r->spool, key, message, size, !connected) : GD_E_UNSUPPORTED;
    if (rc < 0 && r->spool && !r->spool_failed) {
        r->spool_failed = true;
        gd__queue_run_say(r, "%s: if this node dies before the server has a record, its task is run again",
                          gd_error_text());
    }
    return rc;
}

static void forget(void *user, const struct gd__queue_key *key)
{
    struct gd__queue_run *r = user;
    if (r->spool)
        gd__spool_forget(r->spool, key);
}

static void decided(void *user, const struct gd__node_task *task, bool won)
{
    (void)user, (void)task, (void)won; /* the node counts them */
}

void gd__queue_run_set_error(struct gd__queue_run *r, int error, const char *text)
{
    r->error = error;
    if (r->spool && gd__spool_count(r->spool) > 0)
        snprintf(r->text, sizeof r->text,
                 "%s. Records of tasks that have ended are in %s: the next node with this file publishes them (--spool "
                 "%s)",
                 text, gd__spool_path(r->spool), gd__spool_path(r->spool));
    else
        snprintf(r->text, sizeof r->text, "%s", text);
}

static void finished(void *user, enum gd__node_end end, const char *text)
{
    struct gd__queue_run *r = user;
    pthread_mutex_lock(&r->lock);
    const char *said = text && *text ? text
                       : end == GD__NODE_CUT_OFF
                           ? "the server of the queue could not be reached any more: this node has given up"
                           : "the server of the queue does not work with this node";
    if (end == GD__NODE_CUT_OFF || end == GD__NODE_FAILED)
        gd__queue_run_set_error(r, end == GD__NODE_CUT_OFF ? GD_E_SYSTEM : GD_E_SOURCE, said);
    r->finished = true; /* the others learn it after this round, with its figures */
    pthread_mutex_unlock(&r->lock);
    if (end == GD__NODE_IDLE)
        gd__queue_run_say(r, "there was no task for this node for a while: it leaves (--idle-exit)");
}

static void say(void *user, const char *line)
{
    gd__queue_run_say(user, "%s", line);
}

static uint64_t random_number(void *user)
{
    uint64_t n = 0;
    (void)user;
    if (getrandom(&n, sizeof n, 0) != sizeof n)
        n = gd__now_ns() * UINT64_C(0x9e3779b97f4a7c15);
    return n;
}

const struct gd__node_effects gd__queue_run_effects = {
    .ask = ask,
    .tell = tell,
    .give = give,
    .keep = keep,
    .forget = forget,
    .decided = decided,
    .finished = finished,
    .say = say,
    .random = random_number,
};
