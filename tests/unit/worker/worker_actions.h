/* SPDX-License-Identifier: MIT
 *
 * The worker's side of the tests of the worker host: its functions, and the memory that both sides share.
 *
 * The first character of a payload says what its task does (see struct action). The shared memory has counters and
 * semaphores, so that no test waits for time to pass. Each table of functions has a name (see struct mode).
 */
#ifndef GD_TESTS_UNIT_WORKER_ACTIONS_H
#define GD_TESTS_UNIT_WORKER_ACTIONS_H

#include "support/test.h"

#include <gpu_dispatch/worker.h>
#include <sched.h>
#include <semaphore.h>

#include "base/error.h"
#include "worker/host.h"

#define MODE_ENV   "GD_TEST_MODE"
#define SHARED_ENV "GD_TEST_SHARED"

enum { MOST_CALLS = 64 };

/* Memory that both sides share. */
struct shared {
    sem_t go;      /* the test posts it to let one task continue */
    sem_t reached; /* posted when a task or a load begins */
    sem_t load_go; /* stop_loads() posts it to end one load */
    _Atomic int setups, cleanups, exits, processed, loads, unloads, interrupts, load_stops;
    _Atomic int ahead, most_ahead;      /* tasks that are loading or loaded, and not processed */
    _Atomic int looks, loads_cancelled; /* how often loads have called gd_task_cancelled(); loads that were cancelled */
    _Atomic int solo_beside;            /* how often another task was in progress at the same time as a solo task */
    _Atomic int oom_above;              /* a process_batch of more tasks than this runs out of memory; 0: no limit */
    _Atomic int n_calls;                /* calls of process_batch */
    int calls[MOST_CALLS];              /* the sizes of these batches */
};
static struct shared *shared;

TEST_UNUSED static void reach(void)
{
    sem_post(&shared->reached);
}

TEST_UNUSED static void wait_go(void)
{
    while (sem_wait(&shared->go) < 0)
        ;
}

typedef int action_fn(struct gd_worker *w, const struct gd_task *t, struct gd_result *r);

TEST_UNUSED static int do_echo(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w;
    return gd_result_set(r, t->data, t->size);
}
TEST_UNUSED static int do_nothing(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w, (void)t, (void)r;
    return 0;
}
TEST_UNUSED static int do_large(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w;
    size_t size = strtoul((const char *)t->data + 1, NULL, 10);
    unsigned char *out = gd_result_alloc(r, size);
    if (!out)
        return GD_E_NO_MEMORY;
    CHECK_EQ((uintptr_t)out % 16, 0);
    memset(out, (int)(t->id & 0xff), size);
    return 0;
}
TEST_UNUSED static int do_truncate(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w;
    char *out = gd_result_alloc(r, 1000);
    if (!out)
        return GD_E_NO_MEMORY;
    for (int i = 0; i < 1000; i++)
        out[i] = (char)('a' + i % 26);
    CHECK_EQ(gd_result_truncate(r, 1001), GD_E_INVALID);
    return gd_result_truncate(r, strtoul((const char *)t->data + 1, NULL, 10));
}
TEST_UNUSED static int do_error(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w;
    gd_result_alloc(r, 1000); /* freed by the error */
    return gd_result_error(r, "bad thing number %d", (int)t->id);
}
TEST_UNUSED static int do_error_final(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w, (void)t;
    return gd_result_error_final(r, "never again, whatever you do about it");
}
TEST_UNUSED static int do_out_of_memory(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w, (void)t;
    return gd_result_out_of_memory(r, "full");
}
TEST_UNUSED static int do_device_lost(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w, (void)t;
    return gd_result_device_lost(r, "fell off the bus");
}
TEST_UNUSED static int do_return_7(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w, (void)t, (void)r;
    return 7;
}
TEST_UNUSED static int do_return_failed(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w, (void)t, (void)r;
    return GD_E_FAILED;
}
TEST_UNUSED static int do_return_no_memory(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w, (void)t, (void)r;
    return GD_E_NO_MEMORY;
}
TEST_UNUSED static int do_error_return_0(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w, (void)t;
    gd_result_error(r, "said so");
    return 0;
}
TEST_UNUSED static int do_forgiven(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w, (void)t;
    gd_result_error(r, "an error that is replaced by a success");
    return gd_result_set(r, "fine", 4);
}
TEST_UNUSED static int do_long_words(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w, (void)t;
    static char words[200001];
    for (size_t i = 0; i + 1 < sizeof words - 1; i += 2) {
        words[i] = '\xc3';
        words[i + 1] = '\xa9';
    }
    return gd_result_error(r, "x%s", words); /* a cut at an even number of bytes would split a character */
}
TEST_UNUSED static int do_cancellable(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)t;
    reach();
    while (!gd_task_cancelled(w))
        sched_yield();
    return gd_result_cancelled(r);
}
TEST_UNUSED static int do_wait_go(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    reach();
    wait_go();
    return do_echo(w, t, r);
}
TEST_UNUSED static int do_exit(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w, (void)t, (void)r;
    exit(3);
}
TEST_UNUSED static int do_too_large(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w, (void)t;
    CHECK(gd_result_alloc(r, (size_t)1 << 50) == NULL);
    CHECK_EQ(gd_result_set(r, "", (size_t)1 << 50), GD_E_TOO_LARGE);
    return gd_result_set(r, "none", 4);
}
TEST_UNUSED static int do_tell(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    const void *base;
    size_t size;
    gd_worker_arena(w, &base, &size);
    char text[200];
    int n = snprintf(text, sizeof text, "%s id=%d gpu=%d attempt=%u task=%d hot=%zu in=%d env=%d cancelled=%d",
                     (const char *)gd_worker_user(w), gd_worker_id(w), gd_worker_gpu_id(w), t->attempt, (int)t->id,
                     size, gd__in_worker_process(), getenv(GD__BOOT_ENV) != NULL, gd_task_cancelled(w));
    return gd_result_set(r, text, (size_t)n);
}

