/* Shared memory that Python uses without a copy and may keep.
 *
 * A View has its own mapping: the pages of its bytes, read-only and shared. Any object may keep it (an array, a slice
 * of one, a tensor) by holding a reference. Before the place is used again, views_settle() checks the reference count.
 * A view without other references is released. A view that is kept gets a private copy of its pages, which mremap()
 * moves to the same address. Readers do not notice.
 *
 * Mapping a place is expensive, and the same places are used again soon. So unused mappings wait in a cache
 * (mapping.c), by file and pages. A shared mapping always shows the current contents of the file. It also keeps its
 * file alive, so no other file can get the same inode number meanwhile.
 *
 * The kernel allows a process about 65,000 mappings. If a program keeps very many arrays, further ones get ordinary
 * memory.
 *
 * After fork() the child has the same shared mappings, but the parent decides when the place is used again. So in the
 * child, views that were open at the fork are valid only until the parent settles them. Views that were settled and
 * kept before the fork are private.
 */
#include "python/native/native.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "python/native/values/mapping.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#ifndef VIEW_MOST
#define VIEW_MOST 16384 /* maximum number of mappings of views */
#endif

enum {
    HUGE_PAGE = 2 << 20,
    GIL_LEAST = 1 << 20, /* work on more bytes releases the GIL */
};

enum memory {
    SHARED, /* the file's */
    OWN,    /* a private mapping */
    HEAP,
};

struct view {
    PyObject_HEAD
    PyObject *weak_references;
    enum memory memory;
    struct mapping mapping; /* unless HEAP */
    unsigned char *data;
    size_t size;
    struct view *next; /* in the list of the thread that opened it; the list owns a reference */
};

static _Thread_local struct view *open_views;

/* The GIL protects the rest. */
static struct view_counts counts;
static size_t page = 4096;

static size_t whole_pages(size_t size)
{
    return (size + page - 1) & ~(page - 1);
}

void views_forget(void)
{
    mappings_drop();
}

void views_count(struct view_counts *out)
{
    *out = counts;
    out->cached = mappings_waiting();
    out->cached_bytes = mappings_waiting_bytes();
}

/* ---- opening ---- */

/* Returns private pages. Their distance from a multiple of HUGE_PAGE is the same as that of `like`, which is an address
 * or an offset in a file. So data can be moved to it or mapped from it in huge pages. MAP_FAILED: there is no room. */
static void *map_alike(size_t length, uint64_t like, int protection)
{
    unsigned char *room = mmap(NULL, length + HUGE_PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return MAP_FAILED;
    size_t before = (size_t)((like - (uintptr_t)room) % HUGE_PAGE), after = HUGE_PAGE - before;
    if (before > 0)
        munmap(room, before);
    munmap(room + before + length, after);
    return room + before;
}

/* All pages are mapped at once, rather than by one page fault for each. */
static void *map_file(void *at, size_t length, int fd, uint64_t first)
{
    return mmap(at, length, PROT_READ, MAP_SHARED | MAP_POPULATE | (at ? MAP_FIXED : 0), fd, (off_t)first);
}

static void *map_large(size_t length, int fd, uint64_t first)
{
    void *room = length < HUGE_PAGE ? MAP_FAILED : map_alike(length, first, PROT_NONE);
    void *base = map_file(room == MAP_FAILED ? NULL : room, length, fd, first);
    if (base == MAP_FAILED && room != MAP_FAILED)
        munmap(room, length);
    return base;
}

static void *map_pages(size_t length, int fd, uint64_t first)
{
    void *base;
    if (length < GIL_LEAST)
        return map_file(NULL, length, fd, first);
    Py_BEGIN_ALLOW_THREADS
    base = map_large(length, fd, first);
    Py_END_ALLOW_THREADS
    return base;
}

static bool map_place(struct mapping *mapping, int fd)
{
    if (mapping_take(mapping)) {
        counts.reused++;
        return true;
    }
    if (counts.live >= VIEW_MOST)
        return false;
    void *base = map_pages(mapping->length, fd, mapping->first);
    if (base == MAP_FAILED)
        return false;
    mapping->base = base;
    counts.mapped++;
    return true;
}

static ssize_t read_at(int fd, void *room, size_t size, uint64_t offset)
{
    ssize_t n;
    Py_BEGIN_ALLOW_THREADS
    do
        n = pread(fd, room, size, (off_t)offset);
    while (n < 0 && errno == EINTR);
    Py_END_ALLOW_THREADS
    return n;
}

static int read_all(int fd, unsigned char *room, size_t size, uint64_t offset)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = read_at(fd, room + done, size - done, offset + done);
        if (n == 0)
            errno = EIO; /* the file was long enough a moment ago */
        if (n <= 0) {
            PyErr_SetFromErrno(PyExc_OSError);
            return -1;
        }
        done += (size_t)n;
    }
    return 0;
}

