/* An event loop over epoll, for one thread. */
#ifndef GD_PROC_LOOP_H
#define GD_PROC_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

/* One watched descriptor. Embed it in the struct that it belongs to. fd is -1 while nothing is watched. */
struct gd__watch {
    int fd;
    void (*ready)(struct gd__watch *w, uint32_t events);
};
#define GD__WATCH_NONE \
    {                  \
        -1, NULL       \
    }

enum { GD__LOOP_BATCH = 64 };

struct gd__loop {
    int fd;      /* -1: closed */
    bool broken; /* waiting failed, because other code closed its descriptor */
    int n_pending, at;
    uint64_t woke_ns; /* when the last wait ended, before any callback; not set if until_ns was 0 */
    struct epoll_event pending[GD__LOOP_BATCH];
};

int gd__loop_open(struct gd__loop *l);
void gd__loop_close(struct gd__loop *l); /* may be called twice; does not close watched descriptors */

/* Watches fd, which the caller still owns. events as for epoll: EPOLLIN, EPOLLET... */
int gd__loop_add(struct gd__loop *l, struct gd__watch *w, int fd, uint32_t events,
                 void (*ready)(struct gd__watch *, uint32_t));
int gd__loop_change(struct gd__loop *l, struct gd__watch *w, uint32_t events);
/* w->ready is not called after this, even for an event already fetched. No-op if not watched. */
void gd__loop_remove(struct gd__loop *l, struct gd__watch *w);

/* Waits until a descriptor is ready or the time is until_ns (CLOCK_MONOTONIC; GD__NEVER: no limit; 0: do not wait), and
 * calls the callbacks of the ready descriptors. Returns how many were ready, or a negative code. Returns 0 after EINTR.
 * The time is precise to well under a millisecond. */
int gd__loop_wait(struct gd__loop *l, uint64_t until_ns);

#endif
