/* The output of a worker: the tail, and forwarding to slow, broken and closed descriptors. Nothing blocks. */
#include "proc/output.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "support/test.h"

/* --- shared functions ----------------------------------------------- */

struct rig {
    struct gd__loop loop;
    struct gd__output out;
    int worker; /* the worker's end of the pipe */
    char text[300000];
    size_t size;
    int calls;
    int stream;
    bool close_in_callback;
    int feed_back; /* the callback writes the text to this descriptor; -1: it does not */
};

static struct rig rig;

static void collect(void *user, int stream, const char *text, size_t length)
{
    struct rig *r = user;

    CHECK(r->size + length <= sizeof r->text);
    memcpy(r->text + r->size, text, length);
    r->size += length;
    r->stream = stream;
    r->calls++;
    if (r->feed_back >= 0)
        CHECK_EQ(write(r->feed_back, text, length), length);
    if (r->close_in_callback)
        gd__output_close(&r->out);
}

static void open_rig(int forward_fd)
{
    rig.feed_back = -1;
    CHECK_EQ(gd__loop_open(&rig.loop), 0);
    if (gd__output_open(&rig.out, &rig.loop, 2, forward_fd, collect, &rig, &rig.worker) < 0)
        FAIL("%s", gd_error_text());
}

static void say_bytes(const char *text, size_t n)
{
    CHECK_EQ(write(rig.worker, text, n), n);
}

static void say(const char *text)
{
    say_bytes(text, strlen(text));
}

/* Runs the loop until nothing is ready. */
static void turn(void)
{
    int n;

    while ((n = gd__loop_wait(&rig.loop, 0)) > 0)
        ;
    CHECK_EQ(n, 0);
}

static const char *last_lines(unsigned max_lines)
{
    static char text[GD__TAIL_BYTES + 1];
    size_t n = gd__output_last_lines(&rig.out, max_lines, text, sizeof text);

    CHECK_EQ(n, strlen(text));
    return text;
}

static void make_pipe(int ends[2])
{
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
}

