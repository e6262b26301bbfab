/* What is final already: which record, if any, a task of the source belongs to, and which id the others get.
 *
 * Each record is matched once, so two equal tasks are two. The journal is read in small parts, so that its write-ahead
 * log can be emptied meanwhile. For one thread, on a connection of its own.
 */
#ifndef GD_JOURNAL_RESUME_H
#define GD_JOURNAL_RESUME_H

#include <stdatomic.h>

#include "journal/rows.h"

struct gd__resume;

/* interrupted: looked at while something takes long. */
int gd__resume_open(struct gd__resume **out, const char *path, const atomic_bool *interrupted);
void gd__resume_close(struct gd__resume **r);

/* 1: *out is its record; 0: there is none, and out->id is the id of the one to be written; GD_E_SHUTDOWN: interrupted;
 * or another negative code. */
int gd__resume_find(struct gd__resume *r, const unsigned char key[GD__HASH_SIZE], uint64_t version,
                    struct gd__row *out);

/* Whether finding that key reads the journal, some rows of it or all: it may take long. */
bool gd__resume_find_reads(const struct gd__resume *r, const unsigned char key[GD__HASH_SIZE]);

#endif
