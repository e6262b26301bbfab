/* SPDX-License-Identifier: MIT
 *
 * The options of `gpu-dispatch push`: see push_options.h.
 */
#include "cli/commands/push/push_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "base/text/parse.h"

enum { BUNDLE_MOST = 65536, REPLICAS_MOST = 5, LEASE_MOST_MS = 24 * 3600 * 1000 };

static int set_order(const struct cli_opt *opt, void *field, const char *text)
{
    struct cli_push *p = (struct cli_push *)((char *)field - opt->offset);
    p->order.given = true;
    return cli_order_parse(text, &p->order.order);
}

static int set_seed(const struct cli_opt *opt, void *field, const char *text)
{
    struct cli_push *p = (struct cli_push *)((char *)field - opt->offset);
    p->seeded = true;
    return cli_set_number64(opt, field, text);
}

static int set_bundle(const struct cli_opt *opt, void *field, const char *text)
{
    if (strcmp(text, "auto") != 0)
        return cli_set_number(opt, field, text) == 0
                   ? 0
                   : gd__fail("--bundle takes auto, or a whole number from 1 to %d, not \"%s\"", BUNDLE_MOST, text);
    *(unsigned *)field = 0;
    return 0;
}

static int set_priority(const struct cli_opt *opt, void *field, const char *text)
{
    char *end;
    (void)opt;
    errno = 0;
    const long n = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end || n < GD_PRIORITY_MIN || n > GD_PRIORITY_MAX)
        return gd__fail("--priority takes a number from %d to %d, not \"%s\"", GD_PRIORITY_MIN, GD_PRIORITY_MAX, text);
    *(int *)field = (int)n;
    return 0;
}

static int set_replicas(const struct cli_opt *opt, void *field, const char *text)
{
    unsigned *n = field;
    if (cli_set_number(opt, field, text) < 0)
        return -1;
    return *n % 2 == 1 ? 0 : gd__fail("--replicas takes 1, 3 or 5, not %s", text);
}

/* 0 would mean the library's default. */
static int set_lease(const struct cli_opt *opt, void *field, const char *text)
{
    unsigned *ms = field;
    if (cli_set_duration(opt, field, text) < 0)
        return -1;
    return *ms >= 1000 && *ms <= LEASE_MOST_MS ? 0 : gd__fail("--lease takes 1s to 24h, not \"%s\"", text);
}

#define AT(field) .offset = offsetof(struct cli_push, field)

static const struct cli_opt table[] = {
    CLI_QUEUE_URL(
        struct cli_push, queue,
        "the queue, such as nats://host/NAME or nats://a,b,c/NAME (a cluster); it is created if it does not exist",
        "Queue"),
    CLI_QUEUE_SPILL_DIR(struct cli_push, queue),
    { "lease", 0, "TIME",
      "give the tasks of a node to other nodes if it is silent for TIME, 1s to 24h; only for a new queue, or a new "
      "priority of a queue (default 30s)",
      set_lease, AT(lease_ms) },
    { "replicas", 0, "N", "store a new queue on N servers of a cluster: 1, 3 or 5 (default 1)", set_replicas,
      AT(replicas), .min = 1, .max = REPLICAS_MOST },
    CLI_QUEUE_CREDENTIALS(struct cli_push, queue),

    { "arg-file", 'a', "FILE",
      "add a task for each line of FILE (- is standard input); several files give all combinations", cli_set_list,
      AT(arg_files), .group = "Input" },
    { "null", '0', NULL, "input lines end with a NUL character instead of a newline", cli_set_flag, AT(nul) },
    { "jsonl", 0, NULL, "each input line is a JSON value; it may set the task's priority and time limit", cli_set_flag,
      AT(jsonl) },
    { "input-dir", 0, "DIR", "add a task for each file in DIR; all machines must find the files under the same paths",
      cli_set_text, AT(input_dir) },
    { "pattern", 0, "GLOB", "use only files whose names match, such as '*.wav'; may be repeated", cli_set_list,
      AT(patterns) },
    { "recursive", 0, NULL, "also use files in the subdirectories of DIR", cli_set_flag, AT(recursive) },
    { "order", 0, "ORDER",
      "order of the files: size (largest first, so that the work ends soonest), name or none (default size)", set_order,
      AT(order) },
    { "shuf", 0, NULL, "add the tasks in random order", cli_set_flag, AT(shuffle) },
    { "seed", 0, "N", "the random order of --shuf, to repeat it", set_seed, AT(seed) },
    { "no-run-if-empty", 'r', NULL, "skip inputs that are empty or only white space", cli_set_flag, AT(skip_blank) },

    { "bundle", 0, "N",
      "number of tasks in one message, 1 to 65536; auto: 1, or about 10 s of work if the recorded tasks took less than "
      "2 s on average (default auto)",
      set_bundle, AT(bundle), .min = 1, .max = BUNDLE_MOST, .group = "Tasks" },
    { "priority", 0, "N",
      "priority of the tasks, -4 to 3: waiting tasks of a higher priority start first; a line of --jsonl may set "
      "another one; a task that is in the queue already keeps its priority (default 0)",
      set_priority, AT(priority) },
    { "key", 0, "WHAT",
      "what identifies a task: input; file (path, size and time); path; or .NAME, a member of its JSON (default: file "
      "with --input-dir, otherwise input)",
      cli_set_text, AT(key) },
    { "retry-failed", 0, NULL, "add each task whose last record is a failure once more; no inputs are needed",
      cli_set_flag, AT(retry_failed) },
    { "wait", 0, "TIME", "how long to wait if another push to this queue is running (default 60s)", cli_set_duration,
      AT(wait_ms) },

    { "quiet", 0, NULL, "show no progress and no summary", cli_set_flag, AT(quiet), .group = "Help" },
    { "help", 'h', NULL, "show this help", cli_set_flag, AT(help) },
    { "list-options", 0, NULL, NULL, cli_set_flag, AT(list_options) },
    { .name = NULL },
};

