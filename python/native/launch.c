/* Devices and files, for gpu_dispatch.multigpu:
 *
 *   devices(spec), cuda_available(), validate_devices(ids), parse_devices(text)
 *   discover_files(...), estimate_workload(files), distribute_workload(files, n, how)
 *
 * Structs of the library become dicts. An unknown field is None. A file is a pair (path, size). The GIL is released
 * while a driver is queried or directories are read.
 */
#include <stdio.h>
#include <stdlib.h>

#include "binding.h"
#include "python/native/fields.h"

/* ---- devices ---- */

#define DEVICE(field, kind, known) FIELD(struct gd_device, field, kind, known)
static const struct field device_fields[] = {
    DEVICE(id, KIND_INT, 0),
    DEVICE(index, KIND_INT, 0),
    DEVICE(name, KIND_TEXT, 0),
    DEVICE(uuid, KIND_TEXT, 0),
    DEVICE(pci, KIND_TEXT, 0),
    DEVICE(memory_total, KIND_U64, GD_KNOWN_MEMORY),
    DEVICE(memory_free, KIND_U64, GD_KNOWN_MEMORY),
    DEVICE(utilization, KIND_UNSIGNED, GD_KNOWN_UTILIZATION),
    DEVICE(temperature, KIND_INT, GD_KNOWN_TEMPERATURE),
    DEVICE(power_mw, KIND_UNSIGNED, GD_KNOWN_POWER),
    DEVICE(numa_node, KIND_INT, GD_KNOWN_NUMA),
    DEVICE(cpus, KIND_TEXT, GD_KNOWN_CPUS),
    DEVICE(is_mig, KIND_BOOL, 0),
    DEVICE(mig_enabled, KIND_BOOL, GD_KNOWN_MIG),
    DEVICE(n_processes, KIND_UNSIGNED, GD_KNOWN_PROCESSES),
};

/* The devices for spec (NULL: all), opened without the GIL. */
static struct gd_devices *open_devices(const char *spec)
{
    struct gd_devices *list = NULL;
    int rc;
    Py_BEGIN_ALLOW_THREADS
    rc = gd_devices_open(&list, spec);
    Py_END_ALLOW_THREADS
    if (rc < 0)
        native_error(rc);
    return list;
}

static PyObject *device_dict(const struct gd_devices *list, size_t i)
{
    struct gd_device d = { .size = sizeof d };
    const int rc = gd_devices_get(list, i, &d);
    if (rc < 0)
        return native_error(rc);
    PyObject *dict = to_dict(device_fields, FIELD_COUNT(device_fields), &d, d.known);
    if (dict && dict_put(dict, "vendor", PyUnicode_FromString(gd_vendor_name((enum gd_vendor)d.vendor))) < 0)
        Py_CLEAR(dict);
    return dict;
}

PyDoc_STRVAR(devices_doc, "devices(spec=None, /)\n--\n\n"
                          "The devices of this machine that spec names, each as a dict; None: all devices.");
static PyObject *devices(PyObject *module, PyObject *args)
{
    const char *spec = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "|z:devices", &spec))
        return NULL;
    struct gd_devices *list = open_devices(spec);
    if (!list)
        return NULL;
    PyObject *out = PyList_New(0);
    for (size_t i = 0; out && i < gd_devices_count(list); i++)
        list_put(&out, device_dict(list, i));
    gd_devices_close(&list);
    return out;
}

PyDoc_STRVAR(cuda_available_doc, "cuda_available()\n--\n\nWhether there is an NVIDIA device that CUDA could use.");
static PyObject *cuda_available(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    struct gd_devices *list = open_devices(NULL);
    if (!list)
        return NULL;
    const bool is = gd_devices_cuda(list);
    gd_devices_close(&list);
    return PyBool_FromLong(is);
}

PyDoc_STRVAR(validate_devices_doc,
             "validate_devices(ids, /)\n--\n\n"
             "Raises an exception whose message says which devices are missing, and which exist.");
