/* A node as part of a run: opening, the thread that drives the node, closing. See queue_run.h. */
#include "queue/run/queue_run.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"
#include "queue/run/internal.h"

enum { CLOSE_MS = 1000 }; /* for the last messages to the server */

void gd__queue_run_say(struct gd__queue_run *r, const char *format, ...)
{
    char line[GD__QUEUE_RUN_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    pthread_mutex_lock(&r->lock);
    void (*say)(void *, const char *) = r->say;
    pthread_mutex_unlock(&r->lock);
    if (say)
        say(r->user, line);
}

/* --- the thread --- */

static void over(struct gd__queue_run *r, int error)
{
    pthread_mutex_lock(&r->lock);
    r->phase = GD__RUN_OVER;
    r->error = r->cancelled && error == GD_E_SHUTDOWN ? 0 : error;
    snprintf(r->text, sizeof r->text, "%s", error < 0 ? gd_error_text() : "");
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static int publish_kept(void *user, const struct gd__queue_key *key, const void *message, size_t size)
{
    struct gd__queue_run *r = user;
    return gd__node_publish_kept(r->node, key, message, size);
}

static uint64_t time_of(int64_t ms)
{
    return (uint64_t)ms * GD__NS_PER_MS;
}

static int open_node(struct gd__queue_run *r)
{
    const struct gd_queue_options *q = r->queue;
    struct gd__node_effects effects = gd__queue_run_effects;
    effects.user = r;
    pthread_mutex_lock(&r->lock);
    const unsigned slots = r->slots;
    pthread_mutex_unlock(&r->lock);
    const struct gd__node_config config = {
        .name = r->address.name,
        .host = r->host,
        .slots = slots,
        .crash_limit = r->crash_limit,
        .lease_ms = r->lease_ms,
        .max_payload = r->server.max_payload,
        .idle_ns = q->idle_exit_ms > 0 ? time_of(q->idle_exit_ms) : UINT64_MAX,
        .stay = q->idle_exit_ms == GD_QUEUE_IDLE_NEVER,
        .lost_ns = q->lost_timeout_ms * GD__NS_PER_MS,
        .priorities = r->priorities,
    };
    int rc = gd__node_open(&r->node, &config, &effects);
    if (rc < 0)
        return gd__error(rc, "no memory for a node");
    const uint64_t kept = r->spool ? gd__spool_count(r->spool) : 0;
    if (kept > 0)
        gd__queue_run_say(r, "publishing %llu record%s of an earlier run from %s", (unsigned long long)kept,
                          kept == 1 ? "" : "s", gd__spool_path(r->spool));
    return r->spool ? gd__spool_each(r->spool, publish_kept, r) : 0;
}

static void handle(struct gd__queue_run *r, const struct gd__run_event *e)
{
    const uint64_t now = gd__now_ns();
    switch (e->kind) {
    case GD__RUN_ANSWER:
        gd__node_answer(r->node, now, &e->answer);
        break;
    case GD__RUN_CONNECTED:
        gd__node_connected(r->node, now, e->is_connected);
        break;
    case GD__RUN_CLOSED:
        gd__node_closed(r->node, now, e->bytes);
        break;
    case GD__RUN_ENDED:
        gd__node_ended(r->node, now, e->task, &e->record);
        break;
    case GD__RUN_RETURNED:
        gd__node_charged(r->node, now, e->task, e->crashes);
        break;
    case GD__RUN_DRAIN:
        gd__node_drain(r->node, now);
        break;
    case GD__RUN_SLOTS:
        gd__node_set_slots(r->node, e->slots);
        break;
    case GD__RUN_LOOK: /* the thread looks after each round */
        break;
    }
}

/* Handles all events. If the node has finished, messages must not wait for their leases to run out. */
static void handle_all(struct gd__queue_run *r, struct gd__run_event *e)
{
    while (e) {
        struct gd__run_event *next = e->next;
        if (!r->finished)
            handle(r, e);
        else if (e->kind == GD__RUN_ANSWER)
            gd__queue_run_refuse(r, &e->answer);
        gd__free(e);
        e = next;
    }
}

static void copy_figures(struct gd__queue_run *r)
{
    struct gd__node_figures f;
    gd__node_figures(r->node, &f);
    pthread_mutex_lock(&r->lock);
    if (r->drain_sent && (f.held != r->figures.held || f.unpublished != r->figures.unpublished)) {
        r->moved_at = gd__now_ns();
        pthread_cond_broadcast(&r->changed);
    }
    r->figures = f;
    if (r->finished) {
        r->phase = GD__RUN_OVER;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->lock);
}

static bool must_stop(struct gd__queue_run *r)
{
    pthread_mutex_lock(&r->lock);
    const bool stop = r->stop || r->is_short;
    pthread_mutex_unlock(&r->lock);
    return stop;
}

/* If an event was lost, the node cannot go on. */
static void end_if_short(struct gd__queue_run *r)
{
    pthread_mutex_lock(&r->lock);
    if (r->is_short && !r->finished) {
        gd__queue_run_set_error(r, GD_E_NO_MEMORY,
                                "no memory for an event of the queue: this node leaves. Its tasks are run again by "
                                "others when their leases have run out");
        r->finished = true;
        r->phase = GD__RUN_OVER;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->lock);
}

static void work(struct gd__queue_run *r)
{
    while (!must_stop(r)) {
        const uint64_t due = gd__node_tick(r->node, gd__now_ns());
        copy_figures(r);
        if (r->finished)
            return;
        const uint64_t status = gd__queue_run_status(r, gd__now_ns(), false),
                       look = gd__queue_run_look(r, gd__now_ns());
        const uint64_t first = status < look ? status : look;
        handle_all(r, gd__queue_run_wait(r, first < due ? first : due));
    }
}

/* The last status. The answer shows that the server has it. */
static void leave(struct gd__queue_run *r)
{
    pthread_mutex_lock(&r->lock);
    const bool connected = r->connected;
    pthread_mutex_unlock(&r->lock);
    if (!connected)
        return;
    (void)gd__queue_run_status(r, gd__now_ns(), true);
    const uint64_t until = gd__now_ns() + CLOSE_MS * GD__NS_PER_MS;
    pthread_mutex_lock(&r->lock);
    while (r->call.id != 0 && !r->call.is_answered && gd__now_ns() < until)
        gd__queue_run_sleep(r, &r->news, until);
    pthread_mutex_unlock(&r->lock);
}

/* A file that the user has named must work. Without the default file, work goes on. */
static int open_spool(struct gd__queue_run *r)
{
    if (r->queue->spool)
        return gd__spool_open(&r->spool, r->queue->spool, r->address.name, &r->queue_id);
    if (gd__spool_open_default(&r->spool, r->address.name, &r->queue_id, r->host) < 0)
        gd__queue_run_say(
            r, "no spool file: %s. If this node dies, work that the server does not know about is done again",
            gd_error_text());
    return 0;
}

static void *thread_main(void *arg)
{
    struct gd__queue_run *r = arg;
    int rc = gd__queue_run_prepare(r);
    if (rc == 0)
        rc = open_spool(r);
    if (rc == 0)
        rc = open_node(r);
    if (rc < 0) {
        over(r, rc);
        return NULL;
    }
    pthread_mutex_lock(&r->lock);
    r->phase = GD__RUN_WORKING;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    work(r);
    end_if_short(r);
    if (r->finished)
        handle_all(r, gd__queue_run_wait(r, 0)); /* what came before the others knew it */
    leave(r);
    return NULL;
}

/* --- opening --- */

static void make_id(struct gd__queue_run *r)
{
    unsigned char bytes[(GD__QUEUE_NODE_ROOM - 1) / 2] = { 0 };
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
        const uint64_t now = gd__now_ns(), pid = (uint64_t)getpid();
        memcpy(bytes, &now, sizeof now);
        memcpy(bytes + sizeof now, &pid, sizeof bytes - sizeof now);
    }
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(r->id + 2 * i, 3, "%02x", bytes[i]);
}

static void find_host(struct gd__queue_run *r)
{
    if (gethostname(r->host, sizeof r->host) < 0 || !r->host[0])
        snprintf(r->host, sizeof r->host, "unknown");
    r->host[sizeof r->host - 1] = '\0';
}

static int open_conditions(struct gd__queue_run *r)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->news, &monotonic);
    pthread_cond_init(&r->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    r->inbox_end = &r->inbox;
    r->waiting_end = &r->waiting;
    return 0;
}

