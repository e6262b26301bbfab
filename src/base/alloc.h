/* Allocation that tests can make fail. On failure errno is ENOMEM and NULL is returned. */
#ifndef GD_BASE_ALLOC_H
#define GD_BASE_ALLOC_H

#include <stddef.h>

/* Memory for n objects of a multiple of 64 bytes, aligned to cache lines and not cleared. n must not be 0. */
void *gd__alloc_lines(size_t n, size_t size);
void *gd__calloc(size_t n, size_t size); /* zeroed; checks n * size for overflow; 0 bytes: returns a valid pointer */
void *gd__realloc(void *p, size_t size);
char *gd__strdup(const char *s);
void *gd__memdup(const void *p, size_t size);
void gd__free(void *p);

#endif
