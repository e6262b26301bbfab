/* SPDX-License-Identifier: MIT
 *
 * Simulated devices through the command; `gpu-dispatch gpus` and `gpu-dispatch estimate`.
 */
#include "common.h"

/* --- running on them ------------------------------------------------------------------- */

TEST(devices_by_number)
{
    CHECK_PRINTS(sh("GPU_DISPATCH_SIM=4 gpu-dispatch run --gpus 2 --quiet echo {gpu} ::: a b"), "2 a\n2 b\n");
}

TEST(the_map_follows_cuda_visible_devices)
{
    struct ran r = sh("GPU_DISPATCH_SIM=4 CUDA_VISIBLE_DEVICES=2 gpu-dispatch run --quiet -v 'echo {gpu} "
                      "$CUDA_VISIBLE_DEVICES #' ::: a;"
                      "GPU_DISPATCH_SIM=4 gpu-dispatch gpus --gpus 2 --json | grep -o 'GPU-[^\"]*'");
    char *first = strchr(r.out, ' ');
    CHECK(first != NULL);
    char *second = strchr(first, '\n');
    CHECK(second != NULL);
    *second++ = '\0';
    CHECK_EQ(strncmp(first + 1, second, strlen(first + 1)), 0);
}

TEST(devices_by_the_list_of_a_scheduler)
{
    CHECK_PRINTS(sh("GPU_DISPATCH_SIM=4 CUDA_VISIBLE_DEVICES=3,1 gpu-dispatch gpus --json | grep -o '\"index\":[0-9]'"),
                 "\"index\":3\n\"index\":1\n");
}

TEST(workers_are_bound_to_near_cpus)
{
    CHECK_PRINTS(sh("cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//'); GPU_DISPATCH_SIM=1,cpus=$cpu gpu-dispatch run "
                    "--quiet 'taskset -cp $$ | sed s/.*:.// #' ::: a > out; echo $cpu | diff - out && echo same"),
                 "same\n");
}

TEST(workers_may_run_anywhere)
{
    CHECK_PRINTS(sh("cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//'); GPU_DISPATCH_SIM=1,cpus=$cpu gpu-dispatch run "
                    "--any-cpu --quiet 'taskset -cp $$ | sed s/.*:.// #' ::: a > out;"
                    "taskset -cp $$ | sed 's/.*: //' | diff - out && echo same"),
                 "same\n");
}

TEST(as_many_workers_as_have_room)
{
    /* A tenth of the free memory is not used. So 20 GiB have room for four workers of 4 GiB. */
    struct ran r = sh("GPU_DISPATCH_SIM=1,memory=24G,free=20G gpu-dispatch run --quiet -v -j auto:4G true ::: 1 2>&1 | "
                      "grep -c 'worker .: GPU 0'");
    CHECK_STR(r.out, "4\n");
}

TEST(not_even_one_has_room)
{
    struct ran r = sh("GPU_DISPATCH_SIM=1,memory=24G,free=2G gpu-dispatch run --quiet -j auto:4G true ::: 1");
    CHECK_EQ(r.status, 255);
    CHECK_EQ(count_lines(r.err), 1);
    CHECK_CONTAINS(r.err, "GPU 0");
}

TEST(a_device_whose_workers_fail_is_taken_out)
{
    /* On GPU 0 the program is never ready. After that worker is gone, GPU 1 does all of the work. */
    struct ran r = sh("cat > w.sh <<'end'\n"
                      "if [ $GPU_DISPATCH_GPU_ID = 0 ]; then\n"
                      "    echo $PPID > name; mv name gone\n"
                      "    echo '{\"ready\":false,\"error\":\"no memory\"}'; exit\n"
                      "fi\n"
                      "echo '{\"ready\":true}'\n"
                      "while read -r line; do\n"
                      "    until [ -s gone ]; do sleep 0.02; done\n"
                      "    while [ -d /proc/$(cat gone) ]; do sleep 0.02; done\n"
                      "    i=${line#*:}; echo \"{\\\"id\\\":${i%%%%,*},\\\"output\\\":1}\"\n"
                      "done\n"
                      "end\n" RUN "--stream sh w.sh ::: a b c");
    CHECK_EQ(r.status, 0);
    CHECK_STR(r.out, "1\n1\n1\n");
    CHECK_CONTAINS(r.err, "gpu-dispatch: worker 0 on GPU 0 failed to set up: no memory\n");
    CHECK(!strstr(r.err, "is taken out of use"));
}

