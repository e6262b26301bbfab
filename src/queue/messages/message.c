/* Writes and reads the messages of a queue: see message.h for the format.
 *
 * The writer reads each item that it has written, with the functions of the reader. So a writer never makes a message
 * that a reader refuses, and each limit is checked in one place only.
 */
#include "queue/messages/message.h"

#include <string.h>

#include "base/error.h"
#include "base/text/utf8.h"

enum { FLAGS_AT = 6, COUNT_AT = 8, SIZE_AT = 12, SUSPECT = 1 }; /* bytes before these fields */
static const char magic[] = "GDQ";

/* --- bytes --- */

static void put(struct gd__buffer *b, uint64_t n, size_t size)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(n >> (8 * i));
    gd__buffer_add(b, bytes, size);
}

/* A text that is too long for its 4 bytes gets a size that no reader accepts. */
static void put_text(struct gd__buffer *b, struct gd__queue_text t)
{
    const bool fits = t.size <= GD__QUEUE_MESSAGE_MOST;
    put(b, fits ? t.size : UINT32_MAX, 4);
    if (fits && t.size > 0)
        gd__buffer_add(b, t.at, t.size);
}

static void put_data(struct gd__buffer *b, const struct gd__queue_data *d)
{
    put(b, d->form, 1);
    if (d->form == GD__QUEUE_INLINE)
        put_text(b, d->bytes);
    if (d->form == GD__QUEUE_FILE) {
        put_text(b, d->file);
        put(b, d->file_size, 8);
        gd__buffer_add(b, d->file_hash, GD__HASH_SIZE);
    }
}

/* The first fault is kept. After it, nothing more is read. */
static void refuse(struct gd__queue_reader *r, const char *wrong)
{
    if (!r->wrong)
        r->wrong = wrong;
    r->left = 0;
}

static const unsigned char *take(struct gd__queue_reader *r, size_t size)
{
    const unsigned char *at = r->at;
    if (r->wrong || size > r->left) {
        refuse(r, "it ends too early");
        return NULL;
    }
    r->at += size;
    r->left -= size;
    return at;
}

static uint64_t get(struct gd__queue_reader *r, size_t size)
{
    const unsigned char *p = take(r, size);
    uint64_t n = 0;
    for (size_t i = 0; p && i < size; i++)
        n |= (uint64_t)p[i] << (8 * i);
    return n;
}

static uint64_t get_number(struct gd__queue_reader *r, const char *wrong)
{
    const uint64_t n = get(r, 8);
    if (n > GD__QUEUE_NUMBER_MOST)
        refuse(r, wrong);
    return n;
}

/* The same bytes as two's complement. */
static int32_t get_int(struct gd__queue_reader *r)
{
    const uint32_t n = (uint32_t)get(r, 4);
    return n <= INT32_MAX ? (int32_t)n : -(int32_t)(UINT32_MAX - n) - 1;
}

static void get_copy(struct gd__queue_reader *r, unsigned char *to, size_t size)
{
    const unsigned char *p = take(r, size);
    if (p)
        memcpy(to, p, size);
}

static struct gd__queue_text get_bytes(struct gd__queue_reader *r, size_t most, const char *wrong)
{
    const size_t size = (size_t)get(r, 4);
    if (size > most)
        refuse(r, wrong);
    const unsigned char *p = take(r, size);
    return p ? (struct gd__queue_text){ (const char *)p, size } : (struct gd__queue_text){ "", 0 };
}

/* A text without NULs, so that a copy of it can be a C string. */
static struct gd__queue_text get_text(struct gd__queue_reader *r, size_t most, const char *wrong)
{
    const struct gd__queue_text t = get_bytes(r, most, wrong);
    if (t.size > 0 && memchr(t.at, '\0', t.size))
        refuse(r, "a text contains a NUL");
    return t;
}

static struct gd__queue_data get_data(struct gd__queue_reader *r)
{
    struct gd__queue_data d = { .form = (enum gd__queue_form)get(r, 1) };
    switch (d.form) {
    case GD__QUEUE_NOTHING:
        return d;
    case GD__QUEUE_INLINE:
        d.bytes = get_bytes(r, GD__QUEUE_INLINE_MOST, "a payload or an output is larger than any message");
        return d;
    case GD__QUEUE_FILE:
        d.file = get_text(r, GD__QUEUE_FILE_MOST, "the name of a file is too long");
        d.file_size = get_number(r, "the size of a file is out of range");
        get_copy(r, d.file_hash, GD__HASH_SIZE);
        if (d.file.size == 0 || d.file.at[0] == '.' || memchr(d.file.at, '/', d.file.size))
            refuse(r, "the name of a file is empty, contains '/' or begins with '.'");
        return d;
    }
    refuse(r, "a payload or an output has an unknown form");
    return d;
}

