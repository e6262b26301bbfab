/* SPDX-License-Identifier: MIT
 *
 * The dispatcher reads the memory of workers, which contains arbitrary bytes.
 *
 * The real reading code (records.c, channel.h) and the real scheduler run with two workers. Their result regions are
 * plain memory of exactly the right size, so that a sanitizer detects a read outside. The input is a script. It writes
 * bytes and partly correct records into the regions, lets the dispatcher read them, lets time pass, and lets workers
 * die. Checks:
 *
 *   - delivered data is inside the region or inside the copy of the record, and is readable to its last byte
 *   - a success is accepted only from a record with the position, task number and attempt of the task at the head of
 *     the worker's window (compared with the region itself and with this test's own list of assigned tasks)
 *   - every task is delivered exactly once by the end, whatever the workers wrote
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_WORKERS = 2, WINDOW = 8, RING = 16, MOST_TASKS = 64, QUEUE = 12, DATA_BYTES = 8192 };
#define DATA_OFFSET (2 * (size_t)GD__PAGE)
#define REGION_SIZE (DATA_OFFSET + DATA_BYTES)
#define TASKS_SIZE  (GD__PAGE + WINDOW * sizeof(struct gd__task_slot))
_Static_assert(GD__PAGE + RING * sizeof(struct gd__result_slot) <= DATA_OFFSET, "the ring fits");

#define MUST(cond)                                                     \
    do {                                                               \
        if (!(cond)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
            abort();                                                   \
        }                                                              \
    } while (0)

struct world {
    struct gd_dispatcher d;
    struct gd__seat seats[N_WORKERS];
    unsigned live[N_WORKERS];
    int gpu_ids[N_WORKERS];
    bool dying[N_WORKERS]; /* killed or stopped: its end will be reported */
    unsigned finals[MOST_TASKS];
    const uint8_t *input;
    size_t left;
    bool ending;
};

static volatile unsigned char touched;

static void touch(const void *bytes, uint64_t size)
{
    const unsigned char *at = bytes;
    for (uint64_t i = 0; i < size; i++)
        touched ^= at[i];
}

/* --- effects ---------------------------------------------------------------- */

static void open_memory(struct gd__channel *c)
{
    *c = (struct gd__channel)GD__CHANNEL_NONE;
    c->tasks.base = aligned_alloc(GD__PAGE, (TASKS_SIZE + GD__PAGE - 1) / GD__PAGE * GD__PAGE);
    c->results.base = aligned_alloc(GD__PAGE, REGION_SIZE);
    MUST(c->tasks.base && c->results.base);
    memset(c->tasks.base, 0, TASKS_SIZE);
    memset(c->results.base, 0, REGION_SIZE);
    c->tasks.size = TASKS_SIZE;
    c->results.size = c->result_region_size = REGION_SIZE;
    c->data_offset = DATA_OFFSET;
    c->out = c->tasks.base;
    c->in = c->results.base;
    c->task_slots = (struct gd__task_slot *)((char *)c->tasks.base + GD__PAGE);
    c->result_slots = (const struct gd__result_slot *)((const char *)c->results.base + GD__PAGE);
    c->task_capacity = WINDOW;
    c->task_mask = WINDOW - 1;
    c->result_capacity = RING;
    c->result_mask = RING - 1;
}

static void close_memory(struct gd__channel *c)
{
    free(c->tasks.base);
    free(c->results.base);
    c->tasks.base = c->results.base = NULL;
}

static void spawn(void *ctx, unsigned w)
{
    struct world *x = ctx;
    struct gd__seat *seat = &x->seats[w];
    MUST(!seat->live);
    seat->broken = false;
    seat->said = 0;
    seat->announced = 0;
    seat->live = true;
    x->dying[w] = false;
    open_memory(&seat->channel);
}

static void die_soon(void *ctx, unsigned w)
{
    struct world *x = ctx;
    x->dying[w] = true;
}

static void ask(void *ctx, unsigned w, uint64_t below)
{
    (void)ctx, (void)w, (void)below;
}

static void abandon(void *ctx, unsigned w)
{
    struct world *x = ctx;
    x->seats[w].live = false;
    close_memory(&x->seats[w].channel);
}

