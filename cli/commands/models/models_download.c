/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch models download`: downloads published models, one after the other. The path of each is printed on
 * standard output. On a terminal, one line shows the progress.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/transcribe/download/download.h"
#include "apps/transcribe/fetch/fetch.h"
#include "apps/transcribe/model/places.h"
#include "apps/transcribe/model/published.h"
#include "base/clock.h"
#include "base/failure.h"
#include "base/text/figures.h"
#include "base/text/parse.h"
#include "base/text/printable.h"
#include "cli/commands/models/models.h"
#include "cli/run/stop/exit_status.h"
#include "cli/say.h"

#define SHOWN_EVERY (GD__NS_PER_S / 10)

/* The progress of one model. */
struct progress {
    const char *name;
    bool terminal, line; /* line: the progress line is shown */
    uint64_t begun_at, shown_at;
    uint64_t begun_with; /* bytes that were there before */
};

static void clear_line(struct progress *p)
{
    if (p->line)
        fputs("\r\033[K", stderr);
    p->line = false;
}

/* "base: 45 MiB of 141 MiB, 11 MiB/s, 9s left" */
static void show(struct progress *p, uint64_t have, uint64_t total)
{
    char done[GD__TEXT_FIGURE], all[GD__TEXT_FIGURE], speed[GD__TEXT_FIGURE], left[GD__TEXT_FIGURE];
    const uint64_t now = gd__now_ns();
    if (!p->terminal || (have < total && now - p->shown_at < SHOWN_EVERY))
        return;
    p->shown_at = now;
    const double seconds = (double)(now - p->begun_at) / GD__NS_PER_S;
    const double rate = seconds > 0 ? (double)(have - p->begun_with) / seconds : 0;
    fprintf(stderr, "\r%s: %s of %s", p->name, gd__text_size(done, sizeof done, have),
            gd__text_size(all, sizeof all, total));
    if (rate >= 1)
        fprintf(stderr, ", %s/s, %s left", gd__text_size(speed, sizeof speed, (uint64_t)rate),
                gd__text_duration(left, sizeof left, (double)(total - have) / rate));
    fputs("\033[K", stderr);
    p->line = true;
}

static void start(struct progress *p, uint64_t have)
{
    p->begun_at = gd__now_ns();
    p->shown_at = 0; /* the first piece is shown at once */
    p->begun_with = have;
}

static void on_event(void *user, enum tr_download_event event, uint64_t have, uint64_t total)
{
    struct progress *p = user;
    char size[GD__TEXT_FIGURE], done[GD__TEXT_FIGURE];
    gd__text_size(size, sizeof size, total);
    if (event == TR_DOWNLOAD_PROGRESS) {
        show(p, have, total);
        return;
    }
    clear_line(p);
    if (event == TR_DOWNLOAD_WAITS)
        cli_say("%s: another process downloads it; waiting for it", p->name);
    else if (event == TR_DOWNLOAD_STARTS)
        cli_say("%s: downloading %s", p->name, size);
    else if (event == TR_DOWNLOAD_GOES_ON)
        cli_say("%s: going on after %s of %s", p->name, gd__text_size(done, sizeof done, have), size);
    else
        cli_say("%s: checking", p->name);
    start(p, have);
}

static int download(const struct tr_published *model, const char *directory, const char *base)
{
    struct progress p = { .name = model->name, .terminal = isatty(STDERR_FILENO) };
    const struct tr_download d = { model, directory, base, on_event, &p };
    char *path;
    const int rc = tr_download(&d, &path);
    clear_line(&p);
    if (rc < 0) {
        cli_say("%s", gd__fail_text());
        return -1;
    }
    if (rc == 1)
        cli_say("%s: is there already", model->name);
    gd__text_plain(path, strlen(path), false);
    puts(path);
    free(path);
    return 0;
}

/* --- names ------------------------------------------------------------------------ */

static int no_such_model(const char *name)
{
    size_t n;
    const struct tr_published *all = tr_published_all(&n);
    const char **names = calloc(n, sizeof *names);
    for (size_t i = 0; names && i < n; i++)
        names[i] = all[i].name;
    const char *near = names ? gd__nearest_word(name, names, n) : NULL;
    free(names);
    if (near)
        return gd__fail("no model \"%s\": did you mean %s?", name, near);
    return gd__fail("no model \"%s\": gpu-dispatch models lists the published models", name);
}

/* Checks all names before anything is downloaded. */
static int check_names(const struct cli_models *m)
{
    for (size_t i = 1; i < m->words.n; i++) {
        const struct tr_published *model = tr_published_find(tr_published_name(m->words.items[i]));
        if (!model)
            return no_such_model(m->words.items[i]);
        if (model->url && !*model->url)
            return gd__fail("the model %s is part of this program and need not be downloaded", model->name);
    }
    return 0;
}

static const char *find_base(const struct cli_models *m)
{
    const char *value = m->base ? m->base : getenv(CLI_MODELS_URL);
    return value && (*value || m->base) ? value : NULL;
}

int cli_models_download(const struct cli_models *m)
{
    const char *base = find_base(m);
    char *directory = NULL;
    int failed = 0;
    if (check_names(m) < 0 || (base && tr_fetch_check_address("models", base) < 0) || tr_fetch_possible() < 0 ||
        !(directory = tr_places_download(m->model_dir))) {
        cli_say("%s", gd__fail_text());
        return CLI_EXIT_ERROR;
    }
    for (size_t i = 1; i < m->words.n; i++)
        failed += download(tr_published_find(tr_published_name(m->words.items[i])), directory, base) < 0;
    free(directory);
    return failed ? CLI_MODELS_FAILED : 0;
}
