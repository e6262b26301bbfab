/* SPDX-License-Identifier: MIT
 *
 * Both ends of a channel, step by step in one thread. Tests the effect of each call on the other side, when a side
 * rings the bell (wakes the other side), which values the dispatcher rejects, and what the worker refuses to open.
 * test_ring_threads.c uses two threads. */
#include "support/test.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "shm/bytes.h"
#include "shm/channel.h"

enum { TASKS = 8, RESULTS = 8 };

static struct gd__region arena = GD__REGION_NONE;
static struct gd__arena_header *arena_head;
static struct gd__channel c;
static struct gd__port p;
static struct gd__boot boot;

static int open_fds(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void open_arena(void)
{
    CHECK_EQ(gd__region_create(&arena, "arena", 16 * GD__PAGE, 16 * GD__PAGE, GD__REGION_WE_WRITE), 0);
    arena_head = arena.base;
    arena_head->magic = GD__ARENA_MAGIC;
    arena_head->size = arena.size;
}

static struct gd__channel_spec spec_of(uint64_t tasks, uint64_t results)
{
    return (struct gd__channel_spec){
        .config = { .worker_id = 3, .task_capacity = tasks, .result_capacity = results, .arena_size = arena.size },
        .result_bytes = 4 << 20,
    };
}

static void open_channel(void)
{
    open_arena();
    struct gd__channel_spec spec = spec_of(TASKS, RESULTS);
    CHECK_EQ(gd__channel_open(&c, &spec), 0);
}

static void make_boot(int fds[GD__BOOT_FDS])
{
    boot = (struct gd__boot){
        .magic = GD__TASK_MAGIC,
        .version = GD__LAYOUT_VERSION,
        .task_region_size = c.tasks.size,
        .result_region_size = c.results.size,
        .arena_size = arena.size,
    };
    int sources[GD__BOOT_FDS] = { c.tasks.fd, c.results.fd, arena.fd, c.result_bell, -1, c.task_bell_theirs };
    for (int i = 0; i < GD__BOOT_FDS; i++)
        fds[i] = dup(sources[i]);
}

static void open_both(void)
{
    int fds[GD__BOOT_FDS];
    open_channel();
    make_boot(fds);
    CHECK_EQ(gd__port_open(&p, &boot, fds), 0);
}

/* Gives n tasks, numbered by their positions. */
static void append(int n)
{
    while (n-- > 0) {
        uint64_t position = c.task_tail;
        *gd__channel_append(&c) = (struct gd__task_slot){ .task_id = position, .attempt = 1, .batch = 1 };
    }
}

static void give(int n)
{
    append(n);
    gd__channel_publish(&c);
}

static void commit(uint64_t position)
{
    *gd__port_result(&p) = (struct gd__result_slot){ .kind = GD__R_SUCCESS, .position = position, .task_id = position };
    gd__port_commit(&p);
}

static uint64_t rings(int bell)
{
    uint64_t n;
    return read(bell, &n, sizeof n) == sizeof n ? n : 0;
}

/* Returns how often the bell of the worker was rung since the last call. */
static uint32_t worker_rings(void)
{
    static uint32_t heard;
    const uint32_t before = heard;
    heard = c.out->bell;
    return heard - before;
}

static int next(struct gd__result_slot *out)
{
    const void *bytes;
    uint64_t size;
    return gd__channel_next(&c, out, &bytes, &size);
}

/* ---- opening ---- */

TEST(the_worker_finds_its_configuration)
{
    open_arena();
    struct gd__channel_spec spec = spec_of(16, 32);
    spec.config.seed = 77;
    spec.config.args_size = 5;
    spec.args = "model";
    CHECK_EQ(gd__channel_open(&c, &spec), 0);
    int fds[GD__BOOT_FDS];
    make_boot(fds);
    CHECK_EQ(gd__port_open(&p, &boot, fds), 0);
    CHECK_EQ(p.config.seed, 77);
    CHECK_EQ(p.config.worker_id, 3);
    CHECK_EQ(p.config.task_capacity, 16);
    CHECK_MEM((const char *)p.tasks.base + p.config.args_offset, "model", 5);
    CHECK_EQ(c.in->magic, GD__RESULT_MAGIC);
    CHECK_EQ(c.in->pid, getpid());
    gd__port_close(&p);
    gd__channel_close(&c);
}

TEST(closing_frees_everything_and_may_be_repeated)
{
    open_arena();
    int before = open_fds();
    struct gd__channel_spec spec = spec_of(TASKS, RESULTS);
    CHECK_EQ(gd__channel_open(&c, &spec), 0);
    int fds[GD__BOOT_FDS];
    make_boot(fds);
    CHECK_EQ(gd__port_open(&p, &boot, fds), 0);
    gd__port_close(&p);
    gd__port_close(&p);
    gd__channel_close(&c);
    gd__channel_close(&c);
    CHECK_EQ(open_fds(), before);
    struct gd__channel zeroed = GD__CHANNEL_NONE;
    gd__channel_close(&zeroed);
    CHECK_EQ(open_fds(), before);
}

TEST(capacities_must_be_powers_of_two)
{
    open_arena();
    uint64_t bad[] = { 0, 3, 6, UINT64_MAX, UINT64_C(1) << 63 };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct gd__channel_spec spec = spec_of(bad[i], 8);
        CHECK_EQ(gd__channel_open(&c, &spec), GD_E_INVALID);
        spec = spec_of(8, bad[i]);
        CHECK_EQ(gd__channel_open(&c, &spec), GD_E_INVALID);
        gd__channel_close(&c);
    }
}

