/* The hash of a task's key. */
#ifndef GD_BASE_HASH_KEY_H
#define GD_BASE_HASH_KEY_H

#include "base/hash/siphash.h"

/* Journals store this hash, and shards divide tasks by it. So it never changes, and is the same on every machine. */
void gd__key_hash(const void *key, size_t size, unsigned char out[GD__HASH_SIZE]);
/* The same for data that is added piece by piece: gd__siphash_add(), gd__siphash_end(). */
void gd__key_hash_begin(struct gd__siphash *s);

#endif
