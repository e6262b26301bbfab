/* SipHash-2-4-128 (Aumasson and Bernstein), implemented from their paper. Collisions cannot be constructed without the
 * key. The keys for journals are fixed, because a journal must find its tasks again later. There, all that matters is
 * that the 128 bits are well mixed. The result must be the same on every machine, so bytes are read and written as
 * little-endian on every processor.
 */
#include "base/hash/siphash.h"

#include <string.h>

struct state {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static uint64_t read_word(const unsigned char *p)
{
    uint64_t x = 0;
    for (unsigned i = 0; i < 8; i++)
        x |= (uint64_t)p[i] << (8 * i);
    return x;
}

static void write_word(unsigned char *p, uint64_t x)
{
    for (unsigned i = 0; i < 8; i++)
        p[i] = (unsigned char)(x >> (8 * i));
}

static void mix(struct state *s, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        s->v0 += s->v1;
        s->v1 = rotate(s->v1, 13) ^ s->v0;
        s->v0 = rotate(s->v0, 32);
        s->v2 += s->v3;
        s->v3 = rotate(s->v3, 16) ^ s->v2;
        s->v0 += s->v3;
        s->v3 = rotate(s->v3, 21) ^ s->v0;
        s->v2 += s->v1;
        s->v1 = rotate(s->v1, 17) ^ s->v2;
        s->v2 = rotate(s->v2, 32);
    }
}

static void absorb(struct state *s, uint64_t word)
{
    s->v3 ^= word;
    mix(s, 2);
    s->v0 ^= word;
}

void gd__siphash128(const unsigned char key[16], const void *data, size_t size, unsigned char out[GD__HASH_SIZE])
{
    const unsigned char *p = data;
    const uint64_t k0 = read_word(key), k1 = read_word(key + 8);
    struct state s = { k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
                       k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573) };
    unsigned char last[8] = { 0 };
    size_t left = size;
    for (; left >= 8; left -= 8, p += 8)
        absorb(&s, read_word(p));
    if (left > 0)
        memcpy(last, p, left);
    last[7] = (unsigned char)size;
    absorb(&s, read_word(last));
    s.v2 ^= 0xee;
    mix(&s, 4);
    write_word(out, s.v0 ^ s.v1 ^ s.v2 ^ s.v3);
    s.v1 ^= 0xdd;
    mix(&s, 4);
    write_word(out + 8, s.v0 ^ s.v1 ^ s.v2 ^ s.v3);
}
