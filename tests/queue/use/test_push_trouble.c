/* SPDX-License-Identifier: MIT
 *
 * Pushes that are killed at any point and repeated, that go on while the server dies, and that meet other pushes.
 *
 * A push reads its list from a pipe. So the test decides how far it gets: the server has as many messages as the test
 * has waited for.
 */
#include "queue/client.h"
#include "queue/server.h"
#include "queue/work.h"
#include "support/test.h"

static struct server s;

static void begin(void)
{
    server_start(&s, &(struct server_options){ .durable = true });
    work_begin(s.hosts);
}

/* A push whose inputs the test writes. */
struct slow_push {
    struct node node;
    FILE *inputs;
    unsigned written;
};

static struct slow_push slow_begin(const char *options)
{
    struct slow_push p = { .written = 0 };
    signal(SIGPIPE, SIG_IGN); /* if the push ends early, its error is reported */
    CHECK(mkfifo("slow", 0644) == 0 || errno == EEXIST);
    p.node = command_start("push --queue \"$URL\" %s :::: slow", options);
    p.inputs = fopen("slow", "we");
    CHECK(p.inputs != NULL);
    return p;
}

static void slow_write(struct slow_push *p, unsigned n)
{
    for (const unsigned end = p->written + n; p->written < end; p->written++)
        fprintf(p->inputs, "quick%u\n", p->written);
    if (fflush(p->inputs) != 0)
        FAIL("the push has ended: %s", node_errors(&p->node));
}

static void check_tally(unsigned tasks, unsigned messages)
{
    struct tally t;
    tally_queue(s.port, &t);
    CHECK_EQ(t.tasks, tasks);
    CHECK_EQ(t.messages, messages);
}

/* The numbers in the last line of a push: "12 tasks added, 3 known already, 4 messages". */
static void check_printed(const char *output, unsigned added, unsigned known)
{
    unsigned first = 0, second = 0;
    if (sscanf(output, "%u %*s added, %u known already", &first, &second) != 2)
        FAIL("the push has printed \"%s\"", output);
    CHECK_EQ(first, added);
    CHECK_EQ(second, known);
}

static unsigned added(const char *output)
{
    unsigned n;
    if (sscanf(output, "%u task", &n) != 1)
        FAIL("the push has printed \"%s\"", output);
    return n;
}

/* --- killed --- */

/* kill -9 after some publications. The repeated push adds exactly what is missing. */
static void killed_after_each(unsigned bundle, unsigned again)
{
    static const unsigned counts[] = { 0, 1, 3, 6 }; /* each push that is repeated waits for the lock of the dead one */
    char options[64];
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const unsigned n = counts[i];
        struct client watcher;
        begin();
        client_open(&watcher, s.port);
        client_subscribe(&watcher, "gd.q.t.>");
        (void)snprintf(options, sizeof options, "--bundle %u", bundle);
        struct slow_push p = slow_begin(options);
        slow_write(&p, n * bundle);
        for (unsigned k = 0; k < n; k++)
            client_next(&watcher);
        node_kill(&p.node);
        (void)fclose(p.inputs);
        list_add("quick", 0, 7 * bundle);
        (void)snprintf(options, sizeof options, "--bundle %u", again);
        const struct result r = push(options);
        CHECK_EQ(r.status, 0);
        check_printed(r.out, (7 - n) * bundle, n * bundle);
        check_tally(7 * bundle, n + (7 - n) * bundle / again);
        server_kill(&s);
    }
}

TEST_WITHIN(180, killed_after_each_publication)
{
    killed_after_each(1, 1);
}

TEST_WITHIN(180, killed_after_each_bundle)
{
    killed_after_each(4, 2);
}

/* Killed again and again by a clock of its own, wherever it is. */
TEST_WITHIN(180, killed_anywhere)
{
    begin();
    list_add("quick", 0, 3000);
    for (unsigned i = 0; i < 12; i++) {
        struct node p = command_start("push --queue \"$URL\" --bundle %u :::: list", 1 + i % 3);
        usleep(i * 4000); /* only spreads the deaths: the case passes with any time */
        node_kill(&p);
    }
    const struct result r = push("--bundle 5");
    CHECK_EQ(r.status, 0);
    check_printed(r.out, added(r.out), 3000 - added(r.out));
    struct tally t;
    tally_queue(s.port, &t);
    CHECK_EQ(t.tasks, 3000);
    struct node n = node_start("--gpus sim:2");
    CHECK_EQ(node_wait(&n), 0);
    check_queue(s.port, 3000);
}

/* --- the server dies --- */

TEST_WITHIN(180, server_is_killed_during_a_push)
{
    begin();
    struct slow_push p = slow_begin("--bundle 3");
    for (unsigned i = 0; i < 4; i++) {
        struct client watcher;
        client_open(&watcher, s.port);
        client_subscribe(&watcher, "gd.q.t.>");
        slow_write(&p, 2400); /* what is written fits into the pipe, even if the push waits for the server */
        client_next(&watcher);
        server_kill(&s);
        slow_write(&p, 600);
        server_again(&s);
    }
    (void)fclose(p.inputs);
    if (node_wait(&p.node) != 0)
        FAIL("%s", node_errors(&p.node));
    check_printed(node_output(&p.node), 12000, 0);
    check_tally(12000, 4000);
}

