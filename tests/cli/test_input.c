/* SPDX-License-Identifier: MIT
 *
 * Sources of tasks: lines, arguments, combinations, cancelling. Compared with GNU parallel if it is installed.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>

#include "base/failure.h"
#include "base/text/buffer.h"
#include "inputs.h"

static void check_lines(const char *text, size_t size, const char *expected, enum cli_format format, bool skip)
{
    enter_directory();
    make_file("f", text, size);
    const struct cli_source s[] = { FROM("f") };
    check_input(OPTIONS(s, .format = format, .skip_blank = skip), expected);
    check_input(OPTIONS(s, .format = format, .skip_blank = skip, .need_total = true), expected);
}

#define LINES(text, expected) check_lines(text, sizeof(text) - 1, expected, CLI_FORMAT_LINES, false)

/* --- lines --------------------------------------------------------------------------- */

TEST(lines)
{
    LINES("a\nb c\n", "[a]\n[b c]\n");
}

TEST(a_last_line_without_its_end)
{
    LINES("a\nb", "[a]\n[b]\n");
}

TEST(empty_lines_are_tasks)
{
    LINES("a\n\n\nb\n\n", "[a]\n[]\n[]\n[b]\n[]\n");
}

TEST(an_empty_file_has_no_task)
{
    LINES("", "");
}

TEST(carriage_returns_stay)
{
    LINES("a\r\nb\r\n", "[a\r]\n[b\r]\n");
}

TEST(any_bytes)
{
    LINES("\xff\xfe\x01\n\xc3\n", "[\xff\xfe\x01]\n[\xc3]\n");
}

TEST(a_nul_in_a_line_is_shown)
{
    LINES("a\0b\0\n\0\nc\n", "[a\\0b\\0]\n[\\0]\n[c]\n");
}

TEST(records_with_nul)
{
    check_lines("a\0b\nc\0\0d", 8, "[a]\n[b\nc]\n[]\n[d]\n", CLI_FORMAT_NUL, false);
}

TEST(blank_lines_can_be_skipped)
{
    check_lines("a\n\n \t\n b \n", 10, "[a]\n[ b ]\n", CLI_FORMAT_LINES, true);
}

TEST(json_lines)
{
    check_lines("{\"a\": 1}\n\n  \r\n5\n", 16, "[{\"a\": 1}]\n[5]\n", CLI_FORMAT_JSONL, false);
}

/* Checks the settings of the next task of the input. */
static void check_settings(struct cli_input *in, int priority, unsigned timeout_ms)
{
    struct gd_item item = { .priority = -100 };
    CHECK_EQ(cli_input_next(in, &item), 1);
    CHECK_EQ(item.priority, priority);
    CHECK_EQ(item.timeout_ms, timeout_ms);
}

TEST(json_lines_with_settings_of_their_tasks)
{
    static const char lines[] = "{\"gpu_dispatch\":{\"priority\":-4}}\n"
                                "{\"x\":[1],\"gpu_dispatch\" : { \"timeout\" : 2.5 , \"priority\" : 3 } }\n"
                                "{\"gpu_dispatch\":{\"timeout\":\"1m30s\"}}\n"
                                "{\"gpu_dispatch\":{ }}\n"
                                "{\"priority\":2,\"timeout\":2,\"x\":{\"gpu_dispatch\":{\"priority\":2}}}\n"
                                "[{\"gpu_dispatch\":{\"priority\":2}}]\n"
                                "{\"gpu_dispatch\":not JSON\n"
                                "{\"input\":{\"gpu_dispatch\":{\"priority\":1}},\"json\":true,\"failure\":\"error\","
                                "\"error\":\"exit code 1\",\"attempts\":1}\n";
    enter_directory();
    make_file("f", lines, sizeof lines - 1);
    const struct cli_source s[] = { FROM("f") };
    for (int held = 0; held < 2; held++) {
        struct cli_input *in = open_input(OPTIONS(s, .format = CLI_FORMAT_JSONL, .need_total = held));
        check_settings(in, -4, 0);
        check_settings(in, 3, 2500);
        check_settings(in, 0, 90000);
        for (int i = 0; i < 4; i++) /* these members are the user's own */
            check_settings(in, 0, 0);
        check_settings(in, 1, 0); /* the input in a failure record */
        CHECK_EQ(cli_input_next(in, &(struct gd_item){ 0 }), 0);
        cli_input_close(&in);
    }
}

