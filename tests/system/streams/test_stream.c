/* Stream programs (workers that use JSON Lines) that follow the protocol: answers, large lines, start and end. */
#include <pthread.h>

#include "system/streams/stream_job.h"

/* --- answers ---------------------------------------------------------------- */

TEST(outputs_are_results)
{
    struct job j;
    open_job(&j, NULL, NULL);
    GIVE(&j, "a.wav", "", "with \"quotes\"\n", "h\xc3\xa9");
    CHECK_EQ(run_job(&j), 0);
    CHECK_STR(j.finals[0].data, "\"a.wav\"");
    CHECK_STR(j.finals[1].data, "\"\"");
    CHECK_STR(j.finals[2].data, "\"with \\\"quotes\\\"\\n\"");
    CHECK_STR(j.finals[3].data, "\"h\xc3\xa9\"");
    CHECK_EQ(j.finals[0].attempt, 1);
    CHECK_EQ(j.exits, 0);
    CHECK_STR(j.cleanup_error, "");
    close_job(&j);
}

TEST(fifty_thousand_tasks)
{
    for (unsigned gpus = 1; gpus <= 2; gpus++) {
        struct job j;
        open_job(&j, NULL, NULL);
        j.o.n_gpus = gpus;
        j.n = 50000;
        j.fill = number;
        CHECK_EQ(run_job(&j), 0);
        check_numbers(&j);
        close_job(&j);
    }
}

static unsigned starts;
static void on_task_start(void *user, uint64_t task_id, int worker_id, unsigned attempt, uint64_t start_ns)
{
    struct job *j = user;
    (void)worker_id;
    CHECK_LT(task_id, j->n);
    CHECK_EQ(attempt, 1);
    CHECK_GT(start_ns, 0);
    CHECK_EQ(j->finals[task_id].finals, 0);
    starts++;
}

TEST(starts_are_reported)
{
    struct job j;
    open_job(&j, NULL, NULL);
    j.o.on_task_start = on_task_start;
    j.n = 2000;
    j.fill = number;
    CHECK_EQ(run_job(&j), 0);
    check_numbers(&j);
    CHECK_EQ(starts, 2000);
    close_job(&j);
}

TEST(answers_in_any_order)
{
    struct job j;
    open_job(&j, "reverse", NULL);
    j.o.batch_size = 16; /* this many tasks are in flight at once */
    j.n = 5000;
    j.fill = number;
    CHECK_EQ(run_job(&j), 0);
    check_numbers(&j);
    close_job(&j);
}

/* Checks that the program of the case above really answers in another order than it gets the tasks. */
TEST(several_tasks_are_in_flight)
{
    struct job j;
    size_t backwards = 0;
    open_job(&j, "reverse-count", NULL);
    j.o.batch_size = 16;
    j.o.batch_wait_us = 3600u * 1000 * 1000; /* long enough that every batch is full */
    j.n = 1000;
    j.fill = number;
    CHECK_EQ(run_job(&j), 0);
    for (size_t i = 1; i < j.n; i++)
        backwards += atoi(j.finals[i].data) < atoi(j.finals[i - 1].data);
    CHECK_GT(backwards, 100);
    close_job(&j);
}

/* The answer of one task is delayed. Later tasks are answered before it, but not more than there is room for. */
TEST(one_answer_is_delayed)
{
    struct job j;
    open_job(&j, "hold-one", NULL);
    j.o.window = 1000;
    j.o.queue_size = 2000;
    j.n = 2000;
    j.fill = number;
    CHECK_EQ(run_job(&j), 0);
    check_numbers(&j);
    close_job(&j);
}

static void let_go_on(void *user, const struct gd_report *r)
{
    if (r->task_id == 0)
        close(open(fifo, O_WRONLY | O_CLOEXEC));
    on_final(user, r);
}

