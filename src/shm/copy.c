/* Copying into memory that another process will read.
 *
 * A queue of large payloads writes to several places in turn. The source, those places and everything else that runs do
 * not fit into the cache together. So each cache line that an ordinary copy writes is first read from memory, and later
 * pushes another line out. Stores that bypass the cache avoid that traffic. Measured with two places in turn
 * (docs/performance.md): 26 instead of 19 GB/s for 10 MB, and 17 instead of 12 for 100 MB. These stores are still
 * faster if the reader's time is included. For 4 MB, where everything fits into the cache, they would take twice as
 * long. (C libraries do the same for copies above three quarters of what they believe is the size of the cache. On a
 * virtual machine that value may be several times the real size.)
 */
#include "shm/copy.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>

enum { LINE = 64 };

/* Stores all four parts together, so that the processor writes a whole line and need not read it first. */
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
    _mm_sfence(); /* without it these stores may become visible after what is published next */
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
