# SPDX-License-Identifier: MIT
"""What `--shard auto` finds in the environment that a real Slurm sets, for each way to start a process.

    test_environment.py BUILD_DIRECTORY

tests/unit/shard/test_shard_environment.c has the same environments and many more, as texts.
"""
import os
import subprocess

import cases

FIND = f"{cases.build_directory()}/tests/find_shard"
SUBMIT, SHELL = "sbatch", "sh"  # how a line is run: as a batch script, or by a shell outside of a job

WITHOUT_SRUN = "but this process was not started by srun"
SRUN3 = [f"{k}/3 task {k} of 3 of srun" for k in (1, 2, 3)]
ARRAY4 = [f"{k}/4 element {k} of 4 of the Slurm array" for k in (1, 2, 3, 4)]
SIX = [f"{3 * e + t - 3}/6 element {e} of 2 of the Slurm array, task {t} of 3 of srun" for e in (1, 2) for t in (1, 2, 3)]
ONE_EACH = "--nodes=3 --ntasks-per-node=1"

# How many elements the arrays have. Other jobs have one.
ELEMENTS = {"--array=0-3": 4, "--array=0-3%1": 4, "--array=1-7:2": 4, "--array=8-11": 4, "--array=3,7": 2, "--array=0-1": 2}

# What each process of the line prints: the shard, or parts of the error message (a tuple). $FIND writes it to a file.
TABLE = {
    "srun": (SHELL, f"srun {ONE_EACH} $FIND", SRUN3),
    "srun_with_pmi": (SHELL, f"srun --mpi=pmi2 {ONE_EACH} $FIND", SRUN3),
    "srun_in_a_batch_script": (SUBMIT, ONE_EACH, "srun $FIND", SRUN3),
    "srun_in_salloc": (SHELL, f"salloc --quiet {ONE_EACH} srun $FIND", SRUN3),
    "a_step_of_two_of_three_tasks": (SUBMIT, ONE_EACH, "srun --nodes=2 --ntasks=2 $FIND",
                                     ["1/2 task 1 of 2 of srun", "2/2 task 2 of 2 of srun"]),
    "a_heterogeneous_job": (SUBMIT, "--ntasks=1 : --nodes=2 --ntasks=2", "srun --het-group=0,1 $FIND", SRUN3),
    "a_batch_script_without_srun": (SUBMIT, ONE_EACH, "$FIND", [("SLURM_NTASKS=3: the job has 3 tasks", WITHOUT_SRUN)]),
    "nodes_without_srun": (SUBMIT, "--nodes=3", "$FIND", [("SLURM_JOB_NUM_NODES=3: the job has 3 nodes", WITHOUT_SRUN)]),
    "salloc_without_srun": (SHELL, f"salloc --quiet {ONE_EACH} $FIND", [("the job has 3 tasks", WITHOUT_SRUN)]),
    "a_batch_script_of_one_process": (SUBMIT, "--ntasks=1", "$FIND", [("there is only one process", "--array=0-15")]),
    "an_array": (SUBMIT, "--array=0-3", "$FIND", ARRAY4),
    "an_array_of_which_one_runs_at_a_time": (SUBMIT, "--array=0-3%1", "$FIND", ARRAY4),
    "an_array_with_a_step": (SUBMIT, "--array=1-7:2", "$FIND", ARRAY4),
    "an_array_without_the_submitter_s_environment": (SUBMIT, "--array=8-11 --export=NONE", "$FIND", ARRAY4),
    "an_array_of_one": (SUBMIT, "--array=5", "$FIND", ["1/1 element 1 of 1 of the Slurm array"]),
    "an_array_with_holes": (SUBMIT, "--array=3,7", "$FIND", 2 * [("SLURM_ARRAY_TASK_COUNT=2", "the array has holes")]),
    "an_array_and_srun": (SUBMIT, f"--array=0-1 {ONE_EACH}", "srun $FIND", SIX),
    "an_array_of_jobs_without_srun": (SUBMIT, f"--array=0-1 {ONE_EACH}", "$FIND",
                                      2 * [("each element of the array has 3 tasks", WITHOUT_SRUN)]),
    "world_size_without_rank": (SHELL, f"WORLD_SIZE=3 srun {ONE_EACH} $FIND",
                                3 * [("RANK is not set, WORLD_SIZE=3: torchrun sets all of them or none",)]),
    "world_size_of_another_world": (SHELL, f"WORLD_SIZE=24 RANK=9 srun {ONE_EACH} $FIND",
                                    3 * [("srun and torchrun number this process differently",)]),
    "auto_with_another_number": (SHELL, f"srun {ONE_EACH} $FIND auto/16",
                                 3 * [("auto/16, but the environment has 3 shards",)]),
    # A job that is submitted in a step has the variables of that step.
    "a_job_submitted_in_a_step": (SHELL, "srun --ntasks=1 sbatch --quiet --wait --nodes=3 --ntasks=3 --wrap \"$FIND\"",
                                  [("SLURM_NTASKS=3: the job has 3 tasks", WITHOUT_SRUN)]),
    # Here all of them agree. Only the processes show that it is a batch script.
    "a_job_like_the_step_in_which_it_is_submitted":
        (SHELL, f"srun {ONE_EACH} --output=/dev/null sh -c 'test $SLURM_PROCID = 2 || exit 0; "
         f"sbatch --quiet --wait {ONE_EACH} --wrap \"$FIND\"'", [("SLURM_NTASKS=3: the job has 3 tasks", WITHOUT_SRUN)]),
    "srun_in_a_job_submitted_in_a_step":
        (SHELL, f"srun {ONE_EACH} --output=/dev/null sh -c 'test $SLURM_PROCID = 2 || exit 0; "
         f"sbatch --quiet --wait {ONE_EACH} --wrap \"srun $FIND\"'", SRUN3),
    "an_array_submitted_in_a_step":
        (SHELL, "srun --ntasks=1 sbatch --quiet --wait --array=0-3 --wrap \"$FIND\"", ARRAY4),
    # Nothing in its environment says that it is not an element. docs/clusters.md says what to do.
    "a_job_submitted_in_an_array": (SUBMIT, "--array=0-1", "sbatch --wait --wrap \"$FIND\"",
                                    [f"{k}/2 element {k} of 2 of the Slurm array" for k in (1, 2)]),
    "a_job_submitted_in_an_array_without_its_variables":
        (SUBMIT, "--array=0-1", "for v in ID COUNT MIN MAX STEP; do unset SLURM_ARRAY_TASK_$v; done; "
         "sbatch --wait --wrap \"$FIND\"", 2 * [("there is only one process",)]),
}


