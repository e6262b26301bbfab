/* SPDX-License-Identifier: MIT
 *
 * The page of a run: its layout, reading while it is written, and damaged pages.
 */
#include "support/test.h"

#include <fcntl.h>
#include <gpu_dispatch/devices.h>
#include <math.h>
#include <pthread.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file/run_directory.h"
#include "base/process/owner.h"
#include "binding.h"
#include "stats/observer.h"
#include "stats/page/page.h"
#include "stats/page/reader.h"
#include "support/directory.h"

enum { WORKERS = 3, DEVICES = 2 };

static const struct gd__page_device two[DEVICES] = {
    { .gpu_id = 0, .vendor = GD_VENDOR_CPU, .name = "first", .uuid = "GPU-1" },
    { .gpu_id = 1, .vendor = GD_VENDOR_CPU, .name = "second", .group = 0 },
};

/* Opens a page without a name, because its directory cannot be made. */
static struct gd__page *open_page(void)
{
    const struct gd__page_spec spec = { .job = "a job", .n_workers = WORKERS, .n_devices = DEVICES, .devices = two };
    struct gd__page *p;
    setenv("GPU_DISPATCH_JOBS", "/nonexistent/folder", 1);
    CHECK_EQ(gd__page_open(&p, &spec), 0);
    CHECK_EQ(p->directory, -1);
    return p;
}

static void open_reader(struct gd__reader *r, const struct gd__page *p)
{
    CHECK_EQ(gd__reader_open(r, dup(p->fd)), 0);
}

static struct gd_observer *observe(const struct gd__page *p)
{
    struct gd_observer *o;
    CHECK_EQ(gd__observer_open_page(&o, dup(p->fd), true), 0);
    return o;
}

static _Atomic uint64_t *sequence(const struct gd__page *p, unsigned i)
{
    return (_Atomic uint64_t *)(void *)(p->base + p->plan.sequences) + i;
}

/* --- layout --- */

TEST(parts_do_not_overlap)
{
    static const uint64_t counts[][2] = { { 0, 0 }, { 1, 1 }, { 7, 3 }, { 8, 8 }, { 4096, 4096 } };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct gd__page_plan p;
        CHECK(gd__page_plan(&p, counts[i][0], counts[i][1]));
        const size_t ends[][2] = {
            { sizeof(struct gd__page_header), p.live },
            { p.live + sizeof(struct gd__page_live), p.sequences },
            { p.sequences + (1 + counts[i][0]) * sizeof(uint64_t), p.run },
            { p.run + sizeof(struct gd__page_run), p.workers },
            { p.workers + counts[i][0] * sizeof(struct gd__page_worker), p.devices },
            { p.devices + counts[i][1] * sizeof(struct gd__page_device), p.tasks },
            { p.tasks + GD__PAGE_TASKS * sizeof(struct gd__page_task), p.failures },
            { p.failures + GD__PAGE_FAILURES * sizeof(struct gd__page_failure), p.requests },
            { p.requests + GD__PAGE_REQUESTS * sizeof(struct gd__page_request), p.size },
        };
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
            CHECK_LE(ends[k][0], ends[k][1]);
            CHECK_EQ(ends[k][1] % GD__PAGE_LINE, 0);
        }
        CHECK_EQ(p.size % 4096, 0);
    }
}

TEST(too_many_parts_are_refused)
{
    struct gd__page_plan p;
    CHECK(!gd__page_plan(&p, GD__PAGE_MOST + 1, 1));
    CHECK(!gd__page_plan(&p, 1, GD__PAGE_MOST + 1));
    CHECK(!gd__page_plan(&p, UINT64_MAX, UINT64_MAX));
}

/* Both structs consist of 64-bit words, apart from the text of the view. */
TEST(a_view_has_every_figure_of_a_worker)
{
    enum { FIGURES = sizeof(struct gd_worker_stats) / sizeof(uint64_t) };
    struct gd_worker_stats stats;
    struct gd_worker_view view;
    uint64_t figures[FIGURES], shown[sizeof view / sizeof(uint64_t)];
    for (size_t i = 0; i < FIGURES; i++)
        figures[i] = 1000 + i;
    memcpy(&stats, figures, sizeof stats);
    memset(&view, 0, sizeof view);
    gd__worker_view_fill(&view, &stats);
    memcpy(shown, &view, sizeof shown);
    for (size_t i = 0; i < FIGURES; i++) {
        size_t n = 0;
        for (size_t k = 0; k < sizeof shown / sizeof *shown; k++)
            n += shown[k] == figures[i];
        CHECK_EQ(n, 1);
    }
}

