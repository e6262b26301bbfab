/* The public key of a user, from the seed in an nkey file.
 *
 * A client tells the server its public key, and signs what the server sends. libnats signs with the file, but wants to be
 * told the public key. It is computed with libcrypto, which libnats is linked with.
 *
 *   seed        base32 of: "SU" as 2 bytes, 32 bytes, CRC-16 of these
 *   public key  base32 of: "U" as 1 byte, 32 bytes, CRC-16 of these
 */
#ifndef GD_QUEUE_NATS_ACCESS_NKEY_H
#define GD_QUEUE_NATS_ACCESS_NKEY_H

#include <stdbool.h>
#include <stddef.h>

#include "queue/nats/library.h"

enum {
    GD__NKEY_BYTES = 32,
    GD__NKEY_SEED_SIZE = 58,   /* characters */
    GD__NKEY_PUBLIC_ROOM = 57, /* 56 characters and a NUL */
};

/* Finds the seed of a user in the text of a file. Returns false if there is none, or if it is damaged. */
bool gd__nkey_seed(unsigned char out[GD__NKEY_BYTES], const char *text, size_t size);

/* Writes the public key of a user. Returns out. */
char *gd__nkey_public_text(char out[GD__NKEY_PUBLIC_ROOM], const unsigned char key[GD__NKEY_BYTES]);

/* Reads the file and computes the public key of its seed. Returns 0 or a negative code with an error message. */
int gd__nkey_public(char out[GD__NKEY_PUBLIC_ROOM], const struct gd__nats *n, const char *file);

#endif
