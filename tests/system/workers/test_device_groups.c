/* SPDX-License-Identifier: MIT
 *
 * Workers with several devices: what they see, which devices are not used, and what happens when one device of a group
 * fails.
 */
#include <fcntl.h>
#include <gpu_dispatch/observe.h>
#include <sched.h>
#include <sys/stat.h>

#include "support/test.h"
#include "support/world.h"

/* A world on simulated devices. */
static void open_on(struct world *w, const char *simulated, const char *gpus, unsigned per_worker)
{
    unsetenv("CUDA_VISIBLE_DEVICES");
    setenv("GPU_DISPATCH_SIM", simulated, 1);
    world_open(w, 1);
    w->o.gpus = gpus;
    w->o.gpu_ids = NULL;
    w->o.n_gpus = 0;
    w->o.gpus_per_worker = per_worker;
}

static int refused(const char *simulated, const char *gpus, unsigned per_worker)
{
    struct world w;
    struct gd_dispatcher *d = NULL;
    open_on(&w, simulated, gpus, per_worker);
    const int rc = gd_dispatcher_open(&d, &w.o);
    CHECK(rc < 0 && !d);
    return rc;
}

/* Runs 50 tasks and checks that worker i saw the i-th of these lists. */
static void check_seen(struct world *w, unsigned n, const char *const *gpu_ids, const char *const *visible)
{
    world_add_many(w, 50, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(w), 0);
    CHECK_EQ(w->stats.n_workers, n);
    for (size_t i = 0; i < 50; i++) {
        const struct world_answer *a = &w->finals[i].answer;
        CHECK(a->worker_id >= 0 && (unsigned)a->worker_id < n);
        CHECK_STR(a->gpu_ids, gpu_ids[a->worker_id]);
        CHECK_EQ(a->gpu_id, atoi(gpu_ids[a->worker_id]));
        CHECK_EQ(w->finals[i].gpu_id, a->gpu_id);
        CHECK_EQ(a->seed, 42 + (uint64_t)a->gpu_id);
        CHECK(a->order);
        if (visible)
            CHECK_STR(a->visible, visible[a->worker_id]);
    }
}

/* --- what workers see --- */

TEST(two_devices_per_worker)
{
    struct world w;
    open_on(&w, "4", "auto", 2);
    check_seen(&w, 2, (const char *[]){ "0,1", "2,3" }, NULL);
    CHECK_EQ(world_events(&w, 'i'), 0);
    world_close(&w);
}

/* Observers see which devices belong together. */
TEST(groups_on_the_page)
{
    static const int64_t expected[][2] = { { 3, 3 }, { 0, 3 }, { 1, 1 }, { 2, 1 } }; /* gpu_id, group */
    struct world w;
    struct gd_observer *o;
    const struct gd_snapshot *s;
    open_on(&w, "4", "3+0,1+2", 0);
    w.o.job = "grouped";
    CHECK_EQ(gd_dispatcher_open(&w.d, &w.o), 0);
    CHECK_EQ(gd_observer_attach(&o, w.d), 0);
    CHECK_EQ(gd_observer_read(o, &s), 0);
    CHECK_EQ(s->n_devices, 4);
    for (size_t i = 0; i < s->n_devices; i++) {
        CHECK_EQ(gd_snapshot_device(s, i)->gpu_id, expected[i][0]);
        CHECK_EQ(gd_snapshot_device(s, i)->group, expected[i][1]);
    }
    gd_observer_close(&o);
    gd_dispatcher_close(&w.d);
    world_close(&w);
}

TEST(by_uuid)
{
    struct world w;
    struct gd_devices *list;
    struct gd_device a = { .size = sizeof a }, b = a;
    char both[sizeof a.uuid + sizeof b.uuid];
    open_on(&w, "3", "2+0", 0);
    CHECK_EQ(gd_devices_open(&list, "2+0"), 0);
    CHECK_EQ(gd_devices_count(list), 2);
    CHECK_EQ(gd_devices_get(list, 0, &a), 0);
    CHECK_EQ(gd_devices_get(list, 1, &b), 0);
    gd_devices_close(&list);
    snprintf(both, sizeof both, "%s,%s", a.uuid, b.uuid);
    check_seen(&w, 1, (const char *[]){ "2,0" }, (const char *[]){ both });
    world_close(&w);
}

TEST(by_index)
{
    struct world w;
    open_on(&w, "4", "2,3,0,1", 2);
    w.o.visible_devices = GD_VISIBLE_INDEX;
    check_seen(&w, 2, (const char *[]){ "2,3", "0,1" }, (const char *[]){ "2,3", "0,1" });
    world_close(&w);
    open_on(&w, "4", "auto", 0);
    setenv("CUDA_VISIBLE_DEVICES", "3,1", 1); /* the index on this machine, not the position in this list */
    w.o.visible_devices = GD_VISIBLE_INDEX;
    check_seen(&w, 2, (const char *[]){ "0", "1" }, (const char *[]){ "3", "1" });
    world_close(&w);
}

