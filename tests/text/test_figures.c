/* Figures with their units, and text of unknown origin for a terminal. */
#include "base/text/figures.h"
#include "base/text/printable.h"

#include "support/test.h"

static const char *seconds(double s)
{
    static char out[GD__TEXT_FIGURE];
    gd__text_seconds(out, s);
    return out;
}

TEST(seconds_get_a_suitable_unit)
{
    static const struct {
        double seconds;
        const char *text;
    } table[] = {
        { 0, "0s" },
        { -1, "0s" },
        { 4.26e-6, "4.3us" },
        { 850e-6, "850us" },
        { 0.9994e-3, "999us" },
        { 0.9996e-3, "1.0ms" },
        { 1.24e-3, "1.2ms" },
        { 45.14e-3, "45.1ms" },
        { 123.4e-3, "123ms" },
        { 0.99949, "999ms" },
        { 0.9996, "1.0s" },
        { 4.54, "4.5s" },
        { 59.94, "59.9s" },
        { 59.96, "1m00s" },
        { 185, "3m05s" },
        { 185.4, "3m05s" },
        { 3599.4, "59m59s" },
        { 3599.6, "1h00m" },
        { 7380, "2h03m" },
        { 7439.4, "2h03m" },
        { 7439.6, "2h04m" },
        { 86400 - 0.6, "23h59m" },
        { 86400 - 0.4, "1d00h" },
        { 86400 * 4 + 7 * 3600, "4d07h" },
        { 8.64e14, "1e+10d" },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        CHECK_STR(seconds(table[i].seconds), table[i].text);
}

TEST(rates_are_per_second_minute_or_hour)
{
    static const struct {
        double rate;
        const char *text;
    } table[] = {
        { 0, "0.0 files/h" },          { 0.1 / 3600, "0.1 files/h" }, { 12.4 / 3600, "12 files/h" },
        { 1.0 / 60, "1.0 files/min" }, { 32.0 / 60, "32 files/min" }, { 0.996, "1.0 files/s" },
        { 5.44, "5.4 files/s" },       { 9.96, "10 files/s" },        { 412345.6, "412346 files/s" },
        { 2.5e12, "2.5e+12 files/s" },
    };
    char out[64];
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        gd__text_rate(out, sizeof out, table[i].rate, "files");
        CHECK_STR(out, table[i].text);
    }
}

TEST(one_is_singular)
{
    CHECK_EQ(gd__text_noun(1, "files"), 4);
    CHECK_EQ(gd__text_noun(0, "files"), 5);
    CHECK_EQ(gd__text_noun(2, "files"), 5);
    CHECK_EQ(gd__text_noun(1, "audio"), 5);
    CHECK_EQ(gd__text_noun(1, "s"), 1);
}

static const char *line_within(size_t room, const char *bytes, size_t size)
{
    static char out[512];
    memset(out, '#', sizeof out);
    const size_t length = gd__text_line(out, room, bytes, size);
    CHECK_EQ(length, strlen(out));
    CHECK_LT(length, room);
    CHECK_EQ(out[room], '#');
    return out;
}

static const char *line(const char *text)
{
    return line_within(300, text, strlen(text));
}

TEST(the_first_line_that_is_not_empty_is_used)
{
    CHECK_STR(line("one\ntwo"), "one");
    CHECK_STR(line("\n \r\n  one \r\ntwo"), "one");
    CHECK_STR(line(""), "");
    CHECK_STR(line(" \n\t\n"), "");
    CHECK_STR(line("a\tb"), "a b");
}

static const char *cause(size_t room, const char *message)
{
    static char out[128];
    const size_t length = gd__text_cause(out, room, message);
    CHECK_EQ(length, strlen(out));
    CHECK_LT(length, room);
    return out;
}

TEST(the_cause_of_an_error_is_in_its_first_line_or_its_last)
{
    CHECK_STR(cause(100, "one\ntwo"), "one");
    CHECK_STR(cause(100, "exited; its last output:\na\nno model\n"), "exited; its last output: no model");
    CHECK_STR(cause(100, "Traceback (most recent call last):\n  File x\nOSError: no model\n"), "OSError: no model");
    CHECK_STR(cause(100, "a colon:"), "a colon:");
    CHECK_STR(cause(100, "a colon:\n \n"), "a colon:");
    CHECK_STR(cause(100, ""), "");
    CHECK_STR(cause(14, "123456:\nmuch more"), "123456:");
    CHECK_STR(cause(17, "123456:\nmuch more"), "123456: much ...");
}

