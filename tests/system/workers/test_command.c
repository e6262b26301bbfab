/* SPDX-License-Identifier: MIT
 *
 * Workers that run commands, with gd_run() and the real host program ($GPU_DISPATCH_HOST). Commands and tests wait for
 * each other through FIFOs in the directory of the case.
 */
#include <gpu_dispatch/command.h>
#include <gpu_dispatch/gpu_dispatch.h>
#include <sys/stat.h>

#include "support/shell.h"

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

enum { MOST_TASKS = 64 };

struct record {
    unsigned finals;
    enum gd_failure failure;
    struct gd_command_output o;
    bool has_output;
    char error[1024];
    unsigned attempt;
};

struct job {
    struct job *before;
    struct gd_command_spec spec;
    struct gd_options o;
    const char *const *inputs; /* NULL: n empty inputs */
    uint64_t n, next;
    struct record records[MOST_TASKS];
    unsigned worker_exits;
    char setup_error[1024], printed[4096];
};

static int source(void *user, struct gd_item *item)
{
    struct job *j = user;
    if (j->next == j->n)
        return 0;
    item->data = j->inputs ? j->inputs[j->next] : "";
    item->size = j->inputs ? strlen(j->inputs[j->next]) : 0;
    j->next++;
    return 1;
}

static char *copy_of(const char *bytes, size_t size)
{
    char *copy = malloc(size + 1);
    CHECK(copy != NULL);
    memcpy(copy, bytes, size);
    copy[size] = '\0';
    return copy;
}

static void on_final(void *user, const struct gd_report *r)
{
    struct job *j = user;
    struct record *to = &j->records[r->task_id];
    to->finals++;
    to->failure = r->failure;
    to->attempt = r->attempt;
    snprintf(to->error, sizeof to->error, "%s", r->error ? r->error : "");
    to->o.size = sizeof to->o;
    to->has_output = gd_command_read(r->data, r->size, &to->o) == 0;
    if (to->has_output) {
        to->o.out = copy_of(to->o.out, to->o.out_size);
        to->o.err = copy_of(to->o.err, to->o.err_size);
    }
}

static void on_worker_exit(void *user, int worker_id, int gpu_id, const char *why, bool given_up)
{
    struct job *j = user;
    (void)worker_id, (void)gpu_id, (void)why, (void)given_up;
    j->worker_exits++;
}

static void on_setup_fail(void *user, int worker_id, int gpu_id, const char *error)
{
    struct job *j = user;
    (void)worker_id, (void)gpu_id;
    snprintf(j->setup_error, sizeof j->setup_error, "%s", error);
}

static void on_output(void *user, int worker_id, int fd, const char *text, size_t length)
{
    struct job *j = user;
    (void)worker_id, (void)fd;
    strncat(j->printed, text, length);
}

/* Returns a job with one worker on device 4. Cases may change it before run(). The current directory is the directory
 * of the case. */
static struct job *job(const char *const *words)
{
    static const int gpus[] = { 4, 7 };
    static struct job *jobs; /* all jobs are kept in a list, so that leak checkers do not report them */
    struct job *j = calloc(1, sizeof *j);
    const struct gd_options defaults = GD_OPTIONS_INIT;
    CHECK(j != NULL);
    j->before = jobs;
    jobs = j;
    if (!getenv("GPU_DISPATCH_HOST"))
        SKIP("GPU_DISPATCH_HOST is not set");
    setenv("LC_ALL", "C", 1); /* cases compare messages of programs */
    unsetenv("BASH_ENV");
    CHECK_EQ(chdir(sh_dir()), 0);
    CHECK_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); /* orphans become our children, so nothing_is_left() sees them */
    j->o = defaults;
    j->o.gpu_ids = gpus;
    j->o.n_gpus = 1;
    j->o.retry_delay_ms = 1;
    j->o.restart_delay_ms = 1;
    j->o.user = j;
    j->o.source = source;
    j->o.on_success = j->o.on_error = on_final;
    j->o.on_worker_exit = on_worker_exit;
    j->o.on_setup_fail = on_setup_fail;
    j->spec = (struct gd_command_spec){ .size = sizeof j->spec, .words = words, .shell = "/bin/bash" };
    j->n = 1;
    return j;
}

