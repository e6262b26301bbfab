/* SPDX-License-Identifier: MIT
 *
 * --joblog FILE: a line for each task, with GNU parallel's columns, so that scripts written for GNU parallel can read
 * it.
 *
 *   Seq         number of the task, from 1        Receive   bytes of standard output
 *   Host        ":", this machine                 Exitval   -1 for a timeout or if there is no exit code
 *   Starttime   Unix time                         Signal    15 for a timeout
 *   JobRuntime  seconds                           Command   the command line, with newlines as NULs
 *   Send        0
 *
 * Tasks that were never started, or were stopped because the run ended, are not in the log, as in GNU parallel.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/failure.h"
#include "base/text/buffer.h"
#include "cli/output/files/logfile.h"
#include "cli/output/streams.h"

struct cli_joblog {
    struct cli_logfile file;
    const struct gd_command *command;
};

int cli_joblog_open(struct cli_joblog **out, const char *path, const struct gd_command *command, bool append)
{
    struct cli_joblog *j = calloc(1, sizeof *j);
    if (!j)
        return gd__fail("out of memory");
    j->command = command;
    if (cli_logfile_open(&j->file, path, append) < 0) {
        free(j);
        return -1;
    }
    *out = j;
    return 0;
}

int cli_joblog_begin(struct cli_joblog *j)
{
    struct stat st;
    if (fstat(j->file.fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
        return 0;
    gd__buffer_text(&j->file.line, "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n");
    return cli_logfile_put(&j->file);
}

int cli_joblog_fd(const struct cli_joblog *j)
{
    return j->file.fd;
}

/* Replaces one byte by another, from the given position on. */
static void replace(struct gd__buffer *b, size_t from, char old, char new)
{
    for (size_t i = from; !b->failed && i < b->size; i++) {
        if (b->data[i] == old)
            b->data[i] = new;
    }
}

static void add_command(struct cli_joblog *j, const struct cli_task_end *e)
{
    const struct gd_report *r = e->report;
    struct gd__buffer *b = &j->file.line;
    size_t start = b->size;
    if (!j->command) {
        gd__buffer_add(b, r->input, r->input_size);
        replace(b, start, 0, ' ');
    } else {
        struct gd_command_fill fill = { .size = sizeof(struct gd_command_fill),
                                        .payload = r->input ? r->input : "",
                                        .payload_size = r->input_size,
                                        .task_id = r->task_id,
                                        .slot = e->slot,
                                        .gpu_id = r->gpu_id,
                                        .gpu_ids = e->gpu_ids,
                                        .n_gpus = e->n_gpus };
        char *line = gd_command_line(j->command, &fill);
        if (line)
            gd__buffer_text(b, line);
        else
            b->failed = true;
        gd_command_free(line);
    }
    replace(b, start, '\n', 0);
}

int cli_joblog_add(struct cli_joblog *j, const struct cli_task_end *e)
{
    const struct gd_report *r = e->report;
    if (r->start_ns == 0 || r->failure == GD_FAILURE_CANCELLED)
        return 0;
    gd__buffer_format(&j->file.line, "%llu\t:\t%.3f\t%10.3f\t0\t%zu\t%d\t%d\t", (unsigned long long)r->task_id + 1,
                      e->started, e->seconds, e->out_size, e->exit_code, e->signal);
    add_command(j, e);
    gd__buffer_text(&j->file.line, "\n");
    return cli_logfile_put(&j->file);
}

int cli_joblog_close(struct cli_joblog **j)
{
    int result = *j ? cli_logfile_close(&(*j)->file) : 0;
    free(*j);
    *j = NULL;
    return result;
}
