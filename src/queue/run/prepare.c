/* The first steps of a node, one after the other: the way to its server; is there such a queue, which consumers does it have, and do its nodes run
 * the same command? On the node's thread, which waits for each answer. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text/printable.h"
#include "queue/run/internal.h"

enum {
    AGAIN_MS = 500,          /* after an answer that was lost, or a server that cannot answer now */
    LOOK_AGAIN_MS = 2000,    /* for a queue that does not exist yet */
    USUAL_PAYLOAD = 1 << 20, /* if the server does not say what it accepts */
    COMMAND_SHOWN = 300,
    COMMAND_MOST = 64 << 10,
};

/* --- requests --- */

void gd__queue_run_call_answered(struct gd__queue_run *r, const struct gd__queue_answer *a)
{
    struct gd__run_call *c = &r->call;
    pthread_mutex_lock(&r->lock);
    if (a->id == c->id && a->kind == GD__ANSWER_ITEM) {
        c->items++;
        c->item_sequence = a->sequence;
        c->item_time_us = a->time_us;
    } else if (a->id == c->id && !c->is_answered) {
        c->answer = *a;
        snprintf(c->text, sizeof c->text, "%s", a->text ? a->text : "");
        c->answer.text = c->text;
        c->answer.subject = c->answer.token = NULL;
        c->answer.data = NULL;
        gd__free(c->data);
        c->data = a->data && a->size > 0 ? gd__memdup(a->data, a->size) : NULL;
        c->is_answered = true;
        pthread_cond_signal(&r->news);
    }
    pthread_mutex_unlock(&r->lock);
}

static bool is_stopped(const struct gd__queue_run *r)
{
    return r->stop || r->cancelled;
}

static int stopped(void)
{
    return gd__error(GD_E_SHUTDOWN, "the run was shut down before its queue was ready");
}

/* Sends a request and waits for its answer. */
static int call(struct gd__queue_run *r, const struct gd__queue_request *request)
{
    struct gd__queue_request q = *request;
    q.id = GD__QUEUE_RUN_ID | ++r->next_id;
    pthread_mutex_lock(&r->lock);
    r->call.id = q.id;
    r->call.is_answered = false;
    r->call.items = 0;
    pthread_mutex_unlock(&r->lock);
    int rc = gd__link_ask(r->link, &q);
    if (rc < 0)
        return gd__error(rc, "no memory for a request to the server of the queue");
    pthread_mutex_lock(&r->lock);
    while (!r->call.is_answered && !is_stopped(r))
        gd__queue_run_sleep(r, &r->news, UINT64_MAX);
    rc = r->call.is_answered ? 0 : stopped();
    pthread_mutex_unlock(&r->lock);
    return rc;
}

static int wait_ms(struct gd__queue_run *r, unsigned ms)
{
    const uint64_t until = gd__now_ns() + ms * GD__NS_PER_MS;
    pthread_mutex_lock(&r->lock);
    while (!is_stopped(r) && gd__now_ns() < until)
        gd__queue_run_sleep(r, &r->news, until);
    const bool ends = is_stopped(r);
    pthread_mutex_unlock(&r->lock);
    return ends ? stopped() : 0;
}

/* An answer that this step cannot continue with. what: "read the stream gd_NAME_t". */
static int refused(const struct gd__queue_run *r, const char *what)
{
    const struct gd__queue_answer *a = &r->call.answer;
    switch (a->kind) {
    case GD__ANSWER_DENIED:
        return gd__error(GD_E_SOURCE, "the server of the queue \"%s\" does not allow this user to %s: %s (see --creds)",
                         r->address.name, what, a->text);
    case GD__ANSWER_LOST:
        return gd__error(GD_E_SYSTEM, "the server of the queue \"%s\" does not answer: it was asked to %s",
                         r->address.name, what);
    default:
        return gd__error(GD_E_SOURCE, "the server of the queue \"%s\" could not %s%s%s", r->address.name, what,
                         a->text[0] ? ": " : "", a->text);
    }
}

/* Like call(), but asks again while the server cannot answer: for ever, if the node waits for its queue. Returns the kind of the answer, or a negative code. */
static int ask(struct gd__queue_run *r, const struct gd__queue_request *request, const char *what)
{
    const uint64_t until = gd__now_ns() + r->queue->connect_timeout_ms * GD__NS_PER_MS;
    for (;;) {
        int rc = call(r, request);
        if (rc < 0)
            return rc;
        const enum gd__queue_answer_kind kind = r->call.answer.kind;
        if (kind != GD__ANSWER_LOST && kind != GD__ANSWER_LATER)
            return kind == GD__ANSWER_OK || kind == GD__ANSWER_NONE || kind == GD__ANSWER_REFUSED ? (int)kind
                                                                                                  : refused(r, what);
        if (gd__now_ns() >= until && r->phase != GD__RUN_AWAITING)
            return refused(r, what);
        if ((rc = wait_ms(r, AGAIN_MS)) < 0)
            return rc;
    }
}