/* Waits until every process that was started has ended. */
static void nothing_is_left(void)
{
    while (waitpid(-1, NULL, 0) > 0)
        ;
    CHECK_EQ(errno, ECHILD);
}

static int run(struct job *j)
{
    char **argv = gd_command_worker(&j->spec);
    CHECK(argv != NULL);
    j->o.worker_argv = argv;
    int code = gd_run(&j->o);
    gd_argv_free(argv);
    nothing_is_left();
    return code;
}

static void run_all(struct job *j)
{
    CHECK_EQ(run(j), 0);
    for (uint64_t i = 0; i < j->n; i++)
        CHECK_EQ(j->records[i].finals, 1);
}

static void make_fifo(const char *name)
{
    sh_dir();
    CHECK_EQ(chdir(sh_dir()), 0);
    CHECK_EQ(mkfifo(name, 0600), 0);
}

/* Runs one task, which must succeed. */
static void expect_out(const char *const *words, const char *input, const char *out)
{
    struct job *j = job(words);
    j->inputs = &input;
    run_all(j);
    if (j->records[0].failure)
        FAIL("%s", j->records[0].error);
    CHECK_STR(j->records[0].o.out, out);
}

static struct record *expect_failure(const char *const *words, const char *input, const char *error)
{
    struct job *j = job(words);
    j->inputs = &input;
    run_all(j);
    struct record *r = &j->records[0];
    CHECK_EQ(r->failure, GD_FAILURE_ERROR);
    CHECK_STR(r->error, error);
    CHECK(r->has_output);
    return r;
}

/* ---- output ---- */

TEST(output_of_many)
{
    static char text[MOST_TASKS][24];
    static const char *inputs[MOST_TASKS];
    struct job *j = job(WORDS("echo", "{}", "{#}", "{%}", "{gpu}"));
    for (int i = 0; i < MOST_TASKS; i++) {
        snprintf(text[i], sizeof text[i], "in put %d", i);
        inputs[i] = text[i];
    }
    j->inputs = inputs;
    j->n = MOST_TASKS;
    j->o.n_gpus = 2;
    run_all(j);
    for (int i = 0; i < MOST_TASKS; i++) {
        char one[64], two[64];
        snprintf(one, sizeof one, "in put %d %d 1 4\n", i, i + 1);
        snprintf(two, sizeof two, "in put %d %d 2 7\n", i, i + 1);
        CHECK(strcmp(j->records[i].o.out, one) == 0 || strcmp(j->records[i].o.out, two) == 0);
    }
}

TEST(with_and_without_a_shell)
{
    expect_out(WORDS("basename", "{}"), "/a/b c", "b c\n");
    expect_out(WORDS("basename {} | tr a-z A-Z"), "/a/b c", "B C\n");
    expect_out(WORDS("echo"), "--version", "--version\n"); /* the echo of the shell has no such option */
    expect_out(WORDS("cd / &&", "pwd #"), "", "/\n");
}

TEST(stdout_and_stderr_are_kept_apart)
{
    struct job *j = job(WORDS("echo out; echo err >&2; echo more #"));
    run_all(j);
    CHECK_STR(j->records[0].o.out, "out\nmore\n");
    CHECK_STR(j->records[0].o.err, "err\n");
}

TEST(no_output_is_carried_over_to_the_next_task)
{
    static const char *const inputs[] = { "long long output", "x", "", "y" };
    struct job *j = job(WORDS("printf %s {}; printf %s {} >&2"));
    j->inputs = inputs;
    j->n = 4;
    run_all(j);
    for (int i = 0; i < 4; i++) {
        CHECK_STR(j->records[i].o.out, inputs[i]);
        CHECK_STR(j->records[i].o.err, inputs[i]);
    }
}

TEST(ten_megabytes)
{
    struct job *j = job(WORDS("head -c 10000000 /dev/zero | tr '\\0' x; head -c 3000000 /dev/zero | tr '\\0' y >&2 #"));
    j->n = 3;
    run_all(j);
    for (int i = 0; i < 3; i++) {
        const struct gd_command_output *o = &j->records[i].o;
        CHECK_EQ(o->out_size, 10000000);
        CHECK_EQ(o->err_size, 3000000);
        CHECK(o->out[0] == 'x' && o->out[9999999] == 'x' && o->err[0] == 'y' && o->err[2999999] == 'y');
    }
}

