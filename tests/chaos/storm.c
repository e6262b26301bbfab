/* SPDX-License-Identifier: MIT
 *
 * One run of a job. Starts the command and sends signals to its processes. The moment of a signal is when the log or
 * --output has a certain number of lines. The signal is also sent if nothing was written for a while, because
 * everything may be stopped, or wait at the gate. The checks hold for any moment of a signal.
 *
 * This process adopts orphans. So all processes of the run are its descendants until they are gone.
 */
#include "chaos/chaos.h"

#include <sys/inotify.h>
#include <sys/resource.h>

enum {
    STILL_MS = 100,                         /* if nothing is written for this time, the signal is sent */
    STUCK_MS = 45000 * TEST_SLOWDOWN,       /* if nothing is written for this time, the run hangs */
    LEFT_BEHIND_MS = 20000 * TEST_SLOWDOWN, /* time that a process has to end after its dispatcher */
    MOST_PROCESSES = 256,
};

struct process {
    pid_t pid, parent;
    unsigned long long born; /* in clock ticks since the machine was started */
    char state;
};

struct targets {
    unsigned n;
    int fds[MOST_PROCESSES];
};

/* A worker that was sent a signal that ends it. */
struct doomed {
    unsigned n;
    struct process all[2 * MOST_STEPS];
};

struct storm {
    const struct plan *p;
    unsigned nth;
    pid_t dispatcher;
    int ended;   /* its pidfd */
    int changes; /* inotify */
    int gate;    /* open: the descriptor that holds it open; -1: closed */
    struct outcome *out;
    struct targets stopped; /* by the step before this one, and not yet continued */
    struct doomed doomed;
    bool is_over; /* the dispatcher was sent a signal that ends it at once */
};

/* --- processes ------------------------------------------------------------------------- */

static bool read_stat(pid_t pid, struct process *p)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = '\0';
    const char *at = strrchr(text, ')');
    int parent;
    *p = (struct process){ .pid = pid };
    if (!at || sscanf(at + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                      &p->state, &parent, &p->born) != 3)
        return false;
    p->parent = parent;
    return p->state != 'Z' && p->state != 'X';
}

/* Appends the living children of a thread, or of all threads of a process. */
static unsigned add_children(pid_t parent, struct process *all, unsigned n)
{
    char path[300];
    snprintf(path, sizeof path, "/proc/%d/task", (int)parent);
    DIR *threads = opendir(path);
    for (struct dirent *e; threads && (e = readdir(threads));) {
        snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)parent, e->d_name);
        FILE *f = e->d_name[0] == '.' ? NULL : fopen(path, "re");
        for (int pid; f && n < MOST_PROCESSES && fscanf(f, "%d", &pid) == 1;)
            n += read_stat(pid, &all[n]);
        if (f)
            fclose(f);
    }
    if (threads)
        closedir(threads);
    return n;
}

static int older_first(const void *a, const void *b)
{
    const struct process *x = a, *y = b;
    return x->born != y->born ? (x->born > y->born) - (x->born < y->born) : (x->pid > y->pid) - (x->pid < y->pid);
}

/* All living descendants of this process, oldest first. */
static unsigned list_processes(struct process *all)
{
    unsigned n = add_children(getpid(), all, 0);
    for (unsigned i = 0; i < n; i++)
        n = add_children(all[i].pid, all, n);
    qsort(all, n, sizeof *all, older_first);
    return n;
}

/* A pidfd of this process, or -1 if it is gone and its number may belong to another process. */
static int open_process(const struct process *p)
{
    struct process now;
    const int fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    if (fd < 0 || (read_stat(p->pid, &now) && now.born == p->born))
        return fd;
    close(fd);
    return -1;
}

