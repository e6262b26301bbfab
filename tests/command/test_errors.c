/* SPDX-License-Identifier: MIT
 *
 * Errors are reported before anything is run, in one line that says what to do. */
#include "common.h"

TEST(no_command_at_all)
{
    struct ran r = sh("gpu-dispatch");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "usage: gpu-dispatch run ");
}

TEST(unknown_command)
{
    CHECK_REFUSED(sh("gpu-dispatch rnu"), "gpu-dispatch: unknown command rnu: did you mean run?");
}

TEST(a_command_in_place_of_run)
{
    CHECK_REFUSED(sh("gpu-dispatch python3"),
                  "gpu-dispatch: unknown command python3: to run a program, write gpu-dispatch run python3");
}

TEST(an_option_before_the_command)
{
    CHECK_REFUSED(
        sh("gpu-dispatch --gpus run"),
        "gpu-dispatch: unknown option --gpus: options come after the command name, as in gpu-dispatch run --gpus");
}

TEST(unknown_option)
{
    CHECK_REFUSED(sh(RUN "--tiemout 3 true"), "gpu-dispatch: unknown option --tiemout: did you mean --timeout?");
}

TEST(an_abbreviated_option)
{
    CHECK_REFUSED(sh(RUN "--retr 3 true"), "gpu-dispatch: unknown option --retr: did you mean --retries?");
}

TEST(an_option_without_a_similar_one)
{
    CHECK_REFUSED(sh(RUN "--zzzzzzzz true"), "gpu-dispatch: unknown option --zzzzzzzz: see gpu-dispatch run --help");
}

TEST(unknown_letter)
{
    CHECK_REFUSED(sh(RUN "-kZ true"), "gpu-dispatch: unknown option -Z: see gpu-dispatch run --help");
}

TEST(missing_value)
{
    CHECK_REFUSED(sh(RUN "--timeout"), "gpu-dispatch: option --timeout needs a value: --timeout TIME");
}

TEST(a_value_for_an_option_without_one)
{
    CHECK_REFUSED(sh(RUN "--tag=x true"), "gpu-dispatch: option --tag takes no value");
}

TEST(bad_duration)
{
    CHECK_REFUSED(
        sh(RUN "--timeout 5x true"),
        "gpu-dispatch: --timeout: \"5x\" is not a duration: write seconds, or 500ms, 30s, 5m, 1.5h, 2d, 1m30s");
}

TEST(a_timeout_in_percent)
{
    CHECK_REFUSED(sh(RUN "--timeout 200%% true"),
                  "gpu-dispatch: --timeout 200%: a percentage is not supported; write a duration, as in 30s or 5m");
}

TEST(bad_number)
{
    CHECK_REFUSED(sh(RUN "--retries x true"),
                  "gpu-dispatch: --retries takes a whole number from 0 to 1000000, not \"x\"");
}

TEST(bad_number_of_workers)
{
    CHECK_REFUSED(sh(RUN "-j 0 true"), "gpu-dispatch: -j takes a whole number from 1 to 1024, not \"0\"");
}

TEST(automatic_workers_need_a_size)
{
    CHECK_REFUSED(sh(RUN "-j auto true"),
                  "gpu-dispatch: -j auto needs the device memory of one worker, as in -j auto:6G");
    CHECK_REFUSED(sh(RUN "-j auto:x true"),
                  "gpu-dispatch: -j auto:x: after \"auto:\" give the device memory of one worker, as in auto:6G");
}

TEST(bad_halt)
{
    CHECK_REFUSED(sh(RUN "--halt later true"),
                  "gpu-dispatch: --halt later: must start with never, soon or now, as in soon,fail=1");
}

TEST(bad_order)
{
    CHECK_REFUSED(sh(RUN "--order up true"), "gpu-dispatch: --order takes size, name or none, not \"up\"");
}

TEST(missing_input_dir)
{
    CHECK_REFUSED(sh(RUN "--input-dir nowhere true"),
                  "gpu-dispatch: the directory nowhere does not exist: check its name, or create it");
}

TEST(no_file_matched)
{
    CHECK_REFUSED(sh("mkdir d; touch d/a.txt; " RUN "--input-dir d --pattern '*.wav' true"),
                  "gpu-dispatch: no file in d matches *.wav (subdirectories are searched only with --recursive)");
}

TEST(a_directory_without_files)
{
    struct ran r = sh("mkdir d; " RUN "--input-dir d true");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "gpu-dispatch: no files in d");
}

TEST(command_not_found)
{
    CHECK_REFUSED(
        sh(RUN "nosuchcommand {} ::: 1"),
        "gpu-dispatch: command not found: nosuchcommand (it is not in PATH): check its name, or give its path");
}

TEST(command_not_found_before_the_input_is_read)
{
    /* The input never ends. */
    CHECK_EQ(sh("yes | (" RUN "nosuchcommand)").status, 255);
}

