/* A recording window by window, with a made-up model: it says what a script has for each window and try. What is fed is
 * recorded. */
#include "apps/transcribe/engine/lanes/lane.h"

#include <math.h>
#include <stdlib.h>

#include "apps/transcribe/text/compression.h"
#include "support/test.h"

enum { ENGLISH = 51864, MANY = 51865, TRIES = 32 };

static struct tr_vocabulary vocabulary;
static struct tr_decoding how;

/* What the model says in each try, as tokens that end with 0; after that, the end of the text. */
struct saying {
    int tokens[300];
    float doubt;     /* the logit of all other tokens; the chosen one has 10 */
    float no_speech; /* the logit of no_speech at the start */
};

static struct {
    struct saying says[TRIES];
    int n, at; /* tries; the current one */
    int fed[TRIES][512], n_fed[TRIES];
    float heats[TRIES];
    int windows[TRIES], n_windows;
    int language; /* the one that the model hears */
} model;

static int T(int time)
{
    return vocabulary.times + time;
}

static void begin(int size)
{
    static uint32_t lengths[200];
    static char letters[200];
    memset(&model, 0, sizeof model);
    tr_vocabulary_free(&vocabulary);
    tr_vocabulary_begin(&vocabulary, size);
    for (int i = 0; i < 200; i++) {
        lengths[i] = 1;
        letters[i] = 'a';
    }
    CHECK_EQ(tr_vocabulary_set(&vocabulary, 200, lengths, letters), 0);
    how = (struct tr_decoding){ .rules = { &vocabulary, false, false, -1, NULL },
                                .text_positions = 448,
                                .use_context = true,
                                .increment = 0.2f,
                                .best_of = 1,
                                .least_entropy = 2.4f,
                                .least_score = -1,
                                .most_ratio = INFINITY,
                                .length_penalty = -1,
                                .silence = 0.6f };
}

static struct tr_lane *new_lane(int frames, const int *prompt, size_t n_prompt)
{
    struct tr_spectrum s = { .mels = 2, .frames = frames, .stored = frames, .last = frames + 3000 };
    s.values = calloc(2 * (size_t)frames, sizeof *s.values);
    struct tr_lane *l = tr_lane_new(&how, &s, TR_NO_LANGUAGE, prompt, n_prompt);
    CHECK(l != NULL);
    return l;
}

#define SAYS(...) (model.says[model.n++] = (struct saying){ .tokens = { __VA_ARGS__ }, .doubt = -20, .no_speech = -20 })

/* Answers one token that was fed. */
static void answer(const struct tr_lane *l, float *all)
{
    const struct saying *s = &model.says[model.at];
    const int written = l->position - (l->n_fed - 1);
    for (int i = 0; i < vocabulary.size; i++)
        all[i] = s->doubt;
    if (vocabulary.multilingual)
        all[vocabulary.sot + 1 + model.language] = 5;
    all[vocabulary.no_speech] = s->no_speech;
    all[written >= 0 && s->tokens[written] ? s->tokens[written] : vocabulary.eot] = 10;
}

static void run(struct tr_lane *l)
{
    static float all[MANY];
    enum tr_next next;
    for (bool more = tr_lane_begin(l); more; more = next == TR_NEXT_WINDOW) {
        model.windows[model.n_windows++] = l->at;
        int position = -1;
        do {
            const int at = model.at;
            CHECK_LT(at, TRIES);
            if (l->position <= position && l->position < l->n_fed && model.n_fed[at] > 0)
                CHECK_LE(l->position, model.n_fed[at]);
            position = l->position;
            model.fed[at][position] = tr_lane_token(l);
            model.n_fed[at] = position + 1 > model.n_fed[at] ? position + 1 : model.n_fed[at];
            model.heats[at] = l->heat;
            const int tries = l->tries, drawn = l->drawn, window = l->at, heard = l->language;
            answer(l, all);
            const bool choosing = l->position >= l->n_fed - 1;
            next = tr_lane_wants_none(l) ? tr_lane_hear(l, NULL, NULL) : tr_lane_hear(l, NULL, all);
            if (choosing && heard == l->language &&
                (l->tries != tries || l->drawn != drawn || l->at != window || next == TR_NEXT_NONE))
                model.at++;
        } while (next == TR_NEXT_TOKEN);
    }
}

