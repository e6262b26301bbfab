/* Reading a journal, even while a run writes to it.
 *
 * Records are read a thousand at a time, in a separate transaction each time, because a slow reader must not keep the
 * run from emptying its write-ahead log. So a long read also sees records that were written after it began, if their
 * ids are above the last id that it has read.
 *
 * If the file has a rollback journal (mode.h), the writer cannot commit while a transaction reads. There, sorted reads
 * also take the records in parts: first the value to sort by of all records, in the order of their ids, and then the
 * records in the order of these values. No function of the caller is called within a transaction.
 *
 * The file may be damaged or malicious. Values are forced into ranges that callers can rely on, and every loop ends.
 * Ids must ascend, and a query may take only a limited number of steps of SQLite's virtual machine for each byte of the
 * file. Every row takes some bytes, so the limit also ends a query on pages that link back to themselves.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sized.h"
#include "journal/db.h"
#include "journal/identity.h"
#include "journal/journal.h"
#include "journal/lock/lock.h"
#include "journal/mode.h"
#include "journal/read/reader.h"
#include "journal/read/record.h"
#include "journal/read/settled.h"

enum { CHUNK = 1000, CHUNK_BYTES = 4 << 20, CHUNK_KEYS = 8192 };
enum { STEPS_A_BYTE = 64, STEPS_A_LOOK = 1 << 16 };
#define BYTES_LEAST (INT64_C(1) << 20) /* small files count as this large */

/* --- limiting every query --- */

static int count_steps(void *user)
{
    struct gd_journal_reader *r = user;
    return --r->looks_left < 0; /* true: SQLite ends the query */
}

void gd__reader_begin(struct gd_journal_reader *r)
{
    int64_t pages = 0, page_size = 0;
    r->looks_left = INT64_MAX;
    (void)gd__db_integer(r->db, "PRAGMA page_count", &pages);
    (void)gd__db_integer(r->db, "PRAGMA page_size", &page_size);
    r->looks_left = (BYTES_LEAST + pages * page_size) / STEPS_A_LOOK * STEPS_A_BYTE;
}

int gd__reader_failed(struct gd_journal_reader *r)
{
    if (sqlite3_errcode(r->db) == SQLITE_INTERRUPT)
        return gd__db_code(SQLITE_CORRUPT, "read", r->path);
    return gd__db_error(r->db, "read", r->path);
}

/* --- opening --- */

int gd__reader_of(struct gd_journal_reader **out, sqlite3 *db, const char *path)
{
    struct gd_journal_reader *r = gd__calloc(1, sizeof *r);
    if (!r || !(r->path = gd__strdup(path ? path : "the merged journals"))) {
        gd__free(r);
        return gd__error(GD_E_NO_MEMORY, "no memory for a reader");
    }
    r->db = db;
    r->merged = !path;
    sqlite3_progress_handler(r->db, STEPS_A_LOOK, count_steps, r);
    *out = r;
    return 0;
}

int gd_journal_reader_open(struct gd_journal_reader **out, const char *path)
{
    if (!out || !path || !*path)
        return gd__error(GD_E_INVALID, "gd_journal_reader_open: path or out is NULL");
    sqlite3 *db = NULL;
    *out = NULL;
    int rc = gd__db_open_read(&db, path);
    if (rc == 0)
        rc = gd__reader_of(out, db, path);
    if (rc < 0)
        sqlite3_close(db);
    return rc;
}

void gd_journal_reader_close(struct gd_journal_reader **rp)
{
    struct gd_journal_reader *r = rp ? *rp : NULL;
    if (!r)
        return;
    *rp = NULL;
    sqlite3_close(r->db);
    gd__free(r->command);
    gd__free(r->outcome);
    gd__free(r->host);
    gd__free(r->path);
    gd__free(r);
}

/* --- the summary --- */

char *gd__reader_copy_column(sqlite3_stmt *s, int column)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    return text ? gd__strdup(text) : NULL;
}

