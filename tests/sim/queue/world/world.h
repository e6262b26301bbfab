/* The simulation of a queue with many machines, in virtual time.
 *
 * Each machine has a real node (src/queue/node/) and a real scheduler (src/core/), with virtual workers. The server is a
 * model (server.h). One 64-bit seed determines the plan of faults and every random choice, so a run can be repeated
 * exactly.
 *
 *   plan.c      draws the plan from the seed
 *   world.c     virtual time: the event queue, and what happens when
 *   wire.c      the network: links that delay, drop and repeat messages, lose their connections, and time out
 *   machine.c   a node, its scheduler and its workers
 *   workers.c   virtual workers, and the effects through which the scheduler controls them
 *   pusher.c    adds the tasks to the queue, again and again while the server loses them
 *   faults.c    deaths, drains, partitions, and the end of all that
 *   ledger.c    what is known about each task, and the conditions that must hold
 */
#ifndef GD_TESTS_SIM_QUEUE_WORLD_WORLD_H
#define GD_TESTS_SIM_QUEUE_WORLD_WORLD_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "core/sched.h"
#include "queue/node/node.h"
#include "sim/queue/server/server.h"
#include "sim/random.h"

#define WORLD_BEGINNING (1000 * GD__NS_PER_S)
#define WORLD_NAME      "q"

/* --- the plan --- */

enum task_kind { TASK_FINE, TASK_FAILS, TASK_POISON /* its node dies */, TASK_LOSER /* its worker loses its device */ };

/* Probabilities are in thousandths. */
struct plan {
    unsigned n_machines, n_workers;
    unsigned n_tasks, bundle;
    bool mixed_bundles;  /* bundles have random sizes up to `bundle` */
    unsigned priorities; /* how many different ones */
    unsigned fails, poison, losers;
    unsigned crash_limit;
    uint32_t lease_ms;
    uint32_t later_lease_ms; /* of priorities that nodes do not know when they begin; 0: they know all, with lease_ms */
    uint64_t task_ns, setup_ns, hop_ns; /* hop: from a client to the server */
    bool even_tasks;                    /* a task takes half to one and a half of task_ns; else 0 to 20 times */
    uint64_t publish_ns, serve_ns;      /* how long the server is busy with a publication, or another request */
    unsigned drop, repeat, slow, later; /* of requests, notices and answers; slow: a delay of seconds */
    bool stale_naks, lost_at_once;
    bool loses_messages; /* a server that dies loses the last second of everything */
    bool forgets;        /* a server that dies forgets deliveries and acknowledgements of its last second */
    unsigned server_deaths, kills, drains, cuts, disconnects, late_joins;
    bool keeps_spool;        /* a machine that comes back publishes what its predecessor has kept */
    uint64_t reconnect_ns;   /* clients connect again within this time */
    uint64_t server_dies_ns; /* once, for 10 s; 0: not so */
    bool pushed_before;      /* all tasks are in the queue before anything begins */
    unsigned pushes;         /* the list is pushed in so many parts */
    uint64_t faults_ns;      /* the time with faults, from the beginning */
    uint64_t idle_ns;        /* of nodes */
    uint64_t stop_grace_ns;
    bool stay; /* nodes stay when the queue is done; the run is over when it is */
};
void plan_draw(struct plan *p, uint64_t seed);
void plan_draw_large(struct plan *p, uint64_t seed); /* 1,000 machines x 8 */

/* --- events --- */

enum event_kind {
    EVENT_TO_SERVER, /* a letter arrives */
    EVENT_TO_CLIENT,
    EVENT_TIMEOUT,   /* of a request: number is its id */
    EVENT_LINK_DOWN, /* the client learns that its connection is lost */
    EVENT_LINK_UP,
    EVENT_SERVER_TICK,
    EVENT_MACHINE_TICK,
    EVENT_WORKER_READY,
    EVENT_WORKER_FINISH,
    EVENT_WORKER_EXIT,
    EVENT_PUSHER,
    EVENT_JOIN,
    EVENT_KILL,
    EVENT_KILL_RANDOM,
    EVENT_DRAIN_RANDOM,
    EVENT_CUT_RANDOM,
    EVENT_MEND, /* the end of a partition */
    EVENT_DISCONNECT_RANDOM,
    EVENT_SERVER_DIES,
    EVENT_SERVER_BACK,
    EVENT_FAULTS_END,
    EVENT_KINDS
};

struct letter;

struct event {
    uint64_t at, serial;
    enum event_kind kind;
    unsigned who;    /* a link or a machine */
    unsigned w;      /* a worker */
    uint64_t number; /* must still be the same, or the event is out of date */
    struct letter *letter;
};

/* --- the network --- */

struct world;

