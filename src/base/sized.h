/* Public structs that begin with their size, so that a program and a library of different versions understand each
 * other. Fields are only ever added at the end.
 */
#ifndef GD_BASE_SIZED_H
#define GD_BASE_SIZED_H

#include <stddef.h>

/* Copies the caller's struct over *out, which holds the defaults and is `known` bytes long. A shorter struct, from an
 * older header, leaves the defaults in the rest. A longer one, from a newer header, must hold zeros beyond what is
 * known here. Returns 0, GD_E_INVALID or GD_E_VERSION. name: the name of the struct, for the error message. */
int gd__sized_read(void *out, size_t known, const void *in, const char *name);

/* Copies *from, `known` bytes long, into the caller's struct, as far as it fits. The caller's size member is kept.
 * GD_E_INVALID: out is NULL or its size is not set. */
int gd__sized_write(void *out, const void *from, size_t known, const char *name);

#endif