TEST(an_answer_does_not_wait_for_the_next)
{
    struct job j;
    make_fifo();
    open_job(&j, "hang-to", fifo);
    j.o.batch_size = 2;
    j.o.batch_wait_us = 3600u * 1000 * 1000; /* both tasks are in one batch */
    j.o.on_success = let_go_on;
    GIVE(&j, "a", "await");
    CHECK_EQ(run_job(&j), 0);
    CHECK_STR(j.finals[1].data, "\"await\"");
    close_job(&j);
}

static uint64_t last_id;
static void on_ordered(void *user, const struct gd_report *r)
{
    CHECK_EQ(r->task_id, last_id++);
    on_final(user, r);
}

TEST(results_come_in_source_order_if_requested)
{
    struct job j;
    open_job(&j, "reverse", NULL);
    j.o.n_gpus = 2;
    j.o.ordered = true;
    j.o.on_success = on_ordered;
    j.n = 3000;
    j.fill = number;
    CHECK_EQ(run_job(&j), 0);
    check_numbers(&j);
    close_job(&j);
}

static size_t all_bytes(size_t i, char **bytes)
{
    *bytes = malloc(256);
    CHECK(*bytes);
    for (size_t k = 0; k < 256; k++)
        (*bytes)[k] = (char)(k + i);
    return 256;
}

TEST(inputs_that_are_not_utf8_are_sent_back_unchanged)
{
    static const char script[] =
        "import sys, json, os\n"
        "print('{\"ready\":true}', flush=True)\n"
        "for line in sys.stdin:\n"
        "    t = json.loads(line)\n"
        "    print(json.dumps({'id': t['id'], 'output': os.fsencode(t['input']).hex()}), flush=True)\n";
    struct job j;
    open_with(&j, (const char *[]){ "--", "python3", "-c", script, NULL });
    if (system("python3 -c 'import json' >/dev/null 2>&1") != 0)
        SKIP("no Python here");
    j.n = 3;
    j.fill = all_bytes;
    CHECK_EQ(run_job(&j), 0);
    for (size_t i = 0; i < j.n; i++) {
        CHECK_EQ(j.finals[i].size, 2 + 512);
        for (size_t k = 0; k < 256; k++) {
            char hex[3];
            snprintf(hex, sizeof hex, "%02x", (unsigned)(k + i) & 0xff);
            CHECK_MEM(j.finals[i].data + 1 + 2 * k, hex, 2);
        }
    }
    close_job(&j);
}

TEST(json_inputs_are_sent_unchanged)
{
    char *program = path_of("stream_program");
    struct job j;
    open_with(&j, (const char *[]){ "--json", "--", program, NULL });
    GIVE(&j, "{\"a\": [1,\n 2]}", " 7 ", "\"error 0\"", "[1,]", "", "\r\n{}\r\n", "\"\xff\"", "null");
    j.o.retries = 2;
    j.o.retry_delay_ms = 1;
    CHECK_EQ(run_job(&j), 0);
    CHECK_STR(j.finals[0].data, "{\"a\": [1,  2]}");
    CHECK_STR(j.finals[1].data, "7");
    CHECK_STR(j.finals[2].error, "no luck \xff\xc3\xa9");
    CHECK_STR(j.finals[3].error, "input is not JSON: a value is missing at byte 4");
    CHECK_EQ(j.finals[3].failure, GD_FAILURE_ERROR);
    CHECK_EQ(j.finals[3].attempt, 1); /* a retry would not help */
    CHECK_CONTAINS(j.finals[4].error, "the text ends at byte 1");
    CHECK_STR(j.finals[5].data, "{}");
    CHECK_CONTAINS(j.finals[6].error, "not UTF-8 at byte 2");
    CHECK_STR(j.finals[7].data, "null");
    CHECK_EQ(j.exits, 0);
    close_job(&j);
    free(program);
}

static size_t no_json(size_t i, char **bytes)
{
    return (size_t)asprintf(bytes, i % 100 == 99 ? "[%zu]" : "%zu]", i);
}

