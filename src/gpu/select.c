/* Selects the devices that a user has named. Most of this file makes error messages. They say which name is wrong, why
 * it is wrong, and which devices exist. */
#include "gpu/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "gpu/groups/connection.h"
#include "gpu/visible_list.h"

enum { IDS_MAX = 256, NAMES_MAX = 512 };

/* --- error messages --- */

void gd__ids_format(const struct gd__found *items, size_t n, char *out, size_t size)
{
    size_t used = 0;
    snprintf(out, size, "none");
    for (size_t i = 0, next; i < n && used < size; i = next) {
        next = i + 1;
        while (next < n && items[next].d.id == items[next - 1].d.id + 1)
            next++;
        const int first = items[i].d.id, last = items[next - 1].d.id;
        const int length = last > first ? snprintf(out + used, size - used, "%s%d-%d", used ? ", " : "", first, last)
                                        : snprintf(out + used, size - used, "%s%d", used ? ", " : "", first);
        used += (size_t)length;
    }
}

static const char *limiting_variable(enum gd_vendor vendor)
{
    static const char *const names[][3] = {
        [GD_VENDOR_CPU] = { NULL },
        [GD_VENDOR_NVIDIA] = { "CUDA_VISIBLE_DEVICES" },
        [GD_VENDOR_AMD] = { "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES" },
        [GD_VENDOR_INTEL] = { "ZE_AFFINITY_MASK" },
        [GD_VENDOR_SIMULATED] = { "CUDA_VISIBLE_DEVICES" },
    };
    for (size_t i = 0; i < 3 && names[vendor][i]; i++)
        if (getenv(names[vendor][i]))
            return names[vendor][i];
    return NULL;
}

/* Explains why no number can be chosen. */
static void explain_none(const struct gd__machine *m, char *out, size_t size)
{
    const char *variable = m->all.n > 0 ? limiting_variable((enum gd_vendor)m->all.items[0].d.vendor) : NULL;
    if (m->all.n == 0)
        snprintf(out, size, "this machine has no GPUs (try --gpus sim:4)");
    else if (variable)
        snprintf(out, size, "%s=\"%s\" hides all GPUs of this machine", variable, getenv(variable));
    else
        snprintf(out, size, "no GPU of this machine can be used (see gpu-dispatch gpus)");
}

/* Lists what can be chosen: "the GPUs are 0-3", "the only GPU is 0". Numbers have no gaps. */
static void explain_choice(const struct gd__machine *m, char *out, size_t size)
{
    int last = -1;
    for (size_t i = 0; i < m->visible.n; i++)
        if (m->visible.items[i].d.id > last)
            last = m->visible.items[i].d.id;
    if (last < 0)
        explain_none(m, out, size);
    else if (last == 0)
        snprintf(out, size, "the only GPU is 0");
    else
        snprintf(out, size, "the GPUs are 0-%d", last);
}

static int no_usable_gpu(const struct gd__machine *m)
{
    static const char advice[] = "use sim:2 (--gpus sim:2) for simulated GPUs, or cpu:8 for workers without a GPU";
    if (m->all.n == 0)
        return gd__error(GD_E_NO_DEVICES, "no GPU found (%s): %s", m->why, advice);
    const char *variable = m->visible.n == 0 ? limiting_variable((enum gd_vendor)m->all.items[0].d.vendor) : NULL;
    if (variable)
        return gd__error(GD_E_NO_DEVICES,
                         "no usable GPU: %s=\"%s\" hides all %zu GPUs of this machine; change it, or %s", variable,
                         getenv(variable), m->all.n, advice);
    return gd__error(GD_E_NO_DEVICES,
                     "no usable GPU (%zu found): each either has MIG on but no MIG instance, or is in a compute "
                     "mode that prohibits programs; see nvidia-smi, or %s",
                     m->all.n, advice);
}

/* --- adding --- */

static int add(struct gd__found_list *out, const struct gd__found *f, const struct gd__spec_entry *e)
{
    for (size_t i = 0; i < out->n; i++)
        if (out->items[i].d.id == f->d.id)
            return gd__error(GD_E_INVALID, "GPU %d is listed twice, the second time as \"%.*s\"; list it once", f->d.id,
                             (int)e->length, e->text);
    return gd__found_add(out, f);
}

