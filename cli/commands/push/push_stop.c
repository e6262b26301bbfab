/* SPDX-License-Identifier: MIT
 *
 * Signals during a push: see push_stop.h.
 */
#include "cli/commands/push/push_stop.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/failure.h"
#include "cli/run/stop/exit_status.h"
#include "cli/say.h"

struct cli_push_stop {
    int signal_fd, stop_fd, end_fd;
    sigset_t before;
    pthread_t thread;
    bool blocked, started;

    pthread_mutex_t mutex; /* for the rest */
    bool begun;
    struct cli_input *input;
    int first;
};

static void make_readable(int fd)
{
    const uint64_t one = 1;
    (void)!write(fd, &one, sizeof one);
}

static void handle(struct cli_push_stop *s, int number)
{
    pthread_mutex_lock(&s->mutex);
    if (s->first != 0 || !s->begun)
        _exit(CLI_EXIT_SIGNAL + number);
    s->first = number;
    if (s->input)
        cli_input_cancel(s->input);
    pthread_mutex_unlock(&s->mutex);
    make_readable(s->stop_fd);
}

static void *wait_for_signals(void *user)
{
    struct cli_push_stop *s = user;
    for (;;) {
        struct pollfd fds[] = { { s->signal_fd, POLLIN, 0 }, { s->end_fd, POLLIN, 0 } };
        struct signalfd_siginfo info;
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return NULL;
        if (fds[1].revents)
            return NULL;
        if (fds[0].revents && read(s->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
            handle(s, (int)info.ssi_signo);
    }
}

/* The signals of a program that was started with nohup stay ignored. */
static void signals_of(sigset_t *set)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
    sigemptyset(set);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction now;
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(set, numbers[i]);
    }
}

static int start(struct cli_push_stop *s)
{
    sigset_t set;
    signals_of(&set);
    s->blocked = pthread_sigmask(SIG_BLOCK, &set, &s->before) == 0;
    s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->signal_fd < 0 || s->stop_fd < 0 || s->end_fd < 0)
        return gd__fail("cannot handle signals: %s", strerror(errno));
    const int error = pthread_create(&s->thread, NULL, wait_for_signals, s);
    s->started = error == 0;
    return error == 0 ? 0 : gd__fail("cannot start a thread: %s", strerror(error));
}

int cli_push_stop_open(struct cli_push_stop **out)
{
    struct cli_push_stop *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return gd__fail("out of memory");
    s->signal_fd = s->stop_fd = s->end_fd = -1;
    pthread_mutex_init(&s->mutex, NULL);
    *out = s;
    if (start(s) == 0)
        return 0;
    cli_push_stop_close(out);
    return -1;
}

int cli_push_stop_fd(const struct cli_push_stop *s)
{
    return s->stop_fd;
}

void cli_push_stop_begin(struct cli_push_stop *s, struct cli_input *in)
{
    pthread_mutex_lock(&s->mutex);
    s->begun = true;
    s->input = in;
    pthread_mutex_unlock(&s->mutex);
}

int cli_push_stop_signal(struct cli_push_stop *s)
{
    pthread_mutex_lock(&s->mutex);
    const int first = s->first;
    pthread_mutex_unlock(&s->mutex);
    return first;
}

void cli_push_stop_close(struct cli_push_stop **stop)
{
    struct cli_push_stop *s = *stop;
    if (!s)
        return;
    if (s->started) {
        make_readable(s->end_fd);
        pthread_join(s->thread, NULL);
    }
    if (s->blocked)
        pthread_sigmask(SIG_SETMASK, &s->before, NULL);
    const int fds[] = { s->signal_fd, s->stop_fd, s->end_fd };
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    pthread_mutex_destroy(&s->mutex);
    free(s);
    *stop = NULL;
}
