/* SPDX-License-Identifier: MIT
 *
 * --output and --joblog after a run that was killed: edited meanwhile, moved with the journal, or named through links.
 * Only the run's own lines are cut off, and no task has two lines.
 */
#include <gpu_dispatch/journal.h>

#include "command/common.h"

#define KEEP "gpu-dispatch run --gpus sim:2 --quiet --journal run.db --output o --joblog l "
/* "wait" ends when something is written to the pipe p, and at once if there is no such pipe. */
#define CMD "'case {} in wait) test ! -p p || cat p;; esac; echo out {}' "
/* Kills a run in this directory, whose last task is "wait", after `status` has printed this text. Then adds to both
 * files a line that is not in the journal, and an incomplete line. */
#define KILL(options, inputs, says)                                                             \
    "mkfifo p; GPU_DISPATCH_JOURNAL_MS=1 " KEEP options CMD "::: " inputs " wait & "            \
    "until gpu-dispatch status run.db 2>&1 | grep -q '" says "'; do :; done; "                  \
    "kill -9 $!; wait; rm p; printf '{\"id\":2,\"run\":1,\"input\":\"wait\"}\n{\"id\":' >> o; " \
    "printf '3\\t:\\t17\\n4' >> l"
#define KILLED KILL("", "a b", "^  done *2 ")
#define RESUME KEEP "--resume " CMD "::: a b wait"

static void need_journal(void)
{
    if (!gd_journal_available())
        SKIP("built without journals");
}

/* Checks that every task has one line in each file, and that the joblog has its headings. */
static void check_files(const char *dir)
{
    CHECK_STR(sh("cd %s; sed 's/.*\"input\":\"\\([^\"]*\\)\".*/\\1/' o | sort | tr '\\n' ' '", dir).out, "a b wait ");
    CHECK_STR(sh("cd %s; cut -f 1 l | sort | tr '\\n' ' '", dir).out, "1 2 3 Seq ");
}

static void killed_in(const char *dir)
{
    need_journal();
    struct ran r = sh("mkdir %s; cd %s; " KILLED, dir, dir);
    CHECK_EQ(r.status, 0);
    CHECK_STR(sh("cd %s; tail -n 1 o", dir).out, "{\"id\":");
}

TEST(lines_left_by_a_killed_run_are_cut_off)
{
    killed_in("d");
    CHECK_EQ(sh("cd d; " RESUME).status, 0);
    check_files("d");
}

/* --- edited --------------------------------------------------------------------------------- */

/* Both files stay as they were edited, and the message says what to do. */
static void check_edited(const char *edit)
{
    struct ran r = sh("cd d; %s; cp o o.is; cp l l.is; " RESUME, edit);
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "was changed since the journal run.db wrote to it");
    CHECK_CONTAINS(r.err, "Restore the file");
    CHECK_CONTAINS(r.err, "--force-resume");
    CHECK_EQ(sh("cd d; cmp o o.is && cmp l l.is").status, 0);
}

TEST(a_file_that_was_edited_is_refused_and_not_cut)
{
    killed_in("d");
    sh("cd d; cp o o.was; cp l l.was");
    check_edited("sed -i 's/out a/something that is longer than out a/' o");
    check_edited("cp o.was o; sed -i '1i # a line of my own' o");
    check_edited("cp o.was o; sed -i '2s/:/somewhere/' l");
    /* The file as the run left it is continued. */
    CHECK_EQ(sh("cd d; cp o.was o; cp l.was l; " RESUME).status, 0);
    check_files("d");
}

TEST(a_missing_file_is_reported_before_another_is_cut)
{
    killed_in("d");
    struct ran r = sh("cd d; cp l l.is; mv o away; " RESUME);
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "o is missing, but the journal run.db has records of what was written to it");
    CHECK_EQ(sh("cd d; cmp l l.is && test ! -e o && mv away o; " RESUME).status, 0);
    check_files("d");
}

TEST(the_rest_can_go_to_another_file)
{
    killed_in("d");
    CHECK_EQ(sh("cd d; sed -i 's/out a/something that is longer than out a/' o; cp o o.is; " RESUME).status, 255);
    CHECK_EQ(sh("cd d; " KEEP "--output rest --resume " CMD "::: a b wait").status, 0);
    CHECK_EQ(sh("cd d; cmp o o.is; test $(wc -l < rest) = 1").status, 0);
}

