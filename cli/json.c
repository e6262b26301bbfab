/* SPDX-License-Identifier: MIT
 *
 * JSON strings. Names of files are bytes, JSON is Unicode: a byte that is part of no valid UTF-8 sequence is written
 * as the lone surrogate U+DC00 + byte, which is what Python's "surrogateescape" does, and read back the same way, so
 * that every input survives the way there and back.
 *
 * Characters that a terminal or an editor would act on (C1 controls, line separators, changes of direction) are written
 * as escapes too: they mean the same, and a line of JSON does no harm where it is shown.
 */
#include "cli/json.h"

#include <stdint.h>
#include <string.h>

size_t cli_utf8_length(const unsigned char *p, size_t left)
{
    if (p[0] < 0x80)
        return 1;
    size_t n = p[0] >= 0xc2 && p[0] <= 0xdf ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4 : 0;
    if (n == 0 || n > left)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    bool bad = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
               (p[0] == 0xf4 && p[1] > 0x8f);
    return bad ? 0 : n;
}

size_t cli_utf8_valid(const char *text, size_t size)
{
    const unsigned char *p = (const unsigned char *)text;
    for (size_t i = 0, n; i < size; i += n) {
        n = cli_utf8_length(p + i, size - i);
        if (n == 0)
            return i;
    }
    return size;
}

/* The letter after the backslash for those that have a short form. */
static const char short_form[128] = {
    ['"'] = '"', ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't',
};

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void add_special(struct cli_bytes *b, unsigned char c)
{
    if (c < 128 && short_form[c])
        cli_bytes_format(b, "\\%c", short_form[c]);
    else
        cli_bytes_format(b, "\\u%s%02x", c < 128 ? "00" : "dc", c);
}

/* U+0080 to U+009F, U+2028 to U+202E, U+2066 to U+2069: the code of the character at p, of n bytes; 0: another. */
static unsigned control_beyond_ascii(const unsigned char *p, size_t n)
{
    if (n == 2 && p[0] == 0xc2 && p[1] <= 0x9f)
        return p[1];
    if (n != 3 || p[0] != 0xe2 || (p[1] != 0x80 && p[1] != 0x81))
        return 0;
    const unsigned c = 0x2000 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    return (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) ? c : 0;
}

/* How many bytes at p stand for themselves. */
static size_t plain_run(const unsigned char *p, size_t left)
{
    size_t run = 0;
    while (run < left) {
        const size_t n = p[run] >= 0x80 ? cli_utf8_length(p + run, left - run) : is_plain(p[run]);
        if (n == 0 || (n > 1 && control_beyond_ascii(p + run, n)))
            break;
        run += n;
    }
    return run;
}

void cli_json_string(struct cli_bytes *b, const void *data, size_t size)
{
    const unsigned char *p = data;
    cli_bytes_add(b, "\"", 1);
    for (size_t i = 0; i < size;) {
        const size_t run = plain_run(p + i, size - i); /* most of a text is plain: added in runs */
        cli_bytes_add(b, p + i, run);
        i += run;
        if (i >= size)
            break;
        const size_t n = p[i] >= 0x80 ? cli_utf8_length(p + i, size - i) : 0;
        if (n > 1)
            cli_bytes_format(b, "\\u%04x", control_beyond_ascii(p + i, n));
        else
            add_special(b, p[i]);
        i += n > 1 ? n : 1;
    }
    cli_bytes_add(b, "\"", 1);
}

void cli_json_put_text(struct cli_bytes *b, const char *name, const char *text)
{
    cli_bytes_format(b, ",\"%s\":", name);
    if (*text)
        cli_json_string(b, text, strlen(text));
    else
        cli_bytes_text(b, "null");
}

void cli_json_arguments(struct cli_bytes *b, const char *text, size_t size)
{
    const char *nul = size ? memchr(text, 0, size) : NULL;
    if (!nul) {
        cli_json_string(b, text, size);
        return;
    }
    cli_bytes_text(b, "[");
    for (; nul; nul = size ? memchr(text, 0, size) : NULL) {
        cli_json_string(b, text, (size_t)(nul - text));
        cli_bytes_text(b, ",");
        size -= (size_t)(nul - text) + 1;
        text = nul + 1;
    }
    cli_json_string(b, text, size);
    cli_bytes_text(b, "]");
}

