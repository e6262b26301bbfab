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
#include "journal/read/settled.h"

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

/* The rows of one transaction. It is short, so that the run that writes to that journal does not have to wait long. */
struct part {
    sqlite3 *db;
    sqlite3_stmt *next;
    const char *path;
    uint64_t from, last; /* rows after `from`, up to `last` */
    unsigned n;
    struct gd__row rows[READ_ROWS];
};

static int read_part(void *user)
{
    struct part *p = user;
    int step = SQLITE_DONE;
    sqlite3_bind_int64(p->next, 1, (sqlite3_int64)p->from);
    sqlite3_bind_int64(p->next, 2, READ_ROWS);
    while (p->n < READ_ROWS && (step = sqlite3_step(p->next)) == SQLITE_ROW) {
        struct gd__row *row = &p->rows[p->n];
        if (!gd__row_read(p->next, row) || row->id <= p->last) {
            sqlite3_reset(p->next);
            return gd__db_code(SQLITE_CORRUPT, "read", p->path);
        }
        p->last = row->id;
        p->n++;
    }
    const int rc = p->n == READ_ROWS || step == SQLITE_DONE ? 0 : gd__db_error(p->db, "read", p->path);
    sqlite3_reset(p->next);
    return rc;
}

static void forget_part(void *user)
{
    struct part *p = user;
    p->n = 0;
    p->last = p->from;
}

static int add_part(struct gd__done *d, const struct part *p)
{
    unsigned char hash[GD__HASH_SIZE];
    for (unsigned i = 0; i < p->n; i++) {
        if (p->rows[i].state != GD__FINAL_DONE)
            continue;
        if (4 * (d->n + 1) > 3 * d->room && !grow(d))
            return no_memory();
        hash_task(d, p->rows[i].key, p->rows[i].version, hash);
        put(d, hash, 1);
    }
    return 0;
}

static int add_all(struct gd__done *d, struct part *p)
{
    int rc;
    do {
        p->from = p->last;
        p->n = 0;
        rc = gd__settled_read(p->db, p->path, read_part, forget_part, p);
        if (rc == 0)
            rc = add_part(d, p);
    } while (rc == 0 && p->n == READ_ROWS);
    return rc;
}

int gd__done_add(struct gd__done *d, const char *path)
{
    struct part *p = gd__calloc(1, sizeof *p);
    if (!p)
        return no_memory();
    p->path = path;
    int rc = gd__db_open_read(&p->db, path);
    if (rc == 0 && gd__db_prepare(p->db,
                                  "SELECT id, key, version, state, attempts FROM task WHERE id > ?1 ORDER BY id"
                                  " LIMIT ?2",
                                  &p->next) != SQLITE_OK)
        rc = gd__db_error(p->db, "read", path);
    if (rc == 0)
        rc = add_all(d, p);
    sqlite3_finalize(p->next);
    sqlite3_close(p->db);
    gd__free(p);
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
