/* SPDX-License-Identifier: MIT
 *
 * The live view as lines: whole screens at several sizes, and properties that hold for every screen.
 */
#include "base/text/buffer.h"
#include "base/text/json.h"
#include "snapshots.h"
#include "tui/cells.h"
#include "view/json.h"
#include "view/rows.h"

/* --- made-up runs --------------------------------------------------------------------- */

static struct made_up *one_gpu(void)
{
    struct made_up *m = made_run("./transcribe {} {.}.txt");
    made_worker(m, 0, GD_WORKER_BUSY, GD_IDLE_NOT, "songs/long.wav", 12.34);
    made_device(m, 0);
    return m;
}

static struct made_up *two_gpus(void)
{
    struct made_up *m = one_gpu();
    made_worker(m, 1, GD_WORKER_IDLE, GD_IDLE_NO_INPUT, "", 3.21);
    made_device(m, 1);
    m->stats.retried = 2;
    return m;
}

static struct made_up *every_status(void)
{
    struct made_up *m = made_run("python3 infer.py");
    made_worker(m, 0, GD_WORKER_OFF, GD_IDLE_SETTING_UP, "", -1);
    made_worker(m, 1, GD_WORKER_STARTING, GD_IDLE_SETTING_UP, "", 42);
    made_worker(m, 2, GD_WORKER_BUSY, GD_IDLE_NOT, "", 0.05);
    made_worker(m, 3, GD_WORKER_CANCELLING, GD_IDLE_NOT, "stuck.wav", 700)->timeouts = 1;
    made_worker(m, 4, GD_WORKER_KILLING, GD_IDLE_NOT, "stuck.wav", 31);
    made_worker(m, 5, GD_WORKER_RESTING, GD_IDLE_RESTARTING, "", 1)->restarts = 3;
    made_worker(m, 6, GD_WORKER_STARTING, GD_IDLE_SETTING_UP, "", 1)->restarts = 1;
    made_worker(m, 7, GD_WORKER_STOPPING, GD_IDLE_AT_END, "", 1);
    made_worker(m, 8, GD_WORKER_FINISHED, GD_IDLE_AT_END, "", 1);
    made_worker(m, 9, GD_WORKER_FAILED, GD_IDLE_AT_END, "", 1);
    made_worker(m, 10, GD_WORKER_LOST, GD_IDLE_AT_END, "", 1);
    made_worker(m, 11, GD_WORKER_FAILED, GD_IDLE_AT_END, "", 1)->device_out = 1;
    m->stats.setup_failures = 1;
    m->stats.crashes = 4;
    m->stats.skipped = 100;
    m->stats.total = 1100;
    return m;
}

static struct made_up *every_reason(void)
{
    struct made_up *m = made_run("--worker ./plugin.so");
    for (int idle = GD_IDLE_NO_INPUT; idle <= GD_IDLE_REMOVED; idle++) {
        if (idle == GD_IDLE_RESTARTING || idle == GD_IDLE_SETTING_UP)
            continue;
        const bool has_tasks = idle == GD_IDLE_LOADING || idle == GD_IDLE_RESULTS;
        made_worker(m, idle, has_tasks ? GD_WORKER_BUSY : GD_WORKER_IDLE, (enum gd_idle_reason)idle, "left.over", 2);
    }
    m->s.stale = true;
    return m;
}

static struct made_up *many_gpus(void)
{
    struct made_up *m = made_run("./transcribe {}");
    for (int i = 0; i < 64; i++) {
        char task[32];
        snprintf(task, sizeof task, "songs/%03d.wav", i);
        if (i == 7 || i == 12)
            made_worker(m, i, GD_WORKER_FAILED, GD_IDLE_AT_END, "", 3)->device_out = i == 12;
        else if (i == 20)
            made_worker(m, i, GD_WORKER_RESTING, GD_IDLE_RESTARTING, "", 1);
        else if (i > 60)
            made_worker(m, i, GD_WORKER_IDLE, GD_IDLE_NO_INPUT, "", 1);
        else
            made_worker(m, i, GD_WORKER_BUSY, GD_IDLE_NOT, task, 0.5 * i);
        made_device(m, i);
    }
    return m;
}

