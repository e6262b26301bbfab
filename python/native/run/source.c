/* The iterator behind the library's source.
 *
 * It runs on the feeder's thread, which keeps one thread state for its whole life. Each item is given to the library
 * before the next one is requested. So an iterator that waits for the result of its last item gets it. Python's lock
 * (the GIL) is held until the queue is full, or until the run's thread has waited for it for a while (see `wanted`).
 *
 * An item that cannot be pickled is still a task. The worker gets an object that raises the error message when it is
 * unpickled, so the task fails with that message.
 *
 * If the iterator is blocked when the run ends, run() does not wait for it. The feeder's thread keeps a reference to
 * the Run and releases everything when the iterator returns.
 */
#include <errno.h>
#include <linux/futex.h>
#include <math.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "binding.h"
#include "python/native/run/run.h"

enum { SMALL_MAX = 24, TURN = 256 /* items for which the lock is held while another thread waits for it */ };
enum { LARGE = 1 << 20 /* hashing a payload of this size takes longer than switching threads */ };

enum pulled {
    FAILED = -1,
    AT_END = 0,
    ITEM = 1,
    SKIPPED = 2 /* already finished, according to the journal, or of another shard */
};

/* ---- Python's lock ---- */

/* Lets the run's thread take the lock first, because it has results to report. Otherwise this thread, which has just
 * released the lock, would take it again before the other one has woken up. */
