/* Values as readable text, made from their bytes. Pickles are not unpickled for that.
 *
 *   value_brief()   for observers of a run: plain text, without the GIL
 *   value_repr()    for a journal: the repr() of a value that is not a pickle
 */
#include <stdio.h>
#include <string.h>

#include "python/native/native.h"
#include "python/native/values/kinds.h"

enum { BRIEF_MOST = 64, REPR_MOST = 4096 /* bytes of a string */ };

static size_t put(char *out, size_t room, const void *text, size_t size)
{
    const size_t n = size < room ? size : room;
    memcpy(out, text, n);
    return n;
}

/* Reads a number. False: the value is not a number, or is damaged. */
static bool number_in(const unsigned char *data, size_t size, enum kind kind, void *eight_bytes)
{
    if (size != 1 + 8 || data[0] != TAG(kind))
        return false;
    memcpy(eight_bytes, data + 1, 8);
    return true;
}

size_t value_brief(const void *bytes, size_t size, char *out, size_t room)
{
    static const char *const constants[] = { [KIND_NONE] = "None", [KIND_FALSE] = "False", [KIND_TRUE] = "True" };
    const unsigned char *data = bytes;
    char text[BRIEF_MOST];
    long long number;
    double real;
    if (size == 0)
        return 0;
    if (data[0] >= ' ') /* a text of a queue has no tag */
        return put(out, room, data, size);
    const unsigned kind = data[0] & ~(unsigned)VERSION_MASK;
    if (kind == KIND_STR || kind == KIND_BYTES || kind == KIND_BYTEARRAY)
        return put(out, room, data + 1, size - 1);
    if (kind <= KIND_TRUE)
        return put(out, room, constants[kind], strlen(constants[kind]));
    if (number_in(data, size, KIND_INT, &number))
        snprintf(text, sizeof text, "%lld", number);
    else if (number_in(data, size, KIND_FLOAT, &real))
        snprintf(text, sizeof text, "%.12g", real);
    else
        snprintf(text, sizeof text, "an object of %zu bytes", size);
    return put(out, room, text, strlen(text));
}

/* A long string is cut. If the cut is in the middle of a character, that character is left out. */
static PyObject *run_repr(const unsigned char *data, size_t size, enum kind kind)
{
    const bool is_cut = size > REPR_MOST;
    const Py_ssize_t n = is_cut ? REPR_MOST : (Py_ssize_t)size;
    const char *text = (const char *)data;
    PyObject *value = kind == KIND_STR     ? PyUnicode_DecodeUTF8(text, n, is_cut ? "ignore" : "replace")
                      : kind == KIND_BYTES ? PyBytes_FromStringAndSize(text, n)
                                           : PyByteArray_FromStringAndSize(text, n);
    PyObject *repr = value ? PyObject_Repr(value) : NULL;
    if (repr && is_cut)
        Py_SETREF(repr, PyUnicode_FromFormat("%U... (%zu bytes)", repr, size));
    Py_XDECREF(value);
    return repr;
}

bool value_is_pickle(const void *bytes, size_t size)
{
    const unsigned char *data = bytes;
    return size > 0 && (data[0] == TAG(KIND_PICKLE) || data[0] == TAG(KIND_BUFFERS));
}

PyObject *value_repr(const void *bytes, size_t size)
{
    const unsigned char *data = bytes;
    if (size == 0 || value_is_pickle(bytes, size))
        return NULL;
    switch (data[0]) {
    case TAG(KIND_STR):
        return run_repr(data + 1, size - 1, KIND_STR);
    case TAG(KIND_BYTES):
        return run_repr(data + 1, size - 1, KIND_BYTES);
    case TAG(KIND_BYTEARRAY):
        return run_repr(data + 1, size - 1, KIND_BYTEARRAY);
    default:
        break;
    }
    PyObject *value = value_read(bytes, size, NULL);
    PyObject *repr = value ? PyObject_Repr(value) : NULL;
    Py_XDECREF(value);
    return repr;
}
