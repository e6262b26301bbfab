/* Runs with a journal: what is recorded, and what a resumed run skips. */
#include <fcntl.h>
#include <sched.h>
#include <semaphore.h>

#include "support/journal.h"

/* --- the first run --- */

TEST(a_run_is_recorded)
{
    directory_enter();
    struct job job = JOB("");
    job_lines(&job, "a", "b", "!c", NULL);
    job.j.command = "test";
    job.o.total_tasks = 3;
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(job.closed, 0);
    CHECK_STR(job_ran(&job), "a b !c");
    CHECK_STR(job_sql("run.db", "SELECT number, input, state, attempts, failure, error FROM task ORDER BY id"),
              "0|a|done|1|NULL|NULL 1|b|done|1|NULL|NULL 2|!c|failed|1|error|as requested");
    CHECK_STR(job_sql("run.db", "SELECT number, command, outcome, total, taken, skipped, done, failed, all_done,"
                                " all_failed FROM run"),
              "1|test|finished|3|3|0|2|1|2|1");
    CHECK_EQ(job.counts.recorded, 3);
    CHECK_EQ(job.counts.waiting, 0);
    CHECK_STR(job_sql("run.db", "PRAGMA integrity_check"), "ok");
    CHECK(access("run.db-lock", F_OK) < 0);
    CHECK(access("run.db-wal", F_OK) < 0);
}

TEST(times_are_those_of_the_clock)
{
    directory_enter();
    struct job job = JOB("");
    job_numbers(&job, 100);
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_sql("run.db", "SELECT count(*) FROM task, run WHERE task.started BETWEEN run.started - 0.5 AND"
                                " run.ended + 0.5 AND seconds BETWEEN 0 AND 5 AND worker IN (0, 1) AND gpu IN (0, 1)"),
              "100");
    CHECK_STR(job_sql("run.db", "SELECT abs(started - strftime('%s', 'now')) < 60 FROM run"), "1");
}

TEST(ids_are_in_the_order_of_the_list)
{
    directory_enter();
    struct job job = JOB("");
    job_numbers(&job, 5000);
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_sql("run.db", "SELECT count(*), min(id), max(id), sum(id <> number + 1) FROM task"), "5000|1|5000|0");
}

/* --- several runs of one dispatcher --- */

static void run_with_journal(struct job *job, const char *path)
{
    struct gd_source s = GD_SOURCE_INIT;
    s.source = job_source;
    s.user = job;
    job->j.path = path;
    job->j.resume = GD_JOURNAL_RESUME_REST;
    job->next = 0;
    memset(job->ended, 0, job->n * sizeof *job->ended);
    if (path)
        CHECK_EQ(gd_journal_open(&s.journal, &job->j), 0);
    CHECK_EQ(gd_dispatcher_run_source(job->d, &s), 0);
    if (path)
        CHECK_EQ(gd_journal_close(&s.journal), 0); /* the dispatcher does not use it any more */
    CHECK_EQ(gd_dispatcher_stats(job->d, &job->stats), 0);
}

TEST(each_run_of_a_dispatcher_has_its_own_journal)
{
    directory_enter();
    struct job job = JOB("");
    job_lines(&job, "a", "b", NULL);
    CHECK_EQ(job_open(&job), 0);
    CHECK_EQ(gd_journal_close(&job.journal), 0);
    job.o.journal = NULL;
    job.o.keep_workers = true;
    CHECK_EQ(gd_dispatcher_open(&job.d, &job.o), 0);
    run_with_journal(&job, "first.db");
    CHECK_STR(job_ran(&job), "a b");
    run_with_journal(&job, "second.db");
    CHECK_STR(job_ran(&job), "a b");
    job_lines(&job, "a", "c", "b", NULL);
    job.ended = job_room((job.n + 1) * sizeof *job.ended);
    run_with_journal(&job, "first.db");
    CHECK_STR(job_ran(&job), "c"); /* task 1, after a skipped one */
    CHECK_EQ(job.stats.skipped, 2);
    CHECK_EQ(gd_dispatcher_stop_workers(job.d), 0);
    CHECK_EQ(gd_dispatcher_stats(job.d, &job.stats), 0);
    CHECK_EQ(job.stats.skipped, 2);
    run_with_journal(&job, NULL);
    CHECK_STR(job_ran(&job), "a c b");
    CHECK_EQ(job.stats.skipped, 0);
    gd_dispatcher_close(&job.d);
    CHECK_STR(job_sql("first.db", "SELECT number, input, state FROM task ORDER BY id"), "0|a|done 1|b|done 1|c|done");
    CHECK_STR(job_sql("first.db", "SELECT number, outcome, taken, skipped FROM run"), "1|finished|2|0 2|finished|1|2");
    CHECK_STR(job_sql("second.db", "SELECT count(*) FROM task"), "2");
}

