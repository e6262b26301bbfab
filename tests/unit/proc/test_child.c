/* Child processes: what they inherit, and how they end. Nothing may be left after them. The children execute this
 * program with "--child WHAT". */
#include "proc/child.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/error.h"
#include "base/fault.h"
#include "support/test.h"

extern char **environ;

/* --- in the child ------------------------------------------------------- */

static bool is_null(int fd)
{
    struct stat s;

    return fstat(fd, &s) == 0 && S_ISCHR(s.st_mode) && s.st_rdev == makedev(1, 3);
}

static int pause_for_ever(void)
{
    while (pause() < 0)
        ;
    return 0;
}

static int child_fds(void)
{
    for (int fd = 0; fd < 1024; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            dprintf(3, "%d ", fd);
    }
    return 0;
}

static int child_signals(void)
{
    sigset_t blocked;

    sigprocmask(SIG_BLOCK, NULL, &blocked);
    for (int s = 1; s < SIGRTMAX; s++) {
        struct sigaction a;

        if (sigismember(&blocked, s) == 1)
            return 1;
        if (sigaction(s, NULL, &a) == 0 && a.sa_handler != SIG_DFL && s != SIGSEGV && s != SIGBUS && s != SIGFPE)
            return 2; /* sanitizers may handle these three signals */
    }
    return 0;
}

static int child_says_where(void)
{
    dprintf(3, "boot");
    dprintf(1, "out");
    dprintf(2, "err");
    return 0;
}

/* Starts a process that never ends by itself and keeps descriptors 1 and 3 open. */
static void start_grandchild(void)
{
    if (fork() == 0) {
        signal(SIGTERM, SIG_DFL);
        pause_for_ever();
    }
    dprintf(3, "up");
}

static int child_leaves_grandchild(void)
{
    start_grandchild();
    return 5;
}

static int child_with_grandchild(void)
{
    start_grandchild();
    return pause_for_ever();
}

static int child_leaves_group(void)
{
    CHECK_EQ(setpgid(0, getpgid(getppid())), 0);
    dprintf(3, "up");
    return pause_for_ever();
}

static int child_pauses(void)
{
    dprintf(3, "up");
    return pause_for_ever();
}

static int child_streams_are_null(void)
{
    return is_null(0) && is_null(1) && is_null(2) ? 0 : 1;
}

static int child_stdin(void)
{
    char c;

    return is_null(0) && read(0, &c, 1) == 0 ? 0 : 1;
}

static int child_leads_its_group(void)
{
    return getpgrp() == getpid() ? 0 : 1;
}

static int child_exits_3(void)
{
    return 3;
}

static int child_killed(void)
{
    struct rlimit no_core = { 0, 0 };

    setrlimit(RLIMIT_CORE, &no_core);
    prctl(PR_SET_DUMPABLE, 0); /* if core dumps are piped to a program, the limit is ignored */
    signal(SIGSEGV, SIG_DFL);  /* removes the handler of a sanitizer */
    raise(SIGSEGV);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(void);
} children[] = {
    { "fds", child_fds },
    { "signals", child_signals },
    { "says_where", child_says_where },
    { "leaves_grandchild", child_leaves_grandchild },
    { "with_grandchild", child_with_grandchild },
    { "leaves_group", child_leaves_group },
    { "pauses", child_pauses },
    { "streams_are_null", child_streams_are_null },
    { "stdin", child_stdin },
    { "leads_its_group", child_leads_its_group },
    { "exits_3", child_exits_3 },
    { "killed", child_killed },
};

static int child_main(const char *name)
{
    for (size_t i = 0; i < sizeof children / sizeof children[0]; i++) {
        if (strcmp(children[i].name, name) == 0)
            return children[i].run();
    }
    return 99;
}

/* --- in the parent ------------------------------------------------------ */

struct pipe {
    int in, out; /* read end, write end */
};

static struct pipe make_pipe(void)
{
    int ends[2];

    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    return (struct pipe){ ends[0], ends[1] };
}

static int spawn_with(struct gd__child *c, const char *what, int boot, int out, int err)
{
    static char program[] = "/proc/self/exe", flag[] = "--child";
    char name[64];
    char *argv[] = { program, flag, name, NULL };
    struct gd__child_spec spec = { program, argv, environ, NULL, boot, out, err };

    snprintf(name, sizeof name, "%s", what);
    return gd__child_spawn(c, &spec);
}

static struct gd__child spawned(const char *what, int boot)
{
    struct gd__child c = GD__CHILD_NONE;

