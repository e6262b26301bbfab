/* The devices of a run. When the dispatcher is opened, the settings with which the workers of each device are started
 * are determined once. A failure is reported on the watcher's thread. That thread stores it in struct gd__run_device
 * and wakes the monitor, which takes it from there.
 *
 *   news   NONE ─(watcher claims it)→ WRITING ─(message is complete)→ READY ─(monitor)→ TAKEN
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "dispatch/internal.h"

enum { MOST_WORKERS = 4096 };
enum { NEWS_NONE, NEWS_WRITING, NEWS_READY, NEWS_TAKEN };

/* --- which ones --- */

static int too_many(const struct gd_options *o, size_t n_gpus)
{
    return gd__error(GD_E_INVALID, "%zu devices with workers_per_gpu = %u are too many workers: at most %d in all",
                     n_gpus, o->workers_per_gpu, MOST_WORKERS);
}

static int check_numbers(const struct gd_options *o)
{
    if (o->n_gpus > MOST_WORKERS)
        return too_many(o, o->n_gpus);
    for (size_t i = 0; i < o->n_gpus; i++) {
        if (o->gpu_ids[i] < 0)
            return gd__error(GD_E_INVALID, "gpu_ids[%zu] is %d: device numbers begin at 0", i, o->gpu_ids[i]);
        for (size_t k = 0; k < i; k++)
            if (o->gpu_ids[k] == o->gpu_ids[i])
                return gd__error(GD_E_INVALID,
                                 "device %d is listed twice: use workers_per_gpu for several workers on it",
                                 o->gpu_ids[i]);
    }
    return 0;
}

static int check_options(const struct gd_options *o)
{
    if (o->gpus && o->gpu_ids)
        return gd__error(GD_E_INVALID, "both gpus and gpu_ids are set: set only one");
    if (!o->gpus && (!o->gpu_ids || o->n_gpus == 0))
        return gd__error(GD_E_NO_DEVICES, "no devices: set gpus (\"auto\", \"sim:2\"), or gpu_ids and n_gpus (any "
                                          "number will do for workers that need no GPU)");
    if (o->workers_per_gpu == 0 && o->model_bytes == 0)
        return gd__error(GD_E_INVALID, "workers_per_gpu is 0: set it to at least 1, or set model_bytes to the device "
                                       "memory that one worker needs");
    return o->gpus ? 0 : check_numbers(o);
}

/* The number of workers for the device at this position of the list. */
static int workers_on(const struct gd_options *o, const struct gd_devices *list, int at)
{
    if (o->workers_per_gpu > 0)
        return o->workers_per_gpu > MOST_WORKERS ? too_many(o, 1) : (int)o->workers_per_gpu;
    if (at < 0)
        return gd__error(GD_E_NO_DEVICES, "workers_per_gpu is 0, but the device does not exist, so its free memory is "
                                          "unknown: set workers_per_gpu");
    return gd_devices_room(list, (size_t)at, o->model_bytes);
}

static void describe(struct gd__run_device *device, const struct gd_devices *list, int at)
{
    struct gd_device known = { .size = sizeof known };
    if (at < 0 || gd_devices_get(list, (size_t)at, &known) < 0)
        return;
    device->vendor = known.vendor;
    memcpy(device->name, known.name, sizeof device->name);
}

static int resolve_one(struct gd_dispatcher *d, const struct gd_devices *list, size_t i)
{
    struct gd__run_device *device = &d->devices[i];
    int at = (int)i, rc;
    if (d->o.gpus) {
        rc = gd__worker_device(&device->how, list, i);
    } else {
        at = list ? gd_devices_find(list, d->o.gpu_ids[i]) : -1;
        rc = gd__worker_device_number(&device->how, list, d->o.gpu_ids[i]);
    }
    if (rc < 0)
        return rc;
    describe(device, list, at);
    rc = workers_on(&d->o, list, at);
    if (rc < 0)
        return rc;
    device->first_worker = d->n_workers;
    device->n_workers = (unsigned)rc;
    d->n_workers += (unsigned)rc;
    return d->n_workers > MOST_WORKERS ? too_many(&d->o, d->n_devices) : 0;
}

