/* Done tasks of other journals: see done.h.
 *
 * The table has open addressing. A task is known by a hash of its key and its version, with a secret of this table: 128
 * bits, so two different tasks do not meet. The secret keeps a malicious journal from choosing keys that all get the same
 * place. Equal tasks share an entry, which counts them. An entry whose count has come to 0 stays, so that the entries
 * behind it are still found.
 */
#include "journal/lookup/done.h"

#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/error.h"
#include "journal/db.h"
#include "journal/lookup/rows.h"

enum { FIRST_ROOM = 1024, READ_ROWS = 4096 };

struct gd__done {
    unsigned char (*hashes)[GD__HASH_SIZE];
    uint32_t *counts; /* 0: a free place; otherwise one more than the records that are left */
    uint64_t room, n; /* room: a power of two; at most three quarters of it are filled */
    unsigned char secret[GD__HASH_SIZE];
};

static int no_memory(void)
{
    return gd__error(GD_E_NO_MEMORY, "no memory for the tasks that are done in other journals");
}

static void hash_task(const struct gd__done *d, const unsigned char key[GD__HASH_SIZE], uint64_t version,
                      unsigned char out[GD__HASH_SIZE])
{
    unsigned char task[GD__HASH_SIZE + sizeof version];
    memcpy(task, key, GD__HASH_SIZE);
    memcpy(task + GD__HASH_SIZE, &version, sizeof version);
    gd__siphash128(d->secret, task, sizeof task, out);
}

/* The place of that hash, or the free place where it belongs. */
static uint64_t find_place(const struct gd__done *d, const unsigned char hash[GD__HASH_SIZE])
{
    uint64_t at;
    memcpy(&at, hash, sizeof at);
    for (at &= d->room - 1; d->counts[at] > 0; at = (at + 1) & (d->room - 1))
        if (memcmp(d->hashes[at], hash, GD__HASH_SIZE) == 0)
            break;
    return at;
}

static void free_table(struct gd__done *d)
{
    gd__free(d->hashes);
    gd__free(d->counts);
}

static bool make_table(struct gd__done *d, uint64_t room)
{
    d->room = room;
    d->hashes = gd__calloc(room, sizeof *d->hashes);
    d->counts = gd__calloc(room, sizeof *d->counts);
    if (d->hashes && d->counts)
        return true;
    free_table(d);
    return false;
}

static void put(struct gd__done *d, const unsigned char hash[GD__HASH_SIZE], uint32_t count)
{
    const uint64_t at = find_place(d, hash);
    if (d->counts[at] == 0) {
        memcpy(d->hashes[at], hash, GD__HASH_SIZE);
        d->counts[at] = 1;
        d->n++;
    }
    d->counts[at] = count < UINT32_MAX - d->counts[at] ? d->counts[at] + count : UINT32_MAX;
}

static bool grow(struct gd__done *d)
{
    struct gd__done old = *d;
    if (!make_table(d, 2 * old.room)) {
        *d = old;
        return false;
    }
    d->n = 0;
    for (uint64_t i = 0; i < old.room; i++)
        if (old.counts[i] > 0)
            put(d, old.hashes[i], old.counts[i] - 1);
    free_table(&old);
    return true;
}

/* --- reading a journal --- */

/* Adds the next rows after *last, and moves *last. Returns 1 if there may be more, 0 if not, or a negative code. Each call
 * is a transaction of its own, so that the run that writes to that journal does not have to wait long. */
static int add_some(struct gd__done *d, sqlite3 *db, sqlite3_stmt *s, const char *path, uint64_t *last)
{
    struct gd__row row;
    unsigned char hash[GD__HASH_SIZE];
    unsigned n = 0;
    int rc = 0, step = SQLITE_DONE;
    sqlite3_bind_int64(s, 1, (sqlite3_int64)*last);
    sqlite3_bind_int64(s, 2, READ_ROWS);
    for (; rc == 0 && (step = sqlite3_step(s)) == SQLITE_ROW; n++) {
        if (!gd__row_read(s, &row) || row.id <= *last) {
            rc = gd__db_code(SQLITE_CORRUPT, "read", path);
            break;
        }
        *last = row.id;
        if (row.state != GD__FINAL_DONE)
            continue;
        if (4 * (d->n + 1) > 3 * d->room && !grow(d)) {
            rc = no_memory();
            break;
        }
        hash_task(d, row.key, row.version, hash);
        put(d, hash, 1);
    }
    if (rc == 0 && step != SQLITE_DONE)
        rc = gd__db_error(db, "read", path);
    sqlite3_reset(s);
    return rc < 0 ? rc : n == READ_ROWS;
}

int gd__done_add(struct gd__done *d, const char *path)
{
    sqlite3 *db;
    sqlite3_stmt *s = NULL;
    uint64_t last = 0;
    int rc = gd__db_open_read(&db, path);
    if (rc < 0)
        return rc;
    if (gd__db_prepare(db, "SELECT id, key, version, state, attempts FROM task WHERE id > ?1 ORDER BY id LIMIT ?2",
                       &s) != SQLITE_OK)
        rc = gd__db_error(db, "read", path);
    else
        do
            rc = add_some(d, db, s, path, &last);
        while (rc > 0);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return rc;
}

bool gd__done_take(struct gd__done *d, const unsigned char key[GD__HASH_SIZE], uint64_t version)
{
    unsigned char hash[GD__HASH_SIZE];
    hash_task(d, key, version, hash);
    const uint64_t at = find_place(d, hash);
    if (d->counts[at] <= 1)
        return false;
    d->counts[at]--;
    return true;
}

/* --- opening and closing --- */

int gd__done_open(struct gd__done **out)
{
    struct gd__done *d = gd__calloc(1, sizeof *d);
    *out = NULL;
    if (!d || !make_table(d, FIRST_ROOM)) {
        gd__free(d);
        return no_memory();
    }
    (void)!getrandom(d->secret, sizeof d->secret, GRND_NONBLOCK); /* zeros if called too early after boot */
    *out = d;
    return 0;
}

void gd__done_close(struct gd__done **dp)
{
    struct gd__done *d = *dp;
    *dp = NULL;
    if (!d)
        return;
    free_table(d);
    gd__free(d);
}
