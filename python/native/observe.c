/* Running jobs of this process or others: jobs() and Observer, as dicts. gpu_dispatch.observe turns the dicts into
 * objects.
 *
 * A read waits only for the GPU driver. That can take long, so other threads run meanwhile. While the dict is made, the
 * garbage collector may run any code. So the observer is marked as busy until the dict is complete.
 */
#include <string.h>

#include <gpu_dispatch/devices.h>
#include <gpu_dispatch/observe.h>

#include "python/native/fields.h"

/* "No such job" has its own exception, so that callers can distinguish it from other errors. */
static PyObject *no_job_error;

static PyObject *observe_error(int code)
{
    if (code != GD_E_NO_JOB)
        return native_error(code);
    PyErr_SetString(no_job_error, gd_error_text());
    return NULL;
}

/* --- tables --------------------------------------------------------------------------- */

#define JOB(field, kind) FIELD(struct gd_job, field, kind, 0)
static const struct field job_fields[] = {
    JOB(id, KIND_TEXT),
    JOB(pid, KIND_U64),
    JOB(name, KIND_TEXT),
    JOB(started, KIND_DOUBLE),
};

#define STAT(field) FIELD(struct gd_stats, field, KIND_U64, 0)
static const struct field stat_fields[] = {
    STAT(total),    STAT(taken),          STAT(pending), STAT(running),  STAT(completed),
    STAT(failed),   STAT(timeouts),       STAT(retried), STAT(skipped),  STAT(cancelled),
    STAT(restarts), STAT(setup_failures), STAT(crashes), STAT(start_ns), STAT(n_workers),
    STAT(now_ns),   STAT(source_done),    STAT(paused),  STAT(draining), STAT(task_timeout_ms),
};

enum { HAS_TASK = 1, HAS_PROCESS = 2, HAS_SINCE = 4, HAS_LAST = 8 };
#define WORKER(field, bits)                                                                                 \
    {                                                                                                       \
        .name = #field, .offset = offsetof(struct gd_worker_view, field), .kind = KIND_U64, .known = (bits) \
    }
static const struct field worker_fields[] = {
    WORKER(worker_id, 0),
    { "gpu_id", offsetof(struct gd_worker_view, gpu_id), KIND_I64, 0 },
    WORKER(pid, HAS_PROCESS),
    WORKER(current_task, HAS_TASK),
    WORKER(handed, 0),
    WORKER(in_flight, 0),
    WORKER(completed, 0),
    WORKER(failed, 0),
    WORKER(timeouts, 0),
    WORKER(restarts, 0),
    WORKER(last_ns, HAS_LAST),
    WORKER(busy_ns, 0),
    FIELD(struct gd_worker_view, since_ns, KIND_U64, HAS_SINCE),
    FIELD(struct gd_worker_view, task, KIND_TEXT, HAS_TASK),
};

#define DEVICE(field, kind, known) FIELD(struct gd_device_view, field, kind, known)
static const struct field device_fields[] = {
    DEVICE(gpu_id, KIND_I64, 0),
    DEVICE(name, KIND_TEXT, 0),
    DEVICE(uuid, KIND_TEXT, 0),
    DEVICE(group, KIND_I64, 0),
    DEVICE(memory_total, KIND_U64, GD_KNOWN_MEMORY),
    DEVICE(memory_free, KIND_U64, GD_KNOWN_MEMORY),
    DEVICE(utilization, KIND_U64, GD_KNOWN_UTILIZATION),
    DEVICE(temperature, KIND_I64, GD_KNOWN_TEMPERATURE),
    DEVICE(power_mw, KIND_U64, GD_KNOWN_POWER),
};

#define TASK(field, kind) FIELD(struct gd_task_view, field, kind, 0)
static const struct field task_fields[] = {
    TASK(task_id, KIND_U64),  TASK(worker_id, KIND_I64), TASK(gpu_id, KIND_I64),
    TASK(start_ns, KIND_U64), TASK(end_ns, KIND_U64),    TASK(attempt, KIND_U32),
};

#define SNAPSHOT(field, kind) FIELD(struct gd_snapshot, field, kind, 0)
static const struct field snapshot_fields[] = {
    SNAPSHOT(job, KIND_TEXT),         SNAPSHOT(id, KIND_TEXT),           SNAPSHOT(pid, KIND_U64),
    SNAPSHOT(started, KIND_DOUBLE),   SNAPSHOT(read_ns, KIND_U64),       SNAPSHOT(ended, KIND_BOOL),
    SNAPSHOT(stale, KIND_BOOL),       SNAPSHOT(tasks_missed, KIND_U64),  SNAPSHOT(failures_missed, KIND_U64),
    SNAPSHOT(work_done, KIND_DOUBLE), SNAPSHOT(work_total, KIND_DOUBLE), SNAPSHOT(requests_missed, KIND_U64),
};

