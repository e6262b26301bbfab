/* SPDX-License-Identifier: MIT
 *
 * Checks that a file is a complete model in whisper.cpp's format, before whisper.cpp loads it. whisper.cpp accepts some
 * broken files, and ends the process for others.
 *
 *     i32 magic, eleven i32 sizes; mel filters: i32 bands, i32 bins, f32 each; i32 tokens, {u32 length, bytes} each;
 *     then up to the end, for each tensor: i32 dimensions, i32 length of its name, i32 type, i32 sizes, name, data
 *
 * All numbers are little-endian. The number of tensors follows from the numbers of layers. Only the descriptions are
 * read, not the weights: a few MiB of a file of gigabytes. Every size in the file is compared with the file's length
 * before it is used. No memory is allocated in an amount that the file gives.
 */
#include "apps/transcribe/model/model.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/transcribe/model/foreign.h"
#include "apps/transcribe/output/shown.h"
#include "base/failure.h"

/* --- reading ------------------------------------------------------------------------ */

struct reader {
    const char *path; /* as error messages show it */
    int fd;
    uint64_t size, at;
    uint64_t from; /* offset in the file of the buffer's first byte */
    size_t filled;
    unsigned char buffer[4096];
};

static int cut_off(const struct reader *r)
{
    return gd__fail("%s: is truncated: its data needs more than its %" PRIu64 " bytes: delete it and download it again",
                    r->path, r->size);
}

static int broken(const struct reader *r, const char *what, int64_t value)
{
    return gd__fail("%s: is not a model that whisper.cpp can use: %s %" PRId64, r->path, what, value);
}

/* Fills the buffer from the reader's position. */
static int fill(struct reader *r)
{
    ssize_t n;
    do
        n = pread(r->fd, r->buffer, sizeof r->buffer, (off_t)r->at);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return gd__fail("%s: cannot be read: %s", r->path, strerror(errno));
    r->from = r->at;
    r->filled = (size_t)n;
    return n == 0 ? cut_off(r) : 0; /* the file has become shorter */
}

static int skip(struct reader *r, uint64_t n)
{
    if (n > r->size - r->at)
        return cut_off(r);
    r->at += n;
    return 0;
}

static int take(struct reader *r, void *out, size_t n)
{
    unsigned char *to = out;
    if (n > r->size - r->at)
        return cut_off(r);
    while (n > 0) {
        if ((r->at < r->from || r->at >= r->from + r->filled) && fill(r) < 0)
            return -1;
        const size_t start = (size_t)(r->at - r->from), left = r->filled - start, part = n < left ? n : left;
        memcpy(to, r->buffer + start, part);
        to += part;
        n -= part;
        r->at += part;
    }
    return 0;
}

static int take_i32(struct reader *r, int32_t *out)
{
    uint32_t raw = 0;
    if (take(r, &raw, sizeof raw) < 0)
        return -1;
    *out = (int32_t)le32toh(raw);
    return 0;
}

/* --- sizes ---------------------------------------------------------------------------- */

enum size {
    VOCAB,
    AUDIO_CTX,
    AUDIO_STATE,
    AUDIO_HEAD,
    AUDIO_LAYER,
    TEXT_CTX,
    TEXT_STATE,
    TEXT_HEAD,
    TEXT_LAYER,
    MELS,
    TYPE,
    SIZES
};

/* The possible values. The vocabulary has one of three sizes. With another size, whisper.cpp confuses some tokens and
 * ends the process. */
static const struct limit {
    const char *what;
    int32_t least, most;
} limits[SIZES] = {
    [VOCAB] = { "its number of tokens (51864 to 51866) is", 51864, 51866 },
    [AUDIO_CTX] = { "its length of audio is", 1, 1 << 14 },
    [AUDIO_STATE] = { "its encoder's width is", 1, 1 << 14 },
    [AUDIO_HEAD] = { "its encoder's number of heads is", 1, 1 << 10 },
    [AUDIO_LAYER] = { "its encoder's number of layers is", 1, 128 },
    [TEXT_CTX] = { "its length of text is", 8, 1 << 14 },
    [TEXT_STATE] = { "its decoder's width is", 1, 1 << 14 },
    [TEXT_HEAD] = { "its decoder's number of heads is", 1, 1 << 10 },
    [TEXT_LAYER] = { "its decoder's number of layers is", 1, 128 },
    [MELS] = { "its number of mel bands is", 1, 512 },
    [TYPE] = { "its type of weights is", 0, 999999 },
};

enum { BINS = 201, FIRST_MULTILINGUAL = 51865, TYPE_VERSIONS = 1000 };

