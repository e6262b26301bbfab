/* Events for the thread of a node. They come from the link, the scheduler and the run. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "queue/run/internal.h"

struct gd__run_event *gd__queue_run_event(enum gd__run_event_kind kind, size_t bytes)
{
    struct gd__run_event *e = gd__calloc(1, sizeof *e + bytes);
    if (e)
        e->kind = kind;
    return e;
}

/* A node that misses an event may wait for it for ever, and would keep its tasks all that time. So it ends, and other
 * nodes get its tasks when their leases have run out. */
void gd__queue_run_post_locked(struct gd__queue_run *r, struct gd__run_event *e)
{
    if (!r->inbox)
        pthread_cond_signal(&r->news);
    if (!e) {
        r->is_short = true;
        return;
    }
    e->next = NULL;
    *r->inbox_end = e;
    r->inbox_end = &e->next;
}

static void post(struct gd__queue_run *r, struct gd__run_event *e)
{
    pthread_mutex_lock(&r->lock);
    gd__queue_run_post_locked(r, e);
    pthread_mutex_unlock(&r->lock);
}

void gd__queue_run_post(struct gd__queue_run *r, enum gd__run_event_kind kind, const struct gd__node_task *task)
{
    struct gd__run_event *e = gd__queue_run_event(kind, 0);
    if (e)
        e->task = task;
    post(r, e);
}

/* --- from the link --- */

static const char *add_text(char **at, const char *text)
{
    const size_t size = text ? strlen(text) + 1 : 0;
    const char *copy = text ? *at : NULL;
    if (size > 0)
        memcpy(*at, text, size);
    *at += size;
    return copy;
}

static size_t size_of(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static bool is_message(const struct gd__queue_answer *a)
{
    return a->kind == GD__ANSWER_ITEM && a->token && a->token[0] != '\0';
}

void gd__queue_run_refuse(struct gd__queue_run *r, const struct gd__queue_answer *a)
{
    if (is_message(a))
        gd__link_tell(r->link, GD__TELL_NAK, a->token, 0);
}

static struct gd__run_event *copy_answer(const struct gd__queue_answer *a)
{
    const size_t data = a->data ? a->size : 0;
    struct gd__run_event *e =
        gd__queue_run_event(GD__RUN_ANSWER, size_of(a->text) + size_of(a->subject) + size_of(a->token) + data);
    if (!e)
        return NULL;
    char *at = e->bytes;
    e->answer = *a;
    if (data > 0)
        memcpy(at, a->data, data);
    e->answer.data = a->data ? at : NULL;
    at += data;
    e->answer.text = add_text(&at, a->text);
    e->answer.subject = add_text(&at, a->subject);
    e->answer.token = add_text(&at, a->token);
    return e;
}

/* A pull may bring messages after the node has finished. A message without memory for it can be given back: the pull goes
 * on. */
static void post_answer(struct gd__queue_run *r, const struct gd__queue_answer *a)
{
    struct gd__run_event *e = copy_answer(a);
    pthread_mutex_lock(&r->lock);
    const bool is_refused = r->phase == GD__RUN_OVER || (!e && is_message(a));
    if (!is_refused)
        gd__queue_run_post_locked(r, e);
    pthread_mutex_unlock(&r->lock);
    if (!is_refused)
        return;
    gd__free(e);
    gd__queue_run_refuse(r, a);
}

void gd__queue_run_answered(void *run, const struct gd__queue_answer *a)
{
    struct gd__queue_run *r = run;
    if (a->id & GD__QUEUE_RUN_ID && a->id & GD__QUEUE_RUN_COUNT)
        gd__queue_run_count_answered(r, a);
    else if (a->id & GD__QUEUE_RUN_ID && a->id & GD__QUEUE_RUN_NODES)
        gd__queue_run_nodes_answered(r, a);
    else if (a->id & GD__QUEUE_RUN_ID)
        gd__queue_run_call_answered(r, a);
    else
        post_answer(r, a);
}

void gd__queue_run_connected(void *run, bool is_connected, const char *text)
{
    struct gd__queue_run *r = run;
    struct gd__run_event *e = gd__queue_run_event(GD__RUN_CONNECTED, 0);
    pthread_mutex_lock(&r->lock);
    const bool changed = r->connected != is_connected;
    if (changed && !is_connected)
        r->lost_at = gd__now_ns();
    r->connected = is_connected;
    if (e)
        e->is_connected = is_connected;
    gd__queue_run_post_locked(r, e);
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    if (changed && is_connected)
        gd__queue_run_say(r, "the server of the queue can be reached again");
    else if (changed)
        gd__queue_run_say(r,
                          "the connection to the server of the queue was lost%s%s: running tasks go on, and their "
                          "records are kept",
                          text && *text ? ": " : "", text ? text : "");
}

void gd__queue_run_closed(void *run, const char *text)
{
    struct gd__queue_run *r = run;
    char line[GD__QUEUE_RUN_TEXT];
    (void)snprintf(line, sizeof line, "the server of the queue does not accept this node any more%s%s",
                   text && *text ? ": " : "", text ? text : "");
    struct gd__run_event *e = gd__queue_run_event(GD__RUN_CLOSED, strlen(line) + 1);
    if (e)
        memcpy(e->bytes, line, strlen(line) + 1);
    pthread_mutex_lock(&r->lock);
    gd__queue_run_post_locked(r, e);
    pthread_mutex_unlock(&r->lock);
}

/* --- the thread --- */

void gd__queue_run_sleep(struct gd__queue_run *r, pthread_cond_t *on, uint64_t until_ns)
{
    if (until_ns == UINT64_MAX) {
        pthread_cond_wait(on, &r->lock);
        return;
    }
    const struct timespec until = { .tv_sec = (time_t)(until_ns / GD__NS_PER_S),
                                    .tv_nsec = (long)(until_ns % GD__NS_PER_S) };
    pthread_cond_timedwait(on, &r->lock, &until);
}

struct gd__run_event *gd__queue_run_wait(struct gd__queue_run *r, uint64_t until_ns)
{
    pthread_mutex_lock(&r->lock);
    while (!r->inbox && !r->stop && !r->is_short && gd__now_ns() < until_ns)
        gd__queue_run_sleep(r, &r->news, until_ns);
    struct gd__run_event *all = r->inbox;
    r->inbox = NULL;
    r->inbox_end = &r->inbox;
    pthread_mutex_unlock(&r->lock);
    return all;
}
