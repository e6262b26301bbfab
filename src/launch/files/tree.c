/* A walk over a tree of directories.
 *
 * A directory is read to its end before its subdirectories are entered. Their names wait on a stack. So one buffer is
 * enough for all reading, and the memory depends on the number of waiting directories, not on the number of files.
 *
 * A directory is opened relative to its parent, so the parent stays open while names of its subdirectories wait. In a
 * deep tree only the last MOST_OPEN directories stay open. A closed directory is opened again from its nearest open
 * ancestor, in steps of as much path as the system accepts. It must then be the same directory as before. So neither
 * PATH_MAX nor the limit on descriptors limits the depth: three descriptors are enough.
 */
#include "launch/files/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"

enum { MOST_OPEN = 32, FIRST_SIZE = 4096, FIRST_LEVELS = 16 };

struct gd__level {
    int fd;             /* -1: closed */
    bool known;         /* dev and ino are set: the directory was closed early and may be opened again */
    size_t path_length; /* including the '/' at its end */
    size_t names;       /* where the names in this directory begin */
    dev_t dev;
    ino_t ino;
};

/* --- memory --------------------------------------------------------------- */

/* Grows *block to at least need elements. */
static int reserve(void **block, size_t *size, size_t element, size_t first, size_t need)
{
    if (need <= *size)
        return 0;
    size_t n = *size ? *size : first;
    while (n < need && n <= SIZE_MAX / 2 / element)
        n *= 2;
    void *grown = n < need ? NULL : gd__realloc(*block, n * element);
    if (!grown)
        return gd__error(GD_E_NO_MEMORY, "no memory for a directory tree of this depth or width");
    *block = grown;
    *size = n;
    return 0;
}

static int reserve_bytes(char **block, size_t *size, size_t need)
{
    void *p = *block;
    const int r = reserve(&p, size, 1, FIRST_SIZE, need);
    *block = p;
    return r;
}

static int reserve_level(struct gd__tree *t)
{
    void *p = t->levels;
    const int r = reserve(&p, &t->levels_size, sizeof *t->levels, FIRST_LEVELS, t->depth + 1);
    t->levels = p;
    return r;
}

/* --- descriptors ---------------------------------------------------------- */

static struct gd__level *current(const struct gd__tree *t)
{
    return &t->levels[t->depth - 1];
}

static void close_level(struct gd__tree *t, size_t i)
{
    if (t->levels[i].fd < 0)
        return;
    close(t->levels[i].fd);
    t->levels[i].fd = -1;
    t->n_open--;
}

/* Closes the open directory that is nearest to the root, but not the root itself, because all others are opened from
 * it, and not the one with the descriptor in_use. Returns false if no directory could be closed. */
static bool close_one(struct gd__tree *t, int in_use)
{
    for (size_t i = t->lowest_open; i < t->depth; i++) {
        struct gd__level *l = &t->levels[i];
        struct stat s;
        if (l->fd < 0 || l->fd == in_use)
            continue;
        l->known = fstat(l->fd, &s) == 0;
        if (l->known) {
            l->dev = s.st_dev;
            l->ino = s.st_ino;
        }
        close_level(t, i);
        t->lowest_open = i;
        return true;
    }
    return false;
}

static int open_directory(struct gd__tree *t, int base, const char *path)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (t->follow ? 0 : O_NOFOLLOW);
    for (;;) {
        const int fd = GD__FAULT("openat") ? -1 : gd__fd_above_stdio(openat(base, path, flags));
        if (fd >= 0 || (errno != EMFILE && errno != ENFILE))
            return fd;
        const int why = errno;
        if (!close_one(t, base)) {
            errno = why;
            return -1;
        }
    }
}

/* The deepest level that one call can reach from level i, but not deeper than end. */
static size_t farthest(const struct gd__tree *t, size_t i, size_t end)
{
    size_t to = i + 1;
    /* The system follows at most 40 links in one path, so a path of followed links is opened one name at a time. */
    while (!t->follow && to < end && t->levels[to + 1].path_length - t->levels[i].path_length < PATH_MAX)
        to++;
    return to;
}

/* Opens level `to` by its path from level `from`, whose descriptor is base. */
static int open_below(struct gd__tree *t, int base, size_t from, size_t to)
{
    char *end = t->path + t->levels[to].path_length - 1, kept = *end;
    *end = '\0';
    const int fd = open_directory(t, base, t->path + t->levels[from].path_length);
    *end = kept;
    return fd;
}

static bool is_same(const struct gd__level *l, int fd)
{
    struct stat s;
    return !l->known || (fstat(fd, &s) == 0 && s.st_dev == l->dev && s.st_ino == l->ino);
}

/* Opens level i again. Returns 0, or -1 with errno. */
static int reopen(struct gd__tree *t, size_t i)
{
    size_t at = i;
    while (t->levels[at].fd < 0)
        at--;
    int fd = -1;
    while (at < i) {
        const size_t to = farthest(t, at, i);
        const int base = fd >= 0 ? fd : t->levels[at].fd, next = open_below(t, base, at, to), why = errno;
        if (fd >= 0)
            close(fd);
        errno = why;
        if (next < 0)
            return -1;
        fd = next;
        at = to;
    }
    if (!is_same(&t->levels[i], fd)) {
        close(fd);
        errno = ENOENT;
        return -1;
    }
    t->levels[i].fd = fd;
    t->n_open++;
    t->lowest_open = i < t->lowest_open ? i : t->lowest_open;
    return 0;
}

