/* SPDX-License-Identifier: MIT
 *
 * A client of the control socket sends arbitrary bytes, in pieces of any size. Each line is a request or gets an error.
 * What was read as a request is a valid one. Every answer is one line of JSON, and fits its buffer. */
#include <gpu_dispatch/error.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json.h"
#include "dispatch/control/protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)   \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

static void check_answer(const char *text, size_t n)
{
    MUST(n > 1 && n <= GD__CONTROL_ANSWER && text[n - 1] == '\n' && !memchr(text, '\n', n - 1));
    MUST(gd__json_valid(text, n - 1));
}

static void check_request(const struct gd__control *c)
{
    MUST((unsigned)c->kind < GD__CONTROL_KINDS && c->gpu_id >= 0);
    MUST(c->kind == GD__CONTROL_CANCEL || c->value <= UINT32_MAX);
}

/* The text of an answer may contain what the client sent. */
static void answer(const char *line, size_t size)
{
    char text[GD__CONTROL_ANSWER];
    struct gd__control request;
    struct gd__control_answer a = { .code = gd__control_parse(line, size, &request) };
    MUST(a.code <= 0);
    if (a.code == 0)
        check_request(&request);
    snprintf(a.text, sizeof a.text, "%s", gd_error_text());
    check_answer(text, gd__control_write_answer(text, &a));
    memcpy(a.text, line, size < sizeof a.text ? size : sizeof a.text);
    check_answer(text, gd__control_write_answer(text, &a));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gd__control_input in;
    in.n = 0;
    for (size_t at = 0; at < size;) {
        const size_t room = sizeof in.bytes - in.n, piece = 1 + data[at] % 64u;
        size_t n = piece < room ? piece : room, line;
        n = n < size - at ? n : size - at;
        memcpy(in.bytes + in.n, data + at, n);
        in.n += n;
        at += n;
        while (gd__control_line(&in, &line)) {
            answer(in.bytes, line);
            gd__control_drop(&in, line);
        }
        if (gd__control_is_full(&in))
            in.n = 0;
        MUST(in.n < sizeof in.bytes);
    }
    return 0;
}
