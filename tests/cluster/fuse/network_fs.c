/* SPDX-License-Identifier: MIT
 *
 * The main program: options, the threads that serve the kernel, and the commands of the test. See network_fs.h.
 */
#include "network_fs.h"

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Processes that wait for a lock take a thread each. */
enum { THREADS = 32 };

struct settings settings;
struct fuse_session *session;

static void usage(void)
{
    fputs("usage: network_fs [--locks shared|local|none] [--cache SECONDS] [--cache-missing] [--no-rename-flags] "
          "[--no-links] "
          "[--repeat-links] [--stale] DIRECTORY MOUNT_POINT\n",
          stderr);
    exit(2);
}

static enum lock_mode parse_locks(const char *text)
{
    static const char *const names[] = { "shared", "local", "none" };
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) == 0)
            return (enum lock_mode)i;
    }
    usage();
    return LOCKS_NONE;
}

static void parse_options(int argc, char **argv)
{
    static const struct option options[] = {
        { "locks", required_argument, NULL, 'l' },   { "cache", required_argument, NULL, 'c' },
        { "cache-missing", no_argument, NULL, 'm' }, { "no-rename-flags", no_argument, NULL, 'r' },
        { "no-links", no_argument, NULL, 'n' },      { "repeat-links", no_argument, NULL, 't' },
        { "stale", no_argument, NULL, 's' },         { NULL, 0, NULL, 0 }
    };
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'l':
            settings.locks = parse_locks(optarg);
            break;
        case 'c':
            settings.cache_s = atof(optarg);
            break;
        case 'm':
            settings.cache_missing = true;
            break;
        case 'r':
            settings.no_rename_flags = true;
            break;
        case 'n':
            settings.no_links = true;
            break;
        case 't':
            settings.repeat_links = true;
            break;
        case 's':
            settings.stale = true;
            break;
        default:
            usage();
        }
    }
    if (argc - optind != 2)
        usage();
    settings.directory = argv[optind];
    settings.mount_point = argv[optind + 1];
}

static void *serve(void *unused)
{
    struct fuse_buf buffer = { .mem = NULL };
    (void)unused;
    while (!fuse_session_exited(session)) {
        const int n = fuse_session_receive_buf(session, &buffer);
        if (n > 0)
            fuse_session_process_buf(session, &buffer);
        else if (n != -EINTR)
            break; /* unmounted */
    }
    free(buffer.mem);
    return NULL;
}

static void start_threads(void)
{
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        const int error = pthread_create(&thread, NULL, serve, NULL);
        if (error) {
            fprintf(stderr, "network_fs: pthread_create: %s\n", strerror(error));
            exit(1);
        }
        pthread_detach(thread);
    }
}

static void answer(const char *line)
{
    puts(line);
    fflush(stdout);
}

static void obey(const char *command)
{
    unsigned change;
    if (sscanf(command, "cut-at %u", &change) == 1)
        gate_cut_at(change);
    else if (strcmp(command, "cut\n") == 0)
        gate_set(GATE_CUT);
    else if (strcmp(command, "fail\n") == 0)
        gate_set(GATE_FAIL);
    else if (strcmp(command, "mend\n") == 0)
        gate_set(GATE_OPEN);
    else
        fprintf(stderr, "network_fs: unknown command: %s", command);
    answer("done");
}

/* The kernel knows each file by a descriptor, so many are needed. */
static void allow_many_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int argc, char **argv)
{
    char name[] = "network_fs", option[] = "-o", value[] = "fsname=network_fs";
    char *words[] = { name, option, value, NULL };
    struct fuse_args args = FUSE_ARGS_INIT(3, words);
    struct fuse_lowlevel_ops operations = { 0 };
    char line[64];
    parse_options(argc, argv);
    allow_many_files();
    umask(0); /* the caller's has been applied */
    signal(SIGPIPE, SIG_IGN);
    operations_add(&operations);
    directories_add(&operations);
    nodes_open(settings.directory);
    session = fuse_session_new(&args, &operations, sizeof operations, NULL);
    if (!session || fuse_session_mount(session, settings.mount_point) < 0)
        return 1;
    start_threads();
    answer("mounted");
    while (fgets(line, sizeof line, stdin) && strcmp(line, "end\n") != 0)
        obey(line);
    umount2(settings.mount_point, MNT_DETACH);
    _exit(0); /* closes /dev/fuse, so operations that still wait fail */
}
