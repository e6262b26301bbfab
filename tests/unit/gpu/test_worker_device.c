/* SPDX-License-Identifier: MIT
 *
 * The environment of a worker: the variables that make its devices visible, and its CPUs. The test makes devices of
 * every vendor. */
#include "gpu/numa.h"
#include "support/devices.h"

static struct gd__worker_device w;

/* "A=1 B=2" */
static const char *variables(void)
{
    static char text[GD__DEVICE_VARIABLES * (GD__DEVICE_VARIABLE_MAX + 1)];
    text[0] = '\0';
    for (size_t i = 0; i + 1 < w.n_variables; i++) /* the last one is GPU_DISPATCH_GPU_IDS */
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
    CHECK_EQ(worker_of(&w, made_up(GD_VENDOR_NVIDIA, "GPU-1234", 0), 0), 0);
    CHECK_STR(variables(), "CUDA_VISIBLE_DEVICES=GPU-1234 CUDA_DEVICE_ORDER=PCI_BUS_ID");
    CHECK_EQ(w.gpu_id, 5);
    CHECK_STR(w.variables[w.n_variables - 1], "GPU_DISPATCH_GPU_IDS=5");
    CHECK(!w.has_cpus);
    CHECK_EQ(worker_of(&w, made_up(GD_VENDOR_NVIDIA, "MIG-77", 0), 0), 0);
    CHECK_STR(w.variables[0], "CUDA_VISIBLE_DEVICES=MIG-77");
}

static bool is_watched(const struct gd_devices *list)
{
    struct gd__device_names names;
    gd__device_names(&names, list, 0);
    CHECK_STR(names.uuid, "GPU-1234");
    return names.is_watched;
}

TEST(which_devices_are_watched)
{
    unsetenv("GPU_DISPATCH_SIM_XID");
    CHECK(is_watched(made_up(GD_VENDOR_NVIDIA, "GPU-1234", 0)));
    CHECK(!is_watched(made_up(GD_VENDOR_SIMULATED, "GPU-1234", 0)));
    setenv("GPU_DISPATCH_SIM_XID", "/nowhere", 1);
    CHECK(is_watched(&made));
    CHECK(!is_watched(made_up(GD_VENDOR_AMD, "GPU-1234", 0)));
}

TEST(amd)
{
    CHECK_EQ(worker_of(&w, made_up(GD_VENDOR_AMD, "GPU-00ff", 3), 0), 0);
    CHECK_STR(variables(), "ROCR_VISIBLE_DEVICES=GPU-00ff HIP_VISIBLE_DEVICES=0 CUDA_VISIBLE_DEVICES=0");
    CHECK_EQ(worker_of(&w, made_up(GD_VENDOR_AMD, "", 3), 0), 0);
    CHECK_STR(w.variables[0], "ROCR_VISIBLE_DEVICES=3");
    made.beside_nvidia = true;
    CHECK_EQ(worker_of(&w, &made, 0), 0);
    CHECK_STR(w.variables[2], "CUDA_VISIBLE_DEVICES=");
}

TEST(intel_and_cpu)
{
    CHECK_EQ(worker_of(&w, made_up(GD_VENDOR_INTEL, "", 2), 0), 0);
    CHECK_STR(variables(), "ZE_AFFINITY_MASK=2 CUDA_VISIBLE_DEVICES=");
    CHECK_EQ(worker_of(&w, made_up(GD_VENDOR_CPU, "", 0), 0), 0);
    CHECK_STR(variables(), "CUDA_VISIBLE_DEVICES= HIP_VISIBLE_DEVICES=-1");
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
        CHECK_EQ(worker_of(&w, list, i), 0);
        snprintf(expected, sizeof expected, "CUDA_VISIBLE_DEVICES=%s CUDA_DEVICE_ORDER=PCI_BUS_ID", d.uuid);
        CHECK_STR(variables(), expected);
        CHECK_EQ(w.gpu_id, i);
    }
    gd_devices_close(&list);
}

