/* SPDX-License-Identifier: MIT
 *
 * The same as bench/queue/bare.c, through the link of gpu_dispatch (src/queue/nats/link.h): what the link costs.
 *
 *   push       publish the tasks on condition that there are none, all answers awaited
 *   pipelined  pull 100, publish their records on condition that there are none, and acknowledge each task when its
 *              record is stored; the next 100 are pulled at once
 *
 * usage: bench_queue_link [-r REPEATS] [-n TASKS] [-b BYTES] nats://HOST:PORT
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../line.h"
#include "base/clock.h"
#include "queue/link.h"
#include "queue/nats/link.h"

#include <gpu_dispatch/error.h>

enum { MAX_REPEATS = 101, FETCH = 100, IN_FLIGHT = 4096, ROOM = 8192, WAIT_MS = 60000, BYTES_MOST = 1 << 16 };

static int repeats = 5;
static uint64_t n_tasks = 50000;
static size_t task_size = 100;
static struct gd__queue_link *link_;
static char name[65];

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t outstanding, items, refused;
    bool ended; /* the pull */
    char tokens[ROOM][GD__QUEUE_TOKEN_ROOM];
    enum gd__queue_answer_kind last; /* of a single request */
} s = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

enum { ID_ONE = 1, ID_PULL = 2, ID_TASK = 3, ID_RECORDS = 1000 };

static void fail(const char *what)
{
    fprintf(stderr, "bench_queue_link: %s\n", what);
    exit(1);
}

static void ask(const struct gd__queue_request *r)
{
    if (gd__link_ask(link_, r) < 0)
        fail(gd_error_text());
}

/* A record is about as large as that of a task without output. */
static void publish_record(const char *task, uint64_t number)
{
    char subject[GD__QUEUE_SUBJECT_ROOM], record[180];
    memset(record, 'r', sizeof record);
    snprintf(subject, sizeof subject, "gd.%s.r.%s", name, strrchr(task, '.') + 1);
    ask(&(struct gd__queue_request){ .ask = GD__ASK_PUBLISH,
                                     .id = ID_RECORDS + number,
                                     .subject = subject,
                                     .data = record,
                                     .size = sizeof record,
                                     .timeout_ms = WAIT_MS });
}

static void on_task(const struct gd__queue_answer *a)
{
    pthread_mutex_lock(&s.lock);
    const uint64_t number = s.items++;
    memcpy(s.tokens[number % ROOM], a->token, strlen(a->token) + 1);
    s.outstanding++;
    pthread_mutex_unlock(&s.lock);
    publish_record(a->subject, number);
}

static void on_answer(void *user, const struct gd__queue_answer *a)
{
    (void)user;
    if (a->kind == GD__ANSWER_ITEM) {
        on_task(a);
        return;
    }
    if (a->id >= ID_RECORDS)
        gd__link_tell(link_, GD__TELL_ACK, s.tokens[(a->id - ID_RECORDS) % ROOM], 0);
    pthread_mutex_lock(&s.lock);
    if (a->id == ID_PULL)
        s.ended = true;
    else if (a->id == ID_ONE)
        s.last = a->kind;
    else
        s.refused += a->kind != GD__ANSWER_OK;
    s.outstanding -= a->id != ID_PULL;
    if (a->id == ID_PULL || s.outstanding == 0 || s.outstanding == IN_FLIGHT / 2)
        pthread_cond_signal(&s.changed);
    pthread_mutex_unlock(&s.lock);
}

static void on_state(void *user, bool is_connected, const char *text)
{
    (void)user;
    if (!is_connected)
        fail(text);
}

/* Counts a request, and waits if too many have no answer. */
static void begin(uint64_t most)
{
    pthread_mutex_lock(&s.lock);
    if (s.outstanding >= most)
        while (s.outstanding > most / 2)
            pthread_cond_wait(&s.changed, &s.lock);
    s.outstanding++;
    pthread_mutex_unlock(&s.lock);
}

static void await_all(void)
{
    pthread_mutex_lock(&s.lock);
    while (s.outstanding > 0)
        pthread_cond_wait(&s.changed, &s.lock);
    pthread_mutex_unlock(&s.lock);
}

static void ask_one(struct gd__queue_request r)
{
    r.id = ID_ONE;
    begin(1);
    ask(&r);
    await_all();
    if (s.last != GD__ANSWER_OK)
        fail("a request for the set-up failed");
}

