/* SPDX-License-Identifier: MIT
 *
 * Reads arbitrary bytes as the file of a deal: as they are, and with the right header and checksum, so that all checks of
 * entries are reached. Every owner is a shard. Then takes the bytes as keys, writes a deal of them, and reads it back.
 * The first byte chooses.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash/key.h"
#include "shard/deal_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SHARDS = 7, ITEMS = 64 };

#define MUST(condition)   \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

/* Parses a copy of exactly that size, so that ASan detects a read past its end. */
static struct gd__deal *parse(const void *text, size_t size)
{
    struct gd__deal *d = NULL;
    char *copy = malloc(size ? size : 1);
    MUST(copy);
    if (size > 0)
        memcpy(copy, text, size);
    const int rc = gd__deal_parse(&d, copy, size, SHARDS, "x");
    MUST((rc == 0) == (d != NULL));
    free(copy);
    return d;
}

static void try_text(const void *text, size_t size)
{
    struct gd__deal *d = parse(text, size);
    if (!d)
        return;
    MUST(gd__deal_shards(d) == SHARDS && gd__deal_entries(d) <= size);
    MUST(gd__deal_owner(d, text, size) < SHARDS && gd__deal_owner(d, "a", 1) < SHARDS);
    gd__deal_close(&d);
}

/* The entries are the input. Their number is the number of its lines, so that it is usually right. */
static void try_entries(const char *entries, size_t size)
{
    struct gd__buffer b = { 0 };
    unsigned char hash[GD__HASH_SIZE];
    unsigned lines = 0;
    for (size_t i = 0; i < size; i++)
        lines += entries[i] == '\n';
    gd__buffer_format(&b, "gpu_dispatch deal 1\nshards %d\nentries %u\n", SHARDS, lines);
    gd__buffer_add(&b, entries, size);
    MUST(!b.failed);
    gd__key_hash(b.data, b.size, hash);
    gd__buffer_text(&b, "checksum ");
    for (size_t i = 0; i < sizeof hash; i++)
        gd__buffer_format(&b, "%02x", hash[i]);
    gd__buffer_text(&b, "\n");
    MUST(!b.failed);
    try_text(b.data, b.size);
    gd__buffer_free(&b);
}

/* A key is a byte with its size, and its bytes. The first byte of a key is also the size of the task. */
static void try_keys(const uint8_t *data, size_t size)
{
    struct gd__deal_item items[ITEMS];
    struct gd__buffer b = { 0 };
    size_t n = 0, at = 0;
    while (at < size && n < ITEMS) {
        const size_t length = data[at] < size - at - 1 ? data[at] : size - at - 1;
        items[n++] = (struct gd__deal_item){ data + at + 1, length, length > 0 ? data[at + 1] : 0, 0 };
        at += 1 + length;
    }
    MUST(gd__deal_items(items, &n, SHARDS) == 0 && gd__deal_write(&b, items, n, SHARDS) == 0);
    struct gd__deal *d = parse(b.data, b.size);
    MUST(d && gd__deal_entries(d) == n);
    for (size_t i = 0; i < n; i++)
        MUST(items[i].shard < SHARDS && gd__deal_owner(d, items[i].key, items[i].key_size) == items[i].shard);
    gd__deal_close(&d);
    gd__buffer_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] % 3 == 0)
        try_text(data + 1, size - 1);
    else if (data[0] % 3 == 1)
        try_entries((const char *)data + 1, size - 1);
    else
        try_keys(data + 1, size - 1);
    return 0;
}