/* Waits until the node works, waits for its server or its queue, or cannot begin. */
static int await_beginning(struct gd__queue_run *r)
{
    pthread_mutex_lock(&r->lock);
    while (r->phase == GD__RUN_PREPARING)
        pthread_cond_wait(&r->changed, &r->lock);
    const int rc = r->phase == GD__RUN_OVER && r->error < 0 ? gd__error(r->error, "%s", r->text) : 0;
    pthread_mutex_unlock(&r->lock);
    return rc;
}

static int begin(struct gd__queue_run *r, gd__queue_connect_fn *connect)
{
    const int rc = r->queue->spill_dir ? gd__spill_check(r->queue->spill_dir) : 0;
    if (rc < 0)
        return rc;
    r->connect = connect;
    r->connected = true;
    errno = gd__thread_start(&r->thread, "gd-queue", thread_main, r);
    if (errno != 0)
        return gd__error_errno("cannot start the thread of a queue");
    r->has_thread = true;
    return await_beginning(r);
}

int gd__queue_run_open(struct gd__queue_run **out, const struct gd__queue_run_spec *spec)
{
    *out = NULL;
    struct gd__queue_run *r = gd__calloc(1, sizeof *r);
    if (!r)
        return gd__error(GD_E_NO_MEMORY, "no memory for a node");
    atomic_store(&r->refs, 1);
    (void)open_conditions(r);
    r->workers = spec->workers;
    r->slots = spec->slots;
    r->crash_limit = spec->crash_limit;
    r->say = spec->say;
    r->counted = spec->counted;
    r->user = spec->user;
    snprintf(r->http, sizeof r->http, "%s", spec->http);
    make_id(r);
    find_host(r);
    int rc = gd__queue_options_copy(&r->queue, spec->queue);
    if (rc == 0)
        rc = gd__queue_address_parse(&r->address, r->queue->url);
    if (rc == 0)
        rc = begin(r, spec->connect);
    if (rc < 0) {
        gd__queue_run_close(&r);
        return rc;
    }
    *out = r;
    return 0;
}

