/* SPDX-License-Identifier: MIT
 *
 * Decodes with FFmpeg's libraries, if the build found them: M4A, WMA, AMR, the sound of films, and other formats that
 * libsndfile can't read.
 *
 * libavformat reads through our functions and cannot open files by itself. So it never opens the files or addresses
 * that a playlist names. libswresample only changes the layout of samples in memory, to interleaved floats. If the
 * format changes in the middle of a file, libswresample also converts the samples after the change to the first format.
 * All other resampling is done by libsoxr.
 */
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/channel_layout.h>
#include <libavutil/log.h>
#include <libavutil/opt.h>
#include <libswresample/swresample.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "apps/transcribe/audio/decoder.h"

enum { IO_SIZE = 32768 };

struct state {
    struct tr_file *file;
    AVIOContext *io;
    AVFormatContext *format;
    AVCodecContext *codec;
    SwrContext *convert;
    AVFrame *frame, *like; /* the last frame, and the format that convert was made for */
    AVPacket *packet;
    AVChannelLayout layout; /* the layout of the samples that read() returns */
    int stream, rate;
    bool drained;
    size_t good, bad; /* decoded frames; packets that could not be decoded */
    float *samples;   /* converted but not returned yet: frames at .. n */
    size_t at, n, room;
};

/* --- reading ---------------------------------------------------------------- */

static int io_read(void *user, uint8_t *to, int size)
{
    const struct state *s = user;
    const ssize_t n = tr_file_read(s->file, to, (size_t)size);
    return n > 0 ? (int)n : n == 0 ? AVERROR_EOF : AVERROR(s->file->error);
}

static int64_t io_seek(void *user, int64_t offset, int whence)
{
    const struct state *s = user;
    if (whence & AVSEEK_SIZE)
        return (int64_t)s->file->size;
    return tr_file_seek(s->file, offset, whence & ~AVSEEK_FORCE);
}

static int io_open_nothing(AVFormatContext *format, AVIOContext **io, const char *url, int flags,
                           AVDictionary **options)
{
    (void)format;
    (void)io;
    (void)url;
    (void)flags;
    (void)options;
    return AVERROR(EPERM);
}

/* --- opening ---------------------------------------------------------------- */

static int open_format(struct state *s)
{
    uint8_t *buffer = av_malloc(IO_SIZE);
    s->io = buffer ? avio_alloc_context(buffer, IO_SIZE, 0, s, io_read, NULL, io_seek) : NULL;
    if (!s->io) {
        av_free(buffer);
        return AVERROR(ENOMEM);
    }
    s->format = avformat_alloc_context();
    if (!s->format)
        return AVERROR(ENOMEM);
    s->format->pb = s->io;
    s->format->io_open = io_open_nothing;
    s->format->protocol_whitelist = av_strdup("none"); /* for demuxers that open other files with their own context */
    if (!s->format->protocol_whitelist)
        return AVERROR(ENOMEM);
    const int rc = avformat_open_input(&s->format, NULL, NULL, NULL); /* frees s->format on failure */
    return rc < 0 ? rc : avformat_find_stream_info(s->format, NULL);
}

static int open_codec(struct state *s)
{
    const AVCodec *codec = NULL;
    s->stream = av_find_best_stream(s->format, AVMEDIA_TYPE_AUDIO, -1, -1, &codec, 0);
    if (s->stream < 0)
        return s->stream;
    for (unsigned i = 0; i < s->format->nb_streams; i++) {
        if ((int)i != s->stream)
            s->format->streams[i]->discard = AVDISCARD_ALL;
    }
    s->codec = avcodec_alloc_context3(codec);
    if (!s->codec)
        return AVERROR(ENOMEM);
    s->codec->thread_count = 1; /* the cores are for the transcription */
    const int rc = avcodec_parameters_to_context(s->codec, s->format->streams[s->stream]->codecpar);
    return rc < 0 ? rc : avcodec_open2(s->codec, codec, NULL);
}

/* The duration from the stream, or else from the container. The container's duration is sure only if the container has
 * no other stream. An estimate from the bit rate is never sure. */
