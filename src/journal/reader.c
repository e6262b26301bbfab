/* Reading a journal, even while a run writes to it.
 *
 * Records are read a thousand at a time, in a separate transaction each time, because a slow reader must not keep the
 * run from emptying its write-ahead log. So a long read also sees records that were written after it began, if their
 * ids are above the last id that it has read.
 *
 * The file may be damaged or malicious. Values are forced into ranges that callers can rely on, and every loop ends.
 * Ids must ascend, and a query may take only a limited number of steps of SQLite's virtual machine for each byte of the
 * file. Every row takes some bytes, so the limit also ends a query on pages that link back to themselves.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sized.h"
#include "journal/db.h"
#include "journal/identity.h"
#include "journal/journal.h"
#include "journal/lock/lock.h"
#include "journal/reader.h"

enum { CHUNK = 1000, CHUNK_BYTES = 4 << 20 };
enum { STEPS_A_BYTE = 64, STEPS_A_LOOK = 1 << 16 };
#define BYTES_LEAST (INT64_C(1) << 20) /* small files count as this large */

struct gd_journal_reader {
    sqlite3 *db;
    char *path;
    char *command, *outcome, *host; /* of the last summary */
    bool merged;                    /* the records of several journals are in a temporary file */
    int64_t looks_left;             /* how many more times the current query may take STEPS_A_LOOK steps */
};

/* --- limiting every query --- */

static int count_steps(void *user)
{
    struct gd_journal_reader *r = user;
    return --r->looks_left < 0; /* true: SQLite ends the query */
}

/* Called before a query that reads rows. Errors are ignored here, because the query itself will report them. */
static void begin_query(struct gd_journal_reader *r)
{
    int64_t pages = 0, page_size = 0;
    r->looks_left = INT64_MAX;
    (void)gd__db_integer(r->db, "PRAGMA page_count", &pages);
    (void)gd__db_integer(r->db, "PRAGMA page_size", &page_size);
    r->looks_left = (BYTES_LEAST + pages * page_size) / STEPS_A_LOOK * STEPS_A_BYTE;
}

static int read_failed(struct gd_journal_reader *r)
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

static char *copy_column(sqlite3_stmt *s, int column)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    return text ? gd__strdup(text) : NULL;
}

