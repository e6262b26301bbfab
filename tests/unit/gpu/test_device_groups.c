/* SPDX-License-Identifier: MIT
 *
 * Groups of devices: those that a user writes, and those that are formed from simulated and made-up NVIDIA devices.
 */
#include "gpu/groups/connection.h"
#include "support/devices.h"

/* "0+1 2+3", and after it the devices that are left over: "0+1 | 2". On an error, the error code. */
static const char *formed(struct gd_devices *list, unsigned k)
{
    static char text[4096];
    const size_t n = gd_devices_count(list);
    struct gd__chosen *chosen = calloc(n + 1, sizeof *chosen);
    struct gd__group *groups = calloc(n + 1, sizeof *groups);
    int *group_of = calloc(n + 1, sizeof *group_of);
    CHECK(chosen && groups && group_of);
    for (size_t i = 0; i < n; i++)
        chosen[i] = (struct gd__chosen){ .id = device(list, i).id, .at = (int)i };
    const int n_groups = gd__groups_form(groups, group_of, list, chosen, n, k);
    size_t used = (size_t)snprintf(text, sizeof text, n_groups < 0 ? "%d" : "", n_groups);
    for (int g = 0; g < n_groups; g++)
        for (size_t i = 0; i < groups[g].n; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%d",
                                     i   ? "+"
                                     : g ? " "
                                         : "",
                                     chosen[groups[g].members[i]].id);
    for (size_t i = 0, left = 0; n_groups >= 0 && i < n; i++) {
        int seen = 0;
        for (size_t m = 0; group_of[i] >= 0 && m < groups[group_of[i]].n; m++)
            seen += groups[group_of[i]].members[m] == i;
        CHECK_EQ(seen, group_of[i] >= 0);
        if (group_of[i] < 0)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s %d", left++ ? "" : " |", chosen[i].id);
    }
    free(chosen);
    free(groups);
    free(group_of);
    return text;
}

static const char *simulated(const char *variable, const char *spec, unsigned k)
{
    no_devices();
    setenv("GPU_DISPATCH_SIM", variable, 1);
    struct gd_devices *list = devices(spec);
    const char *text = formed(list, k);
    gd_devices_close(&list);
    return text;
}

static void use_nvml(const char *gpus)
{
    char path[4096];
    const char *dir = getenv("GD_TEST_PLUGINS");
    no_devices();
    snprintf(path, sizeof path, "%s/fake_nvml.so", dir ? dir : ".");
    setenv("GPU_DISPATCH_NVML", path, 1);
    setenv("FAKE_NVML_GPUS", gpus, 1);
}

static const char *nvidia(unsigned k)
{
    struct gd_devices *list = devices("auto");
    const char *text = formed(list, k);
    gd_devices_close(&list);
    return text;
}

TEST(written)
{
    CHECK_STR(simulated("4", "0+1,2+3", 0), "0+1 2+3");
    CHECK_STR(simulated("4", "0+1,2+3", 2), "0+1 2+3");
    CHECK_STR(simulated("4", "3+0,1", 0), "3+0 1");
    CHECK_STR(simulated("4", "2,0+1+3", 0), "2 0+1+3");
    CHECK_STR(simulated("4", "auto", 0), "0 1 2 3");
    CHECK_STR(simulated("4,nvlink=0/1", "0+1,2+3", 2), "0+1 2+3"); /* connections do not matter */
}

TEST(the_group_of_a_device)
{
    no_devices();
    setenv("GPU_DISPATCH_SIM", "6", 1);
    struct gd_devices *list = devices("3,0+1,2+4+5");
    static const int first[] = { 0, 1, 1, 3, 3, 3 };
    for (size_t i = 0; i < 6; i++)
        CHECK_EQ(gd_devices_group(list, i), first[i]);
    CHECK_EQ(gd_devices_group(list, 6), GD_E_INVALID);
    gd_devices_close(&list);
}