static struct made_up *many_workers(void)
{
    struct made_up *m = made_run("./transcribe {}");
    for (int i = 0; i < 16; i++) {
        char task[32];
        snprintf(task, sizeof task, "songs/%03d.wav", i);
        if (i % 4 == 3)
            made_worker(m, i % 4, GD_WORKER_IDLE, GD_IDLE_NO_INPUT, "", i);
        else if (i % 4 == 2 && i > 4)
            made_worker(m, i % 4, GD_WORKER_STARTING, GD_IDLE_SETTING_UP, "", i);
        else
            made_worker(m, i % 4, GD_WORKER_BUSY, GD_IDLE_NOT, task, i);
    }
    for (int i = 0; i < 4; i++)
        made_device(m, i);
    return m;
}

static struct made_up *hostile_names(void)
{
    static const char *const names[] = {
        "\033[2J\033[31mred\nnext\ttab\rback\177\a",
        "日本語のとても長いファイル名はどこかで切れる必要があります.wav",
        "\xff\xfe bytes \xc3( \xed\xa0\x80 \xf8",
        "e\xcc\x81 combined, a\xcc\x80\xcc\x81\xcc\x82\xcc\x83\xcc\x84\xcc\x85\xcc\x86 stacked",
        "right\xe2\x80\xaeot\xe2\x80\x8btfel \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80 "
        "\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa",
        "   ",
        "C1 \xc2\x9b"
        "31m end",
    };
    struct made_up *m = made_run("job\033]0;title\a\nname");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        made_worker(m, (int)i, GD_WORKER_BUSY, GD_IDLE_NOT, names[i], 1);
    snprintf(m->h.failure, sizeof m->h.failure, "in\033put: er\nror");
    return m;
}

static struct made_up *huge_numbers(void)
{
    struct made_up *m = made_run("huge");
    struct gd_worker_view *w = made_worker(m, INT32_MAX, GD_WORKER_BUSY, GD_IDLE_NOT, "x", 1e9);
    w->completed = w->failed = w->timeouts = w->restarts = UINT64_MAX;
    w->last_ns = UINT64_MAX;
    w->since_ns = 1;
    made_worker(m, -1, GD_WORKER_BUSY, GD_IDLE_NOT, "", 1)->completed = 12345678;
    m->stats.completed = m->stats.failed = m->stats.timeouts = m->stats.skipped = UINT64_MAX;
    m->stats.total = m->stats.taken = m->stats.retried = m->stats.running = UINT64_MAX;
    m->s.read_ns = m->stats.now_ns = UINT64_MAX - 1;
    made_device(m, INT32_MAX);
    m->devices[0].memory_total = UINT64_MAX;
    m->devices[0].memory_free = 0;
    m->devices[0].utilization = 1000;
    return m;
}

static struct made_up *not_begun(void)
{
    struct made_up *m = made_run("./transcribe {}");
    m->stats = (struct gd_stats){ .size = sizeof m->stats, .now_ns = m->s.read_ns };
    memset(&m->h, 0, sizeof m->h);
    *made_worker(m, 0, GD_WORKER_OFF, GD_IDLE_SETTING_UP, "", -1) = (struct gd_worker_view){
        .current_task = UINT64_MAX,
        .idle = GD_IDLE_SETTING_UP,
    };
    return m;
}

static struct made_up *ended(void)
{
    struct made_up *m = two_gpus();
    made_ended(m);
    m->stats.now_ns = 1300 * SECOND;
    m->s.read_ns = 9999 * SECOND;
    snprintf(m->h.failure, sizeof m->h.failure, "songs/7.wav: exited with code 1");
    return m;
}

static struct made_up *paused(void)
{
    struct made_up *m = two_gpus();
    m->stats.paused = 1;
    return m;
}

static struct made_up *draining(void)
{
    struct made_up *m = paused();
    m->stats.draining = 1;
    return m;
}

static void request(struct made_up *m, const char *what, int code)
{
    static struct gd_request_view r;
    r = (struct gd_request_view){ .at_ns = m->s.read_ns, .code = code };
    snprintf(r.what, sizeof r.what, "%s", what);
    m->s.requests = &r;
    m->s.n_requests = 1;
    view_history_add(&m->h, &m->s);
}

static struct made_up *carried_out(void)
{
    struct made_up *m = paused();
    snprintf(m->h.failure, sizeof m->h.failure, "songs/7.wav: exited with code 1");
    request(m, "1 worker removed from GPU 0", 0);
    request(m, "paused: 1 running task goes on, nothing new starts", 0);
    return m;
}

