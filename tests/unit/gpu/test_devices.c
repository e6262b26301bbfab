/* SPDX-License-Identifier: MIT
 *
 * Lists of simulated devices: properties, devices hidden by the environment, free memory, validation.
 */
#include "base/fault.h"
#include "support/devices.h"

#define GIB (1ULL << 30)
#define MIB (1ULL << 20)

static struct gd_devices *simulated(const char *variable)
{
    no_devices();
    setenv("GPU_DISPATCH_SIM", variable, 1);
    return devices(NULL);
}

TEST(without_devices_the_list_is_empty_or_the_error_gives_advice)
{
    no_devices();
    struct gd_devices *list = devices(NULL);
    CHECK_EQ(gd_devices_count(list), 0);
    CHECK(!gd_devices_cuda(list));
    CHECK_EQ(gd_devices_refresh(list), 0);
    gd_devices_close(&list);
    CHECK(list == NULL);
    CHECK_EQ(refused("auto"), GD_E_NO_DEVICES);
    CHECK_CONTAINS(gd_error_text(), "no GPU found (NVIDIA: /nonexistent not found; AMD: ");
    CHECK_CONTAINS(gd_error_text(), "sim:2");
    CHECK_CONTAINS(gd_error_text(), "cpu:8");
    CHECK_EQ(refused("0"), GD_E_NO_DEVICES);
    CHECK_STR(gd_error_text(), "no GPU 0: this machine has no GPUs (try --gpus sim:4)");
}

TEST(defaults_are_plausible)
{
    struct gd_devices *list = simulated("2");
    const struct gd_device d = device(list, 1);
    CHECK_EQ(d.id, 1);
    CHECK_EQ(d.index, 1);
    CHECK_EQ(d.vendor, GD_VENDOR_SIMULATED);
    CHECK_EQ(d.memory_total, 16 * GIB);
    CHECK(d.memory_free > 0 && d.memory_free < d.memory_total);
    CHECK_EQ(d.known, GD_KNOWN_MEMORY | GD_KNOWN_UTILIZATION | GD_KNOWN_TEMPERATURE | GD_KNOWN_POWER | GD_KNOWN_MIG |
                          GD_KNOWN_PROCESSES);
    CHECK(d.temperature > 0 && d.power_mw > 0);
    CHECK(!gd_devices_cuda(list));
    CHECK_EQ(gd_devices_processes(list, 0, NULL, sizeof(struct gd_device_process), 0), 0);
    gd_devices_close(&list);
}

TEST(details)
{
    struct gd_devices *list = simulated(
        "3,memory=8G/512MiB/1048576,free=6G/1M,cpus=0-3,8/1,numa=0/1/-1,name=Foo/Bar,util=50/0,temp=70,power=75/300");
    const struct gd_device a = device(list, 0), b = device(list, 1), c = device(list, 2);
    CHECK_EQ(a.memory_total, 8 * GIB);
    CHECK_EQ(b.memory_total, 512 * MIB);
    CHECK_EQ(c.memory_total, MIB);
    CHECK_EQ(a.memory_free, 6 * GIB);
    CHECK_EQ(c.memory_free, MIB);
    CHECK_STR(a.cpus, "0-3,8");
    CHECK_STR(b.cpus, "1");
    CHECK_STR(c.cpus, "1");
    CHECK(a.known & GD_KNOWN_NUMA && b.known & GD_KNOWN_NUMA && !(c.known & GD_KNOWN_NUMA));
    CHECK_EQ(b.numa_node, 1);
    CHECK_STR(a.name, "Foo");
    CHECK_STR(c.name, "Bar");
    CHECK_EQ(a.utilization, 50);
    CHECK_EQ(c.utilization, 0);
    CHECK_EQ(b.temperature, 70);
    CHECK_EQ(a.power_mw, 75000);
    CHECK_EQ(c.power_mw, 300000);
    gd_devices_close(&list);
}

