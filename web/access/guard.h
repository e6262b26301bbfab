/* SPDX-License-Identifier: MIT
 *
 * Who may look. A page on this machine's own address can be asked for by every user of the machine, and by any web site
 * that the user's browser has open, through a name that the site made to mean 127.0.0.1; one on another address, by
 * anybody. So there is always a token.
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

/* What a request says of itself; NULL: nothing. */
struct web_request {
    const char *method, *host, *origin;
    const char *authorization;   /* "Bearer TOKEN" */
    unsigned n_hosts, n_origins; /* how many such headers there are */
};

/* token: the user's own, NULL: one is made at random. 0, or -1 with gd__fail_text(). */
int web_guard_init(struct web_guard *g, const struct web_address *a, const char *token);

/* 0 if it is a request that may be made here, token or not; else the HTTP status with which it is refused, and *why,
 * one line. */
unsigned web_guard_check(const struct web_guard *g, const struct web_request *r, const char **why);

/* Whether it has the token. */
bool web_guard_has_token(const struct web_guard *g, const struct web_request *r);

#endif
