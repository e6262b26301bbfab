/* SPDX-License-Identifier: MIT
 *
 * The server uses libmicrohttpd. It has one thread, which never waits for a client. A client of /api/events that has
 * received everything is suspended and costs nothing until the feed wakes it. A timer of the library drops clients that
 * do not read.
 *
 * The run needs most descriptors itself. So the server uses at most a quarter of the descriptors that the process may
 * open, and at most 384. A third of the connections is for clients that have not sent the token yet
 * (access/connections.h). Every answer, even a refusal, has headers that forbid the browser to store it, to show it in
 * a frame, to guess its type, and to use it for another site. */
#include "web/server.h"

#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/text/buffer.h"
#include "base/thread.h"
#include "web/access/connections.h"
#include "web/access/guard.h"
#include "web/pages.h"

/* The memory of a connection is for the headers of its request and a block of the answer. */
enum { MEMORY_PER_CONNECTION = 32 << 10, BLOCK = 16 << 10, MOST_CONNECTIONS = 384, IDLE_S = 15 };

/* The time limits for a request to arrive, and for a stranger to read the answer. */
enum { REQUEST_MS = 10000, ANSWER_MS = 30000 };

/* Room for connections that were dropped but not yet closed by the library. */
enum { DROPPED = 16 };

/* At the end of a run: how long to wait for clients that do not read, and for the server's thread. */
enum { LAST_EVENT_MS = 500, BUSY_MS = 10000 };

struct web_server {
    struct MHD_Daemon *daemon;
    struct web_feed *feed;
    struct web_connections *connections;
    struct web_guard guard;
    web_queue_fn *queue; /* NULL: none */
    void *queue_user;
    char csp[512];
    char url[512];
    char link[512 + sizeof "#token=" + WEB_TOKEN_LONGEST];
};

bool web_server_available(void)
{
    return true;
}

/* --- answers ------------------------------------------------------------------------- */