static void set_phase(struct gd__queue_run *r, enum gd__run_phase phase)
{
    pthread_mutex_lock(&r->lock);
    r->phase = phase;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

/* --- the server --- */

static void say_waiting(void *user, const char *line)
{
    gd__queue_run_say(user, "%s", line);
}

/* A node that stays whatever happens lets its run begin: so the run can be shut down, however long this takes. */
static bool pause_connecting(void *user, unsigned ms)
{
    struct gd__queue_run *r = user;
    if (r->queue->idle_exit_ms == GD_QUEUE_IDLE_NEVER)
        set_phase(r, GD__RUN_AWAITING);
    return wait_ms(r, ms) == 0;
}

static int reach_server(struct gd__queue_run *r)
{
    const struct gd__queue_listener listener = { .user = r,
                                                 .answer = gd__queue_run_answered,
                                                 .connected = gd__queue_run_connected,
                                                 .closed = gd__queue_run_closed };
    const struct gd__queue_patience patience = { .is_endless = r->queue->idle_exit_ms == GD_QUEUE_IDLE_NEVER,
                                                 .say = say_waiting,
                                                 .pause = pause_connecting,
                                                 .user = r };
    const int rc = r->connect(&r->link, r->queue, &listener, &patience);
    return rc == GD_E_INTERRUPTED ? stopped() : rc;
}

/* --- the queue --- */

/* Returns 1 if all streams exist, 0 if not, or a negative code. */
static int look_for_streams(struct gd__queue_run *r)
{
    static const enum gd__queue_kind kinds[] = { GD__QUEUE_TASK, GD__QUEUE_RECORD, GD__QUEUE_STATE };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const struct gd__queue_request q = { .ask = GD__ASK_STREAM, .stream = kinds[i] };
        const int answer = ask(r, &q, "describe its streams");
        if (answer < 0)
            return answer;
        if (answer != GD__ANSWER_OK)
            return 0;
    }
    return 1;
}

static int await_queue(struct gd__queue_run *r)
{
    int found = look_for_streams(r);
    if (found != 0)
        return found < 0 ? found : 0;
    if (r->queue->idle_exit_ms != GD_QUEUE_IDLE_NEVER)
        return gd__error(
            GD_E_SOURCE,
            "there is no queue \"%s\" on this server: push tasks to it first (gpu-dispatch push), or wait for "
            "it (--idle-exit never)",
            r->address.name);
    gd__queue_run_say(r, "there is no queue \"%s\" yet: waiting for it", r->address.name);
    set_phase(r, GD__RUN_AWAITING);
    while (found == 0) {
        const int rc = wait_ms(r, LOOK_AGAIN_MS);
        found = rc < 0 ? rc : look_for_streams(r);
    }
    return found < 0 ? found : 0;
}

/* --- consumers --- */

static uint32_t bit_of(int priority)
{
    return UINT32_C(1) << (priority - GD_PRIORITY_MIN);
}

static int create_consumer(struct gd__queue_run *r, int priority)
{
    const struct gd__queue_request q = { .ask = GD__ASK_CREATE_CONSUMER,
                                         .priority = priority,
                                         .lease_ms = r->queue->lease_ms };
    const int answer = ask(r, &q, "create a consumer");
    if (answer < 0)
        return answer;
    if (answer != GD__ANSWER_OK)
        return refused(r, "create a consumer");
    r->priorities |= bit_of(priority);
    return 0;
}

/* A push creates a consumer before it sends the first task of a priority. It may have been created with another program, or
 * removed by hand. */
static int create_missing(struct gd__queue_run *r)
{
    char filter[GD__QUEUE_SUBJECT_ROOM];
    for (int p = GD_PRIORITY_MIN; p <= GD_PRIORITY_MAX; p++) {
        if (r->priorities & bit_of(p))
            continue;
        const struct gd__queue_request q = { .ask = GD__ASK_READ,
                                             .stream = GD__QUEUE_TASK,
                                             .subject = gd__queue_priority_filter(filter, r->address.name, p),
                                             .from = 1,
                                             .most = 1,
                                             .by_leader = true };
        int rc = ask(r, &q, "read its tasks");
        if (rc > 0 && r->call.items > 0)
            rc = create_consumer(r, p);
        if (rc < 0)
            return rc;
    }
    return r->priorities == 0 ? create_consumer(r, 0) : 0;
}

