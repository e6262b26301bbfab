/* Creates, checks and opens the database of a journal: see db.h. The schema is described in gpu-dispatch-journal(5). If
 * the schema changes, GD__DB_VERSION must change too.
 *
 * There is no index on task.key. Keys are random, so each record in a group would change a different page of such an
 * index. A resumed run finds records in the order of their ids, or builds a temporary index (lookup/resume.h).
 *
 * A journal may come from another person, and a database can contain SQL: views, triggers, generated columns. So no SQL
 * stored in the file is executed (restrict_connection), and its tables must be plain tables with our columns
 * (check_tables).
 */
#include "journal/db.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/file/shared.h"
#include "journal/mode.h"
#include "journal/read/settled.h"

/* How long to wait for other connections. A reader waits while a rollback journal is committed: on a slow network file
 * system that may take seconds. */
enum { BUSY_MS = 2000, BUSY_READING_MS = 30000 };
#define PAGE_SIZE     "16384"             /* for new files; with SQLite's default of 4096, writing is a sixth slower */
#define CHECKED_WHOLE ((int64_t)64 << 20) /* files up to this size are checked completely when they are opened */

static const char schema[] =
    "CREATE TABLE run(number INTEGER PRIMARY KEY, command, started REAL NOT NULL, ended REAL, outcome TEXT,"
    " pid INTEGER NOT NULL, host TEXT, total INTEGER NOT NULL DEFAULT 0, taken INTEGER NOT NULL DEFAULT 0,"
    " skipped INTEGER NOT NULL DEFAULT 0, done INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0,"
    " written REAL, busy REAL NOT NULL DEFAULT 0, all_done INTEGER NOT NULL DEFAULT 0,"
    " all_failed INTEGER NOT NULL DEFAULT 0, shard TEXT, nonce TEXT);"
    /* The columns that a resumed run reads come first, so that it need not read the rest of a row. */
    "CREATE TABLE task(id INTEGER PRIMARY KEY, key BLOB NOT NULL, version, state TEXT NOT NULL,"
    " attempts INTEGER NOT NULL, number INTEGER NOT NULL, run INTEGER NOT NULL, started REAL, seconds REAL,"
    " worker INTEGER, gpu INTEGER, exit_code INTEGER, signal INTEGER, failure, input_size INTEGER NOT NULL,"
    " input, output, error, stderr);"
    "CREATE INDEX task_failed ON task(id, failure) WHERE state = 'failed';"
    "CREATE TABLE file(path PRIMARY KEY, size INTEGER NOT NULL, beside, tail, ended, renew) WITHOUT ROWID;";

static const struct {
    int sqlite_code, code;
} codes[] = {
    { SQLITE_NOTADB, GD_E_CORRUPT }, { SQLITE_CORRUPT, GD_E_CORRUPT }, { SQLITE_NOMEM, GD_E_NO_MEMORY },
    { SQLITE_BUSY, GD_E_BUSY },      { SQLITE_LOCKED, GD_E_BUSY },
};

static int code_of(int sqlite_code)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].sqlite_code == (sqlite_code & 0xff))
            return codes[i].code;
    return GD_E_SYSTEM;
}

/* What the user can do about the error, if that is not obvious. */
static const char *advice(int sqlite_code)
{
    switch (sqlite_code & 0xff) {
    case SQLITE_NOTADB:
        return " (it is not a journal: give another file)";
    case SQLITE_CORRUPT:
        return " (it is damaged: sqlite3's .recover may save part of it; start a new journal for the remaining tasks)";
    case SQLITE_FULL:
        return " (the disk is full: free some space)";
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
        return " (the file and its directory must be writable)";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return " (another program has locked it: end that program's transaction)";
    default:
        return "";
    }
}

int gd__db_code(int sqlite_code, const char *doing, const char *path)
{
    return gd__error(code_of(sqlite_code), "cannot %s %s: %s%s", doing, path, sqlite3_errstr(sqlite_code),
                     advice(sqlite_code));
}

