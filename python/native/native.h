/* The extension module gpu_dispatch._native: what its files share.
 *
 *   module.c   the module, its types and functions
 *   value.c    Python values as bytes, and back
 *   show.c     such bytes as text for people
 *   view.c     memory that lies in shared memory, shown to Python without a copy, safe to keep
 *   run.c      the dispatching side: a Run is one gd_dispatcher
 *   worker.c   the worker's side: gd_worker_main() with Python methods behind its table
 *   launch.c   devices and files, for gpu_dispatch.multigpu
 *   balancer.c the launcher's figures, likewise; fields.c: structs as dicts
 *   program.c  another program run to its end: the command, for transcription
 *
 * Every function here is called with the GIL held unless it says otherwise, and returns as Python's own do: NULL or -1
 * with an exception set.
 */
#ifndef GD_PYTHON_NATIVE_H
#define GD_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <gpu_dispatch/gpu_dispatch.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- values (value.c) ---- */

/* None, bool, int, float, str, bytes and bytearray have a form of their own; anything else is a pickle (protocol 5),
 * whose out-of-band buffers follow it, each aligned to 64 bytes. The layout is written down at the top of value.c.
 *
 * Encoding takes two steps, so that large values can be written where they are needed:
 *     value_plan(&plan, object)    measures it, pickles it if need be, keeps what it needs alive
 *     value_write(&plan, room)     plan.size bytes; lets the GIL go while it copies much
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

/* A small scalar at once: returns its size (<= 24), or 0 if it is none (no exception). */
size_t value_small(PyObject *object, unsigned char room[24]);

/* Where bytes lie in a file that can be mapped; fd -1: nowhere, so buffers are copied. */
struct value_place {
    int fd;
    uint64_t offset; /* of the first byte of the value */
};
/* The value; its large buffers are views of that place, entered in the thread's list of views (see views_settle). */
PyObject *value_read(const void *data, size_t size, const struct value_place *place);

/* show.c: as text of at most room bytes, no NUL; returns how many. Needs no GIL. */
size_t value_brief(const void *data, size_t size, char *out, size_t room);
/* show.c: its repr(), that of a long string shortened. NULL without an exception: it is a pickle. */
PyObject *value_repr(const void *data, size_t size);
bool value_is_pickle(const void *data, size_t size);

int value_init(PyObject *module); /* imports pickle; cloudpickle is looked for when something first needs it */

/* ---- views (view.c) ---- */

enum { VIEW_LEAST = 64 << 10 }; /* buffers below this size are copied: that is faster */

/* A read-only buffer of size bytes at offset of fd, mapped apart from everything else. New reference. */
PyObject *view_open(int fd, uint64_t offset, size_t size);

/* The memory behind the views that this thread opened since the last call is about to be used again: those that
 * somebody still has get memory of their own, at the same address; the others are let go. Returns -1 with MemoryError
 * if one that is kept could not be given memory: it stays in the list, so the memory must not be used again before a
 * later call succeeds. A thread that opens views must call this before it ends. */
int views_settle(void);

/* Mappings that nobody uses are kept for the next view of the same place, and hold on to the memory of their file: call
 * this when a file is given up (the end of a run). */
void views_forget(void);

/* What was done so far in this process, and what is there now. For tests and for the curious. */
struct view_counts {
    uint64_t mapped; /* views by a new mapping */
    uint64_t reused; /* by a mapping that was there */
    uint64_t copied; /* by a copy, since there were too many mappings or mmap failed */
    uint64_t kept;   /* given memory of their own by views_settle() */
    size_t live;     /* mappings of views now, kept or not */
    size_t cached;   /* mappings nobody uses now */
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

/* GD_E_... as an exception: MemoryError, ValueError, OSError or RuntimeError with gd_error_text(). Returns NULL. */
PyObject *native_error(int code);

/* The exception that is set, with its traceback, as one object; and back. In run.c. */
PyObject *error_take(void);
void error_raise(PyObject *error); /* steals it */

#endif
