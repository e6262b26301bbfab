/* SPDX-License-Identifier: MIT
 *
 * The tasks of a chaos job. Each attempt
 *
 *   1. logs "try INPUT PID"
 *   2. takes the lock of its task
 *   3. logs "start ..."
 *   4. does the work of its kind
 *   5. logs "end ..." and releases the lock
 *
 * A process that was killed may hold the lock for a while, until it is dead, so the next attempt waits for the lock. If
 * a process was not killed, its next line in the log shows that two attempts ran at the same time (history.c).
 */
#include "chaos/chaos.h"

#include <sys/file.h>
#include <sys/resource.h>

#include "base/text/json.h"
#include "base/text/json_write.h"

const char *const kind_names[N_KINDS] = {
    [QUICK] = "quick",     [SLOW] = "slow",   [NOISY] = "noisy",     [LONG] = "long",       [SESSION] = "session",
    [CATCHES] = "catches", [FAILS] = "fails", [FAILS_ONCE] = "once", [CRASHES] = "crashes", [HANGS] = "hangs",
};

enum { SLOW_MS = 20, NOISE_LINES = 3000, ERROR_LINES = 300 };

bool input_read(const char *text, size_t size, enum kind *kind, unsigned *number)
{
    char name[INPUT_MAX], expected[INPUT_MAX + 16];
    if (size >= sizeof name)
        return false;
    memcpy(name, text, size);
    name[size] = '\0';
    const size_t letters = strcspn(name, "0123456789");
    *number = (unsigned)strtoul(name + letters, NULL, 10);
    for (int k = 0; k < N_KINDS; k++) {
        snprintf(expected, sizeof expected, "%s%u", kind_names[k], *number);
        *kind = (enum kind)k;
        if (strcmp(name, expected) == 0)
            return true;
    }
    return false;
}

/* --- texts ----------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(t->bytes + t->size, sizeof t->bytes - t->size, format, args);
    va_end(args);
    CHECK(n >= 0 && (size_t)n < sizeof t->bytes - t->size);
    t->size += (size_t)n;
}

void expected_stdout(struct text *t, enum kind kind, unsigned number)
{
    t->size = 0;
    add(t, "did %s%u\n", kind_names[kind], number);
    for (unsigned i = 0; kind == NOISY && i < NOISE_LINES; i++)
        add(t, "%u: noise of task %u, %08x\n", i, number, (unsigned)mix(i ^ number));
}

void expected_stderr(struct text *t, enum kind kind, unsigned number)
{
    t->size = 0;
    t->bytes[0] = '\0';
    if (kind == FAILS || kind == CRASHES)
        add(t, "task %u %s\n", number, kind_names[kind]);
    for (unsigned i = 0; kind == NOISY && i < ERROR_LINES; i++)
        add(t, "%u: noise of task %u\n", i, number);
}

void expected_answer(struct text *t, enum kind kind, unsigned number)
{
    static struct text plain;
    expected_stdout(&plain, kind, number);
    t->size = gd__json_escape(t->bytes, plain.bytes, plain.size);
}

/* --- attempts ---------------------------------------------------------------------------- */

static void log_line(const char *verb, const char *input)
{
    char line[INPUT_MAX + 64];
    const int fd = open("log", O_WRONLY | O_APPEND | O_CLOEXEC);
    const int n = snprintf(line, sizeof line, "%s %s %d\n", verb, input, (int)getpid());
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        _exit(90);
    close(fd);
}

/* Returns the lock. */
static int begin(const char *input)
{
    char path[INPUT_MAX + 16];
    snprintf(path, sizeof path, "locks/%s", input);
    log_line("try", input);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    while (fd < 0 || flock(fd, LOCK_EX) < 0)
        if (errno != EINTR)
            _exit(91);
    log_line("start", input);
    return fd;
}

/* After this call the process logs nothing more. */
static void end(const char *input, int lock)
{
    log_line("end", input);
    close(lock);
}

