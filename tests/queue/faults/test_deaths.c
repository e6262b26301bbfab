/* SPDX-License-Identifier: MIT
 *
 * What dies and comes back: nodes, the server, a holder that is late. Each task gets one right record.
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

TEST_WITHIN(120, killed_nodes_lose_nothing)
{
    struct server s;
    begin(&s);
    list_add("quick", 0, 300);
    CHECK_EQ(push("--lease 2s").status, 0);
    for (unsigned i = 1; i <= 3; i++) {
        struct node n = node_start("--gpus sim:2");
        await_log_lines("start", 40 * i);
        node_kill(&n);
    }
    struct node last = node_start("--gpus sim:2");
    CHECK_EQ(node_wait(&last), 0);
    check_queue(s.port, 300);
}

TEST_WITHIN(120, server_killed_while_nodes_work)
{
    struct server s;
    begin(&s);
    list_add("quick", 0, 1500);
    CHECK_EQ(push("--lease 2s").status, 0);
    struct node a = node_start("--gpus sim:2"), b = node_start("--gpus sim:2");
    for (unsigned i = 1; i <= 3; i++) {
        await_log_lines("end", 300 * i);
        server_kill(&s);
        server_again(&s);
    }
    CHECK_EQ(node_wait(&a), 0);
    CHECK_EQ(node_wait(&b), 0);
    check_queue(s.port, 1500);
}

TEST_WITHIN(120, server_killed_during_a_push)
{
    struct server s;
    struct client watcher;
    begin(&s);
    list_add("quick", 0, 20000);
    client_open(&watcher, s.port);
    client_subscribe(&watcher, "gd.q.t.>");
    struct node p = command_start("push --queue \"$URL\" :::: list");
    for (unsigned i = 0; i < 3000; i++)
        client_next(&watcher);
    server_kill(&s);
    client_close(&watcher);
    server_again(&s);
    CHECK_EQ(node_wait(&p), 0);
    struct tally t;
    tally_queue(s.port, &t);
    CHECK_EQ(t.tasks, 20000);
    CHECK_EQ(t.messages, 20000);
}

/* The first holder is stopped until another node has recorded the task. Then its own record is refused. */
TEST_WITHIN(120, stale_holder_finishes_late)
{
    struct server s;
    begin(&s);
    list_add("gate", 0, 1);
    CHECK_EQ(push("--lease 2s").status, 0);
    struct node stale = node_start("--gpus sim:1");
    await_log("start gate0");
    node_signal(&stale, SIGSTOP);
    struct node other = node_start("--gpus sim:1");
    await_log_lines("start gate0 ", 2); /* the lease has run out */
    open_gate();
    CHECK_EQ(node_wait(&other), 0);
    check_queue(s.port, 1);
    struct tally before, after;
    tally_queue(s.port, &before);
    node_signal(&stale, SIGCONT);
    CHECK_EQ(node_wait(&stale), 0);
    tally_queue(s.port, &after);
    CHECK_EQ(before.records, after.records);
    check_queue(s.port, 1);
}

/* It is extended while it runs, so nobody else gets it. */
TEST_WITHIN(120, task_longer_than_the_lease_runs_once)
{
    struct server s;
    begin(&s);
    list_add("long", 0, 2);
    CHECK_EQ(push("--lease 1s").status, 0);
    struct node a = node_start("--gpus sim:2"), b = node_start("--gpus sim:2");
    CHECK_EQ(node_wait(&a), 0);
    CHECK_EQ(node_wait(&b), 0);
    CHECK_EQ(log_lines("start long"), 2);
    check_queue(s.port, 2);
}

/* Starts nodes until one of them ends by itself, and returns how many were killed. */
static unsigned nodes_until_done(const char *options, unsigned most)
{
    for (unsigned deaths = 0; deaths <= most; deaths++) {
        struct node n = node_start(options);
        const int status = node_wait(&n);
        if (status == 128 + SIGKILL)
            continue;
        CHECK_LE(status, 1); /* the task that killed the others did not run on this one */
        return deaths;
    }
    FAIL("%u nodes were killed", most + 1);
}

TEST_WITHIN(180, poison_is_found_across_nodes)
{
    struct server s;
    struct tally t;
    begin(&s);
    list_add("poison", 0, 1);
    list_add("quick", 0, 30);
    CHECK_EQ(push("--lease 1s").status, 0);
    const unsigned deaths = nodes_until_done("--gpus sim:2 --crash-limit 2", 3);
    CHECK_GE(deaths, 2);
    check_queue(s.port, 31);
    tally_queue(s.port, &t);
    CHECK_EQ(t.failed, 1);
    CHECK_EQ(t.done, 30);
}

