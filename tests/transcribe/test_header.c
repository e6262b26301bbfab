/* SPDX-License-Identifier: MIT
 *
 * Headers of audio files, format by format, with files made byte by byte. test_audio.c compares headers that encoders
 * write with libsndfile.
 */
#include "transcribe/headers.h"

/* --- WAV ---------------------------------------------------------------------- */

TEST(a_plain_wav)
{
    struct made m = make_wav(&(struct wav_spec){ 1, 2, 44100, 16, 44100, 44100 });
    const struct tr_header h = of(&m);
    CHECK_STR(h.format, "WAV");
    CHECK_SECONDS(h, 0.25);
    CHECK_EQ(h.rate, 44100);
    CHECK_EQ(h.channels, 2);
    CHECK_EQ(h.data_at, 44);
    CHECK_EQ(h.bytes_wanted, m.size);
    drop(&m);
}

TEST(a_wav_that_lacks_its_end)
{
    struct made m = make_wav(&(struct wav_spec){ 1, 1, 16000, 16, 64000, 3200 });
    const struct tr_header h = of(&m);
    CHECK_SECONDS(h, 2.0);
    CHECK_EQ(h.bytes_wanted, 44 + 64000);
    drop(&m);
}

TEST(lengths_that_mean_not_known)
{
    static const uint32_t claimed[] = {
        0, 0xffffffff, 0xfffffff7, 0xffffffff - 44, 0x7fffffff, 0x7ffff000, 0x80000000
    };
    for (size_t i = 0; i < sizeof claimed / sizeof *claimed; i++) {
        struct made m = make_wav(&(struct wav_spec){ 1, 1, 16000, 16, claimed[i], 32000 });
        const struct tr_header h = of(&m);
        CHECK_SECONDS(h, 1.0);
        CHECK_EQ(h.bytes_wanted, 0);
        drop(&m);
    }
}

/* Lengths between the placeholders of the test above are valid. */
TEST(lengths_that_are_valid)
{
    static const uint32_t claimed[] = { 32002, 0x40000000, 0x7ffe0000, 0x80000002, 0xfff00000 };
    for (size_t i = 0; i < sizeof claimed / sizeof *claimed; i++) {
        struct made m = make_wav(&(struct wav_spec){ 1, 1, 16000, 16, claimed[i], 32000 });
        const struct tr_header h = of(&m);
        CHECK_EQ(h.bytes_wanted, 44 + (uint64_t)claimed[i]);
        CHECK_SECONDS(h, claimed[i] / 32000.0);
        drop(&m);
    }
}

TEST(an_empty_wav_plays_for_no_time)
{
    struct made m = make_wav(&(struct wav_spec){ 1, 1, 16000, 16, 0, 0 });
    const struct tr_header h = of(&m);
    CHECK_STR(h.format, "WAV");
    CHECK_SECONDS(h, 0);
    CHECK_EQ(h.bytes_wanted, 0);
    drop(&m);
}

TEST(chunks_before_the_data_and_of_odd_sizes)
{
    struct made m = { 0 };
    begin_riff(&m, "RIFF");
    put_chunk(&m, "LIST", "abc", 3);
    put_fmt(&m, &(struct wav_spec){ 7, 1, 8000, 8, 0, 0 });
    put_chunk(&m, "junk", NULL, 1001);
    put_chunk(&m, "data", NULL, 4000);
    const struct tr_header h = of(&m);
    CHECK_SECONDS(h, 0.5);
    CHECK_EQ(h.data_at, m.size - 4000);
    drop(&m);
}

TEST(sizes_beyond_four_gib)
{
    struct made m = { 0 };
    begin_riff(&m, "RF64");
    put_text(&m, "ds64");
    put_little(&m, 28, 4);
    put_little(&m, 0, 8);
    put_little(&m, (uint64_t)16000 * 2 * 1000000, 8);
    put(&m, NULL, 12);
    put_fmt(&m, &(struct wav_spec){ 1, 1, 16000, 16, 0, 0 });
    put_text(&m, "data");
    put_little(&m, 0xffffffff, 4);
    const struct tr_header h = of(&m);
    CHECK_SECONDS(h, 1e6);
    CHECK_EQ(h.bytes_wanted, m.size + (uint64_t)32000 * 1000000);
    drop(&m);
}

TEST(big_endian_numbers)
{
    struct made m = { 0 };
    put_text(&m, "RIFX");
    put_big(&m, 0, 4);
    put_text(&m, "WAVEfmt ");
    put_big(&m, 16, 4);
    put_big(&m, 1, 2);
    put_big(&m, 2, 2);
    put_big(&m, 48000, 4);
    put_big(&m, 48000 * 4, 4);
    put_big(&m, 4, 2);
    put_big(&m, 16, 2);
    put_text(&m, "data");
    put_big(&m, 48000, 4);
    put(&m, NULL, 48000);
    const struct tr_header h = of(&m);
    CHECK_SECONDS(h, 0.25);
    CHECK_EQ(h.channels, 2);
    drop(&m);
}

