/* The type Run: the dispatching side, as _native.pyi and gpu_dispatch.Dispatcher use it.
 *
 * A Run opens its gd_dispatcher when it is created, so errors in the options are reported then. The dispatcher is
 * closed when the Run is freed, so shutdown() and stats() are safe from any thread at any time. A Run runs once.
 *
 * run() raises the first of these that applies: the exception of a callback or a signal handler; no worker is left; the
 * journal could not be written; the exception of the iterator; an error of the system. Otherwise it returns None.
 */
#include "python/native/run/run.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "binding.h"
#include "python/native/queue/queue.h"

enum { SOURCE_GRACE_MS = 1000, GPUS_MOST = 32 /* the most GPUs of a worker */ };

/* ---- exceptions ---- */

PyObject *error_take(void)
{
#if PY_VERSION_HEX >= 0x030c0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback)
        PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
#endif
}

void error_raise(PyObject *error)
{
#if PY_VERSION_HEX >= 0x030c0000
    PyErr_SetRaisedException(error);
#else
    PyObject *type = (PyObject *)Py_TYPE(error);
    Py_INCREF(type);
    PyErr_Restore(type, error, PyException_GetTraceback(error));
#endif
}

/* ---- life ---- */

static PyObject *task_class(void)
{
    PyObject *module = PyImport_ImportModule("gpu_dispatch.dispatcher");
    PyObject *found = module ? PyObject_GetAttrString(module, "Task") : NULL;
    Py_XDECREF(module);
    return found;
}

static PyObject *run_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char name[] = "options", *names[] = { name, NULL };
    PyObject *options;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!:Run", names, &PyDict_Type, &options))
        return NULL;
    struct run *r = (struct run *)type->tp_alloc(type, 0);
    if (!r)
        return NULL;
    r->wakeup_read = r->wakeup_write = r->wakeup_next = -1;
    r->timeout = PyFloat_FromDouble(0);
    r->task = task_class();
    if (r->timeout && r->task && options_open(r, options) == 0)
        return (PyObject *)r;
    Py_DECREF(r);
    return NULL;
}

static void drop_calls(struct run *r)
{
    for (int i = 0; i < N_CALLS; i++)
        Py_CLEAR(r->calls[i]);
}

static void run_dealloc(PyObject *self)
{
    struct run *r = (struct run *)self;
    PyTypeObject *type = Py_TYPE(self);
    gd_dispatcher_close(&r->d);
    PyMem_Free(r->worker_ids);
    (void)gd_journal_close(&r->journal); /* if it never ran */
    journal_clear(r);
    drop_calls(r);
    Py_XDECREF(r->iterator);
    Py_XDECREF(r->timeout);
    Py_XDECREF(r->task);
    Py_XDECREF(r->error);
    Py_XDECREF(r->source_error);
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- running ---- */

static int read_call(struct run *r, PyObject *key, PyObject *value)
{
    for (int i = 0; i < N_CALLS; i++) {
        if (!PyUnicode_Check(key) || PyUnicode_CompareWithASCIIString(key, call_names[i]) != 0)
            continue;
        if (value == Py_None)
            return 0;
        if (!PyCallable_Check(value)) {
            PyErr_Format(PyExc_TypeError, "%U is a %s: it must be callable", key, Py_TYPE(value)->tp_name);
            return -1;
        }
        Py_INCREF(value);
        Py_XSETREF(r->calls[i], value);
        return 0;
    }
    PyErr_Format(PyExc_TypeError, "unknown callback %R", key);
    return -1;
}

static size_t describe_input(void *user, const void *input, size_t size, char *out, size_t room)
{
    (void)user;
    return value_brief(input, size, out, room);
}

/* On any thread. It does not take Python's lock: the caller may have locks that the run's thread waits for. */
static void queue_note(void *user, const char *line)
{
    (void)user;
    fprintf(stderr, "gpu_dispatch: %s\n", line);
}

static int prepare(struct run *r, PyObject *iterable, PyObject *callbacks)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(callbacks, &at, &key, &value))
        if (read_call(r, key, value) < 0)
            return -1;
    r->iterator = PyObject_GetIter(iterable);
    if (!r->iterator || call_watch_signals(r) < 0)
        return -1;
    pthread_sigmask(SIG_SETMASK, NULL, &r->signals);
    const struct gd__hooks hooks = {
        .user = r,
        .after_round = call_after_round,
        .fd = r->wakeup_read,
        .readable = r->wakeup_read >= 0 ? call_readable : NULL,
        .source_hold = source_hold,
        .source_release = source_release,
        .source_grace_ms = SOURCE_GRACE_MS,
        .describe = describe_input,
        .without_task_start = !r->calls[ON_TASK_START],
        .without_timeout = !r->calls[ON_TIMEOUT],
        .queue_note = queue_note,
    };
    gd__dispatcher_hook(r->d, &hooks);
    return 0;
}

