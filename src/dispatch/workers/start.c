/* Starts the process of a worker, with its channel, socket, output and environment. Undoes a start that failed. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "dispatch/internal.h"

/* Address space for results: for one worker, and for all workers together. It is sparse and uses no memory until it is
 * written to. */
#define RESULT_ADDRESS_SPACE     (UINT64_C(1) << 36)
#define RESULT_ADDRESS_SPACE_ALL (UINT64_C(1) << 45)

/* --- the environment of a worker --- */

enum { N_OWN_VARIABLES = 6, N_SET = N_OWN_VARIABLES + GD__DEVICE_VARIABLES, VARIABLE_MAX = GD__PROCESS_NAME_MAX };

struct environment {
    char own[N_OWN_VARIABLES][VARIABLE_MAX]; /* the user can replace all except the first and the last */
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

/* Workers must not get the token with which observers read a run. The command has removed it already, but another
 * program that uses the library may have inherited it. The same holds for the credentials of a node. */
static bool is_secret(const struct gd_dispatcher *d, const char *variable)
{
    static const char *const of_queues[] = { "NATS_PASSWORD", "NATS_USER", "NATS_TOKEN", "NATS_CREDS", "NATS_NKEY",
                                             "NATS_SEED",     "NATS_JWT",  "NATS_KEY",   "NATS_CERT" };
    for (size_t i = 0; d->copy.queue && i < sizeof of_queues / sizeof *of_queues; i++)
        if (names_same(of_queues[i], variable))
            return true;
    return names_same("GPU_DISPATCH_HTTP_TOKEN", variable);
}

static size_t count_strings(char *const *list)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    return n;
}

/* The library's variables come first, then the user's, then those of this process. Each name occurs only once. */
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
        if (!is_replaced(*v, e->list, n_set) && !is_secret(d, *v))
            e->list[n++] = *v;
    return 0;
}

static void bell_rang(struct gd__watch *w, uint32_t events)
{
    (void)w, (void)events; /* the monitor checks every live worker when it wakes up */
}

/* --- starting --- */

static int open_channel(struct gd_dispatcher *d, struct gd__seat *seat)
{
    const struct gd__sched_worker *w = &d->sched.workers[seat->index];
    const struct gd__region *arena = gd__feeder_arena(d->feeder);
    const struct gd__worker_device *device = &d->devices[d->device_of[seat->index]].how;
    struct gd__channel_spec spec = {
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
            .n_gpus = (uint32_t)device->n_gpus,
            .concurrency = d->o.concurrency,
            .batch_wait_ns = (uint64_t)d->o.batch_wait_us * 1000,
        },
        .args = d->o.setup_args,
        .result_bytes = RESULT_ADDRESS_SPACE_ALL / d->n_workers < RESULT_ADDRESS_SPACE
                            ? RESULT_ADDRESS_SPACE_ALL / d->n_workers
                            : RESULT_ADDRESS_SPACE,
    };
    _Static_assert(sizeof spec.config.gpu_ids == sizeof device->gpu_ids, "room for every group");
    memcpy(spec.config.gpu_ids, device->gpu_ids, sizeof spec.config.gpu_ids);
    return gd__channel_open(&seat->channel, &spec);
}

static void pass_output(void *user, int stream, const char *text, size_t length)
{
    const struct gd__seat *seat = user;
    const struct gd_dispatcher *d = seat->d;
    if (d->o.output == GD_OUTPUT_CAPTURE && d->o.on_output)
        d->o.on_output(d->o.user, (int)seat->index, stream, text, length);
}

/* stderr always passes through the dispatcher, which reports its last lines after a crash. stdout does so only when it
 * is captured. */
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

/* dispatcher is the pidfd of this process. */
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
        [GD__FD_TASKS] = c->tasks.fd,     [GD__FD_RESULTS] = c->results.fd,
        [GD__FD_ARENA] = arena->fd,       [GD__FD_RESULT_BELL] = c->result_bell,
        [GD__FD_DISPATCHER] = dispatcher, [GD__FD_TASK_BELL] = c->task_bell_theirs,
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

/* The pidfd is opened for each worker, because the process that calls run may not be the one that opened the
 * dispatcher. */
static int boot(const struct gd_dispatcher *d, struct gd__seat *seat)
{
    const int self = gd__pidfd_open(getpid());
    if (self < 0)
        return gd__error_errno("cannot open a pidfd of this process");
    const int rc = send_boot(d, seat, self);
    close(self);
    gd__fd_close(&seat->channel.task_bell_theirs);
    return rc;
}

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

static int open_socket_pair(int pair[2])
{
    if (GD__FAULT("socketpair") || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return gd__error_errno("cannot create a socket pair");
    for (int k = 0; k < 2; k++)
        pair[k] = gd__fd_above_stdio(pair[k]);
    return pair[0] < 0 || pair[1] < 0 ? gd__error_errno("cannot copy a descriptor") : 0;
}

/* A fork of this process must not keep our end of the socket, because the worker would believe that the dispatcher is
 * still there. */
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

int gd__seat_start(struct gd__seat *seat)
{
    struct gd_dispatcher *d = seat->d;
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
    /* Edge-triggered, so that a process that has ended but can't be reaped, because it is being debugged, is reported
     * once. */
    if (rc == 0)
        rc = gd__loop_add(&d->loop, &seat->pid_watch, seat->child.pidfd, EPOLLIN | EPOLLET, gd__seat_process_ended);
    if (rc == 0)
        rc = gd__loop_add(&d->loop, &seat->bell_watch, seat->channel.result_bell, EPOLLIN | EPOLLET, bell_rang);
    if (boot_fd >= 0)
        close(boot_fd);
    for (int k = 0; k < 2; k++)
        if (output_fds[k] > STDERR_FILENO)
            close(output_fds[k]);
    return rc;
}

/* A process that runs but can't be watched is useless, so it is killed before this returns. */
void gd__seat_undo_start(struct gd__seat *seat)
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
    gd__seat_clear(seat);
}

static void drop_from_live(struct gd_dispatcher *d, const struct gd__seat *seat)
{
    for (unsigned k = 0; k < d->n_live; k++)
        if (d->live[k] == seat->index)
            d->live[k--] = d->live[--d->n_live];
}

void gd__seat_clear(struct gd__seat *seat)
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
