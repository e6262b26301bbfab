/* Loading ahead: load() runs on I/O threads while process runs, or while tasks are in flight.
 *
 * The main thread claims tasks and passes them to the I/O threads, which take them in order of position. One lock
 * protects everything. The entry of each position goes through these states:
 *
 *   CLAIMED  --I/O thread takes it--> LOADING --load ok--> LOADED --process, commit--> (gone)
 *                                             --failed or cancelled--> DONE --commit--> (gone)
 *
 * Before load is called for a position, `loading` in shared memory is set to the position after it. So if this process
 * dies, the dispatcher can tell which loads had begun. At most gd__loader_bound() tasks are claimed and not finished,
 * including the one being processed. A task that is suspected of crashing (GD__TASK_SOLO) is loaded alone, never at the
 * same time as another task.
 *
 * Time limits apply only to the task at head. So if a load exceeds its limit, the main thread is waiting for that load.
 * The guardian wakes the main thread, which interrupts the load (gd__wait_hooks) if it can.
 *
 * With begin(), flight/claim.c decides which tasks are claimed and loaded, and has their entries. The main thread does
 * not wait here, but is woken when a load has ended.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "worker/host.h"

struct gd__loader {
    pthread_mutex_t lock;
    pthread_cond_t work; /* I/O threads wait for it: handed or stop has changed */
    pthread_cond_t done; /* the main thread waits for it: a load has ended */
    uint64_t taken;      /* I/O threads have taken the positions below this */
    uint64_t handed;     /* I/O threads may take the positions below this */
    bool stop;
    bool cancelled;             /* the load that the main thread waits for has exceeded its time limit */
    struct gd__entry **entries; /* by position & mask */
    uint64_t mask;
    unsigned n_threads;
    pthread_t threads[];
};

static unsigned wanted_threads(const struct gd_worker *w)
{
    return w->port.config.io_threads ? w->port.config.io_threads : 1;
}

uint64_t gd__loader_bound(const struct gd_worker *w)
{
    const uint64_t ahead = w->port.config.load_ahead, bound = gd__load_bound(ahead, wanted_threads(w), w->batch_size);
    if (!w->ops.begin)
        return bound;
    const uint64_t concurrency = gd__host_concurrency(w);
    if (ahead == 0)
        return concurrency + bound;
    return bound > concurrency ? bound : concurrency;
}

/* ---- the I/O threads ---- */

static void call_load(struct gd_worker *w, struct gd__entry *e)
{
    int code = w->ops.load(w, &e->task, &e->result);
    gd__host_check_fork(w);
    if (code) {
        gd__result_settle(&e->result, code, "load");
        gd__message_forget();
    }
}

static void load(struct gd_worker *w, struct gd__entry *e)
{
    gd__thread_is_loading(e->position);
    GD__KILL_POINT("loading");
    e->start_ns = gd__now_ns();
    if (gd__host_cancel_below(w) > e->position)
        gd_result_cancelled(&e->result);
    else
        call_load(w, e);
    GD__KILL_POINT("loaded");
}

static void finish_load(struct gd_worker *w, struct gd__entry *e)
{
    bool loaded = e->result.kind == GD__R_SUCCESS;
    if (!loaded)
        e->end_ns = gd__now_ns();
    e->to_unload = loaded;
    e->state = loaded ? GD__ENTRY_LOADED : GD__ENTRY_DONE;
    if (gd__flight_of(w))
        gd__flight_loaded(w, e);
    else
        pthread_cond_signal(&w->loader->done);
}

static void load_all(struct gd_worker *w)
{
    struct gd__loader *l = w->loader;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (!l->stop && l->taken == l->handed)
            pthread_cond_wait(&l->work, &l->lock);
        if (l->stop)
            break;
        struct gd__entry *e = l->entries[l->taken++ & l->mask];
        e->state = GD__ENTRY_LOADING;
        atomic_store_explicit(&w->port.out->loading, l->taken, memory_order_release);
        pthread_mutex_unlock(&l->lock);
        load(w, e);
        pthread_mutex_lock(&l->lock);
        finish_load(w, e);
    }
    pthread_mutex_unlock(&l->lock);
    if (gd__wait_hooks.io_thread_ends)
        gd__wait_hooks.io_thread_ends();
}

static void *io_thread(void *arg)
{
    pthread_cleanup_push(gd__host_thread_left, NULL);
    load_all(arg);
    pthread_cleanup_pop(0);
    return NULL;
}

/* ---- the main thread ---- */

