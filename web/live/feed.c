/* SPDX-License-Identifier: MIT
 *
 * Sends the state of a run to watchers, as texts. The texts are numbered, and the last few are in a ring. A watcher
 * stores the number of its next text and holds a reference to the text that it is sending. If its next text is no
 * longer in the ring, it gets the state instead. The state is made at most once per sample, for all watchers that need
 * it.
 *
 *   event: state    everything; the first event of each stream, and the next one for a watcher that fell behind
 *   event: update   new tasks and failures; all figures, workers and devices
 *   event: end      the same as update; the last event
 *
 * The sampling thread reads snapshots without the lock, because no other thread reads them.
 */
#include "web/live/feed.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/failure.h"
#include "base/text/buffer.h"
#include "base/thread.h"
#include "web/live/history.h"
#include "web/live/last_snapshot.h"
#include "web/live/view.h"

enum { SLOW_MS = 1000, FAST_MS = 100, RING = 32, MOST_WATCHERS = 256 };

struct text {
    unsigned refs; /* protected by the lock */
    struct gd__buffer bytes;
};

struct web_watcher {
    struct web_feed *feed;
    struct web_watcher *before, *after;
    const struct web_watch_ops *ops;
    void *arg;
    struct text *at; /* the text that is being sent, from offset; NULL: none */
    size_t offset;
    uint64_t next; /* number of the next text; 0: the state */
    bool asleep, gone;
};

