/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch push`: adds tasks to a queue. The inputs are opened first, so that a missing file is reported before
 * anything is sent.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <gpu_dispatch/queue.h>

#include "base/clock.h"
#include "base/failure.h"
#include "cli/commands.h"
#include "cli/commands/push/push_options.h"
#include "cli/commands/push/push_rules.h"
#include "cli/commands/push/push_stop.h"
#include "cli/input/task_key.h"
#include "cli/run/stop/exit_status.h"
#include "cli/say.h"

enum { REDRAW_MS = 250, LINE_MS = 10000, LINE_ROOM = 160 };

struct pushing {
    const struct cli_push *asked;
    struct cli_push_stop *stop;
    struct cli_input *input; /* NULL: --retry-failed alone */
    struct cli_task_key key;
    struct gd_queue_push *push;
    struct gd_queue_push_counts counts;
    bool drawn, on_terminal;
    uint64_t next_ns; /* when the progress is shown again */
};

/* --- progress --- */

static void clear_line(struct pushing *p)
{
    if (p->drawn)
        fputs("\r\033[K", stderr);
    p->drawn = false;
}

/* A line that is redrawn on a terminal, and a line every ten seconds elsewhere. */
static void show_progress(struct pushing *p)
{
    struct gd_queue_push_counts c = { .size = sizeof c };
    const uint64_t now = gd__now_ns();
    char line[LINE_ROOM];
    if (p->asked->quiet || now < p->next_ns || gd_queue_push_get_counts(p->push, &c) < 0)
        return;
    p->next_ns = now + (p->on_terminal ? REDRAW_MS : LINE_MS) * GD__NS_PER_MS;
    (void)snprintf(line, sizeof line, "%" PRIu64 " inputs read, %" PRIu64 " tasks added, %" PRIu64 " known already",
                   p->input ? cli_input_given(p->input) : 0, c.added, c.known);
    if (!p->on_terminal) {
        cli_say("%s", line);
        return;
    }
    clear_line(p);
    fprintf(stderr, "%s: %s", cli_name(), line);
    p->drawn = true;
}

static void say_waiting(void *user, const char *message)
{
    const struct pushing *p = user;
    if (!p->asked->quiet)
        cli_say("%s", message);
}

/* --- input --- */

static int open_input(struct pushing *p)
{
    const struct cli_push *a = p->asked;
    const struct cli_input_options o = { .sources = a->sources.items,
                                         .n_sources = a->sources.n,
                                         .format = a->jsonl ? CLI_FORMAT_JSONL
                                                   : a->nul ? CLI_FORMAT_NUL
                                                            : CLI_FORMAT_LINES,
                                         .skip_blank = a->skip_blank,
                                         .shuffle = a->shuffle,
                                         .seeded = a->seeded,
                                         .seed = a->seed,
                                         .patterns = a->patterns.items,
                                         .recursive = a->recursive,
                                         .order = a->order.order };
    if (cli_task_key_open(&p->key, cli_task_key_name(a->key, a->input_dir != NULL), a->jsonl) < 0)
        return -1;
    if (a->retry_failed && a->sources.n == 0)
        return 0;
    return cli_input_open(&p->input, &o);
}

static int add_task(struct pushing *p, const struct gd_item *task)
{
    struct gd_queue_item item = { .size = sizeof item,
                                  .data = task->data,
                                  .data_size = task->size,
                                  .weight = task->weight,
                                  .priority = cli_push_priority(task, p->asked->jsonl, p->asked->priority),
                                  .timeout_ms = task->timeout_ms };
    if (cli_task_key_find(&p->key, task->data, task->size, &item.key, &item.key_size, &item.version) < 0)
        return -1;
    return gd_queue_push_add(p->push, &item) < 0 ? gd__fail("%s", gd_error_text()) : 0;
}

static int add_tasks(struct pushing *p)
{
    struct gd_item item = { 0 };
    int some = 0;
    if (p->asked->retry_failed && gd_queue_push_retry_failed(p->push) < 0)
        return gd__fail("%s", gd_error_text());
    while (p->input && (some = cli_input_take(p->input, &item)) > 0) {
        if (add_task(p, &item) < 0)
            return -1;
        show_progress(p);
    }
    return some;
}

/* --- the push --- */

static int open_push(struct pushing *p)
{
    const struct cli_push *a = p->asked;
    struct gd_queue_options q = GD_QUEUE_OPTIONS_INIT;
    struct gd_queue_push_options o = GD_QUEUE_PUSH_OPTIONS_INIT;
    cli_queue_apply(&a->queue, &q);
    q.lease_ms = a->lease_ms;
    q.replicas = a->replicas;
    cli_queue_warn(&q);
    o.bundle = a->bundle;
    o.wait_ms = a->wait_ms;
    o.on_wait = say_waiting;
    o.user = p;
    o.stop_fd = cli_push_stop_fd(p->stop);
    return gd_queue_push_open(&p->push, &q, &o) < 0 ? gd__fail("%s", gd_error_text()) : 0;
}

/* Returns 0, or -1 with gd__fail_text(). In any case the push has ended, and the counts are those of the server. */
static int push_all(struct pushing *p)
{
    char why[GD__FAIL_ROOM] = "";
    if (open_push(p) < 0)
        return -1;
    const int rc = add_tasks(p);
    const bool stopped = cli_push_stop_signal(p->stop) != 0;
    if (rc < 0)
        (void)snprintf(why, sizeof why, "%s", gd__fail_text());
    clear_line(p);
    /* After an error of the input or a signal, what was added before stays: it is sent, unless a signal has come. */
    const int ended = gd_queue_push_finish(&p->push, &p->counts);
    if (rc < 0)
        return gd__fail("%s", why);
    return ended < 0 && !stopped ? gd__fail("%s", gd_error_text()) : 0;
}

static void print_summary(const struct pushing *p)
{
    const struct gd_queue_push_counts *c = &p->counts;
    printf("%" PRIu64 " %s added, %" PRIu64 " known already, %" PRIu64 " %s", c->added,
           c->added == 1 ? "task" : "tasks", c->known, c->messages, c->messages == 1 ? "message" : "messages");
    if (c->again > 0)
        printf(", %" PRIu64 " once more after a failure", c->again);
    if (c->files > 0)
        printf(", %" PRIu64 " %s in %s", c->files, c->files == 1 ? "payload" : "payloads", p->asked->queue.spill_dir);
    printf("\n");
}

static void print_durability(const struct pushing *p)
{
    const struct gd_queue_push_counts *c = &p->counts;
    const char *of_cluster = cli_push_durability_of_cluster(p->asked->queue.url, c->durable);
    if (cli_push_says_durability(p->asked->quiet, c->added, c->durable))
        cli_say("%s", of_cluster ? of_cluster : cli_queue_durability(c->durable));
}

static int execute(struct pushing *p)
{
    if (cli_push_stop_open(&p->stop) < 0 || open_input(p) < 0) {
        cli_say("%s", gd__fail_text());
        return CLI_EXIT_ERROR;
    }
    cli_push_stop_begin(p->stop, p->input);
    p->next_ns = gd__now_ns() + (p->on_terminal ? REDRAW_MS : LINE_MS) * GD__NS_PER_MS;
    const int rc = push_all(p), number = cli_push_stop_signal(p->stop);
    if (rc < 0 && number == 0)
        cli_say("%s", gd__fail_text());
    if (!p->asked->quiet && (rc == 0 || p->counts.added > 0))
        print_summary(p);
    print_durability(p);
    if (number != 0)
        cli_say("interrupted: push the list again to add the rest");
    return number != 0 ? CLI_EXIT_SIGNAL + number : rc < 0 ? CLI_EXIT_ERROR : 0;
}

int cli_push_main(int argc, char **argv)
{
    struct cli_push asked;
    struct pushing p = { .asked = &asked, .counts.size = sizeof p.counts, .on_terminal = isatty(STDERR_FILENO) };
    int status = CLI_EXIT_ERROR;
    if (cli_push_parse(&asked, argc, argv) < 0)
        cli_say("%s", gd__fail_text());
    else if (asked.help || asked.list_options)
        (asked.help ? cli_opts_help : cli_opts_list)(&cli_push_options), status = 0;
    else
        status = execute(&p);
    cli_push_stop_close(&p.stop);
    cli_input_close(&p.input);
    cli_task_key_free(&p.key);
    cli_push_free(&asked);
    return status;
}
