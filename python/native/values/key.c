/* Keys, which identify tasks in a journal: plain values as bytes that depend only on the value.
 *
 *     a scalar               as value.c encodes it, so that a task and a key of the same value are the same
 *     tuple 'T', list 'L'    the letter, then each element: its size (uint64_t), its bytes
 *     dict 'D', set 'S'      the same, sorted by the bytes of the elements; an element of a dict is a key followed by
 *                            its value
 *
 * A pickle is not good enough, because equal values can have different pickles. For example, one value contains an
 * object twice, and the other contains two equal objects. Also, the order of a set changes with each start of the
 * interpreter. For items that are not made of plain values there is nothing better, so their payload is the key. */
#include <string.h>

#include "python/native/run/run.h"

static PyObject *encode(PyObject *object, bool is_strict);

static PyObject *encode_scalar(PyObject *object)
{
    struct value_plan plan;
    if (value_plan(&plan, object) < 0)
        return NULL;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)plan.size);
    if (bytes)
        value_write(&plan, PyBytes_AS_STRING(bytes));
    value_plan_clear(&plan);
    return bytes;
}

/* Appends the encoded object. -1: there is an exception, or the object is not plain. */
static int encode_into(PyObject *list, PyObject *object, bool is_strict)
{
    PyObject *bytes = encode(object, is_strict);
    const int rc = bytes ? PyList_Append(list, bytes) : -1;
    Py_XDECREF(bytes);
    return rc;
}

static PyObject *encode_join(char letter, PyObject *list)
{
    Py_ssize_t size = 1;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++)
        size += (Py_ssize_t)sizeof(uint64_t) + PyBytes_GET_SIZE(PyList_GET_ITEM(list, i));
    PyObject *out = PyBytes_FromStringAndSize(NULL, size);
    if (!out)
        return NULL;
    char *at = PyBytes_AS_STRING(out);
    *at++ = letter;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        const uint64_t length = (uint64_t)PyBytes_GET_SIZE(PyList_GET_ITEM(list, i));
        memcpy(at, &length, sizeof length);
        memcpy(at + sizeof length, PyBytes_AS_STRING(PyList_GET_ITEM(list, i)), length);
        at += sizeof length + length;
    }
    return out;
}

/* The elements of a sequence or set, one after the other. */
static int encode_elements(PyObject *list, PyObject *object, bool is_strict)
{
    PyObject *iterator = PyObject_GetIter(object), *element = NULL;
    int rc = iterator ? 0 : -1;
    while (rc == 0 && (element = PyIter_Next(iterator))) {
        rc = encode_into(list, element, is_strict);
        Py_DECREF(element);
    }
    Py_XDECREF(iterator);
    return rc < 0 || PyErr_Occurred() ? -1 : 0;
}

/* Each key followed by its value, as one element. */
static int encode_items(PyObject *list, PyObject *dict, bool is_strict)
{
    PyObject *items = PyDict_Items(dict); /* pairs, which are tuples */
    const int rc = items ? encode_elements(list, items, is_strict) : -1;
    Py_XDECREF(items);
    return rc;
}

static PyObject *encode_container(PyObject *object, char letter, bool is_strict)
{
    PyObject *out = NULL, *list = PyList_New(0);
    if (!list || Py_EnterRecursiveCall(" in a journal's key")) {
        Py_XDECREF(list);
        return NULL;
    }
    int rc = letter == 'D' ? encode_items(list, object, is_strict) : encode_elements(list, object, is_strict);
    if (rc == 0 && (letter == 'D' || letter == 'S'))
        rc = PyList_Sort(list);
    if (rc == 0)
        out = encode_join(letter, list);
    Py_LeaveRecursiveCall();
    Py_DECREF(list);
    return out;
}

/* Accepts nearly plain objects in the result of a key function: an IntEnum, a path, an integer of NumPy. */
static PyObject *make_plain(PyObject *object)
{
    if (PyUnicode_Check(object))
        return PyUnicode_FromObject(object);
    if (PyBytes_Check(object))
        return PyBytes_FromStringAndSize(PyBytes_AS_STRING(object), PyBytes_GET_SIZE(object));
    if (PyIndex_Check(object)) {
        PyObject *number = PyNumber_Index(object);
        if (number && !PyLong_CheckExact(number))
            Py_SETREF(number, PyObject_CallFunctionObjArgs((PyObject *)&PyLong_Type, number, NULL));
        return number;
    }
    if (PyFloat_Check(object))
        return PyFloat_FromDouble(PyFloat_AS_DOUBLE(object));
    PyObject *path = PyOS_FSPath(object);
    if (!path && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Format(PyExc_TypeError,
                     "key(item) has a %s: it must be made of str, bytes, int, float, paths, and tuples, lists, dicts "
                     "or sets of them",
                     Py_TYPE(object)->tp_name);
    }
    return path;
}

static PyObject *encode_other(PyObject *object)
{
    PyObject *plain = make_plain(object);
    PyObject *out = plain ? encode_scalar(plain) : NULL;
    Py_XDECREF(plain);
    return out;
}

bool key_is_scalar(PyObject *object)
{
    const PyTypeObject *type = Py_TYPE(object);
    return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyFloat_Type || type == &PyBytes_Type ||
           type == &PyBool_Type || object == Py_None;
}

/* NULL with an exception. If not strict, NULL without an exception means that something is not plain. */
static PyObject *encode(PyObject *object, bool is_strict)
{
    static const struct {
        PyTypeObject *type;
        char letter;
    } containers[] = { { &PyTuple_Type, 'T' },
                       { &PyList_Type, 'L' },
                       { &PyDict_Type, 'D' },
                       { &PySet_Type, 'S' },
                       { &PyFrozenSet_Type, 'S' } };
    const PyTypeObject *type = Py_TYPE(object);
    if (key_is_scalar(object))
        return encode_scalar(object);
    for (size_t i = 0; i < sizeof containers / sizeof *containers; i++)
        if (type == containers[i].type || (is_strict && i == 0 && PyTuple_Check(object)))
            return encode_container(object, containers[i].letter, is_strict);
    return is_strict ? encode_other(object) : NULL;
}

PyObject *key_of_item(PyObject *object)
{
    const PyTypeObject *type = Py_TYPE(object);
    if (type != &PyTuple_Type && type != &PyList_Type && type != &PyDict_Type && type != &PySet_Type &&
        type != &PyFrozenSet_Type)
        return NULL; /* a scalar's payload is its key */
    PyObject *key = encode(object, false);
    if (!key && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear(); /* perhaps it contains itself, which a pickle can handle */
    return key;
}

PyObject *key_encode(PyObject *key)
{
    if (key != Py_None)
        return encode(key, true);
    PyErr_SetString(PyExc_TypeError, "key(item) returned None: it must return what identifies the item");
    return NULL;
}
