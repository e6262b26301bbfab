/* The lock of a journal on a file system that several hosts use. $GPU_DISPATCH_LOCK_TEST lets a process pretend to be on
 * another host, and shortens the minute after which a run is given up. */
#include <dirent.h>
#include <gpu_dispatch/error.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sys/inotify.h>

#include "base/clock.h"
#include "base/fault.h"
#include "journal/lock/life.h"
#include "journal/lock/lock.h"
#include "support/directory.h"
#include "support/test.h"

/* So long that nothing is given up during a test. */
#define LONG "stale_ms=3600000"

/* The ways in which a file system can be bad. */
static const char *const worlds[] = { "", ",locks=local", ",locks=none", ",locks=local,links=none",
                                      ",locks=none,links=none" };
enum { WORLDS = sizeof worlds / sizeof *worlds };

/* This process is on that host from now on. */
static void be_on(const char *host, const char *more)
{
    char text[256];
    snprintf(text, sizeof text, "shared=1,host=%s,boot=boot-of-%s,machine=machine-of-%s,%s", host, host, host, more);
    setenv("GPU_DISPATCH_LOCK_TEST", text, 1);
}

/* Starts a process that holds the lock on that host and ends when *end is closed, or is killed. */
static pid_t start_holder(const char *host, const char *more, int *end)
{
    int told[2], stop[2];
    char byte;
    CHECK(pipe2(told, O_CLOEXEC) == 0 && pipe2(stop, O_CLOEXEC) == 0);
    const pid_t pid = fork();
    if (pid == 0) {
        struct gd__journal_lock h;
        close(stop[1]);
        be_on(host, more);
        CHECK_EQ(gd__journal_lock_take(&h, "run.db"), 0);
        CHECK_EQ(write(told[1], "x", 1), 1);
        (void)!read(stop[0], &byte, 1);
        gd__journal_lock_release(&h);
        _exit(0);
    }
    CHECK_EQ(read(told[0], &byte, 1), 1);
    close(told[0]), close(told[1]), close(stop[0]);
    *end = stop[1];
    return pid;
}

