/* SPDX-License-Identifier: MIT
 *
 * Stream programs that announce "concurrency", in real runs: they gather tasks into batches, and never hang.
 */
#include <semaphore.h>

#include "system/streams/stream_job.h"

TEST(a_program_that_gathers_tasks_gets_to_the_end)
{
    static const unsigned concurrency[] = { 0, 1, 5, 16, 64 };
    for (size_t i = 0; i < sizeof concurrency / sizeof concurrency[0]; i++) {
        struct job j;
        open_job(&j, "gather", NULL);
        j.o.concurrency = concurrency[i];
        j.o.n_gpus = 2;
        j.n = 1003; /* the last batch is not full */
        j.fill = number;
        CHECK_EQ(run_job(&j), 0);
        check_numbers(&j);
        CHECK_EQ(j.exits, 0);
        CHECK_STR(j.cleanup_error, "");
        close_job(&j);
    }
}

/* Three inputs fill the buffer of what is sent to the program. When the program has taken them, it must be told that no
 * more tasks follow. */
static size_t large(size_t i, char **bytes)
{
    enum { SIZE = 300000 };
    (void)i;
    *bytes = malloc(SIZE);
    CHECK(*bytes != NULL);
    memset(*bytes, 'x', SIZE);
    return SIZE;
}

TEST(large_inputs_are_flushed_too)
{
    struct job j;
    open_job(&j, "gather", NULL);
    j.n = 3;
    j.fill = large;
    CHECK_EQ(run_job(&j), 0);
    for (size_t i = 0; i < j.n; i++)
        CHECK_EQ(j.finals[i].failure, GD_FAILURE_NONE);
    close_job(&j);
}

/* The source gives five tasks, and the next one only when these are done. So they must not wait for a full batch. */
enum { TOGETHER = 5 };
static sem_t done;

static int slow_source(void *user, struct gd_item *item)
{
    const struct job *j = user;
    for (int i = 0; j->next > 0 && j->next % TOGETHER == 0 && i < TOGETHER; i++)
        while (sem_wait(&done) < 0)
            ;
    return source(user, item);
}

static void on_slow_final(void *user, const struct gd_report *r)
{
    on_final(user, r);
    sem_post(&done);
}

TEST(a_slow_source_does_not_make_a_program_wait)
{
    struct job j;
    CHECK_EQ(sem_init(&done, 0, 0), 0);
    open_job(&j, "gather", NULL);
    j.o.source = slow_source;
    j.o.on_success = on_slow_final;
    j.n = 20ul * TOGETHER;
    j.fill = number;
    CHECK_EQ(run_job(&j), 0);
    check_numbers(&j);
    close_job(&j);
}

static size_t one_is_held(size_t i, char **bytes)
{
    return (size_t)(i == 7 ? asprintf(bytes, "hold") : asprintf(bytes, "task %zu", i));
}

TEST(a_time_limit_cancels_only_one_task)
{
    struct job j;
    open_job(&j, "gather", NULL);
    j.o.task_timeout_ms = PATIENCE_MS;
    j.n = 100;
    j.fill = one_is_held;
    CHECK_EQ(run_job(&j), 0);
    for (size_t i = 0; i < j.n; i++) {
        CHECK_EQ(j.finals[i].failure, i == 7 ? GD_FAILURE_TIMEOUT : GD_FAILURE_NONE);
        CHECK_EQ(j.finals[i].attempt, 1);
    }
    CHECK_EQ(j.exits, 0); /* the program was not killed */
    CHECK_STR(j.cleanup_error, "");
    close_job(&j);
}

TEST_MAIN()
