/* SPDX-License-Identifier: MIT
 *
 * A stream program that does what its inputs say. Some of these actions break the protocol. See test_stream.c.
 *
 *   stream_program [MODE [ARGUMENT]]
 *
 * Modes that change how the program starts:
 *
 *   - ready-after FIFO: is ready when another process opens the FIFO
 *   - refuse, refuse-silently, chatty, half, quit CODE, segv, array, not-ready
 *
 * Modes that change what the program does later:
 *
 *   - reverse: answers tasks that came together in reverse order
 *   - reverse-count: the same; the output is the number of the answer
 *   - hold-one: answers task 500 when no more tasks come
 *   - gather: announces a concurrency of 64. Answers 16 tasks at once, in reverse order, or fewer after a flush line. A
 *     task "hold" is answered when it is cancelled
 *   - stubborn: does not end when its input ends
 *   - end-with CODE: exits with this code
 *   - hang-to FIFO: a task that hangs first writes the process ids of the program and its host to the FIFO
 *
 * An input is a word of the table `actions` below, possibly followed by a number. Any other input is sent back. "once
 * WORD" has an effect only in the first attempt.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/json.h"

static const char *mode = "", *argument = "";
static unsigned n_answers;

struct task {
    unsigned long long id;
    unsigned attempt;
    struct gd__json input;
    char *word; /* decoded, NUL-terminated */
};

static void say(const char *bytes, size_t n)
{
    while (n > 0) {
        const ssize_t done = write(STDOUT_FILENO, bytes, n);
        if (done < 0)
            _exit(1);
        bytes += done;
        n -= (size_t)done;
    }
}

__attribute__((format(printf, 1, 2))) static void say_line(const char *format, ...)
{
    char line[4096];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    line[n] = '\n';
    say(line, (size_t)n + 1);
}

_Noreturn static void hang(void)
{
    for (;;)
        pause();
}

/* --- actions ------------------------------------------------------------------- */

static void give_back(const struct task *t, unsigned long n)
{
    char head[96];
    (void)n;
    say(head, (size_t)snprintf(head, sizeof head, "{\"id\":%llu,\"attempt\":%u,\"n\":%u,\"output\":", t->id, t->attempt,
                               ++n_answers));
    if (strcmp(mode, "reverse-count") == 0)
        say(head, (size_t)snprintf(head, sizeof head, "%u", n_answers));
    else
        say(t->input.at, t->input.size);
    say("}\n", 2);
}

static void say_twice(const struct task *t, unsigned long n) /* in one write, so that both answers are read together */
{
    (void)n;
    say_line("{\"id\":%llu,\"output\":1}\n{\"id\":%llu,\"output\":2}", t->id, t->id);
}

static void do_segv(const struct task *t, unsigned long n)
{
    (void)t, (void)n;
    say("{\"id\":", 6); /* crash in the middle of a line */
    raise(SIGSEGV);
}

static void do_exit(const struct task *t, unsigned long n)
{
    (void)t;
    _exit((int)n);
}

static void do_half(const struct task *t, unsigned long n)
{
    (void)n;
    char head[64];
    say(head, (size_t)snprintf(head, sizeof head, "{\"id\":%llu,\"output\":1}", t->id));
    _exit(0);
}

static void say_hello(const struct task *t, unsigned long n)
{
    (void)t, (void)n;
    say_line("Processing...");
}

static void say_array(const struct task *t, unsigned long n)
{
    (void)n;
    say_line("[%llu]", t->id);
}

static void say_nuls(const struct task *t, unsigned long n)
{
    (void)t, (void)n;
    say("{\"id\":\0\0}\n", 10);
}

static void say_empty(const struct task *t, unsigned long n)
{
    (void)t, (void)n;
    say("\n", 1);
}

static void say_other(const struct task *t, unsigned long n)
{
    (void)n;
    say_line("{\"id\":%llu,\"output\":1}", t->id + 1000000);
}

