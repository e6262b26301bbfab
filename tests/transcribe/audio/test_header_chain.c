/* SPDX-License-Identifier: MIT
 *
 * The headers of Ogg files of several streams, one after the other, made byte by byte.
 */
#include "transcribe/headers.h"

/* The header, read from memory and from a file. */
static struct tr_header both(const struct made *m)
{
    struct tr_header h, read;
    tr_header_parse(&h, m->bytes, m->size, m->bytes, m->size, m->size);
    directory_enter();
    save(m, "a.ogg");
    CHECK_EQ(tr_header_read(&read, "a.ogg"), 0);
    CHECK(read.seconds == h.seconds && read.bytes_wanted == h.bytes_wanted);
    CHECK_EQ(read.rate, h.rate);
    CHECK_EQ(read.channels, h.channels);
    return read;
}

/* A stream of `pages` pages of a second each, after its first page. */
static void put_link(struct made *m, uint32_t serial, unsigned rate, int pages, size_t page_size)
{
    struct made first = { 0 };
    put_text(&first, "\1vorbis");
    put(&first, NULL, 4);
    put_little(&first, 1, 1);
    put_little(&first, rate, 4);
    put(&first, NULL, 14);
    put_first_page(m, serial, first.bytes, first.size);
    drop(&first);
    for (int i = 1; i <= pages; i++) {
        put_page(m, serial, (int64_t)rate * i, NULL, page_size, page_size);
        number_page(m, page_size, (uint32_t)i);
    }
}

TEST(durations_are_added)
{
    struct made m = { 0 };
    double seconds = 0;
    for (int i = 1; i <= 20; i++) {
        put_link(&m, 100 + (uint32_t)i, 8000 * (unsigned)i, i, 500);
        seconds += i;
        const struct tr_header h = both(&m);
        CHECK(fabs(h.seconds - seconds) < 1e-6);
        CHECK_EQ(h.rate, 8000);
        CHECK_EQ(h.bytes_wanted, 0);
    }
    drop(&m);
}

/* In files of each size, the same stream comes twice, and pages have numbers as encoders write them. */
TEST(the_same_stream_twice)
{
    for (int pages = 1; pages < 3000; pages = pages * 3 + 1) {
        struct made m = { 0 };
        put_link(&m, 7, 16000, pages, 1000);
        CHECK(fabs(both(&m).seconds - pages) < 1e-6);
        put_link(&m, 7, 16000, pages, 1000);
        CHECK(fabs(both(&m).seconds - 2.0 * pages) < 1e-6);
        drop(&m);
    }
}

/* A cut at any byte is noticed if it is within a page, and never gives a wrong duration. */
TEST(a_cut_at_each_byte)
{
    struct made m = { 0 };
    put_link(&m, 1, 16000, 2, 300);
    const size_t first = m.size;
    put_link(&m, 2, 8000, 1, 300);
    const size_t all = m.size, last = all - (300 + 27 + 2);
    for (size_t size = first + 4; size < all; size++) {
        struct tr_header h;
        tr_header_parse(&h, m.bytes, size, m.bytes, size, size);
        const bool within = size >= last + 4;
        if (within && (h.bytes_wanted <= size || h.bytes_wanted > all))
            FAIL("with %zu of %zu bytes: %zu are needed", size, all, (size_t)h.bytes_wanted);
        if (h.seconds < 2 - 1e-6 || h.seconds > 3 + 1e-6)
            FAIL("with %zu of %zu bytes: %.3f s", size, all, h.seconds);
    }
    drop(&m);
}

/* Streams whose pages are mixed are not a chain. */
TEST(several_streams_at_once)
{
    struct made m = { 0 };
    put_first_page(&m, 1, "\200theora", 7);
    put_link(&m, 2, 16000, 3, 300);
    put_page(&m, 1, 5, NULL, 4000, 4000);
    put_page(&m, 2, 64000, NULL, 300, 300);
    put_page(&m, 1, 6, NULL, 4000, 4000);
    const struct tr_header h = both(&m);
    CHECK(fabs(h.seconds - 4) < 1e-6);
    drop(&m);
}

/* If only the beginning and the end are given, the duration is not known, rather than wrong. */
TEST(a_chain_that_cannot_be_read_whole)
{
    struct made m = { 0 };
    put_link(&m, 1, 16000, 100, 1000);
    put_link(&m, 2, 16000, 100, 1000);
    struct tr_header h;
    tr_header_parse(&h, m.bytes, 8192, m.bytes + m.size - 8192, 8192, m.size);
    CHECK_STR(h.format, "Ogg");
    CHECK(h.seconds == 0);
    drop(&m);
}

/* So many streams that opening each of them would take too long. */
TEST(a_very_long_chain)
{
    struct made m = { 0 };
    for (uint32_t i = 0; i < 5000; i++)
        put_link(&m, i, 16000, 1, 10);
    CHECK(both(&m).seconds == 0);
    drop(&m);
}

TEST_MAIN()
