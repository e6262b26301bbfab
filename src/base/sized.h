/* Public structs that begin with their size, so that a program and a library of different versions work together. New
 * fields are added only at the end.
 */
#ifndef GD_BASE_SIZED_H
#define GD_BASE_SIZED_H

#include <stddef.h>

/* Copies the caller's struct over *out, which holds the defaults and is `known` bytes long. If the struct is shorter,
 * from an older header, the rest keeps its defaults. If it is longer, from a newer header, the bytes after `known` must
 * be zero. Returns 0, GD_E_INVALID or GD_E_VERSION. name: the name of the struct, for the error message. */
int gd__sized_read(void *out, size_t known, const void *in, const char *name);

/* Copies *from, `known` bytes long, into the caller's struct, as far as it fits. Does not change the caller's size
 * member. Returns GD_E_INVALID if out is NULL or its size is not set. */
int gd__sized_write(void *out, const void *from, size_t known, const char *name);

#endif
