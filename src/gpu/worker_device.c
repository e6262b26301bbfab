/* Makes a worker see only its devices, with variables that the vendors' runtimes read when they start, and finds the
 * CPUs near the devices.
 *
 *   NVIDIA, simulated   CUDA_VISIBLE_DEVICES=<UUIDs or indices>, CUDA_DEVICE_ORDER
 *   AMD                 ROCR_VISIBLE_DEVICES=<UUIDs or numbers>, HIP_VISIBLE_DEVICES=0,1..., CUDA_VISIBLE_DEVICES
 *   Intel               ZE_AFFINITY_MASK=<numbers>
 *   CPU                 everything hidden
 *   by number alone     CUDA_VISIBLE_DEVICES=<these entries of the inherited list, or the numbers>
 *
 * All of them also get GPU_DISPATCH_GPU_IDS, the numbers in the dispatcher.
 *
 * For an index, the GPUs that this process can open are sorted by PCI bus id and numbered from 0, as CUDA does with
 * CUDA_DEVICE_ORDER=PCI_BUS_ID. (AMD: the number is ROCm's own.) CUDA finds no device with a simulated UUID. HIP counts
 * only the devices that ROCR_VISIBLE_DEVICES makes visible, from 0. If HIP_VISIBLE_DEVICES is not set, HIP reads
 * CUDA_VISIBLE_DEVICES, so an inherited CUDA_VISIBLE_DEVICES must not contradict it. If there are NVIDIA devices, an
 * AMD worker gets an empty CUDA_VISIBLE_DEVICES, which hides them. HIP treats an empty variable as not set, so -1 is
 * used to hide everything.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "gpu/device.h"
#include "gpu/list.h"
#include "gpu/numa.h"

enum { NAME_MAX_BYTES = 160 };

/* The devices that a worker is shown. */
struct shown {
    const struct gd_devices *list;
    const struct gd__chosen *chosen;
    const struct gd__group *group;
    bool by_index;
};

static const struct gd__chosen *chosen_at(const struct shown *s, size_t i)
{
    return &s->chosen[s->group->members[i]];
}

static const struct gd__found *found_at(const struct shown *s, size_t i)
{
    return &s->list->found.items[chosen_at(s, i)->at];
}

/* --- variables --- */

static void set_variable(struct gd__worker_device *out, const char *name, const char *value)
{
    if (out->n_variables < GD__DEVICE_VARIABLES)
        snprintf(out->variables[out->n_variables++], GD__DEVICE_VARIABLE_MAX, "%s=%s", name, value);
}

/* Sets NAME=value,value,... with one value for each device. */
typedef void value_fn(const struct shown *s, size_t i, char *out, size_t size);
static int set_list(struct gd__worker_device *out, const char *name, const struct shown *s, value_fn *value)
{
    char text[GD__DEVICE_VARIABLE_MAX] = "";
    const size_t room = sizeof text - strlen(name) - 1;
    size_t used = 0;
    for (size_t i = 0; i < s->group->n; i++) {
        char one[GD__DEVICE_VARIABLE_MAX];
        value(s, i, one, sizeof one);
        used += (size_t)snprintf(text + used, room - used, "%s%s", i ? "," : "", one);
        if (used >= room) /* half a name might be another device's */
            return gd__error(GD_E_TOO_LARGE, "%s cannot hold the names of %zu devices: use smaller groups", name,
                             s->group->n);
    }
    set_variable(out, name, text);
    return 0;
}

static void write_uuid(const struct shown *s, size_t i, char *out, size_t size)
{
    snprintf(out, size, "%s", found_at(s, i)->d.uuid);
}

static void write_runtime_number(const struct shown *s, size_t i, char *out, size_t size)
{
    snprintf(out, size, "%d", found_at(s, i)->runtime_number);
}

static void write_uuid_or_number(const struct shown *s, size_t i, char *out, size_t size)
{
    (found_at(s, i)->d.uuid[0] ? write_uuid : write_runtime_number)(s, i, out, size);
}

static void write_position(const struct shown *s, size_t i, char *out, size_t size)
{
    (void)s;
    snprintf(out, size, "%zu", i);
}

static void write_id(const struct shown *s, size_t i, char *out, size_t size)
{
    snprintf(out, size, "%d", chosen_at(s, i)->id);
}

/* Writes the entry with that number in the list that this process inherited, or the number itself if there is no such
 * entry. */
