/* Writes and parses the names that a queue has on its server: see subject.h. */
#include "queue/names/subject.h"

#include <gpu_dispatch/dispatcher.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text/printable.h"

#define BUNDLE "bundle-" /* 'u' is not a hexadecimal digit, so no task's key begins like this */

#define MARKER "marker."

enum {
    SHOWN = 160, /* bytes of a name that a message shows */
    HEX_SIZE = 2 * GD__HASH_SIZE,
    WORD = 4,
    LONGEST_KEY = sizeof "-4294967295_4294967295" - 1 + HEX_SIZE,
};
_Static_assert((int)LONGEST_KEY < (int)GD__QUEUE_KEY_ROOM, "a key fits");
_Static_assert(sizeof "gd..t.-2147483648..4294967295" + GD__QUEUE_NAME_MOST + LONGEST_KEY <= GD__QUEUE_SUBJECT_ROOM,
               "a subject fits");

static const char digits[] = "0123456789abcdef";

/* --- keys --- */

struct gd__queue_key gd__queue_task_key(const void *bytes, size_t size, uint32_t repeat)
{
    struct gd__queue_key key = { .repeat = repeat, .tasks = 1 };
    gd__key_hash(bytes, size, key.hash);
    return key;
}

static void put_word(unsigned char *to, uint32_t n)
{
    for (unsigned i = 0; i < WORD; i++)
        to[i] = (unsigned char)(n >> (8 * i));
}

/* A chain: the hash of each link contains the hash before it and a key. So no memory is needed, and the order counts. It
 * begins with the number of tasks, and a link is longer than that. */
void gd__queue_bundle_begin(struct gd__queue_key *b, uint32_t n)
{
    unsigned char first[WORD];
    *b = (struct gd__queue_key){ .tasks = n };
    put_word(first, n);
    gd__key_hash(first, sizeof first, b->hash);
}

void gd__queue_bundle_add(struct gd__queue_key *b, const struct gd__queue_key *task)
{
    unsigned char link[2 * GD__HASH_SIZE + 2 * WORD];
    if (b->tasks == 1) {
        *b = *task;
        return;
    }
    memcpy(link, b->hash, GD__HASH_SIZE);
    memcpy(link + GD__HASH_SIZE, task->hash, GD__HASH_SIZE);
    put_word(link + sizeof link - 2 * WORD, task->repeat);
    put_word(link + sizeof link - WORD, task->again);
    gd__key_hash(link, sizeof link, b->hash);
}

int gd__queue_bundle_key(struct gd__queue_key *out, const struct gd__queue_key *tasks, size_t n)
{
    if (n == 0 || n > GD__QUEUE_BUNDLE_MOST)
        return gd__error(GD_E_INVALID, "a bundle of %zu tasks: it must have 1 to %d", n, GD__QUEUE_BUNDLE_MOST);
    for (size_t i = 0; i < n; i++) {
        if (tasks[i].tasks != 1)
            return gd__error(GD_E_INVALID, "a bundle cannot contain a bundle");
    }
    gd__queue_bundle_begin(out, (uint32_t)n);
    for (size_t i = 0; i < n; i++)
        gd__queue_bundle_add(out, &tasks[i]);
    return 0;
}

bool gd__queue_key_same(const struct gd__queue_key *a, const struct gd__queue_key *b)
{
    return memcmp(a->hash, b->hash, GD__HASH_SIZE) == 0 && a->repeat == b->repeat && a->again == b->again &&
           a->tasks == b->tasks;
}

char *gd__queue_key_text(char out[GD__QUEUE_KEY_ROOM], const struct gd__queue_key *key)
{
    char *p = out;
    const uint32_t number = key->tasks > 1 ? key->tasks : key->repeat;
    if (key->tasks > 1)
        p = stpcpy(p, BUNDLE);
    for (size_t i = 0; i < GD__HASH_SIZE; i++) {
        *p++ = digits[key->hash[i] >> 4];
        *p++ = digits[key->hash[i] & 15];
    }
    *p = '\0';
    if (number > 0)
        p += snprintf(p, GD__QUEUE_KEY_ROOM - (size_t)(p - out), "-%" PRIu32, number);
    if (key->again > 0)
        (void)snprintf(p, GD__QUEUE_KEY_ROOM - (size_t)(p - out), "_%" PRIu32, key->again);
    return out;
}

/* --- subjects, streams, consumers --- */

char *gd__queue_subject_text(char out[GD__QUEUE_SUBJECT_ROOM], const char *name, const struct gd__queue_subject *s)
{
    char key[GD__QUEUE_KEY_ROOM];
    gd__queue_key_text(key, &s->key);
    if (s->kind == GD__QUEUE_TASK && s->resend > 0)
        (void)snprintf(out, GD__QUEUE_SUBJECT_ROOM, "gd.%s.t.%d.%s.%" PRIu32, name, s->priority, key, s->resend);
    else if (s->kind == GD__QUEUE_TASK)
        (void)snprintf(out, GD__QUEUE_SUBJECT_ROOM, "gd.%s.t.%d.%s", name, s->priority, key);
    else if (s->kind == GD__QUEUE_STATE)
        (void)snprintf(out, GD__QUEUE_SUBJECT_ROOM, "gd.%s.s." MARKER "%s", name, key);
    else
        (void)snprintf(out, GD__QUEUE_SUBJECT_ROOM, "gd.%s.r.%s", name, key);
    return out;
}

char *gd__queue_stream_text(char out[GD__QUEUE_SUBJECT_ROOM], const char *name, enum gd__queue_kind kind)
{
    (void)snprintf(out, GD__QUEUE_SUBJECT_ROOM, "gd_%s_%c", name, kind);
    return out;
}