TEST(plain_lines_have_no_settings)
{
    static const char line[] = "{\"gpu_dispatch\":{\"priority\":9}}\n";
    enter_directory();
    make_file("f", line, sizeof line - 1);
    const struct cli_source s[] = { FROM("f") };
    struct cli_input *in = open_input(OPTIONS(s));
    check_settings(in, 0, 0);
    cli_input_close(&in);
}

TEST(lines_of_any_length)
{
    static char text[600000];
    size_t at = 0, lengths[] = { 0, 1, 65534, 65535, 65536, 65537, 131072, 200000, 3 },
           n = sizeof lengths / sizeof *lengths;
    enter_directory();
    for (size_t i = 0; i < n; i++) {
        memset(text + at, 'a' + (int)i, lengths[i]);
        at += lengths[i];
        text[at++] = '\n';
    }
    make_file("f", text, at);
    const struct cli_source s[] = { FROM("f") };
    struct cli_input *in = open_input(OPTIONS(s));
    const void *data;
    size_t size;
    uint64_t weight;
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(cli_input_read(in, &data, &size, &weight), 1);
        CHECK_EQ(size, lengths[i]);
        for (size_t k = 0; k < size; k++)
            CHECK_EQ(((const char *)data)[k], 'a' + (int)i);
    }
    CHECK_EQ(cli_input_read(in, &data, &size, &weight), 0);
    cli_input_close(&in);
}

/* --- standard input -------------------------------------------------------------------- */

/* Replaces standard input by a pipe. Returns the writing end. */
static int pipe_to_stdin(void)
{
    int fds[2];
    CHECK_EQ(pipe2(fds, O_CLOEXEC), 0);
    CHECK_EQ(dup2(fds[0], STDIN_FILENO), STDIN_FILENO);
    close(fds[0]);
    return fds[1];
}

TEST(standard_input_is_the_default)
{
    int fd = pipe_to_stdin();
    CHECK_EQ(write(fd, "a\nb", 3), 3);
    close(fd);
    check_input(&(struct cli_input_options){ 0 }, "[a]\n[b]\n");
}

TEST(a_record_is_available_as_soon_as_it_is_complete)
{
    int fd = pipe_to_stdin();
    struct cli_input *in = open_input(&(struct cli_input_options){ 0 });
    const void *data;
    size_t size;
    uint64_t weight;
    CHECK_EQ(write(fd, "one\ntw", 6), 6);
    CHECK_EQ(cli_input_read(in, &data, &size, &weight), 1);
    CHECK_EQ(size, 3);
    CHECK_EQ(write(fd, "o\n", 2), 2);
    CHECK_EQ(cli_input_read(in, &data, &size, &weight), 1);
    CHECK_EQ(size, 3);
    CHECK_MEM(data, "two", 3);
    cli_input_close(&in);
}

/* The read returns whether or not the reader is already asleep. Without the cancel it would never return. */
TEST(cancel_ends_a_blocked_read)
{
    int fd = pipe_to_stdin();
    struct cli_input *in = open_input(&(struct cli_input_options){ 0 });
    pthread_t thread;
    void *result;
    CHECK_EQ(pthread_create(&thread, NULL, read_one, in), 0);
    cli_input_cancel(in);
    pthread_join(thread, &result);
    CHECK_EQ((intptr_t)result, 0);
    CHECK_EQ(write(fd, "late\n", 5), 5);
    CHECK_EQ((intptr_t)read_one(in), 0);
    cli_input_close(&in);
    close(fd);
}

TEST(cancel_ends_arguments_too)
{
    const struct cli_source s[] = { WORDS("a", "b") };
    struct cli_input *in = open_input(OPTIONS(s));
    CHECK_EQ((intptr_t)read_one(in), 1);
    cli_input_cancel(in);
    CHECK_EQ((intptr_t)read_one(in), 0);
    cli_input_close(&in);
}

