/* SPDX-License-Identifier: MIT
 *
 * Work on a queue with the real command (work.h): its tasks, and the processes of nodes.
 */
#include "queue/work.h"

#include <sys/inotify.h>

#include "queue/server.h"
#include "support/directory.h"
#include "support/test.h"

enum { LONG_MS = 4000, TEXT_MOST = 16 << 20 };

char work_url[512];
static char self[512];
static unsigned commands;

/* --- tasks ------------------------------------------------------------------------------------ */

static void log_line(const char *what, const char *input)
{
    char line[256];
    const char *node = getenv("NODE");
    const int n = snprintf(line, sizeof line, "%s %s %s\n", what, input, node ? node : "?");
    const int fd = open("log", O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        _exit(120);
    close(fd);
}

/* A FIFO that nobody has open for writing blocks the reader. */
static void wait_at(const char *fifo)
{
    const int fd = open(fifo, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
}

static bool is_kind(const char *input, const char *kind)
{
    return strncmp(input, kind, strlen(kind)) == 0;
}

static void kill_node(void)
{
    const char *node = getenv("NODE");
    if (node)
        kill((pid_t)atoi(node), SIGKILL);
    pause();
}

static bool is_first_attempt(const char *input)
{
    char path[256];
    snprintf(path, sizeof path, "attempt.%s", input);
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

void work_task(int argc, char **argv)
{
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    if (argc < 3 || strcmp(argv[1], "task") != 0)
        return;
    const char *input = argv[2];
    log_line("start", input);
    if (is_kind(input, "gate"))
        wait_at("gate");
    if (is_kind(input, "door"))
        wait_at("door");
    if (is_kind(input, "long"))
        poll(NULL, 0, LONG_MS);
    if (is_kind(input, "poison"))
        kill_node();
    if (is_kind(input, "fails") || (is_kind(input, "once") && is_first_attempt(input)))
        exit(3);
    printf("output of %s\n", input);
    fflush(stdout);
    log_line("end", input);
    exit(0);
}

void work_begin(const char *hosts)
{
    server_require();
    directory_enter();
    snprintf(work_url, sizeof work_url, "nats://%s/q", hosts);
    setenv("HOME", directory_path, 1);
    unsetenv("XDG_STATE_HOME");
    CHECK_EQ(mkfifo("gate", 0644), 0);
    CHECK_EQ(mkfifo("door", 0644), 0);
    close(open("log", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    list_new();
}

void list_new(void)
{
    close(open("list", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
}

void list_add(const char *kind, unsigned from, unsigned n)
{
    FILE *f = fopen("list", "ae");
    CHECK(f != NULL);
    for (unsigned i = from; i < from + n; i++)
        fprintf(f, "%s%u\n", kind, i);
    CHECK_EQ(fclose(f), 0);
}

void open_gate(void)
{
    CHECK(open("gate", O_RDWR | O_CLOEXEC) >= 0); /* stays open */
}

void open_door(void)
{
    CHECK(open("door", O_RDWR | O_CLOEXEC) >= 0);
}

/* --- files that grow ---------------------------------------------------------------------------- */

static char *read_text(const char *path)
{
    static char *text;
    if (!text)
        text = malloc(TEXT_MOST);
    CHECK(text != NULL);
    FILE *f = fopen(path, "re");
    const size_t n = f ? fread(text, 1, TEXT_MOST - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = '\0';
    return text;
}

static unsigned count_lines(const char *path, const char *begin)
{
    unsigned n = 0;
    for (const char *line = read_text(path); line && *line;) {
        const char *end = strchr(line, '\n');
        n += end && strncmp(line, begin, strlen(begin)) == 0;
        line = end ? end + 1 : NULL;
    }
    return n;
}

unsigned log_lines(const char *begin)
{
    return count_lines("log", begin);
}

/* Waits until a file has changed. `ended` may be -1. False: the process has ended. */
static bool await_change(int changes, int ended)
{
    char events[4096] __attribute__((aligned(8)));
    struct pollfd p[2] = { { changes, POLLIN, 0 }, { ended, POLLIN, 0 } };
    CHECK(poll(p, 2, -1) > 0 || errno == EINTR);
    while (read(changes, events, sizeof events) > 0)
        ;
    return !p[1].revents;
}

static int watch(const char *path)
{
    const int changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    CHECK(changes >= 0);
    CHECK(inotify_add_watch(changes, path, IN_MODIFY) >= 0);
    return changes;
}

void await_log_lines(const char *begin, unsigned n)
{
    const int changes = watch("log");
    while (log_lines(begin) < n)
        await_change(changes, -1);
    close(changes);
}

void await_log(const char *line)
{
    char begin[256];
    snprintf(begin, sizeof begin, "%s ", line);
    await_log_lines(begin, 1);
}

/* --- processes ------------------------------------------------------------------------------------ */

/* Each command has its own process group, as if it were on a machine of its own. */
static struct node start(const char *script, const char *url)
{
    struct node n = { .number = commands++ };
    char path[8192], out[32], err[32];
    const char *build = getenv("GD_COMMAND_DIR");
    if (!build)
        FAIL("GD_COMMAND_DIR is not set: run this through meson test");
    snprintf(path, sizeof path, "%s:%s", build, getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
    snprintf(out, sizeof out, "%u.out", n.number);
    snprintf(err, sizeof err, "%u.err", n.number);
    const int fds[] = { open("/dev/null", O_RDONLY | O_CLOEXEC),
                        open(out, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644),
                        open(err, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) };
    fflush(NULL);
    n.pid = fork();
    CHECK(n.pid >= 0);
    if (n.pid == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setenv("PATH", path, 1);
        setenv("SHELL", "/bin/bash", 1);
        setenv("URL", url, 1);
        setenv("SELF", self, 1);
        for (int i = 0; i < 3; i++) {
            if (dup2(fds[i], i) < 0)
                _exit(127);
        }
        execlp("bash", "bash", "-c", script, (char *)NULL);
        _exit(127);
    }
    setpgid(n.pid, n.pid);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    n.ended = (int)syscall(SYS_pidfd_open, n.pid, 0);
    CHECK(n.ended >= 0);
    return n;
}

struct node command_start(const char *format, ...)
{
    char *arguments = NULL, script[4096];
    va_list args;
    va_start(args, format);
    CHECK(vasprintf(&arguments, format, args) >= 0);
    va_end(args);
    snprintf(script, sizeof script, "exec gpu-dispatch %s", arguments);
    free(arguments);
    return start(script, work_url);
}

struct node node_start_at(const char *prefix, const char *url, const char *options)
{
    char script[4096];
    /* A spool of its own: on separate machines each node has one. */
    snprintf(
        script, sizeof script,
        "export NODE=$$ XDG_STATE_HOME=\"$PWD/state.%u\"; exec %s gpu-dispatch run --queue \"$URL\" %s -- \"$SELF\" "
        "task {}",
        commands, prefix, options);
    return start(script, url);
}

struct node node_start(const char *options)
{
    return node_start_at("", work_url, options);
}

void node_signal(struct node *n, int signal)
{
    CHECK(n->pid > 0);
    CHECK_EQ(kill(n->pid, signal), 0);
}

int node_wait(struct node *n)
{
    int status;
    CHECK(n->pid > 0);
    while (waitpid(n->pid, &status, 0) < 0)
        CHECK_EQ(errno, EINTR);
    close(n->ended);
    n->pid = 0;
    n->ended = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void node_kill(struct node *n)
{
    kill(-n->pid, SIGKILL);
    node_wait(n); /* it may have ended by itself */
}

static const char *node_text(const struct node *n, const char *which)
{
    char path[32];
    snprintf(path, sizeof path, "%u.%s", n->number, which);
    return read_text(path);
}

const char *node_output(const struct node *n)
{
    return node_text(n, "out");
}

const char *node_errors(const struct node *n)
{
    return node_text(n, "err");
}

void node_await_error(const struct node *n, const char *text)
{
    char path[32];
    snprintf(path, sizeof path, "%u.err", n->number);
    const int changes = watch(path);
    while (!strstr(node_errors(n), text)) {
        if (!await_change(changes, n->ended) && !strstr(node_errors(n), text))
            FAIL("the command ended and had not printed \"%s\": %.500s", text, node_errors(n));
    }
    close(changes);
}

static struct result result_of(struct node *n)
{
    struct result r = { .status = node_wait(n) };
    snprintf(r.out, sizeof r.out, "%s", node_output(n));
    snprintf(r.err, sizeof r.err, "%s", node_errors(n));
    return r;
}

struct result command(const char *format, ...)
{
    char *arguments = NULL, script[4096];
    va_list args;
    va_start(args, format);
    CHECK(vasprintf(&arguments, format, args) >= 0);
    va_end(args);
    snprintf(script, sizeof script, "exec gpu-dispatch %s", arguments);
    free(arguments);
    struct node n = start(script, work_url);
    return result_of(&n);
}

struct result push(const char *options)
{
    return command("push --queue \"$URL\" %s :::: list", options);
}
