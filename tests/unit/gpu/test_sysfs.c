/* SPDX-License-Identifier: MIT
 *
 * AMD and Intel devices in a sysfs tree that the test makes.
 */
#include <ftw.h>
#include <sys/stat.h>

#include "gpu/backends/sysfs_file.h"
#include "gpu/device.h"
#include "gpu/groups/connection.h"
#include "support/devices.h"

static char root[64];

/* Writes a file and makes its directories. */
__attribute__((format(printf, 2, 3))) static void put(const char *text, const char *format, ...)
{
    char path[512];
    va_list args;
    int used = snprintf(path, sizeof path, "%s/", root);
    va_start(args, format);
    vsnprintf(path + used, sizeof path - (size_t)used, format, args);
    va_end(args);
    for (char *slash = path + used; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        CHECK(mkdir(path, 0755) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *f = fopen(path, "we");
    CHECK(f != NULL);
    fputs(text, f);
    fclose(f);
}

/* class/drm/<name>/device is a link to the PCI device, as in a real sysfs. */
static void put_drm(const char *name, const char *pci)
{
    char path[512], target[512];
    put("x", "devices/pci/%s/dummy", pci);
    put("x", "class/drm/%s/dummy", name);
    snprintf(path, sizeof path, "%s/class/drm/%s/device", root, name);
    snprintf(target, sizeof target, "../../../devices/pci/%s", pci);
    CHECK_EQ(symlink(target, path), 0);
}

static int remove_one(const char *path, const struct stat *s, int flag, struct FTW *f)
{
    (void)s, (void)flag, (void)f;
    return remove(path);
}

static void remove_root(void)
{
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void begin(void)
{
    no_devices();
    snprintf(root, sizeof root, "/tmp/gd-sysfs-XXXXXX");
    CHECK(mkdtemp(root) != NULL);
    atexit(remove_root);
    setenv("GPU_DISPATCH_SYSFS", root, 1);
}

static void put_amd(unsigned node, unsigned minor, const char *pci, unsigned long long unique)
{
    char text[256], name[32];
    snprintf(text, sizeof text, "cpu_cores_count 0\nsimd_count 304\nunique_id %llu\ndrm_render_minor %u\n", unique,
             minor);
    put(text, "class/kfd/kfd/topology/nodes/%u/properties", node);
    snprintf(text, sizeof text, "%u\n", 1000 + node);
    put(text, "class/kfd/kfd/topology/nodes/%u/gpu_id", node);
    put("gfx942\n", "class/kfd/kfd/topology/nodes/%u/name", node);
    snprintf(name, sizeof name, "renderD%u", minor);
    put_drm(name, pci);
    put("68702699520\n", "devices/pci/%s/mem_info_vram_total", pci);
    put("1073741824\n", "devices/pci/%s/mem_info_vram_used", pci);
    put("37\n", "devices/pci/%s/gpu_busy_percent", pci);
}

/* Makes two AMD GPUs. Node 0 is the processor. The order of the nodes, which ROCm uses, is not the order on the bus. */
static void put_two_amd(void)
{
    put("cpu_cores_count 16\nsimd_count 0\ndrm_render_minor 128\n", "class/kfd/kfd/topology/nodes/0/properties");
    put_amd(1, 128, "0000:c1:00.0", 0xabcdef0123456789ULL);
    put_amd(2, 129, "0000:03:00.0", 0x1111ULL);
}

TEST(amd_described)
{
    begin();
    put_two_amd();
    put("AMD Instinct MI300X\n", "devices/pci/0000:03:00.0/product_name");
    put("45000\n", "devices/pci/0000:03:00.0/hwmon/hwmon4/temp1_input");
    put("150000000\n", "devices/pci/0000:03:00.0/hwmon/hwmon4/power1_average");
    put("1\n", "devices/pci/0000:03:00.0/numa_node");
    put("0-7\n", "devices/pci/0000:03:00.0/local_cpulist");
    struct gd_devices *list = devices("auto");
    CHECK_EQ(gd_devices_count(list), 2);
    CHECK(!gd_devices_cuda(list));
    const struct gd_device a = device(list, 0), b = device(list, 1);
    CHECK_EQ(a.vendor, GD_VENDOR_AMD);
    CHECK_STR(a.pci, "0000:03:00.0");
    CHECK_STR(a.uuid, "GPU-0000000000001111");
    CHECK_STR(a.name, "AMD Instinct MI300X");
    CHECK_EQ(a.memory_total, 68702699520LL);
    CHECK_EQ(a.memory_free, 68702699520LL - 1073741824);
    CHECK_EQ(a.utilization, 37);
    CHECK_EQ(a.temperature, 45);
    CHECK_EQ(a.power_mw, 150000);
    CHECK_EQ(a.numa_node, 1);
    CHECK_STR(a.cpus, "0-7");
    CHECK_STR(b.name, "gfx942");
    CHECK_STR(b.uuid, "GPU-abcdef0123456789");
    CHECK_EQ(b.known, GD_KNOWN_MEMORY | GD_KNOWN_UTILIZATION);
    struct gd__worker_device w;
    CHECK_EQ(worker_of(&w, list, 0), 0);
    CHECK_STR(w.variables[0], "ROCR_VISIBLE_DEVICES=GPU-0000000000001111");
    gd_devices_close(&list);
}

TEST(amd_visible)
{
    static const struct {
        const char *rocr, *hip, *cuda, *indices;
    } rows[] = {
        { NULL, NULL, NULL, "0 1" },
        { "0", NULL, NULL, "1" }, /* ROCm counts nodes: its number 0 is the second GPU on the bus */
        { "1,0", NULL, NULL, "0 1" },
        { "GPU-1111", NULL, NULL, "" },
        { "GPU-0000000000001111", NULL, NULL, "0" },
        { "GPU-00,0", NULL, NULL, "0 1" },
        { "", NULL, NULL, "" },
        { NULL, "0", NULL, "1" },
        { NULL, "1,0", NULL, "0 1" },
        { "1,0", "0", NULL, "0" }, /* HIP counts only the devices that ROCm shows */
        { "1,0", "1", NULL, "1" },
        { "1", "1", NULL, "" },
        { NULL, NULL, "1", "0" }, /* if its own variable is not set, HIP uses the one of CUDA */
        { NULL, "0", "1", "1" },
        { NULL, "-1", NULL, "" },
    };
    begin();
    put_two_amd();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        set_or_unset("ROCR_VISIBLE_DEVICES", rows[i].rocr);
        set_or_unset("HIP_VISIBLE_DEVICES", rows[i].hip);
        set_or_unset("CUDA_VISIBLE_DEVICES", rows[i].cuda);
        struct gd_devices *list = devices(NULL);
        if (strcmp(indices(list), rows[i].indices) != 0)
            FAIL("row %zu: %s, not %s", i, indices(list), rows[i].indices);
        gd_devices_close(&list);
    }
}

TEST(amd_without_uuid_uses_the_number_of_rocm)
{
    begin();
    put("simd_count 0\n", "class/kfd/kfd/topology/nodes/0/properties");
    put_amd(1, 128, "0000:c1:00.0", 0);
    put_amd(2, 129, "0000:03:00.0", 0);
    setenv("ROCR_VISIBLE_DEVICES", "1", 1);
    struct gd_devices *list = devices("auto");
    struct gd__worker_device w;
    CHECK_EQ(worker_of(&w, list, 0), 0);
    CHECK_STR(w.variables[0], "ROCR_VISIBLE_DEVICES=1");
    CHECK_STR(device(list, 0).pci, "0000:03:00.0");
    gd_devices_close(&list);
}

/* --- connections --- */

/* The device is at this path below devices, not directly in devices/pci. */
static void put_amd_at(unsigned node, unsigned minor, const char *path)
{
    char name[32], link[512], target[512];
    const char *pci = strrchr(path, '/') + 1;
    put_amd(node, minor, pci, node);
    put("x", "devices/%s/dummy", path);
    snprintf(name, sizeof name, "renderD%u", minor);
    snprintf(link, sizeof link, "%s/class/drm/%s/device", root, name);
    snprintf(target, sizeof target, "../../../devices/%s", path);
    CHECK_EQ(unlink(link), 0);
    CHECK_EQ(symlink(target, link), 0);
}

static void put_link(unsigned from, unsigned link, unsigned to, unsigned type, unsigned weight, unsigned links)
{
    char text[256];
    snprintf(text, sizeof text,
             "type %u\nversion_major 0\nnode_from %u\nnode_to %u\nweight %u\nmin_bandwidth 50000\nmax_bandwidth %u\n",
             type, from, to, weight, 50000 * links);
    put(text, "class/kfd/kfd/topology/nodes/%u/io_links/%u/properties", from, link);
}

static int connection(const struct gd_devices *list, int a, int b)
{
    CHECK_EQ(gd__connection(&list->found.items[a], &list->found.items[b]),
             gd__connection(&list->found.items[b], &list->found.items[a]));
    return gd__connection(&list->found.items[a], &list->found.items[b]);
}

TEST(amd_gpus_on_the_pcie_bus)
{
    begin();
    put("simd_count 0\n", "class/kfd/kfd/topology/nodes/0/properties");
    put_amd_at(1, 128, "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0");
    put_amd_at(2, 129, "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0/0000:05:00.0/0000:06:00.0");
    put_amd_at(3, 130,
               "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:02.0/0000:07:00.0/0000:08:00.0/0000:09:00.0/"
               "0000:0a:00.0/0000:0b:00.0");
    put_amd_at(4, 131, "pci0000:00/0000:00:03.0/0000:0c:00.0");
    put_amd_at(5, 132, "pci0000:80/0000:80:01.0/0000:81:00.0");
    struct gd_devices *list = devices("auto");
    CHECK_EQ(gd_devices_count(list), 5);
    CHECK_EQ(connection(list, 0, 1), GD__CONNECTION_SWITCH);
    CHECK_EQ(connection(list, 0, 2), GD__CONNECTION_SWITCHES);
    CHECK_EQ(connection(list, 0, 3), GD__CONNECTION_BRIDGE);
    CHECK_EQ(connection(list, 0, 4), GD__CONNECTION_SYSTEM);
    gd_devices_close(&list);
}

TEST(amd_gpus_with_xgmi)
{
    begin();
    put("simd_count 0\n", "class/kfd/kfd/topology/nodes/0/properties");
    for (unsigned i = 0; i < 4; i++) {
        char path[64];
        snprintf(path, sizeof path, "pci0000:0%u/0000:0%u:01.0/0000:1%u:00.0", i, i, i);
        put_amd_at(1 + i, 128 + i, path);
        put_link(1 + i, 0, 0, 2, 20, 1); /* PCIe to the processor */
    }
    put_link(1, 1, 2, 11, 15, 4);
    put_link(2, 1, 1, 11, 15, 4);
    put_link(1, 2, 3, 11, 15, 1);
    put_link(3, 1, 1, 11, 15, 1);
    put_link(1, 3, 4, 11, 30, 1); /* two hops */
    put_link(4, 1, 1, 11, 30, 1);
    put_link(2, 2, 3, 2, 40, 1); /* PCIe */
    put_link(3, 2, 2, 2, 40, 1);
    struct gd_devices *list = devices("auto");
    CHECK_EQ(connection(list, 0, 1), GD__CONNECTION_NVLINK + 4);
    CHECK_EQ(connection(list, 0, 2), GD__CONNECTION_NVLINK + 1);
    CHECK_EQ(connection(list, 0, 3), GD__CONNECTION_NVLINK);
    CHECK_EQ(connection(list, 1, 2), GD__CONNECTION_SYSTEM);
    gd_devices_close(&list);
}

TEST(amd_links_that_cannot_be_read)
{
    begin();
    put("simd_count 0\n", "class/kfd/kfd/topology/nodes/0/properties");
    put_amd_at(1, 128, "pci0000:00/0000:00:01.0/0000:01:00.0");
    put_amd_at(2, 129, "pci0000:00/0000:00:02.0/0000:02:00.0");
    put("", "class/kfd/kfd/topology/nodes/1/io_links/0/properties");
    put("type 11\nnode_to 2\n", "class/kfd/kfd/topology/nodes/2/io_links/other/properties");
    put("type 11\nnode_to\n", "class/kfd/kfd/topology/nodes/2/io_links/1/properties");
    struct gd_devices *list = devices("auto");
    CHECK_EQ(connection(list, 0, 1), GD__CONNECTION_BRIDGE);
    put("type 11\nnode_to 2\nmin_bandwidth 0\nmax_bandwidth 7\n",
        "class/kfd/kfd/topology/nodes/1/io_links/0/properties");
    CHECK_EQ(gd__connection(&list->found.items[0], &list->found.items[1]), GD__CONNECTION_NVLINK + 1);
    gd_devices_close(&list);
}

TEST(amd_processes)
{
    begin();
    put_two_amd();
    put("4096\n", "class/kfd/kfd/proc/77/vram_1002");
    put("0\n", "class/kfd/kfd/proc/77/vram_1001");
    put("8192\n", "class/kfd/kfd/proc/78/vram_1002");
    struct gd_devices *list = devices("auto");
    struct gd_device_process p[4] = { { 0, 0 } };
    CHECK_EQ(gd_devices_processes(list, 0, p, sizeof(struct gd_device_process), 4),
             2); /* the first GPU on the bus is node 2, whose id is 1002 */
    CHECK_EQ(p[0].pid + p[1].pid, 155);
    CHECK_EQ(p[0].memory + p[1].memory, 12288);
    CHECK_EQ(gd_devices_processes(list, 1, p, sizeof(struct gd_device_process), 4), 0);
    CHECK_EQ(device(list, 0).n_processes, 2);
    gd_devices_close(&list);
}

TEST(amd_refresh)
{
    begin();
    put_two_amd();
    struct gd_devices *list = devices("auto");
    put("99\n", "devices/pci/0000:03:00.0/gpu_busy_percent");
    put("rubbish\n", "devices/pci/0000:03:00.0/mem_info_vram_used");
    CHECK_EQ(gd_devices_refresh(list), 0);
    CHECK_EQ(device(list, 0).utilization, 99);
    CHECK_EQ(device(list, 0).known & GD_KNOWN_MEMORY, 0);
    CHECK_EQ(device(list, 1).known & GD_KNOWN_MEMORY, GD_KNOWN_MEMORY);
    gd_devices_close(&list);
}

TEST(a_node_that_this_process_may_not_use)
{
    begin();
    put_two_amd();
    put("", "class/kfd/kfd/topology/nodes/1/properties"); /* empty, as for a GPU that a container may not use */
    struct gd_devices *list = devices("auto");
    CHECK_EQ(gd_devices_count(list), 1);
    CHECK_STR(device(list, 0).pci, "0000:03:00.0");
    gd_devices_close(&list);
}

TEST(intel_devices_have_their_own_memory)
{
    begin();
    put_drm("card0", "0000:00:02.0"); /* the GPU inside the processor */
    put("0x8086\n", "devices/pci/0000:00:02.0/vendor");
    put_drm("card1", "0000:4d:00.0");
    put("0x8086\n", "devices/pci/0000:4d:00.0/vendor");
    put("0x56c0\n", "devices/pci/0000:4d:00.0/device");
    put("16000000000\n", "class/drm/card1/lmem_total_bytes");
    put("15000000000\n", "class/drm/card1/lmem_avail_bytes");
    put("x", "class/drm/card1-DP-1/status");
    put_drm("card2", "0000:3a:00.0");
    put("0x8086\n", "devices/pci/0000:3a:00.0/vendor");
    put("0xe20b\n", "devices/pci/0000:3a:00.0/device");
    put("12000000000\n", "devices/pci/0000:3a:00.0/tile0/physical_vram_size_bytes");
    put_drm("card3", "0000:99:00.0"); /* a device of another vendor */
    put("0x1a03\n", "devices/pci/0000:99:00.0/vendor");
    struct gd_devices *list = devices("auto");
    CHECK_EQ(gd_devices_count(list), 2);
    const struct gd_device a = device(list, 0), b = device(list, 1);
    CHECK_STR(a.pci, "0000:3a:00.0");
    CHECK_STR(a.name, "Intel GPU e20b");
    CHECK_EQ(a.memory_total, 12000000000LL);
    CHECK_EQ(a.known & GD_KNOWN_MEMORY, 0); /* the kernel does not report how much is free */
    CHECK_STR(b.name, "Intel GPU 56c0");
    CHECK_EQ(b.vendor, GD_VENDOR_INTEL);
    CHECK_EQ(b.memory_total, 16000000000LL);
    CHECK_EQ(b.memory_free, 15000000000LL);
    CHECK_EQ(b.known & GD_KNOWN_MEMORY, GD_KNOWN_MEMORY);
    CHECK_EQ(gd_devices_processes(list, 0, NULL, sizeof(struct gd_device_process), 0), GD_E_UNSUPPORTED);
    gd_devices_close(&list);
    setenv("ZE_AFFINITY_MASK", "1.0", 1);
    list = devices("auto");
    CHECK_STR(indices(list), "1");
    struct gd__worker_device w;
    CHECK_EQ(worker_of(&w, list, 0), 0);
    CHECK_STR(w.variables[0], "ZE_AFFINITY_MASK=1");
    gd_devices_close(&list);
}

TEST(vendors_in_order)
{
    char library[4096];
    begin();
    put_two_amd();
    put_drm("card1", "0000:01:00.0");
    put("0x8086\n", "devices/pci/0000:01:00.0/vendor");
    snprintf(library, sizeof library, "%s/fake_nvml.so", getenv("GD_TEST_PLUGINS"));
    setenv("GPU_DISPATCH_NVML", library, 1);
    struct gd_devices *list = devices("auto");
    CHECK_STR(ids(list), "0 1 2 3 4");
    CHECK_STR(indices(list), "0 1 0 1 0");
    CHECK_EQ(device(list, 1).vendor, GD_VENDOR_NVIDIA);
    CHECK_EQ(device(list, 3).vendor, GD_VENDOR_AMD);
    CHECK_EQ(device(list, 4).vendor, GD_VENDOR_INTEL);
    struct gd__worker_device w;
    CHECK_EQ(worker_of(&w, list, 2), 0);
    CHECK_STR(w.variables[2], "CUDA_VISIBLE_DEVICES="); /* a worker on an AMD device sees no NVIDIA device */
    gd_devices_close(&list);
    setenv("CUDA_VISIBLE_DEVICES", "1", 1); /* ignored for AMD devices if there are NVIDIA devices */
    list = devices("auto");
    CHECK_STR(indices(list), "1 0 1 0");
    gd_devices_close(&list);
}

TEST(small_files)
{
    uint64_t n = 0;
    char text[8];
    begin();
    put("0x10\n", "a/hex");
    put("12 34\n", "a/two");
    put("x1\n", "a/word");
    put("99999999999999999999999\n", "a/huge");
    put("1234567890\n", "a/long");
    CHECK(gd__sysfs_number("a", "hex", &n) && n == 16);
    CHECK(gd__sysfs_number("a", "two", &n) && n == 12);
    CHECK(!gd__sysfs_number("a", "word", &n));
    CHECK(!gd__sysfs_number("a", "huge", &n));
    CHECK(!gd__sysfs_number("a", "none", &n));
    CHECK(gd__sysfs_read("a", "long", text, sizeof text));
    CHECK_STR(text, "1234567");
    CHECK(gd__sysfs_property("ab 1\na 2\n", "a", &n) && n == 2);
    CHECK(!gd__sysfs_property("ab 1\n", "a", &n));
    CHECK_EQ(gd__sysfs_numbered("card12", "card"), 12);
    CHECK_EQ(gd__sysfs_numbered("card1-DP-1", "card"), -1);
    CHECK_EQ(gd__sysfs_numbered("card", "card"), -1);
}

TEST_MAIN()