/* --- stepping ------------------------------------------------------------- */

/* Enters the directory fd. Its name is in path, after the path of the current directory. Takes ownership of fd. */
static int enter(struct gd__tree *t, int fd, size_t name_length)
{
    const size_t above = t->depth ? current(t)->path_length : 0;
    if (reserve_level(t) < 0 || reserve_bytes(&t->path, &t->path_size, above + name_length + 2) < 0) {
        close(fd);
        return GD_E_NO_MEMORY;
    }
    if (t->depth > 1 && current(t)->names == t->names_used)
        close_level(t, t->depth - 1); /* no more names in it wait */
    while (t->n_open >= MOST_OPEN && close_one(t, fd))
        ;
    t->path[above + name_length] = '/';
    t->levels[t->depth++] =
        (struct gd__level){ .fd = fd, .path_length = above + name_length + 1, .names = t->names_used };
    t->n_open++;
    return 0;
}

static void leave(struct gd__tree *t)
{
    close_level(t, t->depth - 1);
    t->depth--;
    if (t->lowest_open > t->depth && t->depth > 0)
        t->lowest_open = t->depth;
}

static int report_open_error(const char *dir)
{
    const int why = errno;
    if (why == ENOTDIR)
        return gd__error(GD_E_INVALID, "%s is not a directory: give the directory that contains the files", dir);
    if (why == ENOENT)
        return gd__error(GD_E_INVALID, "the directory %s does not exist: check its name, or create it", dir);
    const int code = gd__error_errno("the directory %s cannot be read", dir);
    return why == EACCES || why == EPERM || why == ELOOP || why == ENAMETOOLONG ? GD_E_INVALID : code;
}

int gd__tree_open(struct gd__tree *t, const char *dir, bool follow)
{
    size_t length = strlen(dir);
    *t = (struct gd__tree){ .follow = true, .lowest_open = 1 }; /* the directory to search may itself be a link */
    const int fd = open_directory(t, AT_FDCWD, dir);
    if (fd < 0)
        return report_open_error(dir);
    t->follow = follow;
    while (length > 0 && dir[length - 1] == '/')
        length--;
    if (reserve_bytes(&t->path, &t->path_size, length + 2) < 0) {
        close(fd);
        return GD_E_NO_MEMORY;
    }
    memcpy(t->path, dir, length);
    return enter(t, fd, length);
}

void gd__tree_close(struct gd__tree *t)
{
    while (t->depth > 0)
        leave(t);
    gd__free(t->levels);
    gd__free(t->names);
    gd__free(t->path);
    *t = (struct gd__tree){ 0 };
}

int gd__tree_fd(const struct gd__tree *t)
{
    return current(t)->fd;
}

int gd__tree_path(struct gd__tree *t, const char *name, size_t length)
{
    const size_t at = current(t)->path_length;
    if (!name) {
        t->path[at > 1 ? at - 1 : at] = '\0';
        return 0;
    }
    if (reserve_bytes(&t->path, &t->path_size, at + length + 1) < 0)
        return GD_E_NO_MEMORY;
    t->path[at - 1] = '/';
    memcpy(t->path + at, name, length);
    t->path[at + length] = '\0';
    return 0;
}

int gd__tree_add(struct gd__tree *t, const char *name, size_t length)
{
    if (reserve_bytes(&t->names, &t->names_size, t->names_used + length + 1) < 0)
        return GD_E_NO_MEMORY;
    memcpy(t->names + t->names_used, name, length);
    t->names_used += length;
    t->names[t->names_used++] = '\0';
    return 0;
}

/* Takes the last name off the stack, appends it to path and sets *length. Returns 0 or GD_E_NO_MEMORY. */
static int take_name(struct gd__tree *t, size_t *length)
{
    const size_t end = t->names_used - 1;
    size_t begin = end;
    while (begin > current(t)->names && t->names[begin - 1])
        begin--;
    t->names_used = begin;
    *length = end - begin;
    return gd__tree_path(t, t->names + begin, *length);
}

int gd__tree_next(struct gd__tree *t)
{
    size_t length;
    while (t->depth > 0 && current(t)->names == t->names_used)
        leave(t);
    if (t->depth == 0)
        return GD__TREE_END;
    if (current(t)->fd < 0 && reopen(t, t->depth - 1) < 0) {
        const int why = errno;
        t->names_used = current(t)->names; /* these names can't be reached any more */
        gd__tree_path(t, NULL, 0);
        errno = why;
        return GD__TREE_PROBLEM;
    }
    if (take_name(t, &length) < 0)
        return GD_E_NO_MEMORY;
    const int fd = open_directory(t, current(t)->fd, t->path + current(t)->path_length);
    if (fd < 0)
        return GD__TREE_PROBLEM;
    const int r = enter(t, fd, length);
    return r < 0 ? r : GD__TREE_DIRECTORY;
}
