/* SPDX-License-Identifier: MIT
 *
 * Chaos: nodes and the server are killed with SIGKILL at random moments while tasks are pushed and run. At the end each
 * task has one right record.
 *
 *   queue_chaos                             a small storm
 *   GD_SOAK=1 queue_chaos                   50,000 tasks, 8 nodes, 500 of them and 50 servers killed
 *   queue_chaos --tasks N --nodes N --node-kills N --server-kills N --seed N
 *
 * Tasks are pushed in parts, one after the other, as the storm goes on. Some pushes are killed too, and repeated. Nodes
 * that were killed are started again with the same spool. The seed decides who is killed after which time; what they were
 * doing then depends on the machine.
 */
#include "crash/common.h"
#include "queue/server.h"
#include "queue/work.h"
#include "support/test.h"

enum { MOST_NODES = 64, PARTS = 50, MOST_PAUSE_MS = 250 };

struct sizes {
    unsigned tasks, nodes, node_kills, server_kills;
    uint64_t seed;
};

static struct sizes sizes = { 2000, 4, 20, 3, 1 };

struct storm {
    struct sizes z;
    struct rng rng;
    struct server server;
    struct node nodes[MOST_NODES];
    struct node push; /* pid 0: none is going on */
    unsigned pushed;  /* parts that are in the queue */
    unsigned node_kills, server_kills, push_kills;
    unsigned refused; /* commands that found no server when they began */
};

/* Nodes stay until the end of the storm, and a task is not charged for the deaths that this test causes. */
static void start_node(struct storm *s, unsigned i)
{
    char prefix[64];
    snprintf(prefix, sizeof prefix, "env XDG_STATE_HOME=\"$PWD/state-%u\"", i);
    s->nodes[i] = node_start_at(prefix, work_url, "--gpus sim:2 --crash-limit 100 --idle-exit never --quiet");
}

/* --- pushing ------------------------------------------------------------------------------- */

static void write_part(const struct storm *s, unsigned part)
{
    char path[32];
    snprintf(path, sizeof path, "part.%u", part);
    FILE *f = fopen(path, "we");
    CHECK(f != NULL);
    for (unsigned i = part; i < s->z.tasks; i += PARTS)
        fprintf(f, "quick%u\n", i);
    CHECK_EQ(fclose(f), 0);
}

static void start_push(struct storm *s)
{
    const unsigned bundle = s->pushed % 3 == 2 ? 10 : 1;
    s->push = command_start("push --queue \"$URL\" --lease 2s --bundle %u :::: part.%u", bundle, s->pushed);
}

/* A command that begins while the server is down ends with an error, as it should. It is started again. */
static bool found_no_server(struct storm *s, const struct node *n, int status)
{
    static const char *const messages[] = { "no server listens on", "sent nothing", "cannot connect to",
                                            "accepted the connection, but does not answer" };
    const char *text = node_errors(n);
    bool is_so = false;
    for (unsigned i = 0; i < COUNT_OF(messages); i++)
        is_so = is_so || (status == 255 && strstr(text, messages[i]));
    s->refused += is_so;
    return is_so;
}

/* The push has ended: goes on with the next part, or repeats this one if it was killed. */
static void next_push(struct storm *s)
{
    const struct node push = s->push;
    const int status = node_wait(&s->push);
    if (status != 0 && status != 128 + SIGKILL && !found_no_server(s, &push, status))
        FAIL("seed %llu: push ended with %d: %.500s", (unsigned long long)s->z.seed, status, node_errors(&push));
    s->pushed += status == 0;
    if (s->pushed < PARTS)
        start_push(s);
}

/* --- the storm ------------------------------------------------------------------------------- */

/* A node must not end by itself during the storm, if there was a server when it began. */
static void check_nodes(struct storm *s)
{
    for (unsigned i = 0; i < s->z.nodes; i++) {
        struct pollfd p = { s->nodes[i].ended, POLLIN, 0 };
        if (poll(&p, 1, 0) != 1)
            continue;
        const struct node n = s->nodes[i];
        const int status = node_wait(&s->nodes[i]);
        if (!found_no_server(s, &n, status))
            FAIL("seed %llu: a node ended with %d: %.600s", (unsigned long long)s->z.seed, status, node_errors(&n));
        start_node(s, i);
    }
}

static void kill_one(struct storm *s)
{
    const unsigned left = s->z.node_kills - s->node_kills + s->z.server_kills - s->server_kills;
    if (rng_below(&s->rng, left) < s->z.server_kills - s->server_kills) {
        server_kill(&s->server);
        s->server_kills++;
        if (rng_below(&s->rng, 3) == 0)
            poll(NULL, 0, (int)rng_below(&s->rng, 1000)); /* nobody answers for a while */
        server_again(&s->server);
        return;
    }
    const unsigned i = (unsigned)rng_below(&s->rng, s->z.nodes);
    check_nodes(s);
    node_kill(&s->nodes[i]);
    s->node_kills++;
    start_node(s, i);
    /* Not often: the next push waits for half a minute until it is certain that this one is dead. */
    if (s->push.pid && s->push_kills < s->node_kills / 100) {
        kill(s->push.pid, SIGKILL);
        s->push_kills++;
    }
}

