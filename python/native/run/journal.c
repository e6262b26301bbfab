/* A run's journal: opening it with a dict of options, the keys and texts of its tasks, and JournalError.
 *
 * The feeder's thread looks up each item by its key before anything else, so finished items are never pickled. A record
 * also has the input as text. For a scalar this text is made from the payload when the record is made. For any other
 * item the text is made from the object while the object exists, and is stored by task number until the record is made.
 *
 * A task is finished when its callback has returned. If the callback raised, or was not called because an earlier one
 * had raised, the task gets no record.
 */
#include <string.h>

#include "binding.h"
#include "python/native/run/run.h"

static PyObject *error_type; /* gpu_dispatch.JournalError */

/* ---- errors ---- */

PyObject *journal_error(int code)
{
    static const struct {
        int code;
        const char *reason;
    } reasons[] = {
        { GD_E_BUSY, "busy" },       { GD_E_EXISTS, "exists" },           { GD_E_MISMATCH, "mismatch" },
        { GD_E_CORRUPT, "corrupt" }, { GD_E_VERSION, "version" },         { GD_E_JOURNAL, "write" },
        { GD_E_SYSTEM, "system" },   { GD_E_UNSUPPORTED, "unsupported" },
    };
    const char *reason = NULL;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].code == code)
            reason = reasons[i].reason;
    if (!reason)
        return native_error(code);
    PyObject *text = PyUnicode_DecodeUTF8(gd_error_text(), (Py_ssize_t)strlen(gd_error_text()), "replace");
    PyObject *error = text ? PyObject_CallFunctionObjArgs(error_type, text, NULL) : NULL;
    PyObject *word = error ? PyUnicode_FromString(reason) : NULL;
    if (word && PyObject_SetAttrString(error, "reason", word) == 0)
        PyErr_SetObject(error_type, error);
    Py_XDECREF(word);
    Py_XDECREF(error);
    Py_XDECREF(text);
    return NULL;
}

/* ---- opening and closing ---- */

/* An attribute of the module with the Python part of journals. */
static PyObject *helper(const char *name)
{
    PyObject *module = PyImport_ImportModule("gpu_dispatch._journal");
    PyObject *function = module ? PyObject_GetAttrString(module, name) : NULL;
    Py_XDECREF(module);
    return function;
}

/* Releases the GIL, because the journal may be large and on a slow disk, and another run may use it. */
static int open_journal(struct run *r, const struct gd_journal_options *o)
{
    r->state = PyEval_SaveThread();
    const int rc = gd_journal_open(&r->journal, o);
    PyEval_RestoreThread(r->state);
    r->state = NULL;
    if (rc < 0 && !PyErr_Occurred())
        journal_error(rc);
    return rc < 0 || PyErr_Occurred() ? -1 : 0; /* an exception: Ctrl-C, or one of the note about a wait */
}

int journal_use_keys(struct run *r)
{
    if (!r->versioned)
        r->versioned = helper("Versioned");
    return r->versioned ? 0 : -1;
}

/* A tuple of bytes as an array that ends with NULL. The caller frees it with PyMem_Free(). The strings are borrowed. */
static const char **strings_of(PyObject *paths)
{
    const Py_ssize_t n = PyTuple_GET_SIZE(paths);
    const char **out = PyMem_Calloc((size_t)n + 1, sizeof *out);
    if (!out)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; out && i < n; i++)
        if (!(out[i] = PyBytes_AsString(PyTuple_GET_ITEM(paths, i)))) {
            PyMem_Free(out);
            return NULL;
        }
    return out;
}

