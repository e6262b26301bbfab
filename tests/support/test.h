/* SPDX-License-Identifier: MIT
 *
 * The test framework: one program per module, many small named cases.
 *
 *     #include "support/test.h"
 *
 *     TEST(adds_up) { CHECK_EQ(add(1, 2), 3); }
 *     TEST_WITHIN(300, takes_long) { ... }            // seconds
 *     TEST(needs_a_gpu) { if (!gpu()) SKIP("no GPU"); ... }
 *     TEST_MAIN()
 *
 * Each case runs in a forked child with its own process group and a time limit (60 s, five times as long under
 * sanitizers, or GD_TEST_TIMEOUT seconds for every case). After the case, all processes that it has left behind are
 * killed, so that it cannot disturb the next case. The runner enforces the limit, because a case may block or handle
 * SIGALRM. A case fails if a CHECK fails in it or in a process forked from it, if its exit code is not 0 (sanitizers
 * use that), or if a signal kills it.
 *
 * `./test_x` runs all cases, `./test_x a b` runs those two, `./test_x -l` lists them. The last line is `N passed, N
 * failed`, with `, N skipped` if cases were skipped. The exit code is 1 on failure, 77 if every case was skipped.
 */
#ifndef GD_TESTS_SUPPORT_TEST_H
#define GD_TESTS_SUPPORT_TEST_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TEST_UNUSED  __attribute__((unused))
#define TEST_SKIPPED 77

struct test_case {
    const char *name;
    void (*run)(void);
    int limit_s; /* 0: the default */
    struct test_case *next;
};

/* The outcome of a case, shared with the runner. Only the first failure of all processes is stored. */
struct test_verdict {
    int failed;
    char text[1000];
};

static struct test_case *test_first;
static struct test_case **test_last = &test_first;
/* Weak, so that all source files of a program share one variable. A check may fail in any of these files. */
__attribute__((weak)) struct test_verdict *test_verdict;

static inline void test_register(struct test_case *c)
{
    *test_last = c;
    test_last = &c->next;
}

