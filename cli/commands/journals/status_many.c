/* SPDX-License-Identifier: MIT
 *
 * `status` of several journals: see status_many.h.
 *
 * If the journals are of different shards of one list, no task is in two of them, and the totals are sums. Otherwise the
 * keys of all records are read, and each task counts once. What is left is the sum over the journals of the present
 * number of shards, because earlier journals may have been overtaken.
 */
#include "cli/commands/journals/status_many.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "base/text/figures.h"
#include "base/text/json_write.h"
#include "cli/commands/journals/status_parts.h"

/* --- gathering ------------------------------------------------------------------------- */

struct class
{
    char *name;
    uint64_t count;
};

struct slow {
    double seconds;
    char *input, *failure; /* failure NULL: it succeeded */
    size_t input_size;
    uint64_t number;
    int gpu;
    char where[80]; /* the GPU, and the shard or the journal */
};

/* The journals of one machine. */
struct node {
    const char *host;
    size_t journals, running;
    uint64_t done, failed, left;
    double rate;
    bool has_left;
};

struct many {
    struct cli_journals *j;
    FILE *out;
    struct status_figures *figures; /* of each readable journal */
    struct class *classes;
    size_t n_classes;
    struct slow slowest[STATUS_SLOWEST + 1]; /* the slowest first; one more for sorting a new one in */
    size_t n_slow;
    struct node *nodes;
    size_t n_nodes;
    uint64_t done, failed, left, total;
    bool has_left;
    bool has_all;      /* the journals of all shards are there */
    bool has_overlaps; /* the next one is known */
    uint64_t overlaps;
    double rate, eta; /* eta < 0: not known */
    const struct cli_journal *slowest_journal;
    double busy_seconds;
    bool no_memory;
};

static int add_class(void *user, const char *failure, uint64_t count)
{
    struct many *m = user;
    for (size_t i = 0; i < m->n_classes; i++)
        if (strcmp(m->classes[i].name, failure) == 0) {
            m->classes[i].count += count;
            return 0;
        }
    struct class *larger = realloc(m->classes, (m->n_classes + 1) * sizeof *larger);
    char *name = strdup(failure);
    m->classes = larger ? larger : m->classes;
    if (!larger || !name) {
        free(name);
        m->no_memory = true;
        return 1;
    }
    m->classes[m->n_classes++] = (struct class){ name, count };
    return 0;
}

static void free_classes(struct many *m)
{
    for (size_t i = 0; i < m->n_classes; i++)
        free(m->classes[i].name);
    free(m->classes);
    m->classes = NULL;
    m->n_classes = 0;
}

static void free_slow(struct slow *s)
{
    free(s->input);
    free(s->failure);
}

static void name_place(struct slow *s, const struct cli_journal *journal)
{
    char shard[32], gpu[32] = "";
    if (s->gpu >= 0)
        snprintf(gpu, sizeof gpu, "GPU %d, ", s->gpu);
    if (journal->s.shard.count > 0)
        snprintf(s->where, sizeof s->where, "%sshard %s", gpu, cli_journal_shard(journal, shard, sizeof shard));
    else
        snprintf(s->where, sizeof s->where, "%s%.40s", gpu, journal->path);
}

struct look {
    struct many *m;
    struct cli_journal *journal;
};

static int add_slow(void *user, const struct gd_journal_record *r)
{
    const struct look *l = user;
    struct many *m = l->m;
    size_t at = m->n_slow;
    if (at == STATUS_SLOWEST && r->seconds <= m->slowest[at - 1].seconds)
        return 1;
    const char *failure = r->failure ? r->failure : "failed";
    struct slow s = { .seconds = r->seconds, .input_size = r->input_size, .number = r->number, .gpu = r->gpu_id };
    s.input = malloc(r->input_size + 1);
    s.failure = r->done ? NULL : strdup(failure);
    if (!s.input || (!r->done && !s.failure)) {
        free_slow(&s);
        m->no_memory = true;
        return 1;
    }
    memcpy(s.input, r->input, r->input_size);
    name_place(&s, l->journal);
    for (; at > 0 && m->slowest[at - 1].seconds < s.seconds; at--)
        m->slowest[at] = m->slowest[at - 1];
    m->slowest[at] = s;
    if (m->n_slow < STATUS_SLOWEST)
        m->n_slow++;
    else
        free_slow(&m->slowest[STATUS_SLOWEST]);
    return 0;
}