/* The library's part, without the lock except in callbacks. */
static int run_library(struct run *r)
{
    Py_INCREF(r); /* the feeder's reference: see source_release */
    r->state = PyEval_SaveThread();
    const int rc = gd_dispatcher_run(r->d);
    call_take_lock(r);
    r->has_lock = false; /* the caller has it again */
    if (!r->source_begun)
        Py_DECREF(r);
    source_leave(r);
    views_forget(); /* the memory of the results */
    return rc;
}

PyObject *run_error(const struct run *r, int code)
{
    static const int others[] = { GD_E_INVALID, GD_E_NO_MEMORY, GD_E_NO_DEVICES, GD_E_SETUP, GD_E_NO_WORKERS };
    bool of_queue = r->is_queue;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        of_queue = of_queue && code != others[i];
    if (of_queue)
        return queue_error(code);
    return code == GD_E_JOURNAL ? journal_error(code) : native_error(code);
}

static PyObject *conclude(struct run *r, int rc)
{
    const bool says_more = rc == GD_E_SETUP || rc == GD_E_NO_WORKERS || rc == GD_E_JOURNAL;
    PyObject **error = r->error ? &r->error : r->source_error && !says_more ? &r->source_error : NULL;
    if (error) {
        PyObject *raise = *error;
        *error = NULL;
        error_raise(raise);
        return NULL;
    }
    if (rc < 0 && rc != GD_E_SHUTDOWN)
        return run_error(r, rc);
    Py_RETURN_NONE;
}

static PyObject *run_run(PyObject *self, PyObject *args)
{
    struct run *r = (struct run *)self;
    PyObject *iterable, *callbacks;
    if (!PyArg_ParseTuple(args, "OO!:run", &iterable, &PyDict_Type, &callbacks))
        return NULL;
    if (r->used) {
        PyErr_SetString(PyExc_RuntimeError, "a Run can run only once: make another one");
        return NULL;
    }
    r->used = true;
    PyObject *result = NULL;
    if (prepare(r, iterable, callbacks) == 0)
        result = conclude(r, run_library(r));
    if (journal_close(r) < 0)
        Py_CLEAR(result);
    call_unwatch_signals(r);
    drop_calls(r);
    Py_CLEAR(r->error);
    if (!r->source_held) {
        Py_CLEAR(r->iterator);
        Py_CLEAR(r->source_error);
    }
    return result;
}

static PyObject *run_shutdown(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    gd_dispatcher_shutdown(((struct run *)self)->d);
    Py_RETURN_NONE;
}

static PyObject *run_abort(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    gd_dispatcher_abort(((struct run *)self)->d);
    Py_RETURN_NONE;
}

static PyObject *run_set_work(PyObject *self, PyObject *args)
{
    double done, total;
    if (!PyArg_ParseTuple(args, "dd:set_work", &done, &total))
        return NULL;
    gd_dispatcher_set_work(((struct run *)self)->d, done, total);
    Py_RETURN_NONE;
}

/* ---- statistics ---- */

struct figure {
    const char *name;
    size_t offset; /* of a uint64_t */
};

#define STAT(member)                                                 \
    {                                                                \
        .name = #member, .offset = offsetof(struct gd_stats, member) \
    }
static const struct figure stats_table[] = {
    STAT(total),   STAT(taken),     STAT(pending), STAT(running),        STAT(completed),
    STAT(failed),  STAT(timeouts),  STAT(retried), STAT(setup_failures), STAT(restarts),
    STAT(crashes), STAT(start_ns),  STAT(now_ns),  STAT(source_done),    STAT(n_workers),
    STAT(skipped), STAT(cancelled), STAT(paused),  STAT(draining),       STAT(task_timeout_ms),
};

#define WORKER_STAT(member)                                                 \
    {                                                                       \
        .name = #member, .offset = offsetof(struct gd_worker_stats, member) \
    }
static const struct figure worker_table[] = {
    WORKER_STAT(worker_id), WORKER_STAT(pid),      WORKER_STAT(handed),  WORKER_STAT(completed), WORKER_STAT(failed),
    WORKER_STAT(timeouts),  WORKER_STAT(restarts), WORKER_STAT(last_ns), WORKER_STAT(busy_ns),   WORKER_STAT(in_flight),
};

/* Takes the reference, even if it fails. */
static int put(PyObject *dict, const char *name, PyObject *value)
{
    const int rc = value ? PyDict_SetItemString(dict, name, value) : -1;
    Py_XDECREF(value);
    return rc;
}

static PyObject *figures(const void *from, const struct figure *table, size_t n)
{
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < n; i++) {
        uint64_t number;
        memcpy(&number, (const char *)from + table[i].offset, sizeof number);
        if (put(dict, table[i].name, PyLong_FromUnsignedLongLong(number)) < 0)
            Py_CLEAR(dict);
    }
    return dict;
}

static PyObject *run_stats(PyObject *self, PyObject *nothing)
{
    const struct run *r = (const struct run *)self;
    struct gd_stats stats = { .size = sizeof stats };
    (void)nothing;
    const int rc = gd_dispatcher_stats(r->d, &stats);
    if (rc < 0)
        return native_error(rc);
    const uint64_t unread = r->unread < stats.completed ? r->unread : stats.completed;
    stats.completed -= unread;
    stats.failed += unread;
    return figures(&stats, stats_table, sizeof stats_table / sizeof *stats_table);
}