static void read_summary(struct gd_journal_reader *r, sqlite3_stmt *s, struct gd_journal_summary *out)
{
    gd__free(r->command);
    gd__free(r->outcome);
    gd__free(r->host);
    r->command = gd__reader_copy_column(s, 0);
    r->outcome = gd__reader_copy_column(s, 1);
    r->host = gd__reader_copy_column(s, 16);
    *out = (struct gd_journal_summary){
        .command = r->command,
        .end = r->outcome,
        .host = r->host,
        .pid = gd__db_count(s, 2),
        .total = gd__db_count(s, 3),
        .taken = gd__db_count(s, 4),
        .skipped = gd__db_count(s, 5),
        .run_done = gd__db_count(s, 6),
        .run_failed = gd__db_count(s, 7),
        .done = gd__db_count(s, 8),
        .failed = gd__db_count(s, 9),
        .started = gd__db_seconds(s, 10),
        .written = gd__db_seconds(s, 11),
        .ended = gd__db_seconds(s, 12),
        .busy_seconds = gd__db_seconds(s, 13),
        .runs = gd__db_count(s, 14),
        .replaced = gd__db_count(s, 15),
    };
    (void)gd__identity_parse((const char *)sqlite3_column_text(s, 17), &out->shard); /* a damaged one counts as none */
}

/* What one transaction reads. */
struct summary_part {
    struct gd_journal_reader *r;
    struct gd_journal_summary out;
};

static int read_summary_part(void *user)
{
    struct summary_part *p = user;
    struct gd_journal_reader *r = p->r;
    sqlite3_stmt *s = NULL;
    char sql[512];
    gd__reader_begin(r);
    const char *shard = gd__db_shard_column(r->db);
    if (!shard)
        return gd__reader_failed(r);
    /* total() and not sum(), which fails if the sum does not fit an integer */
    snprintf(
        sql, sizeof sql,
        "SELECT command, outcome, pid, total, taken, skipped, done, failed, all_done, all_failed, started, written,"
        " ended, (SELECT total(busy) FROM run), (SELECT count(*) FROM run), (SELECT total(done + failed) FROM run)"
        " - all_done - all_failed, host, %s FROM run ORDER BY number DESC LIMIT 1",
        shard);
    int rc = gd__db_prepare(r->db, sql, &s);
    if (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        read_summary(r, s, &p->out);
        rc = SQLITE_DONE;
    }
    const int code = rc == SQLITE_DONE ? 0 : gd__reader_failed(r);
    sqlite3_finalize(s);
    return code;
}

static void forget_summary_part(void *user)
{
    struct summary_part *p = user;
    p->out = (struct gd_journal_summary){ .size = 0 };
}

int gd_journal_reader_summary(struct gd_journal_reader *r, struct gd_journal_summary *out)
{
    if (!r)
        return gd__error(GD_E_INVALID, "gd_journal_reader_summary: no reader");
    struct summary_part p = { .r = r };
    struct gd__lock_seen seen = { .held = false };
    const int rc = gd__settled_read(r->db, r->path, read_summary_part, forget_summary_part, &p);
    if (rc < 0)
        return rc;
    if (!r->merged)
        gd__journal_lock_see(r->path, &seen);
    p.out.held = seen.held;
    p.out.quiet_seconds = seen.quiet_seconds;
    return gd__sized_write(out, &p.out, sizeof p.out, "gd_journal_summary");
}

/* --- records --- */

struct reading {
    struct gd_journal_reader *r;
    const struct gd_journal_query *q;
    int (*fn)(void *user, const struct gd_journal_record *record);
    void *user;
    uint64_t left; /* records left of the query's limit */
    uint64_t last; /* the last id that was read */
    struct gd_journal_record *kept[CHUNK];
    size_t n_kept;
    bool more; /* there may be more records */
};

static int no_memory(void)
{
    return gd__error(GD_E_NO_MEMORY, "no memory for records");
}

/* Drops the records that were read. */
static void drop_kept(struct reading *w)
{
    for (size_t i = 0; i < w->n_kept; i++)
        gd__free(w->kept[i]);
    w->n_kept = 0;
}

