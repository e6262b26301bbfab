/* Public structs that begin with their size, so that a program and a library of different versions understand each
 * other. Fields are only ever added at the end.
 */
#ifndef GD_BASE_SIZED_H
#define GD_BASE_SIZED_H

#include <stddef.h>

/* Copies the caller's struct over *out, which holds the defaults and is `known` bytes long. A shorter struct, from an
 * older header, leaves the defaults in the rest. A longer one, from a newer header, must hold zeros beyond what is
 * known here. GD_E_INVALID, GD_E_VERSION. name: that of the struct, for the error message. */
int gd__sized_read(void *out, size_t known, const void *in, const char *name);

/* Copies *from, `known` bytes long, into the caller's struct as far as that goes; its size stays. GD_E_INVALID: out is
 * NULL or has no size. */
int gd__sized_write(void *out, const void *from, size_t known, const char *name);

#endif
