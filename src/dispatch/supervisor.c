/* Processes: the effects by which the scheduler starts, stops and kills workers, and what happens when one ends.
 *
 * A worker's death, in this order: its pidfd turns readable; its results are read; what it had running and left to us
 * is ended, where that is wanted (strays.c); what it had begun is looked up; the scheduler is told, which hands its
 * tasks on; both rings are thrown away with their memory. A ring is never repaired.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "dispatch/internal.h"
#include "worker/host.h"

/* For results: per worker, but not more than a part of what there is for all. Sparse: costs nothing until touched. */
#define RESULT_ADDRESS_SPACE     (UINT64_C(1) << 36)
#define RESULT_ADDRESS_SPACE_ALL (UINT64_C(1) << 45)
enum { LAST_LINES = 10, DEATH_WORDS = GD__TAIL_BYTES + 1024 };

static struct gd__seat *seat_of(void *ctx, unsigned w)
{
    struct gd_dispatcher *d = ctx;
    return &d->seats[w];
}

/* --- the environment of a worker --- */

enum { N_OWN_VARIABLES = 6, N_SET = N_OWN_VARIABLES + GD__DEVICE_VARIABLES, VARIABLE_MAX = GD__PROCESS_NAME_MAX };

struct environment {
    char own[N_OWN_VARIABLES][VARIABLE_MAX]; /* the first and the last are not the user's to change */
    char **list;                             /* borrowed strings */
};

static bool names_same(const char *a, const char *b)
{
    const size_t n = strcspn(a, "=");
    return strncmp(a, b, n) == 0 && b[n] == '=';
}

static bool is_replaced(const char *variable, char *const *by, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (names_same(by[i], variable))
            return true;
    return false;
}

/* What lets somebody look at a run is not for its workers. The command has removed it already; a program that uses the
 * library may have inherited it. */
static bool is_secret(const char *variable)
{
    return names_same("GPU_DISPATCH_HTTP_TOKEN", variable);
}

static size_t count_strings(char *const *list)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    return n;
}

/* Ours first, then the user's, then what this process has, each name once. */
static int make_environment(struct environment *e, const struct gd_dispatcher *d, unsigned i)
{
    extern char **environ;
    const size_t n_user = count_strings(d->copy.env);
    const struct gd__worker_device *device = &d->devices[d->device_of[i]].how;
    snprintf(e->own[0], VARIABLE_MAX, "%s=%d", GD__BOOT_ENV, GD__BOOT_FD);
    snprintf(e->own[1], VARIABLE_MAX, "GPU_DISPATCH_WORKER_ID=%u", i);
    snprintf(e->own[2], VARIABLE_MAX, "GPU_DISPATCH_GPU_ID=%d", d->copy.gpu_ids[i]);
    snprintf(e->own[3], VARIABLE_MAX, "GPU_DISPATCH_SEED=%" PRIu64, d->o.base_seed + (uint64_t)d->copy.gpu_ids[i]);
    snprintf(e->own[4], VARIABLE_MAX, "GPU_DISPATCH_SLOT=%u", i + 1);
    snprintf(e->own[5], VARIABLE_MAX, "%s", d->seats[i].name);
    e->list = gd__calloc(N_SET + n_user + count_strings(environ) + 1, sizeof *e->list);
    if (!e->list)
        return gd__error(GD_E_NO_MEMORY, "no memory for a worker's environment");
    size_t n = 0;
    for (size_t k = 0; k < N_OWN_VARIABLES; k++)
        if (!is_replaced(e->own[k], d->copy.env, n_user) || k == 0 || k == N_OWN_VARIABLES - 1)
            e->list[n++] = e->own[k];
    for (size_t k = 0; k < device->n_variables; k++)
        if (!is_replaced(device->variables[k], d->copy.env, n_user))
            e->list[n++] = (char *)(uintptr_t)device->variables[k];
    for (size_t k = 0; k < n_user; k++)
        e->list[n++] = d->copy.env[k];
    const size_t n_set = n;
    for (char **v = environ; v && *v; v++)
        if (!is_replaced(*v, e->list, n_set) && !is_secret(*v))
            e->list[n++] = *v;
    return 0;
}

/* --- starting --- */

