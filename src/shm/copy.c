/* Copying into memory that another process will read.
 *
 * A queue of large payloads has several places that are written in turn: source, places and whatever else runs do not
 * stay in the cache together, so each line that an ordinary copy writes is first read from memory and later pushes
 * another one out. Stores that go past the cache leave that traffic out. Measured here (docs/performance.md), with two
 * places in turn: at 10 MB 26 instead of 19 GB/s, at 100 MB 17 instead of 12, and with the reader's part counted in
 * still ahead; at 4 MB, where all fits, they would take twice as long. (C libraries do the same from three quarters of
 * what they take for the size of the cache on, which on a virtual machine may be several times what it is.)
 */
#include "shm/copy.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>

enum { LINE = 64 };

/* All four at once: a line that is written whole need not be read. */
static inline void copy_line(__m128i *to, const __m128i *from)
{
    const __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
    const __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
}

static void copy_past_cache(char *to, const char *from, size_t size)
{
    const size_t head = (LINE - (uintptr_t)to % LINE) % LINE;
    memcpy(to, from, head);
    size_t at = head;
    for (; size - at >= LINE; at += LINE)
        copy_line((__m128i *)(void *)(to + at), (const __m128i *)(const void *)(from + at));
    memcpy(to + at, from + at, size - at);
    _mm_sfence(); /* such stores are not ordered with what is published next */
}

void gd__copy_out(void *to, const void *from, size_t size)
{
    if (size >= GD__COPY_PAST_CACHE)
        copy_past_cache(to, from, size);
    else
        memcpy(to, from, size);
}
#else
void gd__copy_out(void *to, const void *from, size_t size)
{
    memcpy(to, from, size);
}
#endif
