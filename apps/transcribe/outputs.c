/* SPDX-License-Identifier: MIT
 *
 * Outputs: where they go, and whole or not at all.
 *
 * An output is written as .gd-PID-N.part in its own folder, and renamed when all of a file's outputs are written. Such
 * a name is short, since an output's own name may already be as long as names can be. Its writer holds a lock on it
 * (flock): a part that can be locked is what a killed process left, whichever machine or container it ran in, and is
 * removed before the next run. Where a file system has no locks, parts stay.
 *
 * A file's place in the mirrored tree is told by its name alone where that can be done. Where the folder and the file
 * were named in different ways (one absolute, one through a symbolic link), the file system is asked.
 */
#include "outputs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shown.h"

static int no_memory(void)
{
    return cli_error("no memory for the outputs");
}

/* "PATH: what: the system's reason". */
static int path_error(const char *path, const char *what, int error)
{
    char room[TR_SHOWN];
    return cli_error("%s: %s: %s", tr_shown(room, path), what, strerror(error));
}

/* --- within the input folder ------------------------------------------------------ */

/* A copy without empty and "." parts: "./a//b/." is "a/b", "." is "". NULL: no memory. */
static char *tidy(const char *path)
{
    char *out = malloc(strlen(path) + 1), *end = out;
    if (!out)
        return NULL;
    if (*path == '/')
        *end++ = '/';
    const char *const root = end;
    while (*path) {
        path += strspn(path, "/");
        const size_t n = strcspn(path, "/");
        if (n > 0 && !(n == 1 && *path == '.')) {
            if (end != root)
                *end++ = '/';
            memcpy(end, path, n);
            end += n;
        }
        path += n;
    }
    *end = '\0';
    return out;
}

static bool goes_up(const char *path)
{
    for (; *path; path += *path == '/') {
        const size_t n = strcspn(path, "/");
        if (n == 2 && path[0] == '.' && path[1] == '.')
            return true;
        path += n;
    }
    return false;
}

