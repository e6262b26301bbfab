/* SPDX-License-Identifier: MIT
 *
 * The files of a journal after a kill, cut off at every byte near their ends. Either the journal can be opened and is
 * intact, or it is reported as damaged. No unfinished task counts as done, and a resumed run completes.
 */
#include "journal.h"

static const struct job the_job = { .n = 120 };

static struct copy {
    char *bytes;
    size_t size;
} db, wal, out;

/* The page size of the database, from its first page. */
static size_t page_size(void)
{
    const unsigned char *at = (const unsigned char *)db.bytes + 16;
    return (size_t)at[0] << 8 | at[1];
}

/* The size of a frame in the log, with its header. */
static size_t frame_size(void)
{
    return page_size() + 24;
}

/* The end of the last complete transaction in the log. The writer may have been killed within the next transaction,
 * which does not count. The last frame of a transaction contains the size of the database; other frames contain 0. */
static size_t committed_size(void)
{
    size_t size = 0;
    for (size_t at = 32; at + frame_size() <= wal.size; at += frame_size())
        if (memcmp(wal.bytes + at + 4, "\0\0\0\0", 4) != 0)
            size = at + frame_size();
    return size;
}

/* The distance to the next cut. Near the boundaries of parts, every byte is tried. */
static size_t step_at(size_t cut, size_t part, size_t step)
{
    const size_t at = cut % part;
    return test_soak() || at < 64 || part - at < 64 ? 1 : step;
}

static void put(const char *path, const char *bytes, size_t size)
{
    FILE *f = fopen(path, "we");
    CHECK(f != NULL);
    CHECK_EQ(fwrite(bytes, 1, size, f), size);
    CHECK_EQ(fclose(f), 0);
}

static void put_back(size_t db_size, size_t wal_size)
{
    unlink(JOURNAL "-shm");
    put(JOURNAL, db.bytes, db_size);
    put(JOURNAL "-wal", wal.bytes, wal_size);
    put(OUTPUT, out.bytes, out.size);
}

