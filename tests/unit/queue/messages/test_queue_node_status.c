/* SPDX-License-Identifier: MIT
 *
 * What a node says about itself: written, parsed, and refused.
 */
#include "base/error.h"
#include "queue/messages/message.h"
#include "queue/messages/node_status.h"
#include "support/test.h"

#define ID "0123456789abcdef0123456789abcdef"

static const struct gd__node_status busy_node = {
    .state = GD__NODE_RUNNING,
    .host = "n17",
    .pid = 4711,
    .workers = 8,
    .busy = 7,
    .done = 120,
    .failed = 1,
    .held = 9,
    .tasks_per_second = 0.4,
    .http = "http://n17:8080/",
    .note = "GPU 3 was lost",
};

static int parse(struct gd__node_status *out, const char *text)
{
    return gd__node_status_parse(out, text, strlen(text));
}

/* Writes and parses a status. */
static struct gd__node_status travelled(const struct gd__node_status *s)
{
    struct gd__node_status out;
    struct gd__buffer b = { 0 };
    gd__node_status_write(&b, s);
    CHECK(!b.failed && b.size <= GD__NODE_STATUS_MOST);
    if (gd__node_status_parse(&out, b.data, b.size) != 0)
        FAIL("%.*s: %s", (int)b.size, b.data, gd_error_text());
    gd__buffer_free(&b);
    return out;
}

TEST(the_text_of_a_status)
{
    struct gd__buffer b = { 0 };
    gd__node_status_write(&b, &busy_node);
    gd__buffer_add(&b, "", 1);
    CHECK_STR(b.data, "{\"version\":1,\"host\":\"n17\",\"pid\":4711,\"state\":\"running\",\"workers\":8,\"busy\":7,"
                      "\"done\":120,\"failed\":1,\"held\":9,\"tasks_per_day\":34560,\"http\":\"http://n17:8080/\","
                      "\"note\":\"GPU 3 was lost\"}");
    gd__buffer_free(&b);
}

TEST(what_is_written_is_parsed)
{
    const struct gd__node_status s = travelled(&busy_node);
    CHECK_EQ(s.state, GD__NODE_RUNNING);
    CHECK_STR(s.host, "n17");
    CHECK_EQ(s.pid, 4711);
    CHECK_EQ(s.workers, 8);
    CHECK_EQ(s.busy, 7);
    CHECK_EQ(s.done, 120);
    CHECK_EQ(s.failed, 1);
    CHECK_EQ(s.held, 9);
    CHECK(s.tasks_per_second > 0.3999 && s.tasks_per_second < 0.4001);
    CHECK_STR(s.http, "http://n17:8080/");
    CHECK_STR(s.note, "GPU 3 was lost");
}

TEST(each_state_is_kept)
{
    for (int i = GD__NODE_RUNNING; i <= GD__NODE_LEFT; i++) {
        struct gd__node_status s = busy_node;
        s.state = (enum gd__node_state)i;
        CHECK_EQ(travelled(&s).state, i);
    }
}

/* The largest texts and numbers, and texts that would need long escapes. */
TEST(every_status_can_be_written_and_parsed)
{
    struct gd__node_status s = { .state = GD__NODE_LEFT, .pid = UINT64_MAX, .workers = UINT32_MAX, .busy = UINT32_MAX };
    s.done = s.failed = s.held = UINT64_MAX;
    s.tasks_per_second = 1e300;
    memset(s.host, '"', sizeof s.host - 1);
    memset(s.note, '\1', sizeof s.note - 1);
    memset(s.http, '\\', sizeof s.http - 1);
    memcpy(s.http, "http://", 7);
    const struct gd__node_status t = travelled(&s);
    CHECK_EQ(t.pid, GD__QUEUE_NUMBER_MOST);
    CHECK_STR(t.host, s.host);
    CHECK_STR(t.http, s.http);
    CHECK_EQ(strspn(t.note, "?"), sizeof s.note - 1);

    memset(&s, 0, sizeof s); /* no state, no texts */
    s.tasks_per_second = -1;
    CHECK_EQ(travelled(&s).state, GD__NODE_RUNNING);
    s.tasks_per_second = 0.0 / (double)s.pid; /* not a number */
    CHECK(travelled(&s).tasks_per_second == 0);
}

TEST(an_address_that_is_no_page_is_not_written)
{
    struct gd__node_status s = busy_node;
    strcpy(s.http, "javascript:alert(1)");
    CHECK_STR(travelled(&s).http, "");
    strcpy(s.http, "http://a\tb");
    CHECK_STR(travelled(&s).http, "");
}

