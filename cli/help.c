/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch help [TOPIC]`: the help of each subcommand, and a page on each topic that concerns several options.
 */
#include <stdio.h>
#include <string.h>

#include "base/text/parse.h"
#include "cli/commands.h"
#include "cli/run/stop/exit_status.h"
#include "cli/say.h"

const char cli_usage[] =
    "usage: gpu-dispatch run [OPTIONS] [--] COMMAND [WORD...] [::: INPUT...]\n"
    "       gpu-dispatch transcribe [OPTIONS] --input-dir DIR\n"
    "       gpu-dispatch models | gpus | estimate | top | status | export | report | merge | push\n"
    "       gpu-dispatch help [TOPIC] | --version | --help\n";

static const char general[] = "usage: gpu-dispatch COMMAND [OPTIONS] [ARGUMENTS]\n"
                              "Keeps every GPU of this machine busy with a stream of tasks. No task is lost.\n"
                              "\n"
                              "Examples:\n"
                              "  gpu-dispatch run python3 infer.py {} ::: *.jpg         run a command per file\n"
                              "  gpu-dispatch run --gpus sim:2 echo {gpu} {} ::: a b    try it without a GPU\n"
                              "  gpu-dispatch run --stream python3 worker.py ::: *.jpg  load a model only once\n"
                              "\n"
                              "Commands:\n"
                              "  run         run a command, a plugin or a program on every input\n"
                              "  transcribe  turn a directory of audio files into text\n"
                              "  models      list, download and convert speech models\n"
                              "  gpus        show the GPUs of this machine\n"
                              "  estimate    show how much work is in a directory\n"
                              "  top         watch running jobs or a queue, live\n"
                              "  status      show the state of a run from its journal, or of a queue\n"
                              "  export      write the records of a journal or queue as CSV or JSON lines\n"
                              "  report      make a web page from a journal or queue\n"
                              "  merge       make one journal from several\n"
                              "  push        add tasks to a queue that many machines share\n"
                              "  help        show this text, or help on a command or a topic\n"
                              "Topics: placeholders, input, output, journal, shards, stream, environment, exit\n"
                              "Each command has --help and a man page, such as gpu-dispatch-run(1).\n";

static const char placeholders[] = "Placeholders in the words of a command, as in GNU parallel:\n"
                                   "\n"
                                   "             for the input dir/song.wav, the third task\n"
                                   "  {}         dir/song.wav   the input\n"
                                   "  {.}        dir/song       without its extension\n"
                                   "  {/}        song.wav       its base name\n"
                                   "  {//}       dir            its directory\n"
                                   "  {/.}       song           base name without extension\n"
                                   "  {#}        3              number of the task, from 1\n"
                                   "  {%}        1              number of the worker, from 1\n"
                                   "  {gpu}      0              number of the GPU (for a group: 0,1)\n"
                                   "  {2} {2.} {2/} {2//} {2/.}   the same for the second argument of a task\n"
                                   "\n"
                                   "If the command has no placeholder except {gpu}, the input is added as its last\n"
                                   "word. The words are joined with spaces and given to a shell. Pipes and\n"
                                   "redirections work if you quote them: 'grep x {} > {.}.out'. The inputs are\n"
                                   "quoted for you, so spaces and quotes in them are safe. With -q the words of the\n"
                                   "command are quoted too.\n";

static const char input[] = "Where tasks come from:\n"
                            "\n"
                            "  ::: a b c               a task for each word\n"
                            "  :::: FILE, -a FILE      a task for each line of FILE (- is standard input)\n"
                            "  --input-dir DIR         a task for each file; see --pattern, --recursive\n"
                            "  (none of these)         a task for each line of standard input\n"
                            "\n"
                            "-0 reads inputs that end with a NUL: find . -print0 | gpu-dispatch run -0 ...\n"
                            "--jsonl reads each line as a JSON value. A line may set how its task is run:\n"
                            "  {\"file\":\"a.wav\",\"gpu_dispatch\":{\"priority\":2,\"timeout\":\"90s\"}}\n"
                            "Among waiting tasks, those of a higher priority (-4 to 3) start first.\n"
                            "\n"
                            "Several sources give all combinations: {1} is the part from the first source,\n"
                            "and {2} the part from the second. :::+ and ::::+ instead pair their inputs with\n"
                            "those of the previous source: first with first, second with second.\n"
                            "\n"
                            "Input is not read before it is needed, so an endless stream uses little memory.\n";

static const char output[] = "What gpu-dispatch run writes:\n"
                             "\n"
                             "The output of a task is printed when the task ends, all at once, so the output\n"
                             "of two tasks never mixes. -k prints it in the order of the input, --tag starts\n"
                             "each line with the input, and -u prints everything immediately. A summary is\n"
                             "printed on standard error at the end, unless you use --quiet.\n"
                             "\n"
                             "  --output FILE     a JSON line for each task\n"
                             "  --joblog FILE     a line for each task, in the columns of GNU parallel\n"
                             "  --results DIR     files stdout, stderr and seq for each task\n"
                             "  --bar, --eta      show the progress on standard error\n"
                             "  --http PORT       show the progress and more on a web page, during the run\n";

static const char journal[] = "A run with a journal can be resumed, whatever ended it:\n"
                              "\n"
                              "  gpu-dispatch run --journal run.db --resume --output out.jsonl CMD {} :::: list\n"
                              "  gpu-dispatch status run.db             show its state, also while it runs\n"
                              "  gpu-dispatch export run.db --csv       write every finished task\n"
                              "\n"
                              "After Ctrl-C, a full disk or kill -9, type the same command again. Tasks that\n"
                              "are in the journal are skipped, even if the list was reordered or has grown. The\n"
                              "files of --output, --joblog and --results agree with the journal and never end\n"
                              "in the middle of a record. Resuming with another command is refused, unless you\n"
                              "add --force-resume.\n"
                              "\n"
                              "  --retry-failed    run only the failed tasks; with --resume, the remaining too\n"
                              "  --key file        run a file again if it has changed (default of --input-dir)\n"
                              "  --key .id         identify JSON inputs by their member \"id\"\n"
                              "  --sync full       survive power loss too\n"
                              "\n"
                              "Failed tasks are listed in run.failed.jsonl, which can be used as input:\n"
                              "\n"
                              "  gpu-dispatch run --jsonl -a run.failed.jsonl CMD {}\n";

static const char shards[] = "Several machines can divide one list of inputs. Each runs the same command with\n"
                             "its own shard. No server is needed, only a directory that all of them see.\n"
                             "\n"
                             "  gpu-dispatch run --shard 3/16 --journal run.db --resume CMD {} :::: list\n"
                             "\n"
                             "  --shard 3/16      the third of 16 shards\n"
                             "  --shard auto      found in the environment: Slurm (srun, sbatch --array), PMI,\n"
                             "                    Open MPI, torchrun\n"
                             "  --shard auto/16   for Kubernetes, which does not tell the number of shards\n"
                             "\n"
                             "Each input belongs to exactly one shard, whatever the order of the list. The\n"
                             "files of --input-dir are divided by size if there is a journal: the first shard\n"
                             "to start writes run.of-16.deal beside it, and all shards read that file.\n"
                             "\n"
                             "Each shard has its own --journal (run.3-of-16.db), --output, --joblog, --failed.\n"
                             "All shards share --results and --output-dir.\n"
                             "\n"
                             "To go on with another number of shards, name all journals of the former shards\n"
                             "at each start. What succeeded there is skipped:\n"
                             "\n"
                             "  gpu-dispatch run --shard 1/5 --journal run.db --resume \\\n"
                             "      --skip-done run.1-of-2.db --skip-done run.2-of-2.db CMD {} :::: list\n"
                             "\n"
                             "If the same shard still runs elsewhere, the command waits for up to --lock-wait.\n";

static const char stream[] = "A stream worker is a program that loads its model once, then runs many tasks.\n"
                             "\n"
                             "  gpu-dispatch run --stream python3 worker.py --size large ::: *.wav\n"
                             "  gpu-dispatch run --stream 'python3 worker.py' --timeout 1m ::: *.wav\n"
                             "  gpu-dispatch run --stream=./worker --timeout 1m ::: *.wav\n"
                             "\n"
                             "All words after --stream PROGRAM, up to :::, are arguments of the program, even\n"
                             "if they look like options. So write the options of gpu-dispatch before --stream.\n"
                             "To write them after it, quote the program and its arguments as one word, or use\n"
                             "--stream=PROGRAM.\n"
                             "\n"
                             "The program writes one line when it is ready. Then it reads a line for each task\n"
                             "and answers it with a line:\n"
                             "\n"
                             "  it writes  {\"ready\":true}\n"
                             "  it reads   {\"id\":0,\"attempt\":1,\"input\":\"a.wav\"}\n"
                             "  it writes  {\"id\":0,\"output\":\"any JSON\"}   or   {\"id\":0,\"error\":\"message\"}\n"
                             "\n"
                             "It must flush every line, and exit at the end of its input. Use standard error\n"
                             "for messages. If it writes any other line, it is killed and replaced, and its\n"
                             "task is run again. A failed task is tried again as set by --retries, unless the\n"
                             "answer also has \"final\":true. To report that the setup has failed, it writes\n"
                             "{\"ready\":false,\"error\":\"message\"}.\n";

static const char environment[] = "Variables set for commands and workers:\n"
                                  "\n"
                                  "  CUDA_VISIBLE_DEVICES     the GPUs of this worker (ROCR_VISIBLE_DEVICES and\n"
                                  "                           HIP_VISIBLE_DEVICES on AMD; ZE_AFFINITY_MASK, Intel)\n"
                                  "  GPU_DISPATCH_GPU_ID      number of its (first) GPU\n"
                                  "  GPU_DISPATCH_GPU_IDS     numbers of all its GPUs, as in {gpu}: 0,1\n"
                                  "  GPU_DISPATCH_WORKER_ID   number of the worker, from 0\n"
                                  "  GPU_DISPATCH_SEED        a seed, different for each GPU\n"
                                  "  GPU_DISPATCH_TASK_ID     number of the task, from 0 (commands only)\n"
                                  "  GPU_DISPATCH_ATTEMPT     number of the attempt, from 1 (commands only)\n"
                                  "\n"
                                  "Variables read by gpu-dispatch:\n"
                                  "\n"
                                  "  CUDA_VISIBLE_DEVICES     use only these GPUs, in this order\n"
                                  "  GPU_DISPATCH_SIM         use simulated GPUs instead of real ones: \"4\" means\n"
                                  "                           four; more in gpu-dispatch-gpus(1)\n"
                                  "  GPU_DISPATCH_LOCKS       directory of the locks on GPUs (default /run/lock,\n"
                                  "                           or /dev/shm or /tmp)\n"
                                  "  PARALLEL_SHELL, SHELL    the shell that runs commands\n"
                                  "  GPU_DISPATCH_TRANSCRIBER path of the transcription worker to use\n"
                                  "  GPU_DISPATCH_MODELS      a directory with speech models\n"
                                  "  GPU_DISPATCH_MODEL_URL   where models are downloaded from\n";

static const char exit_status[] = "Exit status of gpu-dispatch run:\n"
                                  "\n"
                                  "  0        every task succeeded\n"
                                  "  1-100    this many tasks failed\n"
                                  "  101      more than 100 tasks failed\n"
                                  "  130      Ctrl-C: the first lets running tasks finish, the second does not\n"
                                  "  143      SIGTERM: as Ctrl-C, but the run ends within --stop-grace\n"
                                  "  129      SIGHUP: running tasks may finish, as after Ctrl-C\n"
                                  "  255      any other error: a wrong option, no such command, no GPU, a log that\n"
                                  "           could not be written\n"
                                  "\n"
                                  "If --halt stopped the run, the exit status is that of GNU parallel:\n"
                                  "  success=...       0\n"
                                  "  fail=1, done=1    the exit status of the task that stopped the run\n"
                                  "  fail=N, done=N    how many tasks failed; 101: more than 100\n"
                                  "  fail=P%, done=P%  the percentage of tasks that failed, rounded up\n"
                                  "If P% of the tasks is exactly one task, fail=P% is the same as fail=1, and\n"
                                  "done=P% the same as done=1. The exit status is 255 if a log could not be\n"
                                  "written.\n";

static const struct topic {
    const char *name;
    int (*command)(int argc, char **argv); /* prints the topic when called with --help; NULL: text is the topic */
    const char *text;
} topics[] = {
    { "run", cli_run_main, NULL },
    { "transcribe", cli_transcribe_main, NULL },
    { "models", cli_models_main, NULL },
    { "gpus", cli_gpus_main, NULL },
    { "estimate", cli_estimate_main, NULL },
    { "top", cli_top_main, NULL },
    { "status", cli_status_main, NULL },
    { "export", cli_export_main, NULL },
    { "report", cli_report_main, NULL },
    { "merge", cli_merge_main, NULL },
    { "push", cli_push_main, NULL },
    { "placeholders", NULL, placeholders },
    { "input", NULL, input },
    { "output", NULL, output },
    { "journal", NULL, journal },
    { "shards", NULL, shards },
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
    const char *near = gd__nearest_word(name, names, N_TOPICS);
    if (near)
        cli_say("no help topic \"%s\": did you mean %s?", name, near);
    else
        cli_say("no help topic \"%s\": gpu-dispatch help lists the topics", name);
    return CLI_EXIT_ERROR;
}

int cli_help_main(int argc, char **argv)
{
    if (argc == 0 || strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0) {
        fputs(general, stdout);
        return 0;
    }
    for (size_t i = 0; i < N_TOPICS; i++) {
        if (strcmp(argv[0], topics[i].name) == 0)
            return show(&topics[i]);
    }
    return unknown(argv[0]);
}
