/* A queue of waiting tasks, in the order in which they will start.
 *
 * Tasks of a higher priority come first, strictly. Tasks of the same priority start by their number, or with
 * GD_PLACE_BY_SIZE the largest first.
 *
 * Tasks come from the source in that order, so each priority has a list to which they are appended. A task that comes
 * back (a retry, or a task that was taken back from a worker) may belong anywhere. Such tasks are in a pairing heap. A
 * task's links are in the task itself, so the queue allocates nothing. The functions that every task needs, to append
 * it and to take it out, are inline in internal.h.
 */
#ifndef GD_CORE_WAITING_H
#define GD_CORE_WAITING_H

#include <stdbool.h>
#include <stdint.h>

#define GD__NO_TASK UINT32_MAX

enum { GD__PRIORITY_MIN = -4, GD__PRIORITY_MAX = 3, GD__PRIORITIES = GD__PRIORITY_MAX - GD__PRIORITY_MIN + 1 };

struct gd__sched;

/* A list of tasks, linked by slot number. */
struct gd__list {
    uint32_t head, tail;
    uint64_t count;
};

struct gd__waiting {
    struct gd__list fresh[GD__PRIORITIES]; /* tasks from the source; index 0 is the lowest priority */
    uint32_t returned;                     /* the root of the heap of tasks that came back; valid if n_returned > 0 */
    uint64_t n_returned;
    uint64_t count; /* number of tasks in the queue */
    uint8_t levels; /* bit k: fresh[k] is not empty */
};

void gd__list_push_front(struct gd__sched *s, struct gd__list *l, uint32_t slot);
/* Takes out a task. Returns false if it is not in the list. */
bool gd__list_remove(struct gd__sched *s, struct gd__list *l, uint32_t slot);

/* Whether the task in slot a starts before that in slot b. */
bool gd__goes_first(const struct gd__sched *s, uint32_t a, uint32_t b);

/* Puts a task in its place. */
void gd__waiting_insert(struct gd__sched *s, struct gd__waiting *q, uint32_t slot);
/* The first task. The queue must not be empty. */
uint32_t gd__waiting_first(const struct gd__sched *s, const struct gd__waiting *q);
/* What gd__waiting_pop() in internal.h does if tasks have come back. */
uint32_t gd__waiting_pop_any(struct gd__sched *s, struct gd__waiting *q);
/* Takes out a task that is in the queue. Takes time in proportion to the number of tasks before it. */
void gd__waiting_remove(struct gd__sched *s, struct gd__waiting *q, uint32_t slot);
/* Forgets all tasks. */
void gd__waiting_clear(struct gd__waiting *q);
/* Calls each() for every task of the queue, in no particular order. Links change meanwhile: each() must not use the
 * queue. */
void gd__waiting_each(const struct gd__sched *s, const struct gd__waiting *q, void (*each)(void *ctx, uint32_t slot),
                      void *ctx);

#endif
