/* A worker's process, from posix_spawn to its last status.
 *
 * posix_spawn is used because fork copies page tables (slow in a big program) and a forked CUDA context is broken. The
 * child leads its own process group, so that all processes that it starts can be killed with it.
 *
 * Process ids are reused, pidfds are not. The pidfd reports when the process has ended. A process id is signalled only
 * while it certainly belongs to this child (see group_is_ours). The program that uses the library may ignore SIGCHLD,
 * or wait for any child in another thread. Then only the exit status is lost.
 *
 * Needs Linux 5.4 (waitid on a pidfd).
 */
#include "proc/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "proc/descendants.h"

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#define WAIT_FOR_PIDFD ((idtype_t)3) /* P_PIDFD; older headers lack it, and #ifdef cannot test for an enumerator */

#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34) && !defined(GD_NO_CLOSEFROM)
#define HAVE_CLOSEFROM 1
#endif
#if __GLIBC_PREREQ(2, 32)
#define describe_signal(signal) sigdescr_np(signal)
#endif
#endif
#ifndef describe_signal
#define describe_signal(signal) strsignal(signal)
#endif

/* The child's descriptors, by the number they get there. */
enum { BOOT_FD = 3, N_FDS = 4 };

/* Every source is first copied to this number or a higher one. If a program runs with some of 0..3 closed, its own
 * files get these numbers. Then one dup2 in the child would overwrite the source of the next dup2. */
enum { SPARE_FD = 10 };

static int copy_up(int fd, int *copy)
{
    *copy = GD__FAULT("dup") ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, SPARE_FD);
    return *copy < 0 ? -1 : 0;
}

/* Copies the descriptor of a standard stream of the child. The stream is /dev/null if no descriptor was requested, or
 * if the requested one is a standard stream of this process that is closed. */
static int copy_stream(int fd, int null_fd, int *copy)
{
    if (fd < 0)
        return copy_up(null_fd, copy);
    if (copy_up(fd, copy) == 0)
        return 0;
    return errno == EBADF && fd <= STDERR_FILENO ? copy_up(null_fd, copy) : -1;
}

/* Opens /dev/null at a high number. The descriptor that open() returns is closed at once. It may be 1, if that was
 * closed, and must not be used as our standard output. */
static int open_null(int *copy)
{
    int fd = GD__FAULT("open") ? -1 : open("/dev/null", O_RDWR | O_CLOEXEC);

    if (fd < 0)
        return gd__error_errno("cannot open /dev/null");
    int rc = copy_up(fd, copy) < 0 ? gd__error_errno("cannot copy a descriptor") : 0;
    close(fd);
    return rc;
}

static void close_sources(int sources[N_FDS])
{
    for (int i = 0; i < N_FDS; i++) {
        if (sources[i] >= 0)
            close(sources[i]);
        sources[i] = -1;
    }
}

static int open_sources(int sources[N_FDS], const struct gd__child_spec *spec)
{
    for (int i = 0; i < N_FDS; i++)
        sources[i] = -1;
    int rc = open_null(&sources[STDIN_FILENO]);
    if (rc < 0)
        return rc;

    if (copy_stream(spec->stdout_fd, sources[STDIN_FILENO], &sources[STDOUT_FILENO]) < 0 ||
        copy_stream(spec->stderr_fd, sources[STDIN_FILENO], &sources[STDERR_FILENO]) < 0 ||
        copy_up(spec->boot_fd, &sources[BOOT_FD]) < 0) {
        rc = gd__error_errno("cannot copy a descriptor for the process");
        close_sources(sources);
    }
    return rc;
}

/* The functions below return an error number, as posix_spawn() does. */

#ifdef HAVE_CLOSEFROM
static int close_the_rest(posix_spawn_file_actions_t *actions)
{
    return posix_spawn_file_actions_addclosefrom_np(actions, N_FDS);
}
#else
/* Closes the descriptors that are open now. If another thread opens a descriptor before the spawn, the child inherits
 * it unless it is close-on-exec. If another thread closes a descriptor meanwhile, that does no harm. */
