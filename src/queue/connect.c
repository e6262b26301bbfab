/* Connects to the server of a queue: see connect.h. */
#include "queue/connect.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/sized.h"
#include "queue/nats/library.h"
#include "queue/nats/link.h"

enum {
    FIRST_DELAY_MS = 100,
    LAST_DELAY_MS = 2000,
    LEAST_ATTEMPT_MS = 1000, /* the last attempt may end so much after the end of the time */
};

bool gd_queue_available(void)
{
    return gd__nats_library() != NULL;
}

int gd__queue_options_read(struct gd_queue_options *out, const struct gd_queue_options *in)
{
    static const struct gd_queue_options defaults = GD_QUEUE_OPTIONS_INIT;
    struct gd_queue_options o = defaults;
    const int rc = gd__sized_read(&o, sizeof o, in, "gd_queue_options");
    if (rc < 0)
        return rc;
    if (!o.url || !*o.url)
        return gd__error(GD_E_INVALID, "gd_queue_options.url is not set: write nats://host/NAME");
    o.connect_timeout_ms = o.connect_timeout_ms ? o.connect_timeout_ms : defaults.connect_timeout_ms;
    o.lease_ms = o.lease_ms ? o.lease_ms : defaults.lease_ms;
    o.replicas = o.replicas ? o.replicas : defaults.replicas;
    o.lost_timeout_ms = o.lost_timeout_ms ? o.lost_timeout_ms : defaults.lost_timeout_ms;
    if (o.lease_ms < GD__QUEUE_LEASE_LEAST_MS || o.lease_ms > GD__QUEUE_LEASE_MOST_MS)
        return gd__error(GD_E_INVALID, "gd_queue_options.lease_ms is %u: set it to %d to %d ms", o.lease_ms,
                         GD__QUEUE_LEASE_LEAST_MS, GD__QUEUE_LEASE_MOST_MS);
    if (o.replicas > GD__QUEUE_REPLICAS_MOST || o.replicas % 2 == 0)
        return gd__error(GD_E_INVALID, "gd_queue_options.replicas is %u: set it to 1, 3 or 5", o.replicas);
    if (o.idle_exit_ms < GD_QUEUE_IDLE_NEVER)
        return gd__error(
            GD_E_INVALID,
            "gd_queue_options.idle_exit_ms is %lld: set it to a time in ms, to 0, or to GD_QUEUE_IDLE_NEVER",
            (long long)o.idle_exit_ms);
    *out = o;
    return 0;
}

static struct gd__nats_options credentials_of(const struct gd_queue_options *o)
{
    struct gd__nats_options credentials = {
        .creds = o->creds,
        .nkey = o->nkey,
        .tls_ca = o->tls_ca,
        .tls_cert = o->tls_cert,
        .tls_key = o->tls_key,
        .connect_timeout_ms = o->connect_timeout_ms,
    };
    gd__nats_options_environment(&credentials);
    return credentials;
}

void gd__queue_find_warning(const struct gd_queue_options *o, char *out, size_t room)
{
    const struct gd__nats_options credentials = credentials_of(o);
    out[0] = '\0';
    (void)gd__nats_options_check(&credentials, out, room);
}

/* ---- a server that does not answer ---- */

struct waiting {
    const struct gd__queue_patience *patience;
    uint64_t end_ns; /* UINT64_MAX: none */
    unsigned delay_ms;
    bool has_begun;
};

static void say_waiting(const struct waiting *w, const struct gd__queue_address *a, unsigned timeout_ms)
{
    char server[GD__QUEUE_SERVER_TEXT_ROOM], line[2 * GD__QUEUE_SERVER_TEXT_ROOM];
    const char *text = gd__queue_server_text(server, a, 0), *host = strstr(text, "://");
    const int n = snprintf(line, sizeof line, "the server at %s%s does not answer yet: ", host ? host + 3 : text,
                           a->n_servers > 1 ? ", and those with it," : "");
    if (w->end_ns == UINT64_MAX)
        (void)snprintf(line + n, sizeof line - (size_t)n, "trying until it does");
    else
        (void)snprintf(line + n, sizeof line - (size_t)n, "trying for %g s", timeout_ms / 1e3);
    w->patience->say(w->patience->user, line);
}

