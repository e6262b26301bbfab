/* SPDX-License-Identifier: MIT
 *
 * SHA-1: known sums, and sums of data that comes in pieces of any size.
 */
#include "apps/transcribe/model/sha1.h"
#include "support/directory.h"

static const char *sum_of(const char *text, size_t size, size_t piece)
{
    static char sum[TR_SHA1_TEXT];
    struct tr_sha1 s;
    tr_sha1_begin(&s);
    for (size_t i = 0; i < size; i += piece)
        tr_sha1_add(&s, text + i, size - i < piece ? size - i : piece);
    tr_sha1_end(&s, sum);
    return sum;
}

TEST(sums_that_are_known)
{
    static const char *const known[][2] = {
        { "", "da39a3ee5e6b4b0d3255bfef95601890afd80709" },
        { "abc", "a9993e364706816aba3e25717850c26c9cd0d89d" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "84983e441c3bd26ebaae4aa1f95129e5e54670f1" },
        { "The quick brown fox jumps over the lazy dog", "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12" },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        CHECK_STR(sum_of(known[i][0], strlen(known[i][0]), 1000), known[i][1]);
    char *million = malloc(1000000);
    CHECK(million != NULL);
    memset(million, 'a', 1000000);
    CHECK_STR(sum_of(million, 1000000, 4096), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    free(million);
}

/* The sizes of the pieces do not matter, for any length around that of a block. */
TEST(sums_of_pieces)
{
    char text[300], whole[TR_SHA1_TEXT];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 7);
    for (size_t size = 0; size < sizeof text; size++) {
        snprintf(whole, sizeof whole, "%s", sum_of(text, size, 1000));
        for (size_t piece = 1; piece < 130; piece += 9)
            CHECK_STR(sum_of(text, size, piece), whole);
    }
}

/* Compares with the program sha1sum, for every length of the last block. */
TEST(sums_are_the_same_as_those_of_sha1sum)
{
    char text[200], line[100];
    if (system("sha1sum --version > /dev/null 2>&1") != 0) // NOLINT: a fixed command
        SKIP("sha1sum is not installed");
    directory_enter();
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 31 + 5);
    for (size_t size = 50; size < 140; size += 1 + (size % 64 > 10 && size % 64 < 50) * 7) {
        FILE *out = fopen("x", "we");
        CHECK(out && fwrite(text, 1, size, out) == size && fclose(out) == 0);
        FILE *f = popen("sha1sum x", "re"); // NOLINT
        CHECK(f && fgets(line, sizeof line, f));
        pclose(f);
        line[40] = '\0';
        CHECK_STR(sum_of(text, size, 1000), line);
    }
}

TEST_MAIN()
