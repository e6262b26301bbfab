/* Reads the chosen records of one journal into buffers: see merge.h.
 *
 * A function of SQLite gets the columns of each row and copies them. It is part of the condition of the query, so one
 * step of the statement reads as many rows as fit into the buffer. That takes much less time than a step for each row
 * and a call for each column.
 *
 * In most journals, numbers ascend with ids, so rows are read by id. For a journal where they do not, a list of its ids
 * by number is made first, and each row is read by its id.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "journal/merge/merge.h"
#include "journal/read/settled.h"

#define TAKE "gd__take"

/* The arguments of the function. The columns that are copied as they are come first: gd__merge_row.values has the same
 * order. */
#define COLUMNS                                                                                                  \
    "version, started, seconds, worker, gpu, exit_code, signal, failure, input, output, error, stderr, id, key," \
    " state, attempts, number, run, input_size"
enum { A_ID = GD__MERGE_VALUES, A_KEY, A_STATE, A_ATTEMPTS, A_NUMBER, A_RUN, A_INPUT_SIZE, ARGUMENTS };
enum { TAKEN_MOST = 4096 }; /* rows read in one transaction */

static int no_memory(void)
{
    return gd__error(GD_E_NO_MEMORY, "no memory to merge journals");
}

/* --- copying a row --- */

static uint64_t count_of(sqlite3_value *v)
{
    const int64_t n = sqlite3_value_int64(v);
    return n <= 0 ? 0 : n < GD__DB_COUNT_MOST ? (uint64_t)n : (uint64_t)GD__DB_COUNT_MOST;
}

static uint64_t renumbered(const struct gd__merge_input *in, uint64_t run)
{
    size_t from = 0, to = in->n_runs;
    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        if (in->runs[middle].before < run)
            from = middle + 1;
        else
            to = middle;
    }
    return from < in->n_runs && in->runs[from].before == run ? in->runs[from].after : 0;
}

/* Makes room for a row. A row that is larger than the buffer gets a larger one. */
static struct gd__merge_row *room_for(struct gd__merge_buffer *b, size_t size)
{
    if (b->room - b->used < size) {
        const size_t needed = b->used + size, usual = b->enough + b->enough / 8;
        const size_t room = needed > usual ? needed : usual;
        char *larger = gd__realloc(b->bytes, room);
        if (!larger)
            return NULL;
        b->bytes = larger;
        b->room = room;
    }
    return (struct gd__merge_row *)(void *)(b->bytes + b->used);
}

/* Copies a value. Bytes are put at *to, after the row. Their address is set when the row is used, because the buffer may
 * move. */
static void copy_value(sqlite3_value *v, int type, struct gd__merge_value *out, char **to)
{
    out->type = type;
    switch (type) {
    case SQLITE_INTEGER:
        out->integer = sqlite3_value_int64(v);
        break;
    case SQLITE_FLOAT:
        out->real = sqlite3_value_double(v);
        break;
    case SQLITE_TEXT:
    case SQLITE_BLOB:
        out->size = sqlite3_value_bytes(v);
        if (out->size > 0)
            memcpy(*to, sqlite3_value_blob(v), (size_t)out->size);
        *to += out->size;
        break;
    default:
        break;
    }
}

static bool copy_row(const struct gd__merge_input *in, struct gd__merge_buffer *b, sqlite3_value **v)
{
    int types[GD__MERGE_VALUES];
    size_t size = sizeof(struct gd__merge_row);
    for (int i = 0; i < GD__MERGE_VALUES; i++) {
        types[i] = sqlite3_value_type(v[i]);
        if (types[i] == SQLITE_TEXT || types[i] == SQLITE_BLOB)
            size += (size_t)sqlite3_value_bytes(v[i]);
    }
    size = (size + 15) / 16 * 16;
    struct gd__merge_row *row = room_for(b, size);
    const char *state = (const char *)sqlite3_value_text(v[A_STATE]);
    if (!row)
        return false;
    row->size = size;
    row->id = count_of(v[A_ID]);
    row->number = count_of(v[A_NUMBER]);
    row->run = renumbered(in, count_of(v[A_RUN]));
    row->attempts = count_of(v[A_ATTEMPTS]);
    row->input_size = count_of(v[A_INPUT_SIZE]);
    row->done = state && strcmp(state, "done") == 0;
    memcpy(row->key, sqlite3_value_blob(v[A_KEY]), sizeof row->key);
    char *to = (char *)(row + 1);
    for (int i = 0; i < GD__MERGE_VALUES; i++)
        copy_value(v[i], types[i], &row->values[i], &to);
    b->used += size;
    return true;
}