#define TEST_WITHIN(seconds, id)                                                 \
    static void test_run_##id(void);                                             \
    static struct test_case test_case_##id = { #id, test_run_##id, seconds, 0 }; \
    __attribute__((constructor)) static void test_register_##id(void)            \
    {                                                                            \
        test_register(&test_case_##id);                                          \
    }                                                                            \
    static void test_run_##id(void)

#define TEST(id) TEST_WITHIN(0, id)

/* --- checks ------------------------------------------------------------- */

__attribute__((format(printf, 3, 4), noreturn)) TEST_UNUSED static void test_fail(const char *file, int line,
                                                                                  const char *format, ...)
{
    int none = 0;
    if (test_verdict &&
        __atomic_compare_exchange_n(&test_verdict->failed, &none, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        char what[800];
        va_list args;
        va_start(args, format);
        vsnprintf(what, sizeof what, format, args);
        va_end(args);
        const char *base = strrchr(file, '/');
        snprintf(test_verdict->text, sizeof test_verdict->text, "%s:%d: %s", base ? base + 1 : file, line, what);
    }
    fflush(NULL);
    _exit(1);
}

__attribute__((noreturn)) TEST_UNUSED static void test_skip(const char *why)
{
    snprintf(test_verdict->text, sizeof test_verdict->text, "%s", why);
    fflush(NULL);
    _exit(TEST_SKIPPED);
}

TEST_UNUSED static bool test_same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

#define FAIL(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)
#define SKIP(why) test_skip(why)

#define CHECK(cond)            \
    do {                       \
        if (!(cond))           \
            FAIL("%s", #cond); \
    } while (0)

/* Compares integers and pointers as 64-bit numbers. */
#define TEST_COMPARE(a, op, b)                                                                                    \
    do {                                                                                                          \
        long long test_a = (long long)(a), test_b = (long long)(b);                                               \
        if (!(test_a op test_b))                                                                                  \
            FAIL("%s " #op " %s: %lld (%#llx), %lld (%#llx)", #a, #b, test_a, (unsigned long long)test_a, test_b, \
                 (unsigned long long)test_b);                                                                     \
    } while (0)

#define CHECK_EQ(a, b) TEST_COMPARE(a, ==, b)
#define CHECK_NE(a, b) TEST_COMPARE(a, !=, b)
#define CHECK_LT(a, b) TEST_COMPARE(a, <, b)
#define CHECK_LE(a, b) TEST_COMPARE(a, <=, b)
#define CHECK_GT(a, b) TEST_COMPARE(a, >, b)
#define CHECK_GE(a, b) TEST_COMPARE(a, >=, b)

#define CHECK_STR(a, b)                                                                                   \
    do {                                                                                                  \
        const char *test_a = (a), *test_b = (b);                                                          \
        if (!test_same_text(test_a, test_b))                                                              \
            FAIL("%s is \"%s\", not \"%s\"", #a, test_a ? test_a : "(null)", test_b ? test_b : "(null)"); \
    } while (0)

#define CHECK_CONTAINS(text, part)                                                           \
    do {                                                                                     \
        const char *test_a = (text), *test_b = (part);                                       \
        if (!test_a || !strstr(test_a, test_b))                                              \
            FAIL("%s is \"%s\", without \"%s\"", #text, test_a ? test_a : "(null)", test_b); \
    } while (0)

#define CHECK_MEM(a, b, size)                                                \
    do {                                                                     \
        if (memcmp((a), (b), (size)) != 0)                                   \
            FAIL("%s and %s differ in their first %s bytes", #a, #b, #size); \
    } while (0)

/* --- the runner --------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SLOWDOWN 5
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define TEST_SLOWDOWN 5
#endif
#endif
#ifndef TEST_SLOWDOWN
#define TEST_SLOWDOWN 1
#endif

/* True under `make soak`: cases then run longer and make more attempts. */
TEST_UNUSED static bool test_soak(void)
{
    return getenv("GD_SOAK") != NULL;
}

TEST_UNUSED static int test_limit_s(const struct test_case *c)
{
    const char *text = getenv("GD_TEST_TIMEOUT");
    int wanted = text ? atoi(text) : 0;
    return wanted > 0 ? wanted : (c->limit_s > 0 ? c->limit_s : 60) * TEST_SLOWDOWN;
}

/* Kills and reaps the processes that a case has left behind. They have become our children. */
TEST_UNUSED static void test_reap_orphans(void)
{
    char path[64], line[4096];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    for (;;) {
        FILE *f = fopen(path, "re");
        size_t length = f ? fread(line, 1, sizeof line - 1, f) : 0;
        if (f)
            fclose(f);
        line[length] = 0;
        int killed = 0;
        char *at = line, *end;
        for (long pid; (pid = strtol(at, &end, 10)) > 0 && end != at; at = end) {
            /* The last number may be cut off at the end of the buffer. The next round reads it completely. */
            if (*end == ' ' && kill((pid_t)pid, SIGKILL) == 0)
                killed++;
        }
        if (!killed)
            break;
        while (killed-- && waitpid(-1, NULL, 0) > 0)
            ;
    }
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

/* Returns 1 if the case ended, 0 if its time limit passed first. */
TEST_UNUSED static int test_await(pid_t pid, int limit_s)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return 1; /* this kernel has no pidfds: the caller waits without a time limit */
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t end_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + (int64_t)limit_s * 1000;
    int ready;
    for (;;) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        int64_t left = end_ms - ((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
        struct pollfd p = { fd, POLLIN, 0 };
        ready = poll(&p, 1, left > 0 ? (int)left : 0);
        if (ready >= 0 || errno != EINTR)
            break;
    }
    close(fd);
    return ready != 0;
}

/* Gives every case the same signal handlers, signal mask and umask. Otherwise they would depend on how the program was
 * started (for example with nohup). */
TEST_UNUSED static void test_begin_alike(void)
{
    static const int signals[] = { SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM, SIGCHLD, SIGUSR1, SIGUSR2 };
    sigset_t none;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    umask(022);
}

TEST_UNUSED static void test_in_child(const struct test_case *c)
{
    setpgid(0, 0);
    test_begin_alike();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    c->run();
    exit(test_verdict->failed); /* not _exit: leak checkers run at exit */
}

/* Runs one case. Returns 0 (passed), 1 (failed) or TEST_SKIPPED. */
TEST_UNUSED static int test_run_case(const struct test_case *c)
{
    memset(test_verdict, 0, sizeof *test_verdict);
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        printf("FAILED %s: fork: %s\n", c->name, strerror(errno));
        return 1;
    }
    if (pid == 0)
        test_in_child(c);
    setpgid(pid, pid); /* both parent and child do this, because either may run first */
    int limit_s = test_limit_s(c), in_time = test_await(pid, limit_s), status = 0;
    if (!in_time)
        kill(pid, SIGKILL);
    siginfo_t info;
    while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        ;
    kill(-pid, SIGKILL); /* before the child is reaped, because the kernel may reuse the group's number after that */
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    test_reap_orphans();
    if (test_verdict->failed)
        printf("FAILED %s: %s\n", c->name, test_verdict->text);
    else if (!in_time)
        printf("FAILED %s: not done after %d s\n", c->name, limit_s);
    else if (WIFSIGNALED(status))
        printf("FAILED %s: signal %d (%s)\n", c->name, WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) == TEST_SKIPPED)
        printf("skipped %s: %s\n", c->name, test_verdict->text);
    else if (WEXITSTATUS(status) != 0)
        printf("FAILED %s: exit code %d\n", c->name, WEXITSTATUS(status));
    else
        printf("ok %s\n", c->name);
    fflush(stdout);
    bool passed = in_time && !test_verdict->failed && WIFEXITED(status);
    return !passed ? 1 : WEXITSTATUS(status) == TEST_SKIPPED ? TEST_SKIPPED : WEXITSTATUS(status) != 0;
}

TEST_UNUSED static bool test_chosen(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(name, argv[i]) == 0)
            return true;
    }
    return argc < 2;
}

/* Called once, before the first case. Opens standard streams that are closed. Otherwise files that a case opens would
 * get their numbers. Closes all other inherited descriptors, because cases count descriptors. */
TEST_UNUSED static int test_prepare(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
#ifdef SYS_close_range
    syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0);
#else
    if (fd >= 0)
        close(fd);
#endif
    signal(SIGCHLD, SIG_DFL); /* if SIGCHLD is ignored, the exit status of a case is lost */
    void *page = mmap(NULL, sizeof *test_verdict, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        perror("mmap");
        return -1;
    }
    test_verdict = (struct test_verdict *)page;
    return prctl(PR_SET_CHILD_SUBREAPER, 1);
}

TEST_UNUSED static int test_main(int argc, char **argv)
{
    int passed = 0, failed = 0, skipped = 0;
    bool list = argc == 2 && strcmp(argv[1], "-l") == 0;
    if (test_prepare() < 0)
        return 1;
    for (const struct test_case *c = test_first; c; c = c->next) {
        if (list)
            puts(c->name);
        if (list || !test_chosen(c->name, argc, argv))
            continue;
        int result = test_run_case(c);
        passed += result == 0;
        failed += result == 1;
        skipped += result == TEST_SKIPPED;
    }
    if (list)
        return 0;
    if (passed + failed + skipped == 0) {
        printf("FAILED: no such case\n");
        failed = 1;
    }
    printf(skipped ? "%d passed, %d failed, %d skipped\n" : "%d passed, %d failed\n", passed, failed, skipped);
    return failed ? 1 : passed ? 0 : TEST_SKIPPED;
}

/* Programs that must call gd_worker_main() first have their own main(), which calls test_main(). */
#define TEST_MAIN()                   \
    int main(int argc, char **argv)   \
    {                                 \
        return test_main(argc, argv); \
    }

#endif