static int look_at(void *user, struct gd_journal_reader *r, struct cli_journal *journal)
{
    const struct gd_journal_query slow = { .size = sizeof slow, .order = GD_JOURNAL_SLOWEST, .limit = STATUS_SLOWEST };
    struct look l = { .m = user, .journal = journal };
    int rc = gd_journal_reader_failures(r, add_class, l.m);
    if (rc == 0)
        rc = gd_journal_reader_each(r, &slow, add_slow, &l);
    return rc < 0 ? rc : 0;
}

static int by_count(const void *pa, const void *pb)
{
    const struct class *a = pa, *b = pb;
    return a->count != b->count ? (a->count < b->count ? 1 : -1) : strcmp(a->name, b->name);
}

/* --- totals ----------------------------------------------------------------------------- */

static struct node *node_of(struct many *m, const char *host)
{
    for (size_t i = 0; i < m->n_nodes; i++)
        if (strcmp(m->nodes[i].host, host) == 0)
            return &m->nodes[i];
    m->nodes[m->n_nodes] = (struct node){ .host = host, .has_left = true };
    return &m->nodes[m->n_nodes++];
}

static void add_journal(struct many *m, size_t i, bool counts_as_left)
{
    const struct status_figures *f = &m->figures[i];
    struct node *node = node_of(m, f->s.host ? f->s.host : "unknown");
    const bool running = f->s.held;
    node->journals++;
    node->running += running;
    node->done += f->s.done;
    node->failed += f->s.failed;
    node->rate += running ? f->rate : 0;
    m->done += f->s.done;
    m->failed += f->s.failed;
    m->rate += running ? f->rate : 0;
    m->busy_seconds += f->s.busy_seconds;
    if (!counts_as_left)
        return;
    node->left += f->remaining.left;
    node->has_left = node->has_left && f->remaining.has_left;
    m->left += f->remaining.left;
    m->has_left = m->has_left && f->remaining.has_left;
    m->total += f->remaining.all;
    if (f->eta > m->eta) {
        m->eta = f->eta;
        m->slowest_journal = &m->j->items[i];
    }
}

/* The failures of tasks that have no other record. The classes so far are those of all records. */
static int count_failures(struct many *m, const struct gd_journal_merge_options *o)
{
    struct gd_journal_reader *r = NULL;
    int rc = gd_journal_reader_open_merged(&r, o);
    free_classes(m);
    if (rc == 0)
        rc = gd_journal_reader_failures(r, add_class, m);
    gd_journal_reader_close(&r);
    return rc;
}

/* Counts each task once. */
static int count_overlaps(struct many *m)
{
    struct gd_journal_merge_options o = GD_JOURNAL_MERGE_OPTIONS_INIT;
    struct gd_journal_merge_counts counts = { .size = sizeof counts };
    const char **paths = calloc(m->j->n_readable + 1, sizeof *paths);
    if (!paths)
        return gd__fail("out of memory");
    for (size_t i = 0; i < m->j->n_readable; i++)
        paths[i] = m->j->items[i].path;
    o.paths = paths;
    o.n_paths = m->j->n_readable;
    o.force = true;
    int rc = gd_journal_merge(&o, &counts);
    if (rc == 0 && counts.failed != m->failed)
        rc = count_failures(m, &o);
    free(paths);
    if (rc != 0)
        return gd__fail("%s", m->no_memory ? "out of memory" : gd_error_text());
    m->done = counts.done;
    m->failed = counts.failed;
    m->overlaps = counts.overlaps;
    m->has_overlaps = true;
    return 0;
}

static void note_missing(void *user, uint32_t first, uint32_t last)
{
    (void)first, (void)last;
    *(bool *)user = false;
}

