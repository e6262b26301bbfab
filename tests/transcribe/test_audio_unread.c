/* SPDX-License-Identifier: MIT
 *
 * Permanent and temporary errors of a file. A disk that is unavailable for a while is a temporary error. This program
 * replaces the system calls that audio.c makes, so that a case can make them fail.
 */
#include <stdarg.h>
#include <sys/syscall.h>

#include "transcribe/sounds.h"

static int open_error, read_error; /* 0: none */
static off_t read_error_from;      /* reads fail from this byte of the file on */
static long good_reads;            /* how many more reads succeed before reads fail */

/* Replaces the function of the C library in this program. */
int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    errno = open_error;
    return open_error ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t pread(int fd, void *to, size_t size, off_t at)
{
    if (read_error && at + (off_t)size > read_error_from && good_reads-- <= 0) {
        errno = read_error;
        return -1;
    }
    return syscall(SYS_pread64, fd, to, size, at);
}

static const int passing[] = { EIO,       EMFILE,   ENFILE,       ENOMEM, EAGAIN, ESTALE,
                               ETIMEDOUT, ENOTCONN, EHOSTUNREACH, ENODEV, ENOBUFS };
static const int lasting[] = { ENOENT, ENOTDIR, EACCES, EPERM, ELOOP, ENAMETOOLONG };

enum { N_PASSING = sizeof passing / sizeof *passing, N_LASTING = sizeof lasting / sizeof *lasting };

static void check_open(int wanted, int error)
{
    struct tr_audio *a = NULL;
    const int rc = tr_audio_open(&a, "a.wav", message);
    if (rc != wanted)
        FAIL("%s: %d, not %d (%s)", strerror(error), rc, wanted, message);
    CHECK(a == NULL);
    CHECK_CONTAINS(message, "a.wav ");
}

TEST(opening_may_fail_for_a_while)
{
    directory_enter();
    make_wav_file("a.wav", 16000, 1, 16000);
    for (int i = 0; i < N_PASSING; i++) {
        open_error = passing[i];
        check_open(TR_UNREAD, passing[i]);
        CHECK_CONTAINS(message, strerror(passing[i]));
    }
    for (int i = 0; i < N_LASTING; i++) {
        open_error = lasting[i];
        check_open(TR_UNFIT, lasting[i]);
    }
    open_error = 0;
    CHECK_EQ(read_all("a.wav"), 16000);
}

/* Reading may fail anywhere: in the header, at the start of decoding, and in the samples. */
TEST(reading_may_fail_for_a_while)
{
    static const off_t places[] = { 0, 1000, 20000 };
    directory_enter();
    make_wav_file("a.wav", 16000, 1, 16000);
    for (int i = 0; i < N_PASSING; i++) {
        for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
            read_error = passing[i];
            read_error_from = places[p];
            check_open(TR_UNREAD, passing[i]);
            CHECK_CONTAINS(message, strerror(passing[i]));
        }
    }
    static const int refused[] = { EACCES, EPERM, EISDIR };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        read_error = refused[i];
        check_open(TR_UNFIT, refused[i]);
    }
    read_error = 0;
    CHECK_EQ(read_all("a.wav"), 16000);
}

TEST(reading_other_formats_may_fail_for_a_while)
{
    static const int formats[] = { SF_FORMAT_WAV | SF_FORMAT_PCM_16, SF_FORMAT_AIFF | SF_FORMAT_PCM_16,
                                   SF_FORMAT_FLAC | SF_FORMAT_PCM_16, SF_FORMAT_OGG | SF_FORMAT_VORBIS, MP3 };
    directory_enter();
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        struct tr_audio *a;
        /* After a failed read, libsndfile leaks some memory of Vorbis, which we can't fix. */
        if (TEST_SLOWDOWN > 1 && formats[i] == (SF_FORMAT_OGG | SF_FORMAT_VORBIS))
            continue;
        if (!make("a", formats[i], 16000, 1, 64000))
            continue;
        /* All reads fail after the first 0, 1, 2, ... reads, until all reads succeed. */
        int rc = TR_UNREAD;
        long reads = 0;
        for (read_error = EIO; rc < 0; reads++) {
            good_reads = reads;
            rc = tr_audio_open(&a, "a", message);
            if (rc != TR_UNREAD && rc != 0)
                FAIL("format %x, after %ld reads: %d (%s)", (unsigned)formats[i], reads, rc, message);
            if (rc < 0)
                CHECK_CONTAINS(message, "Input/output error");
        }
        CHECK_GT(reads, 3);
        read_error = 0;
        tr_audio_close(&a);
    }
}

/* The thread that decodes ahead fails to read. */
TEST(reading_may_fail_further_on)
{
    struct tr_audio *a;
    long n, total = 0;
    directory_enter();
    make_wav_file("a.wav", 16000, 1, 320000);
    CHECK_EQ(open_ahead(&a, "a.wav", 2), 0);
    read_error = ESTALE;
    while ((n = tr_audio_read(a, samples + total, 7000, message)) > 0)
        total += n;
    CHECK_EQ(n, TR_UNREAD);
    CHECK_CONTAINS(message, "a.wav cannot be read: Stale file handle; check the disk or network that it is on");
    CHECK_GE(total, 32000);
    CHECK_LT(total, 320000);
    CHECK_EQ(tr_audio_read(a, samples, 1, message), TR_UNREAD);
    tr_audio_close(&a);
}

/* The error comes from the system, when no more files may be opened. */
TEST(too_many_open_files)
{
    struct rlimit limit, low;
    directory_enter();
    make_wav_file("a.wav", 16000, 1, 16000);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = limit;
    low.rlim_cur = 3;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    check_open(TR_UNREAD, EMFILE);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    CHECK_CONTAINS(message, "a.wav cannot be opened: Too many open files; raise the limit (ulimit -n)");
    CHECK_EQ(read_all("a.wav"), 16000);
}

TEST_MAIN()
