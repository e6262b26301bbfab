/* SPDX-License-Identifier: MIT
 *
 * A dispatcher as a node of a queue. The server is the model of tests/sim/queue, in real time.
 */
#include <fcntl.h>
#include <sched.h>

#include "base/error.h"
#include "binding.h"
#include "queue/messages/node_status.h"
#include "queue/run/queue_run.h"
#include "support/queue_model.h"
#include "support/test.h"
#include "support/world.h"

static struct queue_model *model;
static struct gd_queue_options queue;
static char directory[] = "queue-run-XXXXXX";
static char spool[64];

/* A world whose tasks come from a queue. Tasks are numbered in the order in which they are pulled, which is the order in
 * which they were pushed. */
static void open_world(struct world *w, unsigned n_gpus)
{
    const struct gd_queue_options defaults = GD_QUEUE_OPTIONS_INIT;
    model = queue_model_open("songs");
    gd__queue_run_connect = queue_model_connect;
    CHECK(mkdtemp(directory) != NULL);
    snprintf(spool, sizeof spool, "%s/node.spool", directory);
    queue = defaults;
    queue.url = "nats://127.0.0.1/songs";
    queue.spool = spool;
    world_open(w, n_gpus);
    w->o.source = NULL;
    w->o.queue = &queue;
}

static void close_world(struct world *w)
{
    world_close(w);
    queue_model_close(&model);
    unlink(spool);
    rmdir(directory);
}

static void push_all(const struct world *w)
{
    queue_model_create(model);
    for (size_t i = 0; i < w->n_orders; i++) {
        CHECK_EQ(w->sizes[i], sizeof w->orders[i]);
        (void)queue_model_push(model, 0, &w->orders[i], sizeof w->orders[i]);
    }
}

/* Checks the record of task i, and returns its output as far as it has the size of an answer. */
static struct gd__queue_record record_of(const struct world *w, size_t i, void **message)
{
    const struct gd__queue_key key = gd__queue_task_key(&w->orders[i], sizeof w->orders[i], 0);
    struct gd__queue_record r;
    CHECK(queue_model_record(model, &key, &r, message));
    CHECK_EQ(r.number, i);
    return r;
}

static void check_text(struct gd__queue_text text, const char *expected)
{
    CHECK_EQ(text.size, strlen(expected));
    CHECK_MEM(text.at, expected, text.size);
}

/* What the nodes of the queue have said about themselves last. There is one node. */
static struct gd__node_status status_of_node(void)
{
    struct gd__node_status s = { .pid = 0 };
    size_t size = 0;
    void *json = queue_model_find_status(model, &size);
    CHECK(json != NULL);
    CHECK_EQ(gd__node_status_parse(&s, json, size), 0);
    free(json);
    return s;
}

TEST(each_task_gets_a_record)
{
    struct world w;
    open_world(&w, 3);
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO });
    const size_t bad = world_add(&w, (struct world_order){ .what = W_ERROR });
    push_all(&w);
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(queue_model_count(model, GD__QUEUE_RECORD), 21);
    CHECK_EQ(queue_model_held(model), 0);
    for (size_t i = 0; i < w.n_orders; i++) {
        void *message;
        const struct gd__queue_record r = record_of(&w, i, &message);
        CHECK_EQ(r.attempts, 1);
        CHECK_GT(r.started_us, 0);
        CHECK_EQ(r.gpu.size, 1);
        if (i == bad) {
            CHECK_EQ(r.state, GD__QUEUE_FAILED);
            check_text(r.failure, "error");
            check_text(r.error, "task 20 went wrong at attempt 1");
        } else {
            struct world_answer a;
            CHECK_EQ(r.state, GD__QUEUE_DONE);
            CHECK_EQ(r.output.bytes.size, sizeof a);
            memcpy(&a, r.output.bytes.at, sizeof a);
            CHECK_EQ(a.tag, i);
        }
        free(message);
    }
    const struct gd__node_status s = status_of_node();
    CHECK_EQ(s.state, GD__NODE_LEFT);
    CHECK_EQ(s.workers, 3);
    CHECK_EQ(s.done, 20);
    CHECK_EQ(s.failed, 1);
    CHECK(access(spool, F_OK) < 0); /* the server has everything */
    close_world(&w);
}