/* Removes what the server knows about deliveries, while it is down: it is as if that had not been written to the disk. */
static void forget_deliveries(struct server *s)
{
    char command[2 * SERVER_PATH];
    struct client c;
    server_kill(s);
    snprintf(command, sizeof command, "find '%s' -path '*/gd_q_t/obs/priority_0/o.dat' -delete -print | grep -q .",
             s->store);
    if (system(command) != 0)
        FAIL("the server has not stored the deliveries under %s", s->store);
    server_again(s);
    client_open(&c, s->port);
    const char *info = client_ask(&c, "$JS.API.CONSUMER.INFO.gd_q_t.priority_0", "");
    CHECK_EQ(client_number(info, "consumer_seq"), 0); /* nothing was ever delivered */
    CHECK_EQ(client_number(info, "num_ack_pending"), 0);
    CHECK_EQ(client_number(info, "num_redelivered"), 0);
    client_close(&c);
}

/* A server that died may have forgotten how many times it delivered a task. Here it forgets that once, so one more node
 * dies. */
TEST_WITHIN(180, poison_is_found_although_the_server_forgets_deliveries)
{
    struct server s;
    begin(&s);
    list_add("poison", 0, 1);
    list_add("quick", 0, 5);
    CHECK_EQ(push("--lease 1s").status, 0);
    struct node first = node_start("--gpus sim:1 --crash-limit 2");
    CHECK_EQ(node_wait(&first), 128 + SIGKILL);
    forget_deliveries(&s);
    nodes_until_done("--gpus sim:1 --crash-limit 2", 3);
    check_queue(s.port, 6);
}

/* The death of a node is charged only to tasks that may have caused it: gate0 was given back twice. */
TEST_WITHIN(120, drains_are_never_charged)
{
    struct server s;
    begin(&s);
    list_add("gate", 0, 1);
    CHECK_EQ(push("--lease 1h").status, 0);
    for (unsigned i = 1; i <= 3; i++) {
        struct node n = node_start("--gpus sim:1 --crash-limit 1 --stop-grace 1s");
        await_log_lines("start gate0 ", i);
        node_signal(&n, SIGTERM);
        CHECK_EQ(node_wait(&n), 143);
    }
    open_gate();
    struct node last = node_start("--gpus sim:1 --crash-limit 1");
    CHECK_EQ(node_wait(&last), 0);
    check_queue(s.port, 1);
}

/* Waits until somebody has given a message back. */
static void await_nak(struct client *acknowledgements)
{
    do
        client_next(acknowledgements);
    while (strncmp(acknowledgements->data, "-NAK", 4) != 0);
}

/* Both nodes are busy and have a task that waits, so neither of them asks for more, and quick0 stays where it is. With a
 * lease of an hour, it reaches the second node only if the first one gives it back. That happens at once: the first node
 * is still working when the second one has run everything else. */
TEST_WITHIN(120, sigterm_hands_over_what_has_not_begun)
{
    struct server s;
    struct client acknowledgements;
    struct timespec from, to;
    begin(&s);
    list_add("gate", 0, 1);
    list_add("quick", 0, 1);
    CHECK_EQ(push("--lease 1h").status, 0);
    struct node a = node_start("--gpus sim:1 --stop-grace 1h");
    await_log("start gate0");
    await_held(s.port, 2);
    list_add("door", 0, 1);
    list_add("quick", 1, 19);
    CHECK_EQ(push("").status, 0);
    struct node b = node_start("--gpus sim:1");
    await_log("start door0");
    await_held(s.port, 4);
    client_open(&acknowledgements, s.port);
    client_subscribe(&acknowledgements, "$JS.ACK.gd_q_t.>");
    clock_gettime(CLOCK_MONOTONIC, &from);
    node_signal(&a, SIGTERM);
    await_nak(&acknowledgements);
    clock_gettime(CLOCK_MONOTONIC, &to);
    printf("# given back after %.3f s\n",
           (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9);
    open_door();
    await_log_lines("end quick", 20);
    open_gate(); /* what has begun may finish */
    CHECK_EQ(node_wait(&a), 143);
    CHECK_EQ(node_wait(&b), 0);
    CHECK_EQ(log_lines("start gate0"), 1);
    CHECK_EQ(log_lines("start quick0 "), 1);
    check_queue(s.port, 21 + 1);
    client_close(&acknowledgements);
}

WORK_MAIN()
