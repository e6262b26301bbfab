/* The hash of a task's key: SipHash-2-4-128 with a fixed key. */
#include "base/hash/key.h"

/* Part of the format of journals: it must never change. */
static const unsigned char hash_key[16] = "gpu_dispatch key";

void gd__key_hash(const void *key, size_t size, unsigned char out[GD__HASH_SIZE])
{
    gd__siphash128(hash_key, key, size, out);
}

void gd__key_hash_begin(struct gd__siphash *s)
{
    gd__siphash_begin(s, hash_key);
}
