/* The parts of a node, for the files of this directory. See node.h.
 *
 *   node.c         opening, events, ticks, the end
 *   requests.c     which request an answer belongs to, and when to ask again
 *   priorities.c   which priorities the queue has, and the shortest of their leases
 *   pulls.c        how many messages to pull, and of which priority
 *   messages.c     a message from its delivery to its end: the actions of queue/lease.h
 *   give.c         tasks to the scheduler and back
 *   records.c      the record message of a message
 *   markers.c      suspects
 *   moves.c        the tasks of a bundle that are published in other messages
 *   tail.c         giving back at the end of the list
 *   completion.c   is the queue done?
 *   repair.c       messages that got stuck
 *   unreadable.c   messages that this node cannot read
 */
#ifndef GD_QUEUE_NODE_INTERNAL_H
#define GD_QUEUE_NODE_INTERNAL_H

#include <gpu_dispatch/dispatcher.h>

#include "base/heap.h"
#include "queue/lease.h"
#include "queue/messages/marker.h"
#include "queue/node/node.h"
#include "queue/push/state.h"

enum {
    GD__NODE_PRIORITIES = GD_PRIORITY_MAX - GD_PRIORITY_MIN + 1,
    GD__NODE_HELD_MOST = 4096, /* tasks; a bundle may exceed it */
    GD__NODE_BUCKETS = 4096,
    GD__NODE_SAID = 256,
    GD__NODE_SAY_TRIES = 5, /* a request that had to be repeated so often is worth a line */
};
#define GD__NODE_MS     UINT64_C(1000000)
#define GD__NODE_SECOND UINT64_C(1000000000)
#define GD__NODE_NEVER  UINT64_MAX

/* A list that its members are embedded in. The head is a member too. */
struct gd__node_list {
    struct gd__node_list *next, *previous;
};

#define GD__NODE_OF(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* --- requests --- */

enum gd__node_purpose {
    GD__FOR_NOTHING = 0, /* the entry is free */
    GD__FOR_MESSAGE,
    GD__FOR_PULL,
    GD__FOR_PRIORITIES,
    GD__FOR_LEASE,
    GD__FOR_LIFE,
    GD__FOR_TAIL,
    GD__FOR_CHECK,
};

struct gd__node_request {
    uint64_t id; /* 0: free */
    enum gd__node_purpose purpose;
    struct gd__node_message *message;
    int priority;
    uint32_t most, received; /* PULL */
    bool waits;              /* PULL: with wait_ms */
    uint32_t next_free;
};

/* --- messages --- */

enum gd__node_task_state { GD__TASK_WAITING = 0, GD__TASK_GIVEN, GD__TASK_ENDED, GD__TASK_RETURNED };

struct gd__node_result {
    struct gd__queue_record record; /* its texts are in bytes */
    char bytes[];
};

struct gd__node_entry {
    struct gd__node_task task;
    enum gd__node_task_state state;
    bool moved; /* the record that counts says so */
    struct gd__node_result *result;
};

/* What is asked about a suspect, in this order. */
enum gd__node_question {
    GD__QUESTION_MARKER = 0,
    GD__QUESTION_LIFE,  /* when has the node that wrote the marker given a sign of life? */
    GD__QUESTION_CLOCK, /* what time is it, by the clock of the server? */
};

enum gd__node_verdict {
    GD__VERDICT_RAN = 0, /* its record has what ended; the rest moves */
    GD__VERDICT_CRASH,   /* it is not run any more: it has killed too many nodes */
    GD__VERDICT_SPLIT,   /* a suspect bundle: each task moves */
};

struct gd__node_message {
    struct gd__node_list held;  /* in gd__node.held or gd__node.kept */
    struct gd__node_list ready; /* in gd__node.ready[] or gd__node.turns; next is NULL: in none */
    struct gd__node_message *next_in_bucket;
    struct gd__timer timer; /* when to ask again */
    enum gd__lease_state state;
    uint64_t request;    /* the one that has no answer yet; 0: none */
    unsigned tries;      /* without an answer */
    uint64_t arrived_ns; /* the last delivery before it was started */
    uint64_t noticed_ns; /* the last delivery or notice */
    bool blocked;        /* to be asked again as soon as the server is there */

    struct gd__queue_key key;
    int priority;
    uint64_t sequence, deliveries;
    bool flagged;  /* its task was in a suspect bundle */
    bool resent;   /* by a repair */
    bool kept;     /* only a record, of an earlier run */
    bool answered; /* kept: the server has said something about it */
    char token[GD__QUEUE_TOKEN_ROOM];
    bool old_token; /* the connection was lost since the delivery: the token must not acknowledge anything */
    uint32_t nak_delay_ms;
    unsigned char nonce[GD__QUEUE_NONCE_SIZE];

