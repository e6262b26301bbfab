/* JSON texts are walked by recursive descent, one function per kind of value; nothing is allocated. The first thing
 * that is wrong stops the walk: its words and place are kept in struct scan until they become the error text.
 *
 * Strict: no comments, no trailing commas, no bare words, UTF-8 without overlong forms and surrogates, nothing behind
 * the value but space.
 */
#include "base/json.h"

#include <string.h>

#include "base/error.h"

struct scan {
    const unsigned char *text;
    size_t size, at;
    unsigned depth;
    const char *wrong; /* NULL: nothing yet */
};

/* What is looked for in the outermost object. */
struct wanted {
    const char *const *names;
    struct gd__json *members;
    size_t n;
};

static enum gd__json_kind scan_value(struct scan *s);

/* Always false, for `return`. */
static bool wrong(struct scan *s, const char *words)
{
    if (!s->wrong)
        s->wrong = words;
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

/* Length of the UTF-8 sequence at p, whose first byte is not ASCII; 0 if it is none. */
static size_t utf8_length(const unsigned char *p, size_t left)
{
    static const struct {
        unsigned char first, last, low, high; /* first byte between these; then the second between those */
        unsigned char length;
    } forms[] = {
        { 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 }, { 0xe1, 0xec, 0x80, 0xbf, 3 },
        { 0xed, 0xed, 0x80, 0x9f, 3 }, { 0xee, 0xef, 0x80, 0xbf, 3 }, { 0xf0, 0xf0, 0x90, 0xbf, 4 },
        { 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 },
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (p[0] < forms[i].first || p[0] > forms[i].last)
            continue;
        if (left < forms[i].length || p[1] < forms[i].low || p[1] > forms[i].high)
            return 0;
        for (size_t k = 2; k < forms[i].length; k++)
            if ((p[k] & 0xc0) != 0x80)
                return 0;
        return forms[i].length;
    }
    return 0;
}

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
        } else if (c >= 0x80 && (n = utf8_length(s->text + s->at, s->size - s->at)) == 0) {
            return wrong(s, "bytes that are not UTF-8");
        }
        s->at += n;
    }
    return wrong(s, "a string without its end");
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
        return wrong(s, "no value");
    s->at += n;
    return true;
}

static bool enter(struct scan *s)
{
    s->at++;
    if (++s->depth > GD__JSON_DEPTH)
        return wrong(s, "too many arrays and objects in each other");
    skip_space(s);
    return true;
}

static bool scan_array(struct scan *s)
{
    if (!enter(s))
        return false;
    if (!skip(s, ']')) {
        do {
            skip_space(s);
            if (!scan_value(s))
                return false;
            skip_space(s);
        } while (skip(s, ','));
        if (!skip(s, ']'))
            return wrong(s, "an array without its end");
    }
    s->depth--;
    return true;
}

/* The wanted member that a name (as it stands, with quotes) means; NULL: none. Names may be written with escapes. */
static struct gd__json *find_wanted(const struct wanted *w, const struct gd__json *name)
{
    char plain[64];
    if (!w || name->size > sizeof plain)
        return NULL;
    const size_t length = gd__json_decode(name, plain);
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
        return wrong(s, "a member for the second time");
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
    if (!enter(s))
        return false;
    if (!skip(s, '}')) {
        do {
            skip_space(s);
            if (!scan_member(s, w))
                return false;
            skip_space(s);
        } while (skip(s, ','));
        if (!skip(s, '}'))
            return wrong(s, "an object without its end");
    }
    s->depth--;
    return true;
}

/* GD__JSON_NONE: something is wrong. */
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
        wrong(s, c < 0 ? "the text ends" : "no value");
        return GD__JSON_NONE;
    }
}

/* Behind the outermost value. */
static int finish(struct scan *s)
{
    skip_space(s);
    if (!s->wrong && s->at < s->size)
        wrong(s, "something behind its end");
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
    else if (scan_value(&s)) /* else the words for that */
        return finish(&s) < 0 ? GD_E_INVALID : gd__error(GD_E_INVALID, "no object at byte 1");
    return finish(&s);
}

/* ---- reading values ---- */

