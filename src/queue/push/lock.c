/* The lock of a push: see lock.h. */
#include "queue/push/lock.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/process/owner.h"
#include "base/text/buffer.h"
#include "base/text/figures.h"
#include "base/thread.h"
#include "queue/push/state.h"

enum {
    LOOK_MS = 1000,
    OLD_BEATS = 3,   /* a sign of life that is so many times older than it should be is renewed before a publication */
    SETTLE_MS = 500, /* after a push on this machine has died: what it had sent arrives in this time */
    PAUSE_MS = 100,
    WAIT_TEXT = 400,
};

struct gd__push_lock {
    struct gd__caller *caller, *beater; /* of the push, and of the thread */
    char subject[GD__QUEUE_SUBJECT_ROOM];
    struct gd__push_state self;
    uint32_t beat_ms;
    int end_fd;
    pthread_t thread;
    bool has_thread, taken;

    pthread_mutex_t mutex;    /* held while a sign of life is given, which may take long */
    uint64_t sequence;        /* of our last message; guarded by the mutex */
    _Atomic uint64_t beat_ns; /* when it was sent, by a clock that counts while the machine is suspended */
    atomic_bool lost;
};

static uint64_t now_with_suspend_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * GD__NS_PER_S + (uint64_t)t.tv_nsec;
}

/* --- who we are, who others are --- */

/* "BOOT NAMESPACE START". Empty if it cannot be determined. */
static void process_text(char out[GD__PUSH_PROCESS_ROOM], uint64_t *pid)
{
    struct gd__owner self;
    char boot[GD__BOOT_ID_MAX];
    gd__owner_self(&self);
    gd__owner_boot_id(boot);
    *pid = (uint64_t)getpid();
    out[0] = '\0';
    if (self.space != 0 && self.start != 0 && *boot)
        (void)snprintf(out, GD__PUSH_PROCESS_ROOM, "%s %" PRIu64 " %" PRIu64, boot, self.space, self.start);
}

