/* SPDX-License-Identifier: MIT
 *
 * A meaningless multilingual model in whisper.cpp's format. It has 99 languages, detects German in every file, and
 * gives all words the same probability, so that random numbers choose them. If `sure` is set, it has two words, each
 * with the highest possible probability. Its weights are 0 except for the last layer's bias and the table of tokens.
 * Their product is its output for any audio.
 */
#ifndef GD_TESTS_TRANSCRIBE_FLAT_MODEL_H
#define GD_TESTS_TRANSCRIBE_FLAT_MODEL_H

#include "support/test.h"

enum {
    FLAT_WIDTH = 64,
    FLAT_VOCAB = 51865,
    FLAT_WORDS = 50257, /* tokens that are text */
    FLAT_AUDIO = 1536,
    FLAT_TEXT = 64, /* tokens; the text of a window has half as many */
    FLAT_MELS = 80,
    FLAT_GERMAN = 50258 + 3, /* the token of German */
    FLAT_TIME = 50364 + 1000 /* the token of 20 s; a window that ends earlier is tried again */,
    FLAT_F16 = 1,
};

/* 16-bit floating-point numbers. German has the value 5. The other languages have the value 0. */
enum { FLAT_5 = 0x4500, FLAT_20 = 0x4d00, FLAT_21 = 0x4d40 };
#define FLAT_PROBABILITY "0.6022" /* among the 99 languages of the model */

static void flat_ints(FILE *f, const int32_t *numbers, size_t n)
{
    CHECK_EQ(fwrite(numbers, sizeof *numbers, n, f), n);
}

static void flat_zeros(FILE *f, size_t bytes)
{
    static const char zeros[4096];
    for (; bytes > 0; bytes -= bytes < sizeof zeros ? bytes : sizeof zeros)
        CHECK(fwrite(zeros, bytes < sizeof zeros ? bytes : sizeof zeros, 1, f) == 1);
}

/* Writes the header of a tensor and its zeros. The fastest dimension comes first; 0: no such dimension. */
static void flat_tensor(FILE *f, const char *name, int type, int a, int b, int c)
{
    const int32_t dims[] = { a, b, c }, n = c ? 3 : b ? 2 : 1, size = (int32_t)strlen(name);
    flat_ints(f, (const int32_t[]){ n, size, type }, 3);
    flat_ints(f, dims, (size_t)n);
    fputs(name, f);
    flat_zeros(f, (size_t)a * (size_t)(b ? b : 1) * (size_t)(c ? c : 1) * (type == FLAT_F16 ? 2 : 4));
}

static void flat_pair(FILE *f, const char *block, const char *name, int in, int out, bool matrix)
{
    char full[100];
    snprintf(full, sizeof full, "%s%s.weight", block, name);
    if (matrix)
        flat_tensor(f, full, FLAT_F16, in, out, 0);
    else
        flat_tensor(f, full, 0, out, 0, 0);
    snprintf(full, sizeof full, "%s%s.bias", block, name);
    if (!strstr(name, "key"))
        flat_tensor(f, full, 0, out, 0, 0);
}

static void flat_attention(FILE *f, const char *block, const char *name)
{
    static const char *const parts[] = { "query", "key", "value", "out" };
    char full[100];
    snprintf(full, sizeof full, "%s_ln", name);
    flat_pair(f, block, full, 0, FLAT_WIDTH, false);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(full, sizeof full, "%s.%s", name, parts[i]);
        flat_pair(f, block, full, FLAT_WIDTH, FLAT_WIDTH, true);
    }
}

static void flat_block(FILE *f, const char *block)
{
    flat_pair(f, block, "mlp_ln", 0, FLAT_WIDTH, false);
    flat_pair(f, block, "mlp.0", FLAT_WIDTH, 4 * FLAT_WIDTH, true);
    flat_pair(f, block, "mlp.2", 4 * FLAT_WIDTH, FLAT_WIDTH, true);
    flat_attention(f, block, "attn");
}

static void flat_head(FILE *f)
{
    flat_ints(f,
              (const int32_t[]){ 0x67676d6c, FLAT_VOCAB, FLAT_AUDIO, FLAT_WIDTH, 1, 1, FLAT_TEXT, FLAT_WIDTH, 1, 1,
                                 FLAT_MELS, FLAT_F16, FLAT_MELS, 201 },
              14);
    flat_zeros(f, (size_t)FLAT_MELS * 201 * sizeof(float));
    flat_ints(f, (const int32_t[]){ FLAT_WORDS }, 1);
    for (int i = 0; i < FLAT_WORDS; i++) {
        char word[16];
        const int size = i < 256 ? 1 : snprintf(word, sizeof word, " word%d", i);
        if (i < 256)
            word[0] = (char)i;
        flat_ints(f, (const int32_t[]){ size }, 1);
        CHECK_EQ(fwrite(word, 1, (size_t)size, f), (size_t)size);
    }
}

/* Sets the value of a token. The file must end with the table of tokens at this moment. */
static void flat_like(FILE *f, int token, uint16_t half)
{
    CHECK_EQ(fseek(f, -(long)(FLAT_VOCAB - token) * FLAT_WIDTH * 2, SEEK_END), 0);
    CHECK(fwrite(&half, sizeof half, 1, f) == 1);
    CHECK_EQ(fseek(f, 0, SEEK_END), 0);
}

/* Makes (1, 0, 0, ...) the output of the last layer. */
static void flat_says(FILE *f, bool sure)
{
    const float one = 1;
    flat_pair(f, "decoder.", "ln", 0, FLAT_WIDTH, false);
    CHECK_EQ(fseek(f, -FLAT_WIDTH * (long)sizeof one, SEEK_END), 0);
    CHECK(fwrite(&one, sizeof one, 1, f) == 1);
    CHECK_EQ(fseek(f, 0, SEEK_END), 0);
    flat_tensor(f, "decoder.token_embedding.weight", FLAT_F16, FLAT_WIDTH, FLAT_VOCAB, 0);
    flat_like(f, FLAT_GERMAN, FLAT_5);
    if (!sure)
        return;
    flat_like(f, 'A', FLAT_20);
    flat_like(f, 'B', FLAT_20);
    flat_like(f, FLAT_TIME, FLAT_21);
}

TEST_UNUSED static void make_flat_model(const char *path, bool sure)
{
    FILE *f = fopen(path, "wbe");
    CHECK(f);
    flat_head(f);
    flat_tensor(f, "encoder.positional_embedding", 0, FLAT_WIDTH, FLAT_AUDIO, 0);
    flat_tensor(f, "encoder.conv1.weight", FLAT_F16, 3, FLAT_MELS, FLAT_WIDTH);
    flat_tensor(f, "encoder.conv1.bias", 0, 1, FLAT_WIDTH, 0);
    flat_tensor(f, "encoder.conv2.weight", FLAT_F16, 3, FLAT_WIDTH, FLAT_WIDTH);
    flat_tensor(f, "encoder.conv2.bias", 0, 1, FLAT_WIDTH, 0);
    flat_block(f, "encoder.blocks.0.");
    flat_pair(f, "encoder.", "ln_post", 0, FLAT_WIDTH, false);
    flat_tensor(f, "decoder.positional_embedding", 0, FLAT_WIDTH, FLAT_TEXT, 0);
    flat_block(f, "decoder.blocks.0.");
    flat_attention(f, "decoder.blocks.0.", "cross_attn");
    flat_says(f, sure);
    CHECK_EQ(fclose(f), 0);
}

#endif
