/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch models list`: the models on this machine, in the order in which they are searched for, and those that are
 * published, as a table or as JSON. A file is listed once, even if several places lead to it.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "apps/transcribe/model/model.h"
#include "apps/transcribe/model/model_sums.h"
#include "apps/transcribe/model/places.h"
#include "apps/transcribe/model/published.h"
#include "base/failure.h"
#include "base/file/write.h"
#include "base/text/buffer.h"
#include "base/text/figures.h"
#include "base/text/json_write.h"
#include "base/text/printable.h"
#include "cli/commands/models/models.h"
#include "cli/run/stop/exit_status.h"
#include "cli/say.h"

struct found {
    char name[TR_MODEL_NAME];
    char *path, *error; /* error: NULL if the model can be used */
    dev_t device;
    ino_t inode;
    uint64_t bytes;
    bool english;
    const char *checksum;
};

struct list {
    struct found *items;
    size_t n, room;
    bool failed;
};

/* --- finding -------------------------------------------------------------------- */

static const char *checksum(const struct found *f, bool check)
{
    char sum[TR_SUM_TEXT];
    const struct tr_published *known = tr_published_find(f->name);
    if (!known)
        return "unknown";
    if (f->bytes != known->bytes)
        return "wrong";
    if (tr_model_is_verified(f->path, known->sum))
        return "good";
    if (!check)
        return "unchecked";
    return tr_model_verify(f->path, known->sum, sum) == 1 ? "good" : "wrong";
}

static bool is_listed(const struct list *l, const struct stat *st)
{
    for (size_t i = 0; i < l->n; i++) {
        if (l->items[i].device == st->st_dev && l->items[i].inode == st->st_ino)
            return true;
    }
    return false;
}

static struct found *new_item(struct list *l)
{
    if (l->n == l->room) {
        const size_t room = l->room ? 2 * l->room : 16;
        struct found *items = reallocarray(l->items, room, sizeof *items);
        if (!items) {
            l->failed = true;
            return NULL;
        }
        l->items = items;
        l->room = room;
    }
    struct found *f = &l->items[l->n++];
    *f = (struct found){ 0 };
    return f;
}

/* Takes the path. */
static void add_file(struct list *l, char *path, const struct stat *st, bool check)
{
    struct tr_model model;
    struct found *f = new_item(l);
    if (!f) {
        free(path);
        return;
    }
    tr_model_name(f->name, path);
    f->path = path;
    f->device = st->st_dev;
    f->inode = st->st_ino;
    f->bytes = (uint64_t)st->st_size;
    f->checksum = "unknown";
    if (tr_model_check(&model, path) < 0) {
        f->error = strdup(gd__fail_text());
        l->failed = l->failed || !f->error;
        return;
    }
    const struct tr_published *known = tr_published_find(f->name);
    f->english = !model.multilingual || (known && known->english);
    f->checksum = checksum(f, check);
    tr_model_free(&model);
}

static int is_model_name(const struct dirent *entry)
{
    const size_t size = strlen(entry->d_name);
    return size > 9 && strncmp(entry->d_name, "ggml-", 5) == 0 && strcmp(entry->d_name + size - 4, ".bin") == 0;
}

static void add_place(struct list *l, const char *place, bool check)
{
    struct dirent **entries = NULL;
    const int n = scandir(place, &entries, is_model_name, alphasort);
    for (int i = 0; i < n; i++) {
        struct stat st;
        char *path = NULL;
        if (asprintf(&path, "%s/%s", place, entries[i]->d_name) < 0)
            l->failed = true;
        else if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && !is_listed(l, &st))
            add_file(l, path, &st, check);
        else
            free(path);
        free(entries[i]);
    }
    free(entries);
}

static int collect(struct list *l, const struct cli_models *m)
{
    struct tr_places places;
    tr_places_collect(&places, m->model_dir);
    for (size_t i = 0; i < places.n; i++)
        add_place(l, places.paths[i], m->check);
    l->failed = l->failed || places.failed;
    tr_places_free(&places);
    return l->failed ? gd__fail("no memory to list the models") : 0;
}

static void release(struct list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->items[i].path);
        free(l->items[i].error);
    }
    free(l->items);
}

/* --- table ----------------------------------------------------------------------- */

#define ROW "%-20.20s  %9s  "

static const char *languages(bool english)
{
    return english ? "English" : "multilingual";
}

/* Paths and error messages may have any bytes. */
static void print_plain(const char *before, char *text)
{
    gd__text_plain(text, strlen(text), false);
    printf("%s%s\n", before, text);
}

static void print_found(const struct list *l)
{
    char size[GD__TEXT_FIGURE];
    if (l->n == 0) {
        puts("No model was found on this machine.");
        return;
    }
    printf(ROW "%-12s  %-9s  %s\n", "found", "size", "languages", "checksum", "path");
    for (size_t i = 0; i < l->n; i++) {
        const struct found *f = &l->items[i];
        gd__text_size(size, sizeof size, f->bytes);
        printf(ROW "%-12s  %-9s", f->name, size, f->error ? "-" : languages(f->english), f->error ? "-" : f->checksum);
        print_plain("  ", f->path);
        if (f->error)
            print_plain("  cannot be used: ", f->error);
    }
}

static void print_published(void)
{
    char size[GD__TEXT_FIGURE];
    size_t n;
    const struct tr_published *all = tr_published_all(&n);
    puts("\nTo download a published model: gpu-dispatch models download NAME\n");
    printf(ROW "%s\n", "published", "size", "languages");
    for (size_t i = 0; i < n; i++) {
        if (all[i].url && !*all[i].url)
            continue; /* part of this program */
        gd__text_size(size, sizeof size, all[i].bytes);
        printf(ROW "%s\n", all[i].name, size, languages(all[i].english));
    }
}

/* --- JSON ------------------------------------------------------------------------ */

static void put_head(struct gd__buffer *b, const char *name, uint64_t bytes)
{
    gd__buffer_text(b, "{\"name\":");
    gd__json_put_string(b, name, strlen(name));
    gd__buffer_format(b, ",\"bytes\":%" PRIu64, bytes);
}

static void put_found(struct gd__buffer *b, const struct list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct found *f = &l->items[i];
        gd__buffer_text(b, i ? ",\n  " : "");
        put_head(b, f->name, f->bytes);
        gd__buffer_format(b, ",\"multilingual\":%s", f->error ? "null" : f->english ? "false" : "true");
        gd__json_put_text(b, "checksum", f->error ? "" : f->checksum);
        gd__json_put_text(b, "path", f->path);
        gd__json_put_text(b, "error", f->error ? f->error : "");
        gd__buffer_text(b, "}");
    }
}

static void put_published(struct gd__buffer *b)
{
    size_t n;
    const struct tr_published *all = tr_published_all(&n);
    bool first = true;
    for (size_t i = 0; i < n; i++) {
        struct gd__buffer address = { 0 };
        if (all[i].url && !*all[i].url)
            continue;
        gd__buffer_text(b, first ? "" : ",\n  ");
        first = false;
        put_head(b, all[i].name, all[i].bytes);
        gd__buffer_format(b, ",\"multilingual\":%s", all[i].english ? "false" : "true");
        gd__json_put_text(b, strlen(all[i].sum) == TR_SUM_TEXT - 1 ? "sha256" : "sha1", all[i].sum);
        tr_published_address(&address, &all[i], NULL);
        gd__buffer_add(&address, "", 1);
        gd__json_put_text(b, "url", address.failed ? "" : address.data);
        b->failed = b->failed || address.failed;
        gd__buffer_free(&address);
        gd__buffer_text(b, "}");
    }
}

static int print_json(const struct list *l)
{
    struct gd__buffer b = { 0 };
    gd__buffer_text(&b, "{\"found\":[");
    put_found(&b, l);
    gd__buffer_text(&b, "],\n \"published\":[");
    put_published(&b);
    gd__buffer_text(&b, "]}\n");
    const int rc = b.failed ? gd__fail("no memory to list the models") : gd__write_all(1, b.data, b.size);
    gd__buffer_free(&b);
    return rc;
}

int cli_models_list(const struct cli_models *m)
{
    struct list l = { 0 };
    int rc = collect(&l, m);
    if (rc == 0 && m->json) {
        rc = print_json(&l);
    } else if (rc == 0) {
        print_found(&l);
        print_published();
    }
    if (rc < 0)
        cli_say("%s", gd__fail_text());
    release(&l);
    return rc < 0 ? CLI_EXIT_ERROR : 0;
}