static struct made_up *refused(void)
{
    struct made_up *m = two_gpus();
    request(m, "0 of 2 workers added to GPU 1: no place for another worker: see max_workers_per_gpu", GD_E_INVALID);
    return m;
}

/* n_groups groups of `size` GPUs, with some tasks in flight on each. */
static struct made_up *in_groups(int n_groups, int size)
{
    struct made_up *m = made_run("./serve --tensor-parallel");
    for (int i = 0; i < n_groups; i++) {
        struct gd_worker_view *w = made_worker(m, i * size, GD_WORKER_BUSY, GD_IDLE_NOT, "prompts/0042.json", 3.2 * i);
        w->in_flight = (uint64_t)i * 7;
        for (int k = 0; k < size; k++) {
            made_device(m, i * size + k);
            m->devices[i * size + k].group = i * size;
        }
    }
    return m;
}

static struct made_up *pairs(void)
{
    return in_groups(3, 2);
}

static struct made_up *large_groups(void)
{
    struct made_up *m = in_groups(2, 16);
    made_worker(m, 0, GD_WORKER_IDLE, GD_IDLE_PAUSED, "", 1);
    return m;
}

static struct made_up *many_groups(void)
{
    struct made_up *m = in_groups(32, 2);
    m->workers[5].state = GD_WORKER_IDLE;
    m->workers[5].idle = GD_IDLE_NO_INPUT;
    return m;
}

/* --- whole screens ---------------------------------------------------------------------------- */

static const struct made_screen screens[] = {
    { "one-40.txt", one_gpu, { .width = 40, .height = 24, .utf8 = true } },
    { "one-80.txt", one_gpu, { .width = 80, .height = 24, .utf8 = true } },
    { "one-200.txt", one_gpu, { .width = 200, .height = 24, .utf8 = true } },
    { "two-40.txt", two_gpus, { .width = 40, .height = 24, .utf8 = true } },
    { "two-80.txt", two_gpus, { .width = 80, .height = 24, .utf8 = true } },
    { "two-80-ascii.txt", two_gpus, { .width = 80, .height = 24 } },
    { "two-80-colour.txt", two_gpus, { .width = 80, .height = 24, .utf8 = true, .colour = true } },
    { "two-80-ascii-colour.txt", two_gpus, { .width = 80, .height = 24, .colour = true } },
    { "two-200.txt", two_gpus, { .width = 200, .height = 24, .utf8 = true } },
    { "two-7-lines.txt", two_gpus, { .width = 80, .height = 8, .utf8 = true } },
    { "two-5-lines.txt", two_gpus, { .width = 80, .height = 6, .utf8 = true } },
    { "two-3-lines.txt", two_gpus, { .width = 80, .height = 4, .utf8 = true } },
    { "two-1-line.txt", two_gpus, { .width = 80, .height = 2, .utf8 = true } },
    { "two-hint-80.txt", two_gpus, { .width = 80, .height = 24, .utf8 = true, .hint = "q leaves" } },
    { "status-80.txt", every_status, { .width = 80, .height = 24, .utf8 = true } },
    { "status-80-colour.txt", every_status, { .width = 80, .height = 24, .utf8 = true, .colour = true } },
    { "status-120.txt", every_status, { .width = 120, .height = 24, .utf8 = true } },
    { "reason-80.txt", every_reason, { .width = 80, .height = 24, .utf8 = true } },
    { "reason-40.txt", every_reason, { .width = 40, .height = 24 } },
    { "many-40.txt", many_gpus, { .width = 40, .height = 24, .utf8 = true } },
    { "many-80.txt", many_gpus, { .width = 80, .height = 24, .utf8 = true } },
    { "many-80-ascii.txt", many_gpus, { .width = 80, .height = 16 } },
    { "many-200.txt", many_gpus, { .width = 200, .height = 24, .utf8 = true } },
    { "many-200-tall.txt", many_gpus, { .width = 200, .height = 80, .utf8 = true } },
    { "many-80-low.txt", many_gpus, { .width = 80, .height = 8, .utf8 = true } },
    { "workers-80.txt", many_workers, { .width = 80, .height = 24, .utf8 = true } },
    { "workers-80-low.txt", many_workers, { .width = 80, .height = 12, .utf8 = true } },
    { "hostile-40.txt", hostile_names, { .width = 40, .height = 24, .utf8 = true, .last_events = true } },
    { "hostile-80.txt", hostile_names, { .width = 80, .height = 24, .utf8 = true, .last_events = true } },
    { "hostile-80-ascii.txt", hostile_names, { .width = 80, .height = 24, .last_events = true } },
    { "huge-40.txt", huge_numbers, { .width = 40, .height = 24, .utf8 = true } },
    { "huge-80.txt", huge_numbers, { .width = 80, .height = 24, .utf8 = true } },
    { "huge-200.txt", huge_numbers, { .width = 200, .height = 24, .utf8 = true } },
    { "begin-80.txt", not_begun, { .width = 80, .height = 24, .utf8 = true } },
    { "ended-80.txt", ended, { .width = 80, .height = 24, .utf8 = true, .last_events = true } },
    { "paused-80.txt", paused, { .width = 80, .height = 24, .utf8 = true } },
    { "draining-80.txt", draining, { .width = 80, .height = 24, .utf8 = true } },
    { "control/carried-out-80.txt", carried_out, { .width = 80, .height = 24, .utf8 = true, .last_events = true } },
    { "control/carried-out-80-low.txt", carried_out, { .width = 80, .height = 8, .utf8 = true, .last_events = true } },
    { "control/refused-80.txt", refused, { .width = 80, .height = 24, .utf8 = true, .last_events = true } },
    { "groups/pairs-80.txt", pairs, { .width = 80, .height = 24, .utf8 = true } },
    { "groups/pairs-200.txt", pairs, { .width = 200, .height = 24, .utf8 = true } },
    { "groups/large-80.txt", large_groups, { .width = 80, .height = 24, .utf8 = true } },
    { "groups/many-80.txt", many_groups, { .width = 80, .height = 16, .utf8 = true } },
};

