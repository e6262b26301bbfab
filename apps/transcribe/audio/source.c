/* SPDX-License-Identifier: MIT
 *
 * Opens audio files, chooses their decoders, and finds out whether they are complete.
 *
 * A decoder sees one stream as if it were the whole file (struct tr_file). So it needs not know about chains of streams
 * (ogg.h), and libsndfile, which stops after the first stream, reads them all.
 *
 * Whether a file has changed is decided by its size and the time of its last change. Its number (inode) is not compared:
 * some network file systems number a file anew while it is open.
 */
#include "apps/transcribe/audio/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/transcribe/audio/ogg.h"
#include "apps/transcribe/output/shown.h"

enum {
    RATE_LEAST = 500, /* files of sound have higher rates; resampling from a lower rate takes much memory */
    RATE_MOST = 6144000,
    CHANNELS_MOST = 1024,
};

/* How many bytes may be missing from the end of a file. A WAV header may count itself as data. An MP3 table may or may
 * not count the first frame. */
enum { WAV_SLACK = 64, MP3_SLACK = 4096 };

/* --- error messages --------------------------------------------------------- */

int tr_source_say(char message[TR_MESSAGE_MAX], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(message, TR_MESSAGE_MAX, format, args);
    va_end(args);
    return TR_UNFIT;
}

/* An error about the name or the permissions of a file is permanent. Every other error may be temporary: a disk or a
 * network that is unavailable, no memory, too many open files. */
static int code_of(int error)
{
    static const int lasting[] = { EACCES, EISDIR, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, EPERM };
    for (size_t i = 0; i < sizeof lasting / sizeof *lasting; i++) {
        if (error == lasting[i])
            return TR_UNFIT;
    }
    return TR_UNREAD;
}

int tr_source_unread(const struct tr_source *s, char message[TR_MESSAGE_MAX], const char *what, int error)
{
    (void)tr_source_say(message, "%s cannot be %s: %s%s", s->name, what, strerror(error),
                        error == EMFILE || error == ENFILE ? "; raise the limit (ulimit -n)"
                        : error == ENOMEM                  ? ""
                                                           : "; check the disk or network that it is on");
    return code_of(error);
}

static int say_truncated(const struct tr_source *s, char message[TR_MESSAGE_MAX], double promised, double there)
{
    return tr_source_say(message,
                         "%s is truncated: its header says %.1f s, the file holds %.1f s; copy or download it again",
                         s->name, promised, there);
}

/* --- changes ---------------------------------------------------------------- */

/* Compares the file with what it was when it was opened. Returns 0, or TR_UNREAD with an error message. */
static int compare(const struct tr_source *s, const struct stat *st, char message[TR_MESSAGE_MAX])
{
    char what[80] = "it was written to";
    if ((uint64_t)st->st_size == s->whole && st->st_mtim.tv_sec == s->written.tv_sec &&
        st->st_mtim.tv_nsec == s->written.tv_nsec)
        return 0;
    if ((uint64_t)st->st_size != s->whole)
        snprintf(what, sizeof what, "it had %llu bytes and now has %lld", (unsigned long long)s->whole,
                 (long long)st->st_size);
    (void)tr_source_say(message,
                        "%s changed while it was being read: %s; transcribe it again when no program writes to it",
                        s->name, what);
    return TR_UNREAD;
}

/* Looks at the open file, and at the file that now has its name. A file that was moved or deleted has not changed. */
static int check_same(const struct tr_source *s, char message[TR_MESSAGE_MAX])
{
    struct stat st;
    if (fstat(s->file.fd, &st) < 0)
        return tr_source_unread(s, message, "read", errno);
    const int rc = compare(s, &st, message);
    return rc == 0 && s->path && stat(s->path, &st) == 0 ? compare(s, &st, message) : rc;
}

/* Returns the code of an error that was found in the file, with its message. If the file has changed, that is the
 * error. */
static int judge(const struct tr_source *s, int code, char message[TR_MESSAGE_MAX])
{
    char changed[TR_MESSAGE_MAX];
    if (code != TR_UNFIT || s->file.fd < 0 || check_same(s, changed) == 0)
        return code;
    (void)tr_source_say(message, "%s", changed);
    return TR_UNREAD;
}

/* --- the file ---------------------------------------------------------------- */