TEST(program_not_found)
{
    CHECK_REFUSED(
        sh(RUN "--stream nosuchprogram ::: 1"),
        "gpu-dispatch: command not found: nosuchprogram (it is not in PATH): check its name, or give its path");
    CHECK_REFUSED(
        sh(RUN "--worker nosuchprogram ::: 1"),
        "gpu-dispatch: command not found: nosuchprogram (it is not in PATH): check its name, or give its path");
}

TEST(plugin_not_found)
{
    CHECK_REFUSED(sh(RUN "--worker ./no.so ::: 1"),
                  "gpu-dispatch: cannot read worker plugin ./no.so: No such file or directory");
}

/* The command prints one line for the error, one for the number of workers that had it, and one for the run. It does
 * not print a line for each worker, GPU and task. */
TEST(a_program_that_is_not_a_worker)
{
    struct ran r = sh("gpu-dispatch run --gpus sim:3 --worker /bin/true ::: 1 2");
    CHECK_EQ(r.status, 255);
    CHECK_EQ(count_lines(r.err), 3);
    CHECK_CONTAINS(r.err, " failed to set up: exited with code 0 without calling gd_worker_main(): a worker program "
                          "must call it at the start of main()\n");
    CHECK_CONTAINS(r.err, "gpu-dispatch: 2 more workers failed to set up: the same error as worker ");
    CHECK_CONTAINS(r.err, "gpu-dispatch: All workers failed during setup: no task was run\n");
}

TEST(a_plugin_with_arguments)
{
    CHECK_REFUSED(sh(RUN "--worker ./no.so large ::: 1"),
                  "gpu-dispatch: a plugin takes no arguments (\"large\"): use --setup-args TEXT");
}

TEST(a_gpu_that_does_not_exist)
{
    CHECK_REFUSED(sh("GPU_DISPATCH_SIM=2 gpu-dispatch run --gpus 5 true ::: 1"),
                  "gpu-dispatch: --gpus 5: no GPU 5: the GPUs are 0-1");
}

TEST(invalid_lists_of_gpus)
{
    CHECK_REFUSED(sh("gpu-dispatch run --gpus foo true ::: 1"),
                  "gpu-dispatch: --gpus foo: \"foo\" is not a GPU number (0), range (0-3), group (0+1), UUID "
                  "(GPU-..., MIG-...), MIG instance (0:1), auto, free:N, sim:N or cpu:N");
}

TEST(no_gpu)
{
    struct ran r = sh("CUDA_VISIBLE_DEVICES= ROCR_VISIBLE_DEVICES= HIP_VISIBLE_DEVICES= ZE_AFFINITY_MASK= "
                      "GPU_DISPATCH_SIM=1 gpu-dispatch run true ::: 1");
    CHECK_EQ(r.status, 255);
    CHECK_EQ(count_lines(r.err), 1);
    CHECK_CONTAINS(r.err, "sim:");
}

TEST(no_simulated_gpu_that_may_be_used)
{
    struct ran r = sh("gpu-dispatch run --gpus all echo ::: 1");
    CHECK_EQ(r.status, 255);
    CHECK_EQ(count_lines(r.err), 1);
    CHECK_CONTAINS(r.err, "gpu-dispatch: --gpus all: no GPU found (");
    CHECK_REFUSED(sh("GPU_DISPATCH_SIM=2,mode=prohibited gpu-dispatch run --gpus sim:2 echo ::: 1"),
                  "gpu-dispatch: --gpus sim:2: no usable device: each one is in a compute mode that prohibits "
                  "programs, or has MIG on but no MIG instance");
}

TEST(unreadable_arg_file)
{
    CHECK_REFUSED(sh(RUN "-a nothere true"), "gpu-dispatch: cannot open input file nothere: No such file or directory");
}

TEST(a_directory_as_an_arg_file)
{
    CHECK_REFUSED(sh(RUN "-a . true"), "gpu-dispatch: . is a directory: use --input-dir for the files in it");
}

TEST(files_that_cannot_be_written)
{
    static const char *const options[] = { "--output", "--joblog", "--results" };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        struct ran r = sh("touch f; " RUN "%s f/x 'echo ran >> ran #' ::: 1", options[i]);
        CHECK_EQ(r.status, 255);
        CHECK_EQ(count_lines(r.err), 1);
        CHECK_CONTAINS(r.err, "f/x");
        CHECK_CONTAINS(r.err, "Not a directory");
        CHECK_EQ(sh("test -e ran").status, 1);
    }
}

TEST(an_error_leaves_an_old_log_alone)
{
    CHECK_STR(sh("echo old > log; " RUN "--joblog log nosuchcommand ::: 1 2> err; cat log").out, "old\n");
    CHECK_STR(sh("echo old > log; " RUN "--joblog log --input-dir nowhere true 2> err; cat log").out, "old\n");
}

