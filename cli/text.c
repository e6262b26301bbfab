/* SPDX-License-Identifier: MIT
 *
 * What people write on a command line, and figures written for them. Durations are those of GNU parallel ("1m30s",
 * letters in either case, a fraction anywhere), sizes those of most tools.
 */
#include "cli/text.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A plain decimal number at *at, which is moved behind it: no sign, no exponent, no hexadecimal, no "nan". */
static bool read_decimal(const char **at, double *out)
{
    const char *p = *at;
    size_t digits = 0;
    double value = 0, scale = 1;
    for (; isdigit((unsigned char)*p); p++, digits++)
        value = value * 10 + (*p - '0');
    if (*p == '.') {
        for (p++; isdigit((unsigned char)*p); p++, digits++)
            value += (*p - '0') * (scale /= 10);
    }
    *at = p;
    *out = value;
    return digits > 0;
}

/* The unit at *at, which is moved behind it; 0: it is none. Without one these are seconds. */
static double read_unit(const char **at)
{
    const char *letter = *at;
    if (!*letter)
        return 1;
    if (strncasecmp(letter, "ms", 2) == 0) {
        *at += 2;
        return 1e-3;
    }
    *at += 1;
    switch (tolower((unsigned char)*letter)) {
    case 's':
        return 1;
    case 'm':
        return 60;
    case 'h':
        return 3600;
    case 'd':
        return 86400;
    default:
        return 0;
    }
}

int cli_parse_duration(const char *text, unsigned *ms)
{
    const char *at = text;
    double seconds = 0, value;
    bool good = *at != 0;
    while (good && *at) {
        good = read_decimal(&at, &value);
        const double unit = read_unit(&at);
        good = good && unit > 0;
        seconds += value * unit;
    }
    if (!good)
        return cli_error("\"%s\" is no duration: write seconds, or 500ms, 30s, 5m, 1.5h, 2d, 1m30s", text);
    if (seconds * 1000 > (double)UINT_MAX)
        return cli_error("\"%s\" is too long: at most %u days", text, UINT_MAX / 1000 / 86400);
    unsigned whole = (unsigned)(seconds * 1000);
    /* What is a hair over a millisecond is that millisecond: 0.1 and its like are no exact fractions. */
    *ms = whole + (seconds * 1000 - whole > 1e-6 || (whole == 0 && seconds > 0));
    return 0;
}

/* The factor of "", "B", "k", "KiB", "GB", ... or 0. */
static double size_factor(const char *unit)
{
    static const char letters[] = "kmgtpe";
    if (!*unit || strcasecmp(unit, "b") == 0)
        return 1;
    const char *found = strchr(letters, tolower((unsigned char)*unit));
    if (!found)
        return 0;
    bool decimal = strcasecmp(unit + 1, "b") == 0;
    if (!decimal && unit[1] && strcasecmp(unit + 1, "ib") != 0)
        return 0;
    double factor = 1;
    for (ptrdiff_t i = 0; i <= found - letters; i++)
        factor *= decimal ? 1000 : 1024;
    return factor;
}

int cli_parse_size(const char *text, uint64_t *bytes)
{
    const char *at = text;
    double value;
    bool good = read_decimal(&at, &value);
    while (good && *at == ' ')
        at++;
    double factor = good ? size_factor(at) : 0;
    if (factor <= 0)
        return cli_error("\"%s\" is no size: write bytes, or 512M, 8G, 1.5T", text);
    if (value * factor >= 0x1p63)
        return cli_error("\"%s\" is too large", text);
    *bytes = (uint64_t)(value * factor);
    return 0;
}

int cli_parse_number(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : 0;
    if (!end || *end || errno || value < min || value > max) {
        if (max == UINT64_MAX)
            return cli_error("%s takes a whole number from %llu up, not \"%s\"", name, (unsigned long long)min, text);
        return cli_error("%s takes a whole number from %llu to %llu, not \"%s\"", name, (unsigned long long)min,
                         (unsigned long long)max, text);
    }
    *out = value;
    return 0;
}

