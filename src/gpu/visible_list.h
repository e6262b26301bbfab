/* What CUDA_VISIBLE_DEVICES and its like say. */
#ifndef GD_GPU_VISIBLE_LIST_H
#define GD_GPU_VISIBLE_LIST_H

#include <stddef.h>

#include "gpu/backends/backend.h"

enum gd__visible_rules {
    GD__VISIBLE_CUDA,       /* numbers, or GPU UUIDs, or MIG names, not mixed; one that is there twice: none at all */
    GD__VISIBLE_ROCM,       /* numbers and GPU UUIDs; a second time ends the list */
    GD__VISIBLE_LEVEL_ZERO, /* numbers, each with ".tile" behind it or not; a second time says nothing new */
};

/* Which of items a variable shows, in the order in which it shows them: order[] gets their places, and has room for n.
 * items are those of one vendor, numbered by their field number; an entry that names a GPU stands for all of its MIG
 * instances. value NULL: the variable is not set, all are shown. Returns how many. Pure. */
size_t gd__visible_list(const char *value, enum gd__visible_rules rules, const struct gd__found *items, size_t n,
                        size_t *order);

/* True if name is the device's UUID, its GPU's, the old form of a MIG name ("MIG-GPU-<uuid>/gi/ci"), or a beginning of
 * a UUID; letters of either case. */
bool gd__visible_named(const struct gd__found *f, const char *name, size_t length);

#endif
