/* SPDX-License-Identifier: MIT
 *
 * What a NATS server and its client library do without gpu_dispatch: the same streams, subjects and conditions as a queue
 * has, and nothing else. bench/queue/run.py compares gpu_dispatch with these figures.
 *
 *   push       publish the tasks, all answers awaited
 *   steps      fetch 100, publish their records on condition that there are none, wait for the answers, acknowledge
 *   pipelined  the same, but the next 100 are fetched at once, and each task is acknowledged when its record is stored
 *
 * usage: bench_queue_bare [-r REPEATS] [-n TASKS] [-b BYTES] nats://HOST:PORT
 */
#include <inttypes.h>
#include <nats/nats.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../line.h"

enum { MAX_REPEATS = 101, FETCH = 100, IN_FLIGHT = 4096, WAIT_MS = 60000, SUBJECT_ROOM = 96, BYTES_MOST = 1 << 16 };

static const char *url;
static int repeats = 5;
static uint64_t n_tasks = 50000;
static size_t task_size = 100;

/* Tasks whose records are on their way. One connection and one stream: the answers come in the order of the records. */
static struct {
    pthread_mutex_t lock;
    natsMsg *tasks[IN_FLIGHT + FETCH];
    uint64_t put, taken, refused;
    bool acknowledge; /* when the answer comes */
} in_flight = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void check(natsStatus s, const char *what)
{
    if (s == NATS_OK)
        return;
    fprintf(stderr, "bench_queue_bare: %s: %s (%s)\n", what, natsStatus_GetText(s), nats_GetLastError(NULL));
    exit(1);
}

/* --- the queue on the server --- */

static natsConnection *connection;
static jsCtx *js;

/* A request of the JSON API. Returns the number behind "field": in its answer, or -1. */
static int64_t ask(const char *subject, const char *body, const char *field)
{
    natsMsg *answer = NULL;
    check(natsConnection_RequestString(&answer, connection, subject, body, WAIT_MS), subject);
    const char *text = natsMsg_GetData(answer);
    if (strstr(text, "\"error\"") && !strstr(subject, "DELETE")) {
        fprintf(stderr, "bench_queue_bare: %s: %s\n", subject, text);
        exit(1);
    }
    const char *at = field ? strstr(text, field) : NULL;
    const int64_t number = at ? strtoll(at + strlen(field), NULL, 10) : -1;
    natsMsg_Destroy(answer);
    return number;
}

static void make_stream(char kind)
{
    char subject[SUBJECT_ROOM], body[512];
    snprintf(subject, sizeof subject, "$JS.API.STREAM.DELETE.gd_bare_%c", kind);
    ask(subject, "", NULL);
    snprintf(subject, sizeof subject, "$JS.API.STREAM.CREATE.gd_bare_%c", kind);
    snprintf(body, sizeof body,
             "{\"name\":\"gd_bare_%c\",\"subjects\":[\"gd.bare.%c.>\"],\"storage\":\"file\",\"retention\":\"limits\","
             "\"discard\":\"new\",\"max_msgs_per_subject\":1,\"discard_new_per_subject\":true,\"allow_direct\":true,"
             "\"num_replicas\":1}",
             kind, kind);
    ask(subject, body, NULL);
}

static void make_queue(void)
{
    make_stream('t');
    make_stream('r');
    ask("$JS.API.CONSUMER.DURABLE.CREATE.gd_bare_t.priority_0",
        "{\"stream_name\":\"gd_bare_t\",\"config\":{\"durable_name\":\"priority_0\",\"ack_policy\":\"explicit\","
        "\"ack_wait\":30000000000,\"max_deliver\":-1,\"max_ack_pending\":65536,\"max_waiting\":4096,"
        "\"filter_subject\":\"gd.bare.t.0.>\"}}",
        NULL);
}

static void must_have(char kind)
{
    char subject[SUBJECT_ROOM];
    snprintf(subject, sizeof subject, "$JS.API.STREAM.INFO.gd_bare_%c", kind);
    const int64_t found = ask(subject, "", "\"messages\":");
    if (found == (int64_t)n_tasks && in_flight.refused == 0)
        return;
    fprintf(stderr, "bench_queue_bare: %" PRId64 " messages instead of %" PRIu64 ", %" PRIu64 " refused\n", found,
            n_tasks, in_flight.refused);
    exit(1);
}

/* The answer to a publication, on a thread of the library. */
static void answered(jsCtx *context, natsMsg *message, jsPubAck *stored, jsPubAckErr *failed, void *user)
{
    (void)context, (void)stored, (void)user;
    natsMsg *task = NULL;
    pthread_mutex_lock(&in_flight.lock);
    in_flight.refused += failed != NULL;
    if (in_flight.acknowledge && in_flight.taken < in_flight.put)
        task = in_flight.tasks[in_flight.taken++ % (IN_FLIGHT + FETCH)];
    pthread_mutex_unlock(&in_flight.lock);
    natsMsg_Destroy(message);
    if (task)
        natsMsg_Ack(task, NULL);
    natsMsg_Destroy(task);
}

