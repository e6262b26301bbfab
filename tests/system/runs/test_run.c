/* Normal runs: every callback and its fields, seeds, setup arguments, worker ids, statistics, output. */
#include "support/test.h"
#include "support/world.h"

TEST(every_task_is_done_once)
{
    struct world w;
    world_open(&w, 3);
    world_add_many(&w, 1000, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 1000);
    for (size_t i = 0; i < 1000; i++)
        CHECK_EQ(atomic_load(&w.page->runs[i]), 1);
    CHECK_EQ(world_count(w.page, WC_SETUPS), 3);
    CHECK_EQ(world_count(w.page, WC_CLEANUPS), 3);
    CHECK_EQ(w.n_events, 0);
    world_close(&w);
}

TEST(an_empty_source)
{
    struct world w;
    world_open(&w, 2);
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.stats.taken, 0);
    CHECK_EQ(w.exits, 1);
    world_close(&w);
}

TEST(an_empty_payload_and_an_empty_result)
{
    struct world w;
    world_open(&w, 1);
    world_add_sized(&w, (struct world_order){ .what = W_ECHO }, 0);
    world_add(&w, (struct world_order){ .what = W_NOTHING });
    world_add(&w, (struct world_order){ .what = W_BYTES, .n = 0 });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 3);
    CHECK_EQ(w.finals[0].answer.input_size, 0);
    world_close(&w);
}

TEST(queue_size_one)
{
    struct world w;
    world_open(&w, 2);
    w.o.queue_size = 1;
    world_add_many(&w, 200, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 200);
    world_close(&w);
}

TEST(a_report_has_every_field)
{
    struct world w;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const uint64_t before = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    world_open(&w, 1);
    w.gpus[0] = 5;
    w.o.retries = 1;
    w.o.retry_delay_ms = 1;
    w.o.on_task_start = world_on_task_start;
    world_add_sized(&w, (struct world_order){ .what = W_ECHO }, 100);
    world_add(&w, (struct world_order){ .what = W_ERROR });
    CHECK_EQ(world_run(&w), 0);
    clock_gettime(CLOCK_MONOTONIC, &t);
    const uint64_t after = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    for (unsigned i = 0; i < 2; i++) {
        CHECK_EQ(w.finals[i].worker_id, 0); /* the index, not the number of the GPU */
        CHECK_EQ(w.finals[i].gpu_id, 5);
        CHECK_GE(w.finals[i].start_ns, before);
        CHECK_GE(w.finals[i].end_ns, w.finals[i].start_ns);
        CHECK_LE(w.finals[i].end_ns, after);
    }
    CHECK_EQ(w.finals[0].attempt, 1);
    CHECK_EQ(w.finals[0].starts, 1);
    CHECK_EQ(w.finals[1].attempt, 2);
    CHECK_EQ(w.finals[1].starts, 2);
    CHECK_STR(w.finals[1].error, "task 1 went wrong at attempt 2");
    CHECK_EQ(w.finals[1].failure, GD_FAILURE_ERROR);
    CHECK_EQ(w.stats.retried, 1);
    CHECK_EQ(w.stats.failed, 1);
    world_close(&w);
}

TEST(a_worker_gets_its_seed_and_its_gpu)
{
    struct world w;
    world_open(&w, 3);
    w.gpus[0] = 4;
    w.gpus[1] = 9;
    w.gpus[2] = 2;
    w.o.base_seed = 1000;
    world_add_many(&w, 300, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    for (size_t i = 0; i < 300; i++)
        CHECK_EQ(w.finals[i].answer.seed, 1000 + (uint64_t)w.finals[i].answer.gpu_id);
    CHECK_EQ(w.workers[1].worker_id, 1);
    CHECK_EQ(w.workers[1].gpu_id, 9);
    world_close(&w);
}

TEST(the_default_seed_is_42_and_the_gpu_id)
{
    struct world w;
    world_open(&w, 1);
    w.gpus[0] = 3;
    world_add(&w, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].answer.seed, 45);
    world_close(&w);
}

