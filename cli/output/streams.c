/* SPDX-License-Identifier: MIT
 *
 * Standard output and standard error. One thread writes the whole stdout of a task and then its stderr, in as few
 * writes as possible, so that the output of two tasks is never mixed. A reader that goes away (`| head`) sets broken,
 * but is not reported.
 */
#include "cli/output/streams.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/file/write.h"
#include "base/text/buffer.h"
#include "base/text/figures.h"
#include "base/text/json.h"
#include "base/text/printable.h"
#include "cli/output/progress.h"
#include "cli/say.h"

struct text {
    const char *data;
    size_t size;
};

struct cli_streams {
    struct cli_streams_options o;
    bool broken;
    bool out_shown, err_shown;         /* whether out and err are terminals */
    bool line_open;                    /* the last line on the terminal has no newline */
    struct gd__buffer plain, out, err; /* buffers for a task: the result as a line; output that was changed */
    struct text out_text, err_text;    /* the text to write */
    struct gd__buffer prefix;          /* --tag: the prefix for this task */
};

int cli_streams_open(struct cli_streams **out, const struct cli_streams_options *options)
{
    struct cli_streams *o = calloc(1, sizeof *o);
    if (!o)
        return gd__fail("out of memory");
    o->o = *options;
    if (o->o.out == 0 && o->o.err == 0) {
        o->o.out = STDOUT_FILENO;
        o->o.err = STDERR_FILENO;
    }
    o->out_shown = isatty(o->o.out);
    o->err_shown = isatty(o->o.err);
    *out = o;
    return 0;
}

static struct text text_of(const struct gd__buffer *b)
{
    return (struct text){ b->data, b->size };
}

/* Makes the prefix: the arguments, separated by spaces, and a TAB. For a terminal, characters that it would act on are
 * replaced. */
static void make_prefix(struct cli_streams *o, const struct gd_report *r, bool shown)
{
    o->prefix.size = 0;
    gd__buffer_add(&o->prefix, r->input, r->input_size);
    for (size_t i = 0; !o->prefix.failed && i < o->prefix.size; i++) {
        if (o->prefix.data[i] == 0)
            o->prefix.data[i] = ' ';
    }
    if (shown && !o->prefix.failed)
        gd__text_plain(o->prefix.data, o->prefix.size, true);
    gd__buffer_add(&o->prefix, "\t", 1);
}

/* The prefix goes before every line, and after a carriage return within a line, as in GNU parallel, so that a progress
 * bar keeps its tag. */
static void add_tagged(struct gd__buffer *b, const struct gd__buffer *prefix, const char *text, size_t size)
{
    while (size > 0) {
        size_t line = 0;
        while (line < size && text[line] != '\n' && text[line] != '\r')
            line++;
        line += line < size;
        gd__buffer_add(b, prefix->data, prefix->size);
        gd__buffer_add(b, text, line);
        text += line;
        size -= line;
    }
}

/* Adds the result of a plugin or a stream worker as a line. */
static void add_result(struct gd__buffer *b, const struct cli_task_end *e)
{
    if (e->kind != CLI_RESULT_JSON || !gd__json_read_string(b, e->out, e->out_size))
        gd__buffer_add(b, e->out, e->out_size);
    if (b->size == 0 || b->data[b->size - 1] != '\n')
        gd__buffer_add(b, "\n", 1);
}

enum { SHOWN_INPUT = 80 };

/* Adds the input for a message: its arguments on one line, shortened if it is long. */
static void add_input(struct gd__buffer *b, const struct gd_report *r)
{
    const char *p = r->input;
    size_t n = r->input_size < SHOWN_INPUT ? r->input_size : SHOWN_INPUT;
    while (n > 0 && n < r->input_size && (p[n] & 0xc0) == 0x80) /* not in the middle of a character */
        n--;
    gd__buffer_text(b, "\"");
    for (size_t i = 0; i < n; i++)
        gd__buffer_add(b, p[i] ? &p[i] : " ", 1);
    gd__buffer_text(b, n < r->input_size ? "...\"" : "\"");
}

/* The text before the report's error message. A command that ran and failed has printed its own message. */
static const char *const failure_texts[] = {
    [GD_FAILURE_ERROR] = "",
    [GD_FAILURE_TIMEOUT] = "timed out",
    [GD_FAILURE_CRASH] = "crashed",
    [GD_FAILURE_OUT_OF_MEMORY] = "out of memory",
    [GD_FAILURE_DEVICE_LOST] = "device lost",
};

static void add_failure(struct gd__buffer *b, const struct cli_task_end *e)
{
    const struct gd_report *r = e->report;
    size_t n = sizeof failure_texts / sizeof *failure_texts;
    const char *words = (size_t)r->failure < n && failure_texts[r->failure] ? failure_texts[r->failure] : e->status;
    char time[32];
    const size_t first = b->size;
    gd__buffer_format(b, "%s: task ", cli_name());
    add_input(b, r);
    if (*words)
        gd__buffer_format(b, ": %s", words);
    if (r->failure == GD_FAILURE_TIMEOUT)
        gd__buffer_format(b, " after %s", gd__text_duration(time, sizeof time, e->seconds));
    else if (r->error && *r->error) {
        gd__buffer_text(b, ": ");
        gd__buffer_text(b, r->error);
    }
    if (r->attempt > 1)
        gd__buffer_format(b, " (attempt %u)", r->attempt);
    if (!b->failed)
        gd__text_plain(b->data + first, b->size - first, true); /* a traceback has several lines */
    gd__buffer_text(b, "\n");
}

