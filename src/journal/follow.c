/* Files that callbacks append to. Their lengths are committed with the records of the tasks that wrote to them, so a
 * file is never shorter than its journal says, and what lies beyond belongs to tasks that will be run again.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "journal/internal.h"

/* The length in the journal, or -1; -2: it cannot be read. */
static int64_t known_size(struct gd_journal *j, const char *path)
{
    sqlite3_stmt *s = NULL;
    int64_t size = -2;
    if (gd__db_prepare(j->db, "SELECT size FROM file WHERE path = CAST(?1 AS TEXT)", &s) == SQLITE_OK) {
        sqlite3_bind_blob(s, 1, path, (int)strlen(path), SQLITE_STATIC);
        const int rc = sqlite3_step(s);
        size = rc == SQLITE_ROW ? sqlite3_column_int64(s, 0) : rc == SQLITE_DONE ? -1 : -2;
    }
    sqlite3_finalize(s);
    return size;
}

static int cut_back(const struct gd_journal *j, const char *path, int fd, int64_t present, int64_t known)
{
    if (present < known && !j->o.force)
        return gd__error(
            GD_E_MISMATCH,
            "%s has %lld bytes and the journal %s knows of %lld: what was done is not all there. Bring the "
            "file back, or begin anew with another journal (or force it, and go without)",
            path, (long long)present, j->path, (long long)known);
    if (present > known && (GD__FAULT("ftruncate") || ftruncate(fd, known) < 0))
        return gd__error_errno("cannot cut %s back to the %lld bytes that the journal knows", path, (long long)known);
    if (lseek(fd, 0, SEEK_END) < 0)
        return gd__error_errno("cannot go to the end of %s", path);
    return 0;
}

static int add_file(struct gd_journal *j, const char *name, int fd)
{
    struct gd__follow *files = gd__realloc(j->files, (j->n_files + 1) * sizeof *files);
    if (files)
        j->files = files;
    char *copy = files ? gd__strdup(name) : NULL;
    if (!copy)
        return gd__error(GD_E_NO_MEMORY, "no memory for the name of a file");
    j->files[j->n_files++] = (struct gd__follow){ .path = copy, .fd = fd };
    gd__follow_measure(j);
    /* Now, not with the first group: a run that is killed before that has written to the file too. */
    return gd__store_file(j, &j->files[j->n_files - 1]);
}

static int follow(struct gd_journal *j, const char *path, int fd, bool anew)
{
    struct stat info;
    char full[PATH_MAX];
    if (!j || !path || fd < 0 || j->begun)
        return gd__error(GD_E_INVALID,
                         "gd_journal_follow: a journal before its run, a path and a descriptor are needed");
    if (fstat(fd, &info) < 0)
        return gd__error_errno("cannot look at %s", path);
    if (!S_ISREG(info.st_mode)) /* a pipe or a terminal has no length */
        return 0;
    const char *name = realpath(path, full) ? full : path;
    const int64_t known = known_size(j, name);
    if (known == -2)
        return gd__db_error(j->db, "read", j->path);
    const int rc = known >= 0 && !anew ? cut_back(j, path, fd, info.st_size, known) : 0;
    return rc < 0 ? rc : add_file(j, name, fd);
}

int gd_journal_follow(struct gd_journal *j, const char *path, int fd)
{
    return follow(j, path, fd, false);
}

/* After the run the writer is at rest; it commits the length as it does everything. */
static int replace_file(struct gd_journal *j, struct gd__follow *f, int fd)
{
    struct stat info;
    if (fstat(fd, &info) < 0)
        return gd__error_errno("cannot look at %s", f->path);
    pthread_mutex_lock(&j->lock);
    f->fd = fd;
    f->size = (uint64_t)info.st_size;
    j->row_stale = j->flush = true;
    pthread_cond_signal(&j->work);
    while (j->error == 0 && (j->row_stale || j->busy_now))
        pthread_cond_wait(&j->moved, &j->lock);
    const int rc = j->error < 0 ? gd__error(GD_E_JOURNAL, "%s", j->words) : 0;
    pthread_mutex_unlock(&j->lock);
    return rc;
}

int gd_journal_follow_anew(struct gd_journal *j, const char *path, int fd)
{
    char full[PATH_MAX];
    if (!j || !j->begun)
        return follow(j, path, fd, true);
    const char *name = path && realpath(path, full) ? full : path;
    for (size_t i = 0; name && i < j->n_files; i++)
        if (strcmp(j->files[i].path, name) == 0)
            return replace_file(j, &j->files[i], fd);
    return gd__error(GD_E_INVALID, "gd_journal_follow_anew: %s was not followed before", path ? path : "(null)");
}

void gd__follow_measure(struct gd_journal *j)
{
    struct stat info;
    for (size_t i = 0; i < j->n_files; i++)
        if (fstat(j->files[i].fd, &info) == 0)
            j->files[i].size = (uint64_t)info.st_size;
}

/* What the system could not write it forgets: another call would succeed, and the bytes be missing all the same. */
static int sync_file(struct gd__follow *f)
{
    if (f->sync_errno == 0 && (GD__FAULT("fdatasync") || fdatasync(f->fd) < 0))
        f->sync_errno = errno;
    errno = f->sync_errno;
    return f->sync_errno == 0 ? 0 : -1;
}

int gd__follow_sync(struct gd_journal *j)
{
    for (size_t i = 0; i < j->n_files; i++)
        if (j->files[i].size_then != j->files[i].size_kept && sync_file(&j->files[i]) < 0)
            return gd__error_errno("cannot force %s to the disk", j->files[i].path);
    return 0;
}

void gd__follow_close(struct gd_journal *j)
{
    for (size_t i = 0; i < j->n_files; i++)
        gd__free(j->files[i].path);
    gd__free(j->files);
    j->files = NULL;
    j->n_files = 0;
}
