/* The public lists of devices: see <gpu_dispatch/devices.h>. A list is a snapshot of what the back ends found. Only
 * gd_devices_refresh() and gd_devices_processes() call the back ends again.
 */
#include <gpu_dispatch/devices.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sized.h"
#include "gpu/backends/sim.h"
#include "gpu/claim/claim.h"
#include "gpu/device.h"
#include "gpu/list.h"
#include "gpu/select.h"

#define MIB ((uint64_t)1 << 20)

static const char *const vendor_names[] = {
    [GD_VENDOR_CPU] = "CPU",     [GD_VENDOR_NVIDIA] = "NVIDIA",       [GD_VENDOR_AMD] = "AMD",
    [GD_VENDOR_INTEL] = "Intel", [GD_VENDOR_SIMULATED] = "simulated",
};

const char *gd_vendor_name(enum gd_vendor vendor)
{
    return (size_t)vendor < sizeof vendor_names / sizeof *vendor_names ? vendor_names[vendor] : "unknown";
}

/* --- making --- */

static int open_machine(struct gd_devices *list, const struct gd__spec *spec, const char *text)
{
    struct gd__machine m;
    int rc = gd__machine_open(&m);
    if (rc < 0)
        return rc;
    list->beside_nvidia = m.has_nvidia;
    rc = gd__select(&list->found, &m, spec, text);
    if (rc == 0 && spec->kind == GD__SPEC_FREE && spec->count != GD__SPEC_ANY && spec->count > list->found.n)
        rc = gd__error(GD_E_NO_DEVICES, "%u free GPUs were asked for, but only %zu can be used here", spec->count,
                       list->found.n);
    gd__machine_close(&m);
    return rc;
}

static int make_cpu_workers(struct gd__found_list *out, unsigned count)
{
    int rc = 0;
    for (unsigned i = 0; i < count && rc == 0; i++) {
        struct gd__found f = { .mig_index = -1, .gi = -1, .ci = -1 };
        f.d.vendor = GD_VENDOR_CPU;
        f.d.id = f.d.index = (int)i;
        snprintf(f.d.name, sizeof f.d.name, "CPU");
        rc = gd__found_add(out, &f);
    }
    return rc;
}

/* For "sim:N": the variables that hide devices do not apply. */
static int make_simulated(struct gd__found_list *out, unsigned count)
{
    struct gd__found_list made = { 0 };
    int rc = gd__sim_make(&made, count);
    for (size_t i = 0; i < made.n && rc == 0; i++) {
        made.items[i].d.id = (int)out->n;
        if (!made.items[i].mig_empty && !made.items[i].prohibited)
            rc = gd__found_add(out, &made.items[i]);
    }
    gd__found_clear(&made);
    return rc;
}

static int fill(struct gd_devices *list, const struct gd__spec *spec, const char *text)
{
    if (spec->kind == GD__SPEC_CPU)
        return make_cpu_workers(&list->found, spec->count);
    if (spec->kind == GD__SPEC_SIM)
        return make_simulated(&list->found, spec->count);
    return open_machine(list, spec, text);
}

int gd__devices_open_candidates(struct gd_devices **out, const char *spec)
{
    struct gd__spec parsed;
    *out = NULL;
    int rc = gd__spec_parse(&parsed, spec);
    if (rc < 0)
        return rc;
    struct gd_devices *list = gd__calloc(1, sizeof *list);
    if (!list)
        return gd__error(GD_E_NO_MEMORY, "no memory for a list of devices");
    list->spec = parsed;
    rc = fill(list, &parsed, spec);
    if (rc < 0)
        gd_devices_close(&list);
    else
        *out = list;
    return rc;
}

int gd_devices_open(struct gd_devices **out, const char *spec)
{
    if (!out)
        return gd__error(GD_E_INVALID, "gd_devices_open: out is NULL");
    int rc = gd__devices_open_candidates(out, spec);
    if (rc == 0 && *out && (*out)->spec.kind == GD__SPEC_FREE)
        rc = gd__claim_keep_free(*out);
    if (rc < 0)
        gd_devices_close(out);
    return rc;
}

void gd_devices_close(struct gd_devices **list)
{
    if (!list || !*list)
        return;
    gd__found_clear(&(*list)->found);
    gd__free(*list);
    *list = NULL;
}

/* --- reading --- */

const struct gd__found *gd__devices_at(const struct gd_devices *list, size_t i)
{
    if (list && i < list->found.n)
        return &list->found.items[i];
    gd__error(GD_E_INVALID, "no device at index %zu: the list has %zu", i, gd_devices_count(list));
    return NULL;
}

size_t gd_devices_count(const struct gd_devices *list)
{
    return list ? list->found.n : 0;
}

int gd_devices_get(const struct gd_devices *list, size_t i, struct gd_device *out)
{
    const struct gd__found *f = gd__devices_at(list, i);
    if (!f)
        return GD_E_INVALID;
    return gd__sized_write(out, &f->d, sizeof f->d, "gd_device");
}

int gd_devices_group(const struct gd_devices *list, size_t i)
{
    const struct gd__found *f = gd__devices_at(list, i);
    if (!f)
        return GD_E_INVALID;
    while (f->group > 0 && i > 0 && list->found.items[i - 1].group == f->group)
        i--;
    return (int)i;
}

static int place_of(const struct gd_devices *list, int id)
{
    for (size_t i = 0; i < gd_devices_count(list); i++)
        if (list->found.items[i].d.id == id)
            return (int)i;
    return -1;
}