/* --- decoding ---------------------------------------------------------------- */

struct reader {
    const char *at, *end;
};

static bool read_hex4(struct reader *r, unsigned *out)
{
    *out = 0;
    if (r->end - r->at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdefABCDEF";
        const char *found = *r->at ? strchr(digits, *r->at) : NULL;
        if (!found)
            return false;
        unsigned value = (unsigned)(found - digits);
        *out = *out * 16 + (value > 15 ? value - 6 : value);
        r->at++;
    }
    return true;
}

static void add_utf8(struct cli_bytes *b, unsigned c)
{
    unsigned char u[4];
    size_t n;
    if (c < 0x80) {
        u[0] = (unsigned char)c;
        n = 1;
    } else if (c < 0x800) {
        u[0] = (unsigned char)(0xc0 | c >> 6);
        n = 2;
    } else if (c < 0x10000) {
        u[0] = (unsigned char)(0xe0 | c >> 12);
        n = 3;
    } else {
        u[0] = (unsigned char)(0xf0 | c >> 18);
        n = 4;
    }
    for (size_t i = 1; i < n; i++)
        u[i] = (unsigned char)(0x80 | (c >> 6 * (n - 1 - i) & 0x3f));
    cli_bytes_add(b, u, n);
}

/* \uXXXX, after the u: a pair is one character, a lone \udc80..\udcff a byte, any other half of a pair U+FFFD. */
static bool read_unicode(struct reader *r, struct cli_bytes *b)
{
    unsigned c, low;
    if (!read_hex4(r, &c))
        return false;
    if (c >= 0xd800 && c <= 0xdbff && r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u') {
        struct reader ahead = { r->at + 2, r->end };
        if (!read_hex4(&ahead, &low))
            return false;
        if (low >= 0xdc00 && low <= 0xdfff) {
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
            r->at = ahead.at;
        }
    }
    if (c >= 0xdc80 && c <= 0xdcff) {
        unsigned char byte = (unsigned char)(c - 0xdc00);
        cli_bytes_add(b, &byte, 1);
    } else {
        add_utf8(b, c >= 0xd800 && c <= 0xdfff ? 0xfffd : c);
    }
    return true;
}

