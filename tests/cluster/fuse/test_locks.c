/* SPDX-License-Identifier: MIT
 *
 * The lock of a journal on a network file system, between machines, with each kind of locks that such a file system may
 * have. At most one process holds it. A holder that was killed, at any change, or that is cut off, does not keep it for
 * ever. A holder that comes back finds out that it has lost it.
 */
#include <gpu_dispatch/error.h>
#include <sys/ioctl.h>

#include "cluster/fuse/hosts.h"
#include "journal/lock/lock.h"

#define JOURNAL "kept/run.db"

enum { LONG_MS = 50000 };

static struct host a, b;

/* stale_ms: after this time without a heartbeat, a holder is given up. */
static void begin(const char *option, const char *value, unsigned stale_ms)
{
    char text[64];
    mounts_enter();
    host_begin(&a, "a", option, value);
    host_begin(&b, "b", option, value);
    snprintf(text, sizeof text, "stale_ms=%u", stale_ms);
    setenv("GPU_DISPATCH_LOCK_TEST", text, 1);
}

static void end(void)
{
    host_end(&a);
    host_end(&b);
}

/* A process that tries to get the lock, reports the result, and holds the lock until it is told to go on. Then it checks
 * the lock, reports that result, and releases it. */
struct holder {
    pid_t pid;
    int go, results;
};

static void hold(unsigned wait_ms, int go, int results)
{
    const struct gd__journal_lock_ask ask = { .wait_ms = wait_ms };
    struct gd__journal_lock h;
    char byte;
    int rc = gd__journal_lock_wait(&h, JOURNAL, &ask);
    const bool taken = rc == 0;
    CHECK_EQ(write(results, &rc, sizeof rc), (ssize_t)sizeof rc);
    (void)!read(go, &byte, 1);
    if (taken && h.shared)
        gd__heart_beat(&h); /* the next regular one may be seconds away */
    rc = taken ? gd__journal_lock_check(&h) : 0;
    CHECK_EQ(write(results, &rc, sizeof rc), (ssize_t)sizeof rc);
    if (taken)
        gd__journal_lock_release(&h);
    _exit(0);
}

static struct holder start(const struct host *on, unsigned wait_ms)
{
    struct holder p;
    int go[2], results[2];
    CHECK(pipe2(go, O_CLOEXEC) == 0 && pipe2(results, O_CLOEXEC) == 0);
    p.pid = host_fork(on);
    if (p.pid == 0) {
        close(go[1]);
        hold(wait_ms, go[0], results[1]);
    }
    close(go[0]);
    close(results[1]);
    p.go = go[1];
    p.results = results[0];
    return p;
}

static int result_of(const struct holder *p)
{
    int rc = 1;
    CHECK_EQ(read(p->results, &rc, sizeof rc), (ssize_t)sizeof rc);
    return rc;
}

static void reap(struct holder *p)
{
    CHECK_EQ(waitpid(p->pid, NULL, 0), p->pid);
    close(p->go);
    close(p->results);
}

/* Returns what it found out about its lock. */
static int let_go(struct holder *p)
{
    CHECK_EQ(write(p->go, "x", 1), 1);
    const int rc = result_of(p);
    reap(p);
    return rc;
}

/* --- one holder --- */

static void one_holder(const char *option, const char *value)
{
    enum { ROUNDS = 5, EACH = 4 };
    begin(option, value, 60000);
    for (int round = 0; round < ROUNDS; round++) {
        struct holder p[2 * EACH];
        int taken = -1, n = 0;
        for (int i = 0; i < 2 * EACH; i++)
            p[i] = start(i % 2 ? &a : &b, 0);
        for (int i = 0; i < 2 * EACH; i++) {
            const int rc = result_of(&p[i]);
            if (rc == 0)
                taken = i, n++;
            else
                CHECK_EQ(rc, GD_E_BUSY);
        }
        CHECK_EQ(n, 1);
        for (int i = 0; i < 2 * EACH; i++)
            CHECK_EQ(i == taken ? 0 : let_go(&p[i]), 0);
        CHECK_EQ(let_go(&p[taken]), 0);
        CHECK_LT(access(SERVER "/run.db-lock", F_OK), 0);
        CHECK_LT(access(SERVER "/run.db-lock.next", F_OK), 0);
    }
    end();
}

TEST(one_holder_with_shared_locks)
{
    one_holder("--locks", "shared");
}

TEST(one_holder_with_local_locks)
{
    one_holder("--locks", "local");
}

TEST(one_holder_without_locks)
{
    one_holder("--locks", "none");
}

TEST(one_holder_without_flags_of_rename)
{
    one_holder("--no-rename-flags", NULL);
}

TEST(one_holder_with_lost_replies)
{
    one_holder("--no-rename-flags", "--repeat-links");
}

