/* A thread of ours within a user's program: see thread.c. */
#ifndef GD_BASE_THREAD_H
#define GD_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>

typedef void *gd__thread_fn(void *arg);

/* Starts a thread that takes no signal, with a name of at most 15 characters. out: to be joined; NULL: nobody waits for
 * it. 0, or why not as a positive errno value. */
int gd__thread_start(pthread_t *out, const char *name, gd__thread_fn *run, void *arg);

/* Around a call that starts threads by itself: they inherit that every signal is blocked. */
void gd__signals_block(sigset_t *before);
void gd__signals_restore(const sigset_t *before);

#endif
