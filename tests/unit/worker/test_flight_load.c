/* SPDX-License-Identifier: MIT
 *
 * The worker host with load() and begin(): tasks are loaded on I/O threads, begin in the order of positions, and finish
 * in any order.
 */
#include "unit/worker/flight_fixture.h"

static void start_loading(unsigned concurrency, unsigned io_threads, unsigned load_ahead)
{
    prepare();
    f->spec.config.io_threads = io_threads;
    f->spec.config.load_ahead = load_ahead;
    start_flight("load", concurrency);
    CHECK(f->record.position & GD__READY_LOADS);
    CHECK_EQ(flight.concurrency, concurrency);
}

static void give_same(const char *payload, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        append(payload);
    gd__channel_publish(&f->c);
}

static void await_reached_times(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        await_reached();
}

static struct gd__progress look(void)
{
    struct gd__progress p;
    gd__channel_progress(&f->c, 0, &p);
    return p;
}

/* Lets n tasks 'g' finish. */
static void let_go(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        sem_post(&shared->go);
    for (unsigned i = 0; i < n; i++)
        CHECK_EQ(outcome(), GD__R_SUCCESS);
}

/* ---- order ---- */

TEST(a_task_is_loaded_begun_and_unloaded_once)
{
    start_loading(4, 2, 0);
    GIVE("e", "t", "a payload that is longer than a slot has room for");
    for (int i = 0; i < 3; i++)
        CHECK_EQ(outcome(), GD__R_SUCCESS);
    stop();
    CHECK_EQ(shared->loads, 3);
    CHECK_EQ(shared->processed, 3);
    CHECK_EQ(shared->unloads, 3);
}

TEST(tasks_begin_in_order_although_a_later_load_ends_first)
{
    start_loading(4, 3, 0);
    GIVE("<w", "t", "t");
    await_reached_times(3); /* the first load has begun, the others have ended */
    CHECK_EQ(look().started, 0);
    CHECK_EQ(look().loading, 3);
    sem_post(&shared->load_go);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(outcome(), GD__R_SUCCESS); /* step() checks the order of the starts */
    stop();
}

TEST(many_tasks)
{
    prepare();
    f->spec.config.task_capacity = 16;
    f->spec.config.result_capacity = 64;
    f->spec.config.io_threads = 3;
    f->spec.config.load_ahead = 20;
    start_flight("load", 8);
    char payload[32];
    enum { TOTAL = 20000 / TEST_SLOWDOWN };
    static unsigned char seen[20000];
    for (uint64_t done = 0; done < TOTAL;) {
        const uint64_t before = f->c.task_tail;
        while (f->c.task_tail < TOTAL && f->c.task_tail - flight.begun < f->c.task_capacity) {
            snprintf(payload, sizeof payload, f->c.task_tail % 7 == 3 ? "<X%d" : "t%d", (int)f->c.task_tail);
            append(payload);
        }
        if (f->c.task_tail > before)
            gd__channel_publish(&f->c);
        const int kind = step();
        if (kind == GD__R_STARTED)
            continue;
        CHECK_EQ(kind, f->record.position % 7 == 3 ? GD__R_ERROR_FINAL : GD__R_SUCCESS);
        CHECK_EQ(seen[f->record.position]++, 0);
        done++;
    }
    stop();
    CHECK_EQ(shared->loads, TOTAL);
    CHECK_EQ(shared->unloads, shared->processed);
    CHECK_LE(shared->most_ahead, 20);
    CHECK_LE(flight.most_flying, 8);
    CHECK_GT(flight.most_flying, 1);
}

/* ---- how far ahead ---- */

static void expect_ahead(unsigned concurrency, unsigned io_threads, unsigned load_ahead, unsigned expected)
{
    start_loading(concurrency, io_threads, load_ahead);
    give_same("g", expected + 3);
    await_reached_times(expected);
    await_begun(concurrency < expected ? concurrency : expected);
    CHECK_EQ(look().loading, expected);
    CHECK_EQ(look().started, concurrency);
    CHECK_EQ(gd__channel_take_back(&f->c, 0), expected); /* the others are not claimed */
    let_go(expected);
    stop();
    CHECK_EQ(shared->most_ahead, expected);
    dispose();
}

TEST(tasks_are_loaded_while_all_places_are_taken)
{
    expect_ahead(2, 1, 5, 5);
    expect_ahead(2, 3, 3, 3);
    expect_ahead(2, 1, 0, 4); /* by default two more for each I/O thread */
    expect_ahead(3, 2, 0, 7);
}

TEST(every_place_can_be_used_whatever_load_ahead_is)
{
    expect_ahead(3, 1, 1, 3);
    expect_ahead(5, 2, 2, 5);
}

