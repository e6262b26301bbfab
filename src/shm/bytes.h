/* The worker's own allocator for result bytes.
 *
 * Results are released by the dispatcher in the order of their records, so bound blocks wait in one queue. The room
 * itself is an arena (arena.h) over the sparse data part of the result region: low addresses first, so that memory once
 * touched is used again, and blocks of any size as long as there is a gap for them, whatever is still out.
 * Not for two threads at once.
 */
#ifndef GD_SHM_BYTES_H
#define GD_SHM_BYTES_H

#include <stdint.h>

struct gd__bytes;

int gd__bytes_open(struct gd__bytes **out, uint64_t first, uint64_t end); /* offsets */
void gd__bytes_close(struct gd__bytes **b);

/* Room for size > 0 bytes; its offset (multiple of 64), or 0 with the thread's error text set. Not bound to a record
 * yet: it must go to gd__bytes_bind() or gd__bytes_drop(). Nothing but a lack of room for size or of private memory
 * makes it fail: when GD_E_NO_MEMORY is the reason, gd__port_wait_released() and gd__bytes_release() may make some. */
uint64_t gd__bytes_alloc(struct gd__bytes *b, uint64_t size);

/* Gives back a block that no record will name. Any order. */
void gd__bytes_drop(struct gd__bytes *b, uint64_t offset);

/* The block at offset goes out with result record number `record`: free once released > record. Records are bound in
 * rising order (the same number may come again). */
void gd__bytes_bind(struct gd__bytes *b, uint64_t offset, uint64_t record);

/* Frees what the dispatcher has released. Called by alloc's caller before allocating. */
void gd__bytes_release(struct gd__bytes *b, uint64_t released);

#endif