int journal_open(struct run *r, PyObject *options, const struct gd_options *run)
{
    static char path[] = "path", command[] = "command", resume[] = "resume", force[] = "force", sync[] = "sync",
                lock_wait_ms[] = "lock_wait_ms", skip_done[] = "skip_done",
                *names[] = { path, command, resume, force, sync, lock_wait_ms, skip_done, NULL };
    struct gd_journal_options o = GD_JOURNAL_OPTIONS_INIT;
    PyObject *where = NULL, *no_args = PyTuple_New(0), *done = NULL;
    const char **others = NULL;
    int how = 0, forced = 0, synced = 0, rc = -1;
    if (no_args &&
        PyArg_ParseTupleAndKeywords(no_args, options, "O&s|$ipiIO!:journal", names, PyUnicode_FSConverter, &where,
                                    &o.command, &how, &forced, &synced, &o.lock_wait_ms, &PyTuple_Type, &done)) {
        o.path = PyBytes_AS_STRING(where);
        o.resume = (enum gd_journal_resume)how;
        o.force = forced;
        o.sync = (enum gd_journal_sync)synced;
        o.shard = run->shard;
        o.wait_stop_fd = run->wait_stop_fd;
        o.on_wait = run->on_device_note;
        o.user = r;
        others = done ? strings_of(done) : NULL;
        o.skip_done = others;
        o.n_skip_done = others ? (size_t)PyTuple_GET_SIZE(done) : 0;
        r->kept = true;
        r->texts = PyDict_New();
        r->describe = helper("describe");
        rc = r->texts && r->describe && (!done || others) && journal_use_keys(r) == 0 ? open_journal(r, &o) : -1;
    }
    PyMem_Free(others);
    Py_XDECREF(where);
    Py_XDECREF(no_args);
    return rc;
}

int journal_close(struct run *r)
{
    int rc;
    Py_BEGIN_ALLOW_THREADS;
    rc = gd_journal_close(&r->journal);
    Py_END_ALLOW_THREADS;
    if (rc < 0 && !PyErr_Occurred())
        journal_error(rc);
    return rc < 0 ? -1 : 0;
}

void journal_clear(struct run *r)
{
    Py_CLEAR(r->key);
    Py_CLEAR(r->texts);
    Py_CLEAR(r->versioned);
    Py_CLEAR(r->describe);
    Py_CLEAR(r->message);
}

/* ---- keys, on the feeder's thread ---- */

static int set_key(struct gd_item *item, PyObject *key, PyObject *version)
{
    PyObject *bytes = key_encode(key), *text = NULL;
    int rc = bytes ? 0 : -1;
    const char *version_text = NULL;
    if (rc == 0 && version && version != Py_None) {
        text = PyObject_Str(version);
        version_text = text ? PyUnicode_AsUTF8(text) : NULL;
        rc = version_text ? 0 : -1;
    }
    if (rc == 0 && gd_item_key(item, PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes), version_text) < 0) {
        PyErr_SetString(PyExc_MemoryError, "no memory for a key");
        rc = -1;
    }
    Py_XDECREF(text);
    Py_XDECREF(bytes);
    return rc;
}

static int set_versioned(struct gd_item *item, PyObject *pair)
{
    PyObject *key = PyObject_GetAttrString(pair, "key");
    PyObject *version = key ? PyObject_GetAttrString(pair, "version") : NULL;
    const int rc = version ? set_key(item, key, version) : -1;
    Py_XDECREF(version);
    Py_XDECREF(key);
    return rc;
}

/* The key of an item without a key function, as bytes. NULL without an exception: its payload is its key. All processes
 * must find the same owner for an item, so a pickle is not good enough for a shard. */