static void read_summary(struct gd_journal_reader *r, sqlite3_stmt *s, struct gd_journal_summary *out)
{
    gd__free(r->command);
    gd__free(r->outcome);
    gd__free(r->host);
    r->command = copy_column(s, 0);
    r->outcome = copy_column(s, 1);
    r->host = copy_column(s, 16);
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

int gd_journal_reader_summary(struct gd_journal_reader *r, struct gd_journal_summary *out)
{
    if (!r)
        return gd__error(GD_E_INVALID, "gd_journal_reader_summary: no reader");
    sqlite3_stmt *s = NULL;
    struct gd_journal_summary all = { .size = 0 };
    uint64_t holder;
    char sql[512];
    begin_query(r);
    const char *shard = gd__db_shard_column(r->db);
    if (!shard)
        return read_failed(r);
    /* total() and not sum(), which fails if the sum does not fit an integer */
    snprintf(
        sql, sizeof sql,
        "SELECT command, outcome, pid, total, taken, skipped, done, failed, all_done, all_failed, started, written,"
        " ended, (SELECT total(busy) FROM run), (SELECT count(*) FROM run), (SELECT total(done + failed) FROM run)"
        " - all_done - all_failed, host, %s FROM run ORDER BY number DESC LIMIT 1",
        shard);
    int rc = gd__db_prepare(r->db, sql, &s);
    if (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        read_summary(r, s, &all);
        rc = SQLITE_DONE;
    }
    const int code = rc == SQLITE_DONE ? 0 : read_failed(r);
    sqlite3_finalize(s);
    if (code < 0)
        return code;
    all.held = !r->merged && gd__journal_lock_test(r->path, &holder);
    return gd__sized_write(out, &all, sizeof all, "gd_journal_summary");
}

/* --- runs --- */

static const char *text_at(sqlite3_stmt *s, int column)
{
    return (const char *)sqlite3_column_text(s, column);
}

static int pass_run(sqlite3_stmt *s, int (*fn)(void *user, const struct gd_journal_run *run), void *user)
{
    struct gd_journal_run run = {
        .number = gd__db_count(s, 0),
        .command = text_at(s, 1),
        .host = text_at(s, 2),
        .end = text_at(s, 3),
        .pid = gd__db_count(s, 4),
        .total = gd__db_count(s, 5),
        .taken = gd__db_count(s, 6),
        .skipped = gd__db_count(s, 7),
        .done = gd__db_count(s, 8),
        .failed = gd__db_count(s, 9),
        .started = gd__db_seconds(s, 10),
        .written = gd__db_seconds(s, 11),
        .ended = gd__db_seconds(s, 12),
        .busy_seconds = gd__db_seconds(s, 13),
    };
    (void)gd__identity_parse(text_at(s, 14), &run.shard); /* a damaged one counts as none */
    return fn(user, &run);
}

int gd_journal_reader_runs(struct gd_journal_reader *r, int (*fn)(void *user, const struct gd_journal_run *run),
                           void *user)
{
    if (!r || !fn)
        return gd__error(GD_E_INVALID, "gd_journal_reader_runs: the reader or the function is NULL");
    sqlite3_stmt *s = NULL;
    char sql[256];
    int ended = 0;
    begin_query(r);
    const char *shard = gd__db_shard_column(r->db);
    if (!shard)
        return read_failed(r);
    snprintf(sql, sizeof sql,
             "SELECT number, command, host, outcome, pid, total, taken, skipped, done, failed, started, written, ended,"
             " busy, %s FROM run WHERE number > 0 ORDER BY number",
             shard);
    int rc = gd__db_prepare(r->db, sql, &s);
    while (rc == SQLITE_OK && ended == 0 && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        ended = pass_run(s, fn, user);
        rc = SQLITE_OK;
    }
    if (ended == 0 && rc != SQLITE_DONE)
        ended = read_failed(r);
    sqlite3_finalize(s);
    return ended;
}

/* --- records --- */

#define COLUMNS                                                                                                  \
    "id, key, version, state, attempts, number, run, started, seconds, worker, gpu, exit_code, signal, failure," \
    " input_size, input, output, error, stderr"

static int within(int64_t n, int least, int most)
{
    return n < least ? least : n > most ? most : (int)n;
}

/* The number of a worker or a device; -1: none. */
static int number_or_none_at(sqlite3_stmt *s, int column)
{
    return sqlite3_column_type(s, column) == SQLITE_NULL ? -1 : within(sqlite3_column_int64(s, column), -1, INT_MAX);
}

static int code_at(sqlite3_stmt *s, int column)
{
    return within(sqlite3_column_int64(s, column), INT_MIN, INT_MAX);
}

static const unsigned char *key_at(sqlite3_stmt *s, int column)
{
    static const unsigned char no_key[GD__HASH_SIZE];
    const bool has = sqlite3_column_type(s, column) == SQLITE_BLOB && sqlite3_column_bytes(s, column) == GD__HASH_SIZE;
    return has ? sqlite3_column_blob(s, column) : no_key;
}

static void read_record(sqlite3_stmt *s, struct gd_journal_record *out)
{
    const char *state = text_at(s, 3), *input = text_at(s, 15), *last = text_at(s, 18);
    *out = (struct gd_journal_record){
        .id = (uint64_t)sqlite3_column_int64(s, 0), /* the query selects only ids above 0 */
        .key = key_at(s, 1),
        .version = text_at(s, 2),
        .done = state && strcmp(state, "done") == 0,
        .attempts = (unsigned)within(sqlite3_column_int64(s, 4), 0, INT_MAX),
        .number = gd__db_count(s, 5),
        .run = gd__db_count(s, 6),
        .started = gd__db_seconds(s, 7),
        .seconds = gd__db_seconds(s, 8),
        .worker_id = number_or_none_at(s, 9),
        .gpu_id = number_or_none_at(s, 10),
        .exit_code = code_at(s, 11),
        .signal = code_at(s, 12),
        .failure = text_at(s, 13),
        .input_full_size = gd__db_count(s, 14),
        .input = input ? input : "",
        .input_size = (size_t)sqlite3_column_bytes(s, 15),
        .output = text_at(s, 16),
        .error = text_at(s, 17),
        .stderr_end = last,
        .stderr_size = last ? (size_t)sqlite3_column_bytes(s, 18) : 0,
    };
}

/* Copies a record and the data that it points to into one block, and adds its size to *bytes. Returns NULL if there is
 * no memory. */
static struct gd_journal_record *copy_record(const struct gd_journal_record *r, size_t *bytes)
{
    const struct {
        const void *from;
        size_t size;
    } parts[] = {
        { r->key, GD__HASH_SIZE },
        { r->input, r->input_size },
        { r->stderr_end, r->stderr_size },
        { r->version, r->version ? strlen(r->version) : 0 },
        { r->failure, r->failure ? strlen(r->failure) : 0 },
        { r->error, r->error ? strlen(r->error) : 0 },
        { r->output, r->output ? strlen(r->output) : 0 },
    };
    enum { N = sizeof parts / sizeof *parts };
    const char *at[N] = { NULL };
    size_t size = sizeof *r;
    for (size_t i = 0; i < N; i++)
        size += parts[i].size + 1;
    struct gd_journal_record *copy = gd__calloc(1, size);
    if (!copy)
        return NULL;
    *bytes += size;
    char *to = (char *)(copy + 1);
    for (size_t i = 0; i < N; to += parts[i].size + 1, i++) {
        at[i] = parts[i].from ? to : NULL;
        if (parts[i].size > 0)
            memcpy(to, parts[i].from, parts[i].size);
    }
    *copy = *r;
    copy->key = (const unsigned char *)at[0];
    copy->input = at[1];
    copy->stderr_end = at[2];
    copy->version = at[3];
    copy->failure = at[4];
    copy->error = at[5];
    copy->output = at[6];
    return copy;
}

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

/* Reads some records, then ends the transaction. */
static int read_some(struct reading *w, sqlite3_stmt *s)
{
    struct gd_journal_record record;
    size_t bytes = 0;
    int rc = SQLITE_ROW, code = 0;
    begin_query(w->r);
    while (code == 0 && w->n_kept < CHUNK && w->n_kept < w->left && bytes < CHUNK_BYTES &&
           (rc = sqlite3_step(s)) == SQLITE_ROW) {
        read_record(s, &record);
        if (w->q->order == GD_JOURNAL_BY_ID && record.id <= w->last) {
            code = gd__db_code(SQLITE_CORRUPT, "read", w->r->path);
            continue;
        }
        struct gd_journal_record *copy = copy_record(&record, &bytes);
        if (!copy) {
            code = no_memory();
            continue;
        }
        w->kept[w->n_kept++] = copy;
        w->last = record.id;
    }
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        code = read_failed(w->r);
    w->more = rc == SQLITE_ROW;
    sqlite3_reset(s);
    return code;
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

static int prepare(struct reading *w, const char *order, sqlite3_stmt **s)
{
    char sql[512];
    const struct gd_journal_query *q = w->q;
    const bool failed = q->failed_only || q->failure;
    snprintf(sql, sizeof sql, "SELECT " COLUMNS " FROM task%s WHERE id > ?1%s%s ORDER BY %s LIMIT ?2",
             failed ? " INDEXED BY task_failed" : "", failed ? " AND state = 'failed'" : "",
             q->failure ? " AND failure = ?3" : "", order);
    if (gd__db_prepare(w->r->db, sql, s) != SQLITE_OK)
        return read_failed(w->r);
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

/* Used for other orders than by id. SQLite must sort all records first, so they are read in one transaction. */
static int each_sorted(struct reading *w, sqlite3_stmt *s)
{
    struct gd_journal_record record;
    int rc = SQLITE_DONE, ended = 0;
    begin_query(w->r);
    while (ended == 0 && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        read_record(s, &record);
        ended = w->fn(w->user, &record);
    }
    return ended == 0 && rc != SQLITE_DONE ? read_failed(w->r) : ended;
}

static int each_ordered(struct reading *w)
{
    static const char *const orders[] = {
        [GD_JOURNAL_BY_ID] = "id", [GD_JOURNAL_BY_START] = "started, id", [GD_JOURNAL_SLOWEST] = "seconds DESC, id"
    };
    sqlite3_stmt *s = NULL;
    int rc = prepare(w, orders[w->q->order], &s);
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

int gd_journal_reader_failures(struct gd_journal_reader *r, int (*fn)(void *user, const char *failure, uint64_t count),
                               void *user)
{
    if (!r || !fn)
        return gd__error(GD_E_INVALID, "gd_journal_reader_failures: the reader or the function is NULL");
    sqlite3_stmt *s = NULL;
    begin_query(r);
    /* Callers get the text up to its first NUL. Group by that text, so that no class is reported twice. */
    int ended = 0, rc = gd__db_prepare(r->db,
                                       "SELECT printf('%s', ifnull(failure, 'error')) AS f, count(*) AS n FROM task"
                                       " INDEXED BY task_failed WHERE state = 'failed' GROUP BY f ORDER BY n DESC, f",
                                       &s);
    while (rc == SQLITE_OK && ended == 0 && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        const char *failure = text_at(s, 0);
        ended = fn(user, failure ? failure : "error", gd__db_count(s, 1));
        rc = SQLITE_OK;
    }
    if (ended == 0 && rc != SQLITE_DONE)
        ended = read_failed(r);
    sqlite3_finalize(s);
    return ended;
}
