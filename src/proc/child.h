/* A worker's process: started by posix_spawn (never fork), in its own process group, watched through a pidfd. */
#ifndef GD_PROC_CHILD_H
#define GD_PROC_CHILD_H

#include <sched.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct gd__child {
    pid_t pid; /* 0: none */
    int pidfd; /* -1: none; readable when the process has ended */
};
#define GD__CHILD_NONE \
    {                  \
        0, -1          \
    }

struct gd__child_spec {
    const char *path; /* found through PATH if it has no slash */
    char *const *argv;
    char *const *envp;
    const cpu_set_t *cpus; /* that it may run on; NULL: ours */
    int boot_fd;           /* becomes descriptor 3 */
    int stdout_fd;         /* becomes 1; -1: /dev/null; 1: ours */
    int stderr_fd;         /* likewise 2 */
};

struct gd__exit {
    bool known; /* false: somebody else reaped it */
    int signal; /* that killed it; 0: it exited */
    int code;   /* exit code */
    bool core;
};

/* Readable when that process has ended; close-on-exec, above 2. -1 with errno. */
int gd__pidfd_open(pid_t pid);

/* For whoever starts a process: default signals, none blocked, and more flags (POSIX_SPAWN_...). Returns an error
 * number. */
int gd__spawn_attributes(posix_spawnattr_t *attributes, short more);

/* stdin is /dev/null, signal dispositions are default and none is blocked; no descriptor but 0 to 3 is passed on. */
int gd__child_spawn(struct gd__child *c, const struct gd__child_spec *spec);

/* Signals the whole process group. No-op if there is none. */
void gd__child_signal(struct gd__child *c, int signal);

/* Whether gd__child_reap() would have something to say, so that what watches the descriptor can be removed first: it is
 * closed there, but a process that was forked from ours meanwhile still has it, and epoll would go on reporting it. */
bool gd__child_can_be_reaped(const struct gd__child *c);

/* 1: it has ended, is reaped, what was left of its group is killed, *out is set, *c is none again; 0: it runs;
 * GD_E_SYSTEM otherwise. Never blocks. Copes with SIGCHLD ignored and with somebody else's wait(). */
int gd__child_reap(struct gd__child *c, struct gd__exit *out);

/* Lets go of it without waiting (it will not die). */
void gd__child_forget(struct gd__child *c);

/* "killed by signal 11 (Segmentation fault)", "exited with code 3", "ended (status taken by another wait)". */
void gd__exit_describe(const struct gd__exit *e, char *text, size_t size);

#endif
