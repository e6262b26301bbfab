/* SPDX-License-Identifier: MIT
 *
 * Ogg files of several streams, one after the other, as `cat a.ogg b.ogg` makes them. All streams are read, although
 * libsndfile reads only the first, and the durations in headers are right.
 */
#include "transcribe/sounds.h"

enum { VORBIS = SF_FORMAT_OGG | SF_FORMAT_VORBIS, OPUS = SF_FORMAT_OGG | SF_FORMAT_OPUS };

static void need(int format)
{
    if (!make("probe", format, 48000, 1, 48000))
        SKIP("this libsndfile cannot write this format");
}

/* Appends `part` of a file: 1 for all of it. */
static void join(const char *to, const char *from, double part)
{
    static uint8_t bytes[1 << 20];
    const int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    CHECK(in >= 0 && out >= 0);
    const ssize_t n = read(in, bytes, sizeof bytes);
    CHECK(n > 0 && n < (ssize_t)sizeof bytes);
    const size_t wanted = (size_t)((double)n * part);
    CHECK_EQ(write(out, bytes, wanted), wanted);
    close(in);
    close(out);
}

static void check_seconds(const char *path, double seconds)
{
    struct tr_header h;
    CHECK_EQ(tr_header_read(&h, path), 0);
    CHECK_STR(h.format, "Ogg");
    if (fabs(h.seconds - seconds) > 0.01)
        FAIL("%s: %.3f s, not %.3f s", path, h.seconds, seconds);
    CHECK_EQ(h.bytes_wanted, 0);
}

/* Reads the file, which has the sine of make() in it. */
static void check_chain(const char *path, double seconds)
{
    check_seconds(path, seconds);
    struct tr_audio *a = opened(path);
    CHECK(fabs(tr_audio_seconds(a) - seconds) < 0.01);
    CHECK(tr_audio_warning(a) == NULL);
    tr_audio_close(&a);
    const long n = read_all(path);
    if (fabs((double)n - seconds * TR_RATE) > 8)
        FAIL("%s: %ld samples, not %.0f", path, n, seconds * TR_RATE);
    check_sine(path, n, 0.1);
}

TEST(two_streams_of_vorbis)
{
    directory_enter();
    need(VORBIS);
    CHECK(make("a.ogg", VORBIS, 44100, 1, 44100 * 3) && make("b.ogg", VORBIS, 44100, 1, 44100 * 2));
    join("c.ogg", "a.ogg", 1);
    join("c.ogg", "b.ogg", 1);
    check_chain("c.ogg", 5);
    join("c.ogg", "b.ogg", 1);
    check_chain("c.ogg", 7);
}

/* Both streams then have the same number, which an encoder would not write. */
TEST(a_file_joined_to_itself)
{
    directory_enter();
    need(VORBIS);
    CHECK(make("short.ogg", VORBIS, 44100, 1, 44100 * 2) && make("long.ogg", VORBIS, 44100, 2, 44100 * 40));
    join("c.ogg", "short.ogg", 1);
    join("c.ogg", "short.ogg", 1);
    check_chain("c.ogg", 4);
    join("d.ogg", "long.ogg", 1);
    join("d.ogg", "long.ogg", 1);
    struct stat st;
    CHECK_EQ(stat("d.ogg", &st), 0);
    CHECK_GT(st.st_size, 2 * 65536); /* so long that not all pages are looked at for the duration */
    check_seconds("d.ogg", 80);
}

TEST(streams_of_different_rates_and_channels)
{
    directory_enter();
    need(VORBIS);
    need(OPUS);
    CHECK(make("a", VORBIS, 44100, 2, 44100 * 2) && make("b", VORBIS, 16000, 1, 16000 * 3) &&
          make("c", OPUS, 48000, 2, 48000 * 2) && make("d", VORBIS, 8000, 1, 8000 * 2));
    for (const char *name = "abcdba"; *name; name++)
        join("all.ogg", (char[]){ *name, '\0' }, 1);
    check_chain("all.ogg", 2 + 3 + 2 + 2 + 3 + 2);
    struct tr_audio *a = opened("all.ogg");
    CHECK_EQ(tr_audio_rate(a), 44100); /* of the first stream */
    CHECK_EQ(tr_audio_channels(a), 2);
    CHECK_STR(tr_audio_format(a), "Ogg");
    tr_audio_close(&a);
}

TEST(streams_of_opus)
{
    directory_enter();
    need(OPUS);
    CHECK(make("a", OPUS, 48000, 1, 48000 * 2) && make("b", OPUS, 24000, 2, 24000 * 4));
    join("c.opus", "a", 1);
    join("c.opus", "b", 1);
    check_chain("c.opus", 6);
}

