/* SPDX-License-Identifier: MIT
 *
 * Lines of failed.jsonl: each is the record of a task that failed. --jsonl accepts these records as input.
 *
 *     {"input":"a.wav","failure":"error","error":"exit code 3","attempts":1,"exit_code":3,"signal":0,"stderr":"..."}
 *
 *   input     a string; an array of strings if the task has several arguments; if json is true, any JSON
 *   json      true: the input was a line of JSON (--jsonl), and is unchanged
 *   failure   "error", "timeout", "crash", ...
 *   error     the error message
 *   attempts  how many times the task was started
 *   exit_code, signal   if there are any
 *   stderr    the last lines that the task wrote to stderr: at most 20, at most 4 KiB
 */
#ifndef GD_CLI_OUTPUT_FILES_FAILURE_RECORD_H
#define GD_CLI_OUTPUT_FILES_FAILURE_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text/buffer.h"

struct cli_failure_record {
    const char *payload;
    size_t payload_size;
    bool json; /* the payload should be a line of JSON */
    const char *failure, *error;
    unsigned attempts;
    int exit_code, signal;
    const char *err; /* only the end of it is written */
    size_t err_size;
};

/* Appends the record as a line, with its newline. */
void cli_failure_record_put(struct gd__buffer *b, const struct cli_failure_record *f);

/* If the line is a failure record, appends the payload of its task and returns true. Otherwise appends nothing and
 * returns false. json: payloads must be JSON texts, since a --stream program gets them. If json is false, they are
 * arguments separated by NULs. */
bool cli_failure_record_take(struct gd__buffer *b, const char *line, size_t size, bool json);

/* Finds the last lines of a text. Sets *size to their size, and returns where they begin. */
const char *cli_last_lines(const char *text, size_t *size);

#endif
