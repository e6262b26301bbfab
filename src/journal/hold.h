/* Holding a journal: one run at a time. See hold.c. */
#ifndef GD_JOURNAL_HOLD_H
#define GD_JOURNAL_HOLD_H

#include <stdbool.h>
#include <stdint.h>

struct gd__hold {
    int fd; /* -1: not held */
    char *path;
};
#define GD__HOLD_NONE \
    {                 \
        .fd = -1      \
    }

/* Holds the journal at path. GD_E_BUSY: another run does. */
int gd__hold_take(struct gd__hold *h, const char *journal);
void gd__hold_release(struct gd__hold *h);
/* Somebody has removed the lock: another run could hold the journal as well. */
bool gd__hold_is_lost(const struct gd__hold *h);

/* Whether a run holds it; *pid is whose it is, as far as known. Takes nothing, so it is in nobody's way. */
bool gd__hold_test(const char *journal, uint64_t *pid);

#endif
