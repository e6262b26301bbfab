/* Writing to the database: a group of records, the lengths of followed files and the figures of the run, all in one
 * transaction, so that what a reader or a resumed run sees belongs together.
 *
 * The write-ahead log is emptied here too, on the writer's thread, when it has grown to some megabytes. While somebody
 * reads an old state of the journal that cannot be done; it is then tried again each time the log has grown by half,
 * with a moment's wait for readers. Our own readers hold a state only as long as it takes to read some thousand rows.
 */
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"
#include "journal/internal.h"

enum { LOG_PAGES = 4096, LOG_PAGES_MUCH = 16384, READER_WAIT_MS = 50, HOST_MAX = 256 };
#define LOG_LIMIT "67108864"

enum insert_column {
    C_ID = 1,
    C_KEY,
    C_VERSION,
    C_STATE,
    C_ATTEMPTS,
    C_NUMBER,
    C_RUN,
    C_STARTED,
    C_SECONDS,
    C_WORKER,
    C_GPU,
    C_EXIT_CODE,
    C_SIGNAL,
    C_FAILURE,
    C_INPUT_SIZE,
    C_INPUT,
    C_OUTPUT,
    C_ERROR,
    C_STDERR,
};

static const char insert_sql[] =
    "INSERT OR REPLACE INTO task(id, key, version, state, attempts, number, run, started, seconds, worker, gpu,"
    " exit_code, signal, failure, input_size, input, output, error, stderr)"
    " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)";
static const char update_sql[] =
    "UPDATE run SET total = ?2, taken = ?3, skipped = ?4, done = ?5, failed = ?6, all_done = ?7, all_failed = ?8,"
    " busy = ?9, written = ?10, ended = ?11, outcome = ?12 WHERE number = ?1";

static const struct {
    enum gd__text text;
    enum insert_column column;
} texts[] = {
    { GD__TEXT_VERSION, C_VERSION }, { GD__TEXT_INPUT, C_INPUT }, { GD__TEXT_OUTPUT, C_OUTPUT },
    { GD__TEXT_FAILURE, C_FAILURE }, { GD__TEXT_ERROR, C_ERROR }, { GD__TEXT_STDERR, C_STDERR },
};

/* --- values --- */

/* How many bytes the character at p has; 0: it is none. */
static size_t character(const unsigned char *p, size_t left)
{
    static const struct {
        unsigned char mask, lead, low, high; /* low, high: of the second byte, for the leads at the edges */
    } shapes[] = { { 0xe0, 0xc0, 0, 0 }, { 0xf0, 0xe0, 0, 0 }, { 0xf8, 0xf0, 0, 0 } };
    if (*p < 0x80)
        return *p != 0;
    for (size_t n = 2; n <= 4; n++) {
        if ((*p & shapes[n - 2].mask) != shapes[n - 2].lead)
            continue;
        if (left < n || *p == 0xc0 || *p == 0xc1 || *p > 0xf4)
            return 0;
        for (size_t i = 1; i < n; i++)
            if ((p[i] & 0xc0) != 0x80)
                return 0;
        const bool too_long = (*p == 0xe0 && p[1] < 0xa0) || (*p == 0xf0 && p[1] < 0x90);
        const bool no_character = (*p == 0xed && p[1] > 0x9f) || (*p == 0xf4 && p[1] > 0x8f);
        return too_long || no_character ? 0 : n;
    }
    return 0;
}

static bool is_text(const char *bytes, size_t size)
{
    const unsigned char *p = (const unsigned char *)bytes;
    for (size_t i = 0, n; i < size; i += n)
        if ((n = character(p + i, size - i)) == 0)
            return false;
    return true;
}

/* Text where it is text, so that a person can read it; else the bytes. */
static int bind_bytes(sqlite3_stmt *s, int column, const char *bytes, size_t size)
{
    if (is_text(bytes, size))
        return sqlite3_bind_text(s, column, size > 0 ? bytes : "", (int)size, SQLITE_STATIC);
    return sqlite3_bind_blob(s, column, bytes, (int)size, SQLITE_STATIC);
}

static int bind_count(sqlite3_stmt *s, int column, uint64_t n)
{
    return sqlite3_bind_int64(s, column, (sqlite3_int64)n);
}

