/* SIGINT and SIGTERM: which subscribers are notified, and which handlers are restored. A subscriber is not notified
 * after it has unsubscribed. */
#include "proc/signals.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

#include "base/error.h"
#include "base/fault.h"
#include "support/test.h"

static int new_eventfd(void)
{
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

    CHECK(fd >= 0);
    return fd;
}

/* Returns how many signals the subscriber was notified of since the last call. */
static int notifications(int fd)
{
    uint64_t n = 0;

    return read(fd, &n, sizeof n) == sizeof n ? (int)(n % GD__SIGNAL_TERM + n / GD__SIGNAL_TERM) : 0;
}

static int subscribed(int fd)
{
    int token = gd__signals_subscribe(fd);

    CHECK_GE(token, 0);
    return token;
}

static atomic_int theirs_called;

static void theirs(int signal)
{
    (void)signal;
    theirs_called++;
}

static void theirs_with_info(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_signo == signal)
        theirs_called++;
}

static bool handler_is(int signal, void (*handler)(int))
{
    struct sigaction a;

    CHECK_EQ(sigaction(signal, NULL, &a), 0);
    return a.sa_handler == handler;
}

/* Calls the function in a fork. Returns the signal that kills the fork, or its exit code as a negative number. */
static int end_of_fork(void (*what)(int fd), int fd)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        what(fd);
        _exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

TEST(both_signals_are_reported)
{
    int fd = new_eventfd(), token = subscribed(fd);

    raise(SIGINT);
    CHECK_EQ(notifications(fd), 1);
    raise(SIGTERM);
    raise(SIGINT);
    CHECK_EQ(notifications(fd), 2);
    gd__signals_unsubscribe(token);
}

TEST(system_calls_are_restarted)
{
    struct sigaction a;
    int token = subscribed(new_eventfd());

    CHECK_EQ(sigaction(SIGINT, NULL, &a), 0);
    CHECK(a.sa_flags & SA_RESTART);
    gd__signals_unsubscribe(token);
}

TEST(two_subscribers)
{
    int a = new_eventfd(), b = new_eventfd(), token_a = subscribed(a), token_b = subscribed(b);

    CHECK_NE(token_a, token_b);
    raise(SIGINT);
    CHECK_EQ(notifications(a), 1);
    CHECK_EQ(notifications(b), 1);
    gd__signals_unsubscribe(token_a);
    raise(SIGINT);
    CHECK_EQ(notifications(a), 0);
    CHECK_EQ(notifications(b), 1);
    gd__signals_unsubscribe(token_b);
    CHECK(handler_is(SIGINT, SIG_DFL));
}

TEST(previous_handlers_are_restored)
{
    struct sigaction mine = { .sa_handler = theirs, .sa_flags = SA_NODEFER }, now;

    sigaddset(&mine.sa_mask, SIGUSR1);
    CHECK_EQ(sigaction(SIGINT, &mine, NULL), 0);
    CHECK(signal(SIGTERM, SIG_IGN) != SIG_ERR);
    for (int i = 0; i < 2; i++) {
        int fd = new_eventfd(), token = subscribed(fd);

        raise(SIGINT);
        raise(SIGTERM);
        CHECK_EQ(notifications(fd), 2);
        CHECK_EQ(theirs_called, i);
        gd__signals_unsubscribe(token);
        raise(SIGINT);
        CHECK_EQ(theirs_called, i + 1);
    }
    CHECK_EQ(sigaction(SIGINT, NULL, &now), 0);
    CHECK(now.sa_handler == theirs);
    CHECK(now.sa_flags & SA_NODEFER);
    CHECK(!(now.sa_flags & SA_RESTART));
    CHECK_EQ(sigismember(&now.sa_mask, SIGUSR1), 1);
    CHECK(handler_is(SIGTERM, SIG_IGN));
}

static void raise_sigterm(int fd)
{
    (void)fd;
    raise(SIGTERM);
}

TEST(the_default_action_is_restored)
{
    gd__signals_unsubscribe(subscribed(new_eventfd()));
    CHECK(handler_is(SIGINT, SIG_DFL));
    CHECK_EQ(end_of_fork(raise_sigterm, -1), SIGTERM);
}

TEST(a_handler_installed_after_ours_stays)
{
    int fd = new_eventfd(), token = subscribed(fd);

    signal(SIGINT, theirs);
    raise(SIGINT);
    CHECK_EQ(notifications(fd), 0);
    gd__signals_unsubscribe(token);
    CHECK(handler_is(SIGINT, theirs));
    CHECK(handler_is(SIGTERM, SIG_DFL));
}

/* The program's handler calls the previous handler, which is ours. */
static struct sigaction ours;

static void theirs_calls_ours(int signal, siginfo_t *info, void *context)
{
    theirs_called++;
    ours.sa_sigaction(signal, info, context);
}

