/* SPDX-License-Identifier: MIT
 *
 * Runs of the command with a journal: which tasks are skipped, what is refused, the messages, `status` and `export`.
 * tests/crash tests that journals survive a kill.
 */
#include <gpu_dispatch/journal.h>

#include "common.h"

#define KEEP RUN "--journal run.db "
/* A command that appends its input to "ran", and fails for inputs that begin with "bad". */
#define CMD "'echo {} >> ran; case {} in bad*) echo why {} >&2; exit 3;; esac; echo out {}' "

static void need_journal(void)
{
    if (!gd_journal_available())
        SKIP("built without journals");
}

/* The inputs that were run since the last call, sorted. */
static char *ran(void)
{
    return sh("touch ran; sort ran | tr '\\n' ' '; rm ran").out;
}

/* --- skipping --------------------------------------------------------------------------- */

TEST(done_tasks_are_skipped)
{
    need_journal();
    CHECK_EQ(sh(KEEP CMD "::: a b c").status, 0);
    CHECK_STR(ran(), "a b c ");
    struct ran r = sh(KEEP "--resume " CMD "::: c x a y b");
    CHECK_EQ(r.status, 0);
    CHECK_STR(ran(), "x y ");
    CHECK_EQ(sh(KEEP "--resume " CMD "::: b").status, 0);
    CHECK_STR(ran(), "");
}

TEST(resume_begins_a_journal_too)
{
    need_journal();
    CHECK_EQ(sh(KEEP "--resume " CMD "::: a b").status, 0);
    CHECK_STR(ran(), "a b ");
}

TEST(the_same_input_twice_is_two_tasks)
{
    need_journal();
    CHECK_EQ(sh(KEEP "--output o " CMD "::: a a").status, 0);
    CHECK_STR(ran(), "a a ");
    CHECK_EQ(sh(KEEP "--output o --resume " CMD "::: a a a").status, 0);
    CHECK_STR(ran(), "a ");
    CHECK_STR(sh("wc -l < o").out, "3\n");
}

TEST(failed_tasks_are_final_too)
{
    need_journal();
    CHECK_EQ(sh(KEEP CMD "::: a bad1 bad2").status, 2);
    CHECK_STR(ran(), "a bad1 bad2 ");
    /* Nothing is run, and earlier failures are still reported. */
    CHECK_EQ(sh(KEEP "--resume " CMD "::: a bad1 bad2").status, 2);
    CHECK_STR(ran(), "");
}

TEST(retrying_failed_tasks)
{
    need_journal();
    CHECK_EQ(sh(KEEP "--output o " CMD "::: a bad1 bad2").status, 2);
    (void)ran();
    CHECK_EQ(sh(KEEP "--output o --retry-failed " CMD "::: new a bad1 bad2").status, 2);
    CHECK_STR(ran(), "bad1 bad2 ");
    CHECK_EQ(sh(KEEP "--output o --resume --retry-failed " CMD "::: new a bad1 bad2").status, 2);
    CHECK_STR(ran(), "bad1 bad2 new ");
    /* There is one record of each task: the last. */
    CHECK_STR(sh("sed 's/.*\"run\":\\([0-9]*\\),\"input\":\"\\([^\"]*\\)\".*/\\2 \\1/' o | sort").out,
              "a 1\nbad1 3\nbad2 3\nnew 3\n");
    CHECK_STR(sh("ls *.part 2>&1 | wc -l").out, "1\n");
}

TEST(tasks_that_succeed_later_leave_the_list_of_failures)
{
    need_journal();
    CHECK_EQ(sh(KEEP "'test -e good || exit 3; echo' ::: a b").status, 2);
    CHECK_STR(sh("wc -l < run.failed.jsonl").out, "2\n");
    CHECK_EQ(sh("touch good; " KEEP "--retry-failed 'test -e good || exit 3; echo' ::: a b").status, 0);
    CHECK_EQ(sh("test -e run.failed.jsonl").status, 1);
}

/* The journal has the right length of the file after records were removed from it. */
TEST(resuming_after_a_retry)
{
    need_journal();
    CHECK_EQ(sh(KEEP "--output first " CMD "::: a").status, 0);
    CHECK_EQ(sh(KEEP "--output o --resume " CMD "::: a bad b").status, 1);
    CHECK_EQ(sh(KEEP "--output o --retry-failed " CMD "::: a bad b").status, 1);
    CHECK_STR(sh("wc -l < o").out, "2\n");
    struct ran r = sh(KEEP "--output o --resume " CMD "::: a bad b c");
    CHECK_EQ(r.status, 1);
    CHECK_STR(r.out, "out c\n");
    CHECK_STR(sh("wc -l < o").out, "3\n");
}

/* The run with the new records was killed, and the next run runs no task again. Some records are in another file, so
 * there are no more records than tasks. Outdated records are removed nevertheless. */
