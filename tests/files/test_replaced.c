/* SPDX-License-Identifier: MIT
 *
 * Files that the command writes under a temporary name and renames: what may exist under the temporary name, what the
 * final name may be, and the owner and mode of the new file.
 */
#include <gpu_dispatch/journal.h>

#include "command/common.h"

#define KEEP "gpu-dispatch run --gpus sim:2 --quiet --journal run.db "
/* A command that fails for inputs that begin with "bad". */
#define CMD "'case {} in bad*) exit 3;; esac; echo out {}' "

static void need_journal(void)
{
    if (!gd_journal_available())
        SKIP("built without journals");
}

/* If a temporary name is a link, the file that it points to is unchanged, and the written file is complete. */
static void check_link(const char *name, const char *command, const char *file)
{
    CHECK_EQ(sh("echo precious > victim; ln -sf \"$PWD/victim\" %s", name).status, 0);
    struct ran r = sh("%s", command);
    CHECK_STR(sh("cat victim").out, "precious\n");
    CHECK_EQ(r.status == 0 || r.status == 1, true);
    CHECK_EQ(sh("test -s %s -a ! -L %s -a ! -e %s -a ! -L %s", file, file, name, name).status, 0);
}

TEST(a_link_under_a_temporary_name_is_not_followed)
{
    need_journal();
    CHECK_EQ(sh(KEEP "--output o " CMD "::: a bad").status, 1);
    check_link("o.part", KEEP "--output o --retry-failed " CMD "::: a bad", "o");
    check_link("run.failed.jsonl.part", KEEP "--resume " CMD "::: a bad", "run.failed.jsonl");
    check_link("list.part", KEEP "--failed list --resume " CMD "::: a bad", "list");
    check_link("x.part", "gpu-dispatch export run.db --csv -o x", "x");
    check_link("page.part", "gpu-dispatch report run.db -o page", "page");
    check_link("run.db.html.part", "gpu-dispatch report run.db", "run.db.html");
}

TEST(a_link_under_a_temporary_name_of_results)
{
    CHECK_EQ(sh("mkdir -p R/1/a; echo precious > victim; ln -s \"$PWD/victim\" R/1/a/stdout.part; " RUN
                "--results R 'echo {}' ::: a")
                 .status,
             0);
    CHECK_STR(sh("cat victim R/1/a/stdout; ls R/1/a | tr '\\n' ' '").out, "precious\na\nseq stderr stdout ");
}

/* Default names are replaced, whatever is there. */
TEST(a_link_under_a_usual_name_is_replaced)
{
    need_journal();
    CHECK_EQ(sh("echo precious > victim; ln -s victim run.failed.jsonl; ln -s victim run.db.html; " KEEP CMD
                "::: a bad; gpu-dispatch report run.db")
                 .status,
             0);
    CHECK_STR(sh("cat victim").out, "precious\n");
    CHECK_EQ(sh("test -s run.failed.jsonl -a ! -L run.failed.jsonl -a -s run.db.html -a ! -L run.db.html").status, 0);
}

TEST(files_left_by_a_killed_run_are_replaced)
{
    need_journal();
    CHECK_EQ(sh(KEEP "--output o " CMD "::: a bad").status, 1);
    CHECK_EQ(sh("seq 1000 > o.part; seq 1000 > x.part; " KEEP "--output o --retry-failed " CMD "::: a bad").status, 1);
    CHECK_EQ(sh("gpu-dispatch export run.db --jsonl -o x").status, 0);
    CHECK_STR(sh("wc -l < o; wc -l < x; ls *.part 2> /dev/null").out, "2\n2\n");
}

TEST(a_temporary_name_that_stays_taken)
{
    need_journal();
    CHECK_EQ(sh(KEEP CMD "::: a").status, 0);
    struct ran r = sh("mkdir x.part; gpu-dispatch export run.db --csv -o x");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "x.part cannot be removed");
    CHECK_EQ(sh("test -d x.part -a ! -e x").status, 0);
}

/* --- links that the user named ---------------------------------------------------------------- */

