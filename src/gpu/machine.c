/* All devices of this machine, and those that this process may use.
 *
 * The back ends are called in the order of a table. The devices of each are sorted by PCI bus id, which is the order of
 * CUDA_DEVICE_ORDER=PCI_BUS_ID, and then reduced to those that the vendor's variables make visible. The remaining
 * devices are numbered (gd_device.id). A device that has MIG on but no MIG instance counts in the vendor's numbering,
 * but its id is -1.
 */
#include "gpu/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gpu/backends/sim.h"
#include "gpu/visible_list.h"

/* --- lists --- */

int gd__found_add(struct gd__found_list *list, const struct gd__found *item)
{
    if (list->n == list->capacity) {
        const size_t more = list->capacity ? 2 * list->capacity : 8;
        struct gd__found *items = gd__realloc(list->items, more * sizeof *items);
        if (!items)
            return gd__error(GD_E_NO_MEMORY, "no memory for a list of devices");
        list->items = items;
        list->capacity = more;
    }
    list->items[list->n++] = *item;
    return 0;
}

void gd__found_clear(struct gd__found_list *list)
{
    gd__free(list->items);
    *list = (struct gd__found_list){ 0 };
}

static int append(struct gd__found_list *to, const struct gd__found_list *from)
{
    int rc = 0;
    for (size_t i = 0; i < from->n && rc == 0; i++)
        rc = gd__found_add(to, &from->items[i]);
    return rc;
}

/* --- order --- */

static uint64_t pci_key(const struct gd__found *f)
{
    unsigned domain = 0, bus = 0, device = 0, function = 0;
    if (sscanf(f->d.pci, "%x:%x:%x.%x", &domain, &bus, &device, &function) < 4) /* NOLINT(cert-err34-c) */
        return UINT64_MAX;
    return (uint64_t)domain << 32 | (bus & 0xff) << 16 | (device & 0xff) << 8 | (function & 0xff);
}

static int by_bus(const void *a, const void *b)
{
    const struct gd__found *x = a, *y = b;
    const uint64_t i = pci_key(x), k = pci_key(y);
    if (i != k)
        return i < k ? -1 : 1;
    if (x->mig_index != y->mig_index)
        return x->mig_index < y->mig_index ? -1 : 1;
    return (x->runtime_number > y->runtime_number) - (x->runtime_number < y->runtime_number);
}

static bool same_gpu(const struct gd__found *a, const struct gd__found *b)
{
    return a->d.is_mig && b->d.is_mig && strcmp(a->gpu_uuid, b->gpu_uuid) == 0;
}

static void sort_and_number(struct gd__found_list *list)
{
    int index = -1;
    if (list->n > 1)
        qsort(list->items, list->n, sizeof *list->items, by_bus);
    for (size_t i = 0; i < list->n; i++) {
        struct gd__found *f = &list->items[i];
        index += i == 0 || !same_gpu(f, &list->items[i - 1]);
        f->d.index = index;
        if (f->d.vendor != GD_VENDOR_AMD) /* ROCm has its own order */
            f->runtime_number = index;
        f->number = f->runtime_number;
    }
}

/* --- visible devices --- */

/* Reduces list to the devices that the variable makes visible, and numbers them from 0. */
static int reduce(struct gd__found_list *list, const char *variable, enum gd__visible_rules rules)
{
    const char *value = getenv(variable);
    struct gd__found_list kept = { 0 };
    int rc = 0;
    if (!value || !list->items)
        return 0;
    size_t *order = gd__calloc(list->n, sizeof *order);
    if (!order)
        return gd__error(GD_E_NO_MEMORY, "no memory for a list of devices");
    const size_t n = gd__visible_list(value, rules, list->items, list->n, order);
    for (size_t i = 0; i < n && rc == 0; i++) {
        list->items[order[i]].number = (int)i;
        rc = gd__found_add(&kept, &list->items[order[i]]);
    }
    gd__free(order);
    if (rc < 0) {
        gd__found_clear(&kept);
        return rc;
    }
    gd__found_clear(list);
    *list = kept;
    return 0;
}

/* ROCR_VISIBLE_DEVICES is applied first. HIP_VISIBLE_DEVICES counts only the devices that remain. If it is not set, HIP
 * reads CUDA_VISIBLE_DEVICES instead. If there are NVIDIA devices, CUDA_VISIBLE_DEVICES is meant for them and is not
 * applied here. */
static int reduce_amd(struct gd__found_list *list, bool has_nvidia)
{
    const char *hip = !getenv("HIP_VISIBLE_DEVICES") && !has_nvidia ? "CUDA_VISIBLE_DEVICES" : "HIP_VISIBLE_DEVICES";
    int rc = reduce(list, "ROCR_VISIBLE_DEVICES", GD__VISIBLE_ROCM);
    return rc < 0 ? rc : reduce(list, hip, GD__VISIBLE_ROCM);
}

static int apply_variables(struct gd__found_list *list, enum gd_vendor vendor, bool has_nvidia)
{
    switch (vendor) {
    case GD_VENDOR_NVIDIA:
    case GD_VENDOR_SIMULATED:
        return reduce(list, "CUDA_VISIBLE_DEVICES", GD__VISIBLE_CUDA);
    case GD_VENDOR_AMD:
        return reduce_amd(list, has_nvidia);
    case GD_VENDOR_INTEL:
        return reduce(list, "ZE_AFFINITY_MASK", GD__VISIBLE_LEVEL_ZERO);
    case GD_VENDOR_CPU:
        break;
    }
    return 0;
}

/* --- the machine --- */

static void note_why(struct gd__machine *m, const struct gd__backend *b, const char *why)
{
    const size_t used = strlen(m->why);
    snprintf(m->why + used, sizeof m->why - used, "%s%s: %s", used ? "; " : "", b->name, why);
}

static int add_backend(struct gd__machine *m, const struct gd__backend *b)
{
    char why[GD__WHY_MAX] = "";
    struct gd__found_list part = { 0 };
    int rc = b->detect(&part, why);
    if (rc == 0 && part.n == 0)
        note_why(m, b, why);
    if (rc == 0 && part.n > 0) {
        m->has_nvidia = m->has_nvidia || b->vendor == GD_VENDOR_NVIDIA;
        sort_and_number(&part);
        rc = append(&m->all, &part);
    }
    if (rc == 0 && part.n > 0)
        rc = apply_variables(&part, b->vendor, m->has_nvidia);
    if (rc == 0)
        rc = append(&m->visible, &part);
    gd__found_clear(&part);
    return rc;
}

static void set_ids(struct gd__found_list *list)
{
    int id = 0;
    for (size_t i = 0; i < list->n; i++)
        list->items[i].d.id = list->items[i].mig_empty ? -1 : id++;
}

int gd__machine_open(struct gd__machine *out)
{
    static const struct gd__backend *const real[] = { &gd__nvml_backend, &gd__amd_backend, &gd__intel_backend };
    int rc = 0;
    memset(out, 0, sizeof *out);
    if (gd__sim_wanted())
        rc = add_backend(out, &gd__sim_backend);
    else
        for (size_t i = 0; i < sizeof real / sizeof *real && rc == 0; i++)
            rc = add_backend(out, real[i]);
    set_ids(&out->visible);
    if (rc < 0)
        gd__machine_close(out);
    return rc;
}

void gd__machine_close(struct gd__machine *m)
{
    gd__found_clear(&m->all);
    gd__found_clear(&m->visible);
}
