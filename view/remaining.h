/* SPDX-License-Identifier: MIT
 *
 * How the work of a journal stands, from its summary: what is left, of how many, and what the last run did not have in
 * its input. For `status`, the report, and who else tells a person.
 */
#ifndef GD_VIEW_REMAINING_H
#define GD_VIEW_REMAINING_H

#include <stdbool.h>
#include <stdint.h>

#include <gpu_dispatch/journal.h>

struct view_remaining {
    bool has_left; /* known: */
    uint64_t left; /* inputs of the last run that have not come to an end, in it or before */
    uint64_t all;  /* tasks there are: those of the journal and those that are left */
    uint64_t gone; /* tasks of the journal that the last run did not have in its input; 0 too if it was not finished */
};

void view_remaining_of(struct view_remaining *out, const struct gd_journal_summary *s);

#endif
