/* A module for the tests of value.c and view.c. Python calls their functions through it.
 *
 * Built with their files and with a small VIEW_MOST, VIEW_CACHE_MOST and VIEW_CACHE_BYTES, so that the limits can be
 * reached.
 */
#include "python/native/native.h"
#include "python/native/values/mapping.h"

#include <time.h>

static PyObject *encode(PyObject *module, PyObject *object)
{
    struct value_plan plan;
    (void)module;
    if (value_plan(&plan, object) < 0)
        return NULL;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)plan.size);
    if (bytes)
        value_write(&plan, PyBytes_AS_STRING(bytes));
    value_plan_clear(&plan);
    return bytes;
}

static PyObject *encode_small(PyObject *module, PyObject *object)
{
    unsigned char room[24];
    (void)module;
    return PyBytes_FromStringAndSize((const char *)room, (Py_ssize_t)value_small(object, room));
}

static PyObject *decode(PyObject *module, PyObject *arguments)
{
    Py_buffer data;
    struct value_place place = { .fd = -1 };
    unsigned long long offset = 0;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*|iK", &data, &place.fd, &offset))
        return NULL;
    place.offset = offset;
    PyObject *object = value_read(data.buf, (size_t)data.len, &place);
    PyBuffer_Release(&data);
    return object;
}

/* write(object, room): the value at the beginning of a writable buffer; returns its size. */
static PyObject *write_to(PyObject *module, PyObject *arguments)
{
    Py_buffer room;
    PyObject *object, *size = NULL;
    struct value_plan plan;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "Ow*", &object, &room))
        return NULL;
    if (value_plan(&plan, object) == 0) {
        if (plan.size > (size_t)room.len) {
            PyErr_Format(PyExc_ValueError, "%zu bytes needed", plan.size);
        } else {
            value_write(&plan, room.buf);
            size = PyLong_FromSize_t(plan.size);
        }
        value_plan_clear(&plan);
    }
    PyBuffer_Release(&room);
    return size;
}

static PyObject *open_view(PyObject *module, PyObject *arguments)
{
    int fd;
    unsigned long long offset, size;
    (void)module;
    return PyArg_ParseTuple(arguments, "iKK", &fd, &offset, &size) ? view_open(fd, offset, (size_t)size) : NULL;
}

static PyObject *settle(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    if (views_settle() < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *forget(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    views_forget();
    Py_RETURN_NONE;
}

static PyObject *count(PyObject *module, PyObject *nothing)
{
    struct view_counts counts;
    (void)module;
    (void)nothing;
    views_count(&counts);
    return Py_BuildValue("{sK sK sK sK sn sn sn}", "mapped", (unsigned long long)counts.mapped, "reused",
                         (unsigned long long)counts.reused, "copied", (unsigned long long)counts.copied, "kept",
                         (unsigned long long)counts.kept, "live", (Py_ssize_t)counts.live, "cached",
                         (Py_ssize_t)counts.cached, "cached_bytes", (Py_ssize_t)counts.cached_bytes);
}

/* small_ns(object, n): nanoseconds for n calls of value_small() and n calls of value_read(). */
static PyObject *small_ns(PyObject *module, PyObject *arguments)
{
    PyObject *object;
    long n;
    struct timespec start, end;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "Ol", &object, &n))
        return NULL;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (long i = 0; i < n; i++) {
        unsigned char room[24];
        PyObject *back = value_read(room, value_small(object, room), NULL);
        if (!back)
            return NULL;
        Py_DECREF(back);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double ns = (double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec);
    return PyFloat_FromDouble(ns / (double)n);
}

static PyMethodDef functions[] = {
    { "encode", encode, METH_O, NULL },
    { "encode_small", encode_small, METH_O, NULL },
    { "decode", decode, METH_VARARGS, NULL },
    { "write", write_to, METH_VARARGS, NULL },
    { "open_view", open_view, METH_VARARGS, NULL },
    { "settle", settle, METH_NOARGS, NULL },
    { "forget", forget, METH_NOARGS, NULL },
    { "count", count, METH_NOARGS, NULL },
    { "small_ns", small_ns, METH_VARARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "native_test", NULL, -1, functions, NULL, NULL, NULL, NULL
};

PyMODINIT_FUNC PyInit_native_test(void);
PyMODINIT_FUNC PyInit_native_test(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    if (value_init(module) < 0 || view_init(module) < 0 ||
        PyModule_AddIntConstant(module, "VIEW_LEAST", VIEW_LEAST) < 0 ||
        PyModule_AddIntConstant(module, "VIEW_MOST", VIEW_MOST) < 0 ||
        PyModule_AddIntConstant(module, "VIEW_CACHE_MOST", VIEW_CACHE_MOST) < 0 ||
        PyModule_AddIntConstant(module, "VIEW_CACHE_BYTES", VIEW_CACHE_BYTES) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
