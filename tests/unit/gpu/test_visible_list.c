/* SPDX-License-Identifier: MIT
 *
 * CUDA_VISIBLE_DEVICES and similar variables, applied to devices that the test makes.
 */
#include "gpu/visible_list.h"
#include "support/test.h"

#define UUID_0 "GPU-8d2f0a11-0000-0000-0000-000000000000"
#define UUID_1 "GPU-8d2f0b22-0000-0000-0000-000000000001"
#define UUID_2 "GPU-c0ffee00-0000-0000-0000-000000000002"
#define UUID_3 "GPU-12345678-0000-0000-0000-000000000003"
#define MIG_A  "MIG-aaaa0000-0000-0000-0000-00000000000a"
#define MIG_B  "MIG-aabb0000-0000-0000-0000-00000000000b"

static struct gd__found plain[4], mig[4];

static void fill(struct gd__found *f, int number, const char *gpu_uuid, const char *mig_uuid, int gi)
{
    *f = (struct gd__found){ .number = number, .mig_index = -1, .gi = -1, .ci = -1 };
    snprintf(f->gpu_uuid, sizeof f->gpu_uuid, "%s", gpu_uuid);
    snprintf(f->d.uuid, sizeof f->d.uuid, "%s", mig_uuid ? mig_uuid : gpu_uuid);
    if (mig_uuid) {
        f->d.is_mig = true;
        f->mig_index = gi - 1;
        f->gi = gi;
        f->ci = 0;
    }
}

/* Makes two lists: four GPUs, and three GPUs of which number 1 has two MIG instances. */
static void make(void)
{
    static const char *const uuids[] = { UUID_0, UUID_1, UUID_2, UUID_3 };
    for (int i = 0; i < 4; i++)
        fill(&plain[i], i, uuids[i], NULL, 0);
    fill(&mig[0], 0, UUID_0, NULL, 0);
    fill(&mig[1], 1, UUID_1, MIG_A, 1);
    fill(&mig[2], 1, UUID_1, MIG_B, 2);
    fill(&mig[3], 2, UUID_2, NULL, 0);
}

