/* SPDX-License-Identifier: MIT
 *
 * Which devices are free, how a run waits for free devices, and how its locks affect other runs. Devices are simulated,
 * processes are real.
 */
#include <sched.h>
#include <stdatomic.h>

#include "gpu/claim/claim.h"
#include "gpu/claim/state.h"
#include "gpu/list.h"
#include "support/devices.h"
#include "support/directory.h"

static void enter(const char *simulated)
{
    no_devices();
    directory_enter();
    setenv(GD__ENV_LOCKS, directory_path, 1);
    setenv("GPU_DISPATCH_SIM", simulated, 1);
}

static struct gd_devices *candidates(const char *spec)
{
    struct gd_devices *list = NULL;
    if (gd__devices_open_candidates(&list, spec) < 0)
        FAIL("%s: %s", spec, gd_error_text());
    return list;
}

static const char *free_now(const char *spec)
{
    struct gd_devices *list = devices(spec);
    const char *text = ids(list);
    gd_devices_close(&list);
    return text;
}

/* --- what is free --- */

TEST(a_device_without_processes_and_with_little_memory_in_use_is_free)
{
    enter("3");
    CHECK_STR(free_now("free"), "0 1 2");
    CHECK_STR(free_now("free:2"), "0 1");
}

TEST(up_to_5_percent_of_a_large_memory_may_be_in_use)
{
    enter("2,memory=100G,free=95G/94G");
    CHECK_STR(free_now("free"), "0");
}

TEST(up_to_1_gib_of_a_small_memory_may_be_in_use)
{
    enter("2,memory=8G,free=7G/6G");
    CHECK_STR(free_now("free"), "0");
}

TEST(a_device_on_which_a_process_computes_is_not_free)
{
    char simulated[64];
    snprintf(simulated, sizeof simulated, "3,pid=0/%d/0", (int)getpid());
    enter(simulated);
    CHECK_STR(free_now("free"), "0 2");
}

TEST(more_free_devices_than_there_are_is_an_error)
{
    struct gd_devices *list;
    enter("2");
    CHECK_EQ(gd_devices_open(&list, "free:3"), GD_E_NO_DEVICES);
    CHECK_STR(gd_error_text(), "3 free GPUs were asked for, but only 2 can be used here");
}

TEST(the_number_of_free_devices_must_be_a_number)
{
    static const char *const wrong[] = { "free:", "free:0", "free:x", "free:-1", "free:1025" };
    struct gd_devices *list;
    enter("2");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_EQ(gd_devices_open(&list, wrong[i]), GD_E_INVALID);
        CHECK_CONTAINS(gd_error_text(), "as in \"free:4\"");
    }
}

/* --- claims --- */

static int never(void *user, const char *message)
{
    (void)user;
    if (message)
        FAIL("unexpected note: %s", message);
    return 0;
}

/* Claims without having to wait. */
static struct gd__claim *claim(struct gd_devices *list)
{
    const struct gd__claim_ask ask = { .note = never };
    struct gd__claim *made;
    const int rc = gd__claim_open(&made, list, &ask);
    if (rc < 0)
        FAIL("claim: %s", gd_error_text());
    return made;
}

static struct gd__claim *claim_spec(const char *spec, const char *expected)
{
    struct gd_devices *list = candidates(spec);
    struct gd__claim *made = claim(list);
    CHECK_STR(ids(list), expected);
    gd_devices_close(&list);
    return made;
}

TEST(two_claims_of_one_device_each_never_share)
{
    enter("2");
    struct gd__claim *a = claim_spec("free:1", "0"), *b = claim_spec("free:1", "1");
    CHECK_STR(free_now("free"), "");
    gd__claim_close(&a);
    CHECK_STR(free_now("free"), "0");
    gd__claim_close(&b);
    CHECK_STR(free_now("free"), "0 1");
}

