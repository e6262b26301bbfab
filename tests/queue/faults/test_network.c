/* SPDX-License-Identifier: MIT
 *
 * A node on a network that is cut in one direction or both. The server and the node are in network namespaces of their
 * own, connected by a pair of virtual interfaces. Packets are dropped by routes, so no firewall is needed.
 */
#include <sched.h>

#include "queue/server.h"
#include "queue/work.h"
#include "support/test.h"

#define SERVER_ADDRESS "10.77.0.1"
#define NODE_ADDRESS   "10.77.0.2"

static pid_t far; /* a process in the namespace of the node */
static struct server s;

/* Runs a command in the namespace of the server. */
__attribute__((format(printf, 1, 2))) static bool ip(const char *format, ...)
{
    char text[400], command[450];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(command, sizeof command, "PATH=$PATH:/sbin:/usr/sbin; %s 2>/dev/null", text);
    return system(command) == 0;
}

static void enter_far_namespace(int ready)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const char ok = unshare(CLONE_NEWNET) == 0;
    if (write(ready, &ok, 1) == 1)
        pause();
    _exit(0);
}

static void make_network(void)
{
    int ready[2];
    char ok = 0;
    CHECK_EQ(pipe2(ready, O_CLOEXEC), 0);
    if (unshare(CLONE_NEWNET) < 0 || !ip("ip link set lo up"))
        SKIP("network namespaces are not allowed here, or there is no ip command");
    far = fork();
    CHECK(far >= 0);
    if (far == 0)
        enter_far_namespace(ready[1]);
    CHECK_EQ(read(ready[0], &ok, 1), 1);
    CHECK_EQ(ok, 1);
    if (!ip("ip link add gd0 type veth peer name gd1 && ip link set gd1 netns %d", (int)far) ||
        !ip("ip addr add " SERVER_ADDRESS "/24 dev gd0 && ip link set gd0 up") ||
        !ip("nsenter -t %d -n sh -c 'ip addr add " NODE_ADDRESS
            "/24 dev gd1 && ip link set gd1 up && ip link set lo up'",
            (int)far))
        SKIP("virtual interfaces are not available here");
}

static struct node start_far(const char *options)
{
    char prefix[64];
    snprintf(prefix, sizeof prefix, "nsenter -t %d -n", (int)far);
    return node_start_at(prefix, work_url, options);
}

/* What the node sends is dropped, or what the server sends, or both. */
static void cut(bool to_server, bool to_node)
{
    if (to_server)
        CHECK(ip("nsenter -t %d -n ip route add blackhole " SERVER_ADDRESS "/32", (int)far));
    if (to_node)
        CHECK(ip("ip route add blackhole " NODE_ADDRESS "/32"));
}

static void heal(void)
{
    ip("nsenter -t %d -n ip route del blackhole " SERVER_ADDRESS "/32", (int)far);
    ip("ip route del blackhole " NODE_ADDRESS "/32");
}

static void begin(void)
{
    server_require();
    make_network();
    server_start(&s, &(struct server_options){ .durable = true, .host = "0.0.0.0" });
    char hosts[64];
    snprintf(hosts, sizeof hosts, SERVER_ADDRESS ":%u", s.port);
    work_begin(hosts);
}

/* The node has a task when it is cut off. Another node, next to the server, records the task. Then the first one comes
 * back, and its record is refused. */
static void partition(bool to_server, bool to_node)
{
    begin();
    list_add("gate", 0, 1);
    CHECK_EQ(push("--lease 2s").status, 0);
    struct node cut_off = start_far("--gpus sim:1");
    await_log("start gate0");
    cut(to_server, to_node);
    struct node other = node_start("--gpus sim:1");
    await_log_lines("start gate0 ", 2);
    open_gate();
    CHECK_EQ(node_wait(&other), 0);
    check_queue(s.port, 1);
    heal();
    CHECK_EQ(node_wait(&cut_off), 0);
    check_queue(s.port, 1);
}

TEST_WITHIN(120, cut_in_both_directions)
{
    partition(true, true);
}

TEST_WITHIN(120, cut_to_the_server)
{
    partition(true, false);
}

TEST_WITHIN(120, cut_to_the_node)
{
    partition(false, true);
}

WORK_MAIN()
