/* The control socket of a job: what it answers, who is served, and that no client disturbs the run. */
#include <fcntl.h>
#include <gpu_dispatch/observe.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "support/control_client.h"
#include "support/directory.h"
#include "support/test.h"
#include "support/world.h"

static char jobs_path[512];

static void open_world(struct world *w, unsigned n_gpus)
{
    directory_enter();
    snprintf(jobs_path, sizeof jobs_path, "%s/jobs", directory_path);
    setenv("GPU_DISPATCH_JOBS", jobs_path, 1);
    world_open(w, n_gpus);
    w->o.job = "controlled";
    w->o.window = 1;
}

static void close_world(struct world *w)
{
    char path[512];
    CHECK(!client_find(path, sizeof path)); /* the run has removed its socket */
    world_close(w);
}

/* Starts a run in which n tasks wait at gate 2, and each worker has one. */
static void launch(struct world *w, unsigned n_gpus, size_t n)
{
    world_add_many(w, n, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_launch(w);
    world_await(w->page, WC_ENTERED, n_gpus);
    world_await_stat(w, taken, n);
}

static void finish(struct world *w, size_t n)
{
    world_gate_open(w->page, 2);
    CHECK_EQ(world_join(w), 0);
    CHECK_EQ(world_callbacks(w, 'S'), n);
}

TEST(each_request_is_carried_out_and_answered)
{
    struct world w;
    open_world(&w, 2);
    w.o.max_workers_per_gpu = 2;
    launch(&w, 2, 20);
    const int fd = client_open();
    CHECK_CONTAINS(client_ask(fd, "{\"do\":\"status\"}"), "\"state\":\"running\",\"running\":2,\"waiting\":18");
    CHECK_STR(client_ask(fd, "{\"do\":\"pause\"}"),
              "{\"ok\":true,\"message\":\"paused: 2 running tasks go on, nothing new starts\"}");
    CHECK_CONTAINS(client_ask(fd, "{\"do\":\"status\"}"), "\"state\":\"paused\"");
    CHECK_CONTAINS(client_ask(fd, " {\"task\" : 7, \"do\":\"cancel\"} "), "\"task 7 cancelled before it began\"");
    CHECK_CONTAINS(client_ask(fd, "{\"do\":\"cancel\",\"task\":7}"), "\"ok\":false,\"error\":\"GD_E_INVALID\"");
    CHECK_CONTAINS(client_ask(fd, "{\"do\":\"timeout\",\"ms\":3600000}"), "set to 3600 s");
    CHECK_CONTAINS(client_ask(fd, "{\"do\":\"status\"}"), "\"failed\":1,\"timeouts\":0,\"task_timeout_ms\":3600000");
    CHECK_CONTAINS(client_ask(fd, "{\"do\":\"add\",\"gpu\":1}"), "1 worker added to GPU 1");
    CHECK_CONTAINS(client_ask(fd, "{\"do\":\"remove\",\"gpu\":0,\"workers\":1}"), "1 worker removed from GPU 0");
    CHECK_CONTAINS(client_ask(fd, "{\"do\":\"remove\",\"gpu\":9}"), "GPU 9 is not a device of this run");
    CHECK_CONTAINS(client_ask(fd, "{\"do\":\"resume\"}"), "\"resumed\"");
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 19);
    CHECK_STR(w.finals[7].error, "cancelled on request");
    close(fd);
    close_world(&w);
}