/* Checks the record that is being read, in the region itself. It can only be the last record that was taken. */
static void check_accepted(struct world *x, const struct gd__task *t, const struct gd__outcome *o)
{
    const struct gd__channel *c = &x->seats[o->worker].channel;
    const struct gd__result_slot *r = &c->result_slots[(c->result_head - 1) & c->result_mask];
    const struct gd__task_slot *handed = &c->task_slots[r->position & c->task_mask];
    MUST(r->task_id == t->id);
    MUST(handed->task_id == t->id && handed->attempt == r->attempt);
    MUST(r->attempt == t->attempt);
    MUST(r->position < c->task_tail);
    if (r->inline_size == GD__NOT_INLINE) {
        MUST((const char *)o->bytes >= (const char *)c->results.base + DATA_OFFSET);
        MUST((const char *)o->bytes + o->size <= (const char *)c->results.base + REGION_SIZE);
    } else {
        MUST(o->size <= GD__INLINE_MAX);
    }
}

static void deliver(void *ctx, const struct gd__task *t, const struct gd__outcome *o)
{
    struct world *x = ctx;
    MUST(t->id < MOST_TASKS);
    MUST(x->finals[t->id]++ == 0);
    touch(o->bytes, o->size);
    if (o->failure == GD_FAILURE_NONE && o->handle == 0)
        check_accepted(x, t, o);
    free((void *)(uintptr_t)o->handle);
}

static void hold(void *ctx, const struct gd__task *t, struct gd__outcome *o)
{
    if (o->failure == GD_FAILURE_NONE)
        check_accepted(ctx, t, o);
    char *copy = malloc(o->size + 1);
    MUST(copy);
    if (o->size > 0)
        memcpy(copy, o->bytes, o->size);
    o->bytes = copy;
    o->handle = (uint64_t)(uintptr_t)copy;
}

static void words(void *ctx, unsigned w, const char *text)
{
    (void)ctx, (void)w;
    touch(text, strlen(text));
}

static void died(void *ctx, unsigned w, const char *text, bool given_up)
{
    (void)given_up;
    words(ctx, w, text ? text : "");
}

static void device_out(void *ctx, unsigned w, const char *message)
{
    (void)ctx, (void)w, (void)message;
}

static void task_started(void *user, uint64_t id, int worker, unsigned attempt, uint64_t start_ns)
{
    (void)user, (void)worker, (void)start_ns;
    MUST(id < MOST_TASKS && attempt > 0);
}

static void cleanup_failed(void *user, int worker, int gpu, const char *error)
{
    (void)user, (void)worker, (void)gpu;
    touch(error, strlen(error));
}

static void never_called(void *user, const struct gd_report *r)
{
    (void)user, (void)r;
    abort();
}

/* --- the script --------------------------------------------------------------- */

static uint64_t take(struct world *x, unsigned bytes)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes; i++) {
        v = v << 8 | (x->left ? *x->input : 0);
        x->input += x->left > 0;
        x->left -= x->left > 0;
    }
    return v;
}

/* The worker that the script chooses, if it has a process. */
static struct gd__seat *take_seat(struct world *x)
{
    struct gd__seat *seat = &x->seats[take(x, 1) % N_WORKERS];
    return seat->live ? seat : NULL;
}

static void write_bytes(struct world *x)
{
    struct gd__seat *seat = take_seat(x);
    const uint64_t where = take(x, 2) % REGION_SIZE, n = take(x, 1);
    for (uint64_t i = 0; i < n && x->left > 0; i++) {
        const uint8_t byte = (uint8_t)take(x, 1);
        if (seat && where + i < REGION_SIZE)
            ((uint8_t *)seat->channel.results.base)[where + i] = byte;
    }
}

/* Writes one of the header's counters: a value near the right one, or any value. */
static void write_counter(struct world *x)
{
    struct gd__seat *seat = take_seat(x);
    const unsigned which = (unsigned)take(x, 1);
    const uint64_t value = which & 0x80 ? take(x, 8) : (uint64_t)(int8_t)take(x, 1);
    if (!seat)
        return;
    struct gd__result_header *h = seat->channel.results.base;
    _Atomic uint64_t *const counters[] = { &h->tail, &h->claimed, &h->started, &h->loading, &h->start_ns };
    const uint64_t around = which & 0x40 ? seat->channel.result_head : seat->channel.task_tail;
    atomic_store(counters[which % 5], value + around);
}

