/* SPDX-License-Identifier: MIT
 *
 * How text of any origin is made safe to print on a terminal.
 */
#include "support/test.h"

#include "base/text/printable.h"

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

TEST(white_space_becomes_one_blank)
{
    CHECK_STR(fit("  a\tb\r\n\n c\u00a0d\u2028e \n"), "a b c d e");
    CHECK_STR(fit(" \n"), "");
}

TEST(terminal_commands_are_removed)
{
    CHECK_STR(fit("\033[2Jx"), "?[2Jx");
    CHECK_STR(fit("a\ab\x7f"), "a?b?");
    CHECK_STR(fit("\xc2\x9b"
                  "31m"),
              "?31m");                                 /* one character that begins a terminal command */
    CHECK_STR(fit("a\u202eb\u2066c\ufeff"), "a?b?c?"); /* these change the direction of writing */
    CHECK_STR(fit("\u200b"), "?");
}

TEST(invalid_utf8_is_marked)
{
    CHECK_STR(fit("a\xff"
                  "b"),
              "a?b");
    CHECK_STR(fit("\xc3"), "?");           /* cut off */
    CHECK_STR(fit("\xc3("), "?(");         /* not continued */
    CHECK_STR(fit("\xc0\x80"), "??");      /* an overlong encoding */
    CHECK_STR(fit("\xed\xa0\x80"), "???"); /* half of a surrogate pair */
    CHECK_STR(fit("\xf5\x80\x80\x80"), "????");
}

TEST(the_text_ends_at_a_nul)
{
    char out[16];
    CHECK_EQ(gd__text_fit(out, sizeof out, "ab\0cd", 5), 2);
    CHECK_STR(out, "ab");
}

TEST(nothing_is_cut_within_a_character)
{
    const char *text = "a\u00f6b";
    char out[8];
    static const size_t lengths[] = { 0, 0, 1, 1, 3, 4, 4 }; /* index: the size of the buffer */
    for (size_t room = 1; room < 7; room++) {
        memset(out, 'x', sizeof out);
        CHECK_EQ(gd__text_fit(out, room, text, strlen(text)), lengths[room]);
        CHECK_EQ(strlen(out), lengths[room]);
    }
    out[0] = 'x';
    CHECK_EQ(gd__text_fit(out, 0, text, strlen(text)), 0);
    CHECK_EQ(out[0], 'x');
}

TEST(the_text_does_not_end_with_a_blank)
{
    char out[3];
    CHECK_EQ(gd__text_fit(out, sizeof out, "a b", 3), 1);
    CHECK_STR(out, "a");
}

/* The result is already safe, so making it safe again does not change it. */
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

/* --- which part of a long text is kept --- */

static const char *keep(const char *from, size_t room)
{
    static char out[512];
    memset(out, 'x', sizeof out);
    const size_t n = gd__text_keep(out, room, from, strlen(from));
    CHECK_LE(n, room);
    CHECK_EQ(out[room], 'x');
    out[n] = '\0';
    return out;
}

TEST(text_that_fits_is_kept_whole)
{
    CHECK_STR(keep("", 16), "");
    CHECK_STR(keep("/a/b.wav", 16), "/a/b.wav");
    CHECK_STR(keep("/data/of/15.wav", 16), "/data/of/15.wav"); /* 16: 15 characters and a NUL */
}

TEST(a_long_path_keeps_its_end)
{
    static const char *const paths[][2] = {
        { "/data/of/sixteen", "\u2026/sixteen" },        { "songs/of/some/one.wav", "\u2026/one.wav" },
        { "my own songs/of/one.wav", "\u2026/one.wav" }, { "/my own/songs and more", "\u2026and more" },
        { "./some/where/is/it", "\u2026re/is/it" },
    };
    CHECK_STR(keep(paths[0][0], 16), "\u2026a/of/sixteen");
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        CHECK_STR(keep(paths[i][0], 12), paths[i][1]);
}

TEST(other_long_text_keeps_its_beginning)
{
    static const char *const texts[] = {
        "a sentence and/or something like it", "a sentence that ends. With and/or more of it",
        "{\"file\": \"/data/one.wav\"}",       "[\"/data/of/some/one.wav\"]",
        "\"/data/of/some/one.wav\"",           "/data/of/some\n/other.wav",
        "/data/of/some\r/other.wav",           "no slash in here.wav",
        "see and/or hear .hidden/.x",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char beginning[14] = "";
        memcpy(beginning, texts[i], 13);
        CHECK_STR(keep(texts[i], 13), beginning);
    }
}

/* Cuts a path at every possible place. The result must always be safe to print. */
TEST(a_path_is_not_cut_within_a_character)
{
    const char *path = "/data/Gr\u00f6\u00dfe/\u65e5\u672c\u8a9e/\U0001f600\U0001f601.wav";
    for (size_t room = 8; room < strlen(path) + 1; room++) {
        char fits[64];
        const char *kept = keep(path, room);
        const size_t n = gd__text_fit(fits, room, kept, strlen(kept));
        CHECK_EQ(n, strlen(kept));
        CHECK_STR(fits, kept);
        CHECK(strchr(fits, '?') == NULL);
        CHECK_EQ(strncmp(kept, "\u2026", 3), 0);
        CHECK_STR(path + strlen(path) - (n - 3), kept + 3);
        CHECK_GT(n + 4, room - 1); /* at most one character more than needed is left out */
    }
}

/* Bytes that cannot begin a character must not remove the whole text. */
TEST(a_path_that_is_not_utf8)
{
    char path[64];
    memset(path, 0x80, sizeof path - 1);
    path[0] = '/';
    path[sizeof path - 1] = '\0';
    CHECK_EQ(strlen(keep(path, 20)), 3 + 16 - 3);
}

/* A payload may have several arguments with a NUL between them, and it may have any length. */
TEST(a_path_ends_at_a_nul_and_has_a_limited_length)
{
    static char out[64], large[10000];
    static const char two[] = "/data/of/some/one.wav\0and/two.wav";
    size_t n = gd__text_keep(out, 12, two, sizeof two - 1);
    CHECK_EQ(n, 11);
    CHECK_EQ(memcmp(out, "\u2026/one.wav", n), 0);
    memset(large, 'a', sizeof large);
    large[0] = large[4095] = '/';
    n = gd__text_keep(out, 13, large, 4096);
    CHECK_EQ(memcmp(out, "\u2026aaaaaaaa/", n), 0);
    n = gd__text_keep(out, 13, large, sizeof large);
    CHECK_EQ(n, 13);
    CHECK_EQ(memcmp(out, "/aaaaaaaaaaaa", n), 0);
    CHECK_EQ(gd__text_keep(out, 13, NULL, 0), 0);
}

TEST_MAIN()