/* What follows dir in path, both tidy; NULL if path is not within it. */
static const char *behind(const char *dir, const char *path)
{
    const size_t n = strlen(dir);
    const char *rest = NULL;
    if (n == 0)
        rest = *path == '/' ? NULL : path;
    else if (strncmp(path, dir, n) == 0 && dir[n - 1] == '/')
        rest = path + n;
    else if (strncmp(path, dir, n) == 0 && path[n] == '/')
        rest = path + n + 1;
    return rest && *rest && !goes_up(rest) ? rest : NULL;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The file with all links above it followed: what it is a link to itself does not matter. NULL with errno. */
static char *real_place(const char *path)
{
    const char *base = base_name(path);
    char *above = strndup(base == path ? "." : path, base == path ? 1 : (size_t)(base - path)), *out = NULL;
    char *real = above ? realpath(above, NULL) : NULL;
    if (real && asprintf(&out, "%s/%s", real, base) < 0)
        out = NULL;
    free(real);
    free(above);
    return out;
}

/* The same by asking the file system: 1 with *inside, 0 if it lies elsewhere (or is not there), -1 with errno. */
static int ask_inside(const char *dir, const char *path, char **inside)
{
    char *real_dir = realpath(*dir ? dir : ".", NULL), *real = real_dir ? real_place(path) : NULL;
    char *tidied = real ? tidy(real) : NULL; /* a file of the root folder has two slashes by now */
    const char *rest = tidied ? behind(real_dir, tidied) : NULL;
    int result = 0;
    if (rest)
        result = (*inside = strdup(rest)) ? 1 : -1;
    else if (!tidied && (errno == ENAMETOOLONG || errno == ENOMEM))
        result = -1;
    const int error = errno;
    free(tidied);
    free(real);
    free(real_dir);
    errno = error;
    return result;
}

/* Where the input lies within the input folder, or its base name; to be freed. NULL with cli_error_text(). */
static char *place_of(const struct tr_places *p, const char *input)
{
    char *dir = tidy(p->input_dir ? p->input_dir : ""), *path = tidy(input), *inside = NULL;
    const char *rest = dir && path ? behind(dir, path) : NULL;
    if (dir && path && !p->input_dir)
        rest = base_name(path);
    int found = rest ? 0 : -1;
    errno = ENOMEM;
    if (!rest && dir && path)
        found = ask_inside(dir, path, &inside);
    if (found == 0)
        inside = strdup(rest ? rest : base_name(path));
    if (!inside)
        path_error(input, "can't tell where its output goes", errno);
    free(dir);
    free(path);
    return inside;
}

/* --- paths ------------------------------------------------------------------------ */

/* How much of a base name stays: without the extension, which a name of nothing else (".wav") has not. */
static size_t stem_size(const char *base)
{
    const char *dot = strrchr(base, '.');
    return dot && dot > base + strspn(base, ".") ? (size_t)(dot - base) : strlen(base);
}

/* Found out before anything is written. */
static int check_name(const struct cli_bytes *out, const char *input)
{
    char room[TR_SHOWN];
    const size_t size = strlen(base_name(out->data));
    if (size > NAME_MAX)
        return cli_error("%s: the name of its output would have %zu bytes, %d are possible: give it a shorter name",
                         tr_shown(room, input), size, NAME_MAX);
    if (out->size >= PATH_MAX)
        return cli_error(
            "%s: the path of its output would have %zu bytes, %d are possible: use a shorter output folder",
            tr_shown(room, input), out->size, PATH_MAX - 1);
    return 0;
}

int tr_output_path(struct cli_bytes *out, const struct tr_places *p, const char *input, enum tr_format f)
{
    char room[TR_SHOWN];
    const char *base = base_name(input);
    out->size = 0;
    if (!*base || strcmp(base, ".") == 0 || strcmp(base, "..") == 0)
        return cli_error("\"%s\" names a folder, not a file", tr_shown(room, input));
    char *inside = place_of(p, input);
    if (!inside)
        return -1;
    const size_t above = (size_t)(base_name(inside) - inside);
    cli_bytes_text(out, p->output_dir);
    if (!*p->output_dir || out->data[out->size - 1] != '/')
        cli_bytes_text(out, *p->output_dir ? "/" : "./");
    cli_bytes_add(out, inside, above + (p->full_names ? strlen(inside + above) : stem_size(inside + above)));
    cli_bytes_text(out, ".");
    cli_bytes_text(out, tr_format_name(f));
    cli_bytes_add(out, "", 1);
    free(inside);
    if (out->failed)
        return no_memory();
    out->size--;
    return check_name(out, input);
}

/* --- what is there ---------------------------------------------------------------- */

static bool is_older(const struct stat *a, const struct stat *b)
{
    return a->st_mtim.tv_sec != b->st_mtim.tv_sec ? a->st_mtim.tv_sec < b->st_mtim.tv_sec
                                                  : a->st_mtim.tv_nsec < b->st_mtim.tv_nsec;
}

bool tr_outputs_done(const struct tr_places *p, const char *input)
{
    struct cli_bytes path = { 0 };
    struct stat in, out;
    bool done = p->output_dir && p->formats && stat(input, &in) == 0;
    for (int f = 0; f < TR_FORMATS && done; f++) {
        if (p->formats & 1u << f)
            done = tr_output_path(&path, p, input, (enum tr_format)f) == 0 && stat(path.data, &out) == 0 &&
                   S_ISREG(out.st_mode) && !is_older(&out, &in);
    }
    cli_bytes_free(&path);
    return done;
}

/* --- folders ---------------------------------------------------------------------- */

/* Makes a folder and those above it. One that is there already, or that somebody else makes meanwhile, is fine. 0, or
 * -1 with cli_error_text(). */
static int make_folders(char *path)
{
    char *slash = path + strspn(path, "/");
    while (slash) {
        slash = strchr(slash, '/');
        if (slash)
            *slash = '\0';
        const int error = mkdir(path, 0777) < 0 && errno != EEXIST ? errno : 0;
        if (error)
            path_error(path, "this folder can't be made", error);
        if (slash) {
            *slash = '/';
            slash += strspn(slash, "/");
            slash = *slash ? slash : NULL;
        }
        if (error)
            return -1;
    }
    return 0;
}

/* --- parts ------------------------------------------------------------------------ */

/* One output on its way. */
struct part {
    char *final; /* NULL: this format is not asked for */
    char *path;  /* NULL: there is none (any more) */
    int fd;
};

/* Makes and locks a file. 1: it is there; 0: another name has to be tried; -1 with errno. */
static int open_part(struct part *part)
{
    struct stat st;
    part->fd = open(part->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (part->fd < 0)
        return errno == EEXIST ? 0 : -1;
    /* Where there are no locks, nobody tidies up either. */
    while (flock(part->fd, LOCK_EX) < 0 && errno == EINTR)
        ;
    /* Before it was locked somebody who tidies up may have taken it for left behind. */
    if (fstat(part->fd, &st) == 0 && st.st_nlink > 0)
        return 1;
    close(part->fd);
    return 0;
}

/* A part in the folder that `beside` is in. 0, or -1 with errno. */
static int create_part(struct part *part, const char *beside)
{
    static atomic_uint numbers;
    const int above = (int)(base_name(beside) - beside);
    int opened = 0;
    for (int tries = 0; tries < 1000 && opened == 0; tries++) {
        if (asprintf(&part->path, "%.*s.gd-%d-%u.part", above, beside, (int)getpid(), atomic_fetch_add(&numbers, 1)) <
            0) {
            part->path = NULL;
            errno = ENOMEM;
            return -1;
        }
        opened = open_part(part);
        if (opened <= 0) {
            const int error = errno;
            free(part->path);
            part->path = NULL;
            errno = error;
        }
    }
    return opened > 0 ? 0 : -1;
}

/* The same, with the folders that it takes. 0, or -1 with cli_error_text(). */
static int create_part_and_folders(struct part *part)
{
    if (create_part(part, part->final) == 0)
        return 0;
    if (errno == ENOENT) {
        char *folder = strndup(part->final, (size_t)(base_name(part->final) - part->final));
        const int made = folder ? make_folders(folder) : no_memory();
        free(folder);
        if (made < 0)
            return -1;
        if (create_part(part, part->final) == 0)
            return 0;
    }
    return path_error(part->final, "can't be written", errno);
}

/* What is at an output's place already must be something that may be replaced. */
static int check_place(const char *final, const char *input)
{
    char room[TR_SHOWN];
    struct stat there, in;
    if (stat(final, &there) < 0)
        return 0;
    if (S_ISDIR(there.st_mode))
        return cli_error("%s: is a folder, where an output is to go: move it away", tr_shown(room, final));
    if (stat(input, &in) == 0 && in.st_dev == there.st_dev && in.st_ino == there.st_ino)
        return cli_error("%s: would be written over the input itself: use another output folder",
                         tr_shown(room, final));
    return 0;
}

int tr_outputs_possible(const struct tr_places *p, const char *input)
{
    struct cli_bytes path = { 0 };
    int result = 0;
    for (int f = 0; f < TR_FORMATS && result == 0; f++) {
        if (!(p->formats & 1u << f))
            continue;
        result = tr_output_path(&path, p, input, (enum tr_format)f);
        if (result == 0)
            result = check_place(path.data, input);
    }
    cli_bytes_free(&path);
    return result;
}

/* Writes it all. Some file systems tell only at a close that there was no room: a copy is closed, since the lock goes
 * with the last. 0, or -1 with errno. */
static int fill_part(const struct part *part, const struct cli_bytes *contents, bool sync)
{
    if (cli_write_all(part->fd, contents->data, contents->size) < 0 || (sync && fsync(part->fd) < 0))
        return -1;
    const int copy = fcntl(part->fd, F_DUPFD_CLOEXEC, 0);
    return copy < 0 ? -1 : close(copy);
}

static int write_part(struct part *part, enum tr_format f, const char *input, const struct tr_transcript *t, bool sync)
{
    struct cli_bytes contents = { 0 };
    int result = check_place(part->final, input);
    if (result == 0)
        result = create_part_and_folders(part);
    if (result == 0) {
        tr_format_write(&contents, f, t);
        if (contents.failed)
            result = no_memory();
        else if (fill_part(part, &contents, sync) < 0)
            result = path_error(part->final, "can't be written", errno);
    }
    cli_bytes_free(&contents);
    return result;
}

static int rename_part(struct part *part, bool sync)
{
    if (rename(part->path, part->final) < 0 || (sync && cli_sync_folder_of(part->final) < 0))
        return path_error(part->final, "can't be written", errno);
    free(part->path);
    part->path = NULL;
    return 0;
}

static void drop_part(struct part *part)
{
    if (part->path) {
        unlink(part->path);
        free(part->path);
    }
    if (part->fd >= 0)
        close(part->fd);
    free(part->final);
}

/* All of them are written before the first is renamed. */
static int write_parts(struct part parts[TR_FORMATS], const char *input, const struct tr_transcript *t, bool sync)
{
    for (int f = 0; f < TR_FORMATS; f++) {
        if (parts[f].final && write_part(&parts[f], (enum tr_format)f, input, t, sync) < 0)
            return -1;
    }
    for (int f = 0; f < TR_FORMATS; f++) {
        if (parts[f].final && rename_part(&parts[f], sync) < 0)
            return -1;
    }
    return 0;
}

int tr_outputs_write(const struct tr_places *p, const char *input, const struct tr_transcript *t)
{
    struct part parts[TR_FORMATS];
    struct cli_bytes path = { 0 };
    int result = 0;
    for (int f = 0; f < TR_FORMATS; f++) {
        parts[f] = (struct part){ .fd = -1 };
        if (result < 0 || !(p->formats & 1u << f))
            continue;
        result = tr_output_path(&path, p, input, (enum tr_format)f);
        if (result == 0 && !(parts[f].final = path.data ? strdup(path.data) : NULL))
            result = no_memory();
    }
    if (result == 0)
        result = write_parts(parts, input, t, p->sync);
    for (int f = 0; f < TR_FORMATS; f++)
        drop_part(&parts[f]);
    cli_bytes_free(&path);
    return result;
}

/* --- before a run ----------------------------------------------------------------- */

/* ".gd-PID-N.part" */
static bool is_part_name(const char *name)
{
    if (strncmp(name, ".gd-", 4) != 0)
        return false;
    const size_t pid = strspn(name + 4, "0123456789");
    const char *rest = name + 4 + pid;
    const size_t number = *rest == '-' ? strspn(rest + 1, "0123456789") : 0;
    return pid > 0 && number > 0 && strcmp(rest + 1 + number, ".part") == 0;
}

/* Removes a part whose writer is gone: nobody holds its lock. */
static void remove_if_stale(int dir, const char *name)
{
    struct stat opened, named;
    const int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    /* The name may by now be another file's: only what was locked goes. */
    if (fstat(fd, &opened) == 0 && S_ISREG(opened.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
        fstatat(dir, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && opened.st_dev == named.st_dev &&
        opened.st_ino == named.st_ino)
        (void)unlinkat(dir, name, 0);
    close(fd);
}

enum { DEEPEST = 200 }; /* folders that are open at a time */

static void remove_stale(int dir, int depth);

static void look_at_entry(int dir, const struct dirent *e, int depth)
{
    const bool dots = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    if (is_part_name(e->d_name)) {
        remove_if_stale(dir, e->d_name);
    } else if (!dots && depth < DEEPEST && (e->d_type == DT_DIR || e->d_type == DT_UNKNOWN)) {
        const int fd = openat(dir, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0)
            remove_stale(fd, depth + 1);
    }
}

/* In a folder, which is closed, and those below it; links are not followed. What can't be read or removed stays: it is
 * in nobody's way. */
static void remove_stale(int dir, int depth)
{
    DIR *d = fdopendir(dir);
    if (!d) {
        close(dir);
        return;
    }
    for (const struct dirent *e; (e = readdir(d));)
        look_at_entry(dirfd(d), e, depth);
    closedir(d);
}

void tr_outputs_tidy(const struct tr_places *p)
{
    const int fd = open(*p->output_dir ? p->output_dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        remove_stale(fd, 0);
}

int tr_outputs_check(const struct tr_places *p)
{
    struct part part = { .fd = -1 };
    char *folder = NULL;
    if (asprintf(&folder, "%s/", *p->output_dir ? p->output_dir : ".") < 0)
        return no_memory();
    int result = make_folders(folder);
    if (result == 0 && create_part(&part, folder) < 0)
        result = path_error(p->output_dir, "outputs can't be written to this folder", errno);
    drop_part(&part);
    if (result == 0)
        tr_outputs_tidy(p);
    free(folder);
    return result;
}
