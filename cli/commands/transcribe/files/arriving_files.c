/* SPDX-License-Identifier: MIT
 *
 * Checks files as they arrive: see arriving_files.h.
 */
#include "cli/commands/transcribe/files/arriving_files.h"

#include <string.h>

#include "apps/transcribe/output/shown.h"
#include "base/hash/siphash.h"
#include "base/text/buffer.h"
#include "cli/commands/transcribe/files/audio_files.h"
#include "cli/say.h"

/* A path as the "version" of an output. */
static struct cli_version identify(const char *path)
{
    static const unsigned char key[16];
    struct cli_version v = { 0 };
    unsigned char hash[GD__HASH_SIZE];
    gd__siphash128(key, path, strlen(path), hash);
    memcpy(&v.size, hash, sizeof v.size);
    memcpy(&v.seconds, hash + sizeof v.size, sizeof v.seconds);
    return v;
}

/* Whether the output belongs to this file. If memory runs out, nothing is refused. */
static bool owns(struct cli_arriving *a, const char *output, const char *path)
{
    const struct cli_version self = identify(path), *owner = cli_versions_find(&a->outputs, output);
    if (owner)
        return cli_version_equal(owner, &self);
    (void)cli_versions_put(&a->outputs, output, &self);
    return true;
}

/* A file that cannot have an output (its name is too long) is accepted: the worker refuses it with a message. */
static bool has_own_output(struct cli_arriving *a, const char *path)
{
    struct gd__buffer output = { 0 };
    char rooms[2][TR_SHOWN];
    const bool is_own =
        tr_output_path(&output, a->places, path, cli_audio_first_format(a->places)) < 0 || owns(a, output.data, path);
    if (!is_own)
        cli_say("%s is left out: its text would be written to %s, which belongs to another file; use --full-names",
                tr_shown(rooms[0], path), tr_shown(rooms[1], output.data));
    gd__buffer_free(&output);
    return is_own;
}

bool cli_arriving_accept(void *user, const char *path, uint64_t *weight)
{
    struct cli_arriving *a = user;
    if (!has_own_output(a, path)) {
        atomic_fetch_add(&a->refused, 1);
        return false;
    }
    *weight = cli_audio_milliseconds(path);
    return !a->skip_done || !tr_outputs_done(a->places, path);
}

void cli_arriving_free(struct cli_arriving *a)
{
    cli_versions_free(&a->outputs);
}
