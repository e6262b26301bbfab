/* SPDX-License-Identifier: MIT
 *
 * Reads audio files as 16 kHz mono samples.
 *
 *     file -> decoder (frames) -> mixed (mono at the file's rate) -> libsoxr -> ring (16 kHz) -> reader
 *
 * produce() does everything up to libsoxr. The thread that opens the file calls it first, until the ring is full or the
 * file ends. After that, it is called by another thread, which the first read starts. Only the thread that produces
 * uses the decoder, so the decoder needs no lock. The lock protects the ring, `ended` and `stop`. `message` is written
 * before `ended` is set, so the lock protects it too.
 *
 * Opening decodes the first part of a file. If that part is bad, opening fails, and no computation is spent on the
 * file.
 */
#include "apps/transcribe/audio/audio.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <soxr.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/transcribe/audio/decoder.h"
#include "apps/transcribe/output/shown.h"

enum {
    NAME = 128,
    OUT = 4096,          /* the most samples that one step adds to the ring */
    IN_FLOATS = 1 << 15, /* samples of all channels that are read at a time */
    RATE_LEAST = 500,    /* files of sound have higher rates; resampling from a lower rate takes much memory */
    RATE_MOST = 6144000,
    CHANNELS_MOST = 1024,
};

/* How many bytes may be missing from the end of a file. A WAV header may count itself as data. An MP3 table may or may
 * not count the first frame. */
enum { WAV_SLACK = 64, MP3_SLACK = 4096 };

/* A sample that is larger than this, or not a number, is not sound. Such samples come from bytes that are not floats.
 */
static const float LOUDEST = 1e9F;

struct tr_audio {
    char name[NAME];
    struct tr_file file;
    const struct tr_decoder *decoder;
    void *source;
    struct tr_sound sound;

    float *frames, *mono; /* frames as read; their mix. mono[mono_at .. mono_n) is not resampled yet */
    size_t block, mono_at, mono_n;
    uint64_t decoded; /* number of frames so far */
    bool source_ended;
    soxr_t resampler; /* NULL: the file already has 16 kHz */

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

/* --- error messages --------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static int say(char message[TR_MESSAGE_MAX], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(message, TR_MESSAGE_MAX, format, args);
    va_end(args);
    return TR_UNFIT;
}

/* An error about the name or the permissions of a file is permanent. Every other error may be temporary: a disk or a
 * network that is unavailable, no memory, too many open files. */
static int code_of(int error)
{
    static const int lasting[] = { EACCES, EISDIR, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, EPERM };
    for (size_t i = 0; i < sizeof lasting / sizeof *lasting; i++) {
        if (error == lasting[i])
            return TR_UNFIT;
    }
    return TR_UNREAD;
}

static int say_unread(const struct tr_audio *a, char message[TR_MESSAGE_MAX], const char *what, int error)
{
    (void)say(message, "%s cannot be %s: %s%s", a->name, what, strerror(error),
              error == EMFILE || error == ENFILE ? "; raise the limit (ulimit -n)"
              : error == ENOMEM                  ? ""
                                                 : "; check the disk or network that it is on");
    return code_of(error);
}

static int say_truncated(const struct tr_audio *a, char message[TR_MESSAGE_MAX], double promised, double there)
{
    return say(message, "%s is truncated: its header says %.1f s, the file holds %.1f s; copy or download it again",
               a->name, promised, there);
}

/* --- producing -------------------------------------------------------------- */

/* The average of the channels. Values that are not sound count as silence. */
static void mix(const float *frames, size_t n, unsigned lanes, float *mono)
{
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (unsigned lane = 0; lane < lanes; lane++) {
            const float x = frames[i * lanes + lane];
            sum += fabsf(x) <= LOUDEST ? x : 0; /* false for a NaN */
        }
        mono[i] = (float)(sum / lanes);
    }
}

/* Called at the end of the file. Checks that the file is as long as its header promised. */
static int check_end(struct tr_audio *a)
{
    const struct tr_sound *s = &a->sound;
    if (a->decoded == 0)
        return say(a->message, "%s contains no audio: there is a header (%s, %d Hz) but no samples after it", a->name,
                   s->format, s->rate);
    if (a->decoded + s->slack < s->frames)
        return say_truncated(a, a->message, (double)s->frames / s->rate, (double)a->decoded / s->rate);
    return 0;
}

/* Reads and mixes the next frames. Returns 0, or a code with an error message. Sets source_ended at the end. */
static int refill(struct tr_audio *a)
{
    char why[TR_WHY] = "";
    const long n = a->decoder->read(a->source, a->frames, a->block, why);
    if (a->file.error)
        return say_unread(a, a->message, "read", a->file.error);
    if (n < 0)
        return say(a->message, "%s is damaged: %s says \"%s\" after %.1f s; copy or download it again", a->name,
                   a->decoder->name, why, (double)a->decoded / a->sound.rate);
    if (n == 0) {
        a->source_ended = true;
        return check_end(a);
    }
    mix(a->frames, (size_t)n, a->sound.lanes, a->mono);
    a->decoded += (uint64_t)n;
    a->mono_at = 0;
    a->mono_n = (size_t)n;
    return 0;
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
        const float *in = a->source_ended && left == 0 ? NULL : a->mono + a->mono_at;
        const soxr_error_t error = soxr_process(a->resampler, in, left, &used, out, max, made);
        if (error)
            return say(a->message, "%s cannot be resampled from %d Hz: libsoxr says \"%s\"", a->name, a->sound.rate,
                       error);
    }
    a->mono_at += used;
    return 0;
}