TEST(control_characters_are_made_visible)
{
    CHECK_STR(line("a\x1b[2Jb\x07\x7f"), "a\\x1b[2Jb\\x07\\x7f");
    CHECK_STR(line_within(300, "a\0b", 3), "a\\x00b");
    CHECK_STR(line("\xc2\x9b"), "\\xc2\\x9b"); /* a C1 control */
}

TEST(valid_utf8_is_kept_and_other_bytes_are_escaped)
{
    CHECK_STR(line("\xd0\xb6 \xe4\xb8\xad \xf0\x9f\x8e\xb5"), "\xd0\xb6 \xe4\xb8\xad \xf0\x9f\x8e\xb5");
    CHECK_STR(line("\xff\xc3"), "\\xff\\xc3");
    CHECK_STR(line("\xc0\xaf"), "\\xc0\\xaf");                   /* overlong */
    CHECK_STR(line("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");          /* likewise */
    CHECK_STR(line("\xed\xa0\x80"), "\\xed\\xa0\\x80");          /* a surrogate */
    CHECK_STR(line("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80"); /* above the last character */
    CHECK_STR(line("\xe4\xb8"), "\\xe4\\xb8");                   /* cut off */
    CHECK_STR(line("\xe4\xb8\x41"), "\\xe4\\xb8\x41");           /* not continued */
    CHECK_STR(line("\xf4\x8f\xbf\xbf\xc2\xa0"),
              "\xf4\x8f\xbf\xbf\xc2\xa0"); /* the last Unicode character; a character that is not a C1 control */
}

TEST(nothing_is_read_past_the_end)
{
    CHECK_STR(line_within(300, "\xe4\xb8\xad", 2), "\\xe4\\xb8");
    CHECK_STR(line_within(300, "abc", 2), "ab");
}

TEST(a_long_line_is_cut_between_characters)
{
    CHECK_STR(line_within(9, "12345678", 8), "12345678");
    CHECK_STR(line_within(9, "123456789", 9), "12345...");
    CHECK_STR(line_within(9, "1234\xd0\xb6xxxx", 10), "1234...");
    CHECK_STR(line_within(9, "123\x01xxxx", 8), "123...");
    static char large[100000];
    memset(large, 'x', sizeof large);
    CHECK_STR(line_within(9, large, sizeof large), "xxxxx...");
}

static const char *name_within(size_t room, const char *bytes)
{
    static char out[512];
    memset(out, '#', sizeof out);
    const size_t length = gd__text_name(out, room, bytes, strlen(bytes));
    CHECK_EQ(length, strlen(out));
    CHECK_LT(length, room);
    CHECK_EQ(out[room], '#');
    return out;
}

TEST(a_long_name_keeps_its_end)
{
    CHECK_STR(name_within(9, "12345678"), "12345678");
    CHECK_STR(name_within(9, "123456789"), "...56789");
    CHECK_STR(name_within(9, "xxxx\xd0\xb6"
                             "6789"),
              "...6789");
    CHECK_STR(name_within(9, "aaaaa\x01"
                             "b"),
              "...\\x01b");
    char large[10001];
    memset(large, '/', 10000);
    memcpy(large + 9995, "a.wav", 6);
    CHECK_STR(name_within(12, large), "...///a.wav");
}

TEST(characters_that_change_the_direction_are_escaped)
{
    static const char text[] = "a\342\200\256b\342\201\246\342\200\250c\342\200\246";
    char out[64];
    gd__text_line(out, sizeof out, text, strlen(text));
    CHECK_STR(out, "a\\xe2\\x80\\xaeb\\xe2\\x81\\xa6\\xe2\\x80\\xa8c\342\200\246");
}

/* The room for a label is small, and GPUs may have any numbers. */
TEST(gpus_of_a_worker)
{
    static const struct {
        size_t n, room;
        const char *text;
    } rows[] = {
        { 1, 24, "7" }, { 2, 24, "7+10" }, { 3, 8, "7+10+11" }, { 3, 7, "7+..+1" }, { 4, 9, "7+..+12" }, { 1, 2, "7" },
    };
    static const int64_t gpus[] = { 7, 10, 11, 12 };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[24];
        CHECK_STR(gd__text_gpus(out, rows[i].room, gpus, rows[i].n), rows[i].text);
    }
}

TEST_MAIN()
