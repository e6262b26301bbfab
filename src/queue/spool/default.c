/* The spool file of a node whose user has not named one. Several nodes of one queue may run on a machine, so there are
 * numbered names. A file with messages was left by a node that has died: the next node takes it first. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "queue/spool/spool.h"

enum { FILES_MOST = 256, HOST_ROOM = 128 };

/* Creates a directory and those above it, for this user only. */
static int make_directories(const char *path)
{
    char part[PATH_MAX];
    for (const char *at = path; *at;) {
        at += strspn(at, "/");
        at += strcspn(at, "/");
        snprintf(part, sizeof part, "%.*s", (int)(at - path), path);
        if (mkdir(part, 0700) < 0 && errno != EEXIST)
            return gd__error_errno("cannot create the directory %s for the spool file (name a file with --spool)",
                                   part);
    }
    return 0;
}

static int find_directory(char out[PATH_MAX])
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n = 0;
    if (state && *state == '/')
        n = snprintf(out, PATH_MAX, "%s/gpu-dispatch", state);
    else if (home && *home == '/')
        n = snprintf(out, PATH_MAX, "%s/.local/state/gpu-dispatch", home);
    if (n <= 0 || n >= PATH_MAX)
        return gd__error(GD_E_INVALID, "there is no place for the spool file: set HOME, or name a file with --spool");
    return make_directories(out);
}

/* Only letters that are harmless in a file name. */
static void file_name_of(const char *host, char out[HOST_ROOM])
{
    size_t n = 0;
    for (; host[n] && n < HOST_ROOM - 1; n++) {
        const char c = host[n];
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
        out[n] = (char)(plain || (c == '.' && n > 0) ? c : '_');
    }
    out[n] = '\0';
}

static int name_file(char out[PATH_MAX], const char *directory, const char *queue, const char *host, unsigned i)
{
    char number[16] = "";
    if (i > 1)
        snprintf(number, sizeof number, "-%u", i);
    const int n = snprintf(out, PATH_MAX, "%s/%s-%s%s.spool", directory, queue, host, number);
    return n < PATH_MAX ? 0 : gd__error(GD_E_INVALID, "the name of the spool file is too long: name one with --spool");
}

int gd__spool_open_default(struct gd__spool **out, const char *queue, const struct gd__spool_queue_id *id,
                           const char *host)
{
    char directory[PATH_MAX], path[PATH_MAX], host_name[HOST_ROOM];
    struct stat st;
    *out = NULL;
    file_name_of(host, host_name);
    int rc = find_directory(directory);
    for (int must_exist = 1; rc == 0 && must_exist >= 0; must_exist--) {
        for (unsigned i = 1; i <= FILES_MOST; i++) {
            if ((rc = name_file(path, directory, queue, host_name, i)) < 0)
                return rc;
            if (must_exist && stat(path, &st) < 0)
                continue;
            rc = gd__spool_open(out, path, queue, id);
            if (rc == 0 && must_exist && gd__spool_count(*out) == 0)
                gd__spool_close(out);
            else if (rc == 0 || (rc != GD_E_BUSY && rc != GD_E_CORRUPT && rc != GD_E_MISMATCH))
                return rc;
        }
        rc = 0;
    }
    return rc < 0 ? rc : gd__error(GD_E_BUSY, "%u spool files in %s are in use", FILES_MOST, directory);
}
