/* SPDX-License-Identifier: MIT
 *
 * Computes how many tasks of a journal remain. The list of inputs may have grown or lost lines between two runs. So the
 * number of tasks is neither the last run's total nor the number of records. A task that is being run again counts as
 * left, although it has an old record. So these figures show only what is certain. */
#include "view/remaining.h"

#include <string.h>

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

void view_remaining_of(struct view_remaining *out, const struct gd_journal_summary *s)
{
    const uint64_t records = s->done + s->failed, over = s->run_done + s->run_failed + s->skipped;
    *out = (struct view_remaining){ .has_left = s->total > 0 };
    out->left = less(s->total, over);
    out->all = larger(larger(s->total, records), s->done + out->left);
    if (s->end && strcmp(s->end, "finished") == 0)
        out->gone = less(records, over);
}
