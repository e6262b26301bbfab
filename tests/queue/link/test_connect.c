/* SPDX-License-Identifier: MIT
 *
 * Opening a link: with credentials and TLS, and the error messages for what can be wrong.
 */
#include <arpa/inet.h>
#include <gpu_dispatch/queue.h>
#include <sys/socket.h>

#include "queue/answers.h"
#include "queue/connect.h"
#include "queue/keys.h"
#include "queue/server.h"
#include "support/test.h"

static char address[1024];

static const char *address_of(const char *scheme, const char *hosts)
{
    snprintf(address, sizeof address, "%s://%s/q", scheme, hosts);
    return address;
}

/* Opening fails, with a message that has this text. */
static int refuses(const char *scheme, const char *hosts, const struct gd__nats_options *o, const char *text)
{
    struct answers a;
    const int rc = answers_try(&a, address_of(scheme, hosts), o);
    CHECK(rc < 0);
    CHECK_CONTAINS(gd_error_text(), text);
    return rc;
}

static void accepts(const char *scheme, const char *hosts, const struct gd__nats_options *o)
{
    struct answers a;
    if (answers_try(&a, address_of(scheme, hosts), o) < 0)
        FAIL("%s", gd_error_text());
    answers_make_queue(&a, 30000, 1);
    CHECK_EQ(answers_publish(&a, "gd.q.s.command", "data", GD__IF_ANY, 0), GD__ANSWER_OK);
    answers_close(&a);
}

static const char *path_in(const struct server *s, const char *name)
{
    static char paths[4][2 * SERVER_PATH];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", s->dir, name);
    return path;
}

/* ---- no server, or not one that can hold a queue ---- */

TEST(a_port_on_which_nothing_listens)
{
    char hosts[64];
    server_require();
    snprintf(hosts, sizeof hosts, "127.0.0.1:%u", reserve_port());
    refuses("nats", hosts, NULL, "no server listens on 127.0.0.1:");
    CHECK_CONTAINS(gd_error_text(), "nats-server -c gpu-dispatch.conf");
}

TEST(a_host_that_does_not_exist)
{
    server_require();
    refuses("nats", "no-such-host.invalid", NULL, "there is no host \"no-such-host.invalid\"");
}

TEST(one_of_several_servers_is_enough)
{
    struct server s;
    char hosts[2 * SERVER_PATH];
    server_start(&s, NULL);
    snprintf(hosts, sizeof hosts, "127.0.0.1:%u,no-such-host.invalid,%s", reserve_port(), s.hosts);
    accepts("nats", hosts, NULL);
    server_kill(&s);
    refuses("nats", hosts, NULL, "none of the 3 servers can be used");
}

/* A server that sends this text to whoever connects, and closes the connection. Returns its port. */
static unsigned speak(const char *text, bool stays)
{
    struct sockaddr_in a = { .sin_family = AF_INET };
    socklen_t size = sizeof a;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 8) == 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&a, &size), 0);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    while (pid == 0) {
        const int client = accept(fd, NULL, NULL);
        if (client < 0 || write(client, text, strlen(text)) < 0)
            _exit(0);
        if (!stays)
            close(client);
    }
    close(fd);
    return ntohs(a.sin_port);
}

static void refuses_speaker(const char *line, bool stays, const char *text)
{
    char hosts[64];
    server_require();
    snprintf(hosts, sizeof hosts, "127.0.0.1:%u", speak(line, stays));
    refuses("nats", hosts, &(struct gd__nats_options){ .connect_timeout_ms = stays ? 200 : 0 }, text);
}

TEST(a_server_of_another_kind)
{
    refuses_speaker("HTTP/1.1 400 Bad Request\r\n\r\n", false, "it sent \"HTTP/1.1 400 Bad Request\"");
}

TEST(a_server_that_says_nothing)
{
    refuses_speaker("", true, "sent nothing: it is starting, or it is not a NATS server");
}

TEST(a_server_that_stops_in_its_first_line)
{
    refuses_speaker("INFO {\"version\":", true, "is not a NATS server");
}

TEST(a_server_that_is_too_old_by_its_own_words)
{
    refuses_speaker("INFO {\"version\":\"2.12.2\",\"jetstream\":true}\r\n", false,
                    "has version 2.12.2, which is too old");
}