TEST(a_device_that_its_driver_reports_as_lost)
{
    /* The tasks on GPU 0 wait for the lock until GPU 1 has begun a task and failed in the middle of it. */
    struct ran r = sh("mkfifo x f; exec 9> lock; flock 9\n"
                      "GPU_DISPATCH_SIM=2 GPU_DISPATCH_SIM_XID=x gpu-dispatch run --quiet "
                      "'if [ {gpu} = 1 ]; then echo > f; sleep 300; else flock lock true; fi; echo {} {gpu}' "
                      "::: 1 2 3 9>&- > out &\n"
                      "read -r begun < f; echo '1 79' > x; exec 9>&-; wait $!; echo $?; sort out");
    CHECK_STR(r.out, "0\n1 0\n2 0\n3 0\n");
    CHECK_CONTAINS(r.err, "gpu-dispatch: GPU 1 is taken out of use: Xid 79");
}

TEST(set_ups_one_at_a_time)
{
    /* The directory exists only while a worker sets up. A second set-up at that time would fail. */
    struct ran r = sh("cat > w.sh <<'end'\n"
                      "mkdir busy || { echo '{\"ready\":false,\"error\":\"two at once\"}'; exit; }\n"
                      "sleep 0.1; rmdir busy\n"
                      "echo '{\"ready\":true}'\n"
                      "while read -r line; do i=${line#*:}; echo \"{\\\"id\\\":${i%%%%,*},\\\"output\\\":1}\"; done\n"
                      "end\n"
                      "gpu-dispatch run --gpus sim:4 --setup-jobs 1 --quiet --stream sh w.sh ::: a b c d e f");
    CHECK_STR(r.err, "");
    CHECK_EQ(r.status, 0);
}

TEST(a_set_up_that_takes_too_long)
{
    struct ran r = sh("gpu-dispatch run --gpus sim:1 --setup-timeout 0.2 --quiet --stream sleep 50 ::: a");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "worker 0 on GPU 0 ");
}

/* --- groups ------------------------------------------------------------------------- */

/* Two tasks that wait for each other, so that both workers run one. */
#define MEET "if [ {#} = 1 ]; then echo > f; else read -r x < f; fi; "

TEST(several_gpus_per_worker)
{
    CHECK_PRINTS(sh("mkfifo f; gpu-dispatch run --gpus sim:4 --gpus-per-worker 2 --quiet '" MEET
                    "echo {gpu} $GPU_DISPATCH_GPU_IDS $GPU_DISPATCH_GPU_ID; echo $CUDA_VISIBLE_DEVICES | tr , \\\\n | "
                    "grep -c ^GPU- #' ::: a b | sort"),
                 "0,1 0,1 0\n2\n2\n2,3 2,3 2\n");
}

TEST(groups_that_the_user_writes)
{
    CHECK_PRINTS(sh("mkfifo f; GPU_DISPATCH_SIM=4 gpu-dispatch run --gpus 0+2,1+3 --quiet '" MEET
                    "echo {gpu} #' ::: a b | sort"),
                 "0,2\n1,3\n");
}

TEST(the_best_connected_gpus)
{
    CHECK_PRINTS(sh("mkfifo f; GPU_DISPATCH_SIM=4,nvlink=0/1/1/0 gpu-dispatch run --gpus-per-worker 2 --quiet '" MEET
                    "echo {gpu} #' ::: a b | sort"),
                 "0,3\n1,2\n");
}

