/* SPDX-License-Identifier: MIT
 *
 * The worker host with tasks in flight: begun in order, finished in any order and on any thread, cancelled one by one.
 */
#include "unit/worker/flight_fixture.h"

/* ---- what is announced ---- */

static void expect_announced(const char *args, unsigned bound, unsigned expected)
{
    prepare();
    f->spec.args = args;
    f->spec.config.args_size = args ? strlen(args) : 0;
    start_flight("flight", bound);
    CHECK_EQ(f->record.attempt, expected);
    stop();
    dispose();
}

TEST(announced_concurrency_is_bounded)
{
    expect_announced(NULL, 0, 1);
    expect_announced(NULL, 6, 6);
    expect_announced("8", 0, 8);
    expect_announced("8", 4, 4);
    expect_announced("2", 4, 2);
    expect_announced("99999", 0, GD__FLIGHT_UNSET);
    expect_announced("99999", 99999, GD__FLIGHT_MAX);
    expect_announced("8", 1, 1);
}

TEST(concurrency_is_set_only_in_setup)
{
    prepare();
    start_flight("flight", 4);
    give("s");
    expect_next(0, GD__R_SUCCESS, "s");
    stop();
}

TEST(begin_with_batches_is_refused)
{
    prepare();
    f->spec.config.batch_size = 4;
    start("flight");
    CHECK_EQ(next(), GD__R_SETUP_FAILED);
    CHECK_CONTAINS(f->bytes, "batch_size is 4");
    CHECK_EQ(next(), 0);
    CHECK_EQ(f->exit_code, GD__EXIT_SETUP);
    CHECK_EQ(shared->setups, 0);
}

/* ---- order ---- */

TEST(tasks_begin_in_order_and_finish_in_any_order)
{
    prepare();
    start_flight("flight", 5);
    GIVE("h 0", "h 1", "h 2", "h 3", "f102");
    expect_next(2, GD__R_SUCCESS, "h 2");
    expect_next(4, GD__R_SUCCESS, "f102");
    give("f100");
    expect_next(0, GD__R_SUCCESS, "h 0");
    expect_next(5, GD__R_SUCCESS, "f100");
    GIVE("f103", "e");
    CHECK_EQ(flight.in_flight, 2);
    bool seen[8] = { false };
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(outcome(), GD__R_SUCCESS);
        seen[f->record.position] = true;
    }
    CHECK(seen[3] && seen[6] && seen[7]);
    give("f101");
    expect_next(1, GD__R_SUCCESS, "h 1");
    expect_next(8, GD__R_SUCCESS, "f101");
    stop();
}

TEST(tasks_that_finish_inside_begin)
{
    prepare();
    start_flight("flight", 2);
    for (int round = 0; round < 500; round++) {
        for (int i = 0; i < 10; i++)
            append(i % 5 == 4 ? "x" : "e");
        gd__channel_publish(&f->c);
        for (int i = 0; i < 10; i++) {
            CHECK_EQ(outcome(), i % 5 == 4 ? GD__R_ERROR : GD__R_SUCCESS);
            CHECK_EQ(f->record.position, 10 * round + i);
        }
    }
    stop();
}

TEST(failures_of_begin)
{
    prepare();
    start_flight("flight", 2);
    GIVE("x", "7", "l");
    expect_next(0, GD__R_ERROR, "bad thing number 100");
    expect_next(1, GD__R_ERROR, "begin returned 7");
    expect_next(2, GD__R_ERROR, "an error message that does not fit into a slot, of task 102");
    stop();
}

/* Gives `total` tasks, never more than fit, and checks that each comes back once with its own payload. */
static void run_many(uint64_t total, unsigned ahead)
{
    char payload[32];
    uint64_t done = 0;
    static unsigned char seen[200000];
    CHECK(total <= sizeof seen);
    memset(seen, 0, sizeof seen);
    while (done < total) {
        const uint64_t before = f->c.task_tail;
        while (f->c.task_tail < total && f->c.task_tail - flight.begun < f->c.task_capacity &&
               f->c.task_tail - done < ahead) {
            snprintf(payload, sizeof payload, "t%d", (int)f->c.task_tail);
            append(payload);
        }
        if (f->c.task_tail > before)
            gd__channel_publish(&f->c);
        const int kind = step();
        if (kind == GD__R_STARTED)
            continue;
        CHECK_EQ(kind, GD__R_SUCCESS);
        snprintf(payload, sizeof payload, "t%d", (int)f->record.position);
        CHECK_STR(f->bytes, payload);
        CHECK_EQ(seen[f->record.position]++, 0);
        done++;
    }
}

