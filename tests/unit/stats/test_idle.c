/* SPDX-License-Identifier: MIT
 *
 * Why a worker is idle: one row for each situation.
 */
#include "support/test.h"

#include "stats/idle.h"

struct row {
    const char *what;
    struct gd__idle_facts facts;
    enum gd_idle_reason why;
};

static void check(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const enum gd_idle_reason got = gd__idle_why(&rows[i].facts);
        if (got != rows[i].why)
            FAIL("%s: %s, not %s", rows[i].what, gd_idle_reason_name(got), gd_idle_reason_name(rows[i].why));
    }
}
#define CHECK_ROWS(rows) check(rows, sizeof(rows) / sizeof *(rows))

TEST(states_that_are_a_reason)
{
    static const struct row rows[] = {
        { "not started yet", { .state = GD_WORKER_OFF }, GD_IDLE_SETTING_UP },
        { "in setup", { .state = GD_WORKER_STARTING }, GD_IDLE_SETTING_UP },
        { "in setup, with input", { .state = GD_WORKER_STARTING, .waiting = 3 }, GD_IDLE_SETTING_UP },
        { "in setup, at the end", { .state = GD_WORKER_STARTING, .source_ended = true }, GD_IDLE_SETTING_UP },
        { "asked to stop a task", { .state = GD_WORKER_CANCELLING, .handed = 1 }, GD_IDLE_NOT },
        { "being killed", { .state = GD_WORKER_KILLING, .handed = 1 }, GD_IDLE_RESTARTING },
        { "died", { .state = GD_WORKER_RESTING }, GD_IDLE_RESTARTING },
        { "cleaning up", { .state = GD_WORKER_STOPPING }, GD_IDLE_AT_END },
        { "finished", { .state = GD_WORKER_FINISHED }, GD_IDLE_AT_END },
        { "failed", { .state = GD_WORKER_FAILED, .waiting = 5 }, GD_IDLE_AT_END },
        { "lost", { .state = GD_WORKER_LOST }, GD_IDLE_AT_END },
        { "an unknown state", { .state = (enum gd_worker_state)99 }, GD_IDLE_AT_END },
    };
    CHECK_ROWS(rows);
}

TEST(with_tasks)
{
    static const struct row rows[] = {
        { "running", { .state = GD_WORKER_BUSY, .handed = 1, .is_started = true }, GD_IDLE_NOT },
        { "waking up", { .state = GD_WORKER_BUSY, .handed = 1 }, GD_IDLE_NOT },
        { "loading", { .state = GD_WORKER_BUSY, .handed = 2, .is_loading = true }, GD_IDLE_LOADING },
        { "loaded and running",
          { .state = GD_WORKER_BUSY, .handed = 2, .is_loading = true, .is_started = true },
          GD_IDLE_NOT },
        { "all tasks done",
          { .state = GD_WORKER_BUSY, .handed = 2, .results_waiting = 2, .is_started = true },
          GD_IDLE_RESULTS },
        { "some tasks done",
          { .state = GD_WORKER_BUSY, .handed = 3, .results_waiting = 2, .is_started = true },
          GD_IDLE_NOT },
        { "no room for more results",
          { .state = GD_WORKER_BUSY, .handed = 300, .results_waiting = 64, .is_started = true, .wants_room = true },
          GD_IDLE_RESULTS },
        { "the source does not matter",
          { .state = GD_WORKER_BUSY, .handed = 1, .is_started = true, .source_ended = true, .queue_is_full = true },
          GD_IDLE_NOT },
    };
    CHECK_ROWS(rows);
}

TEST(without_tasks)
{
    static const struct row rows[] = {
        { "the source gives no task", { .state = GD_WORKER_IDLE }, GD_IDLE_NO_INPUT },
        { "waits for a full batch", { .state = GD_WORKER_IDLE, .waiting = 2 }, GD_IDLE_BATCH },
        { "waits for a full batch at the end",
          { .state = GD_WORKER_IDLE, .waiting = 2, .source_ended = true },
          GD_IDLE_BATCH },
        { "the run is paused", { .state = GD_WORKER_IDLE, .waiting = 2, .is_paused = true }, GD_IDLE_PAUSED },
        { "the run is paused, but nothing waits", { .state = GD_WORKER_IDLE, .is_paused = true }, GD_IDLE_NO_INPUT },
        { "removed", { .state = GD_WORKER_OFF, .is_spare = true, .waiting = 2 }, GD_IDLE_REMOVED },
        { "the end", { .state = GD_WORKER_IDLE, .source_ended = true }, GD_IDLE_AT_END },
        { "the end, results of others wait",
          { .state = GD_WORKER_IDLE, .source_ended = true, .parked = 4, .queue_is_full = true },
          GD_IDLE_AT_END },
        { "an earlier task is not done",
          { .state = GD_WORKER_IDLE, .parked = 4, .queue_is_full = true },
          GD_IDLE_RESULTS },
        { "an earlier task is not done, but the queue has room",
          { .state = GD_WORKER_IDLE, .parked = 4 },
          GD_IDLE_NO_INPUT },
        { "the queue is full of tasks for other workers",
          { .state = GD_WORKER_IDLE, .queue_is_full = true },
          GD_IDLE_NO_INPUT },
    };
    CHECK_ROWS(rows);
}

TEST(each_reason_has_its_own_name)
{
    for (int i = GD_IDLE_NOT; i <= GD_IDLE_REMOVED; i++) {
        CHECK(strcmp(gd_idle_reason_name((enum gd_idle_reason)i), "unknown") != 0);
        for (int k = GD_IDLE_NOT; k < i; k++)
            CHECK(strcmp(gd_idle_reason_name((enum gd_idle_reason)i), gd_idle_reason_name((enum gd_idle_reason)k)) !=
                  0);
    }
    CHECK_STR(gd_idle_reason_name((enum gd_idle_reason)(GD_IDLE_REMOVED + 1)), "unknown");
    CHECK_STR(gd_idle_reason_name((enum gd_idle_reason) - 1), "unknown");
}

TEST_MAIN()