TEST(records_overtaken_by_a_killed_run)
{
    need_journal();
    const char *command = "'case {} in bad) exit 3;; wait) test -e p || exit 4; cat p;; esac' ";
    sh(KEEP "--output first %s::: 1 2 3", command);
    CHECK_EQ(sh(KEEP "--output o --resume %s::: bad wait", command).status, 2);
    struct ran r = sh("mkfifo p; GPU_DISPATCH_JOURNAL_MS=1 " KEEP "--output o --retry-failed %s::: bad wait & "
                      "until gpu-dispatch status run.db | grep -q 'Run 3 of this journal: 0 done, 1 failed'; do :; "
                      "done; kill -9 $!; wait; wc -l < o",
                      command);
    CHECK_STR(r.out, "3\n");
    CHECK_EQ(sh(KEEP "--output o --resume %s::: bad", command).status, 2);
    CHECK_STR(sh("sed 's/.*\"run\":\\([0-9]*\\),\"input\":\"\\([^\"]*\\)\".*/\\2 \\1/' o | sort").out,
              "bad 3\nwait 2\n");
}

/* --- keys ------------------------------------------------------------------------------------ */

TEST(a_file_that_changed_is_run_again)
{
    need_journal();
    const char *run = KEEP "--output o --resume --input-dir d " CMD;
    CHECK_EQ(sh("mkdir d; echo 1 > d/x; echo 2 > d/y; %s", run).status, 0);
    CHECK_STR(ran(), "d/x d/y ");
    CHECK_EQ(sh("echo 3 > d/z; %s", run).status, 0);
    CHECK_STR(ran(), "d/z ");
    CHECK_EQ(sh("touch -d '2001-02-03' d/x; echo longer > d/y; %s", run).status, 0);
    CHECK_STR(ran(), "d/x d/y ");
    CHECK_EQ(sh("%s", run).status, 0);
    CHECK_STR(ran(), "");
    CHECK_STR(sh("wc -l < o").out, "3\n");
}

TEST(paths_alone)
{
    need_journal();
    const char *run = KEEP "--resume --key path --input-dir d " CMD;
    CHECK_EQ(sh("mkdir d; echo 1 > d/x; %s", run).status, 0);
    CHECK_STR(ran(), "d/x ");
    CHECK_EQ(sh("echo longer > d/x; %s", run).status, 0);
    CHECK_STR(ran(), "");
}

TEST(files_among_arguments)
{
    need_journal();
    const char *run = KEEP "--resume --key file 'echo {} >> ran' ::: x gone :::+ p q";
    CHECK_EQ(sh("echo 1 > x; %s", run).status, 0);
    CHECK_STR(ran(), "gone q x p ");
    CHECK_EQ(sh("%s", run).status, 0);
    CHECK_STR(ran(), "");
    CHECK_EQ(sh("echo here > gone; %s", run).status, 0);
    CHECK_STR(ran(), "gone q ");
}

TEST(members_as_keys)
{
    need_journal();
    const char *run = KEEP "--resume --key .id --jsonl -a in " CMD;
    CHECK_EQ(sh("printf '%%s\\n' '{\"id\":1,\"x\":1}' '{\"id\":2}' > in; %s", run).status, 0);
    CHECK_STR(sh("wc -l < ran; rm ran").out, "2\n");
    struct ran r = sh(
        "printf '%%s\\n' '{\"x\":9,\"id\":2}' '{\"id\":\"2\"}' '{\"no\":1}' '{\"no\":2}' '{\"id\":1}' > in; %s", run);
    CHECK_EQ(r.status, 0);
    CHECK_STR(r.err, "gpu-dispatch: --key .id: a record has no such member, so its whole text identifies it\n");
    CHECK_STR(sh("wc -l < ran; rm ran").out, "3\n");
    CHECK_EQ(sh("%s", run).status, 0);
    CHECK_STR(ran(), "");
}

TEST(invalid_keys)
{
    need_journal();
    CHECK_REFUSED(sh(KEEP "--key size echo ::: a"),
                  "gpu-dispatch: --key takes input, file, path or .NAME, not \"size\"");
    CHECK_REFUSED(sh(KEEP "--key .id echo ::: a"),
                  "gpu-dispatch: --key .id names a member of JSON records: give --jsonl too");
    CHECK_REFUSED(sh(KEEP "--key . --jsonl echo"),
                  "gpu-dispatch: --key . needs a member name after the dot, as in --key .id");
    CHECK_EQ(sh("test -e run.db").status, 1);
}

/* --- runs that are refused -------------------------------------------------------------------------- */

static void check_refused_resume(const char *words, const char *part)
{
    struct ran r = sh(RUN "--journal run.db %s", words);
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, part);
    CHECK_STR(r.out, "");
    CHECK_STR(ran(), "");
}