    if (spawn_with(&c, what, boot, -1, -1) < 0)
        FAIL("%s", gd_error_text());
    CHECK(c.pid > 0);
    CHECK(fcntl(c.pidfd, F_GETFD) & FD_CLOEXEC);
    return c;
}

static void await_end(const struct gd__child *c)
{
    struct pollfd p = { .fd = c->pidfd, .events = POLLIN };

    CHECK_EQ(poll(&p, 1, -1), 1);
}

static struct gd__exit reaped(struct gd__child *c)
{
    struct gd__exit e;

    await_end(c);
    CHECK_EQ(gd__child_reap(c, &e), 1);
    CHECK_EQ(c->pid, 0);
    CHECK_EQ(c->pidfd, -1);
    return e;
}

static struct gd__exit run(const char *what)
{
    struct pipe p = make_pipe();
    struct gd__child c = spawned(what, p.out);
    struct gd__exit e = reaped(&c);

    close(p.in);
    close(p.out);
    return e;
}

static const char *text_of(int fd, char *text, size_t size)
{
    size_t length = 0;

    for (ssize_t n; length < size - 1 && (n = read(fd, text + length, size - 1 - length)) > 0;)
        length += (size_t)n;
    text[length] = 0;
    return text;
}

/* Waits until the child has written "up". Closes the write end here first, so that the read fails if the child has
 * died. */
static void await_up(struct pipe *p)
{
    char text[2];

    close(p->out);
    p->out = -1;
    CHECK_EQ(read(p->in, text, 2), 2);
    CHECK_MEM(text, "up", 2);
}

/* Waits until every process that had the other end has ended. */
static void await_end_of_file(int fd)
{
    char c;

    CHECK_EQ(read(fd, &c, 1), 0);
}

static int open_fds(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void check_no_child(void)
{
    CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
    CHECK_EQ(errno, ECHILD);
}

TEST(exit_code)
{
    struct gd__exit e = run("exits_3");

    CHECK(e.known);
    CHECK_EQ(e.signal, 0);
    CHECK_EQ(e.code, 3);
    check_no_child();
}

TEST(killed_by_signal)
{
    struct gd__exit e = run("killed");

    CHECK(e.known);
    CHECK_EQ(e.signal, SIGSEGV);
    CHECK(!e.core);
}

TEST(ends_are_described)
{
    char text[100];

    gd__exit_describe(&(struct gd__exit){ .known = true, .signal = SIGSEGV }, text, sizeof text);
    CHECK_STR(text, "killed by signal 11 (Segmentation fault)");
    gd__exit_describe(&(struct gd__exit){ .known = true, .signal = SIGSEGV, .core = true }, text, sizeof text);
    CHECK_STR(text, "killed by signal 11 (Segmentation fault), core dumped");
    gd__exit_describe(&(struct gd__exit){ .known = true, .signal = 200 }, text, sizeof text);
    CHECK_CONTAINS(text, "killed by signal 200");
    gd__exit_describe(&(struct gd__exit){ .known = true, .code = 3 }, text, sizeof text);
    CHECK_STR(text, "exited with code 3");
    gd__exit_describe(&(struct gd__exit){ .known = false }, text, sizeof text);
    CHECK_STR(text, "ended (its exit status was taken by another wait() in this program)");
    gd__exit_describe(&(struct gd__exit){ .known = true, .code = 3 }, text, 7);
    CHECK_STR(text, "exited");
}

TEST(a_running_child_is_not_reaped)
{
    struct pipe p = make_pipe();
    struct gd__child c = spawned("pauses", p.out);
    struct gd__exit e;

    await_up(&p);
    CHECK_EQ(gd__child_reap(&c, &e), 0);
    CHECK(c.pid > 0);
    gd__child_signal(&c, SIGTERM);
    e = reaped(&c);
    CHECK_EQ(e.signal, SIGTERM);
    CHECK_EQ(gd__child_reap(&c, &e), GD_E_INVALID);
}

TEST(the_child_runs_on_the_requested_cpus)
{
    cpu_set_t ours, one, after;
    CHECK_EQ(sched_getaffinity(0, sizeof ours, &ours), 0);
    int last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(last, &ours))
        last--;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    char shell[] = "/bin/sh", flag[] = "-c", script[256];
    snprintf(script, sizeof script, "grep -q '^Cpus_allowed_list:[[:space:]]*%d$' /proc/self/status", last);
    char *argv[] = { shell, flag, script, NULL };
    struct gd__child_spec spec = { shell, argv, environ, &one, 0, -1, -1 };
    struct gd__child c;
    struct gd__exit e;
    CHECK_EQ(gd__child_spawn(&c, &spec), 0);
    CHECK_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    CHECK(CPU_EQUAL(&ours, &after)); /* the parent's CPUs are unchanged */
    struct pollfd p = { .fd = c.pidfd, .events = POLLIN };
    CHECK_EQ(poll(&p, 1, -1), 1);
    CHECK_EQ(gd__child_reap(&c, &e), 1);
    CHECK_EQ(e.code, 0);
}

