/* SPDX-License-Identifier: MIT
 *
 * Sounds that libsndfile writes and audio.c reads. The tolerances are:
 *
 *   length      one sample at 16 kHz for formats that store it (WAV, FLAC, Ogg, MP3 with a table), otherwise a frame of
 *               the encoder
 *   frequency   0.2 %, from the number of zero crossings
 *   loudness    1 %; 10 % for lossy formats
 */
#ifndef GD_TESTS_TRANSCRIBE_SOUNDS_H
#define GD_TESTS_TRANSCRIBE_SOUNDS_H

#include <math.h>
#include <sndfile.h>

#include "apps/transcribe/audio/audio.h"
#include "transcribe/headers.h"

enum {
    MOST = 16000 * 40,
    MP3 = 0x230082 /* libsndfile supports it since 1.1; older headers do not have the name */
};

TEST_UNUSED static char message[TR_MESSAGE_MAX];
TEST_UNUSED static float samples[MOST + 1];

/* --- making ------------------------------------------------------------------- */

TEST_UNUSED static float sine(double hz, int rate, long i)
{
    return (float)(0.5 * sin(2 * M_PI * hz * (double)i / rate));
}

/* A sine of 440 Hz in every channel. False if this libsndfile can't write it. */
TEST_UNUSED static bool make(const char *path, int format, int rate, int channels, long frames)
{
    SF_INFO info = { .samplerate = rate, .channels = channels, .format = format };
    if (!sf_format_check(&info))
        return false;
    SNDFILE *f = sf_open(path, SFM_WRITE, &info);
    if (!f)
        return false;
    float *frame = calloc(1024 * (size_t)channels, sizeof *frame);
    CHECK(frame != NULL);
    for (long at = 0; at < frames; at += 1024) {
        const long n = frames - at < 1024 ? frames - at : 1024;
        for (long i = 0; i < n * channels; i++)
            frame[i] = sine(440, rate, at + i / channels);
        CHECK_EQ(sf_writef_float(f, frame, n), n);
    }
    free(frame);
    CHECK_EQ(sf_close(f), 0);
    return true;
}

TEST_UNUSED static void make_wav_file(const char *path, int rate, int channels, long frames)
{
    CHECK(make(path, SF_FORMAT_WAV | SF_FORMAT_PCM_16, rate, channels, frames));
}

TEST_UNUSED static struct tr_audio *opened(const char *path)
{
    struct tr_audio *a;
    if (tr_audio_open(&a, path, message) < 0)
        FAIL("%s", message);
    CHECK(a != NULL);
    return a;
}

/* Decodes only so many seconds ahead. */
TEST_UNUSED static int open_ahead(struct tr_audio **out, const char *path, unsigned ahead_s)
{
    return tr_audio_open_how(out, &(struct tr_audio_how){ .path = path, .ahead_s = ahead_s }, message);
}

TEST_UNUSED static long read_all(const char *path)
{
    struct tr_audio *a = opened(path);
    long n, total = 0;
    while ((n = tr_audio_read(a, samples + total, (size_t)(MOST - total), message)) > 0)
        total += n;
    if (n < 0)
        FAIL("%s", message);
    CHECK_EQ(tr_audio_read(a, samples, 1, message), 0);
    tr_audio_close(&a);
    CHECK(a == NULL);
    return total;
}

TEST_UNUSED static void refused(const char *path, const char *part)
{
    struct tr_audio *a = (struct tr_audio *)&a;
    const int rc = tr_audio_open(&a, path, message);
    if (rc == 0)
        FAIL("%s was opened", path);
    CHECK_EQ(rc, TR_UNFIT); /* a permanent error */
    CHECK(a == NULL);
    CHECK_CONTAINS(message, part);
}

/* Checks that the middle of the samples is a sine of 440 Hz with the amplitude 0.5. */
TEST_UNUSED static void check_sine(const char *what, long n, double loudness)
{
    const long from = n / 10, to = n - n / 10;
    double square = 0;
    long crossings = 0, first = 0, last = 0;
    for (long i = from; i < to; i++) {
        square += (double)samples[i] * samples[i];
        if (samples[i - 1] < 0 && samples[i] >= 0) {
            first = first ? first : i;
            last = i;
            crossings++;
        }
    }
    const double rms = sqrt(square / (double)(to - from)), wanted = 0.5 / sqrt(2);
    const double hz = (double)(crossings - 1) * TR_RATE / (double)(last - first);
    if (fabs(rms / wanted - 1) > loudness)
        FAIL("%s: loudness %.4f, not %.4f", what, rms, wanted);
    if (fabs(hz / 440 - 1) > 0.002)
        FAIL("%s: %.2f Hz", what, hz);
}

TEST_UNUSED static void cut(const char *path, double part)
{
    struct stat st;
    CHECK_EQ(stat(path, &st), 0);
    CHECK_EQ(truncate(path, (off_t)((double)st.st_size * part)), 0);
}

/* --- with the program ffmpeg ---------------------------------------------------- */

TEST_UNUSED static bool command(const char *line)
{
    return system(line) == 0; /* NOLINT(cert-env33-c,bugprone-command-processor): the line is ours */
}

TEST_UNUSED static void encode(const char *how)
{
    char line[400];
    if (!command("command -v ffmpeg >/dev/null"))
        SKIP("ffmpeg is not installed");
    make_wav_file("in.wav", 44100, 1, 44100 * 4);
    snprintf(line, sizeof line, "ffmpeg -v error -nostdin -y -i in.wav %s </dev/null 2>/dev/null", how);
    if (!command(line))
        SKIP("this ffmpeg cannot write this format");
}

TEST_UNUSED static bool needs_ffmpeg(const char *path)
{
    struct tr_audio *a;
    const bool read = tr_audio_open(&a, path, message) == 0;
    tr_audio_close(&a);
    if (!read && strstr(message, "build with FFmpeg"))
        SKIP("built without FFmpeg");
    return read;
}

#endif