static void wait_at(const char *fifo)
{
    int fd;
    while ((fd = open(fifo, O_RDONLY | O_CLOEXEC)) < 0)
        if (errno != EINTR)
            _exit(92);
    close(fd);
}

static void take_time(void)
{
    struct timespec left = { 0, SLOW_MS * 1000000L };
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

/* True in the first attempt of the task that gets this far. */
static bool is_first(const char *input)
{
    char path[INPUT_MAX + 16];
    snprintf(path, sizeof path, "counts/%s", input);
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void spend(enum kind kind)
{
    if (kind == SLOW || kind == SESSION || kind == CATCHES)
        take_time();
    else if (kind == LONG)
        wait_at("gate");
    else if (kind == HANGS)
        wait_at("never");
}

/* --- as a command --------------------------------------------------------------------------- */

static void put(int fd, const struct text *t)
{
    for (size_t at = 0; at < t->size;) {
        const ssize_t n = write(fd, t->bytes + at, t->size - at);
        if (n < 0 && errno != EINTR)
            _exit(93);
        at += n > 0 ? (size_t)n : 0;
    }
}

static void exit_1(int number)
{
    (void)number;
    _exit(1);
}

_Noreturn static void run_command(const char *input)
{
    static struct text text;
    enum kind kind;
    unsigned number;
    if (!input_read(input, strlen(input), &kind, &number))
        _exit(94);
    if (kind == SESSION)
        setsid();
    if (kind == CATCHES)
        signal(SIGTERM, exit_1);
    const int lock = begin(input);
    spend(kind);
    expected_stdout(&text, kind, number);
    put(STDOUT_FILENO, &text);
    expected_stderr(&text, kind, number);
    put(STDERR_FILENO, &text);
    const bool fails = kind == FAILS_ONCE && is_first(input);
    end(input, lock);
    if (kind == CRASHES)
        raise(SIGSEGV);
    _exit(kind == FAILS ? FAILS_WITH : fails);
}

/* --- as a stream program ---------------------------------------------------------------------- */

static void answer(unsigned long long id, const char *member, const char *json, size_t size)
{
    static struct text line;
    line.size = 0;
    add(&line, "{\"id\":%llu,\"%s\":%.*s}\n", id, member, (int)size, json);
    put(STDOUT_FILENO, &line);
}

static void stream_task(unsigned long long id, const char *input)
{
    static struct text text;
    enum kind kind;
    unsigned number;
    if (!input_read(input, strlen(input), &kind, &number))
        _exit(94);
    const int lock = begin(input);
    spend(kind);
    const bool fails = kind == FAILS || (kind == FAILS_ONCE && is_first(input));
    end(input, lock);
    if (kind == CRASHES)
        raise(SIGSEGV);
    expected_answer(&text, kind, number);
    if (fails)
        answer(id, "error", "\"as it must\"", strlen("\"as it must\""));
    else
        answer(id, "output", text.bytes, text.size);
}

_Noreturn static void run_stream(void)
{
    static const char ready[] = "{\"ready\":true}\n";
    static const char *const names[] = { "id", "input" };
    char *line = NULL, input[INPUT_MAX];
    size_t room = 0;
    (void)!write(STDOUT_FILENO, ready, sizeof ready - 1);
    for (ssize_t n; (n = getline(&line, &room, stdin)) > 0;) {
        struct gd__json m[2];
        uint64_t id;
        if (gd__json_scan_object(line, (size_t)n, names, m, 2) < 0 || !gd__json_uint(&m[0], &id) ||
            m[1].kind != GD__JSON_STRING || m[1].size >= sizeof input)
            _exit(95);
        input[gd__json_decode(&m[1], input)] = '\0';
        stream_task(id, input);
    }
    _exit(0);
}

void become_task(int argc, char **argv)
{
    const struct rlimit no_core = { 0, 0 };
    if (argc < 2 || (strcmp(argv[1], "task") != 0 && strcmp(argv[1], "stream") != 0))
        return;
    setrlimit(RLIMIT_CORE, &no_core);
    if (argc > 2)
        run_command(argv[2]);
    run_stream();
}
