/* SPDX-License-Identifier: MIT
 *
 * Writes the report: the page, with its data as JSON in a script element. An end tag in the data would end the element,
 * and U+2028 and U+2029 are line ends in JavaScript but not in JSON. So "<", ">", "&" and these two are written as \u
 * escapes. That is allowed, because they occur only in strings.
 */
#include "web/report/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/file/replace.h"
#include "base/text/buffer.h"
#include "base/text/json_write.h"
#include "view/remaining.h"
#include "web/pages.h"
#include "web/report/reduce.h"

enum { SLOWEST = 50 };

/* --- the data --------------------------------------------------------------------------- */

static void add_text(struct gd__buffer *b, const char *name, const char *text)
{
    gd__buffer_format(b, ",\"%s\":", name);
    if (text)
        web_add_beginning(b, text, strlen(text), 500);
    else
        gd__buffer_text(b, "null");
}

static void add_summary(struct gd__buffer *b, const struct gd_journal_summary *s, const struct web_reduced *d,
                        const char *file)
{
    struct view_remaining remaining;
    view_remaining_of(&remaining, s);
    gd__buffer_format(b, "{\"version\":\"%s\",\"made\":%lld", gd_version(), (long long)time(NULL));
    add_text(b, "file", file);
    add_text(b, "command", s->command);
    add_text(b, "end", s->end);
    gd__buffer_format(b, ",\"held\":%s,\"total\":%llu,\"skipped\":%llu,\"done\":%llu,\"failed\":%llu,\"attempts\":%llu",
                      s->held ? "true" : "false", (unsigned long long)s->total, (unsigned long long)s->skipped,
                      (unsigned long long)d->done, (unsigned long long)d->failed, (unsigned long long)d->attempts);
    gd__buffer_format(b, ",\"all\":%llu,\"not_in_input\":%llu", (unsigned long long)remaining.all,
                      (unsigned long long)remaining.gone);
    gd__buffer_format(b, ",\"seconds\":%.4f,\"busy_seconds\":%.4f,\"bucket_seconds\":%.9g", d->seconds, d->busy_seconds,
                      d->step);
}

static void add_runs(struct gd__buffer *b, const struct web_reduced *d)
{
    const char *comma = "";
    gd__buffer_text(b, ",\"runs\":[");
    for (size_t i = 0; i < d->n_runs; i++) {
        const struct web_span *s = &d->runs[i];
        if (s->first <= 0)
            continue;
        gd__buffer_format(b, "%s{\"run\":%zu,\"started\":%.3f,\"offset\":%.4f,\"seconds\":%.4f}", comma, i + 1,
                          s->first, s->offset, s->last - s->first);
        comma = ",";
    }
    gd__buffer_text(b, "]");
}

/* The machines. Their order is that of their first runs. */
static void add_places(struct gd__buffer *b, const struct web_reduced *d)
{
    gd__buffer_text(b, ",\"places\":[");
    for (size_t i = 0; i < d->n_places; i++) {
        const struct web_place *p = &d->places[i];
        gd__buffer_text(b, i ? ",{\"host\":" : "{\"host\":");
        web_add_beginning(b, *p->host ? p->host : "unknown", *p->host ? strlen(p->host) : strlen("unknown"), 100);
        if (p->shard.count > 0)
            gd__buffer_format(b, ",\"shard\":\"%u/%u\"}", p->shard.index + 1, p->shard.count);
        else
            gd__buffer_text(b, ",\"shard\":null}");
    }
    gd__buffer_text(b, "]");
}

static void add_counts(struct gd__buffer *b, const char *name, const uint64_t *counts)
{
    gd__buffer_format(b, "\"%s\":[", name);
    for (size_t i = 0; i < WEB_REPORT_STEPS; i++)
        gd__buffer_format(b, "%s%llu", i ? "," : "", (unsigned long long)counts[i]);
    gd__buffer_text(b, "]");
}

