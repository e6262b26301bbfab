/* Tests that no public function crashes on a NULL pointer or on a struct whose size is not set. Each function has a
 * test case of the same name, which runs in its own process.
 *
 * Functions that return a code must return GD_E_INVALID with an error message. Functions that return a pointer must
 * return NULL, functions that return a figure must return 0, and functions that return nothing must do nothing. The
 * last test case reads the headers and fails if a function has no test case here. */
#include <gpu_dispatch/gpu_dispatch.h>

#include "support/test.h"
#include "worker/host.h"

/* The tests pass NULL as a format on purpose. */
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"

static const char *const volatile no_format = NULL;

/* A worker with just enough fields set for results that are small enough to be stored in their records. */
static const uint32_t it_is_us = 1;
#define A_WORKER           \
    {                      \
        .is_us = &it_is_us \
    }

#define REFUSED(call)                               \
    do {                                            \
        CHECK_EQ(call, GD_E_INVALID);               \
        CHECK(strcmp(gd_error_text(), "no error")); \
    } while (0)

/* A build without journals returns GD_E_UNSUPPORTED before it checks the arguments. */
#define JOURNAL_REFUSED(call) CHECK_EQ(call, gd_journal_available() ? GD_E_INVALID : GD_E_UNSUPPORTED)

static const char *const words[] = { "echo", "{}", NULL };

static struct gd_command *a_command(void)
{
    struct gd_command *c;
    CHECK_EQ(gd_command_open(&c, &(struct gd_command_spec){ .size = sizeof(struct gd_command_spec), .words = words }),
             0);
    return c;
}

static struct gd_devices *some_devices(void)
{
    struct gd_devices *list;
    CHECK_EQ(gd_devices_open(&list, "sim:2"), 0);
    return list;
}

static struct gd_files *some_files(void)
{
    struct gd_files *files;
    CHECK_EQ(gd_files_open(&files), 0);
    CHECK_EQ(gd_files_add(files, "a", 1), 0);
    return files;
}

/* --- error.h --- */

TEST(gd_version)
{
    CHECK(gd_version());
}
TEST(gd_error_name)
{
    CHECK(gd_error_name(12345));
}
TEST(gd_error_description)
{
    CHECK(gd_error_description(12345));
}
TEST(gd_error_text)
{
    CHECK(gd_error_text());
}

/* --- command.h --- */

TEST(gd_command_open)
{
    struct gd_command *c;
    struct gd_command_spec spec = { .size = sizeof spec, .words = words };
    REFUSED(gd_command_open(NULL, &spec));
    REFUSED(gd_command_open(&c, NULL));
    spec.words = NULL;
    REFUSED(gd_command_open(&c, &spec));
    spec = (struct gd_command_spec){ .words = words };
    REFUSED(gd_command_open(&c, &spec));
    spec.size = SIZE_MAX;
    REFUSED(gd_command_open(&c, &spec));
}
TEST(gd_command_close)
{
    struct gd_command *none = NULL;
    gd_command_close(NULL);
    gd_command_close(&none);
}
TEST(gd_command_line)
{
    struct gd_command *c = a_command();
    CHECK(!gd_command_line(NULL, &(struct gd_command_fill){ 0 }));
    CHECK(!gd_command_line(c, NULL));
    CHECK(!gd_command_line(c, &(struct gd_command_fill){ 0 }));
    gd_command_free(gd_command_line(c, &(struct gd_command_fill){ .size = sizeof(struct gd_command_fill) }));
    gd_command_close(&c);
}
TEST(gd_command_free)
{
    gd_command_free(NULL);
}
TEST(gd_command_check)
{
    REFUSED(gd_command_check(NULL));
}
TEST(gd_command_worker)
{
    CHECK(!gd_command_worker(NULL));
    CHECK(!gd_command_worker(&(struct gd_command_spec){ .words = words }));
}
TEST(gd_stream_worker)
{
    CHECK(!gd_stream_worker(NULL));
    CHECK(!gd_stream_worker(&(struct gd_stream_spec){ .size = sizeof(struct gd_stream_spec) }));
}
TEST(gd_argv_free)
{
    gd_argv_free(NULL);
}
TEST(gd_command_read)
{
    struct gd_command_output out = { .size = sizeof out };
    REFUSED(gd_command_read(NULL, 100, &out));
    REFUSED(gd_command_read("abc", 3, NULL));
}

