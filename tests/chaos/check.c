/* SPDX-License-Identifier: MIT
 *
 * The conditions that must hold for a job, whatever signals it got.
 *
 * After each run:
 *   - no two attempts of a task ran at the same time
 *   - tasks that were in the journal before were not run again, and their records are unchanged
 *   - no task was started more often than its attempts and the signals of that run allow
 *
 * At the end:
 *   - the journal, --output, --joblog and --results have every task once, and they agree
 *   - every task ended as its kind requires, and its recorded output is what it wrote
 *   - no temporary file is left
 *   - the exit status is the number of failures
 *
 * A task may end differently only in two cases. Its own command got as many signals in one run as it had attempts left.
 * Or its time limit is so short that a busy machine may exceed it ("timeout"). */
#include "chaos/chaos.h"

#include <ftw.h>

#include "base/text/json.h"

enum { MOST_FAILED = 101 };

/* A task's record in the journal. */
struct record {
    bool seen, done, excused;
    char failure[24];
    int exit_code, signal;
    uint64_t run;
    unsigned attempts;
};

#define BAD(c, format, ...) \
    FAIL("seed %llu, after %u runs: " format, (unsigned long long)(c)->p->seed, (c)->runs, __VA_ARGS__)

static void *room_for(size_t n, size_t size)
{
    void *room = calloc(n + 1, size);
    CHECK(room != NULL);
    return room;
}

void checker_open(struct checker *c, const struct plan *p)
{
    *c = (struct checker){ .p = p,
                           .starts = room_for(p->n, sizeof *c->starts),
                           .worst = room_for(p->n, sizeof *c->worst),
                           .committed = room_for(p->n, sizeof *c->committed),
                           .finished_in = room_for(p->n, sizeof *c->finished_in) };
}

void checker_close(struct checker *c)
{
    free(c->starts);
    free(c->worst);
    free(c->committed);
    free(c->finished_in);
}

/* --- the journal ------------------------------------------------------------------------ */

struct reading {
    struct checker *c;
    struct record *records;
    unsigned n;
};

static int take_record(void *user, const struct gd_journal_record *r)
{
    struct reading *reading = user;
    struct checker *c = reading->c;
    enum kind kind;
    unsigned number;
    if (!input_read(r->input, r->input_size, &kind, &number) || number >= c->p->n || c->p->kinds[number] != kind)
        BAD(c, "the journal has a record of \"%.*s\"", (int)r->input_size, r->input);
    struct record *record = &reading->records[number];
    if (record->seen)
        BAD(c, "%s%u is twice in the journal", kind_names[kind], number);
    if (r->number != number)
        BAD(c, "%s%u has the number %llu in the journal", kind_names[kind], number, (unsigned long long)r->number);
    *record = (struct record){ .seen = true,
                               .done = r->done,
                               .exit_code = r->exit_code,
                               .signal = r->signal,
                               .run = r->run,
                               .attempts = r->attempts };
    snprintf(record->failure, sizeof record->failure, "%s", r->failure ? r->failure : "ok");
    reading->n++;
    return 0;
}

/* Returns the number of records. There is no journal before the first write to it. */
static unsigned read_journal(struct checker *c, struct record *records)
{
    struct reading reading = { c, records, 0 };
    struct gd_journal_reader *r = NULL;
    const struct gd_journal_query q = { .size = sizeof q };
    if (access(JOURNAL, F_OK) < 0 || gd_journal_reader_open(&r, JOURNAL) < 0)
        return 0;
    if (gd_journal_reader_each(r, &q, take_record, &reading) < 0)
        BAD(c, "the journal can't be read: %s", gd_error_text());
    gd_journal_reader_close(&r);
    return reading.n;
}

/* --- after a run --------------------------------------------------------------------------- */

static void check_task_after_run(struct checker *c, unsigned i, const struct history *h, const struct record *r,
                                 const struct harm *harm)
{
    const char *kind = kind_names[c->p->kinds[i]];
    const unsigned starts = h->starts[i] - c->starts[i], allowed = c->p->tries + harm->lethal;
    if (c->committed[i] && starts > 0)
        BAD(c, "%s%u was run again after run %llu had finished it", kind, i, (unsigned long long)c->committed[i]);
    if (c->committed[i] && (!r->seen || r->run != c->committed[i]))
        BAD(c, "%s%u was finished by run %llu, but the journal has lost its record", kind, i,
            (unsigned long long)c->committed[i]);
    if (starts > allowed + (c->p->stream && c->p->kinds[i] == CRASHES ? c->p->crash_limit : 0))
        BAD(c, "%s%u was started %u times in one run, with %u tries and %u signals", kind, i, starts, c->p->tries,
            harm->lethal);
    c->starts[i] = h->starts[i];
    if (r->seen && !c->committed[i])
        c->finished_in[i] = c->runs;
    c->committed[i] = r->seen ? r->run : 0;
    if (harm->hits[i] > c->worst[i])
        c->worst[i] = harm->hits[i];
}

