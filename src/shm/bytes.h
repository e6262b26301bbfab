/* The worker's own allocator for result bytes.
 *
 * The dispatcher releases results in the order of their records, so blocks that are bound to a record wait in one
 * queue. The memory itself is an arena (arena.h) over the sparse data part of the result region. The arena uses low
 * addresses first, so that memory that was touched is used again. An allocation succeeds if there is a gap that is
 * large enough. Not thread-safe.
 */
#ifndef GD_SHM_BYTES_H
#define GD_SHM_BYTES_H

#include <stdbool.h>
#include <stdint.h>

struct gd__bytes;

int gd__bytes_open(struct gd__bytes **out, uint64_t first, uint64_t end); /* offsets */
void gd__bytes_close(struct gd__bytes **b);

/* Allocates size > 0 bytes. Returns the offset (a multiple of 64), or 0 with the thread's error message set. The block
 * is not bound to a record yet: pass it to gd__bytes_bind() or gd__bytes_drop(). This fails only if there is no gap of
 * that size or no private memory. After GD_E_NO_MEMORY, gd__port_wait_released() and gd__bytes_release() may free a
 * gap. */
uint64_t gd__bytes_alloc(struct gd__bytes *b, uint64_t size);

/* Frees a block that will not be bound to a record. Such blocks may be freed in any order. */
void gd__bytes_drop(struct gd__bytes *b, uint64_t offset);

/* Binds the block at offset to result record number `record`. gd__bytes_release() frees it if released > record. Record
 * numbers must not decrease from call to call. They may repeat. */
void gd__bytes_bind(struct gd__bytes *b, uint64_t offset, uint64_t record);

/* Frees the blocks that the dispatcher has released. Call it before gd__bytes_alloc(). */
void gd__bytes_release(struct gd__bytes *b, uint64_t released);
bool gd__bytes_are_out(const struct gd__bytes *b); /* some blocks are bound to a record and not released */

#endif
