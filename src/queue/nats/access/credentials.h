/* How a client proves to a NATS server who it is: files and secrets, by the names of the nats command.
 *
 *   creds      NATS_CREDS      a file with a JWT and the seed of a user
 *   nkey       NATS_NKEY       a file with the seed of a user
 *   tls_ca     NATS_CA         a file with certificates of authorities that are trusted
 *   tls_cert   NATS_CERT       a file with the certificate of this client, and tls_key, NATS_KEY: its key
 *   user       NATS_USER       with password, NATS_PASSWORD
 *   token      NATS_TOKEN
 *
 * No secret is ever a part of an error message or of a warning.
 */
#ifndef GD_QUEUE_NATS_ACCESS_CREDENTIALS_H
#define GD_QUEUE_NATS_ACCESS_CREDENTIALS_H

#include <stddef.h>

/* NULL or "": not used. All texts are borrowed. */
struct gd__nats_options {
    const char *creds, *nkey;                /* files */
    const char *tls_ca, *tls_cert, *tls_key; /* files */
    const char *user, *password, *token;
    unsigned connect_timeout_ms; /* 0: 10000 */
};

/* Sets what is NULL from the environment. Variables of a kind that the options name themselves are not used: a user with
 * --creds and NATS_TOKEN means --creds. */
void gd__nats_options_environment(struct gd__nats_options *o);

/* Checks that the options fit together, and that the files can be read and are what they should be. If other users can
 * read a file with a secret, writes a warning of at most room - 1 bytes; otherwise "". Returns 0 or a negative code with
 * an error message. */
int gd__nats_options_check(const struct gd__nats_options *o, char *warning, size_t room);

/* Which credentials are used, for messages: "the credentials in FILE", "the user and password". NULL: none. */
const char *gd__nats_options_kind(const struct gd__nats_options *o);

#endif
