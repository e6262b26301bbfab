/* Which records are part of the result: see merge.h.
 *
 * Records with the same key are records of the same task. If a journal has a key several times, these are several
 * tasks, because its list had that input several times. The k-th of them, by number, is the same task as the k-th in the
 * other journals.
 *
 * Of the records of a task, one is chosen:
 *   1. If their versions differ, the input has changed between the runs, and a resumed run would have replaced the older
 *      record. So only those with the version of the newest record are considered.
 *   2. A record that is done is better than a failed one.
 *   3. The one that ended first is chosen. Of several that ended at the same time, that of the first journal.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash/key.h"
#include "base/thread.h"
#include "journal/merge/merge.h"
#include "journal/read/settled.h"

#ifdef GD_TEST_HOOKS
enum { GATHERED = 7, THREADS = 3 };
#else
enum { GATHERED = 4096, THREADS = 3 }; /* rows read in one transaction; threads besides the caller's */
#endif

/* --- choosing --- */

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_journal_and_number(const void *pa, const void *pb)
{
    const struct gd__merge_entry *a = *(struct gd__merge_entry *const *)pa, *b = *(struct gd__merge_entry *const *)pb;
    if (a->journal != b->journal)
        return compare(a->journal, b->journal);
    return a->number != b->number ? compare(a->number, b->number) : compare(a->id, b->id);
}

/* A task that was never started has no time. It counts as later than all others. */
static bool is_earlier(const struct gd__merge_entry *a, const struct gd__merge_entry *b)
{
    if (a->ended > 0 && b->ended > 0 && a->ended != b->ended)
        return a->ended < b->ended;
    if ((a->ended > 0) != (b->ended > 0))
        return a->ended > 0;
    return a->journal < b->journal;
}

static bool is_better(const struct gd__merge_entry *a, const struct gd__merge_entry *b)
{
    return a->state != b->state ? a->state == GD__FINAL_DONE : is_earlier(a, b);
}

static void keep(struct gd__merge *m, const struct gd__merge_entry *e)
{
    m->inputs[e->journal].keep[e->id / 8] |= (unsigned char)(1u << (e->id % 8));
    m->counts.done += e->state == GD__FINAL_DONE;
    m->counts.failed += e->state != GD__FINAL_DONE;
}

static int by_number_and_journal(const void *pa, const void *pb)
{
    const struct gd__merge_entry *a = *(struct gd__merge_entry *const *)pa, *b = *(struct gd__merge_entry *const *)pb;
    return a->number != b->number ? compare(a->number, b->number) : compare(a->journal, b->journal);
}

/* The records of one task. */
static const struct gd__merge_entry *best_of(struct gd__merge_entry **entries, size_t n)
{
    const struct gd__merge_entry *newest = entries[0], *best = NULL;
    for (size_t i = 1; i < n; i++)
        if (entries[i]->ended > newest->ended)
            newest = entries[i];
    for (size_t i = 0; i < n; i++)
        if (entries[i]->version == newest->version && (!best || is_better(entries[i], best)))
            best = entries[i];
    return best;
}

/* Replaces the number of each entry by its place among the entries of its journal. */
static void number_within_journals(struct gd__merge_entry **entries, size_t n)
{
    uint64_t k = 0;
    qsort(entries, n, sizeof(struct gd__merge_entry *), by_journal_and_number);
    for (size_t i = 0; i < n; i++) {
        k = i > 0 && entries[i]->journal == entries[i - 1]->journal ? k + 1 : 0;
        entries[i]->number = k;
    }
}

static int choose_of_key(void *user, struct gd__merge_entry **entries, size_t n)
{
    struct gd__merge *m = user;
    if (n == 1) {
        keep(m, entries[0]);
        return 0;
    }
    number_within_journals(entries, n);
    qsort(entries, n, sizeof(struct gd__merge_entry *), by_number_and_journal);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && entries[to]->number == entries[from]->number;)
            to++;
        keep(m, best_of(entries + from, to - from));
        m->counts.overlaps += to - from - 1;
    }
    return 0;
}

static int check_key(void *user, struct gd__merge_entry **entries, size_t n)
{
    (void)user;
    for (size_t i = 1; i < n; i++)
        if (entries[i]->journal != entries[0]->journal)
            return GD__MERGE_NEEDS_CHOICE;
    return 0;
}

int gd__merge_check_seen(struct gd__merge *m)
{
    return gd__merge_keys_each(m->seen, check_key, NULL);
}

/* --- reading --- */

/* As in read.c, a function of SQLite gets the columns of each row, because that is much faster than a step for each row.
 */
