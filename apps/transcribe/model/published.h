/* SPDX-License-Identifier: MIT
 *
 * The models that are published in whisper.cpp's format: their names, sizes, checksums and addresses.
 */
#ifndef GD_TRANSCRIBE_MODEL_PUBLISHED_H
#define GD_TRANSCRIBE_MODEL_PUBLISHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buffer.h"

struct tr_published {
    const char *name; /* "base.en-q5_1": the file is ggml-NAME.bin */
    uint64_t bytes;
    const char *sum; /* hexadecimal: SHA-1 if it has 40 digits, SHA-256 if it has 64 */
    const char *url; /* NULL: the usual server. "": part of this program, not on a server */
    bool english;    /* only for English */
};

/* All of them; *n is their number. "demo" is the last. */
const struct tr_published *tr_published_all(size_t *n);

/* The one with exactly this name, or NULL. */
const struct tr_published *tr_published_find(const char *name);

/* "large" is large-v3 and "turbo" is large-v3-turbo, as for OpenAI's own program. Returns other names unchanged. */
const char *tr_published_name(const char *name);

/* Appends the address of a model's file: below base, or where it is published if base is NULL. */
void tr_published_address(struct gd__buffer *b, const struct tr_published *model, const char *base);

/* "SHA-1" or "SHA-256". */
const char *tr_published_kind(const char *sum);

/* For tests: replaces the table. It must outlive its use. With NULL, the real table is used again. Not for several
 * threads. */
void tr_published_replace(const struct tr_published *table, size_t n);

#endif
