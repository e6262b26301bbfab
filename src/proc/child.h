/* A worker's process. It is started with posix_spawn (never fork), in its own process group, and watched through a
 * pidfd. */
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
    const char *path; /* searched for in PATH if it has no slash */
    char *const *argv;
    char *const *envp;
    const cpu_set_t *cpus; /* the CPUs it may run on; NULL: those of this process */
    int boot_fd;           /* becomes descriptor 3 */
    int stdout_fd;         /* becomes descriptor 1; -1: /dev/null; 1: that of this process */
    int stderr_fd;         /* becomes descriptor 2, likewise */
};

struct gd__exit {
    bool known; /* false: other code reaped the process */
    int signal; /* the signal that killed it; 0: it exited */
    int code;   /* exit code */
    bool core;
};

/* Returns a descriptor that is readable when the process has ended. It is close-on-exec and above 2. On failure returns
 * -1 with errno. */
int gd__pidfd_open(pid_t pid);

/* Sets attributes for starting any process: default signal handlers, no signal blocked, and the flags in `more`
 * (POSIX_SPAWN_...). Returns an error number. */
int gd__spawn_attributes(posix_spawnattr_t *attributes, short more);

/* The child's stdin is /dev/null, its signal handlers are the default ones and no signal is blocked. It inherits only
 * descriptors 0 to 3. */
int gd__child_spawn(struct gd__child *c, const struct gd__child_spec *spec);

/* Signals the whole process group. No-op if there is no process. */
void gd__child_signal(struct gd__child *c, int signal);

/* Whether gd__child_reap() would return something other than 0. Remove the watch of the pidfd before you call
 * gd__child_reap(). That function closes the pidfd, but if this process was forked meanwhile, the fork still has it
 * open, and epoll would continue to report it. */
bool gd__child_can_be_reaped(const struct gd__child *c);

/* Returns 1 if the process had ended: then it was reaped, the rest of its group was killed, *out is set, and *c is
 * GD__CHILD_NONE again. Returns 0 if the process is running. On failure returns GD_E_SYSTEM. Never blocks. Works even
 * if SIGCHLD is ignored or other code calls wait(). */
int gd__child_reap(struct gd__child *c, struct gd__exit *out);

/* Forgets the process without waiting for it. For a process that cannot be killed. */
void gd__child_forget(struct gd__child *c);

/* "killed by signal 11 (Segmentation fault)", "exited with code 3", "ended (status taken by another wait)". */
void gd__exit_describe(const struct gd__exit *e, char *text, size_t size);

#endif
