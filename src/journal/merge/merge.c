/* Several journals as one: see merge.h and <gpu_dispatch/journal.h>.
 *
 * The new journal is written under a temporary name and linked to its name when it is complete and on the disk. So
 * whenever this process is killed, there is either no new journal or the whole one. The temporary file is locked while
 * it is written. One that is not locked was left by a process that was killed, and is replaced.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/sized.h"
#include "journal/merge/merge.h"
#include "journal/read/reader.h"

enum { TRIES = 16 };

static int no_memory(void)
{
    (void)gd__error(GD_E_NO_MEMORY, "no memory to merge journals");
    return GD_E_NO_MEMORY; /* so that a check of this file alone knows that it is not 0 */
}

/* --- options --- */

static int read_options(struct gd_journal_merge_options *to, const struct gd_journal_merge_options *o, const char *call)
{
    *to = (struct gd_journal_merge_options){ .size = sizeof *to };
    const int rc = gd__sized_read(to, sizeof *to, o, "gd_journal_merge_options");
    if (rc < 0)
        return rc;
    if (to->n_paths == 0 || !to->paths)
        return gd__error(GD_E_INVALID, "%s: no journals are given: set paths and n_paths", call);
    for (size_t i = 0; i < to->n_paths; i++)
        if (!to->paths[i] || !*to->paths[i])
            return gd__error(GD_E_INVALID, "%s: paths[%zu] is empty: give the path of a journal", call, i);
    if (to->n_paths >= UINT32_MAX)
        return gd__error(GD_E_INVALID, "%s: there are too many journals", call);
    return 0;
}

static int open_merge(struct gd__merge *m, const struct gd_journal_merge_options *o, const char *directory)
{
    *m = (struct gd__merge){ .n = o->n_paths, .directory = directory, .force = o->force, .at = SIZE_MAX };
    m->inputs = gd__calloc(m->n, sizeof *m->inputs);
    if (!m->inputs)
        return no_memory();
    for (size_t i = 0; i < m->n; i++)
        m->inputs[i].path = o->paths[i];
    return 0;
}

static void close_merge(struct gd__merge *m)
{
    for (size_t i = 0; m->inputs && i < m->n; i++) {
        struct gd__merge_input *in = &m->inputs[i];
        if (in->keep)
            munmap(in->keep, in->keep_size);
        gd__free(in->order);
        gd__free(in->runs);
    }
    gd__free(m->inputs);
    gd__free(m->command);
}

static const char *temporary_directory(void)
{
    const char *named = getenv("TMPDIR");
    return named && *named ? named : "/tmp";
}

/* --- writing --- */

/* The journals are of different shards, so all their records are written. Returns GD__MERGE_NEEDS_CHOICE if that was
 * wrong. */
static int write_all(struct gd__merge *m, sqlite3 *db)
{
    int rc = gd__merge_keys_open(&m->seen, m->directory);
    if (rc == 0)
        rc = gd__merge_insert(m, db);
    if (rc == 0)
        rc = gd__merge_check_seen(m);
    gd__merge_keys_close(&m->seen);
    if (rc == GD__MERGE_NEEDS_CHOICE && gd__db_exec(db, "DELETE FROM task") != SQLITE_OK)
        rc = gd__db_error(db, "write", "the merged journal");
    return rc;
}

static int write_chosen(struct gd__merge *m, sqlite3 *db)
{
    m->at = SIZE_MAX;
    m->counts.done = m->counts.failed = 0;
    const int rc = gd__merge_choose(m);
    return rc == 0 ? gd__merge_insert(m, db) : rc;
}

static int merge_into(struct gd__merge *m, sqlite3 *db)
{
    int rc = gd__merge_runs(m, db);
    if (rc == 0)
        rc = m->disjoint ? write_all(m, db) : GD__MERGE_NEEDS_CHOICE;
    if (rc == GD__MERGE_NEEDS_CHOICE)
        rc = write_chosen(m, db);
    return rc == 0 ? gd__merge_end_run(m, db) : rc;
}

