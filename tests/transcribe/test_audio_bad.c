/* SPDX-License-Identifier: MIT
 *
 * Bad audio files. Each is refused with a message that says what is wrong. File names in messages are safe for a
 * terminal, and libraries print nothing.
 */
#include "apps/transcribe/audio/decoder.h"
#include "apps/transcribe/output/shown.h"
#include "transcribe/sounds.h"

/* --- bad files ------------------------------------------------------------------ */

TEST(paths_that_are_not_files)
{
    directory_enter();
    refused("none.wav", "none.wav does not exist");
    refused("d/none.wav", "none.wav does not exist");
    make_file("empty.wav", 0);
    refused("empty.wav", "empty.wav is empty");
    CHECK_EQ(mkdir("folder.wav", 0755), 0);
    refused("folder.wav", "folder.wav is a directory");
    refused("folder.wav/", "folder.wav is a directory");
    refused("empty.wav/x.wav", "x.wav does not exist");
    CHECK_EQ(symlink("loop.wav", "loop.wav"), 0);
    refused("loop.wav", "loop.wav cannot be opened: Too many levels");
}

/* Opening a pipe does not wait for a writer. */
TEST(pipes_and_devices)
{
    directory_enter();
    CHECK_EQ(mkfifo("fifo.wav", 0644), 0);
    refused("fifo.wav", "fifo.wav is a pipe");
    refused("/dev/zero", "zero is a pipe, socket or device");
    refused("/dev/null", "null is a pipe, socket or device");
}

TEST(a_file_that_may_not_be_read)
{
    directory_enter();
    make_wav_file("secret.wav", 16000, 1, 100);
    CHECK_EQ(chmod("secret.wav", 0), 0);
    if (getuid() == 0 && seteuid(65534) < 0)
        SKIP("root can't change to another user here");
    refused("secret.wav", "secret.wav cannot be opened: permission denied");
    CHECK_EQ(seteuid(getuid()), 0);
}

static void refuse_bytes(const void *bytes, size_t size, const char *part)
{
    struct made m = { 0 };
    put(&m, bytes, size);
    save(&m, "bad.wav");
    refused("bad.wav", part);
    drop(&m);
}

TEST(bytes_that_are_not_audio)
{
    directory_enter();
    uint8_t noise[20000];
    unsigned seed = 1;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)((seed = seed * 1103515245 + 12345) >> 16);
    refuse_bytes("hello, world\n", 13, "bad.wav is not an audio file");
    refuse_bytes("RIFF", 4, "bad.wav is not an audio file");
    refuse_bytes("RIFF\0\0\0\0WAVE", 12, "bad.wav is not an audio file");
    refuse_bytes("\0", 1, "bad.wav is not an audio file");
    refuse_bytes(noise, sizeof noise, "bad.wav is not an audio file");
    memcpy(noise, (uint8_t[]){ 0xff, 0xfb, 0x90, 0 }, 4);
    refuse_bytes(noise, sizeof noise, "bad.wav is not an audio file");
    memcpy(noise, (uint8_t[]){ 'I', 'D', '3', 4, 0, 0, 0, 0, 0, 64 }, 10);
    refuse_bytes(noise, sizeof noise, "bad.wav is not an audio file");
    memcpy(noise, (uint8_t[]){ 'f', 'L', 'a', 'C' }, 4);
    refuse_bytes(noise, sizeof noise, "bad.wav ");
}

static void refuse_wav(struct wav_spec spec, const char *part)
{
    struct made m = make_wav(&spec);
    save(&m, "bad.wav");
    refused("bad.wav", part);
    drop(&m);
}

TEST(impossible_headers)
{
    directory_enter();
    refuse_wav((struct wav_spec){ 1, 0, 16000, 16, 1000, 1000 }, "bad.wav has 0 channels");
    refuse_wav((struct wav_spec){ 1, 2000, 16000, 16, 8000, 8000 }, "bad.wav has 2000 channels");
    refuse_wav((struct wav_spec){ 1, 1, 0, 16, 1000, 1000 }, "a sample rate of 0 Hz");
    refuse_wav((struct wav_spec){ 1, 1, 1, 16, 1000, 1000 }, "a sample rate of 1 Hz");
    refuse_wav((struct wav_spec){ 1, 1, 4000000000U, 16, 1000, 1000 }, "a sample rate of 4000000000 Hz");
    refuse_wav((struct wav_spec){ 1, 1, 16000, 16, 0, 0 }, "bad.wav contains no audio");
    refuse_wav((struct wav_spec){ 0x4242, 1, 16000, 16, 1000, 1000 }, "is not an audio file");
    make_wav_file("none.wav", 44100, 2, 0);
    refused("none.wav", "none.wav contains no audio");
}

TEST(a_truncated_wav)
{
    directory_enter();
    refuse_wav((struct wav_spec){ 1, 1, 16000, 16, 1958400, 108800 },
               "bad.wav is truncated: its header says 61.2 s, the file holds 3.4 s");
    make_wav_file("a.wav", 44100, 2, 44100);
    CHECK_EQ(truncate("a.wav", 44 + 44100), 0);
    refused("a.wav", "truncated: its header says 1.0 s, the file holds 0.2 s");
    CHECK_EQ(truncate("a.wav", 44), 0);
    refused("a.wav", "truncated: its header says 1.0 s, the file holds 0.0 s");
}

