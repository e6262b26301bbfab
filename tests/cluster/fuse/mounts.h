/* SPDX-License-Identifier: MIT
 *
 * For tests of journals and deals on a network file system (network_fs.h):
 *
 *     struct mount a, b;
 *     mounts_enter();                                   // a directory for the case, with its own list of mounts
 *     mount_begin(&a, "a", "--locks", "local", NULL);   // mounts the directory "server" at "a"
 *     mount_begin(&b, "b", NULL);
 *     mount_tell(&a, "cut");
 *     mount_end(&a);
 *
 * A case runs in its own mount namespace. So no mount is left, however the case ends: the kernel removes them with the
 * last process of the case. A case is skipped if this machine does not allow it.
 */
#ifndef GD_TESTS_CLUSTER_FUSE_MOUNTS_H
#define GD_TESTS_CLUSTER_FUSE_MOUNTS_H

#include <limits.h>

#include "support/directory.h"
#include "support/small_disk.h"

#define SERVER "server"

struct mount {
    const char *point;
    pid_t pid;
    int commands; /* write */
    int answers;
    bool reached; /* "cut-at" has cut it */
};

enum { MOUNTS_MOST = 8 };
static const char *mounts_points[MOUNTS_MOST];

/* The directory can be removed only when nothing is mounted in it. */
TEST_UNUSED static void mounts_leave(void)
{
    char path[PATH_MAX];
    if (getpid() != directory_owner || chdir("/") < 0)
        return;
    for (int i = 0; i < MOUNTS_MOST && mounts_points[i]; i++) {
        snprintf(path, sizeof path, "%s/%s", directory_path, mounts_points[i]);
        umount2(path, MNT_DETACH);
    }
}

TEST_UNUSED static void mounts_add(const char *point)
{
    int i = 0;
    while (i < MOUNTS_MOST - 1 && mounts_points[i] && strcmp(mounts_points[i], point) != 0)
        i++;
    mounts_points[i] = point;
}

TEST_UNUSED static void mounts_enter(void)
{
    if (access("/dev/fuse", R_OK | W_OK) < 0)
        SKIP("/dev/fuse cannot be used here");
    if (!small_disk_allowed() || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        SKIP("mounting is not allowed here");
    directory_enter();
    atexit(mounts_leave);
    signal(SIGPIPE, SIG_IGN);
    CHECK_EQ(mkdir(SERVER, 0755), 0);
}

/* Reads a line, without its newline. It is "" if the program ended. */
TEST_UNUSED static void mount_read(struct mount *m, char line[64])
{
    size_t n = 0;
    while (n < 63 && read(m->answers, line + n, 1) == 1 && line[n] != '\n')
        n++;
    line[n] = '\0';
    m->reached |= strcmp(line, "reached") == 0;
}

/* Returns false if the program ended before it answered. */
TEST_UNUSED static bool mount_answered(struct mount *m, const char *expected)
{
    char line[64];
    do
        mount_read(m, line);
    while (strcmp(line, "reached") == 0);
    if (*line)
        CHECK_STR(line, expected);
    return *line;
}

/* Mounts SERVER at the point, a path in the directory of the case, with options of network_fs. */
__attribute__((sentinel)) TEST_UNUSED static void mount_begin(struct mount *m, const char *point, ...)
{
    char program[PATH_MAX], *argv[16];
    int commands[2], answers[2], n = 0;
    va_list options;
    snprintf(program, sizeof program, "%s/network_fs", getenv("GD_TEST_PLUGINS") ? getenv("GD_TEST_PLUGINS") : ".");
    CHECK(mkdir(point, 0755) == 0 || errno == EEXIST);
    mounts_add(point);
    CHECK_EQ(pipe2(commands, O_CLOEXEC), 0);
    CHECK_EQ(pipe2(answers, O_CLOEXEC), 0);
    argv[n++] = program;
    va_start(options, point);
    for (char *option; (option = va_arg(options, char *));)
        argv[n++] = option;
    va_end(options);
    argv[n++] = (char[]){ SERVER };
    argv[n++] = (char *)(uintptr_t)point;
    argv[n] = NULL;
    fflush(NULL);
    *m = (struct mount){ .point = point, .pid = fork() };
    CHECK(m->pid >= 0);
    if (m->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (dup2(commands[0], 0) < 0 || dup2(answers[1], 1) < 0)
            _exit(127);
        execv(program, argv);
        _exit(127);
    }
    close(commands[0]);
    close(answers[1]);
    m->commands = commands[1];
    m->answers = answers[0];
    if (!mount_answered(m, "mounted"))
        SKIP("a FUSE file system cannot be mounted here");
}

/* Sends a command, and waits until it is carried out. */
TEST_UNUSED static void mount_tell(struct mount *m, const char *command)
{
    m->reached = false;
    CHECK_GT(dprintf(m->commands, "%s\n", command), 0);
    CHECK(mount_answered(m, "done"));
}

/* After "cut-at": waits until the mount is cut, or the process has ended. Returns whether the mount is cut. */
TEST_UNUSED static bool mount_await_cut(struct mount *m, pid_t pid)
{
    const int ended = (int)syscall(SYS_pidfd_open, pid, 0);
    char line[64];
    struct pollfd p[] = { { .fd = m->answers, .events = POLLIN }, { .fd = ended, .events = POLLIN } };
    CHECK(ended >= 0);
    while (!m->reached) {
        CHECK_GT(poll(p, 2, -1), 0);
        if (p[0].revents)
            mount_read(m, line);
        else if (p[1].revents)
            break;
    }
    close(ended);
    return m->reached;
}

/* Kills a process that waits for a cut mount, in mid-operation. That operation is not carried out. */
TEST_UNUSED static void mount_kill(struct mount *m, pid_t pid)
{
    int status;
    kill(pid, SIGKILL);
    mount_tell(m, "fail");
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status));
    mount_tell(m, "mend");
}

TEST_UNUSED static void mount_end(struct mount *m)
{
    CHECK_GT(dprintf(m->commands, "end\n"), 0); /* a fork of the case may have a copy of the pipe */
    close(m->commands);
    close(m->answers);
    CHECK_EQ(waitpid(m->pid, NULL, 0), m->pid);
}

#endif
