/* A virtual table of SQLite that contains the group that is being written, or a piece of it. It has the columns of the
 * table task.
 *
 * So one statement, INSERT ... SELECT, writes all records. A statement for each record would take more than one and a
 * half times as long, because SQLite would begin and end a statement each time, and copy every value once more. Only
 * the writer's connection has this table. It is not stored in the file.
 */
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "journal/internal.h"

enum column {
    C_ID,
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

struct table {
    sqlite3_vtab base; /* must be first: SQLite uses only this part */
    const struct gd_journal *journal;
};

struct cursor {
    sqlite3_vtab_cursor base;
    const struct gd_journal *journal;
    size_t at;    /* offset of the current record in journal->writing */
    double epoch; /* the Unix time when the monotonic clock was 0 */
};

static const struct gd__record *record_at(const struct cursor *c)
{
    return gd__record_at(&c->journal->writing, c->at);
}

/* --- values --- */

/* Returns the number of bytes of the UTF-8 character at p, or 0 if it is not valid or is NUL. */
static size_t utf8_length(const unsigned char *p, size_t left)
{
    static const struct {
        unsigned char mask, lead;
    } shapes[] = { { 0xe0, 0xc0 }, { 0xf0, 0xe0 }, { 0xf8, 0xf0 } };
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

/* Whether the next eight bytes are all ASCII and none is 0. Nearly all texts consist mostly of such bytes. */
static bool is_plain(const unsigned char *p)
{
    const uint64_t highs = UINT64_C(0x8080808080808080), ones = UINT64_C(0x0101010101010101);
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return ((word | (word - ones)) & highs) == 0; /* only a 0 byte causes a borrow */
}

bool gd__group_is_text(const char *bytes, size_t size)
{
    const unsigned char *p = (const unsigned char *)bytes;
    for (size_t i = 0, n; i < size; i += n) {
        const bool plain = size - i >= sizeof(uint64_t) && is_plain(p + i);
        n = plain ? sizeof(uint64_t) : utf8_length(p + i, size - i);
        if (n == 0)
            return false;
    }
    return true;
}

/* Returns the bytes to SQLite as text if they are valid text, so that people can read it, and as a blob otherwise. The
 * bytes stay valid until the statement ends. */
static void result_bytes(sqlite3_context *out, const struct gd__record *r, enum gd__text which)
{
    const uint32_t length = r->length[which];
    if (length == GD__NO_TEXT)
        return; /* NULL */
    const char *bytes = gd__record_text(r, which);
    if (gd__group_is_text(bytes, length))
        sqlite3_result_text(out, length > 0 ? bytes : "", (int)length, SQLITE_STATIC);
    else
        sqlite3_result_blob(out, bytes, (int)length, SQLITE_STATIC);
}

static void result_count(sqlite3_context *out, uint64_t n)
{
    sqlite3_result_int64(out, (sqlite3_int64)n);
}

/* The value is NULL if it is absent. */
static void result_int_if(sqlite3_context *out, bool is_there, int32_t n)
{
    if (is_there)
        sqlite3_result_int(out, n);
}

static void result_state(sqlite3_context *out, const struct gd__record *r)
{
    if (r->state == GD__FINAL_DONE)
        sqlite3_result_text(out, "done", 4, SQLITE_STATIC);
    else
        sqlite3_result_text(out, "failed", 6, SQLITE_STATIC);
}

static void result_fixed(sqlite3_context *out, const struct cursor *c, const struct gd__record *r, enum column column)
{
    switch (column) {
    case C_ID:
        return result_count(out, r->id);
    case C_KEY:
        return sqlite3_result_blob(out, r->key, sizeof r->key, SQLITE_STATIC);
    case C_STATE:
        return result_state(out, r);
    case C_ATTEMPTS:
        return result_count(out, r->attempts);
    case C_NUMBER:
        return result_count(out, r->number);
    case C_RUN:
        return result_count(out, c->journal->run);
    case C_STARTED:
        if (r->start_ns > 0)
            sqlite3_result_double(out, c->epoch + (double)r->start_ns / 1e9);
        return;
    case C_SECONDS:
        return sqlite3_result_double(out, (double)r->duration_ns / 1e9);
    case C_WORKER:
        return result_int_if(out, r->worker >= 0, r->worker);
    case C_GPU:
        return result_int_if(out, r->worker >= 0, r->gpu);
    case C_EXIT_CODE:
        return result_int_if(out, r->exit_code != 0, r->exit_code);
    case C_SIGNAL:
        return result_int_if(out, r->signal != 0, r->signal);
    default:
        return result_count(out, r->input_size);
    }
}

static int column_of(sqlite3_vtab_cursor *base, sqlite3_context *out, int column)
{
    const struct cursor *c = (const struct cursor *)base;
    const struct gd__record *r = record_at(c);
    switch (column) {
    case C_VERSION:
        result_bytes(out, r, GD__TEXT_VERSION);
        break;
    case C_FAILURE:
        result_bytes(out, r, GD__TEXT_FAILURE);
        break;
    case C_INPUT:
        result_bytes(out, r, GD__TEXT_INPUT);
        break;
    case C_OUTPUT:
        result_bytes(out, r, GD__TEXT_OUTPUT);
        break;
    case C_ERROR:
        result_bytes(out, r, GD__TEXT_ERROR);
        break;
    case C_STDERR:
        result_bytes(out, r, GD__TEXT_STDERR);
        break;
    default:
        result_fixed(out, c, r, (enum column)column);
    }
    return SQLITE_OK;
}

/* --- scanning --- */

static int rowid_of(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)record_at((const struct cursor *)base)->id;
    return SQLITE_OK;
}

static int at_end(sqlite3_vtab_cursor *base)
{
    const struct cursor *c = (const struct cursor *)base;
    return c->at >= c->journal->piece_end;
}

static int next_record(sqlite3_vtab_cursor *base)
{
    struct cursor *c = (struct cursor *)base;
    c->at += record_at(c)->size;
    GD__KILL_POINT("journal_record");
    return SQLITE_OK;
}

static int begin_scan(sqlite3_vtab_cursor *base, int plan, const char *plan_name, int n, sqlite3_value **values)
{
    (void)plan, (void)plan_name, (void)n, (void)values;
    struct cursor *c = (struct cursor *)base;
    c->at = c->journal->piece;
    c->epoch = gd__wall_clock() - (double)gd__now_ns() / 1e9;
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
    c->journal = ((const struct table *)base)->journal;
    *out = &c->base;
    return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
    gd__free(base);
    return SQLITE_OK;
}

static int open_table(sqlite3 *db, void *journal, int n, const char *const *arguments, sqlite3_vtab **out, char **error)
{
    (void)n, (void)arguments, (void)error;
    struct table *t = gd__calloc(1, sizeof *t);
    if (!t)
        return SQLITE_NOMEM;
    t->journal = journal;
    const int rc = sqlite3_declare_vtab(db, "CREATE TABLE " GD__GATHERED "(" GD__TASK_COLUMNS ")");
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

int gd__group_offer(struct gd_journal *j)
{
    static const sqlite3_module module = {
        .xConnect = open_table, /* no xCreate: the table exists without CREATE VIRTUAL TABLE */
        .xBestIndex = plan_of,
        .xDisconnect = close_table,
        .xOpen = open_cursor,
        .xClose = close_cursor,
        .xFilter = begin_scan,
        .xNext = next_record,
        .xEof = at_end,
        .xColumn = column_of,
        .xRowid = rowid_of,
    };
    return sqlite3_create_module(j->db, GD__GATHERED, &module, j);
}
