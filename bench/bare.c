/* SPDX-License-Identifier: MIT
 *
 * The reference: how fast this machine is without the library.
 *
 *   ring        tasks per second through a bare task ring and a bare result ring between two processes: 64-byte slots,
 *               sequence number in the slot, spin then sleep on a futex. Once with up to 2048 tasks in flight, and once
 *               with 1 (a round trip while both processes spin)
 *   pingpong    a round trip between two processes: spinning, futex, eventfd, and eventfd with epoll on one side
 *   memcpy      into warm memory, anonymous and memfd, with 1 MB, 100 MB and 1 GB
 *   spawn       posix_spawn of /bin/true and waiting for it, one at a time
 *   spawn_pairs the same with two running at a time (-s: how many in all)
 *
 * One JSON object per line: name, unit, the median of the repeats, and the repeats. The two processes are pinned to
 * cores only with -p, because the processes of the library are not pinned either.
 *
 * usage: bench_bare [-r REPEATS] [-n TASKS] [-s SPAWNS] [-p] [ring|pingpong|memcpy|spawn|spawn_pairs ...]
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "line.h"

enum { MAX_REPEATS = 101, CAPACITY = 4096, BURST = 512, SPIN_NS = 50000, PAUSES_PER_LOOK = 64 };

static int repeats = 5;
static uint64_t n_tasks = 5000000;
static uint64_t n_spawns = 5000;
static bool pinned;
static cpu_set_t allowed;

/* --- common ------------------------------------------------------------- */

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Measures `repeats` times and reports. A first, cold measurement is not counted. */
static void measure(const char *name, const char *unit, double (*once)(const void *), const void *what)
{
    double values[MAX_REPEATS];
    once(what);
    for (int i = 0; i < repeats; i++)
        values[i] = once(what);
    print_line(name, unit, values, (size_t)repeats);
}

static void *shared_memory(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (p == MAP_FAILED)
        die("mmap");
    return p;
}

/* Pins this process to the first or the second of the cores that the program could use at its start. */
static void pin(int which)
{
    cpu_set_t one;
    if (!pinned)
        return;
    CPU_ZERO(&one);
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &allowed) && seen++ == which)
            CPU_SET(cpu, &one);
    }
    if (CPU_COUNT(&one))
        sched_setaffinity(0, sizeof one, &one);
}

/* Runs other(arg) in a second process. */
static pid_t beside(void (*other)(void *), void *arg)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pin(1);
        other(arg);
        _exit(0);
    }
    return pid;
}

static void join(pid_t pid)
{
    int status;
    if (waitpid(pid, &status, 0) < 0 || status != 0) {
        fprintf(stderr, "the other process failed\n");
        exit(1);
    }
}

static void futex_wait(_Atomic uint32_t *word, uint32_t while_value)
{
    syscall(SYS_futex, word, FUTEX_WAIT, while_value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* --- rings -------------------------------------------------------------- */

struct slot {
    alignas(64) _Atomic uint64_t sequence; /* position + 1, stored last: release, pairs with the reader's acquire */
    uint64_t id;
    uint64_t value;
    uint64_t rest[5];
};
_Static_assert(sizeof(struct slot) == 64, "a slot is one cache line");

/* Task p is sent only after result p - window has arrived, and the window is smaller than the capacity. So no process
 * needs to report which slots are free: if result p has arrived, the slot of task p is free, and if task p + window has
 * arrived, the slot of result p is free. */
struct ring {
    struct slot slots[CAPACITY];
    alignas(64) _Atomic uint32_t sleeping; /* the reader sleeps on it */
};

struct rings {
    struct ring tasks, results;
    uint64_t n, window;
};

static bool has(const struct ring *r, uint64_t position)
{
    return atomic_load_explicit(&r->slots[position % CAPACITY].sequence, memory_order_acquire) == position + 1;
}

static void put(struct ring *r, uint64_t position, uint64_t id, uint64_t value)
{
    struct slot *s = &r->slots[position % CAPACITY];
    s->id = id;
    s->value = value;
    atomic_store_explicit(&s->sequence, position + 1, memory_order_release);
}

/* Called after a burst of put(). The fence pairs with the fence in await(). */
static void wake_if_asleep(struct ring *r)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&r->sleeping, memory_order_relaxed)) {
        atomic_store_explicit(&r->sleeping, 0, memory_order_relaxed);
        futex_wake(&r->sleeping);
    }
}

