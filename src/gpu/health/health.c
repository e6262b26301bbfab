/* Reports failures of devices.
 *
 * There is one thread per source (the driver, or a FIFO for simulated devices). It waits in that source until the
 * process ends, because only an event can wake a thread that waits for events of NVML. The first subscriber starts the
 * threads. They receive no signals, because signals are for the program.
 *
 * A callback is called without the lock, but its subscriber is marked as being called. Unsubscribing waits until that
 * call has ended, unless the callback itself unsubscribes. A forked child has none of these threads and no subscribers.
 * It can subscribe again.
 */
#include "gpu/health/health.h"

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
    bool gone;           /* the subscriber has unsubscribed; the thread that is calling it frees it */
    unsigned long heard; /* the number of the last report it got */
    bool called;         /* fn is being called, by the thread below */
    pthread_t caller;
};

static const struct gd__health_source *const sources[] = { &gd__health_nvml, &gd__health_sim };
enum { N_SOURCES = sizeof sources / sizeof *sources };

/* All under the module's lock. */
static struct subscriber *subscribers;
static bool running[N_SOURCES];
static int last_token;
static unsigned long n_reports;
static bool reporting; /* one report at a time, so that every subscriber gets all reports in order */
static unsigned forks_seen;
static pthread_cond_t call_ended = PTHREAD_COND_INITIALIZER;

/* --- what an Xid means --- */

/* From NVIDIA's Xid catalogue (https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, as of October
 * 2025), by its columns "immediate action" and "investigatory action":
 *
 *   IGNORE    No action (IGNORE), or the Xid only comments on another Xid that is reported too (45, 154).
 *   PROCESS   RESTART_APP, and the cause is in the application (CHECK_APP/CUDA and the workflows of 13 and 31). The
 *             driver has reported the error to the process that caused it. The worker of that process fails the task,
 *             which is charged. NVML does not report which process it is. If all workers were restarted and no task
 *             were charged, a task that always causes the error would run for ever.
 *   RESTART   RESTART_APP, and the cause is in the hardware or the driver (CONTACT_SUPPORT, INVESTIGATE_SW, 94).
 *   RETIRE    RESET_GPU, RESTART_VM, RESTART_BM, CHECK_MECHANICALS, and the workflows of 48 and of NVLink, which depend
 *             on facts that NVML does not report.
 *
 * An Xid that is not in this table retires the device. Such an Xid is unused in the catalogue, has no action there, or
 * is not in the catalogue. */
enum action { IGNORE, PROCESS, RESTART, RETIRE };

static const struct xid {
    unsigned first, last;
    enum action action;
    const char *text;
} xids[] = {
    { 8, 8, RESTART, "GPU stopped processing" },
    { 11, 11, PROCESS, "corrupted push buffer stream" },
    { 13, 13, PROCESS, "graphics engine exception" },
    { 14, 14, IGNORE, "unused" },
    { 25, 25, PROCESS, "illegal push buffer stream" },
    { 31, 31, PROCESS, "memory page fault" },
    { 32, 32, PROCESS, "corrupted push buffer stream" },
    { 37, 38, IGNORE, "driver firmware error" },
    { 39, 41, RESTART, "copy engine exception" },
    { 43, 43, IGNORE, "GPU stopped processing" },
    { 44, 44, IGNORE, "graphics engine fault during context switch" },
    { 45, 45, IGNORE, "preemptive cleanup" },
    { 46, 46, RETIRE, "GPU stopped processing" },
    { 48, 48, RETIRE, "double-bit ECC error" },
    { 54, 54, RETIRE, "auxiliary power is not connected" },
    { 60, 60, RESTART, "video processor exception" },
    { 61, 61, RETIRE, "microcontroller breakpoint" },
    { 62, 62, RETIRE, "microcontroller halt" },
    { 63, 63, IGNORE, "memory was remapped" },
    { 64, 64, RETIRE, "memory remapping failed" },
    { 66, 67, IGNORE, "illegal access by driver" },
    { 68, 68, RESTART, "video decoder exception" },
    { 69, 69, PROCESS, "graphics engine class error" },
    { 70, 72, RESTART, "copy engine error" },
    { 74, 74, RETIRE, "NVLink error" },
    { 75, 77, RESTART, "copy engine error" },
    { 79, 79, RETIRE, "GPU has fallen off the bus" },
    { 80, 80, PROCESS, "corrupted data sent to GPU" },
    { 82, 82, RESTART, "JPEG engine error" },
    { 83, 84, RESTART, "video decoder error" },
    { 85, 85, RESTART, "copy engine error" },
    { 86, 86, RESTART, "optical flow engine exception" },
    { 88, 89, RESTART, "video decoder error" },
    { 92, 92, IGNORE, "high rate of single-bit ECC errors" },
    { 93, 93, IGNORE, "InfoROM wear limit" },
    { 94, 94, RESTART, "contained ECC error" },
    { 95, 95, RETIRE, "uncontained ECC error" },
    { 96, 98, RESTART, "video decoder error" },
    { 99, 105, RESTART, "JPEG engine error" },
    { 106, 107, IGNORE, "test message" },
    { 108, 108, IGNORE, "unused" },
    { 109, 109, RETIRE, "context switch timeout" },
    { 110, 110, RETIRE, "security fault" },
    { 119, 119, RETIRE, "GSP does not answer" },
    { 120, 120, RETIRE, "GSP error" },
    { 121, 121, IGNORE, "C2C error" },
    { 126, 135, RESTART, "copy engine error" },
    { 136, 136, RETIRE, "link training failed" },
    { 137, 137, IGNORE, "NVLink privilege error" },
    { 139, 139, RESTART, "optical flow engine error" },
    { 140, 140, RETIRE, "unrecovered ECC error" },
    { 141, 141, IGNORE, "CUDA fast path error" },
    { 143, 143, RETIRE, "GPU initialization error" },
    { 144, 150, RETIRE, "NVLink error" },
    { 151, 151, RETIRE, "key rotation error" },
    { 152, 153, IGNORE, "deep learning accelerator error" },
    { 154, 154, IGNORE, "recovery action changed" },
    { 155, 155, RETIRE, "NVLink error" },
    { 156, 156, RETIRE, "resource retirement" },
    { 157, 157, IGNORE, "resource retirement failed" },
    { 158, 158, RETIRE, "fatal timeout" },
    { 160, 161, IGNORE, "channel retirement" },
    { 162, 165, IGNORE, "power smoothing changed" }, /* the catalogue gives no action, and nothing is broken */
};

