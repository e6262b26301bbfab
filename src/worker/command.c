/* The adapter that runs a command for each task.
 *
 * The worker's main thread starts the command with posix_spawn and waits for it. Nothing polls or reads meanwhile:
 * stdout and stderr are memfds, which are read when the command has ended. They are reused for the next task, unless a
 * process that the command left running still has them open. This process adopts its orphaned descendants, so one
 * waitpid() call shows whether there is such a process. Everything that is the same for every task (attributes, file
 * actions, environment) is prepared once.
 *
 * A command belongs to the worker's process group and has the default signals. To interrupt it, SIGTERM is sent to the
 * group, and to descendants in other groups. If the command does not end within the grace period, its processes are
 * killed one by one, and this process continues. So the output of the command is reported in both cases. The worker
 * itself has a handler for SIGTERM. It does not ignore the signal, because commands would inherit that. A SIGTERM from
 * another process may be a stop that is sent to every process of the run. If the command fails after that, the result
 * is GD__R_SIGNALLED, whatever the exit code, because programs that catch the signal exit with any code.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/fd.h"
#include "command/output.h"
#include "command/template.h"
#include "proc/descendants.h"
#include "shm/layout.h"
#include "worker/adapters.h"
#include "worker/host.h"

extern char **environ;

enum { OUT, ERR, N_OUTPUTS };
enum { EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127 }; /* as in shells */
enum { VARIABLE_MAX = 192, TAIL_MAX = 1024 };

enum variable { TASK_ID, ATTEMPT, SEQUENCE, SLOT, PROCESS, N_VARIABLES };
static const char process_name[] = GD__PROCESS_ENV "=";
static const char *const variable_names[N_VARIABLES] = {
    [TASK_ID] = "GPU_DISPATCH_TASK_ID=",
    [ATTEMPT] = "GPU_DISPATCH_ATTEMPT=",
    [SEQUENCE] = "PARALLEL_SEQ=",
    [SLOT] = "PARALLEL_JOBSLOT=",
    [PROCESS] = process_name,
};

static struct {
    struct gd_command *command;
    struct gd__executable program;
    struct gd__filling filling;
    int outputs[N_OUTPUTS]; /* memfds */
    bool stale;             /* a process that an earlier command left may still write to them: make new ones */
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char **environment;
    char variables[N_VARIABLES][VARIABLE_MAX];
    const char *process; /* the name that the dispatcher gave this process */
    unsigned slot;
    int gpu_id;
    const int *gpu_ids;
    size_t n_gpus;
} runner = { .outputs = { -1, -1 } };

/* ---- setup ---- */

/* Opens new memfds at the descriptor numbers that the file actions use. They are in append mode, so their position need
 * not be reset, and several processes do not overwrite each other's output. */
static int renew_outputs(void)
{
    for (int i = 0; i < N_OUTPUTS; i++) {
        int fd = GD__FAULT("memfd") ? -1 : gd__fd_above_stdio(memfd_create("gd-output", MFD_CLOEXEC));
        if (fd < 0)
            return -1;
        if (fcntl(fd, F_SETFL, O_APPEND) < 0 ||
            (runner.outputs[i] >= 0 && dup3(fd, runner.outputs[i], O_CLOEXEC) < 0)) {
            close(fd);
            return -1;
        }
        if (runner.outputs[i] >= 0)
            close(fd);
        else
            runner.outputs[i] = fd;
    }
    runner.stale = false;
    return 0;
}

/* Returns 0 or an error number. Descriptor 0 is /dev/null in every worker, and all others are close-on-exec. */
static int prepare_actions(void)
{
    int rc = posix_spawn_file_actions_init(&runner.actions);
    if (rc == 0 && !runner.command->ungroup) {
        rc = posix_spawn_file_actions_adddup2(&runner.actions, runner.outputs[OUT], STDOUT_FILENO);
        if (rc == 0)
            rc = posix_spawn_file_actions_adddup2(&runner.actions, runner.outputs[ERR], STDERR_FILENO);
    }
    return rc;
}

/* exec resets handlers by itself, but ignored signals stay ignored. */
static void ignored_signals(sigset_t *set)
{
    sigemptyset(set);
    for (int s = 1; s < NSIG; s++) {
        struct sigaction a;
        if (s != SIGKILL && s != SIGSTOP && sigaction(s, NULL, &a) == 0 && a.sa_handler == SIG_IGN)
            sigaddset(set, s);
    }
}