TEST(debians_server_is_too_old)
{
    struct server s;
    const char *old = server_old_binary();
    if (!old)
        SKIP("no old server");
    server_start(&s, &(struct server_options){ .binary = old });
    CHECK_EQ(refuses("nats", s.hosts, NULL, "has version 2.9"), GD_E_UNSUPPORTED);
}

TEST(a_server_without_jetstream)
{
    struct server s;
    server_start(&s, &(struct server_options){ .without_jetstream = true });
    CHECK_EQ(refuses("nats", s.hosts, NULL, "has JetStream disabled"), GD_E_UNSUPPORTED);
}

TEST(an_account_without_jetstream)
{
    struct server s;
    server_start(&s, &(struct server_options){ .config = "accounts {\n  A { users: [ { user: a, password: b } ] }\n"
                                                         "  SYS { users: [ { user: s, password: s } ] }\n}\n"
                                                         "system_account: SYS\n" });
    const struct gd__nats_options o = { .user = "a", .password = "b" };
    CHECK_EQ(refuses("nats", s.hosts, &o, "JetStream, which stores queues, is not available to this account"),
             GD_E_UNSUPPORTED);
}

/* ---- credentials ---- */

TEST(a_user_and_a_password)
{
    struct server s;
    server_start(&s, &(struct server_options){ .user = "joe", .password = "secret-word" });
    accepts("nats", s.hosts, &(struct gd__nats_options){ .user = "joe", .password = "secret-word" });
    refuses("nats", s.hosts, NULL, "requires credentials");
    refuses("nats", s.hosts, &(struct gd__nats_options){ .user = "joe", .password = "wrong-word" },
            "does not accept the user and password");
    CHECK(!strstr(gd_error_text(), "wrong-word"));
    refuses("nats", s.hosts, &(struct gd__nats_options){ .user = "joe" }, "both NATS_USER and NATS_PASSWORD");
}

TEST(a_token)
{
    struct server s;
    server_start(&s, &(struct server_options){ .token = "secret-word" });
    accepts("nats", s.hosts, &(struct gd__nats_options){ .token = "secret-word" });
    refuses("nats", s.hosts, &(struct gd__nats_options){ .token = "other" }, "does not accept the token");
}