static PyObject *validate_devices(PyObject *module, PyObject *sequence)
{
    (void)module;
    size_t n;
    int *ids = read_ints(sequence, &n);
    if (!ids)
        return NULL;
    struct gd_devices *list = open_devices(NULL);
    PyObject *out = NULL;
    if (list) {
        const int rc = gd_devices_validate(list, ids, n);
        out = rc < 0 ? native_error(rc) : Py_NewRef(Py_None);
    }
    gd_devices_close(&list);
    PyMem_Free(ids);
    return out;
}

PyDoc_STRVAR(device_groups_doc,
             "device_groups(spec, /)\n--\n\n"
             "The numbers of the devices that spec names, as a list for each group (\"0+1,2\": [[0, 1], [2]]).");
static PyObject *device_groups(PyObject *module, PyObject *args)
{
    const char *spec;
    (void)module;
    if (!PyArg_ParseTuple(args, "s:device_groups", &spec))
        return NULL;
    struct gd_devices *list = open_devices(spec);
    if (!list)
        return NULL;
    PyObject *out = PyList_New(0), *group = NULL; /* group is borrowed from out */
    for (size_t i = 0; out && i < gd_devices_count(list); i++) {
        struct gd_device d = { .size = sizeof d };
        gd_devices_get(list, i, &d);
        if (gd_devices_group(list, i) == (int)i && !list_put(&out, group = PyList_New(0)))
            break;
        PyObject *number = PyLong_FromLong(d.id);
        if (!number || PyList_Append(group, number) < 0)
            Py_CLEAR(out);
        Py_XDECREF(number);
    }
    gd_devices_close(&list);
    return out;
}

/* *user: the list, or NULL with an exception. */
static bool put_number(void *user, int number)
{
    PyObject **out = user;
    return list_put(out, PyLong_FromLong(number));
}

PyDoc_STRVAR(parse_devices_doc,
             "parse_devices(text, /)\n--\n\n"
             "The numbers in a list such as \"0,2-3\", even if such devices do not exist. None if the "
             "list has anything but numbers.");
static PyObject *parse_devices(PyObject *module, PyObject *args)
{
    const char *text;
    (void)module;
    if (!PyArg_ParseTuple(args, "s:parse_devices", &text))
        return NULL;
    PyObject *out = PyList_New(0);
    if (!out)
        return NULL;
    const int rc = gd__spec_numbers(text, put_number, &out);
    if (rc > 0 || !out)
        return out;
    Py_DECREF(out);
    return rc < 0 ? native_error(rc) : Py_NewRef(Py_None);
}

/* ---- files ---- */

/* The patterns as an array for gd_discover. The strings are borrowed from the tuple; free the array with PyMem_Free().
 */
static const char **read_patterns(PyObject *tuple)
{
    const Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    const char **out = PyMem_Calloc((size_t)n + 1, sizeof *out);
    if (!out)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; out && i < n; i++) {
        out[i] = PyBytes_Check(PyTuple_GET_ITEM(tuple, i)) ? PyBytes_AS_STRING(PyTuple_GET_ITEM(tuple, i)) : NULL;
        if (out[i])
            continue;
        PyErr_SetString(PyExc_TypeError, "patterns must be a tuple of bytes");
        PyMem_Free(out);
        out = NULL;
    }
    return out;
}

/* Adds a problem as a line to a list. If that fails, the search goes on. */
static void keep_problem(void *user, const char *path, const char *why)
{
    char *line;
    if (asprintf(&line, "%s: %s", path, why) < 0)
        return;
    (void)gd_files_add(user, line, 0);
    free(line);
}

static PyObject *file_tuple(const struct gd_files *files, size_t i)
{
    PyObject *path = PyUnicode_DecodeFSDefault(gd_files_path(files, i));
    return path ? Py_BuildValue("(NK)", path, (unsigned long long)gd_files_size(files, i)) : NULL;
}

