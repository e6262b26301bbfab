/* Threads of the library in a user's program: see thread.c. */
#ifndef GD_BASE_THREAD_H
#define GD_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>

typedef void *gd__thread_fn(void *arg);

/* Starts a thread that receives no signals. Its name has at most 15 characters. If out is NULL, the thread is detached.
 * Otherwise the caller joins it. Returns 0 or a positive errno value. */
int gd__thread_start(pthread_t *out, const char *name, gd__thread_fn *run, void *arg);

/* Call these around a call that starts threads by itself, so that those threads inherit a mask with every signal
 * blocked. */
void gd__signals_block(sigset_t *before);
void gd__signals_restore(const sigset_t *before);

#endif
