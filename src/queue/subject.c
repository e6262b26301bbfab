/* Writes and parses the names that a queue has on its server: see subject.h. */
#include "queue/subject.h"

#include <gpu_dispatch/dispatcher.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text/printable.h"

#define BUNDLE "bundle-" /* 'u' is not a hexadecimal digit, so no task's key begins like this */

enum {
    SHOWN = 160, /* bytes of a name that a message shows */
    HEX_SIZE = 2 * GD__HASH_SIZE,
    WORD = 4,
    LONGEST_KEY = sizeof BUNDLE "-4294967295" - 1 + HEX_SIZE,
};
_Static_assert((int)LONGEST_KEY < (int)GD__QUEUE_KEY_ROOM, "a key fits");
_Static_assert(sizeof "gd..t.-2147483648." + GD__QUEUE_NAME_MOST + LONGEST_KEY <= GD__QUEUE_SUBJECT_ROOM,
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
    unsigned char link[2 * GD__HASH_SIZE + WORD];
    if (b->tasks == 1) {
        *b = *task;
        return;
    }
    memcpy(link, b->hash, GD__HASH_SIZE);
    memcpy(link + GD__HASH_SIZE, task->hash, GD__HASH_SIZE);
    put_word(link + sizeof link - WORD, task->repeat);
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
    return memcmp(a->hash, b->hash, GD__HASH_SIZE) == 0 && a->repeat == b->repeat && a->tasks == b->tasks;
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
        (void)snprintf(p, GD__QUEUE_KEY_ROOM - (size_t)(p - out), "-%" PRIu32, number);
    return out;
}

/* --- subjects, streams, consumers --- */

char *gd__queue_subject_text(char out[GD__QUEUE_SUBJECT_ROOM], const char *name, const struct gd__queue_subject *s)
{
    char key[GD__QUEUE_KEY_ROOM];
    gd__queue_key_text(key, &s->key);
    if (s->kind == GD__QUEUE_TASK)
        (void)snprintf(out, GD__QUEUE_SUBJECT_ROOM, "gd.%s.t.%d.%s", name, s->priority, key);
    else
        (void)snprintf(out, GD__QUEUE_SUBJECT_ROOM, "gd.%s.%c.%s", name, s->kind, key);
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
    (void)snprintf(out, GD__QUEUE_SUBJECT_ROOM, "gd.%s.t.%d.*", name, priority);
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

/* Reads a number from 1, which must be the rest of the text. */
static bool read_number(const char *text, uint32_t most, uint32_t *out)
{
    uint64_t n = 0;
    if (text[0] == '0')
        return false;
    for (; *text >= '0' && *text <= '9' && n <= most; text++)
        n = n * 10 + (uint64_t)(*text - '0');
    *out = (uint32_t)n;
    return *text == '\0' && n > 0 && n <= most;
}

static bool read_key(struct gd__queue_key *out, const char *text)
{
    const bool bundle = strncmp(text, BUNDLE, sizeof BUNDLE - 1) == 0;
    *out = (struct gd__queue_key){ .tasks = 1 };
    text += bundle ? sizeof BUNDLE - 1 : 0;
    if (!read_hash(&text, out->hash))
        return false;
    if (bundle)
        return *text == '-' && read_number(text + 1, GD__QUEUE_BUNDLE_MOST, &out->tasks) && out->tasks > 1;
    return *text == '\0' || (*text == '-' && read_number(text + 1, UINT32_MAX, &out->repeat));
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
    if (text[0] != '.' || text[1] == '\0' || !strchr("tra", text[1]) || text[2] != '.')
        return false;
    out->kind = (enum gd__queue_kind)text[1];
    text += 3;
    return (out->kind != GD__QUEUE_TASK || read_priority(&text, &out->priority)) && read_key(&out->key, text);
}

int gd__queue_key_parse(struct gd__queue_key *out, const char *text)
{
    char shown[SHOWN];
    if (read_key(out, text))
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
