/* SPDX-License-Identifier: MIT
 *
 * --results DIR: the output of each task in files, with GNU parallel's layout:
 *
 *     DIR/1/<first argument>/2/<second argument>/{stdout,stderr,seq}
 *
 * In a name "/" becomes "\_", "\" becomes "\\", a TAB "\t" and a NUL "\0". An empty argument adds no directory below
 * its number. A name may have at most 255 bytes. A longer name is cut, and its end is replaced by "~" and a hash of the
 * whole name (32 hexadecimal digits). GNU parallel only cuts the name, so two tasks can get the same directory. Two
 * tasks with the same arguments share a directory, and the files of the later task remain.
 *
 * Each file is written as NAME.part first and then renamed, so a file that exists is complete. A .part that a killed
 * run left is overwritten when the task runs again.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/file/replace.h"
#include "base/file/write.h"
#include "base/text/buffer.h"
#include "cli/output/streams.h"

enum {
    LONGEST_NAME = 255, /* bytes of a file name */
    HASH_DIGITS = 32,
    KEPT = LONGEST_NAME - 1 - HASH_DIGITS, /* bytes kept from a longer name */
    LONGEST_CHARACTER = 4,
};

struct cli_results {
    size_t dir_size;        /* size of the first part of path: the directory that was given */
    struct gd__buffer path; /* the task's directory */
    bool sync;
};

/* Makes a directory and those above it. Returns 0, or -1 with errno. */
static int make_directories(char *path)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return 0;
    if (errno != ENOENT)
        return -1;
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        int made = mkdir(path, 0777);
        *at = '/';
        if (made < 0 && errno != EEXIST)
            return -1;
    }
    return mkdir(path, 0777) == 0 || errno == EEXIST ? 0 : -1;
}

int cli_results_open(struct cli_results **out, const char *dir)
{
    struct stat st;
    struct cli_results *r = calloc(1, sizeof *r);
    if (!r)
        return gd__fail("out of memory");
    gd__buffer_add(&r->path, dir, strlen(dir) + 1);
    r->dir_size = strlen(dir);
    if (r->path.failed)
        (void)gd__fail("out of memory");
    else if (make_directories(r->path.data) < 0)
        (void)gd__fail("cannot create the directory %s: %s", dir, strerror(errno));
    else if (stat(dir, &st) < 0 || !S_ISDIR(st.st_mode))
        (void)gd__fail("%s is not a directory: give --results a directory, or a name that does not exist yet", dir);
    else {
        *out = r;
        return 0;
    }
    cli_results_close(&r);
    return -1;
}

void cli_results_sync(struct cli_results *r, bool sync)
{
    r->sync = sync;
}

const char *cli_results_path(const struct cli_results *r)
{
    return r->path.data;
}

static void add_quoted(struct gd__buffer *b, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        const char *special = text[i] == '/'    ? "\\_"
                              : text[i] == '\\' ? "\\\\"
                              : text[i] == '\t' ? "\\t"
                              : text[i] == 0    ? "\\0"
                                                : NULL;
        gd__buffer_add(b, special ? special : &text[i], special ? 2 : 1);
    }
}

/* FNV-1a with 128 bits. It must never change, because a resumed run uses the directories of earlier runs. Its prime is
 * 2^88 + 315. */
static void hash_name(const char *name, size_t size, char out[HASH_DIGITS + 1])
{
    uint64_t high = UINT64_C(0x6c62272e07bb0142), low = UINT64_C(0x62b821756295c58d);
    for (size_t i = 0; i < size; i++) {
        low ^= (unsigned char)name[i];
        const uint64_t first = (low & UINT32_MAX) * 315, second = (low >> 32) * 315 + (first >> 32);
        high = high * 315 + (second >> 32) + (low << 24);
        low = second << 32 | (first & UINT32_MAX);
    }
    snprintf(out, HASH_DIGITS + 1, "%016" PRIx64 "%016" PRIx64, high, low);
}

/* Whether this name looks like a longer name that was cut and hashed. */
static bool looks_cut(const char *name, size_t size)
{
    if (size < KEPT - LONGEST_CHARACTER + HASH_DIGITS + 1 || name[size - HASH_DIGITS - 1] != '~')
        return false;
    for (size_t i = size - HASH_DIGITS; i < size; i++) {
        if (!strchr("0123456789abcdef", name[i]))
            return false;
    }
    return true;
}