TEST(tasks_of_a_bundle_share_a_record_message)
{
    struct world w;
    struct gd__queue_reader reader;
    struct gd__queue_record r;
    char subject[GD__QUEUE_SUBJECT_ROOM];
    size_t size = 0;
    unsigned n = 0;
    open_world(&w, 2);
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    const struct gd__queue_key key = queue_model_push_bundle(model, w.orders, sizeof *w.orders, 10);
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(queue_model_count(model, GD__QUEUE_RECORD), 1);
    const struct gd__queue_subject s = { .kind = GD__QUEUE_RECORD, .key = key };
    void *message = queue_model_find(model, gd__queue_subject_text(subject, "songs", &s), &size);
    CHECK(message != NULL);
    CHECK_EQ(gd__queue_records_open(&reader, message, size, &key), 0);
    while (gd__queue_records_next(&reader, &r)) {
        CHECK_EQ(r.state, GD__QUEUE_DONE);
        CHECK_EQ(r.number, n++);
    }
    CHECK_EQ(n, 10);
    free(message);
    close_world(&w);
}

TEST(retries_and_crashes_are_as_on_one_machine)
{
    struct world w;
    void *message;
    open_world(&w, 2);
    w.o.retries = 2;
    w.o.retry_delay_ms = 1;
    w.o.crash_limit = 2;
    world_add(&w, (struct world_order){ .what = W_ERROR, .tries = 2 });
    world_add(&w, (struct world_order){ .what = W_SEGV });
    push_all(&w);
    CHECK_EQ(world_run(&w), 0);
    struct gd__queue_record r = record_of(&w, 0, &message);
    CHECK_EQ(r.state, GD__QUEUE_DONE);
    CHECK_EQ(r.attempts, 3);
    free(message);
    r = record_of(&w, 1, &message);
    CHECK_EQ(r.state, GD__QUEUE_FAILED);
    check_text(r.failure, "crash");
    CHECK_EQ(r.signal, SIGSEGV);
    free(message);
    close_world(&w);
}

/* The device of each worker that gets this task is lost. This must not go on on other nodes. */
TEST(a_task_that_loses_its_device_too_often_has_failed)
{
    struct world w;
    void *message;
    open_world(&w, 4);
    w.o.crash_limit = 2;
    world_add(&w, (struct world_order){ .what = W_DEVICE_LOST });
    world_add(&w, (struct world_order){ .what = W_ECHO });
    push_all(&w);
    CHECK_EQ(world_run(&w), 0);
    struct gd__queue_record r = record_of(&w, 0, &message);
    CHECK_EQ(r.state, GD__QUEUE_FAILED);
    CHECK_EQ(r.attempts, 2);
    check_text(r.failure, "device_lost");
    free(message);
    CHECK_EQ(record_of(&w, 1, &message).state, GD__QUEUE_DONE);
    free(message);
    close_world(&w);
}

/* Each node has one device. The task loses that of the first node twice, so the node leaves. The second node loses its
 * device once: then the task has used up its three attempts, and the node does not leave for it. */
TEST(losses_of_devices_are_counted_over_all_nodes)
{
    struct world w;
    void *message;
    open_world(&w, 1);
    w.o.crash_limit = 3;
    world_add(&w, (struct world_order){ .what = W_DEVICE_LOST });
    push_all(&w);
    CHECK_EQ(world_run(&w), GD_E_NO_WORKERS);
    CHECK_EQ(world_count(w.page, WC_ENTERED), 2);
    CHECK_EQ(queue_model_held(model), 0);
    CHECK_EQ(queue_model_count(model, GD__QUEUE_RECORD), 0);
    world_next(&w);
    world_add(&w, (struct world_order){ .what = W_DEVICE_LOST });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_count(w.page, WC_ENTERED), 3);
    const struct gd__queue_record r = record_of(&w, 0, &message);
    CHECK_EQ(r.state, GD__QUEUE_FAILED);
    check_text(r.failure, "device_lost");
    free(message);
    close_world(&w);
}

/* A worker says only when it is ready how many tasks it can have in flight. */
TEST(a_worker_gets_as_many_tasks_as_it_takes)
{
    struct world w;
    open_world(&w, 1);
    world_ops("pf");
    w.o.concurrency = 8;
    world_add_many(&w, 8, (struct world_order){ .what = W_ECHO, .gate = 2 });
    push_all(&w);
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 8);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(queue_model_count(model, GD__QUEUE_RECORD), 8);
    close_world(&w);
}