TEST(setup_args_reach_every_worker)
{
    struct world w;
    enum { SIZE = 100000 };
    char *args = malloc(SIZE);
    for (unsigned i = 0; i < SIZE; i++)
        args[i] = (char)(i * 7);
    world_open(&w, 3);
    w.o.setup_args = args;
    w.o.setup_args_size = SIZE;
    const uint64_t sum = world_args_sum(args, SIZE);
    world_add_many(&w, 90, (struct world_order){ .what = W_ECHO });
    world_start(&w);
    memset(args, 0, SIZE); /* the library has its own copy */
    free(args);
    CHECK_EQ(world_finish(&w), 0);
    gd_dispatcher_close(&w.d);
    for (size_t i = 0; i < 90; i++)
        CHECK_EQ(w.finals[i].answer.args_sum, sum);
    world_close(&w);
}

TEST(several_workers_per_gpu)
{
    struct world w;
    bool seen[6] = { false };
    world_open(&w, 3);
    w.gpus[0] = 7;
    w.gpus[1] = 3;
    w.gpus[2] = 5;
    w.o.workers_per_gpu = 2;
    world_add_many(&w, 6, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 6); /* each worker has begun one task */
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    for (size_t i = 0; i < 6; i++) {
        const struct world_answer *a = &w.finals[i].answer;
        CHECK(a->worker_id >= 0 && a->worker_id < 6);
        CHECK_EQ(a->gpu_id, w.gpus[a->worker_id / 2]);
        CHECK(!seen[a->worker_id]);
        seen[a->worker_id] = true;
    }
    CHECK_EQ(w.stats.n_workers, 6);
    world_close(&w);
}

TEST(on_task_start_is_called_before_the_final_callback)
{
    struct world w;
    world_open(&w, 2);
    w.o.on_task_start = world_on_task_start; /* checks that the task is not final yet */
    world_add_many(&w, 300, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    for (size_t i = 0; i < 300; i++)
        CHECK_EQ(w.finals[i].starts, 1);
    world_close(&w);
}

/* The start of a long task is reported while it runs. */
static void let_it_go(struct world *w, uint64_t task_id, int worker_id)
{
    (void)worker_id;
    CHECK_EQ(task_id, 0);
    world_gate_open(w->page, 2);
}

TEST(on_task_start_is_called_while_the_task_runs)
{
    struct world w;
    world_open(&w, 1);
    w.o.on_task_start = world_on_task_start;
    w.on_started = let_it_go;
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 2 });
    CHECK_EQ(world_run(&w), 0);
    world_close(&w);
}

TEST(only_on_success_is_set)
{
    struct world w;
    world_open(&w, 1);
    w.o.task_timeout_ms = WORLD_PATIENCE_MS;
    w.o.crash_limit = 1;
    world_add(&w, (struct world_order){ .what = W_ECHO });
    world_add(&w, (struct world_order){ .what = W_ERROR });
    world_add(&w, (struct world_order){ .what = W_KILL });
    world_add(&w, (struct world_order){ .what = W_POLITE_LOOP });
    w.setup = (struct world_setup){ .cleanup = W_ERROR };
    w.o.setup_args = &w.setup;
    w.o.setup_args_size = sizeof w.setup;
    w.o.on_error = w.o.on_timeout = NULL;
    w.o.on_setup_fail = w.o.on_cleanup_fail = NULL;
    w.o.on_worker_exit = NULL;
    w.o.on_exit = NULL;
    w.finals = calloc(w.n_orders, sizeof *w.finals);
    w.thread = pthread_self();
    CHECK_EQ(gd_run(&w.o), 0);
    CHECK_EQ(w.n_finals, 1);
    world_close(&w);
}

TEST(a_cleanup_that_fails_is_reported)
{
    struct world w;
    world_open(&w, 2);
    w.setup = (struct world_setup){ .cleanup = W_ERROR, .workers = 2 };
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.n_events, 1);
    CHECK_EQ(w.events[0].kind, 'c');
    CHECK_EQ(w.events[0].worker_id, 1);
    CHECK_STR(w.events[0].text, "cleanup of worker 1 refused");
    world_close(&w);
}

/* --- statistics --- */

static struct gd_stats stats_of(struct world *w)
{
    struct gd_stats s = { .size = sizeof s };
    CHECK_EQ(gd_dispatcher_stats(w->d, &s), 0);
    return s;
}

static void look_from_callback(struct world *w, const struct gd_report *r)
{
    (void)r;
    const struct gd_stats s = stats_of(w);
    CHECK_LE(s.completed + s.failed + s.timeouts + s.pending + s.running, s.taken + 0u);
    CHECK_EQ(s.total, 300);
    CHECK_GE(s.now_ns, s.start_ns);
    CHECK_EQ(s.n_workers, 2);
}

