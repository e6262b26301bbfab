/* gd_worker_main(), the call at the top of main(). In a process that a dispatcher started, it runs the worker and does
 * not return. In any other process it records how to start a worker.
 *
 * A worker has the number of the boot socket in its environment. It removes the variable, because its own children are
 * not workers. It receives the shared memory. Then the guardian thread reads the socket:
 *
 *   on a byte 'c'       calls interrupt(), if the cancelled task still runs, or cancel() for cancelled tasks in flight
 *   on a byte 'e'       ends that task by force, if the worker can do that
 *   on end of file      the dispatcher has ended: kills this process and its whole group
 *
 * It also kills the group when the dispatcher's pidfd is readable. This is needed because a fork of the dispatcher may
 * hold the socket open.
 *
 * The parent-death signal alone is not enough. The dispatcher may die before the signal is set, and the signal does not
 * reach this process's children. After the guardian has started, the signal must not be SIGKILL. SIGKILL would usually
 * be faster than the guardian, and the children would survive. SIGCONT does no harm, and lets the guardian of a stopped
 * process run.
 *
 * If the boot fails, the process writes one line to stderr and exits with GD__EXIT_BOOT (70).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/thread.h"
#include "proc/descendants.h"
#include "worker/host.h"

enum {
    MOST_OPS = 4096, /* bytes: a larger size means that the table's size was never set */
    OOM_MORE = 500,
    OOM_MOST = 1000, /* the largest oom_score_adj, in thousandths of all memory */
};

static struct {
    bool called;
    struct gd_worker_ops ops;
    char **argv; /* the array is ours, the strings are main's */
} registered;

static bool is_worker;
static struct gd_worker this_worker;
static char refusal[1024]; /* the reason why this worker's table of functions can't be used */

const struct gd_worker_ops *gd__worker_registered(void)
{
    return registered.called ? &registered.ops : NULL;
}

char *const *gd__worker_argv(void)
{
    return registered.argv;
}

bool gd__in_worker_process(void)
{
    return is_worker || getenv(GD__BOOT_ENV) != NULL;
}

void gd__worker_pipe(const struct gd__pipe_ops *pipe)
{
    this_worker.pipe = pipe;
}

void gd__worker_ends_tasks(void (*end_task)(void))
{
    this_worker.end_task = end_task;
}

bool gd__task_must_end(const struct gd_worker *w)
{
    return atomic_load(&w->ended) == atomic_load_explicit(&w->current, memory_order_relaxed) + 1;
}

/* ---- the table of functions ---- */

static bool all_zero(const unsigned char *bytes, size_t n)
{
    while (n > 0 && bytes[n - 1] == 0)
        n--;
    return n == 0;
}

/* Copies the part of the table that this library knows. A table from an older header is shorter. A table from a newer
 * header may be longer, but its additional fields must be zero. */
static int copy_ops(struct gd_worker_ops *out, const struct gd_worker_ops *ops)
{
    if (!ops)
        return gd__error(GD_E_INVALID, "gd_worker_main: ops is NULL: pass a struct gd_worker_ops");
    if (ops->size < sizeof ops->size || ops->size > MOST_OPS)
        return gd__error(GD_E_INVALID, "gd_worker_ops.size is %zu: set it to sizeof(struct gd_worker_ops)", ops->size);
    size_t known = ops->size < sizeof *out ? ops->size : sizeof *out;
    if (!all_zero((const unsigned char *)ops + known, ops->size - known))
        return gd__error(
            GD_E_VERSION,
            "gd_worker_ops has functions that this libgpu_dispatch does not know (%zu bytes, %zu known): the worker "
            "was built with a newer header, so run it with that version of the library, or a newer one",
            ops->size, sizeof *out);
    memset(out, 0, sizeof *out);
    memcpy(out, ops, known);
    out->size = sizeof *out;
    if (!out->process && !out->process_batch && !out->begin)
        return gd__error(GD_E_INVALID, "gd_worker_ops has neither process nor process_batch nor begin: set one of them "
                                       "to the function that does a task");
    if (out->cancel && !out->begin)
        return gd__error(GD_E_INVALID, "gd_worker_ops has cancel but not begin: a worker with process has interrupt");
    return 0;
}

/* The setup of a worker whose table can't be used. Reports the reason to the dispatcher. */
static int refuse(struct gd_worker *w, const struct gd_setup *s)
{
    (void)s;
    return gd_worker_error(w, "%s", refusal);
}

/* ---- boot ---- */

