/* SPDX-License-Identifier: MIT
 *
 * A web server with a separate observer. If two views shared an observer, each would miss the events that the other has
 * read.
 *
 * The token that was made for the page is printed with its address, but only if no other user can read the message.
 * Messages often go to a log that all users of a machine can read. Otherwise the address is written to a private file,
 * and the message gives the path of that file. A token that the user gave is not printed. */
#include "cli/run/http/page.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/failure.h"
#include "binding.h"
#include "cli/run/http/token.h"
#include "cli/say.h"
#include "web/server.h"

/* Whether fd is a terminal, or a pipe or file that other users cannot read. The process that reads a pipe has made it,
 * so it runs as the user or as root. */
static bool is_private(int fd)
{
    struct stat s;
    if (isatty(fd))
        return true;
    return fstat(fd, &s) == 0 && (S_ISFIFO(s.st_mode) || S_ISREG(s.st_mode)) && (s.st_mode & 077) == 0 &&
           (s.st_uid == geteuid() || s.st_uid == 0);
}

/* Prints the address or writes it to a file. Returns 0. Returns -1 with gd__fail_text() if the address must stay
 * private and cannot be written to a file. */
static int announce_address(struct cli_page *p)
{
    const bool kept = cli_address_file_open(&p->file, web_server_link(p->server)) == 0;
    const char *url = web_server_url(p->server);
    if (is_private(STDERR_FILENO))
        cli_say("this run is shown at %s", web_server_link(p->server));
    else if (kept)
        cli_say("this run is shown at %s (cat %s prints the address with its token)", url, p->file.path);
    else
        return gd__fail("--http: the page's token is not printed, because other users may read these messages, and it "
                        "cannot be written to a file: %s. Or set GPU_DISPATCH_HTTP_TOKEN",
                        gd__fail_text());
    return 0;
}

/* A web_queue_fn. */
static void read_queue(void *dispatcher, struct web_queue *out)
{
    struct gd__queue_summary s;
    out->nodes_known = gd__dispatcher_queue_nodes(dispatcher, &s, web_queue_add, out) > 0;
    out->connected = s.connected;
    out->tasks = s.tasks;
    out->records = s.records;
    out->unpublished = s.unpublished;
}

static int open_server(struct cli_page *p, const struct cli_run *r, struct gd_dispatcher *d)
{
    struct web_options o = { .at = r->http,
                             .read = cli_watch_read,
                             .user = p->watch,
                             .queue = r->queue.url ? read_queue : NULL,
                             .queue_user = d };
    const char *from;
    if (cli_token_given(r->http_token_file, &o.token, &from) < 0 || web_server_open(&p->server, &o) < 0)
        return -1;
    if (!o.token)
        return announce_address(p);
    (void)cli_address_file_open(&p->file, web_server_url(p->server)); /* for top --page only */
    cli_say("this run is shown at %s (its token is in %s)", web_server_url(p->server), from);
    return 0;
}

int cli_page_open(struct cli_page *p, const struct cli_run *r, struct gd_dispatcher *d, const struct cli_input *input,
                  const char *job)
{
    if (!r->http)
        return 0;
    const unsigned all = GD_OBSERVED_TASKS | GD_OBSERVED_FAILURES | GD_OBSERVED_DEVICES;
    if (cli_watch_open(&p->watch, d, input, job, all) < 0)
        return -1;
    if (open_server(p, r, d) < 0)
        return -1;
    gd__dispatcher_queue_page(d, web_server_url(p->server));
    return 0;
}

void cli_page_close(struct cli_page *p)
{
    cli_address_file_close(&p->file);
    cli_watch_end(p->watch);
    web_server_close(&p->server);
    cli_watch_close(&p->watch);
}
