/* The event loop: delivery, removal during delivery, deadlines, and kernels without epoll_pwait2. */
#include "proc/loop.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "support/test.h"

struct counter {
    struct gd__watch watch; /* must be first: the callback gets a pointer to it */
    struct gd__loop *loop;
    struct counter *other; /* the callback removes this one */
    int calls;
    uint32_t events;
};

static void count(struct gd__watch *w, uint32_t events)
{
    struct counter *c = (struct counter *)w;

    c->calls++;
    c->events = events;
    if (c->other)
        gd__loop_remove(c->loop, &c->other->watch);
}

static void count_and_read(struct gd__watch *w, uint32_t events)
{
    uint64_t value;

    count(w, events);
    CHECK_EQ(read(w->fd, &value, sizeof value), 8);
}

static struct counter counter_of(struct gd__loop *l)
{
    return (struct counter){ .watch = GD__WATCH_NONE, .loop = l };
}

static int ready_fd(void)
{
    int fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);

    CHECK(fd >= 0);
    return fd;
}

static struct gd__loop opened(void)
{
    struct gd__loop l;

    CHECK_EQ(gd__loop_open(&l), 0);
    return l;
}

TEST(a_loop_can_be_closed_twice)
{
    struct gd__loop l = opened();

    CHECK(l.fd >= 0);
    CHECK(fcntl(l.fd, F_GETFD) & FD_CLOEXEC);
    gd__loop_close(&l);
    CHECK_EQ(l.fd, -1);
    gd__loop_close(&l);
}

TEST(ready_descriptors_are_called)
{
    struct gd__loop l = opened();
    struct counter c = counter_of(&l), idle = counter_of(&l);
    int idle_fd = eventfd(0, EFD_NONBLOCK);

    CHECK_EQ(gd__loop_add(&l, &c.watch, ready_fd(), EPOLLIN, count), 0);
    CHECK_EQ(gd__loop_add(&l, &idle.watch, idle_fd, EPOLLIN, count), 0);
    CHECK_EQ(gd__loop_wait(&l, GD__NEVER), 1);
    CHECK_EQ(c.calls, 1);
    CHECK_EQ(c.events, EPOLLIN);
    CHECK_EQ(idle.calls, 0);
}

TEST(a_wait_with_deadline_0_does_not_wait)
{
    struct gd__loop l = opened();
    struct counter c = counter_of(&l);

    CHECK_EQ(gd__loop_wait(&l, 0), 0);
    CHECK_EQ(gd__loop_add(&l, &c.watch, ready_fd(), EPOLLIN, count), 0);
    CHECK_EQ(gd__loop_wait(&l, 0), 1);
}

/* Each of two callbacks removes the other. After one is called, the other must not be called. */
TEST(a_watch_removed_while_pending_is_not_called)
{
    struct gd__loop l = opened();
    struct counter a = counter_of(&l), b = counter_of(&l);

    a.other = &b;
    b.other = &a;
    CHECK_EQ(gd__loop_add(&l, &a.watch, ready_fd(), EPOLLIN, count), 0);
    CHECK_EQ(gd__loop_add(&l, &b.watch, ready_fd(), EPOLLIN, count), 0);
    CHECK_EQ(gd__loop_wait(&l, GD__NEVER), 1);
    CHECK_EQ(a.calls + b.calls, 1);
    CHECK_EQ((a.calls ? &b : &a)->watch.fd, -1);
}

static int fresh_fd;

static void remove_and_add_again(struct gd__watch *w, uint32_t events)
{
    struct counter *c = (struct counter *)w;

    (void)events;
    c->calls++;
    if (!c->other)
        return;
    gd__loop_remove(c->loop, &c->other->watch);
    CHECK_EQ(gd__loop_add(c->loop, &c->other->watch, fresh_fd, EPOLLIN, remove_and_add_again), 0);
    c->other->other = NULL;
}

