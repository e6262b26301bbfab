/* Devices by the names that a user gave. */
#ifndef GD_GPU_SELECT_H
#define GD_GPU_SELECT_H

#include "gpu/machine.h"
#include "gpu/spec.h"

/* Adds to out what the spec names, in its order. text: as it was written. */
int gd__select(struct gd__found_list *out, const struct gd__machine *m, const struct gd__spec *spec, const char *text);

/* "0-3, 5": the ids of a list, as far as they fit. "none" for an empty one. */
void gd__ids_format(const struct gd__found *items, size_t n, char *out, size_t size);

#endif