void check_run(struct checker *c, const struct outcome *o)
{
    struct history h;
    struct record *records = room_for(c->p->n, sizeof *records);
    c->runs++;
    /* After three signals at once the run drops output that could not be written. Its tasks are run again, although a
     * part of their output was printed. */
    c->ended_well[c->runs] = !o->killed &&
                             (o->status <= MOST_FAILED || o->status == 130 || o->status == 143 || o->status == 129) &&
                             !storm_printed(c->runs, "could not be written, because nothing reads it");
    c->lethal += o->harm.lethal;
    if (o->harm.unknown > c->worst_unknown)
        c->worst_unknown = o->harm.unknown;
    history_read(&h, c->p->n);
    if (h.overlap[0])
        BAD(c, "two attempts at the same time: %s", h.overlap);
    read_journal(c, records);
    for (unsigned i = 0; i < c->p->n; i++)
        check_task_after_run(c, i, &h, &records[i], &o->harm);
    if (o->status == 255 && o->harm.lethal == 0)
        BAD(c, "the run got no signal and ended with 255: %s", storm_last_output(c->runs));
    history_free(&h);
    free(records);
}

/* --- how a task must end ------------------------------------------------------------------------ */

struct end {
    const char *failure;
    int exit_code, signal;
};

static struct end expected_end(const struct plan *p, enum kind kind)
{
    switch (kind) {
    case FAILS:
        return (struct end){ "error", p->stream ? 1 : FAILS_WITH, 0 };
    case CRASHES:
        return (struct end){ p->stream ? "crash" : "error", 0, SIGSEGV };
    case HANGS:
        return (struct end){ "timeout", -1, SIGTERM };
    default:
        return (struct end){ "ok", 0, 0 };
    }
}

/* Whether the signals that the task got explain the end that the journal has. */
static bool is_excused(const struct checker *c, unsigned i, const struct record *r)
{
    const enum kind kind = c->p->kinds[i];
    const unsigned hits = c->worst[i] + c->worst_unknown;
    const unsigned own = kind == FAILS || kind == CRASHES ? c->p->tries - 1 : kind == FAILS_ONCE ? 1 : 0;
    if (strcmp(r->failure, "timeout") == 0)
        return c->p->timeout_ms > 0 && c->p->timeout_ms < 60000;
    return strcmp(r->failure, "error") == 0 && hits + own >= c->p->tries && (r->signal || r->exit_code == 1);
}

static void check_record(const struct checker *c, unsigned i, struct record *r, unsigned tries)
{
    const enum kind kind = c->p->kinds[i];
    const struct end must = expected_end(c->p, kind);
    const unsigned crashes =
        c->p->stream ? c->p->crash_limit * c->runs : 0; /* a program that dies also ends attempts of other tasks */
    if (!r->seen)
        BAD(c, "%s%u is not in the journal", kind_names[kind], i);
    const bool right = strcmp(r->failure, must.failure) == 0 && r->exit_code == must.exit_code &&
                       r->signal == must.signal && r->done == (strcmp(must.failure, "ok") == 0);
    r->excused = !right && is_excused(c, i, r);
    if (!right && !r->excused)
        BAD(c, "%s%u has ended as \"%s\", exit code %d, signal %d, in run %llu, after %u hits (%u tries)",
            kind_names[kind], i, r->failure, r->exit_code, r->signal, (unsigned long long)r->run, c->worst[i],
            c->p->tries);
    if (r->attempts < 1 || r->attempts > tries + c->lethal + crashes)
        BAD(c, "%s%u has %u attempts in the journal, and %u in the log (%u signals)", kind_names[kind], i, r->attempts,
            tries, c->lethal);
}

/* --- --output -------------------------------------------------------------------------------------- */

enum { ID, RUN, INPUT, STATUS, RESULT, ERRORS, N_MEMBERS };
static const char *const members[N_MEMBERS] = { "id", "run", "input", "status", "output", "stderr" };

