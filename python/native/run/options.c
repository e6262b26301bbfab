/* A dict as struct gd_options: its keys are the names of the fields.
 *
 * gd_dispatcher_open() copies the data that options point to, so everything made here is freed when it has returned.
 * There are two additional keys: task_timeout, in seconds, which is passed to on_timeout, and key, the function that
 * makes the keys of items. The journal has its own dict.
 */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "python/native/queue/queue.h"
#include "python/native/run/run.h"

enum kind { UNSIGNED, INT, UINT64, BOOL, STRING, INTS, STRINGS, BYTES, SECONDS, JOURNAL, SHARD, QUEUE, KEY, CALLABLE };

_Static_assert(sizeof(size_t) == sizeof(uint64_t), "sizes are read as UINT64");

struct option {
    const char *name;
    enum kind kind;
    size_t offset; /* in struct gd_options */
};

#define OPTION(member, its_kind)                                                           \
    {                                                                                      \
        .name = #member, .kind = (its_kind), .offset = offsetof(struct gd_options, member) \
    }
static const struct option table[] = {
    OPTION(gpus, STRING),
    OPTION(gpu_ids, INTS),
    OPTION(workers_per_gpu, UNSIGNED),
    OPTION(model_bytes, UINT64),
    OPTION(gpus_per_worker, UNSIGNED),
    OPTION(max_workers_per_gpu, UNSIGNED),
    OPTION(visible_devices, INT),
    OPTION(any_cpu, BOOL),
    OPTION(ignore_gpu_locks, BOOL),
    OPTION(wait_stop_fd, INT),
    OPTION(on_device_note, CALLABLE),
    OPTION(worker_argv, STRINGS),
    OPTION(env, STRINGS),
    OPTION(setup_args, BYTES),
    OPTION(base_seed, UINT64),
    OPTION(output, INT),
    OPTION(setup_jobs, UNSIGNED),
    OPTION(setup_timeout_ms, UNSIGNED),
    OPTION(setup_attempts, UNSIGNED),
    OPTION(death_limit, UNSIGNED),
    OPTION(max_tasks_per_worker, UNSIGNED),
    OPTION(restart_delay_ms, UNSIGNED),
    OPTION(queue_size, UINT64),
    OPTION(queue_bytes, UINT64),
    OPTION(arena_bytes, UINT64),
    OPTION(total_tasks, UINT64),
    OPTION(task_timeout_ms, UNSIGNED),
    OPTION(cancel_grace_ms, UNSIGNED),
    OPTION(retries, UNSIGNED),
    OPTION(retry_delay_ms, UNSIGNED),
    OPTION(retry_timeouts, BOOL),
    OPTION(crash_limit, UNSIGNED),
    OPTION(start_gap_ms, UNSIGNED),
    OPTION(window, UNSIGNED),
    OPTION(ordered, BOOL),
    OPTION(placement, INT),
    OPTION(batch_size, UNSIGNED),
    OPTION(concurrency, UNSIGNED),
    OPTION(batch_wait_us, UNSIGNED),
    OPTION(io_threads, UNSIGNED),
    OPTION(load_ahead, UNSIGNED),
    OPTION(spin_us, INT),
    OPTION(stop_grace_ms, UNSIGNED),
    OPTION(cleanup_grace_ms, UNSIGNED),
    OPTION(shortage_wait_ms, UNSIGNED),
    OPTION(job, STRING),
    OPTION(journal, JOURNAL),
    OPTION(shard, SHARD),
    OPTION(queue, QUEUE),
    { "key", KEY, 0 },
    { "task_timeout", SECONDS, offsetof(struct gd_options, task_timeout_ms) },
};

struct reading {
    struct run *run;
    struct gd_options *o;
    PyObject *keep;    /* a list: what the options point to */
    PyObject *journal; /* borrowed; NULL: none */
    struct gd_queue_options queue;
};

/* ---- numbers ---- */

static int out_of_range(const char *name, PyObject *value, uint64_t most)
{
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "%s is %R: it must be 0 to %llu", name, value, (unsigned long long)most);
    return -1;
}

static int read_number(const struct option *option, PyObject *value, uint64_t most, uint64_t *out)
{
    PyObject *number = PyNumber_Index(value);
    if (!number) {
        PyErr_Format(PyExc_TypeError, "%s is a %s: it must be an int", option->name, Py_TYPE(value)->tp_name);
        return -1;
    }
    *out = PyLong_AsUnsignedLongLong(number);
    Py_DECREF(number);
    return PyErr_Occurred() || *out > most ? out_of_range(option->name, value, most) : 0;
}

