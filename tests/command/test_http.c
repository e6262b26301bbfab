/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch run --http` and `gpu-dispatch report`, as a person would use them.
 */
#include "common.h"

/* Starts a run of four tasks: one fails, the others wait on FIFOs of their own. Sets $url, of the page, and $run.
 * LET_GO lets them end; SEEN waits until two are seen to wait, and one to have failed. */
#define START                                                                                                       \
    "mkfifo go.a go.b go.c says; gpu-dispatch run --gpus sim:2 --progress none %s -- '[ {} = bad ] && { echo oops " \
    ">&2; exit 3; }; read x < go.{}' ::: bad a b c > out 2> says & run=$!; exec 5< says; read -r line <&5; "        \
    "url=${line##* }; "
#define LET_GO "for i in a b c; do echo > go.$i & done; "
#define SEEN   "curl -sN ${url}api/events | grep -m1 '\"running\":2,.*\"failed\":1,' > seen; "

/* Waits until $file has its first events. */
#define WATCHED "until [ -s $file ]; do :; done; "

#define NEEDS_PAGE()                                                                                \
    do {                                                                                            \
        if (strstr(sh("gpu-dispatch run --http 0 --gpus sim:1 true ::: a").err, "has no web page")) \
            SKIP("this build has no web page");                                                     \
        if (sh("command -v curl").status != 0)                                                      \
            SKIP("there is no curl");                                                               \
    } while (0)

TEST(a_run_is_shown_while_it_goes_on)
{
    NEEDS_PAGE();
    struct ran r = sh(START SEEN "curl -s ${url}api/stats ${url}metrics ${url}; " LET_GO "wait", "--http 0");
    CHECK_CONTAINS(r.out, "\"total\":4,");
    CHECK_CONTAINS(r.out, "\"failed\":1,");
    CHECK_CONTAINS(r.out, "\"running\":2,");
    CHECK_CONTAINS(r.out, "oops");
    CHECK_CONTAINS(r.out, "gpu_dispatch_tasks_total{state=\"failed\"} 1\n");
    CHECK_CONTAINS(r.out, "<!doctype html>");
}

/* One of five is stopped and does not read, until the run has ended. Which is soon: nobody is waited for as long as an
 * idle connection is kept. */
TEST(it_ends_at_once_though_clients_are_there)
{
    NEEDS_PAGE();
    struct ran r =
        sh(START SEEN "for i in 1 2 3 4 5; do file=events.$i; curl -sN ${url}api/events > $file & pids+=($!); " WATCHED
                      "done; kill -STOP ${pids[1]}; " SEEN LET_GO
                      "SECONDS=0; wait $run; echo \"status $? after $SECONDS\"; kill -CONT ${pids[1]}; wait; "
                      "grep -l 'event: end' events.* | wc -l; grep -h -A1 'event: end' events.3",
           "--http 127.0.0.1:0");
    CHECK_CONTAINS(r.out, "status 1 after ");
    CHECK_LE(atoi(strstr(r.out, "after ") + 6), 12);
    CHECK_GE(atoi(strchr(r.out, '\n') + 1), 4);
    CHECK_CONTAINS(r.out, "\"completed\":3,");
    CHECK_CONTAINS(r.out, "\"ended\":true");
}

/* Which two of the three were running is not known: who lets the third one go waits in vain. They are let go when it
 * was said that the signal is heeded: else all might have ended before. */
TEST(interrupted_it_ends_too)
{
    NEEDS_PAGE();
    struct ran r =
        sh(START SEEN "file=events; curl -sN ${url}api/events > $file & watch=$!; " WATCHED
                      "kill -TERM $run; until [[ $line == *interrupted* ]]; do read -r line <&5; done; " LET_GO
                      "wait $run; echo status $?; wait $watch; grep -c 'event: end' events; "
                      "kill $(jobs -p) 2> /dev/null",
           "--http 0");
    CHECK_CONTAINS(r.out, "status 130\n1\n");
}

TEST(a_token_in_the_address_that_is_printed)
{
    NEEDS_PAGE();
    struct ran r = sh(START "port=${url%%%%/[?]*}; port=${port##*:}; token=${url##*token=}; echo ${#token}; "
                            "curl -s -w '%%{http_code} ' -o no http://127.0.0.1:$port/api/stats -o yes "
                            "http://127.0.0.1:$port/api/stats?token=$token; echo; " LET_GO "wait",
                      "--http 0.0.0.0:0");
    CHECK_STR(r.out, "32\n401 200 \n");
}

/* It is on no command line and in no log; the option goes before it. */
TEST(a_token_from_the_environment)
{
    NEEDS_PAGE();
    struct ran r = sh("export GPU_DISPATCH_HTTP_TOKEN=a-secret-token; " START "at=${url%%%%[?]*}; echo \"${url##*/}\"; "
                      "curl -s -w '%%{http_code} ' -o no ${at}api/stats -o no ${at}api/stats?token=other-token "
                      "-o yes ${at}api/stats?token=$GPU_DISPATCH_HTTP_TOKEN; echo; " LET_GO "wait",
                      "--http 0");
    CHECK_STR(r.out, "?token=$GPU_DISPATCH_HTTP_TOKEN\n401 401 200 \n");
    CHECK_CONTAINS(sh("GPU_DISPATCH_HTTP_TOKEN=short gpu-dispatch run --http 0 --gpus sim:1 true ::: a").err,
                   "so does GPU_DISPATCH_HTTP_TOKEN");
    CHECK_CONTAINS(sh("GPU_DISPATCH_HTTP_TOKEN=a-secret-token gpu-dispatch run --http 0 --http-token another-one "
                      "--gpus sim:1 true ::: a")
                       .err,
                   "?token=another-one");
    CHECK_EQ(sh("GPU_DISPATCH_HTTP_TOKEN= gpu-dispatch run --http 0 --gpus sim:1 true ::: a").status, 0);
}

TEST(what_is_wrong_is_said_before_the_first_task)
{
    NEEDS_PAGE();
    CHECK_CONTAINS(sh("gpu-dispatch run --http nowhere --gpus sim:1 touch {} ::: made; ls").err,
                   "gpu-dispatch: --http nowhere: write a port");
    CHECK_CONTAINS(sh("gpu-dispatch run --http 192.0.2.1:80 --gpus sim:1 touch {} ::: made; ls").err,
                   "no address of this machine");
    CHECK_CONTAINS(sh("gpu-dispatch run --http 0 --http-token x --gpus sim:1 touch {} ::: made; ls").err,
                   "--http-token takes 8 to 128");
    CHECK_STR(sh("ls").out, "");
    struct ran r =
        sh(START "p=${url##*:}; gpu-dispatch run --http ${p%%/} --gpus sim:1 --joblog log touch {} ::: made; "
                 "echo $?; ls; " LET_GO "wait",
           "--http 0");
    CHECK_CONTAINS(r.err, "is in use: choose another, or 0 for any that is free");
    CHECK_STR(r.out, "255\ngo.a\ngo.b\ngo.c\nout\nsays\n");
}

TEST(a_build_without_the_page_says_so)
{
    struct ran r = sh("gpu-dispatch run --http 0 --gpus sim:1 true ::: a");
    if (r.status == 0)
        SKIP("this build has the web page");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "libmicrohttpd");
}

/* --- report -------------------------------------------------------------------------------- */

#define NEEDS_JOURNAL()                                                                        \
    do {                                                                                       \
        if (sh("gpu-dispatch run --journal j.db --gpus sim:2 --quiet true ::: a").status != 0) \
            SKIP("this build keeps no journals");                                              \
    } while (0)

TEST(a_report_of_a_run)
{
    NEEDS_JOURNAL();
    struct ran r =
        sh("gpu-dispatch run --journal run.db --gpus sim:2 --quiet '[ {} != bad ]' ::: a b bad c; "
           "gpu-dispatch report run.db; gpu-dispatch report run.db -o r.html; gpu-dispatch report -o s.html run.db; "
           "cmp -s r.html s.html || diff <(sed 's/\"made\":[0-9]*//' r.html) <(sed 's/\"made\":[0-9]*//' s.html); "
           "ls *.html *.part; grep -o '\"total\":4,\"skipped\":0,\"done\":3,\"failed\":1' run.db.html");
    CHECK_STR(r.out, "run.db.html\nr.html\ns.html\nr.html\nrun.db.html\ns.html\n"
                     "\"total\":4,\"skipped\":0,\"done\":3,\"failed\":1\n");
}

TEST(reports_that_cannot_be)
{
    NEEDS_JOURNAL();
    CHECK_REFUSED(sh("gpu-dispatch report"), "gpu-dispatch: report needs a journal: gpu-dispatch report FILE");
    CHECK_REFUSED(sh("gpu-dispatch report a b"), "gpu-dispatch: report takes one journal, not \"b\" as well");
    CHECK_EQ(sh("gpu-dispatch report missing.db").status, 255);
    CHECK_EQ(sh("echo text > text; gpu-dispatch report text").status, 255);
    CHECK_REFUSED(sh("gpu-dispatch report j.db -o j.db"),
                  "gpu-dispatch: -o j.db is the journal itself: give the page another name");
    CHECK_STR(sh("ls *.html *.part 2> /dev/null").out, "");
}

TEST_MAIN()
