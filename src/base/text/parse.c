/* Parses values of a command line. Durations are written as for GNU parallel ("1m30s", upper or lower case, a fraction
 * anywhere), and sizes as for most tools.
 */
#include "base/text/parse.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/failure.h"

/* Reads a plain decimal number at *at and moves *at past it. No sign, no exponent, no hexadecimal, no "nan". */
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

/* Reads the unit at *at and moves *at past it. Returns its length in seconds, 1 if there is no unit, or 0 if the unit
 * is unknown. */
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

int gd__parse_duration(const char *text, unsigned *ms)
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
        return gd__fail("\"%s\" is not a duration: write seconds, or 500ms, 30s, 5m, 1.5h, 2d, 1m30s", text);
    if (seconds * 1000 > (double)UINT_MAX)
        return gd__fail("\"%s\" is too long: at most %u days", text, UINT_MAX / 1000 / 86400);
    unsigned whole = (unsigned)(seconds * 1000);
    /* A tiny excess over a whole millisecond is not rounded up, because numbers like 0.1 are not exact in binary. */
    *ms = whole + (seconds * 1000 - whole > 1e-6 || (whole == 0 && seconds > 0));
    return 0;
}

/* The factor of "", "B", "k", "KiB", "GB", ...; 0 if unknown. */
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

int gd__parse_size(const char *text, uint64_t *bytes)
{
    const char *at = text;
    double value;
    bool good = read_decimal(&at, &value);
    while (good && *at == ' ')
        at++;
    double factor = good ? size_factor(at) : 0;
    if (factor <= 0)
        return gd__fail("\"%s\" is not a size: write bytes, or 512M, 8G, 1.5T", text);
    if (value * factor >= 0x1p63)
        return gd__fail("\"%s\" is too large", text);
    *bytes = (uint64_t)(value * factor);
    return 0;
}

int gd__parse_number(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : 0;
    if (!end || *end || errno || value < min || value > max) {
        if (max == UINT64_MAX)
            return gd__fail("%s takes a whole number from %llu up, not \"%s\"", name, (unsigned long long)min, text);
        return gd__fail("%s takes a whole number from %llu to %llu, not \"%s\"", name, (unsigned long long)min,
                        (unsigned long long)max, text);
    }
    *out = value;
    return 0;
}

int gd__parse_percent(const char *text, unsigned *percent)
{
    size_t digits = strspn(text, "0123456789");
    unsigned value = digits > 0 && digits <= 3 ? (unsigned)strtoul(text, NULL, 10) : 0;
    if (strcmp(text + digits, "%") != 0 || value < 1 || value > 100)
        return gd__fail("\"%s\" is not a percentage: write 1%% to 100%%", text);
    *percent = value;
    return 0;
}

/* --- the nearest word ----------------------------------------------------------- */

enum { LONGEST_WORD = 64 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Computes, row by row, the table of distances between the prefixes of a and of b. A swap needs the row before the
 * last. */
size_t gd__edit_distance(const char *a, const char *b)
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

const char *gd__nearest_word(const char *word, const char *const *words, size_t n)
{
    const char *best = NULL;
    /* A third of the letters may be wrong, and at least one. */
    size_t limit = strlen(word) / 3, best_distance = (limit < 1 ? 1 : limit) + 1;
    for (size_t i = 0; i < n; i++) {
        size_t distance = gd__edit_distance(word, words[i]);
        if (distance < best_distance && distance < strlen(words[i])) {
            best_distance = distance;
            best = words[i];
        }
    }
    return best;
}
