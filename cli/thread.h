/* SPDX-License-Identifier: MIT
 *
 * Threads beside the main one. Signals are the main thread's business: these take none.
 */
#ifndef GD_CLI_THREAD_H
#define GD_CLI_THREAD_H

#include <pthread.h>
#include <signal.h>

typedef void *cli_thread_fn(void *arg);

/* With a name of at most 15 characters; to be joined. 0, or why not as an errno value. */
int cli_thread_start(pthread_t *out, const char *name, cli_thread_fn *run, void *arg);

/* Around a call that starts threads by itself. */
void cli_signals_block(sigset_t *before);
void cli_signals_restore(const sigset_t *before);

#endif
