/* Writes the chosen records to the new journal: see merge.h. As for a run's records (write/group.c), one statement
 * inserts many rows of a virtual table, which takes much less time than a statement for each row. Most records have
 * nothing in several columns. So there is a shorter statement for them, without these columns.
 *
 * No statement sets the id: SQLite then takes the next one, and need not check whether there is such a row.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "journal/merge/merge.h"

#define MERGED "gd__merged" /* not the name of a table in the file */

struct table {
    sqlite3_vtab base; /* must be first: SQLite uses only this part */
    struct insertion *insertion;
};

struct insertion {
    struct gd__merge *m;
    struct gd__merge_rows *rows;
    const struct gd__merge_row *row; /* NULL: at the end */
    bool short_form;                 /* the present statement is the shorter one */
    unsigned n_short;                /* rows in sequence that the shorter one could insert */
    int error;
};

struct cursor {
    sqlite3_vtab_cursor base;
    struct insertion *insertion;
};

/* --- values --- */

#define ALWAYS "key, state, attempts, number, run, started, seconds, worker, gpu, input_size, input"
#define RARELY "version, exit_code, signal, failure, output, error, stderr"

/* The columns of both, in this order. Columns that are copied as they are have their index in gd__merge_row.values; the
 * others are negative. */
enum { KEY = -1, STATE = -2, ATTEMPTS = -3, NUMBER = -4, RUN = -5, INPUT_SIZE = -6 };
static const signed char sources[] = { KEY,        STATE, ATTEMPTS, NUMBER, RUN, 1, 2, 3,  4,
                                       INPUT_SIZE, 8,     0,        5,      6,   7, 9, 10, 11 };
static const signed char rare[] = { 0, 5, 6, 7, 9, 10, 11 };
enum { SHORT_AFTER = 16 }; /* after this many rows in sequence, the shorter statement is used again */

static void result_count(sqlite3_context *out, uint64_t n)
{
    sqlite3_result_int64(out, (sqlite3_int64)n);
}

static void result_value(sqlite3_context *out, const struct gd__merge_value *v)
{
    switch (v->type) {
    case SQLITE_INTEGER:
        return sqlite3_result_int64(out, v->integer);
    case SQLITE_FLOAT:
        return sqlite3_result_double(out, v->real);
    case SQLITE_TEXT:
        return sqlite3_result_text(out, v->bytes, v->size, SQLITE_STATIC);
    case SQLITE_BLOB:
        if (v->size == 0)
            return sqlite3_result_zeroblob(out, 0);
        return sqlite3_result_blob(out, v->bytes, v->size, SQLITE_STATIC);
    default:
        return; /* NULL */
    }
}

static int column_of(sqlite3_vtab_cursor *base, sqlite3_context *out, int column)
{
    const struct insertion *i = ((struct cursor *)base)->insertion;
    const struct gd__merge_row *r = i->row;
    switch (sources[column]) {
    case KEY:
        sqlite3_result_blob(out, r->key, sizeof r->key, SQLITE_STATIC);
        break;
    case STATE:
        sqlite3_result_text(out, r->done ? "done" : "failed", -1, SQLITE_STATIC);
        break;
    case ATTEMPTS:
        result_count(out, r->attempts);
        break;
    case NUMBER:
        result_count(out, r->number);
        break;
    case RUN:
        result_count(out, r->run);
        break;
    case INPUT_SIZE:
        result_count(out, r->input_size);
        break;
    default:
        result_value(out, &r->values[(unsigned char)sources[column]]);
    }
    return SQLITE_OK;
}

/* --- scanning --- */

static bool fits_short_form(const struct gd__merge_row *row)
{
    for (size_t i = 0; i < sizeof rare; i++)
        if (row->values[(unsigned char)rare[i]].type != SQLITE_NULL)
            return false;
    return true;
}

/* After an error, the rows end, and the statement too. It is not aborted, because the new journal has no log from which
 * SQLite could undo it. */
static void read_row(struct insertion *i)
{
    const int rc = gd__merge_rows_next(i->rows, &i->row);
    GD__KILL_POINT("merge_record");
    if (rc <= 0) {
        i->row = NULL;
        i->error = rc;
    } else {
        i->n_short = fits_short_form(i->row) ? i->n_short + 1 : 0;
    }
}

static void count_row(struct insertion *i)
{
    i->m->counts.done += i->row->done;
    i->m->counts.failed += !i->row->done;
}

