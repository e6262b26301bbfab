/* SPDX-License-Identifier: MIT
 *
 * Every request to a running job, in every state that its tasks and workers can be in, with several tasks in flight.
 *
 * Each case brings a run into a state (states.h), makes one request, checks the answer, lets the run go on, and checks
 * what became of every task. Requests before and after a run, and requests about many tasks, have their own cases.
 */
#include "system/control/states.h"

/* --- cases --- */

/* What the run was like before the request. */
struct before {
    uint64_t completed;
    uint32_t entered;
};

static const char *answer_of(const struct state *s)
{
    return s->answer[now.request] ? s->answer[now.request] : usual_answer[now.request];
}

static bool is_refused(const struct state *s)
{
    return answer_of(s)[0] == '!';
}

static void check_answer(const struct state *s)
{
    CHECK_CONTAINS(notes.what[now.made - 1], answer_of(s) + is_refused(s));
    CHECK_EQ(notes.code[now.made - 1] == 0, !is_refused(s));
}

static void wake(struct world *w, const struct state *s)
{
    if (s->wake && !now.is_awake)
        s->wake(w);
    now.is_awake = true;
}

static void let_go(struct world *w, const struct state *s)
{
    wake(w, s);
    if (s->leave)
        s->leave(w);
    open_all_gates(w);
}

/* The tasks that run may end, and others may not begin, until the run is resumed. If there are no others, the run ends.
 */
static void check_pause(struct world *w, const struct state *s, const struct before *before)
{
    const uint64_t running = number_in(notes.what[now.made - 1]);
    const uint32_t entered = world_count(w->page, WC_ENTERED);
    let_go(w, s);
    if (before->completed + running == w->n_orders)
        return;
    world_await_stat(w, completed, before->completed + running);
    ask_ok(w, LIMIT);
    ask_ok(w, LIMIT); /* a round has passed since the answer to the first one */
    CHECK_EQ(world_count(w->page, WC_ENTERED), entered + s->loading);
    CHECK_STR(ask(w, UNPAUSE), "resumed");
}

/* The new worker begins tasks, although no other worker has a free place. */
static void check_addition(struct world *w, const struct state *s, const struct before *before)
{
    if (s->places_are_full)
        world_await(w->page, WC_ENTERED, before->entered + PLACES);
    let_go(w, s);
}

/* Worker 1 finishes what it has begun, and cleans up while the other worker still has tasks. If it has no process, it
 * does not get another. */
static void check_removal(struct world *w, const struct state *s)
{
    struct gd_worker_stats stats[2];
    if (now.is_made) {
        CHECK_EQ(gd_dispatcher_worker_stats(w->d, stats, sizeof *stats, 2), 4);
        CHECK_EQ(stats[1].state, GD_WORKER_OFF);
        let_go(w, s);
        return;
    }
    wake(w, s);
    open_gates_of(w, 1);
    world_await(w->page, WC_CLEANUPS, 1);
    let_go(w, s);
}

static void go_on(struct world *w, const struct state *s, const struct before *before)
{
    const enum request r = is_refused(s) ? REQUESTS : now.request;
    if (r == PAUSE)
        check_pause(w, s, before);
    else if (r == ADD)
        check_addition(w, s, before);
    else if (r == REMOVE)
        check_removal(w, s);
    else
        let_go(w, s);
}

static void check_cancelled(const struct world *w, size_t task)
{
    CHECK_EQ(w->finals[task].callback, 'E');
    CHECK_EQ(w->finals[task].failure, GD_FAILURE_CANCELLED);
    CHECK_STR(w->finals[task].error, "cancelled on request");
}

/* Whether the task was cancelled by this case. */
static bool ended_on_request(const struct world *w, const struct state *s, size_t task)
{
    const unsigned what = w->orders[task].what;
    if (task != now.target || (what == W_ERROR && now.request == DRAIN))
        return false;
    const bool stops = what == W_POLITE_LOOP || what == W_LOAD_WAIT; /* process() is not called after load() */
    return what == W_ERROR || (now.request == CANCEL && (stops || s->answer[CANCEL] == ends));
}

/* A task that was loaded ahead is asked to stop when it begins. It may finish before it is asked. */
static bool may_have_finished(const struct state *s, size_t task)
{
    return s->ahead && now.request == CANCEL && task == now.target;
}

