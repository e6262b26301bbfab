# SPDX-License-Identifier: MIT
"""The Slurm of the tests is taken down completely, even if the test is killed, and two of them can run side by side.

    test_fixture.py BUILD_DIRECTORY

Started with the argument "hold", this file brings up a second Slurm with a job in it, prints its directory, and waits.
"""
import os
import signal
import subprocess
import sys

import cases
import guard
import slurm


def hold(directory):
    """The body of the second Slurm."""
    cases.clean_environment(directory)
    cluster = slurm.Cluster(directory, nodes=1)
    os.mkfifo(f"{directory}/begun")
    cluster.submit("--output=/dev/null", "--wrap", "sleep 4321 & echo $$ $! > begun; wait", cwd=directory)
    with open(f"{directory}/begun", encoding="utf-8") as begun:
        print(directory, *begun.readline().split(), flush=True)
    signal.pause()


def processes_of(directory):
    """The processes that have the directory in their environment: the daemons, the jobs and the test itself."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/environ", "rb") as environment:
                if name.isdigit() and f"{directory}/slurm.conf".encode() in environment.read():
                    found.append(int(name))
        except OSError:
            pass  # not a process, or it has ended
    return found


def kill_second(cluster, signals):
    """Starts a second Slurm, ends it with a signal, and checks that nothing is left of it."""
    second = subprocess.Popen([sys.executable, __file__, "hold"], stdout=subprocess.PIPE, text=True,
                              env={k: v for k, v in os.environ.items() if not k.startswith("SLURM_")})
    directory, *jobs = second.stdout.readline().split()
    assert directory != cluster.at
    cluster.command("srun", "--nodes=3", "true")  # the first one works as before
    pids = processes_of(directory)
    assert len(pids) >= 5 and {int(pid) for pid in jobs} <= set(pids), (pids, jobs)
    for number in signals:
        second.send_signal(number)
    second.wait(slurm.LIMIT_S)
    second.stdout.read()  # ends when the guard and the body of the second one have ended
    assert not processes_of(directory), processes_of(directory)
    assert not os.path.exists(directory)
    cluster.command("srun", "--nodes=3", "true")


def a_killed_test_leaves_nothing(cluster, _work):
    kill_second(cluster, [signal.SIGKILL])


def a_terminated_test_leaves_nothing(cluster, _work):
    kill_second(cluster, [signal.SIGTERM])


def a_node_that_is_killed_takes_its_jobs_along(cluster, work):
    os.mkfifo(f"{work}/begun")
    cluster.submit("--nodelist=n2", "--no-requeue", "--wrap", "setsid sleep 4320 & echo $! > begun; wait", cwd=work)
    with open(f"{work}/begun", encoding="utf-8") as begun:
        pid = int(begun.readline())
    node = cluster.nodes["n2"].pid
    cluster.nodes["n2"].kill()
    assert not os.path.exists(f"/proc/{pid}") and not os.path.exists(f"/proc/{node}")


if __name__ == "__main__" and sys.argv[1] == "hold":
    guard.run(hold)
cases.run([a_killed_test_leaves_nothing, a_terminated_test_leaves_nothing, a_node_that_is_killed_takes_its_jobs_along])
