/* SPDX-License-Identifier: MIT
 *
 * The numbers of equal inputs.
 */
#include "base/error.h"
#include "base/fault.h"
#include "queue/names/repeats.h"
#include "support/test.h"

static uint32_t next(struct gd__queue_repeats *r, unsigned input)
{
    unsigned char hash[GD__HASH_SIZE];
    uint32_t repeat = 0;
    gd__key_hash(&input, sizeof input, hash);
    CHECK_EQ(gd__queue_repeats_next(r, hash, &repeat), 0);
    return repeat;
}

/* Every input occurs as often as its number says, in mixed order. */
TEST(many_inputs)
{
    enum { INPUTS = 20000, ROUNDS = 6 };
    struct gd__queue_repeats r = { 0 };
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned input = 0; input < INPUTS; input++) {
            if (input % ROUNDS >= round)
                CHECK_EQ(next(&r, input), round);
        }
    }
    CHECK_EQ(r.used, INPUTS);
    CHECK_LE(r.room * sizeof *r.slots, INPUTS * 60);
    gd__queue_repeats_free(&r);
    CHECK_EQ(next(&r, 5), 0); /* empty again */
    gd__queue_repeats_free(&r);
}

/* Different hashes that belong to the same slot, also at the end of the table. */
TEST(same_slot)
{
    struct gd__queue_repeats r = { 0 };
    unsigned char hash[GD__HASH_SIZE];
    uint32_t repeat = 9;
    for (uint32_t round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 200; i++) {
            memset(hash, 0xff, sizeof hash);
            hash[GD__HASH_SIZE - 1] = (unsigned char)i;
            CHECK_EQ(gd__queue_repeats_next(&r, hash, &repeat), 0);
            CHECK_EQ(repeat, round);
        }
    }
    CHECK_EQ(r.used, 200);
    gd__queue_repeats_free(&r);
}

TEST(too_many_repeats)
{
    struct gd__queue_repeats r = { 0 };
    unsigned char hash[GD__HASH_SIZE] = { 1 };
    uint32_t repeat = 0;
    CHECK_EQ(gd__queue_repeats_next(&r, hash, &repeat), 0);
    for (size_t i = 0; i < r.room; i++) {
        if (r.slots[i].count > 0)
            r.slots[i].count = UINT32_MAX - 1;
    }
    CHECK_EQ(gd__queue_repeats_next(&r, hash, &repeat), 0);
    CHECK_EQ(repeat, UINT32_MAX - 1);
    CHECK_EQ(gd__queue_repeats_next(&r, hash, &repeat), GD_E_TOO_LARGE);
    gd__queue_repeats_free(&r);
}

TEST(no_memory)
{
    struct gd__queue_repeats r = { 0 };
    unsigned char hash[GD__HASH_SIZE] = { 1 };
    uint32_t repeat = 0;
    gd__fault_begin(1);
    CHECK_EQ(gd__queue_repeats_next(&r, hash, &repeat), GD_E_NO_MEMORY);
    gd__fault_begin(0);
    for (unsigned i = 0; r.used < r.room / 4 * 3 || r.used == 0; i++)
        CHECK_EQ(next(&r, i), 0);
    gd__fault_begin(1);
    CHECK_EQ(gd__queue_repeats_next(&r, hash, &repeat), GD_E_NO_MEMORY);
    gd__fault_begin(0);
    CHECK_EQ(next(&r, 0), 1); /* nothing was lost */
    gd__queue_repeats_free(&r);
}

TEST_MAIN()
