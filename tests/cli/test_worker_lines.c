/* SPDX-License-Identifier: MIT
 *
 * Output that workers write directly. A terminal gets it in whole lines. Anything else gets it at once.
 */
#include <fcntl.h>
#include <termios.h>

#include "base/text/buffer.h"
#include "cli/output/worker_lines.h"
#include "common.h"

/* A pseudo-terminal that passes on what is written unchanged. */
static int open_terminal(int *slave)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    *slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK_GE(*slave, 0);
    struct termios t;
    CHECK_EQ(tcgetattr(*slave, &t), 0);
    cfmakeraw(&t);
    CHECK_EQ(tcsetattr(*slave, TCSANOW, &t), 0);
    return master;
}

/* Everything that was written so far, from the terminal's buffer. */
static const char *written(int master)
{
    static char text[65536];
    struct pollfd f = { .fd = master, .events = POLLIN };
    size_t n = 0;
    while (poll(&f, 1, 0) > 0) {
        const ssize_t more = read(master, text + n, sizeof text - 1 - n);
        CHECK_GT(more, 0);
        n += (size_t)more;
    }
    text[n] = 0;
    return text;
}

static void pass(struct cli_worker_lines *p, int worker_id, int stream, const char *text)
{
    cli_worker_lines_add(p, worker_id, stream, text, strlen(text));
}

TEST(lines_are_whole)
{
    int slave, master = open_terminal(&slave);
    struct cli_worker_lines *p = NULL;
    CHECK_EQ(cli_worker_lines_open(&p, (const int[]){ slave, slave }, NULL), 0);
    pass(p, 0, 1, "one ");
    pass(p, 1, 1, "two\nthree ");
    pass(p, 0, 2, "err");
    CHECK_STR(written(master), "two\n");
    pass(p, 0, 1, "more\n\nnext");
    CHECK_STR(written(master), "one more\n\n");
    pass(p, 0, 2, "or\n");
    CHECK_STR(written(master), "error\n");
    cli_worker_lines_close(&p);
    CHECK_STR(written(master), "next\nthree \n");
    CHECK(p == NULL);
}

TEST(a_line_without_end)
{
    int slave, master = open_terminal(&slave);
    struct cli_worker_lines *p = NULL;
    char part[1024];
    memset(part, 'x', sizeof part);
    CHECK_EQ(cli_worker_lines_open(&p, (const int[]){ slave, slave }, NULL), 0);
    for (int i = 0; i < 64; i++)
        cli_worker_lines_add(p, 0, 1, part, sizeof part);
    CHECK_STR(written(master), "");
    const pid_t reader = fork(); /* the terminal's buffer is smaller than the text, so it must be read meanwhile */
    if (reader == 0) {
        char c;
        size_t n = 0;
        while (read(master, &c, 1) == 1 && c != '\n')
            n++;
        _exit(n == 64 * sizeof part + 1 ? 0 : 1);
    }
    cli_worker_lines_add(p, 0, 1, "x", 1);
    int status;
    CHECK_EQ(waitpid(reader, &status, 0), reader);
    CHECK_EQ(status, 0);
    cli_worker_lines_close(&p);
}

TEST(a_file_gets_bytes_as_they_come)
{
    struct cli_worker_lines *p = NULL;
    enter_directory();
    int fd = open("f", O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    CHECK_EQ(cli_worker_lines_open(&p, (const int[]){ fd, fd }, NULL), 0);
    pass(p, 0, 1, "one ");
    pass(p, 1, 2, "two");
    struct gd__buffer b = bytes_of("f");
    CHECK_STR(b.data, "one two");
    gd__buffer_free(&b);
    cli_worker_lines_close(&p);
}

TEST(a_reader_that_is_gone)
{
    struct cli_worker_lines *p = NULL;
    int ends[2], slave, master = open_terminal(&slave);
    signal(SIGPIPE, SIG_IGN);
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    CHECK_EQ(cli_worker_lines_open(&p, (const int[]){ ends[1], slave }, NULL), 0);
    CHECK(!cli_worker_lines_broken(p));
    pass(p, 0, 1, "lost");
    CHECK(cli_worker_lines_broken(p));
    pass(p, 0, 1, "lost too");
    pass(p, 0, 2, "not lost\n");
    CHECK_STR(written(master), "not lost\n");
    cli_worker_lines_close(&p);
    CHECK(!cli_worker_lines_broken(NULL));
    cli_worker_lines_close(&p);
}

TEST_MAIN()