TEST(written_in_another_size)
{
    CHECK_EQ(atoi(simulated("4", "0+1,2+3", 4)), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "the group of GPU 0 has 2 devices, but gpus_per_worker is 4");
    CHECK_EQ(atoi(simulated("4", "0+1,2", 2)), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "the group of GPU 2 has 1 device, but gpus_per_worker is 2");
    CHECK_EQ(atoi(simulated("4", "0+1", 1)), GD_E_INVALID);
}

TEST(equally_connected_devices_are_grouped_in_their_order)
{
    CHECK_STR(simulated("4", "auto", 1), "0 1 2 3");
    CHECK_STR(simulated("4", "auto", 2), "0+1 2+3");
    CHECK_STR(simulated("4", "3,1,0,2", 2), "3+1 0+2"); /* in the order of the list */
    CHECK_STR(simulated("5", "auto", 2), "0+1 2+3 | 4");
    CHECK_STR(simulated("8,nvlink=0", "auto", 4), "0+1+2+3 4+5+6+7");
    CHECK_STR(simulated("3", "auto", 4), " | 0 1 2");
    CHECK_EQ(strncmp(simulated("1024", "auto", 32), "0+1+2+", 6), 0);
}

TEST(the_best_connected_first)
{
    CHECK_STR(simulated("4,nvlink=0/1/0/1", "auto", 2), "0+2 1+3");
    CHECK_STR(simulated("4,switch=0/1/1/0", "auto", 2), "0+3 1+2");
    CHECK_STR(simulated("4,numa=0/1/0/1", "auto", 2), "0+2 1+3");
    CHECK_STR(simulated("8,switch=0/1/0/1/2/3/2/3", "auto", 2), "0+2 1+3 4+6 5+7");
    CHECK_STR(simulated("8,nvlink=0/0/1/1/1/1/0/0", "auto", 4), "0+1+6+7 2+3+4+5");
    CHECK_STR(simulated("4,nvlink=-1/-1/0/0", "auto", 2), "0+1 2+3"); /* 2+3 is formed first */
    /* NVLink is better than a switch, and a switch better than a node. */
    CHECK_STR(simulated("4,nvlink=-1/-1/5/5,switch=1/1/1/1", "0,1,2", 2), "0+1 | 2");
    CHECK_STR(simulated("3,nvlink=-1/0/0,switch=1/1/2,numa=0", "auto", 2), "1+2 | 0");
    CHECK_STR(simulated("3,switch=-1/0/0,numa=0/0/1", "auto", 2), "1+2 | 0");
}

TEST(the_worst_connection_of_a_group_counts)
{
    /* 0+1+2 would have two very good connections and a bad one. 2+3+4 has three of medium quality. */
    use_nvml("5");
    setenv("FAKE_NVML_LINKS", "4-3x4,3-2x4", 1); /* NVML's order is the reverse of ours */
    CHECK_STR(nvidia(3), "0+1+2 | 3 4");
    setenv("FAKE_NVML_ANCESTORS", "2-1=10,1-0=10,2-0=10", 1);
    CHECK_STR(nvidia(3), "2+3+4 | 0 1");
}

TEST(nvlinks_are_counted)
{
    /* The number of links matters, not NVLink alone. */
    use_nvml("4");
    setenv("FAKE_NVML_LINKS", "0-1,1-2x2,2-3,0-3x2", 1);
    CHECK_STR(nvidia(2), "0+3 1+2");
    setenv("FAKE_NVML_LINKS", "0-1x2,1-2,2-3x2,0-3", 1);
    CHECK_STR(nvidia(2), "0+1 2+3");
}

TEST(the_remaining_devices_stay_connected)
{
    /* All links are equal: 0-1, 0-2, 1-3. If 0+1 were a group, the rest, 2 and 3, would have no link. */
    use_nvml("4");
    setenv("FAKE_NVML_LINKS", "3-2,3-1,2-0", 1);
    CHECK_STR(nvidia(2), "0+2 1+3");
}

TEST(a_cube_of_eight)
{
    /* As in a DGX-1: two fully connected quads, some of the links double. */
    use_nvml("8");
    setenv("FAKE_NVML_LINKS", "0-1,0-2,0-3x2,1-2x2,1-3,2-3x2,4-5,4-6,4-7x2,5-6x2,5-7,6-7x2,0-4x2,1-5x2,2-6,3-7", 1);
    CHECK_STR(nvidia(4), "0+1+2+3 4+5+6+7");
}