static int start_thread(struct gd_worker *w, unsigned i)
{
    struct gd__loader *l = w->loader;
    int failed = GD__FAULT("thread") ? ENOMEM : pthread_create(&l->threads[i], NULL, io_thread, w);
    if (failed) {
        errno = failed;
        return gd__error_errno("can't start I/O thread %u of %u", i + 1, wanted_threads(w));
    }
    pthread_setname_np(l->threads[i], "gd-io");
    l->n_threads = i + 1;
    return 0;
}

int gd__loader_start(struct gd_worker *w)
{
    unsigned n = wanted_threads(w);
    const uint64_t n_entries = gd__flight_of(w) ? gd__flight_claims(w) : w->entry_mask + 1;
    struct gd__loader *l = gd__calloc(1, sizeof *l + n * sizeof l->threads[0]);
    struct gd__entry **entries = gd__calloc(n_entries, sizeof(struct gd__entry *));
    if (!l || !entries) {
        gd__free(entries);
        gd__free(l);
        return gd__error_errno("no memory for %u I/O threads", n);
    }
    l->entries = entries;
    l->mask = n_entries - 1;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->done, NULL);
    w->loader = l;
    for (unsigned i = 0; i < n; i++) {
        int code = start_thread(w, i);
        if (code < 0) {
            gd__loader_stop(w);
            return code;
        }
    }
    return 0;
}

/* Whether the position may be loaded, if every position before it may. */
static bool may_load(const struct gd_worker *w, uint64_t position)
{
    return position == w->head || !(gd__is_solo(w, position) || gd__is_solo(w, w->head));
}

uint64_t gd__loader_hand(struct gd_worker *w)
{
    struct gd__loader *l = w->loader;
    pthread_mutex_lock(&l->lock);
    uint64_t before = l->handed;
    for (; l->handed < w->port.next && may_load(w, l->handed); l->handed++)
        l->entries[l->handed & l->mask] = gd__entry_at(w, l->handed);
    uint64_t handed = l->handed;
    if (handed - before == 1)
        pthread_cond_signal(&l->work);
    else if (handed != before)
        pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    return handed;
}

void gd__loader_give(struct gd_worker *w, struct gd__entry *e)
{
    struct gd__loader *l = w->loader;
    pthread_mutex_lock(&l->lock);
    l->entries[l->handed++ & l->mask] = e;
    pthread_cond_signal(&l->work);
    pthread_mutex_unlock(&l->lock);
}

static bool is_loading(const struct gd__entry *e)
{
    return e->state == GD__ENTRY_CLAIMED || e->state == GD__ENTRY_LOADING;
}

/* Waits until the load has ended or must be interrupted. Returns true if it must be interrupted. */
static bool wait_load(struct gd__loader *l, const struct gd__entry *e)
{
    pthread_mutex_lock(&l->lock);
    while (is_loading(e) && !l->cancelled)
        pthread_cond_wait(&l->done, &l->lock);
    l->cancelled = false;
    const bool again = is_loading(e);
    pthread_mutex_unlock(&l->lock);
    return again;
}

void gd__loader_await(struct gd_worker *w, uint64_t position)
{
    struct gd__loader *l = w->loader;
    const struct gd__entry *e = gd__entry_at(w, position);
    /* The guardian does not report a cancellation from before this wait. */
    if (gd__host_cancel_below(w) > position)
        gd__loader_cancel(w);
    gd__before_wait();
    while (wait_load(l, e)) {
        gd__after_wait();
        if (gd__wait_hooks.interrupt_loads)
            gd__wait_hooks.interrupt_loads();
        gd__before_wait();
    }
    gd__after_wait();
}

void gd__loader_cancel(struct gd_worker *w)
{
    struct gd__loader *l = w->loader;
    pthread_mutex_lock(&l->lock);
    l->cancelled = true;
    pthread_cond_signal(&l->done);
    pthread_mutex_unlock(&l->lock);
}

void gd__loader_stop(struct gd_worker *w)
{
    struct gd__loader *l = w->loader;
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    gd__before_wait();
    for (unsigned i = 0; i < l->n_threads; i++)
        pthread_join(l->threads[i], NULL);
    gd__after_wait();
    /* User code may still use the tasks that are in flight. */
    for (uint64_t position = gd__flight_of(w) ? gd__flight_begun(w) : w->head; position < l->taken; position++)
        gd__entry_unload(w, l->entries[position & l->mask]);
    pthread_cond_destroy(&l->done);
    pthread_cond_destroy(&l->work);
    pthread_mutex_destroy(&l->lock);
    w->loader = NULL;
    gd__free(l->entries);
    gd__free(l);
}
