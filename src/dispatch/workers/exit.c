/* The end of a worker's process. First its pidfd becomes readable. Then its results are read, and processes that it
 * left running are ended, if the user wants that (strays.c). Then the tasks that it had started are looked up, and both
 * rings are freed with their memory. A ring is never repaired. Last, the end is reported to the scheduler, which hands
 * the tasks to other workers. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "dispatch/internal.h"
#include "worker/host.h"

enum { LAST_LINES = 10, DEATH_MESSAGE_MAX = GD__TAIL_BYTES + 1024 };

/* --- the end of a process --- */

/* Whether the process exited by itself and never opened its channel. Then the program is not a worker. */
static bool is_no_worker(const struct gd__seat *seat, const struct gd__exit *e)
{
    return e->known && e->signal == 0 && e->code != GD__EXIT_BOOT && e->code != GD__EXIT_SHORTAGE &&
           !gd__channel_attached(&seat->channel);
}

static void describe_death(const struct gd__seat *seat, const struct gd__exit *e, char *text, size_t size)
{
    char how[128], last[GD__TAIL_BYTES + 1];
    const char *killed = e->signal == SIGKILL ? gd__sched_kill_message(&seat->d->sched, seat->index) : NULL;
    gd__exit_describe(e, how, sizeof how);
    const size_t n = gd__output_last_lines(&seat->err, LAST_LINES, last, sizeof last);
    int length = snprintf(text, size, "%s%s",
                          seat->broken ? seat->message
                          : killed     ? killed
                                       : how,
                          seat->broken            ? "; it was killed"
                          : is_no_worker(seat, e) ? " without calling gd_worker_main(): a worker program must call it "
                                                    "at the start of main()"
                                                  : "");
    if (n > 0 && length > 0 && (size_t)length < size)
        snprintf(text + length, size - (size_t)length, "; its last output:\n%s", last);
}

/* Reports a worker that died in cleanup, or that was killed because its cleanup took too long. */
static void report_cleanup_crash(const struct gd__seat *seat, const char *message)
{
    const bool cleaned = seat->said & (1u << GD__R_BYE | 1u << GD__R_CLEANUP_FAILED);
    const bool in_cleanup = seat->told_to_stop && (seat->said & 1u << GD__R_READY) && !cleaned;
    if (in_cleanup)
        gd__deliver_cleanup_failed(seat->d, seat->index, message);
}

/* Reads the records that are left. Their number is limited, because a process that the worker started may still
 * write. */
static void read_last_records(struct gd__seat *seat)
{
    struct gd_dispatcher *d = seat->d;
    d->now = gd__now_ns();
    gd__monitor_obey(d); /* before the seat is cleared */
    for (uint64_t n = 0; n <= seat->channel.result_capacity && gd__records_drain(d, seat); n++)
        ;
}

void gd__seat_ended(struct gd__seat *seat)
{
    struct gd_dispatcher *d = seat->d;
    const struct gd__exit *e = &seat->exit;
    char message[DEATH_MESSAGE_MAX];
    struct gd__progress p;
    read_last_records(seat);
    gd__output_drain(&seat->out);
    gd__output_drain(&seat->err);
    describe_death(seat, e, message, sizeof message);
    gd__channel_progress(&seat->channel, d->sched.workers[seat->index].head, &p);
    const struct gd__death death = {
        .started = p.started,
        .loading = p.loading,
        .start_ns = p.start_ns < d->now ? p.start_ns : d->now,
        .signal = e->signal,
        .exit_code = e->code,
        .shortage = e->code == GD__EXIT_SHORTAGE && !(seat->said & 1u << GD__R_READY),
        .message = message,
    };
    report_cleanup_crash(seat, message);
    gd__seat_clear(seat);
    d->now = gd__now_ns(); /* callbacks may have taken long, and new time limits begin now */
    gd__sched_exited(&d->sched, d->now, seat->index, &death);
    gd__queue_count_slots(d);
}

void gd__seat_process_ended(struct gd__watch *w, uint32_t events)
{
    (void)events;
    struct gd__seat *seat = (struct gd__seat *)((char *)w - offsetof(struct gd__seat, pid_watch));
    if (!gd__child_can_be_reaped(&seat->child))
        return;
    gd__loop_remove(&seat->d->loop, &seat->pid_watch); /* before its descriptor is closed */
    seat->exit = (struct gd__exit){ .known = false };
    gd__children_lock(seat->d);
    seat->ended_pid = seat->child.pid;
    if (gd__child_reap(&seat->child, &seat->exit) < 0)
        gd__child_forget(&seat->child);
    gd__children_unlock(seat->d);
    read_last_records(seat); /* first, because processes of finished tasks are left running */
    if (!gd__strays_end(seat))
        gd__seat_ended(seat);
}

/* Ends a process by its process id, which stays valid until the process is waited for. The pidfd is closed, and its
 * number may belong to another file now. */
static void end_by_number(struct gd__seat *seat)
{
    const pid_t pid = seat->child.pid;
    int status = 0;
    if (kill(-pid, SIGKILL) < 0)
        kill(pid, SIGKILL);
    pid_t got;
    do
        got = waitpid(pid, &status, 0);
    while (got < 0 && errno == EINTR);
    seat->exit = (struct gd__exit){ .known = got == pid,
                                    .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                                    .code = WIFEXITED(status) ? WEXITSTATUS(status) : 0 };
    gd__children_lock(seat->d);
    seat->child = (struct gd__child)GD__CHILD_NONE;
    gd__children_unlock(seat->d);
}

void gd__supervisor_cut_off(struct gd_dispatcher *d)
{
    d->cut_off = true;
    d->feeder_deadline = d->now;
    gd__dispatcher_end_for(d, "the run can no longer wait for its workers");
    gd__sched_abort(&d->sched, d->now);
    for (unsigned i = 0; i < d->n_workers; i++) {
        if (!d->seats[i].live)
            continue;
        if (d->seats[i].child.pid > 0)
            end_by_number(&d->seats[i]);
        gd__seat_ended(&d->seats[i]);
    }
}

void gd__supervisor_tell_failures(struct gd_dispatcher *d)
{
    for (unsigned i = 0; i < d->n_workers && d->spawn_failures > 0; i++) {
        struct gd__seat *seat = &d->seats[i];
        if (!seat->spawn_failed)
            continue;
        seat->spawn_failed = false;
        d->spawn_failures--;
        const struct gd__death death = { .not_spawned = true, .shortage = seat->shortage, .message = seat->message };
        gd__sched_exited(&d->sched, d->now, i, &death);
    }
}

void gd__seat_broken(struct gd__seat *seat, const char *why)
{
    if (seat->broken)
        return;
    seat->broken = true;
    snprintf(seat->message, sizeof seat->message, "broke the protocol (%s)", why);
    gd__sched_broken(&seat->d->sched, seat->d->now, seat->index);
}
