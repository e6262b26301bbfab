/* SPDX-License-Identifier: MIT
 *
 * Records in a temporary file: see report_rows.h.
 */
#include "cli/commands/queue/report/report_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"

/* More of a text is not shown on a page. */
enum { INPUT_MOST = 1024, TEXT_MOST = 4096, FIRST_ROOM = 1024 };

/* A record in the file. The texts follow, without NULs. */
struct row {
    uint64_t number;
    double started, seconds;
    uint32_t host, attempts;
    int32_t gpu, exit_code, signal;
    uint32_t input, input_full, failure, error, stderr_end; /* sizes of the texts */
    bool done;
};

struct report_time {
    double started, seconds;
    int32_t gpu;
    uint32_t host;
    int32_t worker;
    uint32_t index; /* in the file; while they are sorted by time */
};

static int no_memory(void)
{
    return gd__fail("out of memory");
}

int report_rows_open(struct report_rows *rows)
{
    *rows = (struct report_rows){ .file = tmpfile() };
    return rows->file ? 0 : gd__fail("cannot make a temporary file: %s", strerror(errno));
}

void report_rows_free(struct report_rows *rows)
{
    if (rows->file)
        fclose(rows->file);
    for (size_t i = 0; i < rows->n_hosts; i++)
        free(rows->hosts[i].name);
    free(rows->hosts);
    free(rows->times);
    gd__buffer_free(&rows->bytes);
    *rows = (struct report_rows){ 0 };
}

/* --- writing -------------------------------------------------------------------------- */

/* Machines are few, and records of one machine often follow each other. */
static int find_host(struct report_rows *rows, const char *name, uint32_t *out)
{
    size_t i = 0;
    while (i < rows->n_hosts && strcmp(rows->hosts[i].name, name) != 0)
        i++;
    *out = (uint32_t)i;
    if (i < rows->n_hosts)
        return 0;
    struct report_host *larger = realloc(rows->hosts, (i + 1) * sizeof *larger);
    if (!larger)
        return no_memory();
    rows->hosts = larger;
    rows->hosts[i] = (struct report_host){ .name = strdup(name) };
    if (!rows->hosts[i].name)
        return no_memory();
    rows->n_hosts++;
    return 0;
}

static int add_time(struct report_rows *rows, const struct row *row)
{
    if (rows->n == UINT32_MAX)
        return gd__fail("the queue has too many records for a report");
    if (rows->n == rows->room) {
        const size_t room = rows->room ? rows->room + rows->room / 2 : FIRST_ROOM;
        struct report_time *larger = realloc(rows->times, room * sizeof *larger);
        if (!larger)
            return no_memory();
        rows->times = larger;
        rows->room = room;
    }
    const double end = row->started + row->seconds;
    rows->times[rows->n] =
        (struct report_time){ row->started, row->seconds, row->gpu, row->host, -1, (uint32_t)rows->n };
    rows->n++;
    if (row->started > 0 && (rows->first <= 0 || row->started < rows->first))
        rows->first = row->started;
    if (row->started > 0 && end > rows->last)
        rows->last = end;
    return 0;
}

static uint32_t size_of(const char *text, size_t most)
{
    const size_t size = text ? strlen(text) : 0;
    return (uint32_t)(size < most ? size : most);
}

