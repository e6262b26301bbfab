/* SPDX-License-Identifier: MIT
 *
 * A run's snapshots for any number of viewers: one thread samples, everybody is served from what it saw last.
 *
 * It samples once a second; ten times a second while somebody watches, and tells watchers when something changed, once
 * a second anyway. What they are told is text that they share. A watcher that is slow misses some of it and is given
 * the whole state again; one that does not read at all holds the one text it is at, and nothing else, until it is
 * dropped.
 *
 * Threads: all of these may be called by any, but a watcher is used by one at a time.
 */
#ifndef GD_WEB_LIVE_FEED_H
#define GD_WEB_LIVE_FEED_H

#include <sys/types.h>

#include <gpu_dispatch/observe.h>

#include "base/text/buffer.h"

/* 0 and a snapshot that is valid until the next call; GD_E_NO_JOB: the run is gone and this is the last. */
typedef int web_read_fn(void *user, const struct gd_snapshot **out);

struct web_feed;

/* Reads once, then begins to sample. 0, or -1 with gd__fail_text(). */
int web_feed_open(struct web_feed **out, web_read_fn *read, void *user);

/* What is known now. */
void web_feed_stats(struct web_feed *f, struct gd__buffer *b);
void web_feed_history(struct web_feed *f, struct gd__buffer *b);
void web_feed_metrics(struct web_feed *f, struct gd__buffer *b);

/* --- watching: server-sent events --------------------------------------------- */

/* sleep is called when there is nothing to tell, wake once after that when there is, or when the other side is gone:
 * nobody else would notice while it sleeps. is_full: nothing can be sent, since the other side does not read. All under
 * the feed's lock. */
struct web_watch_ops {
    void (*sleep)(void *arg);
    void (*wake)(void *arg);
    bool (*is_gone)(void *arg);
    bool (*is_full)(void *arg);
};

struct web_watcher;

/* NULL if there are too many, or memory ran out. */
struct web_watcher *web_feed_watch(struct web_feed *f, const struct web_watch_ops *ops, void *arg);

/* Up to max bytes of the stream: how many; 0: it sleeps; -1: the stream is at its end; -2: the
 * other side is gone. */
ssize_t web_watcher_next(struct web_watcher *w, char *out, size_t max);

void web_watcher_leave(struct web_watcher *w);

size_t web_feed_watchers(struct web_feed *f);

/* --- the end -------------------------------------------------------------------- */

/* The run is over: samples for the last time, tells the watchers, and waits until they have gone; no longer than
 * wait_ms for those who do not read, and than most_ms for the thread that serves the others, which may have to wait for
 * a CPU. Nobody sleeps after this. read is not called any more. */
void web_feed_finish(struct web_feed *f, unsigned wait_ms, unsigned most_ms);

/* All watchers have left. */
void web_feed_close(struct web_feed **f);

#endif
