/* The union of the intervals of tasks, in a fixed amount of memory.
 *
 * Spans are kept sorted. A new interval replaces all spans that it touches. If there are too many spans, the two with the
 * shortest pause between them become one, which still knows how much of it was busy. So the result is exact for up to
 * GD__BUSY_SPANS separate intervals, and also for any number of intervals that come in order and do not overlap. It is
 * an estimate only for a task that begins or ends inside a span with pauses: nobody knows then on which side of that time
 * the pauses were, and they are taken to be spread evenly. The error is at most the sum of the pauses in that span, which
 * are the shortest ones of the run.
 */
#include "launch/figures/busy_time.h"

#include <string.h>

static uint64_t length(const struct gd__busy_span *s)
{
    return s->end_ns - s->start_ns;
}

/* How much of a part of a span was busy. */
static uint64_t share(const struct gd__busy_span *s, uint64_t part_ns)
{
    if (s->busy_ns == length(s))
        return part_ns;
    const uint64_t busy_ns = (uint64_t)((double)s->busy_ns * ((double)part_ns / (double)length(s)));
    return busy_ns < part_ns ? busy_ns : part_ns;
}

/* Adds the part of a span that is before an interval. */
static void add_left(struct gd__busy_span *all, const struct gd__busy_span *s)
{
    if (s->start_ns >= all->start_ns)
        return;
    all->busy_ns += share(s, all->start_ns - s->start_ns);
    all->start_ns = s->start_ns;
}

/* Adds the part of a span that is after an interval. */
static void add_right(struct gd__busy_span *all, const struct gd__busy_span *s)
{
    if (s->end_ns <= all->end_ns)
        return;
    all->busy_ns += share(s, s->end_ns - all->end_ns);
    all->end_ns = s->end_ns;
}

/* Joins the two neighbours with the shortest pause between them. */
static void join_nearest(struct gd__busy_time *t)
{
    size_t best = 0;
    uint64_t shortest_ns = UINT64_MAX;
    for (size_t i = 0; i + 1 < t->n; i++) {
        const uint64_t pause_ns = t->spans[i + 1].start_ns - t->spans[i].end_ns;
        if (pause_ns < shortest_ns) {
            shortest_ns = pause_ns;
            best = i;
        }
    }
    struct gd__busy_span *left = &t->spans[best];
    left->end_ns = left[1].end_ns;
    left->busy_ns += left[1].busy_ns;
    t->n--;
    memmove(left + 1, left + 2, (t->n - best - 1) * sizeof *left);
}

/* Replaces the spans from first up to end by one. */
static void replace(struct gd__busy_time *t, size_t first, size_t end, const struct gd__busy_span *by)
{
    memmove(&t->spans[first + 1], &t->spans[end], (t->n - end) * sizeof *by);
    t->spans[first] = *by;
    t->n = t->n - (end - first) + 1;
}

/* The spans from *first up to *end touch the interval. */
static void find_touching(const struct gd__busy_time *t, const struct gd__busy_span *interval, size_t *first,
                          size_t *end)
{
    /* Tasks usually come in the order in which they end, so the search begins at the last span. */
    *first = t->n;
    while (*first > 0 && t->spans[*first - 1].end_ns >= interval->start_ns)
        --*first;
    *end = *first;
    while (*end < t->n && t->spans[*end].start_ns <= interval->end_ns)
        ++*end;
}

void gd__busy_time_add(struct gd__busy_time *t, uint64_t start_ns, uint64_t end_ns)
{
    const struct gd__busy_span interval = { start_ns, end_ns, end_ns - start_ns };
    size_t first, end;
    if (start_ns == end_ns)
        return;
    find_touching(t, &interval, &first, &end);
    struct gd__busy_span all = interval;
    if (end > first) {
        add_left(&all, &t->spans[first]);
        add_right(&all, &t->spans[end - 1]);
    }
    replace(t, first, end, &all);
    if (t->n > GD__BUSY_SPANS)
        join_nearest(t);
}

uint64_t gd__busy_time_ns(const struct gd__busy_time *t)
{
    uint64_t all_ns = 0;
    for (size_t i = 0; i < t->n; i++)
        all_ns += t->spans[i].busy_ns;
    return all_ns;
}