int report_rows_add(struct report_rows *rows, const struct gd_queue_record *r)
{
    const char *input = r->input_file ? r->input_file : r->input;
    const size_t full = r->input_file ? strlen(r->input_file) : r->input_size;
    struct row row = { .number = r->number,
                       .started = r->started,
                       .seconds = r->seconds,
                       .attempts = r->attempts,
                       .gpu = (int32_t)strtol(*r->gpu ? r->gpu : "-1", NULL, 10),
                       .exit_code = r->exit_code,
                       .signal = r->signal,
                       .input = (uint32_t)(full < INPUT_MOST ? full : INPUT_MOST),
                       .input_full = (uint32_t)(full < UINT32_MAX ? full : UINT32_MAX),
                       .failure = size_of(r->failure, TEXT_MOST),
                       .error = size_of(r->error, TEXT_MOST),
                       .stderr_end = size_of(r->stderr_end, TEXT_MOST),
                       .done = r->done };
    if (find_host(rows, r->host, &row.host) < 0 || add_time(rows, &row) < 0)
        return -1;
    *(r->done ? &rows->hosts[row.host].done : &rows->hosts[row.host].failed) += 1;
    fwrite(&row, sizeof row, 1, rows->file);
    fwrite(input, 1, row.input, rows->file);
    fwrite(r->failure ? r->failure : "", 1, row.failure, rows->file);
    fwrite(r->error ? r->error : "", 1, row.error, rows->file);
    fwrite(r->stderr_end ? r->stderr_end : "", 1, row.stderr_end, rows->file);
    return ferror(rows->file) ? gd__fail("cannot write a temporary file: is the disk full?") : 0;
}

/* --- workers -------------------------------------------------------------------------- */