/* --- a group --- */

static void bind_fixed(const struct gd_journal *j, const struct gd__record *r, double epoch)
{
    sqlite3_stmt *s = j->insert;
    bind_count(s, C_ID, r->id);
    sqlite3_bind_blob(s, C_KEY, r->key, sizeof r->key, SQLITE_STATIC);
    sqlite3_bind_text(s, C_STATE, r->state == GD__FINAL_DONE ? "done" : "failed", -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, C_ATTEMPTS, r->attempts);
    bind_count(s, C_NUMBER, r->number);
    bind_count(s, C_RUN, j->run);
    if (r->start_ns > 0)
        sqlite3_bind_double(s, C_STARTED, epoch + (double)r->start_ns / 1e9);
    sqlite3_bind_double(s, C_SECONDS, (double)r->duration_ns / 1e9);
    if (r->worker >= 0) {
        sqlite3_bind_int(s, C_WORKER, r->worker);
        sqlite3_bind_int(s, C_GPU, r->gpu);
    }
    if (r->exit_code != 0)
        sqlite3_bind_int(s, C_EXIT_CODE, r->exit_code);
    if (r->signal != 0)
        sqlite3_bind_int(s, C_SIGNAL, r->signal);
    bind_count(s, C_INPUT_SIZE, r->input_size);
}