/* --- items --- */

static void put_key(struct gd__buffer *b, const struct gd__queue_key *key)
{
    gd__buffer_add(b, key->hash, GD__HASH_SIZE);
    put(b, key->repeat, 4);
    put(b, key->again, 4);
}

static struct gd__queue_key get_key(struct gd__queue_reader *r)
{
    struct gd__queue_key key = { .tasks = 1 };
    get_copy(r, key.hash, GD__HASH_SIZE);
    key.repeat = (uint32_t)get(r, 4);
    key.again = (uint32_t)get(r, 4);
    return key;
}

static void put_task(struct gd__buffer *b, const struct gd__queue_task *t)
{
    put_key(b, &t->key);
    put(b, t->timeout_ms, 4);
    put(b, t->number, 8);
    put(b, t->weight, 8);
    put_text(b, t->version);
    put_data(b, &t->payload);
}

static struct gd__queue_key get_task(struct gd__queue_reader *r, struct gd__queue_task *t)
{
    *t = (struct gd__queue_task){ .key = get_key(r) };
    t->timeout_ms = (uint32_t)get(r, 4);
    t->number = get_number(r, "the number of a task is out of range");
    t->weight = get_number(r, "the weight of a task is out of range");
    t->version = get_text(r, GD__QUEUE_VERSION_MOST, "the version of a task is too long");
    t->payload = get_data(r);
    if (t->payload.form == GD__QUEUE_NOTHING)
        refuse(r, "a task has no payload");
    return t->key;
}

/* The first bytes of a text, up to a NUL, without a part of a character at the end. */
static struct gd__queue_text beginning(struct gd__queue_text t, size_t most)
{
    t.size = t.size > 0 ? strnlen(t.at, t.size) : 0;
    if (t.size <= most)
        return t;
    const size_t valid = gd__utf8_valid(t.at, most);
    return (struct gd__queue_text){ t.at, most - valid < 4 ? valid : most };
}

static struct gd__queue_text ending(struct gd__queue_text t, size_t most)
{
    return t.size <= most ? t : (struct gd__queue_text){ t.at + t.size - most, most };
}

static void put_record(struct gd__buffer *b, const struct gd__queue_record *e)
{
    put_key(b, &e->key);
    put(b, e->attempts, 4);
    put(b, e->number, 8);
    put(b, e->started_us, 8);
    put(b, e->run_us, 8);
    put(b, (uint32_t)e->exit_code, 4);
    put(b, (uint32_t)e->signal, 4);
    put(b, e->state, 1);
    put_text(b, beginning(e->gpu, GD__QUEUE_GPU_MOST));
    put_text(b, beginning(e->failure, GD__QUEUE_FAILURE_MOST));
    put_text(b, beginning(e->error, GD__QUEUE_ERROR_MOST));
    put_text(b, ending(e->stderr_end, GD__QUEUE_STDERR_MOST));
    put_data(b, &e->output);
}

static void check_state(struct gd__queue_reader *r, const struct gd__queue_record *e)
{
    switch (e->state) {
    case GD__QUEUE_DONE:
        if (e->failure.size > 0)
            refuse(r, "a task is done and has failed");
        return;
    case GD__QUEUE_FAILED:
        if (e->failure.size == 0)
            refuse(r, "a task has failed without a class of failure");
        return;
    case GD__QUEUE_MOVED:
        if (e->attempts > 0 || e->failure.size > 0 || e->output.form != GD__QUEUE_NOTHING)
            refuse(r, "a task was given back and has been run");
        return;
    }
    refuse(r, "a record has an unknown state");
}

static struct gd__queue_key get_record(struct gd__queue_reader *r, struct gd__queue_record *e)
{
    *e = (struct gd__queue_record){ .key = get_key(r) };
    e->attempts = (uint32_t)get(r, 4);
    e->number = get_number(r, "the number of a task is out of range");
    e->started_us = get_number(r, "the start of a task is out of range");
    e->run_us = get_number(r, "the duration of a task is out of range");
    e->exit_code = get_int(r);
    e->signal = get_int(r);
    e->state = (enum gd__queue_state)get(r, 1);
    e->gpu = get_text(r, GD__QUEUE_GPU_MOST, "the GPU of a task is too long");
    e->failure = get_text(r, GD__QUEUE_FAILURE_MOST, "the class of a failure is too long");
    e->error = get_text(r, GD__QUEUE_ERROR_MOST, "an error message is too long");
    e->stderr_end = get_bytes(r, GD__QUEUE_STDERR_MOST, "the standard error of a task is too long");
    e->output = get_data(r);
    check_state(r, e);
    return e->key;
}