TEST(output_with_nuls)
{
    struct job *j = job(WORDS("printf 'a\\0b\\0' #"));
    run_all(j);
    CHECK_EQ(j->records[0].o.out_size, 4);
    CHECK_MEM(j->records[0].o.out, "a\0b\0", 4);
}

TEST(more_output_than_there_is_room_for)
{
    struct job *j = job(WORDS("truncate -s 1T /dev/stdout #"));
    run_all(j);
    CHECK_EQ(j->records[0].failure, GD_FAILURE_ERROR);
    CHECK_CONTAINS(j->records[0].error, "no memory for the command's output of 1099511627776 bytes");
}

TEST(late_output_of_a_process_left_behind)
{
    static const char *const inputs[] = { "(read x <go; echo late; echo late >&2; echo written >written) & echo first",
                                          "echo x >go; cat written; echo second", "echo third" };
    struct job *j = job(WORDS("{}"));
    make_fifo("go");
    make_fifo("written");
    j->inputs = inputs;
    j->n = 3;
    run_all(j);
    CHECK_STR(j->records[0].o.out, "first\n");
    CHECK_STR(j->records[1].o.out, "written\nsecond\n");
    CHECK_STR(j->records[1].o.err, "");
    CHECK_STR(j->records[2].o.out, "third\n");
    CHECK_EQ(j->worker_exits, 0);
}

TEST(processes_left_behind_end_with_the_run)
{
    struct job *j = job(WORDS("sleep 1000 & sleep 1000 >/dev/null 2>&1 & echo done #"));
    j->n = 3;
    run_all(j); /* calls nothing_is_left() */
    CHECK_STR(j->records[2].o.out, "done\n");
}

TEST(a_dry_run)
{
    struct job *j = job(WORDS("touch", "made{}", "$x"));
    static const char *const inputs[] = { "a b" };
    j->inputs = inputs;
    j->spec.dry_run = true;
    run_all(j);
    CHECK_STR(j->records[0].o.out, "touch made'a b' $x\n");
    CHECK(access("madea b", F_OK) < 0);
}

TEST(ungrouped_output)
{
    struct job *j = job(WORDS("echo out; echo err >&2 #"));
    j->spec.ungroup = true;
    j->o.output = GD_OUTPUT_CAPTURE;
    j->o.on_output = on_output;
    run_all(j);
    CHECK_EQ(j->records[0].o.out_size + j->records[0].o.err_size, 0);
    CHECK_CONTAINS(j->printed, "out\n");
    CHECK_CONTAINS(j->printed, "err\n");
}

/* ---- how commands end ---- */

TEST(exit_codes)
{
    struct record *r = expect_failure(WORDS("echo out; exit"), "3", "exited with code 3");
    CHECK_EQ(r->o.exit_code, 3);
    CHECK_EQ(r->o.signal, 0);
    CHECK_STR(r->o.out, "out\n");
    r = expect_failure(WORDS("cat"), "/no/such/file",
                       "exited with code 1: cat: /no/such/file: No such file or directory");
    CHECK_EQ(r->o.exit_code, 1);
    expect_failure(WORDS("echo one >&2; printf 'the\\tlast \\n\\n' >&2; exit"), "255",
                   "exited with code 255: the last");
    expect_failure(WORDS("false"), "", "exited with code 1");
}

TEST(signals)
{
    struct record *r = expect_failure(WORDS("echo out; kill -9 $$ #"), "", "killed by signal 9 (Killed)");
    CHECK_EQ(r->o.signal, 9);
    CHECK_EQ(r->o.exit_code, 0);
    CHECK_STR(r->o.out, "out\n");
    expect_failure(WORDS("echo why >&2; kill -TERM $$ #"), "", "killed by signal 15 (Terminated): why");
}

TEST(missing_programs)
{
    struct record *r = expect_failure(WORDS("no_such_command_xy"), "",
                                      "exited with code 127: /bin/bash: line 1: no_such_command_xy: command not found");
    CHECK_EQ(r->o.exit_code, 127);
    r = expect_failure(WORDS("/tmp"), "", "exited with code 126: /bin/bash: line 1: /tmp: Is a directory");
    CHECK_EQ(r->o.exit_code, 126);
}

