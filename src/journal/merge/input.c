/* Opens a journal that is merged: see merge.h. */
#include "journal/lookup/rows.h"
#include "journal/merge/merge.h"
#include "journal/read/settled.h"

enum { STEPS_A_BYTE = 64, STEPS_A_LOOK = 1 << 16 };
#define BYTES_LEAST (INT64_C(1) << 20) /* small files count as this large */

static int count_steps(void *user)
{
    struct gd__merge_source *s = user;
    return --s->looks_left < 0; /* true: SQLite ends the query */
}

/* The page cache is small, because rows are read in order, and hundreds of journals may be open. */
int gd__merge_source_open(struct gd__merge_source *s, const char *path)
{
    *s = (struct gd__merge_source){ .path = path, .looks_left = INT64_MAX };
    const int rc = gd__db_open_read(&s->db, path);
    if (rc < 0)
        return rc;
    sqlite3_progress_handler(s->db, STEPS_A_LOOK, count_steps, s);
    if (gd__db_exec(s->db, "PRAGMA cache_size = -128") != SQLITE_OK)
        return gd__merge_source_failed(s);
    return 0;
}

void gd__merge_source_close(struct gd__merge_source *s)
{
    sqlite3_close(s->db);
    s->db = NULL;
}

void gd__merge_source_begin(struct gd__merge_source *s)
{
    int64_t pages = 0, page_size = 0;
    s->looks_left = INT64_MAX;
    (void)gd__db_integer(s->db, "PRAGMA page_count", &pages);
    (void)gd__db_integer(s->db, "PRAGMA page_size", &page_size);
    s->looks_left = (BYTES_LEAST + pages * page_size) / STEPS_A_LOOK * STEPS_A_BYTE;
}

int gd__merge_source_failed(struct gd__merge_source *s)
{
    if (sqlite3_errcode(s->db) == SQLITE_INTERRUPT)
        return gd__merge_source_damaged(s);
    return gd__db_error(s->db, "read", s->path);
}

int gd__merge_source_damaged(struct gd__merge_source *s)
{
    return gd__db_code(SQLITE_CORRUPT, "read", s->path);
}

struct max_id {
    struct gd__merge_source *s;
    int64_t id;
};

static int read_max_id(void *user)
{
    struct max_id *m = user;
    gd__merge_source_begin(m->s);
    const int rc = gd__db_integer(m->s->db, "SELECT max(id) FROM task", &m->id);
    return rc == SQLITE_OK ? 0 : gd__merge_source_failed(m->s);
}

static void forget_max_id(void *user)
{
    ((struct max_id *)user)->id = 0;
}

int gd__merge_source_max_id(struct gd__merge_source *s, uint64_t *out)
{
    struct max_id m = { .s = s };
    const int rc = gd__settled_read(s->db, s->path, read_max_id, forget_max_id, &m);
    if (rc < 0)
        return rc;
    if (m.id < 0 || (uint64_t)m.id > GD__ROW_MOST)
        return gd__merge_source_damaged(s);
    *out = (uint64_t)m.id;
    return 0;
}
