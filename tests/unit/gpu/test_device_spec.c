/* SPDX-License-Identifier: MIT
 *
 * The text with which a user chooses devices: its syntax, and the choice among simulated devices.
 */
#include "gpu/backends/sim.h"
#include "gpu/numa.h"
#include "gpu/spec.h"
#include "support/devices.h"

static char *write_entries(const char *text)
{
    static char out[512];
    struct gd__spec_entry e;
    const char *at = text;
    int rc;
    out[0] = '\0';
    while ((rc = gd__spec_next(text, &at, &e)) > 0) {
        static const char *const kinds[] = { "n", "u", "m" };
        snprintf(out + strlen(out), sizeof out - strlen(out), "%s%s:%d:%d:%.*s%s", *out ? " " : "", kinds[e.kind],
                 e.first, e.last, (int)e.length, e.text, e.goes_on ? "+" : "");
    }
    if (rc < 0)
        snprintf(out, sizeof out, "error");
    return out;
}

TEST(keywords)
{
    static const struct {
        const char *text;
        enum gd__spec_kind kind;
        unsigned count;
    } rows[] = { { NULL, GD__SPEC_ALL, 0 },     { "auto", GD__SPEC_AUTO, 1 }, { "all", GD__SPEC_AUTO, 1 },
                 { "AUTO", GD__SPEC_AUTO, 1 },  { "sim:1", GD__SPEC_SIM, 1 }, { "sim:1024", GD__SPEC_SIM, 1024 },
                 { "cpu", GD__SPEC_CPU, 1 },    { "cpu:8", GD__SPEC_CPU, 8 }, { "0", GD__SPEC_LIST, 0 },
                 { "GPU-1", GD__SPEC_LIST, 0 }, { "", GD__SPEC_LIST, 0 },     { "simple", GD__SPEC_LIST, 0 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gd__spec s;
        CHECK_EQ(gd__spec_parse(&s, rows[i].text), 0);
        CHECK_EQ(s.kind, rows[i].kind);
        CHECK_EQ(s.count, rows[i].count);
    }
}

TEST(invalid_counts)
{
    static const char *const rows[] = {
        "sim",   "sim:",  "sim:0",     "sim:1025", "sim:-1", "sim:4x", "cpu:",
        "cpu:0", "cpu:x", "cpu:99999", "auto:2",   "all:1",  "sim: 4", "sim:99999999999999999999"
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gd__spec s;
        if (gd__spec_parse(&s, rows[i]) != GD_E_INVALID)
            FAIL("%s was accepted", rows[i]);
        CHECK_CONTAINS(gd_error_text(), rows[i]);
    }
}

TEST(entries)
{
    static const struct {
        const char *text, *entries;
    } rows[] = {
        { "0", "n:0:0:0" },
        { "0,2", "n:0:0:0 n:2:2:2" },
        { "0-3", "n:0:3:0-3" },
        { "5-5", "n:5:5:5-5" },
        { "0-1,7,3-4", "n:0:1:0-1 n:7:7:7 n:3:4:3-4" },
        { " 0 , 2 ", "n:0:0:0 n:2:2:2" },
        { "GPU-8d2f", "u:0:0:GPU-8d2f" },
        { "mig-1,Gpu-2", "u:0:0:mig-1 u:0:0:Gpu-2" },
        { "0:1", "m:0:1:0:1" },
        { "0:1,2", "m:0:1:0:1 n:2:2:2" },
        { "MIG-GPU-1/2/3", "u:0:0:MIG-GPU-1/2/3" },
        { "0+1", "n:0:0:0+ n:1:1:1" },
        { "0 + GPU-7,2+3+4", "n:0:0:0+ u:0:0:GPU-7 n:2:2:2+ n:3:3:3+ n:4:4:4" },
        { "0+1,2", "n:0:0:0+ n:1:1:1 n:2:2:2" },
        { "0+", "error" },
        { "0++1", "error" },
        { "0,+1", "error" },
        { "0-1+2", "error" },
        { "0+1-2", "error" },
        { "", "error" },
        { ",", "error" },
        { "0,", "error" },
        { "0,,1", "error" },
        { " ", "error" },
        { "3-0", "error" },
        { "1-0", "error" },
        { "-1", "error" },
        { "0-", "error" },
        { "1x", "error" },
        { "x", "error" },
        { "0:", "error" },
        { ":1", "error" },
        { "0:1:2", "error" },
        { "0-1-2", "error" },
        { "0,sim:2", "error" },
        { "1.5", "error" },
        { "0 1", "error" },
        { "99999999999999999999", "error" },
        { "0-99999999999999999999", "error" },
        { "+1", "error" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(write_entries(rows[i].text), rows[i].entries) != 0)
            FAIL("\"%s\" is \"%s\", not \"%s\"", rows[i].text, write_entries(rows[i].text), rows[i].entries);
}

TEST(choosing_by_number)
{
    static const struct {
        const char *spec, *ids;
    } rows[] = { { NULL, "0 1 2 3" }, { "auto", "0 1 2 3" }, { "all", "0 1 2 3" }, { "0", "0" },
                 { "2,0", "2 0" },    { "0-3", "0 1 2 3" },  { "3,0-1", "3 0 1" }, { " 1 , 2 ", "1 2" } };
    no_devices();
    setenv("GPU_DISPATCH_SIM", "4", 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gd_devices *list = devices(rows[i].spec);
        if (strcmp(ids(list), rows[i].ids) != 0)
            FAIL("%s gives %s", rows[i].spec, ids(list));
        gd_devices_close(&list);
    }
}

TEST(missing_devices_are_named)
{
    static const struct {
        const char *spec;
        int error;
        const char *error_text;
    } rows[] = { { "7", GD_E_NO_DEVICES, "no GPU 7: the GPUs are 0-3" },
                 { "0-9", GD_E_NO_DEVICES, "no GPU 4: the GPUs are 0-3" },
                 { "0-999999", GD_E_NO_DEVICES, "no GPU 4" },
                 { "1,1", GD_E_INVALID, "GPU 1 is listed twice" },
                 { "0-2,1", GD_E_INVALID, "GPU 1 is listed twice" },
                 { "GPU-zz", GD_E_NO_DEVICES, "no device GPU-zz: the GPUs are 0-3 (GPU-" },
                 { "GPU-", GD_E_INVALID, "\"GPU-\" matches both GPU-" },
                 { "0:1", GD_E_NO_DEVICES, "GPU 0 has no MIG instances" },
                 { "9:0", GD_E_NO_DEVICES, "there is no usable GPU 9" },
                 { "7,x", GD_E_INVALID,
                   "\"x\" is not a GPU number (0), range (0-3), group (0+1), UUID" }, /* syntax comes first */
                 { "", GD_E_INVALID, "empty" },
                 { "3-1", GD_E_INVALID, "write 1-3" },
                 { "0+9", GD_E_NO_DEVICES, "no GPU 9" },
                 { "0+1,1+2", GD_E_INVALID, "GPU 1 is listed twice" },
                 { "0-1+2", GD_E_INVALID, "the range 0-1 is part of a group" } };
    no_devices();
    setenv("GPU_DISPATCH_SIM", "4", 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_EQ(refused(rows[i].spec), rows[i].error);
        CHECK_CONTAINS(gd_error_text(), rows[i].error_text);
    }
}

TEST(the_message_for_a_single_device)
{
    no_devices();
    setenv("GPU_DISPATCH_SIM", "1", 1);
    CHECK_EQ(refused("3"), GD_E_NO_DEVICES);
    CHECK_STR(gd_error_text(), "no GPU 3: the only GPU is 0");
}

TEST(by_uuid_and_by_prefix)
{
    no_devices();
    setenv("GPU_DISPATCH_SIM", "4", 1);
    struct gd_devices *all = devices("auto");
    const struct gd_device third = device(all, 2);
    for (size_t length = 10; length <= strlen(third.uuid); length++) {
        char prefix[96];
        snprintf(prefix, sizeof prefix, "%.*s", (int)length, third.uuid);
        struct gd_devices *list = devices(prefix);
        CHECK_STR(ids(list), "2");
        gd_devices_close(&list);
    }
    char twice[256];
    snprintf(twice, sizeof twice, "2,%s", third.uuid);
    CHECK_EQ(refused(twice), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "GPU 2 is listed twice");
    gd_devices_close(&all);
}

TEST(mig_instances)
{
    no_devices();
    setenv("GPU_DISPATCH_SIM", "3,mig=0/2/on", 1);
    struct gd_devices *list = devices("auto"); /* GPU 0 and two instances of GPU 1; GPU 2 has MIG on but no instance */
    CHECK_STR(ids(list), "0 1 2");
    CHECK_STR(indices(list), "0 1 1");
    const struct gd_device second = device(list, 2);
    CHECK(second.is_mig && second.mig_enabled);
    CHECK(!device(list, 0).is_mig && !device(list, 0).mig_enabled);
    CHECK_CONTAINS(second.uuid, "MIG-");
    CHECK_EQ(second.memory_total, device(list, 0).memory_total / 2);
    gd_devices_close(&list);

    list = devices("1:1,1:0");
    CHECK_STR(ids(list), "2 1");
    gd_devices_close(&list);
    list = devices(second.uuid);
    CHECK_STR(ids(list), "2");
    gd_devices_close(&list);

    CHECK_EQ(refused("1:2"), GD_E_NO_DEVICES);
    CHECK_CONTAINS(gd_error_text(), "GPU 1 has 2, counted from 0");
    CHECK_EQ(refused("2:0"), GD_E_NO_DEVICES);
    CHECK_CONTAINS(gd_error_text(), "MIG on but no MIG instance");
    CHECK_EQ(refused("1:0,1"), GD_E_INVALID);
    CHECK_EQ(refused("3"), GD_E_NO_DEVICES);
}

TEST(the_uuid_of_a_gpu_means_all_its_instances)
{
    no_devices();
    setenv("GPU_DISPATCH_SIM", "3", 1);
    struct gd_devices *list = devices("auto");
    const struct gd_device one = device(list, 1), two = device(list, 2);
    gd_devices_close(&list);
    setenv("GPU_DISPATCH_SIM", "3,mig=0/3/on", 1);
    list = devices(one.uuid);
    CHECK_STR(ids(list), "1 2 3");
    gd_devices_close(&list);
    CHECK_EQ(refused(two.uuid), GD_E_NO_DEVICES);
    CHECK_CONTAINS(gd_error_text(), "MIG on but no MIG instance");
}

TEST(sim_and_cpu)
{
    no_devices();
    setenv("CUDA_VISIBLE_DEVICES", "0", 1); /* ignored for devices requested with sim: */
    struct gd_devices *list = devices("sim:3");
    CHECK_STR(ids(list), "0 1 2");
    CHECK_EQ(device(list, 1).vendor, GD_VENDOR_SIMULATED);
    gd_devices_close(&list);
    list = devices("cpu:2");
    CHECK_STR(ids(list), "0 1");
    CHECK_EQ(device(list, 1).vendor, GD_VENDOR_CPU);
    CHECK_STR(device(list, 1).uuid, "");
    CHECK_EQ(device(list, 1).known, 0);
    gd_devices_close(&list);
    list = devices("cpu");
    CHECK_EQ(gd_devices_count(list), 1);
    gd_devices_close(&list);
    list = devices("sim:1024");
    CHECK_EQ(gd_devices_count(list), 1024);
    gd_devices_close(&list);
}

TEST(sim_uses_the_details_of_the_variable)
{
    no_devices();
    setenv("GPU_DISPATCH_SIM", "1,memory=8G/4G,name=Foo", 1);
    struct gd_devices *list = devices("sim:3");
    CHECK_EQ(gd_devices_count(list), 3);
    CHECK_EQ(device(list, 0).memory_total, 8LL << 30);
    CHECK_EQ(device(list, 2).memory_total, 4LL << 30);
    CHECK_STR(device(list, 2).name, "Foo");
    gd_devices_close(&list);
}

TEST(cpu_lists)
{
    static const struct {
        const char *text, *written; /* NULL: refused */
    } rows[] = { { "0", "0" },
                 { "0-3", "0-3" },
                 { "0-3,8,10-11\n", "0-3,8,10-11" },
                 { "3,2,1", "1-3" },
                 { "1023", "1023" },
                 { "1024", "" },
                 { "0,5000-99999999999", "0" },
                 { "", NULL },
                 { "x", NULL },
                 { "1-", NULL },
                 { "3-1", NULL },
                 { "1,,2", NULL },
                 { "1 2", NULL },
                 { "-1", NULL },
                 { " 4 ", "4" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cpu_set_t set;
        char text[64];
        const bool taken = gd__cpulist_parse(rows[i].text, &set);
        if (taken != (rows[i].written != NULL))
            FAIL("\"%s\" was %s", rows[i].text, taken ? "accepted" : "refused");
        CHECK(!taken || gd__cpulist_format(&set, text, sizeof text));
        if (taken)
            CHECK_STR(text, rows[i].written);
    }
}

TEST(a_cpu_list_that_does_not_fit)
{
    cpu_set_t set;
    char text[8];
    CHECK(gd__cpulist_parse("100-200,300", &set));
    CHECK(!gd__cpulist_format(&set, text, sizeof text));
    CHECK(gd__cpulist_parse("100-200", &set));
    CHECK(gd__cpulist_format(&set, text, sizeof text));
}

TEST_MAIN()
