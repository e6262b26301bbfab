/* Finds the records of tasks: see resume.h. A record is searched for in two places:
 *
 *   the window   contains the next records in the order of their ids. It is enough if the tasks come in nearly the same
 *                order as before.
 *   the index    contains all records. It is built by one pass over the journal when it is first needed. It is not
 *                needed if every record outside the window has been matched: the task is then new.
 *
 * Both read some thousand records at a time, and end the transaction after each part. If the file has a rollback journal,
 * the writer cannot commit while records are read, and records cannot be read while it commits (mode.h). The lookup waits
 * for the writer as long as it takes.
 *
 * A new task gets the id after the last matched one, if no record has that id: it is probably the task that was running
 * when the previous run was killed. So ids stay in the order of the tasks, even if a run is resumed many times.
 */
#include "journal/lookup/resume.h"

#include <libgen.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "journal/db.h"
#include "journal/journal.h"
#include "journal/lookup/index.h"
#include "journal/lookup/window.h"

enum { INDEX_ROWS = 4096, BUSY_WAIT_MS = 2 };

struct gd__resume {
    sqlite3 *db;
    sqlite3_stmt *next;
    char *path;
    const atomic_bool *interrupted;
    uint64_t max_id;     /* largest id of the records that existed at the start */
    uint64_t read_to;    /* records with ids up to this were put in the window */
    uint64_t last_id;    /* the last id that was matched, or given to a new task after a matched one */
    uint64_t next_id;    /* for new tasks, if the id after last_id is not free */
    unsigned char *used; /* a bit per id up to max_id: set if matched, or given to a new task */
    size_t used_size;
    struct gd__window *window;
    struct gd__index *index;
};

static bool is_used(const struct gd__resume *r, uint64_t id)
{
    return r->used[id / 8] >> (id % 8) & 1;
}

static void set_used(struct gd__resume *r, uint64_t id)
{
    r->used[id / 8] |= (unsigned char)(1u << (id % 8));
}

static int damaged(const struct gd__resume *r)
{
    return gd__db_code(SQLITE_CORRUPT, "resume from", r->path);
}

static int shutting_down(void)
{
    return gd__error(GD_E_SHUTDOWN, "the run is shutting down");
}

static bool is_interrupted(const struct gd__resume *r)
{
    return atomic_load_explicit(r->interrupted, memory_order_relaxed);
}

static int read_failed(const struct gd__resume *r)
{
    if (sqlite3_errcode(r->db) == SQLITE_BUSY && is_interrupted(r))
        return shutting_down();
    return gd__db_error(r->db, "read", r->path);
}

/* Called by SQLite while the file is locked. Returns 0 to give up. SQLite cannot wait for a lock, so it tries again after
 * a pause. */
static int wait_for_writer(void *user, int tries)
{
    const struct timespec pause = { 0, BUSY_WAIT_MS * 1000000L };
    (void)tries;
    if (is_interrupted(user))
        return 0;
    nanosleep(&pause, NULL);
    return 1;
}

/* --- the window --- */

static bool at_end(const struct gd__resume *r)
{
    return r->read_to >= r->max_id;
}

static int fill_window(struct gd__resume *r)
{
    struct gd__row row;
    const uint64_t room = gd__window_room(r->window);
    uint64_t n = 0;
    int rc;
    sqlite3_bind_int64(r->next, 1, (sqlite3_int64)r->read_to);
    sqlite3_bind_int64(r->next, 2, (sqlite3_int64)r->max_id);
    sqlite3_bind_int64(r->next, 3, (sqlite3_int64)room);
    while ((rc = sqlite3_step(r->next)) == SQLITE_ROW) {
        if (!gd__row_read(r->next, &row) || row.id <= r->read_to || row.id > r->max_id) {
            sqlite3_reset(r->next);
            return damaged(r);
        }
        r->read_to = row.id;
        n++;
        if (!is_used(r, row.id)) /* otherwise this run wrote the row */
            gd__window_add(r->window, &row);
    }
    const int code = rc == SQLITE_DONE ? 0 : read_failed(r);
    sqlite3_reset(r->next); /* ends the read transaction */
    if (code == 0 && n < room)
        r->read_to = r->max_id;
    return code;
}

static bool wants_filling(const struct gd__resume *r)
{
    return !at_end(r) && gd__window_room(r->window) > GD__WINDOW_ROWS / 2;
}

/* Whether every record that has not been matched is in the window. */
static bool all_unmatched_in_window(const struct gd__resume *r)
{
    return at_end(r) && gd__window_passed(r->window) == 0;
}

/* Returns 1 if the row was found, 0 if it is not in the window, or a negative code. */
static int look_in_window(struct gd__resume *r, const unsigned char key[GD__HASH_SIZE], uint64_t version,
                          struct gd__row *out)
{
    if (wants_filling(r)) {
        const int rc = fill_window(r);
        if (rc < 0)
            return rc;
    }
    while (gd__window_take(r->window, key, version, out))
        if (!is_used(r, out->id)) /* otherwise the record was already found in the index */
            return 1;
    return 0;
}

/* --- the index --- */

