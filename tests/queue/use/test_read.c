/* SPDX-License-Identifier: MIT
 *
 * Reading a queue on a real server: status, top, export and report, and the functions of the library.
 */
#include <gpu_dispatch/queue.h>
#include <pty.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text/json.h"
#include "queue/client.h"
#include "queue/server.h"
#include "queue/work.h"
#include "support/test.h"

static void begin(struct server *s)
{
    server_start(s, &(struct server_options){ .durable = false });
    work_begin(s->hosts);
}

static void push_and_run(const char *push_options)
{
    CHECK_EQ(push(push_options).status, 0);
    struct node n = node_start("--gpus sim:2");
    (void)node_wait(&n); /* its status says whether tasks failed */
}

static void check_command(struct result r, int status)
{
    if (r.status != status)
        FAIL("status %d: %s%s", r.status, r.out, r.err);
}

/* A number in a JSON object, at the top. */
static uint64_t number(const char *json, const char *name)
{
    struct gd__json value;
    uint64_t n = 0;
    if (!gd__json_member(json, strlen(json), name, &value) || !gd__json_uint(&value, &n))
        FAIL("no number %s in %s", name, json);
    return n;
}

static void check_counts(uint64_t total, uint64_t done, uint64_t failed)
{
    const struct result r = command("status --json --queue \"$URL\"");
    check_command(r, 0);
    CHECK_EQ(number(r.out, "total"), total);
    CHECK_EQ(number(r.out, "done"), done);
    CHECK_EQ(number(r.out, "failed"), failed);
    CHECK_EQ(number(r.out, "left"), total - done - failed);
    CHECK_EQ(number(r.out, "skipped_messages"), 0);
}

/* The lines of a file that contain a text. */
static unsigned lines_with(const char *path, const char *text)
{
    char line[8192];
    unsigned n = 0;
    FILE *f = fopen(path, "r");
    CHECK(f);
    while (fgets(line, sizeof line, f))
        n += strstr(line, text) != NULL;
    fclose(f);
    return n;
}

/* --- status and top ---------------------------------------------------------------- */

TEST(a_queue_that_does_not_exist)
{
    struct server s;
    begin(&s);
    const char *const commands[] = { "status --queue \"$URL\"", "top --queue \"$URL\" --once",
                                     "export --queue \"$URL\" --jsonl", "report --queue \"$URL\" -o page.html" };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const struct result r = command("%s", commands[i]);
        check_command(r, 255);
        CHECK_CONTAINS(r.err, "no queue \"q\"");
        CHECK_STR(r.out, "");
    }
    CHECK(access("page.html", F_OK) < 0);
}

TEST(status_before_and_after_the_work)
{
    struct server s;
    begin(&s);
    list_add("quick", 0, 20);
    list_add("fails", 0, 3);
    CHECK_EQ(push("").status, 0);
    check_counts(23, 0, 0);
    struct result r = command("status --queue \"$URL\"");
    check_command(r, 0);
    CHECK_CONTAINS(r.out, "/q: waiting, no node works on it");
    CHECK_CONTAINS(r.out, "waiting            23");
    struct node n = node_start("--gpus sim:2");
    CHECK_EQ(node_wait(&n), 3);
    check_counts(23, 20, 3);
    r = command("status --queue \"$URL\"");
    check_command(r, 0);
    CHECK_CONTAINS(r.out, "/q: done\ngpu-dispatch run ... -- ");
    CHECK_CONTAINS(r.out, "done               20   of 23, 87.0 %");
    CHECK_CONTAINS(r.out, "failed              3   13.0 %");
    CHECK_CONTAINS(r.out, "Failures\n             3   error\n");
    CHECK_CONTAINS(r.out, "Slowest\n");
    CHECK_CONTAINS(r.out, "left ");
}

