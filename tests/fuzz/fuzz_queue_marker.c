/* SPDX-License-Identifier: MIT
 *
 * Reads arbitrary bytes as the marker of a suspect. There is one way to write a marker: what is accepted, written again,
 * is the same bytes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "queue/messages/marker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gd__queue_marker marker;
    unsigned char again[GD__QUEUE_MARKER_SIZE];
    uint8_t *copy = malloc(size > 0 ? size : 1); /* exactly as large, so that ASan detects a read past its end */
    if (!copy)
        abort();
    if (size > 0)
        memcpy(copy, data, size);
    const int rc = gd__queue_marker_read(&marker, copy, size);
    if (rc != 0 && rc != GD_E_CORRUPT && rc != GD_E_VERSION)
        abort();
    if (rc == 0) {
        gd__queue_marker_write(again, &marker);
        if (size != sizeof again || memcmp(again, data, size) != 0)
            abort();
    }
    free(copy);
    return 0;
}