/* --- devices.h --- */

TEST(gd_vendor_name)
{
    CHECK(gd_vendor_name((enum gd_vendor)99));
}
TEST(gd_devices_open)
{
    REFUSED(gd_devices_open(NULL, "sim:1"));
}
TEST(gd_devices_close)
{
    struct gd_devices *none = NULL;
    gd_devices_close(NULL);
    gd_devices_close(&none);
}
TEST(gd_devices_count)
{
    CHECK_EQ(gd_devices_count(NULL), 0);
}
TEST(gd_devices_get)
{
    struct gd_device d = { .size = sizeof d };
    REFUSED(gd_devices_get(NULL, 0, &d));
    struct gd_devices *list = some_devices();
    REFUSED(gd_devices_get(list, 0, NULL));
    d.size = 0;
    REFUSED(gd_devices_get(list, 0, &d));
    gd_devices_close(&list);
}
TEST(gd_devices_group)
{
    REFUSED(gd_devices_group(NULL, 0));
}
TEST(gd_devices_find)
{
    CHECK_EQ(gd_devices_find(NULL, 0), GD_E_NO_DEVICES);
}
TEST(gd_devices_validate)
{
    struct gd_devices *list = some_devices();
    CHECK_EQ(gd_devices_validate(NULL, (int[]){ 0 }, 1), GD_E_NO_DEVICES);
    REFUSED(gd_devices_validate(list, NULL, 1));
    gd_devices_close(&list);
}
TEST(gd_devices_cuda)
{
    CHECK(!gd_devices_cuda(NULL));
}
TEST(gd_devices_refresh)
{
    REFUSED(gd_devices_refresh(NULL));
}
TEST(gd_devices_processes)
{
    struct gd_devices *list = some_devices();
    REFUSED(gd_devices_processes(NULL, 0, NULL, sizeof(struct gd_device_process), 1));
    (void)gd_devices_processes(list, 0, NULL, sizeof(struct gd_device_process), 1);
    gd_devices_close(&list);
}
TEST(gd_devices_room)
{
    REFUSED(gd_devices_room(NULL, 0, 1));
}

/* --- dispatcher.h --- */

TEST(gd_item_alloc)
{
    struct gd_item item = { 0 };
    CHECK(!gd_item_alloc(NULL, 10));
    CHECK(!gd_item_alloc(&item, 10)); /* no source was called with this item */
}
TEST(gd_item_error)
{
    struct gd_item item = { 0 };
    REFUSED(gd_item_error(NULL, "x"));
    REFUSED(gd_item_error(&item, "x"));
    REFUSED(gd_item_error(&item, no_format));
}
TEST(gd_item_key)
{
    struct gd_item item = { 0 };
    REFUSED(gd_item_key(NULL, "x", 1, NULL));
    REFUSED(gd_item_key(&item, "x", 1, NULL));
}
TEST(gd_failure_name)
{
    CHECK(gd_failure_name((enum gd_failure)99));
}
TEST(gd_options_init)
{
    struct gd_options o = { .size = 77 };
    gd_options_init(NULL, sizeof o);
    gd_options_init(&o, 3); /* too small for the field size */
    CHECK_EQ(o.size, 77);
}
TEST(gd_run)
{
    struct gd_options o = GD_OPTIONS_INIT;
    REFUSED(gd_run(NULL));
    CHECK_LT(gd_run(&o), 0);
    o.size = 0;
    REFUSED(gd_run(&o));
    o.size = SIZE_MAX;
    REFUSED(gd_run(&o));
}
TEST(gd_dispatcher_open)
{
    struct gd_dispatcher *d;
    struct gd_options o = GD_OPTIONS_INIT;
    REFUSED(gd_dispatcher_open(NULL, &o));
    REFUSED(gd_dispatcher_open(&d, NULL));
}
TEST(gd_dispatcher_run)
{
    REFUSED(gd_dispatcher_run(NULL));
}
TEST(gd_dispatcher_run_source)
{
    struct gd_source s = GD_SOURCE_INIT;
    REFUSED(gd_dispatcher_run_source(NULL, &s));
    REFUSED(gd_dispatcher_run_source(NULL, NULL));
}
TEST(gd_dispatcher_stop_workers)
{
    REFUSED(gd_dispatcher_stop_workers(NULL));
}
TEST(gd_dispatcher_shutdown)
{
    gd_dispatcher_shutdown(NULL);
}
TEST(gd_dispatcher_abort)
{
    gd_dispatcher_abort(NULL);
}
TEST(gd_dispatcher_pause)
{
    REFUSED(gd_dispatcher_pause(NULL));
}
TEST(gd_dispatcher_unpause)
{
    REFUSED(gd_dispatcher_unpause(NULL));
}
TEST(gd_dispatcher_drain)
{
    REFUSED(gd_dispatcher_drain(NULL));
}
TEST(gd_dispatcher_cancel_task)
{
    REFUSED(gd_dispatcher_cancel_task(NULL, 0));
}
TEST(gd_dispatcher_set_timeout)
{
    REFUSED(gd_dispatcher_set_timeout(NULL, 0));
}
TEST(gd_dispatcher_add_workers)
{
    REFUSED(gd_dispatcher_add_workers(NULL, 0, 1));
}
TEST(gd_dispatcher_remove_workers)
{
    REFUSED(gd_dispatcher_remove_workers(NULL, 0, 1));
}
TEST(gd_dispatcher_suspend)
{
    gd_dispatcher_suspend(NULL);
}