TEST(an_invalid_boot_message_is_refused)
{
    open_channel();
    int before = open_fds();
    for (int i = 0; i < 5; i++) {
        int fds[GD__BOOT_FDS];
        make_boot(fds);
        uint64_t *fields[] = { &boot.magic, NULL, &boot.task_region_size, &boot.result_region_size, &boot.arena_size };
        if (fields[i])
            *fields[i] += GD__PAGE;
        else
            boot.version++;
        CHECK_EQ(gd__port_open(&p, &boot, fds), i == 1 ? GD_E_VERSION : GD_E_PROTOCOL);
        CHECK_CONTAINS(gd_error_text(), "worker's memory: ");
        CHECK_EQ(open_fds(), before);
    }
}

TEST(an_invalid_configuration_is_refused)
{
    open_channel();
    struct gd__worker_config good = c.out->config, *config = &c.out->config;
    uint64_t *fields[] = { &config->magic,        &config->task_region_size, &config->result_region_size,
                           &config->arena_size,   &config->task_capacity,    &config->result_capacity,
                           &config->data_offset,  &config->args_offset,      &config->args_size,
                           &config->cancel_offset };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        int fds[GD__BOOT_FDS];
        make_boot(fds);
        *fields[i] = UINT64_MAX / 2 + 1;
        CHECK_EQ(gd__port_open(&p, &boot, fds), GD_E_PROTOCOL);
        *config = good;
    }
    const uint32_t places[] = { 0, GD__FLIGHT_MAX + 1, UINT32_MAX };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        int fds[GD__BOOT_FDS];
        make_boot(fds);
        config->cancel_places = places[i];
        CHECK_EQ(gd__port_open(&p, &boot, fds), GD_E_PROTOCOL);
        *config = good;
    }
    int fds[GD__BOOT_FDS];
    make_boot(fds);
    config->version++;
    CHECK_EQ(gd__port_open(&p, &boot, fds), GD_E_VERSION);
}

TEST(missing_descriptors_are_refused)
{
    open_channel();
    int fds[GD__BOOT_FDS];
    make_boot(fds);
    close(fds[GD__FD_ARENA]);
    fds[GD__FD_ARENA] = -1;
    CHECK_EQ(gd__port_open(&p, &boot, fds), GD_E_SYSTEM);
}

