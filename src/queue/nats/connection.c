/* Connects to a NATS server: see connection.h. */
#include "queue/nats/connection.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text/printable.h"
#include "base/thread.h"
#include "queue/nats/access/nkey.h"
#include "queue/nats/server/durable.h"
#include "queue/nats/server/info.h"

enum {
    PING_INTERVAL_MS = 10000, /* a silent connection is lost after three pings without an answer */
    PINGS_OUT = 2,
    WRITE_DEADLINE_MS = 10000,
    TEXT = 200,
};

static bool is_set(const char *text)
{
    return text && *text;
}

/* ---- options of libnats ---- */

/* libnats keeps the secrets until the connection ends, because it needs them again to reconnect. */
static int set_credentials(const struct gd__nats *n, gd__nats_opts *opts, const struct gd__nats_options *o,
                           const char *public_key)
{
    if (is_set(o->creds))
        return n->set_creds(opts, o->creds, NULL);
    if (is_set(o->nkey))
        return n->set_nkey(opts, public_key, o->nkey);
    if (is_set(o->user))
        return n->set_user(opts, o->user, o->password);
    return is_set(o->token) ? n->set_token(opts, o->token) : GD__NATS_OK;
}

static int set_tls(const struct gd__nats *n, gd__nats_opts *opts, const struct gd__nats_options *o)
{
    int s = n->set_secure(opts, true);
    if (s == GD__NATS_OK && is_set(o->tls_ca))
        s = n->set_ca(opts, o->tls_ca);
    if (s == GD__NATS_OK && is_set(o->tls_cert))
        s = n->set_certificate(opts, o->tls_cert, o->tls_key);
    return s;
}

static int set_servers(const struct gd__nats *n, gd__nats_opts *opts, const struct gd__queue_address *a)
{
    char texts[GD__QUEUE_SERVERS_MOST][GD__QUEUE_SERVER_TEXT_ROOM];
    const char *servers[GD__QUEUE_SERVERS_MOST];
    for (size_t i = 0; i < a->n_servers; i++)
        servers[i] = gd__queue_server_text(texts[i], a, i);
    return n->set_servers(opts, servers, (int)a->n_servers);
}

static int set_options(const struct gd__nats *n, gd__nats_opts *opts, const struct gd__nats_dial *d,
                       const char *public_key)
{
    const struct gd__nats_events *e = d->events;
    int s = set_servers(n, opts, d->address);
    s = s ? s : n->set_name(opts, "gpu-dispatch");
    s = s ? s : n->set_timeout(opts, d->timeout_ms);
    s = s ? s : n->set_ping_interval(opts, PING_INTERVAL_MS);
    s = s ? s : n->set_max_pings_out(opts, PINGS_OUT);
    s = s ? s : n->set_write_deadline(opts, WRITE_DEADLINE_MS);
    s = s ? s : n->set_max_reconnect(opts, -1);
    s = s ? s : n->set_reconnect_delay(opts, e->delay, e->user);
    s = s ? s : n->on_error(opts, e->error, e->user);
    s = s ? s : n->on_closed(opts, e->closed, e->user);
    s = s ? s : n->on_lost(opts, e->lost, e->user);
    s = s ? s : n->on_back(opts, e->back, e->user);
    return s ? s : set_credentials(n, opts, d->options, public_key);
}

/* ---- errors ---- */

static int refused(const struct gd__nats_options *o)
{
    const char *kind = gd__nats_options_kind(o);
    if (!kind)
        return gd__error(GD_E_FAILED,
                         "the server of the queue requires credentials: use --creds FILE or --nkey FILE, or set "
                         "NATS_CREDS, NATS_NKEY, NATS_USER with NATS_PASSWORD, or NATS_TOKEN");
    return gd__error(GD_E_FAILED,
                     "the server of the queue does not accept %s: wrong, expired, or for another server or account",
                     kind);
}

static int tls_failed(const struct gd__nats_options *o, const char *text)
{
    return gd__error(GD_E_FAILED, "TLS with the server of the queue failed: %s%s", text,
                     is_set(o->tls_ca) ? "" : ". If its certificate is from your own authority, use --tlsca FILE");
}

