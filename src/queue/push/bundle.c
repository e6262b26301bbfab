/* How many tasks travel in one message: see bundle.h. */
#include "queue/push/bundle.h"

#include "queue/names/subject.h"

struct gd__bundling gd__bundling_fixed(uint32_t tasks)
{
    const uint32_t most = GD__QUEUE_BUNDLE_MOST;
    return (struct gd__bundling){ .target = tasks == 0 ? 1 : tasks < most ? tasks : most };
}

struct gd__bundling gd__bundling_auto(uint64_t tasks, uint64_t run_us)
{
    if (tasks == 0 || run_us / tasks >= GD__BUNDLE_SHORT_US)
        return (struct gd__bundling){ .target = 1 };
    const uint64_t mean_us = run_us / tasks;
    const uint64_t target = mean_us > 0 ? GD__BUNDLE_WORK_US / mean_us : GD__BUNDLE_AUTO_MOST;
    return (struct gd__bundling){ .target = target < GD__BUNDLE_AUTO_MOST ? (uint32_t)target : GD__BUNDLE_AUTO_MOST,
                                  .shrinks = true };
}

void gd__bundling_limit(struct gd__bundling *b, uint32_t most)
{
    if (b->target > most)
        b->target = most > 0 ? most : 1;
}

size_t gd__bundling_next(const struct gd__bundling *b, size_t waiting, size_t bytes, size_t most_bytes, bool is_end)
{
    if (!b->shrinks)
        return waiting >= b->target ? b->target : is_end ? waiting : 0;
    if (!is_end)
        return waiting > (size_t)b->target * GD__BUNDLE_KEPT || bytes / GD__BUNDLE_KEPT > most_bytes ? b->target : 0;
    const size_t share = (waiting + GD__BUNDLE_SHARES - 1) / GD__BUNDLE_SHARES;
    return share < b->target ? share : b->target;
}