static double given_seconds(const struct state *s, bool *sure)
{
    const AVStream *stream = s->format->streams[s->stream];
    const bool guess = s->format->duration_estimation_method == AVFMT_DURATION_FROM_BITRATE;
    const bool own = stream->duration != AV_NOPTS_VALUE && stream->duration > 0;
    const double whole = s->format->duration > 0 ? (double)s->format->duration / AV_TIME_BASE : 0;
    *sure = !guess && (own || s->format->nb_streams == 1);
    return guess ? 0 : own ? (double)stream->duration * av_q2d(stream->time_base) : whole;
}

static void describe(const struct state *s, struct tr_sound *out)
{
    bool sure;
    const double seconds = given_seconds(s, &sure);
    *out = (struct tr_sound){ .rate = s->rate,
                              .channels = s->layout.nb_channels,
                              .lanes = (unsigned)s->layout.nb_channels,
                              .seconds = isfinite(seconds) && seconds < 1e9 ? seconds : 0 };
    if (sure)
        out->frames = (uint64_t)(out->seconds * s->rate);
    out->slack = (uint64_t)s->rate + out->frames / 50;
    const char *name = s->format->iformat->name;
    snprintf(out->format, sizeof out->format, "%.*s", (int)strcspn(name, ","), name);
}

static int open_all(struct state *s)
{
    s->frame = av_frame_alloc();
    s->like = av_frame_alloc();
    s->packet = av_packet_alloc();
    if (!s->frame || !s->like || !s->packet)
        return AVERROR(ENOMEM);
    int rc = open_format(s);
    if (rc >= 0)
        rc = open_codec(s);
    if (rc < 0)
        return rc;
    s->rate = s->codec->sample_rate;
    return av_channel_layout_copy(&s->layout, &s->codec->ch_layout);
}

static void ffmpeg_close(void *state)
{
    struct state *s = state;
    swr_free(&s->convert);
    avcodec_free_context(&s->codec);
    avformat_close_input(&s->format);
    if (s->io)
        av_freep((void *)&s->io->buffer);
    avio_context_free(&s->io);
    av_frame_free(&s->frame);
    av_frame_free(&s->like);
    av_packet_free(&s->packet);
    av_channel_layout_uninit(&s->layout);
    free(s->samples);
    free(s);
}

static void *ffmpeg_open(struct tr_file *f, const struct tr_header *h, struct tr_sound *out, char why[TR_WHY])
{
    (void)h;
    struct state *s = calloc(1, sizeof *s);
    if (!s) {
        f->error = ENOMEM;
        return NULL;
    }
    av_log_set_level(AV_LOG_QUIET); /* our error messages already say what is wrong with a file */
    s->file = f;
    const int rc = open_all(s);
    if (rc < 0) {
        if (rc == AVERROR_STREAM_NOT_FOUND)
            snprintf(why, TR_WHY, "it contains no sound");
        else
            av_strerror(rc, why, TR_WHY);
        ffmpeg_close(s);
        return NULL;
    }
    describe(s, out);
    return s;
}

/* --- decoding --------------------------------------------------------------- */

/* Makes s->convert for the format of this frame, unless the current s->convert is for that format. */
static int prepare(struct state *s, const AVFrame *frame)
{
    if (s->convert && frame->format == s->like->format && frame->sample_rate == s->like->sample_rate &&
        av_channel_layout_compare(&frame->ch_layout, &s->like->ch_layout) == 0)
        return 0;
    swr_free(&s->convert);
    s->like->format = frame->format;
    s->like->sample_rate = frame->sample_rate;
    int rc = av_channel_layout_copy(&s->like->ch_layout, &frame->ch_layout);
    if (rc >= 0)
        rc = swr_alloc_set_opts2(&s->convert, &s->layout, AV_SAMPLE_FMT_FLT, s->rate, &s->like->ch_layout,
                                 (enum AVSampleFormat)frame->format, frame->sample_rate, 0, NULL);
    return rc < 0 ? rc : swr_init(s->convert);
}

