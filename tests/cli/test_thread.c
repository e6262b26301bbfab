/* Threads of the command: signals are its main thread's. */
#include "cli/thread.h"

#include "support/test.h"

static void *look(void *arg)
{
    pthread_sigmask(SIG_SETMASK, NULL, arg);
    return arg;
}

static void only_usr2(sigset_t *mask)
{
    sigemptyset(mask);
    sigaddset(mask, SIGUSR2);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, mask, NULL), 0);
}

static void check_mask(const sigset_t *mask, bool blocks_others)
{
    const int others[] = { SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP, SIGCONT, SIGUSR1, SIGCHLD, SIGPIPE };
    CHECK(sigismember(mask, SIGUSR2));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK_EQ(sigismember(mask, others[i]), blocks_others);
}

TEST(a_thread_takes_no_signal_and_its_maker_takes_what_it_took)
{
    sigset_t mask, after;
    pthread_t thread;
    only_usr2(&mask);
    CHECK_EQ(cli_thread_start(&thread, "gd-look", look, &mask), 0);
    pthread_join(thread, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    check_mask(&mask, true);
    check_mask(&after, false);
}

TEST(a_pair_around_a_call_that_starts_threads)
{
    sigset_t before, within, after;
    only_usr2(&before);
    cli_signals_block(&before);
    pthread_sigmask(SIG_SETMASK, NULL, &within);
    cli_signals_restore(&before);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    check_mask(&within, true);
    check_mask(&after, false);
}

TEST_MAIN()
