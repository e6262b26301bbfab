/* SPDX-License-Identifier: MIT
 *
 * Who may use a server and a queue: credentials, TLS, versions, names, commands. What is refused has a clear message.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "queue/keys.h"
#include "queue/server.h"
#include "queue/work.h"
#include "support/directory.h"
#include "support/test.h"

static struct server s;

static void begin(const struct server_options *o)
{
    server_start(&s, o);
    work_begin(s.hosts);
    list_add("quick", 0, 3);
}

static void check_accepted(const char *options)
{
    const struct result r = push(options);
    if (r.status != 0)
        FAIL("push %s: %.500s", options, r.err);
}

/* An error, not a failed task or a signal; the message has this text. */
static void check_refused(const char *options, const char *text)
{
    const struct result r = push(options);
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, text);
    if (strstr(r.err, "sesame"))
        FAIL("a secret is in the message: %s", r.err);
}

TEST(user_and_password)
{
    begin(&(struct server_options){ .user = "me", .password = "sesame" });
    check_refused("", "requires credentials");
    setenv("NATS_USER", "me", 1);
    setenv("NATS_PASSWORD", "open sesame", 1);
    check_refused("", "does not accept");
    setenv("NATS_PASSWORD", "sesame", 1);
    check_accepted("");
}

TEST(token)
{
    begin(&(struct server_options){ .token = "sesame" });
    check_refused("", "requires credentials");
    setenv("NATS_TOKEN", "sesame", 1);
    check_accepted("");
}

TEST(nkey)
{
    struct key k, other;
    char dir[] = "/tmp/gd-key-XXXXXX", path[64], option[80];
    server_require();
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/user", dir);
    key_make(&k, KEY_USER, path);
    begin(&(struct server_options){ .nkey = k.public });
    key_make(&other, KEY_USER, "other");
    check_refused("--nkey other.nk", "does not accept");
    snprintf(option, sizeof option, "--nkey %s.nk", path);
    check_accepted(option);
    check_refused("", "requires credentials");
    setenv("NATS_NKEY", option + strlen("--nkey "), 1);
    check_accepted("");
    directory_remove(dir);
}

static unsigned warnings(const char *errors)
{
    unsigned n = 0;
    for (const char *at = errors; (at = strstr(at, "other users can read the nkey file")); at++)
        n++;
    return n;
}

/* Each command says it once. */
TEST(nkey_that_others_can_read)
{
    struct key k;
    server_require();
    char dir[] = "/tmp/gd-key-XXXXXX", path[64], option[80], options[100];
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/user", dir);
    key_make(&k, KEY_USER, path);
    begin(&(struct server_options){ .nkey = k.public });
    snprintf(option, sizeof option, "--nkey %s.nk", path);
    snprintf(path, sizeof path, "%s/user.nk", dir);
    for (unsigned i = 0; i < 2; i++) {
        CHECK_EQ(chmod(path, i ? 0640 : 0600), 0);
        CHECK_EQ(warnings(push(option).err), i);
        snprintf(options, sizeof options, "--gpus sim:1 %s", option);
        struct node n = node_start(options);
        CHECK_EQ(node_wait(&n), 0);
        CHECK_EQ(warnings(node_errors(&n)), i);
        CHECK_EQ(warnings(command("status --queue \"$URL\" %s", option).err), i);
        CHECK_EQ(warnings(command("export --queue \"$URL\" %s", option).err), i);
    }
    directory_remove(dir);
}

TEST(credentials)
{
    static char config[20000];
    char dir[] = "/tmp/gd-creds-XXXXXX", option[64];
    server_require();
    CHECK(mkdtemp(dir) != NULL);
    credentials_make(dir, config, sizeof config);
    begin(&(struct server_options){ .config = config });
    check_refused("", "requires credentials");
    snprintf(option, sizeof option, "--creds %s/user.creds", dir);
    check_accepted(option);
    setenv("NATS_CREDS", option + strlen("--creds "), 1);
    check_accepted("");
    directory_remove(dir);
}

TEST(tls)
{
    char option[2 * SERVER_PATH];
    begin(&(struct server_options){ .tls = true });
    snprintf(work_url, sizeof work_url, "%s/q", s.address);
    check_refused("", "ertificate");
    snprintf(option, sizeof option, "--tlsca %s/ca.pem", s.dir);
    check_accepted(option);
    check_refused("", "ertificate");
    setenv("NATS_CA", option + strlen("--tlsca "), 1);
    check_accepted("");
}

/* Sets a variable to the path of a file of the server. */
static void set_path(const char *variable, const char *name)
{
    char path[2 * SERVER_PATH];
    snprintf(path, sizeof path, "%s/%s", s.dir, name);
    setenv(variable, path, 1);
}

