/* SPDX-License-Identifier: MIT
 *
 * How a run is brought into each state in which test_states.c makes its requests.
 *
 * There are two devices with a worker each, which may have PLACES tasks in flight, and room for a second worker. Every
 * task waits at its own gate, so nothing ends before the case wants it to.
 */
#ifndef GD_TESTS_SYSTEM_CONTROL_STATES_H
#define GD_TESTS_SYSTEM_CONTROL_STATES_H

#include <signal.h>

#include "support/test.h"
#include "support/world.h"

enum { PLACES = 3, FULL = 2 * PLACES, TASKS = 2 * FULL, NOTES = 16 };
enum { FIRST_GATE = 8, LOAD_GATE = FIRST_GATE + TASKS };        /* each task has one, and another for load() */
enum { SOURCE_GATE = 1, SETUP_GATE, CLEANUP_GATE, DEATH_GATE }; /* the source waits for gate 1 */

enum request { CANCEL, PAUSE, UNPAUSE, DRAIN, ADD, REMOVE, LIMIT, REQUESTS };

/* What on_control reported. WC_USER counts the reports. */
static struct {
    unsigned n;
    int code[NOTES];
    char what[NOTES][256];
} notes;

/* The state of the case. */
static struct {
    enum request request;
    size_t target;        /* the task to cancel */
    unsigned made;        /* requests */
    uint64_t done_by_one; /* tasks that worker 1 has finished at the end, if it is removed */
    bool is_made;         /* the request of the case was made when the state was reached */
    bool is_awake;        /* the workers go on */
} now;

static void note_control(void *user, const char *what, int code)
{
    struct world *w = user;
    CHECK_LT(notes.n, NOTES);
    notes.code[notes.n] = code;
    snprintf(notes.what[notes.n++], sizeof notes.what[0], "%s", what);
    world_count_add(w->page, WC_USER, 1);
}

/* --- requests --- */

static void make(struct world *w, enum request r)
{
    int rc = -1;
    switch (r) {
    case CANCEL:
        rc = gd_dispatcher_cancel_task(w->d, now.target);
        break;
    case PAUSE:
        rc = gd_dispatcher_pause(w->d);
        break;
    case UNPAUSE:
        rc = gd_dispatcher_unpause(w->d);
        break;
    case DRAIN:
        rc = gd_dispatcher_drain(w->d);
        break;
    case ADD:
        rc = gd_dispatcher_add_workers(w->d, 1, 1);
        break;
    case REMOVE:
        rc = gd_dispatcher_remove_workers(w->d, 1, 1);
        break;
    case LIMIT:
        rc = gd_dispatcher_set_timeout(w->d, WORLD_ENDLESS_MS);
        break;
    case REQUESTS:
        break;
    }
    CHECK_EQ(rc, 0);
    now.made++;
}

/* Makes a request and waits for the answer to it. */
static const char *ask(struct world *w, enum request r)
{
    make(w, r);
    world_await(w->page, WC_USER, now.made);
    return notes.what[now.made - 1];
}

static void ask_ok(struct world *w, enum request r)
{
    ask(w, r);
    CHECK_EQ(notes.code[now.made - 1], 0);
}

static uint64_t number_in(const char *text)
{
    const char *at = strpbrk(text, "0123456789");
    CHECK(at != NULL);
    return strtoull(at, NULL, 10);
}

/* --- tasks --- */

static void open_gate(const struct world *w, size_t task)
{
    world_gate_open(w->page, FIRST_GATE + (unsigned)task);
    world_gate_open(w->page, LOAD_GATE + (unsigned)task);
}

static void open_all_gates(const struct world *w)
{
    for (size_t i = 0; i < w->n_orders && i < TASKS; i++)
        open_gate(w, i);
}

static void add_tasks(struct world *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        world_add(w, (struct world_order){ .what = W_ECHO, .gate = FIRST_GATE + (uint32_t)i });
}

/* A task in flight ends when it is cancelled. Any other request finds it waiting at its gate. */
static void make_target_polite(struct world *w, size_t target)
{
    if (now.request != CANCEL)
        return;
    w->orders[target].what = W_POLITE_LOOP;
    w->orders[target].gate = 0;
}

/* A task that this worker has begun. */
static size_t task_of(const struct world *w, unsigned worker)
{
    for (uint32_t i = 0; i < atomic_load(&w->page->n_log) && i < WORLD_LOG; i++)
        if (w->page->log[i].worker == worker)
            return w->page->log[i].task;
    FAIL("worker %u has begun no task", worker);
}

