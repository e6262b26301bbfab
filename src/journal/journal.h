/* The journal as the dispatcher uses it. The public part is <gpu_dispatch/journal.h>.
 *
 *   the run's thread      gd__journal_begin, _put, _end
 *   one other thread      gd__journal_put, in place of the run's (gd__record_put_off() in binding.h)
 *   the feeder's thread   gd__journal_admit, _take, _take_reads
 *   any thread            gd__journal_interrupt, _skipped
 *
 * A task that is to be run has a small context, made by gd__journal_take() and taken back by gd__journal_put(). It is
 * plain memory that knows no journal: whoever drops the task may free it with gd__free().
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
    uint64_t id;       /* of its record; 0: none is to be written */
    uint64_t number;   /* in the source, from 0 */
    uint64_t weight;   /* the dispatcher's */
    uint32_t attempts; /* of the record that it replaces and goes on from */
    uint8_t replaces;  /* that record's state (enum gd__final); 0: there is none */
    bool has_version;
    unsigned char key[GD__HASH_SIZE];
    char version[];
};

void gd__journal_hash(const void *key, size_t size, unsigned char out[GD__HASH_SIZE]);

struct gd__journal_run {
    void (*failed)(void *user); /* from the journal's thread: nothing more can be written, end the run */
    void *user;
    uint64_t total; /* tasks; 0: not known */
};
int gd__journal_begin(struct gd_journal *j, const struct gd__journal_run *run);

/* Waits while too much is unwritten. */
void gd__journal_admit(struct gd_journal *j);

/* Whether it would not wait. */
bool gd__journal_has_room(struct gd_journal *j);

/* The number-th task of the source. 1: it is to be run, *out is its context; 0: it is final already; or negative. */
int gd__journal_take(struct gd_journal *j, const struct gd__journal_key *key, uint64_t number,
                     struct gd__journal_task **out);

/* Whether that reads the journal, some rows of it or all: it may take long. */
bool gd__journal_take_reads(const struct gd_journal *j, const struct gd__journal_key *key);

/* Nothing more is wanted of the source: nobody waits in the two above from here on. */
void gd__journal_interrupt(struct gd_journal *j);

/* A task is final; its callback has returned. Takes the context over; reports of tasks that were cancelled or had no
 * worker are not recorded. */
void gd__journal_put(struct gd_journal *j, struct gd__journal_task *t, const struct gd_report *r);

/* The run is over: writes what is left. how: a word for the journal. 0, or GD_E_JOURNAL with words. */
int gd__journal_end(struct gd_journal *j, const char *how);

uint64_t gd__journal_skipped(struct gd_journal *j);

#endif
