/* SPDX-License-Identifier: MIT
 *
 * Cuts a mount off, and counts the operations that are running, so that a cut is complete when it is reported.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "network_fs.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static enum gate state;
static unsigned running, until_cut;

/* Counts down to the change that cuts the mount. */
static void count_change(void)
{
    if (state == GATE_OPEN && until_cut > 0 && --until_cut == 0) {
        state = GATE_CUT;
        puts("reached");
        fflush(stdout);
    }
}

static int enter(bool change)
{
    pthread_mutex_lock(&mutex);
    if (change)
        count_change();
    while (state == GATE_CUT)
        pthread_cond_wait(&changed, &mutex);
    const bool open = state == GATE_OPEN;
    running += open;
    pthread_mutex_unlock(&mutex);
    return open ? 0 : EIO;
}

int gate_enter(void)
{
    return enter(false);
}

int gate_enter_change(void)
{
    return enter(true);
}

void gate_leave(void)
{
    pthread_mutex_lock(&mutex);
    running--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

void gate_set(enum gate to)
{
    pthread_mutex_lock(&mutex);
    state = to;
    until_cut = 0;
    pthread_cond_broadcast(&changed);
    while (state != GATE_OPEN && running > 0)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

void gate_cut_at(unsigned change)
{
    pthread_mutex_lock(&mutex);
    state = GATE_OPEN;
    until_cut = change;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}
