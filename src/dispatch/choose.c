/* Which devices a run uses, in which groups, and with how many workers. This is decided once, when the dispatcher is
 * opened.
 *
 *   chosen   the devices that the options name
 *   room     those on which no worker of model_bytes fits are left out, with their groups
 *   groups   the rest is divided into groups; what is left over is not used
 *   devices  one for each group, with its workers
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "dispatch/internal.h"
#include "gpu/list.h"

struct choice {
    const struct gd_devices *list;
    struct gd__chosen *chosen;
    int *workers; /* how many fit on each chosen device */
    size_t n;
    struct gd__group *groups;
    int *group_of;
};

static int too_many(const struct gd_options *o, size_t n_gpus)
{
    return gd__error(GD_E_INVALID, "%zu devices with workers_per_gpu = %u are too many workers: at most %d in all",
                     n_gpus, o->workers_per_gpu, GD__WORKERS_MAX);
}

/* --- the options --- */

static int check_numbers(const struct gd_options *o)
{
    if (o->n_gpus > GD__WORKERS_MAX)
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
    if (o->workers_per_gpu > GD__WORKERS_MAX)
        return too_many(o, 1);
    if (o->max_workers_per_gpu > 0 && o->max_workers_per_gpu < o->workers_per_gpu)
        return gd__error(GD_E_INVALID,
                         "max_workers_per_gpu is %u, but workers_per_gpu is %u: set it to at least that, or to 0",
                         o->max_workers_per_gpu, o->workers_per_gpu);
    if ((unsigned)o->visible_devices > GD_VISIBLE_INDEX)
        return gd__error(GD_E_INVALID, "visible_devices is %d, which is not a value of enum gd_visible_devices",
                         (int)o->visible_devices);
    return o->gpus ? 0 : check_numbers(o);
}

/* --- devices that are not used --- */

static void leave_out(struct gd_dispatcher *d, int gpu_id, const char *why)
{
    struct gd__unused_gpu *u = &d->unused[d->n_unused++];
    u->gpu_id = gpu_id;
    snprintf(u->why, sizeof u->why, "%s", why);
}

/* --- room for workers --- */

/* Sets workers[i] for each device. A device without room gets 0, and is added to the devices that are not used. */
static int find_room(struct gd_dispatcher *d, const struct choice *c)
{
    for (size_t i = 0; i < c->n; i++) {
        char why[GD__UNUSED_WHY_MAX];
        c->workers[i] = (int)d->o.workers_per_gpu;
        if (c->workers[i] > 0)
            continue;
        if (c->chosen[i].at < 0)
            return gd__error(GD_E_NO_DEVICES, "workers_per_gpu is 0, but the device does not exist, so its free memory "
                                              "is unknown: set workers_per_gpu");
        const int room = gd_devices_room(c->list, (size_t)c->chosen[i].at, d->o.model_bytes);
        if (room < 0 && room != GD_E_TOO_LARGE)
            return room;
        c->workers[i] = room < 0 ? 0 : room;
        if (room < 0) {
            gd__devices_explain_room(c->list, (size_t)c->chosen[i].at, d->o.model_bytes, why, sizeof why);
            leave_out(d, c->chosen[i].id, why);
        }
    }
    return 0;
}

/* Returns a device without room that the user grouped with device i ("0+1"), or NULL. */
static const struct gd__chosen *full_partner(const struct choice *c, size_t i)
{
    const unsigned group = gd__groups_written(c->list, &c->chosen[i]);
    for (size_t k = 0; group > 0 && k < c->n; k++)
        if (c->workers[k] == 0 && gd__groups_written(c->list, &c->chosen[k]) == group)
            return &c->chosen[k];
    return NULL;
}

/* Removes the devices without room, and those that the user grouped with them. */
static int drop_full(struct gd_dispatcher *d, struct choice *c)
{
    size_t kept = 0;
    if (d->o.workers_per_gpu > 0)
        return 0;
    for (size_t i = 0; i < c->n; i++) {
        const struct gd__chosen *partner = full_partner(c, i);
        char why[GD__UNUSED_WHY_MAX];
        if (partner && c->workers[i] > 0) {
            snprintf(why, sizeof why, "no worker fits on GPU %d of its group", partner->id);
            leave_out(d, c->chosen[i].id, why);
            c->workers[i] = -1;
        }
    }
    for (size_t i = 0; i < c->n; i++) {
        if (c->workers[i] <= 0)
            continue;
        c->chosen[kept] = c->chosen[i];
        c->workers[kept++] = c->workers[i];
    }
    if (kept == 0 && c->n == 1)
        return GD_E_TOO_LARGE; /* the error of gd_devices_room() is still set */
    if (kept == 0)
        return gd__error(GD_E_TOO_LARGE, "no worker fits on any of the %zu devices: GPU %d: %s", c->n,
                         d->unused[0].gpu_id, d->unused[0].why);
    c->n = kept;
    return 0;
}