/* The name is still a link, its target has the new content, and there is no other file. */
static void check_named(const char *link, const char *command)
{
    sh("rm -rf far; mkdir far; echo old > far/file; chmod 640 far/file; ln -sf far/file %s", link);
    struct ran r = sh("%s", command);
    CHECK_EQ(r.status == 0 || r.status == 1, true);
    CHECK_STR(sh("readlink %s; ls far; ls -d %s.part 2> /dev/null", link, link).out, "far/file\nfile\n");
    CHECK_EQ(sh("grep -qx old far/file").status, 1);
    CHECK_STR(sh("stat -c %%a far/file").out, "640\n");
    /* The target is created if it does not exist yet. */
    r = sh("rm far/file; %s", command);
    CHECK_EQ(r.status == 0 || r.status == 1, true);
    CHECK_STR(sh("readlink %s; ls far", link).out, "far/file\nfile\n");
}

TEST(a_link_that_was_named_stays)
{
    need_journal();
    CHECK_EQ(sh(KEEP CMD "::: a bad").status, 1);
    check_named("x", "gpu-dispatch export run.db --csv -o x");
    check_named("page", "gpu-dispatch report run.db -o page");
    check_named("list", KEEP "--failed list --resume " CMD "::: a bad");
}

TEST(an_output_through_a_link_is_tidied_at_its_target)
{
    need_journal();
    CHECK_EQ(sh("mkdir far; ln -s far/file o; (umask 027; " KEEP "--output o " CMD "::: a bad)").status, 1);
    for (int i = 2; i < 4; i++) {
        CHECK_EQ(sh(KEEP "--output o --retry-failed " CMD "::: a bad").status, 1);
        CHECK_STR(sh("readlink o; ls far; wc -l < far/file; stat -c %%a far/file; ls -d o.part 2> /dev/null").out,
                  "far/file\nfile\n2\n640\n");
    }
    /* The journal still recognises the file. */
    CHECK_EQ(sh(KEEP "--output o --resume " CMD "::: a bad b").status, 1);
    CHECK_STR(sh("wc -l < far/file").out, "3\n");
}

TEST(links_to_one_file_that_does_not_exist_yet)
{
    CHECK_REFUSED(sh("ln -s o link; " RUN "--output link --joblog o echo ::: a"),
                  "gpu-dispatch: --output link and --joblog o are the same file: give two different files");
}

/* --- owner and mode ---------------------------------------------------------------------------- */

TEST(a_new_file_has_the_mode_of_a_new_file)
{
    need_journal();
    CHECK_EQ(sh(KEEP CMD "::: a bad").status, 1);
    CHECK_STR(sh("umask 027; gpu-dispatch export run.db --csv -o x; stat -c %%a x").out, "640\n");
    CHECK_STR(sh("umask 077; gpu-dispatch report run.db -o page; stat -c %%a page").out, "page\n600\n");
}

TEST(a_file_that_is_replaced_keeps_its_mode)
{
    need_journal();
    CHECK_EQ(sh(KEEP "--failed list " CMD "::: a bad").status, 1);
    CHECK_STR(sh("chmod 604 list; umask 077; " KEEP "--failed list --resume " CMD "::: a bad; stat -c %%a list").out,
              "604\n");
    CHECK_STR(sh("touch x; chmod 600 x; umask 0; gpu-dispatch export run.db --csv -o x; stat -c %%a x").out, "600\n");
}

TEST(a_file_that_is_replaced_keeps_its_owner)
{
    need_journal();
    CHECK_EQ(sh(KEEP "--output o " CMD "::: a bad").status, 1);
    if (sh("chown 12345:23456 o && chmod 640 o").status != 0)
        SKIP("this user may not change the owner of files");
    CHECK_EQ(sh(KEEP "--output o --retry-failed " CMD "::: a bad").status, 1);
    CHECK_STR(sh("stat -c '%%u %%g %%a' o").out, "12345 23456 640\n");
}

/* --- targets that are not replaced --------------------------------------------------------------- */

TEST(a_pipe_is_written_to_and_not_replaced)
{
    need_journal();
    CHECK_EQ(sh(KEEP CMD "::: a bad").status, 1);
    CHECK_STR(sh("mkfifo p; cat p > got & gpu-dispatch export run.db --csv -o p; wait; test -p p && wc -l < got").out,
              "3\n");
    CHECK_STR(sh("ln -s /dev/stdout out; gpu-dispatch export run.db --csv -o out | wc -l").out, "3\n");
}

TEST(a_journal_is_not_written_over)
{
    need_journal();
    CHECK_EQ(sh(KEEP CMD "::: a").status, 0);
    CHECK_REFUSED(sh("ln -s run.db link; gpu-dispatch export run.db --csv -o link"),
                  "gpu-dispatch: -o link is the journal itself: give another file");
    CHECK_EQ(sh("gpu-dispatch status run.db").status, 0);
}

TEST_MAIN()