TEST(tls_with_certificates_of_clients)
{
    char option[4 * SERVER_PATH];
    begin(&(struct server_options){ .tls = true, .tls_verify = true });
    snprintf(work_url, sizeof work_url, "%s/q", s.address);
    snprintf(option, sizeof option, "--tlsca %s/ca.pem", s.dir);
    CHECK_NE(push(option).status, 0);
    snprintf(option, sizeof option, "--tlsca %s/ca.pem --tlscert %s/client.pem --tlskey %s/client.key", s.dir, s.dir,
             s.dir);
    check_accepted(option);
    set_path("NATS_CA", "ca.pem");
    check_refused("", "NATS_CERT");
    set_path("NATS_CERT", "client.pem");
    check_refused("", "key");
    set_path("NATS_KEY", "client.key");
    check_accepted("");
    struct node n = node_start("--gpus sim:1");
    CHECK_EQ(node_wait(&n), 0);
}

TEST(server_without_tls_is_refused_if_tls_was_asked_for)
{
    begin(NULL);
    snprintf(work_url, sizeof work_url, "tls://%s/q", s.hosts);
    check_refused("", "TLS");
}

TEST(password_in_the_address_is_refused)
{
    begin(NULL);
    snprintf(work_url, sizeof work_url, "nats://me:sesame@%s/q", s.hosts);
    check_refused("", "--creds");
}

TEST(old_server_is_refused)
{
    server_require();
    if (!server_old_binary())
        SKIP("Debian's nats-server 2.9.10 was not fetched");
    begin(&(struct server_options){ .binary = server_old_binary() });
    check_refused("", "2.12.3");
    check_refused("", "2.9.10");
}

TEST(server_without_jetstream_is_refused)
{
    begin(&(struct server_options){ .without_jetstream = true });
    check_refused("", "JetStream");
}

TEST(no_server)
{
    server_require();
    char hosts[64];
    snprintf(hosts, sizeof hosts, "127.0.0.1:%u", reserve_port());
    work_begin(hosts);
    list_add("quick", 0, 1);
    check_refused("", hosts);
}

TEST(queue_that_does_not_exist)
{
    begin(NULL);
    struct node n = node_start("--gpus sim:1");
    const int status = node_wait(&n);
    CHECK_EQ(status, 255);
    CHECK_CONTAINS(node_errors(&n), "push");
}

TEST(another_command_is_refused)
{
    begin(NULL);
    check_accepted("");
    struct node n = node_start("--gpus sim:1");
    CHECK_EQ(node_wait(&n), 0);
    list_add("quick", 3, 3);
    check_accepted("");
    const struct result r = command("run --queue \"$URL\" --gpus sim:1 -- echo {}");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "--force");
    n = node_start("--gpus sim:1");
    CHECK_EQ(node_wait(&n), 0);
    check_queue(s.port, 6);
}

/* The client library gives up after two refusals. With an hour for a lost server, only the refusal explains the end. */
TEST(password_that_was_changed_ends_a_node)
{
    char command[2 * SERVER_PATH];
    begin(&(struct server_options){ .user = "me", .password = "sesame" });
    setenv("NATS_USER", "me", 1);
    setenv("NATS_PASSWORD", "sesame", 1);
    check_accepted("");
    CHECK_EQ(mkfifo("pipe", 0600), 0);
    struct node n =
        command_start("run --queue \"$URL\" --gpus sim:1 --idle-exit never --lost-timeout 1h 'echo {} > pipe'");
    const int fd = open("pipe", O_RDONLY | O_CLOEXEC); /* until a task runs */
    CHECK(fd >= 0);
    snprintf(command, sizeof command, "sed -i s/sesame/changed/ '%s/config'", s.dir);
    CHECK_EQ(system(command), 0);
    server_kill(&s);
    server_again(&s);
    CHECK_NE(node_wait(&n), 0);
    CHECK_CONTAINS(node_errors(&n), "does not accept this node any more: ");
    close(fd);
}

TEST(workers_get_no_secrets)
{
    begin(&(struct server_options){ .user = "me", .password = "sesame" });
    setenv("NATS_USER", "me", 1);
    setenv("NATS_PASSWORD", "sesame", 1);
    check_accepted("");
    struct node n =
        command_start("run --queue \"$URL\" --gpus sim:1 -- 'env; cat /proc/*/cmdline 2>/dev/null; true' {}");
    CHECK_EQ(node_wait(&n), 0);
    CHECK_CONTAINS(node_output(&n), "PATH=");
    if (strstr(node_output(&n), "sesame"))
        FAIL("a worker got the password");
}

WORK_MAIN()