/* Writes the record that a correct worker would write next, with the changes of the script. */
static void write_record(struct world *x)
{
    struct gd__seat *seat = take_seat(x);
    const unsigned kind = (unsigned)take(x, 1), change = (unsigned)take(x, 1);
    static const uint8_t widths[4] = { 1, 2, 3, 8 };
    const uint64_t value = take(x, widths[change >> 6 & 3]);
    if (!seat)
        return;
    struct gd__result_header *h = seat->channel.results.base;
    const uint64_t tail = atomic_load(&h->tail);
    const uint64_t ahead = (tail - seat->channel.result_head) % RING;
    const uint64_t position = x->d.sched.workers[seat->index].head + (kind < 0x80 ? ahead : 0);
    const struct gd__task_slot *t = &seat->channel.task_slots[position & (WINDOW - 1)];
    struct gd__result_slot r = { .kind = (uint8_t)(kind % 16), .attempt = t->attempt, .position = position };
    r.task_id = t->task_id;
    if (change & 2) {
        r.inline_size = GD__NOT_INLINE;
        r.offset = DATA_OFFSET + value % DATA_BYTES;
        r.size = value >> 4;
    }
    switch (change >> 2 & 15) {
    case 0:
        r.position += value;
        break;
    case 1:
        r.task_id += value;
        break;
    case 2:
        r.attempt += (uint32_t)value;
        break;
    case 3:
        r.inline_size = (uint8_t)value;
        break;
    case 4:
        r.start_ns = value;
        break;
    case 5:
        r.end_ns = value;
        break;
    case 6:
        r.safe_batch = (uint16_t)value;
        break;
    case 7:
        r.offset = value;
        break;
    case 8:
        r.size = value;
        break;
    default:
        break;
    }
    struct gd__result_slot *ring = (struct gd__result_slot *)((char *)seat->channel.results.base + GD__PAGE);
    ring[tail & (RING - 1)] = r;
    atomic_store(&h->tail, tail + 1);
}

static void bury(struct world *x, struct gd__seat *seat)
{
    struct gd__progress p;
    for (uint64_t n = 0; n <= RING && gd__records_drain(&x->d, seat); n++)
        ;
    gd__channel_progress(&seat->channel, x->d.sched.workers[seat->index].head, &p);
    MUST(p.started <= seat->channel.task_tail && p.loading <= seat->channel.task_tail);
    const struct gd__death death = {
        .started = p.started, .loading = p.loading, .start_ns = p.start_ns, .signal = 9, .message = "killed"
    };
    seat->live = false;
    close_memory(&seat->channel);
    gd__sched_exited(&x->d.sched, x->d.now, seat->index, &death);
}

static void end_one(struct world *x)
{
    struct gd__seat *seat = take_seat(x);
    if (seat)
        bury(x, seat);
}

static void look(struct world *x)
{
    for (unsigned i = 0; i < N_WORKERS; i++)
        if (x->seats[i].live && !x->seats[i].broken && gd__channel_has_result(&x->seats[i].channel))
            gd__records_drain(&x->d, &x->seats[i]);
    gd__sched_pump(&x->d.sched, x->d.now);
}

static void add_tasks(struct world *x)
{
    struct gd__sched *s = &x->d.sched;
    for (uint64_t n = take(x, 1) % QUEUE + 1; n > 0 && s->next_id < MOST_TASKS && s->next_id < s->allowed; n--)
        gd__sched_add(s, x->d.now, &(struct gd__new_task){ .payload = (uint64_t[4]){ 0 }, .weight = 1 });
    gd__sched_pump(s, x->d.now);
}

static void pass_time(struct world *x)
{
    x->d.now += take(x, 1) * 10 * GD__NS_PER_MS;
    gd__sched_tick(&x->d.sched, x->d.now);
    gd__sched_pump(&x->d.sched, x->d.now);
}

static void stop(struct world *x)
{
    if (take(x, 1) % 8 == 0)
        gd__sched_shutdown(&x->d.sched, x->d.now);
}