static int read_int(const char *name, PyObject *value, int *out)
{
    const long number = PyLong_AsLong(value);
    if (number == -1 && PyErr_Occurred())
        return -1;
    if (number < INT_MIN || number > INT_MAX) {
        PyErr_Format(PyExc_ValueError, "%s has %R: that is too large", name, value);
        return -1;
    }
    *out = (int)number;
    return 0;
}

static int read_unsigned(const struct option *option, PyObject *value, void *field)
{
    uint64_t number;
    if (read_number(option, value, option->kind == UNSIGNED ? UINT_MAX : UINT64_MAX, &number) < 0)
        return -1;
    if (option->kind == UNSIGNED)
        *(unsigned *)field = (unsigned)number;
    else
        memcpy(field, &number, sizeof number);
    return 0;
}

/* Rounded up, so that a limit above 0 does not become 0, which means no limit. */
static int read_seconds(struct reading *reading, PyObject *value, unsigned *field)
{
    const double seconds = PyFloat_AsDouble(value);
    if (seconds == -1.0 && PyErr_Occurred())
        return -1;
    if (!(seconds > 0) || seconds > UINT_MAX / 1000.0) {
        PyErr_Format(PyExc_ValueError,
                     "task_timeout is %R: it must be more than 0, and at most %u seconds; None for none", value,
                     UINT_MAX / 1000);
        return -1;
    }
    PyObject *timeout = PyFloat_FromDouble(seconds);
    if (!timeout)
        return -1;
    Py_XSETREF(reading->run->timeout, timeout);
    *field = reading->run->timeout_ms = (unsigned)ceil(seconds * 1000);
    return 0;
}

/* ---- strings and lists ---- */

/* Moves our reference into the list. */
static int keep(struct reading *reading, PyObject *object)
{
    const int rc = object ? PyList_Append(reading->keep, object) : -1;
    Py_XDECREF(object);
    return rc;
}

static char *read_string(struct reading *reading, PyObject *value)
{
    PyObject *bytes;
    if (!PyUnicode_FSConverter(value, &bytes))
        return NULL;
    return keep(reading, bytes) < 0 ? NULL : PyBytes_AS_STRING(bytes);
}

/* Memory for n elements that lives as long as the list `keep`. */
static void *array(struct reading *reading, Py_ssize_t n, size_t size)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, n * (Py_ssize_t)size);
    return keep(reading, bytes) < 0 ? NULL : PyBytes_AS_STRING(bytes);
}

static int read_strings(struct reading *reading, PyObject *value, char ***field)
{
    PyObject *list = PySequence_Fast(value, "it must be a list of str");
    if (!list || keep(reading, list) < 0)
        return -1;
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(list);
    char **strings = array(reading, n + 1, sizeof *strings);
    for (Py_ssize_t i = 0; strings && i < n; i++)
        if (!(strings[i] = read_string(reading, PySequence_Fast_GET_ITEM(list, i))))
            return -1;
    if (!strings)
        return -1;
    strings[n] = NULL;
    *field = strings;
    return 0;
}

static int read_ids(struct reading *reading, PyObject *value)
{
    PyObject *list = PySequence_Fast(value, "gpu_ids must be a list of int");
    if (!list || keep(reading, list) < 0)
        return -1;
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(list);
    int *ids = array(reading, n > 0 ? n : 1, sizeof *ids);
    if (!ids)
        return -1;
    for (Py_ssize_t i = 0; i < n; i++)
        if (read_int("gpu_ids", PySequence_Fast_GET_ITEM(list, i), &ids[i]) < 0)
            return -1;
    reading->o->gpu_ids = ids;
    reading->o->n_gpus = (size_t)n;
    return 0;
}

static int read_bytes(struct reading *reading, PyObject *value)
{
    char *data;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(value, &data, &size) < 0)
        return -1;
    reading->o->setup_args = data;
    reading->o->setup_args_size = (size_t)size;
    Py_INCREF(value);
    return keep(reading, value);
}

static int read_queue(struct reading *reading, PyObject *value)
{
    const struct gd_queue_options defaults = GD_QUEUE_OPTIONS_INIT;
    if (!PyDict_Check(value)) {
        PyErr_SetString(PyExc_TypeError, "queue must be a dict");
        return -1;
    }
    reading->queue = defaults;
    reading->o->queue = &reading->queue;
    reading->run->is_queue = true;
    return queue_read_options(&reading->queue, value, reading->keep);
}

static int read_shard(struct reading *reading, PyObject *value)
{
    struct gd_shard *shard = &reading->o->shard;
    if (!PyArg_ParseTuple(value, "II:shard", &shard->index, &shard->count))
        return -1;
    reading->run->is_dealt = shard->count > 1;
    return journal_use_keys(reading->run);
}

/* ---- the dict ---- */

