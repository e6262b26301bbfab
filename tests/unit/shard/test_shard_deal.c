/* SPDX-License-Identifier: MIT
 *
 * Which shard owns a task: by hash, and dealt by size.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/hash/key.h"
#include "shard/spec.h"
#include "unit/shard/deal_items.h"

/* --- by hash --- */

/* Another program made these values. If they change, running jobs lose tasks. */
TEST(the_owner_by_hash_never_changes)
{
    static const uint32_t counts[] = { 1, 2, 3, 16, 100, 1000000 };
    static const struct {
        const char *key;
        uint32_t owners[6];
    } rows[] = {
        { "", { 0, 0, 0, 4, 8, 229908 } },
        { "a.wav", { 0, 0, 2, 0, 40, 842240 } },
        { "speech/2026/interview 12.wav", { 0, 1, 1, 7, 83, 936983 } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t c = 0; c < 6; c++)
            CHECK_EQ(gd__shard_of_key(rows[i].key, strlen(rows[i].key), counts[c]), rows[i].owners[c]);
    }
}

TEST(the_owner_is_always_a_shard)
{
    unsigned char hash[GD__HASH_SIZE];
    memset(hash, 0xff, sizeof hash);
    for (uint32_t count = 1; count <= 1000; count++)
        CHECK_LT(gd__shard_of_hash(hash, count), count);
    CHECK_EQ(gd__shard_of_hash(hash, GD__SHARD_MOST), UINT64_MAX % GD__SHARD_MOST);
}

/* The keys of real lists are similar. The number of tasks of a shard must still be as if they were thrown at random:
 * the limit is six standard deviations. */
static void check_spread(const char *before, const char *after)
{
    enum { KEYS = 20000, MOST = 100 };
    static unsigned char hashes[KEYS][GD__HASH_SIZE];
    for (int i = 0; i < KEYS; i++) {
        char key[64];
        gd__key_hash(key, (size_t)snprintf(key, sizeof key, "%s%d%s", before, i, after), hashes[i]);
    }
    for (uint32_t count = 1; count <= MOST; count++) {
        unsigned tasks[MOST] = { 0 };
        for (int i = 0; i < KEYS; i++)
            tasks[gd__shard_of_hash(hashes[i], count)]++;
        const double mean = (double)KEYS / count;
        for (uint32_t s = 0; s < count; s++) {
            if (fabs(tasks[s] - mean) > 6 * sqrt(mean))
                FAIL("%s%s, %u shards: shard %u has %u tasks", before, after, count, s, tasks[s]);
        }
    }
}

TEST(similar_keys_are_spread_evenly)
{
    check_spread("", "");
    check_spread("speech/00", ".wav");
    check_spread("/data/a", "");
    check_spread("", ".jpg");
    check_spread("https://example.org/?page=", "&size=100");
}

/* --- by size --- */

/* Every shard makes the deal from its own list, which is in another order. */
TEST(each_task_belongs_to_one_shard_in_any_order)
{
    enum { ITEMS = 300 };
    for (uint32_t count = 1; count <= 100; count++) {
        unsigned owners[ITEMS] = { 0 };
        char *keys = NULL;
        struct gd__deal_item *items = make_items(ITEMS, 1.5, count, &keys);
        for (uint32_t shard = 0; shard < count; shard++) {
            size_t n = ITEMS;
            shuffle(items, n, shard);
            CHECK_EQ(gd__deal_items(items, &n, count), 0);
            CHECK_EQ(n, ITEMS);
            for (size_t i = 0; i < n; i++) {
                CHECK_LT(items[i].shard, count);
                owners[number_of(&items[i])] += items[i].shard == shard;
            }
        }
        for (size_t i = 0; i < ITEMS; i++) {
            if (owners[i] != 1)
                FAIL("%u shards: task %zu has %u owners", count, i, owners[i]);
        }
        free(items);
        free(keys);
    }
}

/* The largest load, divided by the best possible one. */
static double measure(size_t n, double sigma, uint32_t count, uint64_t seed)
{
    char *keys = NULL;
    struct gd__deal_item *items = make_items(n, sigma, seed, &keys);
    uint64_t loads[100] = { 0 };
    double sum = 0, largest = 0, worst = 0;
    CHECK_EQ(gd__deal_items(items, &n, count), 0);
    for (size_t i = 0; i < n; i++) {
        loads[items[i].shard] += items[i].size;
        sum += (double)items[i].size;
        largest = fmax(largest, (double)items[i].size);
    }
    for (uint32_t s = 0; s < count; s++)
        worst = fmax(worst, (double)loads[s]);
    free(items);
    free(keys);
    return worst / fmax(sum / count, largest);
}

