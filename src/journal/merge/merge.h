/* Several journals as one: the declarations that these files share.
 *
 *   merge.c     the public functions, and the file of the new journal
 *   input.c     opening a journal that is merged, and limiting its queries
 *   keys.c      a table of all records by key, most of it in a temporary file
 *   choose.c    the first pass over the records: which of them are part of the result
 *   read.c      the second pass over the records of one journal
 *   rows.c      the chosen records of all journals, by number
 *   insert.c    writes them to the new journal
 *   runs.c      the runs of all journals
 *
 * The first pass reads only the columns that identify and compare records. It sets a bit for each record that is part
 * of the result. The second pass reads the whole records, and takes only those whose bit is set. Journals may be in use,
 * so a record that was added between the two passes has no bit and is not taken.
 *
 * The journals of different shards of one list have no tasks in common. If all journals are such, the first pass is left
 * out, and the second one takes every record. It still notes all keys. If two journals have the same key, the records
 * that were written are deleted, and both passes are made. The same is done if a journal's numbers do not ascend.
 *
 * No journal is kept in one transaction for long, because that would make its writer wait. If there are more journals
 * than this process may open at once, each is closed after some rows and opened again for the next ones.
 */
#ifndef GD_JOURNAL_MERGE_MERGE_H
#define GD_JOURNAL_MERGE_MERGE_H

#include <limits.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash/siphash.h"
#include "journal/db.h"
#include "journal/journal.h"

/* --- input.c --- */

/* An open journal. Queries are limited, because the file may be damaged or malicious: see reader.c. */
struct gd__merge_source {
    sqlite3 *db;
    const char *path;
    int64_t looks_left;
};
int gd__merge_source_open(struct gd__merge_source *s, const char *path);
void gd__merge_source_close(struct gd__merge_source *s);
/* Reads the largest id. */
int gd__merge_source_max_id(struct gd__merge_source *s, uint64_t *out);
void gd__merge_source_begin(struct gd__merge_source *s);  /* call it before each query */
int gd__merge_source_failed(struct gd__merge_source *s);  /* sets the error message of a query that failed */
int gd__merge_source_damaged(struct gd__merge_source *s); /* the same for a record that is not valid */

/* --- all journals --- */

struct gd__merge_place {
    uint64_t number, id;
};

struct gd__merge_renumbered {
    uint64_t before, after;
};

struct gd__merge_input {
    const char *path;
    uint64_t max_id;     /* records with a larger id are not read: they are newer than the merge; 0: not known yet */
    unsigned char *keep; /* a bit for each id up to max_id: the record is part of the result; NULL: all are */
    size_t keep_size;
    bool unordered;                /* the numbers do not ascend with the ids */
    struct gd__merge_place *order; /* if unordered: the chosen records by number */
    size_t n_order;
    struct gd__merge_renumbered *runs; /* by their number before */
    size_t n_runs;
};

struct gd__merge {
    struct gd__merge_input *inputs;
    size_t n;
    const char *directory; /* for temporary files */
    bool force;
    bool disjoint;               /* the journals are of different shards */
    struct gd__merge_keys *seen; /* not NULL: the first pass was left out, and the keys are put here */
    size_t at;                   /* the journal that is being read, for error messages; SIZE_MAX: none */
    struct gd_journal_merge_counts counts;
    char *command;  /* of the result; NULL: none */
    uint64_t total; /* tasks in the list; 0: not known */
};

static inline bool gd__merge_keeps(const struct gd__merge_input *in, uint64_t id)
{
    return id <= in->max_id && (!in->keep || in->keep[id / 8] >> (id % 8) & 1);
}

/* --- keys.c --- */

struct gd__merge_entry {
    unsigned char key[GD__HASH_SIZE];
    uint64_t version; /* its hash; 0: none */
    uint64_t id, number;
    double ended; /* Unix time; 0: the task was never started */
    uint32_t journal;
    uint32_t state; /* enum gd__final */
};

struct gd__merge_keys;
int gd__merge_keys_open(struct gd__merge_keys **out, const char *directory);
void gd__merge_keys_close(struct gd__merge_keys **k);
int gd__merge_keys_add(struct gd__merge_keys *k, const struct gd__merge_entry *e);
/* Calls fn for the entries of each key, in no order. fn may change the order of its entries. */
int gd__merge_keys_each(struct gd__merge_keys *k, int (*fn)(void *user, struct gd__merge_entry **entries, size_t n),
                        void *user);

/* --- choose.c --- */

/* The first pass is needed, after all. Not an error for users. */
enum { GD__MERGE_NEEDS_CHOICE = INT_MIN };
/* Returns GD__MERGE_NEEDS_CHOICE if two journals have the same key. */
int gd__merge_check_seen(struct gd__merge *m);

/* Chooses a record for each task. Sets the bits and the counts. */
int gd__merge_choose(struct gd__merge *m);

/* --- read.c --- */

enum { GD__MERGE_VALUES = 12 }; /* the columns of a record that are copied as they are */

struct gd__merge_value {
    union {
        int64_t integer;
        double real;
        const char *bytes;
    };
    int size; /* of bytes */
    int type; /* as in sqlite3_column_type() */
};

struct gd__merge_row {
    size_t size; /* with the bytes that follow */
    uint64_t id, number, run, attempts, input_size;
    bool done;
    unsigned char key[GD__HASH_SIZE];
    struct gd__merge_value values[GD__MERGE_VALUES];
};

struct gd__merge_buffer {
    char *bytes; /* struct gd__merge_row one after the other */
    size_t used, room;
    size_t enough; /* when this many bytes are used, no more rows are added */
};

struct gd__merge_reader {
    struct gd__merge_input *in;
    bool stay_open; /* do not close the journal after each call */
    bool ended;     /* there are no more rows */
    struct gd__merge_source source;
    sqlite3_stmt *next;
    struct gd__merge_buffer *into;
    size_t n_taken;
    uint64_t last_id;
    size_t next_place; /* if unordered: index into the list */
    int error;
};
/* Replaces the contents of the buffer by the next rows. It is empty only if there are no more. */
int gd__merge_read(struct gd__merge_reader *r, struct gd__merge_buffer *into);
void gd__merge_reader_close(struct gd__merge_reader *r);
/* Makes the list of an unordered journal's chosen records. */
int gd__merge_order(struct gd__merge_input *in);

/* --- rows.c --- */

struct gd__merge_rows;
int gd__merge_rows_open(struct gd__merge_rows **out, struct gd__merge *m);
void gd__merge_rows_close(struct gd__merge_rows **r);
/* Returns 1 and the next row by number, valid until the next call, 0 at the end, or a negative code. The run's number is
 * that of the result. */
int gd__merge_rows_next(struct gd__merge_rows *r, const struct gd__merge_row **out);

/* --- runs.c, insert.c --- */

/* Reads the runs of all journals, checks that their commands are the same, writes the runs to db, and sets the numbers
 * of the inputs' runs. */
int gd__merge_runs(struct gd__merge *m, sqlite3 *db);
/* Writes the row of the merge itself, which is the last run of the new journal. */
int gd__merge_end_run(struct gd__merge *m, sqlite3 *db);

/* Writes the records, and counts them. */
int gd__merge_insert(struct gd__merge *m, sqlite3 *db);

#endif
