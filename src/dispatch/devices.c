/* Failures of the devices of a run. A failure is reported on the watcher's thread. That thread stores it in struct
 * gd__run_gpu and wakes the monitor, which takes it from there.
 *
 *   news   NONE ─(watcher claims it)→ WRITING ─(message is complete)→ READY ─(monitor)→ TAKEN
 *
 * To the scheduler a group of GPUs is one device: if one GPU fails, the whole group is taken out of use.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text/printable.h"
#include "dispatch/internal.h"

enum { NEWS_NONE, NEWS_WRITING, NEWS_READY, NEWS_TAKEN };

/* --- from the watcher --- */

static bool is_named(const struct gd__device_names *names, const char *uuid)
{
    return strcmp(names->uuid, uuid) == 0 || strcmp(names->gpu_uuid, uuid) == 0;
}

static void wake_for_news(struct gd_dispatcher *d)
{
    atomic_store(&d->device_news, true);
    const uint64_t one = 1;
    while (write(d->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

/* Runs on the thread that watches the devices. A device fails only once, but its workers may have to be restarted many
 * times. */
static void device_failed(void *user, const char *uuid, enum gd__health health, const char *why)
{
    struct gd_dispatcher *d = user;
    for (unsigned i = 0; i < d->n_gpus; i++) {
        struct gd__run_gpu *gpu = &d->gpus[i];
        int none = NEWS_NONE;
        if (!is_named(&gpu->names, uuid))
            continue;
        if (health == GD__HEALTH_RESTART) {
            atomic_store(&gpu->restart, true);
        } else if (atomic_compare_exchange_strong(&gpu->news, &none, NEWS_WRITING)) {
            snprintf(gpu->message, sizeof gpu->message, "%s", why);
            atomic_store_explicit(&gpu->news, NEWS_READY, memory_order_release);
        } else {
            continue;
        }
        wake_for_news(d);
    }
}

void gd__devices_watch(struct gd_dispatcher *d)
{
    bool any = false;
    if (d->health_token >= 0)
        return;
    for (unsigned i = 0; i < d->n_gpus; i++)
        any = any || d->gpus[i].names.is_watched; /* opening NVML is slow, so it is done only if a device needs it */
    d->health_token = any ? gd__health_subscribe(device_failed, d) : -1; /* -1 also if the watcher is unavailable */
}

void gd__devices_unwatch(struct gd_dispatcher *d)
{
    gd__health_unsubscribe(d->health_token);
    d->health_token = -1;
}

/* --- to the scheduler --- */

void gd__devices_take_news(struct gd_dispatcher *d)
{
    if (!atomic_load_explicit(&d->device_news, memory_order_relaxed) || !atomic_exchange(&d->device_news, false))
        return;
    for (unsigned i = 0; i < d->n_gpus; i++) {
        struct gd__run_gpu *gpu = &d->gpus[i];
        struct gd__run_device *device = &d->devices[gpu->device];
        int ready = NEWS_READY;
        if (atomic_compare_exchange_strong(&gpu->news, &ready, NEWS_TAKEN)) {
            device->failed_gpu = (int)i;
            gd__sched_device_failed(&d->sched, d->now, device->first_worker, gpu->message);
        } else if (atomic_exchange(&gpu->restart, false)) {
            gd__sched_device_restart(&d->sched, d->now, device->first_worker);
        }
    }
}

/* --- to the user --- */

static void report_idle(struct gd_dispatcher *d, int gpu_id, const char *why)
{
    if (d->listener.device_idle)
        d->listener.device_idle(d->listener.user, gpu_id, why);
    if (d->o.on_device_idle)
        d->o.on_device_idle(d->o.user, gpu_id, why);
}

static void report_out(struct gd_dispatcher *d, unsigned worker, int gpu_id, const char *why)
{
    char cause[GD__SETUP_ERROR_MAX - 16];
    gd__text_cause(cause, sizeof cause, why);
    snprintf(d->device_error, sizeof d->device_error, "GPU %d: %s", gpu_id, cause);
    if (d->listener.device_out)
        d->listener.device_out(d->listener.user, (int)worker, gpu_id, why);
    if (d->o.on_device_out)
        d->o.on_device_out(d->o.user, gpu_id, why);
}

void gd__devices_report_unused(struct gd_dispatcher *d)
{
    for (size_t i = 0; i < d->n_unused; i++)
        report_idle(d, d->unused[i].gpu_id, d->unused[i].why);
}

void gd__devices_report_out(struct gd_dispatcher *d, unsigned w, const char *why)
{
    const struct gd__run_device *device = &d->devices[d->device_of[w]];
    char idle[64];
    const int failed = device->failed_gpu;
    if (failed >= 0)
        report_out(d, w, d->gpus[failed].gpu_id, why);
    for (unsigned i = device->first_gpu; i < device->first_gpu + device->how.n_gpus; i++) {
        if (failed < 0) {
            report_out(d, w, d->gpus[i].gpu_id, why);
        } else if ((int)i != failed) {
            snprintf(idle, sizeof idle, "GPU %d of its group is out of use", d->gpus[failed].gpu_id);
            report_idle(d, d->gpus[i].gpu_id, idle);
        }
    }
}
