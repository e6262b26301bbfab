/* SPDX-License-Identifier: MIT
 *
 * A queue as a web page: see queue_report.h. The page is that of journals.
 */
#include "cli/commands/queue/report/queue_report.h"

#include <string.h>

#include "base/failure.h"
#include "base/text/buffer.h"
#include "cli/commands/queue/queue_view.h"
#include "cli/commands/queue/report/report_rows.h"
#include "cli/commands/transcribe/identity.h"
#include "web/report/report.h"

enum { STOPPED = 1 /* gd__fail_text() says why */ };

struct report {
    struct report_rows rows;
    struct gd_queue_figures f;
    struct gd__buffer command; /* as it is shown to users */
};

static int each(void *user, const struct gd_journal_query *q,
                int (*fn)(void *arg, const struct gd_journal_record *record), void *arg)
{
    return report_rows_each(&((struct report *)user)->rows, q, fn, arg);
}

static int summary(void *user, struct gd_journal_summary *out)
{
    struct report *p = user;
    const struct gd_queue_figures *f = &p->f;
    *out = (struct gd_journal_summary){ .size = out->size,
                                        .runs = p->rows.n_hosts,
                                        .done = f->done,
                                        .failed = f->failed,
                                        .command = p->command.data,
                                        .end = f->is_done ? "finished" : NULL,
                                        .held = !f->is_done && f->nodes > 0,
                                        .total = f->tasks,
                                        .taken = f->done + f->failed + f->held,
                                        .run_done = f->done,
                                        .run_failed = f->failed,
                                        .started = p->rows.first,
                                        .written = p->rows.last,
                                        .ended = f->is_done ? p->rows.last : 0,
                                        .busy_seconds = f->busy_seconds };
    return 0;
}

static int runs(void *user, int (*fn)(void *arg, const struct gd_journal_run *run), void *arg)
{
    const struct report_rows *rows = &((struct report *)user)->rows;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < rows->n_hosts; i++) {
        const struct gd_journal_run run = {
            .number = i + 1, .host = rows->hosts[i].name, .done = rows->hosts[i].done, .failed = rows->hosts[i].failed
        };
        rc = fn(arg, &run);
    }
    return rc;
}

static int add_record(void *user, const struct gd_queue_record *r)
{
    return report_rows_add(&((struct report *)user)->rows, r) < 0 ? STOPPED : 0;
}

/* The records are read first, so that the figures have at least as many. */
static int read_queue(struct report *p, struct gd_queue_reader *r)
{
    if (report_rows_open(&p->rows) < 0)
        return -1;
    const int rc = gd_queue_reader_each(r, add_record, p);
    if (rc == STOPPED)
        return -1;
    if (rc < 0 || gd_queue_reader_figures(r, &p->f) < 0)
        return gd__fail("%s", gd_error_text());
    if (report_rows_complete(&p->rows) < 0)
        return -1;
    if (p->f.command)
        cli_transcribe_show(&p->command, p->f.command);
    gd__buffer_add(&p->command, "", 1);
    return p->command.failed ? gd__fail("out of memory") : 0;
}

int queue_report(const struct cli_queue *q, const char *path)
{
    struct report p = { .f.size = sizeof p.f };
    struct gd_queue_reader *r = NULL;
    const struct web_records records = { .user = &p, .each = each, .summary = summary, .runs = runs };
    int rc = queue_view_open(&r, q);
    if (rc == 0)
        rc = read_queue(&p, r);
    if (rc == 0)
        rc = web_report_write(&records, q->url, path, true);
    if (rc == 0)
        queue_view_say_skipped(r);
    gd_queue_reader_close(&r);
    report_rows_free(&p.rows);
    gd__buffer_free(&p.command);
    return rc;
}
