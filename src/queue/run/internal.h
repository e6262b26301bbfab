/* The parts of a node in a run: see queue_run.h.
 *
 *   queue_run.c   opening and closing, the thread
 *   options.c     a copy of the user's options
 *   prepare.c     the first steps of the thread: is there such a queue, and may this node work on it?
 *   inbox.c       events for the thread
 *   effects.c     what the node does
 *   tasks.c       tasks on their way to the scheduler and back
 *   payloads.c    payloads and outputs that are files
 *   status.c      what others see of this node
 *   nodes.c       what this node sees of the others
 */
#ifndef GD_QUEUE_RUN_INTERNAL_H
#define GD_QUEUE_RUN_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "queue/messages/node_status.h"
#include "queue/names/address.h"
#include "queue/node/node.h"
#include "queue/read/node_list.h"
#include "queue/run/queue_run.h"
#include "queue/spool/spool.h"

enum {
    GD__QUEUE_RUN_TEXT = 1024,
    GD__QUEUE_RUN_HOST = 256,
    GD__QUEUE_RUN_STATUS_MS = 5000,
    GD__QUEUE_RUN_COUNT_MS = 15000,
};

/* Requests of this directory have this bit in their ids. Those of the node do not. */
#define GD__QUEUE_RUN_ID (UINT64_C(1) << 63)
/* And those of status.c that count the messages of a stream; the lowest byte of the id is the stream. */
#define GD__QUEUE_RUN_COUNT (UINT64_C(1) << 62)
/* And those of nodes.c. */
#define GD__QUEUE_RUN_NODES (UINT64_C(1) << 61)

/* A task that the scheduler has, or will get. */
struct gd__queue_given {
    const struct gd__node_task *task;
    struct gd__queue_given *next, *previous; /* of all that were given and not ended */
    struct gd__queue_given *next_waiting;    /* of those that the feeder has not taken */
};

enum gd__run_event_kind {
    GD__RUN_ANSWER = 1,
    GD__RUN_CONNECTED,
    GD__RUN_CLOSED, /* the link has given up; bytes: why */
    GD__RUN_ENDED,
    GD__RUN_RETURNED,
    GD__RUN_DRAIN,
    GD__RUN_SLOTS,
    GD__RUN_LOOK, /* somebody wants to know the nodes of the queue */
};

struct gd__run_event {
    struct gd__run_event *next;
    enum gd__run_event_kind kind;
    bool is_connected;
    unsigned slots;
    uint32_t crashes; /* RETURNED */
    const struct gd__node_task *task;
    union {
        struct gd__queue_answer answer;
        struct gd__queue_record record;
    };
    char bytes[]; /* what answer or record point to */
};

enum gd__run_phase {
    GD__RUN_PREPARING = 0,
    GD__RUN_AWAITING, /* the server does not answer, or the queue does not exist yet */
    GD__RUN_WORKING,
    GD__RUN_OVER, /* the node has finished, or the run could not begin */
};

/* A request of prepare.c, which waits for its answer. */
struct gd__run_call {
    uint64_t id; /* 0: none */
    bool is_answered;
    uint64_t items;
    struct gd__queue_answer answer;       /* without pointers, except for text and data */
    uint64_t item_sequence, item_time_us; /* of the last item */
    char text[GD__QUEUE_RUN_TEXT];
    char *data; /* of LAST */
};

/* The nodes of the queue, as far as they are known: nodes.c. */
struct gd__queue_nodes {
    struct gd__node_list known;  /* those that were read last */
    bool is_known;               /* and somebody has asked for them since then */
    uint64_t known_us, known_ns; /* when they were read, by the clock of the server and by our own */
    uint64_t wanted_until, due;  /* when they are read again */
    uint64_t request;            /* the request that is under way; 0: none */
    uint64_t request_count;
    uint64_t from; /* statuses before this sequence are out of date */

    /* While they are being read. */
    struct gd__node_list reading;
    bool is_reading; /* the request is READ */
    uint64_t clock_us, asked_ns, last, next;
    size_t items; /* of this request */
};

struct gd__queue_run {
    _Atomic unsigned refs;
    struct gd_queue_options *queue; /* a copy, with its strings */
    struct gd__queue_address address;
    char host[GD__QUEUE_RUN_HOST];
    char id[GD__QUEUE_NODE_ROOM];
    unsigned workers, slots, crash_limit;
    void (*say)(void *user, const char *line);
    void (*counted)(void *user, uint64_t tasks, uint64_t records);
    void *user;

