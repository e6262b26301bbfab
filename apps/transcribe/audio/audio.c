/* SPDX-License-Identifier: MIT
 *
 * Reads audio files as 16 kHz mono samples.
 *
 *     file -> source (frames) -> mixed (mono at the file's rate) -> libsoxr -> ring (16 kHz) -> reader
 *
 * produce() does everything up to libsoxr. The thread that opens the file calls it first, until the ring is full or the
 * file ends. After that, it is called by another thread, which the first read starts. Only the thread that produces
 * uses the source, so the source needs no lock. The lock protects the ring, `ended` and `stop`. `message` is written
 * before `ended` is set, so the lock protects it too.
 *
 * Opening decodes the first part of a file. If that part is bad, opening fails, and no computation is spent on the
 * file.
 */
#include "apps/transcribe/audio/audio.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <soxr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/transcribe/audio/source.h"

enum {
    OUT = 4096,          /* the most samples that one step adds to the ring */
    IN_FLOATS = 1 << 15, /* samples of all channels that are read at a time */
};

/* A sample that is larger than this, or not a number, is not sound. Such samples come from bytes that are not floats.
 */
static const float LOUDEST = 1e9F;

struct tr_audio {
    struct tr_source source;
    double seconds;
    int rate, channels; /* of the first stream */
    unsigned channel;   /* to be read; 0: the average of all */
    char format[sizeof((struct tr_sound *)0)->format];

    float *frames, *mono; /* frames as read; their mix. mono[mono_at .. mono_n) is not resampled yet */
    size_t mono_at, mono_n;
    bool stream_ended;
    soxr_t resampler; /* NULL: the stream already has 16 kHz */

    pthread_t thread;
    bool threaded; /* the decoding thread was started */
    pthread_mutex_t lock;
    pthread_cond_t added, taken;
    float *ring;
    size_t room, at, n; /* the n samples begin at `at` */
    bool ended, stop;
    char message[TR_MESSAGE_MAX]; /* the error message; empty: no error */
    int code;                     /* TR_UNFIT or TR_UNREAD, if there is an error message */
};

/* --- producing -------------------------------------------------------------- */

/* The average of the channels, or one of them (from 1). Values that are not sound count as silence. */
static void mix(const float *frames, size_t n, unsigned lanes, unsigned channel, float *mono)
{
    const unsigned first = channel > 0 ? channel - 1 : 0, used = channel > 0 ? 1 : lanes;
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (unsigned lane = first; lane < first + used; lane++) {
            const float x = frames[i * lanes + lane];
            sum += fabsf(x) <= LOUDEST ? x : 0; /* false for a NaN */
        }
        mono[i] = (float)(sum / used);
    }
}

/* Reads and mixes the next frames. Returns 0, or a code with an error message. Sets stream_ended at the end. */
static int refill(struct tr_audio *a)
{
    const unsigned lanes = a->source.sound.lanes;
    const long n = tr_source_read(&a->source, a->frames, IN_FLOATS / lanes, a->message);
    if (n < 0)
        return (int)n;
    /* A later stream of the file may have fewer channels. */
    mix(a->frames, (size_t)n, lanes, a->channel > lanes ? lanes : a->channel, a->mono);
    a->stream_ended = n == 0;
    a->mono_at = 0;
    a->mono_n = (size_t)n;
    return 0;
}

static int say_resampler(const struct tr_audio *a, soxr_error_t error, char message[TR_MESSAGE_MAX])
{
    return tr_source_say(message, "%s cannot be resampled from %d Hz: libsoxr says \"%s\"", a->source.name,
                         a->source.sound.rate, error);
}

/* Moves samples from mono to out and resamples them. *made is 0 if more input is needed first. */
static int convert(struct tr_audio *a, float *out, size_t max, size_t *made)
{
    const size_t left = a->mono_n - a->mono_at;
    size_t used = left < max ? left : max;
    if (!a->resampler) {
        memcpy(out, a->mono + a->mono_at, used * sizeof *out);
        *made = used;
    } else {
        /* With NULL, libsoxr treats the input as complete and returns the samples that it still holds. */
        const float *in = a->stream_ended && left == 0 ? NULL : a->mono + a->mono_at;
        const soxr_error_t error = soxr_process(a->resampler, in, left, &used, out, max, made);
        if (error)
            return say_resampler(a, error, a->message);
    }
    a->mono_at += used;
    return 0;
}

