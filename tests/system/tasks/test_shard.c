/* Shards of a list: which tasks are run, their numbers, and what happens to the tasks of other shards. */
#include <gpu_dispatch/gpu_dispatch.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash/siphash.h"
#include "binding.h"
#include "shard/deal.h"
#include "support/test.h"

enum { MOST = 400, WORKERS = 3 };

/* One list, and what a run did with it. */
struct list {
    struct gd_options o;
    struct gd_dispatcher *d;
    unsigned n;           /* tasks; 0: the source never ends */
    unsigned order[MOST]; /* the task at each position */
    unsigned runs[MOST];  /* how often each task has ended, over all runs */
    unsigned next;        /* the position that the source gives next */
    size_t padding;       /* more bytes of each payload */
    bool keys;            /* the key of a task is "key N" */
    bool alloc;           /* the source uses gd_item_alloc() */
    uint64_t ended;       /* tasks of the last run */
    uint64_t by_worker[WORKERS];
    struct gd_stats stats;                                /* after the run */
    uint64_t total_within;                                /* gd_stats.total while the source is being read */
    void (*before)(struct list *l, struct gd_item *item); /* called by the source with each item */
    char payload[1 << 16];
};

static struct list *list_new(unsigned n)
{
    struct list *l = calloc(1, sizeof *l);
    CHECK(l != NULL);
    l->o = (struct gd_options)GD_OPTIONS_INIT;
    l->n = n;
    for (unsigned i = 0; i < n; i++)
        l->order[i] = i;
    return l;
}

static void shuffle(struct list *l, uint64_t seed)
{
    for (unsigned i = l->n; i > 1; i--) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const unsigned k = (unsigned)(seed >> 33) % i, swapped = l->order[i - 1];
        l->order[i - 1] = l->order[k];
        l->order[k] = swapped;
    }
}

static size_t payload_of(struct list *l, unsigned task)
{
    memset(l->payload, 'x', 16 + l->padding);
    snprintf(l->payload, sizeof l->payload, "task %u", task);
    return 16 + l->padding;
}

/* How many of the first n positions of the list belong to this shard. */
static unsigned owned_of(const struct list *l, unsigned n, struct gd_shard shard)
{
    struct list *copy = list_new(1);
    unsigned found = 0;
    copy->padding = l->padding;
    for (unsigned i = 0; i < n; i++) {
        char key[32];
        const int key_size = snprintf(key, sizeof key, "key %u", l->order[i]);
        const size_t size = payload_of(copy, l->order[i]);
        found += shard.index == (l->keys ? gd__shard_of_key(key, (size_t)key_size, shard.count)
                                         : gd__shard_of_key(copy->payload, size, shard.count));
    }
    free(copy);
    return found;
}

static unsigned owned(const struct list *l, uint32_t index, uint32_t count)
{
    return owned_of(l, l->n, (struct gd_shard){ index, count });
}

static int source(void *user, struct gd_item *item)
{
    struct list *l = user;
    if (l->n > 0 && l->next == l->n)
        return 0;
    const unsigned task = l->n > 0 ? l->order[l->next] : 0;
    char key[32];
    const int key_size = snprintf(key, sizeof key, "key %u", task);
    item->size = payload_of(l, task);
    item->data = l->payload;
    if (l->alloc) {
        const size_t size = item->size;
        void *room = gd_item_alloc(item, size);
        if (!room)
            return gd_item_error(item, "%s", gd_error_text());
        memcpy(room, l->payload, size);
    }
    if (l->keys && gd_item_key(item, key, (size_t)key_size, "1") < 0)
        return GD_E_SOURCE;
    l->next++;
    if (l->before)
        l->before(l, item);
    return 1;
}

/* The number of a task is its position in the whole list, in the process of the run and in that of the worker. */
static void success(void *user, const struct gd_report *r)
{
    struct list *l = user;
    unsigned task = MOST;
    uint64_t in_worker = 0;
    CHECK_EQ(sscanf(r->input, "task %u", &task), 1);
    CHECK_LT(r->task_id, l->n);
    CHECK_EQ(l->order[r->task_id], task);
    CHECK_EQ(r->size, sizeof in_worker);
    memcpy(&in_worker, r->data, sizeof in_worker);
    CHECK_EQ(in_worker, r->task_id);
    l->runs[task]++;
    l->ended++;
    l->by_worker[r->worker_id]++;
    struct gd_stats s = { .size = sizeof s };
    CHECK_EQ(gd_dispatcher_stats(l->d, &s), 0);
    if (!s.source_done)
        l->total_within = s.total;
}