/* --- reading --- */

static const char *kind_name(enum gd__queue_kind kind)
{
    return kind == GD__QUEUE_TASK ? "task message" : "record message";
}

static int damaged(enum gd__queue_kind kind, const char *wrong)
{
    return gd__error(GD_E_CORRUPT, "the queue has a %s that is damaged or was not made by gpu_dispatch: %s",
                     kind_name(kind), wrong);
}

/* Reads the next item and returns its key. */
static struct gd__queue_key get_item(struct gd__queue_reader *r, enum gd__queue_kind kind)
{
    struct gd__queue_task task;
    struct gd__queue_record record;
    return kind == GD__QUEUE_TASK ? get_task(r, &task) : get_record(r, &record);
}

/* Reads what is before the items. The version is checked before everything that it may change. */
static int read_header(struct gd__queue_reader *r, enum gd__queue_kind kind, const void *message, size_t size)
{
    *r = (struct gd__queue_reader){ .at = message, .left = size, .host = { "", 0 } };
    const unsigned char *name = take(r, sizeof magic - 1);
    if (!name || memcmp(name, magic, sizeof magic - 1) != 0)
        return damaged(kind, "it does not begin as one");
    const uint64_t found = get(r, 1), version = get(r, 2), flags = get(r, 2);
    if (!r->wrong && version > GD__QUEUE_MESSAGE_VERSION)
        return gd__error(GD_E_VERSION,
                         "the queue has a %s of version %u, made by a newer gpu_dispatch. This one reads version %d: "
                         "install the newer gpu_dispatch on this machine too",
                         kind_name(kind), (unsigned)version, GD__QUEUE_MESSAGE_VERSION);
    r->items = (uint32_t)get(r, 4);
    if (get(r, 4) != size)
        refuse(r, "it is longer or shorter than it says");
    if (found != kind || version == 0 || flags > (kind == GD__QUEUE_TASK ? SUSPECT : 0) || r->items == 0 ||
        r->items > GD__QUEUE_BUNDLE_MOST)
        refuse(r, "its header is invalid");
    r->suspect = flags == SUSPECT;
    if (kind == GD__QUEUE_RECORD) {
        get_copy(r, r->nonce, GD__QUEUE_NONCE_SIZE);
        r->host = get_text(r, GD__QUEUE_HOST_TEXT_MOST, "the name of the host is too long");
    }
    return r->wrong ? damaged(kind, r->wrong) : 0;
}

/* Checks a whole message and computes its key. */
static int open_message(struct gd__queue_reader *r, enum gd__queue_kind kind, const void *message, size_t size,
                        struct gd__queue_key *key)
{
    const int rc = read_header(r, kind, message, size);
    if (rc < 0)
        return rc;
    struct gd__queue_reader all = *r;
    gd__queue_bundle_begin(key, all.items);
    for (; all.items > 0 && !all.wrong; all.items--) {
        const struct gd__queue_key item = get_item(&all, kind);
        gd__queue_bundle_add(key, &item);
    }
    if (all.left > 0)
        refuse(&all, "bytes follow its last item");
    return all.wrong ? damaged(kind, all.wrong) : 0;
}

static int open_checked(struct gd__queue_reader *r, enum gd__queue_kind kind, const void *message, size_t size,
                        const struct gd__queue_key *key)
{
    struct gd__queue_key found;
    int rc = open_message(r, kind, message, size, &found);
    if (rc == 0 && key && !gd__queue_key_same(key, &found))
        rc = damaged(kind, "its tasks are not those of its subject");
    if (rc < 0)
        *r = (struct gd__queue_reader){ .host = { "", 0 } };
    return rc;
}

int gd__queue_tasks_open(struct gd__queue_reader *r, const void *message, size_t size, const struct gd__queue_key *key)
{
    return open_checked(r, GD__QUEUE_TASK, message, size, key);
}

int gd__queue_records_open(struct gd__queue_reader *r, const void *message, size_t size,
                           const struct gd__queue_key *key)
{
    return open_checked(r, GD__QUEUE_RECORD, message, size, key);
}

bool gd__queue_tasks_next(struct gd__queue_reader *r, struct gd__queue_task *out)
{
    if (r->items == 0)
        return false;
    r->items--;
    (void)get_task(r, out);
    return true;
}

bool gd__queue_records_next(struct gd__queue_reader *r, struct gd__queue_record *out)
{
    if (r->items == 0)
        return false;
    r->items--;
    (void)get_record(r, out);
    return true;
}