SCREENS(one_gpu)
SCREENS(two_gpus)
SCREENS(every_status)
SCREENS(every_reason)
SCREENS(many_gpus)
SCREENS(many_workers)
SCREENS(hostile_names)
SCREENS(huge_numbers)
SCREENS(not_begun)
SCREENS(ended)
SCREENS(paused)
SCREENS(draining)
SCREENS(carried_out)
SCREENS(refused)
SCREENS(pairs)
SCREENS(large_groups)
SCREENS(many_groups)

TEST(json)
{
    struct gd__buffer b = { 0 };
    const struct made_up *m = two_gpus();
    view_json(&b, &m->s, &m->h);
    CHECK(gd__json_valid(b.data, b.size));
    gd__buffer_text(&b, "\n");
    gd__buffer_add(&b, "", 1);
    check_screen("cli", "two.json", b.data);
    gd__buffer_free(&b);
    struct made_up *all_taken = two_gpus(); /* now the total is known */
    all_taken->stats.source_done = 1;
    view_json(&b, &all_taken->s, &all_taken->h);
    gd__buffer_add(&b, "", 1);
    CHECK_CONTAINS(b.data, "\"total\":500,");
    gd__buffer_free(&b);
    const struct made_up *grouped = pairs();
    view_json(&b, &grouped->s, &grouped->h);
    CHECK(gd__json_valid(b.data, b.size));
    gd__buffer_add(&b, "", 1);
    CHECK_CONTAINS(b.data, "{\"worker\":1,\"gpu\":2,\"gpus\":[2,3],");
    CHECK_CONTAINS(b.data, "\"in_flight\":14,");
    CHECK_CONTAINS(b.data, "\"state\":\"running\",\"task_timeout_ms\":0,");
    CHECK_CONTAINS(b.data, "\"last_request\":null,");
    gd__buffer_free(&b);
    const struct made_up *no = refused();
    view_json(&b, &no->s, &no->h);
    CHECK(gd__json_valid(b.data, b.size));
    gd__buffer_add(&b, "", 1);
    CHECK_CONTAINS(b.data, "\"last_request\":{\"ok\":false,\"message\":\"0 of 2 workers added to GPU 1: no place");
    gd__buffer_free(&b);
    const struct made_up *bad = hostile_names();
    view_json(&b, &bad->s, &bad->h);
    CHECK(gd__json_valid(b.data, b.size));
    gd__buffer_free(&b);
    const struct made_up *huge = huge_numbers();
    view_json(&b, &huge->s, &huge->h);
    CHECK(gd__json_valid(b.data, b.size));
    gd__buffer_free(&b);
}

