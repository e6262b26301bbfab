/* Python values as bytes, and back.
 *
 * The first byte of a value is its tag: the version of this layout in the upper four bits, the kind in the lower four.
 * The length is stored elsewhere. Both sides are on the same machine, so numbers have its byte order.
 *
 *     NONE, FALSE, TRUE      tag
 *     INT                    tag, int64_t               (an int beyond that is a PICKLE)
 *     FLOAT                  tag, double
 *     STR                    tag, UTF-8                 (with lone surrogates: a PICKLE)
 *     BYTES, BYTEARRAY       tag, the bytes
 *     PICKLE                 tag, a pickle without buffers
 *     BUFFERS                struct header, n_buffers sizes (uint64_t each), the pickle, then each buffer, aligned to
 *                            64 bytes from the beginning of the value; the value ends with the last buffer
 *
 * Only exact types have their own kind: an IntEnum or a numpy.float64 must come back with its type. Buffers come back
 * read-only, whatever their size, so that code that works with small arrays also works with large ones.
 */
#include "python/native/native.h"

#include <string.h>

#include "binding.h"
#include "python/native/values/kinds.h"

enum {
    SCALAR_SIZE = 1 + 8,
    SMALL_MOST = 24,
    ALIGNMENT = 64,
    GIL_LEAST = 1 << 20, /* larger copies release the GIL */
    PICKLE_PROTOCOL = 5,
};

struct header {
    unsigned char tag;
    unsigned char zero[7];
    uint64_t pickle_size;
    uint64_t n_buffers;
};

/* Set once by value_init() and never released. */
static PyObject *plain_dumps, *plain_loads, *pickling_error;
static PyObject *dumps_names, *loads_names; /* names of keyword arguments */
static PyObject *protocol;

