/* Wrong use causes a clear error and never a hang: mistakes in the options, broken sources, calls at the wrong time. */
#include <sys/resource.h>

#include "support/test.h"
#include "support/world.h"

/* Opens a dispatcher with these options. It must fail with this error code, and the error message must contain this
 * text. */
static void refused(const struct gd_options *o, int code, const char *expected)
{
    struct gd_dispatcher *d = (struct gd_dispatcher *)(uintptr_t)1;
    CHECK_EQ(gd_dispatcher_open(&d, o), code);
    CHECK(d == NULL);
    CHECK_CONTAINS(gd_error_text(), expected);
    CHECK_EQ(gd_run(o), code);
}

#define REFUSES(name, change, code, expected) \
    TEST(name)                                \
    {                                         \
        struct world w;                       \
        world_open(&w, 2);                    \
        change;                               \
        refused(&w.o, code, expected);        \
        CHECK_EQ(w.exits, 0);                 \
        world_close(&w);                      \
    }

REFUSES(no_device_list, w.o.gpu_ids = NULL, GD_E_NO_DEVICES, "gpu_ids")
REFUSES(no_devices, w.o.n_gpus = 0, GD_E_NO_DEVICES, "no devices")
REFUSES(no_workers_per_gpu, w.o.workers_per_gpu = 0, GD_E_INVALID, "workers_per_gpu")
REFUSES(too_many_workers, w.o.workers_per_gpu = 5000, GD_E_INVALID, "4096")
REFUSES(too_many_gpus, w.o.n_gpus = SIZE_MAX, GD_E_INVALID, "4096")
REFUSES(a_negative_device, w.gpus[1] = -3, GD_E_INVALID, "gpu_ids[1] is -3")
REFUSES(a_device_twice, w.gpus[1] = w.gpus[0] = 6, GD_E_INVALID, "device 6 is listed twice")
REFUSES(no_source, w.o.source = NULL, GD_E_INVALID, "source")
REFUSES(no_on_success, w.o.on_success = NULL, GD_E_INVALID, "on_success")
REFUSES(zero_queue, w.o.queue_size = 0, GD_E_INVALID, "queue_size")
REFUSES(zero_queue_bytes, w.o.queue_bytes = 0, GD_E_INVALID, "queue_bytes")
REFUSES(enormous_queue, w.o.queue_size = SIZE_MAX / 2, GD_E_TOO_LARGE, "queue_size")
REFUSES(endless_queue, w.o.queue_size = SIZE_MAX, GD_E_TOO_LARGE, "queue_size")
REFUSES(enormous_load_ahead, w.o.load_ahead = UINT32_MAX, GD_E_INVALID, "load_ahead")
REFUSES(setup_args_at_null, (w.o.setup_args = NULL, w.o.setup_args_size = 5), GD_E_INVALID, "setup_args is NULL")
REFUSES(zero_crash_limit, w.o.crash_limit = 0, GD_E_INVALID, "crash_limit")
REFUSES(zero_setup_attempts, w.o.setup_attempts = 0, GD_E_INVALID, "setup_attempts")
REFUSES(zero_death_limit, w.o.death_limit = 0, GD_E_INVALID, "death_limit")
REFUSES(zero_batch, w.o.batch_size = 0, GD_E_INVALID, "batch_size is 0")
REFUSES(enormous_batch, w.o.batch_size = 40000, GD_E_INVALID, "batch_size is 40000")
REFUSES(zero_io_threads, w.o.io_threads = 0, GD_E_INVALID, "io_threads is 0")
REFUSES(too_many_io_threads, w.o.io_threads = 2000, GD_E_INVALID, "io_threads is 2000")
REFUSES(no_such_output, w.o.output = (enum gd_worker_output)9, GD_E_INVALID, "output is 9")
REFUSES(no_such_placement, w.o.placement = (enum gd_placement)9, GD_E_INVALID, "placement is 9")
REFUSES(custom_without_place, w.o.placement = GD_PLACE_CUSTOM, GD_E_INVALID, "gd_options.place")
REFUSES(chunks_without_total, w.o.placement = GD_PLACE_CHUNKS, GD_E_INVALID, "total_tasks")
REFUSES(chunks_with_a_short_queue, (w.o.placement = GD_PLACE_CHUNKS, w.o.total_tasks = 2000), GD_E_INVALID, "1024")
REFUSES(plugin_and_argv, (w.o.plugin = "/bin/true", w.o.worker_argv = (char *[]){ NULL }), GD_E_INVALID, "set only one")
REFUSES(empty_argv, w.o.worker_argv = (char *[]){ NULL }, GD_E_INVALID, "worker_argv is empty")
REFUSES(missing_plugin, w.o.plugin = "/nonexistent.so", GD_E_PLUGIN, "/nonexistent.so")
REFUSES(no_size, w.o.size = 0, GD_E_INVALID, "set it to sizeof(struct gd_options)")

