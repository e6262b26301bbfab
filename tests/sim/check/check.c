/* The conditions that must hold after every event, and at the end. */
#include "sim/check/check.h"

/* --- after every event --- */

void check_after_event(struct sim *s)
{
    const struct gd__sched *sched = &s->sched;
    const uint64_t bound = sched->finals + sched->running + sched->config.queue_size;
    s->peak_slots = gd__max64(s->peak_slots, sched->outstanding);
    s->peak_allowed = gd__max64(s->peak_allowed, bound);
    SIM_MUST(s, sched->allowed >= bound, "the source may give %llu tasks, but %llu should be allowed",
             LLU(sched->allowed), LLU(bound));
    SIM_MUST(s, sched->allowed <= s->peak_allowed, "the source may give %llu tasks, but at most %llu are allowed",
             LLU(sched->allowed), LLU(s->peak_allowed));
    const bool over = s->source_over && sched->outstanding == 0 && !sched->stopping && !sched->workers_stopped;
    SIM_MUST(s, sched->end != GD__END_SHORTAGE || s->now >= s->began_at + s->plan.config.shortage_wait_ns,
             "the run ends too early because of a shortage");
    SIM_MUST(s, !over || !s->plan.config.keep_workers || gd__sched_finished(sched),
             "every task is final, but the run goes on");
    SIM_MUST(s, s->taken == sched->finals + sched->outstanding, "%llu taken, %llu final, %llu outstanding",
             LLU(s->taken), LLU(sched->finals), LLU(sched->outstanding));
    if (s->handled % s->plan.check_every != 0)
        return;
    check_workers(s);
    check_control(s);
    check_deadlines(s);
    check_places(s);
}

/* --- the end --- */

/* Whether a worker of this device can still be added. Then the device is not out of use. */
static bool has_spare(const struct sim *s, unsigned device)
{
    for (unsigned w = device; w < s->plan.config.n_workers; w++)
        if (s->sched.workers[w].device == device && s->sched.workers[w].state == GD__WORKER_SPARE)
            return true;
    return false;
}

void check_end(struct sim *s)
{
    const struct gd__sched *sched = &s->sched;
    const struct gd__sched_counts *n = &sched->counts;
    uint64_t failed = 0;
    for (unsigned w = 0; w < s->plan.config.n_workers && !sched->resting; w++)
        SIM_MUST(s, s->procs[w].state == PROC_NONE, "finished, but worker %u has a process", w);
    for (uint64_t id = 0; id < s->taken; id++)
        SIM_MUST(s, s->tasks[id].delivered == 1, "task %llu was lost", LLU(id));
    for (unsigned f = GD_FAILURE_ERROR; f <= GD_FAILURE_NO_WORKER; f++)
        failed += f == GD_FAILURE_TIMEOUT ? 0 : s->results[f];
    SIM_MUST(s,
             n->taken == s->taken && n->completed == s->results[GD_FAILURE_NONE] && n->failed == failed &&
                 n->timeouts == s->results[GD_FAILURE_TIMEOUT],
             "the counts are wrong: %llu %llu %llu %llu", LLU(n->taken), LLU(n->completed), LLU(n->failed),
             LLU(n->timeouts));
    SIM_MUST(s, n->setup_failures == s->setup_failures_told, "%llu setup failures, %llu reported",
             LLU(n->setup_failures), LLU(s->setup_failures_told));
    SIM_MUST(s, s->spawns <= s->first_spawns + n->restarts, "%llu restarts of %llu", LLU(s->spawns - s->first_spawns),
             LLU(n->restarts));
    for (unsigned w = 0; w < s->plan.config.n_workers; w++)
        SIM_MUST(s,
                 (sched->end != GD__END_SETUP && sched->end != GD__END_NO_WORKERS) ||
                     s->device_out[sched->workers[w].device] || has_spare(s, sched->workers[w].device),
                 "no worker is left, but the device of worker %u was not reported as out of use", w);
    const bool natural = !s->plan.shutdown_at && !s->plan.abort_at && sched->end == GD__END_NATURAL;
    SIM_MUST(s, !natural || s->plan.source_cut_at || s->taken == s->plan.n_tasks, "only %llu tasks were taken",
             LLU(s->taken));
}
