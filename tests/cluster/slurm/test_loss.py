# SPDX-License-Identifier: MIT
"""Jobs that Slurm ends in the middle and starts again: requeue, and nodes that die. Every input has exactly one record
afterwards, and the tasks that were done before are not run again.

    test_loss.py BUILD_DIRECTORY
"""
import os
import sys

import cases

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import work  # noqa: E402  # pylint: disable=wrong-import-position

COMMAND = f"{cases.build_directory()}/gpu-dispatch"
# The tasks that run at the end of the grace are ended, long before Slurm would kill everything (slurm.KILL_WAIT_S).
RUN = (f"{COMMAND} run --shard auto --gpus sim:2 --journal run.db --resume --output out.jsonl --stop-grace 2s "
       "./task {} :::: list")
# Writes the exit status of the command to a file. The shell gets SIGTERM too, and must not end before the command.
SCRIPT = """\
#!/bin/sh
trap : TERM
"$@"
status=$?
echo $status >status.$SLURM_ARRAY_TASK_ID.${SLURM_RESTART_COUNT:-0}
exit $status
"""
ARRAY = ("--array=0-2", "--nodes=1", "--exclusive", "--requeue", "--open-mode=append")


def begin(cluster, directory, *words, line):
    """Submits the job. When it returns, 15 tasks may have ended, six more are running, and cannot end."""
    w = work.Work(directory, COMMAND)
    w.write("script", SCRIPT)
    job = cluster.submit(*words, "--wrap", line, cwd=directory)
    w.begin(6, 15)
    return w, job


def element_on(cluster, job, element):
    return cluster.command("squeue", "--noheader", "--format=%N", f"--jobs={job}_{element}").strip()


def check_after_restart(w, before, shards=3):
    """All is done. Only tasks that were running when the job ended were run twice."""
    w.check(shards)
    attempts = [text for text, _, _ in w.all_begun()]
    twice = {text for text in attempts if attempts.count(text) > 1}
    assert len(attempts) - len(w.inputs) == len(twice) <= 6, twice
    assert twice <= {text for text, _, _ in before}, twice


def status_of(w, element, restart):
    with open(f"{w.at}/status.{element}.{restart}", encoding="utf-8") as f:
        return int(f.read())


def an_element_is_requeued(cluster, directory):
    w, job = begin(cluster, directory, *ARRAY, line=f"srun ./script {RUN}")
    before = list(w.begun)
    cluster.command("scontrol", "requeue", f"{job}_1")
    w.wait_begun(lambda begun: any(restarts == 1 for _, restarts, _ in begun))
    w.let_end()
    cluster.wait_end(job, count=3)
    check_after_restart(w, before)
    assert [status_of(w, 1, 0), status_of(w, 1, 1)] == [143, 0]
    assert [status_of(w, element, 0) for element in (0, 2)] == [0, 0]


def a_whole_job_is_requeued(cluster, directory):
    w, job = begin(cluster, directory, "--nodes=3", "--ntasks-per-node=1", "--requeue", line=f"srun {RUN}")
    before = list(w.begun)
    cluster.command("scontrol", "requeue", job)
    w.wait_begun(lambda begun: any(restarts == 1 for _, restarts, _ in begun))
    w.let_end()
    cluster.wait_end(job)
    check_after_restart(w, before)


def a_node_of_an_array_dies(cluster, directory):
    """Its element runs again on another node. The other elements do not notice."""
    w, job = begin(cluster, directory, *ARRAY, line=f"./script {RUN}")
    before, node = list(w.begun), element_on(cluster, job, 1)
    cluster.nodes[node].kill()
    cluster.wait_end(job, ("NODE_FAIL",))
    w.let_end()
    events = cluster.wait_end(job, count=3)
    check_after_restart(w, before)
    assert [e.nodes for e in events if e.element == "1"] != [node], events
    assert [status_of(w, 0, 0), status_of(w, 1, 1), status_of(w, 2, 0)] == [0, 0, 0]


def a_node_of_a_job_dies(cluster, directory):
    """Slurm ends the job on all nodes, and starts it again when it has three nodes."""
    w, job = begin(cluster, directory, "--nodes=3", "--ntasks-per-node=1", "--requeue", line=f"srun {RUN}")
    before = list(w.begun)
    cluster.nodes["n2"].kill()
    cluster.wait_end(job, ("NODE_FAIL",))
    cluster.start_node("n2")
    w.let_end()
    cluster.wait_end(job)
    check_after_restart(w, before)


cases.run([an_element_is_requeued, a_whole_job_is_requeued, a_node_of_an_array_dies, a_node_of_a_job_dies])
