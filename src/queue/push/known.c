/* A set of task keys, in a hash table with open addressing: see known.h. At most three quarters of the slots are used. */
#include "queue/push/known.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum { FIRST_ROOM = 1024 };

/* Returns the slot of the task, or the free slot where it belongs. Tasks with the same hash and different repeats would
 * share a slot, so the repeat is mixed in. */
static struct gd__known_task *slot_of(struct gd__known_task *slots, size_t room, const unsigned char *hash,
                                      uint32_t repeat)
{
    size_t at = 0;
    memcpy(&at, hash, sizeof at);
    at += (size_t)(repeat * UINT64_C(0x9e3779b97f4a7c15) >> 20);
    for (at &= room - 1; slots[at].used; at = (at + 1) & (room - 1)) {
        if (slots[at].repeat == repeat && memcmp(slots[at].hash, hash, GD__HASH_SIZE) == 0)
            break;
    }
    return &slots[at];
}

struct gd__known_task *gd__known_find(const struct gd__known *k, const struct gd__queue_key *key)
{
    struct gd__known_task *t = k->room > 0 ? slot_of(k->slots, k->room, key->hash, key->repeat) : NULL;
    return t && t->used ? t : NULL;
}

static int grow(struct gd__known *k)
{
    const size_t room = k->room ? k->room * 2 : FIRST_ROOM;
    struct gd__known_task *slots = gd__calloc(room, sizeof *slots);
    if (!slots)
        return gd__error(GD_E_NO_MEMORY, "no memory for the keys of the %zu tasks that are in the queue", k->used);
    for (size_t i = 0; i < k->room; i++) {
        if (k->slots[i].used)
            *slot_of(slots, room, k->slots[i].hash, k->slots[i].repeat) = k->slots[i];
    }
    gd__free(k->slots);
    k->slots = slots;
    k->room = room;
    return 0;
}

int gd__known_add(struct gd__known *k, const struct gd__queue_key *key, struct gd__known_task **out)
{
    if (k->used >= k->room / 4 * 3) {
        const int rc = grow(k);
        if (rc < 0)
            return rc;
    }
    struct gd__known_task *t = slot_of(k->slots, k->room, key->hash, key->repeat);
    if (!t->used) {
        *t = (struct gd__known_task){ .repeat = key->repeat, .again = key->again, .used = true };
        memcpy(t->hash, key->hash, GD__HASH_SIZE);
        k->used++;
    }
    if (t->again < key->again)
        t->again = key->again;
    if (out)
        *out = t;
    return 0;
}

void gd__known_free(struct gd__known *k)
{
    gd__free(k->slots);
    *k = (struct gd__known){ 0 };
}
