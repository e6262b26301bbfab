/* SPDX-License-Identifier: MIT
 *
 * Reads lists of paths as a whole, because the longest file comes first and every path is checked before the run begins.
 */
#include "cli/commands/transcribe/files/file_lists.h"

#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "cli/input/lines.h"

/* The paths that were read. */
struct paths {
    char **items;
    size_t n, room;
};

static int add_path(struct paths *p, const char *list, const char *data, size_t size)
{
    if (size == 0)
        return 0;
    if (memchr(data, 0, size))
        return gd__fail("a path in %s contains a NUL: use -0 if the paths end with a NUL", list);
    if (p->n + 1 >= p->room) {
        const size_t room = p->room * 2 + 64;
        char **items = realloc(p->items, room * sizeof *items);
        if (!items)
            return gd__fail("out of memory");
        p->items = items;
        p->room = room;
    }
    p->items[p->n] = strndup(data, size);
    if (!p->items[p->n])
        return gd__fail("out of memory");
    p->items[++p->n] = NULL;
    return 0;
}

static int read_list(struct paths *p, const char *list, char delimiter)
{
    struct cli_lines *lines = NULL;
    const char *data, *shown = strcmp(list, "-") == 0 ? "standard input" : list;
    const size_t before = p->n;
    size_t size;
    int rc = cli_lines_open(&lines, list, delimiter, -1);
    while (rc == 0) {
        rc = cli_lines_next(lines, &data, &size);
        if (rc <= 0)
            break;
        rc = add_path(p, shown, data, size);
    }
    cli_lines_close(&lines);
    return rc == 0 && p->n == before ? gd__fail("%s is empty: it should have the path of a file on each line", shown)
                                     : rc;
}

static int add_inputs(struct cli_list *inputs, const struct paths *p)
{
    const char **items = realloc(inputs->items, (inputs->n + p->n + 1) * sizeof *items);
    if (!items)
        return gd__fail("out of memory");
    for (size_t i = 0; i < p->n; i++)
        items[inputs->n++] = p->items[i];
    items[inputs->n] = NULL;
    inputs->items = items;
    return 0;
}

int cli_file_lists_read(struct cli_transcribe *t)
{
    struct paths p = { 0 };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < t->arg_files.n; i++)
        rc = read_list(&p, t->arg_files.items[i], t->run.nul ? '\0' : '\n');
    t->listed = p.items; /* released with t */
    return rc < 0 || p.n == 0 ? rc : add_inputs(&t->inputs, &p);
}
