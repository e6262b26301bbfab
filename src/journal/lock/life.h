/* Whether the holder of a lock file is alive: see life.c. */
#ifndef GD_JOURNAL_LOCK_LIFE_H
#define GD_JOURNAL_LOCK_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#include "journal/lock/holder.h"

enum { GD__HOLDER_BYTE, GD__REPLACER_BYTE };

/* The result of locking or testing a byte. */
enum gd__byte { GD__BYTE_FREE, GD__BYTE_LOCKED, GD__BYTE_NO_LOCKS, GD__BYTE_ERROR };
enum gd__byte gd__lock_byte(const struct gd__lock_settings *s, int fd, int byte); /* GD__BYTE_FREE: it is locked now */

/* Whether other hosts may use the file system of that file, which need not exist. */
bool gd__lock_is_shared(const struct gd__lock_settings *s, const char *path);

/* What a newcomer has seen of one holder. */
struct gd__watch {
    char nonce[GD__NONCE_MAX];
    uint64_t pid, beat;
    uint64_t seen_ns;  /* 0: never */
    uint64_t still_ns; /* how long its heartbeat stood still */
};

/* GD__HOLDER_SILENT: dead too, but only because its heartbeat stood still. */
enum gd__life { GD__HOLDER_ALIVE, GD__HOLDER_DEAD, GD__HOLDER_SILENT };

/* Looks at the file, and reads its holder. */
enum gd__life gd__lock_look(int fd, struct gd__watch *w, const struct gd__lock_settings *s, bool shared,
                            struct gd__lock_holder *holder);

char *gd__lock_path(const char *journal); /* JOURNAL-lock; NULL: no memory. The caller frees it */

#endif
