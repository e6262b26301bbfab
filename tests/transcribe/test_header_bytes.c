/* SPDX-License-Identifier: MIT
 *
 * Headers of audio files with any bytes: no byte is read beyond the end, data further on in a file is found, and a file
 * that can't be read is an error.
 */
#include <sys/mman.h>

#include "transcribe/headers.h"

/* --- any ---------------------------------------------------------------------- */

TEST(bytes_that_are_not_audio)
{
    static const char *const texts[] = { "", "R", "RIFF", "hello, world\n", "fLa", "OggS", "ID3", "\377\373", "{}\n" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct made m = { 0 };
        put_text(&m, texts[i]);
        const struct tr_header h = of(&m);
        is_none(&h);
        drop(&m);
    }
}

enum { KINDS = 9 };

static struct made make_kind(int kind)
{
    struct made m = { 0 }, t;
    switch (kind) {
    case 0:
        return make_wav(&(struct wav_spec){ 1, 2, 44100, 16, 500, 500 });
    case 1:
        begin_riff(&m, "RF64");
        put_chunk(&m, "ds64", NULL, 28);
        put_extensible(&m, 3);
        put_chunk(&m, "fact", NULL, 4);
        put_chunk(&m, "data", NULL, 100);
        break;
    case 2:
        put_id3(&m, 30);
        put_flac(&m, 44100, 2, 1000);
        break;
    case 3:
        put_vorbis(&m, 7, 2, 44100);
        put_page(&m, 7, 999, NULL, 600, 600);
        break;
    case 4:
        put_opus(&m, 7, 2, 312);
        put_page(&m, 7, -1, NULL, 300, 300);
        put_page(&m, 7, 999, NULL, 3, 3);
        break;
    case 5:
        put_page(&m, 7, 0, "\177FLAC\1\0\0\1fLaC\0\0\0\42", 51, 17);
        put(&m, NULL, 34);
        break;
    case 6:
        put_page(&m, 7, 0, "Speex   ", 80, 8);
        put(&m, NULL, 72);
        break;
    case 7:
        t = xing_table(10, 1000, 1, 1);
        put_id3(&m, 5);
        put_table_frame(&m, &t);
        put_frame(&m);
        drop(&t);
        break;
    default:
        for (int i = 0; i < 4; i++)
            put_frame(&m);
        put_text(&m, "TAG");
        put(&m, NULL, 125);
    }
    return m;
}

/* n bytes followed by a page that can't be read. */
static uint8_t *before_a_wall(const uint8_t *bytes, size_t n)
{
    enum { WALL = 65536 };
    static uint8_t *place[2];
    static int turn;
    turn ^= 1;
    if (!place[turn]) {
        place[turn] = mmap(NULL, 2 * WALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(place[turn] != MAP_FAILED && mprotect(place[turn] + WALL, WALL, PROT_NONE) == 0);
    }
    CHECK_LE(n, WALL);
    memcpy(place[turn] + WALL - n, bytes, n);
    return place[turn] + WALL - n;
}

/* Parses every beginning of a file, with true and wrong lengths of the file. A read past the end crashes. */
TEST(beginnings_of_every_length)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct made m = make_kind(kind);
        for (size_t n = 0; n <= m.size; n++) {
            const uint64_t sizes[] = { n, m.size, 0, n / 2, n + 1, UINT64_MAX };
            const uint8_t *begin = before_a_wall(m.bytes, n);
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                struct tr_header h;
                tr_header_parse(&h, begin, n, NULL, 0, sizes[i]);
                CHECK(h.seconds >= 0 && isfinite(h.seconds));
                tr_header_parse(&h, begin, n, begin, n, sizes[i]);
                CHECK(h.seconds >= 0 && isfinite(h.seconds));
            }
        }
        drop(&m);
    }
}

TEST(ends_of_every_length)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct made m = make_kind(kind);
        for (size_t n = 0; n <= m.size; n++) {
            const size_t cut = m.size - n / 2;
            const uint8_t *begin = before_a_wall(m.bytes, cut), *end = before_a_wall(m.bytes + m.size - n, n);
            struct tr_header h;
            tr_header_parse(&h, begin, cut, end, n, m.size);
            CHECK(h.seconds >= 0 && isfinite(h.seconds));
        }
        drop(&m);
    }
}

TEST(every_byte_changed)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct made m = make_kind(kind);
        for (size_t n = 0; n < m.size * 3; n++) {
            static const uint8_t wrong[] = { 0, 0x7f, 0xff };
            const uint8_t right = m.bytes[n / 3];
            m.bytes[n / 3] = wrong[n % 3];
            const uint8_t *bytes = before_a_wall(m.bytes, m.size);
            struct tr_header h;
            tr_header_parse(&h, bytes, m.size, bytes, m.size, m.size);
            CHECK(h.seconds >= 0 && isfinite(h.seconds));
            m.bytes[n / 3] = right;
        }
        drop(&m);
    }
}