TEST(free_without_a_number_takes_all_that_are_free)
{
    enter("3");
    struct gd__claim *a = claim_spec("free:1", "0"), *b = claim_spec("free", "1 2");
    gd__claim_close(&a);
    gd__claim_close(&b);
}

TEST(simulated_lists_and_cpu_workers_need_no_lock)
{
    enter("2");
    struct gd__claim *all = claim_spec("free:2", "0 1"), *none;
    none = claim_spec("sim:2", "0 1");
    CHECK(none == NULL);
    none = claim_spec("cpu:2", "0 1");
    CHECK(none == NULL);
    gd__claim_close(&all);
}

static char noted[1024];

static int remember(void *user, const char *message)
{
    (void)user;
    if (message)
        snprintf(noted, sizeof noted, "%s", message);
    return 0;
}

TEST(auto_leaves_out_a_device_that_another_run_holds_and_names_it)
{
    const struct gd__claim_ask ask = { .note = remember };
    char who[64];
    enter("2");
    struct gd__claim *held = claim_spec("free:1", "0"), *mine;
    struct gd_devices *list = candidates("auto");
    CHECK_EQ(gd__claim_open(&mine, list, &ask), 0);
    CHECK_STR(ids(list), "1");
    snprintf(who, sizeof who, "GPU 0 is held by process %d (", (int)getpid());
    CHECK_CONTAINS(noted, who);
    CHECK_CONTAINS(noted, "left out");
    gd_devices_close(&list);
    gd__claim_close(&mine);
    gd__claim_close(&held);
}

static void check_refused(const char *spec, const struct gd__claim_ask *ask, const char *expected)
{
    struct gd_devices *list = candidates(spec);
    struct gd__claim *mine;
    CHECK_EQ(gd__claim_open(&mine, list, ask), GD_E_BUSY);
    CHECK_CONTAINS(gd_error_text(), expected);
    CHECK_CONTAINS(gd_error_text(), "--ignore-gpu-locks");
    CHECK(mine == NULL);
    gd_devices_close(&list);
}

TEST(auto_fails_if_other_runs_hold_all_devices)
{
    const struct gd__claim_ask ask = { .note = remember };
    enter("2");
    struct gd__claim *held = claim_spec("free", "0 1");
    check_refused("auto", &ask, "all GPUs are held by other runs: GPU 0 is held by process ");
    gd__claim_close(&held);
}

TEST(a_named_device_that_another_run_holds_is_an_error)
{
    const int one[] = { 1 }, other[] = { 2 };
    const struct gd__claim_ask plain = { .ids = NULL }, by_id = { .ids = one, .n_ids = 1 },
                               fine = { .ids = other, .n_ids = 1 };
    enter("3");
    struct gd__claim *held = claim_spec("free:2", "0 1"), *mine;
    check_refused("1", &plain, "GPU 1 is held by process ");
    check_refused(NULL, &by_id, "GPU 1 is held by process ");
    struct gd_devices *list = candidates(NULL);
    CHECK_EQ(gd__claim_open(&mine, list, &fine), 0);
    gd_devices_close(&list);
    gd__claim_close(&mine);
    gd__claim_close(&held);
}

TEST(locks_can_be_ignored)
{
    const struct gd__claim_ask ask = { .ignore_locks = true, .note = never };
    enter("2");
    struct gd__claim *held = claim_spec("free", "0 1"), *mine;
    struct gd_devices *list = candidates("auto");
    CHECK_EQ(gd__claim_open(&mine, list, &ask), 0);
    CHECK_STR(ids(list), "0 1");
    CHECK(mine == NULL);
    gd_devices_close(&list);
    list = candidates("free");
    CHECK_EQ(gd__claim_open(&mine, list, &ask), GD_E_INVALID);
    gd_devices_close(&list);
    gd__claim_close(&held);
}

TEST(a_run_on_shared_devices_keeps_them_from_being_free)
{
    enter("2");
    struct gd__claim *shared = claim_spec("1", "1"), *also = claim_spec("auto", "0 1");
    CHECK_STR(free_now("free"), "");
    gd__claim_close(&also);
    CHECK_STR(free_now("free"), "0");
    gd__claim_close(&shared);
}