/* A run that is stopped cancels many tasks. The last failure is still shown. */
TEST(a_cancelled_task_is_not_the_last_failure)
{
    struct made_up *m = two_gpus();
    static const struct gd_failure_view failures[] = {
        { .failure = GD_FAILURE_ERROR, .input = "a", .error = "first" },
        { .failure = GD_FAILURE_TIMEOUT, .input = "b", .error = "second" },
        { .failure = GD_FAILURE_CANCELLED, .input = "c", .error = "cancelled on request" },
    };
    m->s.failures = failures;
    m->s.n_failures = 3;
    view_history_add(&m->h, &m->s);
    CHECK_STR(m->h.failure, "b: second");
    m->s.failures = &failures[2];
    m->s.n_failures = 1;
    view_history_add(&m->h, &m->s);
    CHECK_STR(m->h.failure, "b: second");
}

/* --- properties of every screen ----------------------------------------------------------------- */

/* Checks a line and returns its width in columns. The line must be UTF-8, without terminal commands other than colours,
 * and every colour must be ended. */
static size_t check_line(const char *line, size_t size, const struct tui_view *v)
{
    struct tui_glyph g;
    size_t columns = 0;
    bool coloured = false;
    for (size_t at = 0; at < size;) {
        if (line[at] == '\033') {
            const size_t length = strcspn(line + at, "m") + 1;
            CHECK(v->colour && length <= 8);
            const bool end = strncmp(line + at, "\033[0m", length) == 0;
            CHECK_NE(end, !coloured);
            coloured = !end;
            at += length;
            continue;
        }
        CHECK((unsigned char)line[at] >= 0x20 && line[at] != 0x7f);
        CHECK(v->utf8 || (unsigned char)line[at] < 0x80);
        const size_t used = tui_glyph(&g, line + at, size - at, true);
        /* The text on the screen is safe. Making it safe again must change nothing. */
        CHECK(g.size == used && memcmp(g.bytes, line + at, used) == 0);
        columns += g.width;
        at += used;
    }
    CHECK(!coloured);
    return columns;
}

static void check_lines(const char *text, const struct tui_view *v)
{
    size_t lines = 0;
    while (*text) {
        const size_t size = strcspn(text, "\n");
        CHECK_EQ(text[size], '\n');
        CHECK_LE(check_line(text, size, v), v->width > 0 ? v->width - 1 : 0);
        text += size + 1;
        lines++;
    }
    CHECK_LE(lines, v->height > 0 ? v->height - 1 : 0);
    if (v->height > 1 && v->width > 1)
        CHECK_GE(lines, 1);
}

/* --- random runs ------------------------------------------------------------------------------------ */

static uint64_t state;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static unsigned below(unsigned n)
{
    return (unsigned)(next_random() % n);
}

/* A random number: mostly small, sometimes the largest possible. */
static uint64_t any_count(void)
{
    return below(4) ? below(1000) : next_random() >> below(64);
}

/* Bytes of every kind: letters, controls, incomplete characters, wide characters, combining marks, and characters that
 * must not be shown. */
static void any_text(char *out, size_t size)
{
    static const char *const pieces[] = {
        "a", "word ",     "\n",           "\033[1m", "\xff",     "\xe6\x97", "日",
        "é", "e\xcc\x81", "\xe2\x80\xae", "😀",       "\xc2\x85", "\t",
    };
    size_t n = below((unsigned)size), at = 0;
    while (at + 8 < n) {
        const char *piece = pieces[below(sizeof pieces / sizeof *pieces)];
        memcpy(out + at, piece, strlen(piece));
        at += strlen(piece);
    }
    out[at] = 0;
}

