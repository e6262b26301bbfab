/* Lists of up to millions of files. The paths are stored one after the other in one growing block of bytes. Each file
 * also has an entry of 16 bytes. Sorting moves only the entries. The position of a path in the block shows when the
 * file was added, so comparing positions breaks ties and can restore the order of discovery. */
#include <gpu_dispatch/launch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum { FIRST_ENTRIES = 64, FIRST_BYTES = 4096 };

struct entry {
    size_t path; /* offset into bytes */
    uint64_t size;
};

struct gd_files {
    struct entry *entries;
    size_t count, capacity;
    char *bytes;
    size_t used, bytes_size;
};

int gd_files_open(struct gd_files **out)
{
    if (!out)
        return gd__error(GD_E_INVALID, "out is NULL: pass the address of a struct gd_files *");
    *out = gd__calloc(1, sizeof **out);
    return *out ? 0 : gd__error(GD_E_NO_MEMORY, "no memory for a list of files");
}

void gd_files_close(struct gd_files **files)
{
    if (!files || !*files)
        return;
    gd__free((*files)->entries);
    gd__free((*files)->bytes);
    gd__free(*files);
    *files = NULL;
}

/* Makes room for at least one more entry. */
static int more_entries(struct gd_files *f)
{
    const size_t n = f->capacity ? f->capacity * 2 : FIRST_ENTRIES;
    struct entry *grown = n > SIZE_MAX / sizeof *grown ? NULL : gd__realloc(f->entries, n * sizeof *grown);
    if (!grown)
        return gd__error(GD_E_NO_MEMORY, "no memory for a list of more than %zu files", f->count);
    f->entries = grown;
    f->capacity = n;
    return 0;
}

static int more_bytes(struct gd_files *f, size_t need)
{
    size_t n = f->bytes_size ? f->bytes_size : FIRST_BYTES;
    while (n - f->used < need && n <= SIZE_MAX / 2)
        n *= 2;
    char *grown = n - f->used < need ? NULL : gd__realloc(f->bytes, n);
    if (!grown)
        return gd__error(GD_E_NO_MEMORY, "no memory for the paths of more than %zu files", f->count);
    f->bytes = grown;
    f->bytes_size = n;
    return 0;
}

int gd_files_add(struct gd_files *files, const char *path, uint64_t size)
{
    if (!files || !path || !*path)
        return gd__error(GD_E_INVALID, !files ? "the list of files is NULL: see gd_files_open()"
                                              : "the path of the file is NULL or empty");
    const size_t need = strlen(path) + 1;
    int r = files->count < files->capacity ? 0 : more_entries(files);
    if (r == 0 && files->bytes_size - files->used < need)
        r = more_bytes(files, need);
    if (r < 0)
        return r;
    memcpy(files->bytes + files->used, path, need);
    files->entries[files->count++] = (struct entry){ files->used, size };
    files->used += need;
    return 0;
}

static int add_found(void *user, const char *path, uint64_t size)
{
    return gd_files_add(user, path, size);
}

int gd_files_discover(struct gd_files *files, const char *dir, const struct gd_discover *what)
{
    if (!files)
        return gd__error(GD_E_INVALID, "the list of files is NULL: see gd_files_open()");
    const size_t count = files->count, used = files->used;
    const int r = gd_discover_files(dir, what, add_found, files);
    if (r != 0) { /* all or nothing */
        files->count = count;
        files->used = used;
    }
    return r;
}

/* --- order --------------------------------------------------------------- */

static int by_age(const void *a, const void *b, void *bytes)
{
    const struct entry *x = a, *y = b;
    (void)bytes;
    return (x->path > y->path) - (x->path < y->path);
}

static int by_name(const void *a, const void *b, void *bytes)
{
    const struct entry *x = a, *y = b;
    const int order = strcmp((const char *)bytes + x->path, (const char *)bytes + y->path);
    return order ? order : by_age(a, b, bytes);
}

static int by_size(const void *a, const void *b, void *bytes)
{
    const struct entry *x = a, *y = b;
    return x->size != y->size ? (x->size < y->size ? 1 : -1) : by_name(a, b, bytes);
}

int gd_files_sort(struct gd_files *files, enum gd_file_order order)
{
    static int (*const compare[])(const void *, const void *, void *) = {
        [GD_FILE_ORDER_SIZE] = by_size,
        [GD_FILE_ORDER_NAME] = by_name,
        [GD_FILE_ORDER_NONE] = by_age,
    };
    if (!files)
        return gd__error(GD_E_INVALID, "the list of files is NULL: see gd_files_open()");
    if ((size_t)order >= sizeof compare / sizeof *compare)
        return gd__error(GD_E_INVALID, "%d is not an order: use one of the GD_FILE_ORDER_... values", (int)order);
    if (files->count > 1)
        qsort_r(files->entries, files->count, sizeof *files->entries, compare[order], files->bytes);
    return 0;
}

/* --- reading ------------------------------------------------------------- */

size_t gd_files_count(const struct gd_files *files)
{
    return files ? files->count : 0;
}

const char *gd_files_path(const struct gd_files *files, size_t i)
{
    return i < gd_files_count(files) ? files->bytes + files->entries[i].path : NULL;
}

uint64_t gd_files_size(const struct gd_files *files, size_t i)
{
    return i < gd_files_count(files) ? files->entries[i].size : 0;
}

static int smaller_first(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* sizes is sorted, and n is at least 1. */
static int summarize(struct gd_workload *w, const uint64_t *sizes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (__builtin_add_overflow(w->total_bytes, sizes[i], &w->total_bytes))
            return gd__error(GD_E_TOO_LARGE, "the total size of %zu files does not fit into 64 bits", n);
    }
    const uint64_t low = sizes[(n - 1) / 2], high = sizes[n / 2];
    const long double mean = (long double)w->total_bytes / (long double)n;
    long double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += ((long double)sizes[i] - mean) * ((long double)sizes[i] - mean);
    w->count = n;
    w->smallest_bytes = sizes[0];
    w->largest_bytes = sizes[n - 1];
    w->median_bytes = low + (high - low) / 2;
    w->mean_bytes = (double)mean;
    w->deviation_bytes = (double)sqrtl(squares / (long double)n);
    return 0;
}

int gd_estimate_workload(const struct gd_files *files, struct gd_workload *out)
{
    if (!files || !out || out->size < sizeof out->size)
        return gd__error(
            GD_E_INVALID,
            !files
                ? "the list of files is NULL: see gd_files_open()"
                : "the estimate is NULL, or its size is not set: set gd_workload.size to sizeof(struct gd_workload)");
    struct gd_workload w = { .size = out->size };
    uint64_t *sizes = gd__calloc(files->count, sizeof *sizes);
    if (!sizes)
        return gd__error(GD_E_NO_MEMORY, "no memory to estimate %zu files", files->count);
    for (size_t i = 0; i < files->count; i++)
        sizes[i] = files->entries[i].size;
    qsort(sizes, files->count, sizeof *sizes, smaller_first);
    const int r = files->count > 0 ? summarize(&w, sizes, files->count) : 0;
    gd__free(sizes);
    if (r == 0) /* a caller that was built with another version may have a smaller struct */
        memcpy(out, &w, out->size < sizeof w ? out->size : sizeof w);
    return r;
}
