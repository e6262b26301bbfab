/* Writes, publishes and reads the file of a deal: see deal_file.h for the format.
 *
 * The file is not trusted: it may be cut, damaged, of another version, or something else altogether. The parser checks
 * the version first, then the checksum, and then each line. It allocates nothing before it knows that the file has room
 * for the entries that it claims to have.
 */
#include "shard/deal_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/file/replace.h"
#include "base/file/write.h"
#include "base/hash/key.h"
#include "base/text/json.h"
#include "base/text/json_write.h"
#include "shard/spec.h"

#define TITLE    "gpu_dispatch deal "
#define VERSION  "1"
#define CHECKSUM "checksum "

enum {
    TRIES = 16,
    SHORTEST_ENTRY = sizeof "1 \"\"\n" - 1,
    HEX_SIZE = 2 * GD__HASH_SIZE,
    CHECKSUM_LINE = sizeof CHECKSUM - 1 + HEX_SIZE + 1,
    FILE_MOST = INT32_MAX, /* bytes */
};

/* --- writing --- */

static void put_checksum(char out[HEX_SIZE + 1], const void *text, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char hash[GD__HASH_SIZE];
    gd__key_hash(text, size, hash);
    for (size_t i = 0; i < GD__HASH_SIZE; i++) {
        out[2 * i] = digits[hash[i] >> 4];
        out[2 * i + 1] = digits[hash[i] & 15];
    }
    out[HEX_SIZE] = '\0';
}

int gd__deal_write(struct gd__buffer *to, const struct gd__deal_item *items, size_t n, uint32_t count)
{
    char checksum[HEX_SIZE + 1];
    const size_t begin = to->size;
    gd__buffer_format(to, TITLE VERSION "\nshards %" PRIu32 "\nentries %zu\n", count, n);
    for (size_t i = 0; i < n; i++) {
        gd__buffer_format(to, "%" PRIu32 " ", items[i].shard + 1);
        gd__json_put_string(to, items[i].key, items[i].key_size);
        gd__buffer_text(to, "\n");
    }
    if (!to->failed) {
        put_checksum(checksum, to->data + begin, to->size - begin);
        gd__buffer_format(to, CHECKSUM "%s\n", checksum);
    }
    return to->failed ? gd__error(GD_E_NO_MEMORY, "no memory for a deal of %zu tasks", n) : 0;
}

/* --- parsing --- */

struct reader {
    const char *name;     /* of the file */
    const char *at, *end; /* the lines that are left, without the checksum */
    size_t line;          /* the number of the current line */
};

/* A line, without its newline. */
struct line {
    const char *at;
    size_t size;
};

static int damaged(const char *name, const char *what)
{
    return gd__error(GD_E_CORRUPT,
                     "%s %s. To make a new deal, stop all shards, remove the file, and start the shards again", name,
                     what);
}

static int wrong_line(const struct reader *r, const char *what)
{
    return gd__error(GD_E_CORRUPT,
                     "%s, line %zu: %s. To make a new deal, stop all shards, remove the file, and start the shards "
                     "again",
                     r->name, r->line, what);
}

static bool next_line(struct reader *r, struct line *out)
{
    const size_t left = (size_t)(r->end - r->at);
    const char *newline = left > 0 ? memchr(r->at, '\n', left) : NULL;
    r->line++;
    if (!newline)
        return false;
    *out = (struct line){ r->at, (size_t)(newline - r->at) };
    r->at = newline + 1;
    return true;
}

/* Reads a number without a sign and without zeros before it, and moves the line past it. */
static bool take_number(struct line *l, uint64_t most, uint64_t *out)
{
    uint64_t n = 0;
    size_t i = 0;
    for (; i < l->size && l->at[i] >= '0' && l->at[i] <= '9'; i++) {
        const uint64_t digit = (uint64_t)(l->at[i] - '0');
        if (digit > most || n > (most - digit) / 10 || (i > 0 && n == 0))
            return false;
        n = n * 10 + digit;
    }
    *out = n;
    l->at += i;
    l->size -= i;
    return i > 0;
}

static bool take_word(struct line *l, const char *word)
{
    const size_t length = strlen(word);
    if (l->size < length || memcmp(l->at, word, length) != 0)
        return false;
    l->at += length;
    l->size -= length;
    return true;
}

/* Reads a line with a word and a number. */
static bool take_field(struct reader *r, const char *word, uint64_t most, uint64_t *out)
{
    struct line l;
    return next_line(r, &l) && take_word(&l, word) && take_number(&l, most, out) && l.size == 0;
}

/* Checks the first line, so that a file of another kind or version is not called damaged. */
static int check_version(struct reader *r)
{
    struct line l;
    uint64_t version = 0;
    if (!next_line(r, &l) || !take_word(&l, TITLE) || !take_number(&l, UINT32_MAX, &version) || l.size > 0)
        return damaged(r->name, "is not the file of a deal");
    if (version == 1)
        return 0;
    return gd__error(GD_E_UNSUPPORTED,
                     "%s has version %" PRIu64 " of the format, and this program knows version " VERSION
                     ": run the same version of the program in all shards",
                     r->name, version);
}

