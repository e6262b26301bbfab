/* Interprets CUDA_VISIBLE_DEVICES and similar variables as CUDA itself does.
 *
 *   not set          all devices
 *   empty, "-1"      none
 *   "0,2,-1,1"       0 and 2: the first entry that is invalid ends the list
 *   "1gpu2"          1: numbers are read by strtoul(); there are no ranges
 *   "GPU-8d2f"       the GPU with that UUID, or the only GPU with a UUID that begins like this
 *   "MIG-..."        a MIG instance likewise; drivers before 470 wrote "MIG-GPU-<uuid>/<gi>/<ci>"
 *   "0,GPU-8d2f"     0: the first entry of another kind ends the list
 *   "0,1,0"          none: a repeated entry hides all devices
 *
 * The same rules apply to the ROCm and Level Zero variables, except where rule_table differs.
 */
#include "gpu/visible_list.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum kind { KIND_NONE, KIND_NUMBER, KIND_GPU, KIND_MIG };
enum repeated { REPEATED_CLEARS, REPEATED_ENDS, REPEATED_SKIPPED };

static const struct {
    bool names; /* entries may be UUIDs */
    bool mixed; /* UUIDs and numbers may be mixed */
    enum repeated repeated;
} rule_table[] = {
    [GD__VISIBLE_CUDA] = { .names = true, .mixed = false, .repeated = REPEATED_CLEARS },
    [GD__VISIBLE_ROCM] = { .names = true, .mixed = true, .repeated = REPEATED_ENDS },
    [GD__VISIBLE_LEVEL_ZERO] = { .names = false, .mixed = false, .repeated = REPEATED_SKIPPED },
};

static bool is_prefix(const char *whole, const char *name, size_t length)
{
    return strnlen(whole, length) == length && strncasecmp(whole, name, length) == 0;
}

static enum kind kind_of(const char *entry)
{
    if (strncasecmp(entry, "GPU-", 4) == 0)
        return KIND_GPU;
    if (strncasecmp(entry, "MIG-", 4) == 0)
        return KIND_MIG;
    entry += *entry == '+' || *entry == '-';
    return isdigit((unsigned char)*entry) ? KIND_NUMBER : KIND_NONE;
}

/* The old form ends with numbers, so the whole name must match. The beginning of it is not enough. */
static bool is_old_mig_name(const struct gd__found *f, const char *name, size_t length)
{
    char old[sizeof f->gpu_uuid + 32];
    const int n = snprintf(old, sizeof old, "MIG-%s/%d/%d", f->gpu_uuid, f->gi, f->ci);
    return f->d.is_mig && n > 0 && (size_t)n == length && strncasecmp(old, name, length) == 0;
}

bool gd__visible_named(const struct gd__found *f, const char *name, size_t length)
{
    if (length == 0)
        return false;
    if (memchr(name, '/', length))
        return is_old_mig_name(f, name, length) || (strlen(f->d.uuid) == length && is_prefix(f->d.uuid, name, length));
    return is_prefix(f->d.uuid, name, length) || is_prefix(f->gpu_uuid, name, length);
}

static bool is_numbered(const struct gd__found *f, const char *entry)
{
    if (*entry == '-') /* strtoul() would accept it and wrap */
        return false;
    errno = 0;
    const unsigned long n = strtoul(entry, NULL, 10);
    return errno == 0 && f->number >= 0 && n == (unsigned long)f->number;
}

/* Whether an entry of that kind that names a also names b. An entry names either a GPU with all its instances, or one
 * instance. */
static bool is_named_together(const struct gd__found *a, const struct gd__found *b, enum kind kind)
{
    return kind == KIND_MIG ? a == b : a->number == b->number;
}

/* Returns the index of the first item that the entry names, or n if it names none or items of several GPUs. */
static size_t resolve(const char *entry, size_t length, enum kind kind, const struct gd__found *items, size_t n)
{
    size_t first = n;
    for (size_t i = 0; i < n; i++) {
        const bool fits =
            kind == KIND_NUMBER ? is_numbered(&items[i], entry) : gd__visible_named(&items[i], entry, length);
        if (fits && first == n)
            first = i;
        else if (fits && !is_named_together(&items[first], &items[i], kind))
            return n;
    }
    return first;
}

static bool is_listed(const size_t *order, size_t count, size_t i)
{
    for (size_t k = 0; k < count; k++)
        if (order[k] == i)
            return true;
    return false;
}

/* Adds the items that the entry names, beginning with items[first]. Returns how many were added, or 0 if the entry is
 * in the list already. A GPU is in the list if one of its instances is. */
static size_t add(const struct gd__found *items, size_t n, size_t first, enum kind kind, size_t *order, size_t count)
{
    size_t added = 0;
    for (size_t i = first; i < n; i++) {
        if (!is_named_together(&items[first], &items[i], kind))
            continue;
        if (is_listed(order, count, i))
            return 0;
        order[count + added++] = i;
    }
    return added;
}

static size_t show_all(size_t n, size_t *order)
{
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    return n;
}

size_t gd__visible_list(const char *value, enum gd__visible_rules rules, const struct gd__found *items, size_t n,
                        size_t *order)
{
    size_t count = 0;
    enum kind begun = KIND_NONE;
    if (!value)
        return show_all(n, order);
    for (const char *entry = value;; entry++) {
        entry += strspn(entry, " \t");
        const size_t length = strcspn(entry, ",");
        const enum kind kind = kind_of(entry);
        if (kind == KIND_NONE || (kind != KIND_NUMBER && !rule_table[rules].names))
            return count;
        if (begun != KIND_NONE && kind != begun && !rule_table[rules].mixed)
            return count;
        begun = kind;
        const size_t first = resolve(entry, length, kind, items, n);
        if (first == n)
            return count;
        const size_t added = add(items, n, first, kind, order, count);
        if (added == 0 && rule_table[rules].repeated != REPEATED_SKIPPED)
            return rule_table[rules].repeated == REPEATED_CLEARS ? 0 : count;
        count += added;
        entry += length;
        if (*entry == '\0')
            return count;
    }
}