TEST(another_command_is_refused)
{
    need_journal();
    CHECK_EQ(sh(KEEP "--output o " CMD "::: a").status, 0);
    (void)ran();
    check_refused_resume("--resume 'echo {} >> ran' ::: a b", "--force-resume");
    check_refused_resume("--resume -q " CMD "::: a b", "was made by another command");
    check_refused_resume("--resume --key file " CMD "::: a b", "was made by another command");
    check_refused_resume("--resume --stream cat ::: a b", "was made by another command");
    check_refused_resume(CMD "::: a b", "--resume");
    CHECK_STR(sh("wc -l < o").out, "1\n");
    CHECK_EQ(sh(KEEP "--resume --force-resume 'echo {} >> ran' ::: a b").status, 0);
    CHECK_STR(ran(), "b ");
    CHECK_EQ(sh(KEEP "--resume 'echo {} >> ran' ::: a b").status, 0);
}

TEST(a_second_run_is_refused)
{
    need_journal();
    struct ran r =
        sh("mkfifo p; " KEEP "cat p ::: a & until gpu-dispatch status run.db 2> err | grep -q running; do :; "
           "done; gpu-dispatch status run.db --json | grep -o '\"state\":\"running\"'; " KEEP
           "--resume cat p ::: b; echo $?; echo x > p; wait");
    CHECK_STR(r.out, "\"state\":\"running\"\n255\nx\n");
    CHECK_CONTAINS(r.err, "run.db");
}

/* The journal is recognised under any name. */
TEST(a_second_run_through_a_link_is_refused)
{
    need_journal();
    struct ran r = sh(
        "mkfifo p; touch run.db; ln -s run.db link; " RUN "--journal link cat p ::: a & "
        "until gpu-dispatch status run.db 2> err | grep -q running; do :; done; " KEEP
        "--resume cat p ::: b; echo $?; gpu-dispatch status link | grep -o running; echo x > p; wait; ls run.db-lock");
    CHECK_STR(r.out, "255\nrunning\nx\n");
    CHECK_CONTAINS(r.err, "run.db is in use by another run (process ");
}

/* A run whose journal is gone cannot record anything. So it ends at once, instead of running for hours. */
static void check_lost(const char *loss, const char *part)
{
    /* The run may end before its first tasks read. FIFOs that are open for reading and writing block no process. */
    struct ran r =
        sh("rm -rf run.db* p* ran; mkfifo p1 p2; exec 3<> p1 4<> p2; (seq 30000 | " KEEP
           "'echo {} >> ran; test {} -gt 2 || read x < p{}'; echo $? > status) & "
           "until gpu-dispatch status run.db 2> err | grep -q running; do :; done; %s; "
           "echo >&3; echo >&4; wait; cat status; touch ran; test $(wc -l < ran) -lt 25000 || echo all of it",
           loss);
    CHECK_CONTAINS(r.out, "255\n");
    CHECK(!strstr(r.out, "all of it"));
    CHECK_CONTAINS(r.err, part);
}

TEST(a_journal_that_goes_missing_ends_the_run)
{
    need_journal();
    check_lost("rm run.db", "run.db was removed, moved or replaced while the run wrote to it");
    check_lost("mv run.db other.db", "run.db was removed, moved or replaced");
    check_lost("cp run.db copy; mv copy run.db", "run.db was removed, moved or replaced");
    check_lost("rm run.db-lock", "run.db-lock was removed");
}

TEST(names_that_mean_something_to_sqlite)
{
    need_journal();
    CHECK_EQ(sh(RUN "--journal :memory: echo ::: a && " RUN "--journal file:x?mode=memory echo ::: a").status, 0);
    CHECK_STR(sh("ls | grep -v -e -wal -e -shm; " RUN "--journal :memory: --resume echo ::: a b").out,
              ":memory:\nfile:x?mode=memory\nb\n");
}

TEST(journals_that_cannot_be_opened)
{
    need_journal();
    struct ran r = sh(RUN "--journal no/such/run.db echo ::: a");
    CHECK_EQ(r.status, 255);
    CHECK_STR(r.err,
              "gpu-dispatch: cannot create the journal: the directory no/such does not exist. Create it first\n");
    CHECK_STR(r.out, "");
    r = sh("echo something else > text; " RUN "--journal text echo ::: a; cat text");
    CHECK_STR(r.out, "something else\n");
    CHECK_CONTAINS(r.err, "text");
    CHECK_EQ(sh("gpu-dispatch status text").status, 255);
    CHECK_EQ(sh("gpu-dispatch export text --csv").status, 255);
    CHECK_EQ(sh("gpu-dispatch status nothing").status, 255);
    CHECK_EQ(sh("test -e nothing").status, 1);
}

