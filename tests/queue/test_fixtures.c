/* SPDX-License-Identifier: MIT
 *
 * The proxy, the client and the keys that the tests of queues use do what their headers say.
 */
#include <sys/socket.h>

#include "queue/client.h"
#include "queue/keys.h"
#include "queue/proxy.h"
#include "queue/server.h"
#include "support/directory.h"
#include "support/test.h"

static const char stream_config[] =
    "{\"name\":\"s\",\"subjects\":[\"s.>\"],\"storage\":\"file\",\"allow_direct\":true}";

static void make_stream(struct client *c)
{
    const char *answer = client_ask(c, "$JS.API.STREAM.CREATE.s", stream_config);
    CHECK(!strstr(answer, "\"error\""));
}

static void count(void *user, const char *subject, const char *data, size_t size)
{
    unsigned *n = user;
    char expected[32];
    snprintf(expected, sizeof expected, "s.%u", *n);
    CHECK_STR(subject, expected);
    CHECK_EQ(size, 4);
    CHECK_STR(data, "data");
    ++*n;
}

TEST(client_counts_and_reads_messages)
{
    struct server s;
    struct client c;
    char subject[32];
    unsigned n = 0;
    server_start(&s, NULL);
    client_open(&c, s.port);
    CHECK_EQ(client_count(&c, "s"), -1);
    make_stream(&c);
    CHECK_EQ(client_count(&c, "s"), 0);
    for (unsigned i = 0; i < 1200; i++) {
        snprintf(subject, sizeof subject, "s.%u", i);
        CHECK_EQ(client_number(client_ask(&c, subject, "data"), "seq"), i + 1);
    }
    CHECK_EQ(client_count(&c, "s"), 1200);
    client_each(&c, "s", count, &n);
    CHECK_EQ(n, 1200);
    client_close(&c);
}

TEST(client_pulls_and_acknowledges)
{
    struct server s;
    struct client c;
    server_start(&s, NULL);
    client_open(&c, s.port);
    make_stream(&c);
    client_ask(&c, "s.a", "data");
    client_ask(&c, "$JS.API.CONSUMER.CREATE.s.w",
               "{\"stream_name\":\"s\",\"config\":{\"durable_name\":\"w\",\"ack_policy\":\"explicit\"}}");
    CHECK(client_pull(&c, "s", "w"));
    CHECK_STR(c.data, "data");
    char reply[256];
    snprintf(reply, sizeof reply, "%s", c.reply);
    CHECK(!client_pull(&c, "s", "w"));
    CHECK_EQ(client_number(client_ask(&c, "$JS.API.CONSUMER.INFO.s.w", ""), "num_ack_pending"), 1);
    client_ask(&c, reply, "+ACK");
    CHECK_EQ(client_number(client_ask(&c, "$JS.API.CONSUMER.INFO.s.w", ""), "num_ack_pending"), 0);
    client_close(&c);
}

TEST(proxy_loses_the_answer_but_not_the_request)
{
    struct server s;
    struct proxy p;
    struct client watcher, c;
    server_start(&s, NULL);
    proxy_start(&p, s.port);
    client_open(&watcher, s.port);
    client_subscribe(&watcher, "s.lost");
    client_open(&c, p.port);
    make_stream(&c);
    proxy_trap(&p, PROXY_UP, "PUB s.lost", PROXY_DOWN, PROXY_DROP);
    client_publish(&c, "s.before", NULL, NULL, "data", 4);
    client_publish(&c, "s.lost", "nobody", NULL, "data", 4);
    proxy_await_trap(&p);
    client_next(&watcher);
    CHECK_STR(watcher.subject, "s.lost");
    CHECK_EQ(recv(c.fd, c.buffer, 1, MSG_DONTWAIT), -1);
    CHECK_EQ(proxy_cut(&p), 1);
    CHECK_EQ(recv(c.fd, c.buffer, 1, 0), 0);
    proxy_set(&p, PROXY_DOWN, PROXY_PASS);
    client_close(&c);
    client_open(&c, p.port);
    CHECK_EQ(client_count(&c, "s"), 2);
    client_close(&c);
    client_close(&watcher);
}

TEST(proxy_holds_back_and_lets_go)
{
    struct server s;
    struct proxy p;
    struct client direct, watcher, c;
    server_start(&s, NULL);
    proxy_start(&p, s.port);
    client_open(&direct, s.port);
    client_open(&watcher, s.port);
    client_subscribe(&watcher, "s.held");
    client_open(&c, p.port);
    make_stream(&c);
    proxy_set(&p, PROXY_UP, PROXY_HOLD);
    client_publish(&c, "s.held", NULL, NULL, "data", 4);
    CHECK_EQ(client_count(&direct, "s"), 0);
    proxy_set(&p, PROXY_UP, PROXY_PASS);
    client_next(&watcher);
    CHECK_STR(watcher.data, "data");
    proxy_refuse(&p);
    CHECK_EQ(proxy_cut(&p), 1);
    proxy_accept(&p);
    client_close(&c);
    client_open(&c, p.port);
    client_ask(&c, "s.later", "data");
    CHECK_EQ(client_count(&c, "s"), 2);
    client_close(&c);
    client_close(&direct);
    client_close(&watcher);
    proxy_end(&p);
}

TEST(server_accepts_keys_and_credentials)
{
    static char config[20000];
    struct server s;
    struct key k;
    char path[512];
    server_require();
    directory_enter();
    snprintf(path, sizeof path, "%s/user", directory_path);
    key_make(&k, KEY_USER, path);
    CHECK_EQ(k.public[0], 'U');
    CHECK_EQ(strncmp(k.seed, "SU", 2), 0);
    server_start(&s, &(struct server_options){ .nkey = k.public }); /* it refuses a key with a wrong checksum */
    server_end(&s);
    credentials_make(directory_path, config, sizeof config);
    server_start(&s, &(struct server_options){ .config = config });
    CHECK_EQ(access("user.creds", R_OK), 0);
}

TEST_MAIN()
