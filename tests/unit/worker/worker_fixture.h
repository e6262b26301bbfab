/* SPDX-License-Identifier: MIT
 *
 * The dispatcher's side of the tests of the worker host: a channel, an arena, a boot socket, and a worker process. The
 * worker process executes the test program again (see worker_actions.h). A test program that uses this ends with
 * WORKER_TEST_MAIN() instead of TEST_MAIN().
 */
#ifndef GD_TESTS_UNIT_WORKER_FIXTURE_H
#define GD_TESTS_UNIT_WORKER_FIXTURE_H

#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "shm/channel.h"
#include "unit/worker/worker_actions.h"

enum { ARENA_SIZE = 1 << 20 };

struct fixture {
    struct gd__channel c;
    struct gd__channel_spec spec;
    struct gd__region arena;
    int socket, theirs, shared_fd;
    const char *program, *argument; /* NULL: this program, without arguments */
    bool no_group, hold_bytes;      /* the worker does not lead a group; result bytes are not released */
    pid_t pid;
    uint64_t arena_used, released;
    struct gd__boot boot;
    struct gd__result_slot record; /* the last record read */
    char *bytes;                   /* a copy of its bytes, with a NUL at the end */
    uint64_t size;
    int exit_code, signal; /* valid when the worker has ended */
};

static struct fixture *f; /* the fixture of this case */

TEST_UNUSED static void prepare(void)
{
    static struct fixture fixture;
    f = &fixture;
    int fd = memfd_create("shared", 0);
    f->shared_fd = fcntl(fd, F_DUPFD, 10); /* so that it does not have the number of the boot socket */
    close(fd);
    CHECK(f->shared_fd >= 0 && ftruncate(f->shared_fd, sizeof *shared) == 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, f->shared_fd, 0);
    CHECK(shared != MAP_FAILED);
    CHECK(sem_init(&shared->go, 1, 0) == 0 && sem_init(&shared->reached, 1, 0) == 0 &&
          sem_init(&shared->load_go, 1, 0) == 0);
    f->spec.config = (struct gd__worker_config){
        .worker_id = 2,
        .gpu_id = 5,
        .seed = 47,
        .arena_size = ARENA_SIZE,
        .arena_hot_size = ARENA_SIZE / 2,
        .task_capacity = 64,
        .result_capacity = 16,
        .batch_size = 1,
        .io_threads = 1,
        .load_ahead = 2,
    };
    f->spec.result_bytes = 1 << 20;
    f->arena_used = GD__PAGE;
}

TEST_UNUSED static void open_memory(void)
{
    CHECK_EQ(gd__channel_open(&f->c, &f->spec), 0);
    CHECK_EQ(gd__region_create(&f->arena, "arena", ARENA_SIZE, ARENA_SIZE, GD__REGION_WE_WRITE), 0);
    struct gd__arena_header *head = f->arena.base;
    head->magic = GD__ARENA_MAGIC;
    head->size = ARENA_SIZE;
    int pair[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    f->socket = pair[0];
    f->theirs = pair[1];
    f->boot = (struct gd__boot){ .magic = GD__TASK_MAGIC,
                                 .version = GD__LAYOUT_VERSION,
                                 .task_region_size = f->c.tasks.size,
                                 .result_region_size = f->c.results.size,
                                 .arena_size = ARENA_SIZE };
}

TEST_UNUSED static void spawn(const char *mode)
{
    char number[16];
    snprintf(number, sizeof number, "%d", f->shared_fd);
    f->pid = fork();
    CHECK(f->pid >= 0);
    if (f->pid == 0) {
        if (!f->no_group)
            setpgid(0, 0);
        dup2(f->theirs, GD__BOOT_FD);
        if (f->theirs == GD__BOOT_FD)
            fcntl(GD__BOOT_FD, F_SETFD, 0);
        setenv(MODE_ENV, mode, 1);
        setenv(SHARED_ENV, number, 1);
        setenv(GD__BOOT_ENV, "3", 1);
        execl(f->program ? f->program : "/proc/self/exe", "worker", f->argument, (char *)NULL);
        _exit(97);
    }
    close(f->theirs);
}

TEST_UNUSED static void send_boot(size_t size, int n_fds)
{
    int fds[GD__BOOT_FDS] = {
        f->c.tasks.fd,        f->c.results.fd, f->arena.fd, f->c.result_bell, (int)syscall(SYS_pidfd_open, getpid(), 0),
        f->c.task_bell_theirs
    };
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof fds)];
    } control;
    memset(&control, 0, sizeof control);
    struct iovec io = { &f->boot, size };
    struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1 };
    if (n_fds) {
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE((size_t)n_fds * sizeof fds[0]);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN((size_t)n_fds * sizeof fds[0]);
        memcpy(CMSG_DATA(c), fds, (size_t)n_fds * sizeof fds[0]);
    }
    CHECK_EQ(sendmsg(f->socket, &m, MSG_NOSIGNAL), (ssize_t)size);
    close(fds[GD__FD_DISPATCHER]);
    gd__fd_close(&f->c.task_bell_theirs);
}

TEST_UNUSED static void reap(void)
{
    int status;
    while (waitpid(f->pid, &status, 0) < 0)
        CHECK_EQ(errno, EINTR);
    f->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    f->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    f->pid = 0;
}

TEST_UNUSED static void keep_record(const void *bytes)
{
    free(f->bytes);
    f->bytes = malloc(f->size + 1);
    CHECK(f->bytes != NULL && bytes != NULL);
    memcpy(f->bytes, bytes, f->size);
    f->bytes[f->size] = 0;
    if (!f->hold_bytes)
        f->released = f->c.result_head;
    gd__channel_done(&f->c, f->c.result_head, f->released);
}

