/* Reads the driver's values about the devices of a run. The devices are identified by their UUIDs. Their numbers are
 * not usable, because the run's process may see other devices than we do. */
#include "stats/sample.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { SHOWN = GD_KNOWN_MEMORY | GD_KNOWN_UTILIZATION | GD_KNOWN_TEMPERATURE | GD_KNOWN_POWER };

static bool is_simulated(const struct gd_device_view *v)
{
    return v->vendor == GD_VENDOR_SIMULATED;
}

/* Chooses the machine's devices, or as many simulated devices as the run has: these exist only if they are requested.
 * Returns false if there is nothing to sample. */
static bool choose_spec(const struct gd_device_view *views, size_t n, char *spec, size_t size, bool *machine)
{
    int64_t most = -1;
    *machine = false;
    for (size_t i = 0; i < n; i++) {
        *machine = *machine || (views[i].vendor != GD_VENDOR_CPU && !is_simulated(&views[i]));
        if (is_simulated(&views[i]) && views[i].gpu_id > most && views[i].gpu_id < 4096)
            most = views[i].gpu_id;
    }
    snprintf(spec, size, "sim:%lld", (long long)most + 1);
    return *machine || most >= 0;
}

static void open_list(struct gd__sample *s, const struct gd_device_view *views, size_t n)
{
    char spec[32];
    bool machine;
    s->given_up =
        !choose_spec(views, n, spec, sizeof spec, &machine) || gd_devices_open(&s->list, machine ? NULL : spec) < 0;
}

static bool is_same(const struct gd_device_view *v, const struct gd_device *d)
{
    if (v->uuid[0] || d->uuid[0])
        return strcmp(v->uuid, d->uuid) == 0;
    return v->vendor == d->vendor && v->gpu_id == d->id;
}

static void take(struct gd_device_view *v, const struct gd_device *d)
{
    v->known = d->known & SHOWN;
    v->memory_total = d->memory_total;
    v->memory_free = d->memory_free;
    v->utilization = d->utilization;
    v->temperature = d->temperature;
    v->power_mw = d->power_mw;
}

void gd__sample_update(struct gd__sample *s, uint64_t now_ns, struct gd_device_view *views, size_t n)
{
    if (s->given_up || (s->at_ns > 0 && now_ns - s->at_ns < GD__NS_PER_S))
        return;
    if (!s->list)
        open_list(s, views, n);
    else
        gd_devices_refresh(s->list);
    s->at_ns = now_ns;
    for (size_t k = 0; k < gd_devices_count(s->list); k++) {
        struct gd_device d = { .size = sizeof d };
        if (gd_devices_get(s->list, k, &d) < 0)
            continue;
        for (size_t i = 0; i < n; i++)
            if (is_same(&views[i], &d))
                take(&views[i], &d);
    }
}

void gd__sample_close(struct gd__sample *s)
{
    gd_devices_close(&s->list);
}
