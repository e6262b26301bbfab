/* The callbacks, on the run's thread.
 *
 * The library calls these functions without Python's lock (the GIL). The first callback of a round takes the lock, and
 * call_after_round() releases it, once for up to thousands of tasks. A thread that waits for the lock takes tens of
 * microseconds to wake up. So while this thread waits, `wanted` keeps the feeder from taking the lock.
 *
 * If a callback raises, run() will raise that exception. The run is shut down, and only on_exit is still called.
 *
 * Signals: Python's handlers run on the main thread between bytecodes, but this thread may sleep in the library. So
 * Python's wake-up descriptor is replaced by a pipe that the library watches. The bytes read from the pipe are passed
 * on to the previous descriptor.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "binding.h"
#include "python/native/run/run.h"

const char *const call_names[N_CALLS] = {
    [ON_SUCCESS] = "on_success",           [ON_ERROR] = "on_error",
    [ON_TIMEOUT] = "on_timeout",           [ON_SETUP_FAIL] = "on_setup_fail",
    [ON_CLEANUP_FAIL] = "on_cleanup_fail", [ON_TASK_START] = "on_task_start",
    [ON_WORKER_EXIT] = "on_worker_exit",   [ON_DEVICE_OUT] = "on_device_out",
    [ON_DEVICE_IDLE] = "on_device_idle",   [ON_CONTROL] = "on_control",
    [ON_PARTIAL] = "on_partial",           [ON_EXIT] = "on_exit",
};

/* ---- Python's lock ---- */

void call_take_lock(struct run *r)
{
    if (r->has_lock)
        return;
    atomic_store(&r->wanted, 1);
    PyEval_RestoreThread(r->state);
    r->has_lock = true;
    atomic_store(&r->wanted, 0);
    if (atomic_load(&r->feeder_waits))
        syscall(SYS_futex, &r->wanted, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void call_after_round(void *user)
{
    struct run *r = user;
    if (!r->has_lock)
        return;
    r->has_lock = false;
    r->state = PyEval_SaveThread();
}

/* ---- calling ---- */

/* Stores the current exception and ends the run; at once if it is Ctrl-C. */
static void raised(struct run *r)
{
    const bool at_once = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);
    if (r->error)
        PyErr_WriteUnraisable(NULL); /* run() can raise only the first exception; this second one is from on_exit */
    else
        r->error = error_take();
    gd__dispatcher_end_for(r->d, at_once ? "the run was interrupted (SIGINT)" : "a callback raised an exception");
    if (at_once)
        gd_dispatcher_abort(r->d);
    else
        gd_dispatcher_shutdown(r->d);
}

/* Calls with args[1 .. n] and releases their references; args[0] is scratch. If one is NULL, an exception is set. */
static void call(struct run *r, enum call which, PyObject **args, size_t n)
{
    bool whole = true;
    for (size_t i = 1; i <= n; i++)
        whole = whole && args[i];
    PyObject *result = NULL;
    if (whole)
        result = PyObject_Vectorcall(r->calls[which], args + 1, n | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    for (size_t i = 1; i <= n; i++)
        Py_XDECREF(args[i]);
    if (!result)
        raised(r);
    Py_XDECREF(result);
}

/* Before a callback. True: the callback must be called, and the lock is held. */
static bool begin(struct run *r, enum call which)
{
    if (!r->calls[which] || r->error)
        return false;
    call_take_lock(r);
    return true;
}

/* The same for the end of a task. run_times() then returns when the task ran. */
static bool begin_end(struct run *r, enum call which, const struct gd_report *report)
{
    r->start_ns = report->start_ns;
    r->end_ns = report->end_ns;
    if (r->journal)
        journal_note(r, report);
    return begin(r, which);
}

/* After the callback for the end of a task. If an exception is stored, either this callback raised it or the callback
 * was not called. In both cases the task is not finished. */
static void finish_end(struct run *r, const struct gd_report *report)
{
    if ((r->journal || r->is_queue) && r->error)
        journal_drop(report);
}

static PyObject *text_of(const char *message)
{
    return PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "replace");
}

/* ---- the end of a task ---- */

/* The current exception as Python would print it. */
static PyObject *traceback_text(void)
{
    PyObject *error = error_take(), *text = NULL;
    PyObject *module = PyImport_ImportModule("traceback");
    PyObject *lines = module ? PyObject_CallMethod(module, "format_exception", "O", error) : NULL;
    PyObject *nothing = lines ? PyUnicode_FromString("") : NULL;
    if (nothing)
        text = PyUnicode_Join(nothing, lines);
    Py_XDECREF(nothing);
    Py_XDECREF(lines);
    Py_XDECREF(module);
    Py_DECREF(error);
    return text;
}

/* If a result cannot be read here (for example, its class cannot be imported), the task fails with that error. */
static void call_unread(struct run *r, const struct gd_report *report)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception)) {
        raised(r);
        return;
    }
    r->unread++;
    PyObject *text = traceback_text();
    if (r->journal || r->is_queue)
        journal_failed(r, report, text);
    if (!r->calls[ON_ERROR]) {
        PyErr_Clear();
        Py_XDECREF(text);
        return;
    }
    PyObject *args[] = { NULL, text ? PyLong_FromUnsignedLongLong(report->task_id) : NULL, text,
                         text ? PyLong_FromLong(run_worker_id(r, report->worker_id)) : NULL };
    call(r, ON_ERROR, args, 3);
}

