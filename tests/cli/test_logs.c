/* SPDX-License-Identifier: MIT
 *
 * Files about tasks: --output, --joblog, --results. The last two are compared with GNU parallel if it is installed.
 */
#include <fcntl.h>
#include <sys/resource.h>

#include "base/failure.h"
#include "base/text/buffer.h"
#include "cli/output/streams.h"
#include "ends.h"

/* --- records ------------------------------------------------------------------------------ */

/* The record, up to the start time, which is different each time. */
static void check_record(struct made *m, enum cli_result_kind kind, bool json_input, const char *expected)
{
    struct cli_records *r = NULL;
    enter_directory();
    CHECK_EQ(cli_records_open(&r, "r", false), 0);
    cli_records_json_input(r, json_input);
    CHECK_EQ(cli_records_add(r, end_of(m, kind)), 0);
    CHECK_EQ(cli_records_close(&r), 0);
    struct gd__buffer b = bytes_of("r");
    char *started = strstr(b.data, ",\"started\":");
    CHECK(started != NULL);
    char *seconds = strstr(started, ",\"seconds\":");
    CHECK_STR(seconds, m->report.start_ns ? ",\"seconds\":0.250000}\n" : ",\"seconds\":null}\n");
    *started = 0;
    CHECK_STR(b.data, expected);
    gd__buffer_free(&b);
    drop(m);
}

TEST(record_of_a_command)
{
    check_record(command("a\n\xff", 3, "e", 0, 0), CLI_RESULT_COMMAND, false,
                 "{\"id\":6,\"input\":\"a.wav\",\"status\":\"ok\",\"output\":\"a\\n\\udcff\",\"stderr\":\"e\","
                 "\"exit_code\":0,\"signal\":0,\"attempt\":1,\"worker\":1,\"gpu\":3");
}

TEST(record_of_a_failed_command)
{
    check_record(command("", 0, "", 3, 0), CLI_RESULT_COMMAND, false,
                 "{\"id\":6,\"input\":\"a.wav\",\"status\":\"error\",\"error\":\"exit code 3\","
                 "\"exit_code\":3,\"signal\":0,\"attempt\":1,\"worker\":1,\"gpu\":3");
}

TEST(record_of_several_arguments)
{
    struct made *m = result("1");
    set_input(m, "a\0\0\"", 4);
    check_record(
        m, CLI_RESULT_BYTES, false,
        "{\"id\":6,\"input\":[\"a\",\"\",\"\\\"\"],\"status\":\"ok\",\"output\":\"1\",\"attempt\":1,\"worker\":1,"
        "\"gpu\":3");
}

TEST(record_of_json)
{
    struct made *m = result("{\"x\":[1]}");
    set_input(m, "{\"y\":2}", 7);
    check_record(m, CLI_RESULT_JSON, true,
                 "{\"id\":6,\"input\":{\"y\":2},\"status\":\"ok\",\"output\":{\"x\":[1]},\"attempt\":1,\"worker\":1,"
                 "\"gpu\":3");
}

TEST(other_text_than_json_is_a_string)
{
    struct made *m = result("{\"x\":");
    set_input(m, "{y", 2);
    check_record(m, CLI_RESULT_JSON, true,
                 "{\"id\":6,\"input\":\"{y\",\"status\":\"ok\",\"output\":\"{\\\"x\\\":\",\"attempt\":1,\"worker\":1,"
                 "\"gpu\":3");
}

TEST(record_of_a_crash)
{
    struct made *m = failure(GD_FAILURE_CRASH, "killed");
    m->report.signal = 9;
    m->report.attempt = 3;
    check_record(m, CLI_RESULT_JSON, false,
                 "{\"id\":6,\"input\":\"a.wav\",\"status\":\"crash\",\"error\":\"killed\",\"exit_code\":0,\"signal\":9,"
                 "\"attempt\":3,\"worker\":1,\"gpu\":3");
}

