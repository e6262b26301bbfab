/* A push: opening, adding, finishing. See push.h for its parts. */
#include "queue/push/push.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sized.h"
#include "queue/connect.h"
#include "queue/spill.h"

enum { LAST_PATIENCE_MS = 5000 }; /* for the last requests of a push that was stopped */

/* --- opening --- */

static int read_options(struct gd_queue_push_options *out, const struct gd_queue_push_options *in)
{
    const struct gd_queue_push_options defaults = GD_QUEUE_PUSH_OPTIONS_INIT;
    *out = defaults;
    const int rc = in ? gd__sized_read(out, sizeof *out, in, "gd_queue_push_options") : 0;
    if (rc < 0)
        return rc;
    if (out->bundle > GD__QUEUE_BUNDLE_MOST)
        return gd__error(GD_E_INVALID, "a bundle of %u tasks: the most is %d", out->bundle, GD__QUEUE_BUNDLE_MOST);
    return 0;
}

/* The servers of an address, for error messages: "host:4222". */
static void name_servers(char *out, size_t room, const struct gd__queue_address *a)
{
    char first[GD__QUEUE_SERVER_TEXT_ROOM];
    const char *text = gd__queue_server_text(first, a, 0);
    const char *host = strstr(text, "://");
    (void)snprintf(out, room, "the server %s%s", host ? host + 3 : text,
                   a->n_servers > 1 ? " (or another of its cluster)" : "");
}

/* Another push may have taken the lock while this one was cut off. Then its list of tasks is out of date. */
static int before_repetitions(void *user)
{
    const struct gd_queue_push *p = user;
    return gd__push_lock_check(p->lock);
}

static int prepare(struct gd_queue_push *p, const struct gd__caller_config *config, gd__link_open_fn *open_link,
                   void *user)
{
    const struct gd__push_lock_config lock = {
        .name = p->name, .wait_ms = p->options.wait_ms, .on_wait = p->options.on_wait, .user = p->options.user
    };
    int rc = p->spill_dir ? gd__spill_check(p->spill_dir) : 0;
    if (rc == 0)
        rc = gd__caller_open(&p->caller, config, open_link, user);
    if (rc < 0)
        return rc;
    gd__call_when_published(p->caller, gd__push_count, p);
    rc = gd__push_learn_server(p);
    if (rc == 0)
        rc = gd__push_make_streams(p);
    if (rc == 0)
        rc = gd__push_lock_take(&p->lock, p->caller, &lock);
    if (rc == 0)
        gd__call_before_repetitions(p->caller, before_repetitions, p);
    if (rc == 0)
        rc = gd__push_learn_tasks(p);
    return rc == 0 ? gd__push_learn_durations(p) : rc;
}