TEST(a_missing_shell)
{
    struct job *j = job(WORDS("echo $x"));
    j->spec.shell = "/no/shell";
    run_all(j);
    CHECK_STR(j->records[0].error, "cannot run /no/shell: No such file or directory");
    CHECK_EQ(j->records[0].o.exit_code, 127);
    j = job(WORDS("echo $x"));
    j->spec.shell = "/etc/passwd";
    run_all(j);
    CHECK_STR(j->records[0].error, "cannot run /etc/passwd: Permission denied");
    CHECK_EQ(j->records[0].o.exit_code, 126);
}

static void write_file(const char *name, const char *text, mode_t mode)
{
    CHECK_EQ(chdir(sh_dir()), 0);
    FILE *f = fopen(name, "we");
    CHECK(f && fputs(text, f) >= 0);
    CHECK_EQ(fclose(f), 0);
    CHECK_EQ(chmod(name, mode), 0);
}

TEST(a_script_without_an_interpreter_line)
{
    write_file("script", "echo script got \"$1\"\n", 0755);
    expect_out(WORDS("./script"), "a b", "script got a b\n");
}

TEST(a_program_that_is_removed)
{
    static const char *const inputs[] = { "one", "two" };
    write_file("tool", "#!/bin/sh\necho $1; rm -f tool\n", 0755);
    struct job *j = job(WORDS("./tool"));
    j->inputs = inputs;
    j->n = 2;
    run_all(j);
    CHECK_STR(j->records[0].o.out, "one\n");
    CHECK_STR(j->records[1].error, "exited with code 127: /bin/bash: line 1: ./tool: No such file or directory");
}

TEST(a_line_that_is_too_long)
{
    struct job *j = job(WORDS("echo $x"));
    char *input = malloc(1 << 20);
    CHECK(input != NULL);
    memset(input, 'x', (1 << 20) - 1);
    input[(1 << 20) - 1] = '\0';
    j->inputs = (const char *const *)&input;
    run_all(j);
    free(input);
    CHECK_STR(j->records[0].error, "cannot run /bin/bash: Argument list too long");
    CHECK_EQ(j->records[0].o.exit_code, 126);
}

/* ---- what commands see ---- */

TEST(environment)
{
    struct job *j = job(WORDS("printenv GPU_DISPATCH_TASK_ID GPU_DISPATCH_ATTEMPT PARALLEL_SEQ PARALLEL_JOBSLOT",
                              "GPU_DISPATCH_GPU_ID GPU_DISPATCH_WORKER_ID OTHER{gpu}{#}{%}"));
    setenv("PARALLEL_SEQ", "99", 1);
    setenv("OTHER421", "x y", 1);
    j->n = 2;
    run_all(j);
    CHECK_STR(j->records[1].o.out, "1\n1\n2\n1\n4\n0\nx y\n");
    j = job(WORDS("env | grep -c '^PARALLEL_SEQ=' ; env | grep GPU_DISPATCH_WORKER_FD; echo $OTHER421 #"));
    run_all(j);
    CHECK_STR(j->records[0].o.out, "1\nx y\n");
}

/* Commands of the run must not get the token of its web page. */
TEST(commands_do_not_see_the_token_of_the_web_page)
{
    struct job *j = job(WORDS("env | grep -c GPU_DISPATCH_HTTP_TOKEN; echo $OTHER421 #"));
    setenv("GPU_DISPATCH_HTTP_TOKEN", "a-secret-token", 1);
    setenv("OTHER421", "x y", 1);
    run_all(j);
    CHECK_STR(j->records[0].o.out, "0\nx y\n");
}

TEST(no_input)
{
    expect_out(WORDS("cat; readlink /proc/self/fd/0 #"), "", "/dev/null\n");
}

TEST(no_other_descriptors)
{
    expect_out(WORDS("ls", "{}"), "/proc/self/fd", "0\n1\n2\n3\n"); /* 3 is the directory that it lists */
    expect_out(WORDS("ls {}; true"), "/proc/self/fd", "0\n1\n2\n3\n");
}

