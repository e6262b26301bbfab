/* A sealed memfd and its mapping. */
#ifndef GD_SHM_REGION_H
#define GD_SHM_REGION_H

#include <stddef.h>
#include <stdint.h>

struct gd__region {
    int fd; /* -1: none */
    void *base;
    size_t size;
};
#define GD__REGION_NONE \
    {                   \
        -1, NULL, 0     \
    }

enum gd__region_side {
    GD__REGION_WE_WRITE,   /* mapped read-write here, then sealed so that no other process can write */
    GD__REGION_THEY_WRITE, /* mapped read-only here; the other side maps it read-write */
};

/* Makes a sparse memfd of size bytes (a multiple of the page size), seals it (SHRINK, GROW and SEAL, and FUTURE_WRITE
 * if we write) and maps it. If at_least < size and the address space or a limit (RLIMIT_AS, RLIMIT_FSIZE) does not
 * allow that size, the size is halved until it fits. Returns 0, GD_E_SYSTEM or GD_E_NO_MEMORY. */
int gd__region_create(struct gd__region *r, const char *name, size_t size, size_t at_least, enum gd__region_side side);

/* Maps a memfd made by the other side. Takes ownership of fd, even if it fails. Refuses a memfd that is not sealed or
 * not exactly size bytes long. */
int gd__region_attach(struct gd__region *r, int fd, size_t size, int writable);

/* Unmaps and closes. May be called twice, and on GD__REGION_NONE. */
void gd__region_close(struct gd__region *r);

#endif
