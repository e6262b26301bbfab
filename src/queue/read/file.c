/* Checks files of the spill directory: see file.h. */
#include "queue/read/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text/printable.h"

enum { PIECE = 256 << 10, SHOWN = 160 };

static int hash_file(int fd, unsigned char hash[GD__HASH_SIZE], uint64_t *size)
{
    struct gd__siphash s;
    char *piece = gd__calloc(1, PIECE);
    ssize_t n = 1;
    if (!piece)
        return gd__error(GD_E_NO_MEMORY, "no memory to read a file");
    gd__key_hash_begin(&s);
    for (*size = 0; n > 0;) {
        n = read(fd, piece, PIECE);
        if (n < 0 && errno == EINTR)
            n = 1;
        else if (n > 0) {
            gd__siphash_add(&s, piece, (size_t)n);
            *size += (uint64_t)n;
        }
    }
    gd__siphash_end(&s, hash);
    gd__free(piece);
    return n < 0 ? gd__error_errno("cannot read it") : 0;
}

static int check_open_file(int fd, const struct gd__queue_data *data)
{
    struct stat info;
    unsigned char hash[GD__HASH_SIZE];
    uint64_t size = 0;
    if (fstat(fd, &info) < 0)
        return gd__error_errno("cannot read it");
    if (!S_ISREG(info.st_mode))
        return gd__error(GD_E_CORRUPT, "it is not a file");
    /* The size is looked at first, so that the wrong file need not be read. */
    if ((uint64_t)info.st_size != data->file_size)
        return gd__error(GD_E_CORRUPT, "it has %" PRIu64 " bytes, but %" PRIu64 " were recorded",
                         (uint64_t)info.st_size, data->file_size);
    const int rc = hash_file(fd, hash, &size);
    if (rc < 0)
        return rc;
    if (size != data->file_size || memcmp(hash, data->file_hash, sizeof hash) != 0)
        return gd__error(GD_E_CORRUPT, "its contents are not those that were recorded");
    return 0;
}

int gd__read_file_check(const char *directory, const struct gd__queue_data *data)
{
    char name[GD__QUEUE_FILE_MOST + 1], shown[SHOWN];
    const size_t size = data->file.size < sizeof name ? data->file.size : sizeof name - 1;
    memcpy(name, data->file.at, size);
    name[size] = '\0';
    (void)gd__text_name(shown, sizeof shown, name, size);
    if (!directory)
        return gd__error(GD_E_INVALID, "it is in the file %s: the spill directory was not given", shown);
    const int at = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return gd__error_errno("cannot open the spill directory %s", directory);
    /* Not a link, and no waiting for a writer: anybody who can write to the queue may name a file. */
    const int fd = openat(at, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    int rc = fd < 0 ? gd__error_errno("cannot open it") : check_open_file(fd, data);
    if (fd >= 0)
        (void)close(fd);
    (void)close(at);
    return rc < 0 ? gd__error_context(rc, "the file %s in the spill directory", shown) : 0;
}