static void end_holder(pid_t pid, int end, bool killed)
{
    if (killed)
        kill(pid, SIGKILL);
    close(end);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

static int count_files(const char *beginning)
{
    DIR *d = opendir(".");
    int n = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += strncmp(e->d_name, beginning, strlen(beginning)) == 0;
    closedir(d);
    return n;
}

/* --- the same host --- */

TEST(a_dead_process_of_this_host_is_replaced_at_once)
{
    for (int i = 0; i < WORLDS; i++) {
        directory_enter();
        struct gd__journal_lock h;
        char more[64];
        int end;
        snprintf(more, sizeof more, LONG "%s", worlds[i]);
        end_holder(start_holder("a", more, &end), end, true);
        be_on("a", more);
        if (gd__journal_lock_take(&h, "run.db") < 0)
            FAIL("%s: %s", worlds[i], gd_error_text());
        CHECK(!h.took_over);
        gd__journal_lock_release(&h);
        CHECK_EQ(count_files("run.db"), 0);
    }
}

TEST(a_living_process_of_this_host_is_never_replaced)
{
    for (int i = 0; i < WORLDS; i++) {
        directory_enter();
        struct gd__journal_lock h;
        uint64_t pid;
        char more[64];
        int end;
        snprintf(more, sizeof more, LONG "%s", worlds[i]);
        const pid_t holder = start_holder("a", more, &end);
        be_on("a", more);
        CHECK_EQ(gd__journal_lock_take(&h, "run.db"), GD_E_BUSY);
        CHECK_CONTAINS(gd_error_text(), "is in use by another run (process ");
        CHECK(gd__journal_lock_test("run.db", &pid));
        CHECK_EQ(pid, holder);
        end_holder(holder, end, false);
        CHECK_EQ(count_files("run.db"), 0);
        CHECK_EQ(gd__journal_lock_take(&h, "run.db"), 0);
        gd__journal_lock_release(&h);
    }
}

/* --- a host that was restarted --- */

static void write_lock(const char *words)
{
    const int fd = open("run.db-lock", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    char text[512];
    const int n = snprintf(text, sizeof text, "%-383s\n%020d\n", words, 7);
    CHECK_EQ(write(fd, text, (size_t)n), n);
    close(fd);
}

TEST(the_holder_of_an_earlier_boot_is_gone)
{
    static const struct {
        const char *words;
        bool gone;
    } cases[] = {
        { "77 5 4026531836 boot-before machine-of-a a 0123456789abcdef", true },
        { "77 5 4026531836 boot-before machine-of-b a 0123456789abcdef", false }, /* another host of the same name */
        { "77 5 4026531836 boot-before machine-of-a b 0123456789abcdef", false }, /* installed from the same image */
        { "77 5 4026539999 boot-before machine-of-a a 0123456789abcdef", false }, /* a container */
        { "77 5 4026531836 - machine-of-a a 0123456789abcdef", false },           /* it did not know its boot */
        { "77 5 4026531836 boot-before - a 0123456789abcdef", false },
        { "77 5 4026531836 boot-before", false }, /* version 0.1 */
        { "", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        directory_enter();
        struct gd__journal_lock h;
        uint64_t pid;
        be_on("a", LONG ",space=4026531836");
        write_lock(cases[i].words);
        CHECK_EQ(gd__journal_lock_test("run.db", &pid), !cases[i].gone); /* the file was just written */
        const int rc = gd__journal_lock_take(&h, "run.db");
        if (rc != (cases[i].gone ? 0 : GD_E_BUSY))
            FAIL("case %zu: %d, %s", i, rc, gd_error_text());
        if (rc == 0)
            gd__journal_lock_release(&h);
    }
}

/* On a local file system such a file can only have come with the disk or a copy. */
TEST(on_a_local_file_system_a_free_lock_is_enough)
{
    directory_enter();
    struct gd__journal_lock h;
    uint64_t pid;
    setenv("GPU_DISPATCH_LOCK_TEST", "shared=0," LONG, 1);
    write_lock("77 5 4026531836 boot-of-b machine-of-b b 0123456789abcdef");
    CHECK(!gd__journal_lock_test("run.db", &pid));
    CHECK_EQ(gd__journal_lock_take(&h, "run.db"), 0);
    CHECK(!h.shared);
    gd__journal_lock_release(&h);
}

/* --- another host --- */

struct waiter {
    struct gd__journal_lock *beating; /* beats before every look of the newcomer; NULL: none */
    int looks, messages, stop_at;
    char message[512];
};

static int on_wait(void *user, const char *message)
{
    struct waiter *w = user;
    if (message) {
        w->messages++;
        snprintf(w->message, sizeof w->message, "%s", message);
        return 0;
    }
    if (w->beating)
        gd__heart_beat(w->beating);
    return ++w->looks == w->stop_at;
}

TEST(a_holder_on_another_host_that_beats_is_not_replaced)
{
    for (int i = 1; i < WORLDS; i++) {
        directory_enter();
        struct gd__journal_lock a, b;
        struct waiter w = { .beating = &a };
        const struct gd__journal_lock_ask ask = { .wait_ms = 300, .on_wait = on_wait, .user = &w };
        char more[64];
        snprintf(more, sizeof more, LONG "%s", worlds[i]);
        be_on("a", more);
        CHECK_EQ(gd__journal_lock_take(&a, "run.db"), 0);
        snprintf(more, sizeof more, "stale_ms=60%s", worlds[i]);
        be_on("b", more);
        CHECK_EQ(gd__journal_lock_wait(&b, "run.db", &ask), GD_E_BUSY);
        CHECK_CONTAINS(gd_error_text(), " on a that may be on another host");
        CHECK_EQ(w.messages, 1);
        CHECK_CONTAINS(w.message, "waiting up to 1 s for run.db: another run uses it (process ");
        CHECK_CONTAINS(w.message, " on a)");
        CHECK_GT(w.looks, 0);
        CHECK_EQ(gd__journal_lock_check(&a), 0);
        gd__journal_lock_release(&a);
        CHECK_EQ(count_files("run.db"), 0);
    }
}

TEST(a_holder_on_another_host_that_stands_still_is_given_up)
{
    for (int i = 1; i < WORLDS; i++) {
        directory_enter();
        struct gd__journal_lock a, b, c;
        struct waiter w = { .beating = NULL };
        const struct gd__journal_lock_ask ask = { .wait_ms = 100 * 1000, .on_wait = on_wait, .user = &w };
        char more[64];
        snprintf(more, sizeof more, LONG "%s", worlds[i]);
        be_on("a", more);
        CHECK_EQ(gd__journal_lock_take(&a, "run.db"), 0);
        snprintf(more, sizeof more, "stale_ms=60%s", worlds[i]);
        be_on("b", more);
        CHECK_EQ(gd__journal_lock_take(&b, "run.db"), GD_E_BUSY); /* nothing can be known at once */
        const uint64_t before = gd__now_ns();
        if (gd__journal_lock_wait(&b, "run.db", &ask) < 0)
            FAIL("%s: %s", worlds[i], gd_error_text());
        CHECK(gd__now_ns() - before >= 60 * 1000000);
        CHECK_GT(w.looks, 10);
        CHECK(b.took_over);
        /* The old holder finds out, and does not remove the new file. */
        gd__heart_beat(&a);
        CHECK_LT(gd__journal_lock_check(&a), 0);
        CHECK_CONTAINS(gd_error_text(), "another run took over this journal");
        gd__journal_lock_release(&a);
        CHECK_EQ(count_files("run.db"), 1);
        CHECK_EQ(gd__journal_lock_check(&b), 0);
        CHECK_EQ(gd__journal_lock_take(&c, "run.db"), GD_E_BUSY);
        gd__journal_lock_release(&b);
        CHECK_EQ(count_files("run.db"), 0);
    }
}

/* If the file system's locks work between hosts, a holder that is only stopped is not given up. */
TEST(a_holder_whose_lock_is_seen_is_not_replaced)
{
    directory_enter();
    struct gd__journal_lock a, b;
    struct waiter w = { .beating = NULL };
    const struct gd__journal_lock_ask ask = { .wait_ms = 300, .on_wait = on_wait, .user = &w };
    be_on("a", LONG);
    CHECK_EQ(gd__journal_lock_take(&a, "run.db"), 0);
    be_on("b", "stale_ms=30");
    CHECK_EQ(gd__journal_lock_wait(&b, "run.db", &ask), GD_E_BUSY);
    gd__journal_lock_release(&a);
    CHECK_EQ(gd__journal_lock_take(&b, "run.db"), 0);
    gd__journal_lock_release(&b);
}

/* A look that comes late counts little: if nothing could be read for a minute, the holder could not write either. */
TEST(one_late_look_is_not_enough)
{
    directory_enter();
    struct gd__lock_settings s;
    struct gd__lock_holder holder;
    struct gd__watch w = { .seen_ns = 0 };
    be_on("b", "stale_ms=6000,locks=none");
    gd__lock_settings_read(&s);
    write_lock("77 5 4026531836 boot-of-a machine-of-a a 0123456789abcdef");
    const int fd = open("run.db-lock", O_RDWR | O_CLOEXEC);
    CHECK_EQ(gd__lock_look(fd, &w, &s, true, &holder), GD__HOLDER_ALIVE);
    for (int i = 0; i < 25; i++) {
        CHECK(w.seen_ns > 0);
        w.seen_ns = 1; /* long ago */
        CHECK_EQ(gd__lock_look(fd, &w, &s, true, &holder), GD__HOLDER_ALIVE);
    }
    for (int i = 0; i < 25; i++) {
        w.seen_ns = 1;
        (void)gd__lock_look(fd, &w, &s, true, &holder);
    }
    CHECK_EQ(gd__lock_look(fd, &w, &s, true, &holder), GD__HOLDER_SILENT);
    CHECK(gd__lock_holder_write_beat(fd, 8));
    CHECK_EQ(gd__lock_look(fd, &w, &s, true, &holder), GD__HOLDER_ALIVE);
    CHECK_EQ(w.still_ns, 0);
    close(fd);
}

TEST(a_callback_ends_the_wait)
{
    directory_enter();
    struct gd__journal_lock b;
    struct waiter w = { .stop_at = 2 };
    const struct gd__journal_lock_ask ask = { .wait_ms = 100 * 1000, .on_wait = on_wait, .user = &w };
    be_on("b", "stale_ms=6000,locks=none");
    write_lock("77 5 4026531836 boot-of-a machine-of-a a 0123456789abcdef");
    CHECK_EQ(gd__journal_lock_wait(&b, "run.db", &ask), GD_E_INTERRUPTED);
    CHECK_CONTAINS(gd_error_text(), "interrupted while waiting for the journal's lock");
    CHECK_EQ(w.looks, 2);
    CHECK_EQ(count_files("run.db-lock."), 0);
}

/* An observer cannot wait for heartbeats. It uses the time of the last one. */
TEST(observers_see_a_run_on_another_host)
{
    directory_enter();
    struct gd__lock_seen seen;
    const struct timespec before[] = { { .tv_sec = time(NULL) - 1000 }, { .tv_sec = time(NULL) - 1000 } };
    be_on("b", "locks=local");
    write_lock("77 5 4026531836 boot-of-a machine-of-a a 0123456789abcdef");
    gd__journal_lock_see("run.db", &seen);
    CHECK(seen.held);
    CHECK_EQ(seen.pid, 77);
    CHECK(seen.quiet_seconds < 60);
    CHECK_EQ(utimensat(AT_FDCWD, "run.db-lock", before, 0), 0);
    gd__journal_lock_see("run.db", &seen);
    CHECK(!seen.held);
    /* If its lock is seen, it is alive however quiet it is. */
    struct gd__journal_lock a;
    CHECK_EQ(unlink("run.db-lock"), 0);
    be_on("a", LONG);
    CHECK_EQ(gd__journal_lock_take(&a, "run.db"), 0);
    CHECK_EQ(utimensat(AT_FDCWD, "run.db-lock", before, 0), 0);
    be_on("b", "");
    gd__journal_lock_see("run.db", &seen);
    CHECK(seen.held);
    CHECK(seen.quiet_seconds > 900);
    gd__journal_lock_release(&a);
    gd__journal_lock_see("run.db", &seen);
    CHECK(!seen.held);
}

/* --- the heartbeat --- */

static uint64_t beat_in_file(void)
{
    struct gd__lock_holder holder;
    const int fd = open("run.db-lock", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    gd__lock_holder_read(fd, &holder);
    close(fd);
    return holder.beat;
}

TEST(a_holder_beats)
{
    directory_enter();
    struct gd__journal_lock h;
    char events[4096];
    be_on("a", "stale_ms=20");
    CHECK_EQ(gd__journal_lock_take(&h, "run.db"), 0);
    const int watch = inotify_init1(IN_CLOEXEC);
    CHECK(watch >= 0 && inotify_add_watch(watch, "run.db-lock", IN_MODIFY) >= 0);
    const uint64_t before = beat_in_file();
    while (beat_in_file() < before + 5)
        CHECK_GT(read(watch, events, sizeof events), 0);
    CHECK_EQ(gd__journal_lock_check(&h), 0);
    gd__journal_lock_release(&h);
    close(watch);
}

TEST(a_heartbeat_that_cannot_be_written_does_not_end_the_run)
{
    directory_enter();
    struct gd__journal_lock h;
    be_on("a", LONG);
    CHECK_EQ(gd__journal_lock_take(&h, "run.db"), 0);
    gd__fault_begin(1);
    gd__heart_beat(&h);
    gd__fault_begin(0);
    CHECK_EQ(h.heart.error, ENOMEM);
    CHECK_EQ(gd__journal_lock_check(&h), 0);
    gd__heart_beat(&h);
    CHECK_EQ(h.heart.error, 0);
    CHECK_EQ(unlink("run.db-lock"), 0);
    gd__heart_beat(&h);
    CHECK_LT(gd__journal_lock_check(&h), 0);
    gd__journal_lock_release(&h);
}

/* --- waiting --- */

struct release {
    struct gd__journal_lock *held;
    pid_t pid; /* is killed */
    int looks;
};

static int release_on_wait(void *user, const char *message)
{
    struct release *r = user;
    if (message || r->looks++ > 0)
        return 0;
    if (r->held)
        gd__journal_lock_release(r->held);
    if (r->pid > 0)
        kill(r->pid, SIGKILL);
    return 0;
}

/* The newcomer would look again only after a minute, and gives up before: an event must wake it. */
TEST(the_end_of_the_holder_ends_the_wait)
{
    for (int killed = 0; killed < 2; killed++) {
        directory_enter();
        struct gd__journal_lock a, b;
        struct release r = { .held = killed ? NULL : &a };
        const struct gd__journal_lock_ask ask = { .wait_ms = 50 * 1000, .on_wait = release_on_wait, .user = &r };
        int end = -1;
        setenv("GPU_DISPATCH_LOCK_TEST", "shared=0," LONG, 1);
        if (killed) {
            r.pid = start_holder("a", LONG, &end);
            be_on("a", LONG);
        } else {
            CHECK_EQ(gd__journal_lock_take(&a, "run.db"), 0);
        }
        const uint64_t before = gd__now_ns();
        if (gd__journal_lock_wait(&b, "run.db", &ask) < 0)
            FAIL("%s", gd_error_text());
        CHECK(gd__now_ns() - before < UINT64_C(49) * 1000000000);
        gd__journal_lock_release(&b);
        if (killed)
            end_holder(r.pid, end, true);
    }
}

TEST(a_descriptor_ends_the_wait)
{
    directory_enter();
    struct gd__journal_lock a, b;
    int stop[2];
    CHECK_EQ(pipe2(stop, O_CLOEXEC), 0);
    CHECK_EQ(gd__journal_lock_take(&a, "run.db"), 0);
    close(stop[1]);
    const struct gd__journal_lock_ask ask = { .wait_ms = 3600 * 1000, .stop_fd = stop[0] };
    CHECK_EQ(gd__journal_lock_wait(&b, "run.db", &ask), GD_E_INTERRUPTED);
    gd__journal_lock_release(&a);
    close(stop[0]);
}

static volatile sig_atomic_t got_signal;

static void note_signal(int number)
{
    got_signal = number;
}

static int stop_on_signal(void *user, const char *message)
{
    (void)user;
    if (!message && !got_signal)
        kill(getpid(), SIGINT); /* blocked here: it arrives in the sleep */
    return got_signal != 0;
}

TEST(a_signal_ends_the_wait)
{
    directory_enter();
    struct gd__journal_lock a, b;
    const struct gd__journal_lock_ask ask = { .wait_ms = 3600 * 1000, .on_wait = stop_on_signal };
    setenv("GPU_DISPATCH_LOCK_TEST", LONG, 1);
    CHECK(signal(SIGINT, note_signal) != SIG_ERR);
    CHECK_EQ(gd__journal_lock_take(&a, "run.db"), 0);
    CHECK_EQ(gd__journal_lock_wait(&b, "run.db", &ask), GD_E_INTERRUPTED);
    CHECK_EQ(got_signal, SIGINT);
    gd__journal_lock_release(&a);
}

/* --- several newcomers --- */

/* Ends the wait when the dead file has been replaced. */
static int while_dead(void *user, const char *message)
{
    struct gd__lock_holder holder;
    (void)user;
    if (message)
        return 0;
    const int fd = open("run.db-lock", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    gd__lock_holder_read(fd, &holder);
    close(fd);
    return strcmp(holder.nonce, "0123456789abcdef") != 0;
}

static bool try_to_take(int number, const char *world)
{
    struct gd__journal_lock h;
    const struct gd__journal_lock_ask ask = { .wait_ms = 600 * 1000, .on_wait = while_dead };
    char more[64], host[16];
    snprintf(more, sizeof more, "stale_ms=60%s", world);
    snprintf(host, sizeof host, "host%d", number);
    be_on(host, more);
    return gd__journal_lock_wait(&h, "run.db", &ask) == 0;
}

TEST(only_one_of_many_hosts_gets_a_dead_lock)
{
    enum { ROUNDS = 2, TAKERS = 6 };
    for (int round = 0; round < ROUNDS * WORLDS; round++) {
        directory_enter();
        write_lock("77 5 4026531836 boot-of-a machine-of-a a 0123456789abcdef");
        int go[2], told[2], stop[2], got = 0;
        CHECK(pipe2(go, O_CLOEXEC) == 0 && pipe2(told, O_CLOEXEC) == 0 && pipe2(stop, O_CLOEXEC) == 0);
        pid_t takers[TAKERS];
        for (int i = 0; i < TAKERS; i++) {
            takers[i] = fork();
            if (takers[i] == 0) {
                char byte;
                close(go[1]);
                close(stop[1]);
                (void)!read(go[0], &byte, 1); /* end of file: releases all of them at once */
                const char mine = try_to_take(i, worlds[round % WORLDS]);
                CHECK_EQ(write(told[1], &mine, 1), 1);
                (void)!read(stop[0], &byte, 1);
                _exit(0);
            }
        }
        close(go[1]);
        for (int i = 0; i < TAKERS; i++) {
            char mine;
            CHECK_EQ(read(told[0], &mine, 1), 1);
            got += mine;
        }
        if (got != 1)
            FAIL("%d processes got the lock (%s)", got, worlds[round % WORLDS]);
        CHECK_EQ(count_files("run.db"), 1);
        close(stop[1]);
        for (int i = 0; i < TAKERS; i++)
            CHECK_EQ(waitpid(takers[i], NULL, 0), takers[i]);
        close(go[0]), close(told[0]), close(told[1]), close(stop[0]);
    }
}

static void write_own(const char *name, const char *host)
{
    struct gd__lock_holder holder;
    be_on(host, LONG);
    const int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    gd__lock_holder_self(&holder);
    CHECK(gd__lock_holder_write(fd, &holder));
    close(fd);
}

/* If the disk fails, a run may be unable to remove its lock file. Then its own readers do not wait for it. */
TEST(a_file_that_this_process_has_left_is_not_held)
{
    uint64_t pid;
    directory_enter();
    write_own("run.db-lock", "b");
    be_on("a", LONG);
    CHECK(gd__journal_lock_test("run.db", &pid));
    CHECK_EQ(unlink("run.db-lock"), 0);
    write_own("run.db-lock", "a");
    CHECK(!gd__journal_lock_test("run.db", &pid));
}

/* While a run replaces the lock file, or removes it, no other one does. */
TEST(a_file_that_is_being_replaced_is_left_alone)
{
    for (int i = 0; i < 2 * WORLDS; i++) {
        directory_enter();
        struct gd__journal_lock h, other;
        char more[64];
        int end;
        snprintf(more, sizeof more, LONG "%s", worlds[i / 2]);
        end_holder(start_holder("a", more, &end), end, true);
        write_own("run.db-lock.next",
                  i % 2 ? "a" : "b"); /* by this process, which is alive, or by one on another host */
        be_on("a", more);
        CHECK_EQ(gd__journal_lock_take(&h, "run.db"), GD_E_BUSY);
        CHECK_EQ(unlink("run.db-lock.next"), 0);
        CHECK_EQ(gd__journal_lock_take(&h, "run.db"), 0);
        write_own("run.db-lock.next", i % 2 ? "a" : "b");
        be_on("a", more);
        gd__journal_lock_release(&h);
        CHECK_EQ(access("run.db-lock", F_OK), 0);
        CHECK_EQ(gd__journal_lock_take(&other, "run.db"), GD_E_BUSY);
    }
}

/* A newcomer that is killed while it replaces a file leaves a name behind. */
TEST(a_newcomer_that_is_killed_blocks_nobody)
{
    static const char *const points[] = { "lock_next", "lock_replaced" };
    for (int i = 0; i < 2 * WORLDS; i++) {
        directory_enter();
        struct gd__journal_lock h;
        char more[64];
        int end, status;
        snprintf(more, sizeof more, LONG "%s", worlds[i / 2]);
        end_holder(start_holder("a", more, &end), end, true);
        be_on("a", more);
        const pid_t pid = fork();
        if (pid == 0) {
            setenv("GD_KILL_DISPATCHER", points[i % 2], 1);
            gd__fault_read_kill();
            gd__journal_lock_take(&h, "run.db");
            _exit(0);
        }
        CHECK_EQ(waitpid(pid, &status, 0), pid);
        CHECK(WIFSIGNALED(status));
        CHECK_EQ(access("run.db-lock.next", F_OK), 0);
        if (gd__journal_lock_take(&h, "run.db") < 0)
            FAIL("%s: %s", worlds[i / 2], gd_error_text());
        gd__journal_lock_release(&h);
        CHECK(access("run.db-lock", F_OK) < 0 && access("run.db-lock.next", F_OK) < 0);
    }
}

TEST_MAIN()
