/* SPDX-License-Identifier: MIT
 *
 * Records of failures, written and read. What makes a line such a record: it is an object with an input, a failure that
 * is a string, and attempts that is a number. A person's own records hardly look like that by chance.
 */
#include "cli/output/files/failure_record.h"

#include <stdint.h>
#include <string.h>

#include "cli/json.h"

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
    /* In the middle of a line that is too long: from the next one on, if there is one. */
    const char *next = from > text && from[-1] != '\n' ? memchr(from, '\n', (size_t)(end - from)) : NULL;
    if (next && next + 1 < end)
        from = next + 1;
    *size = (size_t)(end - from);
    return from;
}

/* --- writing ------------------------------------------------------------------- */

static void put_input(struct cli_bytes *b, const struct cli_failure_record *f)
{
    cli_bytes_text(b, "{\"input\":");
    if (f->json && !memchr(f->payload, '\n', f->payload_size) && cli_json_valid(f->payload, f->payload_size)) {
        cli_bytes_add(b, f->payload, f->payload_size);
        cli_bytes_text(b, ",\"json\":true");
    } else {
        cli_json_arguments(b, f->payload, f->payload_size);
    }
}

static void put_text(struct cli_bytes *b, const char *name, const char *text, size_t size)
{
    cli_bytes_format(b, ",\"%s\":", name);
    cli_json_string(b, text, size);
}

void cli_failure_record_put(struct cli_bytes *b, const struct cli_failure_record *f)
{
    size_t size = f->err_size;
    const char *failure = f->failure ? f->failure : "error", *error = f->error ? f->error : failure;
    const char *err = size ? cli_last_lines(f->err, &size) : NULL;
    put_input(b, f);
    put_text(b, "failure", failure, strlen(failure));
    put_text(b, "error", error, strlen(error));
    cli_bytes_format(b, ",\"attempts\":%u", f->attempts);
    if (f->exit_code || f->signal)
        cli_bytes_format(b, ",\"exit_code\":%d,\"signal\":%d", f->exit_code, f->signal);
    if (err)
        put_text(b, "stderr", err, size);
    cli_bytes_text(b, "}\n");
}

/* --- reading -------------------------------------------------------------------- */

struct part {
    const char *text;
    size_t size;
};

static bool member(const char *line, size_t size, const char *name, struct part *out)
{
    return cli_json_member(line, size, name, &out->text, &out->size);
}

static bool is_record(const char *line, size_t size, struct part *input)
{
    struct part failure, attempts;
    /* Most lines of most inputs are none: a look that costs little comes first. */
    if (!memmem(line, size, "\"failure\"", 9) || !memmem(line, size, "\"attempts\"", 10) || !cli_json_valid(line, size))
        return false;
    return member(line, size, "input", input) && member(line, size, "failure", &failure) && *failure.text == '"' &&
           member(line, size, "attempts", &attempts) && *attempts.text >= '0' && *attempts.text <= '9';
}

/* The arguments that a string or an array of strings stands for. */
static bool add_arguments(struct cli_bytes *b, const struct part *input)
{
    return cli_json_decode(b, input->text, input->size) || cli_json_list(b, input->text, input->size);
}

bool cli_failure_record_take(struct cli_bytes *b, const char *line, size_t size, bool json)
{
    struct part input, was_json;
    struct cli_bytes arguments = { 0 };
    if (!is_record(line, size, &input))
        return false;
    const bool as_it_is =
        (member(line, size, "json", &was_json) && *was_json.text == 't') || !add_arguments(&arguments, &input);
    if (as_it_is)
        cli_bytes_add(b, input.text, input.size);
    else if (json)
        cli_json_string(b, arguments.data, arguments.size);
    else
        cli_bytes_add(b, arguments.data, arguments.size);
    b->failed = b->failed || arguments.failed;
    cli_bytes_free(&arguments);
    return true;
}
