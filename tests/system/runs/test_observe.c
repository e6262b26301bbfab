/* SPDX-License-Identifier: MIT
 *
 * What observers see of a run: the list of runs, the state of workers, the tasks that have ended, and why a worker is
 * idle. Observers do not disturb the run.
 */
#include <gpu_dispatch/observe.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "shm/layout.h"
#include "support/directory.h"
#include "support/test.h"
#include "support/world.h"

static char jobs_path[512];

static void enter(void)
{
    directory_enter();
    snprintf(jobs_path, sizeof jobs_path, "%s/jobs", directory_path);
    setenv("GPU_DISPATCH_JOBS", jobs_path, 1);
}

static int count_jobs(void)
{
    return gd_jobs_list(NULL, sizeof(struct gd_job), 0);
}

static struct gd_observer *observe(const char *which)
{
    struct gd_observer *o;
    if (gd_observer_open(&o, which) < 0)
        FAIL("%s", gd_error_text());
    return o;
}

static const struct gd_snapshot *look(struct gd_observer *o)
{
    const struct gd_snapshot *s;
    if (gd_observer_read(o, &s) < 0)
        FAIL("%s", gd_error_text());
    return s;
}

/* Waits until worker i is idle for this reason. Only the time limit of the case ends the wait. */
static const struct gd_snapshot *await_idle(struct gd_observer *o, size_t i, enum gd_idle_reason why)
{
    const struct gd_snapshot *s = look(o);
    for (; gd_snapshot_worker(s, i)->idle != (uint64_t)why; s = look(o))
        sched_yield();
    return s;
}

/* --- the list of runs --- */

TEST(a_run_is_listed_and_seen)
{
    struct world w;
    struct gd_job job = { .size = 0 };
    char pid[32];
    enter();
    world_open(&w, 2);
    w.o.job = "first job";
    world_add_many(&w, 4, (struct world_order){ .what = W_ECHO, .gate = 1 });
    CHECK_EQ(count_jobs(), 0);
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 2);
    CHECK_EQ(gd_jobs_list(&job, sizeof job, 1), 1);
    CHECK_STR(job.name, "first job");
    CHECK_EQ(job.pid, getpid());
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    const char *const ways[] = { NULL, job.id, pid, "first job", "first" };
    struct gd_observer *o = NULL;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        gd_observer_close(&o);
        o = observe(ways[i]);
    }
    await_idle(o, 0, GD_IDLE_NOT);
    const struct gd_snapshot *s = await_idle(o, 1, GD_IDLE_NOT);
    CHECK_STR(s->job, "first job");
    CHECK_STR(s->id, job.id);
    CHECK_EQ(s->n_workers, 2);
    CHECK_EQ(s->n_devices, 2);
    CHECK(!s->ended);
    for (size_t i = 0; i < 2; i++) {
        CHECK_EQ(gd_snapshot_worker(s, i)->state, GD_WORKER_BUSY);
        CHECK_LT(gd_snapshot_worker(s, i)->current_task, 4);
        CHECK_GE(gd_snapshot_worker(s, i)->since_ns, s->stats->start_ns);
        CHECK_LE(gd_snapshot_worker(s, i)->since_ns, s->read_ns);
    }
    world_gate_open(w.page, 1);
    CHECK_EQ(world_join(&w), 0);
    s = look(o);
    CHECK(s->ended);
    CHECK(!s->stale);
    CHECK_EQ(s->stats->completed, 4);
    CHECK_EQ(s->stats->source_done, 1);
    CHECK_EQ(count_jobs(), 0);
    gd_observer_close(&o);
    world_close(&w);
}

TEST(a_run_without_a_job_name_is_not_listed)
{
    struct world w;
    struct gd_observer *o;
    enter();
    world_open(&w, 1);
    world_start(&w);
    CHECK_EQ(count_jobs(), 0);
    CHECK_EQ(gd_observer_attach(&o, w.d), GD_E_NO_JOB);
    CHECK_CONTAINS(gd_error_text(), "gd_options.job");
    CHECK(o == NULL);
    gd_dispatcher_close(&w.d);
    world_close(&w);
}