static int make_resampler(struct tr_audio *a, char message[TR_MESSAGE_MAX])
{
    const int rate = a->source.sound.rate;
    soxr_delete(a->resampler);
    a->resampler = NULL;
    if (rate == TR_RATE)
        return 0;
    soxr_error_t error = NULL;
    const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
    const soxr_runtime_spec_t runtime = soxr_runtime_spec(1);
    a->resampler = soxr_create(rate, TR_RATE, 1, &error, NULL, &quality, &runtime);
    return error ? say_resampler(a, error, message) : 0;
}

/* Goes on with the next stream of the file. Returns 1, 0 at the end of the file, or a code with an error message. */
static int next_stream(struct tr_audio *a)
{
    int rc = tr_source_next(&a->source, a->message);
    if (rc <= 0)
        return rc;
    a->stream_ended = false;
    rc = make_resampler(a, a->message);
    return rc < 0 ? rc : 1;
}

/* Makes the next samples. Returns their number, 0 at the end, or a code with an error message in a->message. */
static long produce(struct tr_audio *a, float *out, size_t max)
{
    for (;;) {
        size_t made = 0;
        int rc = a->mono_at == a->mono_n && !a->stream_ended ? refill(a) : 0;
        if (rc == 0)
            rc = convert(a, out, max, &made);
        if (rc == 0 && made > 0)
            return (long)made;
        if (rc == 0 && (!a->stream_ended || a->mono_at < a->mono_n))
            continue;
        if (rc == 0)
            rc = next_stream(a);
        if (rc <= 0)
            return rc;
    }
}

/* --- the ring, under the lock ------------------------------------------------- */

static void ring_put(struct tr_audio *a, const float *samples, size_t n)
{
    const size_t end = (a->at + a->n) % a->room, first = n < a->room - end ? n : a->room - end;
    memcpy(a->ring + end, samples, first * sizeof *samples);
    memcpy(a->ring, samples + first, (n - first) * sizeof *samples);
    a->n += n;
}

static size_t ring_take(struct tr_audio *a, float *samples, size_t max)
{
    const size_t n = max < a->n ? max : a->n, first = n < a->room - a->at ? n : a->room - a->at;
    memcpy(samples, a->ring + a->at, first * sizeof *samples);
    memcpy(samples + first, a->ring, (n - first) * sizeof *samples);
    a->at = (a->at + n) % a->room;
    a->n -= n;
    return n;
}

/* --- the thread ------------------------------------------------------------- */