TEST(gd_dispatcher_resume)
{
    gd_dispatcher_resume(NULL);
}

TEST(gd_dispatcher_close)
{
    struct gd_dispatcher *none = NULL;
    gd_dispatcher_close(NULL);
    gd_dispatcher_close(&none);
}
TEST(gd_worker_state_name)
{
    CHECK(gd_worker_state_name((enum gd_worker_state)99));
}
TEST(gd_dispatcher_stats)
{
    REFUSED(gd_dispatcher_stats(NULL, &(struct gd_stats){ .size = sizeof(struct gd_stats) }));
}
TEST(gd_dispatcher_worker_stats)
{
    struct gd_worker_stats one;
    REFUSED(gd_dispatcher_worker_stats(NULL, &one, sizeof one, 1));
}
TEST(gd_dispatcher_worker_gpus)
{
    int id;
    REFUSED(gd_dispatcher_worker_gpus(NULL, 0, &id, 1));
}
TEST(gd_dispatcher_set_total)
{
    gd_dispatcher_set_total(NULL, 1);
}
TEST(gd_dispatcher_set_work)
{
    gd_dispatcher_set_work(NULL, 1, 2);
}
TEST(gd_dispatcher_work)
{
    double done = 5, total = 5;
    gd_dispatcher_work(NULL, &done, &total);
    CHECK(done == 0 && total == 0);
    gd_dispatcher_work(NULL, NULL, NULL);
}

/* --- journal.h --- */

TEST(gd_journal_available)
{
    (void)gd_journal_available();
}
TEST(gd_journal_open)
{
    struct gd_journal *j;
    struct gd_journal_options o = GD_JOURNAL_OPTIONS_INIT;
    JOURNAL_REFUSED(gd_journal_open(NULL, &o));
    JOURNAL_REFUSED(gd_journal_open(&j, NULL));
    JOURNAL_REFUSED(gd_journal_open(&j, &o)); /* no path */
    o.size = 0;
    JOURNAL_REFUSED(gd_journal_open(&j, &o));
    o.size = SIZE_MAX;
    JOURNAL_REFUSED(gd_journal_open(&j, &o));
}
TEST(gd_journal_follow)
{
    JOURNAL_REFUSED(gd_journal_follow(NULL, "x", 1));
}
TEST(gd_journal_follow_anew)
{
    JOURNAL_REFUSED(gd_journal_follow_anew(NULL, "x", 1));
}
TEST(gd_journal_add_note)
{
    gd_journal_add_note(NULL, NULL);
}
TEST(gd_journal_get_counts)
{
    JOURNAL_REFUSED(gd_journal_get_counts(NULL, NULL));
}
TEST(gd_journal_close)
{
    struct gd_journal *none = NULL;
    CHECK_EQ(gd_journal_close(NULL), 0);
    CHECK_EQ(gd_journal_close(&none), 0);
}
TEST(gd_journal_reader_open)
{
    struct gd_journal_reader *r;
    JOURNAL_REFUSED(gd_journal_reader_open(NULL, "x"));
    JOURNAL_REFUSED(gd_journal_reader_open(&r, NULL));
}
TEST(gd_journal_reader_close)
{
    gd_journal_reader_close(NULL);
}
TEST(gd_journal_reader_summary)
{
    JOURNAL_REFUSED(gd_journal_reader_summary(NULL, NULL));
}
TEST(gd_journal_reader_each)
{
    JOURNAL_REFUSED(gd_journal_reader_each(NULL, NULL, NULL, NULL));
}
TEST(gd_journal_reader_failures)
{
    JOURNAL_REFUSED(gd_journal_reader_failures(NULL, NULL, NULL));
}
TEST(gd_journal_reader_runs)
{
    JOURNAL_REFUSED(gd_journal_reader_runs(NULL, NULL, NULL));
}
TEST(gd_journal_merge)
{
    struct gd_journal_merge_options unsized = { .n_paths = 1 };
    struct gd_journal_merge_options no_paths = GD_JOURNAL_MERGE_OPTIONS_INIT;
    no_paths.n_paths = 1;
    JOURNAL_REFUSED(gd_journal_merge(NULL, NULL));
    JOURNAL_REFUSED(gd_journal_merge(&unsized, NULL));
    JOURNAL_REFUSED(gd_journal_merge(&no_paths, NULL));
}
TEST(gd_journal_reader_open_merged)
{
    struct gd_journal_reader *r;
    struct gd_journal_merge_options no_paths = GD_JOURNAL_MERGE_OPTIONS_INIT;
    no_paths.n_paths = 1;
    JOURNAL_REFUSED(gd_journal_reader_open_merged(NULL, &no_paths));
    JOURNAL_REFUSED(gd_journal_reader_open_merged(&r, NULL));
    JOURNAL_REFUSED(gd_journal_reader_open_merged(&r, &no_paths));
}