    void *data;
    struct gd__node_entry *entries;
    uint32_t count, next, given, ended, returned; /* next: the first task that was never given */

    /* suspects */
    struct gd__queue_marker before, marker;
    uint64_t marker_sequence; /* of what the server has; 0: none */
    enum gd__node_question question;
    uint64_t life_us; /* the last sign of life of the node that wrote `before`, by the clock of the server */
    bool marking, alone;
    uint32_t crashes; /* deaths of workers and nodes that a task of it has caused; 0: none on this node */
    bool exclusive;   /* nothing else runs on this node while it runs */

    /* records */
    enum gd__node_verdict verdict;
    char *record;
    size_t record_size, record_most;
    bool is_kept, decided;

    /* moves */
    unsigned char moved_nonce[GD__QUEUE_NONCE_SIZE]; /* of the record that says so */
    bool each;
    uint32_t moving; /* the next entry to move, if each */
    bool move_again; /* all of them: the server may have lost the first ones */
};

/* --- completion and repair --- */

enum gd__node_check {
    GD__CHECK_NOTHING = 0,
    GD__CHECK_BUSY,       /* consumers: does anybody work? */
    GD__CHECK_PUSH,       /* the lock of a push */
    GD__CHECK_PRIORITIES, /* it may have added one */
    GD__CHECK_CONSUMERS,  /* consumers again */
    GD__CHECK_RECORDS,
    GD__CHECK_TASKS,
    GD__CHECK_RESENDS,
    GD__CHECK_LIST_RECORDS,
    GD__CHECK_LIST_TASKS,
    GD__CHECK_STILL_QUIET, /* consumers, after the lists */
    GD__CHECK_RECORD,      /* repair: is there a record by now? */
    GD__CHECK_READ,        /* repair: a message that got stuck */
    GD__CHECK_RESEND       /* repair: the same message, with another subject */
};

struct gd__node_key_set {
    struct gd__node_known *entries;
    size_t count, room; /* room is a power of two */
};

struct gd__node_known {
    struct gd__queue_key key; /* tasks is 0: the entry is free */
    int priority;
    uint32_t resend;
};

struct gd__node_completion {
    enum gd__node_check step;
    uint64_t request;
    int priority; /* CONSUMERS */
    uint64_t at_ns;
    unsigned rounds;
    uint64_t quiet_since_ns; /* nothing pending or unacknowledged since; NEVER: not so */
    uint64_t patience_ns;    /* how long it must be quiet before a repair */
    uint64_t records, tasks, resends;
    uint64_t
        unacknowledged; /* in all consumers that were asked; messages that this node cannot read, or nobody works */
    bool push_open;
    struct gd__push_watch push;
    uint64_t push_us; /* when its lock was written, by the clock of the server; 0: not known */
    struct gd__node_key_set recorded, missing;
    size_t repairing;
    uint64_t repaired;
};

struct gd__node_unreadables {
    struct gd__node_unreadable *entries;
    size_t count, room;
    enum gd__queue_kind first_stream;
    uint64_t first_sequence;
    char first_subject[128], first_why[160];
};

struct gd__node {
    struct gd__node_effects effects;
    char *name, *host;
    unsigned slots, crash_limit;
    uint32_t lease_ms; /* the shortest of all priorities */
    uint64_t notice_ns;
    uint64_t max_payload, idle_ns, lost_ns;
    bool stay;
    uint32_t priorities;
    uint64_t priorities_at_ns, priorities_request; /* when to ask for them again; 0: not known yet */
    uint32_t leased;                               /* the priorities whose lease is known */
    uint64_t lease_at_ns, lease_request;           /* when to ask for the next lease at the earliest */
    unsigned lease_tries;                          /* without an answer */
    uint64_t now_ns;

    bool connected, draining, finished, begun;
    uint64_t lost_since_ns;      /* if not connected */
    uint64_t connected_since_ns; /* if connected */
    uint64_t idle_since_ns;
    enum gd__node_end end; /* what to say at the end of a drain */
    char end_text[640];
    uint64_t end_by_ns; /* then without the confirmations of the server */

    struct gd__node_request *requests;
    uint32_t requests_room, requests_free; /* free: 1-based index, 0: none */
    uint64_t serial;
    struct gd__heap timers;
    size_t messages; /* for which there is a timer */