static double push(void)
{
    static unsigned run;
    char payload[BYTES_MOST], subject[GD__QUEUE_SUBJECT_ROOM];
    memset(payload, 'x', task_size);
    const uint64_t salt = gd__now_ns() + run++; /* keys that are new */
    const uint64_t start = gd__now_ns();
    for (uint64_t i = 0; i < n_tasks; i++) {
        const uint64_t mixed = (i + salt) * UINT64_C(0x9E3779B97F4A7C15);
        snprintf(subject, sizeof subject, "gd.%s.t.0.%016" PRIx64 "%016" PRIx64, name, mixed, i);
        begin(IN_FLIGHT);
        ask(&(struct gd__queue_request){ .ask = GD__ASK_PUBLISH,
                                         .id = ID_TASK,
                                         .subject = subject,
                                         .data = payload,
                                         .size = task_size,
                                         .timeout_ms = WAIT_MS });
    }
    await_all();
    const double seconds = (double)(gd__now_ns() - start) / 1e9;
    if (s.refused)
        fail("tasks were refused");
    return (double)n_tasks / seconds;
}

static double work(void)
{
    push();
    s.items = 0;
    const uint64_t start = gd__now_ns();
    while (s.items < n_tasks) {
        s.ended = false;
        ask(&(struct gd__queue_request){ .ask = GD__ASK_PULL, .id = ID_PULL, .most = FETCH, .wait_ms = WAIT_MS });
        pthread_mutex_lock(&s.lock);
        while (!s.ended || s.outstanding > IN_FLIGHT)
            pthread_cond_wait(&s.changed, &s.lock);
        pthread_mutex_unlock(&s.lock);
    }
    await_all();
    const double seconds = (double)(gd__now_ns() - start) / 1e9;
    if (s.refused)
        fail("records were refused");
    return (double)n_tasks / seconds;
}

static void measure(const char *what, double (*once)(void))
{
    double values[MAX_REPEATS];
    for (int i = 0; i < repeats; i++) {
        values[i] = once();
        if (once == push) { /* the tasks are in the way of the next measurement */
            s.items = 0;
            work();
        }
    }
    print_line(what, "tasks/s", values, (size_t)repeats);
}

static void open_link(const char *url)
{
    struct gd__queue_address a;
    char text[1024];
    snprintf(name, sizeof name, "bench%" PRIu64, gd__now_ns());
    snprintf(text, sizeof text, "%s/%s", url, name);
    const struct gd__queue_listener listener = { .answer = on_answer, .connected = on_state };
    if (gd__queue_address_parse(&a, text) < 0 ||
        gd__nats_open(&link_, &a, &(struct gd__nats_options){ 0 }, &listener) < 0)
        fail(gd_error_text());
    ask_one((struct gd__queue_request){ .ask = GD__ASK_CREATE_STREAM, .stream = GD__QUEUE_TASK });
    ask_one((struct gd__queue_request){ .ask = GD__ASK_CREATE_STREAM, .stream = GD__QUEUE_RECORD });
    ask_one((struct gd__queue_request){ .ask = GD__ASK_CREATE_CONSUMER, .lease_ms = 30000 });
}

int main(int argc, char **argv)
{
    for (int c; (c = getopt(argc, argv, "r:n:b:")) != -1;) {
        if (c == 'r')
            repeats = atoi(optarg);
        else if (c == 'n')
            n_tasks = strtoull(optarg, NULL, 10);
        else if (c == 'b')
            task_size = strtoull(optarg, NULL, 10);
        else
            fail("usage: bench_queue_link [-r REPEATS] [-n TASKS] [-b BYTES] nats://HOST:PORT");
    }
    if (argc != optind + 1 || repeats < 1 || repeats > MAX_REPEATS || n_tasks < 1 || task_size > BYTES_MOST)
        fail("usage: bench_queue_link [-r REPEATS] [-n TASKS] [-b BYTES] nats://HOST:PORT");
    signal(SIGPIPE, SIG_IGN); /* as the command does */
    open_link(argv[optind]);
    measure("queue_link_push", push);
    measure("queue_link_pipelined", work);
    link_->ops->close(link_, WAIT_MS);
    return 0;
}
