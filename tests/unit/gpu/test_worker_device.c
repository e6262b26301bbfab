/* SPDX-License-Identifier: MIT
 *
 * The environment of a worker: the variables that show it one device, and its CPUs. The test makes devices of every
 * vendor.
 */
#include "gpu/device.h"
#include "gpu/list.h"
#include "gpu/numa.h"
#include "support/devices.h"

static struct gd__worker_device w;

/* "A=1 B=2" */
static const char *variables(void)
{
    static char text[GD__DEVICE_VARIABLES * (GD__DEVICE_VARIABLE_MAX + 1)];
    text[0] = '\0';
    for (size_t i = 0; i < w.n_variables; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", w.variables[i]);
    return text;
}

/* A list with one device that the test makes. */
static struct gd__found one;
static struct gd_devices made;

static const struct gd_devices *made_up(enum gd_vendor vendor, const char *uuid, int runtime_number)
{
    one = (struct gd__found){ .runtime_number = runtime_number, .mig_index = -1 };
    one.d.vendor = (int)vendor;
    one.d.id = 5;
    snprintf(one.d.uuid, sizeof one.d.uuid, "%s", uuid);
    made = (struct gd_devices){ .found = { .items = &one, .n = 1 } };
    return &made;
}

TEST(nvidia)
{
    CHECK_EQ(gd__worker_device(&w, made_up(GD_VENDOR_NVIDIA, "GPU-1234", 0), 0), 0);
    CHECK_STR(variables(), "CUDA_VISIBLE_DEVICES=GPU-1234 CUDA_DEVICE_ORDER=PCI_BUS_ID");
    CHECK_EQ(w.gpu_id, 5);
    CHECK_STR(w.uuid, "GPU-1234");
    CHECK(!w.has_cpus);
    CHECK_EQ(gd__worker_device(&w, made_up(GD_VENDOR_NVIDIA, "MIG-77", 0), 0), 0);
    CHECK_STR(w.variables[0], "CUDA_VISIBLE_DEVICES=MIG-77");
}

TEST(which_devices_are_watched)
{
    unsetenv("GPU_DISPATCH_SIM_XID");
    CHECK_EQ(gd__worker_device(&w, made_up(GD_VENDOR_NVIDIA, "GPU-1234", 0), 0), 0);
    CHECK(w.is_watched);
    CHECK_EQ(gd__worker_device(&w, made_up(GD_VENDOR_SIMULATED, "GPU-1234", 0), 0), 0);
    CHECK(!w.is_watched);
    setenv("GPU_DISPATCH_SIM_XID", "/nowhere", 1);
    CHECK_EQ(gd__worker_device(&w, &made, 0), 0);
    CHECK(w.is_watched);
    CHECK_EQ(gd__worker_device(&w, made_up(GD_VENDOR_AMD, "GPU-1234", 0), 0), 0);
    CHECK(!w.is_watched);
}

TEST(amd)
{
    CHECK_EQ(gd__worker_device(&w, made_up(GD_VENDOR_AMD, "GPU-00ff", 3), 0), 0);
    CHECK_STR(variables(), "ROCR_VISIBLE_DEVICES=GPU-00ff HIP_VISIBLE_DEVICES=0 CUDA_VISIBLE_DEVICES=0");
    CHECK_EQ(gd__worker_device(&w, made_up(GD_VENDOR_AMD, "", 3), 0), 0);
    CHECK_STR(w.variables[0], "ROCR_VISIBLE_DEVICES=3");
    made.beside_nvidia = true;
    CHECK_EQ(gd__worker_device(&w, &made, 0), 0);
    CHECK_STR(w.variables[2], "CUDA_VISIBLE_DEVICES=");
}

TEST(intel_and_cpu)
{
    CHECK_EQ(gd__worker_device(&w, made_up(GD_VENDOR_INTEL, "", 2), 0), 0);
    CHECK_STR(variables(), "ZE_AFFINITY_MASK=2 CUDA_VISIBLE_DEVICES=");
    CHECK_EQ(gd__worker_device(&w, made_up(GD_VENDOR_CPU, "", 0), 0), 0);
    CHECK_STR(variables(), "CUDA_VISIBLE_DEVICES= HIP_VISIBLE_DEVICES=-1");
    CHECK_STR(w.uuid, "");
}

TEST(simulated)
{
    no_devices();
    setenv("GPU_DISPATCH_SIM", "4,mig=0/2", 1);
    setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
    struct gd_devices *list = devices("auto");
    char expected[200];
    for (size_t i = 0; i < gd_devices_count(list); i++) {
        const struct gd_device d = device(list, i);
        CHECK_EQ(gd__worker_device(&w, list, i), 0);
        snprintf(expected, sizeof expected, "CUDA_VISIBLE_DEVICES=%s CUDA_DEVICE_ORDER=PCI_BUS_ID", d.uuid);
        CHECK_STR(variables(), expected);
        CHECK_STR(w.uuid, d.uuid);
        CHECK_EQ(w.gpu_id, i);
    }
    CHECK_EQ(gd__worker_device(&w, list, 9), GD_E_INVALID);
    CHECK_EQ(gd__worker_device(&w, NULL, 0), GD_E_INVALID);
    gd_devices_close(&list);
}

TEST(by_number_alone)
{
    static const struct {
        const char *inherited;
        int number;
        const char *value;
    } rows[] = { { NULL, 0, "0" },
                 { NULL, 3, "3" },
                 { "", 1, "1" },
                 { "4,5", 0, "4" },
                 { "4,5", 1, "5" },
                 { "4,5", 2, "2" },
                 { "GPU-1,GPU-2", 1, "GPU-2" },
                 { "4,,6", 1, "1" },
                 { "4,5,", 2, "2" } };
    no_devices();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char expected[200];
        set_or_unset("CUDA_VISIBLE_DEVICES", rows[i].inherited);
        CHECK_EQ(gd__worker_device_number(&w, NULL, rows[i].number), 0);
        snprintf(expected, sizeof expected, "CUDA_VISIBLE_DEVICES=%s CUDA_DEVICE_ORDER=PCI_BUS_ID", rows[i].value);
        CHECK_STR(variables(), expected);
        CHECK_EQ(w.gpu_id, rows[i].number);
        CHECK(!w.has_cpus);
        CHECK_STR(w.uuid, "");
    }
    char longest[400];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    setenv("CUDA_VISIBLE_DEVICES", longest, 1); /* not cut: a part may be another device */
    CHECK_EQ(gd__worker_device_number(&w, NULL, 0), 0);
    CHECK_STR(w.variables[0], "CUDA_VISIBLE_DEVICES=0");
}

