/* SPDX-License-Identifier: MIT
 *
 * The worker's side of the tests of tasks in flight: begin() and cancel(), and an engine with a few threads. The first
 * character of a task's payload says what the task does: see begin_task(). The engine's threads take jobs in random
 * order.
 */
#ifndef GD_TESTS_UNIT_WORKER_FLIGHT_ACTIONS_H
#define GD_TESTS_UNIT_WORKER_FLIGHT_ACTIONS_H

#include "unit/worker/worker_actions.h"

enum { ENGINE_THREADS = 4, MOST_JOBS = 8192 };

struct job {
    struct gd_worker *w;
    const struct gd_task *task;
    struct gd_result *result;
};

static struct engine {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct job jobs[MOST_JOBS]; /* for the threads to do */
    size_t n_jobs;
    struct job held[MOST_JOBS]; /* tasks that wait for another task, or for cancel() */
    size_t n_held;
    unsigned chance;
} engine = { .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .chance = 1 };

static unsigned draw(void)
{
    engine.chance = engine.chance * 1664525u + 1013904223u;
    return engine.chance >> 8;
}

static void add(struct job *jobs, size_t *n, struct job job)
{
    pthread_mutex_lock(&engine.lock);
    CHECK(*n < MOST_JOBS);
    jobs[(*n)++] = job;
    pthread_cond_signal(&engine.more);
    pthread_mutex_unlock(&engine.lock);
}

static struct job take_at(struct job *jobs, size_t *n, size_t i)
{
    struct job job = jobs[i];
    jobs[i] = jobs[--*n];
    return job;
}

static struct job take_job(void)
{
    pthread_mutex_lock(&engine.lock);
    while (engine.n_jobs == 0)
        pthread_cond_wait(&engine.more, &engine.lock);
    struct job job = take_at(engine.jobs, &engine.n_jobs, draw() % engine.n_jobs);
    pthread_mutex_unlock(&engine.lock);
    return job;
}

/* Takes the held task with this id. False: it is not held. */
static bool take_held(uint64_t id, struct job *out)
{
    bool found = false;
    pthread_mutex_lock(&engine.lock);
    for (size_t i = 0; i < engine.n_held && !found; i++) {
        found = engine.held[i].task->id == id;
        if (found)
            *out = take_at(engine.held, &engine.n_held, i);
    }
    pthread_mutex_unlock(&engine.lock);
    return found;
}

static unsigned long number_in(const struct gd_task *t)
{
    char text[32] = "";
    memcpy(text, (const char *)t->data + 1, t->size - 1 < sizeof text ? t->size - 1 : sizeof text - 1);
    return strtoul(text, NULL, 10);
}

static void echo_and_finish(const struct job *j)
{
    CHECK_EQ(gd_result_set(j->result, j->task->data, j->task->size), 0);
    CHECK_EQ(gd_result_finish(j->result), 0);
}

static void fill_and_finish(const struct job *j)
{
    const size_t size = number_in(j->task);
    unsigned char *out = gd_result_alloc(j->result, size);
    if (out)
        memset(out, (int)(j->task->id & 0xff), size);
    else
        gd_result_out_of_memory(j->result, "no room for %zu bytes", size);
    gd_result_finish(j->result);
}

/* Sends that many partial results, every third of which is large. */
static void send_parts(const struct job *j)
{
    static const char large[100000];
    char text[32];
    for (unsigned long i = 0; i < number_in(j->task); i++) {
        const int n = snprintf(text, sizeof text, "part %lu", i);
        CHECK_EQ(gd_result_partial(j->result, i % 3 == 2 ? large : text, i % 3 == 2 ? sizeof large : (size_t)n), 0);
    }
    echo_and_finish(j);
}

/* Allocates for two tasks on one thread. The first allocation takes the room that the second one needs. */
static void run_out(const struct job *b)
{
    struct job a;
    CHECK(take_held(b->task->id - 1, &a));
    CHECK(gd_result_alloc(a.result, 600000) != NULL);
    CHECK(gd_result_alloc(b->result, 600000) == NULL);
    gd_result_out_of_memory(b->result, "no room");
    gd_result_finish(b->result);
    gd_result_truncate(a.result, 3);
    gd_result_finish(a.result);
}

