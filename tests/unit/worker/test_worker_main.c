/* SPDX-License-Identifier: MIT
 *
 * What gd_worker_main() accepts and stores in the dispatching program. With the test hooks, also workers that die at
 * each kill point, and workers in which one call fails.
 */
#include "unit/worker/worker_fixture.h"

/* ---- the dispatching program ---- */

static int argc_here = 2;
static char *argv_here[] = { (char[]){ "program" }, (char[]){ "argument" }, NULL };

TEST(the_table_and_the_arguments_are_stored)
{
    struct gd_worker_ops ops = modes[0].ops;
    CHECK(gd__worker_registered() == NULL);
    CHECK(gd__worker_argv() == NULL);
    CHECK(!gd__in_worker_process());
    CHECK_EQ(gd_worker_main(&argc_here, argv_here, &ops), 0);
    memset(&ops, 0, sizeof ops);
    char *swapped = argv_here[0];
    argv_here[0] = argv_here[1];
    CHECK(gd__worker_registered()->process == process);
    CHECK_STR(gd__worker_argv()[0], "program");
    CHECK_STR(gd__worker_argv()[1], "argument");
    CHECK(gd__worker_argv()[2] == NULL);
    argv_here[0] = swapped;
    CHECK_EQ(gd_worker_main(&argc_here, argv_here, &modes[1].ops), 0); /* a second call is allowed */
    CHECK(gd__worker_registered()->interrupt == interrupt);
}

TEST(a_worker_process_is_recognised_before_gd_worker_main)
{
    setenv(GD__BOOT_ENV, "3", 1);
    CHECK(gd__in_worker_process());
}

static void cancel_one(struct gd_worker *w, const struct gd_task *t)
{
    (void)w, (void)t;
}

TEST(bad_tables_are_refused)
{
    CHECK_EQ(gd_worker_main(&argc_here, argv_here, NULL), GD_E_INVALID);
    struct gd_worker_ops ops = { .process = process };
    CHECK_EQ(gd_worker_main(&argc_here, argv_here, &ops), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "sizeof(struct gd_worker_ops)");
    ops = (struct gd_worker_ops){ .size = sizeof ops, .setup = setup };
    CHECK_EQ(gd_worker_main(&argc_here, argv_here, &ops), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "process");
    ops = (struct gd_worker_ops){ .size = sizeof ops, .process = process, .cancel = cancel_one };
    CHECK_EQ(gd_worker_main(&argc_here, argv_here, &ops), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "cancel but not begin");
    CHECK_EQ(gd_worker_main(NULL, argv_here, &modes[0].ops), GD_E_INVALID);
    CHECK_EQ(gd_worker_main(&argc_here, NULL, &modes[0].ops), GD_E_INVALID);
    CHECK(gd__worker_registered() == NULL);
}

TEST(tables_of_other_versions)
{
    struct {
        struct gd_worker_ops ops;
        void *more[2];
    } newer = { .ops = modes[1].ops };
    newer.ops.size = sizeof newer;
    CHECK_EQ(gd_worker_main(&argc_here, argv_here, &newer.ops), 0);
    CHECK_EQ(gd__worker_registered()->size, sizeof(struct gd_worker_ops));
    newer.more[1] = &newer;
    CHECK_EQ(gd_worker_main(&argc_here, argv_here, &newer.ops), GD_E_VERSION);

    struct gd_worker_ops older = modes[1].ops;
    older.size = offsetof(struct gd_worker_ops, interrupt);
    CHECK_EQ(gd_worker_main(&argc_here, argv_here, &older), 0);
    CHECK(gd__worker_registered()->interrupt == NULL);
    CHECK(gd__worker_registered()->cleanup == cleanup);
    older.size = offsetof(struct gd_worker_ops, process);
    CHECK_EQ(gd_worker_main(&argc_here, argv_here, &older), GD_E_INVALID);
}

TEST(messages_end_with_a_complete_character)
{
    const char *text = "ab\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
    static const size_t fit[] = { 0, 1, 2, 2, 4, 4, 4, 7, 7, 7, 7, 11 };
    for (size_t i = 0; i < sizeof fit / sizeof fit[0]; i++)
        CHECK_EQ(gd__message_fit(text, i), fit[i]);
    CHECK_EQ(gd__message_fit("\x80\x80\x80\x80\x80", 5), 5); /* not UTF-8: unchanged */
}

/* ---- dying at each kill point ---- */

#ifdef GD_TEST_HOOKS
static void run_until_killed_at(const char *point)
{
    prepare();
    f->spec.config.load_ahead = 1;
    setenv("GD_KILL", point, 1);
    start("load");
    append("+");
    append("+");
    gd__channel_publish(&f->c);
    gd__channel_stop(&f->c);
    int kind;
    uint64_t results = 0;
    while ((kind = next()) != 0)
        results += kind == GD__R_SUCCESS;
    if (f->signal != SIGKILL)
        FAIL("%s: signal %d, exit code %d", point, f->signal, f->exit_code);
    CHECK_LE(results, 2);
    dispose();
}

TEST(every_kill_point_is_reached)
{
#define POINT(name) name,
    static const char *const points[] = { GD__KILL_POINTS(POINT) };
#undef POINT
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++)
        run_until_killed_at(points[i]);
}

TEST(a_half_written_result_is_not_a_result)
{
    prepare();
    setenv("GD_KILL", "result_half", 1);
    start_ready("plain");
    give("e");
    CHECK_EQ(next(), 0);
    CHECK_EQ(f->signal, SIGKILL);
}

TEST(a_later_process_of_the_same_worker_is_not_killed)
{
    prepare();
    f->spec.config.generation = 1;
    setenv("GD_KILL", "boot", 1);
    start_ready("plain");
    stop();
}

/* Makes each call during the start of a worker fail once. The result is a clear error, never a hang. */
TEST(every_start_failure_is_reported)
{
    for (int nth = 1; nth < 60; nth++) {
        char number[16];
        prepare();
        snprintf(number, sizeof number, "%d", nth);
        setenv("GD_FAULT_WORKER", number, 1);
        start("load");
        give("+");
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

WORKER_TEST_MAIN()