/* Observers see each request and its outcome, except requests for the status, which change nothing. */
TEST(each_request_is_on_the_page)
{
    static const struct {
        const char *line, *what;
        int code;
    } rows[] = {
        { "{\"do\":\"pause\"}", "paused: 1 running task goes on, nothing new starts", 0 },
        { "{\"do\":\"cancel\",\"task\":3}", "task 3 cancelled before it began", 0 },
        { "{\"do\":\"cancel\",\"task\":9}", "task 9 not cancelled: it has ended, or was not read from the source yet",
          GD_E_INVALID },
        { "{\"do\":\"timeout\",\"ms\":60000}", "time limit of a task set to 60 s", 0 },
        { "{\"do\":\"add\",\"gpu\":0}", "1 worker added to GPU 0", 0 },
        { "{\"do\":\"remove\",\"gpu\":0}", "1 worker removed from GPU 0", 0 },
        { "{\"do\":\"resume\"}", "resumed", 0 },
        { "{\"do\":\"drain\"}", "draining: the run ends after 1 running task", 0 },
    };
    enum { ROWS = sizeof rows / sizeof *rows };
    const struct gd_snapshot *s;
    struct gd_observer *o;
    struct world w;
    open_world(&w, 1);
    w.o.max_workers_per_gpu = 2;
    launch(&w, 1, 5);
    const int fd = client_open();
    for (size_t i = 0; i < ROWS; i++) {
        client_ask(fd, rows[i].line);
        client_ask(fd, "{\"do\":\"status\"}");
    }
    CHECK_EQ(gd_observer_open(&o, NULL), 0);
    CHECK_EQ(gd_observer_read(o, &s), 0);
    CHECK_EQ(s->n_requests, ROWS);
    CHECK_EQ(s->requests_missed, 0);
    for (size_t i = 0; i < ROWS; i++) {
        CHECK_STR(gd_snapshot_request(s, i)->what, rows[i].what);
        CHECK_EQ(gd_snapshot_request(s, i)->code, rows[i].code);
        CHECK_LE(gd_snapshot_request(s, i)->at_ns, s->read_ns);
        CHECK_GE(gd_snapshot_request(s, i)->at_ns, s->stats->start_ns);
    }
    CHECK_EQ(s->stats->draining, 1);
    CHECK_EQ(s->stats->task_timeout_ms, 60000);
    gd_observer_close(&o);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    close(fd);
    close_world(&w);
}

TEST(a_run_is_drained_through_its_socket)
{
    struct world w;
    open_world(&w, 2);
    w.o.stop_grace_ms = 0;
    launch(&w, 2, 20);
    const int fd = client_open();
    CHECK_CONTAINS(client_ask(fd, "{\"do\":\"drain\"}"), "draining: the run ends after 2 running tasks");
    CHECK_CONTAINS(client_ask(fd, "{\"do\":\"status\"}"), "\"state\":\"draining\",\"running\":2");
    CHECK_CONTAINS(client_ask(fd, "{\"do\":\"pause\"}"), "\"error\":\"GD_E_SHUTDOWN\"");
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    CHECK_EQ(world_callbacks(&w, 'S'), 2);
    char rest[16];
    CHECK(!client_read(fd, rest, sizeof rest)); /* the end of the run ends the connection */
    close(fd);
    close_world(&w);
}

TEST(a_bad_line_gets_an_answer_that_says_what_is_wrong)
{
    static const struct {
        const char *line, *answer;
    } rows[] = {
        { "", "\"ok\":false" },
        { "pause", "at byte 1" },
        { "[1]", "not a JSON object" },
        { "{}", "\\\"do\\\" must be \\\"pause\\\"" },
        { "{\"do\":\"stop\"}", "\\\"do\\\" must be" },
        { "{\"do\":1}", "\\\"do\\\" must be" },
        { "{\"do\":\"pause\",\"do\":\"pause\"}", "\"ok\":false" },
        { "{\"do\":\"cancel\"}", "\\\"task\\\" must be a whole number" },
        { "{\"do\":\"cancel\",\"task\":-1}", "\\\"task\\\" must be a whole number" },
        { "{\"do\":\"timeout\",\"ms\":1.5}", "\\\"ms\\\" must be a whole number from 0 to 4294967295" },
        { "{\"do\":\"timeout\",\"ms\":4294967296}", "\\\"ms\\\" must be" },
        { "{\"do\":\"add\"}", "\\\"gpu\\\" must be" },
        { "{\"do\":\"add\",\"gpu\":\"0\"}", "\\\"gpu\\\" must be" },
        { "{\"do\":\"add\",\"gpu\":0,\"workers\":0}", "at least 1" },
    };
    struct world w;
    open_world(&w, 1);
    launch(&w, 1, 5);
    const int fd = client_open();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_CONTAINS(client_ask(fd, rows[i].line), rows[i].answer);
    CHECK_CONTAINS(client_ask(fd, "{\"do\":\"status\"}"), "\"state\":\"running\""); /* and nothing was done */
    close(fd);
    finish(&w, 5);
    close_world(&w);
}