static void *run_engine(void *unused)
{
    (void)unused;
    for (;;) {
        struct job j = take_job(), other;
        switch (*(const char *)j.task->data) {
        case 'f': /* finishes another task */
            CHECK(take_held(number_in(j.task), &other));
            echo_and_finish(&other);
            echo_and_finish(&j);
            break;
        case 'g':
            wait_go();
            echo_and_finish(&j);
            break;
        case 'C':
            reach();
            while (!gd_result_cancel_requested(j.result))
                sched_yield();
            CHECK(!gd_task_cancelled(j.w));
            gd_result_cancelled(j.result);
            gd_result_finish(j.result);
            break;
        case 'k': /* finishes a task that cancel() may finish too */
            if (take_held(j.task->id, &other))
                echo_and_finish(&other);
            break;
        case 'L':
            fill_and_finish(&j);
            break;
        case 'p':
            send_parts(&j);
            break;
        case 'D':
            run_out(&j);
            break;
        case 'l':
            gd_result_error(j.result, "an error message that does not fit into a slot, of task %d", (int)j.task->id);
            gd_result_finish(j.result);
            break;
        case 'd':
            gd_result_device_lost(j.result, "fell off the bus");
            gd_result_finish(j.result);
            break;
        default:
            echo_and_finish(&j);
        }
    }
    return NULL;
}

static int hold(struct job j)
{
    add(engine.held, &engine.n_held, j);
    return 0;
}

static int hand(struct job j)
{
    add(engine.jobs, &engine.n_jobs, j);
    return 0;
}

static int finish_twice(const struct job *j)
{
    gd_result_finish(j->result);
    return gd_result_finish(j->result);
}

static int finish_foreign(const struct job *j)
{
    struct gd_result foreign = { .worker = j->w };
    return gd_result_finish(&foreign);
}

static int finish_later_again(const struct job *j)
{
    static struct gd_result *last;
    if (last)
        return gd_result_finish(last);
    last = j->result;
    return gd_result_finish(j->result);
}

static int begin_task(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    const struct job j = { w, t, r };
    shared->processed++;
    switch (*(const char *)t->data) {
    case 'e': /* finishes inside begin() */
        echo_and_finish(&j);
        return 0;
    case 'h': /* until a task 'f' */
        return hold(j);
    case 'u': /* likewise; cancel() does not finish it */
    case 'c': /* until cancel() */
        hold(j);
        reach();
        return 0;
    case 'b': /* is cancelled while begin() runs */
        hold(j);
        reach();
        wait_go();
        CHECK(gd_result_cancel_requested(r));
        CHECK_EQ(shared->interrupts, 0);
        return 0;
    case 'k': { /* until cancel() or a thread, whichever comes first; the thread gets a copy of the task */
        static struct gd_task copies[256];
        struct gd_task *copy = &copies[t->id % 256];
        *copy = *t;
        copy->data = "k";
        hold(j);
        return hand((struct job){ w, copy, r });
    }
    case 'D':
        return t->id % 2 ? hand(j) : hold(j);
    case 'M': /* allocates inside begin() */
        fill_and_finish(&j);
        return 0;
    case 'P':
        CHECK_EQ(gd_result_partial(r, "inside", 6), 0);
        echo_and_finish(&j);
        return 0;
    case 'x':
        return gd_result_error(r, "bad thing number %d", (int)t->id);
    case '7':
        return 7;
    case '2':
        return finish_twice(&j);
    case 'a':
        return finish_later_again(&j);
    case 'o':
        return finish_foreign(&j);
    case 'B':
        gd_result_finish(r);
        return GD_E_FAILED;
    case 's': /* too late: only setup may */
        CHECK_EQ(gd_worker_set_concurrency(w, 2), GD_E_INVALID);
        echo_and_finish(&j);
        return 0;
    default:
        return hand(j);
    }
}

/* Finishes the task, unless a thread was faster. */
static void cancel_task(struct gd_worker *w, const struct gd_task *t)
{
    struct job j;
    (void)w;
    const uint64_t id = t->id;
    shared->interrupts++;
    if (*(const char *)t->data == 'u') /* goes on */
        return;
    if (take_held(id, &j)) {
        gd_result_cancelled(j.result);
        gd_result_finish(j.result);
    }
    CHECK_EQ(t->id, id); /* the task is valid until this returns */
}

/* ---- load ---- */

/* What load() leaves for begin(). Task and payload must not move in between. */
struct loaded {
    const struct gd_task *task;
    const void *data;
};

static _Atomic bool solo_in_progress;

static void count_ahead(int more)
{
    const int ahead = atomic_fetch_add(&shared->ahead, more) + more;
    int most = shared->most_ahead;
    while (ahead > most && !atomic_compare_exchange_weak(&shared->most_ahead, &most, ahead))
        ;
}