TEST(record_of_a_task_that_never_ran)
{
    struct made *m = failure(GD_FAILURE_CANCELLED, "shut down");
    m->report.worker_id = -1;
    m->report.start_ns = m->report.end_ns = 0;
    m->report.attempt = 0;
    check_record(m, CLI_RESULT_JSON, false,
                 "{\"id\":6,\"input\":\"a.wav\",\"status\":\"cancelled\",\"error\":\"shut down\",\"attempt\":0,"
                 "\"worker\":null,\"gpu\":null");
}

TEST(records_are_replaced_or_continued)
{
    struct cli_records *r = NULL;
    struct made *m = result("1");
    enter_directory();
    make_text("r", "old\n");
    CHECK_EQ(cli_records_open(&r, "r", true), 0);
    CHECK_EQ(cli_records_add(r, end_of(m, CLI_RESULT_BYTES)), 0);
    CHECK_EQ(cli_records_close(&r), 0);
    struct gd__buffer b = bytes_of("r");
    CHECK_CONTAINS(b.data, "old\n{\"id\":6");
    gd__buffer_free(&b);
    CHECK_EQ(cli_records_open(&r, "r", false), 0);
    CHECK_EQ(cli_records_close(&r), 0);
    check_file("r", "");
    drop(m);
}

TEST(records_whose_reader_went_away)
{
    int fds[2];
    struct cli_records *r = NULL;
    struct made *m = result("1");
    signal(SIGPIPE, SIG_IGN);
    CHECK_EQ(pipe2(fds, O_CLOEXEC), 0);
    CHECK_EQ(dup2(fds[1], STDOUT_FILENO), STDOUT_FILENO);
    CHECK_EQ(cli_records_open(&r, "-", false), 0);
    CHECK_EQ(cli_records_add(r, end_of(m, CLI_RESULT_BYTES)), 0);
    CHECK(!cli_records_broken(r));
    close(fds[0]);
    CHECK_EQ(cli_records_add(r, end_of(m, CLI_RESULT_BYTES)), 0);
    CHECK(cli_records_broken(r));
    CHECK_EQ(cli_records_add(r, end_of(m, CLI_RESULT_BYTES)), 0);
    CHECK_EQ(cli_records_close(&r), 0);
    drop(m);
}

TEST(files_that_cannot_be_written)
{
    struct cli_records *r = NULL;
    struct cli_joblog *j = NULL;
    struct cli_results *s = NULL;
    enter_directory();
    CHECK_EQ(cli_records_open(&r, "no/such/r", false), -1);
    CHECK_CONTAINS(gd__fail_text(), "cannot write no/such/r: the directory no/such does not exist");
    CHECK_EQ(cli_joblog_open(&j, "no/such/j", NULL, false), -1);
    CHECK_CONTAINS(gd__fail_text(), "no/such/j");
    make_text("f", "");
    CHECK_EQ(cli_results_open(&s, "f"), -1);
    CHECK_CONTAINS(gd__fail_text(), "f is not a directory");
    CHECK_EQ(cli_results_open(&s, "f/below"), -1);
    CHECK_CONTAINS(gd__fail_text(), "cannot create the directory f/below");
    if (access("/dev/full", W_OK) == 0) {
        struct made *m = result("1");
        CHECK_EQ(cli_joblog_open(&j, "/dev/full", NULL, false), 0);
        CHECK_EQ(cli_joblog_begin(j), -1);
        CHECK_EQ(cli_joblog_close(&j), 0);
        CHECK_EQ(cli_records_open(&r, "/dev/full", false), 0);
        CHECK_EQ(cli_records_add(r, end_of(m, CLI_RESULT_BYTES)), -1);
        CHECK_EQ(cli_records_add(r, end_of(m, CLI_RESULT_BYTES)), 0); /* reported once */
        CHECK_EQ(cli_records_close(&r), 0);
        drop(m);
    }
}

/* --- the log of jobs ------------------------------------------------------------------------ */