TEST(two_runs_at_once_in_one_process)
{
    struct world a, b;
    struct gd_job jobs[2];
    struct gd_observer *o;
    enter();
    world_open(&a, 1);
    world_open(&b, 1);
    a.leaves_children = 1; /* the worker of the other run */
    a.o.job = "one";
    b.o.job = "two";
    world_add(&a, (struct world_order){ .what = W_ECHO, .gate = 1 });
    world_add(&b, (struct world_order){ .what = W_ERROR, .gate = 2 });
    world_launch(&a);
    world_launch(&b);
    CHECK_EQ(gd_jobs_list(jobs, sizeof *jobs, 2), 2);
    CHECK(strcmp(jobs[0].id, jobs[1].id) != 0);
    CHECK_EQ(gd_observer_open(&o, NULL), GD_E_NO_JOB);
    CHECK_CONTAINS(gd_error_text(), "(one)");
    CHECK_CONTAINS(gd_error_text(), "(two)");
    struct gd_observer *of_a = observe("one"), *of_b = observe(jobs[1].id);
    world_gate_open(b.page, 1); /* the workers of both runs use the page that was made last */
    CHECK_EQ(world_join(&a), 0);
    CHECK(look(of_a)->ended);
    CHECK(!look(of_b)->ended);
    o = observe(NULL);
    CHECK_STR(look(o)->job, "two");
    world_gate_open(b.page, 2);
    CHECK_EQ(world_join(&b), 0);
    CHECK_EQ(look(of_a)->stats->completed, 1);
    CHECK_EQ(look(of_b)->stats->failed, 1);
    gd_observer_close(&o);
    gd_observer_close(&of_a);
    gd_observer_close(&of_b);
    world_close(&a);
    world_close(&b);
}

/* Starts a run in another process. The run ends only when that process is killed. */
static pid_t start_elsewhere(const char *job)
{
    const pid_t child = fork();
    CHECK_GE(child, 0);
    if (child > 0)
        return child;
    struct world w;
    world_open(&w, 1);
    w.o.job = job;
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 1 });
    (void)world_run(&w);
    _exit(0);
}

TEST(a_killed_run_is_removed_from_the_list)
{
    const struct gd_snapshot *s;
    enter();
    const pid_t first = start_elsewhere("first"), second = start_elsewhere("second");
    while (count_jobs() < 2)
        sched_yield();
    struct gd_observer *o = observe("first");
    await_idle(o, 0, GD_IDLE_NOT);
    struct pollfd p = { .fd = gd_observer_fd(o), .events = POLLIN };
    CHECK_GE(p.fd, 3);
    CHECK_EQ(poll(&p, 1, 0), 0);
    CHECK_EQ(kill(first, SIGKILL), 0);
    CHECK_EQ(poll(&p, 1, -1), 1);
    CHECK_EQ(gd_observer_read(o, &s), GD_E_NO_JOB);
    CHECK_CONTAINS(gd_error_text(), "killed");
    CHECK(!s->ended);
    CHECK_EQ(gd_snapshot_worker(s, 0)->current_task, 0);
    CHECK_EQ(count_jobs(), 1); /* although the killed process has not been reaped yet */
    CHECK_EQ(waitpid(first, NULL, 0), first);
    struct gd_job job;
    CHECK_EQ(gd_jobs_list(&job, sizeof job, 1), 1);
    CHECK_EQ(job.pid, second);
    CHECK_EQ(kill(second, SIGKILL), 0);
    CHECK_EQ(waitpid(second, NULL, 0), second);
    CHECK_EQ(count_jobs(), 0);
    CHECK_EQ(rmdir("jobs"), 0); /* the directory is empty */
    gd_observer_close(&o);
}

