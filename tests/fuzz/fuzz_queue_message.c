/* SPDX-License-Identifier: MIT
 *
 * Reads arbitrary bytes as a message of a queue: as they are, or as the items of a message with a valid header, so that
 * all checks of items are reached. The first byte chooses. There is one way to write a message: what is accepted, written
 * again from its items, is the same bytes with the same key.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "queue/messages/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)   \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

/* Adds the bytes of a text, so that ASan checks each of them. */
static unsigned touched(struct gd__queue_text t)
{
    unsigned sum = 0;
    for (size_t i = 0; i < t.size; i++)
        sum += (unsigned char)t.at[i];
    return sum;
}

static void check_again(struct gd__queue_writer *w, const uint8_t *message, size_t size)
{
    struct gd__queue_reader r;
    struct gd__queue_key key;
    MUST(gd__queue_message_end(w, &key) == 0);
    MUST(w->message.size == size && memcmp(w->message.data, message, size) == 0);
    MUST((w->kind == GD__QUEUE_TASK ? gd__queue_tasks_open(&r, message, size, &key)
                                    : gd__queue_records_open(&r, message, size, &key)) == 0);
    gd__queue_writer_free(w);
}

static void try_tasks(const uint8_t *message, size_t size)
{
    struct gd__queue_reader r;
    struct gd__queue_writer w;
    struct gd__queue_task t;
    const int rc = gd__queue_tasks_open(&r, message, size, NULL);
    MUST(rc == 0 || rc == GD_E_CORRUPT || rc == GD_E_VERSION);
    if (rc < 0)
        return;
    MUST(r.items > 0 && r.items <= size);
    gd__queue_tasks_begin(&w, size);
    w.suspect = r.suspect;
    while (gd__queue_tasks_next(&r, &t)) {
        (void)(touched(t.version) + touched(t.payload.bytes) + touched(t.payload.file));
        MUST(gd__queue_tasks_add(&w, &t) == 0);
    }
    check_again(&w, message, size);
}

static void try_records(const uint8_t *message, size_t size)
{
    struct gd__queue_reader r;
    struct gd__queue_writer w;
    struct gd__queue_record e;
    const int rc = gd__queue_records_open(&r, message, size, NULL);
    MUST(rc == 0 || rc == GD_E_CORRUPT || rc == GD_E_VERSION);
    if (rc < 0)
        return;
    MUST(r.items > 0 && r.items <= size);
    gd__queue_records_begin(&w, size, r.nonce, r.host);
    while (gd__queue_records_next(&r, &e)) {
        (void)(touched(e.gpu) + touched(e.failure) + touched(e.error) + touched(e.stderr_end));
        (void)(touched(e.output.bytes) + touched(e.output.file));
        MUST(gd__queue_records_add(&w, &e) == 0);
    }
    check_again(&w, message, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const bool records = data[0] & 1, header = data[0] & 2;
    const size_t before = header ? 16 : 0, length = before + size - 2;
    uint8_t *message = malloc(length > 0 ? length : 1); /* exactly as large, so that ASan detects a read past its end */
    MUST(message);
    if (header) {
        memcpy(message, records ? "GDQr\1\0\0\0\0\0\0\0\0\0\0" : "GDQt\1\0\0\0\0\0\0\0\0\0\0", before);
        message[8] = data[1];
        for (size_t i = 0; i < 4; i++)
            message[12 + i] = (uint8_t)(length >> (8 * i));
    }
    if (size > 2)
        memcpy(message + before, data + 2, size - 2);
    if (records)
        try_records(message, length);
    else
        try_tasks(message, length);
    free(message);
    return 0;
}
