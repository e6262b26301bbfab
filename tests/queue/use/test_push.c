/* SPDX-License-Identifier: MIT
 *
 * Adding tasks to a queue: again, interrupted, from several places at once.
 */
#include "queue/client.h"
#include "queue/proxy.h"
#include "queue/server.h"
#include "queue/work.h"
#include "support/test.h"

static void begin(struct server *s)
{
    server_start(s, &(struct server_options){ .durable = true });
    work_begin(s->hosts);
}

static void check_tasks(const struct server *s, unsigned tasks, unsigned messages)
{
    struct tally t;
    tally_queue(s->port, &t);
    CHECK_EQ(t.tasks, tasks);
    CHECK_EQ(t.messages, messages);
}

TEST(pushed_again_adds_only_what_is_new)
{
    struct server s;
    begin(&s);
    list_add("quick", 0, 100);
    CHECK_EQ(push("").status, 0);
    CHECK_EQ(push("").status, 0);
    check_tasks(&s, 100, 100);
    list_add("quick", 100, 50);
    CHECK_EQ(push("").status, 0);
    check_tasks(&s, 150, 150);
}

TEST(equal_inputs_are_as_many_tasks_as_they_are)
{
    struct server s;
    begin(&s);
    for (unsigned i = 0; i < 3; i++)
        list_add("quick", 0, 2);
    CHECK_EQ(push("").status, 0);
    CHECK_EQ(push("").status, 0);
    check_tasks(&s, 6, 6);
    struct node n = node_start("--gpus sim:2");
    CHECK_EQ(node_wait(&n), 0);
    CHECK_EQ(log_lines("start quick0"), 3);
    check_queue(s.port, 6);
}

TEST_WITHIN(120, killed_and_pushed_again)
{
    struct server s;
    struct client watcher;
    begin(&s);
    list_add("quick", 0, 20000);
    client_open(&watcher, s.port);
    client_subscribe(&watcher, "gd.q.t.>");
    struct node p = command_start("push --queue \"$URL\" :::: list");
    for (unsigned i = 0; i < 2000; i++)
        client_next(&watcher);
    client_close(&watcher);
    node_kill(&p);
    CHECK_EQ(push("").status, 0);
    check_tasks(&s, 20000, 20000);
}

TEST_WITHIN(120, two_pushes_at_once)
{
    struct server s;
    begin(&s);
    list_add("quick", 0, 3000);
    CHECK_EQ(rename("list", "first"), 0);
    list_add("quick", 1500, 3000);
    struct node a = command_start("push --queue \"$URL\" :::: first");
    struct node b = command_start("push --queue \"$URL\" :::: list");
    CHECK_EQ(node_wait(&a), 0);
    CHECK_EQ(node_wait(&b), 0);
    check_tasks(&s, 4500, 4500);
}

/* Each task has a record, and the node has asked twice whether the queue is done. So it did not leave after the first
 * answer: more tasks may come. It leaves when the push has ended. */
TEST_WITHIN(120, node_stays_while_a_push_is_open)
{
    struct server s;
    struct client tasks, records, questions;
    begin(&s);
    client_open(&tasks, s.port);
    client_subscribe(&tasks, "gd.q.t.>");
    client_open(&records, s.port);
    client_subscribe(&records, "gd.q.r.>");
    client_open(&questions, s.port);
    CHECK_EQ(mkfifo("slow", 0644), 0);
    struct node p = command_start("push --queue \"$URL\" :::: slow");
    FILE *slow = fopen("slow", "we");
    CHECK(slow != NULL);
    fputs("quick0\n", slow);
    fflush(slow);
    client_next(&tasks);
    struct node n = node_start("--gpus sim:1");
    CHECK(client_next_unless(&records, n.ended));
    client_subscribe(&questions, "$JS.API.STREAM.INFO.gd_q_t"); /* the last question of a check */
    for (unsigned i = 0; i < 2; i++) {
        if (!client_next_unless(&questions, n.ended))
            FAIL("the node has left: %.500s", node_errors(&n));
    }
    for (unsigned i = 1; i < 500; i++)
        fprintf(slow, "quick%u\n", i);
    fclose(slow);
    CHECK_EQ(node_wait(&p), 0);
    CHECK_EQ(node_wait(&n), 0);
    check_queue(s.port, 500);
    client_close(&tasks);
    client_close(&records);
    client_close(&questions);
}

/* The answer to a publication of a task gets lost. */
TEST_WITHIN(120, lost_answer_to_a_push)
{
    struct server s;
    struct proxy p;
    struct client watcher;
    begin(&s);
    proxy_start(&p, s.port);
    snprintf(work_url, sizeof work_url, "nats://%s/q", p.hosts);
    list_add("quick", 0, 2000);
    client_open(&watcher, s.port);
    client_subscribe(&watcher, "gd.q.t.>");
    proxy_trap(&p, PROXY_UP, "PUB gd.q.t.", PROXY_DOWN, PROXY_DROP);
    struct node c = command_start("push --queue \"$URL\" :::: list");
    proxy_await_trap(&p);
    client_next(&watcher);
    client_close(&watcher);
    proxy_cut(&p);
    proxy_set(&p, PROXY_DOWN, PROXY_PASS);
    CHECK_EQ(node_wait(&c), 0);
    check_tasks(&s, 2000, 2000);
}

TEST_WITHIN(120, failed_tasks_are_added_once_by_two_at_once)
{
    struct server s;
    begin(&s);
    list_add("once", 0, 40);
    list_add("quick", 0, 10);
    CHECK_EQ(push("").status, 0);
    struct node n = node_start("--gpus sim:2");
    CHECK_EQ(node_wait(&n), 40);
    struct node a = command_start("push --queue \"$URL\" --retry-failed");
    struct node b = command_start("push --queue \"$URL\" --retry-failed");
    CHECK_EQ(node_wait(&a), 0);
    CHECK_EQ(node_wait(&b), 0);
    check_tasks(&s, 50, 90);
    n = node_start("--gpus sim:2");
    CHECK_EQ(node_wait(&n), 0);
    check_queue(s.port, 50);
    CHECK_EQ(log_lines("start once"), 80);
    CHECK_EQ(log_lines("start quick"), 10);
}

WORK_MAIN()
