/* Balancer(gpu_ids, workers_per_gpu, total): counts results with the launcher's balancer, and gives them as dicts and
 * text. Only one thread may use the library's object at a time. The GIL makes sure of that, since no call here releases
 * it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "python/native/fields.h"

typedef struct {
    PyObject_HEAD
    struct gd_balancer *balancer;
} BalancerObject;

static struct gd_balancer *balancer_of(PyObject *self)
{
    return ((BalancerObject *)self)->balancer;
}

static PyObject *balancer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = { "gpu_ids", "workers_per_gpu", "total", NULL };
    PyObject *sequence;
    unsigned workers = 1;
    unsigned long long total = 0;
    size_t n;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|IK:Balancer", (char **)(uintptr_t)names, &sequence, &workers,
                                     &total))
        return NULL;
    int *ids = read_ints(sequence, &n);
    PyObject *self = ids ? type->tp_alloc(type, 0) : NULL;
    if (self) {
        const int rc = gd_balancer_open(&((BalancerObject *)self)->balancer, ids, n, workers, total);
        if (rc < 0) {
            native_error(rc);
            Py_CLEAR(self);
        }
    }
    PyMem_Free(ids);
    return self;
}

static void balancer_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    gd_balancer_close(&((BalancerObject *)self)->balancer);
    type->tp_free(self);
    Py_DECREF(type); /* a heap type: its objects own it */
}

/* NULL: no failure. An unknown name is an ordinary error. */
static enum gd_failure failure_of(const char *name)
{
    if (!name)
        return GD_FAILURE_NONE;
    for (int i = GD_FAILURE_ERROR; i <= GD_FAILURE_NO_WORKER; i++)
        if (strcmp(name, gd_failure_name((enum gd_failure)i)) == 0)
            return (enum gd_failure)i;
    return GD_FAILURE_ERROR;
}

PyDoc_STRVAR(balancer_add_doc,
             "add(task_id, gpu_id, start_ns, end_ns, failure, error, name, media_seconds, /)\n--\n\n"
             "Counts the end of a task. failure: None, or the name of its kind. start_ns 0: the time is unknown.");
static PyObject *balancer_add(PyObject *self, PyObject *args)
{
    struct gd_report r = { .worker_id = -1 };
    unsigned long long task_id, start_ns, end_ns;
    const char *failure;
    Py_ssize_t size;
    double media_seconds;
    if (!PyArg_ParseTuple(args, "KiKKzzy#d:add", &task_id, &r.gpu_id, &start_ns, &end_ns, &failure, &r.error, &r.input,
                          &size, &media_seconds))
        return NULL;
    r.task_id = task_id;
    r.start_ns = start_ns;
    r.end_ns = end_ns;
    r.input_size = (size_t)size;
    r.failure = failure_of(failure);
    const int rc = gd_balancer_add(balancer_of(self), &r, media_seconds);
    return rc < 0 ? native_error(rc) : Py_NewRef(Py_None);
}

static PyObject *balancer_restarted(PyObject *self, PyObject *gpu_id)
{
    const long id = PyLong_AsLong(gpu_id);
    if (PyErr_Occurred())
        return NULL;
    gd_balancer_restarted(balancer_of(self), (int)id);
    Py_RETURN_NONE;
}

static PyObject *balancer_set_total(PyObject *self, PyObject *total)
{
    const unsigned long long n = PyLong_AsUnsignedLongLong(total);
    if (PyErr_Occurred())
        return NULL;
    gd_balancer_set_total(balancer_of(self), n);
    Py_RETURN_NONE;
}

#define BALANCE(field, kind) FIELD(struct gd_balance, field, kind, 0)
static const struct field balance_fields[] = {
    BALANCE(total, KIND_U64),
    BALANCE(done, KIND_U64),
    BALANCE(failed, KIND_U64),
    BALANCE(timeouts, KIND_U64),
    BALANCE(cancelled, KIND_U64),
    BALANCE(restarts, KIND_U64),
    BALANCE(seconds, KIND_DOUBLE),
    BALANCE(busy_seconds, KIND_DOUBLE),
    BALANCE(media_seconds, KIND_DOUBLE),
    BALANCE(rtf, KIND_DOUBLE),
    BALANCE(speedup, KIND_DOUBLE),
    BALANCE(tasks_per_second, KIND_DOUBLE),
    BALANCE(eta_seconds, KIND_DOUBLE),
};

