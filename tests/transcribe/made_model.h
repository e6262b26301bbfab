/* SPDX-License-Identifier: MIT
 *
 * The smallest possible model files. A case changes the part that it tests:
 *
 *     begin();
 *     made.bins = 400;
 *     struct gd__buffer b = build(16);
 */
#ifndef GD_TESTS_TRANSCRIBE_MADE_MODEL_H
#define GD_TESTS_TRANSCRIBE_MADE_MODEL_H

#include <endian.h>
#include <sys/stat.h>

#include "apps/transcribe/model/model.h"
#include "base/text/buffer.h"
#include "support/directory.h"

static struct made {
    int32_t magic, sizes[11], bands, bins, tokens;
    const char *token;
    int32_t token_size; /* the size that the file claims; -1: the true size */
    int32_t dimensions, name_size, type, side;
    int tensors; /* how many are written */
    int32_t conv_type;
} made;

enum {
    VOCAB,
    AUDIO_CTX,
    AUDIO_STATE,
    AUDIO_HEAD,
    AUDIO_LAYER,
    TEXT_CTX,
    TEXT_STATE,
    TEXT_HEAD,
    TEXT_LAYER,
    MELS,
    TYPE
};

TEST_UNUSED static void begin(void)
{
    made = (struct made){
        .magic = 0x67676d6c,
        .sizes = { 51864, 1500, 64, 1, 1, 448, 64, 1, 1, 2, 1 },
        .bands = 2,
        .bins = 201,
        .tokens = 3,
        .token = " ",
        .token_size = -1,
        .dimensions = 1,
        .name_size = -1,
        .side = 4,
        .tensors = 11 + 15 + 24,
        .conv_type = 1,
    };
}

TEST_UNUSED static void put(struct gd__buffer *b, int32_t value)
{
    const uint32_t raw = htole32((uint32_t)value);
    gd__buffer_add(b, &raw, sizeof raw);
}

TEST_UNUSED static void put_zeros(struct gd__buffer *b, size_t n)
{
    static const char zeros[1024];
    for (; n > 0; n -= n < sizeof zeros ? n : sizeof zeros)
        gd__buffer_add(b, zeros, n < sizeof zeros ? n : sizeof zeros);
}

TEST_UNUSED static void put_tensor(struct gd__buffer *b, const char *name, int32_t type, size_t bytes)
{
    put(b, made.dimensions);
    put(b, made.name_size >= 0 ? made.name_size : (int32_t)strlen(name));
    put(b, type);
    for (int i = 0; i < made.dimensions && i < 8; i++)
        put(b, i == 0 ? made.side : 1);
    gd__buffer_text(b, name);
    put_zeros(b, bytes);
}

TEST_UNUSED static void write_bytes(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "we");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        FAIL("%s: %s", path, strerror(errno));
}

/* The bytes of the file. Its first tensor has `bytes` bytes of data and the type of `made`. */
TEST_UNUSED static struct gd__buffer build(size_t bytes)
{
    struct gd__buffer b = { 0 };
    put(&b, made.magic);
    for (int i = 0; i < 11; i++)
        put(&b, made.sizes[i]);
    put(&b, made.bands);
    put(&b, made.bins);
    put_zeros(&b, (size_t)made.bands * (size_t)made.bins * 4);
    put(&b, made.tokens);
    for (int i = 0; i < made.tokens && i < 100; i++) {
        const char *token = i == 1 ? made.token : "word";
        put(&b, i == 1 && made.token_size >= 0 ? made.token_size : (int32_t)strlen(token));
        gd__buffer_text(&b, token);
    }
    for (int i = 0; i < made.tensors; i++)
        put_tensor(&b, i == 7 ? "encoder.conv1.weight" : "a.tensor",
                   i == 0   ? made.type
                   : i == 7 ? made.conv_type
                            : 0,
                   i == 0 ? bytes : (size_t)made.side * (i == 7 ? 2 : 4));
    CHECK(!b.failed);
    return b;
}

#endif
