/* Waiting for free devices.
 *
 * Each round checks all devices. This opens no lock file, because /proc/locks lists the locks. When enough devices seem
 * free, their locks are taken one after the other, without waiting. If a lock cannot be taken, or a device is no longer
 * free after it was locked, and too few devices are left, all locks are released. So a run never has one device while
 * it waits for another. Closing a lock file wakes the waiting runs, so they do not wake each other by checking.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gpu/claim/holder.h"
#include "gpu/claim/internal.h"
#include "gpu/claim/state.h"
#include "gpu/claim/waiter.h"

enum { MESSAGE_MAX = 1024, NAMED_MOST = 4, LOCK_TRIES = 3 };

struct waiting {
    struct gd__claim *claim;
    struct gd_devices *list;
    const struct gd__claim_ask *ask;
    unsigned least, most;
    struct gd__device_state *states; /* the states of all devices in this round */
    bool *refused;                   /* a lock could not be taken since the last sleep */
    bool *taken;
    struct gd__waiter waiter;
    uint64_t told; /* summary() at the last report */
};

static size_t count(const struct waiting *w, enum gd__device_use use)
{
    size_t n = 0;
    for (size_t i = 0; i < w->list->found.n; i++)
        n += w->states[i].use == use;
    return n;
}

/* --- looking --- */

static void look(struct waiting *w)
{
    (void)gd_devices_refresh(w->list);
    for (size_t i = 0; i < w->list->found.n; i++) {
        struct gd__device_state *s = &w->states[i], refused = *s;
        gd__device_state(s, &w->list->found.items[i], &w->claim->directory);
        /* A process that is not in /proc/locks has the lock. */
        if (w->refused[i] && s->use == GD__DEVICE_FREE)
            *s = (struct gd__device_state){ .use = GD__DEVICE_LOCKED, .file = refused.file };
    }
}

/* Fails if there will never be enough free devices. */
static int check_possible(const struct waiting *w)
{
    char why[GD__STATE_TEXT];
    const size_t above = count(w, GD__DEVICE_ABOVE), unknown = count(w, GD__DEVICE_UNKNOWN);
    if (w->list->found.n - above - unknown >= w->least)
        return 0;
    for (size_t i = 0; i < w->list->found.n; i++)
        if (w->states[i].use == GD__DEVICE_ABOVE || w->states[i].use == GD__DEVICE_UNKNOWN)
            return gd__error(GD_E_NO_DEVICES,
                             "waiting for %u free GPU(s) would never end: %s; name the GPUs instead (auto, 0,1)",
                             w->least, gd__device_state_describe(why, &w->list->found.items[i], &w->states[i]));
    return gd__error(GD_E_NO_DEVICES, "%u free GPUs are needed, but only %zu can be used here", w->least,
                     w->list->found.n);
}

/* --- taking --- */

/* Takes an exclusive lock. If another process has the lock but is not found, it may have ended. Then the lock is tried
 * again. */
static int lock_one(struct waiting *w, size_t i, const char *name)
{
    struct gd__device_state *s = &w->states[i];
    struct gd__holder holder = { 0 };
    int rc = GD_E_BUSY;
    for (int try = 0; try < LOCK_TRIES && rc == GD_E_BUSY && holder.pid == 0; try++) {
        rc = gd__device_lock_take(&w->claim->locks[i], &w->claim->directory, name, GD__LOCK_EXCLUSIVE, &s->file);
        if (rc == GD_E_BUSY)
            (void)gd__holder_find(&holder, &s->file);
    }
    if (rc == GD_E_BUSY) {
        s->use = GD__DEVICE_LOCKED;
        s->pid = holder.pid;
        w->refused[i] = holder.pid == 0;
    }
    return rc;
}

/* Returns 1 if the device was locked, 0 if it is not free any more, or a negative code. */
static int take_one(struct waiting *w, size_t i)
{
    char name[GD__LOCK_NAME_MAX];
    struct gd__found *f = &w->list->found.items[i];
    gd__device_lock_name(name, f);
    const int rc = lock_one(w, i, name);
    if (rc < 0)
        return rc == GD_E_BUSY ? 0 : rc;
    if (f->backend)
        f->backend->refresh(f); /* a program that takes no locks may use the device by now */
    gd__device_figures(&w->states[i], f);
    w->taken[i] = w->states[i].use == GD__DEVICE_FREE;
    if (!w->taken[i])
        gd__device_lock_release(&w->claim->locks[i]);
    return w->taken[i];
}

/* Locks up to `most` free devices, or none if there are fewer than `least`. Returns their number. */
static int take(struct waiting *w)
{
    size_t possible = count(w, GD__DEVICE_FREE);
    unsigned n = 0;
    int rc = 0;
    memset(w->taken, 0, w->list->found.n * sizeof *w->taken);
    for (size_t i = 0; i < w->list->found.n && possible >= w->least && n < w->most && rc >= 0; i++) {
        if (w->states[i].use != GD__DEVICE_FREE)
            continue;
        rc = take_one(w, i);
        n += rc > 0;
        possible -= rc == 0;
    }
    if (rc >= 0 && n >= w->least)
        return (int)n;
    gd__claim_release(w->claim);
    return rc < 0 ? rc : 0;
}

