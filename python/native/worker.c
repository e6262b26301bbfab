/* The worker's side: gd_worker_main() that calls the methods of a Python object.
 *
 * The main thread holds the GIL from task to task and releases it only while the library waits (gd__wait_hooks), so
 * that a small task costs only its Python code. I/O threads take the GIL for each load(). An I/O thread keeps one
 * thread state for its whole life, so that thread-local data of the user stays.
 *
 * Payloads are read in place. Large buffers are views of the arena. They are settled when the task is over and this
 * file has no reference to them any more. Results are written directly to the place where the dispatcher reads them.
 *
 * The host object (_worker.py) classifies and describes a failure. If that fails too, the error message has no
 * traceback. When a task exceeds its time limit, the main thread gets a SIGALRM. Its Python handler raises an exception
 * if the same task is still running. Signals do not work for an I/O thread. So the main thread raises the exception in
 * the load() of that thread, and waits for the load() to end.
 *
 * exit() ends the process without the normal end of the interpreter. So cleanup does that work with host.finish(). If
 * cleanup is not reached, an exit handler does it.
 */
#include "python/native/native.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "binding.h"

enum { EXIT_NO_MEMORY = 74 };

static struct {
    struct gd_worker *worker; /* from setup on */
    PyObject *host;
    PyObject *timeout_error;                  /* a class */
    PyObject *process, *process_batch, *load; /* bound methods, from setup on */
    pthread_t main_thread;
    PyThreadState *waiting;   /* the main thread's state, while it waits */
    bool finished;            /* host.finish() has been called */
    struct gd_result *result; /* of the task that process() is running; NULL: none */
    bool forked;              /* this process was forked from the worker */
} self;

static _Thread_local PyThreadState *io_state; /* the state of an I/O thread, from its first load() on */

/* The running calls of load(), protected by the GIL. Each is on the stack of its thread. */
static struct running_load {
    struct running_load *next;
    unsigned long thread; /* Python's id of the thread */
    uint64_t position;
    bool interrupted;
} * running_loads;

/* ---- the GIL ---- */

static void before_wait(void)
{
    self.waiting = PyEval_SaveThread();
}

static void after_wait(void)
{
    PyEval_RestoreThread(self.waiting);
}

static void enter_io_thread(void)
{
    if (io_state) {
        PyEval_RestoreThread(io_state);
        return;
    }
    PyGILState_Ensure();
    io_state = PyThreadState_Get();
}

static void leave_io_thread(void)
{
    PyEval_SaveThread();
}

static void end_io_thread(void)
{
    if (!io_state)
        return;
    PyEval_RestoreThread(io_state);
    PyGILState_Release(PyGILState_UNLOCKED); /* pairs with the only Ensure */
}

/* ---- failures ---- */

typedef int say(struct gd_result *r, const char *format, ...);
static const struct kind {
    const char *name;
    say *say;
} kinds[] = {
    { "error", gd_result_error }, /* also for unknown kinds */
    { "out_of_memory", gd_result_out_of_memory },
    { "device_lost", gd_result_device_lost },
    { "timeout", gd_result_error }, /* the user's code raised it without our request; see explain() */
};
enum { ERROR, OUT_OF_MEMORY };

struct failure {
    const struct kind *kind; /* NULL: the dispatcher stopped the task */
    PyObject *text;          /* bytes, or NULL */
    const char *message;     /* the contents of text, or a fixed message */
    char plain[256];
};

static const struct kind *classify(PyObject *exception)
{
    const struct kind *kind = &kinds[ERROR];
    PyObject *name = PyObject_CallMethod(self.host, "classify", "O", exception);
    const char *kind_name = name ? PyUnicode_AsUTF8(name) : NULL;
    for (size_t i = 0; kind_name && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kind_name, kinds[i].name) == 0)
            kind = &kinds[i];
    Py_XDECREF(name);
    PyErr_Clear();
    return kind;
}

