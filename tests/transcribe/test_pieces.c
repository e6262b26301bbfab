/* Files that are transcribed in pieces: which segments of a piece are kept. A made-up engine returns numbers as words.
 * Each word of a long file must come once, at its time. */
#include "apps/transcribe/engine/pieces.h"

#include "base/failure.h"
#include "support/test.h"

/* --- the cut ------------------------------------------------------------------ */

#define CUT(length, ...)                                   \
    tr_pieces_cut((const struct tr_span[]){ __VA_ARGS__ }, \
                  sizeof((const struct tr_span[]){ __VA_ARGS__ }) / sizeof(struct tr_span), length)

static void check_cut(struct tr_cut cut, size_t kept, double at)
{
    CHECK_EQ(cut.kept, kept);
    if (cut.at != at)
        FAIL("cut at %g, not at %g", cut.at, at);
}

TEST(segments_that_end_in_the_last_half_minute_are_dropped)
{
    check_cut(CUT(100, { 0, 20 }, { 20, 45 }, { 50, 69 }, { 69, 72 }, { 75, 100 }), 3, 69);
}

TEST(segments_that_end_at_the_limit_are_kept)
{
    check_cut(CUT(100, { 40, 70 }, { 70, 70.1 }), 1, 70);
}

TEST(silence_is_not_transcribed_again)
{
    check_cut(CUT(600, { 10, 20 }), 1, 540);
    check_cut(tr_pieces_cut(NULL, 0, 600), 0, 540);
}

TEST(dropped_segments_are_transcribed_again_from_their_beginning)
{
    check_cut(CUT(600, { 10, 20 }, { 500, 575 }), 1, 500);
    check_cut(CUT(600, { 10, 20 }, { 560, 575 }), 1, 540);
}

TEST(a_segment_that_leaves_no_room_to_go_on_is_kept)
{
    check_cut(CUT(600, { 10, 590 }), 1, 600);
    check_cut(CUT(600, { 0, 3 }, { 3, 590 }, { 590, 600 }), 3, 600);
}

/* --- an engine that returns numbers as words --------------------------------------- */

/* Each sample of the made-up file is the number of its second. There is a word at every full second: the number of that
 * second. The last seconds of a piece give wrong words, as with the real engine. */
struct tr_audio {
    size_t total, given, bad_at;
    int code; /* the error of a bad file; 0: TR_UNFIT */
    size_t most_asked;
};

struct tr_engine {
    struct tr_span spans[1000];
    long said[1000];
    size_t n;
    double longest;
    unsigned pieces;
    enum tr_outcome outcome;
    bool stopped;
    void (*reached)(void *user, double seconds);
    void *watcher;
    size_t file; /* the seconds of the file */
};

long tr_audio_read(struct tr_audio *a, float *samples, size_t max, char message[TR_MESSAGE_MAX])
{
    size_t n = a->total - a->given < max ? a->total - a->given : max;
    if (a->bad_at && a->given == a->bad_at) {
        snprintf(message, TR_MESSAGE_MAX, "it ends too early");
        return a->code ? a->code : TR_UNFIT;
    }
    if (a->bad_at && a->given + n > a->bad_at)
        n = a->bad_at - a->given; /* the samples before are good */
    for (size_t i = 0; i < n; i++) {
        const size_t second = (a->given + i) / TR_RATE;
        samples[i] = (float)second;
    }
    a->given += n;
    a->most_asked = max > a->most_asked ? max : a->most_asked;
    return (long)n;
}

enum tr_outcome tr_engine_hear(struct tr_engine *e, const float *samples, size_t n)
{
    const double length = (double)n / TR_RATE;
    e->pieces++;
    e->reached(e->watcher, length / 2);
    e->longest = length > e->longest ? length : e->longest;
    e->n = 0;
    /* Adds a word where a second begins. */
    for (size_t i = 1; i < n && e->n < 1000; i++) {
        if (samples[i] > samples[i - 1]) {
            const double at = (double)i / TR_RATE, end = at + 0.5 < length ? at + 0.5 : length;
            const bool wrong = at > length - 25 && (size_t)samples[n - 1] + 1 < e->file;
            e->spans[e->n] = (struct tr_span){ at, end };
            e->said[e->n++] = wrong ? -1 : (long)samples[i];
        }
    }
    return e->outcome;
}

size_t tr_engine_spans(const struct tr_engine *e, const struct tr_span **out)
{
    *out = e->spans;
    return e->n;
}