TEST(a_non_blocking_standard_input_is_waited_for)
{
    int fd = pipe_to_stdin();
    CHECK_EQ(fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK), 0);
    struct cli_input *in = open_input(&(struct cli_input_options){ 0 });
    pthread_t thread;
    void *result;
    CHECK_EQ(pthread_create(&thread, NULL, read_one, in), 0);
    CHECK_EQ(write(fd, "x\n", 2), 2);
    pthread_join(thread, &result);
    CHECK_EQ((intptr_t)result, 1);
    cli_input_close(&in);
}

/* Reading a large part of an endless input takes no more memory than reading a small part. */
TEST(endless_input_takes_no_memory)
{
    struct rusage before, after;
    int fds[2];
    CHECK_EQ(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        execlp("yes", "yes", "some words to be read", NULL);
        _exit(1);
    }
    CHECK_EQ(dup2(fds[0], STDIN_FILENO), STDIN_FILENO);
    close(fds[1]);
    const struct cli_source s[] = { FROM("-") };
    struct cli_input *in = open_input(OPTIONS(s));
    for (int i = 0; i < 1000; i++)
        CHECK_EQ((intptr_t)read_one(in), 1);
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < 1000000; i++)
        CHECK_EQ((intptr_t)read_one(in), 1);
    getrusage(RUSAGE_SELF, &after);
    CHECK_LE(after.ru_maxrss, before.ru_maxrss + 1024);
    CHECK_EQ(cli_input_total(in), 0);
    CHECK_EQ(cli_input_given(in), 1001000);
    cli_input_close(&in);
    kill(pid, SIGKILL);
}

/* --- words and combinations ---------------------------------------------------------------- */

TEST(words)
{
    const struct cli_source s[] = { WORDS("a", "", "b c", "n\nl") };
    check_input(OPTIONS(s), "[a]\n[]\n[b c]\n[n\nl]\n");
    check_input(OPTIONS(s, .skip_blank = true), "[a]\n[b c]\n[n\nl]\n");
    struct cli_input *in = open_input(OPTIONS(s));
    CHECK_EQ(cli_input_total(in), 4);
    cli_input_close(&in);
}

TEST(no_arguments_no_tasks)
{
    const struct cli_source s[] = { NO_WORDS };
    check_input(OPTIONS(s), "");
    const struct cli_source two[] = { NO_WORDS, NO_WORDS };
    check_input(OPTIONS(two), "");
}

TEST(combinations)
{
    const struct cli_source s[] = { WORDS("a", "b"), WORDS("1", "2", "3"), WORDS("x", "y") };
    check_input(OPTIONS(s), "[a][1][x]\n[a][1][y]\n[a][2][x]\n[a][2][y]\n[a][3][x]\n[a][3][y]\n"
                            "[b][1][x]\n[b][1][y]\n[b][2][x]\n[b][2][y]\n[b][3][x]\n[b][3][y]\n");
}

TEST(linked_arguments)
{
    const struct cli_source s[] = { WORDS("a", "b", "c"), LINKED("1", "2"), WORDS("x", "y"), LINKED("p", "q", "r") };
    check_input(OPTIONS(s), "[a][1][x][p]\n[a][1][y][q]\n[b][2][x][p]\n[b][2][y][q]\n");
}

TEST(an_empty_source_counts_as_one_empty_argument)
{
    const struct cli_source last[] = { WORDS("a", "b"), NO_WORDS };
    check_input(OPTIONS(last), "[a][]\n[b][]\n");
    const struct cli_source first[] = { NO_WORDS, WORDS("a", "b") };
    check_input(OPTIONS(first), "[][a]\n[][b]\n");
    enter_directory();
    make_text("empty", "");
    make_text("f", "1\n2\n");
    const struct cli_source streamed[] = { FROM("empty"), FROM("f") };
    check_input(OPTIONS(streamed), "[][1]\n[][2]\n");
    const struct cli_source linked[] = { FROM("empty"), { .path = "f", .link = true } };
    check_input(OPTIONS(linked), "[][1]\n");
    const struct cli_source to[] = { FROM("f"), { .path = "empty", .link = true } };
    check_input(OPTIONS(to), "[1][]\n");
    const struct cli_source none[] = { FROM("empty"), FROM("empty") };
    check_input(OPTIONS(none), "");
}

