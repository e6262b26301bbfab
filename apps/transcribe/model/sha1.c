/* SPDX-License-Identifier: MIT
 *
 * SHA-1, after FIPS 180-4: blocks of 64 bytes, eighty steps for each block, over a window of sixteen words that is
 * extended step by step. The steps are four loops of twenty, each with its own function and constant. Compilers unroll
 * these loops.
 */
#include "apps/transcribe/model/sha1.h"

#include <stdio.h>
#include <string.h>

static uint32_t rotate(uint32_t x, unsigned n)
{
    return x << n | x >> (32 - n);
}

static uint32_t load(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline uint32_t choose(uint32_t b, uint32_t c, uint32_t d)
{
    return d ^ (b & (c ^ d));
}

static inline uint32_t parity(uint32_t b, uint32_t c, uint32_t d)
{
    return b ^ c ^ d;
}

static inline uint32_t majority(uint32_t b, uint32_t c, uint32_t d)
{
    return (b & c) | (d & (b | c));
}

/* Steps from ... from + 19 of a block; v holds the variables a to e. */
#define TWENTY(from, function, constant)                                                               \
    for (int t = (from); t < (from) + 20; t++) {                                                       \
        const uint32_t next = rotate(v[0], 5) + function(v[1], v[2], v[3]) + v[4] + (constant) + w[t]; \
        v[4] = v[3];                                                                                   \
        v[3] = v[2];                                                                                   \
        v[2] = rotate(v[1], 30);                                                                       \
        v[1] = v[0];                                                                                   \
        v[0] = next;                                                                                   \
    }

static void take_block(uint32_t state[5], const unsigned char *block)
{
    uint32_t w[80], v[5];
    for (int t = 0; t < 16; t++)
        w[t] = load(block + 4 * t);
    for (int t = 16; t < 80; t++)
        w[t] = rotate(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
    memcpy(v, state, sizeof v);
    TWENTY(0, choose, 0x5a827999u)
    TWENTY(20, parity, 0x6ed9eba1u)
    TWENTY(40, majority, 0x8f1bbcdcu)
    TWENTY(60, parity, 0xca62c1d6u)
    for (int i = 0; i < 5; i++)
        state[i] += v[i];
}

void tr_sha1_begin(struct tr_sha1 *s)
{
    *s = (struct tr_sha1){ .state = { 0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u, 0xc3d2e1f0u } };
}

void tr_sha1_add(struct tr_sha1 *s, const void *data, size_t size)
{
    const unsigned char *p = data;
    const size_t waiting = s->size % 64;
    s->size += size;
    if (waiting > 0) {
        const size_t n = size < 64 - waiting ? size : 64 - waiting;
        memcpy(s->block + waiting, p, n);
        p += n;
        size -= n;
        if (waiting + n == 64)
            take_block(s->state, s->block);
    }
    for (; size >= 64; p += 64, size -= 64)
        take_block(s->state, p);
    if (size > 0)
        memcpy(s->block + s->size % 64 - size, p, size);
}

void tr_sha1_end(struct tr_sha1 *s, char text[TR_SHA1_TEXT])
{
    const uint64_t bits = s->size * 8;
    unsigned char end[72] = { 0x80 }; /* a one bit, zeros up to eight bytes before a block's end, the length */
    const size_t zeros = (s->size % 64 < 56 ? 56 : 120) - s->size % 64;
    for (size_t i = 0; i < 8; i++)
        end[zeros + i] = (unsigned char)(bits >> (56 - 8 * i));
    tr_sha1_add(s, end, zeros + 8);
    for (size_t i = 0; i < 5; i++)
        snprintf(text + 8 * i, 9, "%08x", (unsigned)s->state[i]);
}