static void decode(const struct gd__json *json, struct text *t)
{
    CHECK_LT(json->size, sizeof t->bytes);
    t->size = json->kind == GD__JSON_STRING ? gd__json_decode(json, t->bytes) : 0;
    t->bytes[t->size] = '\0';
}

static void check_same(const struct checker *c, unsigned i, const char *where, const struct text *is,
                       const struct text *must)
{
    if (is->size != must->size || memcmp(is->bytes, must->bytes, is->size) != 0)
        BAD(c, "%s%u has %zu bytes in %s, but it wrote %zu: %.100s", kind_names[c->p->kinds[i]], i, is->size, where,
            must->size, is->bytes);
}

static void check_output_texts(const struct checker *c, unsigned i, const struct record *r, const struct gd__json *m)
{
    static struct text is, must;
    const enum kind kind = c->p->kinds[i];
    if (r->excused || strcmp(r->failure, "timeout") == 0 || (c->p->stream && !r->done))
        return;
    decode(&m[RESULT], &is);
    expected_stdout(&must, kind, i);
    check_same(c, i, OUTPUT, &is, &must);
    if (c->p->stream)
        return;
    decode(&m[ERRORS], &is);
    expected_stderr(&must, kind, i);
    check_same(c, i, OUTPUT " (stderr)", &is, &must);
}

static unsigned check_output_line(const struct checker *c, const char *line, size_t size, const struct record *records)
{
    static struct text text;
    struct gd__json m[N_MEMBERS];
    uint64_t id, run;
    enum kind kind;
    unsigned i;
    if (gd__json_scan_object(line, size, members, m, N_MEMBERS) < 0 || !gd__json_uint(&m[ID], &id) ||
        !gd__json_uint(&m[RUN], &run))
        BAD(c, "a line of %s is \"%.200s\"", OUTPUT, line);
    decode(&m[INPUT], &text);
    if (!input_read(text.bytes, text.size, &kind, &i) || i >= c->p->n || id != i)
        BAD(c, "a line of %s is of task %llu, \"%s\"", OUTPUT, (unsigned long long)id, text.bytes);
    decode(&m[STATUS], &text);
    if (strcmp(text.bytes, records[i].failure) != 0 || run != records[i].run)
        BAD(c, "%s%u is \"%s\" of run %llu in %s, \"%s\" of run %llu in the journal", kind_names[kind], i, text.bytes,
            (unsigned long long)run, OUTPUT, records[i].failure, (unsigned long long)records[i].run);
    check_output_texts(c, i, &records[i], m);
    return i;
}

/* Called for each line of a file. Returns the task of the line, which must not have had a line before. */
typedef unsigned line_checker(const struct checker *c, const char *line, size_t size, const struct record *records);

static void check_lines(const struct checker *c, const char *path, bool header, line_checker *check_line,
                        const struct record *records)
{
    FILE *f = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    unsigned n = 0, *seen = room_for(c->p->n, sizeof *seen);
    if (!f)
        BAD(c, "%s is missing", path);
    for (ssize_t size; (size = getline(&line, &room, f)) > 0;) {
        if (line[size - 1] != '\n')
            BAD(c, "the last line of %s is torn: %.200s", path, line);
        if (header) {
            header = false;
            continue;
        }
        const unsigned i = check_line(c, line, (size_t)size, records);
        if (seen[i]++)
            BAD(c, "%s%u is twice in %s", kind_names[c->p->kinds[i]], i, path);
        n++;
    }
    if (n != c->p->n)
        BAD(c, "%u tasks are in %s, of %u", n, path, c->p->n);
    free(seen);
    free(line);
    fclose(f);
}

/* --- --joblog ------------------------------------------------------------------------------------------ */

static unsigned check_joblog_line(const struct checker *c, const char *line, size_t size, const struct record *records)
{
    unsigned sequence;
    int exit_code, signal, at = 0;
    (void)size;
    if (sscanf(line, "%u\t:\t%*f\t%*f\t0\t%*u\t%d\t%d\t%n", &sequence, &exit_code, &signal, &at) < 3 || at == 0 ||
        sequence < 1 || sequence > c->p->n)
        BAD(c, "a line of %s is \"%.200s\"", JOBLOG, line);
    const unsigned i = sequence - 1;
    const struct record *r = &records[i];
    if (exit_code != r->exit_code || signal != r->signal)
        BAD(c, "%s%u has exit code %d, signal %d in %s, and %d, %d in the journal", kind_names[c->p->kinds[i]], i,
            exit_code, signal, JOBLOG, r->exit_code, r->signal);
    return i;
}