TEST(an_output_that_was_cut_is_reported)
{
    need_journal();
    CHECK_EQ(sh(KEEP "--output o " CMD "::: a b").status, 0);
    (void)ran();
    struct ran r = sh("truncate -s 20 o; " KEEP "--output o --resume " CMD "::: a b c");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "o has 20 bytes");
    CHECK_CONTAINS(r.err, "--force-resume");
    CHECK_STR(ran(), "");
}

/* No file is created, neither at the link nor at its target. */
static void check_gone(const char *file, const char *name)
{
    char words[300];
    struct ran r = sh("mv %s was; " KEEP "--output o --joblog l --resume " CMD "::: a b c", file);
    snprintf(words, sizeof words,
             "gpu-dispatch: %s is missing, but the journal run.db has records of what was written to it: restore the "
             "file, or start again with another journal, or go on without the old output (--force-resume)\n",
             name);
    CHECK_STR(r.err, words);
    CHECK_EQ(r.status, 255);
    CHECK_STR(ran(), "");
    CHECK_EQ(sh("test -e %s", file).status, 1);
    CHECK_STR(sh("mv was %s; readlink o", file).out, "far\n");
}

TEST(a_missing_output_is_reported_and_not_created)
{
    need_journal();
    CHECK_EQ(sh("ln -s far o; " KEEP "--output o --joblog l " CMD "::: a b").status, 0);
    (void)ran();
    check_gone("far", "o");
    check_gone("l", "l");
    CHECK_EQ(sh(KEEP "--output o --joblog l --resume " CMD "::: a b c").status, 0);
    CHECK_STR(ran(), "c ");
    CHECK_EQ(sh("rm far; " KEEP "--output o --resume --force-resume " CMD "::: a b c d").status, 0);
    CHECK_STR(ran(), "d ");
    CHECK_STR(sh("wc -l < o").out, "1\n");
}

TEST(a_resumed_run_may_use_a_new_output_file)
{
    need_journal();
    CHECK_EQ(sh(KEEP "--output o " CMD "::: a").status, 0);
    CHECK_EQ(sh(KEEP "--output other --resume " CMD "::: a b").status, 0);
    CHECK_STR(sh("cat o other | wc -l").out, "2\n");
}

/* The run is refused for any two names of the same file, before anything is written. */
TEST(one_file_for_two_purposes_is_refused)
{
    need_journal();
    CHECK_REFUSED(sh("seq 3 > in; " RUN "--output in -a in echo; status=$?; test $(wc -l < in) = 3 || exit 1; "
                     "exit $status"),
                  "gpu-dispatch: --output in is also the input: give another file");
    CHECK_REFUSED(sh("ln in hard; " RUN "--joblog hard echo < in"),
                  "gpu-dispatch: --joblog hard is also the input: give another file");
    CHECK_REFUSED(sh(KEEP "--failed in -a in false"), "gpu-dispatch: --failed in is also the input: give another file");
    CHECK_REFUSED(sh(KEEP "--output ./run.db echo ::: a"),
                  "gpu-dispatch: --journal run.db and --output ./run.db are the same file: give two different files");
    CHECK_REFUSED(sh("ln -s . here; " RUN "--output here/o --joblog o echo ::: a"),
                  "gpu-dispatch: --output here/o and --joblog o are the same file: give two different files");
    CHECK_STR(sh("ls | tr '\\n' ' '; wc -l < in").out, "hard here in 3\n");
    CHECK_EQ(sh(RUN "--output /dev/null --joblog /dev/null echo ::: a").status, 0);
}

/* --- the list of failures --------------------------------------------------------------------------- */

TEST(failures_are_listed_and_run_again)
{
    need_journal();
    CHECK_EQ(sh(KEEP CMD "::: a 'bad x' 'bad\"y'").status, 2);
    (void)ran();
    CHECK_STR(
        sh("sort run.failed.jsonl").out,
        "{\"input\":\"bad x\",\"failure\":\"error\",\"error\":\"exited with code 3: why bad x\",\"attempts\":1,"
        "\"exit_code\":3,\"signal\":0,\"stderr\":\"why bad x\\n\"}\n"
        "{\"input\":\"bad\\\"y\",\"failure\":\"error\",\"error\":\"exited with code 3: why bad\\\"y\",\"attempts\":1,"
        "\"exit_code\":3,\"signal\":0,\"stderr\":\"why bad\\\"y\\n\"}\n");
    CHECK_STR(sh(RUNK "--jsonl -a run.failed.jsonl echo {} | sort").out, "bad x\nbad\"y\n");
    CHECK_STR(
        sh("gpu-dispatch export run.db --jsonl --failed | sort | cmp - <(sort run.failed.jsonl) && echo same").out,
        "same\n");
}

