/* Huge pages for shared memory that is about to be filled.
 *
 * The first write to a page of a memfd is a page fault: for large payloads those cost several times what the copy does.
 * A region's extents (2 MiB each) are made one page each, the first time that a large block in them is to be filled;
 * once is enough, since memory of a region is never given back before its end. Where the kernel can't, nothing is lost
 * but one system call.
 */
#ifndef GD_SHM_EXTENTS_H
#define GD_SHM_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/region.h"

/* The least block that counts as large: a smaller one is not worth zeroing 2 MiB for. */
enum { GD__FILL_LEAST = 512 * 1024 };

struct gd__extents { /* all zero: none; for one thread at a time */
    const struct gd__region *region;
    uint64_t *asked;  /* a bit for each extent; made with the first large block */
    uint64_t slow_ns; /* an extent that takes so long is slower than its faults would be */
    bool off;         /* the kernel does not want to be asked again */
};

/* Of a region that is mapped writable here and outlives this. */
void gd__extents_open(struct gd__extents *e, const struct gd__region *r);
void gd__extents_close(struct gd__extents *e);

/* All of [offset, offset + size) belongs to the caller, who is about to write it all: what it holds may be lost. */
void gd__extents_fill(struct gd__extents *e, uint64_t offset, uint64_t size);

/* False: fill() has nothing to do there, and takes no time. */
bool gd__extents_would_fill(const struct gd__extents *e, uint64_t offset, uint64_t size);

#endif
