/* SPDX-License-Identifier: MIT
 *
 * Reads headers of audio files from arbitrary bytes. The first byte of an input chooses how the rest is passed: all of
 * it, only its beginning and end, or with a file size that is too large or too small. The rest is the file. Checks:
 *
 *   - no byte outside the given parts is read (ASan sees it, because each part has its own allocation)
 *   - the reported duration is possible, and the format is known
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/transcribe/audio/header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond)                                                     \
    do {                                                               \
        if (!(cond)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
            abort();                                                   \
        }                                                              \
    } while (0)

static uint8_t *copy(const uint8_t *data, size_t size)
{
    uint8_t *bytes = malloc(size ? size : 1);
    MUST(bytes != NULL);
    if (size)
        memcpy(bytes, data, size);
    return bytes;
}

static void show(const uint8_t *data, size_t begin_size, size_t end_at, size_t size, uint64_t file_size)
{
    struct tr_header h;
    uint8_t *begin = copy(data, begin_size), *end = copy(data + end_at, size - end_at);
    tr_header_parse(&h, begin, begin_size, end, size - end_at, file_size);
    MUST(isfinite(h.seconds) && h.seconds >= 0);
    MUST(h.format || (h.seconds == 0 && h.rate == 0 && h.channels == 0 && h.bytes_wanted == 0 && h.data_at == 0));
    MUST(h.data_at <= file_size);
    free(end);
    free(begin);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const uint8_t how = *data++;
    size--;
    const size_t cut = size * (how >> 4) / 15;
    switch (how & 3) {
    case 0:
        show(data, size, 0, size, size);
        break;
    case 1:
        show(data, cut, cut, size, size);
        break;
    case 2:
        show(data, size, cut, size, (uint64_t)size << (how >> 2 & 63));
        break;
    default:
        show(data, size, size, size, cut);
    }
    return 0;
}