TEST(an_nkey)
{
    struct server s;
    struct key key, other;
    char dir[] = "/tmp/gd-keys-XXXXXX", path[64], file[80];
    server_require();
    CHECK(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/user", dir);
    key_make(&key, KEY_USER, path);
    server_start(&s, &(struct server_options){ .nkey = key.public });
    snprintf(file, sizeof file, "%s.nk", path);
    accepts("nats", s.hosts, &(struct gd__nats_options){ .nkey = file });
    snprintf(path, sizeof path, "%s/other", dir);
    key_make(&other, KEY_USER, path);
    snprintf(file, sizeof file, "%s.nk", path);
    refuses("nats", s.hosts, &(struct gd__nats_options){ .nkey = file }, "does not accept the nkey");
    refuses("nats", s.hosts, &(struct gd__nats_options){ .nkey = path_in(&s, "config") }, "has no nkey of a user");
}

TEST(a_credentials_file)
{
    struct server s;
    char dir[] = "/tmp/gd-creds-XXXXXX", file[64], config[8192];
    server_require();
    CHECK(mkdtemp(dir));
    credentials_make(dir, config, sizeof config);
    server_start(&s, &(struct server_options){ .config = config });
    snprintf(file, sizeof file, "%s/user.creds", dir);
    accepts("nats", s.hosts, &(struct gd__nats_options){ .creds = file });
    refuses("nats", s.hosts, NULL, "requires credentials");
}

TEST(files_that_cannot_be_used)
{
    struct server s;
    server_start(&s, NULL);
    refuses("nats", s.hosts, &(struct gd__nats_options){ .creds = "/nonexistent/x.creds" },
            "cannot read the credentials file /nonexistent/x.creds");
    refuses("nats", s.hosts, &(struct gd__nats_options){ .creds = s.dir }, "is not a file");
    refuses("nats", s.hosts, &(struct gd__nats_options){ .creds = "/dev/null" }, "is not a file");
    refuses("nats", s.hosts, &(struct gd__nats_options){ .creds = "/etc/passwd" }, "BEGIN NATS USER JWT");
    refuses("nats", s.hosts, &(struct gd__nats_options){ .creds = "a", .token = "b" }, "use only one of");
    refuses("nats", s.hosts, &(struct gd__nats_options){ .tls_cert = "/etc/passwd" }, "needs its key");
}

TEST(permissions_that_are_missing)
{
    struct server s;
    const struct gd__nats_options o = { .user = "a", .password = "b" };
    server_start(&s,
                 &(struct server_options){ .config = "authorization { users: [ { user: a, password: b, permissions: { "
                                                     "publish: \"gd.>\", subscribe: \"_INBOX.>\" } } ] }\n" });
    refuses("nats", s.hosts, &o, "the credentials do not allow the use of a queue");
    CHECK_CONTAINS(gd_error_text(), "$JS.API.INFO");
    server_end(&s);
    server_start(&s,
                 &(struct server_options){ .config = "authorization { users: [ { user: a, password: b, permissions: { "
                                                     "publish: \">\", subscribe: \"other.>\" } } ] }\n" });
    refuses("nats", s.hosts, &o, "the credentials do not allow the use of a queue");
}

TEST(a_request_that_is_not_allowed_is_denied)
{
    struct server s;
    struct answers a;
    const struct gd__nats_options o = { .user = "a", .password = "b" };
    server_start(&s, &(struct server_options){
                         .config = "authorization { users: [ { user: a, password: b, permissions: { publish: { allow: "
                                   "\">\", deny: \"gd.q.r.>\" }, subscribe: \"_INBOX.>\" } } ] }\n" });
    answers_open(&a, s.hosts, "q", &o);
    answers_make_queue(&a, 30000, 1);
    CHECK_EQ(answers_publish(&a, "gd.q.t.0.k", "data", GD__IF_NONE, 0), GD__ANSWER_OK);
    const struct answer *e = answers_ask(
        &a, &(struct gd__queue_request){ .ask = GD__ASK_PUBLISH, .subject = "gd.q.r.k", .timeout_ms = 3600000 });
    CHECK_EQ(e->kind, GD__ANSWER_DENIED);
    CHECK_CONTAINS(e->text, "gd.q.r.k");
    answers_close(&a);
}

TEST(a_file_that_others_can_read_is_reported)
{
    struct server s;
    struct answers a;
    struct key key;
    char dir[] = "/tmp/gd-keys-XXXXXX", path[64], file[80];
    server_require();
    CHECK(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/user", dir);
    snprintf(file, sizeof file, "%s.nk", path);
    key_make(&key, KEY_USER, path);
    server_start(&s, &(struct server_options){ .nkey = key.public });
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(chmod(file, i ? 0600 : 0644), 0);
        answers_open(&a, s.hosts, "q", &(struct gd__nats_options){ .nkey = file });
        const struct answer *e = answers_ask(&a, &(struct gd__queue_request){ .ask = GD__ASK_SERVER });
        CHECK_EQ(strstr(e->a.server.warning, "other users can read the nkey file") != NULL, i == 0);
        answers_close(&a);
    }
}

/* ---- TLS ---- */

TEST(tls)
{
    struct server s;
    server_start(&s, &(struct server_options){ .tls = true });
    const struct gd__nats_options o = { .tls_ca = path_in(&s, "ca.pem") };
    accepts("tls", s.hosts, &o);
    accepts("nats", s.hosts, &o); /* the server requires it */
    refuses("tls", s.hosts, NULL, "TLS with the server of the queue failed");
    CHECK_CONTAINS(gd_error_text(), "--tlsca");
}

TEST(tls_with_a_certificate_of_the_client)
{
    struct server s;
    server_start(&s, &(struct server_options){ .tls = true, .tls_verify = true });
    accepts("tls", s.hosts,
            &(struct gd__nats_options){ .tls_ca = path_in(&s, "ca.pem"),
                                        .tls_cert = path_in(&s, "client.pem"),
                                        .tls_key = path_in(&s, "client.key") });
    refuses("tls", s.hosts, &(struct gd__nats_options){ .tls_ca = path_in(&s, "ca.pem") },
            "asks clients for a certificate: use --tlscert and --tlskey");
}

/* The certificate is for 127.0.0.1 and localhost. */
TEST(a_certificate_of_another_host)
{
    struct server s;
    char hosts[64];
    server_start(&s, &(struct server_options){ .tls = true, .host = "0.0.0.0" });
    const struct gd__nats_options o = { .tls_ca = path_in(&s, "ca.pem") };
    snprintf(hosts, sizeof hosts, "127.0.0.2:%u", s.port);
    refuses("tls", hosts, &o, "TLS with the server of the queue failed");
    snprintf(hosts, sizeof hosts, "127.0.0.1:%u", s.port);
    accepts("tls", hosts, &o);
    snprintf(hosts, sizeof hosts, "localhost:%u", s.port);
    accepts("tls", hosts, &o);
    snprintf(hosts, sizeof hosts, "localhost:%u,127.0.0.1:%u", s.port, s.port);
    accepts("tls", hosts, &o);
}

TEST(tls_that_the_server_does_not_have)
{
    struct server s;
    server_start(&s, NULL);
    refuses("tls", s.hosts, NULL, "has no TLS: write nats:// instead of tls://");
}

/* ---- what can be learned about the server ---- */

static int durable(bool is_durable, bool has_page)
{
    struct server s;
    struct answers a;
    char config[64], port[16];
    snprintf(port, sizeof port, "%u", reserve_port());
    snprintf(config, sizeof config, "http: \"127.0.0.1:%s\"\n", port);
    setenv("GPU_DISPATCH_NATS_MONITORING", port, 1);
    server_start(&s, &(struct server_options){ .durable = is_durable, .config = has_page ? config : "" });
    answers_open(&a, s.hosts, "q", NULL);
    const int found = answers_ask(&a, &(struct gd__queue_request){ .ask = GD__ASK_SERVER })->a.server.durable;
    answers_close(&a);
    server_end(&s);
    return found;
}

TEST(whether_a_server_is_durable)
{
    CHECK_EQ(durable(true, true), 1);
    CHECK_EQ(durable(false, true), 0);
    CHECK_EQ(durable(true, false), -1);
}

/* nats-server -t checks a configuration. */
static void check_configuration(const char *path)
{
    char command[4 * SERVER_PATH];
    snprintf(command, sizeof command, "'%s' -t -c '%s' >/dev/null 2>&1", getenv("GD_TEST_NATS_SERVER"), path);
    CHECK_EQ(system(command), 0);
}

/* With and without its examples, which are commented out. */
TEST(the_shipped_configurations_are_valid)
{
    static const char *const names[] = { "gpu-dispatch.conf", "gpu-dispatch-cluster.conf" };
    const char *root = getenv("GD_SOURCE_ROOT");
    char path[SERVER_PATH], command[8 * SERVER_PATH], other[] = "/tmp/gd-conf-XXXXXX";
    server_require();
    if (!root)
        SKIP("no source tree");
    setenv("NATS_NAME", "a", 1);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/examples/queue/%s", root, names[i]);
        check_configuration(path);
    }
    snprintf(path, sizeof path, "%s/examples/queue/%s", root, names[0]);
    const int fd = mkstemp(other);
    CHECK(fd >= 0);
    close(fd);
    snprintf(command, sizeof command,
             "sed '/^# authorization {/,/^# }/s/^# //' '%s' >%s && grep -q '^authorization' %s", path, other, other);
    CHECK_EQ(system(command), 0);
    setenv("QUEUE_PASSWORD", "x", 1);
    check_configuration(other);
    unlink(other);
}

