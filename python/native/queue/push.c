/* The type Push: adds tasks to a queue. Used by gpu_dispatch.push(), on one thread. */
#include "python/native/queue/queue.h"
#include "python/native/run/run.h"

struct push {
    PyObject_HEAD
    struct gd_queue_push *p;
    PyObject *note; /* called with a line if the push must wait; NULL: none */
    PyThreadState *state;
};

/* Called by gd_queue_push_open(), without the GIL. An exception is raised when the call has returned. */
static void on_wait(void *user, const char *message)
{
    struct push *self = user;
    PyEval_RestoreThread(self->state);
    PyObject *done = self->note ? PyObject_CallFunction(self->note, "s", message) : NULL;
    Py_XDECREF(done);
    self->state = PyEval_SaveThread();
}

/* A signal handler that raised has ended the call, or an error of the queue. */
static PyObject *failed(int rc)
{
    if (PyErr_Occurred() || PyErr_CheckSignals() < 0)
        return NULL;
    return queue_error(rc);
}

static int open_push(struct push *self, const struct gd_queue_options *queue, struct gd_queue_push_options *o)
{
    o->on_wait = on_wait;
    o->user = self;
    self->state = PyEval_SaveThread();
    const int rc = gd_queue_push_open(&self->p, queue, o);
    PyEval_RestoreThread(self->state);
    if (rc < 0)
        failed(rc);
    return rc < 0 || PyErr_Occurred() ? -1 : 0;
}

