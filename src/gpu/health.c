/* Word of devices that fail.
 *
 * A thread per source (the driver; a FIFO for simulated devices) sleeps in it and lives as long as the process: NVML
 * has no way to wake one who waits for events but an event. The first subscriber starts it. Signals are the program's
 * business, so the thread takes none.
 *
 * A callback is made without the lock, but with its subscription marked as being called, for which whoever unsubscribes
 * it waits. One that unsubscribes itself does not. A forked child has no such thread and no subscribers; it can
 * subscribe anew.
 */
#include "gpu/health.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"
#include "gpu/device.h"
#include "gpu/lock.h"

struct subscriber {
    struct subscriber *next;
    int token;
    gd__health_fn *fn;
    void *user;
    bool gone;           /* to be freed by whoever is calling it */
    unsigned long heard; /* the last report it was told of */
    bool called;         /* now, by the thread below */
    pthread_t caller;
};

static const struct gd__health_source *const sources[] = { &gd__health_nvml, &gd__health_sim };
enum { N_SOURCES = sizeof sources / sizeof *sources };

/* All under the module's lock. */
static struct subscriber *subscribers;
static bool running[N_SOURCES];
static int last_token;
static unsigned long n_reports;
static bool telling; /* a report at a time: every subscriber hears all, in order */
static unsigned forks_seen;
static pthread_cond_t call_ended = PTHREAD_COND_INITIALIZER;

/* --- words --- */

/* What the driver's documentation says of the usual ones. */
static const struct {
    unsigned xid;
    bool by_application; /* it says nothing about the device */
    const char *words;
} xids[] = {
    { 13, true, "graphics engine exception" },
    { 31, true, "memory page fault" },
    { 32, false, "corrupted push buffer stream" },
    { 38, false, "driver firmware error" },
    { 43, true, "GPU stopped processing" },
    { 45, true, "preemptive cleanup" },
    { 48, false, "double-bit ECC error" },
    { 61, false, "microcontroller breakpoint" },
    { 62, false, "microcontroller halt" },
    { 63, false, "row remapping or page retirement" },
    { 64, false, "row remapping or page retirement failed" },
    { 68, true, "video processor exception" },
    { 69, false, "graphics engine class error" },
    { 74, false, "NVLink error" },
    { 79, false, "GPU has fallen off the bus" },
    { 92, false, "high rate of single-bit ECC errors" },
    { 94, false, "contained ECC error" },
    { 95, false, "uncontained ECC error" },
    { 109, true, "context switch timeout" },
    { 119, false, "GSP does not answer" },
    { 120, false, "GSP error" },
    { 140, false, "unrecovered ECC error" },
};

/* --- telling --- */

static struct subscriber *next_to_hear(unsigned long report)
{
    for (struct subscriber *s = subscribers; s; s = s->next)
        if (s->heard < report)
            return s;
    return NULL;
}

static void unlink_subscriber(struct subscriber *s)
{
    for (struct subscriber **at = &subscribers; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    gd__free(s);
}

static void call(struct subscriber *s, const char *uuid, const char *why)
{
    s->called = true;
    s->caller = pthread_self();
    gd__gpu_unlock();
    s->fn(s->user, uuid, why);
    gd__gpu_lock();
    s->called = false;
    if (s->gone)
        unlink_subscriber(s);
    pthread_cond_broadcast(&call_ended);
}

static void tell(const char *uuid, const char *why)
{
    gd__gpu_lock();
    while (telling)
        pthread_cond_wait(&call_ended, &gd__gpu_mutex);
    telling = true;
    const unsigned long report = ++n_reports;
    for (struct subscriber *s; (s = next_to_hear(report));) {
        s->heard = report;
        call(s, uuid, why);
    }
    telling = false;
    pthread_cond_broadcast(&call_ended);
    gd__gpu_unlock();
}

void gd__health_report(const char *uuid, unsigned xid)
{
    char why[128];
    snprintf(why, sizeof why, "Xid %u", xid);
    for (size_t i = 0; i < sizeof xids / sizeof *xids; i++) {
        if (xids[i].xid != xid)
            continue;
        if (xids[i].by_application)
            return;
        snprintf(why, sizeof why, "Xid %u (%s)", xid, xids[i].words);
    }
    tell(uuid, why);
}

void gd__health_report_lost(const char *uuid)
{
    tell(uuid, "the driver has lost the GPU");
}

/* --- threads --- */

static void *watch(void *arg)
{
    const struct gd__health_source *source = arg;
    while (source->watch())
        ;
    return NULL; /* running stays set: what has ended once is not begun again */
}

static bool start_thread(const struct gd__health_source *source)
{
    union {
        const struct gd__health_source *in;
        void *out;
    } arg = { .in = source };
    return gd__thread_start(NULL, "gd-health", watch, arg.out) == 0;
}

static bool start_source(size_t i)
{
    if (running[i])
        return true;
    if (!sources[i]->open())
        return false;
    running[i] = start_thread(sources[i]);
    if (!running[i])
        sources[i]->close(false);
    return running[i];
}

/* In a forked child: threads and subscribers are another process's. */
static void forget_parent(void)
{
    const unsigned forks = gd__gpu_forks();
    if (forks == forks_seen)
        return;
    forks_seen = forks;
    while (subscribers) {
        struct subscriber *s = subscribers;
        subscribers = s->next;
        gd__free(s);
    }
    for (size_t i = 0; i < N_SOURCES; i++) {
        if (running[i])
            sources[i]->close(true);
        running[i] = false;
    }
    telling = false;
    call_ended = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

/* --- subscribing --- */

int gd__health_subscribe(gd__health_fn *fn, void *user)
{
    struct subscriber *s = gd__calloc(1, sizeof *s);
    if (!s)
        return gd__error(GD_E_NO_MEMORY, "no memory for a subscription");
    bool any = false;
    gd__gpu_lock();
    forget_parent();
    *s = (struct subscriber){ .next = subscribers, .token = ++last_token, .fn = fn, .user = user, .heard = n_reports };
    subscribers = s;
    const int token = s->token;
    for (size_t i = 0; i < N_SOURCES; i++)
        any = start_source(i) || any;
    if (!any)
        unlink_subscriber(s);
    gd__gpu_unlock();
    return any ? token : gd__error(GD_E_UNSUPPORTED, "there is no device here whose driver tells of its failures");
}

static struct subscriber *find(int token)
{
    for (struct subscriber *s = subscribers; s; s = s->next)
        if (s->token == token)
            return s;
    return NULL;
}

void gd__health_unsubscribe(int token)
{
    if (token < 0)
        return;
    gd__gpu_lock();
    forget_parent();
    struct subscriber *s = find(token);
    if (s && s->called) {
        const bool by_us = pthread_equal(s->caller, pthread_self());
        s->gone = true; /* whoever is calling it frees it then, and calls it no more */
        while (!by_us && find(token))
            pthread_cond_wait(&call_ended, &gd__gpu_mutex);
    } else if (s) {
        unlink_subscriber(s);
    }
    gd__gpu_unlock();
}
