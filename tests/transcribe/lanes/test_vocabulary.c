/* From text to tokens: words, the longest tokens that fit, unknown bytes. */
#include "apps/transcribe/engine/lanes/tokens/vocabulary.h"

#include "support/test.h"

static const char *const texts[] = { "a", "b",  "ab", " a", " ab",  "'s",       " ",  "  ",
                                     "1", "12", ".",  " .", "\xc3", "\xc3\xa4", "ab", "\n" };
enum { N = sizeof texts / sizeof *texts };

static struct tr_vocabulary new_vocabulary(void)
{
    struct tr_vocabulary v;
    uint32_t lengths[N];
    char all[256] = "";
    tr_vocabulary_begin(&v, 51864);
    for (int i = 0; i < N; i++) {
        lengths[i] = (uint32_t)strlen(texts[i]);
        strcat(all, texts[i]);
    }
    CHECK_EQ(tr_vocabulary_set(&v, N, lengths, all), 0);
    return v;
}

/* The tokens of a text, as "1 2 3". */
static const char *tokens(const char *text)
{
    static char out[256];
    struct tr_vocabulary v = new_vocabulary();
    int found[32];
    const long n = tr_vocabulary_tokens(&v, text, found, 32);
    out[0] = '\0';
    for (long i = 0; i < n; i++)
        snprintf(out + strlen(out), sizeof out - strlen(out), "%s%d", i > 0 ? " " : "", found[i]);
    tr_vocabulary_free(&v);
    return out;
}

TEST(texts_are_stored)
{
    struct tr_vocabulary v = new_vocabulary();
    size_t size;
    CHECK_MEM(tr_vocabulary_text(&v, 4, &size), " ab", 3);
    CHECK_EQ(size, 3);
    CHECK_EQ(v.blank, 6);
    tr_vocabulary_text(&v, v.times, &size);
    CHECK_EQ(size, 0);
    tr_vocabulary_text(&v, -1, &size);
    CHECK_EQ(size, 0);
    tr_vocabulary_free(&v);
}

TEST(symbols_are_marked)
{
    static const char *const some[] = { "a",   "(",  " (",  "-", " -", "'", " '", "♪",
                                        " ♪♪", "((", "((a", ",", "",   " ", "--" };
    enum { SOME = sizeof some / sizeof *some };
    static const char wanted[] = "011010111100001";
    static uint8_t marks[51864];
    struct tr_vocabulary v;
    uint32_t lengths[SOME];
    char all[256] = "";
    tr_vocabulary_begin(&v, 51864);
    for (int i = 0; i < SOME; i++) {
        lengths[i] = (uint32_t)strlen(some[i]);
        strcat(all, some[i]);
    }
    CHECK_EQ(tr_vocabulary_set(&v, SOME, lengths, all), 0);
    tr_vocabulary_mark_symbols(&v, marks);
    for (int i = 0; i < SOME; i++) {
        if (marks[i] != (wanted[i] == '1'))
            FAIL("\"%s\"", some[i]);
    }
    tr_vocabulary_free(&v);
}

TEST(the_longest_token_that_fits_is_taken)
{
    CHECK_STR(tokens("a"), "0");
    CHECK_STR(tokens(" abb"), "4 1");
    CHECK_STR(tokens("12"), "9");
    CHECK_STR(tokens("\xc3\xa4"), "13");
}

TEST(of_equal_texts_the_last_token_is_taken)
{
    CHECK_STR(tokens("ab"), "14");
}

TEST(words_are_separated_by_kinds_of_characters)
{
    CHECK_STR(tokens("a1"), "0 8");
    CHECK_STR(tokens("a's"), "0 5");
    CHECK_STR(tokens("ab."), "14 10");
    CHECK_STR(tokens("a ."), "0 11");
}

TEST(the_last_of_several_spaces_belongs_to_the_next_word)
{
    CHECK_STR(tokens("a  ab"), "0 6 4");
    CHECK_STR(tokens("a   ab"), "0 7 4");
    CHECK_STR(tokens("a  "), "0 7");
    CHECK_STR(tokens("a\nb"), "0 15 1");
}

TEST(unknown_bytes_are_left_out)
{
    CHECK_STR(tokens("xay"), "0");
    CHECK_STR(tokens(""), "");
}

TEST(tokens_beyond_the_room_are_counted)
{
    struct tr_vocabulary v = new_vocabulary();
    int found[1];
    CHECK_EQ(tr_vocabulary_tokens(&v, "a1a", found, 1), 3);
    CHECK_EQ(found[0], 0);
    tr_vocabulary_free(&v);
}

TEST_MAIN()