static PyObject *push_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char queue[] = "queue", bundle[] = "bundle", wait_ms[] = "wait_ms", by_weight[] = "by_weight",
                stop_fd[] = "stop_fd", note[] = "note",
                *names[] = { queue, bundle, wait_ms, by_weight, stop_fd, note, NULL };
    struct gd_queue_options o = GD_QUEUE_OPTIONS_INIT;
    struct gd_queue_push_options po = GD_QUEUE_PUSH_OPTIONS_INIT;
    PyObject *dict, *on_note = NULL;
    int heaviest_first = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|IIpiO:Push", names, &PyDict_Type, &dict, &po.bundle, &po.wait_ms,
                                     &heaviest_first, &po.stop_fd, &on_note))
        return NULL;
    po.by_weight = heaviest_first;
    struct push *self = (struct push *)type->tp_alloc(type, 0);
    PyObject *keep = self ? PyList_New(0) : NULL;
    if (self)
        self->note = Py_XNewRef(on_note);
    const int rc = keep && queue_read_options(&o, dict, keep) == 0 ? open_push(self, &o, &po) : -1;
    Py_XDECREF(keep);
    if (rc < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void push_dealloc(PyObject *object)
{
    struct push *self = (struct push *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_BEGIN_ALLOW_THREADS
    gd_queue_push_abandon(&self->p);
    Py_END_ALLOW_THREADS
    Py_XDECREF(self->note);
    type->tp_free(object);
    Py_DECREF(type);
}

static struct push *opened(PyObject *object)
{
    struct push *self = (struct push *)object;
    if (!self->p)
        PyErr_SetString(PyExc_ValueError, "the push has ended");
    return self->p ? self : NULL;
}

/* ---- adding ---- */

/* The key of an item without a key function. All machines and all later pushes must find the same one, and pickles of
 * equal objects may differ. NULL without an exception: the payload is the key. */
static PyObject *own_key(PyObject *item)
{
    if (key_is_scalar(item))
        return NULL;
    PyObject *key = key_of_item(item);
    if (!key && !PyErr_Occurred())
        key = key_encode(item);
    if (!key && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Format(
            PyExc_TypeError,
            "an item is a %s, or contains one that is not a plain value. Its pickle may be different the next "
            "time, so a repeated push would add it again: give key=, a function that returns a str, an int or a "
            "tuple of them",
            Py_TYPE(item)->tp_name);
    return key;
}

/* The payload as bytes. New reference. */
static PyObject *payload_of(PyObject *item)
{
    PyObject *text = value_plain_text(item);
    if (text || PyErr_Occurred())
        return text;
    struct value_plan plan;
    if (value_plan(&plan, item) < 0)
        return NULL;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)plan.size);
    if (bytes)
        value_write(&plan, PyBytes_AS_STRING(bytes));
    value_plan_clear(&plan);
    return bytes;
}

static int add(struct push *self, struct gd_queue_item *item, PyObject *payload, PyObject *key)
{
    int rc;
    item->data = PyBytes_AS_STRING(payload);
    item->data_size = (size_t)PyBytes_GET_SIZE(payload);
    if (key) {
        item->key = PyBytes_AS_STRING(key);
        item->key_size = (size_t)PyBytes_GET_SIZE(key);
    }
    Py_BEGIN_ALLOW_THREADS
    rc = gd_queue_push_add(self->p, item);
    Py_END_ALLOW_THREADS
    return rc;
}

static PyObject *push_add(PyObject *object, PyObject *args)
{
    struct push *self = opened(object);
    struct gd_queue_item item = { .size = sizeof item };
    PyObject *value, *user_key;
    unsigned long long weight = 0;
    if (!self || !PyArg_ParseTuple(args, "OOziIK:add", &value, &user_key, &item.version, &item.priority,
                                   &item.timeout_ms, &weight))
        return NULL;
    item.weight = weight;
    PyObject *key = user_key == Py_None ? own_key(value) : key_encode(user_key);
    PyObject *payload = PyErr_Occurred() ? NULL : payload_of(value);
    const int rc = payload ? add(self, &item, payload, key) : 0;
    const bool made = payload != NULL;
    Py_XDECREF(payload);
    Py_XDECREF(key);
    if (!made)
        return NULL;
    if (rc < 0)
        return failed(rc);
    Py_RETURN_NONE;
}

static PyObject *push_retry_failed(PyObject *object, PyObject *unused)
{
    struct push *self = opened(object);
    int rc;
    (void)unused;
    if (!self)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = gd_queue_push_retry_failed(self->p);
    Py_END_ALLOW_THREADS
    if (rc < 0)
        return failed(rc);
    Py_RETURN_NONE;
}

static PyObject *push_finish(PyObject *object, PyObject *unused)
{
    struct push *self = opened(object);
    struct gd_queue_push_counts c = { .size = sizeof c };
    int rc;
    (void)unused;
    if (!self)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = gd_queue_push_finish(&self->p, &c);
    Py_END_ALLOW_THREADS
    if (rc < 0)
        return failed(rc);
    PyObject *durable = c.durable < 0 ? Py_NewRef(Py_None) : PyBool_FromLong(c.durable);
    return Py_BuildValue("KKKKKN", (unsigned long long)c.added, (unsigned long long)c.known,
                         (unsigned long long)c.messages, (unsigned long long)c.again, (unsigned long long)c.files,
                         durable);
}

static PyMethodDef methods[] = {
    { "add", push_add, METH_VARARGS, "add(item, key, version, priority, timeout_ms, weight)" },
    { "retry_failed", push_retry_failed, METH_NOARGS, "Adds each failed task once more." },
    { "finish", push_finish, METH_NOARGS, "Ends the push: (added, known, messages, again, files, durable)." },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
    { Py_tp_doc, (void *)(uintptr_t) "Push(queue, ...): a push. What is not finished is abandoned." },
    { Py_tp_new, push_new },
    { Py_tp_dealloc, push_dealloc },
    { Py_tp_methods, methods },
    { 0, NULL },
};

static PyType_Spec spec = {
    .name = "gpu_dispatch._native.Push",
    .basicsize = sizeof(struct push),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

int queue_push_init(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&spec);
    if (!type)
        return -1;
    const int rc = PyModule_AddObjectRef(module, "Push", type);
    Py_DECREF(type);
    return rc;
}
