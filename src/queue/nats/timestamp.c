/* Reads times of a server: see timestamp.h. */
#include "queue/nats/timestamp.h"

#include <stdbool.h>

enum { FIXED = sizeof "2026-11-16T19:03:07" - 1, DIGITS_MOST = 9 };

/* Reads n digits. */
static bool read_digits(const char *at, size_t n, unsigned least, unsigned most, unsigned *out)
{
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        if (at[i] < '0' || at[i] > '9')
            return false;
        *out = *out * 10 + (unsigned)(at[i] - '0');
    }
    return *out >= least && *out <= most;
}

/* Days since 1970. Years begin in March here, so that the leap day is the last day of a year. */
static uint64_t days_since_1970(unsigned year, unsigned month, unsigned day)
{
    const unsigned y = month > 2 ? year : year - 1, m = month > 2 ? month - 3 : month + 9;
    const uint64_t days = 365 * (uint64_t)y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1;
    return days - 719468; /* 1970-01-01 */
}

/* ".123456789": at least one digit after the point, and up to nine. Without a point: nothing. */
static bool read_fraction(const char *at, size_t size, unsigned *us)
{
    unsigned factor = 100000;
    *us = 0;
    if (size == 0)
        return true;
    if (*at != '.' || size < 2 || size > DIGITS_MOST + 1)
        return false;
    for (size_t i = 1; i < size; i++, factor /= 10) {
        if (at[i] < '0' || at[i] > '9')
            return false;
        *us += (unsigned)(at[i] - '0') * factor;
    }
    return true;
}

uint64_t gd__js_time_us(const char *text, size_t size)
{
    unsigned year, month, day, hour, minute, second, us;
    if (size < FIXED + 1 || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':' ||
        text[size - 1] != 'Z')
        return 0;
    if (!read_digits(text, 4, 1970, 9999, &year) || !read_digits(text + 5, 2, 1, 12, &month) ||
        !read_digits(text + 8, 2, 1, 31, &day) || !read_digits(text + 11, 2, 0, 23, &hour) ||
        !read_digits(text + 14, 2, 0, 59, &minute) || !read_digits(text + 17, 2, 0, 60, &second) ||
        !read_fraction(text + FIXED, size - FIXED - 1, &us))
        return 0;
    const uint64_t seconds =
        ((days_since_1970(year, month, day) * 24 + hour) * 60 + minute) * 60 + second; /* a leap second is the next */
    return seconds * 1000000 + us;
}
