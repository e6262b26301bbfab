/* SPDX-License-Identifier: MIT
 *
 * Reads arbitrary bytes as a subject of a queue, and as a key. Whatever is accepted is written again as the same text.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "queue/names/subject.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)   \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gd__queue_subject s;
    struct gd__queue_key key;
    char again[GD__QUEUE_SUBJECT_ROOM];
    char *text = malloc(size + 1);
    MUST(text);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    int rc = gd__queue_subject_parse(&s, "q", text);
    MUST(rc == 0 || rc == GD_E_CORRUPT);
    MUST(rc != 0 || strcmp(gd__queue_subject_text(again, "q", &s), text) == 0);
    rc = gd__queue_key_parse(&key, text);
    MUST(rc == 0 || rc == GD_E_CORRUPT);
    MUST(rc != 0 || strcmp(gd__queue_key_text(again, &key), text) == 0);
    free(text);
    return 0;
}