static size_t aligned(size_t at)
{
    return (at + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

static void copy(void *to, const void *from, size_t size)
{
    if (size < GIL_LEAST) {
        memcpy(to, from, size);
        return;
    }
    Py_BEGIN_ALLOW_THREADS
    memcpy(to, from, size);
    Py_END_ALLOW_THREADS
}

/* The same, into memory that another process will read. */
static void copy_out(void *to, const void *from, size_t size)
{
    if (size < GIL_LEAST) {
        memcpy(to, from, size);
        return;
    }
    Py_BEGIN_ALLOW_THREADS
    gd__copy_out(to, from, size);
    Py_END_ALLOW_THREADS
}

/* ---- small scalars ---- */

static size_t small_scalar(unsigned char *room, enum kind kind, const void *eight_bytes)
{
    room[0] = (unsigned char)TAG(kind);
    memcpy(room + 1, eight_bytes, 8);
    return SCALAR_SIZE;
}

static size_t small_int(PyObject *object, unsigned char *room)
{
    int overflow;
    int64_t number = PyLong_AsLongLongAndOverflow(object, &overflow);
    return overflow ? 0 : small_scalar(room, KIND_INT, &number);
}

static size_t small_float(PyObject *object, unsigned char *room)
{
    double number = PyFloat_AS_DOUBLE(object);
    return small_scalar(room, KIND_FLOAT, &number);
}

static size_t small_run(unsigned char *room, enum kind kind, const void *data, Py_ssize_t size)
{
    if (size > SMALL_MOST - 1)
        return 0;
    room[0] = (unsigned char)TAG(kind);
    memcpy(room + 1, data, (size_t)size);
    return (size_t)size + 1;
}

static size_t small_str(PyObject *object, unsigned char *room)
{
    if (!PyUnicode_IS_COMPACT_ASCII(object))
        return 0;
    return small_run(room, KIND_STR, PyUnicode_1BYTE_DATA(object), PyUnicode_GET_LENGTH(object));
}

size_t value_small(PyObject *object, unsigned char room[24])
{
    PyTypeObject *type = Py_TYPE(object);
    if (type == &PyLong_Type)
        return small_int(object, room);
    if (type == &PyUnicode_Type)
        return small_str(object, room);
    if (type == &PyFloat_Type)
        return small_float(object, room);
    if (type == &PyBytes_Type)
        return small_run(room, KIND_BYTES, PyBytes_AS_STRING(object), PyBytes_GET_SIZE(object));
    if (object == Py_None || type == &PyBool_Type) {
        enum kind kind = object == Py_None ? KIND_NONE : object == Py_True ? KIND_TRUE : KIND_FALSE;
        room[0] = (unsigned char)TAG(kind);
        return 1;
    }
    return 0;
}

/* ---- pickles ---- */

/* The pickler's buffer_callback: true keeps a buffer inside the pickle, false stores it separately. */
static PyObject *collect(PyObject *list, PyObject *pickle_buffer)
{
    const Py_buffer *buffer = PyPickleBuffer_GetBuffer(pickle_buffer);
    if (!buffer)
        return NULL;
    if (!PyBuffer_IsContiguous(buffer, 'A'))
        Py_RETURN_TRUE;
    if (PyList_Append(list, pickle_buffer) < 0)
        return NULL;
    Py_RETURN_FALSE;
}

static PyMethodDef collect_definition = { "collect", collect, METH_O, NULL };

/* A pickle of object as bytes; *list gets its buffers. */
static PyObject *dump(PyObject *dumps, PyObject *object, PyObject **list)
{
    PyObject *pickle = NULL, *callback = NULL;
    *list = PyList_New(0);
    if (*list)
        callback = PyCFunction_New(&collect_definition, *list);
    if (callback) {
        PyObject *arguments[] = { object, protocol, callback };
        pickle = PyObject_Vectorcall(dumps, arguments, 1, dumps_names);
        Py_DECREF(callback);
    }
    if (pickle && !PyBytes_Check(pickle)) {
        PyErr_Format(PyExc_TypeError, "dumps() returned %s, not bytes", Py_TYPE(pickle)->tp_name);
        Py_CLEAR(pickle);
    }
    if (!pickle)
        Py_CLEAR(*list);
    return pickle;
}

/* cloudpickle.dumps (new reference), or NULL without an exception if it is not installed. It is looked up at each use,
 * because a notebook may install it meanwhile. It is used only after pickle failed, and the lookup is quick after the
 * first import. */
static PyObject *cloud_dumps(void)
{
    PyObject *module = PyImport_ImportModule("cloudpickle");
    PyObject *dumps = module ? PyObject_GetAttrString(module, "dumps") : NULL;
    Py_XDECREF(module);
    if (!dumps && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear();
    return dumps;
}

/* Whether the exception means that pickle cannot handle the object at all, as opposed to another error. */
static bool may_be_cloudpickled(void)
{
    return PyErr_ExceptionMatches(pickling_error) || PyErr_ExceptionMatches(PyExc_AttributeError) ||
           PyErr_ExceptionMatches(PyExc_TypeError);
}

/* Makes pickle's exception the context of cloudpickle's, which is raised. cloudpickle's exception shows the real cause,
 * because pickle may only have failed at a lambda. */
static void chain(PyObject *first)
{
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    if (traceback)
        PyException_SetTraceback(error, traceback);
    PyException_SetContext(error, Py_NewRef(first));
    PyErr_Restore(type, error, traceback);
}

static PyObject *dump_somehow(PyObject *object, PyObject **list)
{
    PyObject *type, *error, *traceback;
    PyObject *pickle = dump(plain_dumps, object, list);
    if (pickle || !may_be_cloudpickled())
        return pickle;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    PyObject *dumps = cloud_dumps();
    if (dumps) {
        pickle = dump(dumps, object, list);
        Py_DECREF(dumps);
    }
    if (pickle || PyErr_Occurred()) {
        if (!pickle)
            chain(error);
        Py_XDECREF(type);
        Py_XDECREF(error);
        Py_XDECREF(traceback);
        return pickle;
    }
    PyErr_Restore(type, error, traceback);
    return NULL;
}

/* ---- plans ---- */

static int take_buffer(struct value_plan *plan, PyObject *object)
{
    if (PyObject_GetBuffer(object, &plan->buffers[plan->n_buffers], PyBUF_ANY_CONTIGUOUS) < 0)
        return -1;
    plan->n_buffers++;
    return 0;
}

static int room_for_buffers(struct value_plan *plan, Py_ssize_t n)
{
    plan->buffers = PyMem_Calloc((size_t)n, sizeof *plan->buffers);
    if (!plan->buffers)
        PyErr_NoMemory();
    return plan->buffers ? 0 : -1;
}

static int take_buffers(struct value_plan *plan, PyObject *list)
{
    Py_ssize_t n = PyList_GET_SIZE(list);
    if (room_for_buffers(plan, n) < 0)
        return -1;
    plan->size = sizeof(struct header) + (size_t)n * sizeof(uint64_t) + (size_t)PyBytes_GET_SIZE(plan->pickle);
    for (Py_ssize_t i = 0; i < n; i++) {
        if (take_buffer(plan, PyList_GET_ITEM(list, i)) < 0)
            return -1;
        plan->size = aligned(plan->size) + (size_t)plan->buffers[i].len;
    }
    return 0;
}

static int plan_pickle(struct value_plan *plan, PyObject *object)
{
    PyObject *list;
    int code = 0;
    plan->pickle = dump_somehow(object, &list);
    if (!plan->pickle)
        return -1;
    plan->tag = TAG(KIND_PICKLE);
    plan->size = 1 + (size_t)PyBytes_GET_SIZE(plan->pickle);
    if (PyList_GET_SIZE(list) > 0) {
        plan->tag = TAG(KIND_BUFFERS);
        code = take_buffers(plan, list);
    }
    Py_DECREF(list);
    return code;
}

/* For text that is not ASCII the plan makes its own UTF-8 copy. PyUnicode_AsUTF8() would store a copy in the object. */
static int plan_str(struct value_plan *plan, PyObject *object)
{
    plan->tag = TAG(KIND_STR);
    if (PyUnicode_IS_COMPACT_ASCII(object)) {
        plan->size = 1 + (size_t)PyUnicode_GET_LENGTH(object);
        return 0;
    }
    plan->pickle = PyUnicode_AsUTF8String(object);
    if (plan->pickle) {
        plan->size = 1 + (size_t)PyBytes_GET_SIZE(plan->pickle);
        return 0;
    }
    if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
        return -1;
    PyErr_Clear();
    return plan_pickle(plan, object);
}

/* While the buffer is exported, other threads cannot resize the bytearray. */
static int plan_bytearray(struct value_plan *plan, PyObject *object)
{
    if (room_for_buffers(plan, 1) < 0 || take_buffer(plan, object) < 0)
        return -1;
    plan->tag = TAG(KIND_BYTEARRAY);
    plan->size = 1 + (size_t)plan->buffers[0].len;
    return 0;
}

static int plan_large(struct value_plan *plan, PyObject *object)
{
    if (PyUnicode_CheckExact(object))
        return plan_str(plan, object);
    if (PyByteArray_CheckExact(object))
        return plan_bytearray(plan, object);
    if (!PyBytes_CheckExact(object))
        return plan_pickle(plan, object);
    plan->tag = TAG(KIND_BYTES);
    plan->size = 1 + (size_t)PyBytes_GET_SIZE(object);
    return 0;
}

int value_plan(struct value_plan *plan, PyObject *object)
{
    *plan = (struct value_plan){ .object = Py_NewRef(object) };
    plan->size = value_small(object, plan->small);
    if (plan->size > 0) {
        plan->tag = plan->small[0];
        return 0;
    }
    int code = plan_large(plan, object);
    if (code < 0)
        value_plan_clear(plan);
    return code;
}

void value_plan_clear(struct value_plan *plan)
{
    for (Py_ssize_t i = 0; i < plan->n_buffers; i++)
        PyBuffer_Release(&plan->buffers[i]);
    PyMem_Free(plan->buffers);
    plan->buffers = NULL;
    plan->n_buffers = 0;
    Py_CLEAR(plan->pickle);
    Py_CLEAR(plan->object);
}

/* ---- writing ---- */

/* Gaps are zeroed, so that old contents of the memory are not exposed. */
static void write_buffers(const struct value_plan *plan, unsigned char *room)
{
    struct header header = { .tag = (unsigned char)plan->tag,
                             .pickle_size = (uint64_t)PyBytes_GET_SIZE(plan->pickle),
                             .n_buffers = (uint64_t)plan->n_buffers };
    memcpy(room, &header, sizeof header);
    size_t at = sizeof header;
    for (Py_ssize_t i = 0; i < plan->n_buffers; i++, at += sizeof(uint64_t)) {
        uint64_t size = (uint64_t)plan->buffers[i].len;
        memcpy(room + at, &size, sizeof size);
    }
    copy_out(room + at, PyBytes_AS_STRING(plan->pickle), header.pickle_size);
    at += header.pickle_size;
    for (Py_ssize_t i = 0; i < plan->n_buffers; i++) {
        size_t start = aligned(at), size = (size_t)plan->buffers[i].len;
        memset(room + at, 0, start - at);
        if (size > 0)
            copy_out(room + start, plan->buffers[i].buf, size);
        at = start + size;
    }
}

static const void *run_of(const struct value_plan *plan)
{
    if (plan->pickle)
        return PyBytes_AS_STRING(plan->pickle);
    if (plan->n_buffers > 0)
        return plan->buffers[0].buf;
    if (plan->tag == TAG(KIND_STR))
        return PyUnicode_1BYTE_DATA(plan->object);
    return PyBytes_AS_STRING(plan->object);
}

void value_write(const struct value_plan *plan, void *room)
{
    unsigned char *bytes = room;
    if (plan->small[0] != 0) {
        memcpy(bytes, plan->small, plan->size);
    } else if (plan->tag == TAG(KIND_BUFFERS)) {
        write_buffers(plan, bytes);
    } else {
        bytes[0] = (unsigned char)plan->tag;
        if (plan->size > 1)
            copy_out(bytes + 1, run_of(plan), plan->size - 1);
    }
}

/* ---- reading ---- */

static PyObject *damaged(const char *what)
{
    PyErr_Format(PyExc_ValueError, "damaged value: %s; both sides must use the same gpu_dispatch", what);
    return NULL;
}

static PyObject *read_scalar(const unsigned char *data, size_t size)
{
    int64_t number;
    double real;
    if (size != SCALAR_SIZE)
        return damaged("a number of the wrong size");
    if (data[0] == TAG(KIND_INT)) {
        memcpy(&number, data + 1, sizeof number);
        return PyLong_FromLongLong(number);
    }
    memcpy(&real, data + 1, sizeof real);
    return PyFloat_FromDouble(real);
}

static PyObject *read_constant(PyObject *constant, size_t size)
{
    return size == 1 ? Py_NewRef(constant) : damaged("a constant followed by something");
}

static PyObject *read_bytes(const void *data, size_t size)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (bytes)
        copy(PyBytes_AS_STRING(bytes), data, size);
    return bytes;
}

static PyObject *read_bytearray(const void *data, size_t size)
{
    PyObject *bytes = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (bytes)
        copy(PyByteArray_AS_STRING(bytes), data, size);
    return bytes;
}

/* The pickle is read in place; the objects made from it do not refer to it. */
static PyObject *load(const unsigned char *data, size_t size, PyObject *buffers)
{
    union {
        const unsigned char *data;
        char *for_python; /* PyBUF_READ makes it read-only */
    } pickle = { data };
    PyObject *memory = PyMemoryView_FromMemory(pickle.for_python, (Py_ssize_t)size, PyBUF_READ);
    if (!memory)
        return NULL;
    PyObject *arguments[] = { memory, buffers };
    PyObject *object = PyObject_Vectorcall(plain_loads, arguments, 1, buffers ? loads_names : NULL);
    Py_DECREF(memory);
    return object;
}

static PyObject *read_buffer(const unsigned char *data, size_t at, size_t size, const struct value_place *place)
{
    if (size >= VIEW_LEAST && place && place->fd >= 0)
        return view_open(place->fd, place->offset + at, size);
    return read_bytes(data + at, size);
}

/* Fills list with the buffers that begin after `at`. The last one must end where the value ends. */
static int read_buffers(PyObject *list, const unsigned char *data, size_t at, size_t size,
                        const struct value_place *place)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        uint64_t length;
        memcpy(&length, data + sizeof(struct header) + (size_t)i * sizeof length, sizeof length);
        at = aligned(at);
        if (at > size || length > size - at) {
            damaged("a buffer reaches beyond its end");
            return -1;
        }
        PyObject *buffer = read_buffer(data, at, (size_t)length, place);
        if (!buffer)
            return -1;
        PyList_SET_ITEM(list, i, buffer);
        at += (size_t)length;
    }
    if (at != size)
        damaged("something follows its last buffer");
    return at == size ? 0 : -1;
}

