/* SPDX-License-Identifier: MIT
 *
 * Three servers, each with a copy of the queue.
 */
#include "queue/server.h"
#include "queue/work.h"
#include "support/test.h"

static struct server s[CLUSTER_SERVERS];

static void begin(unsigned tasks)
{
    cluster_start(s, NULL);
    work_begin(cluster_hosts(s));
    list_add("quick", 0, tasks);
    const struct result r = push("--lease 2s --replicas 3");
    if (r.status != 0)
        FAIL("push ended with %d: %.500s", r.status, r.err);
}

/* Each of them leads something at some time. */
TEST_WITHIN(180, each_server_is_killed_while_nodes_work)
{
    begin(1500);
    struct node a = node_start("--gpus sim:2"), b = node_start("--gpus sim:2");
    for (unsigned i = 0; i < CLUSTER_SERVERS; i++) {
        await_log_lines("end", 200 * (i + 1));
        server_kill(&s[i]);
        await_log_lines("end", 200 * (i + 1) + 50); /* two are enough */
        server_again(&s[i]);
    }
    CHECK_EQ(node_wait(&a), 0);
    CHECK_EQ(node_wait(&b), 0);
    check_queue(s[0].port, 1500);
}

/* Without two of three nothing is confirmed. Nodes wait, and nothing is lost. */
TEST_WITHIN(180, quorum_is_lost_and_comes_back)
{
    begin(600);
    struct node a = node_start("--gpus sim:2");
    await_log_lines("end", 100);
    server_kill(&s[0]);
    server_kill(&s[1]);
    server_launch(&s[0]);
    server_launch(&s[1]);
    CHECK_EQ(node_wait(&a), 0);
    check_queue(s[2].port, 600);
}

WORK_MAIN()
