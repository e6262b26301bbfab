/* SPDX-License-Identifier: MIT
 *
 * A web server over an observer of its own: what one observer has read another has not.
 *
 * Command lines can be read by all users of a machine, environments can not. A token from there is a secret: it does
 * not get into a log either.
 */
#include "page.h"

#include <stdlib.h>

#include "bytes.h"
#include "server.h"

#define TOKEN_VARIABLE "GPU_DISPATCH_HTTP_TOKEN"

static void choose_token(const struct cli_run *r, struct web_options *o)
{
    const char *secret = getenv(TOKEN_VARIABLE);
    o->token = r->http_token;
    if (!r->http_token && secret && *secret) {
        o->token = secret;
        o->named = "$" TOKEN_VARIABLE;
    }
}

int cli_page_open(struct cli_page *p, const struct cli_run *r, struct gd_dispatcher *d, const struct cli_input *input,
                  const char *job)
{
    if (!r->http)
        return 0;
    const unsigned all = GD_OBSERVED_TASKS | GD_OBSERVED_FAILURES | GD_OBSERVED_DEVICES;
    if (cli_watch_open(&p->watch, d, input, job, all) < 0)
        return -1;
    struct web_options o = { .at = r->http, .read = cli_watch_read, .user = p->watch };
    choose_token(r, &o);
    if (web_server_open(&p->server, &o) < 0)
        return -1;
    cli_say("this run is shown at %s", web_server_url(p->server));
    return 0;
}

void cli_page_close(struct cli_page *p)
{
    cli_watch_end(p->watch);
    web_server_close(&p->server);
    cli_watch_close(&p->watch);
}