static PyObject *read_with_buffers(const unsigned char *data, size_t size, const struct value_place *place)
{
    struct header header;
    if (size < sizeof header)
        return damaged("its header is cut off");
    memcpy(&header, data, sizeof header);
    if (header.n_buffers > (size - sizeof header) / sizeof(uint64_t))
        return damaged("more buffers than there is room for");
    size_t at = sizeof header + (size_t)header.n_buffers * sizeof(uint64_t);
    if (header.pickle_size > size - at)
        return damaged("its pickle reaches beyond its end");
    PyObject *object = NULL, *list = PyList_New((Py_ssize_t)header.n_buffers);
    if (!list)
        return NULL;
    if (read_buffers(list, data, at + (size_t)header.pickle_size, size, place) == 0)
        object = load(data + at, (size_t)header.pickle_size, list);
    Py_DECREF(list);
    return object;
}

static PyObject *unknown(int tag)
{
    return damaged((tag & VERSION_MASK) == VERSION ? "unknown kind" : "another version of the layout");
}

PyObject *value_read(const void *bytes, size_t size, const struct value_place *place)
{
    const unsigned char *data = bytes;
    if (size == 0)
        return damaged("it is empty");
    switch (data[0]) {
    case TAG(KIND_NONE):
        return read_constant(Py_None, size);
    case TAG(KIND_FALSE):
        return read_constant(Py_False, size);
    case TAG(KIND_TRUE):
        return read_constant(Py_True, size);
    case TAG(KIND_INT):
    case TAG(KIND_FLOAT):
        return read_scalar(data, size);
    case TAG(KIND_STR):
        return PyUnicode_DecodeUTF8((const char *)data + 1, (Py_ssize_t)(size - 1), NULL);
    case TAG(KIND_BYTES):
        return read_bytes(data + 1, size - 1);
    case TAG(KIND_BYTEARRAY):
        return read_bytearray(data + 1, size - 1);
    case TAG(KIND_PICKLE):
        return load(data + 1, size - 1, NULL);
    case TAG(KIND_BUFFERS):
        return read_with_buffers(data, size, place);
    default:
        return unknown(data[0]);
    }
}

