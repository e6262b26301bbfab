/* SPDX-License-Identifier: MIT
 *
 * Requests to a running job, as users see them: each is in the log of the command, in `top` and in its JSON.
 */
#include "command/common.h"
#include "support/control_client.h"
#include "support/fifo.h"

#define TOP "GPU_DISPATCH_JOBS=$PWD/jobs gpu-dispatch top "

static int begun, go;

/* A run of five tasks on two groups of two GPUs. Two of the tasks have begun and wait. */
static struct sh_running start(const char *options)
{
    char script[512], jobs[256];
    snprintf(jobs, sizeof jobs, "%s/jobs", sh_dir());
    setenv("GPU_DISPATCH_JOBS", jobs, 1);
    begun = fifo("begun");
    go = fifo("go");
    snprintf(script, sizeof script,
             "export GPU_DISPATCH_JOBS=$PWD/jobs GPU_DISPATCH_SIM=4; exec gpu-dispatch run --gpus 0+1,2+3 %s "
             "'echo > begun; read x < go #' ::: a b c d e",
             options);
    const struct sh_running r = sh_start_script(script);
    await_lines(begun, 2);
    return r;
}

static struct ran finish(struct sh_running r, int tasks)
{
    while (tasks-- > 0)
        CHECK_EQ(write(go, "\n", 1), 1);
    return sh_wait(r);
}

TEST(each_request_is_in_the_log_and_in_top)
{
    static const struct {
        const char *request, *log, *top;
    } rows[] = {
        { "{\"do\":\"timeout\",\"ms\":3600000}", "request: time limit of a task set to 3600 s",
          "last request: time limit of a task set to 3600 s" },
        { "{\"do\":\"cancel\",\"task\":4}", "request: task 4 cancelled before it began",
          "last request: task 4 cancelled before it began" },
        { "{\"do\":\"cancel\",\"task\":4}", "request refused: task 4 not cancelled: it has ended",
          "last request refused: task 4 not cancelled: it has ended" },
        { "{\"do\":\"remove\",\"gpu\":3}", "request: 1 worker removed from GPU 3",
          "last request: 1 worker removed from GPU 3" },
        { "{\"do\":\"add\",\"gpu\":2}", "request: 1 worker added to GPU 2", "last request: 1 worker added to GPU 2" },
        { "{\"do\":\"pause\"}", "request: paused: 2 running tasks go on",
          "last request: paused: 2 running tasks go on" },
        { "{\"do\":\"resume\"}", "request: resumed", "last request: resumed" },
        { "{\"do\":\"drain\"}", "request: draining: the run ends after 2 running tasks",
          "last request: draining: the run ends after 2 running tasks" },
    };
    enum { ROWS = sizeof rows / sizeof *rows };
    struct sh_running job = start("--progress none");
    const int fd = client_open();
    for (size_t i = 0; i < ROWS; i++) {
        client_ask(fd, rows[i].request);
        CHECK_CONTAINS(sh(TOP "--once").out, rows[i].top);
    }
    close(fd);
    struct ran r = finish(job, 2);
    for (size_t i = 0; i < ROWS; i++) {
        char line[256];
        snprintf(line, sizeof line, "gpu-dispatch: %s", rows[i].log);
        CHECK_CONTAINS(r.err, line);
    }
}

TEST(top_shows_the_state_and_the_groups)
{
    struct sh_running job = start("--quiet");
    const int fd = client_open();
    CHECK_CONTAINS(client_ask(fd, "{\"do\":\"pause\"}"), "\"ok\":true");
    struct ran r = sh(TOP "--once");
    CHECK_CONTAINS(r.out, "0 of 5 tasks, 0.0 %, paused");
    CHECK_CONTAINS(r.out, "\n0+1 processing ");
    CHECK_CONTAINS(r.out, "\n2+3 processing ");
    CHECK_CONTAINS(r.out, " - ETA");
    CHECK_CONTAINS(sh(TOP "--list").out, "0 of 5  (paused) ");
    r = sh(TOP "--once --json");
    CHECK_CONTAINS(r.out, "\"state\":\"paused\",\"task_timeout_ms\":0,");
    CHECK_CONTAINS(r.out, "{\"worker\":1,\"gpu\":2,\"gpus\":[2,3],");
    CHECK_CONTAINS(r.out,
                   "\"last_request\":{\"ok\":true,\"message\":\"paused: 2 running tasks go on, nothing new starts\"}");
    CHECK_CONTAINS(client_ask(fd, "{\"do\":\"resume\"}"), "\"ok\":true");
    r = sh(TOP "--once");
    CHECK(!strstr(r.out, "%, paused"));
    CHECK(!strstr(sh(TOP "--list").out, "paused"));
    CHECK_CONTAINS(client_ask(fd, "{\"do\":\"drain\"}"), "\"ok\":true");
    CHECK_CONTAINS(sh(TOP "--once").out, "%, draining");
    CHECK_CONTAINS(sh(TOP "--list").out, "(draining) ");
    close(fd);
    CHECK_EQ(finish(job, 2).status, 3); /* three tasks were not done */
}

/* 0 would mean that every task succeeded. */
TEST(the_exit_status_counts_cancelled_tasks)
{
    struct sh_running job = start("--quiet");
    const int fd = client_open();
    CHECK_CONTAINS(client_ask(fd, "{\"do\":\"cancel\",\"task\":4}"), "\"ok\":true");
    close(fd);
    CHECK_EQ(finish(job, 4).status, 1);
}

TEST(a_run_that_is_drained_after_its_last_task_began_has_succeeded)
{
    struct sh_running job = start("--quiet");
    CHECK_EQ(write(go, "\n\n\n", 3), 3);
    await_lines(begun, 3);
    const int fd = client_open();
    CHECK_CONTAINS(client_ask(fd, "{\"do\":\"drain\"}"), "\"ok\":true");
    close(fd);
    CHECK_EQ(finish(job, 2).status, 0);
}

/* The input comes through a pipe that stays open. Both tasks have begun, so none is cancelled. */
TEST(a_drained_run_with_input_that_was_not_read)
{
    char script[512];
    setenv("GPU_DISPATCH_JOBS", strcat(strcpy(script, sh_dir()), "/jobs"), 1);
    begun = fifo("begun");
    go = fifo("go");
    const int input = fifo("input");
    CHECK_EQ(write(input, "a\nb\n", 4), 4);
    struct sh_running job = sh_start_script("export GPU_DISPATCH_JOBS=$PWD/jobs; exec gpu-dispatch run --quiet --gpus "
                                            "sim:2 -a input 'echo > begun; read x < go #'");
    await_lines(begun, 2);
    const int fd = client_open();
    CHECK_CONTAINS(client_ask(fd, "{\"do\":\"drain\"}"), "draining: the run ends after 2 running tasks");
    close(fd);
    CHECK_EQ(finish(job, 2).status, 1);
    close(input);
}

TEST(the_summary_names_all_gpus_of_a_group)
{
    struct ran r = sh("GPU_DISPATCH_SIM=4 gpu-dispatch run --gpus 1+0,2+3 true ::: a b c d");
    CHECK_CONTAINS(r.err, "\n1+0 ");
    CHECK_CONTAINS(r.err, "\n2+3 ");
    CHECK_CONTAINS(sh("gpu-dispatch run --gpus sim:2 true ::: a b c d").err, "\n  1 ");
}

TEST_MAIN()