static int take_frame(struct state *s)
{
    const AVFrame *frame = s->frame;
    /* The rate or the number of channels is still not known. */
    if (s->rate == 0 || s->layout.nb_channels == 0 || frame->sample_rate <= 0)
        return AVERROR_INVALIDDATA;
    int rc = prepare(s, frame);
    const int most = rc < 0 ? rc : swr_get_out_samples(s->convert, frame->nb_samples);
    if (most < 0)
        return most;
    if ((size_t)most > s->room) {
        float *samples = realloc(s->samples, (size_t)most * (size_t)s->layout.nb_channels * sizeof *samples);
        if (!samples)
            return AVERROR(ENOMEM);
        s->samples = samples;
        s->room = (size_t)most;
    }
    uint8_t *to = (uint8_t *)s->samples;
    rc = swr_convert(s->convert, &to, most, (const uint8_t **)(void *)frame->extended_data, frame->nb_samples);
    s->at = 0;
    s->n = rc > 0 ? (size_t)rc : 0;
    s->good++;
    return rc;
}

/* Gives the next packet of the stream to the decoder, or signals the end of the stream. */
static int feed(struct state *s)
{
    int rc;
    do {
        av_packet_unref(s->packet);
        rc = av_read_frame(s->format, s->packet);
    } while (rc >= 0 && s->packet->stream_index != s->stream);
    if (rc < 0) {
        /* The end of the file, or a read error. The promised length decides later whether the file is complete. */
        s->drained = true;
        s->bad += rc != AVERROR_EOF;
        return avcodec_send_packet(s->codec, NULL);
    }
    rc = avcodec_send_packet(s->codec, s->packet);
    av_packet_unref(s->packet);
    /* Data that can't be decoded is skipped, as players do. */
    if (rc == AVERROR_INVALIDDATA)
        s->bad++;
    return rc == AVERROR_INVALIDDATA ? 0 : rc;
}

/* Decodes until there are samples. Returns 1, 0 at the end, or an error. */
static int decode(struct state *s)
{
    while (s->at == s->n) {
        int rc = avcodec_receive_frame(s->codec, s->frame);
        if (rc == AVERROR_EOF)
            return s->good == 0 && s->bad > 0 ? AVERROR_INVALIDDATA : 0;
        if (rc == AVERROR_INVALIDDATA)
            s->bad++;
        else if (rc == AVERROR(EAGAIN))
            rc = s->drained ? AVERROR_EOF : feed(s);
        else if (rc >= 0)
            rc = take_frame(s);
        if (rc < 0 && (rc != AVERROR_INVALIDDATA || s->drained))
            return rc == AVERROR_EOF || s->good > 0 ? 0 : rc;
    }
    return 1;
}

static long ffmpeg_read(void *state, float *to, size_t frames, char why[TR_WHY])
{
    struct state *s = state;
    const size_t lanes = (size_t)s->layout.nb_channels;
    const int rc = decode(s);
    if (rc < 0) {
        av_strerror(rc, why, TR_WHY);
        return -1;
    }
    const size_t n = s->n - s->at < frames ? s->n - s->at : frames;
    if (n > 0)
        memcpy(to, s->samples + s->at * lanes, n * lanes * sizeof *to);
    s->at += n;
    return (long)n;
}

/* FFmpeg reads some hundred formats. These are the ones that users have. */
static void ffmpeg_about(struct gd__buffer *version, struct gd__buffer *formats)
{
    static const struct {
        const char *extension, *container;
        enum AVCodecID codec;
    } usual[] = {
        { "m4a", "mov", AV_CODEC_ID_AAC },    { "aac", "aac", AV_CODEC_ID_AAC },
        { "mp4", "mov", AV_CODEC_ID_AAC },    { "mkv", "matroska", AV_CODEC_ID_AAC },
        { "webm", "webm", AV_CODEC_ID_OPUS }, { "wma", "asf", AV_CODEC_ID_WMAV2 },
        { "amr", "amr", AV_CODEC_ID_AMR_NB }, { "ac3", "ac3", AV_CODEC_ID_AC3 },
    };
    const char *before = "";
    gd__buffer_text(version, av_version_info());
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        if (!av_find_input_format(usual[i].container) || !avcodec_find_decoder(usual[i].codec))
            continue;
        gd__buffer_format(formats, "%s%s", before, usual[i].extension);
        before = ", ";
    }
}

const struct tr_decoder tr_ffmpeg = { "FFmpeg", NULL, ffmpeg_open, ffmpeg_read, ffmpeg_close, ffmpeg_about };