const struct cli_opts cli_push_options = {
    .command = "push",
    .usage = "usage: gpu-dispatch push --queue URL [OPTIONS] [::: INPUT... | :::: FILE...]\n"
             "\n"
             "Adds a task for each input to a queue on a NATS server, from which any number of\n"
             "machines take them: gpu-dispatch run --queue URL COMMAND. A task that the queue\n"
             "has already is not added again, so you can push a list again if it has grown,\n"
             "or if the push was interrupted. Equal inputs in one list are different tasks.\n"
             "Without inputs, the lines of standard input are used.\n"
             "\n"
             "Examples:\n"
             "  gpu-dispatch push --queue nats://host/audio :::: list.txt\n"
             "  gpu-dispatch push --queue nats://host/audio --input-dir data --pattern '*.wav'\n"
             "  gpu-dispatch push --queue nats://host/audio --retry-failed\n",
    .table = table,
    .after = "Exit status: 0; 130 Ctrl-C; 143 SIGTERM; 129 SIGHUP; 255 any other error. What\n"
             "was added before an error stays in the queue. More: man gpu-dispatch-push.\n",
};

static int check(const struct cli_push *p)
{
    const struct {
        bool wrong;
        const char *message;
    } rules[] = {
        { !p->queue.url, "push needs a queue: gpu-dispatch push --queue nats://HOST/NAME ..." },
        { p->nul && p->jsonl, "--jsonl cannot be combined with -0" },
        { p->patterns.n > 0 && !p->input_dir, "--pattern is for --input-dir" },
        { p->recursive && !p->input_dir, "--recursive is for --input-dir" },
        { p->order.given && !p->input_dir, "--order is for --input-dir" },
        { p->shuffle && p->order.given, "--shuf and --order cannot be combined" },
        { p->seeded && !p->shuffle, "--seed is for --shuf" },
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].wrong)
            return gd__fail("%s", rules[i].message);
    }
    return cli_queue_check(&p->queue);
}

int cli_push_parse(struct cli_push *p, int argc, char **argv)
{
    *p = (struct cli_push){ .wait_ms = 60000, .lease_ms = 30000, .replicas = 1, .seed = 42 };
    const int first = cli_opts_parse(&cli_push_options, p, argc, argv);
    if (first < 0)
        return -1;
    if (p->help || p->list_options)
        return 0;
    if (first < argc && !cli_is_separator(argv[first]))
        return gd__fail("%s: inputs come after ::: or in a file after :::: (the command is given to gpu-dispatch run "
                        "--queue)",
                        argv[first]);
    if (check(p) < 0)
        return -1;
    return cli_sources_read(&p->sources, &p->arg_files, (struct cli_source_dir){ .path = p->input_dir }, argc - first,
                            argv + first);
}

void cli_push_free(struct cli_push *p)
{
    free(p->arg_files.items);
    free(p->patterns.items);
    cli_sources_free(&p->sources);
}
