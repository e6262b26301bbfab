/* SPDX-License-Identifier: MIT
 *
 * Downloads a model: see download.h. A part is only continued if it is known which version of the file it is from.
 */
#include "apps/transcribe/download/download.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/transcribe/download/transfer.h"
#include "apps/transcribe/model/model_sums.h"
#include "apps/transcribe/output/shown.h"
#include "base/failure.h"
#include "base/file/write.h"

struct work {
    const struct tr_download *d;
    char *path, *part, *version; /* of the files */
    struct gd__buffer address;
    int fd; /* of the part */
};

static void report(const struct work *w, enum tr_download_event event, uint64_t have)
{
    if (w->d->event)
        w->d->event(w->d->user, event, have, w->d->model->bytes);
}

/* --- directories and files ----------------------------------------------------- */

/* Creates a directory and those above it. */
static int make_directories(const char *path)
{
    char *copy = strdup(path), room[TR_SHOWN];
    struct stat st;
    int rc = copy ? 0 : gd__fail("no memory for the download");
    for (char *at = copy; copy && at && *at;) {
        at = strchr(at + 1, '/');
        if (at)
            *at = '\0';
        if (mkdir(copy, 0777) < 0 && errno != EEXIST && errno != EISDIR && (stat(copy, &st) < 0))
            rc = gd__fail("%s: the directory cannot be created: %s", tr_shown(room, copy), strerror(errno));
        if (rc < 0)
            break;
        if (at)
            *at = '/';
    }
    free(copy);
    return rc;
}

static int name_files(struct work *w)
{
    const char *directory = w->d->directory, *name = w->d->model->name;
    tr_published_address(&w->address, w->d->model, w->d->base);
    gd__buffer_add(&w->address, "", 1);
    if (asprintf(&w->path, "%s/ggml-%s.bin", directory, name) < 0)
        w->path = NULL;
    else if (asprintf(&w->part, "%s.part", w->path) < 0)
        w->part = NULL;
    else if (asprintf(&w->version, "%s.version", w->part) < 0)
        w->version = NULL;
    if (w->path && w->part && w->version && !w->address.failed)
        return 0;
    gd__fail("no memory for the download");
    return -1;
}

static int cannot_lock(const struct work *w, int error)
{
    char room[TR_SHOWN];
    const char *shown = tr_shown(room, w->part);
    if (error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP)
        return gd__fail("%s: cannot be locked, because its file system has no locks: choose another directory with "
                        "--model-dir",
                        shown);
    return gd__fail("%s: cannot be locked: %s", shown, strerror(error));
}

static int lock(const struct work *w)
{
    int rc = flock(w->fd, LOCK_EX | LOCK_NB);
    if (rc < 0 && errno == EWOULDBLOCK) {
        report(w, TR_DOWNLOAD_WAITS, 0);
        do
            rc = flock(w->fd, LOCK_EX);
        while (rc < 0 && errno == EINTR);
    }
    return rc < 0 ? cannot_lock(w, errno) : 0;
}

/* Whether the open file still has its name. The process that had the lock before may have renamed or removed it. */
static bool is_current(const struct work *w)
{
    struct stat mine, named;
    return fstat(w->fd, &mine) == 0 && stat(w->part, &named) == 0 && mine.st_ino == named.st_ino &&
           mine.st_dev == named.st_dev;
}