static int assign_workers(struct gd_dispatcher *d)
{
    d->copy.gpu_ids = gd__calloc(d->n_workers, sizeof *d->copy.gpu_ids);
    d->device_of = gd__calloc(d->n_workers, sizeof *d->device_of);
    if (!d->copy.gpu_ids || !d->device_of)
        return gd__error(GD_E_NO_MEMORY, "no memory for %u workers", d->n_workers);
    for (unsigned g = 0; g < d->n_devices; g++) {
        for (unsigned k = 0; k < d->devices[g].n_workers; k++) {
            const unsigned w = d->devices[g].first_worker + k;
            d->copy.gpu_ids[w] = d->devices[g].how.gpu_id;
            d->device_of[w] = g;
        }
    }
    return 0;
}

static int resolve(struct gd_dispatcher *d, const struct gd_devices *list)
{
    d->n_devices = (unsigned)(d->o.gpus ? gd_devices_count(list) : d->o.n_gpus);
    if (d->n_devices == 0)
        return gd__error(GD_E_NO_DEVICES, "no usable device: each one is in a compute mode that prohibits programs, or "
                                          "has MIG on but no MIG instance");
    if (d->n_devices > MOST_WORKERS)
        return too_many(&d->o, d->n_devices);
    d->devices = gd__calloc(d->n_devices, sizeof *d->devices);
    if (!d->devices)
        return gd__error(GD_E_NO_MEMORY, "no memory for %u devices", d->n_devices);
    for (unsigned i = 0; i < d->n_devices; i++) {
        const int rc = resolve_one(d, list, i);
        if (rc < 0)
            return rc;
    }
    return assign_workers(d);
}

int gd__devices_resolve(struct gd_dispatcher *d)
{
    struct gd_devices *list = NULL;
    int rc = check_options(&d->o);
    if (rc < 0)
        return rc;
    rc = gd_devices_open(&list, d->o.gpus);
    /* With gpu_ids, the numbers need not be existing devices. So a failure to list the devices is not an error then. */
    if (rc == 0 || (!d->o.gpus && rc != GD_E_NO_MEMORY))
        rc = resolve(d, list);
    gd_devices_close(&list);
    return rc;
}

void gd__devices_free(struct gd_dispatcher *d)
{
    gd__free(d->devices);
    gd__free(d->device_of);
    gd__free(d->copy.gpu_ids);
    d->devices = NULL;
}

/* --- their health --- */

static bool is_named(const struct gd__worker_device *how, const char *uuid)
{
    return strcmp(how->uuid, uuid) == 0 || strcmp(how->gpu_uuid, uuid) == 0;
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
    for (unsigned i = 0; i < d->n_devices; i++) {
        struct gd__run_device *device = &d->devices[i];
        int none = NEWS_NONE;
        if (!is_named(&device->how, uuid))
            continue;
        if (health == GD__HEALTH_RESTART) {
            atomic_store(&device->restart, true);
        } else if (atomic_compare_exchange_strong(&device->news, &none, NEWS_WRITING)) {
            snprintf(device->message, sizeof device->message, "%s", why);
            atomic_store_explicit(&device->news, NEWS_READY, memory_order_release);
        } else {
            continue;
        }
        wake_for_news(d);
    }
}

void gd__devices_watch(struct gd_dispatcher *d)
{
    bool any = false;
    for (unsigned i = 0; i < d->n_devices; i++)
        any = any || d->devices[i].how.is_watched; /* opening NVML is slow, so it is done only if a device needs it */
    d->health_token = any ? gd__health_subscribe(device_failed, d) : -1; /* -1 also if the watcher is unavailable */
}

void gd__devices_unwatch(struct gd_dispatcher *d)
{
    gd__health_unsubscribe(d->health_token);
    d->health_token = -1;
}

void gd__devices_take_news(struct gd_dispatcher *d)
{
    if (!atomic_load_explicit(&d->device_news, memory_order_relaxed) || !atomic_exchange(&d->device_news, false))
        return;
    for (unsigned i = 0; i < d->n_devices; i++) {
        struct gd__run_device *device = &d->devices[i];
        int ready = NEWS_READY;
        if (atomic_compare_exchange_strong(&device->news, &ready, NEWS_TAKEN))
            gd__sched_device_failed(&d->sched, d->now, device->first_worker, device->message);
        else if (atomic_exchange(&device->restart, false))
            gd__sched_device_restart(&d->sched, d->now, device->first_worker);
    }
}
