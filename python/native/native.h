/* The extension module gpu_dispatch._native: what its files share.
 *
 *   module.c   the module, its types and functions
 *   value.c    Python values as bytes, and back
 *   show.c     these bytes as readable text
 *   view.c     shared memory that Python uses without a copy and may keep
 *   run.c      the dispatching side: a Run is one gd_dispatcher
 *   worker.c   the worker's side: gd_worker_main() that calls Python methods
 *   launch.c   devices and files, for gpu_dispatch.multigpu
 *   balancer.c statistics of the launcher, for gpu_dispatch.multigpu
 *   fields.c   structs of the library as dicts
 *   program.c  runs another program and waits for its end: the command, for transcription
 *
 * Every function here is called with the GIL held unless its comment says otherwise. Like Python's own functions, they
 * return NULL or -1 with an exception set.
 */
#ifndef GD_PYTHON_NATIVE_H
#define GD_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <gpu_dispatch/gpu_dispatch.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- values (value.c) ---- */

/* None, bool, int, float, str, bytes and bytearray have their own encoding. Everything else is a pickle (protocol 5),
 * followed by its out-of-band buffers, each aligned to 64 bytes. The layout is at the top of value.c.
 *
 * Encoding takes two steps, so that large values can be written directly to their destination:
 *     value_plan(&plan, object)    measures the object, pickles it if necessary, keeps what it needs alive
 *     value_write(&plan, room)     writes plan.size bytes; releases the GIL for large copies
 *     value_plan_clear(&plan)
 */
struct value_plan {
    size_t size;
    int tag;
    PyObject *object;   /* owned */
    PyObject *pickle;   /* owned bytes, or NULL */
    Py_buffer *buffers; /* n_buffers, owned */
    Py_ssize_t n_buffers;
    unsigned char small[32];
};
int value_plan(struct value_plan *plan, PyObject *object);
void value_write(const struct value_plan *plan, void *room);
void value_plan_clear(struct value_plan *plan);

/* Encodes a small scalar in one step. Returns its size (<= 24), or 0 without an exception if it is not a small scalar.
 */
size_t value_small(PyObject *object, unsigned char room[24]);

/* The position of bytes in a file that can be mapped. fd -1: there is no such file, so buffers are copied. */
struct value_place {
    int fd;
    uint64_t offset; /* offset of the first byte of the value */
};
/* Decodes a value. Its large buffers become views of `place`, in the thread's list of views (see views_settle). */
PyObject *value_read(const void *data, size_t size, const struct value_place *place);

/* Tasks of a queue may be texts without a tag: see python/native/queue/queue.h. value_plain_text() returns such a text for
 * a str, as bytes; NULL without an exception: the item needs a tag. value_read_item() reads both. */
PyObject *value_plain_text(PyObject *item);
PyObject *value_read_item(const void *data, size_t size, const struct value_place *place);
bool value_has_tag(const void *data, size_t size);

/* show.c: writes the value as text of at most room bytes, without NUL. Returns its length. Does not need the GIL. */
size_t value_brief(const void *data, size_t size, char *out, size_t room);
/* show.c: the repr() of the value; a long string is shortened. NULL without an exception: it is a pickle. */
PyObject *value_repr(const void *data, size_t size);
bool value_is_pickle(const void *data, size_t size);

int value_init(PyObject *module); /* imports pickle; cloudpickle is imported when it is first needed */

/* ---- views (view.c) ---- */

enum { VIEW_LEAST = 64 << 10 }; /* smaller buffers are copied, which is faster */

/* A read-only buffer of size bytes at offset of fd, with its own mapping. New reference. */
PyObject *view_open(int fd, uint64_t offset, size_t size);

/* Called before the memory behind this thread's views is used again. Views that are still referenced get their own
 * memory at the same address; the others are released. Returns -1 with MemoryError if there is not enough memory for a
 * view. That view stays in the list, and the memory must not be used again before a later call succeeds. A thread that
 * opens views must call this before it ends. */
int views_settle(void);

/* Drops the cache of unused mappings, which keep the memory of their file alive. Call this when a file is no longer
 * used (at the end of a run). */
void views_forget(void);

/* Statistics of this process, for tests. */
struct view_counts {
    uint64_t mapped; /* views with a new mapping */
    uint64_t reused; /* views with a mapping from the cache */
    uint64_t copied; /* views that are copies, because there were too many mappings or mmap failed */
    uint64_t kept;   /* views that got their own memory from views_settle() */
    size_t live;     /* current mappings of views */
    size_t cached;   /* current mappings in the cache */
    size_t cached_bytes;
};
void views_count(struct view_counts *out);

int view_init(PyObject *module);

/* ---- the two sides, and the rest ---- */

int run_init(PyObject *module);      /* the type Run */
int journal_init(PyObject *module);  /* JournalError */
int worker_init(PyObject *module);   /* the function worker_main */
int observe_init(PyObject *module);  /* jobs, the type Observer, NoJobError */
int launch_init(PyObject *module);   /* the functions of multigpu */
int balancer_init(PyObject *module); /* the type Balancer; called by launch_init */
int program_init(PyObject *module);  /* the function run_program */
int shard_init(PyObject *module);    /* find_shard, shard_owns */
int queue_init(PyObject *module);    /* Push, Reader, QueueError */

/* GD_E_... as an exception: MemoryError, ValueError, OSError or RuntimeError with gd_error_text(). Returns NULL. */
PyObject *native_error(int code);

/* Takes the current exception with its traceback as one object, and raises it again. In run.c. */
PyObject *error_take(void);
void error_raise(PyObject *error); /* steals it */

#endif