static void open_gates_of(const struct world *w, unsigned worker)
{
    for (size_t i = 0; i < w->n_orders; i++)
        if (atomic_load(&w->page->loader[i]) == worker + 1)
            open_gate(w, i);
    for (uint32_t i = 0; i < atomic_load(&w->page->n_log); i++)
        if (w->page->log[i].worker == worker)
            open_gate(w, w->page->log[i].task);
}

/* --- states --- */

static void fill(struct world *w)
{
    world_await_stat(w, taken, w->n_orders);
    world_await(w->page, WC_ENTERED, FULL);
    now.done_by_one = PLACES;
}

static void prepare(struct world *w)
{
    add_tasks(w, TASKS);
}

static void prepare_setup(struct world *w)
{
    add_tasks(w, TASKS);
    w->setup.gate = SETUP_GATE;
}

static void reach_setup(struct world *w)
{
    world_await(w->page, WC_SETUPS, 2);
    world_await_stat(w, taken, TASKS);
}

static void end_setup(struct world *w)
{
    world_gate_open(w->page, SETUP_GATE);
}

/* Workers that load have no tasks in flight. Each of them loads one task, and that takes long. */
static void prepare_loading(struct world *w)
{
    world_ops("l");
    w->o.load_ahead = 1;
    for (size_t i = 0; i < TASKS; i++)
        world_add(w, (struct world_order){ .what = W_LOAD_WAIT, .n = LOAD_GATE + i });
}

static void reach_loading(struct world *w)
{
    world_await_stat(w, taken, TASKS);
    world_await(w->page, WC_LOADS, 2);
    while (atomic_load(&w->page->loader[now.target]) != 1)
        now.target++;
    now.done_by_one = 1;
}

static int in_turn(void *user, uint64_t task_id, uint64_t weight, unsigned n_workers)
{
    (void)user, (void)weight;
    return (int)(task_id % n_workers);
}

/* All places are taken, and each worker loads the next task. Tasks are placed in turn. Otherwise a task that a slow worker
 * has not claimed soon would be taken back, and the worker would load nothing ahead before its next result. */
static void prepare_loading_ahead(struct world *w)
{
    world_ops("fl");
    w->o.placement = GD_PLACE_CUSTOM;
    w->o.place = in_turn;
    w->o.load_ahead = PLACES + 1;
    for (unsigned i = 0; i < TASKS; i++)
        world_add(w, (struct world_order){ .what = W_LOAD_WAIT, .n = LOAD_GATE + i, .gate = FIRST_GATE + i });
    world_add_many(w, 4 * TASKS, (struct world_order){ .what = W_ECHO });
}

/* Ends the load of a task, if its worker has a place for it. */
static void end_load(const struct world *w, size_t task, unsigned places[2])
{
    const uint32_t loader = atomic_load(&w->page->loader[task]);
    now.target = loader == 1 ? task : now.target; /* the last one of worker 0 waits */
    if (places[loader - 1]++ < PLACES)
        world_gate_open(w->page, LOAD_GATE + (unsigned)task);
}

static void reach_loading_ahead(struct world *w)
{
    bool seen[TASKS] = { false };
    unsigned places[2] = { 0 };
    world_await_stat(w, taken, w->n_orders);
    for (uint32_t loads = 1; loads <= FULL + 2; loads++) {
        world_await(w->page, WC_LOADS, loads);
        for (size_t i = 0; i < TASKS; i++) {
            if (seen[i] || atomic_load(&w->page->loader[i]) == 0)
                continue;
            seen[i] = true;
            end_load(w, i, places);
        }
    }
    world_await(w->page, WC_ENTERED, FULL);
    now.done_by_one = PLACES + 1;
}

static void reach_waiting(struct world *w)
{
    fill(w);
    now.target = TASKS - 2;
}

/* The workers are stopped, so they do not begin what they are handed. Both have finished tasks before. */
static void prepare_handed(struct world *w)
{
    add_tasks(w, TASKS);
    w->source_gate_at = FULL;
}

static void signal_workers(struct world *w, int signal, char state)
{
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(kill(world_pid(w->page, i), signal), 0);
        if (state)
            world_await_state(world_pid(w->page, i), state);
    }
}

static void reach_handed(struct world *w)
{
    world_await(w->page, WC_ENTERED, FULL);
    for (size_t i = 0; i < FULL; i++)
        open_gate(w, i);
    world_await_stat(w, completed, FULL);
    signal_workers(w, SIGSTOP, 'T');
    world_gate_open(w->page, SOURCE_GATE);
    world_await_stat(w, taken, TASKS);
    world_await_stat(w, running, FULL);
    now.target = FULL + 1;
    now.done_by_one = PLACES;
}

