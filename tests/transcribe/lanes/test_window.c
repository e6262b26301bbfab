/* What the tokens of a try mean: whether it goes on, how far it reaches, how good it is. */
#include "apps/transcribe/engine/lanes/tokens/window.h"

#include <math.h>

#include "apps/transcribe/text/compression.h"
#include "support/test.h"

enum { TIMES = 50363, END = 50256 };

static struct tr_vocabulary vocabulary;
static struct tr_rules rules;
static struct tr_window window;
static const struct tr_view middle = { 0, 100000, 220 };

static void begin(void)
{
    tr_vocabulary_begin(&vocabulary, 51864);
    rules = (struct tr_rules){ .vocabulary = &vocabulary, .latest_first_time = -1 };
    tr_window_begin(&window);
}

static bool add(const struct tr_view *view, int token)
{
    return tr_window_add(&window, &rules, view,
                         &(struct tr_pick){ .token = token, .time = token, .log_probability = -0.5f });
}

TEST(a_window_reaches_to_its_last_time)
{
    begin();
    CHECK(add(&middle, TIMES));
    CHECK(add(&middle, 5));
    CHECK(add(&middle, TIMES + 100));
    CHECK(add(&middle, TIMES + 110));
    CHECK(add(&middle, 6));
    CHECK(!add(&middle, END));
    CHECK(window.complete);
    CHECK_EQ(window.frames, 220);
    CHECK_EQ(window.kept, 4);
    tr_window_measure(&window);
    CHECK_EQ(window.n, 4);
    CHECK(fabs(window.score + 0.5) < 1e-6);
}

TEST(a_window_without_times_has_failed)
{
    begin();
    CHECK(add(&middle, TIMES));
    CHECK(add(&middle, 5));
    CHECK(!add(&middle, END));
    CHECK(window.failed);
}

TEST(a_window_without_times_at_the_end_of_the_recording_is_complete)
{
    const struct tr_view end = { 1000, 3900, 220 };
    begin();
    CHECK(add(&end, TIMES));
    CHECK(add(&end, 5));
    CHECK(!add(&end, END));
    CHECK(window.complete);
    CHECK_EQ(window.kept, 3);
}

TEST(the_end_of_the_recording_ends_a_window)
{
    const struct tr_view end = { 1000, 1205, 220 };
    begin();
    CHECK(add(&end, TIMES));
    CHECK(add(&end, 5));
    CHECK(!add(&end, TIMES + 100));
    CHECK(window.complete);
    CHECK_EQ(window.frames, 200);
}

TEST(a_time_that_goes_back_is_a_failure)
{
    begin();
    CHECK(add(&middle, TIMES + 1));
    CHECK(add(&middle, 5));
    CHECK(add(&middle, TIMES + 100));
    CHECK(add(&middle, 6));
    CHECK(!add(&middle, TIMES + 50));
    CHECK(window.failed);
}

TEST(too_many_tokens_are_a_failure_unless_most_of_the_window_is_done)
{
    const struct tr_view few = { 0, 100000, 6 };
    begin();
    CHECK(add(&few, TIMES));
    for (int i = 0; i < 4; i++)
        CHECK(add(&few, 5));
    CHECK(!add(&few, 5));
    CHECK(window.failed);
    begin();
    CHECK(add(&few, TIMES));
    CHECK(add(&few, 5));
    CHECK(add(&few, TIMES + 760));
    CHECK(add(&few, TIMES + 760));
    CHECK(add(&few, 5));
    CHECK(!add(&few, 5));
    CHECK(!window.failed);
    CHECK_EQ(window.kept, 4);
}

TEST(a_text_without_times_takes_the_whole_window)
{
    begin();
    rules.no_times = true;
    CHECK(add(&middle, 5));
    CHECK(add(&middle, 6));
    CHECK(!add(&middle, END));
    CHECK(window.complete);
    CHECK_EQ(window.frames, TR_WINDOW_FRAMES);
    CHECK_EQ(window.kept, 3);
}

TEST(the_turn_says_what_may_follow)
{
    begin();
    CHECK(tr_window_turn(&window, &rules).first);
    CHECK(add(&middle, TIMES));
    struct tr_turn turn = tr_window_turn(&window, &rules);
    CHECK(!turn.first && turn.after_time && turn.after_two_times);
    CHECK_EQ(turn.earliest, 0);
    CHECK(add(&middle, 5));
    CHECK(add(&middle, TIMES + 7));
    turn = tr_window_turn(&window, &rules);
    CHECK(turn.after_time && !turn.after_two_times);
    CHECK_EQ(turn.earliest, 7);
}

TEST(text_that_repeats_has_little_entropy)
{
    begin();
    for (int i = 0; i < 40; i++)
        CHECK(add(&middle, 5 + i % 2));
    CHECK(add(&middle, TIMES + 1000));
    tr_window_measure(&window);
    CHECK(window.entropy < 1);
    begin();
    for (int i = 0; i < 40; i++)
        CHECK(add(&middle, 5 + i));
    CHECK(add(&middle, TIMES + 1000));
    tr_window_measure(&window);
    CHECK(fabs(window.entropy - log(32)) < 1e-9);
}

/* --- texts that repeat themselves --- */

/* The texts of the tokens 0 to 255 are single bytes. */
static void begin_with_bytes(void)
{
    static uint32_t lengths[256];
    static char bytes[256];
    begin();
    for (int i = 0; i < 256; i++) {
        lengths[i] = 1;
        bytes[i] = (char)i;
    }
    CHECK_EQ(tr_vocabulary_set(&vocabulary, 256, lengths, bytes), 0);
}

static void say(const char *text)
{
    for (; *text; text++)
        CHECK(add(&middle, (unsigned char)*text));
}

TEST(a_text_that_compresses_too_well)
{
    if (!tr_compression_possible())
        SKIP("zlib is not installed");
    begin_with_bytes();
    add(&middle, TIMES);
    say(" thank you thank you thank you thank you thank you thank you thank you");
    add(&middle, TIMES + 200);
    CHECK(tr_window_repeats(&window, &rules, 2.4));
    CHECK(!tr_window_repeats(&window, &rules, 100));
    CHECK(!tr_window_repeats(&window, &rules, INFINITY));
    tr_vocabulary_free(&vocabulary);
}

TEST(text_after_the_last_time_counts_and_times_do_not)
{
    if (!tr_compression_possible())
        SKIP("zlib is not installed");
    begin_with_bytes();
    add(&middle, TIMES);
    say(" Hello there.");
    add(&middle, TIMES + 100);
    add(&middle, TIMES + 100);
    CHECK(tr_window_repeats(&window, &rules, 0.59)); /* 12 bytes become 20 */
    CHECK(!tr_window_repeats(&window, &rules, 0.61));
    say(" na na na na na na na na na na na na na na na na na na na na");
    CHECK(tr_window_repeats(&window, &rules, 2));
    tr_vocabulary_free(&vocabulary);
}

TEST(a_window_without_text_does_not_repeat)
{
    begin_with_bytes();
    CHECK(!tr_window_repeats(&window, &rules, 0));
    add(&middle, TIMES);
    add(&middle, TIMES + 100);
    CHECK(!tr_window_repeats(&window, &rules, 0));
    tr_vocabulary_free(&vocabulary);
}

TEST_MAIN()