static int open_channel(struct gd_dispatcher *d, struct gd__seat *seat)
{
    const struct gd__sched_worker *w = &d->sched.workers[seat->index];
    const struct gd__region *arena = gd__feeder_arena(d->feeder);
    const struct gd__channel_spec spec = {
        .config = {
            .generation = (uint32_t)w->restarts,
            .worker_id = (int)seat->index,
            .gpu_id = w->gpu_id,
            .seed = d->o.base_seed + (uint64_t)w->gpu_id,
            .arena_size = arena->size,
            .arena_hot_size = d->o.arena_bytes < arena->size ? d->o.arena_bytes : arena->size,
            .task_capacity = d->window,
            .result_capacity = 2 * (uint64_t)d->window,
            .args_size = d->o.setup_args_size,
            .spin_ns = d->spin_ns,
            .report_start = d->o.on_task_start != NULL,
            .batch_size = d->o.batch_size,
            .io_threads = d->o.io_threads,
            .load_ahead = d->o.load_ahead,
        },
        .args = d->o.setup_args,
        .result_bytes = RESULT_ADDRESS_SPACE_ALL / d->n_workers < RESULT_ADDRESS_SPACE
                            ? RESULT_ADDRESS_SPACE_ALL / d->n_workers
                            : RESULT_ADDRESS_SPACE,
    };
    return gd__channel_open(&seat->channel, &spec);
}

static void pass_output(void *user, int stream, const char *text, size_t length)
{
    const struct gd__seat *seat = user;
    const struct gd_dispatcher *d = seat->d;
    if (d->o.output == GD_OUTPUT_CAPTURE && d->o.on_output)
        d->o.on_output(d->o.user, (int)seat->index, stream, text, length);
}

/* stderr always passes through us, for the last words of a crash; stdout only when it is captured. */
static int open_outputs(struct gd_dispatcher *d, struct gd__seat *seat, int child_fds[2])
{
    const int forward = d->o.output == GD_OUTPUT_INHERIT ? STDERR_FILENO : -1;
    child_fds[0] = d->o.output == GD_OUTPUT_INHERIT ? STDOUT_FILENO : -1;
    child_fds[1] = -1;
    int rc = gd__output_open(&seat->err, &d->loop, STDERR_FILENO, forward, pass_output, seat, &child_fds[1]);
    if (rc == 0 && d->o.output == GD_OUTPUT_CAPTURE)
        rc = gd__output_open(&seat->out, &d->loop, STDOUT_FILENO, -1, pass_output, seat, &child_fds[0]);
    return rc;
}

