/* Pieces of files in memory, and those of them that wait to be used again. The GIL guards all of it. */
#ifndef GD_PYTHON_MAPPING_H
#define GD_PYTHON_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* At least what 1 GiB of the smallest views comes to, and with as many that are in use within the 65,000 mappings that
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

/* Nobody uses it any more. */
void mapping_put(struct mapping mapping);

/* Makes *want, of which everything but base is set, one that has its pages and may have more. False: there is none. */
bool mapping_take(struct mapping *want);

void mappings_drop(void); /* all that wait */
size_t mappings_waiting(void);
size_t mappings_waiting_bytes(void);

#endif