/* Sets the failure's text to a description of the exception. lead: a line to put before the description, or NULL. */
static void describe(struct failure *f, PyObject *exception, const char *lead)
{
    f->text = PyObject_CallMethod(self.host, "describe", "Oz", exception, lead);
    f->message = f->text ? PyBytes_AsString(f->text) : NULL;
    if (!f->message) {
        snprintf(f->plain, sizeof f->plain, "%s%s%s (its traceback is not available)", lead ? lead : "",
                 lead ? " " : "", Py_TYPE(exception)->tp_name);
        f->message = f->plain;
    }
    PyErr_Clear();
}

/* Turns the exception into a failure for the dispatcher. Cleared by forget(). */
static void explain(struct failure *f, const struct gd_worker *w, PyObject *exception, const char *lead)
{
    *f = (struct failure){ .kind = classify(exception) };
    if (strcmp(f->kind->name, "timeout") == 0 && gd_task_cancelled(w))
        f->kind = NULL;
    else
        describe(f, exception, lead);
}

static int say_failure(const struct failure *f, struct gd_result *r)
{
    return f->kind ? f->kind->say(r, "%s", f->message) : gd_result_cancelled(r);
}

/* Called when the exception, and what it kept alive, are gone. */
static void forget(struct failure *f)
{
    Py_CLEAR(f->text);
    if (f->kind == &kinds[OUT_OF_MEMORY]) {
        Py_XDECREF(PyObject_CallMethod(self.host, "relieve", NULL));
        PyErr_Clear();
    }
}

static int fail_with(struct gd_worker *w, struct gd_result *r, PyObject *exception, const char *lead)
{
    struct failure f;
    explain(&f, w, exception, lead);
    int code = say_failure(&f, r);
    Py_DECREF(exception);
    forget(&f);
    return code;
}

/* The current exception becomes the failure of a task. */
static int fail(struct gd_worker *w, struct gd_result *r, const char *lead)
{
    return fail_with(w, r, error_take(), lead);
}

/* The same for setup or cleanup. */
static int fail_own(struct gd_worker *w)
{
    struct failure f = { 0 };
    PyObject *exception = error_take();
    describe(&f, exception, NULL);
    int code = gd_worker_error(w, "%s", f.message);
    Py_DECREF(exception);
    forget(&f);
    return code;
}

/* ---- values ---- */

static const char unreadable[] = "The item can't be read in the worker process:";
static const char unsendable[] = "The result can't be sent back:";

/* The argument of process(). New reference. */
static PyObject *item_of(const struct gd_worker *w, const struct gd_task *task)
{
    if (task->loaded)
        return Py_NewRef((PyObject *)task->loaded);
    struct value_place place = { .fd = -1 };
    (void)gd__task_locate(w, task, &place.fd, &place.offset);
    return value_read_item(task->data, task->size, &place);
}

/* Room for a result, which will be written completely. Other threads may run meanwhile. */
static void make_ready(struct gd_result *r)
{
    if (!gd__result_would_fill(r))
        return;
    Py_BEGIN_ALLOW_THREADS
    gd__result_fill(r);
    Py_END_ALLOW_THREADS
}

static int put_large(struct gd_worker *w, struct gd_result *r, PyObject *value)
{
    struct value_plan plan;
    if (value_plan(&plan, value) < 0)
        return fail(w, r, unsendable);
    int code = 0;
    void *room = gd_result_alloc(r, plan.size);
    if (room) {
        make_ready(r);
        value_write(&plan, room);
    } else {
        code = gd_result_error(r, "no memory for a result of %zu bytes: %s", plan.size, gd_error_text());
    }
    value_plan_clear(&plan);
    return code;
}

static int put(struct gd_worker *w, struct gd_result *r, PyObject *value)
{
    unsigned char small[24];
    const size_t size = value_small(value, small);
    return size ? gd_result_set(r, small, size) : put_large(w, r, value);
}

/* Called before the memory behind the views of this thread is used again. If there is no memory to preserve an array
 * that user code has kept, the process ends, because the contents of that array would change. */
static void settle(void)
{
    if (__builtin_expect(views_settle() == 0, 1))
        return;
    PyErr_Print();
    fputs("gpu_dispatch worker: no memory for an array that process() kept: the worker ends\n", stderr);
    fflush(stderr);
    _exit(EXIT_NO_MEMORY);
}

