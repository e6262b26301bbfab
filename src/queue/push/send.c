/* From items to messages: keys, files for large payloads, bundles and their publication. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text/figures.h"
#include "queue/push/push.h"
#include "queue/spill.h"

enum {
    TASK_BYTES = 128,     /* of a task in a message, besides its version and payload; more than enough */
    TAG_AGAIN_SHIFT = 32, /* a publication's tag: tasks, and above them those that were added again */
    FIRST_ROOM = 64,
};

/* --- lanes --- */

int gd__push_lane_add(struct gd__push_lane *l, struct gd__push_task *task)
{
    if (l->first > 0 && l->first + l->n == l->room) {
        memmove(l->tasks, l->tasks + l->first, l->n * sizeof(struct gd__push_task *));
        l->first = 0;
    }
    if (l->n == l->room) {
        const size_t room = l->room ? l->room * 2 : FIRST_ROOM;
        struct gd__push_task **tasks = gd__realloc(l->tasks, room * sizeof(struct gd__push_task *));
        if (!tasks) {
            gd__free(task);
            return gd__error(GD_E_NO_MEMORY, "no memory for %zu tasks that wait to be pushed", l->n);
        }
        l->tasks = tasks;
        l->room = room;
    }
    l->tasks[l->first + l->n++] = task;
    l->bytes += task->size;
    return 0;
}

static void lane_drop(struct gd__push_lane *l, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        l->bytes -= l->tasks[l->first + i]->size;
        gd__free(l->tasks[l->first + i]);
    }
    l->first += n;
    l->n -= n;
    if (l->n == 0)
        l->first = 0;
}

void gd__push_lane_free(struct gd__push_lane *l)
{
    lane_drop(l, l->n);
    gd__free(l->tasks);
    *l = (struct gd__push_lane){ 0 };
}

void gd__push_free_tasks(struct gd_queue_push *p)
{
    for (size_t i = 0; i < GD__PUSH_LANES; i++)
        gd__push_lane_free(&p->lanes[i]);
    gd__push_lane_free(&p->all);
}

/* --- messages --- */

/* A task without a consumer would never be delivered, so the consumer comes first. */
static int need_consumer(struct gd_queue_push *p, int priority)
{
    const uint32_t bit = UINT32_C(1) << (priority - GD_PRIORITY_MIN);
    if (p->priorities & bit)
        return 0;
    const int rc = gd__call(
        p->caller,
        &(struct gd__queue_request){ .ask = GD__ASK_CREATE_CONSUMER, .priority = priority, .lease_ms = p->lease_ms },
        NULL, NULL, NULL);
    if (rc == 0)
        p->priorities |= bit;
    return rc;
}

static int publish(struct gd_queue_push *p, struct gd__queue_writer *w, int priority, uint64_t again)
{
    char subject[GD__QUEUE_SUBJECT_ROOM];
    struct gd__queue_subject s = { .kind = GD__QUEUE_TASK, .priority = priority };
    int rc = gd__queue_message_end(w, &s.key);
    if (rc == 0)
        rc = need_consumer(p, priority);
    if (rc == 0)
        rc = gd__push_lock_check(p->lock);
    if (rc < 0)
        return rc;
    return gd__call_publish(p->caller,
                            &(struct gd__publication){ .subject = gd__queue_subject_text(subject, p->name, &s),
                                                       .data = w->message.data,
                                                       .size = w->message.size,
                                                       .condition = GD__IF_NONE,
                                                       .tag = w->count | again << TAG_AGAIN_SHIFT });
}

/* Refused after a repetition: this push has the lock and did not know the task, so the message is its own, and only the
 * answer was lost. */
int gd__push_count(void *user, const struct gd__published *published)
{
    struct gd_queue_push *p = user;
    const uint64_t tasks = published->tag & UINT32_MAX, again = published->tag >> TAG_AGAIN_SHIFT;
    if (published->accepted || published->repeated) {
        p->counts.added += tasks;
        p->counts.again += again;
        p->counts.messages++;
    } else {
        p->counts.known += tasks;
    }
    return 0;
}

