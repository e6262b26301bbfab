/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch run --http` and `gpu-dispatch report`, as a person would use them.
 */
#include "common.h"

/* Starts a run of four tasks: one fails, the others wait, each on its own FIFO. The run's messages go to a FIFO that no
 * other user can read, so they contain the token. Sets $url (the page), $run, and CURL, which sends the token. LET_GO
 * lets the tasks end. SEEN waits until the page shows two waiting tasks and one failed task. */
#define START_RUN                                                                                                    \
    "umask 077; mkfifo go.a go.b go.c says; gpu-dispatch run --gpus sim:2 --progress none %s -- '[ {} = bad ] && { " \
    "echo oops >&2; exit 3; }; read x < go.{}' ::: bad a b c > out 2> says & run=$!; exec 5< says; "                 \
    "read -r line <&5; "
#define START                                                                  \
    START_RUN "link=${line##* }; url=${link%%%%#*}; CURL='curl -s -H @auth'; " \
              "printf 'Authorization: Bearer %%s' ${link##*#token=} > auth; "
#define LET_GO "for i in a b c; do echo > go.$i & done; "
#define SEEN   "$CURL -N ${url}api/events | grep -m1 '\"running\":2,.*\"failed\":1,' > seen; "

/* Waits until $file has its first events. */
#define WATCHED "until [ -s $file ]; do :; done; "

#define NEEDS_PAGE()                                                                                \
    do {                                                                                            \
        if (strstr(sh("gpu-dispatch run --http 0 --gpus sim:1 true ::: a").err, "has no web page")) \
            SKIP("this build has no web page");                                                     \
        if (sh("command -v curl").status != 0)                                                      \
            SKIP("curl is not installed");                                                          \
    } while (0)

TEST(a_run_is_shown_while_it_goes_on)
{
    NEEDS_PAGE();
    struct ran r = sh(START SEEN "$CURL ${url}api/stats ${url}metrics ${url}; " LET_GO "wait", "--http 0");
    CHECK_CONTAINS(r.out, "\"total\":4,");
    CHECK_CONTAINS(r.out, "\"failed\":1,");
    CHECK_CONTAINS(r.out, "\"running\":2,");
    CHECK_CONTAINS(r.out, "oops");
    CHECK_CONTAINS(r.out, "gpu_dispatch_tasks_total{state=\"failed\"} 1\n");
    CHECK_CONTAINS(r.out, "<!doctype html>");
}

/* One of five clients is stopped and does not read until the run has ended. The run ends soon. It does not wait for the
 * time limit of idle connections. */
TEST(a_run_ends_at_once_although_clients_are_connected)
{
    NEEDS_PAGE();
    struct ran r =
        sh(START SEEN "for i in 1 2 3 4 5; do file=events.$i; $CURL -N ${url}api/events > $file & pids+=($!); " WATCHED
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

/* The test does not know which two of the three tasks are running. Releasing the third one would wait for ever, so each
 * is released in the background. The tasks are released after the message about the signal. Otherwise all might have
 * ended before it. */
TEST(a_terminated_run_ends_too)
{
    NEEDS_PAGE();
    struct ran r =
        sh(START SEEN "file=events; $CURL -N ${url}api/events > $file & watch=$!; " WATCHED
                      "kill -TERM $run; until [[ $line == *terminated* ]]; do read -r line <&5; done; " LET_GO
                      "wait $run; echo status $?; wait $watch; grep -c 'event: end' events; "
                      "kill $(jobs -p) 2> /dev/null",
           "--http 0");
    CHECK_CONTAINS(r.out, "status 143\n1\n");
}

/* --- the token ----------------------------------------------------------------------------- */

/* CODES requests every path without a token, then with the token in wrong places, then with the token in the right
 * place. */
#define CODES                                                                                                  \
    "for path in api/stats api/events api/history metrics api/stats?token=$token; do curl -s -m 60 -o no "     \
    "-w '%%{http_code} ' $url$path; done; curl -s -o no -w '%%{http_code} ' -b token=$token ${url}api/stats; " \
    "$CURL -o yes -w '%%{http_code}\n' ${url}api/stats; "

TEST(every_page_needs_the_token_that_is_printed)
{
    NEEDS_PAGE();
    static const char *const at[] = { "--http 0", "--http 0.0.0.0:0" };
    for (size_t i = 0; i < 2; i++) {
        struct ran r = sh("rm -rf run; mkdir run; cd run; " START "token=${link##*#token=}; echo ${#token}; "
                          "url=http://127.0.0.1:${url##*:}; " CODES LET_GO "wait",
                          at[i]);
        CHECK_STR(r.out, "32\n401 401 401 401 401 401 200\n");
    }
}

/* No process of a run has the token in its environment, not even the dispatcher. */
TEST(workers_do_not_get_the_token)
{
    struct ran r =
        sh("export GPU_DISPATCH_HTTP_TOKEN=a-secret-token MARK=marked; " RUN "'env; : {}' ::: a; "
           "unset GPU_DISPATCH_HTTP_TOKEN; echo 'echo \"{\\\"ready\\\":true}\"; env > seen; read x; "
           "echo \"{\\\"id\\\":0,\\\"output\\\":1}\"; read x; :' > stream; "
           "GPU_DISPATCH_HTTP_TOKEN=a-secret-token gpu-dispatch run --gpus sim:1 --quiet --stream 'sh stream' "
           "::: a; cat seen");
    CHECK_EQ(r.status, 0);
    CHECK_CONTAINS(r.out, "MARK=marked");
    CHECK_CONTAINS(strstr(r.out, "MARK=marked") + 1,
                   "MARK=marked"); /* both kinds of processes have reported their environment */
    CHECK(strstr(r.out, "a-secret-token") == NULL);
    NEEDS_PAGE();
    r = sh("rm -f says; GPU_DISPATCH_HTTP_TOKEN=a-secret-token; export GPU_DISPATCH_HTTP_TOKEN; " START_RUN
           "tr '\\0' '\\n' < /proc/$run/environ | grep -c GPU_DISPATCH_JOBS; "
           "cat /proc/$run/environ /proc/$run/cmdline | grep -c a-secret-token; " LET_GO "wait",
           "--http 0");
    CHECK_STR(r.out, "1\n0\n");
}

TEST(a_token_from_the_environment_is_not_printed)
{
    NEEDS_PAGE();
    struct ran r = sh("token=a-secret-token; export GPU_DISPATCH_HTTP_TOKEN=$token; " START_RUN
                      "echo \"${line#*/ }\"; url=${line##*shown at }; url=${url%%%% *}; CURL='curl -s -H @auth'; "
                      "echo \"Authorization: Bearer $token\" > auth; " CODES LET_GO "wait",
                      "--http 0");
    CHECK_STR(r.out, "(its token is in $GPU_DISPATCH_HTTP_TOKEN)\n401 401 401 401 401 401 200\n");
    CHECK_CONTAINS(sh("GPU_DISPATCH_HTTP_TOKEN=short gpu-dispatch run --http 0 --gpus sim:1 true ::: a").err,
                   "a token must be 8 to 128 letters, digits or -._~: correct the one in GPU_DISPATCH_HTTP_TOKEN");
    CHECK_EQ(sh("GPU_DISPATCH_HTTP_TOKEN= gpu-dispatch run --http 0 --gpus sim:1 true ::: a").status, 0);
}

TEST(a_token_from_a_private_file)
{
    NEEDS_PAGE();
    struct ran r = sh("umask 077; token=of-a-private-file; echo $token > token; export "
                      "GPU_DISPATCH_HTTP_TOKEN=not-this-one; " START_RUN
                      "echo \"${line#*/ }\"; url=${line##*shown at }; url=${url%%%% *}; "
                      "CURL='curl -s -H @auth'; echo \"Authorization: Bearer $token\" > auth; " CODES LET_GO "wait",
                      "--http 0 --http-token-file token");
    CHECK_STR(r.out, "(its token is in token)\n401 401 401 401 401 401 200\n");
#define WITH_FILE "gpu-dispatch run --http 0 --gpus sim:1 --http-token-file "
    CHECK_REFUSED(
        sh("chmod 640 token; " WITH_FILE "token touch {} ::: made"),
        "gpu-dispatch: --http-token-file token: other users can access this file (mode 640): run chmod 600 on it");
    CHECK_REFUSED(sh(WITH_FILE "missing touch {} ::: made"),
                  "gpu-dispatch: --http-token-file missing: No such file or directory");
    CHECK_REFUSED(sh(WITH_FILE ". touch {} ::: made"), "gpu-dispatch: --http-token-file .: this is not a regular file");
    CHECK_CONTAINS(sh("umask 077; : > empty; " WITH_FILE "empty touch {} ::: made").err,
                   "a token must be 8 to 128 letters");
    CHECK_CONTAINS(sh("umask 077; printf 'with-a-nul-\\0' > nul; " WITH_FILE "nul touch {} ::: made").err,
                   "a token must be 8 to 128 letters");
    CHECK_CONTAINS(sh("umask 077; printf %%0999d 1 > long; " WITH_FILE "long touch {} ::: made").err,
                   "a token must be 8 to 128 letters");
    CHECK_REFUSED(sh("gpu-dispatch run --http-token-file token --gpus sim:1 touch {} ::: made"),
                  "gpu-dispatch: --http-token-file is for --http: give --http too");
    CHECK_REFUSED(sh("gpu-dispatch run --http 0 --http-token on-the-command-line --gpus sim:1 touch {} ::: made"),
                  "gpu-dispatch: unknown option --http-token: did you mean --http-token-file?");
    CHECK_NE(sh("ls made").status, 0);
}

/* Messages go to a file that everyone can read. Then the address is in a separate file, which is removed when the run
 * ends. */
TEST(a_log_that_others_can_read_has_no_token)
{
    NEEDS_PAGE();
    struct ran r =
        sh("umask 022; export GPU_DISPATCH_JOBS=$PWD/jobs; RUN='gpu-dispatch run --quiet --http 0 --gpus sim:1'; "
           "$RUN 'cp jobs/web-* kept; stat -c %%a jobs/web-*; cat log | tail -n 1 > said; : {}' ::: a 2> log; "
           "grep -c token= log kept; grep -c \"cat $PWD/jobs/web-\" said; ls jobs; "
           "(umask 077; $RUN true ::: a 2> private); $RUN true ::: a 2>&1 | cat > piped; "
           "grep -c '#token=................................$' private piped kept");
    CHECK_STR(r.out, "600\nlog:0\nkept:1\n1\nprivate:1\npiped:1\nkept:1\n");
    r = sh("umask 022; rm -rf jobs; : > jobs; export GPU_DISPATCH_JOBS=$PWD/jobs; "
           "gpu-dispatch run --http 0 --gpus sim:1 touch {} ::: made 2> log; echo $?; cat log; ls made");
    CHECK_CONTAINS(r.out, "255\n");
    CHECK_CONTAINS(r.out, "other users may read these messages");
    CHECK_CONTAINS(r.out, "Or set GPU_DISPATCH_HTTP_TOKEN");
}

TEST(the_address_of_a_killed_run_is_removed_by_the_next)
{
    NEEDS_PAGE();
    struct ran r =
        sh("export GPU_DISPATCH_JOBS=$PWD/jobs; " START "ls jobs | grep -c ^web-; "
           "kill -9 $run; wait $run 2> /dev/null; ls jobs | grep ^web- > left; "
           "gpu-dispatch run --quiet --http 0 --gpus sim:1 'ls jobs | grep ^web-; : {}' ::: a > now 2> /dev/null; "
           "cat left now | sort | uniq -d | wc -l; wc -l < now; ls jobs | grep -c ^web-; " LET_GO "kill $(jobs -p)",
           "--http 0");
    CHECK_STR(r.out, "1\n0\n1\n0\n");
}

TEST(top_prints_the_address)
{
    NEEDS_PAGE();
    struct ran r =
        sh("export GPU_DISPATCH_JOBS=$PWD/jobs; gpu-dispatch top --page; " START
           "[ \"$(gpu-dispatch top --page)\" = \"$link\" ] && echo all; "
           "[ \"$(gpu-dispatch top --page $run)\" = \"$link\" ] && echo one; gpu-dispatch top --page 1; " LET_GO
           "wait; gpu-dispatch top --page; rm go.* says; GPU_DISPATCH_HTTP_TOKEN=a-secret-token; "
           "export GPU_DISPATCH_HTTP_TOKEN; " START_RUN "gpu-dispatch top --page | tr -d 0-9; " LET_GO "wait",
           "--http 0", "--http 0");
    CHECK_STR(r.out, "all\none\nhttp://...:/\n");
    CHECK_STR(r.err, "gpu-dispatch: no job has a web page: start it with --http\n"
                     "gpu-dispatch: this job has no web page: start it with --http\n"
                     "gpu-dispatch: no job has a web page: start it with --http\n");
}

TEST(errors_are_reported_before_the_first_task)
{
    NEEDS_PAGE();
    CHECK_CONTAINS(sh("gpu-dispatch run --http nowhere --gpus sim:1 touch {} ::: made; ls").err,
                   "gpu-dispatch: --http nowhere: write a port");
    CHECK_CONTAINS(sh("gpu-dispatch run --http 192.0.2.1:80 --gpus sim:1 touch {} ::: made; ls").err,
                   "not an address of this machine");
    CHECK_STR(sh("ls").out, "");
    struct ran r =
        sh(START "rm auth; p=${url##*:}; gpu-dispatch run --http ${p%%/} --gpus sim:1 --joblog log touch {} ::: made; "
                 "echo $?; ls; " LET_GO "wait",
           "--http 0");
    CHECK_CONTAINS(r.err, "is in use: choose another port, or 0 for any free one");
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
            SKIP("built without journals");                                                    \
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

TEST(reports_that_cannot_be_made)
{
    NEEDS_JOURNAL();
    CHECK_REFUSED(
        sh("gpu-dispatch report"),
        "gpu-dispatch: report needs a journal or a queue: gpu-dispatch report FILE, or --queue nats://HOST/NAME");
    CHECK_REFUSED(sh("gpu-dispatch report a b"),
                  "gpu-dispatch: report of several journals needs the name of the page: -o PAGE");
    CHECK_EQ(sh("gpu-dispatch report missing.db").status, 255);
    CHECK_EQ(sh("echo text > text; gpu-dispatch report text").status, 255);
    CHECK_REFUSED(sh("gpu-dispatch report j.db -o j.db"),
                  "gpu-dispatch: -o j.db is the journal itself: give another file");
    CHECK_STR(sh("ls *.html *.part 2> /dev/null").out, "");
}

TEST_MAIN()