static void add_gpus(struct gd__buffer *b, const struct web_reduced *d)
{
    gd__buffer_text(b, ",\"gpus\":[");
    for (size_t i = 0; i < d->n_gpus; i++) {
        const struct web_gpu *g = &d->gpus[i];
        gd__buffer_format(
            b,
            "%s{\"gpu\":%d,\"place\":%d,\"workers\":%llu,\"done\":%llu,\"failed\":%llu,\"busy_seconds\":%.4f,\"use\":[",
            i ? "," : "", g->gpu, g->place, (unsigned long long)g->workers, (unsigned long long)g->done,
            (unsigned long long)g->failed, g->busy_seconds);
        for (size_t k = 0; k < WEB_REPORT_STEPS; k++) {
            const double part = g->busy[k] / (d->step * (double)g->workers);
            gd__buffer_format(b, "%s%.0f", k ? "," : "", 100 * (part > 1 ? 1 : part));
        }
        gd__buffer_text(b, "]}");
    }
    gd__buffer_text(b, "]");
}

static const char *add_lane_bars(struct gd__buffer *b, const struct web_reduced *d, size_t lane, const char *comma)
{
    for (size_t k = 0; k < WEB_REPORT_STEPS * d->bars_per_step; k++) {
        const struct web_bar *bar = &d->lanes[lane].bars[k];
        if (bar->seconds < 0)
            continue;
        gd__buffer_format(b, "%s[%zu,%llu,%.4f,%.4f,", comma, lane, (unsigned long long)bar->number, bar->start,
                          bar->seconds);
        if (bar->failure < 0)
            gd__buffer_text(b, "null]");
        else
            gd__buffer_format(b, "%d]", bar->failure);
        comma = ",";
    }
    return comma;
}

static void add_lanes(struct gd__buffer *b, const struct web_reduced *d)
{
    const char *comma = "";
    gd__buffer_format(b, ",\"lanes_left_out\":%zu,\"bars_left_out\":%llu,\"lanes\":[", d->n_lanes - d->n_drawn,
                      (unsigned long long)d->bars_left_out);
    for (size_t i = 0; i < d->n_drawn; i++)
        gd__buffer_format(b, "%s[%d,%d,%d]", i ? "," : "", d->lanes[i].gpu, d->lanes[i].worker, d->lanes[i].place);
    gd__buffer_text(b, "],\"bars\":[");
    for (size_t i = 0; i < d->n_drawn; i++)
        comma = add_lane_bars(b, d, i, comma);
    gd__buffer_text(b, "]");
}

static void add_failures(struct gd__buffer *b, const struct web_reduced *d)
{
    gd__buffer_text(b, ",\"failures\":[");
    for (size_t i = 0; i < d->n_classes; i++) {
        const struct web_class *c = &d->classes[i];
        gd__buffer_text(b, i ? ",{\"name\":" : "{\"name\":");
        gd__json_put_string(b, c->name, strlen(c->name));
        gd__buffer_format(b, ",\"count\":%llu,\"shown\":[", (unsigned long long)c->count);
        gd__buffer_add(b, c->json.data, c->json.size);
        b->failed = b->failed || c->json.failed;
        gd__buffer_text(b, "]}");
    }
    gd__buffer_text(b, "]");
}

struct slowest {
    struct gd__buffer *out;
    const struct web_reduced *d;
    size_t n;
};

static int add_slow(void *user, const struct gd_journal_record *r)
{
    struct slowest *s = user;
    gd__buffer_text(s->out, s->n++ ? "," : "");
    web_add_record(s->out, s->d, r);
    return 0;
}

static int add_slowest(struct gd__buffer *b, const struct web_reduced *d, const struct web_records *r)
{
    const struct gd_journal_query q = { .size = sizeof q, .order = GD_JOURNAL_SLOWEST, .limit = SLOWEST };
    struct slowest s = { .out = b, .d = d };
    gd__buffer_text(b, ",\"slowest\":[");
    int rc = r->each(r->user, &q, add_slow, &s);
    gd__buffer_text(b, "]");
    return rc < 0 ? gd__fail("%s", gd_error_text()) : 0;
}

