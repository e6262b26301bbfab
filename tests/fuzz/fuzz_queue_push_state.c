/* SPDX-License-Identifier: MIT
 *
 * Reads arbitrary bytes as the lock of a push. The host of whatever is accepted is printable, and the lock is the same
 * after it was written and parsed again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/printable.h"
#include "queue/push/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)   \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

static void parse_again(const struct gd__push_state *s)
{
    struct gd__push_state again;
    struct gd__buffer b = { 0 };
    gd__push_state_write(&b, s);
    MUST(!b.failed && gd__push_state_parse(&again, b.data, b.size) == 0);
    MUST(again.open == s->open && again.pid == s->pid && again.started == s->started);
    MUST(strcmp(again.host, s->host) == 0 && strcmp(again.process, s->process) == 0);
    MUST(strcmp(again.nonce, s->nonce) == 0);
    gd__buffer_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gd__push_state s;
    struct gd__push_watch w = { 0 };
    char printable[GD__PUSH_HOST_ROOM];
    char *text = malloc(size + 1);
    MUST(text);
    if (size > 0)
        memcpy(text, data, size);
    const int rc = gd__push_state_parse(&s, text, size);
    MUST(rc == 0 || rc == GD_E_CORRUPT || rc == GD_E_VERSION);
    if (rc == 0) {
        (void)gd__text_line(printable, sizeof printable, s.host, strlen(s.host));
        MUST(strcmp(printable, s.host) == 0);
        parse_again(&s);
    }
    const struct gd__queue_answer a = { .kind = GD__ANSWER_OK, .sequence = 1, .data = text, .size = size };
    MUST(gd__push_is_open(&w, 1, &a, NULL) == (rc != 0 || s.open));
    free(text);
    return 0;
}