TEST(by_number_if_the_device_is_in_the_list)
{
    const struct gd_devices *list = made_up(GD_VENDOR_NVIDIA, "GPU-1234", 0);
    no_devices();
    CHECK_EQ(gd__worker_device_number(&w, list, 5), 0);
    CHECK_STR(w.variables[0], "CUDA_VISIBLE_DEVICES=GPU-1234");
    CHECK_EQ(gd__worker_device_number(&w, list, 6), 0);
    CHECK_STR(w.variables[0], "CUDA_VISIBLE_DEVICES=6");
}

TEST(a_worker_gets_the_allowed_cpus_near_its_device)
{
    cpu_set_t ours, near;
    CHECK_EQ(sched_getaffinity(0, sizeof ours, &ours), 0);
    int first = 0;
    while (!CPU_ISSET(first, &ours))
        first++;
    const struct gd_devices *list = made_up(GD_VENDOR_NVIDIA, "GPU-1", 0);
    CPU_ZERO(&near);
    CPU_SET(first, &near);
    CPU_SET(CPU_SETSIZE - 1, &near); /* a CPU that no machine running this test has */
    gd__numa_set_cpus(&one, &near);
    CHECK_EQ(gd__worker_device(&w, list, 0), 0);
    CHECK(w.has_cpus);
    CHECK_EQ(CPU_COUNT(&w.cpus), 1);
    CHECK(CPU_ISSET(first, &w.cpus));
    CHECK_EQ(sched_setaffinity(0, sizeof w.cpus, &w.cpus), 0); /* a process can be bound to these CPUs */

    CPU_CLR(first, &near);
    gd__numa_set_cpus(&one, &near);
    CHECK_EQ(gd__worker_device(&w, list, 0), 0);
    CHECK(!w.has_cpus); /* no allowed CPU is near the device */
    CPU_ZERO(&near);
    gd__numa_set_cpus(&one, &near);
    CHECK_EQ(gd__worker_device(&w, list, 0), 0);
    CHECK(!w.has_cpus);
}

TEST(a_cpu_list_too_long_to_print_is_still_used)
{
    cpu_set_t near;
    made_up(GD_VENDOR_NVIDIA, "GPU-1", 0);
    CPU_ZERO(&near);
    for (int i = 0; i < CPU_SETSIZE; i += 2)
        CPU_SET(i, &near);
    gd__numa_set_cpus(&one, &near);
    CHECK(!(one.d.known & GD_KNOWN_CPUS));
    CHECK_STR(one.d.cpus, "");
    CHECK(one.has_cpus);
}

TEST_MAIN()