TEST(a_process_is_identified_by_its_start_time)
{
    uint64_t start;
    CHECK(gd__owner_parse("12 (a b) c)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21", &start));
    CHECK_EQ(start, 4242);
    CHECK(!gd__owner_parse("12 (sh) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21", &start));
    CHECK(!gd__owner_parse("12 (sh) S 1 2 3", &start));
    CHECK(!gd__owner_parse("", &start));
    struct gd__owner self;
    gd__owner_self(&self);
    CHECK_EQ(self.pid, getpid());
    CHECK_GT(self.start, 0);
    CHECK(gd__owner_is_ours(&self));
    CHECK(gd__owner_alive(&self));
    self.start++;
    CHECK(!gd__owner_alive(&self)); /* now the process id belongs to another process */
    CHECK_EQ(gd__owner_pidfd(&self), -1);
    self.space++;
    CHECK(!gd__owner_is_ours(&self));
    self.pid = UINT64_MAX;
    CHECK(!gd__owner_alive(&self));
}

/* --- writing and reading --- */

TEST(a_snapshot_has_what_was_written)
{
    struct gd__page *p = open_page();
    struct gd_observer *o = observe(p);
    const struct gd_snapshot *s;
    struct gd__page_worker w = { .stats = { .worker_id = 1, .state = GD_WORKER_BUSY, .current_task = 77 },
                                 .idle = GD_IDLE_NOT,
                                 .since_ns = 5,
                                 .device_out = 1,
                                 .task_size = 6,
                                 .task = "in\033put" };
    gd__page_put_worker(p, 1, &w);
    const struct gd_task_view t = { .task_id = 4,
                                    .worker_id = 1,
                                    .gpu_id = 1,
                                    .start_ns = 10,
                                    .end_ns = 20,
                                    .attempt = 1,
                                    .failure = GD_FAILURE_CRASH };
    struct gd__page_failure f = { .task = t, .input_size = 3, .error_size = 4, .input = "abcdef", .error = "no\nt!" };
    gd__page_put_task(p, &t);
    gd__page_put_failure(p, &f);
    p->run.tasks_ended = p->run.failures_ended = 1;
    p->run.stats.completed = 9;
    gd__page_put_request(p, &(struct gd__page_request){ .at_ns = 7, .code = -3, .text_size = 5, .text = "re\nsu!" });
    gd__page_put_run(p);
    CHECK_EQ(gd_observer_read(o, &s), 0);
    CHECK_STR(s->job, "a job");
    CHECK_EQ(s->pid, getpid());
    CHECK_GT(s->started, 1.6e9);
    CHECK(!s->ended);
    CHECK_EQ(s->stats->completed, 9);
    CHECK_EQ(s->n_workers, WORKERS);
    CHECK_EQ(s->stats->n_workers, WORKERS);
    CHECK_EQ(gd_snapshot_worker(s, 1)->current_task, 77);
    CHECK_EQ(gd_snapshot_worker(s, 1)->device_out, 1);
    CHECK_STR(gd_snapshot_worker(s, 1)->task, "in?put");
    CHECK_EQ(s->n_devices, DEVICES);
    CHECK_STR(gd_snapshot_device(s, 0)->name, "first");
    CHECK_STR(gd_snapshot_device(s, 0)->uuid, "GPU-1");
    CHECK_EQ(gd_snapshot_device(s, 1)->group, 0);
    CHECK_EQ(s->n_tasks, 1);
    CHECK_MEM(gd_snapshot_task(s, 0), &t, sizeof t);
    CHECK_EQ(s->n_failures, 1);
    CHECK_STR(gd_snapshot_failure(s, 0)->input, "abc");
    CHECK_STR(gd_snapshot_failure(s, 0)->error, "no t");
    CHECK_EQ(s->n_requests, 1);
    CHECK_EQ(gd_snapshot_request(s, 0)->at_ns, 7);
    CHECK_EQ(gd_snapshot_request(s, 0)->code, -3);
    CHECK_STR(gd_snapshot_request(s, 0)->what, "re su");
    CHECK_EQ(gd_observer_read(o, &s), 0);
    CHECK_EQ(s->n_tasks + s->n_failures + s->tasks_missed + s->failures_missed, 0); /* each is reported once */
    CHECK_EQ(s->n_requests + s->requests_missed, 0);
    for (uint64_t i = 0; i < GD__PAGE_REQUESTS + 5; i++) /* the oldest of them are replaced */
        gd__page_put_request(p, &(struct gd__page_request){ .at_ns = i });
    gd__page_put_run(p);
    CHECK_EQ(gd_observer_read(o, &s), 0);
    CHECK_EQ(s->n_requests, GD__PAGE_REQUESTS);
    CHECK_EQ(s->requests_missed, 5);
    CHECK_EQ(gd_snapshot_request(s, 0)->at_ns, 5);
    CHECK_EQ(gd_snapshot_request(s, GD__PAGE_REQUESTS - 1)->at_ns, GD__PAGE_REQUESTS + 4);
    CHECK(!gd_snapshot_request(s, GD__PAGE_REQUESTS));
    gd__page_end(p);
    CHECK_EQ(gd_observer_read(o, &s), 0);
    CHECK(s->ended);
    gd__page_close(&p);
    CHECK_EQ(gd_observer_read(o, &s), 0); /* an observer may still read after the page is removed */
    CHECK(s->ended);
    gd_observer_close(&o);
    CHECK(o == NULL);
}

