/* SipHash-2-4-128 (Aumasson and Bernstein), implemented from their paper. Collisions cannot be constructed without the
 * key. The keys for journals are fixed, because a journal must find its tasks again later. There, all that matters is
 * that the 128 bits are well mixed. The result must be the same on every machine, so bytes are read and written as
 * little-endian on every processor.
 */
#include "base/hash/siphash.h"

#include <string.h>

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

static void mix(struct gd__siphash *s, unsigned rounds)
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

static void absorb(struct gd__siphash *s, uint64_t word)
{
    s->v3 ^= word;
    mix(s, 2);
    s->v0 ^= word;
}

void gd__siphash_begin(struct gd__siphash *s, const unsigned char key[16])
{
    const uint64_t k0 = read_word(key), k1 = read_word(key + 8);
    *s = (struct gd__siphash){ .v0 = k0 ^ UINT64_C(0x736f6d6570736575),
                               .v1 = k1 ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
                               .v2 = k0 ^ UINT64_C(0x6c7967656e657261),
                               .v3 = k1 ^ UINT64_C(0x7465646279746573) };
}

/* A copy of the state stays in registers: the data might be the state itself, as far as a compiler knows. */
static void add_words(struct gd__siphash *s, const unsigned char *p, size_t n)
{
    struct gd__siphash fast = *s;
    for (size_t i = 0; i < n; i++)
        absorb(&fast, read_word(p + 8 * i));
    *s = fast;
}

void gd__siphash_add(struct gd__siphash *s, const void *data, size_t size)
{
    const unsigned char *p = data;
    size_t left = size;
    s->size += size;
    for (; left > 0 && s->n_last > 0; left--) {
        s->last[s->n_last] = *p++;
        s->n_last = (s->n_last + 1) % sizeof s->last;
        if (s->n_last == 0)
            add_words(s, s->last, 1);
    }
    const size_t words = left / sizeof s->last;
    add_words(s, p, words);
    left -= words * sizeof s->last;
    if (left > 0)
        memcpy(s->last, p + words * sizeof s->last, left);
    s->n_last += (unsigned)left;
}

void gd__siphash_end(struct gd__siphash *s, unsigned char out[GD__HASH_SIZE])
{
    memset(s->last + s->n_last, 0, sizeof s->last - s->n_last);
    s->last[sizeof s->last - 1] = (unsigned char)s->size;
    absorb(s, read_word(s->last));
    s->v2 ^= 0xee;
    mix(s, 4);
    write_word(out, s->v0 ^ s->v1 ^ s->v2 ^ s->v3);
    s->v1 ^= 0xdd;
    mix(s, 4);
    write_word(out + 8, s->v0 ^ s->v1 ^ s->v2 ^ s->v3);
}

void gd__siphash128(const unsigned char key[16], const void *data, size_t size, unsigned char out[GD__HASH_SIZE])
{
    struct gd__siphash s;
    gd__siphash_begin(&s, key);
    gd__siphash_add(&s, data, size);
    gd__siphash_end(&s, out);
}
