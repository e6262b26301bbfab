/* The type Reader: the records, figures and nodes of a queue, as dicts. Used by one thread at a time. */
#include "python/native/fields.h"
#include "python/native/queue/queue.h"

struct reader {
    PyObject_HEAD
    struct gd_queue_reader *r;
    bool busy;
    PyObject *call; /* the function of the call that is going on; borrowed */
    PyObject *wait; /* of follow(): called while there is no record; borrowed; NULL: none */
    PyThreadState *state;
};

#define RECORD(field, kind) FIELD(struct gd_queue_record, field, kind, 0)
static const struct field record_fields[] = {
    RECORD(number, KIND_U64),         RECORD(repeat, KIND_U32),          RECORD(again, KIND_U32),
    RECORD(done, KIND_BOOL),          RECORD(attempts, KIND_UNSIGNED),   RECORD(failure, KIND_STRING),
    RECORD(error, KIND_STRING),       RECORD(stderr_end, KIND_STRING),   RECORD(exit_code, KIND_INT),
    RECORD(signal, KIND_INT),         RECORD(host, KIND_STRING),         RECORD(gpu, KIND_STRING),
    RECORD(started, KIND_DOUBLE),     RECORD(seconds, KIND_DOUBLE),      RECORD(input_file, KIND_STRING),
    RECORD(output_file, KIND_STRING), RECORD(output_error, KIND_STRING),
};

#define FIGURE(field, kind) FIELD(struct gd_queue_figures, field, kind, 0)
static const struct field figure_fields[] = {
    FIGURE(tasks, KIND_U64),         FIGURE(done, KIND_U64),    FIGURE(failed, KIND_U64),
    FIGURE(waiting, KIND_U64),       FIGURE(held, KIND_U64),    FIGURE(is_done, KIND_BOOL),
    FIGURE(push_is_open, KIND_BOOL), FIGURE(nodes, KIND_U64),   FIGURE(busy_seconds, KIND_DOUBLE),
    FIGURE(command, KIND_STRING),    FIGURE(durable, KIND_INT), FIGURE(server_version, KIND_STRING),
};

#define NODE(field, kind) FIELD(struct gd_queue_node, field, kind, 0)
static const struct field node_fields[] = {
    NODE(host, KIND_STRING),   NODE(id, KIND_STRING),          NODE(pid, KIND_U64),
    NODE(draining, KIND_BOOL), NODE(left, KIND_BOOL),          NODE(workers, KIND_UNSIGNED),
    NODE(busy, KIND_UNSIGNED), NODE(done, KIND_U64),           NODE(failed, KIND_U64),
    NODE(held, KIND_U64),      NODE(age_seconds, KIND_DOUBLE), NODE(tasks_per_second, KIND_DOUBLE),
    NODE(http, KIND_STRING),   NODE(note, KIND_STRING),
};

/* ---- life ---- */