TEST(a_line_that_is_too_long_is_refused_and_ends_the_connection)
{
    struct world w;
    open_world(&w, 1);
    launch(&w, 1, 5);
    const int fd = client_open();
    char line[5000], answer[512];
    memset(line, ' ', sizeof line);
    client_send(fd, line, 1024);
    CHECK(client_read(fd, answer, sizeof answer));
    CHECK_CONTAINS(answer, "shorter than 1024 bytes");
    CHECK(!client_read(fd, answer, sizeof answer));
    close(fd);
    finish(&w, 5);
    close_world(&w);
}

TEST(lines_may_come_in_pieces_and_several_at_once)
{
    struct world w;
    open_world(&w, 1);
    launch(&w, 1, 5);
    const int fd = client_open();
    const char *many = "{\"do\":\"pause\"}\n{\"do\":\"resume\"}\n";
    char answer[512];
    for (const char *c = many; *c; c++)
        client_send(fd, c, 1);
    for (int i = 0; i < 30; i++)
        client_send(fd, many, strlen(many));
    shutdown(fd, SHUT_WR); /* what was sent before is still answered */
    for (int i = 0; i < 62; i++) {
        CHECK(client_read(fd, answer, sizeof answer));
        CHECK_CONTAINS(answer, i % 2 ? "\"resumed\"" : "\"paused: 1 running");
    }
    CHECK(!client_read(fd, answer, sizeof answer));
    close(fd);
    finish(&w, 5);
    close_world(&w);
}

TEST(the_socket_is_for_its_user_only)
{
    struct world w;
    struct stat s;
    char path[512];
    open_world(&w, 1);
    launch(&w, 1, 5);
    CHECK(client_find(path, sizeof path));
    CHECK_EQ(stat(path, &s), 0);
    CHECK(S_ISSOCK(s.st_mode));
    CHECK_EQ(s.st_mode & 0777, 0600);
    CHECK_EQ(s.st_uid, geteuid());
    CHECK_EQ(gd_jobs_list(NULL, sizeof(struct gd_job), 0), 1); /* the list of jobs is not confused by it */
    CHECK(client_find(path, sizeof path));
    finish(&w, 5);
    close_world(&w);
}

/* Opens every door, so that only the check of the user is left. */
static void admit_everybody(const char *path)
{
    CHECK_EQ(chmod(path, 0666), 0);
    CHECK_EQ(chmod(jobs_path, 0755), 0);
    CHECK_EQ(chmod(directory_path, 0755), 0);
}

TEST(another_user_is_not_served_even_if_it_can_connect)
{
    enum { NOBODY = 65534 };
    struct world w;
    char path[512];
    if (geteuid() != 0)
        SKIP("only root can become another user");
    open_world(&w, 1);
    launch(&w, 1, 5);
    CHECK(client_find(path, sizeof path));
    admit_everybody(path);
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    snprintf(at.sun_path, sizeof at.sun_path, "jobs/%.80s", strrchr(path, '/') + 1);
    const pid_t pid = fork();
    if (pid == 0) {
        char answer[64];
        const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || setuid(NOBODY) < 0)
            _exit(3);
        if (connect(fd, (const struct sockaddr *)&at, sizeof at) < 0)
            _exit(4);
        (void)!send(fd, "{\"do\":\"pause\"}\n", 15, MSG_NOSIGNAL);
        _exit(read(fd, answer, sizeof answer) > 0 ? 5 : 0);
    }
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
    const int fd = client_open();
    CHECK_CONTAINS(client_ask(fd, "{\"do\":\"status\"}"), "\"state\":\"running\"");
    close(fd);
    finish(&w, 5);
    close_world(&w);
}

/* --- clients that misbehave --- */

static uint64_t next_random(uint64_t *r)
{
    *r ^= *r << 13;
    *r ^= *r >> 7;
    return *r ^= *r << 17;
}

