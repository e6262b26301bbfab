/* SPDX-License-Identifier: MIT
 *
 * The worker of test_chaos.c that has tasks in flight. It finishes some tasks within begin(), and others later, on other
 * threads. It sends partial results of some tasks. A task that must not run where or when it was begun fails. One of the
 * two tables of functions also loads tasks ahead.
 */
#ifndef GD_TESTS_CRASH_FLIGHT_CHAOS_WORKER_H
#define GD_TESTS_CRASH_FLIGHT_CHAOS_WORKER_H

#include "crash/flight/begun.h"

enum { NS_PER_PLACE = 100000, N_PARTS = 3 };

static int set_answer(const struct gd_task *t, struct gd_result *r)
{
    const struct answer a = answer_to(t->id, t->data, t->size / sizeof(uint64_t));
    /* Some answers fit into the record. Others are as long as the payload and are stored outside the record. */
    char *out = gd_result_alloc(r, t->id % 3 ? sizeof a : sizeof a + t->size);
    if (!out)
        return GD_E_NO_MEMORY;
    memcpy(out, &a, sizeof a);
    if (t->id % 3 == 0)
        memcpy(out + sizeof a, t->data, t->size);
    return 0;
}

static int load(struct gd_worker *w, struct gd_task *t, struct gd_result *r)
{
    (void)w;
    t->loaded = malloc(sizeof t->id);
    if (!t->loaded)
        return gd_result_error(r, "no memory");
    memcpy(t->loaded, &t->id, sizeof t->id);
    return 0;
}

static void unload(struct gd_worker *w, struct gd_task *t)
{
    (void)w;
    free(t->loaded);
}

static bool is_loaded(const struct gd_task *t)
{
    return t->loaded && memcmp(t->loaded, &t->id, sizeof t->id) == 0;
}

static struct begun *begun;
static _Atomic bool suspect_runs; /* a task that must run alone */

static bool has_parts(uint64_t id)
{
    return id % 5 == 0;
}

static bool is_suspect(const struct gd_task *t)
{
    return t->attempt >= 3; /* others were in flight at each earlier death, or the task would have failed */
}

static int finish_now(const struct gd_task *t, struct gd_result *r)
{
    for (uint64_t i = 0; has_parts(t->id) && i < N_PARTS; i++)
        if (gd_result_partial(r, &i, sizeof i) < 0)
            gd_result_error_final(r, "a partial result was not sent: %s", gd_error_text());
    if (set_answer(t, r) < 0)
        gd_result_error_final(r, "no room for the result");
    return gd_result_finish(r);
}

static void finish_pooled(const struct pooled *p)
{
    if (is_suspect(p->task))
        atomic_store(&suspect_runs, false);
    atomic_store(&begun->held[gd_worker_id(p->worker)][p->place], 0);
    finish_now(p->task, p->result);
}

static void note_held(const struct pooled *p)
{
    atomic_store(&begun->held[gd_worker_id(p->worker)][p->place], p->task->id + 1);
}

/* The result says if the task must not run now. */
static int check_begin(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    const int32_t worker = gd_worker_id(w), before = atomic_load(&begun->last[t->id].worker);
    const uint32_t last = atomic_load(&begun->last[t->id].attempt);
    if (t->attempt <= last)
        return gd_result_error_final(r, "attempt %u came after attempt %u", t->attempt, last);
    if (atomic_load(&suspect_runs))
        return gd_result_error_final(r, "begun while another task had to run alone");
    if (is_suspect(t) && begun_others(begun, worker, t->id))
        return gd_result_error_final(r, "attempt %u is not alone", t->attempt);
    if (is_suspect(t) && last == t->attempt - 1 && worker != before)
        return gd_result_error_final(r, "attempt %u was on worker %d, and runs alone on another", last, before);
    atomic_store(&begun->last[t->id].attempt, t->attempt);
    atomic_store(&begun->last[t->id].worker, worker);
    return 0;
}

static int begin(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    const int code = check_begin(w, t, r);
    if (code < 0)
        return code;
    if (t->id % 8 == 0)
        return finish_now(t, r);
    if (is_suspect(t))
        atomic_store(&suspect_runs, true);
    return pool_add(w, t, r, note_held) ? 0 : gd_result_error_final(r, "more tasks in flight than allowed");
}

static int begin_loaded(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    return is_loaded(t) ? begin(w, t, r) : gd_result_error_final(r, "got the loaded data of another task");
}

static int setup_flight(struct gd_worker *w, const struct gd_setup *s)
{
    begun = begun_find();
    if (!begun)
        return gd_worker_error(w, "no memory to share with the test");
    for (unsigned i = 0; i < POOL_MOST; i++)
        atomic_store(&begun->held[s->worker_id][i], 0);
    const uint64_t seed = (uint64_t)s->worker_id << 32 | s->restarts;
    return pool_start((uint64_t)NS_PER_PLACE * s->concurrency, seed, finish_pooled);
}

static const struct gd_worker_ops flight_ops = {
    .size = sizeof flight_ops,
    .setup = setup_flight,
    .begin = begin,
};
static const struct gd_worker_ops flight_loading_ops = {
    .size = sizeof flight_loading_ops,
    .setup = setup_flight,
    .begin = begin_loaded,
    .load = load,
    .unload = unload,
};

#endif
