/* Locks a journal, so that only one run at a time writes to it. See lock.c. */
#ifndef GD_JOURNAL_LOCK_H
#define GD_JOURNAL_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/process/fork.h"

struct gd__journal_lock {
    struct gd__fork_guard file; /* its descriptor is -1 while not locked */
    char *path;
};
#define GD__JOURNAL_LOCK_NONE       \
    {                               \
        .file = GD__FORK_GUARD_NONE \
    }

/* Locks the journal at that path. Returns GD_E_BUSY if another run has locked it. *h must not be moved in memory until
 * it is released. */
int gd__journal_lock_take(struct gd__journal_lock *h, const char *journal);
void gd__journal_lock_release(struct gd__journal_lock *h);
/* Whether the lock file was removed. If so, another run could lock the journal too. */
bool gd__journal_lock_is_lost(const struct gd__journal_lock *h);

/* Whether a run has locked the journal. *pid is its process id, or 0 if unknown. Takes no lock, so it does not keep a
 * run from starting. */
bool gd__journal_lock_test(const char *journal, uint64_t *pid);

#endif
