/* SPDX-License-Identifier: MIT
 *
 * Used instead of the server in a build without libmicrohttpd. Reports that there is no web page.
 */
#include <stddef.h>

#include "base/failure.h"
#include "web/server.h"

struct web_server {
    char none;
};

bool web_server_available(void)
{
    return false;
}

int web_server_open(struct web_server **out, const struct web_options *o)
{
    (void)o;
    *out = NULL;
    return gd__fail(
        "--http: this build has no web page: install libmicrohttpd (libmicrohttpd-dev) and build again, with "
        "meson setup --wipe build");
}

const char *web_server_url(const struct web_server *s)
{
    (void)s;
    return "";
}

const char *web_server_link(const struct web_server *s)
{
    (void)s;
    return "";
}

size_t web_server_watchers(const struct web_server *s)
{
    (void)s;
    return 0;
}

void web_server_close(struct web_server **s)
{
    *s = NULL;
}
