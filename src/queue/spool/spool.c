/* The spool of a node: see spool.h. The index of messages is an array in the order of the file, and a hash table that
 * finds a key in it. */
#include "queue/spool/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/file/write.h"
#include "queue/messages/message.h"
#include "queue/spool/frame.h"
#include "queue/spool/index.h"

enum {
    FIRST_MOST = GD__SPOOL_HEAD + GD__QUEUE_NAME_MOST + 1 + GD__HASH_SIZE, /* bytes of the first frame */
    COMPACT_FROM = 16 << 20, /* bytes that are not needed any more; below this, writing anew is not worth it */
    FORGET_MOST = 64 << 10,  /* bytes of 'f' frames that wait for the next write */
};

struct gd__spool {
    char *path;
    char *queue;
    struct gd__spool_queue_id id;
    struct gd__spool_frame recorded; /* the first frame, when the file was opened */
    int fd;
    uint64_t first; /* where the first message begins */
    uint64_t end;   /* of the valid part */
    uint64_t live;  /* bytes of the frames of messages that are kept */
    uint64_t cut;   /* bytes that were cut off when it was opened */
    bool is_broken; /* a write failed, and could not be undone */
    struct gd__spool_index index;
    struct gd__buffer forgets; /* 'f' frames that are not written yet */
};

/* --- opening --- */

/* Opens and locks the file. Another node may remove the file between the two steps, so the name is checked again. */
static int lock_file(int *out, const char *path)
{
    for (;;) {
        struct stat named, opened;
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
        fd = gd__fd_above_stdio(fd);
        if (fd < 0)
            return gd__error_errno("cannot open the spool file %s", path);
        if (fstat(fd, &opened) < 0 || !S_ISREG(opened.st_mode)) {
            close(fd);
            return gd__error(GD_E_INVALID, "the spool file %s is not an ordinary file: give another name with --spool",
                             path);
        }
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
            const bool busy = errno == EWOULDBLOCK;
            const int rc =
                busy ? gd__error(GD_E_BUSY,
                                 "another node uses the spool file %s: give each node its own file (--spool)", path)
                     : gd__error_errno("cannot lock the spool file %s", path);
            close(fd);
            return rc;
        }
        if (stat(path, &named) == 0 && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev) {
            *out = fd;
            return 0;
        }
        close(fd);
    }
}

static int add_frame(struct gd__spool *s, const struct gd__spool_frame *f)
{
    if (f->kind == GD__SPOOL_FORGET) {
        s->live -= gd__spool_index_remove(&s->index, &f->key);
        return 0;
    }
    if (f->kind != GD__SPOOL_KEEP)
        return 0;
    s->live -= gd__spool_index_remove(&s->index, &f->key);
    s->live += f->size;
    return gd__spool_index_add(&s->index, &f->key, f->at, f->size);
}

/* Whether the file is the beginning of a first frame: the process that wrote it was killed. No message fits into it. */
static bool is_begun(const struct gd__spool_scan *scan)
{
    static const unsigned char beginning[8] = { 'G', 'D', 's', 'p', GD__SPOOL_QUEUE };
    const size_t n = scan->size < sizeof beginning ? (size_t)scan->size : sizeof beginning;
    return scan->size <= FIRST_MOST && memcmp(scan->bytes, beginning, n) == 0;
}

/* Reads the first frame of a file that is not empty. Returns 1, 0 if it is not complete, or a negative code. */
static int read_queue(struct gd__spool *s, struct gd__spool_scan *scan)
{
    struct gd__spool_frame f;
    const int rc = gd__spool_scan_next(scan, &f);
    if (rc == 0 && is_begun(scan))
        return 0;
    if (rc == 0 || f.kind != GD__SPOOL_QUEUE)
        return gd__error(GD_E_CORRUPT,
                         "%s is not a spool file of gpu-dispatch, or its beginning is damaged: give another name with "
                         "--spool",
                         s->path);
    s->first = f.size;
    s->recorded = f;
    return 1;
}

static bool has_same_id(const struct gd__spool *s)
{
    const struct gd__spool_queue_id *recorded = &s->recorded.id;
    return !s->id.is_known || !recorded->is_known || memcmp(s->id.bytes, recorded->bytes, sizeof s->id.bytes) == 0;
}