static int store_record(struct gd_journal *j, const struct gd__record *r, double epoch)
{
    sqlite3_stmt *s = j->insert;
    sqlite3_clear_bindings(s);
    bind_fixed(j, r, epoch);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (r->length[texts[i].text] != GD__NO_TEXT)
            bind_bytes(s, (int)texts[i].column, gd__record_text(r, texts[i].text), r->length[texts[i].text]);
    const int rc = sqlite3_step(s);
    sqlite3_reset(s);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static void count_record(struct gd__figures *f, const struct gd__record *r)
{
    const bool done = r->state == GD__FINAL_DONE;
    f->done += done;
    f->failed += !done;
    f->all_done += done;
    f->all_failed += !done;
    f->all_done -= r->replaces == GD__FINAL_DONE;
    f->all_failed -= r->replaces == GD__FINAL_FAILED;
    f->busy += (double)r->duration_ns / 1e9;
}

static int store_records(struct gd_journal *j, struct gd__figures *f)
{
    const double epoch = gd__wall_clock() - (double)gd__now_ns() / 1e9; /* when the monotonic clock was 0 */
    for (size_t at = 0; at < j->writing.used;) {
        const struct gd__record *r = (const struct gd__record *)(const void *)(j->writing.bytes + at);
        const int rc = store_record(j, r, epoch);
        if (rc != SQLITE_OK)
            return rc;
        count_record(f, r);
        at += r->size;
        GD__KILL_POINT("journal_record");
    }
    return SQLITE_OK;
}

static int store_size(struct gd_journal *j, const struct gd__follow *f, uint64_t size)
{
    sqlite3_bind_blob(j->put_file, 1, f->path, (int)strlen(f->path), SQLITE_STATIC);
    bind_count(j->put_file, 2, size);
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
    if (store_size(j, f, f->size) != SQLITE_OK)
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

/* Empties the write-ahead log if it is long. Not being able to is no error: it only grows. */
static void empty_log(struct gd_journal *j, int pages)
{
    if (pages < LOG_PAGES || (uint64_t)pages < j->wal_tried + j->wal_tried / 2) {
        j->wal_tried = pages < LOG_PAGES ? 0 : j->wal_tried;
        return;
    }
    const bool much = pages > LOG_PAGES_MUCH;
    j->wal_tried = (uint64_t)pages;
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

/* What is written to a file that has no name any more, or beside another run, would be said to be kept and is not. */
static int check_place(struct gd_journal *j)
{
    int moved = 0;
    if (sqlite3_file_control(j->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved)
        return gd__error(GD_E_SYSTEM,
                         "%s was removed, moved or replaced while the run wrote to it: bring it back with its -wal and "
                         "resume, or begin a new one",
                         j->path);
    if (gd__hold_is_lost(&j->hold))
        return gd__error(GD_E_SYSTEM,
                         "%s-lock was removed, and another run may write to the journal as well: leave it alone while "
                         "a run goes on, and resume when no other does",
                         j->path);
    return 0;
}

int gd__store_group(struct gd_journal *j)
{
    struct gd__figures f = j->figures;
    if (GD__FAULT("journal_busy"))
        return gd__db_code(SQLITE_BUSY, "write to", j->path);
    int code = check_place(j), rc = SQLITE_OK;
    if (code < 0)
        return code;
    rc = gd__db_exec(j->db, "BEGIN IMMEDIATE");
    if (rc == SQLITE_OK && GD__FAULT("journal_write"))
        rc = SQLITE_IOERR;
    GD__KILL_POINT("journal_begin");
    if (rc == SQLITE_OK)
        rc = store_records(j, &f);
    if (rc == SQLITE_OK)
        rc = store_files(j);
    if (rc == SQLITE_OK)
        rc = store_figures(j, &f);
    if (rc == SQLITE_OK && j->o.sync == GD_SYNC_FULL)
        code = gd__follow_sync(j);
    GD__KILL_POINT("journal_commit");
    if (rc == SQLITE_OK && code == 0)
        rc = gd__db_exec(j->db, "COMMIT");
    GD__KILL_POINT("journal_committed");
    if (rc != SQLITE_OK)
        code = gd__db_error(j->db, "write to", j->path);
    if (code < 0) {
        gd__db_exec(j->db, "ROLLBACK"); /* or SQLite has done so */
        return code;
    }
    j->figures = f;
    for (size_t i = 0; i < j->n_files; i++)
        j->files[i].size_kept = j->files[i].size_then;
    return 0;
}

/* --- opening and closing --- */

int gd__store_open(struct gd_journal *j)
{
    const char *sync = j->o.sync == GD_SYNC_FULL ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL";
    if (gd__db_exec(j->db, sync) != SQLITE_OK ||
        gd__db_exec(j->db, "PRAGMA journal_size_limit = " LOG_LIMIT) != SQLITE_OK ||
        gd__db_prepare(j->db, insert_sql, &j->insert) != SQLITE_OK ||
        gd__db_prepare(j->db, update_sql, &j->update_run) != SQLITE_OK ||
        gd__db_prepare(j->db, "INSERT OR REPLACE INTO file(path, size) VALUES(CAST(?1 AS TEXT), ?2)", &j->put_file) !=
            SQLITE_OK)
        return gd__db_error(j->db, "use", j->path);
    sqlite3_wal_hook(j->db, log_hook, j);
    return 0;
}

void gd__store_close(struct gd_journal *j)
{
    sqlite3_finalize(j->insert);
    sqlite3_finalize(j->update_run);
    sqlite3_finalize(j->put_file);
    sqlite3_close(j->db);
    j->insert = j->update_run = j->put_file = NULL;
    j->db = NULL;
}

int gd__store_begin_run(struct gd_journal *j)
{
    sqlite3_stmt *s = NULL;
    char host[HOST_MAX] = "";
    gethostname(host, sizeof host - 1);
    int rc = gd__db_prepare(j->db,
                            "INSERT INTO run(number, command, started, pid, host, all_done, all_failed)"
                            " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                            &s);
    if (rc == SQLITE_OK) {
        bind_count(s, 1, j->run);
        if (j->command)
            bind_bytes(s, 2, j->command, strlen(j->command));
        sqlite3_bind_double(s, 3, gd__wall_clock());
        sqlite3_bind_int64(s, 4, getpid());
        sqlite3_bind_text(s, 5, host, -1, SQLITE_STATIC);
        bind_count(s, 6, j->figures.all_done);
        bind_count(s, 7, j->figures.all_failed);
        rc = sqlite3_step(s);
    }
    const int code = rc == SQLITE_DONE ? 0 : gd__db_error(j->db, "write to", j->path);
    sqlite3_finalize(s);
    return code;
}

/* It was opened and never used: the row is not worth keeping, and if it cannot be removed it does no harm. */
void gd__store_forget_run(struct gd_journal *j)
{
    char sql[64];
    sqlite3_snprintf(sizeof sql, sql, "DELETE FROM run WHERE number = %llu", (unsigned long long)j->run);
    gd__db_exec(j->db, sql);
}
