/* SPDX-License-Identifier: MIT
 *
 * Audio files as 16 kHz mono samples: files written by libsndfile and ffmpeg are read with the right length, frequency
 * and loudness (sounds.h has the tolerances), and headers agree with libsndfile.
 */
#include "transcribe/sounds.h"

/* --- formats ------------------------------------------------------------------ */

TEST(wav_of_each_kind_of_sample)
{
    static const int kinds[] = { SF_FORMAT_PCM_U8, SF_FORMAT_PCM_16, SF_FORMAT_PCM_24, SF_FORMAT_PCM_32,
                                 SF_FORMAT_FLOAT,  SF_FORMAT_DOUBLE, SF_FORMAT_ULAW,   SF_FORMAT_ALAW };
    directory_enter();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char what[32];
        snprintf(what, sizeof what, "kind %#x", kinds[i]);
        CHECK(make("a.wav", SF_FORMAT_WAV | kinds[i], 16000, 1, 32000));
        CHECK_EQ(read_all("a.wav"), 32000);
        check_sine(what, 32000, 0.01);
    }
}

TEST(wav_with_compression)
{
    static const int kinds[] = { SF_FORMAT_IMA_ADPCM, SF_FORMAT_MS_ADPCM, SF_FORMAT_GSM610 };
    directory_enter();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        CHECK(make("a.wav", SF_FORMAT_WAV | kinds[i], 16000, 1, 32000));
        const long n = read_all("a.wav");
        CHECK(labs(n - 32000) < 2100); /* whole blocks */
        check_sine("compressed", n, 0.1);
    }
}

TEST(other_formats)
{
    static const struct {
        int format;
        const char *name;
    } formats[] = {
        { SF_FORMAT_FLAC | SF_FORMAT_PCM_16, "FLAC" },
        { SF_FORMAT_FLAC | SF_FORMAT_PCM_24, "FLAC" },
        { SF_FORMAT_AIFF | SF_FORMAT_PCM_16, "AIFF" },
        { SF_FORMAT_AU | SF_FORMAT_PCM_16, "AU" },
        { SF_FORMAT_CAF | SF_FORMAT_PCM_24, "CAF" },
        { SF_FORMAT_W64 | SF_FORMAT_FLOAT, "W64" },
        { SF_FORMAT_RF64 | SF_FORMAT_PCM_16, "WAV" },
        { SF_FORMAT_WAVEX | SF_FORMAT_PCM_24, "WAV" },
        { SF_ENDIAN_BIG | SF_FORMAT_WAV | SF_FORMAT_PCM_16, "WAV" },
    };
    directory_enter();
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (!make("a", formats[i].format, 16000, 2, 16000))
            FAIL("can't write %#x", formats[i].format);
        struct tr_audio *a = opened("a");
        CHECK_STR(tr_audio_format(a), formats[i].name);
        CHECK(tr_audio_seconds(a) == 1.0);
        CHECK_EQ(tr_audio_channels(a), 2);
        CHECK_EQ(tr_audio_rate(a), 16000);
        tr_audio_close(&a);
        CHECK_EQ(read_all("a"), 16000);
        check_sine(formats[i].name, 16000, 0.01);
    }
}

static void check_lossy(const char *what, int format, int rate, int channels, long slack)
{
    directory_enter();
    if (!make("a", format, rate, channels, 3L * rate))
        SKIP("this libsndfile cannot write this format");
    struct tr_audio *a = opened("a");
    CHECK_EQ(tr_audio_channels(a), channels);
    CHECK(fabs(tr_audio_seconds(a) - 3) <= (double)slack / TR_RATE);
    tr_audio_close(&a);
    const long n = read_all("a");
    if (labs(n - 48000) > slack)
        FAIL("%s: %ld samples", what, n);
    check_sine(what, n, 0.1);
}

TEST(ogg_vorbis)
{
    check_lossy("Vorbis", SF_FORMAT_OGG | SF_FORMAT_VORBIS, 44100, 2, 1);
}

TEST(ogg_opus)
{
    check_lossy("Opus", SF_FORMAT_OGG | SF_FORMAT_OPUS, 48000, 2, 1);
}

TEST(mp3)
{
    check_lossy("MP3", MP3, 44100, 2, 1);
}