static void check_fed(int try, const int *tokens, int n)
{
    for (int i = 0; i < n; i++) {
        if (model.fed[try][i] != tokens[i])
            FAIL("try %d, position %d: %d, not %d", try, i, model.fed[try][i], tokens[i]);
    }
}

TEST(a_short_recording_is_one_window)
{
    begin(ENGLISH);
    SAYS(T(0), 5, 6, T(100), T(100));
    struct tr_lane *l = new_lane(209, NULL, 0);
    run(l);
    CHECK_EQ(model.n_windows, 1);
    CHECK_EQ(l->n_phrases, 1);
    CHECK_EQ(l->phrases[0].start, 0);
    CHECK_EQ(l->phrases[0].end, 200);
    CHECK_EQ(l->phrases[0].n, 4);
    tr_lane_free(l);
}

TEST(less_than_a_tenth_of_a_second_is_not_decoded)
{
    begin(ENGLISH);
    struct tr_lane *l = new_lane(9, NULL, 0);
    CHECK(!tr_lane_begin(l));
    tr_lane_free(l);
    l = new_lane(10, NULL, 0);
    CHECK(!tr_lane_begin(l));
    tr_lane_free(l);
    l = new_lane(11, NULL, 0);
    CHECK(tr_lane_begin(l));
    tr_lane_free(l);
}

/* The next window begins at the last time, and has the text before as context. */
TEST(windows_follow_the_times_and_carry_context)
{
    begin(ENGLISH);
    SAYS(T(0), 5, T(500), T(600), 6, T(1000), T(1000));
    SAYS(T(0), 7, T(800), T(800));
    struct tr_lane *l = new_lane(3609, NULL, 0);
    run(l);
    CHECK_EQ(model.n_windows, 2);
    CHECK_EQ(model.windows[1], 2000);
    CHECK_EQ(l->n_phrases, 3);
    CHECK_EQ(l->phrases[1].start, 1200);
    CHECK_EQ(l->phrases[1].end, 2000);
    CHECK_EQ(l->phrases[2].start, 2000);
    check_fed(0, (const int[]){ vocabulary.sot }, 1);
    const int second[] = { vocabulary.prev, T(0), 5, T(500), T(600), 6, T(1000), T(1000), vocabulary.sot };
    check_fed(1, second, 9);
    tr_lane_free(l);
}

TEST(without_context_each_window_stands_alone)
{
    begin(ENGLISH);
    how.use_context = false;
    SAYS(T(0), 5, T(1000), T(1000));
    SAYS(T(0), 7, T(800), T(800));
    struct tr_lane *l = new_lane(3700, (const int[]){ 9 }, 1);
    run(l);
    check_fed(0, (const int[]){ vocabulary.prev, 9, vocabulary.sot }, 3);
    check_fed(1, (const int[]){ vocabulary.sot }, 1);
    tr_lane_free(l);
}

/* Hotwords, or a prompt that is carried. The prompt for the first window is the text before it. */
TEST(fixed_tokens_are_before_all_windows)
{
    static const int fixed[] = { 9 };
    begin(ENGLISH);
    how.fixed = fixed;
    how.n_fixed = 1;
    SAYS(T(0), 5, T(1000), T(1000));
    SAYS(T(0), 7, T(500), T(500));
    SAYS(T(0), 8, T(800), T(800));
    struct tr_lane *l = new_lane(4700, (const int[]){ 11 }, 1);
    run(l);
    check_fed(0, (const int[]){ vocabulary.prev, 9, 11, vocabulary.sot }, 4);
    check_fed(1, (const int[]){ vocabulary.prev, 9, T(0), 5, T(1000), T(1000), vocabulary.sot }, 7);
    check_fed(2, (const int[]){ vocabulary.prev, 9, T(0), 7, T(500), T(500), vocabulary.sot }, 7);
    tr_lane_free(l);
}

