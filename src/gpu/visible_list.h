/* Interprets CUDA_VISIBLE_DEVICES and similar variables. */
#ifndef GD_GPU_VISIBLE_LIST_H
#define GD_GPU_VISIBLE_LIST_H

#include <stddef.h>

#include "gpu/backends/backend.h"

enum gd__visible_rules {
    GD__VISIBLE_CUDA,       /* numbers, or GPU UUIDs, or MIG names, not mixed; a repeated entry hides all devices */
    GD__VISIBLE_ROCM,       /* numbers and GPU UUIDs; a repeated entry ends the list */
    GD__VISIBLE_LEVEL_ZERO, /* numbers, optionally followed by ".tile"; a repeated entry is ignored */
};

/* Finds the items that a variable makes visible, in its order. Stores their indexes in order[], which has room for n,
 * and returns how many there are. All items are of one vendor, and their field `number` is the number that entries
 * refer to. An entry that names a GPU means all its MIG instances. If value is NULL, the variable is not set, and all
 * items are visible. Has no side effects. */
size_t gd__visible_list(const char *value, enum gd__visible_rules rules, const struct gd__found *items, size_t n,
                        size_t *order);

/* Whether name is the UUID of the device or of its GPU, the beginning of one of these, or the old form of a MIG name
 * ("MIG-GPU-<uuid>/gi/ci"). Ignores case. */
bool gd__visible_named(const struct gd__found *f, const char *name, size_t length);

#endif