TEST(rates_and_channels)
{
    static const int rates[] = { 8000, 11025, 16000, 22050, 32000, 44100, 48000, 96000, 192000 };
    directory_enter();
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        for (int channels = 1; channels <= 2; channels++) {
            char what[32];
            snprintf(what, sizeof what, "%d Hz, %d", rates[i], channels);
            const long frames = 2L * rates[i] + 77;
            make_wav_file("a.wav", rates[i], channels, frames);
            struct tr_audio *a = opened("a.wav");
            CHECK_EQ(tr_audio_rate(a), rates[i]);
            tr_audio_close(&a);
            const long n = read_all("a.wav");
            if (fabs((double)n - (double)frames * TR_RATE / rates[i]) > 1)
                FAIL("%s: %ld samples of %ld frames", what, n, frames);
            check_sine(what, n, 0.01);
        }
    }
}

/* After resampling, a click is at the same position in the file. */
TEST(resampling_does_not_shift)
{
    directory_enter();
    SF_INFO info = { .samplerate = 48000, .channels = 1, .format = SF_FORMAT_WAV | SF_FORMAT_FLOAT };
    SNDFILE *f = sf_open("a.wav", SFM_WRITE, &info);
    float *in = calloc(48000, sizeof *in);
    CHECK(f && in);
    in[24000] = 1;
    CHECK_EQ(sf_writef_float(f, in, 48000), 48000);
    CHECK_EQ(sf_close(f), 0);
    free(in);
    CHECK_EQ(read_all("a.wav"), 16000);
    long loudest = 0;
    for (long i = 0; i < 16000; i++)
        loudest = fabsf(samples[i]) > fabsf(samples[loudest]) ? i : loudest;
    CHECK_EQ(loudest, 8000);
}

TEST(channels_are_averaged)
{
    directory_enter();
    for (int channels = 2; channels <= 1024; channels *= 8) {
        SF_INFO info = { .samplerate = 16000, .channels = channels, .format = SF_FORMAT_WAV | SF_FORMAT_FLOAT };
        SNDFILE *f = sf_open("a.wav", SFM_WRITE, &info);
        float *frame = calloc((size_t)channels, sizeof *frame);
        CHECK(f && frame);
        for (int i = 0; i < channels; i++)
            frame[i] = (float)i / (float)channels;
        for (int i = 0; i < 100; i++)
            CHECK_EQ(sf_writef_float(f, frame, 1), 1);
        CHECK_EQ(sf_close(f), 0);
        free(frame);
        CHECK_EQ(read_all("a.wav"), 100);
        const double wanted = 0.5 - 0.5 / channels;
        for (int i = 0; i < 100; i++)
            CHECK(fabs(samples[i] - wanted) < 1e-6);
    }
}

/* One channel after the other, at a rate that is kept and at one that is resampled. */
TEST(one_channel_of_several)
{
    directory_enter();
    for (int rate = 16000; rate <= 48000; rate *= 3) {
        SF_INFO info = { .samplerate = rate, .channels = 3, .format = SF_FORMAT_WAV | SF_FORMAT_FLOAT };
        SNDFILE *f = sf_open("a.wav", SFM_WRITE, &info);
        CHECK(f != NULL);
        for (int i = 0; i < rate; i++)
            CHECK_EQ(sf_writef_float(f, (const float[]){ 0.25F, -0.5F, NAN }, 1), 1);
        CHECK_EQ(sf_close(f), 0);
        for (unsigned channel = 1; channel <= 3; channel++) {
            static float room[16001];
            static const float wanted[] = { 0.25F, -0.5F, 0 };
            const struct tr_audio_how how = { .path = "a.wav", .channel = channel };
            struct tr_audio *a;
            CHECK_EQ(tr_audio_open_how(&a, &how, message), 0);
            CHECK_EQ(tr_audio_channels(a), 3);
            CHECK_EQ(tr_audio_read(a, room, 16001, message), 16000);
            for (int i = 1000; i < 15000; i++) /* resampling rounds the ends off */
                CHECK(fabsf(room[i] - wanted[channel - 1]) < 1e-3F);
            tr_audio_close(&a);
        }
    }
}

TEST(a_channel_that_a_file_lacks)
{
    struct tr_audio *a;
    directory_enter();
    make_wav_file("a.wav", 16000, 2, 1600);
    const struct tr_audio_how how = { .path = "a.wav", .channel = 3 };
    CHECK_EQ(tr_audio_open_how(&a, &how, message), TR_UNFIT);
    CHECK_STR(message, "a.wav has no channel 3: it has 2");
}

