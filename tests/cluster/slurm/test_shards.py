# SPDX-License-Identifier: MIT
"""Whole runs under Slurm, in each of its ways to start several processes: every input is run exactly once, and has
exactly one record.

    test_shards.py BUILD_DIRECTORY
"""
import os
import subprocess
import sys

import cases

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import work  # noqa: E402  # pylint: disable=wrong-import-position

COMMAND = f"{cases.build_directory()}/gpu-dispatch"
RUN = f"{COMMAND} run --shard auto --gpus sim:2 --journal run.db --resume --output out.jsonl ./task {{}} :::: list"
ONE_EACH = ("--nodes=3", "--ntasks-per-node=1")
EXAMPLES = os.path.join(os.environ["GD_SOURCE_ROOT"], "examples", "cluster")


def check_all(w, shards):
    """Nothing was interrupted, so nothing was run twice."""
    w.check(shards)
    assert sorted(text for text, _, _ in w.all_begun()) == sorted(w.inputs)


def an_array(cluster, directory):
    w = work.Work(directory, COMMAND)
    w.let_end()
    job = cluster.submit("--array=0-2", "--gres=gpu:2", "--wrap", RUN, cwd=directory)
    cluster.wait_end(job, count=3)
    check_all(w, 3)


def srun(_cluster, directory):
    w = work.Work(directory, COMMAND)
    w.let_end()
    start_srun(directory, RUN)
    check_all(w, 3)


def start_srun(directory, line):
    done = subprocess.run(["srun", *ONE_EACH, "--gres=gpu:2", "sh", "-c", line], cwd=directory, timeout=work.LIMIT_S,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr


def files_divided_by_size(_cluster, directory):
    """All shards start at the same time, and one of them makes the deal."""
    w = work.Work(directory, COMMAND)
    os.mkdir(f"{directory}/files")
    w.inputs = [f"files/{i}" for i in range(60)]
    for i, name in enumerate(w.inputs):
        w.write(name, i * i * "x")
    w.let_end()
    start_srun(directory, RUN.replace(":::: list", "--input-dir files").replace("./task {} ", "") + " './task {}'")
    check_all(w, 3)
    assert os.path.exists(f"{directory}/run.of-3.deal")


def an_array_of_sruns(cluster, directory):
    w = work.Work(directory, COMMAND)
    w.let_end()
    job = cluster.submit("--array=0-1", *ONE_EACH, "--gres=gpu:2", "--wrap", f"srun {RUN}", cwd=directory)
    cluster.wait_end(job, count=2)
    check_all(w, 6)


def the_same_array_again(cluster, directory):
    """All is done already: nothing is run."""
    w = work.Work(directory, COMMAND)
    w.let_end()
    for _ in range(2):
        job = cluster.submit("--array=0-2", "--wrap", RUN, cwd=directory)
        cluster.wait_end(job, count=3)
    check_all(w, 3)


def twins(cluster, directory):
    """The same array is submitted twice by mistake. The second one waits for the journals, and finds all done."""
    w = work.Work(directory, COMMAND)
    first = cluster.submit("--array=0-2", "--nodes=1", "--wrap", RUN, cwd=directory)
    w.wait_begun(lambda begun: len(begun) == 6)
    second = cluster.submit("--array=0-2", "--nodes=1", "--output=second-%a.out", "--wrap", RUN, cwd=directory)
    assert cluster.until(lambda: all(waits(f"{directory}/second-{k}.out") for k in range(3)))
    w.let_end()
    cluster.wait_end(first, count=3)
    cluster.wait_end(second, count=3)
    check_all(w, 3)


def waits(log):
    if not os.path.exists(log):
        return False
    with open(log, encoding="utf-8") as f:
        return "waiting" in f.read()


def run_example(cluster, directory, name, options, shards):
    w = work.Work(directory, COMMAND)
    w.let_end()
    job = cluster.submit(*options, "--gres=gpu:2", f"{EXAMPLES}/{name}", "list", "./task", cwd=directory)
    cluster.wait_end(job, count=3 if "--array=0-2" in options else 1)
    check_all(w, shards)


def the_example_of_an_array(cluster, directory):
    run_example(cluster, directory, "slurm_array.sh", ["--array=0-2"], 3)


def the_example_of_srun(cluster, directory):
    run_example(cluster, directory, "slurm_srun.sh", ["--nodes=3"], 3)


# For the scripts of the examples.
os.environ["PATH"] = f"{os.path.dirname(COMMAND)}:{os.environ['PATH']}"
cases.run([an_array, srun, files_divided_by_size, an_array_of_sruns, the_same_array_again, twins, the_example_of_an_array,
           the_example_of_srun])
