/* Structs of the library as dicts. A table has the offset and type of each field, so a new field needs one line and no
 * code.
 */
#include "python/native/fields.h"

#include <limits.h>
#include <string.h>

static PyObject *field_value(const struct field *f, const void *of)
{
    const char *at = (const char *)of + f->offset;
    switch (f->kind) {
    case KIND_INT:
        return PyLong_FromLong(*(const int *)(const void *)at);
    case KIND_UNSIGNED:
        return PyLong_FromUnsignedLong(*(const unsigned *)(const void *)at);
    case KIND_U32:
        return PyLong_FromUnsignedLong(*(const uint32_t *)(const void *)at);
    case KIND_I64:
        return PyLong_FromLongLong(*(const int64_t *)(const void *)at);
    case KIND_U64:
        return PyLong_FromUnsignedLongLong(*(const uint64_t *)(const void *)at);
    case KIND_DOUBLE:
        return PyFloat_FromDouble(*(const double *)(const void *)at);
    case KIND_BOOL:
        return PyBool_FromLong(*(const bool *)(const void *)at);
    case KIND_TEXT:
        return PyUnicode_DecodeUTF8(at, (Py_ssize_t)strlen(at), "replace");
    case KIND_STRING:
        at = *(const char *const *)(const void *)at;
        return at ? PyUnicode_DecodeUTF8(at, (Py_ssize_t)strlen(at), "replace") : Py_NewRef(Py_None);
    }
    Py_RETURN_NONE;
}

int dict_put(PyObject *dict, const char *name, PyObject *value)
{
    const int rc = value ? PyDict_SetItemString(dict, name, value) : -1;
    Py_XDECREF(value);
    return rc;
}

PyObject *to_dict(const struct field *fields, size_t n, const void *of, unsigned known)
{
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < n; i++) {
        const bool is_known = fields[i].known == 0 || (fields[i].known & known);
        if (dict_put(dict, fields[i].name, is_known ? field_value(&fields[i], of) : Py_NewRef(Py_None)) < 0)
            Py_CLEAR(dict);
    }
    return dict;
}

bool list_put(PyObject **list, PyObject *item)
{
    if (!item || PyList_Append(*list, item) < 0)
        Py_CLEAR(*list);
    Py_XDECREF(item);
    return *list != NULL;
}

int *read_ints(PyObject *sequence, size_t *n)
{
    PyObject *fast = PySequence_Fast(sequence, "device numbers must be a list");
    if (!fast)
        return NULL;
    *n = (size_t)PySequence_Fast_GET_SIZE(fast);
    int *out = PyMem_Calloc(*n + 1, sizeof *out);
    if (!out)
        PyErr_NoMemory();
    for (size_t i = 0; out && i < *n; i++) {
        const long value = PyLong_AsLong(PySequence_Fast_GET_ITEM(fast, (Py_ssize_t)i));
        if (value >= INT_MIN && value <= INT_MAX && !PyErr_Occurred()) {
            out[i] = (int)value;
            continue;
        }
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_OverflowError, "%ld is not a device number", value);
        PyMem_Free(out);
        out = NULL;
    }
    Py_DECREF(fast);
    return out;
}
