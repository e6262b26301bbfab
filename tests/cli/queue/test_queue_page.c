/* SPDX-License-Identifier: MIT
 *
 * A queue and its nodes as lines of text, at several sizes.
 */
#include "cli/commands/queue/queue_page.h"
#include "support/test.h"
#include "tui/cells.h"

static struct queue_view view;

static void begin(void)
{
    view = (struct queue_view){ .url = "nats://host/NAME" };
    view.f = (struct gd_queue_figures){
        .tasks = 1000, .done = 447, .failed = 3, .held = 16, .waiting = 534, .nodes = 2, .command = "cmd"
    };
}

static void add(const char *host, unsigned pid, double age, const char *note)
{
    const struct gd_queue_node n = { .host = host,
                                     .id = "0123456789abcdef0123456789abcdef",
                                     .pid = pid,
                                     .age_seconds = age,
                                     .workers = 8,
                                     .busy = 7,
                                     .done = 220,
                                     .failed = pid,
                                     .held = 9,
                                     .tasks_per_second = 2,
                                     .note = note };
    CHECK_EQ(queue_view_add(&view, &n), 0);
}

/* The lines at this size. Each of them fits. */
static const char *lines(unsigned width, unsigned height)
{
    static char text[16384];
    struct gd__buffer b = { 0 };
    const struct tui_view v = { .width = width, .height = height, .hint = "q leaves" };
    queue_view_work_out(&view);
    queue_page(&b, &view, &v);
    gd__buffer_add(&b, "", 1);
    CHECK(!b.failed && b.size <= sizeof text);
    memcpy(text, b.data, b.size);
    gd__buffer_free(&b);
    unsigned n = 0;
    for (const char *p = text; *p; p = strchr(p, '\n') + 1, n++)
        if ((size_t)(strchr(p, '\n') - p) >= width)
            FAIL("line %u is too long for %u columns: %s", n, width, p);
    CHECK_LT(n, height);
    return text;
}

static void end(void)
{
    queue_view_free(&view);
}

TEST(a_page)
{
    begin();
    add("n18", 2, 1, NULL);
    add("n17", 0, 2, "GPU 3 was lost");
    CHECK_STR(lines(100, 24),
              "450 of 1,000 tasks, 45.0 %, running                                                nats://host/NAME\n"
              "############################################.......................................................\n"
              "447 done  3 failed  16 held  534 waiting\n"
              "2 nodes  16 workers  14 busy  4.0 tasks/s  0:02:17 ETA\n"
              "\n"
              "Node          State    Workers Busy Tasks/s     Done Failed   Held    Seen  Note\n"
              "n17           running        8    7     2.0      220      0      9   2.0 s  GPU 3 was lost\n"
              "n18           running        8    7     2.0      220      2      9   1.0 s  \n"
              "q leaves\n");
    end();
}

TEST(every_size_is_filled_without_running_over)
{
    begin();
    for (unsigned i = 0; i < 30; i++) {
        char host[32];
        (void)snprintf(host, sizeof host, "machine-%u.cluster.example.org", i % 20);
        add(host, i, i, "a note that is rather long, and that no narrow terminal can show");
    }
    view.skipped = 2;
    strcpy(view.first_skipped, "message 1 of the stream gd_q_t: it is damaged");
    for (unsigned width = 1; width < 130; width++)
        for (unsigned height = 1; height < 45; height++)
            (void)lines(width, height);
    end();
}

TEST(nodes_that_do_not_fit_are_counted)
{
    begin();
    for (unsigned i = 0; i < 30; i++)
        add((char[]){ 'n', (char)('A' + i), '\0' }, i, 1, NULL);
    const char *text = lines(100, 12);
    CHECK_CONTAINS(text, "nC ");
    CHECK_CONTAINS(text, "and 27 more\n");
    end();
}

TEST(nodes_of_one_host_have_their_processes)
{
    begin();
    add("n1", 11, 1, NULL);
    add("n1", 12, 1, NULL);
    add("n2", 13, 1, NULL);
    const char *text = lines(100, 24);
    CHECK_CONTAINS(text, "\nn1 (11) ");
    CHECK_CONTAINS(text, "\nn1 (12) ");
    CHECK_CONTAINS(text, "\nn2     ");
    end();
}

/* A node that is lost or has left does not count for the pace, and comes last. */
TEST(states_of_nodes)
{
    begin();
    add("a", 1, 31, NULL);
    add("b", 2, 3601, NULL); /* too long ago */
    add("c", 3, 5, NULL);
    add("d", 4, 5, NULL);
    view.nodes[view.n_nodes - 1].state = VIEW_NODE_LEFT;
    add("e", 5, 5, NULL);
    view.nodes[view.n_nodes - 1].state = VIEW_NODE_DRAINING;
    const char *text = lines(100, 24);
    CHECK_EQ(view.n_nodes, 4);
    CHECK_EQ(view.workers, 16);
    CHECK(view.rate == 4);
    const char *c = strstr(text, "\nc             running "), *e = strstr(text, "\ne             draining");
    const char *a = strstr(text, "\na             lost           8    7       -");
    const char *d = strstr(text, "\nd             left           8    7       -");
    CHECK(c && e && a && d && c < e && e < a && a < d);
    end();
}

TEST(states_of_a_queue)
{
    begin();
    CHECK_CONTAINS(lines(100, 24), ", running ");
    view.f.nodes = 0;
    view.f.push_is_open = true;
    CHECK_CONTAINS(lines(100, 24), ", waiting for nodes ");
    CHECK_CONTAINS(lines(100, 24), "a push is going on");
    view.f = (struct gd_queue_figures){ .tasks = 3, .done = 3, .is_done = true };
    CHECK_CONTAINS(lines(100, 24), "3 of 3 tasks, 100.0 %, done ");
    view.f = (struct gd_queue_figures){ .is_done = true };
    CHECK_CONTAINS(lines(100, 24), "0 of 0 tasks, done ");
    end();
}

/* 100 % and a full bar mean that nothing is left. */
TEST(almost_done_is_not_done)
{
    begin();
    view.f = (struct gd_queue_figures){ .tasks = 100000, .done = 99999, .waiting = 1, .nodes = 1 };
    const char *text = lines(100, 24);
    CHECK_CONTAINS(text, "99.9 %");
    CHECK_CONTAINS(text, "#.\n");
    end();
}

TEST(damage_is_shown)
{
    begin();
    view.skipped = 1;
    strcpy(view.first_skipped, "message 7 of the stream gd_q_t: it is damaged");
    CHECK_CONTAINS(lines(100, 24), "1 message left out: message 7 of the stream gd_q_t: it is damaged\n");
    end();
}

TEST_MAIN()
