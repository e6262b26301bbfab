/* SPDX-License-Identifier: MIT
 *
 * A disk that becomes full or fails at some write, or a directory that can't be written to. The run ends with 255 and
 * an error message that names the file. No task that was reported as done is lost. When there is room again, a resumed
 * run does the rest.
 */
#include "journal.h"

/* Repeats the run with failures from call 1 on, from call 1 + step on, and so on, until a run succeeds. */
static void fail_from_every_call(struct job job, const char *how, const char *files, const char *words, long step)
{
    char what[100];
    job_need_preload();
    job_enter(&job);
    job.preload = how;
    job.files = files;
    for (job.at = 1;; job.at += step) {
        job_reset();
        const int status = job_run(&job);
        if (access("told", F_OK) < 0) {
            CHECK_EQ(status, job_bad(&job));
            break;
        }
        snprintf(what, sizeof what, "%s from call %ld on", how, job.at);
        /* The last calls only empty the log. The run succeeds without them. */
        if (status != 255 && (status != (int)job_bad(&job) || job_committed(&job) != (int64_t)job.n))
            FAIL("%s: ended with %d, %lld kept: %s", what, status, (long long)job_committed(&job), job_message());
        if (status == 255)
            CHECK_CONTAINS(job_message(), words);
        job_resume_and_check(job, what);
    }
    CHECK_GT(job.at, 3);
}

TEST_WITHIN(600, no_room_for_the_journal)
{
    fail_from_every_call((struct job){ .n = 120 }, "ENOSPC", "/kept/run.db", "run.db", 1);
}

TEST_WITHIN(600, errors_of_the_journal)
{
    fail_from_every_call((struct job){ .n = 120 }, "EIO", "/kept/run.db", "run.db", 1);
}

TEST_WITHIN(600, errors_of_a_journal_that_is_forced_to_the_disk)
{
    fail_from_every_call((struct job){ .n = 60, .full = true }, "EIO", "/kept/run.db", "run.db", test_soak() ? 1 : 3);
}

TEST_WITHIN(600, no_room_for_the_output)
{
    fail_from_every_call((struct job){ .n = 30 }, "ENOSPC", OUTPUT, "out.jsonl", 1);
}

TEST_WITHIN(600, no_room_for_the_results)
{
    fail_from_every_call((struct job){ .n = 8, .results = true }, "ENOSPC", "/kept/R/", "kept/R", 1);
}

TEST_WITHIN(600, no_room_for_anything)
{
    fail_from_every_call((struct job){ .n = 30, .results = true }, "ENOSPC", "/kept/", "kept", test_soak() ? 1 : 5);
}

TEST(a_missing_directory)
{
    const struct job job = { .n = 3 };
    job_enter(&job);
    CHECK_EQ(job_run(&job), 255);
    CHECK_CONTAINS(job_message(), "cannot create the journal: the directory kept does not exist");
    CHECK_EQ(job_lines("log"), 0);
}

/* Root may write anywhere. So for root, a file takes the place of the directory. */
TEST(a_directory_that_is_read_only)
{
    const struct job job = { .n = 3 };
    job_enter(&job);
    job_reset();
    CHECK_EQ(chmod("kept", 0555), 0);
    if (access("kept", W_OK) == 0) {
        CHECK_EQ(rmdir("kept"), 0);
        const int fd = open("kept", O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        CHECK(fd >= 0);
        close(fd);
    }
    CHECK_EQ(job_run(&job), 255);
    CHECK_CONTAINS(job_message(), "kept"); /* the directory, or the journal in it */
    CHECK_EQ(job_lines("log"), 0);
}

TEST_MAIN()
