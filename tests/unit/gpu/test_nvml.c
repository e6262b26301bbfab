/* SPDX-License-Identifier: MIT
 *
 * NVIDIA devices through libraries that look like NVML (support/fake_nvml.c).
 */
#include <sys/stat.h>

#include "gpu/device.h"
#include "support/devices.h"

static void use(const char *library)
{
    char path[4096];
    const char *dir = getenv("GD_TEST_PLUGINS");
    no_devices();
    snprintf(path, sizeof path, "%s/%s.so", dir ? dir : ".", library);
    setenv("GPU_DISPATCH_NVML", path, 1);
}

TEST(devices_are_sorted_by_bus_and_described)
{
    use("fake_nvml");
    setenv("FAKE_NVML_GPUS", "3", 1);
    setenv("FAKE_NVML_PROCESSES", "2", 1);
    struct gd_devices *list = devices("auto");
    CHECK_EQ(gd_devices_count(list), 3);
    CHECK(gd_devices_cuda(list));
    const struct gd_device a = device(list, 0), c = device(list, 2);
    CHECK_STR(a.uuid, "GPU-fa2"); /* the last in the order of NVML, the first on the bus */
    CHECK_STR(a.name, "Fake 2");
    CHECK_STR(a.pci, "0000:d0:00.0");
    CHECK_STR(c.pci, "0000:f0:00.0");
    CHECK_EQ(a.index, 0);
    CHECK_EQ(a.vendor, GD_VENDOR_NVIDIA);
    CHECK_EQ(a.memory_total, 80LL << 30);
    CHECK_EQ(a.memory_free, 79LL << 30);
    CHECK_EQ(a.utilization, 42);
    CHECK_EQ(a.temperature, 52);
    CHECK_EQ(a.power_mw, 123456);
    CHECK_EQ(a.n_processes, 2);
    CHECK_EQ(a.known, GD_KNOWN_MEMORY | GD_KNOWN_UTILIZATION | GD_KNOWN_TEMPERATURE | GD_KNOWN_POWER | GD_KNOWN_MIG |
                          GD_KNOWN_PROCESSES);
    CHECK(!a.mig_enabled);
    gd_devices_close(&list);
}