/* While a task waits at the gate, it is held, and its node is shown. */
TEST(status_and_top_during_the_work)
{
    struct server s;
    begin(&s);
    list_add("gate", 0, 1);
    list_add("quick", 0, 4);
    CHECK_EQ(push("").status, 0);
    struct node n = node_start("--gpus sim:1");
    await_log("start gate0");
    struct result r = command("top --once --json --queue \"$URL\"");
    check_command(r, 0);
    CHECK_CONTAINS(r.out, "{\"state\":\"running\"");
    CHECK_CONTAINS(r.out, "\"nodes\":[{\"host\":");
    CHECK_GE(number(r.out, "held"), 1);
    CHECK_EQ(number(r.out, "held") + number(r.out, "waiting"), 5);
    r = command("top --queue \"$URL\""); /* not a terminal: once */
    check_command(r, 0);
    CHECK_CONTAINS(r.out, "0 of 5 tasks, 0.0 %, running");
    CHECK_CONTAINS(r.out, "\nNode  ");
    CHECK_CONTAINS(r.out, " running ");
    struct node top = command_start("top --json --queue \"$URL\"");
    open_gate();
    CHECK_EQ(node_wait(&n), 0);
    CHECK_EQ(node_wait(&top), 0); /* ends when the queue is done */
    CHECK_CONTAINS(node_output(&top), "{\"state\":\"done\"");
}

/* Waits until the program on this terminal has printed the text. */
static void await_printed(int terminal, const char *text)
{
    static char printed[1 << 20];
    size_t n = 0;
    for (printed[0] = '\0'; !strstr(printed, text);) {
        const ssize_t got = read(terminal, printed + n, sizeof printed - 1 - n);
        if (got <= 0)
            FAIL("it did not print \"%s\": %s", text, printed);
        n += (size_t)got;
        printed[n] = '\0';
    }
}

/* A server that is gone does not stop top from being left. */
TEST_WITHIN(50, top_can_be_left_while_the_server_does_not_answer)
{
    struct server s;
    struct winsize size = { .ws_row = 20, .ws_col = 100 };
    char program[1024];
    int terminal, status;
    begin(&s);
    CHECK(getenv("GD_COMMAND_DIR"));
    snprintf(program, sizeof program, "%s/gpu-dispatch", getenv("GD_COMMAND_DIR"));
    list_add("quick", 0, 3);
    CHECK_EQ(push("").status, 0);
    const pid_t pid = forkpty(&terminal, NULL, NULL, &size);
    CHECK_GE(pid, 0);
    if (pid == 0) {
        setenv("TERM", "xterm", 1);
        execl(program, "gpu-dispatch", "top", "--queue", work_url, (char *)NULL);
        _exit(99);
    }
    await_printed(terminal, "3 waiting");
    server_kill(&s);
    await_printed(terminal, "no answer from the server");
    CHECK_EQ(write(terminal, "q", 1), 1);
    await_printed(terminal, "\x1b[?1049l"); /* the terminal is as it was before */
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    close(terminal);
}

/* --- export -------------------------------------------------------------------------- */

TEST(export_is_in_push_order_with_outputs)
{
    struct server s;
    begin(&s);
    list_add("quick", 0, 30);
    list_add("fails", 0, 2);
    push_and_run("--bundle 7");
    check_command(command("export --queue \"$URL\" --jsonl -o all.jsonl"), 0);
    FILE *f = fopen("all.jsonl", "r");
    CHECK(f);
    for (unsigned i = 0; i < 32; i++) {
        char line[4096], expected[256];
        CHECK(fgets(line, sizeof line, f));
        CHECK(gd__json_valid(line, strlen(line)));
        if (i < 30)
            (void)snprintf(expected, sizeof expected,
                           "{\"id\":%u,\"input\":\"quick%u\",\"status\":\"ok\",\"output\":\"output of quick%u\\n\",", i,
                           i, i);
        else
            (void)snprintf(expected, sizeof expected, "{\"id\":%u,\"input\":\"fails%u\",\"status\":\"error\",", i,
                           i - 30);
        CHECK(strncmp(line, expected, strlen(expected)) == 0);
        CHECK_CONTAINS(line, i < 30 ? "\"exit_code\":0" : "\"exit_code\":3");
        CHECK_CONTAINS(line, ",\"host\":\"");
        CHECK_CONTAINS(line, ",\"gpu\":");
    }
    CHECK(fgetc(f) == EOF);
    fclose(f);
}