static void add_headers(const struct web_server *s, struct MHD_Response *r, const char *type)
{
    const char *const headers[][2] = {
        { "Content-Type", type },
        { "Content-Security-Policy", s->csp },
        { "X-Content-Type-Options", "nosniff" },
        { "X-Frame-Options", "DENY" },
        { "Referrer-Policy", "no-referrer" },
        { "Cross-Origin-Resource-Policy", "same-origin" },
        { "Cache-Control", "no-store" },
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        (void)MHD_add_response_header(r, headers[i][0], headers[i][1]);
}

static enum MHD_Result send_response(struct MHD_Connection *c, unsigned status, struct MHD_Response *r)
{
    enum MHD_Result sent = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return sent;
}

static enum MHD_Result refuse(const struct web_server *s, struct MHD_Connection *c, unsigned status, const char *why)
{
    char text[256];
    int length = snprintf(text, sizeof text, "%u: %s\n", status, why);
    struct MHD_Response *r = MHD_create_response_from_buffer((size_t)length, text, MHD_RESPMEM_MUST_COPY);
    if (!r)
        return MHD_NO;
    add_headers(s, r, "text/plain; charset=utf-8");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        (void)MHD_add_response_header(r, "Allow", "GET, HEAD");
    if (status == MHD_HTTP_UNAUTHORIZED)
        (void)MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
    if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
        (void)MHD_add_response_header(r, "Retry-After", "5");
    return send_response(c, status, r);
}

/* Takes ownership of the bytes. */
static enum MHD_Result answer(const struct web_server *s, struct MHD_Connection *c, struct gd__buffer *b,
                              const char *type)
{
    if (b->failed || b->size == 0) {
        gd__buffer_free(b);
        return refuse(s, c, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory: try again");
    }
    struct MHD_Response *r = MHD_create_response_from_buffer(b->size, b->data, MHD_RESPMEM_MUST_FREE);
    if (!r) {
        gd__buffer_free(b);
        return MHD_NO;
    }
    add_headers(s, r, type);
    return send_response(c, MHD_HTTP_OK, r);
}

/* --- paths -------------------------------------------------------------------------------- */

static enum MHD_Result page(struct web_server *s, struct MHD_Connection *c)
{
    struct gd__buffer b = { 0 };
    gd__buffer_add(&b, web_live_page, web_live_page_size);
    return answer(s, c, &b, "text/html; charset=utf-8");
}

static enum MHD_Result stats(struct web_server *s, struct MHD_Connection *c)
{
    struct gd__buffer b = { 0 };
    web_feed_stats(s->feed, &b);
    return answer(s, c, &b, "application/json");
}

static enum MHD_Result history(struct web_server *s, struct MHD_Connection *c)
{
    struct gd__buffer b = { 0 };
    web_feed_history(s->feed, &b);
    return answer(s, c, &b, "application/json");
}

/* Adds the queue with one of the functions of live/queue.h. */
static void add_queue(const struct web_server *s, struct gd__buffer *b,
                      void (*add)(struct gd__buffer *b, const struct web_queue *q))
{
    struct web_queue q = { 0 };
    s->queue(s->queue_user, &q);
    b->failed = b->failed || q.nodes.failed;
    add(b, &q);
    web_queue_free(&q);
}

static enum MHD_Result queue(struct web_server *s, struct MHD_Connection *c)
{
    struct gd__buffer b = { 0 };
    if (s->queue)
        add_queue(s, &b, web_queue_json);
    else
        gd__buffer_text(&b, "null\n"); /* not an error, which a browser would report */
    return answer(s, c, &b, "application/json");
}

static enum MHD_Result metrics(struct web_server *s, struct MHD_Connection *c)
{
    struct gd__buffer b = { 0 };
    web_feed_metrics(s->feed, &b);
    if (s->queue)
        add_queue(s, &b, web_queue_metrics);
    return answer(s, c, &b, "text/plain; version=0.0.4; charset=utf-8");
}

/* --- events ---------------------------------------------------------------------------------- */

static void suspend(void *connection)
{
    MHD_suspend_connection(connection);
}

static void resume(void *connection)
{
    MHD_resume_connection(connection);
}

static bool socket_is(void *connection, short events)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct pollfd p = { .fd = info ? info->connect_fd : -1, .events = events };
    return poll(&p, 1, 0) > 0;
}

/* The feed calls this because the library does not watch the socket of a suspended connection. */
static bool is_gone(void *connection)
{
    return socket_is(connection, POLLRDHUP);
}

static bool is_full(void *connection)
{
    return !socket_is(connection, POLLOUT);
}

static const struct web_watch_ops ops = { .sleep = suspend, .wake = resume, .is_gone = is_gone, .is_full = is_full };

static ssize_t next_block(void *watcher, uint64_t at, char *out, size_t max)
{
    (void)at;
    ssize_t n = web_watcher_next(watcher, out, max);
    return n == -1 ? MHD_CONTENT_READER_END_OF_STREAM : n < 0 ? MHD_CONTENT_READER_END_WITH_ERROR : n;
}

static void leave(void *watcher)
{
    web_watcher_leave(watcher);
}

/* The answer to HEAD. It needs no watcher. */
static enum MHD_Result no_events(struct web_server *s, struct MHD_Connection *c)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (!r)
        return MHD_NO;
    add_headers(s, r, "text/event-stream");
    return send_response(c, MHD_HTTP_OK, r);
}

static enum MHD_Result events(struct web_server *s, struct MHD_Connection *c)
{
    struct web_watcher *w = web_feed_watch(s->feed, &ops, c);
    if (!w)
        return refuse(s, c, MHD_HTTP_SERVICE_UNAVAILABLE, "too many pages are watching this run: close one");
    struct MHD_Response *r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, next_block, w, leave);
    if (!r) {
        web_watcher_leave(w);
        return MHD_NO;
    }
    add_headers(s, r, "text/event-stream");
    return send_response(c, MHD_HTTP_OK, r);
}

/* --- requests ----------------------------------------------------------------------------------- */

static const struct path {
    const char *path;
    enum MHD_Result (*get)(struct web_server *s, struct MHD_Connection *c);
    enum MHD_Result (*head)(struct web_server *s, struct MHD_Connection *c); /* NULL: the same without its body */
    bool open;                                                               /* needs no token: the page has no data */
} paths[] = {
    { "/", page, NULL, true },
    { "/api/events", events, no_events, false },
    { "/api/history", history, NULL, false },
    { "/api/queue", queue, NULL, false },
    { "/api/stats", stats, NULL, false },
    { "/metrics", metrics, NULL, false },
};