TEST(a_watch_that_is_added_again_does_not_get_the_old_event)
{
    struct gd__loop l = opened();
    struct counter a = counter_of(&l), b = counter_of(&l);

    fresh_fd = eventfd(0, EFD_NONBLOCK);
    a.other = &b;
    b.other = &a;
    CHECK_EQ(gd__loop_add(&l, &a.watch, ready_fd(), EPOLLIN, remove_and_add_again), 0);
    CHECK_EQ(gd__loop_add(&l, &b.watch, ready_fd(), EPOLLIN, remove_and_add_again), 0);
    CHECK_EQ(gd__loop_wait(&l, GD__NEVER), 1);
    CHECK_EQ(a.calls + b.calls, 1);
}

static void remove_and_free(struct gd__watch *w, uint32_t events)
{
    struct counter *c = (struct counter *)w;

    (void)events;
    gd__loop_remove(c->loop, w);
    free(c);
}

TEST(callback_may_free_itself)
{
    struct gd__loop l = opened();
    struct counter *c = malloc(sizeof *c);

    CHECK(c);
    *c = counter_of(&l);
    CHECK_EQ(gd__loop_add(&l, &c->watch, ready_fd(), EPOLLIN, remove_and_free), 0);
    CHECK_EQ(gd__loop_wait(&l, GD__NEVER), 1);
    CHECK_EQ(gd__loop_wait(&l, 0), 0);
}

static void close_the_loop(struct gd__watch *w, uint32_t events)
{
    count(w, events);
    gd__loop_close(((struct counter *)w)->loop);
}

TEST(callback_may_close_the_loop)
{
    struct gd__loop l = opened();
    struct counter c[3];

    for (int i = 0; i < 3; i++) {
        c[i] = counter_of(&l);
        CHECK_EQ(gd__loop_add(&l, &c[i].watch, ready_fd(), EPOLLIN, close_the_loop), 0);
    }
    CHECK_EQ(gd__loop_wait(&l, GD__NEVER), 1);
    CHECK_EQ(c[0].calls + c[1].calls + c[2].calls, 1);
}

TEST(a_watch_may_be_removed_twice)
{
    struct gd__loop l = opened();
    struct counter c = counter_of(&l);

    gd__loop_remove(&l, &c.watch); /* never watched */
    CHECK_EQ(gd__loop_add(&l, &c.watch, ready_fd(), EPOLLIN, count), 0);
    gd__loop_remove(&l, &c.watch);
    gd__loop_remove(&l, &c.watch);
    CHECK_EQ(gd__loop_wait(&l, 0), 0);
    CHECK_EQ(c.calls, 0);
}

TEST(removal_after_the_descriptor_was_closed)
{
    struct gd__loop l = opened();
    struct counter c = counter_of(&l);
    int fd = ready_fd();

    CHECK_EQ(gd__loop_add(&l, &c.watch, fd, EPOLLIN, count), 0);
    close(fd);
    gd__loop_remove(&l, &c.watch);
    CHECK_EQ(c.watch.fd, -1);
    CHECK_EQ(gd__loop_wait(&l, 0), 0);
}

TEST(the_events_of_a_watch_can_be_changed)
{
    struct gd__loop l = opened();
    struct counter c = counter_of(&l);

    CHECK_EQ(gd__loop_add(&l, &c.watch, ready_fd(), EPOLLIN, count), 0);
    CHECK_EQ(gd__loop_change(&l, &c.watch, 0), 0);
    CHECK_EQ(gd__loop_wait(&l, 0), 0);
    CHECK_EQ(gd__loop_change(&l, &c.watch, EPOLLIN | EPOLLOUT), 0);
    CHECK_EQ(gd__loop_wait(&l, 0), 1);
    CHECK_EQ(c.events, EPOLLIN | EPOLLOUT);
    gd__loop_remove(&l, &c.watch);
    CHECK_EQ(gd__loop_change(&l, &c.watch, EPOLLIN), GD_E_SYSTEM);
}