/* From a callback. */
static PyObject *run_times(PyObject *self, PyObject *nothing)
{
    const struct run *r = (const struct run *)self;
    (void)nothing;
    return Py_BuildValue("(KK)", (unsigned long long)r->start_ns, (unsigned long long)r->end_ns);
}

/* The numbers of all devices of a worker. */
static PyObject *worker_gpus(const struct run *r, int worker)
{
    int gpus[GPUS_MOST];
    const int n = gd_dispatcher_worker_gpus(r->d, (unsigned)worker, gpus, GPUS_MOST);
    PyObject *list = n < 0 ? native_error(n) : PyList_New(n < GPUS_MOST ? n : GPUS_MOST);
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list); i++) {
        PyObject *number = PyLong_FromLong(gpus[i]);
        if (number)
            PyList_SET_ITEM(list, i, number);
        else
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *worker_figures(const struct run *r, int worker, const struct gd_worker_stats *w)
{
    PyObject *dict = figures(w, worker_table, sizeof worker_table / sizeof *worker_table);
    PyObject *task = Py_None;
    Py_INCREF(task);
    if (w->current_task != UINT64_MAX)
        Py_SETREF(task, PyLong_FromUnsignedLongLong(w->current_task));
    if (!dict)
        Py_XDECREF(task);
    else if (put(dict, "current_task", task) < 0 || put(dict, "gpu_id", PyLong_FromLongLong(w->gpu_id)) < 0 ||
             put(dict, "gpu_ids", worker_gpus(r, worker)) < 0 ||
             put(dict, "state", PyUnicode_FromString(gd_worker_state_name((enum gd_worker_state)w->state))) < 0)
        Py_CLEAR(dict);
    return dict;
}

static PyObject *run_worker_stats(PyObject *self, PyObject *nothing)
{
    const struct run *r = (const struct run *)self;
    PyObject *list = NULL;
    (void)nothing;
    int n = gd_dispatcher_worker_stats(r->d, NULL, sizeof(struct gd_worker_stats), 0);
    if (n < 0)
        return native_error(n);
    struct gd_worker_stats *workers = PyMem_Calloc((size_t)n, sizeof *workers);
    if (!workers)
        return PyErr_NoMemory();
    gd_dispatcher_worker_stats(r->d, workers, sizeof *workers, (size_t)n);
    list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        workers[i].worker_id = (uint64_t)run_worker_id(r, i);
        PyObject *dict = worker_figures(r, i, &workers[i]);
        if (dict)
            PyList_SET_ITEM(list, i, dict);
        else
            Py_CLEAR(list);
    }
    PyMem_Free(workers);
    return list;
}

/* ---- the type ---- */

static PyMethodDef run_methods[] = {
    { "run", run_run, METH_VARARGS,
      "run(iterator, callbacks): runs until everything is finished. May be called once." },
    { "shutdown", run_shutdown, METH_NOARGS, "Ends the run; running tasks may finish. From any thread." },
    { "abort", run_abort, METH_NOARGS, "Ends the run at once. From any thread." },
    { "pause", control_pause, METH_NOARGS,
      "Starts no more tasks until unpause(). From any thread, like the next six." },
    { "unpause", control_unpause, METH_NOARGS, "Continues after pause()." },
    { "drain", control_drain, METH_NOARGS, "Ends the run after its running tasks, however long they take." },
    { "cancel_task", control_cancel_task, METH_O, "cancel_task(task_id): ends one task." },
    { "set_timeout", control_set_timeout, METH_O, "set_timeout(ms): changes the time limit of tasks; 0: none." },
    { "add_workers", control_add_workers, METH_VARARGS, "add_workers(gpu_id, n)" },
    { "remove_workers", control_remove_workers, METH_VARARGS, "remove_workers(gpu_id, n)" },
    { "set_work", run_set_work, METH_VARARGS, "set_work(done, total): how much of the work is done. From any thread." },
    { "stats", run_stats, METH_NOARGS, "The statistics of the run, as a dict." },
    { "task_times", run_times, METH_NOARGS,
      "(start_ns, end_ns), CLOCK_MONOTONIC, of the task whose callback is running. 0: the task never started." },
    { "worker_stats", run_worker_stats, METH_NOARGS, "The statistics of each worker, as a list of dicts." },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot run_slots[] = {
    { Py_tp_doc, (void *)(uintptr_t) "Run(options): one run of the dispatcher." },
    { Py_tp_new, run_new },
    { Py_tp_dealloc, run_dealloc },
    { Py_tp_methods, run_methods },
    { 0, NULL },
};

static PyType_Spec run_spec = {
    .name = "gpu_dispatch._native.Run",
    .basicsize = sizeof(struct run),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = run_slots,
};

int run_init(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&run_spec);
    if (!type)
        return -1;
    const int rc = PyModule_AddObjectRef(module, "Run", type);
    Py_DECREF(type);
    return rc;
}
