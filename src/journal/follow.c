/* Files that callbacks append to. Their lengths are committed with the records of the tasks that wrote to them. So a
 * file is never shorter than its journal says, and the bytes beyond that length belong to tasks that will be run again.
 *
 * Four more values are stored with a length, in columns that version 0.1 did not have. A journal of version 0.1 gets
 * these columns when it is next written to. Version 0.1 leaves them NULL.
 *
 *   beside   the file's path relative to the journal's directory. Journal and file are often moved or copied together,
 *            or reached through another mount. Then this path is still right, but the absolute path is not.
 *   tail     the hash of the last TAIL bytes before that length (of all bytes, if there are fewer). If an edit moves
 *            the place where the file would be cut, these bytes change, and the file is refused before it is cut. An
 *            edit before these bytes that keeps the length is not found, but does no harm: the file is still cut at the
 *            right place. Reading TAIL bytes costs the same for a file of any size.
 *   ended    1: the run ended with the file exactly that long. Bytes beyond that were written by another program.
 *   renew    1: a run that may still exist has the file open. See renew.c.
 *
 * A run that was given up by its heartbeat (lock/lock.c) may still exist. A run cuts, empties or adds a file within a
 * transaction, which fails if it was given up, so it never cuts a file of its successor. So the file must be open before
 * that, and must not be emptied when it is opened. Its successor does not continue its file, but a copy (renew.c), even if
 * the file is not recorded, so it cannot append to the file of its successor either.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "binding.h"
#include "journal/internal.h"

enum { TAIL = 64 << 10 };

/* Part of the format: it must never change. */
static const unsigned char tail_key[16] = { 'g', 'p', 'u', '_', 'd', 'i', 's', 'p',
                                            'a', 't', 'c', 'h', 't', 'a', 'i', 'l' };

/* --- the end of a file --- */