/* The file of the new journal. */
struct output {
    const char *path;
    char *part; /* its name until it is complete */
    char *directory;
    int fd; /* keeps the lock on the part; -1: there is none */
};

/* A journal's -wal or -journal file belongs to the file with its name, whatever that contains. One that is left from a
 * journal that was removed would change the new one. */
static int check_free(const char *path)
{
    static const char *const suffixes[] = { "", "-wal", "-journal" };
    char name[PATH_MAX];
    struct stat info;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (snprintf(name, sizeof name, "%s%s", path, suffixes[i]) >= (int)sizeof name)
            return gd__error(GD_E_INVALID, "the name %s is too long", path);
        if (lstat(name, &info) == 0)
            return gd__error(GD_E_EXISTS, "%s exists: remove it, or give another name for the merged journal", name);
        if (errno != ENOENT)
            return gd__error_errno("cannot use %s", name);
    }
    return 0;
}

static int check_not_input(const struct gd_journal_merge_options *o)
{
    struct stat out, in;
    if (stat(o->output, &out) < 0)
        return 0;
    for (size_t i = 0; i < o->n_paths; i++)
        if (stat(o->paths[i], &in) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
            return gd__error(GD_E_INVALID,
                             "%s is one of the journals to merge: give another name for the merged journal", o->output);
    return 0;
}

/* Locks the first byte of the part. SQLite locks other bytes of the file. A lock of the whole file (flock()) would be in
 * its way on NFS. If the file system has no locks, the part is used nevertheless. */
static bool is_locked_by_another(int fd)
{
    struct flock first = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
    return fcntl(fd, F_OFD_SETLK, &first) < 0 && (errno == EAGAIN || errno == EACCES);
}

/* Opens the part and locks it. Returns 1 if it was just replaced by another process: try again. */
static int lock_part(struct output *out)
{
    struct stat opened, named;
    out->fd = gd__fd_above_stdio(open(out->part, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (out->fd < 0)
        return gd__error_errno("cannot make %s", out->part);
    if (is_locked_by_another(out->fd)) {
        gd__fd_close(&out->fd); /* the file belongs to that process */
        return gd__error(GD_E_BUSY, "another process is writing %s: wait for it, or give another name", out->path);
    }
    const bool same = fstat(out->fd, &opened) == 0 && stat(out->part, &named) == 0 && opened.st_dev == named.st_dev &&
                      opened.st_ino == named.st_ino && opened.st_nlink == 1;
    if (same && S_ISREG(opened.st_mode) && opened.st_size == 0)
        return 0;
    /* It was left by a process that was killed, or has just become the journal of another process. */
    if (same && unlink(out->part) < 0)
        return gd__error_errno("cannot remove %s", out->part);
    gd__fd_close(&out->fd);
    return 1;
}

static int open_output(struct output *out, const char *path)
{
    char *copy = gd__strdup(path);
    *out = (struct output){ .path = path, .fd = -1 };
    out->directory = copy ? gd__strdup(dirname(copy)) : NULL;
    gd__free(copy);
    if (!out->directory || asprintf(&out->part, "%s.part", path) < 0) {
        out->part = NULL;
        return no_memory();
    }
    int rc = check_free(path);
    if (rc < 0)
        return rc;
    rc = 1;
    for (int i = 0; i < TRIES && rc == 1; i++)
        rc = lock_part(out);
    return rc == 1 ? gd__error(GD_E_BUSY, "another process is writing %s", out->part) : rc;
}

static int sync_directory(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int rc = fd < 0 || (fsync(fd) < 0 && errno != EINVAL) ? -1 : 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

/* Gives the file its name, unless there is a file with that name. A link is used, and not a rename without replacing,
 * because some network file systems ignore that flag. The rename is for file systems without links. */
static int put_in_place(struct output *out)
{
    if (fsync(out->fd) < 0)
        return gd__error_errno("cannot write %s", out->part);
    GD__KILL_POINT("merge_place");
    int rc = GD__FAULT("link") ? -1 : link(out->part, out->path);
    if (rc == 0)
        (void)unlink(out->part); /* if this fails, a second name of the file is left */
    else if (errno != EEXIST)
        rc = renameat2(AT_FDCWD, out->part, AT_FDCWD, out->path, RENAME_NOREPLACE);
    if (rc < 0 && errno == EEXIST)
        return gd__error(GD_E_EXISTS, "%s was made meanwhile: remove it, or give another name for the merged journal",
                         out->path);
    if (rc < 0)
        return gd__error_errno("cannot rename %s to %s", out->part, out->path);
    GD__KILL_POINT("merge_placed");
    return sync_directory(out->directory) < 0 ? gd__error_errno("cannot write %s", out->directory) : 0;
}

static void close_output(struct output *out, bool failed)
{
    if (failed && out->fd >= 0 && out->part)
        (void)unlink(out->part);
    gd__fd_close(&out->fd);
    free(out->part);
    gd__free(out->directory);
}

static int write_output(struct gd__merge *m, const struct gd_journal_merge_options *o)
{
    struct output out;
    sqlite3 *db = NULL;
    int rc = open_output(&out, o->output);
    m->directory = out.directory;
    if (rc == 0)
        rc = gd__db_open_new(&db, out.part);
    if (rc == 0)
        rc = merge_into(m, db);
    if (sqlite3_close(db) != SQLITE_OK && rc == 0)
        rc = gd__error(GD_E_SYSTEM, "cannot close %s", out.part);
    if (rc == 0)
        rc = put_in_place(&out);
    close_output(&out, rc < 0);
    return rc;
}

/* --- the public functions --- */

static void tell_unreadable(const struct gd_journal_merge_options *o, const struct gd__merge *m, int rc)
{
    if (o->unreadable)
        *o->unreadable = rc < 0 ? m->at : SIZE_MAX;
}

int gd_journal_merge(const struct gd_journal_merge_options *options, struct gd_journal_merge_counts *out)
{
    struct gd_journal_merge_options o;
    struct gd__merge m = { .n = 0 };
    int rc = read_options(&o, options, "gd_journal_merge");
    if (rc < 0)
        return rc;
    rc = open_merge(&m, &o, temporary_directory());
    if (rc == 0 && o.output)
        rc = check_not_input(&o);
    if (rc == 0)
        rc = o.output ? write_output(&m, &o) : gd__merge_choose(&m);
    tell_unreadable(&o, &m, rc);
    if (rc == 0 && out)
        rc = gd__sized_write(out, &m.counts, sizeof m.counts, "gd_journal_merge_counts");
    close_merge(&m);
    return rc;
}

/* The merged records are in a database without a name, which SQLite removes when it is closed. */
int gd_journal_reader_open_merged(struct gd_journal_reader **out, const struct gd_journal_merge_options *options)
{
    struct gd_journal_merge_options o;
    struct gd__merge m = { .n = 0 };
    sqlite3 *db = NULL;
    if (!out)
        return gd__error(GD_E_INVALID, "gd_journal_reader_open_merged: out is NULL");
    *out = NULL;
    int rc = read_options(&o, options, "gd_journal_reader_open_merged");
    if (rc < 0)
        return rc;
    if (o.output)
        return gd__error(GD_E_INVALID, "gd_journal_reader_open_merged: output is set, but this function writes none");
    rc = open_merge(&m, &o, temporary_directory());
    if (rc == 0)
        rc = gd__db_open_new(&db, "");
    if (rc == 0)
        rc = merge_into(&m, db);
    tell_unreadable(&o, &m, rc);
    if (rc == 0)
        rc = gd__reader_of(out, db, NULL);
    if (rc < 0)
        sqlite3_close(db);
    close_merge(&m);
    return rc;
}
