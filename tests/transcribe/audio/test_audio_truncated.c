/* SPDX-License-Identifier: MIT
 *
 * Truncated files that are accepted: what there is of them is read, and a warning says what is missing.
 */
#include "transcribe/sounds.h"

static struct tr_audio *accepted(const char *path, unsigned ahead_s)
{
    struct tr_audio *a;
    const struct tr_audio_how how = { .path = path, .ahead_s = ahead_s, .accept_truncated = true };
    if (tr_audio_open_how(&a, &how, message) < 0)
        FAIL("%s", message);
    return a;
}

static long read_rest(struct tr_audio *a)
{
    long n, total = 0;
    while ((n = tr_audio_read(a, samples + total, 7000, message)) > 0)
        total += n;
    if (n < 0)
        FAIL("%s", message);
    return total;
}

/* Cuts a file in two. The good half has the right samples, whether opening reads it all or not. */
static void check_half(const char *path, const char *warning, long least, long most)
{
    cut(path, 0.5);
    refused(path, "truncated");
    for (unsigned ahead = 0; ahead <= 1; ahead++) {
        struct tr_audio *a = accepted(path, ahead);
        const long n = read_rest(a);
        if (n < least || n > most)
            FAIL("%s: %ld samples", path, n);
        check_sine(path, n, 0.1);
        CHECK(tr_audio_warning(a) != NULL);
        CHECK_CONTAINS(tr_audio_warning(a), warning);
        tr_audio_close(&a);
    }
}

TEST(wav)
{
    directory_enter();
    make_wav_file("a.wav", 44100, 2, 441000);
    check_half("a.wav", "a.wav is truncated: its header says 10.0 s, only 5.0 s could be read", 79000, 80001);
}

TEST(flac)
{
    directory_enter();
    CHECK(make("a.flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16000, 1, 160000));
    check_half("a.flac", "a.flac is truncated: its header says 10.0 s, only ", 60000, 100000);
}

TEST(ogg)
{
    directory_enter();
    if (!make("a.ogg", SF_FORMAT_OGG | SF_FORMAT_VORBIS, 44100, 1, 441000))
        SKIP("this libsndfile cannot write this format");
    check_half("a.ogg", "a.ogg is truncated: it has an incomplete page, only ", 40000, 120000);
}

TEST(mp3)
{
    directory_enter();
    if (!make("a.mp3", MP3, 44100, 1, 441000))
        SKIP("this libsndfile cannot write this format");
    check_half("a.mp3", "a.mp3 is truncated: its header says 10.0 s, only ", 70000, 90000);
}

TEST(m4a)
{
    directory_enter();
    encode("-movflags +faststart a.m4a");
    if (!needs_ffmpeg("a.m4a"))
        FAIL("%s", message);
    check_half("a.m4a", "a.m4a is truncated: its header says 4.0 s, only ", 20000, 40000);
}

/* What cannot be read at all is still an error. */
TEST(a_file_without_samples)
{
    directory_enter();
    make_wav_file("a.wav", 44100, 2, 44100);
    CHECK_EQ(truncate("a.wav", 44), 0);
    struct tr_audio *a;
    const struct tr_audio_how how = { .path = "a.wav", .accept_truncated = true };
    CHECK_EQ(tr_audio_open_how(&a, &how, message), TR_UNFIT);
    CHECK_CONTAINS(message, "a.wav is truncated: its header says 1.0 s, the file holds 0.0 s");
    make_file("b.wav", 20);
    CHECK_EQ(tr_audio_open_how(&a, &(struct tr_audio_how){ .path = "b.wav", .accept_truncated = true }, message),
             TR_UNFIT);
    CHECK_CONTAINS(message, "b.wav is not an audio file");
}

TEST(a_complete_file_has_no_warning)
{
    directory_enter();
    make_wav_file("a.wav", 44100, 2, 441000);
    struct tr_audio *a = accepted("a.wav", 1);
    CHECK(labs(read_rest(a) - 160000) <= 1);
    CHECK(tr_audio_warning(a) == NULL);
    tr_audio_close(&a);
}

/* A file that changes is not accepted: it may be complete the next time. */
TEST(a_file_that_becomes_shorter_meanwhile)
{
    directory_enter();
    make_wav_file("a.wav", 16000, 1, 320000);
    struct tr_audio *a = accepted("a.wav", 2);
    cut("a.wav", 0.5);
    long n;
    while ((n = tr_audio_read(a, samples, MOST, message)) > 0)
        ;
    CHECK_EQ(n, TR_UNREAD);
    CHECK_CONTAINS(message, "changed while it was being read");
    tr_audio_close(&a);
}

TEST_MAIN()
