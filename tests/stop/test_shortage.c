/* SPDX-License-Identifier: MIT
 *
 * If the machine cannot start another process, the task is not charged. It is tried again later, and the problem is
 * reported once.
 */
#include <gpu_dispatch/command.h>
#include <gpu_dispatch/gpu_dispatch.h>

#include "support/shell.h"

/* Runs with preload_shortage.so. */
#define RUN    "LD_PRELOAD=$GD_TEST_PLUGINS/preload_shortage.so gpu-dispatch run --quiet --joblog log "
#define VALUES "tail -n +2 log | cut -f 7 | sort | uniq -c | awk '{ print $1, $2 }'"

/* A preloaded library does not work with a sanitizer, which must be loaded first. */
static void need_preload(void)
{
    if (sh("LD_PRELOAD=$GD_TEST_PLUGINS/preload_shortage.so gpu-dispatch --version").status != 0)
        SKIP("no library can be preloaded into the command");
}

static void check_reported_once(const char *text)
{
    const char *message = "Resource temporarily unavailable";
    const char *first = strstr(text, message);
    CHECK(first != NULL);
    CHECK(strstr(first + 1, message) == NULL);
    CHECK_CONTAINS(text, "pids.max");
}

TEST(a_command_that_cannot_be_started_is_tried_again)
{
    need_preload();
    struct ran r =
        sh("export SHORT_COMMANDS=$PWD/c; touch c.1 c.2 c.3; " RUN "--gpus sim:2 echo ::: a b c d e; echo $?; " VALUES);
    CHECK_CONTAINS(r.out, "0\n5 0\n");
    check_reported_once(r.err);
}

TEST(a_single_worker_continues_too)
{
    need_preload();
    struct ran r =
        sh("export SHORT_COMMANDS=$PWD/c; touch c.1 c.2 c.3; " RUN "--gpus sim:1 echo ::: a b; echo $?; " VALUES);
    CHECK_CONTAINS(r.out, "0\n2 0\n");
    check_reported_once(r.err);
}

TEST(a_worker_that_cannot_be_started_is_started_later)
{
    need_preload();
    struct ran r =
        sh("export SHORT_WORKERS=$PWD/w; touch w.1 w.2 w.3; " RUN "--gpus sim:1 echo ::: a b; echo $?; " VALUES);
    CHECK_CONTAINS(r.out, "0\n2 0\n");
    check_reported_once(r.err);
}

TEST(the_workers_that_start_do_all_tasks)
{
    need_preload();
    struct ran r = sh("export SHORT_WORKERS=$PWD/w; touch w.1 w.2 w.3 w.4 w.5 w.6; " RUN
                      "--gpus sim:4 echo ::: a b c d; echo $?; " VALUES);
    CHECK_CONTAINS(r.out, "0\n4 0\n");
    check_reported_once(r.err);
}

/* --- nothing can be started at all --- */

struct job {
    unsigned given, cancelled, others;
};

static int source(void *user, struct gd_item *item)
{
    struct job *j = user;
    item->data = "";
    return j->given++ < 3;
}

static void on_final(void *user, const struct gd_report *r)
{
    struct job *j = user;
    if (r->failure == GD_FAILURE_CANCELLED)
        CHECK_STR(r->error, "not done: no process could be started");
    *(r->failure == GD_FAILURE_CANCELLED ? &j->cancelled : &j->others) += 1;
}

/* The delay between attempts doubles, so the wait of 200 ms ends before the shortages are used up. */
TEST(a_run_in_which_nothing_can_be_started_ends)
{
    need_preload();
    char preload[4096], shortages[4096];
    const char *const words[] = { "true", NULL };
    const struct gd_command_spec spec = { .size = sizeof spec, .words = words, .shell = "/bin/sh" };
    const char *const env[] = { preload, shortages, NULL };
    struct job j = { 0 };
    struct gd_options o = GD_OPTIONS_INIT;
    sh("touch c.1 c.2 c.3 c.4 c.5 c.6 c.7 c.8 c.9");
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s/preload_shortage.so", getenv("GD_TEST_PLUGINS"));
    snprintf(shortages, sizeof shortages, "SHORT_COMMANDS=%s/c", sh_dir());
    o.gpu_ids = (const int[]){ 0 };
    o.n_gpus = 1;
    o.env = env;
    o.user = &j;
    o.source = source;
    o.on_success = o.on_error = on_final;
    o.shortage_wait_ms = 200;
    char **argv = gd_command_worker(&spec);
    CHECK(argv != NULL);
    o.worker_argv = argv;
    CHECK_EQ(gd_run(&o), GD_E_SYSTEM);
    CHECK_CONTAINS(gd_error_text(), "no worker process could be started for 0.2 s");
    CHECK_CONTAINS(gd_error_text(), "ulimit -u");
    gd_argv_free(argv);
    CHECK_EQ(j.cancelled, 3);
    CHECK_EQ(j.others, 0);
}

TEST_MAIN()
