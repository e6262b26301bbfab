/* SPDX-License-Identifier: MIT
 *
 * Records of failures: a record is read back as the input that failed, byte for byte. Other JSON is left alone. Also
 * how inputs are stored in a journal, and what identifies the work of a run.
 */
#include "base/text/buffer.h"
#include "base/text/json.h"
#include "cli/output/files/failure_record.h"
#include "cli/output/streams.h"
#include "cli/run/journal/run_journal.h"
#include "ends.h"
#include "inputs.h"

/* --- parts of JSON ----------------------------------------------------------------- */

static void check_member(const char *text, const char *name, const char *expected)
{
    struct gd__json value;
    const bool there = gd__json_member(text, strlen(text), name, &value);
    if (there != (expected != NULL))
        FAIL("member %s of %s: %s", name, text, there ? "was found" : "was not found");
    if (there && (value.size != strlen(expected) || memcmp(value.at, expected, value.size) != 0))
        FAIL("%s of %s is %.*s, not %s", name, text, (int)value.size, value.at, expected);
}

TEST(members)
{
    check_member("{\"a\":1}", "a", "1");
    check_member(" { \"a\" : [1, {\"b\": 2}] , \"b\" : \"x\" } ", "a", "[1, {\"b\": 2}]");
    check_member(" { \"a\" : [1, {\"b\": 2}] , \"b\" : \"x\" } ", "b", "\"x\"");
    check_member("{\"\\u0061b\":3}", "ab", "3");
    check_member("{\"a\\\"b\":3}", "a\"b", "3");
    check_member("{\"\":3}", "", "3");
    check_member("{\"n\": null }", "n", "null");
}

