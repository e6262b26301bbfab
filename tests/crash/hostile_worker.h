/* SPDX-License-Identifier: MIT
 *
 * The attacks of a hostile worker on its dispatcher: everything that a process can do with the shared memory and the
 * descriptors that it was given. They use the layout of the memory, so they can write plausible false records (right
 * position, wrong attempt) as well as random bytes.
 */
#ifndef GD_TESTS_CRASH_HOSTILE_WORKER_H
#define GD_TESTS_CRASH_HOSTILE_WORKER_H

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "crash/common.h"
#include "worker/flight/flight.h"

struct enemy {
    struct gd_worker *w;
    struct rng r;
    unsigned char *base; /* the start of the result region */
    uint64_t slots, data_offset, size;
};

/* A wrong number: near a bound, or any value. */
static uint64_t nasty(struct enemy *e)
{
    const struct gd__port *p = &e->w->port;
    const uint64_t bounds[] = { 0,
                                1,
                                24,
                                255,
                                p->next,
                                p->result_tail,
                                p->limit,
                                e->slots,
                                p->config.task_capacity,
                                e->data_offset,
                                e->size,
                                e->size - e->data_offset,
                                UINT64_MAX,
                                UINT64_C(1) << 63,
                                UINT64_C(1) << 32,
                                atomic_load(&p->in->limit),
                                atomic_load(&p->in->consumed) };
    const uint64_t r = rng_next(&e->r);
    if (r % 4 == 0)
        return rng_next(&e->r);
    return bounds[rng_below(&e->r, COUNT_OF(bounds))] + rng_below(&e->r, 5) - 2;
}

static void scribble(struct enemy *e, uint64_t from, uint64_t length, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        e->base[from + rng_below(&e->r, length)] = (unsigned char)rng_next(&e->r);
}

static void scribble_header(struct enemy *e)
{
    scribble(e, 0, sizeof(struct gd__result_header), 64);
}

static void scribble_ring(struct enemy *e)
{
    scribble(e, GD__PAGE, e->slots * sizeof(struct gd__result_slot), 4096);
}

static void scribble_all(struct enemy *e)
{
    scribble(e, 0, e->data_offset + 65536, 20000);
}

static void lie_about_progress(struct enemy *e)
{
    struct gd__result_header *h = e->w->port.out;
    atomic_store(&h->claimed, nasty(e));
    atomic_store(&h->started, nasty(e));
    atomic_store(&h->loading, nasty(e));
    atomic_store(&h->start_ns, nasty(e));
    atomic_store(&h->sleeping, (uint32_t)nasty(e));
}

static void jump_tail(struct enemy *e)
{
    atomic_store(&e->w->port.out->tail, nasty(e));
}

/* A correct record of a task that is in flight, or was before. */
static struct gd__result_slot forged_in_flight(struct enemy *e, const struct gd__flight *f)
{
    const struct gd__flight_entry *entry = &f->entries[rng_below(&e->r, f->concurrency)];
    return (struct gd__result_slot){
        .attempt = entry->e.task.attempt,
        .position = entry->e.position,
        .task_id = entry->e.task.id,
        .place = entry->place,
    };
}

/* The same of a task in the ring. */
static struct gd__result_slot forged_in_ring(struct enemy *e)
{
    const struct gd__port *p = &e->w->port;
    const uint64_t position = p->next ? p->next - 1 + rng_below(&e->r, 3) : 0;
    const struct gd__task_slot *t = &p->task_slots[position & p->task_mask];
    return (struct gd__result_slot){
        .attempt = t->attempt,
        .position = position,
        .task_id = t->task_id,
        .place = (uint16_t)rng_below(&e->r, 4),
    };
}