TEST(no_options)
{
    refused(NULL, GD_E_INVALID, "GD_OPTIONS_INIT");
}

TEST(null_instead_of_a_dispatcher_pointer)
{
    struct world w;
    world_open(&w, 1);
    CHECK_EQ(gd_dispatcher_open(NULL, &w.o), GD_E_INVALID);
    world_close(&w);
}

TEST(null_dispatchers)
{
    struct gd_dispatcher *d = NULL;
    struct gd_stats s = { .size = sizeof s };
    gd_dispatcher_close(NULL);
    gd_dispatcher_close(&d);
    CHECK_EQ(gd_dispatcher_run(NULL), GD_E_INVALID);
    CHECK_EQ(gd_dispatcher_stats(NULL, &s), GD_E_INVALID);
    CHECK_EQ(gd_dispatcher_worker_stats(NULL, NULL, 8, 0), GD_E_INVALID);
}

TEST(options_of_a_newer_header)
{
    struct world w;
    struct {
        struct gd_options o;
        uint64_t later[4];
    } newer = { .later = { 0 } };
    world_open(&w, 1);
    world_add_many(&w, 5, (struct world_order){ .what = W_ECHO });
    newer.o = w.o;
    newer.o.size = sizeof newer;
    newer.later[2] = 1;
    refused(&newer.o, GD_E_VERSION, "newer header");
    newer.later[2] = 0; /* no field that this library does not know is set */
    w.finals = calloc(w.n_orders, sizeof *w.finals);
    w.thread = pthread_self();
    CHECK_EQ(gd_run(&newer.o), 0);
    CHECK_EQ(w.n_finals, 5);
    world_close(&w);
}

TEST(options_init_for_other_sizes)
{
    struct {
        struct gd_options o;
        uint64_t later[4];
    } newer;
    memset(&newer, 0xff, sizeof newer);
    gd_options_init(&newer.o, sizeof newer);
    CHECK_EQ(newer.o.size, sizeof newer);
    CHECK_EQ(newer.o.queue_size, 1024);
    CHECK_EQ(newer.later[3], 0);
}

/* --- the worker's table --- */

static int process(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w, (void)t, (void)r;
    return 0;
}

TEST(no_table)
{
    char name[] = "x", *argv[] = { name, NULL };
    const int argc = 1;
    CHECK_EQ(gd_worker_main(&argc, argv, NULL), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "ops");
}

TEST(a_table_without_process)
{
    char name[] = "x", *argv[] = { name, NULL };
    const int argc = 1;
    const struct gd_worker_ops ops = { .size = sizeof ops };
    CHECK_EQ(gd_worker_main(&argc, argv, &ops), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "process");
}

TEST(a_table_without_size)
{
    char name[] = "x", *argv[] = { name, NULL };
    const int argc = 1;
    const struct gd_worker_ops ops = { .process = process };
    CHECK_EQ(gd_worker_main(&argc, argv, &ops), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "size");
}

TEST(a_table_of_a_newer_header)
{
    char name[] = "x", *argv[] = { name, NULL };
    const int argc = 1;
    struct {
        struct gd_worker_ops ops;
        void *later[2];
    } newer = { .ops = { .size = sizeof newer, .process = process } };
    CHECK_EQ(gd_worker_main(&argc, argv, &newer.ops), 0);
    newer.later[1] = &newer;
    CHECK_EQ(gd_worker_main(&argc, argv, &newer.ops), GD_E_VERSION);
}

/* This program starts as a worker with an invalid table of functions. The dispatcher reports a setup failure with a
 * message. */
