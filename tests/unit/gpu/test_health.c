/* SPDX-License-Identifier: MIT
 *
 * Reports of failing devices: from simulated devices through a FIFO or a file, and from a library that looks like NVML.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "gpu/device.h"
#include "support/devices.h"

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#define UNDER_TSAN __has_feature(thread_sanitizer)
#else
#define UNDER_TSAN 0
#endif

static char path[80];

static void remove_path(void)
{
    unlink(path);
}

static void begin(bool fifo)
{
    no_devices();
    snprintf(path, sizeof path, "/tmp/gd-health-%d", (int)getpid());
    unlink(path); /* an earlier process with this id may have left it */
    const int fd = fifo ? mkfifo(path, 0600) : open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    CHECK_GE(fd, 0);
    if (!fifo)
        close(fd);
    atexit(remove_path);
}

static void say(const char *lines)
{
    const int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    CHECK_GE(fd, 0);
    CHECK_EQ(write(fd, lines, strlen(lines)), strlen(lines));
    close(fd);
}

/* Stores reports as lines in a pipe. next_report() waits for the next line. */
struct listener {
    int ends[2];
};

static void store_report(void *user, const char *uuid, enum gd__health health, const char *why)
{
    const struct listener *e = user;
    char line[256];
    const int n = snprintf(line, sizeof line, "%s: %s%s\n", uuid, why, health == GD__HEALTH_RESTART ? ": restart" : "");
    CHECK_EQ(write(e->ends[1], line, (size_t)n), n);
}

static void open_listener(struct listener *e)
{
    CHECK_EQ(pipe2(e->ends, O_CLOEXEC), 0);
}

static const char *next_report(struct listener *e)
{
    static char line[256];
    size_t n = 0;
    while (n < sizeof line - 1 && read(e->ends[0], line + n, 1) == 1 && line[n] != '\n')
        n++;
    line[n] = '\0';
    return line;
}

static const char *sim_uuid(size_t i)
{
    static char uuid[96];
    struct gd_devices *list = devices("sim:8");
    snprintf(uuid, sizeof uuid, "%s", device(list, i).uuid);
    gd_devices_close(&list);
    return uuid;
}

static const char *expected(const char *uuid, const char *why)
{
    static char line[256];
    snprintf(line, sizeof line, "%s: %s", uuid, why);
    return line;
}

TEST(nothing_to_watch)
{
    struct listener e;
    no_devices();
    open_listener(&e);
    CHECK_EQ(gd__health_subscribe(store_report, &e), GD_E_UNSUPPORTED);
    setenv("GPU_DISPATCH_SIM_XID", NOWHERE, 1);
    CHECK_EQ(gd__health_subscribe(store_report, &e), GD_E_UNSUPPORTED);
    gd__health_unsubscribe(GD_E_UNSUPPORTED);
    gd__health_unsubscribe(12345);
}

static void check_simulated(bool fifo)
{
    struct listener e;
    begin(fifo);
    setenv("GPU_DISPATCH_SIM_XID", path, 1);
    open_listener(&e);
    const int token = gd__health_subscribe(store_report, &e);
    CHECK_GE(token, 0);
    say("2 79\n");
    CHECK_STR(next_report(&e), expected(sim_uuid(2), "Xid 79 (GPU has fallen off the bus)"));
    say("GPU-by-name 12345\n"); /* the first writer has closed the file before */
    CHECK_STR(next_report(&e), "GPU-by-name: Xid 12345");
    gd__health_unsubscribe(token);
}

TEST(from_a_fifo)
{
    check_simulated(true);
}

TEST(from_a_file)
{
    check_simulated(false);
}

TEST(earlier_lines_of_a_file)
{
    struct listener e;
    begin(false);
    say("0 48\n1 74");
    setenv("GPU_DISPATCH_SIM_XID", path, 1);
    open_listener(&e);
    CHECK_GE(gd__health_subscribe(store_report, &e), 0);
    CHECK_STR(next_report(&e), expected(sim_uuid(0), "Xid 48 (double-bit ECC error)"));
    say("0\n"); /* completes the line "1 74" */
    CHECK_STR(next_report(&e), expected(sim_uuid(1), "Xid 740"));
}

TEST(errors_of_the_application_are_not_reported)
{
    struct listener e;
    begin(true);
    setenv("GPU_DISPATCH_SIM_XID", path, 1);
    open_listener(&e);
    CHECK_GE(gd__health_subscribe(store_report, &e), 0);
    say("0 13\n0 31\n0 32\n0 43\n0 45\n0 69\nrubbish\n\n0\n0 x\n9999999 79\n0 0\n1 94\n");
    CHECK_STR(next_report(&e), expected(sim_uuid(1), "Xid 94 (contained ECC error): restart"));
}

