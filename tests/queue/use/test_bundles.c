/* SPDX-License-Identifier: MIT
 *
 * Bundles: several tasks in one message. A node that drains gives back a part of a bundle in three steps (its record, the
 * rest, the acknowledgement), and may be killed before each of them.
 */
#include "queue/client.h"
#include "queue/proxy.h"
#include "queue/server.h"
#include "queue/work.h"
#include "support/test.h"

static struct server s;

static void begin(void)
{
    server_start(&s, &(struct server_options){ .durable = true });
    work_begin(s.hosts);
}

TEST_WITHIN(120, many_tasks_in_few_messages)
{
    struct tally t;
    begin();
    list_add("quick", 0, 1000);
    CHECK_EQ(push("--bundle 100").status, 0);
    tally_queue(s.port, &t);
    CHECK_EQ(t.tasks, 1000);
    CHECK_EQ(t.messages, 10);
    struct node a = node_start("--gpus sim:2"), b = node_start("--gpus sim:2");
    CHECK_EQ(node_wait(&a), 0);
    CHECK_EQ(node_wait(&b), 0);
    check_queue(s.port, 1000);
}

TEST_WITHIN(120, pushed_again_with_another_size)
{
    struct tally t;
    begin();
    list_add("quick", 0, 100);
    CHECK_EQ(push("--bundle 10").status, 0);
    list_add("quick", 100, 1);
    CHECK_EQ(push("--bundle 7").status, 0);
    tally_queue(s.port, &t);
    CHECK_EQ(t.tasks, 101);
    CHECK_EQ(t.messages, 11);
}

TEST_WITHIN(120, killed_node_loses_a_bundle_and_another_runs_it)
{
    begin();
    list_add("quick", 0, 50);
    list_add("gate", 0, 1);
    CHECK_EQ(push("--bundle 51 --lease 2s").status, 0);
    struct node a = node_start("--gpus sim:1");
    await_log("start gate0");
    node_kill(&a);
    open_gate();
    struct node b = node_start("--gpus sim:1");
    CHECK_EQ(node_wait(&b), 0);
    check_queue(s.port, 51);
}

TEST_WITHIN(120, drained_bundle_is_split)
{
    begin();
    list_add("quick", 0, 10);
    list_add("gate", 0, 1);
    list_add("quick", 10, 10);
    CHECK_EQ(push("--bundle 21 --lease 1h").status, 0);
    struct node a = node_start("--gpus sim:1 --stop-grace 1s");
    await_log("start gate0");
    node_signal(&a, SIGTERM);
    CHECK_EQ(node_wait(&a), 143);
    open_gate();
    struct node b = node_start("--gpus sim:1");
    CHECK_EQ(node_wait(&b), 0);
    check_queue(s.port, 21);
    CHECK_EQ(log_lines("end quick0 "), 1); /* what was recorded before the split did not run again */
}

/* The node is killed when it has sent this text, and the server has not got it. */
static void killed_at(const char *text)
{
    struct proxy p;
    char url[512];
    begin();
    proxy_start(&p, s.port);
    snprintf(url, sizeof url, "nats://%s/q", p.hosts);
    list_add("quick", 0, 10);
    list_add("gate", 0, 1);
    list_add("quick", 10, 10);
    CHECK_EQ(push("--bundle 21 --lease 2s").status, 0);
    struct node a = node_start_at("", url, "--gpus sim:1 --stop-grace 1s");
    await_log("start gate0");
    proxy_trap(&p, PROXY_UP, text, PROXY_UP, PROXY_HOLD);
    node_signal(&a, SIGTERM);
    proxy_await_trap(&p);
    node_kill(&a);
    proxy_cut(&p);
    open_gate();
    struct node b = node_start("--gpus sim:1");
    CHECK_EQ(node_wait(&b), 0);
    check_queue(s.port, 21);
}

TEST_WITHIN(120, killed_before_the_record_of_a_split)
{
    killed_at("PUB gd.q.r.bundle-");
}

TEST_WITHIN(120, killed_before_the_rest_of_a_split)
{
    killed_at("PUB gd.q.t.");
}

TEST_WITHIN(120, killed_before_the_acknowledgement_of_a_split)
{
    killed_at("+ACK");
}

WORK_MAIN()