TEST(a_hundred_thousand_tasks_with_64_in_flight)
{
    prepare();
    f->spec.config.task_capacity = 16;
    f->spec.config.result_capacity = 64;
    start_flight("flight", 64);
    run_many(100000 / TEST_SLOWDOWN, 128);
    CHECK_GT(flight.most_flying, 8);
    stop();
}

TEST(tasks_come_one_at_a_time)
{
    prepare();
    f->spec.config.spin_ns = 20000;
    start_flight("flight", 64);
    run_many(5000, 1);
    CHECK_EQ(flight.most_flying, 1);
    stop();
}

TEST(inline_payloads_stay_valid_when_slots_are_reused)
{
    char payload[32];
    prepare();
    f->spec.config.task_capacity = 2;
    start_flight("flight", 33);
    for (uint64_t i = 0; i < 32; i++) {
        snprintf(payload, sizeof payload, "h %d of this task", (int)i);
        give(payload);
        await_begun(i + 1);
    }
    for (uint64_t i = 0; i < 32; i++) {
        snprintf(payload, sizeof payload, "f%d", (int)(100 + i));
        give(payload);
        snprintf(payload, sizeof payload, "h %d of this task", (int)i);
        expect_next(i, GD__R_SUCCESS, payload);
        CHECK_EQ(outcome(), GD__R_SUCCESS);
    }
    stop();
}

TEST(a_place_is_free_before_it_is_used_again)
{
    prepare();
    start_flight("flight", 2);
    GIVE("h", "t", "t", "t", "t", "f100"); /* step() checks each place */
    for (int i = 0; i < 6; i++)
        CHECK_EQ(outcome(), GD__R_SUCCESS);
    CHECK_EQ(flight.most_flying, 2);
    stop();
}

TEST(a_full_worker_leaves_the_rest_in_the_ring)
{
    prepare();
    start_flight("flight", 2);
    GIVE("g", "g", "e", "e");
    await_begun(2);
    CHECK_EQ(gd__channel_take_back(&f->c, 0), 2);
    sem_post(&shared->go);
    sem_post(&shared->go);
    CHECK_EQ(outcome(), GD__R_SUCCESS);
    CHECK_EQ(outcome(), GD__R_SUCCESS);
    CHECK_EQ(flight.begun, 2);
    stop();
    CHECK_EQ(shared->processed, 2);
}

TEST(a_suspect_is_alone_in_flight)
{
    prepare();
    start_flight("flight", 4);
    append("g");
    append("t")->flags = GD__TASK_SOLO;
    append("t");
    gd__channel_publish(&f->c);
    sem_post(&shared->go);
    for (uint64_t i = 0; i < 3; i++) {
        CHECK_EQ(step(), GD__R_STARTED);
        CHECK_EQ(step(), GD__R_SUCCESS);
        CHECK_EQ(f->record.position, i);
    }
    stop();
}

TEST(stop_waits_for_tasks_in_flight)
{
    prepare();
    start_flight("flight", 4);
    give("g");
    await_begun(1);
    const uint32_t before = atomic_load(&f->c.in->sleeping);
    gd__channel_stop(&f->c);
    /* Wait until the worker has seen the stop and sleeps again. */
    for (uint32_t now = 0; (now == 0 || now == before) && !gd__channel_has_result(&f->c); sched_yield())
        now = atomic_load(&f->c.in->sleeping);
    sem_post(&shared->go);
    CHECK_EQ(outcome(), GD__R_SUCCESS);
    stop();
}

TEST(device_lost_ends_the_process)
{
    prepare();
    start_flight("flight", 4);
    GIVE("h", "d");
    expect_next(1, GD__R_DEVICE_LOST, "fell off the bus");
    CHECK_EQ(next(), 0);
    CHECK_EQ(f->exit_code, GD__EXIT_DEVICE_LOST);
    CHECK_EQ(shared->cleanups, 0);
}

/* ---- one at a time ---- */

TEST(one_in_flight_uses_the_serial_protocol)
{
    prepare();
    start_flight("flight", 1);
    give("t");
    CHECK_EQ(next(), GD__R_SUCCESS); /* without STARTED */
    CHECK_EQ(f->record.place, 0);
    give("c");
    await_reached();
    cancel(2);
    CHECK_EQ(next(), GD__R_CANCELLED);
    CHECK_EQ(f->record.position, 1);
    CHECK_EQ(shared->interrupts, 1);
    gd__channel_cancel(&f->c, 3);
    give("e"); /* cancelled before it began */
    CHECK_EQ(next(), GD__R_CANCELLED);
    CHECK_EQ(shared->processed, 2);
    stop();
}

TEST(one_in_flight_reports_starts_if_asked)
{
    prepare();
    f->spec.config.report_start = 1;
    start_flight("flight", 1);
    GIVE("t", "x");
    CHECK_EQ(next(), GD__R_STARTED);
    CHECK_EQ(next(), GD__R_SUCCESS);
    CHECK_EQ(next(), GD__R_STARTED);
    CHECK_EQ(next(), GD__R_ERROR);
    stop();
}