TEST(workers_with_a_bad_table)
{
    struct world w;
    world_open(&w, 1);
    world_ops("p"); /* neither process nor process_batch */
    world_add_many(&w, 5, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), GD_E_SETUP);
    CHECK_CONTAINS(world_event(&w, 's')->text, "process");
    world_close(&w);
}

/* A program that dispatches and never calls gd_worker_main(). main() below calls this function. */
static int never_calls_worker_main(void)
{
    struct gd_options o = GD_OPTIONS_INIT;
    const int gpu = 0;
    o.gpu_ids = &gpu;
    o.n_gpus = 1;
    o.source = (gd_source_fn *)(uintptr_t)1;
    o.on_success = (void (*)(void *, const struct gd_report *))(uintptr_t)1;
    const int rc = gd_run(&o);
    fprintf(stderr, "%s\n", gd_error_text());
    return -rc;
}

TEST(gd_worker_main_was_not_called)
{
    const pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "test", "--never-calls-worker-main", (char *)NULL);
        _exit(99);
    }
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(WEXITSTATUS(status), -GD_E_NO_WORKER_MAIN);
}

TEST(a_worker_that_starts_a_dispatcher)
{
    struct world w;
    char name[] = "/proc/self/exe", argument[] = "--never-calls-worker-main", *argv[] = { name, argument, NULL };
    world_open(&w, 1);
    w.o.worker_argv = argv;
    w.o.setup_attempts = 1;
    world_add_many(&w, 5, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), GD_E_SETUP);
    CHECK_CONTAINS(world_event(&w, 's')->text, "itself a worker");
    world_close(&w);
}

/* --- sources --- */

TEST(a_source_that_fails_half_way)
{
    struct world w;
    world_open(&w, 2);
    w.source_fails_at = 50;
    world_add_many(&w, 100, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), GD_E_SOURCE);
    CHECK_CONTAINS(w.text, "no item 50");
    CHECK_EQ(w.stats.taken, 50);
    CHECK_EQ(world_callbacks(&w, 'S'), 50); /* tasks that the source gave before its failure are processed */
    world_close(&w);
}

static int silent_failure(void *user, struct gd_item *item)
{
    (void)user, (void)item;
    return -5;
}

TEST(a_source_that_fails_without_a_message)
{
    struct world w;
    world_open(&w, 1);
    w.o.source = silent_failure;
    CHECK_EQ(world_run(&w), GD_E_SOURCE);
    CHECK_CONTAINS(w.text, "gd_item_error");
    world_close(&w);
}

static int bytes_at_null(void *user, struct gd_item *item)
{
    (void)user;
    item->size = 1000;
    return 1;
}

TEST(a_source_that_gives_bytes_at_null)
{
    struct world w;
    world_open(&w, 1);
    w.o.source = bytes_at_null;
    CHECK_EQ(world_run(&w), GD_E_SOURCE);
    CHECK_CONTAINS(w.text, "NULL");
    world_close(&w);
}

static int few_bytes_at_null(void *user, struct gd_item *item)
{
    (void)user;
    item->size = 8;
    return 1;
}

TEST(a_source_that_gives_few_bytes_at_null)
{
    struct world w;
    world_open(&w, 1);
    w.o.source = few_bytes_at_null;
    CHECK_EQ(world_run(&w), GD_E_SOURCE);
    CHECK_CONTAINS(w.text, "NULL");
    world_close(&w);
}

static int too_long_for_its_room(void *user, struct gd_item *item)
{
    (void)user;
    if (!gd_item_alloc(item, 100))
        return 0;
    item->size = 10000;
    return 1;
}

TEST(a_source_that_gives_more_than_it_allocated)
{
    struct world w;
    world_open(&w, 1);
    w.o.source = too_long_for_its_room;
    CHECK_EQ(world_run(&w), GD_E_SOURCE);
    CHECK_CONTAINS(w.text, "10000");
    world_close(&w);
}

static int asks_for_too_much(void *user, struct gd_item *item)
{
    (void)user;
    return gd_item_alloc(item, SIZE_MAX / 2) ? 1 : gd_item_error(item, "no room: %s", gd_error_text());
}