TEST(many_inputs_that_are_not_json)
{
    char *program = path_of("stream_program");
    struct job j;
    open_with(&j, (const char *[]){ "--json", "--", program, NULL });
    j.n = 3000;
    j.fill = no_json;
    CHECK_EQ(run_job(&j), 0);
    for (size_t i = 0; i < j.n; i++)
        CHECK_EQ(j.finals[i].failure, i % 100 == 99 ? GD_FAILURE_NONE : GD_FAILURE_ERROR);
    close_job(&j);
    free(program);
}

TEST(errors_are_failures_of_their_task)
{
    struct job j;
    open_job(&j, NULL, NULL);
    GIVE(&j, "error 0", "error 1", "error 2", "error 3", "fine", "final", "oom", "once error 0");
    j.o.retries = 1;
    j.o.retry_delay_ms = 1;
    CHECK_EQ(run_job(&j), 0);
    CHECK_EQ(j.finals[0].failure, GD_FAILURE_ERROR);
    CHECK_EQ(j.finals[0].attempt, 2);
    CHECK_STR(j.finals[0].error, "no luck \xff\xc3\xa9");
    CHECK_STR(j.finals[1].error, "{\"code\": 5}");
    CHECK_STR(j.finals[2].error, "(no error message)");
    CHECK_STR(j.finals[3].error, "a b");
    CHECK_STR(j.finals[4].data, "\"fine\"");
    CHECK_STR(j.finals[5].error, "never");
    CHECK_EQ(j.finals[5].attempt, 1);
    CHECK_EQ(j.finals[6].failure, GD_FAILURE_OUT_OF_MEMORY);
    CHECK_CONTAINS(j.finals[6].error, "too large");
    CHECK_STR(j.finals[7].data, "\"once error 0\"");
    CHECK_EQ(j.finals[7].attempt, 2);
    CHECK_EQ(j.exits, 0);
    close_job(&j);
}

TEST(a_lost_device_replaces_the_process)
{
    struct job j;
    open_job(&j, NULL, NULL);
    GIVE(&j, "a", "once lost", "b");
    CHECK_EQ(run_job(&j), 0);
    CHECK_STR(j.finals[0].data, "\"a\"");
    CHECK_STR(j.finals[1].data, "\"once lost\"");
    CHECK_STR(j.finals[2].data, "\"b\"");
    CHECK_EQ(j.exits, 1);
    close_job(&j);
    open_job(&j, NULL, NULL);
    GIVE(&j, "a", "lost");
    CHECK_EQ(run_job(&j), GD_E_NO_WORKERS);
    CHECK_STR(j.finals[0].data, "\"a\"");
    CHECK_NE(j.finals[1].failure, GD_FAILURE_NONE);
    close_job(&j);
}

TEST(a_program_from_path_with_arguments)
{
    static const char script[] =
        "echo '{\"ready\":true}'; while read -r line; do id=${line#*:}; "
        "echo \"{\\\"id\\\":${id%%,*},\\\"output\\\":\\\"$1 $CUDA_VISIBLE_DEVICES\\\"}\"; done";
    struct job j;
    open_with(&j, (const char *[]){ "--", "sh", "-c", script, "sh", "two words", NULL });
    j.n = 50;
    j.fill = number;
    CHECK_EQ(run_job(&j), 0);
    CHECK_STR(j.finals[49].data, "\"two words 0\"");
    close_job(&j);
}

static char *example(const char *name)
{
    char path[PATH_MAX];
    const char *directory = getenv("GD_TEST_EXAMPLES");
    if (!directory)
        SKIP("GD_TEST_EXAMPLES is not set");
    snprintf(path, sizeof path, "%s/stream/%s", directory, name);
    return strdup(path);
}

TEST(the_example_in_python)
{
    struct job j;
    char *program = example("upper.py");
    if (system("python3 -c 'import json' >/dev/null 2>&1") != 0)
        SKIP("no Python here");
    open_with(&j, (const char *[]){ "--", "python3", program, NULL });
    j.n = 3000;
    j.fill = number;
    CHECK_EQ(run_job(&j), 0);
    CHECK_STR(j.finals[0].data, "\"TASK 0\"");
    CHECK_STR(j.finals[2999].data, "\"TASK 2999\"");
    CHECK_STR(j.cleanup_error, "");
    close_job(&j);
    free(program);
}

