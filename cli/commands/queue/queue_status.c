/* SPDX-License-Identifier: MIT
 *
 * The state of a queue: see queue_status.h. Besides the figures, all records are read once for the classes of failures
 * and the slowest tasks.
 */
#include "cli/commands/queue/queue_status.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/text/figures.h"
#include "base/text/json_write.h"
#include "cli/commands/journals/status_parts.h"
#include "cli/commands/queue/queue_page.h"
#include "cli/commands/queue/queue_view.h"
#include "tui/terminal.h"

enum { CLASSES = 64, CLASS_ROOM = 64, INPUT_ROOM = 512, WHOLE = 10000, USUAL_WIDTH = 100 };

/* The last class is for all that have no room of their own. */
struct class
{
    char name[CLASS_ROOM];
    uint64_t count;
};

struct slow {
    double seconds;
    uint64_t number;
    char input[INPUT_ROOM];
    size_t input_size;
    char where[CLASS_ROOM], failure[CLASS_ROOM];
};

struct records {
    struct class classes[CLASSES];
    size_t n_classes;
    struct slow slowest[STATUS_SLOWEST]; /* the slowest first */
    size_t n_slowest;
};

/* --- records ---------------------------------------------------------------------------- */

static void count_failure(struct records *s, const char *failure)
{
    size_t i = 0;
    while (i < s->n_classes && strncmp(s->classes[i].name, failure, CLASS_ROOM - 1) != 0)
        i++;
    if (i == CLASSES)
        i--;
    if (i == s->n_classes) {
        snprintf(s->classes[i].name, CLASS_ROOM, "%s", i + 1 < CLASSES ? failure : "other");
        s->n_classes++;
    }
    s->classes[i].count++;
}

static void note_slow(struct records *s, const struct gd_queue_record *r)
{
    size_t at = s->n_slowest;
    while (at > 0 && s->slowest[at - 1].seconds < r->seconds)
        at--;
    if (at == STATUS_SLOWEST)
        return;
    s->n_slowest += s->n_slowest < STATUS_SLOWEST;
    memmove(&s->slowest[at + 1], &s->slowest[at], (s->n_slowest - at - 1) * sizeof *s->slowest);
    struct slow *slow = &s->slowest[at];
    *slow = (struct slow){ .seconds = r->seconds, .number = r->number };
    const char *input = r->input_file ? r->input_file : r->input;
    const size_t size = r->input_file ? strlen(r->input_file) : r->input_size;
    slow->input_size = size < INPUT_ROOM ? size : INPUT_ROOM;
    memcpy(slow->input, input, slow->input_size);
    snprintf(slow->where, sizeof slow->where, "%.40s%s%.16s", r->host, *r->gpu ? " GPU " : "", r->gpu);
    snprintf(slow->failure, sizeof slow->failure, "%s", r->done ? "" : r->failure);
}

static int see_record(void *user, const struct gd_queue_record *r)
{
    struct records *s = user;
    if (!r->done)
        count_failure(s, r->failure);
    note_slow(s, r);
    return 0;
}

static int by_count(const void *pa, const void *pb)
{
    const struct class *a = pa, *b = pb;
    if (a->count != b->count)
        return a->count < b->count ? 1 : -1;
    return strcmp(a->name, b->name);
}

static int read_records(struct records *s, struct gd_queue_reader *r)
{
    if (gd_queue_reader_each(r, see_record, s) < 0)
        return gd__fail("%s", gd_error_text());
    qsort(s->classes, s->n_classes, sizeof *s->classes, by_count);
    return 0;
}

/* --- text --------------------------------------------------------------------------------- */

static void print_state(const struct queue_view *v)
{
    const struct gd_queue_figures *f = &v->f;
    status_print_text(stdout, v->url, strlen(v->url), PATH_MAX);
    printf(": %s", queue_view_state(v));
    if (f->nodes > 0)
        printf(", %" PRIu64 " %s", f->nodes, f->nodes == 1 ? "node" : "nodes");
    else if (!f->is_done)
        printf(", no node works on it: start one with gpu-dispatch run --queue");
    printf("%s\n", f->push_is_open ? "; a push is going on" : "");
    status_print_command(stdout, f->command);
    printf("\n");
}

