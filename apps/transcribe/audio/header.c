/* SPDX-License-Identifier: MIT
 *
 * Parses the first bytes of audio files.
 *
 * The parsers read a file through get(), which returns the bytes at an offset. The bytes come from the caller's buffer
 * or, if there is a descriptor, from the file itself. get() checks every offset, so a parser may use any offset.
 *
 *   WAV    chunks from byte 12 on: `fmt ` (what a frame is), `ds64` (sizes beyond 4 GiB), `fact`, `data`
 *   FLAC   STREAMINFO, the first block after `fLaC`
 *   MP3    the first frame, and a Xing, Info or VBRI table in it; without one all frames are assumed to be equally long
 *   Ogg    the first page's packet describes the samples, the last page gives their number
 *
 * An ID3v2 tag, which may hold pictures, is skipped.
 */
#include "apps/transcribe/audio/header.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BEGIN_SIZE = 8192, /* first read */
    MOST_CHUNKS = 64,  /* chunks before the data of a WAV file */
    MOST_TAGS = 4,
    MOST_STREAMS = 8,    /* in an Ogg file */
    SYNC_REACH = 4096,   /* how far after the tags the first frame of an MP3 file may begin */
    PAGE_HEAD = 27,      /* size of the header of an Ogg page, without its table of segments */
    TAIL_NEAR = 8192,    /* how far from the end of an Ogg file its last page begins, in most files */
    TAIL_FAR = 2 * 65536 /* the same in any file: a page has at most 65307 bytes, and the last few may have no time */
};

struct view {
    const uint8_t *begin, *end;
    uint64_t begin_size, end_size, size;
    int fd;    /* -1: only the bytes of begin and end can be read */
    int error; /* errno of a failed read */
};

/* --- bytes ------------------------------------------------------------------ */