/* The task of a process whose command line is "task\0quick12"; -1: not a command, or not started yet. */
static int task_of(pid_t pid)
{
    char path[64], words[8192];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    FILE *f = fopen(path, "re");
    const size_t n = f ? fread(words, 1, sizeof words - 1, f) : 0;
    if (f)
        fclose(f);
    words[n] = '\0';
    const char *mode = words + strlen(words) + 1;
    const char *input = mode < words + n && strcmp(mode, "task") == 0 ? mode + sizeof "task" : NULL;
    enum kind kind;
    unsigned number;
    return input && input < words + n && input_read(input, strlen(input), &kind, &number) ? (int)number : -1;
}

/* --- moments ------------------------------------------------------------------------------ */

static bool has_ended(const struct storm *s)
{
    struct pollfd p = { s->ended, POLLIN, 0 };
    return poll(&p, 1, 0) > 0;
}

/* Waits until something was written or the run has ended. False: neither happened within the limit. */
static bool await_change(const struct storm *s, int ms)
{
    char events[4096];
    struct pollfd p[] = { { s->changes, POLLIN, 0 }, { s->ended, POLLIN, 0 } };
    const int ready = poll(p, 2, ms);
    CHECK(ready >= 0 || errno == EINTR);
    while (read(s->changes, events, sizeof events) > 0)
        ;
    return ready != 0;
}

static void await_lines(const struct storm *s, const char *path, uint64_t lines)
{
    while (!has_ended(s) && count_lines(path) < lines)
        if (!await_change(s, STILL_MS))
            return;
}

/* Waits until the command has reported that it was interrupted. */
static void await_answer(const struct storm *s)
{
    while (!has_ended(s) && !storm_printed(s->nth, "interrupted"))
        if (!await_change(s, STILL_MS))
            return;
}

/* --- the gate -------------------------------------------------------------------------------- */

static void open_gate(struct storm *s)
{
    if (s->gate < 0)
        s->gate = open("gate", O_RDWR | O_CLOEXEC);
    CHECK(s->gate >= 0);
}

static void close_gate(struct storm *s)
{
    if (s->gate >= 0)
        close(s->gate);
    s->gate = -1;
}

/* --- signals ----------------------------------------------------------------------------------- */

static bool is_aimed_at(const struct storm *s, enum aim aim, const struct process *p)
{
    switch (aim) {
    case A_WORKER:
        return p->parent == s->dispatcher;
    case A_COMMAND:
        return p->pid != s->dispatcher && p->parent != s->dispatcher;
    case THE_DISPATCHER:
        return p->pid == s->dispatcher;
    default:
        return true;
    }
}

/* Keeps the processes that the step is aimed at: all, or one of them. */
static unsigned choose_targets(const struct storm *s, const struct step *step, struct process *all, unsigned n)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < n; i++)
        if (is_aimed_at(s, step->aim, &all[i]))
            all[kept++] = all[i];
    if (step->aim == EVERYTHING || kept < 2)
        return kept;
    all[0] = all[mix(s->p->seed + step->lines + s->out->harm.sent) % kept];
    return 1;
}

/* If a signal is sent to a command alone and ends it, the command counts as failed. A signal to all processes does not
 * count, because the run ends too. */
static void count_harm(const struct storm *s, const struct step *step, const struct process *p)
{
    struct harm *h = &s->out->harm;
    h->sent++;
    if (signal_stops(step->signal))
        return;
    h->lethal++;
    if (step->aim == EVERYTHING || s->p->stream || !is_aimed_at(s, A_COMMAND, p))
        return;
    const int task = task_of(p->pid);
    if (task >= 0 && (unsigned)task < s->p->n)
        h->hits[task]++;
    else
        h->unknown++;
}

static void send_to(const struct targets *t, int signal)
{
    for (unsigned i = 0; i < t->n; i++)
        syscall(SYS_pidfd_send_signal, t->fds[i], signal, NULL, 0); /* the process may be gone */
}

/* --- a worker and its dispatcher --------------------------------------------------------------- */

/* Two cases are not tested. The dispatcher may be killed before it has cleaned up after a worker that was killed alone.
 * Or a worker may be killed before it has noticed that its dispatcher was killed. In both cases no process is left that
 * could end the worker's command. docs/promises.md describes this. */
static const bool both_at_once = false;