/* Errors of NVIDIA's catalogue, grouped by the action that it recommends. */
TEST(errors_have_the_effect_that_the_catalogue_recommends)
{
    static const unsigned ignored[] = { 37, 38, 43, 44, 45, 63, 66, 67, 92, 93, 106, 121, 137, 141, 154, 157, 160 };
    static const unsigned restart[] = { 8, 39, 41, 60, 68, 70, 77, 82, 94, 96, 105, 126, 135, 139 };
    static const unsigned retire[] = {
        46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 151, 155, 156, 158
    };
    struct listener e;
    char line[64];
    begin(true);
    setenv("GPU_DISPATCH_SIM_XID", path, 1);
    open_listener(&e);
    CHECK_GE(gd__health_subscribe(store_report, &e), 0);
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
        snprintf(line, sizeof line, "X %u\n", ignored[i]);
        say(line);
    }
    for (size_t i = 0; i < sizeof restart / sizeof *restart; i++) {
        snprintf(line, sizeof line, "X %u\n", restart[i]);
        say(line);
        snprintf(line, sizeof line, "X: Xid %u (", restart[i]);
        const char *text = next_report(&e);
        CHECK(strncmp(text, line, strlen(line)) == 0);
        CHECK_CONTAINS(text, "): restart");
    }
    for (size_t i = 0; i < sizeof retire / sizeof *retire; i++) {
        snprintf(line, sizeof line, "X %u\n", retire[i]);
        say(line);
        snprintf(line, sizeof line, "X: Xid %u (", retire[i]);
        const char *text = next_report(&e);
        CHECK(strncmp(text, line, strlen(line)) == 0);
        CHECK(!strstr(text, "restart"));
    }
}

TEST(instances_of_a_failed_gpu)
{
    struct listener e;
    begin(true);
    setenv("GPU_DISPATCH_SIM_XID", path, 1);
    open_listener(&e);
    CHECK_GE(gd__health_subscribe(store_report, &e), 0);
    char gpu[96];
    snprintf(gpu, sizeof gpu, "%s", sim_uuid(1));
    setenv("GPU_DISPATCH_SIM", "2,mig=0/2", 1);
    struct gd_devices *list = devices("auto");
    say("1 79\n");
    CHECK_STR(next_report(&e), expected(gpu, "Xid 79 (GPU has fallen off the bus)"));
    CHECK_STR(next_report(&e), expected(device(list, 1).uuid, "Xid 79 (GPU has fallen off the bus)"));
    CHECK_STR(next_report(&e), expected(device(list, 2).uuid, "Xid 79 (GPU has fallen off the bus)"));
    gd_devices_close(&list);
}

TEST(every_subscriber_gets_reports_until_it_unsubscribes)
{
    struct listener a, b;
    begin(true);
    setenv("GPU_DISPATCH_SIM_XID", path, 1);
    open_listener(&a);
    open_listener(&b);
    const int first = gd__health_subscribe(store_report, &a), second = gd__health_subscribe(store_report, &b);
    CHECK(first >= 0 && second >= 0 && first != second);
    say("X 1\n");
    CHECK_STR(next_report(&a), "X: Xid 1");
    CHECK_STR(next_report(&b), "X: Xid 1");
    gd__health_unsubscribe(first);
    say("X 2\n");
    CHECK_STR(next_report(&b), "X: Xid 2");
    const int third = gd__health_subscribe(store_report, &a);
    CHECK_GE(third, 0);
    say("X 3\n");
    CHECK_STR(next_report(&a), "X: Xid 3"); /* not 2 */
    gd__health_unsubscribe(second);
    gd__health_unsubscribe(third);
}

/* A callback that waits until the test releases it. */
struct gate {
    int entered[2], leave[2];
    int calls, token;
    _Atomic int leaver; /* id of the thread that unsubscribes */
    _Atomic bool left;
};

static void wait_at_gate(void *user, const char *uuid, enum gd__health health, const char *why)
{
    struct gate *g = user;
    char byte;
    (void)uuid, (void)health, (void)why;
    g->calls++;
    CHECK_EQ(write(g->entered[1], "x", 1), 1);
    CHECK_EQ(read(g->leave[0], &byte, 1), 1);
}

static void *unsubscribe_in_thread(void *user)
{
    struct gate *g = user;
    g->leaver = gettid();
    gd__health_unsubscribe(g->token);
    g->left = true;
    return NULL;
}

static bool sleeps(int tid)
{
    char file[64], state = '?';
    snprintf(file, sizeof file, "/proc/self/task/%d/stat", tid);
    FILE *f = fopen(file, "re");
    if (f) {
        CHECK_GE(fscanf(f, "%*d (%*[^)]) %c", &state), 0); /* NOLINT(cert-err34-c) */
        fclose(f);
    }
    return state == 'S';
}