static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char queue[] = "queue", *names[] = { queue, NULL };
    struct gd_queue_options o = GD_QUEUE_OPTIONS_INIT;
    PyObject *dict;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!:Reader", names, &PyDict_Type, &dict))
        return NULL;
    struct reader *self = (struct reader *)type->tp_alloc(type, 0);
    PyObject *keep = self ? PyList_New(0) : NULL;
    int rc = -1;
    if (keep && queue_read_options(&o, dict, keep) == 0) {
        Py_BEGIN_ALLOW_THREADS
        rc = gd_queue_reader_open(&self->r, &o);
        Py_END_ALLOW_THREADS
        if (rc < 0)
            queue_error(rc);
    }
    Py_XDECREF(keep);
    if (rc < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void reader_dealloc(PyObject *object)
{
    struct reader *self = (struct reader *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_BEGIN_ALLOW_THREADS
    gd_queue_reader_close(&self->r);
    Py_END_ALLOW_THREADS
    type->tp_free(object);
    Py_DECREF(type);
}

/* Before and after a call of the library, which runs without the GIL. */
static bool begin(struct reader *self)
{
    if (self->busy)
        PyErr_SetString(PyExc_RuntimeError, "another thread uses this reader");
    else
        self->busy = true;
    return !PyErr_Occurred();
}

static PyObject *end(struct reader *self, int rc)
{
    self->busy = false;
    self->call = self->wait = NULL;
    if (PyErr_Occurred())
        return NULL;
    if (rc < 0)
        return queue_error(rc);
    Py_RETURN_NONE;
}

/* ---- records ---- */

static PyObject *bytes_or_none(const void *data, size_t size)
{
    return data ? PyBytes_FromStringAndSize(data, (Py_ssize_t)size) : Py_NewRef(Py_None);
}

static PyObject *record_dict(const struct gd_queue_record *r)
{
    PyObject *dict = to_dict(record_fields, FIELD_COUNT(record_fields), r, 0);
    if (dict && (dict_put(dict, "key", PyBytes_FromStringAndSize((const char *)r->key, 16)) < 0 ||
                 dict_put(dict, "input", bytes_or_none(r->input, r->input_size)) < 0 ||
                 dict_put(dict, "output", bytes_or_none(r->output, r->output_size)) < 0))
        Py_CLEAR(dict);
    return dict;
}

/* Calls the function with a dict, whose reference is taken. 0: it returned a false value. 1: stop. */
static int give(struct reader *self, PyObject *dict)
{
    PyObject *stop = dict ? PyObject_CallOneArg(self->call, dict) : NULL;
    const int rc = stop && PyObject_IsTrue(stop) == 0 ? 0 : 1;
    Py_XDECREF(stop);
    Py_XDECREF(dict);
    return rc;
}

static int on_record(void *user, const struct gd_queue_record *record)
{
    struct reader *self = user;
    PyEval_RestoreThread(self->state);
    const int rc = give(self, record_dict(record));
    self->state = PyEval_SaveThread();
    return rc;
}

static int on_node(void *user, const struct gd_queue_node *node)
{
    struct reader *self = user;
    PyEval_RestoreThread(self->state);
    const int rc = give(self, to_dict(node_fields, FIELD_COUNT(node_fields), node, 0));
    self->state = PyEval_SaveThread();
    return rc;
}

static int on_wait(void *user)
{
    struct reader *self = user;
    PyEval_RestoreThread(self->state);
    int rc = PyErr_CheckSignals() < 0;
    if (rc == 0 && self->wait) {
        PyObject *stop = PyObject_CallNoArgs(self->wait);
        rc = stop && PyObject_IsTrue(stop) == 0 ? 0 : 1;
        Py_XDECREF(stop);
    }
    self->state = PyEval_SaveThread();
    return rc;
}

static PyObject *reader_each(PyObject *object, PyObject *call)
{
    struct reader *self = (struct reader *)object;
    if (!begin(self))
        return NULL;
    self->call = call;
    self->state = PyEval_SaveThread();
    const int rc = gd_queue_reader_each(self->r, on_record, self);
    PyEval_RestoreThread(self->state);
    return end(self, rc);
}

static PyObject *reader_follow(PyObject *object, PyObject *args)
{
    struct reader *self = (struct reader *)object;
    PyObject *call, *wait;
    if (!PyArg_ParseTuple(args, "OO:follow", &call, &wait) || !begin(self))
        return NULL;
    self->call = call;
    self->wait = wait;
    gd_queue_reader_on_wait(self->r, on_wait, self);
    self->state = PyEval_SaveThread();
    const int rc = gd_queue_reader_follow(self->r, on_record, self);
    PyEval_RestoreThread(self->state);
    return end(self, rc);
}

static PyObject *reader_nodes(PyObject *object, PyObject *unused)
{
    struct reader *self = (struct reader *)object;
    PyObject *list = PyList_New(0), *add = list ? PyObject_GetAttrString(list, "append") : NULL;
    (void)unused;
    if (add && begin(self)) {
        self->call = add;
        self->state = PyEval_SaveThread();
        const int rc = gd_queue_reader_nodes(self->r, on_node, self);
        PyEval_RestoreThread(self->state);
        PyObject *done = end(self, rc);
        Py_XDECREF(done);
    }
    Py_XDECREF(add);
    if (PyErr_Occurred())
        Py_CLEAR(list);
    return list;
}

static PyObject *reader_figures(PyObject *object, PyObject *unused)
{
    struct reader *self = (struct reader *)object;
    struct gd_queue_figures f = { .size = sizeof f };
    (void)unused;
    if (!begin(self))
        return NULL;
    self->state = PyEval_SaveThread();
    const int rc = gd_queue_reader_figures(self->r, &f);
    PyEval_RestoreThread(self->state);
    PyObject *done = end(self, rc);
    if (!done)
        return NULL;
    Py_DECREF(done);
    return to_dict(figure_fields, FIELD_COUNT(figure_fields), &f, 0);
}

/* ---- the type ---- */

static PyMethodDef methods[] = {
    { "each", reader_each, METH_O, "each(call): calls call(dict) for each record, until it returns something true." },
    { "follow", reader_follow, METH_VARARGS,
      "follow(call, wait): the same, and waits for new records until the queue is done." },
    { "figures", reader_figures, METH_NOARGS, "The figures of the queue, as a dict." },
    { "nodes", reader_nodes, METH_NOARGS, "The nodes of the queue, as a list of dicts." },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
    { Py_tp_doc, (void *)(uintptr_t) "Reader(queue): reads a queue." },
    { Py_tp_new, reader_new },
    { Py_tp_dealloc, reader_dealloc },
    { Py_tp_methods, methods },
    { 0, NULL },
};

static PyType_Spec spec = {
    .name = "gpu_dispatch._native.Reader",
    .basicsize = sizeof(struct reader),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

int queue_reader_init(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&spec);
    if (!type)
        return -1;
    const int rc = PyModule_AddObjectRef(module, "Reader", type);
    Py_DECREF(type);
    return rc;
}
