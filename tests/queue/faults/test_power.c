/* SPDX-License-Identifier: MIT
 *
 * Power losses. A durable server keeps what it has acknowledged. Another server may lose all of it; then a push and a
 * run of the same list make it complete again.
 */
#include "queue/server.h"
#include "queue/work.h"
#include "support/test.h"

static void push_and_run(struct server *s, unsigned tasks)
{
    CHECK_EQ(push("--lease 2s").status, 0);
    struct node n = node_start("--gpus sim:2");
    CHECK_EQ(node_wait(&n), 0);
    check_queue(s->port, tasks);
}

/* Does the work, loses the power, and starts a server on what the disk has then. */
static void lose_power(struct server *after, bool durable)
{
    struct disk d, copy;
    struct server s;
    char store[SERVER_PATH + 16];
    disk_make(&d);
    snprintf(store, sizeof store, "%s/store", d.mounted);
    server_start(&s, &(struct server_options){ .durable = durable, .store = store });
    work_begin(s.hosts);
    list_add("quick", 0, 300);
    push_and_run(&s, 300);
    disk_lose_power(&d, &copy);
    server_kill(&s);
    snprintf(store, sizeof store, "%s/store", copy.mounted);
    server_start(after, &(struct server_options){ .durable = durable, .store = store });
    snprintf(work_url, sizeof work_url, "nats://%s/q", after->hosts);
}

TEST_WITHIN(120, durable_server_keeps_everything)
{
    struct server s;
    lose_power(&s, true);
    check_queue(s.port, 300);
    struct node n = node_start("--gpus sim:2");
    CHECK_EQ(node_wait(&n), 0);
    CHECK_EQ(log_lines("start"), 300);
}

TEST_WITHIN(120, other_server_is_filled_again)
{
    struct server s;
    lose_power(&s, false);
    push_and_run(&s, 300);
}

WORK_MAIN()