/* --- --results ------------------------------------------------------------------------------------------- */

static void read_result(const struct checker *c, unsigned i, const char *name, struct text *t)
{
    char path[256];
    snprintf(path, sizeof path, "%s/1/%s%u/%s", RESULTS, kind_names[c->p->kinds[i]], i, name);
    FILE *f = fopen(path, "re");
    if (!f)
        BAD(c, "%s is missing", path);
    t->size = fread(t->bytes, 1, sizeof t->bytes - 1, f);
    t->bytes[t->size] = '\0';
    fclose(f);
}

static void check_results(const struct checker *c, unsigned i, const struct record *r)
{
    static struct text out, err, seq, must;
    const enum kind kind = c->p->kinds[i];
    read_result(c, i, "stdout", &out);
    read_result(c, i, "stderr", &err);
    read_result(c, i, "seq", &seq);
    if (strtoul(seq.bytes, NULL, 10) != i + 1)
        BAD(c, "%s%u has the number \"%s\" in %s", kind_names[kind], i, seq.bytes, RESULTS);
    if (r->excused || strcmp(r->failure, "timeout") == 0 || (c->p->stream && !r->done))
        return;
    (c->p->stream ? expected_answer : expected_stdout)(&must, kind, i);
    check_same(c, i, RESULTS "/.../stdout", &out, &must);
    expected_stderr(&must, kind, i);
    if (!c->p->stream)
        check_same(c, i, RESULTS "/.../stderr", &err, &must);
}

/* --- what must be gone ---------------------------------------------------------------------------------------- */

static const char *leftover_end;
static char leftover[512];

static int find_leftover(const char *path, const struct stat *s, int flag, struct FTW *f)
{
    (void)s, (void)flag, (void)f;
    const size_t length = strlen(path), n = strlen(leftover_end);
    if (length >= n && strcmp(path + length - n, leftover_end) == 0)
        snprintf(leftover, sizeof leftover, "%s", path);
    return 0;
}

static void check_leftovers(const struct checker *c)
{
    static const char *const ends[] = { ".part", "-lock", "-wal", "-shm" };
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        leftover_end = ends[i];
        CHECK_EQ(nftw("kept", find_leftover, 16, FTW_PHYS), 0);
        if (leftover[0])
            BAD(c, "%s was left", leftover);
    }
}

/* --- standard output --------------------------------------------------------------------------------------------- */

/* If a task was killed or took too long, its output is undefined, and nothing is compared. */
static void check_standard_output(const struct checker *c, const struct record *records)
{
    bool *finished = room_for(c->p->n, sizeof *finished);
    for (unsigned i = 0; i < c->p->n; i++)
        if (c->p->stream || records[i].excused || strcmp(records[i].failure, "timeout") == 0) {
            free(finished);
            return;
        }
    for (unsigned run = 1; run <= c->runs; run++) {
        for (unsigned i = 0; i < c->p->n; i++)
            finished[i] = c->finished_in[i] == run;
        const char *wrong = c->ended_well[run] ? check_printed(c->p, run, finished) : NULL;
        if (wrong)
            BAD(c, "standard output of run %u: %s", run, wrong);
    }
    free(finished);
}

/* --- the end ----------------------------------------------------------------------------------------------------- */

static void check_files(const struct checker *c, const struct record *records)
{
    if (c->p->output)
        check_lines(c, OUTPUT, false, check_output_line, records);
    if (c->p->joblog)
        check_lines(c, JOBLOG, true, check_joblog_line, records);
    for (unsigned i = 0; c->p->results && i < c->p->n; i++)
        check_results(c, i, &records[i]);
    check_leftovers(c);
}

void check_end(struct checker *c, int status)
{
    struct history h;
    struct record *records = room_for(c->p->n, sizeof *records);
    unsigned failed = 0;
    history_read(&h, c->p->n);
    read_journal(c, records);
    for (unsigned i = 0; i < c->p->n; i++) {
        check_record(c, i, &records[i], h.tries[i]);
        failed += !records[i].done;
    }
    check_files(c, records);
    check_standard_output(c, records);
    if (status != (int)(failed < MOST_FAILED ? failed : MOST_FAILED))
        BAD(c, "%u tasks have failed, but the exit status is %d: %s", failed, status, storm_last_output(c->runs));
    if (count_lines(FAILED) != failed)
        BAD(c, "%u tasks have failed, but %s has %llu lines", failed, FAILED, (unsigned long long)count_lines(FAILED));
    history_free(&h);
    free(records);
}