static PyObject *own_key(const struct run *r, PyObject *object)
{
    PyObject *key = key_of_item(object);
    if (key || PyErr_Occurred() || !r->is_dealt || key_is_scalar(object))
        return key;
    key = key_encode(object);
    if (!key && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Format(
            PyExc_TypeError,
            "shard: an item is a %s, or contains one that is not a plain value. Its pickle may be different in "
            "each process, so the shards would not agree on its owner: give key=, a function that returns a "
            "str, an int or a tuple of them",
            Py_TYPE(object)->tp_name);
    return key;
}

int journal_key(struct run *r, struct gd_item *item, PyObject *object)
{
    int rc;
    PyObject *key = r->key ? PyObject_CallFunctionObjArgs(r->key, object, NULL) : own_key(r, object);
    if (!key)
        return PyErr_Occurred() ? -1 : 0;
    if (!r->key)
        rc = gd_item_key(item, PyBytes_AS_STRING(key), (size_t)PyBytes_GET_SIZE(key), NULL) < 0 ? -1 : 0;
    else if ((PyObject *)Py_TYPE(key) == r->versioned)
        rc = set_versioned(item, key);
    else
        rc = set_key(item, key, NULL);
    if (rc < 0 && !PyErr_Occurred())
        PyErr_SetString(PyExc_MemoryError, "no memory for a key");
    Py_DECREF(key);
    return rc < 0 ? -1 : 1;
}

int journal_remember(struct run *r, uint64_t number, PyObject *object)
{
    PyObject *text = PyObject_CallFunctionObjArgs(r->describe, object, NULL);
    PyObject *place = text ? PyLong_FromUnsignedLongLong(number) : NULL;
    const int rc = place ? PyDict_SetItem(r->texts, place, text) : -1;
    Py_XDECREF(place);
    Py_XDECREF(text);
    return rc;
}

/* ---- records, on the run's thread ---- */

/* Takes out the stored text. NULL without an exception: there is none. */
static PyObject *recall(struct run *r, uint64_t number)
{
    PyObject *place = PyLong_FromUnsignedLongLong(number);
    PyObject *text = place ? PyDict_GetItemWithError(r->texts, place) : NULL;
    Py_XINCREF(text);
    if (text && PyDict_DelItem(r->texts, place) < 0)
        Py_CLEAR(text);
    Py_XDECREF(place);
    return text;
}

void journal_note(struct run *r, const struct gd_report *report)
{
    struct gd_journal_note note = { .size = sizeof note };
    call_take_lock(r);
    PyObject *text = PyDict_GET_SIZE(r->texts) > 0 ? recall(r, report->task_id) : NULL;
    if (!text && !PyErr_Occurred())
        text = value_repr(report->input, report->input_size);
    PyObject *bytes = text ? PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace") : NULL;
    if (bytes) {
        note.input = PyBytes_AS_STRING(bytes);
        note.input_size = (size_t)PyBytes_GET_SIZE(bytes);
        gd_journal_add_note(r->journal, &note);
    }
    Py_XDECREF(bytes);
    Py_XDECREF(text);
    if (PyErr_Occurred()) /* out of memory: the record shows the payload */
        PyErr_Clear();
}

void journal_failed(struct run *r, const struct gd_report *report, PyObject *message)
{
    Py_XSETREF(r->message, message ? PyUnicode_AsEncodedString(message, "utf-8", "backslashreplace") : NULL);
    PyErr_Clear();
    gd__report_refuse(report, GD_FAILURE_ERROR,
                      r->message ? PyBytes_AS_STRING(r->message) : "its result cannot be read");
}

void journal_drop(const struct gd_report *report)
{
    gd__report_refuse(report, GD_FAILURE_CANCELLED, NULL);
}

/* ---- the module ---- */

static PyObject *available(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyBool_FromLong(gd_journal_available());
}

static PyMethodDef functions[] = {
    { "journal_available", available, METH_NOARGS, "Whether this build supports journals." },
    { NULL, NULL, 0, NULL },
};

PyDoc_STRVAR(
    error_doc,
    "The journal of a run cannot be used or written. This is a RuntimeError.\n\n"
    "reason is one of \"busy\" (another run uses it), \"exists\" (it has records, and resume is not set),\n"
    "\"mismatch\" (it belongs to another worker class or shard), \"corrupt\" (it is damaged or not a journal),\n"
    "\"version\" (its version is not supported), \"system\" (it cannot be opened), \"write\" (it cannot be written, "
    "for example\n"
    "because the disk is full, and the run was ended), \"unsupported\" (built without SQLite).");

int journal_init(PyObject *module)
{
    if (!error_type) {
        PyObject *members = Py_BuildValue("{s:s}", "reason", "");
        error_type =
            members ? PyErr_NewExceptionWithDoc("gpu_dispatch.JournalError", error_doc, PyExc_RuntimeError, members)
                    : NULL;
        Py_XDECREF(members);
    }
    if (!error_type || PyModule_AddObjectRef(module, "JournalError", error_type) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
