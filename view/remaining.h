/* SPDX-License-Identifier: MIT
 *
 * How much of a journal's work remains, computed from its summary. `status` and the report show it.
 */
#ifndef GD_VIEW_REMAINING_H
#define GD_VIEW_REMAINING_H

#include <stdbool.h>
#include <stdint.h>

#include <gpu_dispatch/journal.h>

struct view_remaining {
    bool has_left; /* the next three fields are known */
    uint64_t left; /* inputs of the last run that were finished neither in that run nor earlier */
    uint64_t all;  /* all tasks: those in the journal and those that are left */
    uint64_t gone; /* tasks in the journal that were not in the input of the last run; 0 if that run did not finish */
};

void view_remaining_of(struct view_remaining *out, const struct gd_journal_summary *s);

#endif