/* --- a snapshot --------------------------------------------------------------------------- */

/* A name, or None for NULL. */
static PyObject *name_or_none(bool is, const char *name)
{
    return is ? PyUnicode_FromString(name) : Py_NewRef(Py_None);
}

static PyObject *worker_dict(const struct gd_worker_view *w)
{
    const unsigned known = (w->current_task != UINT64_MAX ? HAS_TASK : 0) | (w->pid ? HAS_PROCESS : 0) |
                           (w->since_ns ? HAS_SINCE : 0) | (w->last_ns ? HAS_LAST : 0);
    PyObject *dict = to_dict(worker_fields, FIELD_COUNT(worker_fields), w, known);
    const char *state = gd_worker_state_name((enum gd_worker_state)w->state);
    if (dict && (dict_put(dict, "state", PyUnicode_FromString(state)) < 0 ||
                 dict_put(dict, "idle", name_or_none(w->idle, gd_idle_reason_name((enum gd_idle_reason)w->idle))) < 0 ||
                 dict_put(dict, "device_out", PyBool_FromLong(w->device_out != 0)) < 0))
        Py_CLEAR(dict);
    return dict;
}

static PyObject *device_dict(const struct gd_device_view *d)
{
    PyObject *dict = to_dict(device_fields, FIELD_COUNT(device_fields), d, (unsigned)d->known);
    if (dict && dict_put(dict, "vendor", PyUnicode_FromString(gd_vendor_name((enum gd_vendor)d->vendor))) < 0)
        Py_CLEAR(dict);
    return dict;
}

static PyObject *task_dict(const struct gd_task_view *t)
{
    PyObject *dict = to_dict(task_fields, FIELD_COUNT(task_fields), t, 0);
    const char *failure = gd_failure_name((enum gd_failure)t->failure);
    if (dict && (dict_put(dict, "failure", name_or_none(t->failure, failure)) < 0 ||
                 dict_put(dict, "again", PyBool_FromLong(t->again != 0)) < 0))
        Py_CLEAR(dict);
    return dict;
}

static PyObject *decoded(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyObject *failure_dict(const struct gd_failure_view *f)
{
    const struct gd_task_view task = { .task_id = f->task_id,
                                       .worker_id = f->worker_id,
                                       .gpu_id = f->gpu_id,
                                       .start_ns = f->start_ns,
                                       .end_ns = f->end_ns,
                                       .attempt = f->attempt,
                                       .again = f->again,
                                       .failure = f->failure };
    PyObject *dict = task_dict(&task);
    if (dict && (dict_put(dict, "input", decoded(f->input)) < 0 || dict_put(dict, "error", decoded(f->error)) < 0))
        Py_CLEAR(dict);
    return dict;
}

static PyObject *request_dict(const struct gd_request_view *r)
{
    PyObject *dict = PyDict_New();
    if (dict &&
        (dict_put(dict, "at_ns", PyLong_FromUnsignedLongLong(r->at_ns)) < 0 ||
         dict_put(dict, "done", PyBool_FromLong(r->code >= 0)) < 0 || dict_put(dict, "message", decoded(r->what)) < 0))
        Py_CLEAR(dict);
    return dict;
}

/* A list of a snapshot, whose elements gd_snapshot_...() gives. */
#define LIST_OF(element, n, make)                                \
    static PyObject *element##_list(const struct gd_snapshot *s) \
    {                                                            \
        PyObject *list = PyList_New(0);                          \
        for (size_t i = 0; list && i < (n); i++)                 \
            list_put(&list, make(gd_snapshot_##element(s, i)));  \
        return list;                                             \
    }
LIST_OF(worker, s->n_workers, worker_dict)
LIST_OF(device, s->n_devices, device_dict)
LIST_OF(task, s->n_tasks, task_dict)
LIST_OF(failure, s->n_failures, failure_dict)
LIST_OF(request, s->n_requests, request_dict)

static PyObject *snapshot_dict(const struct gd_snapshot *s)
{
    PyObject *dict = to_dict(snapshot_fields, FIELD_COUNT(snapshot_fields), s, 0);
    if (dict && (dict_put(dict, "stats", to_dict(stat_fields, FIELD_COUNT(stat_fields), s->stats, 0)) < 0 ||
                 dict_put(dict, "workers", worker_list(s)) < 0 || dict_put(dict, "devices", device_list(s)) < 0 ||
                 dict_put(dict, "tasks", task_list(s)) < 0 || dict_put(dict, "failures", failure_list(s)) < 0 ||
                 dict_put(dict, "requests", request_list(s)) < 0))
        Py_CLEAR(dict);
    return dict;
}

/* --- the type ---------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    struct gd_observer *observer;
    bool busy; /* the observer is being read */
} ObserverObject;

static PyObject *observer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = { "which", NULL };
    const char *which = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|z:Observer", (char **)(uintptr_t)names, &which))
        return NULL;
    PyObject *self = type->tp_alloc(type, 0);
    const int rc = self ? gd_observer_open(&((ObserverObject *)self)->observer, which) : 0;
    if (rc < 0) {
        observe_error(rc);
        Py_CLEAR(self);
    }
    return self;
}

static void observer_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    gd_observer_close(&((ObserverObject *)self)->observer);
    type->tp_free(self);
    Py_DECREF(type); /* a heap type: its objects own it */
}