TEST(default_signals)
{
    struct job *j = job(WORDS("grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"));
    static const char *const inputs[] = { "/dev/null" };
    j->inputs = inputs;
    j->spec.quote = true;
    run_all(j);
    CHECK_CONTAINS(j->records[0].o.out, "SigBlk:\t0000000000000000");
    /* glibc's posix_spawn ignores signals 32 and 33, which glibc uses itself. */
    const char *ignored = strstr(j->records[0].o.out, "SigIgn:");
    CHECK(ignored && (strtoull(ignored + 7, NULL, 16) & ~UINT64_C(0x180000000)) == 0);
}

/* ---- more than one attempt ---- */

TEST(the_report_has_the_output_of_the_last_attempt)
{
    struct job *j = job(WORDS("n=$GPU_DISPATCH_ATTEMPT; echo try $n; echo e$n >&2; [ $n = {} ]"));
    static const char *const inputs[] = { "3", "9" };
    j->inputs = inputs;
    j->n = 2;
    j->o.retries = 2;
    run_all(j);
    CHECK_EQ(j->records[0].failure, GD_FAILURE_NONE);
    CHECK_EQ(j->records[0].attempt, 3);
    CHECK_STR(j->records[0].o.out, "try 3\n");
    CHECK_STR(j->records[0].o.err, "e3\n");
    CHECK_EQ(j->records[1].failure, GD_FAILURE_ERROR);
    CHECK_STR(j->records[1].o.out, "try 3\n");
    CHECK_STR(j->records[1].error, "exited with code 1: e3");
}

TEST(a_worker_killed_in_the_middle_of_a_task)
{
    struct job *j = job(WORDS("[ $GPU_DISPATCH_ATTEMPT != 1 ] || { kill -9 $PPID; sleep 1000; }; echo done #"));
    j->n = 3;
    run_all(j);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(j->records[i].failure, GD_FAILURE_NONE);
        CHECK_EQ(j->records[i].attempt, 2);
        CHECK_STR(j->records[i].o.out, "done\n");
    }
    CHECK_EQ(j->worker_exits, 3);
}

/* ---- time limits ---- */

/* Runs three tasks on one worker. The second exceeds its time limit. The others print the process id of their
 * worker. */
static struct job *time_out(const char *first, unsigned grace_ms)
{
    static const char *inputs[3];
    struct job *j = job(WORDS("{}"));
    inputs[0] = "echo $PPID";
    inputs[1] = first;
    inputs[2] = "echo $PPID";
    j->inputs = inputs;
    j->n = 3;
    j->o.task_timeout_ms = 2500; /* the other tasks have the same limit; it is long enough for a busy machine */
    j->o.cancel_grace_ms = grace_ms;
    run_all(j);
    CHECK_EQ(j->records[1].failure, GD_FAILURE_TIMEOUT);
    return j;
}

TEST(timeout)
{
    struct job *j = time_out("echo so far; echo err >&2; sleep 1000", 50000);
    CHECK_STR(j->records[2].o.out, j->records[0].o.out); /* the command ended when asked to: same worker */
    CHECK_STR(j->records[1].o.out, "so far\n");
    CHECK_STR(j->records[1].o.err, "err\n");
    CHECK_CONTAINS(j->records[1].error, "timed out after 2.5 s");
    CHECK_EQ(j->worker_exits, 0);
}

TEST(timeout_of_a_program_run_by_a_shell)
{
    struct job *j = time_out("sh -c 'sleep 1000; true'; sleep 1000; true", 50000);
    CHECK_STR(j->records[2].o.out, j->records[0].o.out);
}

TEST(timeout_of_a_command_that_exits_with_0)
{
    struct job *j = time_out("trap 'exit 0' TERM; sleep 1000 & wait", 50000);
    CHECK_STR(j->records[2].o.out, j->records[0].o.out);
}

TEST(timeout_of_a_command_that_ignores_the_request)
{
    struct job *j = time_out("trap '' TERM; echo so far; sh -c 'sleep 1000; true' & sleep 1000; true", 100);
    CHECK_STR(j->records[2].o.out, j->records[0].o.out); /* only the command was killed */
    CHECK_STR(j->records[1].o.out, "so far\n");
    CHECK_EQ(j->records[1].o.signal, SIGKILL);
    CHECK_EQ(j->worker_exits, 0);
}

TEST(timeout_without_a_grace_period)
{
    struct job *j = time_out("trap '' TERM; echo so far; while :; do sleep 1000; done", 0);
    CHECK_STR(j->records[2].o.out, j->records[0].o.out);
    CHECK_STR(j->records[1].o.out, "so far\n");
}