/* A correct record with random changes. */
static struct gd__result_slot forged(struct enemy *e)
{
    const struct gd__flight *f = gd__flight_of(e->w);
    struct gd__result_slot s = f && rng_below(&e->r, 4) != 0 ? forged_in_flight(e, f) : forged_in_ring(e);
    s.kind = (uint8_t)(1 + rng_below(&e->r, GD__R_KINDS - 1));
    s.inline_size = rng_below(&e->r, 2) ? GD__NOT_INLINE : 24;
    s.start_ns = s.end_ns = now_ns();
    if (s.inline_size == GD__NOT_INLINE) {
        s.offset = rng_below(&e->r, 2) ? e->data_offset : nasty(e);
        s.size = rng_below(&e->r, 2) ? rng_below(&e->r, 5000) : nasty(e);
    }
    switch (rng_below(&e->r, 14)) {
    case 0:
        s.attempt = (uint32_t)nasty(e);
        break;
    case 1:
        s.attempt--; /* stale */
        break;
    case 2:
        s.position = nasty(e);
        break;
    case 3:
        s.task_id = nasty(e);
        break;
    case 4:
        s.start_ns = nasty(e);
        s.end_ns = nasty(e);
        break;
    case 5:
        s.kind = (uint8_t)rng_next(&e->r);
        break;
    case 6:
        s.inline_size = (uint8_t)rng_next(&e->r);
        break;
    case 7:
        s.place = (uint16_t)rng_next(&e->r); /* or safe_batch */
        break;
    case 8:
        s.place = (uint16_t)rng_below(&e->r, 64);
        break;
    default:
        break;
    }
    return s;
}

static void put(struct enemy *e, const struct gd__result_slot *s)
{
    struct gd__port *p = &e->w->port;
    const uint64_t tail = atomic_load(&p->out->tail);
    memcpy(&p->result_slots[tail & p->result_mask], s, sizeof *s);
    atomic_store(&p->out->tail, tail + 1);
    const uint64_t one = 1;
    (void)!write(p->result_bell, &one, sizeof one);
}

static void forge(struct enemy *e)
{
    const struct gd__result_slot s = forged(e);
    put(e, &s);
}

static void forge_twice(struct enemy *e)
{
    const struct gd__result_slot s = forged(e);
    put(e, &s);
    put(e, &s);
}

/* Begins or finishes tasks, in turn, which the dispatcher may think that it holds. */
static void forge_flight(struct enemy *e)
{
    static const uint8_t kinds[] = { GD__R_STARTED, GD__R_SUCCESS, GD__R_PARTIAL, GD__R_OUT_OF_MEMORY,
                                     GD__R_CANCELLED };
    for (uint64_t n = 1 + rng_below(&e->r, 6); n > 0; n--) {
        struct gd__result_slot s = forged(e);
        s.kind = kinds[rng_below(&e->r, COUNT_OF(kinds))];
        put(e, &s);
    }
}

/* Announces a number of tasks in flight that it cannot have, or announces one twice. */
static void forge_ready(struct enemy *e)
{
    struct gd__result_slot s = forged(e);
    s.kind = GD__R_READY;
    s.position = rng_below(&e->r, 4);
    s.attempt = (uint32_t)(rng_below(&e->r, 2) ? rng_below(&e->r, 66) : nasty(e));
    put(e, &s);
}

/* Changes the places and kinds of the records that the dispatcher reads next. */
static void scribble_places(struct enemy *e)
{
    const struct gd__port *p = &e->w->port;
    const uint64_t from = atomic_load(&p->in->consumed);
    for (uint64_t i = 0; i < 8; i++) {
        struct gd__result_slot *s = &p->result_slots[(from + i) & p->result_mask];
        s->place = (uint16_t)(rng_below(&e->r, 2) ? rng_below(&e->r, 64) : rng_next(&e->r));
        if (rng_below(&e->r, 4) == 0)
            s->kind = (uint8_t)rng_below(&e->r, GD__R_KINDS + 1);
    }
}

/* Sends the same message about its state again and again. */
static void chatter(struct enemy *e)
{
    static const uint8_t kinds[] = { GD__R_READY, GD__R_SETUP_FAILED, GD__R_CLEANUP_FAILED, GD__R_BYE, GD__R_STARTED };
    struct gd__result_slot s = forged(e);
    s.kind = kinds[rng_below(&e->r, COUNT_OF(kinds))];
    for (int i = 0; i < 200; i++)
        put(e, &s);
}

/* A failure whose error message is the whole region: 64 GiB of zeros. */
static void endless_words(struct enemy *e)
{
    struct gd__result_slot s = forged(e);
    s.kind = (uint8_t)(GD__R_ERROR + rng_below(&e->r, 4));
    s.inline_size = GD__NOT_INLINE;
    s.offset = e->data_offset;
    s.size = e->size - e->data_offset;
    put(e, &s);
}