TEST(gpus_by_index)
{
    CHECK_PRINTS(sh("GPU_DISPATCH_SIM=4 CUDA_VISIBLE_DEVICES=3,1,2 gpu-dispatch run --gpus 0+2 --visible-devices index "
                    "--quiet 'echo {gpu} $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER #' ::: a"),
                 "0,2 3,2 PCI_BUS_ID\n");
    CHECK_REFUSED(sh("GPU_DISPATCH_SIM=1,mig=2 gpu-dispatch run --visible-devices index true ::: a"),
                  "gpu-dispatch: GPU 0 is a MIG instance, and CUDA_VISIBLE_DEVICES can name those by UUID only: set "
                  "visible devices to uuid, the default");
    CHECK_REFUSED(sh("gpu-dispatch run --gpus sim:1 --visible-devices number true ::: a"),
                  "gpu-dispatch: --visible-devices takes uuid or index, not \"number\"");
}

TEST(a_gpu_that_is_left_over_is_named)
{
    struct ran r = sh("gpu-dispatch run --gpus sim:3 --gpus-per-worker 2 'echo {gpu} #' ::: a 2>&1 | grep -v "
                      "'^[0-9]* task\\|^$'");
    CHECK_CONTAINS(r.out, "gpu-dispatch: GPU 2 is not used: too few devices are left for a group of 2\n");
    CHECK_CONTAINS(r.out, "0,1\n");
}

TEST(groups_that_are_refused)
{
    CHECK_REFUSED(
        sh("gpu-dispatch run --gpus sim:2 --gpus-per-worker 3 true ::: a"),
        "gpu-dispatch: --gpus sim:2: gpus_per_worker is 3, but only 2 devices can be used: choose more devices "
        "or a smaller gpus_per_worker");
    CHECK_REFUSED(sh("GPU_DISPATCH_SIM=2,mig=0/2 gpu-dispatch run --gpus 0+1 true ::: a"),
                  "gpu-dispatch: --gpus 0+1: GPU 1 is a MIG instance, and a process can use only one of those: a group "
                  "needs whole GPUs");
    CHECK_EQ(sh("gpu-dispatch run --gpus sim:2 --gpus-per-worker 0 true ::: a").status, 255);
    CHECK_STR(sh("GPU_DISPATCH_SIM=2 gpu-dispatch transcribe --gpus 0+1 a.wav").err,
              "gpu-dispatch: --gpus 0+1: a worker of a transcription uses one GPU, so groups are not possible: write a "
              "list such as 0,1, and each GPU gets its own worker\n");
}

TEST(the_map_of_groups)
{
    struct ran r = sh("gpu-dispatch run --gpus sim:4 --gpus-per-worker 2 -v true ::: a 2>&1 | grep -o '^gpu-dispatch: "
                      "worker .: GPU .'");
    CHECK_STR(r.out, "gpu-dispatch: worker 0: GPU 0\ngpu-dispatch: worker 0: GPU 1\ngpu-dispatch: worker 1: GPU 2\n"
                     "gpu-dispatch: worker 1: GPU 3\n");
}

TEST(logs_name_the_whole_group)
{
    struct ran r = sh("gpu-dispatch run --gpus sim:2 --gpus-per-worker 2 --quiet --joblog log --output out.jsonl "
                      "'true {gpu} #' ::: a; tail -n 1 log | cut -f 9; grep -o '\"gpu\":.*\\]' out.jsonl");
    CHECK_STR(r.out, "true '0,1' # a\n\"gpu\":0,\"gpus\":[0,1]\n");
}

