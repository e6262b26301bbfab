/* SPDX-License-Identifier: MIT
 *
 * Several journals: see set.h.
 */
#include "cli/commands/journals/set.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/failure.h"
#include "cli/commands/journals/status_parts.h"
#include "cli/say.h"

/* --- arguments ---------------------------------------------------------------------- */

static int add_path(struct cli_journals *j, const char *path)
{
    const char **larger = realloc(j->paths, (j->n_paths + 2) * sizeof *larger);
    if (!larger)
        return gd__fail("out of memory");
    j->paths = larger;
    j->paths[j->n_paths++] = path;
    j->paths[j->n_paths] = NULL;
    return 0;
}

int cli_journals_parse(struct cli_journals *j, const struct cli_opts *options, void *asked, int argc, char **argv)
{
    int at = 0;
    bool dashes = false;
    while (at < argc) {
        const int n = dashes ? 0 : cli_opts_parse_part(options, asked, argc - at, argv + at, &dashes);
        if (n < 0)
            return -1;
        at += n;
        if (at < argc && add_path(j, argv[at++]) < 0)
            return -1;
    }
    return 0;
}

/* --- reading ------------------------------------------------------------------------- */

static char *copy_text(const char *text)
{
    return text ? strdup(text) : NULL;
}

static void copy_summary(struct cli_journal *journal, const struct gd_journal_summary *s)
{
    journal->s = *s;
    journal->s.command = journal->command = copy_text(s->command);
    journal->s.end = journal->end = copy_text(s->end);
    journal->s.host = journal->host = copy_text(s->host);
}

static int read_one(struct cli_journal *journal,
                    int (*look)(void *user, struct gd_journal_reader *r, struct cli_journal *journal), void *user)
{
    struct gd_journal_reader *r = NULL;
    struct gd_journal_summary s = { .size = sizeof s };
    int rc = gd_journal_reader_open(&r, journal->path);
    if (rc == 0)
        rc = gd_journal_reader_summary(r, &s);
    if (rc == 0)
        copy_summary(journal, &s);
    if (rc == 0 && look)
        rc = look(user, r, journal);
    if (rc < 0)
        journal->error = strdup(gd_error_text());
    gd_journal_reader_close(&r);
    return rc < 0 && !journal->error ? gd__fail("out of memory") : 0;
}

struct file {
    dev_t device;
    ino_t inode;
};

static int by_file(const void *pa, const void *pb)
{
    const struct file *a = pa, *b = pb;
    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    return (a->inode > b->inode) - (a->inode < b->inode);
}

