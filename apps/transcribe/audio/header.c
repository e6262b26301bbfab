/* SPDX-License-Identifier: MIT
 *
 * Parses the first bytes of audio files.
 *
 * The parsers read a file through tr_view_get() (view.h), which returns the bytes at an offset.
 *
 *   WAV    chunks from byte 12 on: `fmt ` (what a frame is), `ds64` (sizes beyond 4 GiB), `fact`, `data`
 *   FLAC   STREAMINFO, the first block after `fLaC`
 *   MP3    the first frame, and a Xing, Info or VBRI table in it; without one all frames are assumed to be equally long
 *   Ogg    see ogg.c
 *
 * An ID3v2 tag, which may hold pictures, is skipped.
 */
#include "apps/transcribe/audio/header.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/transcribe/audio/ogg.h"
#include "apps/transcribe/audio/view.h"

enum {
    BEGIN_SIZE = 8192, /* first read */
    MOST_CHUNKS = 64,  /* chunks before the data of a WAV file */
    MOST_TAGS = 4,
    SYNC_REACH = 4096, /* how far after the tags the first frame of an MP3 file may begin */
};

/* --- WAV -------------------------------------------------------------------- */

struct wav {
    uint64_t (*number)(const uint8_t *, int); /* reads a number: RIFX files are big-endian */
    unsigned format, bytes_per_s, frame;      /* frame: bytes of one sample of every channel, or of a block */
    unsigned block_frames;                    /* samples in a block; 0: not given */
    uint64_t fact_frames;                     /* from the fact chunk */
    uint64_t data_size64;                     /* from the ds64 chunk */
    bool wide;                                /* RF64 */
};

enum { PCM = 1, MS_ADPCM = 2, FLOAT = 3, ALAW = 6, ULAW = 7, IMA_ADPCM = 0x11, GSM = 0x31, EXTENSIBLE = 0xfffe };

static void wav_format(struct tr_view *v, uint64_t at, uint64_t size, struct wav *w, struct tr_header *out)
{
    uint8_t b[26] = { 0 };
    if (!tr_view_get(v, at, b, size < sizeof b ? (size_t)size : sizeof b))
        return;
    w->format = (unsigned)w->number(b, 2);
    out->channels = (unsigned)w->number(b + 2, 2);
    out->rate = (unsigned)w->number(b + 4, 4);
    w->bytes_per_s = (unsigned)w->number(b + 8, 4);
    w->frame = (unsigned)w->number(b + 12, 2);
    if ((w->format == MS_ADPCM || w->format == IMA_ADPCM || w->format == GSM) && size >= 20)
        w->block_frames = (unsigned)w->number(b + 18, 2);
    if (w->format == EXTENSIBLE && size >= sizeof b)
        w->format = (unsigned)w->number(b + 24, 2);
}

static void wav_sizes(struct tr_view *v, uint64_t at, uint64_t size, struct wav *w, struct tr_header *out)
{
    uint8_t b[16];
    (void)out;
    if (w->wide && size >= sizeof b && tr_view_get(v, at, b, sizeof b))
        w->data_size64 = w->number(b + 8, 8);
}

static void wav_fact(struct tr_view *v, uint64_t at, uint64_t size, struct wav *w, struct tr_header *out)
{
    uint8_t b[4];
    (void)out;
    if (size >= sizeof b && tr_view_get(v, at, b, sizeof b))
        w->fact_frames = w->number(b, 4);
}

/* Whether a size is a placeholder. A program that writes into a pipe can't know the size, and writes 0 or the largest
 * number (some subtract a few KiB, or the header). */
static bool is_streamed(uint64_t size, uint64_t there)
{
    if (size <= there)
        return size == 0;
    return (size >= 0xffff0000 && size <= 0xffffffff) || (size >= 0x7fff0000 && size <= 0x80000000);
}

static double wav_seconds(const struct wav *w, const struct tr_header *h, uint64_t bytes)
{
    const bool plain = w->format == PCM || w->format == FLOAT || w->format == ALAW || w->format == ULAW;
    const uint64_t frames = w->frame ? bytes / w->frame : 0;
    if (plain || w->block_frames)
        return h->rate ? (double)frames * (plain ? 1 : w->block_frames) / h->rate : 0;
    if (w->fact_frames && h->rate)
        return (double)w->fact_frames / h->rate;
    return w->bytes_per_s ? (double)bytes / w->bytes_per_s : 0;
}