static int not_there(const struct gd_devices *list, int id)
{
    const size_t n = gd_devices_count(list);
    char ids[256];
    if (n == 0)
        return gd__error(GD_E_NO_DEVICES, "no GPU %d: no GPUs were found", id);
    gd__ids_format(list->found.items, n, ids, sizeof ids);
    return gd__error(GD_E_NO_DEVICES, "no GPU %d: the %s %s", id, n == 1 ? "only GPU is" : "GPUs are", ids);
}

int gd_devices_find(const struct gd_devices *list, int id)
{
    const int place = place_of(list, id);
    return place >= 0 ? place : not_there(list, id);
}

int gd_devices_validate(const struct gd_devices *list, const int *ids, size_t n)
{
    if (n > 0 && !ids)
        return gd__error(GD_E_INVALID, "gd_devices_validate: ids is NULL");
    for (size_t i = 0; i < n; i++) {
        if (place_of(list, ids[i]) < 0)
            return not_there(list, ids[i]);
        for (size_t k = 0; k < i; k++)
            if (ids[k] == ids[i])
                return gd__error(GD_E_INVALID, "GPU %d is listed twice; list it once", ids[i]);
    }
    return 0;
}

bool gd_devices_cuda(const struct gd_devices *list)
{
    for (size_t i = 0; i < gd_devices_count(list); i++)
        if (list->found.items[i].d.vendor == GD_VENDOR_NVIDIA && !list->found.items[i].prohibited)
            return true;
    return false;
}

/* --- refreshing --- */

int gd_devices_refresh(struct gd_devices *list)
{
    if (!list)
        return gd__error(GD_E_INVALID, "gd_devices_refresh: the list is NULL");
    for (size_t i = 0; i < list->found.n; i++)
        if (list->found.items[i].backend)
            list->found.items[i].backend->refresh(&list->found.items[i]);
    return 0;
}

/* The caller's elements may be longer than ours, from a newer header. Then moves each element to its place, the last
 * one first. */
static void spread(struct gd_device_process *list, size_t n, size_t element_size)
{
    for (size_t i = n; element_size > sizeof *list && i-- > 0;) {
        char *to = (char *)list + i * element_size;
        memmove(to, &list[i], sizeof *list);
        memset(to + sizeof *list, 0, element_size - sizeof *list);
    }
}

int gd_devices_processes(const struct gd_devices *list, size_t i, struct gd_device_process *out, size_t element_size,
                         size_t max)
{
    const struct gd__found *f = gd__devices_at(list, i);
    if (!f)
        return GD_E_INVALID;
    if (element_size < sizeof(*out))
        return gd__error(GD_E_INVALID, "gd_devices_processes: pass sizeof(struct gd_device_process)");
    const size_t room = out ? max : 0;
    int rc = f->backend && f->backend->processes ? f->backend->processes(f, out, room) : GD_E_UNSUPPORTED;
    if (rc == GD_E_UNSUPPORTED)
        gd__error(rc, "the processes that use GPU %d cannot be listed: its driver does not report them", f->d.id);
    if (rc > 0)
        spread(out, (size_t)rc < room ? (size_t)rc : room, element_size);
    return rc;
}

/* --- free memory --- */

/* Writes "6.0 GiB", "512 MiB". */
static const char *amount(uint64_t bytes, char *out, size_t size)
{
    const uint64_t mib = bytes / MIB;
    if (mib >= 1024)
        snprintf(out, size, "%.1f GiB", (double)bytes / (1024.0 * (double)MIB));
    else if (mib > 0)
        snprintf(out, size, "%llu MiB", (unsigned long long)mib);
    else
        snprintf(out, size, "%llu bytes", (unsigned long long)bytes);
    return out;
}

/* A tenth of the free memory, and at least 256 MiB, stays free. */
static uint64_t in_reserve(const struct gd__found *f)
{
    const uint64_t tenth = f->d.memory_free / 10;
    return tenth > 256 * MIB ? tenth : 256 * MIB;
}

void gd__devices_explain_room(const struct gd_devices *list, size_t i, uint64_t bytes, char *out, size_t size)
{
    const struct gd__found *f = &list->found.items[i];
    char has[32], keeps[32], wants[32];
    snprintf(out, size, "it has %s free, and %s of that stay in reserve: a worker that needs %s does not fit",
             amount(f->d.memory_free, has, sizeof has), amount(in_reserve(f), keeps, sizeof keeps),
             amount(bytes, wants, sizeof wants));
}

int gd_devices_room(const struct gd_devices *list, size_t i, uint64_t bytes)
{
    const struct gd__found *f = gd__devices_at(list, i);
    char why[192];
    if (!f)
        return GD_E_INVALID;
    if (bytes == 0)
        return gd__error(GD_E_INVALID, "the memory that a worker needs must be more than 0 bytes");
    if (!(f->d.known & GD_KNOWN_MEMORY))
        return gd__error(GD_E_UNSUPPORTED, "the free memory of GPU %d is unknown: give the number of workers instead",
                         f->d.id);
    const uint64_t kept = in_reserve(f);
    const uint64_t room = f->d.memory_free > kept ? (f->d.memory_free - kept) / bytes : 0;
    if (room > 0)
        return room > INT_MAX ? INT_MAX : (int)room;
    gd__devices_explain_room(list, i, bytes, why, sizeof why);
    return gd__error(GD_E_TOO_LARGE, "GPU %d %s", f->d.id, why + strlen("it "));
}