TEST(no_such_program)
{
    char *argv[] = { NULL, NULL };
    char name[] = "/nowhere/worker";
    struct gd__child_spec spec = { name, argv, environ, NULL, 0, -1, -1 };
    struct gd__child c;
    int before = open_fds();

    argv[0] = name;
    CHECK_EQ(gd__child_spawn(&c, &spec), GD_E_SYSTEM);
    CHECK_CONTAINS(gd_error_text(), "/nowhere/worker");
    CHECK_CONTAINS(gd_error_text(), "No such file");
    CHECK_EQ(c.pid, 0);
    CHECK_EQ(c.pidfd, -1);
    CHECK_EQ(open_fds(), before);
    check_no_child();
}

TEST(not_executable)
{
    char path[] = "/tmp/gd_test_child_XXXXXX";
    char *argv[] = { path, NULL };
    struct gd__child_spec spec = { path, argv, environ, NULL, 0, -1, -1 };
    struct gd__child c;
    int fd = mkstemp(path);

    CHECK(fd >= 0);
    close(fd);
    int rc = gd__child_spawn(&c, &spec);
    unlink(path);
    CHECK_EQ(rc, GD_E_SYSTEM);
    CHECK_CONTAINS(gd_error_text(), path);
    CHECK_CONTAINS(gd_error_text(), "Permission denied");
    check_no_child();
}

TEST(the_program_is_found_through_path)
{
    char *argv[] = { NULL, NULL };
    char name[] = "true";
    struct gd__child_spec spec = { name, argv, environ, NULL, 0, -1, -1 };
    struct gd__child c;

    argv[0] = name;
    CHECK_EQ(gd__child_spawn(&c, &spec), 0);
    struct gd__exit e = reaped(&c);
    CHECK(e.known && e.signal == 0 && e.code == 0);
}

TEST(the_child_has_only_the_given_environment)
{
    char shell[] = "/bin/sh", flag[] = "-c", script[] = "[ \"$GD_A\" = yes ] && [ -z \"$GD_B\" ]", a[] = "GD_A=yes";
    char *argv[] = { shell, flag, script, NULL }, *envp[] = { a, NULL };
    struct gd__child_spec spec = { shell, argv, envp, NULL, 0, -1, -1 };
    struct gd__child c;

    setenv("GD_B", "ours", 1);
    CHECK_EQ(gd__child_spawn(&c, &spec), 0);
    CHECK_EQ(reaped(&c).code, 0);
}

TEST(bad_boot_descriptor_is_an_error)
{
    struct gd__child c;
    int before = open_fds();

    CHECK_EQ(spawn_with(&c, "exits_3", 900, -1, -1), GD_E_SYSTEM);
    CHECK_EQ(spawn_with(&c, "exits_3", -1, -1, -1), GD_E_SYSTEM);
    CHECK_EQ(spawn_with(&c, "exits_3", 0, 900, -1), GD_E_SYSTEM);
    CHECK_EQ(open_fds(), before);
    check_no_child();
}

TEST(no_descriptor_leaks_into_the_child)
{
    struct pipe p = make_pipe();
    char text[1000];

    for (int i = 0; i < 40; i++)
        CHECK(open("/dev/null", O_RDONLY) >= 0); /* without close-on-exec */
    CHECK_EQ(dup2(0, 700), 700);
    struct gd__child c = spawned("fds", p.out);
    close(p.out);
    CHECK_STR(text_of(p.in, text, sizeof text), "0 1 2 3 ");
    reaped(&c);
}

TEST(stdin_is_dev_null)
{
    CHECK_EQ(run("stdin").code, 0);
}

TEST(streams_that_are_not_given_are_dev_null)
{
    CHECK_EQ(run("streams_are_null").code, 0);
}

TEST(the_child_leads_its_own_process_group)
{
    CHECK_EQ(run("leads_its_group").code, 0);
}

static void nothing(int signal)
{
    (void)signal;
}

TEST(signals_are_default_and_unblocked)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGRTMIN + 3, SIG_IGN);
    signal(SIGUSR1, nothing);
    CHECK_EQ(run("signals").code, 0);
}

/* The descriptors boot, out and err have the numbers `at`, each from 0 to 3. The fourth number is closed. No descriptor
 * may be overwritten before it is copied. */