#define REST \
    "\"pid\":1,\"state\":\"running\",\"workers\":1,\"busy\":0,\"done\":0,\"failed\":0,\"held\":0,\"tasks_per_day\":0"

TEST(texts_are_made_printable)
{
    struct gd__node_status s;
    CHECK_EQ(parse(&s, "{\"version\":1,\"host\":\"a\\u001b[31mb\\u202e\\udcff\",\"note\":\"two\\nlines\"," REST "}"),
             0);
    CHECK_STR(s.host, "a?[31mb??");
    CHECK_STR(s.note, "two lines");
}

TEST(members_of_newer_nodes_are_ignored)
{
    struct gd__node_status s;
    CHECK_EQ(parse(&s, "{\"version\":1,\"host\":\"a\",\"new\":{\"pid\":[2]}," REST "}"), 0);
    CHECK_EQ(s.pid, 1);
}

TEST(bad_texts_are_refused)
{
    static const char *const bad[] = {
        "",
        "1",
        "{}",
        "{\"host\":\"a\"," REST "}",
        "{\"version\":0," REST "}",
        "{\"version\":\"1\"," REST "}",
        "{\"version\":1," REST,
        "{\"version\":1,\"version\":1," REST "}",
        "{\"version\":1,\"host\":1," REST "}",
        "{\"version\":1,\"note\":[]," REST "}",
        "{\"version\":1,\"http\":\"javascript:alert(1)\"," REST "}",
        "{\"version\":1,\"http\":\"http://a b\"," REST "}",
        "{\"version\":1,\"pid\":-1,\"state\":\"left\",\"workers\":1,\"busy\":0,\"done\":0,\"failed\":0,\"held\":0,"
        "\"tasks_per_day\":0}",
        "{\"version\":1,\"pid\":1,\"state\":\"gone\",\"workers\":1,\"busy\":0,\"done\":0,\"failed\":0,\"held\":0,"
        "\"tasks_per_day\":0}",
        "{\"version\":1,\"pid\":1,\"state\":\"left\",\"workers\":4294967296,\"busy\":0,\"done\":0,\"failed\":0,"
        "\"held\":0,\"tasks_per_day\":0}",
        "{\"version\":1,\"pid\":1,\"state\":\"left\",\"workers\":1,\"busy\":0,\"done\":9007199254740993,\"failed\":0,"
        "\"held\":0,\"tasks_per_day\":0}",
        "{\"version\":1,\"pid\":1,\"state\":\"left\",\"workers\":1,\"busy\":0,\"done\":0,\"failed\":0,\"held\":0,"
        "\"tasks_per_day\":1.5}",
    };
    struct gd__node_status s;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (parse(&s, bad[i]) != GD_E_CORRUPT)
            FAIL("accepted: %s", bad[i]);
}

TEST(a_newer_version_is_refused)
{
    struct gd__node_status s;
    CHECK_EQ(parse(&s, "{\"version\":2}"), GD_E_VERSION);
    CHECK_CONTAINS(gd_error_text(), "newer version of gpu_dispatch");
}

TEST(a_large_text_is_refused)
{
    static char text[GD__NODE_STATUS_MOST + 2];
    struct gd__node_status s;
    memset(text, ' ', sizeof text - 1);
    static const char status[] = "{\"version\":1,\"host\":\"a\"," REST "}";
    memcpy(text, status, sizeof status - 1);
    CHECK_EQ(gd__node_status_parse(&s, text, GD__NODE_STATUS_MOST), 0);
    CHECK_EQ(gd__node_status_parse(&s, text, GD__NODE_STATUS_MOST + 1), GD_E_CORRUPT);
}

TEST(subjects_of_nodes)
{
    char text[GD__QUEUE_SUBJECT_ROOM], id[GD__QUEUE_NODE_ROOM];
    CHECK_STR(gd__node_status_subject(text, "q", ID), "gd.q.s.node." ID);
    CHECK_EQ(gd__node_status_id(id, "q", text), 0);
    CHECK_STR(id, ID);
    CHECK_STR(gd__node_status_filter(text, "q"), "gd.q.s.node.*");
    static const char *const bad[] = { "",
                                       "gd.q.s.node.",
                                       "gd.q.s.push",
                                       "gd.q2.s.node." ID,
                                       "gd.q.s.node." ID "0",
                                       "gd.q.s.node.0123456789abcdef0123456789abcde",
                                       "gd.q.s.node.0123456789ABCDEF0123456789abcdef",
                                       "gd.q.s.node.*" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (gd__node_status_id(id, "q", bad[i]) != GD_E_CORRUPT)
            FAIL("accepted: %s", bad[i]);
}

TEST_MAIN()