TEST(a_fork_that_closes_the_dispatcher_does_not_end_the_run)
{
    struct world w;
    enter();
    world_open(&w, 1);
    w.o.job = "forked";
    world_add(&w, (struct world_order){ .what = W_ECHO });
    world_start(&w);
    const pid_t child = fork();
    CHECK_GE(child, 0);
    if (child == 0) {
        gd_dispatcher_close(&w.d);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, NULL, 0), child);
    struct gd_observer *o = observe(NULL);
    CHECK(!look(o)->ended);
    CHECK_EQ(world_finish(&w), 0);
    CHECK(look(o)->ended);
    gd_dispatcher_close(&w.d);
    gd_observer_close(&o);
    world_close(&w);
}

/* --- if no page can be made --- */

static void run_unlisted(void)
{
    struct world w;
    struct gd_observer *o;
    world_open(&w, 1);
    w.o.job = "hidden";
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    world_start(&w);
    CHECK_EQ(gd_observer_attach(&o, w.d), 0);
    CHECK_EQ(gd_observer_fd(o), -1);
    CHECK_STR(look(o)->job, "hidden");
    CHECK_EQ(world_finish(&w), 0);
    CHECK_EQ(look(o)->stats->completed, 10);
    gd_observer_close(&o);
    gd_dispatcher_close(&w.d);
    world_close(&w);
}

TEST(a_run_works_without_a_directory_for_its_page)
{
    enter();
    setenv("GPU_DISPATCH_JOBS", "/proc/nothing/here", 1);
    run_unlisted();
    CHECK_EQ(count_jobs(), 0);
}

TEST(a_link_in_place_of_the_directory_is_not_followed)
{
    enter();
    CHECK_EQ(mkdir("trap", 0700), 0);
    CHECK_EQ(symlink("trap", "jobs"), 0);
    run_unlisted();
    CHECK_EQ(rmdir("trap"), 0);
    CHECK_LT(count_jobs(), 0);
}

TEST(a_run_works_with_a_limit_on_file_sizes)
{
    struct world w;
    struct gd_observer *o;
    const struct rlimit small = { 1000, 1000 };
    enter();
    world_open(&w, 1);
    w.o.job = "small";
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    CHECK_EQ(gd_dispatcher_open(&w.d, &w.o), 0); /* and SIGXFSZ is not sent */
    CHECK_EQ(count_jobs(), 0);
    CHECK_EQ(gd_observer_attach(&o, w.d), GD_E_NO_JOB);
    gd_dispatcher_close(&w.d);
}

/* --- tasks that have ended --- */

struct seen {
    uint64_t n_tasks, n_failures, missed, last_order;
};

static void take(struct seen *seen, const struct gd_snapshot *s, struct world *w)
{
    for (size_t i = 0; i < s->n_tasks; i++) {
        const struct gd_task_view *t = gd_snapshot_task(s, i);
        CHECK_LT(t->task_id, w->n_orders);
        const struct world_final *f = &w->finals[t->task_id];
        CHECK_EQ(f->finals, 1);
        CHECK(seen->n_tasks + i == 0 || f->order > seen->last_order);
        seen->last_order = f->order;
        CHECK_EQ(t->failure, f->failure);
        CHECK_EQ(t->worker_id, f->worker_id);
        CHECK_EQ(t->start_ns, f->start_ns);
        CHECK_EQ(t->end_ns, f->end_ns);
        CHECK_EQ(t->attempt, f->attempt);
    }
    for (size_t i = 0; i < s->n_failures; i++) {
        const struct gd_failure_view *f = gd_snapshot_failure(s, i);
        CHECK_EQ(f->task_id % 10, 3);
        CHECK_STR(f->error, w->finals[f->task_id].error);
    }
    seen->n_tasks += s->n_tasks;
    seen->n_failures += s->n_failures;
    seen->missed += s->tasks_missed + s->failures_missed;
}

