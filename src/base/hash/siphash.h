/* SipHash-2-4 with a result of 128 bits. Used to identify tasks and to check files. */
#ifndef GD_BASE_HASH_SIPHASH_H
#define GD_BASE_HASH_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

enum { GD__HASH_SIZE = 16 };

/* Data that is not in memory as a whole is added piece by piece. */
struct gd__siphash {
    uint64_t v0, v1, v2, v3, size;
    unsigned char last[8]; /* bytes that are not a whole word yet */
    unsigned n_last;       /* fewer than 8 */
};
void gd__siphash_begin(struct gd__siphash *s, const unsigned char key[16]);
void gd__siphash_add(struct gd__siphash *s, const void *data, size_t size);
void gd__siphash_end(struct gd__siphash *s, unsigned char out[GD__HASH_SIZE]);

void gd__siphash128(const unsigned char key[16], const void *data, size_t size, unsigned char out[GD__HASH_SIZE]);

#endif