/* dispatcher: our pidfd */
static int send_boot(const struct gd_dispatcher *d, const struct gd__seat *seat, int dispatcher)
{
    const struct gd__channel *c = &seat->channel;
    const struct gd__region *arena = gd__feeder_arena(d->feeder);
    struct gd__boot boot = {
        .magic = GD__TASK_MAGIC,
        .version = GD__LAYOUT_VERSION,
        .task_region_size = c->tasks.size,
        .result_region_size = c->results.size,
        .arena_size = arena->size,
    };
    const int fds[GD__BOOT_FDS] = {
        [GD__FD_TASKS] = c->tasks.fd,          [GD__FD_RESULTS] = c->results.fd, [GD__FD_ARENA] = arena->fd,
        [GD__FD_RESULT_BELL] = c->result_bell, [GD__FD_DISPATCHER] = dispatcher,
    };
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof fds)];
    } control = { .room = { 0 } };
    struct iovec data = { &boot, sizeof boot };
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
    };
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(head), fds, sizeof fds);
    if (sendmsg(seat->lifeline.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return gd__error_errno("cannot send the boot message");
    return 0;
}

/* Opened for each worker: the process that runs need not be the one that opened the dispatcher. */
static int boot(const struct gd_dispatcher *d, const struct gd__seat *seat)
{
    const int self = gd__pidfd_open(getpid());
    if (self < 0)
        return gd__error_errno("cannot open a pidfd of this process");
    const int rc = send_boot(d, seat, self);
    close(self);
    return rc;
}

static void bell_rang(struct gd__watch *w, uint32_t events)
{
    (void)w, (void)events; /* the monitor looks at every live worker when it wakes */
}

static void process_ended(struct gd__watch *w, uint32_t events);

static int start_process(struct gd_dispatcher *d, struct gd__seat *seat, int boot_fd, const int output_fds[2])
{
    struct environment e = { .list = NULL };
    const struct gd__worker_device *device = &d->devices[d->device_of[seat->index]].how;
    int rc = make_environment(&e, d, seat->index);
    if (rc == 0) {
        const struct gd__child_spec spec = {
            .path = d->spawn_path,
            .argv = d->spawn_argv,
            .envp = e.list,
            .cpus = device->has_cpus && !d->o.any_cpu ? &device->cpus : NULL,
            .boot_fd = boot_fd,
            .stdout_fd = output_fds[0],
            .stderr_fd = output_fds[1],
        };
        gd__children_lock(d);
        rc = gd__child_spawn(&seat->child, &spec);
        seat->shortage = rc < 0 && (errno == EAGAIN || errno == ENOMEM);
        gd__child_started(seat);
        gd__children_unlock(d);
    }
    gd__free(e.list);
    return rc;
}

static void drop_from_live(struct gd_dispatcher *d, const struct gd__seat *seat)
{
    for (unsigned k = 0; k < d->n_live; k++)
        if (d->live[k] == seat->index)
            d->live[k--] = d->live[--d->n_live];
}

/* Everything of a process that is gone, or never came to be. */
static void clear_seat(struct gd__seat *seat)
{
    struct gd_dispatcher *d = seat->d;
    seat->live = false;
    drop_from_live(d, seat);
    gd__strays_forget(seat);
    gd__loop_remove(&d->loop, &seat->pid_watch);
    gd__loop_remove(&d->loop, &seat->bell_watch);
    gd__output_close(&seat->out);
    gd__output_close(&seat->err);
    gd__channel_close(&seat->channel);
    gd__fork_close(&seat->lifeline);
}

static int open_socket_pair(int pair[2])
{
    if (GD__FAULT("socketpair") || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return gd__error_errno("cannot create a socket pair");
    for (int k = 0; k < 2; k++)
        pair[k] = gd__fd_above_stdio(pair[k]);
    return pair[0] < 0 || pair[1] < 0 ? gd__error_errno("cannot copy a descriptor") : 0;
}

/* A fork of the program does not keep our end: the worker would take it for the dispatcher. */
static int open_lifeline(struct gd__seat *seat, int *theirs)
{
    int pair[2] = { -1, -1 };
    gd__fork_hold();
    const int rc = open_socket_pair(pair);
    gd__fork_guard(&seat->lifeline, pair[0]);
    gd__fork_let();
    *theirs = pair[1];
    return rc;
}

static int try_start(struct gd_dispatcher *d, struct gd__seat *seat)
{
    int boot_fd = -1, output_fds[2] = { -1, -1 };
    int rc = open_channel(d, seat);
    if (rc == 0)
        rc = open_lifeline(seat, &boot_fd);
    if (rc == 0)
        rc = open_outputs(d, seat, output_fds);
    if (rc == 0)
        rc = boot(d, seat);
    if (rc == 0)
        rc = start_process(d, seat, boot_fd, output_fds);
    if (rc == 0) /* edge-triggered: of a process that has ended but can't be reaped (a debugger has it) we hear once */
        rc = gd__loop_add(&d->loop, &seat->pid_watch, seat->child.pidfd, EPOLLIN | EPOLLET, process_ended);
    if (rc == 0)
        rc = gd__loop_add(&d->loop, &seat->bell_watch, seat->channel.result_bell, EPOLLIN | EPOLLET, bell_rang);
    if (boot_fd >= 0)
        close(boot_fd);
    for (int k = 0; k < 2; k++)
        if (output_fds[k] > STDERR_FILENO)
            close(output_fds[k]);
    return rc;
}

/* A process that runs but can't be watched is no use: it is ended here and now (SIGKILL is not refused). */
static void undo_start(struct gd__seat *seat)
{
    struct gd__exit e;
    gd__loop_remove(&seat->d->loop, &seat->pid_watch);
    if (seat->child.pid > 0) {
        gd__child_signal(&seat->child, SIGKILL);
        struct gd__loop wait;
        struct gd__watch w = GD__WATCH_NONE;
        if (gd__loop_open(&wait) == 0) {
            if (gd__loop_add(&wait, &w, seat->child.pidfd, EPOLLIN, bell_rang) == 0)
                gd__loop_wait(&wait, gd__now_ns() + GD__NS_PER_S);
            gd__loop_close(&wait);
        }
        gd__children_lock(seat->d);
        if (gd__child_reap(&seat->child, &e) != 1)
            gd__child_forget(&seat->child);
        gd__children_unlock(seat->d);
    }
    clear_seat(seat);
}

static void start_worker(void *ctx, unsigned w)
{
    struct gd_dispatcher *d = ctx;
    struct gd__seat *seat = seat_of(ctx, w);
    seat->broken = seat->shortage = false;
    seat->said = 0;
    seat->told_to_stop = false;
    seat->announced = 0;
    seat->words[0] = '\0';
    gd__strays_name(seat);
    if (try_start(d, seat) < 0) {
        snprintf(seat->words, sizeof seat->words, "worker %u could not be started: %s", w, gd_error_text());
        undo_start(seat);
        seat->spawn_failed = true;
        d->spawn_failures++;
        return;
    }
    seat->live = true;
    d->live[d->n_live++] = w;
}

/* --- the end of a process --- */

/* Whether it ended by itself, and was another program than a worker. */
static bool is_no_worker(const struct gd__seat *seat, const struct gd__exit *e)
{
    return e->known && e->signal == 0 && e->code != GD__EXIT_BOOT && e->code != GD__EXIT_SHORTAGE &&
           !gd__channel_attached(&seat->channel);
}

static void describe_death(const struct gd__seat *seat, const struct gd__exit *e, char *text, size_t size)
{
    char how[128], last[GD__TAIL_BYTES + 1];
    const char *killed = e->signal == SIGKILL ? gd__sched_kill_words(&seat->d->sched, seat->index) : NULL;
    gd__exit_describe(e, how, sizeof how);
    const size_t n = gd__output_last_lines(&seat->err, LAST_LINES, last, sizeof last);
    int length = snprintf(text, size, "worker %u (GPU %d) %s%s", seat->index, seat->d->copy.gpu_ids[seat->index],
                          seat->broken ? seat->words
                          : killed     ? killed
                                       : how,
                          seat->broken            ? "; it was killed"
                          : is_no_worker(seat, e) ? " without calling gd_worker_main(): a worker program must call it "
                                                    "at the start of main()"
                                                  : "");
    if (n > 0 && length > 0 && (size_t)length < size)
        snprintf(text + length, size - (size_t)length, "; its last output:\n%s", last);
}

/* It died in cleanup, or was killed there for taking too long. */
static void report_cleanup_crash(const struct gd__seat *seat, const char *words)
{
    const bool cleaned = seat->said & (1u << GD__R_BYE | 1u << GD__R_CLEANUP_FAILED);
    const bool in_cleanup = seat->told_to_stop && (seat->said & 1u << GD__R_READY) && !cleaned;
    if (in_cleanup)
        gd__deliver_cleanup_failed(seat->d, seat->index, words);
}

/* All that there can be, and no more: something that the worker started may still write there. */
static void read_last_records(struct gd__seat *seat)
{
    struct gd_dispatcher *d = seat->d;
    d->now = gd__now_ns();
    gd__monitor_obey(d); /* while the seat is whole */
    for (uint64_t n = 0; n <= seat->channel.result_capacity && gd__records_drain(d, seat); n++)
        ;
}

void gd__seat_ended(struct gd__seat *seat)
{
    struct gd_dispatcher *d = seat->d;
    const struct gd__exit *e = &seat->exit;
    char words[DEATH_WORDS];
    struct gd__progress p;
    read_last_records(seat);
    gd__output_drain(&seat->out);
    gd__output_drain(&seat->err);
    describe_death(seat, e, words, sizeof words);
    gd__channel_progress(&seat->channel, d->sched.workers[seat->index].head, &p);
    const struct gd__death death = {
        .started = p.started,
        .loading = p.loading,
        .start_ns = p.start_ns < d->now ? p.start_ns : d->now,
        .signal = e->signal,
        .exit_code = e->code,
        .shortage = e->code == GD__EXIT_SHORTAGE && !(seat->said & 1u << GD__R_READY),
        .words = words,
    };
    report_cleanup_crash(seat, words);
    clear_seat(seat);
    d->now = gd__now_ns(); /* the user was called: what is started now has its time from now */
    gd__sched_exited(&d->sched, d->now, seat->index, &death);
}

static void process_ended(struct gd__watch *w, uint32_t events)
{
    (void)events;
    struct gd__seat *seat = (struct gd__seat *)((char *)w - offsetof(struct gd__seat, pid_watch));
    if (!gd__child_can_be_reaped(&seat->child))
        return;
    gd__loop_remove(&seat->d->loop, &seat->pid_watch); /* before its descriptor is closed */
    seat->exit = (struct gd__exit){ .known = false };
    gd__children_lock(seat->d);
    seat->ended_pid = seat->child.pid;
    if (gd__child_reap(&seat->child, &seat->exit) < 0)
        gd__child_forget(&seat->child);
    gd__children_unlock(seat->d);
    read_last_records(seat); /* what it has done is not to be ended */
    if (!gd__strays_end(seat))
        gd__seat_ended(seat);
}

/* By its number, which is its own until it is waited for: its pidfd is closed too, and may be another's by now. */
static void end_by_number(struct gd__seat *seat)
{
    const pid_t pid = seat->child.pid;
    int status = 0;
    if (kill(-pid, SIGKILL) < 0)
        kill(pid, SIGKILL);
    pid_t got;
    do
        got = waitpid(pid, &status, 0);
    while (got < 0 && errno == EINTR);
    seat->exit = (struct gd__exit){ .known = got == pid,
                                    .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                                    .code = WIFEXITED(status) ? WEXITSTATUS(status) : 0 };
    gd__children_lock(seat->d);
    seat->child = (struct gd__child)GD__CHILD_NONE;
    gd__children_unlock(seat->d);
}

void gd__supervisor_cut_off(struct gd_dispatcher *d)
{
    d->cut_off = true;
    d->feeder_deadline = d->now;
    gd__sched_abort(&d->sched, d->now);
    for (unsigned i = 0; i < d->n_workers; i++) {
        if (!d->seats[i].live)
            continue;
        if (d->seats[i].child.pid > 0)
            end_by_number(&d->seats[i]);
        gd__seat_ended(&d->seats[i]);
    }
}

void gd__supervisor_tell_failures(struct gd_dispatcher *d)
{
    for (unsigned i = 0; i < d->n_workers && d->spawn_failures > 0; i++) {
        struct gd__seat *seat = &d->seats[i];
        if (!seat->spawn_failed)
            continue;
        seat->spawn_failed = false;
        d->spawn_failures--;
        const struct gd__death death = { .not_spawned = true, .shortage = seat->shortage, .words = seat->words };
        gd__sched_exited(&d->sched, d->now, i, &death);
    }
}

void gd__seat_broken(struct gd__seat *seat, const char *why)
{
    if (seat->broken)
        return;
    seat->broken = true;
    snprintf(seat->words, sizeof seat->words, "broke the protocol (%s)", why);
    gd__sched_broken(&seat->d->sched, seat->d->now, seat->index);
}

/* --- the other effects --- */

static void assign(void *ctx, unsigned w, const struct gd__task *t, unsigned attempt)
{
    struct gd__task_slot *slot = gd__channel_append(&seat_of(ctx, w)->channel);
    slot->task_id = gd__task_number(t);
    slot->attempt = attempt;
    slot->batch = t->batch;
    slot->flags = t->solo ? GD__TASK_SOLO : 0;
    memcpy(&slot->payload, t->payload, sizeof slot->payload);
}

static void show_tasks(void *ctx, unsigned w)
{
    gd__channel_publish(&seat_of(ctx, w)->channel);
}

static uint64_t take_back(void *ctx, unsigned w, uint64_t keep)
{
    return gd__channel_take_back(&seat_of(ctx, w)->channel, keep);
}

static void probe(void *ctx, unsigned w, uint64_t head, struct gd__probe *out)
{
    struct gd__progress p;
    gd__channel_progress(&seat_of(ctx, w)->channel, head, &p);
    out->started = p.started;
    out->start_ns = p.start_ns;
}

static void cancel(void *ctx, unsigned w, uint64_t below)
{
    struct gd__seat *seat = seat_of(ctx, w);
    gd__channel_cancel(&seat->channel, below);
    /* Only a hint for interrupt(): if the socket is full or gone, the kill that follows does not depend on it. */
    (void)send(seat->lifeline.fd, "c", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void kill_process(void *ctx, unsigned w)
{
    gd__child_signal(&seat_of(ctx, w)->child, SIGKILL);
}

static void stop(void *ctx, unsigned w)
{
    struct gd__seat *seat = seat_of(ctx, w);
    seat->told_to_stop = true;
    if (seat->live)
        gd__channel_stop(&seat->channel);
}

static void abandon(void *ctx, unsigned w)
{
    struct gd__seat *seat = seat_of(ctx, w);
    clear_seat(seat);
    gd__children_lock(seat->d);
    gd__child_forget(&seat->child);
    gd__children_unlock(seat->d);
}

const struct gd__sched_effects gd__effects = {
    .spawn = start_worker,
    .assign = assign,
    .publish = show_tasks,
    .take_back = take_back,
    .probe = probe,
    .cancel = cancel,
    .kill = kill_process,
    .stop = stop,
    .abandon = abandon,
    .deliver = gd__deliver,
    .hold = gd__deliver_hold,
    .drop = gd__deliver_drop,
    .shortage = gd__deliver_shortage,
    .tried = gd__deliver_try,
    .setup_failed = gd__deliver_setup_failed,
    .worker_died = gd__deliver_worker_died,
    .device_out = gd__deliver_device_out,
};

/* --- opening and closing --- */

#ifndef GD_HOST_PATH
#define GD_HOST_PATH "gpu-dispatch-host"
#endif

static int choose_program(struct gd_dispatcher *d)
{
    const char *host = getenv("GPU_DISPATCH_HOST");
    const char *self = gd__worker_argv() ? gd__worker_argv()[0] : NULL;
    d->spawn_argv = gd__calloc(3, sizeof *d->spawn_argv);
    if (!d->spawn_argv)
        return gd__error(GD_E_NO_MEMORY, "no memory for a worker's arguments");
    if (d->copy.worker_argv) {
        gd__free(d->spawn_argv);
        d->spawn_argv = d->copy.worker_argv;
        d->spawn_path = d->copy.worker_argv[0];
    } else if (d->copy.plugin) {
        d->spawn_path = host && *host ? host : GD_HOST_PATH;
        d->spawn_argv[0] = (char *)(uintptr_t)d->spawn_path;
        d->spawn_argv[1] = d->copy.plugin;
    } else {
        d->spawn_path = "/proc/self/exe";
        d->spawn_argv[0] = (char *)(uintptr_t)(self ? self : "gpu-dispatch-worker");
    }
    return 0;
}

int gd__supervisor_open(struct gd_dispatcher *d)
{
    d->seats = gd__calloc(d->n_workers, sizeof *d->seats);
    d->live = gd__calloc(d->n_workers, sizeof *d->live);
    for (unsigned i = 0; d->seats && i < d->n_workers; i++) {
        struct gd__seat *seat = &d->seats[i];
        seat->d = d;
        seat->index = i;
        seat->lifeline = (struct gd__fork_guard)GD__FORK_GUARD_NONE;
        seat->out.fd = seat->err.fd = -1;
        seat->out.forward_fd = seat->err.forward_fd = -1;
        seat->pid_watch.fd = seat->bell_watch.fd = -1;
        seat->strays.timer = seat->strays.timer_watch.fd = -1;
        seat->out.watch.fd = seat->err.watch.fd = seat->out.forward_watch.fd = seat->err.forward_watch.fd = -1;
        seat->child = (struct gd__child)GD__CHILD_NONE;
        seat->channel = (struct gd__channel){ .tasks = GD__REGION_NONE, .results = GD__REGION_NONE, .result_bell = -1 };
    }
    if (!d->seats || !d->live)
        return gd__error(GD_E_NO_MEMORY, "no memory for %u workers", d->n_workers);
    return choose_program(d);
}

bool gd__dispatcher_locate(const struct gd_dispatcher *d, const void *data, int *fd, uint64_t *offset)
{
    for (unsigned k = 0; k < d->n_live; k++) {
        const struct gd__region *r = &d->seats[d->live[k]].channel.results;
        if ((const char *)data < (const char *)r->base || (const char *)data >= (const char *)r->base + r->size)
            continue;
        *fd = r->fd;
        *offset = (uint64_t)((const char *)data - (const char *)r->base);
        return true;
    }
    return false;
}

void gd__supervisor_close(struct gd_dispatcher *d)
{
    for (unsigned i = 0; d->seats && i < d->n_workers; i++)
        undo_start(&d->seats[i]);
    if (d->spawn_argv != d->copy.worker_argv)
        gd__free(d->spawn_argv);
    d->spawn_argv = NULL;
    gd__children_lock(d); /* another thread may be about to stop them all */
    gd__free(d->seats);
    d->seats = NULL;
    gd__children_unlock(d);
    gd__free(d->live);
    d->live = NULL;
}
