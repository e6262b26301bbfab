/* The worker that runs one other program for all its tasks and exchanges JSON Lines with it (<gpu_dispatch/command.h>).
 *
 *   setup    starts the program and waits for {"ready":true}
 *   put      {"id":7,"attempt":1,"input":...} into the buffer to be sent
 *   answer   {"id":7,"output":...} or {"id":7,"error":...}: the result of the task in flight with that id
 *   cleanup  closes its input, waits for its end
 *
 * A program that announces how many tasks it can have, {"ready":true,"concurrency":64}, has that many in flight
 * (flight/lines.c), and gets two more kinds of lines:
 *
 *   flush    {"flush":true}: no more tasks follow for now
 *   cancel   {"cancel":7}: task 7 has reached its time limit; the program must still answer it
 *
 * Such a program may also send {"id":7,"partial":...} before the answer. All other programs go through pipeline.c.
 *
 * This process ends in the same way as the program: it dies by the same signal or exits with the same code. So the
 * dispatcher, which watches this process, sees what happened. If the program broke the protocol, or exited with code 0
 * too early, the exit code is GD__EXIT_PROTOCOL. Before this process ends, it writes one line to stderr, which the
 * dispatcher adds to its report. Results of answered tasks count. Tasks in flight are suspect.
 */
#include "worker/stream.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text/json.h"
#include "base/text/json_write.h"
#include "worker/flight/flight.h"
#include "worker/host.h"
#include "worker/program.h"

enum {
    UNSENT_MOST = 256 << 10, /* no more tasks are put while this many bytes are unsent */
    HEAD_MOST = 80,          /* bytes of a line before the input */
    GUESS_MOST = 4096,       /* an input up to this size is written without being measured first */
    COMMIT_FROM = 64 << 10,  /* before a result this large, earlier results are committed to make room */
    SHOWN_MOST = 200,        /* bytes of a line that error messages show */
    SHOWN_ROOM = 6 * SHOWN_MOST + 8,
    END_WAIT_MS = 1000, /* how long the program may take to end after it closed its output */
};
static const size_t line_most = (size_t)1 << 30;

static struct {
    char *const *words;
    bool json;
    struct gd__program program;
} stream;

static size_t line_limit(void)
{
#ifdef GD_TEST_HOOKS
    const char *text = getenv("GD_STREAM_LINE");
    if (text)
        return strtoul(text, NULL, 10);
#endif
    return line_most;
}

/* Returns a line, or its beginning, as a JSON string. That is printable, whatever the line contains. */
static const char *shown(const char *line, size_t size, char room[SHOWN_ROOM])
{
    size_t n = gd__json_escape(room, line, size < SHOWN_MOST ? size : SHOWN_MOST);
    snprintf(room + n, SHOWN_ROOM - n, "%s", size > SHOWN_MOST ? "..." : "");
    return room;
}

/* ---- the end ---- */

/* Commits the answers. */
static void commit(struct gd_worker *w)
{
    if (gd__flight_of(w))
        gd__flight_commit(w);
    else
        gd__pipeline_commit(w);
}

/* The last step before this process ends: kills the program, and commits its answers. */
static void settle_all(struct gd_worker *w)
{
    gd__program_kill(&stream.program);
    commit(w);
    gd__host_flush(w);
}

