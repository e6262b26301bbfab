/* SPDX-License-Identifier: MIT
 *
 * NATS servers of the tests (server.h). A server writes its log into a file. The test reads that file and waits for
 * changes with inotify, so the server never blocks on a full pipe, and a test that fails leaves the log.
 */
#include "queue/server.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/un.h>

#include "support/test.h"

enum { FIRST_PORT = 11000, LAST_PORT = 31000, MOST_DIRECTORIES = 32, LOG_MOST = 16 << 20 };

/* --- directories ------------------------------------------------------------------------ */

static char directories[MOST_DIRECTORIES][SERVER_PATH];
static char mounted[MOST_DIRECTORIES][SERVER_PATH];
static unsigned n_directories, n_mounted;
static pid_t owner;

static void run_program(const char *const argv[])
{
    int status;
    fflush(NULL);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        char *copy[32];
        size_t n = 0;
        for (; argv[n] && n < 31; n++)
            copy[n] = strdup(argv[n]);
        copy[n] = NULL;
        execvp(copy[0], copy);
        _exit(127);
    }
    while (waitpid(pid, &status, 0) < 0)
        CHECK_EQ(errno, EINTR);
    if (status != 0)
        FAIL("%s %s ended with %d", argv[0], argv[1], status);
}

static void remove_directories(void)
{
    if (getpid() != owner)
        return;
    for (unsigned i = 0; i < n_mounted; i++)
        umount2(mounted[i], MNT_DETACH);
    for (unsigned i = 0; i < n_directories; i++)
        run_program((const char *const[]){ "rm", "-rf", "--", directories[i], NULL });
}

static bool has_room(const char *place)
{
    struct statvfs s;
    return statvfs(place, &s) == 0 && (uint64_t)s.f_bavail * s.f_frsize >= (uint64_t)512 << 20;
}

/* Removed when the case passes. In memory if possible, because durable servers sync each message. */
static void make_directory(char path[SERVER_PATH])
{
    const char *const places[] = { has_room("/dev/shm") ? "/dev/shm" : NULL, getenv("TMPDIR"), "/tmp" };
    bool made = false;
    for (size_t i = 0; i < sizeof places / sizeof *places && !made; i++)
        made = places[i] && snprintf(path, SERVER_PATH, "%s/gd-nats-XXXXXX", places[i]) < SERVER_PATH && mkdtemp(path);
    if (!made)
        FAIL("no place for a temporary directory: %s", strerror(errno));
    if (owner != getpid()) {
        owner = getpid();
        n_directories = n_mounted = 0;
        atexit(remove_directories);
    }
    CHECK_LT(n_directories, MOST_DIRECTORIES);
    strcpy(directories[n_directories++], path);
}

/* --- ports -------------------------------------------------------------------------------- */

/* The name of a socket in the abstract namespace belongs to this process until it ends, on the whole machine. */
static bool reserve(unsigned port)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    const int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "gd-test-port-%u", port);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    if (bind(fd, (struct sockaddr *)&name, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0)
        return true;
    close(fd);
    return false;
}