int cli_parse_percent(const char *text, unsigned *percent)
{
    size_t digits = strspn(text, "0123456789");
    unsigned value = digits > 0 && digits <= 3 ? (unsigned)strtoul(text, NULL, 10) : 0;
    if (strcmp(text + digits, "%") != 0 || value < 1 || value > 100)
        return cli_error("\"%s\" is no percentage: write 1%% to 100%%", text);
    *percent = value;
    return 0;
}

/* --- the nearest word ----------------------------------------------------------- */

enum { LONGEST_WORD = 64 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Row by row over the table of distances between beginnings of a and of b; a swap looks two rows back. */
size_t cli_edit_distance(const char *a, const char *b)
{
    size_t rows[3][LONGEST_WORD + 1], n = strlen(a), m = strlen(b);
    if (n > LONGEST_WORD || m > LONGEST_WORD)
        return n > m ? n : m;
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++)
        last[j] = before[j] = j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = least(least(last[j], row[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[m];
}

const char *cli_nearest(const char *word, const char *const *words, size_t n)
{
    const char *best = NULL;
    /* A third of the letters may be wrong, and one of a short word. */
    size_t limit = strlen(word) / 3, best_distance = (limit < 1 ? 1 : limit) + 1;
    for (size_t i = 0; i < n; i++) {
        size_t distance = cli_edit_distance(word, words[i]);
        if (distance < best_distance && distance < strlen(words[i])) {
            best_distance = distance;
            best = words[i];
        }
    }
    return best;
}

/* --- for people -------------------------------------------------------------------- */

static bool is_control(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        { 0x00, 0x1f },     { 0x7f, 0x9f },     { 0x200e, 0x200f }, { 0x2028, 0x202e },
        { 0x2060, 0x206f }, { 0xfeff, 0xfeff }, { 0xfff9, 0xfffb }, { 0xe0000, 0xe007f },
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    }
    return false;
}

/* Bytes of the character at p; 0: there is none, or one that is not to be shown. */
static size_t shown_length(const unsigned char *p, size_t left, bool lines)
{
    const size_t n = cli_utf8_length(p, left);
    uint32_t c = n == 1 ? p[0] : p[0] & (0x7fU >> n);
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (p[i] & 0x3f);
    if (lines && (c == '\n' || c == '\t'))
        return 1;
    return is_control(c) ? 0 : n;
}

void cli_show_plain(char *text, size_t size, bool lines)
{
    for (size_t i = 0; i < size;) {
        const unsigned char *p = (const unsigned char *)text + i;
        const size_t n = shown_length(p, size - i, lines), bytes = n ? n : cli_utf8_length(p, size - i);
        if (n == 0)
            memset(text + i, '?', bytes ? bytes : 1);
        i += bytes ? bytes : 1;
    }
}

char *cli_show_duration(char *out, size_t size, double seconds)
{
    if (!(seconds >= 0))
        seconds = 0;
    if (seconds > 1e15)
        seconds = 1e15;
    unsigned long long s = (unsigned long long)(seconds + 0.5);
    if (seconds < 9.95)
        snprintf(out, size, "%.1fs", seconds);
    else if (s < 60)
        snprintf(out, size, "%llus", s);
    else if (s < 3600)
        snprintf(out, size, "%llum%02llus", s / 60, s % 60);
    else if (s < 86400)
        snprintf(out, size, "%lluh%02llum", s / 3600, s / 60 % 60);
    else
        snprintf(out, size, "%llud%02lluh", s / 86400, s / 3600 % 24);
    return out;
}

char *cli_show_size(char *out, size_t size, uint64_t bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    size_t unit = 0;
    double value = (double)bytes;
    while (value >= 1023.5 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    snprintf(out, size, unit && value < 9.95 ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return out;
}
