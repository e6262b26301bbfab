/* The source of a run that takes its tasks from a queue: see queue_source.h. On the feeder's thread, except for the
 * cancelling. */
#include "dispatch/source/queue_source.h"

#include "base/alloc.h"
#include "base/error.h"
#include "dispatch/source/feeder_state.h"

/* A task without a context is given back when the run ends. */
static int set_context(struct gd_item *item, const struct gd__queue_run_task *task)
{
    struct gd__journal_task *t = gd__calloc(1, sizeof *t);
    if (!t)
        return gd_item_error(item, "no memory for a task of the queue");
    t->id = (uint64_t)(uintptr_t)task->given;
    t->crashes = task->crashes < UINT16_MAX ? (uint16_t)task->crashes : UINT16_MAX;
    gd__item_context(item, t);
    return 1;
}

static int next_task(void *user, struct gd_item *item)
{
    struct gd__queue_run *queue = user;
    struct gd__queue_run_task t;
    const int rc = gd__queue_run_take(queue, &t);
    if (rc <= 0)
        return rc == 0 ? 0 : gd_item_error(item, "%s", gd_error_text());
    item->data = t.data;
    item->size = t.size;
    item->weight = t.weight;
    item->timeout_ms = t.timeout_ms;
    item->priority = t.priority;
    return set_context(item, &t);
}

static void cancel(void *user)
{
    gd__queue_run_cancel(user, NULL);
}

static void hold(void *user)
{
    gd__queue_run_hold(user);
}

static void let_go(void *user)
{
    gd__queue_run_release(user);
}

void gd__queue_source(struct gd__feeder_spec *spec, struct gd__queue_run *queue)
{
    spec->source = next_task;
    spec->source_cancel = cancel;
    spec->source_hold = hold;
    spec->source_release = let_go;
    spec->user = queue;
    spec->on_skip = NULL;
    spec->has_contexts = true;
}