TEST(one_holder_without_links_and_flags)
{
    one_holder("--no-rename-flags", "--no-links");
}

TEST(one_holder_with_caches)
{
    one_holder("--cache", "3600");
}

/* --- a holder that has gone --- */

/* A run of the other machine gets the lock of a killed one. */
static void succeed_a_killed_holder(const char *option, const char *value)
{
    begin(option, value, 300);
    struct holder first = start(&a, 0);
    CHECK_EQ(result_of(&first), 0);
    struct holder second = start(&b, LONG_MS);
    kill(first.pid, SIGKILL);
    CHECK_EQ(result_of(&second), 0);
    reap(&first);
    CHECK_EQ(let_go(&second), 0);
    end();
}

TEST(a_killed_holder_with_shared_locks)
{
    succeed_a_killed_holder("--locks", "shared");
}

TEST(a_killed_holder_with_local_locks)
{
    succeed_a_killed_holder("--locks", "local");
}

TEST(a_killed_holder_without_locks)
{
    succeed_a_killed_holder("--locks", "none");
}

TEST(a_killed_holder_with_caches)
{
    succeed_a_killed_holder("--cache", "3600");
}

/* On its own machine it is known at once that the process is gone. */
TEST(a_killed_holder_on_the_same_machine)
{
    begin("--locks", "none", 24 * 3600 * 1000);
    struct holder first = start(&a, 0);
    CHECK_EQ(result_of(&first), 0);
    kill(first.pid, SIGKILL);
    reap(&first);
    struct holder second = start(&a, LONG_MS);
    CHECK_EQ(result_of(&second), 0);
    CHECK_EQ(let_go(&second), 0);
    end();
}

/* Many find the same dead holder at once. */
static void one_successor(const char *locks)
{
    enum { ROUNDS = 4, EACH = 4 };
    begin("--locks", locks, 1000);
    for (int round = 0; round < ROUNDS; round++) {
        struct holder first = start(round % 2 ? &a : &b, 0), p[2 * EACH];
        struct pollfd ready[2 * EACH];
        bool ended[2 * EACH] = { false };
        CHECK_EQ(result_of(&first), 0);
        for (int i = 0; i < 2 * EACH; i++) {
            p[i] = start(i % 2 ? &a : &b, LONG_MS);
            ready[i] = (struct pollfd){ .fd = p[i].results, .events = POLLIN };
        }
        kill(first.pid, SIGKILL);
        reap(&first);
        for (int left = 2 * EACH; left > 0; left--) { /* one after another gets it, and releases it */
            int taken = 0;
            CHECK_GT(poll(ready, 2 * EACH, -1), 0);
            while (!ready[taken].revents)
                taken++;
            CHECK_EQ(result_of(&p[taken]), 0);
            ready[taken].fd = -1;
            CHECK_EQ(poll(ready, 2 * EACH, 50), 0); /* no other gets it now */
            CHECK_EQ(let_go(&p[taken]), 0);
            ended[taken] = true;
        }
        for (int i = 0; i < 2 * EACH; i++)
            CHECK(ended[i]);
    }
    end();
}

TEST(one_successor_with_local_locks)
{
    one_successor("local");
}

TEST(one_successor_without_locks)
{
    one_successor("none");
}

/* --- a holder that lives --- */

static void keep_a_living_holder(const char *locks)
{
    begin("--locks", locks, 3000);
    struct holder first = start(&a, 0);
    CHECK_EQ(result_of(&first), 0);
    struct holder second = start(&b, 4500);
    CHECK_EQ(result_of(&second), GD_E_BUSY);
    CHECK_EQ(let_go(&second), 0);
    CHECK_EQ(let_go(&first), 0);
    end();
}

TEST(a_living_holder_with_local_locks)
{
    keep_a_living_holder("local");
}

TEST(a_living_holder_without_locks)
{
    keep_a_living_holder("none");
}

/* --- a machine that is cut off --- */

static void come_back(const char *option, const char *value)
{
    begin(option, value, 300);
    struct holder first = start(&a, 0);
    CHECK_EQ(result_of(&first), 0);
    mount_tell(&a.mount, "cut");
    struct holder second = start(&b, LONG_MS);
    CHECK_EQ(result_of(&second), 0);
    mount_tell(&a.mount, "mend");
    CHECK_LT(let_go(&first), 0); /* and its release removes nothing */
    CHECK_EQ(access(SERVER "/run.db-lock", F_OK), 0);
    CHECK_EQ(let_go(&second), 0);
    CHECK_LT(access(SERVER "/run.db-lock", F_OK), 0);
    end();
}

TEST(a_machine_comes_back_with_local_locks)
{
    come_back("--locks", "local");
}

