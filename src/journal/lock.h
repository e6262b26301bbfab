/* Holding a journal: one run at a time. See hold.c. */
#ifndef GD_JOURNAL_LOCK_H
#define GD_JOURNAL_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/process/fork.h"

struct gd__journal_lock {
    struct gd__fork_guard file; /* its descriptor is -1: not held */
    char *path;
};
#define GD__JOURNAL_LOCK_NONE       \
    {                               \
        .file = GD__FORK_GUARD_NONE \
    }

/* Holds the journal at path. GD_E_BUSY: another run does. Must stay at its address until it is released. */
int gd__journal_lock_take(struct gd__journal_lock *h, const char *journal);
void gd__journal_lock_release(struct gd__journal_lock *h);
/* Somebody has removed the lock: another run could hold the journal as well. */
bool gd__journal_lock_is_lost(const struct gd__journal_lock *h);

/* Whether a run holds it; *pid is whose it is, as far as known. Takes nothing, so it is in nobody's way. */
bool gd__journal_lock_test(const char *journal, uint64_t *pid);

#endif
