/* SPDX-License-Identifier: MIT
 *
 * Run while building: makes a C file of a page.
 *
 *     embed NAME PAGE.html STYLE.css SCRIPT.js... > NAME.c
 *
 * In the page @STYLE@ and @SCRIPT@ become the files' contents, @STYLE_HASH@ and @SCRIPT_HASH@ their hashes as a content
 * security policy has them. Scripts are put together in the order they are given.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
    char *data;
    size_t size;
};

__attribute__((noreturn)) static void die(const char *what, const char *which)
{
    fprintf(stderr, "embed: %s %s\n", what, which);
    exit(1);
}

static void add(struct text *t, const char *data, size_t size)
{
    char *larger = realloc(t->data, t->size + size + 1);
    if (!larger)
        die("no memory for", "a page");
    memcpy(larger + t->size, data, size);
    t->data = larger;
    t->size += size;
    t->data[t->size] = '\0';
}

static void add_file(struct text *t, const char *path)
{
    char block[4096];
    size_t n;
    FILE *f = fopen(path, "rb");
    if (!f)
        die("cannot read", path);
    while ((n = fread(block, 1, sizeof block, f)) > 0)
        add(t, block, n);
    if (ferror(f))
        die("cannot read", path);
    fclose(f);
}

/* --- SHA-256, as FIPS 180-4 has it ------------------------------------------------------ */

static uint32_t turn(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

/* The first 32 bits of the fractions of the cube (power 3) or square (2) roots of the first primes: found by bisection
 * in whole numbers, so that there is no table to be mistyped. root = floor(p^(1/power) * 2^32), of which 32 bits count.
 */
static uint32_t root_bits(uint64_t prime, int power)
{
    unsigned __int128 low = 0, high = (unsigned __int128)1 << 36;
    while (high - low > 1) {
        const unsigned __int128 mid = (low + high) / 2;
        /* mid^power <= prime * 2^(32 * power), with both sides of the cube divided so that nothing overflows */
        const int fits = power == 2 ? mid * mid <= (unsigned __int128)prime << 64
                                    : mid * mid * mid <= (unsigned __int128)prime << 96;
        if (fits)
            low = mid;
        else
            high = mid;
    }
    return (uint32_t)low;
}

static uint64_t next_prime(uint64_t p)
{
    for (;;) {
        int prime = 1;
        p++;
        for (uint64_t d = 2; d * d <= p; d++)
            prime = prime && p % d != 0;
        if (prime)
            return p;
    }
}

static void sha256_block(uint32_t state[8], const uint32_t k[64], const unsigned char *block)
{
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + (turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
               (turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        const uint32_t s1 = turn(v[4], 6) ^ turn(v[4], 11) ^ turn(v[4], 25);
        const uint32_t t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
        const uint32_t s0 = turn(v[0], 2) ^ turn(v[0], 13) ^ turn(v[0], 22);
        const uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof v[0]);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

static void sha256(const struct text *t, unsigned char out[32])
{
    uint32_t state[8], k[64];
    uint64_t prime = 1;
    for (int i = 0; i < 64; i++) {
        prime = next_prime(prime);
        k[i] = root_bits(prime, 3);
        if (i < 8)
            state[i] = root_bits(prime, 2);
    }
    struct text padded = { 0 };
    const uint64_t bits = (uint64_t)t->size * 8;
    char length[8];
    add(&padded, t->data, t->size);
    add(&padded, "\x80", 1);
    while (padded.size % 64 != 56)
        add(&padded, "", 1);
    for (int i = 0; i < 8; i++)
        length[i] = (char)(bits >> (56 - 8 * i));
    add(&padded, length, sizeof length);
    for (size_t at = 0; at < padded.size; at += 64)
        sha256_block(state, k, (const unsigned char *)padded.data + at);
    for (int i = 0; i < 32; i++)
        out[i] = (unsigned char)(state[i / 4] >> (24 - 8 * (i % 4)));
    free(padded.data);
}

/* "sha256-BASE64" */
static void hash(const struct text *t, char out[64])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char sum[33] = { 0 };
    sha256(t, sum);
    int at = sprintf(out, "sha256-");
    for (int i = 0; i < 33; i += 3) {
        const uint32_t three = (uint32_t)sum[i] << 16 | (uint32_t)sum[i + 1] << 8 | (i + 2 < 32 ? sum[i + 2] : 0u);
        for (int k = 0; k < 4; k++)
            out[at++] = digits[three >> (18 - 6 * k) & 63];
    }
    out[at - 1] = '='; /* 32 bytes are 43 digits */
    out[at] = '\0';
}

/* --- the page ---------------------------------------------------------------------------- */

static void replace(struct text *page, const char *mark, const char *by, size_t size)
{
    char *at = strstr(page->data, mark);
    if (!at)
        return;
    struct text made = { 0 };
    add(&made, page->data, (size_t)(at - page->data));
    add(&made, by, size);
    add(&made, at + strlen(mark), strlen(at + strlen(mark)));
    free(page->data);
    *page = made;
}

static void print_page(const char *name, const struct text *page)
{
    printf("#include \"pages.h\"\n\nconst unsigned char %s_page[] = {", name);
    for (size_t i = 0; i < page->size; i++)
        printf("%s%u,", i % 24 ? "" : "\n", (unsigned char)page->data[i]);
    printf("\n};\nconst size_t %s_page_size = sizeof %s_page;\n", name, name);
}

int main(int argc, char **argv)
{
    if (argc < 5)
        die("usage:", "embed NAME PAGE.html STYLE.css SCRIPT.js...");
    struct text page = { 0 }, style = { 0 }, script = { 0 };
    char style_hash[64], script_hash[64];
    add(&page, "", 0); /* an empty text is one too */
    add(&style, "", 0);
    add(&script, "", 0);
    add_file(&page, argv[2]);
    add_file(&style, argv[3]);
    for (int i = 4; i < argc; i++)
        add_file(&script, argv[i]);
    if (strstr(script.data, "</script") || strstr(style.data, "</style"))
        die("an end tag within", argv[1]);
    hash(&style, style_hash);
    hash(&script, script_hash);
    replace(&page, "@STYLE_HASH@", style_hash, strlen(style_hash));
    replace(&page, "@SCRIPT_HASH@", script_hash, strlen(script_hash));
    replace(&page, "@STYLE@", style.data, style.size);
    replace(&page, "@SCRIPT@", script.data, script.size);
    print_page(argv[1], &page);
    printf("const char %s_style_hash[] = \"%s\";\nconst char %s_script_hash[] = \"%s\";\n", argv[1], style_hash,
           argv[1], script_hash);
    free(page.data);
    free(style.data);
    free(script.data);
    return ferror(stdout) || fflush(stdout) != 0;
}