static bool is_free(unsigned port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    CHECK(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const bool bound = bind(fd, (struct sockaddr *)&a, sizeof a) == 0;
    close(fd);
    return bound;
}

unsigned reserve_port(void)
{
    static unsigned next;
    if (next == 0)
        next = FIRST_PORT + (unsigned)getpid() * 7 % (LAST_PORT - FIRST_PORT);
    for (unsigned i = 0; i < LAST_PORT - FIRST_PORT; i++) {
        const unsigned port = next;
        next = next + 1 < LAST_PORT ? next + 1 : FIRST_PORT;
        if (reserve(port) && is_free(port))
            return port;
    }
    FAIL("no free port");
}

/* --- the log --------------------------------------------------------------------------------- */

static char *read_log(const struct server *s)
{
    static char *text;
    char path[SERVER_PATH + 16];
    if (!text)
        text = malloc(LOG_MOST);
    CHECK(text != NULL);
    snprintf(path, sizeof path, "%s/log", s->dir);
    FILE *f = fopen(path, "re");
    size_t n = 0;
    if (f && fseek(f, s->log_from, SEEK_SET) == 0)
        n = fread(text, 1, LOG_MOST - 1, f);
    if (f)
        fclose(f);
    text[n] = '\0';
    return text;
}

static long log_size(const struct server *s)
{
    char path[SERVER_PATH + 16];
    struct stat st;
    snprintf(path, sizeof path, "%s/log", s->dir);
    return stat(path, &st) == 0 ? (long)st.st_size : 0;
}

bool server_logged(const struct server *s, const char *text)
{
    return strstr(read_log(s), text) != NULL;
}

__attribute__((noreturn)) static void fail_with_log(const struct server *s, const char *text)
{
    const char *log = read_log(s);
    const size_t n = strlen(log);
    FAIL("the server ended and had not logged \"%s\": %s", text, n > 500 ? log + n - 500 : log);
}

void server_await_log(const struct server *s, const char *text)
{
    char path[SERVER_PATH + 16], events[4096] __attribute__((aligned(8)));
    snprintf(path, sizeof path, "%s/log", s->dir);
    const int changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    CHECK(changes >= 0);
    CHECK(inotify_add_watch(changes, path, IN_MODIFY) >= 0);
    while (!server_logged(s, text)) {
        struct pollfd p[2] = { { changes, POLLIN, 0 }, { s->ended, POLLIN, 0 } };
        CHECK(poll(p, 2, -1) > 0 || errno == EINTR);
        if (p[1].revents && !server_logged(s, text))
            fail_with_log(s, text);
        while (read(changes, events, sizeof events) > 0)
            ;
    }
    close(changes);
}

/* --- one server ------------------------------------------------------------------------------- */

static const char *new_binary(void)
{
    const char *path = getenv("GD_TEST_NATS_SERVER");
    return path && access(path, X_OK) == 0 ? path : NULL;
}

const char *server_old_binary(void)
{
    const char *path = getenv("GD_TEST_NATS_SERVER_OLD");
    return path && access(path, X_OK) == 0 ? path : NULL;
}

void server_require(void)
{
    if (!new_binary())
        SKIP("no NATS server for tests here: `tools/setup.sh queue` fetches it");
    static const char *const names[] = { "libnats.so.3.4", "libnats.so.3", "libnats.so" };
    void *library = NULL;
    for (unsigned i = 0; i < sizeof names / sizeof *names && !library; i++)
        library = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        SKIP("libnats is not installed: `tools/setup.sh queue` installs it");
}

/* Certificates of an authority, of the server and of a client. */
static void make_certificates(const struct server *s)
{
    static const char script[] =
        "set -e; cd \"$1\"; new='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'\n"
        "openssl req -x509 $new -keyout ca.key -out ca.pem -subj '/CN=test authority' -days 30\n"
        "for who in server client; do\n"
        "  printf 'subjectAltName=IP:127.0.0.1,IP:%s,DNS:localhost\\n' \"$2\" >$who.ext\n"
        "  openssl req $new -keyout $who.key -out $who.csr -subj /CN=$who\n"
        "  openssl x509 -req -in $who.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out $who.pem -days 30 "
        "-extfile $who.ext\n"
        "done";
    char quiet[sizeof script + 32];
    snprintf(quiet, sizeof quiet, "exec 2>/dev/null; %s", script);
    char host[64];
    snprintf(host, sizeof host, "%.*s", (int)strcspn(s->hosts, ":"), s->hosts);
    run_program((const char *const[]){ "sh", "-c", quiet, "certificates", s->dir, host, NULL });
}

static void write_users(FILE *f, const struct server_options *o)
{
    if (o->token)
        fprintf(f, "authorization { token: \"%s\" }\n", o->token);
    else if (o->nkey)
        fprintf(f, "authorization { users: [ { nkey: %s } ] }\n", o->nkey);
    else if (o->user)
        fprintf(f, "authorization { users: [ { user: \"%s\", password: \"%s\" } ] }\n", o->user, o->password);
}

static void write_cluster(FILE *f, const struct server *s, const struct server *all, unsigned n)
{
    fprintf(f, "cluster {\n  name: test\n  listen: 127.0.0.1:%u\n  routes: [", s->cluster_port);
    for (unsigned i = 0; i < n; i++)
        fprintf(f, "%s\"nats://127.0.0.1:%u\"", i ? ", " : "", all[i].cluster_port);
    fprintf(f, "]\n}\n");
}

/* all, n: the servers of a cluster; n is 1 for a server that is alone. */
static void write_config(const struct server *s, const struct server_options *o, const struct server *all, unsigned n)
{
    char path[SERVER_PATH + 16];
    snprintf(path, sizeof path, "%s/config", s->dir);
    FILE *f = fopen(path, "we");
    CHECK(f != NULL);
    fprintf(f, "server_name: test-%u\nlisten: \"%s\"\n", s->port, s->hosts);
    if (!o->without_jetstream)
        fprintf(f, "jetstream {\n  store_dir: \"%s\"\n  max_mem: 256M\n  max_file: 10G\n%s}\n", s->store,
                o->durable ? "  sync_interval: always\n" : "");
    if (o->max_payload)
        fprintf(f, "max_payload: %llu\n", (unsigned long long)o->max_payload);
    if (o->tls)
        fprintf(f,
                "tls {\n  cert_file: \"%s/server.pem\"\n  key_file: \"%s/server.key\"\n  ca_file: \"%s/ca.pem\"\n%s}\n",
                s->dir, s->dir, s->dir, o->tls_verify ? "  verify: true\n" : "");
    write_users(f, o);
    if (n > 1)
        write_cluster(f, s, all, n);
    if (o->config)
        fprintf(f, "%s\n", o->config);
    CHECK_EQ(fclose(f), 0);
}

static void prepare(struct server *s, const struct server_options *o)
{
    server_require();
    *s = (struct server){ .port = reserve_port(), .ended = -1 };
    make_directory(s->dir);
    snprintf(s->binary, sizeof s->binary, "%s", o->binary ? o->binary : new_binary());
    if (o->store)
        snprintf(s->store, sizeof s->store, "%s", o->store);
    else
        snprintf(s->store, sizeof s->store, "%s/store", s->dir);
    snprintf(s->hosts, sizeof s->hosts, "%s:%u", o->host ? o->host : "127.0.0.1", s->port);
    snprintf(s->address, sizeof s->address, "%s://%s", o->tls ? "tls" : "nats", s->hosts);
    if (o->tls)
        make_certificates(s);
}

void server_launch(struct server *s)
{
    char config[SERVER_PATH + 16], log[SERVER_PATH + 16];
    CHECK_EQ(s->pid, 0);
    snprintf(config, sizeof config, "%s/config", s->dir);
    snprintf(log, sizeof log, "%s/log", s->dir);
    s->log_from = log_size(s);
    const int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    const pid_t parent = getpid();
    CHECK(fd >= 0);
    fflush(NULL);
    s->pid = fork();
    CHECK(s->pid >= 0);
    if (s->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
            _exit(127);
        execl(s->binary, "nats-server", "-c", config, (char *)NULL);
        _exit(127);
    }
    close(fd);
    s->ended = (int)syscall(SYS_pidfd_open, s->pid, 0);
    CHECK(s->ended >= 0);
}

void server_await(struct server *s)
{
    server_await_log(s, "Server is ready");
}

void server_again(struct server *s)
{
    server_launch(s);
    server_await(s);
}

void server_start(struct server *s, const struct server_options *o)
{
    const struct server_options none = { 0 };
    prepare(s, o ? o : &none);
    write_config(s, o ? o : &none, s, 1);
    server_again(s);
}

static void end_with(struct server *s, int signal)
{
    CHECK(s->pid > 0);
    CHECK_EQ(kill(s->pid, signal), 0);
    while (waitpid(s->pid, NULL, 0) < 0)
        CHECK_EQ(errno, EINTR);
    close(s->ended);
    s->pid = 0;
    s->ended = -1;
}

void server_kill(struct server *s)
{
    end_with(s, SIGKILL);
}

void server_end(struct server *s)
{
    end_with(s, SIGTERM);
}

void server_stop(struct server *s)
{
    siginfo_t info;
    CHECK_EQ(kill(s->pid, SIGSTOP), 0);
    CHECK_EQ(waitid(P_PID, (id_t)s->pid, &info, WSTOPPED | WNOWAIT), 0);
}

void server_continue(struct server *s)
{
    CHECK_EQ(kill(s->pid, SIGCONT), 0);
}

/* --- clusters ------------------------------------------------------------------------------------ */

#define LEADER_TEXT "JetStream cluster new metadata leader: "
#define SELF_TEXT   "Self is new JetStream cluster metadata leader"

static const char *last_of(const char *text, const char *part)
{
    const char *last = NULL;
    for (const char *at = text; (at = strstr(at, part)); at++)
        last = at;
    return last;
}

/* Whether this server is the leader, by the last line about leaders in its log. */
static bool leads(const struct server *s)
{
    const char *log = s->pid ? read_log(s) : "";
    const char *self = last_of(log, SELF_TEXT), *other = last_of(log, LEADER_TEXT);
    return self && self > other;
}

struct server *cluster_leader(struct server s[CLUSTER_SERVERS])
{
    for (unsigned i = 0; i < CLUSTER_SERVERS; i++) {
        if (leads(&s[i]))
            return &s[i];
    }
    return NULL;
}

const char *cluster_hosts(const struct server s[CLUSTER_SERVERS])
{
    static char hosts[CLUSTER_SERVERS * SERVER_PATH];
    hosts[0] = '\0';
    for (unsigned i = 0; i < CLUSTER_SERVERS; i++) {
        strcat(hosts, i ? "," : "");
        strcat(hosts, s[i].hosts);
    }
    return hosts;
}

void cluster_start(struct server s[CLUSTER_SERVERS], const struct server_options *o)
{
    const struct server_options none = { 0 };
    for (unsigned i = 0; i < CLUSTER_SERVERS; i++) {
        prepare(&s[i], o ? o : &none);
        s[i].cluster_port = reserve_port();
    }
    for (unsigned i = 0; i < CLUSTER_SERVERS; i++) {
        write_config(&s[i], o ? o : &none, s, CLUSTER_SERVERS);
        server_launch(&s[i]);
    }
    for (unsigned i = 0; i < CLUSTER_SERVERS; i++)
        server_await_log(&s[i], " metadata leader"); /* of this server, or another one */
}

/* --- power loss ------------------------------------------------------------------------------------ */

static bool try_mount(const char *file, const char *directory)
{
    int status;
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        const int null = open("/dev/null", O_WRONLY);
        dup2(null, 2);
        execlp("mount", "mount", "-o", "loop", file, directory, (char *)NULL);
        _exit(127);
    }
    while (waitpid(pid, &status, 0) < 0)
        CHECK_EQ(errno, EINTR);
    return status == 0;
}

