/* Copying into memory that another process will read. */
#ifndef GD_SHM_COPY_H
#define GD_SHM_COPY_H

#include <stddef.h>

/* From this size on a copy goes past the cache: see copy.c. */
enum { GD__COPY_PAST_CACHE = 8 << 20 };

/* memcpy() into shared memory. The bytes are visible to whoever sees what this thread publishes afterwards. */
void gd__copy_out(void *to, const void *from, size_t size);

#endif