/* Checks the last line, and sets r->end to its beginning. */
static int check_checksum(struct reader *r, const char *text, size_t size)
{
    char checksum[HEX_SIZE + 1];
    struct line l = { size < CHECKSUM_LINE ? text : text + size - CHECKSUM_LINE, size };
    if (size < CHECKSUM_LINE || text[size - 1] != '\n' || !take_word(&l, CHECKSUM))
        return damaged(r->name, "is incomplete: its last line is not a checksum");
    put_checksum(checksum, text, size - CHECKSUM_LINE);
    if (!take_word(&l, checksum))
        return damaged(r->name, "is damaged: its checksum is wrong");
    r->end = text + size - CHECKSUM_LINE;
    return 0;
}

/* The last key, to check the order of the keys. */
struct key {
    char *bytes; /* has room for any key of the file */
    size_t size;
};

/* Reads one entry. Swaps the two keys, so that *last is its key. */
static int read_entry(struct reader *r, struct gd__deal *d, struct key *last, struct key *next)
{
    struct line l;
    struct gd__json string;
    uint64_t shard = 0;
    if (!next_line(r, &l))
        return wrong_line(r, "an entry is missing");
    if (!take_number(&l, gd__deal_shards(d), &shard) || shard == 0 || !take_word(&l, " "))
        return wrong_line(r, "the entry does not begin with the number of a shard and a blank");
    if (l.size == 0 || l.at[0] != '"' || gd__json_scan(l.at, l.size, &string) < 0 || string.size != l.size)
        return wrong_line(r, "the key is not a JSON string");
    next->size = gd__json_decode(&string, next->bytes);
    const struct gd__deal_item before = { .key = last->bytes, .key_size = last->size };
    const struct gd__deal_item after = { .key = next->bytes, .key_size = next->size };
    if (gd__deal_entries(d) > 0 && gd__deal_compare_keys(&before, &after) >= 0)
        return wrong_line(r, "the keys are not in order");
    gd__deal_add(d, next->bytes, next->size, (uint32_t)shard - 1);
    const struct key swapped = *last;
    *last = *next;
    *next = swapped;
    return 0;
}

static int read_entries(struct reader *r, struct gd__deal *d, uint64_t n)
{
    const size_t room = (size_t)(r->end - r->at); /* a decoded key is not longer than the text */
    struct key last = { .bytes = gd__calloc(room, 1) }, next = { .bytes = gd__calloc(room, 1) };
    int rc = last.bytes && next.bytes ? 0 : gd__error(GD_E_NO_MEMORY, "no memory to read %s", r->name);
    for (uint64_t i = 0; rc == 0 && i < n; i++)
        rc = read_entry(r, d, &last, &next);
    gd__free(last.bytes);
    gd__free(next.bytes);
    if (rc == 0 && r->at != r->end) {
        r->line++;
        rc = wrong_line(r, "there are more entries than the file claims to have");
    }
    if (rc == 0 && gd__deal_ready(d) < 0)
        rc = damaged(r->name, "has a key twice");
    return rc;
}

static int read_header(struct reader *r, uint32_t count, uint64_t *entries)
{
    uint64_t shards = 0;
    if (!take_field(r, "shards ", GD__SHARD_MOST, &shards) || shards == 0)
        return wrong_line(r, "this is not a number of shards");
    if (!take_field(r, "entries ", SIZE_MAX, entries))
        return wrong_line(r, "this is not a number of entries");
    if (*entries > (uint64_t)(r->end - r->at) / SHORTEST_ENTRY)
        return wrong_line(r, "the file is too short for so many entries");
    if (shards == count)
        return 0;
    return gd__error(GD_E_MISMATCH,
                     "%s is a deal for %" PRIu64 " shards, and this run has %" PRIu32 ": use another journal, or run "
                     "all shards with the same number of shards",
                     r->name, shards, count);
}

int gd__deal_parse(struct gd__deal **out, const char *text, size_t size, uint32_t count, const char *name)
{
    struct reader r = { .name = name, .at = text, .end = text + size };
    uint64_t entries = 0;
    *out = NULL;
    int rc = check_version(&r);
    if (rc == 0)
        rc = check_checksum(&r, text, size);
    if (rc == 0)
        rc = read_header(&r, count, &entries);
    if (rc < 0)
        return rc;
    *out = gd__deal_new(count, (size_t)entries);
    if (!*out)
        return gd__error(GD_E_NO_MEMORY, "no memory for a deal of %" PRIu64 " tasks", entries);
    rc = read_entries(&r, *out, entries);
    if (rc < 0)
        gd__deal_close(out);
    return rc;
}

/* --- the file --- */

static int too_large(const char *path)
{
    return gd__error(GD_E_TOO_LARGE, "%s is too large for a deal: it must have less than 2 GiB", path);
}

