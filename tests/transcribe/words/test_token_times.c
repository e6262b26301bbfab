/* The times of tokens: what the model knows, what is divided, and what the loudness changes. */
#include "apps/transcribe/engine/words/token_times.h"
#include "support/test.h"

enum { STEP = 160 }; /* samples of a frame */

static const struct tr_loudness nothing;

static struct tr_spoken_token token(const char *text, int time)
{
    return (struct tr_spoken_token){ .text = text, .size = strlen(text), .time = time, .is_likely = time >= 0 };
}

static void check(const struct tr_spoken_token *t, int start, int end)
{
    CHECK_EQ(t->start, start);
    CHECK_EQ(t->end, end);
}

/* Sound from one frame to another. */
static struct tr_loudness sound(int n, int from, int to)
{
    struct tr_loudness l;
    float *samples = calloc((size_t)n * STEP, sizeof *samples);
    CHECK(samples);
    for (int i = from * STEP; i < to * STEP; i++)
        samples[i] = i % 2 ? 0.5f : -0.5f;
    CHECK_EQ(tr_loudness_make(&l, samples, (size_t)n * STEP), 0);
    free(samples);
    return l;
}

TEST(without_known_times_the_lengths_decide)
{
    struct tr_spoken_token t[] = { token("ab", -1), token("cdef", -1), token(",", -1) };
    tr_token_times(t, 3, 100, 180, &nothing);
    check(&t[0], 100, 120);
    check(&t[1], 120, 160);
    check(&t[2], 160, 180);
}

TEST(known_times_are_used)
{
    struct tr_spoken_token t[] = { token("a", 110), token("a", -1), token("a", 150), token("a", -1) };
    tr_token_times(t, 4, 100, 190, &nothing);
    check(&t[0], 110, 130);
    check(&t[1], 130, 150);
    check(&t[2], 150, 170);
    check(&t[3], 170, 190);
}

TEST(times_that_go_back_or_beyond_the_end_are_not_used)
{
    struct tr_spoken_token t[] = { token("a", -1), token("a", 150), token("a", 120), token("a", 300) };
    tr_token_times(t, 4, 100, 180, &nothing);
    check(&t[0], 100, 150);
    check(&t[1], 150, 160);
    check(&t[2], 160, 170);
    check(&t[3], 170, 180);
}

TEST(unlikely_times_are_not_used)
{
    struct tr_spoken_token t[] = { token("a", -1), token("a", 170) };
    t[1].is_likely = false;
    tr_token_times(t, 2, 100, 180, &nothing);
    check(&t[1], 140, 180);
}

TEST(no_tokens_and_no_time)
{
    struct tr_spoken_token t[] = { token("a", -1), token("", -1), token("b", -1) };
    tr_token_times(t, 0, 100, 180, &nothing);
    tr_token_times(t, 3, 180, 100, &nothing); /* the end before the start */
    for (int i = 0; i < 3; i++)
        check(&t[i], 180, 180);
    struct tr_spoken_token empty[] = { token("", -1), token("", -1) };
    tr_token_times(empty, 2, 5, 9, &nothing);
    check(&empty[0], 5, 5);
    check(&empty[1], 5, 9);
}

/* A word in silence: the token has the time of its sound. */
TEST(a_token_shrinks_to_its_sound)
{
    struct tr_loudness l = sound(300, 120, 140);
    struct tr_spoken_token t[] = { token("word", -1) };
    tr_token_times(t, 1, 100, 180, &l);
    CHECK_EQ(t[0].start, 120);
    CHECK_LE(t[0].end, 140);
    CHECK_GE(t[0].end, 139);
    tr_loudness_free(&l);
}

/* The second token begins in the middle of its sound, which the first one does not have. */
TEST(a_token_grows_to_the_beginning_of_its_sound)
{
    struct tr_loudness l = sound(300, 130, 170);
    struct tr_spoken_token t[] = { token("a", -1), token("b", 150) };
    tr_token_times(t, 2, 60, 200, &l);
    CHECK_LE(t[0].end, t[1].start);
    CHECK_LE(t[1].start, 150);
    CHECK_GE(t[1].end, 168);
    CHECK_LE(t[1].end, 171);
    tr_loudness_free(&l);
}

/* Whatever the sound is, tokens stay in order and inside of their phrase. */
TEST(tokens_stay_in_order)
{
    unsigned random = 1;
    for (int round = 0; round < 2000; round++) {
        struct tr_spoken_token t[8];
        char texts[8][4];
        const int n = 1 + round % 8, start = round % 50, end = start + round % 90;
        float frames[128];
        struct tr_loudness l = { frames, (size_t)(round % 3 ? 128 : 20) };
        for (int i = 0; i < 128; i++) {
            random = random * 1664525 + 1013904223;
            frames[i] = (random >> 28) % 4 ? 0 : (float)(random >> 16 & 255);
        }
        for (int i = 0; i < n; i++) {
            random = random * 1664525 + 1013904223;
            snprintf(texts[i], sizeof texts[i], "%.*s", (int)(random >> 29), " ab");
            t[i] = token(texts[i], (int)(random >> 20 & 127) - 20);
        }
        tr_token_times(t, (size_t)n, start, end, &l);
        int last = start;
        for (int i = 0; i < n; i++) {
            CHECK_GE(t[i].start, last);
            CHECK_GE(t[i].end, t[i].start);
            last = t[i].end;
        }
        CHECK_LE(last, end);
    }
}

TEST(loudness_has_a_value_for_each_whole_frame)
{
    struct tr_loudness l;
    float samples[2 * STEP + 5];
    for (int i = 0; i < 2 * STEP + 5; i++)
        samples[i] = i < STEP ? -1 : 0.25f;
    CHECK_EQ(tr_loudness_make(&l, samples, 2 * STEP + 5), 0);
    CHECK_EQ(l.n, 2);
    CHECK(l.frames[0] == 1);
    CHECK(l.frames[1] == 0.25f);
    tr_loudness_free(&l);
    CHECK_EQ(tr_loudness_make(&l, samples, 5), 0);
    CHECK_EQ(l.n, 0);
    tr_loudness_free(&l);
}

TEST_MAIN()
