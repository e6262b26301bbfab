/* Finishing tasks in flight, from any thread.
 *
 * Only the main thread writes records. Other threads post the tasks that they have finished, and the main thread
 * commits them. A partial result is posted too. Each entry has room for one partial result. So before a thread sends
 * the next one, it waits until the main thread has committed the last one. This bounds the memory.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "shm/copy.h"
#include "worker/flight/flight.h"

_Noreturn void gd__flight_misuse(const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    dprintf(STDERR_FILENO, "gpu_dispatch: %s\n", message);
    abort();
}

/* ---- posting ---- */

void gd__flight_wake(struct gd__flight *f)
{
    const uint64_t one = 1;
    gd__full_fence(); /* pairs with the fence of a main thread that goes to sleep */
    if (!atomic_load_explicit(&f->asleep, memory_order_relaxed) || !atomic_exchange(&f->asleep, 0))
        return;
    while (write(f->wake_fd, &one, sizeof one) < 0) {
        if (errno == EINTR)
            continue;
        if (errno == EAGAIN) /* the counter is full, so the main thread wakes up already */
            return;
        gd__flight_misuse("cannot wake the worker's main thread: %s (did the worker's code close file descriptors that "
                          "it had not opened?)",
                          strerror(errno));
    }
}

void gd__flight_post(struct gd__flight *f, struct gd__post *post)
{
    struct gd__post *newest = atomic_load_explicit(&f->posts, memory_order_relaxed);
    do
        post->next = newest;
    while (
        !atomic_compare_exchange_weak_explicit(&f->posts, &newest, post, memory_order_release, memory_order_relaxed));
    gd__flight_wake(f);
}

/* ---- finishing ---- */

static bool is_in_flight(unsigned state)
{
    return state & (GD__FLIGHT_BEGINNING | GD__FLIGHT_HELD) && !(state & GD__FLIGHT_FINISHED);
}

_Noreturn static void not_in_flight(const struct gd__flight_entry *e, unsigned state)
{
    if (gd__thread_is_io())
        gd__flight_misuse("gd_result_finish: load() of task %llu called this function, but begin() has not been called "
                          "for the task",
                          (unsigned long long)e->e.task.id);
    if (state & GD__FLIGHT_FINISHED)
        gd__flight_misuse("gd_result_finish: task %llu was finished twice", (unsigned long long)e->e.task.id);
    gd__flight_misuse("gd_result_finish: this result is not of a task in flight. Its last task, %llu, was finished "
                      "before",
                      (unsigned long long)e->e.task.id);
}

int gd_result_finish(struct gd_result *r)
{
    if (!r)
        return gd__error(GD_E_INVALID, "gd_result_finish: the result is NULL");
    struct gd__flight_entry *e = gd__flight_entry_of(r);
    if (!e)
        gd__flight_misuse("gd_result_finish: this result was not given to begin()");
    gd__host_check_fork(r->worker);
    unsigned state = atomic_load_explicit(&e->state, memory_order_relaxed);
    if (!is_in_flight(state))
        not_in_flight(e, state);
    gd__result_place(r); /* the main thread must not wait for room when it commits */
    e->finished_ns = gd__now_ns();
    state = atomic_fetch_or(&e->state, GD__FLIGHT_FINISHED);
    if (!is_in_flight(state))
        not_in_flight(e, state);
    if (state & GD__FLIGHT_HELD && !(state & GD__FLIGHT_CANCELLING))
        gd__flight_post(gd__flight_of(r->worker), &e->finished);
    return 0;
}

/* ---- partial results ---- */

/* Writes the record. Main thread only. */
static int put_part(struct gd_worker *w, const struct gd__entry *e, unsigned place, const void *data, size_t size)
{
    struct gd_result part;
    gd__result_init(&part, w);
    int code = gd_result_set(&part, data, size);
    if (code < 0)
        return code;
    gd__record_put_at(w, GD__R_PARTIAL, e, &part, place);
    gd__host_flush(w);
    return 0;
}

/* Waits until the last partial result of this task was committed. */
static void await_part(struct gd_worker *w, const struct gd__flight_entry *e)
{
    struct gd__flight *f = gd__flight_of(w);
    pthread_mutex_lock(&w->bytes_lock);
    f->partial_waiters++;
    while (e->part_is_posted)
        pthread_cond_wait(&f->changed, &w->bytes_lock);
    f->partial_waiters--;
    pthread_mutex_unlock(&w->bytes_lock);
}

void gd__flight_part_done(struct gd_worker *w, struct gd__flight_entry *e)
{
    struct gd__flight *f = gd__flight_of(w);
    pthread_mutex_lock(&w->bytes_lock);
    e->part_is_posted = false;
    if (f->partial_waiters > 0)
        pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&w->bytes_lock);
}

static int post_part(struct gd_worker *w, struct gd__flight_entry *e, const void *data, size_t size)
{
    await_part(w, e);
    gd__result_reset(&e->part);
    const int code = gd_result_set(&e->part, data, size);
    if (code < 0)
        return code;
    pthread_mutex_lock(&w->bytes_lock);
    e->part_is_posted = true;
    pthread_mutex_unlock(&w->bytes_lock);
    gd__flight_post(gd__flight_of(w), &e->partial);
    return 0;
}

static int part_in_flight(struct gd_worker *w, struct gd__flight_entry *e, const void *data, size_t size)
{
    if (!is_in_flight(atomic_load_explicit(&e->state, memory_order_relaxed)))
        gd__flight_misuse("gd_result_partial: task %llu was finished before", (unsigned long long)e->e.task.id);
    if (!gd__flight_on_main(gd__flight_of(w)))
        return post_part(w, e, data, size);
    gd__flight_commit(w); /* another thread may have posted an earlier one */
    return put_part(w, &e->e, gd__flight_place(e), data, size);
}

int gd_result_partial(struct gd_result *r, const void *data, size_t size)
{
    if (!r || !r->worker || (size > 0 && !data))
        return gd__error(GD_E_INVALID, "gd_result_partial: the %s is NULL", r ? "data" : "result");
    struct gd_worker *w = r->worker;
    struct gd__flight_entry *e = gd__flight_entry_of(r);
    if (e && !gd__thread_is_io())
        return part_in_flight(w, e, data, size);
    const struct gd__entry *current = gd__entry_of(r);
    const bool batched = w->ops.process_batch && (w->batch_size > 1 || !w->ops.process);
    if (!current || current->position != w->head || current->state == GD__ENTRY_LOADING || batched)
        return gd__error(GD_E_INVALID, "gd_result_partial: only process and begin can send partial results");
    return put_part(w, current, 0, data, size);
}
