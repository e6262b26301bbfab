/* SPDX-License-Identifier: MIT
 *
 * Journals of shards, for tests of commands that take several journals.
 */
#ifndef GD_TESTS_COMMAND_JOURNALS_SHARDS_H
#define GD_TESTS_COMMAND_JOURNALS_SHARDS_H

#include <gpu_dispatch/journal.h>

#include "command/common.h"

/* Fails for inputs that are multiples of 10. */
#define CMD "'test $(({} %% 10)) != 0' "

TEST_UNUSED static void need_journal(void)
{
    if (!gd_journal_available())
        SKIP("built without journals");
}

/* Runs shard K of N of the inputs 1 to 40. */
TEST_UNUSED static void run_shard(unsigned k, unsigned n)
{
    const int status = sh(RUN "--shard %u/%u --journal run.db --failed /dev/null " CMD "::: $(seq 1 40)", k, n).status;
    CHECK_LE(status, 4);
}

/* Writes text to the journal with a program that has SQLite. */
TEST_UNUSED static void change(const char *journal, const char *sql)
{
    need("sqlite3");
    CHECK_EQ(sh("sqlite3 %s \"%s\"", journal, sql).status, 0);
}

#endif