static int add_up(struct many *m, const struct status_many_asked *asked)
{
    const size_t n = m->j->n_readable;
    const uint32_t shards = cli_journals_shards(m->j);
    m->figures = calloc(n + 1, sizeof *m->figures);
    m->nodes = calloc(n + 1, sizeof *m->nodes);
    m->has_left = n > 0;
    m->eta = -1;
    m->has_all = n == m->j->n;
    cli_journals_missing(m->j, note_missing, &m->has_all);
    if (!m->figures || !m->nodes)
        return gd__fail("out of memory");
    for (size_t i = 0; i < n; i++) {
        m->figures[i].s = m->j->items[i].s;
        status_work_out(&m->figures[i]);
        add_journal(m, i, m->figures[i].s.shard.count == shards);
    }
    const bool disjoint = cli_journals_disjoint(m->j);
    if (n > 0 && (!disjoint || asked->overlaps) && count_overlaps(m) < 0)
        return -1;
    if (m->n_classes > 0)
        qsort(m->classes, m->n_classes, sizeof *m->classes, by_count);
    return 0;
}

/* --- text --------------------------------------------------------------------------------- */

static void print_states(const struct many *m)
{
    const size_t n = m->j->n_readable;
    bool *printed = calloc(n + 1, sizeof *printed);
    fprintf(m->out, "%zu %s:", n, n == 1 ? "journal" : "journals");
    for (size_t i = 0; printed && i < n; i++) {
        const char *state = status_state(&m->figures[i].s);
        size_t same = 0;
        if (printed[i])
            continue;
        for (size_t k = i; k < n; k++)
            if (strcmp(status_state(&m->figures[k].s), state) == 0) {
                printed[k] = true;
                same++;
            }
        fprintf(m->out, "%s %zu ", i > 0 ? "," : "", same);
        status_print_text(m->out, state, strlen(state), STATUS_WIDEST_WORD);
    }
    free(printed);
    if (m->j->n > n)
        fprintf(m->out, "; %zu cannot be read", m->j->n - n);
    fprintf(m->out, "\n");
    if (n > 0)
        status_print_command(m->out, m->figures[0].s.command);
    fprintf(m->out, "\n");
}

static void print_totals(const struct many *m)
{
    char more[160] = "", number[40], time[32], shard[32];
    const uint64_t ended = m->done + m->failed, all = ended + m->left > m->total ? ended + m->left : m->total;
    if (m->has_left && m->has_all)
        snprintf(more, sizeof more, "of %s, %.1f %%", status_grouped(number, sizeof number, all),
                 all ? 100.0 * (double)m->done / (double)all : 0.0);
    status_print_count(m->out, "done", m->done, more);
    *more = '\0';
    if (m->failed)
        snprintf(more, sizeof more, "%.1f %%", 100.0 * (double)m->failed / (double)ended);
    status_print_count(m->out, "failed", m->failed, more);
    *more = '\0';
    if (m->has_left && m->left) {
        const char *part = m->has_all ? "" : "in these journals";
        snprintf(more, sizeof more, "%s", part);
        if (m->eta >= 0)
            snprintf(more, sizeof more, "%s%sabout %s, until shard %s ends", part, *part ? "; " : "",
                     gd__text_duration(time, sizeof time, m->eta),
                     cli_journal_shard(m->slowest_journal, shard, sizeof shard));
        status_print_count(m->out, "left", m->left, more);
    }
    if (m->rate > 0)
        fprintf(m->out, "  %-8s %12.*f   tasks a second\n", "rate", m->rate < 100 ? 2 : 0, m->rate);
    if (ended && m->busy_seconds > 0)
        fprintf(m->out, "  %-8s %12s   a task, on average\n", "time",
                status_task_time(time, sizeof time, m->busy_seconds / (double)(ended + m->overlaps)));
}