static void failed(void *user, const struct gd_report *r)
{
    (void)user;
    test_fail(__FILE__, __LINE__, "a task failed: %s", r->error);
}

static int process(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w;
    return gd_result_set(r, &t->id, sizeof t->id);
}

static int open_list(struct list *l, unsigned workers)
{
    static const int gpus[WORKERS] = { 0, 1, 2 };
    l->o.gpu_ids = gpus;
    l->o.n_gpus = workers;
    l->o.source = source;
    l->o.user = l;
    l->o.on_success = success;
    l->o.on_error = failed;
    return gd_dispatcher_open(&l->d, &l->o);
}

static int run_list(struct list *l, unsigned workers)
{
    l->next = 0;
    l->ended = 0;
    int rc = open_list(l, workers);
    CHECK_EQ(rc, 0);
    rc = gd_dispatcher_run(l->d);
    l->stats.size = sizeof l->stats;
    CHECK_EQ(gd_dispatcher_stats(l->d, &l->stats), 0);
    gd_dispatcher_close(&l->d);
    return rc;
}

/* --- a partition --- */

/* Each shard reads the list in another order, as processes do that find files by themselves. */
TEST(all_shards_together_run_each_task_once)
{
    static const uint32_t counts[] = { 1, 2, 3, 7, 16, 100 };
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        const uint32_t count = counts[k];
        struct list *l = list_new(MOST);
        l->keys = k % 2 == 1;
        l->alloc = k % 3 == 1;
        l->padding = k % 3 == 1 ? 1000 : 0;
        l->o.ordered = k % 2 == 0;
        l->o.total_tasks = MOST;
        for (uint32_t index = 0; index < count; index++) {
            const unsigned own = owned(l, index, count);
            l->o.shard = (struct gd_shard){ index, count };
            shuffle(l, index * 101 + count);
            CHECK_EQ(run_list(l, 1), 0);
            CHECK_EQ(l->ended, own);
            CHECK_EQ(l->stats.taken, own);
            CHECK_EQ(l->stats.completed, own);
            CHECK_EQ(l->stats.skipped, 0);
            CHECK_EQ(l->stats.total, own);
            CHECK_EQ(l->stats.source_done, 1);
        }
        for (unsigned i = 0; i < MOST; i++)
            CHECK_EQ(l->runs[i], 1);
        free(l);
    }
}

TEST(without_a_shard_all_tasks_are_run)
{
    struct list *l = list_new(50);
    l->keys = true; /* without a journal and a shard, keys have no effect */
    CHECK_EQ(run_list(l, 2), 0);
    CHECK_EQ(l->ended, 50);
    CHECK_EQ(l->stats.total, 0);
    free(l);
}

/* The numbers of a list with priorities and time limits, which use the same place in the queue. */
static void add_terms(struct list *l, struct gd_item *item)
{
    item->priority = (int32_t)(l->next % 3) - 1;
    item->timeout_ms = l->next % 3 == 0 ? 600 * 1000 : 0;
    item->weight = l->next;
}

TEST(tasks_with_priorities_have_their_numbers)
{
    struct list *l = list_new(MOST);
    l->before = add_terms;
    l->o.shard = (struct gd_shard){ 1, 3 };
    CHECK_EQ(run_list(l, 2), 0);
    CHECK_EQ(l->ended, owned(l, 1, 3));
    free(l);
}

/* --- placement --- */

static int place(void *user, uint64_t task_id, uint64_t weight, unsigned n_workers)
{
    const struct list *l = user;
    (void)weight;
    CHECK_LT(task_id, l->n);
    return (int)(task_id % n_workers);
}

TEST(the_place_callback_gets_positions)
{
    struct list *l = list_new(MOST);
    l->o.placement = GD_PLACE_CUSTOM;
    l->o.place = place;
    l->o.shard = (struct gd_shard){ 0, 2 };
    CHECK_EQ(run_list(l, 2), 0);
    CHECK_EQ(l->ended, owned(l, 0, 2));
    uint64_t odd = 0;
    for (unsigned i = 0; i < MOST; i++)
        odd += i % 2 == 1 && l->runs[i] > 0;
    CHECK_EQ(l->by_worker[1], odd);
    free(l);
}

