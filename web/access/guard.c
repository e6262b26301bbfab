/* SPDX-License-Identifier: MIT
 *
 * Decides which requests are allowed. The checks are made in this order: method, Host, Origin, token. On the loopback
 * address the Host must be one of the loopback names, with the port. Another name that resolves to this machine (DNS
 * rebinding) is refused. On any other address every name is accepted, and only the token protects the page. If an
 * Origin is sent, it must be the page's.
 *
 * The token is read only from the Authorization header. As part of the URL it would appear in the browser's history. A
 * cookie would be sent to every other port of this machine, where other users may listen.
 */
#include "web/access/guard.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/failure.h"

/* Characters without a special meaning in a URL. */
#define TOKEN_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"

static int make_token(char *token)
{
    unsigned char random[16];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return gd__fail("--http: cannot make a random token (%s): set GPU_DISPATCH_HTTP_TOKEN", strerror(errno));
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(token + 2 * i, 3, "%02x", random[i]);
    return 0;
}

int web_guard_init(struct web_guard *g, const struct web_address *a, const char *token)
{
    *g = (struct web_guard){ .address = *a };
    if (!token)
        return make_token(g->token);
    size_t length = strlen(token);
    if (length < WEB_TOKEN_SHORTEST || length > WEB_TOKEN_LONGEST || strspn(token, TOKEN_LETTERS) != length)
        return gd__fail("a token must be %d to %d letters, digits or -._~: correct the one in GPU_DISPATCH_HTTP_TOKEN "
                        "or --http-token-file, or give none to have one made at random",
                        WEB_TOKEN_SHORTEST, WEB_TOKEN_LONGEST);
    memcpy(g->token, token, length + 1);
    return 0;
}

/* Takes the same time for every given token of the right length, so that time reveals nothing. The length is not
 * secret. */
static bool same_token(const char *token, const char *given)
{
    const size_t length = strlen(token);
    unsigned char differs = strlen(given) != length;
    if (differs)
        return false;
    for (size_t i = 0; i < length; i++)
        differs |= (unsigned char)((unsigned char)token[i] ^ (unsigned char)given[i]);
    return differs == 0;
}

bool web_guard_has_token(const struct web_guard *g, const struct web_request *r)
{
    static const char bearer[] = "Bearer ";
    return r->authorization && strncasecmp(r->authorization, bearer, sizeof bearer - 1) == 0 &&
           same_token(g->token, r->authorization + sizeof bearer - 1);
}

/* True if host is "name:port" with our port, or the name alone if our port is 80. */
static bool is_host(const struct web_guard *g, const char *host, const char *name)
{
    char with_port[160];
    snprintf(with_port, sizeof with_port, "%s:%u", name, g->address.port);
    return strcasecmp(host, with_port) == 0 || (g->address.port == 80 && strcasecmp(host, name) == 0);
}

static bool good_host(const struct web_guard *g, const struct web_request *r)
{
    if (!r->host || r->n_hosts != 1)
        return false;
    return !g->address.loopback || is_host(g, r->host, "localhost") || is_host(g, r->host, "127.0.0.1") ||
           is_host(g, r->host, "[::1]") || is_host(g, r->host, g->address.host);
}

/* The origin must be http://HOST, or https://HOST if a proxy with TLS is used. */
static bool good_origin(const struct web_request *r)
{
    if (!r->origin)
        return true;
    const char *rest = strncasecmp(r->origin, "https://", 8) == 0  ? r->origin + 8
                       : strncasecmp(r->origin, "http://", 7) == 0 ? r->origin + 7
                                                                   : NULL;
    return rest && r->n_origins == 1 && strcasecmp(rest, r->host) == 0;
}

unsigned web_guard_check(const struct web_guard *g, const struct web_request *r, const char **why)
{
    *why = "only GET and HEAD are allowed: nothing can be changed here";
    if (strcmp(r->method, "GET") != 0 && strcmp(r->method, "HEAD") != 0)
        return 405;
    *why = "this host name is not allowed: use the address that gpu-dispatch printed";
    if (!good_host(g, r))
        return 403;
    *why = "requests from pages of other sites are not allowed";
    return good_origin(r) ? 0 : 403;
}
