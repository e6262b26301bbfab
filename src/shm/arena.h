/* The allocator of the payload arena: who owns which bytes of a region that this process alone writes.
 *
 * Its books are private memory, so no reader can harm them. Low addresses are used first: the beginning of the
 * arena stays warm, and is what workers pin. Up to 32 KiB from slabs of size classes; above that, whole pages, first
 * fit, joined when freed. Memory is kept for re-use, never given back before the end (a sealed region can't be
 * punched).
 *
 * One thread allocates (the feeder). Another may free (the monitor): gd__arena_free_later() puts the block on a
 * single-producer ring that the allocating thread empties when it allocates.
 */
#ifndef GD_SHM_ARENA_H
#define GD_SHM_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct gd__arena;

/* Manages bytes first .. size of a region (offsets). max_blocks: how many blocks may be out at once. */
int gd__arena_open(struct gd__arena **out, uint64_t first, uint64_t size, size_t max_blocks);
void gd__arena_close(struct gd__arena **a);

/* An offset (a multiple of 64, or of the page size from a page on), or 0 with GD_E_NO_MEMORY / GD_E_TOO_LARGE as the
 * thread's error text. size > 0. Allocating thread only. */
uint64_t gd__arena_alloc(struct gd__arena *a, uint64_t size);

/* Gives back what alloc returned, with the same size. Allocating thread only. */
void gd__arena_free(struct gd__arena *a, uint64_t offset, uint64_t size);

/* The same from the one other thread. */
void gd__arena_free_later(struct gd__arena *a, uint64_t offset, uint64_t size);

uint64_t gd__arena_used(const struct gd__arena *a);    /* bytes out, rounded up as allocated; allocating thread only */
uint64_t gd__arena_visited(const struct gd__arena *a); /* steps of all searches for free runs so far: for tests */

#endif