/* Whether that path was given before, perhaps with another name. */
static bool was_given(struct file *seen, size_t *n, const char *path)
{
    struct stat info;
    if (stat(path, &info) < 0)
        return false;
    const struct file file = { info.st_dev, info.st_ino };
    size_t from = 0, to = *n;
    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        if (by_file(&seen[middle], &file) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    if (from < *n && by_file(&seen[from], &file) == 0)
        return true;
    memmove(seen + from + 1, seen + from, (*n - from) * sizeof *seen);
    seen[from] = file;
    ++*n;
    return false;
}

static int by_shard(const void *pa, const void *pb)
{
    const struct cli_journal *a = pa, *b = pb;
    if (!a->error != !b->error)
        return a->error ? 1 : -1;
    if (a->s.shard.count != b->s.shard.count)
        return a->s.shard.count < b->s.shard.count ? -1 : 1;
    if (a->s.shard.index != b->s.shard.index)
        return a->s.shard.index < b->s.shard.index ? -1 : 1;
    return strcmp(a->path, b->path);
}

static void forget(struct cli_journals *j)
{
    for (size_t i = 0; i < j->n; i++) {
        free(j->items[i].command);
        free(j->items[i].end);
        free(j->items[i].host);
        free(j->items[i].error);
    }
    free(j->items);
    j->items = NULL;
    j->n = j->n_readable = 0;
}

int cli_journals_read(struct cli_journals *j,
                      int (*look)(void *user, struct gd_journal_reader *r, struct cli_journal *journal), void *user)
{
    struct file *seen = calloc(j->n_paths + 1, sizeof *seen);
    size_t n_seen = 0;
    int rc = 0;
    forget(j);
    j->items = calloc(j->n_paths + 1, sizeof *j->items);
    if (!seen || !j->items) {
        free(seen);
        return gd__fail("out of memory");
    }
    for (size_t i = 0; rc == 0 && i < j->n_paths; i++) {
        if (was_given(seen, &n_seen, j->paths[i])) {
            if (!j->quiet)
                cli_say("%s was given twice: it is read once", j->paths[i]);
            continue;
        }
        struct cli_journal *journal = &j->items[j->n++];
        journal->path = j->paths[i];
        rc = read_one(journal, look, user);
        j->n_readable += !journal->error;
        if (journal->error && !j->quiet)
            cli_say("%s", journal->error);
    }
    free(seen);
    if (rc == 0)
        qsort(j->items, j->n, sizeof *j->items, by_shard);
    return rc;
}

void cli_journals_free(struct cli_journals *j)
{
    forget(j);
    free(j->paths);
    *j = (struct cli_journals){ .n = 0 };
}

/* --- as one --------------------------------------------------------------------------- */

static void warn_of_commands(const struct cli_journals *j)
{
    const struct cli_journal *first = NULL;
    for (size_t i = 0; i < j->n_readable; i++) {
        const struct cli_journal *journal = &j->items[i];
        if (!journal->command)
            continue;
        if (first && strcmp(first->command, journal->command) != 0) {
            cli_say("warning: %s and %s were made by different commands", first->path, journal->path);
            return;
        }
        first = first ? first : journal;
    }
}

/* Moves a journal to the end, behind those that can be read. */
static void set_aside(struct cli_journals *j, const char *path, const char *error)
{
    for (size_t i = 0; i < j->n_readable; i++)
        if (j->items[i].path == path) {
            const struct cli_journal bad = j->items[i];
            memmove(&j->items[i], &j->items[i + 1], (j->n - i - 1) * sizeof bad);
            j->items[j->n - 1] = bad;
            j->items[j->n - 1].error = strdup(error);
            j->n_readable--;
            return;
        }
}

static int open_merged(struct cli_journals *j, struct gd_journal_reader **out)
{
    struct gd_journal_merge_options o = GD_JOURNAL_MERGE_OPTIONS_INIT;
    const char **paths = calloc(j->n_readable + 1, sizeof *paths);
    size_t unreadable = SIZE_MAX;
    int rc = -1;
    if (!paths)
        return gd__fail("out of memory");
    warn_of_commands(j);
    o.paths = paths;
    o.force = true;
    o.unreadable = &unreadable;
    while (j->n_readable > 0) {
        o.n_paths = j->n_readable;
        for (size_t i = 0; i < j->n_readable; i++)
            paths[i] = j->items[i].path;
        rc = gd_journal_reader_open_merged(out, &o);
        if (rc == 0 || unreadable >= j->n_readable)
            break;
        cli_say("%s", gd_error_text());
        set_aside(j, paths[unreadable], gd_error_text());
    }
    free(paths);
    if (rc < 0)
        return gd__fail("%s", j->n_readable > 0 ? gd_error_text() : "none of the journals can be read");
    return 0;
}

int cli_journals_open(struct cli_journals *j, struct gd_journal_reader **out)
{
    if (j->n_paths == 1)
        return gd_journal_reader_open(out, j->paths[0]) < 0 ? gd__fail("%s", gd_error_text()) : 0;
    return cli_journals_read(j, NULL, NULL) < 0 ? -1 : open_merged(j, out);
}

int cli_journals_check_output(const struct cli_journals *j, const char *output)
{
    struct stat out, journal;
    if (stat(output, &out) < 0)
        return 0;
    for (size_t i = 0; i < j->n_paths; i++)
        if (stat(j->paths[i], &journal) == 0 && journal.st_dev == out.st_dev && journal.st_ino == out.st_ino)
            return gd__fail(j->n_paths == 1 ? "-o %s is the journal itself: give another file"
                                            : "-o %s is one of the journals: give another file",
                            output);
    return 0;
}

const char *cli_journals_state(const struct cli_journals *j)
{
    const char *state = NULL;
    bool killed = false;
    for (size_t i = 0; i < j->n_readable; i++) {
        const char *one = status_state(&j->items[i].s);
        if (j->items[i].s.held)
            return "running";
        killed = killed || strcmp(one, "killed") == 0;
        state = !state || strcmp(state, one) == 0 ? one : "ended";
    }
    return killed ? "killed" : state ? state : "unknown";
}

/* --- shards --------------------------------------------------------------------------- */

uint32_t cli_journals_shards(const struct cli_journals *j)
{
    const struct cli_journal *newest = NULL;
    for (size_t i = 0; i < j->n_readable; i++)
        if (!newest || j->items[i].s.started > newest->s.started)
            newest = &j->items[i];
    return newest ? newest->s.shard.count : 0;
}

static bool same_shard(const struct cli_journal *a, const struct cli_journal *b)
{
    return a->s.shard.count == b->s.shard.count && a->s.shard.index == b->s.shard.index;
}

bool cli_journals_disjoint(const struct cli_journals *j)
{
    for (size_t i = 1; i < j->n_readable; i++)
        if (j->items[i].s.shard.count == 0 || j->items[i].s.shard.count != j->items[0].s.shard.count ||
            same_shard(&j->items[i], &j->items[i - 1]))
            return false;
    return true;
}

void cli_journals_missing(const struct cli_journals *j, void (*fn)(void *user, uint32_t first, uint32_t last),
                          void *user)
{
    const uint32_t count = cli_journals_shards(j);
    uint32_t next = 1; /* the next shard that should be there */
    for (size_t i = 0; count > 0 && i < j->n_readable; i++) {
        const struct gd_shard shard = j->items[i].s.shard;
        if (shard.count != count || shard.index + 1 < next)
            continue;
        if (shard.index + 1 > next)
            fn(user, next, shard.index);
        next = shard.index + 2;
    }
    if (next <= count)
        fn(user, next, count);
}

struct ranges {
    struct gd__buffer *out;
    uint32_t n;
};

static void add_range(void *user, uint32_t first, uint32_t last)
{
    struct ranges *r = user;
    gd__buffer_text(r->out, r->n ? ", " : "");
    gd__buffer_format(r->out, last > first ? "%" PRIu32 "-%" PRIu32 : "%" PRIu32, first, last);
    r->n += last - first + 1;
}

static void note_missing(const struct cli_journals *j, struct gd__buffer *out)
{
    struct gd__buffer list = { 0 };
    struct ranges r = { .out = &list };
    cli_journals_missing(j, add_range, &r);
    if (r.n > 0 && !list.failed)
        gd__buffer_format(out, "%s %.*s of %" PRIu32 " %s no journal here.\n", r.n == 1 ? "Shard" : "Shards",
                          (int)list.size, list.data, cli_journals_shards(j), r.n == 1 ? "has" : "have");
    gd__buffer_free(&list);
}

/* The journals are in the order of their shards. */
static void note_same_shard(const struct cli_journals *j, struct gd__buffer *out)
{
    for (size_t i = 1; i < j->n_readable; i++)
        if (j->items[i].s.shard.count > 0 && same_shard(&j->items[i], &j->items[i - 1]))
            gd__buffer_format(out, "%s and %s are both of shard %" PRIu32 " of %" PRIu32 ".\n", j->items[i - 1].path,
                              j->items[i].path, j->items[i].s.shard.index + 1, j->items[i].s.shard.count);
}

static void note_counts(const struct cli_journals *j, struct gd__buffer *out)
{
    size_t kinds = 0;
    for (size_t i = 0; i < j->n_readable; i++)
        kinds += i == 0 || j->items[i].s.shard.count != j->items[i - 1].s.shard.count;
    if (kinds < 2)
        return;
    gd__buffer_text(out, "The list was divided in several ways:");
    for (size_t i = 0; i < j->n_readable;) {
        const uint32_t count = j->items[i].s.shard.count;
        size_t n = 0;
        for (; i < j->n_readable && j->items[i].s.shard.count == count; i++)
            n++;
        gd__buffer_format(out, "%s %zu %s of ", kinds > 0 && n == i ? "" : ",", n, n == 1 ? "journal" : "journals");
        if (count > 0)
            gd__buffer_format(out, "%" PRIu32 " shards", count);
        else
            gd__buffer_text(out, "the whole list");
    }
    gd__buffer_text(out, ".\n");
}

void cli_journals_notes(const struct cli_journals *j, struct gd__buffer *out)
{
    note_missing(j, out);
    note_same_shard(j, out);
    note_counts(j, out);
}

const char *cli_journal_shard(const struct cli_journal *journal, char *out, size_t size)
{
    const struct gd_shard shard = journal->s.shard;
    if (shard.count > 0)
        snprintf(out, size, "%" PRIu32 "/%" PRIu32, shard.index + 1, shard.count);
    else
        snprintf(out, size, "-");
    return out;
}