/* --- resuming --- */

static void note_skip(void *user, const struct gd_skipped *s)
{
    struct job *job = user;
    const size_t at = strlen(job->mine);
    snprintf((char *)job->mine + at, 64 - at, " %llu:%.*s/%llu", (unsigned long long)s->task_id, (int)s->input_size,
             (const char *)s->input, (unsigned long long)s->weight);
}

/* The reports have the fields that the source gave, and come in the source's order. */
TEST(skipped_tasks_are_reported)
{
    char skipped[64] = "";
    directory_enter();
    struct job first = JOB("");
    job_lines(&first, "a", "bb", NULL);
    first.o.on_skip = note_skip;
    first.mine = skipped;
    CHECK_EQ(job_run(&first), 0);
    CHECK_STR(skipped, ""); /* there was nothing to skip */
    struct job again = JOB("");
    job_lines(&again, "x", "bb", "y", "a", NULL);
    again.j.resume = GD_JOURNAL_RESUME_REST;
    again.o.on_skip = note_skip;
    again.mine = skipped;
    CHECK_EQ(job_run(&again), 0);
    CHECK_STR(job_ran(&again), "x y");
    CHECK_STR(skipped, " 1:bb/2 3:a/1");
}

static void run_first(struct job *job, size_t n)
{
    directory_enter();
    job_numbers(job, n);
    CHECK_EQ(job_run(job), 0);
    job->j.resume = GD_JOURNAL_RESUME_REST;
}

TEST(final_tasks_are_skipped)
{
    struct job job = JOB("");
    run_first(&job, 1000);
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_ran(&job), "");
    CHECK_EQ(job.stats.skipped, 1000);
    CHECK_EQ(job.stats.taken, 0);
    CHECK_EQ(job.counts.skipped, 1000);
    CHECK_EQ(job.counts.run, 2);
    CHECK_EQ(job.counts.before, 1000);
}

TEST(added_tasks_are_run)
{
    struct job job = JOB("");
    run_first(&job, 10);
    job_lines(&job, "new1", "0", "1", "2", "new2", "3", "4", "5", "6", "7", "8", "9", "new3", NULL);
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_ran(&job), "new1 new2 new3");
    CHECK_EQ(job.stats.skipped, 10);
    CHECK_STR(job_sql("run.db", "SELECT count(*), count(DISTINCT input) FROM task"), "13|13");
}

/* Journals of an earlier release have another page size. */
TEST(pages_of_another_size_do_not_matter)
{
    struct job job = JOB("");
    run_first(&job, 10);
    CHECK_STR(job_sql("run.db", "PRAGMA page_size"), "16384");
    sqlite3 *db;
    CHECK_EQ(sqlite3_open("run.db", &db), SQLITE_OK);
    CHECK_EQ(sqlite3_exec(db, "PRAGMA journal_mode = DELETE; PRAGMA page_size = 4096; VACUUM", NULL, NULL, NULL),
             SQLITE_OK);
    CHECK_EQ(sqlite3_close(db), SQLITE_OK);
    job_lines(&job, "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "new", NULL);
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_ran(&job), "new");
    CHECK_STR(job_sql("run.db", "PRAGMA page_size"), "4096");
    CHECK_STR(job_sql("run.db", "SELECT count(*), count(DISTINCT input) FROM task"), "11|11");
}