TEST(lists_of_several_arguments)
{
    need_journal();
    CHECK_EQ(sh(KEEP "'false {1} {2}' ::: 'a b' '[\"x\"]' ::: 1 2").status, 4);
    CHECK_STR(sh(RUNK "--jsonl -a run.failed.jsonl 'echo {2}-{1}' | sort").out, "1-[\"x\"]\n1-a b\n2-[\"x\"]\n2-a b\n");
    CHECK_EQ(sh(KEEP "--retry-failed --jsonl -a run.failed.jsonl 'false {1} {2}'").status, 4);
    CHECK_STR(sh("wc -l < run.failed.jsonl").out, "4\n");
}

TEST(lists_of_long_inputs)
{
    need_journal();
    CHECK_EQ(sh("head -c 100000 /dev/zero | tr '\\0' x > in; echo >> in; " KEEP "-a in false {}").status, 1);
    CHECK_STR(sh(RUNK "--jsonl -a run.failed.jsonl echo {} | cmp - in && echo same").out, "same\n");
}

TEST(lists_of_lines_of_json)
{
    need_journal();
    CHECK_EQ(
        sh("printf '%%s\\n' '{\"a\": 1}' '\"text\"' '[\"p\",\"q\"]' '17' > in; " KEEP "--jsonl -a in false {}").status,
        4);
    CHECK_STR(sh(RUNK "--jsonl -a run.failed.jsonl 'echo {}' | sort | cmp - <(sort in) && echo same").out, "same\n");
}

TEST(lists_for_stream_programs)
{
    need_journal();
    need("python3");
    const char *program = "cat > w.py <<'E'\n"
                          "import json, sys\n"
                          "print('{\"ready\":true}', flush=True)\n"
                          "for line in sys.stdin:\n"
                          "    t = json.loads(line)\n"
                          "    open('got', 'a').write(json.dumps(t['input']) + '\\n')\n"
                          "    print(json.dumps({'id': t['id'], 'error': 'no', 'final': True}), flush=True)\n"
                          "E\n";
    sh("%s", program);
    CHECK_EQ(sh(RUN "--failed f1 --stream python3 w.py ::: a 17 '{}'").status, 3);
    sh("sort got > want; rm got");
    CHECK_EQ(sh(RUN "--failed f2 --jsonl -a f1 --stream python3 w.py").status, 3);
    CHECK_STR(sh("sort got | cmp - want && echo same; rm got").out, "same\n");
    CHECK_EQ(sh(RUN "--failed f3 --jsonl -a f2 --stream python3 w.py").status, 3);
    CHECK_STR(sh("sort got | cmp - want && echo same").out, "same\n");
}

TEST(lists_without_a_journal)
{
    struct ran r = sh(RUN "--failed f false {} ::: a b; wc -l < f; " RUN "--failed f true {} ::: a; wc -c < f");
    CHECK_STR(r.out, "2\n0\n");
    CHECK_REFUSED(sh("echo '{\"input\":\"a\",\"failure\":\"error\",\"attempts\":1}' > f; cp f g; " RUN
                     "--failed f --jsonl -a f echo; status=$?; cmp f g || exit 1; exit $status"),
                  "gpu-dispatch: --failed f is also the input: give another file, or use --journal");
}

TEST(an_empty_list_if_one_was_requested)
{
    need_journal();
    CHECK_EQ(sh(KEEP "--failed f true {} ::: a; test -e f && ! test -s f && ! test -e run.failed.jsonl").status, 0);
}

/* --- figures and messages ---------------------------------------------------------------------------------- */

TEST(the_summary_has_the_figures_of_the_journal)
{
    need_journal();
    struct ran r = sh("gpu-dispatch run --gpus sim:2 --journal run.db " CMD "::: a b bad");
    CHECK_CONTAINS(r.err, "gpu-dispatch: journal run.db: 2 done, 1 failed; the failed tasks are listed in "
                          "run.failed.jsonl; to run them again, add --retry-failed\n");
    r = sh("gpu-dispatch run --gpus sim:2 --journal run.db --resume " CMD "::: a b bad c");
    CHECK_CONTAINS(r.err, "\n1 task in ");
    CHECK_CONTAINS(r.err, "journal run.db: 3 done, 1 failed, 3 of them before this run; ");
    CHECK_STR(sh(KEEP "--resume " CMD "::: a b").err, "");
}

