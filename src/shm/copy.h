/* Copying into memory that another process will read. */
#ifndef GD_SHM_COPY_H
#define GD_SHM_COPY_H

#include <stddef.h>

/* Copies of this size or more bypass the cache: see copy.c. */
enum { GD__COPY_PAST_CACHE = 8 << 20 };

/* memcpy() into shared memory. A process that sees what this thread publishes afterwards sees these bytes too. */
void gd__copy_out(void *to, const void *from, size_t size);

#endif