TEST(without_context_fixed_tokens_stay)
{
    static const int fixed[] = { 9 };
    begin(ENGLISH);
    how.fixed = fixed;
    how.n_fixed = 1;
    how.use_context = false;
    SAYS(T(0), 5, T(1000), T(1000));
    SAYS(T(0), 7, T(800), T(800));
    struct tr_lane *l = new_lane(3700, NULL, 0);
    run(l);
    check_fed(1, (const int[]){ vocabulary.prev, 9, vocabulary.sot }, 3);
    tr_lane_free(l);
}

TEST(the_last_five_seconds_have_no_context)
{
    begin(ENGLISH);
    SAYS(T(0), 5, T(1000), T(1000));
    SAYS(T(0), 7, T(200), T(200));
    struct tr_lane *l = new_lane(2410, NULL, 0);
    run(l);
    check_fed(1, (const int[]){ vocabulary.sot }, 1);
    tr_lane_free(l);
}

/* A single time at the end means that nothing more is said in the window. */
TEST(a_single_time_at_the_end_takes_the_whole_window)
{
    begin(ENGLISH);
    SAYS(T(0), 5, T(100));
    SAYS(T(0), 6, T(100), T(100));
    struct tr_lane *l = new_lane(3500, NULL, 0);
    run(l);
    CHECK_EQ(model.windows[1], 3000);
    tr_lane_free(l);
}

/* An uncertain text is tried again at 0.2, 0.4, ... From 0.5 on, there is no context. */
TEST(a_bad_text_is_tried_again_at_higher_temperatures)
{
    begin(ENGLISH);
    how.least_score = -0.001f;
    static const float doubts[] = { -4, 7, 4, -20 }; /* heat makes a text more certain, since it is below 1 */
    for (int i = 0; i < 4; i++) {
        SAYS(T(0), 5, T(1000), T(1000));
        model.says[i].doubt = doubts[i];
    }
    struct tr_lane *l = new_lane(2009, (const int[]){ 9 }, 1);
    run(l);
    CHECK_EQ(model.at, 4);
    CHECK(fabsf(model.heats[1] - 0.2f) < 1e-6f && fabsf(model.heats[3] - 0.6f) < 1e-6f);
    check_fed(0, (const int[]){ vocabulary.prev, 9, vocabulary.sot }, 3);
    check_fed(3, (const int[]){ vocabulary.sot }, 1);
    CHECK_EQ(l->n_phrases, 1);
    CHECK(fabsf(l->phrases[0].temperature - 0.6f) < 1e-6f);
    tr_lane_free(l);
}

TEST(without_an_increment_there_is_one_try)
{
    begin(ENGLISH);
    how.increment = 0;
    how.least_score = -0.001f;
    SAYS(T(0), 5, T(1000), T(1000));
    model.says[0].doubt = -4;
    struct tr_lane *l = new_lane(2009, NULL, 0);
    run(l);
    CHECK_EQ(model.at, 1);
    CHECK_EQ(l->n_phrases, 1);
    tr_lane_free(l);
}

TEST(text_that_repeats_is_tried_again)
{
    begin(ENGLISH);
    SAYS(T(0));
    for (int i = 1; i < 60; i++)
        model.says[0].tokens[i] = 5;
    model.says[0].tokens[60] = model.says[0].tokens[61] = T(1000);
    SAYS(T(0), 6, T(1000), T(1000));
    struct tr_lane *l = new_lane(2009, NULL, 0);
    run(l);
    CHECK_EQ(model.at, 2);
    CHECK_EQ(l->phrases[0].n, 3);
    tr_lane_free(l);
}

