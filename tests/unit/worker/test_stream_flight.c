/* SPDX-License-Identifier: MIT
 *
 * Stream programs that announce how many tasks they can have in flight: answers in any order, flush and cancel lines,
 * partial results. A program that does not announce this gets none of these lines.
 *
 * The worker and the stream program that it starts are both this program: see be_program(). */
#include "unit/worker/flight_fixture.h"
#include "worker/stream.h"

/* ---- the stream program ---- */

enum { BATCH = 16 };

struct line {
    unsigned long long id; /* of a task or of a cancel line */
    char input[64];
    bool is_task, is_cancel, is_flush;
};

static bool read_line(struct line *l)
{
    char text[4096];
    *l = (struct line){ 0 };
    if (!fgets(text, sizeof text, stdin))
        return false;
    l->is_task = sscanf(text, "{\"id\":%llu,\"attempt\":%*u,\"input\":\"%63[^\"]\"}", &l->id, l->input) == 2;
    l->is_cancel = sscanf(text, "{\"cancel\":%llu}", &l->id) == 1;
    l->is_flush = strcmp(text, "{\"flush\":true}\n") == 0;
    if (l->is_task + l->is_cancel + l->is_flush != 1)
        _exit(50); /* an unknown line */
    return true;
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

static void answer_in_reverse(struct line *lines, int *n)
{
    const int all = *n;
    while (*n > 0) {
        const struct line *l = &lines[--*n];
        printf("{\"id\":%llu,\"output\":[\"%s\",%d]}\n", l->id, l->input, all);
    }
    fflush(stdout);
}

/* Answers 16 tasks at once, in reverse order, or fewer after a flush. */
static void gather(void)
{
    struct line lines[BATCH];
    int n = 0;
    while (read_line(&lines[n])) {
        if (lines[n].is_cancel)
            continue;
        if (lines[n].is_flush || ++n == BATCH)
            answer_in_reverse(lines, &n);
    }
}

/* Answers at once, except for tasks that are held until they are cancelled. */
static void react(void)
{
    char seen[256] = "";
    struct line l;
    while (read_line(&l)) {
        if (l.is_flush)
            strcat(seen, "F");
        else if (l.is_cancel)
            snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "C%llu", l.id);
        if (l.is_cancel)
            say("{\"id\":%llu,\"error\":\"stopped\"}", l.id);
        else if (l.is_task && strcmp(l.input, "seen") == 0)
            say("{\"id\":%llu,\"output\":\"%s\"}", l.id, seen);
        else if (l.is_task && strcmp(l.input, "parts") == 0)
            say("{\"id\":%llu,\"partial\":\"one\"}\n{\"id\":%llu,\"partial\":[2]}\n{\"id\":%llu,\"output\":3}", l.id,
                l.id, l.id);
        else if (l.is_task && strcmp(l.input, "both") == 0)
            say("{\"id\":%llu,\"partial\":1,\"output\":2}", l.id);
        else if (l.is_task && strcmp(l.input, "unknown") == 0)
            say("{\"id\":%llu,\"output\":2}", l.id + 1);
        else if (l.is_task && strcmp(l.input, "error") == 0)
            say("{\"id\":%llu,\"error\":\"bad\",\"final\":true}", l.id);
        else if (l.is_task && strcmp(l.input, "exit") == 0)
            _exit(7);
        else if (l.is_task && strcmp(l.input, "hold") == 0)
            say("{\"id\":%llu,\"partial\":\"held\"}", l.id);
        else if (l.is_task)
            say("{\"id\":%llu,\"output\":\"%s\"}", l.id, l.input);
    }
}

/* Accepts tasks only. */
static void be_old(void)
{
    struct line l;
    while (read_line(&l)) {
        if (!l.is_task)
            _exit(9);
        say("{\"id\":%llu,\"output\":\"%s\",\"partial\":\"unused\"}", l.id, l.input);
    }
}

static int be_program(const char *mode)
{
    if (strcmp(mode, "gather") == 0) {
        say("{\"ready\":true,\"concurrency\":64}");
        gather();
    } else if (strcmp(mode, "react") == 0) {
        say("{\"ready\":true,\"concurrency\":4}");
        react();
    } else if (strcmp(mode, "old") == 0) {
        say("{\"ready\":true}");
        be_old();
    } else {
        say("{\"ready\":true,\"concurrency\":%s}", mode);
    }
    return 0;
}