static void *decode_ahead(void *arg)
{
    struct tr_audio *a = arg;
    float samples[OUT];
    pthread_mutex_lock(&a->lock);
    while (!a->stop && !a->ended) {
        if (a->room - a->n < OUT) {
            pthread_cond_wait(&a->taken, &a->lock);
            continue;
        }
        pthread_mutex_unlock(&a->lock);
        const long n = produce(a, samples, OUT);
        pthread_mutex_lock(&a->lock);
        if (n > 0)
            ring_put(a, samples, (size_t)n);
        else
            a->ended = true;
        a->code = n < 0 ? (int)n : 0;
        pthread_cond_signal(&a->added);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* Blocks all signals in the thread, because they are meant for the program's own threads. */
static int start_thread(struct tr_audio *a)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int rc = pthread_create(&a->thread, NULL, decode_ahead, a);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    a->threaded = rc == 0;
    if (a->threaded)
        pthread_setname_np(a->thread, "gd-audio"); /* shown by top; failure does not matter */
    return rc;
}

long tr_audio_read(struct tr_audio *a, float *samples, size_t max, char message[TR_MESSAGE_MAX])
{
    size_t n = 0;
    /* Before the thread starts, only the caller uses this structure. */
    if (!a->threaded && !a->ended) {
        const int rc = start_thread(a);
        if (rc != 0) {
            (void)tr_source_say(message, "%s cannot be decoded: no thread could be started: %s", a->source.name,
                                strerror(rc));
            return TR_UNREAD;
        }
    }
    pthread_mutex_lock(&a->lock);
    while (n < max) {
        n += ring_take(a, samples + n, max - n);
        if (a->room - a->n >= OUT)
            pthread_cond_signal(&a->taken);
        if (n == max || (a->ended && a->n == 0))
            break;
        pthread_cond_wait(&a->added, &a->lock);
    }
    const int bad = n == 0 && a->ended && a->n == 0 ? a->code : 0;
    pthread_mutex_unlock(&a->lock);
    if (bad)
        (void)tr_source_say(message, "%s", a->message);
    return bad ? bad : (long)n;
}

/* --- opening ---------------------------------------------------------------- */

static int check_channel(const struct tr_audio *a, char message[TR_MESSAGE_MAX])
{
    const unsigned lanes = a->source.sound.lanes;
    if (a->channel <= lanes)
        return 0;
    return tr_source_say(message, "%s has no channel %u: it has %u", a->source.name, a->channel, lanes);
}

/* A short file needs only a short ring. A wrong length in the header does no harm, because the ring never holds more
 * than its size. */
static int make_buffers(struct tr_audio *a, unsigned ahead_s, char message[TR_MESSAGE_MAX])
{
    const double given = a->source.seconds, seconds = given > 0 && given < ahead_s ? given : ahead_s;
    a->room = (size_t)(seconds * TR_RATE) + 2 * OUT;
    a->ring = malloc(a->room * sizeof *a->ring);
    a->frames = malloc(IN_FLOATS * sizeof *a->frames);
    a->mono = malloc(IN_FLOATS * sizeof *a->mono);
    return a->ring && a->frames && a->mono ? 0 : tr_source_unread(&a->source, message, "decoded", ENOMEM);
}

/* Fills the ring, without a thread. */
static int fill(struct tr_audio *a, char message[TR_MESSAGE_MAX])
{
    float samples[OUT];
    while (!a->ended && a->room - a->n >= OUT) {
        const long n = produce(a, samples, OUT);
        if (n < 0) {
            (void)tr_source_say(message, "%s", a->message);
            return (int)n;
        }
        ring_put(a, samples, (size_t)n);
        a->ended = n == 0;
    }
    if (a->ended)
        a->seconds = tr_source_time(&a->source); /* the true length, even if the header has another */
    return 0;
}

static int open_audio(struct tr_audio *a, const struct tr_audio_how *how, char message[TR_MESSAGE_MAX])
{
    int rc = tr_source_open(&a->source, how, message);
    if (rc < 0)
        return rc;
    a->seconds = a->source.seconds;
    a->rate = a->source.sound.rate;
    a->channels = a->source.sound.channels;
    snprintf(a->format, sizeof a->format, "%s", a->source.sound.format);
    rc = make_resampler(a, message);
    if (rc == 0)
        rc = check_channel(a, message);
    if (rc == 0)
        rc = make_buffers(a, how->ahead_s > 0 ? how->ahead_s : TR_AHEAD, message);
    return rc == 0 ? fill(a, message) : rc;
}

int tr_audio_open_how(struct tr_audio **out, const struct tr_audio_how *how, char message[TR_MESSAGE_MAX])
{
    struct tr_audio *a = calloc(1, sizeof *a);
    *out = NULL;
    if (!a) {
        (void)tr_source_say(message, "out of memory");
        if (how->has_fd)
            close(how->fd);
        return TR_UNREAD;
    }
    a->channel = how->channel;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->added, NULL);
    pthread_cond_init(&a->taken, NULL);
    const int rc = open_audio(a, how, message);
    if (rc < 0)
        tr_audio_close(&a);
    *out = a;
    return rc;
}

int tr_audio_open(struct tr_audio **out, const char *path, char message[TR_MESSAGE_MAX])
{
    return tr_audio_open_how(out, &(struct tr_audio_how){ .path = path }, message);
}

void tr_audio_close(struct tr_audio **audio)
{
    struct tr_audio *a = *audio;
    *audio = NULL;
    if (!a)
        return;
    if (a->threaded) {
        pthread_mutex_lock(&a->lock);
        a->stop = true;
        pthread_cond_signal(&a->taken);
        pthread_mutex_unlock(&a->lock);
        pthread_join(a->thread, NULL);
    }
    tr_source_close(&a->source);
    soxr_delete(a->resampler);
    pthread_cond_destroy(&a->taken);
    pthread_cond_destroy(&a->added);
    pthread_mutex_destroy(&a->lock);
    free(a->ring);
    free(a->frames);
    free(a->mono);
    free(a);
}

void tr_audio_about(struct gd__buffer *b)
{
    tr_source_about(b);
}

/* --- properties ------------------------------------------------------------- */

const char *tr_audio_warning(const struct tr_audio *a)
{
    return a->source.warning[0] ? a->source.warning : NULL;
}

double tr_audio_seconds(const struct tr_audio *a)
{
    return a->seconds;
}

int tr_audio_rate(const struct tr_audio *a)
{
    return a->rate;
}

int tr_audio_channels(const struct tr_audio *a)
{
    return a->channels;
}

const char *tr_audio_format(const struct tr_audio *a)
{
    return a->format;
}