static int read_sizes(struct reader *r, int32_t sizes[SIZES])
{
    for (int i = 0; i < SIZES; i++) {
        if (take_i32(r, &sizes[i]) < 0)
            return -1;
        if (sizes[i] < limits[i].least || sizes[i] > limits[i].most)
            return broken(r, limits[i].what, sizes[i]);
    }
    if (sizes[AUDIO_STATE] != sizes[TEXT_STATE])
        return broken(r, "its encoder and decoder differ in width: the decoder's is", sizes[TEXT_STATE]);
    if (sizes[AUDIO_STATE] % sizes[AUDIO_HEAD] || sizes[TEXT_STATE] % sizes[TEXT_HEAD])
        return broken(r, "its heads do not divide its width, which is", sizes[AUDIO_STATE]);
    if (sizes[TYPE] % TYPE_VERSIONS == 0)
        return gd__fail("%s: its weights are 32-bit numbers, which whisper.cpp cannot use: convert the model to f16",
                        r->path);
    return 0;
}

static int read_filters(struct reader *r, int32_t mels)
{
    int32_t bands, bins;
    if (take_i32(r, &bands) < 0 || take_i32(r, &bins) < 0)
        return -1;
    if (bands != mels)
        return broken(r, "its mel filters are for another number of bands:", bands);
    if (bins != BINS)
        return broken(r, "its mel filters (of 201 frequencies) have", bins);
    return skip(r, (uint64_t)bands * BINS * sizeof(float));
}

/* --- tokens --------------------------------------------------------------------------- */

enum { LONGEST_TOKEN = 4096 };

static int read_tokens(struct reader *r, int32_t most)
{
    int32_t n, size;
    bool blank = false;
    if (take_i32(r, &n) < 0)
        return -1;
    if (n < 1 || n > most)
        return broken(r, "its list of tokens has the length", n);
    for (int32_t i = 0; i < n; i++) {
        char first = 0;
        if (take_i32(r, &size) < 0)
            return -1;
        if (size < 0 || size > LONGEST_TOKEN)
            return broken(r, "a token has the length", size);
        if (size > 0 && (take(r, &first, 1) < 0 || skip(r, (uint64_t)size - 1) < 0))
            return -1;
        blank = blank || (size == 1 && first == ' ');
    }
    /* whisper.cpp looks up the space without checking that it exists. */
    if (!blank)
        return gd__fail("%s: is not a model that whisper.cpp can use: a space is not among its tokens", r->path);
    return 0;
}

/* --- tensors -------------------------------------------------------------------------- */

/* How ggml stores a type: the number of values in a block, and the block's bytes. */
static const struct type {
    unsigned values, bytes;
} types[] = {
    [0] = { 1, 4 },      /* f32 */
    [1] = { 1, 2 },      /* f16 */
    [2] = { 32, 18 },    /* q4_0 */
    [3] = { 32, 20 },    /* q4_1 */
    [6] = { 32, 22 },    /* q5_0 */
    [7] = { 32, 24 },    /* q5_1 */
    [8] = { 32, 34 },    /* q8_0 */
    [10] = { 256, 84 },  /* q2_K */
    [11] = { 256, 110 }, /* q3_K */
    [12] = { 256, 144 }, /* q4_K */
    [13] = { 256, 176 }, /* q5_K */
    [14] = { 256, 210 }, /* q6_K */
};

enum { TYPES = sizeof types / sizeof *types, F16 = 1, DIMENSIONS = 3, NAME = 128 };

/* Reads a tensor's dimensions, which come next, and computes the bytes of its data. */
static int read_data_size(struct reader *r, int32_t dimensions, int32_t type, uint64_t *bytes)
{
    uint64_t values = 1;
    int32_t size, row = 1;
    for (int32_t i = 0; i < dimensions; i++) {
        if (take_i32(r, &size) < 0)
            return -1;
        /* whisper.cpp counts values in 31 bits. Both factors fit into 31 bits, so their product fits into 64. */
        if (size < 1 || (values *= (uint64_t)size) > INT32_MAX)
            return broken(r, "a tensor has the size", size);
        row = i == 0 ? size : row;
    }
    if ((unsigned)row % types[type].values)
        return broken(r, "a tensor's rows do not divide into blocks: their length is", row);
    *bytes = values / types[type].values * types[type].bytes;
    return 0;
}

static bool is_convolution(const char *name)
{
    return strcmp(name, "encoder.conv1.weight") == 0 || strcmp(name, "encoder.conv2.weight") == 0;
}