static const struct xid *find_xid(unsigned number)
{
    for (size_t i = 0; i < sizeof xids / sizeof *xids; i++)
        if (xids[i].first <= number && number <= xids[i].last)
            return &xids[i];
    return NULL;
}

/* --- reporting --- */

static struct subscriber *next_without(unsigned long report)
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

static void call(struct subscriber *s, const char *uuid, enum gd__health health, const char *why)
{
    s->called = true;
    s->caller = pthread_self();
    gd__gpu_unlock();
    s->fn(s->user, uuid, health, why);
    gd__gpu_lock();
    s->called = false;
    if (s->gone)
        unlink_subscriber(s);
    pthread_cond_broadcast(&call_ended);
}

static void report_to_all(const char *uuid, enum gd__health health, const char *why)
{
    gd__gpu_lock();
    while (reporting)
        pthread_cond_wait(&call_ended, &gd__gpu_mutex);
    reporting = true;
    const unsigned long report = ++n_reports;
    for (struct subscriber *s; (s = next_without(report));) {
        s->heard = report;
        call(s, uuid, health, why);
    }
    reporting = false;
    pthread_cond_broadcast(&call_ended);
    gd__gpu_unlock();
}

void gd__health_report(const char *uuid, unsigned xid)
{
    char why[128];
    const struct xid *x = find_xid(xid);
    const enum action action = x ? x->action : RETIRE;
    if (action == IGNORE || action == PROCESS)
        return;
    if (x)
        snprintf(why, sizeof why, "Xid %u (%s)", xid, x->text);
    else
        snprintf(why, sizeof why, "Xid %u", xid);
    report_to_all(uuid, action == RESTART ? GD__HEALTH_RESTART : GD__HEALTH_FAILED, why);
}

void gd__health_report_lost(const char *uuid)
{
    report_to_all(uuid, GD__HEALTH_FAILED, "the driver has lost the GPU");
}

/* --- threads --- */

static void *watch(void *arg)
{
    const struct gd__health_source *source = arg;
    while (source->watch())
        ;
    return NULL; /* running stays set, so that a source that has ended is not started again */
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

/* In a forked child, forgets the threads and subscribers, which belong to the parent. */
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
    reporting = false;
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
    return any ? token : gd__error(GD_E_UNSUPPORTED, "no device on this machine has a driver that reports failures");
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
        s->gone = true; /* the thread that is calling it frees it afterwards */
        while (!by_us && find(token))
            pthread_cond_wait(&call_ended, &gd__gpu_mutex);
    } else if (s) {
        unlink_subscriber(s);
    }
    gd__gpu_unlock();
}
