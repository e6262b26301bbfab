/* SPDX-License-Identifier: MIT
 *
 * Ends of tasks, made up or from real commands, for tests of the output about them.
 */
#ifndef GD_TESTS_CLI_ENDS_H
#define GD_TESTS_CLI_ENDS_H

#include "base/text/buffer.h"
#include "cli/output/task_end.h"
#include "command/output.h"
#include "common.h"

/* A report and the memory that it points to. */
struct made {
    struct gd_report report;
    struct cli_task_end end;
    struct gd__buffer data;
};

static const struct gd_report some_task = { .task_id = 6,
                                            .worker_id = 1,
                                            .gpu_id = 3,
                                            .attempt = 1,
                                            .input = "a.wav",
                                            .input_size = 5,
                                            .start_ns = 1000000000,
                                            .end_ns = 1250000000 };

TEST_UNUSED static void set_input(struct made *m, const char *input, size_t size)
{
    m->report.input = input;
    m->report.input_size = size;
}

/* A command that ran. */
TEST_UNUSED static struct made *command(const char *out, size_t out_size, const char *err, int exit_code, int signal)
{
    struct made *m = calloc(1, sizeof *m);
    struct gd__command_head head = { .magic = GD__COMMAND_MAGIC,
                                     .exit_code = (uint16_t)exit_code,
                                     .signal = (uint16_t)signal,
                                     .out_size = out_size,
                                     .err_size = strlen(err) };
    m->report = some_task;
    gd__buffer_add(&m->data, &head, sizeof head);
    gd__buffer_add(&m->data, out, out_size);
    gd__buffer_text(&m->data, err);
    m->report.data = m->data.data;
    m->report.size = m->data.size;
    if (exit_code || signal) {
        m->report.failure = GD_FAILURE_ERROR;
        m->report.error = "exit code 3";
    }
    return m;
}

/* A plugin's or stream worker's result. */
TEST_UNUSED static struct made *result(const char *text)
{
    struct made *m = calloc(1, sizeof *m);
    m->report = some_task;
    gd__buffer_text(&m->data, text);
    m->report.data = m->data.data;
    m->report.size = m->data.size;
    return m;
}

TEST_UNUSED static struct made *failure(enum gd_failure failure, const char *words)
{
    struct made *m = calloc(1, sizeof *m);
    m->report = some_task;
    m->report.failure = failure;
    m->report.error = words;
    return m;
}

TEST_UNUSED static const struct cli_task_end *end_of(struct made *m, enum cli_result_kind kind)
{
    cli_task_end_read(&m->end, &m->report, kind);
    return &m->end;
}

TEST_UNUSED static void drop(struct made *m)
{
    gd__buffer_free(&m->data);
    free(m);
}

TEST_UNUSED static void check_file(const char *path, const char *expected)
{
    struct gd__buffer b = bytes_of(path);
    if (strcmp(b.data, expected) != 0)
        FAIL("%s is \"%s\", not \"%s\"", path, b.data, expected);
    CHECK_EQ(b.size, strlen(expected));
    gd__buffer_free(&b);
}

/* Runs a command line as a worker would, and makes its end. */
TEST_UNUSED static struct made *really_run(const char *line, uint64_t id, const char *input)
{
    char script[600];
    int status;
    make_text("line", line);
    snprintf(script, sizeof script, "PARALLEL_SEQ=%d /bin/sh ./line >line.out 2>line.err", (int)id + 1);
    struct gd__buffer none = shell(script, &status), out = bytes_of("line.out"), err = bytes_of("line.err");
    struct made *m = command(out.data, out.size, err.data, status > 128 ? 0 : status, status > 128 ? status - 128 : 0);
    m->report.task_id = id;
    set_input(m, input, strlen(input));
    gd__buffer_free(&none);
    gd__buffer_free(&out);
    gd__buffer_free(&err);
    return m;
}

#endif