TEST(missing_members)
{
    static const char *const texts[] = { "{}",        "[]",        "[\"a\",1]",         "1",
                                         "\"a\"",     "",          "{\"b\":1}",         "{\"a\"",
                                         "{\"a\":",   "{\"a\":x}", "{\"x\":{\"a\":1}}", "{\"b\":1 \"a\":2}",
                                         "{,\"a\":1}" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_member(texts[i], "a", NULL);
}

static void check_list(const char *text, const char *expected, size_t size)
{
    struct gd__buffer b = { 0 };
    gd__buffer_text(&b, "x");
    CHECK_EQ(gd__json_read_list(&b, text, strlen(text)), expected != NULL);
    CHECK_EQ(b.size, 1 + size);
    if (expected)
        CHECK_MEM(b.data + 1, expected, size);
    gd__buffer_free(&b);
}

TEST(lists_of_strings)
{
    check_list("[\"a\"]", "a", 1);
    check_list(" [ \"a\" , \"b c\" ] ", "a\0b c", 5);
    check_list("[\"\",\"\"]", "\0", 1);
    check_list("[\"\"]", "", 0);
    check_list("[]", NULL, 0);
    check_list("[\"a\",]", NULL, 0);
    check_list("[\"a\",1]", NULL, 0);
    check_list("[\"a\"", NULL, 0);
    check_list("[\"a\"]x", NULL, 0);
    check_list("\"a\"", NULL, 0);
    check_list("{}", NULL, 0);
    check_list("", NULL, 0);
}

/* --- inputs from records --------------------------------------------------------------- */

static struct gd__buffer line_of(const char *payload, size_t size, bool json)
{
    struct gd__buffer line = { 0 };
    const struct cli_failure_record f = { .payload = payload,
                                          .payload_size = size,
                                          .json = json,
                                          .failure = "error",
                                          .error = "exit code 3",
                                          .attempts = 2,
                                          .exit_code = 3 };
    cli_failure_record_put(&line, &f);
    CHECK(!line.failed);
    CHECK_EQ(line.data[line.size - 1], '\n');
    CHECK(gd__json_valid(line.data, line.size - 1));
    CHECK(!memchr(line.data, '\n', line.size - 1));
    return line;
}

static void check_back(const char *payload, size_t size, bool json, bool wants_json, const char *expected, size_t n)
{
    struct gd__buffer line = line_of(payload, size, json), back = { 0 };
    CHECK(cli_failure_record_take(&back, line.data, line.size - 1, wants_json));
    if (back.size != n || (n && memcmp(back.data, expected, n) != 0))
        FAIL("%.*s gives %.*s, not %.*s", (int)line.size, line.data, (int)back.size, back.data, (int)n, expected);
    gd__buffer_free(&line);
    gd__buffer_free(&back);
}

#define BACK(payload, json, wants_json, expected) \
    check_back(payload, sizeof(payload) - 1, json, wants_json, expected, sizeof(expected) - 1)

TEST(arguments_come_back)
{
    BACK("a.wav", false, false, "a.wav");
    BACK("", false, false, "");
    BACK("a\0b c", false, false, "a\0b c");
    BACK("a\0", false, false, "a\0");
    BACK("\0", false, false, "\0");
    BACK("two\nlines \"quoted\" \\ \xff\xfe", false, false, "two\nlines \"quoted\" \\ \xff\xfe");
    /* Texts that look like JSON are still arguments. */
    BACK("[\"a\",\"b\"]", false, false, "[\"a\",\"b\"]");
    BACK("\"quoted\"", false, false, "\"quoted\"");
    BACK("{\"input\":1}", false, false, "{\"input\":1}");
    BACK("17", false, false, "17");
}

TEST(lines_of_json_come_back)
{
    static const char *const texts[] = { "{\"a\": 1}", "[\"a\",\"b\"]", "\"x\"", "17", "null", "[1,2]", "true" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        check_back(texts[i], strlen(texts[i]), true, false, texts[i], strlen(texts[i]));
        check_back(texts[i], strlen(texts[i]), true, true, texts[i], strlen(texts[i]));
    }
    BACK("not JSON", true, false, "not JSON");
}

TEST(a_stream_program_gets_the_same_again)
{
    /* Without --jsonl the program got strings. */
    BACK("a.wav", false, true, "\"a.wav\"");
    BACK("17", false, true, "\"17\"");
    BACK("{\"a\":1}", false, true, "\"{\\\"a\\\":1}\"");
    BACK("a\0b", false, true, "\"a\\u0000b\"");
}

TEST(a_record_of_a_record)
{
    struct gd__buffer line = line_of("a", 1, false), back = { 0 };
    check_back(line.data, line.size - 1, true, false, line.data, line.size - 1);
    gd__buffer_free(&line);
    gd__buffer_free(&back);
}

TEST(any_bytes_come_back)
{
    unsigned seed = 1;
    for (int i = 0; i < 3000; i++) {
        char bytes[24];
        const size_t size = (size_t)rand_r(&seed) % sizeof bytes;
        static const char some[] = "[]{}\",:\\ a1\n\0\xff\xc3\xa9";
        for (size_t k = 0; k < size; k++)
            bytes[k] = some[(size_t)rand_r(&seed) % (sizeof some - 1)];
        check_back(bytes, size, false, false, bytes, size);
        struct gd__buffer shown = { 0 }, back = { 0 };
        const bool other = cli_journal_show_input(&shown, bytes, size);
        cli_journal_read_input(&back, other ? shown.data : bytes, other ? shown.size : size);
        CHECK_EQ(back.size, size);
        if (size)
            CHECK_MEM(back.data, bytes, size);
        CHECK_EQ(other && memchr(shown.data, 0, shown.size), 0);
        gd__buffer_free(&shown);
        gd__buffer_free(&back);
    }
}

TEST(other_json_is_left_alone)
{
    static const char *const lines[] = {
        "",
        "{}",
        "{\"input\":\"a\"}",
        "{\"input\":\"a\",\"failure\":\"error\"}",
        "{\"input\":\"a\",\"failure\":1,\"attempts\":1}",
        "{\"input\":\"a\",\"failure\":\"error\",\"attempts\":\"1\"}",
        "{\"failure\":\"error\",\"attempts\":1}",
        "{\"x\":{\"input\":\"a\",\"failure\":\"error\",\"attempts\":1}}",
        "[\"input\",\"failure\",\"attempts\"]",
        "{\"input\":\"a\",\"failure\":\"error\",\"attempts\":1",
        "{\"input\":\"a\",\"failure\":\"error\",\"attempts\":1} x",
    };
    struct gd__buffer b = { 0 };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (cli_failure_record_take(&b, lines[i], strlen(lines[i]), false))
            FAIL("%s was read as a record", lines[i]);
    }
    CHECK_EQ(b.size, 0);
}

TEST(an_input_that_is_other_json_is_its_text)
{
    static const char line[] = "{\"failure\":\"crash\",\"attempts\":0,\"input\": {\"a\" : [1, 2]} }";
    struct gd__buffer b = { 0 };
    CHECK(cli_failure_record_take(&b, line, sizeof line - 1, false));
    CHECK_EQ(b.size, strlen("{\"a\" : [1, 2]}"));
    CHECK_MEM(b.data, "{\"a\" : [1, 2]}", b.size);
    gd__buffer_free(&b);
}

/* --- as input ---------------------------------------------------------------------------- */

TEST(jsonl_takes_records_of_failures)
{
    enter_directory();
    make_text("f", "{\"input\":\"a b\",\"failure\":\"error\",\"attempts\":1}\n{\"x\":1}\n"
                   "{\"input\":[\"a\",\"b\"],\"failure\":\"error\",\"attempts\":1}\n"
                   "{\"input\":[\"a\",\"b\"],\"json\":true,\"failure\":\"error\",\"attempts\":1}\n");
    const struct cli_source s = { .kind = CLI_SOURCE_FILE, .path = "f" };
    struct cli_input_options o = { .sources = &s, .n_sources = 1, .format = CLI_FORMAT_JSONL };
    check_input(&o, "[a b]\n[{\"x\":1}]\n[a][b]\n[[\"a\",\"b\"]]\n");
    o.need_total = true;
    check_input(&o, "[a b]\n[{\"x\":1}]\n[a][b]\n[[\"a\",\"b\"]]\n");
    o.json_payload = true;
    check_input(&o, "[\"a b\"]\n[{\"x\":1}]\n[\"a\\u0000b\"]\n[[\"a\",\"b\"]]\n");
    o.format = CLI_FORMAT_LINES;
    o.need_total = false;
    struct cli_input *in = open_input(&o);
    struct gd__buffer got = drain(in);
    CHECK_EQ(strncmp(got.data, "[{\"input\":", 10), 0);
    gd__buffer_free(&got);
    cli_input_close(&in);
}