int gd__db_error(sqlite3 *db, const char *doing, const char *path)
{
    const int code = sqlite3_errcode(db), number = sqlite3_system_errno(db);
    if (number == 0 || (code & 0xff) == SQLITE_CORRUPT)
        return gd__error(code_of(code), "cannot %s %s: %s%s", doing, path, sqlite3_errmsg(db), advice(code));
    return gd__error(code_of(code), "cannot %s %s: %s: %s%s", doing, path, sqlite3_errmsg(db), strerror(number),
                     advice(code));
}

int gd__db_exec(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

int gd__db_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **out)
{
    return sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL);
}

int gd__db_integer(sqlite3 *db, const char *sql, int64_t *out)
{
    sqlite3_stmt *s = NULL;
    *out = 0;
    int rc = sqlite3_prepare_v2(db, sql, -1, &s, NULL);
    if (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        *out = sqlite3_column_int64(s, 0);
        rc = SQLITE_OK;
    }
    sqlite3_finalize(s);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

uint64_t gd__db_count(sqlite3_stmt *s, int column)
{
    const int64_t n = sqlite3_column_int64(s, column);
    return n <= 0 ? 0 : n < GD__DB_COUNT_MOST ? (uint64_t)n : (uint64_t)GD__DB_COUNT_MOST;
}

double gd__db_seconds(sqlite3_stmt *s, int column)
{
    const double seconds = sqlite3_column_double(s, column);
    return !(seconds > 0) ? 0 : seconds < GD__DB_SECONDS_MOST ? seconds : GD__DB_SECONDS_MOST;
}

const char *gd__db_full_path(const char *path, char full[PATH_MAX])
{
    char directory[PATH_MAX], copy[PATH_MAX];
    if (realpath(path, full))
        return full;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const int length = snprintf(copy, sizeof copy, "%.*s", (int)(name - path), path);
    if (length < 0 || length >= PATH_MAX || !realpath(length > 0 ? copy : ".", directory))
        return path;
    const int n = snprintf(full, PATH_MAX, "%s/%s", strcmp(directory, "/") == 0 ? "" : directory, name);
    return n < PATH_MAX ? full : path;
}

/* --- checking that it is a journal --- */

/* Returns 1 for a journal, 0 for an empty database, or a negative code. */
static int check_kind(sqlite3 *db, const char *path)
{
    int64_t application, version, tables;
    if (gd__db_integer(db, "PRAGMA application_id", &application) != SQLITE_OK ||
        gd__db_integer(db, "PRAGMA user_version", &version) != SQLITE_OK ||
        gd__db_integer(db, "SELECT count(*) FROM sqlite_master", &tables) != SQLITE_OK)
        return gd__db_error(db, "read", path);
    if (application == 0 && version == 0 && tables == 0)
        return 0;
    if (application != GD__DB_APPLICATION)
        return gd__error(GD_E_CORRUPT, "%s is a database of another program, not a journal: give another file", path);
    if (version < GD__DB_VERSION_LEAST || version > GD__DB_VERSION)
        return gd__error(GD_E_VERSION,
                         "%s is a journal of version %lld, but this gpu_dispatch reads versions %d to %d: use the "
                         "gpu_dispatch that made it, or a newer one",
                         path, (long long)version, GD__DB_VERSION_LEAST, GD__DB_VERSION);
    return 1;
}

static int not_a_journal(const char *path, const char *what)
{
    return gd__error(
        GD_E_CORRUPT,
        "%s is damaged, or was made by another program: %s differs from that of a journal. Give another file", path,
        what);
}

/* Checks that our tables are plain tables. Reading a view or a virtual table runs its code, which may never end. Names
 * are compared as SQLite does, regardless of case. */
static int check_plain(sqlite3 *db, const char *path)
{
    static const char sql[] = "SELECT count(*) = 3 AND total(type = 'table' AND rootpage > 0) = 3 FROM sqlite_master"
                              " WHERE lower(name) IN ('run', 'task', 'file')";
    int64_t plain;
    if (gd__db_integer(db, sql, &plain) != SQLITE_OK)
        return gd__db_error(db, "read", path);
    return plain ? 0 : not_a_journal(path, "one of its tables");
}

/* Refuses generated columns. They are computed whenever they are read, and a few bytes of SQL can allocate gigabytes.
 * For SQLite before 3.26 the pragma returns no rows, but that SQLite has no generated columns. */
static int check_columns(sqlite3 *db, const char *path, const char *table)
{
    enum { HIDDEN = 6 };
    char sql[64];
    sqlite3_stmt *s = NULL;
    bool plain = true;
    snprintf(sql, sizeof sql, "PRAGMA table_xinfo(%s)", table);
    int rc = gd__db_prepare(db, sql, &s);
    while (rc == SQLITE_OK && plain && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        plain = sqlite3_column_int(s, HIDDEN) == 0;
        rc = SQLITE_OK;
    }
    sqlite3_finalize(s);
    if (rc != SQLITE_OK && rc != SQLITE_DONE)
        return gd__db_error(db, "read", path);
    return plain ? 0 : not_a_journal(path, table);
}

/* Refuses encodings other than UTF-8: SQLite converts such texts when they are read, which moves them in memory. */
static int check_encoding(sqlite3 *db, const char *path)
{
    sqlite3_stmt *s = NULL;
    int rc = gd__db_prepare(db, "PRAGMA encoding", &s);
    bool same = false;
    if (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(s, 0);
        same = name && strcmp(name, "UTF-8") == 0;
        rc = SQLITE_DONE;
    }
    const int code = rc == SQLITE_DONE ? 0 : gd__db_error(db, "read", path);
    sqlite3_finalize(s);
    return code < 0 || same ? code : not_a_journal(path, "its encoding");
}

static int check_tables(sqlite3 *db, const char *path)
{
    static const char *const tables[] = { "run", "task", "file" };
    int rc = check_plain(db, path);
    if (rc == 0)
        rc = check_encoding(db, path);
    for (size_t i = 0; rc == 0 && i < sizeof tables / sizeof *tables; i++)
        rc = check_columns(db, path, tables[i]);
    return rc;
}

/* Calls stat() for the file with that suffix in the directory of the real journal, even if path is a link. Returns
 * false if that file does not exist. */
static bool stat_beside(const char *path, const char *suffix, struct stat *info)
{
    char full[PATH_MAX];
    char *name = sqlite3_mprintf("%s%s", gd__db_full_path(path, full), suffix);
    const bool exists = name && stat(name, info) == 0;
    sqlite3_free(name);
    return exists;
}

static bool has_wal(const char *path)
{
    struct stat info;
    return stat_beside(path, "-wal", &info) && info.st_size > 0;
}

/* Finds a truncated file by its length. Checks a small file completely, which does not take long. */
static int check_damage(sqlite3 *db, const char *path)
{
    struct stat info;
    int64_t pages, page_size;
    if (gd__db_integer(db, "PRAGMA page_count", &pages) != SQLITE_OK ||
        gd__db_integer(db, "PRAGMA page_size", &page_size) != SQLITE_OK)
        return gd__db_error(db, "read", path);
    if (!has_wal(path) && stat(path, &info) == 0 && info.st_size < pages * page_size)
        return gd__db_code(SQLITE_CORRUPT, "use", path);
    if (pages * page_size > CHECKED_WHOLE)
        return 0;
    int64_t good;
    if (gd__db_integer(db, "SELECT quick_check = 'ok' FROM pragma_quick_check(1)", &good) != SQLITE_OK)
        return gd__db_error(db, "read", path);
    return good ? 0 : gd__db_code(SQLITE_CORRUPT, "use", path);
}

/* --- opening --- */

static int make_schema(sqlite3 *db, const char *path)
{
    char mark[128];
    snprintf(mark, sizeof mark, "PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT", GD__DB_APPLICATION,
             GD__DB_VERSION);
    if (gd__db_exec(db, "BEGIN IMMEDIATE") != SQLITE_OK || gd__db_exec(db, schema) != SQLITE_OK ||
        gd__db_exec(db, mark) != SQLITE_OK)
        return gd__db_error(db, "make", path);
    return 0;
}

/* Version 2 has run.shard and run.nonce. A process that is killed in the middle leaves version 1. */
int gd__db_upgrade(sqlite3 *db, const char *path)
{
    int64_t version;
    if (gd__db_integer(db, "PRAGMA user_version", &version) != SQLITE_OK)
        return gd__db_error(db, "read", path);
    if (version == GD__DB_VERSION)
        return 0;
    int rc = gd__db_exec(db, "BEGIN IMMEDIATE");
    if (rc == SQLITE_OK)
        rc = gd__db_exec(db, "ALTER TABLE run ADD COLUMN shard TEXT; ALTER TABLE run ADD COLUMN nonce TEXT");
    GD__KILL_POINT("journal_upgrade");
    if (rc == SQLITE_OK)
        rc = gd__db_exec(db, "PRAGMA user_version = 2");
    if (rc == SQLITE_OK)
        rc = gd__db_exec(db, "COMMIT");
    const int code = rc == SQLITE_OK ? 0 : gd__db_error(db, "upgrade", path);
    if (code < 0)
        gd__db_exec(db, "ROLLBACK"); /* harmless if SQLite has already rolled back */
    return code;
}

const char *gd__db_shard_column(sqlite3 *db)
{
    int64_t version;
    if (gd__db_integer(db, "PRAGMA user_version", &version) != SQLITE_OK)
        return NULL;
    return version >= 2 ? "shard" : "NULL";
}

/* SQLite gives names like ":memory:" and "file:x" a special meaning, so "./" is put before them. */
static int open_named(sqlite3 **out, const char *path, int flags)
{
    const bool is_odd = *path == ':' || (strncmp(path, "file:", 5) == 0 && !(flags & SQLITE_OPEN_URI));
    char *name = sqlite3_mprintf("%s%s", is_odd ? "./" : "", path);
    const int rc = name ? sqlite3_open_v2(name, out, flags | SQLITE_OPEN_NOMUTEX, NULL) : SQLITE_NOMEM;
    sqlite3_free(name);
    return rc;
}

/* An older SQLite may not have some of these options. Then it does not have the feature either, or check_tables()
 * refuses a file that uses it. */
static void restrict_connection(sqlite3 *db)
{
    static const struct {
        int option, value;
    } options[] = {
        { SQLITE_DBCONFIG_ENABLE_TRIGGER, 0 },
#ifdef SQLITE_DBCONFIG_ENABLE_VIEW
        { SQLITE_DBCONFIG_ENABLE_VIEW, 0 },
#endif
#ifdef SQLITE_DBCONFIG_DEFENSIVE
        { SQLITE_DBCONFIG_DEFENSIVE, 1 },
#endif
#ifdef SQLITE_DBCONFIG_TRUSTED_SCHEMA
        { SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0 },
#endif
    };
    static const char *const pragmas[] = { "PRAGMA trusted_schema = OFF", "PRAGMA cell_size_check = ON",
                                           "PRAGMA mmap_size = 0", "PRAGMA ignore_check_constraints = ON" };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        (void)sqlite3_db_config(db, options[i].option, options[i].value, (int *)NULL);
    for (size_t i = 0; i < sizeof pragmas / sizeof *pragmas; i++)
        (void)gd__db_exec(db, pragmas[i]); /* an unknown pragma does nothing */
}

static int connect(sqlite3 **out, const char *path, int flags)
{
    *out = NULL;
    const int rc = GD__FAULT("sqlite_open") ? SQLITE_NOMEM : open_named(out, path, flags);
    if (rc == SQLITE_OK) {
        restrict_connection(*out);
        sqlite3_busy_timeout(*out, BUSY_MS);
        sqlite3_extended_result_codes(*out, 0);
        return 0;
    }
    const int code = *out ? gd__db_error(*out, "open", path) : gd__db_code(rc, "open", path);
    sqlite3_close(*out);
    *out = NULL;
    return code;
}

/* Checks the other files of the journal: SQLite opens them too, and would wait if one of them were a FIFO. */
static int check_beside(const char *path)
{
    static const char *const suffixes[] = { "-wal", "-shm", "-journal" };
    struct stat info;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (stat_beside(path, suffixes[i], &info) && !S_ISREG(info.st_mode))
            return gd__error(GD_E_INVALID, "%s%s is not a regular file: move it away, or give another journal", path,
                             suffixes[i]);
    char full[PATH_MAX];
    char *name = sqlite3_mprintf("%s-journal", gd__db_full_path(path, full));
    const int rc = name ? gd__mode_check_file(path, name) : gd__error(GD_E_NO_MEMORY, "no memory for a path");
    sqlite3_free(name);
    return rc;
}

static int check_file(const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0)
        return S_ISREG(info.st_mode)
                   ? check_beside(path)
                   : gd__error(GD_E_INVALID, "%s is not a regular file: give the name of a file for the journal", path);
    /* The lock file belongs in the directory of the link's target. That is not known if the target does not exist. */
    if (errno == ENOENT && lstat(path, &info) == 0)
        return gd__error(GD_E_INVALID,
                         "%s is a symbolic link to a file that does not exist: give the name of that file instead",
                         path);
    return 0;
}