/* Observers see every attempt, not only the last one. Otherwise a timeline would show an idle worker during the other
 * attempts. */
TEST(attempts_that_are_tried_again_are_seen)
{
    struct world w;
    struct gd_observer *o;
    enter();
    world_open(&w, 1);
    w.o.job = "tried";
    w.o.retries = 2;
    w.o.retry_delay_ms = 1;
    world_add(&w, (struct world_order){ .what = W_ERROR });
    world_start(&w);
    CHECK_EQ(gd_observer_attach(&o, w.d), 0);
    CHECK_EQ(world_finish(&w), 0);
    const struct gd_snapshot *s = look(o);
    CHECK_EQ(s->n_tasks, 3);
    CHECK_EQ(s->n_failures, 1);
    CHECK_EQ(s->stats->failed, 1);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQ(gd_snapshot_task(s, i)->task_id, 0);
        CHECK_EQ(gd_snapshot_task(s, i)->attempt, i + 1);
        CHECK_EQ(gd_snapshot_task(s, i)->again, i < 2);
        CHECK_EQ(gd_snapshot_task(s, i)->failure, GD_FAILURE_ERROR);
        CHECK(i == 0 || gd_snapshot_task(s, i)->start_ns >= gd_snapshot_task(s, i - 1)->end_ns);
    }
    gd_observer_close(&o);
    gd_dispatcher_close(&w.d);
    world_close(&w);
}

TEST(an_observer_that_keeps_up_sees_each_task_once_in_order)
{
    struct world w;
    struct gd_observer *o;
    struct seen seen = { 0 };
    enter();
    world_open(&w, 2);
    w.o.job = "watched";
    for (unsigned i = 0; i < 400; i++)
        world_add(&w, (struct world_order){ .what = i % 10 == 3 ? W_ERROR : W_ECHO });
    world_start(&w);
    CHECK_EQ(gd_observer_attach(&o, w.d), 0);
    /* Compare after the run what the observer has seen, in the same order. */
    enum { MOST = 4096 };
    static struct gd_task_view tasks[MOST];
    static struct gd_failure_view failures[MOST];
    struct gd_snapshot all = { .tasks = tasks, .failures = failures };
    CHECK_EQ(world_finish(&w), 0);
    const struct gd_snapshot *s = look(o);
    for (size_t i = 0; i < s->n_tasks; i++)
        tasks[all.n_tasks++] = *gd_snapshot_task(s, i);
    for (size_t i = 0; i < s->n_failures; i++)
        failures[all.n_failures++] = *gd_snapshot_failure(s, i);
    all.tasks_missed += s->tasks_missed;
    take(&seen, &all, &w);
    CHECK_EQ(seen.n_tasks, 400);
    CHECK_EQ(seen.n_failures, 40);
    CHECK_EQ(seen.missed, 0);
    gd_observer_close(&o);
    gd_dispatcher_close(&w.d);
    world_close(&w);
}

TEST(the_counts_of_reads_during_a_run_add_up)
{
    struct world w;
    uint64_t n_reported = 0, failures = 0;
    enter();
    world_open(&w, 2);
    w.o.job = "fast";
    for (unsigned i = 0; i < 10000; i++)
        world_add(&w, (struct world_order){ .what = i % 20 == 3 ? W_ERROR : W_ECHO, .gate = i == 0 ? 1 : 0 });
    world_launch(&w);
    struct gd_observer *o = observe(NULL); /* before the run can end */
    world_gate_open(w.page, 1);
    for (bool over = false; !over;) {
        const struct gd_snapshot *s = look(o);
        n_reported += s->n_tasks + s->tasks_missed;
        failures += s->n_failures + s->failures_missed;
        CHECK_EQ(n_reported, s->stats->completed + s->stats->failed);
        CHECK_EQ(failures, s->stats->failed);
        over = s->ended;
        sched_yield();
    }
    CHECK_EQ(n_reported, 10000);
    CHECK_EQ(failures, 500);
    CHECK_EQ(world_join(&w), 0);
    gd_observer_close(&o);
    world_close(&w);
}