/* Each consumer has the lease of the push that created it. The shortest one counts for all. */
static int learn_lease(struct gd__queue_run *r)
{
    for (int p = GD_PRIORITY_MIN; p <= GD_PRIORITY_MAX; p++) {
        if (!(r->priorities & bit_of(p)))
            continue;
        const struct gd__queue_request q = { .ask = GD__ASK_CONSUMER, .priority = p };
        const int answer = ask(r, &q, "describe a consumer");
        if (answer < 0)
            return answer;
        const uint32_t lease_ms = answer == GD__ANSWER_OK ? r->call.answer.consumer.lease_ms : 0;
        if (lease_ms > 0 && (r->lease_ms == 0 || lease_ms < r->lease_ms))
            r->lease_ms = lease_ms;
    }
    if (r->lease_ms == 0)
        r->lease_ms = r->queue->lease_ms;
    return 0;
}

static int find_consumers(struct gd__queue_run *r)
{
    const struct gd__queue_request q = { .ask = GD__ASK_PRIORITIES };
    int rc = ask(r, &q, "list its consumers");
    if (rc < 0)
        return rc;
    r->priorities = rc == GD__ANSWER_OK ? r->call.answer.priorities : 0;
    rc = create_missing(r);
    return rc < 0 ? rc : learn_lease(r);
}

/* --- the command --- */

static int another_command(const struct gd__queue_run *r)
{
    char theirs[COMMAND_SHOWN];
    (void)gd__text_line(theirs, sizeof theirs, r->call.data ? r->call.data : "", r->call.answer.size);
    return gd__error(GD_E_MISMATCH,
                     "the nodes of the queue \"%s\" run another command: %s. Run the same command here, or use another "
                     "queue (to force it: --force)",
                     r->address.name, theirs);
}

/* The first node stores its command. If two nodes begin at the same time, the server takes the first one. The leader is
 * asked: a replica may not have the command yet. */
static int compare_command(struct gd__queue_run *r)
{
    char subject[GD__QUEUE_SUBJECT_ROOM];
    gd__queue_state_text(subject, r->address.name, "command");
    const struct gd__queue_request look = {
        .ask = GD__ASK_LAST, .stream = GD__QUEUE_STATE, .subject = subject, .by_leader = true
    };
    const struct gd__queue_request store = { .ask = GD__ASK_PUBLISH,
                                             .stream = GD__QUEUE_STATE,
                                             .subject = subject,
                                             .data = r->queue->command,
                                             .size = strlen(r->queue->command),
                                             .condition = GD__IF_NONE };
    int answer = ask(r, &look, "read the command of its nodes");
    if (answer == GD__ANSWER_NONE) {
        answer = ask(r, &store, "store the command of its nodes");
        if (answer == GD__ANSWER_OK)
            return 0;
        if (answer == GD__ANSWER_REFUSED)
            answer = ask(r, &look, "read the command of its nodes");
    }
    if (answer < 0)
        return answer;
    const struct gd__queue_answer *a = &r->call.answer;
    if (answer != GD__ANSWER_OK)
        return gd__error(GD_E_SOURCE, "the command of the queue \"%s\" was removed meanwhile: begin again",
                         r->address.name);
    if (a->size == store.size && r->call.data && memcmp(r->call.data, r->queue->command, store.size) == 0)
        return 0;
    if (!r->queue->force)
        return another_command(r);
    gd__queue_run_say(r, "the nodes of the queue \"%s\" run another command, but this was forced", r->address.name);
    return 0;
}

/* Messages are never removed from a queue, so its first task tells it from every other queue with this name. */
static int identify(struct gd__queue_run *r)
{
    const struct gd__queue_request q = {
        .ask = GD__ASK_READ, .stream = GD__QUEUE_TASK, .from = 1, .most = 1, .by_leader = true
    };
    const int answer = ask(r, &q, "read its tasks");
    if (answer < 0)
        return answer;
    const uint64_t first[2] = { r->call.item_sequence, r->call.item_time_us };
    r->queue_id.is_known = r->call.items > 0 && r->call.item_time_us > 0;
    gd__key_hash(first, sizeof first, r->queue_id.bytes);
    return 0;
}

int gd__queue_run_prepare(struct gd__queue_run *r)
{
    const struct gd__queue_request q = { .ask = GD__ASK_SERVER };
    int rc = reach_server(r);
    if (rc < 0 || (rc = ask(r, &q, "describe itself")) < 0)
        return rc;
    r->server = r->call.answer.server;
    if (r->server.max_payload == 0)
        r->server.max_payload = USUAL_PAYLOAD;
    if ((rc = await_queue(r)) < 0 || (rc = find_consumers(r)) < 0 || (rc = identify(r)) < 0)
        return rc;
    if (r->queue->command && strlen(r->queue->command) > COMMAND_MOST)
        return gd__error(GD_E_TOO_LARGE, "the command is too long for a queue: write it to a script");
    return r->queue->command ? compare_command(r) : 0;
}