static void say_neither(const struct task *t, unsigned long n)
{
    (void)n;
    say_line("{\"id\":%llu}", t->id);
}

static void say_both(const struct task *t, unsigned long n)
{
    (void)n;
    say_line("{\"id\":%llu,\"output\":1,\"error\":\"x\"}", t->id);
}

static void say_no_id(const struct task *t, unsigned long n)
{
    (void)t, (void)n;
    say_line("{\"output\":1}");
}

static void say_odd_final(const struct task *t, unsigned long n)
{
    (void)n;
    say_line("{\"id\":%llu,\"error\":\"x\",\"final\":1}", t->id);
}

static void say_odd_kind(const struct task *t, unsigned long n)
{
    (void)n;
    say_line("{\"id\":%llu,\"error\":\"x\",\"kind\":\"sad\"}", t->id);
}

static void say_late(const struct task *t, unsigned long n) /* the answer, then a line that is not an answer */
{
    give_back(t, n);
    say_line("done!");
}

static void say_long(const struct task *t, unsigned long n)
{
    char block[4096];
    (void)t;
    memset(block, 'x', sizeof block);
    say("{\"output\":\"", 11);
    for (; n > 0; n--)
        say(block, sizeof block);
    hang();
}

static void say_big(const struct task *t, unsigned long n)
{
    char *text = malloc(n);
    char head[64];
    if (!text)
        _exit(1);
    memset(text, 'y', n);
    say(head, (size_t)snprintf(head, sizeof head, "{\"id\":%llu,\"output\":\"", t->id));
    say(text, n);
    say("\"}\n", 3);
    free(text);
}

static void do_hang(const struct task *t, unsigned long n)
{
    (void)t, (void)n;
    if (strcmp(mode, "hang-to") == 0) {
        const int fd = open(argument, O_WRONLY | O_CLOEXEC);
        dprintf(fd, "%d %d\n", (int)getpid(), (int)getppid());
        close(fd);
    }
    hang();
}

/* Waits until another process opens the FIFO, then answers. */
static void do_await(const struct task *t, unsigned long n)
{
    close(open(argument, O_RDONLY | O_CLOEXEC));
    give_back(t, n);
}

/* Answers and exits. The FIFO is closed at the exit, after the output is closed. */
static void do_leave(const struct task *t, unsigned long n)
{
    const int fd = open(argument, O_WRONLY | O_CLOEXEC);
    give_back(t, n);
    close(STDOUT_FILENO);
    _exit(fd < 0);
}

static void do_close(const struct task *t, unsigned long n)
{
    (void)t, (void)n;
    close(STDOUT_FILENO);
    hang();
}

static void do_deafen(const struct task *t, unsigned long n)
{
    close(STDIN_FILENO);
    give_back(t, n);
    _exit(4);
}

static void do_go_deaf(const struct task *t, unsigned long n)
{
    (void)t, (void)n;
    close(STDIN_FILENO);
    hang();
}

/* Exits, and leaves a child process that keeps both pipes open. */
static void do_bequeath(const struct task *t, unsigned long n)
{
    (void)t;
    if (fork() == 0)
        hang();
    _exit((int)n);
}

static void say_error(const struct task *t, unsigned long n)
{
    static const char *const errors[] = { "\"no luck \\udcff\\u00e9\"", "{\"code\": 5}", "\"\"", "\"a\\u0000b\"" };
    say_line("{\"id\":%llu,\"error\":%s}", t->id, errors[n]);
}

static void say_final(const struct task *t, unsigned long n)
{
    (void)n;
    say_line("{\"id\":%llu,\"error\":\"never\",\"final\":true}", t->id);
}

static void say_oom(const struct task *t, unsigned long n)
{
    (void)n;
    say_line("{\"kind\":\"out_of_memory\",\"id\":%llu,\"error\":\"too large\"}", t->id);
}