TEST(lines_that_are_gone_do_not_matter)
{
    struct job job = JOB("");
    run_first(&job, 10);
    job_lines(&job, "1", "7", "9", "x", NULL);
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_ran(&job), "x");
    CHECK_STR(job_sql("run.db", "SELECT count(*) FROM task"), "11");
}

TEST(the_order_does_not_matter)
{
    struct job job = JOB("");
    run_first(&job, 10000);
    for (size_t i = 0; i < job.n / 2; i++) {
        const char *line = job.lines[i];
        job.lines[i] = job.lines[job.n - 1 - i];
        job.lines[job.n - 1 - i] = line;
    }
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_ran(&job), "");
    CHECK_EQ(job.stats.skipped, 10000);
}

TEST(each_record_counts_once_in_any_order)
{
    struct job job = JOB("");
    run_first(&job, 6000);
    const char **lines = job_room(12000 * sizeof *lines);
    for (size_t i = 0; i < 6000; i++)
        lines[i] = lines[6000 + i] = job.lines[5999 - i];
    job.lines = lines;
    job.n = 12000;
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(job.stats.skipped, 6000);
    CHECK_EQ(job.done, 6000);
    CHECK_STR(job_sql("run.db", "SELECT count(*), count(DISTINCT input) FROM task"), "12000|6000");
}

/* The journal looks as after a kill: tasks that were running have no record. */
TEST(ids_stay_in_the_order_of_the_list)
{
    struct job job = JOB("");
    run_first(&job, 9000);
    job_sql("run.db", "DELETE FROM task WHERE id % 100 IN (7, 8, 9) OR id > 8950");
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(job.done, 320);
    CHECK_STR(job_sql("run.db", "SELECT count(*), max(id), sum(id <> number + 1), sum(CAST(input AS INTEGER) + 1 <> id)"
                                " FROM task"),
              "9000|9000|0|0");
}

TEST(equal_lines_are_as_many_tasks)
{
    directory_enter();
    struct job job = JOB("");
    job_lines(&job, "a", "a", "b", NULL);
    CHECK_EQ(job_run(&job), 0);
    job.j.resume = GD_JOURNAL_RESUME_REST;
    job_lines(&job, "a", "b", "a", "a", "a", NULL);
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_ran(&job), "a a");
    CHECK_EQ(job.stats.skipped, 3);
}

TEST(a_changed_version_is_run_again)
{
    directory_enter();
    struct job job = JOB("");
    static const char *first[] = { "1", "1", "1" }, *second[] = { "1", "2", NULL };
    job_lines(&job, "a", "b", "c", NULL);
    job.versions = first;
    CHECK_EQ(job_run(&job), 0);
    job.versions = second;
    job.j.resume = GD_JOURNAL_RESUME_REST;
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_ran(&job), "b c");
    CHECK_STR(job_sql("run.db", "SELECT id, input, version, run, attempts FROM task ORDER BY id"),
              "1|a|1|1|1 2|b|2|2|1 3|c|NULL|2|1");
    CHECK_STR(job_sql("run.db", "SELECT all_done FROM run ORDER BY number"), "3 3");
}

TEST(failed_tasks_are_run_again_if_requested)
{
    directory_enter();
    struct job job = JOB("");
    job_lines(&job, "a", "?b", "!c", NULL);
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(job.failed, 2);
    job.j.resume = GD_JOURNAL_RESUME_REST;
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_ran(&job), "");
    job.j.resume = GD_JOURNAL_RESUME_FAILED;
    job.o.retries = 1;
    job_lines(&job, "a", "?b", "!c", "new", NULL);
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_ran(&job), "?b !c");
    CHECK_EQ(job.stats.skipped, 2);
    CHECK_STR(job_sql("run.db", "SELECT id, input, state, attempts FROM task ORDER BY id"),
              "1|a|done|1 2|?b|done|3 3|!c|failed|3");
    CHECK_STR(job_sql("run.db", "SELECT all_done, all_failed FROM run WHERE number = 3"), "2|1");
    job.j.resume = GD_JOURNAL_RESUME_REST_AND_FAILED;
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_ran(&job), "!c new");
    struct gd_journal_reader *r;
    struct gd_journal_summary s = { .size = sizeof s };
    CHECK_EQ(gd_journal_reader_open(&r, "run.db"), 0);
    CHECK_EQ(gd_journal_reader_summary(r, &s), 0);
    CHECK_EQ(s.replaced, 3); /* ?b and !c, and !c again */
    gd_journal_reader_close(&r);
}

