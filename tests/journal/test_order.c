/* SPDX-License-Identifier: MIT
 *
 * Resumes a run whose list has another order than before. The whole journal is then read to find the tasks, which may
 * take long. The run can be interrupted meanwhile.
 */
#include "support/fifo.h"
#include "support/shell.h"

#define RUN_TASKS "gpu-dispatch run --gpus sim:2 --quiet --journal run.db "
/* Far more rows than the window that is searched first. */
#define MAKE "seq 12000 > list; " RUN_TASKS "--stream sh w.sh < list > /dev/null; tac list > turned"
#define PROGRAM                                                                                    \
    "cat > w.sh <<'end'\n"                                                                         \
    "echo '{\"ready\":true}'\n"                                                                    \
    "while read -r line; do i=${line#*:}; echo \"{\\\"id\\\":${i%%,*},\\\"output\\\":1}\"; done\n" \
    "end\n"

/* Ctrl-C is confirmed while the index is being built, and the run ends when the test lets it continue. */
TEST_WITHIN(300, ctrl_c_while_the_journal_is_indexed)
{
    /* A sanitizer must be loaded before anything else. */
    if (sh("LD_PRELOAD=$GD_TEST_PLUGINS/preload_index.so gpu-dispatch --version").status != 0)
        SKIP("the library of this test cannot be loaded before the command");
    CHECK_EQ(sh(PROGRAM MAKE).status, 0);
    const int held = fifo("held"), said = fifo("said"), go = fifo("go");
    char byte;
    struct sh_running run =
        sh_start_script("export GD_INDEX_HELD=$PWD/held GD_INDEX_GO=$PWD/go; "
                        "export LD_PRELOAD=\"${LD_PRELOAD:-} $GD_TEST_PLUGINS/preload_index.so\"; exec " RUN_TASKS
                        "--resume --stream sh w.sh < turned 2> said");
    CHECK_EQ(read(held, &byte, 1), 1);
    CHECK_EQ(kill(run.pid, SIGINT), 0);
    await_lines(said, 1); /* the message that it was interrupted */
    CHECK_EQ(write(go, "x", 1), 1);
    CHECK_EQ(sh_wait(run).status, 130);
}

/* Without an interruption the run goes on normally. */
TEST_WITHIN(300, a_reversed_list)
{
    CHECK_EQ(sh(PROGRAM MAKE).status, 0);
    struct ran r = sh(RUN_TASKS "--resume --output o --stream sh w.sh < turned; wc -l < o");
    CHECK_STR(r.out, "0\n");
    CHECK_EQ(r.status, 0);
}

TEST_MAIN()