/* Reads some records. */
static int read_rows(struct reading *w, sqlite3_stmt *s)
{
    struct gd_journal_record record;
    size_t bytes = 0;
    int rc = SQLITE_ROW, code = 0;
    gd__reader_begin(w->r);
    while (code == 0 && w->n_kept < CHUNK && w->n_kept < w->left && bytes < CHUNK_BYTES &&
           (rc = sqlite3_step(s)) == SQLITE_ROW) {
        gd__read_record(s, &record);
        if (w->q->order == GD_JOURNAL_BY_ID && record.id <= w->last) {
            code = gd__db_code(SQLITE_CORRUPT, "read", w->r->path);
            continue;
        }
        struct gd_journal_record *copy = gd__read_copy(&record, &bytes);
        if (!copy) {
            code = no_memory();
            continue;
        }
        w->kept[w->n_kept++] = copy;
        w->last = record.id;
    }
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        code = gd__reader_failed(w->r);
    w->more = rc == SQLITE_ROW;
    sqlite3_reset(s);
    return code;
}

/* The records that one transaction reads: see settled.h. */
struct part {
    struct reading *w;
    sqlite3_stmt *s;
    uint64_t last; /* before it */
};

static int read_part(void *user)
{
    const struct part *p = user;
    return read_rows(p->w, p->s);
}

static void forget_part(void *user)
{
    const struct part *p = user;
    drop_kept(p->w);
    p->w->last = p->last;
}

static int read_some(struct reading *w, sqlite3_stmt *s)
{
    struct part p = { w, s, w->last };
    return gd__settled_read(w->r->db, w->r->path, read_part, forget_part, &p);
}

/* Passes the records that were read to fn. Returns the first non-zero result of fn, or 0. */
static int pass_on(struct reading *w)
{
    int ended = 0;
    for (size_t i = 0; i < w->n_kept; i++) {
        if (ended == 0)
            ended = w->fn(w->user, w->kept[i]);
        gd__free(w->kept[i]);
    }
    w->left -= w->n_kept;
    w->n_kept = 0;
    return ended;
}

static int prepare(struct reading *w, const char *columns, const char *order, sqlite3_stmt **s)
{
    char sql[512];
    const struct gd_journal_query *q = w->q;
    const bool failed = q->failed_only || q->failure;
    snprintf(sql, sizeof sql, "SELECT %s FROM task%s WHERE id > ?1%s%s ORDER BY %s LIMIT ?2", columns,
             failed ? " INDEXED BY task_failed" : "", failed ? " AND state = 'failed'" : "",
             q->failure ? " AND failure = ?3" : "", order);
    if (gd__db_prepare(w->r->db, sql, s) != SQLITE_OK)
        return gd__reader_failed(w->r);
    sqlite3_bind_int64(*s, 1, 0);
    sqlite3_bind_int64(*s, 2, w->left < INT64_MAX ? (sqlite3_int64)w->left : -1);
    if (q->failure)
        sqlite3_bind_text(*s, 3, q->failure, -1, SQLITE_STATIC);
    return 0;
}

static int each_by_id(struct reading *w, sqlite3_stmt *s)
{
    int rc = 0;
    do {
        sqlite3_bind_int64(s, 1, (sqlite3_int64)w->last);
        rc = read_some(w, s);
        const int ended = pass_on(w);
        rc = ended != 0 ? ended : rc;
    } while (rc == 0 && w->more && w->left > 0);
    return rc;
}

/* --- records in another order, read in parts --- */

struct sort_key {
    double value;
    uint64_t id;
};

struct sort_keys {
    struct sort_key *list;
    size_t n, room;
};