int tr_engine_add(struct tr_engine *e, size_t i, double offset, struct tr_transcript *t)
{
    char word[32];
    const struct tr_segment_facts s = tr_segment_facts(offset + e->spans[i].start, offset + e->spans[i].end);
    const int n = snprintf(word, sizeof word, " %ld", e->said[i]);
    return tr_transcript_add(t, &s, word, (size_t)n);
}

void tr_engine_watch(struct tr_engine *e, void (*reached)(void *user, double seconds), void *user)
{
    e->reached = reached;
    e->watcher = user;
}

bool tr_engine_stopped(const struct tr_engine *e)
{
    return e->stopped;
}

static const char *clips;
static double reached[64]; /* the times that were reported */
static size_t n_reached;

static void note_reached(void *user, double seconds)
{
    (void)user;
    CHECK_LT(n_reached, 64);
    reached[n_reached++] = seconds;
}

static size_t last_end; /* the end of the last clip, in seconds; 0: no clips */

static enum tr_outcome hear(struct tr_audio *a, struct tr_engine *e, struct tr_transcript *t, unsigned piece)
{
    struct tr_pieces p = { 0 };
    char message[TR_MESSAGE_MAX] = "";
    e->file = last_end > 0 ? last_end : a->total / TR_RATE;
    CHECK_EQ(tr_pieces_open(&p, piece, clips), 0);
    p.reached = note_reached;
    n_reached = 0;
    const enum tr_outcome outcome = tr_pieces_hear(&p, e, a, t, message);
    if (outcome == TR_BAD_FILE)
        CHECK_STR(message, "it ends too early");
    tr_pieces_close(&p);
    return outcome;
}

/* Checks that every second from 1 on comes once, and at its time. */
static void check_words(const struct tr_transcript *t, size_t seconds)
{
    CHECK_EQ(t->n_segments, seconds - 1);
    for (size_t i = 0; i < t->n_segments; i++) {
        char word[32];
        snprintf(word, sizeof word, " %zu", i + 1);
        CHECK_EQ(t->segments[i].size, strlen(word));
        CHECK_MEM(t->text.data + t->segments[i].text, word, strlen(word));
        CHECK(t->segments[i].start > (double)i + 0.9999 && t->segments[i].start < (double)i + 1.0001);
    }
}

static void check_file(size_t samples, unsigned piece, unsigned pieces)
{
    static struct tr_engine e;
    struct tr_audio a = { .total = samples };
    struct tr_transcript t = { 0 };
    memset(&e, 0, sizeof e);
    CHECK_EQ(hear(&a, &e, &t, piece), TR_HEARD);
    check_words(&t, (samples + TR_RATE - 1) / TR_RATE);
    CHECK_EQ(e.pieces, pieces);
    CHECK(e.longest <= piece);
    CHECK(t.duration > (double)samples / TR_RATE - 1e-6 && t.duration < (double)samples / TR_RATE + 1e-6);
    CHECK_LE(a.most_asked, (size_t)piece * TR_RATE + 1);
    tr_transcript_free(&t);
}

TEST(a_file_of_one_piece)
{
    check_file((size_t)80 * TR_RATE, 90, 1);
}

TEST(a_file_as_long_as_a_piece)
{
    check_file((size_t)90 * TR_RATE, 90, 1);
}

TEST(a_file_one_sample_longer_than_a_piece)
{
    check_file((size_t)90 * TR_RATE + 1, 90, 2);
}

TEST(a_file_of_many_pieces)
{
    check_file((size_t)500 * TR_RATE, 90, 8);
    check_file((size_t)1000 * TR_RATE + 77, 300, 4);
}

/* The engine reports the middle of each piece. */
TEST(progress_is_in_times_of_the_file)
{
    check_file((size_t)300 * TR_RATE, 300, 1);
    CHECK_EQ(n_reached, 1);
    CHECK(reached[0] == 150);
    check_file((size_t)400 * TR_RATE, 300, 2);
    CHECK_EQ(n_reached, 2);
    CHECK(reached[0] == 150);
    CHECK(reached[1] > 269 && reached[1] < 400);
}

TEST(a_file_without_samples)
{
    struct tr_engine e = { .n = 0 };
    struct tr_audio a = { .total = 0 };
    struct tr_transcript t = { 0 };
    CHECK_EQ(hear(&a, &e, &t, 90), TR_HEARD);
    CHECK_EQ(t.n_segments, 0);
    CHECK(t.duration == 0);
}