TEST(the_example_in_python_with_json)
{
    struct job j;
    char *program = example("upper.py");
    if (system("python3 -c 'import json' >/dev/null 2>&1") != 0)
        SKIP("no Python here");
    open_with(&j, (const char *[]){ "--json", "--", "python3", program, NULL });
    GIVE(&j, "\"a\"", "7", "\"b\\udcff\"");
    CHECK_EQ(run_job(&j), 0);
    CHECK_STR(j.finals[0].data, "\"A\"");
    CHECK_STR(j.finals[1].error, "the input is not a string");
    CHECK_STR(j.finals[2].data, "\"B\\udcff\"");
    close_job(&j);
    free(program);
}

TEST(the_example_in_shell)
{
    struct job j;
    char *program = example("wordcount.sh");
    open_with(&j, (const char *[]){ "--", "sh", program, NULL });
    GIVE(&j, program, "/nonexistent/file", "/dev/null", "a\"b", "-");
    CHECK_EQ(run_job(&j), 0);
    CHECK_GT(atoi(j.finals[0].data), 100);
    CHECK_CONTAINS(j.finals[1].error, "cannot read");
    CHECK_STR(j.finals[2].data, "0");
    CHECK_CONTAINS(j.finals[3].error, "the name has characters");
    CHECK_CONTAINS(j.finals[4].error, "cannot read");
    CHECK_EQ(j.exits, 0);
    close_job(&j);
    free(program);
}

/* --- large lines ---------------------------------------------------------------- */

static size_t large_out_then_large_in(size_t i, char **bytes)
{
    return i % 2 == 0 ? (size_t)asprintf(bytes, "big 3000000") : two_megabytes(i, bytes);
}

/* The program writes an output that is larger than a pipe, while the host writes an input that is larger than a
 * pipe. */
TEST(both_pipes_full)
{
    struct job j;
    open_job(&j, NULL, NULL);
    j.o.batch_size = 2;
    j.n = 16;
    j.fill = large_out_then_large_in;
    CHECK_EQ(run_job(&j), 0);
    for (size_t i = 0; i < j.n; i++)
        if (i % 2 == 0)
            check_large(&j, i, 3000000, 'y');
        else
            check_large(&j, i, 2000000 + i, (char)('a' + (int)(i % 26)));
    close_job(&j);
}

static size_t hundred_megabytes(size_t i, char **bytes)
{
    (void)i;
    *bytes = malloc(100000000);
    CHECK(*bytes);
    memset(*bytes, 'z', 100000000);
    return 100000000;
}

TEST_WITHIN(180, a_line_of_a_hundred_megabytes)
{
    struct job j;
    open_job(&j, NULL, NULL);
    j.n = 2;
    j.fill = hundred_megabytes;
    CHECK_EQ(run_job(&j), 0);
    check_large(&j, 0, 100000000, 'z');
    check_large(&j, 1, 100000000, 'z');
    close_job(&j);
}

TEST(results_larger_than_inputs)
{
    struct job j;
    open_job(&j, NULL, NULL);
    GIVE(&j, "big 1", "big 100", "big 65536", "big 70000", "big 5000000", "big 10", "big 3000000");
    CHECK_EQ(run_job(&j), 0);
    check_large(&j, 0, 1, 'y');
    check_large(&j, 3, 70000, 'y');
    check_large(&j, 4, 5000000, 'y');
    check_large(&j, 5, 10, 'y');
    check_large(&j, 6, 3000000, 'y');
    close_job(&j);
}

/* --- start and end ---------------------------------------------------------- */

static void setup_fails(const char *mode, const char *argument, const char *expected)
{
    struct job j;
    open_job(&j, mode, argument);
    GIVE(&j, "a", "b");
    CHECK_EQ(run_job(&j), GD_E_SETUP);
    CHECK_EQ(j.setup_fails, 1);
    CHECK_CONTAINS(j.setup_error, expected);
    close_job(&j);
}