/* Whatever a page contains, a snapshot has amounts that are finite and not negative, and work_done is at most
 * work_total. */
TEST(impossible_amounts_are_corrected)
{
    static const struct {
        double done, total, seen_done, seen_total;
    } cases[] = {
        { 2.5, 10, 2.5, 10 },     { 0, 10, 0, 10 },
        { 10, 10, 10, 10 },       { 12, 10, 10, 10 },
        { -1, 10, 0, 10 },        { NAN, 10, 0, 10 },
        { INFINITY, 10, 10, 10 }, { 5, 0, 0, 0 },
        { 5, -1, 0, 0 },          { 5, NAN, 0, 0 },
        { 5, INFINITY, 0, 0 },    { 5, -INFINITY, 0, 0 },
        { -INFINITY, 10, 0, 10 }, { 1e300, 2e300, 1e300, 2e300 },
    };
    struct gd__page *p = open_page();
    struct gd_observer *o = observe(p);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct gd_snapshot *s;
        p->run.work_done = cases[i].done;
        p->run.work_total = cases[i].total;
        gd__page_put_run(p);
        CHECK_EQ(gd_observer_read(o, &s), 0);
        if (s->work_done != cases[i].seen_done || s->work_total != cases[i].seen_total)
            FAIL("%g of %g is seen as %g of %g", cases[i].done, cases[i].total, s->work_done, s->work_total);
    }
    gd_observer_close(&o);
    gd__page_close(&p);
}

TEST(a_part_that_is_only_half_written_is_not_used)
{
    struct gd__page *p = open_page();
    struct gd__reader r;
    struct gd__page_worker w = { .stats = { .completed = 1 } };
    open_reader(&r, p);
    gd__page_put_worker(p, 0, &w);
    gd__page_put_worker(p, 2, &w);
    p->run.stats.completed = 1;
    gd__page_put_run(p);
    CHECK_EQ(gd__reader_read(&r), 0);
    CHECK_EQ(r.workers[0].stats.completed, 1);
    /* As if the writer was killed while it wrote worker 0. Worker 2 and the run are complete. */
    w.stats.completed = p->run.stats.completed = 2;
    gd__page_put_worker(p, 0, &w);
    atomic_fetch_sub(sequence(p, 1), 1);
    gd__page_put_worker(p, 2, &w);
    gd__page_put_run(p);
    CHECK_EQ(gd__reader_read(&r), 0);
    CHECK_EQ(r.workers[0].stats.completed, 1);
    CHECK_EQ(r.workers[2].stats.completed, 2);
    CHECK_EQ(r.run.stats.completed, 2);
    gd__reader_close(&r);
    gd__page_close(&p);
}

static void put_tasks(struct gd__page *p, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        gd__page_put_task(p, &(struct gd_task_view){ .task_id = p->run.tasks_tail });
        p->run.tasks_ended++;
    }
}

