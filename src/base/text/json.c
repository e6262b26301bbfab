/* Reads JSON: see json.h. Texts are scanned by recursive descent, with one function per kind of value. Nothing is
 * allocated. The scan stops at the first error. struct scan stores the error and its position, from which the error
 * message is made.
 *
 * The scan is strict: no comments, no trailing commas, no bare words, UTF-8 without overlong forms and surrogates, and
 * only space after the value.
 */
#include "base/text/json.h"

#include <string.h>

#include "base/error.h"
#include "base/text/utf8.h"

struct scan {
    const unsigned char *text;
    size_t size, at;
    unsigned depth;
    const char *wrong; /* NULL: no error yet */
};

/* The members that are wanted from the outermost object. */
struct wanted {
    const char *const *names;
    struct gd__json *members;
    size_t n;
};

static enum gd__json_kind scan_value(struct scan *s);

/* Always returns false, so that callers can return it. */
static bool wrong(struct scan *s, const char *message)
{
    if (!s->wrong)
        s->wrong = message;
    return false;
}

static int peek(const struct scan *s)
{
    return s->at < s->size ? s->text[s->at] : -1;
}

static bool skip(struct scan *s, int c)
{
    if (peek(s) != c)
        return false;
    s->at++;
    return true;
}

static void skip_space(struct scan *s)
{
    while (s->at < s->size &&
           (s->text[s->at] == ' ' || s->text[s->at] == '\t' || s->text[s->at] == '\n' || s->text[s->at] == '\r'))
        s->at++;
}

/* ---- characters ---- */