static int next_row(sqlite3_vtab_cursor *base)
{
    struct insertion *i = ((struct cursor *)base)->insertion;
    count_row(i);
    read_row(i);
    return SQLITE_OK;
}

/* The first row of a statement was read by the statement before it. */
static int begin_scan(sqlite3_vtab_cursor *base, int plan, const char *plan_name, int n, sqlite3_value **values)
{
    (void)base, (void)plan, (void)plan_name, (void)n, (void)values;
    return SQLITE_OK;
}

/* The statement ends if the other one is needed for the next row, or is better for it. */
static int at_end(sqlite3_vtab_cursor *base)
{
    const struct insertion *i = ((struct cursor *)base)->insertion;
    return !i->row || (i->short_form ? i->n_short == 0 : i->n_short >= SHORT_AFTER);
}

static int rowid_of(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)((struct cursor *)base)->insertion->row->id;
    return SQLITE_OK;
}

static int plan_of(sqlite3_vtab *base, sqlite3_index_info *info)
{
    (void)base, (void)info; /* a full scan is the only plan */
    return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **out)
{
    struct cursor *c = gd__calloc(1, sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    c->insertion = ((struct table *)base)->insertion;
    *out = &c->base;
    return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
    gd__free(base);
    return SQLITE_OK;
}

static int open_table(sqlite3 *db, void *insertion, int n, const char *const *arguments, sqlite3_vtab **out,
                      char **error)
{
    (void)n, (void)arguments, (void)error;
    struct table *t = gd__calloc(1, sizeof *t);
    if (!t)
        return SQLITE_NOMEM;
    t->insertion = insertion;
    const int rc = sqlite3_declare_vtab(db, "CREATE TABLE " MERGED "(" ALWAYS ", " RARELY ")");
    if (rc == SQLITE_OK)
        *out = &t->base;
    else
        gd__free(t);
    return rc;
}

static int close_table(sqlite3_vtab *base)
{
    gd__free(base);
    return SQLITE_OK;
}

static int insert_all(struct insertion *i, sqlite3 *db)
{
    static const char whole_sql[] =
        "INSERT INTO task(" ALWAYS ", " RARELY ") SELECT " ALWAYS ", " RARELY " FROM " MERGED;
    static const char short_sql[] = "INSERT INTO task(" ALWAYS ") SELECT " ALWAYS " FROM " MERGED;
    sqlite3_stmt *whole = NULL, *shorter = NULL;
    int rc = gd__db_prepare(db, whole_sql, &whole);
    if (rc == SQLITE_OK)
        rc = gd__db_prepare(db, short_sql, &shorter);
    if (rc == SQLITE_OK)
        rc = gd__db_exec(db, "BEGIN");
    read_row(i);
    while (rc == SQLITE_OK && i->row) {
        i->short_form = i->n_short > 0;
        sqlite3_stmt *s = i->short_form ? shorter : whole;
        rc = sqlite3_step(s);
        sqlite3_reset(s);
        rc = rc == SQLITE_DONE ? SQLITE_OK : rc;
    }
    if (rc == SQLITE_OK)
        rc = gd__db_exec(db, "COMMIT");
    const int code = i->error < 0 ? i->error : rc == SQLITE_OK ? 0 : gd__db_error(db, "write", "the merged journal");
    sqlite3_finalize(whole);
    sqlite3_finalize(shorter);
    return code;
}

int gd__merge_insert(struct gd__merge *m, sqlite3 *db)
{
    static const sqlite3_module module = {
        .xConnect = open_table, /* no xCreate: the table exists without CREATE VIRTUAL TABLE */
        .xBestIndex = plan_of,
        .xDisconnect = close_table,
        .xOpen = open_cursor,
        .xClose = close_cursor,
        .xFilter = begin_scan,
        .xNext = next_row,
        .xEof = at_end,
        .xColumn = column_of,
        .xRowid = rowid_of,
    };
    struct insertion i = { .m = m };
    int rc = gd__merge_rows_open(&i.rows, m);
    m->counts.done = m->counts.failed = 0; /* from now on, those that are written */
    if (rc == 0 && sqlite3_create_module(db, MERGED, &module, &i) != SQLITE_OK)
        rc = gd__db_error(db, "write", "the merged journal");
    if (rc == 0)
        rc = insert_all(&i, db);
    sqlite3_create_module(db, MERGED, NULL, NULL);
    gd__merge_rows_close(&i.rows);
    return rc;
}
