/* A model of a NATS server with JetStream, in virtual time: what src/queue/link.h asks of a server.
 *
 * It behaves as the real server was measured to behave, with the unpleasant details:
 *
 *   - A pull that gets fewer messages than it asked for stays until its time is over. Waiting pulls are served in turn.
 *   - A message whose lease has run out, or that was given back, is delivered again before new ones.
 *   - An acknowledgement of an old delivery counts.
 *   - If more than max_unacknowledged messages are out, no new message is delivered.
 *   - A server that dies forgets delivery counts, and what it had not written to its disk: which messages it delivered
 *     lately, which were acknowledged, and, if it is not durable, the last messages themselves. Their sequences are then
 *     used for other messages, so a late acknowledgement may hit another message.
 *
 * It makes no system call and knows no network: the caller passes requests in, and gets answers by a function.
 */
#ifndef GD_TESTS_SIM_QUEUE_SERVER_SERVER_H
#define GD_TESTS_SIM_QUEUE_SERVER_SERVER_H

#include <gpu_dispatch/dispatcher.h>

#include "queue/link.h"
#include "sim/queue/server/store.h"

enum { SERVER_PRIORITIES = GD_PRIORITY_MAX - GD_PRIORITY_MIN + 1 };

struct server_pull {
    unsigned client;
    uint64_t id, end_ns;
    uint32_t want;
    uint64_t bytes; /* that it may still get */
};

struct server_consumer {
    bool exists;
    uint32_t lease_ms;
    size_t cursor;                    /* messages below this index were delivered, or belong to other consumers */
    uint64_t pending, held, returned; /* messages that are NEW, HELD, RETURNED */
    size_t *again; /* indexes of the messages that are RETURNED, in turn; may have others, which are skipped */
    size_t again_head, again_count, again_room; /* a ring */
    struct server_pull *pulls;                  /* a ring */
    size_t pulls_head, pulls_count, pulls_room;
};

struct server_alarm {
    uint64_t at_ns;
    size_t index; /* of a task message; STORE_NONE: a pull ends */
};

/* What a server forgets when it dies. Times are before the death. */
struct server_loss {
    bool counts;                              /* all delivery counts */
    uint64_t deliveries_ns;                   /* deliveries and acknowledgements of this last time */
    uint64_t tasks_ns, records_ns, states_ns; /* messages of this last time */
};

/* What a token says. A real server compares the first two numbers only, and both may belong to another message or
 * delivery after the death of a server. So does the model. The identities are never used again: with them the simulation
 * knows which delivery a client means. */
struct server_token {
    uint64_t sequence;
    uint32_t delivery;
    uint64_t identity, delivery_identity;
};
struct server_token server_token(const char *text);

struct server_effects {
    void *user;
    void (*answer)(void *user, unsigned client, const struct gd__queue_answer *answer);
    /* The lease of a message has run out, or it was given back by a client that no longer holds it. May be NULL. */
    void (*expired)(void *user, const struct stored *message);
    uint64_t (*random)(void *user);
};

struct server {
    char name[64];
    struct server_effects effects;
    struct store tasks, records, states;
    struct server_consumer consumers[SERVER_PRIORITIES];
    struct server_alarm *alarms; /* a heap; the first index is 1 */
    size_t n_alarms, alarms_room;
    uint64_t max_unacknowledged, max_waiting, max_payload;
    uint64_t identities; /* that were used */
    bool stale_naks;     /* giving back an old delivery counts */
    /* figures */
    uint64_t most_unacknowledged, most_waiting, deliveries, redeliveries;
};

void server_open(struct server *s, const char *name, const struct server_effects *effects);
void server_close(struct server *s);

/* A request arrives. Answers are given at once, or later (PULL). */
void server_ask(struct server *s, uint64_t now, unsigned client, const struct gd__queue_request *r);
void server_tell(struct server *s, uint64_t now, enum gd__queue_notice notice, const char *token, uint32_t delay_ms);
/* The connection of a client has ended: its pulls are forgotten. */
void server_forget_client(struct server *s, unsigned client);
/* The server dies, and is there again at once. */
void server_die(struct server *s, uint64_t now, const struct server_loss *loss);

/* Does what is due, and returns when to call it again; GD__NEVER: not before the next request. Call it after each
 * request and notice, at its time. */
uint64_t server_tick(struct server *s, uint64_t now);

struct store *server_store(struct server *s, enum gd__queue_kind kind);

#endif
