/* SPDX-License-Identifier: MIT
 *
 * SHA-256, after FIPS 180-4: blocks of 64 bytes, 64 steps for each block, over sixteen words that are extended to 64.
 */
#include "apps/transcribe/model/sha256.h"

#include <stdio.h>
#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static uint32_t load(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void extend(uint32_t w[64], const unsigned char *block)
{
    for (int t = 0; t < 16; t++)
        w[t] = load(block + 4 * t);
    for (int t = 16; t < 64; t++) {
        const uint32_t a = w[t - 15], b = w[t - 2];
        w[t] =
            (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10) + w[t - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[t - 16];
    }
}

static void take_block(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64], v[8];
    extend(w, block);
    memcpy(v, state, sizeof v);
    for (int t = 0; t < 64; t++) {
        const uint32_t choice = v[6] ^ (v[4] & (v[5] ^ v[6])), majority = (v[0] & v[1]) | (v[2] & (v[0] | v[1]));
        const uint32_t first =
            v[7] + (rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25)) + choice + constants[t] + w[t];
        const uint32_t second = (rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22)) + majority;
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += first;
        v[0] = first + second;
    }
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

/* The first 32 bits of the fractional parts of the square roots of the first eight primes. */
void tr_sha256_begin(struct tr_sha256 *s)
{
    *s = (struct tr_sha256){ .state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                                        0x1f83d9ab, 0x5be0cd19 } };
}

void tr_sha256_add(struct tr_sha256 *s, const void *data, size_t size)
{
    const unsigned char *from = data;
    while (size > 0) {
        const size_t used = (size_t)(s->size % sizeof s->block), room = sizeof s->block - used;
        const size_t part = size < room ? size : room;
        if (part == sizeof s->block) {
            take_block(s->state, from);
        } else {
            memcpy(s->block + used, from, part);
            if (part == room)
                take_block(s->state, s->block);
        }
        s->size += part;
        from += part;
        size -= part;
    }
}

/* A 1 bit, zeros up to the last eight bytes of a block, and the number of bits. */
void tr_sha256_end(struct tr_sha256 *s, char text[TR_SHA256_TEXT])
{
    static const unsigned char padding[64] = { 0x80 };
    const uint64_t bits = s->size * 8;
    const size_t used = (size_t)(s->size % sizeof s->block);
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    tr_sha256_add(s, padding, used < 56 ? 56 - used : 120 - used);
    tr_sha256_add(s, length, sizeof length);
    for (int i = 0; i < 8; i++)
        snprintf(text + 8 * i, 9, "%08x", s->state[i]);
}