static uint64_t id_at(const struct gd__reader *r, uint64_t i)
{
    struct gd__page_task t;
    memcpy(&t, r->tasks.entries + i * sizeof t, sizeof t);
    return t.task.task_id;
}

TEST(a_slow_reader_gets_the_last_tasks_and_the_number_missed)
{
    struct gd__page *p = open_page();
    struct gd__reader r;
    open_reader(&r, p);
    put_tasks(p, GD__PAGE_TASKS + 100);
    gd__page_put_run(p);
    CHECK_EQ(gd__reader_read(&r), 0);
    CHECK_EQ(r.tasks.n, GD__PAGE_TASKS);
    CHECK_EQ(r.tasks.missed, 100);
    for (uint64_t i = 0; i < r.tasks.n; i++)
        CHECK_EQ(id_at(&r, i), 100 + i);
    put_tasks(p, 3);
    p->run.tasks_ended += 2; /* two tasks that are not in the page */
    gd__page_put_run(p);
    CHECK_EQ(gd__reader_read(&r), 0);
    CHECK_EQ(r.tasks.n, 3);
    CHECK_EQ(r.tasks.missed, 2);
    CHECK_EQ(id_at(&r, 0), GD__PAGE_TASKS + 100);
    gd__reader_close(&r);
    gd__page_close(&p);
}

/* The writer has written more tasks after it last published its position. */
TEST(a_task_replaced_during_reading_is_missed)
{
    struct gd__page *p = open_page();
    struct gd__reader r;
    open_reader(&r, p);
    put_tasks(p, 10);
    gd__page_put_run(p);
    put_tasks(p, GD__PAGE_TASKS - 4);
    CHECK_EQ(gd__reader_read(&r), 0);
    CHECK_EQ(r.tasks.n, 4);
    CHECK_EQ(r.tasks.missed, 6);
    for (uint64_t i = 0; i < 4; i++)
        CHECK_EQ(id_at(&r, i), 6 + i);
    put_tasks(p, GD__PAGE_TASKS);
    CHECK_EQ(gd__reader_read(&r), 0);
    CHECK_EQ(r.tasks.n, 0);
    gd__reader_close(&r);
    gd__page_close(&p);
}

/* In a snapshot the tasks are closer together than in the page. */
TEST(each_of_many_tasks_is_complete)
{
    struct gd__page *p = open_page();
    struct gd_observer *o = observe(p);
    const struct gd_snapshot *s;
    for (uint64_t i = 0; i < 1000; i++) {
        const struct gd_task_view t = { .task_id = i,
                                        .worker_id = (int64_t)i + 1,
                                        .gpu_id = -(int64_t)i,
                                        .start_ns = 3 * i,
                                        .end_ns = 5 * i,
                                        .attempt = (uint32_t)i + 7,
                                        .again = 1,
                                        .failure = i % 2 ? GD_FAILURE_TIMEOUT : 99 };
        gd__page_put_task(p, &t);
    }
    p->run.tasks_ended = 1000;
    gd__page_put_run(p);
    CHECK_EQ(gd_observer_read(o, &s), 0);
    CHECK_EQ(s->n_tasks, 1000);
    for (uint64_t i = 0; i < s->n_tasks; i++) {
        const struct gd_task_view *t = gd_snapshot_task(s, i);
        CHECK_EQ(t->task_id, i);
        CHECK_EQ(t->worker_id, (int64_t)i + 1);
        CHECK_EQ(t->gpu_id, -(int64_t)i);
        CHECK_EQ(t->start_ns, 3 * i);
        CHECK_EQ(t->end_ns, 5 * i);
        CHECK_EQ(t->attempt, i + 7);
        CHECK_EQ(t->again, 1);
        CHECK_EQ(t->failure, i % 2 ? GD_FAILURE_TIMEOUT : GD_FAILURE_ERROR);
    }
    gd_observer_close(&o);
    gd__page_close(&p);
}

static void put_both(struct gd__page *p, uint64_t tasks, uint64_t failures)
{
    const struct gd__page_failure f = { .error_size = 3, .error = "bad" };
    put_tasks(p, tasks);
    for (uint64_t i = 0; i < failures; i++)
        gd__page_put_failure(p, &f);
    p->run.failures_ended += failures;
    gd__page_put_run(p);
}