/* Waits until observers see how much work the whole queue has, and returns how much of it is done. */
static double await_work(struct world *w, double total)
{
    double done = 0, seen = 0;
    while (seen < total) {
        sched_yield();
        gd_dispatcher_work(w->d, &done, &seen);
    }
    CHECK(seen <= total);
    return done;
}

TEST(observers_see_the_progress_of_the_whole_queue)
{
    struct world w;
    open_world(&w, 1);
    world_add_many(&w, 3, (struct world_order){ .what = W_ECHO });
    push_all(&w);
    CHECK_EQ(world_run(&w), 0);
    world_next(&w); /* as another node */
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 2 });
    push_all(&w);
    world_launch(&w);
    CHECK_EQ(await_work(&w, 4), 3);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    close_world(&w);
}

/* One task has begun when the run is shut down. It ends, and gets a record. The others go back at once. */
TEST(a_shutdown_gives_back_what_has_not_begun)
{
    struct world w;
    open_world(&w, 1);
    world_add_many(&w, 8, (struct world_order){ .what = W_ECHO, .gate = 2 });
    push_all(&w);
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    gd_dispatcher_shutdown(w.d);
    queue_model_await_held(model, 1); /* while the task still runs */
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    CHECK_EQ(queue_model_count(model, GD__QUEUE_RECORD), 1);
    CHECK_EQ(queue_model_held(model), 0);
    const struct gd__node_status s = status_of_node();
    CHECK_EQ(s.state, GD__NODE_LEFT);
    CHECK_STR(s.note, "the run was shut down");
    close_world(&w);
}

TEST(an_abort_gives_everything_back)
{
    struct world w;
    open_world(&w, 2);
    world_add_many(&w, 8, (struct world_order){ .what = W_LOOP });
    push_all(&w);
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 2);
    gd_dispatcher_abort(w.d);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    CHECK_EQ(queue_model_count(model, GD__QUEUE_RECORD), 0);
    CHECK_EQ(queue_model_held(model), 0);
    close_world(&w);
}

TEST(a_node_whose_workers_fail_gives_everything_back)
{
    struct world w;
    open_world(&w, 2);
    w.setup.what = W_ERROR;
    world_add_many(&w, 4, (struct world_order){ .what = W_ECHO });
    push_all(&w);
    CHECK_EQ(world_run(&w), GD_E_SETUP);
    CHECK_EQ(queue_model_count(model, GD__QUEUE_RECORD), 0);
    CHECK_EQ(queue_model_held(model), 0);
    CHECK_CONTAINS(status_of_node().note, "setup of worker");
    close_world(&w);
}

/* The lease of a task of priority 1 would run out, if the node extended it as often as those of priority 0. */
TEST(the_shortest_lease_counts)
{
    struct world w;
    open_world(&w, 1);
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 2 });
    queue_model_lease(model, 3600000);
    queue_model_create(model);
    queue_model_lease(model, 1000);
    (void)queue_model_push(model, 1, &w.orders[0], sizeof w.orders[0]);
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    queue_model_await_notices(model, 2);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    close_world(&w);
}

/* The server is lost while a task runs. The record stays in the spool file, and the next node publishes it. */
TEST(a_node_that_is_cut_off_keeps_its_records)
{
    struct world w;
    void *message;
    open_world(&w, 1);
    queue.lost_timeout_ms = 1;
    queue_model_lease(model, 1000); /* the next node waits for it */
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 2 });
    push_all(&w);
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    queue_model_cut(model, true);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), GD_E_SOURCE);
    CHECK_CONTAINS(w.text, spool);
    CHECK_EQ(queue_model_count(model, GD__QUEUE_RECORD), 0);

    queue_model_cut(model, false);
    world_next(&w);
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 2 });
    queue.lost_timeout_ms = 600000;
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.n_finals, 0); /* it was not run again */
    CHECK_EQ(record_of(&w, 0, &message).state, GD__QUEUE_DONE);
    free(message);
    CHECK(access(spool, F_OK) < 0);
    close_world(&w);
}

/* The server does not answer any more, but the connection is there. A node that is told to leave does not wait for ever. */
TEST(a_shutdown_does_not_wait_for_a_server_that_has_stopped)
{
    struct world w;
    open_world(&w, 1);
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 2 });
    push_all(&w);
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    queue_model_stop(model);
    gd_dispatcher_shutdown(w.d);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    CHECK_EQ(access(spool, F_OK), 0); /* the record is there */
    close_world(&w);
}