TEST(nan_samples_are_silence)
{
    static const float bad[] = { NAN, INFINITY, -INFINITY, 3e38F, -3e38F };
    directory_enter();
    for (int rate = 16000; rate <= 48000; rate *= 3) {
        SF_INFO info = { .samplerate = rate, .channels = 1, .format = SF_FORMAT_WAV | SF_FORMAT_FLOAT };
        SNDFILE *f = sf_open("a.wav", SFM_WRITE, &info);
        CHECK(f != NULL);
        for (int i = 0; i < rate; i++)
            CHECK_EQ(sf_writef_float(f, i % 100 ? &(float){ 0.25F } : &bad[i / 100 % 5], 1), 1);
        CHECK_EQ(sf_close(f), 0);
        CHECK_EQ(read_all("a.wav"), 16000);
        for (int i = 0; i < 16000; i++)
            CHECK(isfinite(samples[i]) && fabsf(samples[i]) <= 1);
        CHECK(rate != 16000 || (samples[100] == 0 && samples[101] == 0.25F));
    }
}

TEST(very_short_files)
{
    directory_enter();
    for (int frames = 1; frames < 200; frames += frames < 10 ? 1 : 37) {
        make_wav_file("a.wav", 16000, 1, frames);
        CHECK_EQ(read_all("a.wav"), frames);
        make_wav_file("a.wav", 44100, 2, frames);
        CHECK(fabs((double)read_all("a.wav") - frames * 16000 / 44100.0) <= 1);
        CHECK(make("a.flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16000, 1, frames));
        CHECK_EQ(read_all("a.flac"), frames);
    }
}

TEST(headers_agree_with_libsndfile)
{
    static const int formats[] = {
        SF_FORMAT_WAV | SF_FORMAT_PCM_U8,
        SF_FORMAT_WAV | SF_FORMAT_PCM_16,
        SF_FORMAT_WAV | SF_FORMAT_PCM_24,
        SF_FORMAT_WAV | SF_FORMAT_FLOAT,
        SF_FORMAT_WAV | SF_FORMAT_DOUBLE,
        SF_FORMAT_WAV | SF_FORMAT_ULAW,
        SF_FORMAT_WAV | SF_FORMAT_IMA_ADPCM,
        SF_FORMAT_WAV | SF_FORMAT_MS_ADPCM,
        SF_FORMAT_WAVEX | SF_FORMAT_PCM_24,
        SF_FORMAT_RF64 | SF_FORMAT_PCM_16,
        SF_FORMAT_FLAC | SF_FORMAT_PCM_16,
        SF_FORMAT_OGG | SF_FORMAT_VORBIS,
        SF_FORMAT_OGG | SF_FORMAT_OPUS,
        SF_ENDIAN_BIG | SF_FORMAT_WAV | SF_FORMAT_PCM_16,
        MP3,
    };
    directory_enter();
    int compared = 0;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        for (int channels = 1; channels <= 2; channels++) {
            if (!make("a", formats[i], 48000, channels, 48000 + 4321))
                continue;
            SF_INFO info = { 0 };
            SNDFILE *f = sf_open("a", SFM_READ, &info);
            CHECK(f != NULL && info.samplerate == 48000);
            struct tr_header h;
            CHECK_EQ(tr_header_read(&h, "a"), 0);
            CHECK(h.format != NULL);
            if (fabs(h.seconds * 48000 - (double)info.frames) > 0.01)
                FAIL("%#x: %.2f frames, libsndfile says %ld", formats[i], h.seconds * 48000, (long)info.frames);
            CHECK_EQ(h.rate, info.samplerate);
            CHECK_EQ(h.channels, info.channels);
            sf_close(f);
            compared++;
        }
    }
    CHECK_GE(compared, 20);
}

/* --- files that ffmpeg writes ------------------------------------------------------------ */

TEST(formats_that_only_ffmpeg_reads)
{
    static const char *const names[] = { "a.m4a", "a.wma", "a.mka", "a.mkv", "a.aac", "a.mp4", "a.webm" };
    directory_enter();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        encode(names[i]);
        if (!needs_ffmpeg(names[i]))
            FAIL("%s", message);
        const long n = read_all(names[i]);
        if (labs(n - 64000) > 2048)
            FAIL("%s: %ld samples", names[i], n);
        check_sine(names[i], n, 0.1);
    }
}

