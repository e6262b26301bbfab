/* SPDX-License-Identifier: MIT
 *
 * Lines of failed.jsonl: a record of each task that failed, which --jsonl takes as input again.
 *
 *     {"input":"a.wav","failure":"error","error":"exit code 3","attempts":1,"exit_code":3,"signal":0,"stderr":"..."}
 *
 *   input     a string; an array of strings where the task has several arguments; or, with
 *   json      true: the line of JSON that it was (--jsonl), as it is
 *   failure   "error", "timeout", "crash", ...
 *   error     in words
 *   attempts  how many times it was started
 *   exit_code, signal   where there are any
 *   stderr    the last lines that it wrote there: 20 at the most, 4 KiB at the most
 */
#ifndef GD_CLI_OUTPUT_FILES_FAILURE_RECORD_H
#define GD_CLI_OUTPUT_FILES_FAILURE_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text/buffer.h"

struct cli_failure_record {
    const char *payload;
    size_t payload_size;
    bool json; /* the payload is a line of JSON, if it is one */
    const char *failure, *error;
    unsigned attempts;
    int exit_code, signal;
    const char *err; /* the end of it is taken */
    size_t err_size;
};

/* Adds the line with its newline. */
void cli_failure_record_put(struct gd__buffer *b, const struct cli_failure_record *f);

/* If the line is such a record, adds the payload of its task and returns true; else adds nothing. json: payloads are to
 * be JSON texts, since a --stream program gets them; else they are arguments with a NUL between them. */
bool cli_failure_record_take(struct gd__buffer *b, const char *line, size_t size, bool json);

/* The last lines of a text: *size is made smaller. Returns where they begin. */
const char *cli_last_lines(const char *text, size_t *size);

#endif
