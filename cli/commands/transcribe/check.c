/* SPDX-License-Identifier: MIT
 *
 * The report of --check: a line for each part that a transcription needs.
 *
 *   gpu_dispatch  0.1.0
 *   worker        /usr/local/libexec/gpu_dispatch/transcribe.so
 *   whisper.cpp   1.8.5
 *   libsndfile    1.2.0: wav, flac, ogg, ...
 *   model         base, multilingual, 142 MiB: /home/u/models/ggml-base.bin
 *   devices       2 GPUs
 *                 0: NVIDIA H200, 139.8 GiB
 */
#include "cli/commands/transcribe/check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <gpu_dispatch/devices.h>
#include <gpu_dispatch/dispatcher.h>

#include "apps/transcribe/output/shown.h"
#include "base/failure.h"
#include "base/file/write.h"
#include "base/text/figures.h"
#include "binding.h"

enum { NAMES = 12 }; /* width of the first column */

/* Characters that a terminal would act on become '?'. */
static void add(struct gd__buffer *b, const char *name, const char *text, size_t size)
{
    gd__buffer_format(b, "%-*s  ", NAMES, name);
    const size_t before = b->size;
    gd__buffer_add(b, text, size);
    if (!b->failed)
        tr_show(b->data + before, b->size - before);
    gd__buffer_text(b, "\n");
}

static void add_text(struct gd__buffer *b, const char *name, const char *text)
{
    add(b, name, text, strlen(text));
}

/* Lines of a name, a tab and a text. */
static void add_about(struct gd__buffer *b, const struct gd__buffer *about)
{
    const char *at = about->data, *end = at ? at + about->size : NULL;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        line_end = line_end ? line_end : end;
        const char *tab = memchr(at, '\t', (size_t)(line_end - at));
        char name[32] = "";
        if (tab && tab - at < (ptrdiff_t)sizeof name) {
            memcpy(name, at, (size_t)(tab - at));
            tr_show(name, strlen(name));
            add(b, name, tab + 1, (size_t)(line_end - tab - 1));
        }
        at = line_end + 1;
    }
    if (about->size == 0)
        add_text(b, "versions", "not known: this worker does not tell");
}

static void add_model(struct gd__buffer *b, const struct tr_model *m)
{
    struct gd__buffer text = { 0 };
    char size[32];
    if (!m) {
        add_text(b, "model", "not checked: name one with --model-size or --model");
        return;
    }
    gd__buffer_text(&text, m->name);
    gd__buffer_format(&text, ", %s, %s: ", m->multilingual ? "multilingual" : "only English",
                      gd__text_size(size, sizeof size, m->bytes));
    gd__buffer_text(&text, m->path);
    gd__buffer_add(&text, "", 1);
    b->failed |= text.failed;
    if (!text.failed)
        add_text(b, "model", text.data);
    gd__buffer_free(&text);
}

/* The real GPUs. */
static int add_devices(struct gd__buffer *b, const char *gpus)
{
    struct gd_devices *devices = NULL;
    struct gd_device d = { .size = sizeof d };
    int rc = gd_devices_open(&devices, gd__spec_is_free(gpus) ? "auto" : gpus);
    for (size_t i = 0; rc == 0 && i < gd_devices_count(devices); i++) {
        char line[192], size[32];
        rc = gd_devices_get(devices, i, &d);
        if (rc < 0 || d.vendor == GD_VENDOR_CPU || d.vendor == GD_VENDOR_SIMULATED)
            continue;
        snprintf(line, sizeof line, "%d: %s%s%s", d.id, d.name, d.known & GD_KNOWN_MEMORY ? ", " : "",
                 d.known & GD_KNOWN_MEMORY ? gd__text_size(size, sizeof size, d.memory_total) : "");
        add_text(b, "", line);
    }
    gd_devices_close(&devices);
    return rc < 0 ? gd__fail("--gpus %s: %s", gpus, gd_error_text()) : 0;
}

int cli_transcribe_report(const struct cli_check *c)
{
    struct gd__buffer b = { 0 };
    add_text(&b, "gpu_dispatch", gd_version());
    add_text(&b, "worker", c->plugin);
    add_about(&b, c->about);
    add_model(&b, c->model);
    add_text(&b, "devices", c->devices);
    int rc = add_devices(&b, c->gpus);
    if (rc == 0 && b.failed)
        rc = gd__fail("out of memory");
    if (rc == 0 && gd__write_all(1, b.data, b.size) < 0)
        rc = gd__fail("cannot write to standard output: %s", strerror(errno));
    gd__buffer_free(&b);
    return rc;
}