static PyObject *balancer_overall(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct gd_balance b = { .size = sizeof b };
    const int rc = gd_balancer_overall(balancer_of(self), &b);
    return rc < 0 ? native_error(rc) : to_dict(balance_fields, FIELD_COUNT(balance_fields), &b, 0);
}

#define FIGURE(field, kind) FIELD(struct gd_gpu_figures, field, kind, 0)
static const struct field figure_fields[] = {
    FIGURE(gpu_id, KIND_INT),           FIGURE(done, KIND_U64),
    FIGURE(failed, KIND_U64),           FIGURE(timeouts, KIND_U64),
    FIGURE(restarts, KIND_U64),         FIGURE(busy_seconds, KIND_DOUBLE),
    FIGURE(media_seconds, KIND_DOUBLE), FIGURE(mean_seconds, KIND_DOUBLE),
    FIGURE(busy_percent, KIND_DOUBLE),  FIGURE(rtf, KIND_DOUBLE),
};

static PyObject *balancer_gpus(PyObject *self, PyObject *unused)
{
    (void)unused;
    const struct gd_balancer *b = balancer_of(self);
    PyObject *out = PyList_New(0);
    for (size_t i = 0; out && i < gd_balancer_gpus(b); i++) {
        struct gd_gpu_figures f = { .size = sizeof f };
        const int rc = gd_balancer_gpu(b, i, &f);
        list_put(&out, rc < 0 ? native_error(rc) : to_dict(figure_fields, FIELD_COUNT(figure_fields), &f, 0));
    }
    return out;
}

static PyObject *balancer_errors(PyObject *self, PyObject *unused)
{
    (void)unused;
    const char *message;
    PyObject *out = PyList_New(0);
    for (size_t i = 0; out && (message = gd_balancer_error(balancer_of(self), i)); i++)
        list_put(&out, PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "replace"));
    return out;
}

PyDoc_STRVAR(balancer_text_doc, "text(what, /)\n--\n\nThe summary as lines of text. what: \"files\" or \"tasks\".");
static PyObject *balancer_text(PyObject *self, PyObject *args)
{
    const char *what;
    char *text = NULL;
    size_t length = 0;
    if (!PyArg_ParseTuple(args, "s:text", &what))
        return NULL;
    FILE *to = open_memstream(&text, &length);
    if (!to)
        return PyErr_NoMemory();
    const int rc = gd_balancer_print(balancer_of(self), to, what);
    const bool is_whole = fclose(to) == 0;
    PyObject *out = rc < 0     ? native_error(rc)
                    : is_whole ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)length, "replace")
                               : PyErr_NoMemory();
    free(text);
    return out;
}

static PyMethodDef balancer_methods[] = {
    { "add", balancer_add, METH_VARARGS, balancer_add_doc },
    { "restarted", balancer_restarted, METH_O, "restarted(gpu_id, /)\n--\n\nA process of that GPU was replaced." },
    { "set_total", balancer_set_total, METH_O, "set_total(n, /)\n--\n\nHow many tasks are expected; 0: not known." },
    { "overall", balancer_overall, METH_NOARGS, "overall()\n--\n\nAll figures of the run, as a dict." },
    { "gpus", balancer_gpus, METH_NOARGS, "gpus()\n--\n\nThe figures of each GPU, a dict each." },
    { "errors", balancer_errors, METH_NOARGS,
      "errors()\n--\n\nThe first errors, at most 100: \"what: error message\"." },
    { "text", balancer_text, METH_VARARGS, balancer_text_doc },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot balancer_slots[] = {
    { Py_tp_new, (void *)(uintptr_t)balancer_new },
    { Py_tp_dealloc, (void *)(uintptr_t)balancer_dealloc },
    { Py_tp_methods, balancer_methods },
    { Py_tp_doc, (void *)(uintptr_t) "Balancer(gpu_ids, workers_per_gpu=1, total=0)\n--\n\nCounts results." },
    { 0, NULL },
};

static PyType_Spec balancer_spec = {
    .name = "gpu_dispatch._native.Balancer",
    .basicsize = sizeof(BalancerObject),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = balancer_slots,
};

int balancer_init(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&balancer_spec);
    if (!type)
        return -1;
    const int rc = PyModule_AddObjectRef(module, "Balancer", type);
    Py_DECREF(type);
    return rc;
}
