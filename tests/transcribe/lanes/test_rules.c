/* Which token comes next, for made-up logits: the rules about times, and the choice. */
#include "apps/transcribe/engine/lanes/tokens/rules.h"

#include <math.h>

#include "support/test.h"

enum { SIZE = 51864 };

static struct tr_vocabulary vocabulary;
static float logits[SIZE];

/* An English model with a blank, where every token has the same small logit. */
static struct tr_rules new_rules(void)
{
    tr_vocabulary_begin(&vocabulary, SIZE);
    vocabulary.blank = 220;
    for (int i = 0; i < SIZE; i++)
        logits[i] = -20;
    return (struct tr_rules){ &vocabulary, true, false, 50, NULL };
}

static const struct tr_turn first = { .first = true, .after_two_times = true };
static const struct tr_turn in_text = { .earliest = 10 };
static const struct tr_turn after_time = { .after_time = true, .earliest = 10 };
static const struct tr_turn after_times = { .after_time = true, .after_two_times = true, .earliest = 10 };

static struct tr_pick best(const struct tr_rules *r, const struct tr_turn *turn)
{
    const struct tr_logits l = tr_rules_shorten(r, turn, logits);
    return tr_rules_best(r, turn, &l);
}

TEST(special_tokens_have_the_numbers_of_whisper)
{
    struct tr_vocabulary v;
    tr_vocabulary_begin(&v, 51864);
    CHECK(!v.multilingual);
    CHECK_EQ(v.eot, 50256);
    CHECK_EQ(v.times, 50363);
    tr_vocabulary_begin(&v, 51865);
    CHECK(v.multilingual);
    CHECK_EQ(v.languages, 99);
    CHECK_EQ(v.eot, 50257);
    CHECK_EQ(v.sot, 50258);
    CHECK_EQ(v.transcribe, 50359);
    CHECK_EQ(v.no_times, 50363);
    CHECK_EQ(v.times, 50364);
    tr_vocabulary_begin(&v, 51866);
    CHECK_EQ(v.languages, 100);
    CHECK_EQ(v.transcribe, 50360);
    CHECK_EQ(v.times, 50365);
}

TEST(the_most_likely_text_is_chosen)
{
    const struct tr_rules r = new_rules();
    logits[300] = 5;
    logits[400] = 4;
    const struct tr_pick p = best(&r, &in_text);
    CHECK_EQ(p.token, 300);
    CHECK(fabs((double)p.probability - 1 / (1 + exp(-1))) < 1e-4);
    CHECK(fabs((double)p.log_probability - log((double)p.probability)) < 1e-4);
}

TEST(special_tokens_are_never_chosen)
{
    const struct tr_rules r = new_rules();
    logits[vocabulary.sot] = logits[vocabulary.no_speech] = logits[vocabulary.prev] = logits[vocabulary.no_times] = 50;
    logits[7] = 1;
    CHECK_EQ(best(&r, &in_text).token, 7);
}

TEST(a_window_does_not_begin_with_a_blank_or_its_end)
{
    struct tr_rules r = new_rules();
    logits[vocabulary.blank] = 9;
    logits[vocabulary.eot] = 8;
    logits[5] = 7;
    CHECK_EQ(best(&r, &first).token, 5);
    r.suppress_blank = false;
    CHECK_EQ(best(&r, &first).token, vocabulary.blank);
}

TEST(the_first_time_is_not_late)
{
    struct tr_rules r = new_rules();
    logits[vocabulary.times + 51] = 9;
    logits[vocabulary.times + 50] = 8;
    CHECK_EQ(best(&r, &first).token, vocabulary.times + 50);
    r.latest_first_time = -1;
    CHECK_EQ(best(&r, &first).token, vocabulary.times + 51);
}

TEST(after_one_time_comes_another_or_the_end)
{
    const struct tr_rules r = new_rules();
    logits[5] = 30;
    logits[vocabulary.eot] = 2;
    CHECK_EQ(best(&r, &after_time).token, vocabulary.eot);
    logits[vocabulary.times + 20] = 3;
    CHECK_EQ(best(&r, &after_time).token, vocabulary.times + 20);
}

TEST(after_two_times_comes_text)
{
    const struct tr_rules r = new_rules();
    logits[vocabulary.times + 20] = 30;
    logits[5] = 1;
    CHECK_EQ(best(&r, &after_times).token, 5);
}

