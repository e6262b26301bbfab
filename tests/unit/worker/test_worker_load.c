/* SPDX-License-Identifier: MIT
 *
 * The worker host: load() on I/O threads, ahead of process.
 */
#include "unit/worker/worker_fixture.h"

/* ---- loading ---- */

TEST(loaded_data_is_passed_to_process_and_unloaded_once)
{
    prepare();
    start_ready("load");
    expect("+", GD__R_SUCCESS, "loaded 100");
    expect("+", GD__R_SUCCESS, "loaded 101");
    stop();
    CHECK_EQ(shared->loads, 2);
    CHECK_EQ(shared->unloads, 2);
}

TEST(load_runs_ahead_as_far_as_allowed)
{
    prepare();
    f->spec.config.io_threads = 2;
    f->spec.config.load_ahead = 3;
    start_ready("load");
    for (int i = 0; i < 12; i++)
        append("g");
    gd__channel_publish(&f->c);
    for (int i = 0; i < 4; i++) /* three calls of load and one of process, which waits for the test */
        await_reached();
    struct gd__progress progress;
    gd__channel_progress(&f->c, 0, &progress);
    CHECK_EQ(progress.loading, 3);
    CHECK_EQ(progress.started, 1);
    for (uint64_t i = 0; i < 12; i++) {
        sem_post(&shared->go);
        expect_at(i, GD__R_SUCCESS);
    }
    stop();
    CHECK_EQ(shared->most_ahead, 3);
    CHECK_EQ(shared->loads, 12);
    CHECK_EQ(shared->unloads, 12);
}

TEST(a_failed_load_fails_its_task)
{
    prepare();
    f->spec.config.load_ahead = 4;
    start_ready("load");
    append("+");
    append("X");
    append("Y");
    append("+");
    gd__channel_publish(&f->c);
    expect_at(0, GD__R_SUCCESS);
    expect_at(1, GD__R_ERROR_FINAL);
    CHECK_STR(f->bytes, "can't read it");
    expect_at(2, GD__R_ERROR);
    CHECK_STR(f->bytes, "load returned 4");
    expect_at(3, GD__R_SUCCESS);
    stop();
    CHECK_EQ(shared->processed, 2);
    CHECK_EQ(shared->loads, 4);
    CHECK_EQ(shared->unloads, 2);
}

TEST(nothing_runs_beside_a_solo_task)
{
    prepare();
    f->spec.config.io_threads = 3;
    f->spec.config.load_ahead = 6;
    start_ready("load");
    for (int i = 0; i < 40; i++) {
        bool solo = i % 5 == 2;
        append(solo ? "S" : "+")->flags = solo ? GD__TASK_SOLO : 0;
    }
    gd__channel_publish(&f->c);
    for (uint64_t i = 0; i < 40; i++)
        expect_at(i, GD__R_SUCCESS);
    stop();
    CHECK_EQ(shared->solo_beside, 0);
    CHECK_EQ(shared->unloads, 40);
}

TEST(nothing_is_claimed_beside_a_solo_task)
{
    prepare();
    f->spec.config.load_ahead = 4;
    start_ready("load");
    append("g")->flags = GD__TASK_SOLO;
    append("+");
    gd__channel_publish(&f->c);
    await_reached(); /* load was called */
    await_reached(); /* process was called */
    CHECK_EQ(gd__channel_take_back(&f->c, 0), 1);
    sem_post(&shared->go);
    expect_at(0, GD__R_SUCCESS);
    stop();
}

TEST(cancelling_a_task_does_not_cancel_the_load_of_the_next)
{
    prepare();
    f->spec.config.io_threads = 2;
    start_ready("load_quiet");
    append("g");
    append("C");
    gd__channel_publish(&f->c);
    for (int i = 0; i < 3; i++) /* two calls of load, one of process */
        await_reached();
    cancel(1);
    for (int looks = shared->looks; shared->looks < looks + 2 && shared->loads_cancelled == 0;)
        sched_yield();
    CHECK_EQ(shared->loads_cancelled, 0);
    sem_post(&shared->go);
    expect_at(0, GD__R_SUCCESS);
    cancel(2);
    expect_at(1, GD__R_CANCELLED);
    stop();
}

TEST(load_sees_its_cancellation)
{
    prepare();
    start_ready("load");
    append("C");
    append("+");
    gd__channel_publish(&f->c);
    await_reached();
    cancel(1);
    expect_at(0, GD__R_CANCELLED);
    expect_at(1, GD__R_SUCCESS);
    stop();
    CHECK_EQ(shared->unloads, 1);
}