static void tell_success(struct run *r, const struct gd_report *report)
{
    struct value_place place = { .fd = -1 };
    if (report->size >= VIEW_LEAST && !gd__dispatcher_locate(r->d, report->data, &place.fd, &place.offset))
        place.fd = -1;
    PyObject *value = value_read(report->data, report->size, &place);
    if (value) {
        PyObject *args[] = { NULL, PyLong_FromUnsignedLongLong(report->task_id), value,
                             PyLong_FromLong(run_worker_id(r, report->worker_id)) };
        call(r, ON_SUCCESS, args, 3);
    } else {
        call_unread(r, report);
    }
    if (place.fd >= 0 && views_settle() < 0)
        raised(r);
}

static void on_success(void *user, const struct gd_report *report)
{
    struct run *r = user;
    if (begin_end(r, ON_SUCCESS, report))
        tell_success(r, report);
    finish_end(r, report);
}

static void on_error(void *user, const struct gd_report *report)
{
    struct run *r = user;
    if (begin_end(r, ON_ERROR, report)) {
        PyObject *args[] = { NULL, PyLong_FromUnsignedLongLong(report->task_id), text_of(report->error),
                             PyLong_FromLong(run_worker_id(r, report->worker_id)) };
        call(r, ON_ERROR, args, 3);
    }
    finish_end(r, report);
}

static void on_timeout(void *user, const struct gd_report *report)
{
    struct run *r = user;
    if (begin_end(r, ON_TIMEOUT, report)) {
        const bool is_own = report->timeout_ms != r->timeout_ms; /* a Task's own limit */
        PyObject *limit = is_own ? PyFloat_FromDouble(report->timeout_ms / 1000.0) : Py_NewRef(r->timeout);
        PyObject *args[] = { NULL, PyLong_FromUnsignedLongLong(report->task_id), limit,
                             PyLong_FromLong(run_worker_id(r, report->worker_id)) };
        call(r, ON_TIMEOUT, args, 3);
    }
    finish_end(r, report);
}

/* ---- the others ---- */

static void on_task_start(void *user, uint64_t task_id, int worker_id, unsigned attempt, uint64_t start_ns)
{
    struct run *r = user;
    (void)attempt, (void)start_ns;
    if (!begin(r, ON_TASK_START))
        return;
    PyObject *args[] = { NULL, PyLong_FromUnsignedLongLong(task_id), PyLong_FromLong(run_worker_id(r, worker_id)) };
    call(r, ON_TASK_START, args, 2);
}

static void call_gpu(struct run *r, enum call which, int gpu_id, const char *message)
{
    if (!begin(r, which))
        return;
    PyObject *args[] = { NULL, PyLong_FromLong(gpu_id), text_of(message) };
    call(r, which, args, 2);
}

static void on_setup_fail(void *user, int worker_id, int gpu_id, const char *error)
{
    (void)worker_id;
    call_gpu(user, ON_SETUP_FAIL, gpu_id, error);
}

static void on_cleanup_fail(void *user, int worker_id, int gpu_id, const char *error)
{
    (void)worker_id;
    call_gpu(user, ON_CLEANUP_FAIL, gpu_id, error);
}

static void on_device_out(void *user, int gpu_id, const char *why)
{
    call_gpu(user, ON_DEVICE_OUT, gpu_id, why);
}

static void on_device_idle(void *user, int gpu_id, const char *why)
{
    call_gpu(user, ON_DEVICE_IDLE, gpu_id, why);
}

static void on_worker_exit(void *user, int worker_id, int gpu_id, const char *why, bool given_up)
{
    struct run *r = user;
    if (!begin(r, ON_WORKER_EXIT))
        return;
    PyObject *args[] = { NULL, PyLong_FromLong(run_worker_id(r, worker_id)), PyLong_FromLong(gpu_id), text_of(why),
                         PyBool_FromLong(given_up) };
    call(r, ON_WORKER_EXIT, args, 4);
}

static void on_control(void *user, const char *what, int code)
{
    struct run *r = user;
    if (!begin(r, ON_CONTROL))
        return;
    PyObject *args[] = { NULL, text_of(what), PyBool_FromLong(code >= 0) };
    call(r, ON_CONTROL, args, 2);
}