TEST(a_handler_that_calls_ours_causes_no_endless_loop)
{
    struct sigaction a = { .sa_sigaction = theirs_calls_ours, .sa_flags = SA_SIGINFO };
    int fd = new_eventfd(), token = subscribed(fd);

    CHECK_EQ(sigaction(SIGINT, &a, &ours), 0);
    raise(SIGINT);
    CHECK_EQ(notifications(fd), 1);
    gd__signals_unsubscribe(token);
    raise(SIGINT);
    CHECK_EQ(theirs_called, 2);
    token = subscribed(fd);
    raise(SIGINT);
    CHECK_EQ(notifications(fd), 1);
    gd__signals_unsubscribe(token);
    raise(SIGINT);
    CHECK_EQ(theirs_called, 3);
    CHECK_EQ(notifications(fd), 0);
}

/* The program removes its handler after we have unsubscribed. Then our handler is active again. It must act like the
 * handler before ours. */
TEST(our_handler_installed_again_later_acts_like_the_previous_one)
{
    signal(SIGINT, theirs);
    int token = subscribed(new_eventfd());
    struct sigaction a = { .sa_handler = SIG_IGN };
    CHECK_EQ(sigaction(SIGTERM, &a, &ours), 0);
    gd__signals_unsubscribe(token);
    CHECK_EQ(sigaction(SIGTERM, &ours, NULL), 0);
    CHECK_EQ(end_of_fork(raise_sigterm, -1), SIGTERM);
    token = subscribed(new_eventfd());
    gd__signals_unsubscribe(token);
    CHECK(handler_is(SIGTERM, SIG_DFL));
}

TEST(errno_is_kept)
{
    int token = subscribed(900); /* this descriptor is not open, so writing fails */

    errno = 1234;
    raise(SIGINT);
    CHECK_EQ(errno, 1234);
    gd__signals_unsubscribe(token);
}

TEST(too_many_subscribers)
{
    int fd = new_eventfd(), tokens[GD__SIGNAL_SUBSCRIBERS];

    for (int i = 0; i < GD__SIGNAL_SUBSCRIBERS; i++)
        tokens[i] = subscribed(fd);
    CHECK_EQ(gd__signals_subscribe(fd), GD_E_BUSY);
    raise(SIGINT);
    CHECK_EQ(notifications(fd), GD__SIGNAL_SUBSCRIBERS);
    gd__signals_unsubscribe(tokens[7]);
    CHECK_EQ(subscribed(fd), tokens[7]);
    for (int i = 0; i < GD__SIGNAL_SUBSCRIBERS; i++)
        gd__signals_unsubscribe(tokens[i]);
    CHECK(handler_is(SIGINT, SIG_DFL));
}

TEST(bad_use)
{
    int fd = new_eventfd();

    CHECK_EQ(gd__signals_subscribe(-1), GD_E_INVALID);
    gd__signals_unsubscribe(-1);
    gd__signals_unsubscribe(GD_E_BUSY);
    gd__signals_unsubscribe(5);
    gd__signals_unsubscribe(100000);
    int token = subscribed(fd);
    int other = subscribed(fd);
    gd__signals_unsubscribe(token);
    gd__signals_unsubscribe(token); /* must not remove the other subscriber */
    raise(SIGINT);
    CHECK_EQ(notifications(fd), 1);
    gd__signals_unsubscribe(other);
}

static void raise_sigint(int fd)
{
    (void)fd;
    raise(SIGINT);
}

/* Ctrl-C at a terminal also reaches a fork of the program. The run must not count it twice. */
TEST(a_fork_does_not_notify_its_parent)
{
    int fd = new_eventfd(), token = subscribed(fd);

    CHECK_EQ(end_of_fork(raise_sigint, fd), SIGINT);
    CHECK_EQ(notifications(fd), 0);
    raise(SIGINT);
    CHECK_EQ(notifications(fd), 1);
    gd__signals_unsubscribe(token);
}

static void expect_theirs(int fd)
{
    (void)fd;
    raise(SIGINT);
    raise(SIGTERM);
    _exit(theirs_called);
}

TEST(a_fork_has_the_previous_handlers)
{
    struct sigaction a = { .sa_sigaction = theirs_with_info, .sa_flags = SA_SIGINFO };

    signal(SIGINT, theirs);
    CHECK_EQ(sigaction(SIGTERM, &a, NULL), 0);
    int token = subscribed(new_eventfd());
    CHECK_EQ(end_of_fork(expect_theirs, -1), -2);
    gd__signals_unsubscribe(token);
}

static void subscribe_in_fork(int parents_fd)
{
    int fd = new_eventfd(), token = subscribed(fd);

    raise(SIGINT);
    CHECK_EQ(notifications(fd), 1);
    CHECK_EQ(notifications(parents_fd), 0);
    gd__signals_unsubscribe(token);
    CHECK(handler_is(SIGINT, theirs));
    CHECK(handler_is(SIGTERM, SIG_DFL));
}