/* Tasks that were removed from the list are still in the journal. */
TEST(figures_of_a_list_that_lost_lines)
{
    need_journal();
    CHECK_EQ(sh(KEEP CMD "::: a b c bad").status, 1);
    struct ran r = sh("gpu-dispatch run --gpus sim:2 --journal run.db --resume " CMD "::: a d");
    CHECK_CONTAINS(r.err, "journal run.db: 4 done, 1 failed, 4 of them before this run; ");
    r = sh("gpu-dispatch status run.db");
    CHECK_CONTAINS(r.out, "\n  done                4   of 5, 80.0 %\n");
    CHECK_CONTAINS(r.out, "\nRun 2 of this journal: 1 done, 0 failed, 1 skipped.\n"
                          "3 of the tasks above were not in the input of the last run.\n");
    CHECK_CONTAINS(sh("gpu-dispatch status --json run.db").out, ",\"left\":0,\"not_in_input\":3,");
    CHECK_CONTAINS(sh("gpu-dispatch report run.db -o r.html; cat r.html").out, ",\"all\":5,\"not_in_input\":3,");
    r = sh("gpu-dispatch run --gpus sim:2 --journal run.db --retry-failed " CMD "::: a bad new");
    CHECK_CONTAINS(r.err, "journal run.db: 4 done, 1 failed, 4 of them before this run; ");
}

/* --retry-failed runs only failed tasks that are in the input. If the user has removed them from the list, the message
 * does not suggest --retry-failed again. */
TEST(failed_tasks_that_are_not_in_the_input)
{
    need_journal();
    const char *run = "gpu-dispatch run --gpus sim:2 --journal run.db --resume ";
    CHECK_EQ(sh(KEEP CMD "::: a bad1 bad2 bad3").status, 3);
    struct ran r = sh("%s" CMD "::: a bad3 b", run);
    CHECK_CONTAINS(r.err, "journal run.db: 2 done, 3 failed (2 not in this input), 4 of them before this run; the "
                          "failed tasks are listed in run.failed.jsonl; to run them again, add --retry-failed\n");
    r = sh("%s --retry-failed " CMD "::: a b", run);
    CHECK_CONTAINS(
        r.err,
        "journal run.db: 2 done, 3 failed, 5 of them before this run; the failed tasks are listed in run.failed.jsonl; "
        "they were not in this input: to run them again, give them as input with --retry-failed\n");
    r = sh("%s --retry-failed --halt soon,done=1 " CMD "::: $(seq 100) a", run);
    CHECK_CONTAINS(
        r.err,
        "3 failed, 5 of them before this run; the failed tasks are listed in run.failed.jsonl; to run the rest, ");
    r = sh("%s --retry-failed --jsonl -a run.failed.jsonl " CMD, run);
    CHECK_CONTAINS(r.err, "; the failed tasks are listed in run.failed.jsonl; to run them again, add --retry-failed\n");
}

TEST(retrying_without_a_journal_is_refused)
{
    need_journal();
    CHECK_REFUSED(sh(RUN "--journal typo.db --retry-failed echo ::: a"),
                  "gpu-dispatch: --retry-failed: cannot open the journal typo.db: No such file or directory");
    CHECK_EQ(sh("test -e typo.db").status, 1);
    CHECK_REFUSED(sh(RUN "--journal '' echo ::: a"),
                  "gpu-dispatch: --journal needs the name of a file: --journal FILE");
}

TEST(a_halted_run_says_how_to_continue)
{
    need_journal();
    struct ran r = sh("gpu-dispatch run --gpus sim:1 --journal run.db --halt soon,done=2 " CMD "::: a b c d e");
    CHECK_CONTAINS(r.err, "; to run the rest, run the same command with --resume\n");
    CHECK_EQ(sh(KEEP "--resume " CMD "::: a b c d e").status, 0);
    CHECK_STR(ran(), "a b c d e ");
}

/* A run is halted or interrupted. If the running tasks were the last ones, nothing is left to run. */
TEST(a_run_that_ends_early_with_nothing_left_gives_no_advice)
{
    need_journal();
    struct ran r = sh("gpu-dispatch run --gpus sim:1 --journal run.db --halt soon,done=2 " CMD "::: a b");
    CHECK_CONTAINS(r.err, "2 tasks ended, the last one is ");
    CHECK_CONTAINS(r.err, "journal run.db: 2 done\n");
    r = sh(
        "rm run.db; mkfifo begun go said; gpu-dispatch run --gpus sim:1 --journal run.db 'echo > begun; read x < go; "
        "#' ::: a 2> said & exec 3<> said; read x < begun; kill -INT $!; read said <&3; echo > go; wait; "
        "while test \"${said#*journal}\" = \"$said\"; do read said <&3; done; echo \"$said\"");
    CHECK_STR(r.out, "gpu-dispatch: journal run.db: 1 done\n");
}

/* The number of tasks that are left is unknown while inputs may still arrive. */
TEST(a_run_that_ends_before_its_input)
{
    need_journal();
    struct ran r = sh("mkfifo in; exec 3<> in; echo a >&3; "
                      "gpu-dispatch run --gpus sim:1 --journal run.db --halt soon,done=1 " CMD "< in");
    CHECK_CONTAINS(r.err, "; to run what is left, if anything, run the same command with --resume\n");
}

