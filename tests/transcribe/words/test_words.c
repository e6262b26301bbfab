/* Words from tokens: where a word begins, characters in several tokens, and a word's times and probability. */
#include "apps/transcribe/engine/words/words.h"

#include "support/test.h"

static struct tr_token token(const char *text, double start, double end, float probability)
{
    return (struct tr_token){ text, start, end, probability };
}

/* The words with a bar after each. */
static const char *words_of(const struct tr_transcript *t)
{
    static char out[200];
    size_t n = 0;
    for (size_t i = 0; i < t->n_words; i++)
        n += (size_t)snprintf(out + n, sizeof out - n, "%.*s|", (int)t->words[i].size, t->text.data + t->words[i].text);
    out[n] = '\0';
    return out;
}

static const char *joined(const char *const *texts, size_t n, bool unspaced)
{
    static struct tr_transcript t;
    struct tr_token tokens[20];
    CHECK_LE(n, 20);
    for (size_t i = 0; i < n; i++)
        tokens[i] = token(texts[i], (double)i, (double)i + 1, 0.5f);
    tr_transcript_free(&t);
    t = (struct tr_transcript){ 0 };
    CHECK_EQ(tr_words_add(&t, tokens, n, unspaced), 0);
    return words_of(&t);
}

#define JOINED(unspaced, ...)                                                                                   \
    joined((const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *), \
           unspaced)

TEST(a_space_begins_a_word)
{
    CHECK_STR(JOINED(false, " one", " two", " three"), " one| two| three|");
}

TEST(a_token_without_a_space_continues_the_word)
{
    CHECK_STR(JOINED(false, " un", "do", ",", " re", "do", "."), " undo,| redo.|");
}

TEST(the_first_word_needs_no_space)
{
    CHECK_STR(JOINED(false, "One", " two"), "One| two|");
}

TEST(tokens_without_text_are_ignored)
{
    CHECK_STR(JOINED(false, "", " one", "", " two", ""), " one| two|");
    CHECK_STR(JOINED(false, "", ""), "");
}

TEST(a_character_in_two_tokens)
{
    CHECK_STR(JOINED(false, " caf\xc3", "\xa9", " x"), " caf\xc3\xa9| x|");
}

TEST(without_spaces_every_token_is_a_word)
{
    CHECK_STR(JOINED(true, "\xe4\xbd\xa0", "\xe5\xa5\xbd"), "\xe4\xbd\xa0|\xe5\xa5\xbd|");
}

TEST(without_spaces_a_character_stays_whole)
{
    CHECK_STR(JOINED(true, "\xe4\xbd", "\xa0", "\xe5", "\xa5\xbd", "a"), "\xe4\xbd\xa0|\xe5\xa5\xbd|a|");
    CHECK_STR(JOINED(true, "\xf0\x9f", "\x98\x80", "b"), "\xf0\x9f\x98\x80|b|");
}

/* A space within a character does not begin a word: that would cut the character in two. */
TEST(a_space_after_half_a_character_does_not_begin_a_word)
{
    CHECK_STR(JOINED(false, "x\xc3", " y"), "x\xef\xbf\xbd y|");
}

TEST(which_languages_have_no_spaces)
{
    CHECK(tr_words_unspaced("zh") && tr_words_unspaced("ja") && tr_words_unspaced("yue"));
    CHECK(!tr_words_unspaced("en") && !tr_words_unspaced("ko") && !tr_words_unspaced(NULL) && !tr_words_unspaced(""));
}

TEST(times_and_probability)
{
    struct tr_transcript t = { .duration = 10 };
    const struct tr_token tokens[] = { token(" a", 1, 1.5, 0.2f), token("b", 1.5, 2, 0.4f), token(" c", 2, 3, 0.5f) };
    const struct tr_segment_facts s = tr_segment_facts(0, 5);
    CHECK_EQ(tr_words_add(&t, tokens, 3, false), 0);
    CHECK_EQ(tr_transcript_add(&t, &s, " ab c", 5), 0);
    CHECK_EQ(t.n_words, 2);
    CHECK_EQ(t.segments[0].n_words, 2);
    CHECK(t.words[0].start == 1 && t.words[0].end == 2 && t.words[1].start == 2 && t.words[1].end == 3);
    CHECK(t.words[0].probability > 0.299f && t.words[0].probability < 0.301f && t.words[1].probability == 0.5f);
    tr_transcript_free(&t);
}

TEST_MAIN()
