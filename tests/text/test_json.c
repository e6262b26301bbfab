/* JSON: valid and invalid texts, the position of members, strings that are written and read back. */
#include "base/text/json.h"
#include "base/text/json_write.h"

#include <gpu_dispatch/error.h>

#include "support/test.h"

/* A string literal with its size. It may contain NULs. */
struct text {
    const char *bytes;
    size_t size;
};
#define T(literal)                     \
    {                                  \
        (literal), sizeof(literal) - 1 \
    }
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Scans a copy that is exactly as large as the text, so that ASan detects a read past its end. */
static int scan(const char *bytes, size_t size, struct gd__json *top)
{
    char *copy = malloc(size ? size : 1);
    CHECK(copy);
    memcpy(copy, bytes, size);
    const int rc = gd__json_scan(copy, size, top);
    if (rc == 0)
        top->at = bytes + (top->at - copy);
    free(copy);
    return rc;
}

static void accept_all(const struct text *texts, size_t n, enum gd__json_kind kind)
{
    for (size_t i = 0; i < n; i++) {
        struct gd__json top;
        if (scan(texts[i].bytes, texts[i].size, &top) != 0)
            FAIL("%s was refused: %s", texts[i].bytes, gd_error_text());
        CHECK_EQ(top.kind, kind);
    }
}

static void refuse_all(const struct text *texts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct gd__json top;
        if (scan(texts[i].bytes, texts[i].size, &top) != GD_E_INVALID)
            FAIL("text %zu, %s, was accepted", i, texts[i].bytes);
        CHECK_CONTAINS(gd_error_text(), " at byte ");
    }
}

TEST(true_false_and_null_are_values)
{
    static const struct text null[] = { T("null"), T(" null"), T("null\n"), T("\r\n\t null \t") };
    static const struct text yes[] = { T("true") }, no[] = { T("false") };
    accept_all(null, COUNT(null), GD__JSON_NULL);
    accept_all(yes, 1, GD__JSON_TRUE);
    accept_all(no, 1, GD__JSON_FALSE);
}

TEST(numbers)
{
    static const struct text good[] = { T("0"),   T("-0"),     T("7"),       T("1234567890123456789012345"),
                                        T("-1"),  T("0.5"),    T("-0.25"),   T("10.01"),
                                        T("1e5"), T("1E5"),    T("1e+5"),    T("1e-5"),
                                        T("0e1"), T("0e+00"),  T("1.5E-07"), T("20"),
                                        T(" 4 "), T("1e9999"), T("-12.0e0") };
    accept_all(good, COUNT(good), GD__JSON_NUMBER);
    static const struct text bad[] = { T("01"),    T("-"),     T("-01"),   T("+1"),  T(".5"),   T("-.5"),  T("1."),
                                       T("1.e5"),  T("1e"),    T("1e+"),   T("1e-"), T("1E"),   T("0x1F"), T("1_000"),
                                       T("1,000"), T("1 2"),   T("--1"),   T("Inf"), T("-Inf"), T("NaN"),  T("nan"),
                                       T("1.2.3"), T("1e2e3"), T("1e2.5"), T("٣"),   T("1-"),   T("00"),   T("1a"),
                                       T("0.e1"),  T("2.e3"),  T("-x"),    T("1\0") };
    refuse_all(bad, COUNT(bad));
}

