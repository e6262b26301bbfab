/* The thread that writes. Once in every window, or when there is much to write, it takes all gathered records and
 * writes them in one transaction. If there is nothing to write, it sleeps on a condition variable.
 *
 * A group that cannot be written stays in memory. If another program has locked the journal, writing is tried again, as
 * with a slow disk. Any other failure ends the run, because later tasks could not be recorded either. When the journal
 * is closed, it tries once more to write the remaining records.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/thread.h"
#include "journal/internal.h"

enum { MUCH = 8 << 20, BUSY_TRIES = 5 };

size_t gd__writer_much(const struct gd_journal *j)
{
    return j->o.queue_bytes / 2 < MUCH ? j->o.queue_bytes / 2 : MUCH;
}

double gd__wall_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* --- under the lock --- */

static bool has_work(const struct gd_journal *j)
{
    return j->error == 0 && (j->gathered.used > 0 || j->writing.used > 0 || j->row_stale);
}

static void wait_until(struct gd_journal *j, uint64_t ns)
{
    const struct timespec t = { (time_t)(ns / GD__NS_PER_S), (long)(ns % GD__NS_PER_S) };
    pthread_cond_timedwait(&j->work, &j->lock, &t);
}

/* Waits until the window of the gathered records is over. */
static void wait_for_window(struct gd_journal *j)
{
    const uint64_t until = j->gathered_since + j->o.window_ms * GD__NS_PER_MS;
    while (!j->flush && !j->closing && j->gathered.used < gd__writer_much(j) && gd__now_ns() < until)
        wait_until(j, until);
}

static void take_gathered(struct gd_journal *j)
{
    const struct gd__bytes_buffer empty = j->writing;
    j->writing = j->gathered;
    j->gathered = empty;
    j->n_writing = j->n_gathered;
    j->n_gathered = 0;
    j->gathered_since = 0;
    j->row_stale = false;
    j->how_then = j->how;
    for (size_t i = 0; i < j->n_files; i++)
        j->files[i].size_then = j->files[i].size;
}

void gd__writer_fail(struct gd_journal *j)
{
    if (j->error < 0)
        return;
    j->error = GD_E_JOURNAL;
    snprintf(j->message, sizeof j->message, "%s", gd_error_text());
    pthread_cond_broadcast(&j->moved); /* threads that wait for the disk need not wait any more */
    if (j->told.failed)
        j->told.failed(j->told.user);
}

/* Takes a group, if the last one is written, and writes it. Releases the lock while it writes. */
static int write_group(struct gd_journal *j)
{
    if (j->writing.used == 0)
        take_gathered(j);
    j->busy_now = true;
    pthread_cond_broadcast(&j->moved); /* a run that waits for the disk may gather the next group */
    pthread_mutex_unlock(&j->lock);
    const int rc = gd__store_group(j);
    pthread_mutex_lock(&j->lock);
    j->busy_now = false;
    if (rc == 0) {
        j->writing.used = 0;
        j->n_written += j->n_writing;
        j->n_writing = 0;
    } else {
        j->row_stale = true; /* there may have been no records, only the run row */
    }
    return rc;
}

/* --- the thread --- */

static void *writer_main(void *arg)
{
    struct gd_journal *j = arg;
    unsigned busy = 0;
    pthread_mutex_lock(&j->lock);
    for (;;) {
        while (!has_work(j) && !j->closing)
            pthread_cond_wait(&j->work, &j->lock);
        if (!has_work(j))
            break;
        wait_for_window(j);
        const int rc = write_group(j);
        busy = rc == GD_E_BUSY ? busy + 1 : 0;
        const bool again = rc == GD_E_BUSY && ((!j->flush && !j->closing) || busy < BUSY_TRIES);
        if (rc < 0 && !again)
            gd__writer_fail(j);
        if (rc == 0 && !has_work(j))
            j->flush = false;
        pthread_cond_broadcast(&j->moved);
    }
    pthread_mutex_unlock(&j->lock);
    return NULL;
}

int gd__writer_start(struct gd_journal *j)
{
    const int rc = gd__thread_start(&j->thread, "gd-journal", writer_main, j);
    j->started = rc == 0;
    if (rc == 0)
        return 0;
    errno = rc;
    return gd__error_errno("cannot start the journal's thread");
}

void gd__writer_stop(struct gd_journal *j)
{
    if (!j->started)
        return;
    pthread_mutex_lock(&j->lock);
    j->closing = true;
    pthread_cond_signal(&j->work);
    pthread_mutex_unlock(&j->lock);
    pthread_join(j->thread, NULL);
    j->started = false;
    if (j->error == 0)
        return;
    /* Try once more: the disk may have room by now. */
    pthread_mutex_lock(&j->lock);
    int rc = 0;
    do
        rc = write_group(j);
    while (rc == 0 && (j->gathered.used > 0 || j->how_then != j->how));
    if (rc == 0 && j->n_lost == 0)
        j->error = 0;
    else if (rc < 0)
        snprintf(j->message, sizeof j->message, "%s", gd_error_text());
    pthread_mutex_unlock(&j->lock);
}
