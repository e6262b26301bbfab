/* SPDX-License-Identifier: MIT
 *
 * The worker host: batches, and how they are split when memory runs out.
 */
#include "unit/worker/worker_fixture.h"

/* ---- batches ---- */

TEST(a_batch_is_one_call_and_each_task_has_its_own_result)
{
    prepare();
    f->spec.config.batch_size = 8;
    start_ready("batch");
    append_batch((const char *[]){ "e one", "x", "-", "L1000" }, 4);
    append_batch((const char *[]){ "e two", "z" }, 2);
    gd__channel_publish(&f->c);
    expect_at(0, GD__R_SUCCESS);
    CHECK_STR(f->bytes, "e one");
    expect_at(1, GD__R_ERROR);
    CHECK_STR(f->bytes, "bad thing number 101");
    expect_at(2, GD__R_SUCCESS);
    CHECK_EQ(f->size, 0);
    expect_at(3, GD__R_SUCCESS);
    CHECK_EQ(f->size, 1000);
    expect_at(4, GD__R_SUCCESS);
    expect_at(5, GD__R_ERROR);
    CHECK_STR(f->bytes, "said so");
    CHECK_EQ(f->record.safe_batch, 0);
    stop();
    CHECK_EQ(shared->n_calls, 2);
    CHECK_EQ(shared->calls[0], 4);
    CHECK_EQ(shared->calls[1], 2);
}

TEST(a_failed_batch_fails_all_tasks_without_their_own_failure)
{
    prepare();
    f->spec.config.batch_size = 8;
    start_ready("batch");
    append_batch((const char *[]){ "e one", "x", "R" }, 3);
    gd__channel_publish(&f->c);
    expect_at(0, GD__R_ERROR);
    CHECK_STR(f->bytes, "the whole batch of 3");
    expect_at(1, GD__R_ERROR);
    CHECK_STR(f->bytes, "bad thing number 101");
    expect_at(2, GD__R_ERROR);
    CHECK_STR(f->bytes, "the whole batch of 3");
    expect("Q", GD__R_ERROR, "failed"); /* not the error message of the batch before */
    stop();
}

TEST(a_batch_out_of_memory_is_split_and_the_safe_size_is_kept)
{
    prepare();
    f->spec.config.batch_size = 16;
    shared->oom_above = 3;
    start_ready("batch");
    append_same("e split", 10);
    gd__channel_publish(&f->c);
    for (uint64_t i = 0; i < 10; i++) {
        expect_at(i, GD__R_SUCCESS);
        CHECK_STR(f->bytes, "e split");
    }
    /* The batch of 10 is split into 5 and 5. Both fail too, and are split into 2 and 3. */
    const int first[] = { 10, 5, 2, 3, 5, 2, 3 };
    CHECK_EQ(shared->n_calls, 7);
    for (int i = 0; i < 7; i++)
        CHECK_EQ(shared->calls[i], first[i]);
    append_same("e split", 8);
    gd__channel_publish(&f->c);
    for (uint64_t i = 10; i < 18; i++) {
        expect_at(i, GD__R_SUCCESS);
        CHECK_EQ(f->record.safe_batch, 3);
    }
    stop();
    CHECK_EQ(shared->n_calls, 10); /* the next batch of 8 is split into 3, 3 and 2 without a failure */
    CHECK_EQ(shared->calls[7], 3);
    CHECK_EQ(shared->calls[8], 3);
    CHECK_EQ(shared->calls[9], 2);
}

TEST(a_task_that_never_fits_fails_alone)
{
    prepare();
    f->spec.config.batch_size = 8;
    start_ready("batch");
    append_batch((const char *[]){ "e", "e", "m", "e" }, 4);
    gd__channel_publish(&f->c);
    expect_at(0, GD__R_SUCCESS);
    expect_at(1, GD__R_SUCCESS);
    expect_at(2, GD__R_OUT_OF_MEMORY);
    CHECK_STR(f->bytes, "full");
    expect_at(3, GD__R_SUCCESS);
    expect("e", GD__R_SUCCESS, "e");
    CHECK_EQ(f->record.safe_batch, 0); /* other tasks can still run in batches */
    stop();
}

TEST(a_split_batch_keeps_large_results_separate)
{
    prepare();
    f->spec.config.batch_size = 8;
    f->spec.config.result_capacity = 4;
    shared->oom_above = 1;
    start_ready("only_batch");
    append_same("L5000", 8);
    gd__channel_publish(&f->c);
    for (uint64_t i = 0; i < 8; i++) {
        expect_at(i, GD__R_SUCCESS);
        CHECK_EQ(f->size, 5000);
        CHECK_EQ(f->bytes[0], (char)(100 + i));
        CHECK_EQ(f->bytes[4999], (char)(100 + i));
    }
    stop();
}

