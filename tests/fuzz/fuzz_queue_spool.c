/* SPDX-License-Identifier: MIT
 *
 * Reads arbitrary bytes as a frame of a spool file. Whatever is accepted is written again as the same bytes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "queue/spool/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)   \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gd__spool_frame f;
    struct gd__buffer b = { .data = NULL };
    if (!gd__spool_frame_parse(&f, data, size))
        return 0;
    MUST(f.size <= size);
    if (f.kind == GD__SPOOL_QUEUE)
        gd__spool_frame_queue(&b, f.name, &f.id);
    else if (f.kind == GD__SPOOL_FORGET)
        gd__spool_frame_forget(&b, &f.key);
    else
        gd__spool_frame_keep(&b, &f.key, data + GD__SPOOL_MESSAGE_AT, (size_t)f.size - GD__SPOOL_MESSAGE_AT);
    MUST(b.size == f.size && memcmp(b.data, data, b.size) == 0);
    gd__buffer_free(&b);
    return 0;
}
