/* SPDX-License-Identifier: MIT
 *
 * What a user writes after --shard.
 */
#include "base/error.h"
#include "shard/spec.h"
#include "support/test.h"

TEST(valid_texts)
{
    static const struct {
        const char *text;
        bool automatic;
        uint32_t index, count;
    } rows[] = {
        { "1/1", false, 0, 1 },
        { "1/16", false, 0, 16 },
        { "3/16", false, 2, 16 },
        { "16/16", false, 15, 16 },
        { "03/016", false, 2, 16 },
        { "1/1000000", false, 0, 1000000 },
        { "1000000/1000000", false, 999999, 1000000 },
        { "auto", true, 0, 0 },
        { "AUTO", true, 0, 0 },
        { "auto/1", true, 0, 1 },
        { "Auto/16", true, 0, 16 },
        { "auto/1000000", true, 0, 1000000 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gd__shard_spec s;
        if (gd__shard_parse(&s, rows[i].text) != 0)
            FAIL("%s: %s", rows[i].text, gd_error_text());
        if (s.automatic != rows[i].automatic || s.shard.index != rows[i].index || s.shard.count != rows[i].count)
            FAIL("%s: automatic %d, index %u, count %u", rows[i].text, s.automatic, s.shard.index, s.shard.count);
    }
}

TEST(invalid_texts)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        { "0/16", "counted from 1, so the first one is 1/16" },
        { "00/16", "counted from 1" },
        { "17/16", "the last one is 16/16" },
        { "99999999999999999999999/16", "the last one is 16/16" },
        { "1/0", "must be 1 to 1000000" },
        { "0/0", "must be 1 to 1000000" },
        { "1/1000001", "must be 1 to 1000000" },
        { "1/4294967297", "must be 1 to 1000000" },
        { "1/18446744073709551617", "must be 1 to 1000000" },
        { "auto/0", "must be 1 to 1000000" },
        { "auto/1000001", "must be 1 to 1000000" },
        { "", "is not a shard" },
        { "/", "is not a shard" },
        { "3", "is not a shard" },
        { "3/", "is not a shard" },
        { "/16", "is not a shard" },
        { "3/16/1", "is not a shard" },
        { "3/16 ", "is not a shard" },
        { " 3/16", "is not a shard" },
        { "3 /16", "is not a shard" },
        { "-1/16", "is not a shard" },
        { "+1/16", "is not a shard" },
        { "1/-16", "is not a shard" },
        { "0x1/16", "is not a shard" },
        { "3:16", "is not a shard" },
        { "3-of-16", "is not a shard" },
        { "a/b", "is not a shard" },
        { "auto/", "is not a shard" },
        { "auto/x", "is not a shard" },
        { "auto/3/16", "is not a shard" },
        { "auto 16", "is not a shard" },
        { "auto:16", "is not a shard" },
        { "automatic", "is not a shard" },
        { "slurm", "is not a shard" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gd__shard_spec s;
        if (gd__shard_parse(&s, rows[i].text) != GD_E_INVALID)
            FAIL("%s was accepted", rows[i].text);
        CHECK_CONTAINS(gd_error_text(), rows[i].message);
        CHECK_EQ(gd_error_text()[0], '"');
    }
}

TEST(an_error_message_shows_the_text)
{
    struct gd__shard_spec s;
    CHECK_EQ(gd__shard_parse(&s, "3/x"), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "\"3/x\"");
    CHECK_EQ(gd__shard_parse(&s, "\033[2J/3"), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "\"\\x1b[2J/3\"");
}

TEST(numbers_of_a_program)
{
    CHECK_EQ(gd__shard_check((struct gd_shard){ 0, 1 }), 0);
    CHECK_EQ(gd__shard_check((struct gd_shard){ 15, 16 }), 0);
    CHECK_EQ(gd__shard_check((struct gd_shard){ 999999, 1000000 }), 0);
    CHECK_EQ(gd__shard_check((struct gd_shard){ 0, 0 }), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "0 shards: the number of shards must be 1 to 1000000");
    CHECK_EQ(gd__shard_check((struct gd_shard){ 0, 1000001 }), GD_E_INVALID);
    CHECK_EQ(gd__shard_check((struct gd_shard){ 16, 16 }), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "shard 16 of 16: the index of a shard is counted from 0, so it must be 0 to 15");
}

TEST(numbers_stop_at_their_limit)
{
    static const struct {
        const char *text;
        uint64_t most;
        bool good;
        uint64_t value;
        size_t used;
    } rows[] = {
        { "0", 0, true, 0, 1 },
        { "1", 0, false, 0, 0 },
        { "7", 5, false, 0, 0 },
        { "12x", 12, true, 12, 2 },
        { "13", 12, false, 0, 0 },
        { "x", 12, false, 0, 0 },
        { "", 12, false, 0, 0 },
        { "18446744073709551615", UINT64_MAX, true, UINT64_MAX, 20 },
        { "18446744073709551616", UINT64_MAX, false, 0, 0 },
        { "99999999999999999999", UINT64_MAX, false, 0, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *at = rows[i].text;
        uint64_t value = 0;
        CHECK_EQ(gd__shard_number(&at, rows[i].most, &value), rows[i].good);
        CHECK_EQ(value, rows[i].value);
        CHECK_EQ(at - rows[i].text, rows[i].used);
    }
}

TEST_MAIN()