static const char *tasks_by_worker(void)
{
    return job_sql("run.db",
                   "SELECT worker, count(*), min(number), max(number) FROM task WHERE run = 2 GROUP BY worker");
}

/* Tasks that are done already are not part of a chunk. */
TEST(chunks_divide_only_the_remaining_tasks)
{
    struct job job = JOB("");
    run_first(&job, 60);
    job_numbers(&job, 100);
    job.o.placement = GD_PLACE_CHUNKS;
    job.o.total_tasks = 100;
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(tasks_by_worker(), "0|20|60|79 1|20|80|99");
}

TEST(a_second_start_without_resuming_is_refused)
{
    struct job job = JOB("");
    run_first(&job, 3);
    job.j.resume = GD_JOURNAL_RESUME_NONE;
    CHECK_EQ(job_run(&job), GD_E_EXISTS);
    CHECK_CONTAINS(job.text, "3 tasks");
    CHECK_CONTAINS(job.text, "resume");
}

TEST(another_command_is_refused_unless_forced)
{
    directory_enter();
    struct job job = JOB("");
    job_lines(&job, "a", NULL);
    job.j.command = "one {}";
    CHECK_EQ(job_run(&job), 0);
    job.j.resume = GD_JOURNAL_RESUME_REST;
    job.j.command = "two {}";
    CHECK_EQ(job_run(&job), GD_E_MISMATCH);
    CHECK_CONTAINS(job.text, "\"one {}\"");
    CHECK_CONTAINS(job.text, "\"two {}\"");
    job.j.force = true;
    CHECK_EQ(job_run(&job), 0);
    job.j.force = false;
    job.j.command = "one {}"; /* the last one counts */
    CHECK_EQ(job_run(&job), GD_E_MISMATCH);
    job.j.command = NULL;
    CHECK_EQ(job_run(&job), 0);
}

/* --- kinds of runs --- */

TEST(an_ordered_run_skips_and_stays_ordered)
{
    struct job job = JOB("");
    run_first(&job, 1000);
    const char **lines = job_room(2000 * sizeof *lines);
    for (size_t i = 0; i < 1000; i++) { /* a new line after each old one */
        char *text = job_room(24);
        snprintf(text, 24, "new %zu", i);
        lines[2 * i] = job.lines[i];
        lines[2 * i + 1] = text;
    }
    job.lines = lines;
    job.n = 2000;
    job.o.ordered = true;
    job.follow = "out";
    job.follow_fd = open("out", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(job.done, 1000);
    CHECK_EQ(job.stats.skipped, 1000);
    FILE *f = fopen("out", "re");
    CHECK(f != NULL);
    for (unsigned i = 0; i < 1000; i++) {
        unsigned n;
        CHECK_EQ(fscanf(f, "new %u\n", &n), 1);
        CHECK_EQ(n, i);
    }
    fclose(f);
}

static unsigned placed;

static int place_by_weight(void *user, uint64_t task_id, uint64_t weight, unsigned n_workers)
{
    const struct job *job = user;
    CHECK_LT(task_id, job->n);
    CHECK_EQ(weight, strlen(job->lines[task_id])); /* its size, if the source gives no weight */
    placed++;
    return (int)(weight % n_workers);
}

/* With a journal, weights reach the scheduler in another way. */
TEST(placement_gets_numbers_and_weights)
{
    struct job first = JOB("run.db"), second = JOB("run.db");
    directory_enter();
    job_lines(&first, "a", "bb", "ccc", NULL);
    CHECK_EQ(job_run(&first), 0);
    job_lines(&second, "a", "dddd", "bb", "eeeee", "ccc", "ffffff", NULL);
    second.j.resume = GD_JOURNAL_RESUME_REST;
    second.o.placement = GD_PLACE_CUSTOM;
    second.o.place = place_by_weight;
    placed = 0;
    CHECK_EQ(job_run(&second), 0);
    CHECK_STR(job_ran(&second), "dddd eeeee ffffff");
    CHECK_EQ(placed, 3);
}

TEST(batches_are_recorded_singly)
{
    directory_enter();
    struct job job = JOB("");
    job_numbers(&job, 500);
    job.o.batch_size = 7;
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_sql("run.db", "SELECT count(*), count(DISTINCT key) FROM task"), "500|500");
}

