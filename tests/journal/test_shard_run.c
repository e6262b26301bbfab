/* Runs of shards with journals: all shards together record each task once, and the journal decides which shard is run. */
#include "support/journal.h"

static const struct gd_shard whole = { 0, 0 };

static void open_shard(struct job *job, uint32_t index, uint32_t count, bool reversed)
{
    job_numbers(job, 100);
    for (size_t i = 0; reversed && i < job->n / 2; i++) {
        const char *line = job->lines[i];
        job->lines[i] = job->lines[job->n - 1 - i];
        job->lines[job->n - 1 - i] = line;
    }
    job->j.shard = (struct gd_shard){ index, count };
    job->j.resume = GD_JOURNAL_RESUME_REST;
    job->o.total_tasks = job->n;
}

/* gd_options.shard is not set, so that of the journal is used. Each process has the list in another order. */
TEST(all_shards_together_record_each_task_once)
{
    unsigned ended[100] = { 0 };
    directory_enter();
    for (uint32_t index = 0; index < 3; index++) {
        struct job job = JOB("");
        char path[64], expected[64];
        open_shard(&job, index, 3, index == 1);
        CHECK_EQ(job_run(&job), 0);
        for (size_t i = 0; i < job.n; i++) /* job_final() has checked that task ids are positions in the list */
            ended[strtoul(job.lines[i], NULL, 10)] += job.ended[i];
        snprintf(path, sizeof path, "run.%u-of-3.db", index + 1);
        snprintf(expected, sizeof expected, "%u|%u|0|%u|%u/3", job.done, job.done, job.done, index + 1);
        CHECK_STR(job_sql(path, "SELECT total, taken, skipped, all_done, shard FROM run"), expected);
        CHECK_STR(job_sql(path, index == 1 ? "SELECT sum(number <> 99 - CAST(input AS INTEGER)) FROM task"
                                           : "SELECT sum(number <> CAST(input AS INTEGER)) FROM task"),
                  "0");
        CHECK_EQ(job.stats.total, job.done);
    }
    for (unsigned i = 0; i < 100; i++)
        CHECK_EQ(ended[i], 1);
}

TEST(a_shard_is_resumed)
{
    directory_enter();
    struct job first = JOB(""), second = JOB("");
    open_shard(&first, 1, 4, false);
    first.n = 50;
    CHECK_EQ(job_run(&first), 0);
    CHECK_GT(first.done, 0);
    open_shard(&second, 1, 4, true);
    second.o.shard = second.j.shard; /* both are allowed */
    CHECK_EQ(job_run(&second), 0);
    CHECK_EQ(second.stats.skipped, first.done);
    CHECK_EQ(second.stats.total, first.done + second.done);
    CHECK_STR(job_sql("run.2-of-4.db", "SELECT count(*) = count(DISTINCT input) FROM task"), "1");
    CHECK_STR(job_sql("run.2-of-4.db", "SELECT total = taken + skipped FROM run"), "1 1");
}

/* If a run is stopped before the end of its list, how many tasks belong to the shard is not known. */
static void stop(struct job *job, const struct gd_report *r)
{
    (void)r;
    gd_dispatcher_shutdown(job->d);
}

TEST(the_total_of_a_stopped_shard_is_not_known)
{
    directory_enter();
    struct job job = JOB("");
    open_shard(&job, 0, 2, false);
    job.o.queue_size = 1;
    job.o.window = 1;
    job.on_final = stop;
    CHECK_EQ(job_run(&job), GD_E_SHUTDOWN);
    CHECK_STR(job_sql("run.1-of-2.db", "SELECT total FROM run"), "0");
}

/* --- the shard of the run and that of the journal --- */

TEST(two_shards_in_one_run_are_refused)
{
    directory_enter();
    struct job job = JOB("");
    open_shard(&job, 1, 4, false);
    job.o.shard = (struct gd_shard){ 2, 4 };
    CHECK_EQ(job_run(&job), GD_E_INVALID);
    CHECK_CONTAINS(job.text, "gd_options.shard is shard 3 of 4, but the journal was opened for shard 2 of 4");
    CHECK_EQ(job.closed, 0);
}

TEST(each_source_may_have_a_journal_of_the_shard)
{
    directory_enter();
    struct job job = JOB("");
    struct gd_source s = GD_SOURCE_INIT;
    open_shard(&job, 0, 2, false);
    CHECK_EQ(job_open(&job), 0);
    CHECK_EQ(gd_journal_close(&job.journal), 0);
    job.o.journal = NULL;
    job.o.keep_workers = true;
    job.o.shard = (struct gd_shard){ 0, 2 };
    CHECK_EQ(gd_dispatcher_open(&job.d, &job.o), 0);
    s.source = job_source;
    s.user = &job;
    job.j.path = "first.db";
    CHECK_EQ(gd_journal_open(&s.journal, &job.j), 0);
    CHECK_EQ(gd_dispatcher_run_source(job.d, &s), 0);
    CHECK_EQ(gd_journal_close(&s.journal), 0);
    const unsigned done = job.done;
    CHECK_GT(done, 0);
    CHECK_LT(done, 100);

    job.j.path = "second.db";
    job.j.shard = (struct gd_shard){ 1, 2 };
    job.next = 0;
    CHECK_EQ(gd_journal_open(&s.journal, &job.j), 0);
    CHECK_EQ(gd_dispatcher_run_source(job.d, &s), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "the journal was opened for shard 2 of 2");
    CHECK_EQ(gd_journal_close(&s.journal), 0);
    CHECK_EQ(job.done, done);
    gd_dispatcher_close(&job.d);
}

/* The program has chosen the name of the journal itself. */
TEST(a_journal_without_a_shard_may_be_used)
{
    directory_enter();
    struct job job = JOB("");
    open_shard(&job, 0, 2, false);
    job.j.shard = whole;
    job.o.shard = (struct gd_shard){ 0, 2 };
    CHECK_EQ(job_run(&job), 0);
    CHECK_GT(job.done, 0);
    CHECK_LT(job.done, 100);
    CHECK_EQ(job.stats.total, job.done);
    CHECK_EQ(access("run.db", F_OK), 0);
}

int main(int argc, char **argv)
{
    if (job_main(&argc, argv) < 0)
        return fprintf(stderr, "%s\n", gd_error_text()), 1;
    return test_main(argc, argv);
}