_Noreturn static void boot_failed(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn static void boot_failed(const char *format, ...)
{
    char message[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    fprintf(stderr, "gpu_dispatch worker %d: can't start: %s\n", (int)getpid(), message);
    _exit(GD__EXIT_BOOT);
}

static int socket_from(const char *text)
{
    char *end;
    errno = 0;
    long fd = strtol(text, &end, 10);
    if (errno || end == text || *end || fd < 0 || fd > 1 << 20)
        boot_failed("%s=%s is not a file descriptor (a dispatcher sets this variable for its workers: unset it)",
                    GD__BOOT_ENV, text);
    return (int)fd;
}

static void take_fds(struct msghdr *m, int fds[GD__BOOT_FDS])
{
    struct cmsghdr *c = CMSG_FIRSTHDR(m);
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
        c->cmsg_len != CMSG_LEN(GD__BOOT_FDS * sizeof fds[0]) || (m->msg_flags & (MSG_CTRUNC | MSG_TRUNC)))
        boot_failed("the boot message does not carry %d descriptors", (int)GD__BOOT_FDS);
    memcpy(fds, CMSG_DATA(c), GD__BOOT_FDS * sizeof fds[0]);
}

static void receive_boot(int fd, struct gd__boot *boot, int fds[GD__BOOT_FDS])
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(GD__BOOT_FDS * sizeof(int))];
    } control;
    struct iovec io = { boot, sizeof *boot };
    struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
    ssize_t n;
    do
        n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        boot_failed("no boot message on file descriptor %d: %s", fd, strerror(errno));
    if (n == 0)
        boot_failed("the dispatcher has ended");
    /* The version comes before all fields that another version might have changed. */
    if ((size_t)n >= offsetof(struct gd__boot, reserved) && boot->magic == GD__TASK_MAGIC &&
        boot->version != GD__LAYOUT_VERSION)
        boot_failed("the dispatcher uses protocol version %u, but this libgpu_dispatch uses version %u: run both with "
                    "the same library",
                    boot->version, GD__LAYOUT_VERSION);
    if ((size_t)n != sizeof *boot || boot->magic != GD__TASK_MAGIC)
        boot_failed("the boot message is not from a dispatcher");
    take_fds(&m, fds);
}

/* The first kill point needs the generation of this worker. Nothing is mapped yet, so it is read from the file. */
static void begin_faults(const int fds[GD__BOOT_FDS])
{
#ifdef GD_TEST_HOOKS
    struct gd__worker_config config = { 0 };
    if (pread(fds[GD__FD_TASKS], &config, sizeof config, 0) == (ssize_t)sizeof config)
        gd__fault_worker(config.generation);
#else
    (void)fds;
#endif
    GD__KILL_POINT("boot");
}

/* ---- the guardian ---- */

/* Calls interrupt() at most once for each task. The lock ensures that the next task is not interrupted instead. */
static void interrupt_current(struct gd_worker *w)
{
    if (!w->ops.interrupt)
        return;
    pthread_mutex_lock(&w->current_lock);
    uint64_t current = atomic_load_explicit(&w->current, memory_order_relaxed);
    if (current != GD__NO_POSITION && gd__host_cancel_below(w) > current && w->interrupted != current + 1) {
        w->interrupted = current + 1;
        w->ops.interrupt(w);
        if (w->loader) /* the loader outlives the current task */
            gd__loader_cancel(w);
    }
    pthread_mutex_unlock(&w->current_lock);
}

static void end_current(struct gd_worker *w)
{
    if (!w->end_task)
        return;
    pthread_mutex_lock(&w->current_lock);
    const uint64_t current = atomic_load_explicit(&w->current, memory_order_relaxed);
    if (current != GD__NO_POSITION && gd__host_cancel_below(w) > current) {
        atomic_store(&w->ended, current + 1); /* before the call: pairs with gd__task_must_end() */
        w->end_task();
    }
    pthread_mutex_unlock(&w->current_lock);
}

_Noreturn static void die_with_group(void)
{
    gd__descendants_kill(getpid(), false);
    if (getpgrp() == getpid())
        kill(0, SIGKILL);
    _exit(GD__EXIT_ORPHAN);
}