TEST(loads_are_balanced_within_five_percent)
{
    static const double sigmas[] = { 0.25, 0.5, 1, 1.5, 2, 3 };
    for (uint32_t count = 1; count <= 100; count++) {
        for (size_t s = 0; s < sizeof sigmas / sizeof *sigmas; s++) {
            for (uint64_t seed = 0; seed < (test_soak() ? 50 : 2); seed++) {
                const size_t n = (size_t)count * (20 + 40 * (seed % 2));
                const double ratio = measure(n, sigmas[s], count, seed * 1000 + count);
                if (ratio > 1.05)
                    FAIL("%u shards, %zu tasks, sigma %g, seed %d: %.4f", count, n, sigmas[s], (int)seed, ratio);
            }
        }
    }
}

/* Deals named sizes to shards, in this order and in the reverse order, and writes "key:shard ..." */
static char *deal_text(const char *const *keys, const uint64_t *sizes, size_t n, uint32_t count)
{
    static char out[2][512];
    for (int reverse = 0; reverse < 2; reverse++) {
        struct gd__deal_item items[16];
        size_t left = n;
        for (size_t i = 0; i < n; i++)
            items[reverse ? n - 1 - i : i] = (struct gd__deal_item){ keys[i], strlen(keys[i]), sizes[i], 77 };
        CHECK_EQ(gd__deal_items(items, &left, count), 0);
        out[reverse][0] = '\0';
        for (size_t i = 0; i < left; i++)
            snprintf(out[reverse] + strlen(out[reverse]), sizeof out[reverse] - strlen(out[reverse]), "%s%s:%u",
                     i > 0 ? " " : "", (const char *)items[i].key, items[i].shard);
    }
    CHECK_STR(out[0], out[1]);
    return out[0];
}

#define DEAL(count, ...) deal_text(keys, (const uint64_t[]){ __VA_ARGS__ }, sizeof keys / sizeof *keys, count)

TEST(the_largest_goes_to_the_shard_with_the_least)
{
    static const char *const keys[] = { "a", "b", "c", "d", "e" };
    /* d=9 to 0, b=8 to 1, e=5 to 1 (13), a=4 to 0 (13), c=1 to 0 */
    CHECK_STR(DEAL(2, 4, 8, 1, 9, 5), "a:0 b:1 c:0 d:0 e:1");
    CHECK_STR(DEAL(1, 4, 8, 1, 9, 5), "a:0 b:0 c:0 d:0 e:0");
    CHECK_STR(DEAL(8, 4, 8, 1, 9, 5), "a:3 b:1 c:4 d:0 e:2");
}

TEST(equal_sizes_go_in_order_of_the_keys)
{
    static const char *const keys[] = { "b", "a", "", "ab", "\xff", "B" };
    CHECK_STR(DEAL(3, 7, 7, 7, 7, 7, 7), ":0 B:1 a:2 ab:0 b:1 \xff:2");
}

TEST(tasks_without_a_size_are_spread_too)
{
    static const char *const keys[] = { "a", "b", "c", "d", "e", "f" };
    CHECK_STR(DEAL(3, 0, 0, 0, 0, 0, 0), "a:0 b:1 c:2 d:0 e:1 f:2");
    CHECK_STR(DEAL(3, 0, 1, 0, 1, 0, 1), "a:0 b:1 c:2 d:0 e:1 f:2");
}

TEST(loads_do_not_overflow)
{
    static const char *const keys[] = { "a", "b", "c", "d", "e" };
    CHECK_STR(DEAL(2, UINT64_MAX, UINT64_MAX, UINT64_MAX, 1, 2), "a:0 b:1 c:0 d:0 e:0");
    CHECK_STR(DEAL(2, UINT64_MAX - 1, UINT64_MAX, 3, 3, 3), "a:1 b:0 c:1 d:0 e:0");
}

TEST(of_a_repeated_key_the_largest_is_kept)
{
    static const char *const keys[] = { "b", "a", "b", "b", "c" };
    /* b=9 to 0, c=5 to 1, a=4 to 1 */
    CHECK_STR(DEAL(2, 1, 4, 9, 3, 5), "a:1 b:0 c:1");
}

TEST(no_tasks)
{
    size_t n = 0;
    struct gd__deal_item none;
    CHECK_EQ(gd__deal_items(&none, &n, 16), 0);
    CHECK_EQ(n, 0);
}

