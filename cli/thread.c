/* SPDX-License-Identifier: MIT
 *
 * A thread inherits the mask of its maker: every signal is blocked for the moment in which it is made.
 */
#include "cli/thread.h"

#include <stddef.h>

void cli_signals_block(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
}

void cli_signals_restore(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

int cli_thread_start(pthread_t *out, const char *name, cli_thread_fn *run, void *arg)
{
    sigset_t before;
    cli_signals_block(&before);
    const int rc = pthread_create(out, NULL, run, arg);
    cli_signals_restore(&before);
    if (rc == 0)
        pthread_setname_np(*out, name);
    return rc;
}
