/* Requests to a running job, from any thread: pause, resume, drain, cancel one task, change the time limit, add and
 * remove workers. The library queues a request and returns at once, so Python's lock is kept. on_control gets the
 * outcome. */
#include <limits.h>

#include "python/native/run/run.h"

static PyObject *answer(int code)
{
    if (code < 0)
        return native_error(code);
    Py_RETURN_NONE;
}

static struct gd_dispatcher *dispatcher_of(PyObject *self)
{
    return ((struct run *)self)->d;
}

PyObject *control_pause(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    return answer(gd_dispatcher_pause(dispatcher_of(self)));
}

PyObject *control_unpause(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    return answer(gd_dispatcher_unpause(dispatcher_of(self)));
}

PyObject *control_drain(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    return answer(gd_dispatcher_drain(dispatcher_of(self)));
}

PyObject *control_cancel_task(PyObject *self, PyObject *task_id)
{
    const unsigned long long number = PyLong_AsUnsignedLongLong(task_id);
    if (number == ULLONG_MAX && PyErr_Occurred())
        return NULL;
    return answer(gd_dispatcher_cancel_task(dispatcher_of(self), number));
}

/* The caller has checked that the number fits. */
PyObject *control_set_timeout(PyObject *self, PyObject *ms)
{
    const unsigned long number = PyLong_AsUnsignedLong(ms);
    if (number == ULONG_MAX && PyErr_Occurred())
        return NULL;
    return answer(gd_dispatcher_set_timeout(dispatcher_of(self), (unsigned)number));
}

static PyObject *resize(PyObject *self, PyObject *args, int (*fn)(struct gd_dispatcher *, int, unsigned))
{
    int gpu_id, n;
    if (!PyArg_ParseTuple(args, "ii", &gpu_id, &n))
        return NULL;
    return answer(fn(dispatcher_of(self), gpu_id, n > 0 ? (unsigned)n : 0));
}

PyObject *control_add_workers(PyObject *self, PyObject *args)
{
    return resize(self, args, gd_dispatcher_add_workers);
}

PyObject *control_remove_workers(PyObject *self, PyObject *args)
{
    return resize(self, args, gd_dispatcher_remove_workers);
}