/* ---- tasks ---- */

TEST(tasks_are_not_visible_before_they_are_published)
{
    open_both();
    CHECK_EQ(gd__port_poll(&p), 0);
    append(2);
    CHECK_EQ(gd__port_poll(&p), 0);
    CHECK(!gd__port_claim(&p, 1));
    gd__channel_publish(&c);
    CHECK_EQ(gd__port_poll(&p), 1);
    CHECK_EQ(gd__port_wait(&p), 1);
    CHECK(gd__port_claim(&p, 1));
    CHECK_EQ(gd__port_task(&p, 0)->task_id, 0);
    CHECK(gd__port_claim(&p, 1));
    CHECK_EQ(gd__port_task(&p, 1)->task_id, 1);
    CHECK(!gd__port_claim(&p, 1));
    CHECK_EQ(p.next, 2);
}

TEST(a_batch_is_claimed_completely_or_not_at_all)
{
    open_both();
    give(3);
    CHECK(!gd__port_claim(&p, 4));
    CHECK_EQ(p.next, 0);
    CHECK_EQ(c.in->claimed, 0);
    CHECK(gd__port_claim(&p, 3));
    CHECK_EQ(p.next, 3);
}

TEST(unclaimed_tasks_can_be_taken_back)
{
    open_both();
    give(6);
    CHECK(gd__port_claim(&p, 2));
    CHECK_EQ(gd__channel_take_back(&c, 4), 4);
    CHECK_EQ(gd__channel_take_back(&c, 0), 2);
    CHECK(!gd__port_claim(&p, 1));
    CHECK_EQ(c.task_tail, 2);
    give(1);
    CHECK(gd__port_claim(&p, 1));
    CHECK(!gd__port_claim(&p, 1));
}

TEST(unpublished_tasks_are_taken_back_too)
{
    open_both();
    give(2);
    append(3);
    CHECK_EQ(gd__channel_take_back(&c, 4), 4);
    CHECK_EQ(gd__port_poll(&p), 1);
    CHECK(gd__port_claim(&p, 2));
    CHECK(!gd__port_claim(&p, 1));
    gd__channel_publish(&c);
    CHECK(gd__port_claim(&p, 2));
    CHECK_EQ(gd__channel_take_back(&c, 100), 4); /* more tasks than there are */
}

TEST(positions_of_tasks_taken_back_are_used_again)
{
    open_both();
    give(4);
    CHECK_EQ(gd__port_poll(&p), 1); /* the worker has seen all four */
    CHECK_EQ(gd__channel_take_back(&c, 1), 1);
    gd__channel_append(&c)->task_id = 99;
    gd__channel_publish(&c);
    CHECK(gd__port_claim(&p, 2));
    CHECK_EQ(gd__port_task(&p, 1)->task_id, 99);
}

TEST(a_worker_that_claims_too_much_only_keeps_more_tasks)
{
    open_both();
    give(4);
    p.out->claimed = UINT64_MAX;
    CHECK_EQ(gd__channel_take_back(&c, 0), 4);
    CHECK_EQ(c.task_tail, 4);
    append(2);
    CHECK_EQ(gd__channel_take_back(&c, 1), 4); /* unpublished tasks can always be taken back */
    p.out->claimed = 0;
    CHECK_EQ(gd__channel_take_back(&c, 1), 1);
}

TEST(the_ring_wraps_around)
{
    open_both();
    struct gd__result_slot out;
    for (uint64_t position = 0; position < 5 * TASKS; position++) {
        give(1);
        CHECK(gd__port_claim(&p, 1));
        CHECK_EQ(gd__port_task(&p, position)->task_id, position);
        commit(position);
        CHECK_EQ(next(&out), 1);
        CHECK_EQ(out.position, position);
        gd__channel_done(&c, c.result_head, c.result_head);
    }
}