TEST(without_a_directory_for_locks_named_devices_work_and_free_ones_do_not)
{
    const struct gd__claim_ask ask = { .note = remember };
    enter("2");
    setenv(GD__ENV_LOCKS, "nowhere", 1);
    struct gd_devices *list = candidates("auto");
    struct gd__claim *mine;
    CHECK_EQ(gd__claim_open(&mine, list, &ask), 0);
    CHECK_CONTAINS(noted, "the GPUs are not locked: ");
    gd__claim_close(&mine);
    gd_devices_close(&list);
    list = candidates("free");
    CHECK_EQ(gd__claim_open(&mine, list, &ask), GD_E_SYSTEM);
    CHECK_CONTAINS(gd_error_text(), "nowhere");
    gd_devices_close(&list);
}

/* --- runs inside of runs --- */

static void in_child(void (*check)(void))
{
    int status;
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        check();
        _exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
}

static void check_auto_works(void)
{
    struct gd__claim *c = claim_spec("auto", "0 1");
    gd__claim_close(&c);
}

static void check_free_is_refused(void)
{
    const struct gd__claim_ask ask = { .note = never };
    struct gd_devices *list = candidates("free:2");
    struct gd__claim *c;
    CHECK_EQ(gd__claim_open(&c, list, &ask), GD_E_NO_DEVICES);
    CHECK_CONTAINS(gd_error_text(), "the run that this process is part of");
    gd_devices_close(&list);
}

TEST(a_task_may_use_the_device_that_its_own_run_holds)
{
    enter("2");
    struct gd__claim *held = claim_spec("free", "0 1");
    in_child(check_auto_works);
    in_child(check_free_is_refused);
    gd__claim_close(&held);
}

/* --- waiting --- */

struct waited {
    int messages;
    char first[1024];
    void (*act)(struct waited *w, const char *message); /* at each message */
    pid_t process;
    struct gd__claim *held;
    int answer;
};

static int on_wait(void *user, const char *message)
{
    struct waited *w = user;
    if (message) {
        w->messages++;
        if (w->messages == 1)
            snprintf(w->first, sizeof w->first, "%s", message);
        w->act(w, message);
    }
    return w->answer;
}

static int wait_for(const char *spec, struct waited *w, const char *expected)
{
    const struct gd__claim_ask ask = { .note = on_wait, .user = w };
    struct gd_devices *list = candidates(spec);
    struct gd__claim *mine;
    const int rc = gd__claim_open(&mine, list, &ask);
    if (rc == 0)
        CHECK_STR(ids(list), expected);
    gd_devices_close(&list);
    gd__claim_close(&mine);
    return rc;
}

static void release(struct waited *w, const char *message)
{
    (void)message;
    gd__claim_close(&w->held);
}

TEST(a_wait_ends_when_a_run_that_goes_on_releases_its_device)
{
    struct waited w = { .act = release };
    char expected[128];
    enter("2");
    w.held = claim_spec("free", "0 1");
    CHECK_EQ(wait_for("free:1", &w, "0"), 0);
    CHECK_EQ(w.messages, 1);
    snprintf(expected, sizeof expected, "waiting for 1 free GPU: GPU 0 is held by process %d (", (int)getpid());
    CHECK_CONTAINS(w.first, expected);
}

/* Starts a process that holds both devices, or one that only waits. */
static pid_t start(bool holds)
{
    int ready[2];
    char byte;
    CHECK_EQ(pipe2(ready, O_CLOEXEC), 0);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        if (holds)
            (void)claim_spec("free", "0 1");
        CHECK_EQ(write(ready[1], "x", 1), 1);
        for (;;)
            pause();
    }
    close(ready[1]);
    CHECK_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void kill_process(struct waited *w, const char *message)
{
    (void)message;
    CHECK_EQ(kill(w->process, SIGKILL), 0);
}

