/* SPDX-License-Identifier: MIT
 *
 * One queue for many machines: tasks are pushed to a server, and any number of nodes take them from there.
 *
 *     struct gd_queue_options qo = GD_QUEUE_OPTIONS_INIT;
 *     qo.url = "nats://host/NAME";
 *
 *     struct gd_queue_push *p;                      // on any machine: add tasks
 *     gd_queue_push_open(&p, &qo, NULL);
 *     gd_queue_push_add(p, &(struct gd_queue_item){ .size = sizeof(struct gd_queue_item), .data = "a.wav", .data_size = 5 });
 *     gd_queue_push_finish(&p, NULL);
 *
 *     o.queue = &qo;                                // struct gd_options of a node; there is no source
 *     gd_run(&o);                                   // returns when the queue is done
 *
 * The server is a NATS server with JetStream, version 2.12.3 or later. Each task gets exactly one final record on the
 * server, whatever dies; a task may be run twice. A task that has a record is never run again, except by
 * gd_queue_push_retry_failed().
 *
 * The client library of NATS (libnats) is opened when it is needed. Without it these functions return
 * GD_E_UNSUPPORTED with an error message.
 */
#ifndef GPU_DISPATCH_QUEUE_H
#define GPU_DISPATCH_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/dispatcher.h>
#include <gpu_dispatch/error.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define GD_QUEUE_IDLE_NEVER (-1)

/* Begin with GD_QUEUE_OPTIONS_INIT. Functions that take these options copy the strings. */
struct gd_queue_options {
    size_t size;     /* sizeof(struct gd_queue_options) */
    const char *url; /* "nats://host/NAME", "nats://a,b,c/NAME", "tls://host/NAME"; without user or password */

    /* Files with credentials. NULL: the environment variables of the nats command are used: NATS_CREDS, NATS_NKEY,
     * NATS_CA, NATS_CERT, NATS_KEY; NATS_USER with NATS_PASSWORD, or NATS_TOKEN. Workers do not get these variables. */
    const char *creds;    /* of a user, with a JWT and a seed */
    const char *nkey;     /* a seed */
    const char *tls_ca;   /* the certificates of authorities that are trusted */
    const char *tls_cert; /* of this client */
    const char *tls_key;

    const char *spill_dir; /* a directory that all machines share, for payloads and outputs above 64 KiB */
    /* How long a server that does not answer is tried, for example while it restarts; default 10000. A node with
     * GD_QUEUE_IDLE_NEVER tries until it answers. */
    unsigned connect_timeout_ms;

    /* For a push that creates the queue: */
    unsigned lease_ms; /* default 30000: if a node is silent for this long, other nodes get its tasks */
    unsigned replicas; /* default 1; 3 in a cluster of three servers or more */

    /* For a node: */
    /* How long a node stays without work, if the queue is not done. 0 (default): until the queue is done. Positive: it
     * leaves after this time. GD_QUEUE_IDLE_NEVER: it stays even if the queue is done or does not exist yet. */
    int64_t idle_exit_ms;
    unsigned lost_timeout_ms; /* default 600000: how long a node tries to reach a server that it has lost */
    /* The file for records that the server has not confirmed yet. The next node with the same file publishes them. NULL:
     * a file in the user's state directory. */
    const char *spool;
    /* A text that identifies the work. A node whose text differs from that of the first node is refused. NULL: not
     * checked. */
    const char *command;
    bool force; /* work even if the command differs */
};

#define GD_QUEUE_OPTIONS_INIT                                                                                   \
    {                                                                                                           \
        .size = sizeof(struct gd_queue_options), .connect_timeout_ms = 10000, .lease_ms = 30000, .replicas = 1, \
        .lost_timeout_ms = 600000                                                                               \
    }

/* Returns true if libnats can be opened. If not, gd_error_text() says why. */
bool gd_queue_available(void);

/* --- pushing -------------------------------------------------------------- */

struct gd_queue_push;

struct gd_queue_item {
    size_t size;      /* sizeof(struct gd_queue_item) */
    const void *data; /* the payload; copied */
    size_t data_size;
    const void *key; /* identifies the task; NULL: the payload. Equal keys in one push are different tasks */
    size_t key_size;
    const char *version; /* as in gd_item_key(); NULL: none */
    uint64_t weight;
    int priority; /* a task that is in the queue already keeps its priority */
    unsigned timeout_ms;
};

struct gd_queue_push_options {
    size_t size; /* sizeof(struct gd_queue_push_options) */
    /* How many tasks travel in one message. 0: chosen from the recorded durations; 1 if there are none, or if tasks take
     * 2 s or longer. */
    unsigned bundle;
    unsigned wait_ms; /* how long to wait while another push is going on; default 60000 */
    bool by_weight;   /* the heaviest tasks first; all tasks are kept in memory until gd_queue_push_finish() */
    /* Called at most once for each reason why gd_queue_push_open() waits: the server does not answer, or another push is
     * running. message: a line for the user. */
    void (*on_wait)(void *user, const char *message);
    void *user;
    /* When this descriptor (an eventfd or a pipe) becomes readable, all functions of this push that wait for the server
     * return GD_E_INTERRUPTED. 0 (default): none. */
    int stop_fd;
};
#define GD_QUEUE_PUSH_OPTIONS_INIT                                      \
    {                                                                   \
        .size = sizeof(struct gd_queue_push_options), .wait_ms = 60000, \
    }

