/* Reads the page of a run. The page is read with pread() into private memory, and not mapped. If the file was
 * truncated, pread() returns fewer bytes, but a mapping would cause SIGBUS. At a few reads a second the cost does not
 * matter.
 *
 * Three calls copy everything that changes: the sequence numbers, the data, and the sequence numbers again. Parts that
 * were written at the same time are read again, a few times. If the writer was stopped or killed in the middle of a
 * write, the reader keeps its last complete copy of that part.
 */
#include "stats/page/reader.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "shm/layout.h"

enum { TRIES = 16 };

static bool read_at(int fd, void *to, size_t size, size_t offset)
{
    size_t done = 0;
    while (done < size) {
        const ssize_t n = pread(fd, (char *)to + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

/* Keeps the order of two pread() calls. A fence is enough, because the kernel copies the data on our processor. */
static void order_reads(void)
{
    gd__full_fence();
}

/* --- opening --- */

static int cut_short(void)
{
    return gd__error(GD_E_CORRUPT, "the status page of this run was truncated or overwritten");
}

int gd__reader_header(int fd, struct gd__page_header *h)
{
    struct gd__page_plan plan;
    struct stat s;
    if (!read_at(fd, h, sizeof *h, 0) || h->magic != GD__PAGE_MAGIC)
        return gd__error(GD_E_CORRUPT, "this is not the status page of a run");
    if (h->version != GD__PAGE_VERSION)
        return gd__error(GD_E_VERSION,
                         "the status page of this run has version %llu, but this program reads version %u: use the "
                         "same release of gpu_dispatch as the run",
                         (unsigned long long)h->version, GD__PAGE_VERSION);
    if (!gd__page_plan(&plan, h->n_workers, h->n_devices) || h->size != plan.size)
        return gd__error(GD_E_CORRUPT, "the status page of this run is damaged");
    if (fstat(fd, &s) < 0 || s.st_size < 0 || (uint64_t)s.st_size < h->size)
        return cut_short();
    h->job[sizeof h->job - 1] = '\0';
    return 0;
}

static size_t changing_size(const struct gd__reader *r)
{
    return r->plan.devices - r->plan.live;
}

static int allocate(struct gd__reader *r)
{
    r->devices = gd__calloc(r->plan.n_devices, sizeof *r->devices);
    r->workers = gd__calloc(r->plan.n_workers, sizeof *r->workers);
    r->sequences = gd__calloc(2 * (1 + r->plan.n_workers), sizeof *r->sequences);
    r->changing = gd__calloc(1, changing_size(r));
    return r->devices && r->workers && r->sequences && r->changing
               ? 0
               : gd__error(GD_E_NO_MEMORY, "no memory for a copy of the status page");
}

int gd__reader_open(struct gd__reader *r, int fd)
{
    memset(r, 0, sizeof *r);
    r->fd = fd;
    int rc = gd__reader_header(fd, &r->header);
    if (rc == 0) {
        gd__page_plan(&r->plan, r->header.n_workers, r->header.n_devices);
        rc = allocate(r);
    }
    if (rc == 0 && !read_at(fd, r->devices, r->plan.n_devices * sizeof *r->devices, r->plan.devices))
        rc = cut_short();
    if (rc < 0)
        gd__reader_close(r);
    return rc;
}

void gd__reader_close(struct gd__reader *r)
{
    if (r->fd >= 0)
        close(r->fd);
    gd__free(r->devices);
    gd__free(r->workers);
    gd__free(r->sequences);
    gd__free(r->changing);
    gd__free(r->tasks.entries);
    gd__free(r->failures.entries);
    gd__free(r->requests.entries);
    memset(r, 0, sizeof *r);
    r->fd = -1;
}

/* --- data that changes --- */

static void *part(const struct gd__reader *r, uint64_t i, size_t *offset, size_t *size)
{
    *size = i == 0 ? sizeof r->run : sizeof *r->workers;
    *offset = i == 0 ? r->plan.run : r->plan.workers + (size_t)(i - 1) * sizeof *r->workers;
    return i == 0 ? (void *)(uintptr_t)&r->run : &r->workers[i - 1];
}

/* Copies the parts that are complete. Returns the number of parts that are not. */
static uint64_t take_whole(struct gd__reader *r, const uint64_t *before, const uint64_t *after)
{
    const uint64_t n = 1 + r->plan.n_workers;
    uint64_t left = 0;
    for (uint64_t i = 0; i < n; i++) {
        size_t offset, size;
        void *to = part(r, i, &offset, &size);
        if (!gd__sequence_whole(before[i], after[i])) {
            left++;
            continue;
        }
        memcpy(to, r->changing + (offset - r->plan.live), size);
    }
    return left;
}

static int read_changing(struct gd__reader *r)
{
    const size_t n_bytes = (1 + (size_t)r->plan.n_workers) * sizeof *r->sequences;
    uint64_t *before = r->sequences, *after = r->sequences + 1 + r->plan.n_workers;
    uint64_t left = 1;
    for (int k = 0; k < TRIES && left > 0; k++) {
        if (!read_at(r->fd, before, n_bytes, r->plan.sequences))
            return cut_short();
        order_reads();
        if (!read_at(r->fd, r->changing, changing_size(r), r->plan.live))
            return cut_short();
        order_reads();
        if (!read_at(r->fd, after, n_bytes, r->plan.sequences))
            return cut_short();
        left = take_whole(r, before, after);
    }
    memcpy(&r->awake_ns, r->changing + offsetof(struct gd__page_live, awake_ns), sizeof r->awake_ns);
    return 0;
}

/* --- rings --- */

struct ring {
    size_t offset, entry, begun_at;
    uint64_t capacity, tail, ended;
};

static int make_room(struct gd__ring_copy *c, size_t bytes)
{
    if (bytes <= c->room)
        return 0;
    void *larger = gd__realloc(c->entries, bytes);
    if (!larger)
        return gd__error(GD_E_NO_MEMORY, "no memory for a copy of %zu bytes of the status page", bytes);
    c->entries = larger;
    c->room = bytes;
    return 0;
}

/* Copies positions first .. first + n - 1, in at most two pieces. */
static int copy_positions(int fd, const struct ring *ring, uint64_t first, uint64_t n, unsigned char *to)
{
    const uint64_t slot = first % ring->capacity, to_the_edge = ring->capacity - slot;
    const uint64_t head = n < to_the_edge ? n : to_the_edge;
    if (!read_at(fd, to, head * ring->entry, ring->offset + slot * ring->entry) ||
        !read_at(fd, to + head * ring->entry, (n - head) * ring->entry, ring->offset))
        return cut_short();
    return 0;
}

/* Copies the last n positions. c->n is the number of complete ones. */
static int copy_last(int fd, const struct ring *ring, uint64_t n, struct gd__ring_copy *c)
{
    const uint64_t first = ring->tail - n;
    uint64_t begun = 0;
    int rc = make_room(c, (size_t)n * ring->entry);
    if (rc == 0)
        rc = copy_positions(fd, ring, first, n, c->entries);
    order_reads();
    if (rc == 0 && !read_at(fd, &begun, sizeof begun, ring->begun_at))
        rc = cut_short();
    if (rc < 0)
        return rc;
    /* Positions that the writer has begun to replace meanwhile. */
    uint64_t lost = begun > ring->capacity && begun - ring->capacity > first ? begun - ring->capacity - first : 0;
    if (lost > n)
        lost = n;
    if (lost > 0)
        memmove(c->entries, c->entries + lost * ring->entry, (size_t)(n - lost) * ring->entry);
    c->n = n - lost;
    return 0;
}

/* Reads the entries that were added since the last read and still exist. */
static int read_ring(int fd, const struct ring *ring, bool unwanted, struct gd__ring_copy *c)
{
    c->n = c->missed = 0;
    if (ring->tail < c->seen || ring->ended < c->ended || ring->ended < ring->tail)
        return gd__error(GD_E_CORRUPT, "the status page of this run is damaged: its counters went backwards");
    const uint64_t added = ring->tail - c->seen, n = added < ring->capacity ? added : ring->capacity;
    const int rc = n > 0 && !unwanted ? copy_last(fd, ring, n, c) : 0;
    if (rc < 0)
        return rc;
    c->missed = ring->ended - c->ended > c->n ? ring->ended - c->ended - c->n : 0;
    c->seen = ring->tail;
    c->ended = ring->ended;
    return 0;
}

int gd__reader_read(struct gd__reader *r)
{
    int rc = read_changing(r);
    if (rc < 0)
        return rc;
    const size_t live = r->plan.live;
    const struct ring tasks = {
        .offset = r->plan.tasks,
        .entry = sizeof(struct gd__page_task),
        .begun_at = live + offsetof(struct gd__page_live, tasks_begun),
        .capacity = GD__PAGE_TASKS,
        .tail = r->run.tasks_tail,
        .ended = r->run.tasks_ended,
    };
    const struct ring failures = {
        .offset = r->plan.failures,
        .entry = sizeof(struct gd__page_failure),
        .begun_at = live + offsetof(struct gd__page_live, failures_begun),
        .capacity = GD__PAGE_FAILURES,
        .tail = r->run.failures_tail,
        .ended = r->run.failures_ended,
    };
    const struct ring requests = {
        .offset = r->plan.requests,
        .entry = sizeof(struct gd__page_request),
        .begun_at = live + offsetof(struct gd__page_live, requests_begun),
        .capacity = GD__PAGE_REQUESTS,
        .tail = r->run.requests,
        .ended = r->run.requests,
    };
    rc = read_ring(r->fd, &tasks, r->no_tasks, &r->tasks);
    if (rc == 0)
        rc = read_ring(r->fd, &failures, r->no_failures, &r->failures);
    return rc < 0 ? rc : read_ring(r->fd, &requests, false, &r->requests);
}