/* --- groups --- */

static int form_groups(struct gd_dispatcher *d, const struct choice *c)
{
    const unsigned k = d->o.gpus_per_worker;
    char why[GD__UNUSED_WHY_MAX];
    const int n = gd__groups_form(c->groups, c->group_of, c->list, c->chosen, c->n, k);
    if (n < 0)
        return n;
    if (n == 0)
        return gd__error(GD_E_NO_DEVICES,
                         "gpus_per_worker is %u, but only %zu device%s can be used: choose more devices or a smaller "
                         "gpus_per_worker",
                         k, c->n, c->n == 1 ? "" : "s");
    snprintf(why, sizeof why, "too few devices are left for a group of %u", k);
    for (size_t i = 0; i < c->n; i++)
        if (c->group_of[i] < 0)
            leave_out(d, c->chosen[i].id, why);
    d->n_devices = (unsigned)n;
    return 0;
}

/* --- the devices of the run --- */

static void describe(struct gd__run_gpu *gpu, const struct gd_devices *list, const struct gd__chosen *chosen)
{
    struct gd_device known = { .size = sizeof known };
    gpu->gpu_id = chosen->id;
    if (chosen->at < 0 || gd_devices_get(list, (size_t)chosen->at, &known) < 0)
        return;
    gpu->vendor = known.vendor;
    memcpy(gpu->name, known.name, sizeof gpu->name);
    gd__device_names(&gpu->names, list, (size_t)chosen->at);
}

static int make_device(struct gd_dispatcher *d, const struct choice *c, unsigned g)
{
    struct gd__run_device *device = &d->devices[g];
    const struct gd__group *group = &c->groups[g];
    int workers = INT_MAX;
    device->first_gpu = d->n_gpus;
    device->failed_gpu = -1;
    for (size_t i = 0; i < group->n; i++) {
        const size_t member = group->members[i];
        describe(&d->gpus[d->n_gpus], c->list, &c->chosen[member]);
        d->gpus[d->n_gpus++].device = g;
        workers = c->workers[member] < workers ? c->workers[member] : workers;
    }
    device->first_worker = d->n_workers;
    device->n_workers = (unsigned)workers;
    d->n_workers += (unsigned)workers;
    if (d->n_workers > GD__WORKERS_MAX)
        return too_many(&d->o, d->n_devices);
    return gd__worker_group(&device->how, c->list, c->chosen, group, d->o.visible_devices);
}

static int make_devices(struct gd_dispatcher *d, const struct choice *c)
{
    d->devices = gd__calloc(d->n_devices, sizeof *d->devices);
    d->gpus = gd__calloc(c->n, sizeof *d->gpus);
    if (!d->devices || !d->gpus)
        return gd__error(GD_E_NO_MEMORY, "no memory for %u devices", d->n_devices);
    int rc = 0;
    for (unsigned g = 0; g < d->n_devices && rc == 0; g++)
        rc = make_device(d, c, g);
    return rc;
}

/* How many workers can be added to the device while the run goes on. */
static unsigned spare_on(const struct gd_dispatcher *d, unsigned g)
{
    const unsigned most = d->o.max_workers_per_gpu, n = d->devices[g].n_workers;
    return most > n ? most - n : 0;
}

static int count_spare(struct gd_dispatcher *d)
{
    for (unsigned g = 0; g < d->n_devices; g++) {
        d->n_spare += spare_on(d, g);
        if (d->n_workers + d->n_spare > GD__WORKERS_MAX)
            return gd__error(GD_E_INVALID,
                             "%u devices with max_workers_per_gpu = %u are too many workers: at most %d in all",
                             d->n_devices, d->o.max_workers_per_gpu, GD__WORKERS_MAX);
    }
    d->n_workers += d->n_spare;
    return 0;
}