TEST(a_source_that_asks_for_too_much)
{
    struct world w;
    world_open(&w, 1);
    w.o.source = asks_for_too_much;
    CHECK_EQ(world_run(&w), GD_E_SOURCE);
    CHECK_CONTAINS(w.text, "no room");
    world_close(&w);
}

/* --- at the wrong time --- */

TEST(run_twice)
{
    struct world w;
    world_open(&w, 1);
    world_add(&w, (struct world_order){ .what = W_ECHO });
    world_start(&w);
    CHECK_EQ(world_finish(&w), 0);
    CHECK_EQ(gd_dispatcher_run(w.d), GD_E_BUSY);
    CHECK_EQ(w.exits, 1);
    gd_dispatcher_close(&w.d);
    world_close(&w);
}

static void run_again(struct world *w, const struct gd_report *r)
{
    (void)r;
    CHECK_EQ(gd_dispatcher_run(w->d), GD_E_BUSY);
}

TEST(run_in_a_callback)
{
    struct world w;
    world_open(&w, 1);
    w.on_final = run_again;
    world_add_many(&w, 3, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    world_close(&w);
}

static void close_it(struct world *w, const struct gd_report *r)
{
    if (r->task_id == 2)
        gd_dispatcher_close(&w->d);
}

TEST(close_in_a_callback_ends_the_run)
{
    struct world w;
    world_open(&w, 1);
    w.on_final = close_it;
    w.o.ordered = true;
    w.o.queue_size = 4;
    world_add_many(&w, 1000, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), GD_E_SHUTDOWN);
    CHECK_LT(w.stats.taken, 1000);
    world_close(&w);
}

TEST(close_without_a_run)
{
    struct world w;
    world_open(&w, 2);
    world_start(&w);
    gd_dispatcher_close(&w.d);
    CHECK(w.d == NULL);
    CHECK_EQ(w.exits, 0);
    world_close(&w);
}

/* --- a program that disturbs the library --- */

/* If SIGCHLD is ignored, the kernel reaps the workers. The dispatcher then cannot know why a worker ended. */
TEST(sigchld_is_ignored)
{
    struct world w;
    signal(SIGCHLD, SIG_IGN);
    world_open(&w, 2);
    w.o.crash_limit = 1;
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO });
    world_add(&w, (struct world_order){ .what = W_SEGV });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 20);
    CHECK_EQ(w.finals[20].failure, GD_FAILURE_CRASH);
    world_close(&w);
}

static _Atomic bool over;

static void *reap_everything(void *arg)
{
    (void)arg;
    while (!over)
        waitid(P_ALL, 0, &(siginfo_t){ .si_pid = 0 }, WEXITED) < 0 ? sched_yield() : 0;
    return NULL;
}

TEST(another_thread_reaps_our_workers)
{
    struct world w;
    pthread_t thief;
    world_open(&w, 2);
    w.o.crash_limit = 1;
    w.o.restart_delay_ms = 0;
    for (unsigned i = 0; i < 100; i++)
        world_add(&w, (struct world_order){ .what = i % 10 == 3 ? W_KILL : W_ECHO });
    CHECK_EQ(pthread_create(&thief, NULL, reap_everything, NULL), 0);
    CHECK_EQ(world_run(&w), 0);
    over = true;
    pthread_join(thief, NULL);
    CHECK_EQ(world_callbacks(&w, 'S'), 90);
    CHECK_EQ(world_failures(&w, GD_FAILURE_CRASH), 10);
    world_close(&w);
}

TEST(too_few_descriptors)
{
    struct world w;
    world_open(&w, 16);
    w.o.restart_delay_ms = 1;
    world_add_many(&w, 50, (struct world_order){ .what = W_ECHO });
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 40, 40 });
    const int rc = world_run(&w); /* some workers start, or none; no task is lost, and the run ends */
    CHECK(rc == 0 || rc == GD_E_SETUP || rc == GD_E_SYSTEM);
    world_close(&w);
}

static void world_fail_here(const char *file, int line, const char *text)
{
    test_fail(file, line, "%s", text);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--never-calls-worker-main") == 0)
        return never_calls_worker_main();
    if (world_main(&argc, argv) < 0)
        return fprintf(stderr, "%s\n", gd_error_text()), 1;
    world_failed_with(world_fail_here);
    return test_main(argc, argv);
}
