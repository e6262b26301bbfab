/* SPDX-License-Identifier: MIT
 *
 * SHA-1 (FIPS 180-4), which the published checksums of models use. It detects a damaged download. It does not protect
 * against a file that was forged on purpose.
 */
#ifndef GD_TRANSCRIBE_MODEL_SHA1_H
#define GD_TRANSCRIBE_MODEL_SHA1_H

#include <stddef.h>
#include <stdint.h>

enum { TR_SHA1_TEXT = 41 };

struct tr_sha1 {
    uint32_t state[5];
    uint64_t size; /* bytes so far */
    unsigned char block[64];
};

void tr_sha1_begin(struct tr_sha1 *s);
void tr_sha1_add(struct tr_sha1 *s, const void *data, size_t size);
void tr_sha1_end(struct tr_sha1 *s, char text[TR_SHA1_TEXT]); /* 40 hexadecimal digits */

#endif