TEST(garbage_in_the_variable)
{
    static const struct {
        const char *value, *words;
    } rows[] = { { "x", "number of devices" },
                 { "0", "number of devices" },
                 { "1025", "number of devices" },
                 { "-1", "number of devices" },
                 { "4,", "is not a setting; the settings are memory, " },
                 { "4,foo", "\"foo\" is not a setting" },
                 { "4,foo=1", "\"foo=1\" is not a setting" },
                 { "4,memory", "memory\" is not a setting" },
                 { "4,memory=", "memory= is not a valid value" },
                 { "4,memory=8X", "memory=8X" },
                 { "4,memory=8GG", "memory=8GG" },
                 { "4,memory=99999999999T", "memory=9" },
                 { "2,memory=1G,free=2G", "free" },
                 { "2,mig=8", "mig=8" },
                 { "2,mig=x", "mig=x" },
                 { "2,util=101", "util=101" },
                 { "2,temp=hot", "temp=hot" },
                 { "2,power=-1", "power=-1" },
                 { "2,cpus=a", "cpus=a" },
                 { "2,numa=x", "numa=x" },
                 { "2,name=", "name=" },
                 { "2,mode=odd", "mode=odd" },
                 { "2,util=1/x", "util=x is not a valid value for device 1" } };
    no_devices();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        setenv("GPU_DISPATCH_SIM", rows[i].value, 1);
        CHECK_EQ(refused(NULL), GD_E_INVALID);
        CHECK_CONTAINS(gd_error_text(), "GPU_DISPATCH_SIM");
        CHECK_CONTAINS(gd_error_text(), rows[i].words);
    }
    setenv("GPU_DISPATCH_SIM", "", 1); /* the same as unset */
    struct gd_devices *list = devices(NULL);
    CHECK_EQ(gd_devices_count(list), 0);
    gd_devices_close(&list);
}

TEST(names_are_distinct_and_do_not_change)
{
    struct gd_devices *list = simulated("1024,mig=0/2/0");
    struct gd_devices *few = devices("sim:3");
    const size_t n = gd_devices_count(list);
    CHECK_EQ(n, 1025);
    struct gd_device *all = malloc(n * sizeof *all);
    CHECK(all != NULL);
    for (size_t i = 0; i < n; i++) {
        all[i] = device(list, i);
        for (size_t k = 0; k < i; k++) {
            CHECK(strcmp(all[i].uuid, all[k].uuid) != 0);
            CHECK(strcmp(all[i].pci, all[k].pci) != 0 || (all[i].is_mig && all[k].is_mig));
        }
    }
    CHECK_STR(device(few, 2).uuid, all[2].uuid);
    CHECK_EQ(strlen(all[1023].uuid), strlen("GPU-8d2f0a11-0000-0000-0000-000000000000"));
    free(all);
    gd_devices_close(&few);
    gd_devices_close(&list);
}

TEST(the_environment_selects_devices)
{
    static const struct {
        const char *visible, *indices;
    } rows[] = { { NULL, "0 1 2 3" },   { "", "" },    { "-1", "" },    { "2,0", "2 0" },
                 { "0,2,-1,1", "0 2" }, { "1,1", "" }, { "3,9,0", "3" } };
    no_devices();
    setenv("GPU_DISPATCH_SIM", "4", 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        set_or_unset("CUDA_VISIBLE_DEVICES", rows[i].visible);
        struct gd_devices *list = devices(NULL);
        CHECK_STR(indices(list), rows[i].indices);
        for (size_t k = 0; k < gd_devices_count(list); k++)
            CHECK_EQ(device(list, k).id, k); /* numbers are positions in the list */
        gd_devices_close(&list);
    }
    setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
    struct gd_devices *list = devices("1");
    CHECK_STR(indices(list), "0");
    gd_devices_close(&list);
    CHECK_EQ(refused("2"), GD_E_NO_DEVICES);
    CHECK_STR(gd_error_text(), "no GPU 2: the GPUs are 0-1");
}

TEST(the_message_for_a_uuid_that_the_environment_hides)
{
    struct gd_devices *list = simulated("4");
    const struct gd_device d = device(list, 3);
    gd_devices_close(&list);
    setenv("CUDA_VISIBLE_DEVICES", d.uuid, 1);
    list = devices("auto");
    CHECK_STR(indices(list), "3");
    CHECK_EQ(device(list, 0).id, 0);
    gd_devices_close(&list);
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    CHECK_EQ(refused(d.uuid), GD_E_NO_DEVICES);
    CHECK_CONTAINS(gd_error_text(), " is hidden by CUDA_VISIBLE_DEVICES=\"0\"");
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    CHECK_EQ(refused("auto"), GD_E_NO_DEVICES);
    CHECK_CONTAINS(gd_error_text(), "CUDA_VISIBLE_DEVICES=\"\" hides all 4 GPUs of this machine");
    CHECK_EQ(refused("0"), GD_E_NO_DEVICES);
    CHECK_STR(gd_error_text(), "no GPU 0: CUDA_VISIBLE_DEVICES=\"\" hides all GPUs of this machine");
}