TEST(the_input_and_the_message_of_a_failure)
{
    struct world w;
    enter();
    world_open(&w, 1);
    w.o.job = "words";
    w.o.total_tasks = 2;
    world_add_sized(&w, (struct world_order){ .what = W_ERROR_FINAL }, 500);
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 1 });
    world_launch(&w);
    struct gd_observer *o = observe(NULL);
    const struct gd_snapshot *s = look(o);
    CHECK_EQ(s->stats->total, 2);
    for (; s->n_failures == 0; s = look(o))
        sched_yield();
    CHECK_EQ(s->n_failures, 1);
    CHECK_EQ(gd_snapshot_failure(s, 0)->task_id, 0);
    CHECK_EQ(gd_snapshot_failure(s, 0)->failure, GD_FAILURE_ERROR);
    char error[512];
    snprintf(error, sizeof error, "%s", gd_snapshot_failure(s, 0)->error);
    gd_dispatcher_set_total(w.d, 7);
    world_gate_open(w.page, 1);
    CHECK_EQ(world_join(&w), 0);
    CHECK_STR(error, w.finals[0].error);
    CHECK_EQ(look(o)->stats->total, 7);
    gd_observer_close(&o);
    world_close(&w);
}

/* --- how much of the work is done --- */

static const struct gd_snapshot *await_work(struct gd_observer *o, double done, double total)
{
    const struct gd_snapshot *s = look(o);
    for (; s->work_done != done || s->work_total != total; s = look(o))
        sched_yield();
    return s;
}

static void tell_work(struct world *w, const struct gd_report *r)
{
    (void)r;
    gd_dispatcher_set_work(w->d, (double)w->n_finals, 4);
}

TEST(work_reported_before_the_run)
{
    struct world w;
    double done = -1, total = -1;
    enter();
    world_open(&w, 1);
    w.o.job = "work";
    world_add(&w, (struct world_order){ .what = W_ECHO });
    world_start(&w);
    gd_dispatcher_work(w.d, &done, &total);
    CHECK(done == 0 && total == 0);
    gd_dispatcher_set_work(w.d, 0.5, 3);
    gd_dispatcher_work(w.d, &done, NULL);
    gd_dispatcher_work(w.d, NULL, &total);
    CHECK(done == 0.5 && total == 3);
    gd_dispatcher_set_work(w.d, 0.0 / 0.0, 3); /* NaN counts as 0 */
    gd_dispatcher_work(w.d, &done, &total);
    CHECK(done == 0 && total == 3);
    gd_dispatcher_set_work(w.d, 4, 3);
    struct gd_observer *o = observe(NULL);
    CHECK_EQ(world_finish(&w), 0);
    const struct gd_snapshot *s = look(o);
    CHECK(s->ended && s->work_done == 3 && s->work_total == 3);
    gd_observer_close(&o);
    gd_dispatcher_close(&w.d);
    world_close(&w);
}

TEST(work_reported_inside_and_outside_callbacks)
{
    struct world w;
    enter();
    world_open(&w, 1);
    w.o.job = "work";
    w.on_final = tell_work;
    world_add(&w, (struct world_order){ .what = W_ECHO });
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 1 });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 2);
    struct gd_observer *o = observe(NULL);
    await_work(o, 1, 4);
    /* The run is asleep. This call must wake it, because nothing else does. */
    gd_dispatcher_set_work(w.d, 1.25, 4);
    await_work(o, 1.25, 4);
    gd_dispatcher_set_work(w.d, -1, 5);
    await_work(o, 0, 5);
    gd_dispatcher_set_work(w.d, 7, 0);
    await_work(o, 0, 0);
    world_gate_open(w.page, 1);
    CHECK_EQ(world_join(&w), 0);
    const struct gd_snapshot *s = look(o);
    CHECK(s->ended && s->work_done == 2 && s->work_total == 4);
    gd_observer_close(&o);
    world_close(&w);
}

