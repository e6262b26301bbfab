/* SPDX-License-Identifier: MIT
 *
 * Loaded before everything else (LD_PRELOAD) into workers under test. Every device of ggml appears to be a GPU with 24
 * GiB of memory, of which GD_GPU_FREE bytes are free.
 */
#include <stdlib.h>

enum { GPU = 1 }; /* GGML_BACKEND_DEVICE_TYPE_GPU */

int ggml_backend_dev_type(const void *device);
int ggml_backend_dev_type(const void *device)
{
    (void)device;
    return GPU;
}

void ggml_backend_dev_memory(const void *device, size_t *unused, size_t *all);
void ggml_backend_dev_memory(const void *device, size_t *unused, size_t *all)
{
    const char *room = getenv("GD_GPU_FREE");
    (void)device;
    *unused = room ? strtoull(room, NULL, 10) : 0;
    *all = (size_t)24 << 30;
}