/* Waits until all other threads of this process sleep. If a thread is inside an allocation during a fork, the allocator
 * of a sanitizer may stay locked in the child. */
static void await_others_asleep(void)
{
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (const struct dirent *e; (e = readdir(tasks));) {
        const int tid = atoi(e->d_name);
        while (tid > 0 && tid != gettid() && !sleeps(tid))
            sched_yield();
    }
    closedir(tasks);
}

TEST(unsubscribing_waits_for_a_call_in_progress)
{
    struct gate g = { .calls = 0 };
    pthread_t thread;
    char byte;
    begin(true);
    setenv("GPU_DISPATCH_SIM_XID", path, 1);
    CHECK_EQ(pipe2(g.entered, O_CLOEXEC), 0);
    CHECK_EQ(pipe2(g.leave, O_CLOEXEC), 0);
    g.token = gd__health_subscribe(wait_at_gate, &g);
    CHECK_GE(g.token, 0);
    say("X 1\n");
    CHECK_EQ(read(g.entered[0], &byte, 1), 1);
    CHECK_EQ(pthread_create(&thread, NULL, unsubscribe_in_thread, &g), 0);
    while (!g.left && !(g.leaver && sleeps(g.leaver)))
        sched_yield();
    CHECK(!g.left);
    say("X 2\n"); /* must not be reported, although it is read before the other thread wakes up */
    CHECK_EQ(write(g.leave[1], "y", 1), 1);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(g.calls, 1);
    struct listener e;
    open_listener(&e);
    CHECK_GE(gd__health_subscribe(store_report, &e), 0);
    say("X 3\n");
    while (strcmp(next_report(&e), "X: Xid 3") != 0)
        ;
    CHECK_EQ(g.calls, 1);
}

static int own_token;

static void unsubscribe_at_once(void *user, const char *uuid, enum gd__health health, const char *why)
{
    gd__health_unsubscribe(own_token);
    store_report(user, uuid, health, why);
}

TEST(a_callback_may_unsubscribe_itself)
{
    struct listener a, b;
    begin(true);
    setenv("GPU_DISPATCH_SIM_XID", path, 1);
    open_listener(&a);
    open_listener(&b);
    CHECK_GE(gd__health_subscribe(store_report, &b), 0);
    own_token = gd__health_subscribe(unsubscribe_at_once, &a);
    CHECK_GE(own_token, 0);
    say("X 1\nX 2\n");
    CHECK_STR(next_report(&b), "X: Xid 1");
    CHECK_STR(next_report(&b), "X: Xid 2");
    CHECK_STR(next_report(&a), "X: Xid 1");
    CHECK_EQ(fcntl(a.ends[0], F_SETFL, O_NONBLOCK), 0);
    CHECK_STR(next_report(&a), "");
}

TEST(a_forked_child_may_subscribe_again)
{
    struct listener mine, theirs;
    if (UNDER_TSAN)
        SKIP("ThreadSanitizer does not allow threads after a fork");
    begin(true);
    setenv("GPU_DISPATCH_SIM_XID", path, 1);
    open_listener(&mine);
    open_listener(&theirs);
    const int token = gd__health_subscribe(store_report, &mine);
    CHECK_GE(token, 0);
    char own[80];
    snprintf(own, sizeof own, "/tmp/gd-health-%d-child", (int)getpid());
    unlink(own);
    CHECK_EQ(mkfifo(own, 0600), 0);
    say("X 4\n");
    CHECK_STR(next_report(&mine), "X: Xid 4"); /* the thread is running */
    await_others_asleep();
    const pid_t pid = fork();
    if (pid == 0) {
        gd__health_unsubscribe(token);
        setenv("GPU_DISPATCH_SIM_XID", own, 1);
        CHECK_GE(gd__health_subscribe(store_report, &theirs), 0);
        snprintf(path, sizeof path, "%s", own);
        say("X 5\n");
        CHECK_STR(next_report(&theirs), "X: Xid 5");
        exit(0);
    }
    int status = 0;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    unlink(own);
    CHECK_EQ(status, 0);
    say("X 6\n");
    CHECK_STR(next_report(&mine), "X: Xid 6");
}

/* The thread that got the signal. It must be the main thread, because the watching thread blocks signals. */
static volatile sig_atomic_t taken_by;

static void take_signal(int signal)
{
    (void)signal;
    taken_by = (sig_atomic_t)gettid();
}

TEST(the_watching_thread_blocks_signals)
{
    struct listener e;
    sigset_t usr1, before;
    begin(true);
    setenv("GPU_DISPATCH_SIM_XID", path, 1);
    open_listener(&e);
    signal(SIGUSR1, take_signal);
    CHECK_GE(gd__health_subscribe(store_report, &e), 0);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr1, &before); /* now only another thread could get the signal */
    kill(getpid(), SIGUSR1);
    say("X 1\n");
    CHECK_STR(next_report(&e), "X: Xid 1");
    CHECK_EQ(taken_by, 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CHECK_EQ(taken_by, gettid());
}