TEST(libraries_that_cannot_be_used)
{
    static const struct {
        const char *library, *error_text;
    } rows[] = { { "no_such_library", ".so not found" },
                 { "fake_nvml_broken", "too old: it lacks nvmlDeviceGetMemoryInfo" },
                 { "plugin_nothing", "too old: it lacks nvmlInit_v2" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        use(rows[i].library);
        struct gd_devices *list = devices(NULL);
        CHECK_EQ(gd_devices_count(list), 0);
        gd_devices_close(&list);
        CHECK_EQ(refused("auto"), GD_E_NO_DEVICES);
        CHECK_CONTAINS(gd_error_text(), rows[i].error_text);
    }
    use("fake_nvml");
    setenv("FAKE_NVML_INIT", "9", 1);
    CHECK_EQ(refused("auto"), GD_E_NO_DEVICES);
    CHECK_CONTAINS(gd_error_text(), "NVIDIA: NVML reports: Driver Not Loaded;");
    unsetenv("FAKE_NVML_INIT"); /* as if the driver was loaded later */
    struct gd_devices *list = devices("auto");
    CHECK_EQ(gd_devices_count(list), 2);
    gd_devices_close(&list);
}

TEST(a_driver_without_gpus)
{
    use("fake_nvml");
    setenv("FAKE_NVML_GPUS", "0", 1);
    CHECK_EQ(refused("auto"), GD_E_NO_DEVICES);
    CHECK_CONTAINS(gd_error_text(), "NVIDIA: the driver reports no GPU;");
    setenv("FAKE_NVML_GPUS", "1", 1);
    setenv("FAKE_NVML_CLOSED", "0", 1);
    CHECK_EQ(refused("auto"), GD_E_NO_DEVICES);
    CHECK_CONTAINS(gd_error_text(), "but this process may not open");
}

TEST(a_library_without_optional_functions)
{
    use("fake_nvml_bare");
    struct gd_devices *list = devices("auto");
    CHECK_EQ(gd_devices_count(list), 2);
    CHECK_EQ(device(list, 0).known, GD_KNOWN_MEMORY);
    CHECK_EQ(gd_devices_processes(list, 0, NULL, sizeof(struct gd_device_process), 0), GD_E_UNSUPPORTED);
    CHECK_EQ(gd_devices_refresh(list), 0);
    gd_devices_close(&list);
}

TEST(a_gpu_that_may_not_be_opened_is_skipped)
{
    use("fake_nvml");
    setenv("FAKE_NVML_GPUS", "3", 1);
    setenv("FAKE_NVML_CLOSED", "1", 1);
    struct gd_devices *list = devices("auto");
    CHECK_EQ(gd_devices_count(list), 2);
    CHECK_STR(device(list, 0).uuid, "GPU-fa2");
    CHECK_STR(device(list, 1).uuid, "GPU-fa0");
    CHECK_EQ(device(list, 1).index, 1); /* CUDA does not count the closed GPU */
    gd_devices_close(&list);
}

TEST(prohibited)
{
    use("fake_nvml");
    setenv("FAKE_NVML_PROHIBITED", "1", 1); /* first on the bus */
    struct gd_devices *list = devices("auto");
    CHECK_STR(ids(list), "1");
    gd_devices_close(&list);
    list = devices("0");
    CHECK_STR(device(list, 0).uuid, "GPU-fa1");
    CHECK(!gd_devices_cuda(list));
    gd_devices_close(&list);
}

TEST(mig)
{
    use("fake_nvml");
    setenv("FAKE_NVML_MIG", "1:2", 1);
    struct gd_devices *list = devices("auto");
    CHECK_STR(ids(list), "0 1 2");
    CHECK_STR(indices(list), "0 0 1");
    const struct gd_device a = device(list, 0), b = device(list, 1), c = device(list, 2);
    CHECK_STR(a.uuid, "MIG-fa10");
    CHECK_STR(b.uuid, "MIG-fa11");
    CHECK_STR(b.name, "Fake 1 MIG 1g.1");
    CHECK_STR(c.uuid, "GPU-fa0");
    CHECK(b.is_mig && b.mig_enabled && !c.is_mig && !c.mig_enabled);
    CHECK_EQ(b.memory_total, 10LL << 30); /* of the instance */
    CHECK_EQ(b.temperature, 51);          /* of the GPU */
    CHECK_EQ(b.power_mw, 123456);
    CHECK_EQ(b.known & (GD_KNOWN_TEMPERATURE | GD_KNOWN_POWER), GD_KNOWN_TEMPERATURE | GD_KNOWN_POWER);
    CHECK(!(b.known & GD_KNOWN_UTILIZATION));
    CHECK_STR(b.pci, "0000:e0:00.0"); /* of the GPU */
    struct gd__worker_device w;
    CHECK_EQ(worker_of(&w, list, 1), 0);
    CHECK_STR(w.variables[0], "CUDA_VISIBLE_DEVICES=MIG-fa11");
    gd_devices_close(&list);

    static const struct {
        const char *visible, *ids;
    } rows[] = { { "MIG-fa11", "MIG-fa11" },
                 { "MIG-GPU-fa1/4/0", "MIG-fa11" },
                 { "GPU-fa1", "MIG-fa10" },
                 { "1", "GPU-fa0" },
                 { "0", "MIG-fa10" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        setenv("CUDA_VISIBLE_DEVICES", rows[i].visible, 1);
        list = devices("auto");
        CHECK_STR(device(list, 0).uuid, rows[i].ids);
        gd_devices_close(&list);
    }
}

TEST(mig_without_instances)
{
    use("fake_nvml");
    setenv("FAKE_NVML_MIG", "1:0", 1);
    struct gd_devices *list = devices("auto");
    CHECK_STR(ids(list), "0");
    CHECK_STR(indices(list), "1"); /* GPU 0 has no instances, but keeps its number */
    CHECK_STR(device(list, 0).uuid, "GPU-fa0");
    gd_devices_close(&list);
    CHECK_EQ(refused("GPU-fa1"), GD_E_NO_DEVICES);
    CHECK_CONTAINS(gd_error_text(), "MIG on but no MIG instance");
    setenv("FAKE_NVML_GPUS", "2", 1);
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    CHECK_EQ(refused("auto"), GD_E_NO_DEVICES);
    CHECK_CONTAINS(gd_error_text(), "MIG on but no MIG instance");
}

TEST(visible_devices_are_numbered_by_bus)
{
    use("fake_nvml");
    setenv("FAKE_NVML_GPUS", "3", 1);
    setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
    struct gd_devices *list = devices("auto");
    CHECK_STR(device(list, 0).uuid, "GPU-fa0");
    CHECK_STR(device(list, 1).uuid, "GPU-fa2");
    struct gd__worker_device w;
    CHECK_EQ(worker_of(&w, list, 0), 0);
    CHECK_STR(w.variables[0], "CUDA_VISIBLE_DEVICES=GPU-fa0");
    CHECK_STR(w.variables[1], "CUDA_DEVICE_ORDER=PCI_BUS_ID");
    struct gd__device_names names;
    gd__device_names(&names, list, 0);
    CHECK_STR(names.uuid, "GPU-fa0");
    CHECK(names.is_watched);
    gd_devices_close(&list);
}

static void check_processes(const char *library)
{
    use(library);
    struct gd_devices *list = devices("auto");
    struct gd_device_process p[64] = { { 0, 0 } };
    CHECK_EQ(gd_devices_processes(list, 0, p, sizeof(struct gd_device_process), 64), 0);
    setenv("FAKE_NVML_PROCESSES", "40", 1);
    CHECK_EQ(gd_devices_processes(list, 0, p, sizeof(struct gd_device_process), 64), 40);
    CHECK_EQ(p[0].pid, 100);
    CHECK_EQ(p[0].memory, 1 << 20);
    CHECK_EQ(p[1].memory, 0); /* the driver does not report this figure */
    CHECK_EQ(p[39].pid, 139);
    CHECK_EQ(p[39].memory, 40 << 20);
    CHECK_EQ(p[40].pid, 0);
    memset(p, 0, sizeof p);
    CHECK_EQ(gd_devices_processes(list, 0, p, sizeof(struct gd_device_process), 2), 40);
    CHECK_EQ(p[1].pid, 101);
    CHECK_EQ(p[2].pid, 0);
    CHECK_EQ(gd_devices_processes(list, 0, NULL, sizeof(struct gd_device_process), 9), 40);
    CHECK_EQ(device(list, 0).n_processes, 0);
    CHECK_EQ(gd_devices_refresh(list), 0);
    CHECK_EQ(device(list, 0).n_processes, 40);
    gd_devices_close(&list);
}

TEST(processes)
{
    check_processes("fake_nvml");
}

TEST(processes_of_an_old_library)
{
    check_processes("fake_nvml_old");
}

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "we");
    CHECK(f != NULL);
    fputs(text, f);
    fclose(f);
}

