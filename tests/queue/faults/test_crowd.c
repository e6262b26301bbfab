/* SPDX-License-Identifier: MIT
 *
 * A thousand connections, each with a pull that waits.
 */
#include <sys/resource.h>

#include "queue/client.h"
#include "queue/server.h"
#include "queue/work.h"
#include "support/test.h"

enum { CLIENTS = 1000, TASKS = 500 };

TEST_WITHIN(180, thousand_connections_wait_for_tasks)
{
    static struct client all[CLIENTS];
    struct server s;
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < 2 * CLIENTS)
        SKIP("too few descriptors are allowed here");
    server_start(&s, &(struct server_options){ .durable = true });
    work_begin(s.hosts);
    list_add("quick", 0, 1);
    CHECK_EQ(push("--lease 2s").status, 0);
    struct node n = node_start("--gpus sim:2");
    CHECK_EQ(node_wait(&n), 0);
    static const char request[] = "{\"batch\":1,\"expires\":600000000000}";
    for (unsigned i = 0; i < CLIENTS; i++) {
        char reply[64];
        client_open(&all[i], s.port);
        snprintf(reply, sizeof reply, "%s.1", all[i].inbox);
        client_publish(&all[i], "$JS.API.CONSUMER.MSG.NEXT.gd_q_t.priority_0", reply, NULL, request,
                       sizeof request - 1);
    }
    /* Requests of one client are handled in order, so the last client's pull waits when this is answered. */
    const char *info = client_ask(&all[CLIENTS - 1], "$JS.API.CONSUMER.INFO.gd_q_t.priority_0", "");
    CHECK_GE(client_number(info, "num_waiting"), 1);
    list_add("quick", 1, TASKS);
    CHECK_EQ(push("").status, 0);
    /* Each of the first ones gets a task and dies with it. */
    unsigned delivered = 0;
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct pollfd p = { all[i].fd, POLLIN, 0 };
        if (delivered < TASKS && poll(&p, 1, 0) == 1) {
            client_next(&all[i]);
            delivered += strncmp(all[i].subject, "gd.q.t.", 7) == 0;
        }
        client_close(&all[i]);
    }
    printf("# %u of %d tasks were delivered to other clients\n", delivered, TASKS);
    n = node_start("--gpus sim:4");
    CHECK_EQ(node_wait(&n), 0);
    check_queue(s.port, TASKS + 1);
}

WORK_MAIN()