static void check_counts(struct gd_observer *o, const uint64_t tasks[2], const uint64_t failures[2])
{
    const struct gd_snapshot *s;
    CHECK_EQ(gd_observer_read(o, &s), 0);
    CHECK_EQ(s->n_tasks, tasks[0]);
    CHECK_EQ(s->tasks_missed, tasks[1]);
    CHECK_EQ(s->n_failures, failures[0]);
    CHECK_EQ(s->failures_missed, failures[1]);
}

TEST(tasks_that_are_not_requested_are_missed)
{
    static const uint64_t none[] = { 0, 0 }, five_seen[] = { 5, 0 }, five_missed[] = { 0, 5 }, two_seen[] = { 2, 0 },
                          two_missed[] = { 0, 2 };
    struct gd__page *p = open_page();
    struct gd_observer *o = observe(p);
    put_both(p, 5, 2);
    CHECK_EQ(gd_observer_select(o, 8), GD_E_INVALID);
    CHECK_EQ(gd_observer_select(o, 0), 0);
    check_counts(o, five_missed, two_missed);
    CHECK_EQ(gd_observer_select(o, GD_OBSERVED_TASKS), 0); /* missed tasks stay missed */
    check_counts(o, none, none);
    put_both(p, 5, 2);
    check_counts(o, five_seen, two_missed);
    CHECK_EQ(gd_observer_select(o, GD_OBSERVED_FAILURES), 0);
    put_both(p, 5, 2);
    check_counts(o, five_missed, two_seen);
    gd_observer_close(&o);
    gd__page_close(&p);
}

TEST(devices_are_queried_if_requested)
{
    struct gd_devices *list;
    struct gd_device d = { .size = sizeof d };
    CHECK_EQ(gd_devices_open(&list, "sim:1"), 0);
    CHECK_EQ(gd_devices_get(list, 0, &d), 0);
    struct gd__page_device simulated = { .gpu_id = 0, .vendor = GD_VENDOR_SIMULATED };
    snprintf(simulated.uuid, sizeof simulated.uuid, "%s", d.uuid);
    gd_devices_close(&list);
    const struct gd__page_spec spec = { .job = "a job", .n_workers = 1, .n_devices = 1, .devices = &simulated };
    struct gd__page *p;
    const struct gd_snapshot *s;
    CHECK_EQ(gd__page_open(&p, &spec), 0);
    gd__page_put_run(p);
    struct gd_observer *o = observe(p);
    CHECK_EQ(gd_observer_select(o, GD_OBSERVED_TASKS | GD_OBSERVED_FAILURES), 0);
    CHECK_EQ(gd_observer_read(o, &s), 0);
    CHECK_EQ(gd_snapshot_device(s, 0)->known, 0);
    CHECK_EQ(gd_observer_select(o, GD_OBSERVED_DEVICES), 0);
    CHECK_EQ(gd_observer_read(o, &s), 0);
    CHECK(gd_snapshot_device(s, 0)->known != 0);
    gd_observer_close(&o);
    gd__page_close(&p);
}

TEST(an_awake_run_without_updates_is_stale)
{
    struct gd__page *p = open_page();
    struct gd_observer *o = observe(p);
    const struct gd_snapshot *s;
    const uint64_t now = gd__now_ns(), long_ago = now > 3 * GD__NS_PER_S ? now - 3 * GD__NS_PER_S : 1;
    const uint64_t lately = now + 3600 * GD__NS_PER_S; /* in the future, so that a paused test does not fail */
    const struct {
        uint64_t published, awake;
        bool ended, stale;
    } rows[] = {
        { long_ago, 0, false, false },       /* asleep */
        { long_ago, long_ago, false, true }, /* in a callback for three seconds */
        { long_ago, lately, false, false },  /* woke up just now */
        { lately, long_ago, false, false },  /* publishes regularly */
        { long_ago, long_ago, true, false },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        p->run.published_ns = rows[i].published;
        p->run.ended = rows[i].ended;
        gd__page_awake(p, rows[i].awake);
        gd__page_put_run(p);
        CHECK_EQ(gd_observer_read(o, &s), 0);
        if (s->stale != rows[i].stale)
            FAIL("row %zu: %d", i, s->stale);
    }
    gd_observer_close(&o);
    gd__page_close(&p);
}

/* --- at full speed --- */

enum { ROUNDS = TEST_SLOWDOWN > 1 ? 20000 : 200000 };
static _Atomic bool writer_done;