/* Sends the first tasks of a lane as one message: n, or as many as fit. */
static int send_bundle(struct gd_queue_push *p, struct gd__push_lane *l, int priority, size_t n)
{
    struct gd__queue_writer w;
    size_t count = 0;
    int rc = 0;
    gd__queue_tasks_begin(&w, p->most_bytes);
    while (count < n && rc == 0) {
        rc = gd__queue_tasks_add(&w, &l->tasks[l->first + count]->task);
        count += rc == 0;
    }
    if (count > 0 && rc == GD_E_TOO_LARGE)
        rc = 0; /* the message is full */
    if (rc == 0)
        rc = publish(p, &w, priority, 0);
    gd__queue_writer_free(&w);
    if (rc == 0)
        lane_drop(l, count);
    return rc;
}

static int send_lane(struct gd_queue_push *p, size_t i, bool is_end)
{
    struct gd__push_lane *l = &p->lanes[i];
    int rc = 0;
    for (size_t n = 1; n > 0 && l->n > 0 && rc == 0;) {
        n = gd__bundling_next(&p->bundling, l->n, l->bytes, p->most_bytes, is_end);
        if (n > 0)
            rc = send_bundle(p, l, (int)i + GD_PRIORITY_MIN, n);
    }
    return rc;
}

/* The task now belongs to the lane, or was freed. */
static int to_lane(struct gd_queue_push *p, struct gd__push_task *task)
{
    const size_t i = (size_t)(task->priority - GD_PRIORITY_MIN);
    const int rc = gd__push_lane_add(&p->lanes[i], task);
    return rc < 0 ? rc : send_lane(p, i, false);
}

int gd__push_enqueue(struct gd_queue_push *p, struct gd__push_task *task)
{
    return p->options.by_weight ? gd__push_lane_add(&p->all, task) : to_lane(p, task);
}

