/* The consumers of the model server. Private to server.c and consumer.c. */
#ifndef GD_TESTS_SIM_QUEUE_SERVER_CONSUMER_H
#define GD_TESTS_SIM_QUEUE_SERVER_CONSUMER_H

#include "sim/queue/server/server.h"

void consumer_ask(struct server *s, uint64_t now, unsigned client, const struct gd__queue_request *r);
void consumer_new_message(struct server *s, size_t index);
void consumer_die(struct server *s, uint64_t now, const struct server_loss *loss);

/* server.c */
void server_answer(struct server *s, unsigned client, struct gd__queue_answer *a, enum gd__queue_answer_kind kind);

#endif
