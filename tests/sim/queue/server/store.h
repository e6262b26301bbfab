/* A stream of the model server: messages in order of their sequence, at most one for each subject.
 *
 * A message of a task also has the state of its delivery here, because there is one consumer for each message. */
#ifndef GD_TESTS_SIM_QUEUE_SERVER_STORE_H
#define GD_TESTS_SIM_QUEUE_SERVER_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum delivery {
    DELIVERY_NEW = 0,  /* never delivered */
    DELIVERY_HELD,     /* delivered; to be delivered again at due_ns */
    DELIVERY_RETURNED, /* to be delivered again now */
    DELIVERY_ACKED,
};

struct stored {
    uint64_t sequence, hash;
    uint64_t stored_ns;
    uint64_t replaced_ns; /* GD__NEVER: it is the message with this subject */
    char *subject;        /* the data follows it */
    const unsigned char *data;
    uint32_t size;

    uint8_t delivery;
    bool put_off; /* it was given back, with a delay */
    int8_t priority;
    uint32_t deliveries;
    uint64_t due_ns, alarm_ns;                 /* alarm_ns: the earliest alarm that is set; 0: none */
    uint64_t first_ns, delivered_ns, acked_ns; /* 0: never */
    unsigned holder;                           /* the client that it was delivered to last */
    uint64_t identity;                         /* of the message, and of its last delivery: see struct server_token */
    uint64_t delivery_identity;
    unsigned publisher; /* 1 + the client that has published it */
};

struct store {
    bool exists;
    uint32_t replicas;
    struct stored *all; /* also those that were replaced */
    size_t n, room;
    uint32_t *table; /* by the hash of the subject: 1 + index; 0: empty */
    size_t table_room;
    uint64_t last_sequence, messages, bytes;
};

#define STORE_NONE SIZE_MAX

void store_free(struct store *s);
/* The index of the message with this subject, or STORE_NONE. */
size_t store_find(const struct store *s, const char *subject);
/* The index of the message with this sequence, or the next one; s->n: there is none. */
size_t store_from(const struct store *s, uint64_t sequence);
/* Adds a message, and replaces the one with the same subject. Returns its index. */
size_t store_add(struct store *s, uint64_t now, const char *subject, const void *data, size_t size);
/* Forgets everything that was stored after this time. Its sequences will be used again. */
void store_cut(struct store *s, uint64_t at);

/* Does the subject match the filter: "*" is one word, a last ">" is one or more. */
bool store_matches(const char *filter, const char *subject);

#endif
