/* SPDX-License-Identifier: MIT
 *
 * Calls gd_command_read() with arbitrary bytes. The pointers that it returns must stay inside these bytes. */
#include <stdio.h>
#include <stdlib.h>

#include "command/output.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond)                                                     \
    do {                                                               \
        if (!(cond)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
            abort();                                                   \
        }                                                              \
    } while (0)

static volatile unsigned char touched;

static void touch(const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        touched ^= (unsigned char)bytes[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gd_command_output o = { .size = sizeof o };
    if (gd_command_read(data, size, &o) < 0) {
        MUST(!o.out && !o.err && o.out_size == 0 && o.err_size == 0);
        return 0;
    }
    const char *end = (const char *)data + size;
    MUST(o.out_size <= size && o.err_size <= size - o.out_size);
    MUST(o.out >= (const char *)data && o.err >= o.out && o.out + o.out_size <= end && o.err + o.err_size <= end);
    touch(o.out, o.out_size);
    touch(o.err, o.err_size);
    return 0;
}