/* Removes the other devices from the list. The locks move with their devices. */
static void keep_taken(struct waiting *w)
{
    size_t n = 0;
    for (size_t i = 0; i < w->list->found.n; i++) {
        if (!w->taken[i])
            continue;
        const struct gd__device_lock lock = w->claim->locks[i];
        w->claim->locks[i].first = NULL;
        w->claim->locks[n++] = lock;
    }
    gd__claim_reduce(w->list, w->taken);
}

/* --- waiting --- */

/* Returns true if something new is watched. Then the devices must be checked again before sleeping. */
static bool watch(struct waiting *w)
{
    bool is_new = false;
    gd__waiter_begin(&w->waiter);
    for (size_t i = 0; i < w->list->found.n; i++) {
        const struct gd__device_state *s = &w->states[i];
        if (s->use == GD__DEVICE_LOCKED && s->pid > 0)
            is_new |= gd__waiter_for_file(&w->waiter, &w->claim->directory, &s->file);
        else if (s->use != GD__DEVICE_FREE && s->use != GD__DEVICE_ABOVE && s->use != GD__DEVICE_UNKNOWN)
            gd__waiter_for_time(&w->waiter); /* there is no event for figures, or for processes of other containers */
        if (s->pid > 0 && s->use != GD__DEVICE_ABOVE)
            is_new |= gd__waiter_for_process(&w->waiter, s->pid);
    }
    return is_new;
}

static void describe(const struct waiting *w, char out[MESSAGE_MAX])
{
    const size_t n_free = count(w, GD__DEVICE_FREE), blocked = w->list->found.n - n_free;
    char why[GD__STATE_TEXT];
    size_t named = 0;
    int used = snprintf(out, MESSAGE_MAX, "waiting for %u free GPU%s", w->least, w->least == 1 ? "" : "s");
    if (n_free > 0)
        used += snprintf(out + used, (size_t)(MESSAGE_MAX - used), " (%zu free now)", n_free);
    for (size_t i = 0; i < w->list->found.n && named < NAMED_MOST && used < MESSAGE_MAX; i++)
        if (w->states[i].use != GD__DEVICE_FREE)
            used += snprintf(out + used, (size_t)(MESSAGE_MAX - used), "%s %s", named++ ? ";" : ":",
                             gd__device_state_describe(why, &w->list->found.items[i], &w->states[i]));
    if (blocked > named && used < MESSAGE_MAX)
        snprintf(out + used, (size_t)(MESSAGE_MAX - used), "; and %zu more", blocked - named);
}

/* A hash of which process uses which device. The memory in use is left out, because it changes all the time. */
static uint64_t summary(const struct waiting *w)
{
    uint64_t hash = UINT64_C(1469598103934665603);
    for (size_t i = 0; i < w->list->found.n; i++)
        hash = ((hash ^ (unsigned)w->states[i].use) * UINT64_C(1099511628211) ^ (unsigned)w->states[i].pid) *
               UINT64_C(1099511628211);
    return hash | 1;
}

static bool must_stop(struct waiting *w)
{
    char message[MESSAGE_MAX];
    const uint64_t now = summary(w);
    if (!w->ask->note)
        return false;
    if (now != w->told) {
        w->told = now;
        describe(w, message);
        if (w->ask->note(w->ask->user, message) != 0)
            return true;
    }
    return w->ask->note(w->ask->user, NULL) != 0;
}

static int stopped(const struct waiting *w)
{
    char message[MESSAGE_MAX];
    describe(w, message);
    return gd__error(GD_E_INTERRUPTED, "interrupted while %s", message);
}

/* Signals are blocked from the call of note() until the sleep, so that no signal is missed in between. */
static int sleep_once(struct waiting *w)
{
    sigset_t ours, before;
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ours, &before);
    int rc = must_stop(w) ? 0 : gd__waiter_sleep(&w->waiter, w->ask->stop_fds, &before);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0)
        rc = stopped(w);
    memset(w->refused, 0, w->list->found.n * sizeof *w->refused);
    return rc < 0 ? rc : 0;
}

static int wait_and_take(struct waiting *w)
{
    int rc = 0;
    while (rc == 0) {
        look(w);
        rc = check_possible(w);
        if (rc == 0 && count(w, GD__DEVICE_FREE) >= w->least)
            rc = take(w);
        if (rc == 0 && !watch(w))
            rc = sleep_once(w);
    }
    if (rc > 0)
        keep_taken(w);
    return rc < 0 ? rc : 0;
}

int gd__claim_wait(struct gd__claim *claim, struct gd_devices *list, const struct gd__claim_ask *ask)
{
    const unsigned most = list->spec.count, n = (unsigned)list->found.n;
    struct waiting w = { .claim = claim, .list = list, .ask = ask, .most = most };
    w.least = most == GD__SPEC_ANY ? (ask->least ? ask->least : 1) : most;
    w.states = gd__calloc(n + 1, sizeof *w.states);
    w.refused = gd__calloc(n + 1, sizeof *w.refused);
    w.taken = gd__calloc(n + 1, sizeof *w.taken);
    gd__waiter_open(&w.waiter);
    const int rc =
        w.states && w.refused && w.taken ? wait_and_take(&w) : gd__error(GD_E_NO_MEMORY, "no memory to wait for GPUs");
    gd__waiter_close(&w.waiter);
    gd__free(w.states);
    gd__free(w.refused);
    gd__free(w.taken);
    return rc;
}