TEST(strings)
{
    static const struct text good[] = {
        T("\"\""),
        T("\"abc\""),
        T("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""),
        T("\"\\u0000\""),
        T("\"\\u00e9\\uABCD\\uabcd\""),
        T("\"\\ud83d\\ude00\""),
        T("\"\\udc80\""),              /* stands for a byte that is not UTF-8 */
        T("\"\\ud800\""),              /* half of a surrogate pair: the grammar allows it */
        T("\"\x7f\""),                 /* DEL is not a control character in JSON */
        T("\"\xc3\xa9\xe2\x82\xac\""), /* two and three bytes */
        T("\"\xf0\x9f\x98\x80\""),
        T("\"\xef\xbf\xbf\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80\""), /* first and last characters of ranges */
        T("\"\xe2\x80\xa8\""),                                         /* U+2028 */
        T("\" [1] {\\\"a\\\":2} // \""),
    };
    accept_all(good, COUNT(good), GD__JSON_STRING);
    static const struct text bad[] = {
        T("\""),
        T("\"abc"),
        T("\"abc\\\""),
        T("\"\\"),
        T("\"\\x41\""),
        T("\"\\a\""),
        T("\"\\v\""),
        T("\"\\0\""),
        T("\"\\\0\""),
        T("\"\\u\""),
        T("\"\\u1\""),
        T("\"\\u12\""),
        T("\"\\u123\""),
        T("\"\\u12"),
        T("\"\\u12g4\""),
        T("\"\\U0041\""),
        T("\"\n\""),
        T("\"\t\""),
        T("\"\0\""),
        T("\"a\x1f\""),
        T("'a'"),
        T("abc"),
        T("\"a\" \"b\""),
        T("\"\x80\""),     /* a continuation byte without a first byte */
        T("\"\xc0\x80\""), /* overlong */
        T("\"\xc1\xbf\""),
        T("\"\xe0\x9f\xbf\""),
        T("\"\xf0\x8f\xbf\xbf\""),
        T("\"\xed\xa0\x80\""), /* a surrogate */
        T("\"\xed\xbf\xbf\""),
        T("\"\xf4\x90\x80\x80\""), /* above the last character */
        T("\"\xf5\x80\x80\x80\""),
        T("\"\xff\""),
        T("\"\xfe\""),
        T("\"\xc3\""), /* cut short */
        T("\"\xe2\x82\""),
        T("\"\xf0\x9f\x98\""),
        T("\"\xe2\x28\xa1\""),
        T("\"\xe2\x82\x28\""),
        T("\"\xf0\x9f\x98"),
    };
    refuse_all(bad, COUNT(bad));
}

TEST(arrays_and_objects)
{
    static const struct text arrays[] = {
        T("[]"), T("[ ]"), T("[1]"), T("[1,2 , 3]"), T("[[],[[]],{}]"), T("\n[\n]\n"), T("[null,true,false,\"\",0,{}]")
    };
    static const struct text objects[] = { T("{}"),
                                           T("{ }"),
                                           T("{\"a\":1}"),
                                           T("{\"\":0}"),
                                           T("{\"a\":{\"a\":{}}}"),
                                           T("{\"a\":1,\"a\":2}"),
                                           T(" { \"a\" : [ ] } "),
                                           T("{\"\\u0061\":1}") };
    accept_all(arrays, COUNT(arrays), GD__JSON_ARRAY);
    accept_all(objects, COUNT(objects), GD__JSON_OBJECT);
    static const struct text bad[] = {
        T(""),
        T(" "),
        T("["),
        T("]"),
        T("{"),
        T("}"),
        T("[1"),
        T("[1,"),
        T("[1,]"),
        T("[,1]"),
        T("[,]"),
        T("[1,,2]"),
        T("[1 2]"),
        T("[1}"),
        T("{1:2}"),
        T("{a:1}"),
        T("{'a':1}"),
        T("{\"a\"}"),
        T("{\"a\":}"),
        T("{\"a\":1"),
        T("{\"a\":1,}"),
        T("{,}"),
        T("{\"a\":1 \"b\":2}"),
        T("{\"a\" 1}"),
        T("{\"a\"::1}"),
        T("{\"a\":1]"),
        T("{\"a\":1}}"),
        T("[1]]"),
        T("[] []"),
        T("{}x"),
        T("[1]//x"),
        T("/**/[]"),
        T("[1]#"),
        T("[\"a\""),
        T("[\"a"),
        T("[a]"),
        T("[tru]"),
        T("[truE]"),
        T("[nul"),
        T("[-]"),
        T("\xef\xbb\xbf[]"),
        T("[\0]"),
        T("[]\0"),
        T("[\x0b]"),
        T("[\x0c]"),
        T("[\xc2\xa0]"),
        T("{\"a\":1,\"b\"}"),
        T("{null:1}"),
        T("{[]:1}"),
        T("[:1]"),
        T("[1:2]"),
        T("\"a\":1"),
        T("True"),
        T("nulll"),
        T("truefalse"),
        T("{\"a\":a}"),
        T("[\\u0031]"),
        T("*"),
        T("{\"a\":/*1*/2}"),
    };
    refuse_all(bad, COUNT(bad));
}

static int scan_nested(size_t depth, const char *open, const char *middle, const char *close)
{
    const size_t room = depth * (strlen(open) + strlen(close)) + strlen(middle) + 1;
    char *text = calloc(1, room);
    FILE *f = fmemopen(text, room, "w");
    CHECK(text && f);
    for (size_t i = 0; i < depth; i++)
        fputs(open, f);
    fputs(middle, f);
    for (size_t i = 0; i < depth; i++)
        fputs(close, f);
    fclose(f);
    struct gd__json top;
    const int rc = gd__json_scan(text, room - 1, &top);
    free(text);
    return rc;
}

TEST(depth_is_limited)
{
    CHECK_EQ(scan_nested(GD__JSON_DEPTH, "[", "", "]"), 0);
    CHECK_EQ(scan_nested(GD__JSON_DEPTH + 1, "[", "", "]"), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "nested too deeply");
    CHECK_EQ(scan_nested(GD__JSON_DEPTH, "{\"a\":", "1", "}"), 0);
    CHECK_EQ(scan_nested(GD__JSON_DEPTH + 1, "{\"a\":", "1", "}"), GD_E_INVALID);
    CHECK_EQ(scan_nested(1000000, "[", "", ""), GD_E_INVALID);
    CHECK_EQ(scan_nested(1000, "[],", "1", ""),
             GD_E_INVALID); /* arrays side by side are not nested, but they are not one value */
    struct gd__json top;
    char wide[5002];
    memset(wide, ' ', sizeof wide);
    wide[0] = '[';
    for (size_t i = 0; i < 1000; i++) {
        static const char part[] = { '[', '{', '}', ']', ',' };
        memcpy(wide + 1 + i * sizeof part, part, sizeof part);
    }
    wide[5000] = ']'; /* replaces the last comma */
    CHECK_EQ(gd__json_scan(wide, sizeof wide, &top), 0);
}

TEST(errors_name_the_position)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        { "", "the text ends at byte 1" },
        { "[1,2", "an array without a closing ] at byte 5" },
        { "[1,x]", "a value is missing at byte 4" },
        { "{\"a\" 1}", "a colon is missing at byte 6" },
        { "{} {}", "text after the end of the value at byte 4" },
        { "\"a\\q\"", "an unknown escape at byte 4" },
        { "\"\\u00x0\"", "hexadecimal digits at byte 6" },
        { "1.", "a digit is missing at byte 3" },
        { "\"ab", "a string without a closing quote at byte 4" },
        { "{1}", "a string is missing at byte 2" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct gd__json top;
        CHECK_EQ(gd__json_scan(cases[i].text, strlen(cases[i].text), &top), GD_E_INVALID);
        CHECK_CONTAINS(gd_error_text(), cases[i].words);
    }
}