/* Checks the queue of the messages that were found. A file without messages can be used for any queue. */
static int check_queue(struct gd__spool *s)
{
    if (s->index.count == 0) {
        s->end = s->first = 0;
        return ftruncate(s->fd, 0) < 0 ? gd__error_errno("cannot cut the spool file %s", s->path) : 0;
    }
    if (strcmp(s->recorded.name, s->queue) != 0)
        return gd__error(
            GD_E_MISMATCH,
            "the spool file %s holds records of the queue \"%s\": give another file with --spool, or run a "
            "node of that queue with it first",
            s->path, s->recorded.name);
    if (has_same_id(s))
        return 0;
    return gd__error(
        GD_E_MISMATCH,
        "the spool file %s holds records of another queue that is also called \"%s\": on another server, or "
        "one that was removed. Give another file with --spool, or remove this one",
        s->path, s->queue);
}

/* Finds the messages, and cuts off what was not written completely. */
static int read_file(struct gd__spool *s)
{
    struct gd__spool_scan scan;
    struct gd__spool_frame f;
    int rc = gd__spool_scan_open(&scan, s->fd);
    if (rc == 0 && scan.size > 0)
        rc = read_queue(s, &scan);
    s->end = s->first;
    while (rc > 0 && (rc = gd__spool_scan_next(&scan, &f)) > 0) {
        s->end = f.at + f.size;
        const int added = add_frame(s, &f);
        rc = added < 0 ? added : 1;
    }
    s->cut = scan.size - s->end;
    gd__spool_scan_close(&scan);
    if (rc == 0 && ftruncate(s->fd, (off_t)s->end) < 0)
        rc = gd__error_errno("cannot cut the spool file %s", s->path);
    return rc;
}

static int write_at_end(struct gd__spool *s, const struct gd__buffer *b)
{
    if (b->failed)
        return gd__error(GD_E_NO_MEMORY, "no memory for the spool");
    if (s->is_broken)
        return gd__error(GD_E_SYSTEM, "an earlier write to the spool file %s has failed", s->path);
    if (lseek(s->fd, (off_t)s->end, SEEK_SET) >= 0 && !GD__FAULT("spool") &&
        gd__write_all(s->fd, b->data, b->size) == 0) {
        s->end += b->size;
        return 0;
    }
    const int rc = gd__error_errno("cannot write the spool file %s", s->path);
    s->is_broken = ftruncate(s->fd, (off_t)s->end) < 0;
    return rc;
}

static int write_first(struct gd__spool *s)
{
    struct gd__buffer b = { .data = NULL };
    gd__spool_frame_queue(&b, s->queue, &s->id);
    const int rc = write_at_end(s, &b);
    s->first = s->end;
    gd__buffer_free(&b);
    return rc;
}

int gd__spool_open(struct gd__spool **out, const char *path, const char *queue, const struct gd__spool_queue_id *id)
{
    *out = NULL;
    struct gd__spool *s = gd__calloc(1, sizeof *s);
    if (!s)
        return gd__error(GD_E_NO_MEMORY, "no memory for the spool");
    s->fd = -1;
    s->path = gd__strdup(path);
    s->queue = gd__strdup(queue);
    s->id = *id;
    int rc = s->path && s->queue ? 0 : gd__error(GD_E_NO_MEMORY, "no memory for the spool");
    if (rc == 0)
        rc = lock_file(&s->fd, path);
    if (rc == 0)
        rc = read_file(s);
    if (rc == 0)
        rc = check_queue(s);
    if (rc == 0 && s->end == 0)
        rc = write_first(s);
    if (rc < 0) {
        gd__fd_close(&s->fd); /* the file may belong to somebody else: it is not removed */
        gd__spool_close(&s);
        return rc;
    }
    *out = s;
    return 0;
}

void gd__spool_close(struct gd__spool **sp)
{
    struct gd__spool *s = *sp;
    *sp = NULL;
    if (!s)
        return;
    if (s->fd >= 0 && s->index.count == 0)
        (void)unlink(s->path); /* still locked, so no other node has it */
    else if (s->fd >= 0 && s->forgets.size > 0)
        (void)write_at_end(s, &s->forgets);
    gd__fd_close(&s->fd);
    gd__spool_index_free(&s->index);
    gd__buffer_free(&s->forgets);
    gd__free(s->path);
    gd__free(s->queue);
    gd__free(s);
}

const char *gd__spool_path(const struct gd__spool *s)
{
    return s->path;
}

uint64_t gd__spool_count(const struct gd__spool *s)
{
    return s->index.count;
}

uint64_t gd__spool_cut(const struct gd__spool *s)
{
    return s->cut;
}

/* --- messages --- */

/* Reads the frame of an entry into *b. */
static int read_frame(const struct gd__spool *s, const struct gd__spool_entry *e, struct gd__buffer *b)
{
    b->size = 0;
    char *to = gd__buffer_reserve(b, e->size);
    if (!to)
        return gd__error(GD_E_NO_MEMORY, "no memory for a message of the spool");
    while (b->size < e->size) {
        const ssize_t n = pread(s->fd, to + b->size, e->size - b->size, (off_t)(e->at + b->size));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return gd__error(GD_E_CORRUPT, "cannot read the spool file %s: %s", s->path,
                             n < 0 ? strerror(errno) : "it is shorter than before");
        b->size += (size_t)n;
    }
    return 0;
}

