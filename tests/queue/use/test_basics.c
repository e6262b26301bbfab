/* SPDX-License-Identifier: MIT
 *
 * A queue as users see it: push, run, status, export. Runs in every `make test`.
 */
#include "queue/server.h"
#include "queue/work.h"
#include "support/test.h"

static struct server s;

static void begin(void)
{
    server_start(&s, NULL);
    work_begin(s.hosts);
}

/* Fails unless a command ends with 0, and returns what it printed. */
static const char *output_of(const char *arguments)
{
    static struct result r;
    r = command("%s", arguments);
    if (r.status != 0)
        FAIL("gpu-dispatch %s ended with %d: %.600s", arguments, r.status, r.err);
    return r.out;
}

TEST(two_nodes_share_the_tasks)
{
    begin();
    list_add("gate", 0, 4);
    list_add("quick", 0, 50);
    CHECK_EQ(push("").status, 0);
    CHECK_CONTAINS(output_of("status --queue \"$URL\" --json"), "\"total\":54");
    struct node a = node_start("--gpus sim:2"), b = node_start("--gpus sim:2");
    await_log_lines("start gate", 4); /* two on each */
    open_gate();
    CHECK_EQ(node_wait(&a), 0);
    CHECK_EQ(node_wait(&b), 0);
    check_queue(s.port, 54);
    CHECK_CONTAINS(output_of("status --queue \"$URL\" --json"), "\"done\":54");
}

/* One line for each task, in the order of the push, with its output. */
TEST(export_has_the_outputs_in_order)
{
    char *rest = NULL;
    unsigned n = 0;
    begin();
    list_add("quick", 0, 20);
    CHECK_EQ(push("").status, 0);
    struct node a = node_start("--gpus sim:4");
    CHECK_EQ(node_wait(&a), 0);
    char *text = strdup(output_of("export --queue \"$URL\""));
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char expected[64];
        snprintf(expected, sizeof expected, "\"input\":\"quick%u\"", n);
        CHECK_CONTAINS(line, expected);
        snprintf(expected, sizeof expected, "output of quick%u\\n", n++);
        CHECK_CONTAINS(line, expected);
    }
    CHECK_EQ(n, 20);
    free(text);
}

TEST(exit_status_counts_failures_of_the_node)
{
    struct tally t;
    begin();
    list_add("fails", 0, 3);
    list_add("once", 0, 2);
    list_add("quick", 0, 5);
    CHECK_EQ(push("").status, 0);
    struct node a = node_start("--gpus sim:2 --retries 2");
    CHECK_EQ(node_wait(&a), 3);
    check_queue(s.port, 10);
    tally_queue(s.port, &t);
    CHECK_EQ(t.failed, 3);
    CHECK_EQ(log_lines("start fails"), 6);
    a = node_start("--gpus sim:2"); /* nothing is left to do */
    CHECK_EQ(node_wait(&a), 0);
    CHECK_EQ(log_lines("start"), 6 + 4 + 5);
}

TEST(killed_node_is_survived)
{
    begin();
    list_add("gate", 0, 1);
    list_add("quick", 0, 30);
    CHECK_EQ(push("--lease 1s").status, 0);
    struct node a = node_start("--gpus sim:1");
    await_log("start gate0");
    node_kill(&a);
    open_gate();
    struct node b = node_start("--gpus sim:2");
    CHECK_EQ(node_wait(&b), 0);
    check_queue(s.port, 31);
}

/* Somebody else has the last task. With --idle-exit a node does not wait for it. */
TEST(idle_node_leaves)
{
    begin();
    list_add("gate", 0, 1);
    CHECK_EQ(push("--lease 1h").status, 0);
    struct node a = node_start("--gpus sim:1");
    await_log("start gate0");
    struct node b = node_start("--gpus sim:1 --idle-exit 1s");
    CHECK_EQ(node_wait(&b), 0);
    open_gate();
    CHECK_EQ(node_wait(&a), 0);
    check_queue(s.port, 1);
}

TEST(node_waits_for_a_queue_that_does_not_exist_yet)
{
    begin();
    struct node a = node_start("--gpus sim:1 --idle-exit never");
    list_add("quick", 0, 5);
    CHECK_EQ(push("").status, 0);
    await_log_lines("end quick", 5);
    node_signal(&a, SIGTERM);
    CHECK_EQ(node_wait(&a), 143);
    check_queue(s.port, 5);
}

WORK_MAIN()