static void check_sources_at(const int at[3])
{
    static const char *const words[3] = { "boot", "out", "err" };
    struct pipe p[3];
    struct gd__child c;
    char text[20];

    for (int i = 0; i < 3; i++) {
        struct pipe low = make_pipe();

        p[i].in = fcntl(low.in, F_DUPFD_CLOEXEC, 20);
        p[i].out = fcntl(low.out, F_DUPFD_CLOEXEC, 20);
        close(low.in);
        close(low.out);
    }
    for (int fd = 0; fd < 4; fd++)
        close(fd);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(dup2(p[i].out, at[i]), at[i]);
        close(p[i].out);
    }
    CHECK_EQ(spawn_with(&c, "says_where", at[0], at[1], at[2]), 0);
    for (int i = 0; i < 3; i++)
        close(at[i]);
    for (int i = 0; i < 3; i++) {
        CHECK_STR(text_of(p[i].in, text, sizeof text), words[i]);
        close(p[i].in);
    }
    CHECK_EQ(reaped(&c).code, 0);
}

TEST(descriptors_numbered_0_to_3)
{
    for (int i = 0; i < 64; i++) {
        int at[3] = { i % 4, i / 4 % 4, i / 16 };

        if (at[0] != at[1] && at[0] != at[2] && at[1] != at[2])
            check_sources_at(at);
    }
}

TEST(the_child_uses_our_streams)
{
    struct pipe out = make_pipe(), err = make_pipe(), boot = make_pipe();
    struct gd__child c;
    char text[20];

    CHECK_EQ(dup2(out.out, 1), 1);
    CHECK_EQ(dup2(err.out, 2), 2);
    fcntl(1, F_SETFD, FD_CLOEXEC); /* must have no effect */
    CHECK_EQ(spawn_with(&c, "says_where", boot.out, 1, 2), 0);
    close(1);
    close(2);
    close(out.out);
    close(err.out);
    CHECK_STR(text_of(out.in, text, sizeof text), "out");
    CHECK_STR(text_of(err.in, text, sizeof text), "err");
    CHECK_EQ(reaped(&c).code, 0);
}

TEST(closed_streams_become_dev_null)
{
    struct pipe boot = make_pipe();
    struct gd__child c;

    for (int fd = 0; fd < 3; fd++)
        close(fd);
    CHECK_EQ(spawn_with(&c, "streams_are_null", boot.out, 1, 2), 0);
    CHECK_EQ(reaped(&c).code, 0);
    CHECK_EQ(fcntl(1, F_GETFD), -1);
}

TEST(grandchild_dies_when_the_child_is_reaped)
{
    struct pipe p = make_pipe();
    struct gd__child c = spawned("leaves_grandchild", p.out);

    await_up(&p);
    struct gd__exit e = reaped(&c);
    CHECK(e.known);
    CHECK_EQ(e.code, 5);
    await_end_of_file(p.in);
}

TEST(signals_go_to_the_whole_group)
{
    struct pipe p = make_pipe();
    struct gd__child c = spawned("with_grandchild", p.out);

    await_up(&p);
    gd__child_signal(&c, SIGTERM);
    await_end_of_file(p.in); /* the grandchild ends before the child is reaped */
    CHECK_EQ(reaped(&c).signal, SIGTERM);
}

TEST(a_child_that_left_its_group_can_be_killed)
{
    struct pipe p = make_pipe();
    struct gd__child c = spawned("leaves_group", p.out);

    await_up(&p);
    gd__child_signal(&c, SIGTERM);
    CHECK_EQ(reaped(&c).signal, SIGTERM);
}

TEST(stopped_child_can_be_killed)
{
    struct pipe p = make_pipe();
    struct gd__child c = spawned("pauses", p.out);
    struct gd__exit e;

    await_up(&p);
    gd__child_signal(&c, SIGSTOP);
    CHECK_EQ(waitpid(c.pid, NULL, WUNTRACED), c.pid);
    CHECK_EQ(gd__child_reap(&c, &e), 0);
    gd__child_signal(&c, SIGKILL);
    CHECK_EQ(reaped(&c).signal, SIGKILL);
}

/* If SIGCHLD is ignored, only the exit status is lost. */
TEST(sigchld_ignored)
{
    struct pipe p = make_pipe();
    struct gd__exit e;

    signal(SIGCHLD, SIG_IGN);
    struct gd__child c = spawned("with_grandchild", p.out);
    await_up(&p);
    CHECK_EQ(gd__child_reap(&c, &e), 0);
    kill(c.pid, SIGKILL); /* only the child, not its group */
    e = reaped(&c);
    CHECK(!e.known);
    await_end_of_file(p.in);
}

