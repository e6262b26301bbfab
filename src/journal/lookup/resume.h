/* Resuming: finds the record of each task of the source, and gives an id to tasks that have no record.
 *
 * Each record is matched only once, so two equal tasks have two records. The journal is read in small parts, so that
 * its write-ahead log can be emptied between them. Used by one thread only. It has a separate database connection.
 */
#ifndef GD_JOURNAL_LOOKUP_RESUME_H
#define GD_JOURNAL_LOOKUP_RESUME_H

#include <stdatomic.h>

#include "journal/lookup/rows.h"

struct gd__resume;

/* interrupted: checked during long operations. */
int gd__resume_open(struct gd__resume **out, const char *path, const atomic_bool *interrupted);
void gd__resume_close(struct gd__resume **r);

/* Returns 1 if *out is the task's record; 0 if the task has no record, with the id for its new record in out->id;
 * GD_E_SHUTDOWN if interrupted; or another negative code. */
int gd__resume_find(struct gd__resume *r, const unsigned char key[GD__HASH_SIZE], uint64_t version,
                    struct gd__row *out);

/* Whether gd__resume_find() for that key reads some or all rows of the journal, which may take long. */
bool gd__resume_find_reads(const struct gd__resume *r, const unsigned char key[GD__HASH_SIZE]);

#endif