#define TAKE "gd__take"
enum { A_ID, A_KEY, A_VERSION, A_STATE, A_NUMBER, A_STARTED, A_SECONDS, ARGUMENTS };

struct scan {
    struct gd__merge_input *in;
    struct gd__merge_source source;
    struct gd__merge_keys *keys;
    pthread_mutex_t *lock; /* of the keys */
    uint32_t journal;
    uint64_t last_id, last_number;
    struct gd__merge_entry *entries; /* GATHERED of them */
    size_t n;
    int error;
};

static uint64_t version_of(sqlite3_value *v)
{
    unsigned char hash[GD__HASH_SIZE];
    uint64_t version;
    if (sqlite3_value_type(v) == SQLITE_NULL)
        return 0;
    /* Get the size first, because sqlite3_value_bytes() may move the value. */
    const size_t size = (size_t)sqlite3_value_bytes(v);
    gd__key_hash(sqlite3_value_blob(v), size, hash);
    memcpy(&version, hash, sizeof version);
    return version | 1;
}

static double seconds_of(sqlite3_value *v)
{
    const double seconds = sqlite3_value_double(v);
    return !(seconds > 0) ? 0 : seconds < GD__DB_SECONDS_MOST ? seconds : GD__DB_SECONDS_MOST;
}

/* Returns false if the row is not valid. Ids must ascend. */
static bool take_row(struct scan *c, sqlite3_value **v)
{
    const char *state = (const char *)sqlite3_value_text(v[A_STATE]);
    const int64_t id = sqlite3_value_int64(v[A_ID]), number = sqlite3_value_int64(v[A_NUMBER]);
    if (id <= (int64_t)c->last_id || (uint64_t)id > c->in->max_id || !state ||
        sqlite3_value_type(v[A_KEY]) != SQLITE_BLOB || sqlite3_value_bytes(v[A_KEY]) != GD__HASH_SIZE)
        return false;
    const double started = seconds_of(v[A_STARTED]);
    struct gd__merge_entry *e = &c->entries[c->n++];
    *e = (struct gd__merge_entry){
        .id = (uint64_t)id,
        .version = version_of(v[A_VERSION]),
        .number = number > 0 ? (uint64_t)number : 0,
        .ended = started > 0 ? started + seconds_of(v[A_SECONDS]) : 0,
        .journal = c->journal,
        .state = strcmp(state, "done") == 0 ? GD__FINAL_DONE : GD__FINAL_FAILED,
    };
    memcpy(e->key, sqlite3_value_blob(v[A_KEY]), GD__HASH_SIZE);
    c->in->unordered = c->in->unordered || e->number < c->last_number;
    c->last_number = e->number;
    c->last_id = e->id;
    return true;
}

/* The value is true to end the step: enough rows were gathered, or there was an error. */
static void take(sqlite3_context *context, int n, sqlite3_value **v)
{
    struct scan *c = sqlite3_user_data(context);
    (void)n;
    if (!take_row(c, v))
        c->error = gd__merge_source_damaged(&c->source);
    sqlite3_result_int(context, c->error < 0 || c->n == GATHERED);
}

/* The rows that one transaction reads: see read/settled.h. */
struct part {
    struct scan *c;
    sqlite3_stmt *s;
    uint64_t last_id, last_number; /* before it */
    bool unordered;
};

/* Returns 1 if there may be more rows. */
static int scan_part(void *user)
{
    struct scan *c = ((struct part *)user)->c;
    sqlite3_stmt *s = ((struct part *)user)->s;
    gd__merge_source_begin(&c->source);
    sqlite3_bind_int64(s, 1, (sqlite3_int64)c->last_id);
    const int rc = sqlite3_step(s);
    if (c->error == 0 && rc != SQLITE_ROW && rc != SQLITE_DONE)
        c->error = gd__merge_source_failed(&c->source);
    sqlite3_reset(s);
    return c->error < 0 ? c->error : rc == SQLITE_ROW;
}

static void forget_part(void *user)
{
    const struct part *p = user;
    p->c->n = 0;
    p->c->error = 0;
    p->c->last_id = p->last_id;
    p->c->last_number = p->last_number;
    p->c->in->unordered = p->unordered;
}

/* Reads some rows in one transaction. Returns 1 if there may be more. */
static int scan_some(struct scan *c, sqlite3_stmt *s)
{
    struct part p = { c, s, c->last_id, c->last_number, c->in->unordered };
    c->n = 0;
    const int rc = gd__settled_read(c->source.db, c->source.path, scan_part, forget_part, &p);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(c->lock);
    for (size_t i = 0; c->error == 0 && i < c->n; i++)
        c->error = gd__merge_keys_add(c->keys, &c->entries[i]);
    pthread_mutex_unlock(c->lock);
    return c->error < 0 ? c->error : rc;
}

