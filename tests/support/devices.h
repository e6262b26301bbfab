/* SPDX-License-Identifier: MIT
 *
 * For tests of devices: an environment that hides every device of the machine, and functions that describe a list of
 * devices in one line.
 */
#ifndef GD_TESTS_SUPPORT_DEVICES_H
#define GD_TESTS_SUPPORT_DEVICES_H

#include <gpu_dispatch/devices.h>

#include "gpu/device.h"
#include "gpu/list.h"
#include "support/test.h"

#define NOWHERE "/nonexistent"

/* Every case calls this first. It hides all devices of this machine. */
TEST_UNUSED static void no_devices(void)
{
    static const char *const unset[] = { "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                         "ZE_AFFINITY_MASK",     "GPU_DISPATCH_SIM",    "GPU_DISPATCH_SIM_XID" };
    for (size_t i = 0; i < sizeof unset / sizeof *unset; i++)
        unsetenv(unset[i]);
    setenv("GPU_DISPATCH_NVML", NOWHERE, 1);
    setenv("GPU_DISPATCH_SYSFS", NOWHERE, 1);
}

TEST_UNUSED static void set_or_unset(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

/* Opens a list of devices. Fails the case if that fails. */
TEST_UNUSED static struct gd_devices *devices(const char *spec)
{
    struct gd_devices *list = NULL;
    const int rc = gd_devices_open(&list, spec);
    if (rc < 0)
        FAIL("%s: %s", spec ? spec : "(all)", gd_error_text());
    CHECK(list != NULL);
    return list;
}

TEST_UNUSED static struct gd_device device(const struct gd_devices *list, size_t i)
{
    struct gd_device d = { .size = sizeof d };
    CHECK_EQ(gd_devices_get(list, i, &d), 0);
    CHECK_EQ(d.size, sizeof d);
    return d;
}

/* "0 1 2": the numbers that the devices of a list have on this machine. */
TEST_UNUSED static const char *indices(const struct gd_devices *list)
{
    static char text[4096];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < gd_devices_count(list); i++) {
        const struct gd_device d = device(list, i);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%d", used ? " " : "", d.index);
    }
    return text;
}

/* "0 1 2": the numbers that the devices have in this process. */
TEST_UNUSED static const char *ids(const struct gd_devices *list)
{
    static char text[4096];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < gd_devices_count(list); i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%d", used ? " " : "", device(list, i).id);
    return text;
}

/* Returns the error code for a device specification that must be refused. */
TEST_UNUSED static int refused(const char *spec)
{
    struct gd_devices *list = (struct gd_devices *)&list;
    const int rc = gd_devices_open(&list, spec);
    if (rc >= 0)
        FAIL("%s was accepted", spec ? spec : "(all)");
    CHECK(list == NULL);
    return rc;
}

/* Fills *out with the settings with which a worker of the i-th device of a list is started. */
TEST_UNUSED static int worker_of(struct gd__worker_device *out, const struct gd_devices *list, size_t i)
{
    const struct gd__chosen chosen = { .id = list->found.items[i].d.id, .at = (int)i };
    const struct gd__group group = { .n = 1 };
    return gd__worker_group(out, list, &chosen, &group, GD_VISIBLE_UUID);
}

#endif
