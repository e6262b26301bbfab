/* SPDX-License-Identifier: MIT
 *
 * Voice activity detection, by whisper.cpp's own detector. The parts of the audio that contain speech are put one after
 * the other. Each part, except the last, is followed by the next 0.1 s of the original audio and by 0.1 s of silence.
 * whisper.cpp does the same, so the text is the same. A table of points maps times back to the original, with linear
 * interpolation. */
#include "apps/transcribe/engine/speech.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <whisper.h>

#include "apps/transcribe/audio/audio.h"
#include "apps/transcribe/engine/decoding/params.h"
#include "apps/transcribe/engine/log.h"
#include "base/failure.h"

struct tr_speech {
    struct whisper_vad_context *vad;
    struct whisper_vad_params params;
    float *samples;
    size_t n, room;
    struct tr_speech_map map;
    size_t points_room;
};

enum { SILENCE = TR_RATE / 10 };

/* A file of the detector begins with the magic number of ggml files and the length of a short name. whisper.cpp does
 * not check that length, so it is checked here. */
static int check_file(const char *path)
{
    uint32_t words[2] = { 0, 0 };
    FILE *f = fopen(path, "re");
    if (!f)
        return gd__fail("cannot read the VAD model %s: %m", path);
    const size_t got = fread(words, sizeof *words, 2, f);
    fclose(f);
    if (got != 2 || words[0] != 0x67676d6c || words[1] == 0 || words[1] > 64)
        return gd__fail("%s is not a VAD model: give one of whisper.cpp's VAD models, such as ggml-silero-v5.1.2.bin",
                        path);
    return 0;
}

int tr_speech_open(struct tr_speech **out, const struct tr_settings *settings)
{
    const char *model = settings->vad_model;
    if (check_file(model) < 0)
        return -1;
    struct tr_speech *s = calloc(1, sizeof *s);
    if (!s)
        return gd__fail("no memory for the VAD model");
    struct whisper_vad_context_params p = whisper_vad_default_context_params();
    p.n_threads = 1; /* the detector takes a step for every 32 ms: more threads would mostly wait for each other */
    s->params = tr_params_vad(settings);
    s->vad = whisper_vad_init_from_file_with_params(model, p);
    if (!s->vad) {
        const char *why = tr_log_error();
        tr_speech_close(&s);
        return gd__fail("whisper.cpp cannot load the VAD model %s: %s", model, why ? why : "it gives no reason");
    }
    *out = s;
    return 0;
}

void tr_speech_close(struct tr_speech **s)
{
    if (!*s)
        return;
    whisper_vad_free((*s)->vad);
    free((*s)->samples);
    free((*s)->map.points);
    free(*s);
    *s = NULL;
}

static int make_room(struct tr_speech *s, size_t samples, size_t points)
{
    if (samples > s->room) {
        free(s->samples);
        s->samples = malloc(samples * sizeof *s->samples);
        s->room = s->samples ? samples : 0;
    }
    if (points > s->points_room) {
        free(s->map.points);
        s->map.points = malloc(points * sizeof *s->map.points);
        s->points_room = s->map.points ? points : 0;
    }
    return samples > s->room || points > s->points_room ? gd__fail("no memory for the speech of a file") : 0;
}

static size_t sample_at(float centiseconds, size_t n)
{
    const double at = (double)centiseconds / 100.0 * TR_RATE + 0.5;
    const size_t last = n > 0 ? n - 1 : 0;
    return at <= 0 ? 0 : at >= (double)last ? last : (size_t)at;
}

static void add_point(struct tr_speech *s, size_t found, size_t original)
{
    s->map.points[s->map.n++] = (struct tr_speech_point){ (double)found / TR_RATE, (double)original / TR_RATE };
}

/* Adds one part: from at[0] to at[1], with the audio after it up to at[2]. next is where the next part begins, or 0 for
 * the last. */
static void add_part(struct tr_speech *s, const float *samples, const size_t at[3], size_t next)
{
    add_point(s, s->n, at[0]);
    add_point(s, s->n + (at[1] - at[0]), at[1]);
    memcpy(s->samples + s->n, samples + at[0], (at[2] - at[0]) * sizeof *samples);
    s->n += at[2] - at[0];
    if (next == 0)
        return;
    add_point(s, s->n, at[1]);
    memset(s->samples + s->n, 0, SILENCE * sizeof *s->samples);
    s->n += SILENCE;
    add_point(s, s->n, next);
}

/* A part's bounds in samples: its beginning, its end, and the end of the audio that is added to it. */
static void part_at(const struct tr_speech *s, struct whisper_vad_segments *found, int i, size_t n, size_t at[3])
{
    const bool last = i == whisper_vad_segments_n_segments(found) - 1;
    const size_t overlap = last ? 0 : (size_t)(s->params.samples_overlap * TR_RATE);
    at[0] = sample_at(whisper_vad_segments_get_segment_t0(found, i), n);
    at[1] = sample_at(whisper_vad_segments_get_segment_t1(found, i), n);
    at[2] = at[1] + overlap < n ? at[1] + overlap : n - 1;
}

static int add_parts(struct tr_speech *s, struct whisper_vad_segments *found, const float *samples, size_t n)
{
    const int parts = whisper_vad_segments_n_segments(found);
    size_t room = 0, at[3];
    for (int i = 0; i < parts; i++) {
        part_at(s, found, i, n, at);
        room += at[2] > at[0] ? at[2] - at[0] + SILENCE : 0;
    }
    if (make_room(s, room, (size_t)parts * 4) < 0)
        return -1;
    for (int i = 0; i < parts; i++) {
        const size_t next = i < parts - 1 ? sample_at(whisper_vad_segments_get_segment_t0(found, i + 1), n) : 0;
        part_at(s, found, i, n, at);
        if (at[0] < at[1])
            add_part(s, samples, at, next);
    }
    return 0;
}

long tr_speech_find(struct tr_speech *s, const float *samples, size_t n, const float **out)
{
    s->n = s->map.n = 0;
    struct whisper_vad_segments *found = whisper_vad_segments_from_samples(s->vad, s->params, samples, (int)n);
    if (!found)
        return gd__fail("whisper.cpp's voice activity detection failed");
    const int rc = add_parts(s, found, samples, n);
    whisper_vad_free_segments(found);
    *out = s->samples;
    return rc < 0 ? -1 : (long)s->n;
}

const struct tr_speech_map *tr_speech_map(const struct tr_speech *s)
{
    return &s->map;
}

int tr_speech_copy_map(const struct tr_speech *s, struct tr_speech_map *out)
{
    *out = (struct tr_speech_map){ malloc((s->map.n + 1) * sizeof *out->points), s->map.n };
    if (!out->points)
        return -1;
    if (s->map.n > 0)
        memcpy(out->points, s->map.points, s->map.n * sizeof *out->points);
    return 0;
}

double tr_speech_time(const struct tr_speech_map *m, double time)
{
    if (m->n == 0)
        return time;
    size_t i = 0;
    while (i < m->n && m->points[i].found < time)
        i++;
    if (i == 0)
        return m->points[0].original;
    const struct tr_speech_point a = m->points[i - 1];
    if (i == m->n)
        return a.original;
    const struct tr_speech_point b = m->points[i];
    return b.found > a.found ? a.original + (time - a.found) * (b.original - a.original) / (b.found - a.found)
                             : b.original;
}