/* Opens the file at fd for reading. Returns -1 if that is not possible. The bytes of the file are then not checked. */
static int open_to_read(const char *path, int fd)
{
    struct stat given, opened;
    const int reader = gd__fd_above_stdio(open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (reader < 0)
        return -1;
    if (fstat(fd, &given) == 0 && fstat(reader, &opened) == 0 && given.st_dev == opened.st_dev &&
        given.st_ino == opened.st_ino)
        return reader;
    close(reader);
    return -1;
}

static bool read_whole(int fd, unsigned char *to, size_t size, uint64_t from)
{
    for (size_t have = 0; have < size;) {
        const ssize_t n = pread(fd, to + have, size - have, (off_t)(from + have));
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return false;
        have += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Reads the last bytes before that length into f->room. Returns the number of bytes, or -1 if they cannot be read. */
static ssize_t read_tail(const struct gd__follow *f, uint64_t size)
{
    const size_t n = size < TAIL ? (size_t)size : TAIL;
    return f->reader >= 0 && read_whole(f->reader, f->room, n, size - n) ? (ssize_t)n : -1;
}

bool gd__follow_tail(const struct gd__follow *f, uint64_t size, unsigned char out[GD__HASH_SIZE])
{
    const ssize_t n = read_tail(f, size);
    if (n >= 0)
        gd__siphash128(tail_key, f->room, (size_t)n, out);
    return n >= 0;
}

static bool ends_line(const struct gd__follow *f, uint64_t size)
{
    const ssize_t n = read_tail(f, size);
    return n <= 0 || f->room[n - 1] == '\n';
}

/* --- paths --- */

/* Sets out to the path of file relative to directory. Both are absolute and without links. Returns false if the result
 * does not fit. */
static bool relative_path(char out[PATH_MAX], const char *directory, const char *file)
{
    size_t same = 0, at = 0;
    for (size_t i = 0; directory[i] && directory[i] == file[i]; i++)
        if (file[i] == '/')
            same = i + 1;
    /* "/a/b" contains "/a/b/c", but not "/a/bc" */
    const size_t length = strlen(directory);
    if (strncmp(directory, file, length) == 0 && file[length] == '/')
        same = length + 1;
    for (const char *rest = directory + (same < length ? same : length); *rest; rest += strspn(rest, "/")) {
        if (at + 3 >= PATH_MAX)
            return false;
        at += (size_t)sprintf(out + at, "../");
        rest += strcspn(rest, "/");
    }
    const int n = snprintf(out + at, PATH_MAX - at, "%s", file + same);
    return n >= 0 && (size_t)n < PATH_MAX - at;
}

/* Sets out to the path of the file relative to the journal's directory. Returns false if there is no such path. */
static bool path_beside(const struct gd_journal *j, const char *file, char out[PATH_MAX])
{
    char full[PATH_MAX];
    const char *journal = gd__db_full_path(j->path, full);
    if (journal != full || *file != '/')
        return false;
    char *slash = strrchr(full, '/');
    slash[slash == full] = '\0';
    return relative_path(out, full, file);
}

/* --- what the journal has recorded --- */

struct recorded_file {
    int64_t size; /* -1: the file is not in the journal */
    bool ended, has_tail, renew;
    unsigned char tail[GD__HASH_SIZE];
};

/* Adds the columns that a journal of version 0.1 does not have. */
static int add_columns(struct gd_journal *j)
{
    static const char *const columns[] = { "beside", "tail", "ended", "renew" };
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        char sql[128];
        int64_t has;
        snprintf(sql, sizeof sql, "SELECT count(*) FROM pragma_table_info('file') WHERE name = '%s'", columns[i]);
        if (gd__db_integer(j->db, sql, &has) != SQLITE_OK)
            return gd__db_error(j->db, "read", j->path);
        snprintf(sql, sizeof sql, "ALTER TABLE file ADD COLUMN %s", columns[i]);
        if (!has && gd__db_exec(j->db, sql) != SQLITE_OK)
            return gd__db_error(j->db, "write to", j->path);
    }
    return 0;
}

int gd__follow_mark(struct gd_journal *j)
{
    const int rc = add_columns(j);
    if (rc == 0 && gd__db_exec(j->db, "UPDATE file SET renew = 1") != SQLITE_OK)
        return gd__db_error(j->db, "write to", j->path);
    return rc;
}

static void bind_path(sqlite3_stmt *s, int column, const char *path)
{
    if (path)
        sqlite3_bind_blob(s, column, path, (int)strlen(path), SQLITE_STATIC);
}

static void read_known(struct recorded_file *out, sqlite3_stmt *s)
{
    out->size = sqlite3_column_int64(s, 0);
    out->has_tail = sqlite3_column_type(s, 1) == SQLITE_BLOB && sqlite3_column_bytes(s, 1) == GD__HASH_SIZE;
    out->ended = sqlite3_column_int(s, 2) == 1;
    out->renew = sqlite3_column_int(s, 3) == 1;
    if (out->has_tail)
        memcpy(out->tail, sqlite3_column_blob(s, 1), GD__HASH_SIZE);
}

/* Finds the file by its path relative to the journal, or by its absolute path. Two rows may match if version 0.1
 * continued a journal that had been moved. Then the greater length is used, because cutting to it loses no results. */
static int look_up(struct gd_journal *j, const struct gd__follow *f, struct recorded_file *out)
{
    sqlite3_stmt *s = NULL;
    *out = (struct recorded_file){ .size = -1 };
    int rc = gd__db_prepare(
        j->db,
        "SELECT size, tail, ended, renew FROM file WHERE path = CAST(?1 AS TEXT) OR beside = CAST(?2 AS TEXT)"
        " ORDER BY size DESC LIMIT 1",
        &s);
    if (rc == SQLITE_OK) {
        bind_path(s, 1, f->path);
        bind_path(s, 2, f->beside);
        rc = sqlite3_step(s);
    }
    if (rc == SQLITE_ROW)
        read_known(out, s);
    const int code = rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : gd__db_error(j->db, "read", j->path);
    sqlite3_finalize(s);
    return code;
}

/* Deletes the rows that were written for this file before it was moved. */
static int forget_moved(struct gd_journal *j, const struct gd__follow *f)
{
    sqlite3_stmt *s = NULL;
    int rc = gd__db_prepare(j->db, "DELETE FROM file WHERE beside = CAST(?1 AS TEXT) AND path <> CAST(?2 AS TEXT)", &s);
    if (rc == SQLITE_OK) {
        bind_path(s, 1, f->beside);
        bind_path(s, 2, f->path);
        rc = sqlite3_step(s);
    }
    const int code = rc == SQLITE_DONE ? 0 : gd__db_error(j->db, "write to", j->path);
    sqlite3_finalize(s);
    return code;
}

/* --- cutting a file back --- */

/* Whether the file up to the recorded length is as it was written. If no tail is recorded (version 0.1 stored none),
 * checks only that a line ends there. */
static bool is_as_written(const struct gd__follow *f, const struct recorded_file *known)
{
    unsigned char tail[GD__HASH_SIZE];
    if (f->reader < 0)
        return true;
    if (!known->has_tail)
        return ends_line(f, (uint64_t)known->size);
    return gd__follow_tail(f, (uint64_t)known->size, tail) && memcmp(tail, known->tail, sizeof tail) == 0;
}

static int refuse_short(const struct gd_journal *j, const char *path, int64_t present, int64_t known)
{
    return gd__error(GD_E_MISMATCH,
                     "%s has %lld bytes, but the journal %s recorded %lld: results are missing. Restore the file, or "
                     "start again with another journal, or force the resume and go on without them",
                     path, (long long)present, j->path, (long long)known);
}

static int refuse_edited(const struct gd_journal *j, const char *path, int64_t known)
{
    return gd__error(
        GD_E_MISMATCH,
        "%s was changed since the journal %s wrote to it: byte %lld is no longer where the last record ends, "
        "so truncating the file there could destroy lines. The file is unchanged. Restore the file, or name another "
        "file for the rest of the tasks, or force the resume: it truncates nothing, and some tasks may have two lines",
        path, j->path, (long long)known);
}

static int refuse_grown(const struct gd_journal *j, const char *path, int64_t more)
{
    return gd__error(
        GD_E_MISMATCH,
        "%s has %lld bytes more than the last run left there, so another program wrote to it. Truncating the file to "
        "what the journal %s recorded would destroy those bytes. The file is unchanged. Restore the file, or name "
        "another file for the rest of the tasks, or force the resume: it truncates nothing",
        path, (long long)more, j->path);
}

/* Returns 0 if the file can be cut back. Otherwise sets the error message to the reason and returns its code. */
static int refusal(const struct gd_journal *j, const char *path, const struct gd__follow *f, int64_t present,
                   const struct recorded_file *known)
{
    if (present < known->size)
        return refuse_short(j, path, present, known->size);
    if (!is_as_written(f, known))
        return refuse_edited(j, path, known->size);
    return known->ended && present > known->size ? refuse_grown(j, path, present - known->size) : 0;
}

/* Continues a file that was changed, if the resume is forced: nothing is cut off, and new results begin on a new
 * line. */
static int continue_changed(const struct gd__follow *f, const char *path, int64_t present)
{
    if (!ends_line(f, (uint64_t)present) && pwrite(f->fd, "\n", 1, (off_t)present) != 1)
        return gd__error_errno("cannot write %s", path);
    return 0;
}

static int cut_back(const struct gd_journal *j, const char *path, const struct gd__follow *f, int64_t present,
                    const struct recorded_file *known)
{
    int rc = refusal(j, path, f, present, known);
    if (rc < 0 && j->o.force)
        rc = continue_changed(f, path, present);
    else if (rc < 0)
        return rc;
    else if (present > known->size && (GD__FAULT("ftruncate") || ftruncate(f->fd, known->size) < 0))
        rc = gd__error_errno("cannot truncate %s to the %lld bytes that the journal recorded", path,
                             (long long)known->size);
    if (rc == 0 && lseek(f->fd, 0, SEEK_END) < 0)
        rc = gd__error_errno("cannot seek to the end of %s", path);
    return rc;
}

/* --- following --- */

static void free_follow(struct gd__follow *f)
{
    if (f->reader >= 0)
        close(f->reader);
    gd__free(f->path);
    gd__free(f->beside);
    gd__free(f->room);
}

static int make_follow(struct gd_journal *j, struct gd__follow *f, const char *name, int fd)
{
    char beside[PATH_MAX];
    const bool has = path_beside(j, name, beside);
    *f = (struct gd__follow){ .fd = fd, .reader = -1, .path = gd__strdup(name), .room = gd__calloc(1, TAIL) };
    if (has)
        f->beside = gd__strdup(beside);
    if (!f->path || !f->room || (has && !f->beside))
        return gd__error(GD_E_NO_MEMORY, "no memory to record the length of a file");
    f->reader = open_to_read(name, fd);
    return 0;
}

/* Takes over the members of f, unless it fails. */
static int add_file(struct gd_journal *j, const struct gd__follow *f)
{
    int rc = forget_moved(j, f);
    if (rc < 0)
        return rc;
    struct gd__follow *files = gd__realloc(j->files, (j->n_files + 1) * sizeof *files);
    if (!files)
        return gd__error(GD_E_NO_MEMORY, "no memory for the name of a file");
    j->files = files;
    files[j->n_files++] = *f;
    gd__follow_measure(j);
    /* The length is stored now and not with the first group, because a run may write to the file and be killed before
     * that. */
    rc = gd__store_file(j, &files[j->n_files - 1]);
    j->n_files -= rc < 0;
    return rc;
}

/* What becomes of the contents of a file. */
enum contents { CUT, KEEP, EMPTY };

/* Whether a run that was given up may have the file open. It may also have made a file that is not recorded. */
static int find_other_user(struct gd_journal *j, const struct recorded_file *known, bool *found)
{
    int64_t given_up = 0;
    *found = known->size >= 0 ? known->renew : j->hold.took_over;
    if (known->size >= 0 || *found || !j->hold.shared)
        return 0;
    if (gd__db_integer(j->db, "SELECT 1 FROM run WHERE nonce IS NULL LIMIT 1", &given_up) != SQLITE_OK)
        return gd__db_error(j->db, "read", j->path);
    *found = given_up != 0;
    return 0;
}

/* A forced run, and one that continues a file that is not recorded, keep all of it. */
static int renew(const struct gd_journal *j, struct gd__follow *f, const struct recorded_file *known,
                 enum contents contents)
{
    struct stat info;
    if (contents == EMPTY)
        return gd__follow_renew(f, 0);
    if (fstat(f->fd, &info) < 0)
        return gd__error_errno("cannot read the attributes of %s", f->path);
    const bool whole = contents == KEEP || j->o.force || known->size < 0;
    return gd__follow_renew(f, (uint64_t)(whole ? info.st_size : known->size));
}

static int empty(const struct gd__follow *f)
{
    if (GD__FAULT("ftruncate") || ftruncate(f->fd, 0) < 0 || lseek(f->fd, 0, SEEK_SET) < 0)
        return gd__error_errno("cannot empty %s", f->path);
    return 0;
}

/* Within a transaction. */
static int prepare_file(struct gd_journal *j, const char *path, struct gd__follow *f, enum contents contents)
{
    struct recorded_file known;
    struct stat info;
    bool other_user = false;
    int rc = add_columns(j);
    if (rc == 0)
        rc = look_up(j, f, &known);
    if (rc == 0)
        rc = find_other_user(j, &known, &other_user);
    if (rc == 0 && fstat(f->fd, &info) < 0)
        rc = gd__error_errno("cannot read the attributes of %s", path);
    if (rc == 0 && known.size >= 0 && contents == CUT)
        rc = cut_back(j, path, f, info.st_size, &known);
    if (rc == 0 && other_user)
        rc = renew(j, f, &known, contents);
    if (rc == 0 && contents == EMPTY) /* also if it could not be renewed */
        rc = empty(f);
    return rc;
}

static int follow(struct gd_journal *j, const char *path, int fd, enum contents contents)
{
    struct stat info;
    char full[PATH_MAX];
    if (!j || !path || fd < 0 || j->begun)
        return gd__error(GD_E_INVALID,
                         "gd_journal_follow: needs a journal whose run has not begun, a path and a descriptor");
    if (fstat(fd, &info) < 0)
        return gd__error_errno("cannot read the attributes of %s", path);
    if (!S_ISREG(info.st_mode)) /* a pipe or a terminal has no length */
        return 0;
    if (info.st_nlink == 0 && access(path, F_OK) == 0)
        return gd__error(GD_E_MISMATCH,
                         "%s was replaced after it was opened, maybe by another run of this journal: open it again",
                         path);
    struct gd__follow f = { .reader = -1 };
    const size_t n_files = j->n_files;
    int rc = make_follow(j, &f, realpath(path, full) ? full : path, fd);
    if (rc == 0 && (rc = gd__store_begin(j)) == 0) {
        rc = prepare_file(j, path, &f, contents);
        if (rc == 0)
            rc = add_file(j, &f);
        rc = gd__store_end(j, rc);
    }
    if (rc < 0) {
        j->n_files = n_files;
        free_follow(&f);
    }
    return rc;
}

/* A file that does not exist is treated as an empty one. */
static int check_resumable(struct gd_journal *j, const char *path, int fd, int64_t present)
{
    struct gd__follow f = { .reader = -1 };
    struct recorded_file known;
    char full[PATH_MAX];
    int rc = add_columns(j);
    if (rc == 0)
        rc = make_follow(j, &f, gd__db_full_path(path, full), fd);
    if (rc == 0)
        rc = look_up(j, &f, &known);
    if (rc == 0 && known.size >= 0 && !j->o.force)
        rc = refusal(j, path, &f, present, &known);
    free_follow(&f);
    return rc;
}

int gd__journal_check_file(struct gd_journal *j, const char *path)
{
    struct stat info = { .st_size = 0 };
    const int fd = gd__fd_above_stdio(open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    int rc = 0;
    if (fd < 0 ? errno == ENOENT : fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
        rc = check_resumable(j, path, fd, info.st_size);
    if (fd >= 0)
        close(fd);
    return rc;
}

int gd_journal_follow(struct gd_journal *j, const char *path, int fd)
{
    return follow(j, path, fd, CUT);
}

int gd__journal_follow_empty(struct gd_journal *j, const char *path, int fd)
{
    return follow(j, path, fd, EMPTY);
}

/* Called after the run, when the writer is idle. The writer commits the new length. */
static int replace_file(struct gd_journal *j, struct gd__follow *f, int fd)
{
    struct stat info;
    if (fstat(fd, &info) < 0)
        return gd__error_errno("cannot read the attributes of %s", f->path);
    const int reader = open_to_read(f->path, fd), old = f->reader;
    pthread_mutex_lock(&j->lock);
    f->fd = fd;
    f->reader = reader;
    f->size = (uint64_t)info.st_size;
    f->size_kept = UINT64_MAX; /* store it even if the length is the same: the bytes differ */
    j->row_stale = j->flush = true;
    pthread_cond_signal(&j->work);
    while (j->error == 0 && (j->row_stale || j->busy_now))
        pthread_cond_wait(&j->moved, &j->lock);
    const int rc = j->error < 0 ? gd__error(GD_E_JOURNAL, "%s", j->message) : 0;
    pthread_mutex_unlock(&j->lock);
    if (old >= 0)
        close(old);
    return rc;
}

int gd_journal_follow_anew(struct gd_journal *j, const char *path, int fd)
{
    char full[PATH_MAX];
    if (!j || !j->begun)
        return follow(j, path, fd, KEEP);
    const char *name = path && realpath(path, full) ? full : path;
    for (size_t i = 0; name && i < j->n_files; i++)
        if (strcmp(j->files[i].path, name) == 0)
            return replace_file(j, &j->files[i], fd);
    return gd__error(GD_E_INVALID, "gd_journal_follow_anew: %s was not given to gd_journal_follow() before",
                     path ? path : "(null)");
}

void gd__follow_measure(struct gd_journal *j)
{
    struct stat info;
    for (size_t i = 0; i < j->n_files; i++)
        if (fstat(j->files[i].fd, &info) == 0)
            j->files[i].size = (uint64_t)info.st_size;
}

/* A failure here is ignored: the next run then treats the file like one of a run that was killed. */
void gd__follow_end(struct gd_journal *j)
{
    sqlite3_stmt *s = NULL;
    struct stat info;
    if (gd__store_begin(j) < 0)
        return;
    if (gd__db_prepare(j->db, "UPDATE file SET ended = 1 WHERE path = CAST(?1 AS TEXT)", &s) != SQLITE_OK) {
        gd__store_end(j, GD_E_SYSTEM);
        return;
    }
    for (size_t i = 0; i < j->n_files; i++) {
        if (fstat(j->files[i].fd, &info) < 0 || (uint64_t)info.st_size != j->files[i].size_kept)
            continue;
        bind_path(s, 1, j->files[i].path);
        sqlite3_step(s);
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
    gd__store_end(j, 0);
}

/* After a failed write the system drops the data, and another fdatasync() would succeed although the bytes are missing.
 * So the error is stored. */
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
            return gd__error_errno("cannot flush %s to disk", j->files[i].path);
    return 0;
}

void gd__follow_close(struct gd_journal *j)
{
    for (size_t i = 0; i < j->n_files; i++)
        free_follow(&j->files[i]);
    gd__free(j->files);
    j->files = NULL;
    j->n_files = 0;
}