static void write_inherited(const struct shown *s, size_t i, char *out, size_t size)
{
    const int number = chosen_at(s, i)->id;
    const char *list = getenv("CUDA_VISIBLE_DEVICES"), *entry = list ? list : "";
    for (int k = 0; k < number && entry; k++) {
        entry = strchr(entry, ',');
        if (entry)
            entry++;
    }
    const size_t length = entry ? strcspn(entry, ",") : 0;
    if (length == 0 || length >= NAME_MAX_BYTES)
        snprintf(out, size, "%d", number);
    else
        snprintf(out, size, "%.*s", (int)length, entry);
}

/* --- vendors --- */

static int show_cuda(struct gd__worker_device *out, const struct shown *s, value_fn *value)
{
    const int rc = set_list(out, "CUDA_VISIBLE_DEVICES", s, value);
    set_variable(out, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    return rc;
}

/* MIG instances have no index: CUDA knows them by UUID alone. */
static int show_nvidia(struct gd__worker_device *out, const struct shown *s)
{
    const struct gd__found *first = found_at(s, 0);
    if (s->by_index && first->d.is_mig)
        return gd__error(GD_E_INVALID,
                         "GPU %d is a MIG instance, and CUDA_VISIBLE_DEVICES can name those by UUID only: set "
                         "visible devices to uuid, the default",
                         first->d.id);
    return show_cuda(out, s, s->by_index ? write_runtime_number : write_uuid);
}

static int show_amd(struct gd__worker_device *out, const struct shown *s)
{
    int rc = set_list(out, "ROCR_VISIBLE_DEVICES", s, s->by_index ? write_runtime_number : write_uuid_or_number);
    if (rc == 0)
        rc = set_list(out, "HIP_VISIBLE_DEVICES", s, write_position);
    if (rc == 0 && !s->list->beside_nvidia)
        return set_list(out, "CUDA_VISIBLE_DEVICES", s, write_position);
    set_variable(out, "CUDA_VISIBLE_DEVICES", "");
    return rc;
}

static int show_intel(struct gd__worker_device *out, const struct shown *s)
{
    const int rc = set_list(out, "ZE_AFFINITY_MASK", s, write_runtime_number);
    set_variable(out, "CUDA_VISIBLE_DEVICES", "");
    return rc;
}

static int show_devices(struct gd__worker_device *out, const struct shown *s)
{
    for (size_t i = 0; i < s->group->n; i++)
        if (chosen_at(s, i)->at < 0)
            return show_cuda(out, s, write_inherited);
    switch ((enum gd_vendor)found_at(s, 0)->d.vendor) {
    case GD_VENDOR_NVIDIA:
    case GD_VENDOR_SIMULATED:
        return show_nvidia(out, s);
    case GD_VENDOR_AMD:
        return show_amd(out, s);
    case GD_VENDOR_INTEL:
        return show_intel(out, s);
    case GD_VENDOR_CPU:
        set_variable(out, "CUDA_VISIBLE_DEVICES", "");
        set_variable(out, "HIP_VISIBLE_DEVICES", "-1");
        break;
    }
    return 0;
}

/* --- CPUs --- */

/* The CPUs near any of the devices. If those near one device are not known, the worker is not bound. */
static bool bind_near(const struct shown *s, cpu_set_t *out)
{
    CPU_ZERO(out);
    for (size_t i = 0; i < s->group->n; i++) {
        cpu_set_t near;
        if (chosen_at(s, i)->at < 0 || !gd__numa_bind(found_at(s, i), &near))
            return false;
        CPU_OR(out, out, &near);
    }
    return true;
}

/* --- */

int gd__worker_group(struct gd__worker_device *out, const struct gd_devices *list, const struct gd__chosen *chosen,
                     const struct gd__group *group, enum gd_visible_devices form)
{
    const struct shown s = { list, chosen, group, form == GD_VISIBLE_INDEX };
    *out = (struct gd__worker_device){ .n_gpus = group->n };
    for (size_t i = 0; i < group->n; i++)
        out->gpu_ids[i] = chosen_at(&s, i)->id;
    out->gpu_id = out->gpu_ids[0];
    int rc = show_devices(out, &s);
    if (rc == 0)
        rc = set_list(out, "GPU_DISPATCH_GPU_IDS", &s, write_id);
    out->has_cpus = bind_near(&s, &out->cpus);
    return rc;
}

void gd__device_names(struct gd__device_names *out, const struct gd_devices *list, size_t i)
{
    const struct gd__found *f = &list->found.items[i];
    out->is_watched =
        f->d.vendor == GD_VENDOR_NVIDIA || (f->d.vendor == GD_VENDOR_SIMULATED && getenv("GPU_DISPATCH_SIM_XID"));
    memcpy(out->uuid, f->d.uuid, sizeof out->uuid);
    memcpy(out->gpu_uuid, f->gpu_uuid, sizeof out->gpu_uuid);
}
