/* SPDX-License-Identifier: MIT
 *
 * The worker host: its messages from boot to bye, results of single tasks, cancelling.
 */
#include "unit/worker/worker_fixture.h"

/* ---- start and end ---- */

TEST(setup_ready_stop_cleanup_bye)
{
    prepare();
    start_ready("plain");
    CHECK_EQ(shared->setups, 1);
    stop();
}

TEST(a_worker_stopped_early_still_sends_ready)
{
    prepare();
    open_memory();
    gd__channel_stop(&f->c);
    spawn("plain");
    send_boot(sizeof f->boot, GD__BOOT_FDS);
    CHECK_EQ(next(), GD__R_READY);
    stop();
}

TEST(tasks_given_before_stop_are_done)
{
    prepare();
    start_ready("plain");
    for (int i = 0; i < 10; i++)
        append("e");
    gd__channel_publish(&f->c);
    gd__channel_stop(&f->c);
    for (uint64_t i = 0; i < 10; i++)
        expect_at(i, GD__R_SUCCESS);
    stop();
}

TEST(setup_gets_all_its_fields)
{
    prepare();
    f->spec.args = "hello";
    f->spec.config.args_size = 5;
    f->spec.config.generation = 4;
    start_ready("plain");
    expect("i", GD__R_SUCCESS,
           "worker=2 gpu=5 seed=47 args=hello restarts=4 batch=1 id=2 gpu=5 attempt=1 task=100 hot=524288 in=1 env=0 "
           "cancelled=0");
    stop();
}

TEST(a_setup_failure_has_a_message_and_skips_cleanup)
{
    prepare();
    start("setup_fails");
    CHECK_EQ(next(), GD__R_SETUP_FAILED);
    CHECK_STR(f->bytes, "no model at /nowhere/at/all, and 3 other things");
    CHECK_EQ(next(), 0);
    CHECK_EQ(f->exit_code, GD__EXIT_SETUP);
    CHECK_EQ(shared->cleanups, 0);
    CHECK_EQ(shared->exits, 1);
}

TEST(setup_failure_without_a_message)
{
    prepare();
    start("setup_returns_5");
    CHECK_EQ(next(), GD__R_SETUP_FAILED);
    CHECK_STR(f->bytes, "setup returned 5");
    CHECK_EQ(next(), 0);
    CHECK_EQ(f->exit_code, GD__EXIT_SETUP);
}

TEST(table_without_process_is_a_setup_failure_in_a_worker)
{
    prepare();
    start("no_process");
    CHECK_EQ(next(), GD__R_SETUP_FAILED);
    CHECK_CONTAINS(f->bytes, "neither process nor process_batch nor begin");
    CHECK_EQ(next(), 0);
    CHECK_EQ(shared->setups, 0);
}

TEST(cleanup_failure_comes_before_bye)
{
    prepare();
    start_ready("cleanup_fails");
    gd__channel_stop(&f->c);
    CHECK_EQ(next(), GD__R_CLEANUP_FAILED);
    CHECK_STR(f->bytes, "still in use");
    stop();
}

TEST(only_process_is_needed)
{
    prepare();
    start_ready("bare");
    expect("e hello", GD__R_SUCCESS, "e hello");
    gd__channel_stop(&f->c);
    CHECK_EQ(next(), GD__R_BYE);
    CHECK_EQ(next(), 0);
    CHECK_EQ(f->exit_code, 0);
}

/* ---- boot ---- */

static void expect_boot_failure(void)
{
    CHECK_EQ(next(), 0);
    CHECK_EQ(f->exit_code, GD__EXIT_BOOT);
    CHECK_EQ(shared->setups, 0);
}

TEST(boot_of_another_version)
{
    prepare();
    open_memory();
    spawn("plain");
    f->boot.version++;
    send_boot(sizeof f->boot, GD__BOOT_FDS);
    expect_boot_failure();
}

TEST(boot_message_cut_short)
{
    prepare();
    open_memory();
    spawn("plain");
    send_boot(sizeof f->boot - 8, GD__BOOT_FDS);
    expect_boot_failure();
}