TEST(stop_ends_the_wait_when_no_task_is_left)
{
    open_both();
    give(1);
    gd__channel_stop(&c);
    CHECK_EQ(gd__port_wait(&p), 1);
    CHECK(gd__port_claim(&p, 1));
    CHECK_EQ(gd__port_wait(&p), 0);
}

TEST(cancel_is_seen)
{
    open_both();
    gd__channel_cancel(&c, 7);
    CHECK_EQ(p.in->cancel, 7);
}

TEST(progress_is_clamped)
{
    open_both();
    give(4);
    struct gd__progress progress;
    gd__port_started(&p, 2, 1234);
    gd__channel_progress(&c, 1, &progress);
    CHECK_EQ(progress.started, 2);
    CHECK_EQ(progress.start_ns, 1234);
    CHECK_EQ(progress.loading, 1);
    p.out->started = UINT64_MAX;
    p.out->loading = 3;
    gd__channel_progress(&c, 1, &progress);
    CHECK_EQ(progress.started, 4);
    CHECK_EQ(progress.loading, 3);
}

/* ---- results ---- */

TEST(results_come_in_order_with_their_bytes)
{
    open_both();
    struct gd__result_slot *r = gd__port_result(&p), out;
    *r = (struct gd__result_slot){ .kind = GD__R_SUCCESS, .inline_size = 3, .position = 0, .bytes = "abc" };
    gd__port_commit(&p);
    uint64_t offset = gd__bytes_alloc(p.bytes, 1000);
    CHECK_GE(offset, c.data_offset);
    memset((char *)p.results.base + offset, 'z', 1000);
    r = gd__port_result(&p);
    *r = (struct gd__result_slot){ .kind = GD__R_ERROR, .inline_size = GD__NOT_INLINE, .position = 1 };
    r->offset = offset;
    r->size = 1000;
    gd__port_commit(&p);

    const void *bytes;
    uint64_t size;
    CHECK(gd__channel_has_result(&c));
    CHECK_EQ(gd__channel_next(&c, &out, &bytes, &size), 1);
    CHECK_EQ(size, 3);
    CHECK(bytes == out.bytes);
    CHECK_MEM(bytes, "abc", 3);
    CHECK_EQ(gd__channel_next(&c, &out, &bytes, &size), 1);
    CHECK_EQ(out.kind, GD__R_ERROR);
    CHECK_EQ(size, 1000);
    CHECK_EQ(((const char *)bytes)[999], 'z');
    CHECK_EQ(gd__channel_next(&c, &out, &bytes, &size), 0);
    CHECK(!gd__channel_has_result(&c));
}

TEST(an_invalid_tail_is_refused)
{
    open_both();
    struct gd__result_slot out;
    for (int i = 0; i < 3; i++)
        commit((uint64_t)i);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(next(&out), 1);
    uint64_t bad[] = { 2, 0, 3 + RESULTS + 1, UINT64_MAX, UINT64_C(1) << 63 };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        p.out->tail = bad[i];
        CHECK(gd__channel_has_result(&c));
        CHECK_EQ(next(&out), GD_E_PROTOCOL);
        CHECK_CONTAINS(gd_error_text(), "tail");
        CHECK_EQ(c.result_head, 3);
    }
    commit(3);
    p.out->tail = 3 + RESULTS; /* the ring is full, which is valid */
    CHECK_EQ(next(&out), 1);
}

static int next_of(struct gd__result_slot record)
{
    struct gd__result_slot out;
    p.result_slots[c.result_head & p.result_mask] = record;
    p.out->tail = c.result_head + 1;
    return next(&out);
}

TEST(records_of_an_unknown_kind_are_refused)
{
    open_both();
    for (int kind = 0; kind < 256; kind++) {
        struct gd__result_slot record = { .kind = (uint8_t)kind };
        CHECK_EQ(next_of(record), kind > 0 && kind < GD__R_KINDS ? 1 : GD_E_PROTOCOL);
    }
}