/* The permissions that gpu-dispatch.conf names are enough. */
TEST(the_permissions_that_a_user_needs)
{
    struct server s;
    struct answers a;
    server_start(&s, &(struct server_options){
                         .config = "authorization { users: [ { user: a, password: b, permissions: { publish: [ "
                                   "\"$JS.API.>\", \"$JS.ACK.>\", \"gd.q.>\" ], subscribe: \"_INBOX.>\" } } ] }\n" });
    answers_open(&a, s.hosts, "q", &(struct gd__nats_options){ .user = "a", .password = "b" });
    answers_make_queue(&a, 30000, 1);
    CHECK_EQ(answers_publish(&a, "gd.q.t.0.k", "data", GD__IF_NONE, 0), GD__ANSWER_OK);
    const struct answer *e = answers_ask(&a, &(struct gd__queue_request){ .ask = GD__ASK_PULL, .most = 1 });
    CHECK_EQ(answers_items(&a, e->id), 1);
    gd__link_tell(a.link, GD__TELL_ACK, answers_item(&a, e->id, 0)->token, 0);
    e = answers_ask(&a,
                    &(struct gd__queue_request){ .ask = GD__ASK_READ, .stream = GD__QUEUE_TASK, .from = 1, .most = 9 });
    CHECK_EQ(answers_items(&a, e->id), 1);
    CHECK_EQ(answers_ask(&a, &(struct gd__queue_request){ .ask = GD__ASK_CONSUMER })->a.consumer.unacknowledged, 0);
    answers_close(&a);
}