TEST(reaped_by_another_wait)
{
    struct pipe p = make_pipe();
    struct gd__child c = spawned("leaves_grandchild", p.out);

    await_up(&p);
    CHECK_EQ(waitpid(-1, NULL, 0), c.pid);
    CHECK(!reaped(&c).known);
    await_end_of_file(p.in);
}

/* The process is not a child of the fork. The fork must still see that it is running. */
TEST(a_fork_sees_that_the_child_is_running)
{
    struct pipe p = make_pipe();
    struct gd__child c = spawned("pauses", p.out);
    struct gd__exit e;

    await_up(&p);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK_EQ(gd__child_reap(&c, &e), 0);
        _exit(0);
    }
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
    CHECK_EQ(gd__child_reap(&c, &e), 0);
    gd__child_signal(&c, SIGKILL);
    CHECK_EQ(reaped(&c).signal, SIGKILL);
}

/* Makes the next fork get this process id. Needs privileges. */
static void ask_for_pid(pid_t pid)
{
    int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);

    if (fd < 0 || dprintf(fd, "%d", (int)pid - 1) < 0)
        SKIP("process ids cannot be chosen here");
    close(fd);
}

static pid_t start_stranger(int hold_fd)
{
    pid_t pid = fork();

    if (pid == 0) {
        setpgid(0, 0);
        CHECK_EQ(write(hold_fd, "up", 2), 2);
        pause_for_ever();
    }
    return pid;
}

TEST(another_process_with_the_same_id_is_not_killed)
{
    struct gd__exit e;
    struct pipe p = make_pipe();
    pid_t stranger = 0;
    struct gd__child c = GD__CHILD_NONE;

    /* Another process may get the id first. Then try again with another id. */
    for (int i = 0; i < 100 && (stranger == 0 || stranger != c.pid); i++) {
        if (stranger > 0) {
            kill(stranger, SIGKILL);
            waitpid(stranger, NULL, 0);
            gd__child_forget(&c);
        }
        c = spawned("exits_3", p.out);
        CHECK_EQ(waitpid(c.pid, NULL, 0), c.pid);
        ask_for_pid(c.pid);
        struct pipe up = make_pipe();
        stranger = start_stranger(up.out);
        await_up(&up);
        close(up.in);
    }
    if (stranger != c.pid)
        SKIP("could not get the same process id twice");
    gd__child_signal(&c, SIGKILL);
    CHECK_EQ(gd__child_reap(&c, &e), 1);
    CHECK(!e.known);
    /* If the stop takes effect, no SIGKILL was sent before. */
    kill(stranger, SIGSTOP);
    int status;
    CHECK_EQ(waitpid(stranger, &status, WUNTRACED), stranger);
    CHECK(WIFSTOPPED(status));
}

TEST(a_forgotten_child_keeps_running)
{
    struct pipe p = make_pipe();
    struct gd__child c = spawned("pauses", p.out);
    pid_t pid = c.pid;

    await_up(&p);
    gd__child_forget(&c);
    CHECK_EQ(c.pid, 0);
    CHECK_EQ(waitpid(pid, NULL, WNOHANG), 0);
    gd__child_forget(&c);
    kill(pid, SIGKILL);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

TEST(signalling_no_process_does_nothing)
{
    struct gd__child c = GD__CHILD_NONE;

    gd__child_signal(&c, SIGKILL);
}

TEST(no_descriptor_leaks)
{
    run("exits_3");
    int before = open_fds();

    for (int i = 0; i < 20; i++)
        run("exits_3");
    CHECK_EQ(open_fds(), before);
    check_no_child();
}

TEST(every_failing_call_leaves_nothing_behind)
{
#ifndef GD_TEST_HOOKS
    SKIP("built without test hooks");
#else
    struct pipe p = make_pipe();
    struct gd__child c;
    int before = open_fds(), failures = 0;

    for (unsigned long n = 1;; n++) {
        gd__fault_begin(n);
        int rc = spawn_with(&c, "pauses", p.out, -1, -1);
        gd__fault_begin(0);
        if (rc == 0)
            break;
        failures++;
        CHECK_EQ(rc, GD_E_NO_MEMORY);
        CHECK_CONTAINS(gd_error_text(), "/proc/self/exe");
        CHECK_EQ(c.pid, 0);
        CHECK_EQ(c.pidfd, -1);
        CHECK_EQ(open_fds(), before);
        check_no_child();
    }
    CHECK_GE(failures, 7);
    gd__child_signal(&c, SIGKILL);
    reaped(&c);
#endif
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--child") == 0)
        return child_main(argv[2]);
    return test_main(argc, argv);
}
