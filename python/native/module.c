/* The extension module gpu_dispatch._native.
 *
 * Its parts use static variables, so it is a single-phase module: it is created once per process, later imports get the
 * same object, and subinterpreters that need their own copy refuse it.
 *
 * The whole library is linked into it and not exported, so a program may load another libgpu_dispatch as well.
 */
#include "python/native/native.h"

static struct PyModuleDef native_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "gpu_dispatch._native",
    .m_doc = "The C side of gpu_dispatch. Use the classes of the package instead: this may change.",
    .m_size = -1,
};

static int (*const parts[])(PyObject *module) = { value_init,  view_init,    run_init,     journal_init, worker_init,
                                                  launch_init, program_init, observe_init, shard_init,   queue_init };

/* Wrong arguments are a ValueError. Codes that are not in this table are a RuntimeError. */
static PyObject *exception_of(int code)
{
    switch (code) {
    case GD_E_NO_MEMORY:
        return PyExc_MemoryError;
    case GD_E_INVALID:
    case GD_E_NO_DEVICES:
    case GD_E_TOO_LARGE:
        return PyExc_ValueError;
    case GD_E_SYSTEM:
        return PyExc_OSError;
    default:
        return PyExc_RuntimeError;
    }
}

PyObject *native_error(int code)
{
    PyErr_SetString(exception_of(code), gd_error_text());
    return NULL;
}

PyMODINIT_FUNC PyInit__native(void);
PyMODINIT_FUNC PyInit__native(void)
{
    PyObject *module = PyModule_Create(&native_module);
    if (!module || PyModule_AddStringConstant(module, "version", GD_VERSION) < 0)
        goto failed;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i](module) < 0)
            goto failed;
    return module;
failed:
    Py_XDECREF(module);
    return NULL;
}