static void *hammer(void *arg)
{
    struct gd__page *p = arg;
    for (uint64_t k = 1; k <= ROUNDS; k++) {
        struct gd__page_worker w = { .idle = k, .since_ns = k, .stats = { .completed = k, .busy_ns = k } };
        memset(w.task, (int)(k % 251), sizeof w.task);
        for (unsigned i = 0; i < WORKERS; i++)
            gd__page_put_worker(p, i, &w);
        put_tasks(p, k % 7);
        p->run.stats.completed = p->run.stats.failed = p->run.published_ns = k;
        gd__page_put_run(p);
    }
    atomic_store(&writer_done, true);
    return NULL;
}

static bool is_whole(const struct gd__page_worker *w)
{
    const uint64_t k = w->idle;
    bool same = w->since_ns == k && w->stats.completed == k && w->stats.busy_ns == k;
    for (size_t i = 0; i < sizeof w->task; i++)
        same = same && (unsigned char)w->task[i] == k % 251;
    return same;
}

TEST(a_reader_sees_complete_parts_and_every_task_once)
{
    struct gd__page *p = open_page();
    struct gd__reader r;
    pthread_t thread;
    uint64_t last = 0, n_reported = 0, next = 0, last_worker = 0;
    bool over = false;
    open_reader(&r, p);
    CHECK_EQ(pthread_create(&thread, NULL, hammer, p), 0);
    while (!over) {
        over = atomic_load(&writer_done);
        CHECK_EQ(gd__reader_read(&r), 0);
        CHECK_EQ(r.run.stats.completed, r.run.stats.failed);
        CHECK_EQ(r.run.stats.completed, r.run.published_ns);
        CHECK_GE(r.run.stats.completed, last);
        last = r.run.stats.completed;
        for (unsigned i = 0; i < WORKERS; i++)
            CHECK(is_whole(&r.workers[i]));
        CHECK_GE(r.workers[0].idle, last_worker);
        last_worker = r.workers[0].idle;
        for (uint64_t i = 0; i < r.tasks.n; i++) {
            CHECK_GE(id_at(&r, i), next);
            next = id_at(&r, i) + 1;
            CHECK_EQ(next, r.tasks.seen - r.tasks.n + i + 1);
        }
        n_reported += r.tasks.n + r.tasks.missed;
        CHECK_EQ(n_reported, r.run.tasks_ended);
    }
    CHECK_EQ(last, ROUNDS);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    gd__reader_close(&r);
    gd__page_close(&p);
}

/* Tests the sequence lock alone, in ordinary memory, where ThreadSanitizer can check it. */
static _Atomic uint64_t lock_number, words[8];

static void *write_words(void *arg)
{
    (void)arg;
    for (uint64_t k = 1; k <= ROUNDS; k++) {
        const uint64_t all[8] = { k, k, k, k, k, k, k, k };
        gd__sequence_write(&lock_number, words, all, sizeof all);
    }
    atomic_store(&writer_done, true);
    return NULL;
}