static int fill_by_copy(struct view *view, int fd, uint64_t offset)
{
    view->memory = HEAP;
    view->data = PyMem_RawMalloc(view->size);
    if (!view->data) {
        PyErr_NoMemory();
        return -1;
    }
    counts.copied++;
    return read_all(fd, view->data, view->size, offset);
}

static int fill(struct view *view, int fd, uint64_t offset, const struct stat *file)
{
    size_t skew = (size_t)(offset % page);
    struct mapping mapping = {
        .first = offset - skew, .length = whole_pages(skew + view->size), .device = file->st_dev, .inode = file->st_ino
    };
    if (!map_place(&mapping, fd))
        return fill_by_copy(view, fd, offset);
    counts.live++;
    view->memory = SHARED;
    view->mapping = mapping;
    view->data = mapping.base + (offset - mapping.first);
    return 0;
}

/* Reading beyond the end of the file would cause SIGBUS. */
static int check_place(int fd, uint64_t offset, size_t size, struct stat *file)
{
    if (fstat(fd, file) < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    uint64_t end = (uint64_t)file->st_size;
    if (offset <= end && size <= end - offset)
        return 0;
    PyErr_Format(PyExc_ValueError, "damaged value: %zu bytes at %llu reach beyond the shared memory's %llu", size,
                 (unsigned long long)offset, (unsigned long long)end);
    return -1;
}

static PyTypeObject view_type;

PyObject *view_open(int fd, uint64_t offset, size_t size)
{
    struct stat file;
    if (check_place(fd, offset, size, &file) < 0)
        return NULL;
    struct view *view = PyObject_New(struct view, &view_type);
    if (!view)
        return NULL;
    view->weak_references = NULL;
    view->memory = HEAP;
    view->data = NULL;
    view->size = size;
    view->next = NULL;
    if (size > 0 && fill(view, fd, offset, &file) < 0) {
        Py_DECREF(view);
        return NULL;
    }
    if (view->memory == SHARED) {
        view->next = open_views;
        open_views = (struct view *)Py_NewRef((PyObject *)view);
    }
    return (PyObject *)view;
}

/* ---- settling ---- */

static void *map_private(size_t length)
{
    return mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Private pages that can be moved to `target` as huge pages. */
static void *map_huge(size_t length, const unsigned char *target)
{
    void *room = map_alike(length, (uintptr_t)target, PROT_READ | PROT_WRITE);
    if (room != MAP_FAILED)
        madvise(room, length, MADV_HUGEPAGE); /* optional: there may be no huge pages */
    return room;
}

/* A read-only copy of the view's bytes in private pages, at the same place within them. */
static void *private_copy(const struct view *view, size_t skew, size_t length)
{
    unsigned char *copy = length < 2 * HUGE_PAGE ? map_private(length) : map_huge(length, view->data - skew);
    if (copy == MAP_FAILED)
        return MAP_FAILED;
    madvise(copy, length,
            MADV_POPULATE_WRITE); /* faster than a page fault for each page; older kernels do not have it */
    memcpy(copy + skew, view->data, view->size);
    if (mprotect(copy, length, PROT_READ) == 0)
        return copy;
    munmap(copy, length);
    return MAP_FAILED;
}

/* A mapping from the cache may reach further on both sides than the view's own pages. */
static void trim(const struct mapping *mapping, unsigned char *start, size_t length)
{
    unsigned char *end = start + length, *mapping_end = mapping->base + mapping->length;
    if (start > mapping->base)
        munmap(mapping->base, (size_t)(start - mapping->base));
    if (end < mapping_end)
        munmap(end, (size_t)(mapping_end - end));
}

/* Does not need the GIL: the list's reference keeps the view alive, and only this thread settles it. */
static int replace(const struct view *view, unsigned char *start, size_t skew, size_t length)
{
    void *copy = private_copy(view, skew, length);
    if (copy == MAP_FAILED)
        return -1;
    if (mremap(copy, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, start) == MAP_FAILED) {
        munmap(copy, length);
        return -1;
    }
    trim(&view->mapping, start, length);
    return 0;
}

static int make_own(struct view *view)
{
    size_t skew = (uintptr_t)view->data % page, length = whole_pages(skew + view->size);
    unsigned char *start = view->data - skew;
    int code;
    if (length < GIL_LEAST) {
        code = replace(view, start, skew, length);
    } else {
        Py_BEGIN_ALLOW_THREADS
        code = replace(view, start, skew, length);
        Py_END_ALLOW_THREADS
    }
    if (code < 0)
        return -1;
    view->mapping.base = start;
    view->mapping.length = length;
    view->memory = OWN;
    counts.kept++;
    return 0;
}

static int settle(struct view *view)
{
    /* The list owns one reference. Everything that uses the buffer owns another one. */
    if (Py_REFCNT(view) == 1 || make_own(view) == 0) {
        Py_DECREF(view);
        return 0;
    }
    view->next = open_views;
    open_views = view;
    return -1;
}

/* The list is emptied first, because code that runs during a deallocation may open views. */
int views_settle(void)
{
    struct view *view = open_views;
    int code = 0;
    open_views = NULL;
    while (view) {
        struct view *next = view->next;
        view->next = NULL;
        code |= settle(view);
        view = next;
    }
    if (code < 0)
        PyErr_SetString(PyExc_MemoryError, "no memory for an array that is kept after its task: keep fewer, or copy "
                                           "only what is needed of them");
    return code;
}

/* ---- the type ---- */

static void view_dealloc(PyObject *self)
{
    struct view *view = (struct view *)self;
    if (view->weak_references)
        PyObject_ClearWeakRefs(self);
    if (view->memory == HEAP)
        PyMem_RawFree(view->data);
    else
        counts.live--;
    if (view->memory == SHARED)
        mapping_put(view->mapping);
    if (view->memory == OWN)
        munmap(view->mapping.base, view->mapping.length);
    PyObject_Free(self);
}

static int view_get_buffer(PyObject *self, Py_buffer *buffer, int flags)
{
    static unsigned char nothing;
    struct view *view = (struct view *)self;
    return PyBuffer_FillInfo(buffer, self, view->size > 0 ? view->data : &nothing, (Py_ssize_t)view->size, 1, flags);
}

static Py_ssize_t view_length(PyObject *self)
{
    return (Py_ssize_t)((struct view *)self)->size;
}

static PyObject *view_repr(PyObject *self)
{
    static const char *const words[] = { [SHARED] = "shared", [OWN] = "own", [HEAP] = "own" };
    struct view *view = (struct view *)self;
    return PyUnicode_FromFormat("<gpu_dispatch view of %zu bytes of %s memory>", view->size, words[view->memory]);
}

static PyObject *view_shared(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(((struct view *)self)->memory == SHARED);
}

/* A view that is pickled becomes bytes. */
static PyObject *view_reduce(PyObject *self, PyObject *protocol)
{
    long number = PyLong_AsLong(protocol);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    PyObject *content = number >= 5 ? PyPickleBuffer_FromObject(self) : PyBytes_FromObject(self);
    return content ? Py_BuildValue("O(N)", (PyObject *)&PyBytes_Type, content) : NULL;
}

static PyBufferProcs view_buffer = { .bf_getbuffer = view_get_buffer };
static PySequenceMethods view_sequence = { .sq_length = view_length };

static PyMethodDef view_methods[] = {
    { "__reduce_ex__", view_reduce, METH_O, NULL },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef view_attributes[] = {
    { "shared", view_shared, NULL, "Whether the view still uses shared memory, not its own copy.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyTypeObject view_type = {
    .ob_base = { PyObject_HEAD_INIT(NULL) 0 },
    .tp_name = "gpu_dispatch._native.View",
    .tp_doc = "Read-only memory that came from another process without a copy. You may keep it for any time.",
    .tp_basicsize = sizeof(struct view),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_weaklistoffset = offsetof(struct view, weak_references),
    .tp_dealloc = view_dealloc,
    .tp_repr = view_repr,
    .tp_as_buffer = &view_buffer,
    .tp_as_sequence = &view_sequence,
    .tp_methods = view_methods,
    .tp_getset = view_attributes,
};

int view_init(PyObject *module)
{
    long size = sysconf(_SC_PAGESIZE);
    if (size > 0)
        page = (size_t)size;
    return PyModule_AddType(module, &view_type);
}
