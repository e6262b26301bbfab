/* SPDX-License-Identifier: MIT
 *
 * Reads arbitrary bytes as the messages of a server with JetStream, in answer to a request of each kind. The first byte
 * chooses the request. Then come messages: a line with flags and headers, and the data up to a byte 0. Whatever comes, a
 * request has any number of items and at most one end, and what an answer points to can be read.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "queue/nats/access/nkey.h"
#include "queue/nats/language/jetstream.h"
#include "queue/nats/server/durable.h"
#include "queue/nats/server/info.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)   \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

enum { MESSAGES = 8, HEADERS = 7, STEPS_MOST = 1 << 16 };

/* The values of the headers, in the order of this list, with a NUL after each. */
static const char *const names[HEADERS] = { "Status",           "Description",        "Nats-Sequence",  "Nats-Subject",
                                            "Nats-Num-Pending", "Nats-Last-Sequence", "Nats-Time-Stamp" };
enum { OF_TASK = 0x40, HAS_TIME = 0x80 }; /* flags; those of the first six headers are the bits below */

static const char *header(void *headers, const char *name)
{
    const char *const *values = headers;
    for (int i = 0; i < HEADERS; i++)
        if (strcmp(names[i], name) == 0)
            return values[i] && *values[i] ? values[i] : NULL;
    return NULL;
}

static unsigned touched;

static void check_answer(const struct gd__queue_answer *a)
{
    touched += (unsigned)strlen(a->text) + (unsigned)strlen(a->subject) + (unsigned)strlen(a->token);
    MUST(strlen(a->token) < GD__QUEUE_TOKEN_ROOM);
    for (size_t i = 0; i < a->size; i++)
        touched += ((const unsigned char *)a->data)[i];
}

/* Returns true if the request has ended. */
static bool read_message(struct gd__js_exchange *x, const struct gd__js_incoming *in)
{
    struct gd__queue_answer a;
    struct gd__js_message m;
    for (int i = 0; i < STEPS_MOST; i++) {
        const enum gd__js_step step = gd__js_take(x, in, &a);
        if (step == GD__JS_ITEM || step == GD__JS_END) {
            MUST((a.kind == GD__ANSWER_ITEM) == (step == GD__JS_ITEM) && a.id == 7);
            check_answer(&a);
        }
        if (step == GD__JS_SEND) {
            gd__js_message(x, &m);
            MUST(m.size < sizeof m.body && strlen(m.subject) < sizeof m.subject - 1);
        }
        if (step != GD__JS_ITEM)
            return step == GD__JS_END;
    }
    abort(); /* a message with more items than it has bytes */
}

/* Cuts the next part, up to a NUL, off the text. */
static char *next(char **at)
{
    char *part = *at;
    *at += strlen(part) + 1;
    return part;
}

static void read_all(struct gd__js_exchange *x, char *text, const char *end)
{
    char *at = text;
    for (int i = 0; i < MESSAGES && at < end; i++) {
        const char *values[HEADERS] = { NULL };
        const unsigned flags = (unsigned char)*at++;
        for (int h = 0; h < HEADERS && at < end; h++)
            if (h < HEADERS - 1 ? flags >> h & 1 : flags & HAS_TIME)
                values[h] = next(&at);
        const char *reply = at < end ? next(&at) : "", *subject = at < end ? next(&at) : "";
        const char *data = at < end ? next(&at) : "";
        const struct gd__js_incoming in = {
            .subject = subject,
            .reply = *reply ? reply : NULL,
            .data = data,
            .size = strlen(data),
            .to_request = !(flags & OF_TASK),
            .headers = values,
            .header = header,
        };
        if (read_message(x, &in))
            return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gd__js_exchange x;
    struct gd__nats_info info;
    struct gd__js_ack ack;
    unsigned char seed[GD__NKEY_BYTES];
    if (size == 0)
        return 0;
    char *text = malloc(size + 1);
    MUST(text);
    memcpy(text, data, size);
    text[size] = '\0';
    (void)gd__nats_info_parse(&info, text, size);
    (void)gd__nats_durable_parse(text, size, "NDK");
    (void)gd__nkey_seed(seed, text, size);
    (void)gd__js_ack_parse(&ack, "q", text);
    const struct gd__queue_request r = {
        .ask = (enum gd__queue_ask)(1 + data[0] % GD__ASK_PULL),
        .id = 7,
        .stream = data[0] & 0x80 ? GD__QUEUE_STATE : GD__QUEUE_TASK,
        .subject = "gd.q.t.0.k",
        .from = 1,
        .most = 3,
        .by_leader = data[0] & 0x40,
    };
    MUST(gd__js_begin(&x, "q", &r) == 0);
    read_all(&x, text + 1, text + size);
    gd__js_free(&x);
    free(text);
    return 0;
}
