/* SPDX-License-Identifier: MIT
 *
 * Opens libcurl. It is never closed, because other code of the process may use it too.
 */
#include "apps/transcribe/fetch/curl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/failure.h"

enum {
    WHY_ROOM = 512,
    REDIRECTS = 8,
    CONNECT_SECONDS = 30,
    QUIET_SECONDS = 60, /* a transfer that is slower than this ... */
    QUIET_BYTES = 100,  /* ... many bytes per second for so long has failed */
};

/* The first one that can be opened is used: the names of Debian's three builds, and of other systems. */
static const char *const names[] = { "libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.so" };

static const struct {
    size_t slot;
    const char *name;
} symbols[] = {
    { offsetof(struct tr_curl, global_init), "curl_global_init" },
    { offsetof(struct tr_curl, init), "curl_easy_init" },
    { offsetof(struct tr_curl, setopt), "curl_easy_setopt" },
    { offsetof(struct tr_curl, perform), "curl_easy_perform" },
    { offsetof(struct tr_curl, getinfo), "curl_easy_getinfo" },
    { offsetof(struct tr_curl, cleanup), "curl_easy_cleanup" },
    { offsetof(struct tr_curl, text), "curl_easy_strerror" },
    { offsetof(struct tr_curl, list_add), "curl_slist_append" },
    { offsetof(struct tr_curl, list_free), "curl_slist_free_all" },
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct tr_curl curl; /* constant after the first call */
static bool usable;
static char why[WHY_ROOM];

static void *open_library(void)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
        if (i == 0)
            snprintf(why, sizeof why, "%s", dlerror());
    }
    return NULL;
}

static bool find_symbols(void *library)
{
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol) {
            snprintf(why, sizeof why, "it lacks %s", symbols[i].name);
            return false;
        }
        memcpy((char *)&curl + symbols[i].slot, &symbol, sizeof symbol); /* ISO C has no such cast */
    }
    return true;
}

static void open_once(void)
{
    void *library = open_library();
    if (!library || !find_symbols(library))
        return;
    usable = curl.global_init(TR_CURL_GLOBAL_ALL) == TR_CURL_OK;
    if (!usable)
        snprintf(why, sizeof why, "it could not be initialised");
}

const struct tr_curl *tr_curl_open(void)
{
    pthread_once(&once, open_once);
    if (usable)
        return &curl;
    (void)gd__fail(
        "nothing can be fetched over HTTP, because libcurl is not usable: install Debian's libcurl4 or another build "
        "of libcurl (%s)",
        why);
    return NULL;
}

bool tr_curl_set_usual(const struct tr_curl *c, void *handle, long redirects)
{
    const struct {
        int option;
        long value;
    } numbers[] = {
        { TR_CURL_NOSIGNAL, 1 },
        { TR_CURL_NETRC, TR_CURL_NETRC_OPTIONAL },
        { TR_CURL_FOLLOWLOCATION, 1 },
        { TR_CURL_MAXREDIRS, REDIRECTS },
        { TR_CURL_PROTOCOLS, TR_CURL_HTTP_AND_HTTPS },
        { TR_CURL_REDIR_PROTOCOLS, redirects },
        { TR_CURL_CONNECTTIMEOUT, CONNECT_SECONDS },
        { TR_CURL_LOW_SPEED_LIMIT, QUIET_BYTES },
        { TR_CURL_LOW_SPEED_TIME, QUIET_SECONDS },
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (c->setopt(handle, numbers[i].option, numbers[i].value) != TR_CURL_OK)
            return false;
    }
    return c->setopt(handle, TR_CURL_USERAGENT, "gpu-dispatch") == TR_CURL_OK;
}

long tr_curl_safe_redirects(const char *address)
{
    return strncasecmp(address, "https:", 6) == 0 ? TR_CURL_HTTPS : TR_CURL_HTTP_AND_HTTPS;
}