TEST(an_edge_triggered_event_is_reported_once)
{
    struct gd__loop l = opened();
    struct counter c = counter_of(&l);

    CHECK_EQ(gd__loop_add(&l, &c.watch, ready_fd(), EPOLLIN | EPOLLET, count), 0);
    CHECK_EQ(gd__loop_wait(&l, 0), 1);
    CHECK_EQ(gd__loop_wait(&l, 0), 0);
}

/* There are more ready descriptors than in one batch. Each is called exactly once. */
TEST(many_descriptors)
{
    enum { N = 900 };
    static struct counter c[N];
    struct gd__loop l = opened();
    struct rlimit limit = { 0 };

    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < N + 50)
        SKIP("the limit of descriptors is too low");
    for (int i = 0; i < N; i++) {
        c[i] = counter_of(&l);
        CHECK_EQ(gd__loop_add(&l, &c[i].watch, ready_fd(), EPOLLIN, count_and_read), 0);
    }
    int called = 0, waits = 0;
    for (int n; (n = gd__loop_wait(&l, 0)) > 0; waits++)
        called += n;
    CHECK_EQ(called, N);
    CHECK_EQ(waits, (N + GD__LOOP_BATCH - 1) / GD__LOOP_BATCH);
    for (int i = 0; i < N; i++)
        CHECK_EQ(c[i].calls, 1);
}

/* There are more descriptors than in one batch, and they are always ready. None is called a third time before all were
 * called twice. */
TEST(descriptors_that_are_always_ready_take_turns)
{
    enum { N = 2 * GD__LOOP_BATCH };
    static struct counter c[N];
    struct gd__loop l = opened();

    for (int i = 0; i < N; i++) {
        c[i] = counter_of(&l);
        CHECK_EQ(gd__loop_add(&l, &c[i].watch, ready_fd(), EPOLLIN, count), 0);
    }
    for (int i = 0; i < 4; i++)
        CHECK_EQ(gd__loop_wait(&l, 0), GD__LOOP_BATCH);
    for (int i = 0; i < N; i++)
        CHECK_EQ(c[i].calls, 2);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

enum { WAITS = 41, ROUNDS = 50 };

static int64_t median_of(const int64_t *values)
{
    int64_t sorted[WAITS];

    memcpy(sorted, values, sizeof sorted);
    qsort(sorted, WAITS, sizeof sorted[0], by_value);
    return sorted[WAITS / 2];
}

/* Waits several times, for 0.1 to 4 ms. No wait may end early. Keeps the smallest delay of each wait, because other
 * processes may delay some waits. If the library rounded up, every wait would be late. */
static void wait_once_more(struct gd__loop *l, int64_t *least)
{
    for (int i = 0; i < WAITS; i++) {
        uint64_t until = gd__now_ns() + 100 * GD__NS_PER_US + (uint64_t)i * 97 * GD__NS_PER_US;

        CHECK_EQ(gd__loop_wait(l, until), 0);
        int64_t late = (int64_t)(gd__now_ns() - until);
        CHECK_GE(late, 0);
        least[i] = late < least[i] ? late : least[i];
    }
}

TEST(waits_are_much_less_than_a_millisecond_late)
{
    struct gd__loop l = opened();
    int64_t least[WAITS];

    for (int i = 0; i < WAITS; i++)
        least[i] = INT64_MAX;
    for (int i = 0; i < ROUNDS && median_of(least) > 300000; i++)
        wait_once_more(&l, least);
    CHECK_LT(median_of(least), 300000);
}

TEST(past_deadline_returns_at_once)
{
    struct gd__loop l = opened();

    CHECK_EQ(gd__loop_wait(&l, 1), 0);
    CHECK_EQ(gd__loop_wait(&l, gd__now_ns()), 0);
}

TEST(a_distant_deadline_does_not_overflow)
{
    struct gd__loop l = opened();
    struct counter c = counter_of(&l);

    CHECK_EQ(gd__loop_add(&l, &c.watch, ready_fd(), EPOLLIN, count), 0);
    CHECK_EQ(gd__loop_wait(&l, GD__NEVER - 1), 1);
    CHECK_EQ(gd__loop_wait(&l, gd__now_ns() + 400 * 24 * 3600 * GD__NS_PER_S), 1);
}

static void refuse_epoll_pwait2(unsigned error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_pwait2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof filter / sizeof filter[0], filter };

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        SKIP("no seccomp filters here");
}

