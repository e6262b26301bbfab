/* SPDX-License-Identifier: MIT
 *
 * Parses the pages of Ogg files.
 *
 * A file is a chain of links, most often of one. A link has one or more streams, whose pages are mixed. It begins with
 * the first page of each of its streams, which has a flag. The packet in the first page of a stream describes its
 * samples, and the last page gives their number. Files become chains if they are joined (cat a.ogg b.ogg), and if a
 * radio station is recorded.
 *
 * Finding all links takes a read for each page. The duration of a file is wanted before that, so pages are counted only
 * if the last page, or one in the middle, shows that there are several links.
 */
#include "apps/transcribe/audio/ogg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_STREAMS = 8,     /* that are looked at */
    PAGE_HEAD = 27,       /* size of the header of a page, without its table of segments */
    TAIL_NEAR = 8192,     /* how far from the end of a file its last page begins, in most files */
    TAIL_FAR = 2 * 65536, /* the same in any file: a page has at most 65307 bytes, and the last few may have no time */
    HEAD_MOST = PAGE_HEAD + 255 + 64, /* the header of a page, and as much of a packet as describes samples */
    SMALL = TAIL_FAR, /* pages of smaller files are always counted: the system reads so much ahead anyway */
    WINDOW = 1024,
    MOST_LINKS = 4096, /* of a longer chain, the duration is not found */
    IS_FIRST = 2       /* flag of the first page of a stream */
};

struct ogg {
    uint32_t serial;  /* of the audio stream */
    unsigned rate;    /* unit of its times */
    uint64_t skipped; /* samples at its beginning that are not played */
    uint32_t serials[MOST_STREAMS];
    size_t n_serials;
    uint32_t last_number; /* of the last page of the audio stream */
    bool foreign;         /* near the end there are pages of other streams than the first ones */
};

struct page {
    int64_t time;            /* in samples, at the end of the page; -1: it has none */
    uint32_t serial, number; /* the pages of a stream are numbered */
    bool first;              /* of its stream */
    unsigned head;           /* size of the header, before the packets */
    uint64_t bytes;
};

/* Parses the header of a page at the beginning of size bytes. False if it is not a page, or if the header is not
 * complete. */
static bool page_head(const uint8_t *b, uint64_t size, struct page *p)
{
    if (size < PAGE_HEAD || !tr_begins_with(b, "OggS") || b[4] != 0 || size < PAGE_HEAD + (uint64_t)b[26])
        return false;
    *p = (struct page){ .time = (int64_t)tr_little(b + 6, 8),
                        .serial = (uint32_t)tr_little(b + 14, 4),
                        .number = (uint32_t)tr_little(b + 18, 4),
                        .first = b[5] & IS_FIRST,
                        .head = PAGE_HEAD + b[26],
                        .bytes = PAGE_HEAD + b[26] };
    for (unsigned i = PAGE_HEAD; i < p->head; i++)
        p->bytes += b[i];
    return true;
}

/* Parses the first packet of a stream. */
static bool ogg_sound(const uint8_t *b, struct ogg *o, struct tr_header *out)
{
    if (tr_begins_with(b, "\001vorbis")) {
        out->channels = b[11];
        out->rate = o->rate = (unsigned)tr_little(b + 12, 4);
    } else if (tr_begins_with(b, "OpusHead")) {
        out->channels = b[9];
        o->skipped = tr_little(b + 10, 2);
        out->rate = o->rate = 48000;
    } else if (tr_begins_with(b, "\177FLAC")) {
        const uint64_t bits = tr_big(b + 27, 8);
        out->channels = (unsigned)(bits >> 41 & 7) + 1;
        out->rate = o->rate = (unsigned)(bits >> 44);
    } else if (tr_begins_with(b, "Speex   ")) {
        out->rate = o->rate = (unsigned)tr_little(b + 36, 4);
        out->channels = (unsigned)tr_little(b + 48, 4);
    } else {
        return false;
    }
    return true;
}