TEST(a_format_chunk_further_on)
{
    struct made m = { 0 };
    begin_riff(&m, "RIFF");
    put_extensible(&m, 1);
    put_chunk(&m, "data", NULL, 18 * 480);
    const struct tr_header h = of(&m);
    CHECK_SECONDS(h, 0.01);
    CHECK_EQ(h.channels, 6);
    drop(&m);
}

TEST(length_of_compressed_sound_from_the_fact_chunk_or_the_bytes)
{
    for (int fact = 0; fact < 2; fact++) {
        struct made m = { 0 };
        begin_riff(&m, "RIFF");
        put_fmt(&m, &(struct wav_spec){ 0x11, 1, 16000, 16, 0, 0 });
        if (fact)
            put_chunk(&m, "fact", "\x80\x3e\0", 4); /* 16000 */
        put_chunk(&m, "data", NULL, 8000);
        const struct tr_header h = of(&m);
        CHECK_SECONDS(h, fact ? 1.0 : 0.25);
        drop(&m);
    }
}

TEST(a_wav_of_nonsense)
{
    struct made m = make_wav(&(struct wav_spec){ 1, 0, 0, 0, 100, 100 });
    struct tr_header h = of(&m);
    CHECK_STR(h.format, "WAV");
    CHECK_SECONDS(h, 0);
    drop(&m);
    m = make_wav(&(struct wav_spec){ 1, 65535, 4000000000U, 16, 100, 100 });
    h = of(&m);
    CHECK_EQ(h.rate, 4000000000U);
    CHECK_EQ(h.channels, 65535);
    drop(&m);
    begin_riff(&m, "RIFF");
    for (int i = 0; i < 1000; i++)
        put_chunk(&m, "junk", NULL, 0);
    h = of(&m);
    CHECK_STR(h.format, "WAV");
    CHECK_EQ(h.data_at, 0);
    drop(&m);
}

/* --- FLAC --------------------------------------------------------------------- */

TEST(a_flac)
{
    struct made m = { 0 };
    put_flac(&m, 96000, 8, (uint64_t)96000 * 100000);
    const struct tr_header h = of(&m);
    CHECK_STR(h.format, "FLAC");
    CHECK_SECONDS(h, 1e5);
    CHECK_EQ(h.rate, 96000);
    CHECK_EQ(h.channels, 8);
    CHECK_EQ(h.bytes_wanted, 0);
    drop(&m);
}

TEST(a_flac_without_a_length)
{
    struct made m = { 0 };
    put_flac(&m, 44100, 1, 0);
    const struct tr_header h = of(&m);
    CHECK_STR(h.format, "FLAC");
    CHECK_SECONDS(h, 0);
    drop(&m);
}

TEST(a_flac_after_tags)
{
    struct made m = { 0 };
    put_id3(&m, 300);
    put_id3(&m, 0);
    put_flac(&m, 44100, 2, 441);
    const struct tr_header h = of(&m);
    CHECK_STR(h.format, "FLAC");
    CHECK_SECONDS(h, 0.01);
    drop(&m);
}

/* --- Ogg ---------------------------------------------------------------------- */

TEST(vorbis)
{
    struct made m = { 0 };
    put_vorbis(&m, 7, 2, 22050);
    put_page(&m, 7, 22050, NULL, 600, 600);
    put_page(&m, 7, 44100, NULL, 600, 600);
    const struct tr_header h = of(&m);
    CHECK_STR(h.format, "Ogg");
    CHECK_SECONDS(h, 2.0);
    CHECK_EQ(h.rate, 22050);
    CHECK_EQ(h.channels, 2);
    CHECK_EQ(h.bytes_wanted, 0);
    drop(&m);
}

TEST(opus_counts_at_48_khz_and_skips_its_beginning)
{
    struct made m = { 0 };
    put_opus(&m, 7, 1, 312);
    put_page(&m, 7, 96312, NULL, 100, 100);
    const struct tr_header h = of(&m);
    CHECK_SECONDS(h, 2.0);
    CHECK_EQ(h.rate, 48000);
    drop(&m);
}

TEST(a_last_page_without_a_time)
{
    struct made m = { 0 };
    put_vorbis(&m, 7, 1, 16000);
    put_page(&m, 7, 16000, NULL, 100, 100);
    put_page(&m, 7, -1, NULL, 60000, 60000);
    const struct tr_header h = of(&m);
    CHECK_SECONDS(h, 1.0);
    drop(&m);
}

TEST(the_audio_stream_is_used)
{
    struct made m = { 0 };
    put_page(&m, 1, 0, "\200theora", 7, 7);
    put_vorbis(&m, 2, 1, 16000);
    put_page(&m, 2, 32000, NULL, 100, 100);
    put_page(&m, 1, 999999, NULL, 100, 100);
    const struct tr_header h = of(&m);
    CHECK_STR(h.format, "Ogg");
    CHECK_SECONDS(h, 2.0);
    drop(&m);
}

