/* A binary min-heap of timers. Each timer is embedded in the struct that it belongs to. Room for all timers is
 * allocated before, so nothing is allocated per timer. */
#ifndef GD_BASE_HEAP_H
#define GD_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gd__timer {
    uint64_t at_ns;
    uint32_t position; /* 1-based place in the heap; 0: not armed */
    uint32_t tag;      /* set by the user of the heap, to tell which timer this is */
};

struct gd__heap {
    struct gd__timer **items; /* items[1 .. count] */
    size_t count;
    size_t capacity;
};

int gd__heap_init(struct gd__heap *h, size_t capacity); /* 0 or GD_E_NO_MEMORY */
int gd__heap_grow(struct gd__heap *h, size_t capacity); /* more room; 0 or GD_E_NO_MEMORY */
void gd__heap_destroy(struct gd__heap *h);
void gd__heap_arm(struct gd__heap *h, struct gd__timer *t, uint64_t at_ns); /* arms or moves */
void gd__heap_disarm(struct gd__heap *h, struct gd__timer *t);              /* no-op if not armed */
void gd__heap_shift(struct gd__heap *h, uint64_t by_ns);                    /* moves all timers to a later time */
struct gd__timer *gd__heap_first(const struct gd__heap *h);                 /* NULL: empty */
static inline bool gd__timer_armed(const struct gd__timer *t)
{
    return t->position != 0;
}

#endif
