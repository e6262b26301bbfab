/* SPDX-License-Identifier: MIT
 *
 * Decides which requests are allowed. On the loopback address, every user of the machine can send a request. So can any
 * web site that is open in the user's browser, through a name that resolves to 127.0.0.1. On other addresses, other
 * machines can too. So there is always a token.
 */
#ifndef GD_WEB_ACCESS_GUARD_H
#define GD_WEB_ACCESS_GUARD_H

#include <stdbool.h>

#include "web/access/address.h"

enum { WEB_TOKEN_SHORTEST = 8, WEB_TOKEN_LONGEST = 128 };

struct web_guard {
    struct web_address address;
    char token[WEB_TOKEN_LONGEST + 1];
};

/* The headers of a request; NULL: not sent. */
struct web_request {
    const char *method, *host, *origin;
    const char *authorization;   /* "Bearer TOKEN" */
    unsigned n_hosts, n_origins; /* number of such headers */
};

/* token: chosen by the user; NULL: a random one is made. Returns 0, or -1 with gd__fail_text(). */
int web_guard_init(struct web_guard *g, const struct web_address *a, const char *token);

/* Checks everything except the token. Returns 0 if the request is allowed. Otherwise returns the HTTP status for the
 * refusal, and sets *why to one line that explains it. */
unsigned web_guard_check(const struct web_guard *g, const struct web_request *r, const char **why);

/* True if the request has the token. */
bool web_guard_has_token(const struct web_guard *g, const struct web_request *r);

#endif