TEST_WITHIN(180, server_that_does_not_come_back)
{
    struct client watcher;
    begin();
    client_open(&watcher, s.port);
    client_subscribe(&watcher, "gd.q.t.>");
    setenv("GPU_DISPATCH_PUSH_PATIENCE", "2000", 1); /* instead of 60 s */
    struct slow_push p = slow_begin("");
    unsetenv("GPU_DISPATCH_PUSH_PATIENCE");
    slow_write(&p, 1);
    client_next(&watcher);
    server_kill(&s);
    slow_write(&p, 2);
    (void)fclose(p.inputs);
    CHECK_EQ(node_wait(&p.node), 255);
    CHECK_CONTAINS(node_errors(&p.node), "could not be reached for 2 s");
    server_again(&s);
    list_add("quick", 0, 3);
    CHECK_EQ(push("").status, 0);
    check_tally(3, 3);
}

/* --- signals and other pushes --- */

TEST_WITHIN(120, sigterm_ends_a_push_cleanly)
{
    static const int signals[] = { SIGINT, SIGTERM };
    for (size_t i = 0; i < 2; i++) {
        struct client watcher;
        begin();
        client_open(&watcher, s.port);
        client_subscribe(&watcher, "gd.q.t.>");
        struct slow_push p = slow_begin("");
        slow_write(&p, 5);
        for (unsigned k = 0; k < 5; k++)
            client_next(&watcher);
        node_signal(&p.node, signals[i]);
        CHECK_EQ(node_wait(&p.node), 128 + signals[i]);
        check_printed(node_output(&p.node), 5, 0);
        CHECK_CONTAINS(node_errors(&p.node), "interrupted");
        (void)fclose(p.inputs);
        list_add("quick", 0, 6);
        const struct result r = push("--wait 0s"); /* the lock is free */
        CHECK_EQ(r.status, 0);
        check_printed(r.out, 1, 5);
        server_kill(&s);
    }
}

TEST_WITHIN(120, second_push_is_told_who_is_first)
{
    struct client watcher;
    char who[64];
    begin();
    client_open(&watcher, s.port);
    client_subscribe(&watcher, "gd.q.t.>");
    struct slow_push p = slow_begin("");
    slow_write(&p, 1);
    client_next(&watcher);
    list_add("quick", 0, 2);
    const struct result r = push("--wait 0s");
    CHECK_EQ(r.status, 255);
    (void)snprintf(who, sizeof who, "(process %d", (int)p.node.pid);
    CHECK_CONTAINS(r.err, "another push to this queue is going on");
    CHECK_CONTAINS(r.err, who);
    struct node second = command_start("push --queue \"$URL\" :::: list");
    node_await_error(&second, "waiting for another push");
    (void)fclose(p.inputs);
    CHECK_EQ(node_wait(&p.node), 0);
    CHECK_EQ(node_wait(&second), 0);
    check_printed(node_output(&second), 1, 1);
    check_tally(2, 2);
}

/* Each task is in one bundle, whoever was first. */
TEST_WITHIN(120, two_pushes_with_bundles_at_once)
{
    begin();
    list_add("quick", 0, 3000);
    CHECK_EQ(rename("list", "first"), 0);
    list_add("quick", 1500, 3000);
    struct node a = command_start("push --queue \"$URL\" --bundle 7 :::: first");
    struct node b = command_start("push --queue \"$URL\" --bundle 11 :::: list");
    CHECK_EQ(node_wait(&a), 0);
    CHECK_EQ(node_wait(&b), 0);
    const unsigned first = added(node_output(&a));
    CHECK_EQ(first + added(node_output(&b)), 4500);
    struct tally t;
    tally_queue(s.port, &t);
    CHECK_EQ(t.tasks, 4500);
}

TEST_WITHIN(120, bundles_follow_from_recorded_durations)
{
    struct tally t;
    begin();
    list_add("quick", 0, 20);
    CHECK_EQ(push("").status, 0);
    check_tally(20, 20);
    struct node n = node_start("--gpus sim:2");
    CHECK_EQ(node_wait(&n), 0);
    list_add("quick", 20, 5000);
    CHECK_EQ(push("--bundle auto").status, 0);
    tally_queue(s.port, &t);
    CHECK_EQ(t.tasks, 5020);
    CHECK_LT(t.messages, 1000);
}

TEST_WITHIN(120, large_payloads_are_files)
{
    begin();
    CHECK_EQ(mkdir("spill", 0755), 0);
    FILE *big = fopen("big", "we");
    CHECK(big != NULL);
    for (unsigned i = 0; i < 2000000; i++) /* more than max_payload of the server, which is 1 MiB */
        fputc('x', big);
    CHECK_EQ(fclose(big), 0);
    struct result r = command("push --queue \"$URL\" :::: big");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "--spill-dir");
    r = command("push --queue \"$URL\" --spill-dir spill :::: big");
    CHECK_EQ(r.status, 0);
    CHECK_CONTAINS(r.out, "1 payload in spill");
    r = command("push --queue \"$URL\" --spill-dir spill :::: big");
    CHECK_CONTAINS(r.out, "0 tasks added, 1 known already");
    r = command("push --queue \"$URL\" --spill-dir missing ::: a");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "missing");
}

WORK_MAIN()