/* --- members ------------------------------------------------------------------- */

static const char *const names[] = { "id", "output", "error" };

static int members_of(const char *text, struct gd__json m[3])
{
    return gd__json_scan_object(text, strlen(text), names, m, 3);
}

static void check_member(const struct gd__json *m, enum gd__json_kind kind, const char *text)
{
    CHECK_EQ(m->kind, kind);
    CHECK_EQ(m->size, strlen(text));
    CHECK_MEM(m->at, text, m->size);
}

TEST(members_are_found_at_any_place)
{
    struct gd__json m[3];
    CHECK_EQ(members_of(" {\"x\":[{\"id\":1}], \"output\" : {\"id\": [1, 2]} ,\"id\":7 } ", m), 0);
    check_member(&m[0], GD__JSON_NUMBER, "7");
    check_member(&m[1], GD__JSON_OBJECT, "{\"id\": [1, 2]}");
    CHECK_EQ(m[2].kind, GD__JSON_NONE);
    CHECK_EQ(members_of("{}", m), 0);
    CHECK_EQ(m[0].kind, GD__JSON_NONE);
    CHECK_EQ(members_of("{\"error\":null,\"output\":\"\",\"id\":false}", m), 0);
    check_member(&m[2], GD__JSON_NULL, "null");
    check_member(&m[1], GD__JSON_STRING, "\"\"");
    check_member(&m[0], GD__JSON_FALSE, "false");
}