/* Adds the next rows after *last, and moves *last. Sets it to max_id when there are no more. */
static int add_some_rows(struct gd__resume *r, uint64_t *last)
{
    struct gd__row row = { .id = 0 };
    unsigned n = 0;
    int rc = 0, step = SQLITE_DONE;
    sqlite3_bind_int64(r->next, 1, (sqlite3_int64)*last);
    sqlite3_bind_int64(r->next, 2, (sqlite3_int64)r->max_id);
    sqlite3_bind_int64(r->next, 3, INDEX_ROWS);
    for (; rc == 0 && (step = sqlite3_step(r->next)) == SQLITE_ROW; n++) {
        /* Ids must ascend. Otherwise there could be more rows than the index has room for. */
        if (!gd__row_read(r->next, &row) || row.id <= *last || row.id > r->max_id)
            rc = damaged(r);
        else if (!is_used(r, row.id))
            rc = gd__index_add(r->index, &row);
        *last = row.id;
    }
    if (rc == 0 && step != SQLITE_DONE)
        rc = read_failed(r);
    sqlite3_reset(r->next); /* ends the read transaction */
    if (n < INDEX_ROWS)
        *last = r->max_id;
    return rc;
}

static int add_rows(struct gd__resume *r)
{
    int rc = 0;
    for (uint64_t last = 0; rc == 0 && last < r->max_id;)
        rc = is_interrupted(r) ? shutting_down() : add_some_rows(r, &last);
    return rc;
}

static int build_index(struct gd__resume *r)
{
    char *copy = gd__strdup(r->path);
    if (!copy)
        return gd__error(GD_E_NO_MEMORY, "no memory to resume from the journal");
    int rc = gd__index_open(&r->index, dirname(copy), r->max_id, r->used);
    gd__free(copy);
    if (rc < 0)
        return rc;
    rc = add_rows(r);
    if (rc == 0)
        rc = gd__index_seal(r->index, r->interrupted);
    if (rc < 0)
        gd__index_close(&r->index);
    return rc;
}

static int look_in_index(struct gd__resume *r, const unsigned char key[GD__HASH_SIZE], uint64_t version,
                         struct gd__row *out)
{
    if (all_unmatched_in_window(r))
        return 0;
    if (!r->index) {
        const int rc = build_index(r);
        if (rc < 0)
            return rc;
    }
    return gd__index_take(r->index, key, version, out);
}

/* --- ids --- */

static uint64_t new_id(struct gd__resume *r)
{
    const uint64_t id = r->last_id + 1;
    const bool known = id >= gd__window_from(r->window) && id <= r->read_to;
    if (id > r->max_id || !known || is_used(r, id) || gd__window_has(r->window, id))
        return r->next_id++;
    set_used(r, id);
    r->last_id = id;
    return id;
}

int gd__resume_find(struct gd__resume *r, const unsigned char key[GD__HASH_SIZE], uint64_t version, struct gd__row *out)
{
    int rc = look_in_window(r, key, version, out);
    if (rc == 0)
        rc = look_in_index(r, key, version, out);
    if (rc == 1) {
        set_used(r, out->id);
        r->last_id = out->id;
    }
    if (rc == 0)
        *out = (struct gd__row){ .id = new_id(r) };
    return rc;
}

bool gd__resume_find_reads(const struct gd__resume *r, const unsigned char key[GD__HASH_SIZE])
{
    return wants_filling(r) || (!r->index && !all_unmatched_in_window(r) && !gd__window_holds(r->window, key));
}

/* --- opening and closing --- */

/* Maps memory for the bits. Only the pages that are written to take up memory. */
static int open_used(struct gd__resume *r)
{
    r->used_size = r->max_id / 8 + 1;
    void *at = mmap(NULL, r->used_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return gd__error_errno("no memory to resume from the journal");
    r->used = at;
    return 0;
}

static int open_parts(struct gd__resume *r, const char *path)
{
    int64_t max_id;
    int rc = gd__db_open_read(&r->db, path);
    if (rc < 0)
        return rc;
    if (gd__db_integer(r->db, "SELECT max(id) FROM task", &max_id) != SQLITE_OK ||
        gd__db_prepare(r->db,
                       "SELECT id, key, version, state, attempts FROM task WHERE id > ?1 AND id <= ?2 ORDER BY id "
                       "LIMIT ?3",
                       &r->next) != SQLITE_OK)
        return gd__db_error(r->db, "read", path);
    if (max_id < 0 || (uint64_t)max_id > GD__ROW_MOST)
        return damaged(r);
    r->max_id = (uint64_t)max_id;
    r->next_id = r->max_id + 1;
    sqlite3_busy_handler(r->db, wait_for_writer, r); /* from now on the run writes to the file */
    r->window = gd__window_new();
    return r->window ? open_used(r) : gd__error(GD_E_NO_MEMORY, "no memory to resume from the journal");
}

int gd__resume_open(struct gd__resume **out, const char *path, const atomic_bool *interrupted)
{
    struct gd__resume *r = gd__calloc(1, sizeof *r);
    if (!r)
        return gd__error(GD_E_NO_MEMORY, "no memory to resume from the journal");
    r->interrupted = interrupted;
    char full[PATH_MAX];
    r->path = gd__strdup(gd__db_full_path(path, full)); /* the index is created in its directory, maybe much later */
    const int rc = r->path ? open_parts(r, path) : gd__error(GD_E_NO_MEMORY, "no memory to resume from the journal");
    if (rc < 0)
        gd__resume_close(&r);
    *out = r;
    return rc;
}

void gd__resume_close(struct gd__resume **rp)
{
    struct gd__resume *r = *rp;
    *rp = NULL;
    if (!r)
        return;
    gd__index_close(&r->index);
    gd__free(r->window);
    if (r->used)
        munmap(r->used, r->used_size);
    sqlite3_finalize(r->next);
    sqlite3_close(r->db);
    gd__free(r->path);
    gd__free(r);
}
