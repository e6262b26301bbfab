/* SPDX-License-Identifier: MIT
 *
 * --shard: see shard_options.h.
 */
#include "cli/run/shard/shard_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/failure.h"
#include "base/text/buffer.h"
#include "shard/names.h"

/* How long the same shard on another machine may take to end, or to be recognised as dead. Slurm does not start a job
 * again that has exited. */
enum { USUAL_WAIT_MS = 120000 };

int cli_set_lock_wait(const struct cli_opt *opt, void *field, const char *text)
{
    struct cli_lock_wait *w = field;
    w->given = true;
    return cli_set_duration(opt, &w->ms, text);
}

static void set_usual_wait(struct cli_run *r)
{
    if (!r->lock_wait.given && (r->shard.count > 0 || getenv("SLURM_JOB_ID")))
        r->lock_wait.ms = USUAL_WAIT_MS;
}

/* Whether the path names something that all shards may share: standard output, a device or a pipe. Names of descriptors
 * count even if standard output is a file. */
static bool is_stream(const char *path)
{
    static const char *const descriptors[] = { "/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/" };
    struct stat st;
    for (size_t i = 0; i < sizeof descriptors / sizeof *descriptors; i++) {
        if (strncmp(path, descriptors[i], strlen(descriptors[i])) == 0)
            return true;
    }
    return strcmp(path, "-") == 0 || (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode));
}

static int rename_one(const struct cli_run *r, const char *option, const char **path, char **storage)
{
    if (!*path || (*path != r->journal_base && is_stream(*path))) /* the library renames every journal */
        return 0;
    if (gd__shard_path(storage, *path, r->shard) < 0)
        return gd__fail("%s: %s", option, gd_error_text());
    *path = *storage;
    return 0;
}

static int rename_all(struct cli_run *r)
{
    r->journal_base = r->journal;
    if (r->shard.count == 0)
        return 0;
    const struct {
        const char *option, **path;
    } all[CLI_SHARD_NAMES] = {
        { "--journal", &r->journal }, { "--output", &r->output }, { "--joblog", &r->joblog }, { "--failed", &r->failed }
    };
    for (size_t i = 0; i < CLI_SHARD_NAMES; i++) {
        if (rename_one(r, all[i].option, all[i].path, &r->shard_names[i]) < 0)
            return -1;
    }
    return 0;
}

/* The library's messages name no options. This replaces words of shard/environment.c by what a user of the command
 * writes. */
static void put_for_command(struct gd__buffer *b, const char *message)
{
    static const struct {
        const char *library, *command;
    } words[] = { { "give the shard as ", "write --shard " },
                  { "Give the shard as ", "Write --shard " },
                  { "without a shard", "without --shard" },
                  { "PROGRAM ...", "gpu-dispatch run --shard auto ..." } };
    enum { N = sizeof words / sizeof *words };
    while (*message) {
        size_t i = 0;
        while (i < N && strncmp(message, words[i].library, strlen(words[i].library)) != 0)
            i++;
        gd__buffer_add(b, i < N ? words[i].command : message, i < N ? strlen(words[i].command) : 1);
        message += i < N ? strlen(words[i].library) : 1;
    }
    gd__buffer_add(b, "", 1);
}

/* Some messages begin with the text and a colon: "4/3": there is no such shard. */
static int refuse_shard(const char *text)
{
    struct gd__buffer b = { 0 };
    const char *message = gd_error_text();
    const size_t n = strlen(text);
    if (message[0] == '"' && strncmp(message + 1, text, n) == 0 && strncmp(message + 1 + n, "\": ", 3) == 0)
        message += 1 + n + 3;
    put_for_command(&b, message);
    const int rc = gd__fail("--shard %s: %s", text, b.failed ? message : b.data);
    gd__buffer_free(&b);
    return rc;
}

int cli_shard_options_apply(struct cli_run *r)
{
    if (r->shard_text && gd_shard_find(&r->shard, r->shard_text, r->shard_origin) < 0)
        return refuse_shard(r->shard_text);
    set_usual_wait(r);
    return rename_all(r);
}

void cli_shard_options_free(struct cli_run *r)
{
    for (size_t i = 0; i < CLI_SHARD_NAMES; i++) {
        gd__free(r->shard_names[i]);
        r->shard_names[i] = NULL;
    }
    free(r->skip_done.items);
}

const char *cli_shard_text(const struct cli_run *r, char *out, size_t size)
{
    const bool found = r->shard_origin[0] != '\0';
    snprintf(out, size, "shard %u of %u%s%s%s", r->shard.index + 1, r->shard.count, found ? " (" : "", r->shard_origin,
             found ? ")" : "");
    return out;
}