TEST(options_that_exclude_each_other)
{
    static const struct {
        const char *options, *words;
    } rows[] = {
        { "--stream=a --worker b", "--stream and --worker cannot be combined: give one of them" },
        { "--pattern x true", "--pattern selects files of a directory: give --input-dir DIR or --watch DIR too" },
        { "--recursive true", "--recursive is for the files of a directory: give --input-dir DIR or --watch DIR too" },
        { "--order name true", "--order is for the files of a directory: give --input-dir DIR or --watch DIR too" },
        { "-0 --jsonl true", "-0 and --jsonl are two input formats: give one of them" },
        { "-0 --input-dir . true", "-0 is for inputs read from files: it cannot be combined with --input-dir" },
        { "--jsonl --input-dir . true",
          "--jsonl is for inputs read from files: it cannot be combined with --input-dir" },
        { "--tag -u true", "--tag needs the output of each task separately: it cannot be combined with -u" },
        { "-k -u true", "-k needs the output of each task separately: it cannot be combined with -u" },
        { "--results x -u true", "--results needs the output of each task separately: it cannot be combined with -u" },
        { "--output x -u true", "--output needs the output of each task separately: it cannot be combined with -u" },
        { "--bar --eta true", "--bar and --eta cannot be combined: give one of them" },
        { "-u --stream cat", "-u is for commands: it cannot be combined with --stream or --worker" },
        { "-q --stream cat", "-q is for commands: it cannot be combined with --stream or --worker" },
        { "--dry-run --worker cat", "--dry-run is for commands: it cannot be combined with --stream or --worker" },
        { "--setup-args x true", "--setup-args is for workers: give --worker FILE too" },
        { "--batch-size 2 true", "--batch-size is for workers: give --worker FILE too" },
        { "--io-threads 2 true", "--io-threads is for workers: give --worker FILE too" },
        { "--input-dir . true ::: a", "--input-dir cannot be combined with -a, ::: or ::::" },
        { "true :::+ a", ":::+ pairs its inputs with those of the source before it: give another source first" },
        { "true ::::", ":::: must be followed by the name of a file" },
        { "--stream --", "--stream needs a program: --stream PROGRAM" },
        { "--stream ::: x", "--stream needs a program: --stream PROGRAM" },
        { "--stream=:::: x", "--stream needs a program: --stream PROGRAM" },
        { "--worker :::+ x", "--worker needs a program: --worker PROGRAM" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char words[256];
        snprintf(words, sizeof words, "gpu-dispatch: %s\n", rows[i].words);
        struct ran r = sh(RUN "%s", rows[i].options);
        CHECK_STR(r.err, words);
        CHECK_EQ(r.status, 255);
    }
}

TEST(arguments_after_gpus_and_estimate)
{
    CHECK_REFUSED(sh("gpu-dispatch gpus x"), "gpu-dispatch: gpus takes only options, not \"x\"");
    CHECK_REFUSED(sh("gpu-dispatch estimate x"), "gpu-dispatch: estimate takes only options, not \"x\"");
}

TEST(standard_output_that_is_full)
{
    struct ran r = sh("gpu-dispatch --version > /dev/full");
    CHECK_EQ(r.status, 255);
    CHECK_STR(r.err, "gpu-dispatch: cannot write to standard output: No space left on device\n");
}

/* The first file that is opened must not get the number of a closed standard stream. */
TEST(standard_streams_that_are_closed)
{
    struct ran r = sh(RUN "--joblog log --output records echo ::: 1 2 <&- >&-");
    CHECK_STR(r.err, "gpu-dispatch: cannot write standard output: Bad file descriptor\n");
    CHECK_EQ(r.status, 255);
    CHECK_STR(sh("grep -v '\t' log; grep -v '^{.*}$' records").out, "");

    CHECK_EQ(sh("gpu-dispatch run --gpus sim:2 --joblog log false ::: 1 2 <&- >&- 2>&-").status, 2);
    CHECK_STR(sh("wc -l < log").out, "3\n");
    CHECK_REFUSED(sh(RUN "echo <&-"), "gpu-dispatch: standard input is closed: give tasks after ::: or with -a FILE");
}

TEST(a_file_larger_than_the_limit)
{
    struct ran r = sh("ulimit -f 32768; " RUN "head -c 40000000 /dev/zero ';: ' ::: 1 2 > out");
    CHECK_EQ(r.status, 2); /* the output of a task is in memory that counts as a file */
    r = sh("ulimit -f 32768; " RUN "head -c 10000000 /dev/zero ';: ' ::: 1 2 3 4 > out");
    CHECK_STR(r.err, "gpu-dispatch: cannot write standard output: File too large\n");
    CHECK_EQ(r.status, 255);
}

TEST_MAIN()
