/* SPDX-License-Identifier: MIT
 *
 * The results of tasks in flight: partial results, room for large ones, wrong use, and what remains after a worker has
 * died. */
#include "unit/worker/flight_fixture.h"

/* ---- partial results ---- */

TEST(partial_results_come_before_the_result)
{
    prepare();
    start_flight("flight", 4);
    give("p6");
    char text[32];
    for (unsigned long i = 0; i < 6; i++) {
        CHECK_EQ(outcome(), GD__R_PARTIAL);
        CHECK_EQ(f->record.attempt, 1);
        snprintf(text, sizeof text, "part %lu", i);
        CHECK_EQ(f->size, i % 3 == 2 ? 100000 : strlen(text));
        CHECK_STR(f->bytes, i % 3 == 2 ? "" : text);
    }
    expect_next(0, GD__R_SUCCESS, "p6");
    give("P");
    expect_next(1, GD__R_PARTIAL, "inside");
    expect_next(1, GD__R_SUCCESS, "P");
    stop();
}

TEST(partial_results_of_several_tasks)
{
    unsigned parts[8] = { 0 }, done = 0;
    prepare();
    start_flight("flight", 8);
    GIVE("p60", "p60", "p60", "p60", "p60", "p60", "P", "e");
    while (done < 8) {
        const int kind = outcome();
        if (kind == GD__R_PARTIAL)
            parts[f->record.position]++;
        else
            CHECK_EQ(kind, GD__R_SUCCESS);
        done += kind == GD__R_SUCCESS;
    }
    for (int i = 0; i < 6; i++)
        CHECK_EQ(parts[i], 60);
    CHECK_EQ(parts[6], 1);
    CHECK_EQ(parts[7], 0);
    stop();
}

/* ---- room for results ---- */

TEST(large_results_from_several_threads_and_from_begin)
{
    prepare();
    start_flight("flight", 8);
    const unsigned total = 300;
    for (unsigned done = 0; done < total;) {
        while (f->c.task_tail < total && f->c.task_tail - done < 16)
            append(f->c.task_tail % 5 == 0 ? "e" : f->c.task_tail % 5 == 1 ? "M600000" : "L600000");
        gd__channel_publish(&f->c);
        CHECK_EQ(outcome(), GD__R_SUCCESS);
        if (f->record.position % 5) {
            CHECK_EQ(f->size, 600000);
            CHECK_EQ(f->bytes[0], (char)(100 + f->record.position));
            CHECK_EQ(f->bytes[599999], (char)(100 + f->record.position));
        }
        done++;
    }
    stop();
}

TEST(others_go_on_while_a_result_waits_for_room)
{
    prepare();
    f->hold_bytes = true;
    start_flight("flight", 8);
    give("L600000");
    CHECK_EQ(outcome(), GD__R_SUCCESS);
    GIVE("L600000", "L600000");
    for (int i = 0; i < 200; i++) {
        give(i % 2 ? "t" : "e");
        CHECK_EQ(outcome(), GD__R_SUCCESS);
        CHECK_EQ(f->record.position, 3 + i);
    }
    for (uint64_t i = 0; i < 2; i++) { /* each is released when the last record was read */
        f->released = f->c.result_head;
        gd__channel_done(&f->c, f->c.result_head, f->released);
        CHECK_EQ(outcome(), GD__R_SUCCESS);
        CHECK(f->record.position == 1 || f->record.position == 2);
        CHECK_EQ(f->size, 600000);
    }
    stop();
}

TEST(others_go_on_while_an_error_message_waits_for_room)
{
    prepare();
    f->hold_bytes = true;
    start_flight("flight", 8);
    give("L1048000"); /* all pages of the region */
    CHECK_EQ(outcome(), GD__R_SUCCESS);
    give("l");
    for (int i = 0; i < 50; i++) {
        give(i % 2 ? "t" : "e");
        CHECK_EQ(outcome(), GD__R_SUCCESS);
        CHECK_EQ(f->record.position, 2 + i);
    }
    f->released = f->c.result_head;
    gd__channel_done(&f->c, f->c.result_head, f->released);
    expect_next(1, GD__R_ERROR, "an error message that does not fit into a slot, of task 101");
    stop();
}

TEST(begin_that_waits_for_room_lets_others_finish)
{
    prepare();
    f->hold_bytes = true;
    start_flight("flight", 8);
    give("L600000");
    CHECK_EQ(outcome(), GD__R_SUCCESS);
    GIVE("g", "M600000");
    await_begun(3);
    sem_post(&shared->go);
    expect_next(1, GD__R_SUCCESS, "g"); /* the main thread is inside begin() */
    f->released = f->c.result_head;
    gd__channel_done(&f->c, f->c.result_head, f->released);
    CHECK_EQ(outcome(), GD__R_SUCCESS);
    CHECK_EQ(f->record.position, 2);
    stop();
}

