/* The runs of all journals: see merge.h. They are numbered by the time when they started. A run keeps its machine and
 * its shard. One more run is added at the end, for the merge itself: its counts are those of the new journal.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "journal/identity.h"
#include "journal/internal.h"
#include "journal/merge/merge.h"
#include "journal/read/settled.h"

enum { HOST_MAX = 256, SHOWN = 200 };

/* The columns that are copied, in this order. A file may have NULL anywhere. */
static const char insert_sql[] =
    "INSERT INTO run(started, command, ended, outcome, pid, host, total, taken, skipped, done, failed, written, busy,"
    " all_done, all_failed, shard, number) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,"
    " ?16, ?17)";
static const char select_sql[] =
    "SELECT ifnull(started, 0), command, ended, outcome, ifnull(pid, 0), host, ifnull(total, 0), ifnull(taken, 0),"
    " ifnull(skipped, 0), ifnull(done, 0), ifnull(failed, 0), written, ifnull(busy, 0), ifnull(all_done, 0),"
    " ifnull(all_failed, 0), %s, number FROM run WHERE number > 0 ORDER BY number";
enum { C_STARTED, C_COMMAND, C_TOTAL = 6, C_SHARD = 15, COPIED = 16, C_NUMBER = 16 };

struct run {
    sqlite3_value *values[COPIED];
    double started;
    uint64_t number; /* in its journal */
    size_t journal;
};

struct runs {
    struct run *items;
    size_t n, room;
};

static int no_memory(void)
{
    return gd__error(GD_E_NO_MEMORY, "no memory to merge journals");
}

static void free_runs(struct runs *r)
{
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = 0; k < COPIED; k++)
            sqlite3_value_free(r->items[i].values[k]);
    gd__free(r->items);
}

/* --- reading --- */

static int add_run(struct runs *r, sqlite3_stmt *s, size_t journal)
{
    if (r->n == r->room) {
        const size_t room = r->room ? 2 * r->room : 64;
        struct run *larger = gd__realloc(r->items, room * sizeof *larger);
        if (!larger)
            return no_memory();
        r->items = larger;
        r->room = room;
    }
    struct run *run = &r->items[r->n++];
    *run = (struct run){ .journal = journal,
                         .started = gd__db_seconds(s, C_STARTED),
                         .number = gd__db_count(s, C_NUMBER) };
    for (int i = 0; i < COPIED; i++)
        if (!(run->values[i] = sqlite3_value_dup(sqlite3_column_value(s, i))))
            return no_memory();
    return 0;
}

/* The runs of one journal: see read/settled.h. */
struct part {
    struct runs *r;
    struct gd__merge_source *source;
    size_t journal, before; /* before: runs of the journals before it */
};

static void forget_rows(void *user)
{
    const struct part *p = user;
    for (; p->r->n > p->before; p->r->n--)
        for (size_t k = 0; k < COPIED; k++)
            sqlite3_value_free(p->r->items[p->r->n - 1].values[k]);
}

static int read_rows(void *user)
{
    const struct part *p = user;
    struct runs *r = p->r;
    struct gd__merge_source *source = p->source;
    char sql[sizeof select_sql + 16];
    sqlite3_stmt *s = NULL;
    uint64_t last = 0;
    int code = 0;
    gd__merge_source_begin(source);
    const char *shard = gd__db_shard_column(source->db);
    if (!shard)
        return gd__merge_source_failed(source);
    snprintf(sql, sizeof sql, select_sql, shard);
    int rc = gd__db_prepare(source->db, sql, &s);
    while (rc == SQLITE_OK && code == 0 && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        code = add_run(r, s, p->journal);
        if (code == 0 && r->items[r->n - 1].number <= last)
            code = gd__merge_source_damaged(source);
        last = code == 0 ? r->items[r->n - 1].number : last;
        rc = SQLITE_OK;
    }
    if (code == 0 && rc != SQLITE_DONE)
        code = gd__merge_source_failed(source);
    sqlite3_finalize(s);
    return code;
}

static int read_journal(struct runs *r, const char *path, size_t journal)
{
    struct gd__merge_source source;
    struct part p = { r, &source, journal, r->n };
    int rc = gd__merge_source_open(&source, path);
    if (rc == 0)
        rc = gd__settled_read(source.db, source.path, read_rows, forget_rows, &p);
    gd__merge_source_close(&source);
    return rc;
}

