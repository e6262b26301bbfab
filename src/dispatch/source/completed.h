/* The feeder's side of the journal: what identifies the items of a source, and which of them are final already.
 *
 *   the feeder thread   gd__completed_key, _ask, _wait, _has_room
 *   the monitor         gd__completed_interrupt, _leave: a feeder that is left to itself finds no journal
 */
#ifndef GD_DISPATCH_SOURCE_COMPLETED_H
#define GD_DISPATCH_SOURCE_COMPLETED_H

#include <pthread.h>
#include <stdbool.h>

#include "journal/journal.h"

struct gd__completed {
    bool keeps;                 /* there was a journal at the beginning: else nothing here is to be called */
    pthread_mutex_t lock;       /* of the next, which the monitor takes away */
    struct gd_journal *journal; /* NULL: none, or none any more */
    uint64_t given;             /* items so far, with those that were final already */
    bool has_key;               /* the item in hand has one of its own */
    struct gd__journal_key key;
    char *version;
};

void gd__completed_open(struct gd__completed *k, struct gd_journal *journal); /* NULL: none */
void gd__completed_close(struct gd__completed *k);

/* The item in hand has this key, and not its payload. 0 or GD_E_NO_MEMORY. */
int gd__completed_key(struct gd__completed *k, const void *key, size_t size, const char *version);
void gd__completed_next(struct gd__completed *k); /* another item is in hand, without a key */

/* 1: the item in hand is to be run, with *out, which is NULL without a journal; 0: it is final already; or negative: it
 * may come again. */
int gd__completed_ask(struct gd__completed *k, const void *data, size_t size, struct gd__journal_task **out);
/* Whether that reads the journal: it may take long. */
bool gd__completed_ask_reads(struct gd__completed *k, const void *data, size_t size);

void gd__completed_wait(struct gd__completed *k); /* for a disk that is far behind */
bool gd__completed_has_room(struct gd__completed *k);

void gd__completed_interrupt(struct gd__completed *k); /* nobody waits from here on */
void gd__completed_leave(struct gd__completed *k);     /* the journal is not touched from here on */

#endif
