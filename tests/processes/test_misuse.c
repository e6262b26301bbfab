/* Mistakes in the code of a worker: it ends its thread, closes descriptors that it did not open, or forks and returns
 * twice. The worker is replaced, or it continues. No task is lost or delivered twice, and the run ends. */
#include "command/common.h"
#include "support/world.h"

/* One task makes the mistake, in its first attempt only. Twenty other tasks run at the same time. */
static void run_with_one(enum world_what what, unsigned attempts)
{
    struct world w;
    world_open(&w, 2);
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    world_add(&w, (struct world_order){ .what = (uint16_t)what, .tries = 1 });
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 21);
    if (attempts > 0)
        CHECK_EQ(w.finals[10].attempt, attempts);
    world_close(&w);
}

TEST(process_ends_its_thread)
{
    run_with_one(W_THREAD_EXIT, 2);
}

TEST(load_ends_its_thread)
{
    world_ops("l");
    run_with_one(W_LOAD_THREAD_EXIT, 0);
}

TEST(the_report_names_the_call)
{
    struct world w;
    world_open(&w, 1);
    w.o.crash_limit = 1;
    world_add(&w, (struct world_order){ .what = W_THREAD_EXIT });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].failure, GD_FAILURE_CRASH);
    CHECK_CONTAINS(w.finals[0].error, "pthread_exit()");
    world_close(&w);
}

/* The number of attempts is not checked. If the dispatcher is awake, it reads the answer without a bell (wake-up), and
 * the closed bell causes a failure only later. */
TEST(process_closes_every_descriptor)
{
    run_with_one(W_CLOSE_ALL, 0);
}

/* The worker continues. The results come from the worker, not from its fork. */
TEST(process_forks_and_returns_twice)
{
    struct world w;
    world_open(&w, 1);
    world_add_many(&w, 20, (struct world_order){ .what = W_FORK_TWICE });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 20);
    for (unsigned i = 0; i < 20; i++) {
        CHECK_EQ(w.finals[i].attempt, 1);
        CHECK_EQ(w.finals[i].answer.pid, w.finals[0].answer.pid);
    }
    CHECK_EQ(w.stats.crashes, 0);
    world_close(&w);
}

static void close_everything(struct world *w, const struct gd_report *r)
{
    (void)w;
    if (r->task_id == 5)
        for (int fd = 3; fd < 1024; fd++)
            close(fd);
}

/* The callback runs in the dispatching program. The run ends with an error, and every task is reported. */
TEST(a_callback_closes_every_descriptor)
{
    struct world w;
    world_open(&w, 2);
    w.on_final = close_everything;
    w.source_left = true; /* do not check open descriptors: the test itself closes some that the run did not open */
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO });
    world_add_many(&w, 2, (struct world_order){ .what = W_LOOP });
    CHECK_EQ(world_run(&w), GD_E_SYSTEM);
    CHECK_CONTAINS(w.text, "closed file descriptors that it had not opened");
    world_close(&w);
}

static int source_that_ends_its_thread(void *user, struct gd_item *item)
{
    (void)user, (void)item;
    pthread_exit(NULL);
}

TEST(a_source_ends_its_thread)
{
    struct world w;
    world_open(&w, 1);
    w.o.source = source_that_ends_its_thread;
    CHECK_EQ(world_run(&w), GD_E_SOURCE);
    CHECK_CONTAINS(w.text, "pthread_exit()");
    world_close(&w);
}

/* --- memory --- */

TEST(a_worker_is_killed_before_the_dispatcher_if_memory_runs_out)
{
    struct ran own = sh("cat /proc/self/oom_score_adj");
    if (own.status != 0 || atoi(own.out) >= 1000)
        SKIP("oom_score_adj cannot be raised here");
    struct ran r = sh(RUN "'cat /proc/self/oom_score_adj /proc/$PPID/oom_score_adj #' ::: 1");
    int command = -1, worker = -1;
    CHECK_EQ(sscanf(r.out, "%d %d", &command, &worker), 2);
    CHECK_GT(worker, atoi(own.out));
    CHECK_EQ(command, worker);
}

WORLD_MAIN()
