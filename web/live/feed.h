/* SPDX-License-Identifier: MIT
 *
 * The snapshots of a run for any number of viewers. One thread samples the run, and all viewers get the last sample.
 *
 * The thread samples once a second, or ten times a second while there are watchers. Watchers are sent a text when
 * something has changed, and at least once a second. All watchers share these texts. A slow watcher misses some of them
 * and gets the whole state again. A watcher that does not read at all keeps only one text in memory until it is
 * dropped.
 *
 * Threads: any thread may call these functions, but only one thread at a time may use a given watcher.
 */
#ifndef GD_WEB_LIVE_FEED_H
#define GD_WEB_LIVE_FEED_H

#include <sys/types.h>

#include <gpu_dispatch/observe.h>

#include "base/text/buffer.h"

/* Sets *out to a snapshot that is valid until the next call, and returns 0. Returns GD_E_NO_JOB if the run is gone, and
 * the snapshot is the last. */
typedef int web_read_fn(void *user, const struct gd_snapshot **out);

struct web_feed;

/* Reads once, then begins to sample. Returns 0, or -1 with gd__fail_text(). */
int web_feed_open(struct web_feed **out, web_read_fn *read, void *user);

/* The present state. */
void web_feed_stats(struct web_feed *f, struct gd__buffer *b);
void web_feed_history(struct web_feed *f, struct gd__buffer *b);
void web_feed_metrics(struct web_feed *f, struct gd__buffer *b);

/* --- watching: server-sent events --------------------------------------------- */

/* sleep() is called when there is nothing to send. After that, wake() is called once: when there is something to send,
 * or when the client is gone. The feed must check for that itself (is_gone()), because the server does not watch the
 * socket while the watcher sleeps. is_full() returns true if nothing can be sent, because the client does not read. All
 * are called with the feed's lock held. */
struct web_watch_ops {
    void (*sleep)(void *arg);
    void (*wake)(void *arg);
    bool (*is_gone)(void *arg);
    bool (*is_full)(void *arg);
};

struct web_watcher;

/* Returns NULL if there are too many watchers, or if memory runs out. */
struct web_watcher *web_feed_watch(struct web_feed *f, const struct web_watch_ops *ops, void *arg);

/* Copies up to max bytes of the stream. Returns their number, or 0 if the watcher sleeps now, -1 if the stream has
 * ended, -2 if the client is gone. */
ssize_t web_watcher_next(struct web_watcher *w, char *out, size_t max);

void web_watcher_leave(struct web_watcher *w);

size_t web_feed_watchers(struct web_feed *f);

/* --- the end -------------------------------------------------------------------- */

/* Called when the run is over. Takes the last sample, sends it to the watchers, and waits until they have left. Waits
 * at most wait_ms for clients that do not read. Waits at most most_ms for the server's thread, which may have to wait
 * for a CPU before it can serve the other clients. After this no watcher sleeps, and read is not called again. */
void web_feed_finish(struct web_feed *f, unsigned wait_ms, unsigned most_ms);

/* All watchers must have left. */
void web_feed_close(struct web_feed **f);

#endif
