/* Devices of a run: which device a worker sees, on which CPUs it runs, how many workers a device gets, and what happens
 * when a device fails. */
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

#include "support/test.h"
#include "support/world.h"

/* Chooses devices by name instead of by number. */
static void use(struct world *w, const char *gpus)
{
    w->o.gpus = gpus;
    w->o.gpu_ids = NULL;
    w->o.n_gpus = 0;
}

/* --- which devices --- */

TEST(simulated_devices_by_name)
{
    struct world w;
    char seen[3][96] = { "" };
    world_open(&w, 1);
    use(&w, "sim:3");
    world_add_many(&w, 300, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    for (size_t i = 0; i < 300; i++) {
        const struct world_answer *a = &w.finals[i].answer;
        CHECK(a->gpu_id >= 0 && a->gpu_id < 3);
        CHECK_EQ(a->worker_id, a->gpu_id);
        CHECK(a->order);
        CHECK_EQ(strncmp(a->visible, "GPU-", 4), 0);
        if (*seen[a->gpu_id])
            CHECK_STR(a->visible, seen[a->gpu_id]);
        memcpy(seen[a->gpu_id], a->visible, sizeof a->visible);
    }
    CHECK(strcmp(seen[0], seen[1]) != 0 || !*seen[0]);
    world_close(&w);
}

TEST(workers_without_a_device_see_none)
{
    struct world w;
    world_open(&w, 1);
    use(&w, "cpu:2");
    setenv("CUDA_VISIBLE_DEVICES", "3", 1);
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    for (size_t i = 0; i < 10; i++)
        CHECK_STR(w.finals[i].answer.visible, "");
    world_close(&w);
}

TEST(an_inherited_list_chooses_and_orders_devices)
{
    struct world w;
    struct gd_devices *all;
    struct gd_device last = { .size = sizeof last };
    setenv("GPU_DISPATCH_SIM", "4", 1);
    CHECK_EQ(gd_devices_open(&all, "auto"), 0);
    CHECK_EQ(gd_devices_get(all, 3, &last), 0);
    gd_devices_close(&all);
    setenv("CUDA_VISIBLE_DEVICES", "3,1", 1);
    world_open(&w, 1);
    use(&w, "auto");
    world_add_many(&w, 100, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.stats.n_workers, 2);
    for (size_t i = 0; i < 100; i++)
        CHECK_EQ(strcmp(w.finals[i].answer.visible, last.uuid) == 0, w.finals[i].gpu_id == 0);
    world_close(&w);
}

TEST(a_number_of_an_existing_device_means_that_device)
{
    struct world w;
    setenv("GPU_DISPATCH_SIM", "2", 1);
    world_open(&w, 2);
    w.gpus[0] = 1;
    w.gpus[1] = 7; /* no such device: only its number is known */
    world_add_many(&w, 100, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    for (size_t i = 0; i < 100; i++) {
        if (w.finals[i].gpu_id == 1)
            CHECK_EQ(strncmp(w.finals[i].answer.visible, "GPU-", 4), 0);
        else
            CHECK_STR(w.finals[i].answer.visible, "7");
    }
    world_close(&w);
}

TEST(a_device_that_does_not_exist)
{
    struct world w;
    struct gd_dispatcher *d = NULL;
    setenv("GPU_DISPATCH_SIM", "2", 1);
    world_open(&w, 1);
    use(&w, "0,7");
    CHECK_EQ(gd_dispatcher_open(&d, &w.o), GD_E_NO_DEVICES);
    CHECK_CONTAINS(gd_error_text(), "7");
    w.o.gpu_ids = w.gpus;
    w.o.n_gpus = 1;
    CHECK_EQ(gd_dispatcher_open(&d, &w.o), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "both gpus and gpu_ids");
    CHECK(!d);
}

/* --- on which CPUs --- */

TEST(workers_run_near_their_device)
{
    struct world w;
    cpu_set_t ours;
    CHECK_EQ(sched_getaffinity(0, sizeof ours, &ours), 0);
    if (!CPU_ISSET(0, &ours) || !CPU_ISSET(1, &ours))
        SKIP("this process may not use CPUs 0 and 1");
    setenv("GPU_DISPATCH_SIM", "2,cpus=0/1", 1);
    world_open(&w, 1);
    use(&w, "auto");
    world_add_many(&w, 200, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    for (size_t i = 0; i < 200; i++)
        CHECK_EQ(w.finals[i].answer.cpus, w.finals[i].gpu_id == 0 ? 1 : 2);
    cpu_set_t after;
    CHECK_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    CHECK(CPU_EQUAL(&ours, &after)); /* the CPUs of this process are unchanged */
    world_close(&w);
}

TEST(workers_run_anywhere_if_requested)
{
    struct world w;
    cpu_set_t ours;
    CHECK_EQ(sched_getaffinity(0, sizeof ours, &ours), 0);
    if (CPU_COUNT(&ours) < 2)
        SKIP("there is only one CPU");
    setenv("GPU_DISPATCH_SIM", "1,cpus=0", 1);
    world_open(&w, 1);
    use(&w, "auto");
    w.o.any_cpu = true;
    world_add(&w, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    uint64_t first_64 = 0;
    for (int i = 0; i < 64; i++)
        first_64 |= (uint64_t)(CPU_ISSET(i, &ours) != 0) << i;
    CHECK_EQ(w.finals[0].answer.cpus, first_64);
    world_close(&w);
}

/* --- how many workers --- */

TEST(as_many_workers_as_memory_allows)
{
    struct world w;
    setenv("GPU_DISPATCH_SIM", "2,memory=16G,free=8G/4G", 1);
    world_open(&w, 1);
    use(&w, "auto");
    w.o.workers_per_gpu = 0;
    w.o.model_bytes = UINT64_C(2) << 30;
    world_add_many(&w, 100, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.stats.n_workers, 3 + 1); /* a tenth of the free memory is not used */
    for (unsigned i = 0; i < 4; i++) {
        CHECK_EQ(w.workers[i].worker_id, i);
        CHECK_EQ(w.workers[i].gpu_id, i < 3 ? 0 : 1);
    }
    world_close(&w);
}

TEST(not_enough_memory_for_one_worker)
{
    struct world w;
    struct gd_dispatcher *d = NULL;
    setenv("GPU_DISPATCH_SIM", "1,memory=16G,free=1G", 1);
    world_open(&w, 1);
    use(&w, "auto");
    w.o.workers_per_gpu = 0;
    CHECK_EQ(gd_dispatcher_open(&d, &w.o), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "model_bytes");
    w.o.model_bytes = UINT64_C(2) << 30;
    CHECK_EQ(gd_dispatcher_open(&d, &w.o), GD_E_TOO_LARGE);
}

/* --- devices that fail --- */

TEST(a_device_lost_twice_is_out_of_use)
{
    struct world w;
    world_open(&w, 2);
    w.o.window = 1;
    world_add_many(&w, 1, (struct world_order){ .what = W_DEVICE_LOST, .tries = 2 });
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO });
    w.o.placement = GD_PLACE_CHUNKS; /* the first half of the tasks is for the first device */
    w.o.total_tasks = 21;
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 21);
    CHECK_EQ(world_events(&w, 'd'), 1);
    CHECK_EQ(world_event(&w, 'd')->gpu_id, 0);
    CHECK_STR(world_event(&w, 'd')->text, "its workers lost it twice in a row");
    world_close(&w);
}

static void open_when_out(struct world *w, const struct world_event *e)
{
    if (e->kind == 'd')
        world_gate_open(w->page, 3);
}

TEST(a_device_whose_workers_all_fail_in_setup)
{
    struct world w;
    world_open(&w, 2);
    w.o.workers_per_gpu = 2;
    w.setup = (struct world_setup){ .what = W_ERROR, .workers = 1u << 2 | 1u << 3 };
    w.on_event = open_when_out;
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO, .gate = 3 });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 20);
    CHECK_EQ(world_events(&w, 's'), 2);
    CHECK_EQ(world_events(&w, 'd'), 1);
    CHECK_EQ(world_event(&w, 'd')->gpu_id, 1);
    CHECK_STR(world_event(&w, 'd')->text, "it has no workers left");
    world_close(&w);
}