/* --- shard.h --- */

TEST(gd_shard_find)
{
    struct gd_shard shard;
    REFUSED(gd_shard_find(NULL, "1/2", NULL));
    REFUSED(gd_shard_find(&shard, NULL, NULL));
    CHECK_EQ(gd_shard_find(&shard, "1/2", NULL), 0);
}
TEST(gd_shard_owns)
{
    const struct gd_shard whole = { 0, 0 };
    CHECK(!gd_shard_owns(whole, NULL, 5));
    CHECK(gd_shard_owns(whole, NULL, 0));
}

/* --- launch.h --- */

static int take_file(void *user, const char *path, uint64_t size)
{
    (void)user, (void)path, (void)size;
    return 0;
}

TEST(gd_discover_files)
{
    struct gd_discover what = GD_DISCOVER_INIT;
    REFUSED(gd_discover_files(NULL, &what, take_file, NULL));
    REFUSED(gd_discover_files(".", &what, NULL, NULL));
    (void)gd_discover_files("/nonexistent", NULL, take_file, NULL);
    what.size = 0;
    REFUSED(gd_discover_files(".", &what, take_file, NULL));
    what.size = SIZE_MAX;
    REFUSED(gd_discover_files(".", &what, take_file, NULL));
}
TEST(gd_files_open)
{
    REFUSED(gd_files_open(NULL));
}
TEST(gd_files_close)
{
    gd_files_close(NULL);
}
TEST(gd_files_add)
{
    struct gd_files *files = some_files();
    REFUSED(gd_files_add(NULL, "x", 1));
    REFUSED(gd_files_add(files, NULL, 1));
    gd_files_close(&files);
}
TEST(gd_files_discover)
{
    struct gd_files *files = some_files();
    REFUSED(gd_files_discover(NULL, ".", NULL));
    REFUSED(gd_files_discover(files, NULL, NULL));
    gd_files_close(&files);
}
TEST(gd_files_sort)
{
    REFUSED(gd_files_sort(NULL, GD_FILE_ORDER_NAME));
}
TEST(gd_files_count)
{
    CHECK_EQ(gd_files_count(NULL), 0);
}
TEST(gd_files_path)
{
    CHECK(!gd_files_path(NULL, 0));
}
TEST(gd_files_size)
{
    CHECK_EQ(gd_files_size(NULL, 0), 0);
}
TEST(gd_estimate_workload)
{
    struct gd_files *files = some_files();
    struct gd_workload w = { .size = sizeof w };
    REFUSED(gd_estimate_workload(NULL, &w));
    REFUSED(gd_estimate_workload(files, NULL));
    w.size = 0;
    REFUSED(gd_estimate_workload(files, &w));
    gd_files_close(&files);
}
TEST(gd_distribute_workload)
{
    struct gd_files *files = some_files();
    size_t gpu;
    REFUSED(gd_distribute_workload(NULL, 1, GD_DISTRIBUTE_CHUNKS, &gpu));
    REFUSED(gd_distribute_workload(files, 1, GD_DISTRIBUTE_CHUNKS, NULL));
    gd_files_close(&files);
}
/* --- queues: there is no server, so no handle can be opened --- */

