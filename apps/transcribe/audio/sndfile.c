/* SPDX-License-Identifier: MIT
 *
 * Decodes with libsndfile: WAV, FLAC, Ogg (Vorbis, Opus), MP3 and two dozen more.
 *
 * libsndfile reads through our functions. So a failed read is recognised as such, and two problems can be worked
 * around. A WAV file whose data has the length 0 looks empty to libsndfile. Some programs leave such files when they
 * are killed or write into a pipe. We show libsndfile the largest length instead. An MP3 file without a table of its
 * frames gets its length from the bit rate of its first frame, and libsndfile never reads past that length. We show
 * libsndfile a longer file.
 */
#include <errno.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/transcribe/audio/decoder.h"

enum {
    MP3_STRETCH = 64, /* more than the ratio of the highest bit rate to the lowest (320 / 8) */
    MPEG = 0x230000   /* a format since libsndfile 1.1; older headers do not have its name */
};

struct state {
    SNDFILE *sound;
    struct tr_file *file;
    uint64_t shown_size;
};

/* --- the virtual file ------------------------------------------------------- */

static sf_count_t vio_length(void *user)
{
    const struct state *s = user;
    return (sf_count_t)s->shown_size;
}

static sf_count_t vio_seek(sf_count_t offset, int whence, void *user)
{
    const struct state *s = user;
    if (whence == SEEK_END)
        return tr_file_seek(s->file, (sf_count_t)s->shown_size + offset, SEEK_SET);
    return tr_file_seek(s->file, offset, whence);
}

static sf_count_t vio_read(void *to, sf_count_t size, void *user)
{
    const struct state *s = user;
    /* libsndfile looks for a tag in the last bytes of a file. If the file is shown longer than it is, those bytes read
     * as 0, so no tag is found. */
    if (s->file->at >= s->file->size && s->file->at + (uint64_t)size == s->shown_size) {
        memset(to, 0, (size_t)size);
        s->file->at += (uint64_t)size;
        return size;
    }
    const ssize_t n = size > 0 ? tr_file_read(s->file, to, (size_t)size) : 0;
    return n > 0 ? n : 0;
}

static sf_count_t vio_write(const void *from, sf_count_t size, void *user)
{
    (void)from;
    (void)size;
    (void)user;
    return 0;
}

static sf_count_t vio_tell(void *user)
{
    const struct state *s = user;
    return (sf_count_t)s->file->at;
}

/* --- the decoder ------------------------------------------------------------ */

/* Replaces the length of the data if it is 0 although data follows. */
static void mend_length(struct tr_file *f, const struct tr_header *h)
{
    uint8_t size[4];
    if (!h->format || strcmp(h->format, "WAV") != 0 || h->data_at < 4 || h->data_at >= f->size)
        return;
    f->at = h->data_at - sizeof size;
    if (tr_file_read(f, size, sizeof size) == sizeof size && memcmp(size, "\0\0\0", sizeof size) == 0) {
        f->mend_at = h->data_at - sizeof size;
        memset(f->mend, 0xff, sizeof f->mend);
    }
    f->at = 0;
}

static bool is_mp3(const struct tr_header *h)
{
    return h->format && strcmp(h->format, "MP3") == 0;
}

/* Whether libsndfile would read the file as MP3 although the file has no MP3 frame. libsndfile would then print
 * messages on standard error. */
static bool is_false_mp3(struct tr_file *f, const struct tr_header *h)
{
    uint8_t b[3] = { 0 };
    f->at = 0;
    const bool read = !h->format && tr_file_read(f, b, sizeof b) == sizeof b;
    f->at = 0;
    return read && (memcmp(b, "ID3", sizeof b) == 0 || (b[0] == 0xff && (b[1] & 0xe0) == 0xe0));
}

static void describe(SNDFILE *sound, const SF_INFO *info, const struct tr_header *h, struct tr_sound *out)
{
    const int kind = info->format & SF_FORMAT_TYPEMASK;
    /* In Ogg the length comes from the last page, in MP3 it may be an estimate. Neither is good enough to call a file
     * truncated. */
    const bool sure = kind != SF_FORMAT_OGG && !is_mp3(h) && info->frames > 0 && info->frames < SF_COUNT_MAX;
    SF_FORMAT_INFO about = { .format = kind };
    *out = (struct tr_sound){ .rate = info->samplerate,
                              .channels = info->channels,
                              .lanes = (unsigned)info->channels,
                              .frames = sure ? (uint64_t)info->frames : 0 };
    if (h->format)
        out->seconds = is_mp3(h) && !h->bytes_wanted ? 0 : h->seconds; /* 0: the header's value is a guess */
    else if (info->frames > 0 && info->frames < SF_COUNT_MAX && info->samplerate > 0)
        out->seconds = (double)info->frames / info->samplerate;
    if (h->format)
        snprintf(out->format, sizeof out->format, "%s", h->format);
    else if (sf_command(sound, SFC_GET_FORMAT_INFO, &about, sizeof about) == 0 && about.name)
        snprintf(out->format, sizeof out->format, "%.*s", (int)strcspn(about.name, " "), about.name);
}