/* --- the list of a run without a journal --------------------------------------------------- */

TEST(failures_are_listed)
{
    struct cli_failures *f = NULL;
    enter_directory();
    CHECK_EQ(cli_failures_open(&f, "f", false), 0);
    struct made *good = command("out", 3, "", 0, 0), *bad = command("", 0, "oh\nno\n", 3, 0);
    struct made *cancelled = failure(GD_FAILURE_CANCELLED, "ended early"),
                *slow = failure(GD_FAILURE_TIMEOUT, "too long");
    CHECK_EQ(cli_failures_add(f, end_of(good, CLI_RESULT_COMMAND)), 0);
    CHECK_EQ(cli_failures_add(f, end_of(bad, CLI_RESULT_COMMAND)), 0);
    CHECK_EQ(cli_failures_add(f, end_of(cancelled, CLI_RESULT_COMMAND)), 0);
    CHECK_EQ(cli_failures_add(f, end_of(slow, CLI_RESULT_COMMAND)), 0);
    CHECK_EQ(cli_failures_close(&f), 0);
    check_file("f",
               "{\"input\":\"a.wav\",\"failure\":\"error\",\"error\":\"exit code 3\",\"attempts\":1,\"exit_code\":3,"
               "\"signal\":0,\"stderr\":\"oh\\nno\\n\"}\n"
               "{\"input\":\"a.wav\",\"failure\":\"timeout\",\"error\":\"too long\",\"attempts\":1,\"exit_code\":-1,"
               "\"signal\":15}\n");
    drop(good);
    drop(bad);
    drop(cancelled);
    drop(slow);
}

/* --- the last lines ---------------------------------------------------------------------------- */

static void check_last(const char *text, size_t size, size_t from)
{
    size_t left = size;
    const char *last = cli_last_lines(text, &left);
    CHECK_EQ(last - text, from);
    CHECK_EQ(left, size - from);
}

TEST(last_lines)
{
    check_last("", 0, 0);
    check_last("a", 1, 0);
    check_last("a\nb\n", 4, 0);
    char lines[64];
    memset(lines, '\n', sizeof lines);
    check_last(lines, 20, 0);
    check_last(lines, 21, 1);
    check_last(lines, 64, 44);
    lines[63] = 'x'; /* the last line has no newline */
    check_last(lines, 64, 44);
}

TEST(last_lines_of_long_ones)
{
    static char text[10000];
    memset(text, 'x', sizeof text);
    check_last(text, 4096, 0);
    check_last(text, 10000, 10000 - 4096);
    text[7000] = '\n';
    check_last(text, 10000, 7001); /* not from the middle of a line, but from the next line */
    text[7000] = 'x';
    text[9999] = '\n';
    check_last(text, 10000, 10000 - 4096);
}

/* --- what identifies the work ---------------------------------------------------------------------- */

static void check_identity(const struct cli_run *r, const char *expected)
{
    struct gd__buffer b = { 0 };
    cli_journal_identity(&b, r);
    gd__buffer_add(&b, "", 1);
    CHECK_STR(b.data, expected);
    gd__buffer_free(&b);
}

TEST(identities)
{
    const char *words[] = { "python3", "infer.py", "{}", "it's", "", NULL };
    struct cli_run r = { .words = words, .n_words = 3 };
    check_identity(&r, "-- python3 infer.py {}");
    r.n_words = 5;
    check_identity(&r, "-- python3 infer.py {} 'it'\\''s' ''");
    r.n_words = 2;
    r.quote = true;
    check_identity(&r, "-q -- python3 infer.py");
    r.quote = false;
    r.jsonl = true;
    check_identity(&r, "-- python3 infer.py");
    r.stream = "";
    check_identity(&r, "--stream python3 infer.py --jsonl");
    r.stream = NULL;
    r.worker = "";
    r.setup_args = "a b";
    check_identity(&r, "--worker python3 infer.py --setup-args 'a b'");
    r.key = ".id";
    check_identity(&r, "--worker python3 infer.py --setup-args 'a b' --key .id");
    r.key = NULL;
    r.input_dir = "data";
    check_identity(&r, "--worker python3 infer.py --setup-args 'a b' --key file");
    r.key = "input";
    check_identity(&r, "--worker python3 infer.py --setup-args 'a b'");
}

TEST_MAIN()
