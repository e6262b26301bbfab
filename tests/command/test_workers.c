/* SPDX-License-Identifier: MIT
 *
 * Workers through the command: their environment, what happens when they die, good and bad stream workers, plugins and
 * programs.
 */
#include "common.h"

/* --- the environment ---------------------------------------------------------------- */

TEST(variables_of_a_command)
{
    CHECK_PRINTS(sh("gpu-dispatch run --gpus sim:1 --quiet --seed 7 'echo $GPU_DISPATCH_TASK_ID $GPU_DISPATCH_ATTEMPT "
                    "$GPU_DISPATCH_WORKER_ID "
                    "$GPU_DISPATCH_GPU_ID $GPU_DISPATCH_SEED #' ::: a b"),
                 "0 1 0 0 7\n1 1 0 0 7\n");
}

TEST(a_command_sees_one_device)
{
    struct ran r = sh(RUN "'echo $CUDA_VISIBLE_DEVICES; test $CUDA_DEVICE_ORDER = PCI_BUS_ID #' ::: 1 2 3 4 5 6");
    CHECK_EQ(r.status, 0);
    CHECK_EQ(count_lines(r.out), 6);
    CHECK_CONTAINS(r.out, "GPU-");
    CHECK(!strchr(r.out, ','));
}

TEST(seeds_differ_from_gpu_to_gpu)
{
    CHECK_PRINTS(sh("mkfifo f; " RUN "--seed 100 'if [ {} = 1 ]; then cat f; else echo > f; fi > /dev/null;"
                    "echo $((GPU_DISPATCH_SEED - GPU_DISPATCH_GPU_ID))' ::: 1 2"),
                 "100\n100\n");
}

TEST(workers_without_a_device)
{
    CHECK_PRINTS(sh("gpu-dispatch run --gpus cpu:2 --quiet -k echo ::: a b"), "a\nb\n");
}

TEST(several_workers_per_gpu)
{
    /* Three tasks wait for the fourth: all of them run at once. */
    CHECK_PRINTS(sh("mkfifo f.1 f.2 f.3; " RUN
                    "-j2 'if [ {} = 4 ]; then for i in 1 2 3; do echo go > f.$i; done; else cat f.{}; fi' ::: 1 2 3 4"),
                 "go\ngo\ngo\n");
}

/* --- workers that die ----------------------------------------------------------------------- */

TEST(a_worker_killed_inside_a_task)
{
    struct ran r =
        sh(RUNK
           "'if [ $GPU_DISPATCH_ATTEMPT = 1 ] && [ {} = 3 ]; then kill -9 $PPID; sleep 50; fi; echo {}' ::: 1 2 3 4 5");
    CHECK_STR(r.out, "1\n2\n3\n4\n5\n");
    CHECK_EQ(r.status, 0);
}

TEST(a_task_that_always_kills_its_worker)
{
    struct ran r = sh(RUNK "--crash-limit 2 'if [ {} = 2 ]; then echo x >> log; kill -9 $PPID; sleep 50; fi; echo {}' "
                           "::: 1 2 3; wc -l < log");
    CHECK_STR(r.out, "1\n3\n2\n");
    CHECK_CONTAINS(r.err, "gpu-dispatch: task \"2\": ");
}

TEST(a_replaced_worker_is_in_the_summary)
{
    struct ran r =
        sh("gpu-dispatch run --gpus sim:1 '[ $GPU_DISPATCH_ATTEMPT = 2 ] || { kill -9 $PPID; sleep 50; } #' ::: 1");
    CHECK_EQ(r.status, 0);
    CHECK_EQ(sh("echo '%s' | awk '$1 == \"all\" && $5 == 1' | wc -l", r.err).out[0], '1');
}

TEST(a_replaced_worker_is_reported_on_request)
{
    CHECK_CONTAINS(sh(RUN "-v '[ $GPU_DISPATCH_ATTEMPT = 2 ] || { kill -9 $PPID; sleep 50; } #' ::: 1").err,
                   "is replaced: ");
}