TEST(auto_leaves_out_prohibited_devices)
{
    struct gd_devices *list = simulated("3,mode=default/prohibited/default");
    CHECK_STR(ids(list), "0 2"); /* the others keep their numbers */
    gd_devices_close(&list);
    list = devices("1");
    CHECK_STR(indices(list), "1");
    gd_devices_close(&list);
    setenv("GPU_DISPATCH_SIM", "2,mode=prohibited", 1);
    CHECK_EQ(refused("auto"), GD_E_NO_DEVICES);
    CHECK_CONTAINS(gd_error_text(), "compute mode");
}

TEST(get_and_find)
{
    struct gd_devices *list = simulated("4");
    struct gd_device d = { .size = sizeof d };
    CHECK_EQ(gd_devices_get(list, 4, &d), GD_E_INVALID);
    CHECK_EQ(gd_devices_get(NULL, 0, &d), GD_E_INVALID);
    d.size = 0;
    CHECK_EQ(gd_devices_get(list, 0, &d), GD_E_INVALID);
    struct gd_device other = { .size = offsetof(struct gd_device, name) };
    memset(other.name, 'x', sizeof other.name);
    CHECK_EQ(gd_devices_get(list, 1, &other), 0); /* a shorter struct of an older program */
    CHECK_EQ(other.id, 1);
    CHECK_EQ(other.name[0], 'x');
    CHECK_EQ(gd_devices_find(list, 3), 3);
    CHECK_EQ(gd_devices_find(list, 4), GD_E_NO_DEVICES);
    CHECK_CONTAINS(gd_error_text(), "the GPUs are 0-3");
    gd_devices_close(&list);
    list = devices("3,1");
    CHECK_EQ(gd_devices_find(list, 1), 1);
    CHECK_EQ(gd_devices_find(list, 3), 0);
    CHECK_EQ(gd_devices_find(list, 0), GD_E_NO_DEVICES);
    gd_devices_close(&list);
}

TEST(validate)
{
    struct gd_devices *list = simulated("4");
    CHECK_EQ(gd_devices_validate(list, (int[]){ 0, 3, 1 }, 3), 0);
    CHECK_EQ(gd_devices_validate(list, NULL, 0), 0);
    CHECK_EQ(gd_devices_validate(list, NULL, 1), GD_E_INVALID);
    CHECK_EQ(gd_devices_validate(list, (int[]){ 0, 7 }, 2), GD_E_NO_DEVICES);
    CHECK_STR(gd_error_text(), "no GPU 7: the GPUs are 0-3");
    CHECK_EQ(gd_devices_validate(list, (int[]){ -1 }, 1), GD_E_NO_DEVICES);
    CHECK_EQ(gd_devices_validate(list, (int[]){ 2, 1, 2 }, 3), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "GPU 2 is listed twice");
    gd_devices_close(&list);
    list = devices("0,2-3");
    CHECK_EQ(gd_devices_validate(list, (int[]){ 1 }, 1), GD_E_NO_DEVICES);
    CHECK_STR(gd_error_text(), "no GPU 1: the GPUs are 0, 2-3");
    gd_devices_close(&list);
    list = devices("2");
    CHECK_EQ(gd_devices_validate(list, (int[]){ 1 }, 1), GD_E_NO_DEVICES);
    CHECK_STR(gd_error_text(), "no GPU 1: the only GPU is 2");
    gd_devices_close(&list);
    CHECK_EQ(gd_devices_validate(NULL, (int[]){ 1 }, 1), GD_E_NO_DEVICES);
}