struct web_feed {
    web_read_fn *read;
    void *user;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a watcher came or left, or the thread must stop */
    bool stop, ended;
    struct web_last kept;
    struct web_history history;
    struct view_history seen; /* for the computed figures */
    uint64_t sequence;        /* of the last sample that was sent to watchers; the first is 1 */
    struct text *ring[RING];  /* text i is at i % RING; NULL: there was no watcher then */
    struct text *state;       /* the state of this sequence; NULL: not needed yet */
    uint64_t published_ns;    /* when something was last sent to watchers */
    struct web_watcher *first;
    size_t n_watchers, n_gone; /* all watchers; those of them whose client is gone */
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- texts --------------------------------------------------------------------------- */

static void let_go(struct text *t)
{
    if (t && --t->refs == 0) {
        gd__buffer_free(&t->bytes);
        free(t);
    }
}

/* Makes an event of the stream. Returns NULL if memory runs out. */
static struct text *make_text(const struct web_feed *f, const char *event, const struct gd_snapshot *s)
{
    struct text *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->refs = 1;
    gd__buffer_format(&t->bytes, "id: %llu\nevent: %s\ndata: ", (unsigned long long)f->sequence, event);
    web_view_json(&t->bytes, s, &f->seen, f->sequence);
    gd__buffer_text(&t->bytes, "\n\n");
    if (t->bytes.failed) {
        let_go(t);
        return NULL;
    }
    return t;
}

/* Returns the next text for w, with a reference. Returns NULL if there is none, or if memory runs out. */
static struct text *next_text(struct web_watcher *w)
{
    struct web_feed *f = w->feed;
    struct text *t = NULL;
    if (w->next > f->sequence)
        return NULL;
    if (w->next > 0 && f->sequence - w->next < RING)
        t = f->ring[w->next % RING];
    if (!t) {
        if (!f->state)
            f->state = make_text(f, "state", &f->kept.s);
        t = f->state;
        w->next = f->sequence;
    }
    w->next++;
    if (t)
        t->refs++;
    return t;
}

/* --- sampling ---------------------------------------------------------------------------- */

static void wake_all(struct web_feed *f)
{
    for (struct web_watcher *w = f->first; w; w = w->after) {
        if (w->asleep) {
            w->asleep = false;
            w->ops->wake(w->arg);
        }
    }
}

/* Wakes sleeping watchers whose client has closed the connection. */
static void sweep(struct web_feed *f)
{
    for (struct web_watcher *w = f->first; w; w = w->after) {
        if (w->asleep && w->ops->is_gone(w->arg)) {
            w->asleep = false;
            w->gone = true;
            f->n_gone++;
            w->ops->wake(w->arg);
        }
    }
}

static void publish(struct web_feed *f, const struct gd_snapshot *news)
{
    f->sequence++;
    f->published_ns = now_ns();
    let_go(f->state);
    f->state = NULL;
    struct text **slot = &f->ring[f->sequence % RING];
    let_go(*slot);
    *slot = f->n_watchers > 0 ? make_text(f, f->ended ? "end" : "update", news) : NULL;
    wake_all(f);
}

static void add_history(struct web_feed *f)
{
    const struct gd_snapshot *s = &f->kept.s;
    const struct web_sample sample = { .seconds = web_seconds(s),
                                       .completed = s->stats->completed,
                                       .failed = s->stats->failed + s->stats->timeouts,
                                       .running = s->stats->running };
    if (s->stats->start_ns)
        web_history_add(&f->history, &sample);
}

/* The caller holds the lock. */
static void take_in(struct web_feed *f, const struct gd_snapshot *s)
{
    struct gd_snapshot news;
    const bool differs = f->sequence == 0 || web_last_differs(&f->kept, s);
    if (web_last_add(&f->kept, s, &news) < 0)
        return;
    add_history(f);
    view_history_add(&f->seen, &f->kept.s);
    if (differs || now_ns() - f->published_ns >= (uint64_t)SLOW_MS * 1000000u)
        publish(f, &news);
}

/* Reads a snapshot. The caller does not hold the lock. Returns false if the run is over. */
static bool sample(struct web_feed *f)
{
    const struct gd_snapshot *s = NULL;
    const int rc = f->read(f->user, &s);
    if ((rc < 0 && rc != GD_E_NO_JOB) || !s)
        return true; /* the next read may succeed */
    struct gd_snapshot copy = *s;
    pthread_mutex_lock(&f->lock);
    copy.ended = copy.ended || rc == GD_E_NO_JOB;
    take_in(f, &copy);
    sweep(f);
    pthread_mutex_unlock(&f->lock);
    return !copy.ended;
}

/* Waits until the next sample is due. The caller holds the lock. Returns false if the thread must stop. */
static bool wait_turn(struct web_feed *f, uint64_t last_ns)
{
    while (!f->stop) {
        const uint64_t due = last_ns + (uint64_t)(f->n_watchers ? FAST_MS : SLOW_MS) * 1000000u;
        const struct timespec until = { .tv_sec = (time_t)(due / 1000000000u), .tv_nsec = (long)(due % 1000000000u) };
        if (now_ns() >= due)
            return true;
        (void)pthread_cond_timedwait(&f->changed, &f->lock, &until);
    }
    return false;
}

static void *sampler(void *arg)
{
    struct web_feed *f = arg;
    bool more = true;
    pthread_mutex_lock(&f->lock);
    while (more && wait_turn(f, now_ns())) {
        pthread_mutex_unlock(&f->lock);
        more = sample(f);
        pthread_mutex_lock(&f->lock);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* --- opening and closing -------------------------------------------------------------------- */

int web_feed_open(struct web_feed **out, web_read_fn *read, void *user)
{
    struct web_feed *f = calloc(1, sizeof *f);
    pthread_condattr_t monotonic;
    if (!f)
        return gd__fail("out of memory");
    f->read = read;
    f->user = user;
    pthread_mutex_init(&f->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&f->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    (void)sample(f);
    int rc = gd__thread_start(&f->thread, "gd-feed", sampler, f);
    if (rc != 0) {
        f->stop = true;
        web_feed_close(&f);
        return gd__fail("--http: cannot start a thread: %s", strerror(rc));
    }
    *out = f;
    return 0;
}

/* Ends the thread and waits for it, if it runs. */
static void stop_thread(struct web_feed *f)
{
    pthread_mutex_lock(&f->lock);
    const bool running = !f->stop;
    f->stop = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    if (running)
        pthread_join(f->thread, NULL);
}

/* Sends the last event, with the newest sample. The caller holds the lock. */
static void publish_end(struct web_feed *f)
{
    struct gd_snapshot news = f->kept.s;
    news.n_tasks = news.n_failures = 0;
    news.tasks_missed = news.failures_missed = 0;
    news.ended = f->kept.s.ended = true;
    publish(f, &news);
}

/* Waits until there are no watchers, but at most this long. The caller holds the lock. */
static void wait_for_leavers(struct web_feed *f, unsigned wait_ms)
{
    const uint64_t due = now_ns() + (uint64_t)wait_ms * 1000000u;
    const struct timespec until = { .tv_sec = (time_t)(due / 1000000000u), .tv_nsec = (long)(due % 1000000000u) };
    while (f->n_watchers > 0 && pthread_cond_timedwait(&f->changed, &f->lock, &until) != ETIMEDOUT)
        ;
}

/* Whether a watcher can still be sent data. If so, the server's thread has not had enough CPU time to send it. */
static bool is_behind(const struct web_feed *f)
{
    for (const struct web_watcher *w = f->first; w; w = w->after) {
        if (!w->ops->is_full(w->arg))
            return true;
    }
    return false;
}

void web_feed_finish(struct web_feed *f, unsigned wait_ms, unsigned most_ms)
{
    stop_thread(f);
    (void)sample(f);
    pthread_mutex_lock(&f->lock);
    f->ended = true;
    publish_end(f);
    const uint64_t last = now_ns() + (uint64_t)most_ms * 1000000u;
    do {
        wait_for_leavers(f, wait_ms);
    } while (is_behind(f) && now_ns() < last);
    pthread_mutex_unlock(&f->lock);
}

void web_feed_close(struct web_feed **feed)
{
    struct web_feed *f = *feed;
    *feed = NULL;
    if (!f)
        return;
    stop_thread(f);
    for (size_t i = 0; i < RING; i++)
        let_go(f->ring[i]);
    let_go(f->state);
    web_last_free(&f->kept);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

/* --- the present state ----------------------------------------------------------------------- */

void web_feed_stats(struct web_feed *f, struct gd__buffer *b)
{
    pthread_mutex_lock(&f->lock);
    struct gd_snapshot s = f->kept.s;
    s.tasks = NULL;
    s.n_tasks = 0;
    web_view_json(b, &s, &f->seen, f->sequence);
    pthread_mutex_unlock(&f->lock);
    gd__buffer_text(b, "\n");
}

void web_feed_history(struct web_feed *f, struct gd__buffer *b)
{
    pthread_mutex_lock(&f->lock);
    web_history_json(&f->history, b);
    pthread_mutex_unlock(&f->lock);
}

void web_feed_metrics(struct web_feed *f, struct gd__buffer *b)
{
    pthread_mutex_lock(&f->lock);
    web_metrics(b, &f->kept.s);
    pthread_mutex_unlock(&f->lock);
}

size_t web_feed_watchers(struct web_feed *f)
{
    pthread_mutex_lock(&f->lock);
    size_t n = f->n_watchers;
    pthread_mutex_unlock(&f->lock);
    return n;
}

/* --- watching ---------------------------------------------------------------------------------- */

struct web_watcher *web_feed_watch(struct web_feed *f, const struct web_watch_ops *ops, void *arg)
{
    struct web_watcher *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->feed = f;
    w->ops = ops;
    w->arg = arg;
    pthread_mutex_lock(&f->lock);
    if (f->n_watchers - f->n_gone >= MOST_WATCHERS)
        sweep(f);
    const bool room = f->n_watchers - f->n_gone < MOST_WATCHERS;
    if (room) {
        w->after = f->first;
        if (f->first)
            f->first->before = w;
        f->first = w;
        f->n_watchers++;
        pthread_cond_broadcast(&f->changed); /* with a watcher, samples are taken more often */
    }
    pthread_mutex_unlock(&f->lock);
    if (room)
        return w;
    free(w);
    return NULL;
}

ssize_t web_watcher_next(struct web_watcher *w, char *out, size_t max)
{
    struct web_feed *f = w->feed;
    ssize_t n = 0;
    pthread_mutex_lock(&f->lock);
    if (!w->at && !w->gone) {
        w->offset = 0;
        w->at = next_text(w);
    }
    if (w->at) {
        const size_t left = w->at->bytes.size - w->offset;
        n = (ssize_t)(left < max ? left : max);
        memcpy(out, w->at->bytes.data + w->offset, (size_t)n);
        w->offset += (size_t)n;
        if (w->offset == w->at->bytes.size) {
            let_go(w->at);
            w->at = NULL;
        }
    } else if (w->gone || f->ended) {
        n = w->gone ? -2 : -1;
    } else {
        w->asleep = true;
        w->ops->sleep(w->arg);
    }
    pthread_mutex_unlock(&f->lock);
    return n;
}

void web_watcher_leave(struct web_watcher *w)
{
    struct web_feed *f = w->feed;
    pthread_mutex_lock(&f->lock);
    let_go(w->at);
    if (w->before)
        w->before->after = w->after;
    else
        f->first = w->after;
    if (w->after)
        w->after->before = w->before;
    f->n_watchers--;
    f->n_gone -= w->gone;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    free(w);
}
