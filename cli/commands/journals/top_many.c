/* SPDX-License-Identifier: MIT
 *
 * `top` of several journals: see top_many.h. The runs may be on other machines, which send no events. So the journals are
 * read again every few seconds.
 */
#include "cli/commands/journals/top_many.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/text/buffer.h"
#include "cli/commands/journals/status_many.h"
#include "tui/cells.h"
#include "tui/screen.h"
#include "tui/terminal.h"

enum { READ_MS = 2000, USUAL_WIDTH = 80, USUAL_HEIGHT = 24 };

static bool one_runs(const struct cli_journals *j)
{
    for (size_t i = 0; i < j->n_readable; i++)
        if (j->items[i].s.held)
            return true;
    return false;
}

/* The page as a text, which the caller frees. NULL: gd__fail_text() says why. */
static char *make_page(struct cli_journals *j)
{
    const struct status_many_asked asked = { .json = false };
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) {
        (void)gd__fail("out of memory");
        return NULL;
    }
    const int rc = status_many(&asked, j, out);
    if (fclose(out) != 0 || rc < 0) {
        if (rc == 0)
            (void)gd__fail("out of memory");
        free(text);
        return NULL;
    }
    return text;
}

/* Puts the first lines of the page on the screen, as many as fit. */
static void draw(struct tui_screen *screen, const char *page)
{
    struct gd__buffer lines = { 0 }, line = { 0 };
    struct tui_terminal t;
    unsigned width = USUAL_WIDTH, height = USUAL_HEIGHT;
    tui_terminal_of(&t);
    tui_size(STDOUT_FILENO, &width, &height);
    struct tui_line l = { .out = &lines, .width = width > 2 ? width - 1 : 1, .colour = t.colour, .utf8 = t.utf8 };
    for (unsigned n = 0; *page && n + 3 < height; n++) {
        const char *end = strchrnul(page, '\n');
        line.size = 0;
        gd__buffer_add(&line, page, (size_t)(end - page));
        gd__buffer_add(&line, "", 1);
        if (!line.failed)
            tui_add(&l, TUI_PLAIN, line.data);
        tui_end(&l);
        page = *end ? end + 1 : end;
    }
    tui_end(&l);
    tui_add(&l, TUI_DIM, "q leaves");
    tui_end(&l);
    tui_screen_draw(screen, &lines);
    gd__buffer_free(&lines);
    gd__buffer_free(&line);
}

/* Draws until no run uses one of the journals, or the user leaves. *last: the last page if the runs have ended. */
static int watch(struct cli_journals *j, char **last)
{
    struct tui_screen *screen = NULL;
    char *page = NULL;
    bool over = false, leaves = false;
    int rc = tui_screen_open(&screen);
    j->quiet = true;
    while (rc == 0 && !over && !leaves) {
        free(page);
        page = make_page(j);
        if (!page) {
            rc = -1;
            break;
        }
        draw(screen, page);
        over = !one_runs(j);
        if (!over)
            leaves = tui_screen_wait(screen, -1, READ_MS) == TUI_LEAVE;
    }
    tui_screen_close(&screen);
    *last = over ? page : NULL;
    if (!over)
        free(page);
    return rc;
}

static int print_json(struct cli_journals *j, bool once)
{
    const struct status_many_asked asked = { .json = true };
    for (;;) {
        if (status_many(&asked, j, stdout) < 0)
            return -1;
        if (fflush(stdout) != 0)
            return gd__fail("cannot write to standard output");
        if (once || !one_runs(j))
            return 0;
        j->quiet = true; /* what cannot be read was reported, and is in the object */
        (void)poll(NULL, 0, READ_MS);
    }
}

int top_many(const struct top_many_asked *asked, struct cli_journals *j)
{
    const struct status_many_asked text = { .json = false };
    char *last = NULL;
    if (asked->json)
        return print_json(j, asked->once);
    if (asked->once || !tui_can_draw(STDOUT_FILENO) || !isatty(STDIN_FILENO))
        return status_many(&text, j, stdout);
    const int rc = watch(j, &last);
    if (rc == 0 && last)
        fputs(last, stdout);
    free(last);
    return rc;
}