TEST(results_of_one_half_of_a_split_batch_do_not_wait_for_the_other)
{
    prepare();
    f->spec.config.batch_size = 2;
    shared->oom_above = 1;
    start_ready("batch");
    append_batch((const char *[]){ "e", "g" }, 2);
    gd__channel_publish(&f->c);
    expect_at(0, GD__R_SUCCESS);
    sem_post(&shared->go);
    expect_at(1, GD__R_SUCCESS);
    stop();
}

TEST(all_tasks_of_a_batch_count_as_started)
{
    prepare();
    f->spec.config.batch_size = 4;
    start_ready("batch");
    append_batch((const char *[]){ "e", "g", "e" }, 3);
    gd__channel_publish(&f->c);
    await_reached();
    struct gd__progress progress;
    gd__channel_progress(&f->c, 0, &progress);
    CHECK_EQ(progress.started, 3);
    sem_post(&shared->go);
    for (uint64_t i = 0; i < 3; i++)
        expect_at(i, GD__R_SUCCESS);
    stop();
}

TEST(without_process_batch_tasks_run_one_at_a_time)
{
    prepare();
    f->spec.config.batch_size = 4;
    f->spec.config.report_start = 1;
    start_ready("plain");
    append_batch((const char *[]){ "e", "g", "e" }, 3);
    gd__channel_publish(&f->c);
    await_reached();
    CHECK_EQ(next(), GD__R_STARTED);
    expect_at(0, GD__R_SUCCESS); /* the first result does not wait for the batch */
    CHECK_EQ(next(), GD__R_STARTED);
    CHECK_EQ(f->record.position, 1);
    struct gd__progress progress;
    gd__channel_progress(&f->c, 0, &progress);
    CHECK_EQ(progress.started, 2);
    sem_post(&shared->go);
    expect_at(1, GD__R_SUCCESS);
    CHECK_EQ(next(), GD__R_STARTED);
    expect_at(2, GD__R_SUCCESS);
    stop();
}

TEST(without_process_process_batch_gets_single_tasks)
{
    prepare();
    start_ready("only_batch");
    expect("e x", GD__R_SUCCESS, "e x");
    expect("m", GD__R_OUT_OF_MEMORY, "full");
    stop();
    CHECK_EQ(shared->n_calls, 2);
    CHECK_EQ(shared->calls[0], 1);
}

TEST(device_lost_in_a_batch_keeps_the_other_results)
{
    prepare();
    f->spec.config.batch_size = 4;
    start_ready("batch");
    append_batch((const char *[]){ "e", "d", "e" }, 3);
    gd__channel_publish(&f->c);
    expect_at(0, GD__R_SUCCESS);
    expect_at(1, GD__R_DEVICE_LOST);
    expect_at(2, GD__R_SUCCESS);
    CHECK_EQ(next(), 0);
    CHECK_EQ(f->exit_code, GD__EXIT_DEVICE_LOST);
}

TEST(a_batch_whose_last_tasks_are_taken_back)
{
    prepare();
    f->spec.config.batch_size = 4;
    start_ready("batch");
    append("g");
    append_same("e", 4);
    gd__channel_publish(&f->c);
    await_reached();
    CHECK_EQ(gd__channel_take_back(&f->c, 3), 3);
    sem_post(&shared->go);
    for (uint64_t i = 0; i < 3; i++)
        expect_at(i, GD__R_SUCCESS);
    stop();
    CHECK_EQ(shared->n_calls, 2);
    CHECK_EQ(shared->calls[1], 2);
}

TEST(a_cancelled_batch)
{
    prepare();
    f->spec.config.batch_size = 2;
    start_ready("batch");
    append_same("c", 2);
    gd__channel_publish(&f->c);
    await_reached();
    cancel(2);
    expect_at(0, GD__R_CANCELLED);
    expect_at(1, GD__R_CANCELLED);
    expect("e", GD__R_SUCCESS, "e");
    stop();
}

TEST(tasks_of_a_batch_cannot_send_partial_results)
{
    prepare();
    f->spec.config.batch_size = 2;
    start_ready("batch");
    append_same("p", 2);
    gd__channel_publish(&f->c);
    for (uint64_t i = 0; i < 2; i++) {
        expect_at(i, GD__R_ERROR);
        CHECK_STR(f->bytes, "gd_result_partial: only process and begin can send partial results");
    }
    stop();
}

WORKER_TEST_MAIN()
