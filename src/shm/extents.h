/* Huge pages for shared memory that is about to be filled.
 *
 * The first write to each page of a memfd causes a page fault. For large payloads these faults cost several times as
 * much as the copy. So a region is divided into extents of 2 MiB. Before a large block is filled, every extent that it
 * touches is made one huge page, if that was not done before. Once is enough: the memory of a region is not returned
 * before the region is closed. If the kernel does not support this, the only cost is one system call. */
#ifndef GD_SHM_EXTENTS_H
#define GD_SHM_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/region.h"

/* The smallest block that counts as large. A smaller one is not worth zeroing 2 MiB. */
enum { GD__FILL_LEAST = 512 * 1024 };

struct gd__extents { /* all zero: not open. Not thread-safe */
    const struct gd__region *region;
    uint64_t *asked;  /* one bit for each extent; allocated with the first large block */
    uint64_t slow_ns; /* limit for one extent: page faults are faster than this */
    bool off;         /* do not ask the kernel again */
};

/* The region must be mapped writable here, and must stay open until gd__extents_close(). */
void gd__extents_open(struct gd__extents *e, const struct gd__region *r);
void gd__extents_close(struct gd__extents *e);

/* Prepares [offset, offset + size). The caller must own the whole range and must write all of it afterwards, because
 * its contents may be lost. */
void gd__extents_fill(struct gd__extents *e, uint64_t offset, uint64_t size);

/* Returns false if gd__extents_fill() has nothing to do there. */
bool gd__extents_would_fill(const struct gd__extents *e, uint64_t offset, uint64_t size);

#endif