static void wav_data(struct tr_view *v, uint64_t at, uint64_t size, struct wav *w, struct tr_header *out)
{
    const uint64_t there = v->size - at; /* `at` is within the file, because the header of the chunk was read */
    if (w->wide && size == 0xffffffff)
        size = w->data_size64;
    out->data_at = at;
    if (is_streamed(size, there))
        size = there;
    else if (size <= UINT64_MAX - at)
        out->bytes_wanted = at + size;
    out->seconds = wav_seconds(w, out, size);
}

static const struct {
    const char *id;
    void (*take)(struct tr_view *, uint64_t at, uint64_t size, struct wav *, struct tr_header *);
} wav_chunks[] = {
    { "fmt ", wav_format },
    { "ds64", wav_sizes },
    { "fact", wav_fact },
    { "data", wav_data },
};

static bool parse_wav(struct tr_view *v, uint64_t start, struct tr_header *out)
{
    uint8_t b[12];
    if (start != 0 || !tr_view_get(v, 0, b, sizeof b) || !tr_begins_with(b + 8, "WAVE"))
        return false;
    struct wav w = { .number = tr_begins_with(b, "RIFX") ? tr_big : tr_little,
                     .wide = tr_begins_with(b, "RF64") || tr_begins_with(b, "BW64") };
    if (!w.wide && !tr_begins_with(b, "RIFF") && !tr_begins_with(b, "RIFX"))
        return false;
    out->format = "WAV";
    uint64_t at = sizeof b;
    for (int n = 0; n < MOST_CHUNKS && !out->data_at && tr_view_get(v, at, b, 8); n++) {
        const uint64_t size = w.number(b + 4, 4);
        at += 8;
        for (size_t i = 0; i < sizeof wav_chunks / sizeof wav_chunks[0]; i++) {
            if (tr_begins_with(b, wav_chunks[i].id))
                wav_chunks[i].take(v, at, size, &w, out);
        }
        at += size + (size & 1);
    }
    return true;
}

/* --- FLAC ------------------------------------------------------------------- */

static bool parse_flac(struct tr_view *v, uint64_t start, struct tr_header *out)
{
    uint8_t b[26];
    if (!tr_view_get(v, start, b, 4) || !tr_begins_with(b, "fLaC"))
        return false;
    out->format = "FLAC";
    if (!tr_view_get(v, start, b, sizeof b) || (b[4] & 0x7f) != 0)
        return true;
    /* At byte 18: 20 bits of rate, 3 of channels, 5 of sample size, 36 of length. */
    const uint64_t bits = tr_big(b + 18, 8);
    out->rate = (unsigned)(bits >> 44);
    out->channels = (unsigned)(bits >> 41 & 7) + 1;
    if (out->rate)
        out->seconds = (double)(bits & 0xfffffffff) / out->rate;
    return true;
}

/* --- MP3 -------------------------------------------------------------------- */

struct mpeg {
    unsigned version; /* 1, 2; 3 stands for 2.5 */
    unsigned layer, rate, channels, samples, bytes;
};

static const uint16_t kbits[5][15] = {
    { 0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448 }, /* MPEG 1, layer I */
    { 0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384 },    /* layer II */
    { 0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320 },     /* layer III */
    { 0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256 },    /* MPEG 2, layer I */
    { 0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160 },         /* layers II and III */
};

/* Parses the header of a frame. False if the four bytes are not such a header. Also false if the frame has no bit rate,
 * because then its length is not known. */