/* A length that includes the header is accepted. */
TEST(a_wav_that_lacks_a_few_bytes)
{
    directory_enter();
    struct made m = make_wav(&(struct wav_spec){ 1, 1, 16000, 16, 32044, 32000 });
    save(&m, "a.wav");
    CHECK_EQ(read_all("a.wav"), 16000);
    drop(&m);
}

/* For every start and length of a read, only bytes 10 to 13 of the file are replaced. */
TEST(mended_bytes)
{
    directory_enter();
    make_file("zeros", 30);
    struct tr_file f = { .fd = open("zeros", O_RDONLY | O_CLOEXEC), .size = 30, .mend_at = 10, .mend = { 1, 2, 3, 4 } };
    CHECK(f.fd >= 0);
    for (size_t at = 0; at < 30; at++) {
        for (size_t n = 1; n <= 30; n++) {
            uint8_t bytes[40];
            memset(bytes, 0xee, sizeof bytes);
            f.at = at;
            const size_t got = at + n < 30 ? n : 30 - at;
            CHECK_EQ(tr_file_read(&f, bytes, n), got);
            for (size_t i = 0; i < sizeof bytes; i++)
                CHECK_EQ(bytes[i], i >= got ? 0xee : at + i >= 10 && at + i < 14 ? at + i - 9 : 0);
        }
    }
    close(f.fd);
}

/* Programs that write to a pipe do not know the length in advance. */
TEST(wav_files_of_unknown_length)
{
    static const uint32_t claimed[] = { 0, 0xffffffff, 0x7fffffff, 0x7ffff000, 0x80000000, 0xffffffff - 36 };
    directory_enter();
    for (size_t i = 0; i < sizeof claimed / sizeof *claimed; i++) {
        for (int riff = 0; riff < 3; riff++) {
            struct made m = make_wav(&(struct wav_spec){ 1, 1, 16000, 16, claimed[i], 32000 });
            if (riff)
                memset(m.bytes + 4, riff == 1 ? 0 : 0xff, 4);
            save(&m, "a.wav");
            struct tr_audio *a = opened("a.wav");
            CHECK(tr_audio_seconds(a) == 1.0);
            tr_audio_close(&a);
            CHECK_EQ(read_all("a.wav"), 16000);
            drop(&m);
        }
    }
}