static struct made_up *any_run(void)
{
    struct made_up *m = made_run("");
    struct gd_stats *a = &m->stats;
    any_text(m->s.job, sizeof m->s.job);
    any_text(m->h.failure, sizeof m->h.failure);
    any_text(m->h.request, sizeof m->h.request);
    m->h.refused = below(2);
    uint64_t *const counts[] = { &a->total,    &a->taken,   &a->pending, &a->running,        &a->completed, &a->failed,
                                 &a->timeouts, &a->retried, &a->skipped, &a->setup_failures, &a->crashes };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        *counts[i] = any_count();
    a->start_ns = below(8) ? any_count() : 0;
    a->now_ns = any_count();
    m->s.read_ns = any_count();
    m->s.work_done = (double)any_count();
    m->s.work_total = (double)any_count();
    a->source_done = below(2);
    a->paused = below(4) == 0;
    a->draining = below(4) == 0;
    m->s.ended = below(8) == 0;
    m->s.stale = below(8) == 0;
    const unsigned n = below(5) ? below(12) : below(200);
    for (unsigned i = 0; i < n; i++) {
        char task[96];
        any_text(task, sizeof task);
        struct gd_worker_view *w =
            made_worker(m, (int)below(n), (enum gd_worker_state)below(12), (enum gd_idle_reason)below(10), task, -1);
        w->since_ns = any_count();
        w->completed = any_count();
        w->failed = any_count();
        w->last_ns = any_count();
        w->device_out = below(6) == 0;
        w->in_flight = any_count();
        if (below(3)) {
            made_device(m, (int)i);
            m->devices[m->s.n_devices - 1].group = below(4) ? (int64_t)i : (int64_t)below(n);
            m->devices[m->s.n_devices - 1].known = below(16);
            m->devices[m->s.n_devices - 1].memory_free = any_count();
            m->devices[m->s.n_devices - 1].memory_total = any_count();
        }
    }
    return m;
}

TEST_WITHIN(120, any_screen_fits)
{
    const int n = test_soak() ? 200000 : 5000;
    for (int seed = 1; seed <= n; seed++) {
        state = (uint64_t)seed * 0x9e3779b97f4a7c15;
        const struct made_up *m = any_run();
        const struct tui_view v = { .width = below(4) ? below(120) : below(400),
                                    .height = below(4) ? below(40) : below(300),
                                    .colour = below(2),
                                    .utf8 = below(2),
                                    .last_events = below(2),
                                    .media = below(2) ? "audio" : NULL,
                                    .hint = below(2) ? "q leaves" : NULL };
        char *text = laid_out(m, &v);
        check_lines(text, &v);
        free(text);
        struct gd__buffer b = { 0 };
        view_json(&b, &m->s, &m->h);
        CHECK(gd__json_valid(b.data, b.size));
        gd__buffer_free(&b);
    }
}

/* A bar is full only at the end, even if just one of very many tasks is left. All of the bar may be failures. */
TEST(a_bar_is_full_at_the_end_only)
{
    const struct tui_view v = { .width = 20, .height = 24 };
    struct made_up *m = one_gpu();
    m->stats.completed = m->stats.timeouts = 0;
    m->stats.total = UINT64_MAX;
    m->stats.failed = UINT64_MAX - 1;
    char *text = laid_out(m, &v);
    CHECK_CONTAINS(text, "\n##################.\n");
    free(text);
    m->stats.failed++;
    text = laid_out(m, &v);
    CHECK_CONTAINS(text, "\n###################\n");
    free(text);
}

/* If one more task is done, only figures change. The columns keep their positions. */
TEST(columns_stay)
{
    const struct tui_view v = { .width = 100, .height = 24, .utf8 = true };
    struct made_up *m = two_gpus();
    char *before = laid_out(m, &v);
    m->workers[0].completed = 9999;
    m->workers[0].since_ns = m->s.read_ns - 100 * SECOND;
    memcpy(m->workers[0].task, "x", 2);
    char *after = laid_out(m, &v);
    const char *heading = strstr(before, "\nGPU"), *heading_after = strstr(after, "\nGPU");
    CHECK(heading && heading_after);
    CHECK_EQ(strcspn(heading + 1, "\n"), strcspn(heading_after + 1, "\n"));
    CHECK_EQ(memcmp(heading, heading_after, strcspn(heading + 1, "\n") + 1), 0);
    free(before);
    free(after);
}

/* Paths in one directory have the same beginning, so their ends are shown. Other texts begin with what matters. */
TEST(a_long_path_shows_its_end)
{
    static const struct {
        const char *task, *shown;
    } cases[] = {
        { "/srv/recordings/2026/interviews/of-a-long-day/one.wav", "…6/interviews/of-a-long-day/one.wav " },
        { "\xe6\x97\xa5\xe6\x9c\xac/recordings/interviews/of-a-long-day/two.wav",
          "…s/interviews/of-a-long-day/two.wav " },
        { "a prompt that is quite long and/or has a slash in it", "a prompt that is quite long and/or…" },
        { "{\"file\": \"/srv/recordings/2026/interviews/one.wav\"}", "{\"file\": \"/srv/recordings/2026/int…" },
    };
    const struct tui_view v = { .width = 80, .height = 24, .utf8 = true };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct made_up *m = made_run("transcribe");
        made_worker(m, 0, GD_WORKER_BUSY, GD_IDLE_NOT, cases[i].task, 1);
        char *text = laid_out(m, &v);
        CHECK_CONTAINS(text, cases[i].shown);
        free(text);
    }
}