struct wait { /* for an answer */
    uint64_t id, serial;
    enum gd__queue_ask ask;
    bool damaged;      /* a part of the answer is lost */
    bool about_record; /* LAST or PUBLISH */
    struct gd__queue_key key;
};

struct link {
    struct gd__queue_link base;
    unsigned index;
    bool open, connected, down_due;
    uint32_t connection;  /* its number; letters of earlier connections get lost */
    bool cut_out, cut_in; /* a partition: what is sent, or what comes, gets lost */
    bool sick;            /* cut or not connected: since sick_ns. If not: well since well_ns */
    uint64_t sick_ns, well_ns, worst_ns;
    uint64_t lost_ns; /* when the last connection was lost */
    uint64_t last_out, last_in;
    struct wait *waits;
    unsigned n_waits, waits_room;
    struct gd__queue_key *looked; /* the keys that had no record when this client looked, after the last delivery */
    size_t n_looked, looked_room;
    struct world *world;
    void *user;
    void (*answer)(void *user, const struct gd__queue_answer *a);
    void (*on_connected)(void *user, bool is_connected);
};

unsigned link_open(struct world *w, void *user, void (*answer)(void *, const struct gd__queue_answer *),
                   void (*on_connected)(void *, bool));
void link_close(struct world *w, unsigned index);
void link_ask(struct world *w, unsigned index, const struct gd__queue_request *r);
void link_tell(struct world *w, unsigned index, enum gd__queue_notice notice, const char *token, uint32_t delay_ms);
void link_lose(struct world *w, unsigned index);                   /* the connection breaks */
void link_health(const struct world *w, struct link *l);           /* to be called when it was cut or mended */
uint64_t link_outage(const struct world *w, const struct link *l); /* the longest time that it was sick */
void wire_event(struct world *w, const struct event *e);
void wire_answer(void *user, unsigned client, const struct gd__queue_answer *a); /* of the server */
void letter_free(struct letter *letter);

/* --- machines --- */

enum { RING = 64 };

struct worker {
    const struct gd__node_task *ring[RING]; /* by position */
    uint64_t handed, published, started, finished;
    uint64_t generation; /* of its process */
    uint64_t begin_ns;
    uint64_t run; /* number of the run task; 0: none */
    bool ready, stopping, gone;
};

struct ended {
    const struct gd__node_task *task;
    enum gd_failure failure;
    unsigned crashes;
    uint64_t start_ns, end_ns;
};

struct kept {
    struct gd__queue_key key;
    void *message;
    size_t size;
};

struct hold {
    const struct gd__node_task *task; /* NULL: the place is empty */
    bool started;
};

struct machine {
    unsigned index;
    struct world *world;
    bool alive, draining;
    uint64_t life; /* changes with each new node */
    bool finished;
    enum gd__node_end end;
    struct gd__node *node;
    struct gd__sched sched;
    bool sched_open;
    struct worker *workers;
    unsigned link;
    uint64_t tick_at, joined_at;
    const struct gd__node_task **given; /* a ring: for the scheduler */
    size_t given_head, given_count, given_room;
    struct ended *ended;
    size_t n_ended, ended_room;
    struct hold *holds; /* given, and neither decided nor returned: a table by address */
    size_t n_holds, holds_room;
    struct kept *kept;
    size_t n_kept, kept_room;
    bool settling;
    /* figures */
    uint64_t busy_ns; /* sum over workers, up to the last end of a task */
};

void machine_join(struct world *w, unsigned index);
#define NO_TASK UINT32_MAX
void machine_kill(struct world *w, unsigned index, unsigned killer); /* killer: a task, or NO_TASK */
void machine_drain(struct world *w, unsigned index);
void machine_event(struct world *w, const struct event *e);
void machine_settle(struct machine *m);
void machine_free(struct machine *m);

extern const struct gd__sched_effects worker_effects;
void worker_event(struct machine *m, const struct event *e);
struct hold *machine_hold(struct machine *m, const struct gd__node_task *task);
void machine_ended(struct machine *m, const struct ended *e);

/* --- the pusher --- */

enum pusher_step { PUSHER_RESTS, PUSHER_LOCKS, PUSHER_READS, PUSHER_SENDS, PUSHER_UNLOCKS };

struct pusher {
    enum pusher_step step;
    unsigned link;
    bool connected, again; /* again: push once more when this is done */
    unsigned next_upto;
    unsigned upto; /* the tasks below this number are pushed */
    uint64_t next_id, waiting_id, items, read_from;
    unsigned sent;    /* tasks below this number are sent, or were known */
    unsigned count;   /* of tasks in the message that is being sent */
    bool beats;       /* the lock is being renewed */
    uint64_t beat_ns; /* when it was renewed */
    bool *known;
    uint64_t finished; /* how many times */
    uint64_t finished_ns;
};

