/* Threads of the library block all signals. Starting one does not change the signal mask of the calling thread. */
#include "base/thread.h"

#include "base/fault.h"
#include "support/test.h"

struct seen {
    sigset_t mask;
    char name[16];
    int pipe[2];
};

/* Waits for a byte from the test. After that, the thread has its name. */
static void *look(void *arg)
{
    struct seen *s = arg;
    char byte;
    pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
    CHECK_EQ(read(s->pipe[0], &byte, 1), 1);
    pthread_getname_np(pthread_self(), s->name, sizeof s->name);
    return arg;
}

static void *answer(void *arg)
{
    struct seen *s = arg;
    CHECK_EQ(write(s->pipe[1], "x", 1), 1);
    return NULL;
}

/* Does not check the two signals that the C library reserves, and signals that cannot be blocked. */
static bool blocks_all(const sigset_t *mask)
{
    for (int i = 1; i <= SIGRTMAX; i++) {
        const bool exempt = i == SIGKILL || i == SIGSTOP || (i >= 32 && i < SIGRTMIN);
        if (!exempt && !sigismember(mask, i))
            return false;
    }
    return true;
}

static bool same(const sigset_t *a, const sigset_t *b)
{
    for (int i = 1; i <= SIGRTMAX; i++) {
        if (sigismember(a, i) != sigismember(b, i))
            return false;
    }
    return true;
}

static void only_usr1(sigset_t *mask)
{
    sigemptyset(mask);
    sigaddset(mask, SIGUSR1);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, mask, NULL), 0);
}

TEST(threads_block_all_signals_and_the_mask_of_the_caller_stays)
{
    struct seen s;
    sigset_t before, after;
    pthread_t thread;
    void *result;
    CHECK_EQ(pipe(s.pipe), 0);
    only_usr1(&before);
    CHECK_EQ(gd__thread_start(&thread, "gd-look", look, &s), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    CHECK_EQ(write(s.pipe[1], "x", 1), 1);
    CHECK_EQ(pthread_join(thread, &result), 0);
    CHECK(result == &s);
    CHECK(blocks_all(&s.mask));
    CHECK(same(&before, &after));
    CHECK_STR(s.name, "gd-look");
}

TEST(signals_are_blocked_around_a_call_that_starts_threads)
{
    sigset_t mine, before, within, after;
    only_usr1(&mine);
    gd__signals_block(&before);
    pthread_sigmask(SIG_SETMASK, NULL, &within);
    gd__signals_restore(&before);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    CHECK(same(&mine, &before));
    CHECK(blocks_all(&within));
    CHECK(same(&mine, &after));
}

TEST(a_detached_thread)
{
    struct seen s;
    char byte;
    CHECK_EQ(pipe(s.pipe), 0);
    CHECK_EQ(gd__thread_start(NULL, "gd-answer", answer, &s), 0);
    CHECK_EQ(read(s.pipe[0], &byte, 1), 1);
}

TEST(no_thread_can_be_started)
{
    struct seen s;
    sigset_t before, after;
    pthread_t thread;
    only_usr1(&before);
    gd__fault_begin(1);
    CHECK_EQ(gd__thread_start(&thread, "gd-look", look, &s), EAGAIN);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    CHECK(same(&before, &after));
    gd__fault_begin(0);
}

TEST_MAIN()
