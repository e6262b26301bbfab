# SPDX-License-Identifier: MIT
"""Jobs that a more urgent job preempts. Slurm sends SIGTERM, at the end of the grace time (slurm.GRACE_S) two more, and
SIGKILL after slurm.KILL_WAIT_S. A batch script that does not use srun gets only those at the end. A job that ends
within the grace time has ended: Slurm does not start it again, so the scripts of the examples ask for it.

    test_preemption.py BUILD_DIRECTORY
"""
import os
import sys

import cases

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import work  # noqa: E402  # pylint: disable=wrong-import-position

COMMAND = f"{cases.build_directory()}/gpu-dispatch"
EXAMPLES = os.path.join(os.environ["GD_SOURCE_ROOT"], "examples", "cluster")
ARRAY = ("--array=0-2", "--nodes=1", "--exclusive", "--requeue", "--open-mode=append", "--output=log.%a")
RUN = f"{COMMAND} run --shard auto --gpus sim:2 --journal run.db --resume --output out.jsonl"
DRAINS = "terminated: 2 running tasks may finish"


def submit(cluster, directory, *words):
    """An array takes all nodes. When this returns, 15 tasks may have ended and six are running."""
    w = work.Work(directory, COMMAND)
    job = cluster.submit(*ARRAY, *words, cwd=directory)
    w.begin(6, 15)
    return w, job


def preempt(cluster, w):
    """An urgent job needs all nodes."""
    return cluster.submit("--partition=urgent", "--nodes=3", "--exclusive", "--wrap", "true", cwd=w.at)


def logs(w):
    text = ""
    for element in range(3):
        with open(f"{w.at}/log.{element}", encoding="utf-8") as f:
            text += f.read()
    return text


def finish(cluster, w, job, twice):
    """Lets all tasks end, and checks that this many tasks were run twice."""
    w.let_end()
    cluster.wait_end(job, count=3)
    w.check(3)
    assert len(w.all_begun()) == len(w.inputs) + twice, len(w.begun)


def tasks_that_end_within_the_grace(cluster, directory):
    """The script of the example. The running tasks end, no others are started, and nothing is run twice."""
    w, job = submit(cluster, directory, "--gres=gpu:2", f"{EXAMPLES}/slurm_array.sh", "list", "./task")
    urgent = preempt(cluster, w)
    assert cluster.until(lambda: logs(w).count(DRAINS) == 3), logs(w)
    w.let_end(6)
    cluster.wait_end(urgent)
    assert len(w.all_begun()) == 21
    finish(cluster, w, job, twice=0)


def a_cancelled_job_is_not_started_again(cluster, directory):
    """The script of the example does not ask for it."""
    w, job = submit(cluster, directory, "--gres=gpu:2", f"{EXAMPLES}/slurm_array.sh", "list", "./task")
    cluster.command("scancel", job)
    assert cluster.until(lambda: logs(w).count(DRAINS) == 3), logs(w)
    w.let_end(6)
    cluster.wait_end(job, ("CANCELLED",), count=3)
    assert cluster.until(lambda: "COMPLETING" not in cluster.command("squeue", "--noheader", "--format=%T"))
    assert not cluster.command("squeue", "--noheader")
    assert len(w.all_begun()) == 21
    job = cluster.submit(*ARRAY, "--gres=gpu:2", f"{EXAMPLES}/slurm_array.sh", "list", "./task", cwd=directory)
    finish(cluster, w, job, twice=0)


def the_time_limit(cluster, directory):
    """Slurm sends SIGTERM before the limit, as the script of the example wants, and the script starts the job again. Slurm
    looks at the limits every 30 seconds, and sends the signal up to 30 seconds too early: here 10 to 40 seconds after
    the start."""
    w, job = submit(cluster, directory, "--gres=gpu:2", "--time=2", "--signal=TERM@80", f"{EXAMPLES}/slurm_array.sh",
                    "list", "./task")
    assert cluster.until(lambda: logs(w).count(DRAINS) == 3), logs(w)
    w.let_end(6)
    finish(cluster, w, job, twice=0)
    assert any(restarts == 1 for _, restarts, _ in w.begun)


def tasks_that_do_not_end_within_the_grace(cluster, directory):
    """They are ended after --stop-grace, and run again later. The script stays until Slurm ends it."""
    w, job = submit(cluster, directory, "--wrap",
                    f"trap : TERM; srun {RUN} --stop-grace 3s ./task {{}} :::: list; s=$?; echo status $s; "
                    "test $s != 143 || sleep 4321")
    cluster.wait_end(preempt(cluster, w))
    assert logs(w).count("status 143\n") == 3, logs(w)
    finish(cluster, w, job, twice=6)


def without_srun(cluster, directory):
    """SIGTERM comes when the grace time is over."""
    w, job = submit(cluster, directory, "--wrap",
                    f"trap : TERM; {RUN} --stop-grace 3s ./task {{}} :::: list; echo status $?")
    cluster.wait_end(preempt(cluster, w))
    assert logs(w).count("status 143\n") == 3, logs(w)
    finish(cluster, w, job, twice=6)


def a_grace_that_is_too_long(cluster, directory):
    """All three SIGTERMs come, and then SIGKILL in the middle of tasks. Nothing is lost."""
    w, job = submit(cluster, directory, "--wrap", f"exec srun {RUN} --stop-grace 10m ./task {{}} :::: list")
    cluster.wait_end(preempt(cluster, w))
    assert logs(w).count(DRAINS) == 3, logs(w)
    finish(cluster, w, job, twice=6)


# For the script of the example.
os.environ["PATH"] = f"{os.path.dirname(COMMAND)}:{os.environ['PATH']}"
cases.run([tasks_that_end_within_the_grace, a_cancelled_job_is_not_started_again, the_time_limit,
           tasks_that_do_not_end_within_the_grace, without_srun, a_grace_that_is_too_long])