/* The thread that decodes ahead changes the stream. */
TEST(streams_further_on)
{
    directory_enter();
    need(VORBIS);
    CHECK(make("a", VORBIS, 44100, 1, 44100 * 5) && make("b", VORBIS, 32000, 2, 32000 * 5));
    for (const char *name = "abab"; *name; name++)
        join("c.ogg", (char[]){ *name, '\0' }, 1);
    struct tr_audio *a;
    long n, total = 0;
    CHECK_EQ(open_ahead(&a, "c.ogg", 1), 0);
    CHECK(fabs(tr_audio_seconds(a) - 20) < 0.01);
    while ((n = tr_audio_read(a, samples + total, 7000, message)) > 0)
        total += n;
    CHECK_EQ(n, 0);
    CHECK(labs(total - 20L * TR_RATE) < 8);
    check_sine("four streams", total, 0.1);
    tr_audio_close(&a);
}

/* --- bad chains ----------------------------------------------------------------- */

TEST(a_truncated_last_stream)
{
    directory_enter();
    need(VORBIS);
    CHECK(make("a", VORBIS, 44100, 1, 44100 * 3) && make("b", VORBIS, 16000, 1, 16000 * 30));
    join("c.ogg", "a", 1);
    join("c.ogg", "b", 0.7);
    refused("c.ogg", "truncated: it ends in the middle of a page");
}

/* The file after the cut is found, although the last page before the cut covers its beginning. */
TEST(a_truncated_stream_in_the_middle)
{
    directory_enter();
    need(VORBIS);
    CHECK(make("a", VORBIS, 44100, 1, 44100 * 30) && make("b", VORBIS, 44100, 1, 44100 * 3));
    join("c.ogg", "a", 0.7);
    join("c.ogg", "b", 1);
    refused("c.ogg", "truncated: it ends in the middle of a page");
    struct tr_audio *a;
    const struct tr_audio_how how = { .path = "c.ogg", .accept_truncated = true };
    if (tr_audio_open_how(&a, &how, message) < 0)
        FAIL("%s", message);
    const long n = tr_audio_read(a, samples, MOST, message);
    CHECK_GT(n, TR_RATE * (3 + 15)); /* more than half of the first file, and the second one */
    CHECK_LT(n, TR_RATE * 33);
    CHECK_CONTAINS(tr_audio_warning(a), "c.ogg is truncated: it has an incomplete page");
    tr_audio_close(&a);
}

/* The file ends within the first page of its second stream, or within a later page before the first samples. */
TEST(a_last_stream_without_samples_that_is_accepted)
{
    if (TEST_SLOWDOWN > 1)
        SKIP("libsndfile does not free a Vorbis stream whose headers are cut, and the leak check reports that");
    directory_enter();
    need(VORBIS);
    CHECK(make("a", VORBIS, 44100, 1, 44100 * 3) && make("b", VORBIS, 16000, 1, 16000 * 3));
    struct stat st;
    CHECK_EQ(stat("b", &st), 0);
    for (int bytes = 35; bytes < 1000; bytes += 400) {
        CHECK(unlink("c.ogg") == 0 || errno == ENOENT);
        join("c.ogg", "a", 1);
        join("c.ogg", "b", (bytes + 0.5) / (double)st.st_size);
        refused("c.ogg", "truncated: it ends in the middle of a page");
        struct tr_audio *a;
        const struct tr_audio_how how = { .path = "c.ogg", .accept_truncated = true };
        if (tr_audio_open_how(&a, &how, message) < 0)
            FAIL("%s", message);
        CHECK(labs(tr_audio_read(a, samples, MOST, message) - 3L * TR_RATE) < 8);
        CHECK_CONTAINS(tr_audio_warning(a), "c.ogg is truncated: it has an incomplete page, only 3.0 s could be read");
        tr_audio_close(&a);
    }
}

TEST(a_stream_that_cannot_be_read)
{
    directory_enter();
    need(VORBIS);
    CHECK(make("a.ogg", VORBIS, 44100, 1, 44100));
    join("c.ogg", "a.ogg", 1);
    struct made m = { 0 };
    put_first_page(&m, 77, "other", 5);
    put_page(&m, 77, 100, NULL, 100, 100);
    save(&m, "b");
    drop(&m);
    join("c.ogg", "b", 1);
    struct stat st;
    CHECK_EQ(stat("a.ogg", &st), 0);
    char where[80];
    snprintf(where, sizeof where, "c.ogg is damaged: the stream that begins at byte %lld cannot be read",
             (long long)st.st_size);
    refused("c.ogg", where);
}

/* Other bytes between and after the streams do not matter. */
TEST(bytes_that_are_no_pages)
{
    directory_enter();
    need(VORBIS);
    CHECK(make("a", VORBIS, 44100, 1, 44100 * 2) && make("b", VORBIS, 44100, 1, 44100 * 2));
    make_file("zeros", 3000);
    join("c.ogg", "a", 1);
    join("c.ogg", "zeros", 1);
    join("c.ogg", "b", 1);
    join("c.ogg", "zeros", 1);
    const long n = read_all("c.ogg");
    CHECK(labs(n - 4L * TR_RATE) < 8);
}

TEST_MAIN()