static int read_all(int fd, struct gd__buffer *to, const char *path)
{
    for (;;) {
        enum { PIECE = 1 << 16 };
        char *room = gd__buffer_reserve(to, PIECE);
        if (!room)
            return gd__error(GD_E_NO_MEMORY, "no memory to read %s", path);
        if (to->size > FILE_MOST)
            return too_large(path);
        const ssize_t n = GD__FAULT("read") ? -1 : read(fd, room, PIECE);
        if (n == 0)
            return 0;
        if (n > 0)
            to->size += (size_t)n;
        else if (errno != EINTR)
            return gd__error_errno("cannot read %s", path);
    }
}

static int check_file(int fd, const char *path)
{
    struct stat info;
    if (fstat(fd, &info) < 0)
        return gd__error_errno("cannot read %s", path);
    if (!S_ISREG(info.st_mode))
        return gd__error(GD_E_CORRUPT, "%s is not a file: remove it, or use another journal", path);
    if (info.st_size > FILE_MOST)
        return too_large(path);
    return 0;
}

int gd__deal_open(struct gd__deal **out, const char *path, uint32_t count)
{
    struct gd__buffer text = { 0 };
    *out = NULL;
    /* Does not wait for a writer if someone has put a pipe there. */
    int fd = GD__FAULT("open") ? -1 : gd__fd_above_stdio(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (fd < 0)
        return errno == ENOENT ? 0 : gd__error_errno("cannot open %s", path);
    int rc = check_file(fd, path);
    if (rc == 0)
        rc = read_all(fd, &text, path);
    gd__fd_close(&fd);
    if (rc == 0)
        rc = gd__deal_parse(out, text.data, text.size, count, path);
    gd__buffer_free(&text);
    return rc < 0 ? rc : 1;
}

/* Puts the file in place, unless there is one. A link is used, and not a rename without replacing, because some network
 * file systems ignore that flag. The rename is for file systems without links. Returns 0 even if there is a file. */
static int put_in_place(const char *temporary, const char *path)
{
    int rc = GD__FAULT("link") ? -1 : link(temporary, path);
    if (rc < 0 && (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK))
        rc = renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_NOREPLACE);
    if (rc < 0 && errno != EEXIST)
        return gd__error_errno("cannot put the deal in place as %s", path);
    if (rc == 0 && gd__sync_directory_of(path) < 0)
        return gd__error_errno("cannot flush the directory of %s to disk", path);
    return 0;
}

static int write_file(int fd, const char *path, const struct gd__buffer *text)
{
    if (GD__FAULT("write") || gd__write_all(fd, text->data, text->size) < 0)
        return gd__error_errno("cannot write %s", path);
    if (GD__FAULT("fsync") || fsync(fd) < 0)
        return gd__error_errno("cannot flush %s to disk", path);
    return 0;
}

/* Shards on several machines write to the same directory, so the temporary name is random. */
static char *temporary_name(const char *path)
{
    uint64_t random = 0;
    const size_t room = strlen(path) + sizeof ".0123456789abcdef.part";
    if (GD__FAULT("getrandom") || getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return NULL;
    char *name = gd__calloc(room, 1);
    if (name)
        (void)snprintf(name, room, "%s.%016" PRIx64 ".part", path, random);
    return name;
}

static int make_file(const char *path, const struct gd__buffer *text)
{
    char *temporary = temporary_name(path);
    if (!temporary)
        return gd__error_errno("cannot make a temporary name for %s", path);
    int fd = GD__FAULT("open") ? -1 : gd__fd_above_stdio(gd__open_temporary(AT_FDCWD, temporary, 0666));
    int rc = fd >= 0 ? write_file(fd, temporary, text) : gd__error_errno("cannot create %s", temporary);
    const bool made = fd >= 0;
    gd__fd_close(&fd);
    if (rc == 0)
        rc = put_in_place(temporary, path);
    if (made)
        (void)unlink(temporary); /* if this fails, a file is left that nobody reads */
    gd__free(temporary);
    return rc;
}

int gd__deal_publish(struct gd__deal **out, const char *path, struct gd__deal_item *items, size_t n, uint32_t count)
{
    struct gd__buffer text = { 0 };
    int rc = gd__deal_items(items, &n, count);
    *out = NULL;
    if (rc == 0)
        rc = gd__deal_write(&text, items, n, count);
    if (rc == 0 && text.size > FILE_MOST)
        rc = too_large(path);
    /* The file is read even if we have made it: all shards must use what is on disk. */
    for (int i = 0; rc == 0 && i < TRIES; i++) {
        rc = gd__deal_open(out, path, count);
        if (rc == 0)
            rc = make_file(path, &text);
    }
    gd__buffer_free(&text);
    if (rc == 0)
        return gd__error(GD_E_BUSY, "%s was removed again each time it had been made", path);
    return rc < 0 ? rc : 0;
}
