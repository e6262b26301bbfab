/* Joins tasks and records by their keys: see index.h. */
#include "queue/read/index.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"

enum { FIRST_ROOM = 256, FIRST_SLOTS = 1024, LINK = GD__HASH_SIZE + sizeof(uint32_t) };
_Static_assert(GD__QUEUE_BUNDLE_MOST <= UINT16_MAX + 1, "the position of a task in its message fits");

int gd__read_index_open(struct gd__read_index *x, const char *name)
{
    *x = (struct gd__read_index){ 0 };
    strncpy(x->name, name, sizeof x->name - 1);
    if (GD__FAULT("getrandom") || getrandom(x->secret, sizeof x->secret, 0) != (ssize_t)sizeof x->secret)
        return gd__error_errno("no random numbers for the index of a queue");
    return 0;
}

void gd__read_index_free(struct gd__read_index *x)
{
    gd__free(x->tasks);
    gd__free(x->slots);
    gd__free(x->tasks_at.items);
    gd__free(x->records_at.items);
    gd__free(x->new_records);
    *x = (struct gd__read_index){ 0 };
}

void gd__read_index_skip(struct gd__read_index *x, enum gd__queue_kind kind, uint64_t sequence)
{
    if (x->skipped++ > 0)
        return;
    char stream[GD__QUEUE_SUBJECT_ROOM];
    gd__queue_stream_text(stream, x->name, kind);
    (void)snprintf(x->first_skipped, sizeof x->first_skipped, "message %" PRIu64 " of the stream %s: %s", sequence,
                   stream, gd_error_text());
}

/* --- arrays that grow --- */

static int no_memory(const struct gd__read_index *x)
{
    return gd__error(GD_E_NO_MEMORY, "no memory for the index of a queue with %" PRIu32 " tasks or more", x->n);
}

/* Makes room for one more item. A half more each time, because these arrays are most of the memory of a reader. */
static int grow(const struct gd__read_index *x, void **items, uint32_t n, uint32_t *room, size_t size)
{
    if (n < *room)
        return 0;
    const uint64_t more = *room ? (uint64_t)*room + *room / 2 : FIRST_ROOM;
    if (more >= UINT32_MAX)
        return no_memory(x);
    void *larger = gd__realloc(*items, (size_t)more * size);
    if (!larger)
        return no_memory(x);
    *items = larger;
    *room = (uint32_t)more;
    return 0;
}

static int add_message(struct gd__read_index *x, struct gd__read_messages *to, uint64_t sequence, size_t size,
                       int priority)
{
    void *items = to->items;
    const int rc = grow(x, &items, to->n, &to->room, sizeof *to->items);
    to->items = items;
    if (rc == 0)
        to->items[to->n++] = (struct gd__read_message){ sequence, (uint32_t)size, (int8_t)priority };
    return rc;
}

static int add_new(struct gd__read_index *x, uint32_t task)
{
    if (!x->keep_new)
        return 0;
    if (x->n_new == x->new_room) {
        const size_t room = x->new_room ? 2 * x->new_room : FIRST_ROOM;
        uint32_t *larger = gd__realloc(x->new_records, room * sizeof *larger);
        if (!larger)
            return no_memory(x);
        x->new_records = larger;
        x->new_room = room;
    }
    x->new_records[x->n_new++] = task;
    return 0;
}

/* --- the hash table --- */

static size_t position(const struct gd__read_index *x, const unsigned char hash[GD__HASH_SIZE], uint32_t repeat)
{
    unsigned char key[LINK], mixed[GD__HASH_SIZE];
    size_t at;
    memcpy(key, hash, GD__HASH_SIZE);
    memcpy(key + GD__HASH_SIZE, &repeat, sizeof repeat);
    gd__siphash128(x->secret, key, sizeof key, mixed);
    memcpy(&at, mixed, sizeof at);
    return at & (x->n_slots - 1);
}

/* Returns the slot of the task, or the free slot where it belongs. */
static uint32_t *find(const struct gd__read_index *x, const unsigned char hash[GD__HASH_SIZE], uint32_t repeat)
{
    for (size_t at = position(x, hash, repeat);; at = (at + 1) & (x->n_slots - 1)) {
        const uint32_t slot = x->slots[at];
        if (slot == 0)
            return &x->slots[at];
        const struct gd__read_task *t = &x->tasks[slot - 1];
        if (t->repeat == repeat && memcmp(t->hash, hash, GD__HASH_SIZE) == 0)
            return &x->slots[at];
    }
}

/* At most three quarters of the slots are used. */
static int grow_slots(struct gd__read_index *x)
{
    if (x->n < x->n_slots / 4 * 3)
        return 0;
    uint32_t *old = x->slots;
    const size_t n = x->n_slots ? 2 * x->n_slots : FIRST_SLOTS;
    uint32_t *slots = gd__calloc(n, sizeof *slots);
    if (!slots)
        return no_memory(x);
    x->slots = slots;
    x->n_slots = n;
    for (uint32_t i = 0; i < x->n; i++)
        *find(x, x->tasks[i].hash, x->tasks[i].repeat) = i + 1;
    gd__free(old);
    return 0;
}

/* Finds or adds the task. Sets *out. */
static int take_task(struct gd__read_index *x, const struct gd__queue_key *key, struct gd__read_task **out)
{
    int rc = grow_slots(x);
    if (rc < 0)
        return rc;
    uint32_t *slot = find(x, key->hash, key->repeat);
    if (*slot == 0) {
        void *tasks = x->tasks;
        rc = grow(x, &tasks, x->n, &x->room, sizeof *x->tasks);
        x->tasks = tasks;
        if (rc < 0)
            return rc;
        struct gd__read_task *t = &x->tasks[x->n];
        *t = (struct gd__read_task){ .repeat = key->repeat, .record_message = GD__READ_NO_MESSAGE };
        memcpy(t->hash, key->hash, GD__HASH_SIZE);
        *slot = ++x->n;
    }
    *out = &x->tasks[*slot - 1];
    return 0;
}

