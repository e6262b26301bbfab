/* The set of directories that have been entered, by device and inode. */
#ifndef GD_LAUNCH_FILES_VISITED_H
#define GD_LAUNCH_FILES_VISITED_H

#include <stddef.h>
#include <sys/types.h>

struct gd__visited {
    struct gd__directory_id *slots; /* private to visited.c */
    size_t count;
    size_t capacity; /* a power of two, or 0 */
};

/* Returns 1 if the pair was added, 0 if it was in the set already, or GD_E_NO_MEMORY. A zeroed struct is an empty
 * set. */
int gd__visited_add(struct gd__visited *v, dev_t dev, ino_t ino);
void gd__visited_free(struct gd__visited *v);

#endif