static int hex_digit(int c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool scan_escape(struct scan *s)
{
    const int c = peek(s);
    if (c < 0 || !strchr("\"\\/bfnrtu", c) || c == 0)
        return wrong(s, "an unknown escape");
    s->at++;
    for (int i = 0; c == 'u' && i < 4; i++, s->at++)
        if (hex_digit(peek(s)) < 0)
            return wrong(s, "an escape \\u without four hexadecimal digits");
    return true;
}

static bool scan_string(struct scan *s)
{
    if (!skip(s, '"'))
        return wrong(s, "a string is missing");
    while (s->at < s->size) {
        const unsigned char c = s->text[s->at];
        if (c == '"') {
            s->at++;
            return true;
        }
        if (c < 0x20)
            return wrong(s, "a control character in a string");
        size_t n = 1;
        if (c == '\\') {
            s->at++;
            n = 0;
            if (!scan_escape(s))
                return false;
        } else if (c >= 0x80 && (n = gd__utf8_length(s->text + s->at, s->size - s->at)) == 0) {
            return wrong(s, "bytes that are not UTF-8");
        }
        s->at += n;
    }
    return wrong(s, "a string without a closing quote");
}

/* ---- values ---- */

static bool scan_digits(struct scan *s)
{
    const size_t first = s->at;
    while (peek(s) >= '0' && peek(s) <= '9')
        s->at++;
    return s->at > first || wrong(s, "a digit is missing");
}

static bool scan_number(struct scan *s)
{
    skip(s, '-');
    if (!skip(s, '0') && !scan_digits(s))
        return false;
    if (skip(s, '.') && !scan_digits(s))
        return false;
    if (skip(s, 'e') || skip(s, 'E')) {
        if (!skip(s, '+'))
            skip(s, '-');
        return scan_digits(s);
    }
    return true;
}

static bool scan_word(struct scan *s, const char *word)
{
    const size_t n = strlen(word);
    if (s->size - s->at < n || memcmp(s->text + s->at, word, n) != 0)
        return wrong(s, "a value is missing");
    s->at += n;
    return true;
}

static bool enter_nested(struct scan *s)
{
    s->at++;
    if (++s->depth > GD__JSON_DEPTH)
        return wrong(s, "arrays and objects nested too deeply");
    skip_space(s);
    return true;
}

static bool scan_array(struct scan *s)
{
    if (!enter_nested(s))
        return false;
    if (!skip(s, ']')) {
        do {
            skip_space(s);
            if (!scan_value(s))
                return false;
            skip_space(s);
        } while (skip(s, ','));
        if (!skip(s, ']'))
            return wrong(s, "an array without a closing ]");
    }
    s->depth--;
    return true;
}

/* Finds the wanted member with that name. The name is part of the text, with its quotes. Returns NULL if it is not
 * wanted. A name with escapes may have up to 1024 bytes in the text. */
static struct gd__json *find_wanted(const struct wanted *w, const struct gd__json *name)
{
    char decoded[1024];
    const char *plain = name->at + 1;
    size_t length = name->size - 2;
    if (!w)
        return NULL;
    if (memchr(plain, '\\', length)) {
        if (name->size > sizeof decoded)
            return NULL;
        length = gd__json_decode(name, decoded);
        plain = decoded;
    }
    for (size_t i = 0; i < w->n; i++)
        if (strlen(w->names[i]) == length && memcmp(w->names[i], plain, length) == 0)
            return &w->members[i];
    return NULL;
}

static struct gd__json span(const struct scan *s, size_t first, enum gd__json_kind kind)
{
    return (struct gd__json){ (const char *)s->text + first, s->at - first, kind };
}

static bool scan_member(struct scan *s, const struct wanted *w)
{
    const size_t name_at = s->at;
    if (!scan_string(s))
        return false;
    const struct gd__json name = span(s, name_at, GD__JSON_STRING);
    struct gd__json *member = find_wanted(w, &name);
    if (member && member->kind)
        return wrong(s, "a member that occurs twice");
    skip_space(s);
    if (!skip(s, ':'))
        return wrong(s, "a colon is missing");
    skip_space(s);
    const size_t value_at = s->at;
    const enum gd__json_kind kind = scan_value(s);
    if (kind && member)
        *member = span(s, value_at, kind);
    return kind != GD__JSON_NONE;
}

static bool scan_object(struct scan *s, const struct wanted *w)
{
    if (!enter_nested(s))
        return false;
    if (!skip(s, '}')) {
        do {
            skip_space(s);
            if (!scan_member(s, w))
                return false;
            skip_space(s);
        } while (skip(s, ','));
        if (!skip(s, '}'))
            return wrong(s, "an object without a closing }");
    }
    s->depth--;
    return true;
}

/* Returns GD__JSON_NONE if something is wrong. */
static enum gd__json_kind scan_value(struct scan *s)
{
    const int c = peek(s);
    switch (c) {
    case '{':
        return scan_object(s, NULL) ? GD__JSON_OBJECT : GD__JSON_NONE;
    case '[':
        return scan_array(s) ? GD__JSON_ARRAY : GD__JSON_NONE;
    case '"':
        return scan_string(s) ? GD__JSON_STRING : GD__JSON_NONE;
    case 't':
        return scan_word(s, "true") ? GD__JSON_TRUE : GD__JSON_NONE;
    case 'f':
        return scan_word(s, "false") ? GD__JSON_FALSE : GD__JSON_NONE;
    case 'n':
        return scan_word(s, "null") ? GD__JSON_NULL : GD__JSON_NONE;
    default:
        if (c == '-' || (c >= '0' && c <= '9'))
            return scan_number(s) ? GD__JSON_NUMBER : GD__JSON_NONE;
        wrong(s, c < 0 ? "the text ends" : "a value is missing");
        return GD__JSON_NONE;
    }
}

/* Checks that only space follows the outermost value, and sets the error message. */
static int finish(struct scan *s)
{
    skip_space(s);
    if (!s->wrong && s->at < s->size)
        wrong(s, "text after the end of the value");
    return s->wrong ? gd__error(GD_E_INVALID, "%s at byte %zu", s->wrong, s->at + 1) : 0;
}

int gd__json_scan(const char *text, size_t size, struct gd__json *top)
{
    struct scan s = { .text = (const unsigned char *)text, .size = size };
    skip_space(&s);
    const size_t first = s.at;
    const enum gd__json_kind kind = scan_value(&s);
    *top = span(&s, first, kind);
    return finish(&s);
}

int gd__json_scan_object(const char *text, size_t size, const char *const *names, struct gd__json *members, size_t n)
{
    struct scan s = { .text = (const unsigned char *)text, .size = size };
    const struct wanted w = { names, members, n };
    memset(members, 0, n * sizeof *members);
    skip_space(&s);
    if (peek(&s) == '{')
        scan_object(&s, &w);
    else if (scan_value(&s)) /* otherwise finish() reports what is wrong */
        return finish(&s) < 0 ? GD_E_INVALID : gd__error(GD_E_INVALID, "not a JSON object");
    return finish(&s);
}

/* ---- reading values ---- */

/* The value of the four digits after "\u". They were checked by the scan. */
static uint32_t hex4(const char *p)
{
    uint32_t c = 0;
    for (int i = 0; i < 4; i++)
        c = c << 4 | (uint32_t)hex_digit((unsigned char)p[i]);
    return c;
}

/* Writes the character of the escape at *p (after "\u"), and moves *p past it. */
static char *put_unicode(char *to, const char **p, const char *end)
{
    const uint32_t c = hex4(*p);
    *p += 4;
    if (c >= 0xdc80 && c <= 0xdcff) {
        *to++ = (char)(c - 0xdc00);
        return to;
    }
    if (c < 0xd800 || c > 0xdfff)
        return to + gd__utf8_encode(to, c);
    if (c < 0xdc00 && end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u') {
        const uint32_t low = hex4(*p + 2);
        if (low >= 0xdc00 && low <= 0xdfff) {
            *p += 6;
            return to + gd__utf8_encode(to, 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00));
        }
    }
    return to + gd__utf8_encode(to, 0xfffd);
}