static int fail_load(int code)
{
    count_ahead(-1);
    return code;
}

static int await_cancel(struct gd_worker *w, struct gd_result *r, bool by_result)
{
    reach();
    while (!(by_result ? gd_result_cancel_requested(r) : gd_task_cancelled(w)))
        sched_yield();
    shared->loads_cancelled++;
    return fail_load(gd_result_cancelled(r));
}

/* The second character of a payload that begins with '<' says what its load does. */
static int load_task(struct gd_worker *w, struct gd_task *t, struct gd_result *r)
{
    const char letter = t->size > 1 && *(const char *)t->data == '<' ? ((const char *)t->data)[1] : ' ';
    shared->loads++;
    count_ahead(1);
    shared->solo_beside += solo_in_progress || (letter == 's' && shared->ahead > 1);
    solo_in_progress |= letter == 's';
    switch (letter) {
    case 'X':
        return fail_load(gd_result_error_final(r, "can't read it"));
    case 'Y':
        return fail_load(4);
    case 'c':
    case 'r':
        return await_cancel(w, r, letter == 'r');
    case 'w': /* until the test lets it end */
        reach();
        while (sem_wait(&shared->load_go) < 0)
            ;
        break;
    case 'A': /* leaves room for only one such result */
        if (!gd_result_alloc(r, 600000))
            return fail_load(gd_result_out_of_memory(r, "no room in load"));
        break;
    case 'P':
        CHECK_EQ(gd_result_partial(r, "x", 1), GD_E_INVALID);
        break;
    case 'F':
        gd_result_finish(r);
        break;
    default:
        break;
    }
    struct loaded *l = malloc(sizeof *l);
    CHECK(l != NULL);
    *l = (struct loaded){ t, t->data };
    t->loaded = l;
    reach();
    return 0;
}

static void unload_task(struct gd_worker *w, struct gd_task *t)
{
    const struct loaded *l = t->loaded;
    (void)w;
    CHECK(l->task == t);
    if (memcmp(t->data, "<s", 2) == 0)
        solo_in_progress = false;
    shared->unloads++;
    count_ahead(-1);
    free(t->loaded);
    t->loaded = NULL;
}

static int begin_loaded(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    const struct loaded *l = t->loaded;
    CHECK(l != NULL && l->task == t && l->data == t->data);
    if (memcmp(t->data, "<A", 2) != 0)
        return begin_task(w, t, r);
    shared->processed++;
    return gd_result_finish(r); /* with the result of load() */
}

/* setup_args: the number to announce, if any. */
static int setup_flight(struct gd_worker *w, const struct gd_setup *s)
{
    pthread_t thread;
    setup(w, s);
    for (int i = 0; i < ENGINE_THREADS; i++)
        if (pthread_create(&thread, NULL, run_engine, NULL) != 0)
            return gd_worker_error(w, "no thread");
    CHECK_EQ(gd_worker_set_concurrency(w, 0), GD_E_INVALID);
    if (s->args_size == 0)
        return 0;
    char text[16] = "";
    memcpy(text, s->args, s->args_size < sizeof text ? s->args_size : sizeof text - 1);
    const int n = gd_worker_set_concurrency(w, (unsigned)atoi(text));
    return n > 0 ? 0 : n;
}

TEST_UNUSED static void be_flight_worker(int argc, char **argv)
{
    static const struct gd_worker_ops ops = { .size = sizeof ops,
                                              .setup = setup_flight,
                                              .begin = begin_task,
                                              .cancel = cancel_task,
                                              .cleanup = cleanup },
                                      no_cancel = { .size = sizeof no_cancel,
                                                    .setup = setup_flight,
                                                    .begin = begin_task },
                                      with_load = { .size = sizeof with_load,
                                                    .setup = setup_flight,
                                                    .begin = begin_loaded,
                                                    .cancel = cancel_task,
                                                    .load = load_task,
                                                    .unload = unload_task,
                                                    .cleanup = cleanup };
    const char *name = getenv(MODE_ENV), *fd = getenv(SHARED_ENV);
    if (!name || !fd)
        exit(99);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(fd), 0);
    gd_worker_main(&argc, argv,
                   strcmp(name, "load") == 0        ? &with_load
                   : strcmp(name, "no_cancel") == 0 ? &no_cancel
                                                    : &ops);
    exit(98);
}

#endif