/* -1 if it is being read. */
static int check_free(PyObject *self)
{
    if (!((ObserverObject *)self)->busy)
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "the observer is being read: use a separate Observer in each thread");
    return -1;
}

static struct gd_observer *open_observer(PyObject *self)
{
    struct gd_observer *o = ((ObserverObject *)self)->observer;
    if (!o)
        PyErr_SetString(PyExc_ValueError, "the observer is closed");
    return o;
}

static PyObject *observer_read(PyObject *self, PyObject *unused)
{
    (void)unused;
    bool *busy = &((ObserverObject *)self)->busy;
    struct gd_observer *o = open_observer(self);
    const struct gd_snapshot *s = NULL;
    int rc;
    if (!o || check_free(self) < 0)
        return NULL;
    *busy = true;
    Py_BEGIN_ALLOW_THREADS;
    rc = gd_observer_read(o, &s);
    Py_END_ALLOW_THREADS;
    PyObject *dict = rc < 0 ? observe_error(rc) : snapshot_dict(s);
    *busy = false;
    return dict;
}

static PyObject *observer_fileno(PyObject *self, PyObject *unused)
{
    (void)unused;
    const struct gd_observer *o = open_observer(self);
    return o ? PyLong_FromLong(gd_observer_fd(o)) : NULL;
}

static PyObject *observer_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (check_free(self) < 0)
        return NULL;
    gd_observer_close(&((ObserverObject *)self)->observer);
    Py_RETURN_NONE;
}

static PyMethodDef observer_methods[] = {
    { "read", observer_read, METH_NOARGS, "read()\n--\n\nThe current state of the run, as a dict." },
    { "fileno", observer_fileno, METH_NOARGS,
      "fileno()\n--\n\nA file descriptor that becomes readable when the observed process is gone; -1: not available." },
    { "close", observer_close, METH_NOARGS, "close()\n--\n\nStops observing. May be called several times." },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot observer_slots[] = {
    { Py_tp_new, (void *)(uintptr_t)observer_new },
    { Py_tp_dealloc, (void *)(uintptr_t)observer_dealloc },
    { Py_tp_methods, observer_methods },
    { Py_tp_doc, (void *)(uintptr_t) "Observer(which=None)\n--\n\nReads what a run publishes." },
    { 0, NULL },
};

static PyType_Spec observer_spec = {
    .name = "gpu_dispatch._native.Observer",
    .basicsize = sizeof(ObserverObject),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = observer_slots,
};

/* --- listing jobs --------------------------------------------------------------------------------- */

static PyObject *job_dict(const struct gd_job *job)
{
    return to_dict(job_fields, FIELD_COUNT(job_fields), job, 0);
}

static PyObject *job_list(const struct gd_job *jobs, size_t n)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++)
        list_put(&list, job_dict(&jobs[i]));
    return list;
}

/* A job that starts between counting and listing may be missing; the next call has it. */
static PyObject *list_jobs(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    int n = gd_jobs_list(NULL, sizeof(struct gd_job), 0);
    if (n < 0)
        return observe_error(n);
    const size_t room = (size_t)n;
    struct gd_job *jobs = PyMem_Calloc(room + 1, sizeof *jobs);
    if (!jobs)
        return PyErr_NoMemory();
    n = gd_jobs_list(jobs, sizeof *jobs, room);
    const size_t got = n > 0 && (size_t)n < room ? (size_t)n : room;
    PyObject *list = n < 0 ? observe_error(n) : job_list(jobs, got);
    PyMem_Free(jobs);
    return list;
}

static PyMethodDef functions[] = {
    { "jobs", list_jobs, METH_NOARGS, "jobs()\n--\n\nThe running jobs of this user, oldest first, each as a dict." },
    { NULL, NULL, 0, NULL },
};

int observe_init(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&observer_spec);
    no_job_error = PyErr_NewExceptionWithDoc("gpu_dispatch.observe.NoJobError",
                                             "There is no such job, several jobs fit, or the job was killed.",
                                             PyExc_LookupError, NULL);
    const int rc = type && no_job_error && PyModule_AddObjectRef(module, "Observer", type) == 0 &&
                           PyModule_AddObjectRef(module, "NoJobError", no_job_error) == 0
                       ? PyModule_AddFunctions(module, functions)
                       : -1;
    Py_XDECREF(type);
    return rc;
}