/* The heaviest first; tasks of the same weight in the order of the list. */
static int heavier(const void *a, const void *b)
{
    const struct gd__queue_task *x = &(*(struct gd__push_task *const *)a)->task;
    const struct gd__queue_task *y = &(*(struct gd__push_task *const *)b)->task;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

int gd__push_send_rest(struct gd_queue_push *p)
{
    struct gd__push_lane *all = &p->all;
    int rc = 0;
    if (all->n > 1)
        qsort(all->tasks + all->first, all->n, sizeof(struct gd__push_task *), heavier);
    while (all->n > 0 && rc == 0) {
        struct gd__push_task *task = all->tasks[all->first++];
        all->n--;
        all->bytes -= task->size;
        rc = to_lane(p, task);
    }
    for (size_t i = GD__PUSH_LANES; i-- > 0 && rc == 0;) /* the highest priority first */
        rc = send_lane(p, i, true);
    return rc;
}

int gd__push_send_alone(struct gd_queue_push *p, const struct gd__queue_task *task, int priority)
{
    struct gd__queue_writer w;
    gd__queue_tasks_begin(&w, p->most_bytes);
    int rc = gd__queue_tasks_add(&w, task);
    if (rc == 0)
        rc = publish(p, &w, priority, 1);
    gd__queue_writer_free(&w);
    return rc;
}

/* --- items --- */

static int check_item(const struct gd_queue_item *item)
{
    if ((!item->data && item->data_size > 0) || (!item->key && item->key_size > 0))
        return gd__error(GD_E_INVALID, "an item has a size but no data");
    if (item->priority < GD_PRIORITY_MIN || item->priority > GD_PRIORITY_MAX)
        return gd__error(GD_E_INVALID, "the priority %d of a task is not from %d to %d", item->priority,
                         GD_PRIORITY_MIN, GD_PRIORITY_MAX);
    if (item->version && strlen(item->version) > GD__QUEUE_VERSION_MOST)
        return gd__error(GD_E_INVALID, "the version of a task is longer than %d bytes", GD__QUEUE_VERSION_MOST);
    if (item->weight > GD__QUEUE_NUMBER_MOST)
        return gd__error(GD_E_INVALID, "the weight of a task is larger than 2^53");
    return 0;
}

/* A task whose version has changed is another task. */
static void hash_item(const struct gd_queue_item *item, unsigned char hash[GD__HASH_SIZE])
{
    struct gd__siphash s;
    const bool has_key = item->key != NULL;
    gd__key_hash(has_key ? item->key : item->data, has_key ? item->key_size : item->data_size, hash);
    if (!item->version || !*item->version)
        return;
    gd__key_hash_begin(&s);
    gd__siphash_add(&s, hash, GD__HASH_SIZE);
    gd__siphash_add(&s, item->version, strlen(item->version));
    gd__siphash_end(&s, hash);
}

static bool fits_inline(const struct gd_queue_push *p, const struct gd_queue_item *item, size_t version_size)
{
    if (p->spill_dir && item->data_size > GD__QUEUE_FILES_FROM)
        return false;
    return item->data_size <= p->most_bytes && item->data_size + version_size + TASK_BYTES <= p->most_bytes;
}

static int too_large(const struct gd_queue_push *p, size_t size)
{
    char text[GD__TEXT_FIGURE], most[GD__TEXT_FIGURE];
    const size_t limit = p->most_bytes - TASK_BYTES;
    return gd__error(GD_E_TOO_LARGE,
                     "the input of task %llu has %s: the server accepts messages of up to %s. Give a directory "
                     "that all machines share (--spill-dir), or raise max_payload of the server",
                     (unsigned long long)p->number + 1, gd__text_size(text, sizeof text, size),
                     gd__text_size(most, sizeof most, limit));
}

static struct gd__queue_text copy_text(char **to, struct gd__queue_text from)
{
    const struct gd__queue_text copy = { *to, from.size };
    if (from.at && from.size > 0)
        memcpy(*to, from.at, from.size);
    *to += from.size;
    return copy;
}

int gd__push_copy_task(struct gd__push_task **out, const struct gd__queue_task *task, int priority)
{
    const struct gd__queue_data *payload = &task->payload;
    const size_t size = task->version.size + payload->bytes.size + payload->file.size;
    struct gd__push_task *t = gd__calloc(1, sizeof *t + size);
    if (!t)
        return gd__error(GD_E_NO_MEMORY, "no memory for a task");
    char *to = t->bytes;
    t->priority = priority;
    t->size = TASK_BYTES + size;
    t->task = *task;
    t->task.version = copy_text(&to, task->version);
    t->task.payload.bytes = copy_text(&to, payload->bytes);
    t->task.payload.file = copy_text(&to, payload->file);
    *out = t;
    return 0;
}

/* Makes the task of an item, with a file for a large payload. */
static int describe_item(struct gd_queue_push *p, const struct gd_queue_item *item, const struct gd__queue_key *key,
                         struct gd__push_task **out)
{
    char name[GD__SPILL_NAME_ROOM];
    struct gd__queue_task t = { .key = *key,
                                .number = p->number,
                                .weight = item->weight,
                                .timeout_ms = item->timeout_ms,
                                .version = { item->version, item->version ? strlen(item->version) : 0 },
                                .payload = { .form = GD__QUEUE_INLINE, .bytes = { item->data, item->data_size } } };
    if (!fits_inline(p, item, t.version.size)) {
        if (!p->spill_dir)
            return too_large(p, item->data_size);
        const int rc = gd__spill_write(p->spill_dir, item->data, item->data_size, &t.payload, name);
        if (rc < 0)
            return rc;
        p->counts.files++;
    }
    return gd__push_copy_task(out, &t, item->priority);
}

int gd__push_make_task(struct gd_queue_push *p, const struct gd_queue_item *item, struct gd__push_task **out)
{
    struct gd__queue_key key = { .tasks = 1 };
    *out = NULL;
    int rc = check_item(item);
    if (rc < 0)
        return rc;
    hash_item(item, key.hash);
    rc = gd__queue_repeats_next(&p->repeats, key.hash, &key.repeat);
    if (rc < 0)
        return rc;
    if (gd__known_find(&p->known, &key))
        p->counts.known++;
    else
        rc = describe_item(p, item, &key, out);
    p->number++;
    return rc;
}