static int open_part(struct work *w)
{
    char room[TR_SHOWN];
    for (;;) {
        w->fd = open(w->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (w->fd < 0)
            return gd__fail("%s: cannot be written: %s", tr_shown(room, w->part), strerror(errno));
        if (lock(w) < 0)
            return -1;
        if (is_current(w))
            return 0;
        close(w->fd);
    }
}

static void remove_part(const struct work *w)
{
    (void)unlink(w->version);
    (void)unlink(w->part);
}

/* --- versions ------------------------------------------------------------------ */

static void read_version(const struct work *w, char version[TR_VERSION])
{
    const int fd = open(w->version, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t n = fd < 0 ? 0 : read(fd, version, TR_VERSION - 1);
    version[n > 0 ? n : 0] = '\0';
    if (!tr_transfer_is_version(version))
        *version = '\0';
    if (fd >= 0)
        close(fd);
}

/* Without the name of its version, a part is not continued. So a failure to store it is not an error. */
static void store_version(void *user, const struct tr_transfer *t)
{
    const struct work *w = user;
    (void)unlink(w->version);
    const int fd = *t->version ? open(w->version, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;
    if (fd >= 0 && (gd__write_all(fd, t->version, strlen(t->version)) < 0 || fsync(fd) < 0))
        (void)unlink(w->version);
    if (fd >= 0)
        close(fd);
}

/* --- downloading --------------------------------------------------------------- */

static void show_progress(void *user, uint64_t have, uint64_t total)
{
    const struct work *w = user;
    (void)total;
    report(w, TR_DOWNLOAD_PROGRESS, have);
}

/* Finds out how much of the file is there and can be continued. */
static int begin(const struct work *w, struct tr_transfer *t)
{
    struct stat st;
    if (fstat(w->fd, &st) < 0)
        return gd__fail("%s: cannot be read: %s", w->part, strerror(errno));
    read_version(w, t->version);
    t->have = (uint64_t)st.st_size;
    if (t->have > t->total || (t->have < t->total && !*t->version))
        t->have = 0;
    return lseek(w->fd, (off_t)t->have, SEEK_SET) < 0 ? gd__fail("%s: cannot be written: %s", w->part, strerror(errno))
                                                      : 0;
}

static int failed(const struct work *w, const struct tr_transfer *t)
{
    struct gd__buffer why = { 0 };
    gd__buffer_text(&why, gd__fail_text());
    gd__buffer_add(&why, "", 1);
    const bool kept = t->have > 0 && *t->version;
    gd__fail("%s: could not be downloaded from %s: %s%s", w->d->model->name, w->address.data,
             why.failed ? "no memory" : why.data,
             kept ? ". What has arrived is kept: run the same command again to go on" : "");
    gd__buffer_free(&why);
    if (!kept)
        remove_part(w);
    return -1;
}

static int transfer(struct work *w)
{
    struct tr_transfer t = {
        .address = w->address.data,
        .fd = w->fd,
        .total = w->d->model->bytes,
        .started = store_version,
        .progress = show_progress,
        .user = w,
    };
    enum tr_transfer_end end = TR_TRANSFER_WHOLE;
    if (begin(w, &t) < 0)
        return -1;
    if (t.have < t.total) {
        report(w, t.have > 0 ? TR_DOWNLOAD_GOES_ON : TR_DOWNLOAD_STARTS, t.have);
        end = tr_transfer(&t);
    }
    if (end == TR_TRANSFER_OTHER) {
        t.have = 0;
        report(w, TR_DOWNLOAD_STARTS, 0);
        end = tr_transfer(&t);
    }
    return end == TR_TRANSFER_WHOLE ? 0 : failed(w, &t);
}

/* Checks what was downloaded, and gives it its name. */
static int finish(const struct work *w)
{
    const struct tr_published *m = w->d->model;
    char found[TR_SUM_TEXT], room[TR_SHOWN];
    if (fsync(w->fd) < 0)
        return gd__fail("%s: cannot be written: %s", tr_shown(room, w->part), strerror(errno));
    report(w, TR_DOWNLOAD_CHECKS, m->bytes);
    if (tr_model_sum_file(w->part, m->sum, found) < 0)
        return -1;
    if (strcmp(found, m->sum) != 0) {
        remove_part(w);
        return gd__fail("%s: what %s sent is not this model: its %s is %s instead of %s. It was removed: try again, or "
                        "use another server with --base",
                        m->name, w->address.data, tr_published_kind(m->sum), found, m->sum);
    }
    if (rename(w->part, w->path) < 0)
        return gd__fail("%s: cannot be renamed: %s", tr_shown(room, w->part), strerror(errno));
    (void)unlink(w->version);
    (void)gd__sync_directory_of(w->path);
    tr_model_remember(w->path, m->sum);
    return 0;
}

/* Returns 1 if the model is there, 0 if there is no such file, or -1 if it is another file. */
static int is_there(const struct work *w)
{
    const struct tr_published *m = w->d->model;
    char found[TR_SUM_TEXT], room[TR_SHOWN];
    struct stat st;
    if (lstat(w->path, &st) < 0)
        return errno == ENOENT ? 0 : gd__fail("%s: %s", tr_shown(room, w->path), strerror(errno));
    const int good = tr_model_verify(w->path, m->sum, found);
    if (good == 0)
        return gd__fail("%s: exists, but is not the model %s: its %s is %s instead of %s. Delete or rename it first",
                        tr_shown(room, w->path), m->name, tr_published_kind(m->sum), found, m->sum);
    return good;
}

static int run(struct work *w)
{
    if (make_directories(w->d->directory) < 0 || name_files(w) < 0)
        return -1;
    int rc = is_there(w);
    if (rc != 0)
        return rc;
    if (open_part(w) < 0)
        return -1;
    rc = is_there(w); /* another process may have downloaded it meanwhile */
    if (rc != 0)
        remove_part(w);
    else
        rc = transfer(w) < 0 ? -1 : finish(w);
    return rc;
}

int tr_download(const struct tr_download *d, char **path)
{
    struct work w = { .d = d, .fd = -1 };
    const int rc = run(&w);
    *path = rc < 0 ? NULL : w.path;
    if (w.fd >= 0)
        close(w.fd);
    if (rc < 0)
        free(w.path);
    free(w.part);
    free(w.version);
    gd__buffer_free(&w.address);
    return rc;
}