static int open_fds(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void write_all_it_takes(int fd)
{
    static const char zeros[4096];
    int flags = fcntl(fd, F_GETFL);

    CHECK_EQ(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
    while (write(fd, zeros, sizeof zeros) > 0)
        ;
    while (write(fd, zeros, 1) > 0)
        ;
    CHECK_EQ(errno, EAGAIN);
    CHECK_EQ(fcntl(fd, F_SETFL, flags), 0);
}

/* Byte i of the text that the worker writes. */
static char pattern(size_t i)
{
    return (char)('a' + i * 2654435761u / 7919 % 26);
}

/* Writes as the worker until its pipe is full too. Returns the number of bytes written. */
static size_t talk_until_stopped(size_t from)
{
    size_t i = from;
    int flags = fcntl(rig.worker, F_GETFL);

    CHECK_EQ(fcntl(rig.worker, F_SETFL, flags | O_NONBLOCK), 0);
    for (;;) {
        char block[1000];

        for (size_t k = 0; k < sizeof block; k++)
            block[k] = pattern(i + k);
        ssize_t n = write(rig.worker, block, sizeof block);
        if (n < 0 && gd__loop_wait(&rig.loop, 0) == 0)
            break;
        i += n > 0 ? (size_t)n : 0;
    }
    CHECK_EQ(fcntl(rig.worker, F_SETFL, flags), 0);
    return i;
}

/* Reads n bytes of the pattern from fd, and runs the loop meanwhile. */
static void expect_pattern(int fd, size_t n)
{
    char block[5000];

    for (size_t i = 0; i < n;) {
        turn();
        ssize_t got = read(fd, block, sizeof block);

        CHECK_GT(got, 0);
        for (ssize_t k = 0; k < got; k++) {
            if (block[k] == 0)
                continue; /* the zeros that filled the descriptor at first */
            CHECK_EQ(block[k], pattern(i));
            i++;
        }
    }
}

/* --- reading ------------------------------------------------------------ */

TEST(text_goes_to_the_callback)
{
    open_rig(-1);
    say("hello\n");
    CHECK_EQ(gd__loop_wait(&rig.loop, GD__NEVER), 1);
    CHECK_EQ(rig.size, 6);
    CHECK_MEM(rig.text, "hello\n", 6);
    CHECK_EQ(rig.stream, 2);
    CHECK_STR(last_lines(5), "hello");
}

/* While output is on hold, nothing is reported, not even the end of file. After the release, everything is reported. */
TEST(output_on_hold_arrives_after_the_release)
{
    open_rig(-1);
    gd__output_hold(&rig.out, true);
    say("held\n");
    close(rig.worker);
    turn();
    CHECK_EQ(rig.size, 0);
    gd__output_hold(&rig.out, false);
    turn();
    CHECK_EQ(rig.size, 5);
    CHECK_MEM(rig.text, "held\n", 5);
    CHECK_EQ(rig.out.watch.fd, -1);
}

TEST(without_a_callback_the_tail_is_still_kept)
{
    int worker;

    CHECK_EQ(gd__loop_open(&rig.loop), 0);
    CHECK_EQ(gd__output_open(&rig.out, &rig.loop, 1, -1, NULL, NULL, &worker), 0);
    CHECK_EQ(write(worker, "quiet\n", 6), 6);
    turn();
    CHECK_STR(last_lines(5), "quiet");
}

TEST(worker_end_blocks_and_is_not_inherited)
{
    open_rig(-1);
    CHECK(fcntl(rig.worker, F_GETFD) & FD_CLOEXEC);
    CHECK(!(fcntl(rig.worker, F_GETFL) & O_NONBLOCK));
    CHECK(fcntl(rig.out.fd, F_GETFD) & FD_CLOEXEC);
    CHECK(fcntl(rig.out.fd, F_GETFL) & O_NONBLOCK);
}

TEST(end_of_file_is_reported_once)
{
    open_rig(-1);
    say("last words");
    close(rig.worker);
    turn(); /* does not return if the end is reported again and again */
    CHECK_EQ(rig.out.watch.fd, -1);
    CHECK_STR(last_lines(1), "last words");
    gd__output_drain(&rig.out);
}

TEST(a_worker_that_prints_much_does_not_block_the_loop)
{
    static char zeros[256 * 1024];

    open_rig(-1);
    if (fcntl(rig.worker, F_SETPIPE_SZ, (int)sizeof zeros) < (int)sizeof zeros)
        SKIP("cannot enlarge a pipe");
    say_bytes(zeros, sizeof zeros);
    CHECK_EQ(gd__loop_wait(&rig.loop, 0), 1);
    CHECK_GE(rig.size, 8192);
    CHECK_LE(rig.size, 64 * 1024);
    turn();
    CHECK_EQ(rig.size, sizeof zeros);
}

TEST(drain_reads_the_available_output)
{
    open_rig(-1);
    say("one\ntwo\n");
    gd__output_drain(&rig.out); /* must not wait, although the worker's end is open */
    CHECK_EQ(rig.size, 8);
    gd__output_drain(&rig.out);
    CHECK_EQ(rig.calls, 1);
    say("three");
    close(rig.worker);
    gd__output_drain(&rig.out);
    CHECK_STR(last_lines(2), "two\nthree");
}

/* A process that the worker has left behind writes as fast as the library reads. */
TEST(drain_ends_although_a_process_keeps_writing)
{
    open_rig(-1);
    rig.feed_back = rig.worker;
    say("again\n");
    gd__output_drain(&rig.out);
    CHECK_EQ(rig.calls, 1);
}

TEST(callback_may_close)
{
    static char zeros[40000];

    open_rig(-1);
    rig.close_in_callback = true;
    say_bytes(zeros, sizeof zeros);
    CHECK_EQ(gd__loop_wait(&rig.loop, 0), 1);
    CHECK_EQ(rig.calls, 1);
    CHECK_EQ(rig.out.fd, -1);
    gd__output_drain(&rig.out);
    gd__output_close(&rig.out);
}

TEST(closing_closes_every_descriptor)
{
    int before = open_fds(), ends[2];

    make_pipe(ends);
    open_rig(ends[1]);
    say("kept\n");
    turn();
    gd__output_close(&rig.out);
    gd__output_close(&rig.out);
    CHECK_STR(last_lines(1), "kept");
    close(rig.worker);
    close(ends[0]);
    close(ends[1]);
    gd__loop_close(&rig.loop);
    CHECK_EQ(open_fds(), before);
}

/* --- the tail ----------------------------------------------------------- */

TEST(tail_is_empty_at_first)
{
    char text[4] = "abc";

    open_rig(-1);
    CHECK_EQ(gd__output_last_lines(&rig.out, 10, text, sizeof text), 0);
    CHECK_STR(text, "");
    say("\n\n");
    turn();
    CHECK_EQ(gd__output_last_lines(&rig.out, 10, text, sizeof text), 0);
}

TEST(tail_has_the_last_lines)
{
    open_rig(-1);
    say("one\ntwo\n\nthree\n");
    turn();
    CHECK_STR(last_lines(0), "");
    CHECK_STR(last_lines(1), "three");
    CHECK_STR(last_lines(2), "\nthree");
    CHECK_STR(last_lines(3), "two\n\nthree");
    CHECK_STR(last_lines(4), "one\ntwo\n\nthree");
    CHECK_STR(last_lines(50), "one\ntwo\n\nthree");
}

TEST(tail_has_a_line_without_a_newline)
{
    open_rig(-1);
    say("whole\npart");
    turn();
    CHECK_STR(last_lines(1), "part");
    CHECK_STR(last_lines(2), "whole\npart");
    say("ly\n\n\n");
    turn();
    CHECK_STR(last_lines(1), "partly");
}

TEST(tail_has_no_control_characters)
{
    static const char bytes[] = "a\0b\x1b[31m\r\t\x7f\xc3\xa9\xff";

    open_rig(-1);
    say_bytes(bytes, sizeof bytes - 1);
    turn();
    CHECK_STR(last_lines(1), "a?b?[31m?\t?\xc3\xa9\xff");
}

TEST(tail_of_long_text_begins_with_a_whole_line)
{
    char line[32];

    open_rig(-1);
    for (int i = 0; i < 2000; i++) {
        snprintf(line, sizeof line, "line %d\n", i);
        say(line);
    }
    turn();
    const char *text = last_lines(100000);
    CHECK_MEM(text, "line ", 5);
    int first = atoi(text + 5);
    CHECK_GT(first, 1500);
    CHECK_LT(first, 1600);
    CHECK_CONTAINS(text, "line 1999");
    CHECK_STR(last_lines(2), "line 1998\nline 1999");
}

/* The same bytes give the same tail, whatever the sizes of the pieces. */
TEST(tail_does_not_depend_on_the_sizes_of_the_pieces)
{
    static char all[20000], expected[GD__TAIL_BYTES + 1];

    for (size_t i = 0; i < sizeof all; i++)
        all[i] = i % 61 == 0 ? '\n' : pattern(i);
    for (size_t piece = 1; piece <= sizeof all; piece = piece * 5 / 2 + 1) {
        open_rig(-1);
        for (size_t i = 0; i < sizeof all; i += piece) {
            say_bytes(all + i, piece < sizeof all - i ? piece : sizeof all - i);
            turn();
        }
        if (piece == 1)
            snprintf(expected, sizeof expected, "%s", last_lines(10000));
        CHECK_STR(last_lines(10000), expected);
        CHECK_MEM(rig.out.tail, all + sizeof all - GD__TAIL_BYTES, GD__TAIL_BYTES);
        CHECK_EQ(rig.out.tail_size, GD__TAIL_BYTES);
        gd__output_close(&rig.out);
        close(rig.worker);
        rig.size = 0;
    }
}

/* The dropped part ended with a newline, so the first line is complete. */
TEST(tail_cut_between_lines_loses_no_line)
{
    static char text[GD__TAIL_BYTES + 2];

    open_rig(-1);
    memset(text, 'x', sizeof text);
    text[1] = '\n';
    text[100] = '\n';
    say_bytes(text, sizeof text); /* drops "x\n" */
    turn();
    CHECK(!rig.out.tail_cut);
    CHECK_EQ(strlen(last_lines(9)), GD__TAIL_BYTES);
    say("y");
    turn();
    CHECK(rig.out.tail_cut);
    CHECK_EQ(strlen(last_lines(9)), GD__TAIL_BYTES - 98);
}

TEST(tail_of_one_long_line_is_its_end)
{
    static char text[10000];

    open_rig(-1);
    memset(text, 'x', sizeof text);
    for (size_t i = 0; i < 4; i++)
        text[sizeof text - 4 + i] = "end\n"[i];
    say_bytes(text, sizeof text);
    turn();
    const char *lines = last_lines(3);
    CHECK_EQ(strlen(lines), GD__TAIL_BYTES - 1);
    CHECK_STR(lines + strlen(lines) - 4, "xend");
}

TEST(tail_in_a_small_buffer)
{
    char text[9];

    open_rig(-1);
    say("first\nab\ncd\n");
    turn();
    CHECK_EQ(gd__output_last_lines(&rig.out, 9, text, 9), 5);
    CHECK_STR(text, "ab\ncd");
    CHECK_EQ(gd__output_last_lines(&rig.out, 9, text, 6), 5);
    CHECK_EQ(gd__output_last_lines(&rig.out, 9, text, 5), 2);
    CHECK_STR(text, "cd");
    CHECK_EQ(gd__output_last_lines(&rig.out, 9, text, 2), 1);
    CHECK_STR(text, "d");
    CHECK_EQ(gd__output_last_lines(&rig.out, 9, text, 1), 0);
    CHECK_STR(text, "");
    CHECK_EQ(gd__output_last_lines(&rig.out, 9, NULL, 0), 0);
}

TEST(tail_does_not_begin_inside_a_character)
{
    char text[5];

    open_rig(-1);
    say("\xe2\x82\xac\xe2\x82\xac\n"); /* two euro signs */
    turn();
    CHECK_EQ(gd__output_last_lines(&rig.out, 1, text, 5), 3);
    CHECK_STR(text, "\xe2\x82\xac");
}

/* --- forwarding --------------------------------------------------------- */

static void check_forwards(int to, int from)
{
    char text[20] = "";

    open_rig(to);
    say("over there\n");
    turn();
    CHECK_EQ(read(from, text, sizeof text - 1), 11);
    CHECK_STR(text, "over there\n");
    CHECK_EQ(rig.calls, 0);
    CHECK_STR(last_lines(1), "over there");
}

TEST(forwards_to_a_pipe)
{
    int ends[2];

    make_pipe(ends);
    check_forwards(ends[1], ends[0]);
    CHECK(!(fcntl(ends[1], F_GETFL) & O_NONBLOCK)); /* other processes share these flags, so they must not change */
}

TEST(forwards_to_a_socket)
{
    int ends[2];

    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    check_forwards(ends[1], ends[0]);
}

TEST(forwards_to_a_file_at_its_current_position)
{
    char text[40] = "";
    int fd = memfd_create("out", MFD_CLOEXEC);

    CHECK_EQ(write(fd, "before\n", 7), 7);
    open_rig(fd);
    say("between\n");
    turn();
    CHECK_EQ(write(fd, "after\n", 6), 6);
    CHECK_EQ(pread(fd, text, sizeof text, 0), 21);
    CHECK_STR(text, "before\nbetween\nafter\n");
}

TEST(forwards_to_a_device)
{
    open_rig(open("/dev/null", O_WRONLY));
    for (int i = 0; i < 20000; i++) {
        say("much\n");
        turn();
    }
    CHECK(!rig.out.blocked);
    CHECK_STR(last_lines(1), "much");
}

/* Forwards to a full descriptor. Nothing blocks or spins, and the worker must wait. Later all output arrives in
 * order. */
static size_t talk_to_one_that_is_full(int to)
{
    open_rig(to);
    size_t n = talk_until_stopped(0);
    CHECK(rig.out.blocked);
    CHECK_GE(n, 4096);
    CHECK_EQ(gd__loop_wait(&rig.loop, gd__now_ns() + 2 * GD__NS_PER_MS), 0);
    return n;
}

static void expect_what_was_said(int from, size_t n)
{
    expect_pattern(from, n);
    CHECK(!rig.out.blocked);
    say("\nwell\n");
    turn();
    CHECK_STR(last_lines(1), "well");
}

static void check_blocked(int to, int from)
{
    write_all_it_takes(to);
    expect_what_was_said(from, talk_to_one_that_is_full(to));
}

TEST(full_pipe_does_not_block)
{
    int ends[2];

    make_pipe(ends);
    check_blocked(ends[1], ends[0]);
    CHECK_EQ(rig.out.forward_kind, 0);
}

TEST(full_socket_does_not_block)
{
    int ends[2];

    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    check_blocked(ends[1], ends[0]);
    CHECK_EQ(rig.out.forward_kind, 1);
}

/* A pipe that this process may not open again, like a pipe of another user. */
TEST(full_pipe_that_cannot_be_opened_again_does_not_block)
{
    int ends[2];

    make_pipe(ends);
    CHECK_EQ(fchmod(ends[1], 0), 0);
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
        SKIP("cannot become an ordinary user");
    check_blocked(ends[1], ends[0]);
    CHECK_EQ(rig.out.forward_kind, 2);
}

TEST(stopped_terminal_does_not_block)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
        SKIP("no terminals here");
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0)
        SKIP("no terminals here");
    /* Stops the terminal instead of filling it, because a kernel thread moves written text to the reading side at any
     * time. */
    CHECK_EQ(tcflow(slave, TCOOFF), 0);
    size_t n = talk_to_one_that_is_full(slave);
    CHECK_EQ(tcflow(slave, TCOON), 0);
    expect_what_was_said(master, n);
}