TEST(the_lock_never_mixes_two_versions)
{
    pthread_t thread;
    uint64_t whole = 0;
    bool over = false;
    CHECK_EQ(pthread_create(&thread, NULL, write_words, NULL), 0);
    while (!over) {
        uint64_t copy[8];
        over = atomic_load(&writer_done);
        const uint64_t before = atomic_load_explicit(&lock_number, memory_order_acquire);
        gd__words_load(copy, words, sizeof copy);
        const uint64_t after = atomic_load_explicit(&lock_number, memory_order_relaxed);
        if (!gd__sequence_whole(before, after))
            continue;
        whole++;
        for (unsigned i = 1; i < 8; i++)
            CHECK_EQ(copy[i], copy[0]);
    }
    CHECK_GT(whole, 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* --- damaged pages --- */

static int copy_to_file(const struct gd__page *p)
{
    const int fd = memfd_create("copy", MFD_CLOEXEC);
    CHECK_GE(fd, 0);
    CHECK_EQ(write(fd, p->base, p->plan.size), p->plan.size);
    return fd;
}

static struct gd__page *full_page(void)
{
    struct gd__page *p = open_page();
    put_tasks(p, 5);
    for (unsigned i = 0; i < 5; i++) {
        struct gd__page_failure f = { .input_size = 5, .error_size = 5, .input = "input", .error = "error" };
        gd__page_put_failure(p, &f);
        p->run.failures_ended++;
    }
    struct gd__page_worker w = { .task_size = 4, .task = "text" };
    for (unsigned i = 0; i < WORKERS; i++)
        gd__page_put_worker(p, i, &w);
    for (unsigned i = 0; i < 3; i++)
        gd__page_put_request(p, &(struct gd__page_request){ .text_size = 6, .text = "paused" });
    gd__page_put_run(p);
    return p;
}

static bool has_end(const char *text, size_t room)
{
    return memchr(text, '\0', room) != NULL;
}

static void check_snapshot(const struct gd_snapshot *s)
{
    CHECK(has_end(s->job, sizeof s->job));
    for (size_t i = 0; i < s->n_workers; i++) {
        CHECK_LE(gd_snapshot_worker(s, i)->state, GD_WORKER_LOST);
        CHECK_LE(gd_snapshot_worker(s, i)->idle, GD_IDLE_REMOVED);
        CHECK(has_end(gd_snapshot_worker(s, i)->task, sizeof gd_snapshot_worker(s, i)->task));
    }
    for (size_t i = 0; i < s->n_devices; i++)
        CHECK(has_end(gd_snapshot_device(s, i)->name, sizeof gd_snapshot_device(s, i)->name));
    CHECK_LE(s->n_tasks, GD__PAGE_TASKS);
    CHECK_LE(s->n_failures, GD__PAGE_FAILURES);
    for (size_t i = 0; i < s->n_failures; i++) {
        CHECK_LE(gd_snapshot_failure(s, i)->failure, GD_FAILURE_NO_WORKER);
        CHECK(has_end(gd_snapshot_failure(s, i)->error, sizeof gd_snapshot_failure(s, i)->error));
        CHECK(has_end(gd_snapshot_failure(s, i)->input, sizeof gd_snapshot_failure(s, i)->input));
    }
    CHECK_LE(s->n_requests, GD__PAGE_REQUESTS);
    for (size_t i = 0; i < s->n_requests; i++)
        CHECK(has_end(gd_snapshot_request(s, i)->what, sizeof gd_snapshot_request(s, i)->what));
}

/* Opens the page and reads it twice. The calls may return anything, but must not crash. */
static void look_at(int fd)
{
    struct gd_observer *o;
    const struct gd_snapshot *s;
    if (gd__observer_open_page(&o, dup(fd), true) < 0) {
        CHECK(o == NULL);
        return;
    }
    for (int k = 0; k < 2; k++) {
        (void)gd_observer_read(o, &s);
        check_snapshot(s);
    }
    gd_observer_close(&o);
}

/* Sets every byte that a reader uses to three different values. */
TEST_WITHIN(300, any_byte_may_be_wrong)
{
    struct gd__page *p = full_page();
    const int fd = copy_to_file(p);
    const size_t parts[][2] = {
        { 0, sizeof(struct gd__page_header) },
        { p->plan.live, p->plan.tasks },
        { p->plan.tasks, p->plan.tasks + 2 * sizeof(struct gd__page_task) },
        { p->plan.failures, p->plan.failures + 80 },
        { p->plan.requests, p->plan.requests + 40 },
    };
    static const unsigned char values[] = { 0x00, 0x7f, 0xff };
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        for (size_t at = parts[k][0]; at < parts[k][1]; at++) {
            const unsigned char was = p->base[at];
            for (size_t v = 0; v < sizeof values; v++) {
                CHECK_EQ(pwrite(fd, &values[v], 1, (off_t)at), 1);
                look_at(fd);
            }
            CHECK_EQ(pwrite(fd, &was, 1, (off_t)at), 1);
        }
    }
    close(fd);
    gd__page_close(&p);
}

TEST(a_truncated_page_is_an_error_and_causes_no_signal)
{
    struct gd__page *p = full_page();
    const int fd = copy_to_file(p);
    const size_t ends[] = { p->plan.size - 1,
                            p->plan.failures + 1,
                            p->plan.tasks + 1,
                            p->plan.workers + 1,
                            p->plan.run,
                            p->plan.live,
                            100,
                            0 };
    struct gd_observer *o, *late;
    const struct gd_snapshot *s;
    CHECK_EQ(gd__observer_open_page(&o, dup(fd), true), 0);
    CHECK_EQ(gd_observer_read(o, &s), 0);
    CHECK_EQ(s->n_failures, 5);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        CHECK_EQ(ftruncate(fd, (off_t)ends[i]), 0);
        const int rc = gd_observer_read(o, &s);
        CHECK(rc == 0 || rc == GD_E_CORRUPT);
        if (ends[i] < p->plan.devices)
            CHECK_EQ(rc, GD_E_CORRUPT);
        CHECK_STR(s->job, "a job"); /* still from the last good snapshot */
        CHECK_EQ(s->n_failures, 0);
        CHECK_EQ(gd__observer_open_page(&late, dup(fd), true), GD_E_CORRUPT);
    }
    gd_observer_close(&o);
    close(fd);
    gd__page_close(&p);
}

