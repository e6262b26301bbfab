/* SPDX-License-Identifier: MIT
 *
 * Audio files made byte by byte. They may contain data that no encoder would write.
 */
#ifndef GD_TESTS_TRANSCRIBE_HEADERS_H
#define GD_TESTS_TRANSCRIBE_HEADERS_H

#include <math.h>

#include "apps/transcribe/audio/header.h"
#include "support/directory.h"
#include "support/test.h"

struct made {
    uint8_t *bytes;
    size_t size, room;
};

TEST_UNUSED static void put(struct made *m, const void *bytes, size_t n)
{
    if (n == 0)
        return;
    if (m->size + n > m->room) {
        m->room = (m->size + n) * 2;
        m->bytes = realloc(m->bytes, m->room);
        CHECK(m->bytes != NULL);
    }
    if (bytes)
        memcpy(m->bytes + m->size, bytes, n);
    else
        memset(m->bytes + m->size, 0, n);
    m->size += n;
}

TEST_UNUSED static void put_text(struct made *m, const char *text)
{
    put(m, text, strlen(text));
}

TEST_UNUSED static void put_little(struct made *m, uint64_t value, int n)
{
    for (int i = 0; i < n; i++)
        put(m, &(uint8_t){ (uint8_t)(value >> 8 * i) }, 1);
}

TEST_UNUSED static void put_big(struct made *m, uint64_t value, int n)
{
    for (int i = n; i-- > 0;)
        put(m, &(uint8_t){ (uint8_t)(value >> 8 * i) }, 1);
}

TEST_UNUSED static void drop(struct made *m)
{
    free(m->bytes);
    *m = (struct made){ 0 };
}

TEST_UNUSED static void save(const struct made *m, const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, m->bytes, m->size), m->size);
    close(fd);
}

/* --- WAV ---------------------------------------------------------------------- */

struct wav_spec {
    unsigned format, channels, rate, bits;
    uint32_t data_claimed; /* the size in the header of the chunk */
    size_t data;           /* the real size */
};

TEST_UNUSED static void put_chunk(struct made *m, const char *id, const void *bytes, size_t n)
{
    put_text(m, id);
    put_little(m, n, 4);
    put(m, bytes, n + (n & 1));
}

TEST_UNUSED static void put_fmt(struct made *m, const struct wav_spec *w)
{
    const unsigned frame = w->channels * ((w->bits + 7) / 8);
    put_text(m, "fmt ");
    put_little(m, 16, 4);
    put_little(m, w->format, 2);
    put_little(m, w->channels, 2);
    put_little(m, w->rate, 4);
    put_little(m, (uint64_t)w->rate * frame, 4);
    put_little(m, frame, 2);
    put_little(m, w->bits, 2);
}

TEST_UNUSED static struct made make_wav(const struct wav_spec *w)
{
    struct made m = { 0 };
    put_text(&m, "RIFF");
    put_little(&m, 36 + w->data, 4);
    put_text(&m, "WAVE");
    put_fmt(&m, w);
    put_text(&m, "data");
    put_little(&m, w->data_claimed, 4);
    put(&m, NULL, w->data);
    return m;
}

TEST_UNUSED static void begin_riff(struct made *m, const char *id)
{
    put_text(m, id);
    put_little(m, 0xffffffff, 4);
    put_text(m, "WAVE");
}

TEST_UNUSED static void put_extensible(struct made *m, unsigned kind)
{
    put_text(m, "fmt ");
    put_little(m, 40, 4);
    put_little(m, 0xfffe, 2);
    put_little(m, 6, 2);
    put_little(m, 48000, 4);
    put_little(m, 1, 4); /* bytes per second: wrong, but not used */
    put_little(m, 18, 2);
    put_little(m, 24, 2);
    put(m, NULL, 8);
    put_little(m, kind, 2);
    put(m, NULL, 14);
}

/* --- FLAC --------------------------------------------------------------------- */

TEST_UNUSED static void put_flac(struct made *m, unsigned rate, unsigned channels, uint64_t samples)
{
    put_text(m, "fLaC");
    put_big(m, 0x80000022, 4);
    put(m, NULL, 10);
    put_big(m, (uint64_t)rate << 44 | (uint64_t)(channels - 1) << 41 | (uint64_t)15 << 36 | samples, 8);
    put(m, NULL, 16);
}

TEST_UNUSED static void put_id3(struct made *m, size_t size)
{
    put_text(m, "ID3");
    put(m, "\4\0\0", 3);
    for (int shift = 21; shift >= 0; shift -= 7)
        put(m, &(uint8_t){ (uint8_t)(size >> shift & 127) }, 1);
    put(m, NULL, size);
}