static int upwards(const void *a, const void *b)
{
    const struct sort_key *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int downwards(const void *a, const void *b)
{
    const struct sort_key *x = a, *y = b;
    if (x->value != y->value)
        return x->value > y->value ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool make_room(struct sort_keys *k)
{
    if (k->n + CHUNK_KEYS <= k->room)
        return true;
    const size_t room = 2 * k->room + CHUNK_KEYS;
    struct sort_key *grown = gd__realloc(k->list, room * sizeof *grown);
    if (!grown)
        return false;
    k->list = grown;
    k->room = room;
    return true;
}

/* Columns: id and the value. NULL sorts before all other values, as in SQL. */
static int read_keys(struct reading *w, sqlite3_stmt *s, struct sort_keys *k)
{
    int rc = SQLITE_ROW;
    size_t n = 0;
    if (!make_room(k))
        return no_memory();
    gd__reader_begin(w->r);
    sqlite3_bind_int64(s, 1, (sqlite3_int64)w->last);
    sqlite3_bind_int64(s, 2, CHUNK_KEYS);
    for (; n < CHUNK_KEYS && (rc = sqlite3_step(s)) == SQLITE_ROW; n++) {
        const uint64_t id = (uint64_t)sqlite3_column_int64(s, 0);
        if (id <= w->last) {
            sqlite3_reset(s);
            return gd__db_code(SQLITE_CORRUPT, "read", w->r->path);
        }
        w->last = id;
        k->list[k->n++] = (struct sort_key){ sqlite3_column_type(s, 1) == SQLITE_NULL ? -1 : gd__db_seconds(s, 1), id };
    }
    const int code = rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : gd__reader_failed(w->r);
    sqlite3_reset(s);
    w->more = n == CHUNK_KEYS;
    return code;
}

/* The values, or the records, that one transaction reads. */
struct sorted_part {
    struct reading *w;
    sqlite3_stmt *s;
    struct sort_keys *keys;
    size_t at;     /* the next key */
    uint64_t last; /* before it */
    size_t n, at_before;
};

static int read_keys_part(void *user)
{
    const struct sorted_part *p = user;
    return read_keys(p->w, p->s, p->keys);
}

static void forget_keys_part(void *user)
{
    const struct sorted_part *p = user;
    p->w->last = p->last;
    p->keys->n = p->n;
}

static int read_some_keys(struct reading *w, sqlite3_stmt *s, struct sort_keys *k)
{
    struct sorted_part p = { .w = w, .s = s, .keys = k, .last = w->last, .n = k->n };
    return gd__settled_read(w->r->db, w->r->path, read_keys_part, forget_keys_part, &p);
}

static int read_all_keys(struct reading *w, struct sort_keys *k)
{
    const bool slowest = w->q->order == GD_JOURNAL_SLOWEST;
    sqlite3_stmt *s = NULL;
    int rc = prepare(w, slowest ? "id, seconds" : "id, started", "id", &s);
    do
        rc = rc < 0 ? rc : read_some_keys(w, s, k);
    while (rc == 0 && w->more);
    sqlite3_finalize(s);
    if (rc == 0 && k->n > 0)
        qsort(k->list, k->n, sizeof *k->list, slowest ? downwards : upwards);
    return rc;
}

/* Reads the record with that id, if it still is one that the query wants. */
static int read_one(struct reading *w, sqlite3_stmt *s, uint64_t id, size_t *bytes)
{
    struct gd_journal_record record;
    int code = 0;
    sqlite3_bind_int64(s, 1, (sqlite3_int64)id);
    const int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) {
        gd__read_record(s, &record);
        const bool wanted = !record.done || !(w->q->failed_only || w->q->failure);
        struct gd_journal_record *copy = wanted ? gd__read_copy(&record, bytes) : NULL;
        if (copy)
            w->kept[w->n_kept++] = copy;
        code = copy || !wanted ? 0 : no_memory();
    } else if (rc != SQLITE_DONE) {
        code = gd__reader_failed(w->r);
    }
    sqlite3_reset(s);
    return code;
}

/* Reads some records from the next key on. */
static int read_keyed_part(void *user)
{
    struct sorted_part *p = user;
    struct reading *w = p->w;
    size_t bytes = 0;
    int rc = 0;
    gd__reader_begin(w->r);
    while (rc == 0 && p->at < p->keys->n && w->n_kept < CHUNK && w->n_kept < w->left && bytes < CHUNK_BYTES)
        rc = read_one(w, p->s, p->keys->list[p->at++].id, &bytes);
    return rc;
}

static void forget_keyed_part(void *user)
{
    struct sorted_part *p = user;
    drop_kept(p->w);
    p->at = p->at_before;
}

/* Moves *at past the keys that were read. */
static int read_keyed(struct reading *w, sqlite3_stmt *s, struct sort_keys *k, size_t *at)
{
    struct sorted_part p = { .w = w, .s = s, .keys = k, .at = *at, .at_before = *at };
    const int rc = gd__settled_read(w->r->db, w->r->path, read_keyed_part, forget_keyed_part, &p);
    *at = p.at;
    return rc;
}

static int each_in_parts(struct reading *w)
{
    struct sort_keys keys = { .list = NULL };
    sqlite3_stmt *s = NULL;
    int rc = read_all_keys(w, &keys);
    if (rc == 0 && gd__db_prepare(w->r->db, "SELECT " GD__READ_COLUMNS " FROM task WHERE id = ?1", &s) != SQLITE_OK)
        rc = gd__reader_failed(w->r);
    for (size_t at = 0; rc == 0 && at < keys.n && w->left > 0;) {
        rc = read_keyed(w, s, &keys, &at);
        const int ended = pass_on(w);
        rc = ended != 0 ? ended : rc;
    }
    sqlite3_finalize(s);
    gd__free(keys.list);
    return rc;
}

/* Used for other orders than by id. SQLite must sort all records first, so they are read in one transaction. */
static int each_sorted(struct reading *w, sqlite3_stmt *s)
{
    struct gd_journal_record record;
    int rc = SQLITE_DONE, ended = 0;
    gd__reader_begin(w->r);
    while (ended == 0 && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        gd__read_record(s, &record);
        ended = w->fn(w->user, &record);
    }
    return ended == 0 && rc != SQLITE_DONE ? gd__reader_failed(w->r) : ended;
}

static int each_ordered(struct reading *w)
{
    static const char *const orders[] = {
        [GD_JOURNAL_BY_ID] = "id", [GD_JOURNAL_BY_START] = "started, id", [GD_JOURNAL_SLOWEST] = "seconds DESC, id"
    };
    sqlite3_stmt *s = NULL;
    if (w->q->order != GD_JOURNAL_BY_ID && gd__mode_is_rollback(w->r->db))
        return each_in_parts(w);
    int rc = prepare(w, GD__READ_COLUMNS, orders[w->q->order], &s);
    if (rc == 0 && w->q->order == GD_JOURNAL_BY_ID) {
        rc = each_by_id(w, s);
    } else if (rc == 0 && w->left <= CHUNK) {
        rc = read_some(w, s);
        const int ended = pass_on(w);
        rc = ended != 0 ? ended : rc;
    } else if (rc == 0) {
        rc = each_sorted(w, s);
    }
    sqlite3_finalize(s);
    return rc;
}

int gd_journal_reader_each(struct gd_journal_reader *r, const struct gd_journal_query *q,
                           int (*fn)(void *user, const struct gd_journal_record *record), void *user)
{
    struct gd_journal_query query = { .size = sizeof query };
    if (!r || !fn)
        return gd__error(GD_E_INVALID, "gd_journal_reader_each: the reader or the function is NULL");
    int rc = q ? gd__sized_read(&query, sizeof query, q, "gd_journal_query") : 0;
    if (rc < 0)
        return rc;
    if ((unsigned)query.order > GD_JOURNAL_SLOWEST)
        return gd__error(GD_E_INVALID,
                         "gd_journal_reader_each: order is %d, which is not a value of enum gd_journal_order",
                         (int)query.order);
    struct reading *w = gd__calloc(1, sizeof *w);
    if (!w)
        return no_memory();
    w->r = r;
    w->q = &query;
    w->fn = fn;
    w->user = user;
    w->left = query.limit > 0 ? query.limit : UINT64_MAX;
    rc = each_ordered(w);
    gd__free(w);
    return rc;
}