TEST(names_may_be_escaped_and_must_match_completely)
{
    struct gd__json m[3];
    CHECK_EQ(members_of("{\"\\u0069\\u0064\":1,\"ID\":2,\"i\":3,\"id \":4,\"idd\":5,\"\":6}", m), 0);
    check_member(&m[0], GD__JSON_NUMBER, "1");
    CHECK_EQ(members_of("{\"id\\u0000\":1}", m), 0);
    CHECK_EQ(m[0].kind, GD__JSON_NONE);
    char text[512], long_name[200];
    memset(long_name, 'i', sizeof long_name);
    snprintf(text, sizeof text, "{\"%.*s\":1,\"id\":2}", (int)sizeof long_name, long_name);
    CHECK_EQ(members_of(text, m), 0);
    check_member(&m[0], GD__JSON_NUMBER, "2");
}

TEST(a_member_that_comes_twice_is_refused)
{
    struct gd__json m[3];
    CHECK_EQ(members_of("{\"id\":1,\"id\":1}", m), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "occurs twice");
    CHECK_EQ(members_of("{\"id\":1,\"i\\u0064\":1}", m), GD_E_INVALID);
    CHECK_EQ(members_of("{\"x\":1,\"x\":1,\"id\":1}", m), 0); /* this name is not looked up */
    CHECK_EQ(members_of("{\"id\":{\"id\":1},\"output\":[{\"output\":2}]}", m), 0);
}

TEST(values_other_than_objects_have_no_members)
{
    static const char *const texts[] = { "[]", "1",         "\"id\"",      "null",     "",
                                         " ",  "{\"id\":1", "{\"id\":1}x", "{\"id\"}", "x" };
    struct gd__json m[3];
    for (size_t i = 0; i < COUNT(texts); i++)
        if (members_of(texts[i], m) != GD_E_INVALID)
            FAIL("%s was accepted", texts[i]);
    CHECK_EQ(members_of("[]", m), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "not a JSON object");
}

/* --- values -------------------------------------------------------------------- */

TEST(members_are_counted)
{
    static const struct {
        const char *text;
        size_t n;
    } cases[] = { { "{}", 0 },
                  { "{ }", 0 },
                  { "{\"a\":1}", 1 },
                  { " { \"a\" : {\"b\":1,\"c\":2} , \"d\" : [1,2,{}] , \"a\" : \",\" } ", 3 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gd__json top;
        CHECK_EQ(gd__json_scan(cases[i].text, strlen(cases[i].text), &top), 0);
        CHECK_EQ(gd__json_count(&top), cases[i].n);
    }
}

TEST(unsigned_integers)
{
    static const struct {
        const char *text;
        bool good;
        uint64_t value;
    } cases[] = { { "0", true, 0 },
                  { "7", true, 7 },
                  { "18446744073709551615", true, UINT64_MAX },
                  { "18446744073709551616", false, 0 },
                  { "99999999999999999999", false, 0 },
                  { "-1", false, 0 },
                  { "-0", false, 0 },
                  { "1.0", false, 0 },
                  { "1e3", false, 0 },
                  { "\"1\"", false, 0 },
                  { "null", false, 0 } };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct gd__json top;
        uint64_t value = 12345;
        CHECK_EQ(gd__json_scan(cases[i].text, strlen(cases[i].text), &top), 0);
        CHECK_EQ(gd__json_uint(&top, &value), cases[i].good);
        CHECK_EQ(value, cases[i].good ? cases[i].value : 12345);
    }
    uint64_t value;
    CHECK(!gd__json_uint(&(struct gd__json){ 0 }, &value));
}

