/* SPDX-License-Identifier: MIT
 *
 * Several journals as one. Random journals with random overlaps are merged, and the result is compared with a simple
 * model. Also: which merges are refused, journals in use or damaged, and a process that is killed while it merges.
 */
#include <gpu_dispatch/journal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/hash/key.h"
#include "journal/db.h"
#include "support/journal.h"

enum { MOST_JOURNALS = 12, MOST_RECORDS = 60, MOST = MOST_JOURNALS * MOST_RECORDS };

struct record {
    unsigned journal, id, key, version, number;
    bool done;
    double started, seconds; /* started 0: NULL */
    unsigned kth;
};

static uint64_t seed;

static unsigned below(unsigned n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (unsigned)(seed >> 33) % n;
}

static const char *path_of(unsigned journal)
{
    static char path[32];
    snprintf(path, sizeof path, "j%u.db", journal);
    return path;
}

static void sql(sqlite3 *db, const char *text)
{
    if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK)
        FAIL("%s: %s", text, sqlite3_errmsg(db));
}

static void put_key(sqlite3_stmt *s, int at, unsigned key)
{
    unsigned char hash[GD__HASH_SIZE];
    gd__key_hash(&key, sizeof key, hash);
    sqlite3_bind_blob(s, at, hash, sizeof hash, SQLITE_TRANSIENT);
}

static void put_record(sqlite3 *db, const struct record *r)
{
    sqlite3_stmt *s;
    char input[32];
    CHECK_EQ(
        sqlite3_prepare_v2(db,
                           "INSERT INTO task(id, key, version, state, attempts, number, run, started, seconds, worker,"
                           " gpu, failure, input_size, input, error) VALUES(?1, ?2, ?3, ?4, 2, ?5, 1 + ?1 % 2, ?6, ?7,"
                           " 3, 1, ?8, 4, ?9, ?10)",
                           -1, &s, NULL),
        SQLITE_OK);
    sqlite3_bind_int64(s, 1, r->id);
    put_key(s, 2, r->key);
    if (r->version)
        sqlite3_bind_int(s, 3, (int)r->version);
    sqlite3_bind_text(s, 4, r->done ? "done" : "failed", -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 5, r->number);
    if (r->started > 0)
        sqlite3_bind_double(s, 6, r->started);
    sqlite3_bind_double(s, 7, r->seconds);
    if (!r->done) {
        sqlite3_bind_text(s, 8, "error", -1, SQLITE_STATIC);
        sqlite3_bind_blob(s, 10, "\0\1", 2, SQLITE_STATIC);
    }
    snprintf(input, sizeof input, "%u:%u", r->journal, r->id);
    sqlite3_bind_text(s, 9, input, -1, SQLITE_STATIC);
    CHECK_EQ(sqlite3_step(s), SQLITE_DONE);
    sqlite3_finalize(s);
}

/* Makes a journal with two runs. shards 0: of the whole list. */
static void make_journal(unsigned journal, const struct record *records, size_t n, unsigned shards, bool wal)
{
    sqlite3 *db;
    char text[512];
    const char *path = path_of(journal);
    unlink(path);
    CHECK_EQ(gd__db_open_new(&db, path), 0);
    sql(db, "BEGIN");
    for (unsigned run = 1; run <= 2; run++) {
        snprintf(
            text, sizeof text,
            "INSERT INTO run(number, command, started, ended, outcome, pid, host, total, done, shard) VALUES(%u, 'c',"
            " %u, %u, 'finished', 7, 'node%u', %zu, %zu, %s%u/%u%s)",
            run, 1000 * run + journal, 1000 * run + 100, journal, n, n, shards ? "'" : "CASE WHEN 1 THEN NULL ELSE '",
            journal + 1, shards, shards ? "'" : "' END");
        sql(db, text);
    }
    for (size_t i = 0; i < n; i++)
        if (records[i].journal == journal)
            put_record(db, &records[i]);
    sql(db, "COMMIT");
    if (wal)
        sql(db, "PRAGMA locking_mode = NORMAL; PRAGMA journal_mode = WAL");
    CHECK_EQ(sqlite3_close(db), SQLITE_OK);
}

/* --- the model --- */

static int by_journal_and_number(const void *pa, const void *pb)
{
    const struct record *a = pa, *b = pb;
    if (a->journal != b->journal)
        return a->journal < b->journal ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return a->id < b->id ? -1 : 1;
}

static double ended(const struct record *r)
{
    return r->started > 0 ? r->started + r->seconds : 0;
}

static bool same_task(const struct record *a, const struct record *b)
{
    return a->key == b->key && a->kth == b->kth;
}

