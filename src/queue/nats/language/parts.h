/* Parts of reading a server's answers: used only in this directory. */
#ifndef GD_QUEUE_NATS_LANGUAGE_PARTS_H
#define GD_QUEUE_NATS_LANGUAGE_PARTS_H

#include "queue/nats/language/jetstream.h"

/* Reads a decimal number. Returns false if the text is anything else. */
bool gd__js_number(const char *text, size_t size, uint64_t *out);

/* Whether a stream or consumer that exists already has the settings that this program needs. Others, such as the number of
 * replicas, the lease or a limit on bytes, are the user's choice. If not, x->text says which one is wrong. */
bool gd__js_stream_fits(struct gd__js_exchange *x, const struct gd__json *config);
bool gd__js_consumer_fits(struct gd__js_exchange *x, const struct gd__json *config);

#endif
