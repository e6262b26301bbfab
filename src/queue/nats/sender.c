/* Sends messages: see sender.h. */
#include "queue/nats/sender.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>

/* ---- messages that were sent ---- */

void gd__nats_spent_destroy(struct gd__nats_spent *s, const struct gd__nats *n)
{
    for (size_t i = 0; i < s->n; i++)
        n->message_destroy(s->messages[i]);
    s->n = s->bytes = 0;
}

void gd__nats_spent_add(struct gd__nats_spent *s, gd__nats_msg *message, size_t bytes, struct gd__nats_spent *full)
{
    s->messages[s->n++] = message;
    s->bytes += bytes;
    full->n = 0;
    if (s->n < GD__NATS_SPENT_MOST && s->bytes < GD__NATS_SPENT_BYTES)
        return;
    memcpy(full->messages, s->messages, s->n * sizeof(s->messages[0]));
    full->n = s->n;
    s->n = s->bytes = 0;
}

/* ---- SIGPIPE ---- */

/* libnats writes to its socket on the thread that publishes. A connection that was closed must not end the program with
 * SIGPIPE: the signal goes to the thread that writes, so it is blocked here, and removed. The threads of the link block
 * all signals, and two system calls for each message would be half of its cost there. */
static _Thread_local bool is_own_thread;

struct pipe_guard {
    sigset_t pipe_only, before;
    bool is_used;
};

void gd__nats_sender_own_thread(void)
{
    is_own_thread = true;
}

static void guard_begin(struct pipe_guard *g, const struct gd__nats_sender *s)
{
    g->is_used = !is_own_thread && !s->is_pipe_ignored;
    if (!g->is_used)
        return;
    sigemptyset(&g->pipe_only);
    sigaddset(&g->pipe_only, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &g->pipe_only, &g->before);
}

static void guard_end(const struct pipe_guard *g, bool failed)
{
    static const struct timespec at_once = { 0, 0 };
    if (!g->is_used)
        return;
    if (failed && !sigismember(&g->before, SIGPIPE))
        while (sigtimedwait(&g->pipe_only, NULL, &at_once) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &g->before, NULL);
}

/* ---- sending ---- */

/* If the program ignores SIGPIPE, as the command and Python do, nothing needs to be blocked. */
void gd__nats_sender_init(struct gd__nats_sender *s, const struct gd__nats *n)
{
    struct sigaction now;
    *s = (struct gd__nats_sender){ .n = n };
    s->is_pipe_ignored = sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
    pthread_mutex_init(&s->lock, NULL);
}

void gd__nats_sender_destroy(struct gd__nats_sender *s)
{
    gd__nats_spent_destroy(&s->sent, s->n);
    pthread_mutex_destroy(&s->lock);
}

static int publish_with_header(struct gd__nats_sender *s, const struct gd__js_message *m, const char *reply)
{
    gd__nats_msg *message = NULL;
    struct gd__nats_spent full;
    int status = s->n->message_create(&message, m->subject, reply, m->data, (int)m->size);
    if (status)
        return status;
    status = s->n->header_set(message, GD__JS_EXPECTED, m->expected);
    status = status ? status : s->n->publish_message(s->connection, message);
    pthread_mutex_lock(&s->lock);
    gd__nats_spent_add(&s->sent, message, m->size, &full);
    pthread_mutex_unlock(&s->lock);
    gd__nats_spent_destroy(&full, s->n);
    return status;
}

int gd__nats_send(struct gd__nats_sender *s, const struct gd__js_message *m, const char *reply)
{
    struct pipe_guard guard;
    if (m->size > INT_MAX)
        return GD__NATS_MAX_PAYLOAD;
    guard_begin(&guard, s);
    const int status = m->expected ? publish_with_header(s, m, reply)
                                   : s->n->publish_request(s->connection, m->subject, reply, m->data, (int)m->size);
    guard_end(&guard, status != GD__NATS_OK);
    return status;
}

int gd__nats_send_notice(struct gd__nats_sender *s, const char *subject, const char *text)
{
    struct pipe_guard guard;
    guard_begin(&guard, s);
    const int status = s->n->publish(s->connection, subject, text, (int)strlen(text));
    guard_end(&guard, status != GD__NATS_OK);
    return status;
}