TEST(setup_is_refused)
{
    setup_fails("refuse", NULL, "no \"model\" here");
}
TEST(setup_is_refused_without_a_message)
{
    setup_fails("refuse-silently", NULL, "reported \"ready\":false without an error message");
}
TEST(garbage_before_ready)
{
    setup_fails("chatty", NULL, "wrote \"Loading model...\": it must write the line {\"ready\":true}");
}
TEST(json_before_ready)
{
    setup_fails("array", NULL, "wrote \"[true]\"");
}
TEST(ready_that_is_not_a_boolean)
{
    setup_fails("not-ready", NULL, "wrote \"{\\\"ready\\\":1}\"");
}
TEST(half_a_line_before_ready)
{
    setup_fails("half", NULL, "exited with code 0 before it was ready, and had written \"{\\\"read\"");
}
TEST(an_end_before_ready)
{
    setup_fails("quit", "3", "exited with code 3 before it was ready: it must");
}
TEST(a_death_before_ready)
{
    struct job j;
    open_job(&j, "segv", NULL);
    GIVE(&j, "a");
    CHECK_EQ(run_job(&j), GD_E_SETUP);
    CHECK_CONTAINS(j.setup_error, "killed by signal 11");
    CHECK_EQ(j.exits, 3); /* a crash during setup is tried again, as for every worker */
    close_job(&j);
}

TEST(no_such_program)
{
    struct job j;
    open_with(&j, (const char *[]){ "--", "no-such-program-here", NULL });
    GIVE(&j, "a");
    CHECK_EQ(run_job(&j), GD_E_SETUP);
    CHECK_CONTAINS(j.setup_error, "can't start no-such-program-here (is it in PATH, and executable?): No such file");
    close_job(&j);
}

TEST(no_program)
{
    struct job j;
    open_with(&j, (const char *[]){ "--", NULL });
    GIVE(&j, "a");
    CHECK_EQ(run_job(&j), GD_E_SETUP);
    CHECK_CONTAINS(j.setup_error, "no program");
    close_job(&j);
}

static void *open_fifo(void *unused)
{
    close(open(fifo, O_WRONLY | O_CLOEXEC)); /* waits until the program opens the FIFO */
    return unused;
}

TEST(a_program_that_is_ready_late)
{
    struct job j;
    pthread_t thread;
    make_fifo();
    open_job(&j, "ready-after", fifo);
    GIVE(&j, "a", "b");
    CHECK_EQ(pthread_create(&thread, NULL, open_fifo, NULL), 0);
    CHECK_EQ(run_job(&j), 0);
    pthread_join(thread, NULL);
    CHECK_STR(j.finals[1].data, "\"b\"");
    close_job(&j);
}

TEST(setup_that_takes_too_long_is_killed)
{
    struct job j;
    make_fifo();
    open_job(&j, "ready-after", fifo); /* no other process opens the FIFO */
    j.o.setup_timeout_ms = 100;
    j.o.setup_attempts = 1;
    GIVE(&j, "a");
    CHECK_EQ(run_job(&j), GD_E_SETUP);
    CHECK_CONTAINS(j.setup_error, "its setup took longer than the limit");
    close_job(&j);
}

TEST(a_program_that_does_not_end_is_killed)
{
    struct job j;
    open_job(&j, "stubborn", NULL);
    j.o.cleanup_grace_ms = 100;
    GIVE(&j, "a", "b");
    CHECK_EQ(run_job(&j), 0);
    CHECK_STR(j.finals[1].data, "\"b\"");
    close_job(&j);
}

TEST(a_nonzero_exit_code_at_the_end_is_a_cleanup_failure)
{
    struct job j;
    open_job(&j, "end-with", "5");
    GIVE(&j, "a", "b");
    CHECK_EQ(run_job(&j), 0);
    CHECK_STR(j.finals[1].data, "\"b\"");
    CHECK_CONTAINS(j.cleanup_error, "exited with code 5 at the end of its input");
    close_job(&j);
}

TEST_MAIN()
