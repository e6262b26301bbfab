/* SPDX-License-Identifier: MIT
 *
 * The short form of the crash tests for journals on file systems that other machines use too. Such a journal has a
 * rollback journal. The long form is crash_journal_kill_shared and the others in shared_tests of tests/meson.build.
 */
#include "journal.h"

#include "base/file/shared.h"

static void files_are_shared(void)
{
    CHECK_EQ(setenv(GD__ENV_SHARED_FILES, "1", 1), 0);
}

/* --- kills --- */

TEST_WITHIN(600, at_some_writes_of_the_journal)
{
    files_are_shared();
    const long writes = job_kill_at_every_write((struct job){ .n = 60 }, "kill", "/kept/run.db", test_soak() ? 1 : 17);
    CHECK_GT(writes, 20);
}

TEST_WITHIN(600, within_some_writes_of_the_journal)
{
    files_are_shared();
    job_kill_at_every_write((struct job){ .n = 60 }, "torn", "/kept/run.db", test_soak() ? 1 : 23);
}

/* --- cuts --- */

struct copy {
    char *bytes;
    size_t size;
};

static void put(const char *path, const char *bytes, size_t size)
{
    FILE *f = fopen(path, "we");
    CHECK(f != NULL);
    CHECK_EQ(fwrite(bytes, 1, size, f), size);
    CHECK_EQ(fclose(f), 0);
}

/* A journal of a finished run; the same in the middle of a commit; and the rollback journal of that moment. */
static struct copy whole, changed, rollback;

static void make(const struct job *job)
{
    sqlite3 *h = NULL;
    files_are_shared();
    job_enter(job);
    job_reset();
    CHECK_EQ(job_run(job), job_bad(job));
    whole.bytes = job_read(JOURNAL, &whole.size);
    /* The pages do not fit in the cache, so that they are written before the end of the transaction. */
    put("copy.db", whole.bytes, whole.size);
    CHECK_EQ(sqlite3_open("copy.db", &h), SQLITE_OK);
    CHECK_EQ(sqlite3_exec(h, "PRAGMA cache_size = 4; BEGIN; UPDATE task SET input = 'wrong'", NULL, NULL, NULL),
             SQLITE_OK);
    changed.bytes = job_read("copy.db", &changed.size);
    rollback.bytes = job_read("copy.db-journal", &rollback.size);
    CHECK(whole.bytes && changed.bytes && rollback.bytes);
    CHECK(changed.size != whole.size || memcmp(changed.bytes, whole.bytes, whole.size) != 0);
    CHECK_EQ(sqlite3_close(h), SQLITE_OK);
}

/* The rollback journal has a header of 512 bytes, and then pages with a number before and a sum after each. */
static size_t step_at(size_t cut)
{
    const unsigned char *at = (const unsigned char *)whole.bytes + 16;
    const size_t part = ((size_t)at[0] << 8 | at[1]) + 8;
    const size_t within = cut < 512 ? 0 : (cut - 512) % part;
    return test_soak() || cut < 40 || within < 6 || part - within < 6 ? 1 : 1999;
}

static void check_all_there(const struct job *job, const char *what, size_t size)
{
    const int64_t n = job_committed(job);
    if (n != (int64_t)job->n)
        FAIL("%s, cut to %zu bytes: %lld records: %s", what, size, (long long)n, gd_error_text());
    job_check_integrity();
}

/* A kill or a power loss before the rollback journal was complete: the database is not yet changed. */
TEST_WITHIN(600, a_rollback_journal_cut_at_every_byte)
{
    const struct job job = { .n = 300 };
    make(&job);
    CHECK_GT(rollback.size, 2 * 16384);
    for (size_t size = 0; size < rollback.size; size += step_at(size)) {
        put(JOURNAL, whole.bytes, whole.size);
        put(JOURNAL "-journal", rollback.bytes, size);
        check_all_there(&job, "the rollback journal", size);
    }
}

/* A kill while the database is changed: the next reader restores it, byte by byte. */
TEST_WITHIN(600, a_commit_is_undone_until_its_end)
{
    const struct job job = { .n = 300 };
    make(&job);
    put(JOURNAL, changed.bytes, changed.size);
    put(JOURNAL "-journal", rollback.bytes, rollback.size);
    check_all_there(&job, "the database", changed.size);
    CHECK(access(JOURNAL "-journal", F_OK) < 0);
    size_t size;
    char *now = job_read(JOURNAL, &size);
    CHECK_EQ(size, whole.size);
    CHECK_MEM(now, whole.bytes, size);
    free(now);
}

TEST_MAIN()
