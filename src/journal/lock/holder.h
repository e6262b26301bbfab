/* The holder of a journal's lock, as the lock file names it, and what can be known about it from here. See lock.c. */
#ifndef GD_JOURNAL_LOCK_HOLDER_H
#define GD_JOURNAL_LOCK_HOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/process/owner.h"

enum { GD__HOST_MAX = 65, GD__MACHINE_MAX = 40, GD__NONCE_MAX = 17 };

struct gd__lock_holder {
    struct gd__owner owner; /* pid 0: not known */
    char boot[GD__BOOT_ID_MAX];
    char machine[GD__MACHINE_MAX]; /* /etc/machine-id; "-": not known */
    char host[GD__HOST_MAX];       /* "": not known (a file of version 0.1) */
    char nonce[GD__NONCE_MAX];     /* random: no two holders have the same. "": not known */
    uint64_t beat;                 /* the heartbeat: a number that grows */
};

/* Times, and what a test pretends. $GPU_DISPATCH_LOCK_TEST is a list like
 * "host=a,boot=b,machine=m,space=1,stale_ms=300,locks=none,links=none,shared=1". Only tests set it. */
struct gd__lock_settings {
    unsigned stale_ms; /* a heartbeat that stands still this long is that of a dead holder */
    unsigned beat_ms;  /* how often a holder beats */
    unsigned look_ms;  /* how often a newcomer looks */
    bool no_locks;     /* pretend that the file system has no locks */
    bool local_locks;  /* pretend that locks exclude no process of another host */
    bool no_links;     /* pretend that the file system has no hard links, and no rename without replacing */
    int shared;        /* 1, 0: pretend that the file system is shared, or is not; -1: find out */
};
void gd__lock_settings_read(struct gd__lock_settings *out);

void gd__lock_holder_self(struct gd__lock_holder *out); /* this process, with a new nonce */
/* Writes everything to the lock file. Returns false if that fails; errno is set. */
bool gd__lock_holder_write(int fd, const struct gd__lock_holder *h);
/* Writes the heartbeat, and forces it to the server of the file system. Returns false if that fails; errno is set. */
bool gd__lock_holder_write_beat(int fd, uint64_t beat);
void gd__lock_holder_read(int fd, struct gd__lock_holder *out); /* members that are not in the file are 0 or "" */

/* True only if the holder is certainly gone: its process was one of this PID namespace and boot and has ended, or this
 * machine was restarted since. */
bool gd__lock_holder_is_gone(const struct gd__lock_holder *h);
/* Whether the process is in our PID namespace on our machine. */
bool gd__lock_holder_is_here(const struct gd__lock_holder *h);

/* "process 123 on node7". Uses "process 123" for this host and "" if nothing is known. */
enum { GD__LOCK_HOLDER_TEXT = 128 };
const char *gd__lock_holder_describe(const struct gd__lock_holder *h, char out[GD__LOCK_HOLDER_TEXT]);

#endif