/* ---- a server that does not answer yet ---- */

/* A server that is started while a client waits for it. */
struct late {
    struct server s;
    char line[256];
    unsigned lines, pauses;
    bool gives_up;
};

static void take_line(void *user, const char *line)
{
    struct late *l = user;
    l->lines++;
    snprintf(l->line, sizeof l->line, "%s", line);
}

/* The server comes back in the third pause. */
static bool pause_late(void *user, unsigned ms)
{
    struct late *l = user;
    CHECK_LE(ms, 2000);
    if (++l->pauses == 3 && !l->gives_up)
        server_again(&l->s);
    return l->pauses < 3 || !l->gives_up;
}

static int connect_late(struct late *l, const char *hosts, unsigned timeout_ms, bool is_endless)
{
    const struct gd__queue_listener none = { .user = NULL };
    const struct gd__queue_patience p = { is_endless, take_line, pause_late, l };
    struct gd_queue_options o = GD_QUEUE_OPTIONS_INIT;
    struct gd__queue_link *link = NULL;
    o.url = address_of("nats", hosts);
    o.connect_timeout_ms = timeout_ms;
    const int rc = gd__queue_connect(&link, NULL, &o, &none, &p);
    if (rc == 0)
        link->ops->close(link, 1000);
    return rc;
}

TEST(a_server_that_restarts_is_waited_for)
{
    struct late l = { .pauses = 0 };
    char line[SERVER_PATH + 64];
    server_start(&l.s, NULL);
    server_kill(&l.s);
    CHECK_EQ(connect_late(&l, l.s.hosts, 3600000, false), 0);
    CHECK_EQ(l.pauses, 3);
    CHECK_EQ(l.lines, 1);
    snprintf(line, sizeof line, "the server at %s does not answer yet: trying for 3600 s", l.s.hosts);
    CHECK_STR(l.line, line);
}

TEST(a_node_that_stays_waits_without_a_limit)
{
    struct late l = { .pauses = 0 };
    server_start(&l.s, NULL);
    server_kill(&l.s);
    if (connect_late(&l, l.s.hosts, 1, true) < 0) /* its time is over before the first pause */
        FAIL("%s", gd_error_text());
    CHECK_GE(l.pauses, 3);
    CHECK_CONTAINS(l.line, "trying until it does");
}

TEST(a_server_that_closes_connections_is_waited_for)
{
    struct late l = { .gives_up = true };
    char hosts[64];
    server_require();
    snprintf(hosts, sizeof hosts, "127.0.0.1:%u", speak("", false));
    CHECK_EQ(connect_late(&l, hosts, 3600000, false), GD_E_INTERRUPTED);
    CHECK_EQ(l.pauses, 3);
}

/* One of the servers may come back. */
TEST(a_host_that_does_not_exist_among_others)
{
    struct late l = { .gives_up = true };
    char hosts[128];
    server_require();
    snprintf(hosts, sizeof hosts, "127.0.0.1:%u,no-such-host.invalid", reserve_port());
    CHECK_EQ(connect_late(&l, hosts, 3600000, false), GD_E_INTERRUPTED);
    CHECK_EQ(l.pauses, 3);
    CHECK_CONTAINS(l.line, "and those with it");
}