TEST(two_outputs_can_wait_for_the_same_descriptor)
{
    static struct gd__output second;
    int ends[2], worker;
    char text[65536];
    int seen = 0;

    make_pipe(ends);
    write_all_it_takes(ends[1]);
    open_rig(ends[1]);
    CHECK_EQ(gd__output_open(&second, &rig.loop, 1, ends[1], NULL, NULL, &worker), 0);
    say("A");
    CHECK_EQ(write(worker, "B", 1), 1);
    turn();
    CHECK(rig.out.blocked && second.blocked);
    while (seen < 2) {
        ssize_t n = read(ends[0], text, sizeof text);

        for (ssize_t i = 0; i < n; i++)
            seen += text[i] == 'A' || text[i] == 'B';
        turn();
    }
    CHECK(!rig.out.blocked && !second.blocked);
}

TEST(worker_dies_while_blocked)
{
    int ends[2];

    make_pipe(ends);
    write_all_it_takes(ends[1]);
    open_rig(ends[1]);
    size_t n = talk_until_stopped(0);
    close(rig.worker);
    turn(); /* end of file must not be reported again and again */
    CHECK(rig.out.blocked);
    expect_pattern(ends[0], n);
    CHECK_EQ(rig.out.watch.fd, -1);
}

TEST(drain_while_blocked_completes_the_tail)
{
    int ends[2];

    make_pipe(ends);
    write_all_it_takes(ends[1]);
    open_rig(ends[1]);
    say("first\n");
    turn();
    CHECK(rig.out.blocked);
    for (int i = 0; i < 3000; i++)
        say("middle\n");
    say("the reason\n");
    gd__output_drain(&rig.out);
    CHECK_STR(last_lines(2), "middle\nthe reason");
    gd__output_close(&rig.out);
}

