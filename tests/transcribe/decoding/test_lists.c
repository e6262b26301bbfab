/* SPDX-License-Identifier: MIT
 *
 * Settings that are lists: parts of a file, and tokens.
 */
#include "apps/transcribe/engine/decoding/lists.h"

#include <math.h>

#include "base/failure.h"
#include "support/test.h"

static void check_clips(const char *text, size_t n, const struct tr_clip *want)
{
    struct tr_clips clips;
    if (tr_clips_parse(&clips, "--clip-timestamps", text) < 0)
        FAIL("%s: %s", text, gd__fail_text());
    CHECK_EQ(clips.n, n);
    for (size_t i = 0; i < n; i++) {
        CHECK(fabs(clips.items[i].start - want[i].start) < 1e-9);
        CHECK(clips.items[i].end == want[i].end || fabs(clips.items[i].end - want[i].end) < 1e-9);
    }
    tr_clips_free(&clips);
}
#define CLIPS(text, ...)                                                                        \
    check_clips(text, sizeof((const struct tr_clip[]){ __VA_ARGS__ }) / sizeof(struct tr_clip), \
                (const struct tr_clip[]){ __VA_ARGS__ })

TEST(parts_of_a_file)
{
    CLIPS("0,10", { 0, 10 });
    CLIPS("5", { 5, INFINITY });
    CLIPS("0,10,60.25,90.5", { 0, 10 }, { 60.25, 90.5 });
    CLIPS(" 1.5 , 2 , 2 , 3 , 4 ", { 1.5, 2 }, { 2, 3 }, { 4, INFINITY });
}

TEST(the_whole_file)
{
    check_clips("", 0, NULL);
    check_clips(NULL, 0, NULL);
    check_clips("0", 0, NULL);
    check_clips("0.0", 0, NULL);
}

TEST(parts_that_are_refused)
{
    static const char *const bad[] = { "a", "1,b", "1,,2", ",1", "1,", "-1,5", "1 2", "1e3", "nan", "1;2", "." };
    struct tr_clips clips;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (tr_clips_parse(&clips, "--clip-timestamps", bad[i]) == 0)
            FAIL("%s was accepted", bad[i]);
        CHECK_CONTAINS(gd__fail_text(), "--clip-timestamps takes seconds, as in 0,10,60,90");
        CHECK(!clips.items);
    }
    CHECK_EQ(tr_clips_parse(&clips, "x", "5,5"), -1);
    CHECK_CONTAINS(gd__fail_text(), "x: 5 does not come after 5");
    CHECK_EQ(tr_clips_parse(&clips, "x", "0,10,9,12"), -1);
    CHECK_CONTAINS(gd__fail_text(), "x: 9 does not come after 10");
}

TEST(tokens)
{
    struct tr_token_list list;
    CHECK_EQ(tr_token_list_parse(&list, "x", "1, 50362 ,0"), 0);
    CHECK_EQ(list.n, 3);
    CHECK(!list.non_speech);
    CHECK_EQ(list.ids[0], 1);
    CHECK_EQ(list.ids[1], 50362);
    CHECK_EQ(list.ids[2], 0);
    tr_token_list_free(&list);
    CHECK_EQ(tr_token_list_parse(&list, "x", "-1"), 0);
    CHECK_EQ(list.n, 0);
    CHECK(list.non_speech);
    tr_token_list_free(&list);
    CHECK_EQ(tr_token_list_parse(&list, "x", "7,-1"), 0);
    CHECK_EQ(list.n, 1);
    CHECK(list.non_speech);
    tr_token_list_free(&list);
    CHECK_EQ(tr_token_list_parse(&list, "x", " "), 0);
    CHECK(list.n == 0 && !list.non_speech);
}

TEST(tokens_that_are_refused)
{
    static const char *const bad[] = { "a", "-2", "-10", "1,", ",1", "1.5", "1 2", "123456789", "--1", "0x1" };
    struct tr_token_list list;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (tr_token_list_parse(&list, "--suppress-tokens", bad[i]) == 0)
            FAIL("%s was accepted", bad[i]);
        CHECK_CONTAINS(gd__fail_text(), "--suppress-tokens takes the numbers of tokens");
        CHECK(!list.ids);
    }
}

TEST_MAIN()
