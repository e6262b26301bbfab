/* SPDX-License-Identifier: MIT
 *
 * Waits for files: see arrivals.h.
 *
 * A file that a search finds may still be written to, and nothing tells whether it is. So a file that has just changed
 * waits in `young`. If it is closed meanwhile, the event gives it at once, and its entry there has no effect any more.
 */
#include "cli/input/arrivals/arrivals.h"

#include <errno.h>
#include <fnmatch.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/failure.h"
#include "base/file/shared.h"
#include "cli/input/arrivals/directories.h"
#include "cli/input/arrivals/versions.h"

struct times {
    uint64_t settled_s; /* a file that has not changed for so long is complete */
    uint64_t look_ns;   /* a younger one is looked at again after this time */
    uint64_t search_ns; /* how often everything is searched; GD__NEVER: there are events */
};
static const struct times with_events = { 2, 2 * GD__NS_PER_S, GD__NEVER };
static const struct times without_events = { 60, 5 * GD__NS_PER_S, 5 * GD__NS_PER_S };

/* A file that waits until it is certain that it is complete. */
struct young {
    char *path;
    struct cli_version version;
    uint64_t due_ns;
};

struct cli_arrivals {
    struct cli_arrivals_options o;
    char *dir;
    const struct times *times;
    struct cli_directories *directories; /* NULL: there are no events */
    struct cli_versions given;           /* files that were given */
    struct cli_versions waiting;         /* files that were in `young` */
    struct gd_files *found;              /* to be given */
    size_t next;                         /* in `found` */
    struct young *young;                 /* in the order of due_ns */
    size_t n_young, young_room;
    uint64_t last_ns;   /* when the last file was given */
    uint64_t search_ns; /* when to search next */
};

/* --- finding files --------------------------------------------------------------- */

static bool is_wanted(const struct cli_arrivals *a, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const int flags = a->o.what->hidden ? 0 : FNM_PERIOD;
    const char *const *p = a->o.what->patterns;
    if (!p || !*p)
        return a->o.what->hidden || name[0] != '.';
    while (*p && fnmatch(*p, name, flags) != 0)
        p++;
    return *p != NULL;
}

/* Adds a complete file to those to be given, unless this version of it was given before. */
static int add_found(struct cli_arrivals *a, const char *path, const struct cli_version *version)
{
    uint64_t size = (uint64_t)version->size;
    const int is_new = cli_versions_put(&a->given, path, version);
    if (is_new <= 0)
        return is_new;
    if (a->o.accept && !a->o.accept(a->o.user, path, &size))
        return 0;
    return gd_files_add(a->found, path, size) < 0 ? gd__fail("%s", gd_error_text()) : 0;
}

static int add_young(struct cli_arrivals *a, const char *path, const struct cli_version *version)
{
    const int is_new = cli_versions_put(&a->waiting, path, version);
    if (is_new <= 0)
        return is_new;
    if (a->n_young == a->young_room) {
        const size_t room = a->young_room * 2 + 16;
        struct young *more = realloc(a->young, room * sizeof *more);
        if (!more)
            return gd__fail("out of memory");
        a->young = more;
        a->young_room = room;
    }
    char *copy = strdup(path);
    if (!copy)
        return gd__fail("out of memory");
    a->young[a->n_young++] = (struct young){ copy, *version, gd__now_ns() + a->times->look_ns };
    return 0;
}

static bool is_settled(const struct cli_arrivals *a, const struct stat *st)
{
    const time_t now = time(NULL);
    return st->st_mtime <= now && (uint64_t)(now - st->st_mtime) > a->times->settled_s;
}

/* A file that disappeared again, or is not a regular file, is ignored. */
static bool look_at(const char *path, struct stat *st)
{
    return stat(path, st) == 0 && S_ISREG(st->st_mode);
}

enum { STOPPED = 1 }; /* a search, by a failure */

static int note_searched(void *user, const char *path, uint64_t size)
{
    struct cli_arrivals *a = user;
    struct stat st;
    (void)size;
    if (!look_at(path, &st))
        return 0;
    const struct cli_version version = cli_version_of(&st);
    return (is_settled(a, &st) ? add_found : add_young)(a, path, &version) < 0 ? STOPPED : 0;
}

static int search(struct cli_arrivals *a, const char *dir)
{
    const int rc = gd_discover_files(dir, a->o.what, note_searched, a);
    a->search_ns = a->times->search_ns == GD__NEVER ? GD__NEVER : gd__now_ns() + a->times->search_ns;
    if (rc == STOPPED)
        return -1;
    if (rc < 0 && strcmp(dir, a->dir) == 0)
        return gd__fail("%s", gd_error_text());
    return gd_files_sort(a->found, a->o.order) < 0 ? gd__fail("%s", gd_error_text()) : 0;
}

static int note_change(void *user, enum cli_change what, const char *path)
{
    struct cli_arrivals *a = user;
    struct stat st;
    if (what == CLI_CHANGE_LOST || what == CLI_CHANGE_DIRECTORY)
        return search(a, what == CLI_CHANGE_LOST ? a->dir : path);
    if (!is_wanted(a, path) || !look_at(path, &st))
        return 0;
    const struct cli_version version = cli_version_of(&st);
    return (what == CLI_CHANGE_FILE ? add_found : add_young)(a, path, &version);
}

