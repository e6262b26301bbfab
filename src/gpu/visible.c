/* A worker owns one device: CUDA_VISIBLE_DEVICES names it before any of the user's code runs. A list inherited from a
 * scheduler (a number, a UUID or a MIG name per entry) is what our device numbers count in.
 */
#include "gpu/visible.h"

#include <stdio.h>
#include <string.h>

void gd__visible_device(int gpu_id, const char *inherited, char *value, size_t size)
{
    const char *entry = inherited ? inherited : "";
    for (int i = 0; i < gpu_id && entry; i++) {
        entry = strchr(entry, ',');
        if (entry)
            entry++;
    }
    const size_t length = entry ? strcspn(entry, ",") : 0;
    if (length == 0 || length >= size)
        snprintf(value, size, "%d", gpu_id);
    else
        snprintf(value, size, "%.*s", (int)length, entry);
}