/* If forced, everything stays, and nothing is appended to the incomplete line. */
TEST(an_edited_file_keeps_every_byte_if_forced)
{
    killed_in("d");
    sh("cd d; sed -i '1i # a line of my own' o; cp o o.is");
    CHECK_EQ(sh("cd d; " KEEP "--resume --force-resume " CMD "::: a b wait").status, 0);
    CHECK_EQ(sh("cd d; head -c $(wc -c < o.is) o | cmp - o.is").status, 0);
    CHECK_STR(sh("cd d; tail -n 1 o | grep -c '\"input\":\"wait\"'; wc -l < o").out, "1\n6\n");
}

/* Every record is still there, and no record belongs to a task that will be run again. So nothing has to be cut. */
TEST(a_line_added_to_a_complete_file)
{
    need_journal();
    CHECK_EQ(sh("mkdir d; cd d; " KEEP CMD "::: a b").status, 0);
    CHECK_EQ(sh("cd d; sed -i '1i # a line of my own' o; " RESUME).status, 0);
    CHECK_STR(sh("cd d; head -n 1 o; wc -l < o").out, "# a line of my own\n4\n");
}

/* After a run that ended normally, lines that follow its own lines do not belong to it. */
TEST(lines_that_others_added_are_not_cut_off)
{
    need_journal();
    CHECK_EQ(sh("mkdir d; cd d; " KEEP CMD "::: a b; echo '# a line of my own' >> l; cp l l.is").status, 0);
    struct ran r = sh("cd d; " RESUME);
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "l has 19 bytes more than the last run left there");
    CHECK_CONTAINS(r.err, "--force-resume");
    CHECK_EQ(sh("cd d; cmp l l.is").status, 0);
    CHECK_EQ(sh("cd d; " KEEP "--force-resume --resume " CMD "::: a b wait").status, 0);
    CHECK_STR(sh("cd d; sed -n 4p l; tail -n 1 l | cut -f 1; wc -l < l").out, "# a line of my own\n3\n5\n");
    /* In --output the run's own lines can be recognised. */
    CHECK_EQ(sh("cd d; echo '# a line of my own' >> o; " KEEP "--resume " CMD "::: a b wait c").status, 0);
    CHECK_STR(sh("cd d; sed -n 4p o; wc -l < o").out, "# a line of my own\n5\n");
}

/* --- moved ---------------------------------------------------------------------------------- */

TEST(files_that_were_moved_with_the_journal)
{
    killed_in("d");
    CHECK_EQ(sh("mv d e; cd e; " RESUME).status, 0);
    check_files("e");
}

TEST(files_that_were_copied_with_the_journal)
{
    killed_in("d");
    CHECK_EQ(sh("cp -r d e; cd e; " RESUME).status, 0);
    check_files("e");
    /* The copy's run has not changed the original. */
    CHECK_EQ(sh("cd d; " RESUME).status, 0);
    check_files("d");
}

/* The journal is moved, but not the files. They are found by their absolute paths. */
TEST(a_journal_that_was_moved_alone)
{
    killed_in("d");
    CHECK_EQ(sh("mkdir e; mv d/run.db* e; cd d; gpu-dispatch run --gpus sim:2 --quiet --journal ../e/run.db "
                "--output o --joblog l --resume " CMD "::: a b wait")
                 .status,
             0);
    check_files("d");
}

TEST(moved_again_and_again)
{
    killed_in("d");
    CHECK_EQ(sh("mv d e; cd e; " KILL("--resume ", "a b c", "^  done *3 ")).status, 0);
    CHECK_EQ(sh("mv e d; cd d; " KEEP "--resume " CMD "::: a b c wait").status, 0);
    CHECK_STR(sh("cd d; sed 's/.*\"input\":\"\\([^\"]*\\)\".*/\\1/' o | sort | tr '\\n' ' '").out, "a b c wait ");
    CHECK_STR(sh("cd d; cut -f 1 l | sort | tr '\\n' ' '").out, "1 2 3 4 Seq ");
}

TEST_MAIN()