/* Accepts only regular files, because a FIFO or a device may block or never end. */
static int check_kind(const struct tr_source *s, const struct stat *st, char message[TR_MESSAGE_MAX])
{
    if (S_ISDIR(st->st_mode))
        return tr_source_say(message, "%s is a directory, not an audio file", s->name);
    if (!S_ISREG(st->st_mode))
        return tr_source_say(
            message, "%s is a pipe, socket or device, not a regular file: save its data to a file first", s->name);
    if (st->st_size == 0)
        return tr_source_say(message, "%s is empty (0 bytes): copy or record it again", s->name);
    return 0;
}

static int take_file(struct tr_source *s, int fd, char message[TR_MESSAGE_MAX])
{
    struct stat st;
    s->file.fd = fd;
    if (fstat(fd, &st) < 0)
        return tr_source_unread(s, message, "opened", errno);
    s->file.size = s->whole = (uint64_t)st.st_size;
    s->written = st.st_mtim;
    return check_kind(s, &st, message);
}

static int open_file(struct tr_source *s, const char *path, char message[TR_MESSAGE_MAX])
{
    struct stat st;
    /* Checked before opening, because opening a device may have an effect. Checked again after opening, because the
     * file may have changed. */
    if (stat(path, &st) == 0 && check_kind(s, &st, message) < 0)
        return TR_UNFIT;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return tr_source_say(message, "%s does not exist: it was moved or deleted, or the name is misspelt", s->name);
    if (fd < 0 && (errno == EACCES || errno == EPERM))
        return tr_source_say(
            message, "%s cannot be opened: permission denied; allow this user to read it and the directories above it",
            s->name);
    if (fd < 0)
        return tr_source_unread(s, message, "opened", errno);
    const int rc = take_file(s, fd, message);
    s->path = rc == 0 ? strdup(path) : NULL;
    return rc == 0 && !s->path ? tr_source_unread(s, message, "opened", ENOMEM) : rc;
}

/* Whether this stream is the last one of the file. */
static bool is_last(const struct tr_source *s)
{
    return s->file.from + s->file.size >= s->whole;
}

/* --- streams ----------------------------------------------------------------- */

static int check_rate(const struct tr_source *s, long long rate, long long channels, char message[TR_MESSAGE_MAX])
{
    if (channels <= 0 || channels > CHANNELS_MOST)
        return tr_source_say(message,
                             "%s has %lld channels according to its header, not 1 to %d: it is damaged or not audio",
                             s->name, channels, CHANNELS_MOST);
    if (rate < RATE_LEAST || rate > RATE_MOST)
        return tr_source_say(
            message,
            "%s has a sample rate of %lld Hz according to its header, not %d to %d: it is damaged or not audio",
            s->name, rate, RATE_LEAST, RATE_MOST);
    return 0;
}

/* Notes that the file is truncated, if that is accepted. */
static bool accept_truncated(struct tr_source *s, double promised_s)
{
    if (!s->accept_truncated)
        return false;
    s->truncated = s->cut = true;
    s->promised_s = promised_s > 0 ? s->before_s + promised_s : 0;
    return true;
}

/* The checks that need only the header. */
static int check_header(struct tr_source *s, const struct tr_header *h, char message[TR_MESSAGE_MAX])
{
    const uint64_t size = s->file.size;
    if (!h->format)
        return 0;
    const bool wav = strcmp(h->format, "WAV") == 0, mp3 = strcmp(h->format, "MP3") == 0;
    const bool ogg = strcmp(h->format, "Ogg") == 0;
    if ((h->rate || h->channels || h->data_at) && check_rate(s, h->rate, h->channels, message) < 0)
        return TR_UNFIT;
    if (h->bytes_wanted <= size + (wav ? WAV_SLACK : mp3 ? MP3_SLACK : 0) || accept_truncated(s, ogg ? 0 : h->seconds))
        return 0;
    if (ogg)
        return tr_source_say(message, "%s is truncated: it ends in the middle of a page; copy or download it again",
                             s->name);
    const double part = (double)(size - h->data_at) / (double)(h->bytes_wanted - h->data_at);
    return say_truncated(s, message, h->seconds, h->seconds * part);
}