static bool is_gone(const struct process *p)
{
    struct stat st;
    char path[64];
    struct process now;
    snprintf(path, sizeof path, "/proc/%d", (int)p->pid);
    return stat(path, &st) < 0 || (read_stat(p->pid, &now) && now.born != p->born);
}

/* Waits until the dispatcher has reaped every worker that was killed alone. It cleans up before it reaps. False: a
 * worker takes long to end, or the dispatcher is stopped. */
static bool workers_are_cleared_up(struct storm *s)
{
    for (unsigned i = 0; i < s->doomed.n; i++)
        for (int tries = 0; !is_gone(&s->doomed.all[i]); tries++) {
            if (tries == STILL_MS || has_ended(s))
                return has_ended(s);
            await_change(s, 10);
        }
    s->doomed.n = 0;
    return true;
}

static void doom(struct storm *s, const struct step *step, const struct process *p)
{
    const bool heeds = step->signal != SIGTERM || s->p->stream; /* a worker that runs commands ignores SIGTERM */
    if (p->parent == s->dispatcher && !signal_stops(step->signal) && step->aim != EVERYTHING && heeds)
        s->doomed.all[s->doomed.n++] = *p;
}

static bool ends_dispatcher(const struct storm *s, const struct step *step, const struct process *p)
{
    return (step->signal == SIGKILL || step->signal == SIGHUP) && p->pid == s->dispatcher;
}

/* --- strikes ------------------------------------------------------------------------------------- */

static void let_go(struct targets *t, int signal)
{
    send_to(t, signal);
    for (unsigned i = 0; i < t->n; i++)
        close(t->fds[i]);
    t->n = 0;
}

static void aim(struct storm *s, const struct step *step, struct targets *t)
{
    struct process all[MOST_PROCESSES];
    const unsigned n = choose_targets(s, step, all, list_processes(all));
    t->n = 0;
    if (n > 0 && ends_dispatcher(s, step, &all[0]) && !both_at_once && !workers_are_cleared_up(s))
        return;
    for (unsigned i = 0; i < n; i++) {
        const int fd = open_process(&all[i]);
        if (fd < 0)
            continue;
        count_harm(s, step, &all[i]);
        doom(s, step, &all[i]);
        s->is_over |= ends_dispatcher(s, step, &all[i]);
        t->fds[t->n++] = fd;
    }
}

/* To kill a whole job, lists the processes again until none is left. A worker may have started a command meanwhile, and
 * nothing else would end that command. */
static void kill_the_rest(struct storm *s, const struct step *step)
{
    const struct harm harm = s->out->harm; /* signals from now on hit only processes that were hit before */
    struct pollfd ended = { s->ended, POLLIN, 0 };
    unsigned left = poll(&ended, 1, LEFT_BEHIND_MS) > 0;
    for (int passes = 0; left > 0 && passes < LEFT_BEHIND_MS; passes++) {
        struct targets rest;
        aim(s, step, &rest);
        left = rest.n;
        let_go(&rest, step->signal);
        (void)poll(NULL, 0, left > 0); /* a millisecond, because processes take a while to die */
    }
    s->out->harm = harm;
}

static void strike(struct storm *s, const struct step *step)
{
    struct targets t, before = s->stopped;
    const bool at_dispatcher = step->aim == EVERYTHING || step->aim == THE_DISPATCHER;
    aim(s, step, &t);
    send_to(&t, step->signal);
    if (t.n > 0 && step->aim == EVERYTHING && (step->signal == SIGKILL || step->signal == SIGHUP))
        kill_the_rest(s, step);
    if (step->twice) {
        if (at_dispatcher)
            await_answer(s);
        send_to(&t, step->signal);
    }
    s->stopped.n = 0;
    if (signal_stops(step->signal) && step->across)
        s->stopped = t;
    else if (signal_stops(step->signal))
        await_lines(s, "log", count_lines("log") + step->on_after);
    else if (at_dispatcher && step->signal != SIGKILL)
        open_gate(s); /* running tasks may finish */
    if (!s->stopped.n)
        let_go(&t, signal_stops(step->signal) ? SIGCONT : 0);
    let_go(&before, SIGCONT);
}

