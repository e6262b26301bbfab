/* Holding a journal: one run at a time. See hold.c. */
#ifndef GD_JOURNAL_HOLD_H
#define GD_JOURNAL_HOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/process/fork.h"

struct gd__hold {
    struct gd__fork_guard file; /* its descriptor is -1: not held */
    char *path;
};
#define GD__HOLD_NONE               \
    {                               \
        .file = GD__FORK_GUARD_NONE \
    }

/* Holds the journal at path. GD_E_BUSY: another run does. Must stay at its address until it is released. */
int gd__hold_take(struct gd__hold *h, const char *journal);
void gd__hold_release(struct gd__hold *h);
/* Somebody has removed the lock: another run could hold the journal as well. */
bool gd__hold_is_lost(const struct gd__hold *h);

/* Whether a run holds it; *pid is whose it is, as far as known. Takes nothing, so it is in nobody's way. */
bool gd__hold_test(const char *journal, uint64_t *pid);

#endif