TEST(an_inline_size_larger_than_the_slot_is_refused)
{
    open_both();
    for (int size = 0; size < 255; size++) {
        struct gd__result_slot record = { .kind = GD__R_SUCCESS, .inline_size = (uint8_t)size };
        CHECK_EQ(next_of(record), size <= (int)GD__INLINE_MAX ? 1 : GD_E_PROTOCOL);
    }
}

TEST(bytes_outside_of_the_region_are_refused)
{
    open_both();
    const uint64_t end = c.result_region_size, first = c.data_offset;
    const struct {
        uint64_t offset, size;
        int good;
    } cases[] = {
        { first, 0, 1 },
        { first, end - first, 1 },
        { end, 0, 1 },
        { end - 1, 1, 1 },
        { first - 1, 1, 0 },
        { 0, 1, 0 },
        { end, 1, 0 },
        { end - 1, 2, 0 },
        { end + 1, 0, 0 },
        { first, UINT64_MAX, 0 },
        { UINT64_MAX, 1, 0 },
        { UINT64_MAX, UINT64_MAX, 0 },
        { first, end - first + 1, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gd__result_slot record = { .kind = GD__R_SUCCESS, .inline_size = GD__NOT_INLINE };
        record.offset = cases[i].offset;
        record.size = cases[i].size;
        CHECK_EQ(next_of(record), cases[i].good ? 1 : GD_E_PROTOCOL);
    }
}

TEST(random_bytes_do_no_harm)
{
    open_both();
    srand(11);
    struct gd__result_slot out;
    const void *bytes;
    uint64_t size, sum = 0;
    for (int round = 0; round < 20000; round++) {
        unsigned char *memory = p.results.base;
        for (size_t i = 0; i < RESULTS * sizeof out; i++)
            memory[GD__PAGE + i] = (unsigned char)rand();
        p.out->tail = c.result_head + (uint64_t)(rand() % (RESULTS + 3));
        p.out->claimed = (uint64_t)rand();
        while (gd__channel_next(&c, &out, &bytes, &size) == 1) {
            if (size)
                sum += ((const unsigned char *)bytes)[0] + ((const unsigned char *)bytes)[size - 1];
        }
        give(1);
        CHECK_LE(gd__channel_take_back(&c, c.task_tail - 1), c.task_tail);
    }
    CHECK_GE(sum, 0);
}

/* ---- bells ---- */

TEST(a_side_that_is_awake_is_not_rung)
{
    open_both();
    give(3);
    CHECK(gd__port_claim(&p, 1));
    commit(0);
    gd__port_flush(&p);
    CHECK(gd__port_claim(&p, 1));
    gd__channel_done(&c, 0, 0);
    CHECK_EQ(worker_rings(), 0);
    CHECK_EQ(rings(c.result_bell), 0);
}

TEST(a_sleeping_worker_is_rung_once_per_sleep)
{
    open_both();
    p.out->sleeping = 2;
    append(1);
    CHECK_EQ(worker_rings(), 0);
    gd__channel_publish(&c);
    give(1);
    gd__channel_done(&c, 0, 0);
    CHECK_EQ(worker_rings(), 1);
    p.out->sleeping = 3;
    gd__channel_publish(&c); /* there is no new task */
    CHECK_EQ(worker_rings(), 0);
    gd__channel_stop(&c);
    CHECK_EQ(worker_rings(), 1);
}

TEST(a_sleep_number_of_1_is_rung_each_time)
{
    open_both();
    p.out->sleeping = 1;
    give(1);
    give(1);
    CHECK_EQ(worker_rings(), 2);
}

/* ---- ringing by socket, and cancelling at a place ---- */

static int socket_rings(void)
{
    char byte;
    int n = 0;
    while (recv(p.task_bell, &byte, 1, MSG_DONTWAIT) == 1)
        n++;
    return n;
}

TEST(a_worker_can_be_rung_by_socket)
{
    open_both();
    worker_rings();
    gd__port_use_socket(&p);
    gd__port_sleep(&p, false);
    give(1);
    give(1);
    CHECK_EQ(socket_rings(), 1); /* once per sleep */
    CHECK_EQ(worker_rings(), 0);
    gd__port_awake(&p, true);
    give(1);
    CHECK_EQ(socket_rings(), 0);
    gd__port_sleep(&p, false);
    gd__channel_done(&c, 0, 0);
    CHECK_EQ(socket_rings(), 0); /* the worker does not wait for room */
    gd__port_sleep(&p, true);
    gd__channel_done(&c, 0, 0);
    CHECK_EQ(socket_rings(), 1);
    gd__port_sleep(&p, false);
    gd__channel_stop(&c);
    gd__port_awake(&p, true);
    CHECK_EQ(socket_rings(), 0); /* the socket was emptied */
    CHECK(gd__port_stopped(&p));
}

TEST(a_worker_that_does_not_read_its_socket_does_not_block_the_dispatcher)
{
    open_both();
    gd__port_use_socket(&p);
    p.out->sleeping = 1; /* rung each time */
    for (int i = 0; i < 100000; i++)
        gd__channel_ring(&c, 1);
    CHECK_GT(socket_rings(), 0);
    gd__fd_close(&p.task_bell);
    gd__fd_close(&c.task_bell_theirs);
    gd__channel_ring(&c, 1); /* nothing reads the socket: no signal, no error */
}

TEST(a_worker_waits_for_its_socket)
{
    open_both();
    gd__port_use_socket(&p);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        while (atomic_load(&c.in->sleeping) == 0)
            sched_yield();
        give(1);
        _exit(0);
    }
    CHECK_EQ(gd__port_wait(&p), 1);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

TEST(a_task_is_cancelled_at_its_place)
{
    open_arena();
    struct gd__channel_spec spec = spec_of(TASKS, RESULTS);
    spec.config.concurrency = 600; /* more than one page */
    spec.config.args_size = 5;
    spec.args = "model";
    CHECK_EQ(gd__channel_open(&c, &spec), 0);
    int fds[GD__BOOT_FDS];
    make_boot(fds);
    CHECK_EQ(gd__port_open(&p, &boot, fds), 0);
    CHECK_EQ(p.config.cancel_places, 600);
    CHECK(gd__channel_cancel_at(&c, 0, 0));
    CHECK(gd__channel_cancel_at(&c, 599, 41));
    CHECK(!gd__channel_cancel_at(&c, 600, 1));
    CHECK_EQ(p.cancel_at[0], 1);
    CHECK_EQ(p.cancel_at[1], 0);
    CHECK_EQ(p.cancel_at[599], 42);
    CHECK_MEM((const char *)p.tasks.base + p.config.args_offset, "model", 5);
}

TEST(a_sleeping_dispatcher_is_rung_once_per_sleep)
{
    open_both();
    give(5);
    arena_head->sleeping = 2;
    CHECK(gd__port_claim(&p, 1));
    gd__port_flush(&p);
    CHECK_EQ(rings(c.result_bell), 0); /* no result was committed */
    commit(0);
    CHECK_EQ(rings(c.result_bell), 0);
    CHECK(gd__port_claim(&p, 1));
    CHECK_EQ(rings(c.result_bell), 1);
    commit(1);
    gd__port_flush(&p);
    CHECK_EQ(rings(c.result_bell), 0);
    arena_head->sleeping = 3;
    commit(2);
    gd__port_flush(&p);
    CHECK_EQ(rings(c.result_bell), 1);
}

TEST(a_worker_that_gives_up_a_claim_and_sleeps_is_rung)
{
    open_both();
    give(2);
    p.out->claimed = 1;  /* as if the worker had claimed a task, */
    p.out->sleeping = 2; /* seen the lower limit of the call below, given up its claim and gone to sleep */
    CHECK_EQ(gd__channel_take_back(&c, 0), 1);
    CHECK_EQ(c.out->limit, 1);
    CHECK_EQ(worker_rings(), 1);
}

TEST(a_full_bell_does_not_block)
{
    open_both();
    uint64_t most = UINT64_MAX - 1;
    CHECK_EQ(write(c.result_bell, &most, sizeof most), sizeof most);
    arena_head->sleeping = 1;
    give(1);
    commit(0);
    gd__port_flush(&p);
    CHECK_EQ(rings(c.result_bell), most);
}

TEST(a_ring_without_a_reason_does_not_end_a_wait)
{
    open_both();
    pid_t pid = fork();
    if (pid == 0) {
        for (;;) { /* ring until the worker sleeps for the second time */
            uint32_t sleep = atomic_load(&c.in->sleeping);
            if (sleep > 2)
                break;
            gd__channel_ring(&c, 1);
            sched_yield();
        }
        give(1);
        _exit(0);
    }
    CHECK_EQ(gd__port_wait(&p), 1);
    CHECK_GE(p.sleep, 3);
    CHECK_EQ(c.in->sleeping, 0);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

TEST(a_wait_flushes_committed_results)
{
    open_both();
    arena_head->sleeping = 2;
    commit(0);
    gd__channel_stop(&c);
    CHECK_EQ(gd__port_wait(&p), 0);
    CHECK_EQ(rings(c.result_bell), 1);
}

TEST(a_worker_that_cannot_ring_prints_a_message_and_aborts)
{
    open_both();
    int pipes[2];
    CHECK_EQ(pipe(pipes), 0);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(pipes[1], STDERR_FILENO);
        close(p.result_bell);
        arena_head->sleeping = 2;
        commit(0);
        gd__port_flush(&p);
        _exit(0);
    }
    int status;
    char text[200] = "";
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK_GT(read(pipes[0], text, sizeof text - 1), 0);
    CHECK_CONTAINS(text, "cannot wake the dispatcher");
}

/* The CPU time of this process. */
static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * GD__NS_PER_S + (uint64_t)t.tv_nsec;
}