    struct gd__node_list held; /* by the time of the last notice, the oldest first */
    struct gd__node_list kept; /* records of an earlier run */
    struct gd__node_list ready[GD__NODE_PRIORITIES];
    struct gd__node_list turns; /* suspects that wait until they can be begun alone */
    struct gd__node_message *buckets[GD__NODE_BUCKETS];
    struct gd__node_message *alone;                           /* the suspect that runs alone */
    uint64_t life_ns;                                         /* when the last sign of life was given for it */
    uint64_t held_count, kept_count, unanswered, unpublished; /* unanswered: of the kept ones */
    uint64_t waiting_tasks, given_tasks;

    /* measures: 0 is not known */
    double task_ns, bundle_tasks, message_bytes;
    uint64_t measured, last_end_ns;
    bool starved; /* a slot was free since last_end_ns */

    struct {
        bool dry; /* has no message for us */
        unsigned waiting;
        uint64_t expected; /* messages, by the pulls that wait */
        uint64_t asked_ns;
    } pull[GD__NODE_PRIORITIES];
    uint64_t expected; /* messages, by all pulls that go on */
    bool in_round;
    int round_priority;
    uint64_t pull_at_ns; /* not before */
    unsigned pull_tries;

    uint64_t tail_at_ns;
    uint64_t tail_request;

    struct gd__node_completion completion;
    struct gd__node_unreadables unreadable;
    uint64_t said[GD__NODE_SAID];
    unsigned damaged;
    uint64_t won, lost, returned, failed, convicted, tasks_counted, records_counted;
};

/* --- lists --- */

static inline void gd__node_list_init(struct gd__node_list *l)
{
    l->next = l->previous = l;
}

static inline bool gd__node_list_empty(const struct gd__node_list *l)
{
    return l->next == l;
}

static inline void gd__node_list_append(struct gd__node_list *l, struct gd__node_list *item)
{
    item->next = l;
    item->previous = l->previous;
    l->previous->next = item;
    l->previous = item;
}

static inline void gd__node_list_remove(struct gd__node_list *item)
{
    if (!item->next)
        return;
    item->next->previous = item->previous;
    item->previous->next = item->next;
    item->next = item->previous = NULL;
}

