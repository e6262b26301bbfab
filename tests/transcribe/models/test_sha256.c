/* SPDX-License-Identifier: MIT
 *
 * SHA-256: known sums, and sums of data that comes in pieces of any size.
 */
#include "apps/transcribe/model/sha256.h"
#include "support/directory.h"

static const char *sum_of(const char *text, size_t size, size_t piece)
{
    static char sum[TR_SHA256_TEXT];
    struct tr_sha256 s;
    tr_sha256_begin(&s);
    for (size_t i = 0; i < size; i += piece)
        tr_sha256_add(&s, text + i, size - i < piece ? size - i : piece);
    tr_sha256_end(&s, sum);
    return sum;
}

TEST(sums_that_are_known)
{
    static const char *const known[][2] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
        { "The quick brown fox jumps over the lazy dog",
          "d7a8fbb307d7809469ca9abcb0082e4f8d5651e46d3cdb762d02d0bf37c9e592" },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        CHECK_STR(sum_of(known[i][0], strlen(known[i][0]), 1000), known[i][1]);
    char *million = malloc(1000000);
    CHECK(million != NULL);
    memset(million, 'a', 1000000);
    CHECK_STR(sum_of(million, 1000000, 4096), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

/* The sizes of the pieces do not matter, for any length around that of a block. */
TEST(sums_of_pieces)
{
    char text[300], whole[TR_SHA256_TEXT];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 7);
    for (size_t size = 0; size < sizeof text; size++) {
        snprintf(whole, sizeof whole, "%s", sum_of(text, size, 1000));
        for (size_t piece = 1; piece < 130; piece += 9)
            CHECK_STR(sum_of(text, size, piece), whole);
    }
}

/* Compares with the program sha256sum, for every length of the last block. */
TEST(sums_are_the_same_as_those_of_sha256sum)
{
    char text[200], line[100];
    if (system("sha256sum --version > /dev/null 2>&1") != 0) // NOLINT: a fixed command
        SKIP("sha256sum is not installed");
    directory_enter();
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 31 + 5);
    for (size_t size = 50; size < 140; size += 1 + (size % 64 > 10 && size % 64 < 50) * 7) {
        FILE *out = fopen("x", "we");
        CHECK(out && fwrite(text, 1, size, out) == size && fclose(out) == 0);
        FILE *f = popen("sha256sum x", "re"); // NOLINT
        CHECK(f && fgets(line, sizeof line, f));
        pclose(f);
        line[64] = '\0';
        CHECK_STR(sum_of(text, size, 1000), line);
    }
}

TEST_MAIN()