/* The result of a plugin or stream worker as a line; the output of a command unchanged. */
static struct text plain_out(struct cli_streams *o, const struct cli_task_end *e)
{
    if (e->kind == CLI_RESULT_COMMAND || !e->ok)
        return (struct text){ e->out, e->out_size };
    add_result(&o->plain, e);
    return text_of(&o->plain);
}

/* Sets the text to write for a task. It may point into the task's own memory. */
static void compose(struct cli_streams *o, const struct cli_task_end *e)
{
    o->plain.size = o->out.size = o->err.size = 0;
    o->out_text = o->err_text = (struct text){ "", 0 };
    if (o->o.silent)
        return;
    o->out_text = plain_out(o, e);
    o->err_text = (struct text){ e->err, e->err_size };
    if (!o->o.tag)
        return;
    make_prefix(o, e->report, o->out_shown);
    add_tagged(&o->out, &o->prefix, o->out_text.data, o->out_text.size);
    make_prefix(o, e->report, o->err_shown);
    add_tagged(&o->err, &o->prefix, o->err_text.data, o->err_text.size);
    o->out_text = text_of(&o->out);
    o->err_text = text_of(&o->err);
}

/* Adds our message after the task's own standard error. */
static void append_failure(struct cli_streams *o, const struct cli_task_end *e)
{
    if (o->err_text.data != o->err.data)
        gd__buffer_add(&o->err, o->err_text.data, o->err_text.size);
    add_failure(&o->err, e);
    o->err_text = text_of(&o->err);
}

static bool forget_if_failed(struct cli_streams *o)
{
    struct gd__buffer *all[] = { &o->plain, &o->out, &o->err, &o->prefix };
    bool failed = false;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        failed = failed || all[i]->failed;
    for (size_t i = 0; failed && i < sizeof all / sizeof *all; i++)
        gd__buffer_free(all[i]);
    return failed;
}

static int put_out(struct cli_streams *o)
{
    if (o->broken || gd__write_all(o->o.out, o->out_text.data, o->out_text.size) == 0)
        return 0;
    o->broken = true;
    return errno == EPIPE ? 0 : gd__fail("cannot write standard output: %s", strerror(errno));
}

/* A failure is ignored: there is nowhere to report it, and no reason to stop. */
static void put_err(struct cli_streams *o, const char *text, size_t size)
{
    if (o->o.err_lock)
        pthread_mutex_lock(o->o.err_lock);
    (void)gd__write_all(o->o.err, text, size);
    if (o->o.err_lock)
        pthread_mutex_unlock(o->o.err_lock);
}

/* Whether the text just written ends in the middle of a line, on a terminal that also shows our messages. */
static bool leaves_line_open(const struct cli_streams *o)
{
    const bool is_err = o->err_text.size > 0;
    const struct text *last = is_err ? &o->err_text : &o->out_text;
    return last->data[last->size - 1] != '\n' && (is_err ? o->err_shown : o->out_shown) && o->err_shown;
}

void cli_streams_end_line(struct cli_streams *o)
{
    if (o->line_open)
        put_err(o, "\n", 1);
    o->line_open = false;
}

/* A failure of all remaining tasks is reported once, by the code that ends the run. */
static bool is_reported_by_run(enum gd_failure f)
{
    return f == GD_FAILURE_CANCELLED || f == GD_FAILURE_NO_WORKER;
}

int cli_streams_add(struct cli_streams *o, const struct cli_task_end *e)
{
    if (o->broken || is_reported_by_run(e->report->failure))
        return 0;
    compose(o, e);
    if (!e->ok && !(e->ran && e->report->failure == GD_FAILURE_ERROR))
        append_failure(o, e);
    if (forget_if_failed(o))
        return gd__fail("out of memory: the output of task %llu is lost", (unsigned long long)e->report->task_id);
    const bool some_out = o->out_text.size > 0, some_err = o->err_text.size > 0;
    if (!some_out && !some_err)
        return 0;
    /* Output to a file does not disturb the terminal. */
    struct cli_progress *progress = (some_out && o->out_shown) || (some_err && o->err_shown) ? o->o.progress : NULL;
    cli_progress_pause(progress);
    const int result = put_out(o);
    if (!o->broken && some_err)
        put_err(o, o->err_text.data, o->err_text.size);
    o->line_open = leaves_line_open(o);
    if (progress) /* the progress display draws over the current line */
        cli_streams_end_line(o);
    cli_progress_resume(progress);
    return result;
}

bool cli_streams_broken(const struct cli_streams *o)
{
    return o->broken;
}

void cli_streams_close(struct cli_streams **o)
{
    if (!*o)
        return;
    gd__buffer_free(&(*o)->plain);
    gd__buffer_free(&(*o)->out);
    gd__buffer_free(&(*o)->err);
    gd__buffer_free(&(*o)->prefix);
    free(*o);
    *o = NULL;
}
