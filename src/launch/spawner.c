/* A run on a separate thread.
 *
 * gd_spawner_start() opens the dispatcher before it starts the thread, so it reports every mistake in the options
 * itself. The dispatcher stays open until the spawner is closed, so that a run's last figures can be read after its
 * end. `ended` is protected by a lock and has a condition variable (on the monotonic clock), so any number of threads
 * may wait for the end. Error messages are stored per thread, so the run's message is copied to each waiting thread.
 */
#include <errno.h>
#include <gpu_dispatch/launch.h>
#include <pthread.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"

enum { MESSAGE_MAX = 1024 };

struct gd_spawner {
    struct gd_dispatcher *d;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool ended; /* protected by the lock, like the fields after it */
    int result;
    char message[MESSAGE_MAX];
};

static _Thread_local const struct gd_spawner *running_here; /* the spawner whose thread this is */

static void *run_thread(void *arg)
{
    struct gd_spawner *s = arg;
    running_here = s;
    const int result = gd_dispatcher_run(s->d);
    pthread_mutex_lock(&s->lock);
    s->result = result;
    if (result < 0)
        snprintf(s->message, sizeof s->message, "%s", gd_error_text());
    s->ended = true;
    pthread_cond_broadcast(&s->over);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static int init_lock(struct gd_spawner *s)
{
    pthread_condattr_t attr;
    int rc = GD__FAULT("condition") ? ENOMEM : pthread_condattr_init(&attr);
    if (rc == 0) {
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        rc = pthread_cond_init(&s->over, &attr);
        pthread_condattr_destroy(&attr);
    }
    if (rc == 0 && (rc = pthread_mutex_init(&s->lock, NULL)) != 0)
        pthread_cond_destroy(&s->over);
    errno = rc;
    return rc == 0 ? 0 : gd__error_errno("cannot create a condition variable");
}

static void free_spawner(struct gd_spawner *s)
{
    gd_dispatcher_close(&s->d);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->over);
    gd__free(s);
}

int gd_spawner_start(struct gd_spawner **out, const struct gd_options *o)
{
    if (!out)
        return gd__error(GD_E_INVALID, "gd_spawner_start: out is NULL");
    *out = NULL;
    struct gd_spawner *s = gd__calloc(1, sizeof *s);
    if (!s)
        return gd__error(GD_E_NO_MEMORY, "no memory for a spawner");
    int rc = init_lock(s);
    if (rc < 0) {
        gd__free(s);
        return rc;
    }
    rc = gd_dispatcher_open(&s->d, o);
    if (rc == 0) {
        *out = s; /* set before the thread begins: callbacks may use it */
        errno = GD__FAULT("thread") ? EAGAIN : pthread_create(&s->thread, NULL, run_thread, s);
        rc = errno == 0 ? 0 : gd__error_errno("cannot start the thread of a run");
    }
    if (rc < 0) {
        *out = NULL;
        free_spawner(s);
    }
    return rc;
}

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){ .tv_sec = (time_t)(ns / GD__NS_PER_S), .tv_nsec = (long)(ns % GD__NS_PER_S) };
}

/* The caller holds the lock. Returns false if the run has not ended in time. */
static bool await_end(struct gd_spawner *s, int timeout_ms)
{
    const struct timespec until =
        timespec_of(gd__now_ns() + (timeout_ms > 0 ? (uint64_t)timeout_ms : 0) * GD__NS_PER_MS);
    int rc = 0;
    while (!s->ended && rc != ETIMEDOUT)
        rc =
            timeout_ms < 0 ? pthread_cond_wait(&s->over, &s->lock) : pthread_cond_timedwait(&s->over, &s->lock, &until);
    return s->ended;
}

int gd_spawner_wait(struct gd_spawner *s, int timeout_ms, int *result)
{
    if (!s)
        return gd__error(GD_E_INVALID, "gd_spawner_wait: the spawner is NULL");
    if (running_here == s)
        return gd__error(GD_E_BUSY, "gd_spawner_wait: a callback cannot wait for its own run");
    pthread_mutex_lock(&s->lock);
    const bool ended = await_end(s, timeout_ms);
    const int code = s->result;
    pthread_mutex_unlock(&s->lock);
    if (!ended)
        return gd__error(GD_E_BUSY, "the run has not ended within %d ms", timeout_ms);
    if (result)
        *result = code;
    if (code < 0)
        gd__error(code, "%s", s->message); /* no thread writes to message any more */
    return 0;
}

void gd_spawner_shutdown(struct gd_spawner *s)
{
    if (s)
        gd_dispatcher_shutdown(s->d);
}

void gd_spawner_terminate(struct gd_spawner *s)
{
    if (s)
        gd_dispatcher_abort(s->d);
}

int gd_spawner_status(struct gd_spawner *s, struct gd_worker_stats *out, size_t element_size, size_t max)
{
    return s ? gd_dispatcher_worker_stats(s->d, out, element_size, max)
             : gd__error(GD_E_INVALID, "gd_spawner_status: the spawner is NULL");
}

int gd_spawner_stats(struct gd_spawner *s, struct gd_stats *out)
{
    return s ? gd_dispatcher_stats(s->d, out) : gd__error(GD_E_INVALID, "gd_spawner_stats: the spawner is NULL");
}

void gd_spawner_close(struct gd_spawner **sp)
{
    struct gd_spawner *s = sp ? *sp : NULL;
    if (!s)
        return;
    gd_dispatcher_abort(s->d);
    if (running_here == s) /* called from a callback: the run still uses the memory, so only end the run */
        return;
    *sp = NULL;
    pthread_join(s->thread, NULL);
    free_spawner(s);
}
