/* Selects the devices that a user has named. */
#ifndef GD_GPU_SELECT_H
#define GD_GPU_SELECT_H

#include "gpu/machine.h"
#include "gpu/spec.h"

/* Adds the devices that the spec names to out, in its order. text: the spec as the user wrote it. */
int gd__select(struct gd__found_list *out, const struct gd__machine *m, const struct gd__spec *spec, const char *text);

/* Writes the ids of a list, "0-3, 5", as far as they fit. Writes "none" for an empty list. */
void gd__ids_format(const struct gd__found *items, size_t n, char *out, size_t size);

#endif
