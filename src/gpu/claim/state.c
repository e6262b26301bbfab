/* Whether a device is free, and the message if it is not. */
#include "gpu/claim/state.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gpu/claim/holder.h"

#define GIB ((uint64_t)1 << 30)

enum { MEMORY_PART = 20 }; /* a twentieth: 5 % */

void gd__device_lock_name(char out[GD__LOCK_NAME_MAX], const struct gd__found *f)
{
    const char *name = *f->d.uuid ? f->d.uuid : f->d.pci;
    if (f->d.vendor == GD_VENDOR_SIMULATED)
        snprintf(out, GD__LOCK_NAME_MAX, "sim-%u-%s", (unsigned)geteuid(), name);
    else
        snprintf(out, GD__LOCK_NAME_MAX, "%s%s", *f->d.uuid ? "" : "PCI-", name);
    for (char *c = out; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-:._", *c))
            *c = '_';
}

static uint64_t memory_used(const struct gd__found *f)
{
    return f->d.memory_total > f->d.memory_free ? f->d.memory_total - f->d.memory_free : 0;
}

static bool is_filled(const struct gd__found *f)
{
    const uint64_t part = f->d.memory_total / MEMORY_PART;
    return f->d.known & GD_KNOWN_MEMORY && memory_used(f) > (part > GIB ? part : GIB);
}

static int first_process(const struct gd__found *f)
{
    struct gd_device_process one = { .pid = 0 };
    const int n = f->backend && f->backend->processes ? f->backend->processes(f, &one, 1) : 0;
    return n > 0 ? one.pid : 0;
}

void gd__device_figures(struct gd__device_state *out, const struct gd__found *f)
{
    *out = (struct gd__device_state){ .use = GD__DEVICE_FREE };
    if (!(f->d.known & (GD_KNOWN_MEMORY | GD_KNOWN_PROCESSES)))
        out->use = GD__DEVICE_UNKNOWN;
    else if (f->d.known & GD_KNOWN_PROCESSES && f->d.n_processes > 0)
        *out = (struct gd__device_state){ .use = GD__DEVICE_COMPUTES, .pid = first_process(f) };
    else if (is_filled(f))
        out->use = GD__DEVICE_FILLED;
}

/* A lock is reported rather than the processes on the device, because these are usually the workers of the run that has
 * the lock. */
void gd__device_state(struct gd__device_state *out, const struct gd__found *f, const struct gd__lock_directory *d)
{
    char name[GD__LOCK_NAME_MAX];
    struct gd__lock_file_id file = { .name = "" };
    struct gd__holder holder;
    gd__device_figures(out, f);
    gd__device_lock_name(name, f);
    if (out->use == GD__DEVICE_UNKNOWN || d->fd < 0 || !gd__holder_of_device(&holder, d, name, &file))
        return;
    *out = (struct gd__device_state){ .use = holder.ancestor ? GD__DEVICE_ABOVE : GD__DEVICE_LOCKED,
                                      .pid = holder.pid,
                                      .file = file };
}

char *gd__device_state_describe(char out[GD__STATE_TEXT], const struct gd__found *f, const struct gd__device_state *s)
{
    char who[GD__HOLDER_TEXT];
    const double gib = (double)GIB;
    switch (s->use) {
    case GD__DEVICE_LOCKED:
        snprintf(out, GD__STATE_TEXT, "GPU %d is held by %s", f->d.id, gd__holder_describe(who, s->pid));
        break;
    case GD__DEVICE_ABOVE:
        snprintf(out, GD__STATE_TEXT, "GPU %d is held by the run that this process is part of, %s", f->d.id,
                 gd__holder_describe(who, s->pid));
        break;
    case GD__DEVICE_COMPUTES:
        snprintf(out, GD__STATE_TEXT, "GPU %d is used by %s", f->d.id, gd__holder_describe(who, s->pid));
        break;
    case GD__DEVICE_FILLED:
        snprintf(out, GD__STATE_TEXT, "%.1f of %.1f GiB of GPU %d are in use", (double)memory_used(f) / gib,
                 (double)f->d.memory_total / gib, f->d.id);
        break;
    case GD__DEVICE_UNKNOWN:
        snprintf(out, GD__STATE_TEXT, "the driver does not report whether GPU %d is in use", f->d.id);
        break;
    case GD__DEVICE_FREE:
        snprintf(out, GD__STATE_TEXT, "GPU %d is free", f->d.id);
        break;
    }
    return out;
}