/* --- the function --- */

static int take_row(struct gd__merge_reader *r, sqlite3_value **v)
{
    const int64_t id = sqlite3_value_int64(v[A_ID]);
    if (sqlite3_value_type(v[A_KEY]) != SQLITE_BLOB || sqlite3_value_bytes(v[A_KEY]) != GD__HASH_SIZE ||
        (!r->in->unordered && (id <= (int64_t)r->last_id || (uint64_t)id > r->in->max_id)))
        return gd__merge_source_damaged(&r->source);
    r->last_id = (uint64_t)id;
    r->n_taken++;
    return !gd__merge_keeps(r->in, (uint64_t)id) || copy_row(r->in, r->into, v) ? 0 : no_memory();
}

/* The value is true to end the step: the buffer is full, or there was an error. */
static void take(sqlite3_context *context, int n, sqlite3_value **v)
{
    struct gd__merge_reader *r = sqlite3_user_data(context);
    (void)n;
    r->error = take_row(r, v);
    sqlite3_result_int(context, r->error < 0 || r->into->used >= r->into->enough ||
                                    (r->n_taken >= TAKEN_MOST && r->into->used > 0));
}

/* --- reading --- */

static int step(struct gd__merge_reader *r)
{
    r->error = 0;
    const int rc = sqlite3_step(r->next);
    if (r->error == 0 && rc != SQLITE_ROW && rc != SQLITE_DONE)
        r->error = gd__merge_source_failed(&r->source);
    sqlite3_reset(r->next);
    return r->error < 0 ? r->error : rc;
}

static int read_by_id(struct gd__merge_reader *r)
{
    sqlite3_bind_int64(r->next, 1, (sqlite3_int64)r->last_id);
    sqlite3_bind_int64(r->next, 2, (sqlite3_int64)r->in->max_id);
    const int rc = step(r);
    r->ended = rc == SQLITE_DONE;
    return rc < 0 ? rc : 0;
}

/* If a row has disappeared, the journal was replaced by another file. */
static int read_by_list(struct gd__merge_reader *r)
{
    int rc = 0;
    while (rc >= 0 && r->next_place < r->in->n_order && r->into->used < r->into->enough) {
        const size_t before = r->into->used;
        sqlite3_bind_int64(r->next, 1, (sqlite3_int64)r->in->order[r->next_place++].id);
        rc = step(r);
        if (rc >= 0 && r->into->used == before)
            rc = gd__merge_source_damaged(&r->source);
    }
    r->ended = r->next_place == r->in->n_order;
    return rc < 0 ? rc : 0;
}

static int open_source(struct gd__merge_reader *r)
{
    static const char by_id[] = "SELECT 1 FROM task WHERE id > ?1 AND id <= ?2 AND " TAKE "(" COLUMNS ") ORDER BY id";
    static const char by_list[] = "SELECT 1 FROM task WHERE id = ?1 AND " TAKE "(" COLUMNS ")";
    if (r->source.db)
        return 0;
    int rc = gd__merge_source_open(&r->source, r->in->path);
    if (rc == 0 && !r->in->keep && r->in->max_id == 0)
        rc = gd__merge_source_max_id(&r->source, &r->in->max_id);
    if (rc < 0)
        return rc;
    if (sqlite3_create_function(r->source.db, TAKE, ARGUMENTS, SQLITE_UTF8, r, take, NULL, NULL) != SQLITE_OK ||
        gd__db_prepare(r->source.db, r->in->unordered ? by_list : by_id, &r->next) != SQLITE_OK)
        return gd__merge_source_failed(&r->source);
    return 0;
}

