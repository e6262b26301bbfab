/* The time in which at least one task of a GPU was in flight: the length of the union of the intervals of its tasks. Two
 * tasks that run at the same time count once. */
#ifndef GD_LAUNCH_FIGURES_BUSY_TIME_H
#define GD_LAUNCH_FIGURES_BUSY_TIME_H

#include <stddef.h>
#include <stdint.h>

enum { GD__BUSY_SPANS = 32 };

/* All zero: no task yet. */
struct gd__busy_time {
    size_t n;
    struct gd__busy_span {
        uint64_t start_ns, end_ns;
        uint64_t busy_ns;        /* at most end_ns - start_ns; less if there were pauses */
    } spans[GD__BUSY_SPANS + 1]; /* sorted; they do not touch; the last one is used only during a call */
};

/* Adds a task. Tasks may come in any order. end_ns must not be less than start_ns. */
void gd__busy_time_add(struct gd__busy_time *t, uint64_t start_ns, uint64_t end_ns);
uint64_t gd__busy_time_ns(const struct gd__busy_time *t);

#endif