TEST(a_device_with_one_working_worker_stays_in_use)
{
    struct world w;
    world_open(&w, 1);
    w.o.workers_per_gpu = 2;
    w.setup = (struct world_setup){ .what = W_ERROR, .workers = 1u << 1 };
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_events(&w, 'd'), 0);
    world_close(&w);
}

static unsigned n_lost; /* how many devices the failing GPU has */

static void open_the_gate(struct world *w, const struct world_event *e)
{
    (void)e;
    if (world_events(w, 'X') == n_lost) /* the workers of the failed devices are gone, so no task can end there */
        world_gate_open(w->page, 3);
}

/* Runs on n simulated devices. When each of them is in a task, writes the line to the FIFO of device errors. All
 * devices except the first one fail. */
static void run_then_xid(struct world *w, const char *simulated, unsigned n, const char *line)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/gd-xid-%d", (int)getpid());
    unlink(path); /* an earlier process with this id may have left it */
    CHECK_EQ(mkfifo(path, 0600), 0);
    setenv("GPU_DISPATCH_SIM", simulated, 1);
    setenv("GPU_DISPATCH_SIM_XID", path, 1);
    world_open(w, 1);
    use(w, "auto");
    w->on_event = open_the_gate;
    n_lost = n - 1;
    world_add_many(w, 20, (struct world_order){ .what = W_ECHO, .gate = 3 });
    world_launch(w);
    world_await(w->page, WC_ENTERED, n);
    const int fd = open(path, O_WRONLY); /* waits until the run reads from it */
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, line, strlen(line)), (ssize_t)strlen(line));
    close(fd);
    unlink(path);
}