/* A worker of a device that is only a number. */
static int worker_of_number(int number)
{
    const struct gd__chosen chosen = { .id = number, .at = -1 };
    const struct gd__group group = { .n = 1 };
    return gd__worker_group(&w, NULL, &chosen, &group, GD_VISIBLE_UUID);
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
        CHECK_EQ(worker_of_number(rows[i].number), 0);
        snprintf(expected, sizeof expected, "CUDA_VISIBLE_DEVICES=%s CUDA_DEVICE_ORDER=PCI_BUS_ID", rows[i].value);
        CHECK_STR(variables(), expected);
        CHECK_EQ(w.gpu_id, rows[i].number);
        CHECK(!w.has_cpus);
    }
    char longest[400];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    setenv("CUDA_VISIBLE_DEVICES", longest, 1); /* not cut: a part may be another device */
    CHECK_EQ(worker_of_number(0), 0);
    CHECK_STR(w.variables[0], "CUDA_VISIBLE_DEVICES=0");
}

/* --- groups --- */

static struct gd__found several[3];

/* Three devices of a vendor, 5 to 7, as a group in the order 7, 5. */
static int worker_of_two(enum gd_vendor vendor, enum gd_visible_devices form)
{
    static const struct gd__chosen chosen[] = { { .id = 7, .at = 2 }, { .id = 6, .at = 1 }, { .id = 5, .at = 0 } };
    static const struct gd__group group = { .n = 2, .members = { 0, 2 } };
    for (int i = 0; i < 3; i++) {
        several[i] = (struct gd__found){ .runtime_number = 3 + i, .mig_index = -1 };
        several[i].d.vendor = (int)vendor;
        several[i].d.id = 5 + i;
        snprintf(several[i].d.uuid, sizeof several[i].d.uuid, "GPU-%d", i);
    }
    made = (struct gd_devices){ .found = { .items = several, .n = 3 } };
    return gd__worker_group(&w, &made, chosen, &group, form);
}

TEST(a_group)
{
    CHECK_EQ(worker_of_two(GD_VENDOR_NVIDIA, GD_VISIBLE_UUID), 0);
    CHECK_STR(variables(), "CUDA_VISIBLE_DEVICES=GPU-2,GPU-0 CUDA_DEVICE_ORDER=PCI_BUS_ID");
    CHECK_STR(w.variables[2], "GPU_DISPATCH_GPU_IDS=7,5");
    CHECK_EQ(w.gpu_id, 7);
    CHECK_EQ(w.n_gpus, 2);
    CHECK_EQ(w.gpu_ids[1], 5);
    CHECK_EQ(worker_of_two(GD_VENDOR_AMD, GD_VISIBLE_UUID), 0);
    CHECK_STR(variables(), "ROCR_VISIBLE_DEVICES=GPU-2,GPU-0 HIP_VISIBLE_DEVICES=0,1 CUDA_VISIBLE_DEVICES=0,1");
    CHECK_EQ(worker_of_two(GD_VENDOR_INTEL, GD_VISIBLE_UUID), 0);
    CHECK_STR(variables(), "ZE_AFFINITY_MASK=5,3 CUDA_VISIBLE_DEVICES=");
}

TEST(by_index)
{
    CHECK_EQ(worker_of_two(GD_VENDOR_NVIDIA, GD_VISIBLE_INDEX), 0);
    CHECK_STR(variables(), "CUDA_VISIBLE_DEVICES=5,3 CUDA_DEVICE_ORDER=PCI_BUS_ID");
    CHECK_EQ(worker_of_two(GD_VENDOR_AMD, GD_VISIBLE_INDEX), 0);
    CHECK_STR(variables(), "ROCR_VISIBLE_DEVICES=5,3 HIP_VISIBLE_DEVICES=0,1 CUDA_VISIBLE_DEVICES=0,1");
}

