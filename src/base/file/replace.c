/* SPDX-License-Identifier: MIT
 *
 * Replaces files.
 *
 * Other users, who are not trusted, may be able to write to the directory. A temporary name can be guessed, so another
 * user may have put a link there that leads to a file of this user. Therefore the temporary file is always created
 * (O_EXCL, which follows no link), and before it is renamed we check that its name still refers to it. A link at a name
 * that the user chose is followed on purpose.
 *
 * Before anything is written to the new file, it gets the mode of the file that it replaces, and its owner and group as
 * far as that is allowed. Access control lists are not copied.
 */
#include "base/file/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/file/write.h"

enum { TRIES = 16, LINKS = 40 };

int gd__open_temporary(int directory, const char *name, mode_t mode)
{
    for (int i = 0; i < TRIES; i++) {
        const int fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (fd >= 0 || errno != EEXIST)
            return fd;
        if (unlinkat(directory, name, 0) < 0 && errno != ENOENT)
            return -1;
    }
    errno = EEXIST; /* another process creates it again and again */
    return -1;
}

/* --- links ---------------------------------------------------------------------------- */

/* Returns the target of the link at path. text: the contents of the link. */
static char *join(const char *path, const char *text)
{
    const char *slash = strrchr(path, '/');
    char *whole = NULL;
    if (*text == '/' || !slash)
        return strdup(text);
    return asprintf(&whole, "%.*s%s", (int)(slash + 1 - path), path, text) < 0 ? NULL : whole;
}

char *gd__link_target(const char *path)
{
    char text[PATH_MAX], *at = realpath(path, NULL);
    if (at)
        return at;
    at = strdup(path);
    for (int i = 0; at && i < LINKS; i++) {
        const ssize_t n = readlink(at, text, sizeof text - 1);
        if (n < 0) /* not a link, or it does not exist */
            return at;
        text[n] = '\0';
        char *next = join(at, text);
        free(at);
        at = next;
    }
    errno = at ? ELOOP : ENOMEM;
    free(at);
    return NULL;
}

/* --- beginning ------------------------------------------------------------------------- */

/* Group and others must not get more rights than they had. If the group cannot be kept, the new group gets no more
 * rights than others. */
static void copy_rights(int fd, const struct stat *old)
{
    struct stat new;
    mode_t mode = old->st_mode & 07777;
    if (fstat(fd, &new) < 0)
        return;
    if (new.st_uid != old->st_uid || new.st_gid != old->st_gid) {
        if (fchown(fd, old->st_uid, old->st_gid) < 0 && fchown(fd, (uid_t)-1, old->st_gid) < 0)
            mode &= ~(mode_t)070 | ((mode & 07) << 3);
        if (fstat(fd, &new) < 0 || new.st_uid != old->st_uid || new.st_gid != old->st_gid)
            mode &= 0777;
    }
    if (fchmod(fd, mode) < 0)
        return; /* the file stays private */
}

/* Finds the file whose rights the new one gets. A file of another user counts only if the user chose the name. */
static bool find_old(const struct gd__replacement *r, bool named, struct stat *old)
{
    return lstat(r->path, old) == 0 && S_ISREG(old->st_mode) && (named || old->st_uid == geteuid());
}

static int open_temporary(struct gd__replacement *r, bool named)
{
    struct stat old;
    if (asprintf(&r->temporary, "%s.part", r->path) < 0) {
        r->temporary = NULL;
        errno = ENOMEM;
        return -1;
    }
    const bool has_old = find_old(r, named, &old);
    const int fd = gd__open_temporary(AT_FDCWD, r->temporary, has_old ? 0600 : 0666);
    if (fd >= 0 && has_old)
        copy_rights(fd, &old);
    return fd;
}

static int cannot_begin(struct gd__replacement *r, const char *path, int fd)
{
    const int error = errno;
    if (fd >= 0) {
        close(fd);
        if (r->temporary)
            unlink(r->temporary);
    } else if (r->temporary && (error == EPERM || error == EISDIR || error == EEXIST)) {
        return gd__fail("cannot write %s: %s cannot be removed: %s. Remove it, or give a file in another directory",
                        path, r->temporary, strerror(error));
    }
    return gd__fail_to_write(path, error);
}

int gd__replace_begin(struct gd__replacement *r, const char *path, bool named)
{
    struct stat info;
    const bool as_it_is = named && stat(path, &info) == 0 && !S_ISREG(info.st_mode);
    *r = (struct gd__replacement){ .path = named && !as_it_is ? gd__link_target(path) : strdup(path) };
    int fd = -1;
    if (r->path)
        fd = as_it_is ? open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC) : open_temporary(r, named);
    r->to = fd >= 0 ? fdopen(fd, "w") : NULL;
    return r->to ? 0 : cannot_begin(r, path, fd);
}

/* --- the end ---------------------------------------------------------------------------- */

/* Whether the temporary name still refers to our file. */
static bool is_ours(const struct gd__replacement *r)
{
    struct stat opened, named;
    return fstat(fileno(r->to), &opened) == 0 && lstat(r->temporary, &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
}

/* Flushes the file to disk and renames it. Returns 0, or -1 with errno. */
static int put_in_place(const struct gd__replacement *r)
{
    if (ferror(r->to) || fflush(r->to) != 0)
        return -1;
    if (!r->temporary)
        return 0;
    if (fsync(fileno(r->to)) < 0)
        return -1;
    if (!is_ours(r)) {
        errno = ESTALE;
        return -1;
    }
    return rename(r->temporary, r->path) < 0 ? -1 : gd__sync_directory_of(r->path);
}

int gd__replace_end(struct gd__replacement *r, int rc, bool wanted)
{
    bool has_temporary = r->to && r->temporary && is_ours(r);
    if (r->to) {
        if (rc == 0 && wanted && put_in_place(r) < 0)
            rc = gd__fail("cannot write %s: %s", r->path, strerror(errno));
        else
            has_temporary = has_temporary && (rc != 0 || !wanted);
        if (fclose(r->to) != 0 && rc == 0)
            rc = gd__fail("cannot write %s: %s", r->path, strerror(errno));
        if (has_temporary)
            unlink(r->temporary);
    }
    free(r->temporary);
    free(r->path);
    *r = (struct gd__replacement){ 0 };
    return rc;
}
