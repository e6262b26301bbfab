/* SPDX-License-Identifier: MIT
 *
 * The model server of tests/sim/queue in real time, for tests with threads and processes: it answers on its own thread,
 * and its links can be cut.
 *
 *     struct queue_model *m = queue_model_open("songs");
 *     queue_model_push(m, 0, "a.wav", 5);
 *     gd__queue_run_connect = queue_model_connect; // runs connect to the model that was opened last
 *     ...
 *     queue_model_close(&m);
 */
#ifndef GD_TESTS_SUPPORT_QUEUE_MODEL_H
#define GD_TESTS_SUPPORT_QUEUE_MODEL_H

#include <gpu_dispatch/queue.h>

#include "queue/connect.h"
#include "queue/link.h"
#include "queue/messages/message.h"

struct queue_model;

struct queue_model *queue_model_open(const char *name); /* without streams */
void queue_model_close(struct queue_model **m);         /* after all links are closed */

void queue_model_lease(struct queue_model *m, uint32_t lease_ms); /* of consumers that are created later; 30000 */
/* Creates streams, and a consumer for priority 0. */
void queue_model_create(struct queue_model *m);
/* Publishes a task message with one task, and creates the consumer of its priority. Creates the queue. */
struct gd__queue_key queue_model_push(struct queue_model *m, int priority, const void *payload, size_t size);
/* The same, with a payload that is a file. */
struct gd__queue_key queue_model_push_data(struct queue_model *m, int priority, const struct gd__queue_key *key,
                                           const struct gd__queue_data *payload);
/* Publishes n tasks, each with `size` bytes of payload, as one message. */
struct gd__queue_key queue_model_push_bundle(struct queue_model *m, const void *payloads, size_t size, unsigned n);
void queue_model_put(struct queue_model *m, const char *subject, const void *data, size_t size); /* in any case */

/* A gd__queue_connect_fn, for the model that was opened last. */
int queue_model_connect(struct gd__queue_link **out, const struct gd_queue_options *queue,
                        const struct gd__queue_listener *listener, const struct gd__queue_patience *patience);

void queue_model_remove_consumers(struct queue_model *m); /* nothing is delivered until they are created again */

/* While links are cut, requests and notices get lost. Links report it. */
void queue_model_cut(struct queue_model *m, bool is_cut);
void queue_model_await_lost(struct queue_model *m, size_t requests); /* until so many were lost */
/* From now on the server does not answer, but the links stay connected. */
void queue_model_stop(struct queue_model *m);

size_t queue_model_count(struct queue_model *m, enum gd__queue_kind stream);
void queue_model_await(struct queue_model *m, enum gd__queue_kind stream, size_t count); /* until it has so many */
/* The message with this subject; released with free(). NULL: none. */
void *queue_model_find(struct queue_model *m, const char *subject, size_t *size);
/* Reads the record of a task that was pushed alone. Returns false if there is none. Points into *message, to be freed. */
bool queue_model_record(struct queue_model *m, const struct gd__queue_key *key, struct gd__queue_record *out,
                        void **message);
/* The status of a node; released with free(). NULL: none. */
void *queue_model_find_status(struct queue_model *m, size_t *size);
/* How many task messages are delivered, and neither acknowledged nor given back. */
size_t queue_model_held(struct queue_model *m);
void queue_model_await_held(struct queue_model *m, size_t most); /* until there are no more than this */
void queue_model_await_notices(struct queue_model *m,
                               size_t count); /* until nodes have extended leases so many times */
void queue_model_await_delivered(struct queue_model *m, uint64_t least); /* until so many deliveries were made */

#endif
