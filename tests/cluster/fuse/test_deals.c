/* SPDX-License-Identifier: MIT
 *
 * Deals on a network file system (src/shard/deal_file.h). Shards on two machines publish at once, and all of them read
 * the same deal. A shard that is killed at any change leaves nothing that harms the others. This must not depend on
 * locks, links or the flags of a rename.
 */
#include "base/error.h"
#include "cluster/fuse/mounts.h"
#include "shard/deal_file.h"
#include "unit/shard/deal_items.h"

enum { SHARDS = 8, TASKS = 300 };

static int publish(const char *path, uint64_t seed)
{
    return publish_items(path, TASKS, SHARDS, seed);
}

/* Shards of two machines publish at once, each with other sizes. */
static void publish_at_once(const char *name, uint64_t seed)
{
    int gate[2], results[2], first = -1, owners, n = 0;
    CHECK_EQ(pipe(gate), 0);
    CHECK_EQ(pipe(results), 0);
    for (unsigned i = 0; i < SHARDS; i++) {
        const pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            char path[64], byte;
            close(gate[1]);
            snprintf(path, sizeof path, "%s/%s", i % 2 ? "a" : "b", name);
            CHECK_EQ(read(gate[0], &byte, 1), 0); /* all of them begin when it is closed */
            owners = publish(path, seed + i);
            if (owners < 0)
                FAIL("%s", gd_error_text());
            CHECK_EQ(write(results[1], &owners, sizeof owners), (ssize_t)sizeof owners);
            _exit(0);
        }
    }
    close(gate[1]);
    close(results[1]);
    while (read(results[0], &owners, sizeof owners) == (ssize_t)sizeof owners) {
        first = n++ == 0 ? owners : first;
        CHECK_EQ(owners, first);
    }
    CHECK_EQ(n, SHARDS);
    close(gate[0]);
    close(results[0]);
    for (int i = 0; i < SHARDS; i++)
        CHECK_GT(wait(NULL), 0);
}

static void publish_often(const char *option, const char *value)
{
    struct mount a, b;
    mounts_enter();
    mount_begin(&a, "a", option, value, NULL);
    mount_begin(&b, "b", option, value, NULL);
    for (unsigned round = 0; round < (test_soak() ? 500 : 10); round++) {
        char name[32];
        snprintf(name, sizeof name, "%u.deal", round);
        publish_at_once(name, round * 100);
    }
    mount_end(&a);
    mount_end(&b);
}

TEST(shards_of_two_machines_get_the_same_deal)
{
    publish_often("--locks", "none");
}

TEST(with_nfs_caches)
{
    publish_often("--cache=3600", "--cache-missing");
}

TEST(without_links)
{
    publish_often("--no-links", NULL);
}

TEST(without_flags_of_rename)
{
    publish_often("--no-rename-flags", NULL);
}

/* The reply to link() was lost: it is reported as EEXIST, although the file is in place. */
TEST(with_lost_replies)
{
    publish_often("--repeat-links", NULL);
}

TEST(stale_files)
{
    publish_often("--stale", NULL);
}

/* Neither links nor flags: there is no way to publish without replacing. The error says so. */
TEST(without_links_and_flags)
{
    struct mount a;
    mounts_enter();
    mount_begin(&a, "a", "--no-links", "--no-rename-flags", NULL);
    CHECK_LT(publish("a/run.of-8.deal", 1), 0);
    CHECK_CONTAINS(gd_error_text(), "cannot put the deal in place as a/run.of-8.deal");
    CHECK_LT(access("a/run.of-8.deal", F_OK), 0);
    mount_end(&a);
}

/* A shard is killed before each change in turn. The other machine sees a complete deal or none, and can publish. */
static void kill_at_each_change(const char *option)
{
    struct mount a, b;
    bool cut = true;
    unsigned change = 0, published = 0;
    mounts_enter();
    mount_begin(&a, "a", option, NULL);
    mount_begin(&b, "b", option, NULL);
    while (cut) {
        char command[32];
        struct gd__deal *d = NULL;
        snprintf(command, sizeof command, "cut-at %u", ++change);
        mount_tell(&a, command);
        const pid_t pid = fork();
        if (pid == 0)
            _exit(publish("a/run.of-8.deal", 1) < 0);
        cut = mount_await_cut(&a, pid);
        const int found = gd__deal_open(&d, "b/run.of-8.deal", SHARDS);
        if (found < 0)
            FAIL("change %u: %s", change, gd_error_text());
        published += found;
        CHECK(cut || found);
        gd__deal_close(&d);
        const int owners = publish("b/run.of-8.deal", 2); /* while the other shard waits */
        if (owners < 0)
            FAIL("change %u: %s", change, gd_error_text());
        if (cut)
            mount_kill(&a, pid);
        else
            CHECK_EQ(waitpid(pid, NULL, 0), pid);
        CHECK_EQ(publish("a/run.of-8.deal", 3), owners);
        CHECK_EQ(unlink("b/run.of-8.deal"), 0);
    }
    CHECK_GE(change, 4); /* it creates, writes, flushes and puts in place */
    CHECK_GE(published, 1);
    mount_end(&a);
    mount_end(&b);
}

TEST(a_shard_killed_at_each_change)
{
    kill_at_each_change(NULL);
}

TEST(a_shard_killed_at_each_change_without_links)
{
    kill_at_each_change("--no-links");
}

/* A shard that was cut off before it published comes back, and takes the deal that others have published. */
TEST(a_shard_that_comes_back)
{
    struct mount a, b;
    int status;
    mounts_enter();
    mount_begin(&a, "a", NULL);
    mount_begin(&b, "b", NULL);
    const int expected = publish("server/other", 2);
    for (unsigned change = 1; change <= 4; change++) {
        char command[32];
        snprintf(command, sizeof command, "cut-at %u", change);
        mount_tell(&a, command);
        const pid_t pid = fork();
        if (pid == 0)
            _exit(publish("a/run.of-8.deal", 1) != expected);
        CHECK(mount_await_cut(&a, pid));
        CHECK_EQ(publish("b/run.of-8.deal", 2), expected);
        mount_tell(&a, "mend");
        CHECK_EQ(waitpid(pid, &status, 0), pid);
        CHECK_EQ(status, 0);
        CHECK_EQ(unlink("b/run.of-8.deal"), 0);
    }
    mount_end(&a);
    mount_end(&b);
}

TEST_MAIN()