/* --- node.c --- */
void gd__node_say(struct gd__node *n, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, once for each `what`. */
void gd__node_say_once(struct gd__node *n, uint64_t what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void gd__node_finish(struct gd__node *n, enum gd__node_end end, const char *text);
/* The server refuses to work with us: drain, then finish. */
void gd__node_fail(struct gd__node *n, const char *text);
/* From a half to one and a half of ns. */
uint64_t gd__node_jitter(struct gd__node *n, uint64_t ns);
/* The delay before the next try: grows with the number of tries. */
uint64_t gd__node_delay_ns(struct gd__node *n, unsigned tries);

bool gd__node_is_cut_off(const struct gd__node *n);

void gd__node_set_lease(struct gd__node *n, uint32_t lease_ms);

/* --- requests.c --- */
/* Sends a request. Sets its id, and returns its entry; NULL if it was not sent. */
struct gd__node_request *gd__node_ask(struct gd__node *n, struct gd__queue_request *q, enum gd__node_purpose purpose);
struct gd__node_request *gd__node_find_request(struct gd__node *n, uint64_t id);
void gd__node_forget_request(struct gd__node *n, uint64_t id); /* its answer will be ignored */

/* --- messages.c --- */
void gd__node_arrive(struct gd__node *n, const struct gd__queue_answer *a);
void gd__node_step(struct gd__node *n, struct gd__node_message *m, enum gd__lease_event event);
void gd__node_message_answer(struct gd__node *n, struct gd__node_message *m, const struct gd__queue_answer *a);
/* The timer of the message is due, or the server is there again. */
void gd__node_message_again(struct gd__node *n, struct gd__node_message *m);
void gd__node_message_drain(struct gd__node *n, struct gd__node_message *m);
void gd__node_message_free(struct gd__node *n, struct gd__node_message *m);
/* Sends the request of a message; if that is not possible now, it is done later. */
void gd__node_message_ask(struct gd__node *n, struct gd__node_message *m, struct gd__queue_request *q);
void gd__node_retry(struct gd__node *n, struct gd__node_message *m);
/* Makes room for the timer of one more message. */
int gd__node_reserve(struct gd__node *n);

/* --- give.c --- */
void gd__node_give(struct gd__node *n);
/* Nothing of this message runs: records it, gives it back, or waits. */
void gd__node_settle(struct gd__node *n, struct gd__node_message *m);
/* Something runs, or is a part of a bundle that has begun. */
bool gd__node_has_begun(const struct gd__node *n);

/* --- records.c --- */
int gd__node_record_build(struct gd__node *n, struct gd__node_message *m);
void gd__node_record_publish(struct gd__node *n, struct gd__node_message *m);
void gd__node_record_read(struct gd__node *n, struct gd__node_message *m);
void gd__node_record_found(struct gd__node *n, struct gd__node_message *m, const struct gd__queue_answer *a);
void gd__node_record_published(struct gd__node *n, struct gd__node_message *m, const struct gd__queue_answer *a);
void gd__node_decide(struct gd__node *n, struct gd__node_message *m, bool won);

/* --- markers.c --- */
bool gd__node_is_suspect(const struct gd__node_message *m);
void gd__node_marker_read(struct gd__node *n, struct gd__node_message *m);
void gd__node_marker_found(struct gd__node *n, struct gd__node_message *m, const struct gd__queue_answer *a);
void gd__node_mark(struct gd__node *n, struct gd__node_message *m);
void gd__node_unmark(struct gd__node *n, struct gd__node_message *m);
void gd__node_turns(struct gd__node *n); /* begins the next suspect */
void gd__node_life(struct gd__node *n);  /* gives a sign of life, if it is time */
uint64_t gd__node_life_due(const struct gd__node *n);
/* There is a suspect that nothing else may run with: it runs, or waits until it can. */
bool gd__node_is_exclusive(const struct gd__node *n);

/* --- moves.c --- */
bool gd__node_has_moves(const struct gd__node_message *m);
void gd__node_move(struct gd__node *n, struct gd__node_message *m);
void gd__node_moved(struct gd__node *n, struct gd__node_message *m);

/* --- priorities.c --- */
void gd__node_priorities(struct gd__node *n);
uint64_t gd__node_priorities_due(const struct gd__node *n);
void gd__node_priorities_learn(struct gd__node *n, const struct gd__queue_answer *a);
void gd__node_priorities_answer(struct gd__node *n, const struct gd__queue_answer *a);
/* What a consumer says about its lease. Call it for each answer of a consumer. */
void gd__node_lease_learn(struct gd__node *n, int priority, const struct gd__queue_answer *a);
void gd__node_lease_answer(struct gd__node *n, const struct gd__node_request *r, const struct gd__queue_answer *a);

/* --- pulls.c --- */
void gd__node_pull(struct gd__node *n);
void gd__node_pull_answer(struct gd__node *n, struct gd__node_request *r, const struct gd__queue_answer *a);
bool gd__node_all_dry(const struct gd__node *n);
uint64_t gd__node_pull_due(const struct gd__node *n);

/* --- tail.c --- */
void gd__node_tail(struct gd__node *n);
uint64_t gd__node_tail_due(const struct gd__node *n);
void gd__node_tail_answer(struct gd__node *n, struct gd__node_request *r, const struct gd__queue_answer *a);

/* --- completion.c, repair.c --- */
void gd__node_complete(struct gd__node *n);
uint64_t gd__node_complete_due(const struct gd__node *n);
void gd__node_check_counts(struct gd__node *n); /* each key has a record: done, unless a push is open */
void gd__node_complete_answer(struct gd__node *n, const struct gd__queue_answer *a);
void gd__node_check_later(struct gd__node *n); /* ends this check; the next one comes later */
void gd__node_check_ask(struct gd__node *n, struct gd__queue_request *q, enum gd__node_check step);
void gd__node_done(struct gd__node *n);
void gd__node_check_quiet(struct gd__node *n); /* asks the consumers; calls gd__node_repair_send() if nobody works */
void gd__node_repair_begin(struct gd__node *n);
void gd__node_repair_send(struct gd__node *n);
void gd__node_repair_answer(struct gd__node *n, const struct gd__queue_answer *a);
void gd__node_repair_free(struct gd__node *n);
bool gd__node_is_patient(const struct gd__node *n); /* it was quiet for so long that what is missing is stuck */

/* --- unreadable.c --- */
/* A message that this node cannot read, or whose record it cannot read. */
struct gd__node_unread {
    enum gd__queue_kind stream; /* of what cannot be read, as subject and stored_sequence */
    const char *subject;
    uint64_t stored_sequence;
    const struct gd__queue_key *key; /* NULL: the subject has none */
    uint64_t sequence;               /* of the task message */
    const char *token;
    const char *why;
};
/* Gives it back, and notes it. */
void gd__node_unreadable_leave(struct gd__node *n, const struct gd__node_unread *m);
bool gd__node_unreadable_has(const struct gd__node *n, const struct gd__queue_key *key);
/* Only such messages are left in the queue: ends with an error. */
void gd__node_unreadable_end(struct gd__node *n, uint64_t count);
void gd__node_unreadable_free(struct gd__node *n);

#endif
