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
    bool keeps;                 /* the run began with a journal; otherwise nothing here may be called */
    pthread_mutex_t lock;       /* protects journal, which the monitor takes away */
    struct gd_journal *journal; /* NULL: no journal, or it was taken away */
    uint64_t given;             /* items so far, including those that were final already */
    bool has_key;               /* the current item has a key of its own */
    struct gd__journal_key key;
    char *version;
};

void gd__completed_open(struct gd__completed *k, struct gd_journal *journal); /* journal may be NULL */
void gd__completed_close(struct gd__completed *k);

/* Sets the key of the current item, used instead of its payload. 0 or GD_E_NO_MEMORY. */
int gd__completed_key(struct gd__completed *k, const void *key, size_t size, const char *version);
void gd__completed_next(struct gd__completed *k); /* begins the next item, without a key */

/* 1: the current item is to be run, with *out (NULL without a journal). 0: it is final already. Negative: an error, and
 * the item may come again. */
int gd__completed_ask(struct gd__completed *k, const void *data, size_t size, struct gd__journal_task **out);
/* Whether gd__completed_ask() would read the journal, which may take long. */
bool gd__completed_ask_reads(struct gd__completed *k, const void *data, size_t size);

void gd__completed_wait(struct gd__completed *k); /* waits for a disk that is far behind */
bool gd__completed_has_room(struct gd__completed *k);

void gd__completed_interrupt(struct gd__completed *k); /* from here on nothing waits */
void gd__completed_leave(struct gd__completed *k);     /* the journal is not touched from here on */

#endif