/* ---- cancelling ---- */

TEST(one_of_several_is_cancelled)
{
    prepare();
    start_flight("flight", 4);
    GIVE("c", "c", "c");
    await_begun(3);
    for (int i = 0; i < 3; i++)
        await_reached();
    cancel_in_flight(1);
    expect_next(1, GD__R_CANCELLED, "");
    CHECK_EQ(shared->interrupts, 1);
    CHECK_EQ(send(f->socket, "c", 1, MSG_NOSIGNAL), 1); /* nothing new */
    await_guardian();
    give("c"); /* may use the place of the cancelled one */
    await_begun(4);
    await_reached();
    CHECK_EQ(send(f->socket, "c", 1, MSG_NOSIGNAL), 1);
    cancel_in_flight(0);
    expect_next(0, GD__R_CANCELLED, "");
    cancel_in_flight(3);
    expect_next(3, GD__R_CANCELLED, "");
    cancel_in_flight(2);
    expect_next(2, GD__R_CANCELLED, "");
    CHECK_EQ(shared->interrupts, 4);
    stop();
}

TEST(cancel_is_called_once_for_a_task_that_goes_on)
{
    prepare();
    start_flight("flight", 4);
    give("u");
    await_begun(1);
    await_reached();
    for (int i = 0; i < 3; i++) {
        cancel_in_flight(0);
        await_guardian();
    }
    give("c");
    await_begun(2);
    await_reached();
    cancel_in_flight(1); /* when the guardian has called cancel() for this one, it has read the bytes before */
    expect_next(1, GD__R_CANCELLED, "");
    CHECK_EQ(shared->interrupts, 2);
    give("f100");
    expect_next(0, GD__R_SUCCESS, "u");
    CHECK_EQ(outcome(), GD__R_SUCCESS);
    stop();
}

TEST(a_thread_sees_the_request_of_its_own_task)
{
    prepare();
    start_flight("flight", 4);
    GIVE("C", "C");
    await_begun(2);
    await_reached();
    await_reached();
    CHECK(gd__channel_cancel_at(&f->c, place_of(1), 1)); /* no byte is sent: cancel() is not called */
    expect_next(1, GD__R_CANCELLED, "");
    cancel_in_flight(0);
    expect_next(0, GD__R_CANCELLED, "");
    stop();
}

TEST(cancelled_while_begin_runs)
{
    prepare();
    start_flight("flight", 4);
    give("b");
    await_begun(1);
    await_reached();
    cancel_in_flight(0);
    await_guardian();
    sem_post(&shared->go); /* cancel() is called after begin() has returned */
    expect_next(0, GD__R_CANCELLED, "");
    CHECK_EQ(shared->interrupts, 1);
    stop();
}

/* Cancels the task that began before the one that has just begun, if it is still in flight. */
static void cancel_the_one_before(uint64_t position)
{
    for (unsigned i = 0; i < flight.concurrency; i++) {
        if (position == 0 || flight.at[i] != position)
            continue;
        CHECK(gd__channel_cancel_at(&f->c, i, position - 1));
        CHECK_EQ(send(f->socket, "c", 1, MSG_NOSIGNAL), 1);
    }
}

TEST(cancel_races_with_finish)
{
    unsigned cancelled = 0;
    const unsigned total = 8000 / TEST_SLOWDOWN;
    prepare();
    start_flight("flight", 8);
    for (unsigned done = 0; done < total;) {
        while (f->c.task_tail < total && f->c.task_tail - done < 8)
            append("k");
        gd__channel_publish(&f->c);
        const int kind = step();
        if (kind == GD__R_STARTED) {
            cancel_the_one_before(f->record.position);
            continue;
        }
        CHECK(kind == GD__R_SUCCESS || kind == GD__R_CANCELLED);
        cancelled += kind == GD__R_CANCELLED;
        done++;
    }
    stop();
    /* A task that is cancelled before begin() is called is not processed, and cancel() is not called for it. */
    CHECK_LE(cancelled, (unsigned)shared->interrupts + total - (unsigned)shared->processed);
    CHECK_LE((unsigned)shared->interrupts, total);
    CHECK_GT(shared->interrupts, 0);
}

TEST(cancel_is_optional)
{
    prepare();
    start_flight("no_cancel", 4);
    give("C");
    await_begun(1);
    await_reached();
    cancel_in_flight(0);
    expect_next(0, GD__R_CANCELLED, "");
    gd__channel_stop(&f->c);
    CHECK_EQ(next(), GD__R_BYE);
}

FLIGHT_TEST_MAIN()