static void check_milliseconds(void)
{
    struct gd__loop l = opened();
    struct counter c = counter_of(&l);

    for (int i = 0; i < 20; i++) {
        uint64_t until = gd__now_ns() + 300 * GD__NS_PER_US;

        CHECK_EQ(gd__loop_wait(&l, until), 0);
        CHECK_GE(gd__now_ns(), until);
    }
    CHECK_EQ(gd__loop_wait(&l, 0), 0);
    CHECK_EQ(gd__loop_add(&l, &c.watch, ready_fd(), EPOLLIN, count), 0);
    CHECK_EQ(gd__loop_wait(&l, GD__NEVER), 1);
    CHECK_EQ(gd__loop_wait(&l, GD__NEVER - 1), 1);
    CHECK_EQ(gd__loop_wait(&l, gd__now_ns() + GD__NS_PER_S), 1);
}

TEST(older_kernel_waits_in_milliseconds_never_early)
{
    refuse_epoll_pwait2(ENOSYS);
    check_milliseconds();
}

TEST(sandbox_waits_in_milliseconds_never_early)
{
    refuse_epoll_pwait2(EPERM);
    check_milliseconds();
}

static void nothing(int signal)
{
    (void)signal;
}

TEST(a_signal_ends_the_wait_with_nothing_ready)
{
    struct gd__loop l = opened();
    struct sigaction a = { .sa_handler = nothing };
    /* Sends the signal again and again, because the first one may arrive before the wait begins. */
    struct itimerval t = { .it_value.tv_usec = 5000, .it_interval.tv_usec = 5000 };

    CHECK_EQ(sigaction(SIGALRM, &a, NULL), 0);
    CHECK_EQ(setitimer(ITIMER_REAL, &t, NULL), 0);
    CHECK_EQ(gd__loop_wait(&l, GD__NEVER), 0);
}

TEST(bad_descriptors_are_refused)
{
    struct gd__loop l = opened();
    struct counter c = counter_of(&l);
    int file = open("/proc/self/exe", O_RDONLY);

    CHECK_EQ(gd__loop_add(&l, &c.watch, 1000000, EPOLLIN, count), GD_E_SYSTEM);
    CHECK_CONTAINS(gd_error_text(), "1000000");
    CHECK_EQ(c.watch.fd, -1);
    CHECK_EQ(gd__loop_add(&l, &c.watch, file, EPOLLIN, count), GD_E_SYSTEM);
    CHECK_EQ(errno, EPERM); /* errno is kept for the caller */
    CHECK_EQ(c.watch.fd, -1);
    gd__loop_close(&l);
    CHECK_EQ(gd__loop_wait(&l, 0), GD_E_SYSTEM);
}

TEST(failing_calls_are_reported)
{
#ifndef GD_TEST_HOOKS
    SKIP("built without test hooks");
#else
    struct gd__loop l;
    struct counter c = counter_of(&l);

    gd__fault_begin(1);
    CHECK_EQ(gd__loop_open(&l), GD_E_NO_MEMORY);
    CHECK_EQ(l.fd, -1);
    gd__fault_begin(2);
    CHECK_EQ(gd__loop_open(&l), 0);
    CHECK_EQ(gd__loop_add(&l, &c.watch, ready_fd(), EPOLLIN, count), GD_E_NO_MEMORY);
    CHECK_EQ(c.watch.fd, -1);
#endif
}

TEST_MAIN()