TEST_UNUSED static int do_partial(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    char large[1000];
    memset(large, 'p', sizeof large);
    int code = gd_result_set(r, "before", 6); /* stays */
    if (code == 0 && (code = gd_result_partial(r, "one", 3)) == 0)
        code = gd_result_partial(r, large, sizeof large);
    if (code < 0)
        return gd_result_error(r, "%s", gd_error_text());
    CHECK(!gd_result_cancel_requested(r) && !gd_task_cancelled(w));
    (void)t;
    return 0;
}

static const struct action {
    char letter;
    action_fn *run;
} actions[] = {
    { 'e', do_echo },
    { '-', do_nothing },
    { 'L', do_large },
    { 'T', do_truncate },
    { 'x', do_error },
    { 'f', do_error_final },
    { 'm', do_out_of_memory },
    { 'd', do_device_lost },
    { '7', do_return_7 },
    { 'F', do_return_failed },
    { 'M', do_return_no_memory },
    { 'z', do_error_return_0 },
    { 'v', do_forgiven },
    { 'w', do_long_words },
    { 'c', do_cancellable },
    { 'g', do_wait_go },
    { 'E', do_exit },
    { 'H', do_too_large },
    { 'i', do_tell },
    { 'p', do_partial },
};

TEST_UNUSED static int process(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    char letter = t->size ? *(const char *)t->data : '-';
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        if (actions[i].letter == letter) {
            int code = actions[i].run(w, t, r);
            shared->processed++;
            shared->ahead--;
            return code;
        }
    }
    return gd_result_error(r, "no action '%c'", letter);
}

TEST_UNUSED static int process_batch(struct gd_worker *w, const struct gd_task *const *t, struct gd_result *const *r,
                                     size_t n)
{
    shared->calls[shared->n_calls++ % MOST_CALLS] = (int)n;
    if (shared->oom_above && (int)n > shared->oom_above)
        return n % 2 ? gd_result_out_of_memory(r[n - 1], "%zu are too many", n) : GD_E_NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        if (*(const char *)t[i]->data == 'R') /* all tasks without their own failure fail */
            return gd__error(GD_E_FAILED, "the whole batch of %zu", n);
        if (*(const char *)t[i]->data == 'Q') /* the same, without an error message */
            return GD_E_FAILED;
        process(w, t[i], r[i]);
    }
    return 0;
}

TEST_UNUSED static void at_exit(void)
{
    shared->exits++;
}

TEST_UNUSED static int setup(struct gd_worker *w, const struct gd_setup *s)
{
    static char text[200];
    snprintf(text, sizeof text, "worker=%d gpu=%d seed=%d args=%.*s restarts=%u batch=%u", s->worker_id, s->gpu_id,
             (int)s->seed, (int)s->args_size, s->args ? (const char *)s->args : "", s->restarts, s->batch_size);
    gd_worker_set_user(w, text);
    shared->setups++;
    atexit(at_exit);
    return 0;
}
TEST_UNUSED static int setup_fails(struct gd_worker *w, const struct gd_setup *s)
{
    setup(w, s);
    return gd_worker_error(w, "no model at %s, and %d other things", "/nowhere/at/all", 3);
}
TEST_UNUSED static int setup_returns_5(struct gd_worker *w, const struct gd_setup *s)
{
    setup(w, s);
    return 5;
}
TEST_UNUSED static int cleanup(struct gd_worker *w)
{
    (void)w;
    shared->cleanups++;
    return 0;
}
TEST_UNUSED static int cleanup_fails(struct gd_worker *w)
{
    shared->cleanups++;
    return gd_worker_error(w, "still in use");
}
TEST_UNUSED static void interrupt(struct gd_worker *w)
{
    (void)w;
    shared->interrupts++;
    sem_post(&shared->go);
}