static const struct tr_decoder *const decoders[] = {
#ifdef TR_HAVE_MPG123
    &tr_mpg123,
#endif
    &tr_sndfile,
#ifdef TR_HAVE_FFMPEG
    &tr_ffmpeg,
#endif
};

/* `all` says what each decoder found wrong. */
static int say_unknown(const struct tr_source *s, const char *all, char message[TR_MESSAGE_MAX])
{
#ifdef TR_HAVE_FFMPEG
    const char *help = "if it is audio, convert it to WAV or FLAC";
#else
    const char *help =
        "if it is audio, convert it to WAV or FLAC, or build with FFmpeg's libraries, which read more formats";
#endif
    if (s->file.from > 0)
        return tr_source_say(message,
                             "%s is damaged: the stream that begins at byte %llu cannot be read (%s); copy or "
                             "download it again",
                             s->name, (unsigned long long)s->file.from, all);
    return tr_source_say(message, "%s is not an audio file that can be read here (%s): %s", s->name, all, help);
}

/* Tries one decoder after the other. The error message covers all of them. */
static int open_decoder(struct tr_source *s, const struct tr_header *h, char message[TR_MESSAGE_MAX])
{
    char why[TR_WHY], all[2 * TR_WHY] = "";
    for (size_t i = 0; i < sizeof decoders / sizeof decoders[0] && !s->state; i++) {
        if (decoders[i]->wants && !decoders[i]->wants(h))
            continue;
        why[0] = '\0';
        s->file.at = s->file.mend_at = 0;
        s->decoder = decoders[i];
        s->state = s->decoder->open(&s->file, h, &s->sound, why);
        if (s->file.error)
            return tr_source_unread(s, message, "read", s->file.error);
        const size_t used = strlen(all);
        if (!s->state)
            snprintf(all + used, sizeof all - used, "%s%s says \"%s\"", used ? ", " : "", s->decoder->name, why);
    }
    return s->state ? 0 : say_unknown(s, all, message);
}

static void close_decoder(struct tr_source *s)
{
    if (s->state)
        s->decoder->close(s->state);
    s->state = NULL;
}

static int open_sound(struct tr_source *s, const struct tr_header *h, char message[TR_MESSAGE_MAX])
{
    int rc = check_header(s, h, message);
    if (rc == 0)
        rc = open_decoder(s, h, message);
    return rc == 0 ? check_rate(s, s->sound.rate, s->sound.channels, message) : rc;
}

/* Opens the stream of an Ogg file that begins at the offset from. */
static int open_link(struct tr_source *s, uint64_t from, char message[TR_MESSAGE_MAX])
{
    struct tr_header h;
    uint64_t end;
    if (tr_ogg_link(s->file.fd, from, s->whole, &end) < 0)
        return tr_source_unread(s, message, "read", errno);
    s->file.from = from;
    s->file.size = end - from;
    s->decoded = 0;
    s->cut = false;
    if (tr_header_read_part(&h, s->file.fd, from, s->file.size) < 0)
        return tr_source_unread(s, message, "read", errno);
    return open_sound(s, &h, message);
}

static int open_first(struct tr_source *s, char message[TR_MESSAGE_MAX])
{
    struct tr_header h;
    if (tr_header_read_part(&h, s->file.fd, 0, s->whole) < 0)
        return tr_source_unread(s, message, "read", errno);
    if (!h.format || strcmp(h.format, "Ogg") != 0) {
        const int rc = open_sound(s, &h, message);
        s->seconds = s->sound.seconds;
        return rc;
    }
    /* This header covers all streams, so a file whose last stream is truncated is refused before anything is read. */
    int rc = check_header(s, &h, message);
    if (rc == 0)
        rc = open_link(s, 0, message);
    s->seconds = is_last(s) ? s->sound.seconds : h.seconds;
    return rc;
}

int tr_source_open(struct tr_source *s, const struct tr_audio_how *how, char message[TR_MESSAGE_MAX])
{
    *s = (struct tr_source){ .file.fd = -1, .accept_truncated = how->accept_truncated };
    tr_shown_name(s->name, sizeof s->name, how->path);
    int rc = how->has_fd ? take_file(s, how->fd, message) : open_file(s, how->path, message);
    if (rc == 0)
        rc = open_first(s, message);
    return judge(s, rc, message);
}