/* Makes the next samples. Returns their number, 0 at the end, or a code with an error message in a->message. */
static long produce(struct tr_audio *a, float *out, size_t max)
{
    for (;;) {
        size_t made = 0;
        int rc = a->mono_at == a->mono_n && !a->source_ended ? refill(a) : 0;
        if (rc == 0)
            rc = convert(a, out, max, &made);
        if (rc < 0)
            return rc;
        if (made > 0 || (a->source_ended && a->mono_at == a->mono_n))
            return (long)made;
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
            (void)say(message, "%s cannot be decoded: no thread could be started: %s", a->name, strerror(rc));
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
        (void)say(message, "%s", a->message);
    return bad ? bad : (long)n;
}

/* --- opening ---------------------------------------------------------------- */

/* Accepts only regular files, because a FIFO or a device may block or never end. */
static int check_kind(const struct tr_audio *a, const struct stat *st, char message[TR_MESSAGE_MAX])
{
    if (S_ISDIR(st->st_mode))
        return say(message, "%s is a directory, not an audio file", a->name);
    if (!S_ISREG(st->st_mode))
        return say(message, "%s is a pipe, socket or device, not a regular file: save its data to a file first",
                   a->name);
    if (st->st_size == 0)
        return say(message, "%s is empty (0 bytes): copy or record it again", a->name);
    return 0;
}

static int open_file(struct tr_audio *a, const char *path, char message[TR_MESSAGE_MAX])
{
    struct stat st;
    /* Checked before opening, because opening a device may have an effect. Checked again after opening, because the
     * file may have changed. */
    if (stat(path, &st) == 0 && check_kind(a, &st, message) < 0)
        return -1;
    a->file.fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (a->file.fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return say(message, "%s does not exist: it was moved or deleted, or the name is misspelt", a->name);
    if (a->file.fd < 0 && (errno == EACCES || errno == EPERM))
        return say(message,
                   "%s cannot be opened: permission denied; allow this user to read it and the directories above it",
                   a->name);
    if (a->file.fd < 0 || fstat(a->file.fd, &st) < 0)
        return say_unread(a, message, "opened", errno);
    a->file.size = (uint64_t)st.st_size;
    return check_kind(a, &st, message);
}

static int check_rate(const struct tr_audio *a, long long rate, long long channels, char message[TR_MESSAGE_MAX])
{
    if (channels <= 0 || channels > CHANNELS_MOST)
        return say(message, "%s has %lld channels according to its header, not 1 to %d: it is damaged or not audio",
                   a->name, channels, CHANNELS_MOST);
    if (rate < RATE_LEAST || rate > RATE_MOST)
        return say(message,
                   "%s has a sample rate of %lld Hz according to its header, not %d to %d: it is damaged or not audio",
                   a->name, rate, RATE_LEAST, RATE_MOST);
    return 0;
}

/* The checks that need only the header. */
static int check_header(const struct tr_audio *a, const struct tr_header *h, char message[TR_MESSAGE_MAX])
{
    const uint64_t size = a->file.size;
    if (!h->format)
        return 0;
    const bool wav = strcmp(h->format, "WAV") == 0, mp3 = strcmp(h->format, "MP3") == 0;
    if ((h->rate || h->channels || h->data_at) && check_rate(a, h->rate, h->channels, message) < 0)
        return -1;
    if (h->bytes_wanted <= size + (wav ? WAV_SLACK : mp3 ? MP3_SLACK : 0))
        return 0;
    if (!h->data_at)
        return say(message, "%s is truncated: it ends in the middle of a page; copy or download it again", a->name);
    const double part = (double)(size - h->data_at) / (double)(h->bytes_wanted - h->data_at);
    return say_truncated(a, message, h->seconds, h->seconds * part);
}

static const struct tr_decoder *const decoders[] = {
#ifdef TR_HAVE_MPG123
    &tr_mpg123,
#endif
    &tr_sndfile,
#ifdef TR_HAVE_FFMPEG
    &tr_ffmpeg,
#endif
};

/* Tries one decoder after the other. The error message covers all of them. */
static int open_decoder(struct tr_audio *a, const struct tr_header *h, char message[TR_MESSAGE_MAX])
{
    char why[TR_WHY], all[2 * TR_WHY] = "";
    for (size_t i = 0; i < sizeof decoders / sizeof decoders[0] && !a->source; i++) {
        if (decoders[i]->wants && !decoders[i]->wants(h))
            continue;
        why[0] = '\0';
        a->file.at = a->file.mend_at = 0;
        a->decoder = decoders[i];
        a->source = a->decoder->open(&a->file, h, &a->sound, why);
        if (a->file.error)
            return say_unread(a, message, "read", a->file.error);
        const size_t used = strlen(all);
        if (!a->source)
            snprintf(all + used, sizeof all - used, "%s%s says \"%s\"", used ? ", " : "", a->decoder->name, why);
    }
    if (a->source)
        return 0;
#ifdef TR_HAVE_FFMPEG
    const char *help = "if it is audio, convert it to WAV or FLAC";
#else
    const char *help =
        "if it is audio, convert it to WAV or FLAC, or build with FFmpeg's libraries, which read more formats";
#endif
    return say(message, "%s is not an audio file that can be read here (%s): %s", a->name, all, help);
}

static int make_resampler(struct tr_audio *a, char message[TR_MESSAGE_MAX])
{
    if (a->sound.rate == TR_RATE)
        return 0;
    soxr_error_t error = NULL;
    const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
    const soxr_runtime_spec_t runtime = soxr_runtime_spec(1);
    a->resampler = soxr_create(a->sound.rate, TR_RATE, 1, &error, NULL, &quality, &runtime);
    return error ? say(message, "%s cannot be resampled from %d Hz: libsoxr says \"%s\"", a->name, a->sound.rate, error)
                 : 0;
}

/* A short file needs only a short ring. A wrong length in the header does no harm, because the ring never holds more
 * than its size. */
static int make_buffers(struct tr_audio *a, unsigned ahead_s, char message[TR_MESSAGE_MAX])
{
    const double seconds = a->sound.seconds > 0 && a->sound.seconds < ahead_s ? a->sound.seconds : ahead_s;
    a->room = (size_t)(seconds * TR_RATE) + 2 * OUT;
    a->block = IN_FLOATS / a->sound.lanes;
    a->ring = malloc(a->room * sizeof *a->ring);
    a->frames = malloc(IN_FLOATS * sizeof *a->frames);
    a->mono = malloc(a->block * sizeof *a->mono);
    return a->ring && a->frames && a->mono ? 0 : say_unread(a, message, "decoded", ENOMEM);
}

/* Fills the ring, without a thread. */
static int fill(struct tr_audio *a, char message[TR_MESSAGE_MAX])
{
    float samples[OUT];
    while (!a->ended && a->room - a->n >= OUT) {
        const long n = produce(a, samples, OUT);
        if (n < 0) {
            (void)say(message, "%s", a->message);
            return (int)n;
        }
        ring_put(a, samples, (size_t)n);
        a->ended = n == 0;
    }
    if (a->ended)
        a->sound.seconds = (double)a->decoded / a->sound.rate; /* the true length, even if the header has another */
    return 0;
}

static int open_all(struct tr_audio *a, const char *path, unsigned ahead_s, char message[TR_MESSAGE_MAX])
{
    struct tr_header header = { 0 };
    int rc = open_file(a, path, message);
    if (rc == 0 && tr_header_read_fd(&header, a->file.fd) < 0)
        rc = say_unread(a, message, "read", errno);
    if (rc == 0)
        rc = check_header(a, &header, message);
    if (rc == 0)
        rc = open_decoder(a, &header, message);
    if (rc == 0)
        rc = check_rate(a, a->sound.rate, a->sound.channels, message);
    if (rc == 0)
        rc = make_resampler(a, message);
    if (rc == 0)
        rc = make_buffers(a, ahead_s, message);
    return rc == 0 ? fill(a, message) : rc;
}

int tr_audio_open_ahead(struct tr_audio **out, const char *path, unsigned ahead_s, char message[TR_MESSAGE_MAX])
{
    struct tr_audio *a = calloc(1, sizeof *a);
    *out = NULL;
    if (!a) {
        (void)say(message, "out of memory");
        return TR_UNREAD;
    }
    a->file.fd = -1;
    tr_shown_name(a->name, sizeof a->name, path);
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->added, NULL);
    pthread_cond_init(&a->taken, NULL);
    const int rc = open_all(a, path, ahead_s, message);
    if (rc < 0)
        tr_audio_close(&a);
    *out = a;
    return rc;
}

int tr_audio_open(struct tr_audio **out, const char *path, char message[TR_MESSAGE_MAX])
{
    return tr_audio_open_ahead(out, path, TR_AHEAD, message);
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
    if (a->source)
        a->decoder->close(a->source);
    soxr_delete(a->resampler);
    if (a->file.fd >= 0)
        close(a->file.fd);
    pthread_cond_destroy(&a->taken);
    pthread_cond_destroy(&a->added);
    pthread_mutex_destroy(&a->lock);
    free(a->ring);
    free(a->frames);
    free(a->mono);
    free(a);
}

/* --- properties ------------------------------------------------------------- */

double tr_audio_seconds(const struct tr_audio *a)
{
    return a->sound.seconds;
}

int tr_audio_rate(const struct tr_audio *a)
{
    return a->sound.rate;
}

int tr_audio_channels(const struct tr_audio *a)
{
    return a->sound.channels;
}

const char *tr_audio_format(const struct tr_audio *a)
{
    return a->sound.format;
}