TEST_UNUSED static int load(struct gd_worker *w, struct gd_task *t, struct gd_result *r)
{
    char letter = t->size ? *(const char *)t->data : '-';
    int ahead = ++shared->ahead, most = shared->most_ahead;
    while (ahead > most && !atomic_compare_exchange_weak(&shared->most_ahead, &most, ahead))
        ;
    shared->loads++;
    static _Atomic int solo_in_progress;
    if (letter == 'S')
        solo_in_progress = 1;
    if ((letter == 'S' && ahead > 1) || (letter != 'S' && solo_in_progress))
        shared->solo_beside++;
    if (letter == 'C') {
        reach();
        for (; !gd_task_cancelled(w); shared->looks++)
            sched_yield();
        shared->loads_cancelled++;
        shared->ahead--;
        return gd_result_cancelled(r);
    }
    if (letter == 'K') { /* only stop_loads() ends this load */
        reach();
        while (sem_wait(&shared->load_go) < 0)
            ;
        shared->ahead--;
        return gd_result_cancelled(r);
    }
    if (letter == 'X' || letter == 'Y') {
        shared->ahead--;
        return letter == 'X' ? gd_result_error_final(r, "can't read it") : 4;
    }
    reach();
    t->loaded = malloc(32);
    if (!t->loaded)
        return GD_E_NO_MEMORY;
    snprintf(t->loaded, 32, "loaded %d", (int)t->id);
    if (letter == 'S')
        solo_in_progress = 0;
    return 0;
}
TEST_UNUSED static void stop_loads(void)
{
    shared->load_stops++;
    sem_post(&shared->load_go);
}
TEST_UNUSED static void unload(struct gd_worker *w, struct gd_task *t)
{
    (void)w;
    shared->unloads++;
    free(t->loaded);
    t->loaded = NULL;
}
TEST_UNUSED static int process_loaded(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    char letter = t->size ? *(const char *)t->data : '-';
    if (letter != 'S' && letter != '+')
        return process(w, t, r);
    shared->processed++;
    shared->ahead--;
    return gd_result_set(r, t->loaded, strlen(t->loaded));
}
TEST_UNUSED static int process_loaded_batch(struct gd_worker *w, const struct gd_task *const *t,
                                            struct gd_result *const *r, size_t n)
{
    shared->calls[shared->n_calls++ % MOST_CALLS] = (int)n;
    if (shared->oom_above && (int)n > shared->oom_above)
        return GD_E_NO_MEMORY;
    for (size_t i = 0; i < n; i++)
        process_loaded(w, t[i], r[i]);
    return 0;
}

#define BASE_OPS .size = sizeof(struct gd_worker_ops), .setup = setup, .cleanup = cleanup
static const struct mode {
    const char *name;
    struct gd_worker_ops ops;
} modes[] = {
    { "plain", { BASE_OPS, .process = process } },
    { "interrupt", { BASE_OPS, .process = process, .interrupt = interrupt } },
    { "batch", { BASE_OPS, .process = process, .process_batch = process_batch } },
    { "only_batch", { BASE_OPS, .process_batch = process_batch } },
    { "load", { BASE_OPS, .process = process_loaded, .load = load, .unload = unload, .interrupt = interrupt } },
    { "load_quiet", { BASE_OPS, .process = process_loaded, .load = load, .unload = unload } },
    { "load_batch", { BASE_OPS, .process_batch = process_loaded_batch, .load = load, .unload = unload } },
    { "setup_fails",
      { .size = sizeof(struct gd_worker_ops), .setup = setup_fails, .process = process, .cleanup = cleanup } },
    { "setup_returns_5",
      { .size = sizeof(struct gd_worker_ops), .setup = setup_returns_5, .process = process, .cleanup = cleanup } },
    { "cleanup_fails",
      { .size = sizeof(struct gd_worker_ops), .setup = setup, .process = process, .cleanup = cleanup_fails } },
    { "bare", { .size = sizeof(struct gd_worker_ops), .process = do_echo } },
    { "no_process", { .size = sizeof(struct gd_worker_ops), .setup = setup } },
};

TEST_UNUSED static void be_worker(int argc, char **argv)
{
    const char *name = getenv(MODE_ENV), *fd = getenv(SHARED_ENV);
    if (!name || !fd)
        exit(99);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(fd), 0);
    gd__wait_hooks.interrupt_loads = stop_loads;
    for (size_t i = 0; shared != MAP_FAILED && i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(modes[i].name, name) == 0)
            gd_worker_main(&argc, argv, &modes[i].ops);
    }
    exit(98);
}

#endif
