/* The journal as the dispatcher uses it. The public part is <gpu_dispatch/journal.h>.
 *
 *   the run's thread      gd__journal_begin, _put, _end
 *   one other thread      gd__journal_put, in place of the run's (gd__record_put_off() in binding.h)
 *   the feeder's thread   gd__journal_admit, _take, _take_reads
 *   any thread            gd__journal_interrupt, _skipped
 *
 * A task that is to be run has a small context. gd__journal_take() makes it, and gd__journal_put() frees it. It is
 * plain memory without a link to the journal: code that drops the task may free it with gd__free().
 */
#ifndef GD_JOURNAL_JOURNAL_H
#define GD_JOURNAL_JOURNAL_H

#include <gpu_dispatch/journal.h>

#include "journal/siphash.h"

/* What identifies a task. */
struct gd__journal_key {
    unsigned char hash[GD__HASH_SIZE];
    const char *version; /* NULL: none */
};

struct gd__journal_task {
    uint64_t id;       /* of its record; 0: write no record */
    uint64_t number;   /* in the source, from 0 */
    uint64_t weight;   /* belongs to the dispatcher */
    uint32_t attempts; /* attempts of the record that it replaces */
    uint8_t replaces;  /* state of the record that it replaces (enum gd__final); 0: no such record */
    bool has_version;
    unsigned char key[GD__HASH_SIZE];
    char version[];
};

void gd__journal_hash(const void *key, size_t size, unsigned char out[GD__HASH_SIZE]);

struct gd__journal_run {
    void (*failed)(void *user); /* called on the journal's thread: nothing more can be written, end the run */
    void *user;
    uint64_t total; /* tasks; 0: not known */
};
int gd__journal_begin(struct gd_journal *j, const struct gd__journal_run *run);

/* Waits while too many records are unwritten. */
void gd__journal_admit(struct gd_journal *j);

/* Whether gd__journal_admit() would return at once. */
bool gd__journal_has_room(struct gd_journal *j);

/* Called for task `number` of the source. 1: it is to be run, and *out is its context; 0: it is already final; or
 * negative. */
int gd__journal_take(struct gd_journal *j, const struct gd__journal_key *key, uint64_t number,
                     struct gd__journal_task **out);

/* Whether gd__journal_take() for that key reads some or all rows of the journal, which may take long. */
bool gd__journal_take_reads(const struct gd_journal *j, const struct gd__journal_key *key);

/* No more tasks are taken from the source: from here on gd__journal_admit() and gd__journal_take() do not wait. */
void gd__journal_interrupt(struct gd_journal *j);

/* A task is final, and its callback has returned. Frees the context. Tasks that were cancelled or had no worker are not
 * recorded. */
void gd__journal_put(struct gd_journal *j, struct gd__journal_task *t, const struct gd_report *r);

/* The run is over: writes the remaining records. how: a word for the journal. Returns 0, or GD_E_JOURNAL with an error
 * message. */
int gd__journal_end(struct gd_journal *j, const char *how);

uint64_t gd__journal_skipped(struct gd_journal *j);

#endif
