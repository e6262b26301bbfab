# SPDX-License-Identifier: MIT
"""What is measured of each system, and how: tasks per second, and recovery after the loss of a node.

A system is a class with these functions, and its program calls measure() with it:

    start()                     starts what the nodes connect to
    start_node(name, slots)     starts a node, with self.spawn()
    submit(names)               adds tasks that run task(name) or task.sh; does not wait for them
    run_nothing(count)          runs so many tasks that do nothing on the nodes, and returns the seconds until the last result
    stop()

Recovery: a node runs tasks that do not end. A second node joins. When it has run a task, the first one is killed with
SIGKILL, all its processes at once. The figure is the time until the last of its tasks runs on the second node. The second
node has a free slot for each of them, so nothing is counted but noticing and starting. With SIGSTOP instead of SIGKILL the
node falls silent, as after a power cut: its connections stay open.
"""
import argparse
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import time
import uuid

SLOTS = 4
MARKS = 32  # more than any node takes in advance
TASK_SH = str(pathlib.Path(__file__).with_name("task.sh"))


class Skipped(Exception):
    """The system cannot be measured here; the text says why."""


def nothing(_=None):
    return None


def task(directory, name):
    """task.sh as a function."""
    subprocess.run(["sh", TASK_SH, directory, name], check=True)


class Node:
    """All processes of a node: those of its session, and those whose environment has its mark. Some programs start others in
    sessions of their own, and some overwrite their environment."""

    def __init__(self, command, name, **options):
        self.name, self.mark = name, f"GD_BENCH_MARK={uuid.uuid4().hex}"
        mark, value = self.mark.split("=")
        environment = {**os.environ, **options.pop("env", {}), mark: value, "GD_BENCH_NODE": name}
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True, **options)

    def processes(self):
        found = []
        for directory in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                state, _, _, session = (directory / "stat").read_text().rsplit(")", 1)[1].split()[:4]
                marked = self.mark.encode() in (directory / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if state != "Z" and (marked or int(session) == self.process.pid):
                found.append(int(directory.name))
        return found

    def signal_all(self, number):
        for pid in self.processes():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def end(self):
        while self.processes():  # one of them may have started another meanwhile
            self.signal_all(signal.SIGKILL)
        self.process.wait()


class Peer:
    name = ""

    def __init__(self, directory, arguments):
        self.directory, self.arguments, self.nodes = directory, arguments, []
        self.log = open(os.path.join(directory, "log"), "ab")

    def spawn(self, name, command, **options):
        node = Node(command, name, stdout=self.log, stderr=self.log, **options)
        self.nodes.append(node)
        return node

    def start(self):
        pass

    def stop(self):
        for node in reversed(self.nodes):
            node.end()


class Runs:
    """The lines that tasks write."""

    def __init__(self, directory):
        path = os.path.join(directory, "runs")
        os.mkfifo(path)
        self.file, self.rest = os.open(path, os.O_RDWR), b""

    def until(self, wanted, seconds):
        """Reads lines until wanted(name, node) is true for one. Returns whether that was in time."""
        end = time.monotonic() + seconds
        while True:
            while b"\n" in self.rest:
                line, self.rest = self.rest.split(b"\n", 1)
                if wanted(*line.decode().split()):
                    return True
            ready, _, _ = select.select([self.file], [], [], max(0, end - time.monotonic()))
            if not ready:
                return False
            self.rest += os.read(self.file, 65536)

    def until_all(self, names, node, seconds):
        left = set(names)

        def ran(name, where):
            if where == node:
                left.discard(name)
            return not left

        return self.until(ran, seconds)


def recovery(peer, directory, number, limit):
    """The seconds until all tasks of the lost node run on the other one; None: not within the limit."""
    runs = Runs(directory)
    holds = [f"hold-{i}" for i in range(SLOTS)]
    lost = peer.start_node("first", SLOTS)
    peer.submit(holds)
    if not runs.until_all(holds, "first", 120):
        raise Skipped("the first node did not start its tasks")
    peer.start_node("second", SLOTS)
    peer.submit([f"mark-{i}" for i in range(MARKS)])
    if not runs.until(lambda name, node: node == "second", 120):
        raise Skipped("the second node did not start a task")
    start = time.monotonic()
    lost.signal_all(number)
    return time.monotonic() - start if runs.until_all(holds, "second", limit) else None


def rate(peer, count, slots):
    peer.start_node("first", slots)
    peer.run_nothing(slots * 4)  # the node is there, and has loaded what it needs
    return count / peer.run_nothing(count)


def one(kind, what, arguments):
    arguments.what_now = what
    with tempfile.TemporaryDirectory(prefix="gd-bench-") as directory:
        peer = kind(directory, arguments)
        try:
            peer.start()
            if what == "rate":
                return rate(peer, arguments.tasks, arguments.slots)
            return recovery(peer, directory, signal.SIGKILL if what == "kill" else signal.SIGSTOP, arguments.limit)
        finally:
            peer.stop()
            peer.log.close()


def measure(kind):
    """Prints a line of JSON for each measurement: the values, or why there are none."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=10000)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--limit", type=float, default=60, help="seconds to wait for a recovery")
    parser.add_argument("--command", default="gpu-dispatch")
    parser.add_argument("--server", default="nats-server")
    parser.add_argument("what", nargs="+", choices=("rate", "kill", "silence"))
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended
    for what in arguments.what:
        line = {"name": f"queue_{kind.name}_{what}"}
        try:
            values = [one(kind, what, arguments) for _ in range(arguments.repeats)]
            if None in values:
                line["failed"] = f"not within {arguments.limit:g} s"
            else:
                line.update(unit="tasks/s" if what == "rate" else "s", median=sorted(values)[len(values) // 2], repeats=values)
        except (Skipped, OSError, ImportError, subprocess.SubprocessError) as error:
            line["failed"] = str(error) or type(error).__name__
        print(json.dumps(line), flush=True)


def beside_python(program):
    """The path of a program that was installed together with this Python."""
    path = os.path.join(os.path.dirname(sys.executable), program)
    if not os.path.exists(path):
        raise Skipped(f"{program} is not installed")
    return path