/* (files, problems) */
static PyObject *found(const struct gd_files *files, const struct gd_files *problems)
{
    PyObject *list = PyList_New(0), *words = PyList_New(0);
    for (size_t i = 0; list && words && i < gd_files_count(files); i++)
        list_put(&list, file_tuple(files, i));
    for (size_t i = 0; list && words && i < gd_files_count(problems); i++)
        list_put(&words, PyUnicode_DecodeFSDefault(gd_files_path(problems, i)));
    if (list && words)
        return Py_BuildValue("(NN)", list, words);
    Py_XDECREF(list);
    Py_XDECREF(words);
    return NULL;
}

/* Finds and sorts; needs no GIL. */
static int search(struct gd_files **files, struct gd_files **problems, const char *dir, struct gd_discover *what,
                  enum gd_file_order order)
{
    int rc = gd_files_open(files);
    if (rc == 0)
        rc = gd_files_open(problems);
    if (rc < 0)
        return rc;
    what->user = *problems;
    what->on_problem = keep_problem;
    rc = gd_files_discover(*files, dir, what);
    return rc < 0 ? rc : gd_files_sort(*files, order);
}

PyDoc_STRVAR(discover_files_doc,
             "discover_files(dir, patterns, recursive, follow, hidden, order, /)\n--\n\n"
             "([(path, size), ...], problems). dir and patterns are bytes; order: 0 largest first, 1 name, 2 none.");
static PyObject *discover_files(PyObject *module, PyObject *args)
{
    struct gd_discover what = GD_DISCOVER_INIT;
    struct gd_files *files = NULL, *problems = NULL;
    PyObject *patterns;
    const char *dir;
    int recursive, follow, hidden, order, rc;
    (void)module;
    if (!PyArg_ParseTuple(args, "yO!pppi:discover_files", &dir, &PyTuple_Type, &patterns, &recursive, &follow, &hidden,
                          &order))
        return NULL;
    const char **words = read_patterns(patterns);
    if (!words)
        return NULL;
    what.patterns = words;
    what.recursive = recursive;
    what.follow = follow;
    what.hidden = hidden;
    Py_BEGIN_ALLOW_THREADS
    rc = search(&files, &problems, dir, &what, (enum gd_file_order)order);
    Py_END_ALLOW_THREADS
    PyObject *out = rc < 0 ? native_error(rc) : found(files, problems);
    gd_files_close(&files);
    gd_files_close(&problems);
    PyMem_Free(words);
    return out;
}

static int add_file(struct gd_files *files, PyObject *item)
{
    PyObject *path = NULL;
    unsigned long long size;
    if (!PyTuple_Check(item)) {
        PyErr_SetString(PyExc_TypeError, "files must be tuples (path, size)");
        return -1;
    }
    if (!PyArg_ParseTuple(item, "O&K:file", PyUnicode_FSConverter, &path, &size))
        return -1;
    const int rc = gd_files_add(files, PyBytes_AS_STRING(path), size);
    Py_DECREF(path);
    if (rc < 0)
        native_error(rc);
    return rc < 0 ? -1 : 0;
}

/* A Python list as a list of the library; release with gd_files_close(). */
static struct gd_files *read_files(PyObject *sequence)
{
    struct gd_files *files = NULL;
    PyObject *fast = PySequence_Fast(sequence, "files must be a list");
    if (!fast)
        return NULL;
    const int rc = gd_files_open(&files);
    if (rc < 0)
        native_error(rc);
    for (Py_ssize_t i = 0; files && i < PySequence_Fast_GET_SIZE(fast); i++)
        if (add_file(files, PySequence_Fast_GET_ITEM(fast, i)) < 0)
            gd_files_close(&files);
    Py_DECREF(fast);
    return files;
}