void tr_source_close(struct tr_source *s)
{
    close_decoder(s);
    if (s->file.fd >= 0)
        close(s->file.fd);
    free(s->path);
    s->path = NULL;
    s->file.fd = -1;
}

/* --- reading ------------------------------------------------------------------ */

double tr_source_time(const struct tr_source *s)
{
    return s->before_s + (s->sound.rate > 0 ? (double)s->decoded / s->sound.rate : 0);
}

/* Called at the end of a stream. Checks that the stream is as long as its header promised. */
static int check_end(struct tr_source *s, char message[TR_MESSAGE_MAX])
{
    const struct tr_sound *sound = &s->sound;
    const double promised = (double)sound->frames / sound->rate;
    if (s->decoded + sound->slack >= sound->frames || accept_truncated(s, promised))
        return 0;
    return say_truncated(s, message, s->before_s + promised, tr_source_time(s));
}

static long read_frames(struct tr_source *s, float *to, size_t frames, char message[TR_MESSAGE_MAX])
{
    char why[TR_WHY] = "";
    const long n = s->decoder->read(s->state, to, frames, why);
    if (s->file.error)
        return tr_source_unread(s, message, "read", s->file.error);
    if (n < 0)
        return tr_source_say(message, "%s is damaged: %s says \"%s\" after %.1f s; copy or download it again", s->name,
                             s->decoder->name, why, tr_source_time(s));
    if (n == 0)
        return check_end(s, message);
    s->decoded += (uint64_t)n;
    return n;
}

long tr_source_read(struct tr_source *s, float *to, size_t frames, char message[TR_MESSAGE_MAX])
{
    const long n = read_frames(s, to, frames, message);
    return n < 0 ? judge(s, (int)n, message) : n;
}

static int say_empty(const struct tr_source *s, char message[TR_MESSAGE_MAX])
{
    if (s->truncated && s->promised_s > 0)
        return say_truncated(s, message, s->promised_s, 0);
    return tr_source_say(message, "%s contains no audio: there is a header (%s, %d Hz) but no samples after it",
                         s->name, s->sound.format, s->sound.rate);
}

/* Called at the end of the file. */
static int finish(struct tr_source *s, char message[TR_MESSAGE_MAX])
{
    const double seconds = tr_source_time(s);
    if (!(seconds > 0))
        return judge(s, say_empty(s, message), message);
    if (s->truncated && s->promised_s > 0)
        tr_source_say(s->warning, "%s is truncated: its header says %.1f s, only %.1f s could be read", s->name,
                      s->promised_s, seconds);
    else if (s->truncated)
        tr_source_say(s->warning, "%s is truncated: it has an incomplete page, only %.1f s could be read", s->name,
                      seconds);
    return check_same(s, message);
}

int tr_source_next(struct tr_source *s, char message[TR_MESSAGE_MAX])
{
    if (is_last(s))
        return finish(s, message);
    s->before_s = tr_source_time(s);
    close_decoder(s);
    const int rc = open_link(s, s->file.from + s->file.size, message);
    if (rc == TR_UNFIT && s->cut && is_last(s)) { /* the file ends before the first samples of this stream */
        s->decoded = 0;
        return finish(s, message);
    }
    return rc < 0 ? judge(s, rc, message) : 1;
}

/* --- what can be read ------------------------------------------------------------ */

void tr_source_about(struct gd__buffer *b)
{
    for (size_t i = 0; i < sizeof decoders / sizeof decoders[0]; i++) {
        struct gd__buffer version = { 0 }, formats = { 0 };
        decoders[i]->about(&version, &formats);
        gd__buffer_text(b, decoders[i]->name);
        gd__buffer_text(b, "\t");
        gd__buffer_add(b, version.data, version.size);
        gd__buffer_text(b, ": ");
        gd__buffer_add(b, formats.data, formats.size);
        gd__buffer_text(b, "\n");
        b->failed |= version.failed || formats.failed;
        gd__buffer_free(&version);
        gd__buffer_free(&formats);
    }
#ifndef TR_HAVE_FFMPEG
    gd__buffer_text(b, "FFmpeg\tnot built in, so m4a, aac, mp4, mkv, webm and wma cannot be read; to get it, run `make "
                       "transcribe` in the source tree\n");
#endif
}
