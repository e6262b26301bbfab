/* Opens a link, and checks that its server can hold a queue: see link.h. */
#include <pthread.h>
#include <stdio.h>

#include "base/error.h"
#include "queue/nats/language/jetstream.h"
#include "queue/nats/link.h"

enum { CONNECT_TIMEOUT_MS = 10000 };

/* The first request. */
struct opening {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_done;
    enum gd__queue_answer_kind kind;
    char text[GD__JS_TEXT_ROOM];
};

static void take_answer(void *user, const struct gd__queue_answer *a)
{
    struct opening *o = user;
    pthread_mutex_lock(&o->lock);
    o->kind = a->kind;
    (void)snprintf(o->text, sizeof o->text, "%s", a->text);
    o->is_done = true;
    pthread_cond_signal(&o->changed);
    pthread_mutex_unlock(&o->lock);
}

/* If the connection is lost, the request ends. */
static void take_state(void *user, bool is_connected, const char *text)
{
    (void)user, (void)is_connected, (void)text;
}

static int explain(const struct opening *o, const char *name)
{
    switch (o->kind) {
    case GD__ANSWER_OK:
        return 0;
    case GD__ANSWER_DENIED:
        return gd__error(
            GD_E_FAILED,
            "the credentials do not allow the use of a queue (%s). The user needs permission to publish to "
            "$JS.API.>, $JS.ACK.> and gd.%s.>, and to subscribe to _INBOX.>",
            o->text, name);
    case GD__ANSWER_LOST:
        return gd__error(GD_E_BUSY, "the server of the queue accepted the connection, but does not answer");
    default: /* nobody listens, or errors 10039 and 10076 */
        return gd__error(GD_E_UNSUPPORTED,
                         "JetStream, which stores queues, is not available to this account of the NATS server (%s). "
                         "Enable it in the server's configuration: jetstream, in the part of the account too",
                         o->text);
    }
}

/* Asks the server something that works only if JetStream does, in the same way as later requests. */
static int ask(struct gd__queue_link *link, struct opening *o, uint32_t timeout_ms)
{
    const int rc = gd__link_ask(link, &(struct gd__queue_request){ .ask = GD__ASK_SERVER, .timeout_ms = timeout_ms });
    pthread_mutex_lock(&o->lock);
    while (rc == 0 && !o->is_done)
        pthread_cond_wait(&o->changed, &o->lock);
    pthread_mutex_unlock(&o->lock);
    return rc;
}

int gd__nats_open(struct gd__queue_link **out, const struct gd__queue_address *a, const struct gd__nats_options *o,
                  const struct gd__queue_listener *listener)
{
    struct opening opening = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
    const struct gd__queue_listener first = { .user = &opening, .answer = take_answer, .connected = take_state };
    const uint32_t timeout_ms = o->connect_timeout_ms ? o->connect_timeout_ms : CONNECT_TIMEOUT_MS;
    struct gd__queue_link *link = NULL;
    int rc = gd__nats_link_open(&link, a, o, timeout_ms, &first);
    if (rc < 0)
        return rc;
    rc = ask(link, &opening, timeout_ms);
    gd__nats_link_listen(link, listener);
    rc = rc < 0 ? rc : explain(&opening, a->name);
    if (rc < 0)
        link->ops->close(link, 0);
    else
        *out = link;
    return rc;
}