/* ---- a child that was forked by user code ---- */

static void note_fork(void)
{
    self.forked = true;
}

/* The child has returned from user code into the worker's loop, but must not continue it. */
_Noreturn static void end_fork(void)
{
    const bool failed = PyErr_Occurred();
    if (failed)
        PyErr_Print(); /* does not return if it is SystemExit */
    exit(Py_FinalizeEx() < 0 || failed);
}

static PyObject *call(PyObject *method, PyObject *argument)
{
    PyObject *result = PyObject_CallOneArg(method, argument);
    if (__builtin_expect(self.forked, 0))
        end_fork();
    return result;
}

/* ---- tasks ---- */

static int process(struct gd_worker *w, const struct gd_task *task, struct gd_result *r)
{
    PyObject *item = item_of(w, task);
    self.result = r;
    PyObject *result = item ? call(self.process, item) : NULL;
    self.result = NULL;
    const char *lead = item ? NULL : unreadable;
    Py_XDECREF(item);
    int code = result ? put(w, r, result) : fail(w, r, lead);
    Py_XDECREF(result);
    settle();
    return code;
}

static int fail_all(struct gd_worker *w, struct gd_result *const *results, size_t n)
{
    struct failure f;
    PyObject *exception = error_take();
    int code = 0;
    explain(&f, w, exception, NULL);
    for (size_t i = 0; i < n; i++)
        if (gd__result_is_success(results[i]))
            code = say_failure(&f, results[i]);
    Py_DECREF(exception);
    forget(&f);
    return code;
}

/* A list of the items. Items that cannot be read fail and are left out. NULL: out of memory. */
static PyObject *read_items(struct gd_worker *w, const struct gd_task *const *tasks, struct gd_result *const *results,
                            size_t n)
{
    PyObject *items = PyList_New(0);
    for (size_t i = 0; items && i < n; i++) {
        PyObject *item = item_of(w, tasks[i]);
        if (!item)
            fail(w, results[i], unreadable);
        else if (PyList_Append(items, item) < 0)
            Py_CLEAR(items);
        Py_XDECREF(item);
    }
    return items;
}

/* The result of process_batch() as a list or tuple with n elements. */
static PyObject *check_results(PyObject *returned, Py_ssize_t n)
{
    if (PyUnicode_Check(returned) || PyBytes_Check(returned) || PyDict_Check(returned) || !PySequence_Check(returned)) {
        PyErr_Format(PyExc_TypeError, "process_batch returned %.100s instead of a list of results",
                     Py_TYPE(returned)->tp_name);
        return NULL;
    }
    PyObject *list = PySequence_Fast(returned, "process_batch must return a list of results");
    if (list && PySequence_Fast_GET_SIZE(list) != n) {
        PyErr_Format(PyExc_ValueError,
                     "process_batch returned %zd results for %zd items: return one for each, in the same order",
                     PySequence_Fast_GET_SIZE(list), n);
        Py_CLEAR(list);
    }
    return list;
}

static void put_results(struct gd_worker *w, struct gd_result *const *results, size_t n, PyObject *list)
{
    Py_ssize_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (!gd__result_is_success(results[i]))
            continue;
        PyObject *value = Py_NewRef(PySequence_Fast_GET_ITEM(list, at++));
        if (PyExceptionInstance_Check(value)) {
            fail_with(w, results[i], value, NULL);
        } else {
            put(w, results[i], value);
            Py_DECREF(value);
        }
    }
}

static int run_batch(struct gd_worker *w, struct gd_result *const *results, size_t n, PyObject *items)
{
    const Py_ssize_t n_items = PyList_GET_SIZE(items);
    if (n_items == 0)
        return 0;
    PyObject *returned = call(self.process_batch, items);
    PyObject *list = returned ? check_results(returned, n_items) : NULL;
    Py_XDECREF(returned);
    if (!list)
        return fail_all(w, results, n);
    put_results(w, results, n, list);
    Py_DECREF(list);
    return 0;
}