    gd__queue_connect_fn *connect;
    struct gd__queue_link *link; /* made by the thread, and closed after its end */
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t lock;   /* protects what follows */
    pthread_cond_t news;    /* for the thread */
    pthread_cond_t changed; /* for the others */
    struct gd__run_event *inbox, **inbox_end;
    enum gd__run_phase phase;
    int error; /* in GD__RUN_OVER: 0 or a negative code, with text */
    char text[GD__QUEUE_RUN_TEXT];
    bool stop;      /* the thread ends as soon as possible */
    bool is_short;  /* an event was lost, because there was no memory for it: the node ends */
    bool is_source; /* the source may still use a task */
    bool cancelled; /* no more tasks for this node */
    bool drain_sent;
    bool connected;
    uint64_t lost_at;  /* when the connection was lost */
    uint64_t moved_at; /* when the server last took something, after the node was told to drain */
    struct gd__queue_given *given, *waiting, **waiting_end;
    struct gd__buffer payload; /* of the task that was taken last, if it was in a file; used only by the feeder */
    uint64_t n_taken;
    uint64_t counted_tasks, counted_records; /* messages, when they were last counted */
    uint64_t unreadable;                     /* tasks whose payload could not be read */
    char note[GD__NODE_NOTE_ROOM], http[GD__NODE_HTTP_ROOM];
    struct gd__node_figures figures; /* copied from the node after each round */
    struct gd__run_call call;
    bool status_pending; /* the server has not answered the last status */
    struct gd__queue_nodes nodes;

    /* Used only by the thread. */
    struct gd__node *node;
    struct gd__spool *spool; /* NULL: none */
    struct gd__spool_queue_id queue_id;
    struct gd__queue_server_facts server;
    uint32_t priorities, lease_ms;
    uint64_t next_id;
    uint64_t status_due, count_due;
    uint64_t began;
    uint64_t last_won, last_status;
    double rate;
    bool spool_failed;
    bool finished;
};

/* prepare.c, on the thread. Returns 0, or a negative code with an error message. */
int gd__queue_run_prepare(struct gd__queue_run *r);
void gd__queue_run_call_answered(struct gd__queue_run *r, const struct gd__queue_answer *a);

/* inbox.c */
void gd__queue_run_answered(void *run, const struct gd__queue_answer *a); /* of the listener */
void gd__queue_run_connected(void *run, bool is_connected, const char *text);
void gd__queue_run_closed(void *run, const char *text);
void gd__queue_run_post(struct gd__queue_run *r, enum gd__run_event_kind kind, const struct gd__node_task *task);
/* NULL: the event is lost, and the node ends. The lock is held. */
void gd__queue_run_post_locked(struct gd__queue_run *r, struct gd__run_event *e);
struct gd__run_event *gd__queue_run_event(enum gd__run_event_kind kind, size_t bytes); /* NULL: no memory */
/* A message that came when the node had finished. Other nodes get it at once. */
void gd__queue_run_refuse(struct gd__queue_run *r, const struct gd__queue_answer *a);
/* Waits for events until this time; UINT64_MAX: for ever. Returns all that have come. */
struct gd__run_event *gd__queue_run_wait(struct gd__queue_run *r, uint64_t until_ns);
/* Waits until until_ns, or until the condition is signalled. The lock is held. */
void gd__queue_run_sleep(struct gd__queue_run *r, pthread_cond_t *on, uint64_t until_ns);

/* effects.c: sets the error that the run ends with. The lock is held. */
void gd__queue_run_set_error(struct gd__queue_run *r, int error, const char *text);
extern const struct gd__node_effects gd__queue_run_effects;

/* tasks.c: removes a task from the list of those that were given. The lock is held. */
void gd__queue_run_unlink(struct gd__queue_run *r, struct gd__queue_given *g);

/* payloads.c: finds the payload of a task. Returns 1; 0 if the task has ended, because it has no payload; or a negative code
 * if this node cannot go on. */
int gd__queue_run_payload(struct gd__queue_run *r, struct gd__queue_run_task *task);

/* status.c, on the thread. Sends the status if it is due, and returns when it is due again. */
uint64_t gd__queue_run_status(struct gd__queue_run *r, uint64_t now, bool has_left);
void gd__queue_run_count_answered(struct gd__queue_run *r, const struct gd__queue_answer *a); /* on any thread */

/* nodes.c, on the thread. Reads the nodes of the queue if somebody wants to know them, and returns when to call it again. */
uint64_t gd__queue_run_look(struct gd__queue_run *r, uint64_t now);
void gd__queue_run_nodes_answered(struct gd__queue_run *r, const struct gd__queue_answer *a); /* on any thread */
void gd__queue_run_nodes_free(struct gd__queue_nodes *n);

__attribute__((format(printf, 2, 3))) void gd__queue_run_say(struct gd__queue_run *r, const char *format, ...);

#endif