/* Random bytes, with a newline now and then, and parts of real requests. None is a whole request. */
static size_t random_bytes(char *to, size_t room, uint64_t *r)
{
    static const char *const parts[] = { "{\"do\":",  "\"pause\"", "{",     "}", "[[[[",
                                         "\"task\":", "\\u0000",   "1e999", "\n" };
    size_t n = 0;
    while (n + 16 < room) {
        const uint64_t x = next_random(r);
        if (x % 3 == 0) {
            n += (size_t)snprintf(to + n, 16, "%s", parts[(x >> 8) % (sizeof parts / sizeof *parts)]);
            to[n++] = '~'; /* so that no request can come together */
        } else {
            to[n++] = (char)(x >> 16);
        }
    }
    return n;
}

TEST(random_bytes_do_not_disturb_the_run)
{
    struct world w;
    uint64_t r = 88172645463325252u;
    static char bytes[3000];
    open_world(&w, 2);
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 3 }); /* keeps the run from ending */
    launch(&w, 2, 500);
    for (int i = 0; i < 300; i++) {
        const int fd = client_open();
        const size_t n = random_bytes(bytes, 32 + next_random(&r) % (sizeof bytes - 32), &r);
        (void)!send(fd, bytes, n, MSG_NOSIGNAL); /* the run may have hung up already */
        close(fd);
        if (i == 100)
            world_gate_open(w.page, 2); /* the rest comes while tasks end */
    }
    const int fd = client_open();
    CHECK_CONTAINS(client_ask(fd, "{\"do\":\"status\"}"), "\"state\":\"running\"");
    close(fd);
    world_gate_open(w.page, 3);
    finish(&w, 501);
    close_world(&w);
}

TEST(a_client_that_does_not_read_its_answers_stalls_only_itself)
{
    struct world w;
    open_world(&w, 2);
    launch(&w, 2, 500);
    const int stalled = client_open();
    const char *request = "{\"do\":\"status\"}\n";
    CHECK_GE(fcntl(stalled, F_SETFL, O_NONBLOCK), 0);
    /* Until both directions are full. Then the run has an answer that it cannot send. */
    for (int full = 0; full < 100;) {
        const ssize_t n = send(stalled, request, strlen(request), MSG_NOSIGNAL);
        CHECK(n > 0 || errno == EAGAIN);
        const int other = client_open();
        full = n > 0 ? 0 : full + 1;
        CHECK_CONTAINS(client_ask(other, "{\"do\":\"status\"}"), "\"state\":\"running\"");
        close(other);
        while (n > 0 && send(stalled, request, strlen(request), MSG_NOSIGNAL) > 0)
            ;
    }
    finish(&w, 500);
    close(stalled);
    close_world(&w);
}

TEST(too_many_clients_push_out_the_silent_ones)
{
    enum { MANY = 60 };
    struct world w;
    int fds[MANY];
    char answer[64];
    open_world(&w, 1);
    launch(&w, 1, 5);
    for (int i = 0; i < MANY; i++) {
        fds[i] = client_open();
        CHECK_CONTAINS(client_ask(fds[i], "{\"do\":\"status\"}"), "\"ok\":true");
    }
    CHECK(!client_read(fds[0], answer, sizeof answer)); /* hung up */
    CHECK_CONTAINS(client_ask(fds[MANY - 1], "{\"do\":\"status\"}"), "\"ok\":true");
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    finish(&w, 5);
    close_world(&w);
}

TEST(a_run_that_was_killed_leaves_a_socket_that_is_removed_later)
{
    char path[512], space[64] = "";
    struct world w;
    open_world(&w, 1);
    launch(&w, 1, 1);
    CHECK(client_find(path, sizeof path));
    snprintf(space, sizeof space, "%s", strrchr(path, '-'));
    finish(&w, 1);
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    /* The process id is above the highest possible one. The path is relative, because addresses are short. */
    snprintf(at.sun_path, sizeof at.sun_path, "jobs/4194305.1%s", space);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    CHECK(client_find(path, sizeof path));
    CHECK_EQ(gd_jobs_list(NULL, sizeof(struct gd_job), 0), 0);
    close(fd);
    close_world(&w);
}

WORLD_MAIN()