/* Waits at three quarters of the list until all earlier tasks of the shard have ended, so that they have workers. */
static void wait_late(struct list *l, struct gd_item *item)
{
    struct gd_stats s = { .size = sizeof s };
    (void)item;
    if (l->next != MOST * 3 / 4)
        return;
    const unsigned before = owned_of(l, l->next - 1, l->o.shard);
    do {
        sched_yield();
        CHECK_EQ(gd_dispatcher_stats(l->d, &s), 0);
    } while (s.completed < before);
}

/* Three quarters of the list are not enough to fill the first chunk if the other shards' tasks count. */
TEST(chunks_are_chunks_of_the_shard)
{
    struct list *l = list_new(MOST);
    l->o.placement = GD_PLACE_CHUNKS;
    l->o.total_tasks = MOST;
    l->o.shard = (struct gd_shard){ 1, 4 };
    l->before = wait_late;
    CHECK_EQ(run_list(l, 2), 0);
    const uint64_t own = owned(l, 1, 4);
    CHECK_EQ(l->ended, own);
    for (unsigned i = 0; i < 2; i++)
        CHECK_GE(l->by_worker[i], own * 2 / 5);
    free(l);
}

/* --- figures --- */

/* The total of the whole list says nothing about this shard, so no total is shown until the end of the list. */
TEST(the_total_is_not_known_before_the_end_of_the_list)
{
    struct list *l = list_new(MOST);
    l->o.total_tasks = MOST;
    l->o.queue_size = 4;
    l->total_within = MOST;
    l->o.shard = (struct gd_shard){ 1, 2 };
    CHECK_EQ(open_list(l, 1), 0);
    gd_dispatcher_set_total(l->d, MOST); /* also that of the whole list */
    gd_dispatcher_close(&l->d);
    CHECK_EQ(run_list(l, 1), 0);
    CHECK_EQ(l->total_within, 0);
    CHECK_EQ(l->stats.total, owned(l, 1, 2));
    free(l);
}

TEST(a_source_that_knows_the_total_can_set_it)
{
    struct list *l = list_new(MOST);
    l->o.queue_size = 4;
    l->o.shard = (struct gd_shard){ 1, 2 };
    CHECK_EQ(open_list(l, 1), 0);
    gd__dispatcher_set_shard_total(l->d, 77);
    CHECK_EQ(gd_dispatcher_run(l->d), 0);
    CHECK_EQ(l->total_within, 77);
    l->stats.size = sizeof l->stats;
    CHECK_EQ(gd_dispatcher_stats(l->d, &l->stats), 0);
    CHECK_EQ(l->stats.total, owned(l, 1, 2)); /* what was found counts */
    gd_dispatcher_close(&l->d);
    free(l);
}

/* --- the tasks of other shards --- */

/* If their memory were not freed, the source would wait for ever. */
TEST(the_memory_of_dropped_tasks_is_freed)
{
    struct list *l = list_new(MOST);
    l->alloc = true;
    l->padding = 50000;
    l->o.queue_bytes = 200000;
    l->o.shard = (struct gd_shard){ 5, 100 };
    CHECK_EQ(run_list(l, 1), 0);
    CHECK_EQ(l->ended, owned(l, 5, 100));
    free(l);
}

static void stop_later(struct list *l, struct gd_item *item)
{
    (void)item;
    if (l->next == 100000)
        gd_dispatcher_shutdown(l->d);
}

/* The source gives tasks of another shard for ever. */
TEST(a_stop_ends_a_source_whose_tasks_are_all_dropped)
{
    struct list *l = list_new(0);
    payload_of(l, 0);
    l->before = stop_later;
    l->o.shard = (struct gd_shard){ 1 - gd__shard_of_key(l->payload, 16, 2), 2 };
    CHECK_EQ(run_list(l, 1), GD_E_SHUTDOWN);
    CHECK_GE(l->next, 100000);
    CHECK_EQ(l->stats.taken, 0);
    CHECK_EQ(l->stats.total, 0); /* the list was not read to its end */
    free(l);
}

/* --- a source that deals by itself --- */

/* Every third task, whatever the hash says. Some items are given with gd__item_give(), and some are asked about. */
static int dealing_source(void *user, struct gd_item *item)
{
    struct list *l = user;
    for (; l->next < l->n; l->next++) {
        const unsigned task = l->order[l->next];
        uint64_t number = 0;
        item->size = payload_of(l, task);
        item->data = l->payload;
        if (task % 3 != l->o.shard.index) {
            gd__item_drop(item);
            continue;
        }
        gd__item_dealt(item);
        if (task % 2 == 0) {
            CHECK_EQ(gd__item_ask(item, &number), 1);
            CHECK_EQ(number, l->next);
        }
        if (!gd__item_give(item))
            return l->next++, 1;
    }
    return 0;
}

