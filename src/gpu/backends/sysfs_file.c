/* Reads small files of sysfs. A file that is missing or cannot be read is not an error here: every kernel and driver
 * has a different selection of them.
 */
#include "gpu/backends/sysfs_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/backends/backend.h"

bool gd__sysfs_path(char out[GD__SYSFS_PATH_MAX], const char *directory, const char *name)
{
    const char *root = getenv(GD__ENV_SYSFS);
    const int n = snprintf(out, GD__SYSFS_PATH_MAX, "%s/%s%s%s", root && *root ? root : "/sys", directory,
                           name ? "/" : "", name ? name : "");
    return n > 0 && n < GD__SYSFS_PATH_MAX;
}

bool gd__sysfs_read(const char *directory, const char *name, char *out, size_t size)
{
    char path[GD__SYSFS_PATH_MAX];
    const int fd = gd__sysfs_path(path, directory, name) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return false;
    size_t used = 0;
    ssize_t n;
    while (used < size - 1 && ((n = read(fd, out + used, size - 1 - used)) > 0 || (n < 0 && errno == EINTR)))
        used += n > 0 ? (size_t)n : 0;
    close(fd);
    while (used > 0 && isspace((unsigned char)out[used - 1]))
        used--;
    out[used] = '\0';
    return used > 0;
}

static bool whole_number(const char *text, uint64_t *out)
{
    char *end;
    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    *out = strtoull(text, &end, 0);
    return errno == 0 && (*end == '\0' || isspace((unsigned char)*end));
}

bool gd__sysfs_number(const char *directory, const char *name, uint64_t *out)
{
    char text[64];
    return gd__sysfs_read(directory, name, text, sizeof text) && whole_number(text, out);
}

bool gd__sysfs_property(const char *text, const char *key, uint64_t *out)
{
    const size_t length = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) == 0 && line[length] == ' ')
            return whole_number(line + length + 1, out);
    }
    return false;
}

DIR *gd__sysfs_open(const char *directory)
{
    char path[GD__SYSFS_PATH_MAX];
    return gd__sysfs_path(path, directory, NULL) ? opendir(path) : NULL;
}

int gd__sysfs_numbered(const char *name, const char *beginning)
{
    const size_t length = strlen(beginning);
    if (strncmp(name, beginning, length) != 0 || !isdigit((unsigned char)name[length]))
        return -1;
    char *end;
    const long n = strtol(name + length, &end, 10);
    return *end == '\0' && n <= INT_MAX ? (int)n : -1;
}