int gd__spool_each(struct gd__spool *s, gd__spool_fn *fn, void *user)
{
    struct gd__buffer b = { .data = NULL };
    int rc = 0;
    for (size_t i = 0; rc >= 0 && i < s->index.n; i++) {
        const struct gd__spool_entry *e = &s->index.entries[i];
        if (e->size == 0) /* forgotten */
            continue;
        rc = read_frame(s, e, &b);
        if (rc == 0)
            rc = fn(user, &e->key, b.data + GD__SPOOL_MESSAGE_AT, e->size - GD__SPOOL_MESSAGE_AT);
    }
    gd__buffer_free(&b);
    return rc < 0 ? rc : 0;
}

static int copy_live(struct gd__spool *from, struct gd__spool *to)
{
    struct gd__buffer b = { .data = NULL };
    int rc = write_first(to);
    for (size_t i = 0; rc == 0 && i < from->index.n; i++) {
        const struct gd__spool_entry *e = &from->index.entries[i];
        if (e->size == 0)
            continue;
        rc = gd__spool_index_add(&to->index, &e->key, to->end, e->size);
        if (rc == 0)
            rc = read_frame(from, e, &b);
        if (rc == 0)
            rc = write_at_end(to, &b);
    }
    gd__buffer_free(&b);
    return rc;
}

/* Writes the messages that are left to a new file, which then replaces the old one. If this fails, the old file stays. */
static void compact(struct gd__spool *s)
{
    struct gd__spool fresh = { .fd = -1, .queue = s->queue, .id = s->id };
    if (asprintf(&fresh.path, "%s.new", s->path) < 0)
        return;
    (void)unlink(fresh.path); /* of a node that was killed here: the lock is held, so there is no other */
    int rc = lock_file(&fresh.fd, fresh.path);
    if (rc == 0)
        rc = copy_live(s, &fresh);
    if (rc == 0 && fdatasync(fresh.fd) == 0 && rename(fresh.path, s->path) == 0) {
        const int old = s->fd;
        struct gd__spool_index index = s->index;
        s->fd = fresh.fd;
        s->index = fresh.index;
        s->first = fresh.first;
        s->end = fresh.end;
        s->forgets.size = 0;
        fresh.fd = old;
        fresh.index = index;
    } else if (fresh.fd >= 0) {
        (void)unlink(fresh.path);
    }
    gd__fd_close(&fresh.fd);
    gd__spool_index_free(&fresh.index);
    free(fresh.path);
}

static void tidy(struct gd__spool *s)
{
    if (s->is_broken)
        return;
    if (s->index.count == 0 && s->end > s->first && ftruncate(s->fd, (off_t)s->first) == 0) {
        s->end = s->first;
        s->forgets.size = 0;
        gd__spool_index_clear(&s->index);
    } else if (s->end - s->first > 2 * s->live + COMPACT_FROM) {
        compact(s);
    }
}

int gd__spool_keep(struct gd__spool *s, const struct gd__queue_key *key, const void *message, size_t size, bool to_disk)
{
    struct gd__buffer b = { .data = NULL };
    gd__buffer_add(&b, s->forgets.data, s->forgets.size);
    const size_t before = b.size;
    gd__spool_frame_keep(&b, key, message, size);
    const uint64_t at = s->end + before;
    int rc = write_at_end(s, &b);
    if (rc == 0) {
        s->forgets.size = 0;
        s->live -= gd__spool_index_remove(&s->index, key);
        s->live += b.size - before;
        rc = gd__spool_index_add(&s->index, key, at, b.size - before);
    }
    gd__buffer_free(&b);
    if (rc == 0 && to_disk && fdatasync(s->fd) < 0)
        rc = gd__error_errno("cannot write the spool file %s to disk", s->path);
    return rc;
}

void gd__spool_forget(struct gd__spool *s, const struct gd__queue_key *key)
{
    const uint64_t size = gd__spool_index_remove(&s->index, key);
    if (size == 0)
        return;
    s->live -= size;
    gd__spool_frame_forget(&s->forgets, key);
    if (s->forgets.failed) /* the message may be found again, which does no harm */
        gd__buffer_free(&s->forgets);
    tidy(s);
    if (s->forgets.size > FORGET_MOST) {
        (void)write_at_end(s, &s->forgets);
        s->forgets.size = 0;
    }
}