/* The server comes back in time: nothing is lost, and nothing is run twice. */
TEST(a_node_survives_an_outage)
{
    struct world w;
    open_world(&w, 1);
    world_add_many(&w, 3, (struct world_order){ .what = W_ECHO, .gate = 2 });
    push_all(&w);
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    queue_model_cut(model, true);
    world_gate_open(w.page, 2);
    queue_model_cut(model, false);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(queue_model_count(model, GD__QUEUE_RECORD), 3);
    CHECK_EQ(world_count(w.page, WC_ENTERED), 3);
    close_world(&w);
}

/* --- other nodes --- */

struct seen {
    unsigned n;
    bool has_left;  /* the node on n2 */
    char note[512]; /* of the node on n2 */
    uint64_t pid;   /* of the node of the test */
};

static int see(void *user, const struct gd_queue_node *node)
{
    struct seen *s = user;
    s->n++;
    if (strcmp(node->host, "n3") == 0)
        return 0;
    if (strcmp(node->host, "n2") != 0) {
        s->pid = node->pid;
        return 0;
    }
    s->has_left = node->left;
    snprintf(s->note, sizeof s->note, "%s", node->note ? node->note : "");
    return 0;
}

/* Waits until the node has read the nodes, and n2 has left or not. */
static struct seen await_nodes(const struct world *w, struct gd__queue_summary *summary, bool has_left)
{
    struct seen s;
    do {
        sched_yield();
        s = (struct seen){ .n = 0 };
        CHECK(gd__dispatcher_queue_nodes(w->d, summary, see, &s) >= 0);
    } while (s.n == 0 || s.has_left != has_left);
    return s;
}

static void put_status(const char *id, const char *json)
{
    char subject[GD__QUEUE_SUBJECT_ROOM];
    snprintf(subject, sizeof subject, "gd.songs.s.node.%s", id);
    queue_model_put(model, subject, json, strlen(json));
}

#define N2(state, more)                                           \
    "{\"version\":1,\"host\":\"n2\",\"pid\":7,\"state\":\"" state \
    "\",\"workers\":8,\"busy\":7,\"done\":1,\"failed\":0,"        \
    "\"held\":9,\"tasks_per_day\":0" more "}"

/* What others have written is checked, and what cannot be used is skipped. */
TEST(a_node_knows_the_others)
{
    struct world w;
    struct gd__queue_summary summary;
    open_world(&w, 1);
    world_add_many(&w, 3, (struct world_order){ .what = W_ECHO, .gate = 2 });
    push_all(&w);
    put_status("0123456789abcdef0123456789abcdef", N2("running", ",\"note\":\"<b>\\u001b[1m\""));
    put_status("1123456789abcdef0123456789abcdef", N2("running", ",\"http\":\"javascript:alert(1)\""));
    put_status("2123456789abcdef0123456789abcdef", "{\"version\":1");
    put_status("not-an-id", N2("running", ""));
    /* This one publishes nothing more, but is still listed. */
    put_status("3123456789abcdef0123456789abcdef", "{\"version\":1,\"host\":\"n3\",\"pid\":8,\"state\":\"draining\","
                                                   "\"workers\":1,\"busy\":0,\"done\":0,\"failed\":0,"
                                                   "\"held\":0,\"tasks_per_day\":0}");
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    struct seen s = await_nodes(&w, &summary, false);
    CHECK_EQ(s.n, 3);
    CHECK_EQ(s.pid, (uint64_t)getpid());
    CHECK(strchr(s.note, '\x1b') == NULL);
    CHECK_CONTAINS(s.note, "<b>"); /* pages show it as text */
    CHECK(summary.connected);

    put_status("0123456789abcdef0123456789abcdef", N2("left", ""));
    s = await_nodes(&w, &summary, true); /* the next reading has it */
    CHECK_EQ(s.n, 3);
    CHECK_EQ(summary.tasks, 3);
    CHECK_EQ(summary.records, 0);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    close_world(&w);
}

TEST(a_queue_that_does_not_exist_is_an_error)
{
    struct world w;
    open_world(&w, 1);
    CHECK_EQ(world_run(&w), GD_E_SOURCE);
    CHECK_CONTAINS(w.text, "there is no queue \"songs\"");
    CHECK_EQ(world_count(w.page, WC_SETUPS), 0);
    close_world(&w);
}