TEST(gd_queue_available)
{
    if (!gd_queue_available()) /* it takes no arguments; without libnats it says why */
        CHECK(strcmp(gd_error_text(), "no error"));
}

TEST(gd_queue_push_open)
{
    struct gd_queue_push *p;
    struct gd_queue_options o = GD_QUEUE_OPTIONS_INIT;
    REFUSED(gd_queue_push_open(NULL, &o, NULL));
    REFUSED(gd_queue_push_open(&p, NULL, NULL));
    REFUSED(gd_queue_push_open(&p, &o, NULL)); /* no address */
}
TEST(gd_queue_push_add)
{
    const struct gd_queue_item item = { .size = sizeof item, .data = "x", .data_size = 1 };
    REFUSED(gd_queue_push_add(NULL, &item));
}
TEST(gd_queue_push_get_counts)
{
    struct gd_queue_push_counts c = { .size = sizeof c };
    REFUSED(gd_queue_push_get_counts(NULL, &c));
}
TEST(gd_queue_push_retry_failed)
{
    REFUSED(gd_queue_push_retry_failed(NULL));
}
TEST(gd_queue_push_finish)
{
    struct gd_queue_push *p = NULL;
    REFUSED(gd_queue_push_finish(NULL, NULL));
    REFUSED(gd_queue_push_finish(&p, NULL));
}
TEST(gd_queue_push_abandon)
{
    struct gd_queue_push *p = NULL;
    gd_queue_push_abandon(NULL);
    gd_queue_push_abandon(&p);
}
TEST(gd_queue_reader_open)
{
    struct gd_queue_reader *r;
    struct gd_queue_options o = GD_QUEUE_OPTIONS_INIT;
    REFUSED(gd_queue_reader_open(NULL, &o));
    REFUSED(gd_queue_reader_open(&r, NULL));
    REFUSED(gd_queue_reader_open(&r, &o)); /* no address */
}
TEST(gd_queue_reader_close)
{
    struct gd_queue_reader *r = NULL;
    gd_queue_reader_close(NULL);
    gd_queue_reader_close(&r);
}
TEST(gd_queue_reader_figures)
{
    struct gd_queue_figures f = { .size = sizeof f };
    REFUSED(gd_queue_reader_figures(NULL, &f));
}
TEST(gd_queue_reader_skipped)
{
    const char *first = "";
    CHECK_EQ(gd_queue_reader_skipped(NULL, &first), 0);
    CHECK(!first);
    CHECK_EQ(gd_queue_reader_skipped(NULL, NULL), 0);
}
TEST(gd_queue_reader_each)
{
    REFUSED(gd_queue_reader_each(NULL, NULL, NULL));
}
TEST(gd_queue_reader_follow)
{
    REFUSED(gd_queue_reader_follow(NULL, NULL, NULL));
}
TEST(gd_queue_reader_on_wait)
{
    gd_queue_reader_on_wait(NULL, NULL, NULL);
}
TEST(gd_queue_reader_nodes)
{
    REFUSED(gd_queue_reader_nodes(NULL, NULL, NULL));
}

TEST(gd_task_queue_open)
{
    struct gd_files *files = some_files();
    struct gd_task_queue *q;
    REFUSED(gd_task_queue_open(NULL, files));
    REFUSED(gd_task_queue_open(&q, NULL));
    gd_files_close(&files);
}
TEST(gd_task_queue_close)
{
    gd_task_queue_close(NULL);
}
TEST(gd_task_queue_next)
{
    struct gd_files *files = some_files();
    struct gd_task_queue *q;
    struct gd_item item = { 0 };
    CHECK_EQ(gd_task_queue_open(&q, files), 0);
    REFUSED(gd_task_queue_next(NULL, &item));
    REFUSED(gd_task_queue_next(q, NULL));
    CHECK_EQ(gd_task_queue_left(q), 1);
    gd_task_queue_close(&q);
    gd_files_close(&files);
}
TEST(gd_task_queue_left)
{
    CHECK_EQ(gd_task_queue_left(NULL), 0);
}
TEST(gd_spawner_start)
{
    struct gd_spawner *s;
    struct gd_options o = GD_OPTIONS_INIT;
    REFUSED(gd_spawner_start(NULL, &o));
    REFUSED(gd_spawner_start(&s, NULL));
}
TEST(gd_spawner_wait)
{
    REFUSED(gd_spawner_wait(NULL, 0, NULL));
}
TEST(gd_spawner_shutdown)
{
    gd_spawner_shutdown(NULL);
}
TEST(gd_spawner_terminate)
{
    gd_spawner_terminate(NULL);
}
TEST(gd_spawner_status)
{
    REFUSED(gd_spawner_status(NULL, NULL, 1, 0));
}
TEST(gd_spawner_stats)
{
    REFUSED(gd_spawner_stats(NULL, NULL));
}
TEST(gd_spawner_close)
{
    gd_spawner_close(NULL);
}

