/* SPDX-License-Identifier: MIT
 *
 * Messages that no gpu-dispatch has written, in the streams of a queue. They are reported and skipped, and the others are
 * run.
 */
#include "queue/client.h"
#include "queue/server.h"
#include "queue/work.h"
#include "support/test.h"

#define KEY "00112233445566778899aabbccddeeff"

static struct server s;
static struct client c;

static void begin(void)
{
    server_start(&s, NULL);
    work_begin(s.hosts);
    list_add("quick", 0, 20);
    CHECK_EQ(push("--lease 2s").status, 0);
    client_open(&c, s.port);
}

/* Publishes, and fails if the stream does not take it. */
static void plant(const char *subject, const char *data)
{
    const char *answer = client_ask(&c, subject, data);
    if (client_number(answer, "seq") < 0)
        FAIL("%s was not accepted: %s", subject, answer);
}

/* The others run, and the node ends without being told to: with an error if a task message cannot be read. */
static void check_the_rest_runs(const char *unreadable)
{
    struct node n = node_start("--gpus sim:2");
    const int status = node_wait(&n);
    CHECK_EQ(log_lines("end quick"), 20);
    CHECK(unreadable ? status != 0 : status == 0);
    if (unreadable) {
        CHECK_CONTAINS(node_errors(&n), "1 message of the queue cannot be read");
        CHECK_CONTAINS(node_errors(&n), unreadable);
        CHECK_CONTAINS(node_errors(&n), "nats stream rmm gd_q_t 21");
        const struct result r = command("status --queue \"$URL\"");
        CHECK_EQ(r.status, 0);
        CHECK_CONTAINS(r.err, "message 21 of the stream gd_q_t");
    }
    client_close(&c);
}

TEST(task_that_is_no_message)
{
    begin();
    plant("gd.q.t.0." KEY, "this is not a task");
    check_the_rest_runs("gd.q.t.0." KEY);
}

TEST(task_with_a_subject_that_is_no_key)
{
    begin();
    plant("gd.q.t.0.no-key-at-all", "GDQt");
    check_the_rest_runs("gd.q.t.0.no-key-at-all");
}

/* Each node learns of it, one after the other, and a node that begins later too. */
TEST_WITHIN(120, task_that_no_node_can_read)
{
    begin();
    plant("gd.q.t.0." KEY, "this is not a task");
    struct node n[3] = { node_start("--gpus sim:1"), node_start("--gpus sim:1") };
    for (int i = 0; i < 3; i++) {
        if (i == 2)
            n[i] = node_start("--gpus sim:1");
        CHECK(node_wait(&n[i]) != 0);
        CHECK_CONTAINS(node_errors(&n[i]), "1 message of the queue cannot be read");
    }
    CHECK_EQ(log_lines("end quick"), 20);
    client_close(&c);
}

TEST(record_that_is_no_message)
{
    begin();
    plant("gd.q.r." KEY, "this is not a record");
    check_the_rest_runs(NULL);
    const struct result r = command("export --queue \"$URL\"");
    CHECK(r.status == 0 || r.status == 255);
    CHECK_CONTAINS(r.out, "output of quick19");
}

TEST_WITHIN(120, states_that_are_no_states)
{
    begin();
    plant("gd.q.s.node.00112233445566778899aabbccddeeff", "{{{{");
    plant("gd.q.s.node.x", "[]");
    plant("gd.q.s.marker." KEY, "not a marker");
    const struct result r = command("status --queue \"$URL\"");
    CHECK_EQ(r.status, 0);
    check_the_rest_runs(NULL);
    check_queue(s.port, 20);
}

WORK_MAIN()