TEST(the_wait_for_a_server_has_an_end)
{
    struct late l = { .pauses = 0, .gives_up = true };
    char hosts[64];
    server_require();
    snprintf(hosts, sizeof hosts, "127.0.0.1:%u", reserve_port());
    CHECK_EQ(connect_late(&l, hosts, 1, false), GD_E_FAILED);
    CHECK_CONTAINS(gd_error_text(), "no server listens on");
    CHECK_LE(l.pauses, 1);
}

static void fails_at_once(const char *hosts, int code)
{
    struct late l = { .gives_up = true };
    CHECK_EQ(connect_late(&l, hosts, 3600000, false), code);
    CHECK_EQ(l.pauses, 0);
    CHECK_EQ(l.lines, 0);
}

TEST(what_does_not_pass_is_reported_at_once)
{
    struct server s;
    char hosts[64];
    server_start(&s, &(struct server_options){ .user = "joe", .password = "secret-word" });
    fails_at_once(s.hosts, GD_E_FAILED);
    server_end(&s);
    server_start(&s, &(struct server_options){ .tls = true });
    fails_at_once(s.hosts, GD_E_FAILED);
    fails_at_once("no-such-host.invalid", GD_E_FAILED);
    snprintf(hosts, sizeof hosts, "127.0.0.1:%u", speak("HTTP/1.1 400 Bad Request\r\n\r\n", false));
    fails_at_once(hosts, GD_E_FAILED);
    snprintf(hosts, sizeof hosts, "127.0.0.1:%u", speak("INFO {\"version\":\"2.12.2\",\"jetstream\":true}\r\n", false));
    fails_at_once(hosts, GD_E_UNSUPPORTED);
}

/* ---- options of the library ---- */

TEST(the_environment_has_credentials)
{
    struct server s;
    struct gd__queue_link *link;
    struct gd__queue_address parsed;
    struct answers a = { .link = NULL };
    struct gd_queue_options o = GD_QUEUE_OPTIONS_INIT;
    server_start(&s, &(struct server_options){ .user = "joe", .password = "secret-word" });
    (void)a;
    o.url = address_of("nats", s.hosts);
    const struct gd__queue_listener none = { .user = NULL };
    CHECK(gd__queue_connect(&link, &parsed, &o, &none, NULL) < 0);
    setenv("NATS_USER", "joe", 1);
    setenv("NATS_PASSWORD", "secret-word", 1);
    CHECK_EQ(gd__queue_connect(&link, &parsed, &o, &none, NULL), 0);
    CHECK_STR(parsed.name, "q");
    link->ops->close(link, 1000);
    setenv("NATS_TOKEN", "x", 1);
    CHECK_EQ(gd__queue_connect(&link, &parsed, &o, &none, NULL), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "use only one of");
    o.nkey = "/nonexistent"; /* the variables are not used then */
    CHECK(gd__queue_connect(&link, &parsed, &o, &none, NULL) < 0);
    CHECK_CONTAINS(gd_error_text(), "/nonexistent");
}

TEST(options_are_checked)
{
    struct gd__queue_link *link;
    const struct gd__queue_listener none = { .user = NULL };
    struct gd_queue_options o = GD_QUEUE_OPTIONS_INIT;
    CHECK_EQ(gd__queue_connect(&link, NULL, &o, &none, NULL), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "url");
    o.url = "nats://joe:word@host/q";
    CHECK_EQ(gd__queue_connect(&link, NULL, &o, &none, NULL), GD_E_INVALID);
    CHECK(!strstr(gd_error_text(), "word@"));
    o.url = "nats://127.0.0.1:1/q";
    o.replicas = 2;
    CHECK_EQ(gd__queue_connect(&link, NULL, &o, &none, NULL), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "1, 3 or 5");
    o.replicas = 3;
    o.lease_ms = 5;
    CHECK_EQ(gd__queue_connect(&link, NULL, &o, &none, NULL), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "lease_ms");
    CHECK_EQ(gd__queue_connect(&link, NULL, NULL, &none, NULL), GD_E_INVALID);
}

TEST_MAIN()