struct gd_queue_push_counts {
    size_t size;    /* set before the call */
    uint64_t added; /* tasks that are new in the queue */
    uint64_t known; /* tasks that were in the queue already */
    uint64_t messages;
    uint64_t again; /* of the added tasks: those that were added once more because they had failed */
    uint64_t files; /* payloads that are in files of spill_dir */
    int durable;    /* whether what the server has confirmed survives a power loss: 1 yes, 0 no, -1 cannot be learned */
};

/* Connects, creates the queue if it does not exist, waits until no other push is going on, and reads which tasks the
 * queue has. o may be NULL. Returns 0 or a negative code. */
int gd_queue_push_open(struct gd_queue_push **out, const struct gd_queue_options *queue,
                       const struct gd_queue_push_options *o);
/* Adds a task, unless the queue has it. It may be sent later. */
int gd_queue_push_add(struct gd_queue_push *p, const struct gd_queue_item *item);
/* Adds each task whose last record is a failure once more. */
int gd_queue_push_retry_failed(struct gd_queue_push *p);
/* What the server has confirmed so far. */
int gd_queue_push_get_counts(struct gd_queue_push *p, struct gd_queue_push_counts *out);
/* Sends what is not sent, waits until the server has confirmed everything, and ends the push. counts may be NULL.
 * Always sets *p to NULL. If this or gd_queue_push_add() fails, the push can be repeated: only what is missing is
 * added. */
int gd_queue_push_finish(struct gd_queue_push **p, struct gd_queue_push_counts *counts);
/* Ends a push early. What was sent stays in the queue. NULL is allowed. */
void gd_queue_push_abandon(struct gd_queue_push **p);

/* --- reading --------------------------------------------------------------- */

/* Reads a queue, also while nodes work on it. A reader remembers which tasks and records it has seen, in about 100 bytes
 * for each task, so that later calls read only what is new. It is used by one thread at a time. */
struct gd_queue_reader;

/* Connects. Returns 0 or a negative code, also if the queue does not exist. */
int gd_queue_reader_open(struct gd_queue_reader **out, const struct gd_queue_options *queue);
void gd_queue_reader_close(struct gd_queue_reader **r);

/* Messages that are damaged, or that another program has written, are skipped. Returns how many this reader has skipped
 * so far. *first, if first is not NULL, is set to the error message of the first one, or NULL if there is none; borrowed
 * until the next call on this reader. */
uint64_t gd_queue_reader_skipped(struct gd_queue_reader *r, const char **first);

struct gd_queue_figures {
    size_t size;                  /* set before the call */
    uint64_t tasks, done, failed; /* a task that was added again after a failure counts once, by its last record */
    uint64_t waiting, held;       /* tasks without a record: no node has them yet; a node has them */
    bool is_done;                 /* each task has a record, and no push is going on */
    bool push_is_open;
    uint64_t nodes;      /* that gave a sign of life in the last 30 s */
    double busy_seconds; /* sum over all records */
    const char *command; /* borrowed until the next call on this reader; NULL: no node has run yet */
    const char *server_version;
    int durable; /* 1: yes, 0: no, -1: cannot be learned */
};
/* Exact. The first call reads all tasks and records, which takes long for a large queue. */
int gd_queue_reader_figures(struct gd_queue_reader *r, struct gd_queue_figures *out);

struct gd_queue_record {
    uint64_t number;          /* position in the list of its push, from 0 */
    const unsigned char *key; /* 16 bytes */
    uint32_t repeat;          /* number of earlier tasks in its list with the same key */
    uint32_t again;           /* how many times the task was added once more because it had failed */
    const void *input;        /* the payload; NULL: it is in input_file */
    size_t input_size;
    const char *input_file;
    bool done; /* false: the task failed */
    unsigned attempts;
    const char *failure; /* NULL if done */
    const char *error, *stderr_end;
    int exit_code, signal;
    const char *host, *gpu;
    double started, seconds;
    const void *output; /* NULL: none */
    size_t output_size;
    const char *output_file; /* not NULL: the output is in this file, and output is NULL */
    /* Not NULL: why the output cannot be read: its file is missing, is not the one that the task wrote, or the options
     * have no spill_dir. */
    const char *output_error;
};

/* Calls fn for the record of each task, in the order in which the tasks were pushed; only those that exist when the call
 * begins. A task that was added again after a failure has no record until it has ended again. fn returns 0 to continue,
 * or any other value to stop. Returns the last value of fn, or a negative code. The record is borrowed until fn
 * returns. */
int gd_queue_reader_each(struct gd_queue_reader *r, int (*fn)(void *user, const struct gd_queue_record *record),
                         void *user);
/* Calls fn for each record as it appears, beginning with those that exist, until the queue is done. A task that is added
 * again after a failure gets another record, with a higher `again`. */
int gd_queue_reader_follow(struct gd_queue_reader *r, int (*fn)(void *user, const struct gd_queue_record *record),
                           void *user);
/* Sets a function that gd_queue_reader_follow() calls at least once a second while there is no new record. It returns 0
 * to continue, or any other value to stop: the call then returns this value. NULL: no function. */
void gd_queue_reader_on_wait(struct gd_queue_reader *r, int (*fn)(void *user), void *user);

/* A node, as it last described itself. */
struct gd_queue_node {
    const char *host, *id; /* borrowed until fn returns */
    uint64_t pid;
    double age_seconds; /* since its last sign of life, by the clock of the server */
    bool draining, left;
    unsigned workers, busy;
    uint64_t done, failed, held;
    double tasks_per_second;
    const char *http; /* the address of its page; NULL: none */
    const char *note; /* why it leaves; NULL: nothing to say */
};
int gd_queue_reader_nodes(struct gd_queue_reader *r, int (*fn)(void *user, const struct gd_queue_node *node),
                          void *user);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
