/* SPDX-License-Identifier: MIT
 *
 * Text from anywhere, made fit for a terminal. */
#include "support/test.h"

#include "stats/text.h"

static const char *fit(const char *from)
{
    static char out[256];
    memset(out, 'x', sizeof out);
    const size_t n = gd__text_fit(out, sizeof out, from, strlen(from));
    CHECK_EQ(strlen(out), n);
    return out;
}

TEST(plain_text_stays)
{
    CHECK_STR(fit("/data/a b.wav"), "/data/a b.wav");
    CHECK_STR(fit("Gr\u00f6\u00dfe \u65e5\u672c \U0001f600"), "Gr\u00f6\u00dfe \u65e5\u672c \U0001f600");
    CHECK_STR(fit(""), "");
}

TEST(white_space_is_one_blank)
{
    CHECK_STR(fit("  a\tb\r\n\n c\u00a0d\u2028e \n"), "a b c d e");
    CHECK_STR(fit(" \n"), "");
}

TEST(commands_to_a_terminal_are_not_passed_on)
{
    CHECK_STR(fit("\033[2Jx"), "?[2Jx");
    CHECK_STR(fit("a\ab\x7f"), "a?b?");
    CHECK_STR(fit("\xc2\x9b"
                  "31m"),
              "?31m");                                 /* one character that begins a command */
    CHECK_STR(fit("a\u202eb\u2066c\ufeff"), "a?b?c?"); /* turns the direction of writing */
    CHECK_STR(fit("\u200b"), "?");
}

TEST(what_is_not_utf8_is_marked)
{
    CHECK_STR(fit("a\xff"
                  "b"),
              "a?b");
    CHECK_STR(fit("\xc3"), "?");           /* cut */
    CHECK_STR(fit("\xc3("), "?(");         /* not continued */
    CHECK_STR(fit("\xc0\x80"), "??");      /* too long for what it says */
    CHECK_STR(fit("\xed\xa0\x80"), "???"); /* half of a pair */
    CHECK_STR(fit("\xf5\x80\x80\x80"), "????");
}

TEST(it_ends_at_a_nul)
{
    char out[16];
    CHECK_EQ(gd__text_fit(out, sizeof out, "ab\0cd", 5), 2);
    CHECK_STR(out, "ab");
}

TEST(nothing_is_cut_within_a_character)
{
    const char *text = "a\u00f6b";
    char out[8];
    static const size_t lengths[] = { 0, 0, 1, 1, 3, 4, 4 }; /* by room */
    for (size_t room = 1; room < 7; room++) {
        memset(out, 'x', sizeof out);
        CHECK_EQ(gd__text_fit(out, room, text, strlen(text)), lengths[room]);
        CHECK_EQ(strlen(out), lengths[room]);
    }
    out[0] = 'x';
    CHECK_EQ(gd__text_fit(out, 0, text, strlen(text)), 0);
    CHECK_EQ(out[0], 'x');
}

TEST(a_blank_does_not_stand_last)
{
    char out[3];
    CHECK_EQ(gd__text_fit(out, sizeof out, "a b", 3), 1);
    CHECK_STR(out, "a");
}

/* Whatever comes, the same again gives the same: what it lets pass is fit. */
TEST(random_bytes)
{
    uint64_t seed = 42;
    for (int k = 0; k < 200000; k++) {
        char from[24], once[40], twice[40];
        for (size_t i = 0; i < sizeof from; i += 8) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            const uint64_t mixed = seed ^ seed >> 29;
            memcpy(from + i, &mixed, 8);
        }
        const size_t n = gd__text_fit(once, sizeof once, from, sizeof from);
        CHECK_EQ(gd__text_fit(twice, sizeof twice, once, n), n);
        CHECK_STR(once, twice);
        for (size_t i = 0; i < n; i++)
            CHECK((unsigned char)once[i] >= ' ' && once[i] != 0x7f);
    }
}

TEST_MAIN()