TEST(keys_may_have_any_bytes)
{
    struct gd__deal_item items[] = {
        { "a\0b", 3, 5, 77 }, { "a", 1, 5, 77 }, { "a\0a", 3, 5, 77 }, { "a\0", 2, 5, 77 }
    };
    size_t n = 4;
    CHECK_EQ(gd__deal_items(items, &n, 4), 0);
    CHECK_EQ(n, 4);
    CHECK_EQ(items[0].key_size, 1);
    CHECK_EQ(items[1].key_size, 2);
    CHECK_MEM(items[2].key, "a\0a", 3);
    CHECK_MEM(items[3].key, "a\0b", 3);
    for (uint32_t i = 0; i < 4; i++)
        CHECK_EQ(items[i].shard, i);
}

TEST(a_failed_allocation_is_an_error)
{
    for (unsigned long nth = 1; nth <= 2; nth++) {
        struct gd__deal_item items[] = { { "a", 1, 5, 77 }, { "b", 1, 5, 77 } };
        size_t n = 2;
        gd__fault_begin(nth);
        const int rc = gd__deal_items(items, &n, 4);
        gd__fault_begin(0);
        CHECK_EQ(rc, GD_E_NO_MEMORY);
        CHECK_EQ(n, 2);
    }
}

/* --- a deal that can be asked --- */

TEST(tasks_in_the_deal_and_others)
{
    enum { ITEMS = 1000, SHARDS = 7 };
    struct gd__deal *d = gd__deal_new(SHARDS, ITEMS);
    CHECK(d != NULL);
    for (unsigned i = 0; i < ITEMS; i++)
        gd__deal_add(d, &i, sizeof i, i % SHARDS);
    CHECK_EQ(gd__deal_ready(d), 0);
    CHECK_EQ(gd__deal_shards(d), SHARDS);
    CHECK_EQ(gd__deal_entries(d), ITEMS);
    for (unsigned i = 0; i < 2 * ITEMS; i++)
        CHECK_EQ(gd__deal_owner(d, &i, sizeof i), i < ITEMS ? i % SHARDS : gd__shard_of_key(&i, sizeof i, SHARDS));
    gd__deal_close(&d);
    CHECK(d == NULL);
    gd__deal_close(&d);
}

TEST(a_key_twice_is_an_error)
{
    struct gd__deal *d = gd__deal_new(2, 3);
    CHECK(d != NULL);
    gd__deal_add(d, "a", 1, 0);
    gd__deal_add(d, "b", 1, 0);
    gd__deal_add(d, "a", 1, 1);
    CHECK_EQ(gd__deal_ready(d), GD_E_CORRUPT);
    gd__deal_close(&d);
}

TEST(a_deal_that_is_too_large_is_refused)
{
    CHECK(gd__deal_new(2, SIZE_MAX) == NULL);
    CHECK(gd__deal_new(2, SIZE_MAX / 20) == NULL);
}

/* --- for programs that divide their list themselves --- */

TEST(a_program_finds_the_same_owner)
{
    for (unsigned i = 0; i < 1000; i++) {
        const uint32_t owner = gd__shard_of_key(&i, sizeof i, 7);
        for (uint32_t index = 0; index < 7; index++)
            CHECK_EQ(gd_shard_owns((struct gd_shard){ index, 7 }, &i, sizeof i), index == owner);
        CHECK(gd_shard_owns((struct gd_shard){ 0, 1 }, &i, sizeof i));
        CHECK(gd_shard_owns((struct gd_shard){ 0, 0 }, &i, sizeof i)); /* not divided */
    }
    CHECK_EQ(gd_shard_owns((struct gd_shard){ 0, 2 }, NULL, 0), gd__shard_of_key("", 0, 2) == 0);
}

/* The key of a file is the same on machines that have the directory at different places. */
TEST(the_key_of_a_file_is_its_path_within_the_directory)
{
    static const struct {
        const char *path, *dir, *key;
    } files[] = {
        { "a/b/c.wav", "a", "b/c.wav" },
        { "a/b/c.wav", "a/", "b/c.wav" },
        { "/mnt//a.wav", "/mnt", "a.wav" },
        { "/a.wav", "/", "a.wav" },
        { "./.a.wav", ".", ".a.wav" },
        { ".a.wav", ".", ".a.wav" },
        { "audio2/a.wav", "audio", "audio2/a.wav" },
        { "a/", "a", "a/" },
        { "a.wav", NULL, "a.wav" },
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        CHECK_STR(gd__deal_key_within(files[i].path, files[i].dir), files[i].key);
}

TEST_MAIN()
