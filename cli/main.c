/* SPDX-License-Identifier: MIT
 *
 * The gpu-dispatch command: finds its subcommand. If this program was started by a dispatcher, it acts as the worker's
 * host instead. So the dispatcher does not have to find a second program.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <gpu_dispatch/dispatcher.h>

#include "base/text/parse.h"
#include "binding.h"
#include "cli/commands.h"
#include "cli/run/http/token.h"
#include "cli/run/stop/exit_status.h"
#include "cli/say.h"

static int version(int argc, char **argv)
{
    (void)argc, (void)argv;
    printf("gpu-dispatch %s\n", gd_version());
    return 0;
}

static int help(int argc, char **argv)
{
    (void)argc;
    return cli_help_main(0, argv);
}

static const struct command {
    const char *name;
    int (*main)(int argc, char **argv); /* gets the arguments after the name */
} commands[] = {
    { "run", cli_run_main },
    { "transcribe", cli_transcribe_main },
    { "models", cli_models_main },
    { "gpus", cli_gpus_main },
    { "estimate", cli_estimate_main },
    { "top", cli_top_main },
    { "report", cli_report_main },
    { "status", cli_status_main },
    { "export", cli_export_main },
    { "merge", cli_merge_main },
    { "push", cli_push_main },
    { "help", cli_help_main },
    { "--help", help },
    { "-h", help },
    { "--version", version },
    { "-V", version },
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static int unknown(const char *name)
{
    const char *names[N_COMMANDS];
    size_t n = 0;
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if ((*commands[i].name == '-') == (*name == '-'))
            names[n++] = commands[i].name;
    }
    const char *near = gd__nearest_word(name, names, n);
    const char *kind = *name == '-' ? "option" : "command";
    if (near)
        cli_say("unknown %s %s: did you mean %s?", kind, name, near);
    else if (*name == '-')
        cli_say("unknown %s %s: options come after the command name, as in gpu-dispatch run %s", kind, name, name);
    else
        cli_say("unknown %s %s: to run a program, write gpu-dispatch run %s", kind, name, name);
    return CLI_EXIT_ERROR;
}

/* Checks that everything printed was really written. */
static int finish(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    if (errno != EPIPE)
        cli_say("cannot write to standard output: %s", strerror(errno));
    return status ? status : CLI_EXIT_ERROR;
}

/* Opens /dev/null for each standard stream that is closed. Otherwise the next file to be opened, a log or the input,
 * would get the number of that stream and receive what is printed. The modes make reading standard input and writing
 * standard output fail. Messages on standard error are lost. */
static int fill_closed_streams(void)
{
    static const int modes[] = { [STDIN_FILENO] = O_WRONLY, [STDOUT_FILENO] = O_RDONLY, [STDERR_FILENO] = O_WRONLY };
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) != fd)
            return -1;
    }
    return 0;
}

/* Whether the program was called as launcher_multigpu. Then it only transcribes. */
static bool is_launcher(const char *name)
{
    const char *slash = strrchr(name, '/');
    return strcmp(slash ? slash + 1 : name, "launcher_multigpu") == 0;
}

/* Blocks SIGCHLD in this thread and in all threads that it starts. Runs detect the end of child processes in another
 * way (gd_options.orphans). */
static void block_child_signal(void)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &one, NULL);
}

int main(int argc, char **argv)
{
    if (gd__host_wanted())
        return gd__host_main(argc, argv);
    block_child_signal();
    cli_token_take(); /* first, because no started process may inherit the token */
    if (fill_closed_streams() < 0)
        return CLI_EXIT_ERROR;
    if (argc > 0 && is_launcher(argv[0]))
        return finish(cli_launcher_main(argc - 1, argv + 1));
    if (argc < 2) {
        fputs(cli_usage, stderr);
        return CLI_EXIT_ERROR;
    }
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return finish(commands[i].main(argc - 2, argv + 2));
    }
    return unknown(argv[1]);
}
