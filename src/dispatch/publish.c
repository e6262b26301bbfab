/* The page of a run for observers (src/stats). The run's thread writes it at most once a millisecond, together with the
 * figures for other threads.
 *
 * Tasks that end are put into a ring when they are delivered. The number of tasks per second is limited, in all and for
 * each worker. So the ring holds at least the last second of the fastest run, with a sample of every worker's tasks. If
 * the run is slower, no task is left out. Tasks above the limit are only counted.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text/printable.h"
#include "dispatch/internal.h"
#include "stats/idle.h"
#include "stats/observer.h"
#include "stats/page/page.h"

#define TASK_EVERY_NS    (GD__NS_PER_S / (GD__PAGE_TASKS / 2)) /* on average, for all workers together */
#define FAILURE_EVERY_NS (GD__NS_PER_S / (GD__PAGE_FAILURES / 2))
#define LOOK_AGAIN_MOST  GD__NS_PER_S
enum { TASK_BURST = GD__PAGE_TASKS / 2, FAILURE_BURST = GD__PAGE_FAILURES / 2 }; /* how many may come at once */

struct shown {
    struct gd__page_worker worker;
    uint64_t not_started; /* position + 1 of a task that it had not started at the last check; 0: no such task */
    uint64_t task_at;     /* see may_pass() */
};

struct gd__publisher {
    struct gd__page *page;
    struct shown *workers;           /* one for each worker; one more for tasks without a worker */
    uint64_t task_every, task_slack; /* see may_pass() */
    uint64_t failure_at;
    uint64_t look_again; /* check a worker that has not started its task again after this time; 0: no need */
};

/* --- a worker --- */

/* Copies the part of an input that is shown. */
static size_t copy_input(const struct gd_dispatcher *d, const void *input, size_t size, char *to, size_t room)
{
    char described[GD__TEXT_LOOKED_AT]; /* larger than the room on the page, because the end of a path is kept */
    if (!d->hooks.describe)
        return gd__text_keep(to, room, input, size);
    const size_t n = d->hooks.describe(d->hooks.user, input, size, described, sizeof described);
    return gd__text_keep(to, room, described, n);
}

/* Only this process writes to the arena, so the input can be read in place. */
static void show_input(const struct gd_dispatcher *d, const struct gd__task *t, struct gd__page_worker *out)
{
    struct gd__payload p;
    memcpy(&p, t->payload, sizeof p);
    const char *input =
        p.size > GD__INLINE_MAX ? (const char *)gd__feeder_arena(d->feeder)->base + p.offset : (const char *)p.bytes;
    out->task_size = copy_input(d, input, p.size, out->task, sizeof out->task);
}

/* Reads what the worker's process reports about itself. */
static void ask_process(const struct gd__seat *seat, uint64_t head, struct gd__idle_facts *f, uint64_t *start_ns)
{
    const struct gd__channel *c = &seat->channel;
    struct gd__progress p;
    gd__channel_progress(c, head, &p);
    const uint64_t waiting = atomic_load_explicit(&c->in->tail, memory_order_acquire) - c->result_head;
    f->results_waiting = waiting <= c->result_capacity ? waiting : 0;
    f->wants_room = atomic_load_explicit(&c->in->sleeping, memory_order_relaxed) != 0 &&
                    atomic_load_explicit(&c->in->wants_room, memory_order_relaxed) != 0;
    f->is_started = p.started > head;
    f->is_loading = p.loading > head;
    *start_ns = p.start_ns;
}

static struct gd__idle_facts facts_of(const struct gd_dispatcher *d, unsigned i, uint64_t *start_ns)
{
    const struct gd__sched *s = &d->sched;
    const struct gd__sched_worker *w = &s->workers[i];
    struct gd__idle_facts f = {
        .state = gd__sched_worker_state(s, i),
        .is_spare = w->state == GD__WORKER_SPARE,
        .is_paused = s->paused,
        .handed = w->tail - w->head + w->n_flight,
        .waiting = s->backlog.count + s->solo.count + s->by_size_count + w->placed.count,
        .parked = s->n_parked,
        .source_ended = s->source_ended && !gd__runs_resting(d),
        .queue_is_full = s->next_id >= s->allowed,
    };
    if (f.handed > 0 && d->seats[i].live)
        ask_process(&d->seats[i], w->head, &f, start_ns);
    if (w->n_flight > 0) {
        f.is_started = true;
        *start_ns = gd__sched_oldest(s, i)->begin_ns;
    }
    return f;
}