TEST(a_file_that_is_bad_further_on)
{
    struct tr_engine e = { .n = 0 };
    struct tr_audio a = { .total = (size_t)300 * TR_RATE, .bad_at = (size_t)200 * TR_RATE };
    struct tr_transcript t = { 0 };
    CHECK_EQ(hear(&a, &e, &t, 90), TR_BAD_FILE);
    tr_transcript_free(&t);
}

TEST(a_file_that_cannot_be_read_further_on)
{
    struct tr_engine e = { .n = 0 };
    struct tr_audio a = { .total = (size_t)300 * TR_RATE, .bad_at = (size_t)200 * TR_RATE, .code = TR_UNREAD };
    struct tr_transcript t = { 0 };
    CHECK_EQ(hear(&a, &e, &t, 90), TR_FILE_AWAY);
    tr_transcript_free(&t);
}

TEST(an_engine_that_stops)
{
    struct tr_engine e = { .outcome = TR_CANCELLED };
    struct tr_audio a = { .total = (size_t)300 * TR_RATE };
    struct tr_transcript t = { 0 };
    CHECK_EQ(hear(&a, &e, &t, 90), TR_CANCELLED);
    CHECK_EQ(e.pieces, 1);
    CHECK_EQ(t.n_segments, 0);
}

/* --- clips ------------------------------------------------------------------- */

/* The words of a file of 500 s, as text. */
static char *words_of(const char *parts, size_t end, unsigned *pieces)
{
    static struct tr_engine e;
    static char words[20000];
    struct tr_audio a = { .total = (size_t)500 * TR_RATE };
    struct tr_transcript t = { 0 };
    memset(&e, 0, sizeof e);
    clips = parts;
    last_end = end;
    CHECK_EQ(hear(&a, &e, &t, 90), TR_HEARD);
    CHECK(t.duration == 500);
    CHECK_EQ(a.given, a.total);
    snprintf(words, sizeof words, "%.*s", (int)t.text.size, t.text.size > 0 ? t.text.data : "");
    for (size_t i = 0; i < t.n_segments; i++) {
        const double said = atof(words + t.segments[i].text); /* the text itself has no NUL at its end */
        CHECK(t.segments[i].start > said - 0.001 && t.segments[i].start < said + 0.001);
    }
    *pieces = e.pieces;
    tr_transcript_free(&t);
    return words;
}

/* The made-up engine needs the sample before a second, so a part's first second is not said. */
TEST(only_the_clips_are_transcribed)
{
    unsigned pieces;
    CHECK_STR(words_of("10,13,13,15.5,400,402", 1, &pieces), " 11 12 14 15 401");
    CHECK_EQ(pieces, 3);
    CHECK_STR(words_of("0,3", 1, &pieces), " 1 2");
    CHECK_STR(words_of("497.5", 500, &pieces), " 498 499");
    CHECK_STR(words_of("700,800", 1, &pieces), "");
    CHECK_STR(words_of("498,800", 500, &pieces), " 499");
}

TEST(a_clip_that_is_longer_than_a_piece)
{
    unsigned pieces;
    char want[2000] = "";
    for (int i = 101; i < 300; i++)
        snprintf(want + strlen(want), sizeof want - strlen(want), " %d", i);
    CHECK_STR(words_of("100,300", 300, &pieces), want);
    CHECK_GT(pieces, 1);
}

TEST(a_file_with_clips_that_is_bad_further_on)
{
    struct tr_engine e = { .n = 0 };
    struct tr_audio a = { .total = (size_t)300 * TR_RATE, .bad_at = (size_t)200 * TR_RATE };
    struct tr_transcript t = { 0 };
    clips = "10,20";
    CHECK_EQ(hear(&a, &e, &t, 90), TR_BAD_FILE);
    tr_transcript_free(&t);
}

TEST(skipping_can_be_cancelled)
{
    struct tr_engine e = { .stopped = true };
    struct tr_audio a = { .total = (size_t)300 * TR_RATE };
    struct tr_transcript t = { 0 };
    clips = "200,210";
    CHECK_EQ(hear(&a, &e, &t, 90), TR_CANCELLED);
    CHECK_EQ(e.pieces, 0);
}

TEST(lengths_that_are_refused)
{
    struct tr_pieces p = { 0 };
    CHECK_EQ(tr_pieces_open(&p, 89, NULL), -1);
    CHECK_EQ(tr_pieces_open(&p, 86401, NULL), -1);
    CHECK_CONTAINS(gd__fail_text(), "86401");
    CHECK_EQ(tr_pieces_open(&p, 0, NULL), 0);
    CHECK_EQ(p.most, (size_t)TR_AHEAD * TR_RATE);
    tr_pieces_close(&p);
}

TEST_MAIN()