/* On a file system that is not known to be local: SQLite needs locks, at least between the processes of a machine. */
static int check_locks(sqlite3 *db, const char *path)
{
    sqlite3_file *file = NULL;
    int error = 0;
    if (sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK || !file || !file->pMethods)
        return 0;
    if ((file->pMethods->xLock(file, SQLITE_LOCK_SHARED) & 0xff) != SQLITE_IOERR) {
        (void)file->pMethods->xUnlock(file, SQLITE_LOCK_NONE);
        return 0;
    }
    (void)sqlite3_file_control(db, "main", SQLITE_FCNTL_LAST_ERRNO, &error);
    if (error != ENOSYS && error != EOPNOTSUPP && error != ENOLCK)
        return 0; /* the first read reports it */
    return gd__error(GD_E_UNSUPPORTED,
                     "cannot use %s: its file system has no locks (%s): mount it with locks (Lustre: -o flock or -o "
                     "localflock; NFS: start its lock service), or put the journal on another file system",
                     path, strerror(error));
}

int gd__db_open_write(sqlite3 **out, const char *path)
{
    sqlite3 *db = NULL;
    int rc = check_file(path);
    const bool shared = gd__file_is_shared(path);
    if (rc == 0)
        rc = connect(&db, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    if (rc < 0)
        return rc;
    rc = shared ? check_locks(db, path) : 0;
    if (rc == 0)
        rc = gd__mode_begin(db, path, shared);
    if (rc == 0)
        rc = check_kind(db, path);
    if (rc >= 0 && sqlite3_db_readonly(db, "main") == 1)
        rc = gd__db_code(SQLITE_READONLY, "write to", path);
    const bool fresh = rc == 0;
    if (rc > 0)
        rc = check_tables(db, path);
    if (fresh && gd__db_exec(db, "PRAGMA page_size = " PAGE_SIZE) != SQLITE_OK)
        rc = gd__db_error(db, "make", path);
    if (rc >= 0)
        rc = gd__mode_choose(db, path, shared);
    if (rc >= 0)
        rc = fresh ? make_schema(db, path) : check_damage(db, path);
    if (rc < 0) {
        sqlite3_close(db);
        return rc;
    }
    *out = db;
    return 0;
}

int gd__db_open_new(sqlite3 **out, const char *path)
{
    sqlite3 *db = NULL;
    int rc = connect(&db, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    if (rc < 0)
        return rc;
    if (gd__db_exec(db, "PRAGMA page_size = " PAGE_SIZE) != SQLITE_OK ||
        gd__db_exec(db, "PRAGMA journal_mode = OFF") != SQLITE_OK ||
        gd__db_exec(db, "PRAGMA synchronous = OFF") != SQLITE_OK ||
        gd__db_exec(db, "PRAGMA locking_mode = EXCLUSIVE") != SQLITE_OK)
        rc = gd__db_error(db, "make", path);
    if (rc == 0)
        rc = make_schema(db, path);
    if (rc < 0) {
        sqlite3_close(db);
        return rc;
    }
    *out = db;
    return 0;
}

/* Used on a read-only medium, where SQLite cannot write the index of its write-ahead log. Without a log it needs no
 * index. */
static int connect_immutable(sqlite3 **out, const char *path)
{
    const size_t room = 3 * strlen(path) + sizeof "file:?immutable=1";
    char *uri = gd__calloc(1, room), *to = uri;
    if (!uri)
        return gd__error(GD_E_NO_MEMORY, "no memory for a path");
    to += snprintf(to, room, "file:");
    for (const char *p = path; *p; p++)
        to += *p == '%' || *p == '?' || *p == '#' ? sprintf(to, "%%%02X", (unsigned char)*p) : sprintf(to, "%c", *p);
    snprintf(to, room - (size_t)(to - uri), "?immutable=1");
    const int rc = connect(out, uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
    gd__free(uri);
    return rc;
}

static int check_readable(sqlite3 *db, const char *path)
{
    const int rc = check_kind(db, path);
    if (rc == 0)
        return gd__error(GD_E_CORRUPT, "%s is empty: no run has written to this journal", path);
    return rc < 0 ? rc : check_tables(db, path);
}

/* When the last connection is closed, it removes the write-ahead log and its index, but only if it is writable. So
 * this connection is writable if possible, and query_only prevents changes. */
static int connect_reading(sqlite3 **out, const char *path, int flags)
{
    int rc = connect(out, path, flags);
    if (rc == 0)
        sqlite3_busy_timeout(*out, BUSY_READING_MS);
    if (rc == 0 && gd__db_exec(*out, "PRAGMA query_only = 1") != SQLITE_OK)
        rc = gd__db_error(*out, "read", path);
    return rc < 0 ? rc : check_readable(*out, path);
}

static bool is_read_only(sqlite3 *db)
{
    const int why = sqlite3_errcode(db) & 0xff;
    return why == SQLITE_CANTOPEN || why == SQLITE_READONLY;
}

static int cannot_roll_back(const char *path)
{
    return gd__error(GD_E_SYSTEM,
                     "cannot read %s: a run was killed while it wrote to it, and %s-journal has what must be undone "
                     "first. This needs permission to write to both and to their directory: resume the run, or read a "
                     "copy of both files",
                     path, path);
}

int gd__db_undo(const char *path)
{
    sqlite3 *db;
    int64_t any;
    int rc = connect(&db, path, SQLITE_OPEN_READWRITE);
    if (rc == 0 && gd__db_integer(db, "SELECT count(*) FROM sqlite_master", &any) != SQLITE_OK)
        rc = gd__db_error(db, "read", path);
    sqlite3_close(db);
    return rc;
}

static int connect_local(sqlite3 **out, const char *path)
{
    int rc = connect_reading(out, path, SQLITE_OPEN_READWRITE);
    if (rc < 0 && *out && is_read_only(*out)) {
        sqlite3_close(*out);
        rc = connect_reading(out, path, SQLITE_OPEN_READONLY);
    }
    return rc;
}

/* This connection cannot write, so that it does not undo a transaction that a run on another machine is writing
 * (read/settled.h). A file with a write-ahead log has no such transaction. */
static int connect_shared(sqlite3 **out, const char *path)
{
    enum { TORN_MOST = 20 }; /* a run writes while the file is checked, so it looks damaged */
    const uint64_t until = gd__settled_until();
    int rc = connect_reading(out, path, SQLITE_OPEN_READONLY);
    for (unsigned torn = 0; rc < 0 && *out; torn += rc == GD_E_CORRUPT) {
        const bool unfinished = gd__settled_is_unfinished(*out);
        if (!(unfinished ? gd__settled_wait(path, until) > 0
                         : rc == GD_E_CORRUPT && torn < TORN_MOST && gd__settled_is_written(path)))
            break;
        sqlite3_close(*out);
        rc = connect_reading(out, path, SQLITE_OPEN_READONLY);
    }
    if (rc < 0 && *out && !gd__settled_is_unfinished(*out) && is_read_only(*out)) {
        sqlite3_close(*out);
        rc = connect_local(out, path);
    }
    return rc;
}

int gd__db_open_read(sqlite3 **out, const char *path)
{
    struct stat info;
    *out = NULL;
    if (stat(path, &info) < 0)
        return gd__error_errno("cannot open the journal %s", path);
    int rc = check_file(path);
    if (rc < 0)
        return rc;
    rc = gd__file_is_shared(path) ? connect_shared(out, path) : connect_local(out, path);
    if (rc < 0 && *out && gd__settled_is_unfinished(*out))
        rc = cannot_roll_back(path);
    else if (rc < 0 && *out && is_read_only(*out) && !has_wal(path)) {
        sqlite3_close(*out);
        rc = connect_immutable(out, path);
        rc = rc < 0 ? rc : check_readable(*out, path);
    }
    if (rc < 0) {
        sqlite3_close(*out);
        *out = NULL;
    }
    return rc;
}
