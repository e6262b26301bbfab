/* SPDX-License-Identifier: MIT
 *
 * SHA-256 (FIPS 180-4), the checksum of models whose authors publish no SHA-1.
 */
#ifndef GD_TRANSCRIBE_MODEL_SHA256_H
#define GD_TRANSCRIBE_MODEL_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { TR_SHA256_TEXT = 65 };

struct tr_sha256 {
    uint32_t state[8];
    uint64_t size; /* bytes so far */
    unsigned char block[64];
};

void tr_sha256_begin(struct tr_sha256 *s);
void tr_sha256_add(struct tr_sha256 *s, const void *data, size_t size);
void tr_sha256_end(struct tr_sha256 *s, char text[TR_SHA256_TEXT]); /* 64 hexadecimal digits */

#endif
