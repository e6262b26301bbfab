/* The journal as the dispatcher uses it. The public part is <gpu_dispatch/journal.h>.
 *
 *   the run's thread      gd__journal_begin, _set_total, _put, _end
 *   one other thread      gd__journal_put, instead of the run's thread (gd__record_put_off() in binding.h)
 *   the feeder's thread   gd__journal_admit, _take, _take_reads
 *   any thread            gd__journal_interrupt, _skipped, _shard, _path
 *
 * Each task that must be run has a small context. gd__journal_take() makes it, and gd__journal_put() frees it. The
 * context is one block of memory without pointers to the journal, so code that drops the task may free it with
 * gd__free().
 */
#ifndef GD_JOURNAL_JOURNAL_H
#define GD_JOURNAL_JOURNAL_H

#include <gpu_dispatch/journal.h>

#include "base/hash/siphash.h"

/* Identifies a task. */
struct gd__journal_key {
    unsigned char hash[GD__HASH_SIZE];
    const char *version; /* NULL: none */
};

struct gd__journal_task {
    uint64_t id;       /* id of its record; 0: write no record */
    uint64_t number;   /* in the source, from 0 */
    uint64_t weight;   /* belongs to the dispatcher */
    uint32_t attempts; /* attempts in the record that the new record replaces */
    uint8_t replaces;  /* state of the record that the new record replaces (enum gd__final); 0: it replaces none */
    bool has_version;
    uint16_t crashes; /* belongs to the dispatcher: of a task of a queue, how often it has killed a worker or a node */
    unsigned char key[GD__HASH_SIZE];
    char version[];
};

struct gd__journal_run {
    void (*failed)(void *user); /* called on the journal's thread: nothing more can be written, end the run */
    void *user;
    uint64_t total; /* tasks; 0: not known */
};
int gd__journal_begin(struct gd_journal *j, const struct gd__journal_run *run);

/* Called if the number of tasks becomes known during the run. */
void gd__journal_set_total(struct gd_journal *j, uint64_t total);

/* Waits while too many records are unwritten. */
void gd__journal_admit(struct gd_journal *j);

/* Whether gd__journal_admit() would return at once. */
bool gd__journal_has_room(struct gd_journal *j);

/* Called for task `number` of the source. Returns 1 if the task must be run, with its context in *out; 0 if it is
 * final already; or a negative code. */
int gd__journal_take(struct gd_journal *j, const struct gd__journal_key *key, uint64_t number,
                     struct gd__journal_task **out);

/* Whether gd__journal_take() for that key reads some or all rows of the journal, which may take long. */
bool gd__journal_take_reads(const struct gd_journal *j, const struct gd__journal_key *key);

/* Called when no more tasks are taken from the source. After this, gd__journal_admit() and gd__journal_take() do not
 * wait. */
void gd__journal_interrupt(struct gd_journal *j);

/* Called when a task is final and its callback has returned. Records the task, unless it was cancelled, had no worker,
 * or has a note with not_done. Frees the context. */
void gd__journal_put(struct gd_journal *j, struct gd__journal_task *t, const struct gd_report *r);

/* Called at the end of the run. Writes the remaining records. how: the outcome to record, like "finished". Returns 0 or
 * GD_E_JOURNAL. */
int gd__journal_end(struct gd_journal *j, const char *how);

uint64_t gd__journal_skipped(struct gd_journal *j);

/* The shard that the journal was opened with (count 0: none), and the path of its file, which has the shard in it. */
struct gd_shard gd__journal_shard(const struct gd_journal *j);
const char *gd__journal_path(const struct gd_journal *j);

#endif
