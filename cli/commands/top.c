/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch top`: shows runs of this user from another terminal. It draws the same panel as the run itself
 * (tui/layout.h), on the whole screen. It only reads, so it can't disturb the run.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <gpu_dispatch/journal.h>
#include <gpu_dispatch/observe.h>

#include "base/failure.h"
#include "base/file/write.h"
#include "base/text/buffer.h"
#include "base/text/json_write.h"
#include "cli/commands.h"
#include "cli/commands/journals/top_many.h"
#include "cli/commands/queue/queue_command.h"
#include "cli/commands/queue/queue_top.h"
#include "cli/options.h"
#include "cli/run/http/address_file.h"
#include "cli/run/stop/exit_status.h"
#include "cli/say.h"
#include "tui/cells.h"
#include "tui/layout.h"
#include "tui/screen.h"
#include "tui/terminal.h"
#include "view/json.h"

enum { MOST_JOBS = 256, REDRAW_MS = 100, REDRAW_IDLE_MS = 1000, WHOLE = 10000, USUAL_WIDTH = 80 };

struct asked {
    bool once, list, json, page, help, list_options;
    struct cli_queue queue;
};

#define AT(field) .offset = offsetof(struct asked, field)

static const struct cli_opt table[] = {
    { "once", 0, NULL, "print the current state once and exit", cli_set_flag, AT(once), .group = "Options" },
    { "list", 0, NULL, "list the running jobs", cli_set_flag, AT(list) },
    { "json", 0, NULL,
      "print a JSON object every second until the job ends; with --once only one, with --list an array of the jobs",
      cli_set_flag, AT(json) },
    { "page", 0, NULL, "print the addresses of the jobs' web pages (of runs with --http), each with its token",
      cli_set_flag, AT(page) },
    CLI_QUEUE_URL(struct asked, queue, "show a queue and all its machines: nats://HOST/NAME", NULL),
    CLI_QUEUE_CREDENTIALS(struct asked, queue),
    { "help", 'h', NULL, "show this help", cli_set_flag, AT(help) },
    { "list-options", 0, NULL, NULL, cli_set_flag, AT(list_options) },
    { .name = NULL },
};

static const struct cli_opts options = {
    .command = "top",
    .usage = "usage: gpu-dispatch top [OPTIONS] [PID|JOB|JOURNAL...]\n"
             "       gpu-dispatch top [OPTIONS] --queue URL\n"
             "\n"
             "Shows one of your running jobs, live: its progress, its speed, and what each GPU\n"
             "is doing or why it is idle. Name the job by its process number, its command or\n"
             "its journal. If you name no job and there is only one, that one is shown. If\n"
             "there are several, you choose one from a list.\n"
             "\n"
             "With several journals, such as those of the shards of a list, it shows what\n"
             "gpu-dispatch status shows, live, also for runs on other machines.\n"
             "\n"
             "With --queue, it shows a queue and all machines that work on it.\n"
             "\n"
             "Examples:\n"
             "  gpu-dispatch top\n"
             "  gpu-dispatch top 4711\n"
             "  gpu-dispatch top --list\n"
             "  gpu-dispatch top part.*.db\n"
             "  gpu-dispatch top --queue nats://host/NAME\n"
             "  gpu-dispatch top --once --json 4711 | jq .completed\n",
    .table = table,
    .after = "Keys: q or Ctrl-C quits; in the list, arrows or digits choose and Enter opens.\n"
             "Exit status: 0; 255 if there is no such job, or for any other error.\n"
             "More: man gpu-dispatch-top.\n",
};

/* --- the list of jobs ----------------------------------------------------------------- */

struct jobs {
    struct gd_job items[MOST_JOBS];
    size_t n;
};

static int find_jobs(struct jobs *j)
{
    const int n = gd_jobs_list(j->items, sizeof j->items[0], MOST_JOBS);
    if (n < 0)
        return gd__fail("%s", gd_error_text());
    j->n = n < MOST_JOBS ? (size_t)n : MOST_JOBS;
    return 0;
}

static double age(const struct gd_job *j)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    const double now = (double)t.tv_sec + (double)t.tv_nsec / 1e9;
    return now > j->started ? now - j->started : 0;
}

/* The progress of a job: "450 of 1,000". Returns its state if it is paused or draining, else NULL. */
static const char *show_tasks(char *out, size_t size, const struct gd_job *j)
{
    static const struct view_history none;
    struct gd_observer *o = NULL;
    const struct gd_snapshot *s = NULL;
    struct view_figures f;
    char passed[32], total[32];
    const char *state = NULL;
    snprintf(out, size, "-");
    if (gd_observer_open(&o, j->id) < 0)
        return NULL;
    if (gd_observer_select(o, 0) == 0 && gd_observer_read(o, &s) == 0) {
        struct gd_snapshot parted = *s;
        struct gd_stats stats = *s->stats;
        view_part_cancelled(&stats);
        parted.stats = &stats;
        view_figures_of(&f, &parted, &none);
        snprintf(out, size, "%s%s%s", view_show_count(passed, sizeof passed, f.passed), f.total ? " of " : "",
                 f.total ? view_show_count(total, sizeof total, f.total) : "");
        state = view_held_state(s);
    }
    gd_observer_close(&o);
    return state;
}

/* Lays out the jobs as a table. The job number `chosen` is marked; SIZE_MAX: none. */
static void lay_jobs(struct gd__buffer *out, const struct jobs *j, const struct tui_view *v, size_t chosen)
{
    struct tui_line l = { .out = out, .width = v->width - 1, .colour = v->colour, .utf8 = v->utf8 };
    const bool can_choose = chosen != SIZE_MAX;
    tui_format(&l, TUI_BOLD, "%s%-10s  %10s  %20s  %s", can_choose ? "     " : "", "Job", "Elapsed", "Tasks",
               "Command");
    tui_end(&l);
    /* If not all jobs fit, scrolls until the chosen one is visible. */
    const size_t room = v->height > 4 ? v->height - 4 : 1;
    const size_t first = can_choose && chosen >= room ? chosen - room + 1 : 0;
    for (size_t i = first; i < j->n && i < first + room; i++) {
        char tasks[80], elapsed[32];
        const char *state = show_tasks(tasks, sizeof tasks, &j->items[i]);
        const enum tui_colour colour = i == chosen ? TUI_BOLD_GREEN : TUI_PLAIN;
        if (can_choose)
            tui_format(&l, colour, "%s %2zu ", i == chosen ? ">" : " ", i + 1);
        tui_format(&l, colour, "%-10s  %10s  %20s  ", j->items[i].id,
                   view_show_clock(elapsed, sizeof elapsed, age(&j->items[i])), tasks);
        if (state)
            tui_format(&l, TUI_YELLOW, "(%s) ", state);
        tui_add(&l, colour, j->items[i].name);
        tui_end(&l);
    }
    if (v->hint) {
        tui_end(&l);
        tui_add(&l, TUI_DIM, v->hint);
        tui_end(&l);
    }
}

static void jobs_json(struct gd__buffer *out, const struct jobs *j)
{
    gd__buffer_text(out, "[");
    for (size_t i = 0; i < j->n; i++) {
        const struct gd_job *a = &j->items[i];
        gd__buffer_format(out, "%s{\"id\":\"%s\",\"pid\":%llu,\"started\":%.3f,\"name\":", i ? ",\n " : "", a->id,
                          (unsigned long long)a->pid, a->started);
        gd__json_put_string(out, a->name, strlen(a->name));
        gd__buffer_text(out, "}");
    }
    gd__buffer_text(out, "]\n");
}

/* --- printing ---------------------------------------------------------------------------- */

static void fill_view(struct tui_view *v, bool whole)
{
    struct tui_terminal t;
    const bool drawn = tui_can_draw(STDOUT_FILENO);
    *v = (struct tui_view){ .width = USUAL_WIDTH, .height = WHOLE, .last_events = true };
    tui_terminal_of(&t);
    v->colour = drawn && t.colour;
    v->utf8 = t.utf8;
    if (drawn)
        tui_size(STDOUT_FILENO, &v->width, &v->height);
    if (whole)
        v->height = WHOLE;
    v->width = v->width < 2 ? 2 : v->width;
}

/* Writes the buffer and frees it. */
static int print(struct gd__buffer *b)
{
    int rc = b->failed ? gd__fail("out of memory") : gd__write_all(STDOUT_FILENO, b->data, b->size);
    gd__buffer_free(b);
    return rc;
}

static int print_jobs(const struct jobs *j, bool json)
{
    struct gd__buffer b = { 0 };
    struct tui_view v;
    fill_view(&v, true);
    if (json)
        jobs_json(&b, j);
    else if (j->n == 0)
        gd__buffer_text(&b, "no jobs are running\n");
    else
        lay_jobs(&b, j, &v, SIZE_MAX);
    return print(&b);
}

static int print_snapshot(const struct gd_snapshot *s, struct view_history *h, bool json)
{
    struct gd__buffer b = { 0 };
    struct tui_view v;
    fill_view(&v, true);
    view_history_add(h, s);
    if (json) {
        view_json(&b, s, h);
        gd__buffer_text(&b, "\n");
    } else {
        tui_layout(&b, s, h, &v);
    }
    return print(&b);
}

/* --- watching -------------------------------------------------------------------------------- */

struct watch {
    struct gd_observer *o;
    const struct gd_snapshot *s; /* NULL before the first read, then &last_seen */
    struct gd_snapshot last_seen;
    struct gd_stats last_stats; /* the statistics of last_seen */
    struct view_history history;
    struct gd_stats last;
    bool over; /* the job has ended or was killed, and s is its last state */
};

/* Reads the job's state. Returns -1 if nothing can be read. */
static int read_job(struct watch *w)
{
    const struct gd_snapshot *s = NULL;
    const int rc = gd_observer_read(w->o, &s);
    if (s) {
        w->last_seen = *s;
        w->last_stats = *s->stats;
        view_part_cancelled(&w->last_stats);
        w->last_seen.stats = &w->last_stats;
        w->s = &w->last_seen;
    }
    if (rc < 0 && rc != GD_E_NO_JOB)
        return gd__fail("%s", gd_error_text());
    if (rc == GD_E_NO_JOB && !w->s)
        return gd__fail("the job was killed");
    w->over = rc == GD_E_NO_JOB || w->s->ended;
    view_history_add(&w->history, w->s);
    return 0;
}

static bool have_moved(struct watch *w)
{
    const struct gd_stats *a = w->s->stats, *b = &w->last;
    const bool moved = a->completed != b->completed || a->failed != b->failed || a->timeouts != b->timeouts ||
                       a->running != b->running;
    w->last = *a;
    return moved;
}

static int draw(struct watch *w, struct tui_screen *screen)
{
    struct gd__buffer b = { 0 };
    struct tui_view v;
    if (read_job(w) < 0)
        return -1;
    fill_view(&v, false);
    v.hint = "q leaves";
    tui_layout(&b, w->s, &w->history, &v);
    tui_screen_draw(screen, &b);
    gd__buffer_free(&b);
    return 0;
}

/* Draws until the job ends or the user leaves. */
static int watch_on_screen(struct watch *w, struct tui_screen *screen)
{
    for (;;) {
        if (draw(w, screen) < 0)
            return -1;
        const int wait_ms = have_moved(w) ? REDRAW_MS : REDRAW_IDLE_MS;
        if (w->over || tui_screen_wait(screen, gd_observer_fd(w->o), wait_ms) == TUI_LEAVE)
            return 0;
    }
}

static int watch_as_json(struct watch *w)
{
    for (;;) {
        struct pollfd gone = { .fd = gd_observer_fd(w->o), .events = POLLIN };
        if (read_job(w) < 0 || print_snapshot(w->s, &w->history, true) < 0)
            return -1;
        if (w->over)
            return 0;
        (void)poll(&gone, 1, REDRAW_IDLE_MS);
    }
}

/* Shows one job as requested. If screen is not NULL, shows it there and closes the screen at the end. */
static int watch_job(const char *which, const struct asked *asked, struct tui_screen *screen)
{
    struct watch w = { 0 };
    int rc = -1;
    if (gd_observer_open(&w.o, which) < 0 || gd_observer_select(w.o, GD_OBSERVED_FAILURES | GD_OBSERVED_DEVICES) < 0) {
        (void)gd__fail("%s", gd_error_text());
    } else if (screen || (!asked->once && !asked->json && tui_can_draw(STDOUT_FILENO))) {
        rc = screen ? 0 : tui_screen_open(&screen);
        rc = rc < 0 ? rc : watch_on_screen(&w, screen);
        tui_screen_close(&screen);
        if (rc == 0 && w.over)
            rc = print_snapshot(w.s, &w.history, false);
    } else if (asked->json && !asked->once) {
        rc = watch_as_json(&w);
    } else if ((rc = read_job(&w)) == 0) {
        rc = print_snapshot(w.s, &w.history, asked->json);
    }
    tui_screen_close(&screen);
    gd_observer_close(&w.o);
    return rc;
}

/* --- choosing ---------------------------------------------------------------------------------- */

static size_t place_of(const struct jobs *j, const char *id)
{
    for (size_t i = 0; i < j->n; i++) {
        if (strcmp(j->items[i].id, id) == 0)
            return i;
    }
    return 0;
}

static void draw_jobs(const struct jobs *j, size_t chosen, struct tui_screen *screen)
{
    struct gd__buffer b = { 0 };
    struct tui_view v;
    fill_view(&v, false);
    v.hint = "arrows or digits choose, Enter opens, q leaves";
    lay_jobs(&b, j, &v, chosen);
    tui_screen_draw(screen, &b);
    gd__buffer_free(&b);
}

/* Lets the user choose a job. Returns 1 with the job in id, or 0 if the user left or no jobs are left. */
static int choose(struct jobs *j, struct tui_screen *screen, char *id, size_t size)
{
    size_t chosen = 0;
    snprintf(id, size, "%s", j->items[0].id);
    for (;;) {
        if (find_jobs(j) < 0 || j->n == 0)
            return 0;
        chosen = place_of(j, id); /* the choice stays the same while other jobs come and go */
        draw_jobs(j, chosen, screen);
        const enum tui_event e = tui_screen_wait(screen, -1, REDRAW_IDLE_MS);
        if (e == TUI_LEAVE || e == TUI_ENTER)
            return e == TUI_ENTER;
        if (e == TUI_UP && chosen > 0)
            chosen--;
        if (e == TUI_DOWN && chosen + 1 < j->n)
            chosen++;
        const size_t digit = (size_t)tui_screen_digit(screen);
        if (e == TUI_DIGIT && digit > 0 && digit <= j->n)
            chosen = digit - 1;
        snprintf(id, size, "%s", j->items[chosen].id);
    }
}

static int choose_and_watch(struct jobs *j, const struct asked *asked)
{
    struct tui_screen *screen = NULL;
    char id[sizeof j->items[0].id];
    if (tui_screen_open(&screen) < 0)
        return -1;
    if (choose(j, screen, id, sizeof id) == 1)
        return watch_job(id, asked, screen);
    tui_screen_close(&screen);
    return 0;
}

/* --- web pages --------------------------------------------------------------------------------------- */

static bool is_named(const struct gd_job *j, const char *which)
{
    return !which || strcmp(j->id, which) == 0 || strcmp(j->name, which) == 0;
}

static int print_pages(const struct jobs *j, const char *which)
{
    struct gd__buffer b = { 0 };
    char address[1024];
    for (size_t i = 0; i < j->n; i++) {
        if (is_named(&j->items[i], which) && cli_address_file_find((long)j->items[i].pid, address, sizeof address))
            gd__buffer_format(&b, "%s\n", address);
    }
    if (b.size == 0 && !b.failed)
        return gd__fail("%s: start it with --http", which ? "this job has no web page" : "no job has a web page");
    return print(&b);
}

/* --- jobs by their journals -------------------------------------------------------------------------- */

static bool is_file(const char *name)
{
    struct stat info;
    return stat(name, &info) == 0 && S_ISREG(info.st_mode);
}

/* Whether the run of the journal is on this machine. Processes of other machines may have the same number: in containers
 * most runs are process 1. */
static bool is_here(const struct gd_journal_summary *s)
{
    char host[256] = "";
    return !s->host || gethostname(host, sizeof host - 1) < 0 || strcmp(host, s->host) == 0;
}

/* If the job is named by its journal, puts the id of that job in id. Returns 0, also if `which` is not a journal, or -1
 * with gd__fail_text(). */
static int find_by_journal(const struct jobs *j, const char **which, char *id, size_t size)
{
    struct gd_journal_reader *r = NULL;
    struct gd_journal_summary s = { .size = sizeof s };
    if (!is_file(*which) || gd_journal_reader_open(&r, *which) < 0)
        return 0;
    const int rc = gd_journal_reader_summary(r, &s);
    bool found = false;
    for (size_t i = 0; rc == 0 && s.held && is_here(&s) && i < j->n && !found; i++) {
        found = j->items[i].pid == s.pid;
        if (found)
            snprintf(id, size, "%s", j->items[i].id);
    }
    gd_journal_reader_close(&r);
    if (!found)
        return gd__fail("no job of this machine is using the journal %s: gpu-dispatch status %s shows it", *which,
                        *which);
    *which = id;
    return 0;
}

/* --------------------------------------------------------------------------------------------------- */

static int show_found(struct jobs *j, const struct asked *asked, const char *which)
{
    if (which && !asked->list && !asked->page)
        return watch_job(which, asked, NULL);
    if (asked->page)
        return print_pages(j, which);
    if (asked->list || j->n == 0)
        return print_jobs(j, asked->json && asked->list);
    if (j->n == 1)
        return watch_job(j->items[0].id, asked, NULL);
    if (!asked->once && !asked->json && tui_can_draw(STDOUT_FILENO) && isatty(STDIN_FILENO))
        return choose_and_watch(j, asked);
    if (asked->json)
        return gd__fail("%zu jobs are running: give one of them (gpu-dispatch top --list shows them)", j->n);
    return print_jobs(j, false);
}

static int show(const struct asked *asked, const char *which)
{
    struct jobs *j = calloc(1, sizeof *j);
    char id[sizeof j->items[0].id];
    if (!j)
        return gd__fail("out of memory");
    int rc = find_jobs(j);
    if (rc == 0 && which)
        rc = find_by_journal(j, &which, id, sizeof id);
    if (rc == 0)
        rc = show_found(j, asked, which);
    free(j);
    return rc;
}

static bool are_files(const struct cli_journals *j)
{
    for (size_t i = 0; i < j->n_paths; i++)
        if (!is_file(j->paths[i]))
            return false;
    return true;
}

static int show_journals(const struct asked *asked, struct cli_journals *j)
{
    const struct top_many_asked many = { .once = asked->once, .json = asked->json };
    if (!are_files(j))
        return gd__fail("top shows only one job, or several journals: leave out \"%s\"", j->paths[1]);
    if (asked->list || asked->page)
        return gd__fail("--%s does not take journals: leave them out", asked->list ? "list" : "page");
    return top_many(&many, j);
}

static int show_queue(const struct asked *asked, const struct cli_journals *j)
{
    if (queue_command_check("top", &asked->queue, j) < 0)
        return -1;
    if (asked->list || asked->page)
        return gd__fail("--%s does not take a queue: leave one of them out", asked->list ? "list" : "page");
    return queue_top(&asked->queue, asked->once, asked->json);
}

static int show_asked(const struct asked *asked, struct cli_journals *j)
{
    if (asked->queue.url)
        return show_queue(asked, j);
    if (cli_queue_check(&asked->queue) < 0)
        return -1;
    return j->n_paths > 1 ? show_journals(asked, j) : show(asked, j->n_paths == 1 ? j->paths[0] : NULL);
}

int cli_top_main(int argc, char **argv)
{
    struct asked asked = { 0 };
    struct cli_journals j = { .n = 0 };
    int rc = cli_journals_parse(&j, &options, &asked, argc, argv);
    const bool explain = asked.help || asked.list_options;
    if (rc == 0 && !explain)
        rc = show_asked(&asked, &j);
    if (rc < 0)
        cli_say("%s", gd__fail_text());
    else if (explain)
        (asked.help ? cli_opts_help : cli_opts_list)(&options);
    const bool whole = rc == 0 && j.n_readable == j.n;
    cli_journals_free(&j);
    return whole ? 0 : CLI_EXIT_ERROR;
}