static int process_batch(struct gd_worker *w, const struct gd_task *const *tasks, struct gd_result *const *results,
                         size_t n)
{
    PyObject *items = read_items(w, tasks, results, n);
    int code = items ? run_batch(w, results, n, items) : fail_all(w, results, n);
    Py_XDECREF(items);
    settle();
    return code;
}

/* On an I/O thread. NULL with an exception. *read: whether load() was called. */
static PyObject *call_load(const struct gd_worker *w, const struct gd_task *task, bool *read)
{
    PyObject *item = item_of(w, task);
    PyObject *loaded = item ? call(self.load, item) : NULL;
    *read = item != NULL;
    Py_XDECREF(item);
    return loaded;
}

static void begin_load(struct running_load *l)
{
    *l = (struct running_load){ .next = running_loads,
                                .thread = PyThread_get_thread_ident(),
                                .position = gd__thread_loads() };
    running_loads = l;
}

/* From here on this load() cannot be interrupted. An exception that came too late is cancelled. Otherwise it would be
 * raised in the next load(). */
static void end_load(struct running_load *l)
{
    struct running_load **at = &running_loads;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    if (l->interrupted)
        PyThreadState_SetAsyncExc(l->thread, NULL);
}

static int load(struct gd_worker *w, struct gd_task *task, struct gd_result *r)
{
    struct running_load running;
    int code = 0;
    bool read = true;
    enter_io_thread();
    begin_load(&running);
    /* The task may have been cancelled while this thread waited for the GIL. Then interrupt_loads() has not seen it. */
    PyObject *loaded = gd_task_cancelled(w) ? NULL : call_load(w, task, &read);
    end_load(&running);
    if (!loaded)
        code = PyErr_Occurred() ? fail(w, r, read ? NULL : unreadable) : gd_result_cancelled(r);
    settle();
    task->loaded = loaded;
    leave_io_thread();
    return code;
}

/* On the main thread. Python code gets the exception at its next instruction. Code that is stuck or waits in C does not
 * get it, and is killed by the dispatcher. */
static void interrupt_loads(void)
{
    const uint64_t below = gd__host_cancel_below(self.worker);
    for (struct running_load *l = running_loads; l; l = l->next) {
        if (l->position >= below || l->interrupted)
            continue;
        l->interrupted = true;
        PyThreadState_SetAsyncExc(l->thread, self.timeout_error);
    }
}

static void unload(struct gd_worker *w, struct gd_task *task)
{
    (void)w;
    PyObject *loaded = task->loaded;
    task->loaded = NULL;
    Py_XDECREF(loaded);
}

/* On the guardian's thread, without the GIL. */
static void interrupt(struct gd_worker *w)
{
    (void)w;
    pthread_kill(self.main_thread, SIGALRM);
}

/* ---- the start and the end ---- */

/* A bound method of the instance, or None. */
static int take_method(PyObject **out, const char *name)
{
    *out = PyObject_GetAttrString(self.host, name);
    return *out ? 0 : -1;
}

static PyObject *tuple_of(const int *numbers, size_t n)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; tuple && i < n; i++) {
        PyObject *number = PyLong_FromLong(numbers[i]);
        if (number)
            PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, number);
        else
            Py_CLEAR(tuple);
    }
    return tuple;
}

static int set_up(struct gd_worker *w, const struct gd_setup *s)
{
    self.worker = w;
    PyObject *args = PyBytes_FromStringAndSize(s->args, (Py_ssize_t)s->args_size);
    PyObject *gpus = tuple_of(s->gpu_ids, s->n_gpus);
    PyObject *done = args && gpus ? PyObject_CallMethod(self.host, "setup", "OiOiKI", args, s->gpu_id, gpus,
                                                        s->worker_id, (unsigned long long)s->seed, s->restarts)
                                  : NULL;
    if (self.forked)
        end_fork();
    Py_XDECREF(args);
    Py_XDECREF(gpus);
    Py_XDECREF(done);
    if (!done || take_method(&self.process, "process") < 0 || take_method(&self.process_batch, "process_batch") < 0 ||
        take_method(&self.load, "load") < 0)
        return fail_own(w);
    return 0;
}