static char *put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
        *to++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *to++ = (char)(0xe0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    } else {
        *to++ = (char)(0xf0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 0x3f));
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    }
    return to;
}

/* The four digits behind "\u", which were scanned. */
static uint32_t hex4(const char *p)
{
    uint32_t c = 0;
    for (int i = 0; i < 4; i++)
        c = c << 4 | (uint32_t)hex_digit((unsigned char)p[i]);
    return c;
}

/* Writes what the escape at p (behind "\u") means; *p moves behind it. */
static char *put_unicode(char *to, const char **p, const char *end)
{
    const uint32_t c = hex4(*p);
    *p += 4;
    if (c >= 0xdc80 && c <= 0xdcff) {
        *to++ = (char)(c - 0xdc00);
        return to;
    }
    if (c < 0xd800 || c > 0xdfff)
        return put_utf8(to, c);
    if (c < 0xdc00 && end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u') {
        const uint32_t low = hex4(*p + 2);
        if (low >= 0xdc00 && low <= 0xdfff) {
            *p += 6;
            return put_utf8(to, 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00));
        }
    }
    return put_utf8(to, 0xfffd);
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

/* ---- writing strings ---- */

/* The code of the character at p, of n bytes, if a terminal or an editor would act on it: U+0080 to U+009F, U+2028 to
 * U+202E, U+2066 to U+2069. Else 0. Lines of the protocol are shown in error messages. */
static unsigned control_beyond_ascii(const unsigned char *p, size_t n)
{
    if (n == 2 && p[0] == 0xc2 && p[1] <= 0x9f)
        return p[1];
    if (n != 3 || p[0] != 0xe2 || (p[1] != 0x80 && p[1] != 0x81))
        return 0;
    const unsigned c = 0x2000 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    return (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) ? c : 0;
}

/* Length of the bytes at p that are written as they are. */
static size_t plain_run(const unsigned char *p, size_t left)
{
    size_t n = 0;
    while (n < left) {
        size_t length = 1;
        if (p[n] < 0x20 || p[n] == '"' || p[n] == '\\' || p[n] == 0x7f)
            break;
        if (p[n] >= 0x80 && (length = utf8_length(p + n, left - n)) == 0)
            break;
        if (length > 1 && control_beyond_ascii(p + n, length))
            break;
        n += length;
    }
    return n;
}

/* What stands behind the backslash; 0: there is no short form. */
static char short_escape(unsigned char c)
{
    static const char table[256] = {
        ['"'] = '"', ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'
    };
    return table[c];
}

/* How many bytes at p, where plain_run() ended, become one escape. */
static size_t escaped_length(const unsigned char *p, size_t left)
{
    const size_t length = *p >= 0x80 ? utf8_length(p, left) : 1;
    return length > 0 ? length : 1;
}

static char *put_escape(char *to, const unsigned char *p, size_t length)
{
    static const char digits[] = "0123456789abcdef";
    const char known = short_escape(*p);
    *to++ = '\\';
    if (known) {
        *to++ = known;
        return to;
    }
    const unsigned c = length > 1 ? control_beyond_ascii(p, length) : *p >= 0x80 ? 0xdc00u + *p : *p;
    *to++ = 'u';
    for (int shift = 12; shift >= 0; shift -= 4)
        *to++ = digits[c >> shift & 15];
    return to;
}

size_t gd__json_escape(char *to, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    char *const first = to;
    *to++ = '"';
    for (size_t i = 0; i < n;) {
        const size_t run = plain_run(p + i, n - i);
        if (run > 0)
            memcpy(to, p + i, run);
        to += run;
        i += run;
        if (i == n)
            break;
        const size_t length = escaped_length(p + i, n - i);
        to = put_escape(to, p + i, length);
        i += length;
    }
    *to++ = '"';
    return (size_t)(to - first);
}

size_t gd__json_escaped_size(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    size_t size = 2;
    for (size_t i = 0; i < n;) {
        const size_t run = plain_run(p + i, n - i);
        size += run;
        i += run;
        if (i == n)
            break;
        size += short_escape(p[i]) ? 2 : 6;
        i += escaped_length(p + i, n - i);
    }
    return size;
}