TEST(strings_are_decoded)
{
    static const struct {
        const char *text;
        struct text bytes;
    } cases[] = {
        { "\"\"", T("") },
        { "\"abc\"", T("abc") },
        { "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", T("\"\\/\b\f\n\r\t") },
        { "\"a\\u0000b\"", T("a\0b") },
        { "\"\\u0041\\u00e9\\u20ac\"", T("A\xc3\xa9\xe2\x82\xac") },
        { "\"\\ud83d\\ude00x\"", T("\xf0\x9f\x98\x80x") },
        { "\"\\uD83D\\uDE00\"", T("\xf0\x9f\x98\x80") },
        { "\"\\udbff\\udfff\"", T("\xf4\x8f\xbf\xbf") },
        { "\"\\udc80\\udcff\\udcc3\"", T("\x80\xff\xc3") },
        { "\"\\udc7f\"", T("\xef\xbf\xbd") }, /* does not stand for a byte */
        { "\"\\udd00\"", T("\xef\xbf\xbd") },
        { "\"\\ud800\"", T("\xef\xbf\xbd") },
        { "\"\\ud800x\"", T("\xef\xbf\xbdx") },
        { "\"\\ud800\\n\"", T("\xef\xbf\xbd\n") },
        { "\"\\ud800\\u0041\"", T("\xef\xbf\xbd"
                                  "A") },
        { "\"\\ud800\\ud800\\udc00\"", T("\xef\xbf\xbd\xf0\x90\x80\x80") },
        { "\"\xc3\xa9\\n\xe2\x82\xac\"", T("\xc3\xa9\n\xe2\x82\xac") },
        { "\"\\\\u0041\"", T("\\u0041") },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct gd__json top;
        CHECK_EQ(gd__json_scan(cases[i].text, strlen(cases[i].text), &top), 0);
        char *to = malloc(top.size);
        CHECK(to);
        const size_t n = gd__json_decode(&top, to);
        if (n != cases[i].bytes.size || memcmp(to, cases[i].bytes.bytes, n) != 0)
            FAIL("%s gave %zu bytes: %.*s", cases[i].text, n, (int)n, to);
        free(to);
    }
}