TEST(processes_left_by_a_command_end_with_it)
{
    /* A killed process may take a moment to end. Only the case's time limit limits the wait. */
    CHECK_PRINTS(sh("p=$(" RUN "'sleep 300 & echo $! #' ::: 1);"
                    "while grep -q '^State:.[RSD]' /proc/$p/status 2> /dev/null; do :; done; echo gone"),
                 "gone\n");
}

/* --- stream workers -------------------------------------------------------------------------- */

/* A program in shell: `sh w.sh good` answers with the number of the task, `sh w.sh bad` with an error. */
#define STREAM                                                              \
    "cat > w.sh <<'end'\n"                                                  \
    "echo '{\"ready\":true}'\n"                                             \
    "while read -r line; do\n"                                              \
    "    i=${line#*\\\"id\\\":}; i=${i%%%%,*}\n"                            \
    "    case $1 in\n"                                                      \
    "    good) echo \"{\\\"id\\\":$i,\\\"output\\\":$i}\" ;;\n"             \
    "    bad) echo \"{\\\"id\\\":$i,\\\"error\\\":\\\"bad file\\\"}\" ;;\n" \
    "    esac\n"                                                            \
    "done\n"                                                                \
    "end\n"

TEST(a_stream_worker)
{
    CHECK_PRINTS(sh(STREAM RUNK "--stream sh w.sh good ::: a b c"), "0\n1\n2\n");
}

/* gpu-dispatch has options -u and --timeout too, but here they belong to the program. */
TEST(text_after_a_program_is_its_arguments)
{
    CHECK_PRINTS(sh(STREAM RUNK "--stream sh -u w.sh good ::: a b"), "0\n1\n");
    CHECK_PRINTS(
        sh("cat > w.sh <<'end'\n"
           "echo '{\"ready\":true}'\n"
           "while read -r line; do i=${line#*:}; echo \"{\\\"id\\\":${i%%%%,*},\\\"output\\\":\\\"$*\\\"}\"; done\n"
           "end\n" RUNK "--stream sh w.sh --timeout 3 -k --nosuch ::: a"),
        "--timeout 3 -k --nosuch\n");
}

TEST(options_may_follow_a_plugin)
{
    CHECK_REFUSED(sh(RUN "--worker nosuch.so --nosuch ::: a"),
                  "gpu-dispatch: unknown option --nosuch: see gpu-dispatch run --help");
}

TEST(a_stream_worker_in_one_string)
{
    CHECK_PRINTS(sh(STREAM RUNK "--stream 'sh w.sh good' --tag ::: a b"), "a\t0\nb\t1\n");
}

TEST(a_stream_worker_after_two_dashes)
{
    CHECK_PRINTS(sh(STREAM RUNK "--stream -- sh w.sh good ::: a b"), "0\n1\n");
}

TEST(stream_workers_get_inputs_as_strings)
{
    need("python3");
    CHECK_PRINTS(sh("cat > w.py <<'end'\n"
                    "import json, os, sys\n"
                    "print('{\"ready\":true}', flush=True)\n"
                    "for line in sys.stdin:\n"
                    "    t = json.loads(line)\n"
                    "    print(json.dumps({'id': t['id'], 'output': os.fsencode(t['input']).hex()}), flush=True)\n"
                    "end\n"
                    "printf 'a\"b\\0\\xff\\n\\0' | " RUNK "-0 --stream python3 w.py"),
                 "612262\nff0a\n");
}

TEST(stream_workers_get_json_as_it_is)
{
    need("python3");
    CHECK_PRINTS(sh("cat > w.py <<'end'\n"
                    "import json, sys\n"
                    "print('{\"ready\":true}', flush=True)\n"
                    "for line in sys.stdin:\n"
                    "    t = json.loads(line)\n"
                    "    print(json.dumps({'id': t['id'], 'output': t['input']['n'] * 2}), flush=True)\n"
                    "end\n"
                    "printf '{\"n\":1}\\n{\"n\":21}\\n' | " RUNK "--jsonl --stream python3 w.py"),
                 "2\n42\n");
}