TEST(a_stream_combined_with_other_sources)
{
    enter_directory();
    make_text("f", "1\n2\n3\n");
    const struct cli_source s[] = { FROM("f"), WORDS("a", "b"), LINKED("x", "y") };
    check_input(OPTIONS(s), "[1][a][x]\n[1][b][y]\n[2][a][x]\n[2][b][y]\n[3][a][x]\n[3][b][y]\n");
    const struct cli_source linked[] = { FROM("f"), LINKED("x", "y") };
    check_input(OPTIONS(linked), "[1][x]\n[2][y]\n");
    const struct cli_source longer[] = { FROM("f"), LINKED("x", "y", "z", "w") };
    check_input(OPTIONS(longer), "[1][x]\n[2][y]\n[3][z]\n");
}

TEST(too_many_combinations)
{
    static const char *many[65536];
    struct cli_source s[5];
    for (size_t i = 0; i < 65536; i++)
        many[i] = "";
    for (size_t i = 0; i < 5; i++)
        s[i] = (struct cli_source){ .kind = CLI_SOURCE_WORDS, .words = many, .n_words = 65536 };
    check_refused(OPTIONS(s), "too many combinations");
}

/* Gives both programs the same input. Arguments are passed with -0: otherwise a newline would end an argument. */
TEST_WITHIN(120, combinations_as_gnu_parallel)
{
    const struct {
        struct cli_source s[4];
        size_t n;
        const char *theirs;
    } cases[] = {
        { { WORDS("a", "b"), WORDS("1", "2", "3") }, 2, "-0 'printf [%s][%s]\\\\n {1} {2}' ::: a b ::: 1 2 3" },
        { { WORDS("a", "b", "c"), LINKED("1", "2") }, 2, "-0 'printf [%s][%s]\\\\n {1} {2}' ::: a b c :::+ 1 2" },
        { { WORDS("x", "y"), WORDS("a", "b", "c"), LINKED("1", "2") },
          3,
          "-0 'printf [%s][%s][%s]\\\\n {1} {2} {3}' ::: x y ::: a b c :::+ 1 2" },
        { { FROM("f"), FROM("g") }, 2, "'printf [%s][%s]\\\\n {1} {2}' :::: f g" },
        { { FROM("f"), { .path = "g", .link = true }, WORDS("1", "2") },
          3,
          "'printf [%s][%s][%s]\\\\n {1} {2} {3}' :::: f ::::+ g ::: 1 2" },
        { { FROM("empty"), FROM("f") }, 2, "'printf [%s][%s]\\\\n {1} {2}' :::: empty f" },
        { { FROM("empty"), { .path = "f", .link = true } }, 2, "'printf [%s][%s]\\\\n {1} {2}' :::: empty ::::+ f" },
        { { WORDS("a", " b", "", "'", "\"", "$x", "\\", "*", "a\nb", "\xff") },
          1,
          "-0 'printf [%s]\\\\n {}' ::: a ' b' '' \"'\" '\"' '$x' '\\' '*' \"$(printf 'a\\nb')\" \"$(printf "
          "'\\377')\"" },
        { { FROM("f") }, 1, "'printf [%s]\\\\n {}' <f" },
        { { FROM("odd") }, 1, "'printf [%s]\\\\n {}' <odd 2>/dev/null" },
        { { FROM("odd") }, 1, "-a odd 'printf [%s]\\\\n {}' 2>/dev/null" },
    };
    need_parallel();
    enter_directory();
    make_text("f", "l 1\n\nl3\r\n*");
    make_text("g", "m1\nm2\n");
    make_text("empty", "");
    make_file("odd", "\xff\0x\n\\\n \n'\n\n", 11);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[300];
        snprintf(command, sizeof command, "PARALLEL_SHELL=/bin/sh parallel -k %s", cases[i].theirs);
        struct gd__buffer theirs = shell(command, NULL);
        struct cli_input *in =
            open_input(&(struct cli_input_options){ .sources = cases[i].s, .n_sources = cases[i].n });
        struct gd__buffer ours = drain(in);
        check_same(cases[i].theirs, &ours, &theirs);
        gd__buffer_free(&theirs);
        gd__buffer_free(&ours);
        cli_input_close(&in);
    }
}

