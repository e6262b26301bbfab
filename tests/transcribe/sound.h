/* SPDX-License-Identifier: MIT
 *
 * WAV files for tests: silence, and clips one after another.
 */
#ifndef GD_TESTS_TRANSCRIBE_SOUND_H
#define GD_TESTS_TRANSCRIBE_SOUND_H

#include "apps/transcribe/audio/audio.h"
#include "support/test.h"
#include "transcribe/job.h"

static void put32(FILE *f, uint32_t x)
{
    CHECK(fwrite(&x, sizeof x, 1, f) == 1);
}

static void put16(FILE *f, uint16_t x)
{
    CHECK(fwrite(&x, sizeof x, 1, f) == 1);
}

static FILE *begin_wav(const char *path)
{
    FILE *f = fopen(path, "wbe");
    CHECK(f);
    fputs("RIFF....WAVEfmt ", f);
    put32(f, 16);
    put16(f, 1), put16(f, 1);
    put32(f, TR_RATE), put32(f, TR_RATE * 2);
    put16(f, 2), put16(f, 16);
    fputs("data....", f);
    return f;
}

static void end_wav(FILE *f)
{
    const long size = ftell(f);
    fseek(f, 4, SEEK_SET);
    put32(f, (uint32_t)size - 8);
    fseek(f, 40, SEEK_SET);
    put32(f, (uint32_t)size - 44);
    CHECK_EQ(fclose(f), 0);
}

static void put_silence(FILE *f, double seconds)
{
    for (int i = 0; i < (int)(seconds * TR_RATE); i++)
        put16(f, 0);
}

static void put_clip(FILE *f, const char *path)
{
    static float samples[4096];
    struct tr_audio *a;
    char message[TR_MESSAGE_MAX];
    CHECK_EQ(tr_audio_open(&a, path, message), 0);
    for (long n; (n = tr_audio_read(a, samples, 4096, message)) != 0;) {
        CHECK_GT(n, 0);
        for (long i = 0; i < n; i++)
            put16(f, (uint16_t)(int16_t)(samples[i] * 32767));
    }
    tr_audio_close(&a);
}

TEST_UNUSED static void make_silence(const char *path, double seconds)
{
    FILE *f = begin_wav(path);
    put_silence(f, seconds);
    end_wav(f);
}

/* Joins the first n clips, with a pause after each. Adds their spoken text to text. */
TEST_UNUSED static void join_clips(const char *path, int n, double pause, char *text, size_t room)
{
    FILE *f = begin_wav(path);
    text[0] = '\0';
    for (int i = 0; i < n; i++) {
        char name[100];
        snprintf(name, sizeof name, "tests/data/speech/clip_%03d.flac", 20 + i);
        put_clip(f, source_path(name));
        put_silence(f, pause);
        const size_t used = strlen(text);
        snprintf(text + used, room - used, "%s%s", used ? " " : "", spoken(name));
    }
    end_wav(f);
}

/* Samples that were written are taken for those of two channels in turn. */
TEST_UNUSED static void end_stereo_wav(FILE *f)
{
    CHECK_EQ(fseek(f, 22, SEEK_SET), 0);
    put16(f, 2);
    CHECK_EQ(fseek(f, 28, SEEK_SET), 0);
    put32(f, TR_RATE * 4), put16(f, 4);
    CHECK_EQ(fseek(f, 0, SEEK_END), 0);
    end_wav(f);
}

TEST_UNUSED static void make_stereo_silence(const char *path, double seconds)
{
    FILE *f = begin_wav(path);
    put_silence(f, 2 * seconds);
    end_stereo_wav(f);
}

/* Clip 20 on the left channel, and clip 21 on the right one. Also writes mono.wav. */
TEST_UNUSED static void make_call(const char *path)
{
    static int16_t both[2][10 * TR_RATE];
    size_t longest = 0;
    for (int i = 0; i < 2; i++) {
        char name[100];
        FILE *f = begin_wav("mono.wav");
        snprintf(name, sizeof name, "tests/data/speech/clip_%03d.flac", 20 + i);
        put_clip(f, source_path(name));
        end_wav(f);
        f = fopen("mono.wav", "rbe");
        CHECK(f && fseek(f, 44, SEEK_SET) == 0);
        const size_t n = fread(both[i], sizeof **both, 10 * TR_RATE, f);
        longest = n > longest ? n : longest;
        CHECK_EQ(fclose(f), 0);
    }
    FILE *f = begin_wav(path);
    for (size_t i = 0; i < longest; i++)
        put16(f, (uint16_t)both[0][i]), put16(f, (uint16_t)both[1][i]);
    end_stereo_wav(f);
}

#endif