static void jam_bells(struct enemy *e)
{
    const int bells[] = { e->w->lifeline, e->w->port.result_bell };
    const uint64_t most = UINT64_MAX - 1;
    for (size_t i = 0; i < COUNT_OF(bells); i++) {
        (void)!write(bells[i], &most, sizeof most);
        fcntl(bells[i], F_SETFL, rng_below(&e->r, 2) ? 0 : O_NONBLOCK | O_APPEND);
    }
    atomic_store(&e->w->port.out->sleeping, (uint32_t)(2 + rng_below(&e->r, 100)));
}

static void attack_files(struct enemy *e)
{
    const int fds[] = { e->w->port.tasks.fd, e->w->port.results.fd, e->w->port.arena.fd };
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        const int fd = fds[i];
        (void)!ftruncate(fd, (off_t)(rng_below(&e->r, 2) ? 0 : GD__PAGE));
        (void)!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                         (off_t)(GD__PAGE * (1 + rng_below(&e->r, 9))));
        (void)!fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE);
        if (i != 1)
            (void)!pwrite(fd, "boo", 3, (off_t)rng_below(&e->r, i == 0 ? e->w->port.config.task_region_size : 8192));
        void *map = mmap(NULL, GD__PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (i != 1 && map != MAP_FAILED)
            memset(map, 0xff, GD__PAGE); /* workers may only read this memory; if this worked, the test would fail */
        if (i != 1)
            (void)!mprotect(e->w->port.tasks.base, GD__PAGE, PROT_READ | PROT_WRITE);
    }
}

static void attack_socket(struct enemy *e)
{
    char junk[3000];
    for (size_t i = 0; i < sizeof junk; i++)
        junk[i] = (char)rng_next(&e->r);
    for (int i = 0; i < 300; i++)
        if (send(e->w->lifeline, junk, rng_below(&e->r, sizeof junk), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
            break;
    if (rng_below(&e->r, 3) == 0)
        shutdown(e->w->lifeline, SHUT_WR);
}

static void close_descriptors(struct enemy *e)
{
    close(3 + (int)rng_below(&e->r, 8));
}

static void shout(struct enemy *e)
{
    char junk[4096];
    for (size_t i = 0; i < sizeof junk; i++)
        junk[i] = (char)rng_next(&e->r);
    for (int i = 0; i < 20; i++)
        (void)!write(STDERR_FILENO, junk, sizeof junk);
}

/* Starts a child that leaves the process group, so that it is not killed with the worker. It continues to write for a
 * while. */
static void haunt(struct enemy *e)
{
    if (rng_below(&e->r, 4) != 0 || fork() != 0)
        return;
    setsid();
    signal(SIGALRM, SIG_DFL);
    alarm(1); /* ends the child if it blocks on its own eventfd */
    const uint64_t end = now_ns() + 30 * MS;
    while (now_ns() < end) {
        chatter(e);
        scribble_ring(e);
        lie_about_progress(e);
    }
    _exit(0);
}

static void end_somehow(struct enemy *e)
{
    static const int signals[] = { SIGSEGV, SIGKILL, SIGABRT, SIGTERM, SIGSTOP, SIGBUS };
    if (rng_below(&e->r, 4) == 0)
        _exit((int)rng_below(&e->r, 256));
    raise(signals[rng_below(&e->r, COUNT_OF(signals))]);
}

typedef void attack(struct enemy *e);
static attack *const attacks[] = { scribble_header, scribble_ring, scribble_all, lie_about_progress, jump_tail,
                                   forge,           forge,         forge,        forge_twice,        forge_twice,
                                   forge_flight,    forge_flight,  forge_ready,  scribble_places,    chatter,
                                   endless_words,   jam_bells,     attack_files, attack_socket,      close_descriptors,
                                   shout,           end_somehow,   haunt };

static void attack_some(struct enemy *e, unsigned most)
{
    for (uint64_t n = rng_below(&e->r, most + 1); n > 0; n--)
        attacks[rng_below(&e->r, COUNT_OF(attacks))](e);
}

static struct enemy enemy_of(struct gd_worker *w, uint64_t seed)
{
    const struct gd__port *p = &w->port;
    return (struct enemy){
        .w = w,
        .r = { mix(seed) },
        .base = p->results.base,
        .slots = p->config.result_capacity,
        .data_offset = p->config.data_offset,
        .size = p->results.size,
    };
}

#endif