TEST(a_truncated_flac)
{
    directory_enter();
    CHECK(make("a.flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16000, 1, 160000));
    cut("a.flac", 0.5);
    refused("a.flac", "truncated: its header says 10.0 s, the file holds");
    CHECK(make("a.flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16000, 1, 160000));
    cut("a.flac", 0.999);
    refused("a.flac", "truncated: its header says 10.0 s, the file holds");
}

TEST(a_truncated_mp3)
{
    directory_enter();
    if (!make("a.mp3", MP3, 44100, 1, 441000))
        SKIP("this libsndfile cannot write this format");
    cut("a.mp3", 0.5);
    refused("a.mp3", "truncated: its header says 10.0 s, the file holds 5.0 s");
}

TEST(a_truncated_ogg)
{
    directory_enter();
    if (!make("a.ogg", SF_FORMAT_OGG | SF_FORMAT_VORBIS, 44100, 1, 441000))
        SKIP("this libsndfile cannot write this format");
    cut("a.ogg", 0.7);
    refused("a.ogg", "truncated");
}

/* The middle of a FLAC file is overwritten with noise. Reading it fails or returns the right number of samples. */
TEST(a_damaged_flac_is_an_error_or_complete)
{
    directory_enter();
    CHECK(make("a.flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16000, 1, 160000));
    const int fd = open("a.flac", O_RDWR | O_CLOEXEC);
    const off_t size = lseek(fd, 0, SEEK_END);
    char noise[3000];
    memset(noise, 0x5a, sizeof noise);
    CHECK_EQ(pwrite(fd, noise, sizeof noise, size / 2), sizeof noise);
    close(fd);
    struct tr_audio *a;
    if (tr_audio_open(&a, "a.flac", message) == 0) {
        CHECK_EQ(tr_audio_read(a, samples, MOST, message), 160000);
        tr_audio_close(&a);
    } else {
        CHECK_CONTAINS(message, "a.flac is ");
    }
}

/* After the first piece the thread finds that the file is bad. The samples before that are good. */
TEST(a_file_that_is_bad_after_the_first_piece)
{
    directory_enter();
    CHECK(make("a.flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16000, 1, 320000));
    cut("a.flac", 0.9);
    struct tr_audio *a;
    if (open_ahead(&a, "a.flac", 2) < 0)
        FAIL("%s", message);
    long n, total = 0;
    while ((n = tr_audio_read(a, samples + total, 7000, message)) > 0)
        total += n;
    CHECK_EQ(n, -1);
    CHECK_CONTAINS(message, "a.flac is truncated: its header says 20.0 s, the file holds");
    CHECK_GT(total, 32000 * 5);
    check_sine("good part", total, 0.01);
    message[0] = '\0';
    CHECK_EQ(tr_audio_read(a, samples, 1, message), -1); /* the file stays bad */
    CHECK_CONTAINS(message, "truncated");
    tr_audio_close(&a);
}

/* --- names ---------------------------------------------------------------------- */

TEST(names_that_would_harm_a_terminal)
{
    static const struct {
        const char *path, *shown;
    } names[] = {
        { "d/talk.wav", "talk.wav" },
        { "a\nb\033[2J\177.wav", "a?b?[2J?.wav" },
        { "na\303\257ve \346\227\245.wav", "na\303\257ve \346\227\245.wav" },
        { "\377\376x\303.wav", "??x?.wav" },
        { "a\302\233b", "a??b" },                      /* a control character of two bytes */
        { "a\342\200\256b", "a???b" },                 /* a character that changes the direction of writing */
        { "\355\240\200\300\200", "?????" },           /* half of a surrogate pair; an overlong NUL */
        { "\340\200\257\360\200\200\257", "???????" }, /* overlong slashes */
        { "/", "/" },
        { "a///", "a" },
    };
    char shown[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        tr_shown_name(shown, sizeof shown, names[i].path);
        CHECK_STR(shown, names[i].shown);
    }
}

TEST(long_names_are_shortened)
{
    char path[4001], shown[64];
    for (int wide = 0; wide < 2; wide++) {
        for (size_t n = 0; n < 3996; n += 2) {
            path[n] = wide ? '\303' : 'a';
            path[n + 1] = wide ? '\244' : 'b';
        }
        snprintf(path + 3996, 5, ".wav");
        for (size_t size = 8; size <= sizeof shown; size++) {
            tr_shown_name(shown, size, path);
            CHECK_LT(strlen(shown), size);
            CHECK_GE(strlen(shown) + 2, size - 1);
            CHECK(memcmp(shown, "...", 3) == 0 && !strchr(shown, '?'));
            CHECK_STR(shown + strlen(shown) - 4, ".wav");
        }
        refused(path, ".wav cannot be opened: File name too long");
    }
}

TEST(paths_are_shortened_in_the_middle)
{
    char path[1001], room[TR_SHOWN];
    CHECK_STR(tr_shown(room, "d\n/\302\233\303\244.wav"), "d?/??\303\244.wav");
    for (size_t first = 0; first < 2; first++) {
        memset(path, 'a', first);
        for (size_t n = first; n + 1 < sizeof path; n += 2)
            memcpy(path + n, "\303\244", 2);
        path[sizeof path - 1 - first] = '\0';
        tr_shown(room, path);
        CHECK_LT(strlen(room), TR_SHOWN);
        CHECK_GE(strlen(room) + 4, TR_SHOWN - 1);
        CHECK(strstr(room, "...") && !strchr(room, '?'));
    }
}

/* --- silence ---------------------------------------------------------------------- */

/* Some libraries print warnings about bad files. None of them must reach standard error. */
TEST(nothing_is_written_to_standard_error)
{
    directory_enter();
    const int kept = dup(2), log = open("log", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    CHECK(kept >= 0 && log >= 0 && dup2(log, 2) == 2);
    struct made m = { 0 };
    struct tr_audio *a;
    uint8_t noise[997];
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)(i * i * 7 + i);
    for (int i = 0; i < 300; i++) { /* an MP3 with noise between its frames */
        put_frame(&m);
        if (i % 50 == 49)
            put(&m, noise, sizeof noise);
    }
    save(&m, "a.mp3");
    m.size = 0;
    put(&m, "\377\373\220\0", 4);
    put(&m, noise, sizeof noise);
    save(&m, "b.mp3");
    m.size = 0;
    put_vorbis(&m, 1, 1, 16000);
    put_page(&m, 1, 16000, noise, sizeof noise, sizeof noise);
    save(&m, "c.ogg");
    m.size = 0;
    put_flac(&m, 16000, 1, 1000);
    put(&m, noise, sizeof noise);
    save(&m, "d.flac");
    m.size = 0;
    put(&m, "\0\0\0\30ftypM4A \0\0\0\0M4A mp42\0\0\0\20moov", 32);
    put(&m, noise, sizeof noise);
    save(&m, "e.m4a");
    drop(&m);
    static const char *const names[] = {
#ifdef TR_HAVE_MPG123 /* libsndfile's decoder prints a warning about the noise */
        "a.mp3",
#endif
        "b.mp3", "c.ogg", "d.flac", "e.m4a",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (tr_audio_open(&a, names[i], message) == 0)
            while (tr_audio_read(a, samples, MOST, message) > 0)
                ;
        tr_audio_close(&a);
    }
    CHECK_EQ(dup2(kept, 2), 2);
    close(kept);
    struct stat st;
    CHECK_EQ(fstat(log, &st), 0);
    close(log);
    CHECK_EQ(st.st_size, 0);
}

TEST_MAIN()
