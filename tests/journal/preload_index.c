/* SPDX-License-Identifier: MIT
 *
 * Loaded before everything else (LD_PRELOAD) into a process under test. When the process makes the nameless file for
 * the index of the journal, this library writes a byte to the FIFO $GD_INDEX_HELD. Then it waits for a byte from the
 * FIFO $GD_INDEX_GO. So building the index takes exactly as long as the test wants.
 */
#undef _FILE_OFFSET_BITS /* so that open and open64 are two different functions */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

typedef int open_fn(const char *path, int flags, mode_t mode);

static open_fn *find(const char *name)
{
    open_fn *found;
    *(void **)&found = dlsym(RTLD_NEXT, name);
    return found;
}

static void hold(open_fn *real)
{
    const char *held = getenv("GD_INDEX_HELD"), *go = getenv("GD_INDEX_GO");
    char byte = 'x';
    if (!held || !go)
        return;
    int fd = real(held, O_WRONLY | O_CLOEXEC, 0);
    if (fd < 0 || write(fd, &byte, 1) != 1)
        abort();
    close(fd);
    fd = real(go, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0 || read(fd, &byte, 1) != 1)
        abort();
    close(fd);
}

static int open_held(const char *name, const char *path, int flags, mode_t mode)
{
    open_fn *real = find(name);
    if ((flags & O_TMPFILE) == O_TMPFILE)
        hold(real);
    return real(path, flags, mode);
}

#define OPEN(name)                                     \
    int name(const char *path, int flags, ...);        \
    int name(const char *path, int flags, ...)         \
    {                                                  \
        va_list args;                                  \
        va_start(args, flags);                         \
        const mode_t mode = (mode_t)va_arg(args, int); \
        va_end(args);                                  \
        return open_held(#name, path, flags, mode);    \
    }

OPEN(open)
OPEN(open64)