/* How many records the journal holds. Reads a copy, since the last reader of the log may remove it. */
static int64_t logged_in_journal(void)
{
    sqlite3 *h = NULL;
    sqlite3_stmt *s = NULL;
    int64_t n = 0;
    size_t size;
    const char *const files[][2] = { { JOURNAL, "copy.db" }, { JOURNAL "-wal", "copy.db-wal" } };
    unlink("copy.db-shm");
    for (int i = 0; i < 2; i++) {
        char *bytes = job_read(files[i][0], &size);
        CHECK(bytes != NULL);
        put(files[i][1], bytes, size);
        free(bytes);
    }
    CHECK_EQ(sqlite3_open_v2("copy.db", &h, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    if (sqlite3_prepare_v2(h, "SELECT count(*) FROM task", -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
        n = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(h);
    return n;
}

/* Kills a run while there are records in the journal's log. If all tasks are done before the first records are written,
 * tries again with longer tasks. */
static void make(void)
{
    struct job job = the_job;
    if (SANITIZED)
        SKIP("a sanitizer must be the first library, and so must the library of this test");
    job_enter(&job);
    job.preload = "kill";
    job.files = OUTPUT;
    job.at = 100;
    do {
        job_reset();
        CHECK_EQ(job_run(&job), 128 + SIGKILL);
        job.burn_us = 2 * job.burn_us + 50;
    } while (logged_in_journal() == 0);
    db.bytes = job_read(JOURNAL, &db.size);
    wal.bytes = job_read(JOURNAL "-wal", &wal.size);
    out.bytes = job_read(OUTPUT, &out.size);
    CHECK(db.bytes && wal.bytes && out.bytes);
    CHECK_GE(page_size(), 512);
    wal.size = committed_size();
    CHECK_GT(wal.size, 3 * frame_size());
}

static void drop(void)
{
    free(db.bytes);
    free(wal.bytes);
    free(out.bytes);
}

static bool sound(void)
{
    sqlite3 *h = NULL;
    sqlite3_stmt *s = NULL;
    CHECK_EQ(sqlite3_open_v2(JOURNAL, &h, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    const bool ok = sqlite3_prepare_v2(h, "PRAGMA integrity_check", -1, &s, NULL) == SQLITE_OK &&
                    sqlite3_step(s) == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(s, 0), "ok") == 0;
    sqlite3_finalize(s);
    sqlite3_close(h);
    return ok;
}

/* Opens the journal as a resumed run does. Returns the number of records, -1 if it is reported as damaged. */
static int64_t open_and_look(const char *what, size_t size)
{
    struct gd_journal_options o = GD_JOURNAL_OPTIONS_INIT;
    struct gd_journal *j = NULL;
    o.path = JOURNAL;
    o.resume = GD_JOURNAL_RESUME_REST;
    const int rc = gd_journal_open(&j, &o);
    if (rc < 0) {
        if (rc != GD_E_CORRUPT || !*gd_error_text())
            FAIL("%s cut at %zu: %s (%s)", what, size, gd_error_text(), gd_error_name(rc));
        return -1;
    }
    const int64_t n = job_committed(&the_job); /* also checks each record */
    CHECK_EQ(gd_journal_close(&j), 0);
    if (!sound())
        FAIL("%s cut at %zu: the journal was opened, but is damaged", what, size);
    return n;
}

TEST_WITHIN(600, the_log_at_every_byte)
{
    int64_t most = 0, last = INT64_MAX;
    make();
    const size_t frame = frame_size();
    const int64_t logged = (int64_t)job_lines("log");
    for (size_t cut = 0; cut <= 2 * frame + 64; cut += step_at(cut, frame, 53)) {
        put_back(db.size, wal.size - cut);
        const int64_t n = open_and_look("the log", wal.size - cut);
        CHECK_GE(n, 0); /* a log may be incomplete: SQLite ignores its damaged end */
        CHECK_LE(n, logged);
        CHECK_LE(n, last); /* a shorter file never has more records */
        last = n;
        most = n > most ? n : most;
    }
    CHECK_GT(most, 0);
    CHECK_LT(last, most);
    drop();
}

TEST_WITHIN(600, the_database_at_every_byte)
{
    int refused = 0;
    make();
    /* The log is first copied into the database, so that there is a database to cut. */
    CHECK(sound());
    sqlite3 *h = NULL;
    CHECK_EQ(sqlite3_open(JOURNAL, &h), SQLITE_OK);
    CHECK_EQ(sqlite3_exec(h, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(h);
    free(db.bytes);
    db.bytes = job_read(JOURNAL, &db.size);
    const size_t page = page_size();
    CHECK_GT(db.size, 3 * page);
    for (size_t cut = 1; cut < 2 * page + 64; cut += step_at(cut, page, 101)) {
        put_back(db.size - cut, 0);
        refused += open_and_look("the database", db.size - cut) < 0;
    }
    CHECK_GT(refused, 0);
    drop();
}

TEST_WITHIN(600, a_beginning_alone)
{
    make();
    for (size_t size = 0; size < 600; size += size < 120 ? 1 : 40) {
        put_back(size, 0);
        const int64_t n = open_and_look("the database", size);
        CHECK_LE(n, 0); /* an empty file is a new journal */
    }
    drop();
}

/* The command resumes the run after the log was cut, at places all over the log. */
TEST_WITHIN(600, resumed_from_a_cut_log)
{
    make();
    size_t size;
    char *log = job_read("log", &size);
    for (size_t cut = 0; cut < wal.size; cut += test_soak() ? 97 : wal.size / 24 + 1) {
        put_back(db.size, wal.size - cut);
        put("log", log, size);
        job_resume_and_check(the_job, "a cut log");
    }
    free(log);
    drop();
}

TEST(a_file_that_is_not_a_journal_is_not_overwritten)
{
    job_enter(&the_job);
    job_reset();
    put(JOURNAL, "this is a text of the user and not a journal, so it must not be overwritten...\n", 79);
    struct job job = the_job;
    CHECK_EQ(job_run(&job), 255);
    CHECK_CONTAINS(job_message(), JOURNAL);
    size_t size;
    char *text = job_read(JOURNAL, &size);
    CHECK_EQ(size, 79);
    CHECK_EQ(job_lines("log"), 0);
    free(text);
}

TEST_MAIN()