static bool mpeg_head(const uint8_t *b, struct mpeg *m)
{
    static const uint8_t versions[4] = { 3, 0, 2, 1 };
    static const uint16_t rates[3] = { 44100, 48000, 32000 };
    const unsigned bit_rate = b[2] >> 4, rate = b[2] >> 2 & 3;
    *m = (struct mpeg){ .version = versions[b[1] >> 3 & 3], .layer = 4 - (b[1] >> 1 & 3) };
    if (b[0] != 0xff || (b[1] & 0xe0) != 0xe0 || m->version == 0 || m->layer == 4 || rate == 3 || bit_rate == 0 ||
        bit_rate == 15)
        return false;
    const bool first = m->version == 1;
    const unsigned kb = kbits[first ? m->layer - 1 : m->layer == 1 ? 3 : 4][bit_rate], padding = b[2] >> 1 & 1;
    m->rate = rates[rate] >> (m->version - 1);
    m->channels = b[3] >> 6 == 3 ? 1 : 2;
    m->samples = m->layer == 1 ? 384 : m->layer == 3 && !first ? 576 : 1152;
    m->bytes = m->layer == 1 ? (12000 * kb / m->rate + padding) * 4 : m->samples / 8 * 1000 * kb / m->rate + padding;
    return m->bytes > 4;
}

/* Whether a frame begins at this offset: two more of its kind follow, or the file ends first. */
static bool mpeg_at(struct tr_view *v, uint64_t at, struct mpeg *m)
{
    uint8_t b[4];
    struct mpeg next;
    if (!tr_view_get(v, at, b, sizeof b) || !mpeg_head(b, m))
        return false;
    uint64_t place = at + m->bytes;
    for (int i = 0; i < 2; i++) {
        if (place >= v->size)
            return true;
        if (!tr_view_get(v, place, b, sizeof b))
            return place + sizeof b > v->size || v->fd < 0;
        if (tr_begins_with(b, "TAG"))
            return true;
        if (!mpeg_head(b, &next) || next.version != m->version || next.layer != m->layer || next.rate != m->rate)
            return false;
        place += next.bytes;
    }
    return true;
}

static bool mpeg_find(struct tr_view *v, uint64_t *at, struct mpeg *m)
{
    uint8_t b[SYNC_REACH];
    const size_t have = tr_view_some(v, *at, b, sizeof b);
    for (size_t i = 0; i + 4 <= have; i++) {
        if (mpeg_head(b + i, m) && mpeg_at(v, *at + i, m)) {
            *at += i;
            return true;
        }
    }
    return false;
}

/* Parses a Xing table (called Info if the bit rate is constant). Its flags tell which of these fields follow: number of
 * frames, number of bytes, 100 bytes of positions, a quality. After these fields, LAME and other encoders give the
 * number of samples of silence that they added. */
static uint64_t mpeg_xing(struct tr_view *v, uint64_t at, uint64_t frame, const struct mpeg *m, struct tr_header *out)
{
    uint8_t b[24];
    uint64_t frames = 0, samples;
    if (!tr_view_get(v, at, b, 8) || !(tr_begins_with(b, "Xing") || tr_begins_with(b, "Info")))
        return 0;
    const unsigned flags = (unsigned)tr_big(b + 4, 4);
    at += 8;
    if (flags & 1 && tr_view_get(v, at, b, 4))
        frames = tr_big(b, 4);
    at += flags & 1 ? 4 : 0;
    if (flags & 2 && tr_view_get(v, at, b, 4) && tr_big(b, 4))
        out->bytes_wanted = frame + tr_big(b, 4);
    at += (flags & 2 ? 4 : 0) + (flags & 4 ? 100 : 0) + (flags & 8 ? 4 : 0);
    samples = frames * m->samples;
    if (tr_view_get(v, at, b, sizeof b) && (tr_begins_with(b, "LAME") || tr_begins_with(b, "Lav"))) {
        const uint64_t added = (tr_big(b + 21, 3) >> 12) + (tr_big(b + 21, 3) & 0xfff);
        samples -= added < samples ? added : 0;
    }
    return samples;
}

static uint64_t mpeg_vbri(struct tr_view *v, uint64_t frame, const struct mpeg *m, struct tr_header *out)
{
    uint8_t b[18];
    if (!tr_view_get(v, frame + 36, b, sizeof b) || !tr_begins_with(b, "VBRI"))
        return 0;
    if (tr_big(b + 10, 4))
        out->bytes_wanted = frame + tr_big(b + 10, 4);
    return tr_big(b + 14, 4) * m->samples;
}