/* --- why a worker is idle --- */

struct idle_case {
    size_t worker;
    enum gd_idle_reason why;
    unsigned gate; /* this gate is opened when the reason was seen */
    bool abort;    /* abort the run instead */
};

/* Runs the world and checks that an observer sees the worker idle for this reason. */
static void check_idle(struct world *w, struct idle_case c)
{
    w->o.job = "idle";
    world_launch(w);
    struct gd_observer *o = observe(NULL);
    const struct gd_snapshot *s = await_idle(o, c.worker, c.why);
    CHECK_GT(gd_snapshot_worker(s, c.worker)->since_ns, 0);
    CHECK_LE(gd_snapshot_worker(s, c.worker)->since_ns, s->read_ns);
    if (c.abort)
        gd_dispatcher_abort(w->d);
    world_gate_open(w->page, c.gate);
    CHECK_EQ(world_join(w), c.abort ? GD_E_SHUTDOWN : 0);
    gd_observer_close(&o);
    world_close(w);
}

TEST(no_input)
{
    struct world w;
    enter();
    world_open(&w, 1);
    world_add_many(&w, 2, (struct world_order){ .what = W_ECHO });
    w.source_gate_at = 1;
    check_idle(&w, (struct idle_case){ 0, GD_IDLE_NO_INPUT, 1, false });
}

TEST(setting_up)
{
    struct world w;
    enter();
    world_open(&w, 2);
    w.o.setup_jobs = 1;
    w.setup.gate = 2;
    world_add(&w, (struct world_order){ .what = W_ECHO });
    check_idle(&w, (struct idle_case){ 1, GD_IDLE_SETTING_UP, 2, false });
}

TEST(loading)
{
    struct world w;
    enter();
    world_ops("l");
    world_open(&w, 1);
    world_add(&w, (struct world_order){ .what = W_LOAD_LOOP });
    check_idle(&w, (struct idle_case){ 0, GD_IDLE_LOADING, 1, true });
}

TEST(no_tasks_left)
{
    struct world w;
    enter();
    world_open(&w, 2);
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 3 });
    w.o.placement = GD_PLACE_CHUNKS; /* the task goes to the first worker */
    w.o.total_tasks = 1;
    check_idle(&w, (struct idle_case){ 1, GD_IDLE_AT_END, 3, false });
}

TEST(waiting_for_a_full_batch)
{
    struct world w;
    enter();
    world_ops("b");
    world_open(&w, 1);
    w.o.batch_size = 4;
    w.o.batch_wait_us = 3600u * 1000000u;
    world_add_many(&w, 4, (struct world_order){ .what = W_ECHO });
    w.source_gate_at = 2;
    check_idle(&w, (struct idle_case){ 0, GD_IDLE_BATCH, 1, false });
}

static int on_the_first(void *user, uint64_t task_id, uint64_t weight, unsigned n_workers)
{
    (void)user, (void)weight, (void)n_workers;
    return task_id == 0 ? 0 : 1;
}

TEST(results_wait_for_an_earlier_task)
{
    struct world w;
    enter();
    world_open(&w, 2);
    w.o.ordered = true;
    w.o.queue_size = 2;
    w.o.placement = GD_PLACE_CUSTOM;
    w.o.place = on_the_first;
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 3 });
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO });
    check_idle(&w, (struct idle_case){ 1, GD_IDLE_RESULTS, 3, false });
}

enum { STEPS = 10, FIRST_STEP = 10 }; /* each callback waits for its own gate */

static void wait_for_its_step(struct world *w, const struct gd_report *r)
{
    if (r->task_id < STEPS)
        world_gate_wait(w->page, FIRST_STEP + (unsigned)r->task_id);
}

