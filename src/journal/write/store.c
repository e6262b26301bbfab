/* Writing to the database: a group of records, the lengths of followed files and the figures of the run. All are
 * written in one transaction, so that a reader or a resumed run sees a consistent state.
 *
 * The write-ahead log is also emptied here, on the writer's thread, when it has grown to some megabytes. That is not
 * possible while a reader uses an old state of the journal. It is then tried again each time the log has grown by half.
 * If the log is very long, each try waits briefly for readers. Our own readers use a state only as long as it takes to
 * read some thousand rows.
 *
 * A file with a rollback journal (mode.h) has no log. There the end of a transaction waits for readers, and new readers
 * wait for it. So it waits only until the readers of that moment have read their thousand rows.
 */
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"
#include "journal/identity.h"
#include "journal/internal.h"
#include "journal/mode.h"

enum { LOG_LONG = 16 << 20, LOG_TOO_LONG = 64 << 20, READER_WAIT_MS = 50 };
enum { ROLLBACK_WAIT_MS = 10000 }; /* for readers, before a group is tried again */
#define LOG_LIMIT "67108864"

static const char insert_sql[] =
    "INSERT OR REPLACE INTO task(" GD__TASK_COLUMNS ") SELECT " GD__TASK_COLUMNS " FROM " GD__GATHERED;
static const char update_sql[] =
    "UPDATE run SET total = ?2, taken = ?3, skipped = ?4, done = ?5, failed = ?6, all_done = ?7, all_failed = ?8,"
    " busy = ?9, written = ?10, ended = ?11, outcome = ?12 WHERE number = ?1";

static const char file_sql[] = "INSERT OR REPLACE INTO file(path, size, beside, tail)"
                               " VALUES(CAST(?1 AS TEXT), ?2, CAST(?3 AS TEXT), ?4)";

static int bind_bytes(sqlite3_stmt *s, int column, const char *bytes, size_t size)
{
    if (gd__group_is_text(bytes, size))
        return sqlite3_bind_text(s, column, size > 0 ? bytes : "", (int)size, SQLITE_STATIC);
    return sqlite3_bind_blob(s, column, bytes, (int)size, SQLITE_STATIC);
}

static int bind_count(sqlite3_stmt *s, int column, uint64_t n)
{
    return sqlite3_bind_int64(s, column, (sqlite3_int64)n);
}

/* --- a group --- */

/* Never goes below 0, because a count that was read from the file may be too low. */
static void count_down(uint64_t *count, bool by_one)
{
    *count -= by_one && *count > 0;
}

static void count_record(struct gd__figures *f, const struct gd__record *r)
{
    const bool done = r->state == GD__FINAL_DONE;
    f->done += done;
    f->failed += !done;
    f->all_done += done;
    f->all_failed += !done;
    count_down(&f->all_done, r->replaces == GD__FINAL_DONE);
    count_down(&f->all_failed, r->replaces == GD__FINAL_FAILED);
    f->busy += (double)r->duration_ns / 1e9;
}

/* Returns where the records of the next statement end. SQLite saves the old contents of the pages that a statement
 * changes, to be able to undo that statement alone. It saves them in memory (temp_store), because a temporary file
 * might be on another disk, which may be full. Appended records change few pages. But records that replace others may
 * all be on different pages, so each of these gets its own statement. */
static size_t end_of_piece(const struct gd__bytes_buffer *b, size_t at)
{
    const struct gd__record *r = gd__record_at(b, at);
    at += r->size;
    if (r->replaces)
        return at;
    while (at < b->used && !(r = gd__record_at(b, at))->replaces)
        at += r->size;
    return at;
}