TEST(joblog)
{
    struct cli_joblog *j = NULL;
    enter_directory();
    CHECK_EQ(cli_joblog_open(&j, "j", NULL, false), 0);
    CHECK_EQ(cli_joblog_begin(j), 0);
    struct made *m[] = { command("abc", 3, "ef", 3, 0), failure(GD_FAILURE_TIMEOUT, ""), command("", 0, "", 0, 9),
                         failure(GD_FAILURE_CANCELLED, ""), failure(GD_FAILURE_NO_WORKER, "") };
    set_input(m[0], "a\0b\nc", 5);
    m[4]->report.start_ns = 0;
    for (size_t i = 0; i < 5; i++) {
        CHECK_EQ(cli_joblog_add(j, end_of(m[i], CLI_RESULT_COMMAND)), 0);
        drop(m[i]);
    }
    CHECK_EQ(cli_joblog_close(&j), 0);
    struct gd__buffer b = shell("tr '\\000' '@' <j | cut -f 1,2,4-", NULL);
    CHECK_STR(b.data, "Seq\tHost\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"
                      "7\t:\t     0.250\t0\t3\t3\t0\ta b@c\n"
                      "7\t:\t     0.250\t0\t0\t-1\t15\ta.wav\n"
                      "7\t:\t     0.250\t0\t0\t0\t9\ta.wav\n");
    gd__buffer_free(&b);
    b = shell("tail -n +2 j | cut -f 3 | grep -cE '^[0-9]+\\.[0-9]{3}$'", NULL);
    CHECK_STR(b.data, "3\n");
    gd__buffer_free(&b);
}

/* Both programs run the same commands. All columns except the times must be equal. */
TEST(joblog_as_gnu_parallel)
{
    static const char *const inputs[] = { "0", "3", "a b", "'", "" };
    static const char *const words[] = { "printf '%s\n' {}; printf e >&2; sh -c 'exit 3'", NULL };
    need_parallel();
    enter_directory();
    struct cli_joblog *j = NULL;
    struct gd_command *template = NULL;
    CHECK_EQ(
        gd_command_open(&template, &(struct gd_command_spec){ .size = sizeof(struct gd_command_spec), .words = words }),
        0);
    CHECK_EQ(cli_joblog_open(&j, "ours", template, false), 0);
    CHECK_EQ(cli_joblog_begin(j), 0);
    for (uint64_t i = 0; i < 5; i++) {
        char *line = gd_command_line(template, &(struct gd_command_fill){ .size = sizeof(struct gd_command_fill),
                                                                          .payload = inputs[i],
                                                                          .payload_size = strlen(inputs[i]),
                                                                          .task_id = i,
                                                                          .slot = 1 });
        struct made *m = really_run(line, i, inputs[i]);
        CHECK_EQ(cli_joblog_add(j, end_of(m, CLI_RESULT_COMMAND)), 0);
        drop(m);
        gd_command_free(line);
    }
    CHECK_EQ(cli_joblog_close(&j), 0);
    gd_command_close(&template);
    make_text("template", words[0]);
    struct gd__buffer theirs =
        shell("PARALLEL_SHELL=/bin/sh parallel -j1 --joblog theirs \"$(cat template)\" ::: 0 3 'a b' "
              "\"'\" '' >/dev/null 2>&1; cut -f 1,2,5- theirs",
              NULL);
    struct gd__buffer ours = shell("cut -f 1,2,5- ours", NULL);
    check_same("joblog", &ours, &theirs);
    gd__buffer_free(&theirs);
    gd__buffer_free(&ours);
}

/* --- directories of results ------------------------------------------------------------ */

static void check_results_file(const char *path, const char *text)
{
    check_file(path, text);
}

static void add_results(struct cli_results *r, uint64_t id, const char *input, size_t size)
{
    struct made *m = command("out\n", 4, "err\n", 0, 0);
    m->report.task_id = id;
    set_input(m, input, size);
    if (cli_results_add(r, end_of(m, CLI_RESULT_COMMAND)) < 0)
        FAIL("%s", gd__fail_text());
    drop(m);
}

