/* The source of a run that takes its tasks from a queue. */
#ifndef GD_DISPATCH_SOURCE_QUEUE_SOURCE_H
#define GD_DISPATCH_SOURCE_QUEUE_SOURCE_H

#include "dispatch/source/feeder.h"
#include "queue/run/queue_run.h"

/* Makes the queue the source of the feeder. */
void gd__queue_source(struct gd__feeder_spec *spec, struct gd__queue_run *queue);

/* The context of a task has the queue's handle for it where a journal has the id of its record. */
static inline struct gd__queue_given *gd__context_given(const struct gd__journal_task *t)
{
    return (struct gd__queue_given *)(uintptr_t)t->id;
}

#endif