/* Waits for a random time. Pushes go on meanwhile. */
static void pause_and_push(struct storm *s, uint64_t most_ms)
{
    const uint64_t end = now_ns() + rng_below(&s->rng, most_ms) * MS;
    for (uint64_t now; (now = now_ns()) < end;) {
        struct pollfd p = { s->push.pid ? s->push.ended : -1, POLLIN, 0 };
        if (poll(&p, 1, (int)((end - now) / MS) + 1) == 1)
            next_push(s);
    }
}

/* Everything is pushed. The nodes leave, and a last one does what is left. */
static void calm(struct storm *s)
{
    const uint64_t storm_ended = now_ns();
    while (s->pushed < PARTS)
        next_push(s);
    const uint64_t pushed = now_ns();
    check_nodes(s);
    for (unsigned i = 0; i < s->z.nodes; i++)
        node_signal(&s->nodes[i], SIGTERM);
    for (unsigned i = 0; i < s->z.nodes; i++) {
        const struct node n = s->nodes[i];
        const int status = node_wait(&s->nodes[i]);
        if (status != 143 && !found_no_server(s, &n, status))
            FAIL("a node that was told to stop ended with %d: %.600s", status, node_errors(&n));
    }
    const uint64_t left = now_ns();
    struct node last = node_start("--gpus sim:4 --crash-limit 100 --quiet");
    const struct node n = last;
    const int status = node_wait(&last);
    if (status != 0)
        FAIL("the last node ended with %d: %.600s", status, node_errors(&n));
    printf("# after the storm: %.1f s of pushes, %.1f s until the nodes have left, %.1f s of the last node\n",
           (double)(pushed - storm_ended) / 1e9, (double)(left - pushed) / 1e9, (double)(now_ns() - left) / 1e9);
}

TEST_WITHIN(600, storm)
{
    struct storm *s = calloc(1, sizeof *s);
    CHECK(s != NULL);
    s->z = sizes;
    s->rng.state = sizes.seed;
    server_start(&s->server, &(struct server_options){ .durable = true });
    work_begin(s->server.hosts);
    for (unsigned i = 0; i < PARTS; i++)
        write_part(s, i);
    const uint64_t began = now_ns();
    struct result first = command("push --queue \"$URL\" --lease 2s :::: part.0");
    if (first.status != 0)
        FAIL("push ended with %d: %.500s", first.status, first.err);
    s->pushed = 1;
    start_push(s);
    for (unsigned i = 0; i < s->z.nodes; i++)
        start_node(s, i);
    while (s->node_kills < s->z.node_kills || s->server_kills < s->z.server_kills) {
        pause_and_push(s, MOST_PAUSE_MS);
        check_nodes(s);
        kill_one(s);
    }
    calm(s);
    printf("# seed %llu: %u tasks; %u nodes, %u servers and %u pushes killed; %u found no server; "
           "%u attempts; %.1f s\n",
           (unsigned long long)s->z.seed, s->z.tasks, s->node_kills, s->server_kills, s->push_kills, s->refused,
           log_lines("start"), (double)(now_ns() - began) / 1e9);
    check_queue(s->server.port, s->z.tasks);
    free(s);
}

static void read_arguments(int *argc, char ***argv)
{
    const struct {
        const char *name;
        unsigned *value;
    } options[] = { { "--tasks", &sizes.tasks },
                    { "--nodes", &sizes.nodes },
                    { "--node-kills", &sizes.node_kills },
                    { "--server-kills", &sizes.server_kills } };
    if (test_soak())
        sizes = (struct sizes){ 50000, 8, 500, 50, now_ns() % 1000000 };
    while (*argc > 2 && strncmp((*argv)[1], "--", 2) == 0) {
        const unsigned long value = strtoul((*argv)[2], NULL, 10);
        for (unsigned i = 0; i < COUNT_OF(options); i++) {
            if (strcmp((*argv)[1], options[i].name) == 0)
                *options[i].value = (unsigned)value;
        }
        if (strcmp((*argv)[1], "--seed") == 0)
            sizes.seed = value;
        (*argv)[2] = (*argv)[0];
        *argv += 2;
        *argc -= 2;
    }
    if (sizes.nodes > MOST_NODES)
        sizes.nodes = MOST_NODES;
}

int main(int argc, char **argv)
{
    work_task(argc, argv);
    read_arguments(&argc, &argv);
    return test_main(argc, argv);
}