/* Two devices can be in one group only if one process can use both. */
static int check_group(const struct gd__found_list *out, unsigned group)
{
    const struct gd__found *first = NULL;
    for (size_t i = 0; i < out->n; i++) {
        const struct gd__found *f = &out->items[i];
        if (f->group != group)
            continue;
        first = first ? first : f;
        const int rc = gd__connection_check(first, f);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int add_usable(struct gd__found_list *out, const struct gd__machine *m)
{
    int rc = 0;
    for (size_t i = 0; i < m->visible.n && rc == 0; i++)
        if (m->visible.items[i].d.id >= 0 && !m->visible.items[i].prohibited)
            rc = gd__found_add(out, &m->visible.items[i]);
    return rc;
}

/* --- by number --- */

static const struct gd__found *by_id(const struct gd__machine *m, int id)
{
    for (size_t i = 0; i < m->visible.n; i++)
        if (m->visible.items[i].d.id == id)
            return &m->visible.items[i];
    return NULL;
}

static int add_numbers(struct gd__found_list *out, const struct gd__machine *m, const struct gd__spec_entry *e)
{
    int rc = 0;
    for (int id = e->first; id <= e->last && rc == 0; id++) {
        const struct gd__found *f = by_id(m, id);
        char choice[IDS_MAX];
        explain_choice(m, choice, sizeof choice);
        rc = f ? add(out, f, e) : gd__error(GD_E_NO_DEVICES, "no GPU %d: %s", id, choice);
    }
    return rc;
}

/* --- by UUID --- */

static bool named(const struct gd__found *f, const struct gd__spec_entry *e)
{
    return gd__visible_named(f, e->text, e->length);
}

static bool is_gpu_name(const struct gd__spec_entry *e)
{
    return strncasecmp(e->text, "GPU-", 4) == 0;
}

static int no_instance(const struct gd__found *f)
{
    return gd__error(GD_E_NO_DEVICES,
                     "GPU %d (%s) has MIG on but no MIG instance, so nothing can run on it: create one (nvidia-smi mig "
                     "-cgi ... -C) or switch MIG off",
                     f->d.index, f->gpu_uuid);
}

/* The name matches no visible device. Reports whether a hidden device has that name. */
static int not_named(const struct gd__machine *m, const struct gd__spec_entry *e)
{
    char choice[IDS_MAX], names[NAMES_MAX] = "";
    for (size_t i = 0; i < m->all.n; i++) {
        const struct gd__found *f = &m->all.items[i];
        const char *variable = limiting_variable((enum gd_vendor)f->d.vendor);
        if (named(f, e) && variable)
            return gd__error(GD_E_NO_DEVICES, "%.*s is hidden by %s=\"%s\": change that variable to use it",
                             (int)e->length, e->text, variable, getenv(variable));
    }
    for (size_t i = 0, used = 0; i < m->visible.n && used < sizeof names; i++)
        used +=
            (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", m->visible.items[i].d.uuid);
    explain_choice(m, choice, sizeof choice);
    return gd__error(GD_E_NO_DEVICES, "no device %.*s: %s%s%s%s", (int)e->length, e->text, choice, *names ? " (" : "",
                     names, *names ? ")" : "");
}

static int ambiguous(const struct gd__spec_entry *e, const struct gd__found *a, const struct gd__found *b)
{
    const bool gpus = is_gpu_name(e);
    return gd__error(GD_E_INVALID, "\"%.*s\" matches both %s and %s: write more of the UUID", (int)e->length, e->text,
                     gpus ? a->gpu_uuid : a->d.uuid, gpus ? b->gpu_uuid : b->d.uuid);
}

static int add_named(struct gd__found_list *out, const struct gd__machine *m, const struct gd__spec_entry *e)
{
    const struct gd__found *first = NULL;
    int rc = 0;
    for (size_t i = 0; i < m->visible.n && rc == 0; i++) {
        const struct gd__found *f = &m->visible.items[i];
        if (!named(f, e))
            continue;
        if (first && !(is_gpu_name(e) && strcmp(first->gpu_uuid, f->gpu_uuid) == 0))
            return ambiguous(e, first, f);
        first = f;
        rc = f->mig_empty ? no_instance(f) : add(out, f, e);
    }
    return rc < 0 || first ? rc : not_named(m, e);
}

/* --- MIG instances by number --- */

static bool may_have_mig(const struct gd__found *f)
{
    return f->d.vendor == GD_VENDOR_NVIDIA || f->d.vendor == GD_VENDOR_SIMULATED;
}

static int add_mig(struct gd__found_list *out, const struct gd__machine *m, const struct gd__spec_entry *e)
{
    int instances = 0, gpus = 0;
    for (size_t i = 0; i < m->visible.n; i++) {
        const struct gd__found *f = &m->visible.items[i];
        if (f->d.index != e->first || !may_have_mig(f))
            continue;
        if (f->mig_empty)
            return no_instance(f);
        if (f->d.is_mig && f->mig_index == e->last)
            return add(out, f, e);
        instances += f->d.is_mig;
        gpus++;
    }
    if (gpus == 0)
        return gd__error(GD_E_NO_DEVICES, "no MIG instance %d:%d: there is no usable GPU %d", e->first, e->last,
                         e->first);
    if (instances == 0)
        return gd__error(GD_E_NO_DEVICES,
                         "no MIG instance %d:%d: GPU %d has no MIG instances; write %d for the whole GPU", e->first,
                         e->last, e->first, e->first);
    return gd__error(GD_E_NO_DEVICES, "no MIG instance %d:%d: GPU %d has %d, counted from 0", e->first, e->last,
                     e->first, instances);
}

/* --- a whole list --- */

typedef int adder(struct gd__found_list *out, const struct gd__machine *m, const struct gd__spec_entry *e);
static adder *const adders[] = {
    [GD__SPEC_NUMBERS] = add_numbers,
    [GD__SPEC_NAME] = add_named,
    [GD__SPEC_MIG] = add_mig,
};

/* Checks the syntax of the whole list before it searches for devices, so that a typing error is reported first. */
static int select_list(struct gd__found_list *out, const struct gd__machine *m, const char *text)
{
    struct gd__spec_entry e;
    const char *at = text;
    int rc;
    while ((rc = gd__spec_next(text, &at, &e)) > 0)
        ;
    at = text;
    unsigned group = 1;
    while (rc >= 0 && (rc = gd__spec_next(text, &at, &e)) > 0) {
        const size_t before = out->n;
        rc = adders[e.kind](out, m, &e);
        for (size_t i = before; e.in_group && i < out->n; i++)
            out->items[i].group = group;
        if (rc == 0 && e.in_group && !e.goes_on)
            rc = check_group(out, group++);
    }
    return rc;
}

int gd__select(struct gd__found_list *out, const struct gd__machine *m, const struct gd__spec *spec, const char *text)
{
    if (spec->kind == GD__SPEC_LIST)
        return select_list(out, m, text);
    const int rc = add_usable(out, m);
    return rc == 0 && out->n == 0 && spec->kind != GD__SPEC_ALL ? no_usable_gpu(m) : rc;
}