static int read_tensor(struct reader *r)
{
    int32_t dimensions, length, type;
    uint64_t bytes = 0;
    char name[NAME + 1] = { 0 };
    if (take_i32(r, &dimensions) < 0 || take_i32(r, &length) < 0 || take_i32(r, &type) < 0)
        return -1;
    if (dimensions < 1 || dimensions > DIMENSIONS)
        return broken(r, "a tensor's number of dimensions is", dimensions);
    if (length < 1 || length > NAME)
        return broken(r, "a tensor's name has the length", length);
    if (type < 0 || type >= TYPES || types[type].bytes == 0)
        return broken(r, "a tensor has an unknown type:", type);
    if (read_data_size(r, dimensions, type, &bytes) < 0 || take(r, name, (size_t)length) < 0)
        return -1;
    if (is_convolution(name) && type != F16)
        return gd__fail(
            "%s: its convolution weights are not 16-bit, but whisper.cpp needs 16-bit: convert the model to f16",
            r->path);
    return skip(r, bytes);
}

static int read_tensors(struct reader *r, const int32_t sizes[SIZES])
{
    const int wanted = 11 + 15 * sizes[AUDIO_LAYER] + 24 * sizes[TEXT_LAYER];
    for (int i = 0; i < wanted; i++) {
        if (r->at == r->size)
            return gd__fail("%s: is truncated: it ends after %d of %d tensors: delete it and download it again",
                            r->path, i, wanted);
        if (read_tensor(r) < 0)
            return -1;
    }
    if (r->at != r->size)
        return gd__fail("%s: is not a model that whisper.cpp can use: there is more data after its %d tensors", r->path,
                        wanted);
    return 0;
}

/* --- the whole file ------------------------------------------------------------------- */

static int read_magic(struct reader *r)
{
    static const unsigned char magic[4] = { 'l', 'm', 'g', 'g' };
    unsigned char begin[TR_FOREIGN_BYTES] = { 0 };
    const size_t size = r->size < sizeof begin ? (size_t)r->size : sizeof begin;
    if (size == 0)
        return gd__fail("%s: is empty: delete it and download it again", r->path);
    if (take(r, begin, size) < 0)
        return -1;
    if (size < sizeof magic || memcmp(begin, magic, sizeof magic) != 0)
        return tr_foreign_file(r->path, begin, size);
    r->at = sizeof magic;
    return 0;
}

static int read_model(struct reader *r, int32_t sizes[SIZES])
{
    if (read_magic(r) < 0 || read_sizes(r, sizes) < 0 || read_filters(r, sizes[MELS]) < 0 ||
        read_tokens(r, sizes[VOCAB]) < 0)
        return -1;
    return read_tensors(r, sizes);
}

void tr_model_name(char name[TR_MODEL_NAME], const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    if (strncmp(base, "ggml-", 5) == 0 && base[5])
        base += 5;
    size_t size = strlen(base);
    if (size > 4 && strcmp(base + size - 4, ".bin") == 0)
        size -= 4;
    snprintf(name, TR_MODEL_NAME, "%.*s", (int)(size < TR_MODEL_NAME ? size : TR_MODEL_NAME - 1), base);
}

static int open_model(struct reader *r, const char *path)
{
    struct stat st;
    r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: a pipe without a writer must not block us */
    if (r->fd < 0 || fstat(r->fd, &st) < 0)
        return gd__fail("%s: the model cannot be opened: %s", r->path, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return tr_foreign_directory(r->path, r->fd);
    if (!S_ISREG(st.st_mode))
        return gd__fail("%s: is not a regular file: give the file of a model", r->path);
    r->size = (uint64_t)st.st_size;
    return 0;
}

int tr_model_check(struct tr_model *out, const char *path)
{
    char room[TR_SHOWN];
    int32_t sizes[SIZES] = { 0 };
    struct reader *r = calloc(1, sizeof *r);
    *out = (struct tr_model){ 0 };
    if (!r)
        return gd__fail("no memory for the model");
    r->path = tr_shown(room, path);
    r->fd = -1;
    int result = open_model(r, path);
    if (result == 0)
        result = read_model(r, sizes);
    if (result == 0 && !(out->path = strdup(path)))
        result = gd__fail("no memory for the model");
    if (result == 0) {
        tr_model_name(out->name, path);
        out->bytes = r->size;
        out->multilingual = sizes[VOCAB] >= FIRST_MULTILINGUAL;
        out->layers = sizes[AUDIO_LAYER];
        out->mels = sizes[MELS];
    }
    if (r->fd >= 0)
        close(r->fd);
    free(r);
    return result;
}

void tr_model_free(struct tr_model *m)
{
    free(m->path);
    *m = (struct tr_model){ 0 };
}
