/* SPDX-License-Identifier: MIT
 *
 * What identifies a task: see task_key.h.
 */
#include "cli/input/task_key.h"

#include <string.h>
#include <sys/stat.h>

#include "base/failure.h"
#include "base/text/json.h"
#include "cli/say.h"

const char *cli_task_key_name(const char *given, bool is_directory)
{
    return given ? given : is_directory ? "file" : "input";
}

int cli_task_key_open(struct cli_task_key *k, const char *name, bool jsonl)
{
    if (*name == '.') {
        k->member = name + 1;
        if (!*k->member)
            return gd__fail("--key . needs a member name after the dot, as in --key .id");
        if (!jsonl)
            return gd__fail("--key %s names a member of JSON records: give --jsonl too", name);
        return 0;
    }
    k->files = strcmp(name, "file") == 0;
    if (k->files || strcmp(name, "path") == 0 || strcmp(name, "input") == 0)
        return 0;
    return gd__fail("--key takes input, file, path or .NAME, not \"%s\"", name);
}

void cli_task_key_free(struct cli_task_key *k)
{
    gd__buffer_free(&k->key);
    gd__buffer_free(&k->version);
}

bool cli_task_key_is_payload(const struct cli_task_key *k)
{
    return !k->files && !k->member;
}

/* The version of one file: "size:nanoseconds". */
static void add_version(struct cli_task_key *k, const char *path, size_t size)
{
    struct stat st;
    k->key.size = 0;
    gd__buffer_add(&k->key, path, size);
    gd__buffer_add(&k->key, "", 1);
    gd__buffer_text(&k->version, k->version.size ? "," : "");
    if (k->key.failed || stat(k->key.data, &st) < 0)
        gd__buffer_text(&k->version, "-");
    else
        gd__buffer_format(&k->version, "%lld:%lld%09ld", (long long)st.st_size, (long long)st.st_mtim.tv_sec,
                          st.st_mtim.tv_nsec);
}

/* Each argument may be a file. */
static int find_version(struct cli_task_key *k, const void *data, size_t size)
{
    const char *at = data;
    k->version.size = 0;
    for (const char *nul; (nul = size ? memchr(at, 0, size) : NULL); at = nul + 1) {
        add_version(k, at, (size_t)(nul - at));
        size -= (size_t)(nul - at) + 1;
    }
    add_version(k, at, size);
    gd__buffer_add(&k->version, "", 1);
    return k->version.failed || k->key.failed ? gd__fail("out of memory") : 0;
}

/* Puts the key of a record into k->key. Returns 1, 0 if the record has no such member, or -1. */
static int find_member(struct cli_task_key *k, const void *data, size_t size)
{
    struct gd__json value;
    if (!size || !gd__json_member(data, size, k->member, &value)) {
        if (!k->warned)
            cli_say("--key .%s: a record has no such member, so its whole text identifies it", k->member);
        k->warned = true;
        return 0;
    }
    /* No JSON record begins with this prefix, so the key cannot be equal to a payload. */
    k->key.size = 0;
    gd__buffer_format(&k->key, ".");
    gd__buffer_text(&k->key, k->member);
    gd__buffer_text(&k->key, "=");
    gd__buffer_add(&k->key, value.at, value.size);
    return k->key.failed ? gd__fail("out of memory") : 1;
}

int cli_task_key_bytes(struct cli_task_key *k, const void *data, size_t size, const void **key, size_t *key_size)
{
    const int found = k->member ? find_member(k, data, size) : 0;
    *key = found > 0 ? k->key.data : data;
    *key_size = found > 0 ? k->key.size : size;
    return found < 0 ? -1 : 0;
}

int cli_task_key_find(struct cli_task_key *k, const void *data, size_t size, const void **key, size_t *key_size,
                      const char **version)
{
    *version = NULL;
    if (!k->files)
        return cli_task_key_bytes(k, data, size, key, key_size);
    *key = data;
    *key_size = size;
    if (find_version(k, data, size) < 0)
        return -1;
    *version = k->version.data;
    return 0;
}
