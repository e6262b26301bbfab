/* SPDX-License-Identifier: MIT
 *
 * Machines that share a network file system (mounts.h), each with its own host name and boot id:
 *
 *     struct host a, b;
 *     mounts_enter();
 *     host_begin(&a, "a", "--locks", "local");   // has the directory "a", and the mount at "a/kept"
 *     host_begin(&b, "b", "--locks", "local");
 *     host_enter(&a);                                  // this process is on that machine now, in that directory
 *     ... start processes, which stay there ...
 *     host_leave();
 *     mount_tell(&a.mount, "cut");
 *     host_end(&a);
 *
 * A machine is a UTS namespace with its own host name, and a mount namespace in which another file is at the place of
 * the boot id. So the tested program finds what it finds on real machines. Processes of other machines are still
 * visible in /proc, which is not so on real ones: a program must not look for them there.
 */
#ifndef GD_TESTS_CLUSTER_FUSE_HOSTS_H
#define GD_TESTS_CLUSTER_FUSE_HOSTS_H

#include <sched.h>

#include "cluster/fuse/mounts.h"

struct host {
    const char *name;
    struct mount mount;
    char point[64];
    int names, mounts; /* its namespaces */
};

static int host_own_names = -1, host_own_mounts = -1;

TEST_UNUSED static int host_namespace(const char *process, const char *kind)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/ns/%s", process, kind);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

TEST_UNUSED static void host_write(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

/* Moves this process to new namespaces, and gives them the identity of the host. */
TEST_UNUSED static bool host_unshare(const char *name)
{
    char boot[64], path[64];
    snprintf(boot, sizeof boot, "%08x-0000-4000-8000-000000000000\n", (unsigned)name[0]);
    snprintf(path, sizeof path, "%s/boot_id", name);
    host_write(path, boot);
    return unshare(CLONE_NEWNS | CLONE_NEWUTS) == 0 && sethostname(name, strlen(name)) == 0 &&
           mount(path, "/proc/sys/kernel/random/boot_id", NULL, MS_BIND, NULL) == 0;
}

/* Makes the namespaces in a process of their own, which ends. The descriptors keep them. */
TEST_UNUSED static void host_make(struct host *h)
{
    int ready[2], end[2];
    char byte = 0, process[16];
    CHECK(pipe2(ready, O_CLOEXEC) == 0 && pipe2(end, O_CLOEXEC) == 0);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        close(end[1]);
        if (host_unshare(h->name) && write(ready[1], "x", 1) == 1)
            (void)!read(end[0], &byte, 1);
        _exit(0);
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        SKIP("a host name and a boot id cannot be set here");
    snprintf(process, sizeof process, "%d", (int)pid);
    h->names = host_namespace(process, "uts");
    h->mounts = host_namespace(process, "mnt");
    close(end[1]);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
    close(ready[0]);
    close(end[0]);
}

/* An option of network_fs, and its value. Either may be NULL. */
TEST_UNUSED static void host_begin(struct host *h, const char *name, const char *option, const char *value)
{
    *h = (struct host){ .name = name };
    CHECK_EQ(mkdir(name, 0755), 0);
    snprintf(h->point, sizeof h->point, "%s/kept", name);
    mount_begin(&h->mount, h->point, option, value, NULL);
    host_make(h); /* its list of mounts is a copy, so the mount must be in it */
}

TEST_UNUSED static void host_enter(const struct host *h)
{
    char path[PATH_MAX];
    if (host_own_names < 0) {
        host_own_names = host_namespace("self", "uts");
        host_own_mounts = host_namespace("self", "mnt");
    }
    snprintf(path, sizeof path, "%s/%s", directory_path, h->name);
    CHECK_EQ(setns(h->names, CLONE_NEWUTS), 0);
    CHECK_EQ(setns(h->mounts, CLONE_NEWNS), 0);
    CHECK_EQ(chdir(path), 0);
}

TEST_UNUSED static void host_leave(void)
{
    CHECK_EQ(setns(host_own_names, CLONE_NEWUTS), 0);
    CHECK_EQ(setns(host_own_mounts, CLONE_NEWNS), 0);
    CHECK_EQ(chdir(directory_path), 0);
}

/* Forks a process on that machine. */
TEST_UNUSED static pid_t host_fork(const struct host *h)
{
    host_enter(h);
    fflush(NULL);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    else
        host_leave();
    return pid;
}

TEST_UNUSED static void host_end(struct host *h)
{
    mount_end(&h->mount);
    close(h->names);
    close(h->mounts);
}

#endif
