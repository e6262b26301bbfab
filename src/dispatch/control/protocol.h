/* The lines on the control socket of a job. docs/control.md describes them for users.
 *
 * A request and its answer are each one JSON object on one line. Answers come in the order of the requests:
 *
 *   {"do":"pause"}                               {"ok":true,"message":"paused: ..."}
 *   {"do":"cancel","task":999}                   {"ok":false,"error":"GD_E_INVALID","message":"task 999 ..."}
 *
 * The other side is not trusted: it may send any bytes.
 */
#ifndef GD_DISPATCH_CONTROL_PROTOCOL_H
#define GD_DISPATCH_CONTROL_PROTOCOL_H

#include <gpu_dispatch/dispatcher.h>
#include <stdbool.h>
#include <stddef.h>

#include "dispatch/control/control.h"

enum { GD__CONTROL_LINE = 1024, GD__CONTROL_ANSWER = 2048 };

/* Bytes that came, up to one line and what was read with it. */
struct gd__control_input {
    char bytes[GD__CONTROL_LINE];
    size_t n;
};

/* Finds the first line. Returns false if there is none yet. *size is without the newline. */
bool gd__control_line(const struct gd__control_input *in, size_t *size);
/* Drops the first `size` bytes and the newline after them. */
void gd__control_drop(struct gd__control_input *in, size_t size);
/* Whether a line is longer than the input can hold. */
bool gd__control_is_full(const struct gd__control_input *in);

/* Reads a request. Returns 0, or GD_E_INVALID with an error message. */
int gd__control_parse(const char *line, size_t size, struct gd__control *out);

/* Write an answer with its newline. Return its size. */
size_t gd__control_write_answer(char to[GD__CONTROL_ANSWER], const struct gd__control_answer *a);
size_t gd__control_write_status(char to[GD__CONTROL_ANSWER], const struct gd_stats *s, bool stopping);

#endif