static void be_stream_worker(int argc, char **argv)
{
    static char path[4096], flag[] = "--program";
    char *words[] = { path, flag, getenv(MODE_ENV), NULL };
    if (readlink("/proc/self/exe", path, sizeof path - 1) <= 0 || !words[2])
        exit(99);
    gd__stream_main(argc, argv, words, false);
    exit(98);
}

/* ---- the dispatcher's side ---- */

static void give_n(const char *payload, int n)
{
    for (int i = 0; i < n; i++)
        append(payload);
    gd__channel_publish(&f->c);
}

static void end(void)
{
    gd__channel_stop(&f->c);
    CHECK_EQ(next(), GD__R_BYE);
    CHECK_EQ(next(), 0);
    CHECK_EQ(f->signal, 0);
    CHECK_EQ(f->exit_code, 0);
}

TEST(the_ready_line_announces_a_number)
{
    prepare();
    start_flight("gather", 0);
    CHECK_EQ(flight.concurrency, 64);
    end();
    dispose();
    prepare();
    start_flight("gather", 8);
    CHECK_EQ(flight.concurrency, 8);
    end();
}

TEST(a_bad_number_is_a_setup_failure)
{
    static const char *const bad[] = { "0", "-1", "1.5", "\"4\"", "null", "true" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        prepare();
        start(bad[i]);
        CHECK_EQ(next(), GD__R_SETUP_FAILED);
        CHECK_CONTAINS(f->bytes, "must be a whole number, and at least 1");
        CHECK_EQ(next(), 0);
        dispose();
    }
}

TEST(concurrency_with_batches_is_refused)
{
    prepare();
    f->spec.config.batch_size = 4;
    start("gather");
    CHECK_EQ(next(), GD__R_SETUP_FAILED);
    CHECK_CONTAINS(f->bytes, "set the batch size to 1, not 4");
    CHECK_EQ(next(), 0);
}

TEST(gathered_tasks_come_back_in_reverse_order)
{
    prepare();
    start_flight("gather", 0);
    give_n("x", 2 * BATCH);
    for (uint64_t i = 0; i < 2 * BATCH; i++) {
        CHECK_EQ(outcome(), GD__R_SUCCESS);
        CHECK_EQ(f->record.position, i / BATCH * BATCH + BATCH - 1 - i % BATCH);
        CHECK_STR(f->bytes, "[\"x\",16]");
    }
    end();
}

TEST(a_flush_ends_an_incomplete_batch)
{
    prepare();
    start_flight("gather", 0);
    for (int round = 0; round < 100; round++) {
        give_n("x", 1 + round % 20);
        for (int i = 0; i < 1 + round % 20; i++)
            CHECK_EQ(outcome(), GD__R_SUCCESS);
    }
    end();
}

TEST(a_flush_waits_for_batch_wait)
{
    prepare();
    f->spec.config.batch_wait_ns = 3600 * GD__NS_PER_S;
    start_flight("gather", 0);
    give_n("x", 5);
    await_begun(5);
    give_n("x", BATCH - 5);
    for (int i = 0; i < BATCH; i++) {
        CHECK_EQ(outcome(), GD__R_SUCCESS);
        CHECK_STR(f->bytes, "[\"x\",16]");
    }
    end();
    dispose();
    prepare();
    f->spec.config.batch_wait_ns = 20 * GD__NS_PER_MS;
    start_flight("gather", 0);
    give_n("x", 5);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(outcome(), GD__R_SUCCESS);
        CHECK_STR(f->bytes, "[\"x\",5]");
        CHECK_GE(f->record.end_ns - f->record.start_ns, 15 * GD__NS_PER_MS);
    }
    end();
}

TEST(a_flush_is_sent_when_no_more_may_be_in_flight)
{
    prepare();
    f->spec.config.batch_wait_ns = 3600 * GD__NS_PER_S;
    start_flight("gather", 8);
    give_n("x", 16);
    for (int i = 0; i < 16; i++) {
        CHECK_EQ(outcome(), GD__R_SUCCESS);
        CHECK(strcmp(f->bytes, "[\"x\",16]") != 0);
    }
    end();
}

TEST(each_of_many_tasks_is_answered_once)
{
    static unsigned char seen[20000];
    char payload[32], expected[32];
    const uint64_t total = sizeof seen / TEST_SLOWDOWN;
    prepare();
    f->spec.config.result_capacity = 64;
    start_flight("gather", 0);
    for (uint64_t done = 0; done < total; done++) {
        while (f->c.task_tail < total && f->c.task_tail - flight.begun < f->c.task_capacity &&
               f->c.task_tail - done < 200) {
            snprintf(payload, sizeof payload, "n%d", (int)f->c.task_tail);
            append(payload);
        }
        gd__channel_publish(&f->c);
        CHECK_EQ(outcome(), GD__R_SUCCESS);
        CHECK_EQ(seen[f->record.position]++, 0);
        const int n = snprintf(expected, sizeof expected, "[\"n%d\",", (int)f->record.position);
        CHECK_MEM(f->bytes, expected, n);
    }
    CHECK_GT(flight.most_flying, BATCH);
    end();
}

