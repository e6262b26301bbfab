/* A journal that is written to: opening and closing it, and the calls of the run's thread and the feeder's thread. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/sized.h"
#include "binding.h"
#include "journal/identity.h"
#include "journal/internal.h"
#include "shard/names.h"

enum { TELL_EVERY = 1 << 16, WINDOW_MS_MOST = 3600 * 1000 };

bool gd_journal_available(void)
{
    return true;
}

/* --- opening --- */

/* The name of the shard's own file. A path that has this shard in its name already is certainly a mistake: the user has
 * copied the name of the file. */
static int make_path(char **out, const char *path, struct gd_shard shard)
{
    struct gd_shard named = { 0 };
    char *base = NULL;
    int rc = gd__shard_path_split(path, &base, &named);
    if (rc > 0 && named.index == shard.index && named.count == shard.count)
        rc = gd__error(
            GD_E_INVALID,
            "%s is the name of the journal of shard %u of %u: give %s, because the shard is added to the name", path,
            shard.index + 1, shard.count, base);
    gd__free(base);
    return rc < 0 ? rc : gd__shard_path(out, path, shard);
}

/* Copies what the options point to. */
static int copy_options(struct gd_journal *j)
{
    char *path = NULL;
    int rc = 0;
    if (j->o.shard.count > 0)
        rc = make_path(&path, j->o.path, j->o.shard);
    else
        path = gd__strdup(j->o.path);
    if (rc < 0)
        return rc;
    j->path = path;
    j->command = j->o.command ? gd__strdup(j->o.command) : NULL;
    j->skip_done = j->o.n_skip_done > 0 ? gd__calloc(j->o.n_skip_done, sizeof *j->skip_done) : NULL;
    bool copied = j->path && (!j->o.command || j->command) && (j->o.n_skip_done == 0 || j->skip_done);
    for (size_t i = 0; copied && i < j->o.n_skip_done; i++)
        copied = (j->skip_done[i] = gd__strdup(j->o.skip_done[i])) != NULL;
    j->o.path = j->path;
    j->o.command = j->command;
    j->o.skip_done = (const char *const *)j->skip_done;
    return copied ? 0 : gd__error(GD_E_NO_MEMORY, "no memory for a journal");
}

static int check_skip_done(const struct gd_journal_options *o)
{
    if (o->n_skip_done > 0 && !o->skip_done)
        return gd__error(GD_E_INVALID, "gd_journal_open: n_skip_done is %zu, but skip_done is NULL", o->n_skip_done);
    for (size_t i = 0; i < o->n_skip_done; i++)
        if (!o->skip_done[i] || !*o->skip_done[i])
            return gd__error(GD_E_INVALID, "gd_journal_open: skip_done[%zu] is empty: give the path of a journal", i);
    return 0;
}

static int read_options(struct gd_journal *j, const struct gd_journal_options *o)
{
    j->o = (struct gd_journal_options)GD_JOURNAL_OPTIONS_INIT;
    int rc = gd__sized_read(&j->o, sizeof j->o, o, "gd_journal_options");
    if (rc < 0)
        return rc;
    j->o.size = sizeof j->o;
    if (!j->o.path || !*j->o.path)
        return gd__error(GD_E_INVALID, "gd_journal_open: no path is set: set gd_journal_options.path");
    if ((unsigned)j->o.resume > GD_JOURNAL_RESUME_REST_AND_FAILED || (unsigned)j->o.sync > GD_JOURNAL_SYNC_FULL)
        return gd__error(GD_E_INVALID, "gd_journal_open: resume (%d) or sync (%d) is out of range", (int)j->o.resume,
                         (int)j->o.sync);
    if (j->o.window_ms > WINDOW_MS_MOST)
        return gd__error(GD_E_INVALID, "gd_journal_open: window_ms is %u: it must be at most an hour (3600000)",
                         j->o.window_ms);
    if (j->o.shard.count > 0 || j->o.shard.index > 0)
        rc = gd__shard_check(j->o.shard);
    if (rc == 0)
        rc = check_skip_done(&j->o);
    if (rc == 0)
        rc = gd__identity_siblings(j->o.path, j->o.shard, j->o.skip_done, j->o.n_skip_done);
    return rc < 0 ? rc : copy_options(j);
}

struct last_run {
    char *command; /* NULL: none was given */
    struct gd_shard shard;
};