void pusher_start(struct world *w, unsigned upto);
void pusher_event(struct world *w, const struct event *e);
void pusher_open(struct world *w);
void pusher_fill(struct world *w); /* puts all tasks into the server at once */
void pusher_close(struct world *w);

/* --- tasks --- */

struct task_facts {
    struct gd__queue_key key;
    uint16_t starts, excuses, deaths, blamed, wins;
    uint16_t interrupted; /* how often it was given back while it ran */
    uint16_t losses;      /* of devices */
    uint16_t rests;       /* messages with it that are the rest of a bundle */
    unsigned alone_on;    /* 1 + the machine that began it alone last, and the life of that machine */
    uint64_t alone_life;
    bool died_of_another; /* the last machine that died with it, and was given it alone, was killed by another task */
    uint8_t kind;
    bool in_bundle;
};

unsigned ledger_number(struct world *w, const struct gd__queue_task *task);
uint64_t ledger_duration(struct world *w, unsigned number);
void ledger_open(struct world *w);
void ledger_close(struct world *w);
void ledger_arrived(struct world *w, struct link *l, const struct gd__queue_answer *item); /* a task message */
void ledger_looked(struct link *l, const struct gd__queue_key *key, bool found);           /* is there a record? */
void ledger_given(struct world *w, const struct machine *m, const struct gd__node_task *task);
void ledger_started(struct world *w, struct machine *m, const struct gd__node_task *task);
void ledger_convicted(struct world *w, const struct gd__queue_key *key); /* a node has decided that it is a crash */
void ledger_returned(struct world *w, struct machine *m, const struct gd__node_task *task, bool no_worker);
void ledger_lost_device(struct world *w, unsigned number);
void ledger_charged(struct world *w, const struct gd__node_task *task); /* it goes back, and its losses are counted */
void ledger_decided(struct world *w, const struct gd__node_task *task, bool won);
void ledger_busy(struct world *w, int by); /* so many workers more have a task */
void ledger_killed(struct world *w, const struct machine *m, unsigned killer);
void ledger_gone(struct world *w, const struct machine *m);           /* it has died, or finishes with tasks */
void ledger_came_back(struct world *w, const struct stored *message); /* it is delivered again by itself */
void ledger_told(struct world *w, unsigned client, enum gd__queue_notice notice,
                 const char *token);               /* a message is acknowledged or given back */
void ledger_lost(struct world *w, uint64_t since); /* records since that time will be lost */
bool ledger_is_done(struct world *w);              /* according to the server's streams */
void ledger_check_end(struct world *w);

/* --- the world --- */

struct figures {
    uint64_t requests, notices, publishes;
    uint64_t runs, reruns, node_deaths, server_deaths, cut_off, splits;
    uint64_t busy_ns;
    uint64_t last_end_ns;
    /* Of all workers of all machines together: when all were busy for the first and the last time, and the sum of the
     * times of all workers with a task, up to the last change. */
    uint64_t first_full_ns, last_full_ns, changed_ns;
    double area, area_first, area_last;
    uint64_t *per_100ms; /* requests that arrive at the server; NULL: not counted */
    size_t per_100ms_room;
    uint64_t innocent_crashes;
};

struct world {
    uint64_t seed, chance, now;
    bool trace;
    struct plan plan;
    struct event *events; /* a heap; the first index is 1 */
    uint64_t n_events, events_room, serial, handled;
    volatile uint64_t *progress;

    struct server server;
    bool server_up;
    uint64_t server_busy_until, server_tick_at, lost_server_ns;

    struct link **links;
    unsigned n_links, links_room;
    struct machine *machines;
    struct pusher pusher;
    struct task_facts *tasks;
    bool faults_over, done;
    bool bad_network; /* leases may run out although a node is there */
    bool lossy;       /* single messages get lost or are late, on links that are well */
    uint64_t give_up_at;
    uint64_t runs; /* numbers of running tasks */
    struct figures figures;
    unsigned busy_workers;

    jmp_buf failed;
    char words[400];
};

/* Returns 0 if the run passed. Otherwise w->words is the error message. plan: NULL: draw it from the seed. */
int world_run(struct world *w, uint64_t seed, const struct plan *plan, bool trace, volatile uint64_t *progress);

void world_fail(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
void world_trace(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void world_put(struct world *w, const struct event *e);
void world_at(struct world *w, uint64_t at, enum event_kind kind, unsigned who);
bool world_happens(struct world *w, unsigned thousandths);
void *world_grow(void *array, size_t *room, size_t n, size_t size); /* room for n + 1 items */
void world_tick_server(struct world *w);

void faults_plan(struct world *w);
void faults_event(struct world *w, const struct event *e);

#define LLU(x) ((unsigned long long)(x))
#define WORLD_MUST(w, cond, ...)          \
    do {                                  \
        if (!(cond))                      \
            world_fail((w), __VA_ARGS__); \
    } while (0)

#endif