static int store_piece(struct gd_journal *j)
{
    j->piece_end = end_of_piece(&j->writing, j->piece);
    const int rc = sqlite3_step(j->insert);
    sqlite3_reset(j->insert);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int store_records(struct gd_journal *j, struct gd__figures *f)
{
    int rc = SQLITE_OK;
    for (j->piece = 0; rc == SQLITE_OK && j->piece < j->writing.used; j->piece = j->piece_end)
        rc = store_piece(j);
    for (size_t at = 0; rc == SQLITE_OK && at < j->writing.used; at += gd__record_at(&j->writing, at)->size)
        count_record(f, gd__record_at(&j->writing, at));
    return rc;
}

static int store_size(struct gd_journal *j, const struct gd__follow *f, uint64_t size)
{
    unsigned char tail[GD__HASH_SIZE];
    sqlite3_clear_bindings(j->put_file);
    sqlite3_bind_blob(j->put_file, 1, f->path, (int)strlen(f->path), SQLITE_STATIC);
    bind_count(j->put_file, 2, size);
    if (f->beside)
        sqlite3_bind_blob(j->put_file, 3, f->beside, (int)strlen(f->beside), SQLITE_STATIC);
    if (gd__follow_tail(f, size, tail))
        sqlite3_bind_blob(j->put_file, 4, tail, sizeof tail, SQLITE_STATIC);
    const int rc = sqlite3_step(j->put_file);
    sqlite3_reset(j->put_file);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int store_files(struct gd_journal *j)
{
    int rc = SQLITE_OK;
    for (size_t i = 0; rc == SQLITE_OK && i < j->n_files; i++)
        if (j->files[i].size_then != j->files[i].size_kept)
            rc = store_size(j, &j->files[i], j->files[i].size_then);
    return rc;
}

int gd__store_file(struct gd_journal *j, struct gd__follow *f)
{
    /* Prepared here and not when the journal is opened, because a journal of version 0.1 has these columns only after
     * the first file is added. */
    if ((!j->put_file && gd__db_prepare(j->db, file_sql, &j->put_file) != SQLITE_OK) ||
        store_size(j, f, f->size) != SQLITE_OK)
        return gd__db_error(j->db, "write to", j->path);
    f->size_kept = f->size_then = f->size;
    return 0;
}

static int store_figures(struct gd_journal *j, const struct gd__figures *f)
{
    sqlite3_stmt *s = j->update_run;
    const uint64_t counts[] = { j->run,    j->told.total, atomic_load(&j->taken), atomic_load(&j->skipped), f->done,
                                f->failed, f->all_done,   f->all_failed };
    sqlite3_clear_bindings(s);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        bind_count(s, (int)i + 1, counts[i]);
    sqlite3_bind_double(s, 9, f->busy);
    sqlite3_bind_double(s, 10, gd__wall_clock());
    if (j->how_then) {
        sqlite3_bind_double(s, 11, j->ended);
        sqlite3_bind_text(s, 12, j->how_then, -1, SQLITE_STATIC);
    }
    const int rc = sqlite3_step(s);
    sqlite3_reset(s);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Empties the write-ahead log if it is long. A failure is ignored: its only effect is that the log grows. */
static void empty_log(struct gd_journal *j, int pages)
{
    const uint64_t bytes = (uint64_t)pages * (uint64_t)j->page_size;
    if (bytes < LOG_LONG || bytes < j->wal_tried + j->wal_tried / 2) {
        j->wal_tried = bytes < LOG_LONG ? 0 : j->wal_tried;
        return;
    }
    const bool much = bytes > LOG_TOO_LONG;
    j->wal_tried = bytes;
    sqlite3_busy_timeout(j->db, much ? READER_WAIT_MS : 0);
    sqlite3_wal_checkpoint_v2(j->db, NULL, much ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    sqlite3_busy_timeout(j->db, 2000);
}

static int log_hook(void *user, sqlite3 *db, const char *name, int pages)
{
    (void)db, (void)name;
    empty_log(user, pages);
    return SQLITE_OK;
}

/* Checks that the journal still has its name and its lock. Otherwise the file was removed, or another run may write to
 * it too, and records that seem to be written would be lost. */
static int check_place(struct gd_journal *j)
{
    int moved = 0;
    const int rc =
        gd__journal_lock_check(&j->hold); /* first: a run that takes the journal over also replaces the file */
    if (rc < 0)
        return rc;
    if (sqlite3_file_control(j->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved)
        return gd__error(GD_E_SYSTEM,
                         "%s was removed, moved or replaced while the run wrote to it: put it back together with its "
                         "%s file and resume, or start a new journal",
                         j->path, j->rollback ? "-journal" : "-wal");
    return 0;
}

/* --- transactions --- */

/* The generation of a run is the nonce in its row. A run that takes the journal over removes it. */
static const char check_sql[] = "SELECT nonce = ?2 FROM run WHERE number = ?1";

static int was_taken_over(struct gd_journal *j)
{
    sqlite3_stmt *s = NULL;
    int rc = gd__db_prepare(j->db, "SELECT pid, CAST(host AS TEXT) FROM run ORDER BY number DESC LIMIT 1", &s);
    if (rc == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
        rc = gd__error(GD_E_JOURNAL,
                       "another run took over this journal, %s (process %llu on %s): it could not tell that this run "
                       "was still alive. This run writes nothing more",
                       j->path, (unsigned long long)gd__db_count(s, 0),
                       sqlite3_column_text(s, 1) ? (const char *)sqlite3_column_text(s, 1) : "another host");
    else
        rc = gd__error(GD_E_JOURNAL,
                       "another run took over this journal, %s: it could not tell that this run was still alive. This "
                       "run writes nothing more",
                       j->path);
    sqlite3_finalize(s);
    return rc;
}

static int check_generation(struct gd_journal *j)
{
    sqlite3_stmt *s = j->check_run;
    bind_count(s, 1, j->run);
    sqlite3_bind_text(s, 2, j->hold.me.nonce, -1, SQLITE_STATIC);
    const int rc = sqlite3_step(s);
    const bool ours = rc == SQLITE_ROW && sqlite3_column_int(s, 0) == 1;
    const int code = rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : gd__db_error(j->db, "read", j->path);
    sqlite3_reset(s);
    return ours || code < 0 ? code : was_taken_over(j);
}

int gd__store_begin(struct gd_journal *j)
{
    int rc = check_place(j);
    if (rc < 0)
        return rc;
    if (gd__db_exec(j->db, "BEGIN IMMEDIATE") != SQLITE_OK)
        return gd__db_error(j->db, "write to", j->path);
    rc = check_generation(j);
    if (rc == 0 && j->hold.shared)
        rc = check_place(j); /* again, because BEGIN may have waited. SQLite opens the rollback journal by its name */
    return rc < 0 ? gd__store_end(j, rc) : 0;
}

int gd__store_end(struct gd_journal *j, int rc)
{
    if (rc == 0)
        rc = gd__journal_lock_check(&j->hold);
    if (rc == 0 && gd__db_exec(j->db, "COMMIT") != SQLITE_OK)
        rc = gd__db_error(j->db, "write to", j->path);
    /* COMMIT may have waited for a file system that did not answer. If this run was given up meanwhile, COMMIT has written
     * to a file without a name. */
    if (rc == 0 && j->hold.shared)
        rc = gd__journal_lock_check(&j->hold);
    if (rc < 0)
        gd__db_exec(j->db, "ROLLBACK"); /* harmless if SQLite has already rolled back */
    return rc;
}

/* Within the transaction. Returns 0 or a negative code. */
static int store_all(struct gd_journal *j, struct gd__figures *f)
{
    int rc = GD__FAULT("journal_write") ? SQLITE_IOERR : SQLITE_OK;
    GD__KILL_POINT("journal_begin");
    if (rc == SQLITE_OK)
        rc = store_records(j, f);
    if (rc == SQLITE_OK)
        rc = store_files(j);
    if (rc == SQLITE_OK)
        rc = store_figures(j, f);
    if (rc != SQLITE_OK)
        return gd__db_error(j->db, "write to", j->path);
    rc = j->o.sync == GD_JOURNAL_SYNC_FULL ? gd__follow_sync(j) : 0;
    GD__KILL_POINT("journal_commit");
    return rc;
}

int gd__store_group(struct gd_journal *j)
{
    struct gd__figures f = j->figures;
    if (GD__FAULT("journal_busy"))
        return gd__db_code(SQLITE_BUSY, "write to", j->path);
    int rc = gd__store_begin(j);
    if (rc == 0)
        rc = gd__store_end(j, store_all(j, &f));
    GD__KILL_POINT("journal_committed");
    if (rc < 0)
        return rc;
    j->figures = f;
    for (size_t i = 0; i < j->n_files; i++)
        j->files[i].size_kept = j->files[i].size_then;
    return 0;
}

/* --- opening and closing --- */

int gd__store_open(struct gd_journal *j)
{
    j->rollback = gd__mode_is_rollback(j->db);
    /* With a rollback journal, a power loss could damage the file if it were written with less. */
    const bool full = j->o.sync == GD_JOURNAL_SYNC_FULL || j->rollback;
    const char *sync = full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL";
    if (j->rollback)
        sqlite3_busy_timeout(j->db, ROLLBACK_WAIT_MS);
    if (gd__db_exec(j->db, sync) != SQLITE_OK ||
        gd__db_exec(j->db, "PRAGMA journal_size_limit = " LOG_LIMIT) != SQLITE_OK ||
        gd__db_exec(j->db, "PRAGMA temp_store = MEMORY") != SQLITE_OK || /* see end_of_piece() */
        gd__db_integer(j->db, "PRAGMA page_size", &j->page_size) != SQLITE_OK || gd__group_offer(j) != SQLITE_OK ||
        gd__db_prepare(j->db, insert_sql, &j->insert) != SQLITE_OK ||
        gd__db_prepare(j->db, update_sql, &j->update_run) != SQLITE_OK ||
        gd__db_prepare(j->db, check_sql, &j->check_run) != SQLITE_OK)
        return gd__db_error(j->db, "use", j->path);
    sqlite3_wal_hook(j->db, log_hook, j);
    return 0;
}

void gd__store_close(struct gd_journal *j)
{
    sqlite3_finalize(j->insert);
    sqlite3_finalize(j->update_run);
    sqlite3_finalize(j->put_file);
    sqlite3_finalize(j->check_run);
    if (j->db && check_place(j) == 0) /* otherwise FILE-journal belongs to another run */
        gd__mode_end(j->db);
    sqlite3_close(j->db);
    j->insert = j->update_run = j->put_file = j->check_run = NULL;
    j->db = NULL;
}

/* It does not exist if it has ended, if the lock file says that it is gone, or if an earlier run has found that (""). The
 * lock file may be that of another run, which took the lock but did not get as far as this. */
int gd__store_find_remaining(struct gd_journal *j, bool *remains)
{
    sqlite3_stmt *s = NULL;
    *remains = false;
    if (!j->hold.shared)
        return 0;
    int rc = gd__db_prepare(j->db,
                            "SELECT outcome IS NULL AND nonce IS NOT ?1 AND nonce IS NOT '' FROM run"
                            " ORDER BY number DESC LIMIT 1",
                            &s);
    if (rc == SQLITE_OK) {
        sqlite3_bind_text(s, 1, j->hold.gone, -1, SQLITE_STATIC);
        rc = sqlite3_step(s);
    }
    *remains = rc == SQLITE_ROW && sqlite3_column_int(s, 0) == 1;
    const int code = rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : gd__db_error(j->db, "read", j->path);
    sqlite3_finalize(s);
    return code;
}

/* Ends the generation of the last run. */
static int end_last_run(struct gd_journal *j)
{
    bool remains = false;
    int rc = gd__store_find_remaining(j, &remains);
    if (rc == 0 && remains)
        rc = gd__follow_mark(j);
    const char *sql =
        remains ? "UPDATE run SET nonce = NULL WHERE nonce <> ''" : "UPDATE run SET nonce = '' WHERE nonce <> ''";
    if (rc == 0 && gd__db_exec(j->db, sql) != SQLITE_OK)
        rc = gd__db_error(j->db, "write to", j->path);
    return rc;
}

int gd__store_begin_run(struct gd_journal *j)
{
    sqlite3_stmt *s = NULL;
    char shard[GD__SHARD_TEXT];
    const char *text = gd__identity_text(j->o.shard, shard);
    int rc = end_last_run(j);
    if (rc < 0)
        return rc;
    rc = gd__db_prepare(j->db,
                        "INSERT INTO run(number, command, started, pid, host, all_done, all_failed, shard, nonce)"
                        " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                        &s);
    if (rc == SQLITE_OK) {
        bind_count(s, 1, j->run);
        if (j->command)
            bind_bytes(s, 2, j->command, strlen(j->command));
        sqlite3_bind_double(s, 3, gd__wall_clock());
        sqlite3_bind_int64(s, 4, getpid());
        sqlite3_bind_text(s, 5, j->hold.me.host, -1, SQLITE_STATIC);
        bind_count(s, 6, j->figures.all_done);
        bind_count(s, 7, j->figures.all_failed);
        sqlite3_bind_text(s, 8, text, -1, SQLITE_STATIC);
        sqlite3_bind_text(s, 9, j->hold.me.nonce, -1, SQLITE_STATIC);
        rc = sqlite3_step(s);
    }
    const int code = rc == SQLITE_DONE ? 0 : gd__db_error(j->db, "write to", j->path);
    sqlite3_finalize(s);
    return code;
}

/* Removes the row of a run that never began. A failure does no harm. */
void gd__store_forget_run(struct gd_journal *j)
{
    char sql[64];
    if (gd__journal_lock_is_lost(&j->hold))
        return; /* the journal belongs to another run */
    sqlite3_snprintf(sizeof sql, sql, "DELETE FROM run WHERE number = %llu", (unsigned long long)j->run);
    gd__db_exec(j->db, sql);
}