/* Whether record i is part of the result. */
static bool wins(const struct record *all, size_t n, size_t i)
{
    const struct record *r = &all[i];
    const struct record *newest = NULL;
    for (size_t k = 0; k < n; k++)
        if (same_task(&all[k], r) && (!newest || ended(&all[k]) > ended(newest)))
            newest = &all[k];
    if (r->version != newest->version)
        return false;
    for (size_t k = 0; k < n; k++) {
        const struct record *o = &all[k];
        if (k == i || !same_task(o, r) || o->version != newest->version)
            continue;
        if (o->done != r->done) {
            if (o->done)
                return false;
            continue;
        }
        const double mine = ended(r) > 0 ? ended(r) : 1e300, other = ended(o) > 0 ? ended(o) : 1e300;
        if (other < mine || (other == mine && o->journal < r->journal))
            return false;
    }
    return true;
}

/* Sorts the records, and finds which one of its key in its journal each is. */
static void find_kth(struct record *all, size_t n)
{
    qsort(all, n, sizeof *all, by_journal_and_number);
    for (size_t i = 0; i < n; i++) {
        all[i].kth = 0;
        for (size_t k = 0; k < i; k++)
            all[i].kth += all[k].journal == all[i].journal && all[k].key == all[i].key;
    }
}

/* --- comparing --- */

struct seen {
    const struct record *all;
    size_t n;
    bool *is_there;
    uint64_t last_id, last_number, records;
    uint64_t run_of[MOST_JOURNALS][2]; /* the numbers of the runs of each journal in the result */
};

static int look_at_run(void *user, const struct gd_journal_run *run)
{
    struct seen *s = user;
    unsigned journal;
    if (sscanf(run->host ? run->host : "", "node%u", &journal) == 1)
        s->run_of[journal][run->started < 2000 ? 0 : 1] = run->number;
    return 0;
}

static int look_at_record(void *user, const struct gd_journal_record *r)
{
    struct seen *s = user;
    unsigned journal, id;
    CHECK_EQ(sscanf(r->input, "%u:%u", &journal, &id), 2);
    size_t i = 0;
    while (i < s->n && (s->all[i].journal != journal || s->all[i].id != id))
        i++;
    CHECK_LT(i, s->n);
    CHECK(!s->is_there[i]);
    s->is_there[i] = true;
    CHECK_EQ(r->id, s->last_id + 1);
    CHECK_GE(r->number, s->last_number);
    CHECK_EQ(r->number, s->all[i].number);
    CHECK_EQ(r->done, s->all[i].done);
    CHECK_EQ(r->run, s->run_of[journal][id % 2]);
    CHECK_EQ(r->error != NULL, !r->done);
    CHECK_EQ(r->worker_id, 3);
    CHECK_EQ(r->attempts, 2);
    s->last_id = r->id;
    s->last_number = r->number;
    s->records++;
    return 0;
}

static void compare(struct gd_journal_reader *r, struct record *all, size_t n,
                    const struct gd_journal_merge_counts *counts)
{
    struct seen s = { .all = all, .n = n, .is_there = calloc(n + 1, 1) };
    struct gd_journal_summary summary = { .size = sizeof summary };
    CHECK(s.is_there != NULL);
    CHECK_EQ(gd_journal_reader_runs(r, look_at_run, &s), 0);
    CHECK_EQ(gd_journal_reader_each(r, NULL, look_at_record, &s), 0);
    for (size_t i = 0; i < n; i++)
        if (s.is_there[i] != wins(all, n, i))
            FAIL("seed %llu: record %u:%u of key %u", (unsigned long long)seed, all[i].journal, all[i].id, all[i].key);
    CHECK_EQ(gd_journal_reader_summary(r, &summary), 0);
    CHECK_EQ(summary.done + summary.failed, s.records);
    CHECK_STR(summary.end, "merged");
    if (counts) {
        CHECK_EQ(counts->done, summary.done);
        CHECK_EQ(counts->failed, summary.failed);
        CHECK_EQ(counts->overlaps, n - s.records);
    }
    free(s.is_there);
}

/* --- random journals --- */

/* Makes journals that overlap as much as `keys` allows, and returns the number of records. */
static size_t make_random(struct record *all, unsigned journals, bool overlapping)
{
    size_t n = 0;
    const unsigned keys = 1 + below(80), shuffled = below(3) == 0;
    for (unsigned j = 0; j < journals; j++) {
        unsigned id = 0, number = 0;
        const unsigned many = below(MOST_RECORDS);
        for (unsigned i = 0; i < many; i++) {
            id += 1 + below(3);
            number = shuffled ? below(1000) : number + below(5);
            all[n++] = (struct record){ .journal = j,
                                        .id = id,
                                        .key = overlapping ? below(keys) : j + journals * below(1000),
                                        .version = below(4) == 0 ? 1 + below(2) : 0,
                                        .number = number,
                                        .done = below(3) > 0,
                                        .started = below(10) == 0 ? 0 : 1000 + below(50),
                                        .seconds = below(20) };
        }
    }
    find_kth(all, n);
    return n;
}