TEST(failed_tasks_are_exported_and_retried)
{
    struct server s;
    begin(&s);
    list_add("quick", 0, 5);
    list_add("once", 0, 2);
    push_and_run("");
    check_counts(7, 5, 2);
    struct result r = command("export --queue \"$URL\" --jsonl --failed");
    check_command(r, 0);
    CHECK_CONTAINS(r.out, "{\"input\":\"once0\",\"failure\":\"error\"");
    CHECK(!strstr(r.out, "quick"));
    check_command(command("push --queue \"$URL\" --retry-failed"), 0);
    check_counts(7, 5, 0);
    r = command("export --queue \"$URL\" --jsonl --failed");
    CHECK_STR(r.out, "");
    struct node n = node_start("--gpus sim:2");
    CHECK_EQ(node_wait(&n), 0);
    check_counts(7, 7, 0);
    check_command(command("export --queue \"$URL\" --jsonl -o all.jsonl"), 0);
    CHECK_EQ(lines_with("all.jsonl", "\"again\":1"), 2);
    CHECK_EQ(lines_with("all.jsonl", "\"status\":\"ok\""), 7);
}

TEST(export_as_csv)
{
    struct server s;
    begin(&s);
    list_add("quick", 0, 3);
    push_and_run("");
    const struct result r = command("export --queue \"$URL\" --csv");
    check_command(r, 0);
    CHECK(strncmp(r.out, "id,input,status,error,exit_code,signal,attempt,host,gpu,started,seconds,where,stderr\r\n",
                  86) == 0);
    CHECK_CONTAINS(r.out, "\r\n0,quick0,ok,,0,0,1,");
    CHECK_CONTAINS(r.out, "\r\n2,quick2,ok,,0,0,1,");
}

/* An output above 64 KiB is in a file of the spill directory. */
TEST(large_outputs_are_exported_from_files)
{
    struct server s;
    begin(&s);
    CHECK_EQ(mkdir("spill", 0700), 0);
    check_command(command("push --queue \"$URL\" --spill-dir spill ::: x y"), 0);
    check_command(command("run --queue \"$URL\" --spill-dir spill --gpus sim:2 -- "
                          "'head -c 100000 /dev/zero | tr \"\\\\0\" {}; echo end'"),
                  0);
    check_command(command("export --queue \"$URL\" --spill-dir spill --jsonl -o all.jsonl"), 0);
    struct stat info;
    CHECK(stat("all.jsonl", &info) == 0 && info.st_size > 200000);
    struct result r = command("export --queue \"$URL\" --jsonl");
    check_command(r, 0);
    CHECK_CONTAINS(r.out, "\"output_error\":\"it is in the file ");
    CHECK_CONTAINS(r.out, "the spill directory was not given");
    CHECK_EQ(system("for f in spill/*; do echo other > $f; done"), 0);
    r = command("export --queue \"$URL\" --spill-dir spill --jsonl");
    check_command(r, 0);
    CHECK_CONTAINS(r.out, "\"output_error\":\"the file ");
    CHECK_CONTAINS(r.out, " were recorded\"");
}

/* --- report ---------------------------------------------------------------------------- */

TEST(a_report)
{
    struct server s;
    begin(&s);
    list_add("quick", 0, 10);
    list_add("fails", 0, 1);
    push_and_run("");
    const struct result r = command("report --queue \"$URL\" -o page.html");
    check_command(r, 0);
    CHECK_STR(r.out, "page.html\n");
    CHECK_EQ(lines_with("page.html", "\"done\":10,\"failed\":1,"), 1);
    CHECK_EQ(lines_with("page.html", "\"end\":\"finished\""), 1);
    CHECK_EQ(lines_with("page.html", "\"places\":[{\"host\":"), 1);
    check_command(command("report --queue \"$URL\""), 255);
}