static bool spin(const struct ring *r, uint64_t position)
{
    uint64_t end = 0;
    for (;;) {
        for (int i = 0; i < PAUSES_PER_LOOK; i++) {
            if (has(r, position))
                return true;
            relax();
        }
        uint64_t now = now_ns();
        if (!end)
            end = now + SPIN_NS;
        else if (now >= end)
            return false;
    }
}

static void await(struct ring *r, uint64_t position)
{
    while (!spin(r, position)) {
        atomic_store_explicit(&r->sleeping, 1, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
        if (!has(r, position))
            futex_wait(&r->sleeping, 1);
        atomic_store_explicit(&r->sleeping, 0, memory_order_relaxed);
    }
}

static void ring_worker(void *arg)
{
    struct rings *r = arg;
    for (uint64_t done = 0; done < r->n;) {
        if (!has(&r->tasks, done))
            await(&r->tasks, done);
        uint64_t end = done + BURST;
        for (; done < end && has(&r->tasks, done); done++) {
            const struct slot *task = &r->tasks.slots[done % CAPACITY];
            put(&r->results, done, task->id, task->value + 1);
        }
        wake_if_asleep(&r->results);
    }
}

static uint64_t ring_send(struct rings *r, uint64_t sent, uint64_t received)
{
    uint64_t end = received + r->window < r->n ? received + r->window : r->n;
    if (end > sent + BURST)
        end = sent + BURST;
    if (sent == end)
        return sent;
    for (; sent < end; sent++)
        put(&r->tasks, sent, sent, sent);
    wake_if_asleep(&r->tasks);
    return sent;
}

static uint64_t ring_receive(struct rings *r, uint64_t received)
{
    for (; has(&r->results, received); received++) {
        const struct slot *result = &r->results.slots[received % CAPACITY];
        if (result->id != received || result->value != received + 1) {
            fprintf(stderr, "wrong result\n");
            exit(1);
        }
    }
    return received;
}

static double ring_once(const void *what)
{
    uint64_t window = *(const uint64_t *)what;
    struct rings *r = shared_memory(sizeof *r);
    r->window = window;
    r->n = window == 1 ? n_tasks / 20 + 1 : n_tasks;
    pid_t worker = beside(ring_worker, r);
    uint64_t start = now_ns();
    for (uint64_t sent = 0, received = 0; received < r->n;) {
        uint64_t before = received;
        sent = ring_send(r, sent, received);
        received = ring_receive(r, received);
        if (received == before)
            await(&r->results, received);
    }
    double seconds = (double)(now_ns() - start) / 1e9, n = (double)r->n;
    join(worker);
    munmap(r, sizeof *r);
    return n / seconds;
}

static void bench_ring(void)
{
    measure("ring_window_2048", "tasks/s", ring_once, &(uint64_t){ 2048 });
    measure("ring_window_1", "tasks/s", ring_once, &(uint64_t){ 1 });
}

/* --- ping-pong ---------------------------------------------------------- */

enum { SPIN_BATCH = 500 };

struct pingpong {
    alignas(64) _Atomic uint32_t ping;
    alignas(64) _Atomic uint32_t pong;
    int ping_fd, pong_fd, epoll_fd;
    uint32_t rounds;
    const struct kind *kind;
};

/* A way to pass control: `round` starts round i in this process, and `serve` answers it in the other one. */
struct kind {
    const char *name;
    void (*serve)(struct pingpong *p, uint32_t i);
    void (*round)(struct pingpong *p, uint32_t i);
    uint32_t rounds;
    uint32_t batch; /* rounds between two readings of the clock */
};

static void spin_until(const _Atomic uint32_t *word, uint32_t value)
{
    while (atomic_load_explicit(word, memory_order_acquire) != value)
        relax();
}

static void spin_serve(struct pingpong *p, uint32_t i)
{
    spin_until(&p->ping, i);
    atomic_store_explicit(&p->pong, i, memory_order_release);
}

static void spin_round(struct pingpong *p, uint32_t i)
{
    atomic_store_explicit(&p->ping, i, memory_order_release);
    spin_until(&p->pong, i);
}

static void sleep_until(_Atomic uint32_t *word, uint32_t value)
{
    for (uint32_t seen; (seen = atomic_load_explicit(word, memory_order_acquire)) != value;)
        futex_wait(word, seen);
}

static void futex_serve(struct pingpong *p, uint32_t i)
{
    sleep_until(&p->ping, i);
    atomic_store_explicit(&p->pong, i, memory_order_release);
    futex_wake(&p->pong);
}

static void futex_round(struct pingpong *p, uint32_t i)
{
    atomic_store_explicit(&p->ping, i, memory_order_release);
    futex_wake(&p->ping);
    sleep_until(&p->pong, i);
}

static void ring_bell(int fd)
{
    uint64_t one = 1;
    if (write(fd, &one, sizeof one) != sizeof one)
        die("write eventfd");
}

static void hear_bell(int fd)
{
    uint64_t count;
    if (read(fd, &count, sizeof count) != sizeof count)
        die("read eventfd");
}

static void eventfd_serve(struct pingpong *p, uint32_t i)
{
    (void)i;
    hear_bell(p->ping_fd);
    ring_bell(p->pong_fd);
}

static void eventfd_round(struct pingpong *p, uint32_t i)
{
    (void)i;
    ring_bell(p->ping_fd);
    hear_bell(p->pong_fd);
}

static void epoll_round(struct pingpong *p, uint32_t i)
{
    (void)i;
    struct epoll_event event;
    ring_bell(p->ping_fd);
    if (epoll_wait(p->epoll_fd, &event, 1, -1) != 1)
        die("epoll_wait");
    hear_bell(p->pong_fd);
}

static void pingpong_server(void *arg)
{
    struct pingpong *p = arg;
    for (uint32_t i = 1; i <= p->rounds; i++)
        p->kind->serve(p, i);
}

static struct pingpong *pingpong_open(const struct kind *kind)
{
    struct pingpong *p = shared_memory(sizeof *p);
    p->kind = kind;
    p->rounds = kind->rounds;
    p->ping_fd = eventfd(0, EFD_CLOEXEC);
    p->pong_fd = eventfd(0, EFD_CLOEXEC);
    p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = { .events = EPOLLIN };
    if (p->ping_fd < 0 || p->pong_fd < 0 || epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, p->pong_fd, &event) < 0)
        die("eventfd");
    return p;
}

