/* Files for large payloads and outputs: see spill.h. */
#include "queue/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/file/replace.h"
#include "base/file/write.h"

enum { TEMPORARY_ROOM = GD__SPILL_NAME_ROOM + 8 };

static int no_directory(void)
{
    return gd__error(GD_E_INVALID,
                     "this queue has payloads or outputs in files: set the spill directory (--spill-dir) to "
                     "the directory in which they were written");
}

static int open_directory(const char *directory)
{
    const int fd = gd__fd_above_stdio(open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return fd >= 0 ? fd
                   : gd__error_errno("the spill directory %s (it must be on a file system that all machines share)",
                                     directory);
}

/* HASH-NONCE. */
static void make_name(char name[GD__SPILL_NAME_ROOM], const unsigned char hash[GD__HASH_SIZE])
{
    uint64_t nonce = 0;
    char *p = name;
    while (getrandom(&nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce && errno == EINTR)
        ;
    for (size_t i = 0; i < GD__HASH_SIZE; i++)
        p += snprintf(p, 3, "%02x", hash[i]);
    (void)snprintf(p, GD__SPILL_NAME_ROOM - (size_t)(p - name), "-%016" PRIx64, nonce);
}

/* Writes and closes the file. Returns 0, or -1 with errno. */
static int fill(int fd, const void *data, size_t size)
{
    int result = GD__FAULT("spill") ? -1 : gd__write_all(fd, data, size);
    if (result == 0)
        result = fsync(fd);
    const int error = errno;
    if (close(fd) < 0 && result == 0)
        return -1;
    errno = error;
    return result;
}

/* Makes the file with that name, complete and on disk. Returns 0, or -1 with errno. */
static int make_file(int directory, const char *name, const void *data, size_t size)
{
    char temporary[TEMPORARY_ROOM];
    (void)snprintf(temporary, sizeof temporary, ".%s.part", name);
    const int fd = gd__open_temporary(directory, temporary, 0666);
    if (fd < 0)
        return -1;
    if (fill(fd, data, size) == 0 && renameat(directory, temporary, directory, name) == 0)
        return fsync(directory) < 0 && errno != EINVAL ? -1 : 0; /* some file systems cannot do this and need not */
    const int error = errno;
    unlinkat(directory, temporary, 0);
    errno = error;
    return -1;
}

int gd__spill_check(const char *directory)
{
    static const unsigned char none[GD__HASH_SIZE];
    char name[GD__SPILL_NAME_ROOM];
    const int fd = open_directory(directory);
    if (fd < 0)
        return fd;
    make_name(name, none);
    name[0] = '.'; /* not the name of a payload */
    const int made = make_file(fd, name, "", 0), error = errno;
    unlinkat(fd, name, 0);
    close(fd);
    errno = error;
    return made == 0 ? 0 : gd__error_errno("cannot write to the spill directory %s", directory);
}

int gd__spill_write(const char *directory, const void *data, size_t size, struct gd__queue_data *out,
                    char name[GD__SPILL_NAME_ROOM])
{
    if (!directory)
        return no_directory();
    *out = (struct gd__queue_data){ .form = GD__QUEUE_FILE, .file_size = size };
    gd__key_hash(data, size, out->file_hash);
    make_name(name, out->file_hash);
    const int fd = open_directory(directory);
    if (fd < 0)
        return fd;
    const int made = make_file(fd, name, data, size), error = errno;
    close(fd);
    errno = error;
    if (made < 0)
        return gd__error_errno("cannot write %zu bytes to the spill directory %s", size, directory);
    out->file = (struct gd__queue_text){ name, strlen(name) };
    return 0;
}

int gd__spill_path(char *out, size_t room, const char *directory, const struct gd__queue_data *data)
{
    if (!directory)
        return no_directory();
    const int n = snprintf(out, room, "%s/%.*s", directory, (int)data->file.size, data->file.at);
    return n >= 0 && (size_t)n < room ? 0 : gd__error(GD_E_INVALID, "the path of the spill directory is too long");
}

/* Reads the whole file. Returns 0 or a negative code. */
static int read_all(int fd, const char *path, uint64_t size, struct gd__buffer *out)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return gd__error_errno("cannot read %s", path);
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != size)
        return gd__error(GD_E_CORRUPT, "%s has %" PRIu64 " bytes instead of %" PRIu64, path, (uint64_t)st.st_size,
                         size);
    char *to = gd__buffer_reserve(out, size > 0 ? (size_t)size : 1);
    if (!to)
        return gd__error(GD_E_NO_MEMORY, "no memory for the %" PRIu64 " bytes of %s", size, path);
    for (size_t done = 0; done < size;) {
        const ssize_t n = read(fd, to + done, (size_t)size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return gd__error_errno("cannot read %s", path);
        if (n == 0)
            return gd__error(GD_E_CORRUPT, "%s became shorter while it was read", path);
        done += (size_t)n;
    }
    return 0;
}

int gd__spill_read(const char *directory, const struct gd__queue_data *data, struct gd__buffer *out)
{
    char path[PATH_MAX];
    unsigned char hash[GD__HASH_SIZE];
    int rc = gd__spill_path(path, sizeof path, directory, data);
    if (rc < 0)
        return rc;
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return gd__error_errno("cannot read %s: is %s the spill directory of all machines?", path, directory);
    rc = read_all(fd, path, data->file_size, out);
    close(fd);
    if (rc < 0) {
        out->failed = false;
        return rc;
    }
    gd__key_hash(out->data + out->size, (size_t)data->file_size, hash);
    if (memcmp(hash, data->file_hash, sizeof hash) != 0)
        return gd__error(GD_E_CORRUPT, "%s does not have the contents that its message describes", path);
    out->size += (size_t)data->file_size;
    return 0;
}