void gd__merge_reader_close(struct gd__merge_reader *r)
{
    sqlite3_finalize(r->next);
    r->next = NULL;
    gd__merge_source_close(&r->source);
}

/* The rows that one transaction reads: see read/settled.h. */
struct part {
    struct gd__merge_reader *r;
    uint64_t last_id; /* before it */
    size_t next_place;
};

static int read_part(void *user)
{
    struct gd__merge_reader *r = ((struct part *)user)->r;
    gd__merge_source_begin(&r->source);
    return (r->in->unordered ? read_by_list : read_by_id)(r);
}

static void forget_part(void *user)
{
    const struct part *p = user;
    p->r->into->used = 0;
    p->r->n_taken = 0;
    p->r->ended = false;
    p->r->last_id = p->last_id;
    p->r->next_place = p->next_place;
}

int gd__merge_read(struct gd__merge_reader *r, struct gd__merge_buffer *into)
{
    int rc = 0;
    into->used = 0;
    r->into = into;
    while (rc == 0 && into->used == 0 && !r->ended) {
        r->n_taken = 0;
        rc = open_source(r);
        if (rc < 0)
            break;
        struct part p = { r, r->last_id, r->next_place };
        rc = gd__settled_read(r->source.db, r->source.path, read_part, forget_part, &p);
    }
    if (!r->stay_open || r->ended || rc < 0)
        gd__merge_reader_close(r);
    return rc;
}

/* --- the ids of an unordered journal by number --- */

static int by_number(const void *pa, const void *pb)
{
    const struct gd__merge_place *a = pa, *b = pb;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static int add_place(struct gd__merge_input *in, size_t *room, uint64_t number, uint64_t id)
{
    if (in->n_order == *room) {
        const size_t larger_room = *room ? 2 * *room : 1024;
        struct gd__merge_place *larger = gd__realloc(in->order, larger_room * sizeof *larger);
        if (!larger)
            return no_memory();
        *room = larger_room;
        in->order = larger;
    }
    in->order[in->n_order++] = (struct gd__merge_place){ number, id };
    return 0;
}

struct order_part {
    struct gd__merge_input *in;
    struct gd__merge_source *source;
};

static int read_order(void *user)
{
    static const char sql[] = "SELECT id, number FROM task WHERE id > 0 AND id <= ?1 ORDER BY id";
    struct gd__merge_input *in = ((struct order_part *)user)->in;
    struct gd__merge_source *source = ((struct order_part *)user)->source;
    sqlite3_stmt *s = NULL;
    size_t room = 0;
    uint64_t last = 0;
    int code = 0;
    gd__merge_source_begin(source);
    int rc = gd__db_prepare(source->db, sql, &s);
    if (rc == SQLITE_OK)
        sqlite3_bind_int64(s, 1, (sqlite3_int64)in->max_id);
    while (rc == SQLITE_OK && code == 0 && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        const uint64_t id = (uint64_t)sqlite3_column_int64(s, 0);
        if (id <= last || id > in->max_id)
            code = gd__merge_source_damaged(source);
        else if (gd__merge_keeps(in, id))
            code = add_place(in, &room, gd__db_count(s, 1), id);
        last = id;
        rc = SQLITE_OK;
    }
    if (code == 0 && rc != SQLITE_DONE)
        code = gd__merge_source_failed(source);
    sqlite3_finalize(s);
    return code;
}

static void forget_order(void *user)
{
    struct gd__merge_input *in = ((struct order_part *)user)->in;
    gd__free(in->order);
    in->order = NULL;
    in->n_order = 0;
}

int gd__merge_order(struct gd__merge_input *in)
{
    struct gd__merge_source source;
    struct order_part p = { in, &source };
    int rc = gd__merge_source_open(&source, in->path);
    if (rc == 0)
        rc = gd__settled_read(source.db, source.path, read_order, forget_order, &p);
    gd__merge_source_close(&source);
    if (rc == 0 && in->n_order > 0)
        qsort(in->order, in->n_order, sizeof *in->order, by_number);
    return rc;
}