/* --- the run -------------------------------------------------------------------------------------- */

static void add_option(const char **argv, unsigned *n, bool wanted, const char *option, const char *value)
{
    if (!wanted)
        return;
    argv[(*n)++] = option;
    if (value)
        argv[(*n)++] = value;
}

_Noreturn static void become_command(const struct plan *p)
{
    static char program[4096], self[4096], gpus[32], per_gpu[32], tries[32], limit[32], timeout[32];
    const char *argv[64];
    unsigned n = 0;
    snprintf(program, sizeof program, "%s/gpu-dispatch", getenv("GD_COMMAND_DIR"));
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        _exit(127);
    snprintf(gpus, sizeof gpus, "sim:%u", p->gpus);
    snprintf(per_gpu, sizeof per_gpu, "%u", p->per_gpu);
    snprintf(tries, sizeof tries, "%u", p->tries);
    snprintf(limit, sizeof limit, "%u", p->crash_limit);
    snprintf(timeout, sizeof timeout, "%ums", p->timeout_ms);
    const char *const always[] = {
        program,         "run", "--gpus",  gpus, "-j", per_gpu,     "--retries", tries,
        "--crash-limit", limit, "--quiet", "-a", "in", "--journal", JOURNAL,     "--resume"
    };
    for (size_t i = 0; i < COUNT_OF(always); i++)
        argv[n++] = always[i];
    add_option(argv, &n, p->timeout_ms > 0, "--timeout", timeout);
    add_option(argv, &n, p->keep_order, "-k", NULL);
    add_option(argv, &n, p->tag, "--tag", NULL);
    add_option(argv, &n, p->output, "--output", OUTPUT);
    add_option(argv, &n, p->joblog, "--joblog", JOBLOG);
    add_option(argv, &n, p->results, "--results", RESULTS);
    add_option(argv, &n, p->full_sync, "--sync", "full");
    add_option(argv, &n, p->stream, "--stream", NULL);
    argv[n++] = self;
    argv[n++] = p->stream ? "stream" : "task";
    argv[n] = NULL;
    execv(program, (char *const *)(uintptr_t)argv);
    _exit(127);
}

static void redirect(const char *name, unsigned nth, int fd)
{
    char path[64];
    snprintf(path, sizeof path, "%s.%u", name, nth);
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0 || dup2(file, fd) < 0)
        _exit(127);
}

static void start(struct storm *s)
{
    fflush(NULL);
    s->dispatcher = fork();
    CHECK(s->dispatcher >= 0);
    if (s->dispatcher == 0) {
        char window[32];
        const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (null < 0 || dup2(null, STDIN_FILENO) < 0)
            _exit(127);
        redirect("stdout", s->nth, STDOUT_FILENO);
        redirect("stderr", s->nth, STDERR_FILENO);
        snprintf(window, sizeof window, "%u", s->p->window_ms);
        setenv("GPU_DISPATCH_JOURNAL_MS", window, 1);
        become_command(s->p);
    }
    s->ended = (int)syscall(SYS_pidfd_open, s->dispatcher, 0);
    CHECK(s->ended >= 0);
}

static void describe(const struct process *all, unsigned n, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < n && at + 1 < size; i++) {
        char path[64], words[200];
        snprintf(path, sizeof path, "/proc/%d/cmdline", (int)all[i].pid);
        FILE *f = fopen(path, "re");
        const size_t length = f ? fread(words, 1, sizeof words, f) : 0;
        if (f)
            fclose(f);
        for (size_t k = 0; k < length; k++)
            words[k] = words[k] ? words[k] : ' ';
        at += (size_t)snprintf(text + at, size - at, "; %d (below %d, %c) %.*s", (int)all[i].pid, (int)all[i].parent,
                               all[i].state, (int)(length < 120 ? length : 120), words);
    }
}

/* After SIGTSTP the command stops its workers and then itself. A SIGCONT that comes before that is lost. A shell waits
 * until the command is stopped. This test sends SIGCONT again instead. */