/* Reads the last run: what identifies its work, and how many records the journal has. */
static int read_last_run(struct gd_journal *j, struct last_run *last)
{
    sqlite3_stmt *s = NULL;
    char sql[128];
    bool in_range = true;
    const char *column = gd__db_shard_column(j->db);
    *last = (struct last_run){ .command = NULL };
    if (!column)
        return gd__db_error(j->db, "read", j->path);
    snprintf(sql, sizeof sql, "SELECT number, all_done, all_failed, command, %s FROM run ORDER BY number DESC LIMIT 1",
             column);
    int rc = gd__db_prepare(j->db, sql, &s);
    if (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        const int64_t number = sqlite3_column_int64(s, 0);
        in_range = number > 0 && number < GD__DB_COUNT_MOST && /* so that number + 1 does not overflow */
                   gd__identity_parse((const char *)sqlite3_column_text(s, 4), &last->shard);
        j->run = (uint64_t)number;
        j->figures.all_done = j->before_done = gd__db_count(s, 1);
        j->figures.all_failed = j->before_failed = gd__db_count(s, 2);
        const char *text = (const char *)sqlite3_column_text(s, 3);
        last->command = text ? gd__strdup(text) : NULL;
        rc = text && !last->command ? SQLITE_NOMEM : SQLITE_DONE;
    }
    const int code = rc == SQLITE_DONE ? 0 : gd__db_error(j->db, "read", j->path);
    sqlite3_finalize(s);
    j->run++;
    return code < 0 || in_range ? code : gd__db_code(SQLITE_CORRUPT, "use", j->path);
}

static int check_resume(const struct gd_journal *j, const struct last_run *last, bool has_records)
{
    const char *command = last->command;
    const unsigned long long records = j->before_done + j->before_failed;
    if (has_records && j->o.resume == GD_JOURNAL_RESUME_NONE)
        return gd__error(
            GD_E_EXISTS,
            "%s already has the records of %llu tasks: resume it, or give another file, or remove this one", j->path,
            records);
    const int rc = has_records ? gd__identity_check(j->path, last->shard, j->o.shard) : 0;
    if (rc < 0)
        return rc;
    if (has_records && command && j->command && !j->o.force && strcmp(command, j->command) != 0)
        return gd__error(GD_E_MISMATCH,
                         "%s was made by another command: \"%s\". The command now is \"%s\". Run the first one, or "
                         "force the resume if both do the same work",
                         j->path, command, j->command);
    return 0;
}

/* Adds the row of this run. What the last run recorded is read again here, in the same transaction: if that run was
 * given up by its heartbeat but still exists, it may have written until now. From here on it cannot. */
static int begin_run(struct gd_journal *j)
{
    struct last_run last = { .command = NULL };
    if (gd__db_exec(j->db, "BEGIN IMMEDIATE") != SQLITE_OK)
        return gd__db_error(j->db, "write to", j->path);
    j->run = 0;
    int rc = read_last_run(j, &last);
    gd__free(last.command);
    if (rc == 0)
        rc = gd__store_begin_run(j);
    return gd__store_end(j, rc);
}

/* The lock file does not tell about a run that may still write to the database, if it was removed, or if it is that of a
 * run which took the journal over but was killed before it had copied the database. */
static int renew_if_last_run_remains(struct gd_journal *j)
{
    bool remains = false;
    int rc = j->hold.took_over ? 0 : gd__store_find_remaining(j, &remains);
    if (rc < 0 || !remains)
        return rc;
    sqlite3_close(j->db);
    j->db = NULL;
    j->hold.took_over = true;
    rc = gd__database_renew(j);
    return rc < 0 ? rc : gd__db_open_write(&j->db, j->path);
}

static int open_records(struct gd_journal *j)
{
    struct last_run last;
    int64_t any = 0;
    int rc = read_last_run(j, &last);
    if (rc == 0 && gd__db_integer(j->db, "SELECT 1 FROM task LIMIT 1", &any) != SQLITE_OK)
        rc = gd__db_error(j->db, "read", j->path);
    if (rc == 0)
        rc = check_resume(j, &last, any != 0);
    gd__free(last.command);
    if (rc == 0)
        rc = gd__db_upgrade(j->db, j->path);
    if (rc == 0)
        rc = renew_if_last_run_remains(j);
    if (rc == 0)
        rc = gd__store_open(j);
    if (rc == 0)
        rc = begin_run(j);
    if (rc == 0 && gd__db_integer(j->db, "SELECT 1 FROM task LIMIT 1", &any) != SQLITE_OK)
        rc = gd__db_error(j->db, "read", j->path);
    if (rc == 0 && any)
        rc = gd__resume_open(&j->resume, j->path, &j->interrupted);
    return rc;
}