TEST(boot_without_descriptors)
{
    prepare();
    open_memory();
    spawn("plain");
    send_boot(sizeof f->boot, 0);
    expect_boot_failure();
}

TEST(boot_with_too_few_descriptors)
{
    prepare();
    open_memory();
    spawn("plain");
    send_boot(sizeof f->boot, GD__BOOT_FDS - 1);
    expect_boot_failure();
}

TEST(boot_with_wrong_sizes)
{
    prepare();
    open_memory();
    spawn("plain");
    f->boot.arena_size *= 2;
    send_boot(sizeof f->boot, GD__BOOT_FDS);
    expect_boot_failure();
}

TEST(dispatcher_gone_before_boot)
{
    prepare();
    open_memory();
    spawn("plain");
    close(f->socket);
    expect_boot_failure();
}

TEST(dispatcher_gone_kills_a_busy_worker)
{
    prepare();
    start_ready("plain");
    give("g"); /* waits for ever */
    await_reached();
    close(f->socket);
    CHECK_EQ(next(), 0);
    CHECK_EQ(f->signal, SIGKILL);
}

TEST(dispatcher_gone_ends_an_idle_worker)
{
    prepare();
    start_ready("plain");
    close(f->socket);
    CHECK_EQ(next(), 0);
    CHECK_EQ(f->signal, SIGKILL);
}

TEST(without_a_dispatcher_a_worker_does_not_kill_a_group_that_it_does_not_lead)
{
    prepare();
    f->no_group = true;
    start_ready("plain");
    close(f->socket);
    CHECK_EQ(next(), 0);
    CHECK_EQ(f->exit_code, GD__EXIT_ORPHAN);
}

/* ---- results ---- */

TEST(small_results_are_stored_in_the_record)
{
    prepare();
    start_ready("plain");
    expect("", GD__R_SUCCESS, "");
    CHECK_EQ(f->record.inline_size, 0);
    expect("e", GD__R_SUCCESS, "e");
    expect("e23456789012345678901234", GD__R_SUCCESS, "e23456789012345678901234");
    CHECK_EQ(f->record.inline_size, GD__INLINE_MAX);
    stop();
}

TEST(large_results_are_stored_in_the_region)
{
    prepare();
    start_ready("plain");
    expect("e234567890123456789012345", GD__R_SUCCESS, "e234567890123456789012345");
    CHECK_EQ(f->record.inline_size, GD__NOT_INLINE);
    give("L100000");
    expect_at(1, GD__R_SUCCESS);
    CHECK_EQ(f->size, 100000);
    for (size_t i = 0; i < f->size; i++)
        CHECK_EQ(f->bytes[i], 101);
    stop();
}

TEST(truncated_results)
{
    prepare();
    start_ready("plain");
    expect("T5", GD__R_SUCCESS, "abcde");
    CHECK_EQ(f->record.inline_size, 5);
    give("T500");
    expect_at(1, GD__R_SUCCESS);
    CHECK_EQ(f->size, 500);
    expect("T0", GD__R_SUCCESS, "");
    stop();
}

TEST(each_failure_has_its_kind_and_message)
{
    prepare();
    start_ready("plain");
    expect("x", GD__R_ERROR, "bad thing number 100");
    expect("f", GD__R_ERROR_FINAL, "never again, whatever you do about it");
    expect("m", GD__R_OUT_OF_MEMORY, "full");
    expect("7", GD__R_ERROR, "process returned 7");
    expect("F", GD__R_ERROR, "failed");
    expect("M", GD__R_OUT_OF_MEMORY, "out of memory");
    expect("z", GD__R_ERROR, "said so");
    expect("v", GD__R_SUCCESS, "fine");
    expect("e", GD__R_SUCCESS, "e"); /* no failure affects the next task */
    stop();
}

TEST(a_result_larger_than_the_region_is_an_error)
{
    prepare();
    start_ready("plain");
    expect("H", GD__R_SUCCESS, "none");
    give("L9999999");
    expect_at(1, GD__R_OUT_OF_MEMORY);
    CHECK_GT(f->size, 0);
    expect("F", GD__R_ERROR, "failed"); /* not the error message of the task before */
    stop();
}