TEST(numbers_without_devices)
{
    struct world w;
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("GPU_DISPATCH_SIM");
    world_open(&w, 4);
    w.o.gpus_per_worker = 2;
    check_seen(&w, 2, (const char *[]){ "0,1", "2,3" }, (const char *[]){ "0,1", "2,3" });
    world_close(&w);
}

TEST(the_dispatcher_returns_the_devices_of_a_worker)
{
    struct world w;
    struct gd_dispatcher *d = NULL;
    int ids[4] = { -1, -1, -1, -1 };
    open_on(&w, "4,nvlink=0/1/0/1", "auto", 2);
    w.o.workers_per_gpu = 2;
    CHECK_EQ(gd_dispatcher_open(&d, &w.o), 0);
    CHECK_EQ(gd_dispatcher_worker_gpus(d, 3, ids, 4), 2);
    CHECK_EQ(ids[0], 1);
    CHECK_EQ(ids[1], 3);
    CHECK_EQ(ids[2], -1);
    CHECK_EQ(gd_dispatcher_worker_gpus(d, 1, ids, 1), 2);
    CHECK_EQ(ids[0], 0);
    CHECK_EQ(ids[1], 3);
    CHECK_EQ(gd_dispatcher_worker_gpus(d, 0, NULL, 0), 2);
    CHECK_EQ(gd_dispatcher_worker_gpus(d, 4, ids, 4), GD_E_INVALID);
    gd_dispatcher_close(&d);
}

TEST(observers_see_all_devices)
{
    struct world w;
    struct gd_dispatcher *d = NULL;
    struct gd_observer *o = NULL;
    open_on(&w, "4", "0+1,2+3", 0);
    w.o.job = "groups";
    CHECK_EQ(gd_dispatcher_open(&d, &w.o), 0);
    CHECK_EQ(gd_observer_attach(&o, d), 0);
    const struct gd_snapshot *s = NULL;
    CHECK_EQ(gd_observer_read(o, &s), 0);
    CHECK_EQ(s->n_devices, 4);
    CHECK_EQ(s->n_workers, 2);
    CHECK_EQ(gd_snapshot_device(s, 3)->gpu_id, 3);
    CHECK_EQ(gd_snapshot_worker(s, 1)->gpu_id, 2);
    gd_observer_close(&o);
    gd_dispatcher_close(&d);
}

/* --- devices that are not used --- */

TEST(devices_that_are_left_over)
{
    struct world w;
    open_on(&w, "5,nvlink=0/1/0/1/0", "auto", 2);
    check_seen(&w, 2, (const char *[]){ "0,2", "1,3" }, NULL);
    CHECK_EQ(world_events(&w, 'i'), 1);
    CHECK_EQ(world_event(&w, 'i')->gpu_id, 4);
    CHECK_STR(world_event(&w, 'i')->text, "too few devices are left for a group of 2");
    world_close(&w);
}

TEST(groups_that_cannot_be_formed)
{
    CHECK_EQ(refused("3", "auto", 4), GD_E_NO_DEVICES);
    CHECK_CONTAINS(gd_error_text(), "gpus_per_worker is 4, but only 3 devices can be used");
    CHECK_EQ(refused("2,mig=2", "auto", 2), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "MIG instance");
    CHECK_EQ(refused("4", "0+1,2", 2), GD_E_INVALID);
    CHECK_EQ(refused("4", "cpu:4", 2), GD_E_INVALID);
    CHECK_EQ(refused("4", "0+0", 0), GD_E_INVALID);
}

TEST(options_out_of_range)
{
    struct world w;
    struct gd_dispatcher *d = NULL;
    open_on(&w, "1", "auto", 0);
    w.o.visible_devices = (enum gd_visible_devices)2;
    CHECK_EQ(gd_dispatcher_open(&d, &w.o), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "visible_devices is 2");
    open_on(&w, "1,mig=2", "auto", 0);
    w.o.visible_devices = GD_VISIBLE_INDEX;
    CHECK_EQ(gd_dispatcher_open(&d, &w.o), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "by UUID only");
}

/* --- room for workers --- */

static void with_room(struct world *w, uint64_t gib)
{
    w->o.workers_per_gpu = 0;
    w->o.model_bytes = gib << 30;
}

TEST(a_device_without_room_is_left_out)
{
    struct world w;
    open_on(&w, "3,memory=16G,free=8G/1G/4G", "auto", 0);
    with_room(&w, 3);
    check_seen(&w, 3, (const char *[]){ "0", "0", "2" }, NULL);
    CHECK_EQ(world_events(&w, 'i'), 1);
    CHECK_EQ(world_event(&w, 'i')->gpu_id, 1);
    CHECK_STR(world_event(&w, 'i')->text,
              "it has 1.0 GiB free, and 256 MiB of that stay in reserve: a worker that needs 3.0 GiB does not fit");
    world_close(&w);
}

TEST(no_device_has_room)
{
    struct world w;
    struct gd_dispatcher *d = NULL;
    open_on(&w, "3,memory=16G,free=1G", "auto", 0);
    with_room(&w, 3);
    CHECK_EQ(gd_dispatcher_open(&d, &w.o), GD_E_TOO_LARGE);
    CHECK_CONTAINS(gd_error_text(), "no worker fits on any of the 3 devices: GPU 0: it has 1.0 GiB free");
}

