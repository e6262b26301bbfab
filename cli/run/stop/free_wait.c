/* SPDX-License-Identifier: MIT
 *
 * Handles signals while a run waits for free devices or its journal. The handler only records the signal. Before each sleep the
 * library calls cli_free_wait_note(), which returns whether a signal came. The library blocks the signals before this
 * call and unblocks them when it sleeps in ppoll(), so no signal is missed. A driver may start threads that do not
 * block the signals, so the handler passes a signal on to the thread that waits. */
#include "cli/run/stop/free_wait.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "cli/say.h"

enum { SIGNALS = 3 };
static const int numbers[SIGNALS] = { SIGINT, SIGTERM, SIGHUP };
static struct sigaction before[SIGNALS];
static volatile sig_atomic_t received;
static bool handling;
static pthread_t waiter;

static void on_signal(int number)
{
    const int saved = errno;
    received = number;
    if (!pthread_equal(pthread_self(), waiter))
        pthread_kill(waiter, number);
    errno = saved;
}

/* A signal that is ignored (nohup) stays ignored. */
static void begin(void)
{
    struct sigaction action = { .sa_handler = on_signal };
    sigemptyset(&action.sa_mask);
    waiter = pthread_self();
    received = 0;
    handling = true;
    for (int i = 0; i < SIGNALS; i++)
        if (sigaction(numbers[i], NULL, &before[i]) == 0 && before[i].sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
}

int cli_free_wait_note(void *user, const char *message)
{
    (void)user;
    if (!handling)
        begin();
    if (message)
        cli_say("%s", message);
    return received != 0;
}

int cli_free_wait_end(void)
{
    for (int i = 0; handling && i < SIGNALS; i++)
        sigaction(numbers[i], &before[i], NULL);
    handling = false;
    return received;
}