TEST(a_crash_is_recorded_with_its_signal)
{
    directory_enter();
    struct job job = JOB("");
    job_lines(&job, "a", "%b", "c", NULL);
    job.o.crash_limit = 2;
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_sql("run.db", "SELECT input, state, failure, signal, attempts FROM task WHERE state = 'failed'"),
              "%b|failed|crash|9|2");
}

TEST(retries_within_a_run_count_as_attempts)
{
    directory_enter();
    struct job job = JOB("");
    job_lines(&job, "?a", NULL);
    job.o.retries = 2;
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_sql("run.db", "SELECT state, attempts FROM task"), "done|2");
}

static void shut_down_at_ten(struct job *job, const struct gd_report *r)
{
    (void)r;
    if (job->done == 10)
        gd_dispatcher_shutdown(job->d);
}

TEST(cancelled_tasks_have_no_record)
{
    directory_enter();
    struct job job = JOB("");
    job_numbers(&job, 5000);
    job.on_final = shut_down_at_ten;
    CHECK_EQ(job_run(&job), GD_E_SHUTDOWN);
    char done[32];
    snprintf(done, sizeof done, "%u|shut down", job.done);
    CHECK_LT(job.done, 5000);
    CHECK_STR(job_sql("run.db", "SELECT (SELECT count(*) FROM task), outcome FROM run"), done);
    job.on_final = NULL;
    job.j.resume = GD_JOURNAL_RESUME_REST;
    const unsigned before = job.done;
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(job.done + before, 5000);
    CHECK_STR(job_sql("run.db", "SELECT count(*), sum(id <> number + 1) FROM task"), "5000|0");
}

static sem_t heard;
static unsigned asked_after;

static void hear(void *user)
{
    (void)user;
    CHECK_EQ(sem_post(&heard), 0);
}

/* Shuts the run down in the middle of the list, and waits until that took effect. */
static int stopping_source(void *user, struct gd_item *item)
{
    struct job *job = user;
    if (job->next > 1000)
        asked_after++;
    if (job->next == 1000) {
        gd_dispatcher_shutdown(job->d);
        while (sem_wait(&heard) < 0)
            CHECK_EQ(errno, EINTR);
    }
    return job_source(user, item);
}

/* Every line is skipped, so the run waits for no task. */
TEST(a_shutdown_takes_effect_while_skipping)
{
    struct job job = JOB("");
    run_first(&job, 4000);
    CHECK_EQ(sem_init(&heard, 0, 0), 0);
    CHECK_EQ(job_open(&job), 0);
    job.o.source = stopping_source;
    job.o.source_cancel = hear;
    CHECK_EQ(gd_dispatcher_open(&job.d, &job.o), 0);
    CHECK_EQ(gd_dispatcher_run(job.d), GD_E_SHUTDOWN);
    gd_dispatcher_close(&job.d);
    CHECK_EQ(gd_journal_close(&job.journal), 0);
    CHECK_EQ(asked_after, 0);
}

/* --- an abandoned source --- */

static int gate[2], gone[2];

static int stuck_source(void *user, struct gd_item *item)
{
    struct job *job = user;
    char byte;
    if (job->next == 5) {
        const pid_t self = gettid();
        CHECK_EQ(read(gate[0], &byte, 1), 1);
        CHECK_EQ(write(gone[1], &self, sizeof self), sizeof self);
    }
    return job_source(user, item);
}

static void shut_down_at_five(struct job *job, const struct gd_report *r)
{
    (void)r;
    if (job->done == 5)
        gd_dispatcher_shutdown(job->d);
}

