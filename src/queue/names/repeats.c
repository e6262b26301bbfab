/* Counts keys in a hash table with open addressing: see repeats.h. At most three quarters of the slots are used. */
#include "queue/names/repeats.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum { FIRST_ROOM = 1024 };

/* Returns the slot of the hash, or the free slot where it belongs. The bits of a hash are well mixed. */
static struct gd__queue_repeat_slot *find(struct gd__queue_repeat_slot *slots, size_t room,
                                          const unsigned char hash[GD__HASH_SIZE])
{
    size_t at = 0;
    memcpy(&at, hash, sizeof at);
    for (at &= room - 1; slots[at].count > 0 && memcmp(slots[at].hash, hash, GD__HASH_SIZE) != 0;)
        at = (at + 1) & (room - 1);
    return &slots[at];
}

static int grow(struct gd__queue_repeats *r)
{
    const size_t room = r->room ? r->room * 2 : FIRST_ROOM;
    struct gd__queue_repeat_slot *slots = gd__calloc(room, sizeof *slots);
    if (!slots)
        return gd__error(GD_E_NO_MEMORY, "no memory to count equal inputs among %zu different ones", r->used);
    for (size_t i = 0; i < r->room; i++) {
        if (r->slots[i].count > 0)
            *find(slots, room, r->slots[i].hash) = r->slots[i];
    }
    gd__free(r->slots);
    r->slots = slots;
    r->room = room;
    return 0;
}

int gd__queue_repeats_next(struct gd__queue_repeats *r, const unsigned char hash[GD__HASH_SIZE], uint32_t *repeat)
{
    if (r->used >= r->room / 4 * 3) {
        const int rc = grow(r);
        if (rc < 0)
            return rc;
    }
    struct gd__queue_repeat_slot *slot = find(r->slots, r->room, hash);
    if (slot->count == UINT32_MAX)
        return gd__error(GD_E_TOO_LARGE, "an input occurs more than %u times in the list", UINT32_MAX);
    if (slot->count == 0) {
        memcpy(slot->hash, hash, GD__HASH_SIZE);
        r->used++;
    }
    *repeat = slot->count++;
    return 0;
}

void gd__queue_repeats_free(struct gd__queue_repeats *r)
{
    gd__free(r->slots);
    *r = (struct gd__queue_repeats){ 0 };
}