TEST(a_thread_that_holds_all_room_does_not_wait_for_itself)
{
    prepare();
    start_flight("flight", 8);
    for (int i = 0; i < 20; i++) {
        GIVE("D", "D");
        for (int k = 0; k < 2; k++) {
            const int kind = outcome();
            CHECK_EQ(kind, f->record.position % 2 ? GD__R_OUT_OF_MEMORY : GD__R_SUCCESS);
            CHECK_EQ(f->size, f->record.position % 2 ? strlen("no room") : 3);
        }
    }
    stop();
}

TEST(a_result_that_can_never_fit)
{
    prepare();
    start_flight("flight", 4);
    GIVE("L9999999", "M9999999");
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(outcome(), GD__R_OUT_OF_MEMORY);
        CHECK_STR(f->bytes, "no room for 9999999 bytes");
    }
    stop();
}

/* ---- misuse ---- */

static int stderr_fd = -1;

static void expect_abort(const char *payload, const char *message)
{
    char text[4096] = "";
    prepare();
    stderr_fd = memfd_create("stderr", MFD_CLOEXEC);
    const int kept = dup(STDERR_FILENO);
    CHECK(stderr_fd >= 0 && kept >= 0 && dup2(stderr_fd, STDERR_FILENO) >= 0);
    start_flight("flight", 4);
    CHECK(dup2(kept, STDERR_FILENO) >= 0);
    GIVE(payload, payload);
    while (step() != 0)
        ;
    CHECK_EQ(f->signal, SIGABRT);
    CHECK_GT(pread(stderr_fd, text, sizeof text - 1, 0), 0);
    CHECK_CONTAINS(text, message);
    close(stderr_fd);
    close(kept);
    dispose();
}

TEST(misuse_ends_the_process_with_a_message)
{
    expect_abort("2", "gd_result_finish: task 100 was finished twice");
    expect_abort("a",
                 "gd_result_finish: this result is not of a task in flight. Its last task, 100, was finished before");
    expect_abort("o", "gd_result_finish: this result was not given to begin()");
    expect_abort("B", "begin() returned -");
}

/* ---- dying ---- */

#ifdef GD_TEST_HOOKS
/* Runs six tasks that finish one after the other. The worker dies when it reaches the kill point for the third time. */
static void die_at(const char *point, unsigned starts, uint64_t progress_started, unsigned results)
{
    char spec[64];
    struct gd__progress progress;
    unsigned n_results = 0;
    prepare();
    snprintf(spec, sizeof spec, "%s:3", point);
    setenv("GD_KILL", spec, 1);
    start_flight("flight", 4);
    for (int i = 0; i < 6; i++)
        append("e");
    gd__channel_publish(&f->c);
    for (int kind; (kind = step()) != 0;)
        n_results += kind == GD__R_SUCCESS;
    if (f->signal != SIGKILL)
        FAIL("%s: signal %d, exit code %d", point, f->signal, f->exit_code);
    gd__channel_progress(&f->c, 0, &progress);
    if (flight.begun != starts || progress.started != progress_started || n_results != results)
        FAIL("%s: %d started, %d by the header, %u results", point, (int)flight.begun, (int)progress.started,
             n_results);
    dispose();
}

TEST(death_at_each_point_leaves_a_clear_state)
{
    die_at("claimed", 2, 2, 2);
    die_at("started", 2, 3, 2);
    die_at("processed", 3, 3, 2);
    die_at("result_half", 3, 3, 2);
    die_at("committed", 3, 3, 3);
}

TEST(any_failing_call_is_a_setup_failure)
{
    for (int nth = 1; nth < 40; nth++) {
        char number[16];
        prepare();
        snprintf(number, sizeof number, "%d", nth);
        setenv("GD_FAULT_WORKER", number, 1);
        f->spec.config.concurrency = 4;
        start("flight");
        give("t");
        gd__channel_stop(&f->c);
        int kind, last = 0;
        while ((kind = next()) != 0)
            last = kind;
        CHECK_EQ(f->signal, 0);
        CHECK(last == GD__R_BYE            ? f->exit_code == 0
              : last == GD__R_SETUP_FAILED ? f->exit_code == GD__EXIT_SETUP
                                           : last == 0 && f->exit_code == GD__EXIT_BOOT);
        dispose();
    }
}
#endif

FLIGHT_TEST_MAIN()