/* Mounts in a namespace of this process, so the mounts disappear with it. */
static void mount_disk(struct disk *d)
{
    static pid_t separated;
    if (separated != getpid()) {
        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
            SKIP("mounting is not allowed here");
        separated = getpid();
    }
    if (!try_mount(d->file, d->mounted))
        SKIP("cannot mount a file system from a file here");
    CHECK_LT(n_mounted, MOST_DIRECTORIES);
    strcpy(mounted[n_mounted++], d->mounted);
}

void disk_make(struct disk *d)
{
    char dir[SERVER_PATH];
    server_require();
    make_directory(dir);
    snprintf(d->file, sizeof d->file, "%.200s/disk", dir);
    snprintf(d->mounted, sizeof d->mounted, "%.200s/mounted", dir);
    CHECK_EQ(mkdir(d->mounted, 0755), 0);
    const int fd = open(d->file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    CHECK_EQ(ftruncate(fd, (off_t)128 << 20), 0);
    close(fd);
    run_program((const char *const[]){ "/sbin/mkfs.ext4", "-q", "-F", d->file, NULL });
    mount_disk(d);
}

void disk_sync(struct disk *d)
{
    const int fd = open(d->mounted, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQ(syncfs(fd), 0);
    close(fd);
}

void disk_lose_power(const struct disk *d, struct disk *after)
{
    snprintf(after->file, sizeof after->file, "%.240s-after", d->file);
    snprintf(after->mounted, sizeof after->mounted, "%.240s-after", d->mounted);
    CHECK_EQ(mkdir(after->mounted, 0755), 0);
    run_program((const char *const[]){ "cp", "--reflink=never", "--sparse=always", d->file, after->file, NULL });
    mount_disk(after);
}
