/* SPDX-License-Identifier: MIT
 *
 * Measures merging many journals.
 *
 *   make    makes the journals of the shards of one list: DIR/run.1-of-N.db and so on
 *   merge   merges them with gd_journal_merge(). Then SQLite alone copies the same records into one file, with INSERT ...
 *           SELECT from one journal after the other. Both are done in each round, each in a process of its own:
 *             merge_ours     records per second
 *             merge_sqlite   likewise, of INSERT ... SELECT
 *             merge_ratio    ours divided by SQLite's
 *             merge_ours_cpu, merge_sqlite_cpu   processor time for each record, which other load changes less
 *             merge_peak     peak resident memory of our merge, MB
 *
 * One JSON object per line: name, unit, median, repeats.
 *
 * usage: bench_merge [-r ROUNDS] [-j JOURNALS] [-m RECORDS] [-d DIR] make|merge ...
 */
#include <fcntl.h>
#include <gpu_dispatch/gpu_dispatch.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/hash/key.h"
#include "journal/db.h"
#include "journal/internal.h"
#include "line.h"

enum { MAX_ROUNDS = 101, NAME = 512 };

static unsigned rounds = 3, n_journals = 100;
static uint64_t n_records = 100000;
static const char *dir = ".";

static void die(const char *what)
{
    fprintf(stderr, "bench_merge: %s: %s\n", what, gd_error_text());
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void must(int rc, sqlite3 *db)
{
    if (rc == SQLITE_OK || rc == SQLITE_DONE)
        return;
    fprintf(stderr, "bench_merge: %s\n", sqlite3_errmsg(db));
    exit(1);
}

static const char *name_of(char name[NAME], unsigned journal)
{
    snprintf(name, NAME, "%s/run.%u-of-%u.db", dir, journal + 1, n_journals);
    return name;
}

/* --- making journals --- */

static const char fill_sql[] =
    "INSERT INTO task(id, key, version, state, attempts, number, run, started, seconds, worker,"
    " gpu, input_size, input) VALUES(?1, ?2, NULL, ?6, 1, ?5, 1, 1.7e9 + ?1, 0.25, 0, 0, ?3,"
    " ?4)";

static void make_journal(unsigned journal)
{
    char name[NAME], line[64];
    sqlite3 *db = NULL;
    sqlite3_stmt *s = NULL;
    unsigned char hash[GD__HASH_SIZE];
    unlink(name_of(name, journal));
    if (gd__db_open_new(&db, name) < 0)
        die("make");
    must(sqlite3_exec(db, "BEGIN", NULL, NULL, NULL), db);
    must(sqlite3_prepare_v2(db, fill_sql, -1, &s, NULL), db);
    for (uint64_t i = 0; i < n_records; i++) {
        const uint64_t number = i * n_journals + journal;
        const int length = snprintf(line, sizeof line, "images/%012llu.jpg", (unsigned long long)number);
        gd__key_hash(line, (size_t)length, hash);
        sqlite3_bind_int64(s, 1, (sqlite3_int64)i + 1);
        sqlite3_bind_blob(s, 2, hash, sizeof hash, SQLITE_STATIC);
        sqlite3_bind_int(s, 3, length);
        sqlite3_bind_text(s, 4, line, length, SQLITE_STATIC);
        sqlite3_bind_int64(s, 5, (sqlite3_int64)number);
        sqlite3_bind_text(s, 6, i % 100 == 0 ? "failed" : "done", -1, SQLITE_STATIC);
        must(sqlite3_step(s), db);
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
    char sql[512];
    const unsigned long long failed = (n_records + 99) / 100;
    snprintf(sql, sizeof sql,
             "INSERT INTO run(number, command, started, ended, written, outcome, pid, host, total, taken, done, failed,"
             " all_done, all_failed, busy, shard) VALUES(1, '-- true', 1.7e9, 1.7e9 + 100, 1.7e9 + 100, 'finished', 1,"
             " 'node%u', %llu, %llu, %llu, %llu, %llu, %llu, 1, '%u/%u'); COMMIT",
             journal / 8, (unsigned long long)n_records, (unsigned long long)n_records,
             (unsigned long long)n_records - failed, failed, (unsigned long long)n_records - failed, failed,
             journal + 1, n_journals);
    must(sqlite3_exec(db, sql, NULL, NULL, NULL), db);
    must(sqlite3_close(db), db);
}

static void make_journals(void)
{
    for (unsigned i = 0; i < n_journals; i++)
        make_journal(i);
}

/* --- merging --- */

static void sync_file(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0)
        exit(1);
    close(fd);
}

static void merge_with_sqlite(const char *output)
{
    static const char sql[] =
        "INSERT INTO task(key, version, state, attempts, number, run, started, seconds, worker, gpu,"
        " exit_code, signal, failure, input_size, input, output, error, stderr) SELECT key, version,"
        " state, attempts, number, run, started, seconds, worker, gpu, exit_code, signal, failure,"
        " input_size, input, output, error, stderr FROM other.task";
    char name[NAME], attach[NAME + 32];
    sqlite3 *db = NULL;
    if (gd__db_open_new(&db, output) < 0)
        die("make");
    for (unsigned i = 0; i < n_journals; i++) {
        snprintf(attach, sizeof attach, "ATTACH '%s' AS other", name_of(name, i));
        must(sqlite3_exec(db, attach, NULL, NULL, NULL), db);
        must(sqlite3_exec(db, sql, NULL, NULL, NULL), db);
        must(sqlite3_exec(db, "DETACH other", NULL, NULL, NULL), db);
    }
    must(sqlite3_close(db), db);
    sync_file(output);
}

static void merge_ours(const char *output)
{
    struct gd_journal_merge_options o = GD_JOURNAL_MERGE_OPTIONS_INIT;
    struct gd_journal_merge_counts counts = { .size = sizeof counts };
    char(*names)[NAME] = malloc(n_journals * sizeof *names);
    const char **paths = malloc(n_journals * sizeof *paths);
    if (!names || !paths)
        exit(1);
    for (unsigned i = 0; i < n_journals; i++)
        paths[i] = name_of(names[i], i);
    o.paths = paths;
    o.n_paths = n_journals;
    o.output = output;
    if (gd_journal_merge(&o, &counts) < 0)
        die("merge");
    if (counts.done + counts.failed != n_journals * n_records) {
        fprintf(stderr, "bench_merge: %llu records were merged\n", (unsigned long long)(counts.done + counts.failed));
        exit(1);
    }
    free(names);
    free(paths);
}

/* Runs it in a process of its own. Returns the records per second. *peak: its resident memory, MB. *cpu: its processor
 * time for each record, microseconds. */
static double measure(void (*merge)(const char *output), double *peak, double *cpu)
{
    char output[NAME];
    struct rusage u;
    int status;
    snprintf(output, sizeof output, "%s/all.db", dir);
    unlink(output);
    const double begin = now();
    const pid_t pid = fork();
    if (pid == 0) {
        merge(output);
        _exit(0);
    }
    if (pid < 0 || wait4(pid, &status, 0, &u) != pid || status != 0)
        exit(1);
    const double seconds = now() - begin;
    *peak = (double)u.ru_maxrss / 1024 * 1.048576;
    *cpu = ((double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec)) /
           (double)(n_journals * n_records);
    unlink(output);
    return (double)(n_journals * n_records) / seconds;
}

static void measure_merge(void)
{
    double ours[MAX_ROUNDS], sqlite[MAX_ROUNDS], ratio[MAX_ROUNDS], peak[MAX_ROUNDS], cpu[MAX_ROUNDS],
        cpu_sqlite[MAX_ROUNDS], other;
    for (unsigned i = 0; i < rounds; i++) {
        sqlite[i] = measure(merge_with_sqlite, &other, &cpu_sqlite[i]);
        ours[i] = measure(merge_ours, &peak[i], &cpu[i]);
        ratio[i] = ours[i] / sqlite[i];
    }
    print_line("merge_ours", "records/s", ours, rounds);
    print_line("merge_sqlite", "records/s", sqlite, rounds);
    print_line("merge_ratio", "", ratio, rounds);
    print_line("merge_ours_cpu", "us", cpu, rounds);
    print_line("merge_sqlite_cpu", "us", cpu_sqlite, rounds);
    print_line("merge_peak", "MB", peak, rounds);
}

int main(int argc, char **argv)
{
    int option;
    while ((option = getopt(argc, argv, "r:j:m:d:")) != -1) {
        switch (option) {
        case 'r':
            rounds = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'j':
            n_journals = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'm':
            n_records = strtoull(optarg, NULL, 10);
            break;
        case 'd':
            dir = optarg;
            break;
        default:
            return 2;
        }
    }
    if (rounds == 0 || rounds > MAX_ROUNDS || n_journals == 0 || n_records == 0)
        return 2;
    for (int i = optind; i < argc; i++) {
        if (strcmp(argv[i], "make") == 0)
            make_journals();
        else if (strcmp(argv[i], "merge") == 0)
            measure_merge();
        else
            return 2;
    }
    return 0;
}