TEST(room)
{
    static const struct {
        const char *sim;
        uint64_t bytes;
        int room;
    } rows[] = { { "1,memory=10G,free=10G", 1 * GIB, 9 },
                 { "1,memory=10G,free=10G", 9 * GIB, 1 },
                 { "1,memory=10G,free=10G", 9 * GIB + 1, GD_E_TOO_LARGE },
                 { "1,memory=16G,free=1G", 256 * MIB, 3 },
                 { "1,memory=16G,free=256M", 1, GD_E_TOO_LARGE },
                 { "1,memory=16G,free=257M", MIB, 1 },
                 { "1,memory=16G,free=0", 1, GD_E_TOO_LARGE },
                 { "1,memory=1000000G,free=1000000G", 1, INT32_MAX },
                 { "1", 0, GD_E_INVALID } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gd_devices *list = simulated(rows[i].sim);
        CHECK_EQ(gd_devices_room(list, 0, rows[i].bytes), rows[i].room);
        gd_devices_close(&list);
    }
    struct gd_devices *list = simulated("1,memory=8G,free=6G");
    CHECK_EQ(gd_devices_room(list, 0, 8 * GIB), GD_E_TOO_LARGE);
    CHECK_STR(gd_error_text(),
              "GPU 0 has 6.0 GiB free, and 614 MiB of that stay in reserve: a worker that needs 8.0 GiB does not fit");
    CHECK_EQ(gd_devices_room(list, 1, 1), GD_E_INVALID);
    gd_devices_close(&list);
    list = devices("cpu:1");
    CHECK_EQ(gd_devices_room(list, 0, 1), GD_E_UNSUPPORTED);
    CHECK_EQ(gd_devices_processes(list, 0, NULL, sizeof(struct gd_device_process), 0), GD_E_UNSUPPORTED);
    gd_devices_close(&list);
}

TEST(refresh_updates_the_figures)
{
    struct gd_devices *list = simulated("2,memory=8G,free=6G,util=10");
    setenv("GPU_DISPATCH_SIM", "2,memory=8G,free=6G/1G,util=10/90", 1);
    CHECK_EQ(device(list, 1).utilization, 10); /* no change before the refresh */
    CHECK_EQ(gd_devices_refresh(list), 0);
    CHECK_EQ(device(list, 1).utilization, 90);
    CHECK_EQ(device(list, 1).memory_free, GIB);
    CHECK_EQ(device(list, 0).memory_free, 6 * GIB);
    setenv("GPU_DISPATCH_SIM", "rubbish", 1);
    CHECK_EQ(gd_devices_refresh(list), 0); /* a failed refresh changes nothing */
    CHECK_EQ(device(list, 1).utilization, 90);
    gd_devices_close(&list);
    CHECK_EQ(gd_devices_refresh(NULL), GD_E_INVALID);
}

TEST(vendor_names)
{
    CHECK_STR(gd_vendor_name(GD_VENDOR_CPU), "CPU");
    CHECK_STR(gd_vendor_name(GD_VENDOR_NVIDIA), "NVIDIA");
    CHECK_STR(gd_vendor_name(GD_VENDOR_AMD), "AMD");
    CHECK_STR(gd_vendor_name(GD_VENDOR_INTEL), "Intel");
    CHECK_STR(gd_vendor_name(GD_VENDOR_SIMULATED), "simulated");
    CHECK_STR(gd_vendor_name((enum gd_vendor)99), "unknown");
}

TEST(closing_null_does_nothing)
{
    struct gd_devices *none = NULL;
    gd_devices_close(&none);
    gd_devices_close(NULL);
    CHECK_EQ(gd_devices_count(NULL), 0);
    CHECK(!gd_devices_cuda(NULL));
    CHECK_EQ(gd_devices_open(NULL, "auto"), GD_E_INVALID);
}

TEST(every_allocation_may_fail)
{
    no_devices();
    setenv("GPU_DISPATCH_SIM", "20,mig=0/2", 1);
    setenv("CUDA_VISIBLE_DEVICES", "3,2,1", 1);
    struct gd_devices *list = NULL;
    unsigned long nth = 0;
    int rc;
    do {
        gd__fault_begin(++nth);
        rc = gd_devices_open(&list, "auto");
        CHECK(rc == 0 || (rc == GD_E_NO_MEMORY && list == NULL));
    } while (rc < 0);
    gd__fault_begin(0);
    CHECK_GE(nth, 5);
    CHECK_EQ(gd_devices_count(list), 6);
    gd_devices_close(&list);
}

TEST_MAIN()
