/* Deals files out to devices before a run, and makes a source of tasks from a list of files.
 *
 * The weight of a file is its size, but at least 1. So files of unknown or zero size are spread over all devices,
 * instead of all going to the same one.
 */
#include <gpu_dispatch/launch.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

static uint64_t weight_of(const struct gd_files *files, size_t i)
{
    const uint64_t size = gd_files_size(files, i);
    return size > 0 ? size : 1;
}

/* --- dealing -------------------------------------------------------------- */

static int deal_round_robin(const struct gd_files *files, size_t n, size_t *gpu_of)
{
    for (size_t i = 0; i < gd_files_count(files); i++)
        gpu_of[i] = i % n;
    return 0;
}

static int deal_chunks(const struct gd_files *files, size_t n, size_t *gpu_of)
{
    const size_t count = gd_files_count(files), chunk = count / n + (count % n > 0);
    for (size_t i = 0; i < count; i++)
        gpu_of[i] = i / chunk;
    return 0;
}

struct share {
    uint64_t load;
    size_t gpu;
};

struct weighed {
    uint64_t weight;
    size_t file;
};

static int heavier_first(const void *a, const void *b)
{
    const struct weighed *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return (x->file > y->file) - (x->file < y->file);
}

static bool has_less(const struct share *a, const struct share *b)
{
    return a->load != b->load ? a->load < b->load : a->gpu < b->gpu;
}

/* Moves heap[0], whose load has grown, down to its place in the heap. */
static void sift_down(struct share *heap, size_t n)
{
    const struct share moved = heap[0];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && has_less(&heap[child + 1], &heap[child]))
            child++;
        if (has_less(&moved, &heap[child]))
            break;
        heap[i] = heap[child];
    }
    heap[i] = moved;
}

static void deal_weighed(const struct weighed *order, size_t count, struct share *heap, size_t n, size_t *gpu_of)
{
    for (size_t i = 0; i < n; i++)
        heap[i] = (struct share){ 0, i };
    for (size_t i = 0; i < count; i++) {
        gpu_of[order[i].file] = heap[0].gpu;
        if (__builtin_add_overflow(heap[0].load, order[i].weight, &heap[0].load))
            heap[0].load = UINT64_MAX;
        sift_down(heap, n);
    }
}

static int deal_balanced(const struct gd_files *files, size_t n, size_t *gpu_of)
{
    const size_t count = gd_files_count(files);
    if (n > count) /* further shares would stay empty */
        n = count;
    struct weighed *order = gd__calloc(count, sizeof *order);
    struct share *heap = gd__calloc(n, sizeof *heap);
    int r = 0;
    if (!order || !heap) {
        r = gd__error(GD_E_NO_MEMORY, "no memory to distribute %zu files", count);
    } else {
        for (size_t i = 0; i < count; i++)
            order[i] = (struct weighed){ weight_of(files, i), i };
        qsort(order, count, sizeof *order, heavier_first);
        deal_weighed(order, count, heap, n, gpu_of);
    }
    gd__free(heap);
    gd__free(order);
    return r;
}

int gd_distribute_workload(const struct gd_files *files, size_t n, enum gd_distribution deal, size_t *gpu_of)
{
    static int (*const ways[])(const struct gd_files *, size_t, size_t *) = {
        [GD_DISTRIBUTE_ROUND_ROBIN] = deal_round_robin,
        [GD_DISTRIBUTE_CHUNKS] = deal_chunks,
        [GD_DISTRIBUTE_BALANCED] = deal_balanced,
    };
    if (!files)
        return gd__error(GD_E_INVALID, "the list of files is NULL: see gd_files_open()");
    if (n == 0)
        return gd__error(GD_E_INVALID, "n must be >= 1, got 0: there is no device to distribute files to");
    if ((size_t)deal >= sizeof ways / sizeof *ways)
        return gd__error(GD_E_INVALID, "%d is not a way to distribute files: use one of the GD_DISTRIBUTE_... values",
                         (int)deal);
    if (gd_files_count(files) == 0)
        return 0;
    if (!gpu_of)
        return gd__error(GD_E_INVALID, "gpu_of is NULL: it must have room for %zu numbers", gd_files_count(files));
    return ways[deal](files, n, gpu_of);
}

/* --- a source of tasks ---------------------------------------------------- */

struct gd_task_queue {
    const struct gd_files *files;
    size_t count;
    _Atomic size_t next; /* written by the source's thread, read by any thread */
};

int gd_task_queue_open(struct gd_task_queue **out, const struct gd_files *files)
{
    if (!out || !files)
        return gd__error(GD_E_INVALID, "gd_task_queue_open: the list of files or out is NULL");
    *out = gd__calloc(1, sizeof **out);
    if (!*out)
        return gd__error(GD_E_NO_MEMORY, "no memory for a task queue");
    (*out)->files = files;
    (*out)->count = gd_files_count(files);
    atomic_init(&(*out)->next, 0);
    return 0;
}

void gd_task_queue_close(struct gd_task_queue **queue)
{
    if (!queue)
        return;
    gd__free(*queue);
    *queue = NULL;
}

int gd_task_queue_next(void *queue, struct gd_item *item)
{
    struct gd_task_queue *q = queue;
    if (!q || !item)
        return gd__error(GD_E_INVALID, "gd_task_queue_next: the %s is NULL", q ? "item" : "queue");
    const size_t i = atomic_load_explicit(&q->next, memory_order_relaxed);
    if (i >= q->count)
        return 0;
    item->data = gd_files_path(q->files, i);
    item->size = strlen(item->data);
    item->weight = weight_of(q->files, i);
    atomic_store_explicit(&q->next, i + 1, memory_order_relaxed);
    return 1;
}

size_t gd_task_queue_left(const struct gd_task_queue *queue)
{
    return queue ? queue->count - atomic_load_explicit(&queue->next, memory_order_relaxed) : 0;
}
