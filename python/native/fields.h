/* Structs of the library as dicts, by one table of fields per struct; and lists. */
#ifndef GD_PYTHON_FIELDS_H
#define GD_PYTHON_FIELDS_H

#include <stddef.h>

#include "python/native/native.h"

/* KIND_TEXT: an array; KIND_STRING: a pointer, NULL becomes None. */
enum field_kind {
    KIND_INT,
    KIND_UNSIGNED,
    KIND_U32,
    KIND_I64,
    KIND_U64,
    KIND_DOUBLE,
    KIND_BOOL,
    KIND_TEXT,
    KIND_STRING
};

struct field {
    const char *name;
    size_t offset;
    enum field_kind kind;
    unsigned
        known; /* one of these bits must be set in to_dict()'s argument, otherwise the value is None; 0: always known */
};

#define FIELD(type, member, its_kind, its_bits)                                                    \
    {                                                                                              \
        .name = #member, .offset = offsetof(type, member), .kind = (its_kind), .known = (its_bits) \
    }
#define FIELD_COUNT(array) (sizeof(array) / sizeof *(array))

/* The dict of n fields of the struct at `of`. */
PyObject *to_dict(const struct field *fields, size_t n, const void *of, unsigned known);

/* Takes the reference to value. If value is NULL, an exception is already set. */
int dict_put(PyObject *dict, const char *name, PyObject *value);

/* Takes the reference to item, which may be NULL. False: *list was released and set to NULL. */
bool list_put(PyObject **list, PyObject *item);

/* The numbers of a Python sequence as ints; free with PyMem_Free(). NULL with an exception set. */
int *read_ints(PyObject *sequence, size_t *n);

#endif