TEST(one_task_at_a_time)
{
    start_loading(1, 1, 3);
    give_same("g", 6);
    await_reached_times(3);
    CHECK_EQ(look().loading, 3);
    for (int i = 0; i < 6; i++)
        sem_post(&shared->go);
    for (uint64_t i = 0; i < 6; i++)
        expect_at(i, GD__R_SUCCESS);
    CHECK_EQ(shared->most_ahead, 3);
    give("<r");
    await_reached_times(4); /* three loads of 'g' and this one */
    cancel(7);
    expect_at(6, GD__R_CANCELLED);
    stop();
}

/* ---- failures ---- */

TEST(a_failed_load_fails_its_task_in_its_turn)
{
    start_loading(2, 2, 6);
    GIVE("e", "<X", "<Y", "e");
    expect_next(0, GD__R_SUCCESS, "e");
    expect_next(1, GD__R_ERROR_FINAL, "can't read it");
    expect_next(2, GD__R_ERROR, "load returned 4");
    expect_next(3, GD__R_SUCCESS, "e");
    stop();
    CHECK_EQ(shared->processed, 2);
    CHECK_EQ(shared->unloads, 2);
}

static void expect_load_is_cancelled(const char *payload)
{
    start_loading(2, 1, 4);
    GIVE(payload, "e");
    await_reached();
    cancel(1);
    expect_next(0, GD__R_CANCELLED, "");
    expect_next(1, GD__R_SUCCESS, "e");
    stop();
    CHECK_EQ(shared->loads_cancelled, 1);
    CHECK_EQ(shared->processed, 1);
    CHECK_EQ(shared->unloads, 1);
    dispose();
}

TEST(a_load_sees_that_its_task_is_cancelled)
{
    expect_load_is_cancelled("<c");
    expect_load_is_cancelled("<r");
}

TEST(a_task_cancelled_before_it_begins_does_not_begin)
{
    start_loading(2, 1, 4);
    GIVE("<w", "e");
    await_reached();
    cancel(1);
    await_guardian();
    sem_post(&shared->load_go);
    expect_next(0, GD__R_CANCELLED, "");
    expect_next(1, GD__R_SUCCESS, "e");
    stop();
    CHECK_EQ(shared->processed, 1);
    CHECK_EQ(shared->unloads, 2);
}

TEST(cancelling_a_task_in_flight_does_not_cancel_a_load)
{
    start_loading(2, 2, 6);
    GIVE("c", "<w", "t");
    await_begun(1);
    await_reached_times(4); /* three loads, and the begin of the first task */
    cancel_in_flight(0);
    expect_next(0, GD__R_CANCELLED, "");
    sem_post(&shared->load_go);
    CHECK_EQ(outcome(), GD__R_SUCCESS);
    CHECK_EQ(outcome(), GD__R_SUCCESS);
    stop();
    CHECK_EQ(shared->loads_cancelled, 0);
}

TEST(nothing_is_in_progress_beside_a_solo_task)
{
    start_loading(4, 3, 8);
    for (int i = 0; i < 40; i++)
        append(i % 5 == 2 ? "<s" : "t")->flags = i % 5 == 2 ? GD__TASK_SOLO : 0;
    gd__channel_publish(&f->c);
    for (int i = 0; i < 40; i++) {
        CHECK_EQ(outcome(), GD__R_SUCCESS);
        if (f->record.position % 5 == 2)
            CHECK_EQ(flight.in_flight, 0);
    }
    stop();
    CHECK_EQ(shared->solo_beside, 0);
    CHECK_EQ(shared->unloads, 40);
}

TEST(a_lost_device_unloads_only_tasks_that_have_not_begun)
{
    start_loading(2, 2, 4);
    GIVE("u", "d", "e", "e", "e", "e");
    while (outcome() != 0)
        CHECK(f->record.kind == GD__R_DEVICE_LOST);
    CHECK_EQ(f->exit_code, GD__EXIT_DEVICE_LOST);
    CHECK_EQ(shared->unloads, shared->loads - 1);
}

/* ---- results of load() ---- */

TEST(load_does_not_wait_for_room)
{
    start_loading(2, 1, 4);
    GIVE("g", "g", "<A", "<A");
    while (shared->loads < 4 ||
           shared->ahead > 3) /* until the last load has failed, while the third task has the room */
        sched_yield();
    sem_post(&shared->go);
    sem_post(&shared->go);
    for (int i = 0; i < 4; i++) {
        const int kind = outcome();
        CHECK_EQ(kind, f->record.position == 3 ? GD__R_OUT_OF_MEMORY : GD__R_SUCCESS);
    }
    stop();
}

TEST(load_can_set_the_result_but_not_send_or_finish_it)
{
    start_loading(2, 1, 3);
    give("<P");
    expect_next(0, GD__R_SUCCESS, "<P");
    give("<A");
    CHECK_EQ(outcome(), GD__R_SUCCESS);
    CHECK_EQ(f->size, 600000);
    give("<F");
    CHECK_EQ(next(), 0);
    CHECK_EQ(f->signal, SIGABRT);
}

FLIGHT_TEST_MAIN()
