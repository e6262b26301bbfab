/* The claim of a run: shared locks for devices that were named, exclusive ones for free devices (free.c). */
#include "gpu/claim/claim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gpu/claim/holder.h"
#include "gpu/claim/internal.h"
#include "gpu/claim/state.h"

#define ADVICE "wait with free (--gpus free:1), or ignore the locks (--ignore-gpu-locks)"

enum { NOTE_MAX = 512 };

void gd__claim_release(struct gd__claim *claim)
{
    for (size_t i = 0; i < claim->n; i++)
        gd__device_lock_release(&claim->locks[i]);
}

void gd__claim_close(struct gd__claim **claim)
{
    struct gd__claim *c = claim ? *claim : NULL;
    if (!c)
        return;
    gd__claim_release(c);
    gd__lock_directory_close(&c->directory);
    gd__free(c->locks);
    gd__free(c);
    *claim = NULL;
}

void gd__claim_reduce(struct gd_devices *list, const bool *keep)
{
    size_t n = 0;
    for (size_t i = 0; i < list->found.n; i++)
        if (keep[i])
            list->found.items[n++] = list->found.items[i];
    list->found.n = n;
}

/* --- shared locks --- */

/* Whether the lock of a device was refused because another run has it, and the error message. */
struct refusal {
    char text[GD__STATE_TEXT];
    bool refused;
};

/* If the process that has the lock is not found, it may have ended. Then the lock is tried again. */
static int lock_shared(struct gd__claim *claim, size_t i, const struct gd__found *f, struct refusal *out)
{
    char name[GD__LOCK_NAME_MAX];
    struct gd__device_state state = { .use = GD__DEVICE_LOCKED };
    struct gd__holder holder = { 0 };
    int rc = GD_E_BUSY;
    gd__device_lock_name(name, f);
    for (int try = 0; try < 2 && rc == GD_E_BUSY && holder.pid == 0; try++) {
        rc = gd__device_lock_take(&claim->locks[i], &claim->directory, name, GD__LOCK_SHARED, &state.file);
        if (rc == GD_E_BUSY)
            (void)gd__holder_find(&holder, &state.file);
    }
    out->refused = rc == GD_E_BUSY && !holder.ancestor;
    state.pid = holder.pid;
    if (out->refused)
        gd__device_state_describe(out->text, f, &state);
    return rc == GD_E_NO_MEMORY ? rc : 0; /* if locking fails, the device is used without a lock */
}

static bool is_asked_for(const struct gd__claim_ask *ask, int id)
{
    for (size_t i = 0; i < ask->n_ids; i++)
        if (ask->ids[i] == id)
            return true;
    return ask->n_ids == 0;
}

static int leave_out(const struct gd__claim_ask *ask, const struct refusal *why, char *first, size_t size)
{
    char note[NOTE_MAX];
    if (!*first)
        snprintf(first, size, "%s", why->text);
    snprintf(note, sizeof note, "%s, and is left out", why->text);
    return ask->note && ask->note(ask->user, note) != 0
               ? gd__error(GD_E_INTERRUPTED, "interrupted while the GPUs were chosen")
               : 0;
}

static int claim_shared(struct gd__claim *claim, struct gd_devices *list, const struct gd__claim_ask *ask)
{
    const bool may_leave_out = list->spec.kind == GD__SPEC_AUTO;
    const size_t n = list->found.n;
    char first[GD__STATE_TEXT] = "";
    size_t left = n;
    int rc = 0;
    bool *keep = gd__calloc(n + 1, sizeof *keep);
    if (!keep)
        return gd__error(GD_E_NO_MEMORY, "no memory for a list of devices");
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct refusal why = { .refused = false };
        const struct gd__found *f = &list->found.items[i];
        if (is_asked_for(ask, f->d.id))
            rc = lock_shared(claim, i, f, &why);
        keep[i] = !why.refused;
        left -= why.refused;
        if (rc == 0 && why.refused)
            rc = may_leave_out ? leave_out(ask, &why, first, sizeof first)
                               : gd__error(GD_E_BUSY, "%s: " ADVICE, why.text);
    }
    if (rc == 0 && n > 0 && left == 0)
        rc = gd__error(GD_E_BUSY, "%s%s: " ADVICE, n > 1 ? "all GPUs are held by other runs: " : "", first);
    if (rc == 0)
        gd__claim_reduce(list, keep);
    gd__free(keep);
    return rc;
}

/* If the directory of the locks cannot be opened, the devices are used without locks. This is reported only if the user
 * set the directory. */
static int open_shared(struct gd__claim *claim, struct gd_devices *list, const struct gd__claim_ask *ask)
{
    char note[NOTE_MAX];
    if (gd__lock_directory_open(&claim->directory) == 0)
        return claim_shared(claim, list, ask);
    snprintf(note, sizeof note, "the GPUs are not locked: %s", gd_error_text());
    if (getenv(GD__ENV_LOCKS) && ask->note)
        (void)ask->note(ask->user, note);
    return 0;
}

/* --- any claim --- */

static int open_free(struct gd__claim *claim, struct gd_devices *list, const struct gd__claim_ask *ask)
{
    if (ask->ignore_locks)
        return gd__error(GD_E_INVALID, "free GPUs cannot be chosen if locks are ignored (--ignore-gpu-locks): use auto "
                                       "or a list of GPUs");
    const int rc = gd__lock_directory_open(&claim->directory);
    return rc < 0 ? rc : gd__claim_wait(claim, list, ask);
}

int gd__claim_open(struct gd__claim **out, struct gd_devices *list, const struct gd__claim_ask *ask)
{
    const bool is_free = list && list->spec.kind == GD__SPEC_FREE;
    *out = NULL;
    if (!list || list->spec.kind == GD__SPEC_SIM || list->spec.kind == GD__SPEC_CPU || (ask->ignore_locks && !is_free))
        return 0;
    struct gd__claim *claim = gd__calloc(1, sizeof *claim);
    if (!claim)
        return gd__error(GD_E_NO_MEMORY, "no memory for the locks of GPUs");
    claim->directory.fd = -1;
    claim->n = list->found.n;
    claim->locks = gd__calloc(claim->n + 1, sizeof *claim->locks);
    int rc = claim->locks ? 0 : gd__error(GD_E_NO_MEMORY, "no memory for the locks of GPUs");
    if (rc == 0)
        rc = is_free ? open_free(claim, list, ask) : open_shared(claim, list, ask);
    if (rc < 0)
        gd__claim_close(&claim);
    *out = claim;
    return rc;
}

int gd__claim_keep_free(struct gd_devices *list)
{
    struct gd__lock_directory d = { .fd = -1 };
    bool *keep = gd__calloc(list->found.n + 1, sizeof *keep);
    unsigned n = 0;
    if (!keep)
        return gd__error(GD_E_NO_MEMORY, "no memory for a list of devices");
    (void)gd__lock_directory_open(&d); /* without it there are no locks */
    for (size_t i = 0; i < list->found.n && n < list->spec.count; i++) {
        struct gd__device_state s;
        gd__device_state(&s, &list->found.items[i], &d);
        keep[i] = s.use == GD__DEVICE_FREE;
        n += keep[i];
    }
    gd__lock_directory_close(&d);
    gd__claim_reduce(list, keep);
    gd__free(keep);
    return 0;
}
