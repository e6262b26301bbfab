/* A set of (device, inode) pairs: open addressing with linear probing, at most half full. Entries are never removed. */
#include "launch/files/visited.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

enum { FIRST_CAPACITY = 64 };

struct gd__directory_id {
    dev_t dev;
    ino_t ino;
    bool used;
};

static uint64_t hash(dev_t dev, ino_t ino)
{
    /* The inode numbers of directories in one directory are often consecutive: multiply, and use the high bits. */
    uint64_t h = ((uint64_t)ino ^ ((uint64_t)dev << 32 | (uint64_t)dev >> 32)) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

/* The slot of the pair, or the free slot where it can be added. */
static struct gd__directory_id *slot_of(const struct gd__visited *v, dev_t dev, ino_t ino)
{
    size_t i = (size_t)hash(dev, ino) & (v->capacity - 1);
    while (v->slots[i].used && (v->slots[i].dev != dev || v->slots[i].ino != ino))
        i = (i + 1) & (v->capacity - 1);
    return &v->slots[i];
}

static int grow(struct gd__visited *v)
{
    struct gd__visited larger = { .count = v->count, .capacity = v->capacity ? v->capacity * 2 : FIRST_CAPACITY };
    larger.slots = gd__calloc(larger.capacity, sizeof *larger.slots);
    if (!larger.slots)
        return gd__error(GD_E_NO_MEMORY, "no memory to remember %zu directories", larger.capacity / 2);
    for (size_t i = 0; i < v->capacity; i++) {
        if (v->slots[i].used)
            *slot_of(&larger, v->slots[i].dev, v->slots[i].ino) = v->slots[i];
    }
    gd__free(v->slots);
    *v = larger;
    return 0;
}

int gd__visited_add(struct gd__visited *v, dev_t dev, ino_t ino)
{
    const int bad = v->count >= v->capacity / 2 ? grow(v) : 0;
    if (bad < 0)
        return bad;
    struct gd__directory_id *slot = slot_of(v, dev, ino);
    if (slot->used)
        return 0;
    *slot = (struct gd__directory_id){ dev, ino, true };
    v->count++;
    return 1;
}

void gd__visited_free(struct gd__visited *v)
{
    gd__free(v->slots);
    *v = (struct gd__visited){ 0 };
}