static void say_lost(const struct task *t, unsigned long n)
{
    (void)n;
    say_line("{\"id\":%llu,\"error\":\"fell off\",\"kind\":\"device_lost\"}", t->id);
}

static const struct {
    const char *word;
    void (*run)(const struct task *t, unsigned long n);
} actions[] = {
    { "segv", do_segv },          { "exit", do_exit },   { "half", do_half },       { "hello", say_hello },
    { "array", say_array },       { "nuls", say_nuls },  { "empty", say_empty },    { "other", say_other },
    { "neither", say_neither },   { "both", say_both },  { "no-id", say_no_id },    { "odd-final", say_odd_final },
    { "odd-kind", say_odd_kind }, { "late", say_late },  { "long", say_long },      { "big", say_big },
    { "hang", do_hang },          { "close", do_close }, { "deafen", do_deafen },   { "error", say_error },
    { "final", say_final },       { "oom", say_oom },    { "lost", say_lost },      { "twice", say_twice },
    { "leave", do_leave },        { "await", do_await }, { "go-deaf", do_go_deaf }, { "bequeath", do_bequeath },
};

static struct task held; /* the task whose answer mode hold-one delays */

static void do_task(const struct task *t)
{
    const bool once = strncmp(t->word, "once ", 5) == 0;
    const char *word = once ? t->word + 5 : t->word;
    const size_t length = strcspn(word, " ");
    for (size_t i = 0; i < sizeof actions / sizeof *actions && !(once && t->attempt > 1); i++)
        if (strlen(actions[i].word) == length && memcmp(actions[i].word, word, length) == 0) {
            actions[i].run(t, strtoul(word + length, NULL, 10));
            return;
        }
    give_back(t, 0);
}

/* --- lines --------------------------------------------------------------------- */

static struct task read_task(const char *line, size_t size)
{
    static const char *const names[] = { "id", "attempt", "input" };
    struct gd__json m[3];
    uint64_t id = 0, attempt = 0;
    if (gd__json_scan_object(line, size, names, m, 3) < 0 || !gd__json_uint(&m[0], &id) ||
        !gd__json_uint(&m[1], &attempt) || m[2].kind == GD__JSON_NONE) {
        fprintf(stderr, "stream_program: a bad line: %.*s\n", (int)(size < 200 ? size : 200), line);
        _exit(90);
    }
    struct task t = { id, (unsigned)attempt, m[2], calloc(1, m[2].size + 1) };
    if (t.word && m[2].kind == GD__JSON_STRING)
        gd__json_decode(&m[2], t.word);
    return t;
}

/* Does the tasks of all complete lines in bytes[0 .. size). Returns the number of bytes in these lines. */
static size_t do_lines(const char *bytes, size_t size)
{
    enum { MOST = 1024 };
    static struct task tasks[MOST];
    size_t n = 0, used = 0;
    for (const char *end; n < MOST && (end = memchr(bytes + used, '\n', size - used)); used = (size_t)(end - bytes) + 1)
        tasks[n++] = read_task(bytes + used, (size_t)(end - bytes) - used);
    const bool reverse = strncmp(mode, "reverse", 7) == 0;
    for (size_t i = 0; i < n; i++) {
        struct task *t = &tasks[reverse ? n - 1 - i : i];
        if (strcmp(mode, "hold-one") == 0 && t->id == 500 && !held.word) {
            static char copy[256]; /* the buffer of the line is reused, so keep a copy of the input */
            held = *t;
            memcpy(copy, t->input.at, t->input.size);
            held.input.at = copy;
            continue;
        }
        do_task(t);
        free(t->word);
    }
    return used;
}

/* Delays one answer until no input has arrived for a while. At that time the largest allowed number of tasks is in
 * flight. */
static void answer_held(void)
{
    struct pollfd f = { .fd = STDIN_FILENO, .events = POLLIN };
    if (held.word && poll(&f, 1, 200) == 0) {
        do_task(&held);
        free(held.word);
        held.word = NULL;
    }
}

