/* SPDX-License-Identifier: MIT
 *
 * Loaded before everything else (LD_PRELOAD) into workers under test. Calls of posix_memalign(), which ggml uses for
 * its buffers, fail for more than GD_MEMORY_MOST bytes. If GD_MEMORY_ABORT is set, they end the process, as ggml does
 * when a GPU has no memory for a kernel.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

int posix_memalign(void **out, size_t alignment, size_t size)
{
    const char *most = getenv("GD_MEMORY_MOST");
    const bool fails = most && size > strtoull(most, NULL, 10);
    if (fails && getenv("GD_MEMORY_ABORT"))
        abort();
    if (fails)
        return ENOMEM;
    return ((__typeof__(&posix_memalign))dlsym(RTLD_NEXT, "posix_memalign"))(out, alignment, size);
}
