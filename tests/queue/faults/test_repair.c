/* SPDX-License-Identifier: MIT
 *
 * A queue is done when each task has a record, not when it looks empty. Tasks that got stuck are sent again.
 */
#include "queue/client.h"
#include "queue/server.h"
#include "queue/work.h"
#include "support/test.h"

static void begin(struct server *s)
{
    server_start(s, &(struct server_options){ .durable = true });
    work_begin(s->hosts);
}

/* Takes a task and acknowledges it without a record, as nobody should. */
static void lose_task(struct server *s)
{
    struct client c;
    char reply[256];
    client_open(&c, s->port);
    CHECK(client_pull(&c, "gd_q_t", "priority_0"));
    snprintf(reply, sizeof reply, "%s", c.reply);
    client_ask(&c, reply, "+ACK");
    client_close(&c);
}

TEST_WITHIN(120, acknowledged_tasks_without_a_record_run)
{
    struct server s;
    begin(&s);
    list_add("quick", 0, 10);
    CHECK_EQ(push("--lease 2s").status, 0);
    for (unsigned i = 0; i < 3; i++)
        lose_task(&s);
    struct node n = node_start("--gpus sim:2");
    CHECK_EQ(node_wait(&n), 0);
    check_queue(s.port, 10);
}

/* All of them: the queue looks empty and is not done. Two nodes repair it at the same time. */
TEST_WITHIN(120, queue_that_looks_empty_is_repaired_by_two)
{
    struct server s;
    struct tally t;
    begin(&s);
    list_add("quick", 0, 10);
    CHECK_EQ(push("--lease 2s").status, 0);
    for (unsigned i = 0; i < 10; i++)
        lose_task(&s);
    struct node a = node_start("--gpus sim:2"), b = node_start("--gpus sim:2");
    CHECK_EQ(node_wait(&a), 0);
    CHECK_EQ(node_wait(&b), 0);
    check_queue(s.port, 10);
    tally_queue(s.port, &t);
    CHECK_EQ(t.records, 10);
}

WORK_MAIN()
