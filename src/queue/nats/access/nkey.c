/* The public key of an nkey: see nkey.h. */
#include "queue/nats/access/nkey.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

enum {
    PREFIX_SEED = 18 << 3, /* the first letter is S */
    PREFIX_USER = 20 << 3, /* U */
    SEED_BYTES = 2 + GD__NKEY_BYTES + 2,
    PUBLIC_BYTES = 1 + GD__NKEY_BYTES + 2,
    FILE_MOST = 4096,
    ED25519 = 1087, /* EVP_PKEY_ED25519 */
};

/* CRC-16/XMODEM */
static uint16_t checksum(const unsigned char *bytes, size_t size)
{
    unsigned crc = 0;
    for (size_t i = 0; i < size; i++) {
        crc ^= (unsigned)bytes[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1;
    }
    return (uint16_t)crc;
}

/* Base32 without padding. Returns false if a character does not belong to it. */
static bool decode(unsigned char *to, const char *text, size_t size)
{
    unsigned bits = 0, n_bits = 0;
    for (size_t i = 0; i < size; i++) {
        const char *at = memchr(alphabet, text[i], sizeof alphabet - 1);
        if (!at)
            return false;
        bits = bits << 5 | (unsigned)(at - alphabet);
        n_bits += 5;
        if (n_bits >= 8) {
            n_bits -= 8;
            *to++ = (unsigned char)(bits >> n_bits);
        }
    }
    return true;
}

static bool decode_seed(unsigned char out[GD__NKEY_BYTES], const char *text)
{
    unsigned char b[SEED_BYTES + 1];
    bool valid = decode(b, text, GD__NKEY_SEED_SIZE) && b[0] == (PREFIX_SEED | PREFIX_USER >> 5) &&
                 b[1] == (unsigned char)((PREFIX_USER & 31) << 3) &&
                 checksum(b, SEED_BYTES - 2) == (b[SEED_BYTES - 2] | b[SEED_BYTES - 1] << 8);
    if (valid)
        memcpy(out, b + 2, GD__NKEY_BYTES);
    explicit_bzero(b, sizeof b);
    return valid;
}

bool gd__nkey_seed(unsigned char out[GD__NKEY_BYTES], const char *text, size_t size)
{
    static const char space[] = " \t\r\n";
    for (size_t at = 0; at < size;) {
        size_t length = 0;
        while (at + length < size && !memchr(space, text[at + length], sizeof space))
            length++;
        if (length == GD__NKEY_SEED_SIZE && decode_seed(out, text + at))
            return true;
        at += length + 1;
    }
    return false;
}

char *gd__nkey_public_text(char out[GD__NKEY_PUBLIC_ROOM], const unsigned char key[GD__NKEY_BYTES])
{
    unsigned char b[PUBLIC_BYTES] = { PREFIX_USER };
    unsigned bits = 0, n_bits = 0;
    size_t n = 0;
    memcpy(b + 1, key, GD__NKEY_BYTES);
    const uint16_t crc = checksum(b, PUBLIC_BYTES - 2);
    b[PUBLIC_BYTES - 2] = (unsigned char)crc;
    b[PUBLIC_BYTES - 1] = (unsigned char)(crc >> 8);
    for (size_t i = 0; i < sizeof b; i++) {
        bits = bits << 8 | b[i];
        for (n_bits += 8; n_bits >= 5; n_bits -= 5)
            out[n++] = alphabet[bits >> (n_bits - 5) & 31];
    }
    out[n] = '\0';
    return out;
}

/* ---- with libcrypto ---- */

struct crypto {
    void *(*new_key)(int type, void *engine, const unsigned char *bytes, size_t size);
    int (*get_public)(const void *key, unsigned char *bytes, size_t *size);
    void (*free_key)(void *key);
};

static bool find_crypto(struct crypto *c, void *library)
{
    void *symbols[] = { dlsym(library, "EVP_PKEY_new_raw_private_key"), dlsym(library, "EVP_PKEY_get_raw_public_key"),
                        dlsym(library, "EVP_PKEY_free") };
    memcpy(&c->new_key, &symbols[0], sizeof symbols[0]); /* ISO C has no such cast */
    memcpy(&c->get_public, &symbols[1], sizeof symbols[1]);
    memcpy(&c->free_key, &symbols[2], sizeof symbols[2]);
    return symbols[0] && symbols[1] && symbols[2];
}

static int compute_public(unsigned char out[GD__NKEY_BYTES], void *library, const unsigned char seed[GD__NKEY_BYTES])
{
    struct crypto c;
    size_t size = GD__NKEY_BYTES;
    if (!find_crypto(&c, library))
        return gd__error(GD_E_UNSUPPORTED, "an nkey needs a libnats that was built with TLS: use --creds instead");
    void *key = c.new_key(ED25519, NULL, seed, GD__NKEY_BYTES);
    const bool done = key && c.get_public(key, out, &size) == 1 && size == GD__NKEY_BYTES;
    c.free_key(key);
    return done ? 0 : gd__error(GD_E_FAILED, "libcrypto cannot compute the public key of the nkey");
}

int gd__nkey_public(char out[GD__NKEY_PUBLIC_ROOM], const struct gd__nats *n, const char *file)
{
    char text[FILE_MOST];
    unsigned char seed[GD__NKEY_BYTES], public_key[GD__NKEY_BYTES];
    const int fd = open(file, O_RDONLY | O_CLOEXEC);
    const ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text);
    const int failure = errno;
    if (fd >= 0)
        close(fd);
    if (size < 0)
        return errno = failure, gd__error_errno("cannot read the nkey file %s", file);
    int rc =
        gd__nkey_seed(seed, text, (size_t)size)
            ? compute_public(public_key, n->library, seed)
            : gd__error(GD_E_INVALID, "%s has no nkey of a user: expected a line of %d characters that begins with SU",
                        file, GD__NKEY_SEED_SIZE);
    explicit_bzero(text, sizeof text);
    explicit_bzero(seed, sizeof seed);
    if (rc == 0)
        gd__nkey_public_text(out, public_key);
    return rc;
}