static int prepare_attributes(void)
{
    sigset_t none, ignored;
    int rc = posix_spawnattr_init(&runner.attributes);
    sigemptyset(&none);
    ignored_signals(&ignored);
    if (rc || (rc = posix_spawnattr_setsigmask(&runner.attributes, &none)) ||
        (rc = posix_spawnattr_setsigdefault(&runner.attributes, &ignored)))
        return rc;
    return posix_spawnattr_setflags(&runner.attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

static bool is_ours(const char *variable)
{
    for (int i = 0; i < N_VARIABLES; i++) {
        if (strncmp(variable, variable_names[i], strlen(variable_names[i])) == 0)
            return true;
    }
    return false;
}

/* The worker's own environment, followed by the variables that differ from task to task. */
static int prepare_environment(void)
{
    size_t n = 0;
    while (environ[n])
        n++;
    runner.environment = gd__calloc(n + N_VARIABLES + 1, sizeof *runner.environment);
    if (!runner.environment)
        return ENOMEM;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_ours(environ[i]))
            runner.environment[at++] = environ[i];
    }
    for (int i = 0; i < N_VARIABLES; i++)
        runner.environment[at++] = runner.variables[i];
    return 0;
}

static volatile sig_atomic_t term_received; /* SIGTERM came after the command was started */

static void on_term(int s, siginfo_t *info, void *context)
{
    (void)s, (void)context;
    if (info->si_pid != getpid()) /* otherwise our own interrupt() sent it */
        term_received = 1;
}

static int prepare_signals(void)
{
    struct sigaction a = { .sa_sigaction = on_term, .sa_flags = SA_RESTART | SA_SIGINFO };
    return sigaction(SIGTERM, &a, NULL) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ? errno : 0;
}

/* The number of this worker, counted from 1. It does not depend on worker ids. The dispatcher passes it in the
 * environment. */
static unsigned slot_of(const struct gd_setup *s)
{
    const char *slot = getenv("GPU_DISPATCH_SLOT");
    const long number = slot ? strtol(slot, NULL, 10) : 0;
    return number > 0 && number <= INT_MAX ? (unsigned)number : (unsigned)s->worker_id + 1;
}

static int set_up(struct gd_worker *w, const struct gd_setup *s)
{
    int rc = 0;
    runner.slot = slot_of(s);
    runner.process = getenv(GD__PROCESS_ENV);
    if (!runner.process)
        runner.process = "";
    runner.gpu_id = s->gpu_id;
    runner.gpu_ids = s->gpu_ids;
    runner.n_gpus = s->n_gpus;
    gd__executable_find(&runner.program, runner.command);
    if (renew_outputs() < 0)
        rc = errno;
    if (rc || (rc = prepare_signals()) || (rc = prepare_actions()) || (rc = prepare_attributes()) ||
        (rc = prepare_environment()))
        return gd_worker_error(w, "cannot prepare to run commands: %s", strerror(rc));
    return 0;
}

/* ---- one task ---- */

static void set_variable(enum variable v, unsigned long long value)
{
    snprintf(runner.variables[v], VARIABLE_MAX, "%s%llu", variable_names[v], value);
}

/* The name of the process contains the task's position, which no other task of this worker has, not even in another
 * run. */
static void set_variables(const struct gd_worker *w, const struct gd_task *task)
{
    const unsigned long long position = atomic_load_explicit(&w->current, memory_order_relaxed);
    set_variable(TASK_ID, task->id);
    set_variable(ATTEMPT, task->attempt);
    set_variable(SEQUENCE, task->id + 1);
    set_variable(SLOT, runner.slot);
    snprintf(runner.variables[PROCESS], VARIABLE_MAX, "%s%.100s:%llu", variable_names[PROCESS], runner.process,
             position);
}

static int spawn_command(pid_t *pid, const char *path, char *const *argv)
{
    if (GD__FAULT("spawn"))
        return ENOMEM;
    return posix_spawn(pid, path, &runner.actions, &runner.attributes, argv, runner.environment);
}

/* Returns 0, an error number, or a negative GD_E_... code. */
static int spawn_shell(pid_t *pid, const struct gd_command_fill *with)
{
    static char dash_c[] = "-c";
    int code = gd__command_fill_line(runner.command, with, &runner.filling);
    if (code < 0)
        return code;
    char *argv[] = { runner.program.shell, dash_c, runner.filling.line.bytes, NULL };
    return spawn_command(pid, runner.program.shell, argv);
}

static bool is_shortage(int rc)
{
    return rc == EAGAIN || rc == ENOMEM;
}

/* Starts the command without a shell if the result is the same. If that fails (a script without a #! line, or a missing
 * file), the shell runs it or reports the error. */