TEST(a_gpu_of_a_group_that_is_lost)
{
    /* 0+1 waits for the lock until 2+3 has begun a task and GPU 3 has failed in the middle of it. */
    struct ran r = sh("mkfifo x f; exec 9> lock; flock 9\n"
                      "GPU_DISPATCH_SIM=4 GPU_DISPATCH_SIM_XID=x gpu-dispatch run --gpus-per-worker 2 --quiet "
                      "'if [ {gpu} = 2,3 ]; then echo > f; sleep 300; else flock lock true; fi; echo {} {gpu}' "
                      "::: 1 2 3 9>&- > out &\n"
                      "read -r begun < f; echo '3 79' > x; exec 9>&-; wait $!; echo $?; sort out");
    CHECK_STR(r.out, "0\n1 0,1\n2 0,1\n3 0,1\n");
    CHECK_CONTAINS(r.err, "gpu-dispatch: GPU 3 is taken out of use: Xid 79");
    CHECK_CONTAINS(r.err, "gpu-dispatch: GPU 2 is not used: GPU 3 of its group is out of use\n");
}

TEST(a_gpu_without_room_is_left_out)
{
    struct ran r = sh("GPU_DISPATCH_SIM=2,memory=24G,free=20G/2G gpu-dispatch run --quiet -j auto:6G 'echo {gpu} #' "
                      "::: a b c");
    CHECK_EQ(r.status, 0);
    CHECK_STR(r.out, "0\n0\n0\n");
    CHECK_STR(r.err, "gpu-dispatch: GPU 1 is not used: it has 2.0 GiB free, and 256 MiB of that stay in reserve: a "
                     "worker that needs 6.0 GiB does not fit\n");
}

TEST(a_worker_of_a_group_that_fails_to_set_up)
{
    struct ran r = sh("gpu-dispatch run --gpus sim:2 --gpus-per-worker 2 --quiet --stream false ::: a");
    CHECK_CONTAINS(r.err, "worker 0 on GPUs 0,1 failed to set up");
}

TEST(a_group_is_one_share_of_an_estimate)
{
    CHECK_STR(sh("mkdir d; echo 1 > d/a; echo 2 > d/b; GPU_DISPATCH_SIM=3 gpu-dispatch estimate --input-dir d --gpus "
                 "2,0+1 --json | grep -o '\"gpus\".*'")
                  .out,
              "\"gpus\":[{\"gpu\":2,\"files\":1,\"bytes\":2},{\"gpu\":0,\"files\":1,\"bytes\":2}]}\n");
}

/* --- gpus ------------------------------------------------------------------------------------ */

TEST(a_table_of_devices)
{
    struct ran r = sh("GPU_DISPATCH_SIM=2,memory=24G,free=20G,name=Foo,util=50,temp=40,power=75,numa=0/1,cpus=0-3/4-7 "
                      "gpu-dispatch gpus");
    CHECK_EQ(r.status, 0);
    CHECK_CONTAINS(r.out, "GPU  name");
    CHECK_CONTAINS(r.out, "Foo");
    CHECK_CONTAINS(r.out, "4.0 GiB / 24 GiB");
    CHECK_CONTAINS(r.out, " 50%");
    CHECK_CONTAINS(r.out, " 40 C");
    CHECK_CONTAINS(r.out, " 75 W");
    CHECK_CONTAINS(r.out, "NUMA node 1, CPUs 4-7");
    CHECK_CONTAINS(r.out, "     GPU-");
    CHECK_CONTAINS(r.out, "MIG off");
}

TEST(the_table_fits_80_columns)
{
    CHECK_STR(sh("GPU_DISPATCH_SIM=8,memory=999G,name=A_card_with_quite_a_long_name_for_a_card,power=700,mig=0/2/"
                 "on,numa=0,cpus=0-63,128-191 gpu-dispatch gpus | awk 'length > 80'")
                  .out,
              "");
}

TEST(devices_as_json)
{
    need("python3");
    CHECK_PRINTS(sh("GPU_DISPATCH_SIM=2,memory=24G,free=20G,temp=40,power=75,util=7,numa=0/1,cpus=0-3/4-7,name=Foo "
                    "gpu-dispatch gpus --json | python3 -c \"import json, sys\n"
                    "for d in json.load(sys.stdin): print(d['id'], d['index'], d['name'], d['uuid'][:4], "
                    "d['memory_total'], d['memory_free'], d['utilization'], "
                    "d['temperature'], d['power_mw'], d['numa_node'], d['cpus'], d['is_mig'], d['mig_enabled'], "
                    "d['processes'])\""),
                 "0 0 Foo GPU- 25769803776 21474836480 7 40 75000 0 0-3 False False []\n"
                 "1 1 Foo GPU- 25769803776 21474836480 7 40 75000 1 4-7 False False []\n");
}