/* The worker has done all its tasks, and callbacks are slow. Between two of the callbacks an observer must see the
 * reason at least once. */
TEST(results_wait_for_a_callback)
{
    struct world w;
    enter();
    world_open(&w, 1);
    w.o.window = 4 * STEPS;
    w.on_final = wait_for_its_step;
    w.source_gate_at = STEPS;
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_add_many(&w, STEPS, (struct world_order){ .what = W_ECHO });
    w.o.job = "idle";
    world_launch(&w);
    struct gd_observer *o = observe(NULL);
    while (gd_snapshot_worker(look(o), 0)->handed < STEPS)
        sched_yield();
    world_gate_open(w.page, 2);
    world_await(w.page, WC_ENTERED, STEPS);
    world_await_state(world_pid(w.page, 0), 'S'); /* the worker has done its last task, and waits for more */
    bool seen = false;
    for (unsigned k = 0; k < STEPS; k++) {
        /* The run publishes once a millisecond. Wait until the last time is so old that the next is after the
         * callback. */
        const struct gd_snapshot *s = look(o);
        while (s->read_ns - s->stats->now_ns < 2000000)
            s = look(o);
        world_gate_open(w.page, FIRST_STEP + k);
        while (s->stats->completed <= k)
            s = look(o);
        seen = seen || gd_snapshot_worker(s, 0)->idle == GD_IDLE_RESULTS;
    }
    CHECK(seen);
    world_gate_open(w.page, 1);
    CHECK_EQ(world_join(&w), 0);
    gd_observer_close(&o);
    world_close(&w);
}

/* Checks that an observer notices a slow callback: the run is awake, but publishes nothing. */
static void check_stale(void)
{
    struct world w;
    enter();
    world_open(&w, 1);
    w.o.job = "slow";
    w.on_final = wait_for_its_step;
    world_add(&w, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    struct gd_observer *o = observe(NULL);
    while (!look(o)->stale)
        sched_yield();
    world_gate_open(w.page, FIRST_STEP);
    CHECK_EQ(world_join(&w), 0);
    CHECK(!look(o)->stale);
    gd_observer_close(&o);
    world_close(&w);
}

TEST(a_long_callback_is_seen_as_stale)
{
    check_stale();
}

/* On one processor a run may reach its first callback without sleeping before. */
TEST(a_long_callback_on_one_processor_is_seen_as_stale)
{
    cpu_set_t ours, one;
    CHECK_EQ(sched_getaffinity(0, sizeof ours, &ours), 0);
    CPU_ZERO(&one);
    for (int i = 0; CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &ours))
            CPU_SET(i, &one);
    CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    check_stale();
}

/* A worker that begins a task does not wake the run. The run must wake up by itself and see the start. */
TEST(a_late_start_is_seen_although_the_run_sleeps)
{
    struct world w;
    struct timespec t;
    enter();
    world_open(&w, 1);
    w.o.job = "late";
    w.source_gate_at = 1;
    world_add(&w, (struct world_order){ .what = W_ECHO });
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_launch(&w);
    struct gd_observer *o = observe(NULL);
    while (look(o)->stats->completed < 1) /* the worker has no input before its first task either */
        sched_yield();
    await_idle(o, 0, GD_IDLE_NO_INPUT);
    const pid_t worker = world_pid(w.page, 0);
    CHECK_EQ(kill(worker, SIGSTOP), 0);
    world_await_state(worker, 'T');
    world_gate_open(w.page, 1);
    const struct gd_snapshot *s = look(o);
    /* Wait until the task is handed out and the run is asleep. */
    while (gd_snapshot_worker(s, 0)->handed == 0 || s->read_ns - s->stats->now_ns < 2000000)
        s = look(o);
    CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &t), 0);
    const uint64_t before = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    CHECK_LT(gd_snapshot_worker(s, 0)->since_ns, before);
    CHECK_EQ(kill(worker, SIGCONT), 0);
    for (s = look(o); gd_snapshot_worker(s, 0)->since_ns < before; s = look(o))
        sched_yield();
    CHECK_EQ(gd_snapshot_worker(s, 0)->idle, GD_IDLE_NOT);
    CHECK_EQ(gd_snapshot_worker(s, 0)->current_task, 1);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    gd_observer_close(&o);
    world_close(&w);
}

