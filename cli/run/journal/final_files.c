/* SPDX-License-Identifier: MIT
 *
 * Cleans up after a run with a journal.
 *
 * A record of --output begins with {"id":N,"run":M and the journal's record of the task has the same two numbers. A
 * task that is run again (--retry-failed, a file that changed) gets a new record in both. The journal replaces its old
 * record, but the file keeps both. So a line whose pair is not in the journal is out of date. Lines of another form are
 * not ours and stay.
 */
#include "cli/run/journal/final_files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/file/replace.h"
#include "base/text/buffer.h"
#include "cli/output/files/failure_record.h"
#include "cli/run/journal/run_journal.h"

/* A pair packed into one number: 2^24 runs of 2^40 tasks. */
enum { NUMBER_BITS = 40 };

static bool pack(uint64_t run, uint64_t number, uint64_t *out)
{
    *out = run << NUMBER_BITS | number;
    return run >> (64 - NUMBER_BITS) == 0 && number >> NUMBER_BITS == 0;
}

/* --- records ---------------------------------------------------------------------- */

struct live {
    uint64_t *pairs;
    size_t n, room;
};

static int add_live(void *user, const struct gd_journal_record *record)
{
    struct live *l = user;
    if (l->n == l->room) {
        size_t room = l->room ? l->room * 2 : 1024;
        uint64_t *more = realloc(l->pairs, room * sizeof *more);
        if (!more)
            return GD_E_NO_MEMORY;
        l->pairs = more;
        l->room = room;
    }
    return pack(record->run, record->number, &l->pairs[l->n++]) ? 0 : GD_E_TOO_LARGE;
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int read_live(struct live *l, struct gd_journal_reader *r)
{
    const struct gd_journal_query q = { .size = sizeof q };
    if (gd_journal_reader_each(r, &q, add_live, l) != 0)
        return gd__fail("cannot remove old records from --output: %s", gd_error_text());
    if (l->n)
        qsort(l->pairs, l->n, sizeof *l->pairs, compare);
    return 0;
}

/* Finds the pair of a line. Returns NULL if the line is out of date (*known is true) or is not ours (*known is false).
 */
static const uint64_t *find_line(const struct live *l, const char *line, bool *known)
{
    uint64_t id, run, pair;
    *known = sscanf(line, "{\"id\":%" SCNu64 ",\"run\":%" SCNu64 ",", &id, &run) == 2 && pack(run, id, &pair);
    return *known && l->n ? bsearch(&pair, l->pairs, l->n, sizeof pair, compare) : NULL;
}

/* Copies all lines except those out of date to the file `to`, if it is not NULL. *outdated and *found are the numbers
 * of lines that are out of date and up to date. */
static int filter_lines(const struct live *l, FILE *from, FILE *to, uint64_t *outdated, uint64_t *found)
{
    char *line = NULL;
    size_t room = 0;
    bool known;
    *outdated = *found = 0;
    for (ssize_t n; (n = getline(&line, &room, from)) > 0;) {
        const bool is_live = find_line(l, line, &known) != NULL;
        *found += is_live;
        *outdated += known && !is_live;
        if (to && (is_live || !known))
            fwrite(line, 1, (size_t)n, to);
    }
    const bool bad = ferror(from) || !feof(from);
    free(line);
    return bad ? gd__fail("cannot read the records of --output: %s", strerror(errno)) : 0;
}

static int open_both(const char *path, struct gd_journal_reader *r, FILE **from, struct live *l)
{
    *from = fopen(path, "re");
    if (!*from)
        return gd__fail("cannot read %s: %s", path, strerror(errno));
    return read_live(l, r);
}

int cli_drop_old_records(const char *path, struct gd_journal_reader *r)
{
    struct live l = { 0 };
    struct gd__replacement p = { 0 };
    FILE *from = NULL;
    uint64_t outdated = 0, found;
    int rc = open_both(path, r, &from, &l);
    if (rc == 0)
        rc = gd__replace_begin(&p, path, true);
    if (rc == 0)
        rc = filter_lines(&l, from, p.to, &outdated, &found);
    rc = gd__replace_end(&p, rc, outdated > 0);
    if (from)
        fclose(from);
    free(l.pairs);
    return rc < 0 ? rc : outdated > 0;
}

int cli_records_are_whole(const char *path, struct gd_journal_reader *r)
{
    struct live l = { 0 };
    FILE *from = NULL;
    uint64_t outdated = 0, found = 0;
    int rc = open_both(path, r, &from, &l);
    if (rc == 0)
        rc = filter_lines(&l, from, NULL, &outdated, &found);
    if (from)
        fclose(from);
    free(l.pairs);
    return rc < 0 ? rc : found == l.n && outdated == 0;
}

/* --- failures ------------------------------------------------------------------------ */

struct failures {
    FILE *to;
    bool json;
    uint64_t count;
    struct gd__buffer line, payload;
};

static int put_failure(void *user, const struct gd_journal_record *record)
{
    struct failures *f = user;
    f->line.size = f->payload.size = 0;
    cli_journal_read_input(&f->payload, record->input, record->input_size);
    const struct cli_failure_record failed = { .payload = f->payload.size ? f->payload.data : "",
                                               .payload_size = f->payload.size,
                                               .json = f->json,
                                               .failure = record->failure,
                                               .error = record->error,
                                               .attempts = record->attempts,
                                               .exit_code = record->exit_code,
                                               .signal = record->signal,
                                               .err = record->stderr_end,
                                               .err_size = record->stderr_size };
    cli_failure_record_put(&f->line, &failed);
    if (f->line.failed || f->payload.failed)
        return GD_E_NO_MEMORY;
    f->count++;
    return fwrite(f->line.data, 1, f->line.size, f->to) == f->line.size ? 0 : GD_E_SYSTEM;
}

int cli_write_failures(const char *path, struct gd_journal_reader *r, bool json, bool named, uint64_t *count)
{
    const struct gd_journal_query q = { .size = sizeof q, .failed_only = true };
    struct failures f = { .json = json };
    struct gd__replacement p;
    int rc = gd__replace_begin(&p, path, named);
    f.to = p.to;
    if (rc == 0 && gd_journal_reader_each(r, &q, put_failure, &f) < 0)
        rc = gd__fail("cannot write %s: %s", path, ferror(p.to) ? strerror(errno) : gd_error_text());
    const bool wanted = f.count > 0 || named;
    rc = gd__replace_end(&p, rc, wanted);
    if (rc == 0 && !wanted && unlink(path) < 0 && errno != ENOENT)
        rc = gd__fail("cannot remove %s: %s", path, strerror(errno));
    gd__buffer_free(&f.line);
    gd__buffer_free(&f.payload);
    *count = f.count;
    return rc;
}
