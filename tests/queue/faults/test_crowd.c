/* SPDX-License-Identifier: MIT
 *
 * A thousand connections, each with a pull that waits.
 */
#include <sys/resource.h>

#include "queue/client.h"
#include "queue/server.h"
#include "queue/work.h"
#include "support/test.h"

enum { CLIENTS = 1000 };

#define CONSUMER "gd_q_t.priority_0"

static struct client all[CLIENTS];

static void allow_descriptors(void)
{
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < 2 * CLIENTS)
        SKIP("too few descriptors are allowed here");
}

/* Connects all clients. Each of them asks for one task, and for an answer if it has to wait longer than ten minutes. */
static void begin_waiting(unsigned port)
{
    static const char request[] = "{\"batch\":1,\"expires\":600000000000}";
    for (unsigned i = 0; i < CLIENTS; i++) {
        char reply[64];
        client_open(&all[i], port);
        snprintf(reply, sizeof reply, "%s.1", all[i].inbox);
        client_publish(&all[i], "$JS.API.CONSUMER.MSG.NEXT." CONSUMER, reply, NULL, request, sizeof request - 1);
    }
}

/* A server that accepts fewer pulls refuses the others at once. It also sends them PINGs, which are answered here.
 * readable: a descriptor that can always be read, so this does not wait. */
static void check_not_refused(int readable)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        if (client_next_unless(&all[i], readable))
            FAIL("client %u was refused: %s", i, all[i].headers);
    }
}

static void await_waiting(unsigned port)
{
    struct client c;
    const int readable = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    CHECK(readable >= 0);
    client_open(&c, port);
    while (client_number(client_ask(&c, "$JS.API.CONSUMER.INFO." CONSUMER, ""), "num_waiting") < CLIENTS) {
        check_not_refused(readable);
        poll(NULL, 0, 50);
    }
    check_not_refused(readable);
    client_close(&c);
    close(readable);
}

/* Each of them gets a task and dies with it. Then a node runs all tasks. */
TEST_WITHIN(180, thousand_connections_wait_for_tasks)
{
    struct server s;
    allow_descriptors();
    server_start(&s, &(struct server_options){ .durable = true });
    work_begin(s.hosts);
    list_add("quick", 0, 1);
    CHECK_EQ(push("--lease 2s").status, 0);
    struct node n = node_start("--gpus sim:2");
    CHECK_EQ(node_wait(&n), 0);
    begin_waiting(s.port);
    await_waiting(s.port);
    list_add("quick", 1, CLIENTS);
    CHECK_EQ(push("--bundle 1").status, 0);
    for (unsigned i = 0; i < CLIENTS; i++) {
        client_next(&all[i]);
        if (strncmp(all[i].subject, "gd.q.t.", 7) != 0)
            FAIL("client %u got no task: %s%s", i, all[i].subject, all[i].headers);
    }
    for (unsigned i = 0; i < CLIENTS; i++)
        client_close(&all[i]);
    n = node_start("--gpus sim:4");
    CHECK_EQ(node_wait(&n), 0);
    check_queue(s.port, CLIENTS + 1);
}

WORK_MAIN()