static const struct path *find_path(const char *path)
{
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        if (strcmp(path, paths[i].path) == 0)
            return &paths[i];
    }
    return NULL;
}

static enum MHD_Result count_header(void *user, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct web_request *r = user;
    (void)kind, (void)value;
    r->n_hosts += strcasecmp(name, "Host") == 0;
    r->n_origins += strcasecmp(name, "Origin") == 0;
    return MHD_YES;
}

/* Returns "" for a value that contains a NUL. */
static const char *value_of(struct MHD_Connection *c, enum MHD_ValueKind kind, const char *name)
{
    const char *value = NULL;
    size_t size = 0;
    if (MHD_lookup_connection_value_n(c, kind, name, strlen(name), &value, &size) != MHD_YES || !value)
        return NULL;
    return strlen(value) == size ? value : "";
}

static struct web_connection *place_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* Returns 0 if the request may be answered. Otherwise returns the HTTP status, and sets *why to the reason. */
static unsigned admit(struct web_server *s, struct MHD_Connection *c, const struct web_request *r, bool open,
                      const char **why)
{
    const unsigned refused = web_guard_check(&s->guard, r, why);
    if (refused)
        return refused;
    if (!web_guard_has_token(&s->guard, r)) {
        *why = "a token is needed: use the address with the token that gpu-dispatch printed when the run started "
               "(gpu-dispatch top --page prints it again), or send \"Authorization: Bearer TOKEN\"";
        return open ? 0 : MHD_HTTP_UNAUTHORIZED;
    }
    *why = "too many connections: close a page";
    struct web_connection *place = place_of(c);
    return place && web_connections_trust(s->connections, place) ? 0 : MHD_HTTP_SERVICE_UNAVAILABLE;
}

static enum MHD_Result serve(struct web_server *s, struct MHD_Connection *c, const char *path, const char *method)
{
    struct web_request r = { .method = method,
                             .host = value_of(c, MHD_HEADER_KIND, "Host"),
                             .origin = value_of(c, MHD_HEADER_KIND, "Origin"),
                             .authorization = value_of(c, MHD_HEADER_KIND, "Authorization") };
    const struct path *p = find_path(path);
    const char *why;
    (void)MHD_get_connection_values(c, MHD_HEADER_KIND, count_header, &r);
    const unsigned refused = admit(s, c, &r, p && p->open, &why);
    if (place_of(c))
        web_connections_requested(s->connections, place_of(c));
    if (refused)
        return refuse(s, c, refused, why);
    if (!p)
        return refuse(s, c, MHD_HTTP_NOT_FOUND,
                      "not found: the paths are /, /api/stats, /api/events, /api/history, /api/queue and /metrics");
    return (p->head && strcmp(method, "HEAD") == 0 ? p->head : p->get)(s, c);
}

/* Called when the headers have arrived, for each part of a body (which is ignored), and at the end. */
static enum MHD_Result requested(void *user, struct MHD_Connection *c, const char *path, const char *method,
                                 const char *version, const char *body, size_t *body_size, void **state)
{
    static char seen;
    const bool first = *state == NULL, reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    (void)version, (void)body;
    *state = &seen;
    if (first && reads)
        return MHD_YES; /* an answer before the end of the request would close the connection */
    if (*body_size > 0) {
        *body_size = 0;
        return MHD_YES;
    }
    return serve(user, c, path, method);
}

static void completed(void *user, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode how)
{
    struct web_server *s = user;
    (void)state, (void)how;
    if (place_of(c))
        web_connections_answered(s->connections, place_of(c));
}

/* --- connections ----------------------------------------------------------------------------------- */

static struct web_connection *enter(struct web_server *s, struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *socket = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD),
                                   *from = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (!socket)
        return NULL;
    struct web_connection *place =
        web_connections_add(s->connections, socket->connect_fd, from ? from->client_addr : NULL);
    if (!place)
        (void)shutdown(socket->connect_fd, SHUT_RDWR); /* out of memory: the connection would have no time limit */
    return place;
}

/* Called by the library when a connection was opened, and before its socket is closed. */
static void came_or_left(void *user, struct MHD_Connection *c, void **place, enum MHD_ConnectionNotificationCode what)
{
    struct web_server *s = user;
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        *place = enter(s, c);
    else if (*place)
        web_connections_remove(s->connections, *place);
}