static bool is_ours(const struct ogg *o, uint32_t serial)
{
    for (size_t i = 0; i < o->n_serials; i++) {
        if (o->serials[i] == serial)
            return true;
    }
    return false;
}

/* Finds the last page of the stream in the last size bytes of the file. The duration is taken from that page. If the
 * page is not complete, the size that the complete file should have is taken from it too. */
static bool ogg_last(const uint8_t *b, uint64_t size, uint64_t file_size, struct ogg *o, struct tr_header *out)
{
    struct page p;
    for (uint64_t i = size; i-- > 0;) {
        if (size - i < 4 || !tr_begins_with(b + i, "OggS"))
            continue;
        if (!page_head(b + i, size - i, &p)) {
            /* A page that was cut off may begin here. If not, the bytes only look like a page. */
            if (size - i < PAGE_HEAD + 255 && (size - i < PAGE_HEAD || b[i + 4] == 0))
                out->bytes_wanted = file_size + 1;
            continue;
        }
        o->foreign |= !is_ours(o, p.serial);
        if (p.serial != o->serial)
            continue;
        if (p.bytes > size - i)
            out->bytes_wanted = file_size - size + i + p.bytes;
        if (p.time >= 0) {
            const uint64_t end = (uint64_t)p.time;
            out->seconds = o->rate && end > o->skipped ? (double)(end - o->skipped) / o->rate : 0;
            o->last_number = p.number;
            return true;
        }
    }
    return false;
}

static bool ogg_tail(struct tr_view *v, uint64_t size, struct ogg *o, struct tr_header *out)
{
    size = size < v->size ? size : v->size;
    uint8_t *b = malloc(size);
    const bool found = b && tr_view_get(v, v->size - size, b, size) && ogg_last(b, size, v->size, o, out);
    free(b);
    return found;
}

/* Parses the first pages: those with the flag, and all others up to the one that describes the samples. */
static bool ogg_begin(struct tr_view *v, uint64_t start, struct ogg *o, struct tr_header *out)
{
    uint8_t b[HEAD_MOST];
    struct page p;
    bool sound = false;
    while (o->n_serials < MOST_STREAMS) {
        /* Bytes past the end of the file read as 0. */
        memset(b, 0, sizeof b);
        if (!page_head(b, tr_view_some(v, start, b, sizeof b), &p) || (sound && !p.first))
            break;
        o->serials[o->n_serials++] = p.serial;
        if (!sound && ogg_sound(b + p.head, o, out)) {
            sound = true;
            o->serial = p.serial;
        }
        start += p.bytes;
    }
    return sound;
}

/* Parses a file as if it had only one link. */
static bool parse_link(struct tr_view *v, uint64_t start, struct ogg *o, struct tr_header *out)
{
    *o = (struct ogg){ 0 };
    if (!ogg_begin(v, start, o, out))
        return false;
    out->format = "Ogg";
    if (v->fd < 0 && v->end_size)
        ogg_last(v->end, v->end_size, v->size, o, out);
    else if (!ogg_tail(v, TAIL_NEAR, o, out))
        ogg_tail(v, TAIL_FAR, o, out);
    return true;
}

/* --- chains ----------------------------------------------------------------- */

/* Goes from page to page. The window holds n bytes from the offset `at` on. */
struct walk {
    struct tr_view *v;
    uint64_t at;
    size_t n;
    uint8_t window[WINDOW];
};

/* Returns the bytes at an offset. *n is their number: a header of a page, unless the file ends before. */
static const uint8_t *look(struct walk *w, uint64_t at, size_t *n)
{
    const bool within = at >= w->at && at - w->at <= w->n;
    const size_t skipped = within ? (size_t)(at - w->at) : 0;
    if (!within || (w->n - skipped < HEAD_MOST && w->at + w->n < w->v->size)) {
        w->at = at;
        w->n = tr_view_some(w->v, at, w->window, sizeof w->window);
        *n = w->n;
        return w->window;
    }
    *n = w->n - skipped;
    return w->window + skipped;
}