TEST(stats_from_callbacks_add_up)
{
    struct world w;
    world_open(&w, 2);
    w.o.total_tasks = 300;
    w.on_final = look_from_callback;
    world_add_many(&w, 300, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.stats.completed, 300);
    CHECK_EQ(w.stats.source_done, 1);
    CHECK_EQ(w.workers[0].completed + w.workers[1].completed, 300);
    CHECK_GT(w.workers[0].busy_ns + w.workers[1].busy_ns, 0);
    CHECK_EQ(w.workers[0].state, GD_WORKER_FINISHED);
    CHECK_EQ(w.workers[0].pid, 0);
    world_close(&w);
}

TEST(stats_from_another_thread_while_tasks_run)
{
    struct world w;
    struct gd_worker_stats ws[2];
    world_open(&w, 2);
    w.o.window = 1;
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO, .gate = 2 });
    w.o.on_task_start = world_on_task_start;
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 2);
    struct gd_stats s;
    do {
        s = stats_of(&w); /* these figures may be a few milliseconds old */
        sched_yield();
    } while (s.running < 2 || !s.source_done);
    CHECK_EQ(s.taken, 10);
    CHECK_EQ(s.running, 2);
    CHECK_EQ(s.pending, 8);
    CHECK_EQ(s.completed, 0);
    CHECK_GT(s.start_ns, 0);
    CHECK_EQ(gd_dispatcher_worker_stats(w.d, ws, sizeof *ws, 2), 2);
    for (unsigned i = 0; i < 2; i++) {
        CHECK_EQ(ws[i].state, GD_WORKER_BUSY);
        CHECK_LT(ws[i].current_task, 10);
        CHECK_EQ(ws[i].pid, world_pid(w.page, (int)i));
        CHECK_EQ(ws[i].handed, 1);
    }
    CHECK_NE(ws[0].current_task, ws[1].current_task);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    world_close(&w);
}

TEST(stats_before_the_run)
{
    struct world w;
    world_open(&w, 2);
    world_start(&w);
    const struct gd_stats s = stats_of(&w);
    CHECK_EQ(s.taken, 0);
    CHECK_EQ(s.start_ns, 0);
    struct gd_worker_stats one;
    CHECK_EQ(gd_dispatcher_worker_stats(w.d, &one, sizeof one, 1), 2);
    CHECK_EQ(one.state, GD_WORKER_OFF);
    CHECK_EQ(one.current_task, UINT64_MAX);
    gd_dispatcher_close(&w.d);
    world_close(&w);
}

TEST(stats_for_an_older_caller)
{
    struct world w;
    struct {
        struct gd_stats s;
    } room;
    memset(&room, 0x5a, sizeof room);
    world_open(&w, 1);
    world_start(&w);
    room.s.size = offsetof(struct gd_stats, pending);
    CHECK_EQ(gd_dispatcher_stats(w.d, &room.s), 0);
    CHECK_EQ(room.s.taken, 0);
    CHECK_EQ(room.s.pending, 0x5a5a5a5a5a5a5a5a); /* not touched */
    gd_dispatcher_close(&w.d);
    world_close(&w);
}

/* --- output --- */

TEST(output_is_captured)
{
    struct world w;
    world_open(&w, 1);
    w.o.output = GD_OUTPUT_CAPTURE;
    world_add(&w, (struct world_order){ .what = W_STDOUT, .n = 1000 });
    world_add(&w, (struct world_order){ .what = W_STDERR, .n = 1200 });
    CHECK_EQ(world_run(&w), 0);
    CHECK(w.output);
    CHECK_CONTAINS(w.output, "line 1000\n");
    CHECK_CONTAINS(w.output, "line 1200\n");
    size_t lines = 0;
    for (size_t i = 0; i < w.output_size; i++)
        lines += w.output[i] == '\n';
    CHECK_EQ(lines, 2200);
    world_close(&w);
}

/* Runs a world whose stdout and stderr are a pipe. Reads that pipe after the run. */
static size_t run_with_pipe(enum gd_worker_output output, char *text, size_t size)
{
    struct world w;
    int pipe_fds[2];
    CHECK_EQ(pipe(pipe_fds), 0);
    fflush(NULL);
    const int out = dup(1), err = dup(2);
    dup2(pipe_fds[1], 1);
    dup2(pipe_fds[1], 2);
    close(pipe_fds[1]);
    world_open(&w, 1);
    w.o.output = output;
    world_add(&w, (struct world_order){ .what = W_STDOUT, .n = 20 });
    world_add(&w, (struct world_order){ .what = W_STDERR, .n = 30 });
    const int rc = world_run(&w);
    dup2(out, 1);
    dup2(err, 2);
    close(out);
    close(err);
    CHECK_EQ(rc, 0);
    size_t n = 0;
    for (ssize_t k; n < size - 1 && (k = read(pipe_fds[0], text + n, size - 1 - n)) > 0;)
        n += (size_t)k;
    text[n] = '\0';
    close(pipe_fds[0]);
    world_close(&w);
    return n;
}