/* --- observers do not disturb the run --- */

static void needs_fork(void)
{
#ifdef GD__TSAN
    SKIP("ThreadSanitizer does not support a fork of a process with several threads");
#endif
}

static pid_t stopped_observer(void)
{
    const pid_t child = fork();
    CHECK_GE(child, 0);
    if (child == 0) {
        struct gd_observer *o = observe("crowd");
        (void)look(o);
        raise(SIGSTOP);
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, WUNTRACED), child);
    CHECK(WIFSTOPPED(status));
    return child;
}

TEST_WITHIN(120, many_observers_change_nothing)
{
    enum { CROWD = 500 };
    struct world w;
    static struct gd_observer *crowd[CROWD];
    struct rlimit limit;
    needs_fork();
    enter();
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < 2 * CROWD + 64)
        SKIP("too few descriptors");
    world_open(&w, 2);
    w.o.job = "crowd";
    w.leaves_children = 1; /* the stopped observer */
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 1 });
    world_add_many(&w, 3000, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    const pid_t stopped = stopped_observer();
    for (size_t i = 0; i < CROWD; i++)
        crowd[i] = observe("crowd");
    world_gate_open(w.page, 1);
    for (size_t i = 0; i < CROWD; i++)
        (void)look(crowd[i]);
    CHECK_EQ(world_join(&w), 0);
    for (size_t i = 0; i < CROWD; i++) {
        CHECK(look(crowd[i])->ended);
        CHECK_EQ(look(crowd[i])->stats->completed, 3001);
        gd_observer_close(&crowd[i]);
    }
    CHECK_EQ(kill(stopped, SIGKILL), 0);
    CHECK_EQ(waitpid(stopped, NULL, 0), stopped);
    world_close(&w);
}

/* A fork has copies of all descriptors of this process. They stay open when this process closes its own. */
TEST(a_fork_that_keeps_running_does_not_disturb_the_end_of_workers)
{
    struct world w;
    needs_fork();
    enter();
    world_open(&w, 24);
    w.leaves_children = 1;
    w.o.job = "crowd";
    world_add_many(&w, 24, (struct world_order){ .what = W_ECHO, .gate = 1 });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 24);
    const pid_t stopped = stopped_observer();
    world_gate_open(w.page, 1);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(kill(stopped, SIGKILL), 0);
    CHECK_EQ(waitpid(stopped, NULL, 0), stopped);
    world_close(&w);
}

TEST(bad_use)
{
    const struct gd_snapshot *s;
    enter();
    CHECK_EQ(gd_observer_open(NULL, NULL), GD_E_INVALID);
    CHECK_EQ(gd_observer_attach(NULL, NULL), GD_E_INVALID);
    CHECK_EQ(gd_observer_read(NULL, &s), GD_E_INVALID);
    CHECK_EQ(gd_observer_select(NULL, 0), GD_E_INVALID);
    CHECK_EQ(gd_observer_fd(NULL), -1);
    gd_observer_close(NULL);
    struct gd_observer *none = NULL;
    gd_observer_close(&none);
    CHECK_EQ(gd_observer_open(&none, NULL), GD_E_NO_JOB);
    CHECK(none == NULL);
}

/* world_run() checks that no descriptor, mapping or process is left. This must also be true for a run that is
 * published. */
TEST(nothing_is_left)
{
    struct world w;
    enter();
    world_open(&w, 2);
    w.o.job = "clean";
    world_add_many(&w, 50, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    world_close(&w);
    CHECK_EQ(rmdir("jobs"), 0);
}

WORLD_MAIN()