TEST(long_messages_are_cut_between_characters)
{
    prepare();
    start_ready("plain");
    give("w");
    expect_at(0, GD__R_ERROR);
    CHECK_EQ(f->size, GD__MESSAGE_MAX - 1); /* one byte, and then characters of two bytes */
    CHECK_MEM(f->bytes, "x\xc3\xa9", 3);
    CHECK_MEM(f->bytes + f->size - 2, "\xc3\xa9", 2);
    stop();
}

TEST(device_lost_ends_the_process_without_cleanup)
{
    prepare();
    start_ready("plain");
    append("e");
    append("d");
    append("e");
    gd__channel_publish(&f->c);
    expect_at(0, GD__R_SUCCESS);
    expect_at(1, GD__R_DEVICE_LOST);
    CHECK_STR(f->bytes, "fell off the bus");
    CHECK_EQ(next(), 0);
    CHECK_EQ(f->exit_code, GD__EXIT_DEVICE_LOST);
    CHECK_EQ(shared->cleanups, 0);
}

TEST(exit_inside_process_sends_no_bye)
{
    prepare();
    start_ready("plain");
    give("E");
    CHECK_EQ(next(), 0);
    CHECK_EQ(f->exit_code, 3);
    struct gd__progress progress;
    gd__channel_progress(&f->c, 0, &progress);
    CHECK_EQ(progress.started, 1);
}

TEST(waits_for_result_bytes_to_be_released)
{
    prepare();
    f->hold_bytes = true;
    start_ready("plain");
    for (int i = 0; i < 12; i++)
        append("L300000");
    gd__channel_publish(&f->c);
    for (uint64_t i = 0; i < 12; i++) {
        if (i >= 3) { /* three results fit; the worker sleeps until one is released */
            while (atomic_load(&f->c.in->sleeping) == 0)
                sched_yield();
            f->released++;
            gd__channel_done(&f->c, f->c.result_head, f->released);
        } else if (i == 0) {
            f->released = 1; /* releases the ready record */
        }
        expect_at(i, GD__R_SUCCESS);
        CHECK_EQ(f->size, 300000);
        CHECK_EQ(f->bytes[299999], (char)(100 + i));
    }
    stop();
}

TEST(the_memory_of_a_dropped_result_is_used_again)
{
    prepare();
    start_ready("plain");
    for (uint64_t i = 0; i < 1500; i++) {
        give("x"); /* allocates 1000 bytes, then fails */
        expect_at(i, GD__R_ERROR);
    }
    give("L900000");
    CHECK_EQ(next(), GD__R_SUCCESS);
    CHECK_EQ(f->size, 900000);
    stop();
}

TEST(waits_for_room_in_the_result_ring)
{
    prepare();
    f->spec.config.result_capacity = 2;
    start_ready("plain");
    for (int i = 0; i < 50; i++)
        append("e");
    gd__channel_publish(&f->c);
    for (uint64_t i = 0; i < 50; i++)
        expect_at(i, GD__R_SUCCESS);
    stop();
}

TEST(result_of_a_task_does_not_wait_for_the_next)
{
    prepare();
    start_ready("plain");
    append("e");
    append("g");
    gd__channel_publish(&f->c);
    expect_at(0, GD__R_SUCCESS); /* the second task still waits for the test */
    sem_post(&shared->go);
    expect_at(1, GD__R_SUCCESS);
    stop();
}

TEST(many_tasks_in_order)
{
    prepare();
    f->spec.config.spin_ns = 20000;
    start_ready("plain");
    uint64_t done = 0;
    for (int round = 0; round < 2000; round++) {
        for (int i = 0; i < 1 + round % 60; i++)
            append(round % 3 ? "e" : "x");
        gd__channel_publish(&f->c);
        for (; done < f->c.task_tail; done++)
            expect_at(done, round % 3 ? GD__R_SUCCESS : GD__R_ERROR);
    }
    stop();
}

static void expect_partial(uint64_t position)
{
    CHECK_EQ(next(), GD__R_PARTIAL);
    CHECK_EQ(f->record.position, position);
    CHECK_EQ(f->record.task_id, 100 + position);
    CHECK_EQ(f->record.attempt, 1);
}