TEST(results)
{
    struct cli_results *r = NULL;
    enter_directory();
    CHECK_EQ(cli_results_open(&r, "new/R"), 0);
    add_results(r, 0, "a\0b c", 5);
    check_results_file("new/R/1/a/2/b c/stdout", "out\n");
    check_results_file("new/R/1/a/2/b c/stderr", "err\n");
    check_results_file("new/R/1/a/2/b c/seq", "1");
    struct gd__buffer b = shell("ls -A 'new/R/1/a/2/b c'", NULL);
    CHECK_STR(b.data, "seq\nstderr\nstdout\n");
    gd__buffer_free(&b);
    struct made *m = failure(GD_FAILURE_ERROR, "bad input");
    CHECK_EQ(cli_results_add(r, end_of(m, CLI_RESULT_BYTES)), 0);
    check_results_file("new/R/1/a.wav/stderr", "bad input");
    m->report.failure = GD_FAILURE_CANCELLED;
    set_input(m, "cancelled", 9);
    CHECK_EQ(cli_results_add(r, end_of(m, CLI_RESULT_BYTES)), 0);
    CHECK(access("new/R/1/cancelled", F_OK) < 0);
    cli_results_close(&r);
    drop(m);
}

/* Files left by a killed run do no harm, and are removed. */
TEST(results_replace_incomplete_ones)
{
    struct cli_results *r = NULL;
    enter_directory();
    CHECK_EQ(cli_results_open(&r, "R"), 0);
    CHECK_EQ(mkdir("R/1", 0777), 0);
    CHECK_EQ(mkdir("R/1/a", 0777), 0);
    make_text("R/1/a/stdout.part", "something longer than what is written now");
    make_text("R/1/a/stderr", "old");
    cli_results_sync(r, true);
    add_results(r, 0, "a", 1);
    CHECK_STR(cli_results_path(r), "R/1/a");
    check_results_file("R/1/a/stdout", "out\n");
    check_results_file("R/1/a/stderr", "err\n");
    CHECK_EQ(access("R/1/a/stdout.part", F_OK), -1);
    cli_results_close(&r);
}

static size_t name_size(const char *path)
{
    return strlen(strrchr(path, '/') + 1);
}