size_t gd__json_decode(const struct gd__json *string, char *to)
{
    static const char escapes[] = "b\bf\fn\nr\rt\t";
    const char *p = string->at + 1, *end = string->at + string->size - 1;
    char *const first = to;
    while (p < end) {
        const char *stop = memchr(p, '\\', (size_t)(end - p));
        const size_t n = (size_t)((stop ? stop : end) - p);
        memmove(to, p, n);
        to += n;
        p += n;
        if (!stop)
            break;
        p += 2;
        if (p[-1] == 'u') {
            to = put_unicode(to, &p, end);
        } else {
            const char *known = strchr(escapes, p[-1]);
            *to++ = known ? known[1] : p[-1];
        }
    }
    return (size_t)(to - first);
}

bool gd__json_uint(const struct gd__json *number, uint64_t *out)
{
    uint64_t value = 0;
    if (number->kind != GD__JSON_NUMBER)
        return false;
    for (size_t i = 0; i < number->size; i++) {
        const unsigned digit = (unsigned)(unsigned char)number->at[i] - '0';
        if (digit > 9 || value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *out = value;
    return true;
}

/* ---- for buffers ---- */

size_t gd__json_count(const struct gd__json *object)
{
    struct scan s = { .text = (const unsigned char *)object->at, .size = object->size, .at = 1, .depth = 1 };
    size_t n = 0;
    skip_space(&s);
    if (peek(&s) == '}')
        return 0;
    do {
        skip_space(&s);
        n += scan_member(&s, NULL);
        skip_space(&s);
    } while (skip(&s, ','));
    return n;
}

bool gd__json_valid(const char *text, size_t size)
{
    struct gd__json top;
    return gd__json_scan(text, size, &top) == 0;
}

bool gd__json_member(const char *text, size_t size, const char *name, struct gd__json *value)
{
    return gd__json_scan_object(text, size, &name, value, 1) == 0 && value->kind != GD__JSON_NONE;
}

static void decode_into(struct gd__buffer *b, const struct gd__json *string)
{
    char *to = gd__buffer_reserve(b, string->size);
    if (to)
        b->size += gd__json_decode(string, to);
}

bool gd__json_next_member(const struct gd__json *object, size_t *at, struct gd__json *name, struct gd__json *value)
{
    /* The object is valid, so only space, a comma and a colon are between its names and values. */
    struct scan s = { .text = (const unsigned char *)object->at, .size = object->size, .at = *at ? *at : 1 };
    skip_space(&s);
    if (skip(&s, ','))
        skip_space(&s);
    const size_t name_at = s.at;
    if (peek(&s) != '"' || !scan_string(&s))
        return false;
    *name = span(&s, name_at, GD__JSON_STRING);
    skip_space(&s);
    skip(&s, ':');
    skip_space(&s);
    const size_t value_at = s.at;
    const enum gd__json_kind kind = scan_value(&s);
    *value = span(&s, value_at, kind);
    *at = s.at;
    return true;
}

bool gd__json_read_string(struct gd__buffer *b, const char *text, size_t size)
{
    struct gd__json top;
    if (gd__json_scan(text, size, &top) < 0 || top.kind != GD__JSON_STRING)
        return false;
    decode_into(b, &top);
    return true;
}

bool gd__json_read_list(struct gd__buffer *b, const char *text, size_t size)
{
    struct gd__json top;
    const size_t before = b->size;
    if (gd__json_scan(text, size, &top) < 0 || top.kind != GD__JSON_ARRAY)
        return false;
    /* The array is valid, so only space and commas are between its strings. */
    struct scan s = { .text = (const unsigned char *)top.at, .size = top.size, .at = 1 };
    do {
        if (s.at > 1)
            gd__buffer_add(b, "", 1);
        skip_space(&s);
        const size_t first = s.at;
        if (!scan_string(&s)) {
            b->size = before;
            return false;
        }
        const struct gd__json string = span(&s, first, GD__JSON_STRING);
        decode_into(b, &string);
        skip_space(&s);
    } while (skip(&s, ','));
    return true;
}