TEST(lines_are_sent_while_others_are_in_flight)
{
    prepare();
    start_flight("react", 0);
    give("hold");
    expect_next(0, GD__R_PARTIAL, "\"held\"");
    for (uint64_t i = 1; i < 200; i++) {
        give(i % 3 ? "e" : "error");
        expect_next(i, i % 3 ? GD__R_SUCCESS : GD__R_ERROR_FINAL, i % 3 ? "\"e\"" : "bad");
    }
    cancel_in_flight(0);
    expect_next(0, GD__R_CANCELLED, "");
    end();
}

TEST(a_cancel_line_names_its_task)
{
    prepare();
    start_flight("react", 0);
    GIVE("hold", "hold", "hold");
    for (uint64_t i = 0; i < 3; i++)
        expect_next(i, GD__R_PARTIAL, "\"held\"");
    cancel_in_flight(1);
    expect_next(1, GD__R_CANCELLED, "");
    CHECK_EQ(send(f->socket, "c", 1, MSG_NOSIGNAL), 1); /* the cancel line is not sent twice */
    cancel_in_flight(2);
    expect_next(2, GD__R_CANCELLED, "");
    give("seen");
    CHECK_EQ(outcome(), GD__R_SUCCESS);
    CHECK_CONTAINS(f->bytes, "C101C102");
    CHECK(strstr(f->bytes, "C100") == NULL);
    cancel_in_flight(0);
    expect_next(0, GD__R_CANCELLED, "");
    end();
}

TEST(one_flush_for_each_pause)
{
    prepare();
    start_flight("react", 0);
    for (int i = 0; i < 3; i++) {
        give("e");
        CHECK_EQ(outcome(), GD__R_SUCCESS);
    }
    give("seen");
    expect_next(3, GD__R_SUCCESS, "\"FFF\"");
    end();
}

TEST(one_at_a_time_if_no_more_is_allowed)
{
    prepare();
    start_flight("react", 1);
    CHECK_EQ(flight.concurrency, 1);
    GIVE("hold", "seen");
    CHECK_EQ(next(), GD__R_PARTIAL); /* without STARTED */
    cancel(1);
    CHECK_EQ(next(), GD__R_CANCELLED);
    CHECK_EQ(next(), GD__R_SUCCESS);
    CHECK_CONTAINS(f->bytes, "F");
    CHECK_CONTAINS(f->bytes, "C100");
    end();
}

TEST(partial_lines_are_partial_results)
{
    prepare();
    start_flight("react", 0);
    give("parts");
    expect_next(0, GD__R_PARTIAL, "\"one\"");
    expect_next(0, GD__R_PARTIAL, "[2]");
    expect_next(0, GD__R_SUCCESS, "3");
    end();
}

static void expect_end(const char *last, int code)
{
    prepare();
    start_flight("react", 0);
    GIVE("e", last);
    expect_next(0, GD__R_SUCCESS, "\"e\"");
    while (step() == GD__R_STARTED)
        ;
    CHECK_EQ(f->exit_code, code);
    dispose();
}

TEST(a_program_that_ends_or_breaks_the_protocol)
{
    expect_end("exit", 7);
    expect_end("unknown", GD__EXIT_PROTOCOL);
    expect_end("both", GD__EXIT_PROTOCOL);
}

TEST(an_old_program_gets_no_new_lines)
{
    prepare();
    start_flight("old", 64);
    CHECK_EQ(f->record.attempt, 1);
    for (uint64_t i = 0; i < 100; i++) {
        give("e");
        CHECK_EQ(send(f->socket, "c", 1, MSG_NOSIGNAL), 1);
        expect_at(i, GD__R_SUCCESS);
        CHECK_STR(f->bytes, "\"e\"");
    }
    cancel(101);
    give("e");
    CHECK_EQ(next(), GD__R_SUCCESS);
    end();
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--program") == 0)
        return be_program(argv[2]);
    if (getenv(GD__BOOT_ENV))
        be_stream_worker(argc, argv);
    return test_main(argc, argv);
}