TEST(a_switch_connects_all)
{
    use_nvml("4");
    setenv("FAKE_NVML_P2P", "0-2,1-3", 1);
    CHECK_STR(nvidia(2), "0+2 1+3");
    setenv("FAKE_NVML_P2P", "0-1,0-2,0-3,1-2,1-3,2-3", 1);
    setenv("FAKE_NVML_ANCESTORS", "0-3=10", 1); /* does not matter */
    CHECK_STR(nvidia(2), "0+1 2+3");
}

TEST(levels_of_nvml)
{
    static const struct {
        const char *level;
        int connection;
    } rows[] = { { "10", GD__CONNECTION_SWITCH },
                 { "20", GD__CONNECTION_SWITCHES },
                 { "30", GD__CONNECTION_BRIDGE },
                 { "40", GD__CONNECTION_NODE },
                 { "50", GD__CONNECTION_SYSTEM } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[32];
        use_nvml("2");
        snprintf(text, sizeof text, "0-1=%s", rows[i].level);
        setenv("FAKE_NVML_ANCESTORS", text, 1);
        struct gd_devices *list = devices("auto");
        CHECK_EQ(gd__connection(&list->found.items[0], &list->found.items[1]), rows[i].connection);
        gd_devices_close(&list);
    }
}

TEST(a_library_without_topology)
{
    use_nvml("4");
    char path[4096];
    snprintf(path, sizeof path, "%s/fake_nvml_bare.so", getenv("GD_TEST_PLUGINS"));
    setenv("GPU_DISPATCH_NVML", path, 1);
    CHECK_STR(nvidia(2), "0+1 2+3");
}

TEST(mig_instances_are_refused)
{
    CHECK_EQ(atoi(simulated("2,mig=2/0", "auto", 2)), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "GPU 0 is a MIG instance, and a process can use only one of those");
    no_devices();
    setenv("GPU_DISPATCH_SIM", "2,mig=0/2", 1);
    CHECK_EQ(refused("0+1"), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "GPU 1 is a MIG instance");
    CHECK_EQ(refused("1:0+1:1"), GD_E_INVALID);
    CHECK_EQ(refused("1:0+0"), GD_E_INVALID);
}

TEST(workers_without_a_device_are_refused)
{
    no_devices();
    struct gd_devices *list = devices("cpu:4");
    CHECK_EQ(atoi(formed(list, 2)), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "\"cpu\"");
    CHECK_STR(formed(list, 1), "0 1 2 3");
    gd_devices_close(&list);
}

TEST(vendors_are_not_mixed)
{
    no_devices();
    setenv("GPU_DISPATCH_SIM", "4", 1);
    struct gd_devices *list = devices("auto");
    list->found.items[1].d.vendor = GD_VENDOR_AMD;
    CHECK_STR(formed(list, 2), "0+2 | 1 3");
    list->found.items[3].d.vendor = GD_VENDOR_AMD;
    list->found.items[1].backend = list->found.items[3].backend = NULL;
    CHECK_STR(formed(list, 2), "0+2 1+3");
    CHECK_EQ(gd__connection_check(&list->found.items[0], &list->found.items[1]), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "GPU 0 (simulated) and GPU 1 (AMD) cannot be in one group");
    gd_devices_close(&list);
}

TEST(numbers_without_a_device)
{
    const struct gd__chosen chosen[] = { { 5, -1 }, { 3, -1 }, { 9, -1 } };
    struct gd__group groups[3];
    int group_of[3];
    CHECK_EQ(gd__groups_form(groups, group_of, NULL, chosen, 3, 2), 1);
    CHECK_EQ(groups[0].n, 2);
    CHECK_EQ(groups[0].members[1], 1);
    CHECK_EQ(group_of[2], -1);
}

TEST(groups_that_are_too_large)
{
    CHECK_EQ(atoi(simulated("64", "auto", 33)), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "gpus_per_worker is 33: it must be at most 32");
}

TEST_MAIN()
