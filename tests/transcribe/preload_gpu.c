/* SPDX-License-Identifier: MIT
 *
 * Loaded before everything else (LD_PRELOAD) into workers under test: ggml's first device, whatever it is, is a GPU of
 * 24 GiB with GD_GPU_FREE bytes free.
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