static struct gd_journal_merge_options options_for(unsigned journals)
{
    static char names[MOST_JOURNALS][32];
    static const char *paths[MOST_JOURNALS];
    struct gd_journal_merge_options o = GD_JOURNAL_MERGE_OPTIONS_INIT;
    for (unsigned j = 0; j < journals; j++) {
        snprintf(names[j], sizeof names[j], "%s", path_of(j));
        paths[j] = names[j];
    }
    o.paths = paths;
    o.n_paths = journals;
    o.output = "all.db";
    return o;
}

static void merge_random(struct record *all, unsigned round)
{
    const unsigned journals = 1 + below(MOST_JOURNALS);
    const bool overlapping = below(3) > 0;
    /* Journals that claim to be of different shards may overlap nevertheless. */
    const unsigned shards = below(2) ? journals : 0;
    const size_t n = make_random(all, journals, overlapping);
    for (unsigned j = 0; j < journals; j++)
        make_journal(j, all, n, shards, below(2));
    struct gd_journal_merge_options o = options_for(journals);
    struct gd_journal_merge_counts counts = { .size = sizeof counts }, counted = { .size = sizeof counted };
    struct gd_journal_reader *r;
    unlink("all.db");
    if (gd_journal_merge(&o, &counts) < 0)
        FAIL("round %u: %s", round, gd_error_text());
    CHECK_EQ(gd_journal_reader_open(&r, "all.db"), 0);
    compare(r, all, n, &counts);
    gd_journal_reader_close(&r);
    CHECK_EQ(access("all.db.part", F_OK), -1);
    o.output = NULL;
    CHECK_EQ(gd_journal_merge(&o, &counted), 0);
    CHECK_EQ(counted.done, counts.done);
    CHECK_EQ(counted.failed, counts.failed);
    CHECK_EQ(counted.overlaps, counts.overlaps);
    CHECK_EQ(gd_journal_reader_open_merged(&r, &o), 0);
    compare(r, all, n, NULL);
    gd_journal_reader_close(&r);
}

TEST(random_journals_agree_with_the_model)
{
    static struct record all[MOST];
    directory_enter();
    for (unsigned round = 0; round < 50 / TEST_SLOWDOWN; round++) {
        seed = round;
        merge_random(all, round);
    }
}

/* The journals cannot all be open at once, so each is opened again for every buffer of rows. */
TEST(more_journals_than_descriptors)
{
    static struct record all[MOST];
    const struct rlimit few = { 40, 40 };
    directory_enter();
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    seed = 5;
    for (unsigned round = 0; round < 10; round++)
        merge_random(all, round);
}

/* --- a merged journal is a journal --- */

static const struct record three[] = {
    { .journal = 0, .id = 1, .key = 1, .number = 0, .done = true, .started = 1000, .seconds = 1 },
    { .journal = 0, .id = 2, .key = 2, .number = 2, .done = false, .started = 1001, .seconds = 1 },
    { .journal = 1, .id = 1, .key = 3, .number = 1, .done = true, .started = 1000, .seconds = 1 },
};

static void make_two(void)
{
    make_journal(0, three, 3, 2, true);
    make_journal(1, three, 3, 2, false);
}

TEST(a_run_resumes_a_merged_journal)
{
    directory_enter();
    struct job job = JOB("");
    struct gd_shard shard = { 0, 2 };
    for (; shard.index < 2; shard.index++) {
        job_numbers(&job, 100);
        job.j.path = "run.db";
        job.j.shard = shard;
        CHECK_EQ(job_run(&job), 0);
    }
    static const char *const paths[] = { "run.1-of-2.db", "run.2-of-2.db" };
    struct gd_journal_merge_options o = GD_JOURNAL_MERGE_OPTIONS_INIT;
    o.paths = paths;
    o.n_paths = 2;
    o.output = "all.db";
    CHECK_EQ(gd_journal_merge(&o, NULL), 0);
    job.j.shard = (struct gd_shard){ 0, 0 };
    job.j.path = "all.db";
    job.j.resume = GD_JOURNAL_RESUME_REST;
    job_numbers(&job, 102);
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(job.counts.skipped, 100);
    CHECK_EQ(job.done, 2);
    CHECK_STR(job_sql("all.db", "SELECT count(*) || ' ' || count(DISTINCT key) FROM task"), "102 102");
}