_Noreturn static void protocol_error(struct gd_worker *w, const char *line, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
_Noreturn static void protocol_error(struct gd_worker *w, const char *line, size_t size, const char *format, ...)
{
    char message[1024], room[SHOWN_ROOM];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    settle_all(w);
    if (line)
        dprintf(STDERR_FILENO, "stream worker broke the protocol: %s: its line was %s\n", message,
                shown(line, size, room));
    else
        dprintf(STDERR_FILENO, "stream worker broke the protocol: %s\n", message);
    _exit(GD__EXIT_PROTOCOL);
}

/* Dies by the same signal as the program, without a second core file. */
_Noreturn static void die_by(int number)
{
    sigset_t one;
    prctl(PR_SET_DUMPABLE, 0);
    signal(number, SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, number);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    raise(number);
    _exit(GD__EXIT_PROTOCOL); /* reached if the signal does not kill */
}

/* The program has closed its output, so it should end now. */
_Noreturn static void program_ended(struct gd_worker *w)
{
    struct gd__exit e;
    char message[256];
    const char *rest;
    const size_t n_rest = gd__program_rest(&stream.program, &rest);
    if (!gd__program_wait(&stream.program, END_WAIT_MS, &e))
        protocol_error(w, NULL, 0, "%s closed its standard output but kept running", stream.words[0]);
    if (e.signal == 0 && e.code == 0 && n_rest > 0)
        protocol_error(w, rest, n_rest, "%s ended in the middle of a line (the line end is missing)", stream.words[0]);
    if (e.signal == 0 && e.code == 0)
        protocol_error(w, NULL, 0, "%s ended before its standard input was closed, with exit code 0", stream.words[0]);
    gd__exit_describe(&e, message, sizeof message);
    settle_all(w);
    dprintf(STDERR_FILENO, "stream worker: %s ended before its standard input was closed: %s\n", stream.words[0],
            message);
    if (e.signal)
        die_by(e.signal);
    _exit(e.code);
}

/* ---- sending lines ---- */

static bool has_room(struct gd_worker *w)
{
    (void)w;
    return gd__program_unsent(&stream.program) < UNSENT_MOST;
}

/* Copies a JSON text and makes it one line. A newline in JSON can only be white space between tokens. */
static size_t copy_json(char *to, const char *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (char)(from[i] == '\n' || from[i] == '\r' ? ' ' : from[i]);
    return n;
}

static size_t input_room(const struct gd_task *t)
{
    if (stream.json)
        return t->size;
    return t->size <= GUESS_MOST ? 6 * t->size + 2 : gd__json_escaped_size(t->data, t->size);
}

static bool put(struct gd_worker *w, struct gd__entry *e)
{
    struct gd__json top;
    (void)w;
    if (stream.json && gd__json_scan(e->task.data, e->task.size, &top) < 0) {
        gd_result_error_final(&e->result, "input is not JSON: %s", gd_error_text());
        return false;
    }
    const size_t room = HEAD_MOST + input_room(&e->task);
    char *to = gd__program_room(&stream.program, room);
    if (!to) {
        gd_result_out_of_memory(&e->result, "no memory for a line of %zu bytes", room);
        return false;
    }
    char *at = stpcpy(to, "{\"id\":");
    at += gd__json_put_uint(at, e->task.id);
    at = stpcpy(at, ",\"attempt\":");
    at += gd__json_put_uint(at, e->task.attempt);
    at = stpcpy(at, ",\"input\":");
    at += stream.json ? copy_json(at, e->task.data, e->task.size) : gd__json_escape(at, e->task.data, e->task.size);
    *at++ = '}';
    *at++ = '\n';
    gd__program_put(&stream.program, (size_t)(at - to));
    return true;
}

/* ---- answers ---- */

enum member { ID, OUTPUT, ERROR, FINAL, KIND, PARTIAL, N_MEMBERS };
static const char *const member_names[] = {
    [ID] = "id", [OUTPUT] = "output", [ERROR] = "error", [FINAL] = "final", [KIND] = "kind", [PARTIAL] = "partial"
};

static const struct {
    const char *name; /* as written in the line */
    enum gd__record_kind kind;
} failure_kinds[] = { { "\"error\"", GD__R_ERROR },
                      { "\"out_of_memory\"", GD__R_OUT_OF_MEMORY },
                      { "\"device_lost\"", GD__R_DEVICE_LOST } };

/* Returns a value as an error message: the characters of a string, or the JSON text of any other value. NULL: no
 * memory. */
static char *message_of(const struct gd__json *v)
{
    const bool is_string = v->kind == GD__JSON_STRING;
    char *message = gd__calloc(1, v->size + 1);
    if (!message)
        return NULL;
    size_t n = v->size;
    if (is_string)
        n = gd__json_decode(v, message);
    else
        memcpy(message, v->at, n);
    for (size_t i = 0; i < n; i++)
        if (message[i] == '\0')
            message[i] = ' ';
    message[n] = '\0';
    return message;
}

static bool kind_of(const struct gd__json *m, enum gd__record_kind *kind)
{
    *kind = m[FINAL].kind == GD__JSON_TRUE ? GD__R_ERROR_FINAL : GD__R_ERROR;
    if (m[KIND].kind == GD__JSON_NONE)
        return true;
    for (size_t i = 0; i < sizeof failure_kinds / sizeof *failure_kinds; i++) {
        if (strlen(failure_kinds[i].name) != m[KIND].size ||
            memcmp(failure_kinds[i].name, m[KIND].at, m[KIND].size) != 0)
            continue;
        if (failure_kinds[i].kind != GD__R_ERROR)
            *kind = failure_kinds[i].kind;
        return true;
    }
    return false;
}

/* Returns a message about what is wrong with the members of an answer, or NULL if nothing is wrong. */
static const char *fault_of(const struct gd__json *m, uint64_t *id)
{
    const bool has_output = m[OUTPUT].kind, has_error = m[ERROR].kind;
    enum gd__record_kind kind;
    if (!gd__json_uint(&m[ID], id))
        return "an answer without the \"id\" of a task";
    if (m[PARTIAL].kind && (has_output || has_error))
        return "a partial result with an \"output\" or \"error\"";
    if (m[PARTIAL].kind)
        return NULL;
    if (has_output == has_error)
        return has_output ? "an answer with both \"output\" and \"error\""
                          : "an answer with neither \"output\" nor \"error\"";
    if (m[FINAL].kind && m[FINAL].kind != GD__JSON_TRUE && m[FINAL].kind != GD__JSON_FALSE)
        return "\"final\" is neither true nor false";
    if (!kind_of(m, &kind))
        return "\"kind\" must be \"error\", \"out_of_memory\" or \"device_lost\"";
    return NULL;
}

static void settle_error(struct gd_result *r, const struct gd__json *m)
{
    enum gd__record_kind kind;
    char *message = message_of(&m[ERROR]);
    kind_of(m, &kind);
    gd__result_fail(r, kind, "%s",
                    !message   ? "out of memory: the error message is lost"
                    : *message ? message
                               : "(no error message)");
    gd__free(message);
}

static void settle_output(struct gd_worker *w, struct gd_result *r, const struct gd__json *output)
{
    if (output->size >= COMMIT_FROM)
        commit(w);
    const int code = gd_result_set(r, output->at, output->size);
    if (code < 0) {
        gd__result_settle(r, code, "the result");
        gd__message_forget();
    }
}

static void pass_partial(struct gd_worker *w, struct gd__entry *e, const struct gd__json *partial, const char *line,
                         size_t size)
{
    if (gd_result_partial(&e->result, partial->at, partial->size) < 0)
        protocol_error(w, line, size, "a partial result that cannot be passed on: %s", gd_error_text());
}

static void take_answer(struct gd_worker *w, const char *line, size_t size)
{
    struct gd__json m[N_MEMBERS];
    uint64_t id = 0;
    if (gd__json_scan_object(line, size, member_names, m, N_MEMBERS) < 0)
        protocol_error(w, line, size, "a line that is not a JSON object (%s; messages belong on stderr)",
                       gd_error_text());
    const bool flying = gd__flight_of(w) != NULL;
    if (!flying) /* a program that did not announce concurrency may use any other member */
        m[PARTIAL] = (struct gd__json){ 0 };
    const char *fault = fault_of(m, &id);
    if (fault)
        protocol_error(w, line, size, "%s", fault);
    struct gd__flight_entry *in_flight = flying ? gd__lines_find(w, id) : NULL;
    struct gd__entry *e = in_flight ? &in_flight->e : flying ? NULL : gd__pipeline_find(w, id);
    if (!e)
        protocol_error(w, line, size, "an answer for task %llu, which it was not given or has already answered",
                       (unsigned long long)id);
    if (m[PARTIAL].kind) {
        pass_partial(w, e, &m[PARTIAL], line, size);
        return;
    }
    if (m[ERROR].kind && flying && gd_result_cancel_requested(&e->result))
        gd_result_cancelled(&e->result);
    else if (m[ERROR].kind)
        settle_error(&e->result, m);
    else
        settle_output(w, &e->result, &m[OUTPUT]);
    if (flying)
        gd__lines_answered(w, in_flight);
    else
        gd__pipeline_answered(w, e);
}

/* Sends and receives once. The bytes that came may not be a complete line. */
static void move(struct gd_worker *w)
{
    const int moved = gd__program_move(&stream.program);
    if (moved < 0)
        protocol_error(w, NULL, 0, "%s", gd_error_text());
    if (moved == 0)
        program_ended(w);
}

static void check_rest(struct gd_worker *w)
{
    const char *rest;
    const size_t n = gd__program_rest(&stream.program, &rest);
    if (n > line_limit())
        protocol_error(w, rest, n, "a line of more than %zu bytes", line_limit());
}

static void take_lines(struct gd_worker *w)
{
    const char *line;
    size_t size;
    while (gd__program_line(&stream.program, &line, &size))
        take_answer(w, line, size);
    check_rest(w);
}

static void exchange(struct gd_worker *w)
{
    const uint64_t before = gd__pipeline_in_flight(w);
    while (gd__pipeline_in_flight(w) == before) {
        move(w);
        take_lines(w);
    }
}

/* Any output while the program has no task is an error. If the program has ended, no task caused that. */
static void check_silence(struct gd_worker *w)
{
    const char *line;
    size_t size;
    while (gd__program_has_spoken(&stream.program)) {
        if (gd__program_line(&stream.program, &line, &size))
            take_answer(w, line, size);
        else if ((size = gd__program_rest(&stream.program, &line)) > 0)
            protocol_error(w, line, size, "it wrote something while it had no task");
        else
            move(w);
    }
}

/* ---- in flight ---- */

static bool put_in_flight(struct gd_worker *w, struct gd__flight_entry *e)
{
    return put(w, &e->e);
}

/* Sends a line that is not a task. */
static void put_line(struct gd_worker *w, const char *line, size_t n)
{
    char *to = gd__program_room(&stream.program, n);
    if (!to) {
        settle_all(w);
        dprintf(STDERR_FILENO, "stream worker: no memory for a line of %zu bytes\n", n);
        _exit(GD__EXIT_SHORTAGE);
    }
    memcpy(to, line, n);
    gd__program_put(&stream.program, n);
}

static void send_cancel(struct gd_worker *w, const struct gd__flight_entry *e)
{
    char line[48];
    put_line(w, line, (size_t)snprintf(line, sizeof line, "{\"cancel\":%llu}\n", (unsigned long long)e->e.task.id));
}

static void send_flush(struct gd_worker *w)
{
    static const char line[] = "{\"flush\":true}\n";
    put_line(w, line, sizeof line - 1);
}

static int watch(struct gd_worker *w, struct pollfd fds[GD__FLIGHT_WATCHED])
{
    (void)w;
    return gd__program_watch(&stream.program, fds);
}

static void take_what_came(struct gd_worker *w, int taken)
{
    if (taken < 0)
        protocol_error(w, NULL, 0, "%s", gd_error_text());
    if (taken == GD__PROGRAM_ENDED)
        program_ended(w);
    if (taken == GD__PROGRAM_SPOKE)
        take_lines(w);
}

static void take(struct gd_worker *w, const struct pollfd fds[GD__FLIGHT_WATCHED])
{
    take_what_came(w, gd__program_take(&stream.program, fds));
}

static bool look(struct gd_worker *w)
{
    const int taken = gd__program_look(&stream.program);
    take_what_came(w, taken);
    return taken == GD__PROGRAM_SPOKE;
}

static void late(struct gd_worker *w)
{
    gd__program_is_deaf();
    protocol_error(w, NULL, 0, "%s", gd_error_text());
}

_Static_assert((int)GD__FLIGHT_WATCHED == (int)GD__PROGRAM_FDS, "the loop watches what the program needs");
static const struct gd__flight_pipe flight_pipe = { .has_room = has_room,
                                                    .put = put_in_flight,
                                                    .cancel = send_cancel,
                                                    .flush = send_flush,
                                                    .watch = watch,
                                                    .take = take,
                                                    .look = look,
                                                    .late = late };

static const struct gd__pipe_ops pipe_ops = {
    .has_room = has_room, .put = put, .exchange = exchange, .check = check_silence, .flight = &flight_pipe
};

/* ---- setup and cleanup ---- */

#define HINT "it must write the line {\"ready\":true} to stdout first, and flush it; messages belong on stderr"

static int not_ready(struct gd_worker *w, const char *line, size_t size)
{
    char room[SHOWN_ROOM];
    return gd_worker_error(w, "%s wrote %s: " HINT, stream.words[0], shown(line, size, room));
}

static int ended_early(struct gd_worker *w)
{
    struct gd__exit e = { .known = false };
    char message[256] = "closed its output", room[SHOWN_ROOM];
    const char *rest;
    const size_t n = gd__program_rest(&stream.program, &rest);
    if (gd__program_wait(&stream.program, END_WAIT_MS, &e))
        gd__exit_describe(&e, message, sizeof message);
    if (e.signal) { /* a crash may be accidental, so the worker is started again, like other workers */
        dprintf(STDERR_FILENO, "stream worker: %s was %s before it was ready\n", stream.words[0], message);
        die_by(e.signal);
    }
    return gd_worker_error(w, "%s %s before it was ready%s%s: " HINT, stream.words[0], message,
                           n > 0 ? ", and had written " : "", n > 0 ? shown(rest, n, room) : "");
}

static int refused(struct gd_worker *w, const struct gd__json *error)
{
    char *message = error->kind ? message_of(error) : NULL;
    gd_worker_error(w, "%s",
                    message && *message ? message : "the program reported \"ready\":false without an error message");
    gd__free(message);
    return GD_E_FAILED;
}

/* The number of tasks that the program can have in flight. */
static int read_concurrency(struct gd_worker *w, const struct gd__json *v, const char *line, size_t size)
{
    char room[SHOWN_ROOM];
    uint64_t n = 0;
    if (v->kind == GD__JSON_NONE)
        return 0;
    if (!gd__json_uint(v, &n) || n == 0)
        return gd_worker_error(w, "%s wrote %s: \"concurrency\" must be a whole number, and at least 1",
                               stream.words[0], shown(line, size, room));
    if (w->batch_size > 1)
        return gd_worker_error(
            w,
            "%s announced \"concurrency\", so it forms its own batches: set the batch size to 1, not "
            "%llu",
            stream.words[0], (unsigned long long)w->batch_size);
    w->announced = n < GD__FLIGHT_MAX ? (unsigned)n : GD__FLIGHT_MAX;
    return 0;
}

static int read_ready(struct gd_worker *w, const char *line, size_t size)
{
    enum { READY, WHY, CONCURRENCY, N };
    static const char *const names[] = { [READY] = "ready", [WHY] = "error", [CONCURRENCY] = "concurrency" };
    struct gd__json m[N];
    if (gd__json_scan_object(line, size, names, m, N) < 0)
        return not_ready(w, line, size);
    if (m[READY].kind == GD__JSON_TRUE)
        return read_concurrency(w, &m[CONCURRENCY], line, size);
    return m[READY].kind == GD__JSON_FALSE ? refused(w, &m[WHY]) : not_ready(w, line, size);
}

static int await_ready(struct gd_worker *w)
{
    const char *line;
    size_t size;
    while (!gd__program_line(&stream.program, &line, &size)) {
        const int moved = gd__program_move(&stream.program);
        if (moved < 0)
            return moved;
        if (moved == 0)
            return ended_early(w);
        if (gd__program_rest(&stream.program, &line) > line_limit())
            return not_ready(w, line, gd__program_rest(&stream.program, &line));
    }
    return read_ready(w, line, size);
}

static int setup(struct gd_worker *w, const struct gd_setup *s)
{
    (void)s;
    if (!stream.words || !stream.words[0])
        return gd_worker_error(w, "no program: name one after --stream --");
    signal(SIGPIPE, SIG_IGN); /* a closed input is detected in another way */
    int code = gd__program_start(&stream.program, stream.words);
    if (code < 0 && (errno == EAGAIN || errno == ENOMEM)) {
        dprintf(STDERR_FILENO, "stream worker: %s\n", gd_error_text());
        _exit(GD__EXIT_SHORTAGE); /* no more processes or memory are available: the worker is started again */
    }
    if (code < 0)
        return code;
    code = await_ready(w);
    if (code < 0)
        gd__program_kill(&stream.program);
    return code;
}

static int cleanup(struct gd_worker *w)
{
    struct gd__exit e;
    char message[256];
    gd__program_close_input(&stream.program);
    gd__program_wait(&stream.program, -1, &e);
    if (e.signal == 0 && e.code == 0)
        return 0;
    gd__exit_describe(&e, message, sizeof message);
    return gd_worker_error(w, "%s %s at the end of its input", stream.words[0], message);
}

/* Never called: the tasks go through the pipe. */
static int process(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w, (void)t;
    return gd_result_error_final(r, "a stream worker has no process");
}

int gd__stream_main(int argc, char **argv, char *const *words, bool json)
{
    static const struct gd_worker_ops ops = {
        .size = sizeof ops, .setup = setup, .process = process, .cleanup = cleanup
    };
    stream.words = words;
    stream.json = json;
    gd__worker_pipe(&pipe_ops);
    return gd_worker_main(&argc, argv, &ops);
}
