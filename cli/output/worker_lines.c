/* SPDX-License-Identifier: MIT
 *
 * Keeps an unfinished line for each worker and stream. A progress bar that a worker draws (carriage returns, no
 * newline) is held until its line ends, so that it does not disturb the view. A line that grows too long is printed as
 * it is.
 */
#include "cli/output/worker_lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/file/write.h"
#include "base/text/buffer.h"

enum { LONGEST = 65536 };

struct open_line {
    int worker_id, stream;
    struct gd__buffer text;
};

struct cli_worker_lines {
    int fds[2];
    bool shown[2]; /* whether fds are terminals */
    bool broken;
    struct cli_progress *progress;
    struct open_line *lines;
    size_t n;
};

int cli_worker_lines_open(struct cli_worker_lines **out, const int fds[2], struct cli_progress *progress)
{
    struct cli_worker_lines *p = calloc(1, sizeof *p);
    if (!p)
        return gd__fail("out of memory");
    for (int i = 0; i < 2; i++) {
        p->fds[i] = fds[i];
        p->shown[i] = isatty(fds[i]);
    }
    p->progress = progress;
    *out = p;
    return 0;
}

static void put(struct cli_worker_lines *p, int stream, const char *text, size_t size)
{
    struct cli_progress *progress = p->shown[stream - 1] ? p->progress : NULL;
    cli_progress_pause(progress);
    if (gd__write_all(p->fds[stream - 1], text, size) < 0 && stream == STDOUT_FILENO && errno == EPIPE)
        p->broken = true;
    cli_progress_resume(progress);
}

static struct open_line *line_of(struct cli_worker_lines *p, int worker_id, int stream)
{
    for (size_t i = 0; i < p->n; i++) {
        if (p->lines[i].worker_id == worker_id && p->lines[i].stream == stream)
            return &p->lines[i];
    }
    struct open_line *more = realloc(p->lines, (p->n + 1) * sizeof *more);
    if (!more)
        return NULL;
    p->lines = more;
    more[p->n] = (struct open_line){ .worker_id = worker_id, .stream = stream };
    return &more[p->n++];
}

/* Writes the first size bytes of a line. */
static void flush(struct cli_worker_lines *p, struct open_line *l, size_t size)
{
    put(p, l->stream, l->text.data, size);
    l->text.size -= size;
    memmove(l->text.data, l->text.data + size, l->text.size);
}

static void end_line(struct cli_worker_lines *p, struct open_line *l)
{
    if (l->text.size == 0)
        return;
    gd__buffer_text(&l->text, "\n");
    flush(p, l, l->text.size);
}

void cli_worker_lines_add(struct cli_worker_lines *p, int worker_id, int stream, const char *text, size_t size)
{
    struct open_line *l = p->shown[stream - 1] ? line_of(p, worker_id, stream) : NULL;
    if (p->broken && stream == STDOUT_FILENO)
        return;
    if (!l) {
        put(p, stream, text, size);
        return;
    }
    const size_t before = l->text.size;
    gd__buffer_add(&l->text, text, size);
    if (l->text.failed) { /* no memory to hold it */
        gd__buffer_free(&l->text);
        put(p, stream, text, size);
        return;
    }
    const char *last = size ? memrchr(l->text.data + before, '\n', size) : NULL;
    if (last)
        flush(p, l, (size_t)(last - l->text.data) + 1);
    if (l->text.size > LONGEST)
        end_line(p, l);
}

bool cli_worker_lines_broken(const struct cli_worker_lines *p)
{
    return p && p->broken;
}

void cli_worker_lines_close(struct cli_worker_lines **lines)
{
    struct cli_worker_lines *p = *lines;
    if (!p)
        return;
    for (size_t i = 0; i < p->n; i++) {
        end_line(p, &p->lines[i]);
        gd__buffer_free(&p->lines[i].text);
    }
    free(p->lines);
    free(p);
    *lines = NULL;
}
