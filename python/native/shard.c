/* Shards, for gpu_dispatch._journal: find_shard(text), shard_owns(index, count, key). */
#include "python/native/run/run.h"

static PyObject *find(PyObject *module, PyObject *args)
{
    struct gd_shard shard;
    char origin[GD_SHARD_ORIGIN];
    const char *text;
    (void)module;
    if (!PyArg_ParseTuple(args, "s:find_shard", &text))
        return NULL;
    const int rc = gd_shard_find(&shard, text, origin);
    return rc < 0 ? native_error(rc) : Py_BuildValue("IIs", shard.index, shard.count, origin);
}

static PyObject *owns(PyObject *module, PyObject *args)
{
    struct gd_shard shard;
    PyObject *key;
    (void)module;
    if (!PyArg_ParseTuple(args, "IIO:shard_owns", &shard.index, &shard.count, &key))
        return NULL;
    PyObject *bytes = key_encode(key);
    if (!bytes)
        return NULL;
    const bool is_ours = gd_shard_owns(shard, PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
    Py_DECREF(bytes);
    return PyBool_FromLong(is_ours);
}

static PyMethodDef functions[] = {
    { "find_shard", find, METH_VARARGS, "find_shard(text) -> (index, count, origin)" },
    { "shard_owns", owns, METH_VARARGS, "shard_owns(index, count, key) -> bool" },
    { NULL, NULL, 0, NULL },
};

int shard_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
