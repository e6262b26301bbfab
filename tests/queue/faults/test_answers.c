/* SPDX-License-Identifier: MIT
 *
 * What gets lost on the way: answers, a direction of a connection, the server for a long time.
 */
#include "queue/client.h"
#include "queue/proxy.h"
#include "queue/server.h"
#include "queue/work.h"
#include "support/test.h"

enum { DOWN_MS = 180000 };

static struct server s;
static struct proxy p;
static char through_proxy[512];

static void begin(void)
{
    server_start(&s, &(struct server_options){ .durable = true });
    proxy_start(&p, s.port);
    work_begin(s.hosts);
    snprintf(through_proxy, sizeof through_proxy, "nats://%s/q", p.hosts);
}

/* The node publishes the record again. It is refused, and the node finds that the record is its own. */
TEST_WITHIN(120, lost_answer_to_a_record)
{
    struct client watcher;
    begin();
    list_add("quick", 0, 20);
    CHECK_EQ(push("--lease 2s").status, 0); /* tasks that were on their way to the node get lost too */
    client_open(&watcher, s.port);
    client_subscribe(&watcher, "gd.q.r.>");
    proxy_trap(&p, PROXY_UP, "PUB gd.q.r.", PROXY_DOWN, PROXY_DROP);
    struct node n = node_start_at("", through_proxy, "--gpus sim:1");
    proxy_await_trap(&p);
    client_next(&watcher);
    client_close(&watcher);
    proxy_cut(&p);
    proxy_set(&p, PROXY_DOWN, PROXY_PASS);
    CHECK_EQ(node_wait(&n), 0);
    check_queue(s.port, 20);
    CHECK_EQ(log_lines("start quick"), 20);
}

/* Cuts one direction while a node has a task. Another node records it, then the first one comes back. */
static void partition(enum proxy_direction direction)
{
    begin();
    list_add("gate", 0, 1);
    CHECK_EQ(push("--lease 2s").status, 0);
    struct node cut_off = node_start_at("", through_proxy, "--gpus sim:1");
    await_log("start gate0");
    proxy_set(&p, direction, PROXY_HOLD);
    struct node other = node_start("--gpus sim:1");
    if (direction == PROXY_UP)
        await_log_lines("start gate0 ", 2); /* the server does not hear from the first one */
    open_gate();
    if (direction == PROXY_UP)
        CHECK_EQ(node_wait(&other), 0);
    proxy_set(&p, direction, PROXY_PASS);
    CHECK_EQ(node_wait(&cut_off), 0);
    if (direction == PROXY_DOWN)
        CHECK_EQ(node_wait(&other), 0);
    check_queue(s.port, 1);
}

TEST_WITHIN(120, node_is_not_heard_by_the_server)
{
    partition(PROXY_UP);
}

TEST_WITHIN(120, node_does_not_hear_the_server)
{
    partition(PROXY_DOWN);
}

/* Works on what it holds, keeps the records, and publishes them when the server is back. */
TEST_WITHIN(120, server_is_down_while_tasks_end)
{
    begin();
    list_add("gate", 0, 2);
    CHECK_EQ(push("--lease 1h").status, 0);
    struct node n = node_start("--gpus sim:2");
    await_log_lines("start gate", 2);
    server_kill(&s);
    open_gate();
    await_log_lines("end gate", 2);
    server_again(&s);
    CHECK_EQ(node_wait(&n), 0);
    CHECK_EQ(log_lines("start gate"), 2);
    check_queue(s.port, 2);
}

/* Waits until a node has told the server about itself. */
static void await_status(struct client *states, const struct node *n)
{
    char expected[32];
    snprintf(expected, sizeof expected, "\"pid\":%d,", (int)n->pid);
    do {
        if (!client_next_unless(states, n->ended))
            FAIL("the node has left: %.500s", node_errors(n));
    } while (!strstr(states->data, expected));
}

/* The same for minutes. A node without work waits too. */
TEST_WITHIN(900, server_is_down_for_minutes)
{
    struct client states;
    if (!test_soak())
        SKIP("takes three minutes: only in soaks");
    begin();
    list_add("gate", 0, 2);
    CHECK_EQ(push("--lease 1h").status, 0);
    struct node working = node_start("--gpus sim:2");
    await_log_lines("start gate", 2);
    client_open(&states, s.port);
    client_subscribe(&states, "gd.q.s.node.>");
    struct node idle = node_start("--gpus sim:2");
    await_status(&states, &idle);
    server_kill(&s);
    client_close(&states);
    open_gate();
    await_log_lines("end gate", 2);
    poll(NULL, 0, DOWN_MS);
    server_again(&s);
    CHECK_EQ(node_wait(&working), 0);
    CHECK_EQ(node_wait(&idle), 0);
    CHECK_EQ(log_lines("start gate"), 2);
    check_queue(s.port, 2);
}

/* Gives up clearly. The next node with the same spool publishes what it has kept. */
TEST_WITHIN(120, server_never_returns)
{
    begin();
    list_add("gate", 0, 2);
    CHECK_EQ(push("--lease 1s").status, 0);
    struct node n = node_start("--gpus sim:2 --lost-timeout 2s --spool kept");
    await_log_lines("start gate", 2);
    server_kill(&s);
    open_gate();
    const int status = node_wait(&n);
    CHECK_EQ(status, 255);
    CHECK_CONTAINS(node_errors(&n), "server");
    CHECK_EQ(log_lines("end gate"), 2);
    server_again(&s);
    n = node_start("--gpus sim:2 --spool kept");
    CHECK_EQ(node_wait(&n), 0);
    CHECK_EQ(log_lines("start gate"), 2);
    check_queue(s.port, 2);
}

/* A stopped server is like one that is overloaded: connections stay, and nothing is answered. */
TEST_WITHIN(120, server_stops_and_continues)
{
    begin();
    list_add("quick", 0, 100);
    list_add("long", 0, 1);
    list_add("quick", 100, 300);
    CHECK_EQ(push("--lease 2s").status, 0);
    struct node n = node_start("--gpus sim:2");
    await_log("start long0");
    server_stop(&s);
    await_log("end long0"); /* it takes longer than the lease */
    server_continue(&s);
    CHECK_EQ(node_wait(&n), 0);
    check_queue(s.port, 401);
}

WORK_MAIN()