/* All tokens of this vocabulary are the letter "a", so different tokens make a text that compresses well. */
TEST(text_that_compresses_too_well_is_tried_again)
{
    begin(ENGLISH);
    if (!tr_compression_possible())
        SKIP("zlib is not installed");
    how.most_ratio = 2.4f;
    SAYS(T(0));
    for (int i = 1; i < 60; i++)
        model.says[0].tokens[i] = i + 1;
    model.says[0].tokens[60] = model.says[0].tokens[61] = T(1000);
    SAYS(T(0), 6, T(1000), T(1000));
    struct tr_lane *l = new_lane(2009, NULL, 0);
    run(l);
    CHECK_EQ(model.at, 2);
    CHECK_EQ(l->phrases[0].n, 3);
    tr_lane_free(l);
    how.most_ratio = INFINITY;
    model.at = model.n_windows = 0;
    l = new_lane(2009, NULL, 0);
    run(l);
    CHECK_EQ(model.at, 1);
    tr_lane_free(l);
}

/* The long text is better on average, the short one as a whole. */
TEST(a_length_penalty_prefers_short_texts)
{
    for (int penalty = -1; penalty <= 0; penalty++) {
        begin(ENGLISH);
        how.temperature = 1;
        how.best_of = 2;
        how.length_penalty = (float)penalty;
        SAYS(T(0), 5, 6, 7, 8, T(1000), T(1000));
        SAYS(T(0), 9, T(1000), T(1000));
        model.says[0].doubt = -3.5f;
        model.says[1].doubt = -3;
        struct tr_lane *l = new_lane(2009, NULL, 0);
        run(l);
        CHECK_EQ(model.at, 2);
        CHECK_EQ(l->picks[1].token, penalty < 0 ? 5 : 9);
        tr_lane_free(l);
    }
}

/* Of several texts that are drawn, the most likely one is taken. */
TEST(the_best_of_several_texts_is_taken)
{
    begin(ENGLISH);
    how.temperature = 1;
    how.best_of = 3;
    SAYS(T(0), 5, T(1000), T(1000));
    SAYS(T(0), 6, T(1000), T(1000));
    SAYS(T(0), 7, T(1000), T(1000));
    model.says[0].doubt = -2;
    model.says[1].doubt = -30;
    model.says[2].doubt = -3;
    struct tr_lane *l = new_lane(2009, NULL, 0);
    run(l);
    CHECK_EQ(model.at, 3);
    CHECK_EQ(l->n_phrases, 1);
    CHECK_EQ(l->picks[1].token, 6);
    tr_lane_free(l);
}

TEST(a_silent_window_with_a_bad_text_is_dropped)
{
    begin(ENGLISH);
    how.least_score = -0.001f;
    SAYS(T(0), 5, T(1000), T(1000));
    model.says[0].doubt = -4;
    model.says[0].no_speech = 20;
    struct tr_lane *l = new_lane(2009, NULL, 0);
    run(l);
    CHECK_EQ(model.at, 1);
    CHECK_EQ(l->n_phrases, 0);
    tr_lane_free(l);
}

TEST(a_language_is_detected_first)
{
    begin(MANY);
    model.language = 3;
    SAYS(T(0), 5, T(1000), T(1000));
    struct tr_lane *l = new_lane(2009, NULL, 0);
    run(l);
    CHECK_EQ(l->language, 3);
    CHECK(l->language_probability > 0.9f);
    check_fed(0, (const int[]){ vocabulary.sot, vocabulary.sot + 4, vocabulary.transcribe }, 3);
    CHECK_EQ(l->n_phrases, 1);
    tr_lane_free(l);
}

TEST(a_long_prompt_is_cut_at_its_beginning)
{
    begin(ENGLISH);
    static int prompt[1000];
    for (int i = 0; i < 1000; i++)
        prompt[i] = i % 200;
    SAYS(T(0), 5, T(1000), T(1000));
    struct tr_lane *l = new_lane(2009, prompt, 1000);
    run(l);
    CHECK_EQ(model.fed[0][0], vocabulary.prev);
    CHECK_EQ(model.fed[0][1], prompt[1000 - 223]);
    CHECK_EQ(model.fed[0][224], vocabulary.sot);
    tr_lane_free(l);
}

TEST_MAIN()
