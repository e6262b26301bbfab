/* SPDX-License-Identifier: MIT
 *
 * Writes and reads failure records. A line is a failure record if it is an object with the members "input" (any
 * value), "failure" (a string) and "attempts" (a number). A user's own records are unlikely to have the same members by
 * chance.
 */
#include "cli/output/files/failure_record.h"

#include <stdint.h>
#include <string.h>

#include "base/text/buffer.h"
#include "base/text/json.h"
#include "base/text/json_write.h"

enum { MOST_LINES = 20, MOST_BYTES = 4096 };

const char *cli_last_lines(const char *text, size_t *size)
{
    const char *end = text + *size, *from = end;
    if (*size == 0)
        return text;
    for (unsigned lines = 0; from > text && end - from < MOST_BYTES; from--) {
        /* The newline at the very end belongs to the last line. */
        if (from[-1] == '\n' && from != end && ++lines == MOST_LINES)
            break;
    }
    /* If `from` is in the middle of a line, the text begins with the next line, if there is one. */
    const char *next = from > text && from[-1] != '\n' ? memchr(from, '\n', (size_t)(end - from)) : NULL;
    if (next && next + 1 < end)
        from = next + 1;
    *size = (size_t)(end - from);
    return from;
}

/* --- writing ------------------------------------------------------------------- */

static void put_input(struct gd__buffer *b, const struct cli_failure_record *f)
{
    gd__buffer_text(b, "{\"input\":");
    if (f->json && !memchr(f->payload, '\n', f->payload_size) && gd__json_valid(f->payload, f->payload_size)) {
        gd__buffer_add(b, f->payload, f->payload_size);
        gd__buffer_text(b, ",\"json\":true");
    } else {
        gd__json_put_arguments(b, f->payload, f->payload_size);
    }
}

static void put_text(struct gd__buffer *b, const char *name, const char *text, size_t size)
{
    gd__buffer_format(b, ",\"%s\":", name);
    gd__json_put_string(b, text, size);
}

void cli_failure_record_put(struct gd__buffer *b, const struct cli_failure_record *f)
{
    size_t size = f->err_size;
    const char *failure = f->failure ? f->failure : "error", *error = f->error ? f->error : failure;
    const char *err = size ? cli_last_lines(f->err, &size) : NULL;
    put_input(b, f);
    put_text(b, "failure", failure, strlen(failure));
    put_text(b, "error", error, strlen(error));
    gd__buffer_format(b, ",\"attempts\":%u", f->attempts);
    if (f->exit_code || f->signal)
        gd__buffer_format(b, ",\"exit_code\":%d,\"signal\":%d", f->exit_code, f->signal);
    if (err)
        put_text(b, "stderr", err, size);
    gd__buffer_text(b, "}\n");
}

/* --- reading -------------------------------------------------------------------- */

enum { INPUT, FAILURE, ATTEMPTS, JSON, N_MEMBERS };

static bool is_record(const char *line, size_t size, struct gd__json members[N_MEMBERS])
{
    static const char *const names[] = { "input", "failure", "attempts", "json" };
    /* Most lines of most inputs are not records, so a cheap test comes first. */
    return memmem(line, size, "\"failure\"", 9) && memmem(line, size, "\"attempts\"", 10) &&
           gd__json_scan_object(line, size, names, members, N_MEMBERS) == 0 && members[INPUT].kind != GD__JSON_NONE &&
           members[FAILURE].kind == GD__JSON_STRING && members[ATTEMPTS].kind == GD__JSON_NUMBER;
}

/* Adds the arguments from a string or an array of strings. */
static bool add_arguments(struct gd__buffer *b, const struct gd__json *input)
{
    return gd__json_read_string(b, input->at, input->size) || gd__json_read_list(b, input->at, input->size);
}

bool cli_failure_record_take(struct gd__buffer *b, const char *line, size_t size, bool json)
{
    struct gd__json members[N_MEMBERS];
    struct gd__buffer arguments = { 0 };
    if (!is_record(line, size, members))
        return false;
    const struct gd__json *input = &members[INPUT];
    const bool as_it_is = members[JSON].kind == GD__JSON_TRUE || !add_arguments(&arguments, input);
    if (as_it_is)
        gd__buffer_add(b, input->at, input->size);
    else if (json)
        gd__json_put_string(b, arguments.data, arguments.size);
    else
        gd__buffer_add(b, arguments.data, arguments.size);
    b->failed = b->failed || arguments.failed;
    gd__buffer_free(&arguments);
    return true;
}
