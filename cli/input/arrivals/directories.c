/* SPDX-License-Identifier: MIT
 *
 * Watches directories with inotify: see directories.h.
 *
 * A directory is watched before its entries are listed. So a subdirectory that is made meanwhile is found by the listing,
 * by an event, or by both; watching it twice does no harm. A directory that is moved within the tree keeps its watch and
 * gets its new path.
 */
#include "cli/input/arrivals/directories.h"

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failure.h"
#include "cli/say.h"

enum { BUFFER_SIZE = 64 << 10 };

static const uint32_t EVENTS = IN_CLOSE_WRITE | IN_CREATE | IN_MOVED_TO | IN_MOVE_SELF;

struct cli_directories {
    int fd;
    bool recursive, hidden;
    int root;     /* its watch */
    char *name;   /* of the root */
    char **paths; /* of each watch, by its number; NULL: not watched */
    size_t n;
};

/* --- watching ------------------------------------------------------------------ */

static int store(struct cli_directories *d, int watch, const char *path)
{
    const size_t i = (size_t)watch;
    if (i >= d->n) {
        const size_t n = i * 2 + 16;
        char **more = realloc(d->paths, n * sizeof *more);
        if (!more)
            return gd__fail("out of memory");
        memset(more + d->n, 0, (n - d->n) * sizeof *more);
        d->paths = more;
        d->n = n;
    }
    char *copy = strdup(path);
    if (!copy)
        return gd__fail("out of memory");
    free(d->paths[i]);
    d->paths[i] = copy;
    return 0;
}

static int cannot_watch(const char *path)
{
    if (errno == ENOSPC)
        return gd__fail("cannot watch %s: there are too many directories; raise the limit with sysctl "
                        "fs.inotify.max_user_watches=1000000",
                        path);
    return gd__fail("cannot watch %s: %s", path, strerror(errno));
}

static int watch_tree(struct cli_directories *d, const char *path);

/* Returns a path that must be freed, or NULL with gd__fail_text(). */
static char *join(const char *dir, const char *name)
{
    char *path = NULL;
    if (asprintf(&path, strcmp(dir, "/") == 0 ? "%s%s" : "%s/%s", dir, name) < 0) {
        (void)gd__fail("out of memory");
        return NULL;
    }
    return path;
}