/* --- messages --- */

/* Whether the message is new. Also remembers that it was passed. */
static bool is_new(struct gd__read_messages *m, uint64_t sequence)
{
    if (sequence <= m->last)
        return false;
    m->last = sequence;
    return true;
}

/* Parses the subject of a message of this kind. */
static int parse_subject(const struct gd__read_index *x, enum gd__queue_kind kind, const char *subject,
                         struct gd__queue_subject *out)
{
    const int rc = gd__queue_subject_parse(out, x->name, subject);
    return rc == 0 && out->kind != kind ? gd__error(GD_E_CORRUPT, "its subject is that of another stream") : rc;
}

/* The task was added again after a failure: the record of the failure does not count any more. */
static void forget_record(struct gd__read_index *x, struct gd__read_task *t)
{
    x->done -= t->state == GD__QUEUE_DONE;
    x->failed -= t->state == GD__QUEUE_FAILED;
    t->state = 0;
    t->record_message = GD__READ_NO_MESSAGE;
}

static int add_task(struct gd__read_index *x, const struct gd__queue_key *key, uint32_t message, uint16_t item)
{
    struct gd__read_task *t = NULL;
    const int rc = take_task(x, key, &t);
    if (rc < 0)
        return rc;
    if (key->again > t->again) {
        forget_record(x, t);
        t->again = key->again;
    }
    if (key->again == t->again) {
        t->task_message = message;
        t->task_item = item;
    }
    return 0;
}

int gd__read_index_tasks(struct gd__read_index *x, uint64_t sequence, const char *subject, const void *data,
                         size_t size)
{
    struct gd__queue_subject s;
    struct gd__queue_reader r;
    struct gd__queue_task task;
    if (!is_new(&x->tasks_at, sequence))
        return 0;
    if (parse_subject(x, GD__QUEUE_TASK, subject, &s) < 0 || gd__queue_tasks_open(&r, data, size, &s.key) < 0) {
        gd__read_index_skip(x, GD__QUEUE_TASK, sequence);
        return 0;
    }
    int rc = add_message(x, &x->tasks_at, sequence, size, s.priority);
    for (uint32_t item = 0; rc == 0 && gd__queue_tasks_next(&r, &task); item++)
        rc = add_task(x, &task.key, x->tasks_at.n - 1, (uint16_t)item);
    return rc;
}

static int add_record(struct gd__read_index *x, const struct gd__queue_record *record, uint32_t message, uint16_t item)
{
    const uint32_t slot = x->n_slots ? *find(x, record->key.hash, record->key.repeat) : 0;
    struct gd__read_task *t = slot ? &x->tasks[slot - 1] : NULL;
    if (!t || record->key.again > t->again)
        return gd__error(GD_E_CORRUPT, "it has the record of a task that the queue does not have");
    if (record->state == GD__QUEUE_MOVED)
        return 0;
    x->busy_us += record->run_us;
    if (record->key.again < t->again)
        return 0;
    if (t->state != 0)
        return gd__error(GD_E_CORRUPT, "it has a second record of a task");
    t->state = (uint8_t)record->state;
    t->record_message = message;
    t->record_item = item;
    x->done += record->state == GD__QUEUE_DONE;
    x->failed += record->state == GD__QUEUE_FAILED;
    return add_new(x, slot - 1);
}

int gd__read_index_records(struct gd__read_index *x, uint64_t sequence, const char *subject, const void *data,
                           size_t size)
{
    struct gd__queue_subject s;
    struct gd__queue_reader r;
    struct gd__queue_record record;
    if (!is_new(&x->records_at, sequence))
        return 0;
    if (parse_subject(x, GD__QUEUE_RECORD, subject, &s) < 0 || gd__queue_records_open(&r, data, size, &s.key) < 0) {
        gd__read_index_skip(x, GD__QUEUE_RECORD, sequence);
        return 0;
    }
    int rc = add_message(x, &x->records_at, sequence, size, 0);
    bool odd = false; /* a message counts once, with all its records that cannot be used */
    for (uint32_t item = 0; rc == 0 && gd__queue_records_next(&r, &record); item++) {
        rc = add_record(x, &record, x->records_at.n - 1, (uint16_t)item);
        if (rc == GD_E_CORRUPT) {
            if (!odd)
                gd__read_index_skip(x, GD__QUEUE_RECORD, sequence);
            odd = true;
            rc = 0;
        }
    }
    return rc;
}

/* --- figures --- */

static int compare(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

int gd__read_index_held(const struct gd__read_index *x, int priority, uint64_t messages, uint64_t *tasks)
{
    uint64_t missing = 0, left = messages;
    size_t n = 0;
    *tasks = 0;
    for (uint32_t i = 0; i < x->n; i++)
        missing += x->tasks[i].state == 0;
    if (missing == 0 || messages == 0)
        return 0;
    uint32_t *at = gd__calloc((size_t)missing, sizeof *at);
    if (!at)
        return no_memory(x);
    for (uint32_t i = 0; i < x->n; i++) {
        const struct gd__read_task *t = &x->tasks[i];
        if (t->state == 0 && x->tasks_at.items[t->task_message].priority == priority)
            at[n++] = t->task_message;
    }
    qsort(at, n, sizeof *at, compare);
    for (size_t i = 0; i < n; i++) {
        if ((i == 0 || at[i] != at[i - 1]) && left-- == 0)
            break;
        ++*tasks;
    }
    gd__free(at);
    return 0;
}