TEST(a_stream_worker_that_is_not_ready)
{
    struct ran r = sh("echo 'echo \"{\\\"ready\\\":false,\\\"error\\\":\\\"no model\\\"}\"' > w.sh; gpu-dispatch run "
                      "--gpus sim:1 --quiet --stream sh w.sh ::: a");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "gpu-dispatch: worker 0 on GPU 0 failed to set up: no model\n");
}

TEST(errors_of_a_stream_worker)
{
    struct ran r = sh(STREAM RUNK "--stream sh w.sh bad ::: a b");
    CHECK_EQ(r.status, 2);
    CHECK_STR(r.err, "gpu-dispatch: task \"a\": bad file\ngpu-dispatch: task \"b\": bad file\n");
}

/* Runs a program that executes `deed` at its second task. Only its first process does so, and the run succeeds. */
static void bad_once(const char *deed)
{
    struct ran r = sh("cat > w.sh <<'end'\n"
                      "echo '{\"ready\":true}'\n"
                      "while read -r line; do\n"
                      "    i=${line#*\\\"id\\\":}; i=${i%%%%,*}\n"
                      "    if [ $i = 1 ] && mkdir once 2> /dev/null; then %s; fi\n"
                      "    echo \"{\\\"id\\\":$i,\\\"output\\\":$i}\"\n"
                      "done\n"
                      "end\n" RUNK "--stream sh w.sh ::: a b c d",
                      deed);
    CHECK_STR(r.out, "0\n1\n2\n3\n");
    CHECK_EQ(r.status, 0);
    CHECK_EQ(sh("test -d once").status, 0);
}

TEST(a_stream_worker_that_prints_garbage)
{
    bad_once("echo rubbish");
}

TEST(a_stream_worker_that_answers_twice)
{
    bad_once("echo \"{\\\"id\\\":$i,\\\"output\\\":$i}\"");
}

TEST(a_stream_worker_that_answers_for_another)
{
    bad_once("echo '{\"id\":77,\"output\":0}'");
}

TEST(a_stream_worker_that_dies)
{
    bad_once("kill -9 $$");
}

TEST(a_stream_worker_that_exits)
{
    bad_once("exit 0");
}

/* --- plugins and programs ----------------------------------------------------------------------- */

TEST(a_plugin)
{
    struct ran r = sh(RUNK "--worker $GD_TEST_PLUGINS/plugin_echo.so ::: a bc");
    CHECK_STR(r.out, "a\nbc\n");
    CHECK_STR(r.err, "");
    CHECK_EQ(r.status, 0);
}

TEST(the_setup_of_a_plugin_gets_text)
{
    CHECK_PRINTS(sh(RUNK "--worker $GD_TEST_PLUGINS/plugin_args.so --setup-args 'large one' ::: a b"),
                 "large one a\nlarge one b\n");
}

TEST(a_plugin_in_a_directory_named_like_one)
{
    struct ran r = sh("mkdir v.soft; cp $GD_TEST_PLUGINS/plugin_args.so v.soft/; " RUN
                      "--worker v.soft/plugin_args.so --setup-args x ::: a");
    CHECK_STR(r.err, "");
    CHECK_EQ(r.status, 0);
}

TEST(a_plugin_in_batches)
{
    CHECK_PRINTS(
        sh("seq 100 | " RUNK
           "--worker $GD_TEST_PLUGINS/plugin_args.so --setup-args x --batch-size 8 --io-threads 2 | tail -n 1"),
        "x 100\n");
}

TEST(a_program_that_is_a_worker)
{
    CHECK_PRINTS(sh(RUNK "--worker $GD_TEST_PLUGINS/command_program word ::: a b"), "word a\nword b\n");
}

TEST(a_library_that_is_not_a_plugin)
{
    struct ran r = sh("gpu-dispatch run --gpus sim:1 --quiet --worker $GD_TEST_PLUGINS/plugin_nothing.so ::: a");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "failed to set up: ");
}

TEST(the_command_needs_no_libgpu_dispatch)
{
    CHECK_EQ(sh("ldd $(command -v gpu-dispatch) | grep -c libgpu_dispatch").out[0], '0');
}

TEST_MAIN()