TEST(times_do_not_go_back)
{
    const struct tr_rules r = new_rules();
    logits[vocabulary.times + 9] = 30;
    logits[vocabulary.times + 10] = 20;
    const struct tr_pick p = best(&r, &in_text);
    CHECK_EQ(p.token, vocabulary.times + 10);
    CHECK_EQ(p.time, p.token);
}

TEST(many_small_times_count_more_than_one_text)
{
    const struct tr_rules r = new_rules();
    logits[5] = 3;
    for (int i = 10; i < 60; i++)
        logits[vocabulary.times + i] = 1; /* 50 e > e^3 */
    logits[vocabulary.times + 33] = 1.5f;
    const struct tr_pick p = best(&r, &in_text);
    CHECK_EQ(p.token, vocabulary.times + 33);
    CHECK(p.all_times_probability > 0.8f);
    logits[5] = 6; /* e^6 > 50 e */
    CHECK_EQ(best(&r, &in_text).token, 5);
    CHECK_EQ(best(&r, &in_text).time, vocabulary.times + 33);
}

TEST(without_times_there_are_none)
{
    struct tr_rules r = new_rules();
    r.no_times = true;
    logits[vocabulary.times + 20] = 30;
    logits[5] = 1;
    const struct tr_pick p = best(&r, &in_text);
    CHECK_EQ(p.token, 5);
    CHECK(p.all_times_probability == 0);
}

TEST(forbidden_tokens_are_not_chosen)
{
    static uint8_t forbidden[SIZE];
    struct tr_rules r = new_rules();
    forbidden[5] = 1;
    r.forbidden = forbidden;
    logits[5] = 9;
    logits[6] = 1;
    CHECK_EQ(best(&r, &in_text).token, 6);
    for (int i = 0; i < 100; i++)
        CHECK_NE(tr_rules_draw(&r, &in_text, (float[SIZE]){ [5] = 100 }, 1, i / 100.0).token, 5);
}

/* Drawn with evenly spread numbers, a token comes as often as its probability says. */
TEST(tokens_are_drawn_as_often_as_they_are_likely)
{
    const struct tr_rules r = new_rules();
    static float copy[SIZE];
    int drawn[3] = { 0 };
    for (int i = 0; i < 1000; i++) {
        for (int k = 0; k < SIZE; k++)
            copy[k] = -50;
        copy[100] = 0;
        copy[200] = logf(3);
        const int token = tr_rules_draw(&r, &in_text, copy, 1, (i + 0.5) / 1000).token;
        drawn[token == 100 ? 0 : token == 200 ? 1 : 2]++;
    }
    CHECK_EQ(drawn[0], 250);
    CHECK_EQ(drawn[1], 750);
}

/* At twice the temperature, a ratio of 9 becomes one of 3. */
TEST(a_temperature_makes_tokens_more_alike)
{
    const struct tr_rules r = new_rules();
    static float copy[SIZE];
    int second = 0;
    for (int i = 0; i < 100; i++) {
        for (int k = 0; k < SIZE; k++)
            copy[k] = -100;
        copy[100] = 0;
        copy[200] = logf(9);
        second += tr_rules_draw(&r, &in_text, copy, 2, (i + 0.5) / 100).token == 200;
    }
    CHECK_EQ(second, 75);
}

TEST(only_times_are_drawn_where_only_times_are_likely)
{
    const struct tr_rules r = new_rules();
    static float copy[SIZE];
    for (int i = 0; i < 50; i++) {
        for (int k = 0; k < SIZE; k++)
            copy[k] = -50;
        copy[5] = 0;
        copy[vocabulary.times + 20] = copy[vocabulary.times + 21] = 0; /* together more than the text */
        CHECK_GE(tr_rules_draw(&r, &in_text, copy, 1, (i + 0.5) / 50).token, vocabulary.times + 20);
    }
}

TEST(the_probability_of_one_token_is_among_all)
{
    const struct tr_rules r = new_rules();
    for (int i = 0; i < SIZE; i++)
        logits[i] = -100;
    logits[vocabulary.no_speech] = 0;
    logits[5] = logf(3);
    CHECK(fabsf(tr_rules_probability(&r, logits, vocabulary.no_speech) - 0.25f) < 1e-5f);
}

TEST_MAIN()