TEST(runs_keep_their_machine_and_shard)
{
    directory_enter();
    make_two();
    struct gd_journal_merge_options o = options_for(2);
    CHECK_EQ(gd_journal_merge(&o, NULL), 0);
    CHECK_STR(job_sql("all.db",
                      "SELECT group_concat(number || host || ifnull(shard, '-'), ' ') FROM run WHERE host LIKE"
                      " 'node%'"),
              "1node01/2 2node12/2 3node01/2 4node12/2");
    CHECK_STR(job_sql("all.db", "SELECT outcome || total || ' ' || all_done || ' ' || all_failed || ifnull(shard, '-')"
                                " FROM run WHERE number = 5"),
              "merged6 2 1-");
    CHECK_STR(job_sql("all.db", "PRAGMA integrity_check"), "ok");
}

TEST(a_journal_of_version_1)
{
    directory_enter();
    make_journal(0, three, 3, 0, false);
    make_journal(1, three, 3, 0, false);
    job_sql("j1.db", "ALTER TABLE run DROP COLUMN shard");
    job_sql("j1.db", "PRAGMA user_version = 1");
    struct gd_journal_merge_options o = options_for(2);
    struct gd_journal_merge_counts counts = { .size = sizeof counts };
    CHECK_EQ(gd_journal_merge(&o, &counts), 0);
    CHECK_EQ(counts.done, 2);
    CHECK_EQ(counts.failed, 1);
}

/* A run writes to the journal, and has not closed it. */
TEST(a_journal_in_use)
{
    directory_enter();
    make_two();
    sqlite3 *db;
    CHECK_EQ(sqlite3_open("j0.db", &db), SQLITE_OK);
    sql(db, "PRAGMA journal_mode = WAL; BEGIN IMMEDIATE; DELETE FROM task");
    struct gd_journal_merge_options o = options_for(2);
    struct gd_journal_merge_counts counts = { .size = sizeof counts };
    CHECK_EQ(gd_journal_merge(&o, &counts), 0);
    CHECK_EQ(counts.done, 2);
    sqlite3_close(db);
}

/* --- what is refused --- */

static int merge_with(size_t *unreadable)
{
    struct gd_journal_merge_options o = options_for(2);
    o.unreadable = unreadable;
    return gd_journal_merge(&o, NULL);
}

TEST(an_output_that_exists_is_kept)
{
    static const char *const names[] = { "all.db", "all.db-wal", "all.db-journal" };
    directory_enter();
    make_two();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        make_file(names[i], 3);
        CHECK_EQ(merge_with(NULL), GD_E_EXISTS);
        CHECK_CONTAINS(gd_error_text(), names[i]);
        CHECK_EQ(unlink(names[i]), 0);
        CHECK_EQ(access("all.db.part", F_OK), -1);
    }
}

TEST(the_output_is_one_of_the_inputs)
{
    directory_enter();
    make_two();
    struct gd_journal_merge_options o = options_for(2);
    o.output = "./j1.db";
    CHECK_EQ(gd_journal_merge(&o, NULL), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "one of the journals");
}

TEST(different_commands)
{
    directory_enter();
    make_two();
    job_sql("j1.db", "UPDATE run SET command = 'other'");
    CHECK_EQ(merge_with(NULL), GD_E_MISMATCH);
    CHECK_CONTAINS(gd_error_text(), "j0.db and j1.db were made by different commands: \"c\" and \"other\"");
    CHECK_EQ(access("all.db", F_OK), -1);
    CHECK_EQ(access("all.db.part", F_OK), -1);
    struct gd_journal_merge_options o = options_for(2);
    o.force = true;
    CHECK_EQ(gd_journal_merge(&o, NULL), 0);
}

TEST(a_journal_that_cannot_be_read_is_named)
{
    size_t unreadable = 7;
    directory_enter();
    make_two();
    CHECK_EQ(unlink("j1.db"), 0);
    CHECK_EQ(merge_with(&unreadable), GD_E_SYSTEM);
    CHECK_EQ(unreadable, 1);
    CHECK_CONTAINS(gd_error_text(), "j1.db");
    make_file("j1.db", 5000);
    CHECK_EQ(merge_with(&unreadable), GD_E_CORRUPT);
    CHECK_EQ(unreadable, 1);
    make_two();
    job_sql("j0.db", "UPDATE task SET key = x'00' WHERE id = 2");
    CHECK_EQ(merge_with(&unreadable), GD_E_CORRUPT);
    CHECK_EQ(unreadable, 0);
    CHECK_EQ(access("all.db.part", F_OK), -1);
}

