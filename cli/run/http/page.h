/* SPDX-License-Identifier: MIT
 *
 * --http: the web page of a run, while it lasts.
 */
#ifndef GD_CLI_RUN_HTTP_PAGE_H
#define GD_CLI_RUN_HTTP_PAGE_H

#include "cli/run/http/address_file.h"
#include "cli/run/run_options.h"
#include "cli/run/views/watch.h"

struct web_server;

/* A zeroed struct means no page. */
struct cli_page {
    struct cli_watch *watch;
    struct web_server *server;
    struct cli_address_file file;
};

/* If --http was given, starts to serve the page and prints its address. Returns 0, or -1 with gd__fail_text(). */
int cli_page_open(struct cli_page *p, const struct cli_run *r, struct gd_dispatcher *d, const struct cli_input *input,
                  const char *job);

/* Shows viewers of the page that the run is over. Call it before the dispatcher is closed. */
void cli_page_close(struct cli_page *p);

#endif
