/* SPDX-License-Identifier: MIT
 *
 * Reads arbitrary bytes as what a node says about itself. The texts of whatever is accepted are printable, and it is the
 * same after it was written and parsed again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/printable.h"
#include "queue/messages/node_status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)   \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

static void must_be_printable(const char *text, size_t room)
{
    char printable[GD__NODE_NOTE_ROOM];
    MUST(memchr(text, '\0', room));
    (void)gd__text_fit(printable, room, text, room);
    MUST(strcmp(printable, text) == 0);
}

static void parse_again(const struct gd__node_status *s)
{
    struct gd__node_status again;
    struct gd__buffer b = { 0 };
    gd__node_status_write(&b, s);
    MUST(!b.failed && gd__node_status_parse(&again, b.data, b.size) == 0);
    MUST(again.state == s->state && again.pid == s->pid && again.workers == s->workers && again.busy == s->busy);
    MUST(again.done == s->done && again.failed == s->failed && again.held == s->held);
    MUST(strcmp(again.host, s->host) == 0 && strcmp(again.http, s->http) == 0 && strcmp(again.note, s->note) == 0);
    gd__buffer_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gd__node_status s;
    char id[GD__QUEUE_NODE_ROOM];
    char *text = malloc(size + 1);
    MUST(text);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    int rc = gd__node_status_parse(&s, text, size);
    MUST(rc == 0 || rc == GD_E_CORRUPT || rc == GD_E_VERSION);
    if (rc == 0) {
        must_be_printable(s.host, sizeof s.host);
        must_be_printable(s.http, sizeof s.http);
        must_be_printable(s.note, sizeof s.note);
        parse_again(&s);
    }
    rc = gd__node_status_id(id, "q", text);
    MUST(rc == GD_E_CORRUPT || (rc == 0 && strlen(id) == GD__QUEUE_NODE_ROOM - 1 && strstr(text, id)));
    free(text);
    return 0;
}
