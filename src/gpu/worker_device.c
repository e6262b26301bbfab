/* Makes only one device visible to a worker, with variables that the vendors' runtimes read when they start, and finds
 * the CPUs near the device.
 *
 *   NVIDIA, simulated   CUDA_VISIBLE_DEVICES=<UUID>, CUDA_DEVICE_ORDER
 *   AMD                 ROCR_VISIBLE_DEVICES=<UUID or number>, HIP_VISIBLE_DEVICES=0, CUDA_VISIBLE_DEVICES
 *   Intel               ZE_AFFINITY_MASK=<number>
 *   CPU                 everything hidden
 *   by number alone     CUDA_VISIBLE_DEVICES=<that entry of the inherited list, or the number>
 *
 * CUDA finds no device with a simulated UUID. HIP numbers the devices that ROCm makes visible, from 0. If HIP's own
 * variable is not set, it reads CUDA's, so an inherited CUDA variable must not contradict it. If there are NVIDIA
 * devices, CUDA's variable must hide those. HIP treats an empty variable as not set, so -1 is used to hide everything.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "gpu/device.h"
#include "gpu/list.h"
#include "gpu/numa.h"

static void set_variable(struct gd__worker_device *out, const char *name, const char *value)
{
    if (out->n_variables < GD__DEVICE_VARIABLES)
        snprintf(out->variables[out->n_variables++], GD__DEVICE_VARIABLE_MAX, "%s=%s", name, value);
}

static void show_cuda(struct gd__worker_device *out, const char *value)
{
    set_variable(out, "CUDA_VISIBLE_DEVICES", value);
    set_variable(out, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
}

static void show_amd(struct gd__worker_device *out, const struct gd__found *f, bool beside_nvidia)
{
    char number[16];
    snprintf(number, sizeof number, "%d", f->runtime_number);
    set_variable(out, "ROCR_VISIBLE_DEVICES", f->d.uuid[0] ? f->d.uuid : number);
    set_variable(out, "HIP_VISIBLE_DEVICES", "0");
    set_variable(out, "CUDA_VISIBLE_DEVICES", beside_nvidia ? "" : "0");
}

static void show_intel(struct gd__worker_device *out, const struct gd__found *f)
{
    char number[16];
    snprintf(number, sizeof number, "%d", f->runtime_number);
    set_variable(out, "ZE_AFFINITY_MASK", number);
    set_variable(out, "CUDA_VISIBLE_DEVICES", "");
}

static void show_device(struct gd__worker_device *out, const struct gd__found *f, bool beside_nvidia)
{
    switch ((enum gd_vendor)f->d.vendor) {
    case GD_VENDOR_NVIDIA:
    case GD_VENDOR_SIMULATED:
        show_cuda(out, f->d.uuid);
        break;
    case GD_VENDOR_AMD:
        show_amd(out, f, beside_nvidia);
        break;
    case GD_VENDOR_INTEL:
        show_intel(out, f);
        break;
    case GD_VENDOR_CPU:
        set_variable(out, "CUDA_VISIBLE_DEVICES", "");
        set_variable(out, "HIP_VISIBLE_DEVICES", "-1");
        break;
    }
}

int gd__worker_device(struct gd__worker_device *out, const struct gd_devices *list, size_t i)
{
    const struct gd__found *f = gd__devices_at(list, i);
    *out = (struct gd__worker_device){ .gpu_id = f ? f->d.id : -1 };
    if (!f)
        return GD_E_INVALID;
    show_device(out, f, list->beside_nvidia);
    out->has_cpus = gd__numa_bind(f, &out->cpus);
    out->is_watched =
        f->d.vendor == GD_VENDOR_NVIDIA || (f->d.vendor == GD_VENDOR_SIMULATED && getenv("GPU_DISPATCH_SIM_XID"));
    memcpy(out->uuid, f->d.uuid, sizeof out->uuid);
    memcpy(out->gpu_uuid, f->gpu_uuid, sizeof out->gpu_uuid);
    return 0;
}

/* Writes the entry with that number in the list that this process inherited, or the number itself if there is no such
 * entry. */
static void inherited_entry(int number, const char *list, char *out, size_t size)
{
    const char *entry = list ? list : "";
    for (int i = 0; i < number && entry; i++) {
        entry = strchr(entry, ',');
        if (entry)
            entry++;
    }
    const size_t length = entry ? strcspn(entry, ",") : 0;
    if (length == 0 || length >= size)
        snprintf(out, size, "%d", number);
    else
        snprintf(out, size, "%.*s", (int)length, entry);
}

int gd__worker_device_number(struct gd__worker_device *out, const struct gd_devices *list, int gpu_id)
{
    char value[GD__DEVICE_VARIABLE_MAX - sizeof "CUDA_VISIBLE_DEVICES="];
    for (size_t i = 0; i < gd_devices_count(list); i++)
        if (list->found.items[i].d.id == gpu_id)
            return gd__worker_device(out, list, i);
    *out = (struct gd__worker_device){ .gpu_id = gpu_id };
    inherited_entry(gpu_id, getenv("CUDA_VISIBLE_DEVICES"), value, sizeof value);
    show_cuda(out, value);
    return 0;
}