static int read_option(struct reading *reading, const struct option *option, PyObject *value)
{
    void *field = (char *)reading->o + option->offset;
    int truth;
    switch (option->kind) {
    case UNSIGNED:
    case UINT64:
        return read_unsigned(option, value, field);
    case INT:
        return read_int(option->name, value, field);
    case BOOL:
        truth = PyObject_IsTrue(value);
        *(bool *)field = truth > 0;
        return truth < 0 ? -1 : 0;
    case STRING:
        return (*(const char **)field = read_string(reading, value)) ? 0 : -1;
    case STRINGS:
        return read_strings(reading, value, field);
    case INTS:
        return read_ids(reading, value);
    case BYTES:
        return read_bytes(reading, value);
    case SECONDS:
        return read_seconds(reading, value, field);
    case SHARD:
        return read_shard(reading, value);
    case QUEUE:
        return read_queue(reading, value);
    case KEY:
        Py_XSETREF(reading->run->key, Py_NewRef(value));
        return 0;
    case CALLABLE:
        reading->run->note = value; /* called only while the dispatcher is opened */
        return 0;
    case JOURNAL:
        reading->journal = value; /* opened when everything else has been checked */
        return 0;
    }
    return 0;
}

static const struct option *find(PyObject *key)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (PyUnicode_Check(key) && PyUnicode_CompareWithASCIIString(key, table[i].name) == 0)
            return &table[i];
    PyErr_Format(PyExc_TypeError, "unknown option %R", key);
    return NULL;
}

/* Called with notes about devices while the dispatcher is opened. An exception, for example that of Ctrl-C, ends the
 * wait for devices. */
static int device_note(void *user, const char *message)
{
    struct run *r = user;
    PyEval_RestoreThread(r->state);
    int rc = PyErr_CheckSignals();
    if (rc == 0 && message && r->note) {
        PyObject *text = PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "replace");
        PyObject *done = text ? PyObject_CallOneArg(r->note, text) : NULL;
        rc = done ? 0 : -1;
        Py_XDECREF(done);
        Py_XDECREF(text);
    }
    r->state = PyEval_SaveThread();
    return rc < 0;
}

/* Releases the GIL, because finding devices can take a while, and waiting for free devices any time. */
static int open_dispatcher(struct run *r, const struct gd_options *o)
{
    r->state = PyEval_SaveThread();
    const int rc = gd_dispatcher_open(&r->d, o);
    PyEval_RestoreThread(r->state);
    r->state = NULL;
    r->note = NULL;
    if (rc < 0 && !PyErr_Occurred())
        run_error(r, rc);
    if (rc == 0 && PyErr_Occurred()) /* the exception of a note that was not about a wait */
        return -1;
    return rc < 0 ? -1 : 0;
}

/* True: no two workers share a GPU. Workers that may be added later count too, and have the highest indices. */
static bool one_per_gpu(const struct gd_worker_stats *workers, int n)
{
    for (int i = 1; i < n; i++)
        for (int k = 0; k < i; k++)
            if (workers[i].gpu_id == workers[k].gpu_id)
                return false;
    return true;
}

static int find_worker_ids(struct run *r)
{
    const int n = gd_dispatcher_worker_stats(r->d, NULL, sizeof(struct gd_worker_stats), 0);
    struct gd_worker_stats *workers = PyMem_Calloc((size_t)n, sizeof *workers);
    int *ids = PyMem_Calloc((size_t)n, sizeof *ids);
    const bool found = workers && ids;
    if (found)
        gd_dispatcher_worker_stats(r->d, workers, sizeof *workers, (size_t)n);
    if (found && one_per_gpu(workers, n)) {
        for (int i = 0; i < n; i++)
            ids[i] = (int)workers[i].gpu_id;
        r->worker_ids = ids;
    } else {
        PyMem_Free(ids);
    }
    PyMem_Free(workers);
    if (!found)
        PyErr_NoMemory();
    return found ? 0 : -1;
}

int options_open(struct run *r, PyObject *options)
{
    struct gd_options o = GD_OPTIONS_INIT;
    struct reading reading = { .run = r, .o = &o, .keep = PyList_New(0) };
    PyObject *key, *value;
    Py_ssize_t at = 0;
    int rc = reading.keep ? 0 : -1;
    while (rc == 0 && PyDict_Next(options, &at, &key, &value)) {
        const struct option *option = find(key);
        rc = option ? read_option(&reading, option, value) : -1;
    }
    o.user = r;
    o.source = r->is_queue ? NULL : source_next;
    call_options(&o);
    o.on_device_note = device_note;
    if (rc == 0 && reading.journal)
        rc = journal_open(r, reading.journal, &o);
    o.journal = r->journal;
    if (rc == 0)
        rc = open_dispatcher(r, &o);
    if (rc == 0)
        rc = find_worker_ids(r);
    Py_XDECREF(reading.keep);
    return rc;
}