TEST(gpus_shows_only_the_listed_devices)
{
    CHECK_STR(sh("GPU_DISPATCH_SIM=4 gpu-dispatch gpus --gpus 1,3 --json | grep -o '\"id\":.'").out,
              "\"id\":1\n\"id\":3\n");
    CHECK_REFUSED(sh("GPU_DISPATCH_SIM=2 gpu-dispatch gpus --gpus 1,7"),
                  "gpu-dispatch: --gpus 1,7: no GPU 7: the GPUs are 0-1");
}

TEST(no_devices)
{
    struct ran r = sh("GPU_DISPATCH_SIM=1 CUDA_VISIBLE_DEVICES= gpu-dispatch gpus");
    CHECK_EQ(r.status, 1);
    CHECK_STR(r.out, "");
    CHECK_EQ(count_lines(r.err), 1);
    r = sh("GPU_DISPATCH_SIM=1 CUDA_VISIBLE_DEVICES= gpu-dispatch gpus --json");
    CHECK_EQ(r.status, 1);
    CHECK_STR(r.out, "[]\n");
}

/* --- estimate ----------------------------------------------------------------------------------- */

#define TREE                                                                                                        \
    "mkdir -p d/sub; head -c 5000 /dev/zero > d/a.wav; head -c 3000 /dev/zero > d/b.wav; head -c 3000 /dev/zero > " \
    "d/sub/c.wav; echo > d/x.txt; "

TEST(the_amount_of_work)
{
    CHECK_PRINTS(sh(TREE "gpu-dispatch estimate --input-dir d --pattern '*.wav' --recursive --gpus sim:2"),
                 "3 files, 11 KiB\n"
                 "largest 4.9 KiB, median 2.9 KiB, smallest 2.9 KiB\n"
                 "mean 3.6 KiB, spread (standard deviation) 942 B\n"
                 "\n"
                 " GPU       files        size   share\n"
                 "   0           1     4.9 KiB   45.5%\n"
                 "   1           2     5.9 KiB   54.5%\n");
}

TEST(the_amount_of_work_as_json)
{
    CHECK_PRINTS(sh(TREE "gpu-dispatch estimate --input-dir d --pattern '*.wav' --gpus sim:2 --json"),
                 "{\"files\":2,\"total_bytes\":8000,\"largest_bytes\":5000,\"smallest_bytes\":3000,\"median_bytes\":"
                 "4000,\"mean_bytes\":4000.0,"
                 "\"deviation_bytes\":1000.0,\"gpus\":[{\"gpu\":0,\"files\":1,\"bytes\":5000},{\"gpu\":1,\"files\":1,"
                 "\"bytes\":3000}]}\n");
}

TEST(nothing_is_distributed_without_devices)
{
    CHECK_PRINTS(sh(TREE "GPU_DISPATCH_SIM=1 CUDA_VISIBLE_DEVICES= gpu-dispatch estimate --input-dir d --pattern 'a*'"),
                 "1 file, 4.9 KiB\nlargest 4.9 KiB, median 4.9 KiB, smallest 4.9 KiB\nmean 4.9 KiB, spread (standard "
                 "deviation) 0 B\n");
}

TEST(nothing_to_estimate)
{
    CHECK_REFUSED(sh(TREE "gpu-dispatch estimate --input-dir d --pattern '*.mp3'"),
                  "gpu-dispatch: no file in d matches *.mp3 (subdirectories are searched only with --recursive)");
    CHECK_REFUSED(sh("gpu-dispatch estimate"), "gpu-dispatch: estimate needs a directory: --input-dir DIR");
    CHECK_EQ(sh("gpu-dispatch estimate --input-dir nowhere").status, 255);
}

TEST_MAIN()