static bool parse_mp3(struct tr_view *v, uint64_t start, struct tr_header *out)
{
    struct mpeg m;
    uint8_t tag[3];
    if (!mpeg_find(v, &start, &m))
        return false;
    const unsigned side = m.version == 1 ? (m.channels == 1 ? 17 : 32) : m.channels == 1 ? 9 : 17;
    out->format = "MP3";
    out->rate = m.rate;
    out->channels = m.channels;
    out->data_at = start;
    uint64_t samples = m.layer == 3 ? mpeg_xing(v, start + 4 + side, start, &m, out) : 0;
    if (samples == 0)
        samples = mpeg_vbri(v, start, &m, out);
    if (samples == 0) {
        uint64_t bytes = v->size - start;
        if (bytes > 128 && tr_view_get(v, v->size - 128, tag, sizeof tag) && tr_begins_with(tag, "TAG"))
            bytes -= 128;
        samples = bytes / m.bytes * m.samples;
    }
    out->seconds = (double)samples / m.rate;
    return true;
}

/* --- any format ------------------------------------------------------------- */

/* The offset after the ID3v2 tags. */
static uint64_t after_tags(struct tr_view *v)
{
    uint64_t at = 0;
    uint8_t b[10];
    for (int n = 0; n < MOST_TAGS && tr_view_get(v, at, b, sizeof b) && tr_begins_with(b, "ID3"); n++) {
        /* The size has seven bits in each byte. A footer is as long as the header. */
        const uint64_t size =
            (uint64_t)(b[6] & 127) << 21 | (uint64_t)(b[7] & 127) << 14 | (uint64_t)(b[8] & 127) << 7 | (b[9] & 127);
        at += sizeof b + size + (b[5] & 0x10 ? sizeof b : 0);
    }
    return at;
}

static void parse(struct tr_view *v, struct tr_header *out)
{
    static bool (*const parsers[])(struct tr_view *, uint64_t, struct tr_header *) = { parse_wav, parse_flac,
                                                                                       tr_ogg_parse, parse_mp3 };
    const uint64_t start = after_tags(v);
    for (size_t i = 0; i < sizeof parsers / sizeof parsers[0]; i++) {
        *out = (struct tr_header){ 0 };
        if (parsers[i](v, start, out))
            return;
    }
    *out = (struct tr_header){ 0 };
}

void tr_header_parse(struct tr_header *out, const void *begin, size_t begin_size, const void *end, size_t end_size,
                     uint64_t file_size)
{
    struct tr_view v = { .begin = begin, .begin_size = begin_size, .end = end, .size = file_size, .fd = -1 };
    /* Neither the beginning nor the end may be longer than the file. The first bytes of the beginning and the last
     * bytes of the end are used. */
    if (v.begin_size > file_size)
        v.begin_size = file_size;
    v.end_size = end_size < file_size ? end_size : file_size;
    if (v.end_size < end_size)
        v.end += end_size - v.end_size;
    parse(&v, out);
}

int tr_header_read_part(struct tr_header *out, int fd, uint64_t from, uint64_t size)
{
    uint8_t begin[BEGIN_SIZE];
    struct tr_view v = { .begin = begin, .size = size, .from = from, .fd = fd };
    const uint64_t wanted = size < sizeof begin ? size : sizeof begin;
    *out = (struct tr_header){ 0 };
    if (tr_view_get(&v, 0, begin, wanted)) {
        v.begin_size = wanted;
        parse(&v, out);
    }
    if (v.error)
        *out = (struct tr_header){ 0 };
    errno = v.error;
    return v.error ? -1 : 0;
}

int tr_header_read_fd(struct tr_header *out, int fd)
{
    struct stat st;
    *out = (struct tr_header){ 0 };
    if (fstat(fd, &st) < 0)
        return -1;
    if (!S_ISREG(st.st_mode)) {
        errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
        return -1;
    }
    return tr_header_read_part(out, fd, 0, st.st_size > 0 ? (uint64_t)st.st_size : 0);
}

int tr_header_read(struct tr_header *out, const char *path)
{
    *out = (struct tr_header){ 0 };
    /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -1;
    const int result = tr_header_read_fd(out, fd), saved = errno;
    close(fd);
    errno = saved;
    return result;
}
