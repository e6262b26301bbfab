/* SPDX-License-Identifier: MIT
 *
 * The compression ratio of texts, with zlib and without it. The expected sizes are those of Python's zlib.compress().
 */
#include <dlfcn.h>
#include <math.h>

#include "apps/transcribe/text/compression.h"
#include "support/test.h"

static bool hidden; /* zlib can't be found */

/* Replaces the function of the C library in this program. */
void *dlopen(const char *name, int flags)
{
    void *(*real)(const char *, int);
    void *symbol = dlsym(RTLD_NEXT, "dlopen");
    memcpy(&real, &symbol, sizeof real);
    return hidden && name && strstr(name, "libz") ? NULL : real(name, flags);
}

static float ratio(const char *text)
{
    return tr_compression_ratio(text, strlen(text));
}

static void need_zlib(void)
{
    if (!dlopen("libz.so.1", RTLD_NOW))
        SKIP("zlib is not installed");
}

static bool is(float value, double wanted)
{
    return fabs((double)value - wanted) < 1e-6;
}

TEST(short_texts_become_longer)
{
    need_zlib();
    CHECK(is(ratio("Hello there."), 12.0 / 20));
    CHECK(is(ratio("a"), 1.0 / 9));
}

TEST(texts_that_repeat_themselves)
{
    need_zlib();
    char text[1001] = "";
    for (int i = 0; i < 100; i++)
        memcpy(text + i * 10, "thank you ", 10);
    CHECK(ratio(text) > 30);
}

TEST(bytes_are_counted_not_characters)
{
    need_zlib();
    CHECK(is(ratio("\xc3\xbc"), 2.0 / 10));
}

TEST(white_space_at_the_ends_does_not_count)
{
    need_zlib();
    CHECK(is(ratio("  Hello there. \n"), 12.0 / 20));
}

TEST(a_text_without_letters)
{
    need_zlib();
    CHECK(ratio("") == 0);
    CHECK(ratio(" \n") == 0);
}

/* --- the decision about a window --- */

static bool is_too_much(const char *text, double most)
{
    return tr_compresses_too_well(text, strlen(text), most);
}

TEST(a_text_that_repeats_itself_is_decoded_again)
{
    need_zlib();
    CHECK(tr_compression_possible());
    CHECK(is_too_much("thank you thank you thank you thank you thank you thank you thank you", 2.4));
    CHECK(!is_too_much("The quick brown fox jumps over the lazy dog, and then it sleeps.", 2.4));
    CHECK(!is_too_much("", 2.4));
    CHECK(!is_too_much("", 0));
}

/* As in openai-whisper: a ratio that is equal to the threshold is good. */
TEST(a_ratio_at_the_threshold_is_good)
{
    need_zlib();
    const double exact = (double)ratio("Hello there.");
    CHECK(!is_too_much("Hello there.", exact));
    CHECK(is_too_much("Hello there.", exact * 0.999));
    CHECK(is_too_much(" Hello there.\n", exact * 0.999));
}

TEST(without_a_threshold_no_text_is_decoded_again)
{
    static char text[100000];
    memset(text, 'a', sizeof text - 1);
    CHECK(!is_too_much(text, INFINITY));
}

TEST(without_zlib_no_text_is_decoded_again)
{
    hidden = true;
    CHECK(!tr_compression_possible());
    CHECK(!is_too_much("thank you thank you thank you thank you thank you thank you thank you", 2.4));
}

TEST(without_zlib_the_ratio_is_not_known)
{
    hidden = true;
    CHECK(isnan(ratio("Hello there.")));
    CHECK(isnan(ratio("")));
}

TEST_MAIN()