static void pingpong_close(struct pingpong *p)
{
    close(p->ping_fd);
    close(p->pong_fd);
    close(p->epoll_fd);
    munmap(p, sizeof *p);
}

/* The median round trip, in nanoseconds. */
static double pingpong_once(const void *what)
{
    const struct kind *kind = what;
    struct pingpong *p = pingpong_open(kind);
    size_t n = kind->rounds / kind->batch;
    double *times = malloc(n * sizeof *times);
    if (!times)
        die("malloc");
    pid_t server = beside(pingpong_server, p);
    uint32_t round = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t start = now_ns();
        for (uint32_t j = 0; j < kind->batch; j++)
            kind->round(p, ++round);
        times[i] = (double)(now_ns() - start) / kind->batch;
    }
    join(server);
    double result = line_median(times, n);
    free(times);
    pingpong_close(p);
    return result;
}

static void bench_pingpong(void)
{
    static const struct kind kinds[] = {
        { "pingpong_spin", spin_serve, spin_round, 200 * SPIN_BATCH, SPIN_BATCH },
        { "pingpong_futex", futex_serve, futex_round, 4000, 1 },
        { "pingpong_eventfd", eventfd_serve, eventfd_round, 4000, 1 },
        { "pingpong_epoll", eventfd_serve, epoll_round, 4000, 1 },
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        measure(kinds[i].name, "ns", pingpong_once, &kinds[i]);
}

/* --- memcpy ------------------------------------------------------------- */

struct copy {
    void *to, *from;
    size_t size;
};

/* GB/s. Small blocks are copied many times, to get a measurable duration. */
static double copy_once(const void *what)
{
    const struct copy *c = what;
    size_t times = ((size_t)256 << 20) / c->size;
    if (times == 0)
        times = 1;
    uint64_t start = now_ns();
    for (size_t i = 0; i < times; i++) {
        memcpy(c->to, c->from, c->size);
        __asm__ volatile("" ::"r"(c->to) : "memory"); /* no copy may be optimized away */
    }
    return (double)times * (double)c->size / (double)(now_ns() - start);
}

static void *warm_memory(size_t size, bool memfd)
{
    int fd = memfd ? memfd_create("bench", MFD_CLOEXEC) : -1;
    if (memfd && (fd < 0 || ftruncate(fd, (off_t)size) < 0))
        die("memfd");
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, memfd ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
    if (p == MAP_FAILED)
        die("mmap");
    if (fd >= 0)
        close(fd);
    memset(p, 1, size);
    return p;
}

static bool fits(size_t size)
{
    struct sysinfo info;
    return sysinfo(&info) == 0 && (info.freeram + info.bufferram) * info.mem_unit / 10 * 9 > 2 * size;
}

static void bench_copy(const char *label, size_t size, bool memfd)
{
    char name[64];
    snprintf(name, sizeof name, "memcpy_%s_%s", memfd ? "memfd" : "anonymous", label);
    if (!fits(size)) {
        printf("{\"name\": \"%s\", \"skipped\": \"not enough free memory\"}\n", name);
        return;
    }
    struct copy c = { warm_memory(size, memfd), warm_memory(size, false), size };
    measure(name, "GB/s", copy_once, &c);
    munmap(c.to, size);
    munmap(c.from, size);
}

static void bench_memcpy(void)
{
    static const struct {
        const char *label;
        size_t size;
    } sizes[] = { { "1MB", 1000000 }, { "100MB", 100000000 }, { "1GB", 1000000000 } };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        bench_copy(sizes[i].label, sizes[i].size, false);
        bench_copy(sizes[i].label, sizes[i].size, true);
    }
}