/* Tasks that were left get a record when a later run ends them, also in a file that not all runs wrote to. */
TEST(tasks_that_were_not_run_have_no_record)
{
    need_journal();
    sh("seq 40 > half; seq 80 > all; " KEEP "--output first -a half true {}");
    sh(KEEP "--resume --output o -a all --halt soon,done=5 true {}");
    CHECK_STR(sh("grep -c cancelled o").out, "0\n");
    CHECK_EQ(sh(KEEP "--resume --output o -a all true {}").status, 0);
    CHECK_STR(
        sh("wc -l < o; sed 's/.*\"input\":\"\\([0-9]*\\)\".*/\\1/' o | sort -n | cmp - <(seq 41 80) && echo same").out,
        "40\nsame\n");
    /* Without a journal, the records are the only information about these tasks. */
    CHECK_STR(sh(RUN "--output o2 --halt soon,done=5 -a all true {}; wc -l < o2").out, "80\n");
}

TEST(tasks_whose_output_is_not_read_are_not_done)
{
    need_journal();
    /* Output that fits in the pipe was written. The rest was not, and its tasks are not done. */
    struct ran r = sh("seq 9000 > in; " KEEP "-a in --output - --worker $GD_TEST_PLUGINS/plugin_args.so | head -3; "
                      "gpu-dispatch export run.db --csv | wc -l > n; test $(cat n) -lt 9000");
    CHECK_EQ(r.status, 0);
    CHECK_STR(r.err, "");
    CHECK_EQ(sh(KEEP "-a in --resume --output rest --worker $GD_TEST_PLUGINS/plugin_args.so; "
                     "test $(wc -l < rest) -eq $((9001 - $(cat n)))")
                 .status,
             0);
    CHECK_STR(sh("gpu-dispatch export run.db --csv | wc -l").out, "9001\n");
}

TEST(output_that_cannot_be_written_ends_the_run)
{
    need_journal();
    if (access("/dev/full", W_OK) < 0)
        SKIP("no /dev/full");
    /* More tasks than can be run before the error is noticed. */
    struct ran r = sh("seq 30000 | " KEEP "--output /dev/full 'echo {} >> ran'");
    CHECK_EQ(r.status, 255);
    CHECK_STR(r.err, "gpu-dispatch: cannot write /dev/full: No space left on device\n");
    CHECK_EQ(sh("test $(wc -l < ran) -lt 25000").status, 0);
    CHECK_STR(sh("gpu-dispatch export run.db --csv | wc -l").out, "1\n");
}

TEST(status_for_a_person)
{
    need_journal();
    sh(KEEP CMD "::: a b bad");
    struct ran r = sh("gpu-dispatch status run.db");
    CHECK_EQ(r.status, 0);
    CHECK_CONTAINS(r.out, "run.db: finished 20");
    CHECK_CONTAINS(r.out, "\n  done                2   of 3, 66.7 %\n  failed              1   33.3 %\n");
    CHECK_CONTAINS(r.out, "\nFailures\n             1   error\n");
    CHECK_CONTAINS(r.out, "\nSlowest\n");
    CHECK_CONTAINS(r.out, "gpu-dispatch run ... -- 'echo {} >> ran;");
    CHECK_CONTAINS(r.out, "bad  (GPU ");
}

TEST(status_for_a_program)
{
    need_journal();
    need("python3");
    sh(KEEP CMD "::: a b bad");
    CHECK_PRINTS(
        sh("gpu-dispatch status --json run.db | python3 -c 'import json, sys; s = json.load(sys.stdin); "
           "print(s[\"state\"], s[\"done\"], s[\"failed\"], s[\"total\"], s[\"left\"], s[\"runs\"], s[\"failures\"], "
           "len(s[\"slowest\"]))'"),
        "finished 2 1 3 0 1 {'error': 1} 3\n");
}

TEST(status_of_a_killed_run)
{
    need_journal();
    struct ran r = sh("mkfifo p; GPU_DISPATCH_JOURNAL_MS=1 " KEEP "'echo {} >> ran; test {} != b || cat p' ::: a b & "
                      "until gpu-dispatch status run.db 2> err | grep -q 'done  *1 '; do :; done; kill -9 $!; wait; "
                      "gpu-dispatch status run.db");
    CHECK_CONTAINS(r.out, "run.db: killed, last record 20");
    CHECK_CONTAINS(r.out, "continue with --resume\n");
    CHECK_CONTAINS(r.out, "\n  left                1\n");
}

TEST(no_other_files_are_left_next_to_a_journal)
{
    need_journal();
    sh("mkdir in && cd in && " KEEP "--output out.jsonl " CMD "::: a b bad");
    const char *const readers[] = { "true", "gpu-dispatch status ", "gpu-dispatch status --json ",
                                    "gpu-dispatch export --csv ", "gpu-dispatch export --jsonl " };
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        CHECK_PRINTS(sh("cd in && before=$(cksum run.db) && %s run.db > ../told && "
                        "test \"$before\" = \"$(cksum run.db)\" && ls | tr '\\n' ' '",
                        readers[i]),
                     "out.jsonl ran run.db run.failed.jsonl ");
}

