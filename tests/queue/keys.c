/* SPDX-License-Identifier: MIT
 *
 * Keys and credentials of NATS (keys.h). An nkey is an Ed25519 key in base32, with a prefix that says what it is for and
 * a checksum. A JWT is signed with such a key.
 */
#include "queue/keys.h"

#include "support/test.h"

enum { KEY_SIZE = 32, SEED_PREFIX = 18 << 3, JWT_MOST = 4096 };

/* Runs a command, and returns the last `size` bytes of its output. */
static void output_of(const char *command, unsigned char *last, size_t size)
{
    unsigned char all[1024];
    FILE *f = popen(command, "re");
    CHECK(f != NULL);
    const size_t n = fread(all, 1, sizeof all, f);
    if (pclose(f) != 0 || n < size)
        FAIL("failed: %s", command);
    memcpy(last, all + n - size, size);
}

static unsigned checksum(const unsigned char *bytes, size_t n)
{
    unsigned sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum ^= (unsigned)bytes[i] << 8;
        for (unsigned bit = 0; bit < 8; bit++)
            sum = (sum & 0x8000 ? sum << 1 ^ 0x1021 : sum << 1) & 0xffff;
    }
    return sum;
}

/* Writes bytes as digits of `bits` bits, without padding. */
static void encode(const unsigned char *bytes, size_t n, unsigned bits, const char *digits, char *out)
{
    unsigned long held = 0;
    unsigned have = 0;
    for (size_t i = 0; i < n; i++) {
        held = held << 8 | bytes[i];
        for (have += 8; have >= bits; have -= bits)
            *out++ = digits[held >> (have - bits) & ((1U << bits) - 1)];
        held &= (1UL << have) - 1;
    }
    if (have > 0)
        *out++ = digits[held << (bits - have) & ((1U << bits) - 1)];
    *out = '\0';
}

static void encode_nkey(unsigned char *bytes, size_t n, char *out)
{
    const unsigned sum = checksum(bytes, n);
    bytes[n] = (unsigned char)sum;
    bytes[n + 1] = (unsigned char)(sum >> 8);
    encode(bytes, n + 2, 5, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", out);
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    CHECK(f != NULL);
    fputs(text, f);
    CHECK_EQ(fclose(f), 0);
}

void key_make(struct key *k, enum key_kind kind, const char *path)
{
    char command[800], file[300];
    unsigned char bytes[KEY_SIZE + 4];
    snprintf(k->file, sizeof k->file, "%s.der", path);
    snprintf(command, sizeof command, "openssl genpkey -algorithm ed25519 -outform DER -out %s && cat %s", k->file,
             k->file);
    output_of(command, bytes + 2, KEY_SIZE);
    bytes[0] = (unsigned char)(SEED_PREFIX | kind >> 5);
    bytes[1] = (unsigned char)((kind & 31) << 3);
    encode_nkey(bytes, KEY_SIZE + 2, k->seed);
    snprintf(command, sizeof command, "openssl pkey -inform DER -in %s -pubout -outform DER", k->file);
    output_of(command, bytes + 1, KEY_SIZE);
    bytes[0] = (unsigned char)kind;
    encode_nkey(bytes, KEY_SIZE + 1, k->public);
    snprintf(file, sizeof file, "%s.nk", path);
    write_text(file, k->seed);
}

static void make_in(struct key *k, enum key_kind kind, const char *directory, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%.200s/%s", directory, name);
    key_make(k, kind, path);
}

static const char base64url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* A JWT about `subject`, signed by `signer`. claims: the members of "nats". */
static void make_jwt(char jwt[JWT_MOST], const struct key *signer, const struct key *subject, const char *claims)
{
    static const char header[] = "{\"typ\":\"JWT\",\"alg\":\"ed25519-nkey\"}";
    char body[JWT_MOST / 2], command[800], file[300];
    unsigned char signature[64];
    snprintf(body, sizeof body,
             "{\"jti\":\"%.20s\",\"iat\":1700000000,\"iss\":\"%s\",\"name\":\"test\",\"sub\":\"%s\",\"nats\":{%s,"
             "\"version\":2}}",
             subject->public, signer->public, subject->public, claims);
    encode((const unsigned char *)header, sizeof header - 1, 6, base64url, jwt);
    strcat(jwt, ".");
    encode((const unsigned char *)body, strlen(body), 6, base64url, jwt + strlen(jwt));
    snprintf(file, sizeof file, "%s.text", subject->file);
    write_text(file, jwt);
    snprintf(command, sizeof command, "openssl pkeyutl -sign -keyform DER -inkey %s -rawin -in %s", signer->file, file);
    output_of(command, signature, sizeof signature);
    strcat(jwt, ".");
    encode(signature, sizeof signature, 6, base64url, jwt + strlen(jwt));
}

void credentials_make(const char *directory, char *config, size_t room)
{
    static const char limits[] =
        "\"limits\":{\"subs\":-1,\"data\":-1,\"payload\":-1,\"imports\":-1,\"exports\":-1,\"wildcards\":true,"
        "\"conn\":-1,\"leaf\":-1,\"mem_storage\":-1,\"disk_storage\":-1,\"streams\":-1,\"consumer\":-1},"
        "\"type\":\"account\"";
    /* JetStream needs an account of the system, which has no JetStream itself. */
    static const char no_limits[] = "\"limits\":{\"subs\":-1,\"data\":-1,\"payload\":-1,\"imports\":-1,\"exports\":-1,"
                                    "\"wildcards\":true,\"conn\":-1,\"leaf\":-1},\"type\":\"account\"";
    struct key operator_key, system, account, user;
    char path[300], jwts[4][JWT_MOST], creds[JWT_MOST + 500];
    make_in(&operator_key, KEY_OPERATOR, directory, "operator");
    make_in(&system, KEY_ACCOUNT, directory, "system");
    make_in(&account, KEY_ACCOUNT, directory, "account");
    make_in(&user, KEY_USER, directory, "user");
    make_jwt(jwts[0], &operator_key, &operator_key, "\"type\":\"operator\"");
    make_jwt(jwts[1], &operator_key, &system, no_limits);
    make_jwt(jwts[2], &operator_key, &account, limits);
    make_jwt(jwts[3], &account, &user,
             "\"pub\":{},\"sub\":{},\"subs\":-1,\"data\":-1,\"payload\":-1,\"type\":\"user\"");
    const int n = snprintf(config, room,
                           "operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload: { %s: %s, %s: %s }\n",
                           jwts[0], system.public, system.public, jwts[1], account.public, jwts[2]);
    CHECK(n > 0 && (size_t)n < room);
    snprintf(creds, sizeof creds,
             "-----BEGIN NATS USER JWT-----\n%s\n------END NATS USER JWT------\n\n"
             "-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n",
             jwts[3], user.seed);
    snprintf(path, sizeof path, "%s/user.creds", directory);
    write_text(path, creds);
}