/* Looks again at the files that have waited long enough. One that has changed meanwhile waits once more. */
static int look_again(struct cli_arrivals *a)
{
    const uint64_t now = gd__now_ns();
    size_t n = 0;
    int rc = 0;
    while (rc == 0 && n < a->n_young && a->young[n].due_ns <= now) {
        const struct young y = a->young[n++];
        struct stat st;
        if (look_at(y.path, &st)) {
            const struct cli_version version = cli_version_of(&st);
            const bool is_same = cli_version_equal(&version, &y.version);
            rc = (is_same ? add_found : add_young)(a, y.path, &version);
        }
        free(y.path);
    }
    a->n_young -= n;
    if (n > 0)
        memmove(a->young, a->young + n, a->n_young * sizeof *a->young);
    return rc;
}

/* --- waiting ---------------------------------------------------------------------- */

static uint64_t idle_end(const struct cli_arrivals *a)
{
    return a->o.idle_ms > 0 && a->n_young == 0 ? a->last_ns + a->o.idle_ms * GD__NS_PER_MS : GD__NEVER;
}

static uint64_t next_moment(const struct cli_arrivals *a)
{
    uint64_t at = idle_end(a);
    if (a->n_young > 0 && a->young[0].due_ns < at)
        at = a->young[0].due_ns;
    return a->search_ns < at ? a->search_ns : at;
}

/* Waits for a change, or for the next moment at which there is something to do. Returns 1, 0 if cancelled, or -1. */
static int await(struct cli_arrivals *a)
{
    struct pollfd fds[2] = { { .fd = a->o.cancel_fd, .events = POLLIN },
                             { .fd = a->directories ? cli_directories_fd(a->directories) : -1, .events = POLLIN } };
    const uint64_t at = next_moment(a), now = gd__now_ns(), left = at > now ? at - now : 0;
    const struct timespec timeout = { (time_t)(left / GD__NS_PER_S), (long)(left % GD__NS_PER_S) };
    if (ppoll(fds, 2, at == GD__NEVER ? NULL : &timeout, NULL) < 0 && errno != EINTR && errno != EAGAIN)
        return gd__fail("cannot wait for files in %s: %s", a->dir, strerror(errno));
    if (fds[0].revents)
        return 0;
    if (fds[1].revents && cli_directories_read(a->directories, note_change, a) < 0)
        return -1;
    return 1;
}

/* Everything that was found is given: forgets it, and finds more. Returns 1, 0 at the end, or -1. */
static int find_more(struct cli_arrivals *a)
{
    gd_files_close(&a->found);
    a->next = 0;
    if (gd_files_open(&a->found) < 0)
        return gd__fail("%s", gd_error_text());
    while (gd_files_count(a->found) == 0) {
        const int rc = await(a);
        if (rc <= 0)
            return rc;
        if (look_again(a) < 0 || (a->search_ns <= gd__now_ns() && search(a, a->dir) < 0))
            return -1;
        if (gd_files_count(a->found) == 0 && idle_end(a) <= gd__now_ns())
            return 0;
    }
    return 1;
}

int cli_arrivals_next(struct cli_arrivals *a, const char **path, uint64_t *size)
{
    const int rc = a->next < gd_files_count(a->found) ? 1 : find_more(a);
    if (rc <= 0)
        return rc;
    *path = gd_files_path(a->found, a->next);
    *size = gd_files_size(a->found, a->next++);
    a->last_ns = gd__now_ns();
    return 1;
}

/* --- opening ---------------------------------------------------------------------- */

/* A file must have one name only, however it is found. The search for files leaves out slashes at the end, too. */
static char *without_slashes(const char *dir)
{
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        n--;
    return strndup(dir, n);
}

int cli_arrivals_open(struct cli_arrivals **out, const char *dir, const struct cli_arrivals_options *o)
{
    struct cli_arrivals *a = calloc(1, sizeof *a);
    if (!a)
        return gd__fail("out of memory");
    const bool is_shared = gd__file_is_shared(dir);
    a->o = *o;
    a->times = is_shared ? &without_events : &with_events;
    a->dir = without_slashes(dir);
    a->last_ns = gd__now_ns();
    int rc = a->dir ? 0 : gd__fail("out of memory");
    if (rc == 0 && gd_files_open(&a->found) < 0)
        rc = gd__fail("%s", gd_error_text());
    if (rc == 0 && !is_shared) /* before the search, so that nothing is missed between the two */
        rc = cli_directories_open(&a->directories, a->dir, o->what->recursive, o->what->hidden);
    if (rc == 0)
        rc = search(a, a->dir);
    if (rc < 0)
        cli_arrivals_close(&a);
    *out = a;
    return rc;
}

void cli_arrivals_close(struct cli_arrivals **arrivals)
{
    struct cli_arrivals *a = *arrivals;
    if (!a)
        return;
    for (size_t i = 0; i < a->n_young; i++)
        free(a->young[i].path);
    free(a->young);
    gd_files_close(&a->found);
    cli_directories_close(&a->directories);
    cli_versions_free(&a->given);
    cli_versions_free(&a->waiting);
    free(a->dir);
    free(a);
    *arrivals = NULL;
}