static int start(pid_t *pid, const struct gd_command_fill *with)
{
    if (*runner.program.path) {
        int rc = gd__command_fill_argv(runner.command, with, &runner.filling);
        if (rc < 0)
            return rc;
        if (gd__executable_agrees(&runner.program, runner.filling.argv)) {
            rc = spawn_command(pid, runner.program.path, runner.filling.argv);
            if (rc == 0 || is_shortage(rc))
                return rc;
        }
    }
    return spawn_shell(pid, with);
}

/* ---- its result ---- */

struct ended {
    int exit_code, signal;
    size_t sizes[N_OUTPUTS];
};

static int measure(struct ended *e)
{
    for (int i = 0; i < N_OUTPUTS && !runner.command->ungroup; i++) {
        struct stat s;
        if (fstat(runner.outputs[i], &s) < 0)
            return -1;
        e->sizes[i] = (size_t)s.st_size;
    }
    return 0;
}

/* Reads as many bytes as there are: a process that the command left running may have truncated the file. */
static size_t read_output(int fd, char *room, size_t size, size_t offset)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = pread(fd, room + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    return done;
}

static void write_result(char *room, const struct ended *e)
{
    struct gd__command_head head = { .magic = GD__COMMAND_MAGIC,
                                     .exit_code = (uint16_t)e->exit_code,
                                     .signal = (uint16_t)e->signal };
    char *at = room + sizeof head;
    head.out_size = read_output(runner.outputs[OUT], at, e->sizes[OUT], 0);
    head.err_size = read_output(runner.outputs[ERR], at + head.out_size, e->sizes[ERR], 0);
    memcpy(room, &head, sizeof head);
}

/* Writes the last line of stderr that is not blank, for an error message: ": text", or "" if there is no such line. */
static void last_line(const struct ended *e, char *text, size_t size)
{
    char tail[TAIL_MAX];
    const size_t wanted = e->sizes[ERR] < sizeof tail ? e->sizes[ERR] : sizeof tail;
    size_t length = read_output(runner.outputs[ERR], tail, wanted, e->sizes[ERR] - wanted);
    while (length > 0 && (unsigned char)tail[length - 1] <= ' ')
        length--;
    const char *line = length ? memrchr(tail, '\n', length) : NULL;
    line = line ? line + 1 : tail;
    length -= (size_t)(line - tail);
    *text = '\0';
    if (length == 0)
        return;
    snprintf(text, size, ": %.*s", (int)length, line);
    for (char *at = text; *at; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = ' ';
    }
}

static size_t result_size(const struct ended *e)
{
    return sizeof(struct gd__command_head) + e->sizes[OUT] + e->sizes[ERR];
}

static int report_too_large(struct gd_result *r, const struct ended *e)
{
    return gd_result_error(r, "no memory for the command's output of %zu bytes: let it write to a file instead",
                           e->sizes[OUT] + e->sizes[ERR]);
}

static int report_success(struct gd_result *r, const struct ended *e)
{
    char *room = gd_result_alloc(r, result_size(e));
    if (!room)
        return report_too_large(r, e);
    write_result(room, e);
    return 0;
}

static bool may_be_a_stop(const struct ended *e)
{
    return term_received || e->signal == SIGTERM || e->signal == SIGINT || e->signal == SIGHUP;
}

/* Reports a command that was ended because of its time limit, with its output. The dispatcher makes the error
 * message. */
static int report_cancelled(struct gd_result *r, const struct ended *e)
{
    char *room = gd_result_alloc_failed(r, result_size(e), "timed out");
    if (room)
        write_result(room, e);
    return GD_E_FAILED;
}

static int report_failure(struct gd_result *r, const struct ended *e)
{
    char more[TAIL_MAX + 8], *room;
    last_line(e, more, sizeof more);
    if (e->signal)
        room = gd_result_alloc_failed(r, result_size(e), "killed by signal %d (%s)%s", e->signal, strsignal(e->signal),
                                      more);
    else
        room = gd_result_alloc_failed(r, result_size(e), "exited with code %d%s", e->exit_code, more);
    if (!room)
        return report_too_large(r, e);
    write_result(room, e);
    if (may_be_a_stop(e))
        r->kind = GD__R_SIGNALLED;
    return GD_E_FAILED;
}

/* The shell itself could not be started. */
static int report_not_started(struct gd_result *r, int why)
{
    if (why < 0)
        return gd_result_error(r, "%s", gd_error_text());
    if (is_shortage(why))
        return gd__result_fail(r, GD__R_SHORTAGE, "cannot start a process: %s", strerror(why));
    struct ended e = { .exit_code = why == ENOENT || why == ENOTDIR ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN };
    char *room = gd_result_alloc_failed(r, result_size(&e), "cannot run %s: %s", runner.program.shell, strerror(why));
    if (room)
        write_result(room, &e);
    return GD_E_FAILED;
}