static int assign_workers(struct gd_dispatcher *d)
{
    unsigned spare = d->n_workers; /* the first that is not assigned */
    const int rc = count_spare(d);
    if (rc < 0)
        return rc;
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
        for (unsigned k = spare_on(d, g); k > 0; k--, spare++) {
            d->copy.gpu_ids[spare] = d->devices[g].how.gpu_id;
            d->device_of[spare] = g;
        }
    }
    return 0;
}

/* --- all of it --- */

static void fill_chosen(const struct gd_options *o, struct choice *c)
{
    for (size_t i = 0; i < c->n; i++) {
        struct gd_device known = { .size = sizeof known };
        if (!o->gpus)
            c->chosen[i].id = o->gpu_ids[i];
        else if (gd_devices_get(c->list, i, &known) == 0)
            c->chosen[i].id = known.id;
        c->chosen[i].at = o->gpus ? (int)i : c->list ? gd_devices_find(c->list, o->gpu_ids[i]) : -1;
        c->chosen[i].at = c->chosen[i].at < 0 ? -1 : c->chosen[i].at;
    }
}

static int resolve(struct gd_dispatcher *d, struct choice *c)
{
    if (!c->chosen || !c->workers || !c->groups || !c->group_of || !d->unused)
        return gd__error(GD_E_NO_MEMORY, "no memory for %zu devices", c->n);
    fill_chosen(&d->o, c);
    int rc = find_room(d, c);
    if (rc == 0)
        rc = drop_full(d, c);
    if (rc == 0)
        rc = form_groups(d, c);
    if (rc == 0)
        rc = make_devices(d, c);
    return rc < 0 ? rc : assign_workers(d);
}

static int choose(struct gd_dispatcher *d, const struct gd_devices *list)
{
    struct choice c = { .list = list, .n = d->o.gpus ? gd_devices_count(list) : d->o.n_gpus };
    if (c.n == 0)
        return gd__error(GD_E_NO_DEVICES, "no usable device: each one is in a compute mode that prohibits programs, or "
                                          "has MIG on but no MIG instance");
    if (c.n > GD__WORKERS_MAX)
        return too_many(&d->o, c.n);
    c.chosen = gd__calloc(c.n, sizeof *c.chosen);
    c.workers = gd__calloc(c.n, sizeof *c.workers);
    c.groups = gd__calloc(c.n, sizeof *c.groups);
    c.group_of = gd__calloc(c.n, sizeof *c.group_of);
    d->unused = gd__calloc(c.n, sizeof *d->unused);
    const int rc = resolve(d, &c);
    gd__free(c.chosen);
    gd__free(c.workers);
    gd__free(c.groups);
    gd__free(c.group_of);
    return rc;
}

int gd__devices_resolve(struct gd_dispatcher *d)
{
    struct gd_devices *list = NULL;
    int rc = check_options(&d->o);
    if (rc < 0)
        return rc;
    rc = gd__devices_open_candidates(&list, d->o.gpus);
    if (rc == 0 && (rc = gd__devices_claim(d, list)) < 0) {
        gd_devices_close(&list);
        return rc;
    }
    /* With gpu_ids, the numbers need not be existing devices. So a failure to list the devices is not an error then. */
    if (rc == 0 || (!d->o.gpus && rc != GD_E_NO_MEMORY))
        rc = choose(d, list);
    gd_devices_close(&list);
    return rc;
}

void gd__devices_free(struct gd_dispatcher *d)
{
    gd__devices_release(d);
    gd__free(d->devices);
    gd__free(d->gpus);
    gd__free(d->unused);
    gd__free(d->device_of);
    gd__free(d->copy.gpu_ids);
    d->devices = NULL;
}

int gd_dispatcher_worker_gpus(const struct gd_dispatcher *d, unsigned worker_id, int *out, size_t max)
{
    if (!d)
        return gd__error(GD_E_INVALID, "gd_dispatcher_worker_gpus: the dispatcher is NULL");
    if (worker_id >= d->n_workers)
        return gd__error(GD_E_INVALID, "no worker %u: the dispatcher has %u", worker_id, d->n_workers);
    const struct gd__worker_device *how = &d->devices[d->device_of[worker_id]].how;
    if (out)
        memcpy(out, how->gpu_ids, (max < how->n_gpus ? max : how->n_gpus) * sizeof *out);
    return (int)how->n_gpus;
}