TEST(a_beginning_and_an_end_are_enough)
{
    struct made m = { 0 };
    put_vorbis(&m, 7, 1, 16000);
    for (int i = 1; i <= 100; i++)
        put_page(&m, 7, 16000 * i, NULL, 2000, 2000);
    struct tr_header h;
    tr_header_parse(&h, m.bytes, 100, m.bytes + m.size - 3000, 3000, m.size);
    CHECK_STR(h.format, "Ogg");
    CHECK_SECONDS(h, 100.0);
    drop(&m);
}

/* --- files -------------------------------------------------------------------- */

static struct tr_header saved(const struct made *m)
{
    struct tr_header h;
    save(m, "file");
    CHECK_EQ(tr_header_read(&h, "file"), 0);
    return h;
}

TEST(a_file_of_each_kind_reads_as_its_bytes)
{
    directory_enter();
    for (int kind = 0; kind < KINDS; kind++) {
        struct made m = make_kind(kind);
        const struct tr_header bytes = of(&m), file = saved(&m);
        CHECK_STR(file.format, bytes.format);
        CHECK_SECONDS(file, bytes.seconds);
        CHECK_EQ(file.bytes_wanted, bytes.bytes_wanted);
        drop(&m);
    }
}

/* Data after the first few KiB is found if it is needed. */
TEST(data_further_on_is_read)
{
    directory_enter();
    struct made m = { 0 };
    begin_riff(&m, "RIFF");
    put_chunk(&m, "JUNK", NULL, 100001);
    put_fmt(&m, &(struct wav_spec){ 1, 1, 16000, 16, 0, 0 });
    put_chunk(&m, "LIST", NULL, 50000);
    put_chunk(&m, "data", NULL, 16000);
    struct tr_header h = saved(&m);
    CHECK_SECONDS(h, 0.5);
    m.size = 0;
    put_id3(&m, 300000); /* a picture */
    for (int i = 0; i < 100; i++)
        put_frame(&m);
    h = saved(&m);
    CHECK_STR(h.format, "MP3");
    CHECK_SECONDS(h, 100 * 1152 / 44100.0);
    m.size = 0;
    put_vorbis(&m, 7, 1, 16000);
    put_page(&m, 7, 48000, NULL, 100, 100);
    put_page(&m, 7, -1, NULL, 60000, 60000);
    h = saved(&m);
    CHECK_SECONDS(h, 3.0);
    drop(&m);
}

TEST(the_offset_of_an_open_file_does_not_change)
{
    directory_enter();
    struct made m = make_kind(0);
    struct tr_header h;
    save(&m, "file");
    const int fd = open("file", O_RDONLY | O_CLOEXEC);
    CHECK_EQ(lseek(fd, 17, SEEK_SET), 17);
    CHECK_EQ(tr_header_read_fd(&h, fd), 0);
    CHECK_STR(h.format, "WAV");
    CHECK_EQ(lseek(fd, 0, SEEK_CUR), 17);
    close(fd);
    drop(&m);
}

static void fails(const char *path, int wanted)
{
    struct tr_header h = { .format = "old" };
    errno = 0;
    CHECK_EQ(tr_header_read(&h, path), -1);
    CHECK_EQ(errno, wanted);
    is_none(&h);
}

TEST(files_that_can_not_be_read)
{
    directory_enter();
    fails("none", ENOENT);
    CHECK_EQ(mkdir("folder", 0755), 0);
    fails("folder", EISDIR);
    CHECK_EQ(mkfifo("fifo", 0644), 0);
    fails("fifo", EINVAL); /* without waiting for a writer */
    fails("/dev/zero", EINVAL);
    make_file("secret", 100);
    CHECK_EQ(chmod("secret", 0), 0);
    if (getuid() == 0)
        CHECK_EQ(seteuid(65534), 0);
    fails("secret", EACCES);
    CHECK_EQ(seteuid(getuid()), 0);
}

TEST(an_empty_file_is_neither_audio_nor_an_error)
{
    directory_enter();
    make_file("empty", 0);
    struct tr_header h;
    CHECK_EQ(tr_header_read(&h, "empty"), 0);
    is_none(&h);
}

TEST(no_descriptor_is_left_open)
{
    directory_enter();
    struct made m = make_kind(3);
    save(&m, "file");
    struct tr_header h;
    const int before = dup(0);
    close(before);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(tr_header_read(&h, "file"), 0);
    const int after = dup(0);
    CHECK_EQ(after, before);
    close(after);
    drop(&m);
}

TEST_MAIN()