static void print_counts(const struct queue_view *v)
{
    const struct gd_queue_figures *f = &v->f;
    char more[128], time[32], number[40];
    const uint64_t ended = f->done + f->failed;
    snprintf(more, sizeof more, "of %s, %.1f %%", status_grouped(number, sizeof number, f->tasks),
             f->tasks ? 100.0 * (double)f->done / (double)f->tasks : 0.0);
    status_print_count(stdout, "done", f->done, more);
    *more = '\0';
    if (f->failed)
        snprintf(more, sizeof more, "%.1f %%", 100.0 * (double)f->failed / (double)ended);
    status_print_count(stdout, "failed", f->failed, more);
    if (f->held)
        status_print_count(stdout, "held", f->held, "on nodes");
    *more = '\0';
    if (v->eta >= 0)
        snprintf(more, sizeof more, "about %s", gd__text_duration(time, sizeof time, v->eta));
    if (f->waiting)
        status_print_count(stdout, "waiting", f->waiting, more);
    if (v->rate > 0)
        printf("  %-8s %12.*f   tasks a second\n", "rate", v->rate < 100 ? 2 : 0, v->rate);
    if (ended && f->busy_seconds > 0)
        printf("  %-8s %12s   a task, on average\n", "time",
               status_task_time(time, sizeof time, f->busy_seconds / (double)ended));
}

static void print_records(const struct records *s)
{
    char number[40];
    if (s->n_classes)
        printf("\nFailures\n");
    for (size_t i = 0; i < s->n_classes && i < STATUS_MOST_CLASSES; i++) {
        printf("  %12s   ", status_grouped(number, sizeof number, s->classes[i].count));
        status_print_text(stdout, s->classes[i].name, strlen(s->classes[i].name), STATUS_WIDEST_WORD);
        printf("\n");
    }
    if (s->n_classes > STATUS_MOST_CLASSES)
        printf("  %12s   and %zu more classes\n", "", s->n_classes - STATUS_MOST_CLASSES);
    if (s->n_slowest)
        printf("\nSlowest\n");
    for (size_t i = 0; i < s->n_slowest; i++) {
        const struct slow *a = &s->slowest[i];
        status_print_slow(stdout, a->seconds, a->input, a->input_size, a->where, *a->failure ? a->failure : NULL);
    }
}

static int print_nodes(const struct queue_view *v)
{
    struct gd__buffer b = { 0 };
    struct tui_terminal t;
    struct tui_view view = { .width = USUAL_WIDTH };
    unsigned height;
    tui_terminal_of(&t);
    view.utf8 = t.utf8;
    if (tui_can_draw(STDOUT_FILENO))
        tui_size(STDOUT_FILENO, &view.width, &height);
    queue_page_nodes(&b, v, &view, WHOLE);
    if (b.size > 0)
        printf("\n%.*s", (int)b.size, b.data);
    const bool failed = b.failed;
    gd__buffer_free(&b);
    return failed ? gd__fail("out of memory") : 0;
}

static int print_text(const struct queue_view *v, const struct records *s)
{
    print_state(v);
    print_counts(v);
    print_records(s);
    return print_nodes(v);
}

/* --- JSON ----------------------------------------------------------------------------------- */

static int print_json(const struct queue_view *v, const struct records *s)
{
    struct gd__buffer b = { 0 };
    gd__buffer_text(&b, "{");
    queue_view_json(&b, v);
    gd__buffer_text(&b, ",\"failures\":{");
    for (size_t i = 0; i < s->n_classes; i++) {
        gd__buffer_text(&b, i ? "," : "");
        gd__json_put_string(&b, s->classes[i].name, strlen(s->classes[i].name));
        gd__buffer_format(&b, ":%" PRIu64, s->classes[i].count);
    }
    gd__buffer_text(&b, "},\"slowest\":[");
    for (size_t i = 0; i < s->n_slowest; i++) {
        const struct slow *a = &s->slowest[i];
        gd__buffer_format(&b, "%s{\"id\":%" PRIu64 ",\"input\":", i ? "," : "", a->number);
        gd__json_put_arguments(&b, a->input, a->input_size);
        gd__buffer_format(&b, ",\"seconds\":%.6f,\"where\":", a->seconds);
        gd__json_put_string(&b, a->where, strlen(a->where));
        gd__buffer_text(&b, "}");
    }
    gd__buffer_text(&b, "]}\n");
    if (!b.failed)
        fwrite(b.data, 1, b.size, stdout);
    const bool failed = b.failed;
    gd__buffer_free(&b);
    return failed ? gd__fail("out of memory") : 0;
}

/* ------------------------------------------------------------------------------------------------ */

int queue_status(const struct cli_queue *q, bool json)
{
    struct gd_queue_reader *r = NULL;
    struct queue_view v = { 0 };
    struct records *s = calloc(1, sizeof *s);
    if (!s)
        return gd__fail("out of memory");
    int rc = queue_view_open(&r, q);
    if (rc == 0)
        rc = read_records(s, r);
    if (rc == 0)
        rc = queue_view_read(&v, r, q->url);
    if (rc == 0)
        rc = json ? print_json(&v, s) : print_text(&v, s);
    if (rc == 0)
        queue_view_say_skipped(r);
    gd_queue_reader_close(&r);
    queue_view_free(&v);
    free(s);
    return rc;
}