static void wake_dispatcher(const struct storm *s)
{
    struct process now;
    if (read_stat(s->dispatcher, &now) && now.state == 'T')
        syscall(SYS_pidfd_send_signal, s->ended, SIGCONT, NULL, 0);
}

static void await_end(struct storm *s)
{
    struct process all[MOST_PROCESSES];
    char text[600];
    for (int still_ms = 0; !has_ended(s);) {
        still_ms = await_change(s, STILL_MS) ? 0 : still_ms + STILL_MS;
        wake_dispatcher(s);
        if (still_ms < STUCK_MS)
            continue;
        describe(all, list_processes(all), text, sizeof text);
        FAIL("seed %llu, run %u hangs%s", (unsigned long long)s->p->seed, s->nth, text);
    }
    int status;
    while (waitpid(s->dispatcher, &status, 0) < 0)
        CHECK_EQ(errno, EINTR);
    s->out->killed = WIFSIGNALED(status);
    s->out->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Waits until every process of the run has ended by itself. */
static void await_no_process(const struct storm *s)
{
    struct process all[MOST_PROCESSES];
    const uint64_t limit = now_ns() + LEFT_BEHIND_MS * MS;
    for (unsigned n; (n = list_processes(all)) > 0;) {
        const uint64_t now = now_ns();
        struct pollfd p = { open_process(&all[0]), POLLIN, 0 };
        if (p.fd >= 0 && poll(&p, 1, now < limit ? (int)((limit - now) / MS) : 0) == 0) {
            char text[600];
            describe(all, list_processes(all), text, sizeof text);
            FAIL("seed %llu, run %u ended with %d and left processes:%s", (unsigned long long)s->p->seed, s->nth,
                 s->out->status, text);
        }
        if (p.fd >= 0)
            close(p.fd);
    }
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

static void watch(struct storm *s)
{
    s->changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    CHECK(s->changes >= 0);
    CHECK(inotify_add_watch(s->changes, ".", IN_MODIFY) >= 0);
    CHECK(inotify_add_watch(s->changes, "kept", IN_MODIFY | IN_CREATE) >= 0);
}

void storm_run(const struct plan *p, unsigned nth, const struct step *steps, unsigned n_steps, struct outcome *out)
{
    struct storm s = { .p = p, .nth = nth, .gate = -1, .out = out };
    out->harm = (struct harm){ .hits = calloc(p->n, sizeof *out->harm.hits) };
    CHECK(out->harm.hits != NULL);
    watch(&s);
    start(&s);
    for (unsigned i = 0; i < n_steps && !has_ended(&s) && (both_at_once || !s.is_over); i++) {
        const char *file = steps[i].by_output ? OUTPUT : "log";
        if (steps[i].open_gate)
            open_gate(&s);
        await_lines(&s, file, count_lines(file) + steps[i].lines);
        strike(&s, &steps[i]);
    }
    let_go(&s.stopped, SIGCONT);
    if (!has_ended(&s))
        open_gate(&s);
    await_end(&s);
    close_gate(&s);
    await_no_process(&s);
    close(s.ended);
    close(s.changes);
}

bool storm_printed(unsigned nth, const char *words)
{
    char path[64], *line = NULL;
    size_t room = 0;
    bool found = false;
    snprintf(path, sizeof path, "stderr.%u", nth);
    FILE *f = fopen(path, "re");
    while (f && !found && getline(&line, &room, f) > 0)
        found = strstr(line, words) != NULL;
    if (f)
        fclose(f);
    free(line);
    return found;
}

const char *storm_last_output(unsigned nth)
{
    static char words[400];
    char path[64];
    snprintf(path, sizeof path, "stderr.%u", nth);
    FILE *f = fopen(path, "re");
    if (f && fseek(f, -(long)(sizeof words - 1), SEEK_END) < 0)
        rewind(f);
    words[f ? fread(words, 1, sizeof words - 1, f) : 0] = '\0';
    if (f)
        fclose(f);
    return words;
}
