/* Which shard owns a task.
 *
 * By hash: the owner depends only on the task's key and the number of shards. So a list may be reordered, grow or lose
 * lines, and each task keeps its owner.
 *
 * By size: if the sizes of the tasks are known, they are dealt so that all shards get about the same. The deal is made
 * once, and all shards read it (deal_file.h). Tasks that are not in the deal go by hash.
 */
#ifndef GD_SHARD_DEAL_H
#define GD_SHARD_DEAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash/siphash.h"

/* The owner by hash: the first 8 bytes of gd__key_hash(), as a little-endian number, modulo the number of shards. This
 * never changes. count must not be 0. The second function takes the hash, as journals store it. */
uint32_t gd__shard_of_key(const void *key, size_t size, uint32_t count);
uint32_t gd__shard_of_hash(const unsigned char hash[GD__HASH_SIZE], uint32_t count);

/* The key of a file: its path without the directory at its beginning. dir NULL, or a path that is elsewhere: unchanged. */
const char *gd__deal_key_within(const char *path, const char *dir);

/* A task with a size, to be dealt. */
struct gd__deal_item {
    const void *key; /* borrowed */
    size_t key_size;
    uint64_t size;  /* in any unit; 0 counts as 1 */
    uint32_t shard; /* set by gd__deal_items() */
};

/* Deals the items to count shards: the largest first, each to the shard with the least so far. Items of the same size
 * are taken in the order of their keys, and of shards with the same load the first one is taken. So the result does not
 * depend on the order of the items. Afterwards they are in the order of their keys (as bytes; a beginning of another key
 * comes first). Of items with the same key only the largest is kept, and *n is reduced. Returns 0 or GD_E_NO_MEMORY. */
int gd__deal_items(struct gd__deal_item *items, size_t *n, uint32_t count);

/* A deal that can be asked. It does not change, so several threads may use it at once. */
struct gd__deal;

/* The owner of a task: by the deal, or by hash if the deal does not have this key. */
uint32_t gd__deal_owner(const struct gd__deal *d, const void *key, size_t size);
uint32_t gd__deal_owner_of_hash(const struct gd__deal *d, const unsigned char hash[GD__HASH_SIZE]);

uint32_t gd__deal_shards(const struct gd__deal *d); /* the number of shards */
size_t gd__deal_entries(const struct gd__deal *d);  /* the number of tasks */

void gd__deal_close(struct gd__deal **d); /* sets it to NULL; NULL is allowed */

/* The order of the keys of two items: negative, 0 or positive. */
int gd__deal_compare_keys(const struct gd__deal_item *a, const struct gd__deal_item *b);

/* For deal_file.c: makes a deal with room for n entries, adds them, and then prepares it. gd__deal_ready() returns
 * GD_E_CORRUPT if a key was added twice. */
struct gd__deal *gd__deal_new(uint32_t count, size_t n); /* NULL: no memory */
void gd__deal_add(struct gd__deal *d, const void *key, size_t size, uint32_t shard);
int gd__deal_ready(struct gd__deal *d);

#endif