static void *sndfile_open(struct tr_file *f, const struct tr_header *h, struct tr_sound *out, char why[TR_WHY])
{
    static SF_VIRTUAL_IO io = { vio_length, vio_seek, vio_read, vio_write, vio_tell };
    SF_INFO info = { 0 };
    if (is_false_mp3(f, h)) {
        snprintf(why, TR_WHY, "It contains no MP3 frame.");
        return NULL;
    }
    struct state *s = calloc(1, sizeof *s);
    if (!s) {
        f->error = ENOMEM;
        return NULL;
    }
    mend_length(f, h);
    s->file = f;
    /* If the file has a table, the length is known, and the file ends with silence that must not be played. */
    s->shown_size =
        is_mp3(h) && !h->bytes_wanted && f->size < INT64_MAX / MP3_STRETCH ? f->size * MP3_STRETCH : f->size;
    s->sound = sf_open_virtual(&io, SFM_READ, &info, s);
    if (!s->sound) {
        snprintf(why, TR_WHY, "%s", sf_strerror(NULL));
        free(s);
        return NULL;
    }
    describe(s->sound, &info, h, out);
    return s;
}

static long sndfile_read(void *state, float *to, size_t frames, char why[TR_WHY])
{
    const struct state *s = state;
    const sf_count_t n = sf_readf_float(s->sound, to, (sf_count_t)frames);
    if (n == 0 && sf_error(s->sound) != SF_ERR_NO_ERROR) {
        snprintf(why, TR_WHY, "%s", sf_strerror(s->sound));
        return -1;
    }
    return n > 0 ? (long)n : 0;
}

static void sndfile_close(void *state)
{
    struct state *s = state;
    sf_close(s->sound);
    free(s);
}

/* Whether the word is in a list that is separated by ", ". */
static bool is_listed(const struct gd__buffer *b, const char *word)
{
    const size_t size = strlen(word);
    for (size_t i = 0; i + size <= b->size; i++) {
        if (memcmp(b->data + i, word, size) == 0 && (i == 0 || b->data[i - 1] == ' ') &&
            (i + size == b->size || b->data[i + size] == ','))
            return true;
    }
    return false;
}

static void add_format(struct gd__buffer *b, const char *extension)
{
    if (!is_listed(b, extension))
        gd__buffer_format(b, "%s%s", b->size > 0 ? ", " : "", extension);
}

static bool has_format(int format)
{
    return sf_format_check(&(SF_INFO){ .samplerate = 48000, .channels = 1, .format = format });
}

/* The formats that users have most come first. Files without a header (raw) are not accepted. */
static void sndfile_about(struct gd__buffer *version, struct gd__buffer *formats)
{
    const char *name = sf_version_string(); /* "libsndfile-1.2.0" */
    int count = 0;
    gd__buffer_text(version, name + strcspn(name, "0123456789"));
    if (has_format(SF_FORMAT_WAV | SF_FORMAT_PCM_16))
        add_format(formats, "wav");
    if (has_format(SF_FORMAT_FLAC | SF_FORMAT_PCM_16))
        add_format(formats, "flac");
    if (has_format(SF_FORMAT_OGG | SF_FORMAT_VORBIS))
        add_format(formats, "ogg");
    if (has_format(SF_FORMAT_OGG | SF_FORMAT_OPUS))
        add_format(formats, "opus");
    sf_command(NULL, SFC_GET_FORMAT_MAJOR_COUNT, &count, sizeof count);
    for (int i = 0; i < count; i++) {
        SF_FORMAT_INFO info = { .format = i };
        if (sf_command(NULL, SFC_GET_FORMAT_MAJOR, &info, sizeof info) == 0 && info.extension &&
            info.format != SF_FORMAT_RAW && (info.format != SF_FORMAT_OGG || is_listed(formats, "ogg")))
            add_format(formats, info.format == MPEG ? "mp3" : info.extension);
    }
}

const struct tr_decoder tr_sndfile = {
    "libsndfile", NULL, sndfile_open, sndfile_read, sndfile_close, sndfile_about,
};
