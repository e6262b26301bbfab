/* Parses what a user writes to choose a shard.
 *
 *   spec = number "/" number | "auto" [ "/" number ]
 *
 * Numbers are decimal digits without a sign. Zeros before a number are allowed, because scripts write names of equal
 * length. Upper and lower case are the same in "auto", as in the list of devices.
 */
#include "shard/spec.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/text/printable.h"

enum { SHOWN = 64 }; /* bytes of the user's text that a message shows */

bool gd__shard_number(const char **at, uint64_t most, uint64_t *out)
{
    const char *p = *at;
    uint64_t n = 0;
    for (; isdigit((unsigned char)*p); p++) {
        const uint64_t digit = (uint64_t)(*p - '0');
        if (n > (most - digit) / 10 || digit > most)
            return false;
        n = n * 10 + digit;
    }
    if (p == *at)
        return false;
    *at = p;
    *out = n;
    return true;
}

static bool starts_with_auto(const char *text)
{
    return strncasecmp(text, "auto", 4) == 0 && (text[4] == '\0' || text[4] == '/');
}

static int wrong_form(const char *shown)
{
    return gd__error(GD_E_INVALID,
                     "\"%s\" is not a shard: write K/N for shard K of N (the first is 1/N), \"auto\", or \"auto/N\"",
                     shown);
}

static int parse_count(const char *shown, const char *text, uint32_t *out)
{
    uint64_t n = 0;
    const size_t digits = strspn(text, "0123456789");
    if (digits == 0 || text[digits] != '\0')
        return wrong_form(shown);
    if (!gd__shard_number(&text, GD__SHARD_MOST, &n) || n == 0)
        return gd__error(GD_E_INVALID, "\"%s\": the number of shards must be 1 to %d", shown, GD__SHARD_MOST);
    *out = (uint32_t)n;
    return 0;
}

static int parse_pair(struct gd_shard *out, const char *shown, const char *text)
{
    uint64_t k = 0;
    const size_t digits = strspn(text, "0123456789");
    if (digits == 0 || text[digits] != '/')
        return wrong_form(shown);
    const int rc = parse_count(shown, text + digits + 1, &out->count);
    if (rc < 0)
        return rc;
    if (!gd__shard_number(&text, out->count, &k))
        return gd__error(GD_E_INVALID, "\"%s\": there is no such shard, the last one is %u/%u", shown, out->count,
                         out->count);
    if (k == 0)
        return gd__error(GD_E_INVALID, "\"%s\": shards are counted from 1, so the first one is 1/%u", shown,
                         out->count);
    out->index = (uint32_t)k - 1;
    return 0;
}

int gd__shard_parse(struct gd__shard_spec *out, const char *text)
{
    char shown[SHOWN];
    *out = (struct gd__shard_spec){ .automatic = starts_with_auto(text) };
    (void)gd__text_line(shown, sizeof shown, text, strlen(text));
    if (!out->automatic)
        return parse_pair(&out->shard, shown, text);
    return text[4] == '/' ? parse_count(shown, text + 5, &out->shard.count) : 0;
}

int gd__shard_check(struct gd_shard shard)
{
    if (shard.count == 0 || shard.count > GD__SHARD_MOST)
        return gd__error(GD_E_INVALID, "%u shards: the number of shards must be 1 to %d", shard.count, GD__SHARD_MOST);
    if (shard.index >= shard.count)
        return gd__error(GD_E_INVALID, "shard %u of %u: the index of a shard is counted from 0, so it must be 0 to %u",
                         shard.index, shard.count, shard.count - 1);
    return 0;
}
