/* The worker's allocator for result bytes.
 *
 * It has an arena over the data part of the result region, and two lists:
 *   unbound   blocks that are not bound to a record yet, oldest first. Most are bound in the order in which they were
 *             allocated, so a search from the front finds them at once.
 *   out       blocks that were sent with a record, in the order of record numbers. Released blocks leave this ring.
 *
 * Allocating a block also makes room for it in both lists, so that binding and dropping can't fail. Not thread-safe.
 */
#include "shm/bytes.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "shm/arena.h"

struct block {
    uint64_t offset, size;
    uint64_t record;
};

struct gd__bytes {
    struct gd__arena *arena;
    struct block *unbound; /* [unbound_first, unbound_end) */
    size_t unbound_first, unbound_end, unbound_room;
    struct block *out; /* out_head .. out_tail, modulo out_room (a power of two) */
    size_t out_head, out_tail, out_room;
};

int gd__bytes_open(struct gd__bytes **out, uint64_t first, uint64_t end)
{
    *out = NULL;
    struct gd__bytes *b = gd__calloc(1, sizeof *b);
    if (!b)
        return gd__error_errno("result memory");
    int code = gd__arena_open(&b->arena, first, end, 0);
    if (code < 0) {
        gd__bytes_close(&b);
        return code;
    }
    *out = b;
    return 0;
}

void gd__bytes_close(struct gd__bytes **b)
{
    if (!*b)
        return;
    gd__arena_close(&(*b)->arena);
    gd__free((*b)->unbound);
    gd__free((*b)->out);
    gd__free(*b);
    *b = NULL;
}

/* Makes room for one more unbound block: at the end of the list, by moving the list to the front, or by enlarging
 * it. */
static int reserve_unbound(struct gd__bytes *b)
{
    size_t n = b->unbound_end - b->unbound_first;
    if (b->unbound_end < b->unbound_room)
        return 0;
    if (n <= b->unbound_room / 2 && b->unbound_room > 0) {
        memmove(b->unbound, &b->unbound[b->unbound_first], n * sizeof *b->unbound);
        b->unbound_first = 0;
        b->unbound_end = n;
        return 0;
    }
    size_t room = b->unbound_room ? b->unbound_room * 2 : 16;
    struct block *unbound = gd__realloc(b->unbound, room * sizeof *unbound);
    if (!unbound)
        return gd__error_errno("result memory");
    b->unbound = unbound;
    b->unbound_room = room;
    return 0;
}

/* Makes room for binding all unbound blocks and one more. */
static int reserve_out(struct gd__bytes *b)
{
    size_t n = b->out_tail - b->out_head;
    if (n + (b->unbound_end - b->unbound_first) < b->out_room)
        return 0;
    size_t room = b->out_room ? b->out_room * 2 : 16;
    struct block *out = gd__calloc(room, sizeof *out);
    if (!out)
        return gd__error_errno("result memory");
    for (size_t i = 0; i < n; i++)
        out[i] = b->out[(b->out_head + i) & (b->out_room - 1)];
    gd__free(b->out);
    b->out = out;
    b->out_room = room;
    b->out_head = 0;
    b->out_tail = n;
    return 0;
}

uint64_t gd__bytes_alloc(struct gd__bytes *b, uint64_t size)
{
    if (reserve_unbound(b) < 0 || reserve_out(b) < 0)
        return 0;
    uint64_t offset = gd__arena_alloc(b->arena, size);
    if (offset)
        b->unbound[b->unbound_end++] = (struct block){ .offset = offset, .size = size };
    return offset;
}

/* Takes the block at offset off the list of unbound blocks. */
static struct block take_unbound(struct gd__bytes *b, uint64_t offset)
{
    size_t first = b->unbound_first, i = first;
    while (i < b->unbound_end && b->unbound[i].offset != offset)
        i++;
    assert(i < b->unbound_end);
    struct block found = b->unbound[i];
    memmove(&b->unbound[first + 1], &b->unbound[first], (i - first) * sizeof *b->unbound);
    if (++b->unbound_first == b->unbound_end)
        b->unbound_first = b->unbound_end = 0;
    return found;
}

void gd__bytes_drop(struct gd__bytes *b, uint64_t offset)
{
    struct block block = take_unbound(b, offset);
    gd__arena_free(b->arena, block.offset, block.size);
}

void gd__bytes_bind(struct gd__bytes *b, uint64_t offset, uint64_t record)
{
    struct block block = take_unbound(b, offset);
    block.record = record;
    b->out[b->out_tail++ & (b->out_room - 1)] = block;
}

void gd__bytes_release(struct gd__bytes *b, uint64_t released)
{
    while (b->out_head != b->out_tail) {
        const struct block *block = &b->out[b->out_head & (b->out_room - 1)];
        if (block->record >= released)
            return;
        gd__arena_free(b->arena, block->offset, block->size);
        b->out_head++;
    }
}

bool gd__bytes_are_out(const struct gd__bytes *b)
{
    return b->out_head != b->out_tail;
}