/* Returns 0 for the usual time. */
static uint32_t find_patience(void)
{
    const char *text = getenv(GD__ENV_PATIENCE);
    return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

int gd__push_open(struct gd_queue_push **out, const struct gd_queue_options *queue,
                  const struct gd_queue_push_options *options, gd__link_open_fn *open_link, void *user)
{
    struct gd_queue_options q;
    struct gd_queue_push_options o;
    struct gd__queue_address address;
    char server[GD__QUEUE_SERVER_TEXT_ROOM + 64];
    if (!out)
        return gd__error(GD_E_INVALID, "gd_queue_push_open: out is NULL");
    *out = NULL;
    int rc = gd__queue_options_read(&q, queue);
    if (rc == 0)
        rc = gd__queue_address_parse(&address, q.url);
    if (rc == 0)
        rc = read_options(&o, options);
    if (rc != 0)
        return rc;
    struct gd_queue_push *p = gd__calloc(1, sizeof *p);
    char *spill_dir = p && q.spill_dir ? gd__strdup(q.spill_dir) : NULL;
    if (!p || (q.spill_dir && !spill_dir)) {
        gd__free(p);
        return gd__error(GD_E_NO_MEMORY, "no memory for a push");
    }
    memcpy(p->name, address.name, sizeof p->name);
    p->spill_dir = spill_dir;
    p->lease_ms = q.lease_ms;
    p->replicas = q.replicas;
    p->options = o;
    p->counts.durable = -1;
    name_servers(server, sizeof server, &address);
    rc = prepare(p,
                 &(struct gd__caller_config){
                     .server = server, .patience_ms = find_patience(), .stop_fd = o.stop_fd > 0 ? o.stop_fd : -1 },
                 open_link, user);
    if (rc < 0)
        gd_queue_push_abandon(&p);
    *out = p;
    return rc;
}

struct connecting {
    const struct gd_queue_options *queue;
    struct gd_queue_push_options o;
};

static bool pause_connecting(void *user, unsigned ms)
{
    const struct connecting *c = user;
    struct pollfd stop = { .fd = c->o.stop_fd > 0 ? c->o.stop_fd : -1, .events = POLLIN };
    return poll(&stop, 1, (int)ms) <= 0;
}

static void say_connecting(void *user, const char *line)
{
    const struct connecting *c = user;
    if (c->o.on_wait)
        c->o.on_wait(c->o.user, line);
}

static int connect_link(void *user, const struct gd__queue_listener *listener, struct gd__queue_link **out)
{
    struct connecting *c = user;
    const struct gd__queue_patience patience = { .say = say_connecting, .pause = pause_connecting, .user = user };
    return gd__queue_connect(out, NULL, c->queue, listener, &patience);
}

int gd_queue_push_open(struct gd_queue_push **out, const struct gd_queue_options *queue,
                       const struct gd_queue_push_options *o)
{
    struct connecting c = { .queue = queue };
    (void)read_options(&c.o, o); /* gd__push_open() reports errors */
    return gd__push_open(out, queue, o, connect_link, &c);
}

/* --- adding --- */

int gd_queue_push_add(struct gd_queue_push *p, const struct gd_queue_item *item)
{
    struct gd_queue_item copy = { .size = sizeof copy };
    struct gd__push_task *task;
    if (!p)
        return gd__error(GD_E_INVALID, "gd_queue_push_add: the push is NULL");
    int rc = gd__sized_read(&copy, sizeof copy, item, "gd_queue_item");
    if (rc < 0)
        return rc;
    if (p->rc < 0)
        return gd__error(p->rc, "the push has failed before");
    rc = gd__push_make_task(p, &copy, &task);
    if (rc < 0 || !task)
        return rc;
    p->rc = gd__push_enqueue(p, task);
    return p->rc;
}

int gd_queue_push_get_counts(struct gd_queue_push *p, struct gd_queue_push_counts *out)
{
    if (!p)
        return gd__error(GD_E_INVALID, "gd_queue_push_get_counts: the push is NULL");
    return gd__sized_write(out, &p->counts, sizeof p->counts, "gd_queue_push_counts");
}

/* --- ending --- */

static void free_push(struct gd_queue_push *p)
{
    gd__caller_close(&p->caller);
    gd__push_free_tasks(p);
    gd__known_free(&p->known);
    gd__queue_repeats_free(&p->repeats);
    gd__free(p->spill_dir);
    gd__free(p);
}

/* Waits for the answers to what was sent. After an error or a stop, only for a short time. */
static int confirm(struct gd_queue_push *p)
{
    int rc = p->rc;
    if (rc == 0)
        rc = gd__call_flush(p->caller);
    if (rc < 0) {
        gd__caller_set(p->caller, LAST_PATIENCE_MS, -1);
        if (p->lock)
            gd__push_lock_hurry(p->lock);
        (void)gd__call_flush(p->caller);
    } else {
        gd__caller_set(p->caller, 0, -1);
    }
    return rc;
}

/* Ends the push with its first error, and the message of that error. The lock is released last: the next push could not
 * see what arrives after that. If the server does not answer, the lock stays until it counts as dead. */
static int end(struct gd_queue_push *p, struct gd_queue_push_counts *counts)
{
    char *text = gd__strdup(gd_error_text()); /* of p->rc */
    int rc = p->rc;
    if (p->caller) {
        rc = confirm(p);
        if (rc < 0 && p->rc == 0) {
            gd__free(text);
            text = gd__strdup(gd_error_text());
        }
        const int released = gd__push_lock_release(&p->lock);
        if (rc < 0)
            (void)gd__error(rc, "%s", text ? text : "the push has failed");
        rc = rc < 0 ? rc : released;
    }
    gd__free(text);
    *counts = p->counts;
    free_push(p);
    return rc;
}

int gd_queue_push_finish(struct gd_queue_push **push, struct gd_queue_push_counts *counts)
{
    struct gd_queue_push_counts ended = { 0 };
    struct gd_queue_push *p = push ? *push : NULL;
    if (!p)
        return gd__error(GD_E_INVALID, "gd_queue_push_finish: the push is NULL");
    *push = NULL;
    if (p->rc == 0)
        p->rc = gd__push_send_rest(p);
    const int rc = end(p, &ended);
    const int written = counts ? gd__sized_write(counts, &ended, sizeof ended, "gd_queue_push_counts") : 0;
    return rc < 0 ? rc : written;
}

void gd_queue_push_abandon(struct gd_queue_push **push)
{
    struct gd_queue_push_counts unused;
    struct gd_queue_push *p = push ? *push : NULL;
    if (!p)
        return;
    *push = NULL;
    if (p->rc == 0)
        p->rc = GD_E_INTERRUPTED;
    (void)end(p, &unused);
}
