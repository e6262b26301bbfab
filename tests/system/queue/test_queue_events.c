/* SPDX-License-Identifier: MIT
 *
 * The thread of a node and its events, without workers: the test is the scheduler. The server is the model of
 * tests/sim/queue, in real time.
 */
#include "base/fault.h"
#include "queue/run/queue_run.h"
#include "support/queue_model.h"
#include "support/test.h"

enum { LONG_LEASE_MS = 24 * 3600 * 1000, LOST_MS = 60000 };

static struct queue_model *model;
static char directory[] = "queue-events-XXXXXX";
static char spool[64];

static void open_model(unsigned tasks)
{
    model = queue_model_open("songs");
    queue_model_lease(model, LONG_LEASE_MS); /* a task that is not given back does not come back during the test */
    queue_model_create(model);
    for (unsigned i = 0; i < tasks; i++)
        (void)queue_model_push(model, 0, &i, sizeof i);
    CHECK(mkdtemp(directory) != NULL);
    snprintf(spool, sizeof spool, "%s/node.spool", directory);
}

static void close_model(void)
{
    queue_model_close(&model);
    (void)unlink(spool); /* only there if records are left */
    CHECK_EQ(rmdir(directory), 0);
    memcpy(directory + strlen(directory) - 6, "XXXXXX", 6);
}

static int open_run(struct gd__queue_run **out)
{
    struct gd_queue_options queue = GD_QUEUE_OPTIONS_INIT;
    queue.url = "nats://127.0.0.1/songs";
    queue.spool = spool;
    return gd__queue_run_open(
        out,
        &(struct gd__queue_run_spec){
            .queue = &queue, .connect = queue_model_connect, .workers = 2, .slots = 2, .crash_limit = 3, .http = "" });
}

static void end_task(struct gd__queue_run *r, struct gd__queue_given *given)
{
    const struct gd__queue_record record = { .state = GD__QUEUE_DONE, .attempts = 1, .gpu = { "0", 1 } };
    gd__queue_run_end(r, given, &record);
}

/* The pull of the node waits at the server when the node finds that the queue is done. */
TEST(a_message_that_comes_after_the_end_of_a_node_goes_back)
{
    struct gd__queue_run *r;
    struct gd__queue_run_task task;
    open_model(0);
    CHECK_EQ(open_run(&r), 0);
    CHECK_EQ(gd__queue_run_take(r, &task), 0);
    (void)queue_model_push(model, 0, "late", 4);
    queue_model_await_delivered(model, 1);
    queue_model_await_held(model, 0); /* the lease does not run out during the test */
    CHECK_EQ(gd__queue_run_finish(r, LOST_MS), 0);
    gd__queue_run_close(&r);
    close_model();
}

/* --- no memory --- */

/* A node gets three tasks. It ends the first, and is cancelled while it has the second. Returns how it went. */
static int try_to_work(void)
{
    struct gd__queue_run *r;
    struct gd__queue_run_task task;
    int rc = open_run(&r);
    if (rc < 0)
        return rc;
    rc = gd__queue_run_take(r, &task);
    if (rc > 0) {
        end_task(r, task.given);
        rc = gd__queue_run_take(r, &task);
    }
    if (rc > 0) {
        gd__queue_run_cancel(r, NULL);
        gd__queue_run_return(r, task.given, 0);
    }
    const int end = gd__queue_run_finish(r, LOST_MS);
    gd__queue_run_close(&r);
    return rc < 0 ? rc : end;
}

/* Each allocation of the node fails once. The node may go on or end with an error, but it must not wait for an event that
 * does not come. */
TEST(no_memory)
{
    unsigned ended = 0;
    unsigned long calls;
    for (unsigned long nth = 1;; nth++) {
        open_model(3);
        gd__fault_begin(nth);
        const int rc = try_to_work();
        calls = gd__fault_count();
        gd__fault_begin(0);
        close_model();
        CHECK(rc == 0 || rc == GD_E_NO_MEMORY || rc == GD_E_SYSTEM);
        ended += rc == GD_E_NO_MEMORY;
        if (calls < nth)
            break;
    }
    CHECK_GT(ended, 10);
}

/* Without it, the node would not know that it is cut off. */
TEST(no_memory_for_the_loss_of_the_connection)
{
    struct gd__queue_run *r;
    struct gd__queue_run_task task;
    open_model(1);
    CHECK_EQ(open_run(&r), 0);
    CHECK_EQ(gd__queue_run_take(r, &task), 1);
    gd__fault_begin(1);
    queue_model_cut(model, true);
    gd__fault_begin(0);
    CHECK_EQ(gd__queue_run_take(r, &task), GD_E_NO_MEMORY);
    CHECK_CONTAINS(gd_error_text(), "no memory for an event of the queue");
    CHECK_EQ(gd__queue_run_finish(r, LOST_MS), GD_E_NO_MEMORY);
    gd__queue_run_close(&r);
    close_model();
}

TEST_MAIN()