/* --- figures ------------------------------------------------------------------------------------------- */

TEST(rates_and_times)
{
    struct view_figures f;
    struct made_up *m = one_gpu();
    view_figures_of(&f, &m->s, &m->h);
    CHECK(f.elapsed == 125);
    CHECK(f.rate_mean == 3.6);
    CHECK(f.rate_now == 4); /* 36 in 9 s */
    CHECK(f.part == 0.45);
    CHECK(f.eta > 146.9 && f.eta < 147.1); /* 550 at 449 in 120 s */
    m->stats.skipped = 100;
    view_figures_of(&f, &m->s, &m->h);
    CHECK_EQ(f.passed, 550);
    CHECK(f.part == 0.55 && f.rate_mean == 3.6);
    m->stats.source_done = 1; /* now the total is known */
    view_figures_of(&f, &m->s, &m->h);
    CHECK_EQ(f.total, 600);
    memset(&m->h, 0, sizeof m->h);
    m->h.first = (struct view_sample){ .ns = m->s.read_ns, .ended = 450 }; /* an observer that has just started */
    view_figures_of(&f, &m->s, &m->h);
    CHECK(f.rate_now < 0);
    CHECK(f.eta > 13.8 && f.eta < 14); /* 50 at 450 in 125 s */
}

/* After Ctrl-C, tasks that never began have not failed, are not done, and will not be run. */
TEST(cancelled_tasks)
{
    const struct tui_view v = { .width = 80, .height = 24 };
    struct view_figures f;
    struct made_up *m = one_gpu();
    struct gd_stats *a = &m->stats;
    a->cancelled = 100;
    a->failed += 100;
    const uint64_t failed = a->failed - 100;
    view_part_cancelled(a);
    CHECK_EQ(a->failed, failed);
    a->source_done = 1;
    view_figures_of(&f, &m->s, &m->h);
    CHECK_EQ(f.passed, 450);
    CHECK_EQ(f.total, 1000); /* the whole list, although no more of it is read */
    CHECK(f.eta < 0);
    char *text = laid_out(m, &v);
    CHECK_CONTAINS(text, "100 cancelled");
    free(text);
    *a = (struct gd_stats){ .failed = 1, .cancelled = 2 }; /* figures that contradict each other */
    view_part_cancelled(a);
    CHECK_EQ(a->failed, 0);
}

TEST(nothing_known_yet)
{
    struct view_figures f;
    const struct made_up *m = not_begun();
    view_figures_of(&f, &m->s, &m->h);
    CHECK(f.elapsed == 0 && f.rate_mean < 0 && f.rate_now < 0 && f.eta < 0 && f.part < 0);
}

TEST(history)
{
    struct view_history h = { 0 };
    struct view_figures f;
    struct made_up *m = one_gpu();
    m->stats.failed = m->stats.timeouts = 0;
    /* Ten tasks per second for thirty seconds, then five per second for twenty seconds. */
    for (unsigned i = 0; i <= 500; i++) {
        m->s.read_ns = m->stats.now_ns = (1000 + (uint64_t)i / 10) * SECOND + i % 10 * SECOND / 10;
        m->stats.completed = i <= 300 ? i : 300 + (i - 300) / 2;
        view_history_add(&h, &m->s);
    }
    view_figures_of(&f, &m->s, &h);
    CHECK(f.rate_now > 4.8 && f.rate_now < 5.2);
    CHECK_EQ(h.first.ended, 1);
    m->s.n_failures = 1;
    snprintf(m->failures[0].input, sizeof m->failures[0].input, "a.wav");
    snprintf(m->failures[0].error, sizeof m->failures[0].error, "no");
    view_history_add(&h, &m->s);
    CHECK_STR(h.failure, "a.wav: no");
    m->stats.completed = 3; /* another run */
    m->s.n_failures = 0;
    view_history_add(&h, &m->s);
    CHECK_STR(h.failure, "");
    CHECK_EQ(h.n, 1);
}

