/* SPDX-License-Identifier: MIT
 *
 * In which order tasks start, and what a push prints about the server.
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

/* Fails unless the tasks have started in this order: "in/c in/a in/b ". */
static void check_order(const char *expected)
{
    char line[512], started[4096] = "";
    FILE *f = fopen("log", "re");
    CHECK(f != NULL);
    while (fgets(line, sizeof line, f)) {
        char input[256];
        if (sscanf(line, "start %255s", input) == 1) {
            strcat(started, input);
            strcat(started, " ");
        }
    }
    fclose(f);
    CHECK_STR(started, expected);
}

static void make_file(const char *path, unsigned size)
{
    FILE *f = fopen(path, "we");
    CHECK(f != NULL);
    for (unsigned i = 0; i < size; i++)
        fputc('x', f);
    CHECK_EQ(fclose(f), 0);
}

static void run_one_after_the_other(void)
{
    struct node n = node_start("--gpus sim:1");
    CHECK_EQ(node_wait(&n), 0);
}

TEST(files_start_the_largest_first)
{
    begin();
    CHECK_EQ(mkdir("in", 0755), 0);
    make_file("in/a", 200);
    make_file("in/b", 70000);
    make_file("in/c", 3);
    make_file("in/d", 4000);
    make_file("in/e", 100000);
    CHECK_EQ(command("push --queue \"$URL\" --input-dir in").status, 0);
    run_one_after_the_other();
    check_order("in/e in/b in/d in/a in/c ");
}

/* Only within one push: the order of the pushes stays. */
TEST(files_of_a_later_push_start_later)
{
    begin();
    CHECK_EQ(mkdir("in", 0755), 0);
    make_file("in/a", 5);
    make_file("in/b", 10);
    CHECK_EQ(command("push --queue \"$URL\" --input-dir in").status, 0);
    make_file("in/c", 4000);
    CHECK_EQ(command("push --queue \"$URL\" --input-dir in").status, 0);
    run_one_after_the_other();
    check_order("in/b in/a in/c ");
}

TEST(higher_priorities_start_first)
{
    begin();
    CHECK_EQ(command("push --queue \"$URL\" --priority -4 ::: low0 low1").status, 0);
    CHECK_EQ(command("push --queue \"$URL\" ::: usual0 usual1").status, 0);
    CHECK_EQ(command("push --queue \"$URL\" --priority 3 ::: high0 high1").status, 0);
    CHECK_EQ(command("push --queue \"$URL\" --priority 1 ::: more0 more1").status, 0);
    run_one_after_the_other();
    check_order("high0 high1 more0 more1 usual0 usual1 low0 low1 ");
}

TEST(task_keeps_its_first_priority)
{
    begin();
    CHECK_EQ(command("push --queue \"$URL\" --priority -1 ::: first").status, 0);
    CHECK_EQ(command("push --queue \"$URL\" ::: usual").status, 0);
    const struct result r = command("push --queue \"$URL\" --priority 3 ::: first high");
    CHECK_EQ(r.status, 0);
    CHECK_CONTAINS(r.out, "1 task added, 1 known already");
    run_one_after_the_other();
    check_order("high usual first ");
}

/* --- durability ----------------------------------------------------------------------------- */

/* The monitoring page of a server tells whether it is durable. */
static void push_to(bool durable, bool has_page, const char *expected)
{
    char config[64], port[16];
    snprintf(port, sizeof port, "%u", reserve_port());
    snprintf(config, sizeof config, "http: \"127.0.0.1:%s\"\n", port);
    setenv("GPU_DISPATCH_NATS_MONITORING", port, 1);
    server_start(&s, &(struct server_options){ .durable = durable, .config = has_page ? config : "" });
    work_begin(s.hosts);
    const struct result r = command("push --queue \"$URL\" ::: a");
    CHECK_EQ(r.status, 0);
    CHECK_CONTAINS(r.err, expected);
}

TEST(push_to_a_durable_server_says_so)
{
    push_to(true, true, "the server writes each message to disk before it confirms it\n");
}

TEST(push_to_another_server_names_the_setting)
{
    push_to(false, true,
            "the server may lose confirmed messages in a power loss: set sync_interval: always in the jetstream block "
            "of its configuration\n");
}

TEST(push_to_a_server_without_a_page_says_what_to_check)
{
    push_to(true, false,
            "whether confirmed messages survive a power loss cannot be learned from the server: check that its "
            "configuration has sync_interval: always in the jetstream block\n");
}

WORK_MAIN()