/* When the worker's task started: the time that the worker reported, if it is plausible. */
static uint64_t since(const struct gd_dispatcher *d, unsigned i, const struct gd__idle_facts *f, uint64_t start_ns,
                      uint64_t now)
{
    const uint64_t first = d->sched.workers[i].head_since;
    if (!f->is_started || start_ns == 0 || start_ns > now)
        return first < now ? first : now;
    return start_ns;
}

static void show_worker(struct gd_dispatcher *d, unsigned i, uint64_t now)
{
    struct shown *shown = &d->publisher->workers[i];
    struct gd__page_worker *w = &shown->worker;
    const struct gd__task *t = gd__sched_oldest(&d->sched, i);
    const uint64_t was_task = w->task_size > 0 ? w->stats.current_task : UINT64_MAX, was_idle = w->idle;
    uint64_t start_ns = 0;
    const struct gd__idle_facts f = facts_of(d, i, &start_ns);
    w->stats = d->worker_stats[i];
    w->idle = gd__idle_why(&f);
    w->device_out = d->sched.workers[d->sched.workers[i].device].device_out;
    if (w->idle == GD_IDLE_NOT)
        w->since_ns = since(d, i, &f, start_ns, now);
    else if (w->idle != was_idle || w->since_ns == 0)
        w->since_ns = now;
    if (!t)
        w->task_size = 0;
    else if (gd__task_number(t) != was_task)
        show_input(d, t, w);
    gd__page_put_worker(d->publisher->page, i, w);

    /* Nothing wakes a sleeping loop when a task is started, so the loop wakes up to check. */
    const uint64_t not_started = t && d->seats[i].live && !f.is_started ? d->sched.workers[i].head + 1 : 0;
    if (not_started > 0 && not_started != shown->not_started)
        d->publisher->look_again = PUBLISH_EVERY_NS;
    shown->not_started = not_started;
}

/* --- the whole --- */

void gd__publish(struct gd_dispatcher *d, const struct gd_stats *stats, const struct gd__work *work)
{
    struct gd__publisher *p = d->publisher;
    const uint64_t now = stats->now_ns;
    if (!p || !d->seats)
        return;
    bool unsettled = false;
    p->look_again = p->look_again < LOOK_AGAIN_MOST ? 2 * p->look_again : LOOK_AGAIN_MOST;
    for (unsigned i = 0; i < d->n_workers; i++) {
        show_worker(d, i, now);
        unsettled = unsettled || p->workers[i].not_started > 0;
    }
    if (!unsettled)
        p->look_again = 0;
    p->page->run.stats = *stats;
    p->page->run.work_done = work->done;
    p->page->run.work_total = work->total;
    p->page->run.published_ns = now;
    gd__page_put_run(p->page);
}

uint64_t gd__publish_look_again(const struct gd_dispatcher *d)
{
    return d->publisher && d->publisher->look_again > 0 ? d->stats_at + d->publisher->look_again : GD__NEVER;
}

void gd__publish_awake(struct gd_dispatcher *d, uint64_t since_ns)
{
    if (d->publisher)
        gd__page_awake(d->publisher->page, since_ns);
}

/* --- tasks that end --- */

/* A rate limit: on average one event per `every`, and as many at once as fit into the slack. *at is when the next event
 * would come if the events came evenly. */
static inline bool may_pass(uint64_t *at, uint64_t now, uint64_t every, uint64_t slack)
{
    if (*at > now + slack)
        return false;
    *at = (*at > now ? *at : now) + every;
    return true;
}

static void put_failure(const struct gd_dispatcher *d, const struct gd_task_view *task, const struct gd_report *r)
{
    struct gd__page_failure f = { .task = *task };
    const size_t error_size = r->error ? strlen(r->error) : 0;
    f.input_size = (uint32_t)copy_input(d, r->input, r->input_size, f.input, sizeof f.input);
    f.error_size = (uint32_t)(error_size < sizeof f.error ? error_size : sizeof f.error);
    if (error_size > 0)
        memcpy(f.error, r->error, f.error_size);
    gd__page_put_failure(d->publisher->page, &f);
}

void gd__publish_try(struct gd_dispatcher *d, const struct gd__task *t, const struct gd__outcome *o)
{
    struct gd__publisher *p = d->publisher;
    if (o->worker < 0 || o->start_ns == 0)
        return;
    p->page->run.tasks_ended++;
    if (may_pass(&p->workers[o->worker].task_at, d->now, p->task_every, p->task_slack))
        gd__page_put_task(p->page, &(struct gd_task_view){ .task_id = gd__task_number(t),
                                                           .worker_id = o->worker,
                                                           .gpu_id = d->copy.gpu_ids[o->worker],
                                                           .start_ns = o->start_ns,
                                                           .end_ns = o->end_ns,
                                                           .attempt = t->attempt,
                                                           .again = 1,
                                                           .failure = (uint64_t)o->failure });
}