/* Two inputs with the same beginning must not share a directory. The directory of an input is the same in every run. */
TEST(results_of_long_inputs)
{
    static const size_t sizes[] = { 254, 255, 256, 300, 5000 };
    struct cli_results *r = NULL;
    char input[5001], *paths[2 * sizeof sizes / sizeof *sizes];
    size_t n = 0;
    enter_directory();
    CHECK_EQ(cli_results_open(&r, "R"), 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (char last = 'x'; last <= 'y'; last++) {
            memset(input, 'x', sizes[i]);
            input[sizes[i] - 1] = last;
            add_results(r, n, input, sizes[i]);
            paths[n] = strdup(cli_results_path(r));
            CHECK(paths[n] != NULL);
            CHECK_EQ(name_size(paths[n]), sizes[i] < 255 ? sizes[i] : 255);
            CHECK_EQ(strncmp(paths[n], "R/1/xxxxxxxx", 12), 0);
            n++;
        }
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            CHECK(strcmp(paths[i], paths[k]) != 0);
    memset(input, 'x', 300);
    add_results(r, 7, input, 300);
    CHECK_STR(cli_results_path(r), paths[6]);
    /* An input with the name of another input's directory. */
    const char *taken = strrchr(paths[6], '/') + 1;
    add_results(r, 8, taken, strlen(taken));
    CHECK(strcmp(cli_results_path(r), paths[6]) != 0);
    for (size_t i = 0; i < n; i++)
        free(paths[i]);
    cli_results_close(&r);
}

/* Names are cut between characters. */
TEST(results_of_long_inputs_in_other_languages)
{
    struct cli_results *r = NULL;
    char input[400];
    enter_directory();
    CHECK_EQ(cli_results_open(&r, "R"), 0);
    for (size_t before = 0; before < 3; before++) {
        memset(input, 'x', before);
        for (size_t i = before; i + 3 <= sizeof input; i += 3)
            memcpy(input + i, "\xe2\x82\xac", 3);
        add_results(r, before, input, before + (sizeof input - before) / 3 * 3);
        const char *name = strrchr(cli_results_path(r), '/') + 1, *end = strchr(name, '~');
        CHECK(end != NULL);
        CHECK_EQ((size_t)(end - name - (ptrdiff_t)before) % 3, 0);
        CHECK_GT(name_size(cli_results_path(r)), 250);
    }
    cli_results_close(&r);
}

/* If there is no room for a line, no part of it stays. */
TEST(a_line_is_written_completely_or_not_at_all)
{
    struct cli_records *r = NULL;
    struct made *m = result("1");
    struct rlimit limit = { 300, 300 };
    enter_directory();
    signal(SIGXFSZ, SIG_IGN);
    make_text("r", "kept\n");
    CHECK_EQ(cli_records_open(&r, "r", true), 0);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    CHECK_EQ(cli_records_add(r, end_of(m, CLI_RESULT_BYTES)), 0);
    struct gd__buffer before = bytes_of("r");
    CHECK_EQ(before.data[before.size - 1], '\n');
    CHECK_EQ(cli_records_add(r, end_of(m, CLI_RESULT_BYTES)), 0);
    CHECK_EQ(cli_records_add(r, end_of(m, CLI_RESULT_BYTES)), -1);
    CHECK_CONTAINS(gd__fail_text(), "cannot write r: File too large");
    struct gd__buffer after = bytes_of("r");
    CHECK_EQ(after.data[after.size - 1], '\n');
    CHECK_EQ(after.size, 5 + 2 * (before.size - 5));
    CHECK_EQ(cli_records_close(&r), 0);
    gd__buffer_free(&before);
    gd__buffer_free(&after);
    drop(m);
}

TEST(records_have_the_number_of_their_run)
{
    struct cli_records *r = NULL;
    struct made *m = result("1");
    enter_directory();
    CHECK_EQ(cli_records_open(&r, "r", false), 0);
    cli_records_run(r, 3);
    CHECK_EQ(cli_records_add(r, end_of(m, CLI_RESULT_BYTES)), 0);
    CHECK_EQ(cli_records_close(&r), 0);
    struct gd__buffer b = bytes_of("r");
    CHECK_EQ(strncmp(b.data, "{\"id\":6,\"run\":3,\"input\":\"a.wav\",", 32), 0);
    gd__buffer_free(&b);
    drop(m);
}

TEST(a_joblog_that_is_continued)
{
    struct cli_joblog *j = NULL;
    enter_directory();
    make_text("j", "there is something\n");
    CHECK_EQ(cli_joblog_open(&j, "j", NULL, true), 0);
    CHECK_EQ(cli_joblog_begin(j), 0);
    CHECK_EQ(cli_joblog_close(&j), 0);
    check_file("j", "there is something\n");
    CHECK_EQ(truncate("j", 0), 0);
    CHECK_EQ(cli_joblog_open(&j, "j", NULL, true), 0);
    CHECK_EQ(cli_joblog_begin(j), 0);
    CHECK_EQ(cli_joblog_close(&j), 0);
    struct gd__buffer b = bytes_of("j");
    CHECK_EQ(strncmp(b.data, "Seq\t", 4), 0);
    gd__buffer_free(&b);
}

TEST(results_as_gnu_parallel)
{
    char long_name[256] = "", slashes[121] = ""; /* as long as possible, including the quotes */
    memset(long_name, 'x', 255);
    memset(slashes, '/', 120);
    const char *const inputs[] = { "a",  "b c", "d/e", "",         "tab\tx", "q\\z", "n\nl",    ".",
                                   "..", "/",   "-",   "\xff\x01", "'\"$",   "a",    long_name, slashes };
    size_t n = sizeof inputs / sizeof *inputs;
    need_parallel();
    enter_directory();
    struct cli_results *r = NULL;
    struct gd__buffer list = { 0 };
    CHECK_EQ(cli_results_open(&r, "ours"), 0);
    for (size_t i = 0; i < n; i++) {
        add_results(r, i, inputs[i], strlen(inputs[i]));
        gd__buffer_add(&list, inputs[i], strlen(inputs[i]) + 1);
    }
    cli_results_close(&r);
    make_file("list", list.data, list.size);
    gd__buffer_free(&list);
    struct gd__buffer said =
        shell("PARALLEL_SHELL=/bin/sh parallel -0 -j1 --results theirs 'echo out; echo err >&2; true {}' <list 2>&1; "
              "diff -r ours theirs",
              NULL);
    CHECK_STR(said.data, "");
    gd__buffer_free(&said);
}

TEST_MAIN()