/* ---- texts without a tag ---- */

enum { FIRST_TEXT = 0x20 /* tags are below, texts begin with this or above */ };

bool value_has_tag(const void *bytes, size_t size)
{
    const unsigned char *data = bytes;
    return size > 0 && (data[0] & VERSION_MASK) == VERSION && data[0] <= TAG(KIND_BUFFERS);
}

PyObject *value_plain_text(PyObject *item)
{
    if (!PyUnicode_CheckExact(item) || PyUnicode_GET_LENGTH(item) == 0 || PyUnicode_READ_CHAR(item, 0) < FIRST_TEXT)
        return NULL;
    PyObject *text = PyUnicode_AsEncodedString(item, "utf-8", "surrogateescape"); /* as names of files have them */
    if (!text && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
        PyErr_Clear();
    return text;
}

PyObject *value_read_item(const void *bytes, size_t size, const struct value_place *place)
{
    const unsigned char *data = bytes;
    if (size > 0 && data[0] < FIRST_TEXT)
        return value_read(bytes, size, place);
    return PyUnicode_DecodeUTF8(size > 0 ? bytes : "", (Py_ssize_t)size, "surrogateescape");
}

int value_init(PyObject *module)
{
    (void)module;
    if (protocol)
        return 0;
    PyObject *pickle = PyImport_ImportModule("pickle");
    if (!pickle)
        return -1;
    plain_dumps = PyObject_GetAttrString(pickle, "dumps");
    plain_loads = PyObject_GetAttrString(pickle, "loads");
    pickling_error = PyObject_GetAttrString(pickle, "PicklingError");
    Py_DECREF(pickle);
    dumps_names = Py_BuildValue("(ss)", "protocol", "buffer_callback");
    loads_names = Py_BuildValue("(s)", "buffers");
    protocol = PyLong_FromLong(PICKLE_PROTOCOL);
    return plain_dumps && plain_loads && pickling_error && dumps_names && loads_names && protocol ? 0 : -1;
}
