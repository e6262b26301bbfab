/* The heartbeat of a holder, on a file system that other hosts may use.
 *
 * A thread writes a growing number into the lock file. It is a thread of its own, and not the journal's writer, because
 * a large transaction on a slow file system may take longer than the time after which a holder is given up, and because
 * the writer only exists during the run. On a local file system there is no such thread.
 *
 * A beat that cannot be written is tried again with the next one. It does not end the run: maybe nobody waits for the
 * journal. If another run takes the journal over, this run finds out in two ways. After each beat it opens the lock
 * file by its name, and finds another nonce there. And every transaction compares the nonce in the database
 * (write/store.c), which is what counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/thread.h"
#include "journal/lock/lock.h"

/* Also counts while the machine sleeps, unlike gd__now_ns(). */
static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * GD__NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Opens the file anew: on NFS this makes the client ask the server. Returns true if it cannot be told. */
static bool is_ours_there(const struct gd__journal_lock *h)
{
    struct gd__lock_holder there;
    const int fd = gd__fd_above_stdio(open(h->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (fd < 0)
        return errno != ENOENT;
    gd__lock_holder_read(fd, &there);
    close(fd);
    return !*there.nonce || strcmp(there.nonce, h->me.nonce) == 0;
}

/* Under the lock of the heart. */
static void beat(struct gd__journal_lock *h)
{
    struct gd__heart *t = &h->heart;
    t->beat++;
    if (GD__FAULT("lock_beat") || !gd__lock_holder_write_beat(h->file.fd, t->beat)) {
        t->error = errno;
    } else {
        t->error = 0;
        t->beaten_ns = now_ns();
    }
    if (!is_ours_there(h))
        t->replaced = true;
}

void gd__heart_beat(struct gd__journal_lock *h)
{
    pthread_mutex_lock(&h->heart.lock);
    beat(h);
    pthread_mutex_unlock(&h->heart.lock);
}

static void *heart_main(void *arg)
{
    struct gd__journal_lock *h = arg;
    struct gd__heart *t = &h->heart;
    pthread_mutex_lock(&t->lock);
    while (!t->stop) {
        const uint64_t until = gd__now_ns() + h->settings.beat_ms * GD__NS_PER_MS;
        const struct timespec time = { (time_t)(until / GD__NS_PER_S), (long)(until % GD__NS_PER_S) };
        while (!t->stop && gd__now_ns() < until)
            pthread_cond_timedwait(&t->wake, &t->lock, &time);
        if (!t->stop)
            beat(h);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

int gd__heart_start(struct gd__journal_lock *h)
{
    struct gd__heart *t = &h->heart;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    t->beat = h->me.beat;
    t->beaten_ns = now_ns();
    const int rc = gd__thread_start(&t->thread, "gd-heartbeat", heart_main, h);
    t->started = rc == 0;
    if (rc == 0)
        return 0;
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    errno = rc;
    return gd__error_errno("cannot start the thread of the journal's heartbeat");
}

void gd__heart_stop(struct gd__journal_lock *h)
{
    struct gd__heart *t = &h->heart;
    if (!t->started)
        return;
    t->started = false;
    if (h->pid != getpid())
        return; /* in a fork: the thread is the parent's */
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
}

bool gd__journal_lock_is_lost(struct gd__journal_lock *h)
{
    struct stat info;
    bool replaced = false;
    if (h->heart.started) {
        pthread_mutex_lock(&h->heart.lock);
        replaced = h->heart.replaced;
        pthread_mutex_unlock(&h->heart.lock);
    }
    if (fstat(h->file.fd, &info) < 0)
        return replaced || errno == ESTALE;
    return replaced || info.st_nlink == 0;
}

int gd__journal_lock_check(struct gd__journal_lock *h)
{
    uint64_t quiet_ns = 0;
    int error = 0;
    if (h->heart.started) {
        const uint64_t most = h->settings.stale_ms / 2 * GD__NS_PER_MS;
        pthread_mutex_lock(&h->heart.lock);
        quiet_ns = now_ns() - h->heart.beaten_ns;
        if (quiet_ns > most)
            beat(h);
        error = h->heart.error;
        pthread_mutex_unlock(&h->heart.lock);
    }
    if (!gd__journal_lock_is_lost(h))
        return 0;
    if (!h->shared)
        return gd__error(GD_E_SYSTEM,
                         "%s was removed during the run, so another run may also write to the journal. Resume when no "
                         "other run uses it, and leave the lock file alone",
                         h->path);
    return gd__error(GD_E_SYSTEM,
                     "another run took over this journal, or %s was removed: this run had given no sign of life for "
                     "%.0f s%s%s. It writes nothing more",
                     h->path, (double)quiet_ns / 1e9, error ? ", because the lock file could not be written: " : "",
                     error ? strerror(error) : "");
}
