/* The allocator of the payload arena. It manages a region that only this process writes, and records which bytes of it
 * are in use.
 *
 * Its tables are in private memory, so no reader can damage them. Low addresses are used first: the beginning of the
 * arena stays in the cache, and is the part that workers pin. Blocks of up to 32 KiB come from slabs of size classes.
 * Larger blocks are whole pages, found by first fit and joined when freed. Freed memory is reused. It is returned to
 * the system only when the region is closed, because no holes can be punched into a sealed region.
 *
 * One thread allocates (the feeder). Another may free (the monitor): gd__arena_free_later() puts the block on a
 * single-producer ring that the allocating thread empties when it allocates.
 */
#ifndef GD_SHM_ARENA_H
#define GD_SHM_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct gd__arena;

/* Manages the bytes of a region from offset first up to size. max_blocks: how many blocks may be in use at once. */
int gd__arena_open(struct gd__arena **out, uint64_t first, uint64_t size, size_t max_blocks);
void gd__arena_close(struct gd__arena **a);

/* Returns an offset: a multiple of 64, or of the page size for blocks of a page or more. On failure returns 0 and sets
 * the thread's error to GD_E_NO_MEMORY or GD_E_TOO_LARGE. size > 0. Allocating thread only. */
uint64_t gd__arena_alloc(struct gd__arena *a, uint64_t size);

/* Frees a block. size: the size passed to gd__arena_alloc(). Allocating thread only. */
void gd__arena_free(struct gd__arena *a, uint64_t offset, uint64_t size);

/* Frees a block from the other thread. */
void gd__arena_free_later(struct gd__arena *a, uint64_t offset, uint64_t size);

uint64_t gd__arena_used(const struct gd__arena *a); /* bytes in use, rounded up as allocated; allocating thread only */
uint64_t gd__arena_visited(const struct gd__arena *a); /* how many nodes all searches have visited: for tests */

#endif