/* FLAC frames with 8 channels are longer than one read. */
TEST(frames_longer_than_one_read)
{
    directory_enter();
    encode("-ac 8 -c:a flac a.mka");
    if (!needs_ffmpeg("a.mka"))
        FAIL("%s", message);
    CHECK(labs(read_all("a.mka") - 64000) <= 1);
}

/* Raw AAC does not store its length. An estimate from the bit rate does not count as the length. */
TEST(a_guess_is_not_a_length)
{
    directory_enter();
    encode("a.aac");
    if (!needs_ffmpeg("a.aac"))
        FAIL("%s", message);
    struct tr_audio *a;
    CHECK_EQ(open_ahead(&a, "a.aac", 1), 0);
    CHECK(tr_audio_seconds(a) == 0);
    CHECK(labs(tr_audio_read(a, samples, MOST, message) - 64000) < 2048);
    tr_audio_close(&a);
}

TEST(films_with_and_without_sound)
{
    directory_enter();
    encode("-f lavfi -i color=c=black:s=64x64:d=4 -map 0:a -map 1:v -c:v mpeg4 a.mkv");
    if (!needs_ffmpeg("a.mkv"))
        FAIL("%s", message);
    CHECK(labs(read_all("a.mkv") - 64000) < 2048);
    encode("-f lavfi -i color=c=black:s=64x64:d=1 -map 1:v -c:v mpeg4 mute.mkv");
    refused("mute.mkv", "it contains no sound");
}

TEST(a_truncated_m4a)
{
    directory_enter();
    encode("-movflags +faststart a.m4a");
    if (!needs_ffmpeg("a.m4a"))
        FAIL("%s", message);
    struct stat st;
    CHECK_EQ(stat("a.m4a", &st), 0);
    CHECK_EQ(truncate("a.m4a", st.st_size / 2), 0);
    refused("a.m4a", "truncated: its header says 4.0 s, the file holds");
}

/* The files that a playlist names are not opened. */
TEST(a_playlist_is_not_audio)
{
    directory_enter();
    make_wav_file("other.wav", 16000, 1, 16000);
    struct made m = { 0 };
    put_text(&m, "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nother.wav\n#EXT-X-ENDLIST\n");
    save(&m, "list.m3u8");
    refused("list.m3u8", "is not an audio file");
    m.size = 0;
    put_text(&m, "ffconcat version 1.0\nfile other.wav\n");
    save(&m, "list.txt");
    refused("list.txt", "is not an audio file");
    drop(&m);
}

/* The first frames are long and the others are short. From the bit rate of the first frame, the file seems to last a
 * second or two. libsndfile stops reading there. */
TEST(an_mp3_without_a_table_is_read_to_its_end)
{
    directory_enter();
    encode("-af afade=t=out:st=0.5:d=0.1 -q:a 2 -write_xing 0 -id3v2_version 0 a.mp3");
    struct tr_header h;
    CHECK_EQ(tr_header_read(&h, "a.mp3"), 0);
    CHECK(h.seconds < 3);
    CHECK(labs(read_all("a.mp3") - 64000) < 2 * 1152);
    struct tr_audio *a = opened("a.mp3");
    CHECK(fabs(tr_audio_seconds(a) - 4) < 0.1); /* known, because opening has decoded the whole file */
    tr_audio_close(&a);
}

TEST(an_mp3_with_something_else_in_the_middle)
{
    directory_enter();
    struct made m = { 0 };
    for (int i = 0; i < 100; i++) {
        put_frame(&m);
        if (i == 50)
            put(&m, NULL, 50000);
    }
    save(&m, "a.mp3");
    drop(&m);
    const long n = read_all("a.mp3"), wanted = 100L * 1152 * 16000 / 44100;
    if (labs(n - wanted) > 3 * 1152)
        FAIL("%ld samples, not %ld", n, wanted);
}

TEST(a_truncated_mp3)
{
    directory_enter();
    encode("-b:a 128k a.mp3");
    CHECK(labs(read_all("a.mp3") - 64000) <= 1);
    struct stat st;
    CHECK_EQ(stat("a.mp3", &st), 0);
    CHECK_EQ(truncate("a.mp3", st.st_size / 2), 0);
    refused("a.mp3", "truncated: its header says 4.0 s, the file holds 2.0 s");
}

TEST_MAIN()