static struct gd_balancer *a_balancer(void)
{
    struct gd_balancer *b;
    CHECK_EQ(gd_balancer_open(&b, (int[]){ 0 }, 1, 1, 10), 0);
    return b;
}

TEST(gd_balancer_open)
{
    struct gd_balancer *b;
    REFUSED(gd_balancer_open(NULL, (int[]){ 0 }, 1, 1, 1));
    REFUSED(gd_balancer_open(&b, NULL, 1, 1, 1));
}
TEST(gd_balancer_close)
{
    gd_balancer_close(NULL);
}
TEST(gd_balancer_add)
{
    struct gd_balancer *b = a_balancer();
    REFUSED(gd_balancer_add(NULL, &(struct gd_report){ .gpu_id = 0 }, 0));
    REFUSED(gd_balancer_add(b, NULL, 0));
    CHECK_EQ(gd_balancer_add(b, &(struct gd_report){ .failure = GD_FAILURE_ERROR }, 0),
             0); /* without an error message */
    gd_balancer_close(&b);
}
TEST(gd_balancer_restarted)
{
    gd_balancer_restarted(NULL, 0);
}
TEST(gd_balancer_set_total)
{
    gd_balancer_set_total(NULL, 1);
}
TEST(gd_balancer_set_workers)
{
    gd_balancer_set_workers(NULL, 0, 1);
}
TEST(gd_balancer_on_progress)
{
    struct gd_balancer *b = a_balancer();
    gd_balancer_on_progress(NULL, NULL, NULL, 1);
    gd_balancer_on_progress(b, NULL, NULL, 1);
    gd_balancer_close(&b);
}
TEST(gd_balancer_overall)
{
    struct gd_balancer *b = a_balancer();
    REFUSED(gd_balancer_overall(NULL, &(struct gd_balance){ .size = sizeof(struct gd_balance) }));
    REFUSED(gd_balancer_overall(b, NULL));
    gd_balancer_close(&b);
}
TEST(gd_balancer_rtf)
{
    CHECK(gd_balancer_rtf(NULL) == 0);
}
TEST(gd_balancer_speedup)
{
    CHECK(gd_balancer_speedup(NULL) == 0);
}
TEST(gd_balancer_gpus)
{
    CHECK_EQ(gd_balancer_gpus(NULL), 0);
}
TEST(gd_balancer_gpu)
{
    struct gd_balancer *b = a_balancer();
    REFUSED(gd_balancer_gpu(NULL, 0, &(struct gd_gpu_figures){ .size = sizeof(struct gd_gpu_figures) }));
    REFUSED(gd_balancer_gpu(b, 0, NULL));
    gd_balancer_close(&b);
}
TEST(gd_balancer_error)
{
    CHECK(!gd_balancer_error(NULL, 0));
}
TEST(gd_balancer_print)
{
    struct gd_balancer *b = a_balancer();
    REFUSED(gd_balancer_print(NULL, stderr, "tasks"));
    REFUSED(gd_balancer_print(b, NULL, "tasks"));
    CHECK_EQ(gd_balancer_print(b, stderr, NULL), 0);
    gd_balancer_close(&b);
}
TEST(gd_launch_run)
{
    struct gd_launch l = GD_LAUNCH_INIT;
    (void)gd_launch_run(NULL);
    (void)gd_launch_run(&l);
    l.size = 0;
    (void)gd_launch_run(&l);
}
TEST(gd_launch_validate)
{
    struct gd_launch l = GD_LAUNCH_INIT;
    REFUSED(gd_launch_validate(NULL));
    REFUSED(gd_launch_validate(&l));
}
TEST(gd_launch_workload)
{
    struct gd_workload w = { .size = sizeof w };
    struct gd_launch l = GD_LAUNCH_INIT;
    REFUSED(gd_launch_workload(NULL, &w));
    l.input_dir = ".";
    REFUSED(gd_launch_workload(&l, NULL));
}