TEST(a_server_that_does_not_answer_is_an_error)
{
    struct world w;
    open_world(&w, 1);
    queue_model_create(model);
    queue_model_cut(model, true);
    queue.connect_timeout_ms = 1;
    CHECK_EQ(world_run(&w), GD_E_SYSTEM);
    CHECK_CONTAINS(w.text, "does not answer");
    CHECK_EQ(world_count(w.page, WC_SETUPS), 0);
    close_world(&w);
}

/* A node that waits for its queue ends at once when it is shut down. */
TEST(a_node_that_waits_can_be_shut_down)
{
    struct world w;
    open_world(&w, 1);
    queue.idle_exit_ms = GD_QUEUE_IDLE_NEVER;
    world_launch(&w);
    world_await(w.page, WC_SETUPS, 1);
    gd_dispatcher_shutdown(w.d);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    close_world(&w);
}

/* A server that answers when the node has tried `late_pauses` times; 0: never. */
static unsigned late_pauses;

static int connect_late(struct gd__queue_link **out, const struct gd_queue_options *options,
                        const struct gd__queue_listener *listener, const struct gd__queue_patience *patience)
{
    CHECK_EQ(patience->is_endless, options->idle_exit_ms == GD_QUEUE_IDLE_NEVER);
    for (unsigned i = 0; i < late_pauses || late_pauses == 0; i++)
        if (!patience->pause(patience->user, late_pauses ? 1 : 3600000))
            return gd__error(GD_E_INTERRUPTED, "given up");
    return queue_model_connect(out, options, listener, patience);
}

static int run_late(int64_t idle_exit_ms)
{
    struct world w;
    open_world(&w, 1);
    gd__queue_run_connect = connect_late;
    late_pauses = 3;
    queue.idle_exit_ms = idle_exit_ms;
    world_add(&w, (struct world_order){ .what = W_ECHO });
    push_all(&w);
    world_launch(&w);
    queue_model_await(model, GD__QUEUE_RECORD, 1);
    if (idle_exit_ms == GD_QUEUE_IDLE_NEVER)
        gd_dispatcher_shutdown(w.d);
    const int rc = world_join(&w);
    close_world(&w);
    return rc;
}

TEST(a_node_waits_for_its_server)
{
    CHECK_EQ(run_late(0), 0);
}

TEST(a_node_that_stays_waits_for_its_server)
{
    CHECK_EQ(run_late(GD_QUEUE_IDLE_NEVER), GD_E_SHUTDOWN);
}

/* Its workers have begun, so the run can be shut down. */
TEST(a_node_that_waits_for_its_server_can_be_shut_down)
{
    struct world w;
    open_world(&w, 1);
    gd__queue_run_connect = connect_late;
    late_pauses = 0;
    queue.idle_exit_ms = GD_QUEUE_IDLE_NEVER;
    world_launch(&w);
    world_await(w.page, WC_SETUPS, 1);
    gd_dispatcher_shutdown(w.d);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    close_world(&w);
}

/* However long its server is down: here for longer than the time in which a server must answer at the beginning. */
TEST(a_node_that_waits_for_its_queue_survives_its_server)
{
    struct world w;
    open_world(&w, 1);
    queue.idle_exit_ms = GD_QUEUE_IDLE_NEVER;
    queue.connect_timeout_ms = 1;
    world_launch(&w);
    world_await(w.page, WC_SETUPS, 1);
    queue_model_cut(model, true);
    queue_model_await_lost(model, 3);
    queue_model_cut(model, false);
    world_add(&w, (struct world_order){ .what = W_ECHO });
    push_all(&w);
    queue_model_await(model, GD__QUEUE_RECORD, 1);
    gd_dispatcher_shutdown(w.d);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    close_world(&w);
}

/* Nobody has created the consumer of these tasks, or somebody has removed it. */
TEST(a_missing_consumer_is_created)
{
    struct world w;
    open_world(&w, 1);
    world_add(&w, (struct world_order){ .what = W_ECHO });
    push_all(&w);
    queue_model_remove_consumers(model);
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(queue_model_count(model, GD__QUEUE_RECORD), 1);
    close_world(&w);
}