TEST(numa_comes_from_sysfs)
{
    char root[] = "/tmp/gd-nvml-XXXXXX", dir[256], command[512];
    use("fake_nvml");
    CHECK(mkdtemp(root) != NULL);
    snprintf(dir, sizeof dir, "%s/bus/pci/devices/0000:e0:00.0", root);
    snprintf(command, sizeof command, "mkdir -p %s", dir);
    CHECK_EQ(system(command), 0); /* NOLINT(cert-env33-c) */
    write_file(dir, "numa_node", "1\n");
    write_file(dir, "local_cpulist", "0-1,512-513\n");
    setenv("GPU_DISPATCH_SYSFS", root, 1);
    struct gd_devices *list = devices("auto");
    CHECK_EQ(device(list, 0).numa_node, 1);
    CHECK_STR(device(list, 0).cpus, "0-1,512-513");
    CHECK_EQ(device(list, 0).known & (GD_KNOWN_NUMA | GD_KNOWN_CPUS), GD_KNOWN_NUMA | GD_KNOWN_CPUS);
    CHECK_EQ(device(list, 1).known & (GD_KNOWN_NUMA | GD_KNOWN_CPUS), 0);
    gd_devices_close(&list);

    write_file(dir, "local_cpulist", "\n"); /* now the CPUs come from NVML */
    list = devices("auto");
    CHECK_STR(device(list, 0).cpus, "4-7");
    gd_devices_close(&list);

    write_file(dir, "numa_node", "-1\n"); /* unknown, so workers are not pinned */
    list = devices("auto");
    CHECK_EQ(device(list, 0).known & (GD_KNOWN_NUMA | GD_KNOWN_CPUS), 0);
    gd_devices_close(&list);
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK_EQ(system(command), 0); /* NOLINT(cert-env33-c) */
}

TEST(a_forked_child_can_still_use_the_library)
{
    use("fake_nvml");
    struct gd_devices *list = devices("auto");
    const pid_t pid = fork();
    if (pid == 0) {
        CHECK_EQ(gd_devices_refresh(list), 0);
        struct gd_devices *again = devices("auto");
        CHECK_EQ(gd_devices_count(again), 2);
        gd_devices_close(&again);
        gd_devices_close(&list);
        exit(0);
    }
    int status = 0;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    gd_devices_close(&list);
}

TEST_MAIN()