/* --- closing --- */

static void free_all(struct gd__queue_run *r)
{
    gd__node_close(&r->node);
    gd__spool_close(&r->spool);
    for (struct gd__run_event *e = r->inbox, *next; e; e = next) {
        next = e->next;
        gd__free(e);
    }
    for (struct gd__queue_given *g = r->given, *next; g; g = next) {
        next = g->next;
        gd__free(g);
    }
    gd__queue_run_nodes_free(&r->nodes);
    gd__free(r->call.data);
    gd__buffer_free(&r->payload);
    gd__queue_options_free(r->queue);
    pthread_cond_destroy(&r->news);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    gd__free(r);
}

static void release(struct gd__queue_run *r)
{
    if (atomic_fetch_sub(&r->refs, 1) == 1)
        free_all(r);
}

void gd__queue_run_hold(struct gd__queue_run *r)
{
    atomic_fetch_add(&r->refs, 1);
    r->is_source = true; /* the source has not begun */
}

void gd__queue_run_release(struct gd__queue_run *r)
{
    pthread_mutex_lock(&r->lock);
    r->is_source = false;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    release(r);
}

void gd__queue_run_share(struct gd__queue_run *r)
{
    atomic_fetch_add(&r->refs, 1);
}

void gd__queue_run_unshare(struct gd__queue_run *r)
{
    release(r);
}

void gd__queue_run_close(struct gd__queue_run **rp)
{
    struct gd__queue_run *r = *rp;
    *rp = NULL;
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->stop = r->cancelled = true;
    r->say = NULL;
    pthread_cond_broadcast(&r->changed);
    pthread_cond_broadcast(&r->news);
    pthread_mutex_unlock(&r->lock);
    if (r->has_thread)
        pthread_join(r->thread, NULL);
    if (r->link)
        r->link->ops->close(r->link, CLOSE_MS);
    r->link = NULL;
    release(r);
}