TEST(timeout_of_a_command_whose_worker_does_not_react)
{
    struct job *j = time_out("echo lost; kill -STOP $PPID; sleep 1000", 100);
    CHECK(strcmp(j->records[2].o.out, j->records[0].o.out) != 0); /* the worker was killed too */
    CHECK(!j->records[1].has_output);
    CHECK_EQ(j->worker_exits, 1);
}

/* ---- when the dispatcher is killed ---- */

TEST(no_process_keeps_running_without_a_dispatcher)
{
    struct job *j = job(WORDS("sleep 1000 & echo $! >written; sleep 1000; true #"));
    char pid[32] = "";
    make_fifo("written");
    const pid_t dispatcher = fork();
    CHECK_GE(dispatcher, 0);
    if (dispatcher == 0) {
        run(j);
        _exit(0);
    }
    FILE *written = fopen("written", "re");
    CHECK(written && fgets(pid, sizeof pid, written));
    fclose(written);
    const int fd = (int)syscall(SYS_pidfd_open, atoi(pid), 0);
    CHECK_GE(fd, 0);
    CHECK_EQ(kill(dispatcher, SIGKILL), 0);
    struct pollfd p = { .fd = fd, .events = POLLIN };
    CHECK_EQ(poll(&p, 1, -1), 1); /* if the process still runs, this case reaches its time limit */
    nothing_is_left();
}

/* ---- several runs of one dispatcher ---- */

/* The daemon belongs to the first attempt of task 0 in the first run. In the second run, the worker dies in the first
 * attempt of task 0. */
TEST(a_daemon_of_an_earlier_run_keeps_running)
{
    const char *inputs[] = { "first" };
    make_fifo("up");
    make_fifo("down");
    struct job *j =
        job(WORDS("case {} in first) setsid sh -c 'echo > up; read x < down' > /dev/null 2>&1 & read x < up;; "
                  "*) kill -9 $PPID; wait;; esac"));
    struct gd_dispatcher *d;
    char **argv = gd_command_worker(&j->spec);
    CHECK(argv != NULL);
    j->o.worker_argv = argv;
    j->o.keep_workers = true;
    j->o.orphans = GD_ORPHANS_END;
    j->o.crash_limit = 1;
    j->inputs = inputs;
    CHECK_EQ(gd_dispatcher_open(&d, &j->o), 0);
    CHECK_EQ(gd_dispatcher_run(d), 0);
    CHECK_EQ(j->records[0].failure, GD_FAILURE_NONE);
    free((char *)(uintptr_t)j->records[0].o.out); /* the second run fills the same record */
    free((char *)(uintptr_t)j->records[0].o.err);
    inputs[0] = "second";
    j->next = 0;
    CHECK_EQ(gd_dispatcher_run(d), 0);
    CHECK_EQ(j->records[0].failure, GD_FAILURE_CRASH);
    CHECK_EQ(j->worker_exits, 1);
    const int fd = open("down", O_WRONLY); /* waits for ever if the daemon is dead */
    CHECK_GE(fd, 0);
    close(fd);
    gd_dispatcher_close(&d);
    gd_argv_free(argv);
    nothing_is_left();
}

/* ---- bad arguments ---- */

static void expect_refused(char **argv, const char *expected)
{
    struct job *j = job(WORDS("x"));
    j->o.worker_argv = argv;
    CHECK_EQ(gd_run(&j->o), GD_E_SETUP);
    CHECK_CONTAINS(j->setup_error, expected);
}

TEST(invalid_arguments_of_the_host)
{
    static char command[] = "--command", bad[] = "--bad", shell[] = "--shell", perl[] = "{= x =}", end[] = "--";
    char *host = getenv("GPU_DISPATCH_HOST");
    expect_refused((char *[]){ host, command, bad, end, NULL }, "unknown option --bad");
    expect_refused((char *[]){ host, command, shell, NULL }, "no value after --shell");
    expect_refused((char *[]){ host, command, NULL }, "-- is missing");
    expect_refused((char *[]){ host, command, end, perl, NULL }, "Perl");
    expect_refused((char *[]){ host, bad, bad, NULL }, "it takes one plugin");
}

TEST_MAIN()
