/* SPDX-License-Identifier: MIT
 *
 * Decodes MP3 with libmpg123, if the build found it. libsndfile can decode MP3 with libmpg123 too. But then libmpg123
 * prints messages about a file on standard error, and libsndfile does not read past a wrong estimate of the length
 * (sndfile.c).
 *
 * libmpg123 mixes the channels itself and keeps the first frame's rate, so a file that was joined from several files is
 * read to its end.
 */
#include <errno.h>
#include <mpg123.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "apps/transcribe/audio/decoder.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void begin(void)
{
    /* The result does not matter. Newer versions do not need this call. In older ones, mpg123_new() fails if this call
     * failed. */
    (void)mpg123_init();
}

static ssize_t file_read(void *file, void *to, size_t size)
{
    return tr_file_read(file, to, size);
}

static off_t file_seek(void *file, off_t offset, int whence)
{
    return tr_file_seek(file, offset, whence);
}

static bool mp3_wants(const struct tr_header *h)
{
    return h->format && strcmp(h->format, "MP3") == 0;
}

static int configure(mpg123_handle *m, const struct tr_header *h)
{
    const long flags =
        MPG123_QUIET | MPG123_FORCE_FLOAT | MPG123_MONO_MIX | MPG123_GAPLESS | MPG123_SKIP_ID3V2 | MPG123_NO_PEEK_END;
    int rc = mpg123_param(m, MPG123_ADD_FLAGS, flags, 0);
    if (rc == MPG123_OK)
        rc = mpg123_param(m, MPG123_FORCE_RATE, (long)h->rate, 0);
    if (rc == MPG123_OK)
        rc = mpg123_param(m, MPG123_RESYNC_LIMIT, -1, 0); /* damage, and tags in the middle, are skipped */
    return rc == MPG123_OK ? mpg123_replace_reader_handle(m, file_read, file_seek, NULL) : rc;
}

static void *mp3_open(struct tr_file *f, const struct tr_header *h, struct tr_sound *out, char why[TR_WHY])
{
    int rc = MPG123_OK, channels, encoding;
    long rate;
    pthread_once(&once, begin);
    mpg123_handle *m = mpg123_new(NULL, &rc);
    if (!m) {
        snprintf(why, TR_WHY, "%s", mpg123_plain_strerror(rc));
        if (rc == MPG123_OUT_OF_MEM)
            f->error = ENOMEM;
        return NULL;
    }
    f->at = 0;
    if (configure(m, h) != MPG123_OK || mpg123_open_handle(m, f) != MPG123_OK ||
        mpg123_getformat(m, &rate, &channels, &encoding) != MPG123_OK || encoding != MPG123_ENC_FLOAT_32) {
        snprintf(why, TR_WHY, "%s", mpg123_strerror(m));
        mpg123_delete(m);
        return NULL;
    }
    *out = (struct tr_sound){ .rate = (int)rate,
                              .channels = (int)h->channels,
                              .lanes = (unsigned)channels,
                              .seconds = h->bytes_wanted ? h->seconds : 0, /* otherwise the duration is a guess */
                              .format = "MP3" };
    return m;
}

static long mp3_read(void *state, float *to, size_t frames, char why[TR_WHY])
{
    size_t bytes = 0;
    int rc;
    /* A change of format in the middle comes without samples. The samples after it still have the first format. */
    do
        rc = mpg123_read(state, (void *)to, frames * sizeof *to, &bytes);
    while (rc == MPG123_NEW_FORMAT && bytes == 0);
    if (bytes == 0 && rc != MPG123_OK && rc != MPG123_DONE) {
        snprintf(why, TR_WHY, "%s", mpg123_strerror(state));
        return -1;
    }
    return (long)(bytes / sizeof *to);
}

static void mp3_close(void *state)
{
    mpg123_close(state);
    mpg123_delete(state);
}

/* The version that the build found, because older libraries do not tell theirs. */
static void mp3_about(struct gd__buffer *version, struct gd__buffer *formats)
{
    gd__buffer_text(version, TR_HAVE_MPG123);
    gd__buffer_text(formats, "mp3");
}

const struct tr_decoder tr_mpg123 = { "libmpg123", mp3_wants, mp3_open, mp3_read, mp3_close, mp3_about };