TEST(output_is_inherited)
{
    char text[8192];
    run_with_pipe(GD_OUTPUT_INHERIT, text, sizeof text);
    CHECK_CONTAINS(text, "line 20\n");
    CHECK_CONTAINS(text, "line 30\n");
}

TEST(output_is_discarded)
{
    char text[8192];
    CHECK_EQ(run_with_pipe(GD_OUTPUT_DISCARD, text, sizeof text), 0);
}

/* --- the process and its surroundings --- */

TEST(env_reaches_the_workers)
{
    struct world w;
    const char *env[] = { "GD_WORLD_OPS=b", "UNUSED=1", NULL };
    world_open(&w, 1);
    w.o.env = env;
    w.o.batch_size = 4;
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    for (size_t i = 0; i < 20; i++)
        CHECK_GT(w.finals[i].answer.batch, 0); /* process_batch was called, so the workers have the variable */
    world_close(&w);
}

TEST(a_worker_sees_its_own_device_only)
{
    struct world w;
    world_open(&w, 2);
    setenv("CUDA_VISIBLE_DEVICES", "7,5,3", 1); /* the run uses this list: its device 1 is number 5 */
    w.gpus[0] = 2;
    w.gpus[1] = 1;
    world_add_many(&w, 100, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    for (size_t i = 0; i < 100; i++) {
        CHECK_EQ(w.finals[i].answer.device, w.finals[i].gpu_id == 2 ? 3 : 5);
        CHECK(w.finals[i].answer.order);
    }
    world_close(&w);
}

/* A daemon closes its standard streams. Descriptors of the library may then have these numbers. Workers must still get
 * the right descriptors. */
TEST(without_standard_descriptors)
{
    struct world w;
    fflush(NULL);
    const int out = dup(1), err = dup(2);
    close(0);
    close(1);
    close(2);
    world_open(&w, 2);
    w.o.crash_limit = 1;
    world_add_many(&w, 50, (struct world_order){ .what = W_ECHO });
    world_add(&w, (struct world_order){ .what = W_STDERR_SEGV, .n = 5 });
    world_add(&w, (struct world_order){ .what = W_STDOUT, .n = 5 });
    const int rc = world_run(&w);
    dup2(out, 1);
    dup2(err, 2);
    CHECK_EQ(rc, 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 51);
    CHECK_CONTAINS(w.finals[50].error, "line 5");
    world_close(&w);
}

TEST(many_workers)
{
    struct world w;
    world_open(&w, 32);
    world_add_many(&w, 2000, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 2000);
    world_close(&w);
}

TEST(no_setup_and_no_cleanup)
{
    struct world w;
    world_open(&w, 1);
    world_ops("s");
    world_add_many(&w, 20, (struct world_order){ .what = W_NOTHING });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 20);
    CHECK_EQ(world_count(w.page, WC_SETUPS), 0);
    world_close(&w);
}

TEST(runs_one_after_the_other)
{
    for (unsigned i = 0; i < 10; i++) {
        struct world w;
        world_open(&w, 2);
        world_add_many(&w, 50, (struct world_order){ .what = W_ECHO });
        CHECK_EQ(world_run(&w), 0);
        world_close(&w);
    }
}

TEST(several_dispatchers_at_once)
{
    struct world w[3];
    for (unsigned i = 0; i < 3; i++) {
        world_open(&w[i], 2);
        world_add_many(&w[i], 500, (struct world_order){ .what = W_ECHO });
    }
    for (unsigned i = 0; i < 3; i++) {
        w[i].leaves_children = 1; /* workers of the other runs */
        world_launch(&w[i]);
    }
    for (unsigned i = 0; i < 3; i++)
        CHECK_EQ(world_join(&w[i]), 0);
    CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
    for (unsigned i = 0; i < 3; i++)
        world_close(&w[i]);
}

WORLD_MAIN()