/* By machine and GPU, then by time. */
static int by_gpu(const void *pa, const void *pb)
{
    const struct report_time *a = pa, *b = pb;
    if (a->host != b->host)
        return a->host < b->host ? -1 : 1;
    if (a->gpu != b->gpu)
        return a->gpu < b->gpu ? -1 : 1;
    if (a->started != b->started)
        return a->started < b->started ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

static int by_index(const void *pa, const void *pb)
{
    const struct report_time *a = pa, *b = pb;
    return (a->index > b->index) - (a->index < b->index);
}

/* Each task gets the first worker of its GPU that is free. More than this many at once share the last one. */
enum { WORKERS_MOST = 256 };

static void find_workers(struct report_time *times, size_t n)
{
    double free_at[WORKERS_MOST];
    int workers = 0;
    for (size_t i = 0; i < n; i++) {
        struct report_time *t = &times[i];
        const bool same = i > 0 && times[i - 1].host == t->host && times[i - 1].gpu == t->gpu;
        int at = 0;
        if (!same)
            workers = 0;
        if (!(t->started > 0))
            continue; /* it never ran */
        while (at < workers && free_at[at] > t->started)
            at++;
        at = at < WORKERS_MOST ? at : WORKERS_MOST - 1;
        workers = at == workers ? workers + 1 : workers;
        free_at[at] = t->started + t->seconds;
        t->worker = at;
    }
}

int report_rows_complete(struct report_rows *rows)
{
    if (rows->n > 0) {
        qsort(rows->times, rows->n, sizeof *rows->times, by_gpu);
        find_workers(rows->times, rows->n);
        qsort(rows->times, rows->n, sizeof *rows->times, by_index);
    }
    return fflush(rows->file) == 0 ? 0 : gd__fail("cannot write a temporary file: is the disk full?");
}

/* --- reading -------------------------------------------------------------------------- */

/* Reads the texts of a row, each with a NUL, and fills the record. */
static int read_texts(struct report_rows *rows, const struct row *row, struct gd_journal_record *r)
{
    const uint32_t sizes[] = { row->input, row->failure, row->error, row->stderr_end };
    const char *texts[4];
    struct gd__buffer *b = &rows->bytes;
    b->size = 0;
    char *at = gd__buffer_reserve(b, (size_t)row->input + row->failure + row->error + row->stderr_end + 4);
    if (!at)
        return GD_E_NO_MEMORY;
    for (size_t i = 0; i < 4; i++) {
        if (fread(at, 1, sizes[i], rows->file) != sizes[i])
            return GD_E_SYSTEM;
        at[sizes[i]] = '\0';
        texts[i] = at;
        at += sizes[i] + 1;
    }
    r->input = texts[0];
    r->failure = row->done ? NULL : texts[1];
    r->error = row->error ? texts[2] : NULL;
    r->stderr_end = row->stderr_end ? texts[3] : NULL;
    return 0;
}

static int read_row(struct report_rows *rows, size_t i, struct gd_journal_record *r)
{
    struct row row;
    if (fread(&row, sizeof row, 1, rows->file) != 1)
        return GD_E_SYSTEM;
    *r = (struct gd_journal_record){ .id = i + 1,
                                     .number = row.number,
                                     .run = (uint64_t)row.host + 1,
                                     .input_size = row.input,
                                     .input_full_size = row.input_full,
                                     .done = row.done,
                                     .attempts = row.attempts,
                                     .stderr_size = row.stderr_end,
                                     .exit_code = row.exit_code,
                                     .signal = row.signal,
                                     .worker_id = rows->times[i].worker,
                                     .gpu_id = row.gpu,
                                     .started = row.started,
                                     .seconds = row.seconds };
    return read_texts(rows, &row, r);
}

static int by_seconds(const void *pa, const void *pb)
{
    const double a = *(const double *)pa, b = *(const double *)pb;
    return (a < b) - (a > b);
}

/* The slowest records: how long a task must have taken to be one of them. */
static double find_limit(const struct report_rows *rows, uint64_t limit)
{
    double *seconds = rows->n > limit && limit > 0 ? calloc(rows->n, sizeof *seconds) : NULL;
    if (!seconds)
        return 0;
    for (size_t i = 0; i < rows->n; i++)
        seconds[i] = rows->times[i].seconds;
    qsort(seconds, rows->n, sizeof *seconds, by_seconds);
    const double least = seconds[limit - 1];
    free(seconds);
    return least;
}

struct slow {
    long at; /* in the file */
    size_t index;
    double seconds;
};

static int by_slow(const void *pa, const void *pb)
{
    const struct slow *a = pa, *b = pb;
    if (a->seconds != b->seconds)
        return a->seconds < b->seconds ? 1 : -1;
    return (a->index > b->index) - (a->index < b->index);
}

/* Finds where the slowest records are. Returns how many, or a negative code. */
static int find_slowest(struct report_rows *rows, struct slow *out, uint64_t limit)
{
    const double least = find_limit(rows, limit);
    uint64_t n = 0;
    rewind(rows->file);
    for (size_t i = 0; i < rows->n && n < limit; i++) {
        struct gd_journal_record r;
        const long at = ftell(rows->file);
        const int rc = read_row(rows, i, &r);
        if (rc < 0)
            return rc;
        if (r.seconds >= least)
            out[n++] = (struct slow){ at, i, r.seconds };
    }
    if (n > 0)
        qsort(out, (size_t)n, sizeof *out, by_slow);
    return (int)n;
}

static int each_slowest(struct report_rows *rows, uint64_t limit,
                        int (*fn)(void *user, const struct gd_journal_record *record), void *user)
{
    struct slow *slowest = calloc((size_t)limit, sizeof *slowest);
    int n = slowest ? find_slowest(rows, slowest, limit) : GD_E_NO_MEMORY, rc = n < 0 ? n : 0;
    for (int i = 0; rc == 0 && i < n; i++) {
        struct gd_journal_record r;
        rc = fseek(rows->file, slowest[i].at, SEEK_SET) == 0 ? read_row(rows, slowest[i].index, &r) : GD_E_SYSTEM;
        rc = rc < 0 ? rc : fn(user, &r);
    }
    free(slowest);
    return rc;
}

int report_rows_each(struct report_rows *rows, const struct gd_journal_query *q,
                     int (*fn)(void *user, const struct gd_journal_record *record), void *user)
{
    int rc = 0;
    if (q->order == GD_JOURNAL_SLOWEST)
        return each_slowest(rows, q->limit < rows->n ? q->limit : rows->n, fn, user);
    rewind(rows->file);
    for (size_t i = 0; rc == 0 && i < rows->n; i++) {
        struct gd_journal_record r;
        rc = read_row(rows, i, &r);
        rc = rc < 0 ? rc : fn(user, &r);
    }
    return rc;
}