TEST(a_machine_comes_back_without_locks)
{
    come_back("--locks", "none");
}

/* NFS reports ESTALE for the old lock file. */
TEST(a_machine_comes_back_to_stale_files)
{
    come_back("--locks=local", "--stale");
}

/* The server still has the lock of the machine, so nothing is decided until that ends. */
TEST(a_machine_that_is_cut_off_keeps_a_shared_lock)
{
    begin("--locks", "shared", 300);
    struct holder first = start(&a, 0);
    CHECK_EQ(result_of(&first), 0);
    mount_tell(&a.mount, "cut");
    struct holder second = start(&b, 1500);
    CHECK_EQ(result_of(&second), GD_E_BUSY);
    CHECK_EQ(let_go(&second), 0);
    mount_tell(&a.mount, "mend");
    CHECK_EQ(let_go(&first), 0);
    end();
}

/* --- at each change --- */

static void clean_server(void)
{
    directory_remove(SERVER "/run.db-lock");
    directory_remove(SERVER "/run.db-lock.next");
    CHECK_EQ(system("rm -f " SERVER "/run.db-lock.*"), 0);
}

/* A lock file of a killed run. */
static void leave_dead_lock(const struct host *on)
{
    struct holder p = start(on, 0);
    CHECK_EQ(result_of(&p), 0);
    kill(p.pid, SIGKILL);
    reap(&p);
}

/* A run takes and releases the lock. It is killed before each of its changes in turn. Another machine succeeds it. */
static void kill_at_each_change(const char *locks, bool dead_before)
{
    bool cut = true;
    unsigned change = 0;
    begin("--locks", locks, 300);
    while (cut) {
        char command[32];
        if (dead_before)
            leave_dead_lock(&a);
        snprintf(command, sizeof command, "cut-at %u", ++change);
        mount_tell(&a.mount, command);
        struct holder first = start(&a, LONG_MS);
        CHECK_EQ(write(first.go, "x", 1), 1);
        cut = mount_await_cut(&a.mount, first.pid);
        if (cut) {
            mount_kill(&a.mount, first.pid);
            close(first.go);
            close(first.results);
        } else {
            reap(&first);
        }
        for (int i = 0; i < 2; i++) { /* the first successor may leave a dead lock file, if the killed run had begun to
                                         remove its own */
            struct holder next = start(&b, LONG_MS);
            CHECK_EQ(result_of(&next), 0);
            CHECK_EQ(let_go(&next), 0);
        }
        clean_server();
    }
    CHECK_GE(change, 5);
    end();
}

TEST(killed_at_each_change_with_shared_locks)
{
    kill_at_each_change("shared", false);
}

TEST(killed_at_each_change_without_locks)
{
    kill_at_each_change("none", false);
}

TEST(killed_at_each_change_while_it_succeeds_another)
{
    kill_at_each_change("none", true);
}

static bool has_both_results(const struct holder *p)
{
    int n = 0;
    CHECK_EQ(ioctl(p->results, FIONREAD, &n), 0);
    return n == (int)(2 * sizeof(int));
}

/* A machine is cut off before each change in turn, and comes back after another one has got the lock. At most one of the
 * two finds that it has the lock. */
static void come_back_at_each_change(const char *locks, bool dead_before)
{
    bool cut = true;
    unsigned change = 0;
    begin("--locks", locks, 300);
    while (cut) {
        char command[32];
        if (dead_before)
            leave_dead_lock(&a);
        snprintf(command, sizeof command, "cut-at %u", ++change);
        mount_tell(&a.mount, command);
        struct holder first = start(&a, 0);
        CHECK_EQ(write(first.go, "x", 1), 1);
        cut = mount_await_cut(&a.mount, first.pid);
        const bool is_checked = has_both_results(&first); /* it is releasing the lock */
        struct holder second = start(&b, LONG_MS);
        CHECK_EQ(result_of(&second), 0);
        mount_tell(&a.mount, "mend");
        const bool first_taken = result_of(&first) == 0, first_kept = result_of(&first) == 0 && first_taken;
        reap(&first);
        const bool second_kept = let_go(&second) == 0;
        if (cut && !is_checked && first_kept && second_kept)
            FAIL("change %u: two runs have the lock", change);
        if (!first_kept && !second_kept)
            FAIL("change %u: no run has the lock", change);
        clean_server();
    }
    CHECK_GE(change, 5);
    end();
}

TEST(back_at_each_change_with_local_locks)
{
    come_back_at_each_change("local", false);
}

TEST(back_at_each_change_without_locks)
{
    come_back_at_each_change("none", false);
}

TEST(back_at_each_change_while_it_succeeds_another)
{
    come_back_at_each_change("none", true);
}

TEST_MAIN()
