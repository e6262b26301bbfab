/* SPDX-License-Identifier: MIT
 *
 * --failed FILE without a journal: a line is added for each task that fails. A task that was cancelled gets no line.
 */
#include <stdlib.h>

#include "base/failure.h"
#include "cli/output/files/failure_record.h"
#include "cli/output/files/logfile.h"
#include "cli/output/streams.h"

struct cli_failures {
    struct cli_logfile file;
    bool json;
};

int cli_failures_open(struct cli_failures **out, const char *path, bool json)
{
    struct cli_failures *f = calloc(1, sizeof *f);
    if (!f)
        return gd__fail("out of memory");
    f->json = json;
    if (cli_logfile_open(&f->file, path, false) < 0) {
        free(f);
        return -1;
    }
    *out = f;
    return 0;
}

int cli_failures_add(struct cli_failures *f, const struct cli_task_end *e)
{
    const struct gd_report *r = e->report;
    if (e->ok || r->failure == GD_FAILURE_CANCELLED)
        return 0;
    const struct cli_failure_record failed = { .payload = r->input_size ? r->input : "",
                                               .payload_size = r->input_size,
                                               .json = f->json,
                                               .failure = e->status,
                                               .error = r->error,
                                               .attempts = r->attempt,
                                               .exit_code = e->exit_code,
                                               .signal = e->signal,
                                               .err = e->err,
                                               .err_size = e->err_size };
    cli_failure_record_put(&f->file.line, &failed);
    return cli_logfile_put(&f->file);
}

int cli_failures_close(struct cli_failures **f)
{
    int result = *f ? cli_logfile_close(&(*f)->file) : 0;
    free(*f);
    *f = NULL;
    return result;
}