TEST(a_wait_ends_when_the_holder_is_killed)
{
    enter("2");
    for (int i = 0; i < 20; i++) { /* the kernel reports the close of the file before it releases the lock */
        struct waited w = { .act = kill_process, .process = start(true) };
        CHECK_EQ(wait_for("free:2", &w, "0 1"), 0);
        CHECK_GE(w.messages, 1); /* a second one if only the first of its locks is released yet */
        CHECK_EQ(waitpid(w.process, NULL, 0), w.process);
    }
}

TEST(a_wait_ends_when_the_process_that_computes_ends)
{
    struct waited w = { .act = kill_process };
    char simulated[64], expected[128];
    enter("1");
    w.process = start(false);
    snprintf(simulated, sizeof simulated, "1,pid=%d", (int)w.process);
    setenv("GPU_DISPATCH_SIM", simulated, 1);
    CHECK_EQ(wait_for("free:1", &w, "0"), 0);
    snprintf(expected, sizeof expected, "waiting for 1 free GPU: GPU 0 is used by process %d (", (int)w.process);
    CHECK_CONTAINS(w.first, expected);
    CHECK_EQ(w.messages, 1);
}

static void free_memory(struct waited *w, const char *message)
{
    (void)w, (void)message;
    setenv("GPU_DISPATCH_SIM", "1,memory=16G,free=16G", 1);
}

TEST(a_wait_ends_when_memory_is_freed_although_there_is_no_event_for_that)
{
    struct waited w = { .act = free_memory };
    enter("1,memory=16G,free=2G");
    CHECK_EQ(wait_for("free:1", &w, "0"), 0);
    CHECK_STR(w.first, "waiting for 1 free GPU: 14.0 of 16.0 GiB of GPU 0 are in use");
}

static void check_other_is_not_held(struct waited *w, const char *message)
{
    struct gd__claim *other = claim_spec("free:1", "1");
    (void)message;
    gd__claim_close(&other);
    gd__claim_close(&w->held);
}

TEST(a_run_that_waits_for_two_devices_holds_none_meanwhile)
{
    struct waited w = { .act = check_other_is_not_held };
    enter("2");
    w.held = claim_spec("free:1", "0");
    CHECK_EQ(wait_for("free:2", &w, "0 1"), 0);
    CHECK_CONTAINS(w.first, "waiting for 2 free GPUs (1 free now): GPU 0 is held by ");
}

static void release_then_kill(struct waited *w, const char *message)
{
    (void)message;
    if (w->messages == 1)
        gd__claim_close(&w->held);
    else
        kill_process(w, message);
}

TEST(a_wait_is_reported_once_and_again_after_a_change)
{
    struct waited w = { .act = release_then_kill };
    char simulated[64];
    enter("2");
    w.process = start(false);
    snprintf(simulated, sizeof simulated, "2,pid=0/%d", (int)w.process);
    w.held = claim_spec("free:1", "0");
    setenv("GPU_DISPATCH_SIM", simulated, 1);
    CHECK_EQ(wait_for("free:2", &w, "0 1"), 0);
    CHECK_EQ(w.messages, 2);
}

static void stop(struct waited *w, const char *message)
{
    (void)message;
    w->answer = 1;
}

TEST(the_callback_can_end_the_wait)
{
    struct waited w = { .act = stop };
    enter("1");
    w.held = claim_spec("free", "0");
    CHECK_EQ(wait_for("free:1", &w, ""), GD_E_INTERRUPTED);
    CHECK_CONTAINS(gd_error_text(), "interrupted while waiting for 1 free GPU: GPU 0 is held by process ");
    gd__claim_close(&w.held);
}

static volatile sig_atomic_t signalled;
static int asked, reported;

static void on_signal(int number)
{
    (void)number;
    signalled = 1;
}