TEST(process_sends_partial_results)
{
    prepare();
    f->spec.config.concurrency = 8;
    start_ready("plain");
    CHECK_EQ(f->record.attempt, 1); /* one task at a time, whatever is allowed */
    for (uint64_t i = 0; i < 300; i++) {
        give("p");
        expect_partial(i);
        CHECK_STR(f->bytes, "one");
        expect_partial(i);
        CHECK_EQ(f->size, 1000);
        CHECK_EQ(f->bytes[999], 'p');
        expect_at(i, GD__R_SUCCESS);
        CHECK_STR(f->bytes, "before");
    }
    stop();
}

TEST(a_start_is_reported_before_process_is_called)
{
    prepare();
    f->spec.config.report_start = 1;
    start_ready("plain");
    give("g");
    CHECK_EQ(next(), GD__R_STARTED);
    CHECK_EQ(f->record.position, 0);
    CHECK_EQ(f->record.task_id, 100);
    CHECK_EQ(f->record.attempt, 1);
    CHECK_GT(f->record.start_ns, 0);
    uint64_t start_ns = f->record.start_ns;
    sem_post(&shared->go);
    expect_at(0, GD__R_SUCCESS);
    CHECK_EQ(f->record.start_ns, start_ns);
    stop();
}

/* ---- taking back ---- */

TEST(tasks_taken_back_are_not_run)
{
    prepare();
    start_ready("plain");
    append("g");
    append("x");
    append("x");
    gd__channel_publish(&f->c);
    await_reached();
    CHECK_EQ(gd__channel_take_back(&f->c, 0), 1);
    append("e");
    gd__channel_publish(&f->c);
    sem_post(&shared->go);
    expect_at(0, GD__R_SUCCESS);
    expect_at(1, GD__R_SUCCESS);
    stop();
    CHECK_EQ(shared->processed, 2);
}

/* ---- cancelling ---- */

TEST(cancel_flag_is_seen)
{
    prepare();
    start_ready("plain");
    give("c");
    await_reached();
    cancel(1);
    expect_at(0, GD__R_CANCELLED);
    expect("e", GD__R_SUCCESS, "e");
    stop();
}

TEST(task_cancelled_before_it_began_is_not_run)
{
    prepare();
    start_ready("plain");
    append("c");
    append("g");
    append("e");
    gd__channel_publish(&f->c);
    await_reached();
    cancel(2);
    expect_at(0, GD__R_CANCELLED);
    expect_at(1, GD__R_CANCELLED);
    expect_at(2, GD__R_SUCCESS);
    stop();
    CHECK_EQ(shared->processed, 2);
}

TEST(interrupt_is_called_once_for_the_running_task)
{
    prepare();
    start_ready("interrupt");
    give("g"); /* interrupt() ends its wait */
    await_reached();
    cancel(1);
    CHECK_EQ(send(f->socket, "c", 1, MSG_NOSIGNAL), 1);
    expect_at(0, GD__R_SUCCESS);
    CHECK_EQ(shared->interrupts, 1);
    CHECK_EQ(send(f->socket, "c", 1, MSG_NOSIGNAL), 1); /* no task is running */
    give("g");
    await_reached();
    CHECK_EQ(send(f->socket, "c", 1, MSG_NOSIGNAL), 1); /* the running task is not cancelled */
    await_guardian();
    CHECK_EQ(shared->interrupts, 1);
    sem_post(&shared->go);
    expect_at(1, GD__R_SUCCESS);
    stop();
    CHECK_EQ(shared->interrupts, 1);
}

TEST(unknown_bytes_are_ignored)
{
    prepare();
    start_ready("interrupt");
    CHECK_EQ(send(f->socket, "?", 1, MSG_NOSIGNAL), 1);
    CHECK_EQ(send(f->socket, "c", 1, MSG_NOSIGNAL), 1);
    expect("e", GD__R_SUCCESS, "e");
    stop();
    CHECK_EQ(shared->interrupts, 0);
}

WORKER_TEST_MAIN()