/* --- damage ------------------------------------------------------------------------------ */

/* Messages of another program in the streams hide nothing. */
TEST(foreign_messages_are_skipped_and_reported)
{
    struct server s;
    struct client c;
    begin(&s);
    list_add("quick", 0, 5);
    push_and_run("");
    client_open(&c, s.port);
    (void)client_ask(&c, "gd.q.t.0.other", "nonsense");
    (void)client_ask(&c, "gd.q.r.00000000000000000000000000000000", "\x1b[31mnonsense");
    (void)client_ask(&c, "gd.q.s.node.00000000000000000000000000000000", "{}");
    client_close(&c);
    struct result r = command("export --queue \"$URL\" --jsonl -o all.jsonl");
    check_command(r, 0);
    CHECK_CONTAINS(r.err, "messages of the queue cannot be used and were left out. The first one: message ");
    CHECK(!strchr(r.err, '\x1b'));
    CHECK_EQ(lines_with("all.jsonl", "\"status\":\"ok\""), 5);
    r = command("status --queue \"$URL\"");
    check_command(r, 0);
    CHECK_CONTAINS(r.out, "done                5   of 5, 100.0 %");
    CHECK_CONTAINS(r.err, "left out");
}

/* --- the library --------------------------------------------------------------------------- */

struct followed {
    unsigned n;
};

static int follow_one(void *user, const struct gd_queue_record *r)
{
    struct followed *f = user;
    CHECK(r->done && r->input_size > 0 && *r->host);
    if (f->n++ == 0)
        open_gate(); /* the others come while this follows */
    return 0;
}

TEST(records_are_followed_until_the_queue_is_done)
{
    struct server s;
    struct gd_queue_reader *r = NULL;
    struct gd_queue_options o = GD_QUEUE_OPTIONS_INIT;
    struct followed f = { 0 };
    begin(&s);
    list_add("quick", 0, 1);
    list_add("gate", 0, 10);
    CHECK_EQ(push("").status, 0);
    struct node n = node_start("--gpus sim:2");
    o.url = work_url;
    CHECK_EQ(gd_queue_reader_open(&r, &o), 0);
    if (gd_queue_reader_follow(r, follow_one, &f) != 0)
        FAIL("%s", gd_error_text());
    CHECK_EQ(f.n, 11);
    CHECK_EQ(node_wait(&n), 0);
    gd_queue_reader_close(&r);
}

/* The server dies and comes back while it is followed. */
static struct server *server_to_kill;

static int kill_server(void *user)
{
    unsigned *waits = user;
    if ((*waits)++ == 0) {
        server_kill(server_to_kill);
        server_again(server_to_kill);
        open_gate();
    }
    return 0;
}

static int count_one(void *user, const struct gd_queue_record *r)
{
    unsigned *n = user;
    (void)r;
    ++*n;
    return 0;
}

TEST_WITHIN(120, following_survives_the_death_of_a_server)
{
    struct server s;
    struct gd_queue_reader *r = NULL;
    struct gd_queue_options o = GD_QUEUE_OPTIONS_INIT;
    unsigned waits = 0, records = 0;
    server_start(&s, &(struct server_options){ .durable = true });
    work_begin(s.hosts);
    server_to_kill = &s;
    list_add("gate", 0, 6);
    CHECK_EQ(push("").status, 0);
    struct node n = node_start("--gpus sim:2");
    await_log("start gate0");
    o.url = work_url;
    CHECK_EQ(gd_queue_reader_open(&r, &o), 0);
    gd_queue_reader_on_wait(r, kill_server, &waits);
    if (gd_queue_reader_follow(r, count_one, &records) != 0)
        FAIL("%s", gd_error_text());
    CHECK_EQ(records, 6);
    CHECK_EQ(node_wait(&n), 0);
    gd_queue_reader_close(&r);
}

WORK_MAIN()