/* Sends a signal after the answer to the last question before a sleep is fixed. So the answer does not include it. */
static int signal_after_the_answer(void *user, const char *message)
{
    const int answer = signalled;
    (void)user;
    reported += message != NULL;
    if (!message && asked++ == 0)
        CHECK_EQ(kill(getpid(), SIGINT), 0);
    return answer;
}

TEST(a_signal_just_before_the_sleep_is_not_missed_and_nothing_is_reported_twice)
{
    const struct gd__claim_ask ask = { .note = signal_after_the_answer };
    struct sigaction action = { .sa_handler = on_signal };
    enter("1");
    sigaction(SIGINT, &action, NULL);
    struct gd__claim *held = claim_spec("free", "0"), *mine;
    struct gd_devices *list = candidates("free:1");
    CHECK_EQ(gd__claim_open(&mine, list, &ask), GD_E_INTERRUPTED);
    CHECK_EQ(asked, 2);
    CHECK_EQ(reported, 1);
    gd_devices_close(&list);
    gd__claim_close(&held);
}

TEST(the_end_of_a_process_wakes_without_the_timer)
{
    static const int no_stops[GD__WAITER_STOPS];
    struct gd__waiter w;
    const pid_t pid = start(false);
    gd__waiter_open(&w);
    gd__waiter_begin(&w);
    CHECK(gd__waiter_for_process(&w, pid));
    CHECK(!gd__waiter_for_process(&w, pid));
    CHECK(!w.timer);
    CHECK_EQ(kill(pid, SIGKILL), 0);
    sigset_t none;
    sigemptyset(&none);
    CHECK_EQ(gd__waiter_sleep(&w, no_stops, &none), 1);
    gd__waiter_begin(&w);
    CHECK(!gd__waiter_for_process(&w, pid)); /* the process has ended, so only the timer is left */
    CHECK(w.timer);
    gd__waiter_close(&w);
}

TEST(a_descriptor_can_end_the_wait)
{
    int fds[2];
    enter("1");
    CHECK_EQ(pipe2(fds, O_CLOEXEC), 0);
    CHECK_EQ(write(fds[1], "x", 1), 1);
    const struct gd__claim_ask ask = { .stop_fds = { 0, fds[0] } };
    struct gd__claim *held = claim_spec("free", "0"), *mine;
    struct gd_devices *list = candidates("free:1");
    CHECK_EQ(gd__claim_open(&mine, list, &ask), GD_E_INTERRUPTED);
    gd_devices_close(&list);
    gd__claim_close(&held);
}

TEST_WITHIN(120, many_runs_that_compete_never_share_and_all_get_their_turn)
{
    enum { RUNS = 12, ROUNDS = 10, DEVICES = 3 };
    static atomic_int *users;
    enter("3");
    users = mmap(NULL, sizeof *users * DEVICES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(users != MAP_FAILED);
    for (int run = 0; run < RUNS; run++) {
        const pid_t pid = fork();
        CHECK(pid >= 0);
        for (int round = 0; pid == 0 && round < ROUNDS; round++) {
            const struct gd__claim_ask ask = { .note = remember };
            struct gd_devices *list = candidates(run % 3 ? "free:1" : "free:2");
            struct gd__claim *mine;
            CHECK_EQ(gd__claim_open(&mine, list, &ask), 0);
            CHECK_EQ(list->found.n, run % 3 ? 1u : 2u);
            for (size_t i = 0; i < list->found.n; i++)
                CHECK_EQ(atomic_fetch_add(&users[list->found.items[i].d.id], 1), 0);
            sched_yield();
            for (size_t i = 0; i < list->found.n; i++)
                atomic_fetch_sub(&users[list->found.items[i].d.id], 1);
            gd__claim_close(&mine);
            gd_devices_close(&list);
        }
        if (pid == 0)
            _exit(0);
    }
    for (int run = 0; run < RUNS; run++) {
        int status;
        CHECK(wait(&status) > 0);
        CHECK_EQ(status, 0);
    }
}

TEST_MAIN()