/* --- observe.h --- */

TEST(gd_snapshot_worker)
{
    const struct gd_worker_view workers[2] = { { .worker_id = 0 }, { .worker_id = 1 } };
    const struct gd_snapshot s = { .size = sizeof s, .workers = workers, .n_workers = 2 };
    CHECK(!gd_snapshot_worker(NULL, 0));
    CHECK_EQ(gd_snapshot_worker(&s, 1)->worker_id, 1);
    CHECK(!gd_snapshot_worker(&s, 2));
}
TEST(gd_snapshot_device)
{
    CHECK(!gd_snapshot_device(NULL, 0));
    CHECK(!gd_snapshot_device(&(struct gd_snapshot){ .n_devices = 0 }, 0));
}
TEST(gd_snapshot_task)
{
    CHECK(!gd_snapshot_task(NULL, 0));
    CHECK(!gd_snapshot_task(&(struct gd_snapshot){ .n_tasks = 0 }, 0));
}
TEST(gd_snapshot_request)
{
    CHECK(!gd_snapshot_request(NULL, 0));
    CHECK(!gd_snapshot_request(&(struct gd_snapshot){ .n_requests = 0 }, 0));
}
TEST(gd_snapshot_failure)
{
    CHECK(!gd_snapshot_failure(NULL, 0));
    CHECK(!gd_snapshot_failure(&(struct gd_snapshot){ .n_failures = 0 }, 0));
}
TEST(gd_jobs_list)
{
    REFUSED(gd_jobs_list(NULL, sizeof(struct gd_job), 1));
    REFUSED(gd_jobs_list(NULL, 0, 0));
}
TEST(gd_idle_reason_name)
{
    CHECK(gd_idle_reason_name((enum gd_idle_reason)99));
}
TEST(gd_observer_open)
{
    REFUSED(gd_observer_open(NULL, "x"));
}
TEST(gd_observer_attach)
{
    struct gd_observer *o;
    REFUSED(gd_observer_attach(NULL, NULL));
    REFUSED(gd_observer_attach(&o, NULL));
}
TEST(gd_observer_select)
{
    REFUSED(gd_observer_select(NULL, 0));
}
TEST(gd_observer_read)
{
    REFUSED(gd_observer_read(NULL, NULL));
}
TEST(gd_observer_fd)
{
    CHECK_EQ(gd_observer_fd(NULL), -1);
}
TEST(gd_observer_close)
{
    gd_observer_close(NULL);
}

/* --- worker.h --- */

static int do_nothing(struct gd_worker *w, const struct gd_task *task, struct gd_result *result)
{
    (void)w, (void)task, (void)result;
    return 0;
}

