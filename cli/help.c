/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch help [TOPIC]`: the help of each subcommand, and a screenful on what concerns several options.
 */
#include <stdio.h>
#include <string.h>

#include "cli/bytes.h"
#include "cli/commands.h"
#include "cli/run/stop/exit_status.h"
#include "cli/text.h"

const char cli_usage[] = "usage: gpu-dispatch run [OPTIONS] [--] COMMAND [WORD...] [::: INPUT...]\n"
                         "       gpu-dispatch transcribe [OPTIONS] --input-dir DIR\n"
                         "       gpu-dispatch gpus | estimate | top | status FILE | export FILE | report FILE\n"
                         "       gpu-dispatch help [TOPIC] | --version | --help\n";

static const char general[] = "usage: gpu-dispatch run [OPTIONS] [--] COMMAND [WORD...] [::: INPUT...]\n"
                              "       gpu-dispatch transcribe [OPTIONS] --input-dir DIR\n"
                              "       gpu-dispatch gpus [OPTIONS]\n"
                              "       gpu-dispatch estimate [OPTIONS] --input-dir DIR\n"
                              "       gpu-dispatch top [OPTIONS] [PID|JOB]\n"
                              "       gpu-dispatch status FILE\n"
                              "       gpu-dispatch export FILE --csv|--jsonl\n"
                              "       gpu-dispatch report FILE\n"
                              "       gpu-dispatch help [TOPIC]\n"
                              "       gpu-dispatch --version\n"
                              "\n"
                              "Keeps every GPU of this machine busy with a stream of tasks, and loses none.\n"
                              "\n"
                              "Examples:\n"
                              "  gpu-dispatch run python3 infer.py {} ::: *.jpg     a command per file\n"
                              "  gpu-dispatch run --gpus sim:2 echo {gpu} {} ::: a b c     without any GPU\n"
                              "  gpu-dispatch run --stream python3 worker.py ::: *.jpg     a program kept alive\n"
                              "  gpu-dispatch transcribe --input-dir data/audio     speech to text\n"
                              "  gpu-dispatch gpus                                  which GPUs there are\n"
                              "  gpu-dispatch estimate --input-dir data             how much work there is\n"
                              "\n"
                              "Commands:\n"
                              "  run        run a command, a plugin or a program on every input\n"
                              "  transcribe turn a folder of audio into text\n"
                              "  gpus       show the GPUs that may be used\n"
                              "  estimate   show how much work lies in a folder\n"
                              "  top        show what running jobs are at, live\n"
                              "  status     show how a run with a journal stands\n"
                              "  export     write the records of a journal as CSV or JSON lines\n"
                              "  report     make a web page of a run's journal\n"
                              "  help       this text, or that of a topic\n"
                              "\n"
                              "Topics: run, transcribe, gpus, estimate, top, status, export, report,\n"
                              "        placeholders, input, output, journal, stream, environment, exit.\n"
                              "Each command also has --help and a man page.\n";

static const char placeholders[] = "Placeholders in the words of a command, as in GNU parallel:\n"
                                   "\n"
                                   "             for the input dir/song.wav, the third task\n"
                                   "  {}         dir/song.wav   the input\n"
                                   "  {.}        dir/song       without its extension\n"
                                   "  {/}        song.wav       its base name\n"
                                   "  {//}       dir            its folder\n"
                                   "  {/.}       song           base name without extension\n"
                                   "  {#}        3              number of the task, from 1\n"
                                   "  {%}        1              number of the worker, from 1\n"
                                   "  {gpu}      0              number of the GPU\n"
                                   "  {2} {2.} {2/} {2//} {2/.}   the same of the second argument, with several\n"
                                   "\n"
                                   "Without a placeholder for the input, it becomes the last word. The words are\n"
                                   "joined with spaces and given to a shell, the inputs quoted for it: pipes and\n"
                                   "redirections work when quoted ('grep x {} > {.}.out'), inputs with spaces or\n"
                                   "quotes need no care. -q quotes the command's own words too.\n";

static const char input[] = "Where tasks come from:\n"
                            "\n"
                            "  ::: a b c               the words themselves\n"
                            "  :::: FILE, -a FILE      a task per line of FILE (- is standard input)\n"
                            "  --input-dir DIR         a task per file; --pattern '*.wav', --recursive\n"
                            "  (none of these)         a task per line of standard input\n"
                            "\n"
                            "-0 reads inputs that end with a NUL: find . -print0 | gpu-dispatch run -0 ...\n"
                            "--jsonl takes each line as a JSON text. Several sources give all combinations,\n"
                            "{1} and {2} their parts; :::+ and ::::+ go in step with the source before.\n"
                            "Input is read as it is needed: an endless stream takes no memory.\n";

static const char output[] = "What comes out:\n"
                             "\n"
                             "Each task's output appears whole when the task ends, never mixed with that of\n"
                             "another; -k keeps the order of the input, --tag marks each line with its input,\n"
                             "-u lets everything through at once. At the end a summary is printed on standard\n"
                             "error, unless --quiet.\n"
                             "\n"
                             "  --output FILE     a JSON line per task\n"
                             "  --joblog FILE     a line per task, in the columns of GNU parallel\n"
                             "  --results DIR     files stdout, stderr and seq per task\n"
                             "  --bar, --eta      how far it is, on standard error\n"
                             "  --http PORT       the same and more on a web page, while it runs\n";

static const char journal[] = "Runs that survive anything that ends them:\n"
                              "\n"
                              "  gpu-dispatch run --journal run.db --resume --output out.jsonl CMD {} :::: list\n"
                              "  gpu-dispatch status run.db             how it stands, also while it runs\n"
                              "  gpu-dispatch export run.db --csv       every task, for other programs\n"
                              "\n"
                              "After Ctrl-C, a full disk or kill -9 the same line goes on where it was: what is\n"
                              "in the journal is skipped, however the list was reordered or has grown. Files\n"
                              "written by --output, --joblog and --results agree with it, and are never half\n"
                              "written. Another command is refused, unless --force-resume.\n"
                              "\n"
                              "  --retry-failed    run what failed and nothing else; with --resume the rest too\n"
                              "  --key file        run a file again that has changed (the rule for --input-dir)\n"
                              "  --key .id         JSON records are known by their member \"id\"\n"
                              "  --sync full       survives power loss too\n"
                              "\n"
                              "What failed is listed in run.failed.jsonl, which is an input itself:\n"
                              "\n"
                              "  gpu-dispatch run --jsonl -a run.failed.jsonl CMD {}\n";

static const char stream[] = "A stream worker is a program that loads its model once and then takes tasks.\n"
                             "\n"
                             "  gpu-dispatch run --stream python3 worker.py --size large ::: *.wav\n"
                             "  gpu-dispatch run --stream 'python3 worker.py' --timeout 1m ::: *.wav\n"
                             "  gpu-dispatch run --stream=./worker --timeout 1m ::: *.wav\n"
                             "\n"
                             "It writes one line when it is ready, then reads a line per task and answers it:\n"
                             "\n"
                             "  it writes  {\"ready\":true}\n"
                             "  it reads   {\"id\":0,\"attempt\":1,\"input\":\"a.wav\"}\n"
                             "  it writes  {\"id\":0,\"output\":\"any JSON\"}   or   {\"id\":0,\"error\":\"words\"}\n"
                             "\n"
                             "Every line must be flushed. Its standard error goes to ours. It ends when its\n"
                             "input does. One that says anything else is killed and replaced, and its task is\n"
                             "run again. An error is tried again as --retries says, unless it comes with\n"
                             "\"final\":true. {\"ready\":false,\"error\":\"words\"} says that the set-up failed.\n";

static const char environment[] = "Variables that commands and workers find set:\n"
                                  "\n"
                                  "  CUDA_VISIBLE_DEVICES     the one GPU of this worker (ROCR_VISIBLE_DEVICES and\n"
                                  "                           HIP_VISIBLE_DEVICES on AMD; ZE_AFFINITY_MASK, Intel)\n"
                                  "  GPU_DISPATCH_GPU_ID      its number, as {gpu}\n"
                                  "  GPU_DISPATCH_WORKER_ID   number of the worker, from 0\n"
                                  "  GPU_DISPATCH_SEED        a seed that differs from GPU to GPU\n"
                                  "  GPU_DISPATCH_TASK_ID     number of the task, from 0 (commands)\n"
                                  "  GPU_DISPATCH_ATTEMPT     1 for the first try (commands)\n"
                                  "\n"
                                  "Variables that gpu-dispatch reads:\n"
                                  "\n"
                                  "  CUDA_VISIBLE_DEVICES     only these GPUs are used, in this order\n"
                                  "  GPU_DISPATCH_SIM         simulated GPUs instead of real ones: \"4\", and more as\n"
                                  "                           in gpu-dispatch-gpus(1)\n"
                                  "  PARALLEL_SHELL, SHELL    the shell that runs commands\n"
                                  "  GPU_DISPATCH_TRANSCRIBER the transcription worker, if it lies elsewhere\n"
                                  "  GPU_DISPATCH_MODELS      a folder of speech models\n";

static const char exit_status[] = "Exit status of gpu-dispatch run:\n"
                                  "\n"
                                  "  0        every task went well\n"
                                  "  1-100    so many tasks failed\n"
                                  "  101      more than 100 failed\n"
                                  "  130      Ctrl-C: the first lets running tasks finish, the second does not\n"
                                  "  255      anything else: a wrong option, no such command, no GPU, a log that\n"
                                  "           could not be written\n"
                                  "\n"
                                  "Stopped by --halt it is that of GNU parallel: the exit status of the task that\n"
                                  "decided for fail=N and success=N, the percentage that failed for fail=N%;\n"
                                  "but 255 if a log could not be written.\n";

static const struct topic {
    const char *name;
    int (*command)(int argc, char **argv); /* whose --help it is, or */
    const char *text;
} topics[] = {
    { "run", cli_run_main, NULL },
    { "transcribe", cli_transcribe_main, NULL },
    { "gpus", cli_gpus_main, NULL },
    { "estimate", cli_estimate_main, NULL },
    { "top", cli_top_main, NULL },
    { "status", cli_exit_status_main, NULL },
    { "export", cli_export_main, NULL },
    { "report", cli_report_main, NULL },
    { "placeholders", NULL, placeholders },
    { "input", NULL, input },
    { "output", NULL, output },
    { "journal", NULL, journal },
    { "stream", NULL, stream },
    { "environment", NULL, environment },
    { "exit", NULL, exit_status },
};
enum { N_TOPICS = sizeof topics / sizeof topics[0] };

static int show(const struct topic *t)
{
    char option[] = "--help";
    char *argv[] = { option, NULL };
    if (t->command)
        return t->command(1, argv);
    fputs(t->text, stdout);
    return 0;
}

static int unknown(const char *name)
{
    const char *names[N_TOPICS];
    for (size_t i = 0; i < N_TOPICS; i++)
        names[i] = topics[i].name;
    const char *near = cli_nearest(name, names, N_TOPICS);
    if (near)
        cli_say("no help on \"%s\": did you mean %s?", name, near);
    else
        cli_say("no help on \"%s\": gpu-dispatch help lists the topics", name);
    return CLI_EXIT_ERROR;
}

int cli_help_main(int argc, char **argv)
{
    if (argc == 0) {
        fputs(general, stdout);
        return 0;
    }
    for (size_t i = 0; i < N_TOPICS; i++) {
        if (strcmp(argv[0], topics[i].name) == 0)
            return show(&topics[i]);
    }
    return unknown(argv[0]);
}
