/* SPDX-License-Identifier: MIT
 *
 * Lists of tasks with sizes, from a seed.
 */
#ifndef GD_TESTS_UNIT_SHARD_DEAL_ITEMS_H
#define GD_TESTS_UNIT_SHARD_DEAL_ITEMS_H

#include <math.h>

#include "shard/deal_file.h"
#include "support/test.h"

enum { KEY_ROOM = 32 };

/* xorshift64*: the same numbers everywhere. */
TEST_UNUSED static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

/* Above 0, at most 1. */
TEST_UNUSED static double next_fraction(uint64_t *state)
{
    return (double)((next_random(state) >> 11) + 1) / 9007199254740992.0;
}

/* Sizes as those of real files: most are small, and a few are large. sigma: how different they are. */
TEST_UNUSED static uint64_t next_size(uint64_t *state, double sigma)
{
    const double radius = sqrt(-2 * log(next_fraction(state)));
    return 1 + (uint64_t)exp(13 + sigma * radius * cos(6.283185307179586 * next_fraction(state)));
}

/* n items with the keys 0.wav, 1.wav, ... The caller frees *keys and the items. */
TEST_UNUSED static struct gd__deal_item *make_items(size_t n, double sigma, uint64_t seed, char **keys)
{
    struct gd__deal_item *items = calloc(n ? n : 1, sizeof *items);
    uint64_t state = seed * 2 + 1;
    *keys = calloc(n ? n : 1, KEY_ROOM);
    CHECK(items && *keys);
    for (size_t i = 0; i < n; i++) {
        char *key = *keys + i * KEY_ROOM;
        snprintf(key, KEY_ROOM, "speech/%zu.wav", i);
        items[i] = (struct gd__deal_item){ key, strlen(key), next_size(&state, sigma), 77 };
    }
    return items;
}

TEST_UNUSED static void shuffle(struct gd__deal_item *items, size_t n, uint64_t seed)
{
    uint64_t state = seed * 2 + 1;
    for (size_t i = n; i > 1; i--) {
        const size_t j = next_random(&state) % i;
        const struct gd__deal_item moved = items[i - 1];
        items[i - 1] = items[j];
        items[j] = moved;
    }
}

/* The number in the key of an item. */
TEST_UNUSED static size_t number_of(const struct gd__deal_item *item)
{
    return strtoul((const char *)item->key + strlen("speech/"), NULL, 10);
}

/* Publishes a deal of n tasks from a seed. Returns a number that depends on the owners of the first hundred tasks, or a
 * negative code. */
TEST_UNUSED static int publish_items(const char *path, size_t n, uint32_t count, uint64_t seed)
{
    char *keys = NULL;
    struct gd__deal_item *items = make_items(n, 1.5, seed, &keys);
    struct gd__deal *d = NULL;
    const int rc = gd__deal_publish(&d, path, items, n, count);
    CHECK((rc == 0) == (d != NULL));
    int owners = 0;
    for (size_t i = 0; d && i < 100 && i < n; i++) {
        const char *key = keys + i * KEY_ROOM;
        owners = (int)((owners * 31u + gd__deal_owner(d, key, strlen(key))) & INT32_MAX);
    }
    gd__deal_close(&d);
    free(items);
    free(keys);
    return rc < 0 ? rc : owners;
}

#endif