TEST(blank_lines_skipped_as_gnu_parallel)
{
    need_parallel();
    enter_directory();
    make_text("f", "a\n\n \n\t\nb \n c\n");
    struct gd__buffer theirs =
        shell("PARALLEL_SHELL=/bin/sh parallel -k -r 'printf [%s][%s]\\\\n {1} {2}' :::: f ::: x '' y", NULL);
    const struct cli_source s[] = { FROM("f"), WORDS("x", "", "y") };
    struct cli_input *in = open_input(OPTIONS(s, .skip_blank = true));
    struct gd__buffer ours = drain(in);
    check_same("-r", &ours, &theirs);
    gd__buffer_free(&theirs);
    gd__buffer_free(&ours);
    cli_input_close(&in);
}

/* --- shuffling -------------------------------------------------------------------------------- */

static int compare_chars(const void *a, const void *b)
{
    return *(const char *)a - *(const char *)b;
}

static struct gd__buffer shuffled(bool seeded, uint64_t seed)
{
    const struct cli_source s[] = { WORDS("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n") };
    struct cli_input *in = open_input(OPTIONS(s, .shuffle = true, .seeded = seeded, .seed = seed));
    CHECK_EQ(cli_input_total(in), 14);
    struct gd__buffer got = drain(in);
    cli_input_close(&in);
    return got;
}

TEST(shuffled_input_is_all_there_in_another_order)
{
    struct gd__buffer one = shuffled(true, 1), again = shuffled(true, 1), two = shuffled(true, 2),
                      free_one = shuffled(false, 1);
    CHECK_STR(one.data, again.data);
    CHECK(strcmp(one.data, two.data) != 0);
    CHECK(strcmp(one.data, free_one.data) != 0);
    CHECK(strncmp(one.data, "[a]\n[b]\n[c]\n[d]\n", 16) != 0);
    char letters[15] = "";
    for (size_t i = 0; i < 14; i++)
        letters[i] = one.data[i * 4 + 1];
    qsort(letters, 14, 1, compare_chars);
    CHECK_STR(letters, "abcdefghijklmn");
    gd__buffer_free(&one);
    gd__buffer_free(&again);
    gd__buffer_free(&two);
    gd__buffer_free(&free_one);
}

/* The six orders of three are equally likely: about 600 of 3,600 each. The range 500 to 700 is more than four standard
 * deviations wide on each side. */
TEST(every_order_is_equally_likely)
{
    const struct cli_source s[] = { WORDS("1", "2", "3") };
    int seen[1000] = { 0 };
    for (uint64_t seed = 0; seed < 3600; seed++) {
        struct cli_input *in = open_input(OPTIONS(s, .shuffle = true, .seeded = true, .seed = seed));
        struct gd__buffer got = drain(in);
        seen[(got.data[1] - '0') * 100 + (got.data[5] - '0') * 10 + got.data[9] - '0']++;
        gd__buffer_free(&got);
        cli_input_close(&in);
    }
    static const int orders[] = { 123, 132, 213, 231, 312, 321 };
    for (size_t i = 0; i < 6; i++) {
        CHECK_GE(seen[orders[i]], 500);
        CHECK_LE(seen[orders[i]], 700);
    }
}

TEST(combinations_are_shuffled_as_wholes)
{
    enter_directory();
    make_text("f", "1\n2\n");
    const struct cli_source s[] = { FROM("f"), WORDS("a", "b") };
    struct cli_input *in = open_input(OPTIONS(s, .shuffle = true, .seeded = true, .seed = 5));
    CHECK_EQ(cli_input_total(in), 4);
    struct gd__buffer got = drain(in);
    static const char *const each[] = { "[1][a]\n", "[1][b]\n", "[2][a]\n", "[2][b]\n" };
    for (size_t i = 0; i < 4; i++)
        CHECK_CONTAINS(got.data, each[i]);
    CHECK_EQ(got.size, 28);
    gd__buffer_free(&got);
    cli_input_close(&in);
}

TEST(the_total_is_available)
{
    enter_directory();
    make_text("f", "1\n2\n3");
    const struct cli_source s[] = { FROM("f"), WORDS("a", "b") };
    struct cli_input *in = open_input(OPTIONS(s));
    CHECK_EQ(cli_input_total(in), 0);
    cli_input_close(&in);
    in = open_input(OPTIONS(s, .need_total = true));
    CHECK_EQ(cli_input_total(in), 6);
    cli_input_close(&in);
}