TEST(a_fork_may_subscribe)
{
    signal(SIGINT, theirs);
    int fd = new_eventfd(), token = subscribed(fd);

    CHECK_EQ(end_of_fork(subscribe_in_fork, fd), 0);
    raise(SIGINT);
    CHECK_EQ(notifications(fd), 1);
    gd__signals_unsubscribe(token);
}

static atomic_bool storm_over;

/* Sends SIGINT to this thread, as fast as possible. */
static void *storm(void *unused)
{
    sigset_t none;

    (void)unused;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    while (!storm_over)
        raise(SIGINT);
    return NULL;
}

static void block_both(void)
{
    sigset_t both;

    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &both, NULL);
}

TEST(nothing_is_written_after_unsubscribing)
{
    pthread_t threads[2];
    int always = subscribed(new_eventfd());

    block_both();
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, storm, NULL), 0);
    for (int i = 0; i < 300; i++) {
        int fd = new_eventfd();

        gd__signals_unsubscribe(subscribed(fd));
        notifications(fd);
        sched_yield();
        CHECK_EQ(notifications(fd), 0);
        close(fd);
    }
    storm_over = true;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    gd__signals_unsubscribe(always);
}

struct actor {
    pthread_t thread;
    int token;
    _Atomic pid_t tid; /* set just before the call that should block */
    atomic_bool done;
};

static void *raises(void *user)
{
    struct actor *a = user;
    sigset_t none;

    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    a->tid = (pid_t)syscall(SYS_gettid);
    raise(SIGINT);
    a->done = true;
    return NULL;
}

static void *leaves(void *user)
{
    struct actor *a = user;

    a->tid = (pid_t)syscall(SYS_gettid);
    gd__signals_unsubscribe(a->token);
    a->done = true;
    return NULL;
}

static char state_of(pid_t tid)
{
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    FILE *f = fopen(path, "re");

    if (f) {
        line[fread(line, 1, sizeof line - 1, f)] = 0;
        fclose(f);
    }
    const char *after_name = strrchr(line, ')');
    return after_name && after_name[1] ? after_name[2] : '?';
}

static void start_until_asleep_or_done(struct actor *a, void *(*run)(void *))
{
    CHECK_EQ(pthread_create(&a->thread, NULL, run, a), 0);
    while (!a->done && (a->tid == 0 || state_of(a->tid) != 'S'))
        sched_yield();
}

/* The eventfd is full, so the handler blocks in its write. Unsubscribing must wait for it. */
TEST(unsubscribing_waits_for_a_running_handler)
{
    int fd = eventfd(0, EFD_CLOEXEC); /* a write to it can block */
    uint64_t most = UINT64_MAX - 1;
    struct actor handler = { 0 }, leaver = { 0 };

    CHECK_EQ(write(fd, &most, sizeof most), sizeof most);
    block_both();
    leaver.token = subscribed(fd);
    start_until_asleep_or_done(&handler, raises);
    CHECK(!handler.done);
    start_until_asleep_or_done(&leaver, leaves);
    CHECK(!leaver.done);
    CHECK_EQ(read(fd, &most, sizeof most), sizeof most);
    pthread_join(leaver.thread, NULL);
    pthread_join(handler.thread, NULL);
    CHECK_EQ(read(fd, &most, sizeof most), sizeof most);
    CHECK_EQ(most, 1);
    CHECK(handler_is(SIGINT, SIG_DFL));
}

static void *come_and_go(void *unused)
{
    (void)unused;
    for (int i = 0; i < 500; i++) {
        int fd = new_eventfd(), token = subscribed(fd);

        raise(SIGTERM); /* this thread handles the signal before raise() returns */
        CHECK_GE(notifications(fd), 1);
        gd__signals_unsubscribe(token);
        close(fd);
    }
    return NULL;
}

TEST(threads_subscribe_and_unsubscribe)
{
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK(handler_is(SIGTERM, SIG_DFL));
    CHECK(handler_is(SIGINT, SIG_DFL));
}

TEST(failing_calls_change_nothing)
{
#ifndef GD_TEST_HOOKS
    SKIP("built without test hooks");
#else
    int fd = new_eventfd();

    signal(SIGINT, theirs);
    for (unsigned long n = 1; n <= 2; n++) {
        gd__fault_begin(n);
        CHECK_EQ(gd__signals_subscribe(fd), GD_E_NO_MEMORY);
        CHECK(handler_is(SIGINT, theirs));
        CHECK(handler_is(SIGTERM, SIG_DFL));
    }
    gd__fault_begin(0);
    int token = subscribed(fd);
    raise(SIGINT);
    CHECK_EQ(notifications(fd), 1);
    gd__signals_unsubscribe(token);
#endif
}

TEST_MAIN()
