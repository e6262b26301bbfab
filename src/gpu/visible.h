/* Which variable makes a worker see its device and no other. */
#ifndef GD_GPU_VISIBLE_H
#define GD_GPU_VISIBLE_H

#include <stddef.h>

/* The value of CUDA_VISIBLE_DEVICES for device gpu_id of this process: where a scheduler has given this process a list,
 * gpu_id counts within it. inherited: that list, or NULL. */
void gd__visible_device(int gpu_id, const char *inherited, char *value, size_t size);

#endif