TEST(a_mig_instance_has_no_index)
{
    const struct gd__chosen chosen = { .id = 5, .at = 0 };
    const struct gd__group group = { .n = 1 };
    made_up(GD_VENDOR_NVIDIA, "MIG-77", 0);
    one.d.is_mig = true;
    CHECK_EQ(gd__worker_group(&w, &made, &chosen, &group, GD_VISIBLE_INDEX), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "GPU 5 is a MIG instance, and CUDA_VISIBLE_DEVICES can name those by UUID only");
    CHECK_EQ(gd__worker_group(&w, &made, &chosen, &group, GD_VISIBLE_UUID), 0);
}

TEST(names_too_long_for_a_variable)
{
    struct gd__found many[GD__GROUP_MOST];
    struct gd__chosen chosen[GD__GROUP_MOST];
    struct gd__group group = { .n = GD__GROUP_MOST };
    for (int i = 0; i < GD__GROUP_MOST; i++) {
        many[i] = (struct gd__found){ .mig_index = -1 };
        many[i].d.vendor = GD_VENDOR_NVIDIA;
        memset(many[i].d.uuid, 'x', sizeof many[i].d.uuid - 1);
        chosen[i] = (struct gd__chosen){ .id = i, .at = i };
        group.members[i] = (size_t)i;
    }
    made = (struct gd_devices){ .found = { .items = many, .n = GD__GROUP_MOST } };
    CHECK_EQ(gd__worker_group(&w, &made, chosen, &group, GD_VISIBLE_UUID), GD_E_TOO_LARGE);
    CHECK_CONTAINS(gd_error_text(), "CUDA_VISIBLE_DEVICES cannot hold the names of 32 devices");
    for (int i = 0; i < GD__GROUP_MOST; i++)
        many[i].d.uuid[40] = '\0'; /* as long as real ones */
    CHECK_EQ(gd__worker_group(&w, &made, chosen, &group, GD_VISIBLE_UUID), 0);
}

TEST(a_group_runs_near_all_of_its_devices)
{
    cpu_set_t ours, near;
    CHECK_EQ(sched_getaffinity(0, sizeof ours, &ours), 0);
    if (!CPU_ISSET(0, &ours) || !CPU_ISSET(1, &ours))
        SKIP("this process may not use CPUs 0 and 1");
    const struct gd__chosen chosen[] = { { .id = 5, .at = 0 }, { .id = 6, .at = 1 } };
    const struct gd__group group = { .n = 2, .members = { 0, 1 } };
    CHECK_EQ(worker_of_two(GD_VENDOR_NVIDIA, GD_VISIBLE_UUID), 0);
    CHECK(!w.has_cpus);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(gd__worker_group(&w, &made, chosen, &group, GD_VISIBLE_UUID), 0);
        CHECK(!w.has_cpus); /* the CPUs near one of the devices are not known */
        CPU_ZERO(&near);
        CPU_SET(i, &near);
        gd__numa_set_cpus(&several[i], &near);
    }
    CHECK_EQ(gd__worker_group(&w, &made, chosen, &group, GD_VISIBLE_UUID), 0);
    CHECK(w.has_cpus);
    CHECK_EQ(CPU_COUNT(&w.cpus), 2);
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
    CHECK_EQ(worker_of(&w, list, 0), 0);
    CHECK(w.has_cpus);
    CHECK_EQ(CPU_COUNT(&w.cpus), 1);
    CHECK(CPU_ISSET(first, &w.cpus));
    CHECK_EQ(sched_setaffinity(0, sizeof w.cpus, &w.cpus), 0); /* a process can be bound to these CPUs */

    CPU_CLR(first, &near);
    gd__numa_set_cpus(&one, &near);
    CHECK_EQ(worker_of(&w, list, 0), 0);
    CHECK(!w.has_cpus); /* no allowed CPU is near the device */
    CPU_ZERO(&near);
    gd__numa_set_cpus(&one, &near);
    CHECK_EQ(worker_of(&w, list, 0), 0);
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