TEST(gd_worker_main)
{
    const struct gd_worker_ops ops = { .size = sizeof ops, .process = do_nothing };
    char name[] = "x", *argv[] = { name, NULL };
    const int argc = 1;
    REFUSED(gd_worker_main(NULL, argv, &ops));
    REFUSED(gd_worker_main(&argc, NULL, &ops));
    REFUSED(gd_worker_main(&argc, argv, NULL));
    REFUSED(gd_worker_main(&argc, argv, &(struct gd_worker_ops){ .size = sizeof ops }));
    REFUSED(gd_worker_main(&argc, argv, &(struct gd_worker_ops){ .process = do_nothing }));
}
TEST(gd_worker_id)
{
    CHECK_EQ(gd_worker_id(NULL), GD_E_INVALID);
}
TEST(gd_worker_gpu_id)
{
    CHECK_EQ(gd_worker_gpu_id(NULL), GD_E_INVALID);
}
TEST(gd_worker_gpu_ids)
{
    size_t n;
    CHECK(!gd_worker_gpu_ids(NULL, &n));
    CHECK(!gd_worker_gpu_ids(NULL, NULL));
}
TEST(gd_worker_set_user)
{
    gd_worker_set_user(NULL, NULL);
}
TEST(gd_worker_user)
{
    CHECK(!gd_worker_user(NULL));
}
TEST(gd_worker_error)
{
    struct gd_worker w = A_WORKER;
    w.own.worker = &w;
    REFUSED(gd_worker_error(NULL, "x"));
    CHECK_EQ(gd_worker_error(&w, no_format), GD_E_FAILED);
}
TEST(gd_worker_set_concurrency)
{
    struct gd_worker w = A_WORKER;
    REFUSED(gd_worker_set_concurrency(NULL, 1));
    REFUSED(gd_worker_set_concurrency(&w, 0));
    REFUSED(gd_worker_set_concurrency(&w, 1)); /* the worker has no begin() */
}
TEST(gd_task_cancelled)
{
    CHECK(!gd_task_cancelled(NULL));
}
TEST(gd_worker_arena)
{
    struct gd_worker w = A_WORKER;
    const void *base = &w;
    size_t size = 7;
    gd_worker_arena(NULL, &base, &size);
    CHECK(!base && size == 0);
    gd_worker_arena(&w, NULL, &size);
    gd_worker_arena(&w, &base, NULL);
}
TEST(gd_result_alloc)
{
    CHECK(!gd_result_alloc(NULL, 10));
}
TEST(gd_result_truncate)
{
    REFUSED(gd_result_truncate(NULL, 1));
}
TEST(gd_result_set)
{
    struct gd_worker w = A_WORKER;
    struct gd_result r = { .worker = &w };
    REFUSED(gd_result_set(NULL, "x", 1));
    REFUSED(gd_result_set(&r, NULL, 1));
    CHECK_EQ(gd_result_set(&r, NULL, 0), 0);
}

#define FAILS(name, code)                         \
    TEST(name)                                    \
    {                                             \
        struct gd_worker w = A_WORKER;            \
        struct gd_result r = { .worker = &w };    \
        REFUSED(name(NULL, "x"));                 \
        CHECK_EQ(name(&r, no_format), code);      \
        CHECK(r.size > 0); /* an error message */ \
    }
FAILS(gd_result_error, GD_E_FAILED)
FAILS(gd_result_error_final, GD_E_FAILED)
FAILS(gd_result_out_of_memory, GD_E_NO_MEMORY)
FAILS(gd_result_device_lost, GD_E_FAILED)

TEST(gd_result_alloc_failed)
{
    CHECK(!gd_result_alloc_failed(NULL, 1, "x"));
    struct gd_worker w = A_WORKER;
    struct gd_result r = { .worker = &w };
    CHECK(gd_result_alloc_failed(&r, 1, no_format)); /* small enough for the record */
}
TEST(gd_result_cancelled)
{
    REFUSED(gd_result_cancelled(NULL));
}
TEST(gd_result_finish)
{
    REFUSED(gd_result_finish(NULL));
}
TEST(gd_result_cancel_requested)
{
    CHECK(!gd_result_cancel_requested(NULL));
}
TEST(gd_result_partial)
{
    struct gd_worker w = A_WORKER;
    struct gd_result r = { .worker = &w };
    REFUSED(gd_result_partial(NULL, "x", 1));
    REFUSED(gd_result_partial(&r, NULL, 1));
    REFUSED(gd_result_partial(&r, "x", 1)); /* the result does not belong to a task */
}

/* --- all public functions --- */

static bool has_case(const char *name)
{
    for (const struct test_case *c = test_first; c; c = c->next)
        if (strcmp(c->name, name) == 0)
            return true;
    return strcmp(name, "gd_plugin_worker") == 0; /* plugins define it, the library does not */
}

TEST(every_public_function_has_a_case)
{
    const char *root = getenv("GD_SOURCE_ROOT");
    if (!root)
        SKIP("GD_SOURCE_ROOT is not set");
    char command[4200], name[128];
    snprintf(
        command, sizeof command,
        "sed -n 's,/\\*.*,,; s/^[a-z].*[ *]\\(gd_[a-z_]*\\)(.*/\\1/p' '%s'/include/gpu_dispatch/*.h | grep -v '_fn$'",
        root);
    FILE *f = popen(command, "r"); /* NOLINT(cert-env33-c): the tree's own headers */
    CHECK(f);
    unsigned n = 0;
    while (fscanf(f, "%127s", name) == 1) {
        n++;
        if (!has_case(name))
            FAIL("%s has no case here", name);
    }
    CHECK_EQ(pclose(f), 0);
    CHECK_GE(n, 100);
}

TEST_MAIN()