static bool read_escape(struct reader *r, struct cli_bytes *b)
{
    static const char letters[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
    char c = r->at < r->end ? *r->at++ : 0;
    if (c == 'u')
        return read_unicode(r, b);
    const char *found = c ? strchr(letters, c) : NULL;
    if (found)
        cli_bytes_add(b, &meaning[found - letters], 1);
    return found != NULL;
}

static void skip_space(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

/* Of a character that stands for itself; 0: it does not. Bytes that are not UTF-8 are no JSON. */
static size_t character_length(const struct reader *r)
{
    const unsigned char *p = (const unsigned char *)r->at;
    if (*p >= 0x80)
        return cli_utf8_length(p, (size_t)(r->end - r->at));
    return *p >= 0x20 && *p != '"' && *p != '\\';
}

/* From after the opening quote to after the closing one. */
static bool read_string(struct reader *r, struct cli_bytes *b)
{
    while (r->at < r->end) {
        const char *start = r->at;
        size_t n;
        while (r->at < r->end && (n = character_length(r)) > 0)
            r->at += n;
        cli_bytes_add(b, start, (size_t)(r->at - start));
        char c = r->at < r->end ? *r->at++ : 0;
        if (c == '"')
            return true;
        if (c != '\\' || !read_escape(r, b))
            return false;
    }
    return false;
}

bool cli_json_decode(struct cli_bytes *b, const char *text, size_t size)
{
    struct reader r = { text, text + size };
    size_t before = b->size;
    skip_space(&r);
    if (r.at == r.end || *r.at != '"')
        return false;
    r.at++;
    bool good = read_string(&r, b);
    skip_space(&r);
    good = good && r.at == r.end;
    if (!good)
        b->size = before;
    return good;
}

/* --- checking ------------------------------------------------------------------ */

enum { DEEPEST = 512 };

static bool check_value(struct reader *r, int depth);

static bool skip_text(struct reader *r, const char *text)
{
    size_t size = strlen(text);
    if ((size_t)(r->end - r->at) < size || memcmp(r->at, text, size) != 0)
        return false;
    r->at += size;
    return true;
}

static size_t skip_digits(struct reader *r)
{
    const char *start = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        r->at++;
    return (size_t)(r->at - start);
}

static bool check_number(struct reader *r)
{
    (void)skip_text(r, "-");
    bool zero = r->at < r->end && *r->at == '0';
    size_t digits = skip_digits(r);
    if (digits == 0 || (zero && digits > 1))
        return false;
    if (skip_text(r, ".") && skip_digits(r) == 0)
        return false;
    if (!skip_text(r, "e") && !skip_text(r, "E"))
        return true;
    if (!skip_text(r, "+"))
        (void)skip_text(r, "-");
    return skip_digits(r) > 0;
}

static bool check_string(struct reader *r)
{
    struct cli_bytes dropped = { .failed = true }; /* takes nothing */
    return skip_text(r, "\"") && read_string(r, &dropped);
}

/* After the opening bracket: elements up to the closing one. Those of an object have a name. */
static bool check_elements(struct reader *r, const char *close, bool named, int depth)
{
    skip_space(r);
    if (skip_text(r, close))
        return true;
    do {
        skip_space(r);
        if (named) {
            if (!check_string(r))
                return false;
            skip_space(r);
            if (!skip_text(r, ":"))
                return false;
        }
        if (!check_value(r, depth))
            return false;
    } while (skip_text(r, ","));
    return skip_text(r, close);
}

/* A value with the space around it. */
static bool check_value(struct reader *r, int depth)
{
    skip_space(r);
    char c = r->at < r->end ? *r->at : 0;
    bool good;
    if (c == '"')
        good = check_string(r);
    else if (c == '[' || c == '{') {
        r->at++;
        good = depth < DEEPEST && check_elements(r, c == '[' ? "]" : "}", c == '{', depth + 1);
    } else
        good = skip_text(r, "true") || skip_text(r, "false") || skip_text(r, "null") || check_number(r);
    skip_space(r);
    return good;
}

bool cli_json_valid(const char *text, size_t size)
{
    struct reader r = { text, text + size };
    return size > 0 && check_value(&r, 0) && r.at == r.end;
}

/* --- parts of a value ------------------------------------------------------------ */

/* The name of a member, in bytes; r stands at its opening quote. */
static bool name_is(struct reader *r, const char *name)
{
    struct cli_bytes found = { 0 };
    r->at++;
    const bool good = read_string(r, &found) && found.size == strlen(name) &&
                      (found.size == 0 || memcmp(found.data, name, found.size) == 0);
    cli_bytes_free(&found);
    return good;
}

/* One member, and the space around it: *is_it, and where its value begins and ends. */
static bool read_member(struct reader *r, const char *name, bool *is_it, const char **from, const char **to)
{
    struct reader ahead;
    skip_space(r);
    ahead = *r;
    if (!check_string(r))
        return false;
    *is_it = name_is(&ahead, name);
    skip_space(r);
    if (!skip_text(r, ":"))
        return false;
    skip_space(r);
    *from = r->at;
    if (!check_value(r, 1))
        return false;
    for (*to = r->at; *to > *from && strchr(" \t\r\n", (*to)[-1]); --*to)
        ;
    return true;
}

bool cli_json_member(const char *text, size_t size, const char *name, const char **value, size_t *value_size)
{
    struct reader r = { text, text + size };
    const char *from, *to;
    bool is_it;
    skip_space(&r);
    if (!skip_text(&r, "{"))
        return false;
    do {
        if (!read_member(&r, name, &is_it, &from, &to))
            return false;
        if (is_it) {
            *value = from;
            *value_size = (size_t)(to - from);
            return true;
        }
    } while (skip_text(&r, ","));
    return false;
}

bool cli_json_list(struct cli_bytes *b, const char *text, size_t size)
{
    struct reader r = { text, text + size };
    const size_t before = b->size;
    bool good, more = false;
    skip_space(&r);
    good = skip_text(&r, "[");
    do {
        if (more)
            cli_bytes_add(b, "", 1);
        skip_space(&r);
        good = good && skip_text(&r, "\"") && read_string(&r, b);
        skip_space(&r);
        more = good && skip_text(&r, ",");
    } while (more);
    good = good && skip_text(&r, "]");
    skip_space(&r);
    good = good && r.at == r.end;
    if (!good)
        b->size = before;
    return good;
}
