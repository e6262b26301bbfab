/* The options of a queue, QueueError, and queue_available(). */
#include "python/native/queue/queue.h"

#include <limits.h>
#include <string.h>

static PyObject *error_type; /* gpu_dispatch.QueueError */

PyObject *queue_error(int code)
{
    if (code == GD_E_INVALID || code == GD_E_NO_MEMORY)
        return native_error(code);
    PyObject *text = PyUnicode_DecodeUTF8(gd_error_text(), (Py_ssize_t)strlen(gd_error_text()), "replace");
    if (text)
        PyErr_SetObject(error_type, text);
    Py_XDECREF(text);
    return NULL;
}

/* ---- options ---- */

enum kind { TEXT, UNSIGNED, INT64, BOOL };

struct option {
    const char *name;
    enum kind kind;
    size_t offset;
};

#define OPTION(member, its_kind)                                                                 \
    {                                                                                            \
        .name = #member, .kind = (its_kind), .offset = offsetof(struct gd_queue_options, member) \
    }
static const struct option table[] = {
    OPTION(url, TEXT),           OPTION(creds, TEXT),
    OPTION(nkey, TEXT),          OPTION(tls_ca, TEXT),
    OPTION(tls_cert, TEXT),      OPTION(tls_key, TEXT),
    OPTION(spill_dir, TEXT),     OPTION(connect_timeout_ms, UNSIGNED),
    OPTION(lease_ms, UNSIGNED),  OPTION(replicas, UNSIGNED),
    OPTION(idle_exit_ms, INT64), OPTION(lost_timeout_ms, UNSIGNED),
    OPTION(spool, TEXT),         OPTION(command, TEXT),
    OPTION(force, BOOL),
};

static int read_text(const char **field, PyObject *value, PyObject *keep)
{
    PyObject *bytes;
    if (!PyUnicode_FSConverter(value, &bytes))
        return -1;
    const int rc = PyList_Append(keep, bytes);
    *field = PyBytes_AS_STRING(bytes);
    Py_DECREF(bytes);
    return rc;
}

/* The dict comes from gpu_dispatch._queue, which has checked the ranges. */
static int read_option(const struct option *option, PyObject *value, void *field, PyObject *keep)
{
    if (option->kind == TEXT)
        return read_text(field, value, keep);
    if (option->kind == BOOL)
        *(bool *)field = PyObject_IsTrue(value) > 0;
    else if (option->kind == INT64)
        *(int64_t *)field = PyLong_AsLongLong(value);
    else
        *(unsigned *)field = (unsigned)PyLong_AsUnsignedLong(value);
    return PyErr_Occurred() ? -1 : 0;
}

static const struct option *find(PyObject *key)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (PyUnicode_Check(key) && PyUnicode_CompareWithASCIIString(key, table[i].name) == 0)
            return &table[i];
    PyErr_Format(PyExc_TypeError, "unknown option of a queue: %R", key);
    return NULL;
}

int queue_read_options(struct gd_queue_options *o, PyObject *dict, PyObject *keep)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    int rc = 0;
    while (rc == 0 && PyDict_Next(dict, &at, &key, &value)) {
        const struct option *option = find(key);
        rc = option ? read_option(option, value, (char *)o + option->offset, keep) : -1;
    }
    return rc;
}

/* ---- the module ---- */

static PyObject *available(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyBool_FromLong(gd_queue_available());
}

/* A payload of a task: a text of a user, or a value. */
static PyObject *read_item(PyObject *module, PyObject *bytes)
{
    (void)module;
    if (!PyBytes_Check(bytes))
        return PyErr_Format(PyExc_TypeError, "it must be bytes");
    return value_read_item(PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes),
                           &(struct value_place){ .fd = -1 });
}

/* An output: the value that a Python worker has returned, or the bytes that another program has written. */
static PyObject *read_output(PyObject *module, PyObject *bytes)
{
    (void)module;
    if (!PyBytes_Check(bytes))
        return PyErr_Format(PyExc_TypeError, "it must be bytes");
    const size_t size = (size_t)PyBytes_GET_SIZE(bytes);
    if (!value_has_tag(PyBytes_AS_STRING(bytes), size))
        return Py_NewRef(bytes);
    return value_read(PyBytes_AS_STRING(bytes), size, &(struct value_place){ .fd = -1 });
}

static PyMethodDef functions[] = {
    { "queue_available", available, METH_NOARGS, "Whether libnats can be loaded." },
    { "read_item", read_item, METH_O, "read_item(bytes): the item of a payload" },
    { "read_output", read_output, METH_O, "read_output(bytes): the result of a worker, or the bytes of a program" },
    { NULL, NULL, 0, NULL },
};

PyDoc_STRVAR(error_doc,
             "A queue cannot be used: its server cannot be reached or refuses, the queue does not exist, or\n"
             "another program works on it. This is a RuntimeError. The message says what to do.");

int queue_init(PyObject *module)
{
    if (!error_type)
        error_type = PyErr_NewExceptionWithDoc("gpu_dispatch.QueueError", error_doc, PyExc_RuntimeError, NULL);
    if (!error_type || PyModule_AddObjectRef(module, "QueueError", error_type) < 0)
        return -1;
    if (PyModule_AddFunctions(module, functions) < 0 || queue_push_init(module) < 0)
        return -1;
    return queue_reader_init(module);
}