static const char *shown(const char *value, enum gd__visible_rules rules, const struct gd__found *items)
{
    static char text[64];
    size_t order[4] = { 0 };
    make();
    const size_t n = gd__visible_list(value, rules, items, 4, order);
    CHECK_LE(n, 4);
    text[0] = '\0';
    for (size_t i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%zu", i ? " " : "", order[i]);
    return text;
}

struct row {
    const char *value, *shown;
};

static void check(const struct row *rows, size_t n, enum gd__visible_rules rules, const struct gd__found *items)
{
    for (size_t i = 0; i < n; i++) {
        const char *got = shown(rows[i].value, rules, items);
        if (strcmp(got, rows[i].shown) != 0)
            FAIL("\"%s\" shows \"%s\", not \"%s\"", rows[i].value ? rows[i].value : "(unset)", got, rows[i].shown);
    }
}
#define CHECK_ROWS(rows, rules, items) check(rows, sizeof(rows) / sizeof *(rows), rules, items)

TEST(unset_shows_all_devices_and_empty_shows_none)
{
    static const struct row rows[] = { { NULL, "0 1 2 3" }, { "", "" }, { "-1", "" }, { " ", "" }, { ",", "" } };
    CHECK_ROWS(rows, GD__VISIBLE_CUDA, plain);
}

TEST(numbers_keep_their_order)
{
    static const struct row rows[] = {
        { "0", "0" },   { "3", "3" },       { "2,0", "2 0" },   { "3,2,1,0", "3 2 1 0" }, { "0, 2", "0 2" },
        { "+1", "1" },  { "01", "1" },      { "\t2,1", "2 1" }, { "1gpu2", "1" },         { "1gpu2,2x", "1 2" },
        { "0-3", "0" }, { "2.5,1", "2 1" }, { "0x1,2", "0 2" }
    };
    CHECK_ROWS(rows, GD__VISIBLE_CUDA, plain);
}

TEST(the_first_invalid_entry_ends_the_list)
{
    static const struct row rows[] = { { "0,2,-1,1", "0 2" },
                                       { "-1,0", "" },
                                       { "0,4,1", "0" },
                                       { "4", "" },
                                       { "99999999999999999999999", "" },
                                       { "0,,1", "0" },
                                       { "0,", "0" },
                                       { ",0", "" },
                                       { "abc", "" },
                                       { "0,abc,1", "0" },
                                       { "NoDevFiles", "" },
                                       { "1,-2,0", "1" },
                                       { "18446744073709551615,0", "" },
                                       { "0,4294967296,1", "0" },
                                       { "-18446744073709551615", "" },
                                       { "all", "" },
                                       { "GPU", "" } };
    CHECK_ROWS(rows, GD__VISIBLE_CUDA, plain);
}

TEST(a_repeated_device_hides_everything)
{
    static const struct row rows[] = {
        { "0,0", "" },         { "0,1,0", "" }, { "1,01", "" }, { UUID_2 "," UUID_2, "" }, { "GPU-c0,GPU-c0ff", "" },
        { "0,1,-1,0", "0 1" }, { "0,9,0", "0" }
    };
    CHECK_ROWS(rows, GD__VISIBLE_CUDA, plain);
}

TEST(uuids_and_unique_prefixes)
{
    static const struct row rows[] = { { UUID_2, "2" },
                                       { UUID_3 "," UUID_0, "3 0" },
                                       { "GPU-c", "2" },
                                       { "GPU-8d2f0b", "1" },
                                       { "GPU-8d2f", "" }, /* matches two GPUs */
                                       { "GPU-c,GPU-8d2f,GPU-1", "2" },
                                       { "GPU-", "" },
                                       { "GPU-d", "" },
                                       { UUID_2 "0", "" }, /* longer than the UUID */
                                       { "gpu-C0FFEE", "2" },
                                       { "GPU-C,GPU-1,GPU-8D2F0A", "2 3 0" } };
    CHECK_ROWS(rows, GD__VISIBLE_CUDA, plain);
}

TEST(numbers_and_uuids_are_not_mixed)
{
    static const struct row rows[] = { { "0,GPU-c", "0" }, { "GPU-c,0", "2" }, { "GPU-c,GPU-1,0,GPU-8d2f0a", "2 3" } };
    CHECK_ROWS(rows, GD__VISIBLE_CUDA, plain);
    static const struct row with_mig[] = {
        { "0," MIG_A, "0" }, { MIG_A ",0", "1" }, { UUID_0 "," MIG_A, "0" }, { MIG_A "," UUID_0, "1" }
    };
    CHECK_ROWS(with_mig, GD__VISIBLE_CUDA, mig);
}

TEST(mig_instances_by_name)
{
    static const struct row rows[] = { { MIG_A, "1" },
                                       { MIG_B "," MIG_A, "2 1" },
                                       { "MIG-aab", "2" },
                                       { "mig-AABB", "2" },
                                       { "MIG-aa", "" }, /* matches two instances */
                                       { MIG_A "," MIG_A, "" },
                                       { "MIG-" UUID_1 "/1/0", "1" },
                                       { "MIG-" UUID_1 "/2/0", "2" },
                                       { "MIG-" UUID_1 "/2/0,MIG-" UUID_1 "/1/0", "2 1" },
                                       { "MIG-" UUID_1 "/3/0", "" },
                                       { "MIG-" UUID_1 "/1/1", "" },
                                       { "MIG-" UUID_1 "/1", "" },
                                       { "MIG-" UUID_0 "/1/0", "" } };
    CHECK_ROWS(rows, GD__VISIBLE_CUDA, mig);
}

TEST(a_gpu_with_mig_on_means_its_instances)
{
    static const struct row rows[] = { { NULL, "0 1 2 3" },       { "1", "1 2" },
                                       { "2,1", "3 1 2" },        { UUID_1, "1 2" },
                                       { "GPU-8d2f0b", "1 2" },   { "1,1", "" },
                                       { UUID_1 "," UUID_1, "" }, { "3", "" } };
    CHECK_ROWS(rows, GD__VISIBLE_CUDA, mig);
}

TEST(rocm_mixes_numbers_and_uuids_and_stops_at_a_repeated_device)
{
    static const struct row rows[] = { { "1,GPU-c", "1 2" }, { "GPU-c,0", "2 0" }, { "0,1,0,2", "0 1" },
                                       { "", "" },           { "2,-1,0", "2" },    { NULL, "0 1 2 3" } };
    CHECK_ROWS(rows, GD__VISIBLE_ROCM, plain);
}

TEST(level_zero_has_tiles_and_no_uuids)
{
    static const struct row rows[] = { { "0", "0" },         { "0.1", "0" },  { "0.0,0.1,2", "0 2" },
                                       { "3.1,0.0", "3 0" }, { "GPU-c", "" }, { "1,GPU-c,0", "1" } };
    CHECK_ROWS(rows, GD__VISIBLE_LEVEL_ZERO, plain);
}

TEST(no_devices_at_all)
{
    size_t order[1];
    CHECK_EQ(gd__visible_list(NULL, GD__VISIBLE_CUDA, plain, 0, order), 0);
    CHECK_EQ(gd__visible_list("0,1", GD__VISIBLE_CUDA, plain, 0, order), 0);
}

TEST(a_number_is_the_number_of_the_device_not_its_position)
{
    size_t order[2];
    make();
    plain[0].number = 7;
    plain[1].number = 5;
    CHECK_EQ(gd__visible_list("5,7", GD__VISIBLE_ROCM, plain, 2, order), 2);
    CHECK_EQ(order[0], 1);
    CHECK_EQ(order[1], 0);
}

TEST_MAIN()