static void give_way(struct run *r)
{
    if (!atomic_load(&r->wanted))
        return;
    atomic_store(&r->feeder_waits, 1);
    while (atomic_load(&r->wanted))
        syscall(SYS_futex, &r->wanted, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
    atomic_store(&r->feeder_waits, 0);
}

static void take_lock(struct run *r)
{
    if (r->source_ready) {
        give_way(r);
        PyEval_RestoreThread(r->source_state);
        return;
    }
    r->source_gil = PyGILState_Ensure();
    r->source_state = PyThreadState_Get();
    r->source_thread = PyThread_get_thread_ident();
    r->source_ready = true;
    /* Processes and threads that the iterator starts must have the signal mask of the program, not of this thread,
     * which blocks all signals. */
    pthread_sigmask(SIG_SETMASK, &r->signals, NULL);
}

static void let_lock_go(void)
{
    (void)PyEval_SaveThread();
}

/* ---- one item ---- */

/* Room for the payload, which will be written completely. If there is no room yet, the lock is released while waiting.
 */
static void *room_for(struct run *r, struct gd_item *item, size_t size)
{
    void *room = gd__item_try_alloc(item, size);
    if (room && !gd__item_would_fill(item))
        return room;
    let_lock_go();
    if (!room)
        room = gd_item_alloc(item, size);
    if (room)
        gd__item_fill(item);
    take_lock(r);
    return room;
}

/* The replacement for an item that cannot be sent. It contains the current exception, which is cleared. */
static PyObject *stand_in(void)
{
    PyObject *error = error_take();
    PyObject *module = PyImport_ImportModule("gpu_dispatch._unsendable");
    PyObject *made = module ? PyObject_CallMethod(module, "Unsendable", "O", error) : NULL;
    Py_XDECREF(module);
    Py_DECREF(error);
    return made;
}

static int plan_item(struct value_plan *plan, PyObject *object)
{
    if (value_plan(plan, object) == 0)
        return 0;
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return -1;
    PyObject *instead = stand_in();
    const int rc = instead ? value_plan(plan, instead) : -1;
    Py_XDECREF(instead);
    return rc;
}

/* 1, or -1 with an exception. If the run is being shut down meanwhile, the task has no payload; it will be reported as
 * cancelled. */
static int write_item(struct run *r, struct gd_item *item, PyObject *object)
{
    struct value_plan plan;
    if (plan_item(&plan, object) < 0)
        return -1;
    void *room = room_for(r, item, plan.size);
    if (room)
        value_write(&plan, room);
    value_plan_clear(&plan);
    if (room || gd__item_stopped(item))
        return 1;
    PyErr_Format(PyExc_MemoryError, "no memory for an item of %zu bytes: %s", plan.size, gd_error_text());
    return -1;
}

static int encode(struct run *r, struct gd_item *item, PyObject *object, unsigned char small[SMALL_MAX])
{
    item->size = value_small(object, small);
    item->data = small;
    return item->size > 0 ? 1 : write_item(r, item, object);
}

/* Hashing a large payload takes a while. Reading the journal takes long too: if the items have another order than
 * before, the whole journal is read to index it. Other threads and signal handlers get the lock meanwhile. */
static int ask(struct run *r, struct gd_item *item, uint64_t *number)
{
    const bool takes_long = item->size >= LARGE || gd__item_ask_reads(item);
    if (takes_long)
        let_lock_go();
    const int rc = gd__item_ask(item, number);
    if (takes_long)
        take_lock(r);
    return rc;
}

/* For a run with a journal or a shard. An item that has a key is looked up before it is encoded. */
static enum pulled take_kept(struct run *r, struct gd_item *item, PyObject *object, unsigned char small[SMALL_MAX])
{
    uint64_t number = 0;
    const int keyed = journal_key(r, item, object);
    if (keyed < 0)
        return FAILED;
    if (keyed && !ask(r, item, &number))
        return SKIPPED;
    if (encode(r, item, object, small) < 0)
        return FAILED;
    if (!keyed && !ask(r, item, &number))
        return SKIPPED;
    if (!r->kept || !value_is_pickle(item->data, item->size))
        return ITEM;
    return journal_remember(r, number, object) == 0 ? ITEM : FAILED;
}

/* Reads the settings of a Task. The class has checked them. Returns 0, or -1 with an exception. */
static int read_settings(struct gd_item *item, PyObject *task)
{
    PyObject *priority = PyObject_GetAttrString(task, "priority");
    PyObject *timeout = priority ? PyObject_GetAttrString(task, "timeout") : NULL;
    const long level = timeout ? PyLong_AsLong(priority) : 0;
    const double seconds = !timeout || timeout == Py_None || PyErr_Occurred() ? 0 : PyFloat_AsDouble(timeout);
    item->priority = level < GD_PRIORITY_MIN || level > GD_PRIORITY_MAX ? GD_PRIORITY_MAX + 1 : (int)level;
    item->timeout_ms = seconds > 0 && seconds <= UINT_MAX / 1000 ? (unsigned)ceil(seconds * 1000) : 0;
    Py_XDECREF(timeout);
    Py_XDECREF(priority);
    return PyErr_Occurred() ? -1 : 0;
}

/* If object is a Task, replaces it by its item and stores its settings. Returns 0, or -1 with an exception; the
 * reference to *object is then released. */
static int unwrap(struct run *r, struct gd_item *item, PyObject **object)
{
    if (!PyObject_TypeCheck(*object, (PyTypeObject *)r->task))
        return 0;
    PyObject *inner = read_settings(item, *object) == 0 ? PyObject_GetAttrString(*object, "item") : NULL;
    Py_SETREF(*object, inner);
    return inner ? 0 : -1;
}

static enum pulled pull(struct run *r, struct gd_item *item, unsigned char small[SMALL_MAX])
{
    PyObject *object = Py_TYPE(r->iterator)->tp_iternext(r->iterator);
    if (!object) {
        if (!PyErr_Occurred())
            return AT_END;
        if (!PyErr_ExceptionMatches(PyExc_StopIteration))
            return FAILED;
        PyErr_Clear();
        return AT_END;
    }
    if (unwrap(r, item, &object) < 0)
        return FAILED;
    const enum pulled what = r->kept || r->is_dealt               ? take_kept(r, item, object, small)
                             : encode(r, item, object, small) < 0 ? FAILED
                                                                  : ITEM;
    Py_DECREF(object);
    return what;
}

/* The next item that must be run. Millions of skipped items may come before it. So other threads get the lock
 * meanwhile, and the search stops when the run is over. */
static enum pulled pull_wanted(struct run *r, struct gd_item *item, unsigned char small[SMALL_MAX])
{
    enum pulled what;
    for (unsigned n = 1; (what = pull(r, item, small)) == SKIPPED; n++) {
        if (gd__item_stopped(item))
            return AT_END;
        if (n % TURN == 0) {
            let_lock_go();
            take_lock(r);
        }
    }
    return what;
}

static int failed(struct run *r, struct gd_item *item)
{
    Py_XSETREF(r->source_error, error_take());
    return gd_item_error(item, "the iterator raised an exception");
}

int source_next(void *user, struct gd_item *item)
{
    struct run *r = user;
    static _Thread_local unsigned char
        small[SMALL_MAX]; /* outlives this call, because the library copies it afterwards */
    int rc;
    unsigned turn = 0;
    take_lock(r);
    do
        rc = (int)pull_wanted(r, item, small);
    while (rc > 0 && (++turn < TURN || !atomic_load_explicit(&r->wanted, memory_order_relaxed)) && gd__item_give(item));
    if (rc < 0)
        rc = failed(r, item);
    let_lock_go();
    return rc;
}

/* ---- the start and the end of its thread ---- */

/* On the run's thread, which does not hold the lock. That is safe: the Run is in use, and only this thread uses
 * source_held now. */
void source_hold(void *user)
{
    struct run *r = user;
    r->source_begun = r->source_held = true;
}

/* run() made the feeder's reference. If this function is never called, run() releases it. */
void source_release(void *user)
{
    struct run *r = user;
    take_lock(r);
    const PyGILState_STATE gil = r->source_gil;
    Py_CLEAR(r->iterator);
    r->source_held = false;
    Py_DECREF(r);
    PyGILState_Release(gil);
}

void source_leave(struct run *r)
{
    if (r->source_held && r->source_ready)
        PyThreadState_SetAsyncExc(r->source_thread, PyExc_GeneratorExit);
}