/* --- errors ------------------------------------------------------------- */

/* In these cases SIGPIPE has its default action, which would kill the process. */

static bool sigpipe_is_pending(void)
{
    sigset_t pending;

    sigpending(&pending);
    return sigismember(&pending, SIGPIPE) == 1;
}

static void check_broken(void)
{
    say("into the void\n");
    turn();
    CHECK_EQ(rig.out.forward_fd, -1);
    CHECK_STR(last_lines(1), "into the void");
    say("still read\n");
    turn();
    CHECK_STR(last_lines(1), "still read");
    CHECK_EQ(rig.calls, 0);
    CHECK(!sigpipe_is_pending());
}

TEST(broken_pipe)
{
    int ends[2];

    make_pipe(ends);
    open_rig(ends[1]);
    close(ends[0]);
    check_broken();
}

TEST(broken_socket)
{
    int ends[2];

    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    open_rig(ends[1]);
    close(ends[0]);
    check_broken();
}

TEST(pipe_broken_from_the_start)
{
    int ends[2];

    make_pipe(ends);
    close(ends[0]);
    open_rig(ends[1]);
    check_broken();
}

TEST(disk_full)
{
    int fd = open("/dev/full", O_WRONLY);

    if (fd < 0)
        SKIP("no /dev/full");
    open_rig(fd);
    check_broken();
}