TEST(no_thread_can_be_started)
{
    struct listener e;
    begin(true);
    setenv("GPU_DISPATCH_SIM_XID", path, 1);
    open_listener(&e);
    int rc, failures = 0;
    for (unsigned long nth = 1;; nth++) {
        gd__fault_begin(nth);
        rc = gd__health_subscribe(store_report, &e);
        gd__fault_begin(0);
        if (rc >= 0)
            break;
        CHECK(rc == GD_E_NO_MEMORY || rc == GD_E_UNSUPPORTED);
        failures++;
    }
    CHECK_EQ(failures, 2); /* the allocation of the subscription, and the start of the thread */
    say("X 1\n");
    CHECK_STR(next_report(&e), "X: Xid 1");
}

/* --- NVML --- */

static void use_nvml(const char *library)
{
    char file[4096];
    begin(true);
    snprintf(file, sizeof file, "%s/%s.so", getenv("GD_TEST_PLUGINS"), library);
    setenv("GPU_DISPATCH_NVML", file, 1);
    setenv("FAKE_NVML_EVENTS", path, 1);
    CHECK_GE(open(path, O_RDWR | O_CLOEXEC), 0); /* so that the FIFO keeps its content while it has no other reader */
}

TEST(nvml_events)
{
    struct listener e;
    use_nvml("fake_nvml");
    open_listener(&e);
    CHECK_GE(gd__health_subscribe(store_report, &e), 0);
    say("0 31\n1 79\n");
    CHECK_STR(next_report(&e), "GPU-fa1: Xid 79 (GPU has fallen off the bus)");
}

TEST(nvml_events_of_an_old_library)
{
    struct listener e;
    use_nvml("fake_nvml_old");
    open_listener(&e);
    CHECK_GE(gd__health_subscribe(store_report, &e), 0);
    say("1 48\n");
    CHECK_STR(next_report(&e), "GPU-fa1: Xid 48 (double-bit ECC error)");
}

TEST(nvml_without_events)
{
    struct listener e;
    use_nvml("fake_nvml_bare");
    open_listener(&e);
    CHECK_EQ(gd__health_subscribe(store_report, &e), GD_E_UNSUPPORTED);
}

TEST(nvml_whose_devices_have_no_events)
{
    struct listener e;
    use_nvml("fake_nvml");
    unsetenv("FAKE_NVML_EVENTS");
    open_listener(&e);
    CHECK_EQ(gd__health_subscribe(store_report, &e), GD_E_UNSUPPORTED);
    CHECK_EQ(gd__health_subscribe(store_report, &e), GD_E_UNSUPPORTED);
}

TEST(nvml_instances)
{
    struct listener e;
    use_nvml("fake_nvml");
    setenv("FAKE_NVML_MIG", "1:3", 1);
    open_listener(&e);
    CHECK_GE(gd__health_subscribe(store_report, &e), 0);
    say("1 94 4 0\n"); /* an error of one instance */
    CHECK_STR(next_report(&e), "MIG-fa11: Xid 94 (contained ECC error): restart");
    say("1 95\n"); /* an error of the whole GPU */
    CHECK_STR(next_report(&e), "GPU-fa1: Xid 95 (uncontained ECC error)");
    CHECK_STR(next_report(&e), "MIG-fa10: Xid 95 (uncontained ECC error)");
    CHECK_STR(next_report(&e), "MIG-fa11: Xid 95 (uncontained ECC error)");
    CHECK_STR(next_report(&e), "MIG-fa12: Xid 95 (uncontained ECC error)");
}

TEST(nvml_loses_a_gpu_and_still_watches_the_others)
{
    struct listener e;
    use_nvml("fake_nvml");
    open_listener(&e);
    CHECK_GE(gd__health_subscribe(store_report, &e), 0);
    say("1 0\n");
    CHECK_STR(next_report(&e), "GPU-fa1: the driver has lost the GPU");
    say("0 79\n"); /* NVML cannot give the name of either GPU any more */
    CHECK_STR(next_report(&e), "GPU-fa0: Xid 79 (GPU has fallen off the bus)");
}

TEST(nvml_gpu_lost_with_its_instances)
{
    struct listener e;
    use_nvml("fake_nvml");
    setenv("FAKE_NVML_MIG", "1:3", 1);
    open_listener(&e);
    CHECK_GE(gd__health_subscribe(store_report, &e), 0);
    say("1 79 4 0\n"); /* the instance can no longer be determined: report the whole GPU */
    CHECK_STR(next_report(&e), "GPU-fa1: Xid 79 (GPU has fallen off the bus)");
}

TEST_MAIN()