static void check_tasks(const struct world *w, const struct state *s, bool drained)
{
    for (size_t i = 0; i < w->n_orders; i++) {
        if (w->finals[i].callback == 'S' && may_have_finished(s, i))
            continue;
        if (ended_on_request(w, s, i))
            check_cancelled(w, i);
        else if (drained && w->finals[i].callback == 'E')
            CHECK_CONTAINS(w->finals[i].error, "not done");
        else
            CHECK_EQ(w->finals[i].callback, 'S');
    }
}

static void open_world(struct world *w, enum request r)
{
    memset(&notes, 0, sizeof notes);
    memset(&now, 0, sizeof now);
    now.request = r;
    world_ops("f");
    world_open(w, 2);
    w->o.concurrency = PLACES;
    w->o.max_workers_per_gpu = 2;
    w->o.on_control = note_control;
}

static void try_in(const struct state *s, enum request r)
{
    struct world w;
    open_world(&w, r);
    s->prepare(&w);
    world_launch(&w);
    s->reach(&w);
    struct gd_stats stats = { .size = sizeof stats };
    CHECK_EQ(gd_dispatcher_stats(w.d, &stats), 0);
    const struct before before = { stats.completed, world_count(w.page, WC_ENTERED) };
    if (!now.is_made)
        make(&w, r);
    world_await(w.page, WC_USER, now.made);
    check_answer(s);
    const uint64_t running = r == DRAIN ? number_in(notes.what[now.made - 1]) : FULL;
    go_on(&w, s, &before);
    const bool drained = r == DRAIN || stats.draining;
    CHECK_EQ(world_join(&w), drained ? GD_E_SHUTDOWN : 0);
    check_tasks(&w, s, drained);
    if (drained)
        CHECK_EQ(world_callbacks(&w, 'S'), before.completed + running - ended_on_request(&w, s, now.target));
    if (r == LIMIT)
        CHECK_EQ(w.stats.task_timeout_ms, WORLD_ENDLESS_MS);
    if (r == REMOVE)
        CHECK_EQ(w.workers[1].completed, now.done_by_one);
    world_close(&w);
}

