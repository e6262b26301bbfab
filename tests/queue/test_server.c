/* SPDX-License-Identifier: MIT
 *
 * The servers of the tests themselves: they start, die and come back as server.h says.
 */
#include "queue/server.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "support/test.h"

/* The first line that the server sends to a client: INFO {...}. "": there is no server. */
static const char *greeting(const struct server *s)
{
    static char line[4096];
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)s->port) };
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    ssize_t n = 0;
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        n = read(fd, line, sizeof line - 1);
    line[n > 0 ? n : 0] = '\0';
    close(fd);
    return line;
}

TEST(starts_dies_and_comes_back_on_its_port)
{
    struct server s;
    server_start(&s, &(struct server_options){ .durable = true, .max_payload = 200000 });
    CHECK_CONTAINS(greeting(&s), "\"max_payload\":200000");
    server_kill(&s);
    CHECK_STR(greeting(&s), "");
    server_again(&s);
    CHECK_CONTAINS(greeting(&s), "\"jetstream\":true");
    server_end(&s);
}

TEST(two_servers_have_different_ports)
{
    struct server a, b;
    server_start(&a, NULL);
    server_start(&b, NULL);
    CHECK_NE(a.port, b.port);
    server_kill(&a);
    CHECK_CONTAINS(greeting(&b), "INFO");
}

TEST(a_stopped_server_continues)
{
    struct server s;
    server_start(&s, NULL);
    server_stop(&s);
    server_continue(&s);
    CHECK_CONTAINS(greeting(&s), "INFO");
}

TEST(credentials_and_tls_are_required)
{
    struct server s;
    server_start(&s, &(struct server_options){ .user = "u", .password = "p", .tls = true });
    CHECK_CONTAINS(greeting(&s), "\"auth_required\":true");
    CHECK_CONTAINS(greeting(&s), "\"tls_required\":true");
}

TEST(three_servers_elect_a_leader)
{
    struct server s[CLUSTER_SERVERS];
    cluster_start(s, NULL);
    struct server *leader = cluster_leader(s);
    CHECK(leader != NULL);
    CHECK_CONTAINS(cluster_hosts(s), leader->hosts);
    server_kill(leader);
    CHECK(cluster_leader(s) != leader);
}

TEST(old_server_does_not_know_when_to_sync)
{
    struct server s;
    server_require();
    if (!server_old_binary())
        SKIP("Debian's nats-server 2.9.10 was not fetched");
    server_start(&s, &(struct server_options){ .binary = server_old_binary() });
    CHECK_CONTAINS(greeting(&s), "\"version\":\"2.9.10\"");
}

TEST(a_power_loss_takes_what_is_not_synced)
{
    struct disk d, after;
    char path[SERVER_PATH + 16];
    disk_make(&d);
    const char *const names[] = { "synced", "not-synced" };
    for (unsigned i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", d.mounted, names[i]);
        FILE *f = fopen(path, "we");
        CHECK(f != NULL);
        fputs("text", f);
        fclose(f);
        if (i == 0)
            disk_sync(&d);
    }
    disk_lose_power(&d, &after);
    snprintf(path, sizeof path, "%s/synced", after.mounted);
    CHECK_EQ(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/not-synced", after.mounted);
    CHECK_NE(access(path, F_OK), 0);
}

TEST_MAIN()