void gd__publish_final(struct gd_dispatcher *d, int worker, const struct gd_report *r)
{
    struct gd__publisher *p = d->publisher;
    struct gd__page_run *run = &p->page->run;
    struct shown *from = &p->workers[worker < 0 ? d->n_workers : (unsigned)worker];
    const bool put_task = may_pass(&from->task_at, d->now, p->task_every, p->task_slack);
    const bool put_error = r->failure != GD_FAILURE_NONE &&
                           may_pass(&p->failure_at, d->now, FAILURE_EVERY_NS, FAILURE_EVERY_NS * FAILURE_BURST);
    run->tasks_ended++;
    run->failures_ended += r->failure != GD_FAILURE_NONE;
    if (!put_task && !put_error)
        return;
    const struct gd_task_view task = {
        .task_id = r->task_id,
        .worker_id = r->worker_id,
        .gpu_id = r->gpu_id,
        .start_ns = r->start_ns,
        .end_ns = r->end_ns,
        .attempt = r->attempt,
        .failure = (uint64_t)r->failure,
    };
    if (put_task)
        gd__page_put_task(p->page, &task);
    if (put_error)
        put_failure(d, &task, r);
}

void gd__publish_request(struct gd_dispatcher *d, const char *what, int code)
{
    struct gd__page_request r = { .at_ns = d->now, .code = code };
    if (!d->publisher)
        return;
    r.text_size = strnlen(what, sizeof r.text);
    memcpy(r.text, what, r.text_size);
    gd__page_put_request(d->publisher->page, &r);
}

/* --- opening and closing --- */

static struct gd__page_device *describe_devices(const struct gd_dispatcher *d)
{
    struct gd__page_device *out = gd__calloc(d->n_gpus, sizeof *out);
    for (unsigned i = 0; out && i < d->n_gpus; i++) {
        const struct gd__run_gpu *gpu = &d->gpus[i];
        out[i].gpu_id = gpu->gpu_id;
        out[i].vendor = gpu->vendor;
        snprintf(out[i].name, sizeof out[i].name, "%s", gpu->name);
        snprintf(out[i].uuid, sizeof out[i].uuid, "%s", gpu->names.uuid);
        out[i].group = d->gpus[d->devices[gpu->device].first_gpu].gpu_id;
    }
    return out;
}

static int open_publisher(struct gd_dispatcher *d, struct gd__publisher *p)
{
    struct gd__page_device *devices = describe_devices(d);
    p->task_every = TASK_EVERY_NS * (d->n_workers + 1); /* one worker's share */
    p->task_slack = TASK_EVERY_NS * TASK_BURST;
    p->workers = gd__calloc(d->n_workers + 1, sizeof *p->workers);
    int rc = p->workers && devices ? 0 : gd__error(GD_E_NO_MEMORY, "no memory for the status page of this run");
    const struct gd__page_spec spec = {
        .job = d->o.job,
        .n_workers = d->n_workers,
        .n_devices = d->n_gpus,
        .devices = devices,
    };
    if (rc == 0)
        rc = gd__page_open(&p->page, &spec);
    gd__free(devices);
    return rc;
}

/* A run whose page cannot be created runs without it. */
void gd__publish_open(struct gd_dispatcher *d)
{
    if (!d->o.job)
        return;
    d->publisher = gd__calloc(1, sizeof *d->publisher);
    if (d->publisher && open_publisher(d, d->publisher) < 0)
        gd__publish_close(d);
    d->o.job = NULL; /* the string belongs to the caller */
}

int gd__publish_place(const struct gd_dispatcher *d, const char **name)
{
    if (!d->publisher)
        return -1;
    *name = d->publisher->page->name;
    return d->publisher->page->directory;
}

void gd__publish_end(struct gd_dispatcher *d)
{
    if (d->publisher)
        gd__page_end(d->publisher->page);
}

void gd__publish_close(struct gd_dispatcher *d)
{
    if (!d->publisher)
        return;
    gd__page_close(&d->publisher->page);
    gd__free(d->publisher->workers);
    gd__free(d->publisher);
    d->publisher = NULL;
}

int gd_observer_attach(struct gd_observer **out, struct gd_dispatcher *d)
{
    if (!out || !d)
        return gd__error(GD_E_INVALID, "gd_observer_attach: the dispatcher or out is NULL");
    *out = NULL;
    if (!d->publisher)
        return gd__error(GD_E_NO_JOB, "this run is not published: give it a name in gd_options.job");
    const int fd = fcntl(d->publisher->page->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return fd < 0 ? gd__error_errno("cannot copy a descriptor") : gd__observer_open_page(out, fd, true);
}