/* The source gives one more task after the journal was closed. Sanitizers check which memory it uses then. */
TEST(a_source_that_comes_back_late_finds_no_journal)
{
    directory_enter();
    struct job job = JOB("");
    pid_t source;
    CHECK_EQ(pipe2(gate, O_CLOEXEC), 0);
    CHECK_EQ(pipe2(gone, O_CLOEXEC), 0);
    job_numbers(&job, 100);
    CHECK_EQ(job_open(&job), 0);
    job.o.source = stuck_source;
    job.o.stop_grace_ms = 1;
    job.on_final = shut_down_at_five;
    CHECK_EQ(gd_dispatcher_open(&job.d, &job.o), 0);
    CHECK_EQ(gd_dispatcher_run(job.d), GD_E_SHUTDOWN);
    gd_dispatcher_close(&job.d);
    CHECK_EQ(gd_journal_close(&job.journal), 0);
    CHECK_EQ(write(gate[1], "x", 1), 1);
    CHECK_EQ(read(gone[0], &source, sizeof source), sizeof source);
    while (syscall(SYS_tgkill, getpid(), source, 0) == 0)
        sched_yield();
    CHECK_STR(job_sql("run.db", "SELECT count(*) FROM task"), "5");
}

/* --- notes --- */

static void note_all(struct job *job, const struct gd_report *r)
{
    const struct gd_journal_note n = { .size = sizeof n,
                                       .output = "out/1.txt",
                                       .stderr_end = "warning\n",
                                       .stderr_size = 8,
                                       .failure = r->failure ? "exit" : NULL,
                                       .exit_code = r->failure ? 3 : 0,
                                       .input = "shown",
                                       .input_size = 5 };
    if (r->task_id != 1)
        gd_journal_add_note(job->journal, &n);
}

TEST(notes_are_recorded_with_their_own_task)
{
    directory_enter();
    struct job job = JOB("");
    job_lines(&job, "a", "b", "!c", NULL);
    job.on_final = note_all;
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_sql("run.db", "SELECT input, input_size, output, stderr, failure, exit_code FROM task ORDER BY id"),
              "shown|5|out/1.txt|warning\n|NULL|NULL b|1|NULL|NULL|NULL|NULL shown|5|out/1.txt|warning\n|exit|3");
}

TEST(long_inputs_are_cut_between_characters)
{
    directory_enter();
    struct job job = JOB("");
    job_lines(&job, "abc\xc3\xa4\xc3\xa4", "\xff\xfe", "", NULL);
    job.j.input_bytes = 6;
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_sql("run.db", "SELECT hex(input), typeof(input), input_size FROM task ORDER BY id"),
              "616263C3A4|text|7 FFFE|blob|2 |text|0");
}

/* --- reading --- */

struct seen {
    unsigned n;
    char text[2000];
};

static int see(void *user, const struct gd_journal_record *r)
{
    struct seen *s = user;
    const size_t at = strlen(s->text);
    s->n++;
    snprintf(s->text + at, sizeof s->text - at, "%s%.*s:%s", at > 0 ? " " : "", (int)r->input_size, r->input,
             r->done ? "done" : r->failure);
    return s->n == 5 ? 77 : 0;
}

static int see_failure(void *user, const char *failure, uint64_t n)
{
    struct seen *s = user;
    const size_t at = strlen(s->text);
    snprintf(s->text + at, sizeof s->text - at, "%s%s=%llu", at > 0 ? " " : "", failure, (unsigned long long)n);
    return 0;
}