/* The number of bytes to keep, so that no character is cut. */
static size_t kept_size(const char *name)
{
    size_t size = KEPT;
    while (size > KEPT - LONGEST_CHARACTER && ((unsigned char)name[size] & 0xc0) == 0x80)
        size--;
    return size;
}

static void add_name(struct gd__buffer *b, const char *text, size_t size)
{
    const size_t start = b->size;
    char hash[HASH_DIGITS + 1];
    add_quoted(b, text, size);
    if (b->failed || (b->size - start <= LONGEST_NAME && !looks_cut(b->data + start, b->size - start)))
        return;
    hash_name(b->data + start, b->size - start, hash);
    b->size = start + kept_size(b->data + start);
    gd__buffer_text(b, "~");
    gd__buffer_text(b, hash);
}

/* Sets path to the task's directory, with a NUL after it. */
static int find_directory(struct cli_results *r, const struct gd_report *report)
{
    const char *at = report->input;
    size_t left = report->input_size;
    r->path.size = r->dir_size;
    for (unsigned i = 1;; i++) {
        const char *nul = left ? memchr(at, 0, left) : NULL;
        size_t size = nul ? (size_t)(nul - at) : left;
        gd__buffer_format(&r->path, "/%u/", i);
        add_name(&r->path, at, size);
        if (!nul)
            break;
        at = nul + 1;
        left -= size + 1;
    }
    /* An empty argument leaves a slash at the end. */
    while (!r->path.failed && r->path.size > 1 && r->path.data[r->path.size - 1] == '/')
        r->path.size--;
    gd__buffer_add(&r->path, "", 1);
    return r->path.failed ? gd__fail("out of memory") : 0;
}

/* Names are relative to the directory, so only the path of the directory itself can be too long. */
static int write_file(const struct cli_results *r, int directory, const char *name, const void *data, size_t size)
{
    char temporary[64];
    snprintf(temporary, sizeof temporary, "%s.part", name);
    int fd = gd__open_temporary(directory, temporary, 0666);
    if (fd < 0)
        return -1;
    int result = gd__write_all(fd, data, size);
    if (result == 0 && r->sync)
        result = fsync(fd);
    if (close(fd) < 0)
        result = -1;
    if (result == 0)
        result = renameat(directory, temporary, directory, name);
    if (result < 0) {
        int saved = errno;
        unlinkat(directory, temporary, 0);
        errno = saved;
    }
    return result;
}

static int write_files(const struct cli_results *r, int directory, const struct cli_task_end *e)
{
    char seq[32];
    const char *err = e->err;
    size_t err_size = e->err_size;
    int length = snprintf(seq, sizeof seq, "%llu", (unsigned long long)e->report->task_id + 1);
    if (e->kind != CLI_RESULT_COMMAND && !e->ok && e->report->error) {
        err = e->report->error;
        err_size = strlen(err);
    }
    if (write_file(r, directory, "stdout", e->out, e->out_size) < 0 ||
        write_file(r, directory, "stderr", err, err_size) < 0 ||
        write_file(r, directory, "seq", seq, (size_t)length) < 0)
        return -1;
    return r->sync ? fsync(directory) : 0;
}

/* Syncs the directories that were made above the task's own. */
static int sync_directories(struct cli_results *r)
{
    int result = gd__sync_directory_of(r->path.data);
    for (size_t at = r->path.size - 1; result == 0 && at >= r->dir_size && at > 0; at--) {
        if (r->path.data[at] != '/')
            continue;
        r->path.data[at] = '\0';
        result = gd__sync_directory_of(r->path.data);
        r->path.data[at] = '/';
    }
    return result;
}

int cli_results_add(struct cli_results *r, const struct cli_task_end *e)
{
    if (e->report->start_ns == 0 || e->report->failure == GD_FAILURE_CANCELLED)
        return 0;
    if (find_directory(r, e->report) < 0)
        return -1;
    int result = make_directories(r->path.data), directory = -1;
    if (result == 0)
        result = directory = open(r->path.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (result >= 0)
        result = write_files(r, directory, e);
    if (result >= 0 && r->sync)
        result = sync_directories(r);
    int saved = errno;
    if (directory >= 0)
        close(directory);
    return result < 0 ? gd__fail("cannot write the results in %s: %s", r->path.data, strerror(saved)) : 0;
}

void cli_results_close(struct cli_results **r)
{
    if (!*r)
        return;
    gd__buffer_free(&(*r)->path);
    free(*r);
    *r = NULL;
}
