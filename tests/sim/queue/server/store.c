/* The streams of the model server: see store.h. */
#include "sim/queue/server/store.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static uint64_t hash_of(const char *subject)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *subject; subject++)
        h = (h ^ (unsigned char)*subject) * UINT64_C(0x100000001b3);
    return h ^ (h >> 29);
}

void store_free(struct store *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->all[i].subject);
    free(s->all);
    free(s->table);
    *s = (struct store){ 0 };
}

/* The place of the subject in the table, or the empty place where it belongs. */
static size_t place_of(const struct store *s, uint64_t hash, const char *subject)
{
    size_t at = (size_t)hash & (s->table_room - 1);
    for (; s->table[at]; at = (at + 1) & (s->table_room - 1)) {
        const struct stored *m = &s->all[s->table[at] - 1];
        if (m->hash == hash && strcmp(m->subject, subject) == 0)
            break;
    }
    return at;
}

static void build_table(struct store *s, size_t room)
{
    free(s->table);
    s->table_room = room;
    s->table = calloc(room, sizeof *s->table);
    if (!s->table)
        abort();
    for (size_t i = 0; i < s->n; i++)
        if (s->all[i].replaced_ns == GD__NEVER)
            s->table[place_of(s, s->all[i].hash, s->all[i].subject)] = (uint32_t)i + 1;
}

size_t store_find(const struct store *s, const char *subject)
{
    if (s->n == 0)
        return STORE_NONE;
    const uint32_t found = s->table[place_of(s, hash_of(subject), subject)];
    return found ? found - 1 : STORE_NONE;
}

size_t store_from(const struct store *s, uint64_t sequence)
{
    size_t low = 0, high = s->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (s->all[middle].sequence < sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void make_room(struct store *s)
{
    if (s->n == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        s->all = realloc(s->all, s->room * sizeof *s->all);
        if (!s->all)
            abort();
    }
    if (2 * (s->n + 1) > s->table_room)
        build_table(s, s->table_room ? 2 * s->table_room : 128);
}

size_t store_add(struct store *s, uint64_t now, const char *subject, const void *data, size_t size)
{
    make_room(s);
    const size_t length = strlen(subject) + 1;
    struct stored *m = &s->all[s->n];
    *m = (struct stored){ .sequence = ++s->last_sequence,
                          .hash = hash_of(subject),
                          .stored_ns = now,
                          .replaced_ns = GD__NEVER,
                          .subject = malloc(length + size),
                          .size = (uint32_t)size };
    if (!m->subject)
        abort();
    memcpy(m->subject, subject, length);
    if (size > 0)
        memcpy(m->subject + length, data, size);
    m->data = (unsigned char *)m->subject + length;
    uint32_t *place = &s->table[place_of(s, m->hash, subject)];
    if (*place) {
        struct stored *old = &s->all[*place - 1];
        old->replaced_ns = now;
        s->messages--;
        s->bytes -= old->size;
    }
    *place = (uint32_t)s->n + 1;
    s->messages++;
    s->bytes += size;
    return s->n++;
}

void store_cut(struct store *s, uint64_t at)
{
    while (s->n > 0 && s->all[s->n - 1].stored_ns > at)
        free(s->all[--s->n].subject);
    s->last_sequence = s->messages = s->bytes = 0;
    for (size_t i = 0; i < s->n; i++) {
        struct stored *m = &s->all[i];
        if (m->replaced_ns != GD__NEVER && m->replaced_ns > at)
            m->replaced_ns = GD__NEVER;
        s->last_sequence = m->sequence;
        if (m->replaced_ns == GD__NEVER) {
            s->messages++;
            s->bytes += m->size;
        }
    }
    if (s->table_room)
        build_table(s, s->table_room);
}

bool store_matches(const char *filter, const char *subject)
{
    for (;;) {
        if (strcmp(filter, ">") == 0)
            return *subject != 0;
        const size_t f = strcspn(filter, "."), n = strcspn(subject, ".");
        const bool any = f == 1 && *filter == '*';
        if (!any && (f != n || memcmp(filter, subject, n) != 0))
            return false;
        filter += f;
        subject += n;
        if (*filter == 0 || *subject == 0)
            return *filter == *subject;
        filter++;
        subject++;
    }
}