static void open_connection(void)
{
    natsOptions *o = NULL;
    check(natsOptions_Create(&o), "options");
    natsOptions_SetURL(o, url);
    check(natsConnection_Connect(&connection, o), url);
    natsOptions_Destroy(o);
    jsOptions jo;
    jsOptions_Init(&jo);
    jo.PublishAsync.MaxPending = IN_FLIGHT;
    jo.PublishAsync.StallWait = WAIT_MS;
    jo.PublishAsync.AckHandler = answered;
    check(natsConnection_JetStream(&js, connection, &jo), "JetStream");
}

static void await_answers(void)
{
    jsPubOptions po;
    jsPubOptions_Init(&po);
    po.MaxWait = WAIT_MS;
    check(js_PublishAsyncComplete(js, &po), "answers");
}

/* --- what is measured --- */

/* The keys look like those of a queue: 32 hexadecimal digits. */
static void publish_task(uint64_t i, const char *payload)
{
    char subject[SUBJECT_ROOM];
    const uint64_t mixed = (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    snprintf(subject, sizeof subject, "gd.bare.t.0.%016" PRIx64 "%016" PRIx64, mixed, i);
    check(js_PublishAsync(js, subject, payload, (int)task_size, NULL), "publish a task");
}

static double push(void)
{
    char payload[BYTES_MOST];
    memset(payload, 'x', task_size);
    make_queue();
    const uint64_t start = now_ns();
    for (uint64_t i = 0; i < n_tasks; i++)
        publish_task(i, payload);
    await_answers();
    const double seconds = (double)(now_ns() - start) / 1e9;
    must_have('t');
    return (double)n_tasks / seconds;
}

/* A record is about as large as that of a task without output. */
static void publish_record(natsMsg *task)
{
    char subject[SUBJECT_ROOM], record[180];
    memset(record, 'r', sizeof record);
    snprintf(subject, sizeof subject, "gd.bare.r.%s", strrchr(natsMsg_GetSubject(task), '.') + 1);
    jsPubOptions po;
    jsPubOptions_Init(&po);
    po.ExpectNoMessage = true; /* Nats-Expected-Last-Subject-Sequence: 0 */
    check(js_PublishAsync(js, subject, record, sizeof record, &po), "publish a record");
}

static void remember(natsMsg *task)
{
    pthread_mutex_lock(&in_flight.lock);
    in_flight.tasks[in_flight.put++ % (IN_FLIGHT + FETCH)] = task;
    pthread_mutex_unlock(&in_flight.lock);
}

static void record_steps(natsMsgList *list)
{
    for (int i = 0; i < list->Count; i++)
        publish_record(list->Msgs[i]);
    await_answers();
    for (int i = 0; i < list->Count; i++)
        natsMsg_Ack(list->Msgs[i], NULL);
}

static void record_pipelined(natsMsgList *list)
{
    for (int i = 0; i < list->Count; i++) {
        natsMsg *task = list->Msgs[i];
        list->Msgs[i] = NULL;
        remember(task);
        publish_record(task);
    }
}

static double work(bool pipelined)
{
    push();
    in_flight.acknowledge = pipelined;
    jsSubOptions so;
    jsSubOptions_Init(&so);
    so.Stream = "gd_bare_t";
    so.Consumer = "priority_0";
    natsSubscription *sub = NULL;
    check(js_PullSubscribe(&sub, js, NULL, "priority_0", NULL, &so, NULL), "subscribe");
    const uint64_t start = now_ns();
    for (uint64_t got = 0; got < n_tasks;) {
        natsMsgList list = { 0 };
        const natsStatus s = natsSubscription_Fetch(&list, sub, FETCH, WAIT_MS, NULL);
        if (s != NATS_TIMEOUT) /* version 3.4 may time out early (nats.c issue 631) */
            check(s, "fetch");
        got += (uint64_t)list.Count;
        if (pipelined)
            record_pipelined(&list);
        else
            record_steps(&list);
        natsMsgList_Destroy(&list);
    }
    await_answers();
    check(natsConnection_FlushTimeout(connection, WAIT_MS), "flush");
    const double seconds = (double)(now_ns() - start) / 1e9;
    in_flight.acknowledge = false;
    must_have('r');
    natsSubscription_Destroy(sub);
    return (double)n_tasks / seconds;
}

static double work_steps(void)
{
    return work(false);
}

static double work_pipelined(void)
{
    return work(true);
}

static void measure(const char *name, double (*once)(void))
{
    double values[MAX_REPEATS];
    for (int i = 0; i < repeats; i++)
        values[i] = once();
    print_line(name, "tasks/s", values, (size_t)repeats);
}

static void usage(const char *program)
{
    fprintf(stderr, "usage: %s [-r REPEATS] [-n TASKS] [-b BYTES] nats://HOST:PORT\n", program);
    exit(2);
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
            usage(argv[0]);
    }
    if (argc != optind + 1 || repeats < 1 || repeats > MAX_REPEATS || n_tasks < 1 || task_size > BYTES_MOST)
        usage(argv[0]);
    url = argv[optind];
    open_connection();
    measure("queue_bare_push", push);
    measure("queue_bare_steps", work_steps);
    measure("queue_bare_pipelined", work_pipelined);
    jsCtx_Destroy(js);
    natsConnection_Destroy(connection);
    nats_Close();
    return 0;
}