TEST(a_reader_returns_the_summary_and_all_records)
{
    directory_enter();
    struct job job = JOB("");
    job_lines(&job, "a", "!b", "c", "!d", "%e", "f", "g", NULL);
    job.j.command = "the command";
    job.o.crash_limit = 1;
    job.o.total_tasks = 7;
    CHECK_EQ(job_run(&job), 0);
    struct gd_journal_reader *r;
    struct gd_journal_summary s = { .size = sizeof s };
    CHECK_EQ(gd_journal_reader_open(&r, "run.db"), 0);
    CHECK_EQ(gd_journal_reader_summary(r, &s), 0);
    CHECK_EQ(s.runs, 1);
    CHECK_EQ(s.done, 4);
    CHECK_EQ(s.failed, 3);
    CHECK_EQ(s.run_done, 4);
    CHECK_EQ(s.run_failed, 3);
    CHECK_EQ(s.total, 7);
    CHECK_EQ(s.taken, 7);
    CHECK_EQ(s.replaced, 0);
    CHECK(!s.held);
    CHECK_EQ(s.pid, getpid());
    CHECK_STR(s.command, "the command");
    CHECK_STR(s.end, "finished");
    CHECK(s.started > 1e9 && s.ended >= s.started && s.written >= s.started);
    struct seen seen = { .n = 0 };
    struct gd_journal_query q = { .size = sizeof q };
    CHECK_EQ(gd_journal_reader_each(r, &q, see, &seen), 77);
    CHECK_STR(seen.text, "a:done !b:error c:done !d:error %e:crash");
    seen = (struct seen){ .n = 0 };
    q.failed_only = true;
    CHECK_EQ(gd_journal_reader_each(r, &q, see, &seen), 0);
    CHECK_STR(seen.text, "!b:error !d:error %e:crash");
    seen = (struct seen){ .n = 0 };
    q.failure = "crash";
    CHECK_EQ(gd_journal_reader_each(r, &q, see, &seen), 0);
    CHECK_STR(seen.text, "%e:crash");
    seen = (struct seen){ .n = 0 };
    q = (struct gd_journal_query){ .size = sizeof q, .order = GD_JOURNAL_SLOWEST, .limit = 2 };
    CHECK_EQ(gd_journal_reader_each(r, &q, see, &seen), 0);
    CHECK_EQ(seen.n, 2);
    seen = (struct seen){ .n = 0 };
    CHECK_EQ(gd_journal_reader_failures(r, see_failure, &seen), 0);
    CHECK_STR(seen.text, "error=2 crash=1");
    gd_journal_reader_close(&r);
    CHECK(r == NULL);
}

static int count_records(void *user, const struct gd_journal_record *r)
{
    unsigned *n = user;
    CHECK_EQ(r->id, *n + 1);
    ++*n;
    return 0;
}

TEST(a_reader_reads_many_records)
{
    struct job job = JOB("");
    run_first(&job, 5000);
    struct gd_journal_reader *r;
    unsigned n = 0;
    CHECK_EQ(gd_journal_reader_open(&r, "run.db"), 0);
    CHECK_EQ(gd_journal_reader_each(r, NULL, count_records, &n), 0);
    CHECK_EQ(n, 5000);
    n = 0;
    const struct gd_journal_query q = { .size = sizeof q, .limit = 1234 };
    CHECK_EQ(gd_journal_reader_each(r, &q, count_records, &n), 0);
    CHECK_EQ(n, 1234);
    gd_journal_reader_close(&r);
}

static void read_meanwhile(struct job *job, const struct gd_report *report)
{
    (void)report;
    if (job->done != 1)
        return;
    struct gd_journal_reader *r;
    struct gd_journal_summary s = { .size = sizeof s };
    CHECK_EQ(gd_journal_reader_open(&r, "run.db"), 0);
    CHECK_EQ(gd_journal_reader_summary(r, &s), 0);
    CHECK(s.held);
    CHECK(s.end == NULL);
    CHECK_EQ(s.pid, getpid());
    gd_journal_reader_close(&r);
}

TEST(a_reader_works_while_the_run_goes_on)
{
    directory_enter();
    struct job job = JOB("");
    job_numbers(&job, 1000);
    job.on_final = read_meanwhile;
    CHECK_EQ(job_run(&job), 0);
}

TEST(a_reader_needs_a_journal)
{
    directory_enter();
    struct gd_journal_reader *r;
    CHECK_EQ(gd_journal_reader_open(&r, "none.db"), GD_E_SYSTEM);
    CHECK_CONTAINS(gd_error_text(), "none.db");
    CHECK(access("none.db", F_OK) < 0);
    CHECK_EQ(gd_journal_reader_open(&r, NULL), GD_E_INVALID);
    gd_journal_reader_close(NULL);
}

int main(int argc, char **argv)
{
    if (job_main(&argc, argv) < 0)
        return fprintf(stderr, "%s\n", gd_error_text()), 1;
    return test_main(argc, argv);
}