/* --- spawn -------------------------------------------------------------- */

static double spawn_once(const void *what)
{
    char *argv[] = { strdup(what), NULL };
    enum { N = 200 };
    uint64_t start = now_ns();
    for (int i = 0; i < N; i++) {
        pid_t pid;
        if ((errno = posix_spawn(&pid, argv[0], NULL, NULL, argv, environ)) != 0)
            die("posix_spawn");
        join(pid);
    }
    double rate = N / ((double)(now_ns() - start) / 1e9);
    free(argv[0]);
    return rate;
}

static void bench_spawn(void)
{
    measure("spawn_true", "processes/s", spawn_once, "/bin/true");
}

static void start(char *const *argv)
{
    pid_t pid;
    if ((errno = posix_spawn(&pid, argv[0], NULL, NULL, argv, environ)) != 0)
        die("posix_spawn");
}

/* Keeps two processes running: whenever one ends, the next is started. /bin/true gets an argument,
 * because the programs in the comparison pass one too, and it does more work with one. */
static double spawn_pairs_once(const void *what)
{
    char program[64], argument[] = "1";
    snprintf(program, sizeof program, "%s", (const char *)what);
    char *argv[] = { program, argument, NULL };
    setenv("LC_ALL", "C", 1); /* so that /bin/true does not read locale files */
    uint64_t began = now_ns(), started = 0;
    for (uint64_t ended = 0; ended < n_spawns; ended++) {
        for (; started < n_spawns && started < ended + 2; started++)
            start(argv);
        if (waitpid(-1, NULL, 0) < 0)
            die("waitpid");
    }
    return (double)n_spawns / ((double)(now_ns() - began) / 1e9);
}

static void bench_spawn_pairs(void)
{
    measure("spawn_true_2_slots", "processes/s", spawn_pairs_once, "/bin/true");
}

/* --- main --------------------------------------------------------------- */

static const struct bench {
    const char *name;
    void (*run)(void);
} benches[] = {
    { "ring", bench_ring },   { "pingpong", bench_pingpong },       { "memcpy", bench_memcpy },
    { "spawn", bench_spawn }, { "spawn_pairs", bench_spawn_pairs },
};
enum { N_BENCHES = sizeof benches / sizeof benches[0] };

static void usage(const char *program)
{
    fprintf(stderr, "usage: %s [-r REPEATS] [-n TASKS] [-s SPAWNS] [-p] [ring|pingpong|memcpy|spawn|spawn_pairs ...]\n",
            program);
    exit(2);
}

static bool wanted(const char *name, char **names)
{
    for (char **n = names; *n; n++) {
        if (strcmp(*n, name) == 0)
            return true;
    }
    return !*names;
}

int main(int argc, char **argv)
{
    for (int c; (c = getopt(argc, argv, "r:n:s:p")) != -1;) {
        if (c == 'r')
            repeats = atoi(optarg);
        else if (c == 'n')
            n_tasks = strtoull(optarg, NULL, 10);
        else if (c == 's')
            n_spawns = strtoull(optarg, NULL, 10);
        else if (c == 'p')
            pinned = true;
        else
            usage(argv[0]);
    }
    if (repeats < 1 || repeats > MAX_REPEATS || n_tasks < 1)
        usage(argv[0]);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        die("sched_getaffinity");
    pin(0);
    for (int i = 0; i < N_BENCHES; i++) {
        if (wanted(benches[i].name, argv + optind))
            benches[i].run();
    }
    return 0;
}