/* Finds the first page that begins at the offset or after it. */
static bool find_page(struct walk *w, uint64_t *at, struct page *p)
{
    size_t n;
    for (;;) {
        const uint8_t *b = look(w, *at, &n);
        if (n < 4)
            return false;
        if (page_head(b, n, p))
            return true;
        const uint8_t *next = memmem(b + 1, n - 1, "OggS", 4);
        *at += next ? (size_t)(next - b) : n - 3;
    }
}

/* The offset from which on the next page is searched for. A page may have been cut off, and another file joined to it.
 * So the bytes of a page are skipped only if a page follows them, or the end of the file. */
static uint64_t after_page(struct walk *w, uint64_t at, const struct page *p)
{
    const uint64_t end = at + p->bytes;
    size_t n = 0;
    const uint8_t *b = end < w->v->size ? look(w, end, &n) : NULL;
    return end == w->v->size || (n >= 4 && tr_begins_with(b, "OggS")) ? end : at + p->head;
}

/* The offset at which the next link begins, or the size of the file. */
static uint64_t link_end(struct walk *w, uint64_t at)
{
    struct page p;
    for (bool begun = false; find_page(w, &at, &p); at = after_page(w, at, &p)) {
        if (begun && p.first)
            return at;
        begun |= !p.first;
    }
    return w->v->size;
}

/* Whether the file may have more links. In one link, the number of a page in the middle is between those of the first
 * and the last page. */
static bool may_be_chain(struct tr_view *v, const struct ogg *o)
{
    struct walk w = { .v = v };
    struct page p;
    uint64_t middle = v->size / 2;
    if (v->fd < 0 && v->begin_size < v->size)
        return false; /* only a part of the file can be read */
    if (o->foreign || v->size <= SMALL)
        return true;
    if (!find_page(&w, &middle, &p))
        return false;
    return p.first || !is_ours(o, p.serial) || (p.serial == o->serial && p.number >= o->last_number);
}

static struct tr_view part_of(const struct tr_view *v, uint64_t from, uint64_t end)
{
    struct tr_view part = { .size = end - from, .from = v->from + from, .fd = v->fd };
    if (v->begin_size == v->size) {
        part.begin = v->begin + from;
        part.begin_size = part.size;
    }
    return part;
}

/* Adds up the links, if there are several. */
static void parse_links(struct tr_view *v, uint64_t start, struct tr_header *out)
{
    struct walk w = { .v = v };
    double seconds = 0;
    uint64_t missing = 0;
    size_t n = 0;
    for (uint64_t end; start < v->size && n <= MOST_LINKS; start = end, n++) {
        struct tr_header h = { 0 };
        struct ogg o;
        end = link_end(&w, start);
        if (n == 0 && end == v->size)
            return;
        struct tr_view part = part_of(v, start, end);
        parse_link(&part, 0, &o, &h);
        v->error = part.error ? part.error : v->error;
        seconds += h.seconds;
        missing += h.bytes_wanted > part.size ? h.bytes_wanted - part.size : 0;
    }
    out->seconds = n <= MOST_LINKS ? seconds : 0;
    out->bytes_wanted = missing ? v->size + missing : 0;
}

bool tr_ogg_parse(struct tr_view *v, uint64_t start, struct tr_header *out)
{
    struct ogg o;
    if (!parse_link(v, start, &o, out))
        return false;
    if (may_be_chain(v, &o))
        parse_links(v, start, out);
    return true;
}

int tr_ogg_link(int fd, uint64_t from, uint64_t size, uint64_t *end)
{
    struct tr_view v = { .size = size, .fd = fd };
    struct walk w = { .v = &v };
    *end = link_end(&w, from);
    errno = v.error;
    return v.error ? -1 : 0;
}