static void do_all(void)
{
    size_t room = 1 << 20, size = 0;
    char *bytes = malloc(room);
    for (ssize_t n; bytes && (n = read(STDIN_FILENO, bytes + size, room - size)) > 0;) {
        size += (size_t)n;
        for (size_t used; memchr(bytes + size - (size_t)n, '\n', (size_t)n) && (used = do_lines(bytes, size)) > 0;) {
            size -= used;
            memmove(bytes, bytes + used, size);
            n = (ssize_t)size;
        }
        answer_held();
        if (size == room)
            bytes = realloc(bytes, room *= 2);
    }
    free(bytes);
}

/* --- several tasks in flight -------------------------------------------------- */

enum { GATHERED = 16 };
static struct {
    char *line; /* NULL: this one is free */
    struct task task;
} gathered[GATHERED], kept;

static void free_line(char **line, struct task *t)
{
    free(t->word);
    free(*line);
    *line = NULL;
}

static void answer_gathered(size_t *n)
{
    while (*n > 0) {
        --*n;
        give_back(&gathered[*n].task, 0);
        free_line(&gathered[*n].line, &gathered[*n].task);
    }
}

/* Takes the line if it is a task. */
static void gather_line(char **line, size_t length, size_t *n)
{
    unsigned long long id;
    if (strcmp(*line, "{\"flush\":true}\n") == 0) {
        answer_gathered(n);
        return;
    }
    if (sscanf(*line, "{\"cancel\":%llu}", &id) == 1) {
        if (!kept.line || kept.task.id != id)
            _exit(91);
        say_line("{\"id\":%llu,\"error\":\"stopped\"}", id);
        free_line(&kept.line, &kept.task);
        return;
    }
    struct task t = read_task(*line, length);
    if (t.word && strcmp(t.word, "hold") == 0) {
        kept.task = t;
        kept.line = *line;
    } else {
        gathered[*n].task = t;
        gathered[(*n)++].line = *line;
    }
    *line = NULL;
    if (*n == GATHERED)
        answer_gathered(n);
}

_Noreturn static void gather(void)
{
    char *line = NULL;
    size_t room = 0, n = 0;
    say_line("{\"ready\":true,\"concurrency\":64}");
    for (ssize_t length; (length = getline(&line, &room, stdin)) > 0;) {
        gather_line(&line, (size_t)length, &n);
        if (!line)
            room = 0;
    }
    free(line);
    exit(n > 0 || kept.line ? 92 : 0); /* every task must have been answered */
}

/* --- start and end --------------------------------------------------------- */

static void get_ready(void)
{
    if (strcmp(mode, "gather") == 0)
        gather();
    if (strcmp(mode, "ready-after") == 0)
        close(open(argument, O_RDONLY | O_CLOEXEC));
    else if (strcmp(mode, "refuse") == 0)
        say_line("{\"ready\":false,\"error\":\"no \\\"model\\\" here\"}");
    else if (strcmp(mode, "refuse-silently") == 0)
        say_line("{\"ready\":false}");
    else if (strcmp(mode, "chatty") == 0)
        say_line("Loading model...");
    else if (strcmp(mode, "array") == 0)
        say_line("[true]");
    else if (strcmp(mode, "not-ready") == 0)
        say_line("{\"ready\":1}");
    else if (strcmp(mode, "half") == 0)
        say("{\"read", 6), _exit(0);
    else if (strcmp(mode, "quit") == 0)
        _exit(atoi(argument));
    else if (strcmp(mode, "segv") == 0)
        raise(SIGSEGV);
    say_line("{\"ready\":true}");
}

int main(int argc, char **argv)
{
    mode = argc > 1 ? argv[1] : "";
    argument = argc > 2 ? argv[2] : "";
    get_ready();
    do_all();
    if (strcmp(mode, "stubborn") == 0)
        hang();
    return strcmp(mode, "end-with") == 0 ? atoi(argument) : 0;
}