typedef void step(struct world *x);
static step *const steps[] = { write_bytes, write_counter, write_record, write_record, write_record, look,
                               look,        add_tasks,     pass_time,    end_one,      stop };

/* --- one input ------------------------------------------------------------------- */

static void open_world(struct world *x, const uint8_t *data, size_t size)
{
    static struct gd__sched_effects effects;
    effects = gd__effects; /* assign, publish, take_back and probe are the real ones */
    effects.spawn = spawn;
    effects.kill = effects.stop = die_soon;
    effects.cancel = ask;
    effects.abandon = abandon;
    effects.deliver = deliver;
    effects.hold = hold;
    effects.setup_failed = words;
    effects.worker_died = died;
    effects.device_out = device_out; /* the real one reads the devices of the run */
    x->input = data;
    x->left = size;
    const unsigned flags = (unsigned)take(x, 1);
    x->d.seats = x->seats;
    x->d.live = x->live;
    x->d.n_workers = N_WORKERS;
    x->d.copy.gpu_ids = x->gpu_ids;
    x->d.now = GD__NS_PER_S;
    x->d.o = (struct gd_options)GD_OPTIONS_INIT;
    x->d.o.user = x;
    x->d.o.on_success = never_called;
    x->d.o.on_task_start = task_started;
    x->d.o.on_cleanup_fail = cleanup_failed;
    for (unsigned i = 0; i < N_WORKERS; i++) {
        x->gpu_ids[i] = (int)(flags & 1 ? i : 0);
        x->seats[i].d = &x->d;
        x->seats[i].index = i;
    }
    const struct gd__sched_config c = {
        .n_workers = N_WORKERS,
        .gpu_ids = x->gpu_ids,
        .queue_size = QUEUE,
        .task_timeout_ns = flags & 2 ? 500 * GD__NS_PER_MS : 0,
        .cancel_grace_ns = 100 * GD__NS_PER_MS,
        .setup_timeout_ns = flags & 4 ? GD__NS_PER_S : 0,
        .stop_grace_ns = GD__NS_PER_S,
        .cleanup_grace_ns = GD__NS_PER_S,
        .kill_wait_ns = 2 * GD__NS_PER_S,
        .retry_delay_ns = 10 * GD__NS_PER_MS,
        .restart_delay_ns = GD__NS_PER_MS,
        .retries = flags >> 3 & 1,
        .crash_limit = 3,
        .setup_attempts = 3,
        .death_limit = 4,
        .window_min = 2,
        .window_max = WINDOW,
        .batch_size = flags & 16 ? 3 : 1,
        .batch_wait_ns = flags & 32 ? GD__NS_PER_MS : 0,
        .ordered = flags >> 6 & 1,
    };
    MUST(gd__sched_open(&x->d.sched, &c, &effects, x) == 0);
    gd__sched_start(&x->d.sched, x->d.now);
}

/* Lets all workers die again and again until the run is over. */
static void finish(struct world *x)
{
    struct gd__sched *s = &x->d.sched;
    gd__sched_shutdown(s, x->d.now);
    gd__sched_source_end(s, x->d.now);
    for (int round = 0; !gd__sched_finished(s); round++) {
        MUST(round < 100);
        look(x);
        for (unsigned i = 0; i < N_WORKERS; i++)
            if (x->seats[i].live)
                bury(x, &x->seats[i]);
        x->d.now += GD__NS_PER_S;
        gd__sched_tick(s, x->d.now);
        gd__sched_pump(s, x->d.now);
    }
    for (uint64_t id = 0; id < s->next_id; id++)
        MUST(x->finals[id] == 1);
    for (unsigned i = 0; i < N_WORKERS; i++)
        MUST(!x->seats[i].live);
    gd__sched_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world x;
    memset(&x, 0, sizeof x);
    open_world(&x, data, size);
    while (x.left > 0) {
        steps[take(&x, 1) % (sizeof steps / sizeof *steps)](&x);
        for (unsigned i = 0; i < N_WORKERS; i++) /* a killed worker dies some steps later */
            if (x.seats[i].live && x.dying[i] && x.left % 3 == 0)
                bury(&x, &x.seats[i]);
    }
    finish(&x);
    return 0;
}