/* --- commands --- */

static const char *command_of(const struct run *r)
{
    return (const char *)sqlite3_value_text(r->values[C_COMMAND]);
}

static bool is_last_of_journal(const struct runs *r, size_t i)
{
    return i + 1 == r->n || r->items[i + 1].journal != r->items[i].journal;
}

/* Compares the commands of the last runs of all journals. The runs are still in the order of the journals. */
static int check_commands(struct gd__merge *m, const struct runs *r)
{
    const struct run *first = NULL;
    for (size_t i = 0; i < r->n; i++) {
        const struct run *run = &r->items[i];
        if (!is_last_of_journal(r, i) || !command_of(run))
            continue;
        if (first && strcmp(command_of(first), command_of(run)) != 0 && !m->force)
            return gd__error(GD_E_MISMATCH,
                             "%s and %s were made by different commands: \"%.*s\" and \"%.*s\". Merge journals of one "
                             "command, or force the merge if both do the same work",
                             m->inputs[first->journal].path, m->inputs[run->journal].path, SHOWN, command_of(first),
                             SHOWN, command_of(run));
        first = first ? first : run;
    }
    return 0;
}

/* --- shards --- */

static bool shard_of(const struct run *run, struct gd_shard *out)
{
    return gd__identity_parse((const char *)sqlite3_value_text(run->values[C_SHARD]), out);
}

/* Whether all journals are of different shards of the same list. */
static bool are_disjoint(const struct runs *r)
{
    struct gd_shard first = { 0, 0 }, shard;
    unsigned char *seen = NULL;
    bool disjoint =
        r->n > 0 && shard_of(&r->items[0], &first) && first.count > 0 && (seen = gd__calloc(first.count, 1));
    for (size_t i = 0; disjoint && i < r->n; i++) {
        disjoint = shard_of(&r->items[i], &shard) && shard.count == first.count;
        if (disjoint && is_last_of_journal(r, i))
            disjoint = seen[shard.index]++ == 0;
    }
    gd__free(seen);
    return disjoint;
}

/* --- the number of tasks in the list --- */

struct list_total {
    uint32_t count;   /* shards; 0: not divided */
    uint64_t *totals; /* of each shard */
    bool unknown;
};

static void add_total(struct list_total *t, const struct run *run, bool first)
{
    struct gd_shard shard = { 0, 0 };
    const uint64_t total = (uint64_t)sqlite3_value_int64(run->values[C_TOTAL]);
    t->unknown = t->unknown || !shard_of(run, &shard) || total == 0 || total > (uint64_t)GD__DB_COUNT_MOST ||
                 (!first && shard.count != t->count);
    if (t->unknown)
        return;
    t->count = shard.count;
    if (first && !(t->totals = gd__calloc(t->count > 0 ? t->count : 1, sizeof *t->totals)))
        t->unknown = true;
    else if (t->totals[shard.index] < total)
        t->totals[shard.index] = total;
}

/* Returns the number of tasks of all shards, or 0 if it is not known, because the journal of a shard is missing or its
 * last run does not say. */
static uint64_t list_total(const struct runs *r)
{
    struct list_total t = { .count = 0 };
    uint64_t sum = 0;
    bool first = true;
    for (size_t i = 0; i < r->n; i++)
        if (is_last_of_journal(r, i)) {
            add_total(&t, &r->items[i], first);
            first = false;
        }
    for (size_t i = 0; !t.unknown && t.totals && i < (t.count > 0 ? t.count : 1); i++) {
        t.unknown = t.totals[i] == 0;
        sum += t.totals[i];
    }
    gd__free(t.totals);
    return t.unknown || sum > (uint64_t)GD__DB_COUNT_MOST ? 0 : sum;
}

/* --- writing --- */

