/* Copies public structs between a program and a library of different versions: see sized.h. */
#include "base/sized.h"

#include <string.h>

#include "base/error.h"

enum { MOST = 65536 /* bytes: a larger size means that it was never set */ };

int gd__sized_read(void *out, size_t known, const void *in, const char *name)
{
    size_t size = 0;
    if (!in)
        return gd__error(GD_E_INVALID, "%s is NULL: pass a struct whose size is set", name);
    memcpy(&size, in, sizeof size);
    if (size < sizeof size || size > MOST)
        return gd__error(GD_E_INVALID, "%s.size is %zu: set it to sizeof(struct %s)", name, size, name);
    for (size_t i = known; i < size; i++) {
        if (((const unsigned char *)in)[i])
            return gd__error(GD_E_VERSION,
                             "%s has a non-zero field at byte %zu that this library does not know: the program was "
                             "built with a newer header",
                             name, i);
    }
    memcpy(out, in, size < known ? size : known);
    return 0;
}

int gd__sized_write(void *out, const void *from, size_t known, const char *name)
{
    size_t size = 0;
    if (out)
        memcpy(&size, out, sizeof size);
    if (size < sizeof size)
        return gd__error(GD_E_INVALID, "%s.size is %zu: set it to sizeof(struct %s)", name, size, name);
    const size_t both = size < known ? size : known;
    memcpy((char *)out + sizeof size, (const char *)from + sizeof size, both - sizeof size);
    return 0;
}