TEST(tasks_that_were_dealt_already_are_not_filtered)
{
    struct list *l = list_new(MOST);
    l->padding = 8; /* small enough to be given at once */
    for (uint32_t index = 0; index < 3; index++) {
        l->o.shard = (struct gd_shard){ index, 3 };
        shuffle(l, index);
        l->next = 0;
        CHECK_EQ(open_list(l, 2), 0);
        gd_dispatcher_close(&l->d);
        l->o.source = dealing_source;
        CHECK_EQ(gd_dispatcher_open(&l->d, &l->o), 0);
        CHECK_EQ(gd_dispatcher_run(l->d), 0);
        gd_dispatcher_close(&l->d);
    }
    for (unsigned i = 0; i < MOST; i++)
        CHECK_EQ(l->runs[i], 1);
    free(l);
}

/* gd__item_ask() drops the tasks of other shards. After a stop it does not, so that the source returns. */
static int asking_source(void *user, struct gd_item *item)
{
    struct list *l = user;
    for (uint64_t number = 0;; l->next++) {
        item->size = payload_of(l, 0);
        item->data = l->payload;
        if (l->next == 1000)
            gd_dispatcher_shutdown(l->d);
        CHECK(!gd__item_ask_reads(item));
        if (gd__item_ask(item, &number) == 1)
            return 1;
        CHECK_EQ(number, l->next);
        CHECK_EQ(item->size, 0);
    }
}

TEST(a_stop_ends_a_source_that_asks)
{
    struct list *l = list_new(0);
    payload_of(l, 0);
    l->o.shard = (struct gd_shard){ 1 - gd__shard_of_key(l->payload, 16, 2), 2 };
    CHECK_EQ(open_list(l, 1), 0);
    gd_dispatcher_close(&l->d);
    l->o.source = asking_source;
    CHECK_EQ(gd_dispatcher_open(&l->d, &l->o), 0);
    CHECK_EQ(gd_dispatcher_run(l->d), GD_E_SHUTDOWN);
    gd_dispatcher_close(&l->d);
    CHECK_GE(l->next, 1000);
    CHECK_EQ(l->ended, 0);
    free(l);
}

/* --- several runs --- */

TEST(all_runs_of_a_dispatcher_have_its_shard)
{
    struct list *l = list_new(100);
    l->o.keep_workers = true;
    l->o.shard = (struct gd_shard){ 2, 3 };
    CHECK_EQ(open_list(l, 1), 0);
    const unsigned own = owned(l, 2, 3);
    for (int run = 0; run < 3; run++) {
        struct gd_source s = GD_SOURCE_INIT;
        s.source = source;
        s.user = l;
        s.total_tasks = 100;
        l->next = 0;
        l->ended = 0;
        CHECK_EQ(gd_dispatcher_run_source(l->d, &s), 0);
        CHECK_EQ(l->ended, own);
        l->stats.size = sizeof l->stats;
        CHECK_EQ(gd_dispatcher_stats(l->d, &l->stats), 0);
        CHECK_EQ(l->stats.taken, own);
        CHECK_EQ(l->stats.total, own);
    }
    gd_dispatcher_close(&l->d);
    free(l);
}

/* --- mistakes --- */

static void refused(struct gd_shard shard, const char *words)
{
    struct list *l = list_new(1);
    l->o.shard = shard;
    CHECK_EQ(open_list(l, 1), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "gd_options.shard: ");
    CHECK_CONTAINS(gd_error_text(), words);
    free(l);
}

TEST(impossible_shards_are_refused)
{
    refused((struct gd_shard){ 3, 3 }, "must be 0 to 2");
    refused((struct gd_shard){ 1, 0 }, "must be 1 to 1000000");
    refused((struct gd_shard){ 0, 1000001 }, "must be 1 to 1000000");
}

int main(int argc, char **argv)
{
    static const struct gd_worker_ops ops = { .size = sizeof ops, .process = process };
    if (gd_worker_main(&argc, argv, &ops) < 0)
        return fprintf(stderr, "%s\n", gd_error_text()), 1;
    return test_main(argc, argv);
}
