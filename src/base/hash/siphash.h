/* SipHash-2-4 with a result of 128 bits. Used to identify tasks and to check files. */
#ifndef GD_BASE_HASH_SIPHASH_H
#define GD_BASE_HASH_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

enum { GD__HASH_SIZE = 16 };

void gd__siphash128(const unsigned char key[16], const void *data, size_t size, unsigned char out[GD__HASH_SIZE]);

#endif