/* A part that cannot be read here is reported as an unraisable exception. The task is not affected. */
static void on_partial(void *user, uint64_t task_id, int worker_id, unsigned attempt, const void *data, size_t size)
{
    struct run *r = user;
    if (!begin(r, ON_PARTIAL))
        return;
    PyObject *value = value_read(data, size, &(struct value_place){ .fd = -1 });
    if (!value && PyErr_ExceptionMatches(PyExc_Exception)) {
        PyErr_WriteUnraisable(r->calls[ON_PARTIAL]);
        return;
    }
    PyObject *args[] = { NULL, value ? PyLong_FromUnsignedLongLong(task_id) : NULL, value,
                         value ? PyLong_FromLong(run_worker_id(r, worker_id)) : NULL,
                         value ? PyLong_FromUnsignedLong(attempt) : NULL };
    call(r, ON_PARTIAL, args, 4);
}

/* Called in any case, even after an exception. */
static void on_exit_(void *user)
{
    struct run *r = user;
    PyObject *args[] = { NULL };
    if (!r->calls[ON_EXIT])
        return;
    call_take_lock(r);
    call(r, ON_EXIT, args, 0);
}

void call_options(struct gd_options *o)
{
    o->on_success = on_success;
    o->on_error = on_error;
    o->on_timeout = on_timeout;
    o->on_task_start = on_task_start;
    o->on_setup_fail = on_setup_fail;
    o->on_cleanup_fail = on_cleanup_fail;
    o->on_worker_exit = on_worker_exit;
    o->on_device_out = on_device_out;
    o->on_device_idle = on_device_idle;
    o->on_control = on_control;
    o->on_partial = on_partial;
    o->on_exit = on_exit_;
}

/* ---- signals ---- */

void call_readable(void *user)
{
    struct run *r = user;
    char numbers[64];
    ssize_t n;
    while ((n = read(r->wakeup_read, numbers, sizeof numbers)) > 0)
        if (r->wakeup_next >= 0 && write(r->wakeup_next, numbers, (size_t)n) < 0 && errno == EPIPE)
            r->wakeup_next = -1; /* nothing reads it; other errors do not matter: if it is full, its reader is awake */
    call_take_lock(r);
    if (PyErr_CheckSignals() == 0)
        return;
    if (r->error) { /* the second signal */
        PyErr_Clear();
    } else {
        r->error = error_take();
    }
    gd__dispatcher_end_for(r->d, "the run was interrupted by a signal");
    gd_dispatcher_abort(r->d);
}

/* An attribute by name. The name is interned, because Python's cache of attributes stores names by address and would
 * fill up with copies. */
static PyObject *attribute(PyObject *object, const char *name)
{
    PyObject *key = PyUnicode_InternFromString(name);
    PyObject *value = key ? PyObject_GetAttr(object, key) : NULL;
    Py_XDECREF(key);
    return value;
}

static PyObject *function_of(const char *module_name, const char *name)
{
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *function = module ? attribute(module, name) : NULL;
    Py_XDECREF(module);
    return function;
}

/* 1 on Python's main thread, where its signal handlers run; 0 elsewhere; -1 with an exception. */
static int on_main_thread(void)
{
    int yes = -1;
    PyObject *main_thread = function_of("threading", "main_thread");
    PyObject *thread = main_thread ? PyObject_CallNoArgs(main_thread) : NULL;
    PyObject *ident = thread ? attribute(thread, "ident") : NULL;
    if (ident) {
        yes = PyLong_AsUnsignedLong(ident) == PyThread_get_thread_ident();
        if (PyErr_Occurred())
            yes = -1;
    }
    Py_XDECREF(ident);
    Py_XDECREF(thread);
    Py_XDECREF(main_thread);
    return yes;
}

/* Makes Python write signal numbers to fd (-1: nowhere). Returns the previous descriptor, or -2 with an exception. */
static int set_wakeup(int fd)
{
    int before = -2;
    PyObject *set = function_of("signal", "set_wakeup_fd");
    PyObject *number = set ? PyObject_CallFunction(set, "i", fd) : NULL;
    if (number)
        before = (int)PyLong_AsLong(number);
    Py_XDECREF(number);
    Py_XDECREF(set);
    return before;
}

static void close_wakeup(struct run *r)
{
    close(r->wakeup_read);
    close(r->wakeup_write);
    r->wakeup_read = r->wakeup_write = r->wakeup_next = -1;
}

int call_watch_signals(struct run *r)
{
    int fds[2];
    const int wanted = on_main_thread();
    if (wanted <= 0)
        return wanted;
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    r->wakeup_read = fds[0];
    r->wakeup_write = fds[1];
    r->wakeup_next = set_wakeup(fds[1]);
    if (r->wakeup_next >= -1)
        return 0;
    close_wakeup(r);
    return -1;
}

/* A signal that came too late to be read here is pending: Python's handler runs as soon as run() has returned. */
void call_unwatch_signals(struct run *r)
{
    if (r->wakeup_read < 0)
        return;
    PyObject *error = PyErr_Occurred() ? error_take() : NULL;
    if (set_wakeup(r->wakeup_next) < -1) {
        PyErr_Clear(); /* the previous descriptor was closed meanwhile */
        if (set_wakeup(-1) < -1)
            PyErr_WriteUnraisable(NULL);
    }
    if (error)
        error_raise(error);
    close_wakeup(r);
}