/* --- Ogg ---------------------------------------------------------------------- */

/* A page whose packets have `whole` bytes, of which only `there` are written. */
TEST_UNUSED static void put_page(struct made *m, uint32_t serial, int64_t time, const void *packet, size_t whole,
                                 size_t there)
{
    const unsigned segments = (unsigned)(whole / 255 + 1);
    put_text(m, "OggS");
    put(m, NULL, 2);
    put_little(m, (uint64_t)time, 8);
    put_little(m, serial, 4);
    put(m, NULL, 8);
    put(m, &(uint8_t){ (uint8_t)segments }, 1);
    for (unsigned i = 0; i + 1 < segments; i++)
        put(m, "\377", 1);
    put(m, &(uint8_t){ (uint8_t)(whole % 255) }, 1);
    put(m, packet, there);
}

/* The first page of a stream, with its flag. */
TEST_UNUSED static void put_first_page(struct made *m, uint32_t serial, const void *packet, size_t size)
{
    const size_t at = m->size;
    put_page(m, serial, 0, packet, size, size);
    m->bytes[at + 5] = 2;
}

/* Numbers the page with a packet of this size that was added last. */
TEST_UNUSED static void number_page(struct made *m, size_t packet_size, uint32_t number)
{
    uint8_t *page = m->bytes + m->size - packet_size - (packet_size / 255 + 1) - 27;
    for (int i = 0; i < 4; i++)
        page[18 + i] = (uint8_t)(number >> 8 * i);
}

TEST_UNUSED static void put_vorbis(struct made *m, uint32_t serial, unsigned channels, unsigned rate)
{
    struct made p = { 0 };
    put_text(&p, "\1vorbis");
    put(&p, NULL, 4);
    put_little(&p, channels, 1);
    put_little(&p, rate, 4);
    put(&p, NULL, 14);
    put_page(m, serial, 0, p.bytes, p.size, p.size);
    drop(&p);
}

TEST_UNUSED static void put_opus(struct made *m, uint32_t serial, unsigned channels, unsigned skipped)
{
    struct made p = { 0 };
    put_text(&p, "OpusHead\1");
    put_little(&p, channels, 1);
    put_little(&p, skipped, 2);
    put_little(&p, 16000, 4);
    put(&p, NULL, 3);
    put_page(m, serial, 0, p.bytes, p.size, p.size);
    drop(&p);
}

/* --- MP3 ---------------------------------------------------------------------- */

enum { CBR_HEAD = 0x90, CBR_BYTES = 417 }; /* MPEG 1, layer III, 128 kbit/s, 44100 Hz */

TEST_UNUSED static void put_frame(struct made *m)
{
    put(m, "\377\373\220\0", 4);
    put(m, NULL, CBR_BYTES - 4);
}

/* A frame with a table, which follows the side information of the frame. */
TEST_UNUSED static void put_table_frame(struct made *m, const struct made *table)
{
    const size_t end = m->size + CBR_BYTES;
    put(m, "\377\373\220\0", 4);
    put(m, NULL, 32);
    put(m, table->bytes, table->size);
    put(m, NULL, end - m->size);
}

TEST_UNUSED static struct made xing_table(uint32_t frames, uint32_t bytes, unsigned delay, unsigned padding)
{
    struct made t = { 0 };
    put_text(&t, "Xing");
    put_big(&t, 15, 4);
    put_big(&t, frames, 4);
    put_big(&t, bytes, 4);
    put(&t, NULL, 104);
    put_text(&t, "LAME3.100");
    put(&t, NULL, 12);
    put_big(&t, (uint64_t)delay << 12 | padding, 3);
    return t;
}

/* --- the headers that are read from these files ------------------------------------ */

TEST_UNUSED static struct tr_header of(const struct made *m)
{
    struct tr_header h;
    tr_header_parse(&h, m->bytes, m->size, m->bytes, m->size, m->size);
    return h;
}

#define CHECK_SECONDS(h, wanted)                                                          \
    do {                                                                                  \
        if (fabs((h).seconds - (wanted)) > 1e-9)                                          \
            FAIL("%s plays %.9f s, not %.9f", (h).format, (h).seconds, (double)(wanted)); \
    } while (0)

TEST_UNUSED static void is_none(const struct tr_header *h)
{
    CHECK(h->format == NULL && h->seconds == 0);
    CHECK(h->rate == 0 && h->channels == 0 && h->bytes_wanted == 0 && h->data_at == 0);
}

#endif
