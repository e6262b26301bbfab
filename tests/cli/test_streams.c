/* SPDX-License-Identifier: MIT
 *
 * Writing the results of tasks to standard output, with and without --tag. Compared with GNU parallel if it is
 * installed. */
#include <fcntl.h>
#include <pthread.h>
#include <termios.h>

#include "base/failure.h"
#include "base/text/buffer.h"
#include "cli/output/progress.h"
#include "cli/output/streams.h"
#include "ends.h"

/* --- helpers ------------------------------------------------------------------------ */

/* Writes one end to the files "out" and "err". */
static void write_one(struct made *m, enum cli_result_kind kind, bool tag, bool silent)
{
    struct cli_streams *o = NULL;
    int out = open("out", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int err = open("err", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    CHECK(out >= 0 && err >= 0);
    CHECK_EQ(
        cli_streams_open(&o, &(struct cli_streams_options){ .out = out, .err = err, .tag = tag, .silent = silent }), 0);
    CHECK_EQ(cli_streams_add(o, end_of(m, kind)), 0);
    CHECK(!cli_streams_broken(o));
    cli_streams_close(&o);
    close(out);
    close(err);
}

static void check_output(struct made *m, enum cli_result_kind kind, bool tag, const char *out, const char *err)
{
    enter_directory();
    write_one(m, kind, tag, false);
    check_file("out", out);
    check_file("err", err);
    drop(m);
}

/* --- ends ---------------------------------------------------------------------------- */

TEST(the_end_of_a_command)
{
    struct made *m = command("out", 3, "err", 0, 0);
    const struct cli_task_end *e = end_of(m, CLI_RESULT_COMMAND);
    CHECK(e->ok && e->ran);
    CHECK_STR(e->status, "ok");
    CHECK_EQ(e->out_size, 3);
    CHECK_EQ(e->err_size, 3);
    CHECK(e->seconds > 0.2499 && e->seconds < 0.2501);
    CHECK_EQ(cli_task_end_shell_status(e), 0);
    drop(m);
    m = command("", 0, "", 3, 0);
    e = end_of(m, CLI_RESULT_COMMAND);
    CHECK(!e->ok && e->ran);
    CHECK_STR(e->status, "error");
    CHECK_EQ(cli_task_end_shell_status(e), 3);
    drop(m);
    m = command("", 0, "", 0, 9);
    CHECK_EQ(cli_task_end_shell_status(end_of(m, CLI_RESULT_COMMAND)), 137);
    drop(m);
}

TEST(ends_of_other_kinds)
{
    struct made *m = failure(GD_FAILURE_TIMEOUT, "took too long");
    const struct cli_task_end *e = end_of(m, CLI_RESULT_COMMAND);
    CHECK_EQ(e->exit_code, -1);
    CHECK_EQ(e->signal, 15);
    CHECK_EQ(cli_task_end_shell_status(e), 255);
    CHECK_STR(e->status, "timeout");
    drop(m);
    m = failure(GD_FAILURE_CRASH, "died");
    m->report.signal = 11;
    e = end_of(m, CLI_RESULT_BYTES);
    CHECK_EQ(e->signal, 11);
    CHECK_EQ(e->exit_code, 0);
    CHECK_EQ(cli_task_end_shell_status(e), 139);
    drop(m);
    m = failure(GD_FAILURE_ERROR, "words");
    CHECK_EQ(cli_task_end_shell_status(end_of(m, CLI_RESULT_JSON)), 1);
    drop(m);
    m = failure(GD_FAILURE_NO_WORKER, "none left");
    CHECK_EQ(cli_task_end_shell_status(end_of(m, CLI_RESULT_COMMAND)), 255);
    drop(m);
}

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The start is reported as Unix time. It must be between the times measured before and after. It may be wrong by the
 * difference of these two, because two clocks are compared in between. */
TEST(the_start_is_unix_time)
{
    struct made *m = result("x");
    const double before = seconds_of(CLOCK_REALTIME);
    m->report.start_ns = (uint64_t)(seconds_of(CLOCK_MONOTONIC) * 1e9);
    m->report.end_ns = m->report.start_ns;
    const struct cli_task_end *e = end_of(m, CLI_RESULT_BYTES);
    const double after = seconds_of(CLOCK_REALTIME), apart = after - before + 1;
    CHECK(e->started > before - apart && e->started < after + apart);
    m->report.start_ns = 0;
    CHECK(end_of(m, CLI_RESULT_BYTES)->started == 0);
    drop(m);
}

/* --- standard output ------------------------------------------------------------------- */

TEST(output_of_a_command_is_as_it_was)
{
    check_output(command("a\nb", 3, "e", 0, 0), CLI_RESULT_COMMAND, false, "a\nb", "e");
}

TEST(a_failed_command_gets_no_message_of_ours)
{
    check_output(command("a\n", 2, "bad\n", 3, 0), CLI_RESULT_COMMAND, false, "a\n", "bad\n");
}

TEST(output_with_nul_bytes)
{
    enter_directory();
    struct made *m = command("a\0b", 3, "", 0, 0);
    write_one(m, CLI_RESULT_COMMAND, false, false);
    struct gd__buffer b = bytes_of("out");
    CHECK_EQ(b.size, 3);
    CHECK_MEM(b.data, "a\0b", 3);
    gd__buffer_free(&b);
    drop(m);
}

TEST(tagged_lines)
{
    check_output(command("a\n\nb", 4, "e\nf\n", 0, 0), CLI_RESULT_COMMAND, true, "a.wav\ta\na.wav\t\na.wav\tb",
                 "a.wav\te\na.wav\tf\n");
}

TEST(a_tag_of_several_arguments)
{
    struct made *m = command("x\n", 2, "", 0, 0);
    set_input(m, "a b\0c", 5);
    check_output(m, CLI_RESULT_COMMAND, true, "a b c\tx\n", "");
}

/* A tag is an input. In a file it is written unchanged. */
TEST(a_tag_on_a_terminal)
{
    static const char input[] = "a\033[2J\302\233b";
    char seen[256];
    struct cli_streams *o = NULL;
    struct termios raw;
    struct made *m = command("out\n", 4, "err\n", 0, 0);
    const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    const int terminal = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(terminal >= 0 && tcgetattr(terminal, &raw) == 0);
    cfmakeraw(&raw);
    CHECK_EQ(tcsetattr(terminal, TCSANOW, &raw), 0);
    enter_directory();
    const int file = open("err", O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    m->report.input = input;
    m->report.input_size = sizeof input - 1;
    CHECK_EQ(cli_streams_open(&o, &(struct cli_streams_options){ .out = terminal, .err = file, .tag = true }), 0);
    CHECK_EQ(cli_streams_add(o, end_of(m, CLI_RESULT_COMMAND)), 0);
    cli_streams_close(&o);
    const ssize_t n = read(master, seen, sizeof seen - 1);
    CHECK(n > 0);
    seen[n] = '\0';
    CHECK_STR(seen, "a?[2J??b\tout\n");
    check_file("err", "a\033[2J\302\233b\terr\n");
    close(file);
    close(terminal);
    close(master);
    drop(m);
}

TEST(nothing_is_tagged_if_nothing_was_written)
{
    check_output(command("", 0, "", 0, 0), CLI_RESULT_COMMAND, true, "", "");
}

TEST(results_of_plugins_are_lines)
{
    check_output(result("42"), CLI_RESULT_BYTES, false, "42\n", "");
}

TEST(a_newline_is_not_doubled)
{
    check_output(result("42\n"), CLI_RESULT_BYTES, false, "42\n", "");
}

TEST(tagged_results)
{
    check_output(result("\"x\\ny\""), CLI_RESULT_JSON, true, "a.wav\tx\na.wav\ty\n", "");
}

TEST(json_results)
{
    check_output(result("{\"a\": [1,2]}"), CLI_RESULT_JSON, false, "{\"a\": [1,2]}\n", "");
}

TEST(json_strings_are_decoded)
{
    check_output(result("\"a\\u00e9\\nb\""), CLI_RESULT_JSON, false, "a\xc3\xa9\nb\n", "");
}

TEST(message_of_a_timeout)
{
    check_output(failure(GD_FAILURE_TIMEOUT, "whatever"), CLI_RESULT_BYTES, false, "",
                 "gpu-dispatch: task \"a.wav\": timed out after 0.2s\n");
}

TEST(a_timed_out_command_has_its_output_first)
{
    struct made *m = command("part", 4, "e\n", 0, 0);
    m->report.failure = GD_FAILURE_TIMEOUT;
    check_output(m, CLI_RESULT_COMMAND, false, "part", "e\ngpu-dispatch: task \"a.wav\": timed out after 0.2s\n");
}

TEST(a_command_whose_device_was_lost_gets_a_message)
{
    struct made *m = command("", 0, "e\n", 1, 0);
    m->report.failure = GD_FAILURE_DEVICE_LOST;
    m->report.error = "GPU 3 has fallen off the bus";
    check_output(m, CLI_RESULT_COMMAND, false, "",
                 "e\ngpu-dispatch: task \"a.wav\": device lost: GPU 3 has fallen off the bus\n");
}

TEST(message_of_a_crash)
{
    struct made *m = failure(GD_FAILURE_CRASH, "killed by signal 11 (Segmentation fault)");
    m->report.attempt = 3;
    check_output(m, CLI_RESULT_BYTES, false, "",
                 "gpu-dispatch: task \"a.wav\": crashed: killed by signal 11 (Segmentation fault) (attempt 3)\n");
}

TEST(message_of_an_error)
{
    check_output(failure(GD_FAILURE_ERROR, "no such codec"), CLI_RESULT_JSON, false, "",
                 "gpu-dispatch: task \"a.wav\": no such codec\n");
}

TEST(messages_contain_no_terminal_commands)
{
    struct made *m = failure(GD_FAILURE_ERROR, "bad");
    set_input(m, "a\033[2J\0b", 7);
    check_output(m, CLI_RESULT_BYTES, false, "", "gpu-dispatch: task \"a?[2J b\": bad\n");
}

TEST(failures_of_the_whole_run_are_not_reported_for_each_task)
{
    check_output(failure(GD_FAILURE_NO_WORKER, "not done: no workers are left"), CLI_RESULT_BYTES, false, "", "");
    check_output(failure(GD_FAILURE_CANCELLED, "the run was shut down"), CLI_RESULT_BYTES, false, "", "");
}

TEST(silent_output_has_failures_only)
{
    enter_directory();
    struct made *m = command("a\n", 2, "b\n", 0, 0);
    write_one(m, CLI_RESULT_COMMAND, true, true);
    check_file("out", "");
    check_file("err", "");
    drop(m);
    m = failure(GD_FAILURE_TIMEOUT, "");
    write_one(m, CLI_RESULT_COMMAND, true, true);
    check_file("err", "gpu-dispatch: task \"a.wav\": timed out after 0.2s\n");
    drop(m);
}

TEST(output_ends_quietly_when_the_reader_is_gone)
{
    int fds[2];
    struct cli_streams *o = NULL;
    enter_directory();
    signal(SIGPIPE, SIG_IGN);
    CHECK_EQ(pipe2(fds, O_CLOEXEC), 0);
    close(fds[0]);
    int err = open("err", O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    CHECK_EQ(cli_streams_open(&o, &(struct cli_streams_options){ .out = fds[1], .err = err }), 0);
    struct made *m = command("a\n", 2, "b\n", 0, 0);
    CHECK_EQ(cli_streams_add(o, end_of(m, CLI_RESULT_COMMAND)), 0);
    CHECK(cli_streams_broken(o));
    CHECK_EQ(cli_streams_add(o, end_of(m, CLI_RESULT_COMMAND)), 0);
    check_file("err", "");
    cli_streams_close(&o);
    drop(m);
}

TEST(a_full_disk_is_reported_once)
{
    struct cli_streams *o = NULL;
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC), err = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (full < 0)
        SKIP("no /dev/full");
    CHECK_EQ(cli_streams_open(&o, &(struct cli_streams_options){ .out = full, .err = err }), 0);
    struct made *m = command("a\n", 2, "", 0, 0);
    CHECK_EQ(cli_streams_add(o, end_of(m, CLI_RESULT_COMMAND)), -1);
    CHECK_CONTAINS(gd__fail_text(), "cannot write standard output: No space left");
    CHECK_EQ(cli_streams_add(o, end_of(m, CLI_RESULT_COMMAND)), 0);
    CHECK(cli_streams_broken(o));
    cli_streams_close(&o);
    drop(m);
}

static void *count_bytes(void *arg)
{
    char part[777];
    size_t got = 0;
    ssize_t n;
    while ((n = read(*(int *)arg, part, sizeof part)) > 0)
        got += (size_t)n;
    return (void *)got;
}

TEST(a_non_blocking_standard_output_gets_everything)
{
    enum { LARGE = 1 << 20 };
    int fds[2];
    pthread_t thread;
    void *got;
    struct cli_streams *o = NULL;
    char *large = malloc(LARGE);
    memset(large, 'x', LARGE);
    CHECK_EQ(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    CHECK_EQ(fcntl(fds[0], F_SETFL, 0), 0);
    CHECK_EQ(pthread_create(&thread, NULL, count_bytes, &fds[0]), 0);
    CHECK_EQ(cli_streams_open(&o, &(struct cli_streams_options){ .out = fds[1], .err = STDERR_FILENO }), 0);
    struct made *m = command(large, LARGE, "", 0, 0);
    CHECK_EQ(cli_streams_add(o, end_of(m, CLI_RESULT_COMMAND)), 0);
    close(fds[1]);
    pthread_join(thread, &got);
    CHECK_EQ((size_t)got, LARGE);
    cli_streams_close(&o);
    drop(m);
    free(large);
}

/* --- compared with GNU parallel ---------------------------------------------------- */

TEST(tags_as_gnu_parallel)
{
    static const char *const lines[] = { "printf 'a\\n\\nb\\rc\\r\\nd'", "printf '\\n'", "true",
                                         "printf x; printf 'y\\nz' >&2" };
    need_parallel();
    enter_directory();
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct made *m = really_run(lines[i], 0, "in  put");
        write_one(m, CLI_RESULT_COMMAND, true, false);
        drop(m);
        make_text("template", lines[i]);
        struct gd__buffer theirs =
            shell("PARALLEL_SHELL=/bin/sh parallel --tag \"$(cat template) # {}\" ::: 'in  put' 2>e; cat e", NULL);
        struct gd__buffer ours = shell("cat out err", NULL);
        check_same(lines[i], &ours, &theirs);
        gd__buffer_free(&theirs);
        gd__buffer_free(&ours);
    }
}

TEST_MAIN()