static int cannot_connect(const struct gd__nats *n, const struct gd__nats_dial *d, int s)
{
    char text[TEXT];
    const char *last = n->last_error(NULL), *after = last ? strstr(last, "): ") : NULL;
    last = after ? after + 3 : last; /* after the place in the code of libnats */
    (void)gd__text_line(text, sizeof text, last ? last : "", last ? strlen(last) : 0);
    switch (s) {
    case GD__NATS_AUTH_FAILED:
        return refused(d->options);
    case GD__NATS_SSL_ERROR:
        return tls_failed(d->options, *text ? text : "the handshake was not completed");
    case GD__NATS_NO_MEMORY:
        return gd__error(GD_E_NO_MEMORY, "no memory for the connection to the queue");
    case GD__NATS_PROTOCOL_ERROR: /* also if the server closes the connection after its first line */
    case GD__NATS_IO_ERROR:
    case GD__NATS_CONNECTION_CLOSED:
    case GD__NATS_NO_SERVER:
    case GD__NATS_TIMEOUT: /* it has answered before: perhaps it restarts */
        return gd__error(GD_E_BUSY, "cannot connect to the server of the queue: %s", *text ? text : n->status_text(s));
    default:
        return gd__error(GD_E_FAILED, "cannot connect to the server of the queue: %s",
                         *text ? text : n->status_text(s));
    }
}

/* ---- which server, and with TLS? ---- */

/* Finds a server that answers, and that can hold a queue. Returns GD_E_BUSY if one of them may answer later. */
static int find_server(struct gd__nats_info *out, const struct gd__queue_server **server, const struct gd__nats_dial *d)
{
    const struct gd__queue_address *a = d->address;
    const uint64_t end_ns = gd__now_ns() + d->timeout_ms * GD__NS_PER_MS;
    int rc = GD_E_FAILED;
    bool may_pass = false;
    for (size_t i = 0; i < a->n_servers; i++) {
        const uint64_t now_ns = gd__now_ns();
        if (i > 0 && now_ns >= end_ns)
            break;
        rc = gd__nats_info_read(out, &a->servers[i], now_ns + (end_ns - now_ns) / (a->n_servers - i));
        *server = &a->servers[i];
        if (rc == 0 || rc == GD_E_UNSUPPORTED)
            return rc;
        may_pass = may_pass || rc == GD_E_BUSY;
    }
    rc = may_pass ? GD_E_BUSY : rc;
    return a->n_servers == 1 ? rc
                             : gd__error_context(rc, "none of the %zu servers can be used; the last", a->n_servers);
}

static int check_tls(const struct gd__nats_dial *d, const struct gd__nats_info *info, bool *secure)
{
    const struct gd__nats_options *o = d->options;
    *secure = d->address->tls || info->tls_required || is_set(o->tls_ca) || is_set(o->tls_cert);
    if (*secure && !info->tls_required && !info->tls_available)
        return gd__error(GD_E_FAILED, "the server of the queue has no TLS: %s, or configure TLS on the server",
                         d->address->tls ? "write nats:// instead of tls://" : "leave out --tlsca and --tlscert");
    if (info->tls_verify && !is_set(o->tls_cert))
        return gd__error(GD_E_FAILED,
                         "the server of the queue asks clients for a certificate: use --tlscert and --tlskey, "
                         "or set NATS_CERT and NATS_KEY");
    return 0;
}

/* ---- the connection ---- */

static int connect_with(gd__nats_conn **out, const struct gd__nats *n, const struct gd__nats_dial *d, bool secure,
                        const char *public_key)
{
    gd__nats_opts *opts = NULL;
    sigset_t before;
    gd__signals_block(&before); /* libnats starts threads */
    int s = n->options_create(&opts);
    s = s ? s : set_options(n, opts, d, public_key);
    if (s == GD__NATS_OK && secure) {
        s = set_tls(n, opts, d->options);
        s = s ? GD__NATS_SSL_ERROR : GD__NATS_OK;
    }
    s = s ? s : n->connect(out, opts);
    gd__signals_restore(&before);
    const int rc = s ? cannot_connect(n, d, s) : 0;
    if (opts)
        n->options_destroy(opts);
    return rc;
}

int gd__nats_connect(gd__nats_conn **out, const struct gd__nats *n, const struct gd__nats_dial *d,
                     struct gd__queue_server_facts *facts)
{
    char public_key[GD__NKEY_PUBLIC_ROOM] = "";
    const struct gd__queue_server *server = NULL;
    struct gd__nats_info info = { .max_payload = 0 };
    bool secure = false;
    *facts = (struct gd__queue_server_facts){ .durable = -1 };
    int rc = gd__nats_options_check(d->options, facts->warning, sizeof facts->warning);
    if (rc == 0 && is_set(d->options->nkey))
        rc = gd__nkey_public(public_key, n, d->options->nkey);
    rc = rc ? rc : find_server(&info, &server, d);
    rc = rc ? rc : check_tls(d, &info, &secure);
    rc = rc ? rc : connect_with(out, n, d, secure, public_key);
    if (rc < 0)
        return rc;
    memcpy(facts->version, info.version, sizeof facts->version);
    facts->max_payload = (uint64_t)n->max_payload(*out);
    facts->durable = gd__nats_durable(server, info.id);
    return 0;
}
