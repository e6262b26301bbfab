/* SPDX-License-Identifier: MIT
 *
 * Power losses. A durable server keeps what it has acknowledged. Another server may lose all that it has not synced; then
 * a push and a run of the same list make the queue complete again.
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

static void start_on(struct server *s, const struct disk *d, bool durable)
{
    char store[SERVER_PATH + 16];
    snprintf(store, sizeof store, "%s/store", d->mounted);
    server_start(s, &(struct server_options){ .durable = durable, .store = store });
    snprintf(work_url, sizeof work_url, "nats://%s/q", s->hosts);
}

TEST_WITHIN(120, durable_server_keeps_everything)
{
    struct disk d, after;
    struct server s;
    disk_make(&d);
    start_on(&s, &d, true);
    work_begin(s.hosts);
    list_add("quick", 0, 300);
    push_and_run(&s, 300);
    disk_lose_power(&d, &after);
    server_kill(&s);
    start_on(&s, &after, true);
    check_queue(s.port, 300);
    struct node n = node_start("--gpus sim:2");
    CHECK_EQ(node_wait(&n), 0);
    CHECK_EQ(log_lines("start"), 300);
}

/* The kernel may write at any time what was not synced, but does not have to. So the image of the disk is taken after a
 * sync, and the power fails later: what the server has confirmed since then is certainly lost. */
TEST_WITHIN(120, other_server_is_filled_again)
{
    struct disk d, after;
    struct server s;
    struct tally t;
    disk_make(&d);
    start_on(&s, &d, false);
    work_begin(s.hosts);
    list_add("quick", 0, 100);
    push_and_run(&s, 100);
    disk_sync(&d);
    disk_lose_power(&d, &after);
    list_add("quick", 100, 200);
    push_and_run(&s, 300);
    server_kill(&s);
    start_on(&s, &after, false);
    check_queue(s.port, 100); /* the others are lost, and their records too */
    tally_queue(s.port, &t);
    CHECK_EQ(t.records, 100);
    push_and_run(&s, 300);
    CHECK_EQ(log_lines("start"), 300 + 200);
}

WORK_MAIN()