/* A file may contain SQL. It is not executed: the file is refused, or the SQL is ignored. */
TEST(sql_in_a_journal_is_not_executed)
{
    directory_enter();
    make_two();
    job_sql("j1.db", "ALTER TABLE task RENAME TO t");
    job_sql("j1.db", "CREATE VIEW task AS SELECT * FROM t");
    CHECK_EQ(merge_with(NULL), GD_E_CORRUPT);
    make_two();
    job_sql("j1.db", "CREATE TRIGGER t AFTER INSERT ON task BEGIN DELETE FROM task; END");
    CHECK_EQ(merge_with(NULL), 0);
    CHECK_STR(job_sql("all.db", "SELECT count(*) FROM task"), "3");
}

TEST(bad_calls)
{
    static const char *const paths[] = { "", NULL };
    struct gd_journal_merge_options o = GD_JOURNAL_MERGE_OPTIONS_INIT;
    struct gd_journal_reader *r;
    CHECK_EQ(gd_journal_merge(NULL, NULL), GD_E_INVALID);
    CHECK_EQ(gd_journal_merge(&o, NULL), GD_E_INVALID);
    o.paths = paths;
    o.n_paths = 2;
    CHECK_EQ(gd_journal_merge(&o, NULL), GD_E_INVALID);
    o.output = "all.db";
    CHECK_EQ(gd_journal_reader_open_merged(&r, &o), GD_E_INVALID);
    CHECK_EQ(gd_journal_reader_open_merged(NULL, &o), GD_E_INVALID);
    CHECK_EQ(gd_journal_reader_runs(NULL, NULL, NULL), GD_E_INVALID);
}

/* --- killed --- */

/* Merges in a child that is killed at the point. Returns whether it was killed. */
static bool merge_killed(const char *point)
{
    int status;
    const pid_t pid = fork();
    if (pid == 0) {
        setenv("GD_KILL_DISPATCHER", point, 1);
        gd__fault_read_kill();
        _exit(merge_with(NULL) == 0 ? 0 : 1);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    if (!WIFSIGNALED(status))
        CHECK_EQ(status, 0);
    return WIFSIGNALED(status);
}

static void check_whole(void)
{
    CHECK_STR(job_sql("all.db", "PRAGMA integrity_check"), "ok");
    CHECK_STR(job_sql("all.db",
                      "SELECT count(*) || outcome FROM task, (SELECT outcome FROM run ORDER BY number DESC LIMIT"
                      " 1)"),
              "3merged");
}

TEST(a_killed_merge_leaves_nothing_or_everything)
{
    char point[32];
    directory_enter();
    make_two();
    for (unsigned i = 1;; i++) {
        snprintf(point, sizeof point, "merge_record:%u", i);
        if (!merge_killed(point))
            break;
        CHECK_EQ(access("all.db", F_OK), -1);
    }
    check_whole(); /* the file that a killed process left was replaced */
    CHECK_EQ(unlink("all.db"), 0);
    CHECK(merge_killed("merge_place"));
    CHECK_EQ(access("all.db", F_OK), -1);
    CHECK(merge_killed("merge_placed"));
    check_whole();
}

/* Another process writes the same output. */
TEST(two_merges_into_one_file)
{
    directory_enter();
    make_two();
    const int fd = open("all.db.part", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    CHECK_GE(fd, 0);
    struct flock first = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
    CHECK_EQ(fcntl(fd, F_OFD_SETLK, &first), 0);
    CHECK_EQ(merge_with(NULL), GD_E_BUSY);
    CHECK_EQ(access("all.db.part", F_OK), 0);
    close(fd);
    CHECK_EQ(merge_with(NULL), 0);
    check_whole();
}

/* Every allocation and every call that can fail. */
TEST(every_failure_is_reported)
{
    directory_enter();
    make_two();
    for (unsigned long nth = 1;; nth++) {
        unlink("all.db");
        gd__fault_begin(nth);
        const int rc = merge_with(NULL);
        const bool all = gd__fault_count() < nth;
        gd__fault_begin(0);
        if (rc == 0)
            check_whole();
        else
            CHECK_EQ(access("all.db", F_OK), -1);
        CHECK_EQ(access("all.db.part", F_OK), -1);
        if (all)
            break;
    }
}

int main(int argc, char **argv)
{
    if (job_main(&argc, argv) < 0)
        return fprintf(stderr, "%s\n", gd_error_text()), 1;
    return test_main(argc, argv);
}