/* --- export ------------------------------------------------------------------------------------------------- */

/* A spreadsheet would read these inputs as formulas. Negative numbers are still allowed. */
TEST(csv_without_formulas)
{
    need_journal();
    CHECK_EQ(sh(KEEP "'exit 255' ::: =1+1 +2 -3 @SUM $'\\t=4' a=b '=\"x\"'").status, 7);
    CHECK_STR(sh("gpu-dispatch export run.db --csv | grep '^[0-9]' | sort -n | tr -d '\\r' | sed 's/,error.*//'").out,
              "0,1,'=1+1\n1,1,'+2\n2,1,'-3\n3,1,'@SUM\n4,1,'\t=4\n5,1,a=b\n6,1,\"'=\"\"x\"\"\"\n");
    CHECK_EQ(sh(RUN "--journal t.db --timeout 100ms 'sleep 600; echo {}' ::: a").status, 1);
    CHECK_CONTAINS(sh("gpu-dispatch export t.db --csv").out, ",-1,15,1,");
}

TEST(export_as_csv)
{
    need_journal();
    need("python3");
    sh(KEEP "--output o 'echo {1}; false' ::: 'a,\"b\"' 'two\nlines' plain");
    CHECK_PRINTS(
        sh("gpu-dispatch export run.db --csv > x.csv; python3 -c 'import csv; r = list(csv.DictReader(open(\"x.csv\", "
           "newline=\"\"))); print(sorted((x[\"input\"], x[\"status\"], x[\"exit_code\"], x[\"where\"]) for x in r))'; "
           "head -1 x.csv"),
        "[('a,\"b\"', 'error', '1', 'o'), ('plain', 'error', '1', 'o'), ('two\\nlines', 'error', '1', 'o')]\n"
        "id,run,input,status,error,exit_code,signal,attempt,worker,gpu,started,seconds,where,stderr\r\n");
}

TEST(export_as_json_is_like_the_output)
{
    need_journal();
    need("python3");
    sh(KEEP "--output o " CMD "::: a bad 'c d'");
    CHECK_PRINTS(sh("gpu-dispatch export run.db --jsonl -o x; python3 - <<'E'\n"
                    "import json\n"
                    "read = lambda f: {r['id']: r for r in map(json.loads, open(f))}\n"
                    "a, b = read('o'), read('x')\n"
                    "for i in a:\n"
                    "    for k in set(a[i]) - {'output', 'started', 'seconds'}:\n"
                    "        if a[i][k] != b[i].get(k): print(k, a[i][k], b[i].get(k))\n"
                    "    if abs(a[i]['started'] - b[i]['started']) > 0.1: print('started')\n"
                    "print(len(a), len(b))\n"
                    "E\n"
                    "test -e x.part && echo left"
                    "; true"),
                 "3 3\n");
}

TEST(export_to_a_reader_that_stops_early)
{
    need_journal();
    sh("seq 20000 | " KEEP "--worker $GD_TEST_PLUGINS/plugin_args.so > out");
    struct ran r = sh("set -o pipefail; gpu-dispatch export run.db --jsonl | head -2 | wc -l");
    CHECK_STR(r.out, "2\n");
    CHECK_STR(r.err, "");
    CHECK_EQ(r.status, 0);
    if (access("/dev/full", W_OK) == 0)
        CHECK_EQ(sh("gpu-dispatch export run.db --csv > /dev/full").status, 255);
}

TEST(wrong_options_of_export)
{
    CHECK_REFUSED(sh("gpu-dispatch export run.db"), "gpu-dispatch: export needs a format: give --csv or --jsonl");
    CHECK_REFUSED(sh("gpu-dispatch export run.db --csv --jsonl"),
                  "gpu-dispatch: export writes one format: give either --csv or --jsonl");
    CHECK_REFUSED(
        sh("gpu-dispatch export --csv"),
        "gpu-dispatch: export needs a journal or a queue: gpu-dispatch export FILE, or --queue nats://HOST/NAME");
    CHECK_REFUSED(
        sh("gpu-dispatch status"),
        "gpu-dispatch: status needs a journal or a queue: gpu-dispatch status FILE, or --queue nats://HOST/NAME");
}

TEST(a_build_without_sqlite_says_so)
{
    if (gd_journal_available())
        SKIP("built with journals");
    struct ran r = sh(KEEP "echo ::: a");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "SQLite");
    CHECK_STR(r.out, "");
    CHECK_EQ(sh("gpu-dispatch status run.db").status, 255);
}

TEST_MAIN()
