/* Finds out which items are not run: see completed.h. gd__completed_ask() may take long when a journal is
 * searched for the first time, and gd__completed_wait() may take long too. Both return soon after
 * gd__completed_interrupt(), so gd__completed_leave() can wait for the lock. */
#include "dispatch/source/completed.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash/key.h"
#include "shard/deal.h"

void gd__completed_open(struct gd__completed *k, struct gd_journal *journal, struct gd_shard shard)
{
    *k = (struct gd__completed){ .keeps = journal != NULL, .journal = journal, .shard = shard };
    pthread_mutex_init(&k->lock, NULL);
}

void gd__completed_close(struct gd__completed *k)
{
    gd__free(k->version);
    pthread_mutex_destroy(&k->lock);
}

/* --- the feeder thread --- */

int gd__completed_key(struct gd__completed *k, const void *key, size_t size, const char *version)
{
    k->has_key = false;
    gd__free(k->version);
    k->version = version ? gd__strdup(version) : NULL;
    if (version && !k->version)
        return gd__error(GD_E_NO_MEMORY, "no memory for a key");
    gd__key_hash(size > 0 ? key : "", size, k->key.hash);
    k->key.version = k->version;
    k->has_key = true;
    return 0;
}

void gd__completed_next(struct gd__completed *k)
{
    k->has_key = k->is_ours = false;
}

void gd__completed_count(struct gd__completed *k)
{
    gd__completed_next(k);
    k->given++;
}

/* An item without a key is identified by its payload. */
static void find_key(struct gd__completed *k, const void *data, size_t size)
{
    if (k->has_key)
        return;
    k->key.version = NULL;
    gd__key_hash(size > 0 ? data : "", size, k->key.hash);
}

void gd__completed_ours(struct gd__completed *k)
{
    k->is_ours = true;
}

bool gd__completed_is_foreign(struct gd__completed *k, const void *data, size_t size)
{
    if (k->shard.count <= 1 || k->is_ours)
        return false;
    find_key(k, data, size);
    k->is_ours = gd__shard_of_hash(k->key.hash, k->shard.count) == k->shard.index;
    return !k->is_ours;
}

bool gd__completed_ask_reads(struct gd__completed *k, const void *data, size_t size)
{
    bool reads = false;
    pthread_mutex_lock(&k->lock);
    if (k->journal) {
        find_key(k, data, size);
        reads = gd__journal_take_reads(k->journal, &k->key);
    }
    pthread_mutex_unlock(&k->lock);
    return reads;
}

int gd__completed_ask(struct gd__completed *k, const void *data, size_t size, struct gd__journal_task **out)
{
    int rc = 1;
    pthread_mutex_lock(&k->lock);
    if (k->journal) {
        find_key(k, data, size);
        rc = gd__journal_take(k->journal, &k->key, k->given, out);
    }
    pthread_mutex_unlock(&k->lock);
    if (rc >= 0)
        gd__completed_count(k);
    return rc;
}

void gd__completed_wait(struct gd__completed *k)
{
    pthread_mutex_lock(&k->lock);
    if (k->journal)
        gd__journal_admit(k->journal);
    pthread_mutex_unlock(&k->lock);
}

bool gd__completed_has_room(struct gd__completed *k)
{
    pthread_mutex_lock(&k->lock);
    const bool has = !k->journal || gd__journal_has_room(k->journal);
    pthread_mutex_unlock(&k->lock);
    return has;
}

/* --- the monitor --- */

/* Does not take the lock, because the feeder may hold it until this function has run. Reading journal is safe, because
 * only the monitor changes it. */
void gd__completed_interrupt(struct gd__completed *k)
{
    if (k->journal)
        gd__journal_interrupt(k->journal);
}

void gd__completed_leave(struct gd__completed *k)
{
    pthread_mutex_lock(&k->lock);
    k->journal = NULL;
    pthread_mutex_unlock(&k->lock);
}
