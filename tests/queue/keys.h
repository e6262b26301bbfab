/* SPDX-License-Identifier: MIT
 *
 * Keys and credentials of NATS, made with openssl: pairs of nkeys, and a file with the credentials of a user (a JWT and a
 * seed) with the configuration of a server that accepts them.
 *
 *     struct key user;
 *     key_make(&user, KEY_USER, "/dir/user");      // writes the seed to /dir/user.nk
 *     server_start(&s, &(struct server_options){ .nkey = user.public });
 *
 *     credentials_make("/dir", config, sizeof config);   // writes /dir/user.creds
 *     server_start(&s, &(struct server_options){ .config = config });
 */
#ifndef GD_TESTS_QUEUE_KEYS_H
#define GD_TESTS_QUEUE_KEYS_H

#include <stddef.h>

enum key_kind { KEY_ACCOUNT = 0, KEY_OPERATOR = 14 << 3, KEY_USER = 20 << 3 };

struct key {
    char public[64], seed[64];
    char file[256]; /* the private key, for openssl */
};

/* Writes `path`.nk with the seed. */
void key_make(struct key *k, enum key_kind kind, const char *path);

void credentials_make(const char *directory, char *config, size_t room);

#endif