static void print_notes(const struct many *m)
{
    struct gd__buffer notes = { 0 };
    char number[40];
    cli_journals_notes(m->j, &notes);
    if (m->overlaps > 0)
        gd__buffer_format(&notes, "%s %s of tasks that another journal has too. Each task is counted once.\n",
                          status_grouped(number, sizeof number, m->overlaps),
                          m->overlaps == 1 ? "record is" : "records are");
    else if (m->has_overlaps)
        gd__buffer_text(&notes, "No task is in two journals.\n");
    const char *at = notes.failed ? "" : notes.data ? notes.data : "";
    for (size_t left = *at ? notes.size : 0; left > 0;) {
        const size_t length = (size_t)((const char *)memchr(at, '\n', left) - at);
        fprintf(m->out, "%s", at == notes.data ? "\n" : "");
        status_print_text(m->out, at, length, 4000);
        fprintf(m->out, "\n");
        at += length + 1;
        left -= length + 1;
    }
    gd__buffer_free(&notes);
}

/* A count that may be unknown. */
static const char *count_or_dash(char *out, size_t size, bool known, uint64_t n)
{
    if (known)
        return status_grouped(out, size, n);
    snprintf(out, size, "-");
    return out;
}

static const char *show_rate(char *out, size_t size, double rate)
{
    if (rate > 0)
        snprintf(out, size, "%.*f", rate < 100 ? 2 : 0, rate);
    else
        snprintf(out, size, "-");
    return out;
}

static void print_padded(FILE *out, const char *text, size_t width)
{
    const size_t length = strlen(text), shown = length < width ? length : width;
    status_print_text(out, text, length, width);
    fprintf(out, "%*s", (int)(width - shown), "");
}

static size_t widest_host(const struct many *m)
{
    size_t widest = strlen("machine");
    for (size_t i = 0; i < m->n_nodes; i++) {
        const size_t length = strlen(m->nodes[i].host);
        widest = length > widest ? length : widest;
    }
    return widest < STATUS_WIDEST_WORD ? widest : STATUS_WIDEST_WORD;
}

static void print_nodes(const struct many *m)
{
    const size_t width = widest_host(m);
    char done[40], failed[40], left[40], rate[40];
    fprintf(m->out, "\nMachines\n  %-*s  %8s  %8s  %12s  %8s  %12s  %10s\n", (int)width, "machine", "journals",
            "running", "done", "failed", "left", "tasks/s");
    for (size_t i = 0; i < m->n_nodes; i++) {
        const struct node *n = &m->nodes[i];
        fprintf(m->out, "  ");
        print_padded(m->out, n->host, width);
        fprintf(m->out, "  %8zu  %8zu  %12s  %8s  %12s  %10s\n", n->journals, n->running,
                status_grouped(done, sizeof done, n->done), status_grouped(failed, sizeof failed, n->failed),
                count_or_dash(left, sizeof left, n->has_left, n->left), show_rate(rate, sizeof rate, n->rate));
    }
}

/* How long ago the last heartbeat was. There is a column for it only if a run makes heartbeats. */
static void print_quiet(FILE *out, const struct gd_journal_summary *s)
{
    char time[32];
    const bool known = s->held && s->quiet_seconds > 0;
    fprintf(out, "  %9s", known ? gd__text_duration(time, sizeof time, s->quiet_seconds) : "-");
}

static bool has_heartbeats(const struct many *m)
{
    for (size_t i = 0; i < m->j->n_readable; i++)
        if (m->figures[i].s.held && m->figures[i].s.quiet_seconds > 0)
            return true;
    return false;
}

static void print_journals(const struct many *m)
{
    const size_t width = widest_host(m);
    const bool beats = has_heartbeats(m);
    char shard[32], done[40], failed[40], left[40], rate[40];
    fprintf(m->out, "\nShards\n  %9s  %-*s  %-12s%s  %12s  %8s  %12s  %10s  %s\n", "shard", (int)width, "machine",
            "state", beats ? "  heartbeat" : "", "done", "failed", "left", "tasks/s", "journal");
    for (size_t i = 0; i < m->j->n_readable; i++) {
        const struct cli_journal *journal = &m->j->items[i];
        const struct status_figures *f = &m->figures[i];
        fprintf(m->out, "  %9s  ", cli_journal_shard(journal, shard, sizeof shard));
        print_padded(m->out, f->s.host ? f->s.host : "unknown", width);
        fprintf(m->out, "  ");
        print_padded(m->out, status_state(&f->s), 12);
        if (beats)
            print_quiet(m->out, &f->s);
        fprintf(m->out, "  %12s  %8s  %12s  %10s  ", status_grouped(done, sizeof done, f->s.done),
                status_grouped(failed, sizeof failed, f->s.failed),
                count_or_dash(left, sizeof left, f->remaining.has_left, f->remaining.left),
                show_rate(rate, sizeof rate, f->rate));
        status_print_text(m->out, journal->path, strlen(journal->path), 4000);
        fprintf(m->out, "\n");
    }
}

