/* SPDX-License-Identifier: MIT
 *
 * A machine without room for another process is no fault of a task: it is tried again later, and said once.
 */
#include "support/shell.h"

/* With the library that makes processes scarce. */
#define RUN    "LD_PRELOAD=$GD_TEST_PLUGINS/preload_shortage.so gpu-dispatch run --quiet --joblog log "
#define VALUES "tail -n +2 log | cut -f 7 | sort | uniq -c | awk '{ print $1, $2 }'"

/* A sanitizer must be loaded before anything else. */
static void need_preload(void)
{
    if (sh("LD_PRELOAD=$GD_TEST_PLUGINS/preload_shortage.so gpu-dispatch --version").status != 0)
        SKIP("nothing can be loaded before the command");
}

static void check_said_once(const char *text)
{
    const char *words = "Resource temporarily unavailable";
    const char *first = strstr(text, words);
    CHECK(first != NULL);
    CHECK(strstr(first + 1, words) == NULL);
    CHECK_CONTAINS(text, "pids.max");
}

TEST(a_command_that_cannot_be_started_is_tried_again)
{
    need_preload();
    struct ran r =
        sh("export SHORT_COMMANDS=$PWD/c; touch c.1 c.2 c.3; " RUN "--gpus sim:2 echo ::: a b c d e; echo $?; " VALUES);
    CHECK_CONTAINS(r.out, "0\n5 0\n");
    check_said_once(r.err);
}

TEST(one_worker_alone_goes_on_too)
{
    need_preload();
    struct ran r =
        sh("export SHORT_COMMANDS=$PWD/c; touch c.1 c.2 c.3; " RUN "--gpus sim:1 echo ::: a b; echo $?; " VALUES);
    CHECK_CONTAINS(r.out, "0\n2 0\n");
    check_said_once(r.err);
}

TEST(a_worker_that_cannot_be_started_is_started_later)
{
    need_preload();
    struct ran r =
        sh("export SHORT_WORKERS=$PWD/w; touch w.1 w.2 w.3; " RUN "--gpus sim:1 echo ::: a b; echo $?; " VALUES);
    CHECK_CONTAINS(r.out, "0\n2 0\n");
    check_said_once(r.err);
}

TEST(some_workers_do_all_the_work)
{
    need_preload();
    struct ran r = sh("export SHORT_WORKERS=$PWD/w; touch w.1 w.2 w.3 w.4 w.5 w.6; " RUN
                      "--gpus sim:4 echo ::: a b c d; echo $?; " VALUES);
    CHECK_CONTAINS(r.out, "0\n4 0\n");
    check_said_once(r.err);
}

TEST_MAIN()
