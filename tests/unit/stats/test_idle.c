/* SPDX-License-Identifier: MIT
 *
 * Why a worker has nothing to do: a row per situation.
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

TEST(some_states_are_reasons_by_themselves)
{
    static const struct row rows[] = {
        { "its turn has not come", { .state = GD_WORKER_OFF }, GD_IDLE_SETTING_UP },
        { "in setup", { .state = GD_WORKER_STARTING }, GD_IDLE_SETTING_UP },
        { "in setup, with input", { .state = GD_WORKER_STARTING, .waiting = 3 }, GD_IDLE_SETTING_UP },
        { "in setup, at the end", { .state = GD_WORKER_STARTING, .source_ended = true }, GD_IDLE_SETTING_UP },
        { "asked to stop a task", { .state = GD_WORKER_CANCELLING, .handed = 1 }, GD_IDLE_NOT },
        { "being killed", { .state = GD_WORKER_KILLING, .handed = 1 }, GD_IDLE_RESTARTING },
        { "died", { .state = GD_WORKER_RESTING }, GD_IDLE_RESTARTING },
        { "cleaning up", { .state = GD_WORKER_STOPPING }, GD_IDLE_AT_END },
        { "finished", { .state = GD_WORKER_FINISHED }, GD_IDLE_AT_END },
        { "given up", { .state = GD_WORKER_FAILED, .waiting = 5 }, GD_IDLE_AT_END },
        { "lost", { .state = GD_WORKER_LOST }, GD_IDLE_AT_END },
        { "no state", { .state = (enum gd_worker_state)99 }, GD_IDLE_AT_END },
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
        { "done with all",
          { .state = GD_WORKER_BUSY, .handed = 2, .results_waiting = 2, .is_started = true },
          GD_IDLE_RESULTS },
        { "done with some",
          { .state = GD_WORKER_BUSY, .handed = 3, .results_waiting = 2, .is_started = true },
          GD_IDLE_NOT },
        { "no room for more",
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
        { "the source has nothing", { .state = GD_WORKER_IDLE }, GD_IDLE_NO_INPUT },
        { "held back", { .state = GD_WORKER_IDLE, .waiting = 2 }, GD_IDLE_BATCH },
        { "held back at the end", { .state = GD_WORKER_IDLE, .waiting = 2, .source_ended = true }, GD_IDLE_BATCH },
        { "the end", { .state = GD_WORKER_IDLE, .source_ended = true }, GD_IDLE_AT_END },
        { "the end, others wait",
          { .state = GD_WORKER_IDLE, .source_ended = true, .parked = 4, .queue_is_full = true },
          GD_IDLE_AT_END },
        { "an earlier task is not done",
          { .state = GD_WORKER_IDLE, .parked = 4, .queue_is_full = true },
          GD_IDLE_RESULTS },
        { "one is not done, but more may come", { .state = GD_WORKER_IDLE, .parked = 4 }, GD_IDLE_NO_INPUT },
        { "the queue is others'", { .state = GD_WORKER_IDLE, .queue_is_full = true }, GD_IDLE_NO_INPUT },
    };
    CHECK_ROWS(rows);
}

TEST(each_has_a_name_of_its_own)
{
    for (int i = GD_IDLE_NOT; i <= GD_IDLE_AT_END; i++) {
        CHECK(strcmp(gd_idle_reason_name((enum gd_idle_reason)i), "unknown") != 0);
        for (int k = GD_IDLE_NOT; k < i; k++)
            CHECK(strcmp(gd_idle_reason_name((enum gd_idle_reason)i), gd_idle_reason_name((enum gd_idle_reason)k)) !=
                  0);
    }
    CHECK_STR(gd_idle_reason_name((enum gd_idle_reason)(GD_IDLE_AT_END + 1)), "unknown");
    CHECK_STR(gd_idle_reason_name((enum gd_idle_reason) - 1), "unknown");
}

TEST_MAIN()
