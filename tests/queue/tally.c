/* SPDX-License-Identifier: MIT
 *
 * What is in a queue (work.h). Reads the streams of tasks and records with the client of the tests, and joins them.
 */
#include "queue/client.h"
#include "queue/messages/message.h"
#include "queue/work.h"
#include "support/test.h"

enum { NAME_MOST = 48 };

struct entry {
    struct gd__queue_key key;
    char input[NAME_MOST];
    unsigned records;
    bool done, right;
};

struct table {
    struct entry *entries;
    size_t room; /* a power of two */
    struct tally *tally;
};

static struct entry *find(struct table *t, const struct gd__queue_key *key)
{
    size_t at;
    memcpy(&at, key->hash, sizeof at);
    for (at = (at + key->repeat * 31U) & (t->room - 1);; at = (at + 1) & (t->room - 1)) {
        struct entry *e = &t->entries[at];
        const bool is_free = e->key.tasks == 0;
        /* Tasks that were added once more are the same tasks: their last record counts. */
        if (is_free || (memcmp(e->key.hash, key->hash, sizeof key->hash) == 0 && e->key.repeat == key->repeat))
            return e;
    }
}

static void on_task(void *user, const char *subject, const char *data, size_t size)
{
    struct table *t = user;
    struct gd__queue_reader r;
    struct gd__queue_task task;
    if (gd__queue_tasks_open(&r, data, size, NULL) < 0)
        FAIL("the message %s is damaged", subject);
    t->tally->messages++;
    while (gd__queue_tasks_next(&r, &task)) {
        struct entry *e = find(t, &task.key);
        if (e->key.tasks == 0)
            t->tally->tasks++;
        if (e->key.tasks == 0 || task.key.again > e->key.again)
            e->key = task.key;
        e->key.tasks = 1;
        snprintf(e->input, sizeof e->input, "%.*s", (int)task.payload.bytes.size, task.payload.bytes.at);
    }
}

static bool is_right(const struct entry *e, const struct gd__queue_record *r)
{
    char expected[NAME_MOST + 16];
    const bool fails = strncmp(e->input, "fails", 5) == 0 || strncmp(e->input, "poison", 6) == 0;
    if (fails)
        return r->state == GD__QUEUE_FAILED;
    const int n = snprintf(expected, sizeof expected, "output of %s\n", e->input);
    return r->state == GD__QUEUE_DONE && r->output.form == GD__QUEUE_INLINE &&
           memmem(r->output.bytes.at, r->output.bytes.size, expected, (size_t)n);
}

static void on_record(void *user, const char *subject, const char *data, size_t size)
{
    struct table *t = user;
    struct gd__queue_reader r;
    struct gd__queue_record record;
    if (gd__queue_records_open(&r, data, size, NULL) < 0)
        FAIL("the message %s is damaged", subject);
    while (gd__queue_records_next(&r, &record)) {
        if (record.state == GD__QUEUE_MOVED)
            continue;
        struct entry *e = find(t, &record.key);
        if (e->key.tasks == 0)
            FAIL("%s has the record of a task that does not exist", subject);
        t->tally->records++;
        if (record.key.again != e->key.again)
            continue;
        e->records++;
        e->done = record.state == GD__QUEUE_DONE;
        e->right = is_right(e, &record);
    }
}

static void count(struct table *t)
{
    struct tally *y = t->tally;
    for (size_t i = 0; i < t->room; i++) {
        const struct entry *e = &t->entries[i];
        if (e->key.tasks == 0)
            continue;
        y->missing += e->records == 0;
        y->twice += e->records > 1;
        y->done += e->records && e->done;
        y->failed += e->records && !e->done;
        y->wrong += e->records && !e->right;
        if (e->records != 1 || !e->right)
            snprintf(y->example, sizeof y->example, "%s has %u records%s", e->input, e->records,
                     e->right ? "" : ", not a right one");
    }
}

void tally_queue(unsigned port, struct tally *t)
{
    struct client c;
    *t = (struct tally){ 0 };
    client_open(&c, port);
    const long messages = client_count(&c, "gd_q_t");
    if (messages < 0)
        FAIL("the queue does not exist");
    struct table table = { .room = 1 << 20, .tally = t };
    table.entries = calloc(table.room, sizeof *table.entries);
    CHECK(table.entries != NULL);
    client_each(&c, "gd_q_t", on_task, &table);
    CHECK_LT(t->tasks, table.room / 2);
    client_each(&c, "gd_q_r", on_record, &table);
    count(&table);
    free(table.entries);
    client_close(&c);
}

void await_held(unsigned port, long messages)
{
    struct client c;
    client_open(&c, port);
    while (client_number(client_ask(&c, "$JS.API.CONSUMER.INFO.gd_q_t.priority_0", ""), "num_ack_pending") != messages)
        poll(NULL, 0, 10);
    client_close(&c);
}

void check_queue(unsigned port, unsigned tasks)
{
    struct tally t;
    tally_queue(port, &t);
    if (t.tasks != tasks || t.missing || t.twice || t.wrong)
        FAIL("%u tasks, not %u; %u without a record, %u with several, %u wrong; %s", t.tasks, tasks, t.missing, t.twice,
             t.wrong, t.example);
}
