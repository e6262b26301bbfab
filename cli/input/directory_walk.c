/* SPDX-License-Identifier: MIT
 *
 * Finds the files of a directory on a separate thread. There are two threads and two buffers. The searching thread
 * fills one buffer and waits when it is full. The reading thread empties the other and then swaps them. So the lock is
 * taken at most once for each file, and the search is never more than two buffers ahead of the tasks.
 *
 * A buffer is a sequence of entries: size of the file (8 bytes), its path, a NUL.
 */
#include "cli/input/directory_walk.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "base/text/buffer.h"
#include "base/thread.h"

enum { BUFFER_FULL = 64 * 1024 };

struct cli_directory_walk {
    char *dir;
    struct gd_discover what;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t data, space;
    struct gd__buffer filling; /* this and the next three fields are under the lock */
    bool ended, stopped;
    char problem[512];          /* the error message of the search; empty: no error */
    struct gd__buffer emptying; /* used only by the reading thread */
    size_t at;
};

/* A gd_file_fn. A result other than 0 stops the search. */
static int put(void *user, const char *path, uint64_t size)
{
    struct cli_directory_walk *w = user;
    pthread_mutex_lock(&w->lock);
    while (w->filling.size >= BUFFER_FULL && !w->stopped)
        pthread_cond_wait(&w->space, &w->lock);
    bool was_empty = w->filling.size == 0;
    gd__buffer_add(&w->filling, &size, sizeof size);
    gd__buffer_add(&w->filling, path, strlen(path) + 1);
    int stop = w->stopped || w->filling.failed;
    pthread_mutex_unlock(&w->lock);
    if (was_empty)
        pthread_cond_signal(&w->data);
    return stop;
}

static void *search(void *arg)
{
    struct cli_directory_walk *w = arg;
    int result = gd_discover_files(w->dir, &w->what, put, w);
    pthread_mutex_lock(&w->lock);
    if (w->filling.failed)
        memcpy(w->problem, "out of memory", sizeof "out of memory");
    else if (result < 0)
        /* The library stores an error text for each thread. The reading thread cannot see the text of this one. */
        strncat(w->problem, gd_error_text(), sizeof w->problem - 1);
    w->ended = true;
    pthread_mutex_unlock(&w->lock);
    pthread_cond_signal(&w->data);
    return NULL;
}

/* Waits for an entry or for the end. Returns 1 if there is an entry, 0 at the end, -1 on an error. */
static int await_entries(struct cli_directory_walk *w)
{
    pthread_mutex_lock(&w->lock);
    while (w->filling.size == 0 && !w->ended && !w->stopped)
        pthread_cond_wait(&w->data, &w->lock);
    int some = w->filling.size > 0 && !w->stopped;
    if (!some && w->problem[0] && !w->stopped)
        some = gd__fail("%s", w->problem);
    pthread_mutex_unlock(&w->lock);
    return some;
}

int cli_directory_walk_nothing(const char *dir, const struct gd_discover *what)
{
    char all[256] = "";
    for (const char *const *p = what->patterns; p && *p; p++) {
        if (p != what->patterns)
            strncat(all, " or ", sizeof all - strlen(all) - 1);
        strncat(all, *p, sizeof all - strlen(all) - 1);
    }
    const char *deeper = what->recursive ? "" : " (subdirectories are searched only with --recursive)";
    if (!*all)
        return gd__fail("no files in %s%s", dir, deeper);
    return gd__fail("no file in %s matches %s%s", dir, all, deeper);
}

int cli_directory_walk_open(struct cli_directory_walk **out, const char *dir, const struct gd_discover *what)
{
    struct cli_directory_walk *w = calloc(1, sizeof *w);
    if (!w || !(w->dir = strdup(dir))) {
        free(w);
        return gd__fail("out of memory");
    }
    w->what = *what;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->data, NULL);
    pthread_cond_init(&w->space, NULL);
    int code = gd__thread_start(&w->thread, "gd-walk", search, w);
    if (code) {
        free(w->dir);
        free(w);
        return gd__fail("cannot start a thread: %s", strerror(code));
    }
    int some = await_entries(w);
    if (some <= 0) {
        if (some == 0)
            (void)cli_directory_walk_nothing(dir, what);
        cli_directory_walk_close(&w);
        return -1;
    }
    *out = w;
    return 0;
}

/* Waits for the other buffer and swaps them. Returns 1, 0 at the end, or -1. */
static int swap(struct cli_directory_walk *w)
{
    int some = await_entries(w);
    if (some <= 0)
        return some;
    pthread_mutex_lock(&w->lock);
    struct gd__buffer full = w->filling;
    w->filling = w->emptying;
    w->filling.size = 0;
    w->emptying = full;
    w->at = 0;
    pthread_mutex_unlock(&w->lock);
    pthread_cond_signal(&w->space);
    return 1;
}

int cli_directory_walk_next(struct cli_directory_walk *w, const char **path, uint64_t *size)
{
    int some = w->at < w->emptying.size ? 1 : swap(w);
    if (some <= 0)
        return some;
    const char *entry = w->emptying.data + w->at;
    memcpy(size, entry, sizeof *size);
    *path = entry + sizeof *size;
    w->at += sizeof *size + strlen(*path) + 1;
    return 1;
}

void cli_directory_walk_stop(struct cli_directory_walk *w)
{
    pthread_mutex_lock(&w->lock);
    w->stopped = true;
    pthread_mutex_unlock(&w->lock);
    pthread_cond_broadcast(&w->data);
    pthread_cond_broadcast(&w->space);
}

void cli_directory_walk_close(struct cli_directory_walk **walk)
{
    struct cli_directory_walk *w = *walk;
    if (!w)
        return;
    cli_directory_walk_stop(w);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->space);
    pthread_cond_destroy(&w->data);
    pthread_mutex_destroy(&w->lock);
    gd__buffer_free(&w->filling);
    gd__buffer_free(&w->emptying);
    free(w->dir);
    free(w);
    *walk = NULL;
}
