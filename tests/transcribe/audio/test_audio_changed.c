/* SPDX-License-Identifier: MIT
 *
 * Files that change while they are read. A part is read, then the file is changed, then the rest is read.
 */
#include "transcribe/sounds.h"

enum { SECONDS = 20 };

static struct tr_audio *half_read(int format)
{
    struct tr_audio *a;
    directory_enter();
    CHECK(make("a", format, TR_RATE, 1, (long)SECONDS * TR_RATE));
    CHECK_EQ(open_ahead(&a, "a", 2), 0);
    CHECK_EQ(tr_audio_read(a, samples, 1000, message), 1000);
    return a;
}

/* Reads the rest. Returns the code at its end. */
static int read_rest(struct tr_audio **a)
{
    long n;
    while ((n = tr_audio_read(*a, samples, MOST, message)) > 0)
        ;
    tr_audio_close(a);
    return (int)n;
}

static void changed(struct tr_audio *a, const char *how)
{
    CHECK_EQ(read_rest(&a), TR_UNREAD);
    CHECK_CONTAINS(message, "a changed while it was being read: ");
    CHECK_CONTAINS(message, how);
    CHECK_CONTAINS(message, "; transcribe it again when no program writes to it");
}

static void set_time(const char *path, time_t when)
{
    CHECK_EQ(utimensat(AT_FDCWD, path, (struct timespec[]){ { when, 0 }, { when, 0 } }, 0), 0);
}

TEST(a_file_that_does_not_change)
{
    struct tr_audio *a = half_read(SF_FORMAT_WAV | SF_FORMAT_PCM_16);
    CHECK_EQ(read_rest(&a), 0);
}

TEST(a_file_that_grows)
{
    struct tr_audio *a = half_read(SF_FORMAT_WAV | SF_FORMAT_PCM_16);
    CHECK_EQ(truncate("a", 44 + 2L * SECONDS * TR_RATE + 100), 0);
    changed(a, "it had 640044 bytes and now has 640144");
}

/* That the file has changed is reported, not that it is truncated or damaged. */
TEST(a_file_that_becomes_shorter)
{
    struct tr_audio *a = half_read(SF_FORMAT_WAV | SF_FORMAT_PCM_16);
    CHECK_EQ(truncate("a", 44 + TR_RATE * SECONDS), 0);
    changed(a, "it had 640044 bytes and now has 320044");
    a = half_read(SF_FORMAT_FLAC | SF_FORMAT_PCM_16);
    cut("a", 0.5);
    changed(a, " bytes and now has ");
}

TEST(a_file_that_is_overwritten)
{
    struct tr_audio *a = half_read(SF_FORMAT_WAV | SF_FORMAT_PCM_16);
    set_time("a", 1000);
    changed(a, "it was written to");
}

TEST(another_file_with_the_same_name)
{
    struct tr_audio *a = half_read(SF_FORMAT_WAV | SF_FORMAT_PCM_16);
    make_wav_file("b", TR_RATE, 1, 1000);
    CHECK_EQ(rename("b", "a"), 0);
    changed(a, "it had 640044 bytes and now has 2044");
}

/* Programs move files that they have queued, and a copy with the same time is the same file. */
TEST(moves_and_copies_are_no_changes)
{
    struct tr_audio *a = half_read(SF_FORMAT_WAV | SF_FORMAT_PCM_16);
    CHECK_EQ(rename("a", "moved"), 0);
    CHECK_EQ(read_rest(&a), 0);
    a = half_read(SF_FORMAT_WAV | SF_FORMAT_PCM_16);
    CHECK_EQ(unlink("a"), 0);
    CHECK_EQ(read_rest(&a), 0);

    directory_enter();
    make_wav_file("a", TR_RATE, 1, (long)SECONDS * TR_RATE);
    make_wav_file("b", TR_RATE, 1, (long)SECONDS * TR_RATE);
    set_time("a", 1000);
    set_time("b", 1000);
    CHECK_EQ(open_ahead(&a, "a", 2), 0);
    CHECK_EQ(rename("b", "a"), 0);
    CHECK_EQ(read_rest(&a), 0);
}

/* A file that the caller has opened has a name only for messages. */
TEST(an_open_file_without_a_name)
{
    struct tr_audio *a;
    directory_enter();
    make_wav_file("a", TR_RATE, 1, (long)SECONDS * TR_RATE);
    struct tr_audio_how how = { .path = "other", .has_fd = true, .fd = open("a", O_RDONLY | O_CLOEXEC), .ahead_s = 2 };
    make_wav_file("other", TR_RATE, 1, 1000);
    CHECK_EQ(tr_audio_open_how(&a, &how, message), 0);
    CHECK_EQ(read_rest(&a), 0);
    how.fd = open("a", O_RDONLY | O_CLOEXEC);
    CHECK_EQ(tr_audio_open_how(&a, &how, message), 0);
    set_time("a", 1000);
    CHECK_EQ(read_rest(&a), TR_UNREAD);
    CHECK_CONTAINS(message, "other changed while it was being read: it was written to");
}

TEST_MAIN()