static const struct field workload_fields[] = {
    { "file_count", offsetof(struct gd_workload, count), KIND_U64, 0 },
    { "total_size", offsetof(struct gd_workload, total_bytes), KIND_U64, 0 },
    { "largest_size", offsetof(struct gd_workload, largest_bytes), KIND_U64, 0 },
    { "smallest_size", offsetof(struct gd_workload, smallest_bytes), KIND_U64, 0 },
    { "median_size", offsetof(struct gd_workload, median_bytes), KIND_U64, 0 },
    { "mean_size", offsetof(struct gd_workload, mean_bytes), KIND_DOUBLE, 0 },
    { "size_deviation", offsetof(struct gd_workload, deviation_bytes), KIND_DOUBLE, 0 },
};

PyDoc_STRVAR(estimate_workload_doc,
             "estimate_workload(files, /)\n--\n\nThe number and the sizes of the files, as a dict.");
static PyObject *estimate_workload(PyObject *module, PyObject *sequence)
{
    (void)module;
    struct gd_files *files = read_files(sequence);
    if (!files)
        return NULL;
    struct gd_workload w = { .size = sizeof w };
    const int rc = gd_estimate_workload(files, &w);
    gd_files_close(&files);
    return rc < 0 ? native_error(rc) : to_dict(workload_fields, FIELD_COUNT(workload_fields), &w, 0);
}

/* n lists of indexes into the list of files. */
static PyObject *shares(const size_t *gpu_of, size_t count, Py_ssize_t n)
{
    PyObject *out = PyList_New(0);
    for (Py_ssize_t i = 0; out && i < n; i++)
        list_put(&out, PyList_New(0));
    for (size_t i = 0; out && i < count; i++) {
        PyObject *place = PyLong_FromSize_t(i);
        if (!place || PyList_Append(PyList_GET_ITEM(out, (Py_ssize_t)gpu_of[i]), place) < 0)
            Py_CLEAR(out);
        Py_XDECREF(place);
    }
    return out;
}

PyDoc_STRVAR(distribute_workload_doc, "distribute_workload(files, n, how, /)\n--\n\n"
                                      "n lists of indexes into files. how: 0 in turn, 1 chunks, 2 balanced by size.");
static PyObject *distribute_workload(PyObject *module, PyObject *args)
{
    PyObject *sequence, *out = NULL;
    Py_ssize_t n;
    int how;
    (void)module;
    if (!PyArg_ParseTuple(args, "Oni:distribute_workload", &sequence, &n, &how))
        return NULL;
    if (n < 1)
        return PyErr_Format(PyExc_ValueError, "cannot distribute files to %zd devices: there must be at least one", n);
    struct gd_files *files = read_files(sequence);
    if (!files)
        return NULL;
    const size_t count = gd_files_count(files);
    size_t *gpu_of = PyMem_Calloc(count + 1, sizeof *gpu_of);
    if (gpu_of) {
        const int rc = gd_distribute_workload(files, (size_t)n, (enum gd_distribution)how, gpu_of);
        out = rc < 0 ? native_error(rc) : shares(gpu_of, count, n);
    } else {
        PyErr_NoMemory();
    }
    PyMem_Free(gpu_of);
    gd_files_close(&files);
    return out;
}

static PyMethodDef functions[] = {
    { "devices", devices, METH_VARARGS, devices_doc },
    { "device_groups", device_groups, METH_VARARGS, device_groups_doc },
    { "cuda_available", cuda_available, METH_NOARGS, cuda_available_doc },
    { "validate_devices", validate_devices, METH_O, validate_devices_doc },
    { "parse_devices", parse_devices, METH_VARARGS, parse_devices_doc },
    { "discover_files", discover_files, METH_VARARGS, discover_files_doc },
    { "estimate_workload", estimate_workload, METH_O, estimate_workload_doc },
    { "distribute_workload", distribute_workload, METH_VARARGS, distribute_workload_doc },
    { NULL, NULL, 0, NULL },
};

int launch_init(PyObject *module)
{
    const int rc = balancer_init(module);
    return rc < 0 ? rc : PyModule_AddFunctions(module, functions);
}