static void print_failures(const struct many *m)
{
    char number[40];
    for (size_t i = 0; i < m->n_classes && i < STATUS_MOST_CLASSES; i++) {
        fprintf(m->out, "%s  %12s   ", i == 0 ? "\nFailures\n" : "",
                status_grouped(number, sizeof number, m->classes[i].count));
        status_print_text(m->out, m->classes[i].name, strlen(m->classes[i].name), STATUS_WIDEST_WORD);
        fprintf(m->out, "\n");
    }
    if (m->n_classes > STATUS_MOST_CLASSES)
        fprintf(m->out, "  %12s   and %zu more classes\n", "", m->n_classes - STATUS_MOST_CLASSES);
    for (size_t i = 0; i < m->n_slow; i++) {
        const struct slow *s = &m->slowest[i];
        fprintf(m->out, "%s", i == 0 ? "\nSlowest\n" : "");
        status_print_slow(m->out, s->seconds, s->input, s->input_size, s->where, s->failure);
    }
}

/* On a screen there is no other place for these. */
static void print_unreadable(const struct many *m)
{
    for (size_t i = m->j->n_readable; i < m->j->n; i++) {
        status_print_text(m->out, m->j->items[i].error, strlen(m->j->items[i].error), 4000);
        fprintf(m->out, "%s", i + 1 < m->j->n ? "\n" : "\n\n");
    }
}

static void print_page(const struct many *m)
{
    print_states(m);
    if (m->j->quiet)
        print_unreadable(m);
    if (m->j->n_readable == 0)
        return;
    print_totals(m);
    print_notes(m);
    print_nodes(m);
    print_journals(m);
    print_failures(m);
}

/* --- JSON ---------------------------------------------------------------------------------- */

static void put_totals(struct gd__buffer *b, const struct many *m)
{
    const uint64_t ended = m->done + m->failed, all = ended + m->left > m->total ? ended + m->left : m->total;
    gd__buffer_text(b, "{\"state\":");
    gd__json_put_string(b, cli_journals_state(m->j), strlen(cli_journals_state(m->j)));
    status_put_command(b, m->j->n_readable > 0 ? m->figures[0].s.command : NULL);
    gd__buffer_format(b, ",\"done\":%" PRIu64 ",\"failed\":%" PRIu64, m->done, m->failed);
    status_put_number(b, "total", m->has_left && m->has_all, (double)all, 0);
    status_put_number(b, "left", m->has_left && m->has_all, (double)m->left, 0);
    status_put_number(b, "eta_seconds", m->eta >= 0, m->eta, 3);
    status_put_number(b, "tasks_per_second", m->rate > 0, m->rate, 3);
    status_put_number(b, "busy_seconds", true, m->busy_seconds, 6);
    status_put_number(b, "shards", cli_journals_shards(m->j) > 0, cli_journals_shards(m->j), 0);
    status_put_number(b, "overlaps", m->has_overlaps || cli_journals_disjoint(m->j), (double)m->overlaps, 0);
}

static void put_missing(void *user, uint32_t first, uint32_t last)
{
    struct gd__buffer *b = user;
    for (uint32_t i = first; i <= last && !b->failed; i++)
        gd__buffer_format(b, "%s%" PRIu32, b->data[b->size - 1] == '[' ? "" : ",", i);
}

