/* SPDX-License-Identifier: MIT
 *
 * What identifies a task in a journal or a queue: its payload, unless --key says otherwise.
 *
 *   --key     identified by                                  run again
 *   input     the payload
 *   file      the payload; its version is size and time      when a file that it names has another size or time
 *   path      the payload, which is a path                   never, even if the file changes
 *   .NAME     a member of the JSON record                    never, even if the rest of the record changes
 *
 * A missing file has version "-". Its task is still created, and fails normally. A record without the member is
 * identified by its payload, and a message about that is printed once.
 */
#ifndef GD_CLI_INPUT_TASK_KEY_H
#define GD_CLI_INPUT_TASK_KEY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text/buffer.h"

/* A zeroed struct is --key input. */
struct cli_task_key {
    bool files;         /* --key file */
    const char *member; /* --key .NAME */
    bool warned;        /* about a record without that member */
    struct gd__buffer key, version;
};

/* The kind of key that the user has given, or the default. */
const char *cli_task_key_name(const char *given, bool is_directory);

/* name: as cli_task_key_name() returns it; borrowed. Returns 0, or -1 with gd__fail_text(). */
int cli_task_key_open(struct cli_task_key *k, const char *name, bool jsonl);
void cli_task_key_free(struct cli_task_key *k);

/* Whether payloads identify tasks, so that nothing has to be found. */
bool cli_task_key_is_payload(const struct cli_task_key *k);

/* Finds the key of a payload, and its version (NULL: none). They are valid until the next call. Returns 0, or -1 with
 * gd__fail_text(). */
int cli_task_key_find(struct cli_task_key *k, const void *data, size_t size, const void **key, size_t *key_size,
                      const char **version);

/* The same without the version: files are not looked at. */
int cli_task_key_bytes(struct cli_task_key *k, const void *data, size_t size, const void **key, size_t *key_size);

#endif
