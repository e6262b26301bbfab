/* SPDX-License-Identifier: MIT
 *
 * The functions of libcurl that are called. The numbers are part of libcurl's binary interface, and do not change.
 */
#ifndef GD_TRANSCRIBE_FETCH_CURL_H
#define GD_TRANSCRIBE_FETCH_CURL_H

#include <stdbool.h>

enum tr_curl_option {
    TR_CURL_WRITEDATA = 10001,
    TR_CURL_URL = 10002,
    TR_CURL_RANGE = 10007,
    TR_CURL_ERRORBUFFER = 10010,
    TR_CURL_USERAGENT = 10018,
    TR_CURL_HTTPHEADER = 10023,
    TR_CURL_HEADERDATA = 10029,
    TR_CURL_WRITEFUNCTION = 20011,
    TR_CURL_HEADERFUNCTION = 20079,
    TR_CURL_LOW_SPEED_LIMIT = 19,
    TR_CURL_LOW_SPEED_TIME = 20,
    TR_CURL_NETRC = 51,
    TR_CURL_FOLLOWLOCATION = 52,
    TR_CURL_MAXREDIRS = 68,
    TR_CURL_CONNECTTIMEOUT = 78,
    TR_CURL_NOSIGNAL = 99,
    TR_CURL_PROTOCOLS = 181,
    TR_CURL_REDIR_PROTOCOLS = 182,
};

enum {
    TR_CURL_GLOBAL_ALL = 3,
    TR_CURL_ERROR_SIZE = 256,
    TR_CURL_HTTPS = 2,
    TR_CURL_HTTP_AND_HTTPS = 3,
    TR_CURL_NETRC_OPTIONAL = 1,
    TR_CURL_RESPONSE_CODE = 0x200002,
    /* results */
    TR_CURL_OK = 0,
    TR_CURL_UNSUPPORTED_PROTOCOL = 1,
    TR_CURL_URL_MALFORMAT = 3,
    TR_CURL_WRITE_ERROR = 23,
};

struct tr_curl {
    int (*global_init)(long flags);
    void *(*init)(void);
    int (*setopt)(void *handle, int option, ...);
    int (*perform)(void *handle);
    int (*getinfo)(void *handle, int info, ...);
    void (*cleanup)(void *handle);
    const char *(*text)(int result);
    void *(*list_add)(void *list, const char *text);
    void (*list_free)(void *list);
};

/* Opens libcurl once. Returns NULL with gd__fail_text() if that is not possible. May be called on any thread. */
const struct tr_curl *tr_curl_open(void);

/* Sets the options that all transfers share: protocols, timeouts, passwords from ~/.netrc. redirects: the protocols that a
 * redirection may lead to. Returns false if libcurl refuses one. */
bool tr_curl_set_usual(const struct tr_curl *c, void *handle, long redirects);

/* The protocols that a redirection from this address may lead to: from HTTPS only to HTTPS. */
long tr_curl_safe_redirects(const char *address);

#endif