TEST(a_device_that_the_driver_reports_as_lost)
{
    struct world w;
    run_then_xid(&w, "2", 2, "1 13\n1 79\n"); /* the first error is one of the application */
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 20);
    CHECK_EQ(world_events(&w, 'd'), 1);
    CHECK_EQ(world_event(&w, 'd')->gpu_id, 1);
    CHECK_CONTAINS(world_event(&w, 'd')->text, "Xid 79");
    for (size_t i = 0; i < 20; i++)
        CHECK_EQ(w.finals[i].gpu_id, 0); /* also tasks that waited for the other device */
    world_close(&w);
}

/* After a contained memory error the workers of the device are replaced, the device stays in use, and no task is
 * charged. */
TEST(a_device_whose_programs_must_be_restarted)
{
    struct world w;
    run_then_xid(&w, "2", 2, "1 94\n");
    while (world_count(w.page, WC_SETUPS) < 3) /* wait for the replacement */
        sched_yield();
    world_gate_open(w.page, 3);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 20);
    CHECK_EQ(world_events(&w, 'd'), 0);
    CHECK_EQ(world_events(&w, 'X'), 0);
    CHECK_EQ(world_events(&w, 'x'), 1);
    CHECK_EQ(world_event(&w, 'x')->gpu_id, 1);
    for (size_t i = 0; i < 20; i++)
        CHECK_EQ(w.finals[i].attempt, 1);
    world_close(&w);
}

TEST(a_gpu_that_fails_with_all_its_instances)
{
    struct world w;
    struct gd_devices *whole;
    struct gd_device d = { .size = sizeof d };
    char line[128];
    CHECK_EQ(gd_devices_open(&whole, "sim:2"), 0);
    CHECK_EQ(gd_devices_get(whole, 1, &d), 0);
    gd_devices_close(&whole);
    snprintf(line, sizeof line, "%s 79\n", d.uuid); /* the name of the GPU, not of its instances */
    run_then_xid(&w, "2,mig=0/2", 3, line);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 20);
    CHECK_EQ(world_events(&w, 'd'), 2);
    for (size_t i = 0; i < 20; i++)
        CHECK_EQ(w.finals[i].gpu_id, 0);
    world_close(&w);
}

/* --- delays between starts --- */

TEST(a_gap_between_starts)
{
    struct world w;
    world_open(&w, 4);
    w.o.start_gap_ms = 30;
    world_add_many(&w, 8, (struct world_order){ .what = W_ECHO });
    const uint64_t begin = world_now_ms();
    CHECK_EQ(world_run(&w), 0);
    CHECK_GE(world_now_ms() - begin, 7 * 30);
    CHECK_EQ(world_callbacks(&w, 'S'), 8);
    world_close(&w);
}

WORLD_MAIN()
