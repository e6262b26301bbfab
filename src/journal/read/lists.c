/* Reading the runs of a journal, and the classes of its failures. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "journal/db.h"
#include "journal/identity.h"
#include "journal/journal.h"
#include "journal/read/reader.h"
#include "journal/read/settled.h"

static const char *text_at(sqlite3_stmt *s, int column)
{
    return (const char *)sqlite3_column_text(s, column);
}

/* --- runs --- */

struct run_copy {
    struct gd_journal_run run;
    char *command, *host, *end;
};

static void free_run(struct run_copy *c)
{
    gd__free(c->command);
    gd__free(c->host);
    gd__free(c->end);
}

static void read_run(sqlite3_stmt *s, struct run_copy *out)
{
    *out = (struct run_copy){ .command = gd__reader_copy_column(s, 1),
                              .host = gd__reader_copy_column(s, 2),
                              .end = gd__reader_copy_column(s, 3) };
    out->run = (struct gd_journal_run){
        .number = gd__db_count(s, 0),
        .command = out->command,
        .host = out->host,
        .end = out->end,
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
    (void)gd__identity_parse(text_at(s, 14), &out->run.shard); /* a damaged one counts as none */
}

/* What one transaction reads: the next run. */
struct run_part {
    struct gd_journal_reader *r;
    sqlite3_stmt *s;
    int64_t last; /* the number of the run before */
    struct run_copy copy;
    bool found;
};

static int read_run_part(void *user)
{
    struct run_part *p = user;
    gd__reader_begin(p->r);
    sqlite3_bind_int64(p->s, 1, p->last);
    const int rc = sqlite3_step(p->s);
    p->found = rc == SQLITE_ROW;
    if (p->found)
        read_run(p->s, &p->copy);
    const int code = rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : gd__reader_failed(p->r);
    sqlite3_reset(p->s);
    return code;
}

static void forget_run_part(void *user)
{
    struct run_part *p = user;
    if (p->found)
        free_run(&p->copy);
    p->found = false;
}

/* Each run is read in its own transaction, which has ended when fn is called. */
static int each_run(struct gd_journal_reader *r, sqlite3_stmt *s,
                    int (*fn)(void *user, const struct gd_journal_run *run), void *user)
{
    struct run_part p = { .r = r, .s = s };
    int rc = 0;
    do {
        rc = gd__settled_read(r->db, r->path, read_run_part, forget_run_part, &p);
        const bool found = p.found;
        if (rc == 0 && found && (int64_t)p.copy.run.number <= p.last) /* in a damaged file this loop might not end */
            rc = gd__db_code(SQLITE_CORRUPT, "read", r->path);
        p.last = found ? (int64_t)p.copy.run.number : p.last;
        if (rc == 0 && found)
            rc = fn(user, &p.copy.run);
        forget_run_part(&p);
        if (!found)
            break;
    } while (rc == 0);
    return rc;
}

int gd_journal_reader_runs(struct gd_journal_reader *r, int (*fn)(void *user, const struct gd_journal_run *run),
                           void *user)
{
    if (!r || !fn)
        return gd__error(GD_E_INVALID, "gd_journal_reader_runs: the reader or the function is NULL");
    sqlite3_stmt *s = NULL;
    char sql[256];
    gd__reader_begin(r);
    const char *shard = gd__db_shard_column(r->db);
    if (!shard)
        return gd__reader_failed(r);
    snprintf(sql, sizeof sql,
             "SELECT number, command, host, outcome, pid, total, taken, skipped, done, failed, started, written, ended,"
             " busy, %s FROM run WHERE number > ?1 ORDER BY number LIMIT 1",
             shard);
    const int rc = gd__db_prepare(r->db, sql, &s) == SQLITE_OK ? each_run(r, s, fn, user) : gd__reader_failed(r);
    sqlite3_finalize(s);
    return rc;
}

/* --- classes of failures --- */

struct failure_class {
    char *name;
    uint64_t count;
};

/* What one transaction reads. */
struct classes_part {
    struct gd_journal_reader *r;
    struct failure_class *list;
    size_t n;
};

static void forget_classes(void *user)
{
    struct classes_part *p = user;
    for (size_t i = 0; i < p->n; i++)
        gd__free(p->list[i].name);
    gd__free(p->list);
    p->list = NULL;
    p->n = 0;
}

/* Copies the rows: name, count. Returns 0 or a negative code. */
static int copy_classes(struct classes_part *p, sqlite3_stmt *s)
{
    size_t room = 0;
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        if (p->n == room) {
            room = 2 * room + 16;
            struct failure_class *grown = gd__realloc(p->list, room * sizeof *grown);
            if (!grown)
                return gd__error(GD_E_NO_MEMORY, "no memory for records");
            p->list = grown;
        }
        const char *name = text_at(s, 0);
        char *copy = gd__strdup(name ? name : "error");
        if (!copy)
            return gd__error(GD_E_NO_MEMORY, "no memory for records");
        p->list[p->n++] = (struct failure_class){ copy, gd__db_count(s, 1) };
    }
    return rc == SQLITE_DONE ? 0 : gd__reader_failed(p->r);
}

/* Callers get the text up to its first NUL. Group by that text, so that no class is reported twice. */
static int read_classes(void *user)
{
    struct classes_part *p = user;
    sqlite3_stmt *s = NULL;
    gd__reader_begin(p->r);
    const int rc = gd__db_prepare(p->r->db,
                                  "SELECT printf('%s', ifnull(failure, 'error')) AS f, count(*) AS n FROM task"
                                  " INDEXED BY task_failed WHERE state = 'failed' GROUP BY f ORDER BY n DESC, f",
                                  &s) == SQLITE_OK
                       ? copy_classes(p, s)
                       : gd__reader_failed(p->r);
    sqlite3_finalize(s);
    return rc;
}

int gd_journal_reader_failures(struct gd_journal_reader *r, int (*fn)(void *user, const char *failure, uint64_t count),
                               void *user)
{
    if (!r || !fn)
        return gd__error(GD_E_INVALID, "gd_journal_reader_failures: the reader or the function is NULL");
    struct classes_part p = { .r = r };
    int rc = gd__settled_read(r->db, r->path, read_classes, forget_classes, &p);
    for (size_t i = 0; rc == 0 && i < p.n; i++)
        rc = fn(user, p.list[i].name, p.list[i].count);
    forget_classes(&p);
    return rc;
}