static int close_the_rest(posix_spawn_file_actions_t *actions)
{
    DIR *dir = GD__FAULT("opendir") ? NULL : opendir("/proc/self/fd");
    int rc = 0;

    if (!dir)
        return errno;
    for (struct dirent *e; rc == 0 && (e = readdir(dir));) {
        int fd = e->d_name[0] == '.' ? -1 : atoi(e->d_name);

        if (fd >= N_FDS)
            rc = posix_spawn_file_actions_addclose(actions, fd);
    }
    closedir(dir);
    return rc;
}
#endif

static int fill_actions(posix_spawn_file_actions_t *actions, const int sources[N_FDS])
{
    int rc = 0;

    for (int i = 0; i < N_FDS && rc == 0; i++)
        rc = posix_spawn_file_actions_adddup2(actions, sources[i], i);
    return rc ? rc : close_the_rest(actions);
}

int gd__spawn_attributes(posix_spawnattr_t *attributes, short more)
{
    sigset_t none, all;
    int rc;

    sigemptyset(&none);
    sigfillset(&all); /* glibc leaves its internal signals out of it */
    sigdelset(&all, SIGKILL);
    sigdelset(&all, SIGSTOP);
    if ((rc = posix_spawnattr_setsigmask(attributes, &none)) || (rc = posix_spawnattr_setsigdefault(attributes, &all)))
        return rc;
    return posix_spawnattr_setflags(attributes, (short)(more | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
}

static int spawn(pid_t *pid, const struct gd__child_spec *spec, const int sources[N_FDS])
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int rc = posix_spawn_file_actions_init(&actions);

    if (rc)
        return rc;
    if ((rc = posix_spawnattr_init(&attributes)))
        goto out_actions;
    if ((rc = fill_actions(&actions, sources)) || (rc = posix_spawnattr_setpgroup(&attributes, 0)) ||
        (rc = gd__spawn_attributes(&attributes, POSIX_SPAWN_SETPGROUP)))
        goto out;
    rc = GD__FAULT("spawn") ? errno : posix_spawnp(pid, spec->path, &actions, &attributes, spec->argv, spec->envp);
out:
    posix_spawnattr_destroy(&attributes);
out_actions:
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

/* A child starts on the CPUs of the thread that spawns it. So this thread moves to the wanted CPUs first, and even the
 * child's loader runs on them. If these CPUs are no longer available, the child is started anyway. */
static int spawn_on(pid_t *pid, const struct gd__child_spec *spec, const int sources[N_FDS])
{
    cpu_set_t ours;
    const bool moved = spec->cpus && sched_getaffinity(0, sizeof ours, &ours) == 0 &&
                       sched_setaffinity(0, sizeof *spec->cpus, spec->cpus) == 0;
    const int rc = spawn(pid, spec, sources);

    if (moved)
        (void)sched_setaffinity(0, sizeof ours, &ours);
    return rc;
}

/* A child that cannot be watched is useless, so it is killed and waited for. SIGKILL does not take long. */
static void destroy_unwatched(pid_t pid)
{
    if (kill(-pid, SIGKILL) < 0)
        kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

int gd__pidfd_open(pid_t pid)
{
    return GD__FAULT("pidfd") ? -1 : gd__fd_above_stdio((int)syscall(SYS_pidfd_open, pid, 0));
}

static int watch(struct gd__child *c, pid_t pid, const char *path)
{
    int fd = gd__pidfd_open(pid);

    if (fd < 0) {
        int rc = gd__error_errno("cannot open a pidfd of the process of %s", path);

        if (errno != ESRCH) /* ESRCH: other code has reaped the process, so its id may belong to another one */
            destroy_unwatched(pid);
        return rc;
    }
    c->pid = pid;
    c->pidfd = fd;
    return 0;
}

int gd__child_spawn(struct gd__child *c, const struct gd__child_spec *spec)
{
    int sources[N_FDS];
    pid_t pid = 0;

    *c = (struct gd__child)GD__CHILD_NONE;
    int rc = open_sources(sources, spec);
    if (rc < 0)
        return gd__error_context(rc, "cannot start %s", spec->path);

    int failure = spawn_on(&pid, spec, sources);
    close_sources(sources);
    if (failure) {
        errno = failure;
        return gd__error_errno("cannot start %s", spec->path);
    }
    return watch(c, pid, spec->path);
}

/* Whether c->pid can only mean this child's group.
 *
 * As long as our child is not reaped, no other process has its id, even if the child is dead. If other code has reaped
 * it, the kernel still does not reuse the id while the group has a member. So if another process has the id now, the
 * group is empty and there is nothing to signal. If no process has the id, a group with that id consists of processes
 * that our child left behind. */
static bool group_is_ours(const struct gd__child *c)
{
    if (syscall(SYS_pidfd_send_signal, c->pidfd, 0, NULL, 0) == 0 || errno != ESRCH)
        return true;
    return kill(c->pid, 0) < 0 && errno == ESRCH;
}

/* Processes that left the group can be found only while the child exists. The child is stopped meanwhile, so that it
 * starts no more processes. */
static void kill_outside_group(const struct gd__child *c)
{
    if (syscall(SYS_pidfd_send_signal, c->pidfd, 0, NULL, 0) < 0 || gd__descendants_signal(c->pid, SIGKILL, false) == 0)
        return;
    (void)syscall(SYS_pidfd_send_signal, c->pidfd, SIGSTOP, NULL, 0);
    gd__descendants_end(c->pid, false);
}

void gd__child_signal(struct gd__child *c, int signal)
{
    if (c->pid <= 0 || c->pidfd < 0)
        return;
    if (signal == SIGKILL)
        kill_outside_group(c);
    bool reached = group_is_ours(c) && kill(-c->pid, signal) == 0;
    /* The child may have left its group. A second SIGKILL does no harm, but another signal must not be sent twice. */
    if (!reached || signal == SIGKILL)
        (void)syscall(SYS_pidfd_send_signal, c->pidfd, signal, NULL, 0);
}

static int wait_now(const struct gd__child *c, siginfo_t *info, int flags)
{
    int rc;

    memset(info, 0, sizeof *info); /* si_pid stays 0 if nothing has ended */
    do {
        rc = waitid(WAIT_FOR_PIDFD, (id_t)c->pidfd, info, WEXITED | WNOHANG | flags);
    } while (rc < 0 && errno == EINTR);
    return rc;
}

static bool has_ended(const struct gd__child *c)
{
    struct pollfd p = { .fd = c->pidfd, .events = POLLIN };

    return poll(&p, 1, 0) == 1;
}

static struct gd__exit exit_of(const siginfo_t *info)
{
    struct gd__exit e = { .known = true };

    if (info->si_code == CLD_EXITED) {
        e.code = info->si_status;
    } else {
        e.signal = info->si_status;
        e.core = info->si_code == CLD_DUMPED;
    }
    return e;
}

bool gd__child_can_be_reaped(const struct gd__child *c)
{
    siginfo_t info;
    if (c->pid <= 0 || c->pidfd < 0)
        return false;
    if (wait_now(c, &info, WNOWAIT) == 0)
        return info.si_pid != 0;
    return errno != ECHILD || has_ended(c); /* gd__child_reap() reports the error */
}

int gd__child_reap(struct gd__child *c, struct gd__exit *out)
{
    siginfo_t info, unused;

    if (c->pid <= 0 || c->pidfd < 0)
        return gd__error(GD_E_INVALID, "there is no child process to wait for");
    /* First check without reaping. Until the dead child is reaped, no other process has its id, and its group can be
     * killed. */
    if (wait_now(c, &info, WNOWAIT) == 0) {
        if (info.si_pid == 0)
            return 0;
        *out = exit_of(&info);
    } else {
        if (errno != ECHILD)
            return gd__error_errno("cannot wait for process %d", (int)c->pid);
        if (!has_ended(c))
            return 0;
        *out = (struct gd__exit){ .known = false };
    }
    if (group_is_ours(c))
        kill(-c->pid, SIGKILL);
    (void)wait_now(c, &unused, 0); /* may fail with ECHILD if other code reaped it: its status is known already */
    gd__child_forget(c);
    return 1;
}

void gd__child_forget(struct gd__child *c)
{
    if (c->pidfd >= 0)
        close(c->pidfd);
    *c = (struct gd__child)GD__CHILD_NONE;
}

void gd__exit_describe(const struct gd__exit *e, char *text, size_t size)
{
    if (!e->known) {
        snprintf(text, size, "ended (its exit status was taken by another wait() in this program)");
    } else if (e->signal) {
        const char *description = describe_signal(e->signal);

        snprintf(text, size, "killed by signal %d (%s)%s", e->signal, description ? description : "unknown",
                 e->core ? ", core dumped" : "");
    } else {
        snprintf(text, size, "exited with code %d", e->code);
    }
}