static bool is_directory(const char *path, const struct dirent *e)
{
    struct stat st;
    if (e->d_type != DT_UNKNOWN)
        return e->d_type == DT_DIR;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool is_wanted(const struct cli_directories *d, const char *name)
{
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return false;
    return d->hidden || name[0] != '.';
}

static int watch_entry(struct cli_directories *d, const char *dir, const struct dirent *e)
{
    if (!is_wanted(d, e->d_name))
        return 0;
    char *path = join(dir, e->d_name);
    if (!path)
        return -1;
    const int rc = is_directory(path, e) ? watch_tree(d, path) : 0;
    free(path);
    return rc;
}

/* A subdirectory that cannot be read is left out, as in every search for files, which reports it. */
static int watch_entries(struct cli_directories *d, const char *path)
{
    DIR *dir = opendir(path);
    int rc = 0;
    if (!dir)
        return errno == ENOMEM || errno == EMFILE || errno == ENFILE ? cannot_watch(path) : 0;
    for (const struct dirent *e; rc == 0 && (e = readdir(dir)) != NULL;)
        rc = watch_entry(d, path, e);
    closedir(dir);
    return rc;
}

/* Watches a directory and, if asked, those below it. A subdirectory may have disappeared already. */
static int watch_tree(struct cli_directories *d, const char *path)
{
    const int watch = inotify_add_watch(d->fd, path, EVENTS | IN_ONLYDIR | IN_EXCL_UNLINK);
    const bool is_root = strcmp(path, d->name) == 0;
    if (watch < 0 && !is_root && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
        return 0;
    if (watch < 0)
        return cannot_watch(path);
    if (is_root)
        d->root = watch;
    if (store(d, watch, path) < 0)
        return -1;
    return d->recursive ? watch_entries(d, path) : 0;
}

int cli_directories_open(struct cli_directories **out, const char *root, bool recursive, bool hidden)
{
    struct cli_directories *d = calloc(1, sizeof *d);
    if (!d)
        return gd__fail("out of memory");
    *d = (struct cli_directories){ .recursive = recursive, .hidden = hidden, .root = -1 };
    d->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    int rc = 0;
    if (d->fd < 0)
        rc = gd__fail("cannot watch %s: %s%s", root, strerror(errno),
                      errno == EMFILE ? "; raise the limit with sysctl fs.inotify.max_user_instances=1024" : "");
    if (rc == 0 && !(d->name = strdup(root)))
        rc = gd__fail("out of memory");
    if (rc == 0)
        rc = watch_tree(d, root);
    if (rc < 0)
        cli_directories_close(&d);
    *out = d;
    return rc;
}

void cli_directories_close(struct cli_directories **directories)
{
    struct cli_directories *d = *directories;
    if (!d)
        return;
    for (size_t i = 0; i < d->n; i++)
        free(d->paths[i]);
    free(d->paths);
    free(d->name);
    if (d->fd >= 0)
        close(d->fd);
    free(d);
    *directories = NULL;
}

int cli_directories_fd(const struct cli_directories *d)
{
    return d->fd;
}

/* --- events ---------------------------------------------------------------------- */

/* Whether a new name is complete at once. A file that was just made is complete when it is closed. */
static bool is_whole(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && (S_ISLNK(st.st_mode) || (S_ISREG(st.st_mode) && st.st_nlink > 1));
}

/* Whether a new name may be that of a file which was complete before: made with link(), and its other name was removed
 * since then. That changes a file's status, but not its contents. */
static bool is_linked(const char *path)
{
    struct stat st;
    if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
        return false;
    const struct timespec *m = &st.st_mtim, *c = &st.st_ctim;
    return m->tv_sec < c->tv_sec || (m->tv_sec == c->tv_sec && m->tv_nsec < c->tv_nsec);
}

static int note_directory(struct cli_directories *d, const char *name, const char *path, cli_change_fn *fn, void *user)
{
    if (!d->recursive || !is_wanted(d, name))
        return 0;
    return watch_tree(d, path) < 0 ? -1 : fn(user, CLI_CHANGE_DIRECTORY, path);
}

static int note_entry(struct cli_directories *d, const struct inotify_event *e, const char *dir, cli_change_fn *fn,
                      void *user)
{
    char *path = join(dir, e->name);
    int rc = 0;
    if (!path)
        return -1;
    if (e->mask & IN_ISDIR)
        rc = e->mask & (IN_CREATE | IN_MOVED_TO) ? note_directory(d, e->name, path, fn, user) : 0;
    else if (e->mask & (IN_CLOSE_WRITE | IN_MOVED_TO) || is_whole(path))
        rc = fn(user, CLI_CHANGE_FILE, path);
    else if (is_linked(path))
        rc = fn(user, CLI_CHANGE_NAME, path);
    free(path);
    return rc;
}

/* Directories may be among what was lost. */
static int note_loss(struct cli_directories *d, cli_change_fn *fn, void *user)
{
    cli_say("too many changes in %s at once: looking for new files", d->name);
    return watch_tree(d, d->name) < 0 ? -1 : fn(user, CLI_CHANGE_LOST, NULL);
}

static int note(struct cli_directories *d, const struct inotify_event *e, cli_change_fn *fn, void *user)
{
    const size_t i = (size_t)e->wd;
    if (e->mask & IN_Q_OVERFLOW)
        return note_loss(d, fn, user);
    if (e->wd == d->root && e->mask & (IN_IGNORED | IN_MOVE_SELF | IN_UNMOUNT))
        return gd__fail("%s was moved, removed or unmounted: no more files can be found there", d->name);
    if (e->wd < 0 || i >= d->n || !d->paths[i])
        return 0;
    if (e->mask & IN_IGNORED) {
        free(d->paths[i]);
        d->paths[i] = NULL;
        return 0;
    }
    return e->len > 0 ? note_entry(d, e, d->paths[i], fn, user) : 0;
}

int cli_directories_read(struct cli_directories *d, cli_change_fn *fn, void *user)
{
    _Alignas(struct inotify_event) char buffer[BUFFER_SIZE];
    for (;;) {
        const ssize_t n = read(d->fd, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : gd__fail("cannot watch %s: %s", d->name, strerror(errno));
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *e = (const void *)(buffer + at);
            if (note(d, e, fn, user) < 0)
                return -1;
            at += (ssize_t)(sizeof *e + e->len);
        }
    }
}