TEST(a_load_that_the_worker_waits_for_is_interrupted)
{
    prepare();
    start_ready("load");
    append("K");
    append("+");
    gd__channel_publish(&f->c);
    await_reached();
    cancel(1);
    expect_at(0, GD__R_CANCELLED);
    expect_at(1, GD__R_SUCCESS);
    stop();
    CHECK_LT(0, shared->load_stops);
}

TEST(a_load_cancelled_before_the_worker_waits_for_it_is_interrupted)
{
    prepare();
    f->spec.config.io_threads = 2;
    start_ready("load");
    append("g");
    append("K");
    gd__channel_publish(&f->c);
    for (int i = 0; i < 3; i++) /* two calls of load, one of process */
        await_reached();
    gd__channel_cancel(&f->c, 2); /* without a message to the guardian */
    sem_post(&shared->go);
    expect_at(0, GD__R_SUCCESS);
    expect_at(1, GD__R_CANCELLED);
    stop();
    CHECK_EQ(shared->load_stops, 1);
}

TEST(a_batch_waits_for_all_its_loads_and_omits_failed_tasks)
{
    prepare();
    f->spec.config.batch_size = 8;
    f->spec.config.io_threads = 2;
    f->spec.config.load_ahead = 2; /* less than a batch */
    start_ready("load_batch");
    append_batch((const char *[]){ "X", "+", "+", "Y", "+", "X" }, 6);
    append_batch((const char *[]){ "X", "X" }, 2);
    gd__channel_publish(&f->c);
    static const int kinds[] = { GD__R_ERROR_FINAL, GD__R_SUCCESS,     GD__R_SUCCESS,     GD__R_ERROR,
                                 GD__R_SUCCESS,     GD__R_ERROR_FINAL, GD__R_ERROR_FINAL, GD__R_ERROR_FINAL };
    for (uint64_t i = 0; i < 8; i++)
        expect_at(i, kinds[i]);
    stop();
    CHECK_EQ(shared->n_calls, 1);
    CHECK_EQ(shared->calls[0], 3);
    CHECK_EQ(shared->unloads, 3);
}

TEST(loaded_batches_are_split_too)
{
    prepare();
    f->spec.config.batch_size = 8;
    f->spec.config.io_threads = 2;
    f->spec.config.load_ahead = 16;
    shared->oom_above = 2;
    start_ready("load_batch");
    for (int i = 0; i < 4; i++)
        append_same("+", 8);
    gd__channel_publish(&f->c);
    for (uint64_t i = 0; i < 32; i++)
        expect_at(i, GD__R_SUCCESS);
    CHECK_EQ(f->record.safe_batch, 2);
    stop();
    CHECK_EQ(shared->unloads, 32);
    CHECK_LE(shared->most_ahead, 16);
}

TEST(a_lost_device_unloads_the_tasks_loaded_ahead)
{
    prepare();
    f->spec.config.io_threads = 2;
    f->spec.config.load_ahead = 4;
    start_ready("load");
    append("g");
    append("d");
    append("+");
    append("+");
    gd__channel_publish(&f->c);
    for (int i = 0; i < 5; i++) /* four calls of load, one of process */
        await_reached();
    sem_post(&shared->go);
    expect_at(0, GD__R_SUCCESS);
    expect_at(1, GD__R_DEVICE_LOST);
    CHECK_EQ(next(), 0);
    CHECK_EQ(f->exit_code, GD__EXIT_DEVICE_LOST);
    CHECK_EQ(shared->loads, 4);
    CHECK_EQ(shared->unloads, 4);
}

TEST(many_loaded_tasks)
{
    prepare();
    f->spec.config.io_threads = 3;
    f->spec.config.load_ahead = 7;
    start_ready("load");
    uint64_t done = 0;
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < 1 + round % 40; i++)
            append(i % 7 == 6 ? "X" : "+");
        gd__channel_publish(&f->c);
        for (uint64_t first = done; done < f->c.task_tail; done++)
            expect_at(done, (done - first) % 7 == 6 ? GD__R_ERROR_FINAL : GD__R_SUCCESS);
    }
    stop();
    CHECK_LE(shared->most_ahead, 7);
    CHECK_EQ(shared->unloads, shared->processed);
}

WORKER_TEST_MAIN()