static int scan_rows(struct scan *c)
{
    static const char sql[] = "SELECT 1 FROM task WHERE id > ?1 AND id <= ?2 AND " TAKE
                              "(id, key, version, state, number, started, seconds) ORDER BY id";
    sqlite3_stmt *s = NULL;
    if (sqlite3_create_function(c->source.db, TAKE, ARGUMENTS, SQLITE_UTF8, c, take, NULL, NULL) != SQLITE_OK ||
        gd__db_prepare(c->source.db, sql, &s) != SQLITE_OK)
        return gd__merge_source_failed(&c->source);
    sqlite3_bind_int64(s, 2, (sqlite3_int64)c->in->max_id);
    int rc;
    do
        rc = scan_some(c, s);
    while (rc == 1);
    sqlite3_finalize(s);
    return rc;
}

/* Maps memory for the bits. Only the pages that are written to take up memory. */
static int open_bits(struct gd__merge_input *in)
{
    in->keep_size = in->max_id / 8 + 1;
    void *at = mmap(NULL, in->keep_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return gd__error_errno("no memory to merge %s", in->path);
    in->keep = at;
    return 0;
}

static int scan_journal(struct scan *c)
{
    int rc = gd__merge_source_open(&c->source, c->in->path);
    if (rc == 0)
        rc = gd__merge_source_max_id(&c->source, &c->in->max_id);
    if (rc == 0)
        rc = open_bits(c->in);
    if (rc == 0)
        rc = scan_rows(c);
    gd__merge_source_close(&c->source);
    return rc;
}

/* --- all journals, by several threads --- */

struct scans {
    struct gd__merge *m;
    struct gd__merge_keys *keys;
    pthread_mutex_t lock; /* of the keys, and of everything below */
    size_t next;          /* the next journal to scan */
    int error;            /* the first one */
    char message[1024];
};

/* Returns the next journal, or SIZE_MAX if there are no more or one could not be read. */
static size_t next_journal(struct scans *all)
{
    pthread_mutex_lock(&all->lock);
    const size_t i = all->error == 0 && all->next < all->m->n ? all->next++ : SIZE_MAX;
    pthread_mutex_unlock(&all->lock);
    return i;
}

static void stop_scans(struct scans *all, int error, size_t journal)
{
    pthread_mutex_lock(&all->lock);
    if (all->error == 0) {
        all->error = error;
        all->m->at = journal;
        snprintf(all->message, sizeof all->message, "%s", gd_error_text());
    }
    pthread_mutex_unlock(&all->lock);
}

static void *scan_journals(void *arg)
{
    struct scans *all = arg;
    struct gd__merge_entry *entries = gd__calloc(GATHERED, sizeof *entries);
    if (!entries)
        stop_scans(all, gd__error(GD_E_NO_MEMORY, "no memory to merge journals"), SIZE_MAX);
    for (size_t i; entries && (i = next_journal(all)) != SIZE_MAX;) {
        struct scan c = {
            .in = &all->m->inputs[i], .keys = all->keys, .lock = &all->lock, .journal = (uint32_t)i, .entries = entries
        };
        const int rc = scan_journal(&c);
        if (rc < 0)
            stop_scans(all, rc, i);
    }
    gd__free(entries);
    return NULL;
}

/* This thread scans too, so it is no error if no other one can be started. */
static int scan_all(struct scans *all)
{
    pthread_t threads[THREADS];
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    size_t n = 0;
    while (n < THREADS && n + 1 < (size_t)(cpus > 0 ? cpus : 1) && n + 1 < all->m->n &&
           gd__thread_start(&threads[n], "gd-merge", scan_journals, all) == 0)
        n++;
    (void)scan_journals(all);
    while (n > 0)
        pthread_join(threads[--n], NULL);
    return all->error < 0 ? gd__error(all->error, "%s", all->message) : 0;
}

int gd__merge_choose(struct gd__merge *m)
{
    struct scans all = { .m = m, .lock = PTHREAD_MUTEX_INITIALIZER };
    int rc = gd__merge_keys_open(&all.keys, m->directory);
    if (rc == 0)
        rc = scan_all(&all);
    if (rc == 0)
        rc = gd__merge_keys_each(all.keys, choose_of_key, m);
    gd__merge_keys_close(&all.keys);
    pthread_mutex_destroy(&all.lock);
    return rc;
}