/* --- opening and closing --------------------------------------------------------------------------- */

/* Ignores the library's messages, because they are about mistakes of clients. */
static void say_nothing(void *user, const char *format, va_list args)
{
    (void)user, (void)format, (void)args;
}

static unsigned connection_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur / 4 >= MOST_CONNECTIONS)
        return MOST_CONNECTIONS;
    return limit.rlim_cur < 64 ? 16 : (unsigned)limit.rlim_cur / 4;
}

static int open_connections(struct web_server *s, unsigned limit, unsigned request_ms)
{
    const struct web_connection_limits limits = { .most_strangers = limit / 3,
                                                  .most_known = limit - limit / 3,
                                                  .request_ms = request_ms ? request_ms : REQUEST_MS,
                                                  .answer_ms = ANSWER_MS };
    return web_connections_open(&s->connections, &limits);
}

/* Blocks all signals in the library's thread, because the run must handle them. */
static struct MHD_Daemon *start_daemon(struct web_server *s, int fd, unsigned limit, unsigned idle_s)
{
    sigset_t before;
    gd__signals_block(&before);
    struct MHD_Daemon *d = MHD_start_daemon(
        MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | MHD_USE_ITC, 0, NULL, NULL,
        requested, s, MHD_OPTION_EXTERNAL_LOGGER, say_nothing, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, limit + DROPPED, MHD_OPTION_NOTIFY_CONNECTION, came_or_left, s,
        MHD_OPTION_NOTIFY_COMPLETED, completed, s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_PER_CONNECTION,
        MHD_OPTION_CONNECTION_TIMEOUT, idle_s ? idle_s : (unsigned)IDLE_S, MHD_OPTION_END);
    gd__signals_restore(&before);
    return d;
}

/* Allows the page's own script and style, by their hashes, and nothing else. */
static void make_policy(struct web_server *s)
{
    snprintf(s->csp, sizeof s->csp,
             "default-src 'none'; script-src '%s'; style-src '%s'; connect-src 'self'; base-uri 'none'; "
             "form-action 'none'; frame-ancestors 'none'",
             web_live_script_hash, web_live_style_hash);
}

int web_server_open(struct web_server **out, const struct web_options *o)
{
    struct web_address a;
    int fd = -1;
    const unsigned limit = connection_limit();
    struct web_server *s = calloc(1, sizeof *s);
    if (!s)
        return gd__fail("out of memory");
    s->queue = o->queue;
    s->queue_user = o->queue_user;
    if (web_address_parse(&a, o->at) < 0 || (fd = web_address_listen(&a)) < 0 ||
        web_guard_init(&s->guard, &a, o->token) < 0 || open_connections(s, limit, o->request_ms) < 0 ||
        web_feed_open(&s->feed, o->read, o->user) < 0)
        goto fail;
    web_address_url(&a, s->url, sizeof s->url);
    snprintf(s->link, sizeof s->link, "%s#token=%s", s->url, s->guard.token);
    make_policy(s);
    s->daemon = start_daemon(s, fd, limit, o->idle_s);
    if (!s->daemon) {
        (void)gd__fail("--http: cannot start the web server on port %u", a.port);
        goto fail;
    }
    *out = s;
    return 0;
fail:
    web_feed_close(&s->feed);
    web_connections_close(&s->connections);
    if (fd >= 0)
        close(fd);
    free(s);
    return -1;
}

const char *web_server_url(const struct web_server *s)
{
    return s->url;
}

const char *web_server_link(const struct web_server *s)
{
    return s->link;
}

size_t web_server_watchers(const struct web_server *s)
{
    return web_feed_watchers(s->feed);
}

void web_server_close(struct web_server **server)
{
    struct web_server *s = *server;
    *server = NULL;
    if (!s)
        return;
    web_feed_finish(s->feed, LAST_EVENT_MS, BUSY_MS);
    MHD_stop_daemon(s->daemon); /* closes the socket too; no connection is suspended any more */
    web_connections_close(&s->connections);
    web_feed_close(&s->feed);
    explicit_bzero(s, sizeof *s);
    free(s);
}