TEST(groups_are_formed_from_devices_with_room)
{
    struct world w;
    open_on(&w, "4,memory=16G,free=8G/1G/8G/4G", "auto", 2);
    with_room(&w, 3);
    check_seen(&w, 2, (const char *[]){ "0,2", "0,2" }, NULL);
    CHECK_EQ(world_events(&w, 'i'), 2); /* 1 has no room, and 3 no partner */
    CHECK_EQ(world_event(&w, 'i')->gpu_id, 1);
    world_close(&w);
}

TEST(the_fullest_device_of_a_group_counts)
{
    struct world w;
    open_on(&w, "2,memory=16G,free=8G/4G", "0+1", 0);
    with_room(&w, 3);
    check_seen(&w, 1, (const char *[]){ "0,1" }, NULL);
    world_close(&w);
    open_on(&w, "2,memory=16G,free=4G/8G", "0+1", 0);
    with_room(&w, 3);
    check_seen(&w, 1, (const char *[]){ "0,1" }, NULL);
    world_close(&w);
}

TEST(a_written_group_without_room_is_left_out)
{
    struct world w;
    open_on(&w, "4,memory=16G,free=8G/8G/8G/1G", "0+1,2+3", 0);
    with_room(&w, 6);
    check_seen(&w, 1, (const char *[]){ "0,1" }, NULL);
    CHECK_EQ(world_events(&w, 'i'), 2);
    CHECK_EQ(w.events[0].gpu_id, 3);
    CHECK_EQ(w.events[1].gpu_id, 2);
    CHECK_STR(w.events[1].text, "no worker fits on GPU 3 of its group");
    world_close(&w);
}

/* --- failures --- */

static unsigned events_to_wait_for; /* 'X': workers given up */

static void open_the_gate(struct world *w, const struct world_event *e)
{
    (void)e;
    if (world_events(w, 'X') == events_to_wait_for)
        world_gate_open(w->page, 3);
}

/* Runs on two groups, 0+1 and 2+3. Both are in a task when the line arrives. */
static void run_then_xid(struct world *w, const char *line)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/gd-group-xid-%d", (int)getpid());
    unlink(path); /* left by a process that had this number and was killed */
    CHECK_EQ(mkfifo(path, 0600), 0);
    setenv("GPU_DISPATCH_SIM_XID", path, 1);
    open_on(w, "4", "auto", 2);
    w->on_event = open_the_gate;
    events_to_wait_for = 1;
    world_add_many(w, 20, (struct world_order){ .what = W_ECHO, .gate = 3 });
    world_launch(w);
    world_await(w->page, WC_ENTERED, 2);
    const int fd = open(path, O_WRONLY);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, line, strlen(line)), (ssize_t)strlen(line));
    close(fd);
    unlink(path);
}

TEST(a_lost_device_takes_its_group_out)
{
    struct world w;
    run_then_xid(&w, "3 79\n");
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 20);
    CHECK_EQ(world_events(&w, 'd'), 1);
    CHECK_EQ(world_event(&w, 'd')->gpu_id, 3);
    CHECK_CONTAINS(world_event(&w, 'd')->text, "Xid 79");
    CHECK_EQ(world_events(&w, 'i'), 1);
    CHECK_EQ(world_event(&w, 'i')->gpu_id, 2);
    CHECK_STR(world_event(&w, 'i')->text, "GPU 3 of its group is out of use");
    for (size_t i = 0; i < 20; i++)
        CHECK_STR(w.finals[i].answer.gpu_ids, "0,1");
    world_close(&w);
}

TEST(an_error_of_any_device_restarts_the_worker)
{
    struct world w;
    run_then_xid(&w, "3 94\n");
    while (world_count(w.page, WC_SETUPS) < 3) /* the process that replaces it */
        sched_yield();
    world_gate_open(w.page, 3);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 20);
    CHECK_EQ(world_events(&w, 'd') + world_events(&w, 'i'), 0);
    CHECK_EQ(world_events(&w, 'x'), 1);
    CHECK_EQ(world_event(&w, 'x')->gpu_id, 2);
    world_close(&w);
}

TEST(a_group_that_its_worker_lost)
{
    struct world w;
    open_on(&w, "4", "auto", 2);
    w.o.window = 1;
    world_add_many(&w, 1, (struct world_order){ .what = W_DEVICE_LOST, .tries = 2 });
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO });
    w.o.placement = GD_PLACE_CHUNKS; /* the first half of the tasks is for the first group */
    w.o.total_tasks = 21;
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 21);
    CHECK_EQ(world_events(&w, 'i'), 0);
    CHECK_EQ(world_events(&w, 'd'), 2); /* it is not known which of them failed */
    CHECK_EQ(world_event(&w, 'd')->gpu_id, 0);
    CHECK_STR(world_event(&w, 'd')->text, "its workers lost it twice in a row");
    world_close(&w);
}

WORLD_MAIN()