TEST(a_node_can_wait_for_its_queue)
{
    struct world w;
    open_world(&w, 1);
    queue.idle_exit_ms = GD_QUEUE_IDLE_NEVER;
    world_add(&w, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    world_await(w.page, WC_SETUPS, 1); /* the run has begun */
    push_all(&w);
    queue_model_await(model, GD__QUEUE_RECORD, 1);
    gd_dispatcher_shutdown(w.d); /* it would stay */
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    close_world(&w);
}

TEST(nodes_with_another_command_are_refused)
{
    struct world w;
    size_t size = 0;
    open_world(&w, 1);
    queue.command = "./a {}";
    push_all(&w);
    CHECK_EQ(world_run(&w), 0);
    char *stored = queue_model_find(model, "gd.songs.s.command", &size);
    CHECK_STR(stored, "./a {}");
    free(stored);
    world_next(&w);
    CHECK_EQ(world_run(&w), 0); /* the same */
    world_next(&w);
    queue.command = "./b {}";
    CHECK_EQ(world_run(&w), GD_E_MISMATCH);
    CHECK_CONTAINS(w.text, "./a {}");
    world_next(&w);
    queue.force = true;
    CHECK_EQ(world_run(&w), 0);
    close_world(&w);
}

TEST(large_outputs_are_files)
{
    struct world w;
    char path[256];
    void *message;
    open_world(&w, 1);
    world_add(&w, (struct world_order){ .what = W_BYTES, .n = 200000 });
    push_all(&w);
    queue.spill_dir = directory;
    CHECK_EQ(world_run(&w), 0);
    const struct gd__queue_record r = record_of(&w, 0, &message);
    CHECK_EQ(r.state, GD__QUEUE_DONE);
    CHECK_EQ(r.output.form, GD__QUEUE_FILE);
    CHECK_EQ(r.output.file_size, 200000);
    snprintf(path, sizeof path, "%s/%.*s", directory, (int)r.output.file.size, r.output.file.at);
    struct stat st;
    CHECK_EQ(stat(path, &st), 0);
    CHECK_EQ(st.st_size, 200000);
    CHECK_EQ(unlink(path), 0);
    free(message);
    close_world(&w);
}

static void remove_file(struct gd__queue_text name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%.*s", directory, (int)name.size, name.at);
    CHECK_EQ(unlink(path), 0);
}

/* Each of these outputs is small enough for a message, but the record message of a bundle cannot hold all of them. */
TEST(outputs_of_a_bundle_that_do_not_fit_together_are_files)
{
    struct world w;
    struct gd__queue_reader reader;
    struct gd__queue_record r;
    char subject[GD__QUEUE_SUBJECT_ROOM];
    size_t size = 0;
    unsigned n = 0;
    open_world(&w, 1);
    world_add_many(&w, 20, (struct world_order){ .what = W_BYTES, .n = 60000 });
    const struct gd__queue_key key = queue_model_push_bundle(model, w.orders, sizeof *w.orders, 20);
    queue.spill_dir = directory;
    CHECK_EQ(world_run(&w), 0);
    const struct gd__queue_subject s = { .kind = GD__QUEUE_RECORD, .key = key };
    void *message = queue_model_find(model, gd__queue_subject_text(subject, "songs", &s), &size);
    CHECK(message != NULL);
    CHECK_EQ(gd__queue_records_open(&reader, message, size, &key), 0);
    for (; gd__queue_records_next(&reader, &r); n++) {
        CHECK_EQ(r.state, GD__QUEUE_DONE);
        CHECK_EQ(r.output.form, GD__QUEUE_FILE);
        remove_file(r.output.file);
    }
    CHECK_EQ(n, 20);
    free(message);
    close_world(&w);
}

/* Pushes a task whose payload is a file. Returns the path of the file, which is valid until the next call. */
static const char *push_file(const struct world_order *order)
{
    static char path[256];
    char name[GD__SPILL_NAME_ROOM];
    struct gd__queue_data data;
    const struct gd__queue_key key = gd__queue_task_key(order, sizeof *order, 0);
    CHECK_EQ(gd__spill_write(directory, order, sizeof *order, &data, name), 0);
    (void)queue_model_push_data(model, 0, &key, &data);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

TEST(inputs_can_be_files)
{
    struct world w;
    void *message;
    open_world(&w, 1);
    world_add(&w, (struct world_order){ .what = W_ECHO });
    const char *path = push_file(&w.orders[0]);
    queue.spill_dir = directory;
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(record_of(&w, 0, &message).state, GD__QUEUE_DONE);
    free(message);
    CHECK_EQ(unlink(path), 0);
    close_world(&w);
}

/* This node cannot read the inputs of any task. Another one can. */
TEST(a_node_without_the_directory_of_inputs_leaves)
{
    struct world w;
    open_world(&w, 1);
    world_add(&w, (struct world_order){ .what = W_ECHO });
    const char *path = push_file(&w.orders[0]);
    CHECK_EQ(world_run(&w), GD_E_SOURCE);
    CHECK_CONTAINS(w.text, "--spill-dir");
    CHECK_EQ(queue_model_count(model, GD__QUEUE_RECORD), 0);
    CHECK_EQ(queue_model_held(model), 0);
    CHECK_EQ(unlink(path), 0);
    close_world(&w);
}

/* The file is missing, but the directory is there: the task has failed, and the next one is run. */
TEST(a_missing_input_is_a_failure_of_its_task)
{
    struct world w;
    void *message;
    open_world(&w, 1);
    world_add(&w, (struct world_order){ .what = W_ECHO });
    const struct world_order missing = { .what = W_ECHO, .tag = 77 };
    CHECK_EQ(unlink(push_file(&missing)), 0);
    (void)queue_model_push(model, 0, &w.orders[0], sizeof w.orders[0]);
    queue.spill_dir = directory;
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.n_finals, 1);
    const struct gd__queue_key key = gd__queue_task_key(&missing, sizeof missing, 0);
    struct gd__queue_record r;
    CHECK(queue_model_record(model, &key, &r, &message));
    CHECK_EQ(r.state, GD__QUEUE_FAILED);
    check_text(r.failure, "input");
    free(message);
    close_world(&w);
}

TEST(without_a_directory_a_large_output_is_a_failure)
{
    struct world w;
    void *message;
    open_world(&w, 1);
    world_add(&w, (struct world_order){ .what = W_BYTES, .n = 700000 });
    push_all(&w);
    CHECK_EQ(world_run(&w), 0);
    const struct gd__queue_record r = record_of(&w, 0, &message);
    CHECK_EQ(r.state, GD__QUEUE_FAILED);
    check_text(r.failure, "output");
    CHECK(memmem(r.error.at, r.error.size, "--spill-dir", 11) != NULL);
    free(message);
    close_world(&w);
}

TEST(workers_do_not_get_the_credentials_of_the_node)
{
    struct world w;
    char path[64], environment[65536];
    setenv("NATS_PASSWORD", "secret-word", 1);
    setenv("NATS_URL", "nats://a", 1);
    open_world(&w, 1);
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 2 });
    push_all(&w);
    world_launch(&w);
    snprintf(path, sizeof path, "/proc/%d/environ", (int)world_pid(w.page, 0));
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = read(fd, environment, sizeof environment);
    CHECK_GT(n, 0);
    close(fd);
    CHECK(memmem(environment, (size_t)n, "NATS_PASSWORD", 13) == NULL);
    CHECK(memmem(environment, (size_t)n, "NATS_URL", 8) != NULL);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    close_world(&w);
}

static int no_task(void *user, struct gd_item *item)
{
    (void)user, (void)item;
    return 0;
}

static void check_refused(const struct gd_options *o, const char *words)
{
    struct gd_dispatcher *d = NULL;
    CHECK_EQ(gd_dispatcher_open(&d, o), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), words);
}

TEST(options_that_make_no_sense_with_a_queue_are_refused)
{
    struct world w;
    open_world(&w, 1);
    struct gd_options o = w.o;
    o.source = no_task;
    check_refused(&o, "both a source and a queue");
    o = w.o;
    o.shard = (struct gd_shard){ .index = 0, .count = 2 };
    check_refused(&o, "both a shard and a queue");
    o = w.o;
    o.keep_workers = true;
    check_refused(&o, "keep_workers");
    o = w.o;
    o.ordered = true;
    check_refused(&o, "ordered");
    o = w.o;
    o.queue_url = "nats://127.0.0.1/songs";
    check_refused(&o, "both queue and queue_url");
    o.queue = NULL;
    o.queue_url = "songs";
    check_refused(&o, "songs");
    close_world(&w);
}

WORLD_MAIN()