static void watch_over(struct gd_worker *w)
{
    for (;;) {
        struct pollfd both[] = { { .fd = w->lifeline, .events = POLLIN }, { .fd = w->dispatcher, .events = POLLIN } };
        if (poll(both, 2, -1) < 0 && errno == EINTR)
            continue;
        if (both[1].revents)
            die_with_group();
        char byte = 0;
        const ssize_t n = recv(w->lifeline, &byte, 1, MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            die_with_group();
        if (byte == 'c') {
            interrupt_current(w);
            gd__flight_cancel_all(w);
        } else if (byte == 'e') {
            end_current(w);
        }
    }
}

static void *guardian(void *arg)
{
    pthread_cleanup_push(gd__host_thread_left, NULL); /* interrupt() and cancel() are user code */
    watch_over(arg);
    pthread_cleanup_pop(0);
    return NULL;
}

/* ---- preparing for forks and for a lack of memory ---- */

/* A page that is zero in every fork of this process. If the kernel can't do that, a fork handler clears the page. But
 * not every call that forks runs such handlers. */
static uint32_t *fork_mark;

static void clear_fork_mark(void)
{
    *fork_mark = 0;
}

static void mark_this_process(struct gd_worker *w)
{
    const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        boot_failed("no memory for a page: %s", strerror(errno));
    fork_mark = page;
    *fork_mark = 1;
    w->is_us = fork_mark;
    if (madvise(page, size, MADV_WIPEONFORK) < 0)
        pthread_atfork(NULL, NULL, clear_fork_mark);
}

/* If memory runs out, the kernel should kill a worker, which is replaced, and not the dispatcher. Processes that the
 * worker starts inherit this. A failure is ignored. */
static void raise_oom_score(void)
{
    char text[32] = "";
    const int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    if (read(fd, text, sizeof text - 1) > 0) {
        const long now = strtol(text, NULL, 10), then = now + OOM_MORE < OOM_MOST ? now + OOM_MORE : OOM_MOST;
        const int n = snprintf(text, sizeof text, "%ld", then);
        (void)!pwrite(fd, text, (size_t)n, 0);
    }
    close(fd);
}

static void start_guardian(struct gd_worker *w)
{
    const int failed = gd__thread_start(NULL, "gd-guardian", guardian, w);
    if (failed)
        boot_failed("cannot start a thread: %s", strerror(failed));
}

_Noreturn static void become_worker(const char *socket_text, const struct gd_worker_ops *ops)
{
    struct gd_worker *w = &this_worker;
    struct gd__boot boot;
    int fds[GD__BOOT_FDS];
    is_worker = true;
    w->ops = *ops;
    w->lifeline = socket_from(socket_text);
    unsetenv(GD__BOOT_ENV);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGTTOU, SIG_IGN); /* a worker has its own process group, but may still write to the terminal */
    receive_boot(w->lifeline, &boot, fds);
    fcntl(w->lifeline, F_SETFD, FD_CLOEXEC);
    w->dispatcher = fds[GD__FD_DISPATCHER];
    begin_faults(fds);
    raise_oom_score();
    mark_this_process(w);

    atomic_init(&w->current, GD__NO_POSITION);
    pthread_mutex_init(&w->current_lock, NULL);
    pthread_mutex_init(&w->bytes_lock, NULL);
    start_guardian(w);
    prctl(PR_SET_PDEATHSIG, SIGCONT);
    if (gd__port_open(&w->port, &boot, fds) < 0)
        boot_failed("%s", gd_error_text());
    GD__KILL_POINT("mapped");
    gd__host_run(w);
}

/* ---- the dispatching program ---- */

/* The array is copied, because main may reorder its own, as getopt does. The strings are not copied. */
static int remember(const int *argc, char **argv, const struct gd_worker_ops *ops)
{
    if (!argc || !argv || *argc < 0)
        return gd__error(GD_E_INVALID, "gd_worker_main: pass &argc and argv of main()");
    char **copy = gd__calloc((size_t)*argc + 1, sizeof copy[0]);
    if (!copy)
        return gd__error_errno("gd_worker_main: no memory for %d arguments", *argc);
    memcpy(copy, argv, (size_t)*argc * sizeof copy[0]);
    gd__free(registered.argv);
    registered.argv = copy;
    registered.ops = *ops;
    registered.called = true;
    return 0;
}

int gd_worker_main(const int *argc, char **argv, const struct gd_worker_ops *ops)
{
    struct gd_worker_ops known;
    int code = copy_ops(&known, ops);
    const char *socket_text = getenv(GD__BOOT_ENV);
    if (socket_text && code < 0) {
        snprintf(refusal, sizeof refusal, "%s", gd_error_text());
        known = (struct gd_worker_ops){ .size = sizeof known, .setup = refuse };
    }
    if (socket_text)
        become_worker(socket_text, &known);
    return code < 0 ? code : remember(argc, argv, &known);
}