static void continue_workers(struct world *w)
{
    signal_workers(w, SIGCONT, 0);
}

static void prepare_flight(struct world *w)
{
    add_tasks(w, TASKS);
    make_target_polite(w, 1);
}

static void reach_flight(struct world *w)
{
    fill(w);
    now.target = 1;
}

static void reach_cancelling(struct world *w)
{
    reach_flight(w);
    ask_ok(w, CANCEL);
}

static void prepare_delayed(struct world *w)
{
    add_tasks(w, TASKS);
    w->orders[0] = (struct world_order){ .what = W_ERROR };
    w->o.retries = 3;
    w->o.retry_delay_ms = WORLD_ENDLESS_MS;
}

static void reach_delayed(struct world *w)
{
    world_await_stat(w, taken, TASKS);
    world_await_stat(w, retried, 1);
    world_await(w->page, WC_ENTERED, FULL + 1);
    now.done_by_one = PLACES;
}

static void end_delay(struct world *w)
{
    if (now.request != CANCEL && now.request != DRAIN)
        make(w, CANCEL);
}

/* After the second death in a row, the worker rests for a second. The request is made in the callback, so it is carried
 * out before that second can end. */
static void request_at_second_death(struct world *w, const struct world_event *e)
{
    if (e->kind != 'x' || world_events(w, 'x') != 2)
        return;
    now.is_made = true;
    make(w, now.request);
    world_gate_open(w->page, DEATH_GATE);
}

static void prepare_resting(struct world *w)
{
    add_tasks(w, TASKS);
    w->o.restart_delay_ms = 1000;
    w->on_event = request_at_second_death;
}

static void reach_resting(struct world *w)
{
    fill(w);
    now.target = task_of(w, 0);
    now.done_by_one = 0;
    CHECK_EQ(kill(world_pid(w->page, 1), SIGKILL), 0);
    world_await(w->page, WC_SETUPS, 3);
    CHECK_EQ(kill(world_pid(w->page, 1), SIGKILL), 0);
    world_gate_wait(w->page, DEATH_GATE);
}

static void reach_leaving(struct world *w)
{
    fill(w);
    ask_ok(w, REMOVE);
    now.target = task_of(w, 1);
}

/* Worker 1 was removed and has finished its tasks. Its cleanup waits. */
static void prepare_cleanup(struct world *w)
{
    add_tasks(w, TASKS);
    w->setup = (struct world_setup){ .workers = 1u << 1, .cleanup_gate = CLEANUP_GATE };
}

static void reach_cleanup(struct world *w)
{
    fill(w);
    ask_ok(w, REMOVE);
    open_gates_of(w, 1);
    world_await(w->page, WC_CLEANUPS, 1);
    world_await_stat(w, completed, PLACES);
    now.target = task_of(w, 0);
}

static void end_cleanup(struct world *w)
{
    world_gate_open(w->page, CLEANUP_GATE);
}

static void reach_paused(struct world *w)
{
    reach_waiting(w);
    ask_ok(w, PAUSE);
}

static void end_pause(struct world *w)
{
    if (now.request != DRAIN && now.request != UNPAUSE && now.request != PAUSE)
        make(w, UNPAUSE);
}

static void reach_draining(struct world *w)
{
    reach_flight(w);
    ask_ok(w, DRAIN);
}

static void prepare_short(struct world *w)
{
    add_tasks(w, FULL);
    make_target_polite(w, 1);
}

static void reach_source_ended(struct world *w)
{
    reach_flight(w);
    world_await_stat(w, source_done, 1);
}

struct state {
    void (*prepare)(struct world *w); /* before the run */
    void (*reach)(struct world *w);
    void (*wake)(struct world *w);  /* lets the workers go on, if they cannot; NULL: they can */
    void (*leave)(struct world *w); /* makes another request without which the run does not end; NULL: none */
    const char *answer[REQUESTS];   /* NULL: the usual answer. It begins with '!': the request is refused */
    bool places_are_full;           /* a worker that is added begins waiting tasks at once */
    unsigned loading;               /* tasks that are loaded, so they begin even if the run is paused or drained */
    bool ahead;                     /* they are loaded beside tasks in flight */
};

static const char *const usual_answer[REQUESTS] = {
    [UNPAUSE] = "not paused, nothing to resume",
    [ADD] = "1 worker added to GPU 1",
    [REMOVE] = "1 worker removed from GPU 1",
    [LIMIT] = "time limit of a task set to 3600 s",
};
#define STOPS "asked to stop"
static const char ends[] = "cancelled before it began";