#define CASES(state)                    \
    TEST(cancel_##state)                \
    {                                   \
        try_in(&state, CANCEL);         \
    }                                   \
    TEST(pause_##state)                 \
    {                                   \
        try_in(&state, PAUSE);          \
    }                                   \
    TEST(unpause_##state)               \
    {                                   \
        try_in(&state, UNPAUSE);        \
    }                                   \
    TEST(drain_##state)                 \
    {                                   \
        try_in(&state, DRAIN);          \
    }                                   \
    TEST(add_a_worker_##state)          \
    {                                   \
        try_in(&state, ADD);            \
    }                                   \
    TEST(remove_a_worker_##state)       \
    {                                   \
        try_in(&state, REMOVE);         \
    }                                   \
    TEST(change_the_time_limit_##state) \
    {                                   \
        try_in(&state, LIMIT);          \
    }

CASES(before_the_workers_are_ready)
CASES(while_tasks_are_loaded)
CASES(while_tasks_are_loaded_beside_others_in_flight)
CASES(while_a_task_waits)
CASES(while_a_task_is_handed_out_and_not_begun)
CASES(while_many_tasks_are_in_flight)
CASES(while_a_task_is_being_cancelled)
CASES(while_a_task_waits_for_its_retry)
CASES(while_a_worker_rests_after_its_death)
CASES(while_a_worker_is_being_removed)
CASES(while_a_removed_worker_cleans_up)
CASES(while_the_run_is_paused)
CASES(while_the_run_drains)
CASES(after_the_end_of_the_source)

/* --- before and after the run --- */

/* The source gives its second task after the answer. */
static void go_on_after_answer(void *user, const char *what, int code)
{
    struct world *w = user;
    note_control(user, what, code);
    if (now.request == PAUSE)
        CHECK_EQ(world_count(w->page, WC_ENTERED), 0);
    world_gate_open(w->page, SOURCE_GATE);
    if (now.request == PAUSE && notes.n == 1)
        make(w, UNPAUSE);
}

static void try_before(enum request r, const char *answer, int code, uint64_t successes)
{
    struct world w;
    open_world(&w, r);
    w.o.on_control = go_on_after_answer;
    w.source_gate_at = 1;
    world_add_many(&w, TASKS, (struct world_order){ .what = W_ECHO });
    now.target = TASKS - 1;
    world_start(&w);
    make(&w, r);
    CHECK_EQ(notes.n, 0);
    CHECK_EQ(world_finish(&w), code);
    CHECK_CONTAINS(notes.what[0], answer);
    CHECK_EQ(world_callbacks(&w, 'S'), successes);
    if (r == REMOVE)
        CHECK_EQ(w.workers[1].completed, 0);
    gd_dispatcher_close(&w.d);
    world_close(&w);
}

TEST(requests_before_the_run_are_carried_out_when_it_begins)
{
    try_before(CANCEL, "was not read from the source yet", 0, TASKS);
    try_before(PAUSE, "paused: 0 running", 0, TASKS);
    try_before(UNPAUSE, "nothing to resume", 0, TASKS);
    try_before(DRAIN, "draining: the run ends after 0", GD_E_SHUTDOWN, 0);
    try_before(ADD, "1 worker added to GPU 1", 0, TASKS);
    try_before(REMOVE, "1 worker removed from GPU 1", 0, TASKS);
    try_before(LIMIT, "set to 3600 s", 0, TASKS);
}

TEST(requests_after_the_run_have_no_effect)
{
    struct world w;
    open_world(&w, CANCEL);
    world_add_many(&w, TASKS, (struct world_order){ .what = W_ECHO });
    world_start(&w);
    CHECK_EQ(world_finish(&w), 0);
    for (enum request r = CANCEL; r < REQUESTS; r++)
        make(&w, r);
    gd_dispatcher_close(&w.d);
    CHECK_EQ(notes.n, 0);
    CHECK_EQ(world_callbacks(&w, 'S'), TASKS);
    world_close(&w);
}

/* --- requests about many tasks --- */

static void check_only_first_stopped(struct world *w, size_t n, char callback)
{
    for (size_t i = 0; i < w->n_orders; i++) {
        CHECK_EQ(w->finals[i].callback, i < n ? callback : 'S');
        CHECK_EQ(w->finals[i].attempt, 1);
    }
    CHECK_EQ(w->stats.restarts, 0);
}

static void cancel_each_in_flight(struct world *w)
{
    world_await(w->page, WC_ENTERED, FULL);
    for (now.target = 0; now.target < FULL; now.target++)
        CHECK_CONTAINS(ask(w, CANCEL), STOPS);
}

TEST(each_of_many_tasks_in_flight_can_be_cancelled)
{
    struct world w;
    open_world(&w, CANCEL);
    world_add_many(&w, FULL, (struct world_order){ .what = W_POLITE_LOOP });
    world_add_many(&w, FULL, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    cancel_each_in_flight(&w);
    CHECK_EQ(world_join(&w), 0);
    check_only_first_stopped(&w, FULL, 'E');
    CHECK_EQ(world_failures(&w, GD_FAILURE_CANCELLED), FULL);
    world_close(&w);
}

TEST(a_lower_time_limit_stops_each_of_many_tasks_in_flight)
{
    struct world w;
    open_world(&w, LIMIT);
    world_add_many(&w, FULL, (struct world_order){ .what = W_POLITE_LOOP });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, FULL);
    CHECK_EQ(gd_dispatcher_set_timeout(w.d, 1), 0);
    CHECK_EQ(world_join(&w), 0);
    check_only_first_stopped(&w, FULL, 'T');
    CHECK_EQ(world_count(w.page, WC_CANCELLED), FULL);
    world_close(&w);
}

/* With a crash limit of 1, a task that is charged with the end of its worker would fail at once. */
TEST(a_cancelled_task_that_does_not_stop_costs_the_others_in_flight_nothing)
{
    struct world w;
    open_world(&w, CANCEL);
    w.o.cancel_grace_ms = 20;
    w.o.crash_limit = 1;
    world_add(&w, (struct world_order){ .what = W_LOOP });
    for (unsigned i = 1; i < FULL; i++)
        world_add(&w, (struct world_order){ .what = W_ECHO, .gate = FIRST_GATE + i });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, FULL);
    ask_ok(&w, CANCEL);
    world_await(w.page, WC_SETUPS, 3); /* its process was killed and replaced */
    open_all_gates(&w);
    CHECK_EQ(world_join(&w), 0);
    check_cancelled(&w, 0);
    CHECK_EQ(atomic_load(&w.page->runs[0]), 1);
    CHECK_EQ(world_callbacks(&w, 'S'), FULL - 1);
    CHECK_EQ(w.stats.restarts, 1);
    world_close(&w);
}

WORLD_MAIN()