/* Half of the delay is random, so that the nodes of a large cluster do not all come at once. */
static unsigned next_delay(struct waiting *w)
{
    uint64_t random;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random)
        random = gd__now_ns();
    const unsigned half = w->delay_ms / 2, ms = half + (unsigned)(random % (half + 1));
    w->delay_ms = w->delay_ms < LAST_DELAY_MS ? 2 * w->delay_ms : LAST_DELAY_MS;
    return ms;
}

/* The pause between two attempts to connect, for callers that have no pause of their own which can be ended early. */
static bool sleep_ms(unsigned ms)
{
    struct timespec left = { ms / 1000, (long)(ms % 1000) * (long)GD__NS_PER_MS };
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        continue;
    return true;
}

/* Returns 1 to try again, 0 if the time is over, or a negative code. */
static int await_server(struct waiting *w, const struct gd__queue_address *a, unsigned timeout_ms)
{
    const struct gd__queue_patience *p = w->patience;
    unsigned ms = next_delay(w);
    const uint64_t now_ns = gd__now_ns();
    if (now_ns >= w->end_ns)
        return 0;
    if (w->end_ns - now_ns < ms * GD__NS_PER_MS)
        ms = (unsigned)((w->end_ns - now_ns) / GD__NS_PER_MS); /* the last attempt is at the end of the time */
    if (!w->has_begun && p && p->say)
        say_waiting(w, a, timeout_ms);
    w->has_begun = true;
    if (p && p->pause ? p->pause(p->user, ms) : sleep_ms(ms))
        return 1;
    return gd__error(GD_E_INTERRUPTED, "stopped before the server of the queue has answered");
}

/* ---- connecting ---- */

/* Each attempt has the time that is left, but not so little that it could only fail. */
static unsigned time_left(const struct waiting *w, unsigned timeout_ms)
{
    const uint64_t now_ns = gd__now_ns();
    const uint64_t left_ms = w->end_ns > now_ns ? (w->end_ns - now_ns) / GD__NS_PER_MS : 0;
    if (w->end_ns == UINT64_MAX)
        return timeout_ms > LEAST_ATTEMPT_MS ? timeout_ms : LEAST_ATTEMPT_MS;
    const unsigned least = timeout_ms < LEAST_ATTEMPT_MS ? timeout_ms : LEAST_ATTEMPT_MS;
    return left_ms > timeout_ms ? timeout_ms : left_ms < least ? least : (unsigned)left_ms;
}

int gd__queue_connect(struct gd__queue_link **out, struct gd__queue_address *address,
                      const struct gd_queue_options *options, const struct gd__queue_listener *listener,
                      const struct gd__queue_patience *patience)
{
    struct gd__queue_address parsed;
    struct gd_queue_options o = { 0 };
    int rc = gd__queue_options_read(&o, options);
    rc = rc < 0 ? rc : gd__queue_address_parse(&parsed, o.url);
    if (rc < 0)
        return rc;
    struct gd__nats_options credentials = credentials_of(&o);
    const bool is_endless = patience && patience->is_endless;
    struct waiting w = { .patience = patience,
                         .end_ns = is_endless ? UINT64_MAX : gd__now_ns() + o.connect_timeout_ms * GD__NS_PER_MS,
                         .delay_ms = FIRST_DELAY_MS };
    int again;
    do {
        credentials.connect_timeout_ms = time_left(&w, o.connect_timeout_ms);
        rc = gd__nats_open(out, &parsed, &credentials, listener);
        again = rc == GD_E_BUSY ? await_server(&w, &parsed, o.connect_timeout_ms) : 0;
    } while (again > 0);
    if (rc == 0 && address)
        *address = parsed;
    return again < 0 ? again : rc == GD_E_BUSY ? GD_E_FAILED : rc;
}
