/* Numbers equal inputs, for the keys of a queue: the first task with a key has repeat 0, the next one 1, and so on.
 *
 * The numbers depend only on the list. So if the same list is pushed again, its tasks have the same keys, and if the new
 * list has an input once more, one task is new. Each different key takes 27 to 54 bytes of memory,
 * and half as much again while the table grows.
 */
#ifndef GD_QUEUE_NAMES_REPEATS_H
#define GD_QUEUE_NAMES_REPEATS_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash/key.h"

struct gd__queue_repeat_slot {
    unsigned char hash[GD__HASH_SIZE];
    uint32_t count; /* 0: the slot is free */
};

/* A zeroed struct is empty. */
struct gd__queue_repeats {
    struct gd__queue_repeat_slot *slots;
    size_t room; /* 0, or a power of two */
    size_t used;
};

/* Sets *repeat to the number of earlier calls with this hash. Returns 0, GD_E_NO_MEMORY, or GD_E_TOO_LARGE after
 * UINT32_MAX calls with the same hash. After an error the counts are as before. */
int gd__queue_repeats_next(struct gd__queue_repeats *r, const unsigned char hash[GD__HASH_SIZE], uint32_t *repeat);

void gd__queue_repeats_free(struct gd__queue_repeats *r); /* also makes it empty again */

#endif
