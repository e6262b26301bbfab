/* SPDX-License-Identifier: MIT
 *
 * Options that all subcommands with --queue share: where the queue is, and the credentials for its server.
 */
#ifndef GD_CLI_QUEUE_QUEUE_OPTIONS_H
#define GD_CLI_QUEUE_QUEUE_OPTIONS_H

#include <gpu_dispatch/queue.h>

#include "cli/options.h"

/* Not given: NULL. Strings are borrowed from argv. */
struct cli_queue {
    const char *url;
    const char *creds, *nkey, *tls_ca, *tls_cert, *tls_key;
    const char *spill_dir;
};

/* NOLINTBEGIN(bugprone-macro-parentheses): the name of a member cannot be in parentheses */
/* Entries of a table of options, for a struct cli_queue that is the member `field` of struct `type`. `heading` is their
 * heading in the help. --queue itself has its own macro, because its explanation differs. */
#define CLI_QUEUE_URL(type, field, explanation, heading)                                                      \
    {                                                                                                         \
        "queue", 0, "URL", explanation, cli_set_text, .offset = offsetof(type, field.url), .group = (heading) \
    }
#define CLI_QUEUE_SPILL_DIR(type, field)                                                                               \
    {                                                                                                                  \
        "spill-dir", 0, "DIR",                                                                                         \
            "directory on a file system that all machines share, for payloads and outputs above 64 KiB", cli_set_text, \
            .offset = offsetof(type, field.spill_dir)                                                                  \
    }
#define CLI_QUEUE_CREDENTIALS(type, field)                                                        \
    { "creds",      0,                                                                            \
      "FILE",       "credentials of a user: a file with a JWT and a seed (default: $NATS_CREDS)", \
      cli_set_text, .offset = offsetof(type, field.creds) },                                      \
        { "nkey",       0,                                                                        \
          "FILE",       "a file with the seed of an nkey (default: $NATS_NKEY)",                  \
          cli_set_text, .offset = offsetof(type, field.nkey) },                                   \
        { "tlsca",      0,                                                                        \
          "FILE",       "certificates of the authorities to trust (default: $NATS_CA)",           \
          cli_set_text, .offset = offsetof(type, field.tls_ca) },                                 \
        { "tlscert",    0,                                                                        \
          "FILE",       "certificate of this client (default: $NATS_CERT)",                       \
          cli_set_text, .offset = offsetof(type, field.tls_cert) },                               \
    {                                                                                             \
        "tlskey", 0, "FILE", "private key of this client (default: $NATS_KEY)", cli_set_text,     \
            .offset = offsetof(type, field.tls_key)                                               \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

/* Refuses options that make no sense together: credentials without a queue, a certificate without its key. Returns 0, or
 * -1 with gd__fail_text(). */
int cli_queue_check(const struct cli_queue *q);

/* Sets what the user has given. The rest stays. */
void cli_queue_apply(const struct cli_queue *q, struct gd_queue_options *o);

/* Tells the user once if others can read a file with a secret, which the options or the environment name. */
void cli_queue_warn(const struct gd_queue_options *o);

/* "the server is durable ..." or which setting to check; for the end of a push and the beginning of a run. */
const char *cli_queue_durability(int durable);

#endif