/* Sleeps like the dispatcher until there is a record or the worker has ended. Returns false if the worker has ended. */
TEST_UNUSED static bool await_record(void)
{
    struct gd__arena_header *head = f->arena.base;
    int pidfd = (int)syscall(SYS_pidfd_open, f->pid, 0);
    CHECK(pidfd >= 0);
    bool ended = false;
    atomic_store(&head->sleeping, 1);
    gd__full_fence();
    while (!gd__channel_has_result(&f->c) && !ended) {
        struct pollfd p[] = { { f->c.result_bell, POLLIN, 0 }, { pidfd, POLLIN, 0 } };
        CHECK(poll(p, 2, -1) > 0);
        uint64_t rings;
        if (p[0].revents && read(f->c.result_bell, &rings, sizeof rings) < 0)
            CHECK_EQ(errno, EAGAIN);
        ended = p[1].revents != 0;
    }
    atomic_store(&head->sleeping, 0);
    close(pidfd);
    return gd__channel_has_result(&f->c);
}

/* Waits for the next record and returns its kind. Returns 0 if the worker has ended. */
TEST_UNUSED static int next(void)
{
    const void *bytes = NULL;
    int got;
    while ((got = gd__channel_next(&f->c, &f->record, &bytes, &f->size)) == 0) {
        if (!await_record()) {
            reap();
            return 0;
        }
    }
    CHECK_EQ(got, 1);
    keep_record(bytes);
    return f->record.kind;
}

TEST_UNUSED static void start(const char *mode)
{
    open_memory();
    spawn(mode);
    send_boot(sizeof f->boot, GD__BOOT_FDS);
}

TEST_UNUSED static void start_ready(const char *mode)
{
    start(mode);
    CHECK_EQ(next(), GD__R_READY);
}

/* Frees everything after the worker has ended, so that another worker can be started. */
TEST_UNUSED static void dispose(void)
{
    gd__region_close(&f->arena);
    gd__channel_close(&f->c);
    close(f->socket);
    close(f->shared_fd);
    munmap(shared, sizeof *shared);
    free(f->bytes);
    *f = (struct fixture){ 0 };
}

TEST_UNUSED static struct gd__task_slot *append(const char *payload)
{
    uint64_t position = f->c.task_tail;
    struct gd__task_slot *s = gd__channel_append(&f->c);
    size_t size = strlen(payload);
    memset(s, 0, sizeof *s);
    s->task_id = 100 + position;
    s->attempt = 1;
    s->batch = 1;
    s->payload.size = size;
    if (size <= GD__INLINE_MAX) {
        memcpy(s->payload.bytes, payload, size);
        return s;
    }
    memcpy((char *)f->arena.base + f->arena_used, payload, size);
    s->payload.offset = f->arena_used;
    f->arena_used += (size + 63) & ~(size_t)63;
    return s;
}

TEST_UNUSED static void give(const char *payload)
{
    append(payload);
    gd__channel_publish(&f->c);
}

/* Appends n tasks as one batch. */
TEST_UNUSED static void append_batch(const char *const *payloads, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        append(payloads[i])->batch = (uint16_t)(n - i);
}

TEST_UNUSED static void append_same(const char *payload, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        append(payload)->batch = (uint16_t)(n - i);
}

TEST_UNUSED static void expect_at(uint64_t position, int kind)
{
    CHECK_EQ(next(), kind);
    CHECK_EQ(f->record.position, position);
    CHECK_EQ(f->record.task_id, 100 + position);
    CHECK_EQ(f->record.attempt, 1);
    CHECK(f->record.start_ns > 0 && f->record.start_ns <= f->record.end_ns);
    CHECK(f->record.end_ns <= gd__now_ns());
}

/* Gives one task and checks its outcome. */
TEST_UNUSED static void expect(const char *payload, int kind, const char *bytes)
{
    uint64_t position = f->c.task_tail;
    give(payload);
    expect_at(position, kind);
    CHECK_STR(f->bytes, bytes);
}

TEST_UNUSED static void stop(void)
{
    gd__channel_stop(&f->c);
    CHECK_EQ(next(), GD__R_BYE);
    CHECK_EQ(next(), 0);
    CHECK_EQ(f->signal, 0);
    CHECK_EQ(f->exit_code, 0);
    CHECK_EQ(shared->setups, 1);
    CHECK_EQ(shared->cleanups, 1);
    CHECK_EQ(shared->exits, 1); /* the atexit handlers of the worker were called */
}

TEST_UNUSED static void await_reached(void)
{
    while (sem_wait(&shared->reached) < 0)
        CHECK_EQ(errno, EINTR);
}

/* Waits until the guardian thread of the worker has read all bytes from the socket. */
TEST_UNUSED static void await_guardian(void)
{
    int left = 1;
    while (left > 0) {
        CHECK_EQ(ioctl(f->socket, SIOCOUTQ, &left), 0);
        sched_yield();
    }
}

TEST_UNUSED static void cancel(uint64_t below)
{
    gd__channel_cancel(&f->c, below);
    CHECK_EQ(send(f->socket, "c", 1, MSG_NOSIGNAL), 1);
}

#define WORKER_TEST_MAIN()            \
    int main(int argc, char **argv)   \
    {                                 \
        if (getenv(GD__BOOT_ENV))     \
            be_worker(argc, argv);    \
        return test_main(argc, argv); \
    }

#endif