TEST(strings_are_written)
{
    static const struct {
        struct text bytes;
        const char *text;
    } cases[] = {
        { T(""), "\"\"" },
        { T("a.wav"), "\"a.wav\"" },
        { T("\"\\/\b\f\n\r\t"), "\"\\\"\\\\/\\b\\f\\n\\r\\t\"" },
        { T("a\0\x1f\x7f"), "\"a\\u0000\\u001f\\u007f\"" },
        { T("\xc2\x80\xc2\x9b\xc2\xa0"), "\"\\u0080\\u009b\xc2\xa0\"" }, /* control characters of terminals */
        { T("\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xae"), "\"\xe2\x80\xa7\\u2028\\u202e\"" },
        { T("\xe2\x81\x9e\xe2\x81\xa6\xe2\x81\xa9"), "\"\xe2\x81\x9e\\u2066\\u2069\"" },
        { T("\xc3\xa9\xf0\x9f\x98\x80"), "\"\xc3\xa9\xf0\x9f\x98\x80\"" },
        { T("\xff\x80z"), "\"\\udcff\\udc80z\"" },
        { T("\xc3"), "\"\\udcc3\"" },
        { T("\xe2\x82"), "\"\\udce2\\udc82\"" },
        { T("\xed\xb2\x80"), "\"\\udced\\udcb2\\udc80\"" }, /* a surrogate in UTF-8 is three bytes, not a character */
        { T("\xc0\xaf"), "\"\\udcc0\\udcaf\"" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char room[256];
        const size_t n = gd__json_escape(room, cases[i].bytes.bytes, cases[i].bytes.size);
        room[n] = '\0';
        CHECK_STR(room, cases[i].text);
        CHECK_EQ(gd__json_escaped_size(cases[i].bytes.bytes, cases[i].bytes.size), n);
    }
}

/* Any bytes become a valid JSON string, from which the same bytes are read back. */
static void round_trip(const unsigned char *bytes, size_t n)
{
    struct gd__json top;
    char *text = malloc(6 * n + 2), *back = malloc(6 * n + 2);
    CHECK(text && back);
    const size_t size = gd__json_escape(text, bytes, n);
    CHECK_EQ(size, gd__json_escaped_size(bytes, n));
    CHECK_EQ(gd__json_scan(text, size, &top), 0);
    CHECK_EQ(gd__json_decode(&top, back), n);
    CHECK_MEM(back, bytes, n);
    free(text);
    free(back);
}

TEST(any_bytes_are_written_and_read_back)
{
    unsigned char bytes[512];
    for (unsigned i = 0; i < 256; i++)
        bytes[2 * i] = bytes[2 * i + 1] = (unsigned char)i;
    round_trip(bytes, sizeof bytes);
    uint64_t x = 42;
    for (int round = 0; round < 2000; round++) {
        size_t n = 0;
        for (; n < (size_t)(round % 40); n++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            bytes[n] = (unsigned char)(x >> 56);
            if (x >> 40 & 1) /* half of the bytes are ones that UTF-8 uses */
                bytes[n] |= 0x80;
        }
        round_trip(bytes, n);
    }
    static const char half_pairs[] = "\xed\xa0\xbd\xed\xb8\x80"; /* these bytes must not become a character */
    round_trip((const unsigned char *)half_pairs, sizeof half_pairs - 1);
}

TEST(numbers_are_written)
{
    static const uint64_t numbers[] = { 0, 9, 10, 4294967296, UINT64_MAX - 1, UINT64_MAX };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char expected[32], got[GD__JSON_UINT_ROOM];
        const int n = snprintf(expected, sizeof expected, "%llu", (unsigned long long)numbers[i]);
        CHECK_EQ(gd__json_put_uint(got, numbers[i]), (size_t)n);
        CHECK_MEM(got, expected, (size_t)n);
    }
}

TEST(members_are_gone_through_in_order)
{
    static const char text[] = " { \"a\" : 1 , \"b\":{\"c\":[2,{}]},\"\":\"}\" } ", none[] = "{ }";
    static const char *const expected[] = { "\"a\"", "\"b\"", "\"\"" };
    static const char *const values[] = { "1", "{\"c\":[2,{}]}", "\"}\"" };
    struct gd__json top, name, value;
    size_t at = 0;
    CHECK_EQ(gd__json_scan(text, sizeof text - 1, &top), 0);
    for (int i = 0; i < 3; i++) {
        CHECK(gd__json_next_member(&top, &at, &name, &value));
        CHECK_EQ(name.size, strlen(expected[i]));
        CHECK_MEM(name.at, expected[i], name.size);
        CHECK_EQ(value.size, strlen(values[i]));
        CHECK_MEM(value.at, values[i], value.size);
    }
    CHECK(!gd__json_next_member(&top, &at, &name, &value));
    at = 0;
    CHECK_EQ(gd__json_scan(none, sizeof none - 1, &top), 0);
    CHECK(!gd__json_next_member(&top, &at, &name, &value));
}

TEST_MAIN()