/* --- writing --- */

/* The flags, the number of items and the size are set at the end. */
static void begin(struct gd__queue_writer *w, enum gd__queue_kind kind, size_t most)
{
    *w = (struct gd__queue_writer){ .kind = kind, .most = most };
    if (w->most > GD__QUEUE_MESSAGE_MOST)
        w->most = GD__QUEUE_MESSAGE_MOST;
    gd__buffer_add(&w->message, magic, sizeof magic - 1);
    put(&w->message, kind, 1);
    put(&w->message, GD__QUEUE_MESSAGE_VERSION, 2);
    put(&w->message, 0, 2); /* FLAGS_AT */
    put(&w->message, 0, 4); /* COUNT_AT */
    put(&w->message, 0, 4); /* SIZE_AT */
}

void gd__queue_tasks_begin(struct gd__queue_writer *w, size_t most)
{
    begin(w, GD__QUEUE_TASK, most);
}

void gd__queue_records_begin(struct gd__queue_writer *w, size_t most, const unsigned char nonce[GD__QUEUE_NONCE_SIZE],
                             struct gd__queue_text host)
{
    begin(w, GD__QUEUE_RECORD, most);
    gd__buffer_add(&w->message, nonce, GD__QUEUE_NONCE_SIZE);
    put_text(&w->message, beginning(host, GD__QUEUE_HOST_TEXT_MOST));
}

/* Keeps the item that was written after `before`, or takes it back. */
static int keep(struct gd__queue_writer *w, size_t before, const struct gd__queue_key *key)
{
    struct gd__buffer *b = &w->message;
    if (b->failed)
        return gd__error(GD_E_NO_MEMORY, "no memory for a %s", kind_name(w->kind));
    struct gd__queue_reader r = { .at = (const unsigned char *)b->data + before, .left = b->size - before };
    (void)get_item(&r, w->kind);
    if (key->tasks != 1)
        refuse(&r, "a bundle cannot contain a bundle");
    if (r.wrong) {
        b->size = before;
        return gd__error(GD_E_INVALID, "a %s cannot hold this: %s", kind_name(w->kind), r.wrong);
    }
    if (b->size > w->most || w->count == GD__QUEUE_BUNDLE_MOST) {
        b->size = before;
        return gd__error(GD_E_TOO_LARGE, "a %s of the queue has room for %zu bytes and %d tasks", kind_name(w->kind),
                         w->most, GD__QUEUE_BUNDLE_MOST);
    }
    w->count++;
    return 0;
}

int gd__queue_tasks_add(struct gd__queue_writer *w, const struct gd__queue_task *task)
{
    const size_t before = w->message.size;
    put_task(&w->message, task);
    return keep(w, before, &task->key);
}

int gd__queue_records_add(struct gd__queue_writer *w, const struct gd__queue_record *record)
{
    const size_t before = w->message.size;
    put_record(&w->message, record);
    return keep(w, before, &record->key);
}

int gd__queue_message_end(struct gd__queue_writer *w, struct gd__queue_key *key)
{
    struct gd__queue_reader r;
    struct gd__buffer *b = &w->message;
    if (b->failed)
        return gd__error(GD_E_NO_MEMORY, "no memory for a %s", kind_name(w->kind));
    if (w->count == 0)
        return gd__error(GD_E_INVALID, "a %s needs at least one task", kind_name(w->kind));
    b->data[FLAGS_AT] = w->suspect ? SUSPECT : 0;
    for (size_t i = 0; i < 4; i++) {
        b->data[COUNT_AT + i] = (char)(unsigned char)(w->count >> (8 * i));
        b->data[SIZE_AT + i] = (char)(unsigned char)(b->size >> (8 * i));
    }
    return open_message(&r, w->kind, b->data, b->size, key);
}

uint32_t gd__queue_bundle_most(uint64_t max_payload, uint32_t record_bytes)
{
    const uint64_t besides = GD__QUEUE_HEADERS_MOST + GD__QUEUE_NONCE_SIZE + GD__QUEUE_HOST_TEXT_MOST + 32;
    const uint64_t most = max_payload < GD__QUEUE_MESSAGE_MOST ? max_payload : GD__QUEUE_MESSAGE_MOST;
    const uint64_t tasks = most > besides ? (most - besides) / record_bytes : 0;
    return tasks < 1 ? 1 : tasks < GD__QUEUE_BUNDLE_MOST ? (uint32_t)tasks : GD__QUEUE_BUNDLE_MOST;
}

void gd__queue_writer_free(struct gd__queue_writer *w)
{
    gd__buffer_free(&w->message);
}