TEST(a_stream_is_counted_when_its_end_was_read)
{
    enter_directory();
    make_text("f", "1\n2\n");
    const struct cli_source s[] = { FROM("f") }, words[] = { WORDS("a", "b", "c") };
    struct cli_input *in = open_input(OPTIONS(s));
    uint64_t n;
    for (int i = 0; i < 2; i++) {
        CHECK_EQ((intptr_t)read_one(in), 1);
        CHECK(!cli_input_count(in, &n));
    }
    CHECK_EQ((intptr_t)read_one(in), 0);
    CHECK(cli_input_count(in, &n));
    CHECK_EQ(n, 2);
    cli_input_close(&in);
    in = open_input(OPTIONS(words));
    CHECK(cli_input_count(in, &n));
    CHECK_EQ(n, 3);
    cli_input_close(&in);
}

TEST(a_stream_that_was_cancelled_is_not_counted)
{
    enter_directory();
    make_text("f", "1\n2\n");
    const struct cli_source s[] = { FROM("f") };
    struct cli_input *in = open_input(OPTIONS(s));
    uint64_t n;
    CHECK_EQ((intptr_t)read_one(in), 1);
    cli_input_cancel(in);
    CHECK_EQ((intptr_t)read_one(in), 0);
    CHECK(!cli_input_count(in, &n));
    cli_input_close(&in);
}

/* --- errors ------------------------------------------------------------------------------------- */

TEST(missing_files_are_reported_before_anything_runs)
{
    enter_directory();
    make_text("f", "1\n");
    const struct cli_source one[] = { FROM("not-there") };
    check_refused(OPTIONS(one), "cannot open input file not-there: No such file");
    const struct cli_source second[] = { FROM("f"), FROM("not-there") };
    check_refused(OPTIONS(second), "not-there");
    const struct cli_source directory[] = { FROM(".") };
    check_refused(OPTIONS(directory), "is a directory");
}

TEST(options_that_exclude_each_other)
{
    enter_directory();
    make_text("f", "1\n");
    const struct cli_source twice[] = { FROM("-"), FROM("-") };
    check_refused(OPTIONS(twice), "twice");
    const struct cli_source with_dir[] = { FROM("f"), { .kind = CLI_SOURCE_DIR, .path = "." } };
    check_refused(OPTIONS(with_dir), "--input-dir");
    const struct cli_source two[] = { FROM("f"), FROM("f") };
    check_refused(OPTIONS(two, .format = CLI_FORMAT_JSONL), "--jsonl");
}

TEST(a_closed_standard_input)
{
    close(STDIN_FILENO);
    check_refused(&(struct cli_input_options){ 0 }, "closed");
}

/* A descriptor that can't be read: the error message comes from the read. */
TEST(a_read_that_fails)
{
    int fd = open("/", O_RDONLY | O_CLOEXEC);
    CHECK_EQ(dup2(fd, STDIN_FILENO), STDIN_FILENO);
    struct cli_input *in = open_input(&(struct cli_input_options){ 0 });
    CHECK_EQ((intptr_t)read_one(in), -1);
    CHECK_CONTAINS(gd__fail_text(), "cannot read standard input");
    cli_input_close(&in);
}

TEST(a_terminal_gets_a_hint)
{
    enter_directory();
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC); /* NOLINT(concurrency-mt-unsafe) */
    int err = open("err", O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    CHECK_EQ(dup2(slave, STDIN_FILENO), STDIN_FILENO);
    CHECK_EQ(dup2(err, STDERR_FILENO), STDERR_FILENO);
    CHECK_EQ(write(master, "x\n\004", 3), 3);
    check_input(&(struct cli_input_options){ 0 }, "[x]\n");
    struct gd__buffer said = bytes_of("err");
    CHECK_CONTAINS(said.data, "gpu-dispatch: reading inputs from the terminal");
    CHECK_CONTAINS(said.data, "Ctrl-D");
    gd__buffer_free(&said);
}

TEST_MAIN()