static const struct state before_the_workers_are_ready = {
    .prepare = prepare_setup,
    .reach = reach_setup,
    .wake = end_setup,
    .answer = { [CANCEL] = ends, [PAUSE] = "paused: 0 running", [DRAIN] = "draining: the run ends after 0" },
};
static const struct state while_tasks_are_loaded = {
    .prepare = prepare_loading,
    .reach = reach_loading,
    .answer = { [CANCEL] = STOPS, [PAUSE] = "paused: 2 running", [DRAIN] = "draining: the run ends after 2" },
    .loading = 2,
};
static const struct state while_tasks_are_loaded_beside_others_in_flight = {
    .prepare = prepare_loading_ahead,
    .reach = reach_loading_ahead,
    .answer = { [CANCEL] = STOPS, [PAUSE] = "paused: 8 running", [DRAIN] = "draining: the run ends after 8" },
    .loading = 2,
    .ahead = true,
};
static const struct state while_a_task_waits = {
    .prepare = prepare,
    .reach = reach_waiting,
    .answer = { [CANCEL] = ends, [PAUSE] = "paused: 6 running", [DRAIN] = "draining: the run ends after 6" },
    .places_are_full = true,
};
static const struct state while_a_task_is_handed_out_and_not_begun = {
    .prepare = prepare_handed,
    .reach = reach_handed,
    .wake = continue_workers,
    .answer = { [CANCEL] = ends, [PAUSE] = "paused: 0 running", [DRAIN] = "draining: the run ends after 0" },
};
static const struct state while_many_tasks_are_in_flight = {
    .prepare = prepare_flight,
    .reach = reach_flight,
    .answer = { [CANCEL] = STOPS, [PAUSE] = "paused: 6 running", [DRAIN] = "draining: the run ends after 6" },
    .places_are_full = true,
};
static const struct state while_a_task_is_being_cancelled = {
    .prepare = prepare,
    .reach = reach_cancelling,
    .answer = { [CANCEL] = STOPS, [PAUSE] = "paused: 6 running", [DRAIN] = "draining: the run ends after 6" },
    .places_are_full = true,
};
static const struct state while_a_task_waits_for_its_retry = {
    .prepare = prepare_delayed,
    .reach = reach_delayed,
    .leave = end_delay,
    .answer = { [CANCEL] = ends, [PAUSE] = "paused: 6 running", [DRAIN] = "draining: the run ends after 6" },
    .places_are_full = true,
};
static const struct state while_a_worker_rests_after_its_death = {
    .prepare = prepare_resting,
    .reach = reach_resting,
    .answer = { [CANCEL] = STOPS, [PAUSE] = "paused: 3 running", [DRAIN] = "draining: the run ends after 3" },
};
static const struct state while_a_worker_is_being_removed = {
    .prepare = prepare,
    .reach = reach_leaving,
    .answer = { [CANCEL] = STOPS,
                [PAUSE] = "paused: 6 running",
                [DRAIN] = "draining: the run ends after 6",
                [REMOVE] = "!no worker of it is left" },
};
static const struct state while_a_removed_worker_cleans_up = {
    .prepare = prepare_cleanup,
    .reach = reach_cleanup,
    .wake = end_cleanup,
    .answer = { [CANCEL] = STOPS,
                [PAUSE] = "paused: 3 running",
                [DRAIN] = "draining: the run ends after 3",
                [REMOVE] = "!no worker of it is left" },
};
static const struct state while_the_run_is_paused = {
    .prepare = prepare,
    .reach = reach_paused,
    .leave = end_pause,
    .answer = { [CANCEL] = ends,
                [PAUSE] = "paused already: 6 running",
                [UNPAUSE] = "resumed",
                [DRAIN] = "draining: the run ends after 6" },
};
static const struct state while_the_run_drains = {
    .prepare = prepare_flight,
    .reach = reach_draining,
    .answer = { [CANCEL] = STOPS,
                [PAUSE] = "!the run is ending",
                [DRAIN] = "draining: the run ends after 6",
                [ADD] = "!the run is ending",
                [REMOVE] = "!the run is ending" },
};
static const struct state after_the_end_of_the_source = {
    .prepare = prepare_short,
    .reach = reach_source_ended,
    .answer = { [CANCEL] = STOPS, [PAUSE] = "paused: 6 running", [DRAIN] = "draining: the run ends after 6" },
};

#endif
