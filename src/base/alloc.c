/* Allocation that tests can make fail. Calls gd__fault() first, then the C library's function.
 *
 * A request for 0 bytes returns a valid pointer, so that NULL always means that memory ran out.
 */
#include "base/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"

void *gd__calloc(size_t n, size_t size)
{
    if (GD__FAULT("calloc"))
        return NULL;
    if (n == 0 || size == 0)
        n = size = 1;
    return calloc(n, size);
}

void *gd__alloc_lines(size_t n, size_t size)
{
    if (GD__FAULT("alloc_lines") || n > SIZE_MAX / size)
        return NULL;
    return aligned_alloc(64, n * size);
}

void *gd__realloc(void *p, size_t size)
{
    if (GD__FAULT("realloc"))
        return NULL;
    return realloc(p, size ? size : 1);
}

void *gd__memdup(const void *p, size_t size)
{
    if (GD__FAULT("memdup"))
        return NULL;
    void *copy = malloc(size ? size : 1);
    if (copy && size)
        memcpy(copy, p, size);
    return copy;
}

char *gd__strdup(const char *s)
{
    return gd__memdup(s, strlen(s) + 1);
}

void gd__free(void *p)
{
    free(p);
}