TEST(a_page_of_another_version_gives_a_clear_error)
{
    struct gd__page *p = full_page();
    const int fd = copy_to_file(p);
    const uint64_t versions[] = { GD__PAGE_VERSION - 1, GD__PAGE_VERSION + 1 };
    struct gd_observer *o;
    for (size_t i = 0; i < 2; i++) {
        CHECK_EQ(pwrite(fd, &versions[i], sizeof versions[i], offsetof(struct gd__page_header, version)),
                 sizeof versions[i]);
        CHECK_EQ(gd__observer_open_page(&o, dup(fd), true), GD_E_VERSION);
        CHECK_CONTAINS(gd_error_text(), i == 0 ? "version 5, " : "version 7, ");
        CHECK_CONTAINS(gd_error_text(), "but this program reads version 6:");
    }
    close(fd);
    gd__page_close(&p);
}

TEST(counts_that_do_not_match_the_size_are_refused)
{
    struct gd__page *p = full_page();
    const size_t at[] = { offsetof(struct gd__page_header, size), offsetof(struct gd__page_header, n_workers),
                          offsetof(struct gd__page_header, n_devices) };
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        const int fd = copy_to_file(p);
        uint64_t value;
        struct gd_observer *o;
        CHECK_EQ(ftruncate(fd, 10 * (off_t)p->plan.size), 0); /* the file is large enough for these counts */
        memcpy(&value, p->base + at[i], sizeof value);
        value += 4096;
        CHECK_EQ(pwrite(fd, &value, sizeof value, (off_t)at[i]), sizeof value);
        CHECK_EQ(gd__observer_open_page(&o, fd, true), GD_E_CORRUPT);
        CHECK(o == NULL);
    }
    gd__page_close(&p);
}

TEST(a_page_whose_counts_decrease_is_refused)
{
    struct gd__page *p = open_page();
    struct gd__reader r;
    open_reader(&r, p);
    put_tasks(p, 10);
    gd__page_put_run(p);
    CHECK_EQ(gd__reader_read(&r), 0);
    p->run.tasks_tail = p->run.tasks_ended = 3;
    gd__page_put_run(p);
    CHECK_EQ(gd__reader_read(&r), GD_E_CORRUPT);
    gd__reader_close(&r);
    gd__page_close(&p);
}

/* --- the directory --- */

static void use_directory(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory_path, name);
    setenv("GPU_DISPATCH_JOBS", path, 1);
}

TEST(a_page_has_its_name_from_its_completion_to_the_end_of_the_run)
{
    const struct gd__page_spec spec = { .job = "j", .n_workers = 1, .n_devices = 2, .devices = two };
    struct gd__page *p;
    struct stat s;
    directory_enter();
    use_directory("jobs");
    CHECK_EQ(gd__page_open(&p, &spec), 0);
    const int directory = gd__run_directory_open(0, false, NULL);
    CHECK_EQ(fstatat(directory, p->name, &s, AT_SYMLINK_NOFOLLOW), 0);
    CHECK_EQ(s.st_size, p->plan.size);
    CHECK_EQ(s.st_mode & 0777, 0400);
    CHECK_GE(s.st_blocks * 512, s.st_size); /* the whole page is allocated */
    char name[GD__PAGE_NAME];
    snprintf(name, sizeof name, "%s", p->name);
    gd__page_end(p);
    CHECK_EQ(fstatat(directory, name, &s, AT_SYMLINK_NOFOLLOW), -1);
    gd__page_close(&p);
    close(directory);
}

TEST_MAIN()