TEST(the_worker_sleeps_after_spinning)
{
    open_both();
    p.config.spin_ns = 2 * GD__NS_PER_MS;
    pid_t pid = fork();
    if (pid == 0) {
        while (atomic_load(&c.in->sleeping) == 0)
            sched_yield();
        gd__channel_stop(&c);
        _exit(0);
    }
    uint64_t begin = cpu_ns();
    CHECK_EQ(gd__port_wait(&p), 0);
    CHECK_LT(cpu_ns() - begin, 500 * GD__NS_PER_MS);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

#ifdef GD_TEST_HOOKS
TEST(any_failing_call_is_an_error_without_a_leak)
{
    open_arena();
    int before = open_fds(), failures = 0;
    struct gd__channel_spec spec = spec_of(TASKS, RESULTS);
    spec.result_bytes = 0;
    for (unsigned long n = 1;; n++) {
        gd__fault_begin(n);
        int code = gd__channel_open(&c, &spec);
        if (code == 0)
            break;
        failures++;
        CHECK_EQ(code, GD_E_NO_MEMORY);
        CHECK_CONTAINS(gd_error_text(), "channel to worker 3: ");
        CHECK_EQ(open_fds(), before);
    }
    CHECK_EQ(failures, 10); /* two regions with four calls each, and two bells */
    before = open_fds();
    failures = 0;
    for (unsigned long n = 1;; n++) {
        int fds[GD__BOOT_FDS];
        make_boot(fds);
        gd__fault_begin(n);
        int code = gd__port_open(&p, &boot, fds);
        if (code == 0)
            break;
        failures++;
        CHECK_EQ(code, GD_E_NO_MEMORY);
        CHECK_EQ(open_fds(), before);
    }
    CHECK_GE(failures, 5); /* three mappings, and the allocations of gd__bytes_open() */
}
#endif

TEST_MAIN()