static int report_dry_run(struct gd_result *r, const struct gd_command_fill *with)
{
    struct gd__command_head head = { .magic = GD__COMMAND_MAGIC };
    int code = gd__command_fill_line(runner.command, with, &runner.filling);
    if (code < 0)
        return gd_result_error(r, "%s", gd_error_text());
    struct gd__text *line = &runner.filling.line;
    line->bytes[line->size - 1] = '\n'; /* replaces the terminating NUL */
    head.out_size = line->size;
    char *room = gd_result_alloc(r, sizeof head + line->size);
    if (!room)
        return gd_result_error(r, "no memory for a command line of %zu bytes", line->size);
    memcpy(room, &head, sizeof head);
    memcpy(room + sizeof head, line->bytes, line->size);
    return 0;
}

/* ---- the end of a command ---- */

static void wait_for(pid_t pid, struct ended *e)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    e->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    e->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* Reaps processes that the command started and did not wait for. If one still runs, it may still write, so the outputs
 * are stale. */
static void reap_the_rest(void)
{
    pid_t pid;
    do
        pid = waitpid(-1, NULL, WNOHANG);
    while (pid > 0);
    runner.stale |= pid == 0;
}

static void empty_outputs(const struct ended *e)
{
    for (int i = 0; i < N_OUTPUTS; i++) {
        if (e->sizes[i] && ftruncate(runner.outputs[i], 0) < 0)
            runner.stale = true;
    }
}

/* Called on the main thread, or on another thread while the main thread waits for the command or reads its output. */
static void end_task(void)
{
    gd__descendants_end(getpid(), true);
}

static int run(struct gd_worker *w, const struct gd_command_fill *with, struct gd_result *r)
{
    struct ended e = { 0 };
    pid_t pid = 0;
    term_received = 0;
    int rc = start(&pid, with);
    if (rc)
        return report_not_started(r, rc);
    if (gd_task_cancelled(w)) /* interrupt() may have been called before the process existed */
        kill(pid, SIGTERM);
    if (gd__task_must_end(w)) /* the same is true of end_task() */
        end_task();
    wait_for(pid, &e);
    reap_the_rest();
    if (measure(&e) < 0)
        return gd_result_error(r, "cannot read the command's output: %s", strerror(errno));
    if (gd_task_cancelled(w))
        rc = report_cancelled(r, &e);
    else
        rc = e.exit_code || e.signal ? report_failure(r, &e) : report_success(r, &e);
    empty_outputs(&e);
    return rc;
}

static int process(struct gd_worker *w, const struct gd_task *task, struct gd_result *r)
{
    const struct gd_command_fill with = { .size = sizeof(struct gd_command_fill),
                                          .payload = task->data,
                                          .payload_size = task->size,
                                          .task_id = task->id,
                                          .slot = runner.slot,
                                          .gpu_id = runner.gpu_id,
                                          .gpu_ids = runner.gpu_ids,
                                          .n_gpus = runner.n_gpus };
    if (runner.command->dry_run)
        return report_dry_run(r, &with);
    if (runner.stale && renew_outputs() < 0)
        return gd_result_error(r, "no memory for the command's output: %s", strerror(errno));
    set_variables(w, task);
    return run(w, &with, r);
}

static void interrupt(struct gd_worker *w)
{
    (void)w;
    gd__descendants_signal(getpid(), SIGTERM, true);
    if (getpgrp() == getpid()) /* true in a worker started by a dispatcher */
        kill(0, SIGTERM);
}

static int clean_up(struct gd_worker *w)
{
    (void)w;
    gd__descendants_kill(getpid(), true); /* descendants in a new session are meant to stay */
    gd__filling_free(&runner.filling);
    gd__free(runner.environment);
    posix_spawn_file_actions_destroy(&runner.actions);
    posix_spawnattr_destroy(&runner.attributes);
    gd_command_close(&runner.command);
    return 0;
}

const struct gd_worker_ops *gd__command_ops(const struct gd_command_spec *spec)
{
    static const struct gd_worker_ops ops = {
        .size = sizeof ops, .setup = set_up, .process = process, .cleanup = clean_up, .interrupt = interrupt
    };
    if (gd_command_open(&runner.command, spec) < 0)
        return NULL;
    gd__worker_ends_tasks(end_task);
    return &ops;
}
