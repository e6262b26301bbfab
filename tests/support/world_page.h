/* Declarations that world.c (in the test's process) and world_worker.c (in its worker processes) share. world.h says
 * what a world is. */
#ifndef GD_TESTS_SUPPORT_WORLD_PAGE_H
#define GD_TESTS_SUPPORT_WORLD_PAGE_H

#include "support/world.h"

#define WORLD_PAGE_ENV "GD_WORLD_PAGE"
#define WORLD_OPS_ENV  "GD_WORLD_OPS"

void world__pattern_fill(unsigned char *bytes, size_t from, size_t to, uint64_t tag);
bool world__pattern_is(const unsigned char *bytes, size_t from, size_t to, uint64_t tag);
const struct gd_worker_ops *world__worker_ops(void);

#endif