TEST(figures_as_written)
{
    char b[64];
    CHECK_STR(view_show_clock(b, sizeof b, 3723.9), "1:02:03");
    CHECK_STR(view_show_clock(b, sizeof b, 0), "0:00:00");
    CHECK_STR(view_show_clock(b, sizeof b, -1), "-");
    CHECK_STR(view_show_clock(b, sizeof b, 1e300), "100000:00:00");
    CHECK_STR(view_show_duration(b, sizeof b, 2.5, true), "2.5 s");
    CHECK_STR(view_show_duration(b, sizeof b, 0.0123, true), "12.3 ms");
    CHECK_STR(view_show_duration(b, sizeof b, 0.5123, true), "512 ms");
    CHECK_STR(view_show_duration(b, sizeof b, 0.0000123, true), "12.3 µs");
    CHECK_STR(view_show_duration(b, sizeof b, 0.0000123, false), "12.3 us");
    CHECK_STR(view_show_duration(b, sizeof b, 599, true), "599 s");
    CHECK_STR(view_show_duration(b, sizeof b, 600, true), "0:10:00");
    CHECK_STR(view_show_since(b, sizeof b, 0.04), "0.0 s");
    CHECK_STR(view_show_since(b, sizeof b, 99.96), "100 s");
    CHECK_STR(view_show_count(b, sizeof b, 0), "0");
    CHECK_STR(view_show_count(b, sizeof b, 999), "999");
    CHECK_STR(view_show_count(b, sizeof b, 1000), "1,000");
    CHECK_STR(view_show_count(b, sizeof b, UINT64_MAX), "18,446,744,073,709,551,615");
    CHECK_STR(view_show_short_count(b, sizeof b, 9999999), "9,999,999");
    CHECK_STR(view_show_short_count(b, sizeof b, 12345678), "12.3M");
    CHECK_STR(view_show_short_count(b, sizeof b, 999999999), "1.0G");
    CHECK_STR(view_show_short_count(b, sizeof b, UINT64_MAX), "18.4E");
    CHECK_STR(view_show_rate(b, sizeof b, -1), "-");
    CHECK_STR(view_show_rate(b, sizeof b, 0), "0");
    CHECK_STR(view_show_rate(b, sizeof b, 0.0123), "0.012");
    CHECK_STR(view_show_rate(b, sizeof b, 3.44), "3.4");
    CHECK_STR(view_show_rate(b, sizeof b, 34.4), "34");
    CHECK_STR(view_show_rate(b, sizeof b, 123456.7), "123,457");
    CHECK_STR(view_show_memory(b, sizeof b, UINT64_C(68) << 30, UINT64_C(80) << 30), "68/80G");
    CHECK_STR(view_show_memory(b, sizeof b, UINT64_C(1) << 29, UINT64_C(16) << 30), "0.5/16G");
    CHECK_STR(view_show_memory(b, sizeof b, 0, 512 << 20), "0/512M");
}

/* --- characters ------------------------------------------------------------------------------------------- */

TEST(columns_of_text)
{
    static const struct {
        const char *text;
        size_t columns;
    } texts[] = {
        { "", 0 },
        { "abc", 3 },
        { "é", 1 },
        { "日本", 4 },
        { "e\xcc\x81", 1 },
        { "😀", 2 },
        { "\xe2\x80\x8b", 0 },
        { "\xff", 1 },
        { "\xe6\x97", 2 },
        { "\n", 1 },
        { "한글", 4 },
        { "ｆｕｌｌ", 8 },
        { "ไทย\xe0\xb8\xb5", 3 },
        { "…", 1 },
        { "×", 1 },
        { "\xc0\x80", 2 },
        { "\xf4\x90\x80\x80", 4 },
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (tui_columns(texts[i].text, true) != texts[i].columns)
            FAIL("\"%s\" takes %zu columns", texts[i].text, tui_columns(texts[i].text, true));
    }
}

TEST(a_wide_character_is_not_cut_in_half)
{
    struct gd__buffer b = { 0 };
    struct tui_line l = { .out = &b, .width = 6, .utf8 = true };
    tui_add(&l, TUI_PLAIN, "日本語の");
    CHECK_EQ(l.column, 5);
    tui_end(&l);
    gd__buffer_add(&b, "", 1);
    CHECK_STR(b.data, "日本…\n");
    gd__buffer_free(&b);
}

TEST_MAIN()