static int make_data(struct gd__buffer *b, const struct web_records *r, const char *file)
{
    struct gd_journal_summary s = { .size = sizeof s };
    struct web_reduced d;
    int rc = web_reduce(&d, r);
    if (rc == 0 && r->summary(r->user, &s) < 0)
        rc = gd__fail("%s", gd_error_text());
    if (rc == 0) {
        add_summary(b, &s, &d, file);
        add_places(b, &d);
        add_runs(b, &d);
        gd__buffer_text(b, ",\"throughput\":{");
        add_counts(b, "done", d.ended_done);
        gd__buffer_text(b, ",");
        add_counts(b, "failed", d.ended_failed);
        gd__buffer_text(b, "}");
        add_gpus(b, &d);
        add_lanes(b, &d);
        add_failures(b, &d);
        rc = add_slowest(b, &d, r);
        gd__buffer_text(b, "}");
    }
    if (rc == 0 && b->failed)
        rc = gd__fail("out of memory");
    web_reduced_free(&d);
    return rc;
}

/* --- the page -------------------------------------------------------------------------------- */

/* Adds JSON in a form that is safe in a script element. */
static void add_embedded(struct gd__buffer *page, const struct gd__buffer *json)
{
    for (size_t i = 0; i < json->size;) {
        const char *at = json->data + i;
        const size_t left = json->size - i, plain = strcspn(at, "<>&\xe2");
        const size_t n = plain < left ? plain : left;
        gd__buffer_add(page, at, n);
        i += n;
        if (i >= json->size)
            break;
        at += n;
        const bool line_end =
            left - n >= 3 && (memcmp(at, "\xe2\x80\xa8", 3) == 0 || memcmp(at, "\xe2\x80\xa9", 3) == 0);
        if (line_end)
            gd__buffer_format(page, "\\u202%c", at[2] == '\xa8' ? '8' : '9');
        else if (*at == '\xe2')
            gd__buffer_add(page, at, 1);
        else
            gd__buffer_format(page, "\\u%04x", (unsigned char)*at);
        i += line_end ? 3 : 1;
    }
}

static int make_page(struct gd__buffer *page, struct gd__buffer *json)
{
    static const char mark[] = "@DATA@";
    const char *at = memmem(web_report_page, web_report_page_size, mark, sizeof mark - 1);
    if (!at)
        return gd__fail("the template of the report does not contain @DATA@: build gpu-dispatch again");
    const size_t before = (size_t)(at - (const char *)web_report_page), after = before + sizeof mark - 1;
    gd__buffer_add(json, "", 1); /* a NUL, where strcspn() stops */
    json->size -= !json->failed;
    gd__buffer_add(page, web_report_page, before);
    add_embedded(page, json);
    gd__buffer_add(page, web_report_page + after, web_report_page_size - after);
    return page->failed || json->failed ? gd__fail("out of memory") : 0;
}

static int write_file(const char *path, bool named, const struct gd__buffer *page)
{
    struct gd__replacement r;
    int rc = gd__replace_begin(&r, path, named);
    if (rc == 0 && fwrite(page->data, 1, page->size, r.to) != page->size)
        rc = gd__fail("cannot write %s: %s", path, strerror(errno));
    return gd__replace_end(&r, rc, true);
}

int web_report_write(const struct web_records *r, const char *file, const char *path, bool named)
{
    struct gd__buffer json = { 0 }, page = { 0 };
    int rc = make_data(&json, r, file);
    if (rc == 0)
        rc = make_page(&page, &json);
    if (rc == 0)
        rc = write_file(path, named, &page);
    gd__buffer_free(&json);
    gd__buffer_free(&page);
    return rc;
}