TEST(descriptor_for_reading_only)
{
    int ends[2];

    make_pipe(ends);
    open_rig(ends[0]);
    check_broken();
}

TEST(descriptor_closed)
{
    open_rig(900);
    check_broken();
}

TEST(pipe_breaks_while_blocked)
{
    int ends[2];

    make_pipe(ends);
    write_all_it_takes(ends[1]);
    open_rig(ends[1]);
    talk_until_stopped(0);
    CHECK(rig.out.blocked);
    close(ends[0]);
    CHECK_GT(gd__loop_wait(&rig.loop, GD__NEVER), 0);
    turn();
    CHECK(!rig.out.blocked);
    say("\n");
    check_broken();
}

TEST(a_pending_sigpipe_of_the_program_stays_pending)
{
    int ends[2];
    sigset_t set, before;

    make_pipe(ends);
    close(ends[0]);
    open_rig(ends[1]);
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGPIPE);
    say("x\n");
    turn();
    CHECK(sigpipe_is_pending());
    sigprocmask(SIG_BLOCK, NULL, &before);
    CHECK_EQ(sigismember(&before, SIGPIPE), 1);
}

/* Pipes of the library must not get the numbers of closed standard streams, and must not be forwarded to themselves. */
TEST(program_without_standard_streams)
{
    static struct gd__output second;
    int worker;

    for (int fd = 0; fd < 3; fd++)
        close(fd);
    CHECK(open("/dev/null", O_RDONLY) == 0); /* otherwise the descriptor of the loop would be 0 */
    int high = fcntl(0, F_DUPFD, 10);
    CHECK_EQ(gd__loop_open(&rig.loop), 0);
    int loop_fd = fcntl(rig.loop.fd, F_DUPFD_CLOEXEC, 10);
    close(rig.loop.fd);
    rig.loop.fd = loop_fd;
    close(high);
    CHECK_EQ(gd__output_open(&rig.out, &rig.loop, 1, 1, NULL, NULL, &rig.worker), 0);
    CHECK_EQ(gd__output_open(&second, &rig.loop, 2, 2, NULL, NULL, &worker), 0);
    CHECK_GT(rig.worker, 2);
    CHECK_GT(worker, 2);
    CHECK_GT(rig.out.fd, 2);
    CHECK_GT(second.fd, 2);
    CHECK_EQ(rig.out.forward_fd, -1);
    CHECK_EQ(second.forward_fd, -1);
    say("nobody\n");
    turn();
    CHECK_STR(last_lines(1), "nobody");
}

TEST(every_failing_call_leaves_nothing_behind)
{
#ifndef GD_TEST_HOOKS
    SKIP("built without test hooks");
#else
    int ends[2], failures = 0;

    make_pipe(ends);
    CHECK_EQ(gd__loop_open(&rig.loop), 0);
    int before = open_fds();
    for (unsigned long n = 1;; n++) {
        gd__fault_begin(n);
        int rc = gd__output_open(&rig.out, &rig.loop, 1, ends[1], NULL, NULL, &rig.worker);
        gd__fault_begin(0);
        if (rc == 0)
            break;
        failures++;
        CHECK_EQ(rc, GD_E_NO_MEMORY);
        CHECK_EQ(rig.worker, -1);
        CHECK_EQ(rig.out.fd, -1);
        CHECK_EQ(open_fds(), before);
        gd__output_close(&rig.out);
    }
    CHECK_EQ(failures, 4);
#endif
}

TEST_MAIN()
