/* A sealed memfd and its mapping.
 *
 * The seals make shared memory safe to read. Without F_SEAL_SHRINK the other side could truncate the file, and each
 * access beyond its end would raise SIGBUS. F_SEAL_FUTURE_WRITE allows no new writable mapping. Our own was made before
 * the seal. The memory has no name in any file system, so a process that is killed leaves nothing behind.
 *
 * A size only reserves address space: a page costs memory only after it is touched. Large regions begin at a multiple
 * of 2 MiB, because the kernel makes a huge page only of memory that has the same alignment in the file and in the
 * address space.
 */
#include "shm/region.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "shm/layout.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

/* From Linux 6.3 on, a system may be configured to refuse memfds without MFD_NOEXEC_SEAL. Older kernels do not have
 * that flag. */
static int make_memfd(const char *name)
{
    if (GD__FAULT("memfd"))
        return -1;
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return gd__fd_above_stdio(fd);
}

/* Beyond RLIMIT_FSIZE ftruncate() would not only fail but also send SIGXFSZ, which kills the process. */
static int set_size(int fd, size_t size)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && size > limit.rlim_cur) {
        errno = EFBIG;
        return -1;
    }
    if (GD__FAULT("ftruncate"))
        return -1;
    return ftruncate(fd, (off_t)size);
}

/* Reserves size bytes of address space at a multiple of GD__EXTENT. The caller maps over them. Returns NULL if the
 * caller should map anywhere. */
static void *reserve_aligned(size_t size)
{
    const size_t room = size + GD__EXTENT;
    if (size < GD__EXTENT || room < size)
        return NULL;
    char *at = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    const size_t before = (GD__EXTENT - (uintptr_t)at % GD__EXTENT) % GD__EXTENT;
    if (before > 0)
        munmap(at, before);
    munmap(at + before + size, GD__EXTENT - before);
    return at + before;
}

static void *map(int fd, size_t size, bool writable)
{
    if (GD__FAULT("mmap"))
        return MAP_FAILED;
    int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    void *room = reserve_aligned(size);
    void *base = mmap(room, size, protection, MAP_SHARED | MAP_NORESERVE | (room ? MAP_FIXED : 0), fd, 0);
    if (base == MAP_FAILED && room)
        munmap(room, size);
    if (base != MAP_FAILED)
        madvise(base, size, MADV_DONTDUMP); /* keeps a sparse terabyte out of core dumps; may fail */
    return base;
}

static bool may_be_smaller(int error)
{
    return error == ENOMEM || error == EFBIG || error == EINVAL || error == EOVERFLOW;
}

static size_t halved(size_t size, size_t at_least)
{
    size_t half = (size / 2 + GD__PAGE - 1) & ~(size_t)(GD__PAGE - 1);
    return half > at_least ? half : at_least;
}

/* Sets fd to the largest size that is allowed and can be mapped, and maps it. */
static void *size_and_map(int fd, size_t *size, size_t at_least, bool writable)
{
    for (;;) {
        void *base = set_size(fd, *size) < 0 ? MAP_FAILED : map(fd, *size, writable);
        if (base != MAP_FAILED || *size <= at_least || !may_be_smaller(errno))
            return base;
        *size = halved(*size, at_least);
    }
}

int gd__region_create(struct gd__region *r, const char *name, size_t size, size_t at_least, enum gd__region_side side)
{
    int code, fd = -1;
    void *base = MAP_FAILED;
    int seals = side == GD__REGION_WE_WRITE ? SEALS | F_SEAL_FUTURE_WRITE : SEALS;

    *r = (struct gd__region)GD__REGION_NONE;
    if (size == 0 || size % GD__PAGE || (at_least < size && at_least % GD__PAGE))
        return gd__error(GD_E_INVALID, "shared memory %s: %zu bytes are not whole pages", name, size);
    fd = make_memfd(name);
    if (fd < 0) {
        code = gd__error_errno("shared memory %s: memfd_create", name);
        goto fail;
    }
    base = size_and_map(fd, &size, at_least, side == GD__REGION_WE_WRITE);
    if (base == MAP_FAILED) {
        code = gd__error_errno("shared memory %s: %zu bytes", name, size);
        goto fail;
    }
    if (GD__FAULT("seal") || fcntl(fd, F_ADD_SEALS, seals) < 0) {
        code = gd__error_errno("shared memory %s: cannot seal it (needs Linux 5.1)", name);
        goto fail;
    }
    *r = (struct gd__region){ .fd = fd, .base = base, .size = size };
    return 0;
fail:
    if (base != MAP_FAILED)
        munmap(base, size);
    if (fd >= 0)
        close(fd);
    return code;
}

/* Returns 0 if fd is a sealed memfd of the expected size. */
static int check_memfd(int fd, size_t size)
{
    struct stat status;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || fstat(fd, &status) < 0)
        return gd__error_errno("shared memory: descriptor %d", fd);
    if ((seals & SEALS) != SEALS)
        return gd__error(GD_E_PROTOCOL, "shared memory: descriptor %d is not sealed (seals %#x)", fd, (unsigned)seals);
    if (size == 0 || status.st_size < 0 || (uint64_t)status.st_size != size)
        return gd__error(GD_E_PROTOCOL, "shared memory: descriptor %d has %lld bytes, not %zu", fd,
                         (long long)status.st_size, size);
    return 0;
}

int gd__region_attach(struct gd__region *r, int fd, size_t size, int writable)
{
    *r = (struct gd__region)GD__REGION_NONE;
    int code = check_memfd(fd, size);
    if (code < 0)
        goto fail;
    void *base = map(fd, size, writable != 0);
    if (base == MAP_FAILED) {
        code = gd__error_errno("shared memory: mapping %zu bytes", size);
        goto fail;
    }
    *r = (struct gd__region){ .fd = fd, .base = base, .size = size };
    return 0;
fail:
    if (fd >= 0)
        close(fd);
    return code;
}

void gd__region_close(struct gd__region *r)
{
    if (r->base) {
        munmap(r->base, r->size);
        close(r->fd);
    }
    *r = (struct gd__region)GD__REGION_NONE;
}