static int describe_self(struct gd__push_state *s)
{
    unsigned char nonce[(GD__PUSH_NONCE_ROOM - 1) / 2];
    char *p = s->nonce;
    *s = (struct gd__push_state){ .started = (uint64_t)time(NULL) };
    while (getrandom(nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce) {
        if (errno != EINTR)
            return gd__error_errno("cannot get random bytes");
    }
    for (size_t i = 0; i < sizeof nonce; i++)
        p += snprintf(p, 3, "%02x", nonce[i]);
    if (gethostname(s->host, sizeof s->host - 1) < 0)
        (void)snprintf(s->host, sizeof s->host, "unknown");
    process_text(s->process, &s->pid);
    return 0;
}

/* Whether the push was a process of this machine that is gone. False if that is not known. */
static bool is_gone(const struct gd__push_state *s)
{
    char boot[GD__BOOT_ID_MAX], text[GD__BOOT_ID_MAX];
    struct gd__owner owner = { .pid = s->pid };
    gd__owner_boot_id(boot);
    _Static_assert(GD__BOOT_ID_MAX == 64, "the width below");
    if (sscanf(s->process, "%63s %" SCNu64 " %" SCNu64, text, &owner.space, &owner.start) != 3)
        return false;
    return *boot && strcmp(boot, text) == 0 && gd__owner_is_ours(&owner) && !gd__owner_alive(&owner);
}

/* "on n17 (process 4711, for 3m05s)" */
static void describe(char *out, size_t room, const struct gd__push_state *s)
{
    char elapsed[64] = "";
    const uint64_t now = (uint64_t)time(NULL);
    if (s->started > 0 && s->started <= now) {
        char duration[GD__TEXT_FIGURE];
        (void)snprintf(elapsed, sizeof elapsed, ", for %s",
                       gd__text_duration(duration, sizeof duration, (double)(now - s->started)));
    }
    if (*s->host)
        (void)snprintf(out, room, "on %s (process %" PRIu64 "%s)", s->host, s->pid, elapsed);
    else
        (void)snprintf(out, room, "whose description cannot be read");
}

/* --- signs of life --- */

/* Publishes our state on condition that the message with the sequence `last` is there (0: none). */
static int publish(struct gd__push_lock *l, struct gd__caller *c, uint64_t last, struct gd__queue_answer *a)
{
    struct gd__buffer b = { 0 };
    gd__push_state_write(&b, &l->self);
    const int rc = b.failed ? gd__error(GD_E_NO_MEMORY, "no memory for the lock of a push")
                            : gd__call(c,
                                       &(struct gd__queue_request){ .ask = GD__ASK_PUBLISH,
                                                                    .subject = l->subject,
                                                                    .data = b.data,
                                                                    .size = b.size,
                                                                    .condition = last ? GD__IF_LAST : GD__IF_NONE,
                                                                    .sequence = last },
                                       NULL, NULL, a);
    gd__buffer_free(&b);
    return rc;
}

static int look(struct gd__push_lock *l, struct gd__caller *c, struct gd__queue_answer *a)
{
    const struct gd__queue_request q = { .ask = GD__ASK_LAST, .subject = l->subject, .by_leader = true };
    return gd__call(c, &q, NULL, NULL, a);
}

static bool is_ours(const struct gd__push_lock *l, const struct gd__queue_answer *a)
{
    struct gd__push_state s;
    return a->kind == GD__ANSWER_OK && gd__push_state_parse(&s, a->data, a->size) == 0 &&
           strcmp(s.nonce, l->self.nonce) == 0;
}

/* Gives a sign of life. If it is refused, an earlier one may have arrived without an answer: the nonce shows whether the
 * lock is still ours. */
static int beat(struct gd__push_lock *l, struct gd__caller *c)
{
    struct gd__queue_answer a = { 0 };
    const uint64_t now = now_with_suspend_ns();
    int rc = publish(l, c, l->sequence, &a);
    bool ours = a.kind == GD__ANSWER_OK;
    if (rc == 0 && !ours) {
        rc = look(l, c, &a);
        ours = rc == 0 && is_ours(l, &a);
    }
    if (rc < 0)
        return rc;
    if (ours) {
        l->sequence = a.sequence;
        l->beat_ns = now;
        return 0;
    }
    l->lost = true;
    return 0;
}

static void *beat_on(void *user)
{
    struct gd__push_lock *l = user;
    while (gd__call_pause(l->beater, l->beat_ms) == 0) {
        pthread_mutex_lock(&l->mutex);
        if (!l->lost)
            (void)beat(l, l->beater); /* after an error it is tried again: the push has its own patience */
        pthread_mutex_unlock(&l->mutex);
    }
    return NULL;
}

static bool is_old(struct gd__push_lock *l)
{
    return now_with_suspend_ns() - l->beat_ns > OLD_BEATS * l->beat_ms * GD__NS_PER_MS;
}

/* The thread may be waiting for the server with the mutex. The caller waits in a way that its stop descriptor ends. */
static int renew(struct gd__push_lock *l)
{
    int rc = 0;
    while (rc == 0 && !l->lost && is_old(l)) {
        if (pthread_mutex_trylock(&l->mutex) != 0) {
            rc = gd__call_pause(l->caller, PAUSE_MS);
            continue;
        }
        if (is_old(l))
            rc = beat(l, l->caller);
        pthread_mutex_unlock(&l->mutex);
    }
    return rc;
}

int gd__push_lock_check(struct gd__push_lock *l)
{
    const int rc = is_old(l) ? renew(l) : 0;
    if (rc < 0 || !l->lost)
        return rc;
    return gd__error(
        GD_E_BUSY,
        "another push has begun, because this one gave no sign of life for %d s. Push the list again: only "
        "what is missing is added",
        GD__PUSH_DEAD_MS / 1000);
}

/* --- taking and releasing --- */

/* The push that has the lock, while we wait for it. */
struct waiting {
    const struct gd__push_lock_config *config;
    struct gd__push_watch watch;
    uint64_t until_ns;
    bool said;
};

static int wait_for(struct gd__push_lock *l, struct waiting *w, const struct gd__push_state *other)
{
    char who[GD__PUSH_HOST_ROOM + 100];
    describe(who, sizeof who, other);
    if (gd__now_ns() >= w->until_ns)
        return gd__error(GD_E_BUSY,
                         "another push to this queue is going on, %s. Wait until it has ended, or give a longer "
                         "time to wait (--wait)",
                         who);
    if (!w->said && w->config->on_wait) {
        char line[WAIT_TEXT];
        (void)snprintf(line, sizeof line, "waiting for another push to this queue, %s", who);
        w->config->on_wait(w->config->user, line);
    }
    w->said = true;
    return gd__call_pause(l->caller, w->config->look_ms ? w->config->look_ms : LOOK_MS);
}

/* One try. Returns 1 if we have the lock, 0 to try again, or an error. */
static int try_to_take(struct gd__push_lock *l, struct waiting *w)
{
    struct gd__push_state other;
    struct gd__queue_answer a = { 0 };
    int rc = look(l, l->caller, &a);
    if (rc < 0)
        return rc;
    const bool open = gd__push_is_open(&w->watch, gd__now_ns(), &a, &other);
    const bool gone = open && is_gone(&other);
    if (a.kind == GD__ANSWER_OK && is_ours(l, &a)) { /* the answer to the first try was lost */
        l->sequence = a.sequence;
        return 1;
    }
    if (open && !gone)
        return wait_for(l, w, &other);
    if (gone) {
        rc = gd__call_pause(l->caller, SETTLE_MS);
        if (rc < 0)
            return rc;
    }
    l->beat_ns = now_with_suspend_ns();
    rc = publish(l, l->caller, a.kind == GD__ANSWER_OK ? a.sequence : 0, &a);
    if (rc < 0)
        return rc;
    l->sequence = a.sequence;
    return a.kind == GD__ANSWER_OK ? 1 : 0;
}

static int start_beating(struct gd__push_lock *l)
{
    int rc = gd__caller_share(&l->beater, l->caller);
    if (rc < 0)
        return rc;
    l->end_fd = gd__fd_above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (l->end_fd < 0)
        return gd__error_errno("cannot make an eventfd");
    gd__caller_set(l->beater, GD__PUSH_DEAD_MS, l->end_fd);
    rc = gd__thread_start(&l->thread, "gd-push", beat_on, l);
    l->has_thread = rc == 0;
    errno = rc;
    return rc == 0 ? 0 : gd__error_errno("cannot start a thread");
}

static void free_lock(struct gd__push_lock *l)
{
    gd__caller_close(&l->beater);
    gd__fd_close(&l->end_fd);
    pthread_mutex_destroy(&l->mutex);
    gd__free(l);
}

int gd__push_lock_take(struct gd__push_lock **out, struct gd__caller *c, const struct gd__push_lock_config *config)
{
    struct waiting w = { .config = config, .until_ns = gd__now_ns() + config->wait_ms * GD__NS_PER_MS };
    struct gd__push_lock *l = gd__calloc(1, sizeof *l);
    *out = NULL;
    if (!l)
        return gd__error(GD_E_NO_MEMORY, "no memory for the lock of a push");
    pthread_mutex_init(&l->mutex, NULL);
    l->caller = c;
    l->end_fd = -1;
    l->beat_ms = config->beat_ms ? config->beat_ms : GD__PUSH_BEAT_MS;
    gd__queue_state_text(l->subject, config->name, "push");
    int rc = describe_self(&l->self);
    l->self.open = true;
    while (rc == 0)
        rc = try_to_take(l, &w);
    l->taken = rc == 1;
    if (rc == 1)
        rc = start_beating(l);
    if (rc < 0) {
        const bool taken = l->taken;
        *out = l;
        if (taken)
            (void)gd__push_lock_release(out);
        else
            free_lock(l);
        l = NULL;
    }
    *out = l;
    return rc;
}

void gd__push_lock_hurry(struct gd__push_lock *l)
{
    const uint64_t one = 1;
    if (!l->has_thread)
        return;
    (void)!write(l->end_fd, &one, sizeof one);
    pthread_join(l->thread, NULL);
    l->has_thread = false;
}

int gd__push_lock_release(struct gd__push_lock **lock)
{
    struct gd__push_lock *l = lock ? *lock : NULL;
    struct gd__queue_answer a = { 0 };
    int rc = 0;
    if (!l)
        return 0;
    gd__push_lock_hurry(l);
    l->self.open = false;
    if (!l->lost)
        rc = publish(l, l->caller, l->sequence, &a);
    if (rc == 0 && !l->lost && a.kind != GD__ANSWER_OK) { /* a sign of life may have arrived without an answer */
        rc = look(l, l->caller, &a);
        if (rc == 0 && is_ours(l, &a))
            rc = publish(l, l->caller, a.sequence, &a);
    }
    free_lock(l);
    *lock = NULL;
    return rc;
}
