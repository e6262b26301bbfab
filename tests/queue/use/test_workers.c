/* SPDX-License-Identifier: MIT
 *
 * Kinds of workers with a queue: programs that stay alive, workers that take batches, and the C library. Time limits, and
 * nodes that are of no use.
 */
#include <gpu_dispatch/gpu_dispatch.h>

#include "queue/server.h"
#include "queue/work.h"
#include "support/test.h"

enum { BATCH = 8, MINUTE_US = 60000000 };

static struct server s;

static void begin(void)
{
    server_start(&s, NULL);
    work_begin(s.hosts);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* What a command prints. Fails unless it ends with 0. */
static const char *output_of(const char *arguments)
{
    static struct result r;
    r = command("%s", arguments);
    if (r.status != 0)
        FAIL("gpu-dispatch %s ended with %d: %.600s", arguments, r.status, r.err);
    return r.out;
}

static unsigned count(const char *text, const char *part)
{
    unsigned n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        n++;
    return n;
}

/* --- programs that stay alive ---------------------------------------------------------------- */

TEST(stream_programs_of_two_nodes)
{
    char expected[64];
    begin();
    list_add("item", 0, 40);
    CHECK_EQ(push("").status, 0);
    struct node a = command_start("run --queue \"$URL\" --gpus sim:2 --stream \"$GD_TEST_PLUGINS/stream_program\"");
    struct node b =
        command_start("run --queue \"$URL\" --spool b.spool --gpus sim:2 --stream \"$GD_TEST_PLUGINS/stream_program\"");
    CHECK_EQ(node_wait(&a), 0);
    CHECK_EQ(node_wait(&b), 0);
    const char *records = output_of("export --queue \"$URL\"");
    CHECK_EQ(count(records, "\"status\":\"ok\""), 40);
    for (unsigned i = 0; i < 40; i++) {
        snprintf(expected, sizeof expected, "\"output\":\"item%u\"", i); /* it sends its input back */
        CHECK_CONTAINS(records, expected);
    }
}

/* --- time limits ------------------------------------------------------------------------------ */

TEST(task_of_a_queue_that_times_out)
{
    struct tally t;
    begin();
    list_add("gate", 0, 2);
    CHECK_EQ(push("").status, 0);
    struct node n = node_start("--gpus sim:2 --timeout 1s");
    CHECK_EQ(node_wait(&n), 2);
    const char *records = output_of("export --queue \"$URL\"");
    CHECK_EQ(count(records, "\"status\":\"timeout\""), 2);
    open_gate();
    CHECK_EQ(command("push --queue \"$URL\" --retry-failed").status, 0);
    n = node_start("--gpus sim:2");
    CHECK_EQ(node_wait(&n), 0);
    tally_queue(s.port, &t);
    CHECK_EQ(t.done, 2);
}

/* Only one task has a time limit, so the others cannot fail on a slow machine. They run while it hangs, and after it. */
TEST(other_tasks_go_on_when_one_times_out)
{
    struct tally t;
    begin();
    write_file("task.sh", "case $1 in *hang*) exec sleep 100000 ;; esac\necho done\n");
    write_file("list", "{\"do\":\"hang\",\"gpu_dispatch\":{\"timeout\":\"1s\"}}\n"
                       "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n{\"n\":4}\n{\"n\":5}\n");
    CHECK_EQ(push("--jsonl").status, 0);
    for (unsigned gpus = 1; gpus <= 2; gpus++) {
        const struct result r = command("run --queue \"$URL\" --gpus sim:%u sh task.sh {}", gpus);
        CHECK_EQ(r.status, 1);
        tally_queue(s.port, &t);
        CHECK_EQ(t.done, 5 * gpus);
        CHECK_EQ(t.failed, 1);
        const char *records = output_of("export --queue \"$URL\"");
        CHECK_EQ(count(records, "\"status\":\"timeout\""), 1);
        CHECK_EQ(count(records, "\"status\":\"ok\""), 5 * gpus);
        write_file("list", "{\"n\":6}\n{\"n\":7}\n{\"n\":8}\n{\"n\":9}\n{\"n\":10}\n");
        CHECK_EQ(push("--jsonl").status, 0);
        CHECK_EQ(command("push --queue \"$URL\" --retry-failed").status, 0);
    }
}

/* --- the C library ---------------------------------------------------------------------------- */

static int process_batch(struct gd_worker *w, const struct gd_task *const *tasks, struct gd_result *const *results,
                         size_t n)
{
    (void)w;
    for (size_t i = 0; i < n; i++) {
        char text[128];
        const int size = snprintf(text, sizeof text, "output of %.*s\nin a batch of %zu", (int)tasks[i]->size,
                                  (const char *)tasks[i]->data, n);
        if (gd_result_set(results[i], text, (size_t)size) < 0)
            return -1;
    }
    return 0;
}

static int process(struct gd_worker *w, const struct gd_task *task, struct gd_result *result)
{
    return process_batch(w, &task, &result, 1);
}

static void push_items(unsigned n)
{
    struct gd_queue_options qo = GD_QUEUE_OPTIONS_INIT;
    struct gd_queue_push *p;
    struct gd_queue_push_counts counts = { .size = sizeof counts };
    qo.url = work_url;
    CHECK_EQ(gd_queue_push_open(&p, &qo, NULL), 0);
    for (unsigned i = 0; i < n; i++) {
        char text[32];
        const int size = snprintf(text, sizeof text, "quick%u", i);
        const struct gd_queue_item item = { .size = sizeof item, .data = text, .data_size = (size_t)size };
        CHECK_EQ(gd_queue_push_add(p, &item), 0);
    }
    CHECK_EQ(gd_queue_push_finish(&p, &counts), 0);
    CHECK_EQ(counts.added, n);
}

struct seen {
    unsigned right, wrong;
    char expected[32];
};

static void on_success(void *user, const struct gd_report *report)
{
    struct seen *seen = user;
    const bool right = memmem(report->data, report->size, seen->expected, strlen(seen->expected)) != NULL;
    seen->right += right;
    seen->wrong += !right;
}

static void on_error(void *user, const struct gd_report *report)
{
    struct seen *seen = user;
    (void)report;
    seen->wrong++;
}

/* A node in this process. Each task must have been in a batch of this size. */
static void run_node(unsigned batch, unsigned tasks)
{
    static const int gpus[] = { 0, 1 };
    struct gd_options o = GD_OPTIONS_INIT;
    struct seen seen = { 0 };
    snprintf(seen.expected, sizeof seen.expected, "in a batch of %u", batch);
    o.queue_url = work_url;
    o.gpu_ids = gpus;
    o.n_gpus = batch > 1 ? 1 : 2; /* several workers may share the last tasks, in smaller batches */
    o.batch_size = batch;
    o.batch_wait_us = MINUTE_US; /* batches do not begin before they are full */
    o.on_success = on_success;
    o.on_error = on_error;
    o.user = &seen;
    if (gd_run(&o) != 0)
        FAIL("gd_run: %s", gd_error_text());
    CHECK_EQ(seen.right, tasks);
    CHECK_EQ(seen.wrong, 0);
    check_queue(s.port, tasks);
}

TEST(a_program_in_c_is_a_node)
{
    begin();
    push_items(20);
    run_node(1, 20);
}

TEST_WITHIN(50, batches_come_from_a_queue)
{
    begin();
    push_items(BATCH * 6);
    run_node(BATCH, BATCH * 6);
}

/* --- nodes that are of no use ------------------------------------------------------------------ */

/* The last lines of `status`, with the notes of the nodes. */
static void check_note(const char *note)
{
    CHECK_CONTAINS(output_of("status --queue \"$URL\""), note);
    CHECK_CONTAINS(output_of("status --queue \"$URL\" --json"), note);
}

/* Both nodes have the same command. The worker of the good one is ready when the bad one has left. */
TEST(node_whose_setup_fails_leaves_its_tasks_to_another)
{
    begin();
    write_file("worker.sh", "[ -z \"$BAD\" ] || { echo '{\"ready\":false,\"error\":\"no model here\"}'; exit; }\n"
                            "exec \"$GD_TEST_PLUGINS/stream_program\" ready-after gate\n");
    list_add("item", 0, 10);
    CHECK_EQ(push("--lease 1h").status, 0);
    struct node good = command_start("run --queue \"$URL\" --gpus sim:1 --stream sh worker.sh");
    setenv("BAD", "1", 1);
    struct node bad = command_start("run --queue \"$URL\" --spool bad.spool --gpus sim:1 --stream sh worker.sh");
    unsetenv("BAD");
    CHECK_NE(node_wait(&bad), 0);
    CHECK_CONTAINS(node_errors(&bad), "no model here");
    open_gate();
    CHECK_EQ(node_wait(&good), 0);
    CHECK_EQ(count(output_of("export --queue \"$URL\""), "\"status\":\"ok\""), 10);
    check_note("no model here");
}

/* The GPU is lost while it works. Another node waits, and gets the task: with a lease of an hour, only because the first
 * node has given it back. */
TEST(node_whose_gpu_is_lost_gives_its_task_to_another)
{
    begin();
    list_add("gate", 0, 1);
    CHECK_EQ(push("--lease 1h").status, 0);
    write_file("xid", "");
    setenv("GPU_DISPATCH_SIM_XID", "xid", 1);
    struct node bad = node_start("--gpus sim:1");
    unsetenv("GPU_DISPATCH_SIM_XID");
    await_log("start gate0");
    struct node good = node_start("--gpus sim:1");
    write_file("xid", "0 79\n");
    CHECK_NE(node_wait(&bad), 0);
    CHECK_CONTAINS(node_errors(&bad), "fallen off the bus");
    await_log_lines("start gate0 ", 2);
    open_gate();
    CHECK_EQ(node_wait(&good), 0);
    check_queue(s.port, 1);
    check_note("GPU 0: "); /* the table cuts it */
    CHECK_CONTAINS(output_of("status --queue \"$URL\" --json"), "fallen off the bus");
}

int main(int argc, char **argv)
{
    static const struct gd_worker_ops ops = { .size = sizeof ops, .process = process, .process_batch = process_batch };
    work_task(argc, argv);
    if (gd_worker_main(&argc, argv, &ops) < 0) {
        fprintf(stderr, "gd_worker_main: %s\n", gd_error_text());
        return 1;
    }
    return test_main(argc, argv);
}
