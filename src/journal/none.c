/* Used in a library that is built without SQLite. It has no journals, and every call fails with a message that says how
 * to get them. */
#include "base/error.h"
#include "binding.h"
#include "journal/journal.h"

static int unsupported(void)
{
    return gd__error(GD_E_UNSUPPORTED, "this gpu_dispatch was built without SQLite, so it has no journals: install "
                                       "SQLite's headers (Debian: libsqlite3-dev) and build it again");
}

bool gd_journal_available(void)
{
    return false;
}

int gd_journal_open(struct gd_journal **out, const struct gd_journal_options *o)
{
    (void)o;
    if (out)
        *out = NULL;
    return unsupported();
}

int gd_journal_follow_anew(struct gd_journal *j, const char *path, int fd)
{
    (void)j, (void)path, (void)fd;
    return unsupported();
}

int gd_journal_follow(struct gd_journal *j, const char *path, int fd)
{
    (void)j, (void)path, (void)fd;
    return unsupported();
}

void gd_journal_add_note(struct gd_journal *j, const struct gd_journal_note *note)
{
    (void)j, (void)note;
}

int gd_journal_get_counts(struct gd_journal *j, struct gd_journal_counts *out)
{
    (void)j, (void)out;
    return unsupported();
}

int gd_journal_close(struct gd_journal **j)
{
    (void)j;
    return 0;
}

int gd_journal_reader_open(struct gd_journal_reader **out, const char *path)
{
    (void)path;
    if (out)
        *out = NULL;
    return unsupported();
}

void gd_journal_reader_close(struct gd_journal_reader **r)
{
    (void)r;
}

int gd_journal_reader_summary(struct gd_journal_reader *r, struct gd_journal_summary *out)
{
    (void)r, (void)out;
    return unsupported();
}

int gd_journal_reader_each(struct gd_journal_reader *r, const struct gd_journal_query *q,
                           int (*fn)(void *user, const struct gd_journal_record *record), void *user)
{
    (void)r, (void)q, (void)fn, (void)user;
    return unsupported();
}

int gd_journal_reader_failures(struct gd_journal_reader *r, int (*fn)(void *user, const char *failure, uint64_t count),
                               void *user)
{
    (void)r, (void)fn, (void)user;
    return unsupported();
}

int gd_journal_reader_runs(struct gd_journal_reader *r, int (*fn)(void *user, const struct gd_journal_run *run),
                           void *user)
{
    (void)r, (void)fn, (void)user;
    return unsupported();
}

int gd_journal_merge(const struct gd_journal_merge_options *o, struct gd_journal_merge_counts *out)
{
    (void)o, (void)out;
    return unsupported();
}

int gd_journal_reader_open_merged(struct gd_journal_reader **out, const struct gd_journal_merge_options *o)
{
    (void)o;
    if (out)
        *out = NULL;
    return unsupported();
}

/* Functions that the dispatcher calls. They are never reached, because no journal can be opened. */

int gd__journal_begin(struct gd_journal *j, const struct gd__journal_run *run)
{
    (void)j, (void)run;
    return unsupported();
}

void gd__journal_admit(struct gd_journal *j)
{
    (void)j;
}

bool gd__journal_has_room(struct gd_journal *j)
{
    (void)j;
    return true;
}

bool gd__journal_take_reads(const struct gd_journal *j, const struct gd__journal_key *key)
{
    (void)j, (void)key;
    return false;
}

int gd__journal_take(struct gd_journal *j, const struct gd__journal_key *key, uint64_t number,
                     struct gd__journal_task **out)
{
    (void)j, (void)key, (void)number, (void)out;
    return unsupported();
}

bool gd__journal_is_ours(struct gd_journal *j)
{
    (void)j;
    return false;
}

bool gd__journal_was_taken_over(struct gd_journal *j)
{
    (void)j;
    return false;
}

void gd__journal_files_may_grow(struct gd_journal *j)
{
    (void)j;
}

void gd__journal_interrupt(struct gd_journal *j)
{
    (void)j;
}

void gd__journal_put(struct gd_journal *j, struct gd__journal_task *t, const struct gd_report *r)
{
    (void)j, (void)t, (void)r;
}

int gd__journal_end(struct gd_journal *j, const char *how)
{
    (void)j, (void)how;
    return unsupported();
}

void gd__journal_set_total(struct gd_journal *j, uint64_t total)
{
    (void)j, (void)total;
}

struct gd_shard gd__journal_shard(const struct gd_journal *j)
{
    (void)j;
    return (struct gd_shard){ 0 };
}

const char *gd__journal_path(const struct gd_journal *j)
{
    (void)j;
    return "";
}

uint64_t gd__journal_skipped(struct gd_journal *j)
{
    (void)j;
    return 0;
}

int gd__journal_follow_empty(struct gd_journal *j, const char *path, int fd)
{
    (void)j, (void)path, (void)fd;
    return unsupported();
}

int gd__journal_check_file(struct gd_journal *j, const char *path)
{
    (void)j, (void)path;
    return unsupported();
}