TEST(an_ogg_that_ends_within_a_page)
{
    struct made m = { 0 };
    put_vorbis(&m, 7, 1, 16000);
    put_page(&m, 7, 16000, NULL, 1000, 1000);
    const size_t whole = m.size;
    put_page(&m, 7, 32000, NULL, 1000, 1000);
    const size_t all = m.size;
    for (size_t size = whole + 4; size < all; size++) {
        m.size = size;
        const struct tr_header h = of(&m);
        if (h.bytes_wanted <= size || h.bytes_wanted > all)
            FAIL("with %zu of %zu bytes: %zu are needed", size, all, (size_t)h.bytes_wanted);
    }
    m.size = whole;
    CHECK_EQ(of(&m).bytes_wanted, 0);
    m.size = all;
    CHECK_EQ(of(&m).bytes_wanted, 0);
    drop(&m);
}

TEST(an_ogg_without_sound)
{
    struct made m = { 0 };
    put_page(&m, 1, 0, "\200theora", 7, 7);
    const struct tr_header h = of(&m);
    is_none(&h);
    drop(&m);
}

/* --- MP3 ---------------------------------------------------------------------- */

TEST(frames_of_one_size)
{
    struct made m = { 0 };
    for (int i = 0; i < 100; i++)
        put_frame(&m);
    struct tr_header h = of(&m);
    CHECK_STR(h.format, "MP3");
    CHECK_SECONDS(h, 100 * 1152 / 44100.0);
    CHECK_EQ(h.rate, 44100);
    CHECK_EQ(h.channels, 2);
    CHECK_EQ(h.bytes_wanted, 0);
    drop(&m);
    for (int i = 0; i < 5; i++) { /* 32 kbit/s */
        put(&m, "\377\373\020\0", 4);
        put(&m, NULL, 100);
    }
    put_text(&m, "TAG"); /* ID3v1 data, longer than a frame, is not sound */
    put(&m, NULL, 125);
    h = of(&m);
    CHECK_SECONDS(h, 5 * 1152 / 44100.0);
    drop(&m);
}

TEST(frames_after_tags_and_zeros)
{
    struct made m = { 0 };
    put_id3(&m, 1000);
    put(&m, NULL, 777);
    for (int i = 0; i < 10; i++)
        put_frame(&m);
    const struct tr_header h = of(&m);
    CHECK_STR(h.format, "MP3");
    CHECK_EQ(h.data_at, 1010 + 777);
    CHECK_SECONDS(h, 10 * 1152 / 44100.0);
    drop(&m);
}

TEST(the_table_of_an_mp3_is_used)
{
    struct made m = { 0 }, t = xing_table(1000, 400000, 576, 1000);
    put_table_frame(&m, &t);
    put_frame(&m);
    put_frame(&m);
    const struct tr_header h = of(&m);
    CHECK_SECONDS(h, (1000 * 1152 - 1576) / 44100.0);
    CHECK_EQ(h.bytes_wanted, 400000);
    drop(&t);
    drop(&m);
}

TEST(a_vbri_table)
{
    struct made m = { 0 }, t = { 0 };
    put_text(&t, "VBRI");
    put(&t, NULL, 6);
    put_big(&t, 5000, 4);
    put_big(&t, 20, 4);
    put_table_frame(&m, &t);
    put_frame(&m);
    put_frame(&m);
    const struct tr_header h = of(&m);
    CHECK_SECONDS(h, 20 * 1152 / 44100.0);
    CHECK_EQ(h.bytes_wanted, 5000);
    drop(&t);
    drop(&m);
}

TEST(other_versions_and_layers)
{
    static const struct {
        uint8_t head[4];
        unsigned bytes, samples, rate, channels;
    } kinds[] = {
        { { 0xff, 0xf3, 0x84, 0xc0 }, 192, 576, 24000, 1 },  /* MPEG 2, III, 64 kbit/s, mono */
        { { 0xff, 0xe3, 0x48, 0x00 }, 288, 576, 8000, 2 },   /* MPEG 2.5, III, 32 kbit/s */
        { { 0xff, 0xfd, 0xa4, 0x00 }, 576, 1152, 48000, 2 }, /* MPEG 1, II, 192 kbit/s */
        { { 0xff, 0xff, 0x98, 0x00 }, 432, 384, 32000, 2 },  /* MPEG 1, I, 288 kbit/s */
        { { 0xff, 0xfb, 0x92, 0x00 }, 418, 1152, 44100, 2 }, /* with a byte of padding */
    };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct made m = { 0 };
        for (int i = 0; i < 5; i++) {
            put(&m, kinds[k].head, 4);
            put(&m, NULL, kinds[k].bytes - 4);
        }
        const struct tr_header h = of(&m);
        CHECK_STR(h.format, "MP3");
        CHECK_SECONDS(h, 5.0 * kinds[k].samples / kinds[k].rate);
        CHECK_EQ(h.rate, kinds[k].rate);
        CHECK_EQ(h.channels, kinds[k].channels);
        drop(&m);
    }
}

TEST(bytes_that_only_look_like_a_frame)
{
    struct made m = { 0 };
    put(&m, "\377\373\220\0", 4);
    put(&m, NULL, 5000);
    struct tr_header h = of(&m);
    is_none(&h);
    m.size = 0;
    put_frame(&m);
    put_frame(&m);
    put(&m, NULL, 5000);
    h = of(&m);
    is_none(&h);
    drop(&m);
}

TEST_MAIN()