static int by_start(const void *pa, const void *pb)
{
    const struct run *a = pa, *b = pb;
    if (a->started != b->started)
        return a->started < b->started ? -1 : 1;
    if (a->journal != b->journal)
        return a->journal < b->journal ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

static int write_runs(const struct runs *r, sqlite3 *db)
{
    sqlite3_stmt *s = NULL;
    int rc = gd__db_prepare(db, insert_sql, &s);
    for (size_t i = 0; rc == SQLITE_OK && i < r->n; i++) {
        for (int k = 0; k < COPIED; k++)
            sqlite3_bind_value(s, k + 1, r->items[i].values[k]);
        sqlite3_bind_int64(s, COPIED + 1, (sqlite3_int64)i + 1);
        rc = sqlite3_step(s);
        sqlite3_reset(s);
        rc = rc == SQLITE_DONE ? SQLITE_OK : rc;
    }
    const int code = rc == SQLITE_OK ? 0 : gd__db_error(db, "write", "the merged journal");
    sqlite3_finalize(s);
    return code;
}

static int by_number(const void *pa, const void *pb)
{
    const struct gd__merge_renumbered *a = pa, *b = pb;
    return (a->before > b->before) - (a->before < b->before);
}

static int renumber(struct gd__merge *m, const struct runs *r)
{
    for (size_t i = 0; i < r->n; i++)
        m->inputs[r->items[i].journal].n_runs++;
    for (size_t i = 0; i < m->n; i++) {
        struct gd__merge_input *in = &m->inputs[i];
        in->runs = gd__calloc(in->n_runs + 1, sizeof *in->runs);
        if (!in->runs)
            return no_memory();
        in->n_runs = 0;
    }
    for (size_t i = 0; i < r->n; i++) {
        struct gd__merge_input *in = &m->inputs[r->items[i].journal];
        in->runs[in->n_runs++] = (struct gd__merge_renumbered){ r->items[i].number, i + 1 };
    }
    for (size_t i = 0; i < m->n; i++)
        qsort(m->inputs[i].runs, m->inputs[i].n_runs, sizeof *m->inputs[i].runs, by_number);
    return 0;
}

static int keep_command(struct gd__merge *m, const struct runs *r)
{
    const char *command = NULL;
    for (size_t i = 0; i < r->n; i++)
        command = command_of(&r->items[i]) ? command_of(&r->items[i]) : command;
    m->command = command ? gd__strdup(command) : NULL;
    return command && !m->command ? no_memory() : 0;
}

int gd__merge_runs(struct gd__merge *m, sqlite3 *db)
{
    struct runs r = { .n = 0 };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < m->n; i++) {
        m->at = i;
        rc = read_journal(&r, m->inputs[i].path, i);
    }
    if (rc == 0) {
        m->at = SIZE_MAX;
        rc = check_commands(m, &r);
    }
    if (rc == 0) {
        m->total = list_total(&r);
        m->disjoint = are_disjoint(&r);
        if (r.n > 0)
            qsort(r.items, r.n, sizeof *r.items, by_start);
        rc = keep_command(m, &r);
    }
    if (rc == 0)
        rc = write_runs(&r, db);
    if (rc == 0)
        rc = renumber(m, &r);
    m->counts.runs = r.n;
    free_runs(&r);
    return rc;
}

/* Its command is that of the run that started last. It takes no time and runs no task. */
int gd__merge_end_run(struct gd__merge *m, sqlite3 *db)
{
    sqlite3_stmt *s = NULL;
    char host[HOST_MAX] = "";
    const uint64_t records = m->counts.done + m->counts.failed;
    gethostname(host, sizeof host - 1);
    int rc =
        gd__db_prepare(db,
                       "INSERT INTO run(number, command, started, written, ended, outcome, pid, host, total, skipped,"
                       " all_done, all_failed) VALUES(?1, ?2, ?3, ?3, ?3, 'merged', ?4, ?5, ?6, ?7, ?8, ?9)",
                       &s);
    if (rc == SQLITE_OK) {
        const uint64_t counts[] = { m->total, records, m->counts.done, m->counts.failed };
        sqlite3_bind_int64(s, 1, (sqlite3_int64)m->counts.runs + 1);
        sqlite3_bind_text(s, 2, m->command, -1, SQLITE_STATIC);
        sqlite3_bind_double(s, 3, gd__wall_clock());
        sqlite3_bind_int64(s, 4, getpid());
        sqlite3_bind_text(s, 5, host, -1, SQLITE_STATIC);
        for (int i = 0; i < 4; i++)
            sqlite3_bind_int64(s, 6 + i, (sqlite3_int64)counts[i]);
        rc = sqlite3_step(s);
    }
    const int code = rc == SQLITE_DONE ? 0 : gd__db_error(db, "write", "the merged journal");
    sqlite3_finalize(s);
    return code;
}