char *gd__queue_consumer_text(char out[GD__QUEUE_SUBJECT_ROOM], int priority)
{
    (void)snprintf(out, GD__QUEUE_SUBJECT_ROOM, "priority_%d", priority);
    return out;
}

char *gd__queue_stream_filter(char out[GD__QUEUE_SUBJECT_ROOM], const char *name, enum gd__queue_kind kind)
{
    (void)snprintf(out, GD__QUEUE_SUBJECT_ROOM, "gd.%s.%c.>", name, kind);
    return out;
}

char *gd__queue_priority_filter(char out[GD__QUEUE_SUBJECT_ROOM], const char *name, int priority)
{
    (void)snprintf(out, GD__QUEUE_SUBJECT_ROOM, "gd.%s.t.%d.>", name, priority);
    return out;
}

char *gd__queue_resend_filter(char out[GD__QUEUE_SUBJECT_ROOM], const char *name)
{
    (void)snprintf(out, GD__QUEUE_SUBJECT_ROOM, "gd.%s.t.*.*.*", name);
    return out;
}

char *gd__queue_state_text(char out[GD__QUEUE_SUBJECT_ROOM], const char *name, const char *state)
{
    (void)snprintf(out, GD__QUEUE_SUBJECT_ROOM, "gd.%s.s.%s", name, state);
    return out;
}

/* --- parsing --- */

/* Reads 32 hexadecimal digits and moves *at past them. */
static bool read_hash(const char **at, unsigned char hash[GD__HASH_SIZE])
{
    for (size_t i = 0; i < HEX_SIZE; i++) {
        const char c = (*at)[i];
        const char *digit = c != '\0' ? strchr(digits, c) : NULL;
        if (!digit)
            return false;
        hash[i / 2] = (unsigned char)(hash[i / 2] << 4 | (digit - digits));
    }
    *at += HEX_SIZE;
    return true;
}

/* Reads a number from 1 and moves *at past it. */
static bool read_number(const char **at, uint32_t most, uint32_t *out)
{
    uint64_t n = 0;
    const char *p = *at;
    if (*p == '0')
        return false;
    for (; *p >= '0' && *p <= '9' && n <= most; p++)
        n = n * 10 + (uint64_t)(*p - '0');
    *at = p;
    *out = (uint32_t)n;
    return n > 0 && n <= most;
}

/* Reads a number after the character `before`, if that comes next. */
static bool read_optional(const char **at, char before, uint32_t *out)
{
    if (**at != before)
        return true;
    ++*at;
    return read_number(at, UINT32_MAX, out);
}

/* Reads a key and moves *at past it. */
static bool read_key(struct gd__queue_key *out, const char **at)
{
    const bool bundle = strncmp(*at, BUNDLE, sizeof BUNDLE - 1) == 0;
    *out = (struct gd__queue_key){ .tasks = 1 };
    *at += bundle ? sizeof BUNDLE - 1 : 0;
    if (!read_hash(at, out->hash))
        return false;
    if (!bundle)
        return read_optional(at, '-', &out->repeat) && read_optional(at, '_', &out->again);
    return *(*at)++ == '-' && read_number(at, GD__QUEUE_BUNDLE_MOST, &out->tasks) && out->tasks > 1;
}

/* Reads a priority and moves *at past it and the dot that follows. */
static bool read_priority(const char **at, int *priority)
{
    char text[sizeof "-2147483648."];
    for (int p = GD_PRIORITY_MIN; p <= GD_PRIORITY_MAX; p++) {
        const size_t size = (size_t)snprintf(text, sizeof text, "%d.", p);
        if (strncmp(*at, text, size) == 0) {
            *at += size;
            *priority = p;
            return true;
        }
    }
    return false;
}

static bool read_subject(struct gd__queue_subject *out, const char *name, const char *text)
{
    static const char begin[] = "gd.";
    const size_t size = strlen(name);
    *out = (struct gd__queue_subject){ 0 };
    if (strncmp(text, begin, sizeof begin - 1) != 0 || strncmp(text + sizeof begin - 1, name, size) != 0)
        return false;
    text += sizeof begin - 1 + size;
    if (text[0] != '.' || text[1] == '\0' || !strchr("trs", text[1]) || text[2] != '.')
        return false;
    out->kind = (enum gd__queue_kind)text[1];
    text += 3;
    if (out->kind == GD__QUEUE_TASK && !read_priority(&text, &out->priority))
        return false;
    if (out->kind == GD__QUEUE_STATE) {
        if (strncmp(text, MARKER, sizeof MARKER - 1) != 0)
            return false;
        text += sizeof MARKER - 1;
    }
    if (!read_key(&out->key, &text) || (out->kind == GD__QUEUE_TASK && !read_optional(&text, '.', &out->resend)))
        return false;
    return *text == '\0';
}

int gd__queue_key_parse(struct gd__queue_key *out, const char *text)
{
    char shown[SHOWN];
    const char *end = text;
    if (read_key(out, &end) && *end == '\0')
        return 0;
    (void)gd__text_line(shown, sizeof shown, text, strlen(text));
    return gd__error(GD_E_CORRUPT, "\"%s\" is not the key of a task in a queue of gpu_dispatch", shown);
}

int gd__queue_subject_parse(struct gd__queue_subject *out, const char *name, const char *text)
{
    char shown[SHOWN];
    if (read_subject(out, name, text))
        return 0;
    (void)gd__text_line(shown, sizeof shown, text, strlen(text));
    return gd__error(GD_E_CORRUPT,
                     "the subject \"%s\" was not made by this version of gpu_dispatch for the queue \"%s\": does "
                     "another program use its streams?",
                     shown, name);
}
