/* The feeder alone. Its thread calls a source of the test, and the test acts as the monitor. */
#include "dispatch/source/feeder.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"
#include "binding.h"
#include "support/test.h"

enum { QUEUE = 8, KIB = 1024, MIB = 1024 * KIB };

/* --- events --- */

static void add_one(_Atomic unsigned *word)
{
    atomic_fetch_add(word, 1);
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void until(_Atomic unsigned *word, unsigned at_least)
{
    for (unsigned seen; (seen = atomic_load(word)) < at_least;)
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

/* --- a source that the test controls --- */

struct script {
    _Atomic unsigned calls;
    _Atomic unsigned returned; /* how often gd_item_alloc() has returned */
    _Atomic unsigned gate;     /* if gated is set, the source waits until this is 1 */
    _Atomic unsigned cancels;
    _Atomic unsigned holds, releases;
    _Atomic unsigned allowed; /* the number of tasks that the test allows the feeder to take */
    bool gated;
    unsigned n;   /* number of tasks */
    size_t size;  /* size of each payload */
    size_t alloc; /* the payload is written to an allocated block of this size; 0: it is copied */
    size_t again; /* before that, allocate a block of this size that is not used */
    size_t grow;  /* claim this many bytes more than the size */
    int code;     /* return value after the last task */
    const char *error;
    char *bytes;
};

static int give(struct script *s, struct gd_item *item, unsigned n)
{
    if (s->again && !gd_item_alloc(item, s->again))
        return 0;
    if (!s->alloc) {
        item->data = s->bytes;
        item->size = s->size;
        if (s->bytes)
            memset(s->bytes, (int)n + 1, s->size);
        return 1;
    }
    void *room = gd_item_alloc(item, s->alloc);
    add_one(&s->returned);
    if (!room)
        return gd_item_error(item, "no room: %s", gd_error_text());
    memset(room, (int)n + 1, s->alloc);
    item->size = s->size + s->grow;
    return 1;
}

static int next(void *user, struct gd_item *item)
{
    struct script *s = user;
    const unsigned n = atomic_load(&s->calls);
    CHECK_LT(n, atomic_load(&s->allowed));
    add_one(&s->calls);
    if (s->gated)
        until(&s->gate, 1);
    if (n >= s->n)
        return s->error ? gd_item_error(item, "%s", s->error) : s->code;
    return give(s, item, n);
}

static void cancel(void *user)
{
    struct script *s = user;
    add_one(&s->cancels);
    add_one(&s->gate);
}

static void hold(void *user)
{
    struct script *s = user;
    add_one(&s->holds);
}

static void release(void *user)
{
    struct script *s = user;
    add_one(&s->releases);
}

/* --- the monitor's side --- */

struct rig {
    struct gd__feeder *f;
    struct script *s;
    int wake_fd;
    uint32_t sleep;
    unsigned taken;
};

static void rig_open_with(struct rig *r, struct script *s, uint64_t queue_bytes, gd_source_fn *source)
{
    *r = (struct rig){ .s = s, .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .sleep = 1 };
    const struct gd__feeder_spec spec = {
        .source = source,
        .source_cancel = cancel,
        .source_hold = hold,
        .source_release = release,
        .user = s,
        .queue_bytes = queue_bytes,
        .arena_bytes = MIB,
        .max_tasks = QUEUE,
        .wake_room = QUEUE / 4 + 1,
        .wake_fd = r->wake_fd,
    };
    CHECK_EQ(gd__feeder_open(&r->f, &spec), 0);
    CHECK_EQ(gd__feeder_start(r->f), 0);
}

static void rig_open(struct rig *r, struct script *s, uint64_t queue_bytes)
{
    rig_open_with(r, s, queue_bytes, next);
}

/* Closes the feeder, whether or not the source has returned. */
static void rig_leave(struct rig *r)
{
    gd__feeder_close(&r->f);
    CHECK(r->f == NULL);
    close(r->wake_fd);
}

static void allow(struct rig *r, unsigned n)
{
    atomic_store(&r->s->allowed, n);
    gd__feeder_allow(r->f, n);
}

/* Sleeps like the monitor until the source has ended or, if a_task is set, until there is a task. */
static void await(struct rig *r, bool a_task)
{
    _Atomic uint32_t *sleeping = &gd__feeder_arena_header(r->f)->sleeping;
    for (;;) {
        atomic_store(sleeping, ++r->sleep);
        gd__full_fence();
        if ((a_task && gd__feeder_has_tasks(r->f)) || gd__feeder_ended(r->f))
            break;
        struct pollfd p = { .fd = r->wake_fd, .events = POLLIN };
        uint64_t n;
        CHECK_EQ(poll(&p, 1, -1), 1);
        CHECK_EQ(read(r->wake_fd, &n, sizeof n), (ssize_t)sizeof n);
    }
    atomic_store(sleeping, 0);
}

static void await_end(struct rig *r)
{
    await(r, false);
}

static void rig_close(struct rig *r)
{
    gd__feeder_stop(r->f);
    await_end(r);
    rig_leave(r);
}

static struct gd__payload take(struct rig *r)
{
    const struct gd__intake_entry *e;
    struct gd__payload p;
    await(r, true);
    CHECK_GE(gd__feeder_next(r->f, &e), 1);
    memcpy(&p, e->payload, sizeof p);
    gd__feeder_taken(r->f, 1);
    r->taken++;
    return p;
}

static const unsigned char *bytes_of(const struct rig *r, const struct gd__payload *p)
{
    return p->size <= GD__INLINE_MAX ? p->bytes : (const unsigned char *)gd__feeder_arena(r->f)->base + p->offset;
}

static bool all_are(const unsigned char *bytes, size_t n, unsigned char value)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

static void check_result(const struct rig *r, int code, const char *expected)
{
    const char *message;
    CHECK_EQ(gd__feeder_result(r->f, &message), code);
    if (expected)
        CHECK_CONTAINS(message, expected);
}

/* Takes n payloads, checks them and releases them. */
static void take_and_check(struct rig *r, unsigned n, size_t size)
{
    for (unsigned i = 0; i < n; i++) {
        struct gd__payload p = take(r);
        CHECK_EQ(p.size, size);
        CHECK(all_are(bytes_of(r, &p), size, (unsigned char)r->taken));
        gd__feeder_release(r->f, &p);
        if (r->taken + QUEUE > atomic_load(&r->s->allowed))
            allow(r, r->taken + QUEUE);
    }
}

/* --- number of tasks: the source checks that the feeder takes no more than allowed --- */

TEST(no_task_is_taken_before_it_is_allowed)
{
    struct script s = { .n = 3 };
    struct rig r;
    rig_open(&r, &s, MIB);
    allow(&r, QUEUE);
    await_end(&r);
    CHECK_EQ(gd__feeder_queued(r.f), 3);
    check_result(&r, 0, NULL);
    rig_close(&r);
}

TEST(a_sleeping_feeder_is_woken_for_a_quarter_of_the_queue)
{
    struct script s = { .n = 1000 };
    struct rig r;
    rig_open(&r, &s, MIB);
    for (unsigned n = 5; n < 200; n += QUEUE / 4 + 1) {
        allow(&r, n);
        until(&s.calls, n);
        while (r.taken < n)
            (void)take(&r);
    }
    gd__feeder_stop(r.f);
    await_end(&r);
    rig_close(&r);
}

TEST(many_tasks_arrive_in_order_and_complete)
{
    enum { MANY = 200 };
    char bytes[100];
    struct script s = { .n = MANY, .size = sizeof bytes, .bytes = bytes };
    struct rig r;
    rig_open(&r, &s, MIB);
    allow(&r, QUEUE);
    take_and_check(&r, MANY, sizeof bytes);
    await_end(&r);
    check_result(&r, 0, NULL);
    CHECK_EQ(gd__feeder_queued(r.f), 0);
    rig_close(&r);
}

TEST(a_ring_that_wraps_is_given_in_two_parts)
{
    struct script s = { .n = 2 * QUEUE - 3 };
    struct rig r;
    const struct gd__intake_entry *e;
    rig_open(&r, &s, MIB);
    allow(&r, QUEUE);
    until(&s.calls, QUEUE);
    take_and_check(&r, QUEUE - 3, 0);
    gd__feeder_nudge(r.f); /* the remaining room may be too small to wake the source */
    until(&s.calls, s.n);
    gd__feeder_stop(r.f);
    await_end(&r);
    CHECK_EQ(gd__feeder_queued(r.f), QUEUE);
    uint64_t given = 0, n;
    const struct gd__intake_entry *behind = NULL;
    while ((n = gd__feeder_next(r.f, &e)) > 0) {
        CHECK(given == 3 || behind == NULL || e == behind); /* parts are adjacent, except at the end of the ring */
        given += n;
        CHECK(given <= 3 || given - n >= 3); /* no part crosses the end of the ring */
        behind = e + n;
        gd__feeder_taken(r.f, n);
    }
    CHECK_EQ(given, QUEUE);
    rig_close(&r);
}

/* --- payloads --- */

TEST(small_payloads_are_stored_in_the_entry)
{
    char bytes[GD__INLINE_MAX];
    struct script s = { .n = 20, .size = sizeof bytes, .bytes = bytes };
    struct rig r;
    rig_open(&r, &s, 1); /* the byte limit does not apply to small payloads */
    allow(&r, QUEUE);
    take_and_check(&r, 20, sizeof bytes);
    rig_close(&r);
}

TEST(a_null_pointer_with_a_size_is_an_error_of_the_source)
{
    for (size_t size = 1; size <= 100; size += 99) {
        struct script s = { .n = 2, .size = size };
        struct rig r;
        rig_open(&r, &s, MIB);
        allow(&r, QUEUE);
        await_end(&r);
        check_result(&r, GD_E_INVALID, "NULL");
        rig_close(&r);
    }
}

TEST(written_in_place)
{
    struct script s = { .n = 50, .size = 5000, .alloc = 5000 };
    struct rig r;
    rig_open(&r, &s, MIB);
    allow(&r, QUEUE);
    take_and_check(&r, 50, 5000);
    rig_close(&r);
}

TEST(written_in_place_and_made_shorter)
{
    struct script s = { .n = 50, .size = 100, .alloc = 5000 };
    struct rig r;
    rig_open(&r, &s, 8000); /* room for one block at a time, so each block must be freed completely */
    allow(&r, QUEUE);
    take_and_check(&r, 50, 100);
    rig_close(&r);
}

TEST(a_payload_made_very_short_is_stored_in_the_entry)
{
    struct script s = { .n = 50, .size = 3, .alloc = 5000 };
    struct rig r;
    rig_open(&r, &s, 5000); /* if the first payload kept its block, there would be no room for the next */
    allow(&r, QUEUE);
    take_and_check(&r, 50, 3);
    rig_close(&r);
}

TEST(if_a_source_allocates_twice_the_first_block_is_freed)
{
    struct script s = { .n = 50, .size = 100, .alloc = 100, .again = 6000 };
    struct rig r;
    rig_open(&r, &s, 6000);
    allow(&r, QUEUE);
    take_and_check(&r, 50, 100);
    rig_close(&r);
}

TEST(a_size_above_the_allocation_is_an_error_of_the_source)
{
    struct script s = { .n = 2, .size = 100, .alloc = 100, .grow = 1 };
    struct rig r;
    rig_open(&r, &s, MIB);
    allow(&r, QUEUE);
    await_end(&r);
    CHECK_EQ(gd__feeder_queued(r.f), 0);
    check_result(&r, GD_E_INVALID, "101 bytes");
    rig_close(&r);
}

/* --- bytes --- */

TEST(the_source_waits_at_the_byte_limit)
{
    static char bytes[400];
    struct script s = { .n = 100, .size = sizeof bytes, .bytes = bytes };
    struct gd__payload held[2];
    struct rig r;
    rig_open(&r, &s, 1000);
    allow(&r, QUEUE);
    held[0] = take(&r);
    for (unsigned i = 1; i < s.n; i++) {
        held[i % 2] = take(&r);
        CHECK_EQ(gd__feeder_queued(r.f), 0); /* two payloads are in use, and there is no room for a third */
        CHECK(all_are(bytes_of(&r, &held[i % 2]), sizeof bytes, (unsigned char)(i + 1)));
        gd__feeder_release(r.f, &held[(i + 1) % 2]);
        allow(&r, i + QUEUE);
    }
    await_end(&r);
    check_result(&r, 0, NULL);
    rig_close(&r);
}

TEST(a_payload_over_the_limit_is_taken_alone)
{
    static char bytes[5000];
    struct script s = { .n = 3, .size = sizeof bytes, .bytes = bytes };
    struct rig r;
    rig_open(&r, &s, 1000);
    allow(&r, QUEUE);
    take_and_check(&r, 3, sizeof bytes);
    await_end(&r);
    check_result(&r, 0, NULL);
    rig_close(&r);
}

/* RLIMIT_FSIZE is one of the limits that make the arena smaller than requested. */
static void with_small_arena(size_t alloc)
{
    static char bytes[5 * MIB];
    const struct rlimit small = { 16 * MIB, RLIM_INFINITY };
    struct script s = { .n = 40, .size = sizeof bytes, .bytes = alloc ? NULL : bytes, .alloc = alloc };
    struct rig r;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    rig_open(&r, &s, (uint64_t)1 << 30);
    CHECK_LE(gd__feeder_arena(r.f)->size, 16 * MIB);
    allow(&r, QUEUE);
    struct gd__payload first = take(&r), second = take(&r); /* a third payload fits, a fourth does not */
    until(&s.calls, 4);
    gd__feeder_release(r.f, &first);
    gd__feeder_release(r.f, &second);
    allow(&r, 2 + QUEUE);
    take_and_check(&r, 38, sizeof bytes);
    await_end(&r);
    check_result(&r, 0, NULL);
    rig_close(&r);
}

TEST(a_copy_waits_for_room_in_a_small_arena)
{
    with_small_arena(0);
}

TEST(an_allocation_waits_for_room_in_a_small_arena)
{
    with_small_arena(5 * MIB);
}

TEST(a_payload_that_can_never_fit_is_an_error)
{
    const struct rlimit small = { 16 * MIB, RLIM_INFINITY };
    struct script s = { .n = 1, .size = 64 * MIB, .alloc = 64 * MIB };
    struct rig r;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    rig_open(&r, &s, (uint64_t)1 << 30);
    allow(&r, QUEUE);
    await_end(&r);
    check_result(&r, GD_E_SOURCE, "no room: ");
    rig_close(&r);
}

/* --- ends --- */

TEST(the_end_of_the_source_wakes_the_monitor)
{
    struct script s = { .n = 0, .gated = true };
    struct rig r;
    rig_open(&r, &s, MIB);
    allow(&r, QUEUE);
    until(&s.calls, 1);
    add_one(&s.gate);
    await(&r, true);
    CHECK(gd__feeder_ended(r.f));
    check_result(&r, 0, NULL);
    rig_close(&r);
}

TEST(the_message_of_a_failure)
{
    struct script s = { .n = 1, .error = "the disk is gone" };
    struct rig r;
    rig_open(&r, &s, MIB);
    allow(&r, QUEUE);
    await_end(&r);
    CHECK_EQ(gd__feeder_queued(r.f), 1); /* tasks that came before the failure are kept */
    check_result(&r, GD_E_SOURCE, "the disk is gone");
    rig_close(&r);
}

TEST(a_failure_without_a_message)
{
    const int codes[] = { -1, GD_E_SHUTDOWN, -12345 };
    for (int i = 0; i < 3; i++) {
        struct script s = { .n = 1, .code = codes[i] };
        struct rig r;
        rig_open(&r, &s, MIB);
        allow(&r, QUEUE);
        await_end(&r);
        check_result(&r, codes[i], "gd_item_error");
        rig_close(&r);
    }
}

TEST(stopped_while_the_feeder_waits_for_room)
{
    struct script s = { .n = 1000 };
    struct rig r;
    rig_open(&r, &s, MIB);
    allow(&r, 3);
    until(&s.calls, 3);
    gd__feeder_stop(r.f);
    gd__feeder_stop(r.f);
    await_end(&r);
    CHECK_EQ(gd__feeder_queued(r.f), 3);
    CHECK_LE(atomic_load(&s.cancels), 1);
    check_result(&r, 0, NULL);
    rig_close(&r);
}

TEST(stopped_before_any_task_was_allowed)
{
    struct script s = { .n = 1000 };
    struct rig r;
    rig_open(&r, &s, MIB);
    gd__feeder_stop(r.f);
    await_end(&r);
    CHECK_EQ(atomic_load(&s.calls), 0);
    rig_close(&r);
}

TEST(stopped_in_a_source_that_blocks)
{
    struct script s = { .n = 1000, .gated = true };
    struct rig r;
    rig_open(&r, &s, MIB);
    allow(&r, QUEUE);
    until(&s.calls, 1);
    gd__feeder_stop(r.f);
    await_end(&r);
    CHECK_EQ(atomic_load(&s.cancels), 1);
    CHECK_EQ(gd__feeder_queued(r.f), 1); /* the task was given, so it must be reported */
    rig_close(&r);
}

TEST(a_large_task_that_comes_after_the_stop_is_not_lost)
{
    static char bytes[400];
    struct script s = { .n = 1000, .size = sizeof bytes, .bytes = bytes, .gated = true };
    struct rig r;
    rig_open(&r, &s, 1000);
    allow(&r, QUEUE);
    until(&s.calls, 1);
    gd__feeder_stop(r.f);
    struct gd__payload p = take(&r);
    CHECK_EQ(p.size, sizeof bytes);
    CHECK(all_are(bytes_of(&r, &p), sizeof bytes, 1));
    await_end(&r);
    CHECK_EQ(atomic_load(&s.calls), 1);
    rig_close(&r);
}

TEST(a_task_that_waits_for_bytes_when_stopped_is_not_lost)
{
    static char bytes[800];
    struct script s = { .n = 1000, .size = sizeof bytes, .bytes = bytes };
    struct rig r;
    rig_open(&r, &s, 1000);
    allow(&r, QUEUE);
    (void)take(&r);
    until(&s.calls, 2);
    gd__feeder_stop(r.f);
    (void)take(&r);
    await_end(&r);
    CHECK_EQ(r.taken, atomic_load(&s.calls));
    CHECK_EQ(gd__feeder_queued(r.f), 0);
    rig_close(&r);
}

TEST(a_task_without_room_when_stopped_is_not_lost)
{
    static char bytes[5 * MIB];
    const struct rlimit small = { 16 * MIB, RLIM_INFINITY };
    struct script s = { .n = 1000, .size = sizeof bytes, .bytes = bytes };
    struct rig r;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    rig_open(&r, &s, (uint64_t)1 << 30);
    allow(&r, QUEUE);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(take(&r).size, sizeof bytes);
    until(&s.calls, 4);
    gd__feeder_stop(r.f);
    CHECK_EQ(take(&r).size, 0); /* the task comes without its payload */
    await_end(&r);
    check_result(&r, 0, NULL);
    rig_close(&r);
}

TEST(stopped_while_the_source_allocates)
{
    struct script s = { .n = 1000, .size = 800, .alloc = 800 };
    struct rig r;
    rig_open(&r, &s, 1000);
    allow(&r, QUEUE);
    (void)take(&r);
    until(&s.calls, 2);
    gd__feeder_stop(r.f);
    await_end(&r);
    CHECK_EQ(atomic_load(&s.returned), 2);
    CHECK_EQ(gd__feeder_queued(r.f), 0);
    check_result(&r, GD_E_SOURCE, "shutting down");
    rig_close(&r);
}

/* --- abandoned --- */

TEST(a_source_that_does_not_return_is_abandoned)
{
    static struct script s = { .n = 5, .size = 100, .alloc = 100, .gated = true };
    struct rig r;
    rig_open(&r, &s, MIB);
    allow(&r, QUEUE);
    until(&s.calls, 1);
    CHECK(!gd__feeder_ended(r.f));
    rig_leave(&r); /* the eventfd that the thread would write to is closed too */
    add_one(&s.gate);
    /* The thread continues, so its memory must still exist. A sanitizer checks that it is freed at the end. */
    until(&s.returned, 5);
}

TEST(an_abandoned_feeder_that_was_stopped_allocates_nothing)
{
    static struct script s = { .n = 5, .size = 100, .alloc = 100, .gated = true };
    struct rig r;
    rig_open(&r, &s, MIB);
    allow(&r, QUEUE);
    until(&s.calls, 1);
    gd__feeder_stop(r.f); /* cancel opens the gate; the source may or may not have ended by now */
    rig_leave(&r);
    until(&s.returned, 1);
    CHECK_EQ(atomic_load(&s.calls), 1);
}

TEST(never_started)
{
    struct script s = { .n = 5 };
    struct gd__feeder *f;
    const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const struct gd__feeder_spec spec = {
        .source = next, .user = &s, .queue_bytes = 1, .max_tasks = 1, .wake_room = 1, .wake_fd = wake_fd
    };
    CHECK_EQ(gd__feeder_open(&f, &spec), 0);
    CHECK(gd__feeder_ended(f));
    gd__feeder_stop(f);
    gd__feeder_close(&f);
    gd__feeder_close(&f);
    CHECK_EQ(atomic_load(&s.calls), 0);
    close(wake_fd);
}

/* --- nothing is left --- */

static unsigned count_open(unsigned *passed_on)
{
    unsigned n = 0;
    *passed_on = 0;
    for (int fd = 3; fd < 256; fd++) {
        const int flags = fcntl(fd, F_GETFD);
        n += flags >= 0;
        *passed_on += flags >= 0 && !(flags & FD_CLOEXEC);
    }
    return n;
}

TEST(descriptors_of_the_feeder_are_not_inherited)
{
    struct script s = { .n = 0 };
    struct rig r;
    unsigned before, during, after;
    const unsigned n = count_open(&before);
    rig_open(&r, &s, MIB);
    CHECK_EQ(count_open(&during), n + 3); /* the eventfd of the test, the copy of the feeder, the arena */
    CHECK_EQ(during, before);
    gd__feeder_stop(r.f);
    await_end(&r);
    rig_close(&r);
    CHECK_EQ(count_open(&after), n);
}

TEST(every_failure_while_opening_leaves_nothing)
{
    struct script s = { .n = 0 };
    const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const struct gd__feeder_spec spec = {
        .source = next, .user = &s, .queue_bytes = 1, .max_tasks = 4, .wake_room = 1, .wake_fd = wake_fd
    };
    unsigned unused, failures = 0;
    const unsigned n = count_open(&unused);
    bool done = false;
    for (unsigned long nth = 1; !done; nth++) {
        struct gd__feeder *f = NULL;
        gd__fault_begin(nth);
        int rc = gd__feeder_open(&f, &spec);
        if (rc == 0)
            rc = gd__feeder_start(f);
        done = gd__fault_count() < nth;
        gd__fault_begin(0);
        failures += rc < 0;
        if (rc == 0) {
            struct rig r = { .f = f, .s = &s, .wake_fd = wake_fd, .sleep = 1 };
            gd__feeder_stop(f);
            await_end(&r);
        }
        gd__feeder_close(&f);
    }
    CHECK_GE(failures, 6);
    CHECK_EQ(count_open(&unused), n);
    close(wake_fd);
}

/* --- functions for language bindings --- */

/* A source that gives as many items as allowed in one call. */
static int next_many(void *user, struct gd_item *item)
{
    struct script *s = user;
    int rc;
    do
        rc = next(user, item);
    while (rc > 0 && gd__item_give(item));
    add_one(&s->returned);
    return rc;
}

TEST(items_given_early_are_complete_and_not_more_than_allowed)
{
    enum { MANY = 203, SMALL = 20 };
    char bytes[SMALL];
    struct script s = { .n = MANY, .size = SMALL, .bytes = bytes };
    struct rig r;
    rig_open_with(&r, &s, MIB, next_many);
    allow(&r, QUEUE);
    until(&s.calls, QUEUE);
    CHECK_LE(atomic_load(&s.returned), 1); /* one call gave all allowed items */
    take_and_check(&r, MANY, SMALL);
    await_end(&r);
    check_result(&r, 0, NULL);
    rig_close(&r);
}

TEST(an_item_that_may_have_to_wait_is_not_given_early)
{
    char bytes[100];
    struct script s = { .n = QUEUE, .size = sizeof bytes, .bytes = bytes };
    struct rig r;
    rig_open_with(&r, &s, MIB, next_many);
    allow(&r, 2 * QUEUE);
    take_and_check(&r, QUEUE, sizeof bytes);
    await_end(&r);
    CHECK_EQ(atomic_load(&s.returned), QUEUE + 1);
    rig_close(&r);
}

/* Gives its first item, and then waits inside the same call. */
static int gives_one_and_waits(void *user, struct gd_item *item)
{
    struct script *s = user;
    void *room = gd__item_try_alloc(item, 80);
    CHECK(room != NULL);
    memset(room, 1, 80);
    CHECK(gd__item_give(item));
    CHECK(gd__item_try_alloc(item, 80) == NULL); /* over the byte limit, so the item would have to wait */
    CHECK(!gd__item_stopped(item));
    add_one(&s->returned);
    until(&s->gate, 1);
    CHECK(gd__item_stopped(item));
    CHECK(gd__item_try_alloc(item, 1) == NULL);
    item->data = "x";
    item->size = 1;
    CHECK(!gd__item_give(item));
    return 0;
}

TEST(an_item_given_early_arrives_at_once)
{
    struct script s = { 0 };
    struct rig r;
    rig_open_with(&r, &s, 100, gives_one_and_waits);
    allow(&r, QUEUE);
    const struct gd__payload p = take(&r);
    CHECK_EQ(p.size, 80);
    CHECK(all_are(bytes_of(&r, &p), 80, 1));
    until(&s.returned, 1); /* wait until the source has made its checks */
    rig_close(&r);
    CHECK_EQ(atomic_load(&s.cancels), 1);
}

/* --- huge pages for large payloads --- */

enum { EXTENT = 2 * MIB, LARGE = 3 * MIB };

static uint64_t arena_used(const struct rig *r)
{
    struct stat status;
    CHECK_EQ(fstat(gd__feeder_arena(r->f)->fd, &status), 0);
    return (uint64_t)status.st_blocks * 512;
}

/* Allocates LARGE bytes and writes only the last one. If `alloc` is set, asks for all pages first (gd__item_fill). */
static int gives_one_sparse(void *user, struct gd_item *item)
{
    struct script *s = user;
    if (atomic_load(&s->calls) == s->n)
        return 0;
    add_one(&s->calls);
    char *room = gd_item_alloc(item, LARGE);
    CHECK(room != NULL);
    if (s->alloc) {
        const bool would = gd__item_would_fill(item);
        CHECK(would || atomic_load(&s->calls) > 1);
        gd__item_fill(item);
        CHECK(!gd__item_would_fill(item));
    }
    room[LARGE - 1] = 7;
    return 1;
}

static uint64_t used_by_one_sparse(bool filled)
{
    struct script s = { .n = 1, .alloc = filled };
    struct rig r;
    rig_open_with(&r, &s, 4 * LARGE, gives_one_sparse);
    /* The header of the arena. It may use a whole extent, if the system always uses huge pages. */
    const uint64_t before = arena_used(&r);
    allow(&r, QUEUE);
    const struct gd__payload p = take(&r);
    const uint64_t used = arena_used(&r) - before;
    CHECK_EQ(p.size, LARGE);
    CHECK_EQ(bytes_of(&r, &p)[LARGE - 1], 7);
    await_end(&r);
    rig_close(&r);
    return used;
}

TEST(unwritten_allocations_cost_no_memory)
{
    if (used_by_one_sparse(true) < EXTENT)
        SKIP("no huge pages on demand here");
    CHECK_LE(used_by_one_sparse(false), EXTENT); /* a page or two, or an extent if the system always uses huge pages */
}

TEST(large_payloads_that_are_copied_are_complete)
{
    static char bytes[LARGE];
    struct script s = { .n = 20, .size = LARGE, .bytes = bytes };
    struct rig r;
    rig_open(&r, &s, 4 * LARGE);
    allow(&r, QUEUE);
    take_and_check(&r, 20, LARGE);
    rig_close(&r);
}

TEST(payloads_that_share_an_extent_are_not_damaged)
{
    static char bytes[LARGE];
    struct script s = { .n = 40, .size = 600 * KIB, .bytes = bytes };
    struct rig r;
    rig_open(&r, &s, QUEUE * LARGE);
    allow(&r, QUEUE);
    struct gd__payload p[QUEUE];
    /* All payloads are in use at once, so each one exists when the next one is written. */
    for (unsigned i = 0; i < QUEUE; i++)
        p[i] = take(&r);
    for (unsigned i = 0; i < QUEUE; i++)
        CHECK(all_are(bytes_of(&r, &p[i]), 600 * KIB, (unsigned char)(i + 1)));
    rig_close(&r);
}

TEST(source_release_is_called_when_the_thread_ends)
{
    struct script s = { .n = 1, .gated = true };
    struct rig r;
    rig_open(&r, &s, MIB);
    allow(&r, QUEUE);
    until(&s.calls, 1);
    CHECK_EQ(atomic_load(&s.holds), 1);
    rig_leave(&r); /* the source is abandoned */
    CHECK_EQ(atomic_load(&s.releases), 0);
    atomic_store(&s.allowed, QUEUE);
    add_one(&s.gate);
    until(&s.releases, 1);
}

TEST(source_release_is_called_if_the_thread_cannot_be_started)
{
    struct script s = { 0 };
    const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const struct gd__feeder_spec spec = { .source = next,
                                          .source_hold = hold,
                                          .source_release = release,
                                          .user = &s,
                                          .queue_bytes = 1,
                                          .max_tasks = 4,
                                          .wake_room = 1,
                                          .wake_fd = wake_fd };
    struct gd__feeder *f = NULL;
    CHECK_EQ(gd__feeder_open(&f, &spec), 0);
    gd__fault_begin(1);
    CHECK_LT(gd__feeder_start(f), 0);
    gd__fault_begin(0);
    CHECK_EQ(atomic_load(&s.holds), 1);
    CHECK_EQ(atomic_load(&s.releases), 1);
    gd__feeder_close(&f);
    close(wake_fd);
}

TEST_MAIN()
