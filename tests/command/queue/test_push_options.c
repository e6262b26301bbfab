/* SPDX-License-Identifier: MIT
 *
 * The command line of push: what is refused before a server is asked, and what the options mean for a task.
 */
#include "../../../cli/commands/push/push_rules.h"
#include "command/common.h"

#define PUSH "gpu-dispatch push --queue nats://127.0.0.1:1/q "

TEST(a_queue_is_needed)
{
    CHECK_REFUSED(sh("gpu-dispatch push ::: a"),
                  "gpu-dispatch: push needs a queue: gpu-dispatch push --queue nats://HOST/NAME ...");
    CHECK_CONTAINS(sh("gpu-dispatch push --creds x ::: a").err, "push needs a queue");
}

TEST(a_command_is_not_for_push)
{
    CHECK_CONTAINS(sh(PUSH "echo ::: a").err, "echo: inputs come after :::");
}

TEST(bad_values_are_refused)
{
    static const struct {
        const char *options, *error;
    } bad[] = {
        { "--bundle 0", "--bundle" },
        { "--bundle many", "--bundle takes auto, or a whole number from 1 to 65536, not \"many\"" },
        { "--bundle 65537", "--bundle" },
        { "--priority 4", "--priority takes a number from -4 to 3, not \"4\"" },
        { "--priority -5", "--priority takes" },
        { "--priority x", "--priority takes" },
        { "--replicas 2", "--replicas takes 1, 3 or 5, not 2" },
        { "--replicas 7", "--replicas" },
        { "--lease 10ms", "--lease" },
        { "--lease 0.5s", "--lease takes 1s to 24h, not \"0.5s\"" },
        { "--lease 25h", "--lease takes 1s to 24h, not \"25h\"" },
        { "--order up", "--order takes size, name or none" },
        { "--order name", "--order is for --input-dir" },
        { "--pattern x", "--pattern is for --input-dir" },
        { "--recursive", "--recursive is for --input-dir" },
        { "--seed 1", "--seed is for --shuf" },
        { "--jsonl -0", "--jsonl cannot be combined with -0" },
        { "--key x", "--key takes input, file, path or .NAME, not \"x\"" },
        { "--key .id", "give --jsonl too" },
        { "--creds a --nkey b", "--creds and --nkey: give only one of them" },
        { "--tlscert a", "give both --tlscert and --tlskey" },
        { "--spill-dir ''", "--spill-dir needs the name" },
        { "--queue nats://user:sesame@host/q", "password" },
        { "--queue http://host/q", "nats://" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct ran r = sh(PUSH "%s ::: a", bad[i].options);
        CHECK_EQ(r.status, 255);
        CHECK_CONTAINS(r.err, bad[i].error);
        if (strstr(r.err, "sesame"))
            FAIL("a secret is in the message: %s", r.err);
    }
}

/* Before anything is sent. */
TEST(missing_inputs_are_reported)
{
    CHECK_CONTAINS(sh(PUSH ":::: missing").err, "missing");
    CHECK_CONTAINS(sh(PUSH "--input-dir missing").err, "missing");
}

static int priority_of(const char *line, int own, bool is_json, int given)
{
    const struct gd_item task = { .data = line, .size = strlen(line), .priority = own };
    return cli_push_priority(&task, is_json, given);
}

TEST(a_line_decides_about_its_priority)
{
    CHECK_EQ(priority_of("{\"gpu_dispatch\":{\"priority\":0}}", 0, true, 2), 0);
    CHECK_EQ(priority_of("{\"gpu_dispatch\":{\"priority\":-1}}", -1, true, 2), -1);
    CHECK_EQ(priority_of("{\"gpu_dispatch\":{\"timeout\":5}}", 0, true, 2), 2);
    CHECK_EQ(priority_of("{\"priority\":0}", 0, true, 2), 2);
    CHECK_EQ(priority_of("7", 0, true, 2), 2);
    CHECK_EQ(priority_of("{\"gpu_dispatch\":{\"priority\":0}}", 0, false, 2), 2); /* without --jsonl it is a text */
    CHECK_EQ(priority_of("{\"gpu_dispatch\":{\"priority\":3}}", 3, true, 0), 3);
    CHECK_EQ(priority_of("a", 0, false, 0), 0);
}

TEST(a_server_that_may_lose_tasks_is_reported_in_any_case)
{
    CHECK(cli_push_says_durability(true, 1, 0));
    CHECK(!cli_push_says_durability(true, 1, 1) && !cli_push_says_durability(true, 1, -1));
    CHECK(cli_push_says_durability(false, 1, 1) && cli_push_says_durability(false, 1, -1));
    CHECK(!cli_push_says_durability(false, 0, 0));
}

TEST(only_one_server_of_a_cluster_was_asked)
{
    CHECK(cli_push_durability_of_cluster("nats://a/q", 1) == NULL);
    CHECK(cli_push_durability_of_cluster("nats://a,b/q", -1) == NULL);
    CHECK_CONTAINS(cli_push_durability_of_cluster("nats://a,b/q", 1), "check that the configurations of the others");
    CHECK_CONTAINS(cli_push_durability_of_cluster("nats://a,b/q", 0), "of each server");
}

TEST_MAIN()