/* Reads the journals of skip_done, before anything is written. */
static int read_done(struct gd_journal *j)
{
    struct stat ours, other;
    const bool exists = stat(j->path, &ours) == 0;
    int rc = j->o.n_skip_done > 0 ? gd__done_open(&j->done) : 0;
    for (size_t i = 0; rc == 0 && i < j->o.n_skip_done; i++) {
        const char *path = j->o.skip_done[i];
        if (exists && stat(path, &other) == 0 && other.st_ino == ours.st_ino && other.st_dev == ours.st_dev)
            rc = gd__error(GD_E_INVALID,
                           "%s is the journal of this run, and was also named in skip_done: name only other journals "
                           "there, and resume this one",
                           path);
        else
            rc = gd__done_add(j->done, path);
    }
    return rc;
}

static void init_locks(struct gd_journal *j)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->work, &monotonic);
    pthread_cond_init(&j->moved, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* May change the error message. Can be called twice. */
static void release(struct gd_journal *j)
{
    gd__resume_close(&j->resume);
    gd__done_close(&j->done);
    gd__store_close(j);
    gd__journal_lock_release(&j->hold);
}

static void free_journal(struct gd_journal *j)
{
    release(j);
    gd__follow_close(j);
    gd__free(j->gathered.bytes);
    gd__free(j->writing.bytes);
    gd__free(j->note.text.bytes);
    gd__free(j->path);
    gd__free(j->command);
    for (size_t i = 0; j->skip_done && i < j->o.n_skip_done; i++)
        gd__free(j->skip_done[i]);
    gd__free(j->skip_done);
    pthread_cond_destroy(&j->work);
    pthread_cond_destroy(&j->moved);
    pthread_mutex_destroy(&j->lock);
    gd__free(j);
}

static int fail_to_open(struct gd_journal *j, int rc)
{
    char message[2048];
    snprintf(message, sizeof message, "%s", gd_error_text());
    free_journal(j); /* may change the message */
    return gd__error(rc, "%s", message);
}

static int take_lock(struct gd_journal *j)
{
    const struct gd__journal_lock_ask ask = {
        .wait_ms = j->o.lock_wait_ms, .stop_fd = j->o.wait_stop_fd, .on_wait = j->o.on_wait, .user = j->o.user
    };
    return gd__journal_lock_wait(&j->hold, j->path, &ask);
}

int gd_journal_open(struct gd_journal **out, const struct gd_journal_options *o)
{
    if (!out)
        return gd__error(GD_E_INVALID, "gd_journal_open: out is NULL");
    *out = NULL;
    struct gd_journal *j = gd__calloc(1, sizeof *j);
    if (!j)
        return gd__error(GD_E_NO_MEMORY, "no memory for a journal");
    j->hold = (struct gd__journal_lock)GD__JOURNAL_LOCK_NONE;
    j->pid = getpid();
    j->next_id = 1;
    init_locks(j);
    int rc = read_options(j, o);
    if (rc == 0)
        rc = take_lock(j);
    if (rc == 0 && j->hold.took_over)
        rc = gd__database_renew(j);
    if (rc == 0)
        rc = read_done(j);
    if (rc == 0)
        rc = gd__db_open_write(&j->db, j->path);
    if (rc == 0)
        rc = open_records(j);
    if (rc < 0)
        return fail_to_open(j, rc);
    *out = j;
    return 0;
}

/* --- closing --- */

static int failure_of(const struct gd_journal *j)
{
    if (j->error == 0)
        return 0;
    const uint64_t left = j->n_gathered + j->n_writing + j->n_lost;
    return gd__error(GD_E_JOURNAL,
                     "%s. %llu records of this run are on disk, and %llu are not. A resumed run runs the tasks "
                     "without a record on disk again, and then the remaining tasks",
                     j->message, (unsigned long long)j->n_written, (unsigned long long)left);
}

void gd__journal_files_may_grow(struct gd_journal *j)
{
    j->files_may_grow = true;
}

bool gd__journal_is_ours(struct gd_journal *j)
{
    pthread_mutex_lock(&j->lock);
    const bool written = j->error == 0;
    pthread_mutex_unlock(&j->lock);
    return written && gd__journal_lock_check(&j->hold) == 0;
}

bool gd__journal_was_taken_over(struct gd_journal *j)
{
    return j->hold.shared && gd__journal_lock_is_lost(&j->hold);
}

int gd_journal_close(struct gd_journal **jp)
{
    struct gd_journal *j = jp ? *jp : NULL;
    if (!j)
        return 0;
    *jp = NULL;
    if (j->pid != getpid())
        return 0; /* in a fork: the thread, the lock and the connection belong to the parent */
    if (j->begun)
        gd__writer_stop(j);
    else
        gd__store_forget_run(j);
    if (j->how && j->error == 0 && j->n_files > 0 && !j->files_may_grow)
        gd__follow_end(j);
    release(j); /* first, because the message of the failure must stay */
    const int rc = failure_of(j);
    free_journal(j);
    return rc;
}

/* --- the run's thread --- */

int gd__journal_begin(struct gd_journal *j, const struct gd__journal_run *run)
{
    if (j->begun)
        return gd__error(GD_E_BUSY, "the journal %s was already used for a run: open it again for each run", j->path);
    j->told = *run;
    const int rc = gd__writer_start(j);
    j->begun = rc == 0;
    return rc;
}

void gd__journal_set_total(struct gd_journal *j, uint64_t total)
{
    pthread_mutex_lock(&j->lock);
    j->told.total = total;
    j->row_stale = true;
    pthread_cond_signal(&j->work);
    pthread_mutex_unlock(&j->lock);
}

/* With GD_JOURNAL_SYNC_FULL, results are never more than one window ahead of the disk. */
static void wait_for_disk(struct gd_journal *j)
{
    const uint64_t window = j->o.window_ms * GD__NS_PER_MS;
    while (j->error == 0 && j->gathered.used > 0 && gd__now_ns() - j->gathered_since > window) {
        pthread_cond_signal(&j->work);
        pthread_cond_wait(&j->moved, &j->lock);
    }
}

static void gather(struct gd_journal *j, const struct gd__journal_task *t, const struct gd_report *r)
{
    const bool first = j->gathered.used == 0;
    const size_t before = j->gathered.used;
    /* After a lost record no more are gathered. Otherwise the recorded length of a file could include output of the
     * task whose record was lost. */
    if (j->n_lost > 0 || gd__record_append(&j->gathered, j, t, r) < 0) {
        j->n_lost++;
        gd__writer_fail(j);
        return;
    }
    if (j->n_files > 0)
        gd__follow_measure(j);
    j->n_gathered++;
    if (first)
        j->gathered_since = gd__now_ns();
    const size_t much = gd__writer_much(j);
    if (first || (before < much && j->gathered.used >= much))
        pthread_cond_signal(&j->work);
}

void gd__journal_put(struct gd_journal *j, struct gd__journal_task *t, const struct gd_report *r)
{
    const bool lost = j->note.set && j->note.note.not_done;
    const bool is_final = r->failure != GD_FAILURE_CANCELLED && r->failure != GD_FAILURE_NO_WORKER && !lost;
    if (is_final && t->id > 0) {
        pthread_mutex_lock(&j->lock);
        if (j->o.sync == GD_JOURNAL_SYNC_FULL)
            wait_for_disk(j);
        gather(j, t, r);
        pthread_mutex_unlock(&j->lock);
    }
    gd__note_clear(&j->note);
    gd__free(t);
}

int gd__journal_end(struct gd_journal *j, const char *how)
{
    pthread_mutex_lock(&j->lock);
    j->how = how;
    j->ended = gd__wall_clock();
    j->row_stale = true;
    j->flush = true;
    pthread_cond_signal(&j->work);
    while (j->error == 0 && (j->gathered.used > 0 || j->writing.used > 0 || j->row_stale || j->busy_now))
        pthread_cond_wait(&j->moved, &j->lock);
    j->told.failed = NULL; /* the writer may still be writing; it must not end the run any more */
    if (j->error < 0)
        j->how = "journal failed";
    const int rc = failure_of(j);
    pthread_mutex_unlock(&j->lock);
    return rc;
}

/* --- the feeder's thread --- */

static size_t unwritten(const struct gd_journal *j)
{
    return j->gathered.used + j->writing.used;
}

void gd__journal_admit(struct gd_journal *j)
{
    pthread_mutex_lock(&j->lock);
    while (unwritten(j) > j->o.queue_bytes && j->error == 0 && !atomic_load(&j->interrupted))
        pthread_cond_wait(&j->moved, &j->lock);
    pthread_mutex_unlock(&j->lock);
}

bool gd__journal_has_room(struct gd_journal *j)
{
    pthread_mutex_lock(&j->lock);
    const bool has = unwritten(j) <= j->o.queue_bytes || j->error < 0;
    pthread_mutex_unlock(&j->lock);
    return has;
}

void gd__journal_interrupt(struct gd_journal *j)
{
    pthread_mutex_lock(&j->lock);
    atomic_store(&j->interrupted, true);
    pthread_cond_broadcast(&j->moved);
    pthread_mutex_unlock(&j->lock);
}

/* Whether a task with this record is run again in this mode of resuming. */
static bool runs_again(enum gd_journal_resume resume, const struct gd__row *row, bool same_version)
{
    const bool failed = row->state == GD__FINAL_FAILED;
    switch (resume) {
    case GD_JOURNAL_RESUME_FAILED:
        return failed;
    case GD_JOURNAL_RESUME_REST_AND_FAILED:
        return failed || !same_version;
    default:
        return !same_version;
    }
}

static struct gd__journal_task *new_task(const struct gd__journal_key *key, uint64_t number)
{
    const size_t length = key->version ? strlen(key->version) : 0;
    struct gd__journal_task *t = gd__calloc(1, sizeof *t + length + 1);
    if (!t)
        return NULL;
    t->number = number;
    t->has_version = key->version != NULL;
    memcpy(t->key, key->hash, sizeof t->key);
    if (key->version)
        memcpy(t->version, key->version, length);
    return t;
}

static uint64_t hash_version(const char *version)
{
    return version ? gd__row_version(version, strlen(version)) : 0;
}

/* Updates the run row once in TELL_EVERY skipped tasks, so that readers see progress even if there are no records to
 * write. */
static void count_skipped(struct gd_journal *j, bool failed)
{
    if (failed)
        atomic_fetch_add_explicit(&j->skipped_failed, 1, memory_order_relaxed);
    if ((atomic_fetch_add_explicit(&j->skipped, 1, memory_order_relaxed) + 1) % TELL_EVERY != 0)
        return;
    pthread_mutex_lock(&j->lock);
    j->row_stale = true;
    pthread_cond_signal(&j->work);
    pthread_mutex_unlock(&j->lock);
}

static int lookup_failed(struct gd_journal *j, int code)
{
    pthread_mutex_lock(&j->lock);
    gd__writer_fail(j);
    pthread_mutex_unlock(&j->lock);
    return code;
}

int gd__journal_take(struct gd_journal *j, const struct gd__journal_key *key, uint64_t number,
                     struct gd__journal_task **out)
{
    struct gd__row row = { .id = 0 };
    const uint64_t version = j->resume || j->done ? hash_version(key->version) : 0;
    /* This comes first: gd__resume_find() would reserve an id for the task. */
    if (j->done && gd__done_take(j->done, key->hash, version)) {
        count_skipped(j, false);
        return 0;
    }
    const int found = j->resume ? gd__resume_find(j->resume, key->hash, version, &row) : 0;
    if (found < 0 && found != GD_E_SHUTDOWN)
        return lookup_failed(j, found);
    const bool only_failed = j->o.resume == GD_JOURNAL_RESUME_FAILED;
    if (found == 0 ? only_failed : found == 1 && !runs_again(j->o.resume, &row, row.version == version)) {
        count_skipped(j, found == 1 && row.state == GD__FINAL_FAILED);
        return 0;
    }
    struct gd__journal_task *t = new_task(key, number);
    if (!t)
        return gd__error(GD_E_NO_MEMORY, "no memory for a task");
    if (found == 1) {
        t->replaces = row.state;
        t->attempts = row.version == version ? row.attempts : 0;
    }
    if (found >= 0)
        t->id = j->resume ? row.id : j->next_id++;
    atomic_fetch_add_explicit(&j->taken, 1, memory_order_relaxed);
    *out = t;
    return 1;
}

bool gd__journal_take_reads(const struct gd_journal *j, const struct gd__journal_key *key)
{
    return j->resume && gd__resume_find_reads(j->resume, key->hash);
}

/* --- any thread --- */

uint64_t gd__journal_skipped(struct gd_journal *j)
{
    return atomic_load_explicit(&j->skipped, memory_order_relaxed);
}

struct gd_shard gd__journal_shard(const struct gd_journal *j)
{
    return j->o.shard;
}

const char *gd__journal_path(const struct gd_journal *j)
{
    return j->path;
}

int gd_journal_get_counts(struct gd_journal *j, struct gd_journal_counts *out)
{
    if (!j)
        return gd__error(GD_E_INVALID, "gd_journal_get_counts: no journal");
    struct gd_journal_counts c = {
        .run = j->run,
        .before = j->before_done + j->before_failed,
        .done_before = j->before_done,
        .failed_before = j->before_failed,
        .skipped = gd__journal_skipped(j),
        .skipped_failed = atomic_load_explicit(&j->skipped_failed, memory_order_relaxed),
    };
    pthread_mutex_lock(&j->lock);
    c.recorded = j->n_written;
    c.waiting = j->n_gathered + j->n_writing;
    pthread_mutex_unlock(&j->lock);
    return gd__sized_write(out, &c, sizeof c, "gd_journal_counts");
}
