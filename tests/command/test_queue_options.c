/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch run --queue`: options that make no sense are refused before a server is needed.
 */
#include "common.h"

#define NODE "gpu-dispatch run --gpus sim:1 "
#define URL  "--queue nats://127.0.0.1:1/songs "
#define NO_INPUTS                                                                                               \
    "gpu-dispatch: with --queue the tasks come from the queue: add inputs with gpu-dispatch push --queue URL, " \
    "and give none here"

TEST(inputs_are_pushed_and_not_given_to_a_node)
{
    CHECK_REFUSED(sh(NODE URL "echo {} ::: a b"), NO_INPUTS);
    CHECK_REFUSED(sh(NODE URL "echo {} :::: list"), NO_INPUTS);
    CHECK_REFUSED(sh(NODE URL "-a list echo {}"), NO_INPUTS);
    CHECK_REFUSED(sh(NODE URL "--input-dir . echo {}"), NO_INPUTS);
    CHECK_REFUSED(sh(NODE URL "-r echo {}"), "gpu-dispatch: -r is for inputs: give it to gpu-dispatch push");
    CHECK_REFUSED(sh(NODE URL "--key path echo {}"), "gpu-dispatch: --key is for inputs: give it to gpu-dispatch push");
}

TEST(a_queue_has_no_journal_and_no_shards)
{
    CHECK_REFUSED(
        sh(NODE URL "--journal run.db echo {}"),
        "gpu-dispatch: with --queue there is no journal, because the queue has the records: leave out --journal. "
        "Records that the server has not got yet are in --spool FILE");
    CHECK_REFUSED(
        sh(NODE URL "--shard 1/2 echo {}"),
        "gpu-dispatch: with --queue there are no shards, because the queue divides the tasks among its nodes: "
        "leave out --shard");
    CHECK_REFUSED(sh(NODE URL "--resume echo {}"),
                  "gpu-dispatch: with --queue there is nothing to resume: a node takes what is left");
    CHECK_REFUSED(sh(NODE URL "--retry-failed echo {}"),
                  "gpu-dispatch: with --queue failed tasks are added once more by gpu-dispatch push --retry-failed");
}

TEST(the_order_and_the_number_of_tasks_are_not_known)
{
    CHECK_REFUSED(sh(NODE URL "-k echo {}"),
                  "gpu-dispatch: -k is not possible with --queue: tasks of a queue end in any "
                  "order");
    CHECK_REFUSED(sh(NODE URL "--shuf echo {}"),
                  "gpu-dispatch: --shuf is not possible with --queue: the order is that of the push");
    CHECK_REFUSED(sh(NODE URL "--dry-run echo {}"),
                  "gpu-dispatch: --dry-run is not possible with --queue: it would take tasks from other nodes");
    CHECK_REFUSED(
        sh(NODE URL "--halt soon,fail=10%% echo {}"),
        "gpu-dispatch: --halt with a percentage is not possible with --queue: the number of tasks is not known");
}

TEST(options_of_a_queue_need_a_queue)
{
    static const char *const options[] = { "--spool a",    "--force",     "--lost-timeout 5s",
                                           "--creds file", "--nkey file", "--spill-dir ." };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        char message[160];
        snprintf(message, sizeof message, "gpu-dispatch: %.*s is for a queue: give --queue nats://HOST/NAME too\n",
                 (int)strcspn(options[i], " "), options[i]);
        const struct ran r = sh(NODE "%s echo {} ::: a", options[i]);
        CHECK_STR(r.err, message);
        CHECK_EQ(r.status, 255);
    }
}

TEST(values_of_options)
{
    CHECK_REFUSED(sh(NODE URL "--idle-exit 0s echo {}"),
                  "gpu-dispatch: --idle-exit takes a time longer than 0, such as 30s, or never");
    CHECK_CONTAINS(sh(NODE URL "--idle-exit forever echo {}").err, "1m30s, or never");
    CHECK_REFUSED(sh(NODE URL "--spool '' echo {}"), "gpu-dispatch: --spool needs the name of a file: --spool FILE");
    const struct ran bad = sh(NODE "--queue songs echo {}");
    CHECK_EQ(bad.status, 255);
    CHECK_CONTAINS(bad.err, "nats://");
}

TEST_MAIN()