static void finish(void)
{
    self.finished = true;
    PyObject *done = PyObject_CallMethod(self.host, "finish", NULL);
    if (!done)
        PyErr_WriteUnraisable(self.host);
    Py_XDECREF(done);
}

static int clean_up(struct gd_worker *w)
{
    PyObject *done = PyObject_CallMethod(self.host, "cleanup", NULL);
    if (self.forked)
        end_fork();
    int code = done ? 0 : fail_own(w);
    Py_XDECREF(done);
    finish();
    return code;
}

/* After a failed setup or a lost device, which was already reported to the dispatcher. */
static void finish_at_exit(void)
{
    if (!self.finished && !self.forked && pthread_equal(pthread_self(), self.main_thread) && PyGILState_Check())
        finish();
}

static int has(const char *attribute)
{
    PyObject *value = PyObject_GetAttrString(self.host, attribute);
    int is_so = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    return is_so;
}

/* 0 or an error number. */
static int prepare_process(void)
{
    const int failed = pthread_atfork(NULL, NULL, note_fork);
    return failed || atexit(finish_at_exit) == 0 ? failed : ENOMEM;
}

static PyObject *worker_main(PyObject *module, PyObject *host)
{
    static struct gd_worker_ops ops = { .size = sizeof ops,
                                        .setup = set_up,
                                        .process = process,
                                        .unload = unload,
                                        .cleanup = clean_up,
                                        .interrupt = interrupt };
    (void)module;
    if (!gd__in_worker_process())
        return PyErr_Format(
            PyExc_RuntimeError,
            "this process was not started by a dispatcher: worker_main() works only in worker processes");
    self.host = Py_NewRef(host);
    self.timeout_error = PyObject_GetAttrString(host, "timeout_error");
    if (!self.timeout_error)
        return NULL;
    self.main_thread = pthread_self();
    const int has_batch = has("has_batch"), has_load = has("has_load");
    if (has_batch < 0 || has_load < 0)
        return NULL;
    ops.process_batch = has_batch ? process_batch : NULL;
    ops.load = has_load ? load : NULL;
    errno = prepare_process();
    if (errno)
        return PyErr_SetFromErrno(PyExc_OSError);
    gd__wait_hooks = (struct gd__wait_hooks){
        .before = before_wait, .after = after_wait, .io_thread_ends = end_io_thread, .interrupt_loads = interrupt_loads
    };
    static char *argv[] = { NULL };
    return native_error(gd_worker_main(&(int){ 0 }, argv, &ops)); /* does not return: see above */
}

static PyObject *task_cancelled(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    return PyBool_FromLong(self.worker && gd_task_cancelled(self.worker));
}

static int put_partial(PyObject *value)
{
    struct value_plan plan;
    if (value_plan(&plan, value) < 0)
        return -1;
    int code = GD_E_NO_MEMORY;
    void *bytes = PyMem_Malloc(plan.size > 0 ? plan.size : 1);
    if (bytes) {
        value_write(&plan, bytes);
        code = gd_result_partial(self.result, bytes, plan.size);
    }
    if (!bytes)
        PyErr_NoMemory();
    else if (code < 0)
        native_error(code);
    PyMem_Free(bytes);
    value_plan_clear(&plan);
    return code;
}

/* Other threads may run while the library waits for room (before_wait). */
static PyObject *send_partial(PyObject *module, PyObject *value)
{
    (void)module;
    if (self.forked || !self.result || !pthread_equal(pthread_self(), self.main_thread))
        return PyErr_Format(PyExc_RuntimeError,
                            "partial results can be sent only by process(), on the main thread of a worker process");
    if (put_partial(value) < 0)
        return NULL;
    Py_RETURN_NONE;
}

int worker_init(PyObject *module)
{
    static PyMethodDef functions[] = {
        { "worker_main", worker_main, METH_O, "Runs the worker that this process was started for. Does not return." },
        { "task_cancelled", task_cancelled, METH_NOARGS,
          "Whether the current task of this worker process has exceeded its time limit." },
        { "send_partial", send_partial, METH_O, "Sends a part of the result of the task that process() is running." },
        { NULL, NULL, 0, NULL },
    };
    return PyModule_AddFunctions(module, functions);
}
