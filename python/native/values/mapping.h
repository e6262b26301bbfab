/* Mapped pieces of files, and a cache of unused ones. The GIL protects all of it. */
#ifndef GD_PYTHON_VALUES_MAPPING_H
#define GD_PYTHON_VALUES_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Enough for 1 GiB of the smallest views. Together with the same number in use it stays below the 65,000 mappings that
 * the kernel allows a process. */
#ifndef VIEW_CACHE_MOST
#define VIEW_CACHE_MOST 16384
#endif
#ifndef VIEW_CACHE_BYTES
#define VIEW_CACHE_BYTES ((size_t)1 << 30)
#endif

struct mapping {
    unsigned char *base;
    size_t length;  /* whole pages */
    uint64_t first; /* offset in the file */
    dev_t device;
    ino_t inode;
};

/* Puts an unused mapping into the cache. */
void mapping_put(struct mapping mapping);

/* Takes a mapping from the cache that has the pages of *want, and perhaps more, and stores it in *want. Everything in
 * *want except base must be set. False: there is no such mapping. */
bool mapping_take(struct mapping *want);

void mappings_drop(void); /* empties the cache */
size_t mappings_waiting(void);
size_t mappings_waiting_bytes(void);

#endif