def start(cluster, work, how, *rest):
    """Runs the line in a job or a shell, and waits for its end."""
    *words, line, expected = rest
    line = line.replace("$FIND", f"{work}/find")
    if how == SHELL:
        subprocess.run(["sh", "-c", line], cwd=work, check=True, timeout=cases.slurm.LIMIT_S)
        return expected
    options = words[0].split()
    job = cluster.submit(*options, "--wrap", line, cwd=work)
    cluster.wait_end(job, count=ELEMENTS.get(options[0], 1))
    return expected


def case_of(name, row):
    def case(cluster, work):
        # One file for each process, because several processes print at the same time.
        with open(f"{work}/find", "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\n{FIND} \"$@\" >{work}/found.$(hostname).$$.tmp\n"
                    f"mv {work}/found.$(hostname).$$.tmp {work}/found.$(hostname).$$\n")
        os.chmod(f"{work}/find", 0o755)
        expected = start(cluster, work, *row)
        found = sorted(open(f"{work}/{name}", encoding="utf-8").read().strip()
                       for name in os.listdir(work) if name.startswith("found."))
        assert len(found) == len(expected), f"{len(found)} processes instead of {len(expected)}: {found}"
        for text, wanted in zip(found, expected):
            if isinstance(wanted, str):
                assert text == wanted, f"{text}\ninstead of {wanted}"
            else:
                assert text.startswith("error: ") and all(part in text for part in wanted), f"{text}\nlacks {wanted}"
    case.__name__ = name
    return case


cases.run([case_of(name, row) for name, row in TABLE.items()])