static bool read_at(int fd, uint64_t at, uint8_t *to, size_t n)
{
    while (n > 0) {
        const ssize_t got = pread(fd, to, n, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            errno = got < 0 ? errno : 0; /* 0: the file has become shorter, which is not an error */
            return false;
        }
        to += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return true;
}

static bool get(struct view *v, uint64_t at, void *to, size_t n)
{
    if (at > v->size || n > v->size - at)
        return false;
    if (n == 0)
        return true;
    if (at + n <= v->begin_size) {
        memcpy(to, v->begin + at, n);
        return true;
    }
    if (v->end && at >= v->size - v->end_size) {
        memcpy(to, v->end + (at - (v->size - v->end_size)), n);
        return true;
    }
    if (v->fd < 0)
        return false;
    const bool whole = read_at(v->fd, at, to, n);
    if (!whole && errno != 0)
        v->error = errno;
    return whole;
}

/* Gets at most `most` bytes, and fewer if the file ends. Returns their number. */
static size_t get_some(struct view *v, uint64_t at, void *to, size_t most)
{
    const uint64_t left = at < v->size ? v->size - at : 0, begun = at < v->begin_size ? v->begin_size - at : 0;
    size_t n = left < most ? (size_t)left : most;
    if (get(v, at, to, n))
        return n;
    n = begun < n ? (size_t)begun : n;
    return get(v, at, to, n) ? n : 0;
}

/* A number of n bytes, n <= 8. */
static uint64_t little(const uint8_t *b, int n)
{
    uint64_t value = 0;
    while (n-- > 0)
        value = value << 8 | b[n];
    return value;
}

static uint64_t big(const uint8_t *b, int n)
{
    uint64_t value = 0;
    for (int i = 0; i < n; i++)
        value = value << 8 | b[i];
    return value;
}

static bool begins_with(const uint8_t *b, const char *word)
{
    return memcmp(b, word, strlen(word)) == 0;
}

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

static void wav_format(struct view *v, uint64_t at, uint64_t size, struct wav *w, struct tr_header *out)
{
    uint8_t b[26] = { 0 };
    if (!get(v, at, b, size < sizeof b ? (size_t)size : sizeof b))
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

static void wav_sizes(struct view *v, uint64_t at, uint64_t size, struct wav *w, struct tr_header *out)
{
    uint8_t b[16];
    (void)out;
    if (w->wide && size >= sizeof b && get(v, at, b, sizeof b))
        w->data_size64 = w->number(b + 8, 8);
}

static void wav_fact(struct view *v, uint64_t at, uint64_t size, struct wav *w, struct tr_header *out)
{
    uint8_t b[4];
    (void)out;
    if (size >= sizeof b && get(v, at, b, sizeof b))
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

static void wav_data(struct view *v, uint64_t at, uint64_t size, struct wav *w, struct tr_header *out)
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
    void (*take)(struct view *, uint64_t at, uint64_t size, struct wav *, struct tr_header *);
} wav_chunks[] = {
    { "fmt ", wav_format },
    { "ds64", wav_sizes },
    { "fact", wav_fact },
    { "data", wav_data },
};

static bool parse_wav(struct view *v, uint64_t start, struct tr_header *out)
{
    uint8_t b[12];
    if (start != 0 || !get(v, 0, b, sizeof b) || !begins_with(b + 8, "WAVE"))
        return false;
    struct wav w = { .number = begins_with(b, "RIFX") ? big : little,
                     .wide = begins_with(b, "RF64") || begins_with(b, "BW64") };
    if (!w.wide && !begins_with(b, "RIFF") && !begins_with(b, "RIFX"))
        return false;
    out->format = "WAV";
    uint64_t at = sizeof b;
    for (int n = 0; n < MOST_CHUNKS && !out->data_at && get(v, at, b, 8); n++) {
        const uint64_t size = w.number(b + 4, 4);
        at += 8;
        for (size_t i = 0; i < sizeof wav_chunks / sizeof wav_chunks[0]; i++) {
            if (begins_with(b, wav_chunks[i].id))
                wav_chunks[i].take(v, at, size, &w, out);
        }
        at += size + (size & 1);
    }
    return true;
}

/* --- FLAC ------------------------------------------------------------------- */

static bool parse_flac(struct view *v, uint64_t start, struct tr_header *out)
{
    uint8_t b[26];
    if (!get(v, start, b, 4) || !begins_with(b, "fLaC"))
        return false;
    out->format = "FLAC";
    if (!get(v, start, b, sizeof b) || (b[4] & 0x7f) != 0)
        return true;
    /* At byte 18: 20 bits of rate, 3 of channels, 5 of sample size, 36 of length. */
    const uint64_t bits = big(b + 18, 8);
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
static bool mpeg_at(struct view *v, uint64_t at, struct mpeg *m)
{
    uint8_t b[4];
    struct mpeg next;
    if (!get(v, at, b, sizeof b) || !mpeg_head(b, m))
        return false;
    uint64_t place = at + m->bytes;
    for (int i = 0; i < 2; i++) {
        if (place >= v->size)
            return true;
        if (!get(v, place, b, sizeof b))
            return place + sizeof b > v->size || v->fd < 0;
        if (begins_with(b, "TAG"))
            return true;
        if (!mpeg_head(b, &next) || next.version != m->version || next.layer != m->layer || next.rate != m->rate)
            return false;
        place += next.bytes;
    }
    return true;
}

static bool mpeg_find(struct view *v, uint64_t *at, struct mpeg *m)
{
    uint8_t b[SYNC_REACH];
    const size_t have = get_some(v, *at, b, sizeof b);
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
static uint64_t mpeg_xing(struct view *v, uint64_t at, uint64_t frame, const struct mpeg *m, struct tr_header *out)
{
    uint8_t b[24];
    uint64_t frames = 0, samples;
    if (!get(v, at, b, 8) || !(begins_with(b, "Xing") || begins_with(b, "Info")))
        return 0;
    const unsigned flags = (unsigned)big(b + 4, 4);
    at += 8;
    if (flags & 1 && get(v, at, b, 4))
        frames = big(b, 4);
    at += flags & 1 ? 4 : 0;
    if (flags & 2 && get(v, at, b, 4) && big(b, 4))
        out->bytes_wanted = frame + big(b, 4);
    at += (flags & 2 ? 4 : 0) + (flags & 4 ? 100 : 0) + (flags & 8 ? 4 : 0);
    samples = frames * m->samples;
    if (get(v, at, b, sizeof b) && (begins_with(b, "LAME") || begins_with(b, "Lav"))) {
        const uint64_t added = (big(b + 21, 3) >> 12) + (big(b + 21, 3) & 0xfff);
        samples -= added < samples ? added : 0;
    }
    return samples;
}

static uint64_t mpeg_vbri(struct view *v, uint64_t frame, const struct mpeg *m, struct tr_header *out)
{
    uint8_t b[18];
    if (!get(v, frame + 36, b, sizeof b) || !begins_with(b, "VBRI"))
        return 0;
    if (big(b + 10, 4))
        out->bytes_wanted = frame + big(b + 10, 4);
    return big(b + 14, 4) * m->samples;
}

static bool parse_mp3(struct view *v, uint64_t start, struct tr_header *out)
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
        if (bytes > 128 && get(v, v->size - 128, tag, sizeof tag) && begins_with(tag, "TAG"))
            bytes -= 128;
        samples = bytes / m.bytes * m.samples;
    }
    out->seconds = (double)samples / m.rate;
    return true;
}

/* --- Ogg -------------------------------------------------------------------- */

struct ogg {
    uint32_t serial;  /* of the audio stream */
    unsigned rate;    /* unit of its times */
    uint64_t skipped; /* samples at its beginning that are not played */
};

struct page {
    int64_t time; /* in samples, at the end of the page; -1: it has none */
    uint32_t serial;
    unsigned head; /* size of the header, before the packets */
    uint64_t bytes;
};

/* Parses the header of a page at the beginning of size bytes. False if it is not a page, or if the header is not
 * complete. */
static bool page_head(const uint8_t *b, uint64_t size, struct page *p)
{
    if (size < PAGE_HEAD || !begins_with(b, "OggS") || b[4] != 0 || size < PAGE_HEAD + (uint64_t)b[26])
        return false;
    *p = (struct page){ (int64_t)little(b + 6, 8), (uint32_t)little(b + 14, 4), PAGE_HEAD + b[26], PAGE_HEAD + b[26] };
    for (unsigned i = PAGE_HEAD; i < p->head; i++)
        p->bytes += b[i];
    return true;
}

/* Parses the first packet of a stream. */
static bool ogg_sound(const uint8_t *b, struct ogg *o, struct tr_header *out)
{
    if (begins_with(b, "\001vorbis")) {
        out->channels = b[11];
        out->rate = o->rate = (unsigned)little(b + 12, 4);
    } else if (begins_with(b, "OpusHead")) {
        out->channels = b[9];
        o->skipped = little(b + 10, 2);
        out->rate = o->rate = 48000;
    } else if (begins_with(b, "\177FLAC")) {
        const uint64_t bits = big(b + 27, 8);
        out->channels = (unsigned)(bits >> 41 & 7) + 1;
        out->rate = o->rate = (unsigned)(bits >> 44);
    } else if (begins_with(b, "Speex   ")) {
        out->rate = o->rate = (unsigned)little(b + 36, 4);
        out->channels = (unsigned)little(b + 48, 4);
    } else {
        return false;
    }
    return true;
}

/* Finds the last page of the stream in the last size bytes of the file. The duration is taken from that page. If the
 * page is not complete, the size that the complete file should have is taken from it too. */
static bool ogg_last(const uint8_t *b, uint64_t size, uint64_t file_size, const struct ogg *o, struct tr_header *out)
{
    struct page p;
    for (uint64_t i = size; i-- > 0;) {
        if (size - i < 4 || !begins_with(b + i, "OggS"))
            continue;
        if (!page_head(b + i, size - i, &p)) {
            /* A page that was cut off may begin here. If not, the bytes only look like a page. */
            if (size - i < PAGE_HEAD + 255 && (size - i < PAGE_HEAD || b[i + 4] == 0))
                out->bytes_wanted = file_size + 1;
            continue;
        }
        if (p.serial != o->serial)
            continue;
        if (p.bytes > size - i)
            out->bytes_wanted = file_size - size + i + p.bytes;
        if (p.time >= 0) {
            const uint64_t end = (uint64_t)p.time;
            out->seconds = o->rate && end > o->skipped ? (double)(end - o->skipped) / o->rate : 0;
            return true;
        }
    }
    return false;
}

static bool ogg_tail(struct view *v, uint64_t size, const struct ogg *o, struct tr_header *out)
{
    size = size < v->size ? size : v->size;
    uint8_t *b = malloc(size);
    const bool found = b && get(v, v->size - size, b, size) && ogg_last(b, size, v->size, o, out);
    free(b);
    return found;
}

static bool parse_ogg(struct view *v, uint64_t start, struct tr_header *out)
{
    uint8_t b[PAGE_HEAD + 255 + 64];
    struct page p;
    struct ogg o = { 0 };
    bool sound = false;
    for (int n = 0; n < MOST_STREAMS && !sound; n++) {
        /* Bytes past the end of the file read as 0. */
        memset(b, 0, sizeof b);
        if (!page_head(b, get_some(v, start, b, sizeof b), &p))
            break;
        sound = ogg_sound(b + p.head, &o, out);
        o.serial = p.serial;
        start += p.bytes;
    }
    if (!sound)
        return false;
    out->format = "Ogg";
    if (v->fd < 0 && v->end_size)
        ogg_last(v->end, v->end_size, v->size, &o, out);
    else if (!ogg_tail(v, TAIL_NEAR, &o, out))
        ogg_tail(v, TAIL_FAR, &o, out);
    return true;
}

/* --- any format ------------------------------------------------------------- */

/* The offset after the ID3v2 tags. */
static uint64_t after_tags(struct view *v)
{
    uint64_t at = 0;
    uint8_t b[10];
    for (int n = 0; n < MOST_TAGS && get(v, at, b, sizeof b) && begins_with(b, "ID3"); n++) {
        /* The size has seven bits in each byte. A footer is as long as the header. */
        const uint64_t size =
            (uint64_t)(b[6] & 127) << 21 | (uint64_t)(b[7] & 127) << 14 | (uint64_t)(b[8] & 127) << 7 | (b[9] & 127);
        at += sizeof b + size + (b[5] & 0x10 ? sizeof b : 0);
    }
    return at;
}

static void parse(struct view *v, struct tr_header *out)
{
    static bool (*const parsers[])(struct view *, uint64_t, struct tr_header *) = { parse_wav, parse_flac, parse_ogg,
                                                                                    parse_mp3 };
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
    struct view v = { .begin = begin, .begin_size = begin_size, .end = end, .size = file_size, .fd = -1 };
    /* Neither the beginning nor the end may be longer than the file. The first bytes of the beginning and the last
     * bytes of the end are used. */
    if (v.begin_size > file_size)
        v.begin_size = file_size;
    v.end_size = end_size < file_size ? end_size : file_size;
    if (v.end_size < end_size)
        v.end += end_size - v.end_size;
    parse(&v, out);
}

int tr_header_read_fd(struct tr_header *out, int fd)
{
    uint8_t begin[BEGIN_SIZE];
    struct stat st;
    *out = (struct tr_header){ 0 };
    if (fstat(fd, &st) < 0)
        return -1;
    struct view v = { .begin = begin, .size = st.st_size > 0 ? (uint64_t)st.st_size : 0, .fd = fd };
    const uint64_t wanted = v.size < sizeof begin ? v.size : sizeof begin;
    if (!S_ISREG(st.st_mode)) {
        errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
        return -1;
    }
    if (!get(&v, 0, begin, wanted))
        goto unread;
    v.begin_size = wanted;
    parse(&v, out);
    if (!v.error)
        return 0;
unread:
    *out = (struct tr_header){ 0 };
    errno = v.error;
    return v.error ? -1 : 0;
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