static void put_nodes(struct gd__buffer *b, const struct many *m)
{
    gd__buffer_text(b, ",\"machines\":[");
    for (size_t i = 0; i < m->n_nodes; i++) {
        const struct node *n = &m->nodes[i];
        gd__buffer_text(b, i > 0 ? ",{\"host\":" : "{\"host\":");
        gd__json_put_string(b, n->host, strlen(n->host));
        gd__buffer_format(b, ",\"journals\":%zu,\"running\":%zu,\"done\":%" PRIu64 ",\"failed\":%" PRIu64, n->journals,
                          n->running, n->done, n->failed);
        status_put_number(b, "left", n->has_left, (double)n->left, 0);
        status_put_number(b, "tasks_per_second", n->rate > 0, n->rate, 3);
        gd__buffer_text(b, "}");
    }
    gd__buffer_text(b, "]");
}

static void put_journals(struct gd__buffer *b, const struct many *m)
{
    gd__buffer_text(b, ",\"journals\":[");
    for (size_t i = 0; i < m->j->n_readable; i++) {
        const struct cli_journal *journal = &m->j->items[i];
        char shard[32];
        gd__buffer_text(b, i > 0 ? ",{\"path\":" : "{\"path\":");
        gd__json_put_string(b, journal->path, strlen(journal->path));
        status_put_text(b, "shard", journal->s.shard.count ? cli_journal_shard(journal, shard, sizeof shard) : NULL);
        gd__buffer_text(b, ",");
        status_put_members(b, &m->figures[i]);
        gd__buffer_text(b, "}");
    }
    gd__buffer_text(b, "],\"unreadable\":[");
    for (size_t i = m->j->n_readable; i < m->j->n; i++) {
        gd__buffer_text(b, i > m->j->n_readable ? ",{\"path\":" : "{\"path\":");
        gd__json_put_string(b, m->j->items[i].path, strlen(m->j->items[i].path));
        status_put_text(b, "error", m->j->items[i].error);
        gd__buffer_text(b, "}");
    }
    gd__buffer_text(b, "]");
}

static void put_failures(struct gd__buffer *b, const struct many *m)
{
    gd__buffer_text(b, ",\"failures\":{");
    for (size_t i = 0; i < m->n_classes; i++) {
        gd__buffer_text(b, i > 0 ? "," : "");
        gd__json_put_string(b, m->classes[i].name, strlen(m->classes[i].name));
        gd__buffer_format(b, ":%" PRIu64, m->classes[i].count);
    }
    gd__buffer_text(b, "},\"slowest\":[");
    for (size_t i = 0; i < m->n_slow; i++) {
        gd__buffer_format(b, "%s{\"id\":%" PRIu64 ",\"input\":", i > 0 ? "," : "", m->slowest[i].number);
        gd__json_put_string(b, m->slowest[i].input, m->slowest[i].input_size);
        gd__buffer_format(b, ",\"seconds\":%.6f,\"gpu\":%d}", m->slowest[i].seconds, m->slowest[i].gpu);
    }
    gd__buffer_text(b, "]}\n");
}

static int print_json(const struct many *m)
{
    struct gd__buffer b = { 0 };
    put_totals(&b, m);
    gd__buffer_text(&b, ",\"missing_shards\":[");
    cli_journals_missing(m->j, put_missing, &b);
    gd__buffer_text(&b, "]");
    put_nodes(&b, m);
    put_journals(&b, m);
    put_failures(&b, m);
    const int rc = b.failed ? gd__fail("out of memory") : 0;
    if (rc == 0)
        fwrite(b.data, 1, b.size, m->out);
    gd__buffer_free(&b);
    return rc;
}

/* ---------------------------------------------------------------------------------------------- */

static void free_many(struct many *m)
{
    free_classes(m);
    for (size_t i = 0; i < m->n_slow; i++)
        free_slow(&m->slowest[i]);
    free(m->figures);
    free(m->nodes);
}

int status_many(const struct status_many_asked *asked, struct cli_journals *j, FILE *out)
{
    struct many m = { .j = j, .out = out };
    int rc = cli_journals_read(j, look_at, &m);
    if (rc == 0 && m.no_memory)
        rc = gd__fail("out of memory");
    if (rc == 0)
        rc = add_up(&m, asked);
    if (rc == 0 && asked->json)
        rc = print_json(&m);
    else if (rc == 0)
        print_page(&m);
    free_many(&m);
    return rc;
}
