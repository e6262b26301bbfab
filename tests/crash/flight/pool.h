/* SPDX-License-Identifier: MIT
 *
 * The worker's side of tasks in flight, for the crash tests: begin() puts a task into a pool, and other threads finish
 * it later. Each task takes a random time, so tasks are finished in any order.
 *
 *     static void finish(const struct pooled *p) { gd_result_set(p->result, ...); gd_result_finish(p->result); }
 *
 *     pool_start(100000, seed, finish);     // in setup()
 *     pool_add(w, task, result, NULL);      // in begin()
 */
#ifndef GD_TESTS_CRASH_FLIGHT_POOL_H
#define GD_TESTS_CRASH_FLIGHT_POOL_H

#include "crash/common.h"

/* Each thread may keep one place a little longer than the task is in flight. */
enum { POOL_THREADS = 3, POOL_MOST = 64 + POOL_THREADS };

struct pooled {
    struct gd_worker *worker;
    const struct gd_task *task; /* NULL: this place is free */
    struct gd_result *result;
    uint64_t due_ns;
    unsigned place;
    bool taken; /* a thread is finishing it */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct pooled tasks[POOL_MOST];
    uint64_t most_ns; /* how long a task takes at most */
    struct rng r;
    void (*finish)(const struct pooled *p);
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct pooled *pool_earliest(void)
{
    struct pooled *first = NULL;
    for (unsigned i = 0; i < POOL_MOST; i++)
        if (pool.tasks[i].task && !pool.tasks[i].taken && (!first || pool.tasks[i].due_ns < first->due_ns))
            first = &pool.tasks[i];
    return first;
}

/* Waits until a task is due. */
static struct pooled pool_take(void)
{
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        struct pooled *first = pool_earliest();
        if (!first) {
            pthread_cond_wait(&pool.changed, &pool.lock);
        } else if (first->due_ns > now_ns()) {
            const struct timespec due = { (time_t)(first->due_ns / SECOND), (long)(first->due_ns % SECOND) };
            pthread_cond_timedwait(&pool.changed, &pool.lock, &due);
        } else {
            first->taken = true;
            const struct pooled taken = *first;
            pthread_mutex_unlock(&pool.lock);
            return taken;
        }
    }
}

static void *pool_thread(void *arg)
{
    (void)arg;
    for (;;) {
        const struct pooled p = pool_take();
        pool.finish(&p);
        pthread_mutex_lock(&pool.lock);
        pool.tasks[p.place].task = NULL;
        pthread_mutex_unlock(&pool.lock);
    }
    return NULL;
}

/* A task takes up to most_ns. */
static int pool_start(uint64_t most_ns, uint64_t seed, void (*finish)(const struct pooled *p))
{
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&pool.changed, &clock);
    pool.most_ns = most_ns;
    pool.r.state = mix(seed);
    pool.finish = finish;
    for (unsigned i = 0; i < POOL_THREADS; i++) {
        pthread_t thread;
        const int code = pthread_create(&thread, NULL, pool_thread, NULL);
        if (code != 0)
            return code;
        pthread_detach(thread);
    }
    return 0;
}

/* Calls added(), if there is one, before another thread can finish the task. Returns false if there is no place. */
static bool pool_add(struct gd_worker *w, const struct gd_task *t, struct gd_result *r,
                     void (*added)(const struct pooled *p))
{
    struct pooled *p = NULL;
    pthread_mutex_lock(&pool.lock);
    for (unsigned i = 0; i < POOL_MOST && !p; i++)
        if (!pool.tasks[i].task)
            p = &pool.tasks[i];
    if (p) {
        *p = (struct pooled){ w, t, r, now_ns() + rng_below(&pool.r, pool.most_ns), (unsigned)(p - pool.tasks), false };
        if (added)
            added(p);
        pthread_cond_signal(&pool.changed);
    }
    pthread_mutex_unlock(&pool.lock);
    return p != NULL;
}

#endif
